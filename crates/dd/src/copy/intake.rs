//! Where input records come from: the limit, padding, partial reads and bad blocks.

use fdd_sys::retry::Cut;
use rustix::io::Errno;

use crate::copy::{Ending, Halt};
use crate::error::Notice;
use crate::input::Source;
use crate::monitor::Monitor;
use crate::plan::{OnError, Plan};
use crate::rescue::is_gone;
use crate::units::{Amount, widen};

/// EIO without end, where no end is known: after so many the input is taken to be gone.
const HOPELESS: u32 = 100;

pub(crate) struct Intake<'p> {
    plan: &'p Plan,
    ibs: usize,
    limit: Option<Amount>,
    files_left: u64,
    /// Read errors since the last good read.
    in_a_row: u32,
    /// Bytes read so far, which `speed=` limits.
    pub(crate) bytes: u64,
    pub(crate) ending: Ending,
}

/// What there is to do next.
pub(crate) enum Step {
    /// A record of so many bytes lies at the start of the buffer.
    Record(usize),
    /// Nothing came of a bad block; ask again.
    Again,
    End,
}

impl<'p> Intake<'p> {
    pub(crate) fn new(plan: &'p Plan) -> Intake<'p> {
        Intake {
            plan,
            ibs: plan.input.ibs,
            limit: plan.limit,
            files_left: plan.input.files,
            in_a_row: 0,
            bytes: 0,
            ending: Ending::default(),
        }
    }

    /// Reads the next record into `buf`, which holds one block.
    #[inline]
    pub(crate) fn next(&mut self, buf: &mut [u8], source: &mut Source, monitor: &mut Monitor) -> Result<Step, Halt> {
        let Some(want) = self.want(monitor) else { return Ok(Step::End) };
        let at = source.position();
        let (got, outcome) = source.read(&mut buf[..want], monitor);
        match outcome {
            Ok(()) if got == want && want == self.ibs => {
                self.record(got, want, source, monitor);
                source.tap(&buf[..got]);
                source.stride(got).map_err(Halt::Failed)?;
                Ok(Step::Record(got))
            }
            Ok(()) => self.not_full(buf, got, want, at, source, monitor),
            Err(Cut::Stopped) => Err(Halt::Stopped),
            Err(Cut::Os(errno)) => self.failed(buf, got, want, at, errno, source, monitor),
        }
    }

    /// Whole records that `count=` still allows.
    pub(crate) fn records_left(&self, monitor: &Monitor) -> u64 {
        self.limit.map_or(u64::MAX, |limit| limit.records().saturating_sub(monitor.tally.read.total()))
    }

    /// Whole records have come, and are counted by whoever read them.
    pub(crate) fn whole(&mut self, source: &mut Source, monitor: &mut Monitor) {
        self.in_a_row = 0;
        source.partial.came(self.ibs, self.ibs);
        if let Some(len) = source.partial.due() {
            self.warn(len, monitor);
        }
    }

    /// A record of `got` bytes, fewer than a block, lies at the start of `block`: counts it, pads it, gives its length.
    pub(crate) fn short(&mut self, block: &mut [u8], got: usize, source: &mut Source, monitor: &mut Monitor) -> usize {
        self.record(got, self.ibs, source, monitor);
        self.padded(block, got)
    }

    /// Length of the next read; `None` once `count=` is reached.
    #[inline]
    fn want(&self, monitor: &Monitor) -> Option<usize> {
        let Some(limit) = self.limit else { return Some(self.ibs) };
        let reads = monitor.tally.read.total();
        if reads < limit.records() {
            Some(self.ibs)
        } else if reads == limit.records() && limit.bytes() > 0 {
            usize::try_from(limit.bytes()).ok()
        } else {
            None
        }
    }

    #[inline]
    fn record(&mut self, got: usize, want: usize, source: &mut Source, monitor: &mut Monitor) {
        source.partial.came(got, want);
        if let Some(len) = source.partial.due() {
            self.warn(len, monitor);
        }
        self.in_a_row = 0;
        self.bytes += widen(got);
        monitor.tally.read(got, self.ibs);
    }

    #[cold]
    fn warn(&self, len: usize, monitor: &mut Monitor) {
        if self.plan.warn_partial {
            monitor.notice(&Notice::PartialRead { len });
        }
    }

    #[cold]
    fn not_full(
        &mut self,
        buf: &mut [u8],
        got: usize,
        want: usize,
        at: Option<u64>,
        source: &mut Source,
        monitor: &mut Monitor,
    ) -> Result<Step, Halt> {
        if got == 0 {
            self.files_left = self.files_left.saturating_sub(1);
            return Ok(if self.files_left == 0 { Step::End } else { Step::Again });
        }
        // Media that fail inside a block give what comes before it and fail only when asked for the rest.
        if got < want
            && self.goes_on()
            && source.facts.is_storage()
            && let Some(at) = at
        {
            let rest = source.rest_is_bad(&mut buf[got..want], at + widen(got), monitor);
            match rest {
                Ok(None) => {}
                Ok(Some(errno)) => return self.failed(buf, got, want, Some(at), errno, source, monitor),
                Err(_) => return Err(Halt::Stopped),
            }
        }
        self.record(got, want, source, monitor);
        source.tap(&buf[..got]);
        source.stride(got).map_err(Halt::Failed)?;
        Ok(Step::Record(self.padded(buf, got)))
    }

    /// conv=sync: the rest of the block is filled.
    fn padded(&self, buf: &mut [u8], got: usize) -> usize {
        match self.plan.input.pad {
            Some(pad) => {
                buf[got..].fill(pad);
                buf.len()
            }
            None => got,
        }
    }

    fn goes_on(&self) -> bool {
        matches!(self.plan.input.on_error, OnError::GoOn { .. })
    }

    #[cold]
    #[expect(clippy::too_many_arguments, reason = "the facts of one failed read")]
    fn failed(
        &mut self,
        buf: &mut [u8],
        got: usize,
        want: usize,
        at: Option<u64>,
        errno: Errno,
        source: &mut Source,
        monitor: &mut Monitor,
    ) -> Result<Step, Halt> {
        let error = source.read_error(errno);
        let at = at.filter(|_| source.facts.is_storage() && is_bad_spot(errno));
        if !self.goes_on() {
            let mut len = got;
            let mut whole = false;
            if let Some(at) = at {
                let rescued = source.rescue(&mut buf[..want], got, at, false, monitor).map_err(|_| Halt::Stopped)?;
                len = rescued.len;
                // The descriptor stands behind what was taken. The page cache fails a whole page for one bad sector; a block
                // that can be had without it is no failed block.
                whole = source.go_to(at + widen(len)).is_ok() && rescued.lost.is_empty() && len > got;
            }
            if !whole {
                monitor.error(&error);
                self.ending.failed = true;
                self.limit = Some(Amount::of_records(0, self.ibs));
            }
            if len == 0 {
                return Ok(Step::End);
            }
            self.record(len, len, source, monitor);
            source.tap(&buf[..len]);
            if whole {
                source.stride(len).map_err(Halt::Failed)?;
            }
            return Ok(Step::Record(self.padded(buf, len)));
        }
        monitor.survived(&error);
        match at {
            Some(at) => self.step_over(buf, got, want, at, source, monitor),
            None => self.endure(buf, got, errno, source, monitor),
        }
    }

    /// conv=noerror on a medium: what can be read of the block is read, the rest is lost and named.
    fn step_over(
        &mut self,
        buf: &mut [u8],
        got: usize,
        want: usize,
        at: u64,
        source: &mut Source,
        monitor: &mut Monitor,
    ) -> Result<Step, Halt> {
        let pad = self.plan.input.pad;
        let mut rescued = source.rescue(&mut buf[..want], got, at, true, monitor).map_err(|_| Halt::Stopped)?;
        let size = source.size_now();
        if rescued.vanished || at >= size {
            self.ending.failed = true;
            self.ending.lost.push(Notice::Vanished { name: source.name().clone(), at: at + widen(got) });
            self.limit = Some(Amount::of_records(0, self.ibs));
            rescued.len = got;
            rescued.lost.clear();
        } else if let Err(errno) = source.step_to(at + widen(rescued.len.max(got))) {
            monitor.error(&crate::error::Error::Seek { name: source.name().clone(), errno });
            self.ending.failed = true;
        }
        self.lose(&rescued.lost, at, source, monitor);
        let lost: usize = rescued.lost.iter().map(|(start, end)| end - start).sum();
        let had = rescued.len - lost.min(rescued.len);
        // With conv=sync the block keeps its place; without, GNU leaves a bad block out.
        let len = match pad {
            Some(pad) if had > 0 || lost > 0 => {
                for &(start, end) in &rescued.lost {
                    buf[start..end].fill(pad);
                }
                buf[rescued.len..].fill(pad);
                buf.len()
            }
            Some(_) => return Ok(Step::Again),
            None if had == 0 => return Ok(Step::Again),
            None => close_up(buf, rescued.len, &rescued.lost),
        };
        // GNU counts a bad block as a partial record.
        let counted = if lost > 0 { had.min(self.ibs - 1) } else { had };
        source.partial.forget();
        self.in_a_row = 0;
        monitor.tally.read(counted, self.ibs);
        // A bad block as it is passed on: what stands in for the lost bytes keeps the others in their places.
        source.tap(&buf[..len]);
        source.stride(rescued.len).map_err(Halt::Failed)?;
        Ok(Step::Record(len))
    }

    fn lose(&mut self, ranges: &[(usize, usize)], at: u64, source: &Source, monitor: &mut Monitor) {
        let OnError::GoOn { lost_ok } = self.plan.input.on_error else { return };
        if !ranges.is_empty() && !lost_ok {
            self.ending.failed = true;
        }
        for &(start, end) in ranges {
            let (from, len) = (at + widen(start), widen(end - start));
            match self.ending.lost.last_mut() {
                // One bad area across blocks is one range.
                Some(Notice::Lost { at, len: before, .. }) if *at + *before == from => *before += len,
                _ => {
                    // Named as soon as they are known, lest a later death takes them along.
                    self.ending.name_all(monitor);
                    self.ending.lost.push(Notice::Lost { name: source.name().clone(), at: from, len });
                }
            }
        }
    }

    /// conv=noerror on what has no offsets: asked again, as GNU does, but not for ever.
    fn endure(
        &mut self,
        buf: &mut [u8],
        got: usize,
        errno: Errno,
        source: &mut Source,
        monitor: &mut Monitor,
    ) -> Result<Step, Halt> {
        self.in_a_row += 1;
        let gone = is_gone(errno) || !is_bad_spot(errno) || self.in_a_row >= HOPELESS;
        if gone {
            self.ending.failed = true;
            if is_bad_spot(errno) {
                let at = source.position().unwrap_or(0);
                self.ending.lost.push(Notice::Vanished { name: source.name().clone(), at });
            }
            self.limit = Some(Amount::of_records(0, self.ibs));
        } else {
            if let OnError::GoOn { lost_ok: false } = self.plan.input.on_error {
                self.ending.failed = true;
            }
            // Where it has offsets but no known end, the next block is asked for.
            if let Some(at) = source.position()
                && let Err(errno) = source.go_to(at + widen(self.ibs - got))
            {
                // What would be read next belongs elsewhere, and nothing tells where the input ends.
                monitor.error(&crate::error::Error::Seek { name: source.name().clone(), errno });
                self.ending.failed = true;
                self.limit = Some(Amount::of_records(0, self.ibs));
            }
        }
        if got == 0 && (self.plan.input.pad.is_none() || gone) {
            return Ok(Step::Again);
        }
        source.partial.forget();
        monitor.tally.read(got.min(self.ibs - 1), self.ibs);
        source.tap(&buf[..got]);
        Ok(Step::Record(self.padded(buf, got)))
    }
}

/// Whether an error can be about the medium at this offset, rather than about the call.
fn is_bad_spot(errno: Errno) -> bool {
    !matches!(
        errno,
        Errno::ISDIR | Errno::INVAL | Errno::BADF | Errno::AGAIN | Errno::FAULT | Errno::PERM | Errno::ACCESS
    )
}

/// Moves the readable pieces together; gives their length.
fn close_up(buf: &mut [u8], len: usize, lost: &[(usize, usize)]) -> usize {
    let mut to = 0;
    let mut from = 0;
    for &(start, end) in lost.iter().chain(std::iter::once(&(len, len))) {
        buf.copy_within(from..start, to);
        to += start - from;
        from = end;
    }
    to
}

#[cfg(test)]
mod tests;
