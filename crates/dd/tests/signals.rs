//! Signals and progress: what arrives while dd waits, that no byte is lost by it, and what is said when.
//!
//! What another process does is waited for by its output or its state in /proc; no sleep decides an order.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use support::text::{expanded, normalised};
use support::{End, LIMIT};

const SIGINT: u32 = 2;
const SIGUSR1: u32 = 10;

/// A dd that runs, with the test at the other end of its standard streams.
struct Running {
    child: Child,
    stdin: Option<File>,
    stdout: Option<File>,
    stderr: File,
    /// What it said so far.
    said: Vec<u8>,
}

impl Running {
    /// dd with these operands and a pipe on each of its streams.
    fn dd(args: &[&str], dir: &Path) -> Running {
        Running::start(support::command(support::dd_under_test(), args, dir))
    }

    /// The same under a shell that does something first and then becomes dd.
    fn after(script: &str, args: &[&str], dir: &Path) -> Running {
        let script = format!("{script}; exec dd \"$@\"");
        let running = Running::start(support::shell(support::dd_under_test(), &script, args, dir));
        let comm = format!("/proc/{}/comm", running.child.id());
        support::until("the shell has become dd", || {
            fs::read(&comm).is_ok_and(|name| name == b"dd\n" || name == b"fdd\n")
        });
        running
    }

    fn start(command: Command) -> Running {
        let (stderr, writer) = support::pipe();
        Running::with_stderr(command, stderr, writer)
    }

