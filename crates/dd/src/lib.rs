//! dd itself.
//!
//! ```text
//! argv -> operands::parse -> Plan::resolve -> Source::open -> Sink::open -> skip, seek -> copy::run -> sync, close
//!                                                   \            \                          |
//!                                                    `------------`--- Monitor: tally, signals, standard error
//! ```
//!
//! [`run`] is the program: it owns the process's signals, descriptors 0 to 2 and exit. What is below it takes owned
//! descriptors and a [`fdd_sys::retry::Pause`].

mod advice;
pub mod conv;
pub mod copy;
pub mod error;
pub mod facts;
pub mod hash;
pub mod human;
pub mod input;
pub mod kernel;
pub mod monitor;
pub mod operands;
pub mod output;
pub mod plan;
pub mod quote;
pub mod report;
mod rescue;
pub mod tally;
pub mod units;

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use fdd_sys::retry::{Cut, Pause};
use fdd_sys::{locale, signal, start};
use rustix::fs::OFlags;

use crate::copy::{Buffers, Choice, Halt, Job};
use crate::error::{Error, Name};
use crate::hash::{Tap, Threads};
use crate::input::{Skipped, Source, Trouble};
use crate::kernel::{Kernel, Os};
use crate::monitor::Monitor;
use crate::operands::{Request, Tapped};
use crate::output::Sink;
use crate::plan::Plan;

/// How the process is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Success,
    Failure,
    /// By this signal, so that the parent sees it.
    Signal(i32),
}

/// The whole program, given its arguments (the first is its name).
pub fn run(args: &[OsString]) -> Exit {
    let posixly_correct = std::env::var_os("POSIXLY_CORRECT").is_some();
    catch_signals(posixly_correct);
    let locale = locale::from_environment();
    let called_as = args.first().map_or_else(|| OsStr::new("fdd"), OsString::as_os_str);
    let program = Path::new(called_as).file_name().unwrap_or(called_as).to_string_lossy().into_owned();
    let quotes = quote::Locale { utf8: locale.utf8 };
    let mut monitor = Monitor::new(program.clone(), locale);

    let parsed = operands::parse(args.get(1..).unwrap_or_default(), posixly_correct, quotes);
    for warning in &parsed.warnings {
        monitor.warn(&warning.text(quotes));
    }
    let plan = match parsed.request {
        Ok(Request::Help) => return print(&operands::help(&called_as.to_string_lossy()), &mut monitor),
        Ok(Request::Version) => return print(&operands::version(&program), &mut monitor),
        Ok(Request::Copy(operands)) => Plan::resolve(*operands, quotes),
        Err(usage) => Err(Error::Usage(usage)),
    };
    let plan = match plan {
        Ok(plan) => plan,
        Err(error) => {
            monitor.error(&error);
            if error.try_help() {
                monitor.try_help(&called_as.to_string_lossy());
            }
            return Exit::Failure;
        }
    };
    if plan.output.append && !plan.output.notrunc {
        monitor.warn("you probably want conv=notrunc with oflag=append");
    }
    monitor.speak(plan.status, plan.msgfmt.clone());
    let choice = Choice { forced: std::env::var("FDD_STRATEGY").ok() };
    let threads = digest_threads(&plan);
    let inherited = Inherited { input: &|| start::take_standard(0), output: &|| start::take_standard(1) };
    let failed = transfer_with(threads, &plan, Arc::new(Os), &inherited, &choice, &mut monitor) == Verdict::Failed;
    match monitor.stopped_by() {
        Some(signal) => Exit::Signal(signal),
        None if failed || monitor.is_mute() => Exit::Failure,
        None => Exit::Success,
    }
}

/// Whether the output is what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Right,
    /// Something was said about it.
    Failed,
}

/// The descriptors that stand in where `if=` or `of=` is missing; each is taken at most once.
pub struct Inherited<'a> {
    pub input: &'a dyn Fn() -> OwnedFd,
    pub output: &'a dyn Fn() -> OwnedFd,
}

fn catch_signals(posixly_correct: bool) {
    // POSIX wants the default action, which ends dd, unless a system has SIGINFO.
    if !posixly_correct {
        signal::catch(signal::USR1, signal::Action::Report);
    }
    for fatal in [signal::INT, signal::TERM, signal::HUP] {
        signal::catch(fatal, signal::Action::Stop);
    }
}

/// Before anything is open: what MAKEFLAGS names must not be taken for what dd opens. `FDD_DIGESTS` is a test seam.
fn digest_threads(plan: &Plan) -> Threads {
    if plan.taps.hashes.is_empty() {
        return Threads::none();
    }
    let variable = |name| std::env::var_os(name);
    Threads::allowed_by(variable("MAKEFLAGS").as_deref(), variable("FDD_DIGESTS").as_deref())
}

