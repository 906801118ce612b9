//! Giving pages back to the kernel behind a moving offset, and asking what the page cache holds.
//!
//! A program that moves a large file once fills the page cache with it, and the kernel makes room by evicting what other
//! programs use. [`DropBehind`] walks behind such a copy and drops each window of it; [`Neutral`] does the same but keeps
//! what was in the cache before; [`cached`] asks.
//!
//! # Windows
//!
//! Advice to drop a page that is still dirty does nothing, which is why dropping each block as it was written does not
//! work, and waiting for each block makes a copy crawl. So a written range goes through two stages, a window at a time:
//! when a window is complete its write-back is started, and while the device works on it the window before it, which is
//! nearly on the device by then, is waited for and dropped. At most two windows and the piece in hand are in the cache,
//! whatever the size of the file, and no more than that is dirty. What was read is clean and is dropped at once.
//!
//! ```text
//!        dropped         |   written back   |     dirty     |
//! -----------------------+------------------+----------------->  offset
//!                          the window before  this window
//! ```
//!
//! # What it does not do
//!
//! It promises no durability: neither metadata nor the device's own cache are flushed. It never fails a copy: errors are
//! remembered, not returned. One of them matters: see [`DropBehind::write_back_error`]. It moves no bytes and owns no
//! descriptor.
//!
//! ```
//! use fdd_io::cache::DropBehind;
//! use std::io::Write;
//!
//! # let mut file = tempfile::tempfile()?;
//! let mut behind = DropBehind::writing(0);
//! let mut offset = 0;
//! for _ in 0..100 {
//!     let chunk = [7; 100_000];
//!     file.write_all(&chunk)?;
//!     offset += chunk.len() as u64;
//!     behind.moved_to(&file, offset);
//! }
//! behind.finish(&file);
//! if let Some(lost) = behind.write_back_error() {
//!     return Err(lost.into());
//! }
//! # Ok::<(), std::io::Error>(())
//! ```

use std::io::IoSliceMut;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

use fdd_sys::cachectl;
use rustix::fs::{Advice, OFlags};
use rustix::io::{Errno, ReadWriteFlags};

/// Drops what was read or written behind a moving offset, also pages that were in the cache before.
///
/// Works for regular files and block devices. Tell it how far the copy is with [`moved_to`](DropBehind::moved_to), and that
/// it is over with [`finish`](DropBehind::finish).
#[derive(Debug)]
pub struct DropBehind {
    windows: Windows,
    steps: Vec<Step>,
    performer: Performer,
}

impl DropBehind {
    /// The window that is used unless another is asked for, in bytes.
    pub const WINDOW: u64 = 8 << 20;

    /// For an end that is read, from offset `from` on.
    #[must_use]
    pub fn reading(from: u64) -> DropBehind {
        DropBehind::new(Side::Reading, from)
    }

    /// For an end that is written, from offset `from` on.
    #[must_use]
    pub fn writing(from: u64) -> DropBehind {
        DropBehind::new(Side::Writing, from)
    }

    fn new(side: Side, from: u64) -> DropBehind {
        let windows = Windows::new(side, DropBehind::WINDOW, page_size(), from);
        DropBehind { windows, steps: Vec::new(), performer: Performer::default() }
    }

    /// Uses windows of `bytes`, rounded up to a power of two and to a page.
    ///
    /// Small windows bound the cache more tightly and make the device wait more often.
    #[must_use]
    pub fn with_window(mut self, bytes: u64) -> DropBehind {
        self.windows.set_size(bytes);
        self
    }

    /// Everything before `offset` has been read or written. May wait for the device.
    ///
    /// An offset further on than the last one by a jump counts the range between as moved: pages of a hole that was skipped
    /// are dropped as well. An offset before the last one starts anew from there.
    pub fn moved_to(&mut self, fd: impl AsFd, offset: u64) {
        self.windows.advance(offset, &mut self.steps);
        self.perform(fd.as_fd());
    }

    /// The copy is over: drops what is left. Waits for the device.
    pub fn finish(&mut self, fd: impl AsFd) {
        self.windows.finish(&mut self.steps);
        self.perform(fd.as_fd());
        self.performer.drop_laggards(fd.as_fd());
    }

    fn perform(&mut self, fd: BorrowedFd<'_>) {
        for step in self.steps.drain(..) {
            self.performer.perform(fd, &step, [step.range()].into_iter());
        }
    }

    /// The first error of all, of advice as of write-back. Nothing was lost by it but pages left in the cache, unless
    /// [`write_back_error`](DropBehind::write_back_error) says so.
    #[must_use]
    pub fn trouble(&self) -> Option<Errno> {
        self.performer.first
    }

    /// The error of a write-back that was waited for: data that was written has not reached the device.
    ///
    /// The kernel tells this once for each open file. Who waits here takes it from a later `fsync` on the same descriptor,
    /// so the caller must report this error as it would have reported that of `fsync`.
    #[must_use]
    pub fn write_back_error(&self) -> Option<Errno> {
        self.performer.write_back
    }
}

