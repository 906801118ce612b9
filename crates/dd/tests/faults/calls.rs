//! Each system call in turn fails, is cut short or is refused, and no copy is wrong, silent or stuck for it.

use std::fs;
use std::io::Read as _;
use std::path::PathBuf;

use crate::devices;
use crate::fault_run::{
    Job, Ran, Running, WAYS, Way, assert_bytes, dd, needs_root, needs_sysfault, operand, pattern, read_all,
};
use crate::faultfs::{FaultFs, Op, Rule};
use crate::or_skip;
use crate::sysfault::{
    CLOSE, CONTROL, Hit, MEMORY, OPEN, OPTIONAL, POSITION, Plan, READ, RING, SIGNAL, STAT, SYNC, THREAD, WAIT, WRITE,
};

/// Everything a copy calls, but for memory, whose refusal is a promise of its own.
const ANY: &[&[i64]] = &[READ, WRITE, POSITION, SYNC, OPEN, CLOSE, STAT, CONTROL, OPTIONAL, WAIT, SIGNAL, THREAD];

/// An input, where the output goes, and the operands between.
struct Bench {
    _dir: tempfile::TempDir,
    from: PathBuf,
    to: PathBuf,
    way: Way,
}

impl Bench {
    fn new(input: &[u8], way: Way) -> Bench {
        let dir = tempfile::tempdir().expect("a directory");
        let (from, to) = (dir.path().join("input"), dir.path().join("output"));
        fs::write(&from, input).expect("written");
        Bench { _dir: dir, from, to, way }
    }

    fn job(&self, operands: &[&str]) -> Job {
        let ends = [operand("if", &self.from), operand("of", &self.to)];
        let rest = operands.iter().map(|&o| o.to_owned());
        dd(&ends.into_iter().chain(rest).collect::<Vec<_>>()).by(self.way)
    }

    /// From the moment the input is opened: what the loader does is not dd's.
    fn armed(&self, plan: Plan) -> Plan {
        plan.armed_by(&self.from.display().to_string())
    }

    fn dir(&self) -> String {
        self.from.parent().expect("a directory").display().to_string()
    }

    fn reset(&self, before: Option<&[u8]>) {
        match before {
            Some(bytes) => fs::write(&self.to, bytes).expect("written"),
            None => drop(fs::remove_file(&self.to)),
        }
    }
}

/// What is wrong with a run in which one call or many failed, if anything.
fn wrong(ran: &Ran, right: bool, partly_right: bool) -> Option<&'static str> {
    let deaf = ran.report.faults.iter().any(|fault| fault.fd == 2);
    match ran.code() {
        _ if ran.hung => Some("a hang"),
        None => Some("a crash"),
        Some(0) if !right => Some("exit 0 with wrong output"),
        Some(0) => None,
        Some(1) if !partly_right => Some("wrong bytes, exit 1"),
        Some(1) if ran.messages().is_empty() && !deaf => Some("an exit without a message"),
        Some(1) => None,
        Some(_) => Some("an odd exit"),
    }
}

/// Some of the failures, as one can be the hint to another.
#[track_caller]
fn report(found: &[String]) {
    let cut: Vec<&str> = found.iter().take(8).map(String::as_str).collect();
    assert!(found.is_empty(), "{} runs went wrong, among them:\n{}", found.len(), cut.join("\n"));
}

/// 16 KiB with zero blocks in the middle and at the end.
fn gappy() -> Vec<u8> {
    let mut bytes = pattern(16 * 1024);
    bytes[4096..6144].fill(0);
    bytes[14 * 1024..].fill(0);
    bytes
}

fn fail_each_call(input: &[u8], operands: &[&str], errnos: &[i32], step: impl Fn(u64) -> u64) {
    WAYS.iter().for_each(|&way| fail_each_call_by(way, input, operands, errnos, &step));
}

fn fail_each_call_by(way: Way, input: &[u8], operands: &[&str], errnos: &[i32], step: &impl Fn(u64) -> u64) {
    let bench = Bench::new(input, way);
    bench.job(operands).run().succeeds();
    let wanted = read_all(&bench.to);
    let sparse = operands.iter().any(|o| o.contains("sparse"));
    let mut found = Vec::new();
    for &errno in errnos {
        for once in [true, false] {
            // What means "try again" may be obeyed for as long as it is said.
            if !once && errno == libc::EAGAIN {
                continue;
            }
            let mut n = 1;
            loop {
                bench.reset(None);
                let plan = bench.armed(Plan::on(ANY, Hit::Fail(errno)));
                let plan = if once { plan.nth(n) } else { plan.onwards_from(n) };
                let ran = bench.job(operands).faults(plan).run();
                let got = read_all(&bench.to);
                // A hole that was not made yet is a short file; a prefix is all that can be asked of the rest.
                let prefix = wanted.starts_with(&got) || (sparse && got.len() <= wanted.len());
                if let Some(what) = wrong(&ran, got == wanted, prefix) {
                    found.push(format!("{what}: {}", ran.show()));
                }
                if found.len() >= ENOUGH {
                    return report(&found);
                }
                if ran.report.faults.is_empty() || n > 1000 {
                    break;
                }
                n = step(n);
            }
        }
    }
    report(&found);
}

