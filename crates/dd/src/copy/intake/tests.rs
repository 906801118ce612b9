//! Input records over a medium that fails: what is lost and named, what counts, and what is warned of.

#![allow(clippy::single_range_in_vec_init)] // A list of bad ranges may well have one.

use std::sync::{Arc, Mutex};

use fdd_sys::locale::Locale;
use rustix::io::Errno;

use super::*;
use crate::tally::Records;
use crate::testing::{Medium, pattern, plan};

/// What came of reading a file to its end.
struct Took {
    records: Vec<Vec<u8>>,
    read: Records,
    bytes: u64,
    failed: bool,
    said: Vec<String>,
}

impl Took {
    fn lost(&self) -> Vec<&str> {
        let lost = self.said.iter().filter_map(|line| line.split_once(" lost "));
        lost.map(|(_, what)| what.trim_end()).collect()
    }

    fn says(&self, what: &str) -> usize {
        self.said.iter().filter(|line| line.contains(what)).count()
    }
}

fn take(len: usize, operands: &str, medium: Medium) -> Took {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), pattern(len)).expect("written");
    let plan = plan(&format!("if={} {operands}", file.path().display()));
    let mut monitor = Monitor::embedded("dd".to_owned(), Locale::default());
    let never = || unreachable!("it is named");
    let mut source = Source::open(Arc::new(medium), &plan.input, never, &mut monitor).expect("opened");
    let mut intake = Intake::new(&plan);
    let mut block = vec![b'#'; plan.input.ibs];
    let mut records = Vec::new();
    loop {
        match intake.next(&mut block, &mut source, &mut monitor).expect("it goes on") {
            Step::Record(len) => records.push(block[..len].to_vec()),
            Step::Again => {}
            Step::End => break,
        }
        assert!(records.len() < 1000, "it does not end");
    }
    intake.ending.name_all(&mut monitor);
    let name = format!(" of {}", file.path().display());
    let said = monitor.messages().iter().map(|line| line.replace(&name, "")).collect();
    Took { records, read: monitor.tally.read, bytes: intake.bytes, failed: intake.ending.failed, said }
}

/// The pattern with `pad` where it is bad, cut to blocks, the last one filled.
fn padded(len: usize, bad: &[std::ops::Range<u64>], block: usize) -> Vec<Vec<u8>> {
    let mut data = pattern(len);
    for bad in bad {
        let range = usize::try_from(bad.start).expect("small")..usize::try_from(bad.end).expect("small");
        data[range].fill(0);
    }
    data.resize(len.next_multiple_of(block), 0);
    data.chunks(block).map(<[u8]>::to_vec).collect()
}

#[test]
fn readable_pieces_are_moved_together() {
    let mut buf = *b"ab__cd_e";
    let len = close_up(&mut buf, 8, &[(2, 4), (6, 7)]);
    assert_eq!(&buf[..len], b"abcde");
}

#[test]
fn a_block_without_losses_stays() {
    let mut buf = *b"abcd";
    assert_eq!(close_up(&mut buf, 4, &[]), 4);
    assert_eq!(&buf, b"abcd");
}

#[test]
fn one_bad_area_across_blocks_is_one_range_of_its_whole_length() {
    for partial in [false, true] {
        let bad = [1536..3584];
        let took = take(8192, "bs=1024 conv=noerror,sync", Medium { partial, ..Medium::with_bad(&bad) });
        assert_eq!(took.lost(), ["2048 bytes at offset 1536"], "{:?}", took.said);
        assert_eq!(took.records, padded(8192, &bad, 1024));
        // A block that lost anything is a partial record.
        assert_eq!((took.read, took.failed), (Records { full: 5, partial: 3 }, true));
    }
}

#[test]
fn areas_apart_are_named_each_by_itself_and_in_order() {
    let bad = [512..1024, 1536..2048, 4096..4608];
    let took = take(8192, "bs=2048 conv=noerror,sync", Medium::with_bad(&bad));
    let named = ["512 bytes at offset 512", "512 bytes at offset 1536", "512 bytes at offset 4096"];
    assert_eq!(took.lost(), named, "{:?}", took.said);
    assert_eq!(took.records, padded(8192, &bad, 2048));
    assert_eq!(took.read, Records { full: 2, partial: 2 });
}

