//! The output end: its descriptor, position, one whole block, holes, and what makes it durable.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use fdd_sys::memory::Aligned;
use fdd_sys::retry::{Cut, Pause, retry};
use fdd_sys::simd;
use rustix::fs::{FallocateFlags, Mode, OFlags, SeekFrom};
use rustix::io::Errno;

use crate::advice::{Advice, Side, drop_to_end};
use crate::error::{Error, Name, Notice};
use crate::facts::{Facts, Kind};
use crate::hash::Tap;
use crate::input::{Trouble, named, reopen, set_flags};
use crate::kernel::{Direction, Kernel};
use crate::plan::{Cache, Creation, Durable, Holes, OutputPlan, Truncate};
use crate::units::{Amount, widen};

/// rw-rw-rw-, less the umask.
const MODE: Mode = Mode::from_bits_truncate(0o666);

/// A write to a pipe of up to so many bytes is not mixed with those of others, which they can see.
pub(crate) const PIPE_BUF: usize = 4096;

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// A block of at least so many bytes is worth a request of its own to the medium. Measured on ext4, 512 MiB from the cache to a
/// new file with fdatasync, by a bare loop: blocks of 64 KiB 0.34 s, 128 KiB 0.27, 256 KiB 0.23, 512 KiB to 2 MiB 0.19; plain
/// writes 0.76. What a pipe has at a time is smaller, and gains nothing.
const UNCACHED_LEAST: usize = 256 << 10;
/// And so many go at once, so that the medium has work while the next ones are copied.
const UNCACHED_PIECE: usize = 1 << 20;
/// Where only durability was asked for, so much of a file stays in the cache all the same: a small file is likely to be read
/// next, and its pages push out nobody.
const UNCACHED_AFTER: u64 = 32 << 20;
/// No offset is that large.
const NEVER: u64 = u64::MAX;

pub struct Sink {
    kernel: Arc<dyn Kernel>,
    fd: OwnedFd,
    name: Name,
    pub facts: Facts,
    obs: usize,
    holes: Holes,
    /// O_DIRECT is on; a short block switches it off for good.
    direct: bool,
    nonblock: bool,
    durable: Durable,
    cache: Cache,
    notrunc: bool,
    stride: u64,
    /// Offset of the next byte, where the end can seek.
    position: Option<u64>,
    advice: Advice,
    /// From this offset on large blocks need not stay in the cache behind us.
    uncached_from: u64,
    /// Zeros that were stepped over and are not in the file yet: one seek does for all of them.
    hole: u64,
    /// The file was made by us, so its name has to become durable too.
    created: bool,
    /// Bytes that are in the file already and will be handed over once more.
    again: u64,
    notices: Vec<Notice>,
    /// Gets what reaches the file, stepped over zeros included.
    pub(crate) tap: Option<Box<Tap>>,
}

impl Sink {
    /// Opens what the plan names, or takes `inherited`, and truncates as the plan says.
    ///
    /// # Errors
    /// The file cannot be opened or truncated; the flags cannot be set on the inherited descriptor.
    pub fn open<P: Pause + ?Sized>(
        kernel: Arc<dyn Kernel>,
        plan: &OutputPlan,
        inherited: impl FnOnce() -> OwnedFd,
        pause: &mut P,
    ) -> Result<Sink, Trouble> {
        let (fd, name, created) = match &plan.path {
            Some(path) => {
                let name = Name::File(path.clone());
                let opened = open_file(&*kernel, path, plan, pause);
                let (fd, created) = named(opened, |errno| Error::Open { name: name.clone(), errno })?;
                (fd, name, created)
            }
            None => {
                let fd = inherited();
                let set = set_flags(&*kernel, fd.as_fd(), plan.flags, plan.directory);
                set.map_err(|errno| Trouble::Failed(Error::SettingFlags { name: Name::StandardOutput, errno }))?;
                (fd, Name::StandardOutput, false)
            }
        };
        let mut facts =
            named(Facts::of(&*kernel, fd.as_fd(), pause), |errno| Error::Fstat { name: name.clone(), errno })?;
        if plan.path.is_some() {
            facts = facts.opened_with(plan.flags | OFlags::WRONLY);
        }
        let position = facts.position;
        let append = facts.flags.contains(OFlags::APPEND);
        let mut sink = Sink {
            fd,
            name,
            facts,
            obs: plan.obs,
            // Where nothing can be stepped over, everything is written; under O_APPEND a step goes nowhere.
            holes: if position.is_some() && !append && facts.kind != Kind::Unknown { plan.holes } else { Holes::Write },
            direct: plan.direct,
            nonblock: plan.nonblock,
            durable: plan.durable,
            cache: plan.cache,
            notrunc: plan.notrunc,
            stride: plan.stride,
            position,
            advice: Advice::new(plan.cache, Side::Writing, position),
            uncached_from: uncached_from(plan, &facts, facts.size),
            hole: 0,
            created,
            again: 0,
            notices: Vec::new(),
            tap: None,
            kernel,
        };
        if plan.path.is_some() && plan.truncate == Truncate::ToSeek {
            sink.truncate_to(plan.seek, pause)?;
            let size = plan.seek.in_bytes().map_or(facts.size, |seek| seek.min(facts.size));
            sink.uncached_from = uncached_from(plan, &facts, size);
        }
        Ok(sink)
    }

