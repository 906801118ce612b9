//! `buffer=`: records, bytes and messages are those of the plain loop; marks; nothing is lost when an end stops or is slow.
//!
//! What dd does is waited for by its reports, its output and its state in /proc; no sleep decides an order.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::pipe::fcntl_setpipe_size;
use rustix::process::{Pid, Signal, kill_process};
use support::text::{expanded, normalised};
use support::{End, LIMIT};

const PAGE: usize = 4096;
/// What a record takes of the ring beside its bytes.
const HEADER: usize = 48;

/// Bytes in which no two stretches are alike.
fn bytes(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect()
}

/// Where the input of a comparison comes from.
#[derive(Clone, Debug)]
enum Input {
    /// Each read of the packets gets one of these lengths.
    Packets(Vec<usize>),
    /// Standard input is a file of this length, at this offset.
    File(usize, u64),
}

/// Everything that can be seen of one run.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    end: End,
    stdout: Vec<u8>,
    writes: Vec<usize>,
    stderr: String,
    file: Option<Vec<u8>>,
    left_at: Option<u64>,
    moved: String,
}

fn see(args: &[String], input: &Input, shell: &str, strategy: Option<&str>) -> Seen {
    let scratch = support::scratch();
    let dir = scratch.path().join("cwd");
    fs::create_dir(&dir).unwrap();
    let report = scratch.path().join("report");
    let dd = support::dd_under_test();
    let mut command =
        if shell.is_empty() { support::command(dd, args, &dir) } else { support::shell(dd, shell, args, &dir) };
    command.env("FDD_STRATEGY_REPORT", &report);
    if let Some(strategy) = strategy {
        command.env("FDD_STRATEGY", strategy);
    }
    let mut kept = None;
    command.stdin(match input {
        Input::Packets(lengths) => {
            let data = bytes(lengths.iter().sum());
            let mut rest = data.as_slice();
            let packets: Vec<&[u8]> = lengths
                .iter()
                .map(|&length| {
                    let (packet, after) = rest.split_at(length);
                    rest = after;
                    packet
                })
                .collect();
            Stdio::from(support::full_pipe(&packets, true))
        }
        Input::File(length, offset) => {
            let file = support::file_at(&scratch.path().join("in"), &bytes(*length), *offset, false);
            kept = Some(file.try_clone().unwrap());
            Stdio::from(file)
        }
    });
    let (stdout, writer) = support::packet_pipe();
    command.stdout(Stdio::from(writer));
    let out = support::finish(command, Some(stdout), LIMIT);
    Seen {
        end: out.end,
        stdout: out.stdout,
        writes: out.packets,
        stderr: normalised(&out.stderr),
        file: fs::read(dir.join("out")).ok(),
        left_at: kept.as_ref().map(support::offset_of),
        moved: fs::read_to_string(report).unwrap_or_default(),
    }
}

fn went_there(moved: &str) -> bool {
    moved.starts_with("buffer ") && moved.lines().count() == 1
}

/// Runs the same operands through the plain loop and through the buffer.
fn compare(args: &str, input: &Input, shell: &str) {
    let args: Vec<String> = args.split_whitespace().map(str::to_owned).collect();
    let mut plain = see(&args, input, shell, Some("pump"));
    let mut buffered = see(&args, input, shell, None);
    let moved = std::mem::take(&mut buffered.moved);
    if let End::Signal(_) = buffered.end {
        // It was killed by its own write: nobody was left to report, or to put the input back.
        (plain.left_at, buffered.left_at) = (None, None);
    } else {
        assert!(went_there(&moved), "{args:?} went another way: {moved:?}");
    }
    plain.moved.clear();
    assert!(
        plain == buffered,
        "{} of {input:?}\n  plain    {}\n  buffered {}",
        support::command_line(&args),
        support::one_line(format!("{plain:?}").as_bytes()),
        support::one_line(format!("{buffered:?}").as_bytes()),
    );
}

const MARKS: [&str; 6] = ["", "start=100", "stop=0", "start=50 stop=25", "start=100% stop=0%", "start=1 stop=99"];

