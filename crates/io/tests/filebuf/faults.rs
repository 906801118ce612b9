//! Errors lose nothing: each error at the nth call for every n, panics, failed fsync, drop and close.

use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use fdd_io::filebuf::{Access, Buffer, Descriptor, FileBuf, Unwritten, set_drop_error_hook};
use rustix::io::Errno;

use super::scripted::{Scripted, Turn};

/// Chunks smaller and larger than the capacity of 8, and their bytes.
const CHUNKS: [&[u8]; 6] = [b"abc", b"defgh", b"ijklmnopqrst", b"u", b"vwxyz0123", b"4567"];

/// Puts all chunks; one that is refused is offered again, but only its rest, until the fault is gone or has been met
/// three times. Returns what was taken.
fn put_all(stream: &mut FileBuf<Scripted>) -> Vec<u8> {
    let mut taken = Vec::new();
    for chunk in CHUNKS {
        let mut rest = chunk;
        for _ in 0..3 {
            let (count, _) = stream.put(rest);
            taken.extend_from_slice(&rest[..count]);
            rest = &rest[count..];
        }
    }
    taken
}

#[test]
fn each_error_at_each_write_call_loses_nothing() {
    for errno in [Errno::IO, Errno::NOSPC, Errno::AGAIN, Errno::INTR, Errno::PIPE] {
        for short in [0, 1, 7] {
            for nth in 1.. {
                let turns = std::iter::repeat_n(Turn::Whole, nth - 1);
                let cut = (short > 0).then_some(Turn::Short(short));
                let script = turns.chain(cut).chain([Turn::Fail(errno)]);
                let scripted = Scripted::default().script(script);
                let mut stream = FileBuf::with_capacity(8, scripted.clone());
                let taken = put_all(&mut stream);
                assert_eq!(taken, CHUNKS.concat(), "{errno} at call {nth}: the fault is over, all is taken");
                let held = [scripted.file(), stream.unwritten().to_vec()].concat();
                assert_eq!(held, taken, "{errno} at call {nth}");
                // Once more when the fault falls to the flush.
                let _ = stream.flush();
                stream.flush().expect("the fault is over");
                assert_eq!(scripted.file(), taken, "{errno} at call {nth}");
                if !scripted.0.borrow().script.is_empty() {
                    break;
                }
            }
        }
    }
}

#[test]
fn each_error_from_the_nth_write_call_on_leaves_the_rest_to_be_taken_out() {
    for errno in [Errno::IO, Errno::NOSPC, Errno::AGAIN] {
        for first in 1..6 {
            let scripted = Scripted::default();
            scripted.0.borrow_mut().writes_from = Some((first, Turn::Fail(errno)));
            let mut stream = FileBuf::with_capacity(8, scripted.clone());
            let taken = put_all(&mut stream);
            if scripted.calls().write >= first {
                assert_eq!(stream.flush().expect_err("it never ends").raw_os_error(), Some(errno.raw_os_error()));
                assert_eq!([scripted.file(), stream.unwritten().to_vec()].concat(), taken);
                let unwritten = stream.take_unwritten();
                assert_eq!([scripted.file(), unwritten].concat(), taken);
                assert!(stream.unwritten().is_empty());
                stream.close().expect("nothing is left to fail");
            }
        }
    }
}

