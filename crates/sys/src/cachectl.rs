//! System calls about the page cache that rustix lacks: what is in it, and writing a range of it back.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};

use rustix::io::{Errno, Result};

/// What the page cache holds of a range of a file, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct CacheStat {
    /// Pages in the cache.
    pub cached: u64,
    /// Of these, pages whose write-back has not begun.
    pub dirty: u64,
    /// Of these, pages that are being written back.
    pub writeback: u64,
    /// Pages that were in the cache and have been evicted.
    pub evicted: u64,
    /// Of the evicted, those whose return would show memory pressure.
    pub recently_evicted: u64,
}

#[repr(C)]
struct CacheStatRange {
    offset: u64,
    len: u64,
}

/// The numbers of system calls added since 5.0 are the same everywhere, but for MIPS's bases.
const SYS_CACHESTAT: libc::c_long = if cfg!(any(target_arch = "mips", target_arch = "mips32r6")) {
    4451
} else if cfg!(any(target_arch = "mips64", target_arch = "mips64r6")) {
    5451
} else {
    451
};

/// `cachestat(2)` of `len` bytes at `offset`; a `len` of 0 means to the end of the file.
///
/// # Errors
///
/// `ENOSYS` before Linux 6.5, `EPERM` for a file that the caller neither owns nor may write, `EOPNOTSUPP` on hugetlbfs,
/// `EBADF` for what has no page cache.
pub fn cachestat(fd: BorrowedFd<'_>, offset: u64, len: u64) -> Result<CacheStat> {
    let range = CacheStatRange { offset, len };
    let mut stat = CacheStat::default();
    // SAFETY: both pointers are to live structures of the layout that the call defines, the second one writable; the call
    // keeps neither.
    let done = unsafe {
        libc::syscall(SYS_CACHESTAT, fd.as_raw_fd(), ptr::from_ref(&range), ptr::from_mut(&mut stat), 0 as libc::c_uint)
    };
    result(done)?;
    Ok(stat)
}

/// Starts to write the dirty pages of `len` bytes at `offset` back and does not wait (`sync_file_range(2)` with WRITE).
///
/// # Errors
///
/// Those of `sync_file_range(2)`: `ESPIPE` and `EINVAL` for what has no such range, `ENOSYS` where a sandbox refuses it.
#[doc(alias = "sync_file_range")]
pub fn start_write_back(fd: BorrowedFd<'_>, offset: u64, len: u64) -> Result<()> {
    sync_file_range(fd, offset, len, libc::SYNC_FILE_RANGE_WRITE)
}

/// Writes the dirty pages of `len` bytes at `offset` back and waits for them (`sync_file_range(2)` with WAIT_BEFORE, WRITE
/// and WAIT_AFTER). Neither metadata nor the device's cache are flushed.
///
/// # Errors
///
/// As [`start_write_back`], and the error of an earlier write-back anywhere in the file, such as `EIO` or `ENOSPC`. The
/// kernel tells such an error once for each open file: a later `fsync` on the same descriptor is silent about it.
#[doc(alias = "sync_file_range")]
pub fn finish_write_back(fd: BorrowedFd<'_>, offset: u64, len: u64) -> Result<()> {
    let all = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    sync_file_range(fd, offset, len, all)
}

fn sync_file_range(fd: BorrowedFd<'_>, offset: u64, len: u64, flags: libc::c_uint) -> Result<()> {
    let offset = offset.try_into().map_err(|_| Errno::INVAL)?;
    let len = len.try_into().map_err(|_| Errno::INVAL)?;
    // SAFETY: the call takes numbers only.
    result(unsafe { libc::sync_file_range(fd.as_raw_fd(), offset, len, flags) }.into())
}

/// Tells of each page of `len` bytes at `offset` whether it is in memory, by a mapping made for it (`mincore(2)`).
///
/// For a file that the caller neither owns nor may write, the kernel says yes to every page since Linux 5.2.
///
/// # Errors
///
/// `EINVAL` when `offset` is not a multiple of the page size, `len` is zero or does not fit the address space; `EACCES`
/// for a descriptor that is not open for reading; `ENODEV` for what cannot be mapped.
pub fn mincore(fd: BorrowedFd<'_>, offset: u64, len: u64) -> Result<Vec<bool>> {
    let len = usize::try_from(len).map_err(|_| Errno::INVAL)?;
    let offset = offset.try_into().map_err(|_| Errno::INVAL)?;
    let mut pages = vec![0_u8; len.div_ceil(rustix::param::page_size())];
    // SAFETY: a new mapping at an address of the kernel's choice, which no reference points into. It is never read or
    // written: a file that shrinks meanwhile cannot raise SIGBUS.
    let mapping =
        unsafe { libc::mmap(ptr::null_mut(), len, libc::PROT_READ, libc::MAP_SHARED, fd.as_raw_fd(), offset) };
    if mapping == libc::MAP_FAILED {
        return Err(last_error());
    }
    // SAFETY: `mapping` spans `len` bytes, and `pages` has a byte for each page of it.
    let told = result(unsafe { libc::mincore(mapping, len, pages.as_mut_ptr()) }.into());
    // SAFETY: the mapping made above, which ends here and was given to nobody.
    unsafe { libc::munmap(mapping, len) };
    told?;
    Ok(pages.into_iter().map(|page| page & 1 != 0).collect())
}