/// Drops what was read or written behind a moving offset, and leaves in the cache what was there before.
///
/// The cache is asked ahead of the copy, since a read brings in more than it asked for: announce each move with
/// [`before`](Neutral::before). When the copy is over, what the kernel read ahead in vain is dropped too. What the kernel will not
/// tell counts as not cached before.
#[derive(Debug)]
pub struct Neutral {
    behind: DropBehind,
    found: Found,
}

impl Neutral {
    /// How far the cache is asked ahead of the copy, in bytes.
    ///
    /// More than the kernel reads ahead, lest its own reading be taken for what was there before. It has up to two rounds
    /// of `read_ahead_kb` in flight, each doubled after `POSIX_FADV_SEQUENTIAL`; 8 MiB has been seen, 128 KiB is common.
    const AHEAD: u64 = 64 << 20;

    /// For an end that is read, from offset `from` on.
    #[must_use]
    pub fn reading(from: u64) -> Neutral {
        Neutral { behind: DropBehind::reading(from), found: Found::new(Neutral::AHEAD, page_size(), from) }
    }

    /// For an end that is written, from offset `from` on.
    #[must_use]
    pub fn writing(from: u64) -> Neutral {
        Neutral { behind: DropBehind::writing(from), found: Found::new(Neutral::AHEAD, page_size(), from) }
    }

    /// Uses windows of `bytes`, rounded up to a power of two and to a page.
    #[must_use]
    pub fn with_window(mut self, bytes: u64) -> Neutral {
        self.behind = self.behind.with_window(bytes);
        self
    }

    /// To be called before bytes of `range` are read or written. A call for each block is cheap: most return at once.
    pub fn before(&mut self, fd: impl AsFd, range: Range<u64>) {
        let fd = fd.as_fd();
        self.found.ask(range, |asked, kept| resident_ranges(fd, asked, kept));
    }

    /// Everything before `offset` has been read or written; see [`DropBehind::moved_to`].
    pub fn moved_to(&mut self, fd: impl AsFd, offset: u64) {
        self.behind.windows.advance(offset, &mut self.behind.steps);
        self.perform(fd.as_fd());
    }

    /// The copy is over; see [`DropBehind::finish`].
    pub fn finish(&mut self, fd: impl AsFd) {
        let end = self.behind.windows.finish(&mut self.behind.steps);
        if self.behind.windows.side == Side::Reading && end < self.found.asked.end {
            self.behind.steps.push(Step::Drop(end..self.found.asked.end));
        }
        self.perform(fd.as_fd());
        let DropBehind { performer, windows, .. } = &mut self.behind;
        if windows.side == Side::Reading {
            performer.await_reading_ahead(fd.as_fd());
        }
        performer.drop_laggards(fd.as_fd());
    }

    fn perform(&mut self, fd: BorrowedFd<'_>) {
        let DropBehind { steps, performer, windows } = &mut self.behind;
        for step in steps.drain(..) {
            let ours = self.found.all_but_kept(step.range());
            // Where every page belongs to somebody else, there is nothing to wait for.
            if !ours.is_empty() {
                performer.perform(fd, &step, ours.into_iter());
            }
        }
        self.found.forget(windows.oldest());
    }

    /// As [`DropBehind::trouble`].
    #[must_use]
    pub fn trouble(&self) -> Option<Errno> {
        self.behind.trouble()
    }

    /// As [`DropBehind::write_back_error`].
    #[must_use]
    pub fn write_back_error(&self) -> Option<Errno> {
        self.behind.write_back_error()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Reading,
    Writing,
}

/// What is to be done to a range of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// Start to write it back, without waiting.
    Start(Range<u64>),
    /// Wait until it is written back, then drop it.
    Settle(Range<u64>),
    /// Drop it; it is clean.
    Drop(Range<u64>),
}

impl Step {
    fn range(&self) -> Range<u64> {
        match self {
            Step::Start(range) | Step::Settle(range) | Step::Drop(range) => range.clone(),
        }
    }
}

/// When to do what: decides, and calls nothing.
#[derive(Debug)]
struct Windows {
    side: Side,
    /// A power of two, at least a page.
    size: u64,
    page: u64,
    /// Where the window in hand begins. Always at a page.
    begin: u64,
    /// How far the copy is.
    at: u64,
    /// Where it began, or began anew.
    from: u64,
    /// The window before, whose write-back has been started.
    started: Option<Range<u64>>,
}

impl Windows {
    fn new(side: Side, size: u64, page: u64, from: u64) -> Windows {
        Windows { side, size, page, begin: floor(from, page), at: from, from, started: None }
    }

    fn set_size(&mut self, bytes: u64) {
        self.size = bytes.clamp(self.page, 1 << 40).next_power_of_two();
    }

