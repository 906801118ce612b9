//! Two ways to learn that a period has passed without asking the clock at every step of a loop.
//!
//! [`Alarm`] has a thread that sleeps and raises a flag; the loop reads the flag with one load. [`Ticker`] has no thread:
//! it asks a cheap clock every few calls, and at every call when the calls are far apart.
//!
//! Which one? A second thread makes every system call that looks up a descriptor slower, because the descriptor table is
//! then shared: a loop of 512-byte reads and writes pays a tenth to a fifth for it, and the ticker next to nothing. The
//! alarm is for a process that has threads anyway, and for a loop whose steps may be long computations in between. Neither
//! rings while the loop is stuck in one call: both are asked, they do not interrupt.
//!
//! `cargo run --release -p fdd-io --example alarm_bench` measures both.
//!
//! ```
//! use fdd_io::alarm::Ticker;
//! use std::time::Duration;
//!
//! let mut second = Ticker::every(Duration::from_secs(1)).expect("a second is not zero");
//! for _block in 0..1000 {
//!     // ... move a block ...
//!     if second.rang() {
//!         eprintln!("still going");
//!     }
//! }
//! ```

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// A flag that a thread raises once a period.
///
/// The thread blocks every signal, so that signals still reach the threads that have work, and it ends when the alarm is
/// dropped, without waiting for the period to pass.
pub struct Alarm {
    flag: Arc<Flag>,
    clock: Arc<dyn Clock>,
    thread: Option<JoinHandle<()>>,
}

/// A cache line of its own: the loop that reads the flag shares it with nobody who writes.
#[repr(align(128))]
struct Flag(AtomicBool);

impl Alarm {
    /// Starts an alarm that rings every `period`, first after one period.
    ///
    /// Rings are on a grid of whole periods from now. They do not pile up: whoever was busy for five periods hears one ring.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidInput`] when `period` is zero, and the system's error when no thread can be started; a
    /// [`Ticker`] needs none.
    pub fn every(period: Duration) -> io::Result<Alarm> {
        Alarm::start(Arc::new(SystemClock::new()), period, |toll| fdd_sys::thread::spawn_quiet("alarm", toll))
    }

    fn start<C: Clock>(
        clock: Arc<C>,
        period: Duration,
        spawn: impl FnOnce(Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>>,
    ) -> io::Result<Alarm> {
        refuse_zero(period)?;
        let flag = Arc::new(Flag(AtomicBool::new(false)));
        let first = clock.now().checked_add(period);
        let toll = {
            let (flag, clock) = (Arc::clone(&flag), Arc::clone(&clock));
            Box::new(move || toll(&flag, &*clock, first, period))
        };
        let thread = Some(spawn(toll)?);
        Ok(Alarm { flag, clock, thread })
    }

    /// Whether the alarm rang since the last call that said so. While it is quiet this is one relaxed load.
    ///
    /// Of several threads that ask, one is told of each ring.
    #[inline]
    #[must_use = "a ring is told once"]
    pub fn rang(&self) -> bool {
        self.flag.0.load(Ordering::Relaxed) && self.flag.0.swap(false, Ordering::Relaxed)
    }
}

/// The thread: sleep to the next deadline, raise the flag, until told to stop.
fn toll(flag: &Flag, clock: &dyn Clock, first: Option<Duration>, period: Duration) {
    let mut deadline = first;
    while clock.sleep_until(deadline) {
        flag.0.store(true, Ordering::Relaxed);
        deadline = deadline.and_then(|rung| next_deadline(rung, clock.now(), period));
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.clock.stop();
        if let Some(thread) = self.thread.take() {
            // A panic in that thread can only come from its clock and has been printed; a drop must not add a second one.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alarm").field("ringing", &self.flag.0.load(Ordering::Relaxed)).finish_non_exhaustive()
    }
}

/// The same without a thread: looks at the clock every few calls.
///
/// While calls follow each other quickly the clock is read at every 16th, and as soon as one look finds that time went by
/// faster, at every call. So a ring is heard at most 16 calls late, and that only when calls turn slow from one to the
/// next; a caller that knows its last step was slow uses [`Ticker::look`].
///
/// The clock is the coarse monotonic one, which costs a few nanoseconds and advances in steps of 1 to 10 ms.
#[derive(Clone)]
pub struct Ticker {
    /// Calls that remain before the clock is read. Never zero between calls.
    left: u32,
    /// Calls from one look to the next.
    stride: u32,
    looked: Duration,
    /// `None` when the next ring lies beyond what the clock can say.
    next: Option<Duration>,
    period: Duration,
    clock: fn() -> Duration,
}

impl Ticker {
    const LONGEST_STRIDE: u32 = 16;

    /// Makes a ticker that rings every `period`, first after one period, on a grid of whole periods from now.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidInput`] when `period` is zero.
    pub fn every(period: Duration) -> io::Result<Ticker> {
        Ticker::with_clock(period, coarse_now)
    }

    fn with_clock(period: Duration, clock: fn() -> Duration) -> io::Result<Ticker> {
        refuse_zero(period)?;
        let looked = clock();
        Ok(Ticker { left: 1, stride: 1, looked, next: looked.checked_add(period), period, clock })
    }

    /// Whether a period has passed since the last ring. Most calls only count.
    #[inline]
    #[must_use = "a ring is told once"]
    pub fn rang(&mut self) -> bool {
        self.left -= 1;
        self.left == 0 && self.look()
    }

    /// As [`rang`](Ticker::rang), but reads the clock in any case: for use after a step that is known to have been slow.
    #[inline(never)]
    #[must_use = "a ring is told once"]
    pub fn look(&mut self) -> bool {
        let now = (self.clock)();
        let passed = now.saturating_sub(self.looked);
        self.looked = now;
        self.stride = next_stride(self.stride, passed, self.period);
        self.left = self.stride;
        match self.next {
            Some(next) if next <= now => {
                self.next = next_deadline(next, now, self.period);
                true
            }
            _ => false,
        }
    }
}

impl fmt::Debug for Ticker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticker").field("period", &self.period).field("stride", &self.stride).finish_non_exhaustive()
    }
}

