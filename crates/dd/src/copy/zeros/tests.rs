//! Lent zeros against the plain loop: when they may be lent, and that every count is the same.

use std::io::Read as _;
use std::os::fd::OwnedFd;

use super::*;
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