#[test]
fn a_write_of_nothing_at_all_is_an_error_and_no_endless_loop() {
    struct Full;
    impl Descriptor for Full {
        fn readv(&mut self, _: &mut [std::io::IoSliceMut<'_>]) -> Result<usize, Errno> {
            Ok(0)
        }
        fn writev(&mut self, _: &[std::io::IoSlice<'_>]) -> Result<usize, Errno> {
            Ok(0)
        }
        fn seek(&mut self, _: std::io::SeekFrom) -> Result<u64, Errno> {
            Err(Errno::SPIPE)
        }
        fn sync(&mut self, _: bool) -> Result<(), Errno> {
            Ok(())
        }
        fn close(self) -> Result<(), Errno> {
            Ok(())
        }
    }
    let mut stream = FileBuf::with_capacity(4, Full);
    assert_eq!(stream.in_avail().expect("a guess"), 0, "nothing is known to wait where the descriptor cannot say");
    stream.write_all(b"abc").expect("it fits");
    assert_eq!(stream.write_all(b"de").expect_err("nothing goes").kind(), ErrorKind::WriteZero);
    assert_eq!(stream.take_unwritten(), b"abc");
}

#[test]
fn a_failed_read_gives_what_was_held_and_is_met_again() {
    let scripted = Scripted::holding(b"abcdefghijkl");
    let mut stream = FileBuf::with_capacity(4, scripted.clone());
    let mut into = [0; 8];
    assert_eq!(stream.read(&mut into[..2]).expect("nothing fails"), 2);
    // The first turn is for the question whether there is an offset.
    scripted.0.borrow_mut().script.extend([Turn::Whole, Turn::Fail(Errno::IO), Turn::Fail(Errno::IO)]);
    assert_eq!(stream.read(&mut into).expect("these were held"), 4);
    assert_eq!(&into[..4], b"cdef");
    assert_eq!(stream.read(&mut into).expect_err("now it shows").raw_os_error(), Some(Errno::IO.raw_os_error()));
    assert_eq!(stream.read(&mut into).expect("it is over"), 6);
    assert_eq!(&into[..6], b"ghijkl");
}

#[test]
fn interrupted_calls_of_every_kind_are_made_again() {
    let interrupted = || Turn::Fail(Errno::INTR);
    let scripted = Scripted::holding(b"abcdef").script([interrupted(), interrupted(), Turn::Whole]);
    let mut stream = FileBuf::with_capacity(4, scripted.clone());
    let mut into = [0; 1];
    stream.read_exact(&mut into).expect("made again");
    // Back over read-ahead: whether there is an offset, then the move; the write; fsync.
    let turns = [interrupted(), Turn::Whole, interrupted(), Turn::Whole, interrupted(), Turn::Whole, interrupted()];
    scripted.0.borrow_mut().script.extend(turns);
    stream.write_all(b"XY").expect("made again");
    stream.sync_all().expect("made again");
    assert!(scripted.0.borrow().script.is_empty());
    assert_eq!(scripted.file(), b"aXYdef");
}

#[test]
fn a_failed_fsync_is_sticky() {
    let scripted = Scripted::default();
    let mut stream = FileBuf::with_capacity(4, scripted.clone());
    stream.write_all(b"ab").expect("it fits");
    scripted.0.borrow_mut().script.extend([Turn::Whole, Turn::Fail(Errno::IO)]);
    let io = Some(Errno::IO.raw_os_error());
    assert_eq!(stream.sync_all().expect_err("it failed").raw_os_error(), io);
    assert_eq!(stream.sync_all().expect_err("it stays so").raw_os_error(), io);
    assert_eq!(stream.sync_data().expect_err("it stays so").raw_os_error(), io);
    assert_eq!(scripted.calls().sync, 1, "the kernel would say that all is well");
    stream.write_all(b"cd").expect("it fits");
    stream.flush().expect("writing goes on");
    let refused = stream.close().expect_err("it stays so");
    assert_eq!((refused.error.raw_os_error(), refused.bytes), (io, Vec::new()));
    assert_eq!((scripted.file(), scripted.calls().close), (b"abcd".to_vec(), 1));
}

#[test]
fn an_fsync_that_the_descriptor_does_not_know_is_not_sticky() {
    let scripted = Scripted::default().script([Turn::Fail(Errno::INVAL)]);
    let mut stream = FileBuf::with_capacity(4, scripted.clone());
    assert_eq!(stream.sync_data().expect_err("refused").raw_os_error(), Some(Errno::INVAL.raw_os_error()));
    stream.close().expect("nothing was lost");
}

#[test]
fn a_panic_within_a_write_writes_nothing_twice() {
    for before in [0, 3, 8] {
        let scripted = Scripted::default().script([Turn::Panic(before)]);
        let mut stream = FileBuf::with_capacity(4, scripted.clone());
        stream.write_all(b"abcd").expect("it fits");
        catch_unwind(AssertUnwindSafe(|| stream.write_all(b"efgh"))).expect_err("scripted");
        let file = scripted.file();
        assert_eq!(file, b"abcdefgh"[..before]);
        for refused in [stream.write_all(b"x"), stream.flush(), stream.sync_all(), stream.read(&mut [0]).map(drop)] {
            assert_eq!(refused.expect_err("in doubt").kind(), ErrorKind::Other);
        }
        let told = Arc::new(Mutex::new(None));
        let into = Arc::clone(&told);
        stream.on_drop_error(move |unwritten| *into.lock().expect("nobody panics") = Some(unwritten));
        drop(stream);
        assert_eq!(scripted.file(), file, "nothing more is written");
        assert_eq!(told.lock().expect("nobody panics").take().expect("the hook was told").bytes, b"abcd");
    }
}

#[test]
fn after_a_panic_the_stream_goes_on_once_the_doubtful_bytes_are_taken_out() {
    let scripted = Scripted::default().script([Turn::Panic(2)]);
    let mut stream = FileBuf::with_capacity(4, scripted.clone());
    stream.write_all(b"abcd").expect("it fits");
    catch_unwind(AssertUnwindSafe(|| stream.flush())).expect_err("scripted");
    assert_eq!(stream.take_unwritten(), b"abcd");
    stream.write_all(b"cd").expect("it fits");
    stream.close().expect("nothing fails");
    assert_eq!(scripted.file(), b"abcd");
}

#[test]
fn drop_writes_what_is_left() {
    let scripted = Scripted::default();
    let mut stream = FileBuf::with_capacity(8, scripted.clone());
    stream.write_all(b"abc").expect("it fits");
    drop(stream);
    assert_eq!((scripted.file(), scripted.calls().close), (b"abc".to_vec(), 1));
}

#[test]
fn drop_gives_back_what_was_read_ahead() {
    let scripted = Scripted::holding(b"abcdef");
    let mut stream = FileBuf::with_capacity(4, scripted.clone());
    stream.read_exact(&mut [0; 1]).expect("nothing fails");
    drop(stream);
    assert_eq!(scripted.0.borrow().offset, 1);
}

#[test]
fn a_drop_that_cannot_write_tells_its_hook_what_and_why() {
    let scripted = Scripted::default().script([Turn::Short(1), Turn::Fail(Errno::NOSPC)]);
    let mut stream = FileBuf::with_capacity(8, scripted.clone());
    stream.write_all(b"abc").expect("it fits");
    let told = Arc::new(Mutex::new(None));
    let into = Arc::clone(&told);
    stream.on_drop_error(move |unwritten| *into.lock().expect("nobody panics") = Some(unwritten));
    drop(stream);
    let unwritten = told.lock().expect("nobody panics").take().expect("the hook was told");
    assert_eq!(unwritten.error.raw_os_error(), Some(Errno::NOSPC.raw_os_error()));
    assert_eq!((scripted.file(), unwritten.bytes), (b"a".to_vec(), b"bc".to_vec()));
}

static TOLD_TO_ALL: Mutex<Vec<Unwritten>> = Mutex::new(Vec::new());

#[test]
fn a_drop_without_a_hook_of_its_own_tells_that_of_the_process() {
    set_drop_error_hook(|unwritten| TOLD_TO_ALL.lock().expect("nobody panics").push(unwritten));
    let scripted = Scripted::default().script([Turn::Fail(Errno::DQUOT)]);
    let mut stream = FileBuf::with_capacity(64, scripted);
    stream.write_all(b"the last of these streams").expect("it fits");
    drop(stream);
    // Other tests drop streams that fail, too.
    let told = TOLD_TO_ALL.lock().expect("nobody panics");
    let ours = told.iter().find(|unwritten| unwritten.bytes == b"the last of these streams").expect("it was told");
    assert_eq!(ours.error.raw_os_error(), Some(Errno::DQUOT.raw_os_error()));
}

#[test]
fn an_error_of_closing_is_told_by_drop_and_returned_by_close() {
    for dropped in [true, false] {
        let scripted = Scripted::default().script([Turn::Whole, Turn::Fail(Errno::DQUOT)]);
        let mut stream = FileBuf::with_capacity(8, scripted.clone());
        stream.write_all(b"abc").expect("it fits");
        let told = Arc::new(Mutex::new(None));
        let into = Arc::clone(&told);
        stream.on_drop_error(move |unwritten| *into.lock().expect("nobody panics") = Some(unwritten));
        let unwritten = if dropped {
            drop(stream);
            told.lock().expect("nobody panics").take().expect("the hook was told")
        } else {
            stream.close().expect_err("scripted")
        };
        assert_eq!(unwritten.error.raw_os_error(), Some(Errno::DQUOT.raw_os_error()));
        assert_eq!((scripted.file(), unwritten.bytes), (b"abc".to_vec(), Vec::new()));
    }
}

#[test]
fn close_gives_back_the_bytes_it_could_not_write_and_closes_all_the_same() {
    let scripted = Scripted::default().script([Turn::Short(1), Turn::Fail(Errno::IO)]);
    let mut stream = FileBuf::with_capacity(8, scripted.clone());
    stream.write_all(b"abc").expect("it fits");
    let unwritten = stream.close().expect_err("scripted");
    assert_eq!((unwritten.error.raw_os_error(), &unwritten.bytes[..]), (Some(Errno::IO.raw_os_error()), &b"bc"[..]));
    assert!(unwritten.to_string().ends_with("(2 bytes not written)"), "{unwritten}");
    assert_eq!(scripted.calls().close, 1);
}

#[test]
fn into_inner_gives_the_stream_back_with_all_it_holds() {
    let scripted = Scripted::default().script([Turn::Fail(Errno::AGAIN)]);
    let mut stream = FileBuf::with_capacity(8, scripted.clone());
    stream.write_all(b"abc").expect("it fits");
    let refusal = stream.into_inner().expect_err("scripted");
    assert_eq!(refusal.error.kind(), ErrorKind::WouldBlock);
    refusal.stream.into_inner().expect("it is over");
    assert_eq!((scripted.file(), scripted.calls().close), (b"abc".to_vec(), 0));
}

#[test]
fn drop_never_panics() {
    // A call that panics, a hook that panics, and both while a panic unwinds already (a second one would abort).
    for unwinding in [false, true] {
        let scripted = Scripted::default().script([Turn::Panic(0), Turn::Panic(0)]);
        let mut stream = FileBuf::with_capacity(8, scripted.clone());
        stream.write_all(b"abc").expect("it fits");
        stream.on_drop_error(|_| panic!("a hook that panics"));
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let _stream = stream;
            assert!(!unwinding, "unwinding");
        }));
        assert_eq!(outcome.is_err(), unwinding);
        assert_eq!((scripted.calls().write, scripted.file()), (1, Vec::new()));
    }
}

