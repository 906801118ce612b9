//! Syntax: words and numbers, the last one wins. No defaults, no files, no rule that spans two operands.

mod help;
#[cfg(test)]
mod naive;
mod number;
#[cfg(test)]
mod tests;
mod words;

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;

use crate::quote;
pub use help::{Shell, completions, help, man, version};
use number::NumberError;
use words::{OPERANDS, Operand, Takes};

/// What was typed, validated operand by operand; nothing is defaulted and no two operands are compared.
#[derive(Clone, Debug, Default)]
pub struct Operands {
    pub input: Option<OsString>,
    pub output: Option<OsString>,
    /// Bytes, at least 1.
    pub bs: Option<u64>,
    pub ibs: Option<u64>,
    pub obs: Option<u64>,
    pub cbs: Option<u64>,
    pub count: Option<Number>,
    pub skip: Option<Number>,
    pub seek: Option<Number>,
    pub conv: ConvSet,
    pub iflag: FlagSet,
    pub oflag: FlagSet,
    pub status: Option<Status>,
    /// `files=`: how many end-of-file marks to read through (FreeBSD, NetBSD, illumos).
    pub files: Option<u64>,
    /// `fillchar=`: the pad byte for `sync` and `osync` (FreeBSD).
    pub fillchar: Option<u8>,
    /// `speed=`: bytes a second (FreeBSD).
    pub speed: Option<u64>,
    /// `istride=`, `ostride=` (`stride=` sets both; illumos): records from the start of one record to the next.
    pub istride: Option<u64>,
    pub ostride: Option<u64>,
    /// `msgfmt=` (NetBSD).
    pub msgfmt: Option<MsgFmt>,
    pub reflink: Option<Reflink>,
    /// `buffer=`: bytes held between a reader and a writer.
    pub buffer: Option<u64>,
    /// `start=` and `stop=`: percent of `buffer`, 0 to 100.
    pub start: Option<u8>,
    pub stop: Option<u8>,
    /// `hash=`: each digest that is asked for, once, in the order of asking.
    pub hash: Vec<Hash>,
    pub hashconv: Option<Tapped>,
    /// `lost=ok`: data lost under `conv=noerror` leaves the exit status at 0.
    pub lost_ok: bool,
}

/// A value of `count=`, `skip=` or `seek=`: blocks, or bytes where a `B` stood anywhere in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Number {
    pub value: u64,
    pub in_bytes: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Status {
    None,
    NoXfer,
    #[default]
    Default,
    Progress,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MsgFmt {
    Quiet,
    Posix,
    Human,
    /// NetBSD's `%` format.
    Format(Vec<u8>),
}

/// `reflink=`: whether the output may share the input's blocks on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reflink {
    Auto,
    Always,
    Never,
}

/// A digest that `hash=` knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    Sha256,
    Sha512,
    Sha1,
    Md5,
    Blake3,
}

/// `hashconv=`: which bytes are hashed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tapped {
    /// Those that were read.
    Before,
    /// Those that were written.
    #[default]
    After,
}

/// The words of `conv=` that were given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConvSet(u64);

/// The words of `iflag=` or `oflag=` that were given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlagSet(u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Conv {
    Ascii,
    Ebcdic,
    Ibm,
    Block,
    Unblock,
    Lcase,
    Ucase,
    Swab,
    Sync,
    Noerror,
    Excl,
    Nocreat,
    Notrunc,
    Fdatasync,
    Fsync,
    Sparse,
    Osync,
    OldAscii,
    OldEbcdic,
    OldIbm,
    AsciiB,
    EbcdicB,
    IbmB,
    ParEven,
    ParOdd,
    ParNone,
    ParSet,
    Punch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Flag {
    Append,
    Direct,
    Directory,
    Dsync,
    Sync,
    Nocache,
    Nonblock,
    Noatime,
    Noctty,
    Nofollow,
    Fullblock,
    CountBytes,
    SkipBytes,
    SeekBytes,
    Neutral,
}

impl ConvSet {
    pub fn has(self, conv: Conv) -> bool {
        self.0 & (1 << conv as u8) != 0
    }

    pub fn insert(&mut self, conv: Conv) {
        self.0 |= 1 << conv as u8;
    }
}

impl ConvSet {
    pub fn remove(&mut self, conv: Conv) {
        self.0 &= !(1 << conv as u8);
    }
}

impl FlagSet {
    pub fn has(self, flag: Flag) -> bool {
        self.0 & (1 << flag as u8) != 0
    }

    pub fn insert(&mut self, flag: Flag) {
        self.0 |= 1 << flag as u8;
    }
}

/// What the command line asks for.
#[derive(Clone, Debug)]
pub enum Request {
    Copy(Box<Operands>),
    Help,
    Version,
}

/// The outcome of reading a command line: the warnings that came before it ended, in order, and the request or the error.
#[derive(Clone, Debug)]
pub struct Parsed {
    pub warnings: Vec<Warning>,
    pub request: Result<Request, UsageError>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// A factor that starts with `0x`: GNU reads it as zero times what follows.
    ZeroMultiplier,
}

impl Warning {
    /// The message, without the program's name.
    pub fn text(&self, quotes: quote::Locale) -> String {
        match self {
            Self::ZeroMultiplier => format!(
                "warning: {} is a zero multiplier; use {} if that is intended",
                quote::word("0x".as_ref(), quotes),
                quote::word("00x".as_ref(), quotes)
            ),
        }
    }
}