    fn advance(&mut self, to: u64, steps: &mut Vec<Step>) {
        if to < self.at {
            self.finish(steps);
            self.begin = floor(to, self.page);
            self.from = to;
        }
        self.at = to;
        // Windows end at multiples of their size, so that no large folio of the cache lies across an edge: the kernel drops
        // a folio only when all of it is named.
        let edge = floor(to, self.size);
        if edge <= self.begin {
            return;
        }
        if edge - self.begin > 2 * self.size {
            // A jump over a hole may be of any length and is one step.
            self.complete(self.begin..edge, steps);
        } else {
            while self.begin < edge {
                self.complete(self.begin..floor(self.begin, self.size) + self.size, steps);
            }
        }
    }

    /// Also the offset up to which pages have been named, so that an end can go on from there.
    fn finish(&mut self, steps: &mut Vec<Step>) -> u64 {
        // The kernel keeps a page of which only a part is named, unless the file ends in it.
        let end = ceil(self.at, self.page);
        if self.begin < end && self.at > self.from {
            self.complete(self.begin..end, steps);
        }
        steps.extend(self.started.take().map(Step::Settle));
        end
    }

    fn complete(&mut self, window: Range<u64>, steps: &mut Vec<Step>) {
        self.begin = window.end;
        match self.side {
            Side::Reading => steps.push(Step::Drop(window)),
            Side::Writing => {
                steps.push(Step::Start(window.clone()));
                steps.extend(self.started.replace(window).map(Step::Settle));
            }
        }
    }

    /// The lowest offset that a later step can name, if the copy goes on forward.
    fn oldest(&self) -> u64 {
        self.started.as_ref().map_or(self.begin, |started| started.start)
    }
}

/// What was in the cache before the copy came, as far as it is still needed.
#[derive(Debug)]
struct Found {
    /// How far ahead is asked at a time. A power of two.
    ahead: u64,
    page: u64,
    /// The range that the cache has been asked about.
    asked: Range<u64>,
    /// Whole pages found there. In order, apart from each other.
    kept: Vec<Range<u64>>,
}

impl Found {
    fn new(ahead: u64, page: u64, from: u64) -> Found {
        let from = floor(from, page);
        Found { ahead, page, asked: from..from, kept: Vec::new() }
    }

    /// Asks about `range` and as far ahead of it as the kernel may read, as far as that has not been done. `tell` appends what it finds.
    fn ask(&mut self, range: Range<u64>, mut tell: impl FnMut(Range<u64>, &mut Vec<Range<u64>>)) {
        if range.start < self.asked.start {
            // Back to where the copy has not been, or has been and dropped what was its own.
            self.asked = floor(range.start, self.page)..floor(range.start, self.page);
            self.kept.clear();
        }
        if range.start > self.asked.end {
            self.asked.end = floor(range.start, self.page);
        }
        let edge = ceil(range.end, self.ahead);
        if edge <= range.start || edge.saturating_add(self.ahead) <= self.asked.end {
            return;
        }
        let until = edge.saturating_add(self.ahead);
        tell(self.asked.end..until, &mut self.kept);
        self.asked.end = until;
    }

    /// The parts of `range` that were not in the cache before.
    fn all_but_kept(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut rest = range.start;
        let mut ours = Vec::new();
        let first = self.kept.partition_point(|kept| kept.end <= range.start);
        for kept in self.kept[first..].iter().take_while(|kept| kept.start < range.end) {
            if rest < kept.start {
                ours.push(rest..kept.start);
            }
            rest = kept.end;
        }
        if rest < range.end {
            ours.push(rest..range.end);
        }
        ours
    }

    /// Nothing before `offset` will be asked for again.
    fn forget(&mut self, offset: u64) {
        let gone = self.kept.partition_point(|kept| kept.end <= offset);
        self.kept.drain(..gone);
        self.asked.start = self.asked.start.max(offset.min(self.asked.end));
    }
}

/// Performs steps, and remembers what went wrong.
#[derive(Debug, Default)]
struct Performer {
    first: Option<Errno>,
    write_back: Option<Errno>,
    /// The end has no ranges to write back or drop: it is a pipe, say.
    no_ranges: bool,
    /// A sandbox refuses `sync_file_range`.
    refused: bool,
    /// Ranges of which the kernel kept something: it passes over pages that are in somebody's hands for the moment.
    laggards: Vec<Range<u64>>,
}

impl Performer {
    /// Performs `step`, dropping `ours` of its range.
    fn perform(&mut self, fd: BorrowedFd<'_>, step: &Step, ours: impl Iterator<Item = Range<u64>>) {
        if self.no_ranges {
            return;
        }
        match step {
            Step::Start(range) => {
                if !self.refused {
                    let started = cachectl::start_write_back(fd, range.start, range.end - range.start);
                    self.note(started);
                }
                return;
            }
            Step::Settle(range) => {
                if !self.refused {
                    let settled = cachectl::finish_write_back(fd, range.start, range.end - range.start);
                    self.note(settled);
                }
                if self.refused {
                    // More than is needed, but what waits is all that works: dirty pages cannot be dropped.
                    self.note(rustix::fs::fdatasync(fd));
                }
            }
            Step::Drop(_) => {}
        }
        self.drop_laggards(fd);
        for range in ours {
            self.drop_range(fd, range);
        }
    }