#[test]
fn what_the_descriptor_does_not_allow_is_refused_before_anything_is_held() {
    struct One(Scripted, Access);
    impl Descriptor for One {
        fn readv(&mut self, into: &mut [std::io::IoSliceMut<'_>]) -> Result<usize, Errno> {
            self.0.readv(into)
        }
        fn writev(&mut self, from: &[std::io::IoSlice<'_>]) -> Result<usize, Errno> {
            self.0.writev(from)
        }
        fn seek(&mut self, to: std::io::SeekFrom) -> Result<u64, Errno> {
            self.0.seek(to)
        }
        fn sync(&mut self, data_only: bool) -> Result<(), Errno> {
            self.0.sync(data_only)
        }
        fn access(&self) -> Access {
            self.1
        }
        fn close(self) -> Result<(), Errno> {
            self.0.close()
        }
    }
    let bad = Some(Errno::BADF.raw_os_error());
    let reading = Access { read: true, write: false, append: false };
    let mut stream = FileBuf::new(One(Scripted::holding(b"abc"), reading));
    assert_eq!(stream.write_all(b"x").expect_err("read only").raw_os_error(), bad);
    stream.read_exact(&mut [0; 3]).expect("it reads");
    let writing = Access { read: false, write: true, append: false };
    let mut stream = FileBuf::new(One(Scripted::holding(b"abc"), writing));
    assert_eq!(stream.read(&mut [0]).expect_err("write only").raw_os_error(), bad);
    assert_eq!(stream.in_avail().expect_err("write only").raw_os_error(), bad);
    stream.write_all(b"x").expect("it writes");
}

#[test]
fn bytes_to_be_appended_stand_at_the_end_wherever_the_offset_is() {
    let scripted = Scripted::holding(b"abcdef").appending();
    let mut stream = FileBuf::with_capacity(8, scripted.clone());
    stream.read_exact(&mut [0; 2]).expect("nothing fails");
    assert_eq!(stream.stream_position().expect("nothing fails"), 2);
    stream.write_all(b"XY").expect("it fits");
    assert_eq!(stream.stream_position().expect("nothing fails"), 8);
    assert_eq!(stream.in_avail().expect("nothing fails"), 0);
    stream.close().expect("nothing fails");
    assert_eq!(scripted.file(), b"abcdefXY");
}

#[test]
fn a_byte_put_back_differently_shows_until_the_next_move_only() {
    for relative in [true, false] {
        let mut stream = FileBuf::with_capacity(8, Scripted::holding(b"abcdef"));
        let mut into = [0; 3];
        stream.read_exact(&mut into).expect("nothing fails");
        // Within the buffer, which begins behind the bytes that went straight to the caller.
        stream.read_exact(&mut into[..2]).expect("nothing fails");
        assert!(stream.put_back(b'X'));
        stream.read_exact(&mut into[..2]).expect("nothing fails");
        assert_eq!(&into[..2], b"Xf");
        let moved = if relative { stream.seek_relative(-2) } else { stream.seek(SeekFrom::Current(-2)).map(drop) };
        moved.expect("nothing fails");
        stream.read_exact(&mut into[..2]).expect("nothing fails");
        assert_eq!(&into[..2], b"ef");
    }
}

#[test]
fn a_relative_move_over_a_byte_put_back_differently_reads_the_file_again() {
    let scripted = Scripted::holding(b"abcdefgh");
    let mut stream = FileBuf::with_capacity(8, scripted.clone());
    let mut byte = [0];
    for _ in 0..4 {
        stream.read_exact(&mut byte).expect("nothing fails");
    }
    assert!(stream.put_back(b'X'), "over d");
    // Forward over it and back again: once within the buffer, if that were allowed.
    stream.seek_relative(2).expect("nothing fails");
    stream.seek_relative(-2).expect("nothing fails");
    stream.read_exact(&mut byte).expect("nothing fails");
    assert_eq!(&byte, b"d");
    // Unaltered, no call is made for a place that is in the buffer.
    let before = scripted.calls();
    stream.seek_relative(2).expect("nothing fails");
    stream.seek_relative(-1).expect("nothing fails");
    stream.read_exact(&mut byte).expect("nothing fails");
    assert_eq!((&byte, scripted.calls()), (b"f", before));
}

#[test]
fn a_refused_block_is_offered_again() {
    let (mut buffer, mut given) = (Buffer::with_capacity(4), Vec::new());
    let mut refusals = 2;
    let mut put = |block: &[u8]| {
        if refusals > 0 {
            refusals -= 1;
            return Err("refused");
        }
        given.push(block.to_vec());
        Ok(())
    };
    // Passed through from the chunk, and refused: none of it was taken.
    assert_eq!(buffer.blocks(b"abcde", &mut put), (0, Err("refused")));
    assert_eq!(buffer.blocks(b"abc", &mut put), (3, Ok(())));
    // Put together, and refused: it is held, and the rest of the chunk is not.
    assert_eq!(buffer.blocks(b"defghij", &mut put), (1, Err("refused")));
    assert_eq!((buffer.held(), buffer.room()), (&b"abcd"[..], 0));
    assert_eq!(buffer.blocks(b"efghij", &mut put), (6, Ok(())));
    assert_eq!(given, [b"abcd", b"efgh"]);
    assert_eq!(buffer.take(), b"ij");
}

#[test]
fn a_whole_block_in_the_callers_chunk_is_not_copied() {
    let chunk = b"abcdefghij";
    let mut buffer = Buffer::with_capacity(4);
    let mut at = Vec::new();
    let result = buffer.blocks(chunk, |block| {
        at.push(block.as_ptr());
        Ok::<(), ()>(())
    });
    assert_eq!(result, (10, Ok(())));
    assert_eq!(at, [chunk.as_ptr(), chunk[4..].as_ptr()]);
}
