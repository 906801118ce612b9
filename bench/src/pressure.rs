//! A run in a memory cgroup that it shares with a bystander: how often must the bystander wait for a page of its own?
//!
//! The cgroup may hold the bystander's memory and 60 MiB more. What is pushed out goes to swap, in memory (zram) or in a file,
//! whichever can be made; without swap the bystander's memory cannot be pushed out and there is nothing to measure.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::Error;
use crate::command::Pipeline;
use crate::files;
use crate::measure::{self, Sample};
use crate::run::Site;

/// What the cgroup may hold beyond the bystander, in MiB.
const ROOM: u64 = 60;

/// Which of the two interfaces the kernel has for memory cgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interface {
    One,
    Two,
}

impl Interface {
    fn limit_file(self) -> &'static str {
        match self {
            Interface::One => "memory.limit_in_bytes",
            Interface::Two => "memory.max",
        }
    }
}

/// Where memory cgroups are made, by what is mounted.
fn root() -> Option<(Interface, PathBuf)> {
    let one = Path::new("/sys/fs/cgroup/memory");
    if one.join("memory.limit_in_bytes").exists() {
        return Some((Interface::One, one.to_owned()));
    }
    let two = Path::new("/sys/fs/cgroup");
    let controllers = fs::read_to_string(two.join("cgroup.controllers")).ok()?;
    controllers.split_whitespace().any(|name| name == "memory").then(|| (Interface::Two, two.to_owned()))
}

