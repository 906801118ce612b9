//! Threads for digests under GNU make's jobserver: one token each, and every token back whatever ended dd.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::fs::{CWD, FileType, Mode, OFlags, fcntl_getfl, mknodat};
use rustix::io::ioctl_fionread;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, kill_process};
use support::{End, LIMIT};

/// A jobserver of the test's own. Its tokens differ, so that one that comes back as another is seen.
struct Server {
    read: OwnedFd,
    write: OwnedFd,
    makeflags: OsString,
    flags: [OFlags; 2],
}

impl Server {
    /// As GNU make up to 4.3 has it: two descriptors that are inherited.
    fn pipe(tokens: &[u8]) -> Server {
        // No CLOEXEC: the numbers are the same in the children.
        let (read, write) = pipe_with(PipeFlags::empty()).unwrap();
        let makeflags = format!(" -j8 --jobserver-auth={},{}", support::number(&read), support::number(&write));
        Server::of(read, write, makeflags.into(), tokens)
    }

    /// As GNU make from 4.4 on has it.
    fn fifo(path: &Path, tokens: &[u8]) -> Server {
        mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let open = || OpenOptions::new().read(true).write(true).open(path).unwrap();
        let mut makeflags = OsString::from(" -j8 --jobserver-auth=fifo:");
        makeflags.push(path);
        Server::of(open().into(), open().into(), makeflags, tokens)
    }

    fn of(read: OwnedFd, write: OwnedFd, makeflags: OsString, tokens: &[u8]) -> Server {
        rustix::io::write(&write, tokens).unwrap();
        let flags = [fcntl_getfl(&read).unwrap(), fcntl_getfl(&write).unwrap()];
        Server { read, write, makeflags, flags }
    }

    fn tokens(&self) -> u64 {
        ioctl_fionread(&self.read).unwrap()
    }

    /// All tokens are there again, each the same byte, and nothing was done to the descriptions.
    fn assert_whole(&self, tokens: &[u8], what: &str) {
        assert_eq!([fcntl_getfl(&self.read).unwrap(), fcntl_getfl(&self.write).unwrap()], self.flags, "{what}");
        let mut there = vec![0; usize::try_from(self.tokens()).unwrap()];
        if !there.is_empty() {
            rustix::io::read(&self.read, &mut there).unwrap();
        }
        there.sort_unstable();
        assert_eq!(there, tokens, "{what}");
        rustix::io::write(&self.write, tokens).unwrap();
    }
}

/// A dd that hashes three ways, each on a thread of its own as far as there are tokens, and reads byte by byte from the test.
struct Job {
    child: Child,
    feed: File,
    stderr: OwnedFd,
}

impl Job {
    fn start(server: &Server, dir: &Path, script: &str, extra: &[&str]) -> Job {
        let (stdin, feed) = support::pipe();
        let (stderr, stderr_writer) = support::pipe();
        let mut args = vec!["hash=sha256,md5,sha1", "bs=1"];
        args.extend(extra);
        let mut command = support::shell(support::dd_under_test(), script, &args, dir);
        command.env("MAKEFLAGS", &server.makeflags).env("FDD_DIGESTS", "threads");
        command.stdin(stdin).stdout(Stdio::null()).stderr(stderr_writer);
        Job { child: command.spawn().unwrap(), feed: feed.into(), stderr }
    }

    /// Two bytes in, one after the other, and the second out: the first has been hashed, so every thread that can be had is there.
    fn feed_two(&mut self, out: &Path) {
        feed_two(&mut self.feed, out);
    }

    fn send(&self, signal: Signal) {
        let _ = kill_process(Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap(), signal);
    }

    fn end(self) -> (End, String) {
        drop(self.feed);
        let out = support::collect(self.child, None, Some(self.stderr), LIMIT);
        (out.end, String::from_utf8(out.stderr).unwrap())
    }
}

fn feed_two(feed: &mut File, out: &Path) {
    for fed in 1..=2 {
        feed.write_all(b"x").unwrap();
        support::until("a byte is written", || fs::metadata(out).is_ok_and(|meta| meta.len() == fed));
    }
}

