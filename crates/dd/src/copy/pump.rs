//! The plain loop: one read, one write. It fits everything and defines what every faster way must equal.

use crate::copy::intake::{Intake, Step};
use crate::copy::outlet::{Outlet, Wording, write_record};
use crate::copy::{Ending, Halt, Job, Outcome};
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
        match intake.next(&mut buffers.input, source, monitor)? {
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
    let Job { plan, source, sink, monitor, buffers, converter, gathered } = job;
    let mut intake = Intake::new(plan);
    let output = buffers.output.as_mut().expect("a plan that gathers has an output buffer");
    let mut outlet = Outlet::new(output, gathered);
    loop {
        match intake.next(&mut buffers.input, source, monitor)? {
            Step::Record(len) => match converter {
                None => outlet.put(&buffers.input[..len], sink, monitor)?,
                Some(converter) => {
                    let block = &mut buffers.input[..len];
                    let truncated = converter.feed(block, &mut |run: &[u8]| outlet.put(run, sink, monitor))?;
                    monitor.tally.truncated += truncated;
                }
            },
            Step::Again => {}
            Step::End => break,
        }
        if let Some(speed) = plan.speed {
            monitor.pace(intake.bytes, speed).map_err(|_| Halt::Stopped)?;
        }
    }
    if let Some(converter) = converter {
        let truncated = converter.finish(&mut |run: &[u8]| outlet.put(run, sink, monitor))?;
        monitor.tally.truncated += truncated;
    }
    outlet.finish(plan.output.pad_last, sink, monitor)?;
    Ok(intake.ending)
}
