//! The pipe inside one process. Small enough for Miri, which runs all of it.

use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use super::{ATOMIC, Options, Reader, Writer, spsc};

/// Miri is a thousand times slower.
const fn few(count: usize) -> usize {
    if cfg!(miri) { count / 50 } else { count }
}

/// A stream's length: more than any capacity here.
fn some(count: usize, most: usize) -> usize {
    if cfg!(miri) { (2 * ATOMIC + 1000).min(count) } else { count.clamp(5 * ATOMIC, most) }
}

fn pipe(capacity: usize) -> (Writer, Reader) {
    Options::new(capacity).threads().expect("memory")
}

/// Bytes with period 251, so that a piece in the wrong place shows.
fn pattern(from: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(|at| u8::try_from(at % 251).expect("below 251")).collect()
}

#[test]
fn bytes_come_out_in_the_order_in_which_they_went_in() {
    for (options, chunk) in [
        (Options::new(ATOMIC), 1),
        (Options::new(ATOMIC), 4097),
        (Options::new(16 * ATOMIC), 100),
        (Options::new(16 * ATOMIC).fair(), 20_000),
    ] {
        let (mut writer, mut reader) = options.threads().expect("memory");
        let total = some(chunk * few(2000), 2_000_000);
        let thread = std::thread::spawn(move || {
            let all = pattern(0, total);
            for piece in all.chunks(chunk) {
                writer.write_all(piece).expect("a reader");
            }
        });
        let mut all = Vec::new();
        reader.read_to_end(&mut all).expect("a sound pipe");
        thread.join().expect("no panic");
        assert!(all == pattern(0, total), "{chunk}");
    }
}

#[test]
fn an_atomic_write_is_never_mixed_with_another_and_read_at_once() {
    let (writer, mut reader) = pipe(4 * ATOMIC);
    let writers = 3u8;
    let pieces = few(1000);
    let threads: Vec<_> = (0..writers)
        .map(|name| {
            let mut writer = writer.another().expect("a seat");
            std::thread::spawn(move || {
                for number in 0..pieces {
                    let len = if number % 7 == 0 { ATOMIC } else { 600 };
                    let mut piece = vec![name; len];
                    piece[1..3].copy_from_slice(&u16::try_from(len).expect("small").to_ne_bytes());
                    assert_eq!(writer.write(&piece).expect("a reader"), len);
                }
            })
        })
        .collect();
    drop(writer);
    let mut count = 0;
    let mut head = [0; 3];
    loop {
        match reader.read(&mut head).expect("a sound pipe") {
            0 => break,
            len => assert_eq!(len, 3, "the head of a piece was cut"),
        }
        let len = usize::from(u16::from_ne_bytes([head[1], head[2]]));
        let mut rest = vec![0; len - 3];
        assert_eq!(reader.try_read(&mut rest).expect("all of the piece"), len - 3, "a piece has a gap");
        assert!(rest.iter().all(|&byte| byte == head[0]), "a piece is mixed");
        count += 1;
    }
    assert_eq!(count, pieces * usize::from(writers));
    for thread in threads {
        thread.join().expect("no panic");
    }
}

#[test]
fn many_readers_and_writers_lose_nothing_and_double_nothing() {
    for options in [Options::new(ATOMIC), Options::new(ATOMIC).fair(), Options::new(ATOMIC).overtakes(3)] {
        let (writer, reader) = options.threads().expect("memory");
        let each = few(2000);
        let writers: Vec<_> = (0..3u64)
            .map(|name| {
                let mut writer = writer.another().expect("a seat");
                std::thread::spawn(move || {
                    for number in 0..each as u64 {
                        writer.write_all(&(name << 32 | number).to_ne_bytes()).expect("a reader");
                    }
                })
            })
            .collect();
        let readers: Vec<_> = (0..3)
            .map(|_| {
                let mut reader = reader.another().expect("a seat");
                std::thread::spawn(move || {
                    let (mut all, mut piece) = (Vec::new(), [0; 8]);
                    while reader.read(&mut piece).expect("a sound pipe") == 8 {
                        all.push(u64::from_ne_bytes(piece));
                    }
                    all
                })
            })
            .collect();
        drop((writer, reader));
        let mut all = Vec::new();
        for thread in readers {
            let part = thread.join().expect("no panic");
            for name in 0..3 {
                assert!(part.iter().filter(|&&word| word >> 32 == name).is_sorted(), "out of order");
            }
            all.extend(part);
        }
        all.sort_unstable();
        assert!(
            all.iter().copied().eq((0..3).flat_map(|name| (0..each as u64).map(move |number| name << 32 | number)))
        );
        for thread in writers {
            thread.join().expect("no panic");
        }
    }
}