/// Threads beside the first.
fn threads(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/task")).map_or(0, |tasks| tasks.count().saturating_sub(1))
}

const PLAIN: &str = "exec dd \"$@\"";

/// So that nothing is left behind by those that dump core.
const NO_CORE: &str = "ulimit -c 0; exec dd \"$@\"";

#[test]
fn each_thread_holds_a_token_until_it_has_ended() {
    let scratch = support::scratch();
    let out = scratch.path().join("out");
    let servers = [Server::pipe(b"abcde"), Server::fifo(&scratch.path().join("fifo"), b"abcde")];
    for server in servers {
        let mut job = Job::start(&server, scratch.path(), PLAIN, &["of=out"]);
        job.feed_two(&out);
        assert_eq!((threads(job.child.id()), server.tokens()), (3, 2));
        assert_eq!([fcntl_getfl(&server.read).unwrap(), fcntl_getfl(&server.write).unwrap()], server.flags);
        let (end, said) = job.end();
        assert_eq!(end, End::Exit(0), "{said}");
        assert!(said.contains("md5 (out) = 9336ebf25087d91c818ee6e9ec29f8c1"), "{said}");
        server.assert_whole(b"abcde", "at the end");
        fs::remove_file(&out).unwrap();
    }
}

#[test]
fn without_a_token_it_works_inline_and_takes_one_later() {
    let scratch = support::scratch();
    let out = scratch.path().join("out");
    let server = Server::pipe(b"");
    let mut job = Job::start(&server, scratch.path(), PLAIN, &["of=out", "bs=64k"]);
    job.feed_two(&out);
    assert_eq!(threads(job.child.id()), 0);
    rustix::io::write(&server.write, b"t").unwrap();
    job.feed.write_all(&vec![b'c'; 16 << 20]).unwrap();
    support::until("the token is taken", || server.tokens() == 0);
    support::until("a thread has it", || threads(job.child.id()) == 1);
    let (end, said) = job.end();
    assert_eq!(end, End::Exit(0), "{said}");
    let sum = Command::new("sha256sum").stdin(File::open(&out).unwrap()).output().unwrap().stdout;
    let sum = String::from_utf8(sum).unwrap();
    assert!(said.contains(&format!("sha256 (out) = {}", &sum[..64])), "{said}");
    server.assert_whole(b"t", "at the end");
}

#[test]
fn where_no_jobserver_is_named_there_is_no_limit() {
    let scratch = support::scratch();
    for makeflags in ["", "kw", " -j -- A=--jobserver-auth=3,4"] {
        let server = Server { makeflags: makeflags.into(), ..Server::pipe(b"") };
        let mut job = Job::start(&server, scratch.path(), PLAIN, &["of=out"]);
        job.feed_two(&scratch.path().join("out"));
        assert_eq!(threads(job.child.id()), 3, "{makeflags}");
        assert_eq!(job.end().0, End::Exit(0));
        fs::remove_file(scratch.path().join("out")).unwrap();
    }
}

#[test]
fn no_signal_takes_a_token_along() {
    let scratch = support::scratch();
    let out = scratch.path().join("out");
    let rt = |number| Signal::from_named_raw(number).unwrap_or(Signal::USR2);
    let server = Server::pipe(b"abc");
    for signal in [
        Signal::INT,
        Signal::TERM,
        Signal::HUP,
        Signal::QUIT,
        Signal::ALARM,
        Signal::PIPE,
        Signal::USR2,
        Signal::VTALARM,
        Signal::PROF,
        Signal::IO,
        Signal::XCPU,
        Signal::XFSZ,
        Signal::ABORT,
        Signal::SEGV,
        Signal::BUS,
        Signal::ILL,
        Signal::FPE,
        Signal::TRAP,
        Signal::SYS,
        rt(30),
    ] {
        for extra in [&["of=out"][..], &["of=out", "buffer=64k"], &["of=out", "hashconv=before"]] {
            let mut job = Job::start(&server, scratch.path(), NO_CORE, extra);
            job.feed_two(&out);
            support::until("the tokens are taken", || server.tokens() == 0);
            job.send(signal);
            let (end, said) = job.end();
            assert_eq!(end, End::Signal(signal.as_raw()), "{said}");
            server.assert_whole(b"abc", &format!("{signal:?} {extra:?}"));
            fs::remove_file(&out).unwrap();
        }
    }
    // Both ask for an end that is not waited for: the second may come at any moment of the first one's work.
    for round in 0..50 {
        let mut job = Job::start(&server, scratch.path(), PLAIN, &["of=out"]);
        job.feed_two(&out);
        job.send(Signal::INT);
        (0..round * 50).for_each(|_| std::hint::spin_loop());
        job.send(Signal::INT);
        assert_eq!(job.end().0, End::Signal(2));
        server.assert_whole(b"abc", "two SIGINTs");
        fs::remove_file(&out).unwrap();
    }
}

