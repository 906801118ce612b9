//! An io_uring over one buffer of huge pages: reads into it and writes out of it at offsets, many at a time.
//!
//! The ring owns the buffer and the files, and remembers which parts of the buffer the kernel is busy with, so that a part
//! is never given out twice and nothing is unmapped or closed under a request. No polling thread of the kernel is asked for.

use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};

use io_uring::{IoUring, opcode, types};
use rustix::io::Errno;

use crate::memory::Aligned;

/// A file that a [`Ring`] has taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File(usize);

/// A request that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// What the request was given to be known by.
    pub tag: u64,
    /// How many bytes were moved, or why none were.
    pub result: Result<usize, Errno>,
}

/// A request in the kernel's hands.
#[derive(Debug)]
struct Flight {
    part: Range<usize>,
    tag: u64,
}

/// Requests in flight over one buffer.
pub struct Ring {
    ring: IoUring,
    /// Start of `memory`. All access goes through it: a slice of the whole buffer would cover what the kernel writes to.
    start: *mut u8,
    len: usize,
    /// Taken out only when the kernel cannot be made to let go of it.
    memory: Option<Aligned>,
    /// The kernel knows the buffer and has its pages at hand.
    registered: bool,
    files: Vec<OwnedFd>,
    /// Indexed by the number that the kernel gives back.
    flights: Vec<Option<Flight>>,
}

// SAFETY: `start` points into `memory`, which the ring owns; nothing here is bound to a thread.
unsafe impl Send for Ring {}

impl Ring {
    /// A ring for `depth` requests at a time over a buffer of `len` bytes.
    ///
    /// # Errors
    /// `ENOSYS`, `EPERM`, `EINVAL` where io_uring is missing, forbidden or too old; `ENOMEM` for the ring or the buffer;
    /// `EMFILE`.
    pub fn new(depth: u16, len: usize) -> Result<Ring, Errno> {
        let ring = IoUring::new(u32::from(depth).next_power_of_two()).map_err(|error| errno(&error))?;
        let mut memory = Aligned::new(len)?;
        memory.advise_huge();
        let start = memory.as_mut_ptr();
        let whole = libc::iovec { iov_base: start.cast(), iov_len: len };
        // SAFETY: the buffer stays mapped until the ring is gone; see `drop`.
        // A refusal (RLIMIT_MEMLOCK) costs speed and nothing else.
        let registered = unsafe { ring.submitter().register_buffers(&[whole]) }.is_ok();
        let flights = std::iter::repeat_with(|| None).take(usize::from(depth)).collect();
        Ok(Ring { ring, start, len, memory: Some(memory), registered, files: Vec::new(), flights })
    }

    /// Takes a file over; it is closed with the ring.
    pub fn take(&mut self, file: OwnedFd) -> File {
        self.files.push(file);
        File(self.files.len() - 1)
    }