fn refuse_zero(period: Duration) -> io::Result<()> {
    if period.is_zero() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the period of an alarm is zero"));
    }
    Ok(())
}

/// The first point of the grid `rung + k * period` that lies after `now`, or `None` past the end of time.
///
/// At least one period after `rung`, also where a clock stood still or went back.
fn next_deadline(rung: Duration, now: Duration, period: Duration) -> Option<Duration> {
    let missed = now.saturating_sub(rung).as_nanos() / period.as_nanos();
    let nanos = rung.as_nanos().checked_add(period.as_nanos().checked_mul(missed + 1)?)?;
    let seconds = u64::try_from(nanos / 1_000_000_000).ok()?;
    let rest = u32::try_from(nanos % 1_000_000_000).ok()?;
    Some(Duration::new(seconds, rest))
}

/// How many calls to let pass before the next look, when the last `stride` of them took `passed`.
fn next_stride(stride: u32, passed: Duration, period: Duration) -> u32 {
    if passed <= period / 256 {
        (stride * 2).min(Ticker::LONGEST_STRIDE)
    } else if passed > period / 32 {
        1
    } else {
        stride
    }
}

fn coarse_now() -> Duration {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    // The monotonic clock starts at zero at boot.
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// What the alarm's thread needs of time; a test turns the hands itself.
trait Clock: Send + Sync + 'static {
    /// Time since some fixed point.
    fn now(&self) -> Duration;
    /// Sleeps until `deadline`, without end for `None`. Returns false as soon as, or when, `stop` was called.
    fn sleep_until(&self, deadline: Option<Duration>) -> bool;
    /// Ends the present sleep and all later ones.
    fn stop(&self);
}

struct SystemClock {
    start: Instant,
    stopped: Mutex<bool>,
    woken: Condvar,
}

