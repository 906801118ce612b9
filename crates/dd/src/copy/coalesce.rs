//! Small blocks at the speed of large ones: many records are read, converted and written at once and counted by arithmetic.
//!
//! Allowed where nobody can see the size of a read or write: between files, block devices, /dev/zero and /dev/null, and
//! into a pipe in pieces that were not atomic anyway.
//!
//! A chunk is whole input records. Before each the state is noted; when a write fails inside one, everything goes back to
//! that state, the sink is told how much it has already, and the plain loop walks the chunk again: it passes over what is
//! written and meets the error at the very record, with the very counts.
//!
//! A record that is larger than a chunk is moved in pieces by the same rule, and needs the memory of a piece.

use fdd_sys::memory::Aligned;
use fdd_sys::retry::Cut;
use rustix::fs::OFlags;

use crate::copy::chunk::{Gather, step_back};
use crate::copy::{CHUNK, Halt, Job, Outcome, WIDE_PIPE, sizes};
use crate::facts::Kind;
use crate::plan::{Cache, Holes, OnError};
use crate::units::widen;

/// An output block of more than so many bytes is not gathered here, nor a record of more out of a pipe (`stream`).
pub(super) const GATHERED: usize = 8 << 20;
/// From so many bytes on a record in pieces is faster than at once. Measured, 512 MiB into a new file, in pieces against at
/// once: 4 MiB equal, 16 MiB 161 against 198 ms, 64 MiB 153 and 231, 256 MiB 156 and 282 (GNU dd 284); 9 shuffled runs.
const LARGE: usize = 8 << 20;

pub(crate) fn allowed(job: &Job<'_>) -> bool {
    let Job { plan, source, sink, .. } = job;
    let (ibs, obs) = sizes(plan);
    let from = source.facts.hides_sizes() || source.facts.kind == Kind::Zero;
    from && sink.hides_sizes(obs)
        && source.facts.identity != sink.facts.identity
        && !source.facts.flags.contains(OFlags::DIRECT)
        && (obs <= GATHERED || passes_through(job))
        // What of a record is lost at a bad spot is seen only when all of it is asked for at once.
        && (ibs <= CHUNK || plan.input.on_error == OnError::Stop)
        && plan.may_be_joined()
        && job.buffers.gathered() == 0
}

/// Each record is a block and goes out as it is, so that nothing has to be gathered however large it is.
fn passes_through(job: &Job<'_>) -> bool {
    let (ibs, obs) = sizes(job.plan);
    ibs == obs && ibs > CHUNK && job.converter.is_none() && job.sink.holes() == Holes::Write
}

/// Wherever more than one record or block goes into a chunk, the cache is to be cleared in windows, or a record is so large
/// that it would leave the processor's caches before it is written.
pub(crate) fn worthwhile(job: &Job<'_>) -> bool {
    let (ibs, obs) = sizes(job.plan);
    let windows = job.plan.input.cache != Cache::Keep || job.plan.output.cache != Cache::Keep;
    ibs < CHUNK || obs < CHUNK || windows || (passes_through(job) && ibs >= LARGE)
}

pub(crate) fn run(job: &mut Job<'_>) -> Result<Outcome, Halt> {
    let (ibs, obs) = sizes(job.plan);
    let most = most(job);
    let chunk = chunk_len(most, ibs, obs, job.converter.is_none());
    let piece = chunk.min(most);
    let gather = if passes_through(job) { Gather::through(obs, piece) } else { Gather::new(obs, piece) };
    let (Ok(mut input), Some(mut gather)) = (Aligned::new(piece), gather) else {
        return Ok(Outcome::Declined);
    };
    if job.sink.facts.kind == Kind::Fifo {
        fdd_sys::pipe::widen(job.sink.fd(), WIDE_PIPE);
    }
    job.source.use_windows();
    job.sink.use_windows();
    let mut budget = budget(job, ibs);
    let holes = job.source.facts.kind == Kind::Regular
        && job.source.facts.allocated < job.source.facts.size
        && job.converter.is_none()
        && job.plan.taps.hashes.is_empty();
    while budget >= widen(ibs) {
        if holes && gather.is_empty() {
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
        if want > piece {
            if !in_pieces(job, &mut gather, &mut input, ibs)? {
                break;
            }
            budget -= widen(ibs);
            continue;
        }
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
    gather.hand_over(job);
    job.source.at_end = false;
    Ok(Outcome::Declined)
}

/// Moves a record that is larger than `piece`; false when the plain loop has to walk it again.
fn in_pieces(job: &mut Job<'_>, gather: &mut Gather, piece: &mut [u8], ibs: usize) -> Result<bool, Halt> {
    let at = job.source.position();
    let mut since = gather.begin(job, ibs, 1, at);
    let mut left = ibs;
    while left > 0 {
        let want = left.min(piece.len());
        let (got, outcome) = job.source.read(&mut piece[..want], job.monitor);
        if outcome == Err(Cut::Stopped) {
            return gather.go_back(job, since, Some(Cut::Stopped)).map(|()| false);
        }
        // The end of the file or a bad spot: the plain loop finds it in its place.
        if got < want {
            return gather.go_back(job, since, None).map(|()| false);
        }
        left -= got;
        if let Err(cut) = gather.feed(job, &mut piece[..want], &mut since) {
            return gather.go_back(job, since, Some(cut)).map(|()| false);
        }
    }
    Ok(true)
}

/// Bytes of a chunk of small records. Where nothing but the processor's cache is filled, what fits it is 10 % faster (2 GB of
/// zeros to /dev/null 38.8 against 42.5 ms, medians of 41 shuffled runs); everywhere else fewer calls are.
fn most(job: &Job<'_>) -> usize {
    let (ibs, _) = sizes(job.plan);
    let nowhere = job.source.facts.kind == Kind::Zero && job.sink.facts.kind == Kind::Null;
    if nowhere && ibs <= CHUNK / 2 { CHUNK / 2 } else { CHUNK }
}

/// As many records as fit into `most`, at least one; where the sizes allow it so many that they are whole output blocks too.
fn chunk_len(most: usize, ibs: usize, obs: usize, identity: bool) -> usize {
    if ibs > most {
        return ibs;
    }
    let unit = if identity { lcm(ibs, obs).filter(|&unit| unit <= most).unwrap_or(ibs) } else { ibs };
    most - most % unit
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

#[cfg(test)]
#[cfg(not(miri))] // Files and pipes.
mod tests;
