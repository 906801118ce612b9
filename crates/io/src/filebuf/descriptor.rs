//! What a stream stands on: the few calls it makes, for descriptors of the system and for whatever a test scripts, and
//! the ways to open a file.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, SeekFrom};
use std::ops::BitOr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, Mode as Permissions, OFlags};
use rustix::io::Errno;

/// What a descriptor allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// It can be read.
    pub read: bool,
    /// It can be written.
    pub write: bool,
    /// Each write goes to the end of the file, wherever the offset stands.
    pub append: bool,
}

/// The calls a stream makes, each of them one system call or none. An interrupted one (EINTR) is made again by the
/// stream, not here.
pub trait Descriptor {
    /// Reads into `into`, first to last. 0 is the end of the input.
    ///
    /// # Errors
    /// The system's refusal.
    fn readv(&mut self, into: &mut [IoSliceMut<'_>]) -> Result<usize, Errno>;

    /// Writes what is in `from`, first to last, or the first part of it, and tells how much.
    ///
    /// # Errors
    /// The system's refusal; nothing was written then.
    fn writev(&mut self, from: &[IoSlice<'_>]) -> Result<usize, Errno>;

    /// Moves the offset and tells where it stands, in bytes from the start.
    ///
    /// # Errors
    /// The system's refusal: ESPIPE where there is no offset.
    fn seek(&mut self, to: SeekFrom) -> Result<u64, Errno>;

    /// Waits until what was written is on the medium; with `data_only`, not the times of the file.
    ///
    /// # Errors
    /// The system's refusal, or that bytes written earlier were lost.
    fn sync(&mut self, data_only: bool) -> Result<(), Errno>;

    /// How many bytes can be read from the offset on without waiting, as far as that is known.
    ///
    /// # Errors
    /// The system's refusal.
    fn waiting(&mut self) -> Result<u64, Errno> {
        Ok(0)
    }

    /// What it allows. Everything, where it cannot be told: then the first call finds out.
    fn access(&self) -> Access {
        Access { read: true, write: true, append: false }
    }

    /// Closes it.
    ///
    /// # Errors
    /// What the system said at that last occasion; it is closed all the same.
    fn close(self) -> Result<(), Errno>
    where
        Self: Sized;
}

/// The same six calls for every type that is a descriptor of the system; they differ only in how they are closed.
macro_rules! system_descriptor {
    ($type:ty, $close:expr) => {
        impl Descriptor for $type {
            fn readv(&mut self, into: &mut [IoSliceMut<'_>]) -> Result<usize, Errno> {
                // One piece is the common case, and `read` costs a third less than `readv` does.
                match into {
                    [piece] => rustix::io::read(&*self, &mut **piece),
                    _ => rustix::io::readv(&*self, into),
                }
            }

            fn writev(&mut self, from: &[IoSlice<'_>]) -> Result<usize, Errno> {
                match from {
                    [piece] => rustix::io::write(&*self, piece),
                    _ => rustix::io::writev(&*self, from),
                }
            }

            fn seek(&mut self, to: SeekFrom) -> Result<u64, Errno> {
                rustix::fs::seek(&*self, system_seek(to))
            }

            fn sync(&mut self, data_only: bool) -> Result<(), Errno> {
                if data_only { rustix::fs::fdatasync(&*self) } else { rustix::fs::fsync(&*self) }
            }

            fn waiting(&mut self) -> Result<u64, Errno> {
                waiting(self.as_fd())
            }

            fn access(&self) -> Access {
                access(self.as_fd())
            }

            fn close(self) -> Result<(), Errno> {
                $close(self)
            }
        }
    };
}

system_descriptor!(OwnedFd, fdd_sys::start::close);
system_descriptor!(File, |file: File| fdd_sys::start::close(OwnedFd::from(file)));
// Its owner closes it.
system_descriptor!(BorrowedFd<'_>, |_| Ok(()));

fn system_seek(to: SeekFrom) -> rustix::fs::SeekFrom {
    match to {
        SeekFrom::Start(offset) => rustix::fs::SeekFrom::Start(offset),
        SeekFrom::Current(offset) => rustix::fs::SeekFrom::Current(offset),
        SeekFrom::End(offset) => rustix::fs::SeekFrom::End(offset),
    }
}

fn waiting(fd: BorrowedFd<'_>) -> Result<u64, Errno> {
    let stat = rustix::fs::fstat(fd)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
        // Not FIONREAD, which tells of at most 2 GiB.
        let offset = rustix::fs::tell(fd)?;
        return Ok(u64::try_from(stat.st_size).unwrap_or(0).saturating_sub(offset));
    }
    match rustix::io::ioctl_fionread(fd) {
        // No such question here: nothing is known to wait.
        Err(Errno::NOTTY | Errno::INVAL) => Ok(0),
        other => other,
    }
}

fn access(fd: BorrowedFd<'_>) -> Access {
    let Ok(flags) = rustix::fs::fcntl_getfl(fd) else {
        return Access { read: true, write: true, append: false };
    };
    let way = flags & OFlags::ACCMODE;
    Access { read: way != OFlags::WRONLY, write: way != OFlags::RDONLY, append: flags.contains(OFlags::APPEND) }
}

/// How a file is opened, in the words of C++'s `ios_base::openmode`; joined with `|`.
///
/// The combinations are those of the C++ standard: `IN`, `OUT`, `IN|OUT`, each with `APP`, and `TRUNC` where the file is
/// written and not appended to. As there, `OUT` alone truncates, and only `IN` alone and `IN|OUT` need the file to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "openmode")]
pub struct Mode(u8);

impl Mode {
    /// To be read.
    #[doc(alias = "ios_base::in")]
    pub const IN: Mode = Mode(1);
    /// To be written.
    #[doc(alias = "ios_base::out")]
    pub const OUT: Mode = Mode(2);
    /// Each write goes to the end, whoever else writes there.
    #[doc(alias = "ios_base::app")]
    pub const APP: Mode = Mode(4);
    /// Emptied when it is opened.
    #[doc(alias = "ios_base::trunc")]
    pub const TRUNC: Mode = Mode(8);
    /// The first position is the end.
    #[doc(alias = "ios_base::ate")]
    pub const ATE: Mode = Mode(16);
    /// Says nothing on Linux, where lines end in no other way than bytes do.
    #[doc(alias = "ios_base::binary")]
    pub const BINARY: Mode = Mode(32);
    /// Fails if there is such a file. Only where the file is emptied, as in C++.
    #[doc(alias = "noreplace")]
    pub const EXCL: Mode = Mode(64);

    const fn with(self, other: Mode) -> Mode {
        Mode(self.0 | other.0)
    }

    fn contains(self, other: Mode) -> bool {
        self.0 & other.0 == other.0
    }

    fn without(self, other: Mode) -> Mode {
        Mode(self.0 & !other.0)
    }

    /// Opens the file at `path`, made with permissions 0666 less the umask where it is made, closed on exec.
    ///
    /// # Errors
    /// EINVAL for a combination that C++ has not either; what the system says otherwise (EEXIST for `EXCL`).
    pub fn open(self, path: impl AsRef<Path>) -> io::Result<OwnedFd> {
        let flags = self.flags().ok_or(Errno::INVAL)? | OFlags::CLOEXEC;
        let path = path.as_ref();
        let mut fd = super::retried(|| rustix::fs::open(path, flags, Permissions::from_bits_truncate(0o666)))?;
        if self.contains(Mode::ATE) {
            Descriptor::seek(&mut fd, SeekFrom::End(0))?;
        }
        Ok(fd)
    }

    fn flags(self) -> Option<OFlags> {
        let row = self.without(Mode::ATE).without(Mode::BINARY).without(Mode::EXCL);
        let flags = OPENINGS.iter().find(|(mode, _)| *mode == row)?.1;
        if !self.contains(Mode::EXCL) {
            return Some(flags);
        }
        flags.contains(OFlags::TRUNC).then(|| flags.difference(OFlags::TRUNC) | OFlags::EXCL)
    }
}

impl BitOr for Mode {
    type Output = Mode;

    fn bitor(self, other: Mode) -> Mode {
        self.with(other)
    }
}

const NEW: OFlags = OFlags::CREATE.union(OFlags::TRUNC);
const END: OFlags = OFlags::CREATE.union(OFlags::APPEND);

/// In the order of the standard's table.
const OPENINGS: &[(Mode, OFlags)] = &[
    (Mode::OUT, OFlags::WRONLY.union(NEW)),
    (Mode::OUT.with(Mode::TRUNC), OFlags::WRONLY.union(NEW)),
    (Mode::OUT.with(Mode::APP), OFlags::WRONLY.union(END)),
    (Mode::APP, OFlags::WRONLY.union(END)),
    (Mode::IN, OFlags::RDONLY),
    (Mode::IN.with(Mode::OUT), OFlags::RDWR),
    (Mode::IN.with(Mode::OUT).with(Mode::TRUNC), OFlags::RDWR.union(NEW)),
    (Mode::IN.with(Mode::OUT).with(Mode::APP), OFlags::RDWR.union(END)),
    (Mode::IN.with(Mode::APP), OFlags::RDWR.union(END)),
];