#[test]
fn records_bytes_and_messages_are_those_of_the_plain_loop() {
    const JOBS: &[&str] = &[
        "bs=4",
        "bs=3 count=5",
        "bs=16 count=2 skip=1",
        "bs=7 iflag=fullblock",
        "bs=8 conv=sync",
        "bs=8 conv=sync,noerror",
        "bs=4096 of=out",
        "bs=100k of=out",
        "ibs=3 obs=7",
        "ibs=7 obs=3 of=out",
        "ibs=16 obs=1",
        "obs=100 ibs=1",
        "ibs=4 obs=16 conv=osync",
        "bs=5 conv=swab",
        "conv=ucase",
        "cbs=3 conv=block ibs=4 obs=5",
        "cbs=4 conv=unblock ibs=3",
        "cbs=3 conv=ebcdic bs=6",
        "bs=2 count=0",
        "bs=6 count=10B",
        "bs=4 seek=2 of=out",
        "bs=4 conv=sparse of=out",
        "bs=4 ostride=2 of=out",
        "bs=4 status=none",
        "bs=4 status=noxfer",
        "bs=4 msgfmt=quiet",
        "bs=4 files=2",
        "bs=16 speed=1000000",
    ];
    let inputs = [
        Input::Packets(vec![4, 4, 4, 1, 16, 3, 8, 8]),
        Input::Packets(vec![]),
        Input::File(0, 0),
        Input::File(5000, 0),
        Input::File(100, 33),
    ];
    for (number, job) in JOBS.iter().enumerate() {
        for (other, input) in inputs.iter().enumerate() {
            if job.contains("count=0") {
                continue;
            }
            let size = ["1", "4097", "1M"][(number + other) % 3];
            let marks = MARKS[(number + other) % MARKS.len()];
            compare(&format!("{job} buffer={size} {marks}"), input, "");
        }
    }
}

#[test]
fn strides_of_the_input_are_kept_to() {
    compare("bs=4 istride=3 buffer=1M", &Input::File(1000, 0), "");
    compare("bs=4 stride=3 of=out buffer=1", &Input::File(1000, 8), "");
    // A pipe cannot be strode over: the record before is still written.
    compare("bs=4 istride=3 buffer=1M", &Input::Packets(vec![4, 4]), "");
}

#[test]
fn random_jobs_are_those_of_the_plain_loop() {
    let mut state = 1_u64;
    let mut below = |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((state >> 33) % n).unwrap()
    };
    for _ in 0..60 {
        let mut args = match below(3) {
            0 => format!("bs={}", 1 + below(20)),
            1 => format!("ibs={} obs={}", 1 + below(20), 1 + below(20)),
            _ => format!("bs={} conv={}", 1 + below(20), ["swab", "ucase", "ebcdic", "swab,lcase"][below(4)]),
        };
        if below(2) == 0 {
            args += &format!(" count={}", 1 + below(30));
        }
        if below(3) == 0 {
            args += " iflag=fullblock";
        }
        if below(3) == 0 {
            args += &format!(" skip={}", below(4));
        }
        if below(3) == 0 {
            args += " of=out";
        }
        args += &format!(" buffer={} {}", 1 + below(9000), MARKS[below(6)]);
        let input = match below(2) {
            0 => Input::Packets((0..below(12)).map(|_| 1 + below(25)).collect()),
            _ => Input::File(below(20_000), u64::try_from(below(100)).unwrap()),
        };
        compare(&args, &input, "");
    }
}

#[test]
fn a_record_larger_than_the_memory_passes_in_one_write() {
    compare("bs=40000 buffer=1", &Input::File(100_000, 0), "");
    compare("ibs=10 obs=40000 of=out buffer=4k start=100 stop=0", &Input::File(100_000, 0), "");
}

#[test]
fn after_a_failed_write_the_input_stands_where_the_plain_loop_leaves_it() {
    for job in ["bs=10", "bs=10 conv=swab", "ibs=10 obs=35", "ibs=35 obs=10", "ibs=10 cbs=3 conv=block"] {
        for (of, shell) in [
            ("of=/dev/full", ""),
            // The limit falls inside a record.
            ("of=out", "trap '' XFSZ; ulimit -f 1; exec dd \"$@\""),
            // It kills, as it kills any writer.
            ("of=out", "ulimit -f 1; exec dd \"$@\""),
        ] {
            compare(&format!("{job} {of} buffer=64k"), &Input::File(30_000, 5), shell);
        }
    }
}

