//! Processes killed: after each single instruction of a call, and at random by the hundred. What is left of their calls, and
//! whether the others go on.
//!
//! `FDD_STORM_SECONDS` is how long the storms rage (2 unless set). `FDD_STEP` is how many instructions lie between two deaths (1
//! unless set).
#![cfg(all(target_os = "linux", not(miri)))]

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use fdd_io::pipe::Options;
use fdd_io::pipe::shared::Pipe;
use fdd_io::pipe::tokens::Tokens;

const SECOND: Duration = Duration::from_secs(1);

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|word| word.parse().ok()).unwrap_or(otherwise)
}

/// The example, built as this test was, in case only the test was built.
fn peer() -> &'static Path {
    static PEER: OnceLock<PathBuf> = OnceLock::new();
    PEER.get_or_init(|| {
        let test = std::env::current_exe().expect("this program");
        let profile = test.ancestors().nth(2).expect("a target directory");
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--package", "fdd-io", "--example", "pipe_peer"]);
        if profile.ends_with("release") {
            build.arg("--release");
        }
        assert!(build.status().expect("cargo").success());
        profile.join("examples/pipe_peer")
    })
}

/// The killer, or None where it cannot be built or is not for this machine.
fn stepkill() -> Option<&'static Path> {
    static KILLER: OnceLock<Option<PathBuf>> = OnceLock::new();
    KILLER
        .get_or_init(|| {
            if !cfg!(target_arch = "x86_64") {
                return None;
            }
            let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stepkill");
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stepkill.c");
            let status = Command::new("cc").arg("-O1").arg("-o").arg(&program).arg(source).status().ok()?;
            status.success().then_some(program)
        })
        .as_deref()
}

/// Runs the peer once for each instruction of its marked call, killed after it, on a pipe that `before` made and `after`
/// checks. Returns how many deaths there were.
fn kill_at_each_step(
    words: &[&str],
    stride: u64,
    before: impl Fn(&Path),
    mut after: impl FnMut(&Path, u64, bool),
) -> u64 {
    let Some(stepkill) = stepkill() else {
        // Said, so that nobody takes the skip for a success.
        eprintln!("skipped: no C compiler, or not x86-64");
        return u64::MAX;
    };
    // In memory where there is such a place: a new pipe for each death.
    let place = Path::new("/dev/shm");
    let place = if place.is_dir() { place.to_owned() } else { std::env::temp_dir() };
    let directory = tempfile::tempdir_in(place).expect("a directory");
    let mut deaths = 0;
    for steps in (0..).step_by(usize::try_from(stride).expect("small")) {
        let file = directory.path().join(steps.to_string());
        before(&file);
        let mut command = Command::new(stepkill);
        command.arg(steps.to_string()).arg(peer()).arg(words[0]).arg(&file).args(&words[1..]);
        let output = command.env("LD_BIND_NOW", "1").stdout(Stdio::piped()).output().expect("the killer");
        let survived = match output.status.code() {
            Some(0) => false,
            Some(3) => true,
            _ => panic!("{command:?}: {output:?}"),
        };
        after(&file, steps, survived);
        std::fs::remove_file(&file).expect("the pipe");
        if survived {
            break;
        }
        deaths += 1;
    }
    deaths
}

fn new_pipe(file: &Path) {
    let pipe = Options::new(1 << 16).create(file).expect("a new file");
    let _reader = pipe.reader().expect("a seat");
    assert_eq!(pipe.writer().expect("a seat").write(b"before ").expect("space"), 7);
}

/// Writes behind whatever the dead left, and reads all.
fn the_rest(file: &Path) -> Vec<u8> {
    let pipe = Pipe::open(file).expect("a sound pipe");
    let (mut reader, mut writer) = (pipe.reader().expect("a seat"), pipe.writer().expect("a seat"));
    assert_eq!(writer.write_timeout(b" after", SECOND).expect("the others go on within a second"), 6);
    let (mut all, mut part) = (Vec::new(), [0; 1000]);
    while !all.ends_with(b" after") {
        let len = reader.read_timeout(&mut part, SECOND).expect("the others go on within a second");
        all.extend(&part[..len]);
    }
    assert_eq!(reader.try_read(&mut part).expect_err("nothing behind").kind(), ErrorKind::WouldBlock);
    all
}

