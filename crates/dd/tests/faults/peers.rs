//! The same faults put to every dd and rescue tool that is installed here, and what became of the copy. It writes
//! `docs/peers.md`; run by `cargo test --test faults peers -- --ignored`. A peer outside the search path is named by
//! `PEER_UUTILS`.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::devices::{self, Access, Cgroup, Loop, Tmpfs};
use crate::fault_run::{Job, Ran, operand, pattern, program, read_all, tool};
use crate::faultfs::{FaultFs, Op, Rule, Survives};
use crate::or_skip;
use crate::sysfault::{Hit, POSITION, Plan, READ, THREAD, WRITE};

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Takes dd's operands.
    Dd,
    /// dd's operands, but no way to ask for durability.
    Dcfldd,
    Dc3dd,
    Ddrescue,
}

struct Peer {
    name: &'static str,
    kind: Kind,
    path: PathBuf,
    /// Arguments before the operands.
    applet: &'static [&'static str],
    version: String,
}

fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

fn peers() -> Vec<Peer> {
    let uutils = std::env::var_os("PEER_UUTILS").map(PathBuf::from);
    let rows = [
        ("fdd", Kind::Dd, Some(program()), &[][..]),
        ("GNU dd", Kind::Dd, find("dd"), &[]),
        ("uutils", Kind::Dd, uutils, &[]),
        ("toybox", Kind::Dd, find("toybox"), &["dd"]),
        ("dcfldd", Kind::Dcfldd, find("dcfldd"), &[]),
        ("dc3dd", Kind::Dc3dd, find("dc3dd"), &[]),
        ("ddrescue", Kind::Ddrescue, find("ddrescue"), &[]),
    ];
    let peer = |(name, kind, path, applet): (&'static str, Kind, Option<PathBuf>, &'static [&'static str])| {
        let path = path?;
        // Some builds of toybox leave dd out.
        let knows =
            |applet: &[&str]| Command::new(&path).args(applet).arg("--help").output().is_ok_and(|o| o.status.success());
        if !applet.is_empty() && !knows(applet) {
            return None;
        }
        let version = version(&path);
        Some(Peer { name, kind, path, applet, version })
    };
    rows.into_iter().filter_map(peer).collect()
}

fn version(path: &Path) -> String {
    let Ok(out) = Command::new(path).arg("--version").output() else {
        return String::new();
    };
    let text = [out.stdout, out.stderr].concat();
    String::from_utf8_lossy(&text).lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned()
}

/// One copy, in the words of whoever is asked.
#[derive(Clone, Copy)]
struct Copy<'a> {
    from: Option<&'a Path>,
    to: Option<&'a Path>,
    bs: &'a str,
    conv: &'a [&'a str],
}

impl Peer {
    /// None where the tool has no such thing.
    fn job(&self, copy: Copy) -> Option<Job> {
        let mut words: Vec<String> = self.applet.iter().map(|&w| w.to_owned()).collect();
        let only_noerror = copy.conv.iter().all(|c| ["noerror", "sync"].contains(c));
        match self.kind {
            Kind::Ddrescue => {
                let (from, to) = (copy.from?, copy.to?);
                words.extend(["--force".to_owned(), "--quiet".into()]);
                if copy.conv.contains(&"fsync") {
                    words.push("--synchronous".into());
                } else if copy.conv.contains(&"sparse") {
                    words.push("--sparse".into());
                }
                words.extend([from.display().to_string(), to.display().to_string()]);
            }
            Kind::Dd | Kind::Dcfldd | Kind::Dc3dd => {
                words.extend(copy.from.map(|path| operand("if", path)));
                words.extend(copy.to.map(|path| operand("of", path)));
                if self.kind != Kind::Dd && !only_noerror {
                    return None;
                }
                if self.kind != Kind::Dc3dd {
                    words.push(format!("bs={}", copy.bs));
                    if !copy.conv.is_empty() {
                        words.push(format!("conv={}", copy.conv.join(",")));
                    }
                }
            }
        }
        Some(tool(&self.path, &words))
    }
}

