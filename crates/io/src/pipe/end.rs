//! One end of a pipe of many ends, whatever memory it lies in: the loop around a piece, and the errors in the words of std.

use std::io;
use std::sync::Arc;

use super::ring::{Claim, Piece, Store};
use super::state::{Core, Need, Patience, READ, Seat, Shape, Stop, WRITE, kind};

/// Memory that gives out seats.
pub(super) trait Place: Store + Sized {
    /// Finds a slot that nobody has, and makes it known as this process's. Each call in one search gives another.
    fn find_seat(&self, side: usize, after: Option<u32>) -> io::Result<Seat>;
    /// Gives the slot back.
    fn leave_seat(&self, index: u32);
}

/// What free space is worth looking on for.
const WORTH_A_LOOK: u64 = 16 << 10;

/// A ring that is emptied about as fast as a thread wakes.
const SMALL: u64 = 128 << 10;

impl Shape {
    /// The free space that a writer of `len` bytes waits for: what its next piece needs, and more where that is little, so that a
    /// full pipe does not cost a wake-up for every byte read.
    #[inline]
    fn space_worth_waiting_for(&self, len: usize) -> Need {
        let piece = len.min(self.atomic) as u64;
        let looking = piece.max(WORTH_A_LOOK.min(self.capacity / 4));
        // Of a small ring all, since one write fills it.
        let most = if self.capacity <= SMALL { self.capacity } else { self.capacity / 4 * 3 };
        Need { looking, asleep: looking.max((len as u64).min(most)) }
    }
}

impl From<Stop> for io::Error {
    fn from(stop: Stop) -> io::Error {
        match stop {
            Stop::Closed => io::ErrorKind::BrokenPipe.into(),
            Stop::WouldBlock => io::ErrorKind::WouldBlock.into(),
            Stop::TimedOut => io::ErrorKind::TimedOut.into(),
            Stop::Damaged => io::Error::new(io::ErrorKind::InvalidData, "the shared pipe is damaged"),
            Stop::Forked => io::Error::other("this end belongs to the parent process: attach to the pipe again"),
        }
    }
}

#[derive(Debug)]
pub(super) struct End<P: Place> {
    pub(super) core: Arc<Core<P>>,
    seat: Seat,
}

impl<P: Place> End<P> {
    pub(super) fn open(core: &Arc<Core<P>>, side: usize, kind: u32) -> io::Result<End<P>> {
        let mut after = None;
        loop {
            let seat = core.platform.find_seat(side, after)?;
            match core.attach(&seat, kind) {
                Ok(true) => return Ok(End { core: Arc::clone(core), seat }),
                Ok(false) => {
                    core.platform.leave_seat(seat.index);
                    after = Some(seat.index);
                }
                Err(stop) => {
                    core.platform.leave_seat(seat.index);
                    return Err(stop.into());
                }
            }
        }
    }

    pub(super) fn reader(core: &Arc<Core<P>>) -> io::Result<End<P>> {
        End::open(core, READ, kind::READER)
    }

    pub(super) fn writer(core: &Arc<Core<P>>) -> io::Result<End<P>> {
        End::open(core, WRITE, kind::WRITER)
    }

    pub(super) fn seat(&self) -> &Seat {
        &self.seat
    }

    #[inline]
    pub(super) fn write(&mut self, from: &[u8], patience: Patience) -> io::Result<usize> {
        let core = &*self.core;
        let mut done = 0;
        while done < from.len() {
            let rest = &from[done..];
            let need = core.shape.space_worth_waiting_for(rest.len());
            match core.serve(&self.seat, need, patience, |inside| core.put(inside, &self.seat, rest)) {
                Ok(Piece::Copied(len)) => done += len,
                Ok(Piece::Claimed(mut claim)) => {
                    let len = claim.len();
                    core.fill(&mut claim, &rest[..len]);
                    done += len;
                    core.publish(&self.seat, claim, done < from.len())?;
                }
                // What went before is written: the error comes again with the next call.
                Err(_) if done > 0 => break,
                Err(stop) => return Err(stop.into()),
            }
        }
        Ok(done)
    }

    #[inline]
    pub(super) fn read(&mut self, into: &mut [u8], patience: Patience) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        let core = &*self.core;
        match core.serve(&self.seat, Need::default(), patience, |inside| core.take(inside, &self.seat, into)) {
            Ok(Piece::Copied(len)) => Ok(len),
            Ok(Piece::Claimed(claim)) => {
                let mut done = self.drain(claim, into)?;
                // On with what is there, in pieces that a writer can follow.
                while done < into.len() {
                    let rest = &mut into[done..];
                    match core.serve_now(&self.seat, |inside| core.take(inside, &self.seat, rest)) {
                        Ok(Piece::Copied(len)) => return Ok(done + len),
                        Ok(Piece::Claimed(claim)) => done += self.drain(claim, rest)?,
                        // The end, should it have come, comes again with the next call.
                        Err(_) => break,
                    }
                }
                Ok(done)
            }
            Err(Stop::Closed) => Ok(0),
            Err(stop) => Err(stop.into()),
        }
    }

    fn drain(&self, claim: Claim, into: &mut [u8]) -> io::Result<usize> {
        let len = claim.len();
        self.core.drain(&claim, &mut into[..len]);
        self.core.release(&self.seat, claim, len < into.len())?;
        Ok(len)
    }

    /// Claims up to `want` bytes of space in one piece.
    pub(super) fn claim_space(&self, want: usize, patience: Patience) -> io::Result<Claim> {
        let core = &*self.core;
        let need = core.shape.space_worth_waiting_for(1);
        Ok(core.serve(&self.seat, need, patience, |inside| core.claim_straight(inside, &self.seat, want))?)
    }

    /// Claims up to `want` bytes in one piece; nothing at the end.
    pub(super) fn claim_bytes(&self, want: usize, patience: Patience) -> io::Result<Option<Claim>> {
        let core = &*self.core;
        match core.serve(&self.seat, Need::default(), patience, |inside| core.take_straight(inside, &self.seat, want)) {
            Ok(claim) => Ok(Some(claim)),
            Err(Stop::Closed) => Ok(None),
            Err(stop) => Err(stop.into()),
        }
    }
}

impl<P: Place> Drop for End<P> {
    fn drop(&mut self) {
        let index = self.seat.index;
        self.core.detach(&self.seat, || self.core.platform.leave_seat(index));
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::Purpose;
    use super::super::{ATOMIC, chunk};
    use super::*;

    #[test]
    fn a_writer_waits_for_its_next_piece_and_never_for_more_than_fits() {
        const K: u64 = 1 << 10;
        // Capacity and length in KiB, what is worth looking on for and what is worth a wake-up.
        for (capacity, len, looking, asleep) in [
            (4, 1, 1, 1),
            (4, 100, 4, 4),
            (16, 8, 4, 8),
            (64, 1, 16, 16),
            (64, 1000, 16, 64),
            (128, 1000, 16, 128),
            (256, 1, 16, 16),
            (256, 100, 16, 100),
            (256, 1000, 16, 192),
        ] {
            let capacity = capacity * K;
            let shape =
                Shape { purpose: Purpose::Bytes, capacity, atomic: ATOMIC, chunk: chunk(capacity), overtakes: 0 };
            let need = shape.space_worth_waiting_for(len << 10);
            assert_eq!((need.looking, need.asleep), (looking * K, asleep * K), "{len} into {capacity}");
        }
    }
}
