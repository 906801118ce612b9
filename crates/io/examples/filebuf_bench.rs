//! How many write calls, and how much time, for chunks of one size through a buffer?
//!
//! ```text
//! filebuf_bench IMPLEMENTATION CHUNK COUNT CAPACITY TARGET
//!   IMPLEMENTATION  ours, brim, bufwriter, stdio, libstdc++, libc++
//!   CHUNK           bytes, or random:MAX (1 to MAX, the same sequence for everyone)
//!   TARGET          null (/dev/null), file:PATH, or sync:PATH (O_SYNC); the file is emptied
//! filebuf_bench table null|file|sync COUNT ROUNDS DIRECTORY
//! ```
//!
//! The first form is one case and prints one JSON line: `{"implementation":"ours","chunk":"1024","count":1000,
//! "capacity":8192,"target":"sync","bytes":1024000,"seconds":0.1,"calls":112}`. The time goes from the first chunk to the
//! end of the flush; opening and closing are not in it. Calls are those that the kernel counted for the process
//! (/proc/self/io). An implementation that is not there (no C++ compiler, no libc++) exits 3 with the reason.
//!
//! The second form runs every case of the table ROUNDS times, each in a process of its own, and prints its lines. The sizes
//! come in another order each round, and for each size the implementations. `ours (again)` is the same as `ours`: how far
//! the two differ is the noise.
//!
//! `brim` is our buffer with the other rule: fill it to the brim and write exactly that.

use std::fs::OpenOptions;
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use fdd_io::filebuf::{Buffer, FileBuf};

const CXX: &str = include_str!("filebuf_bench.cpp");

/// How many sizes a random sequence has before it begins again.
const SIZES: usize = 1000;

type Failure = Box<dyn std::error::Error>;

struct Case {
    implementation: String,
    chunk: String,
    sizes: Vec<usize>,
    count: usize,
    capacity: usize,
    target: String,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Ok(arguments) = <[String; 5]>::try_from(arguments) else {
        eprintln!("usage: filebuf_bench IMPLEMENTATION CHUNK COUNT CAPACITY TARGET");
        eprintln!("       filebuf_bench table null|file|sync COUNT ROUNDS DIRECTORY");
        return ExitCode::from(2);
    };
    let done = match arguments {
        [word, target, count, rounds, directory] if word == "table" => table(&target, &count, &rounds, &directory),
        arguments => one(arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("filebuf_bench: {failure}");
            ExitCode::from(if failure.is::<Missing>() { 3 } else { 1 })
        }
    }
}

fn one([implementation, chunk, count, capacity, target]: [String; 5]) -> Result<(), Failure> {
    let (sizes, count, capacity) = (sizes(&chunk)?, count.parse()?, capacity.parse()?);
    println!("{}", run(&Case { implementation, chunk, sizes, count, capacity, target })?);
    Ok(())
}

/// The sizes of the table: around the cliff that libstdc++ once had at 1024, and around the capacity.
const TABLE: [&str; 14] = [
    "1",
    "100",
    "1000",
    "1021",
    "1022",
    "1023",
    "1024",
    "1025",
    "4000",
    "5000",
    "8191",
    "8192",
    "10000",
    "random:10000",
];

const COMPARED: [&str; 5] = ["ours", "ours (again)", "bufwriter", "stdio", "libstdc++"];

/// A case that is not there is told once, and the others go on.
fn table(target: &str, count: &str, rounds: &str, directory: &str) -> Result<(), Failure> {
    let file = Path::new(directory).join(format!("filebuf_bench-{}", std::process::id()));
    let target = if target == "null" { target.to_owned() } else { format!("{target}:{}", file.display()) };
    let (this, capacity) = (std::env::current_exe()?, fdd_io::filebuf::DEFAULT_CAPACITY.to_string());
    let (mut missing, mut random) = (Vec::new(), Random(1));
    for _ in 0..rounds.parse::<usize>()? {
        for chunk in random.order(&TABLE) {
            for implementation in random.order(&COMPARED) {
                if missing.contains(&implementation) {
                    continue;
                }
                let case = [implementation, chunk, count, &capacity, &target];
                let output = Command::new(&this).args(case).stderr(Stdio::inherit()).output()?;
                std::io::stdout().write_all(&output.stdout)?;
                match output.status.code() {
                    Some(0) => {}
                    Some(3) => missing.push(implementation),
                    _ => return Err(format!("{} ended with {}", case.join(" "), output.status).into()),
                }
            }
        }
    }
    if target != "null" {
        std::fs::remove_file(file)?;
    }
    Ok(())
}

/// The same sequence each time: a linear congruence with the constants of Knuth's MMIX, of which the upper half is random
/// enough for sizes and orders.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn order<'a>(&mut self, names: &[&'a str]) -> Vec<&'a str> {
        let mut order = Vec::new();
        for (before, name) in (0_u64..).zip(names) {
            let place = usize::try_from(self.below(before + 1)).expect("below a length");
            order.insert(place, *name);
        }
        order
    }
}