/// What became of it, in a few words, and whether that is right.
struct Outcome {
    text: String,
    right: bool,
}

fn outcome(right: bool, text: impl Into<String>) -> Option<Outcome> {
    Some(Outcome { text: text.into(), right })
}

/// An error status; which one is each tool's own affair.
fn fails(ran: &Ran) -> bool {
    ran.code().is_some_and(|code| code != 0)
}

fn ended(ran: &Ran) -> String {
    match (ran.hung, ran.signal(), ran.code()) {
        (true, ..) => "does not end".into(),
        (_, Some(signal), _) => format!("signal {signal}"),
        (_, _, code) => format!("exit {}", code.unwrap_or(-1)),
    }
}

const SECTOR: usize = 512;
const SIZE: usize = 2 << 20;

/// Compares sector by sector: lost is zero where data should be, wrong is anything else.
fn compare(got: &[u8], source: &[u8], bad: usize) -> (String, bool) {
    let mut lost = 0;
    let mut wrong = 0;
    for (at, sector) in source.chunks(SECTOR).enumerate() {
        let here = got.get(at * SECTOR..).map(|rest| &rest[..rest.len().min(sector.len())]);
        match here {
            Some(bytes) if bytes == sector => {}
            Some(bytes) if bytes.iter().any(|&b| b != 0) => wrong += 1,
            Some(_) | None => lost += 1,
        }
    }
    let mut text = format!("{lost} sectors lost for {bad} bad");
    if wrong > 0 {
        let _ = write!(text, ", {wrong} misplaced");
    }
    if got.len() != source.len() {
        let _ = write!(text, ", {} of {} bytes", got.len(), source.len());
    }
    (text, lost == bad && wrong == 0 && got.len() == source.len())
}

fn scratch() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let out = dir.path().join("out");
    (dir, out)
}

/// A file whose sectors fail, copied with noerror.
fn rescue(peer: &Peer, rules: &[Rule], bad: usize) -> Option<Outcome> {
    let fs = FaultFs::mount().ok()?;
    let data = pattern(SIZE);
    fs.put("in", &data);
    fs.direct();
    rules.iter().for_each(|rule| fs.rule(rule.clone()));
    let (_dir, out) = scratch();
    let from = fs.path("in");
    let copy = Copy { from: Some(&from), to: Some(&out), bs: "4096", conv: &["noerror", "sync"] };
    let ran = peer.job(copy)?.limit(libc::RLIMIT_FSIZE, 1 << 26).run();
    let (text, right) = compare(&read_all(&out), &data, bad);
    let honest = if bad == 0 { ran.code() == Some(0) } else { fails(&ran) };
    outcome(right && honest, format!("{}, {text}", ended(&ran)))
}

fn bad_inside_a_block(peer: &Peer) -> Option<Outcome> {
    rescue(peer, &[Rule::on("in", Op::Read).sectors(2053..2056).partial()], 3)
}

fn one_bad_sector(peer: &Peer) -> Option<Outcome> {
    rescue(peer, &[Rule::on("in", Op::Read).sectors(2053..2054)], 1)
}

fn bad_last_sector(peer: &Peer) -> Option<Outcome> {
    rescue(peer, &[Rule::on("in", Op::Read).sectors(4095..4096)], 1)
}

fn third_try(peer: &Peer) -> Option<Outcome> {
    rescue(peer, &[Rule::on("in", Op::Read).sectors(300..303).tries(2)], 0)
}

