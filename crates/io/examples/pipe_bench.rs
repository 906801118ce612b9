//! Measures one way of passing tokens or bytes, once, and prints one line of JSON.
//!
//! ```text
//! pipe_bench tokens kernel|ours|ours-fair|ours-fair64 PROCESSES TOKENS
//! pipe_bench bag kernel|bag|bag-fair PROCESSES TURNS
//! pipe_bench stream kernel|mpsc|crossbeam|ours|ours-fair|ours-fair64|spsc|spsc-lend CHUNK BYTES [PAIRS [packed|apart]]
//! pipe_bench suite ROUNDS [PERCENT]
//! ```
//! A capacity may stand behind the name: `kernel64k`, `kernel1m`, `spsc256k`; it is 64 KiB otherwise.
//!
//! `tokens` is the program of Linux commit 0ddad21d3e99: one pipe, into which {0, -1} is written; each process reads one int,
//! ignores a negative one, writes the next value back, and -1 behind it when the value read was odd; it stops when the value
//! it wrote has reached TOKENS. `bag` takes and gives back a token TURNS times in all, with half as many tokens as processes;
//! over the kernel's pipe a token is a byte. `stream` writes BYTES in pieces of CHUNK in one thread (or PAIRS) and reads them
//! in as many, into buffers of at least 64 KiB; both sides copy, but `spsc-lend` fills and sums the bytes where they lie.
//! The channels carry vectors of CHUNK bytes, as many as fit 64 KiB, at least 16.
//!
//! `ours-fair64` lets who waits be overtaken 64 times.
//!
//! `packed` behind PAIRS keeps all threads on one processor, `apart` the writers on one and the readers on another; without
//! it they are where the scheduler puts them, which on an idle machine is sometimes the one and sometimes the other.
//!
//! `suite` runs everything, each in a process of its own, in rounds of another order each; PERCENT of the usual work.
//!
//! `passed_to_other` is how often a process got a value that another had written: where it is small, the pipe fed whoever
//! wrote. `share_min` and `share_max` are the parts of the work that the least and the most served process did.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fdd_io::pipe::shared::Pipe;
use fdd_io::pipe::tokens::Tokens;
use fdd_io::pipe::{Options, spsc};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What a thread or process used and did.
#[derive(Debug, Default, Clone, Copy)]
struct Used {
    cpu_ns: u64,
    switches: u64,
    done: u64,
    passed: u64,
    end_ns: u64,
}

fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// The CPU time and context switches of this thread so far.
fn used_so_far() -> Used {
    let cpu = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let switches = status
        .lines()
        .filter(|line| line.contains("ctxt_switches"))
        .filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
        .sum();
    let cpu_ns = cpu.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0);
    Used { cpu_ns, switches, end_ns: now_ns(), ..Used::default() }
}

impl Used {
    fn since(self, before: Used) -> Used {
        Used { cpu_ns: self.cpu_ns - before.cpu_ns, switches: self.switches - before.switches, ..self }
    }
}

/// A pipe as the token program needs it.
trait Ints {
    fn get(&mut self) -> io::Result<Option<i32>>;
    fn put(&mut self, value: i32) -> io::Result<()>;
}

struct Ends<R, W>(R, W);

impl<R: Read, W: Write> Ints for Ends<R, W> {
    fn get(&mut self) -> io::Result<Option<i32>> {
        let mut int = [0; 4];
        match self.0.read(&mut int)? {
            4 => Ok(Some(i32::from_ne_bytes(int))),
            0 => Ok(None),
            cut => Err(io::Error::other(format!("{cut} bytes of a token"))),
        }
    }

    fn put(&mut self, value: i32) -> io::Result<()> {
        match self.1.write(&value.to_ne_bytes())? {
            4 => Ok(()),
            cut => Err(io::Error::other(format!("{cut} bytes of a token"))),
        }
    }
}

