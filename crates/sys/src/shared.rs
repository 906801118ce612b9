//! What processes that share memory need and rustix lacks: mappings, futexes, locks of an open file description, a mark that
//! a fork wipes, and whether a process still runs.
//!
//! A futex here is a system call through libc, so that Miri can follow it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Memory of a file, seen by every process that maps it.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a `Mapping` only owns an address range; every access through its pointer is the unsafe act of its user.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes of `file`, for reading and writing, shared.
    ///
    /// # Errors
    /// Those of mmap. A file that is shorter than `len`, or is cut later, ends the process with SIGBUS when it is touched:
    /// look at its length first, and seal it.
    pub fn shared(file: BorrowedFd<'_>, len: usize) -> io::Result<Mapping> {
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let start =
            unsafe { mmap(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, file, 0)? };
        let start = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { start, len })
    }

    /// The first byte, aligned to a page. Valid for [`len`](Mapping::len) bytes while the mapping lives.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// How many bytes are mapped.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "mmap makes no empty mapping")]
    pub fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `shared`, and users of the pointer keep the mapping alive.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// A mark that is there in the process that made it and gone in every child it forks.
#[derive(Debug)]
pub struct ForkMark(Option<NonNull<AtomicU32>>);

// SAFETY: the page holds one atomic and lives as long as the mark.
unsafe impl Send for ForkMark {}
// SAFETY: as above; shared access is an atomic load.
unsafe impl Sync for ForkMark {}

impl ForkMark {
    /// A new mark.
    ///
    /// # Errors
    /// Those of mmap, and of madvise where the kernel has no MADV_WIPEONFORK (before Linux 4.14).
    pub fn new() -> io::Result<ForkMark> {
        use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
        let page = rustix::param::page_size();
        // SAFETY: a new anonymous mapping touches no existing memory.
        let start = unsafe {
            mmap_anonymous(std::ptr::null_mut(), page, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)?
        };
        let mark = ForkMark(NonNull::new(start.cast()));
        // SAFETY: the page is ours and holds nothing that a child needs.
        unsafe { madvise(start, page, Advice::LinuxWipeOnFork)? };
        if let Some(word) = mark.0 {
            // SAFETY: the page is mapped, zeroed (a valid atomic) and aligned.
            unsafe { word.as_ref() }.store(1, Ordering::Relaxed);
        }
        Ok(mark)
    }

    /// Whether this is still the process that made the mark.
    #[must_use]
    #[inline]
    pub fn is_ours(&self) -> bool {
        // SAFETY: the page stays mapped while the mark lives, in a forked child too.
        self.0.is_some_and(|word| unsafe { word.as_ref() }.load(Ordering::Relaxed) == 1)
    }
}

impl Drop for ForkMark {
    fn drop(&mut self) {
        if let Some(word) = self.0 {
            // SAFETY: mapped by `new`; no reference to it outlives the mark.
            let _ = unsafe { rustix::mm::munmap(word.as_ptr().cast(), rustix::param::page_size()) };
        }
    }
}

/// Who can wait on a futex.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The threads of this process.
    Threads,
    /// Every process that maps the word.
    Processes,
}

impl Scope {
    fn flag(self) -> libc::c_int {
        match self {
            Scope::Threads => libc::FUTEX_PRIVATE_FLAG,
            Scope::Processes => 0,
        }
    }
}

/// Sleeps while `word` holds `expected`, until woken, interrupted, or `at_most` is over. May return early for no reason.
#[doc(alias = "FUTEX_WAIT")]
pub fn futex_wait(word: &AtomicU32, expected: u32, at_most: Option<Duration>, scope: Scope) {
    let time = at_most.map(|span| libc::timespec {
        tv_sec: libc::time_t::try_from(span.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(span.subsec_nanos().cast_signed()),
    });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `word` and `time` are valid for the call, which only reads them.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT | scope.flag(), expected, time) };
}

