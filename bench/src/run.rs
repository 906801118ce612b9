//! Runs the commands of a case: in rounds, each round in another order, so that what disturbs the machine for a while
//! disturbs all alike.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::cases::{Case, Check, Line, Suite, ours};
use crate::command::{Pipeline, names_in};
use crate::files::{self, Workspace};
use crate::measure::{self, Sample};
use crate::peers::Peers;
use crate::shuffle::Random;
use crate::stats::Summary;
use crate::{Error, Options, pressure, residency, show_progress};

/// A command in the race, and what it did.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Entrant {
    pub(crate) label: String,
    /// The first of ours, run a second time under another label: the two differ by noise alone.
    pub(crate) again: bool,
    /// Whether this is fdd.
    pub(crate) ours: bool,
    pub(crate) shown: String,
    pub(crate) samples: Vec<Sample>,
    /// Why there are no samples.
    pub(crate) failure: Option<String>,
    #[serde(skip)]
    command: Pipeline,
}

impl Entrant {
    pub(crate) fn seconds(&self) -> Option<Summary> {
        Summary::of(self.samples.iter().map(|sample| sample.seconds))
    }

    #[cfg(test)]
    pub(crate) fn for_test(label: &str, ours: bool, again: bool, samples: Vec<Sample>) -> Entrant {
        let (label, shown) = (label.to_owned(), String::new());
        Entrant { label, again, ours, shown, samples, failure: None, command: Pipeline::default() }
    }

    /// A figure of each run that the suite counts besides time.
    pub(crate) fn figure(&self, name: &str) -> Option<Summary> {
        Summary::of(self.samples.iter().filter_map(|sample| sample.figures.get(name).copied()))
    }
}

/// A case after its runs.
#[derive(Debug)]
pub(crate) struct Raced {
    pub(crate) case: Case,
    /// Bytes that each run moves.
    pub(crate) size: u64,
    pub(crate) entrants: Vec<Entrant>,
    /// Tools that are not installed.
    pub(crate) missing: Vec<String>,
    /// Series over time of the last run of each entrant: seconds, and MiB in the page cache.
    pub(crate) courses: BTreeMap<String, Vec<(f64, f64)>>,
}

/// What a run needs to know of where it happens.
pub(crate) struct Site<'a> {
    pub(crate) input: Option<&'a Path>,
    pub(crate) output: &'a Path,
    pub(crate) size: u64,
}

pub(crate) fn race(case: &Case, peers: &mut Peers, workspace: &Workspace, options: &Options) -> Result<Raced, Error> {
    let blocks = case.blocks(options.quick);
    let size = case.bs * blocks;
    let trouble = |error: std::io::Error| Error(format!("{}: {error}", case.name));
    let output = workspace.output(case.place).map_err(trouble)?;
    let input = case.input.map(|input| workspace.input(case.place, input, size)).transpose().map_err(trouble)?;
    let names = names(case, blocks, size, input.as_deref(), &output);
    let (mut entrants, missing) = line_up(&case.command, &names, peers)?;
    entrants.retain(|entrant| !options.leaves_out(&entrant.label));
    let mut raced = Raced { case: case.clone(), size, entrants, missing, courses: BTreeMap::new() };
    let site = Site { input: input.as_deref(), output: &output, size };
    let mut random = Random::from_seed(options.seed);
    // Round zero is not counted: it loads programs, and its output is looked at more closely.
    for round in 0..=options.runs() {
        for place in random.order(raced.entrants.len()) {
            let entrant = &mut raced.entrants[place];
            if entrant.failure.is_some() {
                continue;
            }
            show_progress(&format!("{}: round {round} of {}: {}", case.name, options.runs(), entrant.label));
            let course = raced.courses.entry(entrant.label.clone()).or_default();
            files::prepare(&case.prep, site.input, site.output, size).map_err(trouble)?;
            match once(case, entrant, &site, course, options) {
                Ok(sample) if round > 0 => entrant.samples.push(sample),
                Ok(_) => {}
                Err(failure) => entrant.failure = Some(failure),
            }
            if entrant.failure.is_none() {
                let told = files::check(case.check, round == 0, site.input, site.output, size).map_err(trouble)?;
                entrant.failure = told.err();
            }
            if entrant.failure.is_some() {
                // What did other work, or none, has no time.
                entrant.samples.clear();
            }
            if case.check != Check::Nothing {
                files::settle(&case.prep, site.output).map_err(trouble)?;
            }
        }
    }
    show_progress("");
    Ok(raced)
}

