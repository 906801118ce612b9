//! Runs a copy by one strategy and tells all that can be seen of it.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(crate) const MIB: usize = 1 << 20;

/// Says that a test did not run and why. With `FDD_NO_SKIP` in the environment that is a failure.
pub(crate) fn skip(reason: &str) {
    assert!(std::env::var_os("FDD_NO_SKIP").is_none(), "would have been skipped: {reason}");
    println!("skipped: {reason}");
}

/// A directory beside the build, on whatever file system that is.
pub(crate) fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory beside the build")
}

/// Bytes that repeat nowhere near, and are no zeros.
pub(crate) fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// One copy.
#[derive(Clone, Debug)]
pub(crate) struct Copy<'a> {
    /// `None`: whichever the program chooses.
    pub(crate) strategy: Option<&'a str>,
    pub(crate) input: &'a Path,
    pub(crate) output: &'a Path,
    pub(crate) operands: &'a [&'a str],
    /// Both ends are handed over, standing at these offsets, rather than named.
    pub(crate) inherited: Option<(u64, u64)>,
    /// Words in front of the command: strace and what it is to do.
    pub(crate) under: &'a [String],
}

impl<'a> Copy<'a> {
    pub(crate) fn new(strategy: &'a str, input: &'a Path, output: &'a Path, operands: &'a [&'a str]) -> Copy<'a> {
        Copy { strategy: Some(strategy), input, output, operands, inherited: None, under: &[] }
    }

    /// The command, ready to run, and where it will say what moved the bytes.
    pub(crate) fn command(&self, report: &Path) -> Command {
        crate::devices::ignore_nothing();
        let program = env!("CARGO_BIN_EXE_fdd");
        let mut command = match self.under.split_first() {
            None => Command::new(program),
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest).arg(program);
                command
            }
        };
        command.args(self.operands).env("LC_ALL", "C").env("FDD_STRATEGY_REPORT", report).stderr(Stdio::piped());
        match self.strategy {
            Some(name) => command.env("FDD_STRATEGY", name),
            None => command.env_remove("FDD_STRATEGY"),
        };
        command.stdin(Stdio::null()).stdout(Stdio::null());
        if self.inherited.is_none() {
            command.arg(operand("if=", self.input)).arg(operand("of=", self.output));
        }
        command
    }

    pub(crate) fn run(&self) -> Seen {
        let report = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a file for the report");
        let mut command = self.command(report.path());
        let ends = self.inherited.map(|(from, to)| {
            let mut input = File::open(self.input).expect("the input");
            let mut output =
                OpenOptions::new().write(true).create(true).truncate(false).open(self.output).expect("the output");
            input.seek(SeekFrom::Start(from)).expect("a file seeks");
            output.seek(SeekFrom::Start(to)).expect("a file seeks");
            command.stdin(input.try_clone().expect("a descriptor"));
            command.stdout(output.try_clone().expect("a descriptor"));
            (input, output)
        });
        let result = command.output().expect("the program runs");
        drop(command);
        Seen {
            code: result.status.code(),
            said: without_speed(&String::from_utf8_lossy(&result.stderr)),
            offsets: ends.map(|(mut input, mut output)| {
                (input.stream_position().expect("a file seeks"), output.stream_position().expect("a file seeks"))
            }),
            moved: moved(report.path()),
        }
    }
}

fn operand(word: &str, path: &Path) -> std::ffi::OsString {
    let mut operand = std::ffi::OsString::from(word);
    operand.push(path);
    operand
}

/// What can be seen of a copy beside its output.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) code: Option<i32>,
    /// Standard error, without how long it took.
    pub(crate) said: String,
    /// Where the inherited descriptors stand afterwards.
    pub(crate) offsets: Option<(u64, u64)>,
    /// How many bytes each strategy moved.
    pub(crate) moved: HashMap<String, u64>,
}

impl Seen {
    pub(crate) fn moved_by(&self, strategy: &str) -> u64 {
        self.moved.get(strategy).copied().unwrap_or(0)
    }

