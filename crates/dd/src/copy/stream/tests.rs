//! Out of a pipe by many records at a time, against the plain loop: bytes and counts are the same.

use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use fdd_sys::locale::Locale;
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::*;
use crate::copy::{Buffers, Choice};
use crate::input::Source;
use crate::monitor::Monitor;
use crate::output::Sink;
use crate::tally::Tally;
use crate::testing::{Medium, copy_by, pattern, plan, with_job};

/// A pipe that holds `bytes` and has no writer any more: what a read of it gives hangs on its size alone.
fn holding(bytes: &[u8]) -> OwnedFd {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    fdd_sys::pipe::widen(std::os::fd::AsFd::as_fd(&writer), 1 << 20).expect("a pipe has a width");
    writer.write_all(bytes).expect("it fits");
    reader.into()
}

fn copied(strategy: &str, operands: &str, bytes: &[u8]) -> (Tally, Vec<u8>, u64) {
    let to = tempfile::NamedTempFile::new().expect("a file");
    let operands = format!("of={} {operands}", to.path().display());
    let (tally, moved) = copy_by(strategy, &operands, Some(holding(bytes)), None);
    let by_it = moved.iter().filter(|(name, _)| *name == strategy).map(|(_, bytes)| bytes).sum();
    (tally, std::fs::read(to.path()).expect("the output"), by_it)
}

#[test]
fn records_out_of_a_pipe_are_counted_as_the_plain_loop_counts_them() {
    let mut data = pattern(900_003);
    data.iter_mut().step_by(13).for_each(|byte| *byte = b'\n');
    for operands in [
        "bs=512",
        "bs=1000",
        "bs=100000",
        "bs=524288",
        "ibs=7 obs=5",
        "ibs=1000 obs=3000",
        "ibs=3001 obs=100003",
        "ibs=1000 obs=512 iflag=fullblock",
        "bs=1000 iflag=fullblock count=77",
        "bs=1000 count=77",
        "bs=1000 count=333333B",
        "bs=1000 count=131072B",
        "bs=1000 count=901",
        "bs=1000 conv=sync",
        "ibs=1000 obs=3000 conv=sync,ucase",
        "ibs=100 cbs=10 conv=block",
        "ibs=1000 obs=4096 conv=swab",
        "bs=4096 conv=sparse",
        "bs=1000 skip=3",
    ] {
        let (plain, plain_bytes, _) = copied("pump", operands, &data);
        let (fast, fast_bytes, moved) = copied("stream", operands, &data);
        assert_eq!(fast, plain, "{operands}");
        assert!(fast_bytes == plain_bytes, "{operands}: the bytes differ");
        assert!(moved > 0, "{operands}: not moved");
    }
}

#[test]
fn many_records_are_read_at_a_time_where_nobody_can_tell() {
    let may = |operands: &str, to: Option<OwnedFd>| with_job(operands, Some(holding(b"")), to, |job| allowed(job));
    assert!(may("of=/dev/null bs=512", None));
    for word in ["bs", "ibs=512 obs"] {
        assert!(may(&format!("of=/dev/null {word}={GATHERED}"), None), "{word}");
        assert!(!may(&format!("of=/dev/null {word}={}", GATHERED + 1), None), "{word}");
    }
    assert!(!may("of=/dev/null bs=512 speed=1M", None));
    assert!(!may("of=/dev/zero bs=512", None), "each write is seen");
    let pipe = |flags| {
        let (_, writer) = std::io::pipe().expect("a pipe");
        rustix::fs::fcntl_setfl(&writer, flags).expect("set");
        Some(OwnedFd::from(writer))
    };
    assert!(may("bs=5000", pipe(OFlags::empty())) && !may("bs=4096", pipe(OFlags::empty())));
    assert!(!may("bs=5000", pipe(OFlags::NONBLOCK)));
    let gathered = |job: &mut Job<'_>| {
        job.buffers.output.as_mut().expect("a block").hold(b"x");
        allowed(job)
    };
    assert!(!with_job("of=/dev/null ibs=512 obs=1000", Some(holding(b"")), None, gathered));
    assert!(!with_job("if=/dev/zero of=/dev/null bs=512", None, None, |job| allowed(job)));
}