/// Failures after which a loop stops: each may be a hang.
const ENOUGH: usize = 4;

/// What the list above may answer. EBADF is not among them: no kernel says it of an open descriptor, and the runtime of
/// a debug build takes it for a fault of the program and aborts.
const ERRNOS: &[i32] = &[libc::EIO, libc::EINVAL, libc::ENOMEM, libc::EPERM, libc::ENOSPC, libc::EAGAIN];

#[test]
fn no_failed_call_of_a_plain_copy_goes_unsaid() {
    or_skip!(needs_sysfault());
    fail_each_call(&pattern(16 * 1024), &["bs=1k"], ERRNOS, |n| n + 1);
}

#[test]
fn no_failed_call_of_a_reblocking_copy_goes_unsaid() {
    or_skip!(needs_sysfault());
    fail_each_call(
        &pattern(16 * 1000),
        &["ibs=1000", "obs=3000", "conv=swab,fsync"],
        &[libc::EIO, libc::EINVAL, libc::ENOSPC],
        |n| n + 1,
    );
}

#[test]
fn no_failed_call_of_a_sparse_copy_goes_unsaid() {
    or_skip!(needs_sysfault());
    fail_each_call(&gappy(), &["bs=1k", "conv=sparse"], ERRNOS, |n| n + 1);
}

#[test]
fn no_failed_call_of_a_large_copy_goes_unsaid() {
    or_skip!(needs_sysfault());
    // The first calls one by one, then samples: a large copy repeats itself.
    let step = |n| if n < 40 { n + 1 } else { n + n / 3 };
    let operands = ["bs=64k", "conv=fdatasync", "oflag=nocache"];
    fail_each_call(&pattern(12 << 20), &operands, &[libc::EIO, libc::EINVAL], step);
}

/// Fails each seek of `from`, once and from then on. What is asked of its size or holes moves the descriptor too.
fn fail_each_seek(from: &std::path::Path, data: &[u8], operands: &[&str]) {
    let to = tempfile::NamedTempFile::new().expect("a file");
    let mut found = Vec::new();
    for once in [true, false] {
        for n in 1..100 {
            fs::write(to.path(), b"").expect("written");
            let ends = [operand("if", from), operand("of", to.path())];
            let operands: Vec<&str> = ends.iter().map(String::as_str).chain(operands.iter().copied()).collect();
            let plan = Plan::on(&[&[libc::SYS_lseek]], Hit::Fail(libc::EIO)).only(&from.display().to_string());
            let plan = if once { plan.nth(n) } else { plan.onwards_from(n) };
            let ran = dd(&operands).faults(plan).run();
            let got = read_all(to.path());
            if let Some(what) = wrong(&ran, got == data, data.starts_with(&got)) {
                found.push(format!("{what}, {} bytes: {}", got.len(), ran.show()));
            }
            if ran.report.faults.is_empty() {
                break;
            }
        }
    }
    report(&found);
}

#[test]
fn no_failed_seek_of_a_file_with_holes_goes_unsaid() {
    or_skip!(needs_sysfault());
    let mut data = pattern(4 << 20);
    data[1 << 20..3 << 20].fill(0);
    let from = tempfile::NamedTempFile::new().expect("a file");
    let file = from.as_file();
    file.set_len(4 << 20).expect("a length");
    for part in [0..1 << 20, 3 << 20..4 << 20] {
        std::os::unix::fs::FileExt::write_all_at(file, &data[part.clone()], part.start as u64).expect("written");
    }
    for operands in [&["bs=64k", "conv=sparse"][..], &["bs=64k"], &["bs=64k", "conv=sparse", "skip=0", "hash=md5"]] {
        fail_each_seek(from.path(), &data, operands);
    }
}

#[test]
fn no_failed_seek_of_a_block_device_goes_unsaid() {
    or_skip!(needs_sysfault());
    or_skip!(needs_root());
    let data = pattern(3 << 20);
    let image = tempfile::NamedTempFile::new().expect("a file");
    fs::write(image.path(), &data).expect("written");
    let disk = or_skip!(devices::Loop::attach(image.path(), 512, devices::Access::ReadOnly));
    for operands in [&["bs=64k"][..], &["bs=1000"], &["bs=1M"], &["ibs=512", "obs=4096"]] {
        fail_each_seek(disk.path(), &data, operands);
    }
}

