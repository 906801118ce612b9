//! Descriptors that others share: where their offsets stand afterwards, and what non-blocking and stuck ones do.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::time::Duration;

use crate::devices;
use crate::fault_run::{assert_bytes, dd, pattern, read_all};
use crate::faultfs::{FaultFs, Op, Rule};
use crate::or_skip;

#[test]
fn the_input_is_left_exactly_behind_what_was_consumed() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("in");
    let data = pattern(24 << 20);
    fs::write(&path, &data).expect("written");
    let rows: &[(&[&str], u64)] = &[
        (&["bs=1000", "count=3"], 3000),
        (&["bs=1", "count=1"], 1),
        (&["bs=512", "skip=2", "count=5"], 7 * 512),
        (&["bs=64k", "count=20"], 20 * 65536),
        (&["bs=1M", "count=20"], 20 << 20),
        (&["bs=64k", "count=1000001B"], 1_000_001),
        (&["ibs=700", "obs=64k", "count=11"], 7700),
        (&["ibs=4k", "obs=1000", "count=7", "conv=swab"], 7 * 4096),
        (&["bs=64k", "count=0"], 0),
        (&["bs=64k"], 24 << 20),
    ];
    for (operands, wanted) in rows {
        let mut file = File::open(&path).expect("it is there");
        let ran = dd(operands).stdin(file.try_clone().expect("a descriptor")).run().succeeds();
        assert_eq!(devices::offset(&file), *wanted, "{}", ran.show());
        let mut rest = Vec::new();
        file.read_to_end(&mut rest).expect("read");
        assert_eq!(rest.len() as u64, data.len() as u64 - wanted);
    }
}

#[test]
fn the_output_is_left_exactly_behind_what_was_written() {
    let dir = tempfile::tempdir().expect("a directory");
    let (from, to) = (dir.path().join("in"), dir.path().join("out"));
    fs::write(&from, pattern(24 << 20)).expect("written");
    let rows: &[(&[&str], u64)] = &[
        (&["bs=1000", "count=3"], 100 + 3000),
        (&["bs=64k", "count=20"], 100 + 20 * 65536),
        (&["bs=1M", "conv=fsync"], 100 + (24 << 20)),
        (&["ibs=700", "obs=512", "count=11"], 100 + 7700),
        (&["bs=512", "seek=2", "count=5", "conv=notrunc"], 100 + 7 * 512),
        (&["bs=64k", "count=0"], 100),
    ];
    for (operands, wanted) in rows {
        fs::write(&to, vec![b'Z'; 200]).expect("written");
        let mut file = OpenOptions::new().write(true).open(&to).expect("it is there");
        file.seek(SeekFrom::Start(100)).expect("a seek");
        let input = File::open(&from).expect("it is there");
        let ran = dd(operands).stdin(input).stdout(file.try_clone().expect("a descriptor")).run().succeeds();
        assert_eq!(devices::offset(&file), *wanted, "{}", ran.show());
        assert_bytes(&read_all(&to)[..100], &[b'Z'; 100], &ran.show());
    }
}

#[test]
fn a_failed_read_leaves_the_input_behind_what_was_consumed() {
    let fs = or_skip!(FaultFs::mount());
    fs.put("in", &pattern(1 << 20));
    fs.direct();
    fs.rule(Rule::on("in", Op::Read).sectors(1000..1001).partial());
    for bs in ["bs=512", "bs=4k", "bs=1000", "bs=1M"] {
        let file = File::open(fs.path("in")).expect("it is there");
        let ran = dd(&[bs]).stdin(file.try_clone().expect("a descriptor")).run().fails();
        assert_eq!(ran.out.len() as u64, devices::offset(&file), "{}", ran.show());
        assert_eq!(ran.copied(), Some(ran.out.len() as u64), "{}", ran.show());
    }
}

#[test]
fn a_failed_write_leaves_the_output_behind_what_was_written() {
    let dir = tempfile::tempdir().expect("a directory");
    let from = dir.path().join("in");
    let data = pattern(1 << 20);
    fs::write(&from, &data).expect("written");
    for bs in ["bs=512", "bs=64k", "bs=1M", "obs=1000"] {
        let fs = or_skip!(FaultFs::mount());
        fs.put("out", b"");
        fs.direct();
        fs.rule(Rule::on("out", Op::Write).bytes(300_001..u64::MAX).partial().fails(libc::ENOSPC));
        let file = OpenOptions::new().write(true).open(fs.path("out")).expect("it is there");
        let input = File::open(&from).expect("it is there");
        let ran = dd(&[bs]).stdin(input).stdout(file.try_clone().expect("a descriptor")).run().fails();
        assert_bytes(&fs.contents("out").unwrap_or_default(), &data[..300_001], &ran.show());
        assert_eq!(devices::offset(&file), 300_001, "{}", ran.show());
        assert_eq!(ran.copied(), Some(300_001), "{}", ran.show());
    }
}

