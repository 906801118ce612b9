//! Large copies with a reader thread, where io_uring is refused: one piece is read while the one before is written.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use fdd_sys::memory::Aligned;
use fdd_sys::retry::{Cut, Pause, Steady, retry};
use fdd_sys::thread::spawn_quiet;

use crate::copy::bulk::{Bulk, Files, PIECE, PIECES, Piece};
use crate::copy::{Halt, Job, Outcome};
use crate::units::widen;

/// How long a wait for the reader may keep signals waiting.
const LOOK: Duration = Duration::from_millis(50);

/// A buffer on its way to the reader, with what is wanted in it, or back with what came.
struct Cargo {
    buffer: Aligned,
    piece: Piece,
    got: usize,
}

pub(crate) fn run(job: &mut Job<'_>) -> Result<Outcome, Halt> {
    let Ok(buffers) = (0..PIECES).map(|_| Aligned::new(PIECE)).collect::<Result<Vec<_>, _>>() else {
        return Ok(Outcome::Declined);
    };
    let Some((bulk, Files { input, output })) = Bulk::begin(job) else { return Ok(Outcome::Declined) };
    // Neither side ever waits for room: there are no more buffers than places.
    let (orders, ordered) = sync_channel(PIECES);
    let (full, filled) = sync_channel(PIECES);
    if spawn_quiet("reader", move || read_all(&input, &ordered, &full)).is_err() {
        return Ok(Outcome::Declined);
    }
    let mut flow = Flow { bulk, output, orders, filled, reading: 0 };
    for buffer in buffers {
        buffer.advise_huge();
        flow.order(buffer, job);
    }
    // The reader ends when nobody orders any more. It is not waited for: a read that hangs must not hang us.
    let stopped = flow.run(job).is_err();
    flow.bulk.conclude(job, stopped)
}

/// The reader's work: fills what is ordered, in order. Owns what it touches, so that nobody has to wait for its end.
fn read_all(input: &OwnedFd, ordered: &Receiver<Cargo>, full: &SyncSender<Cargo>) {
    for mut cargo in ordered {
        let Cargo { buffer, piece, got } = &mut cargo;
        while *got < piece.len {
            let rest = &mut buffer[*got..piece.len];
            match retry(&mut Steady, || rustix::io::pread(input.as_fd(), &mut *rest, piece.input + widen(*got))) {
                Ok(0) | Err(_) => break,
                Ok(read) => *got += read,
            }
        }
        if full.send(cargo).is_err() {
            return;
        }
    }
}

struct Flow {
    bulk: Bulk,
    /// `None` where pieces go through the sink.
    output: Option<OwnedFd>,
    orders: SyncSender<Cargo>,
    filled: Receiver<Cargo>,
    /// The next piece to be ordered.
    reading: u64,
}

impl Flow {
    /// Has the reader fill `buffer` with the next piece, if there is one.
    fn order(&mut self, buffer: Aligned, job: &mut Job<'_>) {
        let Some(piece) = self.bulk.piece(self.reading) else { return };
        self.bulk.before_reading(piece, job);
        match self.orders.try_send(Cargo { buffer, piece, got: 0 }) {
            Ok(()) => self.reading += 1,
            // The reader is gone; the wait for it will tell.
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
        }
    }

    /// Writes the pieces as they come, until the last, or until one is not whole.
    fn run(&mut self, job: &mut Job<'_>) -> Result<(), Cut> {
        let mut writing = 0;
        while writing < self.reading {
            let Some(Cargo { buffer, piece, got }) = self.next(job)? else { return Ok(()) };
            if got < piece.len || !self.write(&buffer[..piece.len], piece, job)? {
                return Ok(());
            }
            writing += 1;
            self.order(buffer, job);
        }
        Ok(())
    }

    /// The next piece that was read; `None` when the reader is gone.
    fn next(&mut self, job: &mut Job<'_>) -> Result<Option<Cargo>, Cut> {
        loop {
            job.monitor.pause()?;
            match self.filled.recv_timeout(LOOK) {
                Ok(cargo) => return Ok(Some(cargo)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
            }
        }
    }

    /// One piece; false when not all of it could be written.
    fn write(&mut self, bytes: &[u8], piece: Piece, job: &mut Job<'_>) -> Result<bool, Cut> {
        let Some(output) = &self.output else {
            let (written, _, outcome) = job.sink.write_blocks(bytes, job.monitor);
            self.bulk.moved(written, job);
            return match outcome {
                Ok(()) => Ok(true),
                Err(Cut::Os(_)) => Ok(false),
                Err(Cut::Stopped) => Err(Cut::Stopped),
            };
        };
        self.bulk.before_writing(piece, job);
        // A direct write that came short cannot be known to end where the next may begin: the plain loop goes on from there.
        let outcome = retry(job.monitor, || rustix::io::pwrite(output, bytes, piece.output));
        let written = match outcome {
            Ok(written) => written,
            Err(Cut::Os(_)) => 0,
            Err(Cut::Stopped) => return Err(Cut::Stopped),
        };
        self.bulk.moved(written, job);
        Ok(written == bytes.len())
    }
}
