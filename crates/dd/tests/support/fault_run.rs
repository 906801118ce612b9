//! Runs the dd under test under faults and says what came of it. Nothing of dd's rules lives here.

#![allow(dead_code)] // Each test program uses its part of the rig.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use super::devices;
use super::sysfault::{Plan, Report, Supervisor};

/// How long a run may take before it counts as hung. Nothing is measured by it.
const HANG: Duration = Duration::from_secs(30);

/// The dd under test: the one just built, or the one that `DD_UNDER_TEST` names.
pub(crate) fn program() -> PathBuf {
    std::env::var_os("DD_UNDER_TEST").map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_fdd")), PathBuf::from)
}

/// Leaves a test that this machine cannot run, saying why; with `FDD_NO_SKIP=1` that is a failure.
pub(crate) fn skip(reason: &str) {
    assert!(std::env::var_os("FDD_NO_SKIP").is_none_or(|v| v != "1"), "skipped although FDD_NO_SKIP=1: {reason}");
    eprintln!("skipped: {reason}");
}

/// The value, or the end of the test with the reason why it cannot be had here.
#[macro_export]
macro_rules! or_skip {
    ($what:expr) => {
        match $what {
            Ok(value) => value,
            Err(reason) => return $crate::fault_run::skip(&reason.to_string()),
        }
    };
}

/// Seccomp's user notification, asked once.
pub(crate) fn needs_sysfault() -> Result<(), String> {
    static ANSWER: OnceLock<Result<(), String>> = OnceLock::new();
    ANSWER.get_or_init(super::sysfault::available).clone()
}

pub(crate) fn needs_root() -> Result<(), String> {
    if devices::is_root() { Ok(()) } else { Err("needs root".into()) }
}

/// Bytes that tell where they belong: no two sectors are alike, and no byte is zero.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    let byte = |i: usize| {
        let sector = (i / 512) as u64;
        let mixed = (sector + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (i as u64).wrapping_mul(0xff51_afd7_ed55_8ccd);
        mixed.to_le_bytes()[4] | 1
    };
    (0..len).map(byte).collect()
}

/// How the copy is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// As the program sees fit: few calls, each for many blocks. Where `FDD_STRATEGY` is set from outside, by that way
    /// as far as it can be used, so that the whole suite can be run under each.
    Best,
    /// Block by block, which meets each fault where its block is.
    Plain,
}

pub(crate) const WAYS: &[Way] = &[Way::Best, Way::Plain];

/// One command to run.
pub(crate) struct Job {
    pub command: Command,
    plan: Option<Plan>,
    /// Where it will say which way moved how many bytes.
    moved: Option<tempfile::NamedTempFile>,
}

/// The dd under test with these operands.
pub(crate) fn dd<S: AsRef<std::ffi::OsStr>>(operands: &[S]) -> Job {
    tool(&program(), operands)
}

/// Any program, as the peers are run.
pub(crate) fn tool<S: AsRef<std::ffi::OsStr>>(program: &Path, operands: &[S]) -> Job {
    let mut command = Command::new(program);
    command.args(operands);
    command.env("LC_ALL", "C").env_remove("POSIXLY_CORRECT");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    devices::ignore_nothing();
    Job { command, plan: None, moved: None }
}

/// `if=` and the like: a name and a path in one operand.
pub(crate) fn operand(name: &str, path: impl AsRef<Path>) -> String {
    format!("{name}={}", path.as_ref().display())
}

impl Job {
    pub(crate) fn stdin(mut self, from: impl Into<Stdio>) -> Job {
        self.command.stdin(from);
        self
    }

    pub(crate) fn stdout(mut self, to: impl Into<Stdio>) -> Job {
        self.command.stdout(to);
        self
    }

    pub(crate) fn stderr(mut self, to: impl Into<Stdio>) -> Job {
        self.command.stderr(to);
        self
    }

    /// By that way of copying alone, where it is allowed.
    pub(crate) fn by(mut self, way: Way) -> Job {
        if way == Way::Plain {
            self.command.env("FDD_STRATEGY", "pump");
        }
        self
    }

    /// By that way as far as it can be used, whatever it costs; `Ran::moved_by` tells how far that was.
    pub(crate) fn forced(mut self, strategy: &str) -> Job {
        let told = tempfile::NamedTempFile::new().expect("a file");
        self.command.env("FDD_STRATEGY", strategy).env("FDD_STRATEGY_REPORT", told.path());
        self.moved = Some(told);
        self
    }

    pub(crate) fn faults(mut self, plan: Plan) -> Job {
        self.plan = Some(plan);
        self
    }

    pub(crate) fn cgroup(mut self, group: &devices::Cgroup) -> Job {
        group.confine(&mut self.command);
        self
    }

    pub(crate) fn limit(mut self, resource: libc::__rlimit_resource_t, most: u64) -> Job {
        devices::limit(&mut self.command, resource, most);
        self
    }

    pub(crate) fn closed(mut self, fd: i32) -> Job {
        devices::close(&mut self.command, fd);
        self
    }

    pub(crate) fn ignoring(mut self, signal: i32) -> Job {
        devices::disposition(&mut self.command, signal, libc::SIG_IGN);
        self
    }

    pub(crate) fn start(mut self) -> Running {
        let text = format!(
            "{:?}{}",
            self.command,
            match &self.plan {
                Some(plan) => format!("\n  under {plan:?}"),
                None => String::new(),
            }
        );
        let supervisor = self.plan.map(|plan| Supervisor::watch(&mut self.command, plan).expect("a supervisor"));
        let child = self.command.spawn().unwrap_or_else(|e| panic!("{text}: {e}"));
        Running { child, supervisor, moved: self.moved, text }
    }