#[test]
fn a_loss_that_ends_where_a_block_does_is_not_joined_with_one_further_on() {
    let took = take(4096, "bs=1024 conv=noerror,sync", Medium::with_bad(&[512..1024, 2048..2560]));
    assert_eq!(took.lost(), ["512 bytes at offset 512", "512 bytes at offset 2048"]);
}

#[test]
fn a_loss_is_named_before_the_next_one_is_met() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), pattern(4096)).expect("written");
    let plan = plan(&format!("if={} bs=1024 conv=noerror,sync", file.path().display()));
    let mut monitor = Monitor::embedded("dd".to_owned(), Locale::default());
    let medium = Medium::with_bad(&[0..512, 1024..1536, 1600..2048]);
    let mut source = Source::open(Arc::new(medium), &plan.input, || unreachable!("named"), &mut monitor).expect("open");
    let mut intake = Intake::new(&plan);
    let lost = |monitor: &Monitor| monitor.messages().iter().filter(|line| line.contains("dd: lost ")).count();
    let mut block = vec![0; 1024];
    assert!(matches!(intake.next(&mut block, &mut source, &mut monitor), Ok(Step::Record(1024))));
    assert_eq!(lost(&monitor), 0, "it may go on in the next block");
    assert!(matches!(intake.next(&mut block, &mut source, &mut monitor), Ok(Step::Record(1024))));
    assert_eq!(lost(&monitor), 1, "a death may come");
}

#[test]
fn without_sync_what_is_lost_is_left_out() {
    let took = take(4096, "bs=1024 conv=noerror", Medium::with_bad(&[1024..2048, 2560..3072]));
    let data = pattern(4096);
    assert_eq!(took.records, [&data[..1024], &data[2048..2560], &data[3072..]]);
    assert_eq!(took.lost(), ["1024 bytes at offset 1024", "512 bytes at offset 2560"]);
    assert_eq!((took.read, took.failed), (Records { full: 2, partial: 1 }, true));
}

#[test]
fn a_block_that_a_second_look_brings_whole_is_a_full_record_and_no_failure() {
    let took = take(4096, "bs=1024 conv=noerror,sync", Medium { tries: Some(3), ..Medium::with_bad(&[1024..1536]) });
    assert_eq!(took.records, padded(4096, &[], 1024));
    assert_eq!((took.read, took.failed, took.lost().len()), (Records { full: 4, partial: 0 }, false, 0));
}

#[test]
fn a_loss_at_the_end_reaches_as_far_as_the_file() {
    let took = take(2500, "bs=1024 conv=noerror,sync", Medium::with_bad(&[2048..2500]));
    assert_eq!(took.lost(), ["452 bytes at offset 2048"]);
    assert_eq!(took.records, padded(2500, &[2048..2500], 1024));
    let took = take(2500, "bs=1024 conv=noerror", Medium::with_bad(&[2048..2500]));
    assert_eq!(took.records, padded(2500, &[], 1024)[..2].to_vec());
}

#[test]
fn lost_ok_is_no_failure_and_is_named_all_the_same() {
    let took = take(4096, "bs=1024 conv=noerror,sync lost=ok", Medium::with_bad(&[1024..1536]));
    assert_eq!((took.failed, took.lost()), (false, vec!["512 bytes at offset 1024"]));
}

#[test]
fn a_device_that_goes_away_ends_the_input_where_it_did() {
    for (partial, kept) in [(false, 1024), (true, 1500)] {
        let gone = Medium { errno: Some(Errno::NODEV), partial, ..Medium::with_bad(&[1500..u64::MAX]) };
        let took = take(8192, "bs=1024 conv=noerror", gone);
        assert_eq!(took.records.concat(), pattern(kept));
        assert_eq!(took.said.iter().filter(|line| line.contains("input is gone")).count(), 1, "{:?}", took.said);
        assert_eq!(took.says(&format!("input is gone at offset {kept}\n")), 1, "{:?}", took.said);
        assert!(took.failed && took.lost().is_empty());
    }
}

