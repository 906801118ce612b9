//! What is known of an open end: asked once, right after it was opened.

use std::os::fd::BorrowedFd;

use fdd_sys::retry::{Cut, Pause, retry};
use rustix::fs::{FileType, OFlags, SeekFrom};

use crate::kernel::Kernel;

/// What kind of thing an end is, as far as anyone here cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Regular,
    Directory,
    Block,
    /// /dev/zero
    Zero,
    /// /dev/null
    Null,
    /// Another device of the memory driver: /dev/urandom, /dev/full.
    Memory,
    Character,
    Fifo,
    Socket,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    pub kind: Kind,
    /// Device and inode: two ends with one identity are one file.
    pub identity: (u64, u64),
    /// st_size
    pub size: u64,
    /// Status flags of the descriptor.
    pub flags: OFlags,
    /// Where the descriptor stood when it was opened or inherited; `None` where it cannot seek.
    pub position: Option<u64>,
}

/// The memory driver's major number, and two of its devices, as Linux numbers them.
const MEMORY_MAJOR: u32 = 1;
const NULL_MINOR: u32 = 3;
const ZERO_MINOR: u32 = 5;

impl Facts {
    /// Asks the kernel about `fd`. What it refuses to say is taken as unknown, so a bad descriptor is told by its first use.
    pub fn of<P: Pause + ?Sized>(kernel: &dyn Kernel, fd: BorrowedFd<'_>, pause: &mut P) -> Result<Facts, Cut> {
        let unknown = |cut| match cut {
            Cut::Stopped => Err(Cut::Stopped),
            Cut::Os(_) => Ok(None),
        };
        let stat = retry(pause, || kernel.fstat(fd)).map(Some).or_else(unknown)?;
        let flags = kernel.get_flags(fd).unwrap_or(OFlags::empty());
        let kind = stat.as_ref().map_or(Kind::Other, |stat| kind(stat.st_mode, stat.st_rdev));
        let position = kernel.seek(fd, SeekFrom::Current(0)).ok();
        let (identity, size) =
            stat.map_or(((0, 0), 0), |stat| ((stat.st_dev, stat.st_ino), u64::try_from(stat.st_size).unwrap_or(0)));
        Ok(Facts { kind, identity, size, flags, position })
    }

    /// A file or a device with sectors: it can be read again at an offset, and its end is known.
    pub fn is_storage(&self) -> bool {
        matches!(self.kind, Kind::Regular | Kind::Block) && self.position.is_some()
    }
}

fn kind(mode: u32, device: u64) -> Kind {
    match FileType::from_raw_mode(mode) {
        FileType::RegularFile => Kind::Regular,
        FileType::Directory => Kind::Directory,
        FileType::BlockDevice => Kind::Block,
        FileType::CharacterDevice => match (rustix::fs::major(device), rustix::fs::minor(device)) {
            (MEMORY_MAJOR, NULL_MINOR) => Kind::Null,
            (MEMORY_MAJOR, ZERO_MINOR) => Kind::Zero,
            (MEMORY_MAJOR, _) => Kind::Memory,
            _ => Kind::Character,
        },
        FileType::Fifo => Kind::Fifo,
        FileType::Socket => Kind::Socket,
        _ => Kind::Other,
    }
}
