//! Sizes, times and rates as people read them, by the two ways of rounding that GNU dd has.
//!
//! Sizes, and rates where the time divides evenly, are exact and round half to even. Every other rate goes through
//! `long double` in GNU dd and shows how that rounds; `Extended` does the same on any machine.

use std::cmp::Ordering;
use std::time::Duration;

const NANOS: u64 = 1_000_000_000;

/// The prefixes of 1000 and of 1024, by power.
const DECIMAL: [&str; 11] = ["", "k", "M", "G", "T", "P", "E", "Z", "Y", "R", "Q"];
const BINARY: [&str; 11] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "Zi", "Yi", "Ri", "Qi"];

/// The line that says how much was copied, how long it took and how fast that was, without its newline. A progress
/// line has whole seconds.
pub fn transferred(bytes: u64, elapsed: Duration, progress: bool, decimal_point: &str) -> String {
    let sizes = match bytes {
        1 => "1 byte".to_owned(),
        0..1000 => format!("{bytes} bytes"),
        1000..1024 => format!("{bytes} bytes ({})", size(bytes, Base::Decimal, decimal_point)),
        1024.. => format!(
            "{bytes} bytes ({}, {})",
            size(bytes, Base::Decimal, decimal_point),
            size(bytes, Base::Binary, decimal_point)
        ),
    };
    let seconds = if progress { whole_seconds(elapsed) } else { seconds(elapsed, decimal_point) };
    format!("{sizes} copied, {seconds} s, {}", rate(bytes, elapsed, decimal_point))
}

/// What a unit is a power of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// 1000: `kB`, `MB`.
    Decimal,
    /// 1024: `KiB`, `MiB`.
    Binary,
}

impl Base {
    fn value(self) -> u128 {
        match self {
            Self::Decimal => 1000,
            Self::Binary => 1024,
        }
    }

    fn prefix(self, power: usize) -> &'static str {
        match self {
            Self::Decimal => DECIMAL[power],
            Self::Binary => BINARY[power],
        }
    }
}

/// A size with its unit: `57 MiB`, `1.0 kB`.
pub fn size(bytes: u64, base: Base, decimal_point: &str) -> String {
    exact(u128::from(bytes), 1, base, decimal_point)
}

/// Bytes a second, in powers of 1000: `1.4 GB/s`.
pub fn rate(bytes: u64, elapsed: Duration, decimal_point: &str) -> String {
    let nanos = elapsed.as_nanos();
    let second = u128::from(NANOS);
    let text = if nanos == 0 {
        "Infinity B".to_owned()
    } else if let Some(product) = per_second(bytes, nanos) {
        exact(u128::from(product), 1, Base::Decimal, decimal_point)
    } else if nanos.is_multiple_of(second) {
        exact(u128::from(bytes), nanos / second, Base::Decimal, decimal_point)
    } else {
        rounded(bytes, nanos, decimal_point)
    };
    text + "/s"
}

/// Bytes a second where the time goes into a second without rest and the product into 64 bits.
fn per_second(bytes: u64, nanos: u128) -> Option<u64> {
    let nanos = u64::try_from(nanos).ok()?;
    NANOS.is_multiple_of(nanos).then(|| bytes.checked_mul(NANOS / nanos))?
}

/// `amount / divisor` to the nearest that is shown, ties to even: tenths below ten of a unit, else whole ones.
fn exact(amount: u128, divisor: u128, base: Base, decimal_point: &str) -> String {
    let mut power = 0;
    let mut unit = divisor;
    while amount / unit >= base.value() && power + 1 < DECIMAL.len() {
        unit *= base.value();
        power += 1;
    }
    if power > 0 && amount < 10 * unit {
        let tenths = nearest(10 * amount, unit);
        if tenths < 100 {
            return format!("{}{decimal_point}{} {}B", tenths / 10, tenths % 10, base.prefix(power));
        }
    }
    let whole = nearest(amount, unit);
    if whole == base.value() && power + 1 < DECIMAL.len() {
        return format!("1{decimal_point}0 {}B", base.prefix(power + 1));
    }
    format!("{whole} {}B", base.prefix(power))
}

