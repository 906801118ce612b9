//! Either end over a system that answers by script: what a real one does seldom, or only when a signal comes just then.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use fdd::copy::Choice;
use fdd::input::Source;
use fdd::kernel::{Direction, Kernel, Os};
use fdd::monitor::Monitor;
use fdd::operands::Request;
use fdd::output::Sink;
use fdd::plan::Plan;
use fdd::tally::Tally;
use fdd::{Inherited, Verdict, quote, transfer};
use fdd_sys::locale::Locale;
use fdd_sys::retry::{Cut, Pause};
use rustix::fs::{FallocateFlags, Mode, OFlags, SeekFrom, Stat};
use rustix::io::Errno;

type Result<T> = std::result::Result<T, Errno>;

/// What becomes of a read or write.
#[derive(Clone, Copy)]
enum Answer {
    Whole,
    /// At most so many bytes.
    Short(usize),
    /// At most so many bytes, and a signal was handled meanwhile.
    Cut(usize),
    Fails(Errno),
}

/// The real system, but for what the script says about the next calls of a kind. Notes the calls that make things durable
/// or change a file by other means than writing.
#[derive(Default)]
struct Scripted {
    reads: Mutex<VecDeque<Answer>>,
    writes: Mutex<VecDeque<Answer>>,
    refuses_fdatasync: Mutex<Option<Errno>>,
    refuses_truncate: bool,
    refuses_fallocate: Vec<FallocateFlags>,
    notes: Mutex<Vec<&'static str>>,
    /// Bytes that each write was asked to take.
    sizes: Mutex<Vec<usize>>,
    directories: Mutex<Vec<std::ffi::OsString>>,
    /// Where names that are relative begin.
    root: Option<std::path::PathBuf>,
    /// Files that were opened past the page cache.
    direct: Mutex<Vec<i32>>,
    signals: Arc<AtomicU32>,
}

impl Scripted {
    fn note(&self, what: &'static str) {
        self.notes.lock().expect("no panic").push(what);
    }

    fn notes(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.notes.lock().expect("no panic"))
    }

    /// How many bytes of `len` may pass.
    fn ask(&self, script: &Mutex<VecDeque<Answer>>, len: usize) -> Result<usize> {
        match script.lock().expect("no panic").pop_front().unwrap_or(Answer::Whole) {
            Answer::Whole => Ok(len),
            Answer::Short(most) => Ok(len.min(most)),
            Answer::Cut(most) => {
                self.signals.fetch_add(1, Ordering::Relaxed);
                Ok(len.min(most))
            }
            Answer::Fails(errno) => Err(errno),
        }
    }
}

