//! The input end: its descriptor, position, skipping, reading, and reading what fails.

use std::cell::Cell;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use fdd_sys::memory::Aligned;
use fdd_sys::retry::{Cut, Pause, retry};
use rustix::fs::{FileType, Mode, OFlags, SeekFrom};
use rustix::io::Errno;

use crate::advice::{Advice, Side, drop_to_end};
use crate::error::{Error, Name};
use crate::facts::{Facts, Kind};
use crate::hash::Tap;
use crate::kernel::{Direction, Kernel};
use crate::plan::{Cache, InputPlan};
use crate::rescue::{Rescue, Rescued};
use crate::units::{Amount, widen};

pub struct Source {
    kernel: Arc<dyn Kernel>,
    fd: OwnedFd,
    name: Name,
    pub facts: Facts,
    fullblock: bool,
    direct: bool,
    nonblock: bool,
    cache: Cache,
    stride: u64,
    ibs: usize,
    /// Offset of the next byte, where the end can seek.
    position: Option<u64>,
    advice: Advice,
    /// The last read gave fewer bytes than asked for, but some.
    short: bool,
    pub(crate) partial: Partial,
    found: Option<Found>,
    /// The beginning of the next record: a faster way has read it and leaves it to the plain loop.
    begun: Vec<u8>,
    /// A look at the size or the holes left the descriptor elsewhere than at `position`.
    astray: Cell<bool>,
    /// Reading has met the end of the file.
    pub at_end: bool,
    /// Reading is over: see `end`.
    ended: bool,
    rescue: Option<Rescue>,
    /// Gets the records that are read, before they are padded or converted.
    pub(crate) tap: Option<Box<Tap>>,
}

/// Short reads, and whether one deserves a warning: it does when another read follows, once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Partial {
    last: Option<usize>,
    warn: Option<usize>,
    warned: bool,
}

impl Partial {
    /// A read that wanted `want` bytes brought `got`.
    pub(crate) fn came(&mut self, got: usize, want: usize) {
        if let Some(len) = self.last.take()
            && len < want
            && !self.warned
        {
            self.warn = Some(len);
            self.warned = true;
        }
        self.last = (got < want).then_some(got);
    }

    /// The length of the short read that is to be warned of now.
    pub(crate) fn due(&mut self) -> Option<usize> {
        self.warn.take()
    }

    /// A short read waits to be warned of.
    pub(crate) fn is_pending(&self) -> bool {
        self.last.is_some()
    }

    /// What came last was made whole by other means.
    pub(crate) fn forget(&mut self) {
        self.last = None;
    }
}

/// What a bare read said that was not a whole record, and how often handlers had run before it.
#[derive(Clone, Copy, Debug)]
struct Found {
    before: u32,
    result: Result<usize, Errno>,
}

/// How a skip ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skipped {
    Whole,
    /// The input ended before the point; told, not fatal.
    Short,
}

/// Why a skip could not be done.
#[derive(Debug)]
pub enum Trouble {
    Stopped,
    Failed(Error),
}

impl Source {
    /// Opens what the plan names, or takes `inherited`.
    ///
    /// # Errors
    /// The file cannot be opened; the flags cannot be set on the inherited descriptor.
    pub fn open<P: Pause + ?Sized>(
        kernel: Arc<dyn Kernel>,
        plan: &InputPlan,
        inherited: impl FnOnce() -> OwnedFd,
        pause: &mut P,
    ) -> Result<Source, Trouble> {
        let (fd, name) = match &plan.path {
            Some(path) => {
                let name = Name::File(path.clone());
                let fd = retry(pause, || kernel.open(path, OFlags::RDONLY | plan.flags, Mode::empty()));
                (named(fd, |errno| Error::Open { name: name.clone(), errno })?, name)
            }
            None => {
                let fd = inherited();
                let set = set_flags(&*kernel, fd.as_fd(), plan.flags, plan.directory);
                set.map_err(|errno| Trouble::Failed(Error::SettingFlags { name: Name::StandardInput, errno }))?;
                (fd, Name::StandardInput)
            }
        };
        let mut facts =
            named(Facts::of(&*kernel, fd.as_fd(), pause), |errno| Error::Fstat { name: name.clone(), errno })?;
        if plan.path.is_some() {
            facts = facts.opened_with(plan.flags | OFlags::RDONLY);
        }
        let position = facts.position;
        Ok(Source {
            fd,
            name,
            facts,
            fullblock: plan.fullblock,
            direct: plan.direct,
            nonblock: plan.nonblock,
            cache: plan.cache,
            stride: plan.stride,
            ibs: plan.ibs,
            position,
            advice: Advice::new(plan.cache, Side::Reading, position),
            short: false,
            partial: Partial::default(),
            found: None,
            begun: Vec::new(),
            astray: Cell::new(false),
            at_end: false,
            ended: false,
            rescue: None,
            tap: None,
            kernel,
        })
    }

