//! The pipe between processes: who may attach, who is told of what, and what can be polled. Processes that are killed have their
//! own file.
#![cfg(all(target_os = "linux", not(miri)))]

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use fdd_io::pipe::shared::{AttachError, Pipe};
use fdd_io::pipe::tokens::Tokens;
use fdd_io::pipe::{ATOMIC, Options};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

fn file_in(directory: &tempfile::TempDir) -> PathBuf {
    let file = directory.path().join("pipe");
    Options::new(ATOMIC).create(&file).expect("a new file");
    file
}

fn edit(file: &Path, at: u64, bytes: &[u8]) {
    File::options().write(true).open(file).expect("the file").write_all_at(bytes, at).expect("the file");
}

#[test]
fn a_file_is_a_pipe_for_whoever_opens_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = file_in(&directory);
    let (one, two) = (Pipe::open(&file).expect("a pipe"), Pipe::open(&file).expect("a pipe"));
    let (mut writer, mut reader) = (one.writer().expect("a seat"), two.reader().expect("a seat"));
    writer.write_all(b"through a file").expect("space");
    let mut text = [0; 100];
    assert_eq!(reader.read(&mut text).expect("bytes"), 14);
    drop(writer);
    assert_eq!(reader.read(&mut text).expect("the end"), 0);
    drop(reader);
    let mut writer = one.writer().expect("a seat");
    assert_eq!(writer.write(b"x").expect_err("nobody reads").kind(), ErrorKind::BrokenPipe);
    let again = Options::new(ATOMIC).create(&file).expect_err("it exists");
    assert_eq!(again.kind(), ErrorKind::AlreadyExists);
    assert_eq!(std::fs::read_dir(directory.path()).expect("the directory").count(), 1, "no unfinished file is left");
    assert_eq!(std::fs::metadata(&file).expect("the file").permissions().mode() & 0o777, 0o600);
}

#[test]
fn what_is_not_a_sound_pipe_of_ours_is_refused_with_the_reason() {
    type Spoil = fn(&Path);
    // Offsets of header fields: version 8, capacity 48, name of the C library 72.
    let rows: [(&str, Spoil, &str); 10] = [
        ("empty", |file| File::create(file).map(drop).expect("the file"), "not a shared pipe"),
        ("text", |file| std::fs::write(file, [b'x'; 9000]).expect("the file"), "not a shared pipe"),
        ("other magic", |file| edit(file, 0, b"X"), "not a shared pipe"),
        ("other version", |file| edit(file, 8, &[9]), "a shared pipe of version 9, not 2"),
        ("damaged", |file| edit(file, 50, &[7]), "a shared pipe with a damaged header"),
        ("damaged name", |file| edit(file, 75, b"?"), "a shared pipe with a damaged header"),
        ("cut in the header", |file| cut(file, 20), "a shared pipe that was cut short"),
        ("cut in the bytes", |file| cut(file, 9000), "a shared pipe that was cut short"),
        (
            "writable by others",
            |file| std::fs::set_permissions(file, PermissionsExt::from_mode(0o666)).expect("the file"),
            "a shared pipe of another user, or one that others may write to",
        ),
        (
            "tokens",
            |file| {
                std::fs::remove_file(file).expect("the file");
                Tokens::create(file, 3, false).expect("a new file");
            },
            "shared memory made for another purpose",
        ),
    ];
    for (name, spoil, message) in rows {
        let directory = tempfile::tempdir().expect("a directory");
        let file = file_in(&directory);
        spoil(&file);
        let error = Pipe::open(&file).expect_err(name);
        assert_eq!(error.to_string(), message, "{name}");
        assert_eq!(std::io::Error::from(error).kind(), ErrorKind::InvalidData, "{name}");
    }
    assert!(matches!(Pipe::open("/dev/null"), Err(AttachError::Foreign)));
    let error = Pipe::open("/nowhere/at/all").expect_err("it is not there");
    assert!(matches!(error, AttachError::Io(_)));
    let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<std::io::Error>());
    assert_eq!(source.expect("what the system said").kind(), ErrorKind::NotFound);
}

fn cut(file: &Path, len: u64) {
    File::options().write(true).open(file).and_then(|file| file.set_len(len)).expect("the file");
}

#[test]
fn every_flipped_bit_of_the_header_is_noticed() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = file_in(&directory);
    let mut header = [0; 128];
    File::open(&file).and_then(|file| file.read_exact_at(&mut header, 0)).expect("the file");
    for (at, byte) in header.iter().enumerate() {
        for bit in 0..8 {
            edit(&file, at as u64, &[byte ^ 1 << bit]);
            assert!(Pipe::open(&file).is_err(), "byte {at}, bit {bit}");
        }
        edit(&file, at as u64, &[*byte]);
    }
    assert!(Pipe::open(&file).is_ok());
}

