//! The SHA-2 family.

use ::sha2::{Digest as Rustcrypto, Sha256, Sha512};

use super::Digest;

pub(super) fn sha256() -> Box<dyn Digest> {
    Box::new(Sha256::new())
}

pub(super) fn sha512() -> Box<dyn Digest> {
    Box::new(Sha512::new())
}

impl Digest for Sha256 {
    fn update(&mut self, bytes: &[u8]) {
        Rustcrypto::update(self, bytes);
    }

    fn finish(self: Box<Self>) -> Vec<u8> {
        self.finalize().to_vec()
    }
}

impl Digest for Sha512 {
    fn update(&mut self, bytes: &[u8]) {
        Rustcrypto::update(self, bytes);
    }

    fn finish(self: Box<Self>) -> Vec<u8> {
        self.finalize().to_vec()
    }
}