#[test]
fn blocks_that_were_stepped_over_are_counted_as_the_plain_loop_counts_them() {
    let dir = support::scratch();
    let path = dir.path().join("in");
    let blocks = ["data", "\0\0\0\0", "\0\0\0\0", "more", "\0\0\0x", "\0\0\0\0", "last"];
    fs::write(&path, blocks.concat()).unwrap();
    let (path, none) = (path.to_str().unwrap(), Input::File(0, 0));
    for conv in ["conv=sparse", "conv=notrunc", "conv=sparse,swab"] {
        compare(&format!("if={path} of=out bs=4 {conv} msgfmt=%p buffer=64k"), &none, "");
    }
    let args = format!("if={path} of=out bs=4 conv=sparse msgfmt=posix buffer=64k");
    let args: Vec<String> = args.split(' ').map(str::to_owned).collect();
    let said = see(&args, &none, "", None).stderr;
    assert!(said.contains("3 sparse output blocks"), "{said}");
}

#[test]
fn after_a_failed_write_as_many_truncated_records_are_told_as_by_the_plain_loop() {
    let dir = support::scratch();
    let path = dir.path().join("in");
    fs::write(&path, "abcdefgh\n".repeat(500)).unwrap();
    let path = path.to_str().unwrap();
    for obs in [4, 8, 20, 600] {
        for (of, shell) in [("/dev/full", ""), ("out", "trap '' XFSZ; ulimit -f 1; exec dd \"$@\"")] {
            let args = format!("if={path} of={of} ibs=100 obs={obs} cbs=4 conv=block buffer=64k");
            compare(&args, &Input::File(0, 0), shell);
        }
    }
}

#[test]
fn a_reader_that_leaves_ends_it_as_it_ends_the_plain_loop() {
    // By SIGPIPE, or where that is ignored with a message.
    for (trap, end, said) in [
        ("", End::Signal(13), ""),
        ("trap '' PIPE; ", End::Exit(1), "dd: error writing 'standard output': Broken pipe\n"),
    ] {
        let scratch = support::scratch();
        let args = ["if=/dev/zero", "bs=100k", "buffer=1M", "status=none"];
        let mut command =
            support::shell(support::dd_under_test(), &format!("{trap}exec dd \"$@\""), &args, scratch.path());
        let (reader, writer) = support::pipe();
        drop(reader);
        command.stdout(Stdio::from(writer));
        let out = support::finish(command, None, LIMIT);
        assert_eq!((String::from_utf8(out.stderr).unwrap().as_str(), out.end), (said, end));
    }
}

#[test]
fn what_was_read_before_a_read_error_is_written() {
    // Reading a descriptor that was made non-blocking gives EAGAIN once the pipe is empty.
    let mut outs = Vec::new();
    for strategy in [Some("pump"), None] {
        let scratch = support::scratch();
        let (stdin, writer) = support::pipe();
        let mut writer = File::from(writer);
        writer.write_all(b"abcdefghij").unwrap();
        let mut command = support::command(
            support::dd_under_test(),
            &["bs=4", "iflag=nonblock", "buffer=1M", "start=100"],
            scratch.path(),
        );
        if let Some(strategy) = strategy {
            command.env("FDD_STRATEGY", strategy);
        }
        let (stdout, out) = support::packet_pipe();
        command.stdin(Stdio::from(stdin)).stdout(Stdio::from(out));
        let out = support::finish(command, Some(stdout), LIMIT);
        outs.push((out.end, out.stdout, out.packets, normalised(&out.stderr)));
    }
    assert_eq!(outs[0], outs[1]);
    assert_eq!(outs[1].1, b"abcdefghij");
    assert_eq!(outs[1].0, End::Exit(1));
}

#[test]
fn a_failed_write_is_told_while_the_input_is_silent() {
    let mut dd = Running::dd(&["bs=4", "of=/dev/full", "buffer=1M"]);
    dd.write(b"abcd");
    // Nothing more comes, and the pipe stays open.
    let status = support::wait(&mut dd.child, LIMIT).expect("it ends");
    assert_eq!(End::from(status), End::Exit(1));
    let (_, said, _) = dd.rest();
    assert_eq!(
        normalised(said.as_bytes()),
        expanded("dd: error writing '/dev/full': No space left on device\n{1+0 0+0 0}")
    );
}

#[test]
fn memory_that_cannot_be_had_costs_no_output() {
    let scratch = support::scratch();
    fs::write(scratch.path().join("out"), b"kept").unwrap();
    let out = support::run_in(support::dd_under_test(), &["of=out", "buffer=7E"], scratch.path(), Stdio::null());
    assert_eq!(
        (String::from_utf8(out.stderr).unwrap().as_str(), out.end),
        ("dd: memory exhausted by intermediate buffer of size 8070450532247928832 bytes (7.0 EiB)\n", End::Exit(1))
    );
    assert_eq!(fs::read(scratch.path().join("out")).unwrap(), b"kept");
}

