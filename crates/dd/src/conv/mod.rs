//! Bytes to bytes: the conversions, each with its own memory.

/// Which character set table is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charset {
    /// EBCDIC to ASCII.
    Ascii,
    Ebcdic,
    Ibm,
    OldAscii,
    OldEbcdic,
    OldIbm,
    AsciiB,
    EbcdicB,
    IbmB,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    Lower,
    Upper,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parity {
    Even,
    Odd,
    None,
    Set,
}

/// Fixed-length records of `cbs` bytes, made or taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Block { cbs: usize },
    Unblock { cbs: usize },
}

/// What is to be done to every byte; settled before the first is read.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// Charset, case and parity composed into one table; `None` where it would be the identity.
    table: Option<Box<[u8; 256]>>,
    swab: bool,
    form: Option<Form>,
    /// The byte that ends a variable-length record, after translation (0x25 under ebcdic).
    newline: u8,
    /// The byte that pads a fixed-length record, after translation (0x40 under ebcdic).
    space: u8,
}