#[test]
fn positions_that_contradict_each_other_are_an_error_and_no_access_outside() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = file_in(&directory);
    let pipe = Pipe::open(&file).expect("a pipe");
    let (mut writer, mut reader) = (pipe.writer().expect("a seat"), pipe.reader().expect("a seat"));
    // Behind the header page: lock, holes, and the position of the writers.
    edit(&file, 4096 + 8, &u64::MAX.to_ne_bytes());
    assert_eq!(writer.write(b"x").expect_err("damaged").kind(), ErrorKind::InvalidData);
    assert_eq!(reader.read(&mut [0; 10]).expect_err("damaged").kind(), ErrorKind::InvalidData);
}

#[test]
fn a_piece_that_runs_around_the_end_of_the_ring_is_whole_in_every_mapping() {
    let pipe = Options::new(ATOMIC).memfd().expect("a pipe");
    let other = Pipe::attach(pipe.descriptors().memory).expect("a pipe");
    assert_eq!((pipe.capacity(), other.capacity()), (ATOMIC, ATOMIC));
    let (mut writer, mut reader) = (pipe.writer().expect("a seat"), other.reader().expect("a seat"));
    let mut text = [0; 3000];
    for round in 0..5u8 {
        let piece: Vec<u8> = (0..=250).cycle().skip(usize::from(round)).take(text.len()).collect();
        assert_eq!(writer.try_write(&piece).expect("space"), text.len());
        assert_eq!(reader.try_read(&mut text).expect("bytes"), text.len());
        assert!(text[..] == piece, "round {round}");
    }
    assert!(Pipe::attach(pipe.descriptors().memory).is_ok(), "the header is as it was");
}

#[test]
fn memory_is_for_its_owner_alone_and_closed_on_exec() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("pipe");
    let made = Options::new(ATOMIC).create(&file).expect("a new file");
    let memfd = Options::new(ATOMIC).pollable().memfd().expect("a pipe");
    for (name, pipe) in [("made", &made), ("opened", &Pipe::open(&file).expect("a pipe")), ("memfd", &memfd)] {
        let descriptors = pipe.descriptors();
        let mode = rustix::fs::fstat(descriptors.memory).expect("the memory").st_mode;
        assert_eq!(mode & 0o777, 0o600, "{name}");
        for descriptor in [descriptors.memory].into_iter().chain(descriptors.events.into_iter().flatten()) {
            let flags = rustix::io::fcntl_getfd(descriptor).expect("a descriptor");
            assert!(flags.contains(rustix::io::FdFlags::CLOEXEC), "{name}");
        }
    }
}

#[test]
fn seats_of_a_shared_pipe_are_used_again() {
    let pipe = Options::new(ATOMIC).ends(3).memfd().expect("a pipe");
    let (_reader, writer) = (pipe.reader().expect("a seat"), pipe.writer().expect("a seat"));
    for _ in 0..3 {
        let third = writer.another().expect("a seat");
        assert_eq!(pipe.reader().expect_err("three ends are there").kind(), ErrorKind::QuotaExceeded);
        drop(third);
    }
}

#[test]
fn memory_without_a_name_cannot_be_cut() {
    let pipe = Options::new(ATOMIC).memfd().expect("a pipe");
    let memory = File::from(pipe.descriptors().memory.try_clone_to_owned().expect("a descriptor"));
    assert_eq!(memory.set_len(0).expect_err("sealed").kind(), ErrorKind::PermissionDenied);
    assert_eq!(memory.set_len(1 << 30).expect_err("sealed").kind(), ErrorKind::PermissionDenied);
}

/// A process that inherits the pipe as standard input and reads it to the end.
fn child(role: &str, pipe: &Pipe) -> std::process::Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "inheriting_process", "--nocapture"])
        .env("FDD_PIPE_ROLE", role)
        .stdin(pipe.descriptors().memory.try_clone_to_owned().expect("a descriptor"))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("this program")
}

#[test]
fn inheriting_process() {
    let Ok(role) = std::env::var("FDD_PIPE_ROLE") else { return };
    let pipe = Pipe::attach(std::io::stdin()).expect("a pipe");
    if role == "reader" {
        let mut all = Vec::new();
        pipe.reader().expect("a seat").read_to_end(&mut all).expect("a sound pipe");
        assert!(all.iter().enumerate().all(|(at, &byte)| usize::from(byte) == at % 251));
        std::io::stderr().write_all(format!("{} bytes", all.len()).as_bytes()).expect("a pipe");
    } else {
        let _writer = pipe.writer().expect("a seat");
        std::io::stderr().write_all(b"!").expect("a pipe");
        loop {
            std::thread::park();
        }
    }
}