fn pass_tokens(pipe: &mut impl Ints, last: i32) -> io::Result<Used> {
    let (mut done, mut passed, mut written) = (0, 0, -1);
    let before = used_so_far();
    loop {
        let value = match pipe.get()? {
            Some(value) if value < 0 => continue,
            Some(value) => value,
            None => break,
        };
        done += 1;
        passed += u64::from(value != written);
        written = value + 1;
        pipe.put(written)?;
        if value % 2 == 1 {
            pipe.put(-1)?;
        }
        if written >= last {
            break;
        }
    }
    Ok(Used { done, passed, ..used_so_far().since(before) })
}

fn take_turns(bag: &str, turns: u64) -> Result<Used, Failure> {
    let before = used_so_far();
    if bag.starts_with("kernel") {
        let (mut read, mut write) = (raw(io::stdin().as_fd())?, raw(io::stdout().as_fd())?);
        let mut token = [0];
        for _ in 0..turns {
            read.read_exact(&mut token)?;
            write.write_all(&token)?;
        }
    } else {
        let mut holder = Tokens::attach(io::stdin())?.holder()?;
        for _ in 0..turns {
            holder.acquire()?;
            holder.release()?;
        }
    }
    Ok(Used { done: turns, ..used_so_far().since(before) })
}

fn raw(fd: impl AsFd) -> io::Result<std::fs::File> {
    Ok(std::fs::File::from(fd.as_fd().try_clone_to_owned()?))
}

/// One process of a measurement: standard input (and output) is the pipe; it says that it is ready, waits for `go` on no
/// other channel than the pipe itself, and prints what it used on standard error.
fn child(words: &[&str]) -> Result<(), Failure> {
    let used = match words {
        ["tokens", "ours", last] => {
            let pipe = Pipe::attach(io::stdin())?;
            let mut ends = Ends(pipe.reader()?, pipe.writer()?);
            say_ready()?;
            pass_tokens(&mut ends, last.parse()?)?
        }
        ["tokens", _, last] => {
            say_ready()?;
            pass_tokens(&mut Ends(raw(io::stdin())?, raw(io::stdout())?), last.parse()?)?
        }
        ["bag", bag, turns] => {
            say_ready()?;
            take_turns(bag, turns.parse()?)?
        }
        _ => return Err("unknown child".into()),
    };
    let Used { cpu_ns, switches, done, passed, end_ns } = used;
    // One write, so that the lines of many children do not mix.
    Ok(io::stderr().write_all(format!("{cpu_ns} {switches} {done} {passed} {end_ns}\n").as_bytes())?)
}

fn say_ready() -> io::Result<()> {
    io::stderr().write_all(b"ready\n")
}

fn parse_used(line: &str) -> Option<Used> {
    let mut words = line.split(' ').map(str::parse::<u64>);
    let mut next = || words.next()?.ok();
    Some(Used { cpu_ns: next()?, switches: next()?, done: next()?, passed: next()?, end_ns: next()? })
}

/// Runs `processes` children over `stdin` and `stdout`, and `start` when all are ready.
fn run_children(
    words: &[String],
    processes: u64,
    ends: (OwnedFd, OwnedFd),
    start: impl FnOnce() -> Result<(), Failure>,
) -> Result<(f64, Vec<Used>), Failure> {
    let (reports, report) = io::pipe()?;
    let program = std::env::current_exe()?;
    let mut children = Vec::new();
    for _ in 0..processes {
        children.push(
            Command::new(&program)
                .arg("child")
                .args(words)
                .stdin(ends.0.try_clone()?)
                .stdout(ends.1.try_clone()?)
                .stderr(report.try_clone()?)
                .spawn()?,
        );
    }
    drop((report, ends));
    let mut reports = BufReader::new(reports);
    let mut line = String::new();
    for _ in 0..processes {
        line.clear();
        reports.read_line(&mut line)?;
        if line != "ready\n" {
            return Err(format!("a child said: {line}").into());
        }
    }
    let begin = now_ns();
    start()?;
    let mut used = Vec::new();
    for line in reports.lines() {
        let line = line?;
        used.push(parse_used(&line).ok_or_else(|| format!("a child said: {line}"))?);
    }
    for mut child in children {
        child.wait()?;
    }
    if used.len() as u64 != processes {
        return Err("a child did not finish".into());
    }
    let end = used.iter().map(|used| used.end_ns).max().unwrap_or(begin);
    Ok(((end - begin) as f64 / 1e9, used))
}

