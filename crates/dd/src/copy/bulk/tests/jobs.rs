//! Jobs on real files: when the way is open, what it sets out to do, and how it leaves the ends and the counts.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use rustix::fs::SeekFrom;
use rustix::pipe::PipeFlags;

use crate::copy::bulk::*;
use crate::tally::Records;
use crate::testing::{pattern, with_job};

const MIB: u64 = 1 << 20;

/// An input of some bytes on the medium of the build, and a place for an output.
struct Ends {
    input: PathBuf,
    output: PathBuf,
    _home: tempfile::TempDir,
}

impl Ends {
    fn new(len: u64) -> Ends {
        let program = std::env::current_exe().expect("this program");
        let home = tempfile::tempdir_in(program.parent().expect("its directory")).expect("a directory");
        let ends = Ends { input: home.path().join("in"), output: home.path().join("out"), _home: home };
        write_down(&ends.input, len);
        ends
    }

    /// As `new`; `None`, said aloud, where the medium takes no direct requests or keeps its pages.
    fn direct(len: u64) -> Option<Ends> {
        let ends = Ends::new(len);
        let file = File::open(&ends.input).expect("the input");
        make_cold(&file);
        let cold = fdd_io::cache::cached(&file, 0..len.max(1)).is_some_and(|found| found.cached == 0);
        if !(1..=PAGE).contains(&told_align(&file)) || !cold {
            eprintln!("skipped: no direct requests for files beside the build, or nothing leaves their cache");
            return None;
        }
        Some(ends)
    }

    fn job<T>(&self, operands: &str, work: impl FnOnce(&mut Job<'_>) -> T) -> T {
        with_job(&format!("if={} of={} {operands}", self.input.display(), self.output.display()), None, None, work)
    }
}

fn write_down(path: &std::path::Path, len: u64) {
    std::fs::write(path, pattern(usize::try_from(len).expect("small"))).expect("written");
    File::open(path).expect("a file").sync_all().expect("synced");
}

fn make_cold(file: &File) {
    rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed).expect("advice");
}

/// What the kernel says direct requests have to be multiples of; 0 where there are none or it does not say.
fn told_align(file: &File) -> u64 {
    let told = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).expect("a file");
    u64::from(told.stx_dio_offset_align)
}

fn offset(fd: BorrowedFd<'_>) -> u64 {
    rustix::fs::seek(fd, SeekFrom::Current(0)).expect("a file seeks")
}

fn is_direct(fd: &OwnedFd) -> bool {
    rustix::fs::fcntl_getfl(fd).expect("flags").contains(OFlags::DIRECT)
}

fn records(full: u64, partial: u64) -> Records {
    Records { full, partial }
}

#[test]
fn the_way_is_open_for_two_files_unless_something_ties_records_to_their_moments() {
    let ends = Ends::new(64 << 10);
    for (operands, open) in [
        ("bs=4K", true),
        ("bs=512", true),
        ("ibs=3 obs=5", true),
        ("bs=512 conv=sync,noerror", true),
        ("bs=4K iflag=nocache oflag=neutral conv=fsync", true),
        ("bs=4K conv=notrunc oflag=append", false),
        ("bs=4K oflag=sync", false),
        ("bs=4K oflag=dsync", false),
        ("bs=4K conv=ucase", false),
        ("bs=4K conv=sparse", false),
        ("bs=4K conv=punch", false),
        ("bs=4K speed=1M", false),
        ("bs=4K buffer=64K", false),
        ("bs=4K hash=md5", false),
        ("bs=4K files=2", false),
        ("bs=4K istride=2", false),
        ("bs=4K ostride=2", false),
    ] {
        assert_eq!(ends.job(operands, |job| allowed(job)), open, "{operands}");
    }
    ends.job("ibs=3 obs=5", |job| {
        job.buffers.output.as_mut().expect("a block").hold(b"x");
        assert!(!allowed(job), "part of a block waits");
    });
    let both = format!("if={0} of={0} bs=4K conv=notrunc", ends.input.display());
    assert!(!with_job(&both, None, None, |job| allowed(job)), "one file");
}

