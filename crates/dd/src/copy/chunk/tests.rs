//! A copy that joins blocks and is asked to end in the middle of a write: what it counts is what the file has.

#![allow(clippy::single_range_in_vec_init)] // A list of bad ranges may well have one.

use std::sync::Arc;

use fdd_sys::locale::Locale;
use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::*;
use crate::copy::{Buffers, Choice, run};
use crate::input::Source;
use crate::operands::Status;
use crate::tally::{Afar, Records};
use crate::testing::{Medium, pattern, plan};

struct Stopped {
    tally: Tally,
    /// Where the input stands.
    at: u64,
    bytes: Vec<u8>,
}

/// Copies `len` bytes; the end is asked for while write number `during` takes `taken` bytes of what it was given.
fn stop(len: usize, operands: &str, during: usize, taken: usize) -> Stopped {
    let dir = tempfile::tempdir().expect("a directory");
    let (from, to) = (dir.path().join("in"), dir.path().join("out"));
    std::fs::write(&from, pattern(len)).expect("written");
    let plan = plan(&format!("if={} of={} {operands}", from.display(), to.display()));
    let mut monitor = Monitor::embedded("dd".to_owned(), Locale::default());
    let afar = Arc::new(Afar::default());
    let asks = Arc::clone(&afar);
    let write = move |number, _| {
        if number == during {
            asks.fail();
        }
        Ok(if number == during { taken } else { usize::MAX })
    };
    let kernel = Arc::new(Medium { write: Some(Box::new(write)), ..Medium::default() });
    let never = || unreachable!("it is named");
    let mut source = Source::open(Arc::<Medium>::clone(&kernel), &plan.input, never, &mut monitor).expect("opened");
    let mut buffers = Buffers::for_plan(&plan).expect("memory");
    let mut sink = Sink::open(kernel, &plan.output, never, &mut monitor).expect("opened");
    // Progress by the clock makes an embedded copy look up before each call; a writer that has failed elsewhere is what it
    // then finds.
    monitor.speak(Status::Progress, None);
    monitor.start_clock();
    monitor.afar = Some(afar);
    let mut job = Job::new(&plan, &mut source, &mut sink, &mut monitor, &mut buffers);
    let (outcome, moved) = run(&mut job, &Choice { forced: Some("coalesce".to_owned()) });
    assert!(matches!(outcome, Err(Halt::Stopped)), "{outcome:?}");
    assert_eq!(moved.len(), 1, "{moved:?}");
    let tally = monitor.tally;
    let at = rustix::fs::seek(source.fd(), SeekFrom::Current(0)).expect("a file seeks");
    assert_eq!(source.position(), Some(at));
    Stopped { tally, at, bytes: std::fs::read(&to).expect("the output") }
}

fn records(full: u64, partial: u64) -> Records {
    Records { full, partial }
}

const CHUNK: usize = crate::copy::CHUNK;
const LEN: usize = 3 * CHUNK;

#[test]
fn a_stop_in_the_first_chunk_counts_what_was_written_of_it() {
    let stopped = stop(LEN, "bs=1000", 0, 5_700);
    assert!(stopped.bytes == pattern(5_700));
    assert_eq!((stopped.tally.bytes, stopped.tally.written), (5_700, records(5, 1)));
    // The input stands behind the record that was begun.
    assert_eq!((stopped.tally.read, stopped.at), (records(6, 0), 6_000));
}

#[test]
fn a_stop_between_records_leaves_none_in_part() {
    let stopped = stop(LEN, "bs=1000", 0, 5_000);
    assert_eq!((stopped.tally.bytes, stopped.tally.written), (5_000, records(5, 0)));
    assert_eq!((stopped.tally.read, stopped.at, stopped.bytes.len()), (records(5, 0), 5_000, 5_000));
}

