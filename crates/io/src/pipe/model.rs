//! The algorithms under a model checker, and with a death at every step.
//!
//! ```text
//! cargo test -p fdd-io --lib pipe::model                              deaths, one after the other
//! RUSTFLAGS="--cfg loom" cargo test -p fdd-io --lib --release pipe::model     every order of two threads
//! RUSTFLAGS="--cfg shuttle" cargo test -p fdd-io --lib --release pipe::model  random orders of more, with deaths
//! ```
//!
//! In the models no wait ends by the clock while all live: a lost wake-up is a deadlock, which the checker reports. Each death
//! ends a few waits of each thread early, as the clock would.

use std::time::Duration;

#[cfg(loom)]
use super::ring::Single;
use super::ring::{Bytes, Piece, Sleep, Store};
use super::state::{Core, Need, Patience, Platform, Purpose, READ, Seat, Shape, Slot, State, Step, Stop, WRITE, kind};
use super::sync::{Signal, death};

#[cfg(loom)]
use loom::sync::{Arc, Condvar, Mutex};
#[cfg(shuttle)]
use shuttle::sync::{Arc, Condvar, Mutex};
#[cfg(not(any(loom, shuttle)))]
use std::sync::{Arc, Condvar, Mutex};

#[cfg(loom)]
use loom::thread;
#[cfg(shuttle)]
use shuttle::thread;

/// The kernel: who is dead, and a bed for all.
#[derive(Debug, Default)]
struct Kernel {
    /// Slots whose owners are dead, as bits, and how many waits of each slot the clock has yet to end.
    dead: Mutex<u32>,
    bell: Condvar,
}

impl Kernel {
    fn wait(&self, word: &Signal, expected: u32) {
        let dead = self.dead.lock().expect("no panic inside");
        // With a death about, the clock decides: the waiter goes round once and looks again.
        if word.load() != expected || *dead != 0 {
            #[cfg(any(loom, shuttle))]
            if *dead != 0 {
                drop(dead);
                thread::yield_now();
            }
            return;
        }
        drop(self.bell.wait(dead).expect("no panic inside"));
    }

    fn wake(&self) {
        drop(self.dead.lock().expect("no panic inside"));
        self.bell.notify_all();
    }
}

impl Sleep for Arc<Kernel> {
    fn wait(&self, word: &Signal, expected: u32, _at_most: Duration) {
        Kernel::wait(self, word, expected);
    }

    fn wake(&self, _word: &Signal) {
        Kernel::wake(self);
    }

    fn spins(&self) -> u32 {
        0
    }
}

#[derive(Debug)]
struct Model {
    state: State,
    slots: Box<[Slot]>,
    bytes: Bytes,
    kernel: Kernel,
}

impl Platform for Model {
    fn state(&self) -> &State {
        &self.state
    }

    fn slots(&self) -> &[Slot] {
        &self.slots
    }

    fn cpu(&self) -> u32 {
        0
    }

    fn wait(&self, word: &Signal, expected: u32, _at_most: Duration) {
        self.kernel.wait(word, expected);
    }

    fn wake(&self, _word: &Signal) {
        self.kernel.wake();
    }

    fn notify(&self, _side: usize) {}

    fn alive(&self, index: u32) -> bool {
        *self.kernel.dead.lock().expect("no panic inside") & 1 << index == 0
    }

    fn ours(&self) -> bool {
        true
    }

    fn clock(&self) -> u64 {
        // Always long after the last sweep.
        self.state.swept() + 1000
    }

    fn spins(&self) -> u32 {
        0
    }
}

impl Store for Model {
    fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

/// A ring of four bytes, in which two are the longest atomic write and three the longest claim.
fn core(purpose: Purpose, overtakes: u32) -> Arc<Core<Model>> {
    let platform = Model {
        state: State::default(),
        slots: (0..4).map(|_| Slot::default()).collect(),
        bytes: Bytes::new(4).expect("four bytes"),
        kernel: Kernel::default(),
    };
    let capacity = if purpose == Purpose::Bytes { 4 } else { 2 };
    Arc::new(Core { platform, shape: Shape { purpose, capacity, atomic: 2, chunk: 3, overtakes } })
}

impl Core<Model> {
    fn sit(&self, index: u32, side: usize, kind: u32) -> Seat {
        let seat = Seat::new(index, 1, side);
        self.slot(index).generation.store(1);
        assert_eq!(self.attach(&seat, kind), Ok(true));
        seat
    }

