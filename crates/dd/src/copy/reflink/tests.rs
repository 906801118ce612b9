//! When blocks may be shared, and what is counted of those that were; the sharing itself needs a file system that can.

use super::*;
use crate::testing::{pattern, with_job};

/// Gets a job between two files, the first of 10,500 bytes.
fn between<T>(operands: &str, work: impl FnOnce(&mut Job<'_>) -> T) -> T {
    let dir = tempfile::tempdir().expect("a directory");
    let (from, to) = (dir.path().join("in"), dir.path().join("out"));
    std::fs::write(&from, pattern(10_500)).expect("written");
    with_job(&format!("if={} of={} {operands}", from.display(), to.display()), None, None, work)
}

#[test]
fn blocks_are_shared_only_where_that_was_asked_for() {
    for (operands, asked) in [
        ("bs=512", false),
        ("bs=512 reflink=never", false),
        ("bs=512 reflink=auto", true),
        ("bs=512 reflink=always", true),
    ] {
        assert_eq!(between(operands, |job| allowed(job)), asked, "{operands}");
    }
}

#[test]
fn bytes_that_are_looked_at_or_moved_about_are_not_shared() {
    let plain = |operands: &str| between(operands, |job| is_plain(job.plan, job.sink.holes()));
    for operands in
        ["bs=512", "ibs=512 obs=1000", "bs=512 conv=notrunc,fsync", "bs=512 count=3 skip=1 seek=1", "bs=512 conv=sync"]
    {
        assert!(plain(operands), "{operands}");
    }
    for word in ["conv=ucase", "conv=swab", "conv=sparse", "istride=2", "ostride=2", "files=2", "hash=md5"] {
        assert!(!plain(&format!("bs=512 {word}")), "{word}");
    }
}

#[test]
fn shared_bytes_are_passed_over_by_both_ends_and_counted_as_records() {
    let records = |full, partial| Records { full, partial };
    for (operands, len, read, written) in [
        ("bs=1000", 10_000, records(10, 0), records(10, 0)),
        ("bs=1000", 10_500, records(10, 1), records(10, 1)),
        ("ibs=1000 obs=3500", 10_500, records(10, 1), records(3, 0)),
        ("ibs=1000 obs=3000", 3000, records(3, 0), records(1, 0)),
        ("bs=1000", 0, records(0, 0), records(0, 0)),
    ] {
        between(operands, |job| {
            job.source.go_to(100).expect("it seeks");
            job.sink.go_to(40).expect("it seeks");
            // Counts of what was there before.
            job.monitor.tally.read.full = 7;
            job.monitor.tally.written.partial = 5;
            job.monitor.tally.bytes = 9;
            pass_over(job, len).expect("both seek");
            let tally = job.monitor.tally;
            assert_eq!((tally.read.full - 7, tally.read.partial), (read.full, read.partial), "{operands}, {len}");
            assert_eq!(
                (tally.written.full, tally.written.partial - 5),
                (written.full, written.partial),
                "{operands}, {len}"
            );
            assert_eq!(tally.bytes, 9 + len);
            assert_eq!((job.source.position(), job.sink.position()), (Some(100 + len), Some(40 + len)));
        });
    }
}

/// What is refused before the kernel is asked, which would say that the file system cannot, or nothing.
#[test]
fn what_cannot_be_shared_as_it_stands_is_refused_and_what_is_less_than_a_record_left() {
    assert_eq!(between("bs=512 oflag=append conv=notrunc", clone), Err(Errno::BADF));
    assert_eq!(between("bs=512 count=9223372036854775807", clone), Err(Errno::OVERFLOW));
    for operands in ["bs=512 conv=swab", "bs=1000 conv=sync", "ibs=500 obs=1000 conv=osync"] {
        assert_eq!(between(operands, clone), Err(Errno::OPNOTSUPP), "{operands}");
    }
    // Nothing is asked for: nothing is shared, and that is no failure.
    assert_eq!(between("bs=512 count=0", clone), Ok(0));
    // A device at either end.
    let with_device = |operands: &str| with_job(operands, None, None, clone);
    assert_eq!(with_device("if=/dev/zero of=/dev/null bs=512"), Err(Errno::OPNOTSUPP));
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), pattern(10_500)).expect("written");
    let name = file.path().display();
    assert_eq!(with_device(&format!("if={name} of=/dev/null bs=512")), Err(Errno::OPNOTSUPP));
    assert_eq!(with_device(&format!("if=/dev/zero of={name} bs=512 conv=notrunc")), Err(Errno::OPNOTSUPP));
}

#[test]
fn what_cannot_be_shared_is_an_error_only_where_it_always_has_to_be() {
    let refused = |how: &str| between(&format!("bs=512 oflag=append conv=notrunc reflink={how}"), run);
    assert!(matches!(refused("auto"), Ok(Outcome::Declined)));
    assert!(matches!(refused("always"), Err(Halt::Failed(Error::Reflink { errno: Errno::BADF, .. }))));
    assert!(between("bs=512 reflink=auto", |job| worthwhile(job)), "whatever the size");
}

#[test]
fn of_an_empty_file_the_kernel_is_asked_too() {
    let full = between("bs=500", clone);
    let emptied = between("bs=500", |job| {
        std::fs::write(job.plan.input.path.as_ref().expect("it is named"), b"").expect("emptied");
        clone(job)
    });
    assert_eq!(emptied, full.map(|_| 0), "what this file system says");
}
