//! A row of a table: what is given to dd and what is expected of it, compared in one place.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::os::unix::ffi::OsStrExt as _;
use std::process::Stdio;
use std::time::Duration;

use super::{End, dd_under_test, text};

/// Standard input.
#[derive(Clone, Copy)]
pub(crate) enum In {
    Null,
    /// A file with these bytes, at this offset.
    File(&'static [u8], u64),
    /// A pipe that holds these bytes and has ended: each read gets all it asks for.
    Pipe(&'static [u8]),
    /// A pipe of which each read gets one of these.
    Packets(&'static [&'static [u8]]),
    /// The directory that dd runs in.
    Directory,
}

/// Standard output.
#[derive(Clone, Copy)]
pub(crate) enum Out {
    Pipe,
    Null,
    /// A file with these bytes, at this offset, open for reading and writing.
    File(&'static [u8], u64),
    /// A file with these bytes, opened to append.
    Append(&'static [u8]),
    Full,
}

/// How the installed GNU dd stands to a row.
#[derive(Clone, Copy)]
pub(crate) enum Gnu {
    Same,
    /// GNU dd does something else, on purpose or not.
    Differs(&'static str),
    /// GNU dd did something else before this version.
    Before((u32, u32), &'static str),
    /// GNU dd 9.1 does something else; since which version it no longer does is not known, so later ones may do either.
    Old(&'static str),
}

/// One row. `..Row::EMPTY` gives what a row does not name.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// Operands, with a space between.
    pub(crate) args: &'static str,
    /// Further operands, for those that hold spaces or are not text.
    pub(crate) more: &'static [&'static [u8]],
    /// A script for the shell instead of dd itself: `dd` is the one under test and `"$@"` its operands.
    pub(crate) shell: &'static str,
    /// Files that are there before.
    pub(crate) files: &'static [(&'static str, &'static [u8])],
    pub(crate) stdin: In,
    pub(crate) stdout: Out,
    /// What is written to standard output, or what its file holds afterwards.
    pub(crate) output: &'static [u8],
    /// Messages and summary; see [`text::expanded`]. `"*"` when another test looks at it.
    pub(crate) stderr: &'static str,
    pub(crate) end: End,
    /// Files afterwards: their bytes, or `None` when they must not be there.
    pub(crate) after: &'static [(&'static str, Option<&'static [u8]>)],
    /// The offset that is left on standard input.
    pub(crate) stdin_left_at: Option<u64>,
    /// The offset that is left on standard output.
    pub(crate) stdout_left_at: Option<u64>,
    /// The sizes of the single writes, standard output being a packet-mode pipe.
    pub(crate) writes: Option<&'static [usize]>,
    /// Environment to add.
    pub(crate) env: &'static [(&'static str, &'static str)],
    pub(crate) gnu: Gnu,
    /// What fdd does not do yet. A marked row that passes is an error.
    pub(crate) missing: &'static str,
}

impl Row {
    pub(crate) const EMPTY: Row = Row {
        name: "",
        args: "",
        more: &[],
        shell: "",
        files: &[],
        stdin: In::Null,
        stdout: Out::Pipe,
        output: b"",
        stderr: "",
        end: End::Exit(0),
        after: &[],
        stdin_left_at: None,
        stdout_left_at: None,
        writes: None,
        env: &[],
        gnu: Gnu::Same,
        missing: "",
    };
}

/// Makes one test of each row, named as the row.
#[macro_export]
macro_rules! rows {
    ($($(#[$meta:meta])* $name:ident { $($field:ident : $value:expr),* $(,)? })*) => { $(
        $(#[$meta])*
        #[test]
        fn $name() {
            const ROW: $crate::support::row::Row = $crate::support::row::Row {
                name: stringify!($name),
                $($field: $value,)*
                ..$crate::support::row::Row::EMPTY
            };
            $crate::support::row::check(&ROW);
        }
    )* };
}

/// Runs the row's command and compares. Panics with what differs and how to repeat it.
pub(crate) fn check(row: &Row) {
    let dd = dd_under_test();
    let wrong = mismatches(row);
    if let (Some(version), Gnu::Old(_)) = (dd.gnu, row.gnu)
        && version > (9, 1)
    {
        return;
    }
    let expect_mismatch = match (dd.gnu, row.gnu) {
        (Some(_), Gnu::Differs(why)) => Some(why),
        (Some(version), Gnu::Before(fixed, why)) if version < fixed => Some(why),
        (Some(_), Gnu::Old(why)) => Some(why),
        (Some(_), _) => None,
        (None, _) if !row.missing.is_empty() => Some(row.missing),
        (None, _) => None,
    };
    match (expect_mismatch, wrong.is_empty()) {
        (Some(why), true) => panic!("{}: is marked ({why}) and passes", row.name),
        (None, false) => panic!("{}\n  {}\n{}", row.name, line_of(row), wrong.join("\n")),
        _ => {}
    }
}

fn line_of(row: &Row) -> String {
    let args = args_of(row);
    if row.shell.is_empty() {
        super::command_line(&args)
    } else {
        format!("sh -c '{}'   # {}", row.shell, super::command_line(&args))
    }
}

fn args_of(row: &Row) -> Vec<&'static OsStr> {
    let words = row.args.split(' ').filter(|word| !word.is_empty()).map(OsStr::new);
    words.chain(row.more.iter().map(|arg| OsStr::from_bytes(arg))).collect()
}

fn mismatches(row: &Row) -> Vec<String> {
    let dd = dd_under_test();
    let scratch = super::scratch();
    // The files of the streams lie outside of the directory that dd sees.
    let dir = scratch.path().join("cwd");
    fs::create_dir(&dir).expect("a directory to run in");
    for (name, bytes) in row.files {
        fs::write(dir.join(name), bytes).expect("a file that is there before");
    }
    let args = args_of(row);
    let mut command =
        if row.shell.is_empty() { super::command(dd, &args, &dir) } else { super::shell(dd, row.shell, &args, &dir) };
    command.envs(row.env.iter().copied());

    let mut kept_in = None;
    command.stdin(match row.stdin {
        In::Null => Stdio::null(),
        In::File(bytes, offset) => {
            let file = super::file_at(&scratch.path().join("stdin"), bytes, offset, false);
            kept_in = Some(file.try_clone().expect("a second descriptor"));
            Stdio::from(file)
        }
        In::Pipe(bytes) => Stdio::from(super::full_pipe(&[bytes], false)),
        In::Packets(packets) => Stdio::from(super::full_pipe(packets, true)),
        In::Directory => Stdio::from(fs::File::open(&dir).expect("a directory can be opened")),
    });
    let stdout_path = scratch.path().join("stdout");
    let mut kept_out = None;
    let mut reader = None;
    command.stdout(match row.stdout {
        Out::Pipe => {
            let (read, write) = if row.writes.is_some() { super::packet_pipe() } else { super::pipe() };
            reader = Some(read);
            Stdio::from(write)
        }
        Out::Null => Stdio::null(),
        Out::Full => Stdio::from(OpenOptions::new().write(true).open("/dev/full").expect("/dev/full")),
        Out::File(bytes, offset) => {
            let file = super::file_at(&stdout_path, bytes, offset, false);
            kept_out = Some(file.try_clone().expect("a second descriptor"));
            Stdio::from(file)
        }
        Out::Append(bytes) => Stdio::from(super::file_at(&stdout_path, bytes, 0, true)),
    });
    let limit =
        if dd.gnu.is_some() && matches!(row.gnu, Gnu::Differs(_)) { Duration::from_secs(2) } else { super::LIMIT };
    let got = super::finish(command, reader, limit);

    let mut wrong = Vec::new();
    let mut compare = |what: &str, expected: &[u8], got: &[u8]| {
        if expected != got {
            wrong.push(format!(
                "  {what}\n    expected {}\n    got      {}",
                super::one_line(expected),
                super::one_line(got)
            ));
        }
    };
    let output = if matches!(row.stdout, Out::File(..) | Out::Append(_)) {
        fs::read(&stdout_path).expect("the file that was standard output")
    } else {
        got.stdout.clone()
    };
    compare("standard output", row.output, &output);
    if row.stderr != "*" {
        compare("standard error", text::expanded(row.stderr).as_bytes(), text::normalised(&got.stderr).as_bytes());
    }
    for (name, expected) in row.after {
        let bytes = fs::read(dir.join(name)).ok();
        match (expected, bytes) {
            (Some(expected), Some(bytes)) => compare(name, expected, &bytes),
            (None, Some(bytes)) => compare(name, b"(no such file)", &bytes),
            (Some(expected), None) => compare(name, expected, b"(no such file)"),
            (None, None) => {}
        }
    }
    if let Some(expected) = row.writes {
        compare("sizes of writes", format!("{expected:?}").as_bytes(), format!("{:?}", got.packets).as_bytes());
    }
    for (what, expected, file) in [
        ("offset left on input", row.stdin_left_at, &kept_in),
        ("offset left on output", row.stdout_left_at, &kept_out),
    ] {
        if let Some(expected) = expected {
            let left = super::offset_of(file.as_ref().expect("the row gives a file"));
            compare(what, expected.to_string().as_bytes(), left.to_string().as_bytes());
        }
    }
    compare("end", format!("{:?}", row.end).as_bytes(), format!("{:?}", got.end).as_bytes());
    wrong
}