    fn write(&self, seat: &Seat, from: &[u8], patience: Patience) -> Result<usize, Stop> {
        let space = from.len().min(self.shape.atomic) as u64;
        let need = Need { looking: space, asleep: space };
        match self.serve(seat, need, patience, |inside| self.put(inside, seat, from))? {
            Piece::Copied(len) => Ok(len),
            Piece::Claimed(mut claim) => {
                let len = claim.len();
                self.fill(&mut claim, &from[..len]);
                self.publish(seat, claim, false)?;
                Ok(len)
            }
        }
    }

    fn read(&self, seat: &Seat, into: &mut [u8], patience: Patience) -> Result<usize, Stop> {
        match self.serve(seat, Need::default(), patience, |inside| self.take(inside, seat, into)) {
            Ok(Piece::Copied(len)) => Ok(len),
            Ok(Piece::Claimed(claim)) => {
                let len = claim.len();
                self.drain(&claim, &mut into[..len]);
                self.release(seat, claim, false)?;
                Ok(len)
            }
            Err(Stop::Closed) => Ok(0),
            Err(stop) => Err(stop),
        }
    }

    fn read_all_there_is(&self, seat: &Seat) -> Vec<u8> {
        let mut all = Vec::new();
        let mut part = [0; 4];
        while let Ok(len @ 1..) = self.read(seat, &mut part, Patience::None) {
            all.extend(&part[..len]);
        }
        all
    }

    fn acquire(&self, seat: &Seat, patience: Patience) -> Result<(), Stop> {
        let (state, slot) = (self.state(), self.slot(seat.index));
        self.serve(seat, Need::default(), patience, |_| {
            if state.taken.get() >= self.shape.capacity {
                return Step::NotYet;
            }
            slot.held.add(1);
            state.taken.add(1);
            Step::Done(())
        })
    }

    fn give_back(&self, seat: &Seat) -> Result<(), Stop> {
        let _inside = self.enter(seat)?;
        self.slot(seat.index).held.subtract(1);
        self.state().taken.subtract(1);
        Ok(())
    }

    /// Runs `call`, which dies before its store number `steps`. Whether it did, and was buried.
    fn dies(&self, seat: &Seat, steps: u32, call: impl FnOnce()) -> bool {
        death::doom(Some(steps));
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call));
        death::doom(None);
        match outcome {
            Ok(()) => false,
            Err(payload) if payload.is::<death::Died>() => {
                *self.platform.kernel.dead.lock().expect("no panic inside") |= 1 << seat.index;
                self.platform.kernel.bell.notify_all();
                true
            }
            Err(payload) => std::panic::resume_unwind(payload),
        }
    }
}

/// Everything that follows from the slots is what it would be if it were computed anew.
#[cfg(not(any(loom, shuttle)))]
fn assert_consistent(core: &Core<Model>, seat: &Seat) {
    let inside = core.enter(seat).expect("a sound pipe");
    let state = core.state();
    let summary = || {
        (
            [0, 1].map(|side| (state.ends[side].get(), state.claims[side].get())),
            state.holes.get(),
            state.taken.get(),
            state.alloc.get(),
        )
    };
    let before = summary();
    inside.repair();
    assert_eq!(before, summary());
}

#[cfg(not(any(loom, shuttle)))]
mod deaths {
    use super::*;

    /// For each step of a write: what others wrote before and after is there, and the dead one's piece wholly or not at all.
    fn a_writer_dies(dead_text: &[u8], whole: bool) {
        let mut fates = std::collections::BTreeSet::new();
        for steps in 0.. {
            let core = core(Purpose::Bytes, u32::MAX);
            let (reader, writer, doomed) = seats(&core);
            core.write(&writer, b"a", Patience::None).expect("space");
            let died = core.dies(&doomed, steps, || {
                core.write(&doomed, dead_text, Patience::None).expect("space");
            });
            assert_eq!(core.write(&writer, b"z", Patience::None), Ok(1), "step {steps}");
            let all = core.read_all_there_is(&reader);
            let between = all.strip_prefix(b"a").and_then(|rest| rest.strip_suffix(b"z")).expect("what others wrote");
            assert!(dead_text.starts_with(between), "step {steps}: {between:?}");
            assert!(!whole || between.is_empty() || between == dead_text, "step {steps}: {between:?}");
            fates.insert(between.len());
            // All space is there again.
            for _ in 0..3 {
                assert_eq!(core.write(&writer, b"xy", Patience::None), Ok(2), "step {steps}");
                assert_eq!(core.write(&writer, b"v", Patience::None), Ok(1), "step {steps}");
                assert_eq!(core.read_all_there_is(&reader), b"xyv", "step {steps}");
            }
            assert_consistent(&core, &writer);
            if !died {
                break;
            }
        }
        assert!(fates.len() >= 2, "no death on either side of the point of no return: {fates:?}");
    }

