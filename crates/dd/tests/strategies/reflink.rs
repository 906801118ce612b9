//! `reflink=`: shared where the file system can, copied or refused where it cannot.

use std::path::Path;

use crate::rig::{Copy, Image, MIB, done, file, noise, scratch};

/// Blocks that files share, as the file system tells of extents.
fn shares(path: &Path) -> bool {
    done("filefrag", &["-v", &path.to_string_lossy()]).is_some_and(|text| text.contains("shared"))
}

fn on(disk: &Image) {
    let (input, output) = (disk.path.join("in"), disk.path.join("out"));
    let content = noise(6 * MIB + 123, 19);
    file(&input, &content);
    for operands in [
        &["bs=64K"][..],
        &["bs=1000"],
        &["ibs=1000", "obs=4096"],
        &["bs=64K", "skip=2"],
        &["bs=64K", "count=7"],
        &["bs=4K", "seek=3", "conv=fsync"],
        &["bs=64K", "skip=1000"],
    ] {
        let plain = Copy::new("pump", &input, &output, operands).run();
        let want = std::fs::read(&output).expect("an output");
        std::fs::remove_file(&output).expect("an output");
        for word in ["reflink=auto", "reflink=always"] {
            let asked = [operands, &[word]].concat();
            let seen = Copy { strategy: None, ..Copy::new("", &input, &output, &asked) }.run();
            if operands.contains(&"skip=1000") && word == "reflink=always" {
                continue;
            }
            assert_eq!((seen.code, &seen.said), (plain.code, &plain.said), "{asked:?}");
            assert!(std::fs::read(&output).expect("an output") == want, "{asked:?}");
            assert_eq!(seen.moved_by("reflink"), want.len().saturating_sub(seek(operands)) as u64, "{asked:?}");
            assert!(want.is_empty() || shares(&output), "{asked:?}");
            std::fs::remove_file(&output).expect("an output");
        }
    }
    inherited(&input, &output);
    let _ = std::fs::remove_file(&output);
    // Where ranges are not of whole blocks, `auto` copies and `always` says why it does not.
    for operands in [
        &["bs=1000", "skip=1"][..],
        &["bs=1000", "count=3"],
        &["bs=64K", "conv=sync"],
        &["ibs=4K", "obs=16K", "conv=osync", "count=6"],
        &["bs=64K", "conv=ucase"],
    ] {
        let plain = Copy::new("pump", &input, &output, operands).run();
        let want = std::fs::read(&output).expect("an output");
        let seen =
            Copy { strategy: None, ..Copy::new("", &input, &output, &[operands, &["reflink=auto"]].concat()) }.run();
        assert_eq!((seen.code, &seen.said, seen.moved_by("reflink")), (plain.code, &plain.said, 0), "{operands:?}");
        assert!(std::fs::read(&output).expect("an output") == want, "{operands:?}");
        refused(&input, &output, operands);
    }
}

/// Descriptors that were handed over stand behind what was shared.
fn inherited(input: &Path, output: &Path) {
    for offsets in [(0, 0), (8192, 4096)] {
        let copy = |strategy, operands| {
            let _ = std::fs::remove_file(output);
            let seen = Copy { strategy, inherited: Some(offsets), ..Copy::new("", input, output, operands) }.run();
            (seen, std::fs::read(output).expect("an output"))
        };
        let (plain, want) = copy(Some("pump"), &["bs=64K", "count=10"][..]);
        let (seen, got) = copy(None, &["bs=64K", "count=10", "reflink=auto"]);
        assert_eq!((seen.code, &seen.said, seen.offsets), (plain.code, &plain.said, plain.offsets), "{offsets:?}");
        assert!(got == want && seen.moved_by("reflink") == 640 << 10, "{offsets:?}: {:?}", seen.moved);
    }
}

fn seek(operands: &[&str]) -> usize {
    if operands.contains(&"seek=3") { 3 * 4096 } else { 0 }
}

fn refused(input: &Path, output: &Path, operands: &[&str]) {
    let seen = Copy { strategy: None, ..Copy::new("", input, output, &[operands, &["reflink=always"]].concat()) }.run();
    assert_eq!(seen.code, Some(1), "{operands:?}: {}", seen.said);
    assert!(seen.said.contains("failed to clone into"), "{operands:?}: {}", seen.said);
    assert_eq!(seen.told(), 0, "{operands:?}");
}

#[test]
fn btrfs_shares_blocks() {
    if let Some(disk) = Image::mounted(128 * MIB, &["mkfs.btrfs", "-q"]) {
        on(&disk);
    }
}

#[test]
fn xfs_shares_blocks() {
    if let Some(disk) = Image::mounted(320 * MIB, &["mkfs.xfs", "-q", "-m", "reflink=1"]) {
        on(&disk);
    }
}

#[test]
fn never_is_the_default() {
    let Some(disk) = Image::mounted(128 * MIB, &["mkfs.btrfs", "-q"]) else { return };
    let (input, output) = (disk.path.join("in"), disk.path.join("out"));
    file(&input, &noise(MIB, 20));
    for operands in [&["bs=64K"][..], &["bs=64K", "reflink=never"]] {
        let seen = Copy { strategy: None, ..Copy::new("", &input, &output, operands) }.run();
        assert_eq!((seen.code, seen.moved.get("reflink"), shares(&output)), (Some(0), None, false));
    }
}

#[test]
fn where_nothing_can_be_shared_auto_copies_and_always_says_why() {
    let home = scratch();
    let Some(memory) = Image::memory(8 * MIB) else { return };
    let (input, output) = (home.path().join("in"), memory.path.join("out"));
    let content = noise(MIB, 21);
    file(&input, &content);
    let seen = Copy { strategy: None, ..Copy::new("", &input, &output, &["bs=64K", "reflink=auto"]) }.run();
    assert_eq!(seen.code, Some(0), "{}", seen.said);
    assert!(std::fs::read(&output).expect("an output") == content);
    refused(&input, &output, &["bs=64K"]);
    refused(&input, Path::new("/dev/null"), &["bs=64K"]);
}
