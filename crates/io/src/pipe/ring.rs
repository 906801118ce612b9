//! The bytes: the one place where a pipe's memory is touched, and the two algorithms that say who may touch which part when.
//!
//! `Core`'s half here is the pipe of many ends: small pieces are copied with the lock held, large ones are claimed under it
//! and copied without it (see `state`). `Single` is the ring of one producer and one consumer, which needs no lock: each end
//! publishes how far it has come, and the memory between the two positions belongs to exactly one of them.
#![allow(unsafe_code)] // Bytes that two threads or processes hand to each other have no owner that the compiler could see.

use std::cell::Cell;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use super::state::{BOUND, Call, Core, Inside, Patience, Platform, READ, Seat, Step, Stop, WRITE, claim};
use super::sync::{Position, Signal, death, full_fence, spin_loop};

#[cfg(not(any(miri, loom)))]
use fdd_sys::memory::Aligned;

/// The ring's memory. Which part of it may be read and written is decided by the algorithms in this file alone.
#[derive(Debug)]
pub(super) struct Bytes {
    #[cfg(not(loom))]
    start: NonNull<u8>,
    len: usize,
    /// What is freed when this goes away; foreign memory belongs to the mapping beside it.
    _owner: Owner,
    #[cfg(loom)]
    cells: Box<[loom::cell::UnsafeCell<u8>]>,
}

#[derive(Debug)]
enum Owner {
    #[cfg(not(any(miri, loom)))]
    Pages { _pages: Aligned },
    #[cfg(miri)]
    Heap { start: NonNull<u8>, layout: std::alloc::Layout },
    #[cfg(loom)]
    Cells,
    #[cfg(not(loom))]
    Foreign,
}

// SAFETY: the pointer is to memory that lives as long as the value; parts of it are touched by one thread at a time, as the
// claims and positions below say.
unsafe impl Send for Bytes {}
// SAFETY: as above.
unsafe impl Sync for Bytes {}

impl Bytes {
    /// Zeroed memory of this process, page-aligned, of huge pages where it is large enough for them.
    #[cfg(not(any(miri, loom)))]
    pub(super) fn new(len: usize) -> std::io::Result<Bytes> {
        let mut pages = Aligned::new(len)?;
        if len >= Aligned::HUGE {
            pages.advise_huge();
        }
        let start = NonNull::from(&mut *pages).cast();
        Ok(Bytes { start, len, _owner: Owner::Pages { _pages: pages } })
    }