    fn drop_range(&mut self, fd: BorrowedFd<'_>, range: Range<u64>) {
        let Some(len) = NonZeroU64::new(range.end - range.start) else { return };
        let dropped = rustix::fs::fadvise(fd, range.start, Some(len), Advice::DontNeed);
        self.note(dropped);
        if by_cachestat(fd, &range).is_ok_and(|left| left.cached > 0) && self.laggards.len() < Performer::LAGGARDS {
            self.laggards.push(range);
        }
    }

    /// A file system that keeps its pages must not make the list grow with the file.
    const LAGGARDS: usize = 16;

    /// Tries once more what was kept. What is kept again stays in the list for the next time.
    fn drop_laggards(&mut self, fd: BorrowedFd<'_>) {
        for range in std::mem::take(&mut self.laggards) {
            self.drop_range(fd, range);
        }
    }

    /// Waits for pages among the laggards that the kernel is still reading, which cannot be dropped before they are there.
    ///
    /// A read of one byte waits for its page. That of the last page waits for the rest, near enough; it may set off another
    /// round of reading ahead, hence a few tries.
    fn await_reading_ahead(&mut self, fd: BorrowedFd<'_>) {
        for _ in 0..4 {
            if self.laggards.is_empty() {
                return;
            }
            for range in &self.laggards {
                let mut left = Vec::new();
                resident_ranges(fd, range.clone(), &mut left);
                for part in left {
                    // An end that cannot be read this way, as for direct reads, has nothing read ahead.
                    let _ = rustix::io::pread(fd, &mut [0], part.end - 1);
                }
            }
            self.drop_laggards(fd);
        }
    }

    fn note(&mut self, result: rustix::io::Result<()>) {
        let Err(error) = result else { return };
        self.first.get_or_insert(error);
        match error {
            Errno::SPIPE | Errno::BADF => self.no_ranges = true,
            Errno::NOSYS | Errno::PERM | Errno::ACCESS => self.refused = true,
            Errno::IO | Errno::NOSPC | Errno::DQUOT => {
                self.write_back.get_or_insert(error);
            }
            // Of this range only, for all that is known: the next may do.
            _ => {}
        }
    }
}

/// What the page cache holds of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Residency {
    /// Pages that the range touches, whether the file has them or not.
    pub pages: u64,
    /// Of these, pages in the cache.
    pub cached: u64,
    /// Of the cached, pages that are dirty or being written back, where the kernel tells.
    pub dirty: Option<u64>,
}

/// Asks the kernel how much of `range` of a file or block device is in the page cache. `None` when it cannot or will not
/// tell, which is so for files that the caller neither owns nor may write.
///
/// Counts each page by `cachestat(2)` (Linux 6.5). Before that by `mincore(2)`, and where that would lie or cannot be used,
/// by a read of one byte of each page that may not wait. Such a read has the kernel fetch the page on newer systems, which
/// is why it comes last.
#[must_use]
pub fn cached(fd: impl AsFd, range: Range<u64>) -> Option<Residency> {
    let fd = fd.as_fd();
    if range.is_empty() {
        return Some(Residency { pages: 0, cached: 0, dirty: Some(0) });
    }
    match by_cachestat(fd, &range) {
        Err(Errno::NOSYS) => {}
        // The kernel's answer for a stranger's file; a sandbox's answer for our own.
        Err(Errno::PERM | Errno::ACCESS) if may_be_told(fd) => {}
        told => return told.ok(),
    }
    if may_be_told(fd)
        && let Ok(pages) = by_mincore(fd, &range)
    {
        return Some(pages.residency());
    }
    by_probe(fd, &range).ok().map(|pages| pages.residency())
}

/// Appends the parts of `range` that are in the cache, in whole pages, to `found`. Nothing where the kernel will not tell.
fn resident_ranges(fd: BorrowedFd<'_>, range: Range<u64>, found: &mut Vec<Range<u64>>) {
    match cached(fd, range.clone()) {
        Some(residency) if residency.cached == 0 => {}
        Some(residency) if residency.cached == residency.pages => {
            append(found, floor(range.start, page_size())..ceil(range.end, page_size()));
        }
        Some(residency) if residency.pages > 1 => {
            // Part of it: halves, down to pages. Most ranges are all or nothing, and the counting is cheap.
            let middle = floor(range.start, page_size()) + residency.pages / 2 * page_size();
            resident_ranges(fd, range.start..middle, found);
            resident_ranges(fd, middle..range.end, found);
        }
        _ => {}
    }
}

/// Appends `range`, joined to the last one where they touch.
fn append(ranges: &mut Vec<Range<u64>>, range: Range<u64>) {
    match ranges.last_mut() {
        Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
        _ => ranges.push(range),
    }
}