    /// Bytes that the program says it copied.
    pub(crate) fn told(&self) -> u64 {
        told(&self.said)
    }
}

/// The count in the last line of a summary.
pub(crate) fn told(said: &str) -> u64 {
    let line = said.lines().find(|line| line.contains(" copied")).unwrap_or_else(|| panic!("no summary in {said:?}"));
    line.split(' ').next().and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("no count in {line:?}"))
}

pub(crate) fn moved(report: &Path) -> HashMap<String, u64> {
    let text = std::fs::read_to_string(report).expect("the report");
    text.lines()
        .map(|line| {
            let (name, bytes) = line.split_once(' ').expect("name and bytes");
            (name.to_owned(), bytes.parse().expect("a number"))
        })
        .collect()
}

/// Standard error without how long it took.
pub(crate) fn without_speed(said: &str) -> String {
    said.lines()
        .map(|line| match line.split_once(" copied, ") {
            Some((count, _)) => format!("{count} copied\n"),
            None => format!("{line}\n"),
        })
        .collect()
}

/// A file with these bytes, on the medium, so that its pages can be dropped.
pub(crate) fn file(path: &Path, bytes: &[u8]) {
    let mut file = File::create(path).expect("room for a file");
    file.write_all(bytes).expect("room for a file");
    file.sync_all().expect("a sync");
}

/// Drops a file from the page cache.
pub(crate) fn make_cold(path: &Path) {
    let file = File::open(path).expect("a file");
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("advice");
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Runs a program that must succeed; tells what it printed.
pub(crate) fn done(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// A file system or device that lives in a file, as long as this value.
pub(crate) struct Image {
    /// Where it is mounted, or the device.
    pub(crate) path: PathBuf,
    mounted: bool,
    _home: tempfile::TempDir,
}

impl Image {
    /// A loop device of `len` bytes. `None`, said aloud, where there is none to be had.
    pub(crate) fn device(len: usize) -> Option<Image> {
        let home = scratch();
        let image = home.path().join("image");
        File::create(&image).expect("a file").set_len(len as u64).expect("a sparse file");
        let device = is_root().then(|| done("losetup", &["-f", "--show", &image.to_string_lossy()])).flatten();
        if device.is_none() {
            skip("no loop device to be had");
        }
        Some(Image { path: device?.into(), mounted: false, _home: home })
    }

    /// A file system of `len` bytes made by `mkfs`.
    pub(crate) fn mounted(len: usize, mkfs: &[&str]) -> Option<Image> {
        let home = scratch();
        let image = home.path().join("image");
        let at = home.path().join("mounted");
        std::fs::create_dir(&at).expect("a directory");
        File::create(&image).expect("a file").set_len(len as u64).expect("a sparse file");
        let (image, point) = (image.to_string_lossy().into_owned(), at.to_string_lossy().into_owned());
        let (program, options) = mkfs.split_first().expect("a program");
        let made = is_root()
            && done(program, &[options, &[image.as_str()]].concat()).is_some()
            && done("mount", &["-o", "loop", &image, &point]).is_some();
        if !made {
            skip(&format!("no file system by {program} to be had"));
            return None;
        }
        Some(Image { path: at, mounted: true, _home: home })
    }

    /// Memory, `len` bytes of it.
    pub(crate) fn memory(len: usize) -> Option<Image> {
        let home = scratch();
        let at = home.path().join("mounted");
        std::fs::create_dir(&at).expect("a directory");
        let size = format!("size={len}");
        if !is_root() || done("mount", &["-t", "tmpfs", "-o", &size, "none", &at.to_string_lossy()]).is_none() {
            skip("no tmpfs to be had");
            return None;
        }
        Some(Image { path: at, mounted: true, _home: home })
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let path = self.path.to_string_lossy().into_owned();
        if self.mounted {
            done("umount", &[&path])
        } else {
            done("losetup", &["-d", &path])
        };
    }
}
