//! The order of events: which way the bytes go, and what each way may count on.

mod buffer;
mod bulk;
mod chunk;
mod coalesce;
pub(crate) mod intake;
pub(crate) mod outlet;
mod overlap;
mod pump;
mod reflink;
mod stream;
mod uring;
mod zeros;

use fdd_sys::memory::Aligned;

use crate::conv::Converter;
use crate::error::{Error, Notice};
use crate::input::Source;
use crate::monitor::Monitor;
use crate::output::Sink;
use crate::plan::{Blocks, Plan};

/// Bytes at a time: they stay in the processor's caches on their way, the calls are few, and a file system that can gives
/// one large folio to a large write. Measured against 512 KiB with 1 MiB of second-level cache, minima of 9 shuffled runs:
/// new files 4 to 6 % faster, over old ones 5 to 6 %, reads 3 to 5 %, zeros 8 %, conversions 2 to 4 %, pipes equal. Before that
/// 512 against 128 KiB: new files 9 %, zeros 12 %, a pipe to a pipe 16 %, conversions equal.
const CHUNK: usize = 1 << 20;
/// What a pipe is widened to.
const WIDE_PIPE: usize = 1 << 20;

/// `ibs` and `obs` as they are in force.
fn sizes(plan: &Plan) -> (usize, usize) {
    match plan.blocks {
        Blocks::AsRead { bs } => (bs, bs),
        Blocks::Reblock { ibs, obs } => (ibs, obs),
    }
}

/// Everything one copy needs.
pub struct Job<'a> {
    pub plan: &'a Plan,
    pub source: &'a mut Source,
    pub sink: &'a mut Sink,
    pub monitor: &'a mut Monitor,
    pub buffers: &'a mut Buffers,
    /// Lives as long as the copy, whichever way moves the bytes.
    pub converter: Option<Converter>,
    /// A way with requests in flight met an error, or an end that it did not expect: what is slow to fail is not to be
    /// met by the next such way too.
    pub trouble: bool,
}

impl<'a> Job<'a> {
    pub fn new(
        plan: &'a Plan,
        source: &'a mut Source,
        sink: &'a mut Sink,
        monitor: &'a mut Monitor,
        buffers: &'a mut Buffers,
    ) -> Job<'a> {
        let converter = (!plan.recipe.is_identity()).then(|| Converter::new(&plan.recipe));
        Job { plan, source, sink, monitor, buffers, converter, trouble: false }
    }
}

/// The block buffers: made before the output is opened, so that memory that cannot be had costs nothing.
#[derive(Debug)]
pub struct Buffers {
    pub input: Aligned,
    /// Gathers output blocks; `None` where a read is written as it came.
    pub(crate) output: Option<outlet::Outlet>,
    /// `buffer=`
    pub(crate) between: Option<buffer::Between>,
}

impl Buffers {
    /// For a copy of nothing.
    ///
    /// # Errors
    /// One page cannot be had.
    pub fn none() -> Result<Buffers, Error> {
        Ok(Buffers {
            input: Aligned::new(0).map_err(|_| Error::Memory { end: "input", len: 0 })?,
            output: None,
            between: None,
        })
    }

    /// # Errors
    /// The memory cannot be had. Pages cost nothing until they are used.
    pub fn for_plan(plan: &Plan) -> Result<Buffers, Error> {
        let make =
            |end, len: usize| Aligned::new(len).map_err(|_| Error::Memory { end, len: crate::units::widen(len) });
        let (input, output) = match plan.blocks {
            Blocks::AsRead { bs } => (make("input", bs)?, None),
            Blocks::Reblock { ibs, obs } => (make("input", ibs)?, Some(outlet::Outlet::new(make("output", obs)?))),
        };
        let between = plan.buffer.map(|buffering| buffer::Between::new(buffering, sizes(plan).1)).transpose()?;
        Ok(Buffers { input, output, between })
    }

    /// How many bytes wait to become a whole output block.
    pub(crate) fn gathered(&self) -> usize {
        self.output.as_ref().map_or(0, |outlet| outlet.held().len())
    }
}

/// Why a copy does not go on.
#[derive(Debug)]
pub enum Halt {
    /// A signal, or whoever embeds the copy, wants the end.
    Stopped,
    Failed(Error),
}

