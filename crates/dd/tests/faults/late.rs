//! Writing where errors come late, power goes, and old data lie in wait: what exit 0 means.

use std::fs;

use crate::devices::{Access, Loop};
use crate::fault_run::{assert_bytes, dd, needs_root, needs_sysfault, operand, pattern, read_all};
use crate::faultfs::{FaultFs, Op, Rule, Survives};
use crate::or_skip;
use crate::sysfault::{CLOSE, Hit, POSITION, Plan, SYNC};

fn input(data: &[u8]) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), data).expect("written");
    file
}

#[test]
fn a_failed_sync_is_exit_1() {
    let from = input(&pattern(100_000));
    for rest in ["conv=fsync", "conv=fdatasync", "conv=notrunc,fsync", "conv=sparse,fsync"] {
        for errno in [libc::EIO, libc::ENOSPC, libc::EDQUOT] {
            let fs = or_skip!(FaultFs::mount());
            fs.rule(Rule::on("out", Op::Fsync).fails(errno));
            let ran = dd(&[operand("if", from.path()), operand("of", fs.path("out")), rest.into()]).run().fails();
            assert!(ran.err.contains("sync"), "the operation is named: {}", ran.show());
            // A sync that failed once may succeed when asked again, with the data gone.
            fs.clear_rules();
        }
    }
}

#[test]
fn a_sync_that_failed_once_is_not_trusted_again() {
    let from = input(&pattern(100_000));
    for conv in ["conv=fsync", "conv=fdatasync"] {
        let fs = or_skip!(FaultFs::mount());
        fs.rule(Rule::on("out", Op::Fsync).nth(1));
        dd(&[operand("if", from.path()), operand("of", fs.path("out")), conv.into()]).run().fails();
    }
}

#[test]
fn an_error_at_close_is_exit_1() {
    let from = input(&pattern(100_000));
    for errno in [libc::EDQUOT, libc::EIO, libc::ENOSPC] {
        let fs = or_skip!(FaultFs::mount());
        fs.rule(Rule::on("out", Op::Flush).fails(errno));
        let ran = dd(&[operand("if", from.path()), operand("of", fs.path("out")), "bs=64k".into()]).run().fails();
        assert!(ran.err.contains("closing output file"), "{}", ran.show());
    }
}

#[test]
fn an_error_at_the_close_of_an_inherited_output_is_exit_1() {
    let from = input(&pattern(100_000));
    let fs = or_skip!(FaultFs::mount());
    fs.put("out", b"");
    fs.rule(Rule::on("out", Op::Flush).fails(libc::EDQUOT));
    let out = fs::File::options().write(true).open(fs.path("out")).expect("it is there");
    dd(&[operand("if", from.path())]).stdout(out).run().fails();
}

#[test]
fn a_write_that_fails_midway_is_counted_to_the_byte() {
    let data = pattern(1 << 20);
    let from = input(&data);
    for errno in [libc::ENOSPC, libc::EIO, libc::EDQUOT, libc::EROFS] {
        for rest in ["bs=4k", "bs=64k", "bs=2M", "ibs=1000 obs=3000", "bs=64k conv=fsync"] {
            let fs = or_skip!(FaultFs::mount());
            fs.direct();
            fs.rule(Rule::on("out", Op::Write).bytes(300_001..u64::MAX).partial().fails(errno));
            let mut operands = vec![operand("if", from.path()), operand("of", fs.path("out"))];
            operands.extend(rest.split(' ').map(str::to_owned));
            let ran = dd(&operands).run().fails();
            assert_bytes(&fs.contents("out").unwrap_or_default(), &data[..300_001], &ran.show());
            assert_eq!(ran.copied(), Some(300_001), "{}", ran.show());
        }
    }
}

const DURABLE: &[&str] = &["conv=fsync", "conv=fdatasync", "oflag=sync", "oflag=dsync", "conv=fsync oflag=nocache"];

#[test]
fn what_was_to_be_durable_survives_a_power_cut_at_exit() {
    let data = pattern(1 << 20);
    let from = input(&data);
    for asked in DURABLE {
        for bs in ["bs=64k", "bs=1M", "ibs=1000 obs=3000"] {
            let fs = or_skip!(FaultFs::mount());
            let mut operands = vec![operand("if", from.path()), operand("of", fs.path("out"))];
            operands.extend(asked.split(' ').chain(bs.split(' ')).map(str::to_owned));
            let ran = dd(&operands).run().succeeds();
            let left = fs.cut_power(Survives::Nothing);
            let Some(left) = left.get("out") else {
                panic!("the name is gone: {}", ran.show());
            };
            assert_bytes(left, &data, &ran.show());
        }
    }
}

