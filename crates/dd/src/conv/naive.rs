//! The conversions a byte at a time and the whole input at once, for the tests to compare with: nothing here is fast, shared
//! with the real ones, or able to notice where a block ends.

use super::{Case, Charset, Form, Parity};

/// What a job asks for: the arguments of `Recipe::new`, in its order.
pub(super) type Asked = (Option<Charset>, Option<Case>, Option<Parity>, bool, Option<Form>);

/// The output, and how many records were truncated.
pub(super) fn convert((charset, case, parity, swab, form): Asked, input: &[u8]) -> (Vec<u8>, u64) {
    let mut bytes: Vec<u8> = input.iter().map(|byte| translated(*byte, charset, case, parity)).collect();
    if swab {
        bytes.chunks_exact_mut(2).for_each(<[u8]>::reverse);
    }
    // What a newline and a space of text look like in the output.
    let ebcdic = charset.filter(|set| !set.yields_ascii());
    let (newline, space) = (translated(b'\n', ebcdic, case, parity), translated(b' ', ebcdic, case, parity));
    match form {
        None => (bytes, 0),
        Some(Form::Block { cbs }) => block(&bytes, cbs, newline, space),
        Some(Form::Unblock { cbs }) => (unblock(&bytes, cbs, newline, space), 0),
    }
}

fn translated(byte: u8, charset: Option<Charset>, case: Option<Case>, parity: Option<Parity>) -> u8 {
    let mut byte = byte;
    if let Some(set) = charset
        && set.yields_ascii()
    {
        byte = set.table()[usize::from(byte)];
    }
    if parity.is_some() {
        byte %= 128;
    }
    match case {
        Some(Case::Lower) if byte.is_ascii_uppercase() => byte += 32,
        Some(Case::Upper) if byte.is_ascii_lowercase() => byte -= 32,
        Some(Case::Lower | Case::Upper) | None => {}
    }
    match parity {
        Some(Parity::Even) if !byte.count_ones().is_multiple_of(2) => byte += 128,
        Some(Parity::Odd) if byte.count_ones().is_multiple_of(2) => byte += 128,
        Some(Parity::Set) => byte += 128,
        Some(Parity::Even | Parity::Odd | Parity::None) | None => {}
    }
    if let Some(set) = charset
        && !set.yields_ascii()
    {
        byte = set.table()[usize::from(byte)];
    }
    byte
}

fn block(bytes: &[u8], cbs: usize, newline: u8, space: u8) -> (Vec<u8>, u64) {
    let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == newline).collect();
    // After the last newline there is a line only if it has a byte.
    if lines.last().is_some_and(|line| line.is_empty()) {
        lines.pop();
    }
    let mut output = Vec::new();
    for line in &lines {
        output.extend((0..cbs).map(|column| line.get(column).copied().unwrap_or(space)));
    }
    (output, lines.iter().filter(|line| line.len() > cbs).count() as u64)
}

fn unblock(bytes: &[u8], cbs: usize, newline: u8, space: u8) -> Vec<u8> {
    let mut output = Vec::new();
    for record in bytes.chunks(cbs) {
        let mut line = record.to_vec();
        while line.last() == Some(&space) {
            line.pop();
        }
        output.extend(line);
        output.push(newline);
    }
    output
}
