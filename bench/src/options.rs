//! The command line.

use std::path::PathBuf;

use crate::Error;
use crate::cases::Suite;
use crate::inside;
use crate::pressure::SwapKind;

pub(crate) const HELP: &str = "\
fdd-bench SUITE... [OPTION...]

Suites: seeds, copy, pressure, residency, all

  --case TEXT        only cases whose name contains TEXT; may be given several times
  --without TEXT     no commands whose label contains TEXT; may be given several times
  --runs N           runs of each command that count (default 7, quick 3)
  --quick            smaller sizes, fewer runs
  --seed N           of the order of the commands (default 1)
  --peer NAME=PATH   a program to compare with, or fdd itself
  --dir DIR          where files are made (default $TMPDIR or /tmp)
  --swap KIND        zram or file, for `pressure` (default: what can be made)
  --json FILE        all results as JSON
  --plot DIR         results as SVG
  --record           keep the results under bench/record by machine and date
";

/// What the command line asks for.
#[derive(Debug)]
pub(crate) enum Asked {
    Help,
    /// One of the programs inside, for a command of a case.
    Inside {
        name: String,
        arguments: Vec<String>,
    },
    Suites(Options),
}

#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) suites: Vec<Suite>,
    cases: Vec<String>,
    without: Vec<String>,
    runs: Option<usize>,
    pub(crate) quick: bool,
    pub(crate) seed: u64,
    pub(crate) peers: Vec<(String, PathBuf)>,
    pub(crate) directory: PathBuf,
    pub(crate) swap: SwapKind,
    /// What was made of it, once it was.
    pub(crate) swap_made: Option<String>,
    pub(crate) json: Option<PathBuf>,
    pub(crate) plot: Option<PathBuf>,
    pub(crate) record: bool,
}

impl Options {
    pub(crate) fn runs(&self) -> usize {
        self.runs.unwrap_or(if self.quick { 3 } else { 7 })
    }

    pub(crate) fn wants(&self, case: &str) -> bool {
        self.cases.is_empty() || self.cases.iter().any(|text| case.contains(text.as_str()))
    }

    pub(crate) fn leaves_out(&self, label: &str) -> bool {
        self.without.iter().any(|text| label.contains(text.as_str()))
    }

    pub(crate) fn swap_note(&self) -> &str {
        self.swap_made.as_deref().unwrap_or("none")
    }
}

pub(crate) fn parse(words: &[String]) -> Result<Asked, Error> {
    if let Some((name, arguments)) = words.split_first() {
        // Cases write `{bench} NAME`; the flag is for the bystander, which nobody types.
        let (name, arguments) =
            if name == "--inside" { arguments.split_first().unwrap_or((name, &[])) } else { (name, arguments) };
        if inside::NAMES.contains(&name.as_str()) {
            return Ok(Asked::Inside { name: name.clone(), arguments: arguments.to_vec() });
        }
    }
    let mut options = Options {
        suites: Vec::new(),
        cases: Vec::new(),
        without: Vec::new(),
        runs: None,
        quick: false,
        seed: 1,
        peers: Vec::new(),
        directory: std::env::temp_dir(),
        swap: SwapKind::default(),
        swap_made: None,
        json: None,
        plot: None,
        record: false,
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| Error(format!("{word} needs a value")));
        match word.as_str() {
            "-h" | "--help" => return Ok(Asked::Help),
            "--case" => options.cases.push(value()?.clone()),
            "--without" => options.without.push(value()?.clone()),
            "--runs" => options.runs = Some(at_least_one(value()?)?),
            "--quick" => options.quick = true,
            "--seed" => options.seed = number(value()?)?,
            "--peer" => options.peers.push(peer(value()?)?),
            "--dir" => options.directory = value()?.into(),
            "--swap" => options.swap = swap(value()?)?,
            "--json" => options.json = Some(value()?.into()),
            "--plot" => options.plot = Some(value()?.into()),
            "--record" => options.record = true,
            "all" => options.suites.extend(Suite::ALL),
            word => options.suites.push(suite(word)?),
        }
    }
    if options.suites.is_empty() {
        return Err(Error(format!("which suite?\n\n{HELP}")));
    }
    Ok(Asked::Suites(options))
}

fn suite(word: &str) -> Result<Suite, Error> {
    let found = Suite::ALL.into_iter().find(|suite| suite.name() == word);
    found.ok_or_else(|| Error(format!("`{word}` is neither a suite nor an option\n\n{HELP}")))
}

fn number<T: std::str::FromStr>(word: &str) -> Result<T, Error> {
    word.parse().map_err(|_| Error(format!("`{word}` is no number")))
}

fn at_least_one(word: &str) -> Result<usize, Error> {
    match number(word)? {
        0 => Err(Error("no runs, no result".into())),
        runs => Ok(runs),
    }
}

fn peer(word: &str) -> Result<(String, PathBuf), Error> {
    let (name, path) = word.split_once('=').ok_or_else(|| Error(format!("--peer {word}: NAME=PATH is meant")))?;
    Ok((name.to_owned(), path.into()))
}

fn swap(word: &str) -> Result<SwapKind, Error> {
    match word {
        "zram" => Ok(SwapKind::Zram),
        "file" => Ok(SwapKind::File),
        _ => Err(Error(format!("--swap {word}: zram or file is meant"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Asked, Error> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    fn options(line: &str) -> Options {
        match parsed(line) {
            Ok(Asked::Suites(options)) => options,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn suites_and_options_come_in_any_order() {
        let told = options(
            "--quick copy --runs 5 --peer fdd=/usr/bin/dd seeds --case null --case pipe --seed 9 --without sync",
        );
        assert_eq!(told.suites, [Suite::Copy, Suite::Seeds]);
        assert_eq!((told.runs(), told.quick, told.seed), (5, true, 9));
        assert_eq!(told.peers, [("fdd".to_owned(), "/usr/bin/dd".into())]);
        assert!(told.wants("zero -> null") && told.wants("file -> pipe") && !told.wants("sha256"));
        assert!(told.leaves_out("gnu sync,nocache") && !told.leaves_out("gnu nocache"));
        assert_eq!(options("all").suites, Suite::ALL);
    }

    #[test]
    fn fewer_runs_are_enough_when_quick() {
        assert_eq!((options("copy").runs(), options("copy --quick").runs()), (7, 3));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for line in
            ["", "copies", "copy --runs", "copy --runs x", "copy --runs 0", "copy --peer gnu", "copy --swap disk"]
        {
            assert!(parsed(line).is_err(), "{line}");
        }
    }

    #[test]
    fn the_programs_inside_are_no_suites() {
        assert!(
            matches!(parsed("feed 100"), Ok(Asked::Inside { name, arguments }) if name == "feed" && arguments == ["100"])
        );
        assert!(matches!(parsed("--inside bystander 5"), Ok(Asked::Inside { name, .. }) if name == "bystander"));
    }
}
