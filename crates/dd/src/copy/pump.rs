//! The plain loop: one read, one write. It fits everything and defines what every faster way must equal.

use fdd_sys::memory::Aligned;
use fdd_sys::retry::Cut;
use rustix::io::Errno;

use crate::copy::intake::{Intake, Step};
use crate::copy::outlet::{Outlet, Wording, broken, write_record};
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
    let bare = is_bare(job);
    let (ibs, _) = sizes(job.plan);
    loop {
        if bare {
            whole_records(job, &mut input[..ibs], &mut intake)?;
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

/// Nothing is done to the records or remembered about them on their way.
fn is_bare(job: &Job<'_>) -> bool {
    job.converter.is_none() && job.plan.is_undisturbed() && job.source.is_bare() && job.sink.is_bare()
}

/// The loop within the loop, for as long as each read fills its record and each write takes its block, and nobody wants
/// anything: the calls, a few instructions, and one copy where blocks are gathered. Whatever else a call says is left to the
/// loop around it, which finds it as if it had made the call itself.
fn whole_records(job: &mut Job<'_>, record: &mut [u8], intake: &mut Intake<'_>) -> Result<(), Halt> {
    let Job { plan, source, sink, monitor, buffers, .. } = job;
    if sink.expects_again() || source.has_found() || source.partial.is_pending() || source.at_end {
        return Ok(());
    }
    let (ibs, obs) = sizes(plan);
    let most = intake.records_left(monitor);
    let before = fdd_sys::retry::Pause::interruptions(*monitor);
    let outlet = buffers.output.as_mut().filter(|outlet| ibs != obs || !outlet.held().is_empty());
    let (passed, end) = match (source.system_fd(), sink.system_fd()) {
        (Some(from), Some(to)) => {
            let (read, write) = (|buf: &mut [u8]| rustix::io::read(from, buf), |buf: &[u8]| rustix::io::write(to, buf));
            move_whole(record, outlet, most, monitor, read, write)
        }
        _ => move_whole(record, outlet, most, monitor, |buf| source.read_bare(buf), |buf| sink.write_bare(buf)),
    };
    if let End::Read(got) = end {
        source.found(got, before);
    }
    if passed.read > 0 {
        intake.whole(source, monitor);
    }
    source.advance(passed.read * widen(ibs));
    sink.advance(passed.written * widen(obs));
    monitor.tally.read.full += passed.read;
    monitor.tally.written.full += passed.written;
    monitor.tally.bytes += passed.written * widen(obs);
    let End::Written { taken, put } = end else { return Ok(()) };
    match put {
        // Nothing was taken and no reason given, or something that may not be said twice: a file system tells only once
        // that it lost data. What is worth another try is left to the loop that knows how.
        Ok(0) => return Err(broken(0, wording(plan), Cut::Os(Errno::NOSPC), sink, monitor)),
        Err(errno) if !matches!(errno, Errno::INTR | Errno::AGAIN) => {
            return Err(broken(0, wording(plan), Cut::Os(errno), sink, monitor));
        }
        Ok(put) => {
            sink.advance(widen(put));
            sink.expect_again(widen(put));
        }
        Err(_) => {}
    }
    match &mut buffers.output {
        None => write_record(record, obs, wording(plan), sink, monitor),
        Some(outlet) => outlet.put(&record[taken..], sink, monitor),
    }
}

/// Whole records and blocks that were moved.
#[derive(Default)]
struct Passed {
    read: u64,
    written: u64,
}

/// Why no more of them were moved.
enum End {
    /// There are enough, or somebody wants something.
    Asked,
    /// A read did not fill the record.
    Read(Result<usize, Errno>),
    /// A write did not take its block, or was not made since somebody wants something (EINTR). So much of the record was
    /// gathered or written before.
    Written { taken: usize, put: Result<usize, Errno> },
}

/// Moves records until there are enough or something comes between. Where there is an `outlet` blocks are gathered in it, else
/// the record is the block.
///
/// The calls are known at compile time: a system call leaves the processor's stack of return addresses empty or (where the
/// kernel clears it) useless, so each return between two of them is mispredicted. Without one, a record costs a quarter less.
#[inline(always)]
fn move_whole(
    record: &mut [u8],
    outlet: Option<&mut Outlet>,
    most: u64,
    monitor: &Monitor,
    read: impl Fn(&mut [u8]) -> Result<usize, Errno>,
    write: impl Fn(&[u8]) -> Result<usize, Errno>,
) -> (Passed, End) {
    let ibs = record.len();
    let mut passed = Passed::default();
    let Some(outlet) = outlet else {
        while passed.read < most && monitor.is_calm() {
            let got = read(record);
            if got != Ok(ibs) {
                return (passed, End::Read(got));
            }
            passed.read += 1;
            let put = write(record);
            if put != Ok(ibs) {
                return (passed, End::Written { taken: 0, put });
            }
            passed.written += 1;
        }
        return (passed, End::Asked);
    };
    let obs = outlet.obs();
    while passed.read < most && monitor.is_calm() {
        let got = read(record);
        if got != Ok(ibs) {
            return (passed, End::Read(got));
        }
        passed.read += 1;
        let (taken, outcome) = outlet.gather(record, |block| {
            // A record may be many blocks.
            let put = if monitor.is_calm() { write(block) } else { Err(Errno::INTR) };
            if put != Ok(obs) {
                return Err(put);
            }
            passed.written += 1;
            Ok(())
        });
        if let Err(put) = outcome {
            return (passed, End::Written { taken, put });
        }
    }
    (passed, End::Asked)
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
    let Job { plan, sink, monitor, buffers, converter, .. } = job;
    if let Blocks::AsRead { bs } = plan.blocks {
        return write_record(record, bs, Wording::Last, sink, monitor);
    }
    let outlet = output(buffers);
    match converter {
        None => outlet.put(record, sink, monitor),
        Some(converter) => converter.feed(record, &mut |run| outlet.put_converted(run, sink, monitor)),
    }
}

/// What conversions hold back, and the last block.
fn finish(job: &mut Job<'_>) -> Result<(), Halt> {
    let Job { plan, sink, monitor, buffers, converter, .. } = job;
    if let Blocks::AsRead { .. } = plan.blocks {
        return Ok(());
    }
    let outlet = output(buffers);
    if let Some(converter) = converter {
        converter.finish(&mut |run| outlet.put_converted(run, sink, monitor))?;
    }
    outlet.finish(plan.output.pad_last, sink, monitor)
}

fn output(buffers: &mut Buffers) -> &mut Outlet {
    buffers.output.as_mut().expect("a plan that gathers has an output buffer")
}

#[cfg(test)]
#[cfg(not(miri))] // Files.
mod tests;
