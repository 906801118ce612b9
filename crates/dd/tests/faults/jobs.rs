//! Random copies under random faults: operands, ends, ways and faults are drawn from a seed, and what comes of each copy is
//! compared with the same copy by the plain loop, without faults, between files.
//!
//! `FDD_JOBS` (how many), `FDD_SEED`, `FDD_FIRST` (the number of the first) and `FDD_FAILURES` (after how many to stop) choose
//! what is run. A failure prints how to repeat it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{PipeReader, PipeWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags};
use rustix::pipe::PipeFlags;
use sha2::{Digest as _, Sha256};

use crate::devices::{Access, Loop, Tmpfs, is_root};
use crate::fault_run::{Ran, dd, make_cold, needs_sysfault, operand, pattern, read_all};
use crate::faultfs::{FaultFs, Op, Rule};
use crate::or_skip;
use crate::random::Random;
use crate::sysfault::{
    CLOSE, CONTROL, Hit, MEMORY, OPEN, OPTIONAL, POSITION, Plan, READ, RING, STAT, SYNC, THREAD, WAIT, WRITE,
};

/// How the other side of a pipe goes about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    Whole,
    /// In pieces of at most so many bytes, of random lengths.
    Pieces(usize),
    /// Pieces of that length, each after the one before was taken.
    Steps(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    manner: Manner,
    packets: bool,
    nonblock: bool,
    width: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    File {
        cold: bool,
        holes: bool,
    },
    /// A descriptor that stands at that offset.
    Stdin(u64),
    Zero,
    Pipe(Line),
    Device,
    Fuse {
        short: Option<usize>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    New,
    /// Something is there before.
    Old,
    Stdout {
        at: u64,
        append: bool,
    },
    Null,
    Pipe {
        line: Line,
        leaves: Option<usize>,
    },
    Device,
    Fuse {
        short: Option<usize>,
    },
    /// A file system with room for so many bytes.
    Full(u64),
}

#[derive(Debug)]
struct Copy {
    operands: Vec<String>,
    /// Those that say what is to be in the output, for the copy that is compared with.
    plain: Vec<String>,
    source: Source,
    target: Target,
    data: Vec<u8>,
    old: Option<Vec<u8>>,
    /// Offset of the first byte that is written.
    start: u64,
    ibs: usize,
    obs: usize,
    strategy: Option<&'static str>,
    plan: Option<Plan>,
    /// The plan is armed when an end is opened by name.
    stops_and_goes: bool,
    file_size: Option<u64>,
    /// Records are not those of whole reads.
    loose: bool,
}

impl Copy {
    fn has(&self, word: &str) -> bool {
        self.operands.iter().any(|operand| {
            operand.split_once('=').is_some_and(|(name, value)| name == word || value.split(',').any(|v| v == word))
        })
    }
}

impl Copy {
    /// How many bytes at the end of a copy that ended early are not those that would have been there: a record that was cut is
    /// padded, and the last byte of an odd number is not swapped.
    fn uncertain(&self) -> usize {
        let number = |name: &str| {
            let value = self.operands.iter().find_map(|operand| operand.strip_prefix(name));
            value.map_or(0, |value| value.parse::<usize>().expect("a number") + 1)
        };
        number("cbs=")
            + if self.has("sync") { self.ibs } else { 0 }
            + if self.has("osync") { self.obs } else { 0 }
            + usize::from(self.has("swab"))
    }
}

/// What every copy makes some of.
const ANY: &[&[i64]] = &[READ, WRITE, POSITION, SYNC, OPEN, CLOSE, STAT, CONTROL, OPTIONAL, WAIT, THREAD];

const STRATEGIES: [&str; 8] = ["reflink", "uring", "overlap", "buffer", "zeros", "stream", "coalesce", "pump"];

fn block(random: &mut Random) -> usize {
    match random.within(0, 11) {
        0 => random.size(1, 16),
        1 => random.size(1, 1024),
        2 | 3 => *random.pick(&[512, 1000, 1024, 3000, 4096, 5000]),
        4 => 512 * random.size(1, 64),
        5 => 4096 * random.size(1, 40),
        6 | 7 => *random.pick(&[65_536, 65_536, 131_072, 262_144, 524_288]),
        8 => random.size(4097, 100_000),
        9 => *random.pick(&[1 << 20, 2 << 20, (1 << 20) + 1, 600_000]),
        _ => *random.pick(&[4096, 8192, 16_384, 10_000, 4608]),
    }
}

fn bytes_of(random: &mut Random, len: usize, text: bool) -> Vec<u8> {
    static BASE: OnceLock<Vec<u8>> = OnceLock::new();
    const MOST: usize = 14 << 20;
    if text {
        let mut bytes = Vec::with_capacity(len + 300);
        while bytes.len() < len {
            let run = random.size(0, 90);
            bytes.extend(
                (0..run).map(|at| if at % 7 == 3 { b' ' } else { b'a' + u8::try_from(at % 26).expect("small") }),
            );
            bytes.extend(std::iter::repeat_n(b' ', if random.percent(20) { random.size(0, 30) } else { 0 }));
            bytes.push(b'\n');
        }
        bytes.truncate(len);
        return bytes;
    }
    let base = BASE.get_or_init(|| pattern(MOST));
    let from = random.size(0, MOST - len);
    let mut bytes = base[from..from + len].to_vec();
    if len > 0 && random.percent(40) {
        // Runs of zeros, some on edges that blocks have.
        for _ in 0..random.size(1, 8) {
            let grain = *random.pick(&[1, 512, 4096, 65_536]);
            let at = random.size(0, len - 1) / grain * grain;
            let run = random.size(1, len / 3 + 1).next_multiple_of(grain).min(len - at);
            bytes[at..at + run].fill(0);
        }
    }
    bytes
}

fn line(random: &mut Random, len: usize, most: usize) -> Line {
    let slow = len.min(most) / 300;
    let manner = match random.within(0, 9) {
        0..=3 => Manner::Whole,
        4 if len <= 3000 => Manner::Steps(1),
        5 | 6 => Manner::Steps(slow.max(*random.pick(&[4096, 4096, 1000, 65_536]))),
        _ => Manner::Pieces(slow.max(random.size(1, 70_000))),
    };
    let width = *random.pick(&[4096, 65_536, 65_536, 1 << 20]);
    Line { manner, packets: random.percent(12), nonblock: random.percent(12), width }
}

impl Copy {
    fn random(random: &mut Random) -> Copy {
        let strategy = random.percent(60).then(|| *random.pick(&STRATEGIES));
        let huge = matches!(strategy, Some("uring" | "overlap")) && random.percent(85);
        let direct = random.percent(if huge { 25 } else { 5 });
        let text = random.percent(10);
        let sized = |random: &mut Random| loop {
            let size = block(random);
            if direct && !size.is_multiple_of(4096) || text && size > 100_000 {
                continue;
            }
            return size;
        };
        let mut operands = Vec::new();
        let as_read = random.percent(60);
        let (ibs, obs) = if as_read {
            let bs = sized(random);
            operands.push(format!("bs={bs}"));
            (bs, bs)
        } else {
            let (ibs, obs) = (sized(random), sized(random));
            operands.extend([format!("ibs={ibs}"), format!("obs={obs}")]);
            (ibs, obs)
        };
        let most = ibs.min(obs).saturating_mul(3000);
        let len = match random.within(0, 9) {
            _ if huge => random.size(2 << 20, 11 << 20),
            0 => random.size(0, 3000),
            1..=3 => random.size(1, 100_000),
            4..=7 => random.size(1, 2 << 20),
            _ => random.size(1 << 20, 5 << 20),
        };
        let mut len = len.min(most);
        if direct || random.percent(15) {
            len = len.next_multiple_of(ibs.max(512)).min(12 << 20) / 512 * 512;
        }

        let source = match random.within(0, 19) {
            _ if huge && random.percent(90) => Source::File { cold: random.percent(40), holes: random.percent(20) },
            _ if strategy == Some("zeros") && random.percent(85) => Source::Zero,
            _ if strategy == Some("stream") && random.percent(85) => Source::Pipe(line(random, len, most)),
            0..=6 => Source::File { cold: random.percent(30), holes: random.percent(40) },
            7 | 8 => Source::Stdin(random.within(0, len as u64 / 2)),
            9 | 10 => Source::Zero,
            11..=16 => Source::Pipe(line(random, len, most)),
            17 if is_root() => Source::Device,
            18 => Source::Fuse { short: random.percent(50).then(|| (len / 500).max(random.size(1, 9000))) },
            _ => Source::File { cold: false, holes: false },
        };
        if source == Source::Device {
            len = len.clamp(512, 4 << 20) / 512 * 512;
        }
        if source == Source::Zero {
            len = len.next_multiple_of(ibs).min(6 << 20);
        }
        let data = if source == Source::Zero { vec![0; len] } else { bytes_of(random, len, text) };
        let target = match random.within(0, 23) {
            _ if strategy == Some("zeros") && random.percent(85) => target_pipe(random, len, most),
            0..=5 => Target::New,
            6..=8 => Target::Old,
            9 | 10 => Target::Stdout { at: random.within(0, 70_000), append: random.percent(30) },
            11 => Target::Null,
            12..=17 => target_pipe(random, len, most),
            18 if is_root() => Target::Device,
            19 => Target::Fuse { short: random.percent(60).then(|| (len / 500).max(random.size(1, 9000))) },
            20 | 21 if is_root() => Target::Full(random.within(0, len as u64 + 8192).next_multiple_of(4096)),
            _ => Target::New,
        };
        let mut copy = Copy {
            operands,
            plain: Vec::new(),
            source,
            target,
            data,
            old: None,
            start: 0,
            ibs,
            obs,
            strategy,
            plan: None,
            stops_and_goes: random.percent(6),
            file_size: None,
            loose: false,
        };
        copy.draw_faults(random);
        copy.draw_words(random, direct, text);
        copy
    }

    fn draw_faults(&mut self, random: &mut Random) {
        let file = matches!(self.target, Target::New | Target::Old | Target::Stdout { .. });
        if file && random.percent(12) {
            self.file_size = Some(random.within(1, self.data.len() as u64 + 70_000));
        }
        if random.percent(8) {
            return;
        }
        let packets = matches!(self.source, Source::Pipe(line) if line.packets);
        let sets: &[&[i64]] = match random.within(0, 17) {
            0..=2 => &[READ],
            3..=5 => &[WRITE],
            6 => &[READ, WRITE],
            7 => &[POSITION],
            8 => &[STAT],
            9 => &[CONTROL],
            10 => &[OPTIONAL],
            11 => &[RING],
            12 => &[SYNC, CLOSE],
            13 => &[THREAD, WAIT],
            14 => &[OPEN],
            15 => &[MEMORY],
            _ => ANY,
        };
        let transfers = sets == [READ] || sets == [WRITE] || sets == [READ, WRITE];
        let errno = *random.pick(&[
            libc::EIO,
            libc::EIO,
            libc::ENOSPC,
            libc::EINVAL,
            libc::ENOMEM,
            libc::EPERM,
            libc::ENOSYS,
            libc::EOPNOTSUPP,
            libc::EINTR,
            libc::EAGAIN,
        ]);
        let least = (self.data.len() / 2500).max(1);
        let short =
            *random.pick(&[least, least.max(7), least.max(512), least.max(1000), least.max(4096), least.max(60_000)]);
        let hit = match random.within(0, 9) {
            // What a packet has beyond its read is lost.
            0..=2 if transfers && !packets => Hit::ShortTo(short),
            3 if transfers && !packets => Hit::Halve,
            4 => Hit::Signal(*random.pick(&[libc::SIGUSR1, libc::SIGUSR1, libc::SIGWINCH])),
            5 if random.percent(60) => Hit::Signal(*random.pick(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP])),
            _ => Hit::Fail(errno),
        };
        let mut plan = Plan::on(sets, hit);
        let nth = match random.within(0, 5) {
            0..=2 => random.within(1, 7),
            3 | 4 => random.within(1, 30),
            _ => random.within(1, 300),
        };
        let again = matches!(hit, Hit::Fail(libc::EINTR | libc::EAGAIN) | Hit::Signal(_));
        let seldom = match hit {
            // A report is some calls too, and what asks for one each time that one is made goes on for ever.
            Hit::Signal(_) => 12,
            // So does what is told to try again, waits until it can, and is told so again.
            Hit::Fail(libc::EAGAIN) => 3,
            _ => 2,
        };
        plan = match random.within(0, 9) {
            0..=3 => plan.nth(nth),
            4..=6 if !again => plan.onwards_from(nth),
            _ => plan.onwards_from(nth).every(random.within(seldom, 40)),
        };
        if matches!(hit, Hit::ShortTo(_) | Hit::Halve) && random.percent(50) {
            plan = plan.then(Hit::Fail(errno));
        }
        if random.percent(15) {
            let calls: &[i64] = random.pick::<&[i64]>(&[OPTIONAL, RING, THREAD]);
            plan = plan.and_refuse(calls, *random.pick(&[libc::ENOSYS, libc::EPERM]));
        }
        let shortens = matches!(hit, Hit::ShortTo(_) | Hit::Halve) && sets != [WRITE];
        self.loose |= shortens;
        self.plan = Some(plan);
    }

    fn draw_words(&mut self, random: &mut Random, direct: bool, text: bool) {
        let pipe = matches!(self.source, Source::Pipe(_));
        self.loose |= pipe || matches!(self.source, Source::Fuse { short: Some(_) });
        let mut conv: Vec<&str> = Vec::new();
        let (mut iflag, mut oflag): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
        let packets = matches!(self.source, Source::Pipe(line) if line.packets);
        if random.percent(if self.loose { 60 } else { 15 }) && !packets {
            iflag.push("fullblock");
            self.loose = false;
        }
        if packets {
            self.loose = true;
        }
        let file_out = matches!(self.target, Target::New | Target::Old | Target::Fuse { .. } | Target::Full(_));
        let seekable = file_out || matches!(self.target, Target::Stdout { .. } | Target::Device);
        for (word, chance) in [("notrunc", 12), ("fsync", 4), ("fdatasync", 8), ("swab", 8), ("noerror", 5)] {
            if random.percent(chance) {
                conv.push(word);
            }
        }
        if matches!(self.target, Target::Old | Target::Device) && !conv.contains(&"notrunc") && random.percent(60) {
            conv.push("notrunc");
        }
        if random.percent(if seekable { 22 } else { 5 }) {
            conv.push(*random.pick(&["sparse", "sparse", "punch"]));
        }
        if !self.loose && random.percent(9) {
            conv.push("sync");
        }
        if !self.has("bs") && random.percent(5) {
            conv.push("osync");
        }
        if text && !direct {
            conv.push(*random.pick(&["block", "unblock", "ucase", "block", "ebcdic"]));
            self.operands.push(format!("cbs={}", random.size(1, 120)));
        } else if random.percent(5) {
            conv.push(*random.pick(&["ucase", "lcase", "ebcdic"]));
        }
        let by_reading = pipe && self.loose;
        if !self.loose && random.percent(25) || self.source == Source::Zero {
            let blocks = (self.data.len() / self.ibs) as u64;
            if random.percent(40) {
                let most =
                    if self.source == Source::Zero { self.data.len() as u64 } else { self.data.len() as u64 + 10 };
                self.operands.push(format!("count={}B", random.within(1, most.max(1))));
            } else {
                let most = if self.source == Source::Zero { blocks.max(1) } else { blocks + 2 };
                self.operands.push(format!("count={}", random.within(1, most)));
            }
        }
        if !by_reading && random.percent(20) {
            let blocks = (self.data.len() / self.ibs) as u64;
            if !direct && random.percent(40) {
                self.operands.push(format!("skip={}B", random.within(0, self.data.len() as u64)));
            } else {
                self.operands.push(format!("skip={}", random.within(0, blocks)));
            }
        }
        let mut seek = 0;
        if seekable && random.percent(25) {
            if !direct && random.percent(40) {
                seek = random.within(0, 100_000);
                self.operands.push(format!("seek={seek}B"));
            } else {
                let blocks = random.within(0, (500_000 / self.obs as u64).clamp(1, 20));
                seek = blocks * self.obs as u64;
                self.operands.push(format!("seek={blocks}"));
            }
        }
        let regular_out = matches!(self.target, Target::New | Target::Old);
        if regular_out && !self.loose && random.percent(4) {
            self.operands.push(format!("ostride={}", random.within(1, 3)));
        }
        if matches!(self.source, Source::File { .. } | Source::Stdin(_)) && !self.loose && random.percent(4) {
            self.operands.push(format!("istride={}", random.within(1, 3)));
        }
        if random.percent(18) {
            self.operands.push("hash=sha256".into());
            if random.percent(25) {
                self.operands.push("hashconv=before".into());
            }
        }
        self.plain = self.operands.clone();
        if self.strategy == Some("buffer") || random.percent(5) {
            self.operands.push(format!("buffer={}", *random.pick(&["64k", "300000", "1M", "4M"])));
        }
        if random.percent(3) {
            self.operands.push("speed=20G".into());
        }
        if random.percent(5) {
            self.operands.push("status=progress".into());
        }
        if self.strategy == Some("reflink") || random.percent(3) {
            self.operands.push("reflink=auto".into());
        }
        if matches!(self.target, Target::New | Target::Old) && random.percent(6) {
            oflag.push("append");
            conv.push("notrunc");
            self.operands.retain(|operand| !operand.starts_with("seek=") && !operand.starts_with("ostride="));
            self.plain.retain(|operand| !operand.starts_with("seek=") && !operand.starts_with("ostride="));
            seek = 0;
        }
        for (word, chance) in [("nocache", 8), ("neutral", 6), ("direct", if direct { 60 } else { 0 })] {
            if random.percent(chance) && iflag.iter().all(|&flag| flag == "fullblock") {
                let known = matches!(self.source, Source::File { .. } | Source::Device);
                if word != "direct" || known {
                    iflag.push(word);
                }
            }
            if random.percent(chance) && oflag.iter().all(|&flag| flag == "append") && (word != "direct" || regular_out)
            {
                oflag.push(word);
            }
        }
        // Many small writes, each waited for, take longer than a hang is waited for.
        if random.percent(3) && seekable && !self.plan.as_ref().is_some_and(Plan::shortens) {
            oflag.push(*random.pick(&["sync", "dsync"]));
        }
        self.old = match self.target {
            Target::Old | Target::Fuse { .. } | Target::Stdout { .. } => {
                let most = if random.percent(50) { self.data.len() + 100_000 } else { 50_000 };
                let len = random.size(0, most.min(13 << 20));
                Some(bytes_of(random, len, false).iter().map(|byte| byte ^ 0x55).collect())
            }
            Target::Device => Some(vec![b'Z'; 8 << 20]),
            _ => None,
        };
        let append = oflag.contains(&"append") || matches!(self.target, Target::Stdout { append: true, .. });
        self.start = match self.target {
            _ if append => self.old.as_ref().map_or(0, |old| old.len() as u64),
            Target::Stdout { at, .. } => at + seek,
            _ => seek,
        };
        let list = |name: &str, words: &[&str]| (!words.is_empty()).then(|| format!("{name}={}", words.join(",")));
        // A device keeps its length, and what is stepped over there reads as zeros.
        let mut plain_conv = conv.clone();
        if self.target == Target::Device {
            plain_conv.retain(|&word| word != "sparse" && word != "punch");
            plain_conv.push("notrunc");
        }
        // Where reads come short, other blocks are zeros, and old bytes show through elsewhere.
        if self.loose && self.old.is_some() {
            plain_conv.retain(|&word| word != "sparse");
            conv.retain(|&word| word != "sparse");
        }
        plain_conv.retain(|&word| word != "fsync" && word != "fdatasync");
        self.operands.extend([list("conv", &conv), list("iflag", &iflag), list("oflag", &oflag)].into_iter().flatten());
        iflag.retain(|&word| word == "fullblock");
        oflag.retain(|&word| word == "append");
        self.plain
            .extend([list("conv", &plain_conv), list("iflag", &iflag), list("oflag", &oflag)].into_iter().flatten());
    }
}

