//! Entering the program before Rust's runtime has changed what the process inherited, and leaving it.
//!
//! The runtime opens /dev/null on closed descriptors 0 to 2, ignores SIGPIPE, and ends by SIGABRT where it cannot ask about
//! the three. All that hides what the caller did: a dd with a closed standard output must fail, and one whose reader leaves
//! dies of SIGPIPE unless the parent ignored it. So the C library calls us, not the runtime; nothing that we use needs it.

use std::ffi::{CStr, OsString, c_char, c_int};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::panic::UnwindSafe;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Bit n: descriptor n was closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Makes `program`, a `fn(Vec<OsString>) -> u8`, the entry of a binary that says `#![no_main]`.
#[macro_export]
macro_rules! main {
    ($program:path) => {
        // SAFETY: the one symbol of this name; the C library calls it once with what `enter` asks for.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn main(
            argc: ::std::ffi::c_int,
            argv: *const *const ::std::ffi::c_char,
        ) -> ::std::ffi::c_int {
            // SAFETY: as the C library passes them: `argc` valid strings.
            unsafe { $crate::start::enter(argc, argv, $program) }
        }
    };
}

/// Notes what was inherited, then runs `program` with the arguments; its result is the exit status, and that of a panic, which
/// has been printed, is 1: a defect must not look like work that went well.
///
/// # Safety
/// `argv` points at `argc` pointers to C strings. To be called once, by the C library.
#[doc(hidden)]
pub unsafe fn enter(
    argc: c_int,
    argv: *const *const c_char,
    program: impl FnOnce(Vec<OsString>) -> u8 + UnwindSafe,
) -> c_int {
    take_closed();
    let count = usize::try_from(argc).unwrap_or(0);
    let args = (0..count)
        .map(|index| {
            // SAFETY: the caller promises `argc` pointers to C strings.
            let arg = unsafe { CStr::from_ptr(*argv.add(index)) };
            OsString::from_vec(arg.to_bytes().to_vec())
        })
        .collect();
    std::panic::catch_unwind(move || program(args)).map_or(1, c_int::from)
}

/// A descriptor that was closed is taken by something that can be neither read nor written (EBADF), so that no file opened
/// later gets its number.
fn take_closed() {
    for fd in 0..3 {
        // SAFETY: F_GETFD takes any number and changes nothing.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1 {
            CLOSED.fetch_or(1 << fd, Relaxed);
            // SAFETY: a valid path; the lowest free number is `fd`, since those below are open by now.
            unsafe { libc::open(c"/".as_ptr(), libc::O_PATH | libc::O_CLOEXEC) };
        }
    }
}

/// Whether descriptor `fd` (0, 1 or 2) was closed when the process began.
pub fn was_closed(fd: RawFd) -> bool {
    (0..3).contains(&fd) && CLOSED.load(Relaxed) & (1 << fd) != 0
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
        // What stood in for it is nothing that the caller ever had.
        return Err(rustix::io::Errno::BADF);
    }
    if rc == 0 {
        return Ok(());
    }
    let errno = rustix::io::Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(rustix::io::Errno::IO);
    // Linux has closed it whatever it says; EINTR means no more than that.
    if errno == rustix::io::Errno::INTR { Ok(()) } else { Err(errno) }
}
