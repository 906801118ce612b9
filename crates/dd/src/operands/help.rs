//! `--help`, `--version`, the man page and the completions, made from the tables of words.

/// A shell that completions are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}

pub fn help(program: &str) -> String {
    format!("Usage: {program} [OPERAND]...\n")
}
pub fn version(program: &str) -> String {
    format!("{program} (fdd)\n")
}
pub fn man() -> String {
    String::new()
}
pub fn completions(_shell: Shell) -> String {
    String::new()
}