#[test]
fn the_capacity_is_what_fits_and_no_more() {
    let (mut writer, mut reader) = pipe(ATOMIC + 1);
    assert_eq!(writer.try_write(&[1; 3 * ATOMIC]).expect("space"), 2 * ATOMIC);
    assert_eq!(writer.try_write(&[1]).expect_err("full").kind(), ErrorKind::WouldBlock);
    let mut piece = [0; 10];
    assert_eq!(reader.try_read(&mut piece).expect("bytes"), 10);
    assert_eq!(writer.try_write(&[2; 11]).expect_err("ten fit, and it is one piece").kind(), ErrorKind::WouldBlock);
    assert_eq!(writer.try_write(&[2; 10]).expect("space"), 10);
    assert_eq!(Options::new(usize::MAX).threads().expect_err("too much").kind(), ErrorKind::OutOfMemory);
}

#[test]
fn the_end_comes_when_the_last_writer_is_gone_and_behind_all_bytes() {
    let (mut writer, mut reader) = pipe(ATOMIC);
    let another = writer.another().expect("a seat");
    writer.write_all(b"last").expect("a reader");
    drop(writer);
    let mut piece = [0; 10];
    assert_eq!(reader.try_read(&mut piece).expect("bytes"), 4);
    assert_eq!(reader.try_read(&mut piece).expect_err("a writer is left").kind(), ErrorKind::WouldBlock);
    assert_eq!(
        reader.read_timeout(&mut piece, Duration::from_millis(1)).expect_err("no byte").kind(),
        ErrorKind::TimedOut
    );
    drop(another);
    assert_eq!(reader.read(&mut piece).expect("the end"), 0);
    let mut again = reader.writer().expect("a seat");
    again.write_all(b"more").expect("a reader");
    assert_eq!(reader.read(&mut piece).expect("bytes"), 4);
}

#[test]
fn a_writer_without_readers_has_a_broken_pipe() {
    let (mut writer, reader) = pipe(ATOMIC);
    drop(reader);
    assert_eq!(writer.write(b"x").expect_err("nobody reads").kind(), ErrorKind::BrokenPipe);
    assert_eq!(writer.reserve(1).expect_err("nobody reads").kind(), ErrorKind::BrokenPipe);
}

#[test]
fn a_waiting_writer_is_told_that_the_last_reader_left() {
    let (mut writer, reader) = pipe(ATOMIC);
    writer.write_all(&[0; ATOMIC]).expect("space");
    let thread = std::thread::spawn(move || writer.write(b"x"));
    drop(reader);
    assert_eq!(thread.join().expect("no panic").expect_err("nobody reads").kind(), ErrorKind::BrokenPipe);
}

#[test]
fn more_ends_than_it_was_made_for_are_refused_and_seats_are_used_again() {
    let (writer, reader) = Options::new(1).ends(3).threads().expect("memory");
    for _ in 0..3 {
        let third = writer.another().expect("a seat");
        assert_eq!(reader.another().expect_err("three ends are there").kind(), ErrorKind::QuotaExceeded);
        drop(third);
    }
}

