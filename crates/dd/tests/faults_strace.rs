//! The nth system call on a data file fails, for each call that dd makes on it and each n until no fault fires, by
//! `strace -e inject`. Whatever fails: no exit 0 with wrong output, no crash, no hang, no exit without a message, no
//! byte changed outside of what was to be written.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use support::{End, Outcome, dd_under_test};

/// One way to copy, and what must come out of it.
struct Scenario {
    /// A script in which `dd` is the one under test, traced: files `in` and `out` are watched.
    operands: &'static str,
    /// Standard input and output are the files, inherited, instead of `if=` and `of=`.
    inherited: bool,
    input: Vec<u8>,
    /// The output before.
    old: Option<Vec<u8>>,
    expected: Vec<u8>,
    /// What is on disk after a failure is the beginning of the right output, and the statistics say how much.
    prefix: bool,
    /// What must be as it was whatever happens: this many bytes at the beginning, and all behind `expected`'s end.
    untouched: usize,
    /// Calls of GNU dd's whose failure it does not notice.
    gnu_misses: &'static [&'static str],
}

fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|at| b'!' + u8::try_from(at * 7 % 90 + at / 512 % 3).unwrap()).collect()
}

impl Scenario {
    fn new(operands: &'static str, length: usize) -> Scenario {
        let input = bytes(length);
        Scenario {
            operands,
            inherited: false,
            expected: input.clone(),
            input,
            old: None,
            prefix: true,
            untouched: 0,
            gnu_misses: &[],
        }
    }

    /// Runs dd under strace with these injections. What was seen, the output file, and the trace.
    fn run(&self, injection: Option<&str>) -> (Outcome, Option<Vec<u8>>, String) {
        let scratch = support::scratch();
        let dir = scratch.path();
        let (input, output, log) = (dir.join("in"), dir.join("out"), dir.join("trace"));
        fs::write(&input, &self.input).unwrap();
        if let Some(old) = &self.old {
            fs::write(&output, old).unwrap();
        }
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-a1", "-s0", "-o"]).arg(&log);
        // Calls name a file as it was given and descriptors by their full path.
        for path in [Path::new("in"), Path::new("out"), &input, &output] {
            command.arg("-P").arg(path);
        }
        if let Some(injection) = injection {
            command.arg("-e").arg(format!("inject={injection}"));
        }
        command.arg("dd").args(self.operands.split(' '));
        // The link named dd is what strace starts.
        let mut path = std::ffi::OsString::from(&dd_under_test().bin);
        path.push(":/usr/bin:/bin");
        command.env("PATH", path).env("LC_ALL", "C").current_dir(dir);
        if self.inherited {
            command.stdin(fs::File::open(&input).unwrap());
            command.stdout(fs::OpenOptions::new().write(true).create(true).truncate(false).open(&output).unwrap());
        } else {
            command.args(["if=in", "of=out"]).stdin(Stdio::null()).stdout(Stdio::null());
        }
        let outcome = support::finish(command, None, support::LIMIT);
        let trace = fs::read_to_string(&log).unwrap_or_default();
        (outcome, fs::read(&output).ok(), trace)
    }

    /// What a promise says against the outcome.
    fn broken(&self, outcome: &Outcome, output: Option<&[u8]>) -> Option<String> {
        let said = String::from_utf8_lossy(&outcome.stderr);
        let written = output.unwrap_or_default();
        match outcome.end {
            End::TimedOut => return Some("hangs".into()),
            End::Signal(signal) => return Some(format!("dies of signal {signal}")),
            End::Exit(0) if output != Some(&self.expected[..]) => {
                return Some(format!(
                    "exit 0 with {} bytes of output that are not the {} right ones",
                    written.len(),
                    self.expected.len()
                ));
            }
            End::Exit(0) => return None,
            End::Exit(1) => {}
            End::Exit(code) => return Some(format!("exit {code}")),
        }
        if !said.lines().any(|line| line.starts_with("dd: ")) {
            return Some("exit 1 without a message".into());
        }
        let old = self.old.as_deref().unwrap_or_default();
        if self.untouched > 0 && written.get(..self.untouched) != old.get(..self.untouched) {
            return Some(format!("the first {} bytes, which were not to be written, are changed", self.untouched));
        }
        if !self.prefix {
            return None;
        }
        if !self.expected.starts_with(written) && output != self.old.as_deref() {
            return Some(format!("{} bytes of output are no beginning of the right one", written.len()));
        }
        // Statistics are left out by GNU dd when a close fails; when they are there they are true.
        let copied = said.lines().rfind(|line| line.contains(" copied, "))?;
        let copied: usize = copied.split(' ').next()?.parse().ok()?;
        (copied != written.len() && output != self.old.as_deref())
            .then(|| format!("says {copied} bytes, and {} are there", written.len()))
    }
}