#[test]
fn a_writer_killed_after_any_instruction_leaves_its_write_wholly_or_not_at_all() {
    let text = "one-piece";
    let (mut there, mut not) = (0, 0);
    let deaths = kill_at_each_step(&["put", text, "mark"], number("FDD_STEP", 1), new_pipe, |file, step, survived| {
        match the_rest(file).as_slice() {
            b"before one-piece after" => there += 1,
            b"before  after" if !survived => not += 1,
            other => panic!("after {step} instructions: {}", String::from_utf8_lossy(other)),
        }
    });
    assert!(deaths > 30, "a stretch of {deaths} instructions is none");
    assert!(deaths == u64::MAX || (there > 1 && not > 1), "{there} and {not}: the deaths were all on one side");
}

#[test]
fn a_writer_killed_in_a_long_write_leaves_a_prefix() {
    let text: String = (0..30_000u32).map(|at| char::from(b'a' + u8::try_from(at % 23).expect("small"))).collect();
    // The copies are long: deaths in the middle of one are all alike.
    let stride = number("FDD_STEP", 1999);
    kill_at_each_step(&["put", &text, "mark"], stride, new_pipe, |file, step, survived| {
        let all = the_rest(file);
        let middle = all.strip_prefix(b"before ").and_then(|rest| rest.strip_suffix(b" after"));
        let middle = middle.unwrap_or_else(|| panic!("after {step} instructions: {} bytes", all.len()));
        assert!(text.as_bytes().starts_with(middle), "after {step} instructions");
        assert!(!survived || middle.len() == text.len(), "after {step} instructions: {}", middle.len());
    });
}

#[test]
fn a_reader_killed_after_any_instruction_loses_its_piece_at_most() {
    let (mut lost, mut kept) = (0, 0);
    let deaths = kill_at_each_step(&["get", "mark"], number("FDD_STEP", 1), new_pipe, |file, step, survived| {
        match the_rest(file).as_slice() {
            b"before  after" if !survived => kept += 1,
            b" after" => lost += 1,
            other => panic!("after {step} instructions: {}", String::from_utf8_lossy(other)),
        }
    });
    assert!(deaths == u64::MAX || (lost > 1 && kept > 1), "{lost} and {kept}: the deaths were all on one side");
}

#[test]
fn an_end_killed_while_it_attaches_is_not_there() {
    // Thousands of instructions, most of them in the C library and the kernel's answers.
    let stride = number("FDD_STEP", 5);
    for words in [["put", "x", "attach"].as_slice(), &["get", "attach"]] {
        kill_at_each_step(words, stride, new_pipe, |file, step, survived| {
            let all = the_rest(file);
            let all = String::from_utf8_lossy(&all);
            assert!(survived || all == "before  after", "after {step} instructions: {all}");
        });
    }
}

#[test]
fn a_holder_killed_after_any_instruction_gives_its_tokens_back() {
    for operation in ["acquire", "release"] {
        let deaths = kill_at_each_step(
            &[operation, "mark"],
            number("FDD_STEP", 1),
            |file| drop(Tokens::create(file, 3, false).expect("a new file")),
            |file, step, _| {
                let bag = Tokens::open(file).expect("a sound bag");
                let mut holder = bag.holder().expect("a seat");
                for token in 0..3 {
                    let got = holder.acquire_timeout(SECOND);
                    got.unwrap_or_else(|error| panic!("after {step} instructions, token {token}: {error}"));
                }
                assert_eq!(holder.try_acquire().expect_err("there were three").kind(), ErrorKind::WouldBlock);
            },
        );
        assert!(deaths > 30, "a stretch of {deaths} instructions is none");
    }
}

// The storms. This program starts itself as worker: the test `worker` does nothing unless told to.

const RECORD: usize = 256;

