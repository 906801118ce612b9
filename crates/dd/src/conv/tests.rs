//! The rules of the conversions: vectors, the naive ones, every cut of the input, and the dd that is installed.

use std::convert::Infallible;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

use super::naive::{self, Asked};
use super::*;

/// The output and the truncated records of `input` fed in pieces of `lengths` (over and over, the rest at once if there
/// are none).
fn convert_in_pieces(asked: Asked, backend: Backend, input: &[u8], lengths: &[usize]) -> (Vec<u8>, u64) {
    let (charset, case, parity, swab, form) = asked;
    let mut converter = Converter::with_backend(&Recipe::new(charset, case, parity, swab, form), backend);
    let (mut output, mut truncated) = (Vec::new(), 0);
    let mut put = |run: Run<'_>| -> Result<(), Infallible> {
        assert!(!run.bytes.is_empty() || !run.truncated_at.is_empty(), "a run that says nothing was handed on");
        output.extend_from_slice(run.bytes);
        truncated += run.truncated_at.len() as u64;
        Ok(())
    };
    let mut rest = input.to_vec();
    let mut lengths = lengths.iter().cycle();
    while !rest.is_empty() {
        let length = lengths.next().map_or(rest.len(), |length| (*length).min(rest.len()));
        let after = rest.split_off(length);
        converter.feed(&mut rest, &mut put).unwrap_or_else(|never| match never {});
        rest = after;
    }
    converter.finish(&mut put).unwrap_or_else(|never| match never {});
    (output, truncated)
}

fn convert(asked: Asked, input: &[u8]) -> (Vec<u8>, u64) {
    convert_in_pieces(asked, Backend::best(), input, &[])
}

fn block(cbs: usize) -> Asked {
    (None, None, None, false, Some(Form::Block { cbs }))
}

fn unblock(cbs: usize) -> Asked {
    (None, None, None, false, Some(Form::Unblock { cbs }))
}

const SWAB: Asked = (None, None, None, true, None);

#[test]
fn vectors_hold_in_every_cut() {
    let rows: &[(Asked, &[u8], &[u8], u64)] = &[
        (unblock(3), b"", b"", 0),
        (unblock(3), b"a\n  ", b"a\n\n\n", 0),
        (unblock(3), b"a  ", b"a\n", 0),
        (unblock(3), b"a   ", b"a\n\n", 0),
        (unblock(3), b"a  \n", b"a\n\n\n", 0),
        (unblock(3), b" a ", b" a\n", 0),
        (unblock(3), b"abcde", b"abc\nde\n", 0),
        (block(3), b"", b"", 0),
        (block(3), b"\n", b"   ", 0),
        (block(3), b"a\n\nb", b"a     b  ", 0),
        (block(3), b"abc\nabcd\nabcdef", b"abcabcabc", 2),
        (block(3), b"abc\n", b"abc", 0),
        (SWAB, b"", b"", 0),
        (SWAB, b"abcdefg", b"badcfeg", 0),
        (SWAB, b"abcdef", b"badcfe", 0),
        ((Some(Charset::Ebcdic), None, None, false, Some(Form::Block { cbs: 2 })), b"a\n", b"\x81\x40", 0),
        ((Some(Charset::Ascii), None, None, false, Some(Form::Unblock { cbs: 3 })), b"\x81\x40\x40", b"a\n", 0),
        ((Some(Charset::Ascii), None, None, false, Some(Form::Unblock { cbs: 3 })), b"\x81\x20\x20", b"a\x80\x80\n", 0),
    ];
    for (asked, input, output, truncated) in rows {
        for length in 1..=input.len().max(1) {
            let found = convert_in_pieces(*asked, Backend::best(), input, &[length]);
            assert_eq!(found, (output.to_vec(), *truncated), "{asked:?} of {input:?} in pieces of {length}");
        }
    }
}

#[test]
fn a_recipe_without_effect_is_the_identity() {
    let identity = |charset, case, parity, swab, form| Recipe::new(charset, case, parity, swab, form).is_identity();
    assert!(identity(None, None, None, false, None));
    assert!(!identity(Some(Charset::Ibm), None, None, false, None));
    assert!(!identity(None, Some(Case::Lower), None, false, None));
    assert!(!identity(None, None, Some(Parity::None), false, None));
    assert!(!identity(None, None, None, true, None));
    assert!(!identity(None, None, None, false, Some(Form::Unblock { cbs: 1 })));
}

/// As GNU dd counts: a record is truncated when the byte after its `cbs` comes, which is after those were put.
fn truncated_after(cbs: usize, input: &[u8]) -> Vec<usize> {
    let (mut output, mut column, mut found) = (0, 0, Vec::new());
    for &byte in input {
        if byte == b'\n' {
            output += cbs - column.min(cbs);
            column = 0;
            continue;
        }
        if column < cbs {
            output += 1;
        }
        if column == cbs {
            found.push(output);
        }
        column += 1;
    }
    found
}

