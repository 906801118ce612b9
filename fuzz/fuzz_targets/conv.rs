//! Any recipe over any input, cut anywhere, by every backend: the output is that of the naive conversions.
//!
//! The input is a head of six bytes (charset, case and parity, swab and form, two of `cbs`, number of cuts), the lengths of
//! the pieces, and what is converted.
#![no_main]

use std::convert::Infallible;

use fdd::conv::{Case, Charset, Converter, Form, Parity, Recipe, Run};
use fdd_sys::simd::Backend;
use libfuzzer_sys::fuzz_target;

#[path = "../../crates/dd/src/conv/naive.rs"]
mod naive;

fuzz_target!(|bytes: &[u8]| {
    let Some(([charset, ascii, form, cbs_high, cbs_low, cuts], rest)) = bytes.split_first_chunk::<6>() else { return };
    let cuts = usize::from(cuts % 8).min(rest.len());
    let (lengths, input) = rest.split_at(cuts);
    let cbs = 1 + usize::from(u16::from_be_bytes([cbs_high % 4, *cbs_low]));
    let asked = (
        [
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
        ][usize::from(charset % 10)],
        [None, Some(Case::Lower), Some(Case::Upper)][usize::from(ascii % 3)],
        [None, Some(Parity::Even), Some(Parity::Odd), Some(Parity::None), Some(Parity::Set)][usize::from(ascii / 3 % 5)],
        form % 2 == 1,
        [None, Some(Form::Block { cbs }), Some(Form::Unblock { cbs })][usize::from(form / 2 % 3)],
    );
    let expected = naive::convert(asked, input);
    for backend in Backend::available() {
        assert!(convert(asked, backend, input, lengths) == expected, "{asked:?} with {}", backend.name());
    }
});

fn convert(asked: naive::Asked, backend: Backend, input: &[u8], lengths: &[u8]) -> (Vec<u8>, u64) {
    let (charset, case, parity, swab, form) = asked;
    let mut converter = Converter::with_backend(&Recipe::new(charset, case, parity, swab, form), backend);
    let (mut output, mut truncated) = (Vec::new(), 0);
    let mut put = |run: Run<'_>| -> Result<(), Infallible> {
        assert!(!run.bytes.is_empty() || !run.truncated_at.is_empty(), "a run that says nothing was handed on");
        output.extend_from_slice(run.bytes);
        truncated += run.truncated_at.len() as u64;
        Ok(())
    };
    let mut input = input.to_vec();
    let mut rest = &mut input[..];
    for length in lengths {
        let piece;
        (piece, rest) = rest.split_at_mut(usize::from(*length).min(rest.len()));
        converter.feed(piece, &mut put).unwrap_or_else(|never| match never {});
    }
    converter.feed(rest, &mut put).unwrap_or_else(|never| match never {});
    converter.finish(&mut put).unwrap_or_else(|never| match never {});
    (output, truncated)
}