    /// Miri has no mappings.
    #[cfg(miri)]
    pub(super) fn new(len: usize) -> std::io::Result<Bytes> {
        let layout = std::alloc::Layout::from_size_align(len, 4096).map_err(std::io::Error::other)?;
        // SAFETY: the layout is not empty.
        let start = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) }).ok_or(std::io::ErrorKind::OutOfMemory)?;
        Ok(Bytes { start, len, _owner: Owner::Heap { start, layout } })
    }

    #[cfg(loom)]
    pub(super) fn new(len: usize) -> std::io::Result<Bytes> {
        let cells = (0..len).map(|_| loom::cell::UnsafeCell::new(0)).collect();
        Ok(Bytes { len, _owner: Owner::Cells, cells })
    }

    /// Memory that somebody else keeps mapped.
    ///
    /// # Safety
    /// `start` is valid for reads and writes of `len` bytes while the value lives, and nothing in this process but this file
    /// touches them.
    #[cfg(not(loom))]
    pub(super) unsafe fn foreign(start: NonNull<u8>, len: usize) -> Bytes {
        Bytes { start, len, _owner: Owner::Foreign }
    }

    /// Copies `from` to `offset`.
    ///
    /// # Safety
    /// `offset + from.len()` is at most the length, and no other thread of this process touches that part meanwhile.
    #[inline]
    unsafe fn write(&self, offset: usize, from: &[u8]) {
        debug_assert!(offset + from.len() <= self.len);
        #[cfg(not(loom))]
        // SAFETY: inside the memory, by the caller; a slice of this process never overlaps it.
        unsafe {
            std::ptr::copy_nonoverlapping(from.as_ptr(), self.start.as_ptr().add(offset), from.len());
        }
        #[cfg(loom)]
        for (cell, &byte) in self.cells[offset..].iter().zip(from) {
            // SAFETY: loom reports any other access that is not ordered with this one.
            cell.with_mut(|at| unsafe { *at = byte });
        }
    }

    /// Copies from `offset` to `into`.
    ///
    /// # Safety
    /// `offset + into.len()` is at most the length, and no other thread of this process writes that part meanwhile.
    #[inline]
    unsafe fn read(&self, offset: usize, into: &mut [u8]) {
        debug_assert!(offset + into.len() <= self.len);
        #[cfg(not(loom))]
        // SAFETY: inside the memory, by the caller; a slice of this process never overlaps it.
        unsafe {
            std::ptr::copy_nonoverlapping(self.start.as_ptr().add(offset), into.as_mut_ptr(), into.len());
        }
        #[cfg(loom)]
        for (cell, byte) in self.cells[offset..].iter().zip(into) {
            // SAFETY: as in `write`.
            *byte = cell.with(|at| unsafe { *at });
        }
    }

    /// A part of the memory, to fill.
    ///
    /// # Safety
    /// As for `write`, while the slice lives; and the memory is of this process alone.
    #[cfg(not(loom))]
    #[expect(clippy::mut_from_ref, reason = "which part belongs to whom is the caller's claim")]
    unsafe fn part_mut(&self, offset: usize, len: usize) -> &mut [u8] {
        debug_assert!(offset + len <= self.len);
        // SAFETY: initialised (it was zeroed), inside the memory and exclusive, by the caller.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().add(offset), len) }
    }

    /// A part of the memory, to look at.
    ///
    /// # Safety
    /// As for `read`, while the slice lives; and the memory is of this process alone.
    #[cfg(not(loom))]
    unsafe fn part(&self, offset: usize, len: usize) -> &[u8] {
        debug_assert!(offset + len <= self.len);
        // SAFETY: initialised, inside the memory and not written, by the caller.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(offset), len) }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        #[cfg(miri)]
        if let Owner::Heap { start, layout } = self._owner {
            // SAFETY: allocated in `new` with this layout.
            unsafe { std::alloc::dealloc(start.as_ptr(), layout) };
        }
    }
}

/// Memory beside a core.
pub(super) trait Store: Platform {
    fn bytes(&self) -> &Bytes;
}

/// A part of the ring that belongs to one end until it is finished. Made by a successful claim only.
#[derive(Debug)]
pub(super) struct Claim {
    pos: u64,
    len: usize,
}

impl Claim {
    pub(super) fn len(&self) -> usize {
        self.len
    }
}

/// How a piece was given.
#[derive(Debug)]
pub(super) enum Piece {
    /// It was small: it is done.
    Copied(usize),
    /// It is to be copied now, without the lock.
    Claimed(Claim),
}

