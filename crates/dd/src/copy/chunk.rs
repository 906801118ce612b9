//! A chunk of many records on its way to the sink, and the way back when a write fails inside it.

use fdd_sys::memory::Aligned;
use fdd_sys::retry::Cut;

use crate::conv::Converter;
use crate::copy::{Halt, Job};
use crate::monitor::Monitor;
use crate::output::Sink;
use crate::tally::Tally;
use crate::units::widen;

/// Output on its way to whole blocks.
pub(crate) struct Gather {
    block: Aligned,
    /// Bytes at the front that no write has taken yet.
    filled: usize,
    obs: usize,
}

/// What has happened since a chunk began.
struct Since {
    tally: Tally,
    converter: Option<Converter>,
    /// What had been gathered.
    front: Vec<u8>,
    /// Bytes that the sink has taken.
    taken: u64,
}

impl Gather {
    /// Room for a chunk and a block of `obs` bytes; `None` where it cannot be had.
    pub(crate) fn new(obs: usize, chunk: usize) -> Option<Gather> {
        let block = Aligned::new((obs + chunk).next_multiple_of(obs)).ok()?;
        Some(Gather { block, filled: 0, obs })
    }

    /// Nothing is waiting to become a whole block.
    pub(crate) fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// What is not a whole block yet becomes the plain loop's to finish.
    pub(crate) fn hand_over(&mut self, job: &mut Job<'_>) {
        if let Some(output) = &mut job.buffers.output {
            output[..self.filled].copy_from_slice(&self.block[..self.filled]);
            job.gathered = std::mem::take(&mut self.filled);
        }
    }

    /// And back again.
    pub(crate) fn take_back(&mut self, job: &mut Job<'_>) {
        if let Some(output) = &job.buffers.output {
            self.filled = std::mem::take(&mut job.gathered);
            self.block[..self.filled].copy_from_slice(&output[..self.filled]);
        }
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
        let count = widen(records.len() / ibs);
        let mut since = Since {
            tally: job.monitor.tally,
            converter: job.converter.clone(),
            front: self.block[..self.filled].to_vec(),
            taken: 0,
        };
        job.monitor.tally.read.full += count;
        let Job { sink, monitor, converter, .. } = job;
        let outcome = match converter {
            None => self.put(records, sink, monitor, &mut since),
            Some(converter) => converter
                .feed(records, &mut |run: &[u8]| self.put(run, sink, monitor, &mut since))
                .map(|truncated| monitor.tally.truncated += truncated),
        };
        match outcome.and_then(|()| self.flush(job.sink, job.monitor, &mut since)) {
            Ok(()) => Ok(true),
            Err(Cut::Stopped) => {
                self.stop(job, &since, ibs, at)?;
                Err(Halt::Stopped)
            }
            Err(Cut::Os(_)) => {
                step_back(job, at, 0)?;
                job.monitor.tally = since.tally;
                job.converter = since.converter;
                job.sink.expect_again(since.taken);
                self.filled = since.front.len();
                self.block[..self.filled].copy_from_slice(&since.front);
                Ok(false)
            }
        }
    }

    /// A signal ended the copy inside a chunk: what reached the file is counted, and for an unconverted copy the input
    /// stands behind the records that went into that.
    fn stop(&mut self, job: &mut Job<'_>, since: &Since, ibs: usize, at: Option<u64>) -> Result<(), Halt> {
        let (ibs, obs) = (widen(ibs), widen(self.obs));
        let before = since.tally;
        let tally = &mut job.monitor.tally;
        tally.written.full = before.written.full + since.taken / obs;
        tally.written.partial = before.written.partial + u64::from(!since.taken.is_multiple_of(obs));
        tally.bytes = before.bytes + since.taken;
        if job.converter.is_none() {
            let used = since.taken.saturating_sub(widen(since.front.len())).div_ceil(ibs);
            tally.read.full = before.read.full + used;
            step_back(job, at, used * ibs)?;
        }
        Ok(())
    }

    /// Takes output; large runs of whole blocks go straight from the caller's slice.
    fn put(&mut self, mut run: &[u8], sink: &mut Sink, monitor: &mut Monitor, since: &mut Since) -> Result<(), Cut> {
        const LARGE: usize = 32 << 10;
        while !run.is_empty() {
            if self.filled == 0 && run.len() >= LARGE.max(self.obs) {
                let whole = run.len() - run.len() % self.obs;
                write(&run[..whole], self.obs, sink, monitor, since)?;
                run = &run[whole..];
                continue;
            }
            let take = run.len().min(self.block.len() - self.filled);
            self.block[self.filled..self.filled + take].copy_from_slice(&run[..take]);
            self.filled += take;
            run = &run[take..];
            if self.filled == self.block.len() {
                self.flush(sink, monitor, since)?;
            }
        }
        Ok(())
    }

    /// Writes the whole blocks; what is less than one moves to the front.
    fn flush(&mut self, sink: &mut Sink, monitor: &mut Monitor, since: &mut Since) -> Result<(), Cut> {
        let whole = self.filled - self.filled % self.obs;
        if whole > 0 {
            write(&self.block[..whole], self.obs, sink, monitor, since)?;
            self.block.copy_within(whole..self.filled, 0);
            self.filled -= whole;
        }
        Ok(())
    }
}

fn write(blocks: &[u8], obs: usize, sink: &mut Sink, monitor: &mut Monitor, since: &mut Since) -> Result<(), Cut> {
    let (written, skipped, outcome) = sink.write_blocks(blocks, monitor);
    since.taken += widen(written);
    monitor.tally.sparse += skipped;
    outcome?;
    monitor.tally.written.full += widen(blocks.len() / obs);
    monitor.tally.bytes += widen(blocks.len());
    Ok(())
}

/// Puts the input's descriptor `whole` bytes behind `at`, where a chunk began. /dev/zero has no place to go back to.
pub(crate) fn step_back(job: &mut Job<'_>, at: Option<u64>, whole: u64) -> Result<(), Halt> {
    let Some(at) = at.filter(|_| job.source.facts.is_storage()) else { return Ok(()) };
    job.source.go_to(at + whole).map_err(|errno| Halt::Failed(job.source.read_error(errno)))
}
