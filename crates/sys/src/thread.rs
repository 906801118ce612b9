//! Threads that leave the process's signals to others.

use std::io;
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

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

/// Starts a thread for work that writes: as [`spawn_quiet`], but a [`nudge`](crate::signal::nudge) cuts its calls short, and the
/// signals that a write itself raises (SIGPIPE, SIGXFSZ) meet it as they would have met the caller.
///
/// # Errors
/// What the system says where no thread can be had; nothing has been started then.
pub fn spawn_writing<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    let before = block_all_saving();
    allow(&before, &[libc::SIGPIPE, libc::SIGXFSZ]);
    let started = Builder::new().name(name.to_owned()).spawn_scoped(scope, work);
    restore(&before);
    started
}

/// Unblocks nudges, and those of `signals` that `before` does not block.
fn allow(before: &libc::sigset_t, signals: &[libc::c_int]) {
    // SAFETY: `set` is emptied before it is read; `before` is a signal set.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, crate::signal::nudge_signal());
        for &signal in signals {
            if libc::sigismember(std::ptr::from_ref(before), signal) == 0 {
                libc::sigaddset(&raw mut set, signal);
            }
        }
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
    }
}

/// Blocks every signal for the calling thread and tells which were blocked before.
pub(crate) fn block_all_saving() -> libc::sigset_t {
    // SAFETY: both sets are written by the calls before they are read; an all-zero sigset is valid.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        before
    }
}

/// Blocks again what [`block_all_saving`] found blocked, and nothing else.
pub(crate) fn restore(mask: &libc::sigset_t) {
    // SAFETY: `mask` came from pthread_sigmask.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, std::ptr::from_ref(mask), std::ptr::null_mut()) };
}

#[cfg(test)]
#[cfg(not(miri))] // Miri does not model signal masks.
mod tests {
    use super::*;

    fn blocks_usr1() -> bool {
        blocks(libc::SIGUSR1)
    }

    fn blocks(signal: libc::c_int) -> bool {
        // SAFETY: a null new set only queries; `now` is written before it is read.
        unsafe {
            let mut now: libc::sigset_t = std::mem::zeroed();
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut now);
            libc::sigismember(&raw const now, signal) == 1
        }
    }

    #[test]
    fn the_new_thread_blocks_signals_and_the_caller_does_not() {
        let before = blocks_usr1();
        let inside = spawn_quiet("quiet", blocks_usr1).expect("a thread").join().expect("no panic");
        assert!(inside);
        assert_eq!(blocks_usr1(), before);
    }

    #[test]
    fn a_writing_thread_hears_what_a_write_raises_and_nothing_else_of_the_process() {
        let before = blocks_usr1();
        let inside = std::thread::scope(|scope| {
            let work = || [libc::SIGPIPE, libc::SIGXFSZ, libc::SIGUSR1, libc::SIGTERM].map(blocks);
            spawn_writing(scope, "writing", work).expect("a thread").join().expect("no panic")
        });
        assert_eq!(inside, [blocks(libc::SIGPIPE), blocks(libc::SIGXFSZ), true, true]);
        assert_eq!(blocks_usr1(), before);
    }

    #[test]
    fn a_nudge_cuts_a_blocked_call_short() {
        assert!(crate::signal::catch_nudges());
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let work = move || {
                tell.send(rustix::thread::gettid()).expect("somebody listens");
                rustix::io::read(&reader, &mut [0_u8; 1])
            };
            let thread = spawn_writing(scope, "writing", work).expect("a thread");
            let tid = told.recv().expect("its number");
            // One that comes before the call is lost.
            while !thread.is_finished() {
                crate::signal::nudge(tid);
                std::thread::yield_now();
            }
            assert_eq!(thread.join().expect("no panic"), Err(rustix::io::Errno::INTR));
        });
        drop(writer);
    }
}
