//! The ends of the ring of one producer and one consumer: no lock, and the memory itself can be lent.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::local::Threads;
use super::ring::{Cursor, Single};
use super::state::{Patience, Stop};

/// A ring between two threads, of `capacity` bytes rounded up to whole pages, in huge pages where it is large enough.
///
/// ```
/// let (mut writer, mut reader) = fdd_io::pipe::spsc(1 << 20)?;
/// std::thread::scope(|scope| {
///     scope.spawn(move || {
///         let space = writer.reserve(5)?;
///         space[..5].copy_from_slice(b"bytes");
///         writer.commit(5);
///         Ok::<(), std::io::Error>(())
///         // Dropped here: the reader sees the end.
///     });
///     assert_eq!(reader.filled(5)?, b"bytes");
///     reader.release(5);
///     assert!(reader.filled(1)?.is_empty());
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// Each end can be moved to another thread. An end that is dropped, also by a panic, closes its side: the reader sees the end
/// behind the last byte, the writer gets `BrokenPipe`.
///
/// # Errors
/// `OutOfMemory`.
pub fn spsc(capacity: usize) -> io::Result<(SpscWriter, SpscReader)> {
    let page = 4096;
    let capacity = capacity.max(1).checked_next_multiple_of(page).ok_or(io::ErrorKind::OutOfMemory)?;
    let (ring, [read, write]) = Single::new(capacity, Threads)?;
    let ring = Arc::new(ring);
    Ok((SpscWriter { ring: Arc::clone(&ring), cursor: write }, SpscReader { ring, cursor: read }))
}

/// The producer. Dropping it is the end of the stream.
#[derive(Debug)]
pub struct SpscWriter {
    ring: Arc<Single<Threads>>,
    cursor: Cursor,
}

/// The consumer. Dropping it breaks the pipe.
#[derive(Debug)]
pub struct SpscReader {
    ring: Arc<Single<Threads>>,
    cursor: Cursor,
}

impl SpscWriter {
    /// How many bytes fit.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.ring.capacity()
    }

    /// Bytes written and not yet read.
    #[must_use]
    pub fn level(&self) -> usize {
        self.ring.level(&self.cursor)
    }

    /// How much to wait for when the ring is full: a good part of it, so that the ends do not wake each other for every byte.
    fn worth_waking(&self, len: usize) -> usize {
        len.clamp(self.ring.capacity() / 8, self.ring.capacity() / 2)
    }

    #[inline]
    fn wait_for_space(&mut self, len: usize, patience: Patience) -> Result<usize, Stop> {
        let there = self.ring.look(&self.cursor, len);
        let there = match there {
            0 => self.ring.await_bytes(&self.cursor, 1, self.worth_waking(len), patience)?,
            _ => there,
        };
        // A reader that is gone frees nothing and reads nothing.
        if self.ring.other_is_closed(&self.cursor) { Err(Stop::Closed) } else { Ok(there) }
    }

    #[inline]
    fn write_some(&mut self, from: &[u8], patience: Patience) -> io::Result<usize> {
        let mut done = 0;
        while done < from.len() {
            match self.wait_for_space(from.len() - done, patience) {
                Ok(there) => {
                    // In parts, so that the reader can begin with the first while the next is copied.
                    let part = there.min(from.len() - done).min(self.ring.capacity() / 4);
                    let more = done + part < from.len();
                    self.ring.write(&mut self.cursor, &from[done..done + part], more);
                    done += part;
                }
                // The wait has told the reader of what came before.
                Err(_) if done > 0 => break,
                Err(stop) => return Err(stop.into()),
            }
        }
        Ok(done)
    }

    /// Writes what there is space for now.
    ///
    /// # Errors
    /// `WouldBlock` without space, `BrokenPipe` when the reader is gone.
    pub fn try_write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.write_some(from, Patience::None)
    }

    /// Writes, waiting for space at most this long. Returns how much was written, which may be less.
    ///
    /// # Errors
    /// `TimedOut` when nothing was, `BrokenPipe` when the reader is gone.
    pub fn write_timeout(&mut self, from: &[u8], at_most: Duration) -> io::Result<usize> {
        self.write_some(from, Patience::at_most(at_most))
    }

    /// Waits until at least `least` bytes of space are there (no more than fit), and lends all the space there is in one piece,
    /// which is less than `least` where the ring ends. Fill it from the front and [`commit`](SpscWriter::commit).
    ///
    /// # Errors
    /// `BrokenPipe` when the reader is gone.
    pub fn reserve(&mut self, least: usize) -> io::Result<&mut [u8]> {
        self.reserve_for(least, Patience::Endless)
    }

    /// As [`reserve`](SpscWriter::reserve), without waiting.
    ///
    /// # Errors
    /// `WouldBlock` when less than `least` is free, `BrokenPipe` when the reader is gone.
    pub fn try_reserve(&mut self, least: usize) -> io::Result<&mut [u8]> {
        self.reserve_for(least, Patience::None)
    }

    /// As [`reserve`](SpscWriter::reserve), waiting at most this long.
    ///
    /// # Errors
    /// `TimedOut` when less than `least` is free, `BrokenPipe` when the reader is gone.
    pub fn reserve_timeout(&mut self, least: usize, at_most: Duration) -> io::Result<&mut [u8]> {
        self.reserve_for(least, Patience::at_most(at_most))
    }

    fn reserve_for(&mut self, least: usize, patience: Patience) -> io::Result<&mut [u8]> {
        let least = least.clamp(1, self.ring.capacity());
        self.ring.await_bytes(&self.cursor, least, least, patience)?;
        if self.ring.other_is_closed(&self.cursor) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(self.ring.space(&mut self.cursor))
    }

    /// Writes the first `len` bytes of the space that was reserved.
    ///
    /// # Panics
    /// If `len` is more than there was.
    pub fn commit(&mut self, len: usize) {
        self.ring.advance(&mut self.cursor, len);
    }
}

