//! Numbers as dd reads them: `FACTORxFACTORx...`, each with a suffix and perhaps a `B`. No ranges: the tables hold those.

/// What a well-formed number says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parsed {
    pub(super) value: u64,
    /// A `B` stood somewhere in it.
    pub(super) in_bytes: bool,
    /// A factor began with `0x`, as hexadecimal would elsewhere.
    pub(super) zero_multiplier: bool,
}

/// Why a text is no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NumberError {
    Invalid,
    TooLarge,
}

/// Reads a whole text as one number.
pub(super) fn parse(text: &[u8]) -> Result<Parsed, NumberError> {
    let mut product = Magnitude::ONE;
    let mut zero_multiplier = false;
    let mut rest = text;
    let mut first = true;
    // A loop and not a recursion: a chain may be as long as the command line.
    loop {
        zero_multiplier |= rest.starts_with(b"0x");
        let (factor, after) = factor(rest)?;
        product = product.times(factor);
        match after {
            [] => break,
            [b'x', more @ ..] => rest = more,
            // GNU: a first factor that is too large is called so, whatever stands behind it.
            [..] if first && factor == Magnitude::TooLarge => return Err(NumberError::TooLarge),
            [..] => return Err(NumberError::Invalid),
        }
        first = false;
    }
    match product {
        Magnitude::Exact(value) => Ok(Parsed { value, in_bytes: text.contains(&b'B'), zero_multiplier }),
        Magnitude::TooLarge => Err(NumberError::TooLarge),
    }
}

/// A product so far. What is too large stays so until a zero takes it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Magnitude {
    Exact(u64),
    TooLarge,
}

impl Magnitude {
    const ONE: Self = Self::Exact(1);

    fn times(self, other: Self) -> Self {
        match (self, other) {
            (Self::Exact(0), _) | (_, Self::Exact(0)) => Self::Exact(0),
            (Self::Exact(a), Self::Exact(b)) => a.checked_mul(b).map_or(Self::TooLarge, Self::Exact),
            (Self::TooLarge, _) | (_, Self::TooLarge) => Self::TooLarge,
        }
    }
}

/// Reads digits, a suffix and a `B` from the front: their value, and what follows them.
fn factor(text: &[u8]) -> Result<(Magnitude, &[u8]), NumberError> {
    let (digits, rest) = digits(text);
    // A suffix may stand alone (`bs=k`), but not behind blanks or a sign.
    let (count, rest) = match digits {
        Some(count) => (count, rest),
        None => (Magnitude::ONE, text),
    };
    let (unit, rest) = match suffix(rest) {
        Some(found) => found,
        None if digits.is_some() => (Magnitude::ONE, rest),
        None => return Err(NumberError::Invalid),
    };
    let before = text[..text.len() - rest.len()].last();
    let rest = match rest {
        [b'B', more @ ..] if before != Some(&b'B') => more,
        _ => rest,
    };
    Ok((count.times(unit), rest))
}

/// Blanks, perhaps a plus, and decimal digits, as `strtoumax` takes them.
fn digits(text: &[u8]) -> (Option<Magnitude>, &[u8]) {
    let blanks = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t'..=b'\r')).count();
    let unsigned = text[blanks..].strip_prefix(b"+").unwrap_or(&text[blanks..]);
    let length = unsigned.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if length == 0 {
        return (None, text);
    }
    let (digits, rest) = unsigned.split_at(length);
    let value =
        digits.iter().try_fold(0u64, |value, digit| value.checked_mul(10)?.checked_add(u64::from(digit - b'0')));
    (Some(value.map_or(Magnitude::TooLarge, Magnitude::Exact)), rest)
}

/// A letter and what chooses its base: nothing or `iB` for 1024, `B` or `D` for 1000.
fn suffix(text: &[u8]) -> Option<(Magnitude, &[u8])> {
    let (letter, rest) = text.split_first()?;
    let power = match letter {
        b'c' => return Some((Magnitude::ONE, rest)),
        b'w' => return Some((Magnitude::Exact(2), rest)),
        b'b' => return Some((Magnitude::Exact(512), rest)),
        b'k' | b'K' => 1,
        // GNU refuses the lower case from here to `e`; BSD's dd reads it so.
        b'm' | b'M' => 2,
        b'g' | b'G' => 3,
        b't' | b'T' => 4,
        b'p' | b'P' => 5,
        b'e' | b'E' => 6,
        b'Z' => 7,
        b'Y' => 8,
        b'R' => 9,
        b'Q' => 10,
        _ => return None,
    };
    let (base, rest) = match rest {
        [b'i', b'B', more @ ..] => (1024u64, more),
        [b'B' | b'D', more @ ..] => (1000, more),
        _ => (1024, rest),
    };
    Some((base.checked_pow(power).map_or(Magnitude::TooLarge, Magnitude::Exact), rest))
}