impl<P: Store> Core<P> {
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "below the capacity, which is a length in memory")]
    fn offset(&self, pos: u64) -> usize {
        (pos & (self.shape.capacity - 1)) as usize
    }

    /// Copies in at a position, around the end of the ring.
    ///
    /// # Safety
    /// The part is claimed by the caller, or free and the lock is held.
    #[inline]
    unsafe fn copy_in(&self, pos: u64, from: &[u8]) {
        death::step();
        let offset = self.offset(pos);
        let bytes = self.platform.bytes();
        let straight = from.len().min(bytes.len - offset);
        // SAFETY: `straight` ends at the end of the ring, and the rest is shorter than the ring as no claim is longer than it.
        unsafe { bytes.write(offset, &from[..straight]) };
        if straight < from.len() {
            // SAFETY: as above.
            unsafe { bytes.write(0, &from[straight..]) };
        }
    }

    /// Copies out from a position, around the end of the ring.
    ///
    /// # Safety
    /// The part is claimed by the caller, or published and untaken and the lock is held.
    #[inline]
    unsafe fn copy_out(&self, pos: u64, into: &mut [u8]) {
        let offset = self.offset(pos);
        let bytes = self.platform.bytes();
        let straight = into.len().min(bytes.len - offset);
        let (first, rest) = into.split_at_mut(straight);
        // SAFETY: as in `copy_in`.
        unsafe { bytes.read(offset, first) };
        if !rest.is_empty() {
            // SAFETY: as in `copy_in`.
            unsafe { bytes.read(0, rest) };
        }
    }

    /// Writes a piece: all of `from` where it is at most `atomic` long, else what there is room for.
    #[inline]
    pub(super) fn put(&self, inside: &Inside<'_, P>, seat: &Seat, from: &[u8]) -> Step<Piece> {
        if from.len() > self.shape.atomic {
            return match self.claim_space(inside, seat, from.len()) {
                Step::Done(claim) => {
                    if claim.len < from.len() && inside.may_overtake(WRITE) {
                        // The rest of this call takes more.
                        inside.call(WRITE, Call::Nobody);
                    }
                    Step::Done(Piece::Claimed(claim))
                }
                Step::NotYet => Step::NotYet,
                Step::Closed => Step::Closed,
            };
        }
        if inside.other_side_gone(WRITE) {
            return Step::Closed;
        }
        let len = from.len() as u64;
        if inside.free() < len {
            return Step::NotYet;
        }
        let alloc = &self.state().alloc;
        // SAFETY: the part from `alloc` on is free for `len` bytes, which are at most the capacity, and the lock is held.
        unsafe { self.copy_in(alloc.get(), from) };
        // The one store that makes it so.
        alloc.set(alloc.get().wrapping_add(len));
        Step::Done(Piece::Copied(from.len()))
    }

    /// Claims space for up to `want` bytes.
    fn claim_space(&self, inside: &Inside<'_, P>, seat: &Seat, want: usize) -> Step<Claim> {
        if inside.other_side_gone(WRITE) {
            return Step::Closed;
        }
        let (state, slot) = (self.state(), self.slot(seat.index));
        let pos = state.alloc.get();
        let len = inside.free().min(want.min(self.shape.chunk) as u64);
        if len == 0 || slot.claim.get() != claim::NONE {
            return Step::NotYet;
        }
        slot.pos.set(pos);
        slot.len.set(len);
        slot.claim.set(claim::COPYING);
        state.claims[WRITE].add(1);
        // Now the claim counts: before, it ran past `alloc`.
        state.alloc.set(pos.wrapping_add(len));
        Step::Done(Claim { pos, len: usize::try_from(len).expect("no longer than `want`") })
    }

    /// Copies into a claim of `claim_space`.
    pub(super) fn fill(&self, claim: &mut Claim, from: &[u8]) {
        assert!(from.len() <= claim.len, "a claim is filled with what fits");
        // SAFETY: a claim is no longer than the ring, and its part belongs to the end that holds it.
        unsafe { self.copy_in(claim.pos, from) };
    }

    /// Publishes a claim's bytes. With `more` to come at once, nobody is woken for them yet: who looks sees them, and who sleeps
    /// had better sleep until there is more.
    pub(super) fn publish(&self, seat: &Seat, _claim: Claim, more: bool) -> Result<(), Stop> {
        let inside = self.enter(seat)?;
        if more {
            inside.call(READ, Call::Lookers);
            if inside.may_overtake(WRITE) {
                inside.call(WRITE, Call::Nobody);
            }
        }
        let state = self.state();
        // The one store that makes it so.
        self.slot(seat.index).claim.set(claim::NONE);
        state.claims[WRITE].subtract(1);
        Ok(())
    }

    /// Takes a piece of up to `into.len()` bytes: copied at once where what is there is at most `atomic` long.
    #[inline]
    pub(super) fn take(&self, inside: &Inside<'_, P>, seat: &Seat, into: &mut [u8]) -> Step<Piece> {
        let state = self.state();
        let mut end = inside.published();
        if state.holes.get() != 0 {
            end = inside.pass_holes(end);
        }
        let taken = state.taken.get();
        let there = end.wrapping_sub(taken);
        if there == 0 {
            return if inside.other_side_gone(READ) { Step::Closed } else { Step::NotYet };
        }
        let len = usize::try_from(there).map_or(into.len(), |there| there.min(into.len()));
        if len > self.shape.atomic {
            if there <= into.len() as u64 && inside.may_overtake(READ) {
                inside.call(READ, Call::Nobody);
            }
            return Step::Done(Piece::Claimed(self.claim_bytes(seat, taken, len)));
        }
        // SAFETY: published and untaken, no longer than the ring (`enter` checked the positions), and the lock is held.
        unsafe { self.copy_out(taken, &mut into[..len]) };
        // The one store that makes it so.
        state.taken.set(taken.wrapping_add(len as u64));
        Step::Done(Piece::Copied(len))
    }

    fn claim_bytes(&self, seat: &Seat, pos: u64, len: usize) -> Claim {
        let (state, slot) = (self.state(), self.slot(seat.index));
        let len = len.min(self.shape.chunk);
        slot.pos.set(pos);
        slot.len.set(len as u64);
        slot.claim.set(claim::COPYING);
        state.claims[READ].add(1);
        state.taken.set(pos.wrapping_add(len as u64));
        Claim { pos, len }
    }

    /// Copies out of a claim of `take`.
    pub(super) fn drain(&self, claim: &Claim, into: &mut [u8]) {
        assert!(into.len() <= claim.len, "a claim gives what it has");
        // SAFETY: as in `fill`.
        unsafe { self.copy_out(claim.pos, into) };
    }

    /// Gives a read claim's space back. With `more` to be taken at once, nobody is woken for it yet.
    pub(super) fn release(&self, seat: &Seat, _claim: Claim, more: bool) -> Result<(), Stop> {
        let inside = self.enter(seat)?;
        if more {
            inside.call(WRITE, Call::Lookers);
            if inside.may_overtake(READ) {
                inside.call(READ, Call::Nobody);
            }
        }
        self.slot(seat.index).claim.set(claim::NONE);
        self.state().claims[READ].subtract(1);
        Ok(())
    }
}

