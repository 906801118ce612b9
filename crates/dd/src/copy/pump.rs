//! The plain loop: one read, one write. It fits everything and defines what every faster way must equal.

use fdd_sys::memory::Aligned;

use crate::copy::intake::{Intake, Step};
use crate::copy::outlet::{Outlet, Wording, write_record};
use crate::copy::{Buffers, Ending, Halt, Job, Outcome};
use crate::error::Error;
use crate::plan::Blocks;

pub(crate) fn run(job: &mut Job<'_>) -> Result<Outcome, Halt> {
    match job.plan.blocks {
        Blocks::AsRead { bs } => as_read(job, bs),
        Blocks::Reblock { .. } => reblocked(job),
    }
    .map(Outcome::Done)
}

fn as_read(job: &mut Job<'_>, bs: usize) -> Result<Ending, Halt> {
    let Job { plan, source, sink, monitor, buffers, .. } = job;
    let mut intake = Intake::new(plan);
    loop {
        match intake.next(&mut buffers.input[..bs], source, monitor)? {
            Step::Record(len) => write_record(&buffers.input[..len], bs, Wording::Last, sink, monitor)?,
            Step::Again => {}
            Step::End => return Ok(intake.ending),
        }
        if let Some(speed) = plan.speed {
            monitor.pace(intake.bytes, speed).map_err(|_| Halt::Stopped)?;
        }
    }
}

fn reblocked(job: &mut Job<'_>) -> Result<Ending, Halt> {
    let mut intake = Intake::new(job.plan);
    // Taken out for the time of the loop, so that a record can be handed on while the job is borrowed.
    let none = Aligned::new(0).map_err(|_| Halt::Failed(Error::Memory { end: "input", len: 0 }))?;
    let mut input = std::mem::replace(&mut job.buffers.input, none);
    loop {
        match intake.next(&mut input, job.source, job.monitor)? {
            Step::Record(len) => deliver(job, &mut input[..len])?,
            Step::Again => {}
            Step::End => break,
        }
        if let Some(speed) = job.plan.speed {
            job.monitor.pace(intake.bytes, speed).map_err(|_| Halt::Stopped)?;
        }
    }
    let Job { plan, sink, monitor, buffers, converter, gathered, .. } = job;
    let mut outlet = Outlet::new(output(buffers), gathered);
    if let Some(converter) = converter {
        let truncated = converter.finish(&mut |run: &[u8]| outlet.put(run, sink, monitor))?;
        monitor.tally.truncated += truncated;
    }
    outlet.finish(plan.output.pad_last, sink, monitor)?;
    Ok(intake.ending)
}

/// One record on its way out, already counted as read.
#[inline]
pub(crate) fn deliver(job: &mut Job<'_>, record: &mut [u8]) -> Result<(), Halt> {
    let Job { plan, sink, monitor, buffers, converter, gathered, .. } = job;
    if let Blocks::AsRead { bs } = plan.blocks {
        return write_record(record, bs, Wording::Last, sink, monitor);
    }
    let mut outlet = Outlet::new(output(buffers), gathered);
    match converter {
        None => outlet.put(record, sink, monitor),
        Some(converter) => {
            let truncated = converter.feed(record, &mut |run: &[u8]| outlet.put(run, sink, monitor))?;
            monitor.tally.truncated += truncated;
            Ok(())
        }
    }
}

fn output(buffers: &mut Buffers) -> &mut Aligned {
    buffers.output.as_mut().expect("a plan that gathers has an output buffer")
}
