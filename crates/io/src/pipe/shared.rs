//! A pipe's memory in a file that several processes map: its layout, what a peer has to be, and how one is known to live.
//!
//! # Layout
//! A page of header, written once; the state; the slots; from the next page on, the bytes. The header says who may attach:
//! peers of one user, one C library and one PID namespace. It is read with `pread` and checked before anything is mapped, so
//! a file that is foreign, damaged or cut short is an error and no SIGBUS.
//!
//! # Who lives
//! The owner of a slot is its process. It lives while the process does, and while the slot's byte of the file is locked by
//! the open file description that the process made for itself: the kernel gives that lock back however the process ends, so a
//! process number used again does not deceive.
#![allow(unsafe_code)] // The state and the bytes lie in memory that other processes see.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fdd_sys::shared::{
    ForkMark, Mapping, Scope, byte_is_locked, c_library, futex_wait, futex_wake, lock_byte, process_runs,
    random_number, unlock_byte,
};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{FallocateFlags, MemfdFlags, Mode, OFlags, SealFlags};

use super::end::{End, Place};
use super::local::{cpu, no_more_ends, spins};
use super::ring::{Bytes, Store};
use super::state::{Core, MOST_ENDS, Platform, Purpose, READ, Seat, Shape, Slot, State, WRITE, kind, next_generation};
use super::sync::Signal;
use super::{ATOMIC, Options, chunk};

const MAGIC: [u8; 8] = *b"fddpipe\n";
const VERSION: u32 = 2;
const HEADER: usize = 4096;
const STATE: usize = HEADER;
const SLOTS: usize = STATE + size_of::<State>();
/// What the checksum covers, and where it stands.
const CHECKED: usize = 120;

/// Why a file cannot be used as a shared pipe by this process.
#[derive(Debug)]
#[non_exhaustive]
pub enum AttachError {
    /// It does not begin as a pipe does.
    Foreign,
    /// It was made by another version.
    Version(u32),
    /// It is shorter than its header says, or has none.
    Truncated,
    /// Its header contradicts itself.
    Damaged,
    /// It is a pipe and tokens were asked for, or the other way round.
    OtherPurpose,
    /// It belongs to another user, or others may write to it.
    OtherUser,
    /// It was made with another C library.
    OtherLibrary(String),
    /// It was made in another PID namespace, where processes have other numbers.
    OtherNamespace,
    /// It claims to be sealed and is not.
    NotSealed,
    /// It is to be polled, and its events were not handed over; or they were, and it is not.
    Events,
    /// The system refused.
    Io(io::Error),
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttachError::Foreign => f.write_str("not a shared pipe"),
            AttachError::Version(version) => write!(f, "a shared pipe of version {version}, not {VERSION}"),
            AttachError::Truncated => f.write_str("a shared pipe that was cut short"),
            AttachError::Damaged => f.write_str("a shared pipe with a damaged header"),
            AttachError::OtherPurpose => f.write_str("shared memory made for another purpose"),
            AttachError::OtherUser => f.write_str("a shared pipe of another user, or one that others may write to"),
            AttachError::OtherLibrary(name) => write!(f, "a shared pipe made with another C library: {name}"),
            AttachError::OtherNamespace => f.write_str("a shared pipe of another PID namespace"),
            AttachError::NotSealed => f.write_str("a shared pipe whose memory is not sealed"),
            AttachError::Events => f.write_str("a shared pipe whose events do not fit"),
            AttachError::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for AttachError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            AttachError::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for AttachError {
    fn from(error: io::Error) -> AttachError {
        AttachError::Io(error)
    }
}

impl From<rustix::io::Errno> for AttachError {
    fn from(error: rustix::io::Errno) -> AttachError {
        AttachError::Io(error.into())
    }
}

impl From<AttachError> for io::Error {
    fn from(error: AttachError) -> io::Error {
        match error {
            AttachError::Io(error) => error,
            other => io::Error::new(io::ErrorKind::InvalidData, other),
        }
    }
}

/// Who may attach.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Peers {
    user: u32,
    namespace: (u64, u64),
    library: [u8; 32],
}

impl Peers {
    /// This process's like.
    fn like_us() -> io::Result<Peers> {
        let namespace = rustix::fs::stat("/proc/self/ns/pid")?;
        let mut library = [0; 32];
        let name = c_library();
        let name = &name.as_bytes()[..name.len().min(library.len())];
        library[..name.len()].copy_from_slice(name);
        Ok(Peers {
            user: rustix::process::geteuid().as_raw(),
            namespace: (namespace.st_dev, namespace.st_ino),
            library,
        })
    }
}