#[test]
fn signals_that_the_parent_ignored_stay_ignored() {
    let scratch = support::scratch();
    let server = Server::pipe(b"abc");
    let mut job = Job::start(&server, scratch.path(), "trap '' INT QUIT USR2; exec dd \"$@\"", &["of=out"]);
    job.feed_two(&scratch.path().join("out"));
    [Signal::INT, Signal::QUIT, Signal::USR2].into_iter().for_each(|signal| job.send(signal));
    assert_eq!(job.end().0, End::Exit(0));
    server.assert_whole(b"abc", "at the end");
}

#[test]
fn no_error_takes_a_token_along() {
    let scratch = support::scratch();
    let dir = scratch.path();
    let server = Server::pipe(b"abc");
    for (script, operands, end) in [
        (PLAIN, "of=/dev/full hashconv=before", End::Exit(1)),
        ("ulimit -f 1; exec dd \"$@\"", "of=out", End::Signal(libc::SIGXFSZ)),
        ("ulimit -f 1; exec dd \"$@\"", "of=out buffer=64k", End::Signal(libc::SIGXFSZ)),
        ("trap '' XFSZ; ulimit -f 1; exec dd \"$@\"", "of=out", End::Exit(1)),
        ("dd \"$@\" | true", "hashconv=before", End::Exit(0)),
    ] {
        let operands: Vec<&str> = operands.split_whitespace().collect();
        let mut job = Job::start(&server, dir, script, &operands);
        // It may have left by then.
        let _ = job.feed.write_all(&[b'x'; 4096]);
        let (ended, said) = job.end();
        assert_eq!(ended, end, "{script} {operands:?}: {said}");
        // What is not waited for gives its tokens back too, but when it likes.
        support::until("all tokens are back", || server.tokens() == 3);
        server.assert_whole(b"abc", script);
        let _ = fs::remove_file(dir.join("out"));
    }
}

#[test]
fn what_the_user_gave_is_never_taken_for_a_token() {
    let scratch = support::scratch();
    let dir = scratch.path();
    let script = |redirections: &str| format!("exec dd \"$@\" {redirections}");
    for (named, redirections, operands) in [
        // Closed: dd's own files get these numbers.
        ("3,4", "3>&- 4>&-", "if=data of=out"),
        ("-2,-2", "", "if=data of=out"),
        ("0,1", "<data >out", ""),
        // Files, not pipes.
        ("3,4", "3<data 4<>out", "if=/dev/fd/3 of=/dev/fd/4"),
        // Pipes, not one.
        ("3,4", "3<pipe 4>&1", "if=/dev/fd/3 of=out"),
        // One, but it is the input.
        ("3,4", "3<pipe 4>pipe", "if=/dev/fd/3 of=out count=6"),
        ("fifo:pipe", "3<>pipe", "if=/dev/fd/3 of=out count=6"),
        ("fifo:data", "", "if=data of=out"),
    ] {
        fs::write(dir.join("data"), "tokens").unwrap();
        fs::write(dir.join("out"), "").unwrap();
        mknodat(CWD, dir.join("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let pipe = redirections.contains("pipe").then(|| {
            let mut pipe = OpenOptions::new().read(true).write(true).open(dir.join("pipe")).unwrap();
            pipe.write_all(b"tokens").unwrap();
            pipe
        });
        let mut args: Vec<&str> = operands.split_whitespace().collect();
        args.extend(["bs=1", "hash=sha256,md5"]);
        if !operands.contains("count") {
            args.push("count=6");
        }
        let mut command = support::shell(support::dd_under_test(), &script(redirections), &args, dir);
        command.env("MAKEFLAGS", format!(" -j4 --jobserver-auth={named}")).env("FDD_DIGESTS", "threads");
        // Byte by byte: there are more in the pipe when the first has been hashed.
        command.env("FDD_STRATEGY_REPORT", dir.join("report")).env("FDD_STRATEGY", "pump");
        let out = support::finish(command, None, LIMIT);
        let what = format!("{named} {redirections} {operands}: {}", support::one_line(&out.stderr));
        assert_eq!(out.end, End::Exit(0), "{what}");
        assert_eq!(fs::read(dir.join("out")).unwrap(), b"tokens", "{what}");
        let report = fs::read_to_string(dir.join("report")).unwrap();
        assert!(!report.contains("digest_threads"), "{what}");
        drop(pipe);
        for file in ["pipe", "report"] {
            fs::remove_file(dir.join(file)).unwrap();
        }
    }
}