    /// How many requests have not been given back by [`wait`](Ring::wait).
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.flights.iter().flatten().count()
    }

    /// Starts to read `file` from offset `at` into `part` of the buffer.
    ///
    /// # Errors
    /// `EBUSY` when `part` overlaps a request in flight or as many as there may be are in flight.
    ///
    /// # Panics
    /// `part` does not lie in the buffer.
    pub fn read(&mut self, file: File, at: u64, part: Range<usize>, tag: u64) -> Result<(), Errno> {
        let (index, buf, len) = self.claim(part, tag)?;
        let fd = types::Fd(self.files[file.0].as_raw_fd());
        let entry = if self.registered {
            opcode::ReadFixed::new(fd, buf, len, 0).offset(at).build()
        } else {
            opcode::Read::new(fd, buf, len).offset(at).build()
        };
        self.start(&entry.user_data(index))
    }

    /// Starts to write `part` of the buffer to `file` at offset `at`.
    ///
    /// # Errors
    /// As [`read`](Ring::read).
    ///
    /// # Panics
    /// `part` does not lie in the buffer.
    pub fn write(&mut self, file: File, at: u64, part: Range<usize>, tag: u64) -> Result<(), Errno> {
        let (index, buf, len) = self.claim(part, tag)?;
        let fd = types::Fd(self.files[file.0].as_raw_fd());
        let entry = if self.registered {
            opcode::WriteFixed::new(fd, buf, len, 0).offset(at).build()
        } else {
            opcode::Write::new(fd, buf, len).offset(at).build()
        };
        self.start(&entry.user_data(index))
    }

    /// A request that has ended; waits for one where none has.
    ///
    /// # Errors
    /// `EINTR` when a signal came first: ask again. Anything else means that the ring is of no use any more.
    ///
    /// # Panics
    /// Nothing is in flight: the wait would never end.
    pub fn wait(&mut self) -> Result<Done, Errno> {
        assert!(self.in_flight() > 0, "a wait for nothing");
        loop {
            if let Some(entry) = self.ring.completion().next() {
                let index = usize::try_from(entry.user_data()).unwrap_or(usize::MAX);
                let Some(flight) = self.flights.get_mut(index).and_then(Option::take) else { continue };
                // A negative result is an errno.
                let result = usize::try_from(entry.result()).map_err(|_| Errno::from_raw_os_error(-entry.result()));
                return Ok(Done { tag: flight.tag, result });
            }
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) => match errno(&error) {
                    // Short of memory for the moment: as good as interrupted.
                    Errno::AGAIN | Errno::BUSY => return Err(Errno::INTR),
                    other => return Err(other),
                },
            }
        }
    }

    /// What lies in `part` of the buffer; `None` while a request is using it.
    ///
    /// # Panics
    /// `part` does not lie in the buffer.
    #[must_use]
    pub fn bytes(&self, part: Range<usize>) -> Option<&[u8]> {
        assert!(part.start <= part.end && part.end <= self.len, "a part of the buffer");
        if self.is_busy(&part) {
            return None;
        }
        // SAFETY: the part is mapped and initialised (the kernel gives zeroed pages), no request touches it, and none can
        // be started while the slice lives, since that takes `&mut self`.
        Some(unsafe { std::slice::from_raw_parts(self.start.add(part.start), part.len()) })
    }

    fn is_busy(&self, part: &Range<usize>) -> bool {
        self.flights.iter().flatten().any(|flight| flight.part.start < part.end && part.start < flight.part.end)
    }

    /// Notes that the kernel gets `part`. Gives the number of the request, and address and length for it.
    fn claim(&mut self, part: Range<usize>, tag: u64) -> Result<(u64, *mut u8, u32), Errno> {
        assert!(part.start <= part.end && part.end <= self.len, "a part of the buffer");
        let len = u32::try_from(part.len()).map_err(|_| Errno::INVAL)?;
        if self.is_busy(&part) {
            return Err(Errno::BUSY);
        }
        let free = self.flights.iter().position(Option::is_none).ok_or(Errno::BUSY)?;
        // SAFETY: the part lies in the buffer, checked above.
        let buf = unsafe { self.start.add(part.start) };
        self.flights[free] = Some(Flight { part, tag });
        Ok((u64::try_from(free).map_err(|_| Errno::INVAL)?, buf, len))
    }

    /// Hands a claimed request over. From here on it counts as in flight, whatever the kernel says: what it does not take
    /// now it is given again by the next wait.
    fn start(&mut self, entry: &io_uring::squeue::Entry) -> Result<(), Errno> {
        // SAFETY: buffer and file of the entry are owned by self and stay until the request has ended; see `drop`.
        let pushed = unsafe { self.ring.submission().push(entry) };
        // The queue has a place for each flight.
        pushed.map_err(|_| Errno::BUSY)?;
        let _ = self.ring.submit();
        Ok(())
    }
}

impl Ring {
    /// How many requests the kernel has; the others are still in the queue and go down with it.
    fn in_kernel(&mut self) -> usize {
        self.in_flight().saturating_sub(self.ring.submission().len())
    }