    fn seats(core: &Core<Model>) -> (Seat, Seat, Seat) {
        let reader = core.sit(0, READ, kind::READER);
        (reader, core.sit(1, WRITE, kind::WRITER), core.sit(2, WRITE, kind::WRITER))
    }

    #[test]
    fn a_small_write_is_wholly_there_or_not_wherever_its_writer_dies() {
        a_writer_dies(b"bc", true);
    }

    #[test]
    fn a_claimed_write_leaves_a_prefix_wherever_its_writer_dies() {
        // One byte is taken, so two of the three fit; then `z` has to.
        let mut claims = 0;
        for steps in 0.. {
            let core = core(Purpose::Bytes, u32::MAX);
            let (reader, writer, doomed) = seats(&core);
            let died = core.dies(&doomed, steps, || {
                core.write(&doomed, b"bcd", Patience::None).expect("space");
            });
            assert_eq!(core.write(&writer, b"z", Patience::None), Ok(1), "step {steps}");
            let all = core.read_all_there_is(&reader);
            let between = all.strip_suffix(b"z").expect("what others wrote");
            assert!(between.is_empty() || between == b"bcd", "step {steps}: {all:?}");
            claims += usize::from(!between.is_empty());
            for _ in 0..3 {
                assert_eq!(core.write(&writer, b"xyv", Patience::None), Ok(3), "step {steps}");
                assert_eq!(core.read_all_there_is(&reader), b"xyv", "step {steps}");
            }
            assert_consistent(&core, &writer);
            if !died {
                assert!(steps > 8 && claims > 0, "{steps} steps, {claims} times there");
                break;
            }
        }
    }

    /// For each step of a read of `wanted` bytes: it takes one piece with it at most, and the rest is in order.
    fn a_reader_dies(wanted: usize) {
        for steps in 0.. {
            let core = core(Purpose::Bytes, u32::MAX);
            let writer = core.sit(0, WRITE, kind::WRITER);
            let (reader, doomed) = (core.sit(1, READ, kind::READER), core.sit(2, READ, kind::READER));
            core.write(&writer, b"abc", Patience::None).expect("space");
            let died = core.dies(&doomed, steps, || {
                core.read(&doomed, &mut [0; 4][..wanted], Patience::None).expect("bytes");
            });
            let all = core.read_all_there_is(&reader);
            assert!(all == b"abc" || all == b"abc"[wanted..], "step {steps}: {all:?}");
            for _ in 0..3 {
                assert_eq!(core.write(&writer, b"xyv", Patience::None), Ok(3), "step {steps}");
                assert_eq!(core.read_all_there_is(&reader), b"xyv", "step {steps}");
            }
            assert_consistent(&core, &writer);
            if !died {
                assert!(steps > 2);
                break;
            }
        }
    }

    #[test]
    fn a_dead_reader_loses_its_piece_at_most() {
        a_reader_dies(1);
        a_reader_dies(3);
    }

    #[test]
    fn an_end_that_dies_while_it_comes_or_goes_leaves_nothing_behind() {
        for going in [false, true] {
            for steps in 0.. {
                let core = core(Purpose::Bytes, u32::MAX);
                let (reader, writer) = (core.sit(0, READ, kind::READER), core.sit(1, WRITE, kind::WRITER));
                let doomed = Seat::new(2, 1, WRITE);
                core.slot(2).generation.store(1);
                if going {
                    assert_eq!(core.attach(&doomed, kind::WRITER), Ok(true));
                }
                let died = core.dies(&doomed, steps, || {
                    if going {
                        core.detach(&doomed, || {});
                    } else {
                        assert_eq!(core.attach(&doomed, kind::WRITER), Ok(true));
                    }
                });
                if !died {
                    core.dies(&doomed, 0, death::step);
                }
                core.write(&writer, b"a", Patience::None).expect("space");
                core.detach(&writer, || {});
                assert_eq!(core.read(&reader, &mut [0; 4], Patience::None), Ok(1), "step {steps}");
                assert_eq!(core.read(&reader, &mut [0; 4], Patience::None), Ok(0), "step {steps}: no end");
                assert_consistent(&core, &reader);
                if !died {
                    assert!(steps > 2);
                    break;
                }
            }
        }
    }

