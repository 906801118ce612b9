//! A buffered stream over one descriptor that never calls the kernel more often than necessary.
//!
//! [`FileBuf`] is what C++'s `basic_filebuf`, C's stdio and std's `BufReader` and `BufWriter` each are in part: one stream
//! with `Read`, `BufRead`, `Write` and `Seek`, of any capacity. [`Buffer`] is the memory under it, for whoever gathers
//! blocks in another way; [`Descriptor`] is what it stands on.
//!
//! # When it writes
//!
//! A chunk that fits stays in the buffer. When one does not fit, a single call carries what is held and the chunk (`writev`;
//! for chunks up to 4096 bytes, and a buffer of the stream's own, `write`, which costs less than the copy does); a chunk
//! larger than the capacity therefore is never copied. So every such call carries more than a whole capacity, and
//! N bytes, in chunks of whatever sizes, cost at most N / (capacity + 1) calls, rounded down, and one for the flush at the
//! end. No schedule with that capacity makes fewer, and no size of chunk is a cliff.
//!
//! The other rule, to fill the buffer to the brim and write exactly that, makes N / capacity calls: for 1000 chunks of 5000
//! bytes and 8192 of capacity 611 instead of 500, and it copies every byte. `std` and libstdc++ (before version 13 even for
//! chunks of 1024) write what is held and the chunk in separate calls.
//!
//! Measured with 1000 chunks to an O_SYNC file and ten million to /dev/null, a buffer of 8192 bytes, Linux 6.18 on an AMD
//! EPYC with 2 processors, gcc 12's libstdc++ (`fdd-bench seeds --case "buffered stream" --runs 7`; the whole table and its
//! pictures are in `bench/record`):
//!
//! | chunk | write calls: `FileBuf` | `BufWriter` | libstdc++ | stdio | seconds, O_SYNC: `FileBuf` | the best other |
//! |---|---|---|---|---|---|---|
//! | 1023 | 112 | 125 | 112 | 125 | 0.015 | 0.016 |
//! | 1024 | 112 | 125 | 1000 | 125 | 0.015 | 0.016 |
//! | 4000 | 334 | 500 | 1000 | 489 | 0.048 | 0.067 |
//! | 8191 | 500 | 1000 | 1000 | 1000 | 0.078 | 0.140 |
//! | 10,000 | 1000 | 1000 | 1000 | 1221 | 0.149 | 0.151 |
//! | 1 to 10,000 | 435 | 753 | 902 | 608 | 0.062 | 0.090 |
//!
//! (Least of 7 runs; ours twice differed by up to 3.3 %.) At no size does another make fewer calls. To /dev/null, where a
//! call costs next to nothing, none is faster at any size either: chunks of one byte take 1.3 ns (`BufWriter` 3.1), of 100
//! bytes 5.2 ns (5.8), of 10,000 bytes 0.20 µs (0.22).
//!
//! # When it reads
//!
//! A read that asks for more than is held takes the rest with one `readv`, straight into the caller's memory, and that
//! call fills the buffer as well. With a capacity of 0 exactly what is asked for is read, so that whoever shares the
//! descriptor misses nothing. A `read` (unlike [`read_full`](FileBuf::read_full)) does not wait for more on pipes,
//! terminals and sockets when it has something to give.
//!
//! Between reading and writing it can be changed at any byte: bytes read ahead are given back by moving the offset, and
//! where there is no offset (sockets, terminals) they stay, and chunks are written past them.
//!
//! # Nothing is lost
//!
//! After a write that failed or was cut short, the bytes that were not written are still held, in order: try again, look
//! at them ([`unwritten`](FileBuf::unwritten)) or take them out ([`take_unwritten`](FileBuf::take_unwritten)).
//! [`put`](FileBuf::put) tells how many bytes it took together with the error. Interrupted calls are made again. A failed
//! fsync is never forgotten, since the kernel forgets it. If a write call panics, nothing is written twice: the stream
//! refuses to write until what is in doubt was taken out. [`close`](FileBuf::close) reports every error; a stream that is
//! dropped with bytes in it writes them, never panics, and tells [`on_drop_error`](FileBuf::on_drop_error) or
//! [`set_drop_error_hook`] what it could not write.
//!
//! # What it does not do
//!
//! It moves bytes: there is no locale and no encoding (C++'s `codecvt`), and `BINARY` changes nothing. It locks nothing;
//! share it behind a `Mutex`. It takes no memory beyond its capacity and 4096 bytes. It believes a device that says its
//! offset has moved: where that is not so (some character devices), bytes that were read ahead and given back are gone, and
//! a capacity of 0 is right.
//!
//! ```
//! use std::io::{BufRead, Seek, Write};
//!
//! use fdd_io::filebuf::{FileBuf, Mode};
//!
//! # fn main() -> std::io::Result<()> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("log");
//! let mut log = FileBuf::open(&path, Mode::IN | Mode::OUT | Mode::TRUNC)?;
//! writeln!(log, "first")?;
//! writeln!(log, "second")?;
//! log.rewind()?;
//! let mut line = String::new();
//! log.read_line(&mut line)?;
//! assert_eq!(line, "first\n");
//! log.close()?;
//! # Ok(())
//! # }
//! ```

