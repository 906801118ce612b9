//! What each command line means or how it is refused: literal tables, and the same tables put to the installed GNU dd.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Stdio};

use proptest::prelude::*;

use super::naive;
use super::number::{self, NumberError};
use super::{Conv, Flag, MsgFmt, Number, Operands, Reflink, Request, Status, Warning, parse};
use crate::quote::Locale;

const ASCII: Locale = Locale { utf8: false };

fn args(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

fn copy(words: &[&str]) -> Operands {
    let parsed = parse(&args(words), false, ASCII);
    match parsed.request {
        Ok(Request::Copy(operands)) => *operands,
        other => panic!("{words:?}: {other:?}"),
    }
}

/// Whom a row speaks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum For {
    /// fdd and every GNU dd.
    Both,
    /// fdd and a GNU dd newer than 9.3.
    Newer,
    /// fdd alone.
    Fdd,
}
use For::{Both, Fdd, Newer};

const OK: &str = "";
const HELP: &str = "<help>";
const VERSION: &str = "<version>";

/// A command line with blanks between its words, and its outcome: the error and, where it follows, `+ Try`.
const LINES: &[(For, &str, &str)] = &[
    (Both, "foo", "unrecognized operand 'foo' + Try"),
    (Both, "foo bar", "unrecognized operand 'foo' + Try"),
    (Both, "=", "unrecognized operand '=' + Try"),
    (Both, "=x", "unrecognized operand '=x' + Try"),
    (Both, "bs", "unrecognized operand 'bs' + Try"),
    (Both, "Bs=1", "unrecognized operand 'Bs=1' + Try"),
    (Both, "b=1", "unrecognized operand 'b=1' + Try"),
    (Both, "it's", r"unrecognized operand 'it\'s' + Try"),
    (Both, "foo=99999999999999999999999", "unrecognized operand 'foo=99999999999999999999999' + Try"),
    (Both, "foo=0x5", "<0x> unrecognized operand 'foo=0x5' + Try"),
    (Both, "bs=0x1", "<0x> invalid number: '0x1'"),
    (Both, "count=0x0 skip=0x0 foo", "<0x> <0x> unrecognized operand 'foo' + Try"),
    (Both, "bs=x foo", "invalid number: 'x'"),
    (Both, "foo bs=x", "unrecognized operand 'foo' + Try"),
    (Both, "conv=zz bs=x", "invalid conversion: 'zz' + Try"),
    (Both, "conv=lcase,foo,bar", "invalid conversion: 'foo' + Try"),
    (Both, "conv=", "invalid conversion: '' + Try"),
    (Both, "conv=,sync", "invalid conversion: '' + Try"),
    (Both, "conv=sync,", "invalid conversion: '' + Try"),
    (Both, "conv=syn", "invalid conversion: 'syn' + Try"),
    (Both, "conv=SYNC", "invalid conversion: 'SYNC' + Try"),
    (Both, "conv=sync=", "invalid conversion: 'sync=' + Try"),
    (Both, "iflag=", "invalid input flag: '' + Try"),
    (Both, "iflag=foo,bar", "invalid input flag: 'foo' + Try"),
    (Both, "iflag=binary", "invalid input flag: 'binary' + Try"),
    (Both, "iflag=cio", "invalid input flag: 'cio' + Try"),
    (Both, "oflag=text", "invalid output flag: 'text' + Try"),
    (Both, "oflag=nolinks", "invalid output flag: 'nolinks' + Try"),
    (Both, "status=", "invalid status level: '' + Try"),
    (Both, "status=foo", "invalid status level: 'foo' + Try"),
    (Both, "status=none,", "invalid status level: '' + Try"),
    (Both, "status=default", "invalid status level: 'default' + Try"),
    (Both, "status=none,noxfer", OK),
    (Both, "iflag=append,seek_bytes oflag=count_bytes,skip_bytes", OK),
    (Both, "--", OK),
    (Both, "-- --help", "unrecognized operand '--help' + Try"),
    (Both, "-- --", "unrecognized operand '--' + Try"),
    (Both, "-- -x", "unrecognized operand '-x' + Try"),
    (Both, "foo -- --help", "unrecognized operand 'foo' + Try"),
    (Both, "bs=1 -- bs=x", "invalid number: 'x'"),
    (Both, "-", "unrecognized operand '-' + Try"),
    (Both, "--help", HELP),
    (Both, "--he", HELP),
    (Both, "--h", HELP),
    (Both, "--version", VERSION),
    (Both, "--v", VERSION),
    (Both, "foo --help", HELP),
    (Both, "foo --v bs=x", VERSION),
    (Both, "--help --x", HELP),
    (Both, "--help --version", HELP),
    (Both, "--version --help", VERSION),
    (Both, "--x --help", "unrecognized option '--x' + Try"),
    (Both, "--x=3", "unrecognized option '--x=3' + Try"),
    (Both, "a=1 --bad b", "unrecognized option '--bad' + Try"),
    (Both, "--helpx", "unrecognized option '--helpx' + Try"),
    (Both, "--it's", "unrecognized option '--it's' + Try"),
    (Both, "---help", "unrecognized option '---help' + Try"),
    (Both, "--help=3", "option '--help' doesn't allow an argument + Try"),
    (Both, "--he=", "option '--help' doesn't allow an argument + Try"),
    (Both, "--version=", "option '--version' doesn't allow an argument + Try"),
    (Both, "--=", "option '--=' is ambiguous; possibilities: '--help' '--version' + Try"),
    (Both, "--=x", "option '--=x' is ambiguous; possibilities: '--help' '--version' + Try"),
    (Both, "-x", "invalid option -- 'x' + Try"),
    (Both, "-xy", "invalid option -- 'x' + Try"),
    (Both, "-h", "invalid option -- 'h' + Try"),
    (Both, "foo -x", "invalid option -- 'x' + Try"),
    (Fdd, "fillchar=", "invalid fill character: '' + Try"),
    (Fdd, "fillchar=ab", "invalid fill character: 'ab' + Try"),
    (Fdd, "msgfmt=%q", "invalid message format: '%q' + Try"),
    (Fdd, "msgfmt=50%", "invalid message format: '50%' + Try"),
    (Fdd, "reflink=", "invalid reflink mode: '' + Try"),
    (Fdd, "reflink=maybe", "invalid reflink mode: 'maybe' + Try"),
    (Fdd, "start=101", "invalid percentage: '101' + Try"),
    (Fdd, "stop=", "invalid percentage: '' + Try"),
    (Fdd, "stop=%", "invalid percentage: '%' + Try"),
    (Fdd, "stop=+5", "invalid percentage: '+5' + Try"),
    (Fdd, "lost=maybe", "invalid policy for lost data: 'maybe' + Try"),
    (Fdd, "buffer=0", "invalid number: '0'"),
    (Fdd, "files=0", "invalid number: '0'"),
    (Fdd, "speed=0", "invalid number: '0'"),
];