fn once(
    case: &Case,
    entrant: &Entrant,
    site: &Site<'_>,
    course: &mut Vec<(f64, f64)>,
    options: &Options,
) -> Result<Sample, String> {
    match case.suite {
        Suite::Seeds | Suite::Copy => measure::run(&entrant.command, None),
        Suite::Pressure => pressure::run(&entrant.command, site, case.bystander, options.swap_note()),
        Suite::Residency => residency::run(&entrant.command, site, course),
    }
}

fn names(case: &Case, blocks: u64, size: u64, input: Option<&Path>, output: &Path) -> BTreeMap<String, String> {
    let mut names = BTreeMap::from([
        ("bs".to_owned(), case.bs.to_string()),
        ("count".to_owned(), blocks.to_string()),
        ("size".to_owned(), size.to_string()),
        ("out".to_owned(), output.display().to_string()),
    ]);
    names.extend(input.map(|input| ("in".to_owned(), input.display().to_string())));
    names
}

/// The entrants of all lines, and the tools that are missing.
fn line_up(
    lines: &[Line],
    names: &BTreeMap<String, String>,
    peers: &mut Peers,
) -> Result<(Vec<Entrant>, Vec<String>), Error> {
    let mut entrants: Vec<Entrant> = Vec::new();
    let mut missing: Vec<String> = Vec::new();
    for (line, who) in lines.iter().flat_map(|line| line.who.iter().map(move |who| (line, who))) {
        let Some(tool) = peers.find(who).map(path_text) else {
            if *who == ours() {
                return Err(Error(
                    "there is no fdd: build it with `cargo build --release`, or give --peer fdd=PATH".into(),
                ));
            }
            if !missing.contains(who) {
                missing.push(who.clone());
            }
            continue;
        };
        let mut names = names.clone();
        names.insert("tool".to_owned(), tool);
        for name in names_in(&line.line).filter(|name| *name == "bench") {
            let inside = peers.find(name).map(path_text).unwrap_or_default();
            names.insert(name.to_owned(), inside);
        }
        let command = Pipeline::parse(&line.line, &names)?;
        let shown = command.shown();
        let ours = *who == ours();
        let label = line.label(who);
        entrants.push(Entrant { label, again: false, ours, shown, samples: Vec::new(), failure: None, command });
    }
    if let Some(first) = entrants.iter().position(|entrant| entrant.ours) {
        let mut again = entrants[first].clone();
        again.label.push_str(" (again)");
        again.again = true;
        entrants.insert(first + 1, again);
    }
    Ok((entrants, missing))
}

fn path_text(path: &Path) -> String {
    PathBuf::from(path).display().to_string()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // A test may end in a panic.
mod tests {
    use super::*;

    const LINES: &str = r#"
        [[case]]
        suite = "copy"
        name = "x"
        shows = "?"
        bs = 512
        count = 3
        command = [
            { who = ["cat", "fdd", "not-installed-anywhere"], line = "{tool} of={out} bs={bs} count={count} n={size}" },
            { who = ["fdd"], as = "piped", line = "{tool} | {bench} drain" },
        ]
    "#;

    fn lined_up() -> (Vec<Entrant>, Vec<String>) {
        let case = crate::cases::parse(LINES).unwrap().case.remove(0);
        let mut peers = Peers::new(&[("fdd".to_owned(), "/bin/cat".into())]).unwrap();
        let names = names(&case, case.blocks(false), 1536, None, Path::new("/tmp/out"));
        line_up(&case.command, &names, &mut peers).unwrap()
    }

    #[test]
    fn ours_runs_a_second_time_to_show_the_noise() {
        let labels: Vec<_> =
            lined_up().0.into_iter().map(|entrant| (entrant.label, entrant.ours, entrant.again)).collect();
        let expected =
            [("cat", false, false), ("fdd", true, false), ("fdd (again)", true, true), ("fdd piped", true, false)];
        assert_eq!(labels, expected.map(|(label, ours, again)| (label.to_owned(), ours, again)));
    }

    #[test]
    fn names_stand_for_what_the_case_says() {
        assert_eq!(lined_up().0[1].shown, "/bin/cat of=/tmp/out bs=512 count=3 n=1536");
    }

    #[test]
    fn a_missing_tool_is_told_and_the_others_run() {
        assert_eq!(lined_up().1, ["not-installed-anywhere"]);
    }

    #[test]
    fn without_ours_there_is_nothing_to_measure() {
        let case =
            crate::cases::parse(&LINES.replace("\"fdd\"", "\"not-ours\"").replace("\"cat\"", "\"fdd\"")).unwrap();
        // The test program has no fdd beside it, and none is given.
        let mut peers = Peers::new(&[]).unwrap();
        if peers.find("fdd").is_none() {
            let names = names(&case.case[0], 1, 512, None, Path::new("/tmp/out"));
            assert!(line_up(&case.case[0].command, &names, &mut peers).is_err());
        }
    }
}
