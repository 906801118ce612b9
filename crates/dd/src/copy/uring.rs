//! Large copies through io_uring: reads run ahead in a buffer of huge pages while writes follow in order.
//!
//! One thread and one ring. Where the kernel or a container refuses io_uring the reader thread does the same, less deep.

use fdd_sys::retry::{Cut, Steady, retry};
use fdd_sys::thread::spawn_quiet;
use fdd_sys::uring::{Done, File, Ring};

use crate::copy::bulk::{self, Bulk, PIECE, PIECES, Piece};
use crate::copy::{Halt, Job, Outcome};
use crate::units::widen;

/// A piece is read in so many requests, so that the device always has some waiting.
const READS: usize = 2;
const PART: usize = PIECE / READS;
/// Tags of writes; those of reads are the piece's number.
const WRITE: u64 = 1 << 63;

/// Not from the cache into a file that becomes longer: one thread would copy and write in turns there, and the reader thread
/// of `overlap` takes two thirds of the time.
pub(crate) fn worthwhile(job: &Job<'_>) -> bool {
    bulk::worthwhile(job) && !bulk::extends_from_cache(job)
}

pub(crate) fn run(job: &mut Job<'_>) -> Result<Outcome, Halt> {
    const DEPTH: u16 = 16;
    const { assert!(PIECES * (READS + 1) <= 16, "a place for each request") };
    // The ring first: where it is refused nothing else has been touched.
    let Ok(mut ring) = Ring::new(DEPTH, PIECE * PIECES) else { return Ok(Outcome::Declined) };
    let Some((bulk, files)) = Bulk::begin(job) else { return Ok(Outcome::Declined) };
    let input = ring.take(files.input);
    let output = files.output.map(|fd| ring.take(fd));
    let mut flow = Flow {
        ring,
        bulk,
        input,
        output,
        states: [State::Free; PIECES],
        reading: 0,
        writing: 0,
        done: 0,
        until: u64::MAX,
        part: None,
    };
    let stopped = flow.run(job);
    let Flow { ring, bulk, .. } = flow;
    if stopped {
        // A slow device may take its time over reads that nobody wants any more.
        let _ = spawn_quiet("ring", move || drop(ring));
    } else {
        drop(ring);
    }
    bulk.conclude(job, stopped)
}

/// Where a piece of the buffer is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    /// So many bytes are still to come.
    Reading(usize),
    Read,
    Writing,
    Written,
}

struct Flow {
    ring: Ring,
    bulk: Bulk,
    input: File,
    /// `None` where pieces go through the sink.
    output: Option<File>,
    /// Piece number n is in place n modulo their number.
    states: [State; PIECES],
    /// The next piece to be read, to be written, and to be counted as done.
    reading: u64,
    writing: u64,
    done: u64,
    /// The first piece that something went wrong with: no later one is begun.
    until: u64,
    /// What is in the output of that one.
    part: Option<(u64, usize)>,
}

impl Flow {
    /// Until nothing is in flight; tells whether a signal wants the end.
    fn run(&mut self, job: &mut Job<'_>) -> bool {
        let mut stopped = false;
        loop {
            if !stopped {
                // A write first: reads of what is cached are copies that the kernel makes before it looks at the next request.
                stopped = self.write_on(job).is_err();
                if !stopped {
                    self.read_ahead(job);
                }
            }
            if self.ring.in_flight() == 0 || (stopped && !self.states.contains(&State::Writing)) {
                break;
            }
            // After a stop only writes are waited for: their bytes are in the file and have to be counted.
            let waited = match stopped {
                false => retry(job.monitor, || self.ring.wait()),
                true => retry(&mut Steady, || self.ring.wait()),
            };
            match waited {
                Ok(done) => self.ended(done, job),
                Err(Cut::Stopped) => stopped = true,
                // The ring itself is broken.
                Err(Cut::Os(_)) => break,
            }
        }
        if let Some((_, len)) = self.part.filter(|&(number, _)| number == self.done) {
            self.bulk.moved(len, job);
        }
        stopped
    }

