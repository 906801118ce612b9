//! Threads that leave the process's signals to others.

use std::io;
use std::thread::{Builder, JoinHandle};

/// Starts a thread in which every signal is blocked, so that a signal meant to interrupt the caller's blocked call cannot
/// land here instead.
///
/// # Errors
/// What the system says where no thread can be had; nothing has been started then.
pub fn spawn_quiet<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    // Blocked before the thread exists: one blocked only inside it leaves a moment in which it takes a signal.
    let before = block_all_saving();
    let started = Builder::new().name(name.to_owned()).spawn(work);
    restore(&before);
    started
}

fn block_all_saving() -> libc::sigset_t {
    // SAFETY: both sets are written by the calls before they are read; an all-zero sigset is valid.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        before
    }
}

fn restore(mask: &libc::sigset_t) {
    // SAFETY: `mask` came from pthread_sigmask.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, std::ptr::from_ref(mask), std::ptr::null_mut()) };
}

#[cfg(test)]
#[cfg(not(miri))] // Miri does not model signal masks.
mod tests {
    use super::*;

    fn blocks_usr1() -> bool {
        // SAFETY: a null new set only queries; `now` is written before it is read.
        unsafe {
            let mut now: libc::sigset_t = std::mem::zeroed();
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut now);
            libc::sigismember(&raw const now, libc::SIGUSR1) == 1
        }
    }

    #[test]
    fn the_new_thread_blocks_signals_and_the_caller_does_not() {
        let before = blocks_usr1();
        let inside = spawn_quiet("quiet", blocks_usr1).expect("a thread").join().expect("no panic");
        assert!(inside);
        assert_eq!(blocks_usr1(), before);
    }
}
