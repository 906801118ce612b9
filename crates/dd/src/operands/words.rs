//! The tables of every word that fdd knows. Parsing, `--help`, the man page and the completions all read them, so that
//! a word is added in one row.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use super::{Conv, Flag, Hash, MsgFmt, Number, Operands, Reflink, Status, Tapped};

/// One operand, `NAME=VALUE`.
pub(super) struct Operand {
    pub(super) name: &'static str,
    pub(super) takes: Takes,
    /// What stands for the value in the help text.
    pub(super) value: &'static str,
    pub(super) help: &'static str,
    /// Whether GNU dd has it too.
    pub(super) gnu: bool,
}

/// How the value of an operand is read.
pub(super) enum Takes {
    File(fn(&mut Operands, OsString)),
    /// A number from `min` to `max`.
    Number {
        min: u64,
        max: u64,
        set: fn(&mut Operands, Number),
    },
    /// Words from a table, with commas between them; `set` is false for a word that is not there.
    Words {
        table: fn() -> Vec<Described>,
        set: fn(&mut Operands, &[u8]) -> bool,
        complaint: &'static str,
    },
    /// Anything else; `set` is false where the value makes no sense.
    Text {
        examples: fn() -> Vec<Described>,
        set: fn(&mut Operands, &[u8]) -> bool,
        complaint: &'static str,
    },
}

/// A word among those that an operand takes.
pub(super) struct Word<T: 'static> {
    pub(super) name: &'static str,
    pub(super) means: T,
    pub(super) help: &'static str,
    pub(super) gnu: bool,
}

/// A word with its meaning left out: what the help text needs.
#[derive(Clone, Copy)]
pub(super) struct Described {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) gnu: bool,
}

pub(super) fn described<T>(table: &[Word<T>]) -> Vec<Described> {
    table.iter().map(|word| Described { name: word.name, help: word.help, gnu: word.gnu }).collect()
}

fn find<T: Copy>(table: &[Word<T>], name: &[u8]) -> Option<T> {
    table.iter().find(|word| word.name.as_bytes() == name).map(|word| word.means)
}

/// The largest size of a block: one less than a signed 64-bit offset can say.
const BLOCK_MAX: u64 = i64::MAX as u64 - 1;
/// The largest count and offset.
const OFFSET_MAX: u64 = i64::MAX as u64;