/// One copy, from opening to closing. Everything that goes wrong is said by `monitor`. Digests are taken by the calling thread.
pub fn transfer(
    plan: &Plan,
    kernel: Arc<dyn Kernel>,
    inherited: &Inherited<'_>,
    choice: &Choice,
    monitor: &mut Monitor,
) -> Verdict {
    transfer_with(Threads::none(), plan, kernel, inherited, choice, monitor)
}

/// As [`transfer`], with threads for digests. Where a jobserver limits them the process's signals have to be the caller's.
pub fn transfer_with(
    mut threads: Threads,
    plan: &Plan,
    kernel: Arc<dyn Kernel>,
    inherited: &Inherited<'_>,
    choice: &Choice,
    monitor: &mut Monitor,
) -> Verdict {
    let (mut source, mut sink, mut buffers) = match open(plan, kernel, inherited, monitor) {
        Ok(ends) => ends,
        Err(Trouble::Stopped) => {
            finish_stopped(monitor);
            return Verdict::Failed;
        }
        Err(Trouble::Failed(error)) => {
            monitor.error(&error);
            return Verdict::Failed;
        }
    };
    threads.keep_off(&[source.facts.identity, sink.facts.identity]);
    match plan.taps.tapped {
        Tapped::Before => source.tap = Tap::of(&plan.taps.hashes, threads),
        Tapped::After => sink.tap = Tap::of(&plan.taps.hashes, threads),
    }
    monitor.start_clock();
    let mut verdict = Verdict::Right;
    let mut to_end = false;
    match position(plan, &mut source, &mut sink, monitor) {
        Ok(()) if plan.copies() => {
            let copied = copy_all(plan, &mut source, &mut sink, &mut buffers, choice, monitor);
            to_end = source.at_end;
            verdict = copied;
        }
        Ok(()) => {}
        Err(Trouble::Stopped) => verdict = Verdict::Failed,
        Err(Trouble::Failed(error)) => {
            monitor.error(&error);
            // GNU: where that fails too, nothing more is told.
            if sync(false, &mut sink, monitor) == Verdict::Failed {
                monitor.stop_clock();
                return Verdict::Failed;
            }
            return close(source, sink, Verdict::Failed, monitor);
        }
    }
    if monitor.stopped_by().is_none() {
        verdict = worse(verdict, settle(plan, &mut source, &mut sink, to_end, monitor));
    }
    close(source, sink, verdict, monitor)
}

fn open(
    plan: &Plan,
    kernel: Arc<dyn Kernel>,
    inherited: &Inherited<'_>,
    monitor: &mut Monitor,
) -> Result<(Source, Sink, Buffers), Trouble> {
    let source = Source::open(Arc::clone(&kernel), &plan.input, inherited.input, monitor)?;
    // Memory that cannot be had is found out before the output is emptied.
    let buffers = if plan.copies() { Buffers::for_plan(plan) } else { Buffers::none() }.map_err(Trouble::Failed)?;
    let sink = Sink::open(kernel, &plan.output, inherited.output, monitor)?;
    let same_file = source.facts.identity == sink.facts.identity && source.facts.is_storage();
    let appends = sink.facts.flags.contains(OFlags::APPEND) && (plan.output.path.is_none() || plan.output.notrunc);
    if same_file && appends && plan.copies() && plan.limit.is_none() {
        return Err(Trouble::Failed(Error::OntoItself { name: source.name().clone() }));
    }
    Ok((source, sink, buffers))
}

fn position(plan: &Plan, source: &mut Source, sink: &mut Sink, monitor: &mut Monitor) -> Result<(), Trouble> {
    let skipped = source.skip(plan.input.skip, monitor)?;
    if let Some(len) = source.partial.due()
        && plan.warn_partial
    {
        monitor.notice(&error::Notice::PartialRead { len });
    }
    if skipped == Skipped::Short {
        monitor.notice(&error::Notice::SkipPastEnd { name: source.name().clone() });
    }
    sink.seek(plan.output.seek, monitor)
}

