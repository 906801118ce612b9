//! `docs/promises.md` names tests that exist, for every promise, and all that are here.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn table() -> String {
    fs::read_to_string(root().join("docs/promises.md")).expect("docs/promises.md")
}

/// The names between backquotes that are `file::test`.
fn named(text: &str) -> BTreeSet<String> {
    text.split('`').skip(1).step_by(2).filter(|word| word.contains("::")).map(str::to_owned).collect()
}

/// Every test below `dir`, as `file::test`.
fn tests_below(dir: &Path, found: &mut BTreeSet<String>) {
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    for path in entries.map(|entry| entry.expect("readable").path()) {
        if path.is_dir() {
            tests_below(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let file = path.file_stem().expect("a name").to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).expect("readable");
            found.extend(tests_in(&text).into_iter().map(|test| format!("{file}::{test}")));
        }
    }
}

fn tests_in(source: &str) -> Vec<String> {
    let mut tests = Vec::new();
    let mut marked = false;
    for line in source.lines().map(str::trim) {
        if line == "#[test]" {
            marked = true;
        } else if let (true, Some(rest)) = (marked, line.strip_prefix("fn ")) {
            tests.extend(rest.split('(').next().map(str::to_owned));
            marked = false;
        }
    }
    tests
}

#[test]
fn every_test_that_the_table_names_exists() {
    let mut there = BTreeSet::new();
    for krate in fs::read_dir(root().join("crates")).expect("crates") {
        let krate = krate.expect("readable").path();
        tests_below(&krate.join("tests"), &mut there);
        tests_below(&krate.join("src"), &mut there);
    }
    let missing: Vec<_> = named(&table()).difference(&there).cloned().collect();
    assert!(missing.is_empty(), "docs/promises.md names what does not exist: {missing:?}");
}

#[test]
fn every_promise_has_a_test() {
    let table = table();
    for promise in 1..=21 {
        let row = table.lines().find(|line| line.starts_with(&format!("| {promise} |")));
        let row = row.unwrap_or_else(|| panic!("promise {promise} has no row"));
        assert!(!named(row).is_empty(), "promise {promise} has no test");
    }
}

#[test]
fn every_fault_test_holds_a_promise() {
    let mut here = BTreeSet::new();
    tests_below(&root().join("crates/dd/tests/faults"), &mut here);
    let own = ["rigs::", "table::", "peers::"];
    here.retain(|test| !own.iter().any(|room| test.starts_with(room)));
    let unnamed: Vec<_> = here.difference(&named(&table())).cloned().collect();
    assert!(unnamed.is_empty(), "docs/promises.md does not name {unnamed:?}");
}