/// What the first page says.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Header {
    purpose: u32,
    overtakes: u32,
    sealed: u32,
    pollable: u32,
    slots: u32,
    capacity: u64,
    peers: Peers,
}

impl Header {
    fn to_bytes(&self) -> [u8; CHECKED + 8] {
        let mut bytes = Vec::with_capacity(CHECKED + 8);
        bytes.extend(MAGIC);
        for word in [VERSION, self.purpose, self.overtakes, self.sealed, self.pollable, self.slots] {
            bytes.extend(word.to_ne_bytes());
        }
        // The layout, so that a build that lays it out otherwise stays away.
        for size in [size_of::<State>(), size_of::<Slot>(), ATOMIC] {
            bytes.extend(u32::try_from(size).unwrap_or(u32::MAX).to_ne_bytes());
        }
        bytes.extend(self.peers.user.to_ne_bytes());
        for word in [self.capacity, self.peers.namespace.0, self.peers.namespace.1] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(self.peers.library);
        bytes.resize(CHECKED, 0);
        bytes.extend(checksum(&bytes).to_ne_bytes());
        bytes.try_into().expect("as long as declared")
    }

    fn from_bytes(bytes: &[u8; CHECKED + 8]) -> Result<Header, AttachError> {
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let long = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        if bytes[..8] != MAGIC {
            return Err(AttachError::Foreign);
        }
        if word(8) != VERSION {
            return Err(AttachError::Version(word(8)));
        }
        if checksum(&bytes[..CHECKED]) != long(CHECKED) {
            return Err(AttachError::Damaged);
        }
        let header = Header {
            purpose: word(12),
            overtakes: word(16),
            sealed: word(20),
            pollable: word(24),
            slots: word(28),
            capacity: long(48),
            peers: Peers {
                user: word(44),
                namespace: (long(56), long(64)),
                library: bytes[72..104].try_into().expect("32 bytes"),
            },
        };
        // A checksum tells accidents, not lies: what the code relies on is checked again.
        let limit = if header.purpose == 1 { 1 << 46 } else { u64::from(u32::MAX) };
        let fits = header.capacity > 0 && header.capacity <= limit;
        let whole = header.purpose != 1 || (header.capacity.is_power_of_two() && header.capacity >= ATOMIC as u64);
        let slots = (2..=MOST_ENDS).contains(&header.slots);
        let known = matches!(header.purpose, 1 | 2);
        if known && fits && whole && slots && header.to_bytes() == *bytes {
            Ok(header)
        } else {
            Err(AttachError::Damaged)
        }
    }

    fn bytes_offset(&self) -> usize {
        (SLOTS + self.slots as usize * size_of::<Slot>()).next_multiple_of(4096)
    }

    fn file_len(&self) -> u64 {
        self.bytes_offset() as u64 + if self.purpose == 1 { self.capacity } else { 0 }
    }

    fn shape(&self) -> Shape {
        Shape {
            purpose: if self.purpose == 1 { Purpose::Bytes } else { Purpose::Tokens },
            capacity: self.capacity,
            atomic: ATOMIC,
            chunk: chunk(self.capacity),
            overtakes: self.overtakes,
        }
    }
}

/// FNV-1a.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The events of a pipe that can be polled, one for each side.
#[derive(Debug)]
struct Events([OwnedFd; 2]);

/// A mapped file and this process's place in it.
#[derive(Debug)]
pub(super) struct Shared {
    bytes: Bytes,
    mapping: Mapping,
    slots: usize,
    spins: u32,
    /// This process's own open file description: it carries the locks of its slots.
    file: OwnedFd,
    events: Option<Events>,
    mark: ForkMark,
    attachment: [u32; 2],
    seats: Mutex<Vec<bool>>,
}

/// How a new file comes to be.
#[derive(Debug)]
pub(super) struct Making {
    pub(super) purpose: Purpose,
    pub(super) capacity: u64,
    pub(super) overtakes: u32,
    pub(super) ends: u32,
    pub(super) pollable: bool,
}