mod buffer;
mod descriptor;

use std::fmt;
use std::io::{self, BufRead, ErrorKind, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{PoisonError, RwLock};

use fdd_sys::retry::{Cut, Steady, retry};
use rustix::io::Errno;

pub use buffer::Buffer;
pub use descriptor::{Access, Descriptor, Mode};

/// The capacity of a stream that was not told any, in bytes.
pub const DEFAULT_CAPACITY: usize = 8192;

/// How many bytes at least can be put back after that many were read, at any capacity, 0 too.
pub const PUT_BACK: usize = 8;

/// One buffered stream over one descriptor. The [module](self) says when it calls the kernel.
///
/// `D` is the descriptor (owned, borrowed, a `File`, a test's double), `M` the buffer's memory (see [`Buffer`]).
#[doc(alias("basic_filebuf", "filebuf", "fstream", "FILE", "BufWriter", "BufReader"))]
#[doc(alias("underflow", "uflow", "seekoff", "seekpos", "pubseekoff"))] // BufRead and Seek
pub struct FileBuf<D: Descriptor = OwnedFd, M: AsRef<[u8]> + AsMut<[u8]> = Box<[u8]>> {
    /// Gone only once `close` or `into_inner` took it.
    descriptor: Option<D>,
    buffer: Buffer<M>,
    back: Back,
    side: Side,
    lines: bool,
    access: Access,
    /// Whether there is an offset to move; asked when it first matters.
    seekable: Option<bool>,
    /// `put_back` changed a byte in the buffer: it no longer shows what is in the file.
    altered: bool,
    failed_sync: Option<Errno>,
    on_drop_error: Option<DropErrorHook>,
}

type DropErrorHook = Box<dyn FnOnce(Unwritten) + Send + Sync>;

/// To write one piece costs 200 ns where two cost 300 (to /dev/null, Linux 6.18), and to copy so many bytes 40: shorter
/// chunks are put behind the held bytes, in memory that a stream with a buffer of its own has for that.
const JOINED: usize = 4096;

/// What the buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// Nothing: after opening, seeking, or a change of sides.
    Neutral,
    /// Bytes read ahead. Nothing in `back` is to be read before them.
    Reading,
    /// Bytes read ahead, and before them some in `back` that were put back.
    SteppedBack,
    /// Bytes to be written; a chunk that fits needs no further look.
    Writing,
    /// Bytes to be written; each chunk is looked at for a newline.
    WritingLines,
    /// Bytes of which a write call that panicked may have written any part.
    InDoubt,
}

impl FileBuf<OwnedFd> {
    /// Opens the file at `path` with a buffer of [`DEFAULT_CAPACITY`]. For another one: `FileBuf::with_capacity(n,
    /// mode.open(path)?)`.
    ///
    /// # Errors
    /// Those of [`Mode::open`].
    pub fn open(path: impl AsRef<Path>, mode: Mode) -> io::Result<FileBuf> {
        Ok(FileBuf::new(mode.open(path)?))
    }
}

impl<D: Descriptor> FileBuf<D> {
    /// A stream over `descriptor`, from where its offset stands, with a buffer of [`DEFAULT_CAPACITY`].
    #[must_use]
    pub fn new(descriptor: D) -> FileBuf<D> {
        FileBuf::with_capacity(DEFAULT_CAPACITY, descriptor)
    }

    /// The same with a buffer of `capacity` bytes. 0: unbuffered, each read and each chunk is a call.
    ///
    /// # Panics
    /// If there is no such address space; where only the memory is missing, the process is aborted, as for a `Vec`.
    #[must_use]
    pub fn with_capacity(capacity: usize, descriptor: D) -> FileBuf<D> {
        FileBuf::over(Buffer::with_slack(capacity, capacity.min(JOINED)), descriptor)
    }
}

impl<D: Descriptor, M: AsRef<[u8]> + AsMut<[u8]>> FileBuf<D, M> {
    /// A stream over `descriptor` with the caller's `memory` as its buffer.
    #[must_use]
    #[doc(alias("pubsetbuf", "setbuf", "setvbuf"))]
    pub fn with_buffer(memory: M, descriptor: D) -> FileBuf<D, M> {
        FileBuf::over(Buffer::over(memory), descriptor)
    }

