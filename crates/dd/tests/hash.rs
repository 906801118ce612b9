//! `hash=`: the digests that the programs of coreutils find in the same bytes, whichever way moved them.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use support::{End, LIMIT};

const PROGRAMS: [(&str, &str); 4] =
    [("sha256", "sha256sum"), ("sha512", "sha512sum"), ("sha1", "sha1sum"), ("md5", "md5sum")];

/// By the copying thread, and each on a thread of its own.
const WAYS: [&str; 2] = ["inline", "threads"];

/// What `program` of coreutils says of a file's contents.
fn sum(program: &str, path: &Path) -> String {
    let out = Command::new(program).stdin(File::open(path).unwrap()).output().unwrap();
    String::from_utf8(out.stdout).unwrap().split(' ').next().unwrap().to_owned()
}

fn bytes(len: usize) -> Vec<u8> {
    let mut state = 7_u64;
    (0..len)
        .map(|at| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // A stretch of zeros, for holes.
            if (20_000..60_000).contains(&at) { 0 } else { (state >> 56) as u8 }
        })
        .collect()
}

/// The lines of standard error that are digests.
fn digests(stderr: &[u8]) -> Vec<String> {
    String::from_utf8(stderr.to_vec()).unwrap().lines().filter(|line| line.contains(" = ")).map(str::to_owned).collect()
}

#[test]
fn digests_are_those_of_coreutils_whichever_way_moved_the_bytes() {
    let scratch = support::scratch();
    let dir = scratch.path();
    let data = bytes(300_003);
    fs::write(dir.join("in"), &data).unwrap();
    let sparse = File::create(dir.join("holes")).unwrap();
    sparse.set_len(1 << 20).unwrap();
    drop(sparse);
    for job in [
        "if=in bs=512",
        "if=in bs=64k",
        "if=in ibs=7 obs=1000",
        "if=in conv=ucase",
        "if=in bs=4096 conv=sparse",
        "if=in bs=4096 conv=sync",
        "if=in cbs=80 conv=block",
        "if=in bs=1k count=20 skip=3",
        "if=in bs=4k buffer=64k",
        "if=in bs=4k oflag=nocache",
        "if=holes bs=4k conv=sparse",
        "if=holes bs=512",
        "bs=4k iflag=fullblock",
        "obs=3000",
        "if=/dev/zero bs=64k count=20",
    ] {
        for (strategy, way) in [None, Some("pump"), Some("coalesce"), Some("stream"), Some("zeros")]
            .into_iter()
            .flat_map(|strategy| WAYS.map(|way| (strategy, way)))
        {
            let mut args: Vec<&str> = job.split(' ').collect();
            args.extend(["of=out", "hash=sha256,md5", "hash=sha512,sha1,md5"]);
            let mut command = support::command(support::dd_under_test(), &args, dir);
            command.env("FDD_DIGESTS", way);
            if let Some(strategy) = strategy {
                command.env("FDD_STRATEGY", strategy);
            }
            let (reader, writer) = support::pipe();
            command.stdin(Stdio::from(reader));
            let data = data.clone();
            let feeding = std::thread::spawn(move || {
                // A job that has another input leaves.
                let _ = File::from(writer).write_all(&data);
            });
            let out = support::finish(command, None, LIMIT);
            feeding.join().unwrap();
            assert_eq!(out.end, End::Exit(0), "{job}: {}", support::one_line(&out.stderr));
            // Each once, in the order of asking.
            let expected: Vec<String> = ["sha256", "md5", "sha512", "sha1"]
                .map(|hash| {
                    let program = PROGRAMS.iter().find(|(name, _)| *name == hash).unwrap().1;
                    format!("{hash} (out) = {}", sum(program, &dir.join("out")))
                })
                .to_vec();
            assert_eq!(digests(&out.stderr), expected, "{job} by {strategy:?}, {way}");
            fs::remove_file(dir.join("out")).unwrap();
        }
    }
}

#[test]
fn a_pipe_of_zeros_is_hashed() {
    let scratch = support::scratch();
    fs::write(scratch.path().join("same"), vec![0; 1 << 20]).unwrap();
    let out = support::run_in(
        support::dd_under_test(),
        &["if=/dev/zero", "bs=64k", "count=16", "hash=sha256"],
        scratch.path(),
        Stdio::null(),
    );
    assert_eq!((out.stdout.len(), out.end), (1 << 20, End::Exit(0)));
    let expected = format!("sha256 ('standard output') = {}", sum("sha256sum", &scratch.path().join("same")));
    assert_eq!(digests(&out.stderr), [expected]);
}

