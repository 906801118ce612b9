//! /dev/zero into a pipe: pages of zeros are lent to the pipe, none is copied.
//!
//! The one case in which lending is safe: the pages are never written again, so whoever reads them, whenever, gets zeros.

use fdd_sys::pipe::Zeros;
use fdd_sys::retry::{Cut, retry};
use rustix::fs::OFlags;

use crate::copy::{Halt, Job, Outcome, WIDE_PIPE, sizes};
use crate::facts::Kind;
use crate::output::PIPE_BUF;
use crate::plan::Cache;
use crate::units::widen;

pub(crate) fn allowed(job: &Job<'_>) -> bool {
    let Job { plan, source, sink, .. } = job;
    let (_, obs) = sizes(plan);
    source.facts.kind == Kind::Zero
        && sink.facts.kind == Kind::Fifo
        && obs > PIPE_BUF
        && !sink.facts.flags.intersects(OFlags::DIRECT | OFlags::NONBLOCK)
        && job.converter.is_none()
        && plan.is_undisturbed()
        && plan.output.cache == Cache::Keep
        && job.buffers.gathered() == 0
}

/// Below this a page of zeros is copied as fast as it is lent.
pub(crate) fn worthwhile(job: &Job<'_>) -> bool {
    const LEAST: u64 = 256 << 10;
    whole_records(job) >= LEAST
}

/// From so many bytes on, the time that a huge page saves is more than its making takes.
const WORTH_A_HUGE_PAGE: u64 = 16 << 20;

/// Bytes in the whole records that `count=` still allows.
fn whole_records(job: &Job<'_>) -> u64 {
    let (ibs, _) = sizes(job.plan);
    job.plan.limit.map_or(u64::MAX, |limit| {
        limit.records().saturating_sub(job.monitor.tally.read.total()).saturating_mul(widen(ibs))
    })
}

pub(crate) fn run(job: &mut Job<'_>) -> Result<Outcome, Halt> {
    let (ibs, obs) = sizes(job.plan);
    let (ibs, obs) = (widen(ibs), widen(obs));
    let all = whole_records(job);
    let all = all - all % ibs;
    let Ok(zeros) = Zeros::new(all >= WORTH_A_HUGE_PAGE) else { return Ok(Outcome::Declined) };
    fdd_sys::pipe::widen(job.sink.fd(), WIDE_PIPE);
    let before = job.monitor.tally;
    let mut lent: u64 = 0;
    let outcome = loop {
        if lent == all {
            break Ok(());
        }
        let want = usize::try_from(all - lent).unwrap_or(WIDE_PIPE).min(WIDE_PIPE);
        let fd = job.sink.fd();
        match retry(job.monitor, || zeros.lend_to(fd, want)) {
            Ok(0) => break Ok(()),
            Ok(taken) => lent += widen(taken),
            Err(cut) => break Err(cut),
        }
        let tally = &mut job.monitor.tally;
        tally.read.full = before.read.full + lent.div_ceil(ibs);
        tally.written.full = before.written.full + lent / obs;
        tally.bytes = before.bytes + lent;
    };
    if outcome == Err(Cut::Stopped) {
        job.monitor.tally.written.partial += u64::from(!lent.is_multiple_of(obs));
        return Err(Halt::Stopped);
    }
    // The plain loop goes on at a record's edge, and is told what of it the pipe has already.
    let records = if lent == all { all / ibs } else { lent / obs * obs / ibs };
    let blocks = records * ibs / obs;
    let tally = &mut job.monitor.tally;
    tally.read.full = before.read.full + records;
    tally.written.full = before.written.full + blocks;
    tally.bytes = before.bytes + blocks * obs;
    job.sink.expect_again(lent - blocks * obs);
    if let (Some(output), Ok(rest)) = (&mut job.buffers.output, usize::try_from(records * ibs - blocks * obs)) {
        output.hold_zeros(rest);
    }
    Ok(Outcome::Declined)
}

#[cfg(test)]
#[cfg(not(miri))] // Pipes and their sizes.
mod tests;