impl Kernel for Scripted {
    fn open(&self, path: &OsStr, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
        if flags.contains(OFlags::DIRECTORY) {
            self.note("open directory");
            self.directories.lock().expect("no panic").push(path.to_owned());
        }
        let path = self.root.as_ref().map_or_else(|| path.into(), |root| root.join(path));
        // Not every file system has direct files; the script plays one.
        let fd = Os.open(path.as_os_str(), flags.difference(OFlags::DIRECT), mode)?;
        if flags.contains(OFlags::DIRECT) {
            self.direct.lock().expect("no panic").push(fd.as_raw_fd());
        }
        Ok(fd)
    }
    fn read(&self, fd: BorrowedFd<'_>, buf: &mut [u8]) -> Result<usize> {
        let len = self.ask(&self.reads, buf.len())?;
        let got = Os.read(fd, &mut buf[..len])?;
        if got == 0 {
            self.note("end");
        }
        Ok(got)
    }
    fn pread(&self, fd: BorrowedFd<'_>, buf: &mut [u8], at: u64) -> Result<usize> {
        Os.pread(fd, buf, at)
    }
    fn write(&self, fd: BorrowedFd<'_>, buf: &[u8]) -> Result<usize> {
        self.sizes.lock().expect("no panic").push(buf.len());
        let len = self.ask(&self.writes, buf.len())?;
        if len == 0 { Ok(0) } else { Os.write(fd, &buf[..len]) }
    }
    fn seek(&self, fd: BorrowedFd<'_>, to: SeekFrom) -> Result<u64> {
        Os.seek(fd, to)
    }
    fn truncate(&self, fd: BorrowedFd<'_>, len: u64) -> Result<()> {
        self.note("truncate");
        if self.refuses_truncate { Err(Errno::PERM) } else { Os.truncate(fd, len) }
    }
    fn fstat(&self, fd: BorrowedFd<'_>) -> Result<Stat> {
        Os.fstat(fd)
    }
    fn file_system(&self, fd: BorrowedFd<'_>) -> Result<u64> {
        Os.file_system(fd)
    }
    fn fsync(&self, _fd: BorrowedFd<'_>) -> Result<()> {
        self.note("fsync");
        Ok(())
    }
    fn fdatasync(&self, _fd: BorrowedFd<'_>) -> Result<()> {
        self.note("fdatasync");
        self.refuses_fdatasync.lock().expect("no panic").map_or(Ok(()), Err)
    }
    fn get_flags(&self, fd: BorrowedFd<'_>) -> Result<OFlags> {
        let direct = self.direct.lock().expect("no panic").contains(&fd.as_raw_fd());
        Os.get_flags(fd).map(|flags| if direct { flags | OFlags::DIRECT } else { flags })
    }
    fn set_flags(&self, fd: BorrowedFd<'_>, flags: OFlags) -> Result<()> {
        self.note("set flags");
        if !flags.contains(OFlags::DIRECT) {
            self.direct.lock().expect("no panic").retain(|&direct| direct != fd.as_raw_fd());
        }
        Os.set_flags(fd, flags.difference(OFlags::DIRECT))
    }
    fn drop_cache(&self, fd: BorrowedFd<'_>, at: u64, len: u64) -> Result<()> {
        Os.drop_cache(fd, at, len)
    }
    fn fallocate(&self, fd: BorrowedFd<'_>, mode: FallocateFlags, at: u64, len: u64) -> Result<()> {
        self.note("fallocate");
        if self.refuses_fallocate.iter().any(|&refused| mode.contains(refused)) {
            return Err(Errno::OPNOTSUPP);
        }
        Os.fallocate(fd, mode, at, len)
    }
    fn zero_out(&self, fd: BorrowedFd<'_>, at: u64, len: u64) -> Result<()> {
        Os.zero_out(fd, at, len)
    }
    fn wait(&self, _fd: BorrowedFd<'_>, _direction: Direction) -> Result<()> {
        self.note("wait");
        Ok(())
    }
    fn available(&self, fd: BorrowedFd<'_>) -> Result<u64> {
        Os.available(fd)
    }
    fn close(&self, fd: OwnedFd) -> Result<()> {
        self.direct.lock().expect("no panic").retain(|&direct| direct != fd.as_raw_fd());
        Os.close(fd)
    }
}

/// Sees the signals of the script.
struct Signals(Arc<AtomicU32>);