/// Wakes one sleeper on `word`, if there is one.
#[doc(alias = "FUTEX_WAKE")]
pub fn futex_wake(word: &AtomicU32, scope: Scope) {
    // SAFETY: the kernel only looks the address up.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | scope.flag(), 1) };
}

fn byte_lock(kind: libc::c_int, byte: u64) -> libc::flock {
    // SAFETY: all zeroes is a valid `flock`: plain integers.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::c_short::try_from(kind).expect("lock kinds are small");
    lock.l_whence = libc::c_short::try_from(libc::SEEK_SET).expect("SEEK_SET is small");
    lock.l_start = libc::off_t::try_from(byte).unwrap_or(libc::off_t::MAX);
    lock.l_len = 1;
    lock
}

/// Locks one byte for this open file description. The kernel gives it back when the last descriptor of it is closed, as it
/// is when the process ends in any way.
///
/// Returns false when another description has it.
///
/// # Errors
/// Those of fcntl(F_OFD_SETLK).
pub fn lock_byte(file: impl AsFd, byte: u64) -> io::Result<bool> {
    let lock = byte_lock(libc::F_WRLCK, byte);
    // SAFETY: `lock` is a valid flock for the call.
    match unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) } {
        -1 => match io::Error::last_os_error() {
            error if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
            error => Err(error),
        },
        _ => Ok(true),
    }
}

/// Gives back what [`lock_byte`] took.
///
/// # Errors
/// Those of fcntl(F_OFD_SETLK).
pub fn unlock_byte(file: impl AsFd, byte: u64) -> io::Result<()> {
    let lock = byte_lock(libc::F_UNLCK, byte);
    // SAFETY: `lock` is a valid flock for the call.
    match unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Whether another open file description has the byte locked.
///
/// # Errors
/// Those of fcntl(F_OFD_GETLK).
pub fn byte_is_locked(file: impl AsFd, byte: u64) -> io::Result<bool> {
    let mut lock = byte_lock(libc::F_WRLCK, byte);
    // SAFETY: `lock` is a valid flock for the call, which writes it.
    match unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(libc::c_int::from(lock.l_type) != libc::F_UNLCK),
    }
}

/// Whether a process with this number runs: one that has ended and was not yet waited for does not. True when it cannot be
/// known.
#[must_use]
pub fn process_runs(pid: u32) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return false };
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => {
            let mut ended = [PollFd::new(&process, PollFlags::IN)];
            !matches!(poll(&mut ended, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(1..))
        }
        Err(error) => error != rustix::io::Errno::SRCH,
    }
}

/// The name of the C library and, where it tells, its version.
#[must_use]
pub fn c_library() -> String {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: glibc returns a constant string.
        let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
        format!("glibc {}", version.to_string_lossy())
    }
    #[cfg(not(target_env = "gnu"))]
    {
        String::from(if cfg!(target_env = "musl") { "musl" } else { "other" })
    }
}

