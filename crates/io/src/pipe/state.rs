//! What the ends of a pipe agree on: the lock, the positions, who is attached, who waits, and how a dead end is repaired.
//! No bytes move here.
//!
//! # The lock
//! One word that holds its owner's name: the number of a slot and of the slot's generation. Who cannot get it sleeps on it,
//! at most `LOCK_BOUND`, then asks whether the owner lives, and takes it over from the dead. It is held for a few dozen
//! instructions, and for a copy of at most `ATOMIC` bytes.
//!
//! # What is true and what follows
//! Every change becomes true by one store: `alloc` moving on publishes a small write, `taken` moving on is a small read, a
//! slot's `claim` becoming `NONE` publishes a large write or gives the space of a large read back. All else (counts, queues,
//! turns) follows from these and from the slots. Whoever takes the lock over from the dead computes it anew (`repair`), so it
//! does not matter where in a change the owner died.
//!
//! # Claims
//! A large piece is claimed under the lock, copied without it, and finished under it. Readers see nothing behind the
//! oldest unfinished write claim; writers get no space behind the oldest unfinished read claim. The write claim of a dead end
//! becomes a hole, which readers step over; its read claim is given back, and what it had taken is lost with it.
//!
//! # Waiting
//! Who has to wait queues on its side, and sleeps on its own word. `settle`, which runs whenever the lock is given back,
//! gives the turn to the head of each queue that could go on. There is one turn on each side: while the woken one is on its
//! way nobody else is woken (this is the suppression of wake-ups), and when it has been served, `settle` wakes the next if
//! something is left. In fair mode only the head of the queue may be served; otherwise whoever comes may.

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::sync::{Signal, Word32, Word64, death, spin_loop};

/// The longest sleep. Then the sleeper looks whether those it waits for live: the bound on how long a death can go unnoticed.
pub(super) const BOUND: Duration = Duration::from_millis(150);
/// The longest sleep on the lock, which nobody holds for longer than a copy: who holds it still is stopped, or dead.
const LOCK_BOUND: Duration = Duration::from_millis(10);
/// How often nobody looks for the dead again, without an occasion.
const SWEEP_MILLIS: u64 = 50;
/// How many ends a pipe can have: what the lock's word has room for.
pub(super) const MOST_ENDS: u32 = 4000;

const INDEX_BITS: u32 = 12;
const GENERATIONS: u32 = 1 << 19;
const CONTENDED: u32 = 1;

/// The two sides of a pipe, as indices.
pub(super) const READ: usize = 0;
pub(super) const WRITE: usize = 1;

/// What a slot holds.
pub(super) mod kind {
    pub(in crate::pipe) const FREE: u32 = 0;
    pub(in crate::pipe) const READER: u32 = 1;
    pub(in crate::pipe) const WRITER: u32 = 2;
    /// Nobody, but a hole that readers have not passed.
    pub(in crate::pipe) const HOLE: u32 = 3;
    pub(in crate::pipe) const HOLDER: u32 = 4;
}

/// What a slot has claimed of the ring.
pub(super) mod claim {
    pub(in crate::pipe) const NONE: u32 = 0;
    /// Being copied by a live end.
    pub(in crate::pipe) const COPYING: u32 = 1;
    /// A writer's bytes that will never come.
    pub(in crate::pipe) const HOLE: u32 = 2;
}

/// A waiting end's word.
mod wake {
    pub(super) const AWAKE: u32 = 0;
    pub(super) const TURN: u32 = 1;
    pub(super) const ASLEEP: u32 = 2;
}

/// The words all ends share. The first line is all that an undisturbed read or write touches.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub(super) struct State {
    /// Nobody, or the owner's name shifted left and the contended bit.
    pub(super) lock: Signal,
    /// Slots whose claim is a hole.
    pub(super) holes: Word32,
    /// Everything before it has been given to writers.
    pub(super) alloc: Word64,
    /// Everything before it has been given to readers. Of tokens: how many are out.
    pub(super) taken: Word64,
    /// First in the queue of each side, as index plus one.
    head: [Word32; 2],
    /// Who was woken and has not come yet, as index plus one.
    turn: [Word32; 2],
    /// Claims being copied, of each side.
    pub(super) claims: [Word32; 2],
    /// Ends attached, of each side.
    pub(super) ends: [Word32; 2],
    /// Which sides ever had an end, as bits.
    pub(super) seen: Word32,
    /// Which sides' events have a poller, as bits.
    pub(super) armed: Word32,
    tail: [Word32; 2],
    /// How many were served since the head of the queue became it, and was not.
    overtaken: [Word32; 2],
    ticket: Word64,
    /// When somebody last looked for the dead, in milliseconds of the monotonic clock.
    swept: Word64,
    /// Slots from here on were never used.
    pub(super) used: Word32,
}

#[cfg(test)]
impl State {
    pub(super) fn swept(&self) -> u64 {
        self.swept.get()
    }
}

/// One end: who it is, what it has claimed, and its place in the queue.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub(super) struct Slot {
    pub(super) wake: Signal,
    /// Tells a slot's owners apart. Changed by the next owner before anything else.
    pub(super) generation: Signal,
    /// The owner's process and attachment. Read without the lock.
    pub(super) process: Signal,
    pub(super) attachment: [Signal; 2],
    pub(super) kind: Word32,
    pub(super) claim: Word32,
    queued: Word32,
    pub(super) pos: Word64,
    pub(super) len: Word64,
    ticket: Word64,
    /// How much space it waits for, while it looks and when it sleeps.
    need: [Word64; 2],
    next: Word32,
    previous: Word32,
    pub(super) held: Word64,
    /// The processor on which the last turn was given, plus one. Read without the lock.
    giver: Signal,
}

/// What is being shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Bytes,
    Tokens,
}

/// Fixed when the pipe was made. Each process keeps its own copy, so that no peer can change it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) purpose: Purpose,
    /// Bytes (a power of two) or tokens.
    pub(super) capacity: u64,
    /// Up to here a write is one piece, and copied under the lock.
    pub(super) atomic: usize,
    /// The most that one claim takes.
    pub(super) chunk: usize,
    /// How often one who waits may be overtaken: 0 is first come, first served.
    pub(super) overtakes: u32,
}

/// Where the state lies and what its surroundings can do.
pub(super) trait Platform: Send + Sync {
    fn state(&self) -> &State;
    fn slots(&self) -> &[Slot];
    /// The processor that this thread runs on, as long as it does.
    fn cpu(&self) -> u32;
    /// Sleeps while the word has this value; may return early, and after at most this long.
    fn wait(&self, word: &Signal, expected: u32, at_most: Duration);
    fn wake(&self, word: &Signal);
    /// Makes one side's event readable.
    fn notify(&self, side: usize);
    /// Whether the owner of this slot lives.
    fn alive(&self, index: u32) -> bool;
    /// False in a forked child, which owns none of its parent's ends.
    fn ours(&self) -> bool;
    /// Milliseconds of a clock that all peers share.
    fn clock(&self) -> u64;
    /// How often to look before sleeping.
    fn spins(&self) -> u32;
}

/// How much space a writer waits for: while it looks, its next piece; when it sleeps, not less, and more where waking it for
/// every piece would be dear. A reader waits for anything.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Need {
    pub(super) looking: u64,
    pub(super) asleep: u64,
}

