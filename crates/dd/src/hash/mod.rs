//! Digests of what passes an end, taken on the way.

mod blake3;
mod md5;
mod sha1;
mod sha2;

use crate::operands::Hash;

/// A digest under way.
pub trait Digest: Send {
    fn update(&mut self, bytes: &[u8]);
    fn finish(self: Box<Self>) -> Vec<u8>;
}

/// One digest that can be asked for.
struct Row {
    hash: Hash,
    name: &'static str,
    start: fn() -> Box<dyn Digest>,
}

const HASHES: &[Row] = &[
    Row { hash: Hash::Sha256, name: "sha256", start: sha2::sha256 },
    Row { hash: Hash::Sha512, name: "sha512", start: sha2::sha512 },
    Row { hash: Hash::Sha1, name: "sha1", start: sha1::sha1 },
    Row { hash: Hash::Md5, name: "md5", start: md5::md5 },
    Row { hash: Hash::Blake3, name: "blake3", start: blake3::blake3 },
];

/// The digests of one end.
pub struct Tap {
    digests: Vec<(&'static str, Box<dyn Digest>)>,
}

impl Tap {
    /// `None` where no digest is asked for.
    pub fn of(hashes: &[Hash]) -> Option<Box<Tap>> {
        let row = |hash: &Hash| HASHES.iter().find(|row| row.hash == *hash);
        let digests: Vec<_> = hashes.iter().filter_map(row).map(|row| (row.name, (row.start)())).collect();
        (!digests.is_empty()).then(|| Box::new(Tap { digests }))
    }

    pub fn update(&mut self, bytes: &[u8]) {
        /// Of a large record each digest takes as much as stays in the cache for the next one.
        const PIECE: usize = 64 << 10;
        for piece in bytes.chunks(PIECE) {
            for (_, digest) in &mut self.digests {
                digest.update(piece);
            }
        }
    }

    /// The names and the digests, in the order of asking.
    pub fn finish(self) -> Vec<(&'static str, Vec<u8>)> {
        self.digests.into_iter().map(|(name, digest)| (name, digest.finish())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(hash: Hash, pieces: &[&[u8]]) -> String {
        let mut tap = Tap::of(&[hash]).expect("a digest");
        pieces.iter().for_each(|piece| tap.update(piece));
        tap.finish()[0].1.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// From the standards: of nothing and of "abc".
    #[test]
    fn known_answers() {
        const ANSWERS: [(Hash, &str, &str); 5] = [
            (
                Hash::Sha256,
                "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            ),
            (
                Hash::Sha512,
                "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce\
                 47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e",
                "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
                 2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
            ),
            (Hash::Sha1, "da39a3ee5e6b4b0d3255bfef95601890afd80709", "a9993e364706816aba3e25717850c26c9cd0d89d"),
            (Hash::Md5, "d41d8cd98f00b204e9800998ecf8427e", "900150983cd24fb0d6963f7d28e17f72"),
            (
                Hash::Blake3,
                "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
                "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85",
            ),
        ];
        assert_eq!(ANSWERS.len(), HASHES.len());
        for (hash, nothing, abc) in ANSWERS {
            assert_eq!(digest(hash, &[]), nothing, "{hash:?}");
            assert_eq!(digest(hash, &[b"abc"]), abc, "{hash:?}");
        }
    }

    #[test]
    fn where_the_bytes_were_cut_does_not_show() {
        let bytes: Vec<u8> = (0..200_000_u32).map(|n| n.to_le_bytes()[1] ^ n.to_le_bytes()[0]).collect();
        for row in HASHES {
            let whole = digest(row.hash, &[&bytes]);
            for cut in [1, 63, 64, 65, 1000, 65_536] {
                let pieces: Vec<&[u8]> = bytes.chunks(cut).collect();
                assert_eq!(digest(row.hash, &pieces), whole, "{} in pieces of {cut}", row.name);
            }
        }
    }

    #[test]
    fn several_digests_come_in_the_order_of_asking() {
        let tap = Tap::of(&[Hash::Md5, Hash::Sha256]).expect("two digests");
        let names: Vec<_> = tap.finish().into_iter().map(|(name, digest)| (name, digest.len())).collect();
        assert_eq!(names, [("md5", 16), ("sha256", 32)]);
        assert!(Tap::of(&[]).is_none());
    }
}