/// How a way of moving bytes ended.
#[derive(Debug)]
pub enum Outcome {
    /// All there was.
    Done(Ending),
    /// Not this way. Offsets and tally are exact and on a record boundary; the next row goes on from here.
    #[allow(dead_code, reason = "the pump fits everything; faster rows decline")]
    Declined,
}

#[derive(Debug, Default)]
pub struct Ending {
    /// The input could not be read to where it was to be.
    pub failed: bool,
    /// Ranges that are not in the output.
    pub lost: Vec<Notice>,
}

/// A way to move the bytes. Rows are tried in order; `pump` is last, fits everything, and defines the others.
struct Strategy {
    name: &'static str,
    /// Nobody can tell that it was used.
    allowed: fn(&Job<'_>) -> bool,
    /// It pays. Not asked when the strategy is forced.
    worthwhile: fn(&Job<'_>) -> bool,
    run: fn(&mut Job<'_>) -> Result<Outcome, Halt>,
}

const STRATEGIES: &[Strategy] = &[
    Strategy { name: "reflink", allowed: reflink::allowed, worthwhile: reflink::worthwhile, run: reflink::run },
    Strategy { name: "uring", allowed: bulk::allowed, worthwhile: uring::worthwhile, run: uring::run },
    Strategy { name: "overlap", allowed: bulk::allowed, worthwhile: bulk::worthwhile, run: overlap::run },
    Strategy { name: "buffer", allowed: buffer::allowed, worthwhile: |_| true, run: buffer::run },
    Strategy { name: "zeros", allowed: zeros::allowed, worthwhile: zeros::worthwhile, run: zeros::run },
    Strategy { name: "stream", allowed: stream::allowed, worthwhile: stream::worthwhile, run: stream::run },
    Strategy { name: "coalesce", allowed: coalesce::allowed, worthwhile: coalesce::worthwhile, run: coalesce::run },
    Strategy { name: "pump", allowed: |_| true, worthwhile: |_| true, run: pump::run },
];

/// Which strategies may be used; the test seam `FDD_STRATEGY` forces one.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    pub forced: Option<String>,
}

/// Copies until the input ends, the limit is reached, or something stops it. Tells also how many bytes each way moved.
pub fn run(job: &mut Job<'_>, choice: &Choice) -> (Result<Ending, Halt>, Vec<(&'static str, u64)>) {
    let mut moved = Vec::new();
    for strategy in STRATEGIES {
        let last = strategy.name == "pump";
        // A record of which the output has a part already is the plain loop's to end: it alone passes over that part.
        let wanted = match &choice.forced {
            _ if job.sink.expects_again() => last,
            Some(name) => last || *name == strategy.name,
            None => (strategy.worthwhile)(job),
        };
        if !wanted || !(strategy.allowed)(job) {
            continue;
        }
        let before = job.monitor.tally.bytes;
        let outcome = (strategy.run)(job);
        moved.push((strategy.name, job.monitor.tally.bytes - before));
        let ended = match outcome {
            Ok(Outcome::Declined) => continue,
            Ok(Outcome::Done(ending)) => Ok(ending),
            Err(halt) => Err(halt),
        };
        count_leftover(job);
        return (ended, moved);
    }
    unreachable!("the pump is the last row and never declines")
}

/// The plain loop ended before it came to what a faster way had written already: that is in the output and counts.
/// Zeros among it that are to be stepped over may not be there yet; the sink keeps account of those.
fn count_leftover(job: &mut Job<'_>) {
    let left = job.sink.take_again();
    let obs = crate::units::widen(job.plan.output.obs.max(1));
    let tally = &mut job.monitor.tally;
    tally.written.full += left / obs;
    tally.written.partial += u64::from(!left.is_multiple_of(obs));
    tally.bytes += left;
}

impl Ending {
    /// Says what was lost and has not been said yet.
    pub(crate) fn name_all(&mut self, monitor: &mut Monitor) {
        for notice in self.lost.drain(..) {
            monitor.lost(&notice);
        }
    }
}

#[cfg(test)]
#[cfg(not(miri))] // Files and pipes.
mod tests;
