//! Runs a dd under test and tells all that can be seen of it: bytes, packets, messages, exit, files, holes and offsets.
//! What is expected lives in the tests; the comparison of a table's row lives in [`row`].
#![allow(dead_code, reason = "each test binary uses its own part of this module")]

pub(crate) mod devices;
pub(crate) mod row;
pub(crate) mod text;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek as _, SeekFrom, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Says that a test did not run and why. With `FDD_NO_SKIP` in the environment that is a failure.
pub(crate) fn skip(reason: &str) {
    assert!(std::env::var_os("FDD_NO_SKIP").is_none(), "would have been skipped: {reason}");
    println!("skipped: {reason}");
}

/// A dd and the name of what it claims to be.
#[derive(Debug)]
pub(crate) struct Dd {
    /// A directory that holds only a link named `dd`, so that a shell's `PATH` leads to it.
    pub(crate) bin: PathBuf,
    /// That link.
    pub(crate) path: PathBuf,
    /// Of GNU coreutils: major and minor version. `None` for fdd.
    pub(crate) gnu: Option<(u32, u32)>,
}

impl Dd {
    fn at(target: &Path) -> Dd {
        let name = target.to_string_lossy().replace('/', "_");
        let bin = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("bin{name}"));
        fs::create_dir_all(&bin).expect("a directory for the link named dd");
        let path = bin.join("dd");
        if fs::read_link(&path).ok().as_deref() != Some(target) {
            // Several test binaries may come here at once: rename replaces in one step.
            let draft = bin.join(format!("dd.{}", std::process::id()));
            std::os::unix::fs::symlink(target, &draft).expect("a link named dd");
            fs::rename(&draft, &path).expect("the link in its place");
        }
        let version = Command::new(&path).arg0("dd").arg("--version").output().expect("dd --version");
        let version = String::from_utf8_lossy(&version.stdout).into_owned();
        Dd { bin, path, gnu: gnu_version(&version) }
    }
}

/// `dd (coreutils) 9.1` is (9, 1). fdd names coreutils too, but not there.
fn gnu_version(text: &str) -> Option<(u32, u32)> {
    let number = text.lines().next()?.strip_prefix("dd (coreutils) ")?;
    let mut parts = number.split(['.', '-', ' ']);
    Some((parts.next()?.parse().ok()?, parts.next().and_then(|minor| minor.parse().ok()).unwrap_or(0)))
}

/// What `DD_UNDER_TEST` names: fdd by default, the installed GNU dd for `gnu`, or a path.
pub(crate) fn dd_under_test() -> &'static Dd {
    static DD: OnceLock<Dd> = OnceLock::new();
    DD.get_or_init(|| match std::env::var_os("DD_UNDER_TEST") {
        None => Dd::at(Path::new(env!("CARGO_BIN_EXE_fdd"))),
        Some(name) if name == "gnu" => Dd::at(&installed().expect("DD_UNDER_TEST=gnu needs a GNU dd")),
        Some(path) => Dd::at(Path::new(&path)),
    })
}

/// The GNU dd that is installed, if there is one.
pub(crate) fn gnu() -> Option<&'static Dd> {
    static DD: OnceLock<Option<Dd>> = OnceLock::new();
    DD.get_or_init(|| installed().map(|path| Dd::at(&path)).filter(|dd| dd.gnu.is_some())).as_ref()
}

fn installed() -> Option<PathBuf> {
    // On macOS and where another dd has taken its place, GNU's is called gdd.
    ["/usr/bin/gdd", "/usr/bin/dd", "/bin/dd"].iter().map(PathBuf::from).find(|path| {
        Command::new(path)
            .arg("--version")
            .output()
            .is_ok_and(|out| String::from_utf8_lossy(&out.stdout).starts_with("dd (coreutils) "))
    })
}

/// A directory that is gone when dropped, in memory where the machine has such a place.
pub(crate) fn scratch() -> tempfile::TempDir {
    let builder = &mut tempfile::Builder::new();
    builder.prefix("fdd-test-");
    builder.tempdir_in("/dev/shm").or_else(|_| builder.tempdir()).expect("a temporary directory")
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Exit(i32),
    Signal(i32),
    /// It was killed by the test, because its time was up.
    TimedOut,
}

impl From<ExitStatus> for End {
    fn from(status: ExitStatus) -> End {
        match (status.code(), status.signal()) {
            (Some(code), _) => End::Exit(code),
            (None, Some(signal)) => End::Signal(signal),
            (None, None) => unreachable!("a process that was waited for has ended"),
        }
    }
}

/// What a run left behind in the pipes that the test holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) end: End,
    pub(crate) stdout: Vec<u8>,
    /// The size of each read of standard output: with a packet-mode pipe, of each write of dd's.
    pub(crate) packets: Vec<usize>,
    pub(crate) stderr: Vec<u8>,
}

