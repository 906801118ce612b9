//! Counting. Nothing here is consulted by the copy but by `count=`.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Records of one side: full ones, and partial ones (shorter than a block).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Records {
    pub full: u64,
    pub partial: u64,
}

impl Records {
    pub fn total(self) -> u64 {
        self.full + self.partial
    }
}

/// What a copy has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub read: Records,
    pub written: Records,
    /// Records cut to `cbs` bytes by conv=block.
    pub truncated: u64,
    /// Bytes that reached the output, skipped holes included.
    pub bytes: u64,
    /// Output blocks skipped as holes.
    pub sparse: u64,
}

impl Tally {
    /// One input record of `len` bytes where `block` make a full one.
    #[inline]
    pub fn read(&mut self, len: usize, block: usize) {
        if len == block { self.read.full += 1 } else { self.read.partial += 1 }
    }

    /// One output record of `len` bytes where `block` make a full one.
    #[inline]
    pub fn written(&mut self, len: usize, block: usize) {
        if len == block {
            self.written.full += 1
        } else {
            self.written.partial += 1
        }
        self.bytes += crate::units::widen(len);
    }

    /// The last `bytes` counted did not get to the file after all: zeros that could be neither stepped over nor written.
    pub fn take_back(&mut self, bytes: u64, block: usize) {
        let blocks = bytes.div_ceil(crate::units::widen(block));
        self.bytes = self.bytes.saturating_sub(bytes);
        self.written.full = self.written.full.saturating_sub(blocks);
        self.sparse = self.sparse.saturating_sub(blocks);
    }

    /// A block of which only `len` bytes got out before an error.
    pub fn broken(&mut self, len: usize) {
        if len > 0 {
            self.written.partial += 1;
            self.bytes += crate::units::widen(len);
        }
    }
}

/// What a writer in another thread has counted so far, and how full the memory before it is. Counts are taken as a whole, so
/// that no report is half of one record and half of the next.
#[derive(Debug, Default)]
pub struct Afar {
    written: Mutex<Tally>,
    percent: AtomicUsize,
    failed: AtomicBool,
}

impl Afar {
    /// Counts of a copy that stands at `tally`.
    pub fn at(tally: Tally) -> Afar {
        Afar { written: Mutex::new(tally), ..Afar::default() }
    }

    /// The writer counts.
    pub(crate) fn count(&self, how: impl FnOnce(&mut Tally)) {
        how(&mut self.written.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// What was counted becomes part of `tally`.
    pub(crate) fn merge_into(&self, tally: &mut Tally) {
        let written = *self.written.lock().unwrap_or_else(PoisonError::into_inner);
        tally.written = written.written;
        tally.bytes = written.bytes;
        tally.sparse = written.sparse;
    }

    /// `held` bytes of `capacity` are waiting to be written.
    pub(crate) fn fill(&self, held: usize, capacity: usize) {
        let percent = u128::from(crate::units::widen(held)) * 100 / u128::from(crate::units::widen(capacity.max(1)));
        self.percent.store(usize::try_from(percent).unwrap_or(100), Ordering::Relaxed);
    }

    /// Percent of the memory that is in use.
    pub fn percent(&self) -> usize {
        self.percent.load(Ordering::Relaxed)
    }

    /// The writer can write no more.
    pub(crate) fn fail(&self) {
        self.failed.store(true, Ordering::SeqCst);
    }

    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(tally: &Tally) -> (u64, u64, u64, u64) {
        (tally.written.full, tally.written.partial, tally.bytes, tally.sparse)
    }

    #[test]
    fn a_record_is_full_or_partial_and_one_that_broke_off_is_partial_if_anything_got_out() {
        let mut tally = Tally::default();
        tally.read(512, 512);
        tally.read(511, 512);
        tally.read(0, 512);
        assert_eq!((tally.read, tally.read.total()), (Records { full: 1, partial: 2 }, 3));
        tally.written(512, 512);
        tally.written(100, 512);
        assert_eq!(counts(&tally), (1, 1, 612, 0));
        tally.broken(0);
        assert_eq!(counts(&tally), (1, 1, 612, 0));
        tally.broken(1);
        assert_eq!(counts(&tally), (1, 2, 613, 0));
    }

    #[test]
    fn zeros_that_did_not_get_to_the_file_are_taken_back_with_the_blocks_that_they_were_of() {
        let ten = Tally { written: Records { full: 10, partial: 1 }, bytes: 5200, sparse: 4, ..Tally::default() };
        for (bytes, left) in
            [(0, (10, 1, 5200, 4)), (1, (9, 1, 5199, 3)), (1024, (8, 1, 4176, 2)), (1025, (7, 1, 4175, 1))]
        {
            let mut tally = ten;
            tally.take_back(bytes, 512);
            assert_eq!(counts(&tally), left, "{bytes}");
        }
    }

    #[test]
    fn what_a_writer_counts_afar_becomes_part_of_the_tally_and_leaves_what_was_read() {
        let begun = Tally { read: Records { full: 3, partial: 0 }, bytes: 100, ..Tally::default() };
        let afar = Afar::at(begun);
        afar.count(|tally| tally.written(512, 512));
        afar.count(|tally| tally.sparse += 2);
        let mut tally = Tally { read: Records { full: 9, partial: 1 }, truncated: 5, ..Tally::default() };
        afar.merge_into(&mut tally);
        assert_eq!(counts(&tally), (1, 0, 612, 2));
        assert_eq!((tally.read, tally.truncated), (Records { full: 9, partial: 1 }, 5));
        assert!(!afar.has_failed());
        afar.fail();
        assert!(afar.has_failed());
    }

    #[test]
    fn memory_in_use_is_told_in_percent() {
        let afar = Afar::default();
        assert_eq!(afar.percent(), 0);
        for (held, capacity, percent) in [
            (1, 4, 25),
            (300, 400, 75),
            (400, 400, 100),
            (0, 400, 0),
            (1, 101, 0),
            (0, 0, 0),
            (usize::MAX / 2 + 1, usize::MAX, 50),
        ] {
            afar.fill(held, capacity);
            assert_eq!(afar.percent(), percent, "{held} of {capacity}");
        }
    }
}
