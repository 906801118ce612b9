//! Ends other than two files: devices, the null device, pipes, one file for both; and ends that come too early.

use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;

use crate::BULK;
use crate::rig::{Copy, Image, MIB, file, moved, noise, scratch, told, without_speed};

#[test]
fn a_device_is_written_and_read_back() {
    let Some(device) = Image::device(24 * MIB) else { return };
    let home = scratch();
    let (input, output) = (home.path().join("in"), home.path().join("out"));
    let content = noise(20 * MIB + 100, 3);
    file(&input, &content);
    for strategy in BULK {
        for operands in [
            &["bs=64K"][..],
            &["bs=1000", "seek=9"],
            &["bs=64K", "oflag=direct", "seek=2"],
            &["bs=512", "oflag=nocache"],
        ] {
            let seek = match operands {
                [_, "seek=9"] => 9000,
                [.., "seek=2"] => 128 << 10,
                _ => 0,
            };
            let there = Copy::new(strategy, &input, &device.path, operands).run();
            assert_eq!((there.code, there.told()), (Some(0), content.len() as u64), "{operands:?}: {}", there.said);
            assert!(there.moved_by(strategy) >= 19 * MIB as u64, "{strategy} {operands:?}: {:?}", there.moved);
            let back = ["bs=64K", &format!("iseek={seek}B"), &format!("count={}B", content.len())].map(str::to_owned);
            let back: Vec<&str> = back.iter().map(String::as_str).collect();
            let back = Copy::new(strategy, &device.path, &output, &back).run();
            assert_eq!(back.code, Some(0), "{}", back.said);
            assert!(back.moved_by(strategy) >= 19 * MIB as u64, "{:?}", back.moved);
            assert!(std::fs::read(&output).expect("output") == content, "{strategy} {operands:?}");
        }
    }
}

#[test]
fn a_device_that_is_too_small_says_what_went_in() {
    let Some(device) = Image::device(10 * MIB + 512) else { return };
    let home = scratch();
    let input = home.path().join("in");
    file(&input, &noise(20 * MIB, 4));
    for operands in [&["bs=64K"][..], &["bs=1000"], &["bs=5M"], &["bs=4K", "oflag=direct"], &["ibs=512", "obs=3M"]] {
        let plain = Copy::new("pump", &input, &device.path, operands).run();
        for strategy in BULK {
            let fast = Copy::new(strategy, &input, &device.path, operands).run();
            assert_eq!((fast.code, &fast.said), (plain.code, &plain.said), "{strategy} {operands:?}");
            assert_eq!(fast.told(), 10 * MIB as u64 + 512);
        }
    }
}

#[test]
fn the_null_device_and_a_pipe_take_all_of_it() {
    let home = scratch();
    let input = home.path().join("in");
    let content = noise(13 * MIB + 5, 5);
    file(&input, &content);
    for strategy in BULK {
        let seen = Copy::new(strategy, &input, Path::new("/dev/null"), &["bs=64K"]).run();
        assert_eq!((seen.code, seen.told()), (Some(0), content.len() as u64));
        assert!(seen.moved_by(strategy) >= 13 * MIB as u64, "{:?}", seen.moved);

        let report = home.path().join(strategy);
        let mut command =
            Copy::new(strategy, &input, Path::new("/dev/stdout"), &["bs=64K", "conv=notrunc"]).command(&report);
        let mut child = command.stdout(std::process::Stdio::piped()).spawn().expect("the program runs");
        let mut got = Vec::new();
        child.stdout.take().expect("a pipe").read_to_end(&mut got).expect("a pipe");
        assert!(child.wait().expect("an end").success());
        assert!(got == content, "{strategy} into a pipe");
        assert!(moved(&report)[strategy] >= 13 * MIB as u64);
    }
}

#[test]
fn one_file_at_both_ends_is_left_to_the_plain_loop() {
    let home = scratch();
    let both = home.path().join("both");
    for strategy in BULK {
        let mut want = noise(12 * MIB, 6);
        file(&both, &want);
        let seen = Copy::new(strategy, &both, &both, &["bs=1M", "seek=1", "count=10", "conv=notrunc"]).run();
        assert_eq!((seen.code, seen.moved_by(strategy)), (Some(0), 0), "{:?}", seen.moved);
        let first = want[..MIB].to_vec();
        for copy in want[MIB..11 * MIB].chunks_mut(MIB) {
            copy.copy_from_slice(&first);
        }
        assert!(std::fs::read(&both).expect("the file") == want);
    }
}

/// Starts a copy and sends `signal` once `at` bytes are in the output.
fn cut_short(
    strategy: &str,
    input: &Path,
    output: &Path,
    operands: &[&str],
    at: u64,
    signal: rustix::process::Signal,
) -> (std::process::ExitStatus, String) {
    let report = output.with_extension("report");
    let mut child = Copy::new(strategy, input, output, operands).command(&report).spawn().expect("the program runs");
    let pid = rustix::process::Pid::from_child(&child);
    while child.try_wait().expect("a child").is_none() {
        if std::fs::metadata(output).is_ok_and(|now| now.len() >= at) {
            let _ = rustix::process::kill_process(pid, signal);
            break;
        }
        std::thread::yield_now();
    }
    let mut said = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
    (child.wait().expect("an end"), said)
}

