//! Reading bad media: a failed block is read again in ever smaller pieces, down to the sector, past the page cache.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use fdd_sys::memory::Aligned;
use fdd_sys::retry::{Cut, Pause, retry};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::kernel::Kernel;
use crate::units::widen;

/// The smallest piece that a medium gives, where nothing says otherwise.
const SECTOR: usize = 512;
const TRIES: u32 = 3;
/// A drive that thinks this long about a sector is not asked again.
const SLOW: Duration = Duration::from_secs(1);

/// What came of a failed block.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Rescued {
    /// Ranges of the block (start, end) that could not be read, in order.
    pub(crate) lost: Vec<(usize, usize)>,
    /// Bytes of the block that are there to be had at all: less than asked for at the end of the input.
    pub(crate) len: usize,
    /// The device itself is gone.
    pub(crate) vanished: bool,
}

pub(crate) struct Rescue {
    /// A second descriptor past the page cache, which fails a whole page for one bad sector. `None` where there is none.
    direct: Option<OwnedFd>,
    sector: usize,
    /// Direct reads land here, then move.
    bounce: Option<Aligned>,
    tries: u32,
}

/// Errors that say that there is no device any more, rather than that it has a bad spot.
pub(crate) fn is_gone(errno: Errno) -> bool {
    matches!(errno, Errno::NODEV | Errno::NXIO | Errno::NOTCONN | Errno::CONNABORTED | Errno::STALE | Errno::NOMEDIUM)
}

impl Rescue {
    pub(crate) fn new(kernel: &dyn Kernel, fd: BorrowedFd<'_>) -> Rescue {
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let direct = kernel.open(path.as_ref(), OFlags::RDONLY | OFlags::DIRECT, Mode::empty()).ok();
        let sector = fdd_sys::device::sector_size(fd).ok().and_then(|size| usize::try_from(size).ok());
        Rescue { direct, sector: sector.unwrap_or(SECTOR).max(SECTOR), bounce: None, tries: TRIES }
    }

    /// Fills `block[got..]`, the part of a block that began at `at`; its end is the end of the input or of the block.
    /// Stops at the first bad sector unless `go_on`.
    #[expect(clippy::too_many_arguments, reason = "one call site; the parts come from four owners")]
    pub(crate) fn block<P: Pause + ?Sized>(
        &mut self,
        kernel: &dyn Kernel,
        fd: BorrowedFd<'_>,
        block: &mut [u8],
        got: usize,
        at: u64,
        go_on: bool,
        pause: &mut P,
    ) -> Result<Rescued, Cut> {
        let mut rescued = Rescued { len: block.len(), ..Rescued::default() };
        // Pieces yet to be read, the next one last.
        let mut todo = vec![(got, block.len())];
        while let Some((start, end)) = todo.pop() {
            if start >= end {
                continue;
            }
            match self.piece(kernel, fd, &mut block[start..end], at + widen(start), pause) {
                Ok(0) => {
                    // The input ends here now.
                    rescued.len = start;
                    return Ok(rescued);
                }
                Ok(read) => todo.push((start + read, end)),
                Err(Cut::Stopped) => return Err(Cut::Stopped),
                Err(Cut::Os(errno)) if is_gone(errno) => {
                    lose(&mut rescued.lost, start, block.len());
                    rescued.vanished = true;
                    return Ok(rescued);
                }
                Err(Cut::Os(_)) => match self.halve(start, end, at) {
                    Some(middle) => {
                        todo.push((middle, end));
                        todo.push((start, middle));
                    }
                    None if self.again(kernel, fd, &mut block[start..end], at + widen(start), pause)? => {}
                    None => {
                        lose(&mut rescued.lost, start, end);
                        if !go_on {
                            rescued.len = start;
                            return Ok(rescued);
                        }
                    }
                },
            }
        }
        Ok(rescued)
    }

    /// Where to cut a piece in two on a sector's edge; `None` for what lies in one sector.
    fn halve(&self, start: usize, end: usize, at: u64) -> Option<usize> {
        let sector = widen(self.sector);
        let (from, to) = (at + widen(start), at + widen(end));
        let first_edge = from - from % sector + sector;
        if first_edge >= to {
            return None;
        }
        let middle = from + (to - from) / 2;
        let edge = (middle - middle % sector).max(first_edge);
        usize::try_from(edge - at).ok()
    }

    /// More tries for one sector, while they are quick.
    fn again<P: Pause + ?Sized>(
        &mut self,
        kernel: &dyn Kernel,
        fd: BorrowedFd<'_>,
        piece: &mut [u8],
        at: u64,
        pause: &mut P,
    ) -> Result<bool, Cut> {
        for _ in 1..self.tries {
            let begun = Instant::now();
            match self.piece(kernel, fd, piece, at, pause) {
                Ok(read) if read == piece.len() => return Ok(true),
                Err(Cut::Stopped) => return Err(Cut::Stopped),
                Ok(_) | Err(Cut::Os(_)) => {}
            }
            if begun.elapsed() > SLOW {
                self.tries = 1;
                break;
            }
        }
        Ok(false)
    }

    /// One read at `at`, past the cache where that can be.
    fn piece<P: Pause + ?Sized>(
        &mut self,
        kernel: &dyn Kernel,
        fd: BorrowedFd<'_>,
        piece: &mut [u8],
        at: u64,
        pause: &mut P,
    ) -> Result<usize, Cut> {
        let Some(direct) = &self.direct else {
            return retry(pause, || kernel.pread(fd, piece, at));
        };
        let sector = widen(self.sector);
        let lead = usize::try_from(at % sector).unwrap_or(0);
        let span = (lead + piece.len()).next_multiple_of(self.sector);
        if self.bounce.as_ref().is_none_or(|bounce| bounce.len() < span) {
            self.bounce = Aligned::new(span).ok();
        }
        let Some(bounce) = &mut self.bounce else {
            return retry(pause, || kernel.pread(fd, piece, at));
        };
        let window = &mut bounce[..span];
        match retry(pause, || kernel.pread(direct.as_fd(), window, at - at % sector)) {
            Ok(read) => {
                let usable = read.saturating_sub(lead).min(piece.len());
                piece[..usable].copy_from_slice(&window[lead..lead + usable]);
                if usable == 0 && read > 0 {
                    // It stops short of where we want to begin, which is no end of input.
                    return retry(pause, || kernel.pread(fd, piece, at));
                }
                Ok(usable)
            }
            // Coarser than its sector: what looked like 512 is 4096, or the file system refuses direct reads after all.
            Err(Cut::Os(Errno::INVAL)) => {
                const PAGE: usize = 4096;
                if self.sector < PAGE {
                    self.sector = PAGE;
                } else {
                    self.direct = None;
                    self.sector = SECTOR;
                }
                self.piece(kernel, fd, piece, at, pause)
            }
            Err(cut) => Err(cut),
        }
    }
}

fn lose(lost: &mut Vec<(usize, usize)>, start: usize, end: usize) {
    match lost.last_mut() {
        Some(last) if last.1 == start => last.1 = end,
        _ => lost.push((start, end)),
    }
}

#[cfg(test)]
mod tests;
