//! dd's summary as text: its time and rate are checked for their shape and then made equal, so that the rest can be
//! compared literally.

/// Replaces the time and the rate of each `N bytes copied, T s, R` by these letters. A line whose time or rate does not
/// look like dd's, or whose rate is not bytes by time, stays as it is.
pub(crate) fn normalised(stderr: &[u8]) -> String {
    let text = match std::str::from_utf8(stderr) {
        Ok(text) => text.to_owned(),
        Err(_) => {
            stderr.iter().map(|&b| if b < 0x80 { char::from(b).to_string() } else { format!("\\x{b:02x}") }).collect()
        }
    };
    text.split_inclusive('\n').map(normal_line).collect()
}

fn normal_line(line: &str) -> String {
    let (body, end) = match line.strip_suffix('\n') {
        Some(body) => (body, "\n"),
        None => (line, ""),
    };
    let normal = || {
        let (head, rest) = body.split_once(" copied, ")?;
        let (time, rate) = rest.split_once(" s, ")?;
        let bytes: f64 = head.trim_start_matches('\r').split(' ').next()?.parse().ok()?;
        (general(time) && rate_fits(bytes, time.parse().ok()?, rate)).then(|| format!("{head} copied, T s, R{end}"))
    };
    normal().unwrap_or_else(|| line.to_owned())
}

/// The same without lines of progress, which come where a copy takes more than a second.
pub(crate) fn without_progress(text: &str) -> String {
    let is_progress =
        |line: &str| line.strip_prefix('\r').is_some_and(|rest| rest.split('\r').all(|one| one.contains(" copied, ")));
    text.split_inclusive('\n').filter(|line| !is_progress(line)).collect()
}

/// C's `%g`: at most six significant digits, no zeros at the end of a fraction, an exponent below 1e-4 or from 1e6 on.
pub(crate) fn general(text: &str) -> bool {
    let (mantissa, exponent) = match text.split_once('e') {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    let significant = digits.trim_start_matches('0').len();
    let well_formed = digits.chars().all(|c| c.is_ascii_digit())
        && !digits.is_empty()
        && mantissa.matches('.').count() <= 1
        && !mantissa.starts_with('.')
        && !(mantissa.contains('.') && mantissa.ends_with(['0', '.']));
    let Ok(value) = text.parse::<f64>() else { return false };
    let exponent_fits = match exponent {
        Some(exponent) => {
            exponent.len() >= 3
                && exponent.starts_with(['+', '-'])
                && !(1e-4..1e6).contains(&value)
                && !mantissa.starts_with('0')
        }
        None => value == 0.0 || (1e-4..1e6).contains(&value),
    };
    well_formed && significant <= 6 && exponent_fits
}

/// `736 MB/s`, `45.9 MB/s`, `0.0 kB/s`, `Infinity B/s`; and equal to bytes by time within the digits that are shown.
fn rate_fits(bytes: f64, elapsed: f64, rate: &str) -> bool {
    const UNITS: [&str; 7] = ["B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s", "EB/s"];
    let Some((number, unit)) = rate.split_once(' ') else { return false };
    if number == "Infinity" {
        return unit == "B/s" && elapsed == 0.0;
    }
    let Some(power) = UNITS.iter().position(|known| *known == unit) else { return false };
    let Ok(value) = number.parse::<f64>() else { return false };
    let decimals = number.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    if decimals > 1 || number.len() > 4 || number.starts_with('.') {
        return false;
    }
    let scale = (0..power).fold(1.0, |scale, _| scale * 1000.0);
    let shown = value * scale;
    let right = bytes / elapsed;
    // The last digit shown may be one off, and the time was rounded to six digits.
    let step = if decimals == 1 { 0.1 } else { 1.0 };
    (shown - right).abs() <= step * scale + right * 1e-5
}

/// Expands `{A B N}` to the three lines of a summary with A records in, B out, and N bytes.
/// `{A B 2048 (2.0 kB, 2.0 KiB)}` names the sizes; `{A B N | 1 truncated record}` has a fourth line.
pub(crate) fn expanded(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((summary, after)) = after.split_once('}') else { break };
        let mut words = summary.splitn(3, ' ');
        let (Some(read), Some(written), Some(size)) = (words.next(), words.next(), words.next()) else {
            // Braces of a message: `cannot combine any two of {ascii,ebcdic,ibm}`.
            out.push_str(before);
            out.push_str(&format!("{{{summary}}}"));
            rest = after;
            continue;
        };
        let (size, truncated) = match size.split_once(" | ") {
            Some((size, truncated)) => (size, format!("{truncated}\n")),
            None => (size, String::new()),
        };
        let size = match size.split_once(' ') {
            Some((bytes, sizes)) => format!("{bytes} bytes {sizes}"),
            None if size == "1" => "1 byte".to_owned(),
            None => format!("{size} bytes"),
        };
        out.push_str(&format!("{before}{read} records in\n{written} records out\n{truncated}{size} copied, T s, R\n"));
        rest = after;
    }
    out + rest
}

#[test]
fn lines_of_progress_are_passed_over_and_nothing_else() {
    let summary = "1+0 records in\n1+0 records out\n512 bytes copied, T s, R\n";
    let progress = "\r512 bytes copied, 1 s, 512 B/s\r512 bytes copied, 2 s, 256 B/s\n";
    assert_eq!(without_progress(&format!("{progress}{summary}")), summary);
    assert_eq!(without_progress(&format!("{progress}dd: x\n{progress}{summary}")), format!("dd: x\n{summary}"));
    for kept in [summary, "\rdd: x\n", "\r1 byte copied, 1 s, 1 B/s\rdd: x\n", "\n"] {
        assert_eq!(without_progress(kept), kept);
    }
}

#[test]
fn general_numbers_have_six_digits_and_no_idle_zeros() {
    for right in ["0", "1", "0.0427974", "3.0315e-05", "12.5", "1e-05", "711.6", "1e+06"] {
        assert!(general(right), "{right}");
    }
    for wrong in ["", ".5", "1.0", "0.00003", "1234567", "0.1234567", "1e-5", "1e-02", "5.", "x", "1.2.3"] {
        assert!(!general(wrong), "{wrong}");
    }
}

#[test]
fn a_rate_that_is_not_bytes_by_time_is_not_passed_over() {
    assert_eq!(normalised(b"1000 bytes (1.0 kB) copied, 0.5 s, 2.0 kB/s\n"), "1000 bytes (1.0 kB) copied, T s, R\n");
    for wrong in
        ["3 bytes copied, 0.5 s, 2.0 kB/s\n", "3 bytes copied, 0.50 s, 0.0 kB/s\n", "3 bytes copied, 1 s, 3.00 B/s\n"]
    {
        assert_eq!(normalised(wrong.as_bytes()), wrong);
    }
}

#[test]
fn a_summary_in_braces_becomes_its_lines() {
    assert_eq!(expanded("x{0+1 2+0 1}y"), "x0+1 records in\n2+0 records out\n1 byte copied, T s, R\ny");
    assert_eq!(
        expanded("{0+1 0+1 2048 (2.0 kB, 2.0 KiB) | 1 truncated record}"),
        "0+1 records in\n0+1 records out\n1 truncated record\n2048 bytes (2.0 kB, 2.0 KiB) copied, T s, R\n"
    );
    assert_eq!(expanded("any two of {a,b}\n"), "any two of {a,b}\n");
}
