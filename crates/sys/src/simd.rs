//! Table look-up, byte shuffle and zero test: safe functions that dispatch to the best instructions at run time.
//!
//! A [`Backend`] is chosen once, by whoever is going to convert many blocks, and does the same to the same bytes whichever it
//! is; the tests hold every backend that this machine can run against loops of five lines.

/// The instructions that the functions of this module are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backend(Isa);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Isa {
    Portable,
}

impl Backend {
    /// The fastest backend that this machine can run.
    pub fn best() -> Backend {
        Backend::available().next().unwrap_or(Backend(Isa::Portable))
    }

    /// Every backend that this machine can run, the fastest first; the portable one is always among them.
    pub fn available() -> impl Iterator<Item = Backend> {
        [Isa::Portable].into_iter().map(Backend)
    }

    /// The name for reports and benchmarks, such as `avx2`.
    pub fn name(self) -> &'static str {
        match self.0 {
            Isa::Portable => "portable",
        }
    }

    /// Replaces each byte of `buf` by its entry in `table`.
    pub fn translate(self, table: &[u8; 256], buf: &mut [u8]) {
        match self.0 {
            Isa::Portable => portable::translate(table, buf),
        }
    }

    /// Swaps the first byte with the second, the third with the fourth, and so on; an odd last byte stays.
    pub fn swab_pairs(self, buf: &mut [u8]) {
        match self.0 {
            Isa::Portable => portable::swab_pairs(buf),
        }
    }

    /// Whether every byte of `buf` is NUL; an empty `buf` is. Stops soon after the first byte that is not.
    pub fn is_zero(self, buf: &[u8]) -> bool {
        match self.0 {
            Isa::Portable => portable::is_zero(buf),
        }
    }

    /// The length of `buf` without the run of `byte` at its end.
    pub fn trimmed_len(self, byte: u8, buf: &[u8]) -> usize {
        match self.0 {
            Isa::Portable => portable::trimmed_len(byte, buf),
        }
    }
}

/// [`Backend::translate`] with the best backend.
pub fn translate(table: &[u8; 256], buf: &mut [u8]) {
    Backend::best().translate(table, buf);
}

/// [`Backend::swab_pairs`] with the best backend.
pub fn swab_pairs(buf: &mut [u8]) {
    Backend::best().swab_pairs(buf);
}

/// [`Backend::is_zero`] with the best backend.
pub fn is_zero(buf: &[u8]) -> bool {
    Backend::best().is_zero(buf)
}

mod portable {
    pub(super) fn translate(table: &[u8; 256], buf: &mut [u8]) {
        for byte in buf {
            *byte = table[usize::from(*byte)];
        }
    }

    pub(super) fn swab_pairs(buf: &mut [u8]) {
        for pair in buf.as_chunks_mut::<2>().0 {
            pair.swap(0, 1);
        }
    }

    pub(super) fn is_zero(buf: &[u8]) -> bool {
        // A fixed width without an exit inside it becomes a few vector instructions.
        let (chunks, rest) = buf.as_chunks::<64>();
        chunks.iter().all(|chunk| chunk.iter().fold(0, |all, byte| all | byte) == 0)
            && rest.iter().all(|byte| *byte == 0)
    }

    pub(super) fn trimmed_len(byte: u8, buf: &[u8]) -> usize {
        buf.iter().rposition(|b| *b != byte).map_or(0, |last| last + 1)
    }
}