    fn over(buffer: Buffer<M>, descriptor: D) -> FileBuf<D, M> {
        FileBuf {
            access: descriptor.access(),
            descriptor: Some(descriptor),
            buffer,
            back: Back::default(),
            side: Side::Neutral,
            lines: false,
            seekable: None,
            altered: false,
            failed_sync: None,
            on_drop_error: None,
        }
    }

    /// From now on writes at each newline (as terminals want it), or no longer does. What is held stays held.
    #[doc(alias("_IOLBF", "LineWriter"))]
    pub fn set_line_buffered(&mut self, lines: bool) {
        self.lines = lines;
        if matches!(self.side, Side::Writing | Side::WritingLines) {
            self.turn(self.writing());
        }
    }

    /// How many bytes the buffer can hold.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// The descriptor. Its offset is ahead of the stream's while bytes read ahead are held, behind it while bytes to
    /// be written are.
    ///
    /// # Panics
    /// Never: a stream has one until it is consumed.
    #[must_use]
    pub fn descriptor(&self) -> &D {
        self.descriptor.as_ref().expect("a stream has its descriptor until it is consumed")
    }

    fn call(&mut self) -> &mut D {
        self.descriptor.as_mut().expect("a stream has its descriptor until it is consumed")
    }
}

/// Writing.
impl<D: Descriptor, M: AsRef<[u8]> + AsMut<[u8]>> FileBuf<D, M> {
    /// Takes `chunk`, and tells how many bytes of it were taken (written or held) together with the error that stopped
    /// it. No byte beyond that count will ever be written by this call, and none before it is lost.
    #[inline]
    #[doc(alias("xsputn", "sputn", "overflow", "fwrite"))]
    pub fn put(&mut self, chunk: &[u8]) -> (usize, io::Result<()>) {
        if self.buffer.keep_if_open(chunk) {
            return (chunk.len(), Ok(()));
        }
        self.put_slowly(chunk)
    }

