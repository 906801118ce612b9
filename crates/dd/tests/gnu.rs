//! Random jobs, each run by fdd and by the installed GNU dd and compared in all that can be seen: standard output,
//! standard error, exit, the output file's bytes, size and holes, the offsets and flags left on inherited descriptors.
//!
//! `FDD_JOBS` (how many), `FDD_SEED`, `FDD_FIRST` (the number of the first job), `FDD_THREADS`, `FDD_FAILURES` (after
//! how many to stop) and `FDD_PROFILE` (`small`, or `large` for inputs of up to 4 MB) choose what is run. A failure prints how to repeat it.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "support/random.rs"]
mod random;
mod support;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use random::Random;
use support::{Dd, End};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Profile {
    Small,
    Large,
}

#[derive(Clone)]
enum Stdin {
    Null,
    File { bytes: Vec<u8>, at: u64 },
    Pipe(Vec<u8>),
    Packets(Vec<Vec<u8>>),
    Directory,
}

#[derive(Clone)]
enum Stdout {
    Pipe,
    /// A pipe that keeps the boundaries of writes.
    PacketPipe,
    File {
        bytes: Vec<u8>,
        at: u64,
    },
    Append {
        bytes: Vec<u8>,
    },
    Null,
}

/// One of count, skip and seek.
#[derive(Clone, Copy)]
struct Position {
    number: u64,
    /// In bytes by the suffix B or by a flag, not in blocks.
    bytes: bool,
}

impl Position {
    fn in_bytes(self, block: u64) -> u64 {
        if self.bytes { self.number } else { self.number * block }
    }
}

/// What a job asks for, as the generator means it.
#[derive(Clone, Default)]
struct Wish {
    bs: Option<u64>,
    ibs: Option<u64>,
    obs: Option<u64>,
    cbs: Option<u64>,
    count: Option<Position>,
    skip: Option<Position>,
    seek: Option<Position>,
    conv: Vec<&'static str>,
    iflag: Vec<&'static str>,
    oflag: Vec<&'static str>,
    status: Vec<&'static str>,
    input: Option<&'static str>,
    output: Option<&'static str>,
    /// Operands that say again what `Wish` says already, or are wrong.
    odd: Vec<String>,
    iseek: bool,
    oseek: bool,
}

impl Wish {
    fn input_block(&self) -> u64 {
        self.bs.or(self.ibs).unwrap_or(512)
    }

    fn output_block(&self) -> u64 {
        self.bs.or(self.obs).unwrap_or(512)
    }

    fn conv(&self, word: &str) -> bool {
        self.conv.contains(&word)
    }

    fn same_file(&self) -> bool {
        self.input.is_some() && self.input == self.output
    }
}

#[derive(Clone)]
struct Job {
    wish: Wish,
    args: Vec<OsString>,
    stdin: Stdin,
    stdout: Stdout,
    /// The file `in`.
    input: Vec<u8>,
    /// The file `out`, if it is there before.
    output: Option<Vec<u8>>,
    /// The size that `out` is cut or extended to before, without writing.
    output_size: Option<u64>,
}

const CONVS: [(&str, u64); 18] = [
    ("ascii", 5),
    ("ebcdic", 5),
    ("ibm", 5),
    ("block", 11),
    ("unblock", 11),
    ("lcase", 9),
    ("ucase", 9),
    ("swab", 15),
    ("sync", 20),
    ("noerror", 12),
    ("excl", 7),
    ("nocreat", 7),
    ("notrunc", 30),
    ("fdatasync", 7),
    ("fsync", 7),
    ("sparse", 18),
    // Twice the same word is the same.
    ("sync", 2),
    ("notrunc", 2),
];

const IFLAGS: [(&str, u64); 15] = [
    ("append", 5),
    ("direct", 6),
    ("directory", 1),
    ("dsync", 5),
    ("sync", 5),
    ("nocache", 8),
    ("nonblock", 6),
    ("noatime", 5),
    ("noctty", 5),
    ("nofollow", 5),
    ("fullblock", 25),
    ("count_bytes", 10),
    ("skip_bytes", 10),
    ("seek_bytes", 5),
    ("fullblock", 1),
];

const OFLAGS: [(&str, u64); 14] = [
    ("append", 12),
    ("direct", 6),
    ("directory", 1),
    ("dsync", 5),
    ("sync", 5),
    ("nocache", 8),
    ("nonblock", 6),
    ("noatime", 5),
    ("noctty", 5),
    ("nofollow", 5),
    ("count_bytes", 5),
    ("skip_bytes", 5),
    ("seek_bytes", 10),
    ("append", 1),
];

/// Pairs of words of which dd takes only one.
const CONFLICTS: [(&str, &str); 8] = [
    ("ascii", "ebcdic"),
    ("ascii", "ibm"),
    ("ebcdic", "ibm"),
    ("block", "unblock"),
    ("lcase", "ucase"),
    ("excl", "nocreat"),
    ("ascii", "block"),
    ("direct", "nocache"),
];