/// A value of `count=` with what it comes to. `INVALID` and `TOO_LARGE` are its two errors.
const NUMBERS: &[(For, &str, Outcome)] = &[
    (Both, "0", Blocks(0)),
    (Both, "05", Blocks(5)),
    (Both, "+5", Blocks(5)),
    (Both, " 5", Blocks(5)),
    (Both, "\t\n\x0b\x0c\r +5", Blocks(5)),
    (Both, "5c", Blocks(5)),
    (Both, "5w", Blocks(10)),
    (Both, "5b", Blocks(2560)),
    (Both, "k", Blocks(1024)),
    (Both, "5k", Blocks(5120)),
    (Both, "5K", Blocks(5120)),
    (Both, "3M", Blocks(3 << 20)),
    (Both, "3G", Blocks(3 << 30)),
    (Both, "3T", Blocks(3 << 40)),
    (Both, "3P", Blocks(3 << 50)),
    (Both, "3E", Blocks(3 << 60)),
    (Both, "5kD", Blocks(5000)),
    (Both, "KD", Blocks(1000)),
    (Both, "2x3", Blocks(6)),
    (Both, "2kx3k", Blocks(6 << 20)),
    (Both, "kxk", Blocks(1 << 20)),
    (Both, "1xk", Blocks(1024)),
    (Both, "1x 2", Blocks(2)),
    (Both, "1x+2", Blocks(2)),
    (Both, "5B", Bytes(5)),
    (Both, "5cB", Bytes(5)),
    (Both, "5wB", Bytes(10)),
    (Both, "5bB", Bytes(2560)),
    (Both, "bB", Bytes(512)),
    (Both, "5kB", Bytes(5000)),
    (Both, "5KB", Bytes(5000)),
    (Both, "5kDB", Bytes(5000)),
    (Both, "5kiB", Bytes(5120)),
    (Both, "kiB", Bytes(1024)),
    (Both, "KB", Bytes(1000)),
    (Both, "7EB", Bytes(7_000_000_000_000_000_000)),
    (Both, "1Bx8", Bytes(8)),
    (Both, "100kBx2", Bytes(200_000)),
    (Newer, "1x2B", Bytes(2)),
    (Newer, "2Bx4B", Bytes(8)),
    (Newer, "1x2x3x4", Blocks(24)),
    (Newer, "2x2x2xkB", Bytes(8000)),
    (Both, "0Z", Blocks(0)),
    (Both, "00x5", Blocks(0)),
    (Both, "5x0", Blocks(0)),
    (Both, "00x99999999999999999999999", Blocks(0)),
    (Both, "99999999999999999999999x0", Blocks(0)),
    (Both, "18446744073709551616x0", Blocks(0)),
    (Both, "1Zx0", Blocks(0)),
    (Both, "00x1Z", Blocks(0)),
    (Both, "16Ex0", Blocks(0)),
    (Both, "0x5", Hexadecimal(0)),
    (Both, "0xk", Hexadecimal(0)),
    (Both, "0x1Z", Hexadecimal(0)),
    (Both, "0x 1", Hexadecimal(0)),
    (Newer, "5x0x2", Hexadecimal(0)),
    (Newer, "0x0x0", Hexadecimal(0)),
    (Newer, "5x00x2", Blocks(0)),
    (Newer, "99999999999999999999999x1Zx0", Blocks(0)),
    (Newer, "1QBx0", Bytes(0)),
    (Both, "9223372036854775807", Blocks(9_223_372_036_854_775_807)),
    (Both, "9223372036854775808", TOO_LARGE),
    (Both, "18446744073709551615", TOO_LARGE),
    (Both, "18446744073709551616", TOO_LARGE),
    (Both, "4611686018427387904x2", TOO_LARGE),
    (Both, "4611686018427387904x4", TOO_LARGE),
    (Both, "4294967296x4294967296", TOO_LARGE),
    (Both, "8E", TOO_LARGE),
    (Both, "10EB", TOO_LARGE),
    (Both, "16E", TOO_LARGE),
    (Both, "1Z", TOO_LARGE),
    (Both, "1ZB", TOO_LARGE),
    (Both, "1YiB", TOO_LARGE),
    (Newer, "1R", TOO_LARGE),
    (Newer, "1QB", TOO_LARGE),
    (Both, "99999999999999999999999k", TOO_LARGE),
    (Both, "99999999999999999999999q", TOO_LARGE),
    (Both, "99999999999999999999999qx0", TOO_LARGE),
    (Both, "1Z5", TOO_LARGE),
    (Both, "1ZBB", TOO_LARGE),
    (Both, "1Zx2q", INVALID),
    (Both, "1Zx", INVALID),
    (Both, "00x1Zq", INVALID),
    (Both, "0Zq", INVALID),
    (Both, "99999999999999999999999xq", INVALID),
    (Both, "2x99999999999999999999999q", INVALID),
    (Both, "", INVALID),
    (Both, "x", INVALID),
    (Both, "x1", INVALID),
    (Both, "1x", INVALID),
    (Both, "1xx1", INVALID),
    (Both, "00x", INVALID),
    (Both, "0x", INVALID),
    (Both, "0xz", INVALID),
    (Both, "0x-1", INVALID),
    (Both, "-1", INVALID),
    (Both, " -1", INVALID),
    (Both, "+-1", INVALID),
    (Both, "+ 1", INVALID),
    (Both, "++1", INVALID),
    (Both, "1 ", INVALID),
    (Both, "1\n", INVALID),
    (Both, "+k", INVALID),
    (Both, " k", INVALID),
    (Both, "1x+k", INVALID),
    (Both, "B", INVALID),
    (Both, "BB", INVALID),
    (Both, "1xB", INVALID),
    (Both, "5BB", INVALID),
    (Both, "KBB", INVALID),
    (Both, "1KiBB", INVALID),
    (Both, "5ki", INVALID),
    (Both, "5ciB", INVALID),
    (Both, "5D", INVALID),
    (Both, "5bD", INVALID),
    (Both, "KDD", INVALID),
    (Both, "kBD", INVALID),
    (Both, "5kk", INVALID),
    (Both, "5K1", INVALID),
    (Both, "5X2", INVALID),
    (Both, "5*2", INVALID),
    (Both, "1.5", INVALID),
    (Both, "5z", INVALID),
    (Both, "5r", INVALID),
    (Fdd, "5m", Blocks(5 << 20)),
    (Fdd, "5mB", Bytes(5_000_000)),
    (Fdd, "5giB", Bytes(5 << 30)),
    (Fdd, "5t", Blocks(5 << 40)),
    (Fdd, "5p", Blocks(5 << 50)),
    (Fdd, "1e", Blocks(1 << 60)),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Blocks(u64),
    Bytes(u64),
    /// Blocks, with the warning about `0x`.
    Hexadecimal(u64),
    Refused(NumberError),
}
use Outcome::{Blocks, Bytes, Hexadecimal};
const INVALID: Outcome = Outcome::Refused(NumberError::Invalid);
const TOO_LARGE: Outcome = Outcome::Refused(NumberError::TooLarge);

