//! The memory under a stream: one run of held bytes, and behind it what was passed on last. No descriptor, no errors of
//! its own, no policy of when to write; `FileBuf` and everybody else who gathers blocks stand on it.
//!
//! It exists to protect these invariants:
//!
//! 1. `start <= end <= capacity <= memory.len()`, and `memory[start..end]` are the held bytes: in order, each once.
//! 2. `memory[..start]` are the bytes that were held and passed on directly before those, oldest first, so that a reader
//!    can step back over them.
//!
//! 3. `brim` is the capacity or 0: how far `keep_if_open` goes without a further look.
//!
//! What lies from `end` on means nothing, and may be used for a moment (`joined`).

use std::fmt;

/// A fixed piece of memory that holds one run of bytes: taken in at the end, passed on from the front.
///
/// The memory is a `Box<[u8]>`, or whatever else the caller has: `&mut [u8]`, `Vec<u8>` (its length counts, not its
/// capacity), an array, a page-aligned mapping. It is never moved, grown or blanked, so a large mapping is touched only
/// as bytes come.
///
/// ```
/// use fdd_io::filebuf::Buffer;
///
/// let mut buffer = Buffer::with_capacity(4);
/// assert!(buffer.keep(b"abc"));
/// assert!(!buffer.keep(b"de"), "a chunk is kept whole or not at all");
/// assert_eq!(buffer.top_up(b"de"), b"e");
/// assert_eq!(buffer.held(), b"abcd");
/// buffer.consume(3);
/// assert_eq!((buffer.behind(), buffer.held()), (&b"abc"[..], &b"d"[..]));
/// ```
pub struct Buffer<M = Box<[u8]>> {
    memory: M,
    capacity: usize,
    brim: usize,
    start: usize,
    end: usize,
}

impl Buffer {
    /// An empty buffer of `capacity` bytes of its own. 0 is allowed: such a buffer holds nothing ever.
    ///
    /// # Panics
    /// If there is no such address space, as for a `Vec`.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Buffer {
        Buffer::with_slack(capacity, 0)
    }

    /// The same with `slack` bytes of memory more, in which [`joined`](Buffer::joined) puts what is not to be held.
    ///
    /// # Panics
    /// If there is no such address space, as for a `Vec`.
    #[must_use]
    pub fn with_slack(capacity: usize, slack: usize) -> Buffer {
        let memory = vec![0; capacity.saturating_add(slack)].into_boxed_slice();
        Buffer { memory, capacity, brim: 0, start: 0, end: 0 }
    }
}

impl<M: AsRef<[u8]> + AsMut<[u8]>> Buffer<M> {
    /// An empty buffer over the caller's memory. What is in the memory does not matter.
    #[must_use]
    pub fn over(memory: M) -> Buffer<M> {
        Buffer { capacity: memory.as_ref().len(), brim: 0, memory, start: 0, end: 0 }
    }

    /// How many bytes it can hold.
    #[must_use]
    #[inline]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// How many bytes are held.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Whether nothing is held.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// How many more bytes it can hold.
    #[must_use]
    #[inline]
    pub fn room(&self) -> usize {
        self.capacity() - self.len()
    }

    /// The held bytes, oldest first.
    #[must_use]
    #[inline]
    pub fn held(&self) -> &[u8] {
        &self.memory.as_ref()[self.start..self.end]
    }

    /// The bytes passed on directly before the held ones, as far as they are still there.
    #[must_use]
    #[inline]
    pub fn behind(&self) -> &[u8] {
        &self.memory.as_ref()[..self.start]
    }

    /// Takes `chunk` in if it fits whole. False, and nothing is changed, if it does not.
    #[must_use]
    #[inline]
    pub fn keep(&mut self, chunk: &[u8]) -> bool {
        if self.keep_to(self.capacity, chunk) {
            return true;
        }
        let fits = chunk.len() <= self.room();
        if fits {
            self.keep_at_front(chunk);
        }
        fits
    }

