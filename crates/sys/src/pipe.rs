//! What pipes can do beyond read and write.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use crate::memory::Aligned;

/// Memory that holds zeros for as long as the process lives, so that its pages can be lent to a pipe: whoever reads them
/// later, even after we are gone, finds what was promised. A few pages, lent over and over.
#[derive(Clone, Copy, Debug)]
pub struct Zeros {
    bytes: &'static [u8],
}

impl Zeros {
    /// How many bytes of zeros there are: 64 KiB.
    const LEN: usize = 64 << 10;

    /// How often one call lends them: 1 MiB.
    const REPEATS: usize = 16;

    /// Zeros that are never written again and never given back. `huge` asks for a huge page to hold them (2 MiB of memory), which
    /// is worth its making from some ten mebibytes on.
    ///
    /// The pages are made here, by writing to them: a page that was only read is the kernel's one page of zeros, and lending
    /// that takes the slow way through the page tables (measured: 2.5 times as long; a huge page is lent faster again).
    ///
    /// # Errors
    /// ENOMEM where there is no room for the mapping.
    pub fn new(huge: bool) -> Result<Zeros, Errno> {
        let mut bytes = Aligned::new(if huge { Aligned::HUGE } else { Zeros::LEN })?;
        if huge {
            bytes.advise_huge();
        }
        for page in bytes[..Zeros::LEN].chunks_mut(rustix::param::page_size()) {
            // Through `black_box`, as a store of what is there already could be left out.
            *std::hint::black_box(&mut page[0]) = 0;
        }
        Ok(Zeros { bytes: &Box::leak(Box::new(bytes))[..Zeros::LEN] })
    }

    /// Puts up to `len` zeros into the pipe `fd` without copying them; fewer when the pipe fills or `len` is more than 1 MiB.
    /// Blocks while the pipe is full, unless it is non-blocking.
    ///
    /// # Errors
    /// EINVAL or EBADF where `fd` is no pipe open for writing; EPIPE (and SIGPIPE) where nobody reads; EINTR.
    pub fn lend_to(self, fd: BorrowedFd<'_>, len: usize) -> Result<usize, Errno> {
        let mut rest = len;
        let pieces: [libc::iovec; Zeros::REPEATS] = std::array::from_fn(|_| {
            let piece = rest.min(Zeros::LEN);
            rest -= piece;
            libc::iovec { iov_base: self.bytes.as_ptr().cast_mut().cast(), iov_len: piece }
        });
        let count = len.div_ceil(Zeros::LEN).clamp(1, Zeros::REPEATS);
        // SAFETY: each of the `count` iovecs points at memory that stays mapped and unchanged for the life of the process;
        // vmsplice into a pipe only reads it.
        let taken = unsafe { libc::vmsplice(std::os::fd::AsRawFd::as_raw_fd(&fd), pieces.as_ptr(), count, 0) };
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
        for huge in [false, true] {
            let zeros = Zeros::new(huge).expect("some pages");
            assert_eq!(zeros.lend_to(write.as_fd(), 5000), Ok(5000));
            let mut got = [7u8; 6000];
            assert_eq!(rustix::io::read(&read, &mut got), Ok(5000));
            assert!(got[..5000].iter().all(|&byte| byte == 0) && got[5000] == 7);
        }
    }

    #[test]
    fn more_zeros_are_lent_than_there_are_and_never_more_than_asked_for() {
        let (read, write) = rustix::pipe::pipe().expect("a pipe");
        let width = widen(write.as_fd(), 4 << 20).expect("a pipe has a width");
        let zeros = Zeros::new(false).expect("some pages");
        for len in [Zeros::LEN, Zeros::LEN + 1, 3 * Zeros::LEN - 1] {
            assert_eq!(zeros.lend_to(write.as_fd(), len), Ok(len));
            let mut got = vec![7u8; len + 1];
            let mut at = 0;
            while at < len {
                at += rustix::io::read(&read, &mut got[at..]).expect("zeros");
            }
            assert!(at == len && got[..len].iter().all(|&byte| byte == 0), "{len}");
        }
        assert_eq!(zeros.lend_to(write.as_fd(), usize::MAX), Ok(width.min(Zeros::LEN * Zeros::REPEATS)));
    }

    #[test]
    fn a_file_takes_no_loan() {
        let null = std::fs::OpenOptions::new().write(true).open("/dev/null").expect("/dev/null");
        assert_eq!(Zeros::new(false).expect("some pages").lend_to(null.as_fd(), 1), Err(Errno::BADF));
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

    #[test]
    fn a_pipe_is_as_wide_as_was_wanted_or_as_the_system_allows_in_halves() {
        let width =
            |wanted| widen(rustix::pipe::pipe().expect("a pipe").1.as_fd(), wanted).expect("a pipe has a width");
        let fresh = rustix::pipe::fcntl_getpipe_size(rustix::pipe::pipe().expect("a pipe").1).expect("a width");
        assert!(fresh < 256 << 10, "the test wants a narrow pipe");
        assert_eq!(width(512 << 10), 512 << 10);
        assert_eq!(width(256 << 10), 256 << 10);
        assert_eq!(width((256 << 10) - 1), fresh, "not worth it");
        // No system allows that much; one of its halves it does.
        let halved = width(1 << 40);
        assert!(halved >= 256 << 10 && halved.is_power_of_two(), "{halved}");
    }
}