/// How long to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    None,
    Until(Instant),
    Endless,
}

impl Patience {
    pub(super) fn at_most(span: Duration) -> Patience {
        Instant::now().checked_add(span).map_or(Patience::Endless, Patience::Until)
    }
}

/// What came of one try, with the lock held.
#[derive(Debug)]
pub(super) enum Step<T> {
    Done(T),
    NotYet,
    Closed,
}

/// Why there was no more to be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// The other side is gone.
    Closed,
    WouldBlock,
    TimedOut,
    /// The positions contradict each other.
    Damaged,
    /// This is a forked child with its parent's end.
    Forked,
}

/// An end's place among the others.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) index: u32,
    /// The name under which it takes the lock.
    name: u32,
    side: usize,
    looks: Looks,
}

impl Seat {
    pub(super) fn new(index: u32, generation: u32, side: usize) -> Seat {
        Seat { index, name: (generation << INDEX_BITS | (index + 1)) << 1, side, looks: Looks::default() }
    }
}

/// How often to look before sleeping: often where looking pays, not at all where who is waited for needs this processor. Then
/// every now and again a long look finds out whether that has changed.
#[derive(Debug, Default)]
struct Looks {
    worth: Cell<u32>,
    sleeps: Cell<u32>,
    /// How long to hold back once woken, because others have been quicker of late.
    hold_back: Cell<u32>,
}

fn pause_for(pauses: u32) {
    for _ in 0..pauses {
        spin_loop();
    }
}

impl Looks {
    const SLEEPS_BETWEEN_TRIALS: u32 = 8;
    const MOST_HOLDING_BACK: u32 = 4096;

    /// Woken for nothing: somebody who was running took it. While it holds back its turn stands, so nobody else is woken for
    /// nothing either, and those who feed themselves are left alone for a few microseconds.
    fn lost(&self) {
        self.hold_back.set((self.hold_back.get() * 2 + 32).min(Self::MOST_HOLDING_BACK));
    }

    fn won(&self) {
        self.hold_back.set(self.hold_back.get() / 2);
    }

    /// Looks until `there`, at most so often. Whether it was.
    fn look(&self, most: u32, there: impl Fn() -> bool) -> bool {
        if most == 0 {
            return there();
        }
        let sleeps = self.sleeps.get().wrapping_add(1);
        self.sleeps.set(sleeps);
        let trial = if sleeps % Self::SLEEPS_BETWEEN_TRIALS == 1 { most } else { 0 };
        let looks = self.worth.get().max(trial).min(most);
        for _ in 0..looks {
            if there() {
                self.worth.set((looks * 2).min(most));
                return true;
            }
            spin_loop();
        }
        self.worth.set(self.worth.get() / 4 * 3);
        there()
    }
}

/// The generation after this one, in what a lock's word has room for. A damaged slot may hold any number.
pub(super) fn next_generation(generation: u32) -> u32 {
    generation.wrapping_add(1) % GENERATIONS
}

/// A pipe, seen from one process.
#[derive(Debug)]
pub(super) struct Core<P> {
    pub(super) platform: P,
    pub(super) shape: Shape,
}

impl<P: Platform> Core<P> {
    #[inline]
    pub(super) fn state(&self) -> &State {
        self.platform.state()
    }

    #[inline]
    pub(super) fn slot(&self, index: u32) -> &Slot {
        &self.platform.slots()[index as usize]
    }

