//! `conv=swab`: pairs of bytes change places, and the pairs take no notice of where a block ends.

use fdd_sys::simd::Backend;

#[derive(Debug)]
pub(super) struct Swab {
    backend: Backend,
    /// The byte that waits for its partner in the next block.
    held: Option<u8>,
}

impl Swab {
    pub(super) fn new(backend: Backend) -> Swab {
        Swab { backend, held: None }
    }

    pub(super) fn held(&self) -> Option<u8> {
        self.held
    }

    pub(super) fn hold(&mut self, byte: Option<u8>) {
        self.held = byte;
    }

    /// Swaps in place. What is to go out is the pair that spans the blocks, where there is one, and then the slice.
    pub(super) fn feed<'a>(&mut self, block: &'a mut [u8]) -> (Option<[u8; 2]>, &'a [u8]) {
        if block.is_empty() {
            return (None, block);
        }
        let across = self.held.take().map(|held| [block[0], held]);
        let rest = &mut block[usize::from(across.is_some())..];
        let (pairs, odd) = rest.split_at_mut(rest.len() & !1);
        self.held = odd.first().copied();
        self.backend.swab_pairs(pairs);
        (across, pairs)
    }

    /// An odd last byte has no partner and goes out as it is.
    pub(super) fn finish(&mut self) -> Option<u8> {
        self.held.take()
    }
}