    /// Whatever is not a chunk that fits. Hot only for chunks near the capacity, which pay for a call anyway.
    #[cold]
    fn put_slowly(&mut self, chunk: &[u8]) -> (usize, io::Result<()>) {
        if chunk.is_empty() {
            return (0, Ok(()));
        }
        if let Err(error) = self.turn_to_writing() {
            return (0, Err(error));
        }
        if self.reads() {
            // A socket's read-ahead cannot be given back: it keeps the buffer, and the chunk passes it by.
            return self.write_whole(chunk);
        }
        let lines =
            if self.lines { chunk.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1) } else { 0 };
        if lines == 0 {
            return self.gather(chunk);
        }
        match self.write_whole(&chunk[..lines]) {
            (_, Ok(())) => {
                let (taken, result) = self.gather(&chunk[lines..]);
                (lines + taken, result)
            }
            cut => cut,
        }
    }

    /// The rule: what fits stays, what does not goes out with everything before it. Asked again after a short write.
    fn gather(&mut self, chunk: &[u8]) -> (usize, io::Result<()>) {
        let mut rest = chunk;
        while !rest.is_empty() && !self.buffer.keep(rest) {
            match self.write_once(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) => return (chunk.len() - rest.len(), Err(error)),
            }
        }
        (chunk.len(), Ok(()))
    }

    /// Writes until everything, held and in `chunk`, is out.
    fn write_whole(&mut self, chunk: &[u8]) -> (usize, io::Result<()>) {
        let mut taken = 0;
        while taken < chunk.len() || self.writes_held() {
            match self.write_once(&chunk[taken..]) {
                Ok(written) => taken += written,
                Err(error) => return (taken, Err(error)),
            }
        }
        (taken, Ok(()))
    }

    /// One call for what is held and `chunk`. Returns how much of the chunk went; what went of the held bytes is no longer
    /// held.
    ///
    /// Part of its caller, since a system call leaves nothing useful in the processor's stack of return addresses and each
    /// return after it is mispredicted: with this, and without a second look at a chunk that is gone, a call costs 11 ns less of
    /// 212 (chunks of 100 bytes, a buffer of 200, /dev/null).
    #[inline(always)]
    fn write_once(&mut self, chunk: &[u8]) -> io::Result<usize> {
        let held_len = if self.writes_held() { self.buffer.len() } else { 0 };
        let side = self.side;
        if held_len > 0 {
            // Stays so if the call panics.
            self.turn(Side::InDoubt);
        }
        let (one, two);
        let pieces: &[IoSlice<'_>] = if held_len == 0 {
            one = [IoSlice::new(chunk)];
            &one
        } else if chunk.len() <= JOINED
            && let Some(piece) = self.buffer.joined(chunk)
        {
            one = [IoSlice::new(piece)];
            &one
        } else {
            two = [IoSlice::new(self.buffer.held()), IoSlice::new(chunk)];
            &two
        };
        let descriptor = self.descriptor.as_mut().expect("a stream has its descriptor until it is consumed");
        let written = retried(|| descriptor.writev(pieces));
        self.turn(side);
        let written = written?;
        if written == 0 {
            return Err(ErrorKind::WriteZero.into());
        }
        let of_held = written.min(held_len);
        if of_held < held_len {
            self.buffer.consume(of_held);
        } else if held_len > 0 {
            // The next chunk begins at the front without a further look.
            self.buffer.clear();
        }
        Ok(written - of_held)
    }

    /// Whether bytes to be written are held.
    fn writes_held(&self) -> bool {
        !self.reads() && !self.buffer.is_empty()
    }

    /// The bytes taken but not yet written, in order.
    #[must_use]
    pub fn unwritten(&self) -> &[u8] {
        if self.reads() { &[] } else { self.buffer.held() }
    }

    /// Takes those bytes out. After a write call that panicked some of them may have been written; taking them out is
    /// what lets the stream go on.
    #[must_use]
    pub fn take_unwritten(&mut self) -> Vec<u8> {
        if self.reads() {
            return Vec::new();
        }
        self.turn(Side::Neutral);
        self.buffer.take()
    }

    /// The buffer is open exactly while what fits needs no further look.
    #[inline]
    fn turn(&mut self, side: Side) {
        self.side = side;
        self.buffer.open(side == Side::Writing);
    }

    fn writing(&self) -> Side {
        if self.lines { Side::WritingLines } else { Side::Writing }
    }

    /// Afterwards the offset is where the stream is, and the buffer is for writing; or it still reads, because bytes read
    /// ahead cannot be given back.
    fn turn_to_writing(&mut self) -> io::Result<()> {
        match self.side {
            Side::Writing | Side::WritingLines => return Ok(()),
            Side::InDoubt => return Err(in_doubt()),
            Side::Neutral | Side::Reading | Side::SteppedBack => {}
        }
        if !self.access.write {
            return Err(Errno::BADF.into());
        }
        if self.give_back()? {
            self.turn(self.writing());
        }
        Ok(())
    }

    /// Writes what is held.
    fn flush_held(&mut self) -> io::Result<()> {
        if self.side == Side::InDoubt {
            return Err(in_doubt());
        }
        if self.reads() { Ok(()) } else { self.write_whole(&[]).1 }
    }

    /// Writes what is held, or gives back what was read ahead: afterwards whoever shares the descriptor goes on exactly
    /// where this stream stands. Where there is no offset, bytes read ahead stay. It is not on the medium yet: see
    /// [`sync_all`](FileBuf::sync_all).
    ///
    /// # Errors
    /// Those of writing and of moving the offset. Nothing is lost.
    #[doc(alias("pubsync", "fflush"))]
    pub fn sync(&mut self) -> io::Result<()> {
        self.flush_held()?;
        if self.reads() {
            self.give_back()?;
        }
        Ok(())
    }

    /// Writes what is held and waits until the file is on the medium.
    ///
    /// # Errors
    /// Those of writing and of fsync. Once fsync has failed, bytes written before are lost though a second fsync would
    /// not say so; hence every later one fails here with the same error, and so does [`close`](FileBuf::close).
    #[doc(alias = "fsync")]
    pub fn sync_all(&mut self) -> io::Result<()> {
        self.sync_medium(false)
    }

    /// The same without the times of the file.
    ///
    /// # Errors
    /// As for [`sync_all`](FileBuf::sync_all).
    #[doc(alias = "fdatasync")]
    pub fn sync_data(&mut self) -> io::Result<()> {
        self.sync_medium(true)
    }

    fn sync_medium(&mut self, data_only: bool) -> io::Result<()> {
        self.flush_held()?;
        if let Some(errno) = self.failed_sync {
            return Err(errno.into());
        }
        let result = retried_errno(|| self.call().sync(data_only));
        if let Err(Cut::Os(errno)) = result {
            // These say that there is nothing to be synced here, not that something was lost.
            let refused = matches!(errno, Errno::INVAL | Errno::ROFS | Errno::NOSYS | Errno::OPNOTSUPP | Errno::BADF);
            self.failed_sync = (!refused).then_some(errno);
        }
        result.map_err(cut)
    }
}

/// Reading.
impl<D: Descriptor, M: AsRef<[u8]> + AsMut<[u8]>> FileBuf<D, M> {
    fn reads(&self) -> bool {
        matches!(self.side, Side::Reading | Side::SteppedBack)
    }