    #[test]
    fn tokens_out_are_those_of_live_holders_wherever_one_dies() {
        for steps in 0.. {
            let core = core(Purpose::Tokens, u32::MAX);
            let (holder, doomed) = (core.sit(0, READ, kind::HOLDER), core.sit(1, READ, kind::HOLDER));
            core.acquire(&holder, Patience::None).expect("a token");
            let died = core.dies(&doomed, steps, || {
                core.acquire(&doomed, Patience::None).expect("a token");
                core.give_back(&doomed).expect("its own");
                core.acquire(&doomed, Patience::None).expect("a token");
            });
            if !died {
                core.dies(&doomed, 0, death::step);
            }
            assert_eq!(core.acquire(&holder, Patience::None), Ok(()), "step {steps}");
            assert_eq!(core.acquire(&holder, Patience::None), Err(Stop::WouldBlock), "step {steps}");
            assert_eq!(core.state().taken.get(), 2);
            if !died {
                assert!(steps > 6);
                break;
            }
        }
    }

    #[test]
    fn a_death_during_the_repair_of_another_is_repaired() {
        for first in [1, 2, 3] {
            for steps in 0.. {
                let core = core(Purpose::Bytes, u32::MAX);
                let (reader, writer, doomed) = seats(&core);
                let next = core.sit(3, WRITE, kind::WRITER);
                core.write(&writer, b"a", Patience::None).expect("space");
                let died = core.dies(&doomed, first, || {
                    core.write(&doomed, b"b", Patience::None).expect("space");
                });
                assert!(died);
                let died = core.dies(&next, steps, || {
                    core.write(&next, b"c", Patience::None).expect("space");
                });
                assert_eq!(core.write(&writer, b"z", Patience::None), Ok(1));
                let all = core.read_all_there_is(&reader);
                assert!([&b"az"[..], b"abz", b"acz", b"abcz"].contains(&&all[..]), "{first} {steps}: {all:?}");
                assert_consistent(&core, &writer);
                if !died {
                    assert!(steps > 10);
                    break;
                }
            }
        }
    }
}

#[cfg(loom)]
mod orders {
    use super::*;

    fn model(check: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(check);
    }

    #[test]
    fn what_is_written_wakes_the_reader_that_waits_for_it() {
        for overtakes in [0, u32::MAX] {
            model(move || {
                let core = core(Purpose::Bytes, overtakes);
                let (reader, writer) = (core.sit(0, READ, kind::READER), core.sit(1, WRITE, kind::WRITER));
                let other = Arc::clone(&core);
                let thread = thread::spawn(move || {
                    other.write(&writer, b"a", Patience::Endless).expect("a reader");
                    other.write(&writer, b"bcd", Patience::Endless).expect("a reader");
                    other.detach(&writer, || {});
                });
                let mut all = Vec::<u8>::new();
                let mut part = [0; 4];
                loop {
                    match core.read(&reader, &mut part, Patience::Endless).expect("a sound pipe") {
                        0 => break,
                        len => all.extend(&part[..len]),
                    }
                }
                thread.join().expect("no panic");
                assert!(all == b"abcd" || all == b"abc", "{all:?}");
            });
        }
    }

    #[test]
    fn one_token_wakes_one_of_two_who_wait() {
        model(|| {
            let core = core(Purpose::Tokens, u32::MAX);
            let (one, two) = (core.sit(0, READ, kind::HOLDER), core.sit(1, READ, kind::HOLDER));
            core.acquire(&one, Patience::None).expect("a token");
            core.acquire(&one, Patience::None).expect("a token");
            let other = Arc::clone(&core);
            let thread = thread::spawn(move || {
                other.acquire(&two, Patience::Endless).expect("a token");
                other.give_back(&two).expect("its own");
            });
            core.give_back(&one).expect("its own");
            core.acquire(&one, Patience::Endless).expect("a token");
            core.give_back(&one).expect("its own");
            thread.join().expect("no panic");
        });
    }

    #[test]
    fn the_ring_of_two_ends_hands_over_in_order_and_wakes_both() {
        model(|| {
            let kernel = Arc::new(Kernel::default());
            let (ring, [mut read, mut write]) = Single::new(2, Arc::clone(&kernel)).expect("two bytes");
            let ring = Arc::new(ring);
            let other = Arc::clone(&ring);
            let thread = thread::spawn(move || {
                for byte in [b"a", b"b", b"c"] {
                    other.await_bytes(&write, 1, 1, Patience::Endless).expect("space");
                    other.write(&mut write, byte, false);
                }
                other.close(&write);
            });
            let mut all = Vec::<u8>::new();
            loop {
                let there = ring.await_bytes(&read, 1, 1, Patience::Endless).expect("a sound ring");
                if there == 0 {
                    break;
                }
                let mut part = [0; 2];
                ring.read(&mut read, &mut part[..there], false);
                all.extend(&part[..there]);
            }
            thread.join().expect("no panic");
            assert_eq!(all, b"abc");
        });
    }
}

