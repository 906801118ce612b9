//! Where output records go: as they were read, or gathered to `obs`.

use fdd_io::filebuf::Buffer;
use fdd_sys::memory::Aligned;
use fdd_sys::retry::Cut;

use crate::copy::Halt;
use crate::error::Error;
use crate::monitor::Monitor;
use crate::output::Sink;
use crate::plan::Holes;

/// Output of a copy that gathers: one block, filled from the front.
pub(crate) struct Outlet<'b> {
    block: Buffer<&'b mut [u8]>,
    /// How much of it is held, for the next one to go on with.
    filled: &'b mut usize,
}

impl<'b> Outlet<'b> {
    /// `filled` bytes at the front of `block` are there already.
    #[inline]
    pub(crate) fn new(block: &'b mut Aligned, filled: &'b mut usize) -> Outlet<'b> {
        Outlet { block: Buffer::holding(block, *filled), filled }
    }

    /// Takes `bytes`; whole blocks go out. Where nothing is gathered yet they go straight from the caller's slice.
    #[inline]
    pub(crate) fn put(&mut self, bytes: &[u8], sink: &mut Sink, monitor: &mut Monitor) -> Result<(), Halt> {
        let obs = self.block.capacity();
        self.gather(bytes, |block| write_record(block, obs, Wording::Block, sink, monitor))
    }

    /// Takes `bytes`; `emit` gets each whole block. The copy ends with an error: what is held then is nobody's.
    #[inline]
    pub(crate) fn gather(&mut self, bytes: &[u8], emit: impl FnMut(&[u8]) -> Result<(), Halt>) -> Result<(), Halt> {
        let (_, result) = self.block.blocks(bytes, emit);
        *self.filled = self.block.len();
        result
    }

    /// The last block, shorter than the others unless `pad` fills it.
    pub(crate) fn finish(&mut self, pad: Option<u8>, sink: &mut Sink, monitor: &mut Monitor) -> Result<(), Halt> {
        let obs = self.block.capacity();
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
        self.block.consume(self.block.len());
        *self.filled = 0;
        Some(self.block.behind())
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
fn broken(written: usize, wording: Wording, cut: Cut, sink: &Sink, monitor: &mut Monitor) -> Halt {
    monitor.tally.broken(written);
    let name = sink.name().clone();
    match (cut, wording) {
        (Cut::Stopped, _) => Halt::Stopped,
        (Cut::Os(errno), Wording::Block) => Halt::Failed(Error::WriteBlock { name, errno }),
        (Cut::Os(errno), Wording::Last) => Halt::Failed(Error::Write { name, errno }),
    }
}