fn target_pipe(random: &mut Random, len: usize, most: usize) -> Target {
    let leaves = random.percent(8).then(|| random.size(0, len));
    Target::Pipe { line: line(random, len, most), leaves }
}

fn pipe(line: Line, ours_writes: bool) -> (PipeReader, PipeWriter) {
    let flags = PipeFlags::CLOEXEC | if line.packets { PipeFlags::DIRECT } else { PipeFlags::empty() };
    let (reader, writer) = rustix::pipe::pipe_with(flags).expect("a pipe");
    let _ = rustix::pipe::fcntl_setpipe_size(&writer, line.width);
    if line.nonblock {
        if ours_writes {
            crate::devices::nonblocking(&reader, true);
        } else {
            crate::devices::nonblocking(&writer, true);
        }
    }
    (reader.into(), writer.into())
}

/// Waits until the reader has taken everything, or is gone; false in that case.
fn drained(writer: &PipeWriter) -> bool {
    while rustix::io::ioctl_fionread(writer).is_ok_and(|held| held > 0) {
        let mut fds = [PollFd::new(writer, PollFlags::empty())];
        let time = rustix::event::Timespec { tv_sec: 0, tv_nsec: 20_000 };
        let _ = rustix::event::poll(&mut fds, Some(&time));
        if fds[0].revents().contains(PollFlags::ERR) {
            return false;
        }
    }
    true
}

