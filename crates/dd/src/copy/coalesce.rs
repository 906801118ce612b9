//! Small blocks at the speed of large ones: many records are read, converted and written at once and counted by arithmetic.
//!
//! Allowed where nobody can see the size of a read or write: between files, block devices, /dev/zero and /dev/null, and
//! into a pipe in pieces that were not atomic anyway.
//!
//! A chunk is whole input records. Before each the state is noted; when a write fails inside one, everything goes back to
//! that state, the sink is told how much it has already, and the plain loop walks the chunk again: it passes over what is
//! written and meets the error at the very record, with the very counts.

use fdd_sys::memory::Aligned;
use fdd_sys::retry::Cut;
use rustix::fs::OFlags;

use crate::conv::Converter;
use crate::copy::{Halt, Job, Outcome};
use crate::facts::Kind;
use crate::monitor::Monitor;
use crate::output::Sink;
use crate::plan::{Blocks, Cache, Holes, Plan};
use crate::tally::Tally;
use crate::units::widen;

/// Bytes of input at a time: in the second-level cache on the way out, and few enough calls.
const CHUNK: usize = 128 << 10;
/// A write to a pipe up to this size is not mixed with those of others (PIPE_BUF on Linux).
const ATOMIC: usize = 4096;

pub(crate) fn allowed(job: &Job<'_>) -> bool {
    let Job { plan, source, sink, .. } = job;
    let (ibs, obs) = sizes(plan);
    let observed = OFlags::APPEND | OFlags::DIRECT | OFlags::SYNC | OFlags::DSYNC;
    let from = source.facts.hides_sizes() || source.facts.kind == Kind::Zero;
    let to = sink.facts.hides_sizes()
        || sink.facts.kind == Kind::Null
        || (sink.facts.kind == Kind::Fifo && obs > ATOMIC && !sink.facts.flags.contains(OFlags::NONBLOCK));
    from && to
        && source.facts.identity != sink.facts.identity
        && !source.facts.flags.contains(OFlags::DIRECT)
        && !sink.facts.flags.intersects(observed)
        && ibs <= CHUNK
        && obs <= CHUNK
        && plan.speed.is_none()
        && plan.input.stride == 1
        && plan.output.stride == 1
        && plan.input.files == 1
        && plan.buffer.is_none()
        && job.gathered == 0
}

/// Wherever more than one record goes into a chunk, or the cache is to be cleared in windows.
pub(crate) fn worthwhile(job: &Job<'_>) -> bool {
    let (ibs, obs) = sizes(job.plan);
    ibs < CHUNK || obs < CHUNK || job.plan.input.cache != Cache::Keep || job.plan.output.cache != Cache::Keep
}

fn sizes(plan: &Plan) -> (usize, usize) {
    match plan.blocks {
        Blocks::AsRead { bs } => (bs, bs),
        Blocks::Reblock { ibs, obs } => (ibs, obs),
    }
}

pub(crate) fn run(job: &mut Job<'_>) -> Result<Outcome, Halt> {
    let (ibs, obs) = sizes(job.plan);
    let chunk = chunk_len(ibs, obs, job.converter.is_none());
    let Ok(mut input) = Aligned::new(chunk) else { return Ok(Outcome::Declined) };
    let Ok(block) = Aligned::new((obs + chunk).next_multiple_of(obs)) else { return Ok(Outcome::Declined) };
    job.source.use_windows();
    job.sink.use_windows();
    let mut gather = Gather { block, filled: 0, obs };
    let mut budget = budget(job, ibs);
    let holes = job.source.facts.kind == Kind::Regular
        && job.source.facts.allocated < job.source.facts.size
        && job.converter.is_none();
    while budget >= widen(ibs) {
        if holes && gather.filled == 0 {
            let passed = pass_hole(job, ibs, obs, chunk, budget)?;
            budget -= passed.bytes;
            if passed.declined {
                break;
            }
            if passed.bytes > 0 {
                continue;
            }
        }
        let want = usize::try_from(budget).unwrap_or(usize::MAX).min(chunk);
        let want = want - want % ibs;
        let at = job.source.position();
        let (got, outcome) = job.source.read(&mut input[..want], job.monitor);
        if outcome == Err(Cut::Stopped) {
            step_back(job, at, 0)?;
            return Err(Halt::Stopped);
        }
        // The end of the file, a bad spot or a signal: whole records go on, the rest is read again by the plain loop.
        let whole = got - got % ibs;
        if whole < got {
            step_back(job, at, widen(whole))?;
        }
        let records = &mut input[..whole];
        if !gather.pass(job, records, ibs, at)? || whole < want {
            break;
        }
        budget -= widen(whole);
    }
    // What is not a whole block yet is the plain loop's to finish.
    if let Some(output) = &mut job.buffers.output {
        output[..gather.filled].copy_from_slice(&gather.block[..gather.filled]);
        job.gathered = gather.filled;
    }
    job.source.at_end = false;
    Ok(Outcome::Declined)
}

