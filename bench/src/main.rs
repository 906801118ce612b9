//! One program for every figure that fdd claims: `fdd-bench SUITE`. See README.md beside it.

mod cases;
mod command;
mod curve;
mod examples;
mod files;
mod inside;
mod measure;
mod options;
mod peers;
mod plot;
mod pressure;
mod record;
mod report;
mod residency;
mod run;
mod shuffle;
mod stats;
mod table;

use std::fmt;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use cases::{Cases, Suite};
use files::Workspace;
use options::Asked;
pub(crate) use options::Options;
use peers::Peers;

/// What kept the program from measuring, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Error(pub(crate) String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match options::parse(&words) {
        Ok(Asked::Help) => say(options::HELP),
        Ok(Asked::Inside { name, arguments }) => inside::run(&name, &arguments),
        Ok(Asked::Suites(options)) => measure_all(options),
        Err(error) => Err(error),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fdd-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints results. Who closes our output, as `head` does, ends the program, and its files are removed.
fn say(text: &str) -> Result<(), Error> {
    std::io::stdout().write_all(text.as_bytes()).map_err(|error| Error(format!("standard output: {error}")))
}

/// Where the program is, for who waits at a terminal. An empty text takes the line away.
pub(crate) fn show_progress(text: &str) {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K{text}");
    }
}

fn measure_all(mut options: Options) -> Result<(), Error> {
    let cases = cases::built_in()?;
    let mut peers = Peers::new(&options.peers)?;
    let workspace = Workspace::new(&options.directory)?;
    let mut results = Vec::new();
    for suite in options.suites.clone() {
        let swap = match suite {
            Suite::Pressure => Some(pressure::Swap::make(options.swap, workspace.disk())?),
            Suite::Residency if !residency::is_told(workspace.disk()) => {
                return Err(Error("the kernel does not tell what is in its page cache".into()));
            }
            _ => None,
        };
        options.swap_made = swap.as_ref().map(|swap| swap.note.clone());
        results.push(measure_suite(suite, &cases, &mut peers, &workspace, &options)?);
    }
    let machine = record::machine(&options, &peers);
    if let Some(path) = &options.json {
        let all = serde_json::json!({ "machine": machine, "suites": results });
        let text = serde_json::to_string_pretty(&all).map_err(|error| Error(error.to_string()))?;
        std::fs::write(path, text + "\n").map_err(|error| Error(format!("{}: {error}", path.display())))?;
    }
    if options.record {
        say(&format!("kept in {}\n", record::keep(&machine, &results)?.display()))?;
    }
    Ok(())
}

/// Runs and prints the cases of a suite one by one, so that a long run tells what it has so far.
fn measure_suite(
    suite: Suite,
    cases: &Cases,
    peers: &mut Peers,
    workspace: &Workspace,
    options: &Options,
) -> Result<serde_json::Value, Error> {
    let mut raced = Vec::new();
    for case in cases.case.iter().filter(|case| case.suite == suite && options.wants(&case.name)) {
        let done = run::race(case, peers, workspace, options)?;
        say(&(report::text(&done) + "\n"))?;
        raced.push(done);
    }
    let mut told = Vec::new();
    for example in cases.example.iter().filter(|example| example.suite == suite && options.wants(&example.name)) {
        let done = examples::run(example, options);
        say(&(examples::text(&done) + "\n"))?;
        told.push(done);
    }
    if raced.is_empty() && told.is_empty() {
        return Err(Error(format!("no case of {} is called that", suite.name())));
    }
    if let Some(directory) = &options.plot {
        for file in plot::suite(directory, suite, &raced)?.into_iter().chain(plot::examples(directory, &told)?) {
            say(&format!("drawn: {}\n", file.display()))?;
        }
    }
    Ok(record::suite(suite, options, &raced, &told))
}
