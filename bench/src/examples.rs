//! Programs of fdd-io's examples that measure on their own: run, and their lines of JSON gathered by what they name.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use serde::Serialize;
use serde_json::Value;

use crate::cases::Example;
use crate::curve::Curve;
use crate::stats::Summary;
use crate::table::{number, render};
use crate::{Options, show_progress};

/// An example after its runs.
#[derive(Debug, Serialize)]
pub(crate) struct Told {
    pub(crate) name: String,
    pub(crate) shows: String,
    pub(crate) command: String,
    /// The lines, as they were printed.
    pub(crate) lines: Vec<Value>,
    /// Why there are none.
    pub(crate) failure: Option<String>,
    #[serde(skip)]
    pub(crate) curve: Option<Curve>,
}

/// Builds and runs an example. Whatever goes wrong is told in its place in the report.
pub(crate) fn run(example: &Example, options: &Options) -> Told {
    let arguments = if options.quick { &example.quick } else { &example.args };
    let mut words = vec!["run", "--quiet", "--release", "--package", "fdd-io", "--example", &example.program, "--"];
    let (runs, directory) = (options.runs().to_string(), options.directory.display().to_string());
    let arguments: Vec<String> =
        arguments.iter().map(|word| word.replace("{runs}", &runs).replace("{dir}", &directory)).collect();
    words.extend(arguments.iter().map(String::as_str));
    let mut told = Told {
        name: example.name.clone(),
        shows: example.shows.clone(),
        command: format!("cargo {}", words.join(" ")),
        lines: Vec::new(),
        failure: None,
        curve: example.curve.clone(),
    };
    show_progress(&example.name);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo).args(&words).stdin(Stdio::null()).output();
    show_progress("");
    match output {
        Err(error) => told.failure = Some(format!("cargo: {error}")),
        Ok(output) => {
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                let first = said.lines().find(|line| line.contains("error")).unwrap_or_default();
                told.failure = Some(format!("{}: {first}", output.status));
            }
            told.lines = lines(&String::from_utf8_lossy(&output.stdout));
        }
    }
    told
}

fn lines(printed: &str) -> Vec<Value> {
    printed.lines().filter_map(|line| serde_json::from_str(line).ok()).filter(Value::is_object).collect()
}

/// The median and the least of each number, over the lines that name the same things.
///
/// What a line names is its words, and its numbers that tell sizes and not results: all but those in `RESULTS`.
pub(crate) fn text(told: &Told) -> String {
    let mut text = format!("== {} ==\n{}\n\n", told.name, told.shows);
    if let Some(curve) = &told.curve {
        text.push_str(&curve.text(&told.lines));
        return text + &failed(told);
    }
    let mut groups: Vec<(String, BTreeMap<String, Vec<f64>>)> = Vec::new();
    for line in told.lines.iter().filter_map(Value::as_object) {
        let name =
            line.iter().filter(|(key, _)| !is_result(key) && *key != "round" && *key != "run" && *key != "bench");
        let name = name.map(|(key, value)| value.as_str().map_or_else(|| format!("{key}={value}"), str::to_owned));
        let name = name.collect::<Vec<_>>().join(" ");
        let place = groups.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
            groups.push((name, BTreeMap::new()));
            groups.len() - 1
        });
        for (key, value) in line.iter().filter(|(key, _)| is_result(key)) {
            if let Some(value) = value.as_f64() {
                groups[place].1.entry(key.clone()).or_default().push(value);
            }
        }
    }
    let mut results: Vec<&str> = groups.iter().flat_map(|(_, results)| results.keys().map(String::as_str)).collect();
    results.sort_unstable();
    results.dedup();
    let heads: Vec<String> = results.iter().flat_map(|result| [result.to_string(), "min".to_owned()]).collect();
    let mut head = vec!["case", "runs"];
    head.extend(heads.iter().map(String::as_str));
    let rows: Vec<Vec<String>> = groups.iter().map(|(name, values)| row(name, values, &results)).collect();
    text.push_str(&render(&head, &rows));
    text + &failed(told)
}

fn failed(told: &Told) -> String {
    told.failure.as_ref().map_or(String::new(), |failure| format!("failed: {failure}\n"))
}

fn row(name: &str, values: &BTreeMap<String, Vec<f64>>, results: &[&str]) -> Vec<String> {
    let runs = values.values().map(Vec::len).max().unwrap_or(0);
    let mut row = vec![name.to_owned(), runs.to_string()];
    for result in results {
        let told = values.get(*result).and_then(|values| Summary::of(values.iter().copied()));
        row.push(told.map_or(String::new(), |told| number(told.median)));
        row.push(told.map_or(String::new(), |told| number(told.min)));
    }
    row
}

/// What examples measure; everything else that they print says what was run.
const RESULTS: &[&str] = &[
    "seconds",
    "calls",
    "rings",
    "switches",
    "context_switches",
    "cpu_seconds",
    "mb_per_s",
    "mib_per_s",
    "gb_per_s",
    "tokens_per_s",
    "writes",
    "write_calls",
    "wakeups",
    "migrations",
    // The pipe's.
    "ns_per_token",
    "cpu_s",
    "ctx_switches",
    "passed_to_other",
    "share_min",
    "share_max",
];

fn is_result(key: &str) -> bool {
    RESULTS.contains(&key) || key.ends_with("_per_s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_name_the_same_are_one_row() {
        let printed = "\
hello
{\"bench\":\"b\",\"case\":\"x\",\"round\":0,\"size\":5,\"seconds\":2.0}
{\"bench\":\"b\",\"case\":\"y\",\"round\":0,\"size\":5,\"seconds\":9.0}
{\"bench\":\"b\",\"case\":\"x\",\"round\":1,\"size\":5,\"seconds\":1.0}
";
        let told = Told {
            name: "n".into(),
            shows: "s".into(),
            command: String::new(),
            lines: lines(printed),
            failure: None,
            curve: None,
        };
        assert_eq!(
            text(&told),
            "== n ==\ns\n\ncase      runs  seconds   min\n--------  ----  -------  ----\nx size=5     2     1.50  1.00\ny size=5     1     9.00  9.00\n"
        );
    }

    #[test]
    fn a_failure_is_told() {
        let failure = Some("no such example".to_owned());
        let told = Told {
            name: "n".into(),
            shows: "s".into(),
            command: String::new(),
            lines: Vec::new(),
            failure,
            curve: None,
        };
        assert!(text(&told).ends_with("failed: no such example\n"));
    }
}