impl io::Write for SpscWriter {
    #[inline]
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.write_some(from, Patience::Endless)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for SpscWriter {
    fn drop(&mut self) {
        self.ring.close(&self.cursor);
    }
}

impl SpscReader {
    /// How many bytes fit.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.ring.capacity()
    }

    /// Bytes written and not yet read.
    #[must_use]
    pub fn level(&self) -> usize {
        self.ring.level(&self.cursor)
    }

    #[inline]
    fn read_some(&mut self, into: &mut [u8], patience: Patience) -> io::Result<usize> {
        let mut there = match self.ring.look(&self.cursor, into.len()) {
            0 if into.is_empty() => 0,
            0 => self.ring.await_bytes(&self.cursor, 1, 1, patience)?,
            there => there,
        };
        let mut done = 0;
        while there > 0 && done < into.len() {
            // In parts, so that the writer can go on in the first while the next is copied.
            let part = there.min(into.len() - done).min(self.ring.capacity() / 4);
            let more = there > part && done + part < into.len();
            self.ring.read(&mut self.cursor, &mut into[done..done + part], more);
            done += part;
            there -= part;
        }
        Ok(done)
    }

    /// Reads what there is now: 0 when the writer is gone.
    ///
    /// # Errors
    /// `WouldBlock` when there is nothing.
    pub fn try_read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.read_some(into, Patience::None)
    }

    /// Reads, waiting at most this long for the first byte: 0 when the writer is gone.
    ///
    /// # Errors
    /// `TimedOut` when nothing came.
    pub fn read_timeout(&mut self, into: &mut [u8], at_most: Duration) -> io::Result<usize> {
        self.read_some(into, Patience::at_most(at_most))
    }

    /// Waits until at least `least` bytes are there (no more than fit) or the writer is gone, and lends all there is in one
    /// piece, which is less than `least` where the ring ends. Empty at the end of the stream. Use it from the front and
    /// [`release`](SpscReader::release).
    ///
    /// # Errors
    /// None; the result is there for symmetry with the forms that do not wait for ever.
    pub fn filled(&mut self, least: usize) -> io::Result<&[u8]> {
        self.filled_for(least, Patience::Endless)
    }

    /// As [`filled`](SpscReader::filled), without waiting.
    ///
    /// # Errors
    /// `WouldBlock` when less than `least` is there.
    pub fn try_filled(&mut self, least: usize) -> io::Result<&[u8]> {
        self.filled_for(least, Patience::None)
    }

    /// As [`filled`](SpscReader::filled), waiting at most this long.
    ///
    /// # Errors
    /// `TimedOut` when less than `least` is there.
    pub fn filled_timeout(&mut self, least: usize, at_most: Duration) -> io::Result<&[u8]> {
        self.filled_for(least, Patience::at_most(at_most))
    }

    fn filled_for(&mut self, least: usize, patience: Patience) -> io::Result<&[u8]> {
        let least = least.clamp(1, self.ring.capacity());
        self.ring.await_bytes(&self.cursor, least, least, patience)?;
        Ok(self.ring.filled(&self.cursor))
    }

    /// Gives the first `len` bytes back: they are read.
    ///
    /// # Panics
    /// If `len` is more than there was.
    pub fn release(&mut self, len: usize) {
        self.ring.advance(&mut self.cursor, len);
    }
}

impl io::Read for SpscReader {
    #[inline]
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.read_some(into, Patience::Endless)
    }
}

impl Drop for SpscReader {
    fn drop(&mut self) {
        self.ring.close(&self.cursor);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::super::state::{READ, WRITE};
    use super::*;

    const PAGE: usize = 4096;

    #[test]
    fn a_writer_waits_for_a_good_part_of_the_ring_and_never_for_more_than_it_has() {
        let (writer, _reader) = spsc(4 * PAGE).expect("memory");
        for (len, worth) in [(1, PAGE / 2), (PAGE, PAGE), (3 * PAGE, 2 * PAGE), (100 * PAGE, 2 * PAGE)] {
            assert_eq!(writer.worth_waking(len), worth, "{len}");
        }
    }

    #[test]
    fn a_reader_that_sleeps_is_awake_when_a_write_has_ended() {
        for (len, need) in [(1, 1), (PAGE, PAGE), (PAGE + 1, PAGE + 1), (4 * PAGE, 1)] {
            let (mut writer, _reader) = spsc(4 * PAGE).expect("memory");
            writer.ring.lay_down(READ, need as u64);
            assert_eq!(writer.write(&vec![1; len]).expect("space"), len);
            assert!(!writer.ring.is_asleep(READ), "{len}");
        }
    }

    #[test]
    fn a_writer_that_sleeps_is_awake_when_a_read_has_ended() {
        // Written, room to read into; with each the whole of what is read at once frees what the writer sleeps for.
        for (len, room) in [(100, 1), (100, 50), (100, 100), (100, 200), (3 * PAGE, 2 * PAGE), (2 * PAGE, 3 * PAGE)] {
            let (mut writer, mut reader) = spsc(4 * PAGE).expect("memory");
            assert_eq!(writer.write(&vec![1; len]).expect("space"), len);
            let read = len.min(room);
            reader.ring.lay_down(WRITE, (4 * PAGE - len + read) as u64);
            assert_eq!(reader.read(&mut vec![0; room]).expect("bytes"), read);
            assert!(!reader.ring.is_asleep(WRITE), "{len} {room}");
        }
    }
}