impl Making {
    fn header(&self, sealed: bool) -> io::Result<Header> {
        Ok(Header {
            purpose: if self.purpose == Purpose::Bytes { 1 } else { 2 },
            overtakes: self.overtakes,
            sealed: sealed.into(),
            pollable: self.pollable.into(),
            slots: self.ends.clamp(2, MOST_ENDS),
            capacity: self.capacity,
            peers: Peers::like_us()?,
        })
    }

    fn fill(&self, file: &OwnedFd, header: &Header) -> io::Result<()> {
        let len = header.file_len();
        rustix::fs::ftruncate(file, len)?;
        // All the space now: a full file system is an error here and would be a SIGBUS later.
        match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, len) {
            Ok(()) | Err(rustix::io::Errno::OPNOTSUPP) => {}
            Err(error) => return Err(error.into()),
        }
        if rustix::io::pwrite(file, &header.to_bytes(), 0)? == CHECKED + 8 {
            Ok(())
        } else {
            Err(io::ErrorKind::WriteZero.into())
        }
    }

    pub(super) fn memfd(&self) -> io::Result<Core<Shared>> {
        let file = rustix::fs::memfd_create("fdd-pipe", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::fchmod(&file, Mode::RUSR | Mode::WUSR)?;
        self.fill(&file, &self.header(true)?)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let event = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let events = if self.pollable { Some([event()?, event()?]) } else { None };
        Ok(attach(file.as_fd(), events, self.purpose)?)
    }

    /// The name appears when the file is whole.
    pub(super) fn create(&self, path: &Path) -> io::Result<Core<Shared>> {
        if self.pollable {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a pipe that is opened by path has no events to poll",
            ));
        }
        let mut unfinished = OsString::from(path);
        unfinished.push(format!(".{:016x}", random_number()?));
        let unfinished = PathBuf::from(unfinished);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = rustix::fs::open(&unfinished, flags, Mode::RUSR | Mode::WUSR)?;
        let made = self
            .header(false)
            .and_then(|header| self.fill(&file, &header))
            .and_then(|()| Ok(rustix::fs::link(&unfinished, path)?));
        rustix::fs::unlink(&unfinished)?;
        made?;
        Ok(map(file, None, self.purpose)?)
    }
}

/// Opens the file behind a descriptor anew: the locks of our slots have to hang on a description that is ours alone.
pub(super) fn attach(
    file: BorrowedFd<'_>,
    events: Option<[OwnedFd; 2]>,
    purpose: Purpose,
) -> Result<Core<Shared>, AttachError> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let own = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    map(own, events.map(Events), purpose)
}

pub(super) fn open(path: &Path, purpose: Purpose) -> Result<Core<Shared>, AttachError> {
    map(rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())?, None, purpose)
}

/// Checks and maps a file whose description is this process's own.
fn map(file: OwnedFd, events: Option<Events>, purpose: Purpose) -> Result<Core<Shared>, AttachError> {
    let stat = rustix::fs::fstat(&file)?;
    if rustix::fs::FileType::from_raw_mode(stat.st_mode) != rustix::fs::FileType::RegularFile {
        return Err(AttachError::Foreign);
    }
    let mut bytes = [0; CHECKED + 8];
    let got = rustix::io::pread(&file, &mut bytes, 0)?;
    if got < bytes.len() {
        let begins = got > 0 && bytes[..got.min(8)] == MAGIC[..got.min(8)];
        return Err(if begins { AttachError::Truncated } else { AttachError::Foreign });
    }
    let header = Header::from_bytes(&bytes)?;
    if header.shape().purpose != purpose {
        return Err(AttachError::OtherPurpose);
    }
    if u64::try_from(stat.st_size).map_or(true, |size| size < header.file_len()) {
        return Err(AttachError::Truncated);
    }
    let us = Peers::like_us()?;
    if header.peers.user != us.user || stat.st_uid != us.user || stat.st_mode & 0o022 != 0 {
        return Err(AttachError::OtherUser);
    }
    if header.peers.library != us.library {
        let name = String::from_utf8_lossy(&header.peers.library).trim_end_matches('\0').to_owned();
        return Err(AttachError::OtherLibrary(name));
    }
    if header.peers.namespace != us.namespace {
        return Err(AttachError::OtherNamespace);
    }
    let sealed = || rustix::fs::fcntl_get_seals(&file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK));
    if header.sealed != 0 && !sealed() {
        return Err(AttachError::NotSealed);
    }
    if (header.pollable != 0) != events.is_some() {
        return Err(AttachError::Events);
    }
    let len = usize::try_from(header.file_len()).map_err(|_| AttachError::Damaged)?;
    let mapping = Mapping::shared(file.as_fd(), len)?;
    let at = header.bytes_offset();
    let start = NonNull::new(mapping.as_ptr()).ok_or(AttachError::Damaged)?;
    // SAFETY: `at` is at most the mapping's length, which the file has; the mapping lives beside the `Bytes`; the part behind
    // `at` is touched by `Bytes` alone.
    let bytes = unsafe { Bytes::foreign(start.add(at), len - at) };
    let number = random_number()?.to_ne_bytes();
    let half = |at: usize| u32::from_ne_bytes(number[at..at + 4].try_into().expect("four bytes"));
    let platform = Shared {
        bytes,
        mapping,
        slots: header.slots as usize,
        spins: spins(),
        file,
        events,
        mark: ForkMark::new()?,
        attachment: [half(0), half(4)],
        seats: Mutex::new(vec![false; header.slots as usize]),
    };
    Ok(Core { platform, shape: header.shape() })
}

