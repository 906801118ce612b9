//! The memory under the stream by itself: where its bytes lie, and what it gives to whoever gathers blocks.

use fdd_io::filebuf::Buffer;

#[test]
fn blocks_are_put_together_in_the_memory_that_was_lent_and_nowhere_else() {
    let mut memory = *b"........";
    let mut buffer = Buffer::over(&mut memory[..4]);
    assert!(buffer.keep(b"abc"));
    assert_eq!((buffer.held(), buffer.room()), (&b"abc"[..], 1));
    let mut given = Vec::new();
    let result = buffer.blocks(b"defg", |block| {
        given.push(block.to_vec());
        Ok::<(), ()>(())
    });
    assert_eq!((result, given), ((4, Ok(())), vec![b"abcd".to_vec()]));
    assert_eq!(buffer.held(), b"efg");
    assert_eq!(&memory, b"efgd....", "nothing beyond the memory that was lent");
}

#[test]
fn a_chunk_is_kept_behind_what_was_not_passed_on_whatever_was() {
    for passed in 0..=4 {
        let mut buffer = Buffer::with_capacity(4);
        assert!(buffer.keep(b"abcd"));
        buffer.consume(passed);
        assert!(!buffer.keep(&b"efghi"[..passed + 1]), "{passed} and one");
        assert_eq!(buffer.held(), &b"abcd"[passed..], "nothing changed");
        assert!(buffer.keep(&b"efgh"[..passed]), "{passed}");
        assert_eq!(buffer.held(), [&b"abcd"[passed..], &b"efgh"[..passed]].concat());
    }
}

#[test]
fn one_byte_is_kept_like_any_chunk() {
    let mut buffer = Buffer::with_slack(3, 3);
    for byte in b"abc" {
        assert!(buffer.keep(&[*byte]));
    }
    assert!(!buffer.keep(b"d"), "the slack holds nothing");
    assert!(buffer.keep(b""));
    assert_eq!(buffer.held(), b"abc");
}

#[test]
fn moved_to_the_front_the_held_bytes_begin_the_memory() {
    let mut buffer = Buffer::over(*b"........");
    assert!(buffer.keep(b"abcdef"));
    buffer.consume(4);
    buffer.move_to_front();
    assert_eq!((buffer.held(), buffer.behind()), (&b"ef"[..], &b""[..]));
    assert!(buffer.keep(b"ghijkl"));
    assert_eq!(&buffer.into_memory(), b"efghijkl");
}

#[test]
fn the_room_is_padded_and_no_more() {
    let mut buffer = Buffer::with_slack(4, 2);
    assert!(buffer.keep(b"abc"));
    buffer.consume(1);
    buffer.pad(b'.');
    assert_eq!((buffer.held(), buffer.room()), (&b"bc.."[..], 0));
    assert_eq!(&buffer.into_memory()[..], b"bc..\0\0");
}

#[test]
fn blocks_are_the_stream_cut_up_however_the_chunks_lie() {
    let stream: Vec<u8> = (0..97).collect();
    for block in 1..20 {
        for chunk in 1..30 {
            let (mut buffer, mut given) = (Buffer::with_capacity(block), Vec::new());
            for chunk in stream.chunks(chunk) {
                let (taken, result) = buffer.blocks(chunk, |block| {
                    given.push(block.to_vec());
                    Ok::<(), ()>(())
                });
                assert_eq!((taken, result), (chunk.len(), Ok(())));
                assert!(buffer.len() < block, "a whole block goes at once");
            }
            assert!(given.iter().all(|given| given.len() == block));
            given.push(buffer.take());
            assert_eq!(given.concat(), stream, "blocks of {block} from chunks of {chunk}");
        }
    }
}

#[test]
fn where_there_are_no_blocks_none_is_given() {
    let mut buffer = Buffer::with_capacity(0);
    let result = buffer.blocks(&[], |block| -> Result<(), ()> { panic!("a block of {} bytes", block.len()) });
    assert_eq!(result, (0, Ok(())));
    let (mut buffer, mut given) = (Buffer::with_capacity(4), 0);
    for (chunk, blocks) in [(&b""[..], 0), (b"abc", 0), (b"", 0), (b"d", 1), (b"", 1), (b"efgh", 2), (b"", 2)] {
        let (taken, result) = buffer.blocks(chunk, |block| {
            given += 1;
            if block.len() == 4 { Ok(()) } else { Err(()) }
        });
        assert_eq!((taken, result, given), (chunk.len(), Ok(()), blocks));
    }
}
