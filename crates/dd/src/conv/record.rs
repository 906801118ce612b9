//! `conv=block` and `conv=unblock`: lines to records of `cbs` bytes and back.

use fdd_sys::simd::Backend;
use memchr::{memchr, memchr_iter};

use super::{Form, Put, Run};

/// How far a record is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    column: usize,
    over: bool,
    pending: usize,
}

#[derive(Debug)]
pub(super) enum Records {
    Block(Block),
    Unblock(Unblock),
}

impl Records {
    pub(super) fn new(form: Form, newline: u8, space: u8, backend: Backend) -> Records {
        match form {
            Form::Block { cbs } => Records::Block(Block::new(cbs, newline, space)),
            Form::Unblock { cbs } => Records::Unblock(Unblock { cbs, newline, space, backend, column: 0, pending: 0 }),
        }
    }

    pub(super) fn feed<E>(&mut self, bytes: &[u8], put: &mut Put<'_, E>) -> Result<(), E> {
        match self {
            Records::Block(block) => block.feed(bytes, put),
            Records::Unblock(unblock) => unblock.feed(bytes, put),
        }
    }

    pub(super) fn place(&self) -> Place {
        match self {
            Records::Block(block) => Place { column: block.column, over: block.over, pending: 0 },
            Records::Unblock(unblock) => Place { column: unblock.column, over: false, pending: unblock.pending },
        }
    }

    pub(super) fn go_to(&mut self, place: Place) {
        match self {
            Records::Block(block) => (block.column, block.over) = (place.column, place.over),
            Records::Unblock(unblock) => (unblock.column, unblock.pending) = (place.column, place.pending),
        }
    }

    pub(super) fn finish<E>(&mut self, put: &mut Put<'_, E>) -> Result<(), E> {
        match self {
            Records::Block(block) => block.finish(put),
            Records::Unblock(unblock) => unblock.finish(put),
        }
    }
}

/// Lines to records: the newline goes, what is missing is padded, what is too long is dropped.
#[derive(Debug)]
pub(super) struct Block {
    cbs: usize,
    newline: u8,
    space: u8,
    /// How many bytes of the current record are out; at most `cbs`.
    column: usize,
    /// The current line was longer than `cbs` and is counted.
    over: bool,
    /// Short records are joined here before they are handed on; empty where records are long. Holds nothing between calls.
    joined: Box<[u8]>,
    /// Where in `joined` the truncated ones end.
    truncated_at: Box<[usize]>,
}

/// Up to this length, joining records costs less than handing on each line and each pad.
const SHORT_RECORD: usize = 512;
/// Enough records that handing them on is paid for, few enough to stay in the first cache.
const JOINED: usize = 8 << 10;

impl Block {
    fn new(cbs: usize, newline: u8, space: u8) -> Block {
        let len = if cbs <= SHORT_RECORD { JOINED } else { 0 };
        let (joined, truncated_at) = (vec![0; len].into_boxed_slice(), vec![0; len / cbs].into_boxed_slice());
        Block { cbs, newline, space, column: 0, over: false, joined, truncated_at }
    }

    fn feed<E>(&mut self, mut bytes: &[u8], put: &mut Put<'_, E>) -> Result<(), E> {
        while !bytes.is_empty() {
            if self.column == 0 && !self.over {
                let lines = self.join(bytes);
                if lines.records > 0 {
                    put(Run {
                        bytes: &self.joined[..lines.records * self.cbs],
                        truncated_at: &self.truncated_at[..lines.truncated],
                    })?;
                    bytes = &bytes[lines.taken..];
                    continue;
                }
            }
            let newline = memchr(self.newline, bytes);
            let line = &bytes[..newline.unwrap_or(bytes.len())];
            let kept = line.len().min(self.cbs - self.column);
            let found = kept < line.len() && !self.over;
            if kept > 0 || found {
                put(Run { bytes: &line[..kept], truncated_at: &[kept][..usize::from(found)] })?;
                self.column += kept;
                self.over |= found;
            }
            let Some(at) = newline else { break };
            self.end_record(put)?;
            bytes = &bytes[at + 1..];
        }
        Ok(())
    }

