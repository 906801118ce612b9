//! A descriptor in memory that cuts, refuses or panics at the nth call, and counts what it is asked.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut, SeekFrom};
use std::rc::Rc;

use fdd_io::filebuf::{Access, Descriptor};
use rustix::io::Errno;

/// What happens to one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Whole,
    /// At most so many bytes, and one at least. Means nothing to a call that moves none.
    Short(usize),
    Fail(Errno),
    /// Panics after this many bytes.
    Panic(usize),
}

/// The calls made so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Calls {
    pub(crate) read: usize,
    pub(crate) write: usize,
    pub(crate) seek: usize,
    pub(crate) sync: usize,
    pub(crate) close: usize,
}

#[derive(Debug, Default)]
pub(crate) struct World {
    /// The file; of a socket, what was sent.
    pub(crate) file: Vec<u8>,
    pub(crate) offset: usize,
    pub(crate) append: bool,
    /// What a socket will yet deliver. `None`: a file, with one offset for both.
    pub(crate) socket: Option<VecDeque<u8>>,
    /// One for each call to come; afterwards all go well.
    pub(crate) script: VecDeque<Turn>,
    /// Instead of that: what happens to each write from this one on, counted from 1.
    pub(crate) writes_from: Option<(usize, Turn)>,
    pub(crate) calls: Calls,
    /// The length of each write that went well.
    pub(crate) written: Vec<usize>,
}

/// The test keeps one handle, the stream gets another.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scripted(pub(crate) Rc<RefCell<World>>);

impl Scripted {
    pub(crate) fn holding(file: &[u8]) -> Scripted {
        Scripted(Rc::new(RefCell::new(World { file: file.to_vec(), ..World::default() })))
    }

    pub(crate) fn socket(input: &[u8]) -> Scripted {
        let socket = Some(input.iter().copied().collect());
        Scripted(Rc::new(RefCell::new(World { socket, ..World::default() })))
    }

    pub(crate) fn script(self, turns: impl IntoIterator<Item = Turn>) -> Scripted {
        self.0.borrow_mut().script.extend(turns);
        self
    }

    pub(crate) fn appending(self) -> Scripted {
        self.0.borrow_mut().append = true;
        self
    }

    pub(crate) fn file(&self) -> Vec<u8> {
        self.0.borrow().file.clone()
    }

    pub(crate) fn calls(&self) -> Calls {
        self.0.borrow().calls
    }
}

impl World {
    fn turn(&mut self) -> Result<usize, Errno> {
        match self.script.pop_front().unwrap_or(Turn::Whole) {
            Turn::Whole => Ok(usize::MAX),
            Turn::Short(most) => Ok(most.max(1)),
            Turn::Fail(errno) => Err(errno),
            Turn::Panic(_) => panic!("scripted"),
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        if self.socket.is_some() {
            self.file.extend_from_slice(bytes);
            return;
        }
        if self.append {
            self.offset = self.file.len();
        }
        write_at(&mut self.file, self.offset, bytes);
        self.offset += bytes.len();
    }
}

/// What a file holds after `bytes` were written at `offset`; a gap reads as NULs.
pub(crate) fn write_at(file: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let end = offset + bytes.len();
    if file.len() < end {
        file.resize(end, 0);
    }
    file[offset..end].copy_from_slice(bytes);
}

impl Descriptor for Scripted {
    fn readv(&mut self, into: &mut [IoSliceMut<'_>]) -> Result<usize, Errno> {
        let mut world = self.0.borrow_mut();
        world.calls.read += 1;
        let most = world.turn()?;
        let wanted: usize = into.iter().map(|piece| piece.len()).sum();
        let count = wanted.min(most);
        let bytes: Vec<u8> = match &mut world.socket {
            Some(input) => {
                let count = count.min(input.len());
                input.drain(..count).collect()
            }
            None => {
                let from = world.offset.min(world.file.len());
                let to = from.saturating_add(count).min(world.file.len());
                world.offset = world.offset.max(to);
                world.file[from..to].to_vec()
            }
        };
        let mut rest = &bytes[..];
        for piece in into {
            let (now, later) = rest.split_at(piece.len().min(rest.len()));
            piece[..now.len()].copy_from_slice(now);
            rest = later;
        }
        Ok(bytes.len())
    }

    fn writev(&mut self, from: &[IoSlice<'_>]) -> Result<usize, Errno> {
        let mut world = self.0.borrow_mut();
        world.calls.write += 1;
        let bytes: Vec<u8> = from.iter().map(|piece| &**piece).collect::<Vec<_>>().concat();
        assert!(!bytes.is_empty(), "a write of nothing");
        if let Some((first, turn)) = world.writes_from
            && world.calls.write >= first
        {
            world.script.push_front(turn);
        }
        if let Some(Turn::Panic(before)) = world.script.front().copied() {
            world.script.pop_front();
            world.write(&bytes[..before.min(bytes.len())]);
            panic!("scripted");
        }
        let count = bytes.len().min(world.turn()?);
        world.write(&bytes[..count]);
        world.written.push(count);
        Ok(count)
    }

    fn seek(&mut self, to: SeekFrom) -> Result<u64, Errno> {
        let mut world = self.0.borrow_mut();
        world.calls.seek += 1;
        if world.socket.is_some() {
            return Err(Errno::SPIPE);
        }
        world.turn()?;
        let target = match to {
            SeekFrom::Start(offset) => i64::try_from(offset).ok(),
            SeekFrom::Current(by) => i64::try_from(world.offset).expect("small").checked_add(by),
            SeekFrom::End(by) => i64::try_from(world.file.len()).expect("small").checked_add(by),
        };
        let target = target.and_then(|target| u64::try_from(target).ok()).ok_or(Errno::INVAL)?;
        world.offset = usize::try_from(target).expect("64 bits");
        Ok(target)
    }

    fn sync(&mut self, _data_only: bool) -> Result<(), Errno> {
        let mut world = self.0.borrow_mut();
        world.calls.sync += 1;
        world.turn().map(drop)
    }

    fn waiting(&mut self) -> Result<u64, Errno> {
        let world = self.0.borrow();
        Ok(match &world.socket {
            Some(input) => input.len() as u64,
            None => world.file.len().saturating_sub(world.offset) as u64,
        })
    }

    fn access(&self) -> Access {
        Access { read: true, write: true, append: self.0.borrow().append }
    }

    fn close(self) -> Result<(), Errno> {
        let mut world = self.0.borrow_mut();
        world.calls.close += 1;
        world.turn().map(drop)
    }
}
