//! Small programs that cases need and that live in this binary: a bare loop, the two ends of a pipe, and the bystander.
//! `fdd-bench --inside NAME ARGUMENT...` runs one; cases write `{bench} NAME ARGUMENT...`.

use std::fs::File;
use std::io::{self, BufRead, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use fdd_sys::cachectl::Mapping;
use rustix::io::{read, write};
use rustix::pipe::{SpliceFlags, splice};

use crate::Error;
use crate::shuffle::Random;

/// Names of the programs, so that a command line can be told from a suite.
pub(crate) const NAMES: [&str; 5] = ["loop", "drain", "feed", "chew", "bystander"];

pub(crate) fn run(name: &str, arguments: &[String]) -> Result<(), Error> {
    let number = |place: usize| {
        let word = arguments.get(place).map_or("", String::as_str);
        word.parse::<u64>().map_err(|_| Error(format!("{name}: `{word}` is no number")))
    };
    let done = match name {
        "loop" => bare_loop(number(0)?, number(1)?),
        "drain" => drain(),
        "feed" => feed(number(0)?),
        "chew" => chew(),
        "bystander" => bystander(number(0)?, Path::new(arguments.get(1).map_or("", String::as_str))),
        _ => return Err(Error(format!("there is no program called {name}"))),
    };
    done.map_err(|error| Error(format!("{name}: {error}")))
}

/// What a dd cannot do better than where each block must be a call: read, write, count.
fn bare_loop(bs: u64, count: u64) -> io::Result<()> {
    let (stdin, stdout) = (io::stdin(), io::stdout());
    let mut block = vec![0; usize::try_from(bs).expect("a block that fits memory")];
    for _ in 0..count {
        let length = read(&stdin, &mut block)?;
        if length == 0 {
            break;
        }
        write(&stdout, &block[..length])?;
    }
    Ok(())
}

/// Takes pages out of a pipe without looking at them, so that the writer is what is measured.
fn drain() -> io::Result<()> {
    let stdin = io::stdin();
    let null = std::fs::File::options().write(true).open("/dev/null")?;
    while splice(&stdin, None, &null, None, 1 << 20, SpliceFlags::MOVE)? > 0 {}
    Ok(())
}

/// Writes `size` bytes as fast as one can who copies.
fn feed(size: u64) -> io::Result<()> {
    let stdout = io::stdout();
    let chunk = vec![b'x'; 128 << 10];
    let mut left = size;
    while left > 0 {
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(chunk.len());
        left -= write(&stdout, &chunk[..length])? as u64;
    }
    Ok(())
}

/// Reads in pieces of 64 KiB and does something to each byte that takes a while.
fn chew() -> io::Result<()> {
    let stdin = io::stdin();
    let mut chunk = vec![0; 64 << 10];
    let mut sum = 0_u64;
    loop {
        let length = read(&stdin, &mut chunk)?;
        if length == 0 {
            break;
        }
        for byte in &chunk[..length] {
            sum = (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    std::hint::black_box(sum);
    Ok(())
}

/// Another program on the machine: has `mebibytes` of memory, half of it its own and half of it a file in its address space as
/// programs and libraries are, and touches all of it over and over, with a rest in between as who plays a video.
///
/// Waits for a line before it takes the memory, says `ready`, touches until standard input ends, and then prints a line with
/// its major faults, its passes, and the slowest and the middle one in milliseconds.
fn bystander(mebibytes: u64, file: &Path) -> io::Result<()> {
    let stdin = io::stdin();
    let mut line = String::new();
    stdin.lock().read_line(&mut line)?;
    let half = usize::try_from(mebibytes << 19).expect("a size that fits memory");
    // Not one value over and over: swap in memory would compress that to nothing.
    let mut random = Random::from_seed(1);
    let mut memory: Vec<u64> = (0..half / 8).map(|_| random.next()).collect();
    let mapping = Mapping::new(File::open(file)?.as_fd(), half)?;
    // Twice, so that the kernel knows that it is used.
    for _ in 0..2 {
        touch(&mut memory, &mapping);
    }
    writeln!(io::stdout(), "ready")?;
    let before = major_faults();
    let mut passes = Vec::new();
    // The end of standard input is looked for in the rest between two passes.
    while !ended_within(stdin.as_fd(), REST)? {
        let start = Instant::now();
        touch(&mut memory, &mapping);
        passes.push(start.elapsed().as_secs_f64() * 1e3);
    }
    let faults = major_faults() - before;
    let passes = crate::stats::Summary::of(passes);
    let (count, slowest, middle) = passes.map_or((0, 0.0, 0.0), |told| (told.runs, told.max, told.median));
    writeln!(io::stdout(), "{faults} {count} {slowest} {middle}")
}

const REST: Duration = Duration::from_millis(200);

fn touch(memory: &mut [u64], mapping: &Mapping) {
    std::hint::black_box(mapping.touch());
    let page = rustix::param::page_size() / 8;
    for word in memory.iter_mut().step_by(page) {
        *word = std::hint::black_box(word.wrapping_add(1));
    }
}

fn ended_within(fd: std::os::fd::BorrowedFd<'_>, rest: Duration) -> io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let rest = Timespec { tv_sec: 0, tv_nsec: i64::from(rest.subsec_nanos()) as _ };
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    Ok(poll(&mut fds, Some(&rest))? > 0)
}

fn major_faults() -> i64 {
    use nix::sys::resource::{UsageWho, getrusage};
    getrusage(UsageWho::RUSAGE_SELF).map_or(0, |usage| usage.major_page_faults())
}
