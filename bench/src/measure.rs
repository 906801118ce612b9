//! One run of a command: how long it took from the first start to the last end, and what it used.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde::Serialize;

use crate::command::Pipeline;

/// What one run took.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Sample {
    pub(crate) seconds: f64,
    /// Of all programs of the command, the ends of its pipes included.
    pub(crate) user_seconds: f64,
    pub(crate) system_seconds: f64,
    pub(crate) context_switches: i64,
    /// What the suite counts besides, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) figures: BTreeMap<String, f64>,
}

/// Why there is no sample, in words.
pub(crate) type Failure = String;

/// Starts the programs of `command`, waits for all of them, and takes the time.
///
/// With a `cgroup`, each program is started in it, by a shell that enters and then becomes the program.
pub(crate) fn run(command: &Pipeline, cgroup: Option<&Path>) -> Result<Sample, Failure> {
    let mut stderr = unnamed_file().map_err(|error| format!("a file for what it says: {error}"))?;
    let mut commands = prepare(command, cgroup, &stderr).map_err(|error| error.to_string())?;
    let before = children();
    let start = Instant::now();
    let mut running = Vec::new();
    let mut failure = None;
    for (program, words) in commands.iter_mut().zip(&command.stages) {
        match program.spawn() {
            Ok(child) => running.push(child),
            Err(error) => {
                failure = Some(format!("{}: {error}", words[0]));
                break;
            }
        }
    }
    // With these go our ends of the pipes, without which no reader would see an end.
    drop(commands);
    for (child, words) in running.iter_mut().zip(&command.stages) {
        failure = wait(child, &words[0]).or(failure);
    }
    let seconds = start.elapsed().as_secs_f64();
    let after = children();
    match failure {
        Some(failure) => Err(format!("{failure}: {}", last_line(&mut stderr))),
        None => Ok(Sample {
            seconds,
            user_seconds: micros(&after, Usage::user_time) - micros(&before, Usage::user_time),
            system_seconds: micros(&after, Usage::system_time) - micros(&before, Usage::system_time),
            context_switches: switches(&after) - switches(&before),
            figures: BTreeMap::new(),
        }),
    }
}

fn prepare(command: &Pipeline, cgroup: Option<&Path>, stderr: &File) -> io::Result<Vec<Command>> {
    let mut input = match &command.stdin {
        Some(path) => Stdio::from(File::open(path)?),
        None => Stdio::null(),
    };
    let mut programs = Vec::new();
    for (place, words) in command.stages.iter().enumerate() {
        let mut program = match cgroup {
            None => Command::new(&words[0]),
            Some(cgroup) => {
                let mut shell = Command::new("/bin/sh");
                shell.args(["-c", "echo 0 > \"$0/cgroup.procs\" && exec \"$@\""]).arg(cgroup).arg(&words[0]);
                shell
            }
        };
        program.args(&words[1..]).stdin(input).stderr(stderr.try_clone()?);
        if place + 1 < command.stages.len() {
            let (reader, writer) = io::pipe()?;
            program.stdout(writer);
            input = reader.into();
        } else {
            program.stdout(match &command.stdout {
                Some(path) => Stdio::from(File::create(path)?),
                None => Stdio::null(),
            });
            input = Stdio::null();
        }
        // Words like a message's are compared by nobody, but a locale costs a start-up.
        program.env("LC_ALL", "C");
        programs.push(program);
    }
    Ok(programs)
}

fn wait(child: &mut Child, name: &str) -> Option<Failure> {
    match child.wait() {
        Ok(status) if status.success() => None,
        Ok(status) => Some(format!("{name} ended with {status}")),
        Err(error) => Some(format!("{name}: {error}")),
    }
}

fn children() -> Option<Usage> {
    getrusage(UsageWho::RUSAGE_CHILDREN).ok()
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of a run")]
fn micros(usage: &Option<Usage>, time: fn(&Usage) -> nix::sys::time::TimeVal) -> f64 {
    usage.as_ref().map_or(0.0, |usage| time(usage).num_microseconds() as f64 / 1e6)
}

fn switches(usage: &Option<Usage>) -> i64 {
    usage.as_ref().map_or(0, |usage| usage.voluntary_context_switches() + usage.involuntary_context_switches())
}

fn unnamed_file() -> io::Result<File> {
    use rustix::fs::{MemfdFlags, memfd_create};
    Ok(File::from(memfd_create("stderr", MemfdFlags::CLOEXEC)?))
}

fn last_line(stderr: &mut File) -> String {
    let mut said = Vec::new();
    if stderr.rewind().and_then(|()| stderr.read_to_end(&mut said)).is_err() {
        return String::new();
    }
    let said = String::from_utf8_lossy(&said).into_owned();
    // Statistics come last; the reason, if any, comes first.
    said.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pipeline(line: &str) -> Pipeline {
        Pipeline::parse(line, &BTreeMap::new()).expect("a line")
    }

    #[test]
    fn bytes_go_through_a_pipeline_from_file_to_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let (from, to) = (directory.path().join("in"), directory.path().join("out"));
        std::fs::write(&from, "one\ntwo\n").expect("a file");
        let line = format!("cat < {} | head -n 1 | cat > {}", from.display(), to.display());
        let sample = run(&pipeline(&line), None).expect("success");
        assert_eq!(std::fs::read_to_string(&to).expect("a file"), "one\n");
        assert!(sample.seconds > 0.0);
    }

    #[test]
    fn a_failure_anywhere_in_a_pipeline_is_told_with_its_words() {
        let failure = run(&pipeline("cat /no/such/file | cat"), None).expect_err("a failure");
        assert!(failure.contains("exit status: 1") && failure.contains("/no/such/file"), "{failure}");
    }

    #[test]
    fn a_program_that_is_missing_does_not_leave_the_others_waiting() {
        let failure = run(&pipeline("cat /dev/null | no-such-program-anywhere"), None).expect_err("a failure");
        assert!(failure.contains("no-such-program-anywhere"), "{failure}");
    }

    #[test]
    fn time_on_the_processor_is_counted() {
        let sample = run(&pipeline("head -c 200000000 /dev/zero"), None).expect("success");
        assert!(sample.user_seconds + sample.system_seconds > 0.0);
    }
}