#[test]
fn a_clone_after_which_the_output_cannot_be_passed_over_is_an_error() {
    or_skip!(needs_sysfault());
    let bench = Bench::new(&pattern(16 * 1024), Way::Best);
    // The clone is said to be made, and the seek behind it fails.
    let calls: &[i64] = &[libc::SYS_lseek, libc::SYS_ioctl];
    let plan = Plan::on(&[calls], Hit::Fail(0)).only(&bench.to.display().to_string()).nth(2).then(Hit::Fail(libc::EIO));
    let ran = bench.job(&["bs=4k", "reflink=auto"]).forced("reflink").faults(plan).run().fails();
    let hit: Vec<i64> = ran.report.faults.iter().map(|fault| fault.call).collect();
    assert_eq!(hit, [libc::SYS_ioctl, libc::SYS_lseek], "{}", ran.show());
    assert!(ran.err.contains("cannot seek"), "{}", ran.show());
}

#[test]
fn no_refused_memory_crashes_a_copy() {
    or_skip!(needs_sysfault());
    let data = pattern(64 * 1024);
    let bench = Bench::new(&data, Way::Best);
    let mut found = Vec::new();
    for once in [true, false] {
        for n in 1..1000 {
            bench.reset(None);
            let plan = bench.armed(Plan::on(&[MEMORY], Hit::Fail(libc::ENOMEM)));
            let plan = if once { plan.nth(n) } else { plan.onwards_from(n) };
            let ran = bench.job(&["ibs=4k", "obs=1M", "conv=ucase,fsync"]).faults(plan).run();
            let got = read_all(&bench.to);
            let wanted = data.to_ascii_uppercase();
            if let Some(what) = wrong(&ran, got == wanted, wanted.starts_with(&got)) {
                found.push(format!("{what}: {}", ran.show()));
            }
            if ran.report.faults.is_empty() {
                break;
            }
        }
    }
    report(&found);
}

/// The last half of the output is not to be had: what was read from a pipe is walked again, record by record.
#[test]
fn a_full_file_behind_a_pipe_is_told_where_no_more_memory_can_be_had() {
    or_skip!(needs_sysfault());
    let data = pattern(3 << 20);
    let dir = tempfile::tempdir().expect("a directory");
    let to = dir.path().join("output");
    const MOST: usize = 1_500_000;
    for operands in [&["bs=86016"][..], &["ibs=5000", "obs=70000"], &["ibs=5000", "obs=70000", "conv=swab"]] {
        let mut wanted = data[..MOST].to_vec();
        if operands.contains(&"conv=swab") {
            wanted.chunks_exact_mut(2).for_each(|pair| pair.swap(0, 1));
        }
        let mut n = 1;
        loop {
            let _ = fs::remove_file(&to);
            let (reader, mut writer) = std::io::pipe().expect("a pipe");
            let feed = data.clone();
            let feeder = std::thread::spawn(move || std::io::Write::write_all(&mut writer, &feed));
            let plan = Plan::on(&[MEMORY], Hit::Fail(libc::ENOMEM)).armed_by(&to.display().to_string());
            let words: Vec<String> =
                operands.iter().map(|&o| o.to_owned()).chain(["iflag=fullblock".into(), operand("of", &to)]).collect();
            let job = dd(&words).forced("stream").stdin(reader).faults(plan.onwards_from(n));
            let ran = job.ignoring(libc::SIGXFSZ).limit(libc::RLIMIT_FSIZE, MOST as u64).run();
            drop(feeder.join().expect("no panic"));
            let ran = ran.fails();
            // Where the plain loop gets no memory either, nothing is read at all.
            let copied = if ran.err.contains("memory exhausted") { 0 } else { wanted.len() };
            assert_eq!(ran.copied(), Some(copied as u64), "{}", ran.show());
            assert_bytes(&read_all(&to), &wanted[..copied], &ran.show());
            if ran.report.faults.is_empty() {
                break;
            }
            n += 1;
        }
        assert!(n > 3, "nothing was refused");
    }
}

#[test]
fn no_failure_changes_a_byte_outside_the_region() {
    or_skip!(needs_sysfault());
    WAYS.iter().for_each(|&way| fail_into_a_region(way));
}

fn fail_into_a_region(way: Way) {
    let data = gappy();
    let bench = Bench::new(&data, way);
    let before = vec![b'Z'; 64 * 1024];
    let region = 8 * 1024..24 * 1024;
    let operands = ["bs=1k", "seek=8", "conv=notrunc,fsync"];
    let mut found = Vec::new();
    for errno in [libc::EIO, libc::EINVAL, libc::ENOSPC] {
        for once in [true, false] {
            for n in 1..1000 {
                bench.reset(Some(&before));
                let plan = bench.armed(Plan::on(ANY, Hit::Fail(errno)));
                let plan = if once { plan.nth(n) } else { plan.onwards_from(n) };
                let ran = bench.job(&operands).faults(plan).run();
                let got = read_all(&bench.to);
                let inside = got.len() == before.len()
                    && got
                        .iter()
                        .enumerate()
                        .all(|(at, &byte)| byte == b'Z' || (region.contains(&at) && byte == data[at - region.start]));
                let right = inside && got[region.clone()] == data;
                if let Some(what) = wrong(&ran, right, inside) {
                    found.push(format!("{what}: {}", ran.show()));
                }
                if ran.report.faults.is_empty() {
                    break;
                }
            }
        }
    }
    report(&found);
}