impl Pause for Signals {
    fn pause(&mut self) -> std::result::Result<(), Cut> {
        Ok(())
    }
    fn interruptions(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

fn plan(operands: &str) -> Plan {
    let words: Vec<_> = operands.split(' ').map(Into::into).collect();
    let quotes = quote::Locale { utf8: false };
    let Ok(Request::Copy(operands)) = fdd::operands::parse(&words, false, quotes).request else {
        panic!("operands that are a copy: {operands}");
    };
    Plan::resolve(*operands, quotes).expect("operands that go together")
}

fn letters(len: usize) -> Vec<u8> {
    (0..len).map(|n| b"abcdefghijklmnopqrstuvw"[n % 23]).collect()
}

struct Reading {
    _dir: tempfile::TempDir,
    source: Source,
    signals: Signals,
}

/// A file of `len` letters under `operands`.
fn reading(len: usize, operands: &str, script: &[Answer]) -> Reading {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("in");
    fs::write(&path, letters(len)).expect("written");
    let kernel = Scripted { reads: Mutex::new(script.iter().copied().collect()), ..Scripted::default() };
    let mut signals = Signals(Arc::clone(&kernel.signals));
    let plan = plan(&format!("if={} of=/dev/null {operands}", path.display()));
    let source = Source::open(Arc::new(kernel), &plan.input, || unreachable!("it is named"), &mut signals);
    Reading { _dir: dir, source: source.expect("opened"), signals }
}

impl Reading {
    fn read(&mut self, len: usize) -> (Vec<u8>, std::result::Result<(), Cut>) {
        let mut buf = vec![b'#'; len];
        let (got, outcome) = self.source.read(&mut buf, &mut self.signals);
        assert!(buf[got..].iter().all(|&byte| byte == b'#'), "bytes beyond those that came");
        buf.truncate(got);
        (buf, outcome)
    }
}

#[test]
fn a_read_of_a_file_that_a_signal_cut_short_is_read_on() {
    let mut reading = reading(1000, "bs=1000", &[Answer::Cut(300), Answer::Short(200)]);
    assert_eq!(reading.read(1000), (letters(1000), Ok(())));
    assert_eq!(reading.source.position(), Some(1000));
}

#[test]
fn a_short_read_without_a_signal_is_a_short_record() {
    let mut reading = reading(1000, "bs=1000", &[Answer::Short(300)]);
    assert_eq!(reading.read(1000), (letters(300), Ok(())));
    assert_eq!(reading.source.position(), Some(300));
}

#[test]
fn reading_on_ends_where_the_file_does() {
    let mut reading = reading(500, "bs=1000", &[Answer::Cut(300)]);
    assert_eq!(reading.read(1000), (letters(500), Ok(())));
    assert_eq!(reading.source.position(), Some(500));
}

#[test]
fn an_error_while_reading_on_is_left_to_the_next_read() {
    let mut reading = reading(1000, "bs=1000", &[Answer::Cut(300), Answer::Fails(Errno::IO)]);
    assert_eq!(reading.read(1000), (letters(300), Ok(())));
    assert_eq!(reading.source.position(), Some(300));
    assert_eq!(reading.read(1000), (letters(1000)[300..].to_vec(), Ok(())));
}

#[test]
fn a_read_of_a_pipe_that_a_signal_cut_short_is_a_short_record() {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    std::io::Write::write_all(&mut writer, &letters(1000)).expect("it fits");
    let kernel = Scripted { reads: Mutex::new([Answer::Cut(300)].into()), ..Scripted::default() };
    let mut signals = Signals(Arc::clone(&kernel.signals));
    let source = Source::open(Arc::new(kernel), &plan("bs=1000").input, || reader.into(), &mut signals);
    let (got, outcome) = source.expect("opened").read(&mut [0; 1000], &mut signals);
    assert_eq!((got, outcome), (300, Ok(())));
}

#[test]
fn a_direct_file_that_refuses_the_read_after_its_short_end_has_ended() {
    let refuses = [Answer::Whole, Answer::Whole, Answer::Fails(Errno::INVAL)];
    let mut direct = reading(812, "bs=512 iflag=direct", &refuses);
    assert_eq!(direct.read(512).0.len(), 512);
    assert_eq!(direct.read(512).0.len(), 300);
    assert_eq!(direct.read(512), (vec![], Ok(())));
    let mut buffered = reading(812, "bs=512", &refuses);
    assert_eq!((buffered.read(512).0.len(), buffered.read(512).0.len()), (512, 300));
    assert_eq!(buffered.read(512), (vec![], Err(Cut::Os(Errno::INVAL))));
}

#[test]
fn a_direct_file_that_refuses_after_a_whole_block_or_at_once_has_failed() {
    let mut whole = reading(1024, "bs=512 iflag=direct", &[Answer::Whole, Answer::Fails(Errno::INVAL)]);
    assert_eq!(whole.read(512).0.len(), 512);
    assert_eq!(whole.read(512).1, Err(Cut::Os(Errno::INVAL)));
    let mut empty = reading(0, "bs=512 iflag=direct", &[Answer::Whole, Answer::Fails(Errno::INVAL)]);
    assert_eq!(empty.read(512), (vec![], Ok(())));
    assert_eq!(empty.read(512).1, Err(Cut::Os(Errno::INVAL)));
}

#[test]
fn a_pipe_that_has_ended_is_not_asked_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let to = dir.path().join("out");
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    std::io::Write::write_all(&mut writer, &letters(12_000)).expect("it fits");
    drop(writer);
    let kernel = Arc::new(Scripted::default());
    let (tally, _) = copy(&format!("of={} bs=5000", to.display()), &kernel, Some(reader.into()), None);
    assert_eq!(kernel.notes().iter().filter(|&&note| note == "end").count(), 1, "a FIFO may have its next writer then");
    assert_eq!((fs::read(&to).expect("the output"), tally.bytes), (letters(12_000), 12_000));
}

/// A whole copy that has to be right.
fn copy(
    operands: &str,
    kernel: &Arc<Scripted>,
    input: Option<OwnedFd>,
    output: Option<OwnedFd>,
) -> (Tally, Vec<String>) {
    let mut monitor = Monitor::embedded("dd".to_owned(), Locale::default());
    let (input, output) = (Mutex::new(input), Mutex::new(output));
    let take = |end: &Mutex<Option<OwnedFd>>| end.lock().expect("no panic").take().expect("asked once");
    let inherited = Inherited { input: &|| take(&input), output: &|| take(&output) };
    let verdict =
        transfer(&plan(operands), Arc::<Scripted>::clone(kernel), &inherited, &Choice::default(), &mut monitor);
    assert_eq!(verdict, Verdict::Right, "{:?}", monitor.messages());
    (monitor.tally, monitor.messages().to_vec())
}

/// A hole, 100,000 letters from 1 MiB on, and a hole up to 2 MiB.
fn holey(path: &Path) -> Vec<u8> {
    use std::os::unix::fs::FileExt as _;
    let file = File::create(path).expect("made");
    file.write_all_at(&letters(100_000), 1 << 20).expect("written");
    file.set_len(2 << 20).expect("extended");
    fs::read(path).expect("readable")
}

#[test]
fn holes_of_the_input_are_counted_and_read_as_zeros() {
    let dir = tempfile::tempdir().expect("a directory");
    let (from, to) = (dir.path().join("in"), dir.path().join("out"));
    let data = holey(&from);
    for (rest, blocks) in [("bs=4k conv=sparse", 512), ("bs=512 conv=sparse", 4096), ("bs=4k conv=punch", 512)] {
        let ends = format!("if={} of={}", from.display(), to.display());
        let (tally, said) = copy(&format!("{ends} {rest}"), &Arc::default(), None, None);
        assert!(fs::read(&to).expect("the output") == data, "{rest}: the bytes differ");
        assert_eq!((tally.bytes, tally.read.full, tally.written.full), (2 << 20, blocks, blocks), "{rest}: {said:?}");
        let data_blocks = 100_000_u64.div_ceil((2 << 20) / blocks);
        assert_eq!(tally.sparse, blocks - data_blocks, "{rest}");
        assert!(fs::metadata(&to).expect("there").blocks() * 512 < 1 << 20, "{rest}: holes were written");
    }
    let (tally, _) = copy(&format!("if={} of=/dev/null bs=4k", from.display()), &Arc::default(), None, None);
    assert_eq!((tally.bytes, tally.read.full, tally.written.full), (2 << 20, 512, 512));
}

#[test]
fn a_hole_is_not_passed_beyond_count_or_behind_skip() {
    let dir = tempfile::tempdir().expect("a directory");
    let (from, to) = (dir.path().join("in"), dir.path().join("out"));
    let data = holey(&from);
    for (skip, count) in [(0, 100), (3, 300), (200, 57), (300, 212)] {
        let operands = format!("if={} of={} bs=4k conv=sparse skip={skip} count={count}", from.display(), to.display());
        let (tally, _) = copy(&operands, &Arc::default(), None, None);
        let wanted = &data[skip * 4096..(skip + count) * 4096];
        assert!(fs::read(&to).expect("the output") == wanted, "skip={skip} count={count}: the bytes differ");
        assert_eq!((tally.bytes, tally.read.full), ((count * 4096) as u64, count as u64));
    }
}

struct Writing {
    dir: tempfile::TempDir,
    kernel: Arc<Scripted>,
    sink: Sink,
    signals: Signals,
}

/// A file under `operands`; `old` is what was there before, if anything was.
fn writing(old: Option<&[u8]>, operands: &str, kernel: Scripted) -> Writing {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("out");
    if let Some(old) = old {
        fs::write(&path, old).expect("written");
    }
    let mut signals = Signals(Arc::clone(&kernel.signals));
    let kernel = Arc::new(kernel);
    let plan = plan(&format!("if=/dev/null of={} {operands}", path.display()));
    let never = || unreachable!("it is named");
    let sink = Sink::open(Arc::<Scripted>::clone(&kernel), &plan.output, never, &mut signals).expect("opened");
    kernel.notes();
    Writing { dir, kernel, sink, signals }
}

fn writes(script: &[Answer]) -> Scripted {
    Scripted { writes: Mutex::new(script.iter().copied().collect()), ..Scripted::default() }
}

impl Writing {
    fn write(&mut self, block: &[u8]) -> (usize, std::result::Result<(), Cut>) {
        self.sink.write_block(block, &mut self.signals)
    }
    fn finish(&mut self) -> std::result::Result<(), Cut> {
        self.sink.finish(&mut self.signals)
    }
    fn sync(&mut self) -> (usize, Vec<&'static str>) {
        let errors = self.sink.sync(true, &mut self.signals).expect("not stopped");
        (errors.len(), self.kernel.notes())
    }
    fn bytes(&self) -> Vec<u8> {
        fs::read(self.dir.path().join("out")).expect("the output")
    }
}

#[test]
fn short_writes_go_on_where_they_ended() {
    let mut writing = writing(None, "bs=1000", writes(&[Answer::Short(1), Answer::Cut(2), Answer::Short(500)]));
    assert_eq!(writing.write(&letters(1000)), (1000, Ok(())));
    assert_eq!((writing.bytes(), writing.sink.position()), (letters(1000), Some(1000)));
}

#[test]
fn what_was_written_before_an_error_is_told() {
    let mut writing = writing(None, "bs=1000", writes(&[Answer::Short(300), Answer::Fails(Errno::IO)]));
    assert_eq!(writing.write(&letters(1000)), (300, Err(Cut::Os(Errno::IO))));
    assert_eq!((writing.bytes(), writing.sink.position()), (letters(300), Some(300)));
}

#[test]
fn a_write_that_takes_nothing_and_says_nothing_means_a_full_device() {
    let mut writing = writing(None, "bs=1000", writes(&[Answer::Short(300), Answer::Short(0)]));
    assert_eq!(writing.write(&letters(1000)), (300, Err(Cut::Os(Errno::NOSPC))));
}

#[test]
fn an_output_that_is_not_ready_is_waited_for_unless_nonblock_was_asked_for() {
    let not_ready = [Answer::Short(300), Answer::Fails(Errno::AGAIN)];
    let mut waits = writing(None, "bs=1000", writes(&not_ready));
    assert_eq!(waits.write(&letters(1000)), (1000, Ok(())));
    assert_eq!((waits.kernel.notes(), waits.bytes()), (vec!["wait"], letters(1000)));
    let mut gives_up = writing(None, "bs=1000 oflag=nonblock", writes(&not_ready));
    assert_eq!(gives_up.write(&letters(1000)), (300, Err(Cut::Os(Errno::AGAIN))));
}

#[test]
fn what_is_to_be_durable_is_synced_and_its_new_name_too() {
    let new_name = ["open directory", "fsync"];
    let rows: &[(&str, &[&str])] =
        &[("conv=fsync", &["fsync"]), ("conv=fdatasync", &["fdatasync"]), ("oflag=sync", &[]), ("oflag=dsync", &[])];
    for (asked, calls) in rows {
        let mut new = writing(None, asked, Scripted::default());
        assert_eq!(new.sync(), (0, [calls, &new_name[..]].concat()), "{asked}");
        assert_eq!(*new.kernel.directories.lock().expect("no panic"), [new.dir.path()], "{asked}");
        assert_eq!(writing(Some(b"old"), asked, Scripted::default()).sync(), (0, calls.to_vec()), "{asked}");
    }
    assert_eq!(writing(None, "bs=512", Scripted::default()).sync(), (0, vec![]), "nothing was asked for");
}

#[test]
fn the_directory_of_a_name_without_one_is_the_current_one() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::create_dir(dir.path().join("below")).expect("made");
    for (name, directory) in [("out", "."), ("./out2", "."), ("below/out", "below")] {
        let kernel = Arc::new(Scripted { root: Some(dir.path().to_owned()), ..Scripted::default() });
        let mut signals = Signals(Arc::clone(&kernel.signals));
        let plan = plan(&format!("if=/dev/null of={name} conv=fsync"));
        let never = || unreachable!("it is named");
        let sink = Sink::open(Arc::<Scripted>::clone(&kernel), &plan.output, never, &mut signals);
        let errors = sink.expect("opened").sync(true, &mut signals).expect("not stopped");
        assert_eq!(errors.len(), 0, "{name}");
        assert_eq!(*kernel.directories.lock().expect("no panic"), [directory], "{name}");
    }
}

