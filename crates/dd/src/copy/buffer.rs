//! `buffer=`: memory between a reader and a writer that run side by side, so that neither waits for the other's bad moments.
//!
//! The calling thread stays the reader: it takes in records as the plain loop does and is the one that signals interrupt. A
//! second thread has the sink. Between them is a ring of frames. A frame is a record as the plain loop would have handed it to
//! `write_record`, behind a header with its length and with where the input stood; so records, counts and the offset that is
//! left on the input are those of the plain loop, wherever the writer ends. A record larger than the ring passes through it in
//! pieces and is put together in the writer's own block.
//!
//! Marks count the ring's bytes, headers included.

use std::io::{self, Read as _};
use std::num::NonZeroI32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use fdd_io::pipe::{SpscReader, SpscWriter, spsc};
use fdd_sys::memory::Aligned;
use fdd_sys::retry::{Cut, Pause};
use fdd_sys::{signal, thread as threads};
use rustix::thread::{Pid, gettid};

use crate::conv::{Converter, Run};
use crate::copy::intake::{Intake, Step};
use crate::copy::outlet::{Outlet, Wording};
use crate::copy::{Ending, Halt, Job, Outcome, sizes};
use crate::error::Error;
use crate::input::Source;
use crate::monitor::Monitor;
use crate::output::Sink;
use crate::plan::{Blocks, Buffering, Holes, Plan};
use crate::tally::{Afar, Records};
use crate::units::widen;

/// How long a wait for the other thread lasts before signals are looked at.
const LOOK: Duration = Duration::from_millis(25);
/// A nudge that came just before the call it was to cut short is repeated after so long.
const AGAIN: Duration = Duration::from_millis(5);

/// The ring, and the block in which the writer puts a record together.
#[derive(Debug)]
pub(crate) struct Between {
    ring: (SpscWriter, SpscReader),
    block: Aligned,
}

impl Between {
    /// # Errors
    /// The memory cannot be had.
    pub(crate) fn new(buffering: Buffering, obs: usize) -> Result<Between, Error> {
        let none = |len| Error::Memory { end: "intermediate", len };
        let bytes = usize::try_from(buffering.bytes).map_err(|_| none(buffering.bytes))?;
        let ring = spsc(bytes).map_err(|_| none(buffering.bytes))?;
        let block = Aligned::new(obs).map_err(|_| none(widen(obs)))?;
        Ok(Between { ring, block })
    }
}

pub(crate) fn allowed(job: &Job<'_>) -> bool {
    job.plan.buffer.is_some() && job.buffers.between.is_some() && job.buffers.gathered() == 0
}

/// Where the copy stood when a record went out: the place in the input behind all that went into it, and its counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    position: Option<u64>,
    read: Records,
    truncated: u64,
}

impl Place {
    fn of(source: &Source, monitor: &Monitor) -> Place {
        let tally = &monitor.tally;
        Place { position: source.position(), read: tally.read, truncated: tally.truncated }
    }
}

/// What stands before a record in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    len: usize,
    wording: Wording,
    place: Place,
}

const HEADER: usize = 48;
/// No offset is that large.
const NOWHERE: u64 = u64::MAX;

