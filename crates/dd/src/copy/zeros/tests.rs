//! Lent zeros against the plain loop: when they may be lent, and that every count is the same.

use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::operands::Status;
use crate::tally::{Afar, Tally};
use crate::testing::{copy_by, with_job};

/// Runs `work` with a pipe whose other end is read to its end; gives that and the number of bytes, all zeros.
fn into_pipe<T>(work: impl FnOnce(OwnedFd) -> T) -> (T, u64) {
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let drain = std::thread::spawn(move || {
        let mut got = Vec::new();
        reader.read_to_end(&mut got).expect("read");
        assert!(got.iter().all(|&byte| byte == 0));
        widen(got.len())
    });
    let result = work(writer.into());
    (result, drain.join().expect("zeros"))
}

#[test]
fn lent_zeros_are_counted_as_the_plain_loop_counts_them() {
    for operands in [
        "bs=64K count=100",
        "bs=5000 count=1000",
        "bs=1M count=3",
        "bs=3M count=2",
        "bs=64K count=1234567B",
        "bs=7000 count=7000B",
        "ibs=1000 obs=5000 count=1003",
        "ibs=5000 obs=7000 count=403",
        "ibs=7000 obs=5000 count=403",
        "ibs=100000 obs=70000 count=33",
        "ibs=4097 obs=1M count=700",
        "ibs=3M obs=5000 count=1",
        "ibs=1000 obs=9000 count=2345678B",
        "ibs=1000 obs=1M count=5",
    ] {
        let operands = format!("if=/dev/zero {operands}");
        let ((plain, _), plain_bytes) = into_pipe(|pipe| copy_by("pump", &operands, None, Some(pipe)));
        let ((lent, moved), lent_bytes) = into_pipe(|pipe| copy_by("zeros", &operands, None, Some(pipe)));
        assert_eq!((lent, lent_bytes), (plain, plain_bytes), "{operands}");
        assert!(moved[0].0 == "zeros" && (moved[0].1 > 0 || lent_bytes < 1 << 20), "{operands}: {moved:?}");
    }
}

/// What the counts and the rest of a block are after `run` alone, before the plain loop goes on.
#[test]
fn what_is_left_for_the_plain_loop_is_less_than_a_block() {
    let run_alone = |operands: &str| {
        into_pipe(|pipe| {
            with_job(&format!("if=/dev/zero {operands}"), None, Some(pipe), |job| {
                assert!(matches!(run(job), Ok(Outcome::Declined)));
                let tally = job.monitor.tally;
                (tally.read.full, tally.written.full, tally.bytes, job.sink.take_again(), job.buffers.gathered())
            })
        })
    };
    assert_eq!(run_alone("bs=5000 count=400"), ((400, 400, 2_000_000, 0, 0), 2_000_000));
    // 403 records of 5000 are 287 blocks of 7000 and 6000 bytes, which the pipe has already.
    assert_eq!(run_alone("ibs=5000 obs=7000 count=403"), ((403, 287, 2_009_000, 6_000, 6_000), 2_015_000));
    assert_eq!(run_alone("ibs=1000 obs=9000 count=5"), ((5, 0, 0, 5_000, 5_000), 5_000));
    // What count= has in bytes beyond whole records is the plain loop's.
    assert_eq!(run_alone("bs=5000 count=12000B"), ((2, 2, 10_000, 0, 0), 10_000));
}

#[test]
fn zeros_are_lent_where_nobody_can_tell() {
    let may = |operands: &str, flags: OFlags| {
        let (_reader, writer) = std::io::pipe().expect("a pipe");
        rustix::fs::fcntl_setfl(&writer, flags).expect("set");
        with_job(operands, None, Some(writer.into()), |job| allowed(job))
    };
    let plain = OFlags::empty();
    assert!(may("if=/dev/zero bs=4097", plain));
    assert!(may("if=/dev/zero ibs=512 obs=64K", plain));
    // Atomic writes, packets, and writes that must not block are seen one by one.
    assert!(!may("if=/dev/zero bs=4096", plain));
    assert!(!may("if=/dev/zero ibs=64K obs=512", plain));
    assert!(!may("if=/dev/zero bs=64K", OFlags::DIRECT));
    assert!(!may("if=/dev/zero bs=64K", OFlags::NONBLOCK));
    // What is done to the bytes, or counted of them.
    for word in ["conv=swab", "iflag=fullblock hash=md5", "speed=1M", "oflag=nocache", "istride=2"] {
        let bs = if word == "oflag=nocache" { "bs=64K" } else { "obs=64K" };
        assert!(!may(&format!("if=/dev/zero {bs} {word}"), plain), "{word}");
    }
    assert!(!may("if=/dev/null bs=64K", plain));
    assert!(!with_job("if=/dev/zero of=/dev/null bs=64K", None, None, |job| allowed(job)));
    let gathered = |job: &mut Job<'_>| {
        job.buffers.output.as_mut().expect("a block").hold(b"x");
        allowed(job)
    };
    let (_reader, writer) = std::io::pipe().expect("a pipe");
    assert!(!with_job("if=/dev/zero ibs=1000 obs=64K", None, Some(writer.into()), gathered));
}