fn by_cachestat(fd: BorrowedFd<'_>, range: &Range<u64>) -> rustix::io::Result<Residency> {
    let stat = cachectl::cachestat(fd, range.start, range.end - range.start)?;
    Ok(Residency { pages: pages_of(range), cached: stat.cached, dirty: Some(stat.dirty + stat.writeback) })
}

/// Which pages of a range are in the cache.
struct Pages(Vec<bool>);

impl Pages {
    fn residency(&self) -> Residency {
        let cached = self.0.iter().filter(|cached| **cached).count();
        Residency { pages: self.0.len() as u64, cached: cached as u64, dirty: None }
    }
}

fn by_mincore(fd: BorrowedFd<'_>, range: &Range<u64>) -> rustix::io::Result<Pages> {
    let start = floor(range.start, page_size());
    cachectl::mincore(fd, start, ceil(range.end, page_size()) - start).map(Pages)
}

/// Probes the last page first: should the kernel read ahead from a page that it lacks, then it reads what has been probed.
fn by_probe(fd: BorrowedFd<'_>, range: &Range<u64>) -> rustix::io::Result<Pages> {
    let start = floor(range.start, page_size());
    let mut cached = vec![false; usize::try_from(pages_of(range)).map_err(|_| Errno::INVAL)?];
    for (page, cached) in cached.iter_mut().enumerate().rev() {
        let offset = start + page as u64 * page_size();
        let mut byte = [0];
        *cached = match rustix::io::preadv2(fd, &mut [IoSliceMut::new(&mut byte)], offset, ReadWriteFlags::NOWAIT) {
            Ok(read) => read > 0,
            Err(Errno::AGAIN) => false,
            Err(error) => return Err(error),
        }
    }
    Ok(Pages(cached))
}

/// Whether the kernel tells the caller the truth about this file's pages: to its owner, to root, and to who writes it.
fn may_be_told(fd: BorrowedFd<'_>) -> bool {
    let user = rustix::process::geteuid();
    user.is_root()
        || rustix::fs::fstat(fd).is_ok_and(|stat| stat.st_uid == user.as_raw())
        || rustix::fs::fcntl_getfl(fd).is_ok_and(|flags| flags.intersects(OFlags::WRONLY | OFlags::RDWR))
}

fn pages_of(range: &Range<u64>) -> u64 {
    (ceil(range.end, page_size()) - floor(range.start, page_size())) / page_size()
}

fn page_size() -> u64 {
    rustix::param::page_size() as u64
}

/// `unit` is a power of two, here as below.
fn floor(offset: u64, unit: u64) -> u64 {
    offset & !(unit - 1)
}

/// The end of the offsets where there is no multiple of `unit` at or after `offset`.
fn ceil(offset: u64, unit: u64) -> u64 {
    offset.checked_next_multiple_of(unit).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::cast_possible_truncation)] // A test may end in a panic, and its sizes are small.
mod tests {
    use super::Step::{Drop, Settle, Start};
    use super::*;
    use proptest::prelude::*;

    const PAGE: u64 = 16;
    const WINDOW: u64 = 64;

    fn windows(side: Side, from: u64) -> Windows {
        Windows::new(side, WINDOW, PAGE, from)
    }

    fn advance(windows: &mut Windows, to: u64) -> Vec<Step> {
        let mut steps = Vec::new();
        windows.advance(to, &mut steps);
        steps
    }

    fn finish(windows: &mut Windows) -> Vec<Step> {
        let mut steps = Vec::new();
        windows.finish(&mut steps);
        steps
    }

    #[test]
    fn a_written_window_is_started_when_complete_and_settled_one_window_later() {
        let mut windows = windows(Side::Writing, 0);
        assert_eq!(advance(&mut windows, 63), []);
        assert_eq!(advance(&mut windows, 64), [Start(0..64)]);
        assert_eq!(advance(&mut windows, 127), []);
        assert_eq!(advance(&mut windows, 130), [Start(64..128), Settle(0..64)]);
        assert_eq!(finish(&mut windows), [Start(128..144), Settle(64..128), Settle(128..144)]);
        assert_eq!(finish(&mut windows), []);
    }

    #[test]
    fn a_read_window_is_dropped_when_complete() {
        let mut windows = windows(Side::Reading, 0);
        assert_eq!(advance(&mut windows, 63), []);
        assert_eq!(advance(&mut windows, 64), [Drop(0..64)]);
        assert_eq!(advance(&mut windows, 192), [Drop(64..128), Drop(128..192)]);
        assert_eq!(advance(&mut windows, 193), []);
        assert_eq!(finish(&mut windows), [Drop(192..208)]);
    }

    #[test]
    fn an_odd_start_is_rounded_down_to_its_page_and_the_first_window_is_short() {
        let mut windows = windows(Side::Reading, 37);
        assert_eq!(advance(&mut windows, 100), [Drop(32..64)]);
        assert_eq!(finish(&mut windows), [Drop(64..112)]);
    }