/// A record that shows where it comes from and that it is whole.
fn record(name: u32, number: u32) -> [u8; RECORD] {
    let mut record = [0; RECORD];
    record[..4].copy_from_slice(&name.to_ne_bytes());
    record[4..8].copy_from_slice(&number.to_ne_bytes());
    let [low, ..] = (name.wrapping_mul(31) ^ number.wrapping_mul(7)).to_ne_bytes();
    for (byte, at) in record[8..].iter_mut().zip((0..=255u8).cycle()) {
        *byte = at ^ low;
    }
    record
}

fn words(record: &[u8]) -> (u32, u32) {
    let word = |at: usize| u32::from_ne_bytes(record[at..at + 4].try_into().expect("four bytes"));
    (word(0), word(4))
}

#[test]
fn worker() {
    let Ok(role) = std::env::var("FDD_STORM_ROLE") else { return };
    let name = u32::try_from(number("FDD_STORM_NAME", 0)).expect("small");
    let memory = std::io::stdin();
    match role.as_str() {
        "writer" => {
            let mut writer = Pipe::attach(memory).expect("a pipe").writer().expect("a seat");
            for number in 0.. {
                if writer.write(&record(name, number)).is_err() {
                    break;
                }
            }
        }
        "reader" => {
            let mut reader = Pipe::attach(memory).expect("a pipe").reader().expect("a seat");
            let mut log = std::fs::File::create(std::env::var_os("FDD_STORM_LOG").expect("a log")).expect("a log");
            let mut piece = [0; RECORD];
            loop {
                match reader.read(&mut piece).expect("a sound pipe") {
                    0 => break,
                    len => {
                        // One write: a death leaves a whole line of the log or none.
                        let (name, number) = words(&piece);
                        let whole = u8::from(len == RECORD && piece == record(name, number));
                        let line = [&name.to_ne_bytes()[..], &number.to_ne_bytes(), &[whole]].concat();
                        log.write_all(&line).expect("a log");
                    }
                }
            }
        }
        "holder" => {
            let mut holder = Tokens::attach(memory).expect("a bag").holder().expect("a seat");
            loop {
                holder.acquire().expect("a sound bag");
                holder.release().expect("its own");
            }
        }
        "keeper" => {
            let mut holder = Tokens::attach(memory).expect("a bag").holder().expect("a seat");
            holder.acquire().expect("a sound bag");
            // Says that it has one, and keeps it until it is killed.
            std::io::stderr().write_all(b"!").expect("a pipe");
            loop {
                std::thread::park();
            }
        }
        other => panic!("no such role: {other}"),
    }
}

fn start(role: &str, name: u32, memory: &OwnedFd, log: &Path) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "worker", "--nocapture"])
        .env("FDD_STORM_ROLE", role)
        .env("FDD_STORM_NAME", name.to_string())
        .env("FDD_STORM_LOG", log)
        .stdin(memory.try_clone().expect("a descriptor"))
        .stdout(Stdio::null())
        .stderr(if role == "keeper" { Stdio::piped() } else { Stdio::inherit() })
        .spawn()
        .expect("this program")
}

fn kill(mut child: Child) {
    child.kill().expect("a child");
    child.wait().expect("a child");
}

/// A generator of numbers whose seed is printed.
struct Dice(u64);

