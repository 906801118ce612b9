//! What unit tests of a copy need: plans and jobs made of operands, and a medium that fails as it is told.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fdd_sys::locale::Locale;
use rustix::fs::{FallocateFlags, FileType, Mode, OFlags, SeekFrom, Stat};
use rustix::io::Errno;

use crate::copy::{Buffers, Choice, Job};
use crate::input::Source;
use crate::kernel::{Direction, Kernel, Os};
use crate::monitor::Monitor;
use crate::operands::Request;
use crate::output::Sink;
use crate::plan::Plan;
use crate::quote;
use crate::tally::Tally;
use crate::units::widen;

type Result<T> = std::result::Result<T, Errno>;

pub(crate) fn plan(operands: &str) -> Plan {
    let words: Vec<_> = operands.split(' ').map(Into::into).collect();
    let quotes = quote::Locale { utf8: false };
    let Ok(Request::Copy(operands)) = crate::operands::parse(&words, false, quotes).request else {
        panic!("operands that are a copy: {operands}");
    };
    Plan::resolve(*operands, quotes).expect("operands that go together")
}

/// Bytes of which no two neighbouring sectors are alike and none is zero.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|n| b"abcdefghijklmnopqrstuvwxyz0123456789"[(n + n / 512) % 36]).collect()
}

