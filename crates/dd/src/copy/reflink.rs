//! Copies that share the input's blocks (`reflink=`): nothing is moved, and a later write to either file parts them.

use fdd_sys::clone::clone_range;
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::copy::{Halt, Job, Outcome, sizes};
use crate::error::Error;
use crate::facts::Kind;
use crate::operands::Reflink;
use crate::plan::{Holes, Plan};
use crate::tally::Records;
use crate::units::widen;

pub(crate) fn allowed(job: &Job<'_>) -> bool {
    job.plan.reflink != Reflink::Never
}

pub(crate) fn worthwhile(_: &Job<'_>) -> bool {
    true
}

pub(crate) fn run(job: &mut Job<'_>) -> Result<Outcome, Halt> {
    match clone(job) {
        // What comes behind the clone, such as the end of the input, is met by the plain loop.
        Ok(len) => pass_over(job, len).map(|()| Outcome::Declined),
        Err(errno) if job.plan.reflink == Reflink::Always => {
            Err(Halt::Failed(Error::Reflink { name: job.sink.name().clone(), errno }))
        }
        Err(_) => Ok(Outcome::Declined),
    }
}

/// Shares what there is to be shared, and tells how many bytes that is.
fn clone(job: &mut Job<'_>) -> Result<u64, Errno> {
    let Job { plan, source, sink, .. } = job;
    let (Some(from), Some(to)) = (source.position(), sink.position()) else { return Err(Errno::OPNOTSUPP) };
    if source.facts.kind != Kind::Regular || sink.facts.kind != Kind::Regular || !is_plain(plan, sink.holes()) {
        return Err(Errno::OPNOTSUPP);
    }
    // The kernel says so only on some file systems.
    if sink.facts.flags.contains(OFlags::APPEND) {
        return Err(Errno::BADF);
    }
    let (ibs, obs) = sizes(plan);
    let there = source.size_now().saturating_sub(from);
    let asked = plan.limit.map_or(Some(u64::MAX), |limit| limit.in_bytes()).ok_or(Errno::OVERFLOW)?;
    let len = there.min(asked);
    let whole = len.is_multiple_of(widen(ibs)) && len.is_multiple_of(widen(obs));
    if !whole && (plan.input.pad.is_some() || plan.output.pad_last.is_some()) {
        return Err(Errno::OPNOTSUPP);
    }
    if len == 0 && there > 0 {
        return Ok(0);
    }
    // Of an empty file too it is asked, so that `always` holds.
    clone_range(sink.fd(), to, source.fd(), from, len)?;
    Ok(len)
}

/// Both descriptors go behind the `len` bytes that are shared; where one will not, nobody can go on from there.
fn pass_over(job: &mut Job<'_>, len: u64) -> Result<(), Halt> {
    let Job { plan, source, sink, .. } = job;
    let (Some(from), Some(to)) = (source.position(), sink.position()) else { return Ok(()) };
    let (ibs, obs) = sizes(plan);
    source.go_to(from + len).map_err(|errno| Halt::Failed(source.read_error(errno)))?;
    sink.go_to(to + len).map_err(Halt::Failed)?;
    let tally = &mut job.monitor.tally;
    tally.read = plus(tally.read, len, widen(ibs));
    tally.written = plus(tally.written, len, widen(obs));
    tally.bytes += len;
    Ok(())
}

/// Bytes go out as they came in, each to its place.
fn is_plain(plan: &Plan, holes: Holes) -> bool {
    plan.recipe.is_identity()
        && holes == Holes::Write
        && plan.input.stride == 1
        && plan.output.stride == 1
        && plan.input.files == 1
        // A digest wants to see the bytes.
        && plan.taps.hashes.is_empty()
}

fn plus(records: Records, len: u64, block: u64) -> Records {
    Records { full: records.full + len / block, partial: records.partial + u64::from(!len.is_multiple_of(block)) }
}

#[cfg(test)]
#[cfg(not(miri))] // Files.
mod tests;
