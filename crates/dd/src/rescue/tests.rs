//! Which pieces of a failed block are read again, how often, and through which descriptor.

#![allow(clippy::single_range_in_vec_init)] // A list of bad ranges may well have one.

use std::ops::Range;

use fdd_sys::retry::Steady;

use super::*;
use crate::testing::{Medium, pattern};

struct Got {
    rescued: Rescued,
    block: Vec<u8>,
    asked: Vec<(u64, usize)>,
}

/// Reads `range` of a file of `len` bytes, `got` of it known, over `medium`.
fn rescue(medium: &Medium, len: usize, range: Range<usize>, got: usize, go_on: bool) -> Got {
    rescue_twice(medium, len, &[range], got, go_on).remove(0)
}

/// The same for several blocks, one after the other, by one rescue.
fn rescue_twice(medium: &Medium, len: usize, ranges: &[Range<usize>], got: usize, go_on: bool) -> Vec<Got> {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), pattern(len)).expect("written");
    let file = std::fs::File::open(file.path()).expect("there");
    let mut rescue = Rescue::new(medium, file.as_fd());
    let one = |range: &Range<usize>| {
        let mut block = vec![b'#'; range.len()];
        block[..got].copy_from_slice(&pattern(len)[range.start..range.start + got]);
        let at = widen(range.start);
        let rescued = rescue.block(medium, file.as_fd(), &mut block, got, at, go_on, &mut Steady);
        let asked = std::mem::take(&mut *medium.asked.lock().expect("no panic"));
        Got { rescued: rescued.expect("not stopped"), block, asked }
    };
    ranges.iter().map(one).collect()
}

/// The pattern, with `#` where it is lost.
fn wanted(range: Range<usize>, lost: &[(usize, usize)]) -> Vec<u8> {
    let mut block = pattern(range.end)[range].to_vec();
    lost.iter().for_each(|&(start, end)| block[start..end].fill(b'#'));
    block
}

#[test]
fn exactly_the_bad_sectors_are_lost_wherever_the_block_lies() {
    for direct in [None, Some(512)] {
        for (at, bad) in [(0, 1024..1536), (0, 0..512), (512, 4096..4608), (100, 1024..1536), (1000, 1024..2048)] {
            let medium = Medium { direct, ..Medium::with_bad(std::slice::from_ref(&bad)) };
            let range = at..at + 8192;
            let got = rescue(&medium, 20_000, range.clone(), 0, true);
            let usize_of = |n: u64| usize::try_from(n).expect("small");
            let lost = (usize_of(bad.start).max(at) - at, usize_of(bad.end) - at);
            assert_eq!(
                got.rescued,
                Rescued { lost: vec![lost], len: 8192, vanished: false },
                "{at} {bad:?} {direct:?}"
            );
            assert_eq!(got.block, wanted(range, &[lost]), "{at} {bad:?} {direct:?}");
        }
    }
}

#[test]
fn bad_sectors_apart_stay_apart_and_neighbours_are_one() {
    let medium = Medium { direct: Some(512), ..Medium::with_bad(&[512..1024, 1024..1536, 2048..2560, 7680..8192]) };
    let got = rescue(&medium, 8192, 0..8192, 0, true);
    assert_eq!(got.rescued.lost, [(512, 1536), (2048, 2560), (7680, 8192)]);
    assert_eq!(got.block, wanted(0..8192, &got.rescued.lost));
}

#[test]
fn a_failed_block_is_halved_on_the_edges_of_sectors() {
    let cached = Medium::with_bad(&[1024..1536]);
    let bad = [(1024, 512); 3];
    let asked = rescue(&cached, 8192, 0..4096, 0, true).asked;
    let wanted = [&[(0, 4096), (0, 2048), (0, 1024), (1024, 1024)][..], &bad, &[(1536, 512), (2048, 2048)]].concat();
    assert_eq!(asked, wanted);
    let asked = rescue(&cached, 8192, 100..3100, 0, true).asked;
    let edges = [&[(100, 3000), (100, 1436), (100, 412), (512, 1024), (512, 512)][..], &bad, &[(1536, 1564)]].concat();
    assert_eq!(asked, edges);
    // Past the cache the same, in whole sectors.
    let direct = Medium { direct: Some(512), ..Medium::with_bad(&[1024..1536]) };
    let asked = rescue(&direct, 8192, 100..3100, 0, true).asked;
    let sectors = [&[(0, 3584), (0, 1536), (0, 512), (512, 1024), (512, 512)][..], &bad, &[(1536, 2048)]].concat();
    assert_eq!(asked, sectors);
}

#[test]
fn a_sector_that_comes_in_part_at_a_later_try_is_lost() {
    for direct in [None, Some(512)] {
        let medium = Medium { direct, tries: Some(2), heals_to: Some(100), ..Medium::with_bad(&[512..1024]) };
        assert_eq!(rescue(&medium, 1024, 0..1024, 0, true).rescued.lost, [(512, 1024)]);
    }
}

#[test]
fn a_direct_read_that_stops_before_the_wanted_byte_is_no_end() {
    let medium = Medium { direct: Some(512), partial: true, ..Medium::with_bad(&[520..600]) };
    let got = rescue(&medium, 4096, 700..1200, 0, true);
    assert_eq!(got.rescued, Rescued { lost: vec![], len: 500, vanished: false });
    assert_eq!(got.block, wanted(700..1200, &[]));
}