    pub fn name(&self) -> &Name {
        &self.name
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub fn position(&self) -> Option<u64> {
        self.position
    }

    pub(crate) fn holes(&self) -> Holes {
        self.holes
    }

    /// Zeros stepped over that the file does not know of yet.
    pub fn pending_hole(&self) -> u64 {
        self.hole
    }

    /// Whether blocks of `obs` bytes may be joined and nobody can tell: not where each write is a promise or a message.
    pub(crate) fn hides_sizes(&self, obs: usize) -> bool {
        let observed = OFlags::APPEND | OFlags::DIRECT | OFlags::SYNC | OFlags::DSYNC;
        let joins = match self.facts.kind {
            Kind::Null => true,
            Kind::Fifo => obs > PIPE_BUF && !self.facts.flags.contains(OFlags::NONBLOCK),
            _ => self.facts.hides_sizes(),
        };
        joins && !self.facts.flags.intersects(observed)
    }

    /// From here on the cache is cleared in windows rather than by the calls that GNU dd makes.
    pub(crate) fn use_windows(&mut self) {
        self.advice.use_windows();
        // They do what uncached writes do, also to what was cached before, and bound what is dirty.
        if !self.advice.is_idle() {
            self.uncached_from = NEVER;
        }
    }

    /// The next `bytes` bytes will be handed over once more: a faster way wrote them, then stepped back so that the plain
    /// loop meets what stopped it at the exact record.
    pub(crate) fn expect_again(&mut self, bytes: u64) {
        self.again = bytes;
    }

    /// Nothing but writing goes on here: no holes, no cache to clear, no places to skip.
    pub(crate) fn is_bare(&self) -> bool {
        let uncached = self.uncached_from != NEVER && self.obs >= UNCACHED_LEAST;
        self.holes == Holes::Write && self.advice.is_idle() && self.stride == 1 && !uncached
    }

    /// Whether bytes that are in the file already will be handed over once more.
    pub(crate) fn expects_again(&self) -> bool {
        self.again > 0
    }

    /// The descriptor, where writing it past the kernel's door is the same as through it.
    pub(crate) fn system_fd(&self) -> Option<BorrowedFd<'_>> {
        self.kernel.is_the_system().then(|| self.fd.as_fd())
    }

    /// One call, and nothing around it; `advance` tells what came of it.
    #[inline]
    pub(crate) fn write_bare(&self, block: &[u8]) -> Result<usize, Errno> {
        self.kernel.write(self.fd.as_fd(), block)
    }

    /// `bytes` bytes were written by `write_bare`.
    pub(crate) fn advance(&mut self, bytes: u64) {
        if let Some(position) = &mut self.position {
            *position += bytes;
        }
    }

    /// How many bytes are in the file that were to be handed over once more and never were.
    pub(crate) fn take_again(&mut self) -> u64 {
        std::mem::take(&mut self.again)
    }

