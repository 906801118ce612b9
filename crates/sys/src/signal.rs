//! Signals as numbers in memory: handlers that only count, and what is asked of the kernel around them.
//!
//! State is the process's, since signals are. A library that runs inside another program leaves this module alone; the
//! program that owns the process installs what it wants.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Something is to be looked at: a report, a tick or an end. The one load on the fast path.
static ATTENTION: AtomicBool = AtomicBool::new(false);
/// Reports asked for and not yet taken.
static REPORTS: AtomicU32 = AtomicU32::new(0);
/// The first signal that asked for an end, or 0.
static STOP: AtomicI32 = AtomicI32::new(0);
/// Bit n: signal n has asked for an end. No such signal is above 63.
static STOPS: AtomicU64 = AtomicU64::new(0);
/// A `fn()` that is run before a signal ends the process, or null.
static LAST: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
/// The timer has fired since it was last asked.
static TICK: AtomicBool = AtomicBool::new(false);
/// How often any handler here has run.
static HANDLED: AtomicU32 = AtomicU32::new(0);
/// The process's timer (`timer_t` is a pointer in both C libraries), or the value that no timer has.
static TIMER: AtomicPtr<libc::c_void> = AtomicPtr::new(NO_TIMER);
/// Period of the timer in milliseconds while it keeps time, 0 while it only wakes.
static PERIOD_MS: AtomicU32 = AtomicU32::new(0);

// The kernel numbers timers from 0, so neither 0 nor any small integer can stand for "none".
const NO_TIMER: *mut libc::c_void = usize::MAX as *mut libc::c_void;

/// A wait between noticing nothing and the blocking call is a window in which a signal goes unseen. After each signal the
/// timer fires again and again at this distance until the signal has been looked at, and so cuts that call short.
const WAKE: Duration = Duration::from_millis(20);

extern "C" fn on_report(_: libc::c_int) {
    REPORTS.fetch_add(1, Relaxed);
    noticed();
    arm_wake();
}

extern "C" fn on_stop(signal: libc::c_int) {
    // The same one again does not wait. SA_RESETHAND would do it too, but with no word before.
    let bit = 1_u64 << (signal & 63);
    if STOPS.fetch_or(bit, Relaxed) & bit != 0 {
        on_death(signal);
    }
    // The first one names the death.
    let _ = STOP.compare_exchange(0, signal, Relaxed, Relaxed);
    noticed();
    arm_wake();
}

extern "C" fn on_tick(_: libc::c_int) {
    TICK.store(true, Relaxed);
    noticed();
}

/// Does what is left to do, and lets the signal end the process as it would have without us.
extern "C" fn on_death(signal: libc::c_int) {
    let last = LAST.load(Relaxed);
    if !last.is_null() {
        // SAFETY: only `before_death` stores here, a `fn()`.
        let last: fn() = unsafe { std::mem::transmute::<*mut (), fn()>(last) };
        last();
    }
    die_by(signal);
}

/// Says that there is something to look at; what, the one who sent it knows.
extern "C" fn on_nudge(_: libc::c_int) {
    noticed();
}

fn noticed() {
    HANDLED.fetch_add(1, Relaxed);
    ATTENTION.store(true, Relaxed);
}

/// What a caught signal does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Count one report. Caught even when the parent ignored it.
    Report,
    /// Ask for the end; the next such signal is the end. Left alone when the parent ignored it.
    Stop,
}

/// SIGUSR1, on which GNU dd reports.
pub const USR1: i32 = libc::SIGUSR1;
/// SIGINT.
pub const INT: i32 = libc::SIGINT;
/// SIGTERM.
pub const TERM: i32 = libc::SIGTERM;
/// SIGHUP.
pub const HUP: i32 = libc::SIGHUP;

/// Installs a handler for `signal`, without SA_RESTART, so that a blocked call comes back. Tells whether it is now caught.
pub fn catch(signal: i32, action: Action) -> bool {
    let (handler, flags): (extern "C" fn(libc::c_int), _) = match action {
        Action::Report => (on_report, 0),
        Action::Stop => (on_stop, libc::SA_NODEFER),
    };
    if action == Action::Stop && is_ignored(signal) {
        return false;
    }
    let caught = set_handler(signal, handler as libc::sighandler_t, flags);
    if caught {
        unblock(signal);
    }
    caught
}

/// Whether `signal` is ignored now.
pub fn is_ignored(signal: i32) -> bool {
    disposition(signal) == Some(libc::SIG_IGN)
}