/// The nearest whole number to `amount / divisor`, the even one of two.
fn nearest(amount: u128, divisor: u128) -> u128 {
    let (whole, rest) = (amount / divisor, amount % divisor);
    match rest.cmp(&(divisor - rest)) {
        Ordering::Less => whole,
        Ordering::Equal => whole + (whole & 1),
        Ordering::Greater => whole + 1,
    }
}

/// A rate by way of `long double`. GNU: never below kB, one decimal if that makes four characters at most, and no step
/// to the next unit after rounding (`1000 kB/s`).
fn rounded(bytes: u64, nanos: u128, decimal_point: &str) -> String {
    let thousand = Extended::from(1000);
    let rate = Extended::from(bytes) * (Extended::from(NANOS) / Extended::from_u128(nanos));
    let mut unit = thousand;
    let mut power = 1;
    while unit * thousand <= rate && power + 1 < DECIMAL.len() {
        unit = unit * thousand;
        power += 1;
    }
    let shown = rate / unit;
    let tenths = shown.times_ten_to_nearest();
    let prefix = Base::Decimal.prefix(power);
    if tenths < 1000 {
        format!("{}{decimal_point}{} {prefix}B", tenths / 10, tenths % 10)
    } else {
        format!("{} {prefix}B", shown.to_nearest())
    }
}

/// Seconds with six significant digits, as C's `%g` has them: `0.0427974`, `3.0315e-05`.
pub fn seconds(elapsed: Duration, decimal_point: &str) -> String {
    let scientific = format!("{:.5e}", as_double(elapsed));
    let (digits, exponent) = scientific.split_once('e').expect("scientific notation has an exponent");
    let exponent: i32 = exponent.parse().expect("the exponent is a small number");
    let text = match exponent {
        -4..6 => {
            let decimals = usize::try_from(5 - exponent).expect("the exponent is at most 5");
            without_zeros(&format!("{:.decimals$}", as_double(elapsed))).to_owned()
        }
        _ => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{}e{sign}{:02}", without_zeros(digits), exponent.unsigned_abs())
        }
    };
    text.replacen('.', decimal_point, 1)
}

fn whole_seconds(elapsed: Duration) -> String {
    format!("{:.0}", as_double(elapsed))
}

/// Not `as_secs_f64`, which rounds twice: GNU divides once.
fn as_double(elapsed: Duration) -> f64 {
    elapsed.as_nanos() as f64 / 1e9
}

fn without_zeros(decimal: &str) -> &str {
    if decimal.contains('.') { decimal.trim_end_matches('0').trim_end_matches('.') } else { decimal }
}

/// A positive number of 64 significant bits, or zero: the `long double` of x86, with each operation rounded to the
/// nearest, ties to even.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extended {
    /// The highest bit is set, but for zero.
    digits: u64,
    /// The power of two that `digits` is multiplied by.
    exponent: i32,
}

impl Extended {
    const ZERO: Self = Self { digits: 0, exponent: 0 };

    fn from_u128(value: u128) -> Self {
        Self::round(value, 0)
    }

    /// `value * 2^exponent`, to 64 bits.
    fn round(value: u128, exponent: i32) -> Self {
        if value == 0 {
            return Self::ZERO;
        }
        let excess = 64 - i32::try_from(value.leading_zeros()).expect("at most 128");
        if excess <= 0 {
            let digits = u64::try_from(value << excess.unsigned_abs()).expect("64 bits are left");
            return Self { digits, exponent: exponent + excess };
        }
        let kept = value >> excess;
        let dropped = value & ((1 << excess) - 1);
        let up = match dropped.cmp(&(1 << (excess - 1))) {
            Ordering::Less => false,
            Ordering::Equal => kept & 1 == 1,
            Ordering::Greater => true,
        };
        match u64::try_from(kept + u128::from(up)) {
            Ok(digits) => Self { digits, exponent: exponent + excess },
            // All ones went up to the next power of two.
            Err(_) => Self { digits: 1 << 63, exponent: exponent + excess + 1 },
        }
    }

