//! Every rule that spans two operands, settled once, before any file is opened, into a value that never changes.

use std::ffi::OsString;
use std::num::NonZeroU64;

use rustix::fs::OFlags;

use crate::conv::{Case, Charset, Form, Parity, Recipe};
use crate::error::Error;
use crate::operands::{
    Conv, ConvSet, Flag, FlagSet, Hash, MsgFmt, Number, Operands, Reflink, Status, Tapped, UsageError,
};
use crate::quote;
use crate::units::Amount;

/// What GNU dd uses where no size is given.
const DEFAULT_BLOCK: usize = 512;

#[derive(Clone, Debug)]
pub struct Plan {
    pub input: InputPlan,
    pub output: OutputPlan,
    pub blocks: Blocks,
    pub recipe: Recipe,
    /// `count=`: how many input records and then bytes; `None` is all.
    pub limit: Option<Amount>,
    /// Whether a short read deserves a warning, since the user counts in blocks.
    pub warn_partial: bool,
    /// `speed=`: bytes a second.
    pub speed: Option<NonZeroU64>,
    pub status: Status,
    pub msgfmt: Option<MsgFmt>,
    /// `buffer=`: so much memory between a reader and a writer.
    pub buffer: Option<Buffering>,
    pub reflink: Reflink,
    pub taps: Taps,
}

/// `hash=`: which digests are taken, and of which bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taps {
    pub hashes: Vec<Hash>,
    pub tapped: Tapped,
}

/// How input blocks become output blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocks {
    /// `bs=` and no data conversion: a read is written as it came, short or not.
    AsRead { bs: usize },
    /// Output is gathered into whole `obs` blocks.
    Reblock { ibs: usize, obs: usize },
}

#[derive(Clone, Debug)]
pub struct InputPlan {
    /// `None` is standard input.
    pub path: Option<OsString>,
    /// The flags to open with, or to set on an inherited descriptor.
    pub flags: OFlags,
    pub ibs: usize,
    pub skip: Amount,
    pub fullblock: bool,
    pub direct: bool,
    pub directory: bool,
    /// `iflag=nonblock`: EAGAIN is an error. Otherwise an inherited non-blocking descriptor is waited for.
    pub nonblock: bool,
    pub cache: Cache,
    pub on_error: OnError,
    /// conv=sync: what a short block is filled with.
    pub pad: Option<u8>,
    /// `files=`: how many ends of file to read through.
    pub files: u64,
    /// `istride=`: records from the start of one to the next; 1 is all.
    pub stride: u64,
}

/// What a read error means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    Stop,
    /// conv=noerror. With `lost_ok` lost data does not make the exit status 1.
    GoOn {
        lost_ok: bool,
    },
}

/// What a copy leaves in the page cache of one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cache {
    Keep,
    /// `nocache`: what was processed is dropped.
    Drop,
    /// `nocache` with `count=0`: all of the file is dropped, and a failure is an error.
    DropAll,
    /// `neutral`: what was cached before stays, the rest is dropped.
    Neutral,
}

#[derive(Clone, Debug)]
pub struct OutputPlan {
    /// `None` is standard output.
    pub path: Option<OsString>,
    pub flags: OFlags,
    pub creation: Creation,
    pub obs: usize,
    pub seek: Amount,
    pub truncate: Truncate,
    pub holes: Holes,
    pub durable: Durable,
    pub direct: bool,
    pub directory: bool,
    pub nonblock: bool,
    pub append: bool,
    pub cache: Cache,
    /// conv=osync: what a short last block is filled with.
    pub pad_last: Option<u8>,
    pub stride: u64,
    /// conv=notrunc, which also decides what nocache drops at the end.
    pub notrunc: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Creation {
    IfMissing,
    /// conv=excl
    Must,
    /// conv=nocreat
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truncate {
    Keep,
    ToZero,
    ToSeek,
}

/// What happens to a block of zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holes {
    Write,
    /// conv=sparse: it is stepped over; on a file old data stays, on a device it reads as zeros.
    Skip,
    /// conv=punch: it is stepped over and made to read as zeros.
    Punch,
}

/// What is on the medium when the copy has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durable {
    No,
    /// conv=fdatasync
    Data,
    /// conv=fsync, also with fdatasync
    All {
        data_first: bool,
    },
}

/// `buffer=`, `start=` and `stop=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffering {
    pub bytes: u64,
    /// The writer begins when so many percent are full.
    pub start: u8,
    /// The reader goes on when no more than so many percent are full.
    pub stop: u8,
}