/// A cgroup of its own, removed in the end.
struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    fn new(limit: u64) -> io::Result<Cgroup> {
        let (interface, root) = root().ok_or_else(|| io::Error::other("no memory cgroups here"))?;
        if interface == Interface::Two {
            // Refused where it is on already in some kernels; the limit below tells.
            let _ = fs::write(root.join("cgroup.subtree_control"), "+memory");
        }
        let cgroup = Cgroup { path: root.join(format!("fdd-bench-{}", std::process::id())) };
        fs::create_dir_all(&cgroup.path)?;
        fs::write(cgroup.path.join(interface.limit_file()), limit.to_string())?;
        Ok(cgroup)
    }

    fn enter(&self, process: u32) -> io::Result<()> {
        fs::write(self.path.join("cgroup.procs"), process.to_string())
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // The cache of the file belongs to it and goes to the parent; a process that is still ending makes it busy.
        for _ in 0..100 {
            if fs::remove_dir(&self.path).is_ok() || !self.path.exists() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

/// The other program in the cgroup; see `inside::bystander`.
struct Bystander {
    process: Child,
    says: BufReader<std::process::ChildStdout>,
}

/// What it noticed.
#[derive(Debug, PartialEq)]
struct Noticed {
    faults: f64,
    slowest_ms: f64,
    middle_ms: f64,
}

impl Bystander {
    fn start(cgroup: &Cgroup, mebibytes: u64, file: &Path) -> io::Result<Bystander> {
        // Not in the cache, or it would be charged to whoever brought it in.
        files::old_file(file, mebibytes << 19)?;
        files::cool(file)?;
        let mut process = Command::new(std::env::current_exe()?)
            .args(["--inside", "bystander", &mebibytes.to_string()])
            .arg(file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        cgroup.enter(process.id())?;
        process.stdin.as_mut().expect("piped").write_all(b"go\n")?;
        let mut says = BufReader::new(process.stdout.take().expect("piped"));
        let mut line = String::new();
        says.read_line(&mut line)?;
        if line != "ready\n" {
            return Err(io::Error::other("the bystander did not get its memory"));
        }
        Ok(Bystander { process, says })
    }

    fn stop(mut self) -> io::Result<Noticed> {
        drop(self.process.stdin.take());
        let mut line = String::new();
        self.says.read_line(&mut line)?;
        self.process.wait()?;
        noticed(&line).ok_or_else(|| io::Error::other("the bystander was killed"))
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        // After a failure; after `stop` it is gone and both are refused.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn noticed(line: &str) -> Option<Noticed> {
    let mut numbers = line.split_whitespace().map(|word| word.parse::<f64>().ok());
    let (faults, _passes, slowest_ms, middle_ms) =
        (numbers.next()??, numbers.next()??, numbers.next()??, numbers.next()??);
    Some(Noticed { faults, slowest_ms, middle_ms })
}

/// Runs `command` beside a bystander of so many MiB, half of them in a file beside the output, and adds the figures `major faults`, `swap-ins`, `slowest pass ms` and
/// `median pass ms`.
pub(crate) fn run(command: &Pipeline, site: &Site<'_>, bystander: u64, swap: &str) -> Result<Sample, String> {
    let told = |error: io::Error| format!("{error} (swap: {swap})");
    let cgroup = Cgroup::new((bystander + ROOM) << 20).map_err(told)?;
    let other = Bystander::start(&cgroup, bystander, &site.output.with_file_name("bystander")).map_err(told)?;
    let before = swap_ins();
    let sample = measure::run(command, Some(&cgroup.path));
    let after = swap_ins();
    let noticed = other.stop().map_err(told)?;
    let mut sample = sample?;
    let figures = [
        ("major faults", noticed.faults),
        ("swap-ins", after - before),
        ("slowest pass ms", noticed.slowest_ms),
        ("median pass ms", noticed.middle_ms),
    ];
    sample.figures = figures.map(|(name, value)| (name.to_owned(), value)).into();
    Ok(sample)
}

/// Pages that came back from swap since the machine started.
fn swap_ins() -> f64 {
    let told = fs::read_to_string("/proc/vmstat").unwrap_or_default();
    told.lines().find_map(|line| line.strip_prefix("pswpin ")?.parse().ok()).unwrap_or(0.0)
}

/// Swap that was made for the suite, or found. Given back in the end.
pub(crate) struct Swap {
    /// What it is, for people.
    pub(crate) note: String,
    /// Swapped on by us; to be swapped off.
    on: Option<PathBuf>,
    zram: bool,
}

/// Which swap is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SwapKind {
    /// Memory, else a file.
    #[default]
    Any,
    Zram,
    File,
}

impl Swap {
    /// Makes swap, unless the machine has some.
    ///
    /// Each thing that could not be made is named in the error.
    pub(crate) fn make(kind: SwapKind, directory: &Path) -> Result<Swap, Error> {
        if root().is_none() {
            return Err(Error(
                "no memory cgroups: neither /sys/fs/cgroup/memory nor the memory controller of cgroup 2".into(),
            ));
        }
        if !rustix::process::geteuid().is_root() {
            return Err(Error("only root can make memory cgroups and swap".into()));
        }
        let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
        if let Some(found) = swaps.lines().nth(1).and_then(|line| line.split_whitespace().next()) {
            return Ok(Swap { note: format!("{found} (found)"), on: None, zram: false });
        }
        let mut refusals = Vec::new();
        if kind != SwapKind::File {
            match zram() {
                Ok(path) => return Ok(Swap { note: "zram, 1 GiB".into(), on: Some(path), zram: true }),
                Err(error) => refusals.push(format!("zram: {error}")),
            }
        }
        if kind != SwapKind::Zram {
            match swap_file(directory) {
                Ok(path) => return Ok(Swap { note: "a file, 1 GiB".into(), on: Some(path), zram: false }),
                Err(error) => refusals.push(format!("file: {error}")),
            }
        }
        Err(Error(format!("no swap could be made ({}), without which nothing is pushed out", refusals.join("; "))))
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        let Some(path) = &self.on else { return };
        if let Err(error) = call("swapoff", path) {
            eprintln!("fdd-bench: swap stays on: {error}");
            return;
        }
        let given_back = if self.zram { fs::write("/sys/block/zram0/reset", "1") } else { fs::remove_file(path) };
        if let Err(error) = given_back {
            eprintln!("fdd-bench: {}: {error}", path.display());
        }
    }
}

fn zram() -> io::Result<PathBuf> {
    let size = Path::new("/sys/block/zram0/disksize");
    if !size.exists() {
        // Where it is a module; a kernel that has it built in has the device.
        Command::new("modprobe").arg("zram").stderr(Stdio::null()).status()?;
    }
    let path = PathBuf::from("/dev/zram0");
    // Somebody else's, if it has a size: writing that fails.
    fs::write(size, (1_u64 << 30).to_string())?;
    let on = call("mkswap", &path).and_then(|()| call("swapon", &path));
    if let Err(error) = on {
        fs::write("/sys/block/zram0/reset", "1")?;
        return Err(error);
    }
    Ok(path)
}

fn swap_file(directory: &Path) -> io::Result<PathBuf> {
    use std::os::unix::fs::OpenOptionsExt;
    let path = directory.join("swap");
    let mut file = fs::File::options().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
    let chunk = vec![0; 1 << 20];
    for _ in 0..1024 {
        file.write_all(&chunk)?;
    }
    file.sync_all()?;
    call("mkswap", &path).and_then(|()| call("swapon", &path))?;
    Ok(path)
}

fn call(program: &str, path: &Path) -> io::Result<()> {
    // Where root's PATH is somebody else's.
    let program = ["/usr/sbin", "/sbin", "/usr/bin"]
        .map(|dir| Path::new(dir).join(program))
        .into_iter()
        .find(|path| path.exists());
    let program = program.ok_or_else(|| io::Error::other("mkswap and swapon are not installed"))?;
    let output = Command::new(&program).arg(path).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

/// The memory cgroup interface, for people.
pub(crate) fn cgroup_note() -> String {
    match root() {
        Some((Interface::One, path)) => format!("version 1, {}", path.display()),
        Some((Interface::Two, path)) => format!("version 2, {}", path.display()),
        None => "none".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_bystander_says_is_understood() {
        assert_eq!(noticed("12 100 3.5 0.25\n"), Some(Noticed { faults: 12.0, slowest_ms: 3.5, middle_ms: 0.25 }));
        assert_eq!(noticed(""), None);
        assert_eq!(noticed("12 100 3.5\n"), None);
    }
}