#[test]
fn a_file_that_cannot_seek_any_more_is_not_passed_over_by_reading() {
    or_skip!(needs_sysfault());
    let bench = Bench::new(&pattern(5000), Way::Best);
    let old = pattern(7000);
    bench.reset(Some(&old));
    let output = fs::File::options().read(true).write(true).open(&bench.to).expect("it is there");
    let plan = Plan::on(&[&[libc::SYS_lseek]], Hit::Fail(libc::EINVAL)).only(&bench.to.display().to_string());
    let operands = [operand("if", &bench.from), "bs=2000".into(), "seek=5".into()];
    let ran = dd(&operands).stdout(output).faults(plan).run().fails();
    assert!(ran.err.contains("cannot seek"), "{}", ran.show());
    assert_bytes(&read_all(&bench.to), &old, &ran.show());
}

/// What a copy behind old bytes gives, whatever `F_GETFL` of the output says: under O_APPEND nothing can be stepped over, and
/// what is written at an offset goes to the end all the same.
#[test]
fn an_output_that_does_not_tell_that_it_appends_is_not_stepped_over() {
    or_skip!(needs_sysfault());
    let mut data = pattern(12 << 20);
    data[4096..70_000].fill(0);
    data[(5 << 20)..(6 << 20)].fill(0);
    data[(11 << 20)..].fill(0);
    let old = pattern(13 << 20);
    // Beside the build, where a file system with direct requests is likelier than in a temporary directory.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let (from, to) = (dir.path().join("input"), dir.path().join("output"));
    fs::write(&from, &data).expect("written");
    for (way, operands) in [
        ("pump", &["bs=4k", "conv=sparse"][..]),
        ("coalesce", &["bs=4k", "conv=sparse"]),
        ("coalesce", &["bs=64k", "conv=punch"]),
        ("buffer", &["bs=64k", "buffer=1M", "conv=sparse"]),
        ("uring", &["bs=64k", "conv=fsync"]),
        ("overlap", &["bs=64k", "conv=fsync"]),
    ] {
        fs::write(&to, &old).expect("written");
        let output = fs::File::options().append(true).open(&to).expect("it is there");
        let plan = Plan::on(&[&[libc::SYS_fcntl]], Hit::Fail(libc::EPERM)).whose_argument(1, libc::F_GETFL as u64);
        let plan = plan.only(&to.display().to_string());
        let ends = [&[operand("if", &from)], &operands.iter().map(|&o| o.to_owned()).collect::<Vec<_>>()[..]].concat();
        let ran = dd(&ends).forced(way).stdout(output).faults(plan).run().succeeds();
        assert!(!ran.report.faults.is_empty(), "nothing was refused: {}", ran.show());
        assert_bytes(&read_all(&to), &[&old[..], &data].concat(), &format!("{way}: {}", ran.show()));
        assert_eq!(ran.copied(), Some(data.len() as u64), "{}", ran.show());
    }
}

#[test]
fn counts_are_true_and_both_errors_said_where_the_way_back_from_a_failed_write_fails_too() {
    or_skip!(needs_sysfault());
    let data = pattern(2 << 20);
    let bench = Bench::new(&data, Way::Best);
    const MOST: u64 = 700_100;
    for operands in
        [&["bs=512"][..], &["bs=1500000"], &["ibs=1000", "obs=3000"], &["ibs=1000", "obs=3000", "conv=ucase"]]
    {
        let mut n = 1;
        loop {
            bench.reset(None);
            let plan = Plan::on(&[&[libc::SYS_lseek]], Hit::Fail(libc::EIO)).only(&bench.from.display().to_string());
            let job = bench.job(operands).forced("coalesce").faults(plan.onwards_from(n));
            let ran = job.ignoring(libc::SIGXFSZ).limit(libc::RLIMIT_FSIZE, MOST).run().fails();
            let len = read_all(&bench.to).len() as u64;
            assert_eq!((ran.copied(), len), (Some(MOST), MOST), "{}", ran.show());
            assert!(ran.err.contains("File too large"), "{}", ran.show());
            if ran.report.faults.is_empty() {
                break;
            }
            n += 1;
        }
        assert!(n > 1, "no seek was refused");
    }
}