    /// Many whole blocks at once, `blocks.len()` a multiple of the block size. Zero blocks are stepped over where the plan
    /// wants that, and counted.
    #[inline]
    pub(crate) fn write_blocks<P: Pause + ?Sized>(
        &mut self,
        blocks: &[u8],
        pause: &mut P,
    ) -> (usize, u64, Result<(), Cut>) {
        debug_assert!(!self.expects_again(), "what is in the file already is the plain loop's to pass over");
        if self.holes == Holes::Write {
            let (written, outcome) = self.write_all(blocks, pause);
            self.tap(&blocks[..written]);
            return (written, 0, outcome);
        }
        let mut done = 0;
        let mut skipped = 0;
        while done < blocks.len() {
            let zeros = run_of(&blocks[done..], self.obs, true);
            if zeros > 0 {
                self.hole += widen(zeros);
                skipped += widen(zeros / self.obs);
                done += zeros;
                continue;
            }
            let data = run_of(&blocks[done..], self.obs, false);
            let (written, outcome) = self.write_behind_hole(&blocks[done..done + data], pause);
            done += written;
            if outcome.is_err() {
                return (done, skipped, outcome);
            }
        }
        (done, skipped, Ok(()))
    }

    /// `bytes` zeros, whole blocks, known without looking.
    pub(crate) fn skip_zeros(&mut self, bytes: u64) {
        debug_assert!(self.holes != Holes::Write);
        self.hole += bytes;
    }

    /// A second descriptor of the same file, past the page cache. None as for the input.
    pub(crate) fn reopen_direct(&self) -> Option<OwnedFd> {
        reopen(&*self.kernel, self.fd.as_fd(), OFlags::WRONLY | OFlags::DIRECT)
    }

    /// The same open file under another number.
    pub(crate) fn duplicate(&self) -> Option<OwnedFd> {
        self.kernel.is_the_system().then(|| self.fd.try_clone().ok()).flatten()
    }

    /// `len` bytes at `at` are about to be written, not at the descriptor's own offset.
    pub(crate) fn announce(&mut self, at: u64, len: u64) {
        self.advice.announce(self.fd.as_fd(), at..at.saturating_add(len));
    }

    /// The next `len` bytes were written, not at the descriptor's own offset: [`go_to`](Sink::go_to) has to follow.
    pub(crate) fn passed(&mut self, len: usize) {
        if let Some(position) = &mut self.position {
            *position += widen(len);
        }
        self.advice.passed(&*self.kernel, self.fd.as_fd(), len);
    }

    /// Goes to `position`, behind what was written.
    ///
    /// # Errors
    /// What the seek says.
    pub(crate) fn go_to(&mut self, position: u64) -> Result<(), Error> {
        let reached = self.kernel.seek(self.fd.as_fd(), SeekFrom::Start(position));
        let reached = reached.map_err(|errno| Error::Seek { name: self.name.clone(), errno })?;
        self.position = Some(reached);
        self.advice.start_at(&*self.kernel, self.fd.as_fd(), reached);
        Ok(())
    }

    /// Length of the file as it is now.
    pub(crate) fn size_now(&self) -> Option<u64> {
        self.kernel.fstat(self.fd.as_fd()).ok().and_then(|stat| u64::try_from(stat.st_size).ok())
    }

    /// Allocates a range without making the file longer.
    pub(crate) fn allocate(&self, at: u64, len: u64) -> Result<(), Errno> {
        self.kernel.fallocate(self.fd.as_fd(), FallocateFlags::KEEP_SIZE, at, len)
    }

    /// Gives back what is allocated beyond the end of the file, which has to be at `len`.
    pub(crate) fn trim(&self, len: u64) {
        // Somebody else may have written on behind us; then it is theirs.
        if self.size_now() == Some(len) {
            let _ = self.kernel.truncate(self.fd.as_fd(), len);
        }
    }

    /// What is to be said about this end and was not worth an error.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Cuts or extends the file to where writing begins, before anything is written.
    fn truncate_to<P: Pause + ?Sized>(&self, seek: Amount, pause: &mut P) -> Result<(), Trouble> {
        let Some(len) = seek.in_bytes() else {
            let error = Error::TruncateTooLarge { seek: seek.records(), block: widen(self.obs) };
            return Err(Trouble::Failed(error));
        };
        match retry(pause, || self.kernel.truncate(self.fd.as_fd(), len)) {
            Ok(()) => Ok(()),
            Err(Cut::Stopped) => Err(Trouble::Stopped),
            Err(Cut::Os(errno)) => {
                let stat = retry(pause, || self.kernel.fstat(self.fd.as_fd()));
                let stat = named(stat, |errno| Error::Fstat { name: self.name.clone(), errno })?;
                let matters = matches!(
                    rustix::fs::FileType::from_raw_mode(stat.st_mode),
                    rustix::fs::FileType::RegularFile | rustix::fs::FileType::Directory
                );
                // A device has no length to set.
                if matters {
                    Err(Trouble::Failed(Error::Truncate { name: self.name.clone(), len, errno }))
                } else {
                    Ok(())
                }
            }
        }
    }