impl Plan {
    /// Checks in GNU dd's order, then puts everything together.
    ///
    /// # Errors
    /// Words that exclude each other, a size that this machine cannot hold.
    pub fn resolve(operands: Operands, quotes: quote::Locale) -> Result<Plan, Error> {
        let conv = effective(operands.conv, operands.cbs);
        exclusive_words(&operands, conv, quotes)?;
        let charset = charset(conv);
        let form = form(conv, operands.cbs)?;
        let case = if conv.has(Conv::Ucase) {
            Some(Case::Upper)
        } else if conv.has(Conv::Lcase) {
            Some(Case::Lower)
        } else {
            None
        };
        let recipe = Recipe::new(charset, case, parity(conv), conv.has(Conv::Swab), form);
        let converts = charset.is_some()
            || case.is_some()
            || parity(conv).is_some()
            || [Conv::Swab, Conv::Block, Conv::Unblock].into_iter().any(|word| operands.conv.has(word));
        let blocks = blocks(&operands, converts)?;
        let (ibs, obs) = match blocks {
            Blocks::AsRead { bs } => (bs, bs),
            Blocks::Reblock { ibs, obs } => (ibs, obs),
        };
        let pad = operands.fillchar.unwrap_or_else(|| pad(form, charset));
        let (iflag, oflag) = (operands.iflag, operands.oflag);
        let limit = operands.count.map(|count| amount(count, iflag.has(Flag::CountBytes), ibs));
        let nothing_to_copy = limit.is_some_and(Amount::is_zero);
        let skip = operands.skip.map_or(Amount::of_records(0, ibs), |n| amount(n, iflag.has(Flag::SkipBytes), ibs));
        let seek = operands.seek.map_or(Amount::of_records(0, obs), |n| amount(n, oflag.has(Flag::SeekBytes), obs));
        let direct = iflag.has(Flag::Direct) || oflag.has(Flag::Direct);
        let fullblock = iflag.has(Flag::Fullblock);
        let warn_partial = matches!(blocks, Blocks::AsRead { .. })
            && !fullblock
            && (skip.records() > 0 || limit.is_some_and(|limit| limit.records() > 0) || direct);
        let append = oflag.has(Flag::Append);
        let truncate = if conv.has(Conv::Notrunc) {
            Truncate::Keep
        } else if seek.is_zero() {
            Truncate::ToZero
        } else {
            // GNU: whole blocks decide, so that a byte seek below obs empties the file. POSIX keeps what is before the seek.
            Truncate::ToSeek
        };
        let holes = match (conv.has(Conv::Punch), conv.has(Conv::Sparse)) {
            // GNU: sparse loses the zeros under append.
            _ if append => Holes::Write,
            (true, _) => Holes::Punch,
            (false, true) => Holes::Skip,
            (false, false) => Holes::Write,
        };
        let durable = match (conv.has(Conv::Fsync), conv.has(Conv::Fdatasync)) {
            (true, data_first) => Durable::All { data_first },
            (false, true) => Durable::Data,
            (false, false) => Durable::No,
        };
        Ok(Plan {
            input: InputPlan {
                path: operands.input,
                flags: open_flags(iflag) | input_sync(iflag),
                ibs,
                skip,
                fullblock,
                direct: iflag.has(Flag::Direct),
                directory: iflag.has(Flag::Directory),
                nonblock: iflag.has(Flag::Nonblock),
                cache: cache(iflag, nothing_to_copy),
                on_error: if conv.has(Conv::Noerror) {
                    OnError::GoOn { lost_ok: operands.lost_ok }
                } else {
                    OnError::Stop
                },
                pad: conv.has(Conv::Sync).then_some(pad),
                files: operands.files.unwrap_or(1),
                stride: operands.istride.unwrap_or(1).max(1),
            },
            output: OutputPlan {
                path: operands.output,
                flags: open_flags(oflag) | if append { OFlags::APPEND } else { OFlags::empty() },
                creation: match (conv.has(Conv::Excl), conv.has(Conv::Nocreat)) {
                    (true, _) => Creation::Must,
                    (false, true) => Creation::Never,
                    (false, false) => Creation::IfMissing,
                },
                obs,
                seek,
                truncate,
                holes,
                durable,
                direct: oflag.has(Flag::Direct),
                directory: oflag.has(Flag::Directory),
                nonblock: oflag.has(Flag::Nonblock),
                append,
                cache: cache(oflag, nothing_to_copy),
                pad_last: conv.has(Conv::Osync).then_some(pad),
                stride: operands.ostride.unwrap_or(1).max(1),
                notrunc: conv.has(Conv::Notrunc),
            },
            blocks,
            recipe,
            limit,
            warn_partial,
            speed: operands.speed.and_then(NonZeroU64::new),
            status: operands.status.unwrap_or_default(),
            msgfmt: operands.msgfmt,
            buffer: operands.buffer.map(|bytes| Buffering {
                bytes,
                start: operands.start.unwrap_or(0),
                stop: operands.stop.unwrap_or(100),
            }),
            reflink: operands.reflink.unwrap_or(Reflink::Never),
            taps: Taps { hashes: operands.hash, tapped: operands.hashconv.unwrap_or_default() },
        })
    }