#[test]
fn records_smaller_than_a_chunk_are_worth_it_and_a_cache_that_is_to_be_cleared() {
    let pays = |operands: &str| with_job(operands, Some(holding(b"")), None, |job| worthwhile(job));
    assert!(pays(&format!("of=/dev/null bs={}", CHUNK - 1)) && !pays(&format!("of=/dev/null bs={CHUNK}")));
    assert!(pays(&format!("of=/dev/null bs={CHUNK} oflag=nocache")));
}

#[test]
fn what_count_leaves_stays_in_the_pipe() {
    let data = pattern(300_000);
    for (operands, used) in
        [("bs=1000 count=150", 150_000), ("bs=1000 count=200001B", 200_001), ("bs=512 count=300", 153_600)]
    {
        let reader = holding(&data);
        let ours = reader.try_clone().expect("a descriptor");
        let (tally, _) = copy_by("stream", &format!("of=/dev/null {operands}"), Some(reader), None);
        let mut rest = vec![0; data.len()];
        let left = rustix::io::read(&ours, &mut rest).expect("read");
        assert_eq!((tally.bytes, left), (used, data.len() - usize::try_from(used).expect("small")), "{operands}");
        assert!(rest[..left] == data[data.len() - left..], "{operands}");
    }
}

/// What came of a copy out of a pipe over `medium`.
struct Ran {
    tally: Tally,
    bytes: Vec<u8>,
    said: Vec<String>,
    failed: bool,
}

fn over(medium: Medium, strategy: &str, operands: &str, bytes: &[u8]) -> Ran {
    let dir = tempfile::tempdir().expect("a directory");
    let to = dir.path().join("out");
    let plan = plan(&format!("of={} {operands}", to.display()));
    let kernel = Arc::new(medium);
    let mut monitor = Monitor::embedded("dd".to_owned(), Locale::default());
    let pipe = holding(bytes);
    let mut source = Source::open(Arc::<Medium>::clone(&kernel), &plan.input, || pipe, &mut monitor).expect("opened");
    let never = || unreachable!("it is named");
    let mut sink = Sink::open(kernel, &plan.output, never, &mut monitor).expect("opened");
    let mut buffers = Buffers::for_plan(&plan).expect("memory");
    let mut job = Job::new(&plan, &mut source, &mut sink, &mut monitor, &mut buffers);
    let (outcome, _) = crate::copy::run(&mut job, &Choice { forced: Some(strategy.to_owned()) });
    let failed = match outcome {
        Ok(ending) => ending.failed,
        Err(halt) => matches!(halt, Halt::Failed(_)),
    };
    let said = monitor.messages().to_vec();
    Ran { tally: monitor.tally, bytes: std::fs::read(&to).expect("the output"), said, failed }
}

#[test]
fn reads_that_come_short_are_the_records_and_warnings_of_the_plain_loop() {
    let data = pattern(300_000);
    let scripts: [&[std::result::Result<usize, Errno>]; 5] =
        [&[Ok(300)], &[Ok(300), Ok(1), Ok(999)], &[Ok(1000), Ok(17)], &[Err(Errno::INTR), Ok(5)], &[Ok(2500)]];
    for script in scripts {
        for operands in
            ["bs=1000 count=200", "bs=1000", "bs=1000 conv=sync", "ibs=1000 obs=3000", "bs=1000 iflag=fullblock"]
        {
            let medium = || Medium { reads: Mutex::new(script.iter().copied().collect()), ..Medium::default() };
            let plain = over(medium(), "pump", operands, &data);
            let fast = over(medium(), "stream", operands, &data);
            let what = format!("{operands}, {script:?}");
            assert_eq!((fast.failed, plain.failed), (false, false), "{what}");
            if script != [Ok(2500)] {
                assert_eq!((fast.tally, &fast.said), (plain.tally, &plain.said), "{what}");
                assert!(fast.bytes == plain.bytes, "{what}: the bytes differ");
            }
            // What is longer than a record cannot come to the plain loop: here it is cut into records.
            assert!(data.starts_with(&fast.bytes) || operands.contains("sync"), "{what}");
        }
    }
}