/// In-process only: the memory itself, lent.
#[cfg(not(loom))]
impl<P: Store> Core<P> {
    /// Claims space in one piece.
    pub(super) fn claim_straight(&self, inside: &Inside<'_, P>, seat: &Seat, want: usize) -> Step<Claim> {
        let to_the_end = self.platform.bytes().len - self.offset(self.state().alloc.get());
        self.claim_space(inside, seat, want.min(to_the_end))
    }

    /// Publishes the first `len` bytes of a claim; the rest was never there.
    pub(super) fn publish_part(&self, seat: &Seat, claim: Claim, len: usize) -> Result<(), Stop> {
        let rest = claim.len - len;
        if rest > 0 {
            let _inside = self.enter(seat)?;
            let (state, slot) = (self.state(), self.slot(seat.index));
            let end = claim.pos.wrapping_add(claim.len as u64);
            if state.alloc.get() != end {
                // Others have written behind it: what is left over becomes a hole.
                slot.pos.set(claim.pos.wrapping_add(len as u64));
                slot.len.set(rest as u64);
                slot.claim.set(claim::HOLE);
                state.claims[WRITE].subtract(1);
                state.holes.add(1);
                return Ok(());
            }
            state.alloc.set(claim.pos.wrapping_add(len as u64));
        }
        self.publish(seat, claim, false)
    }

    /// Claims published bytes in one piece.
    pub(super) fn take_straight(&self, inside: &Inside<'_, P>, seat: &Seat, want: usize) -> Step<Claim> {
        let state = self.state();
        let mut end = inside.published();
        if state.holes.get() != 0 {
            end = inside.pass_holes(end);
        }
        let taken = state.taken.get();
        let to_the_end = self.shape.capacity - (taken & (self.shape.capacity - 1));
        let there = end.wrapping_sub(taken).min(to_the_end);
        if there == 0 {
            return if inside.other_side_gone(READ) { Step::Closed } else { Step::NotYet };
        }
        let len = usize::try_from(there).map_or(want, |there| there.min(want));
        Step::Done(self.claim_bytes(seat, taken, len))
    }

    /// The bytes of a claim made by `claim_straight`.
    pub(super) fn lend_mut<'a>(&'a self, claim: &'a mut Claim) -> &'a mut [u8] {
        // SAFETY: in one piece; the claim's part belongs to its holder, who lends it as long as the claim is borrowed.
        unsafe { self.platform.bytes().part_mut(self.offset(claim.pos), claim.len) }
    }

    /// The bytes of a claim made by `claim_straight` or `take_straight`.
    pub(super) fn lend<'a>(&'a self, claim: &'a Claim) -> &'a [u8] {
        // SAFETY: as in `lend_mut`.
        unsafe { self.platform.bytes().part(self.offset(claim.pos), claim.len) }
    }
}

/// A cache line and its neighbour, which the processor fetches with it.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart<T>(T);

