//! Digests of what passes an end, taken on the way: by the copying thread, or beside it where that would hold it up.

mod blake3;
mod md5;
mod sha1;
mod sha2;
mod threads;
mod worker;

pub use threads::Threads;

use crate::operands::Hash;
use threads::Hiring;
use worker::Worker;

/// Of a large record each digest takes as much as stays in the cache for the next one.
const PIECE: usize = 64 << 10;

/// A digest under way.
pub trait Digest: Send {
    fn update(&mut self, bytes: &[u8]);
    fn finish(self: Box<Self>) -> Vec<u8>;
}

/// One digest that can be asked for.
struct Row {
    hash: Hash,
    name: &'static str,
    /// Picoseconds a byte, measured on an AMD EPYC with SHA extensions: what matters is which are the slow ones.
    cost: u32,
    start: fn() -> Box<dyn Digest>,
}

const HASHES: &[Row] = &[
    Row { hash: Hash::Sha256, name: "sha256", cost: 600, start: sha2::sha256 },
    Row { hash: Hash::Sha512, name: "sha512", cost: 1700, start: sha2::sha512 },
    Row { hash: Hash::Sha1, name: "sha1", cost: 500, start: sha1::sha1 },
    Row { hash: Hash::Md5, name: "md5", cost: 1600, start: md5::md5 },
    Row { hash: Hash::Blake3, name: "blake3", cost: 250, start: blake3::blake3 },
];

/// Some digests, which take the same bytes one after the other.
#[derive(Default)]
struct Digests(Vec<Running>);

struct Running {
    row: &'static Row,
    /// Its place in the order of asking.
    asked: usize,
    digest: Box<dyn Digest>,
}

impl Digests {
    fn update(&mut self, piece: &[u8]) {
        for running in &mut self.0 {
            running.digest.update(piece);
        }
    }
}

/// The digests of one end.
pub struct Tap {
    here: Digests,
    beside: Vec<Worker>,
    /// Whether more threads may still be had.
    hiring: Option<Hiring>,
}

impl Tap {
    /// `None` where no digest is asked for.
    pub fn of(hashes: &[Hash], threads: Threads) -> Option<Box<Tap>> {
        let rows = hashes.iter().filter_map(|hash| HASHES.iter().find(|row| row.hash == *hash));
        let running = rows.enumerate().map(|(asked, row)| Running { row, asked, digest: (row.start)() });
        let here = Digests(running.collect());
        let hiring = threads.hiring();
        (!here.0.is_empty()).then(|| Box::new(Tap { here, beside: Vec::new(), hiring }))
    }

    /// # Panics
    /// As a digest does, whichever thread it is on.
    pub fn update(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(PIECE) {
            if let Some(hiring) = &mut self.hiring
                && hiring.is_time(piece.len())
                && !hiring.hire(&mut self.here, &mut self.beside)
            {
                self.hiring = None;
            }
            for worker in &mut self.beside {
                worker.update(piece);
            }
            self.here.update(piece);
        }
    }

    /// How many threads were had.
    pub fn threads(&self) -> usize {
        self.beside.len()
    }