fn bad_device(peer: &Peer) -> Option<Outcome> {
    let fs = FaultFs::mount().ok()?;
    let data = pattern(SIZE);
    fs.put("in", &data);
    fs.direct();
    fs.rule(Rule::on("in", Op::Read).sectors(2053..2054));
    fs.rule(Rule::on("in", Op::Read).sectors(3000..3001));
    let disk = Loop::attach(&fs.path("in"), 512, Access::ReadOnly).ok()?;
    let (_dir, out) = scratch();
    let copy = Copy { from: Some(disk.path()), to: Some(&out), bs: "64k", conv: &["noerror", "sync"] };
    let ran = peer.job(copy)?.run();
    let (text, right) = compare(&read_all(&out), &data, 2);
    outcome(right && fails(&ran), format!("{}, {text}", ended(&ran)))
}

fn pulled_out(peer: &Peer) -> Option<Outcome> {
    let fs = FaultFs::mount().ok()?;
    fs.put("in", &pattern(SIZE));
    fs.direct();
    fs.rule(Rule::on("in", Op::Read).bytes(256 * 1024..u64::MAX).past_end().fails(libc::ENODEV));
    let (_dir, out) = scratch();
    let from = fs.path("in");
    let copy = Copy { from: Some(&from), to: Some(&out), bs: "4096", conv: &["noerror", "sync"] };
    let ran = peer.job(copy)?.limit(libc::RLIMIT_FSIZE, 1 << 26).run();
    let len = read_all(&out).len();
    let right = len <= SIZE + 4096 && fails(&ran);
    outcome(right, format!("{}, {len} bytes out of 262144 readable", ended(&ran)))
}

fn before_the_bad_sector(peer: &Peer) -> Option<Outcome> {
    let fs = FaultFs::mount().ok()?;
    let data = pattern(SIZE);
    fs.put("in", &data);
    fs.direct();
    fs.rule(Rule::on("in", Op::Read).sectors(2053..2054));
    let (_dir, out) = scratch();
    let from = fs.path("in");
    if peer.kind == Kind::Ddrescue {
        return None; // It never stops at an error.
    }
    let ran = peer.job(Copy { from: Some(&from), to: Some(&out), bs: "64k", conv: &[] })?.run();
    let got = read_all(&out);
    let right = got == data[..2053 * SECTOR] && fails(&ran);
    outcome(right, format!("{}, {} of {} readable bytes", ended(&ran), got.len(), 2053 * SECTOR))
}

fn short_writes(peer: &Peer) -> Option<Outcome> {
    let fs = FaultFs::mount().ok()?;
    let data = pattern(SIZE);
    let (_dir, from) = scratch();
    fs::write(&from, &data).ok()?;
    fs.direct();
    fs.rule(Rule::on("out", Op::Write).short(700));
    let to = fs.path("out");
    let ran = peer.job(Copy { from: Some(&from), to: Some(&to), bs: "64k", conv: &[] })?.run();
    let got = fs.contents("out").unwrap_or_default();
    outcome(got == data && ran.code() == Some(0), format!("{}, {} of {SIZE} bytes", ended(&ran), got.len()))
}

fn interrupted(peer: &Peer) -> Option<Outcome> {
    let (dir, out) = scratch();
    let from = dir.path().join("in");
    let data = pattern(SIZE);
    fs::write(&from, &data).ok()?;
    let plan = Plan::on(&[READ, WRITE], Hit::Fail(libc::EINTR)).every(2).only(&dir.path().display().to_string());
    let copy = Copy { from: Some(&from), to: Some(&out), bs: "64k", conv: &[] };
    let ran = peer.job(copy)?.faults(plan).run();
    let got = read_all(&out);
    outcome(got == data && ran.code() == Some(0), format!("{}, {} of {SIZE} bytes", ended(&ran), got.len()))
}

fn claims(ran: &Ran, len: usize) -> String {
    let said = claimed(ran).map_or_else(|| "no count".into(), |n| format!("says {n}"));
    format!("{}, {len} bytes out, {said}", ended(ran))
}

/// dc3dd counts in words of its own.
fn claimed(ran: &Ran) -> Option<u64> {
    ran.copied().or_else(|| {
        let line = ran.err.lines().rev().find(|line| line.contains(" bytes ") && line.contains("copied"))?;
        line.split_whitespace().next()?.parse().ok()
    })
}