#[test]
fn where_fdatasync_is_not_to_be_had_fsync_is_called() {
    for (errno, errors) in [(Errno::INVAL, 0), (Errno::NOSYS, 0), (Errno::IO, 1)] {
        let kernel = Scripted { refuses_fdatasync: Mutex::new(Some(errno)), ..Scripted::default() };
        let synced = writing(Some(b"old"), "conv=fdatasync", kernel).sync();
        assert_eq!(synced, (errors, vec!["fdatasync", "fsync"]), "{errno:?}");
    }
}

#[test]
fn a_short_block_ends_direct_writing_and_is_synced() {
    for (asked, calls) in [("bs=512", vec!["fsync"]), ("bs=512 conv=fdatasync", vec!["fdatasync", "fsync"])] {
        let mut writing = writing(Some(b"old"), &format!("{asked} oflag=direct"), Scripted::default());
        assert_eq!(writing.write(&letters(512)), (512, Ok(())));
        assert_eq!(writing.kernel.notes(), Vec::<&str>::new(), "whole blocks are written directly");
        assert_eq!(writing.write(&letters(100)), (100, Ok(())));
        assert_eq!(writing.kernel.notes(), ["set flags"]);
        assert_eq!(writing.sync(), (0, calls));
    }
}

#[test]
fn a_hole_at_the_end_gives_the_file_its_length_and_no_more_than_that() {
    let mut shorter = writing(None, "bs=512 conv=sparse", Scripted::default());
    assert_eq!(shorter.write(&letters(512)), (512, Ok(())));
    assert_eq!(shorter.write(&[0; 512]), (512, Ok(())));
    assert_eq!((shorter.bytes().len(), shorter.sink.pending_hole()), (512, 512));
    assert_eq!(shorter.finish(), Ok(()));
    assert_eq!((shorter.bytes(), shorter.kernel.notes()), ([letters(512), vec![0; 512]].concat(), vec!["truncate"]));
    // Old data under a hole stay with conv=sparse,notrunc, as documented, and so does what is behind it.
    for old in [1024, 2000] {
        let mut longer = writing(Some(&vec![b'Z'; old]), "bs=512 conv=sparse,notrunc", Scripted::default());
        assert_eq!(longer.write(&letters(512)), (512, Ok(())));
        assert_eq!(longer.write(&[0; 512]), (512, Ok(())));
        assert_eq!(longer.finish(), Ok(()));
        assert_eq!((longer.bytes().len(), longer.kernel.notes()), (old, vec![]));
    }
}