impl SystemClock {
    fn new() -> SystemClock {
        SystemClock { start: Instant::now(), stopped: Mutex::new(false), woken: Condvar::new() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn sleep_until(&self, deadline: Option<Duration>) -> bool {
        let mut stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        while !*stopped {
            stopped = match deadline.map(|deadline| deadline.saturating_sub(self.now())) {
                None => self.woken.wait(stopped).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => return true,
                Some(rest) => self.woken.wait_timeout(stopped, rest).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
        false
    }

    fn stop(&self) {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.woken.notify_all();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::cast_possible_truncation)] // A test may end in a panic, and its sizes are small.
mod tests {
    use super::*;
    use std::cell::Cell;

    const SECOND: Duration = Duration::from_secs(1);

    /// A clock whose hands the test turns, and that tells when the alarm's thread has gone back to sleep.
    #[derive(Default)]
    struct Hands {
        state: Mutex<HandsState>,
        changed: Condvar,
    }

    #[derive(Default)]
    struct HandsState {
        now: Duration,
        stopped: bool,
        /// The deadline of the sleep that is going on.
        sleeping_until: Option<Duration>,
    }

    impl Hands {
        fn turn_to(&self, now: Duration) {
            self.state.lock().unwrap().now = now;
            self.changed.notify_all();
        }

        /// Returns once the alarm's thread sleeps and its deadline is not due, which is when it has rung all it had to.
        fn wait_for_sleep(&self) -> Duration {
            let mut state = self.state.lock().unwrap();
            loop {
                match state.sleeping_until {
                    Some(deadline) if deadline > state.now => return deadline,
                    _ => state = self.changed.wait(state).unwrap(),
                }
            }
        }
    }

    impl Clock for Hands {
        fn now(&self) -> Duration {
            self.state.lock().unwrap().now
        }

        fn sleep_until(&self, deadline: Option<Duration>) -> bool {
            let mut state = self.state.lock().unwrap();
            while !state.stopped && deadline.is_none_or(|deadline| state.now < deadline) {
                state.sleeping_until = deadline;
                self.changed.notify_all();
                state = self.changed.wait(state).unwrap();
            }
            state.sleeping_until = None;
            !state.stopped
        }

        fn stop(&self) {
            self.state.lock().unwrap().stopped = true;
            self.changed.notify_all();
        }
    }

    fn alarm_with_hands(period: Duration) -> (Alarm, Arc<Hands>) {
        let hands = Arc::new(Hands::default());
        let alarm = Alarm::start(Arc::clone(&hands), period, |toll| Ok(std::thread::spawn(toll))).unwrap();
        (alarm, hands)
    }

    #[test]
    fn rings_after_the_first_period_and_not_before() {
        let (alarm, hands) = alarm_with_hands(SECOND);
        assert_eq!(hands.wait_for_sleep(), SECOND);
        assert!(!alarm.rang());
        hands.turn_to(SECOND - Duration::from_nanos(1));
        assert_eq!(hands.wait_for_sleep(), SECOND);
        assert!(!alarm.rang());
        hands.turn_to(SECOND);
        assert_eq!(hands.wait_for_sleep(), 2 * SECOND);
        assert!(alarm.rang());
    }

    #[test]
    fn a_ring_is_told_once() {
        let (alarm, hands) = alarm_with_hands(SECOND);
        hands.turn_to(SECOND);
        hands.wait_for_sleep();
        assert!(alarm.rang());
        assert!(!alarm.rang());
    }

    #[test]
    fn missed_periods_do_not_pile_up_and_the_grid_is_kept() {
        let (alarm, hands) = alarm_with_hands(SECOND);
        hands.wait_for_sleep();
        hands.turn_to(SECOND * 11 / 2);
        assert_eq!(hands.wait_for_sleep(), 6 * SECOND);
        assert!(alarm.rang());
        assert!(!alarm.rang());
        hands.turn_to(6 * SECOND);
        hands.wait_for_sleep();
        assert!(alarm.rang());
    }

    #[test]
    fn rings_nobody_asked_for_are_one_ring() {
        let (alarm, hands) = alarm_with_hands(SECOND);
        for second in 1..=5 {
            hands.turn_to(second * SECOND);
            hands.wait_for_sleep();
        }
        assert!(alarm.rang());
        assert!(!alarm.rang());
    }

    #[test]
    fn drop_does_not_wait_for_the_period() {
        // Were the thread not woken, the first of these drops would take a thousand years.
        for _ in 0..100 {
            drop(Alarm::every(Duration::from_secs(60 * 60 * 24 * 365_000)).unwrap());
        }
    }

    #[test]
    fn a_period_beyond_the_end_of_time_is_quiet_and_can_be_dropped() {
        let alarm = Alarm::every(Duration::MAX).unwrap();
        assert!(!alarm.rang());
        let mut ticker = Ticker::every(Duration::MAX).unwrap();
        assert!(!ticker.look());
    }

    #[test]
    fn drop_joins_the_thread() {
        let (alarm, hands) = alarm_with_hands(SECOND);
        hands.wait_for_sleep();
        drop(alarm);
        // The thread held a clone; it is gone with it.
        assert_eq!(Arc::strong_count(&hands), 1);
    }

    #[test]
    fn a_zero_period_is_refused() {
        assert_eq!(Alarm::every(Duration::ZERO).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(Ticker::every(Duration::ZERO).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn the_error_of_a_missing_thread_is_returned() {
        let none = Alarm::start(Arc::new(SystemClock::new()), SECOND, |_| Err(io::ErrorKind::WouldBlock.into()));
        assert_eq!(none.unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn the_thread_blocks_every_signal() {
        let alarm = Alarm::every(Duration::from_micros(1)).unwrap();
        // Once it rang, the thread runs and has its name.
        while !alarm.rang() {
            std::thread::yield_now();
        }
        let masks: Vec<u64> = std::fs::read_dir("/proc/self/task")
            .unwrap()
            .filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("status")).ok())
            .filter(|status| status.starts_with("Name:\talarm\n"))
            .map(|status| {
                let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
                u64::from_str_radix(mask.trim(), 16).unwrap()
            })
            .collect();
        assert!(!masks.is_empty());
        for mask in masks {
            for signal in [libc::SIGINT, libc::SIGUSR1, libc::SIGALRM, libc::SIGTERM, libc::SIGCHLD, libc::SIGWINCH] {
                assert_ne!(mask & 1 << (signal - 1), 0, "signal {signal} is open in mask {mask:016x}");
            }
        }
    }

    #[test]
    fn the_next_deadline_is_the_first_of_the_grid_after_now() {
        let ms = Duration::from_millis;
        #[rustfmt::skip]
        let rows = [
            // rung,    now,   period, next
            (   1000,  1000,  1000,  Some(2000)),
            (   1000,  1999,  1000,  Some(2000)),
            (   1000,  2000,  1000,  Some(3000)),
            (   1000,  7500,  1000,  Some(8000)),
            (   1000,   500,  1000,  Some(2000)), // a clock that went back
            (      0,    10,     3,  Some(12)),
        ];
        for (rung, now, period, next) in rows {
            assert_eq!(next_deadline(ms(rung), ms(now), ms(period)), next.map(ms), "{rung} {now} {period}");
        }
        assert_eq!(next_deadline(Duration::MAX, Duration::MAX, SECOND), None);
        assert_eq!(next_deadline(SECOND, SECOND, Duration::MAX), None);
    }

    thread_local! {
        static NOW: Cell<Duration> = const { Cell::new(Duration::ZERO) };
        static LOOKS: Cell<u32> = const { Cell::new(0) };
    }

    fn counted_now() -> Duration {
        LOOKS.set(LOOKS.get() + 1);
        NOW.get()
    }

    fn pass(time: Duration) {
        NOW.set(NOW.get() + time);
    }

    #[test]
    fn ticker_looks_at_every_call_when_calls_are_slow() {
        let mut ticker = Ticker::with_clock(SECOND, counted_now).unwrap();
        let mut rings = Vec::new();
        for call in 1..=10 {
            pass(SECOND * 2 / 5);
            if ticker.rang() {
                rings.push(call);
            }
        }
        assert_eq!(rings, [3, 5, 8, 10]);
    }

    #[test]
    fn ticker_looks_at_every_16th_call_when_calls_are_fast() {
        let mut ticker = Ticker::with_clock(SECOND, counted_now).unwrap();
        LOOKS.set(0);
        for _ in 0..16_000 {
            pass(Duration::from_nanos(300));
            assert!(!ticker.rang());
        }
        assert!((1000..1010).contains(&LOOKS.get()), "{} looks", LOOKS.get());
    }

    #[test]
    fn ticker_is_at_most_16_calls_late_when_calls_turn_slow() {
        let mut ticker = Ticker::with_clock(SECOND, counted_now).unwrap();
        for _ in 0..1000 {
            assert!(!ticker.rang());
        }
        let late = (1..100).find(|_| {
            pass(10 * SECOND);
            ticker.rang()
        });
        assert!(late.unwrap() <= 16);
        // From here on it looks every time.
        pass(SECOND);
        assert!(ticker.rang());
    }

    #[test]
    fn ticker_look_hears_a_ring_that_rang_would_not_yet_see() {
        let mut ticker = Ticker::with_clock(SECOND, counted_now).unwrap();
        for _ in 0..1000 {
            assert!(!ticker.rang());
        }
        pass(SECOND);
        assert!(ticker.look());
        assert!(!ticker.look());
    }

    #[test]
    fn ticker_rings_do_not_pile_up() {
        let mut ticker = Ticker::with_clock(SECOND, counted_now).unwrap();
        pass(SECOND * 11 / 2);
        assert!(ticker.look());
        assert!(!ticker.look());
        pass(SECOND / 2);
        assert!(ticker.look());
    }

    #[test]
    fn the_system_clocks_move() {
        // Both are asked until they say that a millisecond has passed.
        let alarm = Alarm::every(Duration::from_millis(1)).unwrap();
        let mut ticker = Ticker::every(Duration::from_millis(1)).unwrap();
        while !ticker.rang() {}
        while !alarm.rang() {
            std::thread::yield_now();
        }
    }
}