    pub fn name(&self) -> &Name {
        &self.name
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Offset of the next byte to be read.
    pub fn position(&self) -> Option<u64> {
        self.position
    }

    /// From here on the cache is cleared in windows rather than by the calls that GNU dd makes.
    pub(crate) fn use_windows(&mut self) {
        self.advice.use_windows();
    }

    /// The first byte at or after the next one that is no hole, within `end`; `end` where there is none. Leaves the
    /// descriptor where it was.
    pub(crate) fn next_data(&self, end: u64) -> u64 {
        let Some(position) = self.position else { return end };
        let fd = self.fd.as_fd();
        let found = match self.kernel.seek(fd, SeekFrom::Data(position)) {
            Ok(data) => data.min(end),
            // No data from here to the end of the file.
            Err(Errno::NXIO) => end,
            Err(_) => position,
        };
        self.come_back(position);
        if self.astray.get() { position } else { found }
    }

    /// A second descriptor of the same file, past the page cache. None where descriptors cannot be used past the kernel's
    /// door, where /proc is not there, and where the file system has no direct reads.
    pub(crate) fn reopen_direct(&self) -> Option<OwnedFd> {
        let kept = self.facts.flags.intersection(OFlags::NOATIME);
        reopen(&*self.kernel, self.fd.as_fd(), OFlags::RDONLY | OFlags::DIRECT | kept)
    }

    /// The same open file under another number.
    pub(crate) fn duplicate(&self) -> Option<OwnedFd> {
        self.kernel.is_the_system().then(|| self.fd.try_clone().ok()).flatten()
    }

    /// `len` bytes at `at` are about to be read, not from the descriptor's own offset.
    pub(crate) fn announce(&mut self, at: u64, len: u64) {
        self.advice.announce(self.fd.as_fd(), at..at.saturating_add(len));
    }

    /// The next `len` bytes were read, not from the descriptor's own offset: [`go_to`](Source::go_to) has to follow.
    pub(crate) fn passed(&mut self, len: usize) {
        if let Some(position) = &mut self.position {
            *position += widen(len);
        }
        self.advice.passed(&*self.kernel, self.fd.as_fd(), len);
    }

    /// Moves over `amount`: by seeking, or by reading where it cannot seek.
    ///
    /// # Errors
    /// The seek is refused although the end can seek, or reading fails.
    pub fn skip<P: Pause + ?Sized>(&mut self, amount: Amount, pause: &mut P) -> Result<Skipped, Trouble> {
        if amount.is_zero() {
            return Ok(Skipped::Whole);
        }
        let refused = |errno| Error::Skip { name: self.name.clone(), errno };
        let bytes = amount.in_bytes().ok_or_else(|| Trouble::Failed(refused(Errno::OVERFLOW)))?;
        let offset = i64::try_from(bytes).map_err(|_| Trouble::Failed(refused(Errno::OVERFLOW)))?;
        match self.kernel.seek(self.fd.as_fd(), SeekFrom::Current(offset)) {
            Ok(position) => {
                self.position = Some(position);
                self.advice.start_at(&*self.kernel, self.fd.as_fd(), position);
                // Sizes of 0 are said by /proc for files that have contents, and by empty files, which end where they begin.
                // Asked now: truncating the output may have changed it, where both ends are one file.
                let size = if self.facts.kind == Kind::Regular { self.size_now() } else { 0 };
                let past_end = size > 0 && position > size;
                Ok(if past_end { Skipped::Short } else { Skipped::Whole })
            }
            Err(errno) if self.facts.position.is_some() => Err(Trouble::Failed(refused(errno))),
            Err(_) => self.skip_by_reading(amount, pause),
        }
    }

    /// One read a block, short or not, then the bytes: what a tape or a pipe can do.
    fn skip_by_reading<P: Pause + ?Sized>(&mut self, amount: Amount, pause: &mut P) -> Result<Skipped, Trouble> {
        let ibs = self.ibs;
        let no_memory = |_| Trouble::Failed(Error::Memory { end: "input", len: widen(ibs) });
        let mut scratch = Aligned::new(ibs).map_err(no_memory)?;
        let mut passed: u64 = 0;
        let mut pieces =
            (0..amount.records()).map(|_| ibs).chain(usize::try_from(amount.bytes()).ok().filter(|&rest| rest > 0));
        let all = pieces.try_for_each(|piece| {
            let (got, outcome) = self.read(&mut scratch[..piece], pause);
            passed += widen(got);
            if outcome.is_ok() && got > 0 {
                self.partial.came(got, piece);
            }
            match outcome {
                Ok(()) if got == 0 => Err(None),
                Ok(()) => Ok(()),
                Err(cut) => Err(Some(cut)),
            }
        });
        self.short = false;
        match all {
            Err(Some(Cut::Stopped)) => Err(Trouble::Stopped),
            Err(Some(Cut::Os(errno))) => Err(Trouble::Failed(self.read_error(errno))),
            Err(None) | Ok(()) if amount.in_bytes() == Some(passed) => Ok(Skipped::Whole),
            Err(None) | Ok(()) => Ok(Skipped::Short),
        }
    }

    /// One record: one read, or as many as `fullblock` wants. What arrived before an error is given with it.
    #[inline]
    pub fn read<P: Pause + ?Sized>(&mut self, buf: &mut [u8], pause: &mut P) -> (usize, Result<(), Cut>) {
        if self.ended {
            return (0, Ok(()));
        }
        if self.astray.get()
            && let Some(position) = self.position
            && let Err(errno) = self.go_to(position)
        {
            return (0, Err(Cut::Os(errno)));
        }
        self.advice.before(self.fd.as_fd(), buf.len());
        let mut filled = if self.begun.is_empty() { 0 } else { self.take_begun(buf) };
        let outcome = loop {
            match self.read_once(&mut buf[filled..], pause) {
                Ok(0) => {
                    self.at_end = filled == 0;
                    break Ok(());
                }
                Ok(got) => {
                    filled += got;
                    if !self.fullblock || filled == buf.len() {
                        break Ok(());
                    }
                }
                Err(cut) => break Err(cut),
            }
        };
        self.short = 0 < filled && filled < buf.len();
        self.advice.passed(&*self.kernel, self.fd.as_fd(), filled);
        (filled, outcome)
    }

    /// A strategy has met the end. Asking a FIFO again could bring what its next writer says.
    pub(crate) fn end(&mut self) {
        self.ended = true;
        self.at_end = true;
    }

    /// Nothing but reading goes on here: no cache to clear, no places to skip.
    pub(crate) fn is_bare(&self) -> bool {
        self.advice.is_idle() && self.stride == 1
    }

    /// The descriptor, where reading it past the kernel's door is the same as through it.
    pub(crate) fn system_fd(&self) -> Option<BorrowedFd<'_>> {
        self.kernel.is_the_system().then(|| self.fd.as_fd())
    }