#[test]
fn an_overwritten_file_is_durable_too() {
    let data = pattern(300_000);
    let from = input(&data);
    for asked in DURABLE {
        let fs = or_skip!(FaultFs::mount());
        fs.put("out", &vec![b'Z'; 400_000]);
        let mut operands = vec![operand("if", from.path()), operand("of", fs.path("out")), "bs=64k".into()];
        operands.extend(asked.split(' ').chain(["conv=notrunc"]).map(str::to_owned));
        let ran = dd(&operands).run().succeeds();
        let left = fs.cut_power(Survives::Nothing).remove("out").unwrap_or_default();
        assert_bytes(&left[..300_000], &data, &ran.show());
        assert_bytes(&left[300_000..], &[b'Z'; 100_000], &ran.show());
    }
}

#[test]
fn no_power_cut_on_the_way_is_exit_0_with_data_lost() {
    let data = pattern(100_000);
    let from = input(&data);
    for asked in DURABLE {
        for survives in [Survives::Nothing, Survives::Everything, Survives::Random(7), Survives::Random(8)] {
            // A file that is there already has no name to be made durable: the last word is the file's own sync.
            for old in [None, Some(vec![b'Z'; 150_000])] {
                let mut nth = 1;
                loop {
                    let fs = or_skip!(FaultFs::mount());
                    if let Some(old) = &old {
                        fs.put("out", old);
                    }
                    fs.cut_power_at(nth, survives);
                    let mut operands = vec![operand("if", from.path()), operand("of", fs.path("out")), "bs=16k".into()];
                    operands.extend(asked.split(' ').map(str::to_owned));
                    operands.extend(old.iter().map(|_| "conv=notrunc".to_owned()));
                    let ran = dd(&operands).run();
                    assert!(!ran.hung && ran.code().is_some(), "{}", ran.show());
                    if !fs.is_off() {
                        break;
                    }
                    if ran.code() == Some(0) {
                        let left = fs.cut_power(survives).remove("out").unwrap_or_default();
                        let what = format!("cut at {nth}, {survives:?}: {}", ran.show());
                        assert_bytes(&left[..data.len().min(left.len())], &data, &what);
                    }
                    nth += 1;
                }
            }
        }
    }
}

#[test]
fn a_block_device_has_the_data_at_exit_0() {
    let data = pattern(1 << 20);
    let from = input(&data);
    for rest in ["bs=64k", "bs=1M", "ibs=1000 obs=3000", "bs=4k oflag=direct"] {
        let fs = or_skip!(FaultFs::mount());
        fs.put("disk", &vec![b'Z'; 2 << 20]);
        fs.direct();
        let disk = or_skip!(Loop::attach(&fs.path("disk"), 512, Access::ReadWrite));
        let mut operands = vec![operand("if", from.path()), operand("of", disk.path())];
        operands.extend(rest.split(' ').map(str::to_owned));
        let ran = dd(&operands).run().succeeds();
        let left = fs.cut_power(Survives::Nothing).remove("disk").unwrap_or_default();
        assert_bytes(&left[..1 << 20], &data, &ran.show());
    }
}

#[test]
fn a_block_device_that_fails_the_write_back_is_exit_1() {
    let from = input(&pattern(1 << 20));
    for rest in ["bs=64k", "bs=1M", "conv=notrunc bs=4k", "bs=64k oflag=nocache"] {
        let fs = or_skip!(FaultFs::mount());
        fs.put("disk", &vec![b'Z'; 2 << 20]);
        fs.direct();
        fs.rule(Rule::on("disk", Op::Write).bytes(512 * 1024..u64::MAX));
        let disk = or_skip!(Loop::attach(&fs.path("disk"), 512, Access::ReadWrite));
        let mut operands = vec![operand("if", from.path()), operand("of", disk.path())];
        operands.extend(rest.split(' ').map(str::to_owned));
        dd(&operands).run().fails();
    }
}

#[test]
fn a_block_device_that_ends_is_filled_to_the_last_sector() {
    or_skip!(needs_root());
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("image");
    let size = (1 << 20) - 512;
    let data = pattern(2 << 20);
    let from = input(&data);
    for rest in ["bs=64k", "bs=2M", "bs=1000"] {
        fs::write(&image, vec![b'Z'; size]).expect("written");
        let disk = or_skip!(Loop::attach(&image, 512, Access::ReadWrite));
        let ran = dd(&[operand("if", from.path()), operand("of", disk.path()), rest.into()]).run().fails();
        assert!(ran.err.contains("No space left on device"), "{}", ran.show());
        assert_eq!(ran.copied(), Some(size as u64), "{}", ran.show());
        disk.drop_cache(); // Its last close may be another program's, which looks for a free device.
        drop(disk);
        assert_bytes(&read_all(&image), &data[..size], &ran.show());
    }
}

