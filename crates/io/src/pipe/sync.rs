//! The words the pipe is built on: the processor's atomics, or a model checker's, and the step at which a test dies.
//!
//! Three kinds, by who may touch them. A `Word` is touched with the lock held and orders nothing by itself; it is an atomic
//! only because a peer process may be damaged, and a torn or surprising value must stay a value. A `Signal` is touched
//! without the lock. A `Position` is how the two ends of a single-producer single-consumer ring tell how far they are.
#![cfg_attr(loom, allow(unsafe_code))] // loom's cells check what the lock promises, and have to be declared shareable.

#[cfg(loom)]
pub(super) use loom::hint::spin_loop;
#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(shuttle)]
pub(super) use shuttle::hint::spin_loop;
#[cfg(shuttle)]
use shuttle::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(not(any(test, loom, shuttle)))]
pub(super) use std::hint::spin_loop;
#[cfg(not(any(loom, shuttle)))]
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

#[cfg(all(test, not(any(loom, shuttle))))]
std::thread_local! {
    static PAUSES: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// Counted, so that a test can tell how long this thread looked.
#[cfg(all(test, not(any(loom, shuttle))))]
pub(super) fn spin_loop() {
    PAUSES.with(|pauses| pauses.set(pauses.get().wrapping_add(1)));
    std::hint::spin_loop();
}

/// How often this thread has paused since it was last asked.
#[cfg(all(test, not(any(loom, shuttle))))]
pub(super) fn pauses() -> u32 {
    PAUSES.with(std::cell::Cell::take)
}

/// Death at a chosen step: the model of a process that is killed between two stores.
#[cfg(any(test, loom, shuttle))]
pub(super) mod death {
    /// What a doomed thread unwinds with.
    #[derive(Debug)]
    pub(in crate::pipe) struct Died;

    #[cfg(loom)]
    loom::thread_local! {
        static LEFT: std::cell::Cell<Option<u32>> = std::cell::Cell::new(None);
        static DEAD: std::cell::Cell<bool> = std::cell::Cell::new(false);
    }
    #[cfg(shuttle)]
    shuttle::thread_local! {
        static LEFT: std::cell::Cell<Option<u32>> = std::cell::Cell::new(None);
        static DEAD: std::cell::Cell<bool> = std::cell::Cell::new(false);
    }
    #[cfg(not(any(loom, shuttle)))]
    std::thread_local! {
        static LEFT: std::cell::Cell<Option<u32>> = const { std::cell::Cell::new(None) };
        static DEAD: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
    }

    /// Dooms this thread to die before its store number `steps` from now, or pardons it.
    pub(in crate::pipe) fn doom(steps: Option<u32>) {
        LEFT.with(|left| left.set(steps));
        DEAD.with(|dead| dead.set(false));
    }

    /// Whether this thread has died and only unwinds: nothing that is dropped may touch shared memory.
    pub(in crate::pipe) fn dead() -> bool {
        DEAD.with(std::cell::Cell::get)
    }

    #[inline]
    pub(in crate::pipe) fn step() {
        let now = LEFT.with(|left| match left.get() {
            Some(0) => true,
            Some(steps) => {
                left.set(Some(steps - 1));
                false
            }
            None => false,
        });
        if now {
            LEFT.with(|left| left.set(None));
            DEAD.with(|dead| dead.set(true));
            std::panic::resume_unwind(Box::new(Died));
        }
    }
}

#[cfg(not(any(test, loom, shuttle)))]
pub(super) mod death {
    #[inline]
    pub(in crate::pipe) const fn dead() -> bool {
        false
    }

    #[inline]
    pub(in crate::pipe) const fn step() {}
}

macro_rules! word {
    ($name:ident, $atomic:ident, $value:ty) => {
        /// A value that is read and written with the lock held.
        #[derive(Debug, Default)]
        #[repr(transparent)]
        pub(super) struct $name(#[cfg(not(loom))] std::sync::atomic::$atomic, #[cfg(loom)] LoomCell<$value>);

        impl $name {
            #[inline]
            pub(super) fn get(&self) -> $value {
                #[cfg(not(loom))]
                return self.0.load(std::sync::atomic::Ordering::Relaxed);
                #[cfg(loom)]
                self.0.0.get()
            }

            #[inline]
            pub(super) fn set(&self, value: $value) {
                death::step();
                #[cfg(not(loom))]
                self.0.store(value, std::sync::atomic::Ordering::Relaxed);
                #[cfg(loom)]
                self.0.0.set(value);
            }

            #[inline]
            pub(super) fn add(&self, value: $value) {
                self.set(self.get().wrapping_add(value));
            }

            #[inline]
            pub(super) fn subtract(&self, value: $value) {
                self.set(self.get().wrapping_sub(value));
            }
        }
    };
}
word!(Word32, AtomicU32, u32);
word!(Word64, AtomicU64, u64);

/// A cell whose every access loom checks against every other: two that no lock orders fail the model.
#[cfg(loom)]
#[derive(Debug, Default)]
struct LoomCell<T>(loom::cell::Cell<T>);

#[cfg(loom)]
// SAFETY: loom runs one thread at a time and reports unordered accesses itself.
unsafe impl<T> Sync for LoomCell<T> {}
#[cfg(loom)]
// SAFETY: as above.
unsafe impl<T> Send for LoomCell<T> {}

/// A word that is also touched without the lock: what a futex waits on.
#[derive(Debug, Default)]
#[repr(transparent)]
pub(super) struct Signal(AtomicU32);

impl Signal {
    #[inline]
    pub(super) fn load(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }

    #[inline]
    pub(super) fn store(&self, value: u32) {
        death::step();
        self.0.store(value, Ordering::SeqCst);
    }

    #[inline]
    pub(super) fn swap(&self, value: u32) -> u32 {
        death::step();
        self.0.swap(value, Ordering::SeqCst)
    }

    /// Whether it was `from` and is `to` now.
    #[inline]
    pub(super) fn change(&self, from: u32, to: u32) -> bool {
        death::step();
        self.0.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    #[cfg(not(any(loom, shuttle)))]
    #[inline]
    pub(super) fn as_atomic(&self) -> &AtomicU32 {
        &self.0
    }
}

/// How far one end of a single-producer single-consumer ring has come.
#[derive(Debug, Default)]
#[repr(transparent)]
pub(super) struct Position(AtomicU64);

impl Position {
    /// What the other end has published, and all it did before.
    #[inline]
    pub(super) fn load(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Publishes, and orders the publication before whatever this thread loads next: the half of the sleeper's agreement
    /// (`Signal` set, then position loaded) that makes a lost wake-up impossible.
    #[inline]
    pub(super) fn publish(&self, value: u64) {
        // A locked exchange is the cheapest full barrier of x86, where a store and a fence cost twice that.
        self.0.swap(value, Ordering::SeqCst);
        // loom takes sequentially consistent accesses for weaker ones, but knows the fence.
        full_fence();
    }
}

/// Orders all before it against all behind it, for loom; elsewhere the accesses themselves do.
#[inline]
pub(super) fn full_fence() {
    #[cfg(loom)]
    loom::sync::atomic::fence(Ordering::SeqCst);
}
