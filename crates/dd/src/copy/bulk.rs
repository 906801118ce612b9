//! What the ways with several large requests in flight share: when they may be used, which range they move through which
//! descriptors, and how it is counted. They differ in who waits: `uring` and `overlap`.
//!
//! Input is read ahead at explicit offsets, in pieces. Output that makes a file longer is written strictly in order, each
//! piece after the one before is in the file, so that a death at any moment leaves a prefix. At the end, and wherever
//! something short or refused is met, both descriptors are put behind what is in the output, and the plain loop goes on
//! from there, with the part of a record that is written already passed over.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, OFlags, StatxFlags};
use rustix::io::Errno;

use crate::copy::{Halt, Job, Outcome, sizes};
use crate::facts::Kind;
use crate::plan::{Cache, Durable, Holes};
use crate::tally::Tally;
use crate::units::widen;

/// Bytes of one write, and of what is read for it. Large writes make few, large extents and few commits of the journal.
pub(crate) const PIECE: usize = 2 << 20;
/// Pieces in memory: one being written, the others being read or waiting.
pub(crate) const PIECES: usize = 4;
/// Below this a ring, its memory and a second descriptor cost more than they bring.
const LARGE: u64 = 32 << 20;
/// What every file system and device can be asked for directly, where they do not say what they want.
const PAGE: u64 = 4096;
/// Blocks allocated ahead of writes that make a file longer.
const ALLOCATED_AHEAD: u64 = 64 << 20;
/// A write to a pipe up to this size is not mixed with those of others (PIPE_BUF on Linux).
const ATOMIC: usize = 4096;

/// File systems where direct requests bring nothing: memory, and a tree that checks and compresses what passes.
const BUFFERED: [u64; 3] = [
    0x9123_683E, // btrfs
    0x0102_1994, // tmpfs
    0x8584_58F6, // ramfs
];

/// Nobody can tell: the same conditions as for joining small blocks, and nothing has to be looked at on the way.
pub(crate) fn allowed(job: &Job<'_>) -> bool {
    let Job { plan, source, sink, .. } = job;
    let (_, obs) = sizes(plan);
    let observed = OFlags::APPEND | OFlags::SYNC | OFlags::DSYNC;
    let to = (sink.facts.hides_sizes() && sink.position().is_some())
        || sink.facts.kind == Kind::Null
        || (sink.facts.kind == Kind::Fifo && obs > ATOMIC && !sink.facts.flags.contains(OFlags::NONBLOCK));
    source.facts.hides_sizes()
        && source.position().is_some()
        && to
        // A second descriptor must not be able to do what the first one may not.
        && (source.facts.flags & OFlags::ACCMODE) != OFlags::WRONLY
        && (sink.facts.flags & OFlags::ACCMODE) != OFlags::RDONLY
        && !source.facts.flags.union(sink.facts.flags).contains(OFlags::PATH)
        && source.facts.identity != sink.facts.identity
        && !sink.facts.flags.intersects(observed)
        && job.converter.is_none()
        && sink.holes() == Holes::Write
        && plan.is_undisturbed()
        && job.buffers.gathered() == 0
        // Where direct requests were asked for, what the plain loop asks for must be possible too, lest its error is missed.
        && (!asks_direct(job) || Survey::of(job).direct_as_asked(job))
}

/// Large, and at one end at least past the page cache.
pub(crate) fn worthwhile(job: &Job<'_>) -> bool {
    // What is cheap to know comes first: most copies are small.
    if job.trouble || !job.source.facts.hides_sizes() || extent(job) < LARGE {
        return false;
    }
    let survey = Survey::of(job);
    survey.len >= LARGE && (survey.direct_input || survey.direct_output)
}

/// What is in the cache goes into a file that becomes longer, by direct writes that come one at a time.
pub(crate) fn extends_from_cache(job: &Job<'_>) -> bool {
    let survey = Survey::of(job);
    survey.direct_output && !survey.direct_input && !survey.overwrites(job)
}

/// Bytes that are there and, in whole records, asked for.
fn extent(job: &Job<'_>) -> u64 {
    let Job { plan, source, monitor, .. } = job;
    let (ibs, _) = sizes(plan);
    let there = source.size_now().saturating_sub(source.position().unwrap_or(0));
    let read = monitor.tally.read.total();
    let asked = plan.limit.map_or(u64::MAX, |limit| limit.records().saturating_sub(read).saturating_mul(widen(ibs)));
    there.min(asked)
}