#[test]
fn a_hole_that_cannot_give_the_file_its_length_is_written() {
    let kernel = Scripted { refuses_truncate: true, ..Scripted::default() };
    let mut writing = writing(None, "bs=70000 conv=sparse", kernel);
    assert_eq!(writing.write(&letters(70_000)), (70_000, Ok(())));
    assert_eq!(writing.write(&[0; 70_000]), (70_000, Ok(())));
    assert_eq!(writing.finish(), Ok(()));
    assert_eq!(writing.bytes(), [letters(70_000), vec![0; 70_000]].concat());
    assert_eq!(writing.sink.position(), Some(140_000));
}

#[test]
fn a_hole_over_old_data_is_punched_or_zeroed_or_written() {
    let wanted = [letters(512), vec![0; 512], letters(512), vec![b'Z'; 464]].concat();
    let (punch, zero) = (FallocateFlags::PUNCH_HOLE, FallocateFlags::ZERO_RANGE);
    for (refuses_fallocate, tried) in [(vec![], 1), (vec![punch], 2), (vec![punch, zero], 2)] {
        let kernel = Scripted { refuses_fallocate, ..Scripted::default() };
        let mut writing = writing(Some(&[b'Z'; 2000]), "bs=512 conv=punch,notrunc", kernel);
        for block in [&letters(512), &vec![0; 512], &letters(512)] {
            assert_eq!(writing.write(block), (512, Ok(())));
        }
        assert_eq!(writing.finish(), Ok(()));
        assert_eq!((writing.bytes(), writing.sink.position()), (wanted.clone(), Some(1536)));
        assert_eq!(writing.kernel.notes().len(), tried);
    }
}

