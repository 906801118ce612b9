//! Files that share their data until one of them is written to.

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;
use rustix::ioctl::{Opcode, Setter, opcode};

const FICLONERANGE: Opcode = opcode::write::<Range>(0x94, 13);

/// As the kernel lays it out.
#[repr(C)]
struct Range {
    source: i64,
    source_offset: u64,
    len: u64,
    target_offset: u64,
}

/// Makes `len` bytes of `target` from `target_offset` on share the data of `source` from `source_offset` on; a `len` of 0
/// means to the end of `source`.
///
/// # Errors
/// `EOPNOTSUPP` where the file system cannot; `EXDEV` for files on two of them; `EINVAL` for offsets that are not of whole
/// blocks, a length that is not and does not end at the end of both files, a range beyond the end of `source`, and ranges
/// of one file that overlap; `EBADF`, `EISDIR`, `EPERM`, `ETXTBSY` for what cannot be a source or target at all.
#[doc(alias = "FICLONERANGE")]
#[doc(alias = "reflink")]
pub fn clone_range(
    target: BorrowedFd<'_>,
    target_offset: u64,
    source: BorrowedFd<'_>,
    source_offset: u64,
    len: u64,
) -> Result<(), Errno> {
    let range = Range { source: source.as_raw_fd().into(), source_offset, len, target_offset };
    // SAFETY: FICLONERANGE reads a structure of this layout from the pointer it is given and writes nothing there.
    unsafe { rustix::ioctl::ioctl(target, Setter::<FICLONERANGE, Range>::new(range)) }
}

#[cfg(test)]
#[cfg(not(miri))] // No ioctls.
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn two_file_systems_share_nothing() {
        let zero = std::fs::File::open("/dev/zero").expect("/dev/zero");
        let file = tempfile::tempfile().expect("a temporary file");
        let refused = clone_range(file.as_fd(), 0, zero.as_fd(), 0, 0).expect_err("no clone of a device");
        assert!(matches!(refused, Errno::INVAL | Errno::XDEV | Errno::OPNOTSUPP), "{refused}");
    }
}