#[test]
fn a_read_only_device_is_named() {
    or_skip!(needs_root());
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("image");
    fs::write(&image, vec![b'Z'; 1 << 20]).expect("written");
    let disk = or_skip!(Loop::attach(&image, 512, Access::ReadOnly));
    let from = input(&pattern(4096));
    let ran = dd(&[operand("if", from.path()), operand("of", disk.path())]).run().fails();
    assert!(ran.err.contains(&disk.path().display().to_string()), "{}", ran.show());
    drop(disk);
    assert_bytes(&read_all(&image), &vec![b'Z'; 1 << 20], &ran.show());
}

/// Data, zeros in runs of many lengths, and zeros at the end.
fn gappy() -> Vec<u8> {
    let mut bytes = pattern(256 * 1024);
    for zeros in [4096..8192, 20_000..50_000, 100_000..100_700, 131_072..200_000, 250_000..256 * 1024] {
        bytes[zeros].fill(0);
    }
    bytes
}

const SPARSE: &[&str] = &["bs=512", "bs=4k", "bs=64k", "bs=1000", "ibs=700 obs=4k", "bs=1M"];

#[test]
fn sparse_shows_no_old_data_on_a_device() {
    or_skip!(needs_root());
    let data = gappy();
    let from = input(&data);
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("image");
    for sector in [512, 4096] {
        for rest in SPARSE {
            fs::write(&image, vec![b'Z'; 512 * 1024]).expect("written");
            let disk = or_skip!(Loop::attach(&image, sector, Access::ReadWrite));
            let mut operands = vec![operand("if", from.path()), operand("of", disk.path()), "conv=sparse".into()];
            operands.extend(rest.split(' ').map(str::to_owned));
            let ran = dd(&operands).run().succeeds();
            disk.drop_cache(); // Its last close may be another program's, which looks for a free device.
            drop(disk);
            let got = read_all(&image);
            assert_bytes(&got[..data.len()], &data, &ran.show());
            assert_bytes(&got[data.len()..], &vec![b'Z'; 512 * 1024 - data.len()], &ran.show());
        }
    }
}

#[test]
fn sparse_gives_the_same_bytes_on_a_truncated_file() {
    let data = gappy();
    let from = input(&data);
    let dir = tempfile::tempdir().expect("a directory");
    let to = dir.path().join("out");
    for old in [0, 1000, 500_000] {
        for rest in SPARSE {
            fs::write(&to, vec![b'Z'; old]).expect("written");
            let mut operands = vec![operand("if", from.path()), operand("of", &to), "conv=sparse".into()];
            operands.extend(rest.split(' ').map(str::to_owned));
            let ran = dd(&operands).run().succeeds();
            assert_bytes(&read_all(&to), &data, &ran.show());
        }
    }
}

#[test]
fn sparse_is_off_where_output_is_appended() {
    let data = gappy();
    let from = input(&data);
    let dir = tempfile::tempdir().expect("a directory");
    let to = dir.path().join("out");
    for rest in SPARSE {
        fs::write(&to, b"XX").expect("written");
        let mut operands = vec![operand("if", from.path()), operand("of", &to)];
        operands.extend(["conv=sparse,notrunc".to_string(), "oflag=append".into()]);
        operands.extend(rest.split(' ').map(str::to_owned));
        let ran = dd(&operands).run().succeeds();
        assert_bytes(&read_all(&to), &[b"XX", &data[..]].concat(), &ran.show());
    }
}

#[test]
fn a_failed_seek_never_shortens_a_sparse_file() {
    or_skip!(needs_sysfault());
    let data = gappy();
    let from = input(&data);
    let dir = tempfile::tempdir().expect("a directory");
    let to = dir.path().join("out");
    for sets in [&[POSITION][..], &[SYNC, CLOSE, POSITION]] {
        for n in 1..1000 {
            drop(fs::remove_file(&to));
            let name = to.display().to_string();
            let plan = Plan::on(sets, Hit::Fail(libc::EINVAL)).only(&name).nth(n);
            let ran = dd(&[operand("if", from.path()), operand("of", &to), "bs=4k".into(), "conv=sparse".into()])
                .faults(plan)
                .run();
            if ran.code() == Some(0) {
                assert_bytes(&read_all(&to), &data, &ran.show());
            }
            if ran.report.faults.is_empty() {
                break;
            }
        }
    }
}