#[test]
fn behind_the_end_of_the_file_there_is_nothing_to_punch() {
    let mut writing = writing(Some(&[b'Z'; 512]), "bs=512 conv=punch,notrunc", Scripted::default());
    for block in [&letters(512), &vec![0; 512], &letters(512)] {
        assert_eq!(writing.write(block), (512, Ok(())));
    }
    assert_eq!(
        (writing.bytes(), writing.kernel.notes()),
        ([letters(512), vec![0; 512], letters(512)].concat(), vec![])
    );
}

#[test]
fn an_error_in_the_middle_of_a_hole_leaves_the_rest_of_it_to_be_done() {
    let kernel = Scripted {
        refuses_truncate: true,
        writes: Mutex::new([Answer::Whole, Answer::Whole, Answer::Short(1000), Answer::Fails(Errno::NOSPC)].into()),
        ..Scripted::default()
    };
    let mut writing = writing(None, "bs=70000 conv=sparse", kernel);
    assert_eq!(writing.write(&letters(70_000)), (70_000, Ok(())));
    assert_eq!(writing.write(&[0; 70_000]), (70_000, Ok(())));
    assert_eq!(writing.finish(), Err(Cut::Os(Errno::NOSPC)));
    assert_eq!(writing.sink.pending_hole(), 70_000 - 65_536 - 1000);
    assert_eq!(writing.bytes().len(), 70_000 + 65_536 + 1000);
}