    fn to_nearest(self) -> u128 {
        whole(u128::from(self.digits), self.exponent)
    }

    fn times_ten_to_nearest(self) -> u128 {
        whole(10 * u128::from(self.digits), self.exponent)
    }
}

/// The whole number nearest to `value * 2^exponent`, the even one of two.
fn whole(value: u128, exponent: i32) -> u128 {
    match u32::try_from(-exponent) {
        Ok(shift) if shift < 127 => nearest(value, 1 << shift),
        // Smaller than a half.
        Ok(_) => 0,
        Err(_) => value << exponent,
    }
}

impl From<u64> for Extended {
    fn from(value: u64) -> Self {
        Self::from_u128(u128::from(value))
    }
}

impl std::ops::Mul for Extended {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        Self::round(u128::from(self.digits) * u128::from(other.digits), self.exponent + other.exponent)
    }
}

impl std::ops::Div for Extended {
    type Output = Self;

    fn div(self, other: Self) -> Self {
        if self.digits == 0 {
            return Self::ZERO;
        }
        // Both have their highest bit set, so that the quotient has 64 or 65 bits. Two more, and one that stands for
        // all the rest, decide how it is rounded.
        let (amount, divisor) = (u128::from(self.digits) << 64, u128::from(other.digits));
        let (quotient, rest) = (amount / divisor, amount % divisor);
        let (more, rest) = ((rest << 2) / divisor, (rest << 2) % divisor);
        let bits = (quotient << 3) | (more << 1) | u128::from(rest != 0);
        Self::round(bits, self.exponent - other.exponent - 67)
    }
}