fn disposition(signal: i32) -> Option<libc::sighandler_t> {
    let mut now = empty_action();
    // SAFETY: a null new action only queries; `now` outlives the call.
    let rc = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut now) };
    (rc == 0).then_some(now.sa_sigaction)
}

/// Has `last` run before any signal ends the process: those whose default action that is now, and a second [`Action::Stop`]. What
/// is ignored or caught stays so. `last` may be run on any thread and anywhere in its work: nothing but what is async-signal-safe.
/// SIGKILL, and a stack that has no room for a handler, are beyond it.
pub(crate) fn before_death(last: fn()) {
    /// Those whose default action is not death, or cannot be changed.
    const HARMLESS: [libc::c_int; 9] = [
        libc::SIGKILL,
        libc::SIGSTOP,
        libc::SIGTSTP,
        libc::SIGTTIN,
        libc::SIGTTOU,
        libc::SIGCONT,
        libc::SIGCHLD,
        libc::SIGURG,
        libc::SIGWINCH,
    ];
    LAST.store(last as *mut (), Relaxed);
    let fatal = (1..=libc::SIGRTMAX()).filter(|signal| !HARMLESS.contains(signal));
    for signal in fatal.filter(|&signal| disposition(signal) == Some(libc::SIG_DFL)) {
        set_handler(signal, on_death as extern "C" fn(libc::c_int) as libc::sighandler_t, 0);
    }
}

/// Gives `signal` its default action.
pub fn set_default(signal: i32) {
    set_handler(signal, libc::SIG_DFL, 0);
}

/// One load: has anything happened that somebody should look at?
#[inline]
pub fn attention() -> bool {
    ATTENTION.load(Relaxed)
}

/// How often a handler of this module has run; differs before and after a call that one of them cut short.
#[inline]
pub fn handled() -> u32 {
    HANDLED.load(Relaxed)
}

/// What has come up since the last call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// How many reports were asked for.
    pub reports: u32,
    /// The timer fired.
    pub tick: bool,
    /// The signal that asked for the end. Stays.
    pub stop: Option<i32>,
}

/// Takes what has come up. Reports and ticks are taken once; a stop stays.
pub fn take() -> News {
    // Cleared first: whatever comes in later raises it again.
    ATTENTION.store(false, Relaxed);
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    let stop = STOP.load(Relaxed);
    News { reports: REPORTS.swap(0, Relaxed), tick: TICK.swap(false, Relaxed), stop: (stop != 0).then_some(stop) }
}

/// Starts the timer of the process: a tick each `period`, delivered to the calling thread only. A zero period makes a timer
/// that is quiet until a signal needs it as a waker.
///
/// # Errors
/// What `timer_create` or `timer_settime` says; without a timer there are no ticks and the rest works.
pub fn start_timer(period: Duration) -> Result<(), rustix::io::Errno> {
    let signal = tick_signal();
    if !set_handler(signal, on_tick as extern "C" fn(libc::c_int) as libc::sighandler_t, 0) {
        return Err(last_errno());
    }
    unblock(signal);
    // SAFETY: an all-zero sigevent is a valid value of this plain C struct.
    let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
    event.sigev_notify = libc::SIGEV_THREAD_ID;
    event.sigev_signo = signal;
    event.sigev_notify_thread_id = rustix::thread::gettid().as_raw_nonzero().get();
    let mut timer: libc::timer_t = NO_TIMER;
    // SAFETY: `event` and `timer` are valid for the call.
    if unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) } != 0 {
        return Err(last_errno());
    }
    TIMER.store(timer, Relaxed);
    PERIOD_MS.store(u32::try_from(period.as_millis()).unwrap_or(u32::MAX), Relaxed);
    rest(period);
    Ok(())
}

/// The signal has been looked at: the timer fires next after `first` and then keeps its period; zero is silence.
pub fn rest(first: Duration) {
    set_timer(first, Duration::from_millis(PERIOD_MS.load(Relaxed).into()));
}

/// Makes [`nudge`] cut short the blocked calls of threads that leave its signal unblocked; the caller becomes one of them. Tells
/// whether that could be arranged.
pub fn catch_nudges() -> bool {
    let caught = set_handler(nudge_signal(), on_nudge as extern "C" fn(libc::c_int) as libc::sighandler_t, 0);
    if caught {
        unblock(nudge_signal());
    }
    caught
}

