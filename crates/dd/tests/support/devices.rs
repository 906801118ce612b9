//! Loop devices, mounts, cgroups and limits for tests, each undone when its value is dropped.

#![allow(dead_code)] // Each test program uses its part of the rig.
#![allow(unsafe_code)] // Mounts and limits are set by calls that no safe crate of the workspace has.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("no NUL in a path")
}

/// Ends a FUSE mount's connection; the mount itself stays while it is in use.
pub(crate) fn abort_mount(at: &Path) {
    unmount(at, libc::MNT_FORCE);
}

/// Takes a mount out of the tree, now or as soon as the last user is gone.
pub(crate) fn detach_mount(at: &Path) {
    unmount(at, libc::MNT_DETACH);
}

fn unmount(at: &Path, flags: i32) {
    let at = c_path(at);
    // SAFETY: a valid C string, and flags the kernel checks. A failure means that it is gone already, or busy, as wanted.
    unsafe { libc::umount2(at.as_ptr(), flags) };
}

/// A loop device over a file.
pub(crate) struct Loop {
    path: PathBuf,
}

#[derive(Clone, Copy)]
pub(crate) enum Access {
    ReadWrite,
    ReadOnly,
}

impl Loop {
    /// Attaches `file` with a logical block size of `sector` bytes, or says why that cannot be done here.
    pub(crate) fn attach(file: &Path, sector: u32, access: Access) -> Result<Loop, String> {
        let mut losetup = Command::new("losetup");
        losetup.arg("--find").arg("--show").arg("--sector-size").arg(sector.to_string());
        if let Access::ReadOnly = access {
            losetup.arg("--read-only");
        }
        let out = losetup.arg(file).output().map_err(|e| format!("losetup: {e}"))?;
        if !out.status.success() {
            return Err(format!("losetup: {}", String::from_utf8_lossy(&out.stderr).trim()));
        }
        let path = PathBuf::from(String::from_utf8_lossy(&out.stdout).trim());
        Ok(Loop { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Larger requests come to the file as several of that many bytes. What a file takes of a request in part only, the loop
    /// device takes for written whole, so it must not be asked for more than the file takes or refuses at a time.
    pub(crate) fn divide_requests(&self, bytes: u64) {
        let name = self.path.file_name().expect("a device").to_string_lossy().into_owned();
        let most = format!("/sys/block/{name}/queue/max_sectors_kb");
        fs::write(&most, (bytes >> 10).to_string()).unwrap_or_else(|e| panic!("{most}: {e}"));
    }

    /// Writes back and forgets what the page cache holds of it.
    pub(crate) fn drop_cache(&self) {
        let status = Command::new("blockdev").arg("--flushbufs").arg(&self.path).status();
        assert!(status.is_ok_and(|s| s.success()), "blockdev --flushbufs {}", self.path.display());
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // Nothing can be done about a failure here, and the next test takes another device.
        let _ = Command::new("losetup").arg("--detach").arg(&self.path).status();
    }
}

/// A tmpfs of a fixed size.
pub(crate) struct Tmpfs {
    dir: tempfile::TempDir,
}

impl Tmpfs {
    pub(crate) fn mount(bytes: u64) -> Result<Tmpfs, String> {
        let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
        let at = c_path(dir.path());
        let options = CString::new(format!("size={bytes}")).expect("no NUL");
        // SAFETY: four valid C strings.
        let done =
            unsafe { libc::mount(c"tmpfs".as_ptr(), at.as_ptr(), c"tmpfs".as_ptr(), 0, options.as_ptr().cast()) };
        if done != 0 {
            return Err(format!("no tmpfs mount here: {}", io::Error::last_os_error()));
        }
        Ok(Tmpfs { dir })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        detach_mount(self.dir.path());
    }
}

/// An ext4 file system in an image, mounted.
pub(crate) struct Ext4 {
    dir: tempfile::TempDir,
    _device: Loop,
}

impl Ext4 {
    /// Makes one in `image`, without a journal: what is written is data. The image gets requests of at most `most` bytes.
    pub(crate) fn make(image: &Path, most: u64) -> Result<Ext4, String> {
        let device = Loop::attach(image, 512, Access::ReadWrite)?;
        device.divide_requests(most);
        let mut mkfs = Command::new("mkfs.ext4");
        mkfs.args(["-q", "-F", "-b", "4096", "-O", "^has_journal", "-E", "lazy_itable_init=0,nodiscard"]);
        let out = mkfs.arg(device.path()).output().map_err(|e| format!("mkfs.ext4: {e}"))?;
        if !out.status.success() {
            return Err(format!("mkfs.ext4: {}", String::from_utf8_lossy(&out.stderr).trim()));
        }
        let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
        let (from, at) = (c_path(device.path()), c_path(dir.path()));
        // SAFETY: three valid C strings, and no options.
        let done = unsafe { libc::mount(from.as_ptr(), at.as_ptr(), c"ext4".as_ptr(), 0, std::ptr::null()) };
        if done != 0 {
            return Err(format!("no ext4 mount here: {}", io::Error::last_os_error()));
        }
        Ok(Ext4 { dir, _device: device })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

impl Drop for Ext4 {
    fn drop(&mut self) {
        unmount(self.dir.path(), 0);
        // Where somebody still has a file of it open.
        detach_mount(self.dir.path());
    }
}

/// A control group of either version, with one limit.
pub(crate) struct Cgroup {
    dir: PathBuf,
}

static CGROUPS: AtomicU32 = AtomicU32::new(0);

impl Cgroup {
    /// At most that much memory, page cache included.
    pub(crate) fn memory(bytes: u64) -> Result<Cgroup, String> {
        Cgroup::new("memory", &["memory.max", "memory.limit_in_bytes"], bytes)
    }

    /// At most that many tasks, threads included.
    pub(crate) fn tasks(most: u64) -> Result<Cgroup, String> {
        Cgroup::new("pids", &["pids.max"], most)
    }

    fn new(controller: &str, files: &[&str], limit: u64) -> Result<Cgroup, String> {
        let root = Path::new("/sys/fs/cgroup");
        let own = root.join(controller);
        let parent = if own.is_dir() { own } else { root.to_path_buf() };
        let unique = CGROUPS.fetch_add(1, Ordering::Relaxed);
        let dir = parent.join(format!("fdd-test-{}-{unique}", std::process::id()));
        fs::create_dir(&dir).map_err(|e| format!("no {controller} cgroup here: {e}"))?;
        let group = Cgroup { dir };
        for file in files {
            let path = group.dir.join(file);
            if path.exists() {
                fs::write(&path, limit.to_string()).map_err(|e| format!("{}: {e}", path.display()))?;
                return Ok(group);
            }
        }
        Err(format!("the {controller} controller is not enabled for {}", parent.display()))
    }

    /// The command joins the group before it starts.
    pub(crate) fn confine(&self, command: &mut Command) {
        let procs =
            OpenOptions::new().write(true).open(self.dir.join("cgroup.procs")).expect("a cgroup has cgroup.procs");
        let join = move || (&procs).write_all(b"0");
        // SAFETY: between fork and exec it makes one write to an open descriptor, and allocates nothing.
        unsafe { command.pre_exec(join) };
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // A just-ended member is reaped but may still be counted for a moment.
        for _ in 0..100 {
            if fs::remove_dir(&self.dir).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

/// The command starts with this limit, soft and hard.
pub(crate) fn limit(command: &mut Command, resource: libc::__rlimit_resource_t, most: u64) {
    let set = move || {
        let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
        // SAFETY: a valid structure; setrlimit is safe between fork and exec.
        match unsafe { libc::setrlimit(resource, &raw const limit) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: the closure makes one system call and allocates nothing.
    unsafe { command.pre_exec(set) };
}

/// The command starts with that descriptor closed.
pub(crate) fn close(command: &mut Command, fd: i32) {
    let shut = move || {
        // SAFETY: the child's own descriptor, which nothing else in it uses before exec.
        unsafe { libc::close(fd) };
        Ok(())
    };
    // SAFETY: the closure makes one system call and allocates nothing.
    unsafe { command.pre_exec(shut) };
}

/// The command inherits that signal as ignored, or with its default action.
pub(crate) fn disposition(command: &mut Command, signal: i32, handler: libc::sighandler_t) {
    let set = move || {
        // SAFETY: SIG_IGN and SIG_DFL run no code.
        unsafe { libc::signal(signal, handler) };
        Ok(())
    };
    // SAFETY: the closure makes one system call and allocates nothing.
    unsafe { command.pre_exec(set) };
}

/// From now on this process, and whatever it starts, ignores none of the signals that the tests send: a shell that runs the
/// tests in the background has some ignored, and that is inherited.
pub(crate) fn ignore_nothing() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1] {
            // SAFETY: SIG_DFL runs no code.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    });
}

/// Sends a signal to a process that the test started and has not yet waited for.
pub(crate) fn send(pid: u32, signal: i32) {
    let pid = i32::try_from(pid).expect("a process number");
    // SAFETY: no memory is involved.
    unsafe { libc::kill(pid, signal) };
}

/// Where a shared open file description stands.
pub(crate) fn offset(file: &File) -> u64 {
    use std::io::Seek as _;
    let mut file = file;
    file.stream_position().expect("a seekable file")
}

/// The first hole's offset, which is the size if there is none.
pub(crate) fn first_hole(file: &File) -> u64 {
    use std::os::fd::AsRawFd as _;
    // SAFETY: the descriptor is open for as long as `file` is borrowed.
    let hole = unsafe { libc::lseek(file.as_raw_fd(), 0, libc::SEEK_HOLE) };
    u64::try_from(hole).unwrap_or(0)
}

/// Sets O_NONBLOCK on the open file description, which whoever inherits it shares.
pub(crate) fn nonblocking(file: &impl std::os::fd::AsRawFd, on: bool) {
    let fd = file.as_raw_fd();
    // SAFETY: the descriptor is open for as long as `file` is borrowed.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    let flags = if on { flags | libc::O_NONBLOCK } else { flags & !libc::O_NONBLOCK };
    // SAFETY: as above.
    let done = unsafe { libc::fcntl(fd, libc::F_SETFL, flags) };
    assert_eq!(done, 0, "F_SETFL: {}", io::Error::last_os_error());
}

pub(crate) fn is_root() -> bool {
    // SAFETY: it only asks.
    unsafe { libc::geteuid() == 0 }
}

/// Waits for the process to end, or for the time to be over; true when it ended.
pub(crate) fn ended_within(pid: u32, time: std::time::Duration) -> bool {
    let pid = i32::try_from(pid).expect("a process number");
    // SAFETY: no memory is involved.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if fd < 0 {
        return true; // Nobody has that number any more.
    }
    let mut poll = libc::pollfd { fd: i32::try_from(fd).expect("a descriptor"), events: libc::POLLIN, revents: 0 };
    let wait = i32::try_from(time.as_millis()).expect("a short time");
    // SAFETY: one valid pollfd.
    let ready = unsafe { libc::poll(&raw mut poll, 1, wait) };
    // SAFETY: opened above and used by no one else.
    unsafe { libc::close(poll.fd) };
    ready == 1
}

/// Waits until the process sleeps in a call that a signal can end, or has ended.
pub(crate) fn wait_until_asleep(pid: u32) {
    let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state comes after the name, which is in brackets.
    while state().rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['S', 'Z', 'X'])) {
        std::thread::yield_now();
    }
}
