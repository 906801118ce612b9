//! A tally as text: the summary and the progress line. Knows no clock: it is given the elapsed time.

use std::fmt::Write as _;
use std::time::Duration;

use crate::human::{self, Base};
use crate::operands::{MsgFmt, Status};
use crate::tally::Tally;

/// How the summary is worded.
#[derive(Clone, Debug)]
pub struct Style {
    pub status: Status,
    pub msgfmt: Option<MsgFmt>,
    pub decimal_point: String,
}

impl Style {
    /// Whether anything at all is said about a copy that went well.
    pub fn is_quiet(&self) -> bool {
        self.status == Status::None || self.msgfmt == Some(MsgFmt::Quiet)
    }
}

/// The lines at the end of a copy, or wherever a signal asks for them.
pub fn summary(tally: &Tally, elapsed: Duration, style: &Style) -> String {
    if style.is_quiet() {
        return String::new();
    }
    match &style.msgfmt {
        Some(MsgFmt::Posix) => posix(tally, elapsed, style, false),
        Some(MsgFmt::Human) => posix(tally, elapsed, style, true),
        Some(MsgFmt::Format(format)) => formatted(format, tally, elapsed, style),
        Some(MsgFmt::Quiet) | None => gnu(tally, elapsed, style),
    }
}

fn gnu(tally: &Tally, elapsed: Duration, style: &Style) -> String {
    let mut text = records(tally);
    match tally.truncated {
        0 => {}
        1 => text.push_str("1 truncated record\n"),
        many => text.push_str(&format!("{many} truncated records\n")),
    }
    if style.status != Status::NoXfer {
        text.push_str(&human::transferred(tally.bytes, elapsed, false, &style.decimal_point));
        text.push('\n');
    }
    text
}

fn records(tally: &Tally) -> String {
    let Tally { read, written, .. } = tally;
    format!("{}+{} records in\n{}+{} records out\n", read.full, read.partial, written.full, written.partial)
}

/// NetBSD's two fixed forms.
fn posix(tally: &Tally, elapsed: Duration, style: &Style, with_human: bool) -> String {
    let mut text = records(tally);
    if tally.truncated > 0 {
        let _ = writeln!(text, "{} truncated {}", tally.truncated, plural(tally.truncated));
    }
    if tally.sparse > 0 {
        let _ = writeln!(text, "{} sparse output {}", tally.sparse, plural_blocks(tally.sparse));
    }
    let point = &style.decimal_point;
    let (bytes, secs, rate) = (tally.bytes, milliseconds(elapsed, point), bytes_a_second(tally.bytes, elapsed));
    if with_human {
        let size = human::size(bytes, Base::Decimal, point);
        let human_rate = human::size(rate, Base::Decimal, point);
        let _ =
            writeln!(text, "{bytes} bytes ({size}) transferred in {secs} secs ({rate} bytes/sec - {human_rate}/sec)");
    } else {
        let _ = writeln!(text, "{bytes} bytes transferred in {secs} secs ({rate} bytes/sec)");
    }
    text
}

/// NetBSD's `%` format; what the letters mean is checked when the operand is read.
fn formatted(format: &[u8], tally: &Tally, elapsed: Duration, style: &Style) -> String {
    let point = &style.decimal_point;
    let rate = bytes_a_second(tally.bytes, elapsed);
    let mut text = String::new();
    let mut letters = String::from_utf8_lossy(format).into_owned().chars().collect::<Vec<_>>().into_iter();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            text.push(letter);
            continue;
        }
        let piece = match letters.next() {
            Some('b') => tally.bytes.to_string(),
            Some('B') => human::size(tally.bytes, Base::Decimal, point),
            Some('e') => rate.to_string(),
            Some('E') => human::size(rate, Base::Decimal, point),
            Some('i') => tally.read.partial.to_string(),
            Some('I') => tally.read.full.to_string(),
            Some('o') => tally.written.partial.to_string(),
            Some('O') => tally.written.full.to_string(),
            Some('s') => milliseconds(elapsed, point),
            Some('p') => tally.sparse.to_string(),
            Some('t') => tally.truncated.to_string(),
            // Odd-length swab blocks: a pair split by a block is joined here, so there are none.
            Some('w') => "0".to_owned(),
            Some('P') => plural_blocks(tally.sparse).to_owned(),
            Some('T') => plural_blocks(tally.truncated).to_owned(),
            Some('W') => plural_blocks(0).to_owned(),
            Some(other) => other.to_string(),
            None => String::new(),
        };
        text.push_str(&piece);
    }
    text
}

/// A digest as the BSDs write it.
pub fn digest(hash: &str, name: &str, digest: &[u8]) -> String {
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{hash} ({name}) = {hex}\n")
}

fn plural(count: u64) -> &'static str {
    if count == 1 { "record" } else { "records" }
}

fn plural_blocks(count: u64) -> &'static str {
    if count == 1 { "block" } else { "blocks" }
}

fn milliseconds(elapsed: Duration, point: &str) -> String {
    format!("{}{point}{:03}", elapsed.as_secs(), elapsed.subsec_millis())
}

fn bytes_a_second(bytes: u64, elapsed: Duration) -> u64 {
    let nanos = elapsed.as_nanos().max(1);
    u64::try_from(u128::from(bytes) * 1_000_000_000 / nanos).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Records;

    fn style(msgfmt: Option<MsgFmt>) -> Style {
        Style { status: Status::Default, msgfmt, decimal_point: ".".to_owned() }
    }

    const TALLY: Tally = Tally {
        read: Records { full: 2, partial: 1 },
        written: Records { full: 3, partial: 0 },
        truncated: 1,
        bytes: 1536,
        sparse: 2,
    };

    #[test]
    fn truncated_records_are_told_between_records_and_bytes() {
        let text = summary(&TALLY, Duration::from_millis(500), &style(None));
        let expected = "2+1 records in\n3+0 records out\n1 truncated record\n\
                        1536 bytes (1.5 kB, 1.5 KiB) copied, 0.5 s, 3.1 kB/s\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn noxfer_leaves_the_last_line_out_and_none_says_nothing() {
        let mut quiet = style(None);
        quiet.status = Status::NoXfer;
        let tally = Tally { truncated: 2, ..TALLY };
        assert_eq!(summary(&tally, Duration::ZERO, &quiet), "2+1 records in\n3+0 records out\n2 truncated records\n");
        quiet.status = Status::None;
        assert_eq!(summary(&tally, Duration::ZERO, &quiet), "");
    }

    #[test]
    fn netbsd_formats_fill_in_each_letter() {
        let format = MsgFmt::Format(b"%b %B %e %E %i %I %o %O %s %p %P %t %T %w %W %%\n".to_vec());
        assert_eq!(
            summary(&TALLY, Duration::from_millis(500), &style(Some(format))),
            "1536 1.5 kB 3072 3.1 kB 1 2 0 3 0.500 2 blocks 1 block 0 blocks %\n"
        );
        assert_eq!(
            summary(&TALLY, Duration::from_millis(500), &style(Some(MsgFmt::Posix))),
            "2+1 records in\n3+0 records out\n1 truncated record\n2 sparse output blocks\n\
             1536 bytes transferred in 0.500 secs (3072 bytes/sec)\n"
        );
        assert_eq!(summary(&TALLY, Duration::ZERO, &style(Some(MsgFmt::Quiet))), "");
    }
}
