//! What block devices answer by ioctl.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::ioctl::{Opcode, Setter, opcode};

const BLKZEROOUT: Opcode = opcode::none(0x12, 127);
const BLKSSZGET: Opcode = opcode::none(0x12, 104);

/// Makes `len` bytes from `at` read as zeros, by the device's own means where it has any.
///
/// # Errors
/// ENOTTY where `fd` is no block device; EINVAL where the range is not of whole sectors; EBADF where it is not open for
/// writing.
pub fn zero_out(fd: BorrowedFd<'_>, at: u64, len: u64) -> Result<(), Errno> {
    // SAFETY: BLKZEROOUT reads two 64-bit numbers from the pointer it is given and writes nothing there.
    unsafe { rustix::ioctl::ioctl(fd, Setter::<BLKZEROOUT, [u64; 2]>::new([at, len])) }
}

/// The smallest piece in bytes that the device reads or writes.
///
/// # Errors
/// ENOTTY where `fd` is no block device.
pub fn sector_size(fd: BorrowedFd<'_>) -> Result<u32, Errno> {
    // SAFETY: BLKSSZGET writes one C int to the pointer it is given.
    let size: libc::c_int =
        unsafe { rustix::ioctl::ioctl(fd, rustix::ioctl::Getter::<BLKSSZGET, libc::c_int>::new())? };
    u32::try_from(size).map_err(|_| Errno::INVAL)
}

#[cfg(test)]
#[cfg(not(miri))] // No ioctls.
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_file_is_no_block_device() {
        let null = std::fs::File::open("/dev/null").expect("/dev/null");
        assert_eq!(sector_size(null.as_fd()), Err(Errno::NOTTY));
        assert_eq!(zero_out(null.as_fd(), 0, 512), Err(Errno::NOTTY));
    }
}