fn kernel_pipe(name: &str) -> Result<(io::PipeReader, io::PipeWriter), Failure> {
    let (reader, writer) = io::pipe()?;
    rustix::pipe::fcntl_setpipe_size(&writer, with_capacity(name).1)?;
    Ok((reader, writer))
}

/// A name and the capacity behind it: 64 KiB where it has none.
fn with_capacity(name: &str) -> (&str, usize) {
    let Some((before, unit)) = name.split_at_checked(name.len().saturating_sub(1)) else { return (name, 1 << 16) };
    let word = before.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let unit = match unit {
        "k" => 1 << 10,
        "m" => 1 << 20,
        _ => return (name, 1 << 16),
    };
    before[word.len()..].parse::<usize>().map_or((name, 1 << 16), |count| (word, count * unit))
}

fn options(name: &str) -> Options {
    let (name, capacity) = with_capacity(name);
    let options = Options::new(capacity);
    match name {
        _ if name.contains("-fair64") => options.overtakes(64),
        _ if name.contains("-fair") => options.fair(),
        _ => options,
    }
}

fn tokens(name: &str, processes: u64, last: u64) -> Result<(), Failure> {
    let first = [0i32, -1].map(i32::to_ne_bytes).concat();
    let last_word = last.to_string();
    let (seconds, used) = if name.starts_with("kernel") {
        let (reader, mut writer) = kernel_pipe(name)?;
        let ends = (reader.into(), writer.try_clone()?.into());
        run_children(&["tokens".into(), "kernel".into(), last_word], processes, ends, || Ok(writer.write_all(&first)?))?
    } else {
        let pipe = options(name).memfd()?;
        let mut writer = pipe.writer()?;
        let memory = pipe.descriptors().memory;
        let ends = (memory.try_clone_to_owned()?, memory.try_clone_to_owned()?);
        run_children(&["tokens".into(), "ours".into(), last_word], processes, ends, || Ok(writer.write_all(&first)?))?
    };
    report("ns_per_token", seconds * 1e9 / last as f64, seconds, &used)
}

fn bag(name: &str, processes: u64, turns: u64) -> Result<(), Failure> {
    let count = (processes / 2).max(1);
    let words = ["bag".into(), name.to_owned(), (turns / processes).to_string()];
    let (seconds, used) = if name.starts_with("kernel") {
        let (reader, mut writer) = kernel_pipe(name)?;
        let ends = (reader.into(), writer.try_clone()?.into());
        let tokens = vec![b'+'; usize::try_from(count)?];
        run_children(&words, processes, ends, || Ok(writer.write_all(&tokens)?))?
    } else {
        let bag = Tokens::memfd(u32::try_from(count)?, name == "bag-fair")?;
        // All are held until the children are there.
        let mut holder = bag.holder()?;
        for _ in 0..count {
            holder.acquire()?;
        }
        let ends = (bag.as_fd().try_clone_to_owned()?, bag.as_fd().try_clone_to_owned()?);
        run_children(&words, processes, ends, || {
            drop(holder);
            Ok(())
        })?
    };
    report("ns_per_token", seconds * 1e9 / turns as f64, seconds, &used)
}

fn report(unit: &str, value: f64, seconds: f64, used: &[Used]) -> Result<(), Failure> {
    let sum = |of: fn(&Used) -> u64| used.iter().map(of).sum::<u64>();
    let done = sum(|used| used.done).max(1) as f64;
    let shares = || used.iter().map(|used| used.done as f64 / done);
    writeln!(
        io::stdout(),
        r#"{{"seconds":{seconds:.6},"{unit}":{value:.1},"cpu_s":{:.6},"ctx_switches":{},"passed_to_other":{},"share_min":{:.4},"share_max":{:.4}}}"#,
        sum(|used| used.cpu_ns) as f64 / 1e9,
        sum(|used| used.switches),
        sum(|used| used.passed),
        shares().fold(1.0, f64::min),
        shares().fold(0.0, f64::max),
    )?;
    Ok(())
}

