//! Numbers of operands against the naive parser of the crate's tests.
#![no_main]

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use fdd::operands::{Request, parse};
use libfuzzer_sys::fuzz_target;

#[path = "../../crates/dd/src/operands/naive.rs"]
mod naive;

fuzz_target!(|text: &[u8]| {
    let argument = OsString::from_vec([b"count=", text].concat());
    let parsed = parse(&[argument], false, fdd::quote::Locale { utf8: true });
    let found = match parsed.request {
        Ok(Request::Copy(operands)) => {
            let count = operands.count.expect("count= was given");
            let zero_multiplier = !parsed.warnings.is_empty();
            naive::Outcome::Number { value: count.value, in_bytes: count.in_bytes, zero_multiplier }
        }
        Err(error) if error.text.ends_with(": Value too large for defined data type") => naive::Outcome::TooLarge,
        Err(_) => naive::Outcome::Invalid,
        Ok(other) => panic!("{other:?}"),
    };
    assert_eq!(found, naive::read(text), "{text:?}");
});