/// A number that no other caller is likely to get.
///
/// # Errors
/// Those of getrandom.
pub fn random_number() -> io::Result<u64> {
    let mut bytes = [0u8; 8];
    // SAFETY: the buffer is valid for its length.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if usize::try_from(got).is_ok_and(|got| got == bytes.len()) {
        Ok(u64::from_ne_bytes(bytes))
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The begin or the end of a stretch of code in which a test kills this process after a chosen instruction: a system call that
/// does nothing, for the tracer to see.
pub fn mark_stretch(begin: bool) {
    let mark: libc::c_int = if begin { 0x5354_4b31 } else { 0x5354_4b32 };
    // SAFETY: no such operation exists: the kernel refuses it and touches nothing.
    unsafe { libc::prctl(mark, 0, 0, 0, 0) };
}

#[cfg(test)]
#[cfg(not(miri))] // Files, forks and mappings.
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, Mode, OFlags, ftruncate, memfd_create, open};
    use std::os::fd::OwnedFd;
    use std::sync::{Mutex, PoisonError};

    /// A child has copies of this process's descriptors until it starts a program or ends, and a description lives as long as
    /// any copy: tests that make a child and tests that wait for a description's end take turns.
    static CHILDREN: Mutex<()> = Mutex::new(());

    fn file() -> OwnedFd {
        let file = memfd_create("shared", MemfdFlags::CLOEXEC).expect("a memfd");
        ftruncate(&file, 4096).expect("a page");
        file
    }

    fn own_description(file: &OwnedFd) -> OwnedFd {
        open(format!("/proc/self/fd/{}", file.as_raw_fd()), OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
            .expect("the memfd again")
    }

    #[test]
    fn two_mappings_of_a_file_see_each_other() {
        let file = file();
        let one = Mapping::shared(file.as_fd(), 4096).expect("a mapping");
        let two = Mapping::shared(file.as_fd(), 4096).expect("a mapping");
        // SAFETY: both are a page long, and this thread alone touches them.
        unsafe { *one.as_ptr().add(17) = 5 };
        // SAFETY: as above.
        assert_eq!(unsafe { *two.as_ptr().add(17) }, 5);
    }

    #[test]
    fn a_mapping_is_as_long_as_asked_for_and_goes_with_its_owner() {
        let file = memfd_create("goes_with_its_owner", MemfdFlags::CLOEXEC).expect("a memfd");
        ftruncate(&file, 8192).expect("two pages");
        let is_mapped = || std::fs::read_to_string("/proc/self/maps").expect("/proc").contains("goes_with_its_owner");
        let mapping = Mapping::shared(file.as_fd(), 8192).expect("a mapping");
        assert_eq!(mapping.len(), 8192);
        assert!(!mapping.as_ptr().is_null());
        assert!(is_mapped());
        drop(mapping);
        assert!(!is_mapped());
    }

    #[test]
    fn a_lock_on_a_descriptor_that_can_do_nothing_is_an_error() {
        let place = open("/dev/null", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).expect("/dev/null");
        let errno = |error: io::Error| error.raw_os_error();
        assert_eq!(lock_byte(&place, 3).map_err(errno), Err(Some(libc::EBADF)));
        assert_eq!(unlock_byte(&place, 3).map_err(errno), Err(Some(libc::EBADF)));
        assert_eq!(byte_is_locked(&place, 3).map_err(errno), Err(Some(libc::EBADF)));
    }

    #[test]
    fn a_byte_lock_ends_with_its_description() {
        let _turn = CHILDREN.lock().unwrap_or_else(PoisonError::into_inner);
        let file = file();
        let (one, two) = (own_description(&file), own_description(&file));
        assert!(lock_byte(&one, 3).expect("fcntl"));
        assert!(byte_is_locked(&two, 3).expect("fcntl"));
        assert!(!byte_is_locked(&two, 4).expect("fcntl"));
        assert!(!lock_byte(&two, 3).expect("fcntl"));
        drop(one);
        assert!(!byte_is_locked(&two, 3).expect("fcntl"));
        assert!(lock_byte(&two, 3).expect("fcntl"));
        unlock_byte(&two, 3).expect("fcntl");
        assert!(lock_byte(own_description(&file), 3).expect("fcntl"));
    }

    #[test]
    fn a_process_that_ended_does_not_run_even_before_it_is_waited_for() {
        let _turn = CHILDREN.lock().unwrap_or_else(PoisonError::into_inner);
        let mut child = std::process::Command::new("sleep").arg("100").spawn().expect("sleep");
        assert!(process_runs(child.id()));
        assert!(process_runs(std::process::id()));
        child.kill().expect("kill");
        // WNOWAIT: returns once it has ended, and leaves it a zombie.
        let pid = rustix::process::Pid::from_child(&child);
        let options = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        rustix::process::waitid(rustix::process::WaitId::Pid(pid), options).expect("waitid");
        assert!(!process_runs(child.id()));
        child.wait().expect("wait");
        assert!(!process_runs(0));
        // Above every number that the kernel gives out.
        assert!(!process_runs(i32::MAX.cast_unsigned()));
    }

    #[test]
    fn a_fork_wipes_the_mark() {
        let _turn = CHILDREN.lock().unwrap_or_else(PoisonError::into_inner);
        let mark = ForkMark::new().expect("a page");
        assert!(mark.is_ours());
        // SAFETY: the child makes one load and leaves without running anything of this process.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: `_exit` runs no handlers.
            unsafe { libc::_exit(i32::from(mark.is_ours())) };
        }
        let mut status = 0;
        // SAFETY: waits for the child made above; `status` is valid.
        unsafe { libc::waitpid(pid, &raw mut status, 0) };
        assert_eq!(status, 0, "the child saw the mark");
        assert!(mark.is_ours());
    }

    /// Bytes of this process that a fork wipes.
    fn wiped_by_a_fork() -> usize {
        let maps = std::fs::read_to_string("/proc/self/smaps").expect("/proc");
        let mut size = 0;
        let mut sum = 0;
        for line in maps.lines() {
            if let Some(rest) = line.strip_prefix("Size:") {
                size = rest.trim().strip_suffix(" kB").and_then(|count| count.parse().ok()).expect("a size");
            } else if line.strip_prefix("VmFlags:").is_some_and(|flags| flags.split(' ').any(|flag| flag == "wf")) {
                sum += size << 10;
            }
        }
        sum
    }

    #[test]
    fn a_mark_takes_one_page_and_gives_it_back() {
        let _turn = CHILDREN.lock().unwrap_or_else(PoisonError::into_inner);
        let before = wiped_by_a_fork();
        let mark = ForkMark::new().expect("a page");
        assert_eq!(wiped_by_a_fork(), before + rustix::param::page_size());
        drop(mark);
        assert_eq!(wiped_by_a_fork(), before);
    }

    /// Whether a thread of this process sleeps in a system call.
    fn sleeps_in(thread: i32, call: libc::c_long) -> bool {
        let told = std::fs::read_to_string(format!("/proc/self/task/{thread}/syscall")).unwrap_or_default();
        told.split(' ').next() == Some(&call.to_string())
    }

    #[test]
    fn a_futex_wait_lasts_until_it_is_woken() {
        use std::sync::atomic::AtomicI32;
        if !std::path::Path::new("/proc/self/syscall").exists() {
            eprintln!("skipped: the kernel does not tell what a thread waits for");
            return;
        }
        for scope in [Scope::Threads, Scope::Processes] {
            let (word, thread, waits) = (AtomicU32::new(0), AtomicI32::new(0), AtomicU32::new(0));
            std::thread::scope(|threads| {
                threads.spawn(|| {
                    thread.store(rustix::thread::gettid().as_raw_nonzero().get(), Ordering::SeqCst);
                    // It may return for no reason, but not always.
                    while word.load(Ordering::SeqCst) == 0 && waits.fetch_add(1, Ordering::SeqCst) < 1000 {
                        futex_wait(&word, 0, None, scope);
                    }
                });
                while !sleeps_in(thread.load(Ordering::SeqCst), libc::SYS_futex) {
                    assert!(waits.load(Ordering::SeqCst) < 1000, "{scope:?}: it never sleeps");
                    std::thread::yield_now();
                }
                word.store(1, Ordering::SeqCst);
                futex_wake(&word, scope);
            });
        }
    }

    #[test]
    fn the_library_is_named_and_numbers_do_not_repeat() {
        #[cfg(target_env = "gnu")]
        assert!(c_library().starts_with("glibc 2."), "{}", c_library());
        assert_ne!(random_number().expect("getrandom"), random_number().expect("getrandom"));
    }

    #[test]
    fn a_futex_wait_returns_when_the_word_has_another_value_and_when_the_time_is_over() {
        let word = AtomicU32::new(1);
        futex_wait(&word, 0, None, Scope::Threads);
        futex_wait(&word, 1, Some(Duration::from_millis(1)), Scope::Processes);
        futex_wake(&word, Scope::Processes);
    }
}