    pub(crate) fn run(self) -> Ran {
        self.start().wait()
    }
}

/// A command that has been started.
pub(crate) struct Running {
    pub child: Child,
    supervisor: Option<Supervisor>,
    moved: Option<tempfile::NamedTempFile>,
    text: String,
}

impl Running {
    pub(crate) fn send(&self, signal: i32) {
        devices::send(self.child.id(), signal);
    }

    /// Leaves the ended child unreaped, so that its number stays its own.
    pub(crate) fn is_running(&self) -> bool {
        !devices::ended_within(self.child.id(), Duration::ZERO)
    }

    /// Waits for the end; what hangs is killed and says so.
    pub(crate) fn wait(mut self) -> Ran {
        let out = self.child.stdout.take().map(drain);
        let err = self.child.stderr.take().map(drain);
        let hung = !devices::ended_within(self.child.id(), HANG);
        if hung {
            self.send(libc::SIGKILL);
        }
        let status = self.child.wait().expect("our child");
        let text = |thread: std::thread::JoinHandle<Vec<u8>>| thread.join().expect("no panic");
        let out = out.map(text).unwrap_or_default();
        let err = err.map(text).unwrap_or_default();
        Ran {
            status,
            out,
            err: String::from_utf8_lossy(&err).into_owned(),
            hung,
            report: self.supervisor.map(Supervisor::report).unwrap_or_default(),
            moved: self.moved.map(|told| String::from_utf8_lossy(&read_all(told.path())).into_owned()),
            text: self.text,
        }
    }
}

/// What a run that pads for ever may say before it gets SIGPIPE.
const MOST: u64 = 256 << 20;

fn drain(from: impl std::io::Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error is what there is.
        let _ = from.take(MOST).read_to_end(&mut bytes);
        bytes
    })
}

/// What came of a run.
pub(crate) struct Ran {
    pub status: ExitStatus,
    pub out: Vec<u8>,
    pub err: String,
    pub hung: bool,
    pub report: Report,
    moved: Option<String>,
    text: String,
}

impl Ran {
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    pub(crate) fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// The bytes that the statistics claim.
    pub(crate) fn copied(&self) -> Option<u64> {
        let line = self.err.lines().rev().find(|line| is_transfer(line))?;
        line.split(' ').next()?.parse().ok()
    }

    /// Bytes that a forced way moved.
    pub(crate) fn moved_by(&self, strategy: &str) -> u64 {
        let told = self.moved.as_deref().expect("a way was forced");
        let lines = told.lines().filter_map(|line| line.split_once(' '));
        lines.filter(|(name, _)| *name == strategy).filter_map(|(_, bytes)| bytes.parse::<u64>().ok()).sum()
    }

    /// The two lines of records.
    pub(crate) fn records(&self) -> Vec<&str> {
        self.err.lines().filter(|line| is_records(line)).collect()
    }

    /// Everything on standard error that is not a statistic.
    pub(crate) fn messages(&self) -> Vec<&str> {
        self.err
            .split(['\n', '\r'])
            .filter(|line| !line.trim().is_empty() && !is_records(line) && !is_transfer(line))
            .collect()
    }

    /// Whether the messages hold `number` as a word of its own.
    pub(crate) fn names(&self, number: u64) -> bool {
        let number = number.to_string();
        self.messages().iter().any(|line| line.split(|c: char| !c.is_ascii_digit()).any(|word| word == number))
    }

    /// The command and how it ended, for a failed test.
    pub(crate) fn show(&self) -> String {
        let err: String = self.err.chars().take(600).collect();
        let faults: Vec<String> = self
            .report
            .faults
            .iter()
            .take(3)
            .map(|f| format!("#{} call {} fd {} {}", f.nth, f.call, f.fd, f.file))
            .collect();
        format!(
            "{}\n  -> {}{}; hit {faults:?}; stderr: {err:?}",
            self.text,
            self.status,
            if self.hung { " (hung)" } else { "" }
        )
    }

    /// Ended by exit 0.
    #[track_caller]
    pub(crate) fn succeeds(self) -> Ran {
        assert!(self.code() == Some(0) && !self.hung, "expected exit 0: {}", self.show());
        self
    }

    /// Ended by exit 1 and a message.
    #[track_caller]
    pub(crate) fn fails(self) -> Ran {
        assert!(self.code() == Some(1) && !self.hung, "expected exit 1: {}", self.show());
        assert!(!self.messages().is_empty(), "expected a message: {}", self.show());
        self
    }
}

fn is_records(line: &str) -> bool {
    line.ends_with(" records in") || line.ends_with(" records out")
}

fn is_transfer(line: &str) -> bool {
    line.contains(" copied, ") && line.starts_with(|c: char| c.is_ascii_digit())
}

/// Says where two files part, instead of printing both.
#[track_caller]
pub(crate) fn assert_bytes(got: &[u8], wanted: &[u8], what: &str) {
    if got == wanted {
        return;
    }
    let at = got.iter().zip(wanted).position(|(a, b)| a != b).unwrap_or(got.len().min(wanted.len()));
    panic!("{} of {} bytes, different from byte {at} (sector {}) on: {what}", got.len(), wanted.len(), at / 512);
}

/// Drops a file from the page cache.
pub(crate) fn make_cold(path: &Path) {
    let file = File::open(path).expect("it is there");
    file.sync_all().expect("synced");
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("advice");
}

pub(crate) fn read_all(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    let opened = File::open(path).and_then(|mut file| file.read_to_end(&mut bytes));
    opened.map(|_| bytes).unwrap_or_default()
}