/// Reads to the end, and returns how much it was.
fn read_all(mut reader: impl Read, chunk: usize) -> io::Result<u64> {
    let mut buffer = vec![0; chunk.max(1 << 16)];
    let mut total = 0;
    loop {
        match reader.read(&mut buffer)? {
            0 => return Ok(total),
            len => total += len as u64,
        }
    }
}

fn write_all(mut writer: impl Write, chunk: usize, times: u64) -> io::Result<()> {
    let source: Vec<u8> = (0..=250).cycle().take(chunk).collect();
    for _ in 0..times {
        writer.write_all(&source)?;
    }
    Ok(())
}

/// Where the threads run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Where the scheduler puts them.
    Free,
    /// All on one processor.
    Packed,
    /// All writers on one, all readers on another.
    Apart,
}

impl Place {
    fn stay(self, processor: usize) -> io::Result<()> {
        let processor = match self {
            Place::Free => return Ok(()),
            Place::Packed => 0,
            Place::Apart => processor,
        };
        let mut set = rustix::thread::CpuSet::new();
        set.set(processor);
        Ok(rustix::thread::sched_setaffinity(None, &set)?)
    }
}

/// Runs all writers and readers at once, and checks that the bytes add up.
fn run_threads<'a>(
    writers: Vec<Box<dyn FnOnce() -> io::Result<()> + Send + 'a>>,
    readers: Vec<Box<dyn FnOnce() -> io::Result<u64> + Send + 'a>>,
    total: u64,
    place: Place,
) -> Result<(), Failure> {
    let barrier = Arc::new(std::sync::Barrier::new(writers.len() + readers.len() + 1));
    let read = AtomicU64::new(0);
    let (starts, used) = std::thread::scope(|scope| -> Result<_, Failure> {
        let mut threads = Vec::new();
        for writer in writers {
            let barrier = Arc::clone(&barrier);
            threads.push(scope.spawn(move || {
                let stays = place.stay(0);
                barrier.wait();
                stays?;
                let before = used_so_far();
                writer().map(|()| (before.end_ns, used_so_far().since(before)))
            }));
        }
        for reader in readers {
            let (barrier, read) = (Arc::clone(&barrier), &read);
            threads.push(scope.spawn(move || {
                let stays = place.stay(1);
                barrier.wait();
                stays?;
                let before = used_so_far();
                let len = reader()?;
                read.fetch_add(len, Ordering::Relaxed);
                Ok((before.end_ns, Used { done: len, ..used_so_far().since(before) }))
            }));
        }
        barrier.wait();
        let used: Vec<io::Result<(u64, Used)>> =
            threads.into_iter().map(|thread| thread.join().expect("no thread panics")).collect();
        Ok(used.into_iter().collect::<io::Result<Vec<_>>>()?.into_iter().unzip::<_, _, Vec<_>, Vec<_>>())
    })?;
    // From the first thread's start to the last one's end, as they saw it: this one may have had no processor meanwhile.
    let end = used.iter().map(|used| used.end_ns).max().unwrap_or(0);
    let seconds = (end - starts.into_iter().min().unwrap_or(end)) as f64 / 1e9;
    if read.load(Ordering::Relaxed) != total {
        return Err(format!("{} of {total} bytes came", read.load(Ordering::Relaxed)).into());
    }
    report("bytes_per_s", total as f64 / seconds, seconds, &used)
}

/// A channel of vectors read as a stream.
fn count_vectors(vectors: impl Iterator<Item = Vec<u8>>) -> u64 {
    vectors.map(|vector| vector.len() as u64).sum()
}

