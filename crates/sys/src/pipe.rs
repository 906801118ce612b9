//! What pipes can do beyond read and write.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use crate::memory::Aligned;

/// Memory that holds zeros for as long as the process lives, so that its pages can be lent to a pipe: whoever reads them
/// later, even after we are gone, finds what was promised.
#[derive(Clone, Copy, Debug)]
pub struct Zeros {
    bytes: &'static [u8],
}

impl Zeros {
    /// `len` zeros, never written and never given back.
    ///
    /// # Errors
    /// ENOMEM where there is no room for the mapping.
    pub fn new(len: usize) -> Result<Zeros, Errno> {
        Ok(Zeros { bytes: Box::leak(Box::new(Aligned::new(len)?)) })
    }

    /// Puts up to `len` zeros into the pipe `fd` without copying them; fewer when the pipe fills or `len` is more than there
    /// are. Blocks while the pipe is full, unless it is non-blocking.
    ///
    /// # Errors
    /// EINVAL or EBADF where `fd` is no pipe open for writing; EPIPE (and SIGPIPE) where nobody reads; EINTR.
    pub fn lend_to(self, fd: BorrowedFd<'_>, len: usize) -> Result<usize, Errno> {
        let bytes = &self.bytes[..len.min(self.bytes.len())];
        let piece = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        // SAFETY: the one iovec points at memory that stays mapped and unchanged for the life of the process; vmsplice into
        // a pipe only reads it.
        let taken = unsafe { libc::vmsplice(std::os::fd::AsRawFd::as_raw_fd(&fd), &raw const piece, 1, 0) };
        usize::try_from(taken).map_err(|_| Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
    }
}

/// Makes the pipe at least `wanted` bytes wide, or as wide as the system allows in halves down to 256 KiB. Never makes it
/// narrower. Tells its width.
pub fn widen(fd: BorrowedFd<'_>, wanted: usize) -> Option<usize> {
    const LEAST: usize = 256 << 10;
    let now = rustix::pipe::fcntl_getpipe_size(fd).ok()?;
    let mut size = wanted;
    while size > now && size >= LEAST {
        if let Ok(got) = rustix::pipe::fcntl_setpipe_size(fd, size) {
            return Some(got);
        }
        size /= 2;
    }
    Some(now)
}

#[cfg(test)]
#[cfg(not(miri))] // No vmsplice.
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn lent_zeros_arrive() {
        let (read, write) = rustix::pipe::pipe().expect("a pipe");
        let zeros = Zeros::new(8192).expect("two pages");
        assert_eq!(zeros.lend_to(write.as_fd(), 5000), Ok(5000));
        let mut got = [7u8; 6000];
        assert_eq!(rustix::io::read(&read, &mut got), Ok(5000));
        assert!(got[..5000].iter().all(|&byte| byte == 0) && got[5000] == 7);
    }

    #[test]
    fn a_file_takes_no_loan() {
        let null = std::fs::OpenOptions::new().write(true).open("/dev/null").expect("/dev/null");
        assert_eq!(Zeros::new(4096).expect("a page").lend_to(null.as_fd(), 1), Err(Errno::BADF));
    }

    #[test]
    fn a_pipe_is_widened_and_never_narrowed() {
        let (_read, write) = rustix::pipe::pipe().expect("a pipe");
        let wide = widen(write.as_fd(), 1 << 20).expect("a pipe has a width");
        assert!(wide >= 64 << 10);
        assert_eq!(widen(write.as_fd(), 64 << 10), Some(wide));
        let null = std::fs::File::open("/dev/null").expect("/dev/null");
        assert_eq!(widen(null.as_fd(), 1 << 20), None);
    }
}