impl Shared {
    pub(super) fn memory(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    fn is_mine(&self, slot: &Slot) -> bool {
        [slot.attachment[0].load(), slot.attachment[1].load()] == self.attachment
    }
}

impl Platform for Shared {
    #[inline]
    fn state(&self) -> &State {
        // SAFETY: the mapping is page-aligned and longer than this, holds atomics only (any bytes are valid ones), and lives
        // as long as self.
        unsafe { &*self.mapping.as_ptr().add(STATE).cast::<State>() }
    }

    #[inline]
    fn slots(&self) -> &[Slot] {
        // SAFETY: as above; `Header::file_len` counts this many slots, and their place is a multiple of their alignment.
        unsafe { std::slice::from_raw_parts(self.mapping.as_ptr().add(SLOTS).cast::<Slot>(), self.slots) }
    }

    fn cpu(&self) -> u32 {
        cpu()
    }

    fn wait(&self, word: &Signal, expected: u32, at_most: Duration) {
        futex_wait(word.as_atomic(), expected, Some(at_most), Scope::Processes);
    }

    fn wake(&self, word: &Signal) {
        futex_wake(word.as_atomic(), Scope::Processes);
    }

    fn notify(&self, side: usize) {
        if let Some(events) = &self.events {
            // Full counter: it is readable already.
            let _ = rustix::io::write(&events.0[side], &1u64.to_ne_bytes());
        }
    }

    fn alive(&self, index: u32) -> bool {
        let slot = &self.slots()[index as usize];
        let process = slot.process.load();
        if self.is_mine(slot) {
            return process == std::process::id();
        }
        byte_is_locked(&self.file, index.into()).unwrap_or(true) && process_runs(process)
    }

    #[inline]
    fn ours(&self) -> bool {
        self.mark.is_ours()
    }

    fn clock(&self) -> u64 {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        now.tv_sec.cast_unsigned() * 1000 + now.tv_nsec.cast_unsigned() / 1_000_000
    }

    fn spins(&self) -> u32 {
        self.spins
    }
}

impl Store for Shared {
    #[inline]
    fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

impl Place for Shared {
    fn find_seat(&self, side: usize, after: Option<u32>) -> io::Result<Seat> {
        if !self.ours() {
            return Err(super::state::Stop::Forked.into());
        }
        let mut seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        let first = after.map_or(0, |after| after + 1);
        for (index, slot) in (0..).zip(self.slots()).skip(first as usize) {
            // Only a hint: what counts is looked at again with the lock held.
            let hole = slot.kind.get() == kind::HOLE;
            if seats[index as usize] || hole || !lock_byte(&self.file, index.into())? {
                continue;
            }
            // The byte is ours, so a former owner is dead. A new generation first: should it have died with the lock held,
            // its name is nobody's from now on.
            let generation = next_generation(slot.generation.load());
            slot.generation.store(generation);
            slot.process.store(std::process::id());
            slot.attachment[0].store(self.attachment[0]);
            slot.attachment[1].store(self.attachment[1]);
            seats[index as usize] = true;
            return Ok(Seat::new(index, generation, side));
        }
        Err(no_more_ends())
    }