#[test]
fn reserved_space_is_written_when_committed_and_never_was_when_dropped() {
    let (mut writer, mut reader) = pipe(ATOMIC);
    let mut behind = writer.another().expect("a seat");
    let mut space = writer.reserve(10).expect("space");
    assert_eq!(space.len(), 10);
    space[..3].copy_from_slice(b"one");
    behind.write_all(b"two").expect("space");
    let mut piece = [0; 10];
    assert_eq!(reader.try_read(&mut piece).expect_err("it waits for what is reserved").kind(), ErrorKind::WouldBlock);
    space.commit(3).expect("a sound pipe");
    assert_eq!(reader.try_read(&mut piece).expect("bytes"), 3);
    assert_eq!(&piece[..3], b"one");
    assert_eq!(reader.try_read(&mut piece).expect("bytes"), 3);
    assert_eq!(&piece[..3], b"two");
    drop(writer.reserve(5).expect("space"));
    behind.write_all(b"three").expect("space");
    let filled = reader.filled(100).expect("bytes");
    assert_eq!(&*filled, b"three");
    filled.release();
    // Nothing is lost of the capacity.
    for _ in 0..3 {
        assert_eq!(writer.try_write(&[7; ATOMIC]).expect("all of it"), ATOMIC);
        let mut len = 0;
        while len < ATOMIC {
            len += reader.filled(ATOMIC).expect("bytes").len();
        }
    }
    drop((writer, behind));
    assert!(reader.filled(1).expect("the end").is_empty());
}

/// A writer's reservation of 10 bytes of which 3 are committed, with `two` behind it by another.
fn hole_before_two(writer: &mut Writer, behind: &mut Writer) {
    let mut space = writer.reserve(10).expect("space");
    space[..3].copy_from_slice(b"one");
    behind.write_all(b"two").expect("space");
    space.commit(3).expect("a sound pipe");
}

#[test]
fn what_was_reserved_and_not_committed_is_not_lent_to_a_reader() {
    let (mut writer, mut reader) = pipe(ATOMIC);
    let mut behind = writer.another().expect("a seat");
    hole_before_two(&mut writer, &mut behind);
    let mut all = Vec::new();
    while all.len() < 6 {
        all.extend_from_slice(&reader.filled(100).expect("bytes"));
    }
    assert_eq!(all, b"onetwo");
    assert_eq!(reader.try_read(&mut [0; 10]).expect_err("no more").kind(), ErrorKind::WouldBlock);
}

#[test]
fn a_writer_claims_nothing_more_while_it_left_a_hole() {
    let (mut writer, mut reader) = pipe(4 * ATOMIC);
    let mut behind = writer.another().expect("a seat");
    hole_before_two(&mut writer, &mut behind);
    let large = pattern(0, ATOMIC + 1);
    assert_eq!(writer.try_write(&large).expect_err("its hole is not passed").kind(), ErrorKind::WouldBlock);
    let mut piece = [0; 10];
    assert_eq!(reader.try_read(&mut piece).expect("bytes"), 3);
    assert_eq!(reader.try_read(&mut piece).expect("bytes"), 3);
    assert_eq!(&piece[..3], b"two");
    assert_eq!(writer.try_write(&large).expect("space"), ATOMIC + 1);
    let mut all = vec![0; ATOMIC + 1];
    reader.read_exact(&mut all).expect("bytes");
    assert!(all == large);
}

#[test]
fn a_reservation_that_is_used_up_leaves_no_hole() {
    let (mut writer, mut reader) = pipe(4 * ATOMIC);
    let mut behind = writer.another().expect("a seat");
    let mut space = writer.reserve(3).expect("space");
    space.copy_from_slice(b"one");
    behind.write_all(b"two").expect("space");
    space.commit(3).expect("a sound pipe");
    assert_eq!(writer.try_write(&[3; ATOMIC + 1]).expect("its claim has ended"), ATOMIC + 1);
    let mut all = vec![0; ATOMIC + 7];
    reader.read_exact(&mut all).expect("bytes");
    assert_eq!(&all[..8], b"onetwo\x03\x03");
}

#[test]
fn an_end_takes_another_seat_than_that_of_a_hole() {
    let (mut writer, mut reader) = pipe(ATOMIC);
    let mut behind = writer.another().expect("a seat");
    hole_before_two(&mut writer, &mut behind);
    drop(writer);
    let mut third = behind.another().expect("a seat");
    third.write_all(b"three").expect("space");
    let mut all = [0; 11];
    reader.read_exact(&mut all).expect("bytes");
    assert_eq!(&all, b"onetwothree");
}

