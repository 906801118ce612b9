//! The input end alone: how a skip ends, what reading tells of the end, and a descriptor that a look has left elsewhere.

use std::sync::Mutex;

use fdd_sys::retry::Steady;

use super::*;
use crate::hash::Threads;
use crate::operands::Hash;
use crate::testing::{Medium, pattern, plan};

fn open(operands: &str, given: Option<OwnedFd>, medium: Medium) -> (Arc<Medium>, Source) {
    let plan = plan(operands);
    let kernel = Arc::new(medium);
    let given = || given.expect("an input that is not named is given");
    let source = Source::open(Arc::<Medium>::clone(&kernel), &plan.input, given, &mut Steady).expect("opened");
    (kernel, source)
}

/// A file of `len` bytes.
fn file(len: usize) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), pattern(len)).expect("written");
    file
}

#[test]
fn what_has_offsets_is_not_read_over_when_it_refuses_a_skip() {
    let file = std::fs::File::open(file(5000).path()).expect("opened");
    rustix::fs::seek(&file, SeekFrom::Start(10)).expect("a file seeks");
    let (_, mut source) = open("bs=1000", Some(file.into()), Medium::default());
    // From offset 10 that is further than any offset can be.
    let outcome = source.skip(Amount::of_bytes(i64::MAX.unsigned_abs(), 1000), &mut Steady);
    assert!(matches!(outcome, Err(Trouble::Failed(Error::Skip { .. }))), "{outcome:?}");
    assert_eq!(source.position(), Some(10));
}

#[test]
fn a_skip_by_reading_makes_one_read_a_record_and_ends_with_the_first_that_gives_nothing() {
    const TOLD: usize = 100;
    for (operand, reads, ended) in [
        ("skip=2", 2, Skipped::Whole),
        ("skip=2500B", 3, Skipped::Whole),
        ("skip=2400B", 3, Skipped::Whole),
        ("skip=3", 3, Skipped::Short),
        ("skip=2600B", 3, Skipped::Short),
        ("skip=4", 4, Skipped::Short),
        ("skip=90", 4, Skipped::Short),
    ] {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        std::io::Write::write_all(&mut writer, &pattern(2500)).expect("it fits");
        drop(writer);
        let told = Mutex::new(vec![Ok(usize::MAX); TOLD].into());
        let (kernel, mut source) = open("bs=1000", Some(reader.into()), Medium { reads: told, ..Medium::default() });
        let outcome = source.skip(plan(&format!("bs=1000 {operand}")).input.skip, &mut Steady);
        assert_eq!(outcome.expect("a pipe can be read"), ended, "{operand}");
        assert_eq!(TOLD - kernel.reads.lock().expect("no panic").len(), reads, "{operand}");
    }
}

#[test]
fn the_end_has_been_met_when_a_record_is_empty_and_not_before() {
    let file = file(2500);
    for operands in ["bs=1000", "bs=1000 iflag=fullblock"] {
        let (_, mut source) = open(&format!("if={} {operands}", file.path().display()), None, Medium::default());
        let mut record = [0; 1000];
        for (got, at_end) in [(1000, false), (1000, false), (500, false), (0, true), (0, true)] {
            assert_eq!(source.read(&mut record, &mut Steady), (got, Ok(())), "{operands}");
            assert_eq!(source.at_end, at_end, "{operands}, after {got} bytes");
        }
    }
}

#[test]
fn zeros_that_were_cut_short_are_no_record_if_reading_on_fails() {
    let told = Mutex::new([Ok(100), Err(Errno::IO)].into());
    let (_, mut source) = open("if=/dev/zero bs=1000", None, Medium { reads: told, ..Medium::default() });
    let mut record = [1; 1000];
    assert_eq!(source.read(&mut record, &mut Steady), (0, Err(Cut::Os(Errno::IO))));
    assert_eq!(source.read(&mut record, &mut Steady), (1000, Ok(())));
}

/// A device is asked for its size by a seek to its end, after which the way back is refused.
#[test]
fn a_descriptor_that_could_not_come_back_is_put_right_by_the_next_read_or_fails_it() {
    let (file, data) = (file(3000), pattern(3000));
    let operands = format!("if={} bs=1000", file.path().display());
    for (refused, fails) in [(0, 0), (1, 0), (2, 1), (3, 2)] {
        let (kernel, mut source) = open(&operands, None, Medium { device: Some(7), ..Medium::default() });
        let mut record = [0; 1000];
        assert_eq!(source.read(&mut record, &mut Steady), (1000, Ok(())));
        let seeks = std::iter::once(Ok(())).chain(vec![Err(Errno::IO); refused]);
        kernel.seeks.lock().expect("no panic").extend(seeks);
        assert_eq!(source.size_now(), 3000);
        assert_eq!((source.position(), source.has_found()), (Some(1000), refused > 0));
        for _ in 0..fails {
            assert_eq!(source.read(&mut record, &mut Steady), (0, Err(Cut::Os(Errno::IO))));
        }
        assert_eq!(source.read(&mut record, &mut Steady), (1000, Ok(())));
        assert!(record == data[1000..2000], "{refused} refused");
        assert_eq!((source.position(), source.has_found()), (Some(2000), false));
    }
}

#[test]
fn what_is_tapped_goes_into_the_digest() {
    let (_, mut source) = open("if=/dev/zero bs=3", None, Medium::default());
    source.tap = Tap::of(&[Hash::Md5], Threads::none());
    source.tap(b"abc");
    let digest = source.tap.take().expect("a digest").finish().remove(0).1;
    // From RFC 1321.
    assert_eq!(digest[..4], [0x90, 0x01, 0x50, 0x98]);
}

/// Somebody else may have made the description non-blocking.
#[test]
fn what_is_not_there_yet_is_waited_for_unless_nonblock_was_asked_for() {
    for (operands, refusals) in [("bs=1000", 0), ("bs=1000 iflag=nonblock", 2)] {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        std::io::Write::write_all(&mut writer, b"abc").expect("it fits");
        let reads = Mutex::new([Err(Errno::AGAIN), Err(Errno::AGAIN)].into());
        let (_, mut source) = open(operands, Some(reader.into()), Medium { reads, ..Medium::default() });
        let mut record = [0; 1000];
        for _ in 0..refusals {
            assert_eq!(source.read(&mut record, &mut Steady), (0, Err(Cut::Os(Errno::AGAIN))), "{operands}");
        }
        assert_eq!(source.read(&mut record, &mut Steady), (3, Ok(())), "{operands}");
    }
}

#[test]
fn what_a_pipe_holds_is_told() {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    std::io::Write::write_all(&mut writer, b"abc").expect("it fits");
    crate::testing::with_job("bs=1000 of=/dev/null", Some(reader.into()), None, |job| {
        assert_eq!(job.source.available(), 3);
    });
    crate::testing::with_job("bs=1000 if=/dev/zero of=/dev/null", None, None, |job| {
        assert_eq!(job.source.available(), 0, "it would not say");
    });
}