    fn leave_seat(&self, index: u32) {
        // With the pipe's lock held: nobody else can be given the slot between its becoming free and this.
        let mut seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        seats[index as usize] = false;
        // Should it fail, the slot stays unused until this process has ended.
        let _ = unlock_byte(&self.file, index.into());
    }
}

/// A pipe between processes: what ends are made from, in this process, and what is handed to others.
///
/// It has no end itself. `reader` and `writer` attach one each; the pipe lives in the memory as long as any process has it.
#[derive(Debug, Clone)]
pub struct Pipe(Arc<Core<Shared>>);

/// The descriptors of a pipe, to be inherited or sent. Whoever receives them [attaches](Pipe::attach).
#[derive(Debug)]
pub struct Descriptors<'a> {
    /// The memory.
    pub memory: BorrowedFd<'a>,
    /// Readable when there may be something to read, then when there may be space to write to. Only of a pipe made
    /// [`pollable`](Options::pollable).
    pub events: Option<[BorrowedFd<'a>; 2]>,
}

impl Pipe {
    pub(super) fn make(options: &Options, path: Option<&Path>) -> io::Result<Pipe> {
        let making = Making {
            purpose: Purpose::Bytes,
            capacity: options.whole_capacity()? as u64,
            overtakes: options.overtakes,
            ends: options.ends,
            pollable: options.pollable,
        };
        let core = match path {
            Some(path) => making.create(path)?,
            None => making.memfd()?,
        };
        Ok(Pipe(Arc::new(core)))
    }

    /// Attaches to the pipe in a file.
    ///
    /// A plain file cannot be kept from being cut: whoever may write to it can end every process that has it mapped, by
    /// SIGBUS. Use it among processes that trust each other, or pass a sealed memfd.
    ///
    /// # Errors
    /// What is wrong with the file, or why it cannot be opened or mapped.
    pub fn open(path: impl AsRef<Path>) -> Result<Pipe, AttachError> {
        open(path.as_ref(), Purpose::Bytes).map(|core| Pipe(Arc::new(core)))
    }

    /// Attaches to the pipe behind a descriptor that was inherited or received. The descriptor is not kept.
    ///
    /// # Errors
    /// What is wrong with the memory, or why it cannot be opened or mapped; without /proc it cannot.
    pub fn attach(memory: impl AsFd) -> Result<Pipe, AttachError> {
        attach(memory.as_fd(), None, Purpose::Bytes).map(|core| Pipe(Arc::new(core)))
    }

    /// Attaches to a pipe that can be polled, with its events: those of [`descriptors`](Pipe::descriptors), in that order.
    ///
    /// # Errors
    /// As for [`attach`](Pipe::attach).
    pub fn attach_with(memory: impl AsFd, events: [OwnedFd; 2]) -> Result<Pipe, AttachError> {
        attach(memory.as_fd(), Some(events), Purpose::Bytes).map(|core| Pipe(Arc::new(core)))
    }

    /// What to hand to another process. They are closed on exec, until the flag is taken away.
    #[must_use]
    pub fn descriptors(&self) -> Descriptors<'_> {
        let shared = &self.0.platform;
        Descriptors {
            memory: shared.file.as_fd(),
            events: shared.events.as_ref().map(|Events([read, write])| [read.as_fd(), write.as_fd()]),
        }
    }

    /// How many bytes fit.
    #[must_use]
    pub fn capacity(&self) -> usize {
        usize::try_from(self.0.shape.capacity).unwrap_or(usize::MAX)
    }

    /// A new reading end.
    ///
    /// # Errors
    /// `QuotaExceeded` when the pipe has as many ends as it was made for.
    pub fn reader(&self) -> io::Result<Reader> {
        Ok(Reader(End::reader(&self.0)?))
    }

    /// A new writing end.
    ///
    /// # Errors
    /// As for [`reader`](Pipe::reader).
    pub fn writer(&self) -> io::Result<Writer> {
        Ok(Writer(End::writer(&self.0)?))
    }
}

super::ends! {
    /// The writing end of a pipe between processes. It belongs to this process: a forked child attaches its own.
    Writer,
    /// The reading end of a pipe between processes. It belongs to this process: a forked child attaches its own.
    Reader,
    Shared
}

impl Writer {
    /// Asks for [`event`](Writer::event) to be made readable when there is space or the last reader has left. True when that is
    /// so already, and nothing was asked.
    ///
    /// # Errors
    /// `Unsupported` where the pipe is not [`pollable`](Options::pollable).
    pub fn arm(&mut self) -> io::Result<bool> {
        arm(&self.0, WRITE)
    }

