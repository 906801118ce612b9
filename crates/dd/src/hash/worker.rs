//! Digests on a thread of their own, behind a ring of bytes.

use std::io::Write as _;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use fdd_io::pipe::{SpscReader, SpscWriter, spsc};
use fdd_sys::jobserver::Token;
use fdd_sys::thread::spawn_quiet;

use super::{Digests, PIECE};

/// Fewer wake-ups than a smaller one (2 thousand a GiB, against 8 to 16 with half a MiB), and still in the cache that threads share.
const RING: usize = 32 * PIECE;

/// A thread and what it takes. Its end is waited for, and only then the token is given back.
pub(super) struct Worker {
    feed: Option<SpscWriter>,
    thread: Option<JoinHandle<Option<Digests>>>,
    _token: Option<Token>,
}

impl Worker {
    /// # Errors
    /// Memory or a thread cannot be had: the digests come back as they were.
    pub(super) fn start(digests: Digests, token: Option<Token>) -> Result<Worker, Digests> {
        let Ok((feed, ring)) = spsc(RING) else { return Err(digests) };
        // What a thread that could not be started was to do is lost, so it is told afterwards.
        let (tell, told) = channel::<(Digests, SpscReader)>();
        let work = move || told.recv().ok().map(|(digests, ring)| take_all(digests, ring));
        let Ok(thread) = spawn_quiet("digest", work) else { return Err(digests) };
        match tell.send((digests, ring)) {
            Ok(()) => Ok(Worker { feed: Some(feed), thread: Some(thread), _token: token }),
            Err(refused) => Err(refused.0.0),
        }
    }

    /// # Panics
    /// As a digest did in its thread.
    pub(super) fn update(&mut self, bytes: &[u8]) {
        if self.feed.as_mut().is_none_or(|feed| feed.write_all(bytes).is_err()) {
            self.join();
            unreachable!("a thread leaves a stream that goes on only by a panic");
        }
    }

    /// The digests of all that was given.
    ///
    /// # Panics
    /// As a digest did in its thread.
    pub(super) fn end(mut self) -> Digests {
        self.join()
    }

    fn join(&mut self) -> Digests {
        self.feed = None;
        let outcome = self.thread.take().map(JoinHandle::join);
        let digests = outcome.map(|outcome| outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        digests.flatten().expect("a thread that was told what to do, and is asked once")
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.feed = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn take_all(mut digests: Digests, mut ring: SpscReader) -> Digests {
    loop {
        let piece = match ring.filled(PIECE) {
            Ok(bytes) if !bytes.is_empty() => &bytes[..bytes.len().min(PIECE)],
            _ => return digests,
        };
        let len = piece.len();
        digests.update(piece);
        ring.release(len);
    }
}
