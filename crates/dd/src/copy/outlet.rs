//! Where output records go: as they were read, or gathered to `obs`.

use fdd_sys::memory::Aligned;
use fdd_sys::retry::Cut;

use crate::conv::Run;
use crate::copy::Halt;
use crate::error::Error;
use crate::monitor::Monitor;
use crate::output::Sink;
use crate::plan::Holes;

/// Output of a copy that gathers: one block, filled from the front.
pub(crate) struct Outlet<'b> {
    block: &'b mut Aligned,
    filled: &'b mut usize,
}

impl<'b> Outlet<'b> {
    /// `filled` bytes at the front of `block` are there already.
    pub(crate) fn new(block: &'b mut Aligned, filled: &'b mut usize) -> Outlet<'b> {
        Outlet { block, filled }
    }

    /// Takes `bytes`; whole blocks go out. Where nothing is gathered yet they go straight from the caller's slice.
    #[inline]
    pub(crate) fn put(&mut self, bytes: &[u8], sink: &mut Sink, monitor: &mut Monitor) -> Result<(), Halt> {
        let obs = self.block.len();
        self.gather(bytes, |block| write_record(block, obs, Wording::Block, sink, monitor))
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

    /// Takes `bytes`; `emit` gets each whole block.
    #[inline]
    pub(crate) fn gather(
        &mut self,
        mut bytes: &[u8],
        mut emit: impl FnMut(&[u8]) -> Result<(), Halt>,
    ) -> Result<(), Halt> {
        let obs = self.block.len();
        while !bytes.is_empty() {
            if *self.filled == 0 && bytes.len() >= obs {
                let (whole, rest) = bytes.split_at(obs);
                emit(whole)?;
                bytes = rest;
                continue;
            }
            let take = bytes.len().min(obs - *self.filled);
            self.block[*self.filled..*self.filled + take].copy_from_slice(&bytes[..take]);
            *self.filled += take;
            bytes = &bytes[take..];
            if *self.filled == obs {
                *self.filled = 0;
                emit(self.block)?;
            }
        }
        Ok(())
    }

    /// The last block, shorter than the others unless `pad` fills it.
    pub(crate) fn finish(&mut self, pad: Option<u8>, sink: &mut Sink, monitor: &mut Monitor) -> Result<(), Halt> {
        let obs = self.block.len();
        match self.last(pad) {
            Some(last) => write_record(last, obs, Wording::Last, sink, monitor),
            None => Ok(()),
        }
    }

    /// What the last block is, if there is one.
    pub(crate) fn last(&mut self, pad: Option<u8>) -> Option<&[u8]> {
        let filled = std::mem::take(self.filled);
        if filled == 0 {
            return None;
        }
        let len = match pad {
            Some(pad) => {
                self.block[filled..].fill(pad);
                self.block.len()
            }
            None => filled,
        };
        Some(&self.block[..len])
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
