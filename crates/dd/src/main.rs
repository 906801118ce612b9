//! argv in, exit code out.

use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    // A defect of ours must not look like a copy that went well.
    let Ok(exit) = std::panic::catch_unwind(|| fdd::run(&args)) else { return ExitCode::FAILURE };
    match exit {
        fdd::Exit::Success => ExitCode::SUCCESS,
        fdd::Exit::Failure => ExitCode::FAILURE,
        fdd::Exit::Signal(signal) => {
            fdd_sys::signal::die_by(signal);
            ExitCode::FAILURE
        }
    }
}