#[test]
fn before_is_what_was_read_without_padding_or_conversion() {
    let scratch = support::scratch();
    let dir = scratch.path();
    fs::write(dir.join("in"), bytes(100_001)).unwrap();
    for job in ["bs=4096 conv=sync", "conv=ucase", "ibs=100 cbs=3 conv=block", "bs=4k buffer=64k conv=swab", "bs=512"] {
        let mut args: Vec<&str> = job.split(' ').collect();
        args.extend(["if=in", "of=out", "hash=sha256", "hashconv=before"]);
        let out = support::finish(support::command(support::dd_under_test(), &args, dir), None, LIMIT);
        let expected = format!("sha256 (in) = {}", sum("sha256sum", &dir.join("in")));
        assert_eq!(digests(&out.stderr), [expected], "{job}");
    }
}

#[test]
fn the_digest_stands_behind_the_statistics_and_is_said_whatever_the_status() {
    let scratch = support::scratch();
    const ABC: &str = "md5 ('standard output') = 900150983cd24fb0d6963f7d28e17f72\n";
    for (status, lines) in [("none", 1), ("noxfer", 3), ("progress", 4)] {
        let out = support::run_in(
            support::dd_under_test(),
            &["hash=md5", &format!("status={status}")],
            scratch.path(),
            Stdio::from(support::full_pipe(&[b"abc"], false)),
        );
        let said = String::from_utf8(out.stderr).unwrap();
        assert!(said.ends_with(ABC) && said.lines().count() == lines, "{status}: {said}");
    }
}

#[test]
fn words_that_make_no_sense_are_refused() {
    let scratch = support::scratch();
    for (args, said) in [
        (&["hash=md4"][..], "dd: invalid hash: 'md4'\nTry 'dd --help' for more information.\n"),
        (&["hash="], "dd: invalid hash: ''\nTry 'dd --help' for more information.\n"),
        (
            &["hash=md5", "hashconv=during"],
            "dd: invalid place for a hash: 'during'\nTry 'dd --help' for more information.\n",
        ),
        (&["hashconv=before"], "dd: hashconv needs hash\n"),
    ] {
        let out = support::run_in(support::dd_under_test(), args, scratch.path(), Stdio::null());
        assert_eq!((String::from_utf8(out.stderr).unwrap().as_str(), out.end), (said, End::Exit(1)), "{args:?}");
    }
}

#[test]
fn the_digest_is_of_what_reached_a_file_that_was_cut_off() {
    let scratch = support::scratch();
    let dir = scratch.path();
    fs::write(dir.join("in"), bytes(100_000)).unwrap();
    for job in ["bs=700", "ibs=700 obs=300", "bs=700 buffer=64k", "bs=64k", "conv=swab"] {
        for (strategy, way) in
            [None, Some("pump"), Some("coalesce")].into_iter().flat_map(|strategy| WAYS.map(|way| (strategy, way)))
        {
            let mut args: Vec<&str> = job.split(' ').collect();
            args.extend(["if=in", "of=out", "hash=sha1"]);
            let mut command =
                support::shell(support::dd_under_test(), "trap '' XFSZ; ulimit -f 99; exec dd \"$@\"", &args, dir);
            command.env("FDD_DIGESTS", way);
            if let Some(strategy) = strategy {
                command.env("FDD_STRATEGY", strategy);
            }
            let out = support::finish(command, None, LIMIT);
            assert_eq!(out.end, End::Exit(1));
            assert_eq!(fs::metadata(dir.join("out")).unwrap().len(), 99 * 512);
            let expected = format!("sha1 (out) = {}", sum("sha1sum", &dir.join("out")));
            assert_eq!(digests(&out.stderr), [expected], "{job} by {strategy:?}, {way}");
        }
    }
}