#[test]
fn a_stop_in_a_later_chunk_adds_to_what_was_counted_before() {
    let chunk = CHUNK / 1000;
    let stopped = stop(LEN, "bs=1000", 1, 700);
    let (full, bytes) = (chunk as u64, (chunk * 1000 + 700) as u64);
    assert!(stopped.bytes == pattern(chunk * 1000 + 700));
    assert_eq!((stopped.tally.bytes, stopped.tally.written), (bytes, records(full, 1)));
    assert_eq!((stopped.tally.read, stopped.at), (records(full + 1, 0), (full + 1) * 1000));
}

#[test]
fn what_was_gathered_before_the_chunk_is_no_record_of_it() {
    // The first chunk is whole blocks of 5000 bytes and a rest, which begins the second write.
    let records_of_it = CHUNK / 3001;
    let rest = records_of_it * 3001 % 5000;
    let whole = records_of_it * 3001 - rest;
    assert!((601..3000).contains(&rest), "sizes that this test is made for");
    let stopped = stop(LEN, "ibs=3001 obs=5000", 1, 6_500);
    assert!(stopped.bytes == pattern(whole + 6_500));
    let blocks = (whole / 5000) as u64;
    assert_eq!((stopped.tally.bytes, stopped.tally.written), ((whole + 6_500) as u64, records(blocks + 1, 1)));
    let read = (records_of_it + (6_500 - rest).div_ceil(3001)) as u64;
    assert_eq!((stopped.tally.read, stopped.at), (records(read, 0), read * 3001));
    let within = stop(LEN, "ibs=3001 obs=5000", 1, 600);
    assert_eq!((within.tally.bytes, within.tally.written), ((whole + 600) as u64, records(blocks, 1)));
    let read = records_of_it as u64;
    assert_eq!((within.tally.read, within.at), (records(read, 0), read * 3001));
}

/// Two pieces to a record.
const LARGE: usize = CHUNK + CHUNK / 2;

#[test]
fn a_stop_in_a_piece_of_a_large_record_counts_the_record_in_part() {
    for operand in ["bs", "conv=fsync ibs=1572864 obs"] {
        let operands = format!("{operand}={LARGE}");
        for (during, taken) in [(0, 700), (1, 1), (1, 700), (2, 700), (3, 5)] {
            let stopped = stop(2 * LARGE, &operands, during, taken);
            let bytes = during / 2 * LARGE + during % 2 * CHUNK + taken;
            let begun = (during / 2 + 1) as u64;
            assert!(stopped.bytes == pattern(bytes), "{operands}: {} bytes for {bytes}", stopped.bytes.len());
            assert_eq!((stopped.tally.bytes, stopped.tally.written), (bytes as u64, records(begun - 1, 1)));
            assert_eq!((stopped.tally.read, stopped.at), (records(begun, 0), begun * LARGE as u64), "{during}");
        }
    }
}

/// What is converted of a record that was read in part has gone out; the record is used up all the same.
#[test]
fn a_stop_in_a_piece_of_a_large_converted_record_leaves_the_input_behind_it() {
    let operands = format!("ibs={LARGE} obs=512 conv=ucase");
    // Where a piece is taken whole the stop is seen before the next one is read.
    for (during, taken) in [(0, 700), (0, CHUNK), (1, 700), (2, 700), (2, CHUNK), (3, 5)] {
        let stopped = stop(2 * LARGE, &operands, during, taken);
        let bytes = during / 2 * LARGE + during % 2 * CHUNK + taken;
        let begun = (during / 2 + 1) as u64;
        assert!(stopped.bytes == pattern(bytes).to_ascii_uppercase(), "{} bytes for {bytes}", stopped.bytes.len());
        let written = records((bytes / 512) as u64, u64::from(!bytes.is_multiple_of(512)));
        assert_eq!((stopped.tally.bytes, stopped.tally.written), (bytes as u64, written));
        assert_eq!((stopped.tally.read, stopped.at), (records(begun, 0), begun * LARGE as u64), "{during}, {taken}");
    }
}

