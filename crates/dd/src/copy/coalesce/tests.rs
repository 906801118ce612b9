//! Joined records against the plain loop: how many are joined, which reads are made for them, and what of a hole is passed over.

use std::collections::VecDeque;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

use fdd_sys::locale::Locale;
use rustix::io::Errno;

use super::*;
use crate::copy::{Buffers, Choice};
use crate::input::Source;
use crate::monitor::Monitor;
use crate::output::Sink;
use crate::tally::Tally;
use crate::testing::{Medium, pattern, plan, with_job};

const EXT4: u64 = 0xEF53;
/// More reads than any copy here makes.
const READS: usize = 10_000;

struct Ran {
    tally: Tally,
    bytes: Vec<u8>,
    moved: Vec<(&'static str, u64)>,
    reads: usize,
}

/// Copies `from` by `strategy` into a file, or into what `operands` name; the first reads do as `script` says.
fn run_by(strategy: &str, from: &Path, operands: &str, script: &[Result<usize, Errno>]) -> Ran {
    let to = tempfile::NamedTempFile::new().expect("a file");
    let named = if operands.contains("of=") { String::new() } else { format!("of={} ", to.path().display()) };
    let plan = plan(&format!("if={} {named}{operands}", from.display()));
    let mut reads: VecDeque<_> = script.iter().copied().collect();
    reads.resize(READS, Ok(usize::MAX));
    let kernel = Arc::new(Medium { magic: Some(EXT4), reads: Mutex::new(reads), ..Medium::default() });
    let mut monitor = Monitor::embedded("dd".to_owned(), Locale::default());
    let never = || unreachable!("it is named");
    let mut source = Source::open(Arc::<Medium>::clone(&kernel), &plan.input, never, &mut monitor).expect("opened");
    let mut sink = Sink::open(Arc::<Medium>::clone(&kernel), &plan.output, never, &mut monitor).expect("opened");
    let mut buffers = Buffers::for_plan(&plan).expect("memory");
    let mut job = Job::new(&plan, &mut source, &mut sink, &mut monitor, &mut buffers);
    let (outcome, moved) = crate::copy::run(&mut job, &Choice { forced: Some(strategy.to_owned()) });
    assert!(outcome.is_ok_and(|ending| !ending.failed), "{operands} by {strategy}");
    sink.finish(&mut monitor).expect("the last hole");
    let reads = READS - kernel.reads.lock().expect("no panic").len();
    Ran { tally: monitor.tally, bytes: std::fs::read(to.path()).expect("the output"), moved, reads }
}

/// Four chunks and 700 bytes: 5000 bytes, a hole up to the third chunk, 100,000 bytes, and a hole up to the end.
fn holey() -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("a file");
    file.as_file().write_all_at(&pattern(5000), 0).expect("written");
    file.as_file().write_all_at(&pattern(100_000), 2 * widen(CHUNK)).expect("written");
    file.as_file().set_len(4 * widen(CHUNK) + 700).expect("extended");
    file
}

#[test]
fn a_hole_is_passed_over_where_its_zeros_need_not_be_written_and_nowhere_else() {
    let from = holey();
    for (operands, reads) in [
        // Five joined reads of the whole, and two of the plain loop: the rest, and the end.
        ("bs=512", 7),
        // The second chunk and the fourth are not read.
        ("bs=512 conv=sparse", 5),
        ("bs=512 conv=punch", 5),
        ("bs=512 of=/dev/null", 5),
        ("ibs=512 obs=1000 of=/dev/null", 5),
        // A chunk that is not whole blocks too would leave bytes that were gathered in front of the hole.
        ("ibs=3001 obs=4000 of=/dev/null", 7),
        ("ibs=3001 obs=4000 conv=sparse", 7),
        // What is done to the zeros.
        ("ibs=512 obs=1024 cbs=10 conv=block of=/dev/null", 7),
        ("bs=512 conv=ebcdic,sparse", 7),
        ("bs=512 hash=md5 of=/dev/null", 7),
    ] {
        let plain = run_by("pump", from.path(), operands, &[]);
        let joined = run_by("coalesce", from.path(), operands, &[]);
        assert_eq!(joined.tally, plain.tally, "{operands}");
        assert!(joined.bytes == plain.bytes, "{operands}: the bytes differ");
        assert_eq!(joined.reads, reads, "{operands}");
    }
}