    /// How many bytes read ahead are held.
    fn unread(&self) -> usize {
        if self.reads() { self.back.again().len() + self.buffer.len() } else { 0 }
    }

    /// Fills `into`, waiting for more as long as there is any; tells how many bytes came, together with the error that
    /// stopped it. Fewer and no error: the input has ended.
    #[doc(alias("xsgetn", "sgetn", "fread"))]
    pub fn read_full(&mut self, into: &mut [u8]) -> (usize, io::Result<()>) {
        if let Err(error) = self.turn_to_reading() {
            return (0, Err(error));
        }
        let mut filled = self.copy_held(into);
        while filled < into.len() {
            match self.read_once(&mut into[filled..]) {
                Ok(0) => break,
                Ok(came) => filled += came,
                Err(error) => return (filled, Err(error)),
            }
        }
        (filled, Ok(()))
    }

    /// What is not a read of fewer bytes than are held.
    #[cold]
    fn read_slowly(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        self.turn_to_reading()?;
        let copied = self.copy_held(into);
        if copied == into.len() || (copied > 0 && !self.seekable().unwrap_or(false)) {
            return Ok(copied);
        }
        match self.read_once(&mut into[copied..]) {
            Ok(came) => Ok(copied + came),
            // The next read meets it again, at the same offset.
            Err(_) if copied > 0 => Ok(copied),
            Err(error) => Err(error),
        }
    }

    /// Gives out of what is held as much as `into` takes.
    fn copy_held(&mut self, into: &mut [u8]) -> usize {
        let mut copied = 0;
        if self.side == Side::SteppedBack {
            copied = copy(self.back.again(), into);
            self.consume_back(copied);
        }
        let from_buffer = copy(self.buffer.held(), &mut into[copied..]);
        self.buffer.consume(from_buffer);
        copied + from_buffer
    }

    fn consume_back(&mut self, count: usize) {
        self.back.consume(count);
        if self.back.again().is_empty() {
            self.turn(Side::Reading);
        }
    }

    /// One call that reads into `into`, and beyond it into the buffer, which is empty.
    fn read_once(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.back.record(self.buffer.behind());
        let descriptor = self.descriptor.as_mut().expect("a stream has its descriptor until it is consumed");
        let mut direct = 0;
        self.buffer.refill(|memory| {
            let came = retried(|| {
                let mut both = [IoSliceMut::new(into), IoSliceMut::new(memory)];
                descriptor.readv(if both[1].is_empty() { &mut both[..1] } else { &mut both })
            })?;
            direct = came.min(into.len());
            io::Result::Ok(came - direct)
        })?;
        self.back.record(&into[..direct]);
        Ok(direct)
    }

    /// One call that reads into the buffer, which is empty; without a buffer one byte, into `back`.
    fn read_ahead(&mut self) -> io::Result<()> {
        self.back.record(self.buffer.behind());
        let descriptor = self.descriptor.as_mut().expect("a stream has its descriptor until it is consumed");
        if self.buffer.capacity() > 0 {
            return self.buffer.refill(|memory| retried(|| descriptor.readv(&mut [IoSliceMut::new(memory)])));
        }
        let mut byte = [0];
        if retried(|| descriptor.readv(&mut [IoSliceMut::new(&mut byte)]))? == 1 {
            self.back.record(&byte);
            self.back.step_back();
            self.turn(Side::SteppedBack);
        }
        Ok(())
    }

    fn turn_to_reading(&mut self) -> io::Result<()> {
        if self.reads() {
            return Ok(());
        }
        if !self.access.read {
            return Err(Errno::BADF.into());
        }
        self.flush_held()?;
        // What lies behind in the buffer was written, not read: no step back leads there.
        self.buffer.clear();
        self.turn(Side::Reading);
        Ok(())
    }

    /// Moves the offset back over what was read ahead and forgets that. False: there is no offset, and it is kept.
    fn give_back(&mut self) -> io::Result<bool> {
        let unread = self.unread();
        if unread > 0 {
            if !self.seekable()? {
                return Ok(false);
            }
            let back = i64::try_from(unread).expect("memory is smaller than 2^63 bytes");
            retried(|| self.call().seek(SeekFrom::Current(-back)))?;
        }
        self.forget();
        Ok(true)
    }

    /// Forgets what was read, ahead and behind.
    fn forget(&mut self) {
        self.buffer.clear();
        self.back = Back::default();
        self.altered = false;
        self.turn(Side::Neutral);
    }