    /// Nothing was asked for that ties each record to a moment or a place of its own, and nobody but the files wants the bytes.
    pub fn is_undisturbed(&self) -> bool {
        self.may_be_joined() && self.taps.hashes.is_empty()
    }

    /// As [`is_undisturbed`](Plan::is_undisturbed), for a way that hands each byte to the sink once: digests of what is written
    /// may be taken there.
    pub fn may_be_joined(&self) -> bool {
        (self.taps.hashes.is_empty() || self.taps.tapped == Tapped::After)
            && self.speed.is_none()
            && self.buffer.is_none()
            && self.input.stride == 1
            && self.output.stride == 1
            && self.input.files == 1
    }

    /// Whether there is anything to read.
    pub fn copies(&self) -> bool {
        !self.limit.is_some_and(Amount::is_zero)
    }
}

/// The words in force: a charset brings its record form, and no form is there without `cbs=`.
fn effective(mut conv: ConvSet, cbs: Option<u64>) -> ConvSet {
    if [Conv::Ascii, Conv::OldAscii, Conv::AsciiB].into_iter().any(|word| conv.has(word)) {
        conv.insert(Conv::Unblock);
    }
    if [Conv::Ebcdic, Conv::Ibm, Conv::OldEbcdic, Conv::OldIbm, Conv::EbcdicB, Conv::IbmB]
        .into_iter()
        .any(|word| conv.has(word))
    {
        conv.insert(Conv::Block);
    }
    // GNU: without cbs the two vanish, and before it is asked whether they exclude each other.
    if cbs.is_none() {
        conv.remove(Conv::Block);
        conv.remove(Conv::Unblock);
    }
    conv
}

fn exclusive_words(operands: &Operands, conv: ConvSet, quotes: quote::Locale) -> Result<(), Error> {
    if operands.oflag.has(Flag::Fullblock) {
        let text = format!("invalid output flag: {}", quote::word("fullblock".as_ref(), quotes));
        return Err(Error::Usage(UsageError { text, try_help: true }));
    }
    let charsets = CHARSETS.iter().filter(|(word, _)| conv.has(*word)).count();
    if charsets > 1 {
        return refuse("cannot combine any two of {ascii,ebcdic,ibm}");
    }
    if conv.has(Conv::Block) && conv.has(Conv::Unblock) {
        return refuse("cannot combine block and unblock");
    }
    if conv.has(Conv::Lcase) && conv.has(Conv::Ucase) {
        return refuse("cannot combine lcase and ucase");
    }
    if conv.has(Conv::Excl) && conv.has(Conv::Nocreat) {
        return refuse("cannot combine excl and nocreat");
    }
    for flags in [operands.iflag, operands.oflag] {
        if flags.has(Flag::Direct) && flags.has(Flag::Nocache) {
            return refuse("cannot combine direct and nocache");
        }
        if flags.has(Flag::Direct) && flags.has(Flag::Neutral) {
            return refuse("cannot combine direct and neutral");
        }
        if flags.has(Flag::Nocache) && flags.has(Flag::Neutral) {
            return refuse("cannot combine nocache and neutral");
        }
    }
    let parities = [Conv::ParEven, Conv::ParOdd, Conv::ParNone, Conv::ParSet];
    if parities.into_iter().filter(|&word| conv.has(word)).count() > 1 {
        return refuse("cannot combine any two of {pareven,parodd,parnone,parset}");
    }
    if conv.has(Conv::Osync) && operands.bs.is_some() {
        return refuse("cannot combine osync and bs");
    }
    if conv.has(Conv::Punch) && conv.has(Conv::Sparse) {
        return refuse("cannot combine punch and sparse");
    }
    if operands.hash.is_empty() && operands.hashconv.is_some() {
        return refuse("hashconv needs hash");
    }
    if operands.buffer.is_none() && (operands.start.is_some() || operands.stop.is_some()) {
        return refuse("start and stop need buffer");
    }
    Ok(())
}

fn refuse<T>(text: &str) -> Result<T, Error> {
    Err(Error::Usage(UsageError { text: text.to_owned(), try_help: false }))
}