/// Why a command line was refused. GNU's text comes from `text`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageError {
    pub text: String,
    /// Whether the line `Try 'dd --help' for more information.` follows.
    pub try_help: bool,
}

/// Reads the arguments that follow the program's name. Under `POSIXLY_CORRECT` options end at the first operand.
pub fn parse(args: &[OsString], posixly_correct: bool, quotes: quote::Locale) -> Parsed {
    let mut warnings = Vec::new();
    // Options come first wherever they stand: `dd foo --help` is a request for help and no complaint about `foo`.
    let request = options(args, posixly_correct).and_then(|read| match read {
        Options::Request(request) => Ok(request),
        Options::Operands(words) => {
            let mut operands = Box::<Operands>::default();
            words.iter().try_for_each(|word| operand(&mut operands, word.as_bytes(), &mut warnings, quotes))?;
            Ok(Request::Copy(operands))
        }
    });
    Parsed { warnings, request }
}

enum Options<'a> {
    Request(Request),
    Operands(Vec<&'a OsString>),
}

/// Takes options out of the arguments as `getopt_long` does; the first one decides.
fn options(args: &[OsString], posixly_correct: bool) -> Result<Options<'_>, UsageError> {
    let mut operands = Vec::new();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match arg.as_bytes() {
            b"--" => {
                operands.extend(rest);
                break;
            }
            [b'-', b'-', ..] => return long_option(arg.as_bytes()).map(Options::Request),
            [b'-', letter, ..] => {
                return Err(UsageError::usage(format!("invalid option -- '{}'", String::from_utf8_lossy(&[*letter]))));
            }
            _ => operands.push(arg),
        }
        if posixly_correct {
            operands.extend(rest);
            break;
        }
    }
    Ok(Options::Operands(operands))
}

/// Reads `--NAME`, where any beginning of a name will do that fits no other.
fn long_option(arg: &[u8]) -> Result<Request, UsageError> {
    const NAMES: &[(&str, Request)] = &[("help", Request::Help), ("version", Request::Version)];
    let mut parts = arg[2..].splitn(2, |byte| *byte == b'=');
    let (name, value) = (parts.next().unwrap_or_default(), parts.next());
    let fits: Vec<_> = NAMES.iter().filter(|(full, _)| full.as_bytes().starts_with(name)).collect();
    // GNU: these words come from the C library and quote without escapes.
    let typed = String::from_utf8_lossy(arg);
    match fits[..] {
        [] => Err(UsageError::usage(format!("unrecognized option '{typed}'"))),
        [(full, _)] if value.is_some() => {
            Err(UsageError::usage(format!("option '--{full}' doesn't allow an argument")))
        }
        [(_, request)] => Ok(request.clone()),
        [..] => {
            let names: String = fits.iter().map(|(full, _)| format!(" '--{full}'")).collect();
            Err(UsageError::usage(format!("option '{typed}' is ambiguous; possibilities:{names}")))
        }
    }
}

/// Reads one operand into `operands`.
fn operand(
    operands: &mut Operands,
    word: &[u8],
    warnings: &mut Vec<Warning>,
    quotes: quote::Locale,
) -> Result<(), UsageError> {
    let unrecognized = || UsageError::usage(format!("unrecognized operand {}", quote::word(words::os(word), quotes)));
    let equals = word.iter().position(|byte| *byte == b'=').ok_or_else(unrecognized)?;
    let (name, value) = (&word[..equals], &word[equals + 1..]);
    let takes = OPERANDS.iter().find(|row| row.name.as_bytes() == name).map(|Operand { takes, .. }| takes);
    let of_value = |complaint: &str, value: &[u8]| {
        UsageError::usage(format!("{complaint}: {}", quote::word(words::os(value), quotes)))
    };
    match takes {
        Some(Takes::File(set)) => set(operands, words::owned(value)),
        Some(Takes::Words { set, complaint, .. }) => {
            for item in value.split(|byte| *byte == b',') {
                if !set(operands, item) {
                    return Err(of_value(complaint, item));
                }
            }
        }
        Some(Takes::Text { set, complaint, .. }) => {
            if !set(operands, value) {
                return Err(of_value(complaint, value));
            }
        }
        // GNU: a number is read before its operand is looked up, so that a warning comes before the complaint.
        Some(Takes::Number { .. }) | None => {
            let read = number::parse(value);
            if read.is_ok_and(|read| read.zero_multiplier) {
                warnings.push(Warning::ZeroMultiplier);
            }
            let Some(Takes::Number { min, max, set }) = takes else { return Err(unrecognized()) };
            let read = read.and_then(|read| match read.value {
                value if value < *min => Err(NumberError::Invalid),
                value if value > *max => Err(NumberError::TooLarge),
                value => Ok(Number { value, in_bytes: read.in_bytes }),
            });
            set(operands, read.map_err(|error| invalid_number(value, error, quotes))?);
        }
    }
    Ok(())
}

fn invalid_number(value: &[u8], error: NumberError, quotes: quote::Locale) -> UsageError {
    let why = match error {
        NumberError::Invalid => "",
        NumberError::TooLarge => ": Value too large for defined data type",
    };
    let text = format!("invalid number: {}{why}", quote::word(words::os(value), quotes));
    UsageError { text, try_help: false }
}

impl UsageError {
    /// An error that points at the help text.
    fn usage(text: String) -> Self {
        Self { text, try_help: true }
    }
}
