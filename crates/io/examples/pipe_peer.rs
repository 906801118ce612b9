//! A peer of a shared pipe or a bag of tokens, one operation a run, to be killed at any point of it.
//!
//! ```text
//! pipe_peer init FILE                   make a pipe
//! pipe_peer put FILE TEXT [mark]        one write
//! pipe_peer get FILE [mark]             one read of at most 1000 bytes, without waiting; prints them, or EMPTY
//! pipe_peer bag FILE COUNT              make a bag of tokens
//! pipe_peer acquire FILE [mark]         take a token without waiting, and give it back by ending
//! pipe_peer release FILE [mark]         take a token and give it back
//! pipe_peer free FILE                   print how many tokens are free
//! ```
//!
//! With `mark`, prctl(0x53544b31) is called right before the library call and prctl(0x53544b32) right after; with `attach`
//! around the making of the end. Nothing waits for longer than a second. Exit status 1 and a message when it fails.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use fdd_io::pipe::Options;
use fdd_io::pipe::shared::Pipe;
use fdd_io::pipe::tokens::Tokens;
use fdd_sys::shared::mark_stretch;

const WAIT: Duration = Duration::from_millis(900);

#[derive(Clone, Copy, PartialEq)]
enum Marked {
    Nothing,
    Call,
    Attach,
}

fn stretch<T>(marked: bool, call: impl FnOnce() -> T) -> T {
    if marked {
        mark_stretch(true);
    }
    let result = call();
    if marked {
        mark_stretch(false);
    }
    result
}

fn put(file: &str, text: &str, marked: Marked) -> io::Result<()> {
    let pipe = Pipe::open(file)?;
    // Both ends: what is put stays, though nobody may be reading now.
    let _reader = pipe.reader()?;
    let mut writer = stretch(marked == Marked::Attach, || pipe.writer())?;
    let written = stretch(marked == Marked::Call, || writer.write_timeout(text.as_bytes(), WAIT))?;
    if written == text.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

fn get(file: &str, marked: Marked) -> io::Result<()> {
    let pipe = Pipe::open(file)?;
    let _writer = pipe.writer()?;
    let mut reader = stretch(marked == Marked::Attach, || pipe.reader())?;
    let mut text = [0; 1000];
    match stretch(marked == Marked::Call, || reader.try_read(&mut text)) {
        Ok(len) => io::stdout().write_all(&text[..len]),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => io::stdout().write_all(b"EMPTY"),
        Err(error) => Err(error),
    }
}

fn tokens(file: &str, operation: &str, marked: Marked) -> io::Result<()> {
    let bag = Tokens::open(file)?;
    let mut holder = stretch(marked == Marked::Attach, || bag.holder())?;
    match operation {
        "acquire" => stretch(marked == Marked::Call, || holder.acquire_timeout(WAIT)),
        "release" => {
            holder.acquire_timeout(WAIT)?;
            stretch(marked == Marked::Call, || holder.release())
        }
        _ => writeln!(io::stdout(), "{}", holder.free()?),
    }
}

fn run(words: &[&str]) -> io::Result<()> {
    let (words, marked) = match words {
        [words @ .., "mark"] if words.len() >= 2 => (words, Marked::Call),
        [words @ .., "attach"] if words.len() >= 2 => (words, Marked::Attach),
        words => (words, Marked::Nothing),
    };
    match words {
        ["init", file] => Options::new(1 << 16).create(file).map(drop),
        ["put", file, text] => put(file, text, marked),
        ["get", file] => get(file, marked),
        ["bag", file, count] => {
            let count = count.parse().map_err(io::Error::other)?;
            Tokens::create(file, count, false).map(drop)
        }
        [operation @ ("acquire" | "release" | "free"), file] => tokens(file, operation, marked),
        _ => Err(io::Error::other(
            "usage: pipe_peer init|put|get|bag|acquire|release|free FILE [TEXT|COUNT] [mark|attach]",
        )),
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nowhere else to say it.
            let _ = writeln!(io::stderr(), "pipe_peer: {error}");
            ExitCode::FAILURE
        }
    }
}
