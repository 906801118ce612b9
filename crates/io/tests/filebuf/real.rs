//! On files, pipes and sockets of the system.

use std::fs::File;
use std::io::{BufRead, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use fdd_io::filebuf::{FileBuf, Mode, Unwritten};
use rustix::fs::OFlags;
use rustix::io::Errno;

const NONE: Option<&str> = None;

#[test]
fn modes_are_those_of_the_standard() {
    let exists = Errno::EXIST.raw_os_error();
    let missing = Errno::NOENT.raw_os_error();
    let invalid = Errno::INVAL.raw_os_error();
    // Mode; then without a file and with one that holds "old": its content after "new" was written (or not, if it
    // cannot be), or the error.
    type Row = (&'static str, Mode, Result<&'static str, i32>, Result<&'static str, i32>);
    let table: &[Row] = &[
        ("in", Mode::IN, Err(missing), Ok("old")),
        ("out", Mode::OUT, Ok("ne"), Ok("ne")),
        ("out|trunc", Mode::OUT | Mode::TRUNC, Ok("ne"), Ok("ne")),
        ("out|app", Mode::OUT | Mode::APP, Ok("ne"), Ok("oldne")),
        ("app", Mode::APP, Ok("ne"), Ok("oldne")),
        ("in|out", Mode::IN | Mode::OUT, Err(missing), Ok("ned")),
        ("in|out|trunc", Mode::IN | Mode::OUT | Mode::TRUNC, Ok("ne"), Ok("ne")),
        ("in|out|app", Mode::IN | Mode::OUT | Mode::APP, Ok("ne"), Ok("oldne")),
        ("in|app", Mode::IN | Mode::APP, Ok("ne"), Ok("oldne")),
        ("in|out|ate", Mode::IN | Mode::OUT | Mode::ATE, Err(missing), Ok("oldne")),
        ("in|out|binary", Mode::IN | Mode::OUT | Mode::BINARY, Err(missing), Ok("ned")),
        ("out|excl", Mode::OUT | Mode::EXCL, Ok("ne"), Err(exists)),
        ("in|out|trunc|excl", Mode::IN | Mode::OUT | Mode::TRUNC | Mode::EXCL, Ok("ne"), Err(exists)),
        ("in|out|excl", Mode::IN | Mode::OUT | Mode::EXCL, Err(invalid), Err(invalid)),
        ("app|excl", Mode::APP | Mode::EXCL, Err(invalid), Err(invalid)),
        ("trunc", Mode::TRUNC, Err(invalid), Err(invalid)),
        ("app|trunc", Mode::APP | Mode::TRUNC, Err(invalid), Err(invalid)),
        ("in|trunc", Mode::IN | Mode::TRUNC, Err(invalid), Err(invalid)),
        ("ate", Mode::ATE, Err(invalid), Err(invalid)),
    ];
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("file");
    for (name, mode, fresh, over_old) in table {
        for (before, expected) in [(NONE, fresh), (Some("old"), over_old)] {
            let _ = std::fs::remove_file(&path);
            if let Some(before) = before {
                std::fs::write(&path, before).expect("a file");
            }
            match FileBuf::open(&path, *mode) {
                Ok(mut stream) => {
                    let written = stream.write_all(b"ne");
                    assert_eq!(written.is_err(), *mode == Mode::IN, "{name}");
                    stream.close().expect("nothing fails");
                    let content = std::fs::read_to_string(&path).expect("a file");
                    assert_eq!(Ok(&content[..]), *expected, "{name}, {before:?}");
                }
                Err(error) => {
                    assert_eq!(Err(error.raw_os_error().expect("an errno")), *expected, "{name}, {before:?}");
                }
            }
        }
    }
}

#[test]
fn reading_and_writing_change_at_any_byte() {
    let mut stream = FileBuf::with_capacity(8, tempfile::tempfile().expect("a file"));
    stream.write_all(b"one two three four\n").expect("written");
    stream.rewind().expect("moved");
    let mut word = Vec::new();
    stream.read_until(b' ', &mut word).expect("read");
    stream.write_all(b"TWO").expect("written");
    word.clear();
    stream.read_until(b'\n', &mut word).expect("read");
    assert_eq!(word, b" three four\n");
    stream.seek(SeekFrom::End(-5)).expect("moved");
    stream.write_all(b"FOUR").expect("written");
    stream.rewind().expect("moved");
    let mut all = String::new();
    stream.read_to_string(&mut all).expect("read");
    assert_eq!(all, "one TWO three FOUR\n");
}

#[test]
fn positions_reach_beyond_4_gib() {
    const FAR: u64 = 5 << 30;
    let mut stream = FileBuf::with_capacity(8, tempfile::tempfile().expect("a file"));
    assert_eq!(stream.seek(SeekFrom::Start(FAR)).expect("moved"), FAR);
    stream.write_all(b"far").expect("written");
    assert_eq!(stream.stream_position().expect("told"), FAR + 3);
    assert_eq!(stream.seek(SeekFrom::Current(-2)).expect("moved"), FAR + 1);
    assert_eq!(stream.in_avail().expect("told"), 2);
    let mut byte = [0];
    stream.read_exact(&mut byte).expect("read");
    assert_eq!(&byte, b"a");
    assert_eq!(stream.seek(SeekFrom::Current(-(FAR as i64))).expect("moved"), 2);
    assert_eq!(stream.in_avail().expect("told"), FAR + 1);
    assert_eq!(stream.seek(SeekFrom::Current(i64::MIN)).expect_err("before the start").kind(), ErrorKind::InvalidInput);
    assert_eq!(stream.stream_position().expect("told"), 2);
}

#[test]
fn the_callers_memory_is_the_buffer() {
    let mut memory = [b'.'; 4];
    let file = tempfile::tempfile().expect("a file");
    let mut stream = FileBuf::with_buffer(&mut memory[..], file.as_fd());
    stream.write_all(b"abc").expect("it fits");
    assert_eq!(file.metadata().expect("told").len(), 0);
    stream.close().expect("written");
    assert_eq!((&memory, file.metadata().expect("told").len()), (b"abc.", 3));
}

#[test]
fn whoever_shares_the_descriptor_goes_on_where_the_stream_stands() {
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(b"first\nsecond\n").expect("written");
    file.rewind().expect("moved");
    let mut stream = FileBuf::new(file.try_clone().expect("a second descriptor"));
    let mut line = String::new();
    stream.read_line(&mut line).expect("read");
    stream.close().expect("nothing fails");
    let mut rest = String::new();
    file.read_to_string(&mut rest).expect("read");
    assert_eq!((&line[..], &rest[..]), ("first\n", "second\n"));
}

#[test]
fn a_full_device_is_told_and_the_bytes_are_kept() {
    let mut stream = FileBuf::with_capacity(8, File::options().write(true).open("/dev/full").expect("a device"));
    stream.write_all(b"abc").expect("it fits");
    assert_eq!(stream.flush().expect_err("full").kind(), ErrorKind::StorageFull);
    assert_eq!(stream.unwritten(), b"abc");
    let Unwritten { error, bytes } = stream.close().expect_err("still full");
    assert_eq!((error.kind(), &bytes[..]), (ErrorKind::StorageFull, &b"abc"[..]));
}

#[test]
fn a_pipe_that_would_block_loses_nothing() {
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let writer = OwnedFd::from(writer);
    rustix::fs::fcntl_setfl(&writer, OFlags::NONBLOCK).expect("set");
    let mut stream = FileBuf::with_capacity(1000, writer);
    let (mut taken, mut arrived) = (Vec::new(), Vec::new());
    for round in 0..200_usize {
        let chunk: Vec<u8> = (0..1500 + round).map(|at| ((at * 7 + round) % 251).to_le_bytes()[0]).collect();
        let mut rest = &chunk[..];
        while !rest.is_empty() {
            let (count, result) = stream.put(rest);
            taken.extend_from_slice(&rest[..count]);
            rest = &rest[count..];
            if let Err(error) = result {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                let mut some = vec![0; 30_000];
                let came = reader.read(&mut some).expect("it is full");
                arrived.extend_from_slice(&some[..came]);
            }
        }
    }
    while let Err(error) = stream.flush() {
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        let mut some = vec![0; 30_000];
        let came = reader.read(&mut some).expect("it is full");
        arrived.extend_from_slice(&some[..came]);
    }
    stream.close().expect("nothing is left");
    reader.read_to_end(&mut arrived).expect("read");
    assert!(taken == arrived, "{} bytes taken, {} arrived, or others", taken.len(), arrived.len());
}

#[test]
fn a_socket_keeps_what_was_read_ahead_while_it_is_written() {
    let (near, mut far) = UnixStream::pair().expect("a socket");
    let mut stream = FileBuf::with_capacity(64, OwnedFd::from(near));
    far.write_all(b"first\nsecond\n").expect("sent");
    let mut line = String::new();
    stream.read_line(&mut line).expect("read");
    assert_eq!(stream.in_avail().expect("told"), 7);
    stream.write_all(b"answer\n").expect("sent");
    stream.read_line(&mut line).expect("it was held");
    stream.write_all(b"bye\n").expect("it fits");
    stream.close().expect("sent");
    let mut answers = String::new();
    far.read_to_string(&mut answers).expect("read");
    assert_eq!((&line[..], &answers[..]), ("first\nsecond\n", "answer\nbye\n"));
}

#[test]
fn bytes_waiting_in_a_pipe_are_told() {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let mut stream = FileBuf::new(OwnedFd::from(reader));
    assert_eq!(stream.in_avail().expect("told"), 0);
    writer.write_all(b"abcde").expect("sent");
    assert_eq!(stream.in_avail().expect("told"), 5);
    stream.read_exact(&mut [0; 2]).expect("read");
    assert_eq!(stream.in_avail().expect("told"), 3);
}

#[test]
fn a_stream_can_go_to_another_thread() {
    fn assert_send_and_sync<T: Send + Sync>() {}
    assert_send_and_sync::<FileBuf>();
}