/// It has the flags that it was opened with, told or not.
#[test]
fn an_output_opened_by_name_is_stepped_over_whatever_it_tells() {
    or_skip!(needs_sysfault());
    let data = gappy();
    for &way in WAYS {
        let bench = Bench::new(&data, way);
        let old = vec![b'Z'; 20_000];
        let copy = |plan: Plan| {
            bench.reset(Some(&old));
            let ran = bench.job(&["bs=1k", "conv=sparse,notrunc"]).faults(plan).run().succeeds();
            (read_all(&bench.to), ran)
        };
        let get_flags = |hit| Plan::on(&[&[libc::SYS_fcntl]], hit).whose_argument(1, libc::F_GETFL as u64);
        let (wanted, _) = copy(bench.armed(get_flags(Hit::Count)));
        assert_eq!(wanted[4096..6144], old[4096..6144], "old bytes show through where zeros are stepped over");
        let (got, ran) = copy(bench.armed(get_flags(Hit::Fail(libc::EPERM))));
        assert!(!ran.report.faults.is_empty(), "nothing was refused: {}", ran.show());
        assert_bytes(&got, &wanted, &ran.show());
    }
}

/// A block that could be read at the second try only, and a seek past it that fails, once or from then on.
#[test]
fn noerror_puts_no_byte_at_a_wrong_place_when_the_seek_past_a_bad_block_fails() {
    or_skip!(needs_sysfault());
    let data = pattern(20_500);
    let mut found = Vec::new();
    for way in WAYS {
        let bench = Bench::new(&data, *way);
        for operands in [
            &["bs=1000", "conv=noerror,sync"][..],
            &["bs=1000", "conv=noerror"],
            &["ibs=500", "obs=3000", "conv=noerror,sync"],
            &["bs=1000", "conv=noerror,sync", "istride=2"],
        ] {
            bench.reset(None);
            bench.job(operands).run().succeeds();
            let wanted = read_all(&bench.to);
            for seek_errno in [libc::EIO, libc::EINVAL, libc::ESPIPE] {
                for n in [1, 2, 4] {
                    bench.reset(None);
                    let calls: &[i64] = &[libc::SYS_read, libc::SYS_lseek];
                    let plan = Plan::on(&[calls], Hit::Fail(libc::EIO)).only(&bench.from.display().to_string());
                    // The first counted call is the seek that asks whether it can seek.
                    let plan = plan.nth(n + 1).then(Hit::Fail(seek_errno));
                    let ran = bench.job(operands).faults(plan).run();
                    let got = read_all(&bench.to);
                    if let Some(what) = wrong(&ran, got == wanted, wanted.starts_with(&got)) {
                        found.push(format!("{what}, {} of {} bytes: {}", got.len(), wanted.len(), ran.show()));
                    }
                }
            }
        }
    }
    report(&found);
}

/// Calls that a signal can end with nothing done.
const INTERRUPTIBLE: &[&[i64]] = &[READ, WRITE, SYNC, OPEN, WAIT, &[libc::SYS_ftruncate], RING];

#[test]
fn an_interrupted_call_is_made_again() {
    or_skip!(needs_sysfault());
    WAYS.iter().for_each(|&way| interrupt_each_call(way));
}

fn interrupt_each_call(way: Way) {
    let data = pattern(16 * 1024);
    let bench = Bench::new(&data, way);
    let mut found = Vec::new();
    let operands = ["ibs=1000", "obs=3000", "seek=1", "conv=fsync"];
    for n in 1..1000 {
        bench.reset(None);
        let plan = bench.armed(Plan::on(INTERRUPTIBLE, Hit::Fail(libc::EINTR))).nth(n);
        let ran = bench.job(&operands).faults(plan).run();
        let got = read_all(&bench.to);
        if ran.code() != Some(0) || got.get(3000..) != Some(&data[..]) {
            found.push(ran.show());
        }
        if ran.report.faults.is_empty() {
            break;
        }
    }
    report(&found);
}

#[test]
fn interruptions_of_every_other_call_bend_nothing() {
    or_skip!(needs_sysfault());
    WAYS.iter().for_each(|&way| interrupt_every_other_call(way));
}

fn interrupt_every_other_call(way: Way) {
    let data = pattern(300_000);
    for operands in [&["bs=512"][..], &["bs=64k", "conv=fsync"], &["ibs=1000", "obs=4096", "conv=swab"]] {
        let bench = Bench::new(&data, way);
        bench.job(operands).run().succeeds();
        let wanted = (read_all(&bench.to), bench.job(operands).run().records().join("; "));
        bench.reset(None);
        let plan = bench.armed(Plan::on(INTERRUPTIBLE, Hit::Fail(libc::EINTR))).every(2);
        let ran = bench.job(operands).faults(plan).run().succeeds();
        assert!(!ran.report.faults.is_empty(), "nothing was interrupted: {}", ran.show());
        assert_bytes(&read_all(&bench.to), &wanted.0, &ran.show());
        assert_eq!(ran.records().join("; "), wanted.1, "{}", ran.show());
    }
}