    /// Takes what has ended without asking the kernel, which refuses to be asked. Each call of another kind lets it tell.
    fn wait_aside(&mut self) {
        const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);
        let begun = std::time::Instant::now();
        while self.in_kernel() > 0 && begun.elapsed() < PATIENCE {
            while let Some(entry) = self.ring.completion().next() {
                let index = usize::try_from(entry.user_data()).unwrap_or(usize::MAX);
                self.flights.get_mut(index).map(Option::take);
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

impl Drop for Ring {
    /// Waits for what is in flight.
    fn drop(&mut self) {
        while self.in_flight() > 0 {
            match self.wait() {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
        if self.in_flight() > 0 {
            self.wait_aside();
        }
        if self.in_kernel() > 0 {
            // The kernel may still write there: rather lose the memory and the descriptors than have that.
            std::mem::forget(self.memory.take());
            std::mem::forget(std::mem::take(&mut self.files));
        }
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring")
            .field("len", &self.len)
            .field("registered", &self.registered)
            .field("flights", &self.flights)
            .finish_non_exhaustive()
    }
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

#[cfg(test)]
#[cfg(not(miri))] // No io_uring there.
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    const PART: usize = 64 << 10;

    /// `None`, said aloud, where the kernel or a sandbox refuses.
    fn ring() -> Option<Ring> {
        match Ring::new(4, 4 * PART) {
            Ok(ring) => Some(ring),
            Err(refused) => {
                eprintln!("skipped: no io_uring here: {refused}");
                None
            }
        }
    }

    fn file() -> std::fs::File {
        tempfile::tempfile().expect("a temporary file")
    }

    #[test]
    fn what_is_read_at_one_offset_is_written_at_another() {
        let Some(mut ring) = ring() else { return };
        let (from, to) = (file(), file());
        from.write_all_at(&[7; 1000], 500).expect("room");
        let output = to.try_clone().expect("a descriptor");
        let (from, to) = (ring.take(from.into()), ring.take(to.into()));
        ring.read(from, 500, 0..1000, 1).expect("free");
        assert_eq!(ring.wait(), Ok(Done { tag: 1, result: Ok(1000) }));
        assert_eq!(ring.bytes(0..1000), Some(&[7; 1000][..]));
        ring.write(to, 3, 0..1000, 2).expect("free");
        assert_eq!(ring.wait(), Ok(Done { tag: 2, result: Ok(1000) }));
        let mut got = [0; 1003];
        output.read_exact_at(&mut got, 0).expect("written");
        assert!(got[..3] == [0; 3] && got[3..] == [7; 1000]);
    }

    #[test]
    fn the_end_of_a_file_is_a_short_read_and_a_wrong_descriptor_an_error() {
        let Some(mut ring) = ring() else { return };
        let short = file();
        short.write_all_at(&[1; 10], 0).expect("room");
        let short = ring.take(short.into());
        ring.read(short, 0, 0..PART, 1).expect("free");
        assert_eq!(ring.wait(), Ok(Done { tag: 1, result: Ok(10) }));
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
        let full = ring.take(full.into());
        ring.write(full, 0, 0..PART, 2).expect("free");
        assert_eq!(ring.wait(), Ok(Done { tag: 2, result: Err(Errno::NOSPC) }));
    }

    #[test]
    fn a_part_in_flight_is_not_given_out_again() {
        let Some(mut ring) = ring() else { return };
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        let reader = ring.take(reader.into());
        ring.read(reader, 0, PART..2 * PART, 1).expect("free");
        assert_eq!(ring.read(reader, 0, 0..PART + 1, 2), Err(Errno::BUSY));
        assert_eq!(ring.bytes(2 * PART - 1..2 * PART), None);
        assert!(ring.bytes(0..PART).is_some());
        std::io::Write::write_all(&mut writer, b"x").expect("room");
        assert_eq!(ring.wait(), Ok(Done { tag: 1, result: Ok(1) }));
        assert_eq!(ring.bytes(PART..PART + 1), Some(&b"x"[..]));
    }

    #[test]
    fn more_than_the_depth_is_refused() {
        let Some(mut ring) = ring() else { return };
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let reader = ring.take(reader.into());
        for slot in 0..4 {
            ring.read(reader, 0, slot..slot + 1, 0).expect("free");
        }
        assert_eq!(ring.read(reader, 0, 4..5, 0), Err(Errno::BUSY));
        drop(writer);
        for _ in 0..4 {
            assert_eq!(ring.wait().map(|done| done.result), Ok(Ok(0)));
        }
        assert_eq!(ring.in_flight(), 0);
    }

    #[test]
    fn dropping_a_ring_waits_for_what_is_in_flight() {
        let Some(mut ring) = ring() else { return };
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        let reader = ring.take(reader.into());
        ring.read(reader, 0, 0..8, 0).expect("free");
        std::io::Write::write_all(&mut writer, b"12345678").expect("room");
        drop(ring);
        // The reader was closed with the ring, and nothing is left in the pipe to be read.
        assert_eq!(rustix::io::write(&writer, b"x"), Err(Errno::PIPE));
    }

    #[test]
    fn a_drop_lasts_as_long_as_a_read_into_the_buffer() {
        if !std::path::Path::new("/proc/self/syscall").exists() {
            eprintln!("skipped: the kernel does not tell what a thread waits for");
            return;
        }
        let Some(mut ring) = ring() else { return };
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        let reader = ring.take(reader.into());
        ring.read(reader, 0, 0..8, 0).expect("free");
        let (tell, told) = std::sync::mpsc::channel();
        let dropper = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero()).expect("a listener");
            drop(ring);
        });
        let call = format!("/proc/self/task/{}/syscall", told.recv().expect("a thread"));
        let waits = libc::SYS_io_uring_enter.to_string();
        while std::fs::read_to_string(&call).unwrap_or_default().split(' ').next() != Some(&waits) {
            assert!(!dropper.is_finished(), "the ring is gone while the kernel may still write to its buffer");
            std::thread::yield_now();
        }
        std::io::Write::write_all(&mut writer, b"12345678").expect("room");
        dropper.join().expect("no panic");
    }
}
