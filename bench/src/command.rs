//! A command line as it stands in the cases: words, `|`, `<` and `>`, and names in braces. No shell takes part, so that its
//! start is not measured.

use std::collections::BTreeMap;

use crate::Error;

/// Programs joined by pipes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pipeline {
    /// Program and arguments of each, from the first to the last.
    pub(crate) stages: Vec<Vec<String>>,
    /// Standard input of the first; /dev/null otherwise.
    pub(crate) stdin: Option<String>,
    /// Standard output of the last; /dev/null otherwise.
    pub(crate) stdout: Option<String>,
}

impl Pipeline {
    /// Reads a line. Names are filled in after it was cut into words: a path with spaces stays one word.
    pub(crate) fn parse(line: &str, names: &BTreeMap<String, String>) -> Result<Pipeline, Error> {
        let mut pipeline = Pipeline { stages: vec![Vec::new()], stdin: None, stdout: None };
        let mut words = line.split_whitespace();
        while let Some(word) = words.next() {
            let mut path = || words.next().ok_or_else(|| Error(format!("`{word}` at the end of `{line}`")));
            match word {
                "|" => pipeline.stages.push(Vec::new()),
                "<" => pipeline.stdin = Some(fill(path()?, names)?),
                ">" => pipeline.stdout = Some(fill(path()?, names)?),
                word => pipeline.stages.last_mut().expect("never empty").push(fill(word, names)?),
            }
        }
        if pipeline.stages.iter().any(Vec::is_empty) {
            return Err(Error(format!("no program on one side of a pipe in `{line}`")));
        }
        Ok(pipeline)
    }

    /// The line again, for people.
    pub(crate) fn shown(&self) -> String {
        let mut shown = self.stages.iter().map(|words| words.join(" ")).collect::<Vec<_>>().join(" | ");
        for (sign, path) in [('<', &self.stdin), ('>', &self.stdout)] {
            if let Some(path) = path {
                shown.push_str(&format!(" {sign} {path}"));
            }
        }
        shown
    }
}

/// The names in braces that a line speaks of.
pub(crate) fn names_in(line: &str) -> impl Iterator<Item = &str> {
    line.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name)
}

fn fill(word: &str, names: &BTreeMap<String, String>) -> Result<String, Error> {
    let mut filled = String::new();
    let mut rest = word;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, behind) = after.split_once('}').ok_or_else(|| Error(format!("`{word}` lacks a closing brace")))?;
        filled.push_str(before);
        filled.push_str(names.get(name).ok_or_else(|| Error(format!("nothing is called {{{name}}}")))?);
        rest = behind;
    }
    filled.push_str(rest);
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Pipeline, Error> {
        let names = [("tool", "/bin/dd"), ("in", "/a dir/in"), ("bs", "512")];
        Pipeline::parse(line, &names.map(|(name, value)| (name.to_owned(), value.to_owned())).into())
    }

    #[test]
    fn names_are_filled_into_words() {
        let told = parse("{tool} if={in} bs={bs}k").expect("a line");
        assert_eq!(told.stages, [["/bin/dd", "if=/a dir/in", "bs=512k"]]);
        assert_eq!((told.stdin, told.stdout), (None, None));
    }

    #[test]
    fn pipes_and_redirections_are_not_words() {
        let told = parse("cat < {in} | {tool} | wc -c > /dev/null").expect("a line");
        assert_eq!(told.stages, [vec!["cat"], vec!["/bin/dd"], vec!["wc", "-c"]]);
        assert_eq!(told.stdin.as_deref(), Some("/a dir/in"));
        assert_eq!(told.stdout.as_deref(), Some("/dev/null"));
        assert_eq!(told.shown(), "cat | /bin/dd | wc -c < /a dir/in > /dev/null");
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for line in ["", "| cat", "cat |", "cat | | cat", "cat <", "{nobody}", "{tool"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn the_names_of_a_line_are_listed() {
        assert_eq!(names_in("{tool} if={in} | {cat}x").collect::<Vec<_>>(), ["tool", "in", "cat"]);
    }
}