/// As a report between two pieces finds it.
#[test]
fn a_large_record_counts_from_its_first_piece_on_and_a_block_with_its_last() {
    let from = tempfile::NamedTempFile::new().expect("a file");
    let to = tempfile::NamedTempFile::new().expect("a file");
    for (operands, gather, halfway) in [
        (format!("bs={LARGE}"), Gather::through(LARGE, CHUNK), 0),
        (format!("ibs={LARGE} obs=8192"), Gather::new(8192, CHUNK), CHUNK / 8192),
        (format!("ibs={LARGE} obs=8192 conv=ucase"), Gather::new(8192, CHUNK), CHUNK / 8192),
    ] {
        let operands = format!("if={} of={} {operands}", from.path().display(), to.path().display());
        crate::testing::with_job(&operands, None, None, |job| {
            let mut gather = gather.expect("memory");
            let obs = gather.obs;
            let mut since = gather.begin(job, LARGE, 1, Some(0));
            for (piece, blocks) in [(CHUNK, halfway), (LARGE - CHUNK, LARGE / obs)] {
                gather.feed(job, &mut pattern(piece), &mut since).expect("written");
                let tally = job.monitor.tally;
                assert_eq!((tally.read, tally.written), (records(1, 0), records(blocks as u64, 0)), "{operands}");
                assert_eq!(tally.bytes, (blocks * obs) as u64, "{operands}");
            }
        });
    }
}

#[test]
fn a_stop_between_large_records_leaves_none_in_part() {
    let stopped = stop(2 * LARGE, &format!("bs={LARGE}"), 1, LARGE - CHUNK);
    assert_eq!((stopped.tally.bytes, stopped.tally.written), (LARGE as u64, records(1, 0)));
    assert_eq!((stopped.tally.read, stopped.at, stopped.bytes.len()), (records(1, 0), LARGE as u64, LARGE));
}

#[test]
fn a_converted_copy_counts_the_records_that_it_has_read() {
    let stopped = stop(LEN, "bs=1000 conv=ucase", 0, 5_700);
    assert!(stopped.bytes == pattern(5_700).to_ascii_uppercase());
    assert_eq!((stopped.tally.bytes, stopped.tally.written), (5_700, records(5, 1)));
    let chunk = CHUNK / 1000;
    assert_eq!((stopped.tally.read, stopped.at), (records(chunk as u64, 0), (chunk * 1000) as u64));
}

/// What a joined copy of `data` by blocks of 1000 comes to, and the output, over a medium whose writes do as `write` says by
/// their number, and whose reads begin with `reads`.
fn over(
    data: &[u8],
    operand: &str,
    write: impl Fn(usize) -> Result<usize, Errno> + Send + Sync + 'static,
    reads: &[Result<usize, Errno>],
) -> (Result<crate::copy::Ending, Halt>, Tally, Vec<u8>) {
    let dir = tempfile::tempdir().expect("a directory");
    let (from, to) = (dir.path().join("in"), dir.path().join("out"));
    std::fs::write(&from, data).expect("written");
    let plan = plan(&format!("if={} of={} bs=1000 {operand}", from.display(), to.display()));
    let mut monitor = Monitor::embedded("dd".to_owned(), Locale::default());
    let kernel = Arc::new(Medium {
        write: Some(Box::new(move |number, _| write(number))),
        reads: std::sync::Mutex::new(reads.to_vec().into()),
        ..Medium::default()
    });
    let never = || unreachable!("it is named");
    let mut source = Source::open(Arc::<Medium>::clone(&kernel), &plan.input, never, &mut monitor).expect("opened");
    let mut buffers = Buffers::for_plan(&plan).expect("memory");
    let mut sink = Sink::open(kernel, &plan.output, never, &mut monitor).expect("opened");
    let mut job = Job::new(&plan, &mut source, &mut sink, &mut monitor, &mut buffers);
    let (outcome, _) = run(&mut job, &Choice { forced: Some("coalesce".to_owned()) });
    monitor.tally.take_back(sink.take_unsettled(), 1000);
    (outcome, monitor.tally, std::fs::read(&to).expect("the output"))
}

