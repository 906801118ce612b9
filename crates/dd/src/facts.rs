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
    /// The system would not say.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    pub kind: Kind,
    /// Device and inode: two ends with one identity are one file.
    pub identity: (u64, u64),
    /// st_size
    pub size: u64,
    /// Bytes that are allocated; fewer than `size` says that there are holes.
    pub allocated: u64,
    /// The file system keeps what is written and hides how it was asked for.
    pub plain_storage: bool,
    /// A new page can be written so that it leaves the cache once it is on the medium.
    pub drops_behind: bool,
    /// Status flags of the descriptor.
    pub flags: OFlags,
    /// Where the descriptor stood when it was opened or inherited; `None` where it cannot seek.
    pub position: Option<u64>,
}

/// The memory driver's major number, and two of its devices, as Linux numbers them.
const MEMORY_MAJOR: u32 = 1;
const NULL_MINOR: u32 = 3;
const ZERO_MINOR: u32 = 5;

/// st_blocks counts in these.
const STAT_BLOCK: u64 = 512;

/// File systems on which nobody sees the size of a read or write: all go through the page cache. An allow-list; /proc, /sys
/// and FUSE are not on it.
const PLAIN: [u64; 18] = [
    0xEF53,      // ext2, ext3, ext4
    0x5846_5342, // xfs
    0x9123_683E, // btrfs
    0x0102_1994, // tmpfs
    0x8584_58F6, // ramfs
    0x794C_7630, // overlayfs
    0xF2F5_2010, // f2fs
    0xCA45_1A4E, // bcachefs
    0x2FC1_2FC1, // zfs
    0x4D44,      // vfat
    0x2011_BAB0, // exfat
    0x7366_746E, // ntfs3
    0x3153_464A, // jfs
    0x5265_4973, // reiserfs
    0x9660,      // iso9660
    0x1501_3346, // udf
    0x7371_7368, // squashfs
    0xE0F5_E1E2, // erofs
];

/// File systems that know RWF_DONTCACHE for writes. Others refuse it, or may be slow at it.
const DROP_BEHIND: [u64; 2] = [
    0xEF53,      // ext4; ext2 has the same number, and refuses
    0x5846_5342, // xfs
];

/// Status flags of a descriptor that does not tell them: each that forbids something, so that nothing is stepped over, joined
/// or written out of order. The access mode says nothing of the kind, so it is that of no output.
const UNTOLD: OFlags =
    OFlags::APPEND.union(OFlags::DIRECT).union(OFlags::SYNC).union(OFlags::DSYNC).union(OFlags::NONBLOCK);

impl Facts {
    /// Asks the kernel about `fd`. What it refuses to say is taken as unknown, so a bad descriptor is told by its first use.
    pub fn of<P: Pause + ?Sized>(kernel: &dyn Kernel, fd: BorrowedFd<'_>, pause: &mut P) -> Result<Facts, Cut> {
        let unknown = |cut| match cut {
            Cut::Stopped => Err(Cut::Stopped),
            Cut::Os(_) => Ok(None),
        };
        let stat = retry(pause, || kernel.fstat(fd)).map(Some).or_else(unknown)?;
        let flags = kernel.get_flags(fd).unwrap_or(UNTOLD);
        let kind = stat.as_ref().map_or(Kind::Unknown, |stat| kind(stat.st_mode, stat.st_rdev));
        let position = kernel.seek(fd, SeekFrom::Current(0)).ok();
        let (identity, size, allocated) = stat.map_or(((0, 0), 0, 0), |stat| {
            let blocks = u64::try_from(stat.st_blocks).unwrap_or(0);
            // A block device may have several nodes; its number is what it is.
            let identity = if kind == Kind::Block { (u64::MAX, stat.st_rdev) } else { (stat.st_dev, stat.st_ino) };
            (identity, u64::try_from(stat.st_size).unwrap_or(0), blocks.saturating_mul(STAT_BLOCK))
        });
        let magic = (kind == Kind::Regular).then(|| kernel.file_system(fd).ok()).flatten();
        let plain_storage = magic.is_some_and(|magic| PLAIN.contains(&magic));
        let drops_behind = magic.is_some_and(|magic| DROP_BEHIND.contains(&magic));
        Ok(Facts { kind, identity, size, allocated, plain_storage, drops_behind, flags, position })
    }

