//! Who is refused a shared pipe, though its file is whole: another user, another C library, another PID namespace, memory that
//! is not sealed. And what becomes of the others when a peer is stopped.
#![cfg(all(target_os = "linux", not(miri)))]

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fdd_io::pipe::shared::{AttachError, Pipe, Reader, Writer};
use fdd_io::pipe::tokens::Tokens;
use fdd_io::pipe::{ATOMIC, Options};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// Runs `work` in a thread that is nobody and not root; None where this is not root.
fn as_nobody<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    if !rustix::process::geteuid().is_root() {
        // Said, so that nobody takes the skip for a success.
        eprintln!("skipped: needs root");
        return None;
    }
    let nobody = rustix::process::Uid::from_raw(65534);
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).expect("root may");
            work()
        });
        Some(thread.join().expect("no panic"))
    })
}

#[test]
fn another_user_is_refused_also_where_the_system_lets_him_open() {
    let place = tempfile::tempdir().expect("a directory");
    let all_may = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(place.path(), all_may).expect("our own");
    let file = place.path().join("pipe");
    let Some(()) = as_nobody(|| drop(Options::new(ATOMIC).create(&file).expect("a new file"))) else { return };
    // Root can open everything, and is another user all the same.
    assert!(matches!(Pipe::open(&file), Err(AttachError::OtherUser)));
    assert!(matches!(Tokens::open(&file), Err(AttachError::OtherPurpose)));
    // The other way round the system refuses.
    let pipe = Options::new(ATOMIC).memfd().expect("a pipe");
    let refused = as_nobody(|| Pipe::attach(pipe.descriptors().memory).map(drop)).expect("this is root");
    match refused.expect_err("another user") {
        AttachError::Io(error) => assert_eq!(error.kind(), ErrorKind::PermissionDenied),
        other => panic!("{other}"),
    }
}

/// FNV-1a, as in the header.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Puts bytes into the header as a process that is entitled to would: the checksum fits.
fn put_in_header(file: &Path, at: usize, bytes: &[u8]) {
    let file = File::options().read(true).write(true).open(file).expect("the file");
    let mut header = [0; 120];
    file.read_exact_at(&mut header, 0).expect("a header");
    header[at..at + bytes.len()].copy_from_slice(bytes);
    file.write_all_at(&header, 0).expect("the file");
    file.write_all_at(&checksum(&header).to_ne_bytes(), 120).expect("the file");
}

#[test]
fn a_pipe_made_with_another_c_library_is_refused_by_its_name() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("pipe");
    drop(Options::new(ATOMIC).create(&file).expect("a new file"));
    put_in_header(&file, 72, b"another libc 1.0\0\0\0\0");
    let error = Pipe::open(&file).expect_err("another library");
    assert_eq!(error.to_string(), "a shared pipe made with another C library: another libc 1.0");
}

#[test]
fn a_header_with_a_fitting_checksum_is_still_checked() {
    // Field offsets: purpose 12, slots 28, capacity 48.
    for (name, at, bytes) in [
        ("no purpose", 12, &7u32.to_ne_bytes()[..]),
        ("too many slots", 28, &5000u32.to_ne_bytes()),
        ("no power of two", 48, &4097u64.to_ne_bytes()),
        ("a huge capacity", 48, &(1u64 << 60).to_ne_bytes()),
        ("no capacity", 48, &0u64.to_ne_bytes()),
    ] {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("pipe");
        drop(Options::new(ATOMIC).create(&file).expect("a new file"));
        put_in_header(&file, at, bytes);
        assert!(matches!(Pipe::open(&file), Err(AttachError::Damaged)), "{name}");
        assert!(matches!(Tokens::open(&file), Err(AttachError::Damaged)), "{name}");
    }
}