/// A joined write takes 5,700 bytes and the next one fails; then the input can be read no more, so that the plain loop never
/// comes to what is in the output already.
#[test]
fn what_a_joined_write_took_counts_though_it_cannot_be_read_again() {
    for (taken, full, partial) in [(5_700, 5, 1), (5_000, 5, 0), (700, 0, 1)] {
        let write = move |number| if number == 0 { Ok(taken) } else { Err(Errno::NOSPC) };
        let reads = [Ok(usize::MAX), Err(Errno::INVAL)];
        let (outcome, tally, output) = over(&pattern(300_000), "conv=notrunc", write, &reads);
        assert!(outcome.is_ok_and(|ending| ending.failed));
        assert_eq!(output, pattern(taken));
        assert_eq!((tally.bytes, tally.written), (taken as u64, records(full, partial)));
    }
}

/// Five records of data, fifteen of zeros that are stepped over, and data.
fn stepping_over(
    write: impl Fn(usize) -> Result<usize, Errno> + Send + Sync + 'static,
    reads: &[Result<usize, Errno>],
) -> (Result<crate::copy::Ending, Halt>, Tally, usize) {
    let mut data = pattern(30_000);
    data[5000..20_000].fill(0);
    let (outcome, tally, output) = over(&data, "conv=sparse", write, reads);
    (outcome, tally, output.len())
}

/// The write behind the zeros fails, and the input can be read no more.
#[test]
fn what_was_written_before_zeros_counts_though_it_cannot_be_read_again() {
    let write = |number| if number == 0 { Ok(usize::MAX) } else { Err(Errno::NOSPC) };
    let (outcome, tally, len) = stepping_over(write, &[Ok(usize::MAX), Err(Errno::INVAL)]);
    assert!(outcome.is_ok_and(|ending| ending.failed));
    assert_eq!((tally.bytes, tally.written, tally.sparse, len), (5000, records(5, 0), 0, 5000));
}

#[test]
fn blocks_stepped_over_are_counted_as_such_when_the_chunk_is_walked_again() {
    let write = |number| if number == 1 { Err(Errno::NOSPC) } else { Ok(usize::MAX) };
    let (outcome, tally, len) = stepping_over(write, &[]);
    assert!(outcome.is_ok_and(|ending| !ending.failed));
    assert_eq!((tally.bytes, tally.written, tally.sparse, len), (30_000, records(30, 0), 15, 30_000));
}

#[test]
fn converted_records_go_out_in_large_writes() {
    let mut data = pattern(300_000);
    data.iter_mut().step_by(13).for_each(|byte| *byte = b'\n');
    let writes = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = Arc::clone(&writes);
    let write = move |number| {
        counted.store(number + 1, std::sync::atomic::Ordering::Relaxed);
        Ok(usize::MAX)
    };
    let (outcome, tally, output) = over(&data, "cbs=80 conv=block", write, &[]);
    assert!(outcome.is_ok_and(|ending| !ending.failed));
    assert_eq!((output.len(), tally.written), (23_078 * 80, records(1846, 1)));
    // One of a chunk and a block, the whole blocks that are left, and the rest.
    assert_eq!(writes.load(std::sync::atomic::Ordering::Relaxed), 3);
}

#[test]
fn holes_and_cut_records_are_counted_the_same_joined_or_not() {
    let dir = tempfile::tempdir().expect("a directory");
    let (from, to) = (dir.path().join("in"), dir.path().join("out"));
    let mut data = pattern(300_000);
    data[50_000..200_000].fill(0);
    std::fs::write(&from, &data).expect("written");
    for operands in ["bs=512 conv=sparse", "ibs=1000 obs=4096 conv=sparse", "bs=512", "ibs=100 cbs=10 conv=block"] {
        let operands = format!("if={} of={} {operands}", from.display(), to.display());
        let (plain, _) = crate::testing::copy_by("pump", &operands, None, None);
        let (joined, _) = crate::testing::copy_by("coalesce", &operands, None, None);
        assert_eq!(joined, plain, "{operands}");
        assert_eq!(plain.sparse > 0, operands.contains("sparse"), "{operands}");
        // No line ever ends: one record, of which cbs bytes are left.
        assert_eq!(plain.truncated, u64::from(operands.contains("block")), "{operands}");
    }
}
