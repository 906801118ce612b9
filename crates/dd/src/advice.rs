//! The cache advice that GNU dd gives under `nocache`: what was processed is dropped, in pieces of a fixed size.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use crate::kernel::Kernel;
use crate::units::widen;

/// GNU advises in multiples of its buffer size.
const UNIT: u64 = 256 << 10;

/// Processed bytes of one end that have not been advised away yet.
#[derive(Debug)]
pub(crate) struct Advice {
    active: bool,
    /// Offset behind what was processed.
    position: u64,
    pending: u64,
}

impl Advice {
    /// Advice from `position` on; inactive for an end that cannot seek.
    pub(crate) fn new(wanted: bool, position: Option<u64>) -> Advice {
        Advice { active: wanted && position.is_some(), position: position.unwrap_or(0), pending: 0 }
    }

    /// The end has moved to `position` without processing anything.
    pub(crate) fn start_at(&mut self, position: u64) {
        self.position = position;
    }

    /// `len` more bytes were processed. Errors are of no consequence to the copy.
    #[inline]
    pub(crate) fn passed(&mut self, kernel: &dyn Kernel, fd: BorrowedFd<'_>, len: usize) {
        if !self.active {
            return;
        }
        self.position += widen(len);
        self.pending += widen(len);
        let whole = self.pending - self.pending % UNIT;
        if whole > 0 {
            let _ = kernel.drop_cache(fd, self.position - self.pending, whole);
            self.pending -= whole;
        }
    }

    /// The copy has ended. At the end of the file the rest of it is dropped, else only what was processed.
    pub(crate) fn finish(&mut self, kernel: &dyn Kernel, fd: BorrowedFd<'_>, to_end: bool) {
        if !self.active {
            return;
        }
        let from = self.position - self.pending;
        if to_end {
            let _ = drop_to_end(kernel, fd, from);
        } else if self.pending > 0 {
            let _ = kernel.drop_cache(fd, from, self.pending);
        }
        self.pending = 0;
    }
}

/// Drops everything from the page of `from` on. Failing matters to `count=0`, which does nothing else.
pub(crate) fn drop_to_end(kernel: &dyn Kernel, fd: BorrowedFd<'_>, from: u64) -> Result<(), Errno> {
    let page = widen(rustix::param::page_size());
    kernel.drop_cache(fd, from - from % page, 0)
}