fn lent(chunk: usize, times: u64, capacity: usize, place: Place) -> Result<(), Failure> {
    let (mut writer, mut reader) = spsc(capacity)?;
    let fill = move || {
        let source: Vec<u8> = (0..=250).cycle().take(chunk).collect();
        for _ in 0..times {
            let mut done = 0;
            while done < chunk {
                let space = writer.reserve(1)?;
                let len = space.len().min(chunk - done).min(capacity / 4);
                space[..len].copy_from_slice(&source[done..done + len]);
                writer.commit(len);
                done += len;
            }
        }
        Ok(())
    };
    let sum = move || {
        let (mut total, mut sum) = (0, 0u64);
        loop {
            let bytes = reader.filled(1)?;
            if bytes.is_empty() {
                std::hint::black_box(sum);
                return Ok(total);
            }
            let len = bytes.len();
            sum = bytes.iter().fold(sum, |sum, &byte| sum.wrapping_add(byte.into()));
            reader.release(len);
            total += len as u64;
        }
    };
    run_threads(vec![Box::new(fill)], vec![Box::new(sum)], times * chunk as u64, place)
}

fn stream(name: &str, chunk: usize, bytes: u64, pairs: usize, place: Place) -> Result<(), Failure> {
    let times = (bytes / (chunk * pairs) as u64).max(1);
    let total = times * (chunk * pairs) as u64;
    let queued = ((1 << 16) / chunk).max(16);
    let mut writers: Vec<Box<dyn FnOnce() -> io::Result<()> + Send>> = Vec::new();
    let mut readers: Vec<Box<dyn FnOnce() -> io::Result<u64> + Send>> = Vec::new();
    let broken = |_| io::ErrorKind::BrokenPipe.into();
    match with_capacity(name).0 {
        "kernel" => {
            let (reader, writer) = kernel_pipe(name)?;
            for _ in 0..pairs {
                let (reader, writer) = (reader.try_clone()?, writer.try_clone()?);
                writers.push(Box::new(move || write_all(writer, chunk, times)));
                readers.push(Box::new(move || read_all(reader, chunk)));
            }
        }
        "ours" | "ours-fair" | "ours-fair64" => {
            let (writer, reader) = options(name).threads()?;
            for _ in 0..pairs {
                let (reader, writer) = (reader.another()?, writer.another()?);
                writers.push(Box::new(move || write_all(writer, chunk, times)));
                readers.push(Box::new(move || read_all(reader, chunk)));
            }
        }
        "spsc" if pairs == 1 => {
            let (writer, reader) = spsc(with_capacity(name).1)?;
            writers.push(Box::new(move || write_all(writer, chunk, times)));
            readers.push(Box::new(move || read_all(reader, chunk)));
        }
        "spsc-lend" if pairs == 1 => return lent(chunk, times, with_capacity(name).1, place),
        "mpsc" if pairs == 1 => {
            let (sender, receiver) = std::sync::mpsc::sync_channel::<Vec<u8>>(queued);
            writers.push(Box::new(move || (0..times).try_for_each(|_| sender.send(vec![7; chunk])).map_err(broken)));
            readers.push(Box::new(move || Ok(count_vectors(receiver.into_iter()))));
        }
        "crossbeam" => {
            let (sender, receiver) = crossbeam_channel::bounded::<Vec<u8>>(queued);
            for _ in 0..pairs {
                let (sender, receiver) = (sender.clone(), receiver.clone());
                let broken = |_| io::ErrorKind::BrokenPipe.into();
                writers
                    .push(Box::new(move || (0..times).try_for_each(|_| sender.send(vec![7; chunk])).map_err(broken)));
                readers.push(Box::new(move || Ok(count_vectors(receiver.into_iter()))));
            }
        }
        _ => return Err(format!("no such implementation for {pairs} pairs: {name}").into()),
    }
    run_threads(writers, readers, total, place)
}

/// What one run of the suite is told, and the name and number that its line carries.
struct Case {
    kind: &'static str,
    who: &'static str,
    size: u64,
    /// Tokens, turns or bytes.
    work: u64,
    pairs: u64,
    place: &'static str,
}