/// The calls that a trace shows on the data files.
fn calls(trace: &str) -> BTreeSet<String> {
    // `1234 read(0, ...`, or `1234 <... read resumed>`.
    let name = |line: &str| {
        line.split_once(' ').and_then(|(_, call)| call.trim_start().split_once('(')).map(|(name, _)| name.to_owned())
    };
    trace
        .lines()
        .filter_map(name)
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'))
        .collect()
}

fn strace_works() -> bool {
    Command::new("strace")
        .args(["-o", "/dev/null", "true"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn every_fault(scenario: &Scenario) {
    if !strace_works() {
        return support::skip("strace is not installed or may not trace");
    }
    let (outcome, output, trace) = scenario.run(None);
    assert_eq!(
        (outcome.end, output.as_deref()),
        (End::Exit(0), Some(&scenario.expected[..])),
        "without a fault: {}",
        support::one_line(&outcome.stderr)
    );
    let mut broken = Vec::new();
    let mut faults = 0;
    let calls = calls(&trace);
    assert!(
        calls.contains("read") || calls.contains("pread64") || calls.len() > 3,
        "the trace shows the copy: {calls:?}"
    );
    for call in &calls {
        // Once, and from then on. An interruption for ever would rightly be waited out for ever.
        for (error, onwards) in
            [("EIO", ""), ("EIO", "+"), ("ENOSPC", ""), ("ENOSPC", "+"), ("EINTR", ""), ("EINVAL", "+")]
        {
            for n in 1..1000 {
                let injection = format!("{call}:error={error}:when={n}{onwards}");
                let (outcome, output, trace) = scenario.run(Some(&injection));
                if !trace.contains("(INJECTED)") {
                    // Nothing failed any more: it must be as without a fault.
                    assert_eq!(outcome.end, End::Exit(0), "{injection}: {}", support::one_line(&outcome.stderr));
                    break;
                }
                faults += 1;
                if dd_under_test().gnu.is_some() && scenario.gnu_misses.contains(&call.as_str()) {
                    continue;
                }
                if let Some(what) = scenario.broken(&outcome, output.as_deref()) {
                    broken.push(format!("{injection}: {what}; {}", support::one_line(&outcome.stderr)));
                }
            }
        }
    }
    println!("dd {}: {faults} faults in {calls:?}", scenario.operands);
    assert!(
        broken.is_empty(),
        "dd {}: {} of {faults} faults break a promise\n{}",
        scenario.operands,
        broken.len(),
        broken.join("\n")
    );
    assert!(faults > calls.len(), "faults fired");
}

#[test]
fn copying_block_by_block() {
    every_fault(&Scenario::new("bs=1000", 5300));
}

#[test]
fn gathering_into_blocks() {
    every_fault(&Scenario::new("ibs=900 obs=2000", 5300));
}

#[test]
fn copying_large_blocks() {
    every_fault(&Scenario::new("bs=100000", 450_000));
}

#[test]
fn copying_small_blocks_that_may_be_joined() {
    every_fault(&Scenario::new("bs=512 count=9", 9 * 512));
}

#[test]
fn inherited_descriptors() {
    let mut scenario = Scenario::new("bs=1000", 4100);
    scenario.inherited = true;
    every_fault(&scenario);
}

#[test]
fn syncing_at_the_end() {
    every_fault(&Scenario::new("bs=2000 conv=fsync", 4100));
}

#[test]
fn syncing_data_at_the_end() {
    every_fault(&Scenario::new("bs=2000 conv=fdatasync", 4100));
}

#[test]
fn skipping_and_seeking() {
    let mut scenario = Scenario::new("bs=500 skip=2 seek=3", 4100);
    let old = vec![b'o'; 6000];
    scenario.expected = [&old[..1500], &scenario.input[1000..]].concat();
    scenario.old = Some(old);
    scenario.untouched = 1500;
    scenario.prefix = false;
    // Before 9.10 a failed truncation was printed and ignored.
    scenario.gnu_misses = &["ftruncate"];
    every_fault(&scenario);
}

#[test]
fn overwriting_within_a_file() {
    let mut scenario = Scenario::new("bs=500 seek=3 conv=notrunc", 2100);
    let old = vec![b'o'; 6000];
    scenario.expected = [&old[..1500], &scenario.input[..], &old[3600..]].concat();
    scenario.old = Some(old);
    scenario.untouched = 1500;
    scenario.prefix = false;
    every_fault(&scenario);
}

#[test]
fn setting_the_size() {
    let mut scenario = Scenario::new("bs=1 seek=3000 count=0", 10);
    scenario.expected = vec![0; 3000];
    scenario.prefix = false;
    scenario.gnu_misses = &["ftruncate"];
    // dd makes few calls here, but the truncation is one of them.
    every_fault(&scenario);
}

#[test]
fn a_hole_at_the_end() {
    let mut scenario = Scenario::new("bs=4096 conv=sparse", 4096 * 3);
    scenario.input.extend([0; 4096 * 2]);
    scenario.expected = scenario.input.clone();
    scenario.prefix = false;
    // A last lseek that fails leaves a short file and exit 0.
    scenario.gnu_misses = &["lseek", "ftruncate"];
    every_fault(&scenario);
}

#[test]
fn holes_between() {
    let mut scenario = Scenario::new("bs=4096 conv=sparse", 4096);
    scenario.input.extend([0; 4096 * 2]);
    scenario.input.extend(bytes(5000));
    scenario.expected = scenario.input.clone();
    scenario.prefix = false;
    every_fault(&scenario);
}

#[test]
fn appending() {
    let mut scenario = Scenario::new("bs=1000 oflag=append conv=notrunc", 2500);
    let old = vec![b'o'; 700];
    scenario.expected = [&old[..], &scenario.input[..]].concat();
    scenario.old = Some(old);
    scenario.untouched = 700;
    scenario.prefix = false;
    every_fault(&scenario);
}

#[test]
fn converting() {
    let mut scenario = Scenario::new("ibs=100 obs=300 conv=swab", 1200);
    scenario.expected = scenario.input.chunks(2).flat_map(|pair| [pair[1], pair[0]]).collect();
    every_fault(&scenario);
}

#[test]
fn dropping_the_cache() {
    every_fault(&Scenario::new("bs=1000 iflag=nocache oflag=nocache", 3300));
}

#[test]
fn past_the_cache() {
    let scenario = Scenario::new("bs=4096 iflag=direct oflag=direct", 4096 * 3 + 100);
    every_fault(&scenario);
}

#[test]
fn filling_blocks() {
    every_fault(&Scenario::new("bs=1000 iflag=fullblock count=3", 3000));
}

#[test]
fn lost_data_under_noerror_is_no_success() {
    if dd_under_test().gnu.is_some() {
        // GNU dd exits 0.
        return;
    }
    let mut scenario = Scenario::new("bs=1000 conv=noerror,sync", 5000);
    scenario.prefix = false;
    every_fault(&scenario);
}

#[test]
fn lost_data_under_noerror_without_sync_is_no_success() {
    if dd_under_test().gnu.is_some() {
        return;
    }
    let mut scenario = Scenario::new("bs=1000 conv=noerror", 5000);
    scenario.prefix = false;
    every_fault(&scenario);
}