/// What one end of a `Single` publishes, and where it sleeps. The position changes with every call; what the other end looks at
/// in every call hardly ever does, and lies apart.
#[derive(Debug, Default)]
struct Side {
    /// How far it has come.
    position: Apart<Position>,
    bed: Apart<Bed>,
}

#[derive(Debug, Default)]
struct Bed {
    /// 1 while it sleeps.
    asleep: Signal,
    /// Set once: the end is gone.
    closed: Signal,
    /// How many bytes (to read, or of space) it sleeps for.
    need: Position,
}

/// How the ends of a `Single` sleep: the kernel, or a model of it.
pub(super) trait Sleep: Send + Sync {
    fn wait(&self, word: &Signal, expected: u32, at_most: Duration);
    fn wake(&self, word: &Signal);
    fn spins(&self) -> u32;
}

/// The ring of one producer and one consumer.
#[derive(Debug)]
pub(super) struct Single<S> {
    sides: [Side; 2],
    bytes: Bytes,
    sleep: S,
}

/// One end's own knowledge. Each `Single` has exactly one cursor of each side.
#[derive(Debug)]
pub(super) struct Cursor {
    side: usize,
    /// How far this end has come, and where in the ring that is.
    position: u64,
    offset: usize,
    /// What this end last saw of the other.
    seen: Cell<u64>,
    /// How often to look before sleeping: less while looking was in vain.
    spins: Cell<u32>,
}

impl<S: Sleep> Single<S> {
    /// A ring of `capacity` bytes and its two cursors, the reading one first.
    pub(super) fn new(capacity: usize, sleep: S) -> std::io::Result<(Single<S>, [Cursor; 2])> {
        let bytes = Bytes::new(capacity)?;
        let spins = sleep.spins();
        let cursor = |side| Cursor { side, position: 0, offset: 0, seen: Cell::new(0), spins: Cell::new(spins) };
        Ok((Single { sides: Default::default(), bytes, sleep }, [cursor(READ), cursor(WRITE)]))
    }

    pub(super) fn capacity(&self) -> usize {
        self.bytes.len
    }

    /// Bytes that this end may touch now: written ones for the reader, space for the writer.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "at most the capacity, which is a length in memory")]
    fn there(&self, cursor: &Cursor) -> usize {
        let between = match cursor.side {
            READ => cursor.seen.get().wrapping_sub(cursor.position),
            _ => (self.bytes.len as u64).wrapping_sub(cursor.position.wrapping_sub(cursor.seen.get())),
        };
        between as usize
    }

    /// At least `want` bytes if they are there, looking again at the other end only where the last look does not do.
    #[inline]
    pub(super) fn look(&self, cursor: &Cursor, want: usize) -> usize {
        let there = self.there(cursor);
        if there >= want {
            return there;
        }
        cursor.seen.set(self.sides[1 - cursor.side].position.0.load());
        self.there(cursor)
    }

    pub(super) fn other_is_closed(&self, cursor: &Cursor) -> bool {
        self.sides[1 - cursor.side].bed.0.closed.load() != 0
    }

    /// Waits until `want` bytes are there (`least` of them when `eager` looks are over), or the other end is gone.
    ///
    /// Returns what is there: zero only from a closed end.
    pub(super) fn await_bytes(
        &self,
        cursor: &Cursor,
        least: usize,
        want: usize,
        patience: Patience,
    ) -> Result<usize, Stop> {
        let there = self.look(cursor, least);
        if there >= least {
            return Ok(there);
        }
        self.await_slowly(cursor, least, want, patience)
    }

    #[cold]
    fn await_slowly(&self, cursor: &Cursor, least: usize, want: usize, patience: Patience) -> Result<usize, Stop> {
        // Whatever was handed over quietly.
        self.wake_other(cursor);
        let mine = &self.sides[cursor.side];
        loop {
            // The order matters: what was written before the end was closed is seen by a look after.
            let closed = self.other_is_closed(cursor);
            let there = self.look(cursor, least);
            if there >= least || closed {
                return Ok(there);
            }
            let left = match patience {
                Patience::None => return Err(Stop::WouldBlock),
                Patience::Until(end) => match end.saturating_duration_since(Instant::now()) {
                    Duration::ZERO => return Err(Stop::TimedOut),
                    left => left.min(BOUND),
                },
                Patience::Endless => BOUND,
            };
            if self.spin(cursor, least) {
                continue;
            }
            mine.bed.0.need.publish(want as u64);
            mine.bed.0.asleep.store(1);
            full_fence();
            if self.look(cursor, want) < want && !self.other_is_closed(cursor) {
                self.sleep.wait(&mine.bed.0.asleep, 1, left);
            }
            mine.bed.0.asleep.store(0);
        }
    }