#[test]
fn a_short_record_at_the_end_is_not_warned_of() {
    for len in [300, 2300] {
        let (plain, fast) = (
            over(Medium::default(), "pump", "bs=1000 count=200", &pattern(len)),
            over(Medium::default(), "stream", "bs=1000 count=200", &pattern(len)),
        );
        assert_eq!((fast.tally, &fast.said), (plain.tally, &plain.said), "{len}");
        assert!(fast.said.is_empty(), "{:?}", fast.said);
    }
}

#[test]
fn a_record_of_which_more_has_come_meanwhile_is_completed_and_one_of_which_nothing_has_is_not() {
    let medium = |then| Medium {
        reads: Mutex::new([Ok(300)].into()),
        holds: Mutex::new([300, then].into()),
        ..Medium::default()
    };
    let more = over(medium(500), "stream", "bs=1000", &pattern(5000));
    assert_eq!((more.tally.read.full, more.tally.read.partial, more.bytes), (5, 0, pattern(5000)));
    let nothing = over(medium(0), "stream", "bs=1000", &pattern(5000));
    assert_eq!((nothing.tally.read.full, nothing.tally.read.partial, nothing.bytes), (4, 2, pattern(5000)));
}

/// One read gives no more than a pipe holds at a time, so that no record is ever larger than that unless `fullblock` wants it.
#[test]
fn a_record_larger_than_the_pipe_is_wide_is_what_one_read_gives() {
    let data = pattern(WIDE_PIPE);
    let medium = || Medium {
        reads: Mutex::new([Ok(300), Ok(5000)].into()),
        holds: Mutex::new([300, 5000, 5000].into()),
        ..Medium::default()
    };
    for operands in ["bs=2097152", "bs=1048577 count=2", "ibs=2097152 obs=512", "bs=2097152 conv=sync,swab"] {
        let (plain, fast) = (over(medium(), "pump", operands, &data), over(medium(), "stream", operands, &data));
        assert_eq!((fast.tally, &fast.said), (plain.tally, &plain.said), "{operands}");
        assert!(fast.bytes == plain.bytes && fast.tally.read.full == 0, "{operands}");
    }
    let whole = over(medium(), "stream", "bs=1048577 iflag=fullblock", &data);
    assert_eq!((whole.tally.read.full, whole.tally.read.partial), (0, 1));
}

#[test]
fn an_error_of_the_pipe_is_that_of_the_plain_loop() {
    let data = pattern(300_000);
    for (script, operands) in [
        (&[Ok(1000), Err(Errno::IO), Err(Errno::IO)][..], "bs=1000"),
        (&[Ok(300), Err(Errno::IO), Err(Errno::IO)], "bs=1000"),
        // Asked once more it would go on, but not with the record that it broke.
        (&[Ok(1000), Err(Errno::IO)], "bs=1000"),
        (&[Ok(300), Err(Errno::IO)], "bs=1000 iflag=fullblock"),
        (&[Ok(300), Err(Errno::IO)], "bs=1000 iflag=fullblock conv=sync"),
        (&[Ok(300), Ok(300), Err(Errno::IO)], "ibs=1000 obs=400 iflag=fullblock count=7"),
        (&[Ok(1000), Ok(300), Err(Errno::IO)], "ibs=1000 obs=400 iflag=fullblock conv=swab"),
        (&[Ok(300), Err(Errno::IO)], "bs=1000 iflag=fullblock conv=noerror"),
        (&[Ok(300), Err(Errno::IO), Ok(100)], "bs=1000 iflag=fullblock conv=noerror,sync"),
        (&[Ok(300), Err(Errno::IO), Ok(100)], "bs=1000 conv=noerror,sync"),
    ] {
        let medium = || Medium { reads: Mutex::new(script.iter().copied().collect()), ..Medium::default() };
        let (plain, fast) = (over(medium(), "pump", operands, &data), over(medium(), "stream", operands, &data));
        assert_eq!((fast.tally, &fast.said, fast.failed), (plain.tally, &plain.said, true), "{operands}");
        assert!(fast.bytes == plain.bytes, "{operands}");
    }
}