const BLOCKINGS: &[&[&str]] = &[
    &["bs=512"],
    &["bs=1000"],
    &["bs=64k"],
    &["ibs=512", "obs=1000"],
    &["ibs=1000", "obs=512"],
    &["ibs=7", "obs=5"],
    &["bs=512", "seek=3", "skip=2", "count=5"],
    &["bs=512", "conv=sync"],
    &["ibs=300", "obs=512", "conv=sync"],
    &["bs=512", "conv=sparse"],
    &["ibs=512", "obs=1024", "conv=swab"],
    &["ibs=77", "obs=100", "conv=ucase"],
    &["ibs=100", "cbs=10", "conv=block"],
    &["ibs=100", "cbs=10", "conv=unblock"],
    &["bs=512", "conv=notrunc,fdatasync"],
];

const SHORTS: &[Hit] = &[Hit::ShortTo(1), Hit::ShortTo(7), Hit::Halve];

/// Runs with whole and with short calls, and compares bytes and statistics.
fn same_when_short(input: &[u8], operands: &[&str], sets: &[&[i64]]) {
    WAYS.iter().for_each(|&way| same_when_short_by(way, input, operands, sets));
}

fn same_when_short_by(way: Way, input: &[u8], operands: &[&str], sets: &[&[i64]]) {
    let bench = Bench::new(input, way);
    let wanted_ran = bench.job(operands).run().succeeds();
    let wanted = read_all(&bench.to);
    for &hit in SHORTS {
        bench.reset(None);
        let plan = Plan::on(sets, hit).only(&bench.dir());
        let ran = bench.job(operands).faults(plan).run().succeeds();
        assert_bytes(&read_all(&bench.to), &wanted, &ran.show());
        assert_eq!(ran.records(), wanted_ran.records(), "{}", ran.show());
        assert_eq!(ran.copied(), wanted_ran.copied(), "{}", ran.show());
    }
}

#[test]
fn short_writes_are_completed() {
    or_skip!(needs_sysfault());
    for operands in BLOCKINGS {
        same_when_short(&gappy()[..5000], operands, &[WRITE]);
    }
}

#[test]
fn short_reads_are_completed_where_full_blocks_are_asked_for() {
    or_skip!(needs_sysfault());
    for operands in BLOCKINGS {
        let operands = [operands, &["iflag=fullblock"][..]].concat();
        same_when_short(&gappy()[..5000], &operands, &[READ]);
    }
}

#[test]
fn short_reads_change_no_byte_and_no_count_of_bytes() {
    or_skip!(needs_sysfault());
    WAYS.iter().for_each(|&way| read_short(way));
}

fn read_short(way: Way) {
    let sensitive = |o: &&str| o.contains("count=") || o.contains("sync") || o.contains("sparse");
    for operands in BLOCKINGS.iter().filter(|operands| !operands.iter().any(sensitive)) {
        let bench = Bench::new(&pattern(5000), way);
        bench.job(operands).run().succeeds();
        let wanted = read_all(&bench.to);
        for &hit in SHORTS {
            bench.reset(None);
            let plan = Plan::on(&[READ, WRITE], hit).only(&bench.dir());
            let ran = bench.job(operands).faults(plan).run().succeeds();
            assert_bytes(&read_all(&bench.to), &wanted, &ran.show());
            assert_eq!(ran.copied(), Some(wanted.len() as u64), "{}", ran.show());
        }
    }
}

#[test]
fn a_file_system_that_transfers_less_is_asked_again() {
    let data = pattern(300_000);
    for operands in [&["bs=4k"][..], &["bs=64k"], &["ibs=1000", "obs=3000"], &["bs=1M", "conv=fsync"]] {
        let fs = or_skip!(FaultFs::mount());
        fs.put("in", &data);
        fs.direct();
        fs.rule(Rule::on("in", Op::Read).short(1500));
        fs.rule(Rule::on("out", Op::Write).short(700));
        let ends = [operand("if", fs.path("in")), operand("of", fs.path("out"))];
        let rest = operands.iter().map(|&o| o.to_owned());
        let ran = dd(&ends.into_iter().chain(rest).collect::<Vec<_>>()).run().succeeds();
        assert_bytes(&fs.contents("out").unwrap_or_default(), &data, &ran.show());
        assert_eq!(ran.copied(), Some(data.len() as u64), "{}", ran.show());
    }
}

/// What a signal without a handler does to it, SIGSTOP with SIGCONT.
#[test]
fn a_read_of_zeros_that_was_cut_short_is_no_record() {
    or_skip!(needs_sysfault());
    for &way in WAYS {
        for operands in
            [&["bs=300000", "count=20"][..], &["ibs=4000", "obs=9000", "count=100"], &["bs=1M", "count=70000B"]]
        {
            let operands = [&["if=/dev/zero"], operands].concat();
            let wanted = dd(&operands).by(way).run().succeeds();
            let plan = Plan::on(&[READ], Hit::Halve).only("/dev/zero");
            let ran = dd(&operands).by(way).faults(plan).run().succeeds();
            assert_bytes(&ran.out, &wanted.out, &ran.show());
            assert_eq!(ran.records(), wanted.records(), "{}", ran.show());
        }
    }
}

