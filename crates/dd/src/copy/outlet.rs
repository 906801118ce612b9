//! Where output records go: as they were read, or gathered to `obs`.

use std::convert::Infallible;

use fdd_io::filebuf::Buffer;
use fdd_sys::memory::Aligned;
use fdd_sys::retry::Cut;

use crate::conv::Run;
use crate::copy::Halt;
use crate::error::Error;
use crate::monitor::Monitor;
use crate::output::Sink;
use crate::plan::Holes;

/// Pages as a buffer's memory.
#[derive(Debug)]
pub(crate) struct Pages(pub(crate) Aligned);

impl AsRef<[u8]> for Pages {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl AsMut<[u8]> for Pages {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// Output of a copy that gathers: one block, which lives as long as the copy, whichever way fills it.
#[derive(Debug)]
pub(crate) struct Outlet {
    /// Filled from the memory's start on, since nothing but whole blocks is taken out: direct writes want it aligned.
    block: Buffer<Pages>,
}

impl Outlet {
    /// The block is all of `memory`.
    pub(crate) fn new(memory: Aligned) -> Outlet {
        Outlet { block: Buffer::over(Pages(memory)) }
    }

    pub(crate) fn obs(&self) -> usize {
        self.block.capacity()
    }

    /// What is gathered and not yet a whole block.
    pub(crate) fn held(&self) -> &[u8] {
        self.block.held()
    }

    /// That becomes `bytes`, less than a block.
    pub(crate) fn hold(&mut self, bytes: &[u8]) {
        self.block.clear();
        let held = self.block.keep(bytes);
        debug_assert!(held, "less than a block fits");
    }

    /// That becomes `count` zeros, less than a block.
    pub(crate) fn hold_zeros(&mut self, count: usize) {
        self.block.clear();
        let Ok(()) = self.block.refill(|memory| {
            memory[..count].fill(0);
            Ok::<usize, Infallible>(count)
        });
    }

    /// Takes `bytes`; whole blocks go out. Where nothing is gathered yet they go straight from the caller's slice.
    #[inline]
    pub(crate) fn put(&mut self, bytes: &[u8], sink: &mut Sink, monitor: &mut Monitor) -> Result<(), Halt> {
        let obs = self.obs();
        self.gather(bytes, |block| write_record(block, obs, Wording::Block, sink, monitor)).1
    }

    /// Takes what a conversion hands on. A record is counted as truncated when what stands before its end has gone well: a
    /// report during a write, or after one that failed, is of what came before that write.
    pub(crate) fn put_converted(&mut self, run: Run<'_>, sink: &mut Sink, monitor: &mut Monitor) -> Result<(), Halt> {
        for (bytes, truncated) in run.pieces() {
            self.put(bytes, sink, monitor)?;
            monitor.tally.truncated += u64::from(truncated);
        }
        Ok(())
    }

    /// Takes `bytes`; `emit` gets each whole block. Tells how many were taken before it refused one, which is kept: go on
    /// with the others.
    #[inline]
    pub(crate) fn gather<E>(
        &mut self,
        bytes: &[u8],
        emit: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> (usize, Result<(), E>) {
        self.block.blocks(bytes, emit)
    }

    /// The last block, shorter than the others unless `pad` fills it.
    pub(crate) fn finish(&mut self, pad: Option<u8>, sink: &mut Sink, monitor: &mut Monitor) -> Result<(), Halt> {
        let obs = self.obs();
        match self.last(pad) {
            Some(last) => write_record(last, obs, Wording::Last, sink, monitor),
            None => Ok(()),
        }
    }

    /// What the last block is, if there is one.
    pub(crate) fn last(&mut self, pad: Option<u8>) -> Option<&[u8]> {
        if self.block.is_empty() {
            return None;
        }
        if let Some(pad) = pad {
            self.block.pad(pad);
        }
        Some(self.block.held())
    }
}

/// GNU words a failed write in two ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wording {
    /// "writing to"
    Block,
    /// "error writing"
    Last,
}

/// One output record. What of it reached the file before an error or a signal is counted.
#[inline]
pub(crate) fn write_record(
    record: &[u8],
    obs: usize,
    wording: Wording,
    sink: &mut Sink,
    monitor: &mut Monitor,
) -> Result<(), Halt> {
    let hole = sink.pending_hole();
    let (written, outcome) = sink.write_block(record, monitor);
    match outcome {
        Ok(()) => {
            monitor.tally.written(written, obs);
            if sink.pending_hole() > hole && sink.holes() != Holes::Write {
                monitor.tally.sparse += 1;
            }
            Ok(())
        }
        Err(cut) => Err(broken(written, wording, cut, sink, monitor)),
    }
}

#[cold]
pub(crate) fn broken(written: usize, wording: Wording, cut: Cut, sink: &Sink, monitor: &mut Monitor) -> Halt {
    monitor.tally.broken(written);
    let name = sink.name().clone();
    match (cut, wording) {
        (Cut::Stopped, _) => Halt::Stopped,
        (Cut::Os(errno), Wording::Block) => Halt::Failed(Error::WriteBlock { name, errno }),
        (Cut::Os(errno), Wording::Last) => Halt::Failed(Error::Write { name, errno }),
    }
}