fn words_of(random: &mut Random, from: &[(&'static str, u64)], scarcity: u64) -> Vec<&'static str> {
    let mut words: Vec<_> =
        from.iter().filter(|(_, chance)| random.percent(chance / scarcity)).map(|(word, _)| *word).collect();
    for index in (1..words.len()).rev() {
        words.swap(index, random.size(0, index));
    }
    if !random.percent(1) {
        let more = [("ebcdic", "unblock"), ("ibm", "unblock")];
        for (one, other) in CONFLICTS.iter().chain(&more) {
            if words.contains(one) && words.contains(other) {
                let dropped = if random.percent(50) { one } else { other };
                words.retain(|word| word != dropped);
            }
        }
    }
    words
}

/// Bytes that conversions and holes take an interest in.
fn bytes_of(random: &mut Random, length: usize) -> Vec<u8> {
    let kind = random.within(0, 4);
    let mut bytes = Vec::with_capacity(length);
    while bytes.len() < length {
        let left = length - bytes.len();
        match kind {
            // Lines and trailing spaces.
            0 | 1 => {
                let run = random.size(1, 12).min(left);
                match random.within(0, 3) {
                    0 => bytes.extend(std::iter::repeat_n(b' ', run)),
                    1 => bytes.push(b'\n'),
                    _ => bytes.extend(
                        (0..run).map(|_| *b"abcXYZ019 _".get(usize::try_from(random.next() % 11).unwrap()).unwrap()),
                    ),
                }
            }
            // Zeros between data.
            2 => {
                let run = random.size(1, (length / 4).max(1)).min(left);
                if random.percent(60) {
                    bytes.extend(std::iter::repeat_n(0, run));
                } else {
                    bytes.extend((0..run).map(|at| b'a' + u8::try_from(at % 26).unwrap()));
                }
            }
            _ => {
                let word = random.next().to_le_bytes();
                bytes.extend_from_slice(&word[..left.min(8)]);
            }
        }
    }
    bytes
}

/// A number in one of the ways to write it.
fn number(random: &mut Random, number: u64, in_bytes: bool) -> String {
    let plain = number.to_string();
    let mut text = match random.within(0, 9) {
        0 => format!("{plain}c"),
        1 if number.is_multiple_of(2) => format!("{}w", number / 2),
        2 if number.is_multiple_of(3) => format!("3x{}", number / 3),
        3 if number.is_multiple_of(2) && number > 0 => format!("{}x2", number / 2),
        4 => format!("+{plain}"),
        5 => format!("0{plain}"),
        // `kB` is a thousand.
        6 if number > 0 && number.is_multiple_of(1024) && !in_bytes => format!("{}k", number / 1024),
        _ => plain.clone(),
    };
    if in_bytes {
        // GNU dd 9.1 takes B only on the first of two factors.
        text = match text.split_once('x') {
            Some((one, other)) => format!("{one}Bx{other}"),
            None => format!("{text}B"),
        };
    }
    text
}

impl Job {
    fn random(random: &mut Random, profile: Profile) -> Job {
        let large = profile == Profile::Large;
        // Holes come in pages, so some jobs need blocks of that size.
        let pages = !large && random.percent(3);
        let block = |random: &mut Random| match (large, pages) {
            (false, false) => random.within(1, 16),
            (false, true) => *random.pick(&[512, 1000, 1024, 4096, 4096, 8192, 5000]),
            (true, _) => match random.within(0, 5) {
                0 => random.within(1, 600),
                1 => random.within(1, 100_000),
                2 => *random.pick(&[4096, 8192, 65_536, 131_072, 262_144]),
                3 => 512 * random.within(1, 64),
                // Also records that are moved in pieces.
                4 => random.within(262_145, 2_600_000),
                _ => random.within(1, 9000),
            },
        };
        let mut wish = Wish::default();
        if random.percent(50) {
            wish.bs = Some(block(random));
        }
        if random.percent(if wish.bs.is_some() { 12 } else { 65 }) {
            wish.ibs = Some(block(random));
        }
        if random.percent(if wish.bs.is_some() { 12 } else { 65 }) {
            wish.obs = Some(block(random));
        }
        wish.conv = words_of(random, &CONVS, 1);
        wish.iflag = words_of(random, &IFLAGS, 1);
        wish.oflag = words_of(random, &OFLAGS, 1);
        let records = ["block", "unblock", "ascii", "ebcdic", "ibm"].iter().any(|word| wish.conv(word));
        if random.percent(if records { 75 } else { 15 }) {
            wish.cbs = Some(if large { random.within(1, 200) } else { random.within(1, 16) });
        }
        for (word, chance) in [("none", 9), ("noxfer", 9), ("progress", 9)] {
            if random.percent(chance) {
                wish.status.push(word);
            }
        }

        // The sizes: a system call for each block must not take more than a moment.
        let smallest = wish.input_block().min(wish.output_block());
        let length = match (large, pages) {
            (false, false) => random.size(0, 199),
            (false, true) => random.size(0, 40_000),
            (true, _) => {
                let most = (smallest * 20_000).clamp(100_000, 4_000_000);
                random.size(100_000, usize::try_from(most).unwrap())
            }
        };
        let length = if random.percent(4) { 0 } else { length };
        let input = bytes_of(random, length);
        let span = |random: &mut Random, unit: u64, flag: bool| {
            let blocks = (length as u64 / unit).clamp(2, 100_000);
            let position = |number, bytes| Position { number, bytes };
            match random.within(0, 9) {
                0 => position(0, flag || random.percent(50)),
                1..=5 if !flag => position(random.within(0, blocks + 1), false),
                6 if !flag => position(random.within(1, 3), false),
                _ => position(random.within(0, length as u64 + 10), true),
            }
        };
        if random.percent(35) {
            let flag = wish.iflag.contains(&"count_bytes");
            wish.count = Some(span(random, wish.input_block(), flag));
        }
        if random.percent(30) {
            let flag = wish.iflag.contains(&"skip_bytes");
            wish.skip = Some(span(random, wish.input_block(), flag));
            wish.iseek = random.percent(25);
        }
        if random.percent(30) {
            let flag = wish.oflag.contains(&"seek_bytes");
            wish.seek = Some(span(random, wish.output_block(), flag));
            wish.oseek = random.percent(25);
        }

        if random.percent(45) {
            wish.input = Some(if random.percent(2) { "missing" } else { "in" });
        }
        if random.percent(55) {
            wish.output = Some(if random.percent(3) { "in" } else { "out" });
        }
        if wish.same_file() {
            // A file that is copied onto its own end grows without end, and fdd refuses to append it to itself.
            let most = (length as u64 / wish.input_block()).clamp(2, 50_000);
            wish.count = Some(Position { number: random.within(0, most), bytes: false });
            wish.iflag.retain(|word| *word != "count_bytes");
            wish.oflag.retain(|word| *word != "append");
        }

        let stdin = match random.within(0, 19) {
            _ if wish.input.is_some() && random.percent(70) => Stdin::Null,
            0 => Stdin::Null,
            1 if !wish.conv("noerror") => Stdin::Directory,
            2..=8 => Stdin::File { at: random.within(0, length as u64 / 2 + 1), bytes: input.clone() },
            9..=13 => Stdin::Pipe(input[..length.min(1_000_000)].to_vec()),
            _ => {
                let mut rest = &input[..length.min(250_000)];
                let mut packets = Vec::new();
                let most = usize::try_from(wish.input_block()).unwrap().min(4096);
                while !rest.is_empty() && packets.len() < 200 {
                    let cut = if random.percent(60) { most } else { random.size(1, most) }.min(rest.len());
                    packets.push(rest[..cut].to_vec());
                    rest = &rest[cut..];
                }
                Stdin::Packets(packets)
            }
        };
        if matches!(stdin, Stdin::Directory) && wish.input.is_none() && random.percent(50) {
            wish.iflag.push("directory");
        }
        let old = |random: &mut Random| {
            let length = if large { random.size(0, 3_000_000) } else { random.size(0, 150) };
            bytes_of(random, length)
        };
        let stdout = match random.within(0, 19) {
            _ if wish.output.is_some() && random.percent(70) => Stdout::Null,
            0 => Stdout::Null,
            1..=5 => Stdout::Pipe,
            6..=9 if !wish.oflag.contains(&"nonblock") && !large => Stdout::PacketPipe,
            10..=12 => Stdout::Append { bytes: old(random) },
            _ => {
                let bytes = old(random);
                Stdout::File { at: random.within(0, bytes.len() as u64 + 2), bytes }
            }
        };
        if matches!(stdout, Stdout::Pipe | Stdout::PacketPipe) && wish.output.is_none() {
            // A pipe that is full when a write comes would make the result a matter of timing.
            if large || wish.oflag.contains(&"direct") {
                wish.oflag.retain(|word| *word != "nonblock");
            }
        }
        let output = (!wish.conv("excl") && random.percent(70) || random.percent(10)).then(|| old(random));

        if random.percent(2) {
            wish.odd.push(
                (*random.pick(&[
                    "bs=0",
                    "count=-1",
                    "skip=1xx1",
                    "conv=nope",
                    "foo=1",
                    "seek=99999999999999999999",
                    "ibs=1s",
                ]))
                .into(),
            );
        }
        let mut job = Job { wish, args: Vec::new(), stdin, stdout, input, output, output_size: None };
        job.args = job.written(random);
        job
    }

    /// The operands, in any order.
    fn written(&self, random: &mut Random) -> Vec<OsString> {
        let wish = &self.wish;
        let mut args: Vec<String> = Vec::new();
        for (name, value) in [("bs", wish.bs), ("ibs", wish.ibs), ("obs", wish.obs), ("cbs", wish.cbs)] {
            if let Some(value) = value {
                args.push(format!("{name}={}", number(random, value, random.0.is_multiple_of(16))));
            }
        }
        let skip = if wish.iseek { "iseek" } else { "skip" };
        let seek = if wish.oseek { "oseek" } else { "seek" };
        let flags = [
            wish.iflag.contains(&"count_bytes"),
            wish.iflag.contains(&"skip_bytes"),
            wish.oflag.contains(&"seek_bytes"),
        ];
        for ((name, position), flag) in
            [("count", wish.count), (skip, wish.skip), (seek, wish.seek)].into_iter().zip(flags)
        {
            if let Some(position) = position {
                let suffix = position.bytes && (!flag || random.percent(20));
                args.push(format!("{name}={}", number(random, position.number, suffix)));
            }
        }
        for (name, words) in [("conv", &wish.conv), ("iflag", &wish.iflag), ("oflag", &wish.oflag)] {
            if words.is_empty() {
            } else if random.percent(20) {
                args.extend(words.iter().map(|word| format!("{name}={word}")));
            } else {
                args.push(format!("{name}={}", words.join(",")));
            }
        }
        if !wish.status.is_empty() {
            args.push(format!("status={}", wish.status.join(",")));
        }
        args.extend(wish.input.map(|file| format!("if={file}")));
        args.extend(wish.output.map(|file| format!("of={file}")));
        args.extend(wish.odd.iter().cloned());
        for index in (1..args.len()).rev() {
            args.swap(index, random.size(0, index));
        }
        if random.percent(5) && !args.is_empty() {
            // An operand that a later one overrules.
            let (name, _) = args[random.size(0, args.len() - 1)].split_once('=').unwrap();
            let value = match name {
                "if" | "of" => Some("elsewhere"),
                "bs" | "ibs" | "obs" | "cbs" | "count" | "skip" | "seek" => Some("7"),
                "status" => Some("none"),
                _ => None,
            };
            if let Some(value) = value {
                args.insert(0, format!("{name}={value}"));
            }
        }
        args.into_iter().map(|arg| OsString::from_vec(arg.into_bytes())).collect()
    }

    /// The same job with one conv word less or more.
    fn with_conv(&self, conv: Vec<&'static str>) -> Job {
        let mut job = self.clone();
        job.args.retain(|arg| !arg.to_string_lossy().starts_with("conv="));
        if !conv.is_empty() {
            job.args.push(format!("conv={}", conv.join(",")).into());
        }
        job.wish.conv = conv;
        job
    }

    fn input_is_seekable(&self) -> bool {
        self.wish.input.is_some() || !matches!(self.stdin, Stdin::Pipe(_) | Stdin::Packets(_))
    }

    fn appends(&self) -> bool {
        self.wish.oflag.contains(&"append")
            || self.wish.output.is_none() && matches!(self.stdout, Stdout::Append { .. })
    }

    fn command_line(&self) -> String {
        let stdin = match &self.stdin {
            Stdin::Null => "/dev/null".to_owned(),
            Stdin::File { bytes, at } => format!("a file of {} bytes at {at}", bytes.len()),
            Stdin::Pipe(bytes) => format!("a pipe of {} bytes", bytes.len()),
            Stdin::Packets(packets) => {
                format!("packets of {:?} bytes", packets.iter().map(Vec::len).take(30).collect::<Vec<_>>())
            }
            Stdin::Directory => "a directory".to_owned(),
        };
        let stdout = match &self.stdout {
            Stdout::Pipe => "a pipe".to_owned(),
            Stdout::PacketPipe => "a packet-mode pipe".to_owned(),
            Stdout::File { bytes, at } => format!("a file of {} bytes at {at}", bytes.len()),
            Stdout::Append { bytes } => format!("a file of {} bytes, to append", bytes.len()),
            Stdout::Null => "/dev/null".to_owned(),
        };
        let old = self.output.as_ref().map_or("none".to_owned(), |bytes| format!("{} bytes", bytes.len()));
        format!(
            "{}   # input {stdin}, output {stdout}, in {} bytes, out {old}",
            support::command_line(&self.args),
            self.input.len()
        )
    }
}

/// What can be seen of a run.
#[derive(PartialEq, Eq, Clone)]
struct Seen {
    end: End,
    stdout: Vec<u8>,
    packets: Vec<usize>,
    stderr: String,
    input: Option<Vec<u8>>,
    output: Option<Vec<u8>>,
    holes: Vec<(u64, u64)>,
    stdin_left: Option<(u64, u32)>,
    stdout_left: Option<(u64, u32)>,
}

impl Seen {
    /// Names and shows what is not equal.
    fn differences(&self, gnu: &Seen) -> Vec<String> {
        let text = |value: &dyn std::fmt::Debug| format!("{value:?}");
        let bytes = |value: &Option<Vec<u8>>| value.as_ref().map_or("none".into(), |bytes| shown(bytes));
        let rows = [
            ("end", text(&self.end), text(&gnu.end)),
            ("stderr", shown(self.stderr.as_bytes()), shown(gnu.stderr.as_bytes())),
            ("stdout", shown(&self.stdout), shown(&gnu.stdout)),
            ("writes", text(&self.packets), text(&gnu.packets)),
            ("in", bytes(&self.input), bytes(&gnu.input)),
            ("out", bytes(&self.output), bytes(&gnu.output)),
            ("holes", text(&self.holes), text(&gnu.holes)),
            ("stdin offset, flags", text(&self.stdin_left), text(&gnu.stdin_left)),
            ("stdout offset, flags", text(&self.stdout_left), text(&gnu.stdout_left)),
        ];
        let mut out: Vec<_> = rows
            .into_iter()
            .filter(|(_, one, other)| one != other)
            .map(|(what, one, other)| format!("  {what}\n    fdd {}\n    gnu {}", cut(&one), cut(&other)))
            .collect();
        for (what, one, other) in
            [("stdout", Some(&self.stdout), Some(&gnu.stdout)), ("out", self.output.as_ref(), gnu.output.as_ref())]
        {
            if let (Some(one), Some(other)) = (one, other)
                && one != other
            {
                let same = one.iter().zip(other.iter()).take_while(|(one, other)| one == other).count();
                out.push(format!("  {what}: {} and {} bytes, equal up to {same}", one.len(), other.len()));
            }
        }
        out
    }
}

/// A text of ours that is already escaped, cut to a line.
fn cut(text: &str) -> &str {
    text.char_indices().nth(600).map_or(text, |(at, _)| &text[..at])
}

fn shown(bytes: &[u8]) -> String {
    // A digest of the whole, so that what lies behind the cut counts too.
    let sum = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    let cut = &bytes[..bytes.len().min(500)];
    if cut.len() == bytes.len() {
        cut.escape_ascii().to_string()
    } else {
        format!("{}... {} bytes, {sum:x}", cut.escape_ascii(), bytes.len())
    }
}

/// A directory for each side, used again by each job of a thread.
struct Place {
    dir: PathBuf,
    stdin: PathBuf,
    stdout: PathBuf,
}

impl Place {
    fn new(root: &Path, name: &str) -> Place {
        let dir = root.join(name);
        fs::create_dir(&dir).unwrap();
        Place { dir, stdin: root.join(format!("{name}.stdin")), stdout: root.join(format!("{name}.stdout")) }
    }

    fn run(&self, dd: &Dd, job: &Job) -> Seen {
        let (input, output) = (self.dir.join("in"), self.dir.join("out"));
        if job.wish.input == Some("in") || job.wish.output == Some("in") {
            fs::write(&input, &job.input).unwrap();
        } else {
            fs::remove_file(&input).ok();
        }
        fs::remove_file(&output).ok();
        if let Some(bytes) = &job.output {
            fs::write(&output, bytes).unwrap();
        }
        if let Some(size) = job.output_size {
            File::options().write(true).open(&output).unwrap().set_len(size).unwrap();
        }
        let mut command = support::command(dd, &job.args, &self.dir);
        let mut kept_in = None;
        command.stdin(match &job.stdin {
            Stdin::Null => Stdio::null(),
            Stdin::File { bytes, at } => {
                let file = support::file_at(&self.stdin, bytes, *at, false);
                kept_in = Some(file.try_clone().unwrap());
                Stdio::from(file)
            }
            Stdin::Pipe(bytes) => Stdio::from(support::full_pipe(&[bytes], false)),
            Stdin::Packets(packets) => {
                let packets: Vec<_> = packets.iter().map(Vec::as_slice).collect();
                Stdio::from(support::full_pipe(&packets, true))
            }
            Stdin::Directory => {
                let file = File::open(&self.dir).unwrap();
                Stdio::from(file)
            }
        });
        let mut kept_out = None;
        let mut reader = None;
        command.stdout(match &job.stdout {
            Stdout::Null => Stdio::null(),
            Stdout::Pipe | Stdout::PacketPipe => {
                let (read, write) =
                    if matches!(job.stdout, Stdout::PacketPipe) { support::packet_pipe() } else { support::pipe() };
                reader = Some(read);
                Stdio::from(write)
            }
            Stdout::File { bytes, .. } | Stdout::Append { bytes } => {
                let (at, append) = if let Stdout::File { at, .. } = job.stdout { (at, false) } else { (0, true) };
                // A new file each time: holes of the last one must not be seen.
                fs::remove_file(&self.stdout).ok();
                let file = support::file_at(&self.stdout, bytes, at, append);
                kept_out = Some(file.try_clone().unwrap());
                Stdio::from(file)
            }
        });
        let got = support::finish(command, reader, support::LIMIT);
        let left = |file: File| (support::offset_of(&file), rustix::fs::fcntl_getfl(&file).unwrap().bits());
        let (stdout, holes) = if kept_out.is_some() {
            (fs::read(&self.stdout).unwrap(), support::data_map(&self.stdout))
        } else {
            (got.stdout, support::data_map(&output))
        };
        Seen {
            end: got.end,
            stdout,
            // dd turns O_DIRECT off at a short block, and with it the packet mode: then writes may be read together.
            packets: if matches!(job.stdout, Stdout::PacketPipe) && !job.wish.oflag.contains(&"direct") {
                got.packets
            } else {
                Vec::new()
            },
            stderr: support::text::without_progress(&support::text::normalised(&got.stderr)),
            input: fs::read(&input).ok(),
            output: fs::read(&output).ok(),
            holes,
            stdin_left: kept_in.map(left),
            stdout_left: kept_out.map(left),
        }
    }
}

/// What GNU dd did, or would have done without the known differences that the job met.
struct Wanted {
    seen: Seen,
    /// The rules that were applied.
    applied: Vec<&'static str>,
    /// The rule by which the job cannot be compared.
    left_out: Option<&'static str>,
}

/// Whether the other end of a pipe is quick enough for who does not wait is not for the program to say; nor whether it is
/// closed, for as long as a process that another thread is starting holds it too.
fn was_impatient(job: &Job, seen: &Seen) -> bool {
    (job.wish.iflag.contains(&"nonblock") || job.wish.oflag.contains(&"nonblock"))
        && seen.stderr.contains("Resource temporarily unavailable")
}

/// Runs the job, and again if it would not wait.
fn run_patiently(place: &Place, dd: &Dd, job: &Job) -> Seen {
    let mut seen = place.run(dd, job);
    for _ in 0..20 {
        if !was_impatient(job, &seen) {
            break;
        }
        seen = place.run(dd, job);
    }
    seen
}

/// Runs GNU dd's side, with the rules of the known differences.
fn expected(place: &Place, gnu: &Dd, job: &Job) -> Wanted {
    let wish = &job.wish;
    let mut wanted = Wanted { seen: run_patiently(place, gnu, job), applied: Vec::new(), left_out: None };
    if was_impatient(job, &wanted.seen) {
        wanted.left_out = Some("a non-blocking pipe that is not ready is waited for");
        return wanted;
    }
    if support::dd_under_test().gnu.is_some() {
        return wanted;
    }
    let starts = !refused(&wanted.seen);
    let position = wish.seek.map_or(0, |seek| seek.in_bytes(wish.output_block()));
    let byte_seek = wish.output.is_some() && position > 0 && position < wish.output_block() && !wish.conv("notrunc");
    let sparse_append = wish.conv("sparse") && job.appends();
    let mut instead = job.clone();
    if starts && byte_seek {
        wanted.applied.push("a byte seek smaller than obs keeps the prefix");
        if wish.oflag.contains(&"append") || wish.conv("excl") || wish.output == Some("in") {
            wanted.left_out = wanted.applied.pop();
            return wanted;
        }
        // What dd should do first is done for it, and it is told not to truncate.
        instead = instead.with_conv(instead.wish.conv.iter().copied().chain(["notrunc"]).collect());
        instead.output.get_or_insert_default();
        instead.output_size = Some(position);
    }
    if starts && sparse_append {
        wanted.applied.push("append turns sparse off");
        instead = instead.with_conv(instead.wish.conv.iter().copied().filter(|word| *word != "sparse").collect());
    }
    if !wanted.applied.is_empty() {
        wanted.seen = run_patiently(place, gnu, &instead);
    }
    let seen = &mut wanted.seen;
    let partial_in = seen.stderr.lines().any(|line| line.ends_with(" records in") && !line.contains("+0 "));
    let silent = wish.status.last() == Some(&"none");
    if wish.conv("ascii") && wish.conv("sync") && wish.cbs.is_some() && (partial_in || silent) {
        wanted.left_out = Some("the pad of ascii and sync comes out as spaces");
        return wanted;
    }
    if wish.same_file() && wish.cbs.is_some() && (wish.conv("unblock") || wish.conv("ascii")) {
        // GNU dd puts the newline out when the next record starts, which may be a read later.
        wanted.left_out = Some("a file unblocked onto itself shows when the newlines are written");
        return wanted;
    }
    let skip = wish.skip.map_or(0, |skip| skip.in_bytes(wish.input_block()));
    let byte_skip = !job.input_is_seekable() && !skip.is_multiple_of(wish.input_block());
    if byte_skip && seen.stderr.contains("warning: partial read") {
        wanted.left_out = Some("a byte skip of a pipe is no partial read");
        return wanted;
    }
    let past_end = "cannot skip to specified offset\n";
    // The output is opened, and so an input that is the same file emptied, before the skip.
    let truncated = wish.same_file() && !wish.conv("notrunc");
    let empty = match (&job.stdin, wish.input) {
        (_, Some(_)) if truncated => position == 0,
        (_, Some(_)) => job.input.is_empty(),
        (Stdin::File { bytes, .. }, None) => bytes.is_empty(),
        _ => false,
    };
    if gnu.gnu <= Some((9, 1)) && skip > 0 && empty && seen.stderr.contains(past_end) {
        wanted.applied.push("9.1 warns of a skip on an empty file");
        seen.stderr = seen.stderr.split_inclusive('\n').filter(|line| !line.ends_with(past_end)).collect();
    }
    // iflag=append means nothing to an input; GNU dd sets the flag on the inherited description all the same.
    let append = rustix::fs::OFlags::APPEND.bits();
    if let Some((_, flags)) = &mut seen.stdin_left
        && wish.iflag.contains(&"append")
        && wish.input.is_none()
        && *flags & append != 0
    {
        wanted.applied.push("append is no flag of an input");
        *flags &= !append;
    }
    wanted
}

/// Whether dd ended before it came to copying.
fn refused(seen: &Seen) -> bool {
    ["failed to open", "setting flags", "cannot combine", "invalid ", "unrecognized"]
        .iter()
        .any(|text| seen.stderr.contains(text))
}

/// The words whose meeting in one job is counted.
fn words(job: &Job) -> Vec<String> {
    let wish = &job.wish;
    let mut words: Vec<String> = Vec::new();
    for (name, there) in [
        ("bs", wish.bs.is_some()),
        ("ibs", wish.ibs.is_some()),
        ("obs", wish.obs.is_some()),
        ("cbs", wish.cbs.is_some()),
        ("if", wish.input.is_some()),
        ("of", wish.output.is_some()),
    ] {
        if there {
            words.push(name.into());
        }
    }
    for (name, position) in [("count", wish.count), ("skip", wish.skip), ("seek", wish.seek)] {
        if let Some(position) = position {
            words.push(if position.bytes { format!("{name}=B") } else { format!("{name}=") });
        }
    }
    words.extend(wish.conv.iter().map(|word| format!("conv={word}")));
    words.extend(wish.iflag.iter().map(|word| format!("iflag={word}")));
    words.extend(wish.oflag.iter().map(|word| format!("oflag={word}")));
    words.extend(wish.status.last().map(|word| format!("status={word}")));
    if wish.input.is_none() {
        words.push(
            match job.stdin {
                Stdin::Null => "from null",
                Stdin::File { .. } => "from file",
                Stdin::Pipe(_) => "from pipe",
                Stdin::Packets(_) => "from packets",
                Stdin::Directory => "from directory",
            }
            .into(),
        );
    }
    if wish.output.is_none() {
        words.push(
            match job.stdout {
                Stdout::Pipe => "to pipe",
                Stdout::PacketPipe => "to packets",
                Stdout::File { .. } => "to file",
                Stdout::Append { .. } => "to append",
                Stdout::Null => "to null",
            }
            .into(),
        );
    } else {
        words.push(if job.output.is_some() { "over old" } else { "to new" }.into());
    }
    words.sort();
    words.dedup();
    words
}

/// Why two words cannot meet in a job that gets as far as copying.
fn apart(one: &str, other: &str, profile: Profile) -> Option<&'static str> {
    let both = |a: &dyn Fn(&str) -> bool, b: &dyn Fn(&str) -> bool| a(one) && b(other) || a(other) && b(one);
    let is = |word: &'static str| move |other: &str| other == word;
    let group = |word: &str| ["from ", "to ", "status="].iter().find(|start| word.starts_with(**start)).copied();
    if let (Some(one), Some(other)) = (group(one), group(other))
        && one == other
    {
        return Some("one end is only one thing");
    }
    for name in ["count=", "skip=", "seek="] {
        if one.starts_with(name) && other.starts_with(name) {
            return Some("a position is in blocks or in bytes");
        }
    }
    for (word, number) in
        [("iflag=count_bytes", "count="), ("iflag=skip_bytes", "skip="), ("oflag=seek_bytes", "seek=")]
    {
        if both(&is(word), &is(number)) {
            return Some("the flag makes the number one of bytes");
        }
    }
    let bare = |word: &str| word.split_once('=').map(|(kind, word)| (kind.to_owned(), word.to_owned()));
    if let (Some((kind, one)), Some((other_kind, other))) = (bare(one), bare(other))
        && kind == other_kind
        && CONFLICTS.iter().any(|(a, b)| one == *a && other == *b || one == *b && other == *a)
    {
        return Some("dd refuses the two together");
    }
    for (implied, excluded) in
        [("conv=ebcdic", "conv=unblock"), ("conv=ibm", "conv=unblock"), ("conv=ascii", "conv=block")]
    {
        if both(&is(implied), &is(excluded)) {
            return Some("dd refuses the two with cbs=, and the generator drops one");
        }
    }
    if one == "oflag=directory" || other == "oflag=directory" {
        return Some("a directory cannot be written");
    }
    let for_directory = |word: &str| word == "iflag=directory";
    if both(&for_directory, &|word| word == "if" || word.starts_with("from ") && word != "from directory") {
        return Some("only a directory is one");
    }
    if both(&for_directory, &is("conv=noerror")) || both(&is("from directory"), &is("conv=noerror")) {
        return Some("GNU dd reads a directory for ever");
    }
    if both(&is("iflag=direct"), &|word| word == "from null" || word == "from directory")
        || both(&is("oflag=direct"), &is("to null"))
        || both(&is("iflag=direct"), &for_directory)
    {
        return Some("neither /dev/null nor a directory takes O_DIRECT");
    }
    let input_kind = |word: &str| word.starts_with("from ");
    if both(&input_kind, &is("if")) {
        return Some("the input is named or inherited");
    }
    let output_kind = |word: &str| ["to pipe", "to packets", "to file", "to append", "to null"].contains(&word);
    let file_kind = |word: &str| word == "over old" || word == "to new" || word == "of";
    if both(&output_kind, &file_kind) || both(&is("over old"), &is("to new")) {
        return Some("the output is named or inherited, old or new");
    }
    if both(&is("conv=excl"), &is("over old")) {
        return Some("excl fails on an old file");
    }
    if both(&is("conv=nocreat"), &is("to new")) {
        return Some("nocreat fails on a new file");
    }
    if both(&is("to packets"), &is("oflag=nonblock")) {
        return Some("a full pipe would be a matter of timing");
    }
    if profile == Profile::Large
        && (one == "to packets" || other == "to packets" || both(&is("to pipe"), &is("oflag=nonblock")))
    {
        return Some("a full pipe would be a matter of timing");
    }
    None
}

#[derive(Default)]
struct Report {
    run: u64,
    compared: u64,
    left_out: BTreeMap<&'static str, u64>,
    otherwise: BTreeMap<&'static str, u64>,
    met: BTreeMap<(String, String), u64>,
    seen_words: BTreeMap<String, u64>,
    failures: Vec<String>,
}

fn number_from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

#[test]
fn random_jobs_equal_gnu_dd() {
    let Some(gnu) = support::gnu() else {
        return support::skip("no GNU dd is installed");
    };
    let dd = support::dd_under_test();
    let profile = match std::env::var("FDD_PROFILE").as_deref() {
        Ok("large") => Profile::Large,
        Ok("small") | Err(_) => Profile::Small,
        Ok(other) => panic!("FDD_PROFILE={other} is not small or large"),
    };
    let jobs = number_from_environment("FDD_JOBS").unwrap_or(if profile == Profile::Large { 40 } else { 400 });
    let first = number_from_environment("FDD_FIRST").unwrap_or(0);
    let seed = number_from_environment("FDD_SEED").unwrap_or(1);
    let threads = number_from_environment("FDD_THREADS").unwrap_or(2);
    let most_failures = number_from_environment("FDD_FAILURES").unwrap_or(20);
    // A job that runs wild must not fill the memory that its files live in.
    let most = rustix::process::Rlimit {
        current: Some(512 << 20),
        maximum: rustix::process::getrlimit(rustix::process::Resource::Fsize).maximum,
    };
    rustix::process::setrlimit(rustix::process::Resource::Fsize, most).unwrap();

    let root = support::scratch();
    let next = AtomicU64::new(first);
    let report = Mutex::new(Report::default());
    let started = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (next, report, root) = (&next, &report, root.path());
            scope.spawn(move || {
                let ours = Place::new(root, &format!("fdd{thread}"));
                let theirs = Place::new(root, &format!("gnu{thread}"));
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= first + jobs || report.lock().unwrap().failures.len() as u64 >= most_failures {
                        break;
                    }
                    let job = Job::random(&mut Random::of_job(seed, number), profile);
                    let wanted = expected(&theirs, gnu, &job);
                    let got = run_patiently(&ours, dd, &job);
                    let went = !refused(&wanted.seen);
                    let mut report = report.lock().unwrap();
                    report.run += 1;
                    if let Some(rule) = wanted.left_out {
                        *report.left_out.entry(rule).or_default() += 1;
                        continue;
                    }
                    report.compared += u64::from(wanted.applied.is_empty());
                    for rule in wanted.applied {
                        *report.otherwise.entry(rule).or_default() += 1;
                    }
                    let wanted = wanted.seen;
                    if went {
                        let words = words(&job);
                        for (at, one) in words.iter().enumerate() {
                            *report.seen_words.entry(one.clone()).or_default() += 1;
                            for other in &words[at + 1..] {
                                *report.met.entry((one.clone(), other.clone())).or_default() += 1;
                            }
                        }
                    }
                    if got != wanted {
                        let again = format!(
                            "FDD_SEED={seed} FDD_FIRST={number} FDD_JOBS=1 FDD_PROFILE={}",
                            if profile == Profile::Large { "large" } else { "small" }
                        );
                        report.failures.push(format!(
                            "seed {seed} job {number}: {again}\n  {}\n{}",
                            job.command_line(),
                            got.differences(&wanted).join("\n")
                        ));
                    }
                }
            });
        }
    });
    let took = started.elapsed();
    let report = report.into_inner().unwrap();

    let run = report.run;
    println!(
        "seed {seed}, jobs {first} to {}: {run} run in {took:.1?}, {} a second",
        first + jobs,
        run * 1000 / u64::try_from(took.as_millis()).unwrap().max(1)
    );
    println!("compared as they are: {}", report.compared);
    for (rule, count) in &report.otherwise {
        println!("expected otherwise: {count}  {rule}");
    }
    for (rule, count) in &report.left_out {
        println!("left out: {count}  {rule}");
    }
    let never = never_met(&report, profile);
    print_meetings(&report);
    if !never.is_empty() {
        println!("{} pairs never met: {}", never.len(), never.join("; "));
    }
    assert!(
        report.failures.is_empty(),
        "{} of {run} jobs differ:\n{}",
        report.failures.len(),
        report.failures.join("\n")
    );
    // Fewer jobs cannot bring every pair together.
    if jobs >= 20_000 {
        assert!(never.is_empty(), "a hole in the generator: pairs that never met: {}", never.join("; "));
    }
}

