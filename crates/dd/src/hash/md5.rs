//! MD5.

use ::md5::{Digest as Rustcrypto, Md5};

use super::Digest;

pub(super) fn md5() -> Box<dyn Digest> {
    Box::new(Md5::new())
}

impl Digest for Md5 {
    fn update(&mut self, bytes: &[u8]) {
        Rustcrypto::update(self, bytes);
    }

    fn finish(self: Box<Self>) -> Vec<u8> {
        self.finalize().to_vec()
    }
}
