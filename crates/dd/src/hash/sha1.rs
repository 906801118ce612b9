//! SHA-1.

use ::sha1::{Digest as Rustcrypto, Sha1};

use super::Digest;

pub(super) fn sha1() -> Box<dyn Digest> {
    Box::new(Sha1::new())
}

impl Digest for Sha1 {
    fn update(&mut self, bytes: &[u8]) {
        Rustcrypto::update(self, bytes);
    }

    fn finish(self: Box<Self>) -> Vec<u8> {
        self.finalize().to_vec()
    }
}
