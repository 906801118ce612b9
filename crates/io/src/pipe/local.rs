//! A pipe's memory inside one process.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fdd_sys::shared::{Scope, futex_wait, futex_wake};

use super::end::Place;
use super::ring::{Bytes, Sleep, Store};
use super::state::{MOST_ENDS, Platform, Seat, Slot, State, next_generation};
use super::sync::Signal;

/// How often to look before sleeping: for about as long as a sleep and a wake-up cost, a few microseconds.
const SPINS: u32 = 512;

/// None where the other end can only run while this one sleeps.
pub(super) fn spins() -> u32 {
    static SPINS_HERE: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    *SPINS_HERE.get_or_init(|| match std::thread::available_parallelism() {
        Ok(cpus) if cpus.get() > 1 && !cfg!(miri) => SPINS,
        _ => 0,
    })
}

/// The processor that this thread runs on.
pub(super) fn cpu() -> u32 {
    if cfg!(miri) { 0 } else { u32::try_from(rustix::thread::sched_getcpu()).unwrap_or(u32::MAX - 1) }
}

#[derive(Debug)]
pub(super) struct Local {
    spins: u32,
    state: State,
    slots: Box<[Slot]>,
    bytes: Bytes,
    seats: Mutex<Vec<bool>>,
}

impl Local {
    pub(super) fn new(capacity: usize, ends: u32) -> io::Result<Local> {
        Ok(Local {
            spins: spins(),
            state: State::default(),
            slots: (0..ends.clamp(2, MOST_ENDS)).map(|_| Slot::default()).collect(),
            bytes: Bytes::new(capacity)?,
            seats: Mutex::new(vec![false; ends.clamp(2, MOST_ENDS) as usize]),
        })
    }
}

impl Platform for Local {
    fn state(&self) -> &State {
        &self.state
    }

    fn slots(&self) -> &[Slot] {
        &self.slots
    }

    fn cpu(&self) -> u32 {
        cpu()
    }

    fn wait(&self, word: &Signal, expected: u32, at_most: Duration) {
        futex_wait(word.as_atomic(), expected, Some(at_most), Scope::Threads);
    }

    fn wake(&self, word: &Signal) {
        futex_wake(word.as_atomic(), Scope::Threads);
    }

    fn notify(&self, _side: usize) {}

    fn alive(&self, _index: u32) -> bool {
        true
    }

    fn ours(&self) -> bool {
        true
    }

    fn clock(&self) -> u64 {
        0
    }

    fn spins(&self) -> u32 {
        self.spins
    }
}

impl Store for Local {
    #[inline]
    fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

impl Place for Local {
    fn find_seat(&self, side: usize, after: Option<u32>) -> io::Result<Seat> {
        let mut seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        let (index, slot) = (0..)
            .zip(&self.slots)
            .skip(after.map_or(0, |after| after as usize + 1))
            .find(|&(index, _)| !seats[index as usize])
            .ok_or_else(no_more_ends)?;
        seats[index as usize] = true;
        slot.generation.store(next_generation(slot.generation.load()));
        Ok(Seat::new(index, slot.generation.load(), side))
    }

    fn leave_seat(&self, index: u32) {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)[index as usize] = false;
    }
}

pub(super) fn no_more_ends() -> io::Error {
    io::Error::new(io::ErrorKind::QuotaExceeded, "the pipe has as many ends as it was made for")
}

/// The kernel as a bed for the ends of a single-producer single-consumer ring.
#[derive(Debug)]
pub(super) struct Threads;

impl Sleep for Threads {
    fn wait(&self, word: &Signal, expected: u32, at_most: Duration) {
        futex_wait(word.as_atomic(), expected, Some(at_most), Scope::Threads);
    }

    fn wake(&self, word: &Signal) {
        futex_wake(word.as_atomic(), Scope::Threads);
    }

    fn spins(&self) -> u32 {
        spins()
    }
}