/// What has no end that is known and only fails: an empty file does so as well as a character device.
#[test]
fn after_a_hundred_errors_in_a_row_an_input_is_gone() {
    for (rest, blocks) in [("conv=noerror", 0), ("conv=noerror,sync", 99)] {
        let took =
            take(0, &format!("bs=512 {rest}"), Medium { errno: Some(Errno::IO), ..Medium::with_bad(&[0..u64::MAX]) });
        assert_eq!(took.says("Input/output error"), 100, "{rest}");
        // Each error is one block further on.
        assert_eq!(took.says(&format!("input is gone at offset {}\n", 99 * 512)), 1, "{:?}", took.said.last());
        assert_eq!(took.records, vec![vec![0; 512]; blocks], "{rest}");
        assert_eq!((took.read, took.failed), (Records { full: 0, partial: blocks as u64 }, true));
    }
}

fn stream(reads: impl IntoIterator<Item = std::result::Result<usize, Errno>>) -> Medium {
    Medium { stream: true, reads: Mutex::new(reads.into_iter().collect()), ..Medium::default() }
}

#[test]
fn a_good_read_between_errors_begins_the_count_anew() {
    let bad = || std::iter::repeat_n(Err(Errno::IO), 99);
    let took = take(1024, "bs=512 conv=noerror", stream(bad().chain([Ok(512)]).chain(bad())));
    assert_eq!(took.records.concat(), pattern(1024));
    assert_eq!((took.says("input is gone"), took.says("Input/output error"), took.failed), (0, 198, true));
    let took = take(1024, "bs=512 conv=noerror lost=ok", stream(bad()));
    assert_eq!((took.records.concat(), took.failed), (pattern(1024), false));
    let took = take(1024, "bs=512 conv=noerror lost=ok", stream(bad().chain([Err(Errno::IO)])));
    assert_eq!((took.records.len(), took.says("input is gone at offset 0\n"), took.failed), (0, 1, true));
}

#[test]
fn what_a_stream_gave_before_an_error_is_a_partial_record() {
    // fullblock reads on, and meets the error with bytes in hand.
    let reads = || stream([Ok(300), Err(Errno::IO)]);
    let took = take(1024, "bs=512 iflag=fullblock conv=noerror", reads());
    assert_eq!(took.records, [&pattern(1024)[..300], &pattern(1024)[300..812], &pattern(1024)[812..]]);
    assert_eq!(took.read, Records { full: 1, partial: 2 });
    let took = take(1024, "bs=512 iflag=fullblock conv=noerror,sync", reads());
    let first = [pattern(300), vec![0; 212]].concat();
    assert_eq!((took.records[0].clone(), took.read), (first, Records { full: 1, partial: 2 }));
}

#[test]
fn an_error_of_the_call_is_no_bad_spot_and_ends_at_once() {
    let took = take(1024, "bs=512 conv=noerror", stream([Ok(512), Err(Errno::INVAL)]));
    assert_eq!(took.records.concat(), pattern(512));
    assert_eq!((took.says("Invalid argument"), took.says("gone"), took.failed), (1, 0, true));
}

#[test]
fn a_stream_that_says_that_it_is_gone_is_not_asked_again() {
    let took = take(1024, "bs=512 conv=noerror,sync", stream([Ok(512), Err(Errno::NXIO)]));
    assert_eq!(took.records.concat(), pattern(512));
    assert_eq!((took.says("gone"), took.failed), (1, true));
}

fn warnings(operands: &str, reads: &[std::result::Result<usize, Errno>]) -> Vec<String> {
    let medium = Medium { reads: Mutex::new(reads.iter().copied().collect()), ..Medium::default() };
    let took = take(6000, operands, medium);
    took.said.iter().filter(|line| line.contains("partial read")).cloned().collect()
}