/// Gets the job of a copy by `operands` on the real system; `input` and `output` stand in where those name no file.
pub(crate) fn with_job<T>(
    operands: &str,
    input: Option<OwnedFd>,
    output: Option<OwnedFd>,
    work: impl FnOnce(&mut Job<'_>) -> T,
) -> T {
    let plan = plan(operands);
    let mut monitor = Monitor::embedded("dd".to_owned(), Locale::default());
    let kernel = Arc::new(Os);
    let given = |end: Option<OwnedFd>| move || end.expect("an end that is not named is given");
    let mut source = Source::open(Arc::<Os>::clone(&kernel), &plan.input, given(input), &mut monitor).expect("opened");
    let mut sink = Sink::open(kernel, &plan.output, given(output), &mut monitor).expect("opened");
    let mut buffers = Buffers::for_plan(&plan).expect("memory");
    work(&mut Job::new(&plan, &mut source, &mut sink, &mut monitor, &mut buffers))
}

/// A whole copy by one way: the tally, and what each way moved.
pub(crate) fn copy_by(
    strategy: &str,
    operands: &str,
    input: Option<OwnedFd>,
    output: Option<OwnedFd>,
) -> (Tally, Vec<(&'static str, u64)>) {
    with_job(operands, input, output, |job| {
        let (outcome, moved) = crate::copy::run(job, &Choice { forced: Some(strategy.to_owned()) });
        assert!(outcome.is_ok_and(|ending| !ending.failed), "{operands} by {strategy}");
        (job.monitor.tally, moved)
    })
}

/// The files of the test, as a medium gives them.
#[derive(Default)]
pub(crate) struct Medium {
    /// Bytes that cannot be read.
    pub(crate) bad: Vec<Range<u64>>,
    /// What a read that meets them says; EIO if nothing else is.
    pub(crate) errno: Option<Errno>,
    /// A read that begins before them gives what is before them.
    pub(crate) partial: bool,
    /// They read well after so many failures.
    pub(crate) tries: Option<u32>,
    /// Then a read that meets them gives at most so many bytes.
    pub(crate) heals_to: Option<usize>,
    pub(crate) failures: AtomicU32,
    /// Each failure takes as long.
    pub(crate) thinks: Duration,
    /// Files can be opened past the cache, and are read so in multiples of this many bytes.
    pub(crate) direct: Option<usize>,
    pub(crate) past_cache: Mutex<Vec<RawFd>>,
    /// Everything is a block device of that number, or a file whose size is not told, or on a file system of that kind.
    pub(crate) device: Option<u64>,
    pub(crate) sizeless: bool,
    pub(crate) magic: Option<u64>,
    /// Ranges of the cache that were given back: offset and length, 0 for all that follows.
    pub(crate) dropped: Mutex<Vec<(u64, u64)>>,
    /// Nothing can seek.
    pub(crate) stream: bool,
    /// What the next seeks say, before they are made.
    pub(crate) seeks: Mutex<VecDeque<Result<()>>>,
    /// What the next reads say, before anything else is looked at: at most so many bytes, or an error.
    pub(crate) reads: Mutex<VecDeque<Result<usize>>>,
    /// What a pipe is said to hold, the next times that is asked.
    pub(crate) holds: Mutex<VecDeque<u64>>,
    /// Offset and length of every positioned read.
    pub(crate) asked: Mutex<Vec<(u64, usize)>>,
    /// Gets the number of the write, from 0, and its length, and tells how many bytes it takes at most.
    #[expect(clippy::type_complexity, reason = "a hook")]
    pub(crate) write: Option<Box<dyn Fn(usize, usize) -> Result<usize> + Send + Sync>>,
    pub(crate) writes: AtomicU32,
    /// As `write`, for writes that leave nothing in the cache; all are refused where there is none.
    #[expect(clippy::type_complexity, reason = "a hook")]
    pub(crate) uncached: Option<Box<dyn Fn(usize, usize) -> Result<usize> + Send + Sync>>,
    pub(crate) uncached_writes: AtomicU32,
}

impl Medium {
    /// One with these bad bytes.
    pub(crate) fn with_bad(bad: &[Range<u64>]) -> Medium {
        Medium { bad: bad.to_vec(), ..Medium::default() }
    }

    /// How many of `len` bytes at `at` can be had.
    fn gives(&self, at: u64, len: usize) -> Result<usize> {
        let end = at + widen(len);
        let met = self.bad.iter().filter(|bad| bad.start < end && at < bad.end).map(|bad| bad.start.max(at)).min();
        let Some(first) = met else { return Ok(len) };
        if self.partial && first > at {
            return Ok(usize::try_from(first - at).expect("less than a read"));
        }
        if self.tries.is_some_and(|tries| self.failures.load(Ordering::Relaxed) >= tries) {
            return Ok(self.heals_to.unwrap_or(len));
        }
        self.failures.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(self.thinks);
        Err(self.errno.unwrap_or(Errno::IO))
    }
}

impl Kernel for Medium {
    fn open(&self, path: &OsStr, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
        if flags.contains(OFlags::DIRECT) && self.direct.is_none() {
            return Err(Errno::INVAL);
        }
        let fd = Os.open(path, flags.difference(OFlags::DIRECT), mode)?;
        if flags.contains(OFlags::DIRECT) {
            self.past_cache.lock().expect("no panic").push(fd.as_raw_fd());
        }
        Ok(fd)
    }
    fn read(&self, fd: BorrowedFd<'_>, buf: &mut [u8]) -> Result<usize> {
        let most = match self.reads.lock().expect("no panic").pop_front() {
            Some(told) => told?.min(buf.len()),
            None => buf.len(),
        };
        // A pipe has neither offsets nor bad spots.
        let most = match Os.seek(fd, SeekFrom::Current(0)) {
            Ok(at) => self.gives(at, most)?,
            Err(_) => most,
        };
        Os.read(fd, &mut buf[..most])
    }
    fn pread(&self, fd: BorrowedFd<'_>, buf: &mut [u8], at: u64) -> Result<usize> {
        self.asked.lock().expect("no panic").push((at, buf.len()));
        if self.past_cache.lock().expect("no panic").contains(&fd.as_raw_fd()) {
            let grain = self.direct.expect("opened past the cache");
            if !at.is_multiple_of(widen(grain)) || !buf.len().is_multiple_of(grain) {
                return Err(Errno::INVAL);
            }
        }
        let most = self.gives(at, buf.len())?;
        Os.pread(fd, &mut buf[..most], at)
    }
    fn write(&self, fd: BorrowedFd<'_>, buf: &[u8]) -> Result<usize> {
        let number = self.writes.fetch_add(1, Ordering::Relaxed);
        let most = match &self.write {
            Some(hook) => hook(usize::try_from(number).expect("a small count"), buf.len())?,
            None => buf.len(),
        };
        Os.write(fd, &buf[..most.min(buf.len())])
    }
    fn write_uncached(&self, fd: BorrowedFd<'_>, buf: &[u8]) -> Result<usize> {
        let number = self.uncached_writes.fetch_add(1, Ordering::Relaxed);
        let hook = self.uncached.as_ref().ok_or(Errno::OPNOTSUPP)?;
        let most = hook(usize::try_from(number).expect("a small count"), buf.len())?;
        Os.write(fd, &buf[..most.min(buf.len())])
    }
    fn seek(&self, fd: BorrowedFd<'_>, to: SeekFrom) -> Result<u64> {
        self.seeks.lock().expect("no panic").pop_front().unwrap_or(Ok(()))?;
        if self.stream { Err(Errno::SPIPE) } else { Os.seek(fd, to) }
    }
    fn truncate(&self, fd: BorrowedFd<'_>, len: u64) -> Result<()> {
        Os.truncate(fd, len)
    }
    fn fstat(&self, fd: BorrowedFd<'_>) -> Result<Stat> {
        let mut stat = Os.fstat(fd)?;
        if let Some(number) = self.device {
            stat.st_mode = (stat.st_mode & 0o7777) | FileType::BlockDevice.as_raw_mode();
            stat.st_rdev = number;
        }
        if self.sizeless {
            stat.st_size = 0;
        }
        Ok(stat)
    }
    fn file_system(&self, fd: BorrowedFd<'_>) -> Result<u64> {
        self.magic.map_or_else(|| Os.file_system(fd), Ok)
    }
    fn fsync(&self, fd: BorrowedFd<'_>) -> Result<()> {
        Os.fsync(fd)
    }
    fn fdatasync(&self, fd: BorrowedFd<'_>) -> Result<()> {
        Os.fdatasync(fd)
    }
    fn get_flags(&self, fd: BorrowedFd<'_>) -> Result<OFlags> {
        let past_cache = self.past_cache.lock().expect("no panic").contains(&fd.as_raw_fd());
        Os.get_flags(fd).map(|flags| if past_cache { flags | OFlags::DIRECT } else { flags })
    }
    fn set_flags(&self, fd: BorrowedFd<'_>, flags: OFlags) -> Result<()> {
        if !flags.contains(OFlags::DIRECT) {
            self.past_cache.lock().expect("no panic").retain(|&past| past != fd.as_raw_fd());
        }
        Os.set_flags(fd, flags.difference(OFlags::DIRECT))
    }
    fn drop_cache(&self, fd: BorrowedFd<'_>, at: u64, len: u64) -> Result<()> {
        self.dropped.lock().expect("no panic").push((at, len));
        Os.drop_cache(fd, at, len)
    }
    fn fallocate(&self, fd: BorrowedFd<'_>, mode: FallocateFlags, at: u64, len: u64) -> Result<()> {
        Os.fallocate(fd, mode, at, len)
    }
    fn zero_out(&self, fd: BorrowedFd<'_>, at: u64, len: u64) -> Result<()> {
        Os.zero_out(fd, at, len)
    }
    fn wait(&self, fd: BorrowedFd<'_>, direction: Direction) -> Result<()> {
        Os.wait(fd, direction)
    }
    fn available(&self, fd: BorrowedFd<'_>) -> Result<u64> {
        let told = self.holds.lock().expect("no panic").pop_front();
        told.map_or_else(|| Os.available(fd), Ok)
    }
    fn close(&self, fd: OwnedFd) -> Result<()> {
        self.past_cache.lock().expect("no panic").retain(|&past| past != fd.as_raw_fd());
        Os.close(fd)
    }
}
