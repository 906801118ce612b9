//! The cases: what is run against what, and what is to be reached. Read from `cases.toml`, which is compiled in.

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::curve::Curve;

const CASES: &str = include_str!("../cases.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cases {
    #[serde(default)]
    pub(crate) case: Vec<Case>,
    #[serde(default)]
    pub(crate) example: Vec<Example>,
}

/// Commands that do the same work.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    pub(crate) suite: Suite,
    pub(crate) name: String,
    /// The question that it answers.
    pub(crate) shows: String,
    /// Bytes of a block; `{bs}`.
    pub(crate) bs: u64,
    /// Blocks; `{count}`. `{size}` is the product.
    pub(crate) count: u64,
    /// Blocks under `--quick`; a quarter of `count` unless told.
    quick: Option<u64>,
    /// What `{in}` holds, where there is one.
    #[serde(rename = "in")]
    pub(crate) input: Option<Input>,
    /// Where `{in}` and `{out}` lie.
    #[serde(default)]
    pub(crate) place: Place,
    /// What is done before each run, untimed.
    #[serde(default)]
    pub(crate) prep: Vec<Prep>,
    /// What `{out}` must be afterwards.
    #[serde(default)]
    pub(crate) check: Check,
    /// The bystander's memory in MiB, for the suite `pressure`.
    #[serde(default = "default_bystander")]
    pub(crate) bystander: u64,
    pub(crate) command: Vec<Line>,
    #[serde(default)]
    pub(crate) reach: Vec<Reach>,
}

fn default_bystander() -> u64 {
    256
}