#[test]
fn the_way_is_open_between_ends_that_show_no_sizes() {
    let ends = Ends::new(64 << 10);
    std::fs::write(&ends.output, "old").expect("written");
    let may = |operands: &str, from: OwnedFd, to: OwnedFd| with_job(operands, Some(from), Some(to), |job| allowed(job));
    let reading = || OwnedFd::from(File::open(&ends.input).expect("the input"));
    let writing = || OwnedFd::from(OpenOptions::new().write(true).open(&ends.output).expect("the output"));
    let device = |path| OwnedFd::from(OpenOptions::new().read(true).write(true).open(path).expect("a device"));
    let pipe = |flags| rustix::pipe::pipe_with(flags).expect("a pipe");
    let blocking = PipeFlags::empty();

    assert!(may("bs=4K", reading(), writing()));
    for (operands, open) in [("bs=4095", false), ("bs=4096", false), ("bs=4097", true), ("ibs=64K obs=4K", false)] {
        assert_eq!(may(operands, reading(), pipe(blocking).1), open, "into a pipe by {operands}");
    }
    assert!(!may("bs=64K", reading(), pipe(PipeFlags::NONBLOCK).1), "a pipe that does not wait");
    assert!(may("bs=512", reading(), device("/dev/null")));
    assert!(!may("bs=4K", reading(), device("/dev/full")), "a device that seeks and is no storage");
    assert!(!may("bs=4K", device("/dev/zero"), writing()), "a device that seeks and is no storage");
    assert!(!may("bs=4K", pipe(blocking).0, writing()));
    let (socket, _other) = std::os::unix::net::UnixStream::pair().expect("sockets");
    assert!(!may("bs=64K", reading(), socket.into()));
}

#[test]
fn a_second_descriptor_is_not_to_do_what_the_first_one_may_not() {
    let ends = Ends::new(64 << 10);
    std::fs::write(&ends.output, "old").expect("written");
    let open = |path: &PathBuf, flags| rustix::fs::open(path, flags, rustix::fs::Mode::empty()).expect("opened");
    for (input, output, may) in [
        (OFlags::RDONLY, OFlags::WRONLY, true),
        (OFlags::RDWR, OFlags::RDWR, true),
        (OFlags::WRONLY, OFlags::WRONLY, false),
        (OFlags::RDONLY, OFlags::RDONLY, false),
    ] {
        let (from, to) = (open(&ends.input, input), open(&ends.output, output));
        assert_eq!(with_job("bs=4K", Some(from), Some(to), |job| allowed(job)), may, "{input:?} {output:?}");
    }
    // Such a descriptor refuses to seek, but a test of the flags alone says why.
    for (input, output) in [(OFlags::PATH, OFlags::empty()), (OFlags::empty(), OFlags::PATH)] {
        ends.job("bs=4K", |job| {
            job.source.facts.flags |= input;
            job.sink.facts.flags |= output;
            assert!(!allowed(job), "{input:?} {output:?}");
        });
    }
}

#[test]
fn what_was_asked_for_directly_has_to_be_possible_record_by_record() {
    let Some(ends) = Ends::direct(64 << 10) else { return };
    let align = told_align(&File::open(&ends.input).expect("the input"));
    let whole = align;
    let part = align / 2;
    for (operands, open) in [
        (format!("bs={whole} iflag=direct"), true),
        (format!("bs={whole} oflag=direct"), true),
        (format!("bs={whole} iflag=direct oflag=direct"), true),
        (format!("bs={part} iflag=direct"), false),
        (format!("bs={part} oflag=direct"), false),
        (format!("ibs={part} obs={whole} iflag=direct"), false),
        (format!("ibs={whole} obs={part} oflag=direct"), false),
        (format!("bs={whole} iflag=direct iseek={part}B"), false),
        (format!("bs={whole} oflag=direct oseek={part}B"), false),
        (format!("bs={whole} iflag=direct oseek={part}B"), true),
        (format!("bs={whole} oflag=direct iseek={part}B"), true),
    ] {
        let may = ends.job(&operands, |job| {
            job.source.skip(job.plan.input.skip, job.monitor).expect("skipped");
            job.sink.seek(job.plan.output.seek, job.monitor).expect("sought");
            allowed(job)
        });
        assert_eq!(may, open, "{operands}");
    }
}

#[test]
fn direct_requests_are_aligned_as_the_file_wants_and_memory_has_none() {
    let Some(ends) = Ends::direct(64 << 10) else { return };
    let file = File::open(&ends.input).expect("the input");
    assert_eq!(direct_align(file.as_fd(), Kind::Regular), Some(told_align(&file)));
    for kind in [Kind::Fifo, Kind::Null, Kind::Directory, Kind::Memory] {
        assert_eq!(direct_align(file.as_fd(), kind), None, "{kind:?}");
    }
    assert!(!is_buffered(file.as_fd()));
    // A file system of the kind of tmpfs.
    let memory = rustix::fs::memfd_create("memory", rustix::fs::MemfdFlags::CLOEXEC).expect("memory");
    assert!(is_buffered(memory.as_fd()));
}

