//! BLAKE3.

use ::blake3::Hasher;

use super::Digest;

pub(super) fn blake3() -> Box<dyn Digest> {
    Box::new(Hasher::new())
}

impl Digest for Hasher {
    fn update(&mut self, bytes: &[u8]) {
        Hasher::update(self, bytes);
    }

    fn finish(self: Box<Self>) -> Vec<u8> {
        self.finalize().as_bytes().to_vec()
    }
}
