//! Large copies with a reader thread, where io_uring is refused: pieces are read while the ones before are written.

use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use fdd_io::pipe::{SpscReader, SpscWriter, spsc};
use fdd_sys::retry::{Cut, Pause, Steady, retry};
use fdd_sys::thread::spawn_quiet;

use crate::copy::bulk::{Bulk, Files, PIECE, PIECES, Piece, Pieces};
use crate::copy::{Halt, Job, Outcome};
use crate::units::widen;

/// How long a wait for the reader may keep signals waiting.
const LOOK: Duration = Duration::from_millis(50);

pub(crate) fn run(job: &mut Job<'_>) -> Result<Outcome, Halt> {
    let Ok((space, filled)) = spsc(PIECE * PIECES) else { return Ok(Outcome::Declined) };
    let Some((bulk, Files { input, output })) = Bulk::begin(job) else { return Ok(Outcome::Declined) };
    for piece in (0..widen(PIECES)).map_while(|number| bulk.pieces.piece(number)) {
        bulk.before_reading(piece, job);
    }
    let pieces = bulk.pieces;
    // The reader ends when all is read or nobody takes any more. It is not waited for: a read that hangs must not hang us.
    if spawn_quiet("reader", move || read_all(&input, pieces, space)).is_err() {
        return Ok(Outcome::Declined);
    }
    let mut flow = Flow { bulk, output, filled };
    let stopped = flow.run(job).is_err();
    flow.bulk.conclude(job, stopped)
}

/// The reader's work: one piece after the other, until one is not whole. Owns what it touches, so that nobody has to wait
/// for its end.
fn read_all(input: &OwnedFd, pieces: Pieces, mut space: SpscWriter) {
    for piece in (0..).map_while(|number| pieces.piece(number)) {
        // The ring is made of whole pieces, so that none lies across its end. What there is too much of is filled later.
        let Ok(place) = space.reserve(piece.len) else { return };
        let mut got = 0;
        while got < piece.len {
            let rest = &mut place[got..piece.len];
            match retry(&mut Steady, || rustix::io::pread(input.as_fd(), &mut *rest, piece.input + widen(got))) {
                Ok(0) | Err(_) => return,
                Ok(read) => got += read,
            }
        }
        space.commit(piece.len);
    }
}

struct Flow {
    bulk: Bulk,
    /// `None` where pieces go through the sink.
    output: Option<OwnedFd>,
    filled: SpscReader,
}

impl Flow {
    /// Writes the pieces as they come, until the last, or until one is not whole.
    fn run(&mut self, job: &mut Job<'_>) -> Result<(), Cut> {
        let mut number = 0;
        while let Some(piece) = self.bulk.pieces.piece(number) {
            if !self.is_there(piece, job)? || !self.write(piece, job)? {
                return Ok(());
            }
            // Its place is free for the piece that comes one round later.
            if let Some(next) = self.bulk.pieces.piece(number + widen(PIECES)) {
                self.bulk.before_reading(next, job);
            }
            self.filled.release(piece.len);
            number += 1;
        }
        Ok(())
    }

    /// Waits until the piece has been read; false when the reader gave up.
    fn is_there(&mut self, piece: Piece, job: &mut Job<'_>) -> Result<bool, Cut> {
        loop {
            job.monitor.pause()?;
            match self.filled.filled_timeout(piece.len, LOOK) {
                Ok(bytes) => return Ok(bytes.len() >= piece.len),
                Err(error) if error.kind() == ErrorKind::TimedOut => {}
                Err(_) => return Ok(false),
            }
        }
    }

    /// The piece that is there; false when not all of it could be written.
    fn write(&mut self, piece: Piece, job: &mut Job<'_>) -> Result<bool, Cut> {
        if self.output.is_some() {
            self.bulk.before_writing(piece, job);
        }
        let Ok(bytes) = self.filled.try_filled(piece.len) else { return Ok(false) };
        let bytes = &bytes[..piece.len];
        let (written, outcome) = match &self.output {
            None => {
                let (written, _, outcome) = job.sink.write_blocks(bytes, job.monitor);
                (written, outcome)
            }
            // One that comes short cannot be known to end where the next may begin: the plain loop goes on from there.
            Some(output) => {
                let outcome = retry(job.monitor, || rustix::io::pwrite(output, bytes, piece.output));
                (*outcome.as_ref().unwrap_or(&0), outcome.map(drop))
            }
        };
        self.bulk.moved(written, job);
        match outcome {
            Ok(()) => Ok(written == piece.len),
            Err(Cut::Os(_)) => Ok(false),
            Err(Cut::Stopped) => Err(Cut::Stopped),
        }
    }
}

#[cfg(test)]
#[cfg(not(miri))] // Files and threads.
mod tests;