/// Writes `data` to a pipe from a thread of its own. A packet is no longer than a record, which would lose its rest.
fn feed(mut writer: PipeWriter, data: Vec<u8>, line: Line, ibs: usize, mut random: Random) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let packet = if line.packets { ibs.min(4096) } else { usize::MAX };
        let mut rest = &data[..];
        while !rest.is_empty() {
            let most = match line.manner {
                Manner::Whole => rest.len(),
                Manner::Pieces(most) => random.size(1, most),
                Manner::Steps(step) => step,
            };
            let (piece, later) = rest.split_at(most.min(packet).min(rest.len()));
            if writer.write_all(piece).is_err() || (matches!(line.manner, Manner::Steps(_)) && !drained(&writer)) {
                return;
            }
            rest = later;
        }
    })
}

/// Takes what comes out of a pipe, in a thread of its own.
fn take(mut reader: PipeReader, line: Line, leaves: Option<usize>, mut random: Random) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut got = Vec::new();
        let mut piece = vec![0; 1 << 20];
        loop {
            let most = match line.manner {
                _ if line.packets => piece.len(),
                Manner::Whole => piece.len(),
                Manner::Pieces(most) => random.size(1, most),
                Manner::Steps(step) => step,
            };
            let most = most.min(leaves.map_or(usize::MAX, |leaves| leaves - got.len()));
            if most == 0 {
                return got;
            }
            match reader.read(&mut piece[..most]) {
                Ok(0) | Err(_) => return got,
                Ok(len) => got.extend_from_slice(&piece[..len]),
            }
            if let Manner::Steps(_) = line.manner {
                std::thread::yield_now();
            }
        }
    })
}