impl Case {
    pub(crate) fn blocks(&self, quick: bool) -> u64 {
        if quick { self.quick.unwrap_or(self.count / 4).max(1) } else { self.count }
    }
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Suite {
    Seeds,
    Copy,
    Pressure,
    Residency,
}

impl Suite {
    pub(crate) const ALL: [Suite; 4] = [Suite::Seeds, Suite::Copy, Suite::Pressure, Suite::Residency];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Suite::Seeds => "seeds",
            Suite::Copy => "copy",
            Suite::Pressure => "pressure",
            Suite::Residency => "residency",
        }
    }
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Input {
    /// Bytes without zeros or repetition.
    Data,
    /// Lines of words, for conversions.
    Text,
    /// Records of 80 bytes with blanks at their ends, no newlines.
    Records,
    /// A hole, and 64 MiB of data after it.
    Hole,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Place {
    #[default]
    Disk,
    /// /dev/shm, a tmpfs.
    Memory,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Prep {
    /// `{in}` is in the page cache.
    Warm,
    /// `{in}` is not.
    Cold,
    /// A part of `{in}` is in the page cache: the second of each eight MiB.
    Partly,
    /// `{out}` does not exist.
    Fresh,
    /// `{out}` exists, has the size of the input, is clean and in the page cache.
    Overwrite,
    /// The same, and not in the page cache.
    OverwriteCold,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Check {
    #[default]
    Nothing,
    /// Has `{size}` bytes, after each run.
    Size,
    /// Equals `{in}`, byte by byte, after the first run, and has its size after each.
    Same,
}

/// One command line for one or more tools.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Line {
    /// Tools; each is `{tool}` in turn.
    pub(crate) who: Vec<String>,
    /// What to put behind the tool's name, where a tool occurs twice.
    #[serde(rename = "as")]
    variant: Option<String>,
    pub(crate) line: String,
}

impl Line {
    pub(crate) fn label(&self, who: &str) -> String {
        match &self.variant {
            None => who.to_owned(),
            Some(variant) => format!("{who} {variant}"),
        }
    }
}

/// What fdd is to reach.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub(crate) enum Reach {
    /// So many times as fast as another command of the case, or as the best of them.
    Ratio {
        /// A label, or `best`.
        than: String,
        ratio: f64,
        /// Of which of the runs.
        #[serde(default)]
        on: On,
        /// The label of ours that is meant.
        #[serde(default = "ours")]
        who: String,
    },
    /// A figure of the case, in the worst run, is at most this.
    Most {
        figure: String,
        most: f64,
        #[serde(default = "ours")]
        who: String,
    },
}

/// The tool that is measured.
pub(crate) fn ours() -> String {
    "fdd".to_owned()
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum On {
    #[default]
    Median,
    Min,
}

/// A program of fdd-io's examples that measures on its own and prints a line of JSON for each run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Example {
    pub(crate) suite: Suite,
    pub(crate) name: String,
    pub(crate) shows: String,
    /// The file in `examples/`.
    pub(crate) program: String,
    #[serde(default)]
    pub(crate) args: Vec<String>,
    /// Arguments under `--quick`.
    #[serde(default)]
    pub(crate) quick: Vec<String>,
    /// How its lines are shown; otherwise there is a row for each case.
    pub(crate) curve: Option<Curve>,
}

/// The cases that the program was built with.
pub(crate) fn built_in() -> Result<Cases, Error> {
    parse(CASES)
}

pub(crate) fn parse(text: &str) -> Result<Cases, Error> {
    let cases: Cases = toml::from_str(text).map_err(|error| Error(format!("cases.toml: {error}")))?;
    for case in &cases.case {
        let labels: Vec<String> =
            case.command.iter().flat_map(|line| line.who.iter().map(|who| line.label(who))).collect();
        let mut named = case.reach.iter().flat_map(|reach| match reach {
            Reach::Ratio { than, who, .. } => vec![than, who],
            Reach::Most { who, .. } => vec![who],
        });
        if let Some(unknown) = named.find(|name| *name != "best" && !labels.contains(name)) {
            return Err(Error(format!(
                "cases.toml: case {} is to be compared with {unknown}, which it does not run",
                case.name
            )));
        }
        if let Some(twice) = labels.iter().enumerate().find(|(place, label)| labels[..*place].contains(label)) {
            return Err(Error(format!("cases.toml: case {} has two commands called {}", case.name, twice.1)));
        }
    }
    Ok(cases)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = r#"
        [[case]]
        suite = "copy"
        name = "x"
        shows = "?"
        bs = 512
        count = 1000
        command = [
            { who = ["fdd", "gnu"], line = "{tool} bs={bs}" },
            { who = ["gnu"], as = "64K", line = "{tool} bs=64K" },
        ]
    "#;

    fn with(line: &str) -> Result<Cases, Error> {
        parse(&format!("{ONE}\n{line}"))
    }

    #[test]
    fn the_built_in_cases_can_be_read() {
        let cases = built_in().expect("cases");
        for suite in Suite::ALL {
            assert!(cases.case.iter().any(|case| case.suite == suite), "{suite:?} is empty");
        }
        for case in &cases.case {
            assert!(case.command.iter().any(|line| line.who.contains(&ours())), "{} does not run fdd", case.name);
        }
    }

    #[test]
    fn a_tool_and_its_variant_are_the_label() {
        let cases = with("").expect("cases");
        let labels: Vec<_> =
            cases.case[0].command.iter().flat_map(|line| line.who.iter().map(|who| line.label(who))).collect();
        assert_eq!(labels, ["fdd", "gnu", "gnu 64K"]);
    }

    #[test]
    fn quick_runs_have_fewer_blocks_and_at_least_one() {
        let mut case = with("").expect("cases").case.remove(0);
        assert_eq!((case.blocks(false), case.blocks(true)), (1000, 250));
        case.quick = Some(7);
        assert_eq!(case.blocks(true), 7);
        (case.quick, case.count) = (None, 3);
        assert_eq!(case.blocks(true), 1);
    }

    #[test]
    fn what_is_to_be_reached_is_a_ratio_or_a_bound() {
        let cases = with(
            "reach = [{ than = \"best\", ratio = 2.0 }, { than = \"gnu 64K\", ratio = 1.2, on = \"min\" }, { figure = \"faults\", most = 0 }]",
        );
        let reach = cases.expect("cases").case.remove(0).reach;
        assert!(
            matches!(&reach[0], Reach::Ratio { than, ratio: 2.0, on: On::Median, who } if than == "best" && who == "fdd")
        );
        assert!(matches!(&reach[1], Reach::Ratio { on: On::Min, .. }));
        assert!(matches!(&reach[2], Reach::Most { figure, most: 0.0, .. } if figure == "faults"));
    }

    #[test]
    fn a_comparison_with_nobody_is_refused() {
        assert!(with("reach = [{ than = \"gnu 32K\", ratio = 2.0 }]").is_err());
    }

    #[test]
    fn two_commands_of_one_name_are_refused() {
        let twice = ONE.replace("as = \"64K\", ", "");
        assert!(parse(&twice).is_err());
    }

    #[test]
    fn an_unknown_word_is_refused() {
        assert!(with("siz = 3").is_err());
        assert!(with("prep = [\"hot\"]").is_err());
        assert!(with("reach = [{ than = \"gnu\", ration = 2.0 }]").is_err());
    }
}