    fn seekable(&mut self) -> io::Result<bool> {
        if let Some(known) = self.seekable {
            return Ok(known);
        }
        let known = match retried_errno(|| self.call().seek(SeekFrom::Current(0))) {
            Ok(_) => true,
            Err(Cut::Os(Errno::SPIPE)) => false,
            Err(other) => return Err(cut(other)),
        };
        self.seekable = Some(known);
        Ok(known)
    }

    /// Steps back one byte, to be read again, and returns it. At least the newest [`PUT_BACK`] bytes read since the last
    /// seek, write or sync can be taken back; `None` where there are no more.
    #[doc(alias = "sungetc")]
    pub fn unget(&mut self) -> Option<u8> {
        if !self.reads() {
            return None;
        }
        if self.side == Side::Reading && !self.buffer.behind().is_empty() {
            self.buffer.step_back(1);
            return self.buffer.held().first().copied();
        }
        let byte = self.back.step_back()?;
        self.turn(Side::SteppedBack);
        Some(byte)
    }

    /// Steps back one byte and has `byte` read there, whatever the file says, until the next seek, write or sync. False
    /// where [`unget`](FileBuf::unget) would say `None`.
    #[must_use]
    #[doc(alias("sputbackc", "ungetc", "putback", "pbackfail"))]
    pub fn put_back(&mut self, byte: u8) -> bool {
        let Some(before) = self.unget() else { return false };
        if before != byte {
            self.altered = true;
            if self.side == Side::SteppedBack {
                self.back.alter(byte);
            } else {
                self.buffer.consume(1);
                self.buffer.put_back(byte);
            }
        }
        true
    }

    /// How many bytes can be read without waiting: those held, or if there are none those the system knows of.
    ///
    /// # Errors
    /// Those of asking the system.
    #[doc(alias("showmanyc", "FIONREAD"))]
    pub fn in_avail(&mut self) -> io::Result<u64> {
        let unread = self.unread();
        if unread > 0 {
            return Ok(unread as u64);
        }
        if !self.access.read {
            return Err(Errno::BADF.into());
        }
        let waiting = retried(|| self.call().waiting())?;
        if !self.writes_held() || !self.seekable()? {
            return Ok(waiting);
        }
        // What is held will be written over as many of those, or behind all of them.
        Ok(if self.access.append { 0 } else { waiting.saturating_sub(self.buffer.len() as u64) })
    }
}

/// The end.
impl<D: Descriptor, M: AsRef<[u8]> + AsMut<[u8]>> FileBuf<D, M> {
    /// Writes what is held, or gives back what was read ahead, and closes the descriptor.
    ///
    /// # Errors
    /// Whatever went wrong first: writing, an earlier fsync, or the closing itself (network file systems and quotas speak
    /// up there). The descriptor is closed all the same, and the bytes that could not be written are in the error. To try
    /// again, [`flush`](Write::flush) before.
    pub fn close(mut self) -> Result<(), Unwritten> {
        let mut result = self.settle();
        if let (Ok(()), Some(errno)) = (&result, self.failed_sync) {
            result = Err(errno.into());
        }
        let bytes = self.take_unwritten();
        let closed = match self.descriptor.take() {
            Some(descriptor) => descriptor.close().map_err(io::Error::from),
            None => Ok(()),
        };
        result.and(closed).map_err(|error| Unwritten { error, bytes })
    }

    /// Writes what is held, or gives back what was read ahead, and returns the descriptor. Bytes read ahead that cannot
    /// be given back are gone with the stream.
    ///
    /// # Errors
    /// Those of [`sync`](FileBuf::sync), with the stream as it was.
    pub fn into_inner(mut self) -> Result<D, IntoInnerError<FileBuf<D, M>>> {
        match self.settle() {
            Ok(()) => Ok(self.descriptor.take().expect("a stream has its descriptor until it is consumed")),
            Err(error) => Err(IntoInnerError { stream: self, error }),
        }
    }

    fn settle(&mut self) -> io::Result<()> {
        self.sync()
    }

    /// Has `hook` called, once, if this stream is dropped and its last bytes cannot be written or the closing fails. It
    /// comes before the one of [`set_drop_error_hook`].
    pub fn on_drop_error(&mut self, hook: impl FnOnce(Unwritten) + Send + Sync + 'static) {
        self.on_drop_error = Some(Box::new(hook));
    }
}

impl<D: Descriptor, M: AsRef<[u8]> + AsMut<[u8]>> Drop for FileBuf<D, M> {
    fn drop(&mut self) {
        if self.descriptor.is_none() {
            return;
        }
        let settled = calm(|| self.settle());
        // Not `take_unwritten`: memory of the caller's kind may panic, too.
        let bytes = calm(|| Ok(self.take_unwritten())).unwrap_or_default();
        let closed = calm(|| self.descriptor.take().map_or(Ok(()), |descriptor| Ok(descriptor.close()?)));
        if let Err(error) = settled.and(closed) {
            let hook = self.on_drop_error.take();
            let _ = calm(move || {
                tell(hook, Unwritten { error, bytes });
                Ok(())
            });
        }
    }
}