    /// Starts to read into every free place.
    fn read_ahead(&mut self, job: &mut Job<'_>) {
        while self.reading < self.until && *self.state(self.reading) == State::Free {
            let Some(piece) = self.bulk.pieces.piece(self.reading) else { return };
            self.bulk.before_reading(piece, job);
            let begin = place(self.reading);
            let mut asked = 0;
            while asked < piece.len {
                let len = PART.min(piece.len - asked);
                let part = begin + asked..begin + asked + len;
                // The tag tells the piece and how much was asked for.
                let tag = self.reading * widen(PIECE) + widen(len - 1);
                if self.ring.read(self.input, piece.input + widen(asked), part, tag).is_err() {
                    self.until = self.until.min(self.reading);
                    break;
                }
                asked += len;
            }
            *self.state(self.reading) = State::Reading(piece.len);
            self.reading += 1;
        }
    }

    /// Starts to write, in order, what has been read; through the sink it is written at once.
    fn write_on(&mut self, job: &mut Job<'_>) -> Result<(), Cut> {
        while self.writing < self.until && *self.state(self.writing) == State::Read {
            let Some(piece) = self.bulk.pieces.piece(self.writing) else { return Ok(()) };
            match self.output {
                Some(file) if self.writing - self.done < widen(self.bulk.writes) => {
                    self.bulk.before_writing(piece, job);
                    let part = place(self.writing)..place(self.writing) + piece.len;
                    if self.ring.write(file, piece.output, part, WRITE | self.writing).is_err() {
                        self.until = self.until.min(self.writing);
                        return Ok(());
                    }
                    *self.state(self.writing) = State::Writing;
                    self.writing += 1;
                }
                Some(_) => return Ok(()),
                None => self.pass_through(piece, job)?,
            }
        }
        Ok(())
    }

    fn pass_through(&mut self, piece: Piece, job: &mut Job<'_>) -> Result<(), Cut> {
        let number = self.writing;
        let part = place(number)..place(number) + piece.len;
        let bytes = self.ring.bytes(part).expect("a piece that has been read is not in flight");
        let (written, _, outcome) = job.sink.write_blocks(bytes, job.monitor);
        self.bulk.moved(written, job);
        match outcome {
            Ok(()) => {
                *self.state(number) = State::Free;
                self.writing += 1;
                self.done += 1;
                // More can be read before the next write keeps this thread busy.
                self.read_ahead(job);
                Ok(())
            }
            Err(Cut::Stopped) => Err(Cut::Stopped),
            Err(Cut::Os(_)) => {
                self.until = self.until.min(number);
                Ok(())
            }
        }
    }

    fn ended(&mut self, ended: Done, job: &mut Job<'_>) {
        let moved = ended.result.unwrap_or(0);
        if ended.tag & WRITE != 0 {
            return self.written(ended.tag & !WRITE, moved, job);
        }
        let number = ended.tag / widen(PIECE);
        let asked = usize::try_from(ended.tag % widen(PIECE)).expect("less than a piece") + 1;
        if moved < asked {
            self.until = self.until.min(number);
        }
        let state = self.state(number);
        if let State::Reading(left) = *state {
            *state = if left > asked { State::Reading(left - asked) } else { State::Read };
        }
    }

    fn written(&mut self, number: u64, moved: usize, job: &mut Job<'_>) {
        let whole = self.bulk.pieces.piece(number).is_some_and(|piece| piece.len == moved);
        if !whole {
            self.until = self.until.min(number);
            if self.part.is_none_or(|(first, _)| number < first) {
                self.part = Some((number, moved));
            }
            return;
        }
        *self.state(number) = State::Written;
        while *self.state(self.done) == State::Written {
            *self.state(self.done) = State::Free;
            let len = self.bulk.pieces.piece(self.done).map_or(0, |piece| piece.len);
            self.bulk.moved(len, job);
            self.done += 1;
        }
    }

    fn state(&mut self, number: u64) -> &mut State {
        let index = usize::try_from(number % widen(PIECES)).expect("less than their number");
        &mut self.states[index]
    }
}

/// Where in the buffer a piece lies.
fn place(number: u64) -> usize {
    usize::try_from(number % widen(PIECES)).expect("less than their number") * PIECE
}

#[cfg(test)]
#[cfg(not(miri))] // Files and rings.
mod tests;