    /// Looks for a while, at ever longer intervals: each look takes the line away from the other end, which meanwhile may write
    /// more. Longer looks follow the ones that paid.
    fn spin(&self, cursor: &Cursor, least: usize) -> bool {
        let (mut left, mut pause) = (cursor.spins.get(), self.sleep.spins() / 16);
        while left > 0 {
            for _ in 0..pause {
                spin_loop();
            }
            if self.look(cursor, least) >= least {
                cursor.spins.set((cursor.spins.get() * 2).min(self.sleep.spins()));
                return true;
            }
            left = left.saturating_sub(pause.max(1));
            pause *= 2;
        }
        cursor.spins.set((cursor.spins.get() / 4 * 3).max(self.sleep.spins() / 16));
        false
    }

    /// Hands `len` bytes to the other end.
    #[inline]
    pub(super) fn advance(&self, cursor: &mut Cursor, len: usize) {
        self.advance_quietly(cursor, len);
        self.wake_other(cursor);
    }

    /// Hands `len` bytes to the other end, if it looks: a sleeper sleeps on.
    #[inline]
    fn advance_quietly(&self, cursor: &mut Cursor, len: usize) {
        assert!(len <= self.there(cursor), "an end hands over what it has");
        cursor.position = cursor.position.wrapping_add(len as u64);
        cursor.offset += len;
        if cursor.offset >= self.bytes.len {
            cursor.offset -= self.bytes.len;
        }
        self.sides[cursor.side].position.0.publish(cursor.position);
    }

    /// Wakes the other end, where it sleeps for no more than there is now.
    #[inline]
    fn wake_other(&self, cursor: &Cursor) {
        if self.sides[1 - cursor.side].bed.0.asleep.load() != 0 {
            self.wake_if_enough(cursor);
        }
    }

    #[cold]
    fn wake_if_enough(&self, cursor: &Cursor) {
        let other = &self.sides[1 - cursor.side];
        let for_other = match cursor.side {
            READ => (self.bytes.len as u64).wrapping_sub(other.position.0.load().wrapping_sub(cursor.position)),
            _ => cursor.position.wrapping_sub(other.position.0.load()),
        };
        if for_other >= other.bed.0.need.load() && other.bed.0.asleep.swap(0) != 0 {
            self.sleep.wake(&other.bed.0.asleep);
        }
    }

    /// This end is gone.
    pub(super) fn close(&self, cursor: &Cursor) {
        self.sides[cursor.side].bed.0.closed.store(1);
        full_fence();
        let other = &self.sides[1 - cursor.side].bed.0.asleep;
        if other.swap(0) != 0 {
            self.sleep.wake(other);
        }
    }

    /// Bytes written and not read, as this end sees it.
    pub(super) fn level(&self, cursor: &Cursor) -> usize {
        let there = self.look(cursor, usize::MAX);
        if cursor.side == READ { there } else { self.bytes.len - there }
    }

    /// Copies `from` in and hands it over: as much as is there (`look`ed for before). With `more` to come at once, a reader that
    /// sleeps is left to.
    #[inline]
    pub(super) fn write(&self, cursor: &mut Cursor, from: &[u8], more: bool) {
        assert!(cursor.side == WRITE && from.len() <= self.there(cursor), "a writer fills the space it has");
        let straight = from.len().min(self.bytes.len - cursor.offset);
        // SAFETY: the space between the positions is the writer's, and there is one writer, `&mut`; cut at the ring's end.
        unsafe { self.bytes.write(cursor.offset, &from[..straight]) };
        if straight < from.len() {
            // SAFETY: as above.
            unsafe { self.bytes.write(0, &from[straight..]) };
        }
        self.advance_quietly(cursor, from.len());
        if !more {
            self.wake_other(cursor);
        }
    }

