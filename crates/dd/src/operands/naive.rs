//! A second parser of numbers, for tests and fuzzing: slow, and written another way than the first. It takes a text apart
//! at each `x`, looks the end of each factor up among all that there are, and counts in 128 bits that saturate.

/// What a text comes to, as a value of `count=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Number { value: u64, in_bytes: bool, zero_multiplier: bool },
    Invalid,
    TooLarge,
}

pub(crate) fn read(text: &[u8]) -> Outcome {
    let factors: Vec<&[u8]> = text.split(|byte| *byte == b'x').collect();
    let largest = |factor: &[u8]| (0..=factor.len()).rev().find_map(|end| value(&factor[..end]));
    if value(factors[0]).is_none() && largest(factors[0]).is_some_and(|value| value > u128::from(u64::MAX)) {
        return Outcome::TooLarge;
    }
    let Some(product) = product(&factors) else { return Outcome::Invalid };
    match i64::try_from(product) {
        Err(_) => Outcome::TooLarge,
        Ok(value) => Outcome::Number {
            value: value.unsigned_abs(),
            in_bytes: text.contains(&b'B'),
            zero_multiplier: factors[..factors.len() - 1].contains(&&b"0"[..]),
        },
    }
}

fn product(factors: &[&[u8]]) -> Option<u128> {
    match factors {
        [] => Some(1),
        [first, rest @ ..] => Some(value(first)?.saturating_mul(product(rest)?)),
    }
}

/// The value of one whole factor.
fn value(factor: &[u8]) -> Option<u128> {
    let endings = endings();
    let ending = |text: &[u8]| endings.iter().find(|(known, _)| known.as_bytes() == text).map(|(_, value)| *value);
    let mut digits = String::new();
    let mut begun = false;
    for (at, byte) in factor.iter().enumerate() {
        match char::from(*byte) {
            ' ' | '\t' | '\n' | '\u{b}' | '\u{c}' | '\r' if !begun => {}
            '+' if !begun => begun = true,
            digit @ '0'..='9' => {
                begun = true;
                digits.push(digit);
            }
            _ if digits.is_empty() => break,
            _ => return Some(saturating(&digits).saturating_mul(ending(&factor[at..])?)),
        }
    }
    match digits.is_empty() {
        // No digits: what is there must be a suffix that stands alone.
        true if matches!(factor, [] | [b'B']) => None,
        true => ending(factor),
        false => Some(saturating(&digits)),
    }
}

/// More digits than 128 bits hold are as good as their largest.
fn saturating(digits: &str) -> u128 {
    digits.parse().unwrap_or(u128::MAX)
}

/// Everything that may follow the digits of a factor.
fn endings() -> Vec<(String, u128)> {
    let mut endings = vec![(String::new(), 1), ("B".to_owned(), 1)];
    for (letter, value) in [("c", 1), ("w", 2), ("b", 512)] {
        endings.push((letter.to_owned(), value));
        endings.push((format!("{letter}B"), value));
    }
    for (letters, power) in
        [("kK", 1), ("mM", 2), ("gG", 3), ("tT", 4), ("pP", 5), ("eE", 6), ("Z", 7), ("Y", 8), ("R", 9), ("Q", 10)]
    {
        for letter in letters.chars() {
            for (rest, base) in [("", 1024_u128), ("iB", 1024), ("B", 1000), ("D", 1000), ("DB", 1000)] {
                endings.push((format!("{letter}{rest}"), base.pow(power)));
            }
        }
    }
    endings
}
