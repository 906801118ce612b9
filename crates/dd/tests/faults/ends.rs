//! Signals end a copy at any point, with an account of it that is true, and SIGKILL leaves a prefix.

use std::fs::{self, File};
use std::path::PathBuf;

use crate::devices;
use crate::fault_run::{WAYS, Way, assert_bytes, dd, needs_sysfault, operand, pattern, read_all};
use crate::faultfs::{FaultFs, Op, Rule};
use crate::or_skip;
use crate::sysfault::{CLOSE, Hit, OPEN, OPTIONAL, POSITION, Plan, READ, SYNC, WRITE};

const MOVING: &[&[i64]] = &[READ, WRITE, POSITION, SYNC, OPEN, CLOSE, OPTIONAL];
const ENDING: &[i32] = &[libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

struct Files {
    _dir: tempfile::TempDir,
    from: PathBuf,
    to: PathBuf,
}

fn files(data: &[u8]) -> Files {
    let dir = tempfile::tempdir().expect("a directory");
    let (from, to) = (dir.path().join("input"), dir.path().join("output"));
    fs::write(&from, data).expect("written");
    Files { _dir: dir, from, to }
}

fn operands(files: &Files, rest: &[&str]) -> Vec<String> {
    let ends = [operand("if", &files.from), operand("of", &files.to)];
    ends.into_iter().chain(rest.iter().map(|&o| o.to_owned())).collect()
}

/// Sends `signal` before the nth call, for every n of `steps`, until it comes too late to matter.
fn end_at_each_call(data: &[u8], rest: &[&str], signal: i32, step: impl Fn(u64) -> u64) {
    WAYS.iter().for_each(|&way| end_at_each_call_by(way, data, rest, signal, &step));
}

fn end_at_each_call_by(way: Way, data: &[u8], rest: &[&str], signal: i32, step: &impl Fn(u64) -> u64) {
    let files = files(data);
    let mut n = 1;
    loop {
        drop(fs::remove_file(&files.to));
        let plan = Plan::on(MOVING, Hit::Signal(signal)).armed_by(&files.from.display().to_string()).nth(n);
        let ran = dd(&operands(&files, rest)).by(way).faults(plan).run();
        let got = read_all(&files.to);
        let was_hit = !ran.report.faults.is_empty();
        if was_hit && ran.code() != Some(0) {
            assert!(!ran.hung && ran.signal() == Some(signal), "not ended by signal {signal}: {}", ran.show());
            assert_eq!(ran.copied(), Some(got.len() as u64), "statistics and file differ: {}", ran.show());
            assert!(data.starts_with(&got), "not a prefix: {}", ran.show());
        } else {
            // It came when all was said and done, or not at all.
            assert_bytes(&got, data, &ran.succeeds().show());
        }
        if !was_hit {
            break;
        }
        n = step(n);
    }
}

#[test]
fn an_ending_signal_at_any_call_ends_it_with_true_statistics() {
    or_skip!(needs_sysfault());
    for &signal in ENDING {
        end_at_each_call(&pattern(16 * 1024), &["bs=1k"], signal, |n| n + 1);
        end_at_each_call(&pattern(12 << 20), &["bs=64k", "conv=fsync"], signal, |n| n + 1 + n / 8);
    }
}

#[test]
fn a_signal_among_lent_zeros_is_counted_to_the_byte() {
    or_skip!(needs_sysfault());
    for (rest, ibs, obs) in [(&["bs=100000"][..], 100_000, 100_000), (&["ibs=7000", "obs=100000"], 7_000, 100_000)] {
        for n in [1, 2, 5] {
            let operands = [&["if=/dev/zero"], rest].concat();
            let plan = Plan::on(&[&[libc::SYS_vmsplice]], Hit::Signal(libc::SIGTERM)).nth(n);
            let ran = dd(&operands).forced("zeros").faults(plan).run();
            assert_eq!((ran.hung, ran.signal()), (false, Some(libc::SIGTERM)), "{}", ran.show());
            let got = ran.out.len();
            assert!(ran.out.iter().all(|&byte| byte == 0));
            let (read, full, part) = (got.div_ceil(ibs), got / obs, usize::from(!got.is_multiple_of(obs)));
            let wanted = [format!("{read}+0 records in"), format!("{full}+{part} records out")];
            assert_eq!((ran.copied(), ran.records()), (Some(got as u64), wanted.iter().map(|s| &s[..]).collect()));
            assert_eq!(ran.moved_by("zeros"), got as u64, "{}", ran.show());
        }
    }
}

#[test]
fn an_ignored_signal_stays_ignored() {
    or_skip!(needs_sysfault());
    let data = pattern(16 * 1024);
    for &signal in ENDING {
        let files = files(&data);
        let plan = Plan::on(&[READ], Hit::Signal(signal)).only(&files.from.display().to_string());
        let ran = dd(&operands(&files, &["bs=1k"])).ignoring(signal).faults(plan).run().succeeds();
        assert!(!ran.report.faults.is_empty(), "no signal was sent: {}", ran.show());
        assert_bytes(&read_all(&files.to), &data, &ran.show());
    }
}

#[test]
fn a_hung_device_does_not_hold_off_a_signal() {
    let data = pattern(1 << 20);
    for &signal in ENDING {
        let fs = or_skip!(FaultFs::mount());
        fs.put("in", &data);
        fs.direct();
        fs.rule(Rule::on("in", Op::Read).bytes(512 * 1024..u64::MAX).held());
        let out = tempfile::NamedTempFile::new().expect("a file");
        let running = dd(&[operand("if", fs.path("in")), operand("of", out.path()), "bs=64k".into()]).start();
        fs.wait_for_held();
        running.send(signal);
        // The device gives the wait up for a signal, as NFS and FUSE do; asked again it would hang again.
        let held = std::thread::spawn({
            let pid = running.child.id();
            move || {
                while !devices::ended_within(pid, std::time::Duration::from_millis(20)) {
                    fs.interrupt_held();
                }
            }
        });
        let ran = running.wait();
        held.join().expect("no panic");
        assert!(!ran.hung && ran.signal() == Some(signal), "{}", ran.show());
        let got = read_all(out.path());
        assert_eq!(ran.copied(), Some(got.len() as u64), "{}", ran.show());
        assert!(data.starts_with(&got), "{}", ran.show());
    }
}

fn kill_at_each_call(data: &[u8], rest: &[&str], step: impl Fn(u64) -> u64) {
    WAYS.iter().for_each(|&way| kill_at_each_call_by(way, data, rest, &step));
}

fn kill_at_each_call_by(way: Way, data: &[u8], rest: &[&str], step: &impl Fn(u64) -> u64) {
    let files = files(data);
    let mut n = 1;
    loop {
        drop(fs::remove_file(&files.to));
        let plan = Plan::on(MOVING, Hit::Signal(libc::SIGKILL));
        let plan = plan.armed_by(&files.from.display().to_string()).nth(n);
        let ran = dd(&operands(&files, rest)).by(way).faults(plan).run();
        let got = read_all(&files.to);
        assert!(data.starts_with(&got), "{} bytes that are no prefix: {}", got.len(), ran.show());
        if let Ok(file) = File::open(&files.to) {
            assert_eq!(devices::first_hole(&file), got.len() as u64, "a hole: {}", ran.show());
        }
        if ran.report.faults.is_empty() {
            assert_bytes(&got, data, &ran.succeeds().show());
            break;
        }
        n = step(n);
    }
}

#[test]
fn sigkill_at_any_call_leaves_a_prefix() {
    or_skip!(needs_sysfault());
    kill_at_each_call(&pattern(16 * 1024), &["bs=1k"], |n| n + 1);
    kill_at_each_call(&pattern(16 * 1000), &["ibs=1000", "obs=3000"], |n| n + 1);
}

#[test]
fn sigkill_in_a_large_copy_leaves_a_prefix() {
    or_skip!(needs_sysfault());
    for rest in [&["bs=64k", "conv=fsync"][..], &["bs=1M"], &["bs=64k", "oflag=nocache"]] {
        kill_at_each_call(&pattern(24 << 20), rest, |n| n + 1 + n / 8);
    }
}