/// A real make. `None`, said aloud, where there is none.
fn make(dir: &Path, makefile: &str, args: &[&str]) -> Option<Command> {
    if !Command::new("make").arg("--version").output().is_ok_and(|out| out.stdout.starts_with(b"GNU Make")) {
        support::skip("no GNU make");
        return None;
    }
    fs::write(dir.join("Makefile"), makefile).unwrap();
    let mut command = support::shell(support::dd_under_test(), "ulimit -c 0; exec make \"$@\"", args, dir);
    command.env_remove("MAKEFLAGS").env_remove("MAKELEVEL").env("FDD_DIGESTS", "threads");
    Some(command)
}

/// make counts its tokens when it ends, and says so where one is missing or too many.
fn assert_whole(said: &str) {
    assert!(!said.contains("INTERNAL") && !said.contains("tokens"), "{said}");
}

/// The processes below `pid` that run dd.
fn jobs_below(pid: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let children = children.split_whitespace().map(|child| child.parse().unwrap());
    let is_dd = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "dd");
    children
        .flat_map(|child: u32| [vec![child].into_iter().filter(is_dd).collect(), jobs_below(child)].concat())
        .collect()
}

#[test]
fn make_never_has_more_than_its_jobs() {
    const MAKEFILE: &str =
        "all: $(JOBS)\n$(JOBS):\n\t+exec dd if=in.$@ of=out.$@ bs=1 hash=sha256,sha512,sha1,md5,blake3\n";
    for running in 1..=4_usize {
        let scratch = support::scratch();
        let dir = scratch.path();
        let fifos: Vec<_> = (0..running).map(|job| dir.join(format!("in.{job}"))).collect();
        for fifo in &fifos {
            mknodat(CWD, fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        }
        let names = format!("JOBS={}", (0..running).map(|job| job.to_string()).collect::<Vec<_>>().join(" "));
        let Some(mut command) = make(dir, MAKEFILE, &["-j4", &names]) else { return };
        let (stderr, stderr_writer) = support::pipe();
        command.stdout(Stdio::null()).stderr(stderr_writer);
        let make = command.spawn().unwrap();
        drop(command);
        // All of them run, and wait for their first byte.
        let mut feeds: Vec<_> = fifos.iter().map(|fifo| OpenOptions::new().write(true).open(fifo).unwrap()).collect();
        for (job, feed) in feeds.iter_mut().enumerate() {
            feed_two(feed, &dir.join(format!("out.{job}")));
        }
        let jobs = jobs_below(make.id());
        let beside: usize = jobs.iter().map(|&job| threads(job)).sum();
        assert_eq!((jobs.len(), beside), (running, 4 - running));
        drop(feeds);
        let out = support::collect(make, None, Some(stderr), LIMIT);
        let said = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.end, End::Exit(0), "{said}");
        assert_whole(&said);
    }
}