    fn with_stderr(mut command: Command, stderr: OwnedFd, stderr_writer: OwnedFd) -> Running {
        let (stdin_reader, stdin) = support::pipe();
        let (stdout, stdout_writer) = support::pipe();
        command.stdin(Stdio::from(stdin_reader)).stdout(Stdio::from(stdout_writer)).stderr(Stdio::from(stderr_writer));
        let child = command.spawn().unwrap();
        drop(command);
        Running {
            child,
            stdin: Some(stdin.into()),
            stdout: Some(stdout.into()),
            stderr: stderr.into(),
            said: Vec::new(),
        }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn send(&self, signal: Signal) {
        // A child that was not waited for keeps its number, so this cannot meet another process.
        kill_process(Pid::from_raw(i32::try_from(self.pid()).unwrap()).unwrap(), signal).unwrap();
    }

    /// Waits until dd has its handlers and sleeps in a system call.
    fn until_it_waits(&self) {
        support::until("dd waits", || {
            (support::catches(self.pid(), SIGUSR1) || support::catches(self.pid(), SIGINT))
                && support::state_of(self.pid()) == 'S'
        });
    }

    fn write(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    fn read(&mut self, length: usize) -> Vec<u8> {
        support::read_whole(self.stdout.as_mut().unwrap(), length)
    }

    /// Reads standard error until what was said fits.
    fn until_said(&mut self, what: &str, fits: impl Fn(&str) -> bool) {
        let deadline = Instant::now() + LIMIT;
        while !fits(&String::from_utf8_lossy(&self.said)) {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(support::readable(&self.stderr, left), "not said: {what}; but {}", support::one_line(&self.said));
            assert!(self.hear(), "dd ended and never said: {what}; but {}", support::one_line(&self.said));
        }
    }

    /// One read of standard error; false at its end.
    fn hear(&mut self) -> bool {
        let mut piece = [0; 4096];
        match self.stderr.read(&mut piece) {
            // A pty whose other end is closed gives EIO.
            Ok(0) | Err(_) => false,
            Ok(got) => {
                self.said.extend_from_slice(&piece[..got]);
                true
            }
        }
    }

    fn reports(&self) -> usize {
        String::from_utf8_lossy(&self.said).matches(" records out\n").count()
    }

    /// Closes dd's input, reads all that comes and waits. The output that was not read before, all messages, the end.
    fn finish(mut self) -> (Vec<u8>, String, End) {
        drop(self.stdin.take());
        let stdout = self.stdout.take().map(OwnedFd::from);
        let out = support::collect(self.child, stdout, Some(self.stderr.into()), LIMIT);
        self.said.extend_from_slice(&out.stderr);
        (out.stdout, String::from_utf8_lossy(&self.said).into_owned(), out.end)
    }
}

fn is_gnu() -> bool {
    support::dd_under_test().gnu.is_some()
}

fn normal(text: &str) -> String {
    normalised(text.as_bytes())
}

#[test]
fn usr1_is_answered_in_a_blocked_read() {
    let dir = support::scratch();
    let mut dd = Running::dd(&["bs=4"], dir.path());
    dd.until_it_waits();
    dd.send(Signal::USR1);
    dd.until_said("a report", |said| said.contains(" copied, "));
    dd.write(b"abcd");
    let (stdout, said, end) = dd.finish();
    assert_eq!((stdout.as_slice(), end), (&b"abcd"[..], End::Exit(0)));
    assert_eq!(normal(&said), expanded("{0+0 0+0 0}{1+0 1+0 4}"));
}

#[test]
fn usr1_is_answered_in_a_blocked_open() {
    let dir = support::scratch();
    assert!(Command::new("mkfifo").arg(dir.path().join("p")).status().unwrap().success());
    let mut dd = Running::dd(&["if=p", "bs=4"], dir.path());
    dd.until_it_waits();
    dd.send(Signal::USR1);
    dd.until_said("a report", |said| said.contains(" copied, "));
    fs::write(dir.path().join("p"), b"abcd").unwrap();
    let (stdout, said, end) = dd.finish();
    assert_eq!((stdout.as_slice(), end), (&b"abcd"[..], End::Exit(0)));
    assert_eq!(normal(&said), expanded("{0+0 0+0 0}{1+0 1+0 4}"));
    // GNU dd shows the time since the machine was started: its clock does not run yet.
    assert_eq!(said.contains("0 bytes copied, 0 s, Infinity B/s\n"), !is_gnu(), "{said}");
}

#[test]
fn usr1_is_answered_in_a_blocked_open_of_the_output() {
    let dir = support::scratch();
    assert!(Command::new("mkfifo").arg(dir.path().join("p")).status().unwrap().success());
    let mut dd = Running::dd(&["of=p", "bs=4"], dir.path());
    dd.until_it_waits();
    dd.send(Signal::USR1);
    dd.until_said("a report", |said| said.contains(" copied, "));
    dd.write(b"abcd");
    drop(dd.stdin.take());
    assert_eq!(fs::read(dir.path().join("p")).unwrap(), b"abcd");
    let (_, said, end) = dd.finish();
    assert_eq!(end, End::Exit(0));
    assert_eq!(normal(&said), expanded("{0+0 0+0 0}{1+0 1+0 4}"));
}

#[test]
fn usr1_is_answered_in_a_blocked_write_and_no_byte_is_lost() {
    let dir = support::scratch();
    let mut dd = Running::dd(&["if=/dev/zero", "bs=100k", "count=40"], dir.path());
    // Nobody reads yet, so it fills the pipe and stops.
    dd.until_it_waits();
    for reports in 1..=5 {
        dd.send(Signal::USR1);
        dd.until_said("a report", |said| said.matches(" copied, ").count() == reports);
        // The next one comes in another write.
        dd.read(5000);
    }
    let (stdout, said, end) = dd.finish();
    assert_eq!((stdout.len() + 25_000, end), (40 * 102_400, End::Exit(0)));
    assert!(normal(&said).ends_with(&expanded("{40+0 40+0 4096000 (4.1 MB, 3.9 MiB)}")), "{said}");
}

/// Also where many blocks are written at once, and whatever of them the pipe had room for.
#[test]
fn usr1_in_a_blocked_write_counts_what_is_written_and_the_block_under_way() {
    let dir = support::scratch();
    fs::write(dir.path().join("in"), vec![b'x'; 4 << 20]).unwrap();
    for (operands, ibs, obs) in [
        (&["if=in", "bs=512"][..], 512, 512),
        (&["if=in", "bs=16k"], 16_384, 16_384),
        (&["if=in", "ibs=512", "obs=8192"], 512, 8192),
        (&["if=in", "ibs=8192", "obs=5000"], 8192, 5000),
        // Its first piece fills the pipe.
        (&["if=in", "ibs=4M", "obs=8192"], 4 << 20, 8192),
        (&["if=in", "ibs=4M", "obs=8192", "conv=swab"], 4 << 20, 8192),
    ] {
        let mut dd = Running::dd(operands, dir.path());
        dd.until_it_waits();
        // So that the pipe does not end with a chunk of blocks: a page is room again.
        dd.read(5000);
        dd.until_it_waits();
        dd.send(Signal::USR1);
        dd.until_said("a report", |said| said.contains(" copied, "));
        let said = String::from_utf8_lossy(&dd.said).into_owned();
        let counts: Vec<usize> = said.lines().filter_map(|line| line.split(['+', ' ']).next()?.parse().ok()).collect();
        let [read, written, bytes] = counts[..] else { panic!("three counts: {said}") };
        // One block is under way, and the records that it is made of have been read.
        assert_eq!((bytes, read), (written * obs, ((written + 1) * obs).div_ceil(ibs)), "{operands:?}: {said}");
        // Almost as much as a pipe holds.
        assert!(bytes > 45_000, "{operands:?}: {said}");
        let (stdout, _, end) = dd.finish();
        assert_eq!((stdout.len() + 5000, end), (4 << 20, End::Exit(0)));
    }
}

#[test]
fn usr1_is_caught_even_if_it_was_ignored() {
    let dir = support::scratch();
    let mut dd = Running::after("trap '' USR1", &["bs=4"], dir.path());
    dd.until_it_waits();
    dd.send(Signal::USR1);
    dd.until_said("a report", |said| said.contains(" copied, "));
    let (_, said, end) = dd.finish();
    assert_eq!((normal(&said), end), (expanded("{0+0 0+0 0}{0+0 0+0 0}"), End::Exit(0)));
}

#[test]
fn usr1_kills_under_posixly_correct() {
    let dir = support::scratch();
    let mut command = support::command(support::dd_under_test(), &["bs=4"], dir.path());
    command.env("POSIXLY_CORRECT", "1");
    let dd = Running::start(command);
    dd.until_it_waits();
    assert!(!support::catches(dd.pid(), SIGUSR1));
    dd.send(Signal::USR1);
    let (_, said, end) = dd.finish();
    assert_eq!((said.as_str(), end), ("", End::Signal(10)));
}

#[test]
fn usr1_reports_follow_the_status_level() {
    let dir = support::scratch();
    let mut dd = Running::dd(&["bs=4", "status=noxfer"], dir.path());
    dd.until_it_waits();
    dd.send(Signal::USR1);
    dd.until_said("a report", |said| said.contains(" records out\n"));
    let (_, said, _) = dd.finish();
    assert_eq!(said, "0+0 records in\n0+0 records out\n".repeat(2));
}

/// The source of the storms: bytes of which none can be missed or doubled unseen.
fn source(length: usize) -> Vec<u8> {
    (0..length / 4).flat_map(|number| u32::try_from(number).unwrap().to_le_bytes()).collect()
}

/// Bytes said to be copied in each report, in order.
fn copied(said: &str) -> Vec<u64> {
    said.lines()
        .filter(|line| line.contains(" copied, "))
        .map(|line| line.split(' ').next().unwrap().parse().unwrap())
        .collect()
}

#[test]
fn each_usr1_of_a_storm_is_one_report_and_every_byte_arrives() {
    const SIGNALS: usize = 150;
    for operands in [&["bs=64k"][..], &["ibs=1000", "obs=7000"], &["bs=100000", "iflag=fullblock"]] {
        let dir = support::scratch();
        let bytes = source(4 << 20);
        fs::write(dir.path().join("in"), &bytes).unwrap();
        let mut args = vec!["if=in"];
        args.extend_from_slice(operands);
        let mut dd = Running::dd(&args, dir.path());
        let mut got = dd.read(4096);
        for reports in 1..=SIGNALS {
            dd.until_it_waits();
            dd.send(Signal::USR1);
            dd.until_said("a report", |said| said.matches(" copied, ").count() >= reports);
            assert_eq!(dd.reports(), reports);
            got.extend(dd.read(4096));
        }
        let (rest, said, end) = dd.finish();
        got.extend(rest);
        assert_eq!(end, End::Exit(0));
        assert!(
            got == bytes,
            "{operands:?}: {} of {} bytes, equal up to {}",
            got.len(),
            bytes.len(),
            got.iter().zip(&bytes).take_while(|(a, b)| a == b).count()
        );
        let copied = copied(&said);
        assert_eq!(copied.len(), SIGNALS + 1);
        assert!(copied.is_sorted() && copied.last() == Some(&(4 << 20)), "{copied:?}");
    }
}

#[test]
fn a_storm_of_usr1_through_pipes_at_both_ends_loses_nothing() {
    let dir = support::scratch();
    let bytes = source(4 << 20);
    let mut dd = Running::dd(&["ibs=3000", "obs=5000"], dir.path());
    dd.until_it_waits();
    let mut stdin = dd.stdin.take().unwrap();
    let pid = Pid::from_raw(i32::try_from(dd.pid()).unwrap()).unwrap();
    let (stdout, said, end) = std::thread::scope(|scope| {
        let bytes = &bytes;
        scope.spawn(move || {
            for piece in bytes.chunks(7001) {
                // dd reads until the input ends, so it is there for each of these.
                kill_process(pid, Signal::USR1).unwrap();
                stdin.write_all(piece).unwrap();
            }
        });
        dd.finish()
    });
    assert_eq!(end, End::Exit(0));
    assert!(stdout == bytes, "{} of {} bytes", stdout.len(), bytes.len());
    let reports = copied(&said);
    // Signals that come while one waits are one signal.
    assert!((2..=(4 << 20) / 7001 + 2).contains(&reports.len()), "{} reports", reports.len());
    assert_eq!(reports.last(), Some(&(4 << 20)));
}

#[test]
fn usr1_never_cuts_a_read_of_dev_zero_into_a_partial_record() {
    if is_gnu() {
        // GNU dd does make partial records, but not each time.
        return;
    }
    let dir = support::scratch();
    let dd = Running::dd(&["if=/dev/zero", "of=/dev/null", "bs=64M", "count=12"], dir.path());
    support::until("dd has its handlers", || support::catches(dd.pid(), SIGUSR1));
    let pid = dd.pid();
    let (_, said, end) = std::thread::scope(|scope| {
        scope.spawn(move || {
            // It stays a zombie until it is waited for, which is after its standard error has ended.
            let raw = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
            while !matches!(support::state_of(pid), 'Z' | 'X') && kill_process(raw, Signal::USR1).is_ok() {}
        });
        dd.finish()
    });
    assert_eq!(end, End::Exit(0));
    assert!(
        normal(&said).ends_with(&expanded("{12+0 12+0 805306368 (805 MB, 768 MiB)}")),
        "{}",
        &said[said.len().saturating_sub(300)..]
    );
    assert!(!said.contains("+1 records in"), "a partial record");
}

/// Passes three bytes through dd and leaves it waiting for more.
fn with_three_bytes_through(mut dd: Running) -> Running {
    dd.write(b"abc");
    assert_eq!(dd.read(3), b"abc");
    dd.until_it_waits();
    dd
}

#[test]
fn sigint_prints_the_statistics_and_kills() {
    let dir = support::scratch();
    let dd = with_three_bytes_through(Running::dd(&["bs=3"], dir.path()));
    dd.send(Signal::INT);
    let (_, said, end) = dd.finish();
    assert_eq!((normal(&said), end), (expanded("{1+0 1+0 3}"), End::Signal(2)));
}

#[test]
fn sigterm_and_sighup_print_the_statistics_and_kill() {
    for (signal, number) in [(Signal::TERM, 15), (Signal::HUP, 1)] {
        let dir = support::scratch();
        let dd = with_three_bytes_through(Running::dd(&["bs=3"], dir.path()));
        dd.send(signal);
        let (_, said, end) = dd.finish();
        // GNU dd dies in silence.
        let wanted = if is_gnu() { String::new() } else { expanded("{1+0 1+0 3}") };
        assert_eq!((normal(&said), end), (wanted, End::Signal(number)));
    }
}

#[test]
fn signals_that_end_are_left_ignored_if_they_were() {
    for (name, signal) in [("INT", Signal::INT), ("TERM", Signal::TERM), ("HUP", Signal::HUP)] {
        let dir = support::scratch();
        let mut dd = with_three_bytes_through(Running::after(&format!("trap '' {name}"), &["bs=3"], dir.path()));
        dd.send(signal);
        dd.write(b"def");
        let (stdout, said, end) = dd.finish();
        assert_eq!(
            (stdout.as_slice(), normal(&said), end),
            (&b"def"[..], expanded("{2+0 2+0 6}"), End::Exit(0)),
            "{name}"
        );
    }
}

#[test]
fn sigint_in_a_blocked_open_kills_after_the_statistics() {
    let dir = support::scratch();
    assert!(Command::new("mkfifo").arg(dir.path().join("p")).status().unwrap().success());
    let dd = Running::dd(&["if=p"], dir.path());
    dd.until_it_waits();
    dd.send(Signal::INT);
    let (_, said, end) = dd.finish();
    assert_eq!((normal(&said), end), (expanded("{0+0 0+0 0}"), End::Signal(2)));
}

#[test]
fn sigint_counts_what_reached_the_output() {
    let dir = support::scratch();
    let dd = Running::dd(&["if=/dev/zero", "bs=1M"], dir.path());
    dd.until_it_waits();
    dd.send(Signal::INT);
    let (stdout, said, end) = dd.finish();
    assert_eq!(end, End::Signal(2));
    assert!(!stdout.is_empty());
    let said = copied(&said);
    // GNU dd does not count the block in progress.
    let wanted = if is_gnu() { 0 } else { stdout.len() as u64 };
    assert_eq!(said, [wanted]);
}

/// A pipe for standard error that takes no byte more.
fn full_stderr() -> (OwnedFd, OwnedFd) {
    let (reader, writer) = support::pipe();
    let flags = rustix::fs::fcntl_getfl(&writer).unwrap();
    rustix::fs::fcntl_setfl(&writer, flags | rustix::fs::OFlags::NONBLOCK).unwrap();
    while rustix::io::write(&writer, &[b'.'; 4096]).is_ok() {}
    rustix::fs::fcntl_setfl(&writer, flags).unwrap();
    (reader, writer)
}

#[test]
fn a_second_sigint_kills_at_once() {
    let dir = support::scratch();
    let (stderr, writer) = full_stderr();
    let command = support::command(support::dd_under_test(), &["bs=3"], dir.path());
    let mut dd = with_three_bytes_through(Running::with_stderr(command, stderr, writer));
    dd.send(Signal::INT);
    // It has taken the first one and cannot print.
    support::until("the first one was taken", || !support::catches(dd.pid(), SIGINT));
    if support::state_of(dd.pid()) != 'Z' {
        dd.send(Signal::INT);
    }
    let status = support::wait(&mut dd.child, LIMIT).expect("the second one kills");
    assert_eq!(End::from(status), End::Signal(2));
}

/// Progress lines in what was said: bytes and whole seconds.
fn progress(said: &str) -> Vec<(u64, u64)> {
    said.split('\r')
        .skip(1)
        .filter_map(|line| {
            let line = line.split('\n').next().unwrap();
            let (head, rest) = line.split_once(" copied, ")?;
            let seconds = rest.split_once(" s, ")?.0.parse().ok()?;
            Some((head.split(' ').next()?.parse().ok()?, seconds))
        })
        .collect()
}

/// Writes a byte and reads it back until dd has shown so many progress lines.
fn feed_until(dd: &mut Running, lines: usize) -> u64 {
    let deadline = Instant::now() + LIMIT;
    let mut fed = 0;
    while progress(&String::from_utf8_lossy(&dd.said)).len() < lines {
        assert!(Instant::now() < deadline, "{} progress lines: {}", lines, support::one_line(&dd.said));
        dd.write(b"x");
        dd.read(1);
        fed += 1;
        if support::readable(&dd.stderr, Duration::from_millis(2)) {
            dd.hear();
        }
    }
    fed
}

/// The whole of standard error: progress lines, a newline, the summary.
fn assert_progress_then_summary(said: &str, bytes: u64) {
    let (lines, summary) = said.split_once('\n').unwrap();
    assert!(lines.starts_with('\r'), "{said:?}");
    let mut width = 0;
    for line in lines.split('\r').skip(1) {
        let text = line.trim_end_matches(' ');
        assert_eq!(normal(text).split_once(" copied, ").map(|(_, rest)| rest), Some("T s, R"), "{text:?}");
        let seconds = text.split_once(" copied, ").and_then(|(_, rest)| rest.split_once(" s, ")).unwrap().0;
        assert!(seconds.bytes().all(|byte| byte.is_ascii_digit()), "{text:?}");
        // Spaces cover the rest of a longer line before it, and no more.
        assert_eq!(line.len(), text.len().max(width), "{lines:?}");
        width = text.len();
    }
    let seconds: Vec<_> = progress(said).iter().map(|(_, seconds)| *seconds).collect();
    assert_eq!(seconds.first(), Some(&1), "the first line comes after one second: {said:?}");
    let units = if bytes < 1000 {
        String::new()
    } else {
        summary.split_once(" bytes").unwrap().1.split_once(" copied").unwrap().0.to_owned()
    };
    assert_eq!(normal(summary), expanded(&format!("{{{bytes}+0 {bytes}+0 {bytes}{units}}}")));
}

#[test]
fn progress_goes_to_a_pipe_and_ends_with_a_newline_before_the_summary() {
    let dir = support::scratch();
    let mut dd = Running::dd(&["bs=1", "status=progress"], dir.path());
    let fed = feed_until(&mut dd, 2);
    let (stdout, said, end) = dd.finish();
    assert_eq!((stdout.len(), end), (0, End::Exit(0)));
    assert_progress_then_summary(&said, fed);
}

#[test]
fn progress_goes_to_a_terminal_in_the_same_form() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = rustix::fs::open(
        &name,
        rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )
    .unwrap();
    // The bytes as dd writes them: no carriage return before a newline.
    let mut attributes = rustix::termios::tcgetattr(&slave).unwrap();
    attributes.make_raw();
    rustix::termios::tcsetattr(&slave, rustix::termios::OptionalActions::Now, &attributes).unwrap();
    let dir = support::scratch();
    let command = support::command(support::dd_under_test(), &["bs=1", "status=progress"], dir.path());
    let mut dd = Running::with_stderr(command, master, slave);
    let fed = feed_until(&mut dd, 1);
    drop(dd.stdin.take());
    while dd.hear() {}
    let status = support::wait(&mut dd.child, LIMIT).unwrap();
    assert_eq!(End::from(status), End::Exit(0));
    assert_progress_then_summary(&String::from_utf8_lossy(&dd.said), fed);
}

#[test]
fn a_report_after_a_progress_line_starts_on_a_line_of_its_own() {
    let dir = support::scratch();
    let mut dd = Running::dd(&["bs=1", "status=progress"], dir.path());
    let fed = feed_until(&mut dd, 1);
    dd.until_it_waits();
    dd.send(Signal::USR1);
    dd.until_said("a report", |said| said.contains(" records in\n"));
    let said = String::from_utf8_lossy(&dd.said).into_owned();
    let (before, _) = said.split_once(" records in\n").unwrap();
    let (line, number) = before.rsplit_once('\n').expect("a newline before the report");
    assert_eq!(number, format!("{fed}+0"));
    assert!(line.starts_with('\r') && !line.contains('\n'), "{said:?}");
    let (_, _, end) = dd.finish();
    assert_eq!(end, End::Exit(0));
}

#[test]
fn the_line_before_a_sync_is_one_line_with_its_newline() {
    let dir = support::scratch();
    let mut dd = Running::dd(&["bs=1", "status=progress", "conv=fsync", "of=out"], dir.path());
    let deadline = Instant::now() + LIMIT;
    while progress(&String::from_utf8_lossy(&dd.said)).is_empty() {
        assert!(Instant::now() < deadline, "no progress line");
        dd.write(b"x");
        if support::readable(&dd.stderr, Duration::from_millis(2)) {
            dd.hear();
        }
    }
    // More bytes than the line shows.
    dd.write(b"xyz");
    let (_, said, end) = dd.finish();
    assert_eq!(end, End::Exit(0));
    let glued = said.split(['\r', '\n']).any(|line| line.matches(" copied, ").count() > 1);
    let blank = said.contains("\n\n");
    // GNU dd glues the line to the one before and adds a blank line.
    assert_eq!((glued, blank), (is_gnu(), is_gnu()), "{said:?}");
}

#[test]
fn progress_goes_on_while_a_read_waits() {
    if is_gnu() {
        // GNU dd says nothing while it waits: nothing would ever come.
        return;
    }
    let dir = support::scratch();
    let mut dd = Running::dd(&["bs=1", "status=progress"], dir.path());
    dd.write(b"x");
    dd.until_said("two progress lines", |said| progress(said).len() >= 2);
    assert_eq!(progress(&String::from_utf8_lossy(&dd.said))[..2], [(1, 1), (1, 2)]);
    let (stdout, said, end) = dd.finish();
    assert_eq!((stdout.as_slice(), end), (&b"x"[..], End::Exit(0)));
    assert_progress_then_summary(&said, 1);
}

#[test]
fn progress_goes_on_while_a_write_waits() {
    if is_gnu() {
        return;
    }
    let dir = support::scratch();
    let mut dd = Running::dd(&["if=/dev/zero", "bs=1M", "count=3", "status=progress"], dir.path());
    dd.until_said("two progress lines", |said| progress(said).len() >= 2);
    let (stdout, _, end) = dd.finish();
    assert_eq!((stdout.len(), end), (3 << 20, End::Exit(0)));
}

#[test]
fn after_a_stall_progress_does_not_catch_up_in_a_burst() {
    let dir = support::scratch();
    let mut dd = Running::dd(&["bs=1", "status=progress"], dir.path());
    feed_until(&mut dd, 1);
    let pid = dd.pid();
    dd.send(Signal::STOP);
    support::until("dd stands still", || support::state_of(pid) == 'T');
    // The stall itself: three periods go by.
    std::thread::sleep(Duration::from_millis(3200));
    dd.send(Signal::CONT);
    feed_until(&mut dd, 4);
    let (_, said, end) = dd.finish();
    assert_eq!(end, End::Exit(0));
    let seconds: Vec<_> = progress(&said).iter().map(|(_, seconds)| *seconds).collect();
    let grows = seconds.windows(2).all(|pair| pair[0] < pair[1]);
    // GNU dd prints a line for each second that it missed, all with the same time.
    assert_eq!(grows, !is_gnu(), "{seconds:?}");
}

#[test]
fn a_stuck_standard_error_drops_the_progress_line_and_not_the_copy() {
    if is_gnu() {
        // GNU dd waits for it.
        return;
    }
    let dir = support::scratch();
    let (stderr, writer) = full_stderr();
    let command = support::command(support::dd_under_test(), &["bs=1", "status=progress"], dir.path());
    let mut dd = Running::with_stderr(command, stderr, writer);
    let started = Instant::now();
    let mut fed: u64 = 0;
    // Longer than two progress lines take to be due.
    while started.elapsed() < Duration::from_millis(2300) {
        dd.write(b"x");
        assert_eq!(dd.read(1), b"x");
        fed += 1;
    }
    let (_, said, end) = dd.finish();
    assert_eq!(end, End::Exit(0));
    let said = said.trim_start_matches('.');
    let summary = format!("{fed}+0 records in\n{fed}+0 records out\n{fed} bytes");
    assert!(said.contains(&summary), "{said:?}");
}

#[test]
fn stop_and_continue_lose_nothing() {
    let dir = support::scratch();
    let bytes = source(4 << 20);
    fs::write(dir.path().join("in"), &bytes).unwrap();
    let mut dd = Running::dd(&["if=in", "bs=10000"], dir.path());
    let mut got = Vec::new();
    for _ in 0..50 {
        got.extend(dd.read(3000));
        dd.send(Signal::STOP);
        support::until("dd stands still", || support::state_of(dd.pid()) == 'T');
        dd.send(Signal::CONT);
    }
    let (rest, said, end) = dd.finish();
    got.extend(rest);
    assert!(got == bytes);
    assert_eq!((normal(&said), end), (expanded("{419+1 419+1 4194304 (4.2 MB, 4.0 MiB)}"), End::Exit(0)));
}
