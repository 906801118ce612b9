//! No room: the file and the counts are the plain loop's.

use crate::BULK;
use crate::rig::{Copy, Image, MIB, file, noise, scratch};

/// Where the room ends: in the first piece, at an edge, in the middle of a later one.
const ROOM: [usize; 3] = [MIB + 4096, 8 * MIB, 13 * MIB + 12288];
const OPERANDS: [&[&str]; 4] =
    [&["bs=64K"], &["bs=1000"], &["bs=5M", "conv=fsync"], &["ibs=4K", "obs=12K", "conv=fdatasync"]];

#[test]
fn memory_that_is_full_leaves_what_fits() {
    let home = scratch();
    let input = home.path().join("in");
    let content = noise(20 * MIB, 9);
    file(&input, &content);
    for room in ROOM {
        let Some(memory) = Image::memory(room) else { return };
        let output = memory.path.join("out");
        for operands in OPERANDS {
            let plain = Copy::new("pump", &input, &output, operands).run();
            let plain_bytes = std::fs::read(&output).expect("an output");
            for strategy in BULK {
                std::fs::remove_file(&output).expect("an output");
                let fast = Copy::new(strategy, &input, &output, operands).run();
                let bytes = std::fs::read(&output).expect("an output");
                assert_eq!((fast.code, &fast.said), (plain.code, &plain.said), "{strategy} {operands:?} in {room}");
                assert!(bytes == plain_bytes, "{strategy} {operands:?} in {room}: {} bytes", bytes.len());
                assert_eq!(fast.told(), bytes.len() as u64);
            }
            std::fs::remove_file(&output).expect("an output");
        }
    }
}

/// On a disk the last blocks go to whoever comes first, data or the tree that finds them: lengths may differ by a few.
const SLACK: u64 = 64 << 10;

#[test]
fn a_full_disk_leaves_a_prefix_that_the_counts_tell_and_no_blocks_behind_it() {
    let home = scratch();
    let input = home.path().join("in");
    let content = noise(60 * MIB, 10);
    file(&input, &content);
    let Some(disk) = Image::mounted(32 * MIB, &["mkfs.ext4", "-q", "-F", "-m", "0"]) else { return };
    for filled in [0, 3 * MIB + 4096, 14 * MIB] {
        file(&disk.path.join("filler"), &noise(filled, 11));
        for operands in OPERANDS {
            let output = disk.path.join("out");
            let plain = Copy::new("pump", &input, &output, operands).run();
            for strategy in BULK {
                std::fs::remove_file(&output).expect("an output");
                let fast = Copy::new(strategy, &input, &output, operands).run();
                let bytes = std::fs::read(&output).expect("an output");
                assert!(content.starts_with(&bytes), "{strategy} {operands:?}");
                assert_eq!(fast.told(), bytes.len() as u64, "{strategy} {operands:?}: {}", fast.said);
                assert!(
                    fast.told().abs_diff(plain.told()) <= SLACK,
                    "{strategy} {operands:?}: {} {}",
                    fast.told(),
                    plain.told()
                );
                assert_eq!((fast.code, fast.said.lines().next()), (plain.code, plain.said.lines().next()));
                let meta = std::fs::metadata(&output).expect("an output");
                let blocks = std::os::unix::fs::MetadataExt::blocks(&meta) * 512;
                assert!(blocks <= meta.len().next_multiple_of(4096) + SLACK, "{strategy}: {blocks} for {}", meta.len());
            }
            std::fs::remove_file(&output).expect("an output");
        }
    }
}

#[test]
fn a_limit_on_the_size_of_files_is_met_by_the_plain_loop() {
    let home = scratch();
    let (input, output) = (home.path().join("in"), home.path().join("out"));
    file(&input, &noise(20 * MIB, 12));
    // In blocks of 512 bytes, as the shell counts; SIGXFSZ is ignored, so that the write tells.
    let under = ["sh", "-c", "trap '' XFSZ; ulimit -f 20000; exec \"$@\"", "sh"].map(str::to_owned);
    for operands in [&["bs=64K", "conv=fsync"][..], &["bs=1000"], &["bs=3M", "conv=fsync"]] {
        let mut all = Vec::new();
        for way in ["pump", "uring", "overlap"] {
            let _ = std::fs::remove_file(&output);
            let seen = Copy { under: &under, ..Copy::new(way, &input, &output, operands) }.run();
            assert_eq!(seen.told(), 20000 * 512, "{way} {operands:?}: {}", seen.said);
            all.push((seen.code, seen.said, std::fs::read(&output).expect("an output")));
        }
        assert!(all[1..].iter().all(|fast| *fast == all[0]), "{operands:?}");
    }
}
