//! Buffers from the kernel: page-aligned, zeroed, and costing nothing until touched.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// A private mapping of whole pages. Its first byte is page-aligned, as O_DIRECT wants, and from [`Aligned::HUGE`] bytes on
/// it is aligned to that and may be backed by huge pages. Pages are made when first touched.
#[derive(Debug)]
pub struct Aligned {
    map: NonNull<libc::c_void>,
    map_len: usize,
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is private to this value and reached only through `&` and `&mut` of it.
unsafe impl Send for Aligned {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for Aligned {}

impl Aligned {
    /// From this length on a buffer is aligned for huge pages: 2 MiB.
    pub const HUGE: usize = 2 << 20;

    /// A zeroed buffer of `len` bytes, at least one page's worth mapped.
    ///
    /// # Errors
    /// ENOMEM where the kernel refuses the mapping or `len` is beyond the address space.
    pub fn new(len: usize) -> Result<Aligned, Errno> {
        let page = rustix::param::page_size();
        let slack = if len >= Aligned::HUGE { Aligned::HUGE } else { 0 };
        let map_len = len
            .max(1)
            .checked_next_multiple_of(page)
            .and_then(|whole| whole.checked_add(slack))
            .filter(|&whole| isize::try_from(whole).is_ok())
            .ok_or(Errno::NOMEM)?;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no existing memory.
        let map = unsafe {
            mmap_anonymous(std::ptr::null_mut(), map_len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)?
        };
        let map = NonNull::new(map).ok_or(Errno::NOMEM)?;
        let start = map.cast::<u8>();
        let offset = if slack > 0 { start.align_offset_to(Aligned::HUGE) } else { 0 };
        // SAFETY: `offset` is below `slack`, so `start + offset + len` is inside the mapping.
        let start = unsafe { start.add(offset) };
        Ok(Aligned { map, map_len, start, len })
    }

    /// Asks for huge pages, which make direct reads into a large buffer faster. Touching one byte then makes 2 MiB.
    pub fn advise_huge(&self) {
        // SAFETY: the range is this value's own mapping; the advice changes no contents.
        let _ = unsafe { rustix::mm::madvise(self.map.as_ptr(), self.map_len, rustix::mm::Advice::LinuxHugepage) };
    }
}

trait AlignOffset {
    fn align_offset_to(self, align: usize) -> usize;
}

impl AlignOffset for NonNull<u8> {
    fn align_offset_to(self, align: usize) -> usize {
        let address = self.addr().get();
        address.next_multiple_of(align) - address
    }
}

impl Deref for Aligned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `start..start+len` is mapped, readable and initialised (the kernel gives zeroed pages) while self lives.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` and no slice of it outlives self.
        let _ = unsafe { munmap(self.map.as_ptr(), self.map_len) };
    }
}

#[cfg(test)]
#[cfg(not(miri))] // Miri has no anonymous mappings by raw system call.
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_zeroed_and_page_aligned() {
        let mut buffer = Aligned::new(513).expect("a page");
        assert_eq!(buffer.len(), 513);
        assert_eq!(buffer.as_ptr().addr() % rustix::param::page_size(), 0);
        assert!(buffer.iter().all(|&byte| byte == 0));
        buffer[512] = 1;
        assert_eq!(buffer[512], 1);
    }

    #[test]
    fn a_large_buffer_is_aligned_for_huge_pages() {
        let mut buffer = Aligned::new(Aligned::HUGE + 1).expect("two mebibytes");
        assert_eq!(buffer.as_ptr().addr() % Aligned::HUGE, 0);
        buffer[Aligned::HUGE] = 7;
        buffer.advise_huge();
        assert_eq!(buffer[Aligned::HUGE], 7);
    }

    #[test]
    fn more_than_the_address_space_is_refused() {
        assert_eq!(Aligned::new(usize::MAX).err(), Some(Errno::NOMEM));
        assert_eq!(Aligned::new(isize::MAX as usize).err(), Some(Errno::NOMEM));
    }

    #[test]
    fn an_empty_buffer_is_empty() {
        assert!(Aligned::new(0).expect("a page").is_empty());
    }
}