#[test]
fn a_recipe_that_make_gives_no_tokens_works_inline() {
    const MAKEFILE: &str = "all:\n\tdd if=data of=out bs=1 hash=sha256,md5\n";
    let scratch = support::scratch();
    let dir = scratch.path();
    fs::write(dir.join("data"), "tokens").unwrap();
    let Some(mut command) = make(dir, MAKEFILE, &["-j4"]) else { return };
    command.stdout(Stdio::null()).env("FDD_STRATEGY_REPORT", dir.join("report"));
    let out = support::finish(command, None, LIMIT);
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!((out.end, fs::read(dir.join("out")).unwrap()), (End::Exit(0), b"tokens".to_vec()), "{said}");
    assert!(!fs::read_to_string(dir.join("report")).unwrap().contains("digest_threads"));
    assert_whole(&said);
}

#[test]
fn make_has_all_its_tokens_back_however_its_jobs_ended() {
    let scratch = support::scratch();
    let dir = scratch.path();
    fs::write(dir.join("big"), vec![7; 8 << 20]).unwrap();
    // Some end by themselves, some by an error, some by a signal at a moment that nobody chose.
    const DD: &str = "dd if=big bs=4k status=none hash=sha256,md5,sha1";
    let mut makefile = String::from("all: $(JOBS)\n");
    let mut names = Vec::new();
    for job in 0..60 {
        let kill = |signal: &str| {
            let moment = 1 + job * 7 % 40;
            format!("timeout -s {signal} 0.0{moment:02} {DD} of=out.{job}")
        };
        let recipe = match job % 10 {
            0 => format!("{DD} of=/dev/null"),
            1 => format!("{DD} of=/dev/full"),
            2 => format!("(ulimit -f 99; {DD} of=out.{job})"),
            3 => format!("{DD} | head -c 99999 >/dev/null"),
            4 => kill("TERM"),
            5 => kill("QUIT"),
            6 => kill("HUP"),
            7 => format!("{DD} of=/dev/null buffer=64k"),
            _ => kill("INT"),
        };
        makefile.push_str(&format!("{job}:\n\t+-@{recipe}\n"));
        names.push(job.to_string());
    }
    let Some(mut command) = make(dir, &makefile, &["-k", "-j4", &format!("JOBS={}", names.join(" "))]) else { return };
    command.stdout(Stdio::null()).env("FDD_STRATEGY_REPORT", dir.join("report"));
    let out = support::finish(command, None, LIMIT);
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.end, End::Exit(0), "{said}");
    assert_whole(&said);
    // Some had threads at all.
    assert!(fs::read_to_string(dir.join("report")).unwrap().contains("digest_threads"));
}

#[test]
fn a_server_has_all_its_tokens_back_from_many_at_once() {
    let scratch = support::scratch();
    let dir = scratch.path();
    fs::write(dir.join("big"), vec![7; 4 << 20]).unwrap();
    const TOKENS: &[u8] = b"0123456";
    for server in [Server::pipe(TOKENS), Server::fifo(&dir.join("server"), TOKENS)] {
        for round in 0..6_u32 {
            let mut children: Vec<Child> = (0..8)
                .map(|job| {
                    let args = ["if=big", &format!("of=out.{job}"), "bs=4k", "hash=sha256,md5,sha1", "status=none"];
                    let mut command = support::shell(support::dd_under_test(), NO_CORE, &args, dir);
                    command.env("MAKEFLAGS", &server.makeflags).env("FDD_DIGESTS", "threads");
                    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
                })
                .collect();
            for (job, child) in (0_u32..).zip(&mut children) {
                let signal = [Signal::INT, Signal::TERM, Signal::QUIT, Signal::ALARM][(job % 4) as usize];
                let written = u64::from(job * 37 + round * 71) % 100 * 40_000;
                support::until("it has come that far", || {
                    fs::metadata(dir.join(format!("out.{job}"))).is_ok_and(|meta| meta.len() >= written)
                });
                if job % 3 != 0 {
                    let _ = kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), signal);
                }
            }
            for (job, mut child) in children.into_iter().enumerate() {
                let status = support::wait(&mut child, LIMIT).unwrap();
                assert!(status.success() || (job % 3 != 0 && status.signal().is_some()), "{status:?}");
                fs::remove_file(dir.join(format!("out.{job}"))).unwrap();
            }
            server.assert_whole(TOKENS, &format!("round {round}"));
        }
    }
}
