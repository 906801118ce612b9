//! Bytes to bytes: the conversions, each with its own memory.
//!
//! A [`Recipe`] says what is to be done, a [`Converter`] does it and lives as long as the copy. Each block goes through the
//! table, then `swab`, then `block` or `unblock`, and where the input was cut into blocks does not show in the output.

#[cfg(test)]
mod naive;
mod record;
mod swab;
mod table;
#[cfg(test)]
mod tests;

use fdd_sys::simd::Backend;

use record::Records;
use swab::Swab;
use table::Translation;

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

/// The top bit of every byte of ASCII: even and odd make the number of ones so, `None` clears it, `Set` sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parity {
    Even,
    Odd,
    None,
    Set,
}

/// Fixed-length records of `cbs` bytes, made or taken apart; `cbs` is at least 1.
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

impl Recipe {
    /// # Panics
    /// If a `cbs` is 0: records have at least one byte.
    pub fn new(
        charset: Option<Charset>,
        case: Option<Case>,
        parity: Option<Parity>,
        swab: bool,
        form: Option<Form>,
    ) -> Recipe {
        if let Some(Form::Block { cbs } | Form::Unblock { cbs }) = form {
            assert!(cbs > 0, "a record has at least one byte");
        }
        let table = table::compose(charset, case, parity);
        // Newline and space as they come out of the table. Under `ascii` the table's input is EBCDIC and its output ASCII,
        // so that only what is done on the ASCII side applies to them.
        let controls = match charset {
            Some(set) if set.yields_ascii() => table::compose(None, case, parity),
            _ => table,
        };
        let identity = (0..=u8::MAX).zip(table).all(|(byte, entry)| byte == entry);
        Recipe {
            table: (!identity).then(|| Box::new(table)),
            swab,
            form,
            newline: controls[usize::from(b'\n')],
            space: controls[usize::from(b' ')],
        }
    }

    /// Whether the output is the input.
    pub fn is_identity(&self) -> bool {
        self.table.is_none() && !self.swab && self.form.is_none()
    }

    pub fn form(&self) -> Option<Form> {
        self.form
    }
}

/// Converted bytes on their way out, and where among them records were found to be longer than `cbs`. The two are one stream,
/// in the order of the input: when a write fails inside a run, who writes knows what was truncated before it.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    pub bytes: &'a [u8],
    /// After how many of `bytes` there was more of a record than `cbs`, once for each; ascending. Where the bytes that made
    /// the record full went out before, that is 0, and `bytes` may be empty.
    pub truncated_at: &'a [usize],
}

impl<'a> Run<'a> {
    fn of(bytes: &'a [u8]) -> Run<'a> {
        Run { bytes, truncated_at: &[] }
    }

    /// The bytes up to each truncated record's end, and those behind the last; whether it was one.
    pub fn pieces(self) -> impl Iterator<Item = (&'a [u8], bool)> {
        let Run { bytes, truncated_at } = self;
        let mut from = 0;
        let records = truncated_at.iter().map(move |&to| {
            let piece = &bytes[from..to];
            from = to;
            (piece, true)
        });
        records.chain(std::iter::once((&bytes[truncated_at.last().copied().unwrap_or(0)..], false)))
    }
}

/// Takes the runs.
pub type Put<'p, E> = dyn FnMut(Run<'_>) -> Result<(), E> + 'p;

/// What a converter remembers between two blocks; to note it and to go back to it takes no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    held: Option<u8>,
    record: record::Place,
}

/// The conversions of one copy and what they remember between blocks.
///
/// After `put` has failed, what went out is a prefix of the right output and the converter is of no further use until it has
/// gone back to where it was before.
#[derive(Debug)]
pub struct Converter {
    translation: Option<Translation>,
    swab: Option<Swab>,
    records: Option<Records>,
}

impl Converter {
    pub fn new(recipe: &Recipe) -> Converter {
        Converter::with_backend(recipe, Backend::best())
    }

    /// For tests and benchmarks, which compare the backends.
    pub fn with_backend(recipe: &Recipe, backend: Backend) -> Converter {
        Converter {
            translation: recipe.table.as_deref().map(|table| Translation::new(table, backend)),
            swab: recipe.swab.then(|| Swab::new(backend)),
            records: recipe.form.map(|form| Records::new(form, recipe.newline, recipe.space, backend)),
        }
    }

    /// Where the converter is between two blocks.
    pub fn place(&self) -> Place {
        let (held, record) = (self.swab.as_ref(), self.records.as_ref());
        Place { held: held.and_then(Swab::held), record: record.map(Records::place).unwrap_or_default() }
    }

    /// Goes on as from `place`, which was this converter's own.
    pub fn go_to(&mut self, place: Place) {
        if let Some(swab) = &mut self.swab {
            swab.hold(place.held);
        }
        if let Some(records) = &mut self.records {
            records.go_to(place.record);
        }
    }

    /// Converts the next bytes of the input, which may be changed in place, and hands the output on to `put` in the longest
    /// slices that need no copy.
    ///
    /// # Errors
    /// What `put` returns.
    pub fn feed<E>(&mut self, block: &mut [u8], put: &mut Put<'_, E>) -> Result<(), E> {
        if let Some(translation) = &self.translation {
            translation.apply(block);
        }
        let Some(swab) = &mut self.swab else {
            return pass(&mut self.records, block, put);
        };
        let (across, within) = swab.feed(block);
        if let Some(pair) = across {
            pass(&mut self.records, &pair, put)?;
        }
        pass(&mut self.records, within, put)
    }

    /// Hands on what was held back for bytes that did not come.
    ///
    /// # Errors
    /// What `put` returns.
    pub fn finish<E>(&mut self, put: &mut Put<'_, E>) -> Result<(), E> {
        if let Some(byte) = self.swab.as_mut().and_then(Swab::finish) {
            pass(&mut self.records, &[byte], put)?;
        }
        match &mut self.records {
            None => Ok(()),
            Some(records) => records.finish(put),
        }
    }
}

/// `put` never sees a run that says nothing.
fn pass<E>(records: &mut Option<Records>, bytes: &[u8], put: &mut Put<'_, E>) -> Result<(), E> {
    match records {
        _ if bytes.is_empty() => Ok(()),
        None => put(Run::of(bytes)),
        Some(records) => records.feed(bytes, put),
    }
}