#[test]
fn a_hole_that_fills_the_file_is_counted_no_further_than_the_file() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    // 500 bytes are missing to two chunks of records of 1000.
    let len = 2 * (CHUNK - CHUNK % 1000) - 500;
    file.as_file().set_len(widen(len)).expect("extended");
    for operands in ["bs=1000 of=/dev/null", "bs=1000 conv=sparse", "bs=1000 conv=sparse count=1500B"] {
        let plain = run_by("pump", file.path(), operands, &[]);
        let joined = run_by("coalesce", file.path(), operands, &[]);
        assert_eq!(joined.tally, plain.tally, "{operands}");
        assert!(joined.bytes == plain.bytes, "{operands}: the bytes differ");
    }
}

#[test]
fn whole_records_that_the_file_has_and_count_allows_are_joined_and_no_more() {
    let from = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(from.path(), pattern(300_301)).expect("written");
    for (operands, joined, rest) in [
        ("bs=1000", 300_000, 301),
        ("bs=2", 300_300, 1),
        ("bs=1000 count=7", 7000, 0),
        ("bs=1000 count=7500B", 7000, 500),
        ("ibs=1000 obs=7", 299_999, 302),
    ] {
        let ran = run_by("coalesce", from.path(), operands, &[]);
        assert_eq!(ran.moved, [("coalesce", joined), ("pump", rest)], "{operands}");
        assert!(ran.bytes == pattern(usize::try_from(joined + rest).expect("small")), "{operands}");
    }
}

#[test]
fn a_read_that_comes_short_leaves_its_last_record_to_the_plain_loop() {
    let from = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(from.path(), pattern(300_301)).expect("written");
    let plain = run_by("pump", from.path(), "bs=1000", &[]);
    for got in [1, 999, 1000, 1001, 5500] {
        let ran = run_by("coalesce", from.path(), "bs=1000", &[Ok(got)]);
        assert_eq!(ran.tally, plain.tally, "{got}");
        assert!(ran.bytes == pattern(300_301), "{got}");
        let whole = widen(got - got % 1000);
        assert_eq!(ran.moved, [("coalesce", whole), ("pump", 300_301 - whole)], "{got}");
    }
}

#[test]
fn a_chunk_is_whole_records_and_where_sizes_allow_it_whole_blocks() {
    for (ibs, obs, identity, want) in [
        (512, 512, true, CHUNK),
        (1000, 1000, true, 1_048_000),
        (1000, 3000, true, 1_047_000),
        (3000, 1000, true, 1_047_000),
        (4000, 6000, true, 1_044_000),
        // Nothing is known of how long a converted record is.
        (1000, 3000, false, 1_048_000),
        // Their least common multiple is more than a chunk, or more than can be said.
        (3001, 4000, true, 1_047_349),
        (CHUNK, CHUNK - 1, true, CHUNK),
        // One record is the least.
        (CHUNK + 1, 512, true, CHUNK + 1),
        (CHUNK + 1, 512, false, CHUNK + 1),
        (usize::MAX, usize::MAX, true, usize::MAX),
    ] {
        assert_eq!(chunk_len(CHUNK, ibs, obs, identity), want, "{ibs} {obs} {identity}");
    }
    assert_eq!(chunk_len(CHUNK / 2, 1000, 3000, true), 522_000);
    assert_eq!((lcm(4, 6), lcm(6, 4), lcm(7, 7), lcm(1, 9)), (Some(12), Some(12), Some(7), Some(9)));
    assert_eq!(lcm(usize::MAX, usize::MAX - 1), None);
}