    /// The event to poll, after [`arm`](Writer::arm).
    #[must_use]
    pub fn event(&self) -> Option<BorrowedFd<'_>> {
        self.0.core.platform.events.as_ref().map(|events| events.0[WRITE].as_fd())
    }
}

impl Reader {
    /// Asks for [`event`](Reader::event) to be made readable when there is something to read or the last writer has left. True
    /// when that is so already, and nothing was asked.
    ///
    /// Poll for at most a second and call it again: a writer that is killed makes nothing readable, but is noticed here.
    /// All that poll the side see it readable; the one that comes first gets it.
    ///
    /// # Errors
    /// `Unsupported` where the pipe is not [`pollable`](Options::pollable).
    pub fn arm(&mut self) -> io::Result<bool> {
        arm(&self.0, READ)
    }

    /// The event to poll, after [`arm`](Reader::arm).
    #[must_use]
    pub fn event(&self) -> Option<BorrowedFd<'_>> {
        self.0.core.platform.events.as_ref().map(|events| events.0[READ].as_fd())
    }
}

fn arm(end: &End<Shared>, side: usize) -> io::Result<bool> {
    let Some(events) = &end.core.platform.events else { return Err(io::ErrorKind::Unsupported.into()) };
    let inside = end.core.enter(end.seat())?;
    // Under the lock, as the notification is: one that is drained here was for something that is still seen below.
    let mut counter = [0; 8];
    let _ = rustix::io::read(&events.0[side], &mut counter);
    Ok(inside.arm(side))
}

#[cfg(all(test, not(miri)))] // Forks and mappings.
mod tests {
    use super::*;

    #[test]
    fn a_forked_child_cannot_use_its_parents_ends_and_does_them_no_harm() {
        let pipe = Options::new(ATOMIC).memfd().expect("a pipe");
        let (mut reader, mut writer) = (pipe.reader().expect("a seat"), pipe.writer().expect("a seat"));
        assert_eq!(writer.try_write(b"parent's").expect("space"), 8);
        // SAFETY: the child calls nothing but the ends, which refuse before they do anything, and leaves by `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let refused = |result: io::Result<usize>| {
                result.is_err_and(|error| error.to_string().contains("this end belongs to the parent process"))
            };
            let mut bytes = [0; 8];
            let all = refused(writer.try_write(b"child's"))
                && refused(reader.try_read(&mut bytes))
                && refused(io::Write::write(&mut writer, b"child's"))
                && refused(io::Read::read(&mut reader, &mut bytes))
                && refused(pipe.writer().map(|_| 0))
                && refused(reader.another().map(|_| 0));
            // Dropped in the child, they stay attached in the parent.
            drop((reader, writer));
            // SAFETY: ends this process and nothing else.
            unsafe { libc::_exit(if all { 0 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: `status` is valid for the call.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "an end was used by the child");
        let mut bytes = [0; 20];
        assert_eq!(reader.try_read(&mut bytes).expect("the child took nothing"), 8);
        assert_eq!(writer.try_write(b"more").expect("a reader"), 4);
        assert_eq!(reader.try_read(&mut bytes).expect("the writer is attached"), 4);
    }

    /// A process that is stopped with the lock held, as others see it: the owner lives and does not go on.
    #[test]
    fn a_lock_whose_owner_lives_is_waited_for_and_not_taken_over() {
        let pipe = Options::new(ATOMIC).memfd().expect("a pipe");
        let stopped = pipe.reader().expect("a seat");
        // A peer with descriptions and slots of its own, as another process has.
        let peer = Pipe::attach(pipe.descriptors().memory).expect("a pipe");
        let mut writer = peer.writer().expect("a seat");
        let lock = &pipe.0.state().lock;
        let inside = stopped.0.core.enter(stopped.0.seat()).expect("a sound pipe");
        let owner = lock.load();
        let thread = std::thread::spawn(move || writer.try_write(b"late"));
        // It sleeps on the lock, again and again, and looks each time whether the owner lives.
        while lock.load() == owner {
            std::thread::yield_now();
        }
        for _ in 0..10 {
            futex_wait(lock.as_atomic(), owner | 1, Some(Duration::from_millis(10)), Scope::Processes);
            assert_eq!(lock.load(), owner | 1, "it was taken over from the living");
        }
        drop(inside);
        assert_eq!(thread.join().expect("no panic").expect("space"), 4);
    }

    fn header(purpose: u32, slots: u32, capacity: u64) -> Header {
        let peers = Peers::like_us().expect("what this process is");
        Header { purpose, overtakes: 0, sealed: 0, pollable: 0, slots, capacity, peers }
    }

    #[test]
    fn a_header_holds_what_its_purpose_can_have() {
        let most = u64::from(u32::MAX);
        // Purpose (1 is bytes, 2 tokens), capacity.
        for (purpose, capacity, sound) in [
            (1, ATOMIC as u64, true),
            (1, most + 1, true),
            (1, 1 << 46, true),
            (1, 1 << 47, false),
            (1, 0, false),
            (2, 1, true),
            (2, most, true),
            (2, most + 1, false),
            (2, 0, false),
        ] {
            let header = header(purpose, 2, capacity);
            match Header::from_bytes(&header.to_bytes()) {
                Ok(read) => assert!(sound && read == header, "{purpose} {capacity}"),
                Err(error) => assert!(!sound && matches!(error, AttachError::Damaged), "{purpose} {capacity}"),
            }
        }
    }

    #[test]
    fn the_bytes_begin_with_the_first_page_behind_the_slots() {
        for slots in [2, 3, 64, MOST_ENDS] {
            let at = header(1, slots, ATOMIC as u64).bytes_offset();
            let end = SLOTS + slots as usize * size_of::<Slot>();
            assert!(at.is_multiple_of(4096) && at >= end && at - end < 4096, "{slots} slots end at {end}: {at}");
        }
    }

    #[test]
    fn a_file_whose_header_names_another_user_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("pipe");
        Options::new(ATOMIC).create(&path).expect("a new file");
        let file = std::fs::File::options().read(true).write(true).open(&path).expect("the file");
        let mut bytes = [0; CHECKED + 8];
        rustix::io::pread(&file, &mut bytes, 0).expect("the file");
        let mut header = Header::from_bytes(&bytes).expect("a sound header");
        header.peers.user ^= 1;
        rustix::io::pwrite(&file, &header.to_bytes(), 0).expect("the file");
        assert!(matches!(Pipe::open(&path), Err(AttachError::OtherUser)));
    }