    /// Takes the lock, repairing what a dead owner left.
    #[inline]
    pub(super) fn enter(&self, seat: &Seat) -> Result<Inside<'_, P>, Stop> {
        if !self.platform.ours() {
            return Err(Stop::Forked);
        }
        let owner_died = !self.state().lock.change(0, seat.name) && self.lock_slowly(seat.name);
        let inside = Inside { core: self, wakes: [0, 0].map(Cell::new), calls: [Call::All, Call::All].map(Cell::new) };
        if owner_died {
            inside.repair();
        }
        let state = self.state();
        if self.shape.purpose == Purpose::Bytes
            && state.alloc.get().wrapping_sub(state.taken.get()) > self.shape.capacity
        {
            return Err(Stop::Damaged);
        }
        Ok(inside)
    }

    /// Returns whether the lock was taken over from a dead owner.
    #[cold]
    fn lock_slowly(&self, name: u32) -> bool {
        let lock = &self.state().lock;
        // Ever longer pauses: each look takes the line away from the owner.
        let (mut left, mut pause) = (self.platform.spins() * 4, 1);
        while left > 0 {
            if lock.load() == 0 && lock.change(0, name) {
                return false;
            }
            pause_for(pause);
            left = left.saturating_sub(pause);
            pause = (pause * 2).min(4);
        }
        loop {
            let seen = lock.load();
            if seen == 0 {
                // Others may sleep on it: only who has slept can know that nobody does.
                if lock.change(0, name | CONTENDED) {
                    return false;
                }
                continue;
            }
            let marked = seen | CONTENDED;
            if seen != marked && !lock.change(seen, marked) {
                continue;
            }
            self.platform.wait(lock, marked, LOCK_BOUND);
            if lock.load() == marked && !self.owner_lives(seen >> 1) && lock.change(marked, name | CONTENDED) {
                return true;
            }
        }
    }

    fn owner_lives(&self, name: u32) -> bool {
        let index = (name & ((1 << INDEX_BITS) - 1)).wrapping_sub(1);
        let Some(slot) = self.platform.slots().get(index as usize) else { return false };
        slot.generation.load() == name >> INDEX_BITS && self.platform.alive(index)
    }

    /// Tries until it is done, the other side is gone, or patience is over.
    ///
    /// `need` is what to give it the turn for: not less than what `attempt` needs.
    #[inline]
    pub(super) fn serve<T>(
        &self,
        seat: &Seat,
        need: Need,
        patience: Patience,
        mut attempt: impl FnMut(&Inside<'_, P>) -> Step<T>,
    ) -> Result<T, Stop> {
        let inside = self.enter(seat)?;
        if inside.may_overtake(seat.side) {
            match attempt(&inside) {
                Step::Done(done) => {
                    inside.count_overtaking(seat.side);
                    return Ok(done);
                }
                Step::Closed => return Err(Stop::Closed),
                Step::NotYet => {}
            }
        }
        self.serve_slowly(inside, seat, need, patience, &mut attempt)
    }

    /// Tries once, and looks for nobody.
    pub(super) fn serve_now<T>(&self, seat: &Seat, attempt: impl FnOnce(&Inside<'_, P>) -> Step<T>) -> Result<T, Stop> {
        let inside = self.enter(seat)?;
        if !inside.may_overtake(seat.side) {
            return Err(Stop::WouldBlock);
        }
        match attempt(&inside) {
            Step::Done(done) => {
                inside.count_overtaking(seat.side);
                Ok(done)
            }
            Step::Closed => Err(Stop::Closed),
            Step::NotYet => Err(Stop::WouldBlock),
        }
    }

    #[cold]
    fn serve_slowly<'a, T>(
        &'a self,
        mut inside: Inside<'a, P>,
        seat: &Seat,
        need: Need,
        patience: Patience,
        attempt: &mut dyn FnMut(&Inside<'_, P>) -> Step<T>,
    ) -> Result<T, Stop> {
        let state = self.state();
        if patience == Patience::None {
            if !inside.sweep_if_due() || !inside.may_overtake(seat.side) {
                return Err(Stop::WouldBlock);
            }
            return match attempt(&inside) {
                Step::Done(done) => {
                    inside.count_overtaking(seat.side);
                    Ok(done)
                }
                Step::Closed => Err(Stop::Closed),
                Step::NotYet => Err(Stop::WouldBlock),
            };
        }
        inside.enqueue(seat.index, seat.side, need);
        loop {
            drop(inside);
            let (woken, late) = self.sleep(seat, patience);
            if woken && seat.looks.hold_back.get() > 0 && self.looks_worth(seat) > 0 {
                pause_for(seat.looks.hold_back.get());
            }
            inside = self.enter(seat)?;
            if state.turn[seat.side].get() == seat.index + 1 {
                state.turn[seat.side].set(0);
            }
            self.slot(seat.index).wake.store(wake::AWAKE);
            if !woken {
                inside.sweep();
            }
            let first = state.head[seat.side].get() == seat.index + 1;
            if first || inside.may_overtake(seat.side) {
                let step = attempt(&inside);
                if !matches!(step, Step::NotYet) {
                    inside.dequeue(seat.index);
                }
                match step {
                    Step::Done(done) => {
                        seat.looks.won();
                        if !first {
                            inside.count_overtaking(seat.side);
                        }
                        if !woken && self.shape.overtakes > 0 {
                            inside.pass_over_the_late(seat.side);
                        }
                        return Ok(done);
                    }
                    Step::Closed => return Err(Stop::Closed),
                    Step::NotYet => {
                        if woken {
                            seat.looks.lost();
                        }
                    }
                }
            }
            if late {
                inside.dequeue(seat.index);
                return Err(Stop::TimedOut);
            }
        }
    }

    /// How often to look at most: hardly where the last turn was given on this processor, which the others then need to go on.
    fn looks_worth(&self, seat: &Seat) -> u32 {
        let shared = self.slot(seat.index).giver.load() == self.platform.cpu() + 1;
        if shared { self.platform.spins() / 8 } else { self.platform.spins() }
    }

    /// Waits for the turn. Tells whether it came, and whether patience is over.
    fn sleep(&self, seat: &Seat, patience: Patience) -> (bool, bool) {
        let word = &self.slot(seat.index).wake;
        if seat.looks.look(self.looks_worth(seat), || word.load() == wake::TURN) {
            return (true, false);
        }
        let left = match patience {
            Patience::Until(end) => end.saturating_duration_since(Instant::now()).min(BOUND),
            Patience::None | Patience::Endless => BOUND,
        };
        if word.change(wake::AWAKE, wake::ASLEEP) {
            self.platform.wait(word, wake::ASLEEP, left);
        }
        let late = matches!(patience, Patience::Until(end) if Instant::now() >= end);
        (word.load() == wake::TURN, late)
    }

    /// Takes a seat in a slot that nobody else can have: see `Shared` and `Local` for how it is got.
    ///
    /// Returns false where the slot still holds a hole.
    pub(super) fn attach(&self, seat: &Seat, kind: u32) -> Result<bool, Stop> {
        let inside = self.enter(seat)?;
        let slot = self.slot(seat.index);
        if slot.kind.get() != kind::FREE {
            // Its owner is dead, or this seat could not have been had.
            inside.reap(seat.index);
        }
        if slot.kind.get() != kind::FREE {
            return Ok(false);
        }
        let state = self.state();
        state.used.set(state.used.get().max(seat.index + 1));
        slot.claim.set(claim::NONE);
        slot.queued.set(0);
        slot.held.set(0);
        slot.wake.store(wake::AWAKE);
        state.seen.set(state.seen.get() | 1 << seat.side);
        slot.kind.set(kind);
        state.ends[seat.side].add(1);
        Ok(true)
    }

    /// Leaves the seat; `last` runs with the lock held, when all else is done.
    pub(super) fn detach(&self, seat: &Seat, last: impl FnOnce()) {
        if death::dead() {
            return;
        }
        if let Ok(inside) = self.enter(seat) {
            inside.reap(seat.index);
            last();
        }
    }
}

/// The lock, held. Giving it back wakes whoever can go on.
#[derive(Debug)]
pub(super) struct Inside<'a, P: Platform> {
    pub(super) core: &'a Core<P>,
    /// Sleepers to wake once the lock is free, as index plus one.
    wakes: [Cell<u32>; 2],
    /// Who may be given the turn of each side.
    calls: [Cell<Call>; 2],
}

/// Whom to give the turn to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    All,
    /// Who looks, but nobody who would have to be woken: the next section of this call has more for them.
    Lookers,
    /// The next section of this call takes what there is itself.
    Nobody,
}