fn full_disk(peer: &Peer) -> Option<Outcome> {
    let tmpfs = Tmpfs::mount(512 * 1024).ok()?;
    let (_dir, from) = scratch();
    fs::write(&from, pattern(1 << 20)).ok()?;
    let to = tmpfs.path("out");
    let ran = peer.job(Copy { from: Some(&from), to: Some(&to), bs: "300k", conv: &[] })?.run();
    let len = read_all(&to).len();
    let right = fails(&ran) && len == 512 * 1024 && claimed(&ran) == Some(len as u64);
    outcome(right, claims(&ran, len))
}

fn size_limit(peer: &Peer) -> Option<Outcome> {
    let (dir, out) = scratch();
    let from = dir.path().join("in");
    fs::write(&from, pattern(1 << 20)).ok()?;
    let job = peer.job(Copy { from: Some(&from), to: Some(&out), bs: "64k", conv: &[] })?;
    let ran = job.ignoring(libc::SIGXFSZ).limit(libc::RLIMIT_FSIZE, 512_000).run();
    let len = read_all(&out).len();
    outcome(fails(&ran) && claimed(&ran) == Some(len as u64) && len == 512_000, claims(&ran, len))
}

fn error_at_close(peer: &Peer) -> Option<Outcome> {
    let fs = FaultFs::mount().ok()?;
    let (_dir, from) = scratch();
    fs::write(&from, pattern(SIZE)).ok()?;
    fs.rule(Rule::on("out", Op::Flush).fails(libc::EDQUOT));
    let to = fs.path("out");
    let ran = peer.job(Copy { from: Some(&from), to: Some(&to), bs: "64k", conv: &[] })?.run();
    outcome(fails(&ran), ended(&ran))
}

fn failed_write_back(peer: &Peer) -> Option<Outcome> {
    let fs = FaultFs::mount().ok()?;
    let (_dir, from) = scratch();
    fs::write(&from, pattern(SIZE)).ok()?;
    fs.put("disk", &vec![b'Z'; SIZE]);
    fs.direct();
    fs.rule(Rule::on("disk", Op::Write).bytes(1 << 20..u64::MAX));
    let disk = Loop::attach(&fs.path("disk"), 512, Access::ReadWrite).ok()?;
    let ran = peer.job(Copy { from: Some(&from), to: Some(disk.path()), bs: "64k", conv: &[] })?.run();
    outcome(fails(&ran), format!("{}, half the data lost", ended(&ran)))
}

fn power_cut(peer: &Peer) -> Option<Outcome> {
    let fs = FaultFs::mount().ok()?;
    let (_dir, from) = scratch();
    let data = pattern(SIZE);
    fs::write(&from, &data).ok()?;
    let to = fs.path("out");
    let ran = peer.job(Copy { from: Some(&from), to: Some(&to), bs: "64k", conv: &["fsync"] })?.run();
    let left = fs.cut_power(Survives::Nothing).remove("out");
    let text = match &left {
        Some(bytes) => format!("{} of {SIZE} bytes survive", bytes.len()),
        None => "the name does not survive".into(),
    };
    outcome(left.as_ref() == Some(&data), format!("{}, {text}", ended(&ran)))
}

fn hung_read(peer: &Peer) -> Option<Outcome> {
    let fs = FaultFs::mount().ok()?;
    fs.put("in", &pattern(SIZE));
    fs.direct();
    fs.rule(Rule::on("in", Op::Read).bytes(1 << 20..u64::MAX).held());
    let (_dir, out) = scratch();
    let from = fs.path("in");
    let running = peer.job(Copy { from: Some(&from), to: Some(&out), bs: "64k", conv: &[] })?.start();
    if !fs.is_held_soon() {
        return outcome(false, running.wait().show());
    }
    running.send(libc::SIGINT);
    let pid = running.child.id();
    let released = std::thread::spawn(move || {
        while !devices::ended_within(pid, std::time::Duration::from_millis(20)) {
            fs.interrupt_held();
        }
    });
    let ran = running.wait();
    released.join().ok()?;
    let len = read_all(&out).len();
    let right = ran.signal() == Some(libc::SIGINT) && claimed(&ran) == Some(len as u64);
    outcome(right, claims(&ran, len))
}