    /// Goes to where writing begins: by seeking, or where that cannot be by reading over what is there (a tape) and
    /// writing zeros beyond its end.
    ///
    /// # Errors
    /// The end can do neither.
    pub fn seek<P: Pause + ?Sized>(&mut self, amount: Amount, pause: &mut P) -> Result<(), Trouble> {
        if amount.is_zero() {
            return Ok(());
        }
        let refused = |errno| Trouble::Failed(Error::Seek { name: self.name.clone(), errno });
        let bytes = amount.in_bytes().ok_or_else(|| refused(Errno::OVERFLOW))?;
        let offset = i64::try_from(bytes).map_err(|_| refused(Errno::OVERFLOW))?;
        match self.kernel.seek(self.fd.as_fd(), SeekFrom::Current(offset)) {
            Ok(position) => {
                self.position = Some(position);
                self.advice.start_at(&*self.kernel, self.fd.as_fd(), position);
                Ok(())
            }
            // What has offsets is no tape, whatever it said when it was opened.
            Err(errno) if self.facts.position.is_some() || matches!(self.facts.kind, Kind::Regular | Kind::Block) => {
                Err(refused(errno))
            }
            Err(errno) => self.pass_over(amount, errno, pause),
        }
    }

    fn pass_over<P: Pause + ?Sized>(
        &mut self,
        amount: Amount,
        seek_errno: Errno,
        pause: &mut P,
    ) -> Result<(), Trouble> {
        let no_memory = |_| Trouble::Failed(Error::Memory { end: "output", len: widen(self.obs) });
        let mut scratch = Aligned::new(self.obs).map_err(no_memory)?;
        let mut records = amount.records();
        let mut rest = usize::try_from(amount.bytes()).unwrap_or(0);
        while records > 0 || rest > 0 {
            let piece = if records > 0 { self.obs } else { rest };
            match retry(pause, || self.kernel.read(self.fd.as_fd(), &mut scratch[..piece])) {
                Ok(0) => break,
                Ok(_) if records > 0 => records -= 1,
                Ok(_) => rest = 0,
                Err(Cut::Stopped) => return Err(Trouble::Stopped),
                // What can be neither read nor moved in: the reason is that it cannot seek.
                Err(Cut::Os(_)) => {
                    return Err(Trouble::Failed(Error::Seek { name: self.name.clone(), errno: seek_errno }));
                }
            }
        }
        scratch.fill(0);
        while records > 0 || rest > 0 {
            let piece = if records > 0 { self.obs } else { rest };
            let (_, outcome) = self.write_all(&scratch[..piece], pause);
            named(outcome, |errno| Error::WriteBlock { name: self.name.clone(), errno })?;
            if records > 0 { records -= 1 } else { rest = 0 }
        }
        Ok(())
    }

    /// One block, until it is whole: written, or stepped over where it is zeros and the plan wants that. Tells how much of
    /// it reached the file, and what stopped the rest.
    #[inline]
    pub fn write_block<P: Pause + ?Sized>(&mut self, block: &[u8], pause: &mut P) -> (usize, Result<(), Cut>) {
        if self.again > 0 {
            return self.write_again(block, pause);
        }
        if self.direct && block.len() < self.obs {
            self.leave_direct(pause);
        }
        if self.holes != Holes::Write && simd::is_zero(block) {
            self.hole += widen(block.len());
            return (block.len(), Ok(()));
        }
        let (written, outcome) = self.write_behind_hole(block, pause);
        if outcome.is_ok() && self.stride > 1 {
            return (written, self.leap(written));
        }
        (written, outcome)
    }