/// The sizes of the writes by which 20 blocks of `bs` bytes go to `to` and `inherited`.
fn write_sizes(bs: usize, to: &str, inherited: Option<OwnedFd>) -> Vec<usize> {
    let from = tempfile::NamedTempFile::new().expect("a file");
    fs::write(from.path(), letters(20 * bs)).expect("written");
    let kernel = Arc::new(Scripted::default());
    let operands = format!("if={} bs={bs} {to}", from.path().display());
    copy(operands.trim_end(), &kernel, None, inherited);
    let sizes = kernel.sizes.lock().expect("no panic").clone();
    assert_eq!(sizes.iter().sum::<usize>(), 20 * bs, "{to}");
    sizes
}

#[test]
fn blocks_are_joined_in_a_file_and_on_the_way_to_nowhere() {
    let dir = tempfile::tempdir().expect("a directory");
    let to = format!("of={}", dir.path().join("out").display());
    for to in [&to[..], "of=/dev/null"] {
        assert!(write_sizes(512, to, None).len() < 20, "{to}");
    }
}

#[test]
fn blocks_are_not_joined_where_each_write_is_a_promise() {
    let dir = tempfile::tempdir().expect("a directory");
    for flag in ["oflag=sync", "oflag=dsync", "oflag=append conv=notrunc"] {
        let to = format!("of={} {flag}", dir.path().join("out").display());
        assert_eq!(write_sizes(512, &to, None), [512; 20], "{flag}");
    }
}

#[test]
fn blocks_are_not_joined_where_the_output_is_direct() {
    let dir = tempfile::tempdir().expect("a directory");
    let to = format!("of={} oflag=direct", dir.path().join("out").display());
    assert_eq!(write_sizes(512, &to, None), [512; 20]);
}

/// A pipe that holds 20 blocks of some thousand bytes, and its write end.
fn pipe_with_room(nonblocking: bool) -> (std::io::PipeReader, OwnedFd) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    rustix::pipe::fcntl_setpipe_size(&writer, 256 << 10).expect("a wide pipe");
    if nonblocking {
        rustix::fs::fcntl_setfl(&writer, OFlags::NONBLOCK).expect("set");
    }
    (reader, writer.into())
}

#[test]
fn only_blocks_that_a_pipe_takes_in_pieces_anyway_are_joined() {
    for (bs, nonblocking, joined) in
        [(4095, false, false), (4096, false, false), (4097, false, true), (5000, true, false)]
    {
        let (_reader, writer) = pipe_with_room(nonblocking);
        let sizes = write_sizes(bs, "", Some(writer));
        assert_eq!(sizes.len() < 20, joined, "bs={bs}, nonblocking: {nonblocking}: {sizes:?}");
    }
}

/// An output that cannot seek and can be read, as a tape: `there` is on it, and where `ends`, nothing more.
fn tape(there: usize, ends: bool, operands: &str) -> (std::os::unix::net::UnixStream, Sink, Signals) {
    use std::io::Write as _;
    let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().expect("a pair");
    theirs.write_all(&letters(there)).expect("it fits");
    if ends {
        theirs.shutdown(std::net::Shutdown::Write).expect("shut down");
    }
    let plan = plan(operands);
    let mut signals = Signals(Arc::default());
    let mut sink =
        Sink::open(Arc::new(Scripted::default()), &plan.output, || ours.into(), &mut signals).expect("opened");
    sink.seek(plan.output.seek, &mut signals).expect("passed over");
    (theirs, sink, signals)
}

#[test]
fn a_tape_is_passed_over_by_reading_exactly_what_was_asked_for() {
    for (operands, passed) in [("bs=10 seek=25B", 25), ("bs=10 seek=3", 30), ("bs=10 seek=4B", 4)] {
        let (_theirs, sink, _signals) = tape(100, false, operands);
        let mut left = [0; 200];
        let got = rustix::io::read(sink.fd(), &mut left).expect("there is more");
        assert_eq!(&left[..got], &letters(100)[passed..], "{operands}");
    }
}

#[test]
fn a_tape_that_ends_before_the_point_is_filled_up_with_zeros() {
    use std::io::Read as _;
    // A short record counts as one, as on a tape.
    for (there, zeros) in [(0, 25), (4, 15), (12, 5), (20, 5), (25, 0)] {
        let (mut theirs, mut sink, mut signals) = tape(there, true, "bs=10 seek=25B");
        assert_eq!(sink.write_block(b"0123456789", &mut signals), (10, Ok(())));
        drop(sink);
        let mut got = Vec::new();
        theirs.read_to_end(&mut got).expect("read");
        assert_eq!(got, [vec![0; zeros], b"0123456789".to_vec()].concat(), "{there} bytes on it");
    }
}