#[test]
fn a_short_read_is_warned_of_once_another_read_follows() {
    let warning = |len: usize| format!("dd: warning: partial read ({len} bytes); suggest iflag=fullblock\n");
    assert_eq!(warnings("bs=1000 count=4", &[Ok(300)]), [warning(300)]);
    assert_eq!(warnings("bs=1000 count=4", &[Ok(300), Ok(200), Ok(1)]), [warning(300)], "once");
    assert_eq!(warnings("bs=1000 count=1", &[Ok(300)]), Vec::<String>::new(), "nothing follows");
    assert_eq!(warnings("bs=1000", &[Ok(300)]), Vec::<String>::new(), "nobody counts blocks");
    assert_eq!(warnings("bs=4000 count=9", &[]), Vec::<String>::new(), "the last one is short");
}

#[test]
fn a_last_read_that_count_cuts_short_is_whole() {
    assert_eq!(warnings("bs=1000 count=1300B", &[]), Vec::<String>::new());
    // A short read is only short if it is shorter than the one after it was meant to be.
    for len in [300, 500] {
        assert_eq!(warnings("bs=1000 count=1300B", &[Ok(len)]), Vec::<String>::new());
    }
    assert_eq!(warnings("bs=1000 count=1300B", &[Ok(299)]).len(), 1);
}

#[test]
fn a_short_read_before_an_error_that_is_passed_over_is_not_warned_of() {
    let reads = [Ok(300), Err(Errno::IO)];
    let medium = |stream| Medium { stream, reads: Mutex::new(reads.into()), ..Medium::default() };
    for (stream, what) in [(true, "a stream"), (false, "a medium")] {
        let took = take(4000, "bs=1000 count=4 conv=noerror,sync", medium(stream));
        assert_eq!(took.says("partial read"), 0, "{what}: {:?}", took.said);
    }
}

#[test]
fn the_bytes_that_a_speed_limits_are_those_that_were_read() {
    assert_eq!(take(2500, "bs=1000", Medium::default()).bytes, 2500);
    assert_eq!(take(2500, "bs=1000 conv=sync", Medium::default()).bytes, 2500);
    assert_eq!(take(2500, "bs=1000 skip=1 count=1200B", Medium::default()).bytes, 1200);
}

#[test]
fn without_noerror_what_is_before_the_bad_sector_is_the_last_record() {
    let bad = [1536..2048];
    for partial in [false, true] {
        let took = take(4096, "bs=1024", Medium { partial, ..Medium::with_bad(&bad) });
        assert_eq!(took.records.concat(), pattern(1536));
        assert_eq!((took.failed, took.says("Input/output error")), (true, 1));
    }
    // A block that can be had after all is no failed block.
    let took = take(4096, "bs=1024", Medium { tries: Some(2), ..Medium::with_bad(&bad) });
    assert_eq!((took.records.concat(), took.failed, took.said.len()), (pattern(4096), false, 0));
}

#[test]
fn an_error_where_the_file_has_come_to_end_is_no_whole_block() {
    let ends = || Medium { tries: Some(1), heals_to: Some(0), ..Medium::with_bad(&[1024..4096]) };
    let took = take(4096, "bs=1024", ends());
    assert_eq!(took.records.concat(), pattern(1024));
    assert_eq!((took.failed, took.says("Input/output error")), (true, 1), "{:?}", took.said);
    for conv in ["noerror,sync", "noerror"] {
        let took = take(4096, &format!("bs=1024 conv={conv}"), ends());
        assert_eq!((took.records.concat(), took.lost().len()), (pattern(1024), 0), "{:?}", took.said);
        assert_eq!(took.read, Records { full: 1, partial: 0 });
    }
}

#[test]
fn after_an_error_inside_a_block_of_unknown_size_the_next_block_follows() {
    let reads = Mutex::new([Ok(300), Err(Errno::IO)].into());
    let medium = Medium { sizeless: true, reads, ..Medium::default() };
    let took = take(2048, "bs=512 iflag=fullblock conv=noerror,sync", medium);
    let data = pattern(2048);
    let first = [&data[..300], &[0; 212][..]].concat();
    assert_eq!(took.records, [&first[..], &data[512..1024], &data[1024..1536], &data[1536..]]);
    assert_eq!((took.read, took.failed), (Records { full: 3, partial: 1 }, true));
}