impl Dice {
    fn new() -> Dice {
        let seed = number("FDD_SEED", u64::from(std::process::id()) << 20 | 1);
        eprintln!("FDD_SEED={seed}");
        Dice(seed)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    /// A pause in which workers get somewhere; nothing depends on how far.
    fn pause(&mut self) {
        std::thread::sleep(Duration::from_micros(500 + self.below(8000)));
    }
}

/// Four writers and four readers, one of whom is killed every few milliseconds and replaced.
fn storm(options: &Options) {
    let directory = tempfile::tempdir().expect("a directory");
    let pipe = options.memfd().expect("a pipe");
    let memory = pipe.descriptors().memory.try_clone_to_owned().expect("a descriptor");
    let mut dice = Dice::new();
    let (mut names, mut killed_readers, mut killed) = (0, 0, 0u32);
    let mut begin = |role: &'static str| {
        names += 1;
        (role, start(role, names, &memory, &directory.path().join(names.to_string())))
    };
    let mut workers: Vec<_> = ["writer", "reader"].repeat(4).into_iter().map(&mut begin).collect();
    let end = Instant::now() + Duration::from_secs(number("FDD_STORM_SECONDS", 2));
    while Instant::now() < end {
        dice.pause();
        let index = usize::try_from(dice.below(8)).expect("small");
        let (role, child) = workers.swap_remove(index);
        kill(child);
        killed += 1;
        killed_readers += u32::from(role == "reader");
        workers.push(begin(role));
    }
    // The writers die too; the readers then come to the end by themselves.
    let (writers, readers): (Vec<_>, Vec<_>) = workers.into_iter().partition(|(role, _)| *role == "writer");
    for (_, child) in writers {
        kill(child);
        killed += 1;
    }
    for (_, mut child) in readers {
        assert!(child.wait().expect("a reader").success(), "a reader failed");
    }
    let mut highest: HashMap<u32, (u32, u32)> = HashMap::new();
    let mut seen = std::collections::HashSet::new();
    for log in 1..=names {
        let Ok(mut file) = std::fs::File::open(directory.path().join(log.to_string())) else { continue };
        let mut lines = Vec::new();
        file.read_to_end(&mut lines).expect("a log");
        let mut last: HashMap<u32, u32> = HashMap::new();
        for line in lines.chunks_exact(9) {
            let (name, number) = words(line);
            assert_eq!(line[8], 1, "record {number} of writer {name} is not whole");
            assert!(seen.insert((name, number)), "record {number} of writer {name} came twice");
            assert!(last.insert(name, number).is_none_or(|last| last < number), "writer {name} is out of order");
            let (count, most) = highest.entry(name).or_default();
            (*count, *most) = (*count + 1, (*most).max(number));
        }
    }
    let lost: u32 = highest.values().map(|(count, most)| most + 1 - count).sum();
    eprintln!("{killed} killed, {} records read, {lost} lost with {killed_readers} readers", seen.len());
    assert!(lost <= killed_readers, "{lost} lost with {killed_readers} readers");
    assert!(seen.len() > 100, "hardly anything was passed");
}

#[test]
fn a_storm_of_kills_loses_no_more_than_dead_readers_had_taken() {
    storm(&Options::new(1 << 14));
}

#[test]
fn a_storm_of_kills_in_fair_mode_loses_no_more_than_dead_readers_had_taken() {
    storm(&Options::new(1 << 14).fair());
}

#[test]
fn after_any_number_of_kills_the_tokens_are_the_capacity_less_what_the_living_hold() {
    let bag = Tokens::memfd(5, false).expect("a bag");
    let memory = bag.as_fd().try_clone_to_owned().expect("a descriptor");
    let begin = || start("holder", 0, &memory, Path::new("/dev/null"));
    let mut workers: Vec<_> = (0..8).map(|_| begin()).collect();
    let mut dice = Dice::new();
    let end = Instant::now() + Duration::from_secs(number("FDD_STORM_SECONDS", 2));
    while Instant::now() < end {
        dice.pause();
        kill(workers.swap_remove(usize::try_from(dice.below(8)).expect("small")));
        workers.push(begin());
    }
    let mut keepers: Vec<Child> = (0..3).map(|_| start("keeper", 0, &memory, Path::new("/dev/null"))).collect();
    for keeper in &mut keepers {
        // In the midst of those who contend: each gets one in the end.
        let mut said = [0];
        keeper.stderr.as_mut().expect("a pipe").read_exact(&mut said).expect("a keeper has one");
    }
    workers.into_iter().for_each(kill);
    let mut holder = bag.holder().expect("a seat");
    assert_eq!(holder.free().expect("a sound bag"), 2);
    kill(keepers.pop().expect("three"));
    assert_eq!(holder.free().expect("a sound bag"), 3);
    keepers.into_iter().for_each(kill);
    assert_eq!(holder.free().expect("a sound bag"), 5);
}