    #[test]
    fn the_clock_tells_milliseconds_since_boot() {
        let pipe = Options::new(ATOMIC).memfd().expect("a pipe");
        let now = || {
            let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
            Duration::try_from(now).expect("a time after boot").as_millis()
        };
        let before = now();
        let told = u128::from(pipe.0.platform.clock());
        assert!((before..=now()).contains(&told), "{before} {told}");
    }

    #[test]
    fn an_owner_lives_while_its_process_does_and_its_byte_is_locked() {
        let pipe = Options::new(ATOMIC).memfd().expect("a pipe");
        let peer = Pipe::attach(pipe.descriptors().memory).expect("a pipe");
        let writer = peer.writer().expect("a seat");
        let index = writer.0.seat().index;
        let alive = || pipe.0.platform.alive(index);
        assert!(alive());
        let mut ended = std::process::Command::new("/bin/true").spawn().expect("a child");
        let process = &pipe.0.platform.slots()[index as usize].process;
        process.store(ended.id());
        ended.wait().expect("a child");
        assert!(!alive(), "its process has ended");
        process.store(std::process::id());
        assert!(alive());
        // A process whose number is used again does not hold the lock.
        unlock_byte(&peer.0.platform.file, index.into()).expect("a lock of its own");
        assert!(!alive(), "its byte is free");
    }

    #[test]
    fn the_seat_of_a_dead_writer_with_a_hole_is_passed_over() {
        let pipe = Options::new(ATOMIC).memfd().expect("a pipe");
        let peer = Pipe::attach(pipe.descriptors().memory).expect("a pipe");
        let (dying, mut writer) = (peer.writer().expect("a seat"), pipe.writer().expect("a seat"));
        let mut reader = pipe.reader().expect("a seat");
        // It is killed while it copies.
        dying.0.claim_space(10, super::super::state::Patience::None).expect("space");
        assert_eq!(writer.try_write(b"two").expect("space"), 3);
        let index = dying.0.seat().index;
        unlock_byte(&peer.0.platform.file, index.into()).expect("a lock of its own");
        std::mem::forget(dying);
        let third = pipe.writer().expect("another seat");
        assert_ne!(third.0.seat().index, index);
        let mut bytes = [0; 20];
        assert_eq!(reader.try_read(&mut bytes).expect("what is whole"), 3);
        assert_eq!(&bytes[..3], b"two");
    }
}
