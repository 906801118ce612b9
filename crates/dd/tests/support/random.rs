//! Random choices that a seed and a number bring about again.

#![allow(dead_code)] // Each test program uses its part of it.

/// SplitMix64: small, and every seed is as good as another.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// The generator of one job: neighbouring numbers have nothing in common.
    pub(crate) fn of_job(seed: u64, job: u64) -> Random {
        let mut random = Random(seed ^ job.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        random.next();
        random
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From `low` to `high`, both included.
    pub(crate) fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    pub(crate) fn size(&mut self, low: usize, high: usize) -> usize {
        usize::try_from(self.within(low as u64, high as u64)).expect("between two sizes")
    }

    pub(crate) fn percent(&mut self, chance: u64) -> bool {
        self.next() % 100 < chance
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.size(0, from.len() - 1)]
    }
}
