//! Results as JSON, and where they are kept: `record/<machine>/<date>.json`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::cases::{On, Suite};
use crate::examples::Told;
use crate::peers::Peers;
use crate::run::{Entrant, Raced};
use crate::{Error, Options, pressure, report};

/// All that must be known to compare two results.
pub(crate) fn machine(options: &Options, peers: &Peers) -> Value {
    let proc_value = |file: &str, key: &str| {
        let text = fs::read_to_string(file).unwrap_or_default();
        let found = text.lines().find_map(|line| line.strip_prefix(key)?.split_once(':'));
        found.map_or(String::new(), |(_, value)| value.trim().to_owned())
    };
    let first_word = |file: &str| fs::read_to_string(file).unwrap_or_default().trim().to_owned();
    json!({
        "processor": proc_value("/proc/cpuinfo", "model name"),
        "processors": std::thread::available_parallelism().map_or(0, usize::from),
        "memory": proc_value("/proc/meminfo", "MemTotal"),
        "kernel": first_word("/proc/sys/kernel/osrelease"),
        "governor": first_word("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "mitigations": first_word("/sys/devices/system/cpu/vulnerabilities/spectre_v2"),
        "file_system": file_system(&options.directory),
        "memory_cgroup": pressure::cgroup_note(),
        "load_at_start": first_word("/proc/loadavg"),
        "commit": output_of("git", &["rev-parse", "--short", "HEAD"]),
        "peers": peers.versions(),
    })
}

fn file_system(directory: &Path) -> String {
    let path = directory.display().to_string();
    let told = output_of("df", &["--output=source,fstype", &path]);
    told.lines().last().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn output_of(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map_or(String::new(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

pub(crate) fn suite(suite: Suite, options: &Options, raced: &[Raced], told: &[Told]) -> Value {
    json!({
        "suite": suite,
        "runs": options.runs(),
        "seed": options.seed,
        "quick": options.quick,
        "swap": options.swap_note(),
        "cases": raced.iter().map(case).collect::<Vec<_>>(),
        "examples": told,
    })
}

fn case(raced: &Raced) -> Value {
    json!({
        "name": raced.case.name,
        "shows": raced.case.shows,
        "bytes": raced.size,
        "commands": raced.entrants.iter().map(entrant).collect::<Vec<_>>(),
        "missing": raced.missing,
        "noise": {
            "median": report::noise_of(raced, On::Median),
            "min": report::noise_of(raced, On::Min),
        },
        "verdicts": report::verdicts(raced),
    })
}

fn entrant(entrant: &Entrant) -> Value {
    let mut value = json!({ "seconds": entrant.seconds() });
    let told = json!(entrant);
    if let (Some(value), Some(told)) = (value.as_object_mut(), told.as_object()) {
        value.extend(told.clone());
    }
    value
}

/// Writes the suites into the day's file of this machine, beside what other suites put there. Tells where.
pub(crate) fn keep(machine_value: &Value, suites: &[Value]) -> Result<PathBuf, Error> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("record");
    keep_under(&root, &today(), machine_value, suites)
}

fn keep_under(root: &Path, date: &str, machine_value: &Value, suites: &[Value]) -> Result<PathBuf, Error> {
    let directory = root.join(slug(machine_value));
    let path = directory.join(format!("{date}.json"));
    let trouble = |error: &dyn std::fmt::Display| Error(format!("{}: {error}", path.display()));
    let mut kept: BTreeMap<String, Value> = match fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| trouble(&error))?,
        Err(_) => BTreeMap::new(),
    };
    for suite in suites {
        let name = suite["suite"].as_str().unwrap_or_default().to_owned();
        kept.insert(name, json!({ "machine": machine_value, "result": suite }));
    }
    fs::create_dir_all(&directory).map_err(|error| trouble(&error))?;
    let text = serde_json::to_string_pretty(&kept).map_err(|error| trouble(&error))?;
    fs::write(&path, text + "\n").map_err(|error| trouble(&error))?;
    Ok(path)
}

/// A directory's name for the kind of machine: what its processors are and how many. Its own name is nobody's business.
fn slug(machine: &Value) -> String {
    let words = format!("{} {}p", machine["processor"].as_str().unwrap_or("unknown"), machine["processors"]);
    let letters: String = words
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' })
        .collect();
    letters.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}

/// The day, in UTC.
fn today() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    date(since.as_secs() / 86_400)
}

/// The date so many days after 1970-01-01.
fn date(days: u64) -> String {
    // Years from March on, so that the leap day is the last: 400 of them have 146,097 days.
    let days = days + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{day:02}", era * 400 + year + next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (days, told) in [
            (0, "1970-01-01"),
            (59, "1970-03-01"),
            (789, "1972-02-29"),
            (10_956, "1999-12-31"),
            (11_016, "2000-02-29"),
            (20_667, "2026-08-02"),
            (47_540, "2100-02-28"),
            (47_541, "2100-03-01"),
        ] {
            assert_eq!(date(days), told);
        }
    }

    #[test]
    fn a_machine_is_named_by_its_processors() {
        assert_eq!(slug(&json!({ "processor": "AMD EPYC (x) 7", "processors": 2 })), "amd-epyc-x-7-2p");
    }

    #[test]
    fn suites_of_a_day_are_kept_side_by_side_and_the_last_counts() {
        let directory = tempfile::tempdir().expect("a directory");
        let machine = json!({ "processor": "p", "processors": 1 });
        let keep = |suite: Value| keep_under(directory.path(), "2026-01-02", &machine, &[suite]).expect("kept");
        keep(json!({ "suite": "copy", "runs": 1 }));
        keep(json!({ "suite": "seeds", "runs": 2 }));
        let path = keep(json!({ "suite": "copy", "runs": 3 }));
        assert!(path.ends_with("p-1p/2026-01-02.json"));
        let kept: Value = serde_json::from_slice(&fs::read(path).expect("a file")).expect("JSON");
        assert_eq!((&kept["copy"]["result"]["runs"], &kept["seeds"]["result"]["runs"]), (&json!(3), &json!(2)));
    }

    #[test]
    fn a_case_is_told_with_every_sample() {
        let raced = report::tests::raced("{ than = 'gnu', ratio = 2 }", &[("fdd", &[1.0, 2.0]), ("gnu", &[4.0])]);
        let told = case(&raced);
        assert_eq!(told["commands"][0]["samples"].as_array().map(Vec::len), Some(2));
        assert_eq!(told["commands"][1]["seconds"]["median"], json!(4.0));
        assert_eq!(told["verdicts"][0]["outcome"], json!("Reached"));
    }
}