#[test]
fn flags_of_an_inherited_descriptor_are_added_to() {
    let (_reader, writer) = pipe_with_room(true);
    let mut signals = Signals(Arc::default());
    let plan = plan("oflag=append,nonblock conv=notrunc");
    let sink = Sink::open(Arc::new(Scripted::default()), &plan.output, || writer, &mut signals).expect("opened");
    let flags = rustix::fs::fcntl_getfl(sink.fd()).expect("flags");
    assert!(flags.contains(OFlags::APPEND | OFlags::NONBLOCK), "{flags:?}");
}

#[test]
fn a_file_that_must_be_new_is_not_opened_when_it_is_there_durable_or_not() {
    let there = tempfile::NamedTempFile::new().expect("a file");
    for conv in ["excl", "excl,fsync", "excl,fdatasync"] {
        let plan = plan(&format!("of={} conv={conv}", there.path().display()));
        let mut signals = Signals(Arc::default());
        let never = || unreachable!("it is named");
        assert!(Sink::open(Arc::new(Scripted::default()), &plan.output, never, &mut signals).is_err(), "{conv}");
    }
}

#[test]
fn what_a_joined_write_had_taken_is_written_and_counted_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let (from, to) = (dir.path().join("in"), dir.path().join("out"));
    fs::write(&from, letters(20 * 512)).expect("written");
    // The joined write stops in the second block; block by block the error does not come again.
    let kernel = Arc::new(writes(&[Answer::Short(700), Answer::Fails(Errno::IO)]));
    let (tally, _) = copy(&format!("if={} of={} bs=512", from.display(), to.display()), &kernel, None, None);
    assert_eq!(kernel.sizes.lock().expect("no panic").get(2), Some(&(1024 - 700)), "the rest of the second block");
    assert_eq!(fs::read(&to).expect("the output"), letters(20 * 512));
    assert_eq!((tally.bytes, tally.read.full, tally.written.full), (20 * 512, 20, 20));
}

#[test]
fn sizes_that_no_chunk_is_a_multiple_of_are_gathered_to_the_byte() {
    let dir = tempfile::tempdir().expect("a directory");
    let (from, to) = (dir.path().join("in"), dir.path().join("out"));
    let data = letters(600_001);
    fs::write(&from, &data).expect("written");
    for (ibs, obs) in [(3001, 4099), (4099, 3001), (40_961, 50_021), (7, 100_003), (100_003, 7)] {
        let operands = format!("if={} of={} ibs={ibs} obs={obs}", from.display(), to.display());
        let (tally, _) = copy(&operands, &Arc::default(), None, None);
        assert!(fs::read(&to).expect("the output") == data, "{ibs} to {obs}: the bytes differ");
        let (read, written) = (600_001 / ibs, 600_001 / obs);
        assert_eq!((tally.bytes, tally.read.full, tally.written.full), (600_001, read, written), "{ibs} to {obs}");
        assert_eq!((tally.read.partial, tally.written.partial), (1, 1), "{ibs} to {obs}");
    }
}

#[test]
fn records_cut_to_cbs_are_counted_across_chunks() {
    let dir = tempfile::tempdir().expect("a directory");
    let (from, to) = (dir.path().join("in"), dir.path().join("out"));
    // Every third line is longer than cbs, in each chunk and across their edges.
    let lines: String = (0..150_000).map(|n| if n % 3 == 0 { "eleven byte\n" } else { "short\n" }).collect();
    assert!(lines.len() > 2 * (512 << 10));
    fs::write(&from, &lines).expect("written");
    let wanted: String = (0..150_000).map(|n| if n % 3 == 0 { "eleven byt" } else { "short     " }).collect();
    for rest in ["ibs=100", "ibs=1000 obs=3000", "ibs=512 obs=70000"] {
        let operands = format!("if={} of={} cbs=10 conv=block {rest}", from.display(), to.display());
        let (tally, _) = copy(&operands, &Arc::default(), None, None);
        assert!(fs::read_to_string(&to).expect("the output") == wanted, "{rest}: the bytes differ");
        assert_eq!((tally.truncated, tally.bytes), (50_000, 1_500_000), "{rest}");
    }
}
