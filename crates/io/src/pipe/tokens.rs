//! Tokens that limit how much is done at once, across processes: what is held is written down beside its holder's name, so that
//! a dead holder's tokens come back.
//!
//! A jobserver whose tokens are bytes in a pipe loses each byte that a killed process had read. Here the number of free tokens
//! is always the capacity less what live holders hold.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::end::End;
use super::shared::{AttachError, Making, Shared, attach, open};
use super::state::{Core, Need, Patience, Platform, Purpose, READ, Step, kind};

/// A bag of tokens in memory that processes share.
///
/// ```
/// let bag = fdd_io::pipe::tokens::Tokens::memfd(4, false)?;
/// let mut holder = bag.holder()?;
/// holder.acquire()?;
/// assert_eq!((holder.held(), holder.free()?), (1, 3));
/// holder.release()?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Tokens(Arc<Core<Shared>>);

impl Tokens {
    fn making(count: u32, fair: bool) -> Making {
        Making {
            purpose: Purpose::Tokens,
            capacity: count.max(1).into(),
            overtakes: if fair { 0 } else { u32::MAX },
            ends: 1024,
            pollable: false,
        }
    }

    /// A bag of `count` tokens (at least one) in memory without a name, for up to 1024 holders: first come, first served where
    /// `fair`.
    ///
    /// # Errors
    /// Those of the system.
    pub fn memfd(count: u32, fair: bool) -> io::Result<Tokens> {
        Ok(Tokens(Arc::new(Self::making(count, fair).memfd()?)))
    }

    /// As [`memfd`](Tokens::memfd), in a new file for its owner alone.
    ///
    /// # Errors
    /// `AlreadyExists`, or what the file system says.
    pub fn create(path: impl AsRef<Path>, count: u32, fair: bool) -> io::Result<Tokens> {
        Ok(Tokens(Arc::new(Self::making(count, fair).create(path.as_ref())?)))
    }

    /// Attaches to the bag in a file.
    ///
    /// # Errors
    /// What is wrong with the file, or why it cannot be opened or mapped.
    pub fn open(path: impl AsRef<Path>) -> Result<Tokens, AttachError> {
        open(path.as_ref(), Purpose::Tokens).map(|core| Tokens(Arc::new(core)))
    }

    /// Attaches to the bag behind a descriptor that was inherited or received. The descriptor is not kept.
    ///
    /// # Errors
    /// What is wrong with the memory, or why it cannot be opened or mapped.
    pub fn attach(memory: impl AsFd) -> Result<Tokens, AttachError> {
        attach(memory.as_fd(), None, Purpose::Tokens).map(|core| Tokens(Arc::new(core)))
    }

    /// How many tokens there are in all.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.0.shape.capacity
    }

    /// Somebody who can hold tokens. It belongs to this process: a forked child makes its own.
    ///
    /// # Errors
    /// `QuotaExceeded` when there are as many holders as there can be.
    pub fn holder(&self) -> io::Result<Holder> {
        Ok(Holder(End::open(&self.0, READ, kind::HOLDER)?))
    }
}

impl AsFd for Tokens {
    /// The memory, to hand to another process. It is closed on exec, until the flag is taken away.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.platform.memory()
    }
}

/// A holder of tokens. Dropped, or killed, it gives them back.
#[derive(Debug)]
pub struct Holder(End<Shared>);

impl Holder {
    #[inline]
    fn acquire_for(&mut self, patience: Patience) -> io::Result<()> {
        let (core, seat) = (&self.0.core, self.0.seat());
        let (state, slot) = (core.platform.state(), core.slot(seat.index));
        Ok(core.serve(seat, Need::default(), patience, |_inside| {
            if state.taken.get() >= core.shape.capacity {
                return Step::NotYet;
            }
            // The one store that makes it so; what is out in all follows from it.
            slot.held.add(1);
            state.taken.add(1);
            Step::Done(())
        })?)
    }

    /// Waits for a token and takes it.
    ///
    /// # Errors
    /// Those of a damaged bag, or of a holder that a forked child inherited.
    pub fn acquire(&mut self) -> io::Result<()> {
        self.acquire_for(Patience::Endless)
    }

    /// Takes a token if there is one.
    ///
    /// # Errors
    /// `WouldBlock` when there is none.
    pub fn try_acquire(&mut self) -> io::Result<()> {
        self.acquire_for(Patience::None)
    }

    /// Waits for a token at most this long.
    ///
    /// # Errors
    /// `TimedOut` when none came.
    pub fn acquire_timeout(&mut self, at_most: Duration) -> io::Result<()> {
        self.acquire_for(Patience::at_most(at_most))
    }

    /// Gives a token back.
    ///
    /// # Errors
    /// `InvalidInput` when it holds none.
    pub fn release(&mut self) -> io::Result<()> {
        let core = &self.0.core;
        let _inside = core.enter(self.0.seat())?;
        let held = &core.slot(self.0.seat().index).held;
        if held.get() == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no token is held"));
        }
        held.subtract(1);
        core.state().taken.subtract(1);
        Ok(())
    }

    /// How many tokens it holds.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.0.core.slot(self.0.seat().index).held.get()
    }

    /// How many tokens are free, those of the dead included.
    ///
    /// # Errors
    /// Those of a holder that a forked child inherited.
    pub fn free(&mut self) -> io::Result<u64> {
        let inside = self.0.core.enter(self.0.seat())?;
        inside.sweep();
        Ok(self.0.core.shape.capacity.saturating_sub(self.0.core.state().taken.get()))
    }

    /// Another holder of the same bag.
    ///
    /// # Errors
    /// As for [`Tokens::holder`].
    pub fn another(&self) -> io::Result<Holder> {
        Ok(Holder(End::open(&self.0.core, READ, kind::HOLDER)?))
    }
}
