//! File names and words in messages: the three styles of quoting that GNU dd uses.
//!
//! | style | function | where GNU uses it |
//! |---|---|---|
//! | always in shell quotes | [`file`] | `failed to open 'x'` |
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
    shell(name.as_bytes(), locale, true)
}

/// Quotes a file name that opens a message, where a shell would need it: `x`, `'a b'`.
pub fn prefix(name: &OsStr, locale: Locale) -> String {
    if needs_quotes(name.as_bytes(), locale) {
        shell(name.as_bytes(), locale, false)
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

fn shell(name: &[u8], locale: Locale, always: bool) -> String {
    let pieces = || Pieces::new(name, locale);
    let escapes = pieces().any(|piece| matches!(piece, Piece::Bytes(_)));
    let apostrophe = name.contains(&b'\'');
    // Within double quotes these would still mean something to a shell.
    if apostrophe && !escapes && !name.iter().any(|byte| b"\"$`\\!".contains(byte)) {
        return format!("\"{}\"", String::from_utf8_lossy(name));
    }
    let mut quoted = String::from("'");
    let mut escaping = false;
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
    let _ = always;
    quoted
}

fn needs_quotes(name: &[u8], locale: Locale) -> bool {
    match name {
        [] | [b'#' | b'~', ..] | [b'{' | b'}'] => return true,
        _ => {}
    }
    Pieces::new(name, locale).any(|piece| match piece {
        Piece::Bytes(_) => true,
        Piece::Char(char) => " !\"$&'()*:;<=>?[\\^`|".contains(char),
    })
}

/// A printable character, or bytes that are not one.
enum Piece<'a> {
    Char(char),
    Bytes(&'a [u8]),
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

/// Whether a C library calls a character that is not ASCII printable: assigned, and no control or separator of lines.
fn is_printable(char: char) -> bool {
    !char.is_control()
}

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