    /// The same while the buffer is open, and nothing but a chunk of no bytes otherwise: one comparison for a stream that
    /// would have to ask first whether it writes. (C++'s streams do the same with `epptr`.)
    #[inline]
    pub(super) fn keep_if_open(&mut self, chunk: &[u8]) -> bool {
        self.keep_to(self.brim, chunk)
    }

    /// Nothing is open at first.
    #[inline]
    pub(super) fn open(&mut self, open: bool) {
        self.brim = if open { self.capacity } else { 0 };
    }

    #[inline]
    fn keep_to(&mut self, brim: usize, chunk: &[u8]) -> bool {
        // Neither is longer than half the address space.
        let end = self.end.wrapping_add(chunk.len());
        if end <= brim
            && let Some(place) = self.memory.as_mut().get_mut(self.end..end)
        {
            match (chunk, place) {
                // Who writes byte by byte pays more for a call of memcpy than for all the rest.
                ([byte], [place]) => *place = *byte,
                (_, place) => place.copy_from_slice(chunk),
            }
            self.end = end;
            return true;
        }
        false
    }

    /// `keep` when there is room, but not behind the held bytes: what was passed on before them is in its way. Only if the
    /// descriptor cuts writes short.
    #[cold]
    fn keep_at_front(&mut self, chunk: &[u8]) {
        self.move_to_front();
        self.memory.as_mut()[self.end..self.end + chunk.len()].copy_from_slice(chunk);
        self.end += chunk.len();
    }

    /// Moves the held bytes to where the memory begins, and forgets those passed on. Only where they lie matters to the
    /// caller: by itself a buffer does so when it needs the room.
    pub fn move_to_front(&mut self) {
        if self.start == 0 {
            return;
        }
        self.memory.as_mut().copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
    }

    /// The held bytes and then `chunk`, in one piece, without taking the chunk in: for a call that is to carry both, and is
    /// cheaper for one piece than for two. `None` if there is no memory for it behind the held bytes.
    #[must_use]
    pub fn joined(&mut self, chunk: &[u8]) -> Option<&[u8]> {
        let piece = self.memory.as_mut().get_mut(self.start..self.end.checked_add(chunk.len())?)?;
        piece[self.end - self.start..].copy_from_slice(chunk);
        Some(piece)
    }