fn run(case: &Case) -> Result<String, Failure> {
    let (seconds, calls) = match &case.implementation[..] {
        "ours" | "ours (again)" => time(case, &mut FileBuf::with_capacity(case.capacity, open(&case.target)?))?,
        "bufwriter" => time(case, &mut BufWriter::with_capacity(case.capacity, open(&case.target)?))?,
        "brim" => time(case, &mut Brim { buffer: Buffer::with_capacity(case.capacity), file: open(&case.target)? })?,
        cxx @ ("stdio" | "libstdc++" | "libc++") => by_cxx(case, cxx)?,
        other => return Err(format!("no implementation '{other}'").into()),
    };
    let bytes: usize = case.sizes.iter().cycle().take(case.count).sum();
    let Case { implementation, chunk, count, capacity, target, .. } = case;
    let target = target.split(':').next().unwrap_or_default();
    Ok(format!(
        r#"{{"implementation":"{implementation}","chunk":"{chunk}","count":{count},"capacity":{capacity},"target":"{target}","bytes":{bytes},"seconds":{seconds:.9},"calls":{calls}}}"#
    ))
}

/// The chunks and the flush, in seconds, and the write calls made.
///
/// By itself for each implementation: within the function that chooses one, the loops share its frame, and which of them finds
/// its variables in registers is chance, worth 4 % of a chunk of 100 bytes.
#[inline(never)]
fn time(case: &Case, stream: &mut impl Write) -> Result<(f64, u64), Failure> {
    let bytes = vec![b'x'; case.sizes.iter().copied().max().unwrap_or(0)];
    let before = write_calls()?;
    let start = Instant::now();
    let mut next = 0;
    for _ in 0..case.count {
        let size = case.sizes[next];
        next = if next + 1 == case.sizes.len() { 0 } else { next + 1 };
        stream.write_all(&bytes[..size])?;
    }
    stream.flush()?;
    let seconds = start.elapsed().as_secs_f64();
    Ok((seconds, write_calls()? - before))
}

fn write_calls() -> Result<u64, Failure> {
    let io = std::fs::read_to_string("/proc/self/io")?;
    let calls = io.lines().find_map(|line| line.strip_prefix("syscw: ")).ok_or("the kernel does not count calls")?;
    Ok(calls.parse()?)
}

fn sizes(chunk: &str) -> Result<Vec<usize>, Failure> {
    let Some(max) = chunk.strip_prefix("random:") else { return Ok(vec![chunk.parse()?]) };
    let max: u64 = max.parse()?;
    let mut random = Random(1);
    std::iter::repeat_with(|| Ok(usize::try_from(1 + random.below(max))?)).take(SIZES).collect()
}

fn path(target: &str) -> Result<&Path, Failure> {
    match target.split_once(':') {
        None if target == "null" => Ok(Path::new("/dev/null")),
        Some(("file" | "sync", path)) => Ok(Path::new(path)),
        _ => Err(format!("no target '{target}'").into()),
    }
}

fn open(target: &str) -> Result<std::fs::File, Failure> {
    let flags = if target.starts_with("sync:") { libc::O_SYNC } else { 0 };
    Ok(OpenOptions::new().write(true).create(true).truncate(true).custom_flags(flags).open(path(target)?)?)
}

/// The rule not taken: each call carries one whole buffer exactly.
struct Brim {
    buffer: Buffer,
    file: std::fs::File,
}

impl Write for Brim {
    #[inline]
    fn write(&mut self, chunk: &[u8]) -> std::io::Result<usize> {
        if !self.buffer.keep(chunk) {
            let (taken, result) = self.buffer.blocks(chunk, |block| self.file.write_all(block));
            debug_assert!(result.is_err() || taken == chunk.len());
            result?;
        }
        Ok(chunk.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.write_all(self.buffer.held())?;
        self.buffer.clear();
        Ok(())
    }
}

/// Not a failure of the measuring: there is nothing to measure here.
#[derive(Debug)]
struct Missing(String);

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "skipped: {}", self.0)
    }
}

impl std::error::Error for Missing {}

fn by_cxx(case: &Case, how: &str) -> Result<(f64, u64), Failure> {
    let program = build(if how == "libc++" { "libc++" } else { "libstdc++" })?;
    let target = match case.target.split_once(':') {
        Some(("sync", path)) => format!("sync:{path}"),
        _ => path(&case.target)?.display().to_string(),
    };
    let sizes: Vec<String> = case.sizes.iter().map(ToString::to_string).collect();
    let output = Command::new(program)
        .args([if how == "stdio" { "stdio" } else { "filebuf" }, &target])
        .args([case.capacity.to_string(), case.count.to_string(), sizes.join(",")])
        .output()?;
    let line = String::from_utf8(output.stdout)?;
    let (seconds, calls) =
        line.trim().split_once(' ').ok_or_else(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    Ok((seconds.parse()?, calls.parse()?))
}

/// The C++ program, built beside this one the first time and again when this one is newer.
fn build(library: &str) -> Result<PathBuf, Failure> {
    let this = std::env::current_exe()?;
    let program = this.with_file_name(format!("filebuf_bench_{}", library.replace('+', "x")));
    let age = |path: &Path| path.metadata().and_then(|metadata| metadata.modified());
    if age(&program).is_ok_and(|built| age(&this).is_ok_and(|ours| built >= ours)) {
        return Ok(program);
    }
    let compilers: &[(&str, &[&str])] = match library {
        "libc++" => &[("clang++", &["-stdlib=libc++"])],
        _ => &[("g++", &[]), ("c++", &[]), ("clang++", &["-stdlib=libstdc++"])],
    };
    let source = this.with_file_name("filebuf_bench.cpp");
    std::fs::write(&source, CXX)?;
    for (compiler, flags) in compilers {
        let mut command = Command::new(compiler);
        let built = command.args(["-std=c++17", "-O2", "-o"]).arg(&program).args(*flags).arg(&source).output();
        if built.is_ok_and(|built| built.status.success()) {
            return Ok(program);
        }
    }
    Err(Missing(format!("no C++ compiler here builds with {library}")).into())
}