#[test]
fn what_is_smaller_than_a_chunk_or_very_large_is_worth_it_and_so_is_a_cache_that_is_to_be_cleared() {
    let pays =
        |operands: &str| with_job(&format!("if=/dev/zero of=/dev/null {operands}"), None, None, |job| worthwhile(job));
    let (less, more) = (CHUNK - 1, CHUNK + 1);
    for operands in [
        "bs=512".to_owned(),
        format!("bs={less}"),
        format!("ibs={less} obs={CHUNK}"),
        format!("ibs={CHUNK} obs={less}"),
        format!("ibs={more} obs={less}"),
        format!("bs={CHUNK} iflag=nocache"),
        format!("bs={more} oflag=nocache"),
        format!("bs={LARGE}"),
        format!("ibs={LARGE} obs={LARGE}"),
    ] {
        assert!(pays(&operands), "{operands}");
    }
    for operands in [
        format!("bs={CHUNK}"),
        format!("bs={more}"),
        format!("ibs={CHUNK} obs={more}"),
        format!("bs={}", LARGE - 1),
        // What has to be gathered goes no faster.
        format!("bs={LARGE} conv=ucase"),
        format!("ibs={LARGE} obs={}", LARGE + 1),
    ] {
        assert!(!pays(&operands), "{operands}");
    }
}

#[test]
fn what_goes_nowhere_stays_in_the_processors_cache() {
    let from = tempfile::NamedTempFile::new().expect("a file");
    let file = from.path().display().to_string();
    for (ends, bs, wanted) in [
        ("if=/dev/zero of=/dev/null", 512, CHUNK / 2),
        ("if=/dev/zero of=/dev/null", CHUNK / 2, CHUNK / 2),
        ("if=/dev/zero of=/dev/null", CHUNK / 2 + 1, CHUNK),
        (&format!("if={file} of=/dev/null"), 512, CHUNK),
        (&format!("if=/dev/zero of={file}"), 512, CHUNK),
    ] {
        assert_eq!(with_job(&format!("{ends} bs={bs}"), None, None, |job| most(job)), wanted, "{ends} bs={bs}");
    }
}

#[test]
fn blocks_are_gathered_up_to_a_size_and_pass_through_beyond_it() {
    let from = tempfile::NamedTempFile::new().expect("a file");
    let to = tempfile::NamedTempFile::new().expect("a file");
    let ends = format!("if={} of={}", from.path().display(), to.path().display());
    let may = |operands: &str| with_job(&format!("{ends} {operands}"), None, None, |job| allowed(job));
    let (less, more) = (GATHERED, GATHERED + 1);
    for operands in [
        format!("bs={more}"),
        format!("ibs={more} obs={more}"),
        format!("ibs={more} obs=512"),
        format!("ibs=512 obs={less}"),
        format!("bs={less} conv=ucase"),
        format!("bs={less} conv=sparse"),
        format!("bs={CHUNK} conv=noerror"),
    ] {
        assert!(may(&operands), "{operands}");
    }
    for operands in [
        format!("ibs=512 obs={more}"),
        format!("bs={more} conv=ucase"),
        // A block is stepped over if all of it is zeros.
        format!("bs={more} conv=sparse"),
        format!("bs={} conv=noerror", CHUNK + 1),
    ] {
        assert!(!may(&operands), "{operands}");
    }
}

