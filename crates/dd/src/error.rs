//! What went wrong, in dd's words.

use std::ffi::{OsStr, OsString};

use fdd_sys::locale::{Locale, error_text};
use rustix::io::Errno;

use crate::operands::UsageError;
use crate::{human, quote};

/// The name of an end as messages give it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    File(OsString),
    StandardInput,
    StandardOutput,
}

impl Name {
    fn as_os_str(&self) -> &OsStr {
        match self {
            Name::File(path) => path,
            Name::StandardInput => OsStr::new("standard input"),
            Name::StandardOutput => OsStr::new("standard output"),
        }
    }

    /// As it stands in a line of its own, quoted where it needs to be.
    pub fn text(&self, locale: &Locale) -> String {
        quote::prefix(self.as_os_str(), quotes(locale))
    }
}

/// An error that ends the copy or is told at its end. `text` words it; nothing here decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    Usage(UsageError),
    Open {
        name: Name,
        errno: Errno,
    },
    SettingFlags {
        name: Name,
        errno: Errno,
    },
    /// `seek=` times `obs` is beyond any file.
    TruncateTooLarge {
        seek: u64,
        block: u64,
    },
    Truncate {
        name: Name,
        len: u64,
        errno: Errno,
    },
    Fstat {
        name: Name,
        errno: Errno,
    },
    Skip {
        name: Name,
        errno: Errno,
    },
    Seek {
        name: Name,
        errno: Errno,
    },
    Read {
        name: Name,
        errno: Errno,
    },
    /// A full block of gathered output, and the fill before `seek=`.
    WriteBlock {
        name: Name,
        errno: Errno,
    },
    /// A block as read, and the last one.
    Write {
        name: Name,
        errno: Errno,
    },
    Fdatasync {
        name: Name,
        errno: Errno,
    },
    Fsync {
        name: Name,
        errno: Errno,
    },
    CloseInput {
        name: Name,
        errno: Errno,
    },
    CloseOutput {
        name: Name,
        errno: Errno,
    },
    DiscardCache {
        name: Name,
        errno: Errno,
    },
    Memory {
        end: &'static str,
        len: u64,
    },
    /// Appending a file to itself would never end.
    OntoItself {
        name: Name,
    },
    /// `istride=` or `ostride=` on what cannot seek.
    Stride {
        name: Name,
        errno: Errno,
    },
    /// Not opened with what keeps the durability that was asked for.
    DirectorySync {
        name: Name,
        errno: Errno,
    },
    /// What was asked for cannot be kept to here: `reflink=always`.
    Reflink {
        name: Name,
        errno: Errno,
    },
}

/// A warning or note; suppressed by status=none where `Monitor` says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    PartialRead {
        len: usize,
    },
    SkipPastEnd {
        name: Name,
    },
    DirectOff {
        name: Name,
        errno: Errno,
    },
    InvalidOffset,
    ZeroMultiplier,
    /// Bytes `at..at+len` of the input were lost.
    Lost {
        name: Name,
        at: u64,
        len: u64,
    },
    /// The input went away or has no known end and only fails.
    Vanished {
        name: Name,
        at: u64,
    },
    DirectoryNotSynced {
        name: Name,
        errno: Errno,
    },
}

impl Error {
    /// The message, without the program's name.
    pub fn text(&self, locale: &Locale) -> String {
        let always = |name: &Name| quote::file(name.as_os_str(), quotes(locale));
        let needed = |name: &Name| quote::prefix(name.as_os_str(), quotes(locale));
        let because = |errno: &Errno| error_text(*errno);
        match self {
            Error::Usage(usage) => usage.text.clone(),
            Error::Open { name, errno } => format!("failed to open {}: {}", always(name), because(errno)),
            Error::SettingFlags { name, errno } => format!("setting flags for {}: {}", always(name), because(errno)),
            Error::TruncateTooLarge { seek, block } => {
                format!("offset too large: cannot truncate to a length of seek={seek} ({block}-byte) blocks")
            }
            Error::Truncate { name, len, errno } => {
                format!("failed to truncate to {len} bytes in output file {}: {}", always(name), because(errno))
            }
            Error::Fstat { name, errno } => format!("cannot fstat {}: {}", always(name), because(errno)),
            Error::Skip { name, errno } => format!("{}: cannot skip: {}", needed(name), because(errno)),
            Error::Seek { name, errno } => format!("{}: cannot seek: {}", needed(name), because(errno)),
            Error::Read { name, errno } => format!("error reading {}: {}", always(name), because(errno)),
            Error::WriteBlock { name, errno } => format!("writing to {}: {}", always(name), because(errno)),
            Error::Write { name, errno } => format!("error writing {}: {}", always(name), because(errno)),
            Error::Fdatasync { name, errno } => format!("fdatasync failed for {}: {}", always(name), because(errno)),
            Error::Fsync { name, errno } => format!("fsync failed for {}: {}", always(name), because(errno)),
            Error::CloseInput { name, errno } => format!("closing input file {}: {}", always(name), because(errno)),
            Error::CloseOutput { name, errno } => format!("closing output file {}: {}", always(name), because(errno)),
            Error::DiscardCache { name, errno } => {
                format!("failed to discard cache for: {}: {}", needed(name), because(errno))
            }
            Error::Memory { end, len } => {
                format!(
                    "memory exhausted by {end} buffer of size {len} bytes ({})",
                    human::size(*len, human::Base::Binary, &locale.decimal_point)
                )
            }
            Error::OntoItself { name } => {
                format!("{}: input file is output file; appending to itself would never end", needed(name))
            }
            Error::Stride { name, errno } => format!("{}: cannot stride: {}", needed(name), because(errno)),
            Error::DirectorySync { name, errno } => {
                format!("fsync failed for the directory of {}: {}", always(name), because(errno))
            }
            Error::Reflink { name, errno } => format!("failed to clone into {}: {}", always(name), because(errno)),
        }
    }

    /// Whether the line that points to `--help` follows.
    pub fn try_help(&self) -> bool {
        matches!(self, Error::Usage(usage) if usage.try_help)
    }
}

impl Notice {
    /// The message, without the program's name.
    pub fn text(&self, locale: &Locale) -> String {
        let needed = |name: &Name| quote::prefix(name.as_os_str(), quotes(locale));
        match self {
            Notice::PartialRead { len } => {
                let unit = if *len == 1 { "byte" } else { "bytes" };
                format!("warning: partial read ({len} {unit}); suggest iflag=fullblock")
            }
            Notice::SkipPastEnd { name } => format!("{}: cannot skip to specified offset", needed(name)),
            Notice::DirectOff { name, errno } => {
                format!("failed to turn off O_DIRECT: {}: {}", needed(name), error_text(*errno))
            }
            Notice::InvalidOffset => "warning: invalid file offset after failed read".to_owned(),
            Notice::ZeroMultiplier => {
                let q = |text: &str| quote::word(OsStr::new(text), quotes(locale));
                format!("warning: {} is a zero multiplier; use {} if that is intended", q("0x"), q("00x"))
            }
            Notice::Lost { name, at, len } => {
                let unit = if *len == 1 { "byte" } else { "bytes" };
                format!("lost {len} {unit} of {} at offset {at}", needed(name))
            }
            Notice::Vanished { name, at } => format!("{}: input is gone at offset {at}", needed(name)),
            Notice::DirectoryNotSynced { name, errno } => {
                format!("warning: the directory of {} could not be synced: {}", needed(name), error_text(*errno))
            }
        }
    }
}

fn quotes(locale: &Locale) -> quote::Locale {
    quote::Locale { utf8: locale.utf8 }
}