    /// One call, and nothing around it; `advance` and `found` tell what came of it.
    #[inline]
    pub(crate) fn read_bare(&self, buf: &mut [u8]) -> Result<usize, Errno> {
        self.kernel.read(self.fd.as_fd(), buf)
    }

    /// `bytes` bytes were read by `read_bare`.
    pub(crate) fn advance(&mut self, bytes: u64) {
        if let Some(position) = &mut self.position {
            *position += bytes;
        }
    }

    /// The last `read_bare` did not fill its buffer: the next read begins with what it said, in the same buffer.
    #[cold]
    pub(crate) fn found(&mut self, result: Result<usize, Errno>, before: u32) {
        self.found = Some(Found { before, result });
    }

    /// Whether there is memory for what [`broke_off`](Source::broke_off) is told of a record of `ibs` bytes.
    pub(crate) fn can_break_off(&mut self, ibs: usize) -> bool {
        self.begun.try_reserve_exact(ibs).is_ok()
    }

    /// A faster way has read the `begun` bytes of a record and then met `errno`: the next read says so.
    pub(crate) fn broke_off(&mut self, begun: &[u8], errno: Errno) {
        self.begun.clear();
        self.begun.extend_from_slice(begun);
        self.found = Some(Found { before: 0, result: Err(errno) });
    }