fn never_met(report: &Report, profile: Profile) -> Vec<String> {
    let words: Vec<_> = report.seen_words.keys().collect();
    let mut never = Vec::new();
    for (at, one) in words.iter().enumerate() {
        for other in &words[at + 1..] {
            let pair = ((*one).clone(), (*other).clone());
            if !report.met.contains_key(&pair) && apart(one, other, profile).is_none() {
                never.push(format!("{one} with {other}"));
            }
        }
    }
    for (list, name) in [(&CONVS[..], "conv"), (&IFLAGS[..], "iflag"), (&OFLAGS[..], "oflag")] {
        for (word, _) in list {
            let word = format!("{name}={word}");
            if !report.seen_words.contains_key(&word) && word != "oflag=directory" {
                never.push(format!("{word} with anything"));
            }
        }
    }
    never
}

/// For each word: in how many jobs it was, with how many others it met, and which it met least.
fn print_meetings(report: &Report) {
    println!("word: jobs, words met, rarest meetings");
    for (word, jobs) in &report.seen_words {
        let mut met: Vec<_> = report
            .met
            .iter()
            .filter_map(
                |((one, other), count)| {
                    if one == word { Some((count, other)) } else { (other == word).then_some((count, one)) }
                },
            )
            .collect();
        met.sort();
        let rarest: Vec<_> = met.iter().take(3).map(|(count, other)| format!("{other} {count}")).collect();
        println!("{word}: {jobs}, {}, {}", met.len(), rarest.join(", "));
    }
}

#[test]
fn a_pair_that_cannot_meet_has_a_reason_both_ways() {
    for (one, other) in
        [("bs", "conv=sync"), ("conv=ascii", "conv=swab"), ("from pipe", "to pipe"), ("iflag=direct", "oflag=nocache")]
    {
        assert_eq!(apart(one, other, Profile::Small), None);
    }
    for (one, other) in [
        ("from pipe", "from file"),
        ("conv=ascii", "conv=ibm"),
        ("if", "from pipe"),
        ("count=", "count=B"),
        ("iflag=direct", "iflag=nocache"),
    ] {
        assert!(apart(one, other, Profile::Small).is_some(), "{one} {other}");
        assert_eq!(apart(one, other, Profile::Small), apart(other, one, Profile::Small));
    }
}
