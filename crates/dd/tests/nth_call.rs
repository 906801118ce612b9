//! The nth call to the system fails, for every n, once and for good: the copy must never be taken for right when it is not.
//!
//! In process: the real system behind the narrow door, with one call turned away. After each run the output is a prefix of
//! the right one (and all of it where nothing was said), the tally equals the bytes in the file, and whoever failed said so.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fdd::copy::Choice;
use fdd::kernel::{Direction, Kernel, Os};
use fdd::monitor::Monitor;
use fdd::operands::Request;
use fdd::plan::Plan;
use fdd::{Inherited, Verdict, quote, transfer};
use fdd_sys::locale::Locale;
use rustix::fs::{FallocateFlags, Mode, OFlags, SeekFrom, Stat};
use rustix::io::Errno;

type Result<T> = std::result::Result<T, Errno>;

/// The real system, but for the calls from `from` on (or just that one), which fail with `errno`; and `short` makes every
/// read and write carry at most that many bytes.
struct Faulty {
    made: AtomicU64,
    from: u64,
    for_good: bool,
    errno: Errno,
    short: usize,
}

impl Faulty {
    fn gate(&self) -> Result<()> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let fails = if self.for_good { number >= self.from } else { number == self.from };
        if fails { Err(self.errno) } else { Ok(()) }
    }
}

impl Kernel for Faulty {
    fn open(&self, path: &OsStr, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
        self.gate()?;
        Os.open(path, flags, mode)
    }
    fn read(&self, fd: BorrowedFd<'_>, buf: &mut [u8]) -> Result<usize> {
        self.gate()?;
        let len = buf.len().min(self.short);
        Os.read(fd, &mut buf[..len])
    }
    fn pread(&self, fd: BorrowedFd<'_>, buf: &mut [u8], at: u64) -> Result<usize> {
        self.gate()?;
        Os.pread(fd, buf, at)
    }
    fn write(&self, fd: BorrowedFd<'_>, buf: &[u8]) -> Result<usize> {
        self.gate()?;
        Os.write(fd, &buf[..buf.len().min(self.short)])
    }
    fn seek(&self, fd: BorrowedFd<'_>, to: SeekFrom) -> Result<u64> {
        self.gate()?;
        Os.seek(fd, to)
    }
    fn truncate(&self, fd: BorrowedFd<'_>, len: u64) -> Result<()> {
        self.gate()?;
        Os.truncate(fd, len)
    }
    fn fstat(&self, fd: BorrowedFd<'_>) -> Result<Stat> {
        self.gate()?;
        Os.fstat(fd)
    }
    fn file_system(&self, fd: BorrowedFd<'_>) -> Result<u64> {
        self.gate()?;
        Os.file_system(fd)
    }
    fn fsync(&self, fd: BorrowedFd<'_>) -> Result<()> {
        self.gate()?;
        Os.fsync(fd)
    }
    fn fdatasync(&self, fd: BorrowedFd<'_>) -> Result<()> {
        self.gate()?;
        Os.fdatasync(fd)
    }
    fn get_flags(&self, fd: BorrowedFd<'_>) -> Result<OFlags> {
        self.gate()?;
        Os.get_flags(fd)
    }
    fn set_flags(&self, fd: BorrowedFd<'_>, flags: OFlags) -> Result<()> {
        self.gate()?;
        Os.set_flags(fd, flags)
    }
    fn drop_cache(&self, fd: BorrowedFd<'_>, at: u64, len: u64) -> Result<()> {
        self.gate()?;
        Os.drop_cache(fd, at, len)
    }
    fn fallocate(&self, fd: BorrowedFd<'_>, mode: FallocateFlags, at: u64, len: u64) -> Result<()> {
        self.gate()?;
        Os.fallocate(fd, mode, at, len)
    }
    fn zero_out(&self, fd: BorrowedFd<'_>, at: u64, len: u64) -> Result<()> {
        self.gate()?;
        Os.zero_out(fd, at, len)
    }
    fn wait(&self, fd: BorrowedFd<'_>, direction: Direction) -> Result<()> {
        self.gate()?;
        // Only an invented EAGAIN leads here on files, which are always ready.
        Os.wait(fd, direction)
    }
    fn available(&self, fd: BorrowedFd<'_>) -> Result<u64> {
        self.gate()?;
        Os.available(fd)
    }
    fn close(&self, fd: OwnedFd) -> Result<()> {
        let turned_away = self.gate();
        Os.close(fd).and(turned_away)
    }
}

struct Run {
    verdict: Verdict,
    said: String,
    bytes: u64,
    made: u64,
}

fn run(operands: &[String], faulty: Faulty, strategy: &str) -> Run {
    let args: Vec<_> = operands.iter().map(Into::into).collect();
    let quotes = quote::Locale { utf8: false };
    let Ok(Request::Copy(operands)) = fdd::operands::parse(&args, false, quotes).request else {
        panic!("operands that are a copy: {operands:?}");
    };
    let plan = Plan::resolve(*operands, quotes).expect("operands that go together");
    let mut monitor = Monitor::embedded("dd".to_owned(), Locale::default());
    let kernel = Arc::new(faulty);
    let none = || unreachable!("both ends are named");
    let inherited = Inherited { input: &none, output: &none };
    let choice = Choice { forced: Some(strategy.to_owned()) };
    let verdict = transfer(&plan, Arc::<Faulty>::clone(&kernel), &inherited, &choice, &mut monitor);
    Run {
        verdict,
        said: monitor.messages().concat(),
        bytes: monitor.tally.bytes,
        made: kernel.made.load(Ordering::Relaxed),
    }
}

