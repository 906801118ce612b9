//! Out of a pipe, many records at a time.
//!
//! A read that asks for more than a record gets what is there: what so many reads, one after another, could have got. What
//! came is passed on at once. Only the pipe itself could tell the difference: a writer in packet mode, whose packets a
//! shorter read cuts off and loses; here they arrive whole.

use fdd_sys::memory::Aligned;
use fdd_sys::retry::Cut;

use crate::copy::chunk::Gather;
use crate::copy::coalesce::GATHERED;
use crate::copy::intake::Intake;
use crate::copy::{CHUNK, Halt, Job, Outcome, WIDE_PIPE, pump, sizes};
use crate::facts::Kind;
use crate::plan::Cache;
use crate::units::widen;

pub(crate) fn allowed(job: &Job<'_>) -> bool {
    let (ibs, obs) = sizes(job.plan);
    job.source.facts.kind == Kind::Fifo
        && job.sink.hides_sizes(obs)
        && ibs <= GATHERED
        && obs <= GATHERED
        && job.plan.may_be_joined()
        && job.buffers.gathered() == 0
}

pub(crate) fn worthwhile(job: &Job<'_>) -> bool {
    let (ibs, _) = sizes(job.plan);
    ibs < CHUNK || job.plan.output.cache != Cache::Keep
}

pub(crate) fn run(job: &mut Job<'_>) -> Result<Outcome, Halt> {
    let (ibs, obs) = sizes(job.plan);
    let chunk = CHUNK.max(ibs) / ibs * ibs;
    // A conversion in place leaves nothing to walk again.
    let kept = Aligned::new(if job.converter.is_some() { chunk } else { 0 });
    let (Ok(mut input), Ok(mut kept), Some(mut gather)) = (Aligned::new(chunk), kept, Gather::new(obs, chunk)) else {
        return Ok(Outcome::Declined);
    };
    if !job.source.can_break_off(ibs) {
        return Ok(Outcome::Declined);
    }
    // No single read gives more than a pipe holds: such a record comes short, however much comes meanwhile.
    let fits = fdd_sys::pipe::widen(job.source.fd(), WIDE_PIPE).is_some_and(|width| ibs <= width);
    if job.sink.facts.kind == Kind::Fifo {
        fdd_sys::pipe::widen(job.sink.fd(), WIDE_PIPE);
    }
    job.sink.use_windows();
    let mut intake = Intake::new(job.plan);
    // Bytes at the front of a record that fullblock waits to see whole.
    let mut carried = 0;
    let mut packets = false;
    loop {
        let records = intake.records_left(job.monitor);
        if records == 0 {
            break;
        }
        // Packets are read as the plain loop reads them: what a packet has beyond its read is lost to GNU too.
        let most = if packets { ibs } else { chunk };
        let room = usize::try_from(records).unwrap_or(usize::MAX).saturating_mul(ibs).min(most);
        let there = job.source.available();
        let (got, last) = match job.source.read_some(&mut input[carried..room], job.monitor) {
            Ok(0) => {
                job.source.end();
                (0, true)
            }
            Ok(got) => (got, false),
            Err(Cut::Stopped) => return Err(Halt::Stopped),
            // The plain loop words it, at the record that it broke. Asked once more, the pipe could go on with another one.
            Err(Cut::Os(errno)) => {
                if carried > 0 && !job.plan.input.fullblock {
                    short(job, &mut intake, &mut gather, &mut input[..ibs], carried)?;
                    carried = 0;
                }
                job.source.broke_off(&input[..carried], errno);
                break;
            }
        };
        // A plain pipe gives all that it has; one in packet mode gives a packet, which is a record however short.
        packets |= widen(got) < there.min(widen(room - carried));
        let filled = carried + got;
        let whole = filled - filled % ibs;
        if whole > 0 {
            intake.whole(job.source, job.monitor);
            pass(job, &mut gather, &mut input[..whole], &mut kept, ibs)?;
        }
        let rest = filled - whole;
        // A record cut by what happened to be there is completed if more has come meanwhile, as it would for smaller reads.
        let waits = job.plan.input.fullblock || (rest > 0 && fits && !packets && job.source.available() > 0);
        if rest > 0 && (last || !waits) {
            input.copy_within(whole..filled, 0);
            short(job, &mut intake, &mut gather, &mut input[..ibs], rest)?;
            carried = 0;
        } else {
            input.copy_within(whole..filled, 0);
            carried = rest;
        }
        if last {
            break;
        }
    }
    gather.hand_over(job);
    Ok(Outcome::Declined)
}

/// Whole records. Where a write fails among them they are walked again, one by one, from memory: the pipe does not give
/// them twice. `kept` has room for them as they were, where there is a conversion.
fn pass(job: &mut Job<'_>, gather: &mut Gather, records: &mut [u8], kept: &mut [u8], ibs: usize) -> Result<(), Halt> {
    let converted = job.converter.is_some();
    if converted {
        kept[..records.len()].copy_from_slice(records);
    }
    if gather.pass(job, records, ibs, None)? {
        return Ok(());
    }
    gather.hand_over(job);
    let again = if converted { &mut kept[..records.len()] } else { records };
    for record in again.chunks_mut(ibs) {
        job.monitor.tally.read(record.len(), ibs);
        pump::deliver(job, record)?;
    }
    gather.take_back(job);
    Ok(())
}

/// A record that came short: by itself, as the plain loop has it.
fn short(
    job: &mut Job<'_>,
    intake: &mut Intake<'_>,
    gather: &mut Gather,
    block: &mut [u8],
    got: usize,
) -> Result<(), Halt> {
    gather.hand_over(job);
    let len = intake.short(block, got, job.source, job.monitor);
    pump::deliver(job, &mut block[..len])?;
    gather.take_back(job);
    Ok(())
}

#[cfg(test)]
#[cfg(not(miri))] // Pipes and their sizes.
mod tests;