fn cases(percent: u64) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |kind, who: &[&'static str], size, work: u64, pairs, place| {
        let work = (work * percent / 100).max(1);
        cases.extend(who.iter().map(|who| Case { kind, who, size, work, pairs, place }));
    };
    for processes in [2, 8, 64] {
        add("tokens", &["kernel", "ours"], processes, 1_000_000, 0, "");
        add("tokens", &["ours-fair", "ours-fair64"], processes, 200_000, 0, "");
        add("bag", &["kernel", "bag"], processes, 1_000_000, 0, "");
        add("bag", &["bag-fair"], processes, 200_000, 0, "");
    }
    // Enough for a tenth of a second or more of each.
    for (chunk, kernel, ours) in [(1, 1 << 20, 1 << 23), (64, 1 << 25, 1 << 28), (4096, 1 << 29, 1 << 30)] {
        add("stream", &["kernel64k", "kernel1m"], chunk, kernel, 1, "");
        add("stream", &["mpsc", "crossbeam"], chunk, kernel, 1, "");
        add("stream", &["ours64k", "ours1m", "spsc64k", "spsc1m"], chunk, ours, 1, "");
    }
    for chunk in [1 << 16, 1 << 20] {
        let who = ["kernel64k", "kernel1m", "mpsc", "crossbeam", "ours64k", "ours1m", "spsc64k", "spsc1m"];
        add("stream", &who, chunk, 1 << 30, 1, "");
    }
    for place in ["", "packed"] {
        for (chunk, bytes) in [(1, 1 << 20), (64, 1 << 25), (4096, 1 << 29), (1 << 16, 1 << 29), (1 << 20, 1 << 29)] {
            add("stream", &["kernel64k", "kernel1m", "ours64k", "ours1m"], chunk, bytes, 2, place);
        }
    }
    cases
}

/// Runs every case once a round, each round in another order, and prints each line with the case's name.
fn suite(rounds: u64, percent: u64) -> Result<(), Failure> {
    let program = std::env::current_exe()?;
    let mut order = cases(percent);
    let mut random = now_ns() | 1;
    for round in 0..rounds {
        for at in (1..order.len()).rev() {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            order.swap(at, usize::try_from(random % (at as u64 + 1))?);
        }
        for case in &order {
            let Case { kind, who, size, work, pairs, place } = case;
            let mut command = Command::new(&program);
            command.args([*kind, *who, &size.to_string(), &work.to_string()]);
            if *kind == "stream" {
                command.arg(pairs.to_string());
            }
            if !place.is_empty() {
                command.arg(place);
            }
            let output = command.stderr(std::process::Stdio::inherit()).output()?;
            let line = String::from_utf8_lossy(&output.stdout).into_owned();
            let results = line.trim().strip_prefix('{').ok_or_else(|| format!("{command:?}: {}", output.status))?;
            let sizes = match *kind {
                "stream" => format!(r#""chunk":{size},"pairs":{pairs}"#),
                _ => format!(r#""processes":{size}"#),
            };
            let place = if place.is_empty() { String::new() } else { format!(r#""place":"{place}","#) };
            writeln!(
                io::stdout(),
                r#"{{"bench":"pipe","kind":"{kind}","who":"{who}",{place}{sizes},"round":{round},{results}"#
            )?;
        }
    }
    Ok(())
}

fn run(words: &[&str]) -> Result<(), Failure> {
    match words {
        ["suite", rounds] => suite(rounds.parse()?, 100),
        ["suite", rounds, percent] => suite(rounds.parse()?, percent.parse()?),
        ["child", words @ ..] => child(words),
        ["tokens", name, processes, last] => tokens(name, processes.parse()?, last.parse()?),
        ["bag", name, processes, turns] => bag(name, processes.parse()?, turns.parse()?),
        ["stream", name, chunk, bytes] => stream(name, chunk.parse()?, bytes.parse()?, 1, Place::Free),
        ["stream", name, chunk, bytes, pairs, place @ ..] => {
            let place = match place {
                [] => Place::Free,
                ["packed"] => Place::Packed,
                ["apart"] => Place::Apart,
                _ => return Err("threads are packed or apart".into()),
            };
            stream(name, chunk.parse()?, bytes.parse()?, pairs.parse()?, place)
        }
        _ => Err("usage: pipe_bench tokens|bag|stream IMPLEMENTATION PROCESSES|CHUNK TOTAL [PAIRS [packed|apart]], or suite ROUNDS [PERCENT]".into()),
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nowhere else to say it.
            let _ = writeln!(io::stderr(), "pipe_bench: {error}");
            ExitCode::FAILURE
        }
    }
}