#[test]
fn a_quarter_of_a_mebibyte_is_worth_it() {
    let pays =
        |operands: &str| with_job(&format!("if=/dev/zero of=/dev/null {operands}"), None, None, |job| worthwhile(job));
    assert!(pays("bs=64K"));
    assert!(pays("bs=64K count=4") && !pays("bs=64K count=3"));
    assert!(!pays("bs=64K count=262143B") && pays("bs=64K count=262144B"));
    let late = |job: &mut Job<'_>| {
        job.monitor.tally.read.full = 97;
        worthwhile(job)
    };
    assert!(!with_job("if=/dev/zero of=/dev/null bs=64K count=100", None, None, late), "three are left");
}

/// What `run` alone leaves when the pipe, once it is full, does as `then` says to its reader, which gives the pipe or not: how
/// it ended, the tally, what the plain loop is told that the pipe has of the next blocks, what is gathered, and the bytes lent.
fn broken_off(
    operands: &str,
    then: impl FnOnce(&Afar, std::io::PipeReader) -> Option<std::io::PipeReader> + Send + 'static,
) -> (Result<Outcome, Halt>, Tally, u64, usize, u64) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let (afar, drained) = (Arc::new(Afar::default()), Arc::new(AtomicU64::new(0)));
    let (asks, counts) = (Arc::clone(&afar), Arc::clone(&drained));
    let watch = std::thread::spawn(move || {
        loop {
            let (there, room) = (rustix::io::ioctl_fionread(&reader), rustix::pipe::fcntl_getpipe_size(&reader));
            if there.is_ok_and(|there| there > 0 && Ok(there) == room.map(widen)) {
                counts.store(there.expect("asked"), Ordering::SeqCst);
                return then(&asks, reader);
            }
            std::thread::yield_now();
        }
    });
    let left = with_job(&format!("if=/dev/zero {operands}"), None, Some(writer.into()), |job| {
        // Progress by the clock makes an embedded copy look up before each call.
        job.monitor.speak(Status::Progress, None);
        job.monitor.start_clock();
        job.monitor.afar = Some(afar);
        let outcome = run(job);
        (outcome, job.monitor.tally, job.sink.take_again(), job.buffers.gathered())
    });
    let rest = watch.join().expect("no panic").map(|mut reader| {
        let mut rest = Vec::new();
        widen(reader.read_to_end(&mut rest).expect("read") + PAGE)
    });
    // What was there when it was full has been read, but for a reader that is gone.
    let lent = rest.unwrap_or(drained.load(Ordering::SeqCst));
    (left.0, left.1, left.2, left.3, lent)
}

const PAGE: usize = 4096;

#[test]
fn when_the_reader_goes_away_whole_blocks_of_whole_records_count_and_the_pipe_has_the_rest() {
    for (operands, read, written, again, gathered) in [
        ("bs=5000", 209, 209, 3576, 0),
        // 149 blocks are 208 records and a part, which are 148 blocks and 4000 bytes.
        ("ibs=5000 obs=7000", 208, 148, 12_576, 4000),
        ("ibs=7000 obs=5000", 149, 208, 8576, 3000),
        ("ibs=1000 obs=3M", 0, 0, 1_048_576, 0),
    ] {
        let (outcome, tally, told, waits, lent) = broken_off(operands, |_, _| None);
        assert!(matches!(outcome, Ok(Outcome::Declined)), "{operands}: {outcome:?}");
        assert_eq!(lent, 1 << 20, "a pipe's width");
        assert_eq!((tally.read.full, tally.written.full, told, waits), (read, written, again, gathered), "{operands}");
        assert_eq!((tally.read.partial, tally.written.partial), (0, 0), "{operands}");
        assert_eq!(tally.bytes + told, lent, "{operands}");
    }
}

#[test]
fn when_the_end_is_asked_for_what_the_pipe_has_counts_to_the_byte() {
    for (operands, ibs, obs) in [("bs=5000", 5000, 5000), ("ibs=5000 obs=7000", 5000, 7000), ("bs=8K", 8192, 8192)] {
        let stop = |afar: &Afar, mut reader: std::io::PipeReader| {
            afar.fail();
            // Room for a page, so that the call that waits for it comes back.
            reader.read_exact(&mut [0; PAGE]).expect("it is full");
            Some(reader)
        };
        let (outcome, tally, _, _, lent) = broken_off(operands, stop);
        assert!(matches!(outcome, Err(Halt::Stopped)), "{operands}: {outcome:?}");
        assert!(lent >= 1 << 20, "{lent}");
        let (read, full) = (lent.div_ceil(ibs), lent / obs);
        assert_eq!((tally.read.full, tally.written.full, tally.bytes), (read, full, lent), "{operands}");
        assert_eq!(tally.written.partial, u64::from(full * obs < lent), "{operands}");
    }
}