impl Header {
    fn bytes(self) -> [u8; HEADER] {
        let Place { position, read, truncated } = self.place;
        let words = [
            widen(self.len),
            u64::from(self.wording == Wording::Last),
            position.unwrap_or(NOWHERE),
            read.full,
            read.partial,
            truncated,
        ];
        let mut bytes = [0; HEADER];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    fn of(bytes: [u8; HEADER]) -> Header {
        let word = |at: usize| bytes[at * 8..].first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
        Header {
            len: usize::try_from(word(0)).unwrap_or(usize::MAX),
            wording: if word(1) == 0 { Wording::Block } else { Wording::Last },
            place: Place {
                position: Some(word(2)).filter(|&position| position != NOWHERE),
                read: Records { full: word(3), partial: word(4) },
                truncated: word(5),
            },
        }
    }
}

/// What both threads see beside the ring.
struct Shared {
    afar: Arc<Afar>,
    /// The writer is to write no more.
    stop: AtomicBool,
    /// The writer's thread, 0 before it runs.
    writer: AtomicI32,
    /// The reader's thread, where it may be nudged.
    reader: Option<Pid>,
}

impl Shared {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    fn nudge_writer(&self) {
        if self.reader.is_some()
            && let Some(writer) =
                NonZeroI32::new(self.writer.load(Ordering::SeqCst)).and_then(|id| Pid::from_raw(id.get()))
        {
            signal::nudge(writer);
        }
    }
}

pub(crate) fn run(job: &mut Job<'_>) -> Result<Outcome, Halt> {
    let Job { plan, source, sink, monitor, buffers, converter, .. } = job;
    let (Some(Between { ring: (writer_end, reader_end), mut block }), Some(buffering)) =
        (buffers.between.take(), plan.buffer)
    else {
        return Ok(Outcome::Declined);
    };
    let (_, obs) = sizes(plan);
    let afar = Arc::new(Afar::at(monitor.tally));
    let shared = Shared {
        afar: Arc::clone(&afar),
        stop: AtomicBool::new(false),
        writer: AtomicI32::new(0),
        reader: (monitor.owns_signals() && signal::catch_nudges()).then(gettid),
    };
    let begin = share(writer_end.capacity(), buffering.start);
    let before = Place::of(source, monitor);
    let (alive, ended) = channel();
    let parted = thread::scope(|scope| {
        let work = || Writer { ring: reader_end, sink, block: &mut block, obs, begin, shared: &shared }.run(alive);
        let Ok(writer) = threads::spawn_writing(scope, "writer", work) else { return None };
        monitor.afar = Some(Arc::clone(&afar));
        let keep = share(writer_end.capacity(), buffering.stop);
        let mut feed = Feed { ring: writer_end, keep, sent: 0, shared: &shared };
        let read = match plan.blocks {
            Blocks::AsRead { .. } => as_read(plan, source, monitor, &mut buffers.input, &mut feed),
            Blocks::Reblock { .. } => {
                let outlet = buffers.output.as_mut().expect("a plan that gathers has an output buffer");
                reblocked(plan, source, monitor, &mut buffers.input, outlet, converter.as_mut(), &mut feed)
            }
        };
        let sent = feed.sent;
        let mut stopping = matches!(read, Err(Halt::Stopped));
        if stopping {
            shared.stop.store(true, Ordering::SeqCst);
        }
        // The end of the stream.
        drop(feed);
        loop {
            if stopping {
                shared.stop.store(true, Ordering::SeqCst);
                shared.nudge_writer();
                writer.thread().unpark();
            }
            match ended.recv_timeout(if stopping { AGAIN } else { LOOK }) {
                Err(RecvTimeoutError::Timeout) => stopping |= monitor.pause().is_err(),
                Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let written = writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Some((read, written, sent, stopping))
    });
    let Some((read, written, sent, stopping)) = parted else { return Ok(Outcome::Declined) };
    monitor.catch_up();
    monitor.afar = None;
    monitor.suffix.clear();
    let reached = written.reached.unwrap_or(before);
    match written.cut {
        Some((Cut::Os(errno), wording)) => {
            put_back(source, monitor, reached);
            let name = sink.name().clone();
            Err(Halt::Failed(match wording {
                Wording::Block => Error::WriteBlock { name, errno },
                Wording::Last => Error::Write { name, errno },
            }))
        }
        // Stopped, or the ring's memory gave a record that cannot be: nothing behind this one was written.
        _ if stopping || written.taken < sent => {
            if written.taken < sent {
                put_back(source, monitor, reached);
            }
            Err(Halt::Stopped)
        }
        _ => read.map(Outcome::Done),
    }
}

/// So many percent of `capacity`.
fn share(capacity: usize, percent: u8) -> usize {
    usize::try_from(u128::from(widen(capacity)) * u128::from(percent) / 100).unwrap_or(capacity)
}

/// The input stands where it would had nobody read ahead. What came from a pipe cannot go back; it stays counted as read.
fn put_back(source: &mut Source, monitor: &mut Monitor, place: Place) {
    let Some(position) = place.position.filter(|_| source.facts.is_storage()) else { return };
    if source.position() == Some(position) || source.go_to(position).is_ok() {
        source.at_end = false;
        monitor.tally.read = place.read;
        monitor.tally.truncated = place.truncated;
    }
}

fn as_read(
    plan: &Plan,
    source: &mut Source,
    monitor: &mut Monitor,
    input: &mut Aligned,
    feed: &mut Feed<'_>,
) -> Result<Ending, Halt> {
    let mut intake = Intake::new(plan);
    loop {
        match intake.next(input, source, monitor)? {
            Step::Record(len) => {
                let place = Place::of(source, monitor);
                feed.send(&input[..len], Wording::Last, place, monitor)?;
            }
            Step::Again => {}
            Step::End => return Ok(intake.ending),
        }
        if let Some(speed) = plan.speed {
            monitor.pace(intake.bytes, speed).map_err(|_| Halt::Stopped)?;
        }
    }
}

fn reblocked(
    plan: &Plan,
    source: &mut Source,
    monitor: &mut Monitor,
    input: &mut Aligned,
    outlet: &mut Outlet,
    mut converter: Option<&mut Converter>,
    feed: &mut Feed<'_>,
) -> Result<Ending, Halt> {
    let mut intake = Intake::new(plan);
    loop {
        match intake.next(input, source, monitor)? {
            Step::Record(len) => {
                let place = Place::of(source, monitor);
                let record = &mut input[..len];
                match &mut converter {
                    None => outlet.gather(record, |block| feed.send(block, Wording::Block, place, monitor)).1?,
                    Some(converter) => {
                        converter.feed(record, &mut |run| converted(run, outlet, place, feed, monitor))?;
                    }
                }
            }
            Step::Again => {}
            Step::End => break,
        }
        if let Some(speed) = plan.speed {
            monitor.pace(intake.bytes, speed).map_err(|_| Halt::Stopped)?;
        }
    }
    let place = Place::of(source, monitor);
    if let Some(converter) = converter {
        converter.finish(&mut |run| converted(run, outlet, place, feed, monitor))?;
    }
    if let Some(last) = outlet.last(plan.output.pad_last) {
        feed.send(last, Wording::Last, Place::of(source, monitor), monitor)?;
    }
    Ok(intake.ending)
}

/// What a conversion hands on: each block goes with the truncated records that were found before it was whole.
fn converted(
    run: Run<'_>,
    outlet: &mut Outlet,
    place: Place,
    feed: &mut Feed<'_>,
    monitor: &mut Monitor,
) -> Result<(), Halt> {
    for (bytes, truncated) in run.pieces() {
        let place = Place { truncated: monitor.tally.truncated, ..place };
        outlet.gather(bytes, |block| feed.send(block, Wording::Block, place, monitor)).1?;
        monitor.tally.truncated += u64::from(truncated);
    }
    Ok(())
}

/// The reader's end.
struct Feed<'a> {
    ring: SpscWriter,
    /// Once the ring was full it may hold so much when the reader goes on.
    keep: usize,
    /// Records that were handed over, the one under way included.
    sent: u64,
    shared: &'a Shared,
}

impl Feed<'_> {
    fn send(&mut self, record: &[u8], wording: Wording, place: Place, monitor: &mut Monitor) -> Result<(), Halt> {
        self.sent += 1;
        self.put(&Header { len: record.len(), wording, place }.bytes(), monitor)?;
        self.put(record, monitor)?;
        self.shared.afar.fill(self.ring.level(), self.ring.capacity());
        Ok(())
    }

    fn put(&mut self, mut bytes: &[u8], monitor: &mut Monitor) -> Result<(), Halt> {
        while !bytes.is_empty() {
            match self.ring.try_write(bytes) {
                Ok(done) => bytes = &bytes[done..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait(monitor)?,
                Err(_) => return Err(Halt::Stopped),
            }
        }
        Ok(())
    }

    /// The ring is full.
    #[cold]
    fn wait(&mut self, monitor: &mut Monitor) -> Result<(), Halt> {
        self.shared.afar.fill(self.ring.level(), self.ring.capacity());
        let least = (self.ring.capacity() - self.keep).max(1);
        loop {
            monitor.pause().map_err(|_| Halt::Stopped)?;
            match self.ring.reserve_timeout(least, LOOK) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
                // The writer is gone.
                Err(_) => return Err(Halt::Stopped),
            }
        }
    }
}

/// How the writer ended.
struct Written {
    /// The place of the last record that it took.
    reached: Option<Place>,
    /// Records that it took, the one that failed included.
    taken: u64,
    cut: Option<(Cut, Wording)>,
}

/// The other end, in its own thread.
struct Writer<'a> {
    ring: SpscReader,
    sink: &'a mut Sink,
    block: &'a mut Aligned,
    obs: usize,
    /// Writing begins when the ring holds so much, and again whenever it has run empty.
    begin: usize,
    shared: &'a Shared,
}