/// As many records as fit; where the sizes allow it so many that they are whole output blocks too.
fn chunk_len(ibs: usize, obs: usize, identity: bool) -> usize {
    let unit = if identity { lcm(ibs, obs).filter(|&unit| unit <= CHUNK).unwrap_or(ibs) } else { ibs };
    CHUNK - CHUNK % unit
}

fn lcm(a: usize, b: usize) -> Option<usize> {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x).checked_mul(b)
}

/// Bytes that can be moved here: whole records that `count=` allows and that the input is known to have.
fn budget(job: &Job<'_>, ibs: usize) -> u64 {
    let there = match (job.source.facts.kind, job.source.position()) {
        (Kind::Regular | Kind::Block, Some(position)) => job.source.size_now().saturating_sub(position),
        _ => u64::MAX,
    };
    let ibs = widen(ibs);
    let asked = job
        .plan
        .limit
        .map_or(u64::MAX, |limit| limit.records().saturating_sub(job.monitor.tally.read.total()).saturating_mul(ibs));
    let bytes = there.min(asked);
    bytes - bytes % ibs
}

/// Puts the input's descriptor `whole` bytes behind `at`, where a chunk began. /dev/zero has no place to go back to.
fn step_back(job: &mut Job<'_>, at: Option<u64>, whole: u64) -> Result<(), Halt> {
    let Some(at) = at.filter(|_| job.source.facts.is_storage()) else { return Ok(()) };
    job.source.go_to(at + whole).map_err(|errno| Halt::Failed(job.source.read_error(errno)))
}

struct Passed {
    bytes: u64,
    declined: bool,
}

/// A hole of the input is found, not read. Into a sparse output or /dev/null it is only counted; elsewhere the zeros are
/// written by the next chunks as if they had been read.
fn pass_hole(job: &mut Job<'_>, ibs: usize, obs: usize, chunk: usize, budget: u64) -> Result<Passed, Halt> {
    let unit = widen(chunk);
    let nothing = Passed { bytes: 0, declined: false };
    let Some(position) = job.source.position() else { return Ok(nothing) };
    let skips = job.sink.holes() != Holes::Write;
    if (!skips && job.sink.facts.kind != Kind::Null) || !chunk.is_multiple_of(obs) {
        return Ok(nothing);
    }
    let data = job.source.next_data(position + budget);
    let len = (data - position) / unit * unit;
    if len == 0 {
        return Ok(nothing);
    }
    if job.source.go_to(position + len).is_err() {
        return Ok(Passed { bytes: 0, declined: true });
    }
    let tally = &mut job.monitor.tally;
    tally.read.full += len / widen(ibs);
    tally.written.full += len / widen(obs);
    tally.bytes += len;
    if skips {
        job.sink.skip_zeros(len);
        tally.sparse += len / widen(obs);
    }
    Ok(Passed { bytes: len, declined: false })
}

/// Output on its way to whole blocks.
struct Gather {
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
    /// Passes on the records of a chunk that was read at `at`; false when the plain loop has to walk it again.
    fn pass(&mut self, job: &mut Job<'_>, records: &mut [u8], ibs: usize, at: Option<u64>) -> Result<bool, Halt> {
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
