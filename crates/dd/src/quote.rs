//! File names and words in messages: the three styles of quoting that GNU dd uses.
//!
//! | style | function | where GNU uses it |
//! |---|---|---|
//! | always in shell quotes | [`file()`] | `failed to open 'x'` |
//! | in shell quotes if a shell needs them | [`prefix`] | `x: cannot skip` |
//! | in the locale's quotes | [`word`] | `invalid conversion: ‘x’` |
//!
//! Bytes that are no printable character become escapes in all three, so that what comes out is one line of text.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;

/// What of the user's locale decides how names are quoted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Locale {
    /// Messages are UTF-8: other letters than ASCII's are shown as they are, and words stand in curly quotes.
    pub utf8: bool,
}

/// Quotes a file name, always: `'x'`, `"it's"`, `'a'$'\n''b'`.
pub fn file(name: &OsStr, locale: Locale) -> String {
    shell(name.as_bytes(), locale)
}

/// Quotes a file name that opens a message, where a shell would need it: `x`, `'a b'`.
pub fn prefix(name: &OsStr, locale: Locale) -> String {
    if needs_quotes(name.as_bytes(), locale) {
        shell(name.as_bytes(), locale)
    } else {
        name.to_string_lossy().into_owned()
    }
}

/// Quotes a word in the locale's quotes: `'it\'s'` in ASCII, `‘it's’` in UTF-8.
pub fn word(word: &OsStr, locale: Locale) -> String {
    let (open, close) = if locale.utf8 { ('‘', '’') } else { ('\'', '\'') };
    let mut quoted = String::from(open);
    for piece in Pieces::new(word.as_bytes(), locale) {
        match piece {
            Piece::Char(char) if char == close || char == '\\' => quoted.extend(['\\', char]),
            Piece::Char(char) => quoted.push(char),
            Piece::Bytes(bytes) => escape(&mut quoted, bytes),
        }
    }
    quoted.push(close);
    quoted
}

fn shell(name: &[u8], locale: Locale) -> String {
    let pieces = || Pieces::new(name, locale);
    let apostrophe = name.contains(&b'\'');
    if apostrophe && !pieces().any(|piece| piece.is_escaped()) && !is_special(name) {
        return format!("\"{}\"", String::from_utf8_lossy(name));
    }
    let mut quoted = String::from("'");
    // GNU: a name with an apostrophe is gone through twice, and the second time starts in the state that the first ended
    // in: `it's\n` has two apostrophes too many in front.
    let mut escaping = apostrophe && pieces().last().is_some_and(|piece| piece.is_escaped());
    for piece in pieces() {
        match piece {
            Piece::Bytes(bytes) => {
                if !escaping {
                    quoted.push_str("'$'");
                }
                escaping = true;
                escape(&mut quoted, bytes);
            }
            Piece::Char('\'') => {
                escaping = false;
                quoted.push_str("'\\''");
            }
            Piece::Char(char) => {
                if escaping {
                    quoted.push_str("''");
                }
                escaping = false;
                quoted.push(char);
            }
        }
    }
    quoted.push('\'');
    quoted
}

/// Whether a name has what may mean something to some shell even in double quotes, as GNU sees it.
fn is_special(name: &[u8]) -> bool {
    name.iter().any(|byte| b"!\"$&()*;<=>?[\\^`{|}".contains(byte))
        || name.iter().skip(1).any(|byte| b"#~".contains(byte))
}

/// Whether a shell would not take a name as it stands for one word.
fn needs_quotes(name: &[u8], locale: Locale) -> bool {
    matches!(name, [] | [b'#' | b'~', ..] | [b'{' | b'}'])
        || name.iter().any(|byte| b" !\"$&'()*:;<=>?[\\^`|".contains(byte))
        || Pieces::new(name, locale).any(|piece| piece.is_escaped())
}

/// A printable character, or bytes that are not one.
enum Piece<'a> {
    Char(char),
    Bytes(&'a [u8]),
}

impl Piece<'_> {
    fn is_escaped(&self) -> bool {
        matches!(self, Self::Bytes(_))
    }
}

struct Pieces<'a> {
    rest: &'a [u8],
    utf8: bool,
}