    #[test]
    fn a_jump_is_one_step() {
        let mut windows = windows(Side::Writing, 0);
        assert_eq!(advance(&mut windows, 10), []);
        assert_eq!(advance(&mut windows, (1 << 50) + 3), [Start(0..1 << 50)]);
        assert_eq!(
            finish(&mut windows),
            [Start(1 << 50..(1 << 50) + 16), Settle(0..1 << 50), Settle(1 << 50..(1 << 50) + 16)]
        );
    }

    #[test]
    fn going_back_settles_and_starts_anew() {
        let mut windows = windows(Side::Writing, 0);
        assert_eq!(advance(&mut windows, 70), [Start(0..64)]);
        assert_eq!(advance(&mut windows, 5), [Start(64..80), Settle(0..64), Settle(64..80)]);
        assert_eq!(advance(&mut windows, 64), [Start(0..64)]);
    }

    #[test]
    fn nothing_moved_is_nothing_done() {
        let mut windows = windows(Side::Writing, 37);
        assert_eq!(advance(&mut windows, 37), []);
        assert_eq!(finish(&mut windows), []);
    }

    #[test]
    fn a_window_of_no_size_is_a_page() {
        let mut windows = windows(Side::Reading, 0);
        windows.set_size(0);
        assert_eq!(windows.size, PAGE);
        windows.set_size(65);
        assert_eq!(windows.size, 128);
        windows.set_size(u64::MAX);
        assert!(windows.size.is_power_of_two());
    }

    proptest! {
        /// Whatever the pieces, each page is named for dropping exactly once, in order, and never before it was passed by.
        #[test]
        fn every_page_is_dropped_once_and_only_behind(
            from in 0_u64..300,
            pieces in proptest::collection::vec(0_u64..200, 0..40),
            writing: bool,
        ) {
            let mut windows = windows(if writing { Side::Writing } else { Side::Reading }, from);
            let mut started = floor(from, PAGE);
            let mut dropped = floor(from, PAGE);
            let mut at = from;
            let mut check = |steps: Vec<Step>, at: u64, over: bool| {
                for step in steps {
                    let passed = if over { ceil(at, PAGE) } else { at };
                    prop_assert!(step.range().end <= passed);
                    match step {
                        Start(range) => {
                            prop_assert_eq!(range.start, started);
                            started = range.end;
                        }
                        Settle(range) => {
                            prop_assert!(range.end <= started);
                            prop_assert_eq!(range.start, dropped);
                            dropped = range.end;
                        }
                        Drop(range) => {
                            prop_assert_eq!(range.start, dropped);
                            dropped = range.end;
                        }
                    }
                }
                // The promise: at most two windows and the piece in hand are left.
                prop_assert!(at.saturating_sub(dropped) <= 2 * WINDOW + 200);
                Ok(dropped)
            };
            for piece in pieces {
                at += piece;
                check(advance(&mut windows, at), at, false)?;
            }
            let end = check(finish(&mut windows), at, true)?;
            let all = if at == from { floor(from, PAGE) } else { ceil(at, PAGE) };
            prop_assert_eq!(end, all);
        }
    }

    /// A cache with some pages in it, and the ranges that were asked about.
    struct Cache {
        pages: Vec<Range<u64>>,
        asked: Vec<Range<u64>>,
    }

    impl Cache {
        fn tell(&mut self, range: Range<u64>, found: &mut Vec<Range<u64>>) {
            self.asked.push(range.clone());
            for page in &self.pages {
                let part = page.start.max(range.start)..page.end.min(range.end);
                if !part.is_empty() {
                    append(found, part);
                }
            }
        }
    }

    #[test]
    fn the_cache_is_asked_ahead_and_once() {
        let mut cache = Cache { pages: vec![16..48, 100..112, 128..400], asked: Vec::new() };
        let mut found = Found::new(WINDOW, PAGE, 5);
        for block in 0..13 {
            found.ask(5 + block * 10..5 + (block + 1) * 10, |range, kept| cache.tell(range, kept));
        }
        assert_eq!(cache.asked, [0..128, 128..192, 192..256]);
        assert_eq!(found.all_but_kept(0..256), [0..16, 48..100, 112..128]);
        assert_eq!(found.all_but_kept(20..40), []);
        assert_eq!(found.all_but_kept(40..125), [48..100, 112..125]);
    }

    #[test]
    fn what_lies_behind_is_forgotten() {
        let mut cache = Cache { pages: (0..1000).map(|page| page * 32..page * 32 + 16).collect(), asked: Vec::new() };
        let mut found = Found::new(WINDOW, PAGE, 0);
        for block in 0..400 {
            found.ask(block * WINDOW..(block + 1) * WINDOW, |range, kept| cache.tell(range, kept));
            found.forget(block * WINDOW);
            assert!(found.kept.len() <= 6, "{:?}", found.kept);
        }
    }

