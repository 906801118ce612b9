//! argv in, exit code out.
#![no_main]
#![allow(unsafe_code)] // The entry point's name is one that the C library looks for; see `fdd_sys::start`.

use std::ffi::OsString;

use fdd::Exit;

fdd_sys::main!(dd);

fn dd(args: Vec<OsString>) -> u8 {
    match fdd::run(&args) {
        Exit::Success => 0,
        Exit::Failure => 1,
        Exit::Signal(signal) => {
            fdd_sys::signal::die_by(signal);
            1
        }
    }
}