impl<P: Platform> Inside<'_, P> {
    #[inline]
    fn state(&self) -> &State {
        self.core.platform.state()
    }

    fn used(&self) -> impl Iterator<Item = (u32, &Slot)> {
        let used = self.state().used.get();
        (0..used).zip(self.core.platform.slots())
    }

    /// Readers may have everything before it.
    #[inline]
    pub(super) fn published(&self) -> u64 {
        let alloc = self.state().alloc.get();
        if self.state().claims[WRITE].get() == 0 { alloc } else { self.oldest_claim(kind::WRITER, alloc) }
    }

    /// Writers may have everything before it, plus the capacity.
    #[inline]
    pub(super) fn freed(&self) -> u64 {
        let taken = self.state().taken.get();
        if self.state().claims[READ].get() == 0 { taken } else { self.oldest_claim(kind::READER, taken) }
    }

    fn oldest_claim(&self, kind: u32, end: u64) -> u64 {
        let of_kind = |(_, slot): &(u32, &Slot)| slot.kind.get() == kind && slot.claim.get() == claim::COPYING;
        self.used().filter(of_kind).map(|(_, slot)| slot.pos.get()).fold(end, u64::min)
    }

    #[inline]
    pub(super) fn free(&self) -> u64 {
        let capacity = self.core.shape.capacity;
        capacity.saturating_sub(self.state().alloc.get().wrapping_sub(self.freed()))
    }

    /// Steps over holes at the front, and says where the next one starts.
    #[cold]
    pub(super) fn pass_holes(&self, published: u64) -> u64 {
        let state = self.state();
        loop {
            let taken = state.taken.get();
            let first =
                self.used().filter(|(_, slot)| slot.claim.get() == claim::HOLE).min_by_key(|(_, slot)| slot.pos.get());
            let Some((_, slot)) = first else { return published };
            if slot.pos.get() > taken {
                return slot.pos.get().min(published);
            }
            if published <= taken {
                return published;
            }
            state.taken.set(taken.max(slot.pos.get().wrapping_add(slot.len.get())));
            self.forget_hole(slot);
        }
    }

    fn forget_hole(&self, slot: &Slot) {
        slot.claim.set(claim::NONE);
        self.state().holes.subtract(1);
        if slot.kind.get() == kind::HOLE {
            slot.kind.set(kind::FREE);
        }
    }

    /// Whether nothing will ever come to this side again.
    #[inline]
    pub(super) fn other_side_gone(&self, side: usize) -> bool {
        let other = 1 - side;
        self.state().ends[other].get() == 0 && self.state().seen.get() & 1 << other != 0
    }

    fn could_go_on(&self, side: usize, need: u64) -> bool {
        if self.core.shape.purpose == Purpose::Tokens {
            return self.state().taken.get() < self.core.shape.capacity;
        }
        let ready = match side {
            READ => self.published() != self.state().taken.get(),
            _ => self.free() >= need,
        };
        ready || self.other_side_gone(side)
    }

    /// Gives each side's turn to the head of its queue, where it can go on and nobody is on the way.
    #[inline]
    fn settle(&self) {
        let state = self.state();
        for side in [READ, WRITE] {
            let head = state.head[side].get();
            if head != 0 && state.turn[side].get() == 0 {
                self.give_turn(side, head);
            }
        }
        if state.armed.get() != 0 {
            self.notify_pollers();
        }
    }

    /// Restricts who is given the side's turn with this section. Its call promises another section at once, which does not.
    pub(super) fn call(&self, side: usize, whom: Call) {
        self.calls[side].set(whom);
    }

    fn give_turn(&self, side: usize, head: u32) {
        let whom = self.calls[side].get();
        if whom == Call::Nobody {
            return;
        }
        let slot = self.core.slot(head - 1);
        // A writer that only looks goes on with its next piece. To wake one that sleeps is dear: let there be more first.
        let need = slot.need[usize::from(slot.wake.load() == wake::ASLEEP)].get();
        // A writer whose last claim is an unpassed hole cannot claim again.
        if !self.could_go_on(side, need) || slot.claim.get() != claim::NONE {
            return;
        }
        self.state().turn[side].set(head);
        slot.giver.store(self.core.platform.cpu() + 1);
        if whom == Call::Lookers {
            if !slot.wake.change(wake::AWAKE, wake::TURN) {
                self.state().turn[side].set(0);
            }
        } else if slot.wake.swap(wake::TURN) == wake::ASLEEP {
            self.wakes[side].set(head);
        }
    }

    #[cold]
    fn notify_pollers(&self) {
        let armed = self.state().armed.get();
        for side in [READ, WRITE] {
            if armed & 1 << side != 0 && self.could_go_on(side, 1) {
                self.core.platform.notify(side);
                self.state().armed.set(self.state().armed.get() & !(1 << side));
            }
        }
    }

    /// Asks that the side's event be made readable when there is something for it. True when there is already.
    pub(super) fn arm(&self, side: usize) -> bool {
        self.sweep_if_due();
        if self.could_go_on(side, 1) {
            return true;
        }
        self.state().armed.set(self.state().armed.get() | 1 << side);
        false
    }

    #[inline]
    pub(super) fn may_overtake(&self, side: usize) -> bool {
        self.state().head[side].get() == 0 || self.state().overtaken[side].get() < self.core.shape.overtakes
    }

    #[inline]
    fn count_overtaking(&self, side: usize) {
        if self.core.shape.overtakes != u32::MAX && self.state().head[side].get() != 0 {
            self.state().overtaken[side].add(1);
        }
    }

    fn enqueue(&self, index: u32, side: usize, need: Need) {
        let (state, slot) = (self.state(), self.core.slot(index));
        slot.ticket.set(state.ticket.get());
        state.ticket.add(1);
        slot.need[0].set(need.looking);
        slot.need[1].set(need.asleep);
        slot.wake.store(wake::AWAKE);
        slot.queued.set(1);
        self.link_last(index, side);
    }

    fn link_last(&self, index: u32, side: usize) {
        let (state, slot) = (self.state(), self.core.slot(index));
        let last = state.tail[side].get();
        slot.next.set(0);
        slot.previous.set(last);
        match last {
            0 => state.head[side].set(index + 1),
            _ => self.core.slot(last - 1).next.set(index + 1),
        }
        state.tail[side].set(index + 1);
    }

    fn side_of(slot: &Slot) -> usize {
        if slot.kind.get() == kind::WRITER { WRITE } else { READ }
    }

    fn dequeue(&self, index: u32) {
        let (state, slot) = (self.state(), self.core.slot(index));
        if slot.queued.get() == 0 {
            return;
        }
        let side = Self::side_of(slot);
        slot.queued.set(0);
        let (next, previous) = (slot.next.get(), slot.previous.get());
        match previous {
            0 => {
                state.head[side].set(next);
                state.overtaken[side].set(0);
            }
            _ => self.core.slot(previous - 1).next.set(next),
        }
        match next {
            0 => state.tail[side].set(previous),
            _ => self.core.slot(next - 1).previous.set(previous),
        }
        if state.turn[side].get() == index + 1 {
            state.turn[side].set(0);
        }
    }

    /// The woken one has not come for so long that another was served by the clock (it may be stopped): the next wake-up goes
    /// to somebody else.
    fn pass_over_the_late(&self, side: usize) {
        let late = self.state().turn[side].get();
        if late != 0 {
            let [looking, asleep] = [0, 1].map(|which| self.core.slot(late - 1).need[which].get());
            let need = Need { looking, asleep };
            self.dequeue(late - 1);
            self.enqueue(late - 1, side, need);
        }
    }

    /// Looks for the dead, where there is an occasion or nobody has lately. Whether it looked.
    fn sweep_if_due(&self) -> bool {
        let state = self.state();
        let idle = state.claims[READ].get() == 0 && state.claims[WRITE].get() == 0;
        if idle && self.core.platform.clock().wrapping_sub(state.swept.get()) < SWEEP_MILLIS {
            return false;
        }
        self.sweep();
        true
    }

    /// Takes away the ends of the dead.
    pub(super) fn sweep(&self) {
        self.state().swept.set(self.core.platform.clock());
        for (index, slot) in self.used() {
            let attached = matches!(slot.kind.get(), kind::READER | kind::WRITER | kind::HOLDER);
            if attached && !self.core.platform.alive(index) {
                self.reap(index);
            }
        }
    }

    /// Takes an end away: gives back what it holds, and makes a hole of what it was writing.
    pub(super) fn reap(&self, index: u32) {
        let (state, slot) = (self.state(), self.core.slot(index));
        self.dequeue(index);
        let side = Self::side_of(slot);
        match slot.kind.get() {
            kind::READER => {
                if slot.claim.get() == claim::COPYING {
                    slot.claim.set(claim::NONE);
                    state.claims[READ].subtract(1);
                }
                slot.kind.set(kind::FREE);
            }
            kind::WRITER => {
                if slot.claim.get() == claim::COPYING {
                    slot.claim.set(claim::HOLE);
                    state.claims[WRITE].subtract(1);
                    state.holes.add(1);
                }
                slot.kind.set(if slot.claim.get() == claim::HOLE { kind::HOLE } else { kind::FREE });
            }
            kind::HOLDER => {
                slot.kind.set(kind::FREE);
                state.taken.subtract(slot.held.get());
            }
            _ => return,
        }
        state.ends[side].subtract(1);
    }

    /// Computes all that follows from the slots and the two positions anew, after the owner of the lock died anywhere.
    #[cold]
    pub(super) fn repair(&self) {
        let state = self.state();
        let (mut ends, mut claims, mut holes, mut held) = ([0, 0], [0, 0], 0, 0u64);
        let mut waiting = Vec::new();
        for (index, slot) in self.used() {
            if slot.queued.get() != 0 && matches!(slot.kind.get(), kind::READER | kind::WRITER | kind::HOLDER) {
                waiting.push((slot.ticket.get(), index));
            }
            let end = slot.pos.get().wrapping_add(slot.len.get());
            match slot.kind.get() {
                kind::READER => {
                    ends[READ] += 1;
                    // A claim that runs past the position was being made when its owner died.
                    if slot.claim.get() != claim::NONE && end > state.taken.get() {
                        slot.claim.set(claim::NONE);
                    }
                    claims[READ] += u32::from(slot.claim.get() == claim::COPYING);
                }
                kind::WRITER | kind::HOLE => {
                    ends[WRITE] += u32::from(slot.kind.get() == kind::WRITER);
                    let passed = slot.claim.get() == claim::HOLE && end <= state.taken.get();
                    if slot.claim.get() != claim::NONE && (end > state.alloc.get() || passed) {
                        slot.claim.set(claim::NONE);
                    }
                    if slot.kind.get() == kind::HOLE && slot.claim.get() != claim::HOLE {
                        slot.kind.set(kind::FREE);
                    }
                    claims[WRITE] += u32::from(slot.claim.get() == claim::COPYING);
                    holes += u32::from(slot.claim.get() == claim::HOLE);
                }
                kind::HOLDER => {
                    ends[READ] += 1;
                    held = held.wrapping_add(slot.held.get());
                }
                _ => {}
            }
        }
        for side in [READ, WRITE] {
            state.ends[side].set(ends[side]);
            state.claims[side].set(claims[side]);
            state.head[side].set(0);
            state.tail[side].set(0);
            state.turn[side].set(0);
        }
        state.holes.set(holes);
        if self.core.shape.purpose == Purpose::Tokens {
            state.taken.set(held);
        }
        waiting.sort_unstable();
        for (_, index) in waiting {
            self.link_last(index, Self::side_of(self.core.slot(index)));
        }
        self.sweep();
    }
}

