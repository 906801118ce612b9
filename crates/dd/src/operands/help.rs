//! `--help`, `--version`, the man page and the completions, made from the tables of words.

use std::fmt::Write as _;
use std::path::Path;

use super::words::{
    CONVS, Described, ESCAPES, FLAGS, HASHCONVS, HASHES, LOST, MSGFMTS, OPERANDS, Operand, REFLINKS, STATUSES, Takes,
    described,
};

/// The GNU coreutils whose dd this one stands in for.
const COMPATIBLE: &str = "9.11";

const VERSION: &str = env!("CARGO_PKG_VERSION");

const PURPOSE: &str = "Copy a file in blocks, and convert it on the way.";

const NUMBERS: &str = "N and BYTES are decimal numbers, perhaps with a suffix: c=1, w=2, b=512, K=1024, M=1024*1024 and \
                       so on for G, T, P, E, Z, Y, R and Q; kB=1000, MB=1000*1000 and so on; KiB=K, MiB=M and so on. \
                       Lower case will do for k, m, g, t, p and e. Factors may be joined by x, as in 2x80x18b. A B \
                       anywhere in N counts bytes instead of blocks, as in count=10MB or skip=3B.";

const HASH: &str = "Where bytes come fast and a processor is free, slow digests are taken on threads of their own. Where \
                    MAKEFLAGS names a jobserver, as in a recipe of GNU make that begins with +, each of these threads needs a \
                    token of it; without one the copying thread takes the digest.";
const SIGNALS: &str = "USR1 makes a running copy print its statistics and go on. INT, TERM and HUP end it with them.";

const BUFFER: &str = "Under buffer= records are read, written and counted as without it; each takes 48 bytes of the \
                      memory beside its own, and one that is larger than the memory passes through in pieces. Where \
                      writing fails or a signal ends the copy, a file or device on the input is put back behind the \
                      records that went into what was written; what came from a pipe is counted as read.";

const EXIT: &str = "The exit status is 0 if everything was copied as asked, else 1.";

const OPTIONS: &[(&str, &str)] = &[("--help", "show this text and exit"), ("--version", "show the version and exit")];

const EXAMPLES: &[(&str, &str)] = &[
    ("if=disk.img of=/dev/sdX bs=4M conv=fsync status=progress", "write an image and wait until it is on the disk"),
    ("if=/dev/sdX of=disk.img bs=1M conv=noerror,sync", "save what can be read, each byte in its place"),
    ("of=file count=0 seek=1GB", "set the size of a file"),
    ("bs=1M count=10 iflag=fullblock of=head status=none", "take 10 MiB from a pipe"),
];

/// A list of words with its title.
struct Section {
    title: &'static str,
    words: Vec<Described>,
}

/// Every list of words, in the order of the help text.
fn sections() -> [Section; 8] {
    [
        Section { title: "CONVS are separated by commas:", words: described(CONVS) },
        Section { title: "FLAGS are separated by commas:", words: described(FLAGS) },
        Section { title: "LEVEL is one of:", words: described(STATUSES) },
        Section { title: "FORMAT of msgfmt= is text with the % escapes below, or one of:", words: described(MSGFMTS) },
        Section { title: "HASHES are separated by commas:", words: described(HASHES) },
        Section { title: "WHERE of hashconv= is one of:", words: described(HASHCONVS) },
        Section { title: "WHEN of reflink= is one of:", words: described(REFLINKS) },
        Section { title: "POLICY of lost= is:", words: described(LOST) },
    ]
}

/// The text of `--help`.
pub fn help(program: &str) -> String {
    let mut text = format!("Usage: {program} [OPERAND]...\n  or:  {program} OPTION\n{PURPOSE}\n");
    for (title, gnu) in [("\nOperands:\n", true), ("\nOperands that GNU dd lacks:\n", false)] {
        text += title;
        for Operand { name, value, help, .. } in OPERANDS.iter().filter(|row| row.gnu == gnu) {
            row(&mut text, &format!("{name}={value}"), help, 17);
        }
    }
    text += "\nOptions:\n";
    for (option, help) in OPTIONS {
        row(&mut text, option, help, 17);
    }
    for paragraph in [NUMBERS, BUFFER, HASH, SIGNALS, EXIT] {
        text.push('\n');
        wrap(&mut text, paragraph, 0);
    }
    for Section { title, words } in sections() {
        let _ = writeln!(text, "\n{title}");
        for word in words {
            let beyond = if word.gnu { "" } else { " [not in GNU dd]" };
            row(&mut text, word.name, &format!("{}{beyond}", word.help), 17);
        }
    }
    text += "\nThe % escapes:\n";
    for (letter, help) in ESCAPES {
        row(&mut text, &format!("%{}", char::from(*letter)), help, 17);
    }
    text += "\nExamples:\n";
    for (operands, help) in EXAMPLES {
        let _ = writeln!(text, "  {program} {operands}\n        {help}");
    }
    text
}