#[cfg(shuttle)]
mod orders {
    use super::*;
    use shuttle::rand::{Rng, thread_rng};

    const RUNS: usize = 2000;

    /// Two writers and two readers, of which a random one dies at a random step: the others come to the end, in order.
    #[test]
    fn the_others_go_on_whoever_dies_wherever() {
        for overtakes in [0, 1, u32::MAX] {
            shuttle::check_random(move || four_ends(overtakes), RUNS);
        }
    }

    fn four_ends(overtakes: u32) {
        let core = core(Purpose::Bytes, overtakes);
        let doomed: u32 = thread_rng().gen_range(0..5);
        let steps: u32 = thread_rng().gen_range(0..60);
        let read = Arc::new(std::sync::Mutex::new(Vec::<(u32, u8)>::new()));
        let mut threads = Vec::new();
        let seats: Vec<Seat> = (0..4)
            .map(|index| match index {
                0 | 1 => core.sit(index, WRITE, kind::WRITER),
                _ => core.sit(index, READ, kind::READER),
            })
            .collect();
        for seat in seats {
            let (core, read) = (Arc::clone(&core), Arc::clone(&read));
            threads.push(thread::spawn(move || {
                let index = seat.index;
                let work = || match index {
                    0 | 1 => {
                        for number in 0..3u8 {
                            let byte = number * 2 + u8::try_from(index).expect("small");
                            // The readers may all be dead.
                            if core.write(&seat, &[byte, byte], Patience::Endless).is_err() {
                                break;
                            }
                        }
                        core.detach(&seat, || {});
                    }
                    _ => loop {
                        let mut part = [0; 2];
                        match core.read(&seat, &mut part, Patience::Endless).expect("a sound pipe") {
                            0 => {
                                core.detach(&seat, || {});
                                break;
                            }
                            len => {
                                assert_eq!(len, 2, "a piece was cut");
                                assert_eq!(part[0], part[1], "a piece was mixed");
                                read.lock().expect("no panic inside").push((index, part[0]));
                            }
                        }
                    },
                };
                if index == doomed {
                    core.dies(&seat, steps, work);
                } else {
                    work();
                }
            }));
        }
        for thread in threads {
            thread.join().expect("no panic");
        }
        let read = read.lock().expect("no panic inside");
        let mut all: Vec<u8> = read.iter().map(|&(_, byte)| byte).collect();
        all.sort_unstable();
        let count = all.len();
        all.dedup();
        assert_eq!(all.len(), count, "a piece came twice: {read:?}");
        for reader in [2, 3] {
            for writer in [0, 1] {
                let of_both = read.iter().filter(|&&(by, byte)| by == reader && u32::from(byte % 2) == writer);
                assert!(of_both.is_sorted(), "out of order: {read:?}");
            }
        }
        let lost = match doomed {
            0 | 1 => 3,
            2 | 3 => 1,
            _ => 0,
        };
        assert!(count >= 6 - lost, "{count} of 6 pieces came, {doomed} died: {read:?}");
    }

    #[test]
    fn tokens_come_back_from_whoever_dies_wherever() {
        shuttle::check_random(
            || {
                let core = core(Purpose::Tokens, u32::MAX);
                let doomed: u32 = thread_rng().gen_range(0..5);
                let steps: u32 = thread_rng().gen_range(0..40);
                let seats: Vec<Seat> = (0..4).map(|index| core.sit(index, READ, kind::HOLDER)).collect();
                let threads: Vec<_> = seats
                    .into_iter()
                    .map(|seat| {
                        let core = Arc::clone(&core);
                        thread::spawn(move || {
                            let work = || {
                                for _ in 0..2 {
                                    core.acquire(&seat, Patience::Endless).expect("a token");
                                    core.give_back(&seat).expect("its own");
                                }
                            };
                            if seat.index == doomed {
                                core.dies(&seat, steps, work);
                            } else {
                                work();
                            }
                            seat
                        })
                    })
                    .collect();
                let seats: Vec<Seat> = threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
                let living = seats.iter().find(|seat| seat.index != doomed).expect("three live");
                let inside = core.enter(living).expect("a sound bag");
                inside.sweep();
                assert_eq!(core.state().taken.get(), 0, "all tokens are back");
            },
            RUNS,
        );
    }
}