#[test]
fn a_pipe_keeps_what_was_not_asked_for() {
    let data = pattern(40_000);
    let rows: &[&[&str]] = &[
        &["bs=1000", "count=3"],
        // Larger blocks than a pipe takes in one piece may be joined on the way out, and so on the way in.
        &["bs=5000", "count=3"],
        &["ibs=7", "count=11"],
        &["ibs=7", "obs=5000", "count=1100"],
        &["bs=64k", "count=5000B", "iflag=fullblock"],
    ];
    for operands in rows {
        let (mut reader, mut writer) = std::io::pipe().expect("a pipe");
        writer.write_all(&data).expect("it fits");
        drop(writer);
        let ran = dd(operands).stdin(reader.try_clone().expect("a descriptor")).run().succeeds();
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).expect("read");
        assert_bytes(&[ran.out.clone(), rest].concat(), &data, &ran.show());
        assert_eq!(ran.copied(), Some(ran.out.len() as u64), "{}", ran.show());
    }
}

#[test]
fn a_nonblocking_input_is_waited_for() {
    let data = pattern(200_000);
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    devices::nonblocking(&reader, true);
    let running = dd(&["bs=64k"]).stdin(reader).start();
    let feed = data.clone();
    let feeder = std::thread::spawn(move || {
        for piece in feed.chunks(20_000) {
            // The pauses let the pipe run empty; how often it does decides nothing.
            std::thread::sleep(Duration::from_millis(5));
            if writer.write_all(piece).is_err() {
                return; // The reader gave up, which the test says below.
            }
        }
    });
    let ran = running.wait().succeeds();
    feeder.join().expect("no panic");
    assert_bytes(&ran.out, &data, &ran.show());
}

#[test]
fn a_nonblocking_output_is_waited_for() {
    let dir = tempfile::tempdir().expect("a directory");
    let from = dir.path().join("in");
    let data = pattern(1 << 20);
    fs::write(&from, &data).expect("written");
    for bs in ["bs=64k", "bs=1M", "obs=1000"] {
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        devices::nonblocking(&writer, true);
        let running = dd(&[bs]).stdin(File::open(&from).expect("it is there")).stdout(writer).start();
        let drain = std::thread::spawn(move || {
            let mut got = Vec::new();
            let mut piece = [0; 30_000];
            loop {
                std::thread::sleep(Duration::from_millis(2));
                match reader.read(&mut piece) {
                    Ok(0) | Err(_) => return got,
                    Ok(n) => got.extend_from_slice(&piece[..n]),
                }
            }
        });
        let ran = running.wait();
        let got = drain.join().expect("no panic");
        let ran = ran.succeeds();
        assert_bytes(&got, &data, &ran.show());
    }
}

/// A pipe that takes no byte more.
fn stuck_pipe() -> (std::io::PipeReader, std::io::PipeWriter) {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    devices::nonblocking(&writer, true);
    let fill = [b'#'; 4096];
    while writer.write(&fill).is_ok() {}
    while writer.write(b"#").is_ok() {}
    devices::nonblocking(&writer, false);
    (reader, writer)
}

#[test]
fn a_stuck_standard_error_does_not_stop_the_copy() {
    let data = pattern(60_000);
    let dir = tempfile::tempdir().expect("a directory");
    let to = dir.path().join("out");
    let (mut stuck, writer) = stuck_pipe();
    let (reader, mut feed) = std::io::pipe().expect("a pipe");
    let operands = [crate::fault_run::operand("of", &to), "bs=1000".into(), "status=progress".into()];
    let running = dd(&operands).stdin(reader).stderr(writer).start();
    // Long enough for three progress lines to come due, each of which would block.
    for piece in data.chunks(2000) {
        std::thread::sleep(Duration::from_millis(110));
        feed.write_all(piece).expect("it fits the pipe");
    }
    drop(feed);
    let whole = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(25));
        read_all(&to).len() == data.len()
    });
    let said = std::thread::spawn(move || {
        let mut said = Vec::new();
        stuck.read_to_end(&mut said).map(|_| said)
    });
    let ran = running.wait();
    let said = said.join().expect("no panic").expect("read");
    assert!(whole, "the copy stood still while nobody read its messages: {}", ran.show());
    let ran = ran.succeeds();
    assert_bytes(&read_all(&to), &data, &ran.show());
    assert!(String::from_utf8_lossy(&said).contains(" copied, "), "the statistics came when there was room again");
}