pub(super) const OPERANDS: &[Operand] = &[
    Operand {
        name: "if",
        takes: Takes::File(|operands, name| operands.input = Some(name)),
        value: "FILE",
        help: "read FILE instead of standard input",
        gnu: true,
    },
    Operand {
        name: "of",
        takes: Takes::File(|operands, name| operands.output = Some(name)),
        value: "FILE",
        help: "write FILE instead of standard output",
        gnu: true,
    },
    Operand {
        name: "bs",
        takes: Takes::Number { min: 1, max: BLOCK_MAX, set: |operands, n| operands.bs = Some(n.value) },
        value: "BYTES",
        help: "size of both input and output blocks; wins over ibs= and obs=",
        gnu: true,
    },
    Operand {
        name: "ibs",
        takes: Takes::Number { min: 1, max: BLOCK_MAX, set: |operands, n| operands.ibs = Some(n.value) },
        value: "BYTES",
        help: "size of an input block (512 unless given)",
        gnu: true,
    },
    Operand {
        name: "obs",
        takes: Takes::Number { min: 1, max: BLOCK_MAX, set: |operands, n| operands.obs = Some(n.value) },
        value: "BYTES",
        help: "size of an output block (512 unless given)",
        gnu: true,
    },
    Operand {
        name: "cbs",
        takes: Takes::Number { min: 1, max: OFFSET_MAX, set: |operands, n| operands.cbs = Some(n.value) },
        value: "BYTES",
        help: "size of a record for conv=block and conv=unblock",
        gnu: true,
    },
    Operand {
        name: "count",
        takes: Takes::Number { min: 0, max: OFFSET_MAX, set: |operands, n| operands.count = Some(n) },
        value: "N",
        help: "stop after N input blocks",
        gnu: true,
    },
    Operand {
        name: "skip",
        takes: Takes::Number { min: 0, max: OFFSET_MAX, set: |operands, n| operands.skip = Some(n) },
        value: "N",
        help: "pass over N input blocks first",
        gnu: true,
    },
    Operand {
        name: "iseek",
        takes: Takes::Number { min: 0, max: OFFSET_MAX, set: |operands, n| operands.skip = Some(n) },
        value: "N",
        help: "the same as skip=N",
        gnu: true,
    },
    Operand {
        name: "seek",
        takes: Takes::Number { min: 0, max: OFFSET_MAX, set: |operands, n| operands.seek = Some(n) },
        value: "N",
        help: "pass over N output blocks first",
        gnu: true,
    },
    Operand {
        name: "oseek",
        takes: Takes::Number { min: 0, max: OFFSET_MAX, set: |operands, n| operands.seek = Some(n) },
        value: "N",
        help: "the same as seek=N",
        gnu: true,
    },
    Operand {
        name: "conv",
        takes: Takes::Words {
            table: || described(CONVS),
            set: |operands, word| find(CONVS, word).map(|conv| operands.conv.insert(conv)).is_some(),
            complaint: "invalid conversion",
        },
        value: "CONVS",
        help: "convert the data, or change how it is copied",
        gnu: true,
    },
    Operand {
        name: "iflag",
        takes: Takes::Words {
            table: || described(FLAGS),
            set: |operands, word| find(FLAGS, word).map(|flag| operands.iflag.insert(flag)).is_some(),
            complaint: "invalid input flag",
        },
        value: "FLAGS",
        help: "how to open and read the input",
        gnu: true,
    },
    Operand {
        name: "oflag",
        takes: Takes::Words {
            table: || described(FLAGS),
            set: |operands, word| find(FLAGS, word).map(|flag| operands.oflag.insert(flag)).is_some(),
            complaint: "invalid output flag",
        },
        value: "FLAGS",
        help: "how to open and write the output",
        gnu: true,
    },
    Operand {
        name: "status",
        takes: Takes::Words {
            table: || described(STATUSES),
            set: |operands, word| find(STATUSES, word).map(|status| operands.status = Some(status)).is_some(),
            complaint: "invalid status level",
        },
        value: "LEVEL",
        help: "how much to say on standard error",
        gnu: true,
    },
    Operand {
        name: "files",
        takes: Takes::Number { min: 1, max: OFFSET_MAX, set: |operands, n| operands.files = Some(n.value) },
        value: "N",
        help: "read on through end-of-file marks until the Nth (tapes)",
        gnu: false,
    },
    Operand {
        name: "fillchar",
        takes: Takes::Text {
            examples: Vec::new,
            set: |operands, text| match text {
                [byte] => {
                    operands.fillchar = Some(*byte);
                    true
                }
                _ => false,
            },
            complaint: "invalid fill character",
        },
        value: "C",
        help: "pad with the byte C under conv=sync and conv=osync",
        gnu: false,
    },
    Operand {
        name: "speed",
        takes: Takes::Number { min: 1, max: OFFSET_MAX, set: |operands, n| operands.speed = Some(n.value) },
        value: "BYTES",
        help: "copy no more than BYTES a second",
        gnu: false,
    },
    Operand {
        name: "istride",
        takes: Takes::Number { min: 1, max: OFFSET_MAX, set: |operands, n| operands.istride = Some(n.value) },
        value: "N",
        help: "read one input block of every N",
        gnu: false,
    },
    Operand {
        name: "ostride",
        takes: Takes::Number { min: 1, max: OFFSET_MAX, set: |operands, n| operands.ostride = Some(n.value) },
        value: "N",
        help: "write one output block of every N",
        gnu: false,
    },
    Operand {
        name: "stride",
        takes: Takes::Number {
            min: 1,
            max: OFFSET_MAX,
            set: |operands, n| {
                operands.istride = Some(n.value);
                operands.ostride = Some(n.value);
            },
        },
        value: "N",
        help: "the same as istride=N ostride=N",
        gnu: false,
    },
    Operand {
        name: "msgfmt",
        takes: Takes::Text {
            examples: || described(MSGFMTS),
            set: |operands, text| {
                let format = find(MSGFMTS, text).map(MsgFmt::from).or_else(|| MsgFmt::format(text));
                operands.msgfmt = format.or(operands.msgfmt.take());
                find(MSGFMTS, text).is_some() || MsgFmt::format(text).is_some()
            },
            complaint: "invalid message format",
        },
        value: "FORMAT",
        help: "how to word the statistics: a word below, or text with NetBSD's % escapes",
        gnu: false,
    },
    Operand {
        name: "reflink",
        takes: Takes::Text {
            examples: || described(REFLINKS),
            set: |operands, text| find(REFLINKS, text).map(|reflink| operands.reflink = Some(reflink)).is_some(),
            complaint: "invalid reflink mode",
        },
        value: "WHEN",
        help: "share the input's blocks on disk instead of copying them (never unless given)",
        gnu: false,
    },
    Operand {
        name: "buffer",
        takes: Takes::Number { min: 1, max: BLOCK_MAX, set: |operands, n| operands.buffer = Some(n.value) },
        value: "BYTES",
        help: "keep up to BYTES in memory between a reader and a writer that run side by side",
        gnu: false,
    },
    Operand {
        name: "start",
        takes: Takes::Text {
            examples: Vec::new,
            set: |operands, text| percent(text).map(|percent| operands.start = Some(percent)).is_some(),
            complaint: "invalid percentage",
        },
        value: "PERCENT",
        help: "with buffer=, begin to write when it is PERCENT full, and again after it has run empty (0 unless given)",
        gnu: false,
    },
    Operand {
        name: "stop",
        takes: Takes::Text {
            examples: Vec::new,
            set: |operands, text| percent(text).map(|percent| operands.stop = Some(percent)).is_some(),
            complaint: "invalid percentage",
        },
        value: "PERCENT",
        help: "with buffer=, once it was full, read on when it is down to PERCENT (100 unless given)",
        gnu: false,
    },
    Operand {
        name: "hash",
        takes: Takes::Words {
            table: || described(HASHES),
            set: |operands, word| {
                let hash = find(HASHES, word);
                operands.hash.extend(hash.filter(|hash| !operands.hash.contains(hash)));
                hash.is_some()
            },
            complaint: "invalid hash",
        },
        value: "HASHES",
        help: "say the digests of what was copied, after the statistics",
        gnu: false,
    },
    Operand {
        name: "hashconv",
        takes: Takes::Words {
            table: || described(HASHCONVS),
            set: |operands, word| find(HASHCONVS, word).map(|tapped| operands.hashconv = Some(tapped)).is_some(),
            complaint: "invalid place for a hash",
        },
        value: "WHERE",
        help: "which bytes hash= takes",
        gnu: false,
    },
    Operand {
        name: "lost",
        takes: Takes::Text {
            examples: || described(LOST),
            set: |operands, text| find(LOST, text).map(|ok| operands.lost_ok = ok).is_some(),
            complaint: "invalid policy for lost data",
        },
        value: "POLICY",
        help: "what data lost under conv=noerror does to the exit status",
        gnu: false,
    },
];