#[test]
fn zeros_that_fail_behind_a_short_read_are_no_short_record() {
    or_skip!(needs_sysfault());
    let to = tempfile::NamedTempFile::new().expect("a file");
    for &way in WAYS {
        for operands in [["bs=300000", "count=3"], ["ibs=300000", "count=3"], ["bs=300000", "count=800000B"]] {
            let ends = ["if=/dev/zero".to_owned(), operand("of", to.path())];
            let operands: Vec<&str> = ends.iter().map(String::as_str).chain(operands).collect();
            dd(&operands).by(way).run().succeeds();
            let wanted = read_all(to.path());
            let plan = Plan::on(&[READ], Hit::Halve).only("/dev/zero").nth(3).then(Hit::Fail(libc::EIO));
            let ran = dd(&operands).by(way).faults(plan).run();
            let got = read_all(to.path());
            assert_eq!(wrong(&ran, got == wanted, wanted.starts_with(&got)), None, "{}", ran.show());
        }
    }
}

#[test]
fn a_stride_goes_on_behind_a_block_that_reads_at_the_second_try() {
    or_skip!(needs_sysfault());
    let data = pattern(30_500);
    let bench = Bench::new(&data, Way::Best);
    for operands in [&["bs=1000", "istride=2"][..], &["ibs=1000", "obs=3000", "istride=3", "iflag=fullblock"]] {
        bench.reset(None);
        let wanted_ran = bench.job(operands).run().succeeds();
        let wanted = read_all(&bench.to);
        for n in [1, 2, 7, 10] {
            bench.reset(None);
            let plan = Plan::on(&[READ], Hit::Fail(libc::EIO)).only(&bench.from.display().to_string()).nth(n);
            let ran = bench.job(operands).faults(plan).run().succeeds();
            assert_bytes(&read_all(&bench.to), &wanted, &ran.show());
            assert_eq!(ran.records(), wanted_ran.records(), "{}", ran.show());
        }
    }
}

/// What sandboxes and older kernels answer.
const REFUSALS: &[i32] = &[libc::ENOSYS, libc::EPERM, libc::EINVAL, libc::EOPNOTSUPP, libc::EXDEV];

/// Copies between files and pipes, each a way that has its own fast calls.
fn copy_every_way(bench: &Bench, data: &[u8], plan: &dyn Fn() -> Plan, what: &str) {
    for operands in [&["bs=1M"][..], &["bs=64k", "conv=fdatasync"], &["bs=64k", "iflag=nocache", "oflag=nocache"]] {
        bench.reset(None);
        let ran = bench.job(operands).faults(bench.armed(plan())).run().succeeds();
        assert_bytes(&read_all(&bench.to), data, &format!("{what}: {}", ran.show()));
    }
    let to_pipe = dd(&[operand("if", &bench.from), "bs=64k".into()]).faults(plan()).run().succeeds();
    assert_bytes(&to_pipe.out, data, &format!("{what}: {}", to_pipe.show()));
    bench.reset(None);
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let feed = data.to_vec();
    let feeder = std::thread::spawn(move || std::io::Write::write_all(&mut writer, &feed));
    let from_pipe = dd(&[operand("of", &bench.to), "bs=64k".into()]).stdin(reader).faults(plan()).run().succeeds();
    feeder.join().expect("no panic").expect("all was read");
    assert_bytes(&read_all(&bench.to), data, &format!("{what}: {}", from_pipe.show()));
    let zeros = dd(&["if=/dev/zero", "bs=64k", "count=64", "iflag=fullblock"]).faults(plan()).run().succeeds();
    assert_bytes(&zeros.out, &vec![0; 64 * 65536], &format!("{what}: {}", zeros.show()));
}

#[test]
fn every_optional_call_can_be_refused() {
    or_skip!(needs_sysfault());
    let data = pattern(2 << 20);
    let bench = Bench::new(&data, Way::Best);
    for &errno in REFUSALS {
        copy_every_way(&bench, &data, &|| Plan::refuse(OPTIONAL, errno), "all refused");
    }
    for call in OPTIONAL {
        copy_every_way(&bench, &data, &|| Plan::refuse(&[*call], libc::ENOSYS), "one refused");
    }
}

#[test]
fn an_optional_call_may_stop_working_midway() {
    or_skip!(needs_sysfault());
    let data = pattern(20 << 20);
    let bench = Bench::new(&data, Way::Best);
    for errno in [libc::ENOSYS, libc::EINVAL] {
        for n in [1, 2, 5] {
            let plan = || Plan::on(&[OPTIONAL], Hit::Fail(errno)).onwards_from(n);
            copy_every_way(&bench, &data, &plan, "refused midway");
        }
    }
}

