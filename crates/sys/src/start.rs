//! What the process inherited, noted before Rust's runtime changes it.
//!
//! The runtime opens /dev/null on closed descriptors 0 to 2 and ignores SIGPIPE. Both hide what the caller did: a dd with a
//! closed standard output must fail, and one whose reader leaves dies of SIGPIPE unless the parent ignored it.

use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Bit n: descriptor n was closed. Bit 7: SIGPIPE was ignored.
static NOTED: AtomicU8 = AtomicU8::new(0);
const SIGPIPE_IGNORED: u8 = 1 << 7;

extern "C" fn note() {
    let mut noted = 0;
    for fd in 0..3 {
        // SAFETY: F_GETFD takes any number and changes nothing.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1 {
            noted |= 1 << fd;
        }
    }
    if crate::signal::is_ignored(libc::SIGPIPE) {
        noted |= SIGPIPE_IGNORED;
    }
    NOTED.store(noted, Relaxed);
}

// SAFETY: the loader calls each entry of .init_array once before main with the C calling convention; `note` needs nothing
// that is set up later, allocates nothing and cannot panic.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = note;

/// Whether descriptor `fd` (0, 1 or 2) was closed when the process began.
pub fn was_closed(fd: RawFd) -> bool {
    (0..3).contains(&fd) && NOTED.load(Relaxed) & (1 << fd) != 0
}

/// Puts things back as they were inherited, as far as a program can want it: SIGPIPE has its inherited action, and a
/// descriptor that was closed is taken by something that can be neither read nor written (EBADF), so that no file opened
/// later gets its number.
pub fn restore_inherited() {
    if NOTED.load(Relaxed) & SIGPIPE_IGNORED == 0 {
        crate::signal::set_default(libc::SIGPIPE);
    }
    for fd in (0..3).filter(|&fd| was_closed(fd)) {
        let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC;
        let Ok(plug) = rustix::fs::open("/", flags, rustix::fs::Mode::empty()) else { continue };
        // SAFETY: the number is one of 0 to 2, held only by what the runtime opened there; nothing in Rust owns it.
        unsafe { libc::dup2(std::os::fd::AsRawFd::as_raw_fd(&plug), fd) };
    }
}

/// Takes ownership of descriptor 0, 1 or 2, so that it can be closed and the outcome seen. To be called once for each.
pub fn take_standard(fd: RawFd) -> OwnedFd {
    assert!((0..3).contains(&fd), "only the three standard descriptors can be taken");
    // SAFETY: standard descriptors are not owned by any Rust value; the caller takes each once.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Closes `fd` and tells what the kernel said, which `drop` would not. The descriptor is gone in any case.
///
/// # Errors
/// What `close` reports: write-back errors on network file systems and full quotas come here.
pub fn close(fd: OwnedFd) -> Result<(), rustix::io::Errno> {
    use std::os::fd::IntoRawFd;
    let raw = fd.into_raw_fd();
    // SAFETY: `raw` was owned and is given up here; it is not used again.
    let rc = unsafe { libc::close(raw) };
    if was_closed(raw) {
        // What stood in for it since `restore_inherited` is nothing that the caller ever had.
        return Err(rustix::io::Errno::BADF);
    }
    if rc == 0 {
        return Ok(());
    }
    let errno = rustix::io::Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(rustix::io::Errno::IO);
    // Linux has closed it whatever it says; EINTR means no more than that.
    if errno == rustix::io::Errno::INTR { Ok(()) } else { Err(errno) }
}
