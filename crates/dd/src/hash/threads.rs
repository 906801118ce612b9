//! When a digest gets a thread of its own, and which digests share one.
//!
//! Where bytes come fast and a processor is free, hashing beside the copy makes both faster. Everything else is hashed by the thread
//! that copies: what is small or slow to come, what is asked for on a machine with one processor, and what a jobserver has no token
//! for or the system no thread.

use std::ffi::OsStr;
use std::time::{Duration, Instant};

use fdd_sys::jobserver::{Jobserver, Token};

use super::worker::Worker;
use super::{Digests, Running};

/// Bytes between two looks; fewer are not worth a thread.
const WINDOW: usize = 4 << 20;
/// A window that takes longer than this leaves the copying thread time to hash (100 MB/s).
const FAST: Duration = Duration::from_millis(40);
/// What the copying thread does beside hashing, as [`Row::cost`](super::Row) has it.
const COPYING: u32 = 400;
/// A digest that is cheaper than this costs less than handing it the bytes.
const WORTH_A_THREAD: u32 = 400;

/// Which threads digests may have.
#[derive(Debug)]
pub struct Threads {
    when: When,
    /// Each thread needs a token of it.
    jobserver: Option<Jobserver>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Never,
    Pays,
    /// From the first byte, one for each digest.
    Always,
}

impl Threads {
    /// None: every digest is taken by the copying thread.
    pub fn none() -> Threads {
        Threads { when: When::Never, jobserver: None }
    }

    /// What pays on this machine, as far as the jobserver that `makeflags` names allows. `forced` is a test seam: `inline` is no
    /// thread, `threads` one for each digest.
    pub fn allowed_by(makeflags: Option<&OsStr>, forced: Option<&OsStr>) -> Threads {
        let when = match forced.and_then(OsStr::to_str) {
            Some("inline") => When::Never,
            Some("threads") => When::Always,
            _ => When::Pays,
        };
        Threads { when, jobserver: makeflags.and_then(Jobserver::named_in) }
    }

    /// These files are dd's: their bytes are no tokens.
    pub fn keep_off(&mut self, files: &[(u64, u64)]) {
        if let Some(jobserver) = &mut self.jobserver {
            jobserver.is_none_of(files);
        }
    }

    /// `None` where there will be no thread.
    pub(super) fn hiring(self) -> Option<Hiring> {
        let left = match self.when {
            When::Never => return None,
            When::Pays => WINDOW,
            When::Always => 0,
        };
        Some(Hiring { threads: self, left, begun: Instant::now() })
    }

    /// How many threads there may be at all.
    fn most(&self) -> usize {
        match self.when {
            When::Never => 0,
            // One processor is the copying thread's.
            When::Pays => std::thread::available_parallelism().map_or(0, |processors| processors.get() - 1),
            When::Always => usize::MAX,
        }
    }

    /// The right to so many threads, or to as many as there are.
    fn tokens(&mut self, wanted: usize) -> Vec<Option<Token>> {
        match &mut self.jobserver {
            None => (0..wanted).map(|_| None).collect(),
            Some(jobserver) => (0..wanted).map_while(|_| jobserver.try_token().map(Some)).collect(),
        }
    }
}

/// Looks out for the moment when a thread pays.
pub(super) struct Hiring {
    threads: Threads,
    /// Bytes until the next look.
    left: usize,
    /// The last look.
    begun: Instant,
}

impl Hiring {
    /// `len` more bytes have come. Whether a thread pays now.
    #[inline]
    pub(super) fn is_time(&mut self, len: usize) -> bool {
        match self.left.checked_sub(len) {
            Some(left) => {
                self.left = left;
                false
            }
            None => self.look(),
        }
    }

    #[cold]
    fn look(&mut self) -> bool {
        let now = Instant::now();
        let took = now - std::mem::replace(&mut self.begun, now);
        self.left = WINDOW;
        took <= FAST || self.threads.when == When::Always
    }

    /// Moves what is slow from `here` to new threads `beside`, as far as they are to be had. Whether it is worth asking again.
    pub(super) fn hire(&mut self, here: &mut Digests, beside: &mut Vec<Worker>) -> bool {
        let worth = |running: &&Running| running.row.cost >= WORTH_A_THREAD || self.threads.when == When::Always;
        let wanted = here.0.iter().filter(worth).count().min(self.threads.most().saturating_sub(beside.len()));
        let tokens = self.threads.tokens(wanted);
        let mut again = tokens.len() < wanted;
        let (rest, shares) = share_out(std::mem::take(here), tokens.len());
        *here = rest;
        for (share, token) in shares.into_iter().zip(tokens) {
            match Worker::start(share, token) {
                Ok(worker) => beside.push(worker),
                Err(mut refused) => {
                    here.0.append(&mut refused.0);
                    again = false;
                }
            }
        }
        again
    }
}

/// What stays with the copying thread, and what each of so many threads gets: the costliest first, always to whom has least.
fn share_out(digests: Digests, threads: usize) -> (Digests, Vec<Digests>) {
    let mut shares: Vec<_> = (0..threads).map(|_| (0, Digests::default())).collect();
    shares.push((COPYING, Digests::default()));
    let mut costliest_first = digests.0;
    costliest_first.sort_by_key(|running| std::cmp::Reverse(running.row.cost));
    for running in costliest_first {
        let (load, share) = shares.iter_mut().min_by_key(|(load, _)| *load).expect("the copying thread's at least");
        *load += running.row.cost;
        share.0.push(running);
    }
    let mut shares = shares.into_iter().map(|(_, share)| share);
    let beside = shares.by_ref().take(threads).collect();
    (shares.next().expect("the last one is the copying thread's"), beside)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::HASHES;

    fn shared_out(names: &[&str], threads: usize) -> (Vec<&'static str>, Vec<Vec<&'static str>>) {
        let row = |name| HASHES.iter().find(|row| row.name == name).expect("a known name");
        let running = names.iter().map(|name| row(*name)).enumerate();
        let running = running.map(|(asked, row)| Running { row, asked, digest: (row.start)() });
        let (here, beside) = share_out(Digests(running.collect()), threads);
        let names = |digests: Digests| digests.0.iter().map(|running| running.row.name).collect();
        (names(here), beside.into_iter().map(names).collect())
    }

    #[test]
    fn the_costliest_digests_go_to_threads_and_the_copying_thread_helps() {
        assert_eq!(shared_out(&["sha256"], 0), (vec!["sha256"], vec![]));
        assert_eq!(shared_out(&["sha256"], 1), (vec![], vec![vec!["sha256"]]));
        assert_eq!(shared_out(&["sha256", "md5"], 1), (vec!["sha256"], vec![vec!["md5"]]));
        assert_eq!(shared_out(&["sha256", "md5"], 2), (vec![], vec![vec!["md5"], vec!["sha256"]]));
        let all = ["sha256", "sha512", "sha1", "md5", "blake3"];
        assert_eq!(shared_out(&all, 1), (vec!["md5", "sha1"], vec![vec!["sha512", "sha256", "blake3"]]));
        assert_eq!(shared_out(&all, 5).1.len(), 5);
    }
}