    /// The names and the digests, in the order of asking. No thread is left then.
    pub fn finish(self) -> Vec<(&'static str, Vec<u8>)> {
        let beside = self.beside.into_iter().flat_map(|worker| worker.end().0);
        let mut all: Vec<_> = self.here.0.into_iter().chain(beside).collect();
        all.sort_by_key(|running| running.asked);
        all.into_iter().map(|running| (running.row.name, running.digest.finish())).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::fd::AsRawFd as _;

    use super::*;

    fn digest(hash: Hash, pieces: &[&[u8]]) -> String {
        let mut tap = Tap::of(&[hash], Threads::none()).expect("a digest");
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
    fn on_which_thread_a_digest_was_taken_does_not_show() {
        let bytes: Vec<u8> = (0..5_000_000_u32).map(|n| n.to_le_bytes()[1] ^ n.to_le_bytes()[0]).collect();
        let all = HASHES.iter().map(|row| row.hash).collect::<Vec<_>>();
        let taken = |forced: &str, cut: usize| {
            let threads = Threads::allowed_by(None, Some(OsStr::new(forced)));
            let mut tap = Tap::of(&all, threads).expect("digests");
            bytes.chunks(cut).for_each(|piece| tap.update(piece));
            (tap.threads(), tap.finish())
        };
        let (none, here) = taken("inline", 1 << 20);
        assert_eq!((none, here.len()), (0, HASHES.len()));
        for cut in [1000, 65_536, 5_000_000] {
            assert_eq!(taken("threads", cut), (HASHES.len(), here.clone()), "in pieces of {cut}");
        }
    }

    #[test]
    fn a_tap_that_nobody_asks_leaves_no_thread_and_no_token_behind() {
        let server = Server::with(b"xyz");
        let tap = |forced: &str| {
            let threads = Threads::allowed_by(Some(&server.makeflags()), Some(OsStr::new(forced)));
            Tap::of(&[Hash::Md5, Hash::Sha256], threads).expect("digests")
        };
        let mut dropped = tap("threads");
        dropped.update(b"abc");
        assert_eq!((dropped.threads(), server.tokens()), (2, 1));
        drop(dropped);
        assert_eq!(server.tokens(), 3);
        let mut finished = tap("threads");
        finished.update(b"abc");
        finished.finish();
        assert_eq!(server.tokens(), 3);
        let panics = std::panic::catch_unwind(|| {
            let mut tap = tap("threads");
            tap.update(b"abc");
            assert_eq!(server.tokens(), 1);
            std::panic::resume_unwind(Box::new(1));
        });
        assert!(panics.is_err());
        assert_eq!(server.taken(), b"xyz");
    }

    #[test]
    fn a_panic_in_a_thread_is_one_of_the_copy() {
        struct Broken;
        impl Digest for Broken {
            fn update(&mut self, _: &[u8]) {
                std::panic::resume_unwind(Box::new("broken"));
            }
            fn finish(self: Box<Self>) -> Vec<u8> {
                Vec::new()
            }
        }
        let server = Server::with(b"x");
        let mut jobserver = fdd_sys::jobserver::Jobserver::named_in(&server.makeflags()).expect("a jobserver");
        let mut start = || {
            let broken = Running { row: &HASHES[0], asked: 0, digest: Box::new(Broken) };
            let token = jobserver.try_token();
            assert!(token.is_some());
            Worker::start(Digests(vec![broken]), token).ok().expect("a thread")
        };
        for pieces in [1, 1000] {
            let mut worker = start();
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                (0..pieces).for_each(|_| worker.update(&[0; PIECE]));
                worker.end();
            }));
            assert_eq!(outcome.expect_err("a panic").downcast_ref(), Some(&"broken"), "{pieces}");
            assert_eq!(server.tokens(), 1);
        }
    }

    /// A jobserver with these tokens.
    struct Server(rustix::fd::OwnedFd, rustix::fd::OwnedFd);

    impl Server {
        fn with(tokens: &[u8]) -> Server {
            let (read, write) = rustix::pipe::pipe().expect("a pipe");
            rustix::io::write(&write, tokens).expect("room");
            Server(read, write)
        }

        fn makeflags(&self) -> std::ffi::OsString {
            format!(" -j --jobserver-auth={},{}", self.0.as_raw_fd(), self.1.as_raw_fd()).into()
        }

        fn tokens(&self) -> u64 {
            rustix::io::ioctl_fionread(&self.0).expect("a pipe")
        }

        fn taken(&self) -> Vec<u8> {
            let mut bytes = [0; 16];
            let got = rustix::io::read(&self.0, &mut bytes).expect("tokens");
            let mut bytes = bytes[..got].to_vec();
            bytes.sort_unstable();
            bytes
        }
    }

    #[test]
    fn several_digests_come_in_the_order_of_asking() {
        let tap = Tap::of(&[Hash::Md5, Hash::Sha256], Threads::none()).expect("two digests");
        let names: Vec<_> = tap.finish().into_iter().map(|(name, digest)| (name, digest.len())).collect();
        assert_eq!(names, [("md5", 16), ("sha256", 32)]);
        assert!(Tap::of(&[], Threads::none()).is_none());
    }
}
