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
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use super::super::local::Local;
    use super::super::ring::Bytes;
    use super::super::state::{Platform, Purpose, Slot, State};
    use super::super::sync::Signal;
    use super::super::{ATOMIC, chunk};
    use super::*;

    type Deed = Box<dyn FnOnce() + Send>;

    /// A process's memory without a kernel to sleep in: what others do meanwhile is done in place of the sleep.
    struct Staged {
        local: Local,
        during: Mutex<Option<Deed>>,
        wakes: AtomicU32,
    }

    impl Platform for Staged {
        fn state(&self) -> &State {
            self.local.state()
        }

        fn slots(&self) -> &[Slot] {
            self.local.slots()
        }

        fn cpu(&self) -> u32 {
            0
        }

        fn wait(&self, _word: &Signal, _expected: u32, _at_most: Duration) {
            let deed = self.during.lock().expect("no panic").take().expect("it sleeps where nobody would wake it");
            deed();
        }

        fn wake(&self, _word: &Signal) {
            self.wakes.fetch_add(1, Ordering::SeqCst);
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
            0
        }
    }

    impl Store for Staged {
        fn bytes(&self) -> &Bytes {
            self.local.bytes()
        }
    }

    impl Place for Staged {
        fn find_seat(&self, side: usize, after: Option<u32>) -> io::Result<Seat> {
            self.local.find_seat(side, after)
        }

        fn leave_seat(&self, index: u32) {
            self.local.leave_seat(index);
        }
    }

    /// A pipe of 16 atomic pieces, of which a claim takes four.
    fn staged() -> (Arc<Core<Staged>>, End<Staged>, End<Staged>) {
        let capacity = 16 * ATOMIC;
        let local = Local::new(capacity, 2).expect("memory");
        let capacity = capacity as u64;
        let shape = Shape { purpose: Purpose::Bytes, capacity, atomic: ATOMIC, chunk: chunk(capacity), overtakes: 64 };
        let platform = Staged { local, during: Mutex::default(), wakes: AtomicU32::new(0) };
        let core = Arc::new(Core { platform, shape });
        let (reader, writer) = (End::reader(&core).expect("a seat"), End::writer(&core).expect("a seat"));
        (core, reader, writer)
    }

    #[test]
    fn a_reader_that_sleeps_is_awake_when_a_write_has_ended() {
        for len in [1, ATOMIC, 2 * ATOMIC, 4 * ATOMIC, 6 * ATOMIC, 10 * ATOMIC] {
            let (core, mut reader, mut writer) = staged();
            let other = Arc::clone(&core);
            *core.platform.during.lock().expect("no panic") = Some(Box::new(move || {
                assert_eq!(writer.write(&vec![1; len], Patience::Endless).expect("space"), len);
                assert_eq!(other.platform.wakes.load(Ordering::SeqCst), 1, "{len}");
            }));
            assert_eq!(reader.read(&mut vec![0; 16 * ATOMIC], Patience::Endless).expect("bytes"), len);
        }
    }

    #[test]
    fn a_writer_that_sleeps_is_awake_when_a_read_has_ended() {
        for len in [4 * ATOMIC, 5 * ATOMIC, 8 * ATOMIC, 16 * ATOMIC, 20 * ATOMIC] {
            let (core, reader, mut writer) = staged();
            let reader = Arc::new(Mutex::new(reader));
            let at_work = Arc::clone(&reader);
            assert_eq!(writer.write(&[1; 16 * ATOMIC], Patience::None).expect("space"), 16 * ATOMIC);
            let other = Arc::clone(&core);
            *core.platform.during.lock().expect("no panic") = Some(Box::new(move || {
                let mut reader = at_work.lock().expect("no panic");
                let read = reader.read(&mut vec![0; len], Patience::Endless).expect("bytes");
                assert_eq!(read, len.min(16 * ATOMIC));
                assert_eq!(other.platform.wakes.load(Ordering::SeqCst), 1, "{len}");
            }));
            // The reader is there still.
            assert_eq!(writer.write(&[2; 2 * ATOMIC], Patience::Endless).expect("space"), 2 * ATOMIC);
            drop(reader);
        }
    }

    #[test]
    fn a_read_takes_all_there_is_whatever_a_claim_takes() {
        for there in [3 * ATOMIC, 4 * ATOMIC, 10 * ATOMIC, 10 * ATOMIC + 1, 16 * ATOMIC] {
            for room in [ATOMIC + 1, 9 * ATOMIC, 16 * ATOMIC] {
                let (_core, mut reader, mut writer) = staged();
                assert_eq!(writer.write(&vec![1; there], Patience::None).expect("space"), there);
                let mut into = vec![0; room];
                let read = reader.read(&mut into, Patience::None).expect("bytes");
                assert_eq!(read, there.min(room), "{there} {room}");
                assert!(into[..read] == vec![1; read]);
            }
        }
    }

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
