//! The plain loop: one read, one write. It fits everything and defines what every faster way must equal.

use fdd_sys::memory::Aligned;
use rustix::io::Errno;

use crate::copy::intake::{Intake, Step};
use crate::copy::outlet::{Outlet, Wording, write_record};
use crate::copy::{Buffers, Halt, Job, Outcome, sizes};
use crate::error::Error;
use crate::monitor::Monitor;
use crate::plan::{Blocks, Plan};
use crate::units::widen;

pub(crate) fn run(job: &mut Job<'_>) -> Result<Outcome, Halt> {
    // Taken out for the time of the loop, so that a record can be handed on while the job is borrowed.
    let none = Aligned::new(0).map_err(|_| Halt::Failed(Error::Memory { end: "input", len: 0 }))?;
    let mut input = std::mem::replace(&mut job.buffers.input, none);
    let mut intake = Intake::new(job.plan);
    let even = is_even(job);
    let (ibs, _) = sizes(job.plan);
    loop {
        if even {
            whole_records(job, &mut input[..ibs], &intake)?;
        }
        match intake.next(&mut input[..ibs], job.source, job.monitor)? {
            Step::Record(len) => deliver(job, &mut input[..len])?,
            Step::Again => {}
            Step::End => break,
        }
        if let Some(speed) = job.plan.speed {
            job.monitor.pace(intake.bytes, speed).map_err(|_| Halt::Stopped)?;
        }
    }
    finish(job)?;
    Ok(Outcome::Done(intake.ending))
}

/// Records go in and out at one size and nothing is done to them or remembered about them.
fn is_even(job: &Job<'_>) -> bool {
    let (ibs, obs) = sizes(job.plan);
    ibs == obs && job.converter.is_none() && job.plan.is_undisturbed() && job.source.is_bare() && job.sink.is_bare()
}

/// The loop within the loop, for as long as each read fills its record and each write takes it, and nobody wants anything:
/// two calls and a few instructions. Whatever else a call says is left to the loop around it, which finds it as if it had
/// made the call itself.
fn whole_records(job: &mut Job<'_>, record: &mut [u8], intake: &Intake<'_>) -> Result<(), Halt> {
    let Job { plan, source, sink, monitor, gathered, .. } = job;
    if *gathered > 0 || sink.expects_again() || source.has_found() || source.partial.is_pending() {
        return Ok(());
    }
    let block = record.len();
    let most = intake.records_left(monitor);
    let before = fdd_sys::retry::Pause::interruptions(*monitor);
    let (moved, end) = match (source.system_fd(), sink.system_fd()) {
        (Some(from), Some(to)) => {
            move_whole(record, most, monitor, |buf| rustix::io::read(from, buf), |buf| rustix::io::write(to, buf))
        }
        _ => move_whole(record, most, monitor, |buf| source.read_bare(buf), |buf| sink.write_bare(buf)),
    };
    if let End::Read(got) = end {
        source.found(got, before);
    }
    let bytes = moved * widen(block);
    source.advance(bytes);
    sink.advance(bytes);
    monitor.tally.read.full += moved;
    monitor.tally.written.full += moved;
    monitor.tally.bytes += bytes;
    let End::Written(put) = end else { return Ok(()) };
    source.advance(widen(block));
    monitor.tally.read.full += 1;
    if let Ok(taken) = put {
        sink.advance(widen(taken));
        sink.expect_again(widen(taken));
    }
    write_record(record, block, wording(plan), sink, monitor)
}

/// Why no more whole records were moved.
enum End {
    /// There are enough, or somebody wants something.
    Asked,
    /// A read did not fill the record.
    Read(Result<usize, Errno>),
    /// A write did not take the record.
    Written(Result<usize, Errno>),
}

/// The number of records that went through whole, and what came then.
///
/// The calls are known at compile time: a system call leaves the processor's stack of return addresses empty or (where the
/// kernel clears it) useless, so each return between two of them is mispredicted. Without one, a record costs a quarter less.
#[inline(always)]
fn move_whole(
    record: &mut [u8],
    most: u64,
    monitor: &Monitor,
    read: impl Fn(&mut [u8]) -> Result<usize, Errno>,
    write: impl Fn(&[u8]) -> Result<usize, Errno>,
) -> (u64, End) {
    let block = record.len();
    let mut moved = 0;
    while moved < most && monitor.is_calm() {
        let got = read(record);
        if got != Ok(block) {
            return (moved, End::Read(got));
        }
        let put = write(record);
        if put != Ok(block) {
            return (moved, End::Written(put));
        }
        moved += 1;
    }
    (moved, End::Asked)
}

fn wording(plan: &Plan) -> Wording {
    match plan.blocks {
        Blocks::AsRead { .. } => Wording::Last,
        Blocks::Reblock { .. } => Wording::Block,
    }
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
        Some(converter) => converter.feed(record, &mut |run| outlet.put_converted(run, sink, monitor)),
    }
}

/// What conversions hold back, and the last block.
fn finish(job: &mut Job<'_>) -> Result<(), Halt> {
    let Job { plan, sink, monitor, buffers, converter, gathered, .. } = job;
    if let Blocks::AsRead { .. } = plan.blocks {
        return Ok(());
    }
    let mut outlet = Outlet::new(output(buffers), gathered);
    if let Some(converter) = converter {
        converter.finish(&mut |run| outlet.put_converted(run, sink, monitor))?;
    }
    outlet.finish(plan.output.pad_last, sink, monitor)
}

fn output(buffers: &mut Buffers) -> &mut Aligned {
    buffers.output.as_mut().expect("a plan that gathers has an output buffer")
}