/// The text of `--version`. Under the name `dd` its first line is of the form that scripts know from GNU dd.
pub fn version(program: &str) -> String {
    let name = match Path::new(program).file_name() {
        Some(name) if name == "dd" => "dd (fdd)",
        _ => "fdd",
    };
    format!("{name} {VERSION}\nCompatible with dd of GNU coreutils {COMPATIBLE}.\nLicense: MIT OR Apache-2.0\n")
}

/// A term and what it means, in two columns; the second begins after `column` characters.
fn row(text: &mut String, term: &str, meaning: &str, column: usize) {
    let _ = write!(text, "  {term}");
    // A term too long for its column has its meaning below it.
    let start = if term.len() + 4 > column { 0 } else { term.len() + 2 };
    if start == 0 {
        text.push('\n');
    }
    let mut wrapped = String::new();
    wrap(&mut wrapped, meaning, column);
    *text += &wrapped[start..];
}

/// Lines of at most 80 characters, each after `indent` spaces.
fn wrap(text: &mut String, paragraph: &str, indent: usize) {
    let mut line = " ".repeat(indent);
    let mut empty = true;
    for word in paragraph.split_whitespace() {
        if !empty && line.len() + 1 + word.len() > 80 {
            let _ = writeln!(text, "{line}");
            line = " ".repeat(indent);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line += word;
        empty = false;
    }
    let _ = writeln!(text, "{line}");
}

/// The man page, in roff.
pub fn man() -> String {
    let mut page = format!(
        ".\\\" Made from the tables of words: do not edit.\n.TH FDD 1 \"\" \"fdd {VERSION}\" \"User Commands\"\n\
         .SH NAME\nfdd, dd \\- {}\n.SH SYNOPSIS\n.B fdd\n[\\fIOPERAND\\fR]...\n.br\n.B fdd\n\\fIOPTION\\fR\n\
         .SH DESCRIPTION\n{}\nIt does what dd of GNU coreutils {COMPATIBLE} does; what is marked \\(dq+\\(dq is not \
         in GNU dd.\n",
        roff("copy a file in blocks, and convert it on the way"),
        roff(PURPOSE),
    );
    page += ".SH OPERANDS\n";
    for Operand { name, value, help, gnu, .. } in OPERANDS {
        let _ = writeln!(page, ".TP\n\\fB{name}=\\fI{value}\\fR{}\n{}", mark(*gnu), roff(help));
    }
    page += ".SH OPTIONS\n";
    for (option, help) in OPTIONS {
        let _ = writeln!(page, ".TP\n\\fB{}\\fR\n{}", roff(option), roff(help));
    }
    let _ = writeln!(page, ".SH NUMBERS\n{}", roff(NUMBERS));
    page += ".SH WORDS\n";
    for Section { title, words } in sections() {
        let _ = writeln!(page, ".SS {}", roff(title));
        for Described { name, help, gnu } in words {
            let _ = writeln!(page, ".TP\n\\fB{name}\\fR{}\n{}", mark(gnu), roff(help));
        }
    }
    page += ".SS The % escapes:\n";
    for (letter, help) in ESCAPES {
        let _ = writeln!(page, ".TP\n\\fB%{}\\fR\n{}", char::from(*letter), roff(help));
    }
    let _ = writeln!(
        page,
        ".SH BUFFER\n{}\n.SH HASH\n{}\n.SH SIGNALS\n{}\n.SH EXIT STATUS\n{}\n.SH EXAMPLES",
        roff(BUFFER),
        roff(HASH),
        roff(SIGNALS),
        roff(EXIT)
    );
    for (operands, help) in EXAMPLES {
        let _ = writeln!(page, ".TP\n\\fBfdd {}\\fR\n{}", roff(operands), roff(help));
    }
    page
}

fn mark(gnu: bool) -> &'static str {
    if gnu { "" } else { " +" }
}

