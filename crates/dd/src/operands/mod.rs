//! Syntax: words and numbers, the last one wins. No defaults, no files, no rule that spans two operands.

use std::ffi::OsString;

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
}

impl ConvSet {
    pub fn has(self, conv: Conv) -> bool {
        self.0 & (1 << conv as u8) != 0
    }

    pub fn insert(&mut self, conv: Conv) {
        self.0 |= 1 << conv as u8;
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

/// Why a command line was refused. GNU's text comes from `text`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageError {
    pub text: String,
    /// Whether the line `Try 'dd --help' for more information.` follows.
    pub try_help: bool,
}