/// The signal before the 5th write, with what is said and what is there.
fn ended_by(peer: &Peer, signal: i32) -> Option<Outcome> {
    let (dir, out) = scratch();
    let from = dir.path().join("in");
    fs::write(&from, pattern(SIZE)).ok()?;
    let plan = Plan::on(&[WRITE], Hit::Signal(signal)).only(&out.display().to_string()).nth(5);
    let copy = Copy { from: Some(&from), to: Some(&out), bs: "64k", conv: &[] };
    let ran = peer.job(copy)?.faults(plan).run();
    if ran.report.faults.is_empty() {
        return None; // Fewer calls than that, or others.
    }
    let len = read_all(&out).len();
    outcome(ran.signal() == Some(signal) && claimed(&ran) == Some(len as u64), claims(&ran, len))
}

fn sigint(peer: &Peer) -> Option<Outcome> {
    ended_by(peer, libc::SIGINT)
}

fn sigterm(peer: &Peer) -> Option<Outcome> {
    ended_by(peer, libc::SIGTERM)
}

fn reader_leaves(peer: &Peer) -> Option<Outcome> {
    let (_dir, from) = scratch();
    fs::write(&from, pattern(SIZE)).ok()?;
    let (reader, writer) = std::io::pipe().ok()?;
    drop(reader);
    let job = peer.job(Copy { from: Some(&from), to: None, bs: "64k", conv: &[] })?;
    let ran = job.stdout(writer).ignoring(libc::SIGPIPE).run();
    let said = claimed(&ran).map_or_else(|| "no count".into(), |n| format!("says {n}"));
    outcome(fails(&ran), format!("{}, {said}", ended(&ran)))
}

fn nonblocking_input(peer: &Peer) -> Option<Outcome> {
    let (_dir, out) = scratch();
    let (reader, mut writer) = std::io::pipe().ok()?;
    devices::nonblocking(&reader, true);
    let job = peer.job(Copy { from: None, to: Some(&out), bs: "64k", conv: &[] })?;
    let running = job.stdin(reader).start();
    let feeder = std::thread::spawn(move || {
        for piece in pattern(200_000).chunks(20_000) {
            std::thread::sleep(std::time::Duration::from_millis(5));
            if std::io::Write::write_all(&mut writer, piece).is_err() {
                return;
            }
        }
    });
    let ran = running.wait();
    feeder.join().ok()?;
    let len = read_all(&out).len();
    outcome(ran.code() == Some(0) && len == 200_000, format!("{}, {len} of 200000 bytes", ended(&ran)))
}

fn closed_stderr(peer: &Peer) -> Option<Outcome> {
    let (dir, out) = scratch();
    let from = dir.path().join("in");
    let data = pattern(100_000);
    fs::write(&from, &data).ok()?;
    let ran = peer.job(Copy { from: Some(&from), to: Some(&out), bs: "4k", conv: &[] })?.closed(2).run();
    let got = read_all(&out);
    let text = match got == data {
        true => "right",
        false if got.starts_with(&data) => "foreign bytes in the output",
        false => "the output is wrong",
    };
    outcome(got == data && fails(&ran), format!("{}, {text}", ended(&ran)))
}

fn full_stderr(peer: &Peer) -> Option<Outcome> {
    let (dir, out) = scratch();
    let from = dir.path().join("in");
    fs::write(&from, pattern(100_000)).ok()?;
    let full = OpenOptions::new().write(true).open("/dev/full").ok()?;
    let ran = peer.job(Copy { from: Some(&from), to: Some(&out), bs: "4k", conv: &[] })?.stderr(full).run();
    outcome(fails(&ran), ended(&ran))
}