#[test]
fn only_large_copies_past_the_cache_are_worth_it() {
    // One hole: nothing of it is cached.
    let Some(ends) = Ends::direct(1) else { return };
    let input = OpenOptions::new().write(true).open(&ends.input).expect("the input");
    let pays = |len: u64, operands: &str| {
        input.set_len(len).expect("a hole");
        ends.job(operands, |job| worthwhile(job))
    };
    assert!(pays(LARGE, "bs=64K"));
    assert!(!pays(LARGE - 1, "bs=64K"));
    assert!(pays(LARGE + 1000, "bs=64K"));
    assert!(!pays(2 * LARGE, "bs=64K count=511"));
    assert!(pays(2 * LARGE, "bs=64K count=512"));
    assert!(!pays(LARGE + 1000, "bs=7M"), "whole records are fewer bytes");
    assert!(!pays(LARGE - 1, "bs=64K conv=fsync"));
    // Nothing direct at either end, and at one alone.
    input.set_len(2 * LARGE).expect("a hole");
    let null = format!("if={} of=/dev/null conv=notrunc bs=64K", ends.input.display());
    assert!(!with_job(&null, None, None, |job| worthwhile(job)));
    assert!(with_job(&format!("{null} iflag=nocache"), None, None, |job| worthwhile(job)));
    let inside = ends.job("bs=64K conv=fsync", |job| {
        job.source.go_to(7).expect("a place in the file");
        assert!(!Survey::of(job).direct_input);
        worthwhile(job)
    });
    assert!(inside, "direct output alone");
    ends.job("bs=64K", |job| {
        job.trouble = true;
        assert!(!worthwhile(job), "the way before met an error");
    });
}

#[test]
fn what_there_is_ends_with_the_file_or_the_count() {
    let ends = Ends::new(10_000);
    for (operands, left, later) in [
        ("bs=1000", 10_000, 7000),
        ("bs=1000 count=4", 4000, 2000),
        ("bs=1000 count=2", 2000, 0),
        ("bs=1000 count=8", 8000, 6000),
        ("bs=1000 count=10", 10_000, 7000),
        ("ibs=300 obs=1000 count=10", 3000, 2400),
        // Whole records only.
        ("bs=1000 count=4500B", 4000, 2000),
    ] {
        ends.job(operands, |job| {
            assert_eq!(extent(job), left, "{operands}");
            job.monitor.tally.read = records(1, 1);
            job.source.go_to(3000).expect("a place in the file");
            assert_eq!(extent(job), later, "{operands} later");
        });
    }
}

#[test]
fn a_cold_file_is_read_past_the_cache_and_a_durable_one_written_so() {
    let Some(ends) = Ends::direct(4 * MIB) else { return };
    let file = File::open(&ends.input).expect("the input");
    let survey = |operands: &str| {
        make_cold(&file);
        ends.job(operands, |job| {
            job.source.skip(job.plan.input.skip, job.monitor).expect("skipped");
            job.sink.seek(job.plan.output.seek, job.monitor).expect("sought");
            let found = Survey::of(job);
            (found.from, found.to, found.len, found.direct_input, found.direct_output)
        })
    };
    assert_eq!(survey("bs=64K"), (0, 0, 4 * MIB, true, false));
    for operands in ["bs=64K conv=fsync", "bs=64K conv=fdatasync", "bs=64K oflag=nocache", "bs=64K oflag=neutral"] {
        assert_eq!(survey(operands), (0, 0, 4 * MIB, true, true), "{operands}");
    }
    // An end that stands inside a page goes through the cache, and the other one does not.
    assert_eq!(survey("bs=64K conv=fsync iseek=7B"), (7, 0, 4 * MIB - PAGE, false, true));
    assert_eq!(survey("bs=64K conv=fsync oseek=7B"), (0, 7, 4 * MIB, true, false));
    assert_eq!(survey("ibs=1 obs=1 count=4097"), (0, 0, PAGE, true, false));
    // Read only, to be thrown away: whoever reads it next finds it cached, as ever.
    let null = |operands: &str| {
        make_cold(&file);
        let operands = format!("if={} of=/dev/null conv=notrunc {operands}", ends.input.display());
        with_job(&operands, None, None, |job| Survey::of(job).direct_input)
    };
    assert!(!null("bs=64K"));
    assert!(null("bs=64K iflag=nocache"));
    assert!(null("bs=64K iflag=direct"));
    // Cached already.
    drop(std::fs::read(&ends.input).expect("read"));
    assert!(!ends.job("bs=64K", |job| Survey::of(job).direct_input));
}