    /// The pending run of zeros, then `bytes`. Where that run was passed over by a seek alone and nothing of `bytes` gets
    /// behind it, it is not in the file, and still to be made.
    #[inline]
    fn write_behind_hole<P: Pause + ?Sized>(&mut self, bytes: &[u8], pause: &mut P) -> (usize, Result<(), Cut>) {
        let (from, hole) = (self.position, self.hole);
        if hole > 0
            && let Err(cut) = self.settle_hole(false, pause)
        {
            self.tap_zeros(hole - self.hole);
            return (0, Err(cut));
        }
        let (written, outcome) = self.write_all(bytes, pause);
        if hole > 0 && written == 0 && outcome.is_err() {
            (self.position, self.hole) = (from, hole);
            if let Some(from) = from {
                let _ = self.kernel.seek(self.fd.as_fd(), SeekFrom::Start(from));
            }
            return (0, outcome);
        }
        self.tap_zeros(hole);
        self.tap(&bytes[..written]);
        (written, outcome)
    }

    /// What is in the file already is passed over; the rest of the block, if any, is written as it is, since whatever
    /// began to write it had found it to be no hole.
    #[cold]
    fn write_again<P: Pause + ?Sized>(&mut self, block: &[u8], pause: &mut P) -> (usize, Result<(), Cut>) {
        let known = usize::try_from(self.again).unwrap_or(usize::MAX).min(block.len());
        self.again -= widen(known);
        let (written, outcome) = self.write_all(&block[known..], pause);
        self.tap(&block[known..known + written]);
        (known + written, outcome)
    }

    #[inline]
    fn tap(&mut self, bytes: &[u8]) {
        if let Some(tap) = &mut self.tap {
            tap.update(bytes);
        }
    }

    #[inline]
    fn tap_zeros(&mut self, mut len: u64) {
        if let Some(tap) = &mut self.tap {
            while len > 0 {
                let piece = usize::try_from(len).unwrap_or(ZEROS.len()).min(ZEROS.len());
                tap.update(&ZEROS[..piece]);
                len -= widen(piece);
            }
        }
    }

    /// Zeros that were counted and are not in the file, because nothing could put them there.
    pub(crate) fn take_unsettled(&mut self) -> u64 {
        // Not those that a faster way had counted and took back.
        std::mem::take(&mut self.hole).saturating_sub(std::mem::take(&mut self.again))
    }

    /// The only loop over short writes.
    #[inline]
    fn write_all<P: Pause + ?Sized>(&mut self, block: &[u8], pause: &mut P) -> (usize, Result<(), Cut>) {
        self.advice.before(self.fd.as_fd(), block.len());
        let mut written = 0;
        let outcome = loop {
            if written == block.len() {
                break Ok(());
            }
            let (rest, uncached) = (&block[written..], self.uncached_piece(block.len(), written));
            let wrote = retry(pause, || match uncached {
                0 => self.kernel.write(self.fd.as_fd(), rest),
                piece => self.kernel.write_uncached(self.fd.as_fd(), &rest[..piece]),
            });
            match wrote {
                // Not this file system, kernel or sandbox; what is wrong with the write itself a plain one will tell.
                Err(Cut::Os(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS | Errno::PERM)) if uncached > 0 => {
                    self.uncached_from = NEVER;
                }
                // Nothing taken and no reason given: the device is full, as on old tapes.
                Ok(0) => break Err(Cut::Os(Errno::NOSPC)),
                Ok(taken) => {
                    written += taken;
                    if written < block.len() {
                        pause.taken(taken);
                    }
                }
                Err(Cut::Os(Errno::AGAIN)) if !self.nonblock => {
                    if let Err(cut) = retry(pause, || self.kernel.wait(self.fd.as_fd(), Direction::Write)) {
                        break Err(cut);
                    }
                }
                Err(cut) => break Err(cut),
            }
        };
        if let Some(position) = &mut self.position {
            *position += widen(written);
        }
        self.advice.passed(&*self.kernel, self.fd.as_fd(), written);
        (written, outcome)
    }

    /// How much of a block of `len` bytes, of which `written` are in the file, is next written so that it leaves the cache
    /// at once; 0 where it is not. A page that the next block goes on with stays, or it would have to be read again.
    #[inline]
    fn uncached_piece(&self, len: usize, written: usize) -> usize {
        if len < UNCACHED_LEAST || self.uncached_from == NEVER {
            return 0;
        }
        let Some(at) = self.position.map(|position| position + widen(written)) else { return 0 };
        if at < self.uncached_from {
            return 0;
        }
        let piece = (len - written).min(UNCACHED_PIECE);
        let beyond = (at + widen(piece)) % widen(rustix::param::page_size());
        piece.saturating_sub(usize::try_from(beyond).unwrap_or(piece))
    }