#[test]
fn reserved_space_ends_where_the_memory_does() {
    let (mut writer, mut reader) = pipe(2 * ATOMIC);
    let first = ATOMIC + ATOMIC / 2;
    assert_eq!(writer.write(&pattern(0, first)).expect("space"), first);
    let mut all = vec![0; first];
    reader.read_exact(&mut all).expect("bytes");
    let mut at = first;
    for len in [ATOMIC / 2, ATOMIC] {
        let mut space = writer.reserve(ATOMIC).expect("space");
        assert_eq!(space.len(), len);
        space.copy_from_slice(&pattern(at, len));
        space.commit(len).expect("a sound pipe");
        at += len;
    }
    all.resize(at, 0);
    reader.read_exact(&mut all[first..]).expect("bytes");
    assert!(all == pattern(0, at));
}

#[test]
fn a_full_pipe_refuses_a_large_write_that_does_not_wait() {
    let (mut writer, _reader) = pipe(ATOMIC);
    assert_eq!(writer.try_write(&[1; ATOMIC]).expect("space"), ATOMIC);
    assert_eq!(writer.try_write(&[1; 2 * ATOMIC]).expect_err("full").kind(), ErrorKind::WouldBlock);
}

#[test]
fn the_ring_of_two_ends_carries_a_stream_whatever_the_pieces() {
    for (write, read) in [(1, 1), (1, 9000), (4096, 100), (5000, 3000), (20_000, 20_000)] {
        let (mut writer, mut reader) = spsc(2 * ATOMIC).expect("memory");
        let total = some(write * few(2000), 1_000_000);
        let thread = std::thread::spawn(move || {
            for piece in pattern(0, total).chunks(write) {
                writer.write_all(piece).expect("a reader");
            }
        });
        let (mut at, mut piece) = (0, vec![0; read]);
        loop {
            let len = reader.read(&mut piece).expect("a sound ring");
            if len == 0 {
                break;
            }
            assert!(piece[..len] == pattern(at, len), "{write} {read}: at {at}");
            at += len;
        }
        assert_eq!(at, total);
        thread.join().expect("no panic");
    }
}

#[test]
fn the_ring_lends_its_memory_to_both_ends() {
    let (mut writer, mut reader) = spsc(2 * ATOMIC).expect("memory");
    let total = some(2_000_000, 2_000_000);
    let thread = std::thread::spawn(move || {
        let mut at = 0;
        while at < total {
            let space = writer.reserve(1).expect("a reader");
            let len = space.len().min(1234).min(total - at);
            space[..len].copy_from_slice(&pattern(at, len));
            writer.commit(len);
            at += len;
        }
    });
    let mut at = 0;
    loop {
        let bytes = reader.filled(1).expect("a sound ring");
        let len = bytes.len();
        if len == 0 {
            break;
        }
        assert!(bytes == pattern(at, len), "at {at}");
        reader.release(len);
        at += len;
    }
    assert_eq!(at, total);
    thread.join().expect("no panic");
}

#[test]
fn the_ring_waits_for_as_much_as_was_asked() {
    let (mut writer, mut reader) = spsc(2 * ATOMIC).expect("memory");
    assert_eq!(reader.try_filled(1).expect_err("nothing").kind(), ErrorKind::WouldBlock);
    writer.write_all(&[5; 100]).expect("space");
    assert_eq!(reader.level(), 100);
    let span = Duration::from_millis(1);
    assert_eq!(reader.filled_timeout(101, span).expect_err("only 100").kind(), ErrorKind::TimedOut);
    let thread = std::thread::spawn(move || reader.filled(ATOMIC).map(<[u8]>::len));
    writer.write_all(&[5; ATOMIC - 100]).expect("space");
    assert_eq!(thread.join().expect("no panic").expect("bytes"), ATOMIC);
    // Its reader went with the thread.
    assert_eq!(writer.write(b"x").expect_err("nobody reads").kind(), ErrorKind::BrokenPipe);
}