#[test]
fn killed_at_any_moment_a_new_file_is_a_prefix() {
    let home = scratch();
    let (input, output) = (home.path().join("in"), home.path().join("out"));
    let content = noise(40 * MIB, 7);
    file(&input, &content);
    let mut early = 0;
    for (strategy, operands) in
        [("uring", &["bs=1M", "conv=fsync"][..]), ("uring", &["bs=1M"]), ("overlap", &["bs=1M", "conv=fsync"])]
    {
        for step in 0..12 {
            let _ = std::fs::remove_file(&output);
            cut_short(strategy, &input, &output, operands, step * 3 * MIB as u64 + 1, rustix::process::Signal::KILL);
            let got = std::fs::read(&output).expect("an output");
            assert!(content.starts_with(&got), "{strategy} {operands:?} killed at {step}: {} bytes", got.len());
            early += usize::from(got.len() < content.len());
        }
    }
    assert!(early > 0, "every copy was over before it was killed");
}

#[test]
fn interrupted_at_any_moment_the_counts_are_the_bytes_in_the_file() {
    let home = scratch();
    let (input, output) = (home.path().join("in"), home.path().join("out"));
    let content = noise(40 * MIB, 8);
    file(&input, &content);
    let mut early = 0;
    for (strategy, operands) in [
        ("uring", &["bs=1M", "conv=fsync"][..]),
        ("uring", &["bs=1000"]),
        ("uring", &["bs=7M", "conv=fsync"]),
        ("overlap", &["bs=1M", "conv=fsync"]),
    ] {
        for step in 0..8 {
            let _ = std::fs::remove_file(&output);
            let at = step * 4 * MIB as u64 + 1;
            let (status, said) = cut_short(strategy, &input, &output, operands, at, rustix::process::Signal::INT);
            let got = std::fs::read(&output).expect("an output");
            assert!(content.starts_with(&got), "{strategy} {operands:?}: {} bytes", got.len());
            assert_eq!(told(&without_speed(&said)), got.len() as u64, "{strategy} {operands:?}: {said}");
            if status.signal() == Some(2) {
                early += usize::from(got.len() < content.len());
            } else {
                assert!(status.success(), "{said}");
            }
        }
    }
    assert!(early > 0, "every copy was over before it was interrupted");
}

#[test]
fn a_storm_of_reports_bends_nothing() {
    let home = scratch();
    let (input, output) = (home.path().join("in"), home.path().join("out"));
    let content = noise(40 * MIB, 22);
    file(&input, &content);
    for strategy in BULK {
        for operands in [&["bs=512", "conv=fsync"][..], &["bs=512"]] {
            let said = home.path().join("said");
            let report = home.path().join("report");
            let _ = std::fs::remove_file(&report);
            let mut command = Copy::new(strategy, &input, &output, operands).command(&report);
            let mut child =
                command.stderr(std::fs::File::create(&said).expect("a file")).spawn().expect("the program runs");
            let pid = rustix::process::Pid::from_child(&child);
            // The first byte says that signals are caught.
            while child.try_wait().expect("a child").is_none() {
                if std::fs::metadata(&output).is_ok_and(|now| now.len() > 0) {
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::USR1);
                }
                std::thread::yield_now();
            }
            assert!(child.wait().expect("an end").success(), "{strategy} {operands:?}");
            assert!(std::fs::read(&output).expect("an output") == content, "{strategy} {operands:?}");
            assert_eq!(moved(&report)[strategy], content.len() as u64);
            let said = std::fs::read_to_string(&said).expect("text");
            let last: Vec<&str> = said.lines().rev().take(3).collect();
            assert_eq!(told(last[0]), content.len() as u64, "{said}");
            std::fs::remove_file(&output).expect("an output");
        }
    }
}

#[test]
fn an_end_that_may_not_be_written_or_read_is_not_opened_anew_for_it() {
    use std::fs::{File, OpenOptions};
    let home = scratch();
    let (input, output, report) = (home.path().join("in"), home.path().join("out"), home.path().join("report"));
    let (content, old) = (noise(8 * MIB, 23), noise(8 * MIB, 24));
    file(&input, &content);
    file(&output, &old);
    for strategy in BULK {
        for operands in [&["bs=64K", "conv=notrunc,fsync"][..], &["bs=64K", "iflag=nocache", "oflag=nocache"]] {
            let run = |from: File, to: File| {
                let mut copy = Copy::new(strategy, &input, &output, operands);
                copy.inherited = Some((0, 0));
                let ended = copy.command(&report).stdin(from).stdout(to).output().expect("the program runs");
                assert_eq!(ended.status.code(), Some(1));
                let said = String::from_utf8_lossy(&ended.stderr).into_owned();
                assert!(said.contains("Bad file descriptor"), "{said}");
                assert!(std::fs::read(&output).expect("the output") == old, "{strategy} {operands:?}");
            };
            run(File::open(&input).expect("input"), File::open(&output).expect("output"));
            let writable = |path| OpenOptions::new().write(true).open(path).expect("a file");
            run(writable(&input), writable(&output));
        }
    }
}