    /// The next read has something to say that is known already, or to do first.
    pub(crate) fn has_found(&self) -> bool {
        self.found.is_some() || self.astray.get()
    }

    #[cold]
    fn take_begun(&mut self, buf: &mut [u8]) -> usize {
        let begun = std::mem::take(&mut self.begun);
        buf[..begun.len()].copy_from_slice(&begun);
        begun.len()
    }

    /// What is there now, whatever fullblock says.
    pub(crate) fn read_some<P: Pause + ?Sized>(&mut self, buf: &mut [u8], pause: &mut P) -> Result<usize, Cut> {
        self.read_once(buf, pause)
    }

    /// Bytes that a pipe holds now.
    pub(crate) fn available(&self) -> u64 {
        self.kernel.available(self.fd.as_fd()).unwrap_or(0)
    }

    #[inline]
    fn read_once<P: Pause + ?Sized>(&mut self, buf: &mut [u8], pause: &mut P) -> Result<usize, Cut> {
        let (before, found) = match self.found.take() {
            Some(Found { before, result }) => (before, Some(result)),
            None => (pause.interruptions(), None),
        };
        let result = match found {
            // An interrupted call is made again, after whatever interrupted it was looked at.
            Some(result) if result != Err(Errno::INTR) => result.map_err(Cut::Os),
            _ => retry(pause, || self.kernel.read(self.fd.as_fd(), buf)),
        };
        let got = match result {
            Ok(got) => got,
            Err(cut) => self.read_refused(cut, buf, pause)?,
        };
        if let Some(position) = &mut self.position {
            *position += widen(got);
        }
        // Zeros have no end: only a signal cuts them short, also one that has no handler and that nobody counts, as SIGSTOP.
        if got < buf.len() && got > 0 && (pause.interruptions() != before || self.facts.kind == Kind::Zero) {
            return self.read_on(got, buf, pause);
        }
        Ok(got)
    }

    /// A signal of ours cut a long read short; it may not make a record. Only where reading on is the same read: not on a
    /// pipe, a terminal or a tape.
    #[cold]
    fn read_on<P: Pause + ?Sized>(&mut self, mut filled: usize, buf: &mut [u8], pause: &mut P) -> Result<usize, Cut> {
        if !matches!(self.facts.kind, Kind::Regular | Kind::Block | Kind::Zero | Kind::Memory) {
            return Ok(filled);
        }
        while filled < buf.len() {
            match retry(pause, || self.kernel.read(self.fd.as_fd(), &mut buf[filled..])) {
                Ok(0) => break,
                Ok(got) => {
                    filled += got;
                    if let Some(position) = &mut self.position {
                        *position += widen(got);
                    }
                }
                // Of zeros nothing is lost that came so far, and there is no end that a short record could be before.
                Err(cut @ Cut::Os(_)) if self.facts.kind == Kind::Zero => return Err(cut),
                // What came so far counts; the next read meets the error again.
                Err(Cut::Os(_)) => break,
                Err(Cut::Stopped) => return Err(Cut::Stopped),
            }
        }
        Ok(filled)
    }

