//! `conv=block` and `conv=unblock`: lines to records of `cbs` bytes and back.

use fdd_sys::simd::Backend;
use memchr::{memchr, memchr_iter};

use super::Form;

#[derive(Clone, Debug)]
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

    pub(super) fn feed<E>(&mut self, bytes: &[u8], put: &mut dyn FnMut(&[u8]) -> Result<(), E>) -> Result<u64, E> {
        match self {
            Records::Block(block) => block.feed(bytes, put),
            Records::Unblock(unblock) => unblock.feed(bytes, put).map(|()| 0),
        }
    }

    pub(super) fn finish<E>(&mut self, put: &mut dyn FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        match self {
            Records::Block(block) => block.finish(put),
            Records::Unblock(unblock) => unblock.finish(put),
        }
    }
}

/// Lines to records: the newline goes, what is missing is padded, what is too long is dropped.
#[derive(Clone, Debug)]
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
}

/// Up to this length, joining records costs less than handing on each line and each pad.
const SHORT_RECORD: usize = 512;
/// Enough records that handing them on is paid for, few enough to stay in the first cache.
const JOINED: usize = 8 << 10;

impl Block {
    fn new(cbs: usize, newline: u8, space: u8) -> Block {
        let joined = if cbs <= SHORT_RECORD { vec![0; JOINED].into_boxed_slice() } else { Box::default() };
        Block { cbs, newline, space, column: 0, over: false, joined }
    }

    fn feed<E>(&mut self, mut bytes: &[u8], put: &mut dyn FnMut(&[u8]) -> Result<(), E>) -> Result<u64, E> {
        let mut truncated = 0;
        while !bytes.is_empty() {
            if self.column == 0 && !self.over {
                let lines = self.join(bytes);
                if lines.records > 0 {
                    put(&self.joined[..lines.records * self.cbs])?;
                    truncated += lines.truncated;
                    bytes = &bytes[lines.taken..];
                    continue;
                }
            }
            let newline = memchr(self.newline, bytes);
            let line = &bytes[..newline.unwrap_or(bytes.len())];
            let kept = line.len().min(self.cbs - self.column);
            if kept > 0 {
                put(&line[..kept])?;
                self.column += kept;
            }
            if kept < line.len() && !self.over {
                self.over = true;
                truncated += 1;
            }
            let Some(at) = newline else { break };
            self.end_record(put)?;
            bytes = &bytes[at + 1..];
        }
        Ok(truncated)
    }

    /// Makes records of whole lines from the start of `bytes` on, as many as fit into `joined`. It leaves lines over that
    /// the plain way has to take: those near the end of `bytes`, and all of them where records are long.
    fn join(&mut self, bytes: &[u8]) -> Joined {
        let mut lines = Joined { records: 0, taken: 0, truncated: 0 };
        let mut record = 0;
        for newline in memchr_iter(self.newline, bytes) {
            let line = newline - lines.taken;
            let kept = line.min(self.cbs);
            let (Some(room), Some(text)) = (
                self.joined.get_mut(record..record + 2 * self.cbs + 2 * STEP),
                bytes.get(lines.taken..lines.taken + self.cbs + STEP),
            ) else {
                break;
            };
            // As many bytes for each line, whatever its length, so that there is no branch to predict. What runs over the
            // end of the line is overwritten by the pad, and what runs over the end of the record by the next one.
            copy_steps(room, text, self.cbs);
            fill_steps(&mut room[kept..], self.space, self.cbs);
            record += self.cbs;
            lines.records += 1;
            lines.taken = newline + 1;
            lines.truncated += u64::from(line > self.cbs);
        }
        lines
    }

    /// A last line without its newline is a record, if it has any byte.
    fn finish<E>(&mut self, put: &mut dyn FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        if self.column > 0 { self.end_record(put) } else { Ok(()) }
    }

    fn end_record<E>(&mut self, put: &mut dyn FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
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
    truncated: u64,
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
#[derive(Clone, Debug)]
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
    fn feed<E>(&mut self, mut bytes: &[u8], put: &mut dyn FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        while !bytes.is_empty() {
            let part;
            (part, bytes) = bytes.split_at(bytes.len().min(self.cbs - self.column));
            let text = self.backend.trimmed_len(self.space, part);
            if text > 0 {
                put_spaces(self.space, self.pending, put)?;
                put(&part[..text])?;
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
    fn finish<E>(&mut self, put: &mut dyn FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        if self.column > 0 { self.end_record(put) } else { Ok(()) }
    }

    fn end_record<E>(&mut self, put: &mut dyn FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        self.column = 0;
        self.pending = 0;
        put(&[self.newline])
    }
}

fn put_spaces<E>(space: u8, mut count: usize, put: &mut dyn FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
    let spaces = [space; 256];
    while count > 0 {
        let run = count.min(spaces.len());
        put(&spaces[..run])?;
        count -= run;
    }
    Ok(())
}