fn refused_memory(peer: &Peer) -> Option<Outcome> {
    if peer.kind == Kind::Dc3dd || peer.kind == Kind::Ddrescue {
        return None;
    }
    let (_dir, out) = scratch();
    let zero = Path::new("/dev/zero");
    let job = peer.job(Copy { from: Some(zero), to: Some(&out), bs: "1G", conv: &[] })?;
    let ran = job.limit(libc::RLIMIT_AS, 300 << 20).limit(libc::RLIMIT_FSIZE, 1 << 26).run();
    let said = ran.messages().first().map_or("no message", |_| "a message");
    outcome(fails(&ran) && !ran.messages().is_empty(), format!("{}, {said}", ended(&ran)))
}

fn huge_block(peer: &Peer) -> Option<Outcome> {
    if peer.kind == Kind::Dc3dd || peer.kind == Kind::Ddrescue {
        return None;
    }
    let group = Cgroup::memory(24 << 20).ok()?;
    let (dir, out) = scratch();
    let from = dir.path().join("in");
    let data = pattern(4 << 20);
    fs::write(&from, &data).ok()?;
    let ran = peer.job(Copy { from: Some(&from), to: Some(&out), bs: "1G", conv: &[] })?.cgroup(&group).run();
    outcome(ran.code() == Some(0) && read_all(&out) == data, ended(&ran))
}

fn no_threads(peer: &Peer) -> Option<Outcome> {
    let (dir, out) = scratch();
    let from = dir.path().join("in");
    let data = pattern(SIZE);
    fs::write(&from, &data).ok()?;
    let job = peer.job(Copy { from: Some(&from), to: Some(&out), bs: "64k", conv: &[] })?;
    let ran = job.faults(Plan::refuse(THREAD, libc::EAGAIN)).run();
    let len = read_all(&out).len();
    outcome(ran.code() == Some(0) && len == SIZE, format!("{}, {len} of {SIZE} bytes", ended(&ran)))
}

fn sparse_device(peer: &Peer) -> Option<Outcome> {
    let (dir, from) = scratch();
    let mut data = pattern(SIZE);
    data[SIZE / 4..SIZE / 2].fill(0);
    fs::write(&from, &data).ok()?;
    let image = dir.path().join("image");
    fs::write(&image, vec![b'Z'; SIZE]).ok()?;
    let disk = Loop::attach(&image, 512, Access::ReadWrite).ok()?;
    let ran = peer.job(Copy { from: Some(&from), to: Some(disk.path()), bs: "64k", conv: &["sparse"] })?.run();
    if peer.kind != Kind::Dd && fails(&ran) {
        return outcome(true, format!("{}, refused", ended(&ran)));
    }
    disk.drop_cache();
    let same = read_all(disk.path()) == data;
    let text = if same { "right" } else { "old data shows through" };
    outcome(same && ran.code() == Some(0), format!("{}, {text}", ended(&ran)))
}

fn sparse_last_seek(peer: &Peer) -> Option<Outcome> {
    let (dir, out) = scratch();
    let from = dir.path().join("in");
    let mut data = pattern(SIZE);
    data[SIZE / 2..].fill(0);
    fs::write(&from, &data).ok()?;
    let mut shortest = None;
    for n in 1..1000 {
        drop(fs::remove_file(&out));
        let plan = Plan::on(&[POSITION], Hit::Fail(libc::EINVAL)).only(&out.display().to_string()).nth(n);
        let copy = Copy { from: Some(&from), to: Some(&out), bs: "64k", conv: &["sparse"] };
        let ran = peer.job(copy)?.faults(plan).run();
        if ran.report.faults.is_empty() {
            break;
        }
        let len = read_all(&out).len();
        if ran.code() == Some(0) && len < SIZE {
            shortest = Some(len);
        }
    }
    match shortest {
        None => outcome(true, "right or an error at each"),
        Some(len) => outcome(false, format!("exit 0, {len} of {SIZE} bytes")),
    }
}