/// A job, where in the output its bytes begin, and how many bytes at an early end are right for that end only: what is
/// padded or held back for a partner.
const JOBS: &[(&str, &str, usize, usize)] = &[
    ("as read", "bs=512", 0, 0),
    ("gathered", "ibs=100 obs=300", 0, 0),
    ("skip, seek, count", "bs=64 skip=3 seek=2 count=20", 128, 0),
    ("kept tail", "bs=128 conv=notrunc seek=1 count=3", 128, 0),
    ("holes", "bs=256 conv=sparse", 0, 0),
    ("punched", "bs=256 conv=punch,notrunc", 0, 0),
    ("converted", "ibs=7 obs=64 conv=swab,ucase", 0, 1),
    ("records", "ibs=50 cbs=40 conv=block", 0, 40),
    ("padded", "bs=300 conv=sync", 0, 300),
    ("errors passed over", "bs=512 conv=noerror,sync", 0, 512),
    ("durable", "bs=1024 conv=fsync,fdatasync", 0, 0),
    ("no cache", "bs=512 iflag=nocache oflag=nocache", 0, 0),
];

const ERRNOS: &[Errno] = &[Errno::IO, Errno::INTR, Errno::NOSPC, Errno::AGAIN, Errno::INVAL];

#[test]
fn no_failed_call_gives_a_wrong_copy_that_counts_as_right() {
    for strategy in ["pump", "coalesce"] {
        for &(what, operands, begins, tail) in JOBS {
            every_call_fails(what, operands, begins, tail, strategy, usize::MAX);
        }
    }
}

#[test]
fn short_reads_and_writes_change_nothing_about_that() {
    for &(what, operands, begins, tail) in JOBS {
        every_call_fails(what, &format!("{operands} iflag=fullblock"), begins, tail, "pump", 37);
    }
}

fn every_call_fails(what: &str, operands: &str, begins: usize, tail: usize, strategy: &str, short: usize) {
    let dir = tempfile::tempdir().expect("a directory");
    let input = dir.path().join("in");
    let output = dir.path().join("out");
    let mut data: Vec<u8> = (0u32..800).map(|n| b"abcdefghijklmnopqrst\n"[n as usize * n as usize % 21]).collect();
    data[250..560].fill(0);
    fs::write(&input, &data).expect("the input");
    let old = vec![b'#'; 1000];
    let words: Vec<String> =
        format!("if={} of={} {operands}", input.display(), output.display()).split(' ').map(str::to_owned).collect();
    let untouched = Faulty { made: AtomicU64::new(0), from: u64::MAX, for_good: false, errno: Errno::IO, short };
    fs::write(&output, &old).expect("the old output");
    let clean = run(&words, untouched, strategy);
    assert_eq!(clean.verdict, Verdict::Right, "{what}: {}", clean.said);
    let right = fs::read(&output).expect("the right output");
    for &errno in ERRNOS {
        for for_good in [false, true] {
            // A call that is turned away for ever with EINTR or EAGAIN is made for ever: that is what these two mean.
            if for_good && matches!(errno, Errno::INTR | Errno::AGAIN) {
                continue;
            }
            let mut from = 0;
            loop {
                fs::write(&output, &old).expect("the old output");
                let faulty = Faulty { made: AtomicU64::new(0), from, for_good, errno, short };
                let failed = run(&words, faulty, strategy);
                let case =
                    format!("{what} ({operands}), {strategy}: call {from} fails with {errno:?}, for good: {for_good}");
                judge(&case, &failed, &output, &right, &old, begins..begins + tail);
                if failed.made <= from {
                    break;
                }
                from += 1;
            }
        }
    }
}

fn judge(case: &str, failed: &Run, output: &Path, right: &[u8], old: &[u8], region: std::ops::Range<usize>) {
    let got = fs::read(output).expect("the output");
    if failed.verdict == Verdict::Right {
        assert!(got == right, "{case}: taken for right, but it differs\n{}", failed.said);
        return;
    }
    assert!(failed.said.contains("dd: "), "{case}: failed without a word\n{}", failed.said);
    // What was counted is there, and right; nothing before the region has changed.
    let (begins, tail) = (region.start, region.len());
    let counted = usize::try_from(failed.bytes).expect("a small count").saturating_sub(tail);
    let end = (begins + counted).min(right.len());
    if counted > 0 && got.len() >= end {
        assert!(got[begins..end] == right[begins..end], "{case}: counted bytes are wrong\n{}", failed.said);
    }
    let kept = begins.min(got.len());
    assert!(
        got[..kept] == right[..kept] || got[..kept] == old[..kept],
        "{case}: bytes before the region have changed\n{}",
        failed.said
    );
}