impl<'a> Pieces<'a> {
    fn new(bytes: &'a [u8], locale: Locale) -> Self {
        Self { rest: bytes, utf8: locale.utf8 }
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        let (&first, after) = self.rest.split_first()?;
        if first.is_ascii() || !self.utf8 {
            let (one, _) = self.rest.split_at(1);
            self.rest = after;
            return Some(match first {
                b' '..=b'~' => Piece::Char(char::from(first)),
                _ => Piece::Bytes(one),
            });
        }
        let valid = self.rest.utf8_chunks().next().map_or("", |chunk| chunk.valid());
        let Some(char) = valid.chars().next() else {
            let (one, _) = self.rest.split_at(1);
            self.rest = after;
            return Some(Piece::Bytes(one));
        };
        let (bytes, after) = self.rest.split_at(char.len_utf8());
        self.rest = after;
        Some(if is_printable(char) { Piece::Char(char) } else { Piece::Bytes(bytes) })
    }
}

/// Whether a C library calls a character beyond ASCII printable: it is assigned, and no control or line separator.
fn is_printable(char: char) -> bool {
    // Within a string (a letter comes first, lest a combining mark be escaped for its place), `escape_debug` leaves just
    // what is assigned and has ink; spaces, invisible marks and private characters are to be added.
    let mut letter_and_char = [0; 5];
    letter_and_char[0] = b'a';
    let length = 1 + char.encode_utf8(&mut letter_and_char[1..]).len();
    let text = std::str::from_utf8(&letter_and_char[..length]).expect("a letter and a character");
    text.escape_debug().nth(1) == Some(char)
        || PRINTABLE_WITHOUT_INK.iter().any(|(first, last)| (*first..=*last).contains(&char))
}

/// Unicode's space separators, format characters and private use, which are not ASCII.
const PRINTABLE_WITHOUT_INK: &[(char, char)] = &[
    ('\u{a0}', '\u{a0}'),
    ('\u{ad}', '\u{ad}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{1680}', '\u{1680}'),
    ('\u{180e}', '\u{180e}'),
    ('\u{2000}', '\u{200f}'),
    ('\u{202a}', '\u{202f}'),
    ('\u{205f}', '\u{2064}'),
    ('\u{2066}', '\u{206f}'),
    ('\u{3000}', '\u{3000}'),
    ('\u{e000}', '\u{f8ff}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{fff9}', '\u{fffb}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0001}', '\u{e0001}'),
    ('\u{e0020}', '\u{e007f}'),
    ('\u{f0000}', '\u{ffffd}'),
    ('\u{100000}', '\u{10fffd}'),
];