proptest! {
    #![proptest_config(few_under_miri())]

    #[test]
    fn a_truncated_record_is_told_behind_the_bytes_before_its_end(
        cbs in prop_oneof![4 => 1..12_usize, 2 => 12..200_usize, 1 => 200..600_usize],
        input in input(),
        lengths in lengths(),
    ) {
        let mut converter = Converter::new(&Recipe::new(None, None, None, false, Some(Form::Block { cbs })));
        let (mut passed, mut found) = (0, Vec::new());
        let mut put = |run: Run<'_>| -> Result<(), Infallible> {
            found.extend(run.truncated_at.iter().map(|at| passed + at));
            assert_eq!(run.pieces().flat_map(|(bytes, _)| bytes).count(), run.bytes.len());
            passed += run.bytes.len();
            Ok(())
        };
        let (mut rest, mut lengths) = (&input[..], lengths.iter().cycle());
        while !rest.is_empty() {
            let (piece, after) = rest.split_at((*lengths.next().expect("endless")).min(rest.len()));
            converter.feed(&mut piece.to_vec(), &mut put).unwrap_or_else(|never| match never {});
            rest = after;
        }
        prop_assert_eq!(found, truncated_after(cbs, &input));
    }
}

#[test]
fn a_failing_put_stops_the_conversion() {
    let mut converter = Converter::new(&Recipe::new(None, None, None, false, Some(Form::Unblock { cbs: 2 })));
    let result = converter.feed(&mut b"abcd".to_vec(), &mut |_| Err("full"));
    assert_eq!(result, Err("full"));
}

const CHARSETS: [Option<Charset>; 10] = [
    None,
    Some(Charset::Ascii),
    Some(Charset::Ebcdic),
    Some(Charset::Ibm),
    Some(Charset::OldAscii),
    Some(Charset::OldEbcdic),
    Some(Charset::OldIbm),
    Some(Charset::AsciiB),
    Some(Charset::EbcdicB),
    Some(Charset::IbmB),
];
const CASES: [Option<Case>; 3] = [None, Some(Case::Lower), Some(Case::Upper)];
const PARITIES: [Option<Parity>; 5] =
    [None, Some(Parity::Even), Some(Parity::Odd), Some(Parity::None), Some(Parity::Set)];

fn form(cbs: impl Strategy<Value = usize> + Clone) -> impl Strategy<Value = Option<Form>> {
    prop_oneof![
        Just(None),
        cbs.clone().prop_map(|cbs| Some(Form::Block { cbs })),
        cbs.prop_map(|cbs| Some(Form::Unblock { cbs })),
    ]
}

fn asked() -> impl Strategy<Value = Asked> {
    let cbs = prop_oneof![4 => 1..12_usize, 2 => 12..200_usize, 1 => 200..5000_usize];
    (select(&CHARSETS), select(&CASES), select(&PARITIES), any::<bool>(), form(cbs))
}

/// Runs of what the conversions look at, in both alphabets, among bytes of every kind.
fn input() -> impl Strategy<Value = Vec<u8>> {
    let byte =
        prop_oneof![3 => select(&b" \n\x40\x25\xa0\x8a"[..]), 2 => select(&b"aZ[\x81\xe9"[..]), 1 => any::<u8>()];
    let run = (byte, prop_oneof![6 => 1..4_usize, 2 => 4..100_usize, 1 => 100..400_usize]);
    let bytes = |runs: Vec<(u8, usize)>| runs.into_iter().flat_map(|(byte, length)| vec![byte; length]).collect();
    vec(run, 0..if cfg!(miri) { 8 } else { 60 }).prop_map(bytes)
}

fn lengths() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![vec(1..6_usize, 1..6), vec(1..300_usize, 1..6)]
}

fn few_under_miri() -> ProptestConfig {
    let mut config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if cfg!(miri) {
        config.cases = 4;
    }
    config
}

proptest! {
    #![proptest_config(few_under_miri())]

    #[test]
    fn cuts_do_not_show(asked in asked(), input in input(), lengths in lengths()) {
        let expected = naive::convert(asked, &input);
        for backend in Backend::available() {
            prop_assert_eq!(&convert_in_pieces(asked, backend, &input, &[]), &expected, "at once, {}", backend.name());
            prop_assert_eq!(&convert_in_pieces(asked, backend, &input, &lengths), &expected, "cut, {}", backend.name());
        }
    }

    /// Between two pieces `astray` is fed too, as far as so many runs, and the converter goes back to where it was.
    #[test]
    fn what_was_fed_before_going_back_does_not_show(
        asked in asked(), input in input(), lengths in lengths(), astray in input(), runs in 0..4_usize,
    ) {
        let (charset, case, parity, swab, form) = asked;
        let recipe = Recipe::new(charset, case, parity, swab, form);
        let mut converter = Converter::new(&recipe);
        let (mut output, mut truncated) = (Vec::new(), 0);
        let mut put = |run: Run<'_>| -> Result<(), Infallible> {
            output.extend_from_slice(run.bytes);
            truncated += run.truncated_at.len() as u64;
            Ok(())
        };
        let mut rest = input.clone();
        for length in lengths.iter().cycle() {
            let place = converter.place();
            let mut left = runs;
            let _ = converter.feed(&mut astray.clone(), &mut |_: Run<'_>| {
                left = left.checked_sub(1).ok_or(())?;
                Ok::<_, ()>(())
            });
            converter.go_to(place);
            prop_assert_eq!(converter.place(), place);
            if rest.is_empty() {
                break;
            }
            let after = rest.split_off(rest.len().min(*length));
            converter.feed(&mut rest, &mut put).unwrap_or_else(|never| match never {});
            rest = after;
        }
        converter.finish(&mut put).unwrap_or_else(|never| match never {});
        prop_assert_eq!((output, truncated), naive::convert(asked, &input));
    }
}