impl PartialOrd for Extended {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(match (self.digits, other.digits) {
            (0, _) | (_, 0) => self.digits.cmp(&other.digits),
            _ => (self.exponent, self.digits).cmp(&(other.exponent, other.digits)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_gnu_dd() {
        let mut rows = 0;
        for row in include_str!("../tests/data/transferred.tsv").lines().filter(|row| !row.starts_with('#')) {
            let mut cells = row.split('\t');
            let mut cell = || cells.next().expect("a row has three cells");
            let (bytes, nanos, line) = (cell(), cell(), cell());
            let elapsed = Duration::from_nanos(nanos.parse().expect("nanoseconds"));
            assert_eq!(transferred(bytes.parse().expect("bytes"), elapsed, false, "."), line, "{bytes} in {nanos} ns");
            rows += 1;
        }
        assert!(rows > 150, "{rows}");
    }

    #[test]
    fn sizes_round_half_to_even_and_step_to_the_next_unit() {
        for (bytes, decimal, binary) in [
            (1023, "1.0 kB", "1023 B"),
            (1024, "1.0 kB", "1.0 KiB"),
            (1049, "1.0 kB", "1.0 KiB"),
            (1050, "1.0 kB", "1.0 KiB"),
            (1051, "1.1 kB", "1.0 KiB"),
            (1150, "1.2 kB", "1.1 KiB"),
            (1250, "1.2 kB", "1.2 KiB"),
            (9949, "9.9 kB", "9.7 KiB"),
            (9950, "10 kB", "9.7 KiB"),
            (10_499, "10 kB", "10 KiB"),
            (10_500, "10 kB", "10 KiB"),
            (11_500, "12 kB", "11 KiB"),
            (99_999, "100 kB", "98 KiB"),
            (999_499, "999 kB", "976 KiB"),
            (999_500, "1.0 MB", "976 KiB"),
            (1_023_999, "1.0 MB", "1000 KiB"),
            (1_048_575, "1.0 MB", "1.0 MiB"),
            (10_485_760, "10 MB", "10 MiB"),
            (59_703_296, "60 MB", "57 MiB"),
            (10_737_418_240, "11 GB", "10 GiB"),
            (9_223_372_036_854_775_806, "9.2 EB", "8.0 EiB"),
            (u64::MAX, "18 EB", "16 EiB"),
        ] {
            assert_eq!(size(bytes, Base::Decimal, "."), decimal, "{bytes}");
            assert_eq!(size(bytes, Base::Binary, "."), binary, "{bytes}");
        }
    }

    #[test]
    fn one_byte_is_singular_and_units_begin_at_a_thousand() {
        let line = |bytes| transferred(bytes, Duration::from_secs(1), false, ".");
        assert_eq!(line(0), "0 bytes copied, 1 s, 0 B/s");
        assert_eq!(line(1), "1 byte copied, 1 s, 1 B/s");
        assert_eq!(line(999), "999 bytes copied, 1 s, 999 B/s");
        assert_eq!(line(1000), "1000 bytes (1.0 kB) copied, 1 s, 1.0 kB/s");
        assert_eq!(line(1023), "1023 bytes (1.0 kB) copied, 1 s, 1.0 kB/s");
        assert_eq!(line(1024), "1024 bytes (1.0 kB, 1.0 KiB) copied, 1 s, 1.0 kB/s");
    }

    #[test]
    fn rates_take_the_exact_way_only_where_the_time_divides() {
        let rate = |bytes, nanos| rate(bytes, Duration::from_nanos(nanos), ".");
        assert_eq!(rate(7, 0), "Infinity B/s");
        assert_eq!(rate(500, 1_000_000_000), "500 B/s");
        assert_eq!(rate(500, 1_000_000_001), "0.5 kB/s");
        assert_eq!(rate(13, 2_000_000_000), "6 B/s");
        assert_eq!(rate(15, 2_000_000_000), "8 B/s");
        assert_eq!(rate(500, 500_000_000), "1.0 kB/s");
        // No step to the next unit on the other way.
        assert_eq!(rate(999_999, 1_000_000_001), "1000 kB/s");
        // The product does not fit 64 bits: the other way again.
        assert_eq!(rate(u64::MAX, 1), "18.4 RB/s");
        assert_eq!(rate(0, 3), "0.0 kB/s");
    }

    #[test]
    fn a_progress_line_has_whole_seconds_halves_to_even() {
        for (millis, seconds) in
            [(1000, "1"), (1500, "2"), (2500, "2"), (3499, "3"), (3500, "4"), (12_345_500, "12346")]
        {
            let line = transferred(0, Duration::from_millis(millis), true, ".");
            assert!(line.starts_with(&format!("0 bytes copied, {seconds} s, ")), "{line}");
        }
    }

    #[test]
    fn the_decimal_point_is_that_of_the_locale_everywhere() {
        assert_eq!(
            transferred(1500, Duration::from_millis(30), false, ","),
            "1500 bytes (1,5 kB, 1,5 KiB) copied, 0,03 s, 50,0 kB/s"
        );
        assert_eq!(seconds(Duration::from_nanos(30_315), ","), "3,0315e-05");
    }

    #[test]
    fn seconds_have_six_digits_and_an_exponent_where_c_has_one() {
        for (nanos, text) in [
            (0, "0"),
            (1, "1e-09"),
            (30_315, "3.0315e-05"),
            (99_999_950, "0.1"),
            (99_999, "9.9999e-05"),
            (100_000, "0.0001"),
            (42_797_400, "0.0427974"),
            (1_000_000_500, "1"),
            (1_000_001_500, "1"),
            (1_000_005_500, "1.00001"),
            (999_999_500_000_000, "1e+06"),
            (999_999_400_000_000, "999999"),
            (100_000_500_000_000, "100000"),
            (100_001_500_000_000, "100002"),
            (1_234_567_000_000_000, "1.23457e+06"),
        ] {
            assert_eq!(seconds(Duration::from_nanos(nanos), "."), text, "{nanos}");
        }
    }
}