macro_rules! words {
    ($kind:ty: $($name:literal $means:expr, $gnu:literal, $help:literal;)*) => {
        &[$(Word::<$kind> { name: $name, means: $means, help: $help, gnu: $gnu }),*]
    };
}

pub(super) const CONVS: &[Word<Conv>] = words! { Conv:
    "ascii" Conv::Ascii, true, "from EBCDIC to ASCII; with cbs=, unblock too";
    "ebcdic" Conv::Ebcdic, true, "from ASCII to EBCDIC; with cbs=, block too";
    "ibm" Conv::Ibm, true, "from ASCII to the EBCDIC of IBM's printers; with cbs=, block too";
    "block" Conv::Block, true, "lines to records of cbs= bytes, filled with spaces";
    "unblock" Conv::Unblock, true, "records of cbs= bytes to lines without the spaces at their end";
    "lcase" Conv::Lcase, true, "upper case to lower case";
    "ucase" Conv::Ucase, true, "lower case to upper case";
    "sparse" Conv::Sparse, true, "seek over output blocks of nothing but zeros";
    "swab" Conv::Swab, true, "swap each pair of bytes";
    "sync" Conv::Sync, true, "pad each short input block to its full size: with NULs, or spaces under block and unblock";
    "excl" Conv::Excl, true, "refuse an output file that exists";
    "nocreat" Conv::Nocreat, true, "refuse an output file that does not exist";
    "notrunc" Conv::Notrunc, true, "leave the rest of the output file as it is";
    "noerror" Conv::Noerror, true, "go on after read errors";
    "fdatasync" Conv::Fdatasync, true, "have the data on the disk before the end";
    "fsync" Conv::Fsync, true, "have the data and what describes the file on the disk before the end";
    "osync" Conv::Osync, false, "pad the last output block to its full size";
    "punch" Conv::Punch, false, "as sparse, and what is passed over reads as zeros on any output";
    "oldascii" Conv::OldAscii, false, "as ascii, by the tables of old BSD";
    "oldebcdic" Conv::OldEbcdic, false, "as ebcdic, by the tables of old BSD";
    "oldibm" Conv::OldIbm, false, "as ibm, by the tables of old BSD";
    "asciib" Conv::AsciiB, false, "as ascii, by the BSD tables of illumos";
    "ebcdicb" Conv::EbcdicB, false, "as ebcdic, by the BSD tables of illumos";
    "ibmb" Conv::IbmB, false, "as ibm, by the BSD tables of illumos";
    "pareven" Conv::ParEven, false, "set the highest bit for even parity";
    "parodd" Conv::ParOdd, false, "set the highest bit for odd parity";
    "parnone" Conv::ParNone, false, "clear the highest bit";
    "parset" Conv::ParSet, false, "set the highest bit";
};