/// iflag=direct, oflag=direct, or a descriptor that was handed over so.
fn asks_direct(job: &Job<'_>) -> bool {
    job.source.facts.flags.union(job.sink.facts.flags).contains(OFlags::DIRECT)
}

/// What can be moved, and how.
#[derive(Debug)]
struct Survey {
    from: u64,
    /// Where output begins; 0 where it has no offsets.
    to: u64,
    len: u64,
    /// Smallest piece that both ends take, for those that are direct.
    align: u64,
    direct_input: bool,
    direct_output: bool,
}

impl Survey {
    fn of(job: &Job<'_>) -> Survey {
        let Job { plan, source, sink, .. } = job;
        let (ibs, obs) = sizes(plan);
        let from = source.position().unwrap_or(0);
        let to = sink.position().unwrap_or(0);
        let mut survey = Survey { from, to, len: extent(job), align: PAGE, direct_input: false, direct_output: false };
        let input_align = direct_align(source.fd(), source.facts.kind).filter(|align| from.is_multiple_of(*align));
        let output_align = direct_align(sink.fd(), sink.facts.kind).filter(|align| to.is_multiple_of(*align));
        survey.direct_input = input_align.is_some() && survey.reads_directly(job);
        survey.direct_output = output_align.is_some() && survey.writes_directly(job);
        survey.align = if asks_direct(job) {
            input_align.unwrap_or(1).max(output_align.unwrap_or(1))
        } else {
            PAGE.max(input_align.unwrap_or(1)).max(output_align.unwrap_or(1))
        };
        survey.round(unit(ibs, obs), asks_direct(job));
        survey
    }

    /// Ends at a piece's edge. What is written of the record there is passed over later, unless it is much.
    fn round(&mut self, unit: u64, whole_records: bool) {
        self.len -= self.len % self.align;
        let part = self.len % unit;
        if whole_records || part > widen(PIECE) {
            self.len -= part;
        }
    }

    /// Cold, and nobody is to find it cached afterwards who would without us: what is only read is left to the cache.
    fn reads_directly(&self, job: &Job<'_>) -> bool {
        let Job { plan, source, sink, .. } = job;
        if source.facts.flags.contains(OFlags::DIRECT) {
            return true;
        }
        let traceless = plan.input.cache != Cache::Keep;
        if is_buffered(source.fd()) || (!traceless && !sink.facts.hides_sizes()) {
            return false;
        }
        is_cold(source.fd(), self.from, self.len)
    }

    /// What has to be on the medium soon, or is not to stay in the cache.
    fn writes_directly(&self, job: &Job<'_>) -> bool {
        let Job { plan, sink, .. } = job;
        if sink.facts.flags.contains(OFlags::DIRECT) {
            return true;
        }
        let wanted =
            plan.output.durable != Durable::No || plan.output.cache != Cache::Keep || sink.facts.kind == Kind::Block;
        if !wanted || is_buffered(sink.fd()) {
            return false;
        }
        // A direct write throws out what somebody else had there.
        plan.output.cache != Cache::Neutral
            || fdd_io::cache::cached(sink.fd(), self.to..self.to.saturating_add(self.len))
                .is_some_and(|found| found.cached == 0)
    }

    /// Over a whole file or device several writes may be under way; what makes a file longer or fills its holes has an
    /// order, so that a full device leaves what the plain loop would leave.
    fn overwrites(&self, job: &Job<'_>) -> bool {
        let sink = &job.sink;
        match sink.facts.kind {
            Kind::Block => true,
            Kind::Regular => {
                let whole = sink.facts.allocated >= sink.facts.size;
                whole && sink.size_now().is_some_and(|size| self.to.saturating_add(self.len) <= size)
            }
            _ => false,
        }
    }

    /// Offset and block size suit each end on which O_DIRECT was asked for.
    fn direct_as_asked(&self, job: &Job<'_>) -> bool {
        let (ibs, obs) = sizes(job.plan);
        let asked = |flags: OFlags| flags.contains(OFlags::DIRECT);
        let fits = |block: usize| widen(block).is_multiple_of(self.align);
        fits(ibs)
            && fits(obs)
            && (self.direct_input || !asked(job.source.facts.flags))
            && (self.direct_output || !asked(job.sink.facts.flags))
    }
}