const CHARSETS: [(Conv, Charset); 9] = [
    (Conv::Ascii, Charset::Ascii),
    (Conv::Ebcdic, Charset::Ebcdic),
    (Conv::Ibm, Charset::Ibm),
    (Conv::OldAscii, Charset::OldAscii),
    (Conv::OldEbcdic, Charset::OldEbcdic),
    (Conv::OldIbm, Charset::OldIbm),
    (Conv::AsciiB, Charset::AsciiB),
    (Conv::EbcdicB, Charset::EbcdicB),
    (Conv::IbmB, Charset::IbmB),
];

fn charset(conv: ConvSet) -> Option<Charset> {
    CHARSETS.iter().find(|(word, _)| conv.has(*word)).map(|&(_, charset)| charset)
}

fn parity(conv: ConvSet) -> Option<Parity> {
    [
        (Conv::ParEven, Parity::Even),
        (Conv::ParOdd, Parity::Odd),
        (Conv::ParNone, Parity::None),
        (Conv::ParSet, Parity::Set),
    ]
    .into_iter()
    .find(|(word, _)| conv.has(*word))
    .map(|(_, parity)| parity)
}

fn form(conv: ConvSet, cbs: Option<u64>) -> Result<Option<Form>, Error> {
    let Some(cbs) = cbs else { return Ok(None) };
    Ok(if conv.has(Conv::Block) {
        Some(Form::Block { cbs: size(cbs, "conversion")? })
    } else if conv.has(Conv::Unblock) {
        Some(Form::Unblock { cbs: size(cbs, "conversion")? })
    } else {
        None
    })
}

/// `bs=` wins over both others wherever it stands; data conversions need the output gathered.
fn blocks(operands: &Operands, converts: bool) -> Result<Blocks, Error> {
    let or_default = |given: Option<u64>, end| given.map_or(Ok(DEFAULT_BLOCK), |len| size(len, end));
    Ok(match operands.bs {
        Some(bs) if !converts => Blocks::AsRead { bs: size(bs, "input")? },
        Some(bs) => Blocks::Reblock { ibs: size(bs, "input")?, obs: size(bs, "output")? },
        None => Blocks::Reblock { ibs: or_default(operands.ibs, "input")?, obs: or_default(operands.obs, "output")? },
    })
}

/// A size in the machine's own width; on a 32-bit one a larger number is memory that cannot be had.
fn size(len: u64, end: &'static str) -> Result<usize, Error> {
    usize::try_from(len).map_err(|_| Error::Memory { end, len })
}

/// NUL, or a space where records are padded. Padding comes before translation, so under ascii the space is one that
/// comes out as a space (GNU pads with 0x20, which comes out as 0x80).
fn pad(form: Option<Form>, charset: Option<Charset>) -> u8 {
    const EBCDIC_SPACE: u8 = 0x40;
    match (form, charset) {
        (None, _) => 0,
        (Some(_), Some(Charset::Ascii | Charset::OldAscii | Charset::AsciiB)) => EBCDIC_SPACE,
        (Some(_), _) => b' ',
    }
}

fn amount(number: Number, flag: bool, block: usize) -> Amount {
    if number.in_bytes || flag {
        Amount::of_bytes(number.value, block)
    } else {
        Amount::of_records(number.value, block)
    }
}

fn cache(flags: FlagSet, nothing_to_copy: bool) -> Cache {
    match (flags.has(Flag::Nocache), flags.has(Flag::Neutral)) {
        (true, _) if nothing_to_copy => Cache::DropAll,
        (true, _) => Cache::Drop,
        (false, true) => Cache::Neutral,
        (false, false) => Cache::Keep,
    }
}

/// What both ends hand to open(2). `append` is the output's alone; the input takes the word and has no use for it.
fn open_flags(flags: FlagSet) -> OFlags {
    const TABLE: [(Flag, OFlags); 8] = [
        (Flag::Direct, OFlags::DIRECT),
        (Flag::Directory, OFlags::DIRECTORY),
        (Flag::Dsync, OFlags::DSYNC),
        (Flag::Sync, OFlags::SYNC),
        (Flag::Nonblock, OFlags::NONBLOCK),
        (Flag::Noatime, OFlags::NOATIME),
        (Flag::Noctty, OFlags::NOCTTY),
        (Flag::Nofollow, OFlags::NOFOLLOW),
    ];
    TABLE.into_iter().filter(|(flag, _)| flags.has(*flag)).fold(OFlags::empty(), |all, (_, bits)| all | bits)
}

/// Synchronised input is said by a flag of its own where there is one.
fn input_sync(flags: FlagSet) -> OFlags {
    if flags.has(Flag::Sync) || flags.has(Flag::Dsync) { OFlags::RSYNC } else { OFlags::empty() }
}