    #[cold]
    fn read_refused<P: Pause + ?Sized>(&mut self, cut: Cut, buf: &mut [u8], pause: &mut P) -> Result<usize, Cut> {
        match cut {
            // A direct file whose length is no multiple of the sector refuses the read after the short one.
            Cut::Os(Errno::INVAL) if self.direct && self.short => Ok(0),
            // Whoever made the shared description non-blocking did not ask us; nonblock was not asked for, so wait.
            Cut::Os(Errno::AGAIN) if !self.nonblock => loop {
                retry(pause, || self.kernel.wait(self.fd.as_fd(), Direction::Read))?;
                match retry(pause, || self.kernel.read(self.fd.as_fd(), buf)) {
                    Err(Cut::Os(Errno::AGAIN)) => {}
                    other => return other,
                }
            },
            other => Err(other),
        }
    }

    /// Reads again, piece by piece, what a read could not give: `buf` is the block, its first `got` bytes are right, and it
    /// began at `at`. Without `go_on` only what comes before the first bad sector is fetched.
    ///
    /// # Errors
    /// [`Cut::Stopped`] only; what cannot be read is in the result.
    pub(crate) fn rescue<P: Pause + ?Sized>(
        &mut self,
        buf: &mut [u8],
        got: usize,
        at: u64,
        go_on: bool,
        pause: &mut P,
    ) -> Result<Rescued, Cut> {
        let size = self.size_now();
        let kernel = Arc::clone(&self.kernel);
        let rescue = self.rescue.get_or_insert_with(|| Rescue::new(&*kernel, self.fd.as_fd()));
        let room = usize::try_from(size.saturating_sub(at)).unwrap_or(usize::MAX).min(buf.len()).max(got);
        rescue.block(&*kernel, self.fd.as_fd(), &mut buf[..room], got, at, go_on, pause)
    }