fn copy_all(
    plan: &Plan,
    source: &mut Source,
    sink: &mut Sink,
    buffers: &mut Buffers,
    choice: &Choice,
    monitor: &mut Monitor,
) -> Verdict {
    let (outcome, moved) = copy::run(&mut Job::new(plan, source, sink, monitor, buffers), choice);
    let threads = [&source.tap, &sink.tap].into_iter().flatten().map(|tap| tap.threads()).sum();
    report_moved(&moved, threads);
    let verdict = match outcome {
        Ok(mut ending) => {
            ending.name_all(monitor);
            if ending.failed { Verdict::Failed } else { Verdict::Right }
        }
        Err(Halt::Stopped) => {
            monitor.tally.take_back(sink.take_unsettled(), plan.output.obs);
            return Verdict::Failed;
        }
        Err(Halt::Failed(error)) => {
            monitor.error(&error);
            Verdict::Failed
        }
    };
    let finished = sink.finish(monitor);
    monitor.tally.take_back(sink.take_unsettled(), plan.output.obs);
    match finished {
        Ok(()) => verdict,
        Err(Cut::Stopped) => Verdict::Failed,
        Err(Cut::Os(errno)) => {
            monitor.error(&Error::Write { name: sink.name().clone(), errno });
            Verdict::Failed
        }
    }
}

/// `FDD_STRATEGY_REPORT` names a file that is told how many bytes each way moved, and how many threads took digests: a test
/// seam beside `FDD_STRATEGY` and `FDD_DIGESTS`.
fn report_moved(moved: &[(&'static str, u64)], threads: usize) {
    use std::io::Write;
    let Some(path) = std::env::var_os("FDD_STRATEGY_REPORT") else { return };
    if let Ok(mut file) = std::fs::OpenOptions::new().append(true).create(true).open(path) {
        let mut text: String = moved.iter().map(|(name, bytes)| format!("{name} {bytes}\n")).collect();
        if threads > 0 {
            text.push_str(&format!("digest_threads {threads}\n"));
        }
        let _ = file.write_all(text.as_bytes());
    }
}

/// What was asked to be durable, and the cache.
fn settle(plan: &Plan, source: &mut Source, sink: &mut Sink, to_end: bool, monitor: &mut Monitor) -> Verdict {
    let mut verdict = sync(plan.copies(), sink, monitor);
    for notice in sink.take_notices() {
        monitor.notice(&notice);
    }
    for settled in [source.settle_cache(), sink.settle_cache(to_end)] {
        if let Err(error) = settled {
            monitor.error(&error);
            verdict = Verdict::Failed;
        }
    }
    verdict
}

/// What was asked to be durable becomes so; also after an error, as GNU has it.
fn sync(copied: bool, sink: &mut Sink, monitor: &mut Monitor) -> Verdict {
    if sink.will_sync() {
        monitor.before_sync();
    }
    match sink.sync(copied, monitor) {
        Ok(errors) => {
            errors.iter().for_each(|error| monitor.error(error));
            if errors.is_empty() { Verdict::Right } else { Verdict::Failed }
        }
        Err(_) => Verdict::Failed,
    }
}

/// Closes both ends, then tells what was done. GNU: where closing fails nothing is told.
fn close(mut source: Source, mut sink: Sink, verdict: Verdict, monitor: &mut Monitor) -> Verdict {
    // A signal that came with the last byte still decides how this ends.
    let _ = monitor.pause();
    let digests = digests(&mut source, &mut sink);
    for closed in [source.close(), sink.close()] {
        if let Err(error) = closed {
            monitor.stop_clock();
            monitor.error(&error);
            return Verdict::Failed;
        }
    }
    let elapsed = monitor.stop_clock();
    monitor.final_statistics(elapsed);
    for (hash, name, digest) in digests {
        monitor.digest(hash, &name, &digest);
    }
    verdict
}

/// The digests that were taken, and of which end.
fn digests(source: &mut Source, sink: &mut Sink) -> Vec<(&'static str, Name, Vec<u8>)> {
    let taps = [(source.tap.take(), source.name()), (sink.tap.take(), sink.name())];
    let of = |(tap, name): (Option<Box<Tap>>, &Name)| {
        let digests = tap.map_or_else(Vec::new, |tap| tap.finish());
        let name = name.clone();
        digests.into_iter().map(move |(hash, digest)| (hash, name.clone(), digest))
    };
    taps.into_iter().flat_map(of).collect()
}

/// Stopped before anything was open: the statistics are all zeros, but they are there.
fn finish_stopped(monitor: &mut Monitor) {
    let elapsed = monitor.stop_clock();
    monitor.final_statistics(elapsed);
}

fn worse(one: Verdict, other: Verdict) -> Verdict {
    if one == Verdict::Failed { one } else { other }
}

/// Text that was asked for goes to standard output, and must arrive there.
fn print(text: &str, monitor: &mut Monitor) -> Exit {
    use std::io::Write;
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) if !start::was_closed(1) => Exit::Success,
        Ok(()) => Exit::Failure,
        Err(error) => {
            let reason = error.raw_os_error().map_or_else(
                || error.to_string(),
                |number| locale::error_text(rustix::io::Errno::from_raw_os_error(number)),
            );
            monitor.warn(&format!("write error: {reason}"));
            Exit::Failure
        }
    }
}

#[cfg(test)]
mod testing;
