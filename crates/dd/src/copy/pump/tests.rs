//! The loop over whole records: what a call says that does not move its whole record or block.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use fdd_sys::locale::Locale;
use rustix::fs::SeekFrom;

use super::*;
use crate::copy::{Choice, Ending, run};
use crate::input::Source;
use crate::kernel::Kernel as _;
use crate::output::Sink;
use crate::tally::{Records, Tally};
use crate::testing::{Medium, pattern, plan, with_job};

/// As they are read; gathered; divided; gathered where the last block of a record is never whole; and where blocks are
/// records, but are gathered once one came short.
const SIZES: [&str; 5] = ["bs=100", "ibs=100 obs=300", "ibs=300 obs=100", "ibs=300 obs=140", "ibs=100 obs=100"];
const LEN: usize = 8400;

struct Copied {
    outcome: Result<Ending, Halt>,
    tally: Tally,
    bytes: Vec<u8>,
    writes: usize,
}

fn copy(operands: &str, kernel: Medium) -> Copied {
    let dir = tempfile::tempdir().expect("a directory");
    let (from, to) = (dir.path().join("in"), dir.path().join("out"));
    std::fs::write(&from, pattern(LEN)).expect("written");
    let plan = plan(&format!("if={} of={} {operands}", from.display(), to.display()));
    let mut monitor = Monitor::embedded("dd".to_owned(), Locale::default());
    let kernel = Arc::new(kernel);
    let never = || unreachable!("it is named");
    let mut source = Source::open(Arc::<Medium>::clone(&kernel), &plan.input, never, &mut monitor).expect("opened");
    let mut buffers = Buffers::for_plan(&plan).expect("memory");
    let mut sink = Sink::open(Arc::<Medium>::clone(&kernel), &plan.output, never, &mut monitor).expect("opened");
    let mut job = Job::new(&plan, &mut source, &mut sink, &mut monitor, &mut buffers);
    let (outcome, _) = run(&mut job, &Choice { forced: Some("pump".to_owned()) });
    let tally = monitor.tally;
    for (end, known) in [(source.fd(), source.position()), (sink.fd(), sink.position())] {
        assert_eq!(known, kernel.seek(end, SeekFrom::Current(0)).ok(), "{operands}: where an end stands");
    }
    Copied {
        outcome,
        tally,
        bytes: std::fs::read(&to).expect("the output"),
        writes: kernel.writes.load(Ordering::Relaxed) as usize,
    }
}

fn obs(operands: &str) -> usize {
    let size = operands.rsplit('=').next().expect("a size");
    size.parse().expect("a number")
}

/// What a write number `at` says, the first of all being 0; the others take everything.
fn writes(at: usize, says: Result<usize, Errno>) -> Medium {
    let write = move |number, _| if number == at { says } else { Ok(usize::MAX) };
    Medium { write: Some(Box::new(write)), ..Medium::default() }
}

/// A file system may tell only once that it has lost data: a second call would succeed.
#[test]
fn a_write_that_failed_is_not_made_again() {
    for operands in SIZES {
        for (says, errno) in [(Err(Errno::IO), Errno::IO), (Err(Errno::DQUOT), Errno::DQUOT), (Ok(0), Errno::NOSPC)] {
            for at in [0, 2, 5] {
                let copied = copy(operands, writes(at, says));
                let told = match copied.outcome {
                    Err(Halt::Failed(Error::WriteBlock { errno, .. } | Error::Write { errno, .. })) => errno,
                    other => panic!("{operands}: {other:?}"),
                };
                assert_eq!((told, copied.writes), (errno, at + 1), "{operands}, write {at}");
                assert!(copied.bytes == pattern(at * obs(operands)), "{operands}, write {at}");
                assert_eq!(copied.tally.written, Records { full: at as u64, partial: 0 }, "{operands}, write {at}");
            }
        }
    }
}

#[test]
fn a_write_that_was_interrupted_or_refused_for_now_is_made_again() {
    for operands in SIZES {
        let plain = copy(operands, Medium::default());
        for says in [Err(Errno::INTR), Err(Errno::AGAIN)] {
            for at in [0, 2, 5] {
                let copied = copy(operands, writes(at, says));
                assert!(copied.outcome.is_ok(), "{operands}: {:?}", copied.outcome);
                assert!(copied.bytes == pattern(LEN), "{operands}");
                assert_eq!((copied.tally, copied.writes), (plain.tally, plain.writes + 1), "{operands}");
            }
        }
    }
}