    #[test]
    fn a_jump_is_not_asked_about() {
        let mut cache = Cache { pages: vec![0..16, 1024..1040], asked: Vec::new() };
        let mut found = Found::new(WINDOW, PAGE, 0);
        found.ask(0..10, |range, kept| cache.tell(range, kept));
        found.ask(1030..1040, |range, kept| cache.tell(range, kept));
        assert_eq!(cache.asked, [0..128, 1024..1152]);
        assert_eq!(found.kept, [0..16, 1024..1040]);
    }

    #[test]
    fn errors_are_sorted_by_what_they_mean() {
        let mut performer = Performer::default();
        performer.note(Err(Errno::INVAL));
        assert!(!performer.no_ranges && !performer.refused && performer.write_back.is_none());
        performer.note(Err(Errno::IO));
        performer.note(Err(Errno::NOSPC));
        performer.note(Err(Errno::NOSYS));
        performer.note(Err(Errno::SPIPE));
        assert_eq!((performer.first, performer.write_back), (Some(Errno::INVAL), Some(Errno::IO)));
        assert!(performer.no_ranges && performer.refused);
    }

    #[test]
    fn a_pipe_is_left_alone_after_the_first_refusal() {
        let (_reader, writer) = std::io::pipe().unwrap();
        let mut behind = DropBehind::writing(0).with_window(4096);
        behind.moved_to(&writer, 1 << 20);
        behind.finish(&writer);
        assert_eq!(behind.trouble(), Some(Errno::SPIPE));
        assert_eq!(behind.write_back_error(), None);
        assert_eq!(cached(&writer, 0..4096).map_or(0, |residency| residency.cached), 0);
    }

    /// A file with `pages` pages, on the device and out of the cache. `None` where the file system keeps its pages.
    fn cold_file(pages: u64) -> Option<std::fs::File> {
        use std::os::unix::fs::FileExt;
        let file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        for page in 0..pages {
            file.write_all_at(&vec![1; page_size() as usize], page * page_size()).unwrap();
        }
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        let cold = by_mincore(file.as_fd(), &(0..pages * page_size())).unwrap().residency().cached == 0;
        if !cold {
            eprintln!("skipped: the file system keeps its pages");
        }
        cold.then_some(file)
    }

    #[test]
    fn every_way_of_asking_tells_the_same() {
        use std::os::unix::fs::FileExt;
        let Some(file) = cold_file(64) else { return };
        rustix::fs::fadvise(&file, 0, None, Advice::Random).unwrap();
        for page in [3, 4, 40, 63] {
            file.read_exact_at(&mut [0], page * page_size()).unwrap();
        }
        let all = 1..70 * page_size();
        let mincore = by_mincore(file.as_fd(), &all).unwrap();
        assert_eq!(mincore.residency(), Residency { pages: 70, cached: 4, dirty: None });
        match by_cachestat(file.as_fd(), &all) {
            Ok(told) => assert_eq!(told, Residency { pages: 70, cached: 4, dirty: Some(0) }),
            Err(error) => assert_eq!(error, Errno::NOSYS),
        }
        let mut found = Vec::new();
        resident_ranges(file.as_fd(), all.clone(), &mut found);
        assert_eq!(
            found,
            [3 * page_size()..5 * page_size(), 40 * page_size()..41 * page_size(), 63 * page_size()..64 * page_size()]
        );
        // Last, because it may fetch what it asks for.
        match by_probe(file.as_fd(), &all) {
            Ok(pages) => assert_eq!(pages.0, mincore.0),
            Err(error) => assert_eq!(error, Errno::OPNOTSUPP),
        }
    }

    #[test]
    fn an_empty_range_is_known_to_hold_nothing() {
        let (reader, _writer) = std::io::pipe().unwrap();
        assert_eq!(cached(&reader, 5..5), Some(Residency { pages: 0, cached: 0, dirty: Some(0) }));
    }

    #[test]
    fn an_older_step_may_name_what_has_been_started_and_no_more() {
        let mut written = windows(Side::Writing, 37);
        assert_eq!(written.oldest(), 32);
        advance(&mut written, 70);
        assert_eq!((written.started.clone(), written.oldest()), (Some(32..64), 32));
        advance(&mut written, 130);
        assert_eq!((written.started.clone(), written.oldest()), (Some(64..128), 64));
        let mut read = windows(Side::Reading, 37);
        advance(&mut read, 130);
        assert_eq!(read.oldest(), 128);
    }

    #[test]
    fn what_neutral_found_is_forgotten_behind_it() {
        let Some(file) = cold_file(64) else { return };
        let window = 8 * page_size();
        let mut neutral = Neutral::reading(0).with_window(window);
        // As if every other page had been there.
        neutral.found.asked = 0..64 * page_size();
        neutral.found.kept = (0..32).map(|page| 2 * page * page_size()..(2 * page + 1) * page_size()).collect();
        for passed in 1..=8 {
            neutral.moved_to(&file, passed * window);
            assert_eq!(neutral.found.kept.len() as u64, 32 - 4 * passed);
        }
    }

