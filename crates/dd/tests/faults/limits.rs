//! Little memory, few descriptors, no threads, and disks and limits that end before the input does.

use std::fs::{self, File, OpenOptions};
use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::devices::{Cgroup, Tmpfs};
use crate::fault_run::{WAYS, assert_bytes, dd, operand, pattern, read_all};
use crate::or_skip;

const MIB: u64 = 1 << 20;

/// No row lives on the output of the one before it.
fn anew(to: &Path) {
    drop(fs::remove_file(to));
}

#[test]
fn a_single_task_is_enough() {
    let group = or_skip!(Cgroup::tasks(1));
    let dir = tempfile::tempdir().expect("a directory");
    let (from, to) = (dir.path().join("in"), dir.path().join("out"));
    let data = pattern(24 << 20);
    fs::write(&from, &data).expect("written");
    for rest in ["bs=64k", "bs=1M conv=fsync", "bs=4k status=progress"] {
        let mut operands = vec![operand("if", &from), operand("of", &to)];
        operands.extend(rest.split(' ').map(str::to_owned));
        anew(&to);
        let ran = dd(&operands).cgroup(&group).run().succeeds();
        assert_bytes(&read_all(&to), &data, &ran.show());
    }
}

#[test]
fn eight_descriptors_are_enough() {
    let dir = tempfile::tempdir().expect("a directory");
    let (from, to) = (dir.path().join("in"), dir.path().join("out"));
    let data = pattern(24 << 20);
    fs::write(&from, &data).expect("written");
    for rest in ["bs=64k", "bs=1M conv=fsync", "bs=64k iflag=nocache oflag=nocache"] {
        let mut operands = vec![operand("if", &from), operand("of", &to)];
        operands.extend(rest.split(' ').map(str::to_owned));
        anew(&to);
        let ran = dd(&operands).limit(libc::RLIMIT_NOFILE, 8).run().succeeds();
        assert_bytes(&read_all(&to), &data, &ran.show());
    }
}

#[test]
fn twenty_four_mebibytes_are_enough() {
    let group = or_skip!(Cgroup::memory(24 * MIB));
    let dir = tempfile::tempdir().expect("a directory");
    let (from, to) = (dir.path().join("in"), dir.path().join("out"));
    let data = pattern(64 << 20);
    fs::write(&from, &data).expect("written");
    for rest in ["bs=64k", "bs=1M conv=fsync", "ibs=4k obs=1M conv=swab,notrunc"] {
        let mut operands = vec![operand("if", &from), operand("of", &to)];
        operands.extend(rest.split(' ').map(str::to_owned));
        anew(&to);
        let ran = dd(&operands).cgroup(&group).run().succeeds();
        assert_eq!(ran.copied(), Some(64 * MIB), "{}", ran.show());
        if !rest.contains("swab") {
            assert_bytes(&read_all(&to), &data, &ran.show());
        }
    }
}

#[test]
fn a_huge_block_costs_what_is_read() {
    let group = or_skip!(Cgroup::memory(24 * MIB));
    let dir = tempfile::tempdir().expect("a directory");
    let from = dir.path().join("in");
    fs::write(&from, pattern(4 << 20)).expect("written");
    for rest in ["bs=1G", "ibs=1G obs=1G", "bs=1G conv=swab"] {
        let mut operands = vec![operand("if", &from), "of=/dev/null".into()];
        operands.extend(rest.split(' ').map(str::to_owned));
        let ran = dd(&operands).cgroup(&group).run().succeeds();
        assert_eq!(ran.copied(), Some(4 * MIB), "{}", ran.show());
    }
}

#[test]
fn memory_that_cannot_be_had_is_a_message() {
    for rest in ["bs=1G", "ibs=1G", "obs=1G"] {
        let operands = ["if=/dev/zero", "of=/dev/null", "count=1", rest];
        let ran = dd(&operands).limit(libc::RLIMIT_AS, 300 * MIB).run().fails();
        assert!(ran.err.contains("memory"), "{}", ran.show());
        assert_ne!(ran.copied(), Some(1 << 30), "{}", ran.show());
    }
}

