//! What copies past the page cache leave in it.

use std::fs::File;
use std::path::Path;

use crate::BULK;
use crate::rig::{Copy, MIB, file, make_cold, noise, scratch, skip};

fn cached(path: &Path) -> u64 {
    let file = File::open(path).expect("a file");
    let len = file.metadata().expect("a file").len();
    fdd_io::cache::cached(&file, 0..len).expect("the kernel tells about our own file").cached
}

#[test]
fn nocache_leaves_nothing_and_neutral_leaves_what_was_there() {
    let home = scratch();
    let (input, output) = (home.path().join("in"), home.path().join("out"));
    let content = noise(24 * MIB + 3000, 16);
    file(&input, &content);
    make_cold(&input);
    if cached(&input) > 0 {
        return skip("the file system keeps its pages");
    }
    for strategy in BULK {
        // Cold, and wholly cached: nocache drops that too, neutral keeps it.
        for (word, warm, left) in
            [("nocache", false, false), ("nocache", true, false), ("neutral", false, false), ("neutral", true, true)]
        {
            make_cold(&input);
            if warm {
                drop(std::fs::read(&input).expect("the input"));
            }
            let before = cached(&input);
            let _ = std::fs::remove_file(&output);
            let operands = ["bs=64K", &format!("iflag={word}"), &format!("oflag={word}")].map(str::to_owned);
            let operands: Vec<&str> = operands.iter().map(String::as_str).collect();
            let seen = Copy::new(strategy, &input, &output, &operands).run();
            assert_eq!(seen.code, Some(0), "{}", seen.said);
            assert!(seen.moved_by(strategy) >= 24 * MIB as u64);
            let want = if left { before } else { 0 };
            assert_eq!((cached(&input), cached(&output)), (want, 0), "{strategy} {word} warm={warm}");
            assert!(std::fs::read(&output).expect("an output") == content);
        }
    }
}

#[test]
fn neutral_over_somebody_elses_cached_pages_leaves_them_cached() {
    let home = scratch();
    let (input, output) = (home.path().join("in"), home.path().join("out"));
    let content = noise(24 * MIB, 17);
    file(&input, &content);
    for strategy in BULK {
        file(&output, &noise(24 * MIB, 18));
        make_cold(&output);
        if cached(&output) > 0 {
            return skip("the file system keeps its pages");
        }
        drop(std::fs::read(&output).expect("the old content"));
        let before = cached(&output);
        let seen = Copy::new(strategy, &input, &output, &["bs=1M", "oflag=neutral", "conv=notrunc"]).run();
        assert_eq!((seen.code, cached(&output)), (Some(0), before), "{strategy}");
        assert!(std::fs::read(&output).expect("an output") == content);
    }
}

/// Whether the kernel and the file system here can write so that nothing stays.
fn can_leave_the_cache(home: &Path) -> bool {
    let file = File::create(home.join("probe")).expect("a file");
    let block = [1; 4096];
    let flags = rustix::io::ReadWriteFlags::from_bits_retain(0x80);
    let wrote = rustix::io::pwritev2(&file, &[std::io::IoSlice::new(&block)], 0, flags);
    matches!(rustix::fs::fstatfs(&file).map(|stat| stat.f_type), Ok(0xEF53 | 0x5846_5342)) && wrote.is_ok()
}

#[test]
fn a_large_new_file_that_is_synced_leaves_the_cache_as_it_is_written() {
    let home = scratch();
    if !can_leave_the_cache(home.path()) {
        return skip("no RWF_DONTCACHE");
    }
    let output = home.path().join("out");
    let zeros = Path::new("/dev/zero");
    // The first 32 MiB stay.
    let head = (32 * MIB / 4096) as u64;
    for (strategy, operands) in
        [("pump", ["bs=1M", "count=128", "conv=fdatasync"]), ("coalesce", ["bs=512", "count=262144", "conv=fsync"])]
    {
        let _ = std::fs::remove_file(&output);
        let seen = Copy::new(strategy, zeros, &output, &operands).run();
        assert_eq!((seen.code, seen.told()), (Some(0), 128 * MIB as u64), "{}", seen.said);
        // The kernel drops pages a moment after they are on the medium; most are long since.
        let left = cached(&output);
        assert!(left < 2 * head, "{strategy}: {left} pages of 128 MiB");
    }
}