#[test]
fn a_copy_that_a_signal_ends_says_the_digest_of_what_it_wrote() {
    let scratch = support::scratch();
    let dir = scratch.path();
    for (extra, way) in ["bs=4k", "buffer=64k"].into_iter().flat_map(|extra| WAYS.map(|way| (extra, way))) {
        let (reader, writer) = support::pipe();
        let mut command = support::command(support::dd_under_test(), &["of=out", "hash=md5", extra], dir);
        let (stderr, stderr_writer) = support::pipe();
        command.stdin(Stdio::from(reader)).stderr(Stdio::from(stderr_writer)).env("FDD_DIGESTS", way);
        let child = command.spawn().unwrap();
        drop(command);
        let mut writer = File::from(writer);
        writer.write_all(&bytes(10_240)).unwrap();
        support::until("it was written", || fs::metadata(dir.join("out")).is_ok_and(|meta| meta.len() == 10_240));
        kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), Signal::INT).unwrap();
        let out = support::collect(child, None, Some(stderr), LIMIT);
        assert_eq!(out.end, End::Signal(2));
        assert_eq!(digests(&out.stderr), [format!("md5 (out) = {}", sum("md5sum", &dir.join("out")))], "{extra} {way}");
        fs::remove_file(dir.join("out")).unwrap();
    }
}

/// How many threads a run had for its digests.
fn digest_threads(report: &Path) -> usize {
    let text = fs::read_to_string(report).unwrap();
    text.lines().find_map(|line| line.strip_prefix("digest_threads ")).map_or(0, |number| number.parse().unwrap())
}

#[test]
fn digests_have_threads_only_where_they_pay() {
    let scratch = support::scratch();
    let processors = std::thread::available_parallelism().unwrap().get();
    const ONE: &str = "exec taskset -c \"$(taskset -cp $$ | sed 's/.*: \\([0-9]*\\).*/\\1/')\" dd \"$@\"";
    const HERE: &str = "exec dd \"$@\"";
    for (script, forced, job, threads) in [
        // Small.
        (HERE, "", "bs=64k count=16 hash=md5,sha256", 0),
        // Slow to come.
        (HERE, "", "bs=64k count=160 hash=md5 speed=40M", 0),
        // Cheap.
        (HERE, "", "bs=64k count=2000 hash=blake3", 0),
        // On one processor.
        (ONE, "", "bs=64k count=1000 hash=md5", 0),
        (HERE, "inline", "bs=64k count=1000 hash=md5", 0),
        (HERE, "threads", "bs=1 count=1 hash=md5,sha256,blake3", 3),
        // One processor is the copying thread's.
        (HERE, "", "bs=64k count=3000 hash=md5,sha1", (processors - 1).min(2)),
        (HERE, "", "bs=64k count=3000 hash=md5 hashconv=before", (processors - 1).min(1)),
    ] {
        let report = scratch.path().join("report");
        fs::write(&report, "").unwrap();
        let mut args = vec!["if=/dev/zero", "of=/dev/null"];
        args.extend(job.split(' '));
        let mut command = support::shell(support::dd_under_test(), script, &args, scratch.path());
        command.env("FDD_STRATEGY_REPORT", &report).env("FDD_DIGESTS", forced).env_remove("MAKEFLAGS");
        let out = support::finish(command, None, LIMIT);
        assert_eq!(out.end, End::Exit(0), "{}", support::one_line(&out.stderr));
        assert_eq!(digest_threads(&report), threads, "{job} {forced}");
    }
}

#[test]
fn a_thread_that_is_refused_costs_no_digest() {
    const REFUSING: &str =
        "exec strace -f -qq -o /dev/null -e trace=clone,clone3 -e inject=clone,clone3:error=EAGAIN dd \"$@\"";
    if !Command::new("strace").arg("-V").output().is_ok_and(|out| out.status.success()) {
        return support::skip("no strace");
    }
    let scratch = support::scratch();
    let dir = scratch.path();
    fs::write(dir.join("in"), bytes(300_003)).unwrap();
    fs::write(dir.join("report"), "").unwrap();
    let args = ["if=in", "of=out", "bs=4k", "hash=md5,sha256"];
    let mut command = support::shell(support::dd_under_test(), REFUSING, &args, dir);
    command.env("FDD_STRATEGY_REPORT", dir.join("report")).env("FDD_DIGESTS", "threads");
    let out = support::finish(command, None, LIMIT);
    assert_eq!((out.end, digest_threads(&dir.join("report"))), (End::Exit(0), 0));
    let expected = [("md5", "md5sum"), ("sha256", "sha256sum")]
        .map(|(hash, by)| format!("{hash} (out) = {}", sum(by, &dir.join("in"))));
    assert_eq!(digests(&out.stderr), expected);
}