/// More had come of the record, and then the pipe failed: what came is a record, and the error another one, as for reads of
/// one record each.
#[test]
fn a_record_that_an_error_breaks_off_is_one_by_itself() {
    let script = [Ok(1300), Err(Errno::IO), Ok(100)];
    let single = [Ok(1000), Ok(300), Err(Errno::IO), Ok(100)];
    for operands in
        ["bs=1000", "bs=1000 conv=noerror,sync", "bs=1000 conv=noerror", "ibs=1000 obs=700 conv=noerror,sync"]
    {
        let medium = |script: &[std::result::Result<usize, Errno>], holds: &[u64]| Medium {
            reads: Mutex::new(script.iter().copied().collect()),
            holds: Mutex::new(holds.iter().copied().collect()),
            ..Medium::default()
        };
        let plain = over(medium(&single, &[]), "pump", operands, &pattern(5000));
        // So much is there before the first read, and so much after it.
        let fast = over(medium(&script, &[1300, 700]), "stream", operands, &pattern(5000));
        assert_eq!((fast.tally, &fast.said, fast.failed), (plain.tally, &plain.said, true), "{operands}");
        assert!(fast.bytes == plain.bytes, "{operands}");
    }
}

#[test]
fn a_pipe_at_either_end_is_widened() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let input = holding(&pattern(20_000));
    fdd_sys::pipe::widen(std::os::fd::AsFd::as_fd(&input), 64 << 10).expect("it fits");
    let ours = input.try_clone().expect("a descriptor");
    let (_, moved) = copy_by("stream", "bs=5000", Some(input), Some(writer.into()));
    assert_eq!(moved, [("stream", 20_000), ("pump", 0)]);
    for end in [&ours, &OwnedFd::from(reader)] {
        assert_eq!(rustix::pipe::fcntl_getpipe_size(end), Ok(WIDE_PIPE));
    }
}

/// The tally and the bytes when the disk is full after `room` bytes.
fn until_full(strategy: &str, operands: &str, bytes: &[u8], room: usize) -> (Tally, Vec<u8>) {
    let left = Mutex::new(room);
    let write = move |_, wanted: usize| {
        let mut left = left.lock().expect("no panic");
        let takes = wanted.min(*left);
        *left -= takes;
        if takes == 0 { Err(Errno::NOSPC) } else { Ok(takes) }
    };
    let ran = over(Medium { write: Some(Box::new(write)), ..Medium::default() }, strategy, operands, bytes);
    assert!(ran.failed, "{operands} by {strategy}");
    (ran.tally, ran.bytes)
}

#[test]
fn a_disk_that_fills_among_joined_records_is_counted_to_the_byte() {
    let data = pattern(300_000);
    for operands in ["bs=1000", "ibs=1000 obs=3000", "ibs=1000 obs=700", "ibs=1000 obs=3000 conv=ucase"] {
        for room in [0, 1, 999, 1000, 4500, 131_000, 131_072, 200_001] {
            let plain = until_full("pump", operands, &data, room);
            let fast = until_full("stream", operands, &data, room);
            assert_eq!(fast.0, plain.0, "{operands}, room for {room}");
            assert!(fast.1 == plain.1 && fast.1.len() == room, "{operands}, room for {room}: the bytes differ");
        }
    }
}
