//! A chunk of many records on its way to the sink, and the way back when a write fails inside it.

use fdd_io::filebuf::Buffer;
use fdd_sys::memory::Aligned;
use fdd_sys::retry::{Cut, Pause};

use crate::conv::{Converter, Place};
use crate::copy::outlet::Pages;
use crate::copy::{Halt, Job};
use crate::error::Error;
use crate::monitor::Monitor;
use crate::output::Sink;
use crate::tally::Tally;
use crate::units::widen;

/// Output on its way to whole blocks.
pub(crate) struct Gather {
    /// What no write has taken yet, from the memory's start on whenever something is written: direct writes want it aligned.
    blocks: Buffer<Pages>,
    obs: usize,
    /// What is written is a multiple of this: of a block, or where blocks pass as they come, of a byte.
    granule: usize,
    /// What had been gathered when the present chunk began; its memory is had before the first one, when it can be declined.
    front: Vec<u8>,
}

/// What has happened since a chunk began.
pub(crate) struct Since {
    tally: Tally,
    place: Option<Place>,
    /// Bytes that the sink has taken.
    taken: u64,
    /// Bytes of an input record, how many of those there are, and how many bytes had been gathered before the first one.
    ibs: u64,
    records: u64,
    front: u64,
    /// Where the input stood.
    at: Option<u64>,
}

/// A write of many blocks while it is made: a report that is asked for meanwhile counts what is in the output, and as read
/// what went into that and the block under way, as if blocks were written one by one.
struct Underway<'a> {
    monitor: &'a mut Monitor,
    since: &'a Since,
    obs: u64,
    taken: u64,
}

impl Underway<'_> {
    #[cold]
    fn report(&mut self) -> Result<(), Cut> {
        let (whole, since) = (self.monitor.tally, self.since);
        let written = (since.taken + self.taken) / self.obs;
        let tally = &mut self.monitor.tally;
        // What a conversion makes of a record is not known beforehand: all that were read count.
        if since.place.is_none() {
            let used = ((written + 1) * self.obs).saturating_sub(since.front).div_ceil(since.ibs);
            tally.read.full = whole.read.full.min(since.tally.read.full + used);
        }
        tally.written.full = since.tally.written.full + written;
        tally.bytes = since.tally.bytes + written * self.obs;
        let outcome = self.monitor.pause();
        self.monitor.tally = whole;
        outcome
    }
}

impl Pause for Underway<'_> {
    #[inline]
    fn pause(&mut self) -> Result<(), Cut> {
        if self.monitor.is_calm() { Ok(()) } else { self.report() }
    }

    #[inline]
    fn interruptions(&self) -> u32 {
        self.monitor.interruptions()
    }

    fn taken(&mut self, bytes: usize) {
        self.taken += widen(bytes);
    }
}

impl Gather {
    /// Room for a chunk and a block of `obs` bytes; `None` where it cannot be had.
    pub(crate) fn new(obs: usize, chunk: usize) -> Option<Gather> {
        Gather::of(obs, obs, chunk)
    }

    /// Where a chunk begins and ends with a block, its pieces are written as they come, and blocks are only counted.
    pub(crate) fn through(obs: usize, piece: usize) -> Option<Gather> {
        Gather::of(obs, 1, piece)
    }

    fn of(obs: usize, granule: usize, chunk: usize) -> Option<Gather> {
        let pages = Aligned::new((granule + chunk).next_multiple_of(granule)).ok()?;
        let mut front = Vec::new();
        front.try_reserve_exact(granule).ok()?;
        Some(Gather { blocks: Buffer::over(Pages(pages)), obs, granule, front })
    }

    /// Nothing is waiting to become a whole block.
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// What is not a whole block yet becomes the plain loop's to finish.
    pub(crate) fn hand_over(&mut self, job: &mut Job<'_>) {
        if let Some(output) = &mut job.buffers.output {
            output.hold(self.blocks.held());
            self.blocks.clear();
        }
    }

    /// And back again.
    pub(crate) fn take_back(&mut self, job: &mut Job<'_>) {
        if let Some(output) = &mut job.buffers.output {
            self.hold(output.held());
            output.hold(&[]);
        }
    }

    fn hold(&mut self, bytes: &[u8]) {
        self.blocks.clear();
        let held = self.blocks.keep(bytes);
        debug_assert!(held, "less than a block fits");
    }

    /// Passes on the records of a chunk that was read at `at`; false when the plain loop has to walk it again.
    pub(crate) fn pass(
        &mut self,
        job: &mut Job<'_>,
        records: &mut [u8],
        ibs: usize,
        at: Option<u64>,
    ) -> Result<bool, Halt> {
        if records.is_empty() {
            return Ok(true);
        }
        let mut since = self.begin(job, ibs, widen(records.len() / ibs), at);
        match self.feed(job, records, &mut since) {
            Ok(()) => Ok(true),
            Err(cut) => self.go_back(job, since, Some(cut)).map(|()| false),
        }
    }

    /// The state before a chunk of so many records that are read at `at`.
    pub(crate) fn begin(&mut self, job: &Job<'_>, ibs: usize, records: u64, at: Option<u64>) -> Since {
        self.front.clear();
        self.front.extend_from_slice(self.blocks.held());
        Since {
            tally: job.monitor.tally,
            place: job.converter.as_ref().map(Converter::place),
            taken: 0,
            ibs: widen(ibs),
            records,
            front: widen(self.front.len()),
            at,
        }
    }