/// A file in the address space, read-only, whose pages come and go as the kernel sees fit.
///
/// It gives out no references to its bytes: another process may write the file at any moment.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to the process and not to a thread, and is only read.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes of a file.
    ///
    /// # Errors
    ///
    /// As `mmap(2)`: `EINVAL` for a `len` of zero, `EACCES` for a descriptor that is not open for reading, `ENODEV` for
    /// what cannot be mapped.
    pub fn new(fd: BorrowedFd<'_>, len: usize) -> Result<Mapping> {
        // SAFETY: a new mapping at an address of the kernel's choice, which no reference points into.
        let start = unsafe { libc::mmap(ptr::null_mut(), len, libc::PROT_READ, libc::MAP_SHARED, fd.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(last_error());
        }
        let start = NonNull::new(start.cast()).ok_or(Errno::INVAL)?;
        Ok(Mapping { start, len })
    }

    /// Reads one byte of each page, waits for those that are not in memory, and returns the sum of the bytes.
    ///
    /// A page that the file has lost since, by truncation, kills the process with `SIGBUS`.
    pub fn touch(&self) -> u64 {
        let pages = (0..self.len).step_by(rustix::param::page_size());
        // SAFETY: each offset lies inside the mapping, which lives as long as `self`. Volatile, since the bytes may change.
        pages.map(|offset| u64::from(unsafe { self.start.add(offset).read_volatile() })).sum()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, which ends here; no reference into it was given out.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

fn result(returned: libc::c_long) -> Result<()> {
    if returned < 0 { Err(last_error()) } else { Ok(()) }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

#[cfg(test)]
#[cfg(not(miri))] // No cachestat, no sync_file_range.
#[allow(clippy::unwrap_used, clippy::cast_possible_truncation)] // A test may end in a panic, and its sizes are small.
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write;
    use std::os::fd::AsFd;

    /// A file on the file system of the sources, with `pages` pages of data in the cache.
    fn cached_file(pages: usize) -> File {
        let mut file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all(&vec![1; pages * rustix::param::page_size()]).unwrap();
        file
    }

    #[test]
    fn mincore_and_cachestat_tell_the_same() {
        let page = rustix::param::page_size() as u64;
        let file = cached_file(5);
        let told = mincore(file.as_fd(), 0, 8 * page).unwrap();
        assert_eq!(told, [true, true, true, true, true, false, false, false]);
        assert_eq!(mincore(file.as_fd(), 3 * page, 4 * page).unwrap(), [true, true, false, false]);
        match cachestat(file.as_fd(), 3 * page, 5 * page) {
            Ok(stat) => assert_eq!(stat.cached, 2),
            Err(error) => assert_eq!(error, Errno::NOSYS),
        }
    }

    #[test]
    fn finished_write_back_leaves_nothing_dirty() {
        let page = rustix::param::page_size() as u64;
        let file = cached_file(6);
        start_write_back(file.as_fd(), 0, 6 * page).unwrap();
        finish_write_back(file.as_fd(), 0, 6 * page).unwrap();
        match cachestat(file.as_fd(), 0, 0) {
            Ok(stat) => assert_eq!((stat.dirty, stat.writeback), (0, 0)),
            Err(error) => assert_eq!(error, Errno::NOSYS),
        }
    }

    #[test]
    fn finishing_begins_what_nobody_has_begun() {
        let page = rustix::param::page_size() as u64;
        let file = cached_file(7);
        finish_write_back(file.as_fd(), 0, 7 * page).unwrap();
        match cachestat(file.as_fd(), 0, 0) {
            Ok(stat) => assert_eq!((stat.dirty, stat.writeback), (0, 0)),
            Err(error) => assert_eq!(error, Errno::NOSYS),
        }
    }

    #[test]
    fn touching_a_mapping_reads_a_byte_of_each_page_and_brings_it_in() {
        let page = rustix::param::page_size();
        let file = cached_file(5);
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let mapping = Mapping::new(file.as_fd(), 5 * page).unwrap();
        assert_eq!(mapping.touch(), 5);
        assert_eq!(mincore(file.as_fd(), 0, 5 * page as u64).unwrap(), [true; 5]);
        assert_eq!(Mapping::new(file.as_fd(), 0).unwrap_err(), Errno::INVAL);
    }

    #[test]
    fn what_has_no_range_is_refused() {
        let (reader, _writer) = std::io::pipe().unwrap();
        assert_eq!(start_write_back(reader.as_fd(), 0, 4096).unwrap_err(), Errno::SPIPE);
        assert_eq!(mincore(reader.as_fd(), 0, 4096).unwrap_err(), Errno::NODEV);
        assert_eq!(mincore(cached_file(1).as_fd(), 1, 4096).unwrap_err(), Errno::INVAL);
        assert_eq!(start_write_back(reader.as_fd(), u64::MAX, 1).unwrap_err(), Errno::INVAL);
    }
}