/// GNU dd, where it is the one that is installed.
fn gnu_dd() -> Option<&'static str> {
    let version = std::process::Command::new("dd").arg("--version").output().ok()?;
    String::from_utf8_lossy(&version.stdout).contains("coreutils").then_some("dd")
}

/// What dd makes of `input`, and the number in its line about truncated records.
fn convert_with(dd: &str, operands: &[String], input: &[u8]) -> (Vec<u8>, u64) {
    let mut child = std::process::Command::new(dd)
        .args(operands)
        .env("LC_ALL", "C")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("dd starts");
    let mut stdin = child.stdin.take().expect("stdin is a pipe");
    let finished = std::thread::scope(|scope| {
        scope.spawn(move || std::io::Write::write_all(&mut stdin, input).expect("dd reads its input"));
        child.wait_with_output().expect("dd ends")
    });
    let report = String::from_utf8_lossy(&finished.stderr).into_owned();
    assert!(finished.status.success(), "dd {operands:?}: {report}");
    let truncated = report.lines().find_map(|line| line.split_once(" truncated record"));
    (finished.stdout, truncated.map_or(0, |(count, _)| count.parse().expect("a number")))
}

/// Charset and case as words of `conv=`, swab, form, `ibs`, input.
type GnuJob = (Option<&'static str>, Option<&'static str>, bool, Option<Form>, usize, Vec<u8>);

fn gnu_operands((charset, case, swab, form, ibs, _): &GnuJob) -> Vec<String> {
    let mut words: Vec<&str> = charset.iter().chain(case).copied().collect();
    words.extend(swab.then_some("swab"));
    words.extend(form.map(|form| match form {
        Form::Block { .. } => "block",
        Form::Unblock { .. } => "unblock",
    }));
    let mut operands = vec![format!("ibs={ibs}")];
    if let Some(Form::Block { cbs } | Form::Unblock { cbs }) = form {
        operands.push(format!("cbs={cbs}"));
    }
    if !words.is_empty() {
        operands.push(format!("conv={}", words.join(",")));
    }
    operands
}

#[test]
#[cfg_attr(miri, ignore = "starts processes")]
fn gnu_dd_makes_the_same_output() {
    let Some(dd) = gnu_dd() else {
        println!("skipped: the dd that is installed is not GNU's");
        return;
    };
    let mut runner = TestRunner::new_with_rng(
        ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() },
        TestRng::deterministic_rng(RngAlgorithm::ChaCha),
    );
    let job = (
        select(&[None, Some("ascii"), Some("ebcdic"), Some("ibm")][..]),
        select(&[None, Some("lcase"), Some("ucase")][..]),
        any::<bool>(),
        form(1..100_usize),
        1..40_usize,
        input(),
    );
    let check = |mut job: GnuJob| {
        // What a character set implies under cbs cannot be combined with its contrary.
        job.3 = match (job.0, job.3) {
            (Some("ascii"), Some(Form::Block { cbs })) => Some(Form::Unblock { cbs }),
            (Some("ebcdic" | "ibm"), Some(Form::Unblock { cbs })) => Some(Form::Block { cbs }),
            (_, form) => form,
        };
        let operands = gnu_operands(&job);
        let (charset, case, swab, form, _, input) = job;
        let charset = charset.map(|word| match word {
            "ascii" => Charset::Ascii,
            "ebcdic" => Charset::Ebcdic,
            _ => Charset::Ibm,
        });
        let case = case.map(|word| if word == "lcase" { Case::Lower } else { Case::Upper });
        let ours = convert((charset, case, None, swab, form), &input);
        prop_assert_eq!(ours, convert_with(dd, &operands, &input), "dd {}", operands.join(" "));
        Ok(())
    };
    runner.run(&job, check).unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
#[cfg_attr(miri, ignore = "starts processes")]
fn tables_are_those_of_gnu_dd() {
    let Some(dd) = gnu_dd() else {
        println!("skipped: the dd that is installed is not GNU's");
        return;
    };
    let every_byte: Vec<u8> = (0..=u8::MAX).collect();
    for (word, charset) in [("ascii", Charset::Ascii), ("ebcdic", Charset::Ebcdic), ("ibm", Charset::Ibm)] {
        assert_eq!(charset.table()[..], convert_with(dd, &[format!("conv={word}")], &every_byte).0, "conv={word}");
    }
}
