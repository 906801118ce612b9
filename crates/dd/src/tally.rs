//! Counting. Nothing here is consulted by the copy but by `count=`.

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