/// Bytes after which input and output records end together; capped, since more is never looked back for.
fn unit(ibs: usize, obs: usize) -> u64 {
    let (mut x, mut y) = (ibs, obs);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    widen(ibs / x).saturating_mul(widen(obs))
}

/// What offsets and lengths of direct requests have to be multiples of; `None` where there are none.
fn direct_align(fd: BorrowedFd<'_>, kind: Kind) -> Option<u64> {
    if !matches!(kind, Kind::Regular | Kind::Block) {
        return None;
    }
    match rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) {
        Ok(told) if told.stx_mask & StatxFlags::DIOALIGN.bits() != 0 => {
            let align = told.stx_dio_offset_align;
            (align > 0 && told.stx_dio_mem_align <= 4096).then_some(align.into())
        }
        // Before Linux 6.1, and in sandboxes: a sector on a device, else what nobody refuses.
        _ => Some(fdd_sys::device::sector_size(fd).map_or(PAGE, u64::from)),
    }
}

/// Whether less than a quarter of a range is in the page cache, by a look at places spread over it: to count all pages of a
/// large cached file takes as long as to copy a twentieth of it (measured). `false` where the kernel will not tell.
fn is_cold(fd: BorrowedFd<'_>, from: u64, len: u64) -> bool {
    const PLACES: u64 = 32;
    const LOOK: u64 = 256 << 10;
    let look = LOOK.min(len.div_ceil(PLACES));
    let (mut cached, mut pages) = (0, 0);
    for place in 0..PLACES {
        let at = from.saturating_add((len - look) / (PLACES - 1) * place);
        let Some(found) = fdd_io::cache::cached(fd, at..at.saturating_add(look)) else { return false };
        cached += found.cached;
        pages += found.pages;
    }
    cached.saturating_mul(4) < pages
}

fn is_buffered(fd: BorrowedFd<'_>) -> bool {
    rustix::fs::fstatfs(fd)
        .is_ok_and(|stat| BUFFERED.contains(&(u64::try_from(stat.f_type).unwrap_or(0) & 0xFFFF_FFFF)))
}

/// The descriptors for explicit offsets.
pub(crate) struct Files {
    pub(crate) input: OwnedFd,
    /// `None` where pieces go through the sink.
    pub(crate) output: Option<OwnedFd>,
}

/// The range that is copied, cut into pieces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pieces {
    from: u64,
    to: u64,
    len: u64,
}

impl Pieces {
    /// The piece of this number; `None` behind the last one.
    pub(crate) fn piece(&self, number: u64) -> Option<Piece> {
        let at = number.saturating_mul(widen(PIECE));
        let left = self.len.checked_sub(at).filter(|&left| left > 0)?;
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE);
        Some(Piece { input: self.from + at, output: self.to + at, len })
    }
}

/// One copy by pieces, and how far the output is.
pub(crate) struct Bulk {
    pub(crate) pieces: Pieces,
    ibs: u64,
    obs: u64,
    unit: u64,
    /// Bytes that are in the output.
    done: u64,
    begun: Tally,
    ahead: Ahead,
    /// Pieces are written at explicit offsets, past the page cache; otherwise they go through the sink.
    direct: bool,
    /// How many writes there may be at a time.
    pub(crate) writes: usize,
}

/// A piece: where it is read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) len: usize,
}