#[test]
fn a_direct_write_throws_nothing_out_that_neutral_is_to_keep() {
    let Some(ends) = Ends::direct(MIB) else { return };
    write_down(&ends.output, MIB);
    let cold = File::open(&ends.output).expect("the output");
    let direct = || ends.job("bs=64K oflag=neutral conv=notrunc count=8", |job| Survey::of(job).direct_output);
    make_cold(&cold);
    assert!(direct());
    let page = |at| rustix::io::pread(&cold, &mut [0; 16], at).expect("a page");
    rustix::fs::fadvise(&cold, 0, None, rustix::fs::Advice::Random).expect("no reading ahead");
    page(MIB / 2);
    assert!(direct(), "what is cached is behind what is written");
    page(MIB / 2 - 1);
    assert!(!direct());
}

#[test]
fn nothing_is_begun_for_less_than_the_smallest_piece_or_for_records_that_cannot_be_gathered() {
    let ends = Ends::new(4 * MIB);
    let begins = |operands: &str| ends.job(operands, |job| Bulk::begin(job).is_some());
    assert!(begins("bs=64K"));
    assert!(!begins("bs=64K count=0"));
    assert!(!begins("bs=512 count=7"));
    assert!(begins("bs=512 count=8"));
    // Records of both sides end together after 2 MiB, and after more.
    assert!(begins("ibs=1M obs=2M"));
    assert!(!begins("ibs=1M obs=3M"));
    assert!(!begins("ibs=1000 obs=4097"));
    assert!(begins("bs=3M"), "a read is written as it came: nothing is gathered");
}

#[test]
fn what_is_overwritten_whole_may_have_several_writes_under_way() {
    let Some(ends) = Ends::direct(4 * MIB) else { return };
    let begun = |operands: &str| {
        ends.job(operands, |job| {
            job.sink.seek(job.plan.output.seek, job.monitor).expect("sought");
            let (bulk, files) = Bulk::begin(job).expect("something to do");
            assert_eq!(bulk.direct, files.output.is_some());
            (bulk.writes, bulk.direct, bulk.ahead.until, bulk.ahead.end, bulk.ahead.window)
        })
    };
    let (one, several) = (1, PIECES / 2);
    // A new file is made longer, with blocks allocated ahead of direct writes.
    assert_eq!(begun("bs=64K conv=fsync"), (one, true, 0, 4 * MIB, ALLOCATED_AHEAD));
    assert_eq!(begun("bs=64K"), (one, false, 0, 4 * MIB, 0));
    assert_eq!(begun("bs=64K conv=fsync seek=2"), (one, true, 128 << 10, 4 * MIB + (128 << 10), ALLOCATED_AHEAD));
    write_down(&ends.output, 4 * MIB);
    assert_eq!(begun("bs=64K conv=notrunc,fsync"), (several, true, 0, 4 * MIB, 0));
    assert_eq!(begun("bs=64K conv=notrunc"), (several, false, 0, 4 * MIB, 0));
    // Over the end, and from it on.
    assert_eq!(begun("bs=64K conv=notrunc,fsync seek=1"), (one, true, 64 << 10, 4 * MIB + (64 << 10), 0));
    assert_eq!(begun("bs=64K conv=notrunc,fsync seek=64"), (one, true, 4 * MIB, 8 * MIB, ALLOCATED_AHEAD));
    // Holes are filled in order.
    File::create(&ends.output).expect("emptied").set_len(4 * MIB).expect("one hole");
    assert_eq!(begun("bs=64K conv=notrunc,fsync"), (one, true, 0, 4 * MIB, 0));
}