    fn leap(&mut self, written: usize) -> Result<(), Cut> {
        let leap = self
            .stride
            .checked_mul(widen(self.obs))
            .and_then(|whole| whole.checked_sub(widen(written)))
            .and_then(|rest| i64::try_from(rest).ok())
            .ok_or(Cut::Os(Errno::OVERFLOW))?;
        let position = self.kernel.seek(self.fd.as_fd(), SeekFrom::Current(leap))?;
        self.position = Some(position);
        self.advice.start_at(&*self.kernel, self.fd.as_fd(), position);
        Ok(())
    }

    /// The pending run of zeros becomes part of the file: by one seek, and where old data could show through by making it
    /// read as zeros. At the `end` a file that is too short for it is extended.
    ///
    /// # Errors
    /// What the last resort, writing the zeros, says.
    fn settle_hole<P: Pause + ?Sized>(&mut self, end: bool, pause: &mut P) -> Result<(), Cut> {
        let len = std::mem::take(&mut self.hole);
        let Some(from) = self.position.filter(|_| len > 0) else { return Ok(()) };
        let settled = self.settle_range(from, len, end, pause);
        if settled.is_err() {
            // Still to be done, less what was written of it: whoever tries again finds it so.
            self.hole = (from + len).saturating_sub(self.position.unwrap_or(from));
        }
        settled
    }

    fn settle_range<P: Pause + ?Sized>(&mut self, from: u64, len: u64, end: bool, pause: &mut P) -> Result<(), Cut> {
        let cleared = match (self.facts.kind, self.holes) {
            (Kind::Block, _) => self.kernel.zero_out(self.fd.as_fd(), from, len).is_ok(),
            (Kind::Regular, Holes::Punch) => self.punch(from, len),
            // A file keeps its old data under conv=sparse, as documented; elsewhere there is nothing to show through.
            _ => true,
        };
        let moved = cleared.then(|| self.kernel.seek(self.fd.as_fd(), SeekFrom::Start(from + len)).ok()).flatten();
        let Some(position) = moved else {
            self.kernel.seek(self.fd.as_fd(), SeekFrom::Start(from))?;
            return self.write_zeros(len, pause);
        };
        if end && self.facts.kind == Kind::Regular && !self.extend_to(position, pause)? {
            // The length cannot be set: what is missing is written instead.
            self.kernel.seek(self.fd.as_fd(), SeekFrom::Start(from))?;
            return self.write_zeros(len, pause);
        }
        self.position = Some(position);
        self.advice.start_at(&*self.kernel, self.fd.as_fd(), position);
        Ok(())
    }

    fn punch(&self, from: u64, len: u64) -> bool {
        let fd = self.fd.as_fd();
        let size = self.kernel.fstat(fd).map_or(u64::MAX, |stat| u64::try_from(stat.st_size).unwrap_or(u64::MAX));
        if from >= size {
            return true;
        }
        let modes = [FallocateFlags::PUNCH_HOLE, FallocateFlags::ZERO_RANGE];
        modes.into_iter().any(|mode| self.kernel.fallocate(fd, mode | FallocateFlags::KEEP_SIZE, from, len).is_ok())
    }

    /// Makes the file at least `len` long; false where that cannot be.
    fn extend_to<P: Pause + ?Sized>(&self, len: u64, pause: &mut P) -> Result<bool, Cut> {
        let stat = match retry(pause, || self.kernel.fstat(self.fd.as_fd())) {
            Ok(stat) => stat,
            Err(Cut::Stopped) => return Err(Cut::Stopped),
            Err(Cut::Os(_)) => return Ok(false),
        };
        if u64::try_from(stat.st_size).unwrap_or(0) >= len {
            return Ok(true);
        }
        match retry(pause, || self.kernel.truncate(self.fd.as_fd(), len)) {
            Ok(()) => Ok(true),
            Err(Cut::Stopped) => Err(Cut::Stopped),
            Err(Cut::Os(_)) => Ok(false),
        }
    }