impl Bulk {
    /// `None` when there is nothing to do this way.
    pub(crate) fn begin(job: &mut Job<'_>) -> Option<(Bulk, Files)> {
        let survey = Survey::of(job);
        let (ibs, obs) = sizes(job.plan);
        let unit = unit(ibs, obs);
        let record = job.buffers.output.as_ref().map_or(0, |outlet| outlet.obs());
        let overwrites = survey.overwrites(job);
        if survey.len == 0 || (record > 0 && unit > widen(PIECE)) {
            return None;
        }
        let Job { source, sink, .. } = job;
        let own = |flags: OFlags| flags.contains(OFlags::DIRECT);
        let reopened = if survey.direct_input && !own(source.facts.flags) { source.reopen_direct() } else { None };
        let input = reopened.or_else(|| source.duplicate())?;
        let output = match (survey.direct_output, own(sink.facts.flags)) {
            (true, true) => Some(sink.duplicate()?),
            (true, false) => sink.reopen_direct(),
            (false, _) => None,
        };
        source.use_windows();
        sink.use_windows();
        let end = survey.to.saturating_add(survey.len);
        let size = if sink.facts.kind == Kind::Regular { sink.size_now() } else { None };
        let direct = output.is_some();
        let extends = direct && size.is_some_and(|size| survey.to >= size);
        let bulk = Bulk {
            pieces: Pieces { from: survey.from, to: survey.to, len: survey.len },
            ibs: widen(ibs),
            obs: widen(obs),
            unit,
            done: 0,
            begun: job.monitor.tally,
            ahead: Ahead { until: survey.to, end, window: if extends { ALLOCATED_AHEAD } else { 0 } },
            direct,
            writes: if overwrites { PIECES / 2 } else { 1 },
        };
        Some((bulk, Files { input, output }))
    }

    /// `piece` is about to be read: whoever watches the cache is told in time.
    pub(crate) fn before_reading(&self, piece: Piece, job: &mut Job<'_>) {
        job.source.announce(piece.input, widen(piece.len));
    }

    /// `piece` is about to be written directly.
    pub(crate) fn before_writing(&mut self, piece: Piece, job: &mut Job<'_>) {
        job.sink.announce(piece.output, widen(piece.len));
        self.ahead.cover(piece.output + widen(piece.len), |at, len| job.sink.allocate(at, len));
    }

    /// The next `len` bytes are in the output.
    pub(crate) fn moved(&mut self, len: usize, job: &mut Job<'_>) {
        self.done += widen(len);
        job.source.passed(len);
        if self.direct {
            job.sink.passed(len);
        }
        self.count(job, self.done / self.ibs);
    }

    /// All counts as of now, by arithmetic, `read` input records among them.
    fn count(&self, job: &mut Job<'_>, read: u64) {
        let tally = &mut job.monitor.tally;
        *tally = self.begun;
        tally.read.full += read;
        tally.written.full += self.done / self.obs;
        tally.bytes += self.done;
    }

    /// Nothing is in flight any more: puts the descriptors where they belong and goes on with the plain loop.
    pub(crate) fn conclude(mut self, job: &mut Job<'_>, stopped: bool) -> Result<Outcome, Halt> {
        let Pieces { from, to, len } = self.pieces;
        job.trouble |= self.done < len;
        if self.ahead.until > to + self.done {
            job.sink.trim(to + self.done);
        }
        if self.direct {
            job.sink.go_to(to + self.done).map_err(Halt::Failed)?;
        }
        let part = self.done % self.unit;
        let used = if stopped { self.done.div_ceil(self.ibs) } else { (self.done - part) / self.ibs };
        let went = job.source.go_to(from + used * self.ibs);
        went.map_err(|errno| Halt::Failed(job.source.read_error(errno)))?;
        if stopped {
            self.count(job, used);
            job.monitor.tally.written.partial += u64::from(!self.done.is_multiple_of(self.obs));
            return Err(Halt::Stopped);
        }
        // Handed over once more by the plain loop, which counts it then.
        job.sink.expect_again(part);
        self.done -= part;
        self.count(job, used);
        Ok(Outcome::Declined)
    }
}

/// Blocks allocated ahead of the writes, a window at a time: fewer and larger extents. Never beyond what is to be written,
/// so that a copy that comes to its end leaves nothing over.
#[derive(Debug)]
struct Ahead {
    until: u64,
    end: u64,
    /// Bytes at a time; smaller when space is short, 0 when it is not worth it or cannot be.
    window: u64,
}