/// The order is that of the help text.
pub(super) const FLAGS: &[Word<Flag>] = words! { Flag:
    "append" Flag::Append, true, "add to the end of the output; wants conv=notrunc";
    "direct" Flag::Direct, true, "pass the page cache by";
    "directory" Flag::Directory, true, "fail unless it is a directory";
    "dsync" Flag::Dsync, true, "have each block's data on the disk before the next";
    "sync" Flag::Sync, true, "as dsync, and what describes the file too";
    "fullblock" Flag::Fullblock, true, "read until an input block is full (iflag only)";
    "nonblock" Flag::Nonblock, true, "do not wait for the other side";
    "noatime" Flag::Noatime, true, "do not change the time of last access";
    "nocache" Flag::Nocache, true, "leave nothing of it in the page cache";
    "noctty" Flag::Noctty, true, "do not take a terminal as the controlling one";
    "nofollow" Flag::Nofollow, true, "do not follow a symbolic link";
    "count_bytes" Flag::CountBytes, true, "count=N is bytes (iflag only)";
    "skip_bytes" Flag::SkipBytes, true, "skip=N is bytes (iflag only)";
    "seek_bytes" Flag::SeekBytes, true, "seek=N is bytes (oflag only)";
    "neutral" Flag::Neutral, false, "leave the page cache as it was found: what was cached before stays";
};