#[test]
fn a_full_ring_refuses_waits_its_time_and_goes_on() {
    let (mut writer, mut reader) = spsc(ATOMIC).expect("memory");
    assert_eq!(writer.try_write(&[1; 2 * ATOMIC]).expect("space"), ATOMIC);
    assert_eq!(writer.try_write(&[1]).expect_err("full").kind(), ErrorKind::WouldBlock);
    let span = Duration::from_millis(1);
    assert_eq!(writer.write_timeout(&[1], span).expect_err("full").kind(), ErrorKind::TimedOut);
    assert_eq!(writer.try_reserve(1).expect_err("full").kind(), ErrorKind::WouldBlock);
    let thread = std::thread::spawn(move || writer.write(&[2; 10]));
    let mut all = Vec::new();
    reader.read_to_end(&mut all).expect("a sound ring");
    assert_eq!(thread.join().expect("no panic").expect("space"), 10);
    assert_eq!(all.len(), ATOMIC + 10);
}

#[test]
fn a_side_that_panics_closes_the_ring() {
    let (writer, mut reader) = spsc(ATOMIC).expect("memory");
    let thread = std::thread::spawn(move || {
        let mut writer = writer;
        writer.write_all(b"so far").expect("space");
        std::panic::resume_unwind(Box::new("the writer fails"));
    });
    let mut all = Vec::new();
    reader.read_to_end(&mut all).expect("the end");
    assert_eq!(all, b"so far");
    assert!(thread.join().is_err());
}

#[test]
fn reading_and_writing_nothing_does_not_wait() {
    let (mut writer, mut reader) = pipe(ATOMIC);
    assert_eq!(reader.read(&mut []).expect("nothing to wait for"), 0);
    assert_eq!(writer.write(&[]).expect("nothing to wait for"), 0);
    let (mut writer, mut reader) = spsc(ATOMIC).expect("memory");
    assert_eq!(reader.read(&mut []).expect("nothing to wait for"), 0);
    assert_eq!(writer.write(&[]).expect("nothing to wait for"), 0);
}

#[test]
fn both_ends_of_a_ring_tell_its_capacity_and_its_level() {
    let (mut writer, mut reader) = spsc(ATOMIC).expect("memory");
    let capacity = writer.capacity();
    assert!(capacity >= ATOMIC);
    assert_eq!((reader.capacity(), writer.level(), reader.level()), (capacity, 0, 0));
    assert_eq!(writer.try_write(&pattern(0, 100)).expect("space"), 100);
    assert_eq!((writer.level(), reader.level()), (100, 100));
    assert_eq!(reader.try_read(&mut [0; 30]).expect("bytes"), 30);
    assert_eq!((writer.level(), reader.level()), (70, 70));
    let rest = capacity - 70;
    assert_eq!(writer.try_write(&pattern(100, capacity)).expect("space"), rest, "no more than there is space for");
    assert_eq!((writer.level(), reader.level()), (capacity, capacity));
}

#[test]
fn forms_that_do_not_wait_for_ever_move_what_is_there() {
    let (mut writer, mut reader) = spsc(ATOMIC).expect("memory");
    let moment = Duration::from_millis(1);
    let mut into = [0; 64];
    assert_eq!(reader.try_read(&mut into).expect_err("nothing").kind(), ErrorKind::WouldBlock);
    assert_eq!(reader.read_timeout(&mut into, moment).expect_err("nothing").kind(), ErrorKind::TimedOut);
    assert_eq!(writer.write_timeout(&pattern(0, 50), moment).expect("space"), 50);
    assert_eq!(reader.try_read(&mut into[..20]).expect("bytes"), 20);
    assert_eq!(reader.read_timeout(&mut into[20..], moment).expect("bytes"), 30);
    assert_eq!(into[..50], pattern(0, 50));
    let space = writer.reserve_timeout(40, moment).expect("space");
    assert!(space.len() >= 40);
    space[..40].copy_from_slice(&pattern(50, 40));
    writer.commit(40);
    assert_eq!(reader.filled_timeout(40, moment).expect("bytes"), pattern(50, 40));
    assert_eq!(reader.filled_timeout(41, moment).expect_err("fewer").kind(), ErrorKind::TimedOut);
    reader.release(40);
    drop(writer);
    assert_eq!(reader.try_read(&mut into).expect("the end"), 0);
    assert_eq!(reader.read_timeout(&mut into, moment).expect("the end"), 0);
}