    fn write_zeros<P: Pause + ?Sized>(&mut self, mut len: u64, pause: &mut P) -> Result<(), Cut> {
        if self.direct {
            self.leave_direct(pause);
        }
        while len > 0 {
            let piece = usize::try_from(len).unwrap_or(ZEROS.len()).min(ZEROS.len());
            self.write_all(&ZEROS[..piece], pause).1?;
            len -= widen(piece);
        }
        Ok(())
    }

    /// A short block cannot be written directly. GNU: the rest is buffered, dropped from the cache, and synced at the end.
    #[cold]
    fn leave_direct<P: Pause + ?Sized>(&mut self, pause: &mut P) {
        self.direct = false;
        let fd = self.fd.as_fd();
        let cleared = retry(pause, || self.kernel.get_flags(fd))
            .and_then(|flags| retry(pause, || self.kernel.set_flags(fd, flags.difference(OFlags::DIRECT))));
        if let Err(Cut::Os(errno)) = cleared {
            self.notices.push(Notice::DirectOff { name: self.name.clone(), errno });
        }
        let _ = drop_to_end(&*self.kernel, fd, self.position.unwrap_or(0));
        self.durable = match self.durable {
            Durable::Data => Durable::All { data_first: true },
            Durable::No => Durable::All { data_first: false },
            all @ Durable::All { .. } => all,
        };
        if self.cache == Cache::Keep {
            self.cache = Cache::Drop;
            self.advice = Advice::new(Cache::Drop, Side::Writing, self.position);
        }
    }

    /// After the last block: the last hole, and the length that it gives the file.
    ///
    /// # Errors
    /// The zeros could neither be stepped over nor written.
    pub fn finish<P: Pause + ?Sized>(&mut self, pause: &mut P) -> Result<(), Cut> {
        let hole = self.hole;
        let settled = if hole > 0 { self.settle_hole(true, pause) } else { Ok(()) };
        self.tap_zeros(hole - self.hole);
        settled
    }

    /// Whether `sync` has anything to do, so that progress can say something before a long wait.
    pub fn will_sync(&self) -> bool {
        self.durable != Durable::No
    }

    /// What was asked to be durable becomes so; a block device always, once something was `copied`, since what its
    /// write-back loses later nobody would see.
    pub fn sync<P: Pause + ?Sized>(&mut self, copied: bool, pause: &mut P) -> Result<Vec<Error>, Cut> {
        let mut errors = Vec::new();
        let mut all = matches!(self.durable, Durable::All { .. }) || (copied && self.facts.kind == Kind::Block);
        if matches!(self.durable, Durable::Data | Durable::All { data_first: true }) {
            match retry(pause, || self.kernel.fdatasync(self.fd.as_fd())) {
                Ok(()) => {}
                Err(Cut::Stopped) => return Err(Cut::Stopped),
                Err(Cut::Os(Errno::INVAL | Errno::NOSYS)) => all = true,
                Err(Cut::Os(errno)) => {
                    errors.push(Error::Fdatasync { name: self.name.clone(), errno });
                    all = true;
                }
            }
        }
        if all {
            match retry(pause, || self.kernel.fsync(self.fd.as_fd())) {
                Ok(()) => {}
                Err(Cut::Stopped) => return Err(Cut::Stopped),
                Err(Cut::Os(errno)) => errors.push(Error::Fsync { name: self.name.clone(), errno }),
            }
        }
        if self.created {
            self.sync_directory(&mut errors, pause)?;
        }
        Ok(errors)
    }