impl Ahead {
    fn cover(&mut self, needed: u64, mut allocate: impl FnMut(u64, u64) -> Result<(), Errno>) {
        while self.until < needed && self.window >= widen(PIECE) {
            let len = self.window.min(self.end - self.until);
            match allocate(self.until, len) {
                Ok(()) => self.until += len,
                Err(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => self.window /= 2,
                Err(Errno::INTR) => return,
                Err(_) => self.window = 0,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #[cfg(not(miri))] // Files and pipes.
    mod jobs;

    use super::*;
    #[cfg(not(miri))]
    use std::os::fd::AsFd;

    #[test]
    #[cfg(not(miri))] // Files and their cache.
    fn a_file_is_cold_when_most_of_it_is_wherever_the_rest_lies() {
        let len: u64 = 16 << 20;
        let Some((_path, file)) = uncached_file(len) else { return };
        assert!(is_cold(file.as_fd(), 0, len));
        let warm = |part: std::ops::Range<u64>| {
            let mut at = part.start;
            while at < part.end {
                rustix::io::pread(&file, &mut [0; 4096], at).expect("a page");
                at += 4096;
            }
        };
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).expect("no reading ahead");
        warm(0..len / 8);
        assert!(is_cold(file.as_fd(), 0, len));
        warm(len * 3 / 4..len);
        assert!(!is_cold(file.as_fd(), 0, len));
        assert!(is_cold(file.as_fd(), len / 4, len / 4));
    }

    /// A file on a real file system, none of which is cached; `None` on one that keeps all of it.
    #[cfg(not(miri))]
    fn uncached_file(len: u64) -> Option<(tempfile::NamedTempFile, std::fs::File)> {
        let directory = std::env::current_exe().expect("this program");
        let path = tempfile::NamedTempFile::new_in(directory.parent().expect("its directory")).expect("a file");
        std::fs::write(path.path(), vec![1; usize::try_from(len).expect("small")]).expect("room");
        let file = std::fs::File::open(path.path()).expect("the file");
        rustix::fs::fsync(&file).expect("written");
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("a file");
        let left = fdd_io::cache::cached(&file, 0..len).map_or(len, |found| found.cached);
        if left > 0 {
            eprintln!("skipped: this file system keeps {left} pages in its cache");
            return None;
        }
        Some((path, file))
    }

    #[test]
    fn allocation_goes_ahead_by_windows_and_never_past_the_end() {
        let mut ahead = Ahead { until: 0, end: 150 << 20, window: ALLOCATED_AHEAD };
        let mut calls = Vec::new();
        for piece in 1..=75 {
            ahead.cover(piece * widen(PIECE), |at, len| {
                calls.push((at >> 20, len >> 20));
                Ok(())
            });
        }
        assert_eq!(calls, [(0, 64), (64, 64), (128, 22)]);
    }

    #[test]
    fn allocation_shrinks_when_space_is_short_and_then_stops() {
        let mut ahead = Ahead { until: 0, end: 1 << 30, window: ALLOCATED_AHEAD };
        let mut lens = Vec::new();
        ahead.cover(widen(PIECE), |_, len| {
            lens.push(len >> 20);
            Err(Errno::NOSPC)
        });
        assert_eq!(lens, [64, 32, 16, 8, 4, 2]);
        ahead.cover(widen(PIECE), |_, _| panic!("not asked again"));
    }

    #[test]
    fn allocation_that_is_refused_is_not_asked_for_again() {
        let mut ahead = Ahead { until: 0, end: 1 << 30, window: ALLOCATED_AHEAD };
        ahead.cover(widen(PIECE), |_, _| Err(Errno::OPNOTSUPP));
        assert_eq!(ahead.window, 0);
    }

    #[test]
    fn records_of_both_sides_end_together_after_a_unit() {
        assert_eq!(unit(512, 512), 512);
        assert_eq!(unit(6, 4), 12);
        assert_eq!(unit(512, 3000), 192_000);
    }

    #[test]
    fn a_range_ends_at_a_piece_edge_or_with_a_record() {
        let rounded = |len, unit, whole| {
            let mut survey = Survey { from: 0, to: 0, len, align: PAGE, direct_input: true, direct_output: true };
            survey.round(unit, whole);
            survey.len
        };
        assert_eq!(rounded(10_000_000, 1000, false), 9_998_336);
        assert_eq!(rounded(10_000_384, 8192, true), 9_994_240);
        assert_eq!(rounded((1 << 30) + (512 << 20), 1 << 30, false), 1 << 30);
        // As much as a piece is passed over later, and not a byte more.
        assert_eq!(rounded(7 << 20, 5 << 20, false), 7 << 20);
        assert_eq!(rounded((7 << 20) + PAGE, 5 << 20, false), 5 << 20);
        assert_eq!(rounded(7 << 20, 5 << 20, true), 5 << 20);
    }
}