/// What a run left.
struct Left {
    ran: Ran,
    /// The output, where it can be looked at.
    output: Option<Vec<u8>>,
    stdin_at: Option<u64>,
}

impl Copy {
    /// The copy that is compared with.
    fn run_plainly(&self, dir: &Path) -> Left {
        let source = match self.source {
            Source::File { .. } | Source::Device | Source::Fuse { .. } => Source::File { cold: false, holes: false },
            Source::Pipe(line) => {
                let line = Line { manner: Manner::Whole, nonblock: false, packets: line.packets, width: 65_536 };
                Source::Pipe(line)
            }
            other @ (Source::Stdin(_) | Source::Zero) => other,
        };
        let target = match self.target {
            Target::Device | Target::Fuse { .. } => Target::Old,
            Target::Full(_) => Target::New,
            Target::Pipe { line, .. } => {
                let line = Line { manner: Manner::Whole, packets: false, nonblock: false, width: line.width };
                Target::Pipe { line, leaves: None }
            }
            other => other,
        };
        self.run(dir, source, target, &self.plain, true)
    }

    fn run_with_faults(&self, dir: &Path) -> Left {
        self.run(dir, self.source, self.target, &self.operands, false)
    }

    fn run(&self, dir: &Path, source: Source, target: Target, operands: &[String], plainly: bool) -> Left {
        let mut operands = operands.to_vec();
        let from = dir.join("input");
        let to = dir.join("output");
        let (mut fuse, mut feeder, mut taker, mut stdin, mut kept) = (None, None, None, None, None);
        let (mut loops, mut tmpfs) = (Vec::new(), None);
        let mut arm = None;
        let mut to_path = to.clone();
        let mut stdout: Option<std::process::Stdio> = None;
        let random = || Random::of_job(self.data.len() as u64, self.start);
        match source {
            Source::File { cold, holes } => {
                let file = File::create(&from).expect("a file");
                write_with_holes(&file, &self.data, holes);
                if cold {
                    make_cold(&from);
                }
                operands.push(operand("if", &from));
                arm = Some(from.clone());
            }
            Source::Stdin(at) => {
                fs::write(&from, &self.data).expect("written");
                let mut file = File::open(&from).expect("a file");
                file.seek(SeekFrom::Start(at)).expect("a place");
                kept = Some(file.try_clone().expect("a descriptor"));
                stdin = Some(std::process::Stdio::from(file));
            }
            Source::Zero => {
                operands.push("if=/dev/zero".into());
                arm = Some(PathBuf::from("/dev/zero"));
            }
            Source::Pipe(line) => {
                let (reader, writer) = pipe(line, true);
                stdin = Some(reader.into());
                feeder = Some(feed(writer, self.data.clone(), line, self.ibs, random()));
            }
            Source::Device => {
                fs::write(&from, &self.data).expect("written");
                let device = Loop::attach(&from, 512, Access::ReadOnly).expect("a loop device");
                operands.push(operand("if", device.path()));
                arm = Some(device.path().to_owned());
                loops.push(device);
            }
            Source::Fuse { short } => {
                let fs = fuse.get_or_insert_with(|| FaultFs::mount().expect("FUSE"));
                fs.put("in", &self.data);
                if let Some(most) = short {
                    fs.direct();
                    fs.rule(Rule::on("in", Op::Read).short(most));
                }
                operands.push(operand("if", fs.path("in")));
                arm = Some(fs.path("in"));
            }
        }
        match target {
            Target::New => {
                let _ = fs::remove_file(&to);
                operands.push(operand("of", &to));
            }
            Target::Old => {
                fs::write(&to, self.old.as_deref().unwrap_or_default()).expect("written");
                operands.push(operand("of", &to));
            }
            Target::Stdout { at, append } => {
                fs::write(&to, self.old.as_deref().unwrap_or_default()).expect("written");
                let mut file = File::options().read(true).write(!append).append(append).open(&to).expect("a file");
                file.seek(SeekFrom::Start(at)).expect("a place");
                stdout = Some(file.into());
            }
            Target::Null => operands.push("of=/dev/null".into()),
            Target::Pipe { line, leaves } => {
                let (reader, writer) = pipe(line, false);
                stdout = Some(writer.into());
                taker = Some(take(reader, line, leaves, random()));
            }
            Target::Device => {
                fs::write(&to, self.old.as_deref().unwrap_or_default()).expect("written");
                let device = Loop::attach(&to, 512, Access::ReadWrite).expect("a loop device");
                to_path = device.path().to_owned();
                operands.push(operand("of", device.path()));
                loops.push(device);
            }
            Target::Fuse { short } => {
                let fs = fuse.get_or_insert_with(|| FaultFs::mount().expect("FUSE"));
                fs.put("out", self.old.as_deref().unwrap_or_default());
                if let Some(most) = short {
                    fs.direct();
                    fs.rule(Rule::on("out", Op::Write).short(most));
                }
                operands.push(operand("of", fs.path("out")));
            }
            Target::Full(room) => {
                let small = Tmpfs::mount(room.max(4096)).expect("a tmpfs");
                to_path = small.path("output");
                operands.push(operand("of", &to_path));
                tmpfs = Some(small);
            }
        }
        let mut job = dd(&operands).ignoring(libc::SIGXFSZ);
        match (plainly, self.strategy) {
            (true, _) => drop(job.command.env("FDD_STRATEGY", "pump")),
            (false, Some(name)) => drop(job.command.env("FDD_STRATEGY", name)),
            (false, None) => drop(job.command.env_remove("FDD_STRATEGY")),
        }
        if let Some(stdin) = stdin {
            job = job.stdin(stdin);
        }
        if let Some(stdout) = stdout {
            job = job.stdout(stdout);
        }
        if !plainly {
            if matches!(target, Target::Pipe { leaves: Some(_), .. }) {
                job = job.ignoring(libc::SIGPIPE);
            }
            if let Some(most) = self.file_size {
                job = job.limit(libc::RLIMIT_FSIZE, most);
            }
            if let Some(plan) = &self.plan {
                let named = arm.or_else(|| operands.iter().any(|o| o.starts_with("of=")).then(|| to_path.clone()));
                let plan = match named {
                    Some(path) => plan.clone().armed_by(&path.display().to_string()),
                    None if matches!(source, Source::Pipe(_)) => plan.clone().only("pipe:"),
                    None => plan.clone().only(&dir.display().to_string()),
                };
                job = job.faults(plan);
            }
        }
        let running = job.start();
        if self.stops_and_goes && !plainly {
            for _ in 0..200 {
                if !running.is_running() {
                    break;
                }
                running.send(libc::SIGSTOP);
                running.send(libc::SIGCONT);
                std::thread::sleep(std::time::Duration::from_micros(300));
            }
        }
        let ran = running.wait();
        if let Some(feeder) = feeder {
            feeder.join().expect("no panic");
        }
        let output = match target {
            Target::Null => None,
            Target::Pipe { .. } => Some(taker.expect("a reader").join().expect("no panic")),
            Target::Fuse { .. } => fuse.as_ref().and_then(|fs| fs.contents("out")),
            _ => to_path.exists().then(|| read_all(&to_path)),
        };
        drop(tmpfs);
        Left { ran, output, stdin_at: kept.map(|mut file| file.stream_position().expect("a place")) }
    }
}