    /// The name of a new file is in its directory, which has to be synced for itself.
    fn sync_directory<P: Pause + ?Sized>(&mut self, errors: &mut Vec<Error>, pause: &mut P) -> Result<(), Cut> {
        let Name::File(path) = &self.name else { return Ok(()) };
        let parent = match Path::new(path).parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.as_os_str(),
            _ => OsStr::new("."),
        };
        let directory = OFlags::RDONLY | OFlags::DIRECTORY;
        match retry(pause, || self.kernel.open(parent, directory, Mode::empty())) {
            Err(Cut::Stopped) => Err(Cut::Stopped),
            Err(Cut::Os(errno)) => {
                self.notices.push(Notice::DirectoryNotSynced { name: self.name.clone(), errno });
                Ok(())
            }
            Ok(fd) => match retry(pause, || self.kernel.fsync(fd.as_fd())) {
                Ok(()) | Err(Cut::Os(Errno::INVAL)) => Ok(()),
                Err(Cut::Stopped) => Err(Cut::Stopped),
                Err(Cut::Os(errno)) => {
                    errors.push(Error::DirectorySync { name: self.name.clone(), errno });
                    Ok(())
                }
            },
        }
    }

    /// The cache as `nocache` wants it at the end. `to_end`: the whole input was copied.
    ///
    /// # Errors
    /// Only under `count=0`, whose one job it is.
    pub fn settle_cache(&mut self, to_end: bool) -> Result<(), Error> {
        if self.cache == Cache::DropAll {
            let from = self.position.unwrap_or(0);
            return drop_to_end(&*self.kernel, self.fd.as_fd(), from)
                .map_err(|errno| Error::DiscardCache { name: self.name.clone(), errno });
        }
        match self.advice.finish(&*self.kernel, self.fd.as_fd(), to_end && !self.notrunc) {
            None => Ok(()),
            Some(errno) => Err(Error::Write { name: self.name.clone(), errno }),
        }
    }

    /// # Errors
    /// What `close` says: some file systems tell only here that data were lost.
    pub fn close(self) -> Result<(), Error> {
        let name = self.name;
        self.kernel.close(self.fd).map_err(|errno| Error::CloseOutput { name, errno })
    }
}

/// From where on blocks are written so that they leave the cache at once: behind the `size` bytes that the file has, since
/// over pages that are cached the kernel does nothing, where nobody is to find them cached or they are to be synced.
fn uncached_from(plan: &OutputPlan, facts: &Facts, size: u64) -> u64 {
    let observed = OFlags::APPEND | OFlags::DIRECT | OFlags::SYNC | OFlags::DSYNC;
    if !facts.drops_behind || facts.flags.intersects(observed) {
        return NEVER;
    }
    match (plan.cache, plan.durable) {
        (Cache::Drop, _) => size,
        (Cache::Keep, Durable::Data | Durable::All { .. }) => size.saturating_add(UNCACHED_AFTER),
        (Cache::Keep, Durable::No) | (Cache::DropAll | Cache::Neutral, _) => NEVER,
    }
}

/// Opens the output file; tells also whether it was made by this, where that matters.
fn open_file<P: Pause + ?Sized>(
    kernel: &dyn Kernel,
    path: &OsStr,
    plan: &OutputPlan,
    pause: &mut P,
) -> Result<(OwnedFd, bool), Cut> {
    let mut flags = plan.flags;
    match plan.creation {
        Creation::IfMissing => flags |= OFlags::CREATE,
        Creation::Must => flags |= OFlags::CREATE | OFlags::EXCL,
        Creation::Never => {}
    }
    if plan.truncate == Truncate::ToZero {
        flags |= OFlags::TRUNC;
    }
    let durable = plan.durable != Durable::No || flags.intersects(OFlags::SYNC | OFlags::DSYNC);
    if durable && plan.creation == Creation::IfMissing && !plan.directory {
        // Opened as an existing file first: only a file that we made has a name to be made durable.
        match open_for(kernel, path, flags.difference(OFlags::CREATE), plan, pause) {
            Err(Cut::Os(Errno::NOENT)) => {}
            other => return other.map(|fd| (fd, false)),
        }
    }
    let created = durable && plan.creation != Creation::Never;
    open_for(kernel, path, flags, plan, pause).map(|fd| (fd, created))
}

/// For writing; with `seek=` also for reading where that is allowed, since a tape is passed over by reading.
fn open_for<P: Pause + ?Sized>(
    kernel: &dyn Kernel,
    path: &OsStr,
    flags: OFlags,
    plan: &OutputPlan,
    pause: &mut P,
) -> Result<OwnedFd, Cut> {
    if !plan.seek.is_zero() {
        match retry(pause, || kernel.open(path, flags | OFlags::RDWR, MODE)) {
            Err(Cut::Os(_)) => {}
            other => return other,
        }
    }
    retry(pause, || kernel.open(path, flags | OFlags::WRONLY, MODE))
}

/// Length of the run of whole blocks at the start of `bytes` that are all zeros, or all not.
fn run_of(bytes: &[u8], block: usize, zeros: bool) -> usize {
    bytes.chunks(block).take_while(|piece| simd::is_zero(piece) == zeros).map(<[u8]>::len).sum()
}

#[cfg(test)]
mod tests;