/// Makes an error of a panic: a drop while unwinding must not start a second one.
fn calm<T>(work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        // What was thrown may throw in its turn when it is dropped. Twice is enough.
        if let Err(second) = catch_unwind(AssertUnwindSafe(move || drop(panic))) {
            std::mem::forget(second);
        }
        Err(io::Error::other("a call panicked while a stream was dropped"))
    })
}

static DROP_ERROR_HOOK: RwLock<Option<fn(Unwritten)>> = RwLock::new(None);

/// Has `hook` called whenever a stream without a hook of its own is dropped and its last bytes cannot be written or the
/// closing fails. One for the whole process, for its `main` to set; a library says what it does with its own streams by
/// [`FileBuf::on_drop_error`]. Without any hook such an error is lost: a library does not own standard error.
pub fn set_drop_error_hook(hook: fn(Unwritten)) {
    *DROP_ERROR_HOOK.write().unwrap_or_else(PoisonError::into_inner) = Some(hook);
}

fn tell(hook: Option<DropErrorHook>, what: Unwritten) {
    if let Some(hook) = hook {
        return hook(what);
    }
    let hook = *DROP_ERROR_HOOK.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(hook) = hook {
        hook(what);
    }
}

impl<D: Descriptor, M: AsRef<[u8]> + AsMut<[u8]>> Write for FileBuf<D, M> {
    #[inline]
    fn write(&mut self, chunk: &[u8]) -> io::Result<usize> {
        match self.put(chunk) {
            // An error behind bytes that were taken: the next call meets it again, with the rest.
            (taken, Err(_)) if taken > 0 => Ok(taken),
            (taken, result) => result.map(|()| taken),
        }
    }

    /// Like [`put`](FileBuf::put), which also tells how many bytes were taken before an error.
    #[inline]
    fn write_all(&mut self, chunk: &[u8]) -> io::Result<()> {
        self.put(chunk).1
    }

    fn flush(&mut self) -> io::Result<()> {
        self.flush_held()
    }
}

impl<D: Descriptor, M: AsRef<[u8]> + AsMut<[u8]>> Read for FileBuf<D, M> {
    #[inline]
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.side == Side::Reading
            && let Some(from) = self.buffer.held().get(..into.len())
        {
            into.copy_from_slice(from);
            self.buffer.consume(into.len());
            return Ok(into.len());
        }
        self.read_slowly(into)
    }

    /// Like [`read_full`](FileBuf::read_full), which also tells how many bytes came before an error.
    fn read_exact(&mut self, into: &mut [u8]) -> io::Result<()> {
        let (came, result) = self.read_full(into);
        result?;
        if came < into.len() { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }
}

impl<D: Descriptor, M: AsRef<[u8]> + AsMut<[u8]>> BufRead for FileBuf<D, M> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.turn_to_reading()?;
        if self.unread() == 0 {
            self.read_ahead()?;
        }
        Ok(if self.side == Side::SteppedBack { self.back.again() } else { self.buffer.held() })
    }

    fn consume(&mut self, count: usize) {
        match self.side {
            Side::Reading => self.buffer.consume(count),
            Side::SteppedBack => self.consume_back(count),
            _ => assert!(count == 0, "more consumed than was read"),
        }
    }
}

impl<D: Descriptor, M: AsRef<[u8]> + AsMut<[u8]>> Seek for FileBuf<D, M> {
    /// Writes what is held and moves to `to`. What was read ahead is read again. After an error nothing has moved.
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.flush_held()?;
        let to = match to {
            SeekFrom::Current(offset) => {
                let unread = i64::try_from(self.unread()).expect("memory is smaller than 2^63 bytes");
                // What underflows lies before the start of any file.
                SeekFrom::Current(offset.checked_sub(unread).ok_or(Errno::INVAL)?)
            }
            other => other,
        };
        let position = retried(|| self.call().seek(to))?;
        if self.reads() {
            self.forget();
        }
        Ok(position)
    }

    /// Where the next byte will be read or written; writes nothing and forgets nothing. While bytes to be appended are
    /// held, where they will be if nobody else appends before.
    fn stream_position(&mut self) -> io::Result<u64> {
        if self.side == Side::InDoubt {
            return Err(in_doubt());
        }
        let pending = if self.writes_held() { self.buffer.len() as u64 } else { 0 };
        let from = if pending > 0 && self.access.append { SeekFrom::End(0) } else { SeekFrom::Current(0) };
        let offset = retried(|| self.call().seek(from))?;
        // Less than zero only if someone else moved the offset.
        Ok((offset + pending).saturating_sub(self.unread() as u64))
    }

    /// Moves within what is held without a call, if that leads to the place.
    fn seek_relative(&mut self, offset: i64) -> io::Result<()> {
        if self.side == Side::Reading && !self.altered {
            let distance = usize::try_from(offset.unsigned_abs()).unwrap_or(usize::MAX);
            if offset >= 0 && distance <= self.buffer.len() {
                self.buffer.consume(distance);
                return Ok(());
            }
            if offset < 0 && distance <= self.buffer.behind().len() {
                self.buffer.step_back(distance);
                return Ok(());
            }
        }
        self.seek(SeekFrom::Current(offset)).map(drop)
    }
}