#[test]
fn a_sector_is_tried_three_times_and_no_more() {
    let tries = |asked: &[(u64, usize)]| asked.iter().filter(|&&asked| asked == (512, 512)).count();
    let medium = Medium { direct: Some(512), ..Medium::with_bad(&[512..1024]) };
    assert_eq!(tries(&rescue(&medium, 1024, 0..1024, 0, true).asked), 3);
    // The first failure is that of both sectors, then this one's own begin.
    let third = Medium { direct: Some(512), tries: Some(3), ..Medium::with_bad(&[512..1024]) };
    let got = rescue(&third, 1024, 0..1024, 0, true);
    assert_eq!((got.rescued.lost, got.block), (vec![], wanted(0..1024, &[])));
    let fourth = Medium { direct: Some(512), tries: Some(4), ..Medium::with_bad(&[512..1024]) };
    assert_eq!(rescue(&fourth, 1024, 0..1024, 0, true).rescued.lost, [(512, 1024)]);
}

#[test]
fn a_drive_that_thinks_long_is_asked_no_more_than_once_from_then_on() {
    let thinks = SLOW / 4 + SLOW;
    let medium = Medium { thinks, direct: Some(512), ..Medium::with_bad(&[0..512, 1024..1536]) };
    let got = rescue_twice(&medium, 2048, &[0..512, 1024..1536], 0, true);
    // Twice at first: the try before is not one that was timed.
    let tries: Vec<usize> = got.iter().map(|got| got.asked.len()).collect();
    assert_eq!(tries, [2, 1]);
    assert!(got.iter().all(|got| got.rescued.lost == [(0, 512)]));
}

#[test]
fn what_is_known_is_not_read_again() {
    let medium = Medium { direct: Some(512), ..Medium::with_bad(&[1024..1536]) };
    let got = rescue(&medium, 4096, 0..4096, 1024, true);
    assert!(got.asked.iter().all(|&(at, _)| at >= 1024), "{:?}", got.asked);
    assert_eq!((got.rescued.lost, got.block), (vec![(1024, 1536)], wanted(0..4096, &[(1024, 1536)])));
}

#[test]
fn one_that_does_not_go_on_stops_before_the_first_bad_sector() {
    for at in [0, 100] {
        let medium = Medium { direct: Some(512), ..Medium::with_bad(&[1024..1536, 3072..3584]) };
        let got = rescue(&medium, 8192, at..at + 4096, 0, false);
        assert_eq!((got.rescued.len, got.rescued.lost.len()), (1024 - at, 1));
        assert_eq!(got.block[..1024 - at], wanted(at..1024, &[]));
        let last = got.asked.iter().map(|&(at, len)| at + widen(len)).filter(|&end| end > 4096 + 512).count();
        assert_eq!(last, 0, "behind the block: {:?}", got.asked);
    }
}

#[test]
fn an_input_that_has_become_shorter_ends_there() {
    for direct in [None, Some(512)] {
        let medium = Medium { direct, ..Medium::with_bad(&[0..512]) };
        let got = rescue(&medium, 3000, 0..3000, 0, true);
        assert_eq!((got.rescued.len, got.rescued.lost), (3000, vec![(0, 512)]));
        let got = rescue_beyond(&medium);
        assert_eq!((got.rescued.len, got.rescued.lost), (700, vec![(0, 512)]), "{direct:?}");
        assert_eq!(got.block[512..700], pattern(700)[512..]);
    }
}

/// A block of 2048 bytes of a file that has 700 by now.
fn rescue_beyond(medium: &Medium) -> Got {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), pattern(700)).expect("written");
    let file = std::fs::File::open(file.path()).expect("there");
    let mut block = vec![b'#'; 2048];
    let rescued = Rescue::new(medium, file.as_fd()).block(medium, file.as_fd(), &mut block, 0, 0, true, &mut Steady);
    Got { rescued: rescued.expect("not stopped"), block, asked: Vec::new() }
}

#[test]
fn a_device_that_is_gone_is_not_asked_again() {
    let medium = Medium { errno: Some(Errno::NODEV), direct: Some(512), ..Medium::with_bad(&[0..u64::MAX]) };
    let got = rescue(&medium, 8192, 0..4096, 512, true);
    assert_eq!((got.rescued.vanished, got.rescued.lost, got.asked.len()), (true, vec![(512, 4096)], 1));
}

#[test]
fn past_the_cache_whole_sectors_are_read_and_the_wanted_part_is_taken() {
    let medium = Medium { direct: Some(512), ..Medium::default() };
    let got = rescue(&medium, 8192, 700..2000, 100, true);
    assert_eq!(got.asked, [(512, 1536)]);
    assert_eq!(got.block, wanted(700..2000, &[]));
}

#[test]
fn a_file_that_takes_pages_only_is_read_by_pages() {
    let medium = Medium { direct: Some(4096), ..Medium::with_bad(&[4096..8192]) };
    let got = rescue(&medium, 20_000, 512..16_000, 0, true);
    // What looked like sectors of 512 is refused once.
    assert_eq!((got.asked[0], got.asked[1]), ((512, 15_872), (0, 16_384)), "{:?}", got.asked);
    assert_eq!(got.rescued.lost, [(4096 - 512, 8192 - 512)]);
    assert_eq!(got.block, wanted(512..16_000, &got.rescued.lost));
}

#[test]
fn a_file_that_refuses_pages_too_is_read_through_the_cache() {
    let medium = Medium { direct: Some(65_536), ..Medium::with_bad(&[1024..1536]) };
    let got = rescue(&medium, 8192, 0..4096, 0, true);
    assert_eq!((got.rescued.lost, got.block), (vec![(1024, 1536)], wanted(0..4096, &[(1024, 1536)])));
}