/// Text that roff takes as it stands.
fn roff(text: &str) -> String {
    let escaped = text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq").replace('`', "\\(ga");
    // A line that begins with a dot would be a request.
    if escaped.starts_with('.') { format!("\\&{escaped}") } else { escaped }
}

/// A shell that completions are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// What an operand's value may be, for a shell that completes it.
enum Completed {
    Files,
    /// Words that may be joined by commas.
    List(Vec<Described>),
    One(Vec<Described>),
    Nothing,
}

fn completed(takes: &Takes) -> Completed {
    match takes {
        Takes::File(_) => Completed::Files,
        Takes::Words { table, .. } => Completed::List(table()),
        Takes::Text { examples, .. } if !examples().is_empty() => Completed::One(examples()),
        Takes::Text { .. } | Takes::Number { .. } => Completed::Nothing,
    }
}

/// The script that teaches a shell to complete fdd's words.
pub fn completions(shell: Shell) -> String {
    match shell {
        Shell::Bash => bash(),
        Shell::Zsh => zsh(),
        Shell::Fish => fish(),
    }
}

fn names(words: &[Described]) -> String {
    words.iter().map(|word| word.name).collect::<Vec<_>>().join(" ")
}

fn bash() -> String {
    let mut cases = String::new();
    for Operand { name, takes, .. } in OPERANDS {
        let _ = match completed(takes) {
            Completed::Files => writeln!(
                cases,
                "        {name})\n            compopt -o filenames 2>/dev/null\n            \
                 mapfile -t COMPREPLY < <(compgen -f -- \"$value\") ;;"
            ),
            Completed::List(words) => writeln!(
                cases,
                "        {name}) mapfile -t COMPREPLY < <(compgen -P \"$before\" -W \"{}\" -- \"${{value##*,}}\") ;;",
                names(&words)
            ),
            Completed::One(words) => writeln!(
                cases,
                "        {name}) mapfile -t COMPREPLY < <(compgen -W \"{}\" -- \"$value\") ;;",
                names(&words)
            ),
            Completed::Nothing => Ok(()),
        };
    }
    let operands: Vec<_> = OPERANDS.iter().map(|row| format!("{}=", row.name)).collect();
    let options: Vec<_> = OPTIONS.iter().map(|(option, _)| *option).collect();
    format!(
        r#"# Completion of fdd's words in bash. Made from the tables of words: do not edit.
_fdd() {{
    local line=${{COMP_LINE:0:COMP_POINT}} word name value before=
    word=${{line##*[[:space:]]}}
    name=${{word%%=*}}
    value=${{word#*=}}
    COMPREPLY=()
    if [[ $word != *=* ]]; then
        compopt -o nospace 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -W "{} {}" -- "$word")
        return
    fi
    [[ $value == *,* ]] && before=${{value%,*}},
    case $name in
{cases}    esac
    # Where an equals sign does not break words, the whole word is replaced.
    [[ $COMP_WORDBREAKS == *=* ]] || COMPREPLY=("${{COMPREPLY[@]/#/$name=}}")
}}
complete -F _fdd fdd
"#,
        operands.join(" "),
        options.join(" "),
    )
}

fn zsh() -> String {
    let quoted = |text: &str| text.replace('\'', "'\\''");
    let value = |word: &Described| {
        let help = quoted(&word.help.replace('[', "\\[").replace(']', "\\]").replace(':', "\\:"));
        format!("'{}[{help}]'", word.name)
    };
    let values = |words: &[Described]| words.iter().map(value).collect::<Vec<_>>().join(" ");
    let mut cases = String::new();
    for Operand { name, takes, .. } in OPERANDS {
        let _ = match completed(takes) {
            Completed::Files => writeln!(cases, "    {name}=*) compset -P '{name}=' && _files ;;"),
            Completed::List(words) => {
                writeln!(cases, "    {name}=*) compset -P '{name}=' && _values -s , {name} {} ;;", values(&words))
            }
            Completed::One(words) => {
                writeln!(cases, "    {name}=*) compset -P '{name}=' && _values {name} {} ;;", values(&words))
            }
            Completed::Nothing => Ok(()),
        };
    }
    let mut operands = String::new();
    for Operand { name, help, .. } in OPERANDS {
        let _ = writeln!(operands, "        '{name}:{}'", quoted(help));
    }
    let mut options = String::new();
    for (option, help) in OPTIONS {
        let _ = writeln!(options, "        '{option}:{}'", quoted(help));
    }
    format!(
        r#"#compdef fdd
# Completion of fdd's words in zsh. Made from the tables of words: do not edit.
local -a operands options
case $PREFIX in
{cases}    *=*) ;;
    *)
        operands=(
{operands}        )
        options=(
{options}        )
        _describe operand operands -S = -q
        _describe option options ;;
esac
"#
    )
}

fn fish() -> String {
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('\'', "\\'");
    let mut cases = String::new();
    for Operand { name, takes, .. } in OPERANDS {
        let (words, before) = match completed(takes) {
            Completed::List(words) => (words, "(string replace -r '[^,=]*$' '' -- $word)".to_owned()),
            Completed::One(words) => (words, format!("{name}=")),
            Completed::Files | Completed::Nothing => continue,
        };
        let _ = writeln!(cases, "        case '{name}=*'\n            set -l before {before}");
        for word in words {
            let _ = writeln!(cases, "            printf '%s\\t%s\\n' \"$before\"{} '{}'", word.name, quoted(word.help));
        }
    }
    let mut operands = String::new();
    for Operand { name, help, .. } in OPERANDS {
        let _ = writeln!(operands, "            printf '%s\\t%s\\n' {name}= '{}'", quoted(help));
    }
    let mut options = String::new();
    for (option, help) in OPTIONS {
        let _ = writeln!(options, "complete -c fdd -l {} -d '{}'", option.trim_start_matches('-'), quoted(help));
    }
    let files: Vec<_> = OPERANDS.iter().filter(|row| matches!(row.takes, Takes::File(_))).map(|row| row.name).collect();
    format!(
        r#"# Completion of fdd's words in fish. Made from the tables of words: do not edit.
function __fdd_words
    set -l word (commandline -ct)
    switch $word
{cases}        case '*=*'
        case '*'
{operands}    end
end
# After if= and of= fish completes file names by itself.
complete -c fdd -n "not string match -qr '^({})=' -- (commandline -ct)" -f
complete -c fdd -a '(__fdd_words)'
{options}"#,
        files.join("|")
    )
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::Command;

    use super::*;

    fn docs() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
    }

    const COMPLETIONS: [(Shell, &str); 3] = [
        (Shell::Bash, "completions/fdd.bash"),
        (Shell::Zsh, "completions/_fdd"),
        (Shell::Fish, "completions/fdd.fish"),
    ];

    /// Words by their lists, with what each list belongs to.
    fn every_word() -> impl Iterator<Item = &'static str> {
        sections().into_iter().flat_map(|section| section.words).map(|word| word.name)
    }

    #[test]
    fn help_lists_every_operand_and_every_word_at_the_start_of_a_line() {
        let text = help("dd");
        let has = |term: &str| {
            text.lines().any(|line| {
                line.strip_prefix("  ")
                    .and_then(|line| line.strip_prefix(term))
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
            })
        };
        for Operand { name, value, .. } in OPERANDS {
            assert!(has(&format!("{name}={value}")), "{name}");
        }
        for word in every_word() {
            assert!(has(word), "{word}");
        }
        assert!(text.starts_with("Usage: dd [OPERAND]...\n"));
        assert!(text.contains("--help") && text.contains("--version"));
    }

    #[test]
    fn help_fits_eighty_columns() {
        for line in help("dd").lines() {
            assert!(line.len() <= 80, "{line}");
        }
    }

    #[test]
    fn what_scripts_look_for_in_help_is_found() {
        let text = help("dd");
        for wanted in [
            "status=",
            "status=none",
            "status=progress",
            "noxfer",
            "iflag=",
            "oflag=",
            "iflag=fullblock",
            "fullblock",
            "nocache",
            "direct",
            "conv=",
            "conv=fsync",
            "fdatasync",
            "sparse",
            "count_bytes",
            "skip_bytes",
            "seek_bytes",
            "iseek",
            "oseek",
            "bs=BYTES",
            "if=FILE",
            "of=FILE",
            "excl",
            "nocreat",
        ] {
            assert!(text.contains(wanted), "{wanted}");
        }
    }

    #[test]
    fn version_names_the_program_and_on_a_line_of_its_own_what_it_is_compatible_with() {
        for (program, first) in [("dd", "dd (fdd) "), ("/usr/bin/dd", "dd (fdd) "), ("fdd", "fdd "), ("./x", "fdd ")] {
            let text = version(program);
            let lines: Vec<_> = text.lines().collect();
            assert_eq!(lines[0], format!("{first}{VERSION}"));
            assert_eq!(lines[1], "Compatible with dd of GNU coreutils 9.11.");
        }
    }

    #[test]
    fn no_two_rows_of_a_table_have_one_name() {
        let mut names: Vec<_> = OPERANDS.iter().map(|row| row.name).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
        for Section { title, words } in sections() {
            let mut names: Vec<_> = words.iter().map(|word| word.name).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), words.len(), "{title}");
        }
    }

    #[test]
    fn man_page_and_completions_in_docs_are_up_to_date() {
        let mut files = vec![("fdd.1", man())];
        files.extend(COMPLETIONS.map(|(shell, name)| (name, completions(shell))));
        for (name, text) in files {
            let path = docs().join(name);
            if std::env::var_os("FDD_BLESS").is_some() {
                std::fs::create_dir_all(path.parent().expect("it is below docs")).expect("docs can be made");
                std::fs::write(&path, &text).expect("docs can be written");
            }
            let found = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(found == text, "docs/{name} is stale: run `FDD_BLESS=1 cargo test -p fdd --lib help`");
        }
    }

    #[test]
    fn man_page_names_every_word_and_roff_finds_nothing_wrong() {
        let page = man();
        for word in every_word() {
            assert!(page.contains(&format!("\\fB{word}\\fR")), "{word}");
        }
        let Ok(output) = Command::new("man").args(["--warnings", "-l"]).arg(docs().join("fdd.1")).output() else {
            return eprintln!("skipped: no man");
        };
        assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    #[test]
    fn shells_accept_their_completions() {
        for (shell, (_, name)) in ["bash", "zsh", "fish"].into_iter().zip(COMPLETIONS) {
            let Ok(output) = Command::new(shell).arg("-n").arg(docs().join(name)).output() else {
                eprintln!("skipped: no {shell}");
                continue;
            };
            assert!(output.status.success(), "{shell}: {}", String::from_utf8_lossy(&output.stderr));
            assert!(output.stderr.is_empty(), "{shell}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }

    #[test]
    fn bash_completes_operands_and_their_words() {
        let complete = |line: &str| {
            let script = "source \"$1\"; COMP_LINE=$2 COMP_POINT=${#2} _fdd; echo \"${COMPREPLY[*]}\"";
            let mut bash = Command::new("bash");
            bash.args(["-c", script, "bash"]).arg(docs().join(COMPLETIONS[0].1)).arg(line);
            let output = bash.output().ok()?;
            assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(String::from_utf8(output.stdout).expect("words are UTF-8").trim().to_owned())
        };
        for (line, expected) in [
            ("fdd ib", "ibs="),
            ("fdd if=a st", "status= stride= start= stop="),
            ("fdd --v", "--version"),
            ("fdd status=", "none noxfer progress"),
            ("fdd conv=sync,fs", "sync,fsync"),
            ("fdd reflink=a", "auto always"),
            ("fdd bs=1", ""),
        ] {
            let Some(found) = complete(line) else { return eprintln!("skipped: no bash") };
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn fish_completes_operands_and_their_words() {
        for (line, expected) in [
            ("fdd ib", "ibs="),
            ("fdd if=a sta", "start= status="),
            ("fdd --v", "--version"),
            ("fdd status=", "status=none status=noxfer status=progress"),
            ("fdd conv=sync,fs", "conv=sync,fsync"),
            ("fdd reflink=a", "reflink=always reflink=auto"),
            ("fdd bs=1", ""),
        ] {
            let mut fish = Command::new("fish");
            fish.args(["--no-config", "-c", "source $argv[1]; complete -C $argv[2]"]);
            fish.arg(docs().join(COMPLETIONS[2].1)).arg(line);
            let Ok(output) = fish.output() else { return eprintln!("skipped: no fish") };
            let text = String::from_utf8(output.stdout).expect("words are UTF-8");
            let words: Vec<_> = text.lines().filter_map(|line| line.split('\t').next()).collect();
            assert_eq!(words.join(" "), expected, "{line}");
        }
    }
}