/// A dd that runs, with the test at the other end of its streams.
struct Running {
    child: Child,
    stdin: Option<File>,
    stdout: Option<File>,
    stderr: File,
    said: String,
}

impl Running {
    fn dd(args: &[&str]) -> Running {
        Running::with_stdin(args, None)
    }

    /// With a pipe on standard input unless `stdin` is given; standard output is a pipe of one page.
    fn with_stdin(args: &[&str], stdin: Option<File>) -> Running {
        let mut command: Command = support::command(support::dd_under_test(), args, Path::new("/"));
        let (stdin_reader, stdin_writer) = support::pipe();
        let (stdout, stdout_writer) = support::pipe();
        let (stderr, stderr_writer) = support::pipe();
        fcntl_setpipe_size(&stdout, PAGE).unwrap();
        let piped = stdin.is_none();
        command.stdin(stdin.map_or_else(|| Stdio::from(stdin_reader), Stdio::from));
        command.stdout(Stdio::from(stdout_writer)).stderr(Stdio::from(stderr_writer));
        let child = command.spawn().unwrap();
        Running {
            child,
            stdin: piped.then(|| stdin_writer.into()),
            stdout: Some(stdout.into()),
            stderr: stderr.into(),
            said: String::new(),
        }
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap(), signal).unwrap();
    }

    fn write(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    fn read(&mut self, length: usize) -> Vec<u8> {
        support::read_whole(self.stdout.as_mut().unwrap(), length)
    }

    /// One read of standard error; false at its end.
    fn hear(&mut self, deadline: Instant) -> bool {
        assert!(support::readable(&self.stderr, deadline.saturating_duration_since(Instant::now())), "{:?}", self.said);
        let mut piece = [0; PAGE];
        let got = self.stderr.read(&mut piece).unwrap();
        self.said.push_str(std::str::from_utf8(&piece[..got]).unwrap());
        got > 0
    }

    /// Asks for a report: full and partial records in and out, and bytes.
    fn report(&mut self) -> [u64; 5] {
        let catches = || support::catches(self.child.id(), 10);
        support::until("dd reports when asked", catches);
        let from = self.said.len();
        let deadline = Instant::now() + LIMIT;
        self.send(Signal::USR1);
        while !self.said[from..].contains(" copied, ") {
            assert!(self.hear(deadline), "dd ended and said {:?}", self.said);
        }
        numbers(&self.said[from..])
    }

    /// Asks for reports until one fits.
    fn until(&mut self, what: &str, fits: impl Fn([u64; 5]) -> bool) -> [u64; 5] {
        let deadline = Instant::now() + LIMIT;
        loop {
            let report = self.report();
            if fits(report) {
                return report;
            }
            assert!(Instant::now() < deadline, "not so: {what}; but {report:?}");
        }
    }

    /// Closes dd's input, reads all that comes and waits.
    fn finish(mut self) -> (Vec<u8>, String, End) {
        drop(self.stdin.take());
        self.rest()
    }

    fn rest(mut self) -> (Vec<u8>, String, End) {
        let stdout = self.stdout.take().map(OwnedFd::from);
        let out = support::collect(self.child, stdout, Some(self.stderr.into()), LIMIT);
        self.said.push_str(&String::from_utf8_lossy(&out.stderr));
        (out.stdout, self.said, out.end)
    }
}

/// The counts of the last summary in `text`.
fn numbers(text: &str) -> [u64; 5] {
    let number = |text: &str| text.parse::<u64>().unwrap_or_else(|_| panic!("no number: {text:?}"));
    let lines: Vec<&str> = text.lines().collect();
    let at =
        lines.iter().rposition(|line| line.ends_with(" records in")).unwrap_or_else(|| panic!("no summary: {text:?}"));
    let record =
        |line: &str| line.split(' ').next().and_then(|word| word.split_once('+')).map(|(a, b)| [number(a), number(b)]);
    let ([full_in, part_in], [full_out, part_out]) = (record(lines[at]).unwrap(), record(lines[at + 1]).unwrap());
    [full_in, part_in, full_out, part_out, number(lines[at + 2].split(' ').next().unwrap())]
}