    /// Of an end that was opened here with these flags: it has them, told or not.
    pub fn opened_with(mut self, flags: OFlags) -> Facts {
        if self.flags == UNTOLD {
            self.flags = flags;
        }
        self
    }

    /// Storage behind the page cache, where small reads and writes may be joined and nobody can tell.
    pub fn hides_sizes(&self) -> bool {
        match self.kind {
            Kind::Regular => self.plain_storage && self.position.is_some(),
            Kind::Block => self.position.is_some(),
            _ => false,
        }
    }

    /// A file or a device with sectors: it can be read again at an offset, and its end is known. Not the files of /proc,
    /// which say that they are empty.
    pub fn is_storage(&self) -> bool {
        let ends = match self.kind {
            Kind::Regular => self.size > 0,
            Kind::Block => true,
            _ => false,
        };
        ends && self.position.is_some()
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

#[cfg(test)]
#[cfg(not(miri))] // Devices and sockets.
mod tests {
    use super::*;
    use crate::testing::Medium;
    use fdd_sys::retry::Steady;
    use std::os::fd::{AsFd, OwnedFd};

    fn facts(medium: &Medium, fd: &impl AsFd) -> Facts {
        Facts::of(medium, fd.as_fd(), &mut Steady).expect("not stopped")
    }

    fn open(path: &str) -> OwnedFd {
        std::fs::File::open(path).expect("it is there").into()
    }

    #[test]
    fn each_kind_of_end_is_told() {
        let (reader, _writer) = std::io::pipe().expect("a pipe");
        let (socket, _other) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let file = tempfile::tempfile().expect("a file");
        let os = Medium::default();
        for (fd, kind) in [
            (open("/dev/zero"), Kind::Zero),
            (open("/dev/null"), Kind::Null),
            (open("/dev/full"), Kind::Memory),
            (open("/"), Kind::Directory),
            (reader.into(), Kind::Fifo),
            (socket.into(), Kind::Socket),
            (file.into(), Kind::Regular),
        ] {
            let facts = facts(&os, &fd);
            assert_eq!(facts.kind, kind);
            assert!(facts.plain_storage <= (kind == Kind::Regular), "{kind:?}");
            assert!(!facts.is_storage(), "{kind:?}, or empty");
        }
        assert_eq!(facts(&Medium { device: Some(7), ..Medium::default() }, &open("/dev/null")).kind, Kind::Block);
    }

    #[test]
    fn sizes_are_hidden_by_devices_and_by_files_of_known_file_systems() {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(1).expect("extended");
        for magic in PLAIN {
            let on_it = facts(&Medium { magic: Some(magic), ..Medium::default() }, &file);
            assert!(on_it.plain_storage && on_it.hides_sizes() && on_it.is_storage(), "{magic:x}");
        }
        // FUSE and /proc, where somebody may look.
        for magic in [0x6573_5546, 0x9fa0, 0] {
            let on_it = facts(&Medium { magic: Some(magic), ..Medium::default() }, &file);
            assert!(!on_it.plain_storage && !on_it.hides_sizes() && on_it.is_storage(), "{magic:x}");
        }
        let disk = facts(&Medium { device: Some(7), ..Medium::default() }, &file);
        assert!(disk.hides_sizes() && disk.is_storage());
        assert_eq!(disk.identity, (u64::MAX, 7), "whatever its node");
        let unseekable = facts(&Medium { device: Some(7), stream: true, ..Medium::default() }, &file);
        assert!(!unseekable.hides_sizes() && !unseekable.is_storage());
    }

    #[test]
    fn fewer_blocks_than_bytes_are_holes() {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(1 << 20).expect("extended");
        let holey = facts(&Medium::default(), &file);
        assert_eq!((holey.size, holey.allocated < holey.size), (1 << 20, true));
        std::os::unix::fs::FileExt::write_all_at(&file, &[1; 1 << 20], 0).expect("written");
        file.sync_all().expect("synced");
        let full = facts(&Medium::default(), &file);
        assert!(full.allocated >= full.size, "{full:?}");
    }
}