fn escape(quoted: &mut String, bytes: &[u8]) {
    for byte in bytes {
        let letter = match byte {
            0x07 => 'a',
            0x08 => 'b',
            0x09 => 't',
            0x0a => 'n',
            0x0b => 'v',
            0x0c => 'f',
            0x0d => 'r',
            _ => {
                write!(quoted, "\\{byte:03o}").expect("writing to a string does not fail");
                continue;
            }
        };
        quoted.extend(['\\', letter]);
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt as _;
    use std::process::{Command, Stdio};

    use super::*;

    const ASCII: Locale = Locale { utf8: false };
    const UTF8: Locale = Locale { utf8: true };

    /// A name, then as `file` quotes it, then as `word` does; each in ASCII and in UTF-8.
    const NAMES: &[(&[u8], [&str; 2], [&str; 2])] = &[
        (b"", ["''", "''"], ["''", "‘’"]),
        (b"a", ["'a'", "'a'"], ["'a'", "‘a’"]),
        (b"a b", ["'a b'", "'a b'"], ["'a b'", "‘a b’"]),
        (b"it's", ["\"it's\"", "\"it's\""], [r"'it\'s'", "‘it's’"]),
        (b"'#", [r"''\''#'", r"''\''#'"], [r"'\'#'", "‘'#’"]),
        (b"#'", ["\"#'\"", "\"#'\""], [r"'#\''", "‘#'’"]),
        (b"a\"b", ["'a\"b'", "'a\"b'"], ["'a\"b'", "‘a\"b’"]),
        (b"'\"", [r#"''\''"'"#, r#"''\''"'"#], [r#"'\'"'"#, "‘'\"’"]),
        (b"a\\b", [r"'a\b'", r"'a\b'"], [r"'a\\b'", r"‘a\\b’"]),
        (b"a\nb", [r"'a'$'\n''b'", r"'a'$'\n''b'"], [r"'a\nb'", r"‘a\nb’"]),
        (b"\n", [r"''$'\n'", r"''$'\n'"], [r"'\n'", r"‘\n’"]),
        (b"\x07\x08\t\n\x0b\x0c\r", [r"''$'\a\b\t\n\v\f\r'"; 2], [r"'\a\b\t\n\v\f\r'", r"‘\a\b\t\n\v\f\r’"]),
        (b"\x1b[0m", [r"''$'\033''[0m'"; 2], [r"'\033[0m'", r"‘\033[0m’"]),
        (b"a\x7f1", [r"'a'$'\177''1'"; 2], [r"'a\1771'", r"‘a\1771’"]),
        (b"a\xffb", [r"'a'$'\377''b'"; 2], [r"'a\377b'", r"‘a\377b’"]),
        (b"\xe2\x82", [r"''$'\342\202'"; 2], [r"'\342\202'", r"‘\342\202’"]),
        ("é".as_bytes(), [r"''$'\303\251'", "'é'"], [r"'\303\251'", "‘é’"]),
        ("’".as_bytes(), [r"''$'\342\200\231'", "'’'"], [r"'\342\200\231'", r"‘\’’"]),
        ("‘".as_bytes(), [r"''$'\342\200\230'", "'‘'"], [r"'\342\200\230'", "‘‘’"]),
        // A newline for Unicode, and nothing that is assigned.
        ("\u{2028}".as_bytes(), [r"''$'\342\200\250'"; 2], [r"'\342\200\250'", r"‘\342\200\250’"]),
        ("\u{85}".as_bytes(), [r"''$'\302\205'"; 2], [r"'\302\205'", r"‘\302\205’"]),
        ("\u{378}".as_bytes(), [r"''$'\315\270'"; 2], [r"'\315\270'", r"‘\315\270’"]),
        ("\u{200b}".as_bytes(), [r"''$'\342\200\213'", "'\u{200b}'"], [r"'\342\200\213'", "‘\u{200b}’"]),
        ("\u{301}".as_bytes(), [r"''$'\314\201'", "'\u{301}'"], [r"'\314\201'", "‘\u{301}’"]),
        ("\u{e000}".as_bytes(), [r"''$'\356\200\200'", "'\u{e000}'"], [r"'\356\200\200'", "‘\u{e000}’"]),
        (b"\n'", [r"''$'\n'\'''"; 2], [r"'\n\''", r"‘\n'’"]),
        (b"a\n'b'", [r"'a'$'\n'\''b'\'''"; 2], [r"'a\n\'b\''", r"‘a\n'b'’"]),
        // GNU: quotes too many, and below it quotes that are missing.
        (b"it's\n", [r"'''it'\''s'$'\n'"; 2], [r"'it\'s\n'", r"‘it's\n’"]),
        (b"\xfa'\xcf", [r"'\372'\'''$'\317'"; 2], [r"'\372\'\317'", r"‘\372'\317’"]),
    ];

    /// A name, and whether it stands bare before `: cannot skip`.
    const PREFIXES: &[(&str, &str)] = &[
        ("a", "a"),
        ("standard input", "'standard input'"),
        ("it's", "\"it's\""),
        ("-a", "-a"),
        ("/dev/sda1", "/dev/sda1"),
        ("a.b,c_d+e%f@g]h", "a.b,c_d+e%f@g]h"),
        ("a#b~c{d}e", "a#b~c{d}e"),
        ("{a", "{a"),
        ("{}", "{}"),
        ("{", "'{'"),
        ("}", "'}'"),
        ("#a", "'#a'"),
        ("~a", "'~a'"),
        ("a:b", "'a:b'"),
        ("a=b", "'a=b'"),
        ("a!", "'a!'"),
        ("a^b", "'a^b'"),
        ("[", "'['"),
        ("a?", "'a?'"),
        ("$x", "'$x'"),
        ("é", "é"),
        ("é b", "'é b'"),
        ("\t", r"''$'\t'"),
        ("", "''"),
    ];

    #[test]
    fn names_and_words_are_quoted_as_the_table_says() {
        for (name, files, words) in NAMES {
            for (locale, found) in [(ASCII, 0), (UTF8, 1)] {
                assert_eq!(file(OsStr::from_bytes(name), locale), files[found], "{name:?} {locale:?}");
                assert_eq!(word(OsStr::from_bytes(name), locale), words[found], "{name:?} {locale:?}");
            }
        }
    }

    #[test]
    fn a_name_before_a_message_is_quoted_where_a_shell_would_need_it() {
        for (name, expected) in PREFIXES {
            assert_eq!(prefix(OsStr::new(name), UTF8), *expected);
        }
        assert_eq!(prefix(OsStr::new("é"), ASCII), r"''$'\303\251'");
    }

    #[test]
    fn whatever_the_bytes_the_text_is_one_printable_line() {
        for first in 1..=255 {
            for second in [b'\'', b'\n', b'a', 0xa9, 0xff] {
                let name = OsString::from_vec(vec![first, second]);
                for locale in [ASCII, UTF8] {
                    for text in [file(&name, locale), prefix(&name, locale), word(&name, locale)] {
                        assert!(!text.contains(char::is_control), "{name:?}: {text:?}");
                        assert!(locale.utf8 || text.is_ascii(), "{name:?}: {text:?}");
                    }
                }
            }
        }
    }

    /// What GNU dd says to `argument`, without its newline.
    fn gnu(argument: &OsStr, more: &str, locale: Locale, directory: &std::path::Path) -> Vec<u8> {
        let mut command = Command::new("/usr/bin/dd");
        command.env_clear().env("LC_ALL", if locale.utf8 { "C.UTF-8" } else { "C" }).current_dir(directory);
        command.arg(argument).arg(more).stdin(Stdio::null()).stdout(Stdio::null());
        command.output().expect("GNU dd runs").stderr
    }

    /// The part of what was said between two texts.
    fn between<'a>(said: &'a [u8], before: &str, after: &str) -> &'a [u8] {
        let start =
            before.len() + said.windows(before.len()).position(|part| part == before.as_bytes()).expect("a start");
        let end = said.windows(after.len()).rposition(|part| part == after.as_bytes()).expect("an end");
        &said[start..end]
    }

    #[test]
    fn gnu_dd_quotes_random_names_the_same_way() {
        let version = Command::new("/usr/bin/dd").arg("--version").output();
        if !version.is_ok_and(|output| output.stdout.starts_with(b"dd (coreutils)")) {
            return eprintln!("skipped: no GNU dd");
        }
        const PARTS: &[&[u8]] = &[
            b"a",
            b"7",
            b"'",
            b"'",
            b"\n",
            b"\x01",
            b"\x7f",
            b"\xff",
            b"\xe2\x82",
            "é".as_bytes(),
            "’".as_bytes(),
            "\u{2028}".as_bytes(),
            "\u{1f600}".as_bytes(),
            b" ",
            b"!",
            b"\"",
            b"#",
            b"$",
            b"%",
            b"&",
            b"(",
            b")",
            b"*",
            b"+",
            b":",
            b";",
            b"<",
            b"=",
            b">",
            b"?",
            b"@",
            b"[",
            b"\\",
            b"]",
            b"^",
            b"_",
            b"`",
            b"{",
            b"|",
            b"}",
            b"~",
        ];
        let directory = tempfile::tempdir().expect("a directory");
        // A fixed walk through the names, the same at each run.
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state % below as u64).expect("it is below a usize")
        };
        for _ in 0..120 {
            let mut name = b"".to_vec();
            for _ in 0..=random(5) {
                name.extend(PARTS[random(PARTS.len())]);
            }
            let argument = |operand: &str| OsString::from_vec([operand.as_bytes(), &name].concat());
            let (name, locale) = (OsStr::from_bytes(&name), if random(2) == 0 { ASCII } else { UTF8 });
            let said = gnu(&argument("if="), "count=0", locale, directory.path());
            let expected = between(&said, "failed to open ", ": No such file");
            assert_eq!(file(name, locale).as_bytes(), expected, "{name:?} {locale:?}");
            let said = gnu(&argument("conv="), "count=0", locale, directory.path());
            let expected = between(&said, "invalid conversion: ", "\nTry '");
            assert_eq!(word(name, locale).as_bytes(), expected, "{name:?} {locale:?}");
            std::fs::write(directory.path().join(name), "x").expect("a file is made");
            let said = gnu(&argument("if="), "skip=9", locale, directory.path());
            std::fs::remove_file(directory.path().join(name)).expect("and taken away");
            let expected = between(&said, "dd: ", ": cannot skip");
            assert_eq!(prefix(name, locale).as_bytes(), expected, "{name:?} {locale:?}");
        }
    }
}