impl Writer<'_> {
    /// Writes until the stream ends. `_alive` is dropped at the very end.
    fn run(mut self, _alive: Sender<()>) -> Written {
        self.shared.writer.store(gettid().as_raw_nonzero().get(), Ordering::SeqCst);
        let mut written = Written { reached: None, taken: 0, cut: None };
        let mut waiting = true;
        while let Some(header) = self.next(waiting) {
            waiting = false;
            written.reached = Some(header.place);
            written.taken += 1;
            if let Err(cut) = self.write(header.len) {
                written.cut = Some((cut, header.wording));
                break;
            }
        }
        if let Some((Cut::Os(_), _)) = written.cut {
            self.call_off();
        }
        written
    }

    /// Takes the next record into the block; `None` at the end of the stream, or when nothing more is to be written.
    fn next(&mut self, waiting: bool) -> Option<Header> {
        if waiting || self.ring.level() == 0 {
            // What is there when the reader has ended is written whatever the mark.
            let _ = self.ring.filled(self.begin);
        }
        let mut bytes = [0; HEADER];
        self.ring.read_exact(&mut bytes).ok()?;
        let header = Header::of(bytes);
        let record = self.block.get_mut(..header.len)?;
        self.ring.read_exact(record).ok()?;
        self.shared.afar.fill(self.ring.level(), self.ring.capacity());
        (!self.shared.stopped()).then_some(header)
    }

    fn write(&mut self, len: usize) -> Result<(), Cut> {
        let hole = self.sink.pending_hole();
        let (written, outcome) = self.sink.write_block(&self.block[..len], &mut UntilStopped(self.shared));
        let skipped = self.sink.pending_hole() > hole && self.sink.holes() != Holes::Write;
        let obs = self.obs;
        self.shared.afar.count(|tally| match outcome {
            Ok(()) => {
                tally.written(written, obs);
                tally.sparse += u64::from(skipped);
            }
            Err(_) => tally.broken(written),
        });
        outcome
    }

    /// The reader may be blocked in a read that has become pointless: it is told, until it has heard.
    #[cold]
    fn call_off(self) {
        let Writer { ring, shared, .. } = self;
        shared.afar.fail();
        drop(ring);
        let Some(reader) = shared.reader else { return };
        while !shared.stopped() {
            signal::nudge(reader);
            thread::park_timeout(AGAIN);
        }
    }
}

/// The writer's pause: signals are the reader's, which passes a stop on.
struct UntilStopped<'a>(&'a Shared);

impl Pause for UntilStopped<'_> {
    #[inline]
    fn pause(&mut self) -> Result<(), Cut> {
        if self.0.stopped() { Err(Cut::Stopped) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_out_as_it_went_in() {
        for (position, wording) in [(None, Wording::Block), (Some(0), Wording::Last), (Some(1 << 40), Wording::Block)] {
            let place = Place { position, read: Records { full: 7, partial: u64::MAX }, truncated: 3 };
            let header = Header { len: 12345, wording, place };
            assert_eq!(Header::of(header.bytes()), header);
        }
    }

    #[test]
    fn a_share_is_of_the_whole_and_never_overflows() {
        assert_eq!((share(4096, 0), share(4096, 50), share(4096, 100)), (0, 2048, 4096));
        assert_eq!(share(usize::MAX, 100), usize::MAX);
    }
}
