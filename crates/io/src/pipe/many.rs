//! What a pipe of many ends is made with, and its ends inside one process, which can lend the pipe's own memory.

use std::io;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::Arc;

use super::end::End;
use super::local::Local;
use super::ring::Claim;
use super::shared::Pipe;
use super::state::{Core, Patience, Purpose, Shape};
use super::{ATOMIC, chunk};

/// How to make a pipe.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Options {
    capacity: usize,
    pub(super) overtakes: u32,
    pub(super) ends: u32,
    pub(super) pollable: bool,
}

impl Options {
    /// A pipe of at least `capacity` bytes: the next power of two, and at least [`ATOMIC`].
    pub fn new(capacity: usize) -> Options {
        Options { capacity, overtakes: u32::MAX, ends: 256, pollable: false }
    }

    /// First come, first served, on each side.
    ///
    /// Each piece then passes to another end when one waits, which costs a switch where that end sleeps.
    pub fn fair(self) -> Options {
        self.overtakes(0)
    }

    /// Who waits is overtaken at most so often: a bound on unfairness that costs a switch every `times` pieces, not for each.
    pub fn overtakes(mut self, times: u32) -> Options {
        self.overtakes = times;
        self
    }

    /// How many ends the pipe can have at a time (256 unless said here; 2 to 4000).
    pub fn ends(mut self, most: u32) -> Options {
        self.ends = most;
        self
    }

    /// With events that `poll` can wait for: see [`Descriptors`](super::shared::Descriptors). For [`memfd`](Options::memfd) only.
    pub fn pollable(mut self) -> Options {
        self.pollable = true;
        self
    }

    pub(super) fn whole_capacity(&self) -> io::Result<usize> {
        self.capacity
            .max(ATOMIC)
            .checked_next_power_of_two()
            .filter(|&capacity| capacity as u64 <= 1 << 46)
            .ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    /// A pipe between the threads of this process.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn threads(&self) -> io::Result<(Writer, Reader)> {
        let capacity = self.whole_capacity()?;
        let shape = Shape {
            purpose: Purpose::Bytes,
            capacity: capacity as u64,
            atomic: ATOMIC,
            chunk: chunk(capacity as u64),
            overtakes: self.overtakes,
        };
        let core = Arc::new(Core { platform: Local::new(capacity, self.ends)?, shape });
        Ok((Writer(End::writer(&core)?), Reader(End::reader(&core)?)))
    }

    /// A pipe between processes, in memory without a name that nobody can cut. Its [descriptors](Pipe::descriptors) are to be
    /// inherited or sent.
    ///
    /// # Errors
    /// Those of the system.
    pub fn memfd(&self) -> io::Result<Pipe> {
        Pipe::make(self, None)
    }

    /// A pipe between processes, in a new file, for its owner alone. The name appears when the file is ready to be
    /// [opened](Pipe::open). See there for what a file cannot promise.
    ///
    /// # Errors
    /// `AlreadyExists`, or what the file system says.
    pub fn create(&self, path: impl AsRef<Path>) -> io::Result<Pipe> {
        Pipe::make(self, Some(path.as_ref()))
    }
}

super::ends! {
    /// The writing end of a pipe between threads.
    Writer,
    /// The reading end of a pipe between threads.
    Reader,
    Local
}

impl Writer {
    /// Waits for space and lends up to `most` bytes of it (at least one), to be filled and [committed](Reserved::commit). Others go on writing
    /// behind it; readers wait for it.
    ///
    /// # Errors
    /// `BrokenPipe` when the last reader is gone.
    pub fn reserve(&mut self, most: usize) -> io::Result<Reserved<'_>> {
        let claim = self.0.claim_space(most.max(1), Patience::Endless)?;
        Ok(Reserved { end: &self.0, claim: Some(claim) })
    }
}

impl Reader {
    /// Waits for bytes and lends up to `most` of them. They are taken: no other reader sees them, and when the loan is
    /// [released](Filled::release) or dropped their space is free again. Empty when the last writer is gone.
    ///
    /// # Errors
    /// None inside a process but those of a damaged pipe.
    pub fn filled(&mut self, most: usize) -> io::Result<Filled<'_>> {
        let claim = if most == 0 { None } else { self.0.claim_bytes(most, Patience::Endless)? };
        Ok(Filled { end: &self.0, claim })
    }
}

/// Space in the pipe, to fill. Dropped, it is as if nothing had been written.
#[derive(Debug)]
pub struct Reserved<'a> {
    end: &'a End<Local>,
    claim: Option<Claim>,
}

impl Reserved<'_> {
    /// Writes the first `len` bytes of it.
    ///
    /// # Errors
    /// Those of a damaged pipe.
    ///
    /// # Panics
    /// If `len` is more than was reserved.
    pub fn commit(mut self, len: usize) -> io::Result<()> {
        assert!(len <= self.len(), "no more can be committed than was reserved");
        match self.claim.take() {
            Some(claim) => Ok(self.end.core.publish_part(self.end.seat(), claim, len)?),
            None => Ok(()),
        }
    }
}

impl Deref for Reserved<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.claim.as_ref().map_or(&[], |claim| self.end.core.lend(claim))
    }
}

impl DerefMut for Reserved<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.claim.as_mut().map_or(&mut [], |claim| self.end.core.lend_mut(claim))
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if let Some(claim) = self.claim.take() {
            // Only a damaged pipe refuses, and says so again at the next call.
            let _ = self.end.core.publish_part(self.end.seat(), claim, 0);
        }
    }
}

/// Bytes of the pipe, taken and not yet given back.
#[derive(Debug)]
pub struct Filled<'a> {
    end: &'a End<Local>,
    claim: Option<Claim>,
}

impl Filled<'_> {
    /// Gives the space back.
    pub fn release(self) {}
}

impl Deref for Filled<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.claim.as_ref().map_or(&[], |claim| self.end.core.lend(claim))
    }
}

impl Drop for Filled<'_> {
    fn drop(&mut self) {
        if let Some(claim) = self.claim.take() {
            // As for `Reserved`.
            let _ = self.end.core.release(self.end.seat(), claim, false);
        }
    }
}