#[test]
fn descriptors_are_direct_where_their_end_is() {
    let Some(ends) = Ends::direct(4 * MIB) else { return };
    let file = File::open(&ends.input).expect("the input");
    let files = |operands: &str| {
        make_cold(&file);
        ends.job(operands, |job| {
            let (_, Files { input, output }) = Bulk::begin(job).expect("something to do");
            (is_direct(&input), output.as_ref().map(is_direct))
        })
    };
    assert_eq!(files("bs=64K"), (true, None));
    assert_eq!(files("bs=64K conv=fsync"), (true, Some(true)));
    assert_eq!(files("bs=64K iflag=direct oflag=direct"), (true, Some(true)));
    assert_eq!(files("bs=64K oflag=direct"), (true, Some(true)));
    drop(std::fs::read(&ends.input).expect("read"));
    let cached = ends.job("bs=64K conv=fsync", |job| is_direct(&Bulk::begin(job).expect("something to do").1.input));
    assert!(!cached);
}

/// A copy that began with some records behind it, `done` bytes of which are in the output by pieces, and is over.
struct Over {
    outcome: Result<Outcome, Halt>,
    trouble: bool,
    read: Records,
    written: Records,
    bytes: u64,
    /// Where the ends are taken to stand, and where their descriptors do.
    source: [u64; 2],
    sink: [u64; 2],
    again: u64,
}

fn over(ends: &Ends, operands: &str, direct: bool, done: &[usize], stopped: bool) -> Over {
    ends.job(operands, |job| {
        let (ibs, obs) = sizes(job.plan);
        let (from, to) = (3000, 5000);
        job.source.go_to(from).expect("a place in the file");
        job.sink.go_to(to).expect("a place in the file");
        job.monitor.tally.read = records(3, 1);
        job.monitor.tally.written = records(2, 0);
        job.monitor.tally.bytes = 777;
        let mut bulk = Bulk {
            pieces: Pieces { from, to, len: 60_000 },
            ibs: widen(ibs),
            obs: widen(obs),
            unit: unit(ibs, obs),
            done: 0,
            begun: job.monitor.tally,
            ahead: Ahead { until: to, end: to + 60_000, window: 0 },
            direct,
            writes: 1,
        };
        for &len in done {
            bulk.moved(len, job);
            if !direct {
                // What goes through the sink moves it.
                job.sink.go_to(job.sink.position().expect("a file") + widen(len)).expect("a place in the file");
            }
        }
        let outcome = bulk.conclude(job, stopped);
        Over {
            outcome,
            trouble: job.trouble,
            read: job.monitor.tally.read,
            written: job.monitor.tally.written,
            bytes: job.monitor.tally.bytes,
            source: [job.source.position().expect("a file"), offset(job.source.fd())],
            sink: [job.sink.position().expect("a file"), offset(job.sink.fd())],
            again: job.sink.take_again(),
        }
    })
}

#[test]
fn what_is_left_to_the_plain_loop_begins_with_a_record_of_both_sides() {
    let ends = Ends::new(70_000);
    for direct in [false, true] {
        // 7 * 3000: with records of 1000 and 3000 a unit is 3000 bytes.
        let whole = over(&ends, "ibs=1000 obs=3000", direct, &[20_000, 1000], false);
        assert!(matches!(whole.outcome, Ok(Outcome::Declined)));
        assert_eq!((whole.read, whole.written, whole.bytes), (records(3 + 21, 1), records(2 + 7, 0), 777 + 21_000));
        assert_eq!((whole.source, whole.sink, whole.again), ([24_000; 2], [26_000; 2], 0), "direct {direct}");
        assert!(whole.trouble, "not all of it was moved");
        let part = over(&ends, "ibs=1000 obs=3000", direct, &[20_000, 2500], false);
        assert_eq!((part.read, part.written, part.bytes), (records(3 + 21, 1), records(2 + 7, 0), 777 + 21_000));
        assert_eq!((part.source, part.sink, part.again), ([24_000; 2], [27_500; 2], 1500), "direct {direct}");
        let all = over(&ends, "ibs=1000 obs=3000", direct, &[30_000, 30_000], false);
        assert_eq!((all.read.full, all.written.full, all.bytes), (3 + 60, 2 + 20, 777 + 60_000));
        assert!(!all.trouble);
        let none = over(&ends, "ibs=1000 obs=3000", direct, &[], false);
        assert_eq!((none.read, none.written, none.bytes), (records(3, 1), records(2, 0), 777));
        assert_eq!((none.source, none.sink, none.again), ([3000; 2], [5000; 2], 0));
        // Large input records, small output records.
        let split = over(&ends, "ibs=7000 obs=500", direct, &[16_100], false);
        assert_eq!((split.read.full, split.written.full, split.bytes), (3 + 2, 2 + 28, 777 + 14_000));
        assert_eq!((split.source, split.sink, split.again), ([17_000; 2], [21_100; 2], 2100));
    }
}