fn write_with_holes(file: &File, data: &[u8], holes: bool) {
    const GRAIN: usize = 4096;
    file.set_len(data.len() as u64).expect("a length");
    if !holes {
        file.write_all_at(data, 0).expect("written");
        return;
    }
    let mut at = 0;
    while at < data.len() {
        let here = &data[at..data.len().min(at + GRAIN)];
        if here.iter().any(|&byte| byte != 0) {
            file.write_all_at(here, at as u64).expect("written");
        }
        at += here.len();
    }
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What is wrong with a copy, if anything.
fn complaints(copy: &Copy, wanted: &Left, got: &Left) -> Vec<String> {
    let mut wrong = Vec::new();
    let ran = &got.ran;
    let deaf = ran.report.faults.iter().any(|fault| fault.fd == 2);
    let stopped = ran.signal().is_some_and(|s| [libc::SIGINT, libc::SIGTERM, libc::SIGHUP].contains(&s));
    if ran.hung {
        wrong.push("a hang".into());
        return wrong;
    }
    if ran.err.contains("panicked") || ran.err.contains("internal error") {
        wrong.push("a panic".into());
    }
    match ran.code() {
        Some(0) => right(copy, wanted, got, &mut wrong),
        Some(1) => {
            if ran.messages().is_empty() && !deaf {
                wrong.push("an exit without a message".into());
            }
            let told = ran.messages().iter().any(|line| line.contains(": "));
            if !told && !deaf {
                wrong.push("no message names a reason".into());
            }
            partly_right(copy, wanted, got, &mut wrong);
        }
        None if stopped => partly_right(copy, wanted, got, &mut wrong),
        // The C library ends a program whose new thread gets no memory for what it runs at its end.
        None if ran.err.contains("Fatal glibc error") && copy.plan.is_some() => {}
        // It came before anything was done about it.
        None if ran.signal() == Some(libc::SIGUSR1) && ran.err.is_empty() => {}
        _ => wrong.push("an odd end".into()),
    }
    wrong
}

/// What the last report counts: signals may have asked for others.
fn records(ran: &Ran) -> Vec<&str> {
    let counts = |line: &&str| {
        [" records in", " records out", " truncated record", " sparse output block"]
            .iter()
            .any(|end| line.contains(end))
    };
    let last = ran.err.rfind(" records in").map_or(0, |at| ran.err[..at].rfind(['\n', '\r']).map_or(0, |at| at + 1));
    ran.err[last..].lines().filter(counts).collect()
}

fn digest_line(ran: &Ran) -> Option<&str> {
    ran.err.lines().find(|line| line.contains("sha256") || line.contains("SHA256"))
}

fn parting(one: &[u8], other: &[u8]) -> String {
    let at = one.iter().zip(other).position(|(a, b)| a != b).unwrap_or(one.len().min(other.len()));
    format!("{} and {} bytes, equal up to {at}", one.len(), other.len())
}

fn right(copy: &Copy, wanted: &Left, got: &Left, wrong: &mut Vec<String>) {
    let ran = &got.ran;
    // What a reader that leaves has not read may still have been written.
    let leaves = matches!(copy.target, Target::Pipe { leaves: Some(_), .. });
    // An output that does not tell what it is or cannot seek, and an inherited one that does not tell its flags and so may
    // append, is not stepped over: zeros are written, also over old bytes.
    let inherited = matches!(copy.target, Target::Stdout { .. });
    let untold =
        copy.has("sparse")
            && ran.report.faults.iter().any(|f| {
                STAT.contains(&f.call) || POSITION.contains(&f.call) || (inherited && f.call == libc::SYS_fcntl)
            });
    let zeroed = |one: &[u8], other: &[u8]| {
        untold && one.len() == other.len() && one.iter().zip(other).all(|(&a, &b)| a == b || a == 0)
    };
    if let (Some(one), Some(other)) = (&got.output, &wanted.output)
        && one != other
        && !(leaves && other.starts_with(one))
        && !zeroed(one, other)
    {
        wrong.push(format!("exit 0 with wrong output: {}", parting(one, other)));
    }
    if ran.copied() != wanted.ran.copied() {
        wrong.push(format!("exit 0, {:?} bytes told of {:?}", ran.copied(), wanted.ran.copied()));
    }
    if !copy.loose && records(ran) != records(&wanted.ran) {
        wrong.push(format!("exit 0 with records {:?} instead of {:?}", records(ran), records(&wanted.ran)));
    }
    let digest = |ran| digest_line(ran).and_then(|line: &str| line.split_whitespace().find(|word| word.len() == 64));
    if digest(ran) != digest(&wanted.ran) {
        wrong.push("exit 0 with another digest".into());
    }
    if got.stdin_at != wanted.stdin_at {
        wrong.push(format!("exit 0, the input left at {:?} instead of {:?}", got.stdin_at, wanted.stdin_at));
    }
}

/// What a copy that ended early has left and told.
fn partly_right(copy: &Copy, wanted: &Left, got: &Left, wrong: &mut Vec<String>) {
    if copy.has("noerror") || copy.has("ostride") {
        return;
    }
    let (Some(output), Some(whole)) = (&got.output, &wanted.output) else { return };
    let copied = got.ran.copied();
    if let Target::Pipe { leaves, .. } = copy.target {
        let fits = match copied {
            Some(copied) if leaves.is_none() => output.len() as u64 == copied,
            _ => true,
        };
        let sure = output.len().saturating_sub(copy.uncertain());
        if !whole.starts_with(&output[..sure]) {
            wrong.push(format!("wrong bytes in the pipe: {}", parting(output, whole)));
        } else if !fits {
            wrong.push(format!("{copied:?} bytes told, {} came", output.len()));
        }
        return digest_of(copy, got, whole, 0, wrong);
    }
    let old = copy.old.as_deref().unwrap_or_default();
    if output == old {
        return;
    }
    let start = usize::try_from(copy.start).expect("small");
    let truncates = !copy.has("notrunc") && !matches!(copy.target, Target::Stdout { .. } | Target::Device);
    let mut base = if truncates { old[..old.len().min(start)].to_vec() } else { old.to_vec() };
    if truncates && base.len() < start && output.len() >= start {
        base.resize(start, 0);
    }
    let end = start + usize::try_from(copied.unwrap_or(0)).expect("small");
    // The outside, and the inside as far as it is told.
    let before = output.len().min(start);
    if output[..before] != whole[..before.min(whole.len())] {
        wrong.push("bytes before the region changed".into());
    }
    if copied.is_some() {
        if output.len() < end && end > start {
            wrong.push(format!("{copied:?} bytes told from {start} on, but the output has {} bytes", output.len()));
        }
        let upto = output.len().min(end).saturating_sub(copy.uncertain());
        // Where the file cannot be made longer for zeros that were stepped over, they are written, also over old bytes.
        let zeroed = |at: usize| copy.has("sparse") && output[at] == 0 && old.get(at) == whole.get(at);
        if (start..upto).any(|at| output[at] != whole[at] && !zeroed(at)) {
            wrong.push(format!("wrong bytes: {}", parting(&output[start..upto], &whole[start..upto])));
        }
    }
    // Of a direct write that a limit cuts to an odd length the kernel writes a part, and says EINVAL.
    let several = matches!(copy.strategy, None | Some("uring" | "overlap")) || copy.has("direct");
    let behind = output.len().min(end.max(start));
    for (at, &byte) in output.iter().enumerate().skip(behind) {
        let is_old = base.get(at) == Some(&byte);
        let is_new = whole.get(at) == Some(&byte) && (copied.is_none() || several);
        if !is_old && !is_new {
            wrong.push(format!(
                "byte {at} behind what is told ({copied:?} from {start} on, old length {}, new {}) is {byte}",
                base.len(),
                output.len()
            ));
            break;
        }
    }
    digest_of(copy, got, whole, start, wrong);
}

/// The digest is that of what was written.
fn digest_of(copy: &Copy, got: &Left, whole: &[u8], start: usize, wrong: &mut Vec<String>) {
    let (Some(line), Some(copied)) = (digest_line(&got.ran), got.ran.copied()) else { return };
    // A line that standard error took in part only holds no whole digest.
    if copy.has("before") || got.ran.report.faults.iter().any(|fault| fault.fd == 2) {
        return;
    }
    let end = start + usize::try_from(copied).expect("small");
    if whole.len() >= end && copy.uncertain() == 0 && !line.contains(&hex(&whole[start..end])) {
        wrong.push(format!("the digest is not that of the {copied} bytes told"));
    }
}

fn setting(name: &str, default: u64) -> u64 {
    let value = std::env::var(name).ok();
    value.map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[derive(Default)]
struct Told {
    failures: Vec<String>,
    ends: BTreeMap<String, u64>,
}

/// One copy: how it ended, or what is wrong with it.
fn try_one(seed: u64, number: u64, dir: &Path) -> Result<String, String> {
    let mut copy = Copy::random(&mut Random::of_job(seed, number));
    let wanted = copy.run_plainly(dir);
    if wanted.ran.code() != Some(0) {
        return Ok(format!("not run: {}", wanted.ran.messages().first().unwrap_or(&"no reason")));
    }
    let mut got = copy.run_with_faults(dir);
    let mut wrong = complaints(&copy, &wanted, &got);
    // A fault that was drawn for a call that is never made: such a copy has to be right, and is made again with one that it
    // will meet, now that the calls are counted.
    if let Some(plan) = copy.plan.clone().filter(|_| wrong.is_empty() && got.ran.report.faults.is_empty()) {
        let mut random = Random::of_job(!seed, number);
        copy.plan = Some(match got.ran.report.counted {
            0 => plan.failing_instead(ANY, libc::EIO).moved_to(random.within(1, 6)),
            counted => plan.moved_to(random.within(1, counted)),
        });
        got = copy.run_with_faults(dir);
        wrong = complaints(&copy, &wanted, &got);
    }
    let hit = match (&copy.plan, got.ran.report.faults.is_empty()) {
        (None, _) => "without a fault",
        (Some(_), true) => "untouched",
        (Some(_), false) => "hit",
    };
    if wrong.is_empty() {
        return Ok(format!("{}, {hit}", got.ran.status));
    }
    let Copy { source, target, strategy, start, file_size, stops_and_goes, .. } = &copy;
    Err(format!(
        "{}\n  FDD_SEED={seed} FDD_FIRST={number} FDD_JOBS=1 cargo test -p fdd --test faults jobs:: -- --nocapture\n  \
         from {source:?} ({} bytes) to {target:?} at {start} by {strategy:?}, size limit {file_size:?}, stops and goes {stops_and_goes}\n  {}",
        wrong.join("; "),
        copy.data.len(),
        got.ran.show()
    ))
}

#[test]
fn random_jobs_under_random_faults_are_right_or_say_why_not() {
    or_skip!(needs_sysfault());
    or_skip!(FaultFs::mount());
    let (jobs, seed, first) = (setting("FDD_JOBS", 200), setting("FDD_SEED", 1), setting("FDD_FIRST", 1));
    let enough = usize::try_from(setting("FDD_FAILURES", 5)).expect("small");
    let next = AtomicU64::new(first);
    let told = Mutex::new(Told::default());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let dir = tempfile::tempdir().expect("a directory");
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= first + jobs || told.lock().expect("no panic").failures.len() >= enough {
                        break;
                    }
                    let came = try_one(seed, number, dir.path());
                    let mut told = told.lock().expect("no panic");
                    match came {
                        Ok(end) => *told.ends.entry(end).or_default() += 1,
                        Err(failure) => {
                            println!("{failure}\n");
                            told.failures.push(failure);
                        }
                    }
                }
            });
        }
    });
    let told = told.into_inner().expect("no panic");
    for (end, count) in &told.ends {
        println!("{count} {end}");
    }
    assert!(told.failures.is_empty(), "{} jobs went wrong:\n{}", told.failures.len(), told.failures.join("\n\n"));
}