#[test]
fn a_full_disk_is_filled_and_counted() {
    let tmpfs = or_skip!(Tmpfs::mount(512 * 1024));
    let dir = tempfile::tempdir().expect("a directory");
    let from = dir.path().join("in");
    let data = pattern(1 << 20);
    fs::write(&from, &data).expect("written");
    for rest in ["bs=4k", "bs=64k", "bs=300k", "bs=2M", "ibs=1000 obs=700", "bs=64k conv=fsync"] {
        let to = tmpfs.path("out");
        let mut operands = vec![operand("if", &from), operand("of", &to)];
        operands.extend(rest.split(' ').map(str::to_owned));
        let ran = dd(&operands).run().fails();
        assert!(ran.err.contains("No space left on device"), "{}", ran.show());
        let got = read_all(&to);
        assert_bytes(&got, &data[..512 * 1024], &ran.show());
        assert_eq!(ran.copied(), Some(512 * 1024), "{}", ran.show());
        fs::remove_file(&to).expect("it was there");
    }
}

#[test]
fn a_full_device_takes_nothing_and_says_so() {
    for rest in [&["bs=64k"][..], &["ibs=1000", "obs=700"], &["bs=1M", "iflag=fullblock"]] {
        let operands = [&["if=/dev/zero", "of=/dev/full", "count=4"][..], rest].concat();
        let ran = dd(&operands).run().fails();
        assert!(ran.err.contains("No space left on device"), "{}", ran.show());
        assert_eq!(ran.copied(), Some(0), "{}", ran.show());
    }
}

#[test]
fn a_file_size_limit_is_reached_exactly() {
    let dir = tempfile::tempdir().expect("a directory");
    let (from, to) = (dir.path().join("in"), dir.path().join("out"));
    let data = pattern(1 << 20);
    fs::write(&from, &data).expect("written");
    for rest in ["bs=4k", "bs=64k", "bs=2M", "ibs=1000 obs=700", "bs=64k conv=fsync"] {
        let mut operands = vec![operand("if", &from), operand("of", &to)];
        operands.extend(rest.split(' ').map(str::to_owned));
        anew(&to);
        let ran = dd(&operands).ignoring(libc::SIGXFSZ).limit(libc::RLIMIT_FSIZE, 512_000).run().fails();
        assert!(ran.err.contains("File too large"), "{}", ran.show());
        assert_bytes(&read_all(&to), &data[..512_000], &ran.show());
        assert_eq!(ran.copied(), Some(512_000), "{}", ran.show());
    }
}

/// Zeros that were stepped over are there once something follows them, or the file has its length.
#[test]
fn zeros_that_a_limit_keeps_out_of_a_file_are_neither_counted_nor_hashed() {
    let dir = tempfile::tempdir().expect("a directory");
    let (from, to) = (dir.path().join("in"), dir.path().join("out"));
    let mut data = pattern(1_000_000);
    data[400_000..700_000].fill(0);
    for (len, rest) in [
        (1_000_000, "bs=1000 conv=sparse"),
        (1_000_000, "bs=1000 conv=punch"),
        (1_000_000, "bs=100000 conv=sparse"),
        (1_000_000, "ibs=1000 obs=700 conv=sparse"),
        (1_000_000, "bs=1000 conv=sparse buffer=1M"),
        (700_000, "bs=1000 conv=sparse"),
        (700_000, "ibs=1000 obs=700 conv=punch"),
    ] {
        fs::write(&from, &data[..len]).expect("written");
        for &way in WAYS {
            let mut operands = vec![operand("if", &from), operand("of", &to), "hash=sha256".into()];
            operands.extend(rest.split(' ').map(str::to_owned));
            anew(&to);
            let ran = dd(&operands).by(way).ignoring(libc::SIGXFSZ).limit(libc::RLIMIT_FSIZE, 512_000).run().fails();
            let got = read_all(&to);
            assert_bytes(&got, &data[..got.len()], &ran.show());
            assert_eq!(ran.copied(), Some(got.len() as u64), "{}", ran.show());
            let digest: String = Sha256::digest(&got).iter().map(|byte| format!("{byte:02x}")).collect();
            assert!(ran.err.contains(&digest), "{digest} is that of the output: {}", ran.show());
        }
    }
}