    /// How many pages of the range are dirty and not under write-back.
    fn dirty(file: &std::fs::File, range: Range<u64>) -> u64 {
        cachectl::cachestat(file.as_fd(), range.start, range.end - range.start).unwrap().dirty
    }

    #[test]
    fn a_range_is_written_back_and_nothing_around_it() {
        use std::os::unix::fs::FileExt;
        let Some(file) = cold_file(64) else { return };
        if cachectl::cachestat(file.as_fd(), 0, 1) == Err(Errno::NOSYS) {
            eprintln!("skipped: the kernel does not count dirty pages");
            return;
        }
        let pages = |pages: Range<u64>| pages.start * page_size()..pages.end * page_size();
        type Make = fn(Range<u64>) -> Step;
        for make in [Start as Make, Settle as Make] {
            // The kernel writes back for reasons of its own too, and leaves pages that it has in hand, but not each time.
            let alone = (0..20).any(|_| {
                file.sync_all().unwrap();
                // Page by page: a folio of several would be written back as a whole.
                for page in 0..64 {
                    file.write_all_at(&vec![2; page_size() as usize], page * page_size()).unwrap();
                }
                let mut performer = Performer::default();
                performer.perform(file.as_fd(), &make(pages(16..24)), std::iter::empty());
                assert_eq!(performer.first, None);
                [0..16, 16..24, 24..64].map(|part| dirty(&file, pages(part))) == [16, 0, 40]
            });
            assert!(alone, "not {:?} alone was written back", make(pages(16..24)));
        }
    }

    /// A file in memory with `pages` pages, which nothing drops.
    fn kept_file(pages: u64) -> std::fs::File {
        use std::os::unix::fs::FileExt;
        let file = std::fs::File::from(rustix::fs::memfd_create("kept", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
        file.write_all_at(&vec![1; (pages * page_size()) as usize], 0).unwrap();
        file
    }

    #[test]
    fn what_the_kernel_keeps_is_tried_again_and_the_list_does_not_grow_with_the_file() {
        let file = kept_file(40);
        if by_cachestat(file.as_fd(), &(0..page_size())).is_err() {
            eprintln!("skipped: the kernel does not count pages");
            return;
        }
        let mut performer = Performer::default();
        // Beyond the end there is nothing to keep.
        performer.drop_range(file.as_fd(), 40 * page_size()..41 * page_size());
        assert_eq!(performer.laggards, []);
        performer.drop_range(file.as_fd(), 3..3);
        assert_eq!(performer.laggards, []);
        for page in 0..15 {
            performer.drop_range(file.as_fd(), page * page_size()..(page + 1) * page_size());
            assert_eq!(performer.laggards.len() as u64, page + 1);
        }
        assert_eq!(performer.laggards[14], 14 * page_size()..15 * page_size());
        performer.drop_laggards(file.as_fd());
        assert_eq!(performer.laggards.len(), 15, "kept once more");
        for page in 15..20 {
            performer.drop_range(file.as_fd(), page * page_size()..(page + 1) * page_size());
        }
        assert_eq!(performer.laggards.len(), Performer::LAGGARDS);
    }

    #[test]
    fn a_range_in_the_middle_is_asked_about_and_no_more() {
        let file = kept_file(8);
        let of = |range: Range<u64>| by_mincore(file.as_fd(), &range).unwrap().0.len();
        assert_eq!(of(3 * page_size()..5 * page_size()), 2);
        assert_eq!(of(3 * page_size() + 1..5 * page_size() + 1), 3);
        assert_eq!(of(5 * page_size() - 1..5 * page_size()), 1);
    }

    #[test]
    fn the_kernel_tells_root_the_owner_and_who_may_write() {
        use rustix::fs::{Gid, Mode, Uid, fchown, open};
        let file = tempfile::NamedTempFile::new().unwrap();
        let with = |flags| open(file.path(), flags, Mode::empty()).unwrap();
        let [read, write, both] = [OFlags::RDONLY, OFlags::WRONLY, OFlags::RDWR].map(with);
        for fd in [&read, &write, &both] {
            assert!(may_be_told(fd.as_fd()), "our own");
        }
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can become somebody else");
            return;
        }
        let owned = tempfile::NamedTempFile::new().unwrap();
        fchown(owned.as_file(), Some(Uid::from_raw(65534)), None::<Gid>).unwrap();
        let owned = open(owned.path(), OFlags::RDONLY, Mode::empty()).unwrap();
        assert!(may_be_told(owned.as_fd()), "root");
        // The call changes the user of this thread alone.
        let stranger = std::thread::spawn(move || {
            rustix::thread::set_thread_uid(Uid::from_raw(65534)).unwrap();
            [read, write, both, owned].map(|fd| may_be_told(fd.as_fd()))
        });
        assert_eq!(stranger.join().unwrap(), [false, true, true, true]);
    }
}