#[test]
fn a_write_that_came_short_is_completed_and_its_block_counted_as_whole() {
    for operands in SIZES {
        let plain = copy(operands, Medium::default());
        for every in [1, 2, 3] {
            // 60 bytes of some, so that what is missing is less than another such piece.
            let write = move |number: usize, _| Ok(if number.is_multiple_of(every) { 60 } else { usize::MAX });
            let copied = copy(operands, Medium { write: Some(Box::new(write)), ..Medium::default() });
            assert!(copied.outcome.is_ok(), "{operands}: {:?}", copied.outcome);
            assert!(copied.bytes == pattern(LEN), "{operands}");
            assert_eq!(copied.tally, plain.tally, "{operands}");
        }
    }
}

#[test]
fn a_short_read_and_what_follows_it_are_counted_as_they_came() {
    for operands in SIZES {
        let reads = [Ok(usize::MAX), Ok(30), Ok(usize::MAX), Ok(usize::MAX), Err(Errno::INTR), Ok(1)];
        let copied = copy(operands, Medium { reads: Mutex::new(reads.into()), ..Medium::default() });
        assert!(copied.outcome.is_ok(), "{operands}: {:?}", copied.outcome);
        assert!(copied.bytes == pattern(LEN), "{operands}");
        let ibs = if operands.contains("ibs=300") { 300 } else { 100 };
        let rest = LEN - 31;
        let (full, partial) = ((rest / ibs) as u64, 2 + u64::from(!rest.is_multiple_of(ibs)));
        assert_eq!(copied.tally.read, Records { full, partial }, "{operands}");
        if operands == "bs=100" {
            assert_eq!(copied.tally.written, copied.tally.read);
        } else {
            let obs = obs(operands);
            let written = Records { full: (LEN / obs) as u64, partial: u64::from(!LEN.is_multiple_of(obs)) };
            assert_eq!(copied.tally.written, written, "{operands}");
        }
    }
}

/// An input that fails a hundred times in a row, with nothing read between, is taken to be gone.
#[test]
fn errors_with_good_records_between_them_are_not_in_a_row() {
    for operands in ["bs=20", "ibs=20 obs=300", "ibs=20 obs=7"] {
        let reads = (0..150).flat_map(|_| [Err(Errno::IO), Ok(usize::MAX)]).collect();
        let kernel = Medium { stream: true, reads: Mutex::new(reads), ..Medium::default() };
        let copied = copy(&format!("conv=noerror {operands}"), kernel);
        assert!(copied.outcome.is_ok(), "{operands}: {:?}", copied.outcome);
        assert!(copied.bytes == pattern(LEN), "{operands}: {} bytes", copied.bytes.len());
    }
}

/// A way that met the end of a FIFO leaves the rest to the plain loop; what the next writer says is not for this copy.
#[test]
fn an_input_that_has_ended_is_not_read_again() {
    for operands in ["bs=4", "ibs=4 obs=2", "ibs=2 obs=4"] {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        writer.write_all(b"next").expect("room");
        drop(writer);
        let input = reader.try_clone().expect("a descriptor");
        let tally = with_job(&format!("of=/dev/null {operands}"), Some(input.into()), None, |job| {
            job.source.end();
            let (outcome, _) = run(job, &Choice { forced: Some("pump".to_owned()) });
            assert!(outcome.is_ok());
            job.monitor.tally
        });
        assert_eq!(tally, Tally::default(), "{operands}");
        assert_eq!(std::io::read_to_string(reader).expect("text"), "next", "{operands}");
    }
}

/// What was read or written is advised away in units of 256 KiB, and what is left of it at the end.
#[test]
fn the_loop_of_bare_calls_is_not_for_an_end_whose_cache_is_to_be_cleared() {
    let dir = tempfile::tempdir().expect("a directory");
    let (from, to) = (dir.path().join("in"), dir.path().join("out"));
    std::fs::write(&from, pattern(600_000)).expect("written");
    for (operands, dropped) in [
        ("bs=1000", &[][..]),
        ("bs=1000 iflag=nocache", &[(0, 262_144), (262_144, 262_144)]),
        ("bs=1000 oflag=nocache", &[(0, 262_144), (262_144, 262_144)]),
    ] {
        let plan = plan(&format!("if={} of={} {operands}", from.display(), to.display()));
        let mut monitor = Monitor::embedded("dd".to_owned(), Locale::default());
        let kernel = Arc::new(Medium::default());
        let never = || unreachable!("it is named");
        let mut source = Source::open(Arc::<Medium>::clone(&kernel), &plan.input, never, &mut monitor).expect("opened");
        let mut sink = Sink::open(Arc::<Medium>::clone(&kernel), &plan.output, never, &mut monitor).expect("opened");
        let mut buffers = Buffers::for_plan(&plan).expect("memory");
        let mut job = Job::new(&plan, &mut source, &mut sink, &mut monitor, &mut buffers);
        let (outcome, _) = run(&mut job, &Choice { forced: Some("pump".to_owned()) });
        assert!(outcome.is_ok(), "{operands}");
        assert_eq!(*kernel.dropped.lock().expect("no panic"), dropped, "{operands}");
    }
}