#[test]
fn a_process_that_inherits_the_memory_reads_what_this_one_writes() {
    let pipe = Options::new(ATOMIC).memfd().expect("a pipe");
    let mut writer = pipe.writer().expect("a seat");
    let reader = child("reader", &pipe);
    let all: Vec<u8> = (0..=250).cycle().take(100_000).collect();
    writer.write_all(&all).expect("a reader to come");
    drop(writer);
    let output = reader.wait_with_output().expect("the reader");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stderr, b"100000 bytes");
}

#[test]
fn the_death_of_the_last_writer_is_the_end_and_of_the_last_reader_a_broken_pipe() {
    let pipe = Options::new(ATOMIC).memfd().expect("a pipe");
    let mut reader = pipe.reader().expect("a seat");
    let mut writing = child("writer", &pipe);
    writing.stderr.as_mut().expect("a pipe").read_exact(&mut [0]).expect("it is attached");
    let thread = std::thread::spawn(move || reader.read_timeout(&mut [0; 10], Duration::from_secs(10)));
    writing.kill().expect("a child");
    assert_eq!(thread.join().expect("no panic").expect("the end, not the clock"), 0);
    writing.wait().expect("a child");

    let pipe = Options::new(ATOMIC).memfd().expect("a pipe");
    let mut writer = pipe.writer().expect("a seat");
    let mut reading = child("reader", &pipe);
    writer.write_all(&[0; ATOMIC]).expect("space");
    // It has read something, so it is attached.
    writer.write_all(&[0; ATOMIC]).expect("space");
    let thread = std::thread::spawn(move || {
        loop {
            match writer.write_timeout(&[0; ATOMIC], Duration::from_secs(10)) {
                Ok(_) => {}
                Err(error) => return error.kind(),
            }
        }
    });
    reading.kill().expect("a child");
    assert_eq!(thread.join().expect("no panic"), ErrorKind::BrokenPipe);
    reading.wait().expect("a child");
}

fn is_readable(event: impl std::os::fd::AsFd) -> bool {
    let mut events = [PollFd::new(&event, PollFlags::IN)];
    poll(&mut events, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).expect("poll") == 1
}

#[test]
fn an_armed_event_is_readable_when_there_is_something_and_not_before() {
    let pipe = Options::new(ATOMIC).pollable().memfd().expect("a pipe");
    assert!(matches!(Pipe::attach(pipe.descriptors().memory), Err(AttachError::Events)));
    let events = pipe.descriptors().events.expect("it can be polled");
    let events: [OwnedFd; 2] = events.map(|event| event.try_clone_to_owned().expect("a descriptor"));
    let other = Pipe::attach_with(pipe.descriptors().memory, events).expect("a pipe");
    let (mut reader, mut writer) = (pipe.reader().expect("a seat"), other.writer().expect("a seat"));
    assert!(!reader.arm().expect("it can be polled"), "nothing is there");
    assert!(!is_readable(reader.event().expect("an event")));
    writer.write_all(&[0; ATOMIC]).expect("space");
    assert!(is_readable(reader.event().expect("an event")));
    assert!(reader.arm().expect("it can be polled"), "something is there");
    assert!(!writer.arm().expect("it can be polled"), "it is full");
    assert!(!is_readable(writer.event().expect("an event")));
    assert_eq!(reader.read(&mut [0; ATOMIC]).expect("bytes"), ATOMIC);
    assert!(is_readable(writer.event().expect("an event")));
    assert!(!reader.arm().expect("it can be polled"), "nothing is there");
    drop(writer);
    assert!(is_readable(reader.event().expect("an event")), "the end is something");

    let mut plain = Options::new(ATOMIC).memfd().expect("a pipe").reader().expect("a seat");
    assert_eq!(plain.arm().expect_err("no event").kind(), ErrorKind::Unsupported);
}

#[test]
fn a_bag_holds_so_many_tokens_and_no_more() {
    let bag = Tokens::memfd(2, true).expect("a bag");
    let (mut one, mut two) = (bag.holder().expect("a seat"), bag.holder().expect("a seat"));
    assert_eq!((bag.capacity(), one.held(), one.free().expect("a sound bag")), (2, 0, 2));
    one.acquire().expect("a token");
    two.acquire().expect("a token");
    assert_eq!(one.try_acquire().expect_err("both are out").kind(), ErrorKind::WouldBlock);
    let span = Duration::from_millis(1);
    assert_eq!(one.acquire_timeout(span).expect_err("both are out").kind(), ErrorKind::TimedOut);
    two.release().expect("its own");
    assert_eq!(two.release().expect_err("it has none").kind(), ErrorKind::InvalidInput);
    one.acquire().expect("a token");
    let thread = std::thread::spawn(move || two.acquire().map(|()| two.held()));
    drop(one);
    assert_eq!(thread.join().expect("no panic").expect("a token"), 1);
    assert_eq!(bag.holder().expect("a seat").free().expect("a sound bag"), 2);
}