/// A pipe end pair whose reads come back in the sizes in which it was written.
///
/// In packet mode each write is one read. A reader that asks for less than a packet loses the rest of it.
pub(crate) fn packet_pipe() -> (OwnedFd, OwnedFd) {
    pipe_with(PipeFlags::CLOEXEC | PipeFlags::DIRECT).expect("a packet-mode pipe")
}

pub(crate) fn pipe() -> (OwnedFd, OwnedFd) {
    pipe_with(PipeFlags::CLOEXEC).expect("a pipe")
}

/// The read end of a pipe that holds all of `packets` and has no writer any more: nothing depends on timing.
pub(crate) fn full_pipe(packets: &[&[u8]], packet_mode: bool) -> OwnedFd {
    let (reader, writer) = if packet_mode { packet_pipe() } else { pipe() };
    // One page of the pipe is one packet, and 16 pages are the default.
    let room: usize = packets.iter().map(|packet| packet.len().div_ceil(4096).max(1) * 4096).sum();
    if room > 16 * 4096 {
        fcntl_setpipe_size(&writer, room).expect("room for all packets in the pipe");
    }
    let mut writer = File::from(writer);
    for packet in packets {
        writer.write_all(packet).expect("a pipe with room");
    }
    reader
}

/// A file with these bytes, opened for reading and writing, at an offset.
pub(crate) fn file_at(path: &Path, bytes: &[u8], offset: u64, append: bool) -> File {
    fs::write(path, bytes).expect("a new file");
    let mut file = OpenOptions::new().read(true).write(!append).append(append).open(path).expect("the file");
    file.seek(SeekFrom::Start(offset)).expect("an offset in it");
    file
}

/// Where the next read or write on this description would be.
pub(crate) fn offset_of(file: &File) -> u64 {
    rustix::fs::tell(file).expect("a file has an offset")
}

/// The stretches of a file that hold data, as offset and length; what lies between them is holes.
pub(crate) fn data_map(path: &Path) -> Vec<(u64, u64)> {
    let Ok(file) = File::open(path) else { return Vec::new() };
    let size = file.metadata().map_or(0, |meta| meta.len());
    let mut map = Vec::new();
    let mut at = 0;
    while at < size {
        let Ok(start) = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(at)) else { break };
        let end = rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(start)).unwrap_or(size);
        map.push((start, end - start));
        at = end;
    }
    map
}

/// A command that has argv[0] `dd`, the C locale, and a working directory.
pub(crate) fn command<S: AsRef<OsStr>>(dd: &Dd, args: &[S], cwd: &Path) -> Command {
    devices::ignore_nothing();
    let mut command = Command::new(&dd.path);
    command.arg0("dd").args(args).current_dir(cwd).env("LC_ALL", "C").env_remove("POSIXLY_CORRECT");
    command.env_remove("LANGUAGE");
    command
}

/// A shell that runs `script` with the dd under test first in its `PATH`, and `args` as its positional parameters.
pub(crate) fn shell<S: AsRef<OsStr>>(dd: &Dd, script: &str, args: &[S], cwd: &Path) -> Command {
    let mut path = OsString::from(&dd.bin);
    path.push(":/usr/sbin:/usr/bin:/sbin:/bin");
    devices::ignore_nothing();
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script, "sh"]).args(args).current_dir(cwd);
    command.env("PATH", path).env("LC_ALL", "C").env_remove("POSIXLY_CORRECT").env_remove("LANGUAGE");
    command
}

/// The time that a run has before it counts as hanging.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// Runs to the end and reads what comes. `stdout` is the reading end, if standard output is a pipe of the test's.
pub(crate) fn finish(mut command: Command, stdout: Option<OwnedFd>, limit: Duration) -> Outcome {
    let (stderr, stderr_writer) = pipe();
    command.stderr(Stdio::from(stderr_writer));
    let child = command.spawn().expect("the program starts");
    // The command keeps the writing ends that it gave to the child.
    drop(command);
    collect(child, stdout, Some(stderr), limit)
}

