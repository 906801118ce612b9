//! What the documents say is so: the tests they name exist, and the rooms open no door that the map does not show.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn sources_below(dir: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for path in entries.map(|entry| entry.expect("readable").path()) {
        if path.is_dir() {
            sources_below(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

/// Every test of the workspace as `file::test`: functions under `#[test]`, and the rows of the tables.
fn tests() -> BTreeSet<String> {
    let mut files = Vec::new();
    for krate in fs::read_dir(root().join("crates")).expect("crates") {
        let krate = krate.expect("readable").path();
        sources_below(&krate.join("tests"), &mut files);
        sources_below(&krate.join("src"), &mut files);
    }
    let mut found = BTreeSet::new();
    for path in files {
        let file = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let mut marked = false;
        for line in fs::read_to_string(&path).expect("readable").lines().map(str::trim) {
            let function = line.strip_prefix("fn ").filter(|_| marked);
            let row = line.split_once(" { ").map(|(name, _)| name).filter(|name| is_name(name));
            if let Some(name) = function.and_then(|rest| rest.split('(').next()).or(row) {
                found.insert(format!("{file}::{name}"));
            }
            marked = line == "#[test]" || (marked && line.starts_with("#["));
        }
    }
    found
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

#[test]
fn every_test_that_differences_names_exists() {
    let text = fs::read_to_string(root().join("DIFFERENCES.md")).expect("DIFFERENCES.md");
    let named: BTreeSet<_> =
        text.split('`').skip(1).step_by(2).filter(|word| word.contains("::")).map(str::to_owned).collect();
    assert!(named.len() > 40, "the table was not found: {named:?}");
    let there = tests();
    let missing: Vec<_> = named.difference(&there).collect();
    assert!(missing.is_empty(), "DIFFERENCES.md names what does not exist: {missing:?}");
}

#[test]
fn every_row_under_fdd_is_right_instead_names_a_test() {
    let text = fs::read_to_string(root().join("DIFFERENCES.md")).expect("DIFFERENCES.md");
    for line in text.lines().filter(|line| line.starts_with("| ") && !line.contains("| tests |")) {
        assert!(line.contains("::"), "no test in: {line}");
    }
}

/// The doors: which room uses which. A room is a file or folder of `src/`; what is not listed may not be used.
const DOORS: &[(&str, &[&str])] = &[
    ("advice", &["kernel", "plan", "units"]),
    ("conv", &[]),
    (
        "copy",
        &[
            "conv", "error", "facts", "input", "kernel", "monitor", "operands", "output", "plan", "rescue", "tally",
            "units", "hash",
        ],
    ),
    ("error", &["human", "operands", "quote"]),
    ("facts", &["kernel"]),
    ("hash", &["operands"]),
    ("human", &[]),
    ("input", &["advice", "error", "facts", "hash", "kernel", "plan", "rescue", "units"]),
    ("kernel", &[]),
    ("lib", &["copy", "error", "input", "kernel", "monitor", "operands", "output", "plan", "quote", "hash"]),
    ("main", &[]),
    ("monitor", &["error", "human", "operands", "report", "tally"]),
    ("operands", &["quote"]),
    ("output", &["advice", "error", "facts", "hash", "input", "kernel", "plan", "units"]),
    ("plan", &["conv", "error", "operands", "quote", "units"]),
    ("quote", &[]),
    ("report", &["human", "operands", "tally"]),
    ("rescue", &["kernel", "units"]),
    ("tally", &["units"]),
    ("units", &[]),
];

#[test]
fn no_room_opens_a_door_that_the_map_does_not_show() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources_below(&source, &mut files);
    let mut used: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in files {
        let inside = path.strip_prefix(&source).expect("below src").to_string_lossy().into_owned();
        let room = inside.split(['/', '.']).next().expect("a first part").to_owned();
        let text = fs::read_to_string(&path).expect("readable");
        // Test modules may look anywhere.
        let text = text.split("#[cfg(test)]").next().expect("a first part");
        if ["tests.rs", "testing.rs", "naive.rs"].iter().any(|name| inside.ends_with(name)) {
            continue;
        }
        let doors = text.split("crate::").skip(1).map(|rest| {
            rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next().expect("a word").to_owned()
        });
        let known: Vec<_> = doors.filter(|door| DOORS.iter().any(|(room, _)| room == door)).collect();
        used.entry(room.clone()).or_default().extend(known.into_iter().filter(|door| *door != room));
    }
    for (room, doors) in used {
        let Some((_, allowed)) = DOORS.iter().find(|(name, _)| *name == room) else {
            panic!("the map does not show the room {room}");
        };
        let more: Vec<_> = doors.iter().filter(|door| !allowed.contains(&door.as_str())).collect();
        assert!(more.is_empty(), "{room} uses {more:?}, which the map does not show");
    }
}
