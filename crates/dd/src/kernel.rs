//! The narrow door to the system: every call that `input` and `output` make, as a trait that a test can stand in for.

use std::ffi::OsStr;
use std::io::IoSlice;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{FallocateFlags, Mode, OFlags, SeekFrom, Stat};
use rustix::io::{Errno, ReadWriteFlags};

type Result<T> = std::result::Result<T, Errno>;

/// The calls, one method each, named as the system names them. None retries.
pub trait Kernel: Send + Sync {
    fn open(&self, path: &OsStr, flags: OFlags, mode: Mode) -> Result<OwnedFd>;
    fn read(&self, fd: BorrowedFd<'_>, buf: &mut [u8]) -> Result<usize>;
    fn pread(&self, fd: BorrowedFd<'_>, buf: &mut [u8], at: u64) -> Result<usize>;
    fn write(&self, fd: BorrowedFd<'_>, buf: &[u8]) -> Result<usize>;
    /// As `write`, and what is written leaves the cache once it is on the medium: `pwritev2` with RWF_DONTCACHE. It needs
    /// Linux 6.14, and a file system that knows how.
    fn write_uncached(&self, fd: BorrowedFd<'_>, buf: &[u8]) -> Result<usize> {
        let _ = (fd, buf);
        Err(Errno::OPNOTSUPP)
    }
    fn seek(&self, fd: BorrowedFd<'_>, to: SeekFrom) -> Result<u64>;
    fn truncate(&self, fd: BorrowedFd<'_>, len: u64) -> Result<()>;
    fn fstat(&self, fd: BorrowedFd<'_>) -> Result<Stat>;
    /// The file system's magic number.
    fn file_system(&self, fd: BorrowedFd<'_>) -> Result<u64>;
    fn fsync(&self, fd: BorrowedFd<'_>) -> Result<()>;
    fn fdatasync(&self, fd: BorrowedFd<'_>) -> Result<()>;
    fn get_flags(&self, fd: BorrowedFd<'_>) -> Result<OFlags>;
    fn set_flags(&self, fd: BorrowedFd<'_>, flags: OFlags) -> Result<()>;
    /// POSIX_FADV_DONTNEED; a length of 0 is to the end.
    fn drop_cache(&self, fd: BorrowedFd<'_>, at: u64, len: u64) -> Result<()>;
    fn fallocate(&self, fd: BorrowedFd<'_>, mode: FallocateFlags, at: u64, len: u64) -> Result<()>;
    /// BLKZEROOUT.
    fn zero_out(&self, fd: BorrowedFd<'_>, at: u64, len: u64) -> Result<()>;
    /// Waits until `fd` can be read or written.
    fn wait(&self, fd: BorrowedFd<'_>, direction: Direction) -> Result<()>;
    /// FIONREAD: bytes that a pipe holds.
    fn available(&self, fd: BorrowedFd<'_>) -> Result<u64>;
    fn close(&self, fd: OwnedFd) -> Result<()>;
    /// Whether descriptors are what the system knows under their numbers, so that a ring or a thread may use them past
    /// this door.
    fn is_the_system(&self) -> bool {
        false
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Read,
    Write,
}

/// The real one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Os;

impl Kernel for Os {
    fn open(&self, path: &OsStr, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
        rustix::fs::open(path, flags | OFlags::CLOEXEC, mode)
    }

    #[inline]
    fn read(&self, fd: BorrowedFd<'_>, buf: &mut [u8]) -> Result<usize> {
        rustix::io::read(fd, buf)
    }

    fn pread(&self, fd: BorrowedFd<'_>, buf: &mut [u8], at: u64) -> Result<usize> {
        rustix::io::pread(fd, buf, at)
    }

    #[inline]
    fn write(&self, fd: BorrowedFd<'_>, buf: &[u8]) -> Result<usize> {
        rustix::io::write(fd, buf)
    }

    fn write_uncached(&self, fd: BorrowedFd<'_>, buf: &[u8]) -> Result<usize> {
        // Not in rustix yet.
        const DONTCACHE: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);
        /// Where the descriptor stands, which then moves on.
        const HERE: u64 = u64::MAX;
        rustix::io::pwritev2(fd, &[IoSlice::new(buf)], HERE, DONTCACHE)
    }

    fn seek(&self, fd: BorrowedFd<'_>, to: SeekFrom) -> Result<u64> {
        rustix::fs::seek(fd, to)
    }

    fn truncate(&self, fd: BorrowedFd<'_>, len: u64) -> Result<()> {
        rustix::fs::ftruncate(fd, len)
    }

    fn fstat(&self, fd: BorrowedFd<'_>) -> Result<Stat> {
        rustix::fs::fstat(fd)
    }

    fn file_system(&self, fd: BorrowedFd<'_>) -> Result<u64> {
        // Magic numbers are 32 bits wide; the field's type differs by architecture.
        rustix::fs::fstatfs(fd).map(|stat| u64::try_from(stat.f_type).unwrap_or(0) & 0xFFFF_FFFF)
    }

    fn fsync(&self, fd: BorrowedFd<'_>) -> Result<()> {
        rustix::fs::fsync(fd)
    }

    fn fdatasync(&self, fd: BorrowedFd<'_>) -> Result<()> {
        rustix::fs::fdatasync(fd)
    }

    fn get_flags(&self, fd: BorrowedFd<'_>) -> Result<OFlags> {
        rustix::fs::fcntl_getfl(fd)
    }

    fn set_flags(&self, fd: BorrowedFd<'_>, flags: OFlags) -> Result<()> {
        rustix::fs::fcntl_setfl(fd, flags)
    }

    fn drop_cache(&self, fd: BorrowedFd<'_>, at: u64, len: u64) -> Result<()> {
        rustix::fs::fadvise(fd, at, std::num::NonZeroU64::new(len), rustix::fs::Advice::DontNeed)
    }

    fn fallocate(&self, fd: BorrowedFd<'_>, mode: FallocateFlags, at: u64, len: u64) -> Result<()> {
        rustix::fs::fallocate(fd, mode, at, len)
    }

    fn zero_out(&self, fd: BorrowedFd<'_>, at: u64, len: u64) -> Result<()> {
        fdd_sys::device::zero_out(fd, at, len)
    }

    fn wait(&self, fd: BorrowedFd<'_>, direction: Direction) -> Result<()> {
        use rustix::event::{PollFd, PollFlags, poll};
        let wanted = match direction {
            Direction::Read => PollFlags::IN,
            Direction::Write => PollFlags::OUT,
        };
        poll(&mut [PollFd::from_borrowed_fd(fd, wanted)], None).map(drop)
    }

    fn available(&self, fd: BorrowedFd<'_>) -> Result<u64> {
        rustix::io::ioctl_fionread(fd)
    }

    fn close(&self, fd: OwnedFd) -> Result<()> {
        fdd_sys::start::close(fd)
    }

    fn is_the_system(&self) -> bool {
        true
    }
}