impl<D: Descriptor + fmt::Debug, M: AsRef<[u8]> + AsMut<[u8]>> fmt::Debug for FileBuf<D, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileBuf")
            .field("descriptor", &self.descriptor)
            .field("side", &self.side)
            .field("buffer", &self.buffer)
            .finish_non_exhaustive()
    }
}

/// The newest bytes read that no longer lie in the buffer, so that some can be put back at any time and capacity.
#[derive(Debug)]
struct Back {
    /// `bytes[first..]` were read, newest last.
    bytes: [u8; PUT_BACK],
    first: usize,
    /// `bytes[next..]` are to be read again.
    next: usize,
}

impl Default for Back {
    fn default() -> Back {
        Back { bytes: [0; PUT_BACK], first: PUT_BACK, next: PUT_BACK }
    }
}

impl Back {
    /// `read` are the bytes read after those known; none of these are to be read again.
    fn record(&mut self, read: &[u8]) {
        debug_assert!(self.next == PUT_BACK, "recorded while stepped back");
        let newest = &read[read.len().saturating_sub(PUT_BACK)..];
        self.bytes.copy_within(newest.len().., 0);
        self.bytes[PUT_BACK - newest.len()..].copy_from_slice(newest);
        self.first = self.first.saturating_sub(newest.len());
    }

    fn again(&self) -> &[u8] {
        &self.bytes[self.next..]
    }

    fn consume(&mut self, count: usize) {
        assert!(count <= PUT_BACK - self.next, "more consumed than was put back");
        self.next += count;
    }

    fn step_back(&mut self) -> Option<u8> {
        if self.next == self.first {
            return None;
        }
        self.next -= 1;
        Some(self.bytes[self.next])
    }

    /// The byte that will be read next is `byte`.
    fn alter(&mut self, byte: u8) {
        self.bytes[self.next] = byte;
    }
}

/// Bytes that a stream took and could not write, and why. None, if it was the closing or an earlier fsync that failed.
#[derive(Debug)]
pub struct Unwritten {
    /// What went wrong.
    pub error: io::Error,
    /// The bytes, in order.
    pub bytes: Vec<u8>,
}

impl fmt::Display for Unwritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bytes.len() {
            0 => self.error.fmt(f),
            count => write!(f, "{} ({count} bytes not written)", self.error),
        }
    }
}

impl std::error::Error for Unwritten {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl From<Unwritten> for io::Error {
    fn from(unwritten: Unwritten) -> io::Error {
        unwritten.error
    }
}

/// Why a stream did not give its descriptor, and the stream, with all it holds.
#[derive(Debug)]
pub struct IntoInnerError<S> {
    /// The stream as it was.
    pub stream: S,
    /// What went wrong.
    pub error: io::Error,
}

impl<S> fmt::Display for IntoInnerError<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<S: fmt::Debug> std::error::Error for IntoInnerError<S> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl<S> From<IntoInnerError<S>> for io::Error {
    fn from(refusal: IntoInnerError<S>) -> io::Error {
        refusal.error
    }
}

fn copy(from: &[u8], into: &mut [u8]) -> usize {
    let count = from.len().min(into.len());
    into[..count].copy_from_slice(&from[..count]);
    count
}

fn in_doubt() -> io::Error {
    io::Error::other("a write call panicked: it is not known which of the held bytes were written")
}

/// A stream owns no process, so nobody is asked about signals: an interrupted call is made again.
fn retried_errno<T>(call: impl FnMut() -> Result<T, Errno>) -> Result<T, Cut> {
    retry(&mut Steady, call)
}

fn retried<T>(call: impl FnMut() -> Result<T, Errno>) -> io::Result<T> {
    retried_errno(call).map_err(cut)
}

fn cut(cut: Cut) -> io::Error {
    match cut {
        Cut::Os(errno) => errno.into(),
        Cut::Stopped => ErrorKind::Interrupted.into(),
    }
}