    /// Copies out and gives back. With `more` to come at once, a writer that sleeps is left to.
    #[inline]
    pub(super) fn read(&self, cursor: &mut Cursor, into: &mut [u8], more: bool) {
        assert!(cursor.side == READ && into.len() <= self.there(cursor), "a reader takes what there is");
        let straight = into.len().min(self.bytes.len - cursor.offset);
        let (first, rest) = into.split_at_mut(straight);
        // SAFETY: the bytes between the positions are the reader's, and there is one reader, `&mut`; cut at the ring's end.
        unsafe { self.bytes.read(cursor.offset, first) };
        if !rest.is_empty() {
            // SAFETY: as above.
            unsafe { self.bytes.read(0, rest) };
        }
        let len = first.len() + rest.len();
        self.advance_quietly(cursor, len);
        if !more {
            self.wake_other(cursor);
        }
    }

    /// What this end may touch, in one piece.
    #[inline]
    fn straight(&self, cursor: &Cursor) -> usize {
        self.there(cursor).min(self.bytes.len - cursor.offset)
    }
}

#[cfg(not(loom))]
impl<S: Sleep> Single<S> {
    /// The space that a writer has, in one piece.
    #[inline]
    pub(super) fn space<'a>(&'a self, cursor: &'a mut Cursor) -> &'a mut [u8] {
        assert!(cursor.side == WRITE, "space is the writer's");
        // SAFETY: as in `write`; the cursor is borrowed as long as the slice, so nothing is handed over meanwhile.
        unsafe { self.bytes.part_mut(cursor.offset, self.straight(cursor)) }
    }

    /// The bytes that a reader has, in one piece.
    #[inline]
    pub(super) fn filled<'a>(&'a self, cursor: &'a Cursor) -> &'a [u8] {
        assert!(cursor.side == READ, "bytes are the reader's");
        // SAFETY: as in `read`; giving back needs `&mut` of the cursor, which the slice keeps borrowed.
        unsafe { self.bytes.part(cursor.offset, self.straight(cursor)) }
    }
}

/// What tests do in place of a thread that sleeps.
#[cfg(all(test, not(any(loom, shuttle))))]
impl<S: Sleep> Single<S> {
    /// The end of this side sleeps for so many bytes.
    pub(super) fn lay_down(&self, side: usize, need: u64) {
        self.sides[side].bed.0.need.publish(need);
        self.sides[side].bed.0.asleep.store(1);
    }

    pub(super) fn is_asleep(&self, side: usize) -> bool {
        self.sides[side].bed.0.asleep.load() != 0
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Arc, Mutex};

    use super::*;

    type Deed = Box<dyn FnOnce() + Send>;

    /// A bed without a kernel: what the other end does meanwhile is done in its place, at the moment that is meant.
    #[derive(Default)]
    struct Staged {
        before: Mutex<Option<Deed>>,
        during: Mutex<Option<Deed>>,
        looks: AtomicU32,
        waits: AtomicU32,
        wakes: AtomicU32,
    }

    impl Sleep for Staged {
        fn wait(&self, _word: &Signal, _expected: u32, _at_most: Duration) {
            self.waits.fetch_add(1, Ordering::SeqCst);
            let deed = self.during.lock().expect("no panic").take().expect("it sleeps where nobody would wake it");
            deed();
        }

        fn wake(&self, _word: &Signal) {
            self.wakes.fetch_add(1, Ordering::SeqCst);
        }

        /// Asked after the last look in vain and before the end lies down.
        fn spins(&self) -> u32 {
            assert!(self.looks.fetch_add(1, Ordering::SeqCst) < 100, "it looks on and does not sleep");
            if let Some(deed) = self.before.lock().expect("no panic").take() {
                deed();
            }
            0
        }
    }

    fn ring() -> (Arc<Single<Staged>>, Cursor, Cursor) {
        let (ring, [read, write]) = Single::new(4096, Staged::default()).expect("memory");
        (Arc::new(ring), read, write)
    }

    fn wakes(ring: &Single<Staged>) -> u32 {
        ring.sleep.wakes.swap(0, Ordering::SeqCst)
    }

    /// A bed in which nobody lies: this often to look at most.
    struct Awake(u32);

    impl Sleep for Awake {
        fn wait(&self, _word: &Signal, _expected: u32, _at_most: Duration) {
            unreachable!("looking is not sleeping")
        }

