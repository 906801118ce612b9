//! What a kernel, container or sandbox refuses costs speed and nothing else.

use std::process::Command;

use crate::rig::{Copy, MIB, file, make_cold, noise, scratch, skip};

/// The words that run a command with some calls refused. `None`, said aloud, where strace cannot do that.
fn strace(refusal: &str) -> Option<Vec<String>> {
    let calls = refusal.split(':').next().expect("a name");
    let (trace, inject) = (format!("trace={calls}"), format!("inject={refusal}"));
    let words = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject];
    // An older strace does not know the newer calls.
    let works = Command::new(words[0]).args(&words[1..7]).arg("true").output();
    if !works.is_ok_and(|output| output.status.success()) {
        skip(&format!("no strace that knows {calls}"));
        return None;
    }
    Some(words.map(str::to_owned).to_vec())
}

#[test]
fn a_refused_call_leaves_the_copy_right() {
    let home = scratch();
    let (input, output) = (home.path().join("in"), home.path().join("out"));
    let content = noise(40 * MIB + 99, 13);
    file(&input, &content);
    for refusal in [
        "io_uring_setup:error=ENOSYS",
        "io_uring_setup:error=EPERM",
        "io_uring_enter:error=EINVAL",
        "io_uring_enter:error=EINVAL:when=7+",
        "io_uring_enter:error=EAGAIN:when=3",
        "io_uring_enter:error=EINTR:when=2+2",
        "io_uring_register:error=ENOMEM",
        "clone,clone3:error=EAGAIN",
        "fallocate:error=EOPNOTSUPP",
        "fallocate:error=ENOSPC",
        "statx:error=ENOSYS",
        "statx:error=EPERM",
        // cachestat, which an older strace does not know, is refused in `faults::every_optional_call_can_be_refused`.
        "fadvise64:error=EPERM",
        "sync_file_range:error=ENOSYS",
        "pwrite64:error=EIO:when=3+",
        "pwrite64:error=EINTR:when=2+3",
        // The first ones are the loader's.
        "pread64:error=EIO:when=8+",
        "pread64:error=EINTR:when=8+2",
    ] {
        let Some(under) = strace(refusal) else { continue };
        for strategy in [None, Some("uring"), Some("overlap")] {
            for operands in [&["bs=1M", "conv=fsync"][..], &["bs=1000", "oflag=nocache", "iflag=neutral"]] {
                make_cold(&input);
                let _ = std::fs::remove_file(&output);
                let copy = Copy { strategy, under: &under, ..Copy::new("", &input, &output, operands) };
                let seen = copy.run();
                assert_eq!(
                    (seen.code, seen.told()),
                    (Some(0), content.len() as u64),
                    "{refusal} {strategy:?} {operands:?}: {}",
                    seen.said
                );
                assert!(std::fs::read(&output).expect("an output") == content, "{refusal} {strategy:?} {operands:?}");
            }
        }
    }
}

#[test]
fn where_io_uring_is_refused_a_reader_thread_does_it() {
    let home = scratch();
    let (input, output) = (home.path().join("in"), home.path().join("out"));
    file(&input, &noise(40 * MIB, 14));
    let Some(under) = strace("io_uring_setup:error=EPERM") else { return };
    make_cold(&input);
    let plain = Copy::new("pump", &input, &output, &["bs=1M", "conv=fsync"]);
    let seen = Copy { strategy: None, under: &under, ..plain }.run();
    if !seen.moved.contains_key("uring") {
        return skip("the file system has no direct requests");
    }
    assert_eq!(seen.moved_by("overlap"), 40 * MIB as u64, "{:?}", seen.moved);
}

#[test]
fn a_large_cold_copy_is_moved_in_flight_without_being_told() {
    let home = scratch();
    let (input, output) = (home.path().join("in"), home.path().join("out"));
    file(&input, &noise(40 * MIB, 15));
    make_cold(&input);
    let plain = Copy::new("pump", &input, &output, &["bs=512", "conv=fsync"]);
    let seen = Copy { strategy: None, ..plain }.run();
    if !seen.moved.contains_key("uring") {
        return skip("the file system has no direct requests");
    }
    let in_flight = seen.moved_by("uring") + seen.moved_by("overlap");
    assert_eq!(in_flight, 40 * MIB as u64, "{:?}", seen.moved);
}