#[test]
fn a_stop_counts_all_that_is_in_the_file_and_every_record_that_was_begun() {
    let ends = Ends::new(70_000);
    for direct in [false, true] {
        let part = over(&ends, "ibs=1000 obs=3000", direct, &[20_000, 2500], true);
        assert!(matches!(part.outcome, Err(Halt::Stopped)));
        assert_eq!((part.read, part.written, part.bytes), (records(3 + 23, 1), records(2 + 7, 1), 777 + 22_500));
        assert_eq!((part.source, part.sink, part.again), ([26_000; 2], [27_500; 2], 0), "direct {direct}");
        let even = over(&ends, "ibs=1000 obs=3000", direct, &[21_000], true);
        assert_eq!((even.read, even.written, even.bytes), (records(3 + 21, 1), records(2 + 7, 0), 777 + 21_000));
        assert_eq!((even.source, even.sink), ([24_000; 2], [26_000; 2]));
    }
}

#[test]
fn counts_go_on_with_every_piece_that_is_in_the_output() {
    let ends = Ends::new(70_000);
    ends.job("ibs=1000 obs=3000", |job| {
        let (mut bulk, _) = Bulk::begin(job).expect("something to do");
        bulk.direct = true;
        let mut seen = Vec::new();
        for len in [2500, 500, 9000] {
            bulk.moved(len, job);
            let tally = job.monitor.tally;
            seen.push((tally.read.full, tally.written.full, tally.bytes, job.source.position(), job.sink.position()));
        }
        let at = |read, written, bytes| (read, written, bytes, Some(bytes), Some(bytes));
        assert_eq!(seen, [at(2, 0, 2500), at(3, 1, 3000), at(12, 4, 12_000)]);
    });
}

#[test]
fn pieces_are_whole_but_for_the_last_and_none_is_empty() {
    let piece = |len: u64, number| Pieces { from: 100, to: 7000, len }.piece(number);
    let at = |number: u64, len| Some(Piece { input: 100 + number * 2 * MIB, output: 7000 + number * 2 * MIB, len });
    assert_eq!([0, 1, 2, 3].map(|number| piece(4 * MIB, number)), [at(0, PIECE), at(1, PIECE), None, None]);
    assert_eq!([0, 1, 2].map(|number| piece(2 * MIB + 1, number)), [at(0, PIECE), at(1, 1), None]);
    assert_eq!(piece(0, 0), None);
    assert_eq!(piece(u64::MAX, u64::MAX), None);
}

#[test]
fn what_was_allocated_ahead_of_an_end_that_came_early_is_given_back() {
    let Some(ends) = Ends::direct(8 * MIB) else { return };
    let blocks = |seek: u64, done: u64| {
        let file = File::create(&ends.output).expect("emptied");
        ends.job("bs=64K conv=notrunc,fsync", |job| {
            job.sink.go_to(seek).expect("a place in the file");
            let (mut bulk, files) = Bulk::begin(job).expect("something to do");
            let output = files.output.expect("a direct output");
            let piece = bulk.pieces.piece(0).expect("the first piece");
            assert_eq!(piece, Piece { input: 0, output: seek, len: PIECE });
            bulk.before_writing(piece, job);
            assert_eq!(bulk.ahead.until, seek + 8 * MIB);
            let block = fdd_sys::memory::Aligned::new(PIECE).expect("memory");
            let len = usize::try_from(done).expect("small");
            assert_eq!(rustix::io::pwrite(output, &block[..len], seek), Ok(len));
            assert!(file.metadata().expect("a file").blocks() * 512 >= 8 * MIB, "allocated ahead");
            bulk.moved(len, job);
            assert!(matches!(bulk.conclude(job, false), Ok(Outcome::Declined)));
        });
        let now = file.metadata().expect("a file");
        assert_eq!(now.len(), if done > 0 { seek + done } else { 0 });
        now.blocks() * 512
    };
    for (seek, done) in [(0, 0), (0, MIB), (0, 2 * MIB), (MIB, MIB), (MIB, 2 * MIB)] {
        let left = blocks(seek, done);
        assert!((done..done + MIB).contains(&left), "{left} bytes for {done}");
    }
}