#[test]
fn the_writer_begins_at_the_start_mark_and_again_when_it_has_run_empty() {
    let data = bytes(PAGE * 32);
    // Half of 64 KiB are seven records with their headers, and a bit.
    let mut dd = Running::dd(&["bs=4096", "iflag=fullblock", "buffer=64k", "start=50"]);
    for round in 0..2 {
        let from = round * 16 * PAGE;
        dd.write(&data[from..from + 7 * PAGE]);
        let (before, now) = (round as u64 * 8, round as u64 * 8 + 7);
        let report = dd.until("all was read", |report| report[0] == now);
        assert_eq!(report, [now, 0, before, 0, before * PAGE as u64], "written below the mark");
        const { assert!(7 * (PAGE + HEADER) < 32 << 10 && 8 * (PAGE + HEADER) >= 32 << 10) };
        dd.write(&data[from + 7 * PAGE..from + 8 * PAGE]);
        assert!(dd.read(8 * PAGE) == data[from..from + 8 * PAGE]);
        dd.until("all was written", |report| report[2] == before + 8);
    }
    // What is below the mark when the input ends is written all the same.
    dd.write(&data[..PAGE + 5]);
    let (stdout, said, end) = dd.finish();
    assert_eq!(end, End::Exit(0));
    assert!(stdout == data[..PAGE + 5], "{} bytes", stdout.len());
    assert_eq!(numbers(&said), [17, 1, 17, 1, 17 * PAGE as u64 + 5]);
}

#[test]
fn a_reader_that_found_the_memory_full_goes_on_at_the_stop_mark() {
    let (path, dir) = with_file(PAGE * 400);
    let mut dd = Running::dd(&[&format!("if={path}"), "bs=4096", "buffer=64k", "stop=25"]);
    // Sixteen fill the ring; a further one may be in the pipe and one in the writer's hands before the reader finds it full.
    let (least, most) = (16, 18);
    dd.until("as much was read as fits", |report| report[0] >= least);
    let mut read = 0;
    // Down to three quarters and to half: nothing is read.
    for records in [4, 4] {
        dd.read(records * PAGE);
        read += records;
        let report = dd.until("it was written", |report| report[2] >= read as u64);
        assert!(report[0] <= most, "read on above the mark: {report:?}");
    }
    dd.read(6 * PAGE);
    dd.until("it reads again", |report| report[0] > most);
    let (rest, said, end) = dd.finish();
    assert_eq!((rest.len(), end), ((400 - 14) * PAGE, End::Exit(0)));
    assert!(rest == fs::read(&path).unwrap()[14 * PAGE..]);
    assert_eq!(numbers(&said), [400, 0, 400, 0, 400 * PAGE as u64]);
    drop(dir);
}

fn with_file(len: usize) -> (String, tempfile::TempDir) {
    let dir = support::scratch();
    let path = dir.path().join("in");
    fs::write(&path, bytes(len)).unwrap();
    (path.to_str().unwrap().to_owned(), dir)
}

#[test]
fn a_signal_ends_it_while_the_writer_is_stuck() {
    for (signal, number) in [(Signal::INT, 2), (Signal::TERM, 15), (Signal::HUP, 1)] {
        for args in
            [&["bs=100k", "if=/dev/zero", "buffer=1M"][..], &["obs=100k", "if=/dev/zero", "buffer=1", "conv=swab"]]
        {
            let mut dd = Running::dd(args);
            dd.until("it reads ahead", |report| report[0] > 0);
            // What is in the pipe is all that it takes.
            assert!(support::readable(dd.stdout.as_ref().unwrap(), LIMIT));
            dd.send(signal);
            // Nobody reads what it has written.
            let status = support::wait(&mut dd.child, LIMIT).expect("it ends");
            assert_eq!(End::from(status), End::Signal(number));
            let (stdout, said, _) = dd.rest();
            let [_, _, full, partial, count] = numbers(&said);
            assert_eq!((full, partial, count), (0, 1, stdout.len() as u64), "{said}");
        }
    }
}

#[test]
fn a_signal_ends_it_when_all_is_read_and_the_writer_is_stuck() {
    let mut dd = Running::dd(&["bs=4k", "buffer=1M", "iflag=fullblock"]);
    dd.write(&bytes(8 * PAGE));
    dd.until("all was read", |report| report[0] == 8);
    dd.stdin.take();
    // One record is in the pipe, which takes no more.
    assert!(support::readable(dd.stdout.as_ref().unwrap(), LIMIT));
    dd.send(Signal::TERM);
    let status = support::wait(&mut dd.child, LIMIT).expect("it ends");
    assert_eq!(End::from(status), End::Signal(15));
    let (stdout, said, _) = dd.rest();
    assert!(stdout == bytes(PAGE), "{} bytes", stdout.len());
    assert_eq!(numbers(&said), [8, 0, 1, 0, PAGE as u64]);
}