#[test]
fn command_lines_are_understood_or_refused_as_the_table_says() {
    for (_, line, expected) in LINES {
        let parsed = parse(&args(&line.split_whitespace().collect::<Vec<_>>()), false, ASCII);
        let mut found: String = parsed.warnings.iter().map(|Warning::ZeroMultiplier| "<0x> ").collect();
        match parsed.request {
            Ok(Request::Copy(_)) => {}
            Ok(Request::Help) => found += HELP,
            Ok(Request::Version) => found += VERSION,
            Err(error) => found += &(error.text + if error.try_help { " + Try" } else { "" }),
        }
        assert_eq!(found, *expected, "{line}");
    }
}

#[test]
fn numbers_come_to_what_the_table_says() {
    for (_, text, expected) in NUMBERS {
        let parsed = parse(&args(&[&format!("count={text}")]), false, ASCII);
        let found = match (parsed.request, &parsed.warnings[..]) {
            (Ok(Request::Copy(operands)), warnings) => match (operands.count.expect("count= was given"), warnings) {
                (Number { value, in_bytes: false }, [Warning::ZeroMultiplier]) => Hexadecimal(value),
                (Number { value, in_bytes: true }, []) => Bytes(value),
                (Number { value, in_bytes: false }, []) => Blocks(value),
                other => panic!("{text}: {other:?}"),
            },
            (Err(error), []) => {
                assert!(!error.try_help, "{text}");
                match error.text.strip_prefix("invalid number: ").map(|text| text.ends_with("data type")) {
                    Some(true) => TOO_LARGE,
                    Some(false) => INVALID,
                    None => panic!("{text}: {error:?}"),
                }
            }
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(found, *expected, "{text:?}");
    }
}

/// The version of the installed dd, where that is GNU's.
fn gnu_version() -> Option<(u32, u32)> {
    let output = Command::new("/usr/bin/dd").arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = text.lines().next()?.strip_prefix("dd (coreutils) ")?.split_once('.')?;
    let digits = |text: &str| text.split(|c: char| !c.is_ascii_digit()).next().and_then(|text| text.parse().ok());
    Some((digits(major)?, digits(minor)?))
}

struct Said {
    out: Vec<u8>,
    err: String,
    success: bool,
}

fn gnu<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Said {
    let output = Command::new("/usr/bin/dd")
        .env_clear()
        .env("LC_ALL", "C")
        .args(args)
        .stdin(Stdio::null())
        .output()
        .expect("GNU dd runs");
    Said {
        out: output.stdout,
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
        success: output.status.success(),
    }
}

fn speaks_for_gnu(row: For, version: (u32, u32)) -> bool {
    match row {
        Both => true,
        Newer => version >= (9, 4),
        Fdd => false,
    }
}

#[test]
fn gnu_dd_agrees_with_the_table_of_command_lines() {
    let Some(version) = gnu_version() else { return eprintln!("skipped: no GNU dd") };
    for (row, line, expected) in LINES {
        if !speaks_for_gnu(*row, version) {
            continue;
        }
        let said = gnu(line.split_whitespace());
        let zero = Warning::ZeroMultiplier.text(ASCII);
        let mut found = String::new();
        let mut complaint = false;
        for text in said.err.lines() {
            match text.strip_prefix("/usr/bin/dd: ").or_else(|| text.strip_prefix("dd: ")) {
                Some(text) if text == zero => found += "<0x> ",
                Some(text) => {
                    complaint = true;
                    found += text;
                }
                None if text.starts_with("Try '") => found += " + Try",
                None => {}
            }
        }
        if said.out.starts_with(b"Usage: ") {
            found += HELP;
        } else if said.out.starts_with(b"dd (coreutils)") {
            found += VERSION;
        }
        assert_eq!(found, *expected, "dd {line}");
        assert_eq!(said.success, !complaint, "dd {line}");
    }
}

#[test]
fn gnu_dd_agrees_with_the_table_of_numbers() {
    let Some(version) = gnu_version() else { return eprintln!("skipped: no GNU dd") };
    let directory = tempfile::tempdir().expect("a directory for the files");
    let file = directory.path().join("sized");
    for (row, text, expected) in NUMBERS {
        if !speaks_for_gnu(*row, version) {
            continue;
        }
        let said = gnu([format!("count={text}").as_str(), "if=/dev/null", "of=/dev/null"]);
        let warned = said.err.contains("zero multiplier");
        let found = match *expected {
            _ if said.err.contains(": Value too large") => TOO_LARGE,
            _ if said.err.contains("invalid number") => INVALID,
            // A file is made as long as `seek=`, which shows the value where a file can be that long.
            Blocks(value) | Bytes(value) if value <= 1 << 34 && value > 0 => {
                std::fs::write(&file, "").expect("the file is emptied");
                let said = gnu([
                    OsString::from(format!("seek={text}")),
                    OsString::from("count=0"),
                    OsString::from("obs=3"),
                    OsString::from(format!("of={}", file.display())),
                ]);
                assert!(said.success, "{text}: {}", said.err);
                let length = std::fs::metadata(&file).expect("the file is there").len();
                if matches!(expected, Bytes(_)) {
                    Bytes(length)
                } else {
                    assert_eq!(length % 3, 0);
                    Blocks(length / 3)
                }
            }
            Outcome::Refused(_) => panic!("{text:?} is accepted"),
            Hexadecimal(value) if warned => Hexadecimal(value),
            // Zero, or too long for a file: accepted is all that shows.
            other => other,
        };
        assert_eq!(found, *expected, "{text:?}: {}", said.err);
        assert_eq!(warned, matches!(expected, Hexadecimal(_)), "{text:?}");
    }
}

#[test]
fn blocks_are_from_one_byte_to_one_less_than_the_largest_offset() {
    for name in ["bs", "ibs", "obs"] {
        for (value, expected) in [
            ("0", Err("invalid number: '0'")),
            ("1", Ok(())),
            ("9223372036854775806", Ok(())),
            (
                "9223372036854775807",
                Err("invalid number: '9223372036854775807': Value too large for defined data type"),
            ),
        ] {
            let found = parse(&args(&[&format!("{name}={value}")]), false, ASCII).request;
            assert_eq!(found.map(drop).map_err(|error| error.text), expected.map_err(String::from), "{name}={value}");
        }
    }
}

#[test]
fn long_chains_need_no_stack() {
    let text = format!("{}7", "1x".repeat(100_000));
    let parsed = std::thread::Builder::new()
        .stack_size(64 << 10)
        .spawn(move || number::parse(text.as_bytes()))
        .expect("a thread starts")
        .join()
        .expect("the number is read");
    assert_eq!(parsed.map(|parsed| parsed.value), Ok(7));
}

#[test]
fn posixly_correct_ends_options_at_the_first_operand() {
    let text = |words: &[&str]| match parse(&args(words), true, ASCII).request {
        Ok(Request::Help) => HELP.to_owned(),
        Ok(_) => OK.to_owned(),
        Err(error) => error.text,
    };
    assert_eq!(text(&["if=x", "--help"]), "unrecognized operand '--help'");
    assert_eq!(text(&["if=x", "--"]), "unrecognized operand '--'");
    assert_eq!(text(&["if=x", "-x"]), "unrecognized operand '-x'");
    assert_eq!(text(&["foo", "--help"]), "unrecognized operand 'foo'");
    assert_eq!(text(&["--help", "foo"]), HELP);
    assert_eq!(text(&["--", "--help"]), "unrecognized operand '--help'");
    assert_eq!(text(&["-x"]), "invalid option -- 'x'");
}

#[test]
fn words_add_up_and_everything_else_is_as_last_given() {
    let operands = copy(&[
        "conv=lcase,sync",
        "conv=fsync",
        "iflag=direct",
        "iflag=fullblock",
        "oflag=append,sync",
        "status=none",
        "status=progress,noxfer",
        "bs=1",
        "bs=2",
        "iseek=3",
        "skip=4",
        "seek=5",
        "oseek=6B",
        "if=a",
        "if=b=c",
    ]);
    for conv in [Conv::Lcase, Conv::Sync, Conv::Fsync] {
        assert!(operands.conv.has(conv), "{conv:?}");
    }
    assert!(!operands.conv.has(Conv::Ucase));
    assert!(operands.iflag.has(Flag::Direct) && operands.iflag.has(Flag::Fullblock));
    assert!(!operands.iflag.has(Flag::Append));
    assert!(operands.oflag.has(Flag::Append) && operands.oflag.has(Flag::Sync));
    assert_eq!(operands.status, Some(Status::NoXfer));
    assert_eq!(operands.bs, Some(2));
    assert_eq!(operands.skip, Some(Number { value: 4, in_bytes: false }));
    assert_eq!(operands.seek, Some(Number { value: 6, in_bytes: true }));
    assert_eq!(operands.input.as_deref(), Some(OsStr::new("b=c")));
    assert_eq!(operands.output, None);
}

#[test]
fn words_that_gnu_lacks_are_read() {
    let operands = copy(&[
        "files=2",
        "fillchar==",
        "speed=1m",
        "stride=3",
        "ostride=4",
        "msgfmt=%b of %% %T",
        "reflink=auto",
        "buffer=1G",
        "start=80",
        "stop=20%",
        "lost=ok",
        "conv=punch,osync,parset",
        "iflag=neutral",
    ]);
    assert_eq!(operands.files, Some(2));
    assert_eq!(operands.fillchar, Some(b'='));
    assert_eq!(operands.speed, Some(1 << 20));
    assert_eq!((operands.istride, operands.ostride), (Some(3), Some(4)));
    assert_eq!(operands.msgfmt, Some(MsgFmt::Format(b"%b of %% %T".to_vec())));
    assert_eq!(operands.reflink, Some(Reflink::Auto));
    assert_eq!(operands.buffer, Some(1 << 30));
    assert_eq!((operands.start, operands.stop), (Some(80), Some(20)));
    assert!(operands.lost_ok);
    assert!(operands.conv.has(Conv::Punch) && operands.conv.has(Conv::Osync) && operands.conv.has(Conv::ParSet));
    assert!(operands.iflag.has(Flag::Neutral) && !operands.oflag.has(Flag::Neutral));
    assert_eq!(copy(&["msgfmt=human"]).msgfmt, Some(MsgFmt::Human));
}

#[test]
fn names_need_not_be_utf8() {
    let name = OsStr::from_bytes(b"if=\xff\xfe");
    let parsed = parse(&[name.to_owned()], false, ASCII);
    let Ok(Request::Copy(operands)) = parsed.request else { panic!("{parsed:?}") };
    assert_eq!(operands.input.as_deref(), Some(OsStr::from_bytes(b"\xff\xfe")));
}

/// Pieces that numbers are made of, and some that they are not.
const PIECES: &[&str] = &[
    "0",
    "1",
    "2",
    "7",
    "00",
    "10",
    "x",
    "x",
    "0x",
    "x0x",
    "B",
    "D",
    "iB",
    "i",
    "c",
    "w",
    "b",
    "k",
    "K",
    "M",
    "m",
    "G",
    "T",
    "P",
    "E",
    "e",
    "Z",
    "Y",
    "R",
    "Q",
    "z",
    "+",
    "-",
    " ",
    "\t",
    "18446744073709551615",
    "9223372036854775807",
    "340282366920938463463374607431768211456",
    ".",
    "\u{0}",
    "é",
];

fn assert_like_naive(text: &[u8]) {
    let found = match number::parse(text) {
        Ok(number) if number.value > i64::MAX as u64 => naive::Outcome::TooLarge,
        Ok(number::Parsed { value, in_bytes, zero_multiplier }) => {
            naive::Outcome::Number { value, in_bytes, zero_multiplier }
        }
        Err(NumberError::Invalid) => naive::Outcome::Invalid,
        Err(NumberError::TooLarge) => naive::Outcome::TooLarge,
    };
    assert_eq!(found, naive::read(text), "{:?}", text.escape_ascii().to_string());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn numbers_are_what_the_naive_parser_makes_of_them(
        text in prop_oneof![
            prop::collection::vec(prop::sample::select(PIECES), 0..9).prop_map(|pieces| pieces.concat().into_bytes()),
            prop::collection::vec(any::<u8>(), 0..6),
        ]
    ) {
        assert_like_naive(&text);
    }
}

#[test]
fn the_naive_parser_agrees_on_the_table_and_on_the_corpus_of_the_fuzzer() {
    for (_, text, _) in NUMBERS {
        assert_like_naive(text.as_bytes());
    }
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/operands");
    let mut files = 0;
    for entry in std::fs::read_dir(corpus).expect("the corpus is kept") {
        assert_like_naive(&std::fs::read(entry.expect("a directory entry").path()).expect("a file"));
        files += 1;
    }
    assert!(files > 100, "{files}");
}