/// Reads both pipes until they end, then waits.
pub(crate) fn collect(mut child: Child, stdout: Option<OwnedFd>, stderr: Option<OwnedFd>, limit: Duration) -> Outcome {
    let started = Instant::now();
    let mut out = Outcome { end: End::TimedOut, stdout: Vec::new(), packets: Vec::new(), stderr: Vec::new() };
    let mut ends = [stdout.map(File::from), stderr.map(File::from)];
    let mut piece = vec![0_u8; 1 << 16];
    let mut in_time = true;
    while in_time && ends.iter().any(Option::is_some) {
        let left = limit.saturating_sub(started.elapsed());
        let ready = {
            let mut fds: Vec<PollFd<'_>> = ends.iter().flatten().map(|end| PollFd::new(end, PollFlags::IN)).collect();
            in_time = poll(&mut fds, Some(&timespec(left))).expect("poll of pipes") > 0;
            let mut ready = fds.iter().map(|fd| !fd.revents().is_empty()).collect::<Vec<_>>().into_iter();
            [0, 1].map(|index: usize| ends[index].is_some() && ready.next().unwrap_or(false))
        };
        for index in 0..2 {
            if !ready[index] {
                continue;
            }
            let end = ends[index].as_mut().expect("polled only when open");
            let got = end.read(&mut piece).expect("reading a pipe");
            match (got, index) {
                (0, _) => ends[index] = None,
                (_, 0) => {
                    out.stdout.extend_from_slice(&piece[..got]);
                    out.packets.push(got);
                }
                _ => out.stderr.extend_from_slice(&piece[..got]),
            }
            // A program that talks without end is as bad as one that hangs.
            in_time &= out.stderr.len() < 16 << 20 && out.stdout.len() < 256 << 20;
        }
    }
    if in_time && let Some(status) = wait(&mut child, limit.saturating_sub(started.elapsed())) {
        out.end = status.into();
        return out;
    }
    child.kill().expect("a child that can be killed");
    child.wait().expect("a killed child ends");
    out
}

/// Waits for the end of a child, but not for ever.
pub(crate) fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    if let Some(status) = child.try_wait().expect("a child of ours") {
        return Some(status);
    }
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a process id")).expect("not 0");
    let fd = pidfd_open(pid, PidfdFlags::empty()).expect("a descriptor of the child");
    poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timespec(limit))).expect("poll of a process");
    child.try_wait().expect("a child of ours")
}

fn timespec(time: Duration) -> Timespec {
    Timespec::try_from(time).expect("a time limit of seconds")
}

/// Reads `length` bytes of a program's output, each within the limit.
pub(crate) fn read_whole(output: &mut (impl Read + AsFd), length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let mut done = 0;
    while done < length {
        assert!(readable(&*output, LIMIT), "{done} of {length} bytes came");
        let got = output.read(&mut bytes[done..]).unwrap();
        assert_ne!(got, 0, "the output ended after {done} of {length} bytes");
        done += got;
    }
    bytes
}

/// Waits until a descriptor can be read, or has ended; false if the time is up first.
pub(crate) fn readable(fd: impl AsFd, limit: Duration) -> bool {
    poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timespec(limit))).expect("poll") > 0
}

/// Runs dd with its standard streams as given; standard output to a pipe if it is not.
pub(crate) fn run_in<S: AsRef<OsStr>>(dd: &Dd, args: &[S], cwd: &Path, stdin: Stdio) -> Outcome {
    let (stdout, writer) = pipe();
    let mut command = command(dd, args, cwd);
    command.stdin(stdin).stdout(Stdio::from(writer));
    finish(command, Some(stdout), LIMIT)
}

/// The state of a process in /proc: `S` when it waits, `Z` when it has ended and was not waited for.
pub(crate) fn state_of(pid: u32) -> char {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return 'Z' };
    // The name stands in parentheses and may hold anything.
    stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()).unwrap_or('Z')
}

/// Whether a process has a handler of its own for a signal.
pub(crate) fn catches(pid: u32, signal: u32) -> bool {
    let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else { return false };
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:\t")).unwrap_or("0");
    u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Waits until something that another process brings about is so. Panics when the time is up.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !holds() {
        assert!(Instant::now() < deadline, "still not so after {LIMIT:?}: {what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// A command line that a person can paste.
pub(crate) fn command_line<S: AsRef<OsStr>>(args: &[S]) -> String {
    let mut line = String::from("dd");
    for arg in args {
        let bytes = arg.as_ref().as_bytes();
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"=,._/+-".contains(byte);
        line.push(' ');
        if !bytes.is_empty() && bytes.iter().all(plain) {
            line.push_str(&String::from_utf8_lossy(bytes));
        } else {
            line.push_str(&format!("$'{}'", bytes.escape_ascii()));
        }
    }
    line
}

/// Bytes cut to a line.
pub(crate) fn one_line(bytes: &[u8]) -> String {
    let text = bytes.escape_ascii().to_string();
    match text.char_indices().nth(400) {
        Some((at, _)) => format!("{}... ({} bytes)", &text[..at], bytes.len()),
        None => text,
    }
}

/// The number of a descriptor, for a path in /proc.
pub(crate) fn number(fd: &impl AsFd) -> i32 {
    fd.as_fd().as_raw_fd()
}