#[test]
fn a_signal_leaves_the_input_behind_what_was_written() {
    let (path, dir) = with_file(PAGE * 40);
    let file = File::open(&path).unwrap();
    let kept = file.try_clone().unwrap();
    let mut dd = Running::with_stdin(&["bs=4096", "buffer=64k", "start=100"], Some(file));
    dd.read(3 * PAGE);
    dd.until("it reads ahead", |report| report[0] > 12);
    dd.send(Signal::INT);
    let status = support::wait(&mut dd.child, LIMIT).expect("it ends");
    assert_eq!(End::from(status), End::Signal(2));
    let (stdout, said, _) = dd.rest();
    let [full_in, part_in, full_out, part_out, count] = numbers(&said);
    let out = 3 * PAGE + stdout.len();
    assert_eq!((count, part_in), (out as u64, 0), "{said}");
    // The record that was being written counts as used, as for the plain loop.
    let left = support::offset_of(&kept);
    assert_eq!(left, full_in * PAGE as u64);
    assert!(full_in == full_out + part_out || (part_out == 0 && full_in == full_out + 1), "{said}");
    drop(dir);
}

#[test]
fn a_signal_leaves_the_input_behind_what_was_gathered_for_a_block() {
    let (path, dir) = with_file(5000);
    let file = File::open(&path).unwrap();
    let kept = file.try_clone().unwrap();
    // One record of three is in, and the next one may not be read for a quarter of an hour.
    let mut dd = Running::with_stdin(&["ibs=1000", "obs=3000", "buffer=64k", "speed=1"], Some(file));
    dd.until("the first record was read", |report| report[0] == 1);
    dd.send(Signal::INT);
    let status = support::wait(&mut dd.child, LIMIT).expect("it ends");
    assert_eq!(End::from(status), End::Signal(2));
    let (_, said, _) = dd.rest();
    assert_eq!((numbers(&said), support::offset_of(&kept)), ([1, 0, 0, 0, 0], 1000));
    drop(dir);
}

#[test]
fn reports_are_given_wherever_it_waits_and_no_byte_is_lost() {
    let data = bytes(PAGE * 50);
    let mut dd = Running::dd(&["bs=4096", "iflag=fullblock", "buffer=32k"]);
    // In the read.
    assert_eq!(dd.report(), [0, 0, 0, 0, 0]);
    // Before the full ring.
    let mut stdin = dd.stdin.take().unwrap();
    let feeding = {
        let data = data.clone();
        std::thread::spawn(move || stdin.write_all(&data).unwrap())
    };
    let stuck = dd.until("the ring is full", |report| report[0] >= 9);
    assert_eq!(stuck[2..4], [1, 0]);
    for _ in 0..20 {
        dd.report();
    }
    let mut got = dd.read(41 * PAGE);
    // When all is read.
    feeding.join().unwrap();
    let report = dd.until("all was read", |report| report[0] == 50);
    assert!(report[2] < 50);
    let (rest, said, end) = dd.finish();
    got.extend_from_slice(&rest);
    assert_eq!(end, End::Exit(0));
    assert!(got == data, "bytes were lost or changed");
    assert_eq!(numbers(&said), [50, 0, 50, 0, 50 * PAGE as u64]);
}

#[test]
fn the_progress_line_tells_how_full_the_memory_is() {
    let mut dd = Running::dd(&["if=/dev/zero", "bs=4096", "buffer=64k", "status=progress"]);
    let deadline = Instant::now() + LIMIT;
    while !dd.said.contains(", buffer 100%") {
        assert!(dd.hear(deadline), "dd ended and said {:?}", dd.said);
    }
    assert!(dd.said.starts_with('\r'), "{:?}", dd.said);
    dd.send(Signal::INT);
    support::wait(&mut dd.child, LIMIT).expect("it ends");
    let (_, said, _) = dd.rest();
    // The summary has no word of it.
    assert!(!said.rsplit('\n').take(4).any(|line| line.contains("buffer")), "{said:?}");
}