/// The pipe is full and gives way by a page, so that the second loan ends within a block; the third is refused.
#[test]
fn zeros_that_a_pipe_has_are_not_written_once_more_when_it_takes_no_more_loans() {
    or_skip!(needs_sysfault());
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let width = rustix::pipe::fcntl_setpipe_size(&writer, 1 << 20).expect("a wide pipe");
    let plan = Plan::on(&[&[libc::SYS_vmsplice]], Hit::Fail(libc::EINVAL)).onwards_from(3);
    let running = dd(&["if=/dev/zero", "bs=64k", "count=64", "iflag=fullblock"]).stdout(writer).faults(plan).start();
    let mut got = vec![7; 4096];
    for read in [&mut got[..], &mut []] {
        while running.is_running() && rustix::io::ioctl_fionread(&reader).is_ok_and(|held| held < width as u64) {
            std::thread::yield_now();
        }
        reader.read_exact(read).expect("a page");
    }
    reader.read_to_end(&mut got).expect("zeros");
    let ran = running.wait().succeeds();
    assert_bytes(&got, &vec![0; 4 << 20], &ran.show());
    assert_eq!(ran.records(), ["64+0 records in", "64+0 records out"], "{}", ran.show());
}

#[test]
fn storms_of_signals_bend_nothing() {
    let storms: &[&[i32]] = &[&[libc::SIGUSR1], &[libc::SIGWINCH], &[libc::SIGSTOP, libc::SIGCONT]];
    for storm in storms {
        storm_while_reading(storm);
        storm_while_writing(storm);
    }
}

/// Signals between the pieces of the input, at each of which the copy sleeps in a read: how many there are does not hang
/// on who runs when.
fn storm_while_reading(storm: &'static [i32]) {
    let data = pattern(1 << 20);
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let (mut from, to) = std::io::pipe().expect("a pipe");
    let mut running = dd(&["bs=64k", "iflag=fullblock"]).stdin(reader).stdout(to).start();
    let feed = data.clone();
    let pid = running.child.id();
    let feeder = std::thread::spawn(move || {
        for piece in feed.chunks(4000) {
            devices::wait_until_asleep(pid);
            storm.iter().for_each(|&signal| devices::send(pid, signal));
            if std::io::Write::write_all(&mut writer, piece).is_err() {
                return; // The reader gave up, which the test says below.
            }
        }
    });
    let drain = std::thread::spawn(move || {
        let mut got = Vec::new();
        std::io::Read::read_to_end(&mut from, &mut got).map(|_| got)
    });
    let noise = quiet(&mut running);
    feeder.join().expect("no panic");
    let ran = running.wait().succeeds();
    noise.join().expect("no panic");
    let got = drain.join().expect("no panic").expect("read");
    assert_bytes(&got, &data, &format!("{storm:?}: {}", ran.show()));
}

/// Signals whenever the copy sleeps in a write that the reader's last look has let go on a little.
fn storm_while_writing(storm: &'static [i32]) {
    let data = pattern(1 << 20);
    let bench = Bench::new(&data, Way::Best);
    for way in WAYS {
        let (mut from, to) = std::io::pipe().expect("a pipe");
        let mut running = dd(&[operand("if", &bench.from), "bs=64k".into()]).by(*way).stdout(to).start();
        let pid = running.child.id();
        let noise = quiet(&mut running);
        let mut got = Vec::new();
        let mut piece = vec![0; 20_000];
        loop {
            devices::wait_until_asleep(pid);
            storm.iter().for_each(|&signal| devices::send(pid, signal));
            match std::io::Read::read(&mut from, &mut piece).expect("read") {
                0 => break,
                n => got.extend_from_slice(&piece[..n]),
            }
        }
        let ran = running.wait().succeeds();
        noise.join().expect("no panic");
        assert_bytes(&got, &data, &format!("{storm:?} {way:?}: {}", ran.show()));
    }
}

/// Reads away what a storm of reports has to say.
fn quiet(running: &mut Running) -> std::thread::JoinHandle<()> {
    let mut err = running.child.stderr.take().expect("piped");
    std::thread::spawn(move || drop(std::io::copy(&mut err, &mut std::io::sink())))
}

#[test]
fn no_thread_is_needed() {
    or_skip!(needs_sysfault());
    let data = pattern(20 << 20);
    let bench = Bench::new(&data, Way::Best);
    copy_every_way(&bench, &data, &|| Plan::refuse(THREAD, libc::EAGAIN), "no threads");
    no_thread_nor_ring(&bench, &data);
}

fn no_thread_nor_ring(bench: &Bench, data: &[u8]) {
    let plan = || Plan::refuse(THREAD, libc::EAGAIN).and_refuse(RING, libc::EPERM);
    copy_every_way(bench, data, &plan, "neither threads nor rings");
}
