//! The programs that are compared: where they are, and which version.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Error;

/// Tools whose file has another name than they have here, or several.
const FILES: &[(&str, &[&str])] =
    &[("gnu", &["dd"]), ("uutils", &["uu-dd", "uu_dd"]), ("freebsd", &["freebsd-dd", "chimera-dd", "bsddd"])];

/// The programs found so far, by the names they have here.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    found: BTreeMap<String, PathBuf>,
}

impl Peers {
    /// Those given by `--peer NAME=PATH`; others are looked for when they are needed.
    pub(crate) fn new(given: &[(String, PathBuf)]) -> Result<Peers, Error> {
        let mut found: BTreeMap<String, PathBuf> = BTreeMap::new();
        for (name, path) in given {
            if !path.is_file() {
                return Err(Error(format!("--peer {name}={}: no such file", path.display())));
            }
            found.insert(name.clone(), path.clone());
        }
        let bench = std::env::current_exe().map_err(|error| Error(format!("where am I? {error}")))?;
        // The fdd that was built beside this program, and only then one that is installed.
        let beside = bench.with_file_name("fdd");
        if beside.is_file() {
            found.entry("fdd".to_owned()).or_insert(beside);
        }
        found.insert("bench".to_owned(), bench);
        Ok(Peers { found })
    }

    /// The program of a tool, or `None` where it is not installed.
    pub(crate) fn find(&mut self, name: &str) -> Option<&Path> {
        if !self.found.contains_key(name) {
            let files = FILES.iter().find(|(tool, _)| *tool == name).map_or(&[][..], |(_, files)| files);
            let path = std::env::var_os("PATH").unwrap_or_default();
            let files = if files.is_empty() { vec![name] } else { files.to_vec() };
            let mut candidates = std::env::split_paths(&path)
                .flat_map(|dir| files.iter().map(move |file| dir.join(file)).collect::<Vec<_>>());
            self.found.insert(name.to_owned(), candidates.find(|path| path.is_file())?);
        }
        self.found.get(name).map(PathBuf::as_path)
    }

    /// Name, path and the first line that `--version` prints, of every tool that was found.
    pub(crate) fn versions(&self) -> BTreeMap<String, (String, String)> {
        let others = self.found.iter().filter(|(name, _)| *name != "bench");
        others.map(|(name, path)| (name.clone(), (path.display().to_string(), version(path)))).collect()
    }
}

fn version(program: &Path) -> String {
    let Ok(output) = Command::new(program).arg("--version").stdin(std::process::Stdio::null()).output() else {
        return String::new();
    };
    // Some speak on standard error, some begin with an empty line.
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    said.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_is_given_goes_before_one_on_the_path() {
        let given = std::env::current_exe().expect("a path");
        let mut peers = Peers::new(&[("cat".to_owned(), given.clone())]).expect("peers");
        assert_eq!(peers.find("cat"), Some(given.as_path()));
    }

    #[test]
    fn a_peer_that_is_given_must_exist() {
        assert!(Peers::new(&[("gnu".to_owned(), "/no/such/dd".into())]).is_err());
    }

    #[test]
    fn a_tool_that_is_not_installed_is_not_found() {
        let mut peers = Peers::new(&[]).expect("peers");
        assert_eq!(peers.find("no-such-tool-anywhere"), None);
        assert!(peers.find("gnu").is_none_or(|path| path.ends_with("dd")));
    }
}