    /// Makes records of whole lines from the start of `bytes` on, as many as fit into `joined`. It leaves lines over that
    /// the plain way has to take: those near the end of `bytes`, and all of them where records are long.
    fn join(&mut self, bytes: &[u8]) -> Joined {
        // Where these lie cannot change while records are written: in locals they are not looked up for each line.
        let Block { cbs, newline, space, ref mut joined, ref mut truncated_at, .. } = *self;
        let (joined, truncated_at) = (&mut joined[..], &mut truncated_at[..]);
        let mut lines = Joined { records: 0, taken: 0, truncated: 0 };
        let mut record = 0;
        for newline in memchr_iter(newline, bytes) {
            let line = newline - lines.taken;
            let kept = line.min(cbs);
            let (Some(room), Some(text)) =
                (joined.get_mut(record..record + 2 * cbs + 2 * STEP), bytes.get(lines.taken..lines.taken + cbs + STEP))
            else {
                break;
            };
            // As many bytes for each line, whatever its length, so that there is no branch to predict. What runs over the
            // end of the line is overwritten by the pad, and what runs over the end of the record by the next one.
            copy_steps(room, text, cbs);
            fill_steps(&mut room[kept..], space, cbs);
            record += cbs;
            lines.records += 1;
            lines.taken = newline + 1;
            // Overwritten by the next one's end unless this is one.
            truncated_at[lines.truncated] = record;
            lines.truncated += usize::from(line > cbs);
        }
        lines
    }

    /// A last line without its newline is a record, if it has any byte.
    fn finish<E>(&mut self, put: &mut Put<'_, E>) -> Result<(), E> {
        if self.column > 0 { self.end_record(put) } else { Ok(()) }
    }

    fn end_record<E>(&mut self, put: &mut Put<'_, E>) -> Result<(), E> {
        put_spaces(self.space, self.cbs - self.column, put)?;
        self.column = 0;
        self.over = false;
        Ok(())
    }
}

/// What `Block::join` did.
struct Joined {
    records: usize,
    /// Bytes of the input that they were made of.
    taken: usize,
    /// How many of the records are in `Block::truncated_at`.
    truncated: usize,
}

/// A length that the compiler knows is copied by a few instructions, one that it does not know by a call.
const STEP: usize = 64;

/// Copies `length` bytes and up to a step more; both slices have them.
fn copy_steps(to: &mut [u8], from: &[u8], length: usize) {
    let steps = to.as_chunks_mut::<STEP>().0.iter_mut().zip(from.as_chunks::<STEP>().0);
    for (to, from) in steps.take(length.div_ceil(STEP)) {
        *to = *from;
    }
}

/// Fills `length` bytes and up to a step more.
fn fill_steps(to: &mut [u8], byte: u8, length: usize) {
    for to in to.as_chunks_mut::<STEP>().0.iter_mut().take(length.div_ceil(STEP)) {
        *to = [byte; STEP];
    }
}

/// Records to lines: the spaces at a record's end go, and a newline comes.
#[derive(Debug)]
pub(super) struct Unblock {
    cbs: usize,
    newline: u8,
    space: u8,
    backend: Backend,
    /// How many bytes of the current record came in; less than `cbs` between two calls.
    column: usize,
    /// How many of them, the last ones, are spaces that are not out: they go out only if something follows them.
    pending: usize,
}

impl Unblock {
    fn feed<E>(&mut self, mut bytes: &[u8], put: &mut Put<'_, E>) -> Result<(), E> {
        while !bytes.is_empty() {
            let part;
            (part, bytes) = bytes.split_at(bytes.len().min(self.cbs - self.column));
            let text = self.backend.trimmed_len(self.space, part);
            if text > 0 {
                put_spaces(self.space, self.pending, put)?;
                put(Run::of(&part[..text]))?;
                self.pending = 0;
            }
            self.pending += part.len() - text;
            self.column += part.len();
            if self.column == self.cbs {
                self.end_record(put)?;
            }
        }
        Ok(())
    }

    /// A last record that is not full ends in a newline too, also when all of it was spaces.
    fn finish<E>(&mut self, put: &mut Put<'_, E>) -> Result<(), E> {
        if self.column > 0 { self.end_record(put) } else { Ok(()) }
    }

    fn end_record<E>(&mut self, put: &mut Put<'_, E>) -> Result<(), E> {
        self.column = 0;
        self.pending = 0;
        put(Run::of(&[self.newline]))
    }
}

fn put_spaces<E>(space: u8, mut count: usize, put: &mut Put<'_, E>) -> Result<(), E> {
    let spaces = [space; 256];
    while count > 0 {
        let run = count.min(spaces.len());
        put(Run::of(&spaces[..run]))?;
        count -= run;
    }
    Ok(())
}
