//! Each fast way, forced, against the plain loop: the same bytes, counts, messages and offsets, and the bytes were really
//! moved by it.
#![allow(clippy::cast_possible_truncation, reason = "sizes of tests are small")]

mod cache;
#[path = "../support/devices.rs"]
mod devices;
mod ends;
mod full;
mod reflink;
mod refused;
mod rig;

use std::path::Path;

use rig::{Copy, MIB, file, noise, scratch};

/// The ways with requests in flight.
const BULK: [&str; 2] = ["uring", "overlap"];

/// What is copied, onto what, and how.
struct Row {
    name: &'static str,
    size: usize,
    /// Length of what was in the output.
    old: usize,
    operands: &'static [&'static str],
    /// Offsets that the descriptors are handed over at.
    inherited: Option<(u64, u64)>,
    /// What the strategy must move at least.
    floor: usize,
}

const fn row(name: &'static str, size: usize, operands: &'static [&'static str], floor: usize) -> Row {
    Row { name, size, old: 0, operands, inherited: None, floor }
}

const LONG: usize = 21 * MIB + 777;
const PIECE: usize = 2 * MIB;

const ROWS: &[Row] = &[
    row("whole file", LONG, &["bs=64K"], 21 * MIB),
    row("small records", LONG, &["bs=512"], 21 * MIB),
    row("records that fit nothing", LONG, &["bs=1000"], 21 * MIB - PIECE),
    row("records larger than a piece", LONG, &["bs=5M"], 20 * MIB),
    row("one record is all", LONG, &["bs=1G"], 0),
    row("gathered", LONG, &["ibs=512", "obs=1536"], 21 * MIB - PIECE),
    row("gathered to large records", LONG, &["ibs=1000", "obs=3000"], 21 * MIB - PIECE),
    row("split", LONG, &["ibs=1M", "obs=4096"], 21 * MIB),
    row("padded", LONG, &["bs=64K", "conv=sync"], 21 * MIB),
    row("padded at the end", LONG, &["ibs=4K", "obs=64K", "conv=osync"], 21 * MIB),
    row("count", LONG, &["bs=64K", "count=130"], 8 * MIB),
    row("count in bytes", LONG, &["bs=64K", "count=9000001B"], 8 * MIB),
    row("count beyond the end", LONG, &["bs=1M", "count=100"], 21 * MIB),
    row("skip", LONG, &["bs=64K", "skip=16"], 20 * MIB),
    row("skip to no page's start", LONG, &["bs=64K", "iseek=1001B"], 20 * MIB),
    row("skip past the end", LONG, &["bs=64K", "skip=10000"], 0),
    row("seek", LONG, &["bs=64K", "seek=3"], 21 * MIB),
    row("seek to no page's start", LONG, &["bs=64K", "oseek=7B"], 21 * MIB),
    row("synced", LONG, &["bs=64K", "conv=fdatasync"], 21 * MIB),
    row("synced, odd records", LONG, &["bs=1000", "conv=fsync"], 21 * MIB - PIECE),
    row("synced, seek", LONG, &["bs=64K", "conv=fsync", "seek=5"], 21 * MIB),
    row("synced, seek to no page's start", LONG, &["bs=1000", "conv=fsync", "seek=5"], 21 * MIB - PIECE),
    row("nocache", LONG, &["bs=64K", "iflag=nocache", "oflag=nocache"], 21 * MIB),
    row("neutral", LONG, &["bs=64K", "iflag=neutral", "oflag=neutral"], 21 * MIB),
    row("direct input", LONG, &["bs=64K", "iflag=direct"], 20 * MIB),
    row("direct output", LONG, &["bs=64K", "oflag=direct"], 20 * MIB),
    row("direct output, last record whole", 8 * MIB, &["bs=4K", "oflag=direct"], 8 * MIB),
    row("direct both, larger than a piece", LONG, &["bs=6M", "iflag=direct", "oflag=direct"], 18 * MIB),
    row("direct, small", LONG, &["bs=4K", "iflag=direct", "oflag=direct"], 20 * MIB),
    row("direct, records that cannot be", LONG, &["bs=1000", "iflag=direct"], 0),
    row("direct, skip that cannot be", LONG, &["bs=4K", "iflag=direct", "iseek=100B"], 0),
    row("direct, seek that cannot be", LONG, &["bs=4K", "oflag=direct", "oseek=100B"], 0),
    row("appended", LONG, &["bs=64K", "oflag=append", "conv=notrunc"], 0),
    row("each block a promise", 2 * MIB, &["bs=64K", "oflag=dsync"], 0),
    row("noerror", LONG, &["bs=64K", "conv=noerror,sync"], 21 * MIB),
    row("sparse", LONG, &["bs=64K", "conv=sparse"], 0),
    row("punch", LONG, &["bs=64K", "conv=punch"], 0),
    row("converted", LONG, &["bs=64K", "conv=ucase"], 0),
    Row { old: 30 * MIB, ..row("overwrite", LONG, &["bs=64K", "conv=notrunc"], 21 * MIB) },
    Row { old: 30 * MIB, ..row("overwrite, synced", LONG, &["bs=64K", "conv=notrunc,fdatasync"], 21 * MIB) },
    Row { old: 9 * MIB, ..row("overwrite and go on", LONG, &["bs=64K", "conv=notrunc,fdatasync"], 21 * MIB) },
    Row { old: 30 * MIB, ..row("overwrite inside", LONG, &["bs=64K", "seek=3", "conv=notrunc,fsync"], 21 * MIB) },
    Row { old: 30 * MIB, ..row("cut at the seek", LONG, &["bs=64K", "seek=3", "conv=fsync"], 21 * MIB) },
    Row { old: 30 * MIB, ..row("nocache over", LONG, &["bs=1M", "conv=notrunc", "oflag=nocache"], 21 * MIB) },
    Row { old: 30 * MIB, ..row("neutral over", LONG, &["bs=1M", "conv=notrunc", "oflag=neutral"], 21 * MIB) },
    Row { inherited: Some((0, 0)), ..row("inherited", LONG, &["bs=64K", "count=200"], 12 * MIB) },
    Row { inherited: Some((4096, 0)), ..row("inherited, moved on", LONG, &["bs=64K", "conv=fsync"], 20 * MIB) },
    Row {
        inherited: Some((77, 5)),
        old: MIB,
        ..row("inherited, anywhere", LONG, &["bs=1000", "conv=notrunc,fsync", "count=20001"], 19 * MIB - PIECE)
    },
];

/// The sizes around every edge: sectors, pages, requests, pieces, the buffer.
const SIZES: &[usize] = &[
    0,
    1,
    511,
    512,
    513,
    4095,
    4096,
    4097,
    PIECE / 2,
    PIECE - 1,
    PIECE,
    PIECE + 1,
    4 * PIECE - 4096,
    4 * PIECE + 4097,
];

/// Runs a row by `strategy` and by the plain loop in `at` and compares.
fn compare(row: &Row, strategy: &str, at: &Path) {
    let input = at.join("in");
    if std::fs::metadata(&input).map_or(u64::MAX, |there| there.len()) != row.size as u64 {
        file(&input, &noise(row.size, 1));
    }
    let old = noise(row.old, 2);
    let mut results = Vec::new();
    for way in ["pump", strategy] {
        // Under one name, since messages name it.
        let output = at.join("out");
        if row.old > 0 {
            file(&output, &old)
        } else {
            drop(std::fs::remove_file(&output))
        }
        let copy = Copy { inherited: row.inherited, ..Copy::new(way, &input, &output, row.operands) };
        let seen = copy.run();
        results.push((seen, std::fs::read(&output).expect("an output")));
    }
    let (fast, fast_bytes) = results.pop().expect("two results");
    let (plain, plain_bytes) = results.pop().expect("two results");
    let row_name = format!("{} (size {}, {:?}) by {strategy}", row.name, row.size, row.operands);
    assert_eq!(fast.code, plain.code, "{row_name}: exit status; said {} and {}", fast.said, plain.said);
    assert_eq!(fast.said, plain.said, "{row_name}: standard error");
    assert_eq!(fast.offsets, plain.offsets, "{row_name}: offsets");
    assert!(
        fast_bytes == plain_bytes,
        "{row_name}: bytes differ from {:?}",
        first_difference(&fast_bytes, &plain_bytes)
    );
    let moved = fast.moved_by(strategy);
    assert!(moved >= row.floor as u64, "{row_name}: moved only {moved} bytes: {:?}", fast.moved);
}

fn first_difference(one: &[u8], other: &[u8]) -> (usize, usize, Option<usize>) {
    (one.len(), other.len(), one.iter().zip(other).position(|(a, b)| a != b))
}

fn sized(size: usize, operands: &'static [&'static str]) -> Row {
    row("size", size, operands, size - size % 4096)
}

#[test]
fn a_forced_way_does_what_the_plain_loop_does() {
    let home = scratch();
    for strategy in BULK {
        for row in ROWS {
            compare(row, strategy, home.path());
        }
    }
}

#[test]
fn every_size_comes_out_whole() {
    let home = scratch();
    for strategy in BULK {
        for &size in SIZES {
            compare(&sized(size, &["bs=512"]), strategy, home.path());
            compare(&sized(size, &["bs=4K", "conv=fdatasync"]), strategy, home.path());
        }
    }
}

#[test]
fn files_in_memory_are_copied_the_same() {
    let Some(memory) = rig::Image::memory(96 * MIB) else { return };
    for strategy in BULK {
        for row in ROWS.iter().filter(|row| !row.operands.iter().any(|operand| operand.contains("direct"))) {
            compare(row, strategy, &memory.path);
        }
    }
}