impl<P: Platform> Drop for Inside<'_, P> {
    #[inline]
    fn drop(&mut self) {
        if death::dead() {
            return;
        }
        self.settle();
        let lock = &self.state().lock;
        if lock.swap(0) & CONTENDED != 0 {
            self.core.platform.wake(lock);
        }
        for sleeper in &self.wakes {
            if sleeper.get() != 0 {
                death::step();
                self.core.platform.wake(&self.core.slot(sleeper.get() - 1).wake);
            }
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::collections::VecDeque;
    use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
    use std::sync::{Arc, Mutex};

    use super::super::local::Local;
    use super::super::sync::pauses;
    use super::*;

    type Deed = Box<dyn FnOnce() + Send>;

    /// A process's memory without a kernel, a clock and a processor: what these would say is said by the test.
    struct Staged {
        local: Local,
        spins: AtomicU32,
        cpu: AtomicU32,
        clock: AtomicU64,
        /// Slots whose owners are dead, as bits.
        dead: AtomicU32,
        /// What others do before the next end looks for the lock, and while it sleeps.
        before: Mutex<Option<Deed>>,
        during: Mutex<VecDeque<Deed>>,
        /// Which words were woken, by address.
        wakes: Mutex<Vec<usize>>,
        notified: [AtomicU32; 2],
    }

    fn address(word: &Signal) -> usize {
        std::ptr::from_ref(word).addr()
    }

    impl Platform for Staged {
        fn state(&self) -> &State {
            self.local.state()
        }

        fn slots(&self) -> &[Slot] {
            self.local.slots()
        }

        fn cpu(&self) -> u32 {
            self.cpu.load(Ordering::SeqCst)
        }

        fn wait(&self, word: &Signal, expected: u32, _at_most: Duration) {
            assert_eq!(word.load(), expected, "it lies down although the word has changed");
            let deed = self.during.lock().expect("no panic").pop_front().expect("it sleeps where nobody would wake it");
            deed();
        }

        fn wake(&self, word: &Signal) {
            self.wakes.lock().expect("no panic").push(address(word));
        }

        fn notify(&self, side: usize) {
            self.notified[side].fetch_add(1, Ordering::SeqCst);
        }

        fn alive(&self, index: u32) -> bool {
            self.dead.load(Ordering::SeqCst) & 1 << index == 0
        }

        fn ours(&self) -> bool {
            true
        }

        fn clock(&self) -> u64 {
            self.clock.load(Ordering::SeqCst)
        }

        fn spins(&self) -> u32 {
            if let Some(deed) = self.before.lock().expect("no panic").take() {
                deed();
            }
            self.spins.load(Ordering::SeqCst)
        }
    }

    impl Staged {
        fn while_it_sleeps(&self, deed: impl FnOnce() + Send + 'static) {
            self.during.lock().expect("no panic").push_back(Box::new(deed));
        }

        fn notified(&self) -> [u32; 2] {
            [READ, WRITE].map(|side| self.notified[side].load(Ordering::SeqCst))
        }

        fn wakes(&self) -> Vec<usize> {
            std::mem::take(&mut *self.wakes.lock().expect("no panic"))
        }
    }

    /// A pipe with these ends attached, in the slots of their order, in which who waits may be overtaken so often.
    fn overtaking(overtakes: u32, purpose: Purpose, kinds: &[u32]) -> (Arc<Core<Staged>>, Vec<Seat>) {
        let shape = Shape { purpose, capacity: 4096, atomic: 16, chunk: 64, overtakes };
        let platform = Staged {
            local: Local::new(4096, 8).expect("memory"),
            spins: AtomicU32::new(0),
            cpu: AtomicU32::new(3),
            clock: AtomicU64::new(0),
            dead: AtomicU32::new(0),
            before: Mutex::default(),
            during: Mutex::default(),
            wakes: Mutex::default(),
            notified: Default::default(),
        };
        let core = Core { platform, shape };
        let seats: Vec<Seat> = (0u32..)
            .zip(kinds)
            .map(|(index, &of)| Seat::new(index, 1, if of == kind::WRITER { WRITE } else { READ }))
            .collect();
        for (seat, &of) in seats.iter().zip(kinds) {
            core.slot(seat.index).generation.store(1);
            assert_eq!(core.attach(seat, of), Ok(true));
        }
        (Arc::new(core), seats)
    }

    /// First come, first served.
    fn with(purpose: Purpose, kinds: &[u32]) -> (Arc<Core<Staged>>, Vec<Seat>) {
        overtaking(0, purpose, kinds)
    }

    const THREE_READERS: [u32; 4] = [kind::READER, kind::READER, kind::READER, kind::WRITER];

    fn claims(slot: &Slot, claim: u32, pos: u64, len: u64) {
        slot.claim.set(claim);
        slot.pos.set(pos);
        slot.len.set(len);
    }

    /// Takes a byte, of which there is nothing but the position.
    fn take(inside: &Inside<'_, Staged>) -> Step<()> {
        let taken = &inside.state().taken;
        if inside.published() == taken.get() {
            return Step::NotYet;
        }
        taken.add(1);
        Step::Done(())
    }

    /// Who waits on a side, from the head on, and from the tail back.
    fn queue(core: &Core<Staged>, side: usize) -> (Vec<u32>, Vec<u32>) {
        let follow = |from: &[Word32; 2], link: fn(&Slot) -> &Word32| {
            let mut all = Vec::new();
            let mut at = from[side].get();
            while at != 0 && all.len() < 8 {
                all.push(at - 1);
                at = link(core.slot(at - 1)).get();
            }
            all
        };
        (follow(&core.state().head, |slot| &slot.next), follow(&core.state().tail, |slot| &slot.previous))
    }

    #[test]
    fn who_was_woken_for_nothing_holds_back_longer_each_time_and_half_as_long_once_served() {
        let looks = Looks::default();
        for held_back in [32, 96, 224, 480, 992, 2016, 4064, 4096, 4096] {
            looks.lost();
            assert_eq!(looks.hold_back.get(), held_back);
        }
        looks.won();
        assert_eq!(looks.hold_back.get(), 2048);
        looks.won();
        assert_eq!(looks.hold_back.get(), 1024);
    }

    #[test]
    fn an_end_looks_as_long_as_it_paid_lately_and_every_eighth_time_as_long_as_it_may() {
        let looks = Looks::default();
        let look = |most: u32, found_by: u32| {
            let asked = Cell::new(0);
            let found = looks.look(most, || {
                asked.set(asked.get() + 1);
                asked.get() >= found_by
            });
            (found, asked.get())
        };
        let never = u32::MAX;
        assert_eq!(look(0, never), (false, 1));
        assert_eq!(look(0, 1), (true, 1));
        // Each time it asks once more, before it lies down.
        let asked: Vec<(bool, u32)> = (0..9).map(|_| look(64, never)).collect();
        assert_eq!(asked, [65, 1, 1, 1, 1, 1, 1, 1, 65].map(|asked| (false, asked)));
        looks.worth.set(10);
        assert_eq!((look(64, 7), looks.worth.get()), ((true, 7), 20));
        assert_eq!((look(64, never), looks.worth.get()), ((false, 21), 15));
        assert_eq!((look(64, 16), looks.worth.get()), ((true, 16), 9));
        looks.worth.set(40);
        assert_eq!((look(64, 1), looks.worth.get()), ((true, 1), 64));
    }

    #[test]
    fn generations_go_round_in_what_a_name_has_room_for_whatever_the_memory_says() {
        assert_eq!([0, 1, 2, GENERATIONS - 1].map(next_generation), [1, 2, 3, 0]);
        // Only damage leaves such a number in a slot.
        assert_eq!([GENERATIONS, u32::MAX].map(next_generation), [1, 0]);
        let name = Seat::new(MOST_ENDS - 1, GENERATIONS - 1, READ).name >> 1;
        assert_eq!((name >> INDEX_BITS, name & ((1 << INDEX_BITS) - 1)), (GENERATIONS - 1, MOST_ENDS));
        assert_ne!(Seat::new(0, 0, READ).name, 0, "a name is not that of nobody");
    }

    #[test]
    fn a_lock_given_back_while_it_is_looked_for_is_taken_unmarked() {
        let (core, seats) = with(Purpose::Bytes, &[kind::READER, kind::WRITER]);
        core.state().lock.store(seats[0].name);
        core.platform.spins.store(1, Ordering::SeqCst);
        let other = Arc::clone(&core);
        *core.platform.before.lock().expect("no panic") = Some(Box::new(move || other.state().lock.store(0)));
        let inside = core.enter(&seats[1]).expect("a sound pipe");
        assert_eq!(core.state().lock.load(), seats[1].name);
        drop(inside);
        assert_eq!((core.state().lock.load(), core.platform.wakes()), (0, vec![]));
    }

    #[test]
    fn the_lock_is_looked_for_at_ever_longer_intervals_then_slept_on_and_taken_marked() {
        let (core, seats) = with(Purpose::Bytes, &[kind::READER, kind::WRITER]);
        let (owner, lock) = (seats[0].name, &core.state().lock);
        lock.store(owner);
        core.platform.spins.store(16, Ordering::SeqCst);
        let other = Arc::clone(&core);
        core.platform.while_it_sleeps(move || {
            assert_eq!(other.state().lock.load(), owner | CONTENDED);
            other.state().lock.store(0);
        });
        pauses();
        let inside = core.enter(&seats[1]).expect("a sound pipe");
        // 64 are left: 1, 2, and then 4 each time, of which the last is begun when 1 is left.
        assert_eq!(pauses(), 1 + 2 + 16 * 4);
        assert_eq!(lock.load(), seats[1].name | CONTENDED, "others may sleep on it");
        drop(inside);
        assert_eq!((lock.load(), core.platform.wakes()), (0, vec![address(lock)]));
    }

    #[test]
    fn who_does_not_wait_overtakes_nobody_in_fair_mode_though_it_looked_for_the_dead() {
        let (core, seats) = with(Purpose::Bytes, &THREE_READERS);
        core.enter(&seats[3]).expect("a sound pipe").enqueue(0, READ, Need::default());
        core.state().alloc.set(1);
        core.platform.clock.store(SWEEP_MILLIS, Ordering::SeqCst);
        let served = core.serve(&seats[1], Need::default(), Patience::None, take);
        assert_eq!((served, core.state().swept()), (Err(Stop::WouldBlock), SWEEP_MILLIS));
    }

    #[test]
    fn who_does_not_wait_overtakes_when_it_is_served_and_not_when_it_only_looked_for_the_dead() {
        let (core, seats) = overtaking(9, Purpose::Tokens, &[kind::HOLDER, kind::HOLDER, kind::HOLDER]);
        let (state, need) = (core.state(), Need::default());
        let take = |inside: &Inside<'_, Staged>| {
            if inside.state().taken.get() >= 4096 {
                return Step::NotYet;
            }
            inside.state().taken.add(1);
            Step::Done(())
        };
        core.slot(2).held.set(4096);
        state.taken.set(4096);
        core.enter(&seats[1]).expect("a sound bag").enqueue(0, READ, need);
        core.platform.clock.store(SWEEP_MILLIS, Ordering::SeqCst);
        assert_eq!(core.serve(&seats[1], need, Patience::None, take), Err(Stop::WouldBlock));
        assert_eq!((state.swept(), state.overtaken[READ].get()), (SWEEP_MILLIS, 0));
        core.platform.clock.store(2 * SWEEP_MILLIS, Ordering::SeqCst);
        core.platform.dead.store(1 << 2, Ordering::SeqCst);
        assert_eq!(core.serve(&seats[1], need, Patience::None, take), Ok(()));
        assert_eq!((state.taken.get(), state.overtaken[READ].get()), (1, 1));
    }

    #[test]
    fn who_was_woken_holds_back_where_it_would_look_and_who_woke_by_the_clock_does_not() {
        for (woken, spins, held_back) in [(true, 16, 100), (true, 0, 0), (false, 16, 0)] {
            let (core, seats) = with(Purpose::Bytes, &THREE_READERS);
            core.platform.spins.store(spins, Ordering::SeqCst);
            let seat = &seats[0];
            seat.looks.hold_back.set(100);
            // Not the turn of a trial.
            seat.looks.sleeps.set(1);
            let other = Arc::clone(&core);
            core.platform.while_it_sleeps(move || {
                other.state().alloc.add(1);
                if woken {
                    other.slot(0).wake.store(wake::TURN);
                }
            });
            pauses();
            assert_eq!(core.serve(seat, Need::default(), Patience::Endless, take), Ok(()));
            assert_eq!(pauses(), held_back, "{woken} {spins}");
            assert_eq!(seat.looks.hold_back.get(), 50);
        }
    }

    #[test]
    fn an_end_looks_less_where_its_last_turn_was_given_on_its_own_processor() {
        let (core, seats) = with(Purpose::Bytes, &THREE_READERS);
        core.platform.spins.store(80, Ordering::SeqCst);
        core.platform.cpu.store(3, Ordering::SeqCst);
        let looks = [0, 3, 4, 5].map(|giver| {
            core.slot(0).giver.store(giver);
            core.looks_worth(&seats[0])
        });
        assert_eq!(looks, [80, 80, 10, 80]);
    }

    #[test]
    fn the_turn_goes_with_the_processor_it_was_given_on_and_wakes_who_sleeps() {
        for (word, woken) in [(wake::AWAKE, false), (wake::ASLEEP, true)] {
            let (core, seats) = with(Purpose::Bytes, &THREE_READERS);
            let inside = core.enter(&seats[3]).expect("a sound pipe");
            inside.enqueue(1, READ, Need::default());
            core.slot(1).wake.store(word);
            core.state().alloc.set(1);
            drop(inside);
            assert_eq!((core.state().turn[READ].get(), core.slot(1).wake.load()), (2, wake::TURN));
            assert_eq!(core.slot(1).giver.load(), 4);
            let wakes = if woken { vec![address(&core.slot(1).wake)] } else { vec![] };
            assert_eq!(core.platform.wakes(), wakes);
        }
    }

    #[test]
    fn a_section_gives_the_turn_to_those_only_whom_it_calls() {
        for (whom, word, turn) in [
            (Call::All, wake::AWAKE, 1),
            (Call::All, wake::ASLEEP, 1),
            (Call::Lookers, wake::AWAKE, 1),
            (Call::Lookers, wake::ASLEEP, 0),
            (Call::Nobody, wake::AWAKE, 0),
            (Call::Nobody, wake::ASLEEP, 0),
        ] {
            let (core, seats) = with(Purpose::Bytes, &THREE_READERS);
            let inside = core.enter(&seats[3]).expect("a sound pipe");
            inside.enqueue(0, READ, Need::default());
            core.slot(0).wake.store(word);
            core.state().alloc.set(1);
            inside.call(READ, whom);
            drop(inside);
            assert_eq!(core.state().turn[READ].get(), turn, "{whom:?} {word}");
            assert_eq!(core.slot(0).wake.load(), if turn == 1 { wake::TURN } else { word }, "{whom:?}");
        }
    }

    #[test]
    fn a_writer_that_looks_has_the_turn_for_less_space_than_one_that_sleeps() {
        for (word, free, turn) in [
            (wake::AWAKE, 9, 0),
            (wake::AWAKE, 10, 2),
            (wake::AWAKE, 99, 2),
            (wake::ASLEEP, 10, 0),
            (wake::ASLEEP, 99, 0),
            (wake::ASLEEP, 100, 2),
        ] {
            let (core, seats) = with(Purpose::Bytes, &[kind::READER, kind::WRITER]);
            core.state().alloc.set(4096 - free);
            let inside = core.enter(&seats[0]).expect("a sound pipe");
            inside.enqueue(1, WRITE, Need { looking: 10, asleep: 100 });
            core.slot(1).wake.store(word);
            drop(inside);
            assert_eq!(core.state().turn[WRITE].get(), turn, "{word} {free}");
        }
    }

    #[test]
    fn who_waits_for_a_token_has_the_turn_when_one_is_free() {
        for (taken, turn) in [(4096, 0), (4095, 1), (0, 1)] {
            let (core, seats) = with(Purpose::Tokens, &[kind::HOLDER, kind::HOLDER]);
            core.state().taken.set(taken);
            core.enter(&seats[1]).expect("a sound bag").enqueue(0, READ, Need::default());
            assert_eq!(core.state().turn[READ].get(), turn, "{taken}");
        }
    }

    #[test]
    fn the_event_of_an_armed_side_becomes_readable_once_and_that_of_no_other() {
        let both = [kind::READER, kind::WRITER];
        for (side, before, notified) in [(READ, 0, [1, 0]), (WRITE, 4096, [0, 1])] {
            let (core, seats) = with(Purpose::Bytes, &both);
            let enter = || core.enter(&seats[0]).expect("a sound pipe");
            core.state().alloc.set(before);
            // To ask twice is to ask once.
            assert!(!enter().arm(side));
            assert!(!enter().arm(side));
            drop(enter());
            assert_eq!(core.platform.notified(), [0, 0], "nothing has come");
            core.state().alloc.set(before + 1);
            core.state().taken.set(before / 2);
            for _ in 0..3 {
                drop(enter());
            }
            assert_eq!((core.platform.notified(), core.state().armed.get()), (notified, 0));
            assert!(enter().arm(side), "there is something already");
            assert_eq!(core.state().armed.get(), 0);
        }
    }

    #[test]
    fn who_waits_is_overtaken_so_often_and_what_was_before_does_not_count() {
        let (core, seats) = overtaking(2, Purpose::Bytes, &THREE_READERS);
        let state = core.state();
        state.alloc.set(100);
        let take_now = || core.serve_now(&seats[1], take);
        assert_eq!([(); 3].map(|()| take_now()), [Ok(()); 3]);
        // Nobody takes the turn that this gives.
        core.enter(&seats[3]).expect("a sound pipe").enqueue(0, READ, Need::default());
        assert_eq!([(); 4].map(|()| take_now().is_ok()), [true, true, false, false]);
        assert_eq!(state.taken.get(), 5);
    }

    #[test]
    fn where_overtaking_has_no_bound_there_is_no_last_one() {
        let (core, seats) = overtaking(u32::MAX, Purpose::Bytes, &THREE_READERS);
        core.state().alloc.set(100);
        core.enter(&seats[3]).expect("a sound pipe").enqueue(0, READ, Need::default());
        core.state().overtaken[READ].set(u32::MAX - 1);
        assert_eq!([(); 3].map(|()| core.serve_now(&seats[1], take)), [Ok(()); 3]);
    }

    #[test]
    fn who_is_served_out_of_turn_has_overtaken_the_head_and_the_head_nobody() {
        for (first, waiting, overtaken) in [(0, 1, 1), (1, 1, 0)] {
            let (core, seats) = overtaking(9, Purpose::Bytes, &THREE_READERS);
            let queue_up = |core: &Core<Staged>, index| {
                core.enter(&Seat::new(3, 1, WRITE)).expect("a sound pipe").enqueue(index, READ, Need::default());
            };
            if first != waiting {
                queue_up(&core, first);
            }
            let other = Arc::clone(&core);
            core.platform.while_it_sleeps(move || {
                queue_up(&other, 2);
                other.state().alloc.set(1);
                other.slot(1).wake.store(wake::TURN);
            });
            assert_eq!(core.serve(&seats[1], Need::default(), Patience::Endless, take), Ok(()));
            assert_eq!(core.state().overtaken[READ].get(), overtaken, "{first}");
        }
    }

    #[test]
    fn who_is_served_by_the_clock_passes_over_the_late_unless_all_is_in_order() {
        let (kept, passed) = ((vec![0, 2], 1), (vec![2, 0], 0));
        for (woken, overtakes, after) in [(false, 2, &passed), (true, 2, &kept), (false, 0, &kept), (true, 0, &kept)] {
            let (core, seats) = overtaking(overtakes, Purpose::Bytes, &THREE_READERS);
            let other = Arc::clone(&core);
            core.platform.while_it_sleeps(move || {
                for index in [0, 2] {
                    let writer = Seat::new(3, 1, WRITE);
                    other.enter(&writer).expect("a sound pipe").enqueue(index, READ, Need::default());
                }
                // The first of them was woken and does not come.
                other.state().turn[READ].set(1);
                other.state().alloc.set(1);
                if woken {
                    other.slot(1).wake.store(wake::TURN);
                }
            });
            assert_eq!(core.serve(&seats[1], Need::default(), Patience::Endless, take), Ok(()));
            let now = (queue(&core, READ).0, core.state().turn[READ].get());
            assert_eq!(&now, after, "{woken} {overtakes}");
        }
    }

    #[test]
    fn the_late_goes_to_the_end_of_the_queue_with_what_it_waits_for() {
        let (core, seats) =
            with(Purpose::Bytes, &[kind::WRITER, kind::WRITER, kind::WRITER, kind::WRITER, kind::READER]);
        let inside = core.enter(&seats[4]).expect("a sound pipe");
        for index in 0..4 {
            let need = u64::from(index) * 10 + 5000;
            inside.enqueue(index, WRITE, Need { looking: need, asleep: need + 1 });
        }
        inside.pass_over_the_late(WRITE);
        assert_eq!(queue(&core, WRITE).0, [0, 1, 2, 3], "nobody is late");
        core.state().turn[WRITE].set(2);
        inside.pass_over_the_late(WRITE);
        assert_eq!(queue(&core, WRITE), (vec![0, 2, 3, 1], vec![1, 3, 2, 0]));
        assert_eq!(core.state().turn[WRITE].get(), 0);
        assert_eq!([0, 1].map(|which| core.slot(1).need[which].get()), [5010, 5011]);
    }

    #[test]
    fn who_leaves_the_queue_leaves_it_whole_and_takes_its_own_turn_along() {
        for (leaves, turn, order, left) in [
            (0, 1, [1, 2], 0),
            (0, 2, [1, 2], 2),
            (1, 1, [0, 2], 1),
            (1, 2, [0, 2], 0),
            (1, 3, [0, 2], 3),
            (2, 2, [0, 1], 2),
            (2, 3, [0, 1], 0),
        ] {
            let (core, seats) = with(Purpose::Bytes, &THREE_READERS);
            let inside = core.enter(&seats[3]).expect("a sound pipe");
            for index in 0..3 {
                inside.enqueue(index, READ, Need::default());
            }
            core.state().turn[READ].set(turn);
            inside.dequeue(leaves);
            let backwards: Vec<u32> = order.iter().rev().copied().collect();
            assert_eq!(queue(&core, READ), (order.to_vec(), backwards), "{leaves}");
            assert_eq!(core.state().turn[READ].get(), left, "{leaves} {turn}");
            // It is out: once more changes nothing.
            inside.dequeue(leaves);
            assert_eq!(queue(&core, READ).0, order);
        }
    }

    #[test]
    fn the_dead_are_looked_for_while_something_is_copied_and_after_a_time() {
        for (read_claims, write_claims, clock, looks) in [
            (0, 0, 1000, false),
            (0, 0, 1000 + SWEEP_MILLIS - 1, false),
            (0, 0, 1000 + SWEEP_MILLIS, true),
            (0, 0, 1000 + SWEEP_MILLIS + 1, true),
            (1, 0, 1000, true),
            (0, 1, 1000, true),
            (1, 1, 1000, true),
        ] {
            let (core, seats) = with(Purpose::Bytes, &THREE_READERS);
            let inside = core.enter(&seats[3]).expect("a sound pipe");
            core.state().swept.set(1000);
            core.state().claims[READ].set(read_claims);
            core.state().claims[WRITE].set(write_claims);
            core.platform.clock.store(clock, Ordering::SeqCst);
            core.platform.dead.store(1, Ordering::SeqCst);
            assert_eq!(inside.sweep_if_due(), looks, "{read_claims} {write_claims} {clock}");
            assert_eq!(core.slot(0).kind.get() == kind::FREE, looks);
            assert_eq!(core.state().swept(), if looks { clock } else { 1000 });
        }
    }

    #[test]
    fn repair_queues_who_waited_and_nobody_else() {
        let (core, seats) = with(Purpose::Bytes, &[kind::READER, kind::READER, kind::WRITER]);
        let inside = core.enter(&seats[2]).expect("a sound pipe");
        inside.enqueue(1, READ, Need::default());
        inside.repair();
        let state = core.state();
        assert_eq!([READ, WRITE].map(|side| (state.head[side].get(), state.tail[side].get())), [(2, 2), (0, 0)]);
        assert_eq!([0, 1].map(|index| core.slot(index).next.get()), [0, 0]);
    }

    #[test]
    fn repair_keeps_the_claims_that_the_positions_cover_and_no_other() {
        let (core, seats) =
            with(Purpose::Bytes, &[kind::READER, kind::READER, kind::WRITER, kind::WRITER, kind::WRITER]);
        let inside = core.enter(&seats[0]).expect("a sound pipe");
        let state = core.state();
        state.taken.set(20);
        state.alloc.set(50);
        claims(core.slot(0), claim::COPYING, 10, 10);
        claims(core.slot(1), claim::COPYING, 20, 5);
        claims(core.slot(2), claim::COPYING, 40, 10);
        claims(core.slot(3), claim::HOLE, 30, 10);
        claims(core.slot(4), claim::HOLE, 10, 10);
        // Of the dead: one hole is still ahead of the readers, and is kept.
        core.slot(3).kind.set(kind::HOLE);
        core.slot(4).kind.set(kind::HOLE);
        inside.repair();
        let kept = [0, 1, 2, 3, 4].map(|index| core.slot(index).claim.get());
        assert_eq!(kept, [claim::COPYING, claim::NONE, claim::COPYING, claim::HOLE, claim::NONE]);
        assert_eq!([3, 4].map(|index| core.slot(index).kind.get()), [kind::HOLE, kind::FREE]);
        let counts = [READ, WRITE].map(|side| (state.ends[side].get(), state.claims[side].get()));
        assert_eq!((counts, state.holes.get()), ([(2, 1), (1, 1)], 1));
    }

    #[test]
    fn repair_counts_the_holders_and_what_they_hold() {
        let (core, seats) = with(Purpose::Tokens, &[kind::HOLDER, kind::HOLDER]);
        let inside = core.enter(&seats[0]).expect("a sound bag");
        core.slot(0).held.set(2);
        core.slot(1).held.set(3);
        inside.repair();
        assert_eq!((core.state().ends[READ].get(), core.state().taken.get()), (2, 5));
    }

    #[test]
    fn only_claims_being_copied_hold_the_other_side_back() {
        let (core, seats) = with(Purpose::Bytes, &[kind::READER, kind::READER, kind::WRITER, kind::WRITER]);
        let inside = core.enter(&seats[0]).expect("a sound pipe");
        let state = core.state();
        state.taken.set(9);
        state.alloc.set(30);
        claims(core.slot(0), claim::NONE, 1, 4);
        claims(core.slot(1), claim::COPYING, 5, 4);
        claims(core.slot(2), claim::NONE, 9, 11);
        claims(core.slot(3), claim::COPYING, 20, 10);
        state.claims[READ].set(1);
        state.claims[WRITE].set(1);
        assert_eq!((inside.freed(), inside.published()), (5, 20));
    }
}