pub(super) const STATUSES: &[Word<Status>] = words! { Status:
    "none" Status::None, true, "nothing but errors";
    "noxfer" Status::NoXfer, true, "no last line: no bytes, time and rate";
    "progress" Status::Progress, true, "that line each second while copying";
};

/// The words of `msgfmt=` that stand for a whole format.
#[derive(Clone, Copy)]
pub(super) enum Named {
    Quiet,
    Posix,
    Human,
}

pub(super) const MSGFMTS: &[Word<Named>] = words! { Named:
    "quiet" Named::Quiet, false, "no statistics";
    "posix" Named::Posix, false, "records only in POSIX's words";
    "human" Named::Human, false, "sizes and rates for people too";
};

pub(super) const REFLINKS: &[Word<Reflink>] = words! { Reflink:
    "auto" Reflink::Auto, false, "where the file system can, else copy";
    "always" Reflink::Always, false, "or fail";
    "never" Reflink::Never, false, "copy";
};

pub(super) const LOST: &[Word<bool>] = words! { bool:
    "ok" true, false, "none: exit with 0 as GNU dd does (without it, lost data is exit status 1)";
};

impl From<Named> for MsgFmt {
    fn from(named: Named) -> Self {
        match named {
            Named::Quiet => Self::Quiet,
            Named::Posix => Self::Posix,
            Named::Human => Self::Human,
        }
    }
}

/// The letters that may follow a `%` in `msgfmt=`.
pub(super) const ESCAPES: &[(u8, &str)] = &[
    (b'b', "bytes transferred"),
    (b'B', "bytes transferred, for people"),
    (b'e', "bytes a second"),
    (b'E', "bytes a second, for people"),
    (b'i', "partial input blocks"),
    (b'I', "full input blocks"),
    (b'o', "partial output blocks"),
    (b'O', "full output blocks"),
    (b's', "seconds, with thousandths"),
    (b'p', "sparse output blocks"),
    (b't', "truncated blocks"),
    (b'w', "blocks of odd length under swab"),
    (b'P', "`block` or `blocks`, after %p"),
    (b'T', "`block` or `blocks`, after %t"),
    (b'W', "`block` or `blocks`, after %w"),
    (b'%', "a percent sign"),
];

impl MsgFmt {
    /// A `%` format, if every escape in it is known.
    fn format(text: &[u8]) -> Option<Self> {
        let mut bytes = text.iter();
        while let Some(byte) = bytes.next() {
            if *byte == b'%' {
                let letter = bytes.next()?;
                ESCAPES.iter().find(|(known, _)| known == letter)?;
            }
        }
        Some(Self::Format(text.to_vec()))
    }
}

pub(super) const HASHES: &[Word<Hash>] = &[
    Word { name: "sha256", means: Hash::Sha256, help: "SHA-2 of 256 bits", gnu: false },
    Word { name: "sha512", means: Hash::Sha512, help: "SHA-2 of 512 bits", gnu: false },
    Word { name: "sha1", means: Hash::Sha1, help: "SHA-1; no protection against forgery", gnu: false },
    Word { name: "md5", means: Hash::Md5, help: "MD5; no protection against forgery", gnu: false },
    Word { name: "blake3", means: Hash::Blake3, help: "BLAKE3 of 256 bits; the fastest", gnu: false },
];

pub(super) const HASHCONVS: &[Word<Tapped>] = &[
    Word { name: "before", means: Tapped::Before, help: "those that were read, before conv=", gnu: false },
    Word { name: "after", means: Tapped::After, help: "those that were written (the default)", gnu: false },
];

/// 0 to 100, with or without a percent sign.
fn percent(text: &[u8]) -> Option<u8> {
    let digits = text.strip_suffix(b"%").unwrap_or(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok().filter(|percent| *percent <= 100)
}

/// The text of one argument.
pub(super) fn os(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}

/// The value of one argument, as a file name.
pub(super) fn owned(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_vec())
}