        fn wake(&self, _word: &Signal) {
            unreachable!("nobody sleeps")
        }

        fn spins(&self) -> u32 {
            self.0
        }
    }

    #[test]
    fn an_end_looks_less_while_it_is_in_vain_and_longer_after_looks_that_paid() {
        let (ring, [mut read, mut write]) = Single::new(4096, Awake(512)).expect("memory");
        assert_eq!(read.spins.get(), 512);
        for left in [384, 288, 216, 162, 120, 90, 66, 48, 36, 32, 32] {
            assert!(!ring.spin(&read, 1), "nothing is there");
            assert_eq!(read.spins.get(), left);
        }
        ring.write(&mut write, b"x", false);
        assert!(!ring.spin(&read, 2), "a byte is missing");
        for left in [64, 128, 256, 512, 512] {
            assert!(ring.spin(&read, 1), "a byte is there");
            assert_eq!(read.spins.get(), left);
        }
        ring.read(&mut read, &mut [0], false);
        assert!(!ring.spin(&read, 1), "it is gone");
    }

    #[test]
    fn an_end_does_not_sleep_on_what_came_after_its_last_look() {
        let (ring, read, mut write) = ring();
        let other = Arc::clone(&ring);
        *ring.sleep.before.lock().expect("no panic") = Some(Box::new(move || other.write(&mut write, b"x", false)));
        assert_eq!(ring.await_bytes(&read, 1, 1, Patience::Endless).expect("a byte"), 1);
        assert_eq!(ring.sleep.waits.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn an_end_does_not_sleep_when_the_other_left_after_its_last_look() {
        let (ring, read, write) = ring();
        let other = Arc::clone(&ring);
        *ring.sleep.before.lock().expect("no panic") = Some(Box::new(move || other.close(&write)));
        assert_eq!(ring.await_bytes(&read, 1, 1, Patience::Endless).expect("the end"), 0);
        assert_eq!(ring.sleep.waits.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn an_end_sleeps_once_for_what_is_not_there() {
        let (ring, read, mut write) = ring();
        let other = Arc::clone(&ring);
        *ring.sleep.during.lock().expect("no panic") = Some(Box::new(move || other.write(&mut write, b"xyz", false)));
        assert_eq!(ring.await_bytes(&read, 2, 3, Patience::Endless).expect("bytes"), 3);
        assert_eq!((ring.sleep.waits.load(Ordering::SeqCst), wakes(&ring)), (1, 1));
        assert!(!ring.is_asleep(READ));
    }

    #[test]
    fn a_sleeper_is_woken_when_there_is_what_it_sleeps_for_and_not_before() {
        let (ring, mut read, mut write) = ring();
        ring.write(&mut write, &[1; 10], false);
        assert_eq!(wakes(&ring), 0, "nobody sleeps");
        ring.lay_down(READ, 13);
        ring.write(&mut write, &[1; 2], false);
        assert!(wakes(&ring) == 0 && ring.is_asleep(READ), "a byte is missing");
        ring.write(&mut write, &[1; 1], true);
        assert!(wakes(&ring) == 0 && ring.is_asleep(READ), "more comes at once");
        ring.write(&mut write, &[1; 1], false);
        assert!(wakes(&ring) == 1 && !ring.is_asleep(READ));

        // 14 bytes are in; of the space, as many are missing.
        ring.lay_down(WRITE, 4096 - 4);
        ring.look(&read, 14);
        ring.read(&mut read, &mut [0; 9], false);
        assert!(wakes(&ring) == 0 && ring.is_asleep(WRITE), "a byte is missing");
        ring.read(&mut read, &mut [0; 1], true);
        assert!(wakes(&ring) == 0 && ring.is_asleep(WRITE), "more is taken at once");
        ring.read(&mut read, &mut [0; 1], false);
        assert!(wakes(&ring) == 1 && !ring.is_asleep(WRITE));
    }

    #[test]
    fn an_end_that_leaves_wakes_the_sleeper_whatever_it_sleeps_for() {
        let (ring, read, write) = ring();
        ring.close(&read);
        assert_eq!(wakes(&ring), 0, "nobody sleeps");
        ring.lay_down(READ, 100);
        ring.close(&write);
        assert!(wakes(&ring) == 1 && !ring.is_asleep(READ));
    }
}