    /// Takes in as much of `chunk` as fits, and gives back the rest.
    #[must_use]
    #[inline]
    pub fn top_up<'chunk>(&mut self, chunk: &'chunk [u8]) -> &'chunk [u8] {
        let (fits, rest) = chunk.split_at(chunk.len().min(self.room()));
        let kept = self.keep(fits);
        debug_assert!(kept, "no more than the room was taken");
        rest
    }

    /// Fills all the room with `byte`.
    pub fn pad(&mut self, byte: u8) {
        self.move_to_front();
        self.memory.as_mut()[self.end..self.capacity].fill(byte);
        self.end = self.capacity;
    }

    /// Cuts a stream of chunks into blocks of exactly `capacity()` bytes, and gives each to `put`.
    ///
    /// A block that lies whole in the caller's chunk, with nothing held before it, is passed through as it lies there; only
    /// a block put together from several chunks is copied. What does not make a whole block stays held for the next call
    /// (at the end of the stream: [`held`](Buffer::held), then [`consume`](Buffer::consume)).
    ///
    /// Returns how many bytes of `chunk` were taken: given away or held. A block that `put` refuses counts as not given
    /// away: go on with the rest of `chunk`, or with an empty one, and `put` gets it again.
    ///
    /// # Errors
    /// What `put` returned; it is not called again after an error.
    ///
    /// # Panics
    /// If the capacity is 0 and `chunk` is not empty: there are no blocks of that size.
    ///
    /// ```
    /// use fdd_io::filebuf::Buffer;
    ///
    /// let (mut buffer, mut blocks) = (Buffer::with_capacity(4), Vec::new());
    /// for chunk in ["abcdef", "gh", "i"] {
    ///     let (taken, result) = buffer.blocks(chunk.as_bytes(), |block| Ok::<(), ()>(blocks.push(block.to_vec())));
    ///     assert_eq!((taken, result), (chunk.len(), Ok(())));
    /// }
    /// assert_eq!(blocks, [b"abcd", b"efgh"]);
    /// assert_eq!(buffer.held(), b"i");
    /// ```
    #[inline]
    pub fn blocks<E>(&mut self, chunk: &[u8], put: impl FnMut(&[u8]) -> Result<(), E>) -> (usize, Result<(), E>) {
        // No block becomes whole: nearly all chunks, where they are short.
        if chunk.len() < self.room() && self.keep(chunk) {
            return (chunk.len(), Ok(()));
        }
        self.cut(chunk, put)
    }

    fn cut<E>(&mut self, chunk: &[u8], mut put: impl FnMut(&[u8]) -> Result<(), E>) -> (usize, Result<(), E>) {
        let block = self.capacity();
        assert!(block > 0 || chunk.is_empty(), "blocks of no bytes");
        let mut rest = chunk;
        let result = loop {
            if block > 0 && self.len() == block {
                if let Err(error) = put(self.held()) {
                    break Err(error);
                }
                self.clear();
            }
            if self.is_empty() && block > 0 && rest.len() >= block {
                if let Err(error) = put(&rest[..block]) {
                    break Err(error);
                }
                rest = &rest[block..];
                continue;
            }
            if rest.is_empty() {
                break Ok(());
            }
            rest = self.top_up(rest);
        };
        (chunk.len() - rest.len(), result)
    }

    /// Counts the oldest `count` held bytes as passed on. They lie [`behind`](Buffer::behind) from now on.
    ///
    /// # Panics
    /// If fewer are held: bytes would be made up.
    #[inline]
    pub fn consume(&mut self, count: usize) {
        assert!(count <= self.len(), "more passed on than was held");
        self.start += count;
    }

    /// Holds the newest `count` bytes from [`behind`](Buffer::behind) again.
    ///
    /// # Panics
    /// If there are fewer.
    #[inline]
    pub fn step_back(&mut self, count: usize) {
        assert!(count <= self.start, "a step back over bytes that are gone");
        self.start -= count;
    }

    /// Holds one byte again, and changes it to `byte`.
    ///
    /// # Panics
    /// If there is nothing [`behind`](Buffer::behind).
    pub fn put_back(&mut self, byte: u8) {
        self.step_back(1);
        self.memory.as_mut()[self.start] = byte;
    }

    /// Forgets what was passed on, and has `fill` write new bytes to memory of the capacity and tell how many they are.
    ///
    /// # Errors
    /// What `fill` returned; nothing is held then.
    ///
    /// # Panics
    /// If something is still held, or `fill` claims more than the capacity.
    pub fn refill<E>(&mut self, fill: impl FnOnce(&mut [u8]) -> Result<usize, E>) -> Result<(), E> {
        assert!(self.is_empty(), "refilled over held bytes");
        self.clear();
        let filled = fill(&mut self.memory.as_mut()[..self.capacity])?;
        assert!(filled <= self.capacity, "filled beyond the memory");
        self.end = filled;
        Ok(())
    }

    /// Forgets everything, held and passed on.
    #[inline]
    pub fn clear(&mut self) {
        self.start = 0;
        self.end = 0;
    }

    /// Takes the held bytes out; nothing is held afterwards.
    #[must_use]
    pub fn take(&mut self) -> Vec<u8> {
        let held = self.held().to_vec();
        self.clear();
        held
    }

    /// Gives the memory back.
    #[must_use]
    pub fn into_memory(self) -> M {
        self.memory
    }
}

impl<M: AsRef<[u8]> + AsMut<[u8]>> fmt::Debug for Buffer<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").field("held", &self.len()).field("capacity", &self.capacity()).finish_non_exhaustive()
    }
}