#[test]
fn memory_that_claims_to_be_sealed_and_is_not_is_refused() {
    let pipe = Options::new(ATOMIC).memfd().expect("a pipe");
    let mut all = Vec::new();
    let mut sealed = File::from(pipe.descriptors().memory.try_clone_to_owned().expect("a descriptor"));
    std::io::Seek::rewind(&mut sealed).and_then(|()| sealed.read_to_end(&mut all).map(drop)).expect("the memory");
    let copy = memfd_create("copy", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("memory");
    let copy = File::from(copy);
    copy.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("our own");
    copy.write_all_at(&all, 0).expect("memory");
    assert!(matches!(Pipe::attach(&copy), Err(AttachError::NotSealed)));
    rustix::fs::fcntl_add_seals(&copy, rustix::fs::SealFlags::SHRINK).expect("it allows seals");
    assert!(Pipe::attach(&copy).is_ok(), "nothing but the seal was missing");
}

/// This program as another process, whose standard input is the pipe.
fn start(role: &str, program: &[&str], memory: impl AsFd) -> std::io::Result<Child> {
    let exe = std::env::current_exe()?;
    let mut command = match program {
        [] => Command::new(&exe),
        [first, rest @ ..] => {
            let mut command = Command::new(first);
            command.args(rest).arg(&exe);
            command
        }
    };
    let memory: OwnedFd = memory.as_fd().try_clone_to_owned()?;
    command.args(["--exact", "other_process", "--nocapture"]).env("FDD_REFUSED_ROLE", role);
    command.stdin(memory).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()
}

#[test]
fn other_process() {
    let Ok(role) = std::env::var("FDD_REFUSED_ROLE") else { return };
    let say = |text: &str| std::io::stderr().write_all(text.as_bytes()).expect("a pipe");
    let attached = Pipe::attach(std::io::stdin());
    if role == "attach" {
        say(&attached.map_or_else(|error| error.to_string(), |_| "attached".into()));
        return;
    }
    let mut reader = attached.expect("a pipe").reader().expect("a seat");
    say("!");
    let mut byte = [0];
    while reader.read(&mut byte).expect("a sound pipe") == 1 {
        say(if byte == *b"a" { "a" } else { "?" });
    }
}

#[test]
fn a_process_of_another_pid_namespace_is_refused() {
    let pipe = Options::new(ATOMIC).memfd().expect("a pipe");
    let memory = pipe.descriptors().memory;
    let said = |program: &[&str]| {
        let output = start("attach", program, memory)?.wait_with_output()?;
        std::io::Result::Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(said(&[]).expect("this program"), "attached");
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root");
        return;
    }
    match said(&["unshare", "--pid", "--fork"]) {
        Err(error) if error.kind() == ErrorKind::NotFound => eprintln!("skipped: no unshare program"),
        Ok(text) if text.contains("unshare failed") => eprintln!("skipped: {text}"),
        other => assert_eq!(other.expect("this program"), "a shared pipe of another PID namespace"),
    }
}

/// A reader in another process that can be stopped and let go on.
struct Peer(Child);

impl Peer {
    fn new(pipe: &Pipe) -> Peer {
        let mut peer = Peer(start("reader", &[], pipe.descriptors().memory).expect("this program"));
        assert_eq!(peer.hear(), b'!', "it is attached");
        peer
    }

    fn hear(&mut self) -> u8 {
        let mut byte = [0];
        self.0.stderr.as_mut().expect("a pipe").read_exact(&mut byte).expect("it lives");
        byte[0]
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.0.id()).expect("a pid")).expect("a pid")
    }

    /// Stops it, and returns when it stands.
    fn stop(&self) {
        kill_process(self.pid(), Signal::STOP).expect("a child");
        let (_, status) = waitpid(Some(self.pid()), WaitOptions::UNTRACED).expect("a child").expect("it stands");
        assert!(status.stopped(), "{status:?}");
    }

    fn go_on(&self) {
        kill_process(self.pid(), Signal::CONT).expect("a child");
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const SHORT: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_secs(10);

/// Stops the peer while it waits in the queue of a fair pipe and has the turn for a byte that is there.
fn stop_with_the_turn(peer: &mut Peer, reader: &mut Reader, writer: &mut Writer) {
    let mut byte = [0];
    loop {
        peer.stop();
        writer.write_all(b"a").expect("space");
        match reader.try_read(&mut byte) {
            // The byte is there, and belongs to who waits.
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            // It was not waiting yet.
            got => assert_eq!(got.expect("a sound pipe"), 1),
        }
        peer.go_on();
    }
}

#[test]
fn a_stopped_process_with_the_turn_of_a_fair_pipe_keeps_the_others_waiting_and_loses_nothing() {
    let pipe = Options::new(ATOMIC).fair().memfd().expect("a pipe");
    let (mut writer, mut reader) = (pipe.writer().expect("a seat"), pipe.reader().expect("a seat"));
    let mut peer = Peer::new(&pipe);
    stop_with_the_turn(&mut peer, &mut reader, &mut writer);
    let mut byte = [0];
    assert_eq!(reader.read_timeout(&mut byte, SHORT).expect_err("its turn stands").kind(), ErrorKind::TimedOut);
    peer.go_on();
    assert_eq!(peer.hear(), b'a', "it gets what it had the turn for");
    // Killed instead of let go on, its turn passes.
    stop_with_the_turn(&mut peer, &mut reader, &mut writer);
    drop(peer);
    assert_eq!(reader.read_timeout(&mut byte, LONG).expect("nothing is lost"), 1);
}

#[test]
fn a_stopped_process_does_not_keep_the_others_of_a_pipe_that_is_not_fair_waiting() {
    let pipe = Options::new(ATOMIC).memfd().expect("a pipe");
    let (mut writer, mut reader) = (pipe.writer().expect("a seat"), pipe.reader().expect("a seat"));
    let mut peer = Peer::new(&pipe);
    let (mut byte, mut held_up) = ([0], 0);
    for _ in 0..20 {
        peer.stop();
        // Where it waits, its turn comes with this byte. It is let down only where it was stopped with the lock held.
        writer.write_all(b"a").expect("space");
        match reader.try_read(&mut byte) {
            Ok(len) => assert_eq!(len, 1),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                held_up += 1;
            }
        }
        peer.go_on();
        // And nothing that it is woken for later is lost.
        if held_up == 0 {
            writer.write_all(b"a").expect("space");
        }
        assert_eq!(peer.hear(), b'a');
    }
    assert_eq!(held_up, 0);
}