#[test]
fn a_reader_that_leaves_is_an_error_where_sigpipe_is_ignored() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let ran = dd(&["if=/dev/zero", "bs=64k", "count=32"]).stdout(writer).ignoring(libc::SIGPIPE).run().fails();
    assert!(ran.err.contains("Broken pipe"), "{}", ran.show());
    assert_eq!(ran.copied(), Some(0), "{}", ran.show());
}

#[test]
fn a_missing_input_leaves_the_output_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let to = dir.path().join("out");
    fs::write(&to, b"old").expect("written");
    let ran = dd(&[operand("if", dir.path().join("missing")), operand("of", &to)]).run().fails();
    assert_bytes(&read_all(&to), b"old", &ran.show());
}

#[test]
fn no_closed_descriptor_lets_a_foreign_byte_in() {
    let dir = tempfile::tempdir().expect("a directory");
    let (from, to) = (dir.path().join("in"), dir.path().join("out"));
    let data = pattern(100_000);
    fs::write(&from, &data).expect("written");
    for closed in 0..8 {
        for rest in ["bs=4k", "bs=64k status=progress", "bs=64k conv=fsync"] {
            let mut operands = vec![operand("if", &from), operand("of", &to)];
            operands.extend(rest.split(' ').map(str::to_owned));
            anew(&to);
            let mut job = dd(&operands);
            for fd in (0..3).filter(|fd| closed & (1 << fd) != 0) {
                job = job.closed(fd);
            }
            let ran = job.run();
            assert!(!ran.hung && ran.code().is_some(), "closed {closed:03b}: {}", ran.show());
            assert_bytes(&read_all(&to), &data, &format!("closed {closed:03b}: {}", ran.show()));
            let wanted = if closed & 4 == 0 { Some(0) } else { Some(1) };
            assert_eq!(ran.code(), wanted, "closed {closed:03b}: {}", ran.show());
        }
    }
    // Where the input is handed over, the output could get the number of a missing standard error, and a warning on the way.
    anew(&to);
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    std::io::Write::write_all(&mut writer, &data[..1000]).expect("it fits");
    drop(writer);
    let operands = [operand("of", &to), "bs=600".into(), "count=9".into(), "conv=noerror".into()];
    let ran = dd(&operands[..3]).stdin(reader).closed(2).run();
    assert_bytes(&read_all(&to), &data[..1000], &ran.show());
    anew(&to);
    let ran = dd(&operands).stdin(File::open("/").expect("a directory")).closed(2).run();
    assert_bytes(&read_all(&to), b"", &ran.show());
    assert_eq!(ran.code(), Some(1), "{}", ran.show());
}

#[test]
fn a_missing_end_is_an_error() {
    let dir = tempfile::tempdir().expect("a directory");
    let (from, to) = (dir.path().join("in"), dir.path().join("out"));
    fs::write(&from, b"bytes").expect("written");
    let ran = dd(&[operand("if", &from)]).closed(1).run().fails();
    assert!(ran.err.contains("Bad file descriptor"), "{}", ran.show());
    let ran = dd(&[operand("of", &to)]).closed(0).run().fails();
    assert!(ran.err.contains("Bad file descriptor"), "{}", ran.show());
    anew(&to);
    let ran = dd(&[operand("if", &from), operand("of", &to)]).closed(2).run();
    assert_eq!(ran.code(), Some(1), "statistics that cannot be written: {}", ran.show());
    assert_bytes(&read_all(&to), b"bytes", &ran.show());
}

#[test]
fn statistics_on_a_full_device_are_an_error() {
    let dir = tempfile::tempdir().expect("a directory");
    let (from, to) = (dir.path().join("in"), dir.path().join("out"));
    fs::write(&from, b"bytes").expect("written");
    let full = OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    let ran = dd(&[operand("if", &from), operand("of", &to)]).stderr(full).run();
    assert_eq!(ran.code(), Some(1), "{}", ran.show());
    assert_bytes(&read_all(&to), b"bytes", &ran.show());
    let full = OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    let quiet = [operand("if", &from), operand("of", &to), "status=none".into()];
    anew(&to);
    dd(&quiet).stderr(full).run().succeeds();
    assert_eq!(File::open(&to).and_then(|f| f.metadata()).map(|m| m.len()).ok(), Some(5));
}