    /// Passes on what was read of a chunk, whose records count as read from here on: also one that comes in pieces, since a
    /// report amid it may not tell of blocks that were made of nothing.
    pub(crate) fn feed(&mut self, job: &mut Job<'_>, bytes: &mut [u8], since: &mut Since) -> Result<(), Cut> {
        let Job { sink, monitor, converter, .. } = job;
        monitor.tally.read.full = since.tally.read.full + since.records;
        let put = match converter {
            None => self.put(bytes, sink, monitor, since),
            Some(converter) => converter.feed(bytes, &mut |run| {
                self.put(run.bytes, sink, monitor, since)?;
                monitor.tally.truncated += widen(run.truncated_at.len());
                Ok(())
            }),
        };
        put.and_then(|()| self.flush(job.sink, job.monitor, since))
    }

    /// Something came between in a chunk (`cut` is what a write said; none, if a record did not come whole): all is as it was
    /// before it, but for what the sink has taken, which it will be handed once more.
    ///
    /// # Errors
    /// A signal, which is no error of a call and ends the copy here; or the way back is barred.
    #[cold]
    pub(crate) fn go_back(&mut self, job: &mut Job<'_>, since: Since, cut: Option<Cut>) -> Result<(), Halt> {
        if cut == Some(Cut::Stopped) {
            self.stop(job, &since)?;
            return Err(Halt::Stopped);
        }
        if let Err(halt) = step_back(job, since.at, 0) {
            self.count(job, &since);
            // The plain loop would have said it.
            if let Some(Cut::Os(errno)) = cut {
                job.monitor.error(&Error::Write { name: job.sink.name().clone(), errno });
            }
            return Err(halt);
        }
        // What is stepped over already is not stepped over again.
        let sparse = job.monitor.tally.sparse;
        job.monitor.tally = Tally { sparse, ..since.tally };
        if let (Some(converter), Some(place)) = (&mut job.converter, since.place) {
            converter.go_to(place);
        }
        job.sink.expect_again(since.taken);
        let front = std::mem::take(&mut self.front);
        self.hold(&front);
        self.front = front;
        Ok(())
    }

    /// A signal ended the copy inside a chunk: what reached the file is counted, and the input stands behind the records that
    /// count as read.
    fn stop(&mut self, job: &mut Job<'_>, since: &Since) -> Result<(), Halt> {
        let used = self.count(job, since);
        step_back(job, since.at, used * since.ibs)
    }

    /// Counts what of a chunk reached the file; gives how many records went into that, or where they are converted and nobody
    /// knows, how many there are. Of a single one it is known.
    fn count(&mut self, job: &mut Job<'_>, since: &Since) -> u64 {
        let obs = widen(self.obs);
        let before = since.tally;
        let tally = &mut job.monitor.tally;
        tally.written.full = before.written.full + since.taken / obs;
        tally.written.partial = before.written.partial + u64::from(!since.taken.is_multiple_of(obs));
        tally.bytes = before.bytes + since.taken;
        let known = since.place.is_none() || since.records == 1;
        let begun = since.taken.saturating_sub(since.front).div_ceil(since.ibs).min(since.records);
        let used = if known { begun } else { since.records };
        tally.read.full = before.read.full + used;
        used
    }

    /// Takes output; large runs of whole blocks go straight from the caller's slice.
    fn put(&mut self, mut run: &[u8], sink: &mut Sink, monitor: &mut Monitor, since: &mut Since) -> Result<(), Cut> {
        const LARGE: usize = 32 << 10;
        while !run.is_empty() {
            if self.blocks.is_empty() && run.len() >= LARGE.max(self.granule) {
                let whole = run.len() - run.len() % self.granule;
                write(&run[..whole], self.obs, sink, monitor, since)?;
                run = &run[whole..];
                continue;
            }
            run = self.blocks.top_up(run);
            if self.blocks.room() == 0 {
                self.flush(sink, monitor, since)?;
            }
        }
        Ok(())
    }

    /// Writes the whole blocks; what is less than one moves to the front.
    fn flush(&mut self, sink: &mut Sink, monitor: &mut Monitor, since: &mut Since) -> Result<(), Cut> {
        let held = self.blocks.held();
        let whole = held.len() - held.len() % self.granule;
        if whole > 0 {
            write(&held[..whole], self.obs, sink, monitor, since)?;
            self.blocks.consume(whole);
            self.blocks.move_to_front();
        }
        Ok(())
    }
}

fn write(blocks: &[u8], obs: usize, sink: &mut Sink, monitor: &mut Monitor, since: &mut Since) -> Result<(), Cut> {
    let mut underway = Underway { monitor, since, obs: widen(obs), taken: 0 };
    let (written, skipped, outcome) = sink.write_blocks(blocks, &mut underway);
    since.taken += widen(written);
    monitor.tally.sparse += skipped;
    outcome?;
    // A block of which a piece went out counts when it is whole.
    let blocks = since.taken / widen(obs);
    monitor.tally.written.full = since.tally.written.full + blocks;
    monitor.tally.bytes = since.tally.bytes + blocks * widen(obs);
    Ok(())
}

/// Puts the input's descriptor `whole` bytes behind `at`, where a chunk began. /dev/zero has no place to go back to.
pub(crate) fn step_back(job: &mut Job<'_>, at: Option<u64>, whole: u64) -> Result<(), Halt> {
    let Some(at) = at.filter(|_| job.source.facts.is_storage()) else { return Ok(()) };
    job.source.go_to(at + whole).map_err(|errno| Halt::Failed(job.source.read_error(errno)))
}

#[cfg(test)]
mod tests;