/// Two records of more than a chunk, three pieces each, and a partial one; with zeros in it.
#[test]
fn records_larger_than_a_chunk_come_out_as_by_the_plain_loop() {
    let ibs = 2 * CHUNK + 12;
    let from = tempfile::NamedTempFile::new().expect("a file");
    let mut data = pattern(2 * ibs + 777);
    data[CHUNK / 2..CHUNK / 2 + ibs].fill(0);
    std::fs::write(from.path(), data).expect("written");
    let whole = widen(2 * ibs);
    for (operands, joined) in [
        (format!("bs={ibs}"), whole),
        (format!("ibs={ibs} obs={ibs}"), whole),
        (format!("bs={ibs} count=1"), whole / 2),
        (format!("bs={ibs} count=3000000B"), whole / 2),
        (format!("ibs={ibs} obs=1000"), whole - whole % 1000),
        (format!("ibs={ibs} obs={}", ibs + 1), widen(ibs) + 1),
        (format!("ibs={ibs} obs=4096 conv=sparse"), whole - whole % 4096),
        (format!("bs={ibs} conv=sparse"), whole),
        (format!("bs={ibs} conv=swab"), whole),
        (format!("ibs={ibs} obs=4096 cbs=80 conv=block"), 320 * 4096),
        (format!("bs={ibs} conv=ebcdic"), whole),
        (format!("bs={ibs} iflag=nocache oflag=nocache"), whole),
        (format!("bs={ibs} conv=sync"), whole),
        (format!("bs={ibs} hash=md5"), whole),
        (format!("bs={ibs} of=/dev/null"), whole),
    ] {
        let plain = run_by("pump", from.path(), &operands, &[]);
        let pieces = run_by("coalesce", from.path(), &operands, &[]);
        assert_eq!(pieces.tally, plain.tally, "{operands}");
        assert!(pieces.bytes == plain.bytes, "{operands}: the bytes differ");
        if !operands.contains("cbs") {
            assert_eq!(pieces.moved[0], ("coalesce", joined), "{operands}");
        }
    }
}

#[test]
fn a_large_record_is_read_a_chunk_at_a_time() {
    let ibs = 2 * CHUNK + 12;
    let from = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(from.path(), pattern(ibs)).expect("written");
    // Three pieces, and the end.
    assert_eq!(run_by("coalesce", from.path(), &format!("bs={ibs}"), &[]).reads, 4);
    assert_eq!(run_by("pump", from.path(), &format!("bs={ibs}"), &[]).reads, 2);
}

/// The pieces that were read before are in the output; the plain loop reads the record again and passes over them.
#[test]
fn a_large_record_that_comes_short_in_a_later_piece_is_the_plain_loops() {
    let ibs = 2 * CHUNK + 12;
    let from = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(from.path(), pattern(2 * ibs)).expect("written");
    let all = widen(2 * ibs);
    for operands in [format!("bs={ibs}"), format!("ibs={ibs} obs=1000"), format!("bs={ibs} conv=swab")] {
        let plain = run_by("pump", from.path(), &operands, &[]);
        for short in [Ok(0), Ok(1), Ok(11), Err(Errno::IO)] {
            for before in 0..4 {
                let mut script = vec![Ok(usize::MAX); before];
                script.push(short);
                let ran = run_by("coalesce", from.path(), &operands, &script);
                let records = widen(before / 3 * ibs);
                assert_eq!(ran.tally, plain.tally, "{operands}, {short:?} after {before} reads");
                assert!(ran.bytes == plain.bytes, "{operands}, {short:?} after {before} reads");
                let joined = if operands.contains("obs=1000") { records - records % 1000 } else { records };
                assert_eq!(
                    ran.moved,
                    [("coalesce", joined), ("pump", all - joined)],
                    "{operands}, {short:?}, {before}"
                );
            }
        }
    }
}

#[test]
fn a_pipe_that_is_written_to_is_widened_and_a_file_is_none() {
    let from = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(from.path(), pattern(20_000)).expect("written");
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let operands = format!("if={} bs=5000", from.path().display());
    let (_, moved) = crate::testing::copy_by("coalesce", &operands, None, Some(OwnedFd::from(writer)));
    assert_eq!(moved, [("coalesce", 20_000), ("pump", 0)]);
    assert_eq!(rustix::pipe::fcntl_getpipe_size(reader.as_fd()), Ok(WIDE_PIPE));
}