    /// The end of a file or device as it is now; 0 when it is gone.
    pub(crate) fn size_now(&self) -> u64 {
        let fd = self.fd.as_fd();
        match self.facts.kind {
            Kind::Regular => self.kernel.fstat(fd).map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0)),
            _ => {
                let end = self.kernel.seek(fd, SeekFrom::End(0)).unwrap_or(0);
                if let Some(position) = self.position {
                    self.come_back(position);
                }
                end
            }
        }
    }

    /// Puts the descriptor where it was. Where that is refused the next read does it, or fails.
    fn come_back(&self, position: u64) {
        let back = self.kernel.seek(self.fd.as_fd(), SeekFrom::Start(position));
        self.astray.set(back != Ok(position));
    }

    /// As [`go_to`](Source::go_to), but where the seek is refused the next read does it first, or fails: nothing is ever read
    /// from elsewhere.
    ///
    /// # Errors
    /// What the seek says.
    pub(crate) fn step_to(&mut self, position: u64) -> Result<(), Errno> {
        let went = self.go_to(position);
        if went.is_err() {
            self.position = Some(position);
            self.astray.set(true);
            self.short = false;
        }
        went
    }

    /// Goes to `position`, past what could not be read.
    ///
    /// # Errors
    /// What the seek says.
    pub(crate) fn go_to(&mut self, position: u64) -> Result<(), Errno> {
        let reached = self.kernel.seek(self.fd.as_fd(), SeekFrom::Start(position))?;
        self.position = Some(reached);
        self.astray.set(false);
        self.advice.start_at(&*self.kernel, self.fd.as_fd(), reached);
        self.short = false;
        Ok(())
    }

    /// The last read was short: a whole block of `want` bytes at `at` gave only `got`. Asks whether what follows is bad.
    pub(crate) fn rest_is_bad<P: Pause + ?Sized>(
        &mut self,
        rest: &mut [u8],
        at: u64,
        pause: &mut P,
    ) -> Result<Option<Errno>, Cut> {
        match retry(pause, || self.kernel.pread(self.fd.as_fd(), rest, at)) {
            Ok(_) | Err(Cut::Os(Errno::INVAL)) => Ok(None),
            Err(Cut::Os(errno)) => Ok(Some(errno)),
            Err(Cut::Stopped) => Err(Cut::Stopped),
        }
    }

    #[inline]
    pub(crate) fn tap(&mut self, record: &[u8]) {
        if let Some(tap) = &mut self.tap {
            tap.update(record);
        }
    }

    /// `istride=`: from behind one record to the start of the next that is read.
    ///
    /// # Errors
    /// The end cannot seek.
    #[inline]
    pub fn stride(&mut self, read: usize) -> Result<(), Error> {
        if self.stride > 1 { self.leap(read) } else { Ok(()) }
    }

    fn leap(&mut self, read: usize) -> Result<(), Error> {
        let failed = |errno| Error::Stride { name: self.name.clone(), errno };
        let leap = self
            .stride
            .checked_mul(widen(self.ibs))
            .and_then(|whole| whole.checked_sub(widen(read)))
            .and_then(|rest| i64::try_from(rest).ok())
            .ok_or_else(|| failed(Errno::OVERFLOW))?;
        // Where the descriptor is elsewhere, the way is not to be measured from there.
        let to = match self.position {
            Some(position) if self.astray.get() => SeekFrom::Start(position.saturating_add_signed(leap)),
            _ => SeekFrom::Current(leap),
        };
        let position = self.kernel.seek(self.fd.as_fd(), to).map_err(failed)?;
        self.position = Some(position);
        self.astray.set(false);
        self.advice.start_at(&*self.kernel, self.fd.as_fd(), position);
        Ok(())
    }

    pub(crate) fn read_error(&self, errno: Errno) -> Error {
        Error::Read { name: self.name.clone(), errno }
    }

    /// The cache as `nocache` wants it at the end.
    ///
    /// # Errors
    /// Only under `count=0`, whose one job it is.
    pub fn settle_cache(&mut self) -> Result<(), Error> {
        if self.cache == Cache::DropAll {
            let from = self.position.unwrap_or(0);
            return drop_to_end(&*self.kernel, self.fd.as_fd(), from)
                .map_err(|errno| Error::DiscardCache { name: self.name.clone(), errno });
        }
        let at_end = self.at_end;
        let _ = self.advice.finish(&*self.kernel, self.fd.as_fd(), at_end);
        Ok(())
    }

    /// # Errors
    /// What `close` says, or that the descriptor was never open.
    pub fn close(self) -> Result<(), Error> {
        let name = self.name;
        self.kernel.close(self.fd).map_err(|errno| Error::CloseInput { name, errno })
    }
}

/// Puts flags on a descriptor that somebody else opened. They stay after we are gone, as with GNU dd.
pub(crate) fn set_flags(kernel: &dyn Kernel, fd: BorrowedFd<'_>, flags: OFlags, directory: bool) -> Result<(), Errno> {
    let settable = flags.difference(OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::DIRECTORY);
    if directory {
        let stat = kernel.fstat(fd)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            return Err(Errno::NOTDIR);
        }
    }
    if settable.is_empty() {
        return Ok(());
    }
    let now = kernel.get_flags(fd)?;
    if now.contains(settable) { Ok(()) } else { kernel.set_flags(fd, now | settable) }
}

/// Opens once more what `fd` is open on, with other flags.
pub(crate) fn reopen(kernel: &dyn Kernel, fd: BorrowedFd<'_>, flags: OFlags) -> Option<OwnedFd> {
    if !kernel.is_the_system() {
        return None;
    }
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    kernel.open(path.as_ref(), flags, Mode::empty()).ok()
}

/// A refusal becomes the error that names it.
pub(crate) fn named<T>(result: Result<T, Cut>, error: impl FnOnce(Errno) -> Error) -> Result<T, Trouble> {
    result.map_err(|cut| match cut {
        Cut::Stopped => Trouble::Stopped,
        Cut::Os(errno) => Trouble::Failed(error(errno)),
    })
}

#[cfg(test)]
#[cfg(not(miri))] // Files and pipes.
mod tests;