type Trial = fn(&Peer) -> Option<Outcome>;

const TRIALS: &[(&str, Trial)] = &[
    ("3 bad sectors inside a block, noerror", bad_inside_a_block),
    ("1 bad sector, noerror", one_bad_sector),
    ("the last sector is bad, noerror", bad_last_sector),
    ("sectors that read at the third try, noerror", third_try),
    ("block device with 2 bad sectors, noerror", bad_device),
    ("the source vanishes, noerror", pulled_out),
    ("1 bad sector, without noerror", before_the_bad_sector),
    ("every write is short", short_writes),
    ("every other read and write is interrupted", interrupted),
    ("disk full inside a block", full_disk),
    ("file size limit, SIGXFSZ ignored", size_limit),
    ("quota exceeded at close", error_at_close),
    ("device fails the write-back, default options", failed_write_back),
    ("power cut after exit 0 of a synced copy", power_cut),
    ("hung read, SIGINT", hung_read),
    ("SIGINT midway", sigint),
    ("SIGTERM midway", sigterm),
    ("the reader of the pipe leaves, SIGPIPE ignored", reader_leaves),
    ("stdin is non-blocking, slow writer", nonblocking_input),
    ("stderr is closed", closed_stderr),
    ("stderr is a full device", full_stderr),
    ("1 GiB block, 300 MB of address space", refused_memory),
    ("1 GiB block, 4 MiB file, 24 MiB of memory", huge_block),
    ("no thread can be made", no_threads),
    ("sparse onto a device with old data", sparse_device),
    ("a seek or truncate of a sparse copy fails", sparse_last_seek),
];

const HEAD: &str = "# What dd and rescue tools do under faults

Written by `cargo test -p fdd --test faults peers -- --ignored` (root, FUSE, seccomp), which puts the same faults to every
tool that is installed and writes down what became of the copy: how the program ended, and what is in the output.
Copies of 2 MiB, 4096 sectors. A cell with \u{2717} is a wrong copy, a wrong exit status, a wrong or missing account
of it, or a program that does not end within 30 seconds; it is judged by `docs/promises.md`, which is more than some of
these tools promise. An empty cell: the tool has no such thing.
";

#[test]
#[ignore = "writes docs/peers.md; some peers take their time"]
fn peers_under_the_same_faults() {
    or_skip!(crate::fault_run::needs_root());
    or_skip!(crate::fault_run::needs_sysfault());
    drop(or_skip!(FaultFs::mount()));
    let peers = peers();
    let mut page = HEAD.to_owned();
    for peer in &peers {
        let _ = write!(page, "\n- {}: {}", peer.name, peer.version);
    }
    let names: Vec<&str> = peers.iter().map(|peer| peer.name).collect();
    let _ = write!(page, "\n\n| fault | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(names.len()));
    let mut ours = Vec::new();
    for (fault, trial) in TRIALS {
        let mut row = format!("| {fault} |");
        for peer in &peers {
            let Some(outcome) = trial(peer) else {
                row.push_str("  |");
                continue;
            };
            let mark = if outcome.right { "" } else { "\u{2717} " };
            let _ = write!(row, " {mark}{} |", outcome.text);
            if peer.name == "fdd" && !outcome.right {
                ours.push(format!("{fault}: {}", outcome.text));
            }
        }
        eprintln!("{row}");
        page.push_str(&row);
        page.push('\n');
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/peers.md");
    if std::env::var_os("DD_UNDER_TEST").is_none() {
        fs::write(&path, page).expect("docs/peers.md"); // Another program's outcome is not to stand there as fdd's.
    }
    assert!(ours.is_empty(), "fdd itself fails:\n{}", ours.join("\n"));
}