/// Cuts short the call in which `thread` of this process is blocked: it comes back with EINTR, and [`attention`] is raised. A
/// nudge that arrives just before the call is lost, so whoever must be heard nudges again. Without [`catch_nudges`] it is the
/// end of the process.
pub fn nudge(thread: rustix::thread::Pid) {
    let process = rustix::process::getpid().as_raw_nonzero().get();
    // SAFETY: tgkill touches no memory; a thread that is gone is ESRCH.
    unsafe { libc::syscall(libc::SYS_tgkill, process, thread.as_raw_nonzero().get(), nudge_signal()) };
}

/// Ends the process by `signal` with its default action, so that the parent sees which. Returns only if that cannot be.
pub fn die_by(signal: i32) {
    set_default(signal);
    unblock(signal);
    // SAFETY: raise has no preconditions.
    unsafe { libc::raise(signal) };
}

/// Blocks every signal for the calling thread, so that the process's signals reach others.
pub fn block_all() {
    // SAFETY: `set` is initialised by sigfillset before it is read.
    unsafe {
        let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigfillset(set.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, set.as_ptr(), std::ptr::null_mut());
    }
}

fn arm_wake() {
    set_timer(WAKE, WAKE);
}

/// Async-signal-safe: one load and one system call.
fn set_timer(first: Duration, every: Duration) {
    let timer = TIMER.load(Relaxed);
    if timer == NO_TIMER {
        return;
    }
    let spec = libc::itimerspec { it_interval: timespec(every), it_value: timespec(first) };
    // SAFETY: the timer was created by `start_timer` and is never deleted; `spec` is valid for the call.
    unsafe { libc::timer_settime(timer, 0, &raw const spec, std::ptr::null_mut()) };
}

fn timespec(duration: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: duration.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

/// A real-time signal from the far end, where neither C library nor shells look.
fn tick_signal() -> libc::c_int {
    libc::SIGRTMAX() - 1
}

/// The next one from the far end.
pub(crate) fn nudge_signal() -> libc::c_int {
    libc::SIGRTMAX() - 2
}

fn unblock(signal: i32) {
    // SAFETY: `set` is initialised by sigemptyset before it is read; a bad signal number only makes sigaddset fail.
    unsafe {
        let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), std::ptr::null_mut());
    }
}

fn set_handler(signal: i32, handler: libc::sighandler_t, flags: libc::c_int) -> bool {
    let mut action = empty_action();
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    // SAFETY: `action` is a valid sigaction whose handler only touches atomics and makes async-signal-safe calls.
    unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) == 0 }
}

fn empty_action() -> libc::sigaction {
    // SAFETY: all-zero is a valid sigaction: default action, empty mask, no flags.
    unsafe { std::mem::zeroed() }
}

fn last_errno() -> rustix::io::Errno {
    rustix::io::Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(rustix::io::Errno::INVAL)
}

#[cfg(test)]
#[cfg(not(miri))] // Processes.
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Command, ExitStatus, Stdio};

    use super::*;

    /// Runs one test of this module in a process of its own, which is told so.
    fn alone(test: &str, signals: &str) -> ExitStatus {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", &format!("signal::tests::{test}"), "--test-threads=1"]).env(ALONE, signals);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().expect("the program runs")
    }

    const ALONE: &str = "FDD_SIGNALS_OF_A_TEST";
    const SURVIVED: i32 = 77;

    #[test]
    fn a_stop_that_nobody_has_looked_at_is_the_end_when_it_comes_again() {
        if let Ok(signals) = std::env::var(ALONE) {
            for signal in signals.split(' ').map(|number| number.parse().expect("a number")) {
                // Whoever runs the tests may have had it ignored.
                set_default(signal);
                assert!(catch(signal, Action::Stop));
                // SAFETY: raise has no preconditions; the handler runs before it returns.
                unsafe { libc::raise(signal) };
                assert!(attention());
            }
            let first = signals.split(' ').next().expect("one signal").parse().ok();
            assert_eq!((take().stop, handled()), (first, u32::try_from(signals.split(' ').count()).expect("few")));
            std::process::exit(SURVIVED);
        }
        let end = |signals: &str| alone("a_stop_that_nobody_has_looked_at_is_the_end_when_it_comes_again", signals);
        assert_eq!(end(&format!("{INT}")).code(), Some(SURVIVED));
        // Each of another kind only asks.
        assert_eq!(end(&format!("{INT} {TERM} {HUP}")).code(), Some(SURVIVED));
        assert_eq!(end(&format!("{INT} {INT}")).signal(), Some(INT));
        assert_eq!(end(&format!("{INT} {TERM} {TERM}")).signal(), Some(TERM));
        assert_eq!(end(&format!("{TERM} {HUP} {INT} {HUP}")).signal(), Some(HUP));
    }
}
