//! Blocks that are written so that they leave the cache at once: which are, and what a short or refused write of one costs.
//! Zeros that cannot be stepped over, and what a block shorter than a direct write can be does to the cache.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use fdd_sys::retry::Steady;

use super::*;
use crate::hash::Threads;
use crate::operands::Hash;
use crate::testing::{Medium, pattern, plan};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const EXT4: u64 = 0xEF53;
const BTRFS: u64 = 0x9123_683E;

/// Which writes were made: whether uncached, and of how many bytes.
type Calls = Arc<Mutex<Vec<(bool, usize)>>>;

struct Out {
    dir: tempfile::TempDir,
    calls: Calls,
}

impl Out {
    fn new() -> Out {
        Out { dir: tempfile::tempdir().expect("a directory"), calls: Calls::default() }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("out")
    }

    fn bytes(&self) -> Vec<u8> {
        std::fs::read(self.path()).expect("an output")
    }

    /// A medium of that kind that notes its writes; uncached ones take what `takes` says of their number and length.
    fn medium(
        &self,
        magic: u64,
        takes: impl Fn(usize, usize) -> Result<usize, Errno> + Send + Sync + 'static,
    ) -> Medium {
        let (plain, uncached) = (Arc::clone(&self.calls), Arc::clone(&self.calls));
        let note = |calls: &Calls, call| calls.lock().expect("no panic").push(call);
        Medium {
            magic: Some(magic),
            write: Some(Box::new(move |_, len| {
                note(&plain, (false, len));
                Ok(len)
            })),
            uncached: Some(Box::new(move |number, len| {
                let taken = takes(number, len)?;
                note(&uncached, (true, taken));
                Ok(taken)
            })),
            ..Medium::default()
        }
    }

    fn sink(&self, medium: &Arc<Medium>, operands: &str) -> Sink {
        let plan = plan(&format!("of={} {operands}", self.path().display()));
        let mut sink = Sink::open(Arc::<Medium>::clone(medium), &plan.output, || unreachable!("named"), &mut Steady)
            .expect("opened");
        sink.seek(plan.output.seek, &mut Steady).expect("a file seeks");
        sink
    }

    fn calls(&self) -> Vec<(bool, usize)> {
        std::mem::take(&mut *self.calls.lock().expect("no panic"))
    }
}

fn whole(_: usize, len: usize) -> Result<usize, Errno> {
    Ok(len)
}

fn put(sink: &mut Sink, block: &[u8]) {
    let (written, outcome) = sink.write_block(block, &mut Steady);
    assert_eq!((written, outcome), (block.len(), Ok(())));
}

#[test]
fn large_blocks_leave_the_cache_where_new_pages_are_not_to_stay_there() {
    // Which of the blocks 0 to 39, one MiB each, go uncached.
    const ALL: &[usize] = &[0, 1, 31, 32, 39];
    const LATE: &[usize] = &[32, 39];
    const NONE: &[usize] = &[];
    for (operands, old, magic, want) in [
        ("bs=1M oflag=nocache", 0, EXT4, ALL),
        ("bs=1M oflag=nocache", 0, 0x5846_5342, ALL),
        ("bs=1M oflag=nocache", 0, BTRFS, NONE),
        ("bs=1M conv=fdatasync", 0, EXT4, LATE),
        ("bs=1M conv=fsync", 0, EXT4, LATE),
        ("bs=1M conv=fsync oflag=nocache", 0, EXT4, ALL),
        ("bs=1M", 0, EXT4, NONE),
        ("bs=1M oflag=neutral", 0, EXT4, NONE),
        ("bs=1M oflag=append,nocache conv=notrunc", 0, EXT4, NONE),
        ("bs=1M oflag=dsync", 0, EXT4, NONE),
        ("bs=1M oflag=dsync,nocache", 0, EXT4, NONE),
        ("bs=1M oflag=sync,nocache", 0, EXT4, NONE),
        ("bs=1M oflag=direct conv=fsync", 0, EXT4, NONE),
        ("bs=1M oflag=nocache count=0", 0, EXT4, NONE),
        // What was there is emptied, or written over up to its end.
        ("bs=1M oflag=nocache", 50 * MIB, EXT4, ALL),
        ("bs=1M oflag=nocache conv=notrunc", 50 * MIB, EXT4, NONE),
        ("bs=1M oflag=nocache conv=notrunc", 32 * MIB, EXT4, LATE),
        ("bs=1M conv=notrunc,fsync", 32 * MIB, EXT4, NONE),
        ("bs=1M oflag=nocache seek=2", 50 * MIB, EXT4, ALL),
        ("bs=1M conv=fsync seek=1", 50 * MIB, EXT4, LATE),
    ] {
        let out = Out::new();
        std::fs::File::create(out.path()).and_then(|file| file.set_len(widen(old))).expect("an old file");
        let medium = Arc::new(Medium { direct: Some(512), ..out.medium(magic, whole) });
        let mut sink = out.sink(&medium, operands);
        let block = vec![b'x'; MIB];
        let mut uncached = Vec::new();
        for number in 0..40 {
            put(&mut sink, &block);
            let calls = out.calls();
            assert!(matches!(calls[..], [(_, MIB)]), "{operands}: {calls:?}");
            if calls[0].0 {
                uncached.push(number);
            }
        }
        uncached.retain(|number| ALL.contains(number));
        assert_eq!(uncached, want, "{operands} over {old} on {magic:x}");
    }
}

#[test]
fn windows_and_small_blocks_are_written_plainly() {
    let out = Out::new();
    let medium = Arc::new(out.medium(EXT4, whole));
    let mut sink = out.sink(&medium, "bs=1M oflag=nocache");
    assert!(!sink.is_bare());
    put(&mut sink, &vec![0; UNCACHED_LEAST]);
    assert_eq!(out.calls(), [(true, UNCACHED_LEAST)]);
    put(&mut sink, &vec![1; UNCACHED_LEAST - 1]);
    assert_eq!(out.calls(), [(false, UNCACHED_LEAST - 1)]);
    sink.use_windows();
    put(&mut sink, &vec![2; MIB]);
    assert_eq!(out.calls(), [(false, MIB)]);
}

#[test]
fn the_loop_of_bare_calls_is_left_to_blocks_that_are_written_plainly() {
    let out = Out::new();
    let medium = Arc::new(out.medium(EXT4, whole));
    for (operands, bare) in
        [("bs=512 conv=fsync", true), ("bs=256K conv=fsync", false), ("bs=256K", true), ("bs=256K oflag=dsync", true)]
    {
        assert_eq!(out.sink(&medium, operands).is_bare(), bare, "{operands}");
    }
}

#[test]
fn a_page_that_the_next_block_goes_on_with_is_written_plainly() {
    let out = Out::new();
    let medium = Arc::new(out.medium(EXT4, whole));
    let mut sink = out.sink(&medium, "bs=300000 oflag=nocache");
    let content = pattern(1_500_000 + 2_500_000);
    for block in content[..600_000].chunks(300_000) {
        put(&mut sink, block);
    }
    let page = rustix::param::page_size();
    let (first, second) = (300_000 % page, 600_000 % page);
    assert_eq!(
        out.calls(),
        [(true, 300_000 - first), (false, first), (true, 300_000 + first - second - first), (false, second)]
    );
    put(&mut sink, &content[600_000..]);
    let calls = out.calls();
    assert!(calls[..calls.len() - 1].iter().all(|&(uncached, len)| uncached && len <= UNCACHED_PIECE), "{calls:?}");
    assert_eq!(calls.last(), Some(&(false, content.len() % page)));
    assert!(out.bytes() == content);
}

#[test]
fn an_uncached_write_that_comes_short_is_continued_exactly() {
    let out = Out::new();
    let takes = |number: usize, len: usize| Ok([len, 1, 4095, 4097, 100_000, 65_536][number % 6].min(len));
    let medium = Arc::new(out.medium(EXT4, takes));
    let mut sink = out.sink(&medium, "bs=3M oflag=nocache");
    let content = pattern(9 * MIB);
    for block in content.chunks(3 * MIB) {
        put(&mut sink, block);
    }
    assert_eq!(sink.position(), Some(widen(content.len())));
    assert!(out.bytes() == content);
    let calls = out.calls();
    assert!(calls.contains(&(true, 1)) && calls.contains(&(true, 100_000)), "{calls:?}");
}

#[test]
fn a_refusal_at_any_write_leaves_the_rest_to_plain_ones_at_the_exact_byte() {
    for errno in [Errno::OPNOTSUPP, Errno::INVAL, Errno::NOSYS, Errno::PERM] {
        for refused in [0, 1, 2, 5, 9] {
            let out = Out::new();
            // Short ones too, so that it comes in the middle of a page.
            let medium = Arc::new(out.medium(
                EXT4,
                move |number, len| {
                    if number >= refused { Err(errno) } else { Ok(len.min(777_777)) }
                },
            ));
            let mut sink = out.sink(&medium, "bs=3M oflag=nocache");
            let content = pattern(9 * MIB);
            for block in content.chunks(3 * MIB) {
                put(&mut sink, block);
            }
            assert!(out.bytes() == content, "{errno} at {refused}");
            let asked = medium.uncached_writes.load(Ordering::Relaxed);
            assert_eq!(asked, u32::try_from(refused).expect("small") + 1, "not asked again");
            assert_eq!(sink.position(), Some(widen(content.len())));
        }
    }
}

#[test]
fn what_any_write_could_say_ends_an_uncached_one_too() {
    for errno in [Errno::NOSPC, Errno::IO, Errno::FBIG, Errno::DQUOT] {
        let out = Out::new();
        let fails = move |number, len: usize| if number == 2 { Err(errno) } else { Ok(len.min(100_000)) };
        let medium = Arc::new(out.medium(EXT4, fails));
        let mut sink = out.sink(&medium, "bs=3M oflag=nocache");
        let content = pattern(3 * MIB);
        let (written, outcome) = sink.write_block(&content, &mut Steady);
        assert_eq!((written, outcome), (200_000, Err(Cut::Os(errno))));
        assert!(out.bytes() == content[..200_000]);
    }
}

#[test]
#[cfg(not(miri))] // The real call.
fn the_system_takes_an_uncached_write_where_the_descriptor_stands_or_refuses_it() {
    let beside = std::env::current_exe().expect("this program");
    let mut file = tempfile::tempfile_in(Path::new(&beside).parent().expect("its directory")).expect("a file");
    std::io::Write::write_all(&mut file, b"before").expect("written");
    let block = pattern(8 * KIB);
    match crate::kernel::Os.write_uncached(file.as_fd(), &block) {
        Ok(taken) => {
            assert_eq!(taken, block.len(), "a disk that is not full takes all of it");
            assert_eq!(std::io::Seek::stream_position(&mut file).expect("seeks"), 6 + widen(taken));
            let mut got = vec![0; taken];
            std::os::unix::fs::FileExt::read_exact_at(&file, &mut got, 6).expect("read back");
            assert!(got == block[..taken]);
        }
        Err(errno) => assert!(matches!(errno, Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS), "{errno}"),
    }
}

fn digest(tap: Tap) -> Vec<u8> {
    tap.finish().remove(0).1
}

fn tap() -> Option<Box<Tap>> {
    Tap::of(&[Hash::Md5], Threads::none())
}

fn digest_of(bytes: &[u8]) -> Vec<u8> {
    let mut tap = tap().expect("a digest");
    tap.update(bytes);
    digest(*tap)
}

/// A device that clears no ranges: a run of 200,000 zeros between data is written, in four pieces.
#[test]
fn zeros_that_have_to_be_written_are_in_the_digest_as_far_as_they_are_in_the_file() {
    const BLOCK: usize = 200_000;
    let data = [pattern(BLOCK), vec![0; BLOCK], pattern(BLOCK)].concat();
    let (piece, last) = (ZEROS.len(), BLOCK % ZEROS.len());
    // The first write, number 0, is of data; which one fails, and how much is in the file then.
    let fails = [(1, 0), (2, piece), (3, 2 * piece), (4, 3 * piece), (5, BLOCK), (usize::MAX, 2 * BLOCK)];
    for (at, beyond) in fails {
        for finishes in [false, true] {
            let out = Out::new();
            std::fs::write(out.path(), vec![b'#'; data.len()]).expect("old data");
            let write = move |number, len| if number == at { Err(Errno::NOSPC) } else { Ok(len) };
            let medium = Arc::new(Medium { device: Some(7), write: Some(Box::new(write)), ..Medium::default() });
            let mut sink = out.sink(&medium, "bs=200000 conv=sparse,notrunc");
            sink.tap = tap();
            put(&mut sink, &data[..BLOCK]);
            put(&mut sink, &data[BLOCK..2 * BLOCK]);
            let (written, outcome) = sink.write_block(&data[2 * BLOCK..], &mut Steady);
            assert_eq!((written > 0, outcome.is_ok()), (at == usize::MAX, at == usize::MAX), "{at}");
            assert_eq!(last, BLOCK - 3 * piece, "the fourth piece");
            // Zeros behind which nothing came are made once more at the end.
            let told = match (at, finishes) {
                (usize::MAX, _) => data.len(),
                (_, true) => 2 * BLOCK,
                (5, false) => BLOCK,
                (_, false) => BLOCK + beyond,
            };
            if finishes {
                assert_eq!(sink.finish(&mut Steady), Ok(()));
                assert_eq!(sink.pending_hole(), 0);
            }
            assert!(digest(*sink.tap.take().expect("a digest")) == digest_of(&data[..told]), "{at}, {finishes}");
            let reached = if finishes { told } else { BLOCK + beyond };
            let bytes = out.bytes();
            assert!(bytes[..reached] == data[..reached], "{at}, {finishes}");
            assert!(bytes[reached..].iter().all(|&byte| byte == b'#'), "{at}, {finishes}");
        }
    }
}

#[test]
fn zeros_at_the_end_that_cannot_all_be_written_are_in_the_digest_as_far_as_they_were() {
    let out = Out::new();
    std::fs::write(out.path(), vec![b'#'; 400_000]).expect("old data");
    let write = |number, len| if number == 2 { Err(Errno::NOSPC) } else { Ok(len) };
    let medium = Arc::new(Medium { device: Some(7), write: Some(Box::new(write)), ..Medium::default() });
    let mut sink = out.sink(&medium, "bs=200000 conv=sparse,notrunc");
    sink.tap = tap();
    let data = [pattern(200_000), vec![0; 200_000]].concat();
    put(&mut sink, &data[..200_000]);
    put(&mut sink, &data[200_000..]);
    assert_eq!(sink.finish(&mut Steady), Err(Cut::Os(Errno::NOSPC)));
    let reached = 200_000 + ZEROS.len();
    assert!(digest(*sink.tap.take().expect("a digest")) == digest_of(&data[..reached]));
    assert_eq!(sink.take_unsettled(), widen(400_000 - reached));
    assert!(out.bytes()[..reached] == data[..reached] && out.bytes()[reached] == b'#');
}

#[test]
fn a_short_block_after_direct_ones_is_dropped_from_the_cache_and_synced() {
    // To the end of the file where the copy was to its end and cuts the file; else only what was written.
    for (operands, to_end, len) in
        [("", true, 0), ("", false, 100), ("conv=notrunc", true, 100), ("conv=notrunc", false, 100)]
    {
        let out = Out::new();
        let medium = Arc::new(Medium { direct: Some(512), ..Medium::default() });
        let mut sink = out.sink(&medium, format!("bs=4096 oflag=direct {operands}").trim());
        assert!(!sink.will_sync());
        put(&mut sink, &[1; 4096]);
        assert!(!sink.will_sync() && sink.facts.flags.contains(OFlags::DIRECT));
        put(&mut sink, &[2; 100]);
        assert!(sink.will_sync());
        assert_eq!(medium.get_flags(sink.fd()).map(|flags| flags.contains(OFlags::DIRECT)), Ok(false));
        sink.settle_cache(to_end).expect("it is of no consequence");
        assert_eq!(*medium.dropped.lock().expect("no panic"), [(4096, 0), (4096, len)], "{operands} {to_end}");
    }
}

#[test]
fn blocks_are_not_joined_where_each_write_is_a_promise_or_goes_where_others_write() {
    for (operands, joins) in [
        ("bs=512", true),
        ("bs=512 conv=fsync", true),
        ("bs=512 oflag=append conv=notrunc", false),
        ("bs=512 oflag=direct", false),
        ("bs=512 oflag=sync", false),
        ("bs=512 oflag=dsync", false),
    ] {
        let out = Out::new();
        let medium = Arc::new(Medium { direct: Some(512), ..out.medium(EXT4, whole) });
        assert_eq!(out.sink(&medium, operands).hides_sizes(512), joins, "{operands}");
    }
}

/// A tape is passed over by reading; what has offsets, or had them when it was opened, is not.
#[test]
fn a_refused_seek_is_an_error_of_what_is_no_tape() {
    for (path, medium) in [
        (None, Medium { stream: true, ..Medium::default() }),
        (None, Medium { stream: true, device: Some(7), ..Medium::default() }),
        (Some("/dev/zero"), Medium { seeks: Mutex::new([Ok(()), Err(Errno::SPIPE)].into()), ..Medium::default() }),
    ] {
        let out = Out::new();
        std::fs::write(out.path(), pattern(5000)).expect("old data");
        let path = path.map_or_else(|| out.path(), PathBuf::from);
        let plan = plan(&format!("of={} bs=1000 seek=2 conv=notrunc", path.display()));
        let mut sink =
            Sink::open(Arc::new(medium), &plan.output, || unreachable!("named"), &mut Steady).expect("opened");
        let outcome = sink.seek(plan.output.seek, &mut Steady);
        assert!(matches!(outcome, Err(Trouble::Failed(Error::Seek { errno: Errno::SPIPE, .. }))), "{outcome:?}");
    }
}

/// As a tape: what is there is read over, a record at a time, and zeros take the place of what is missing.
#[test]
fn what_cannot_seek_is_passed_over_by_reading_and_beyond_its_end_by_writing_zeros() {
    const TOLD: usize = 100;
    for (seek, there, reads, zeros) in [
        ("2", 1500, 2, 0),
        ("2", 2000, 2, 0),
        ("2", 500, 2, 1000),
        ("3", 0, 1, 3000),
        ("2500B", 2200, 3, 0),
        ("2500B", 2000, 3, 500),
        ("2500B", 300, 2, 1500),
        ("2500B", 0, 1, 2500),
        ("700B", 0, 1, 700),
        ("700B", 1, 1, 0),
    ] {
        let (tape, mut peer) = std::os::unix::net::UnixStream::pair().expect("a pair");
        std::io::Write::write_all(&mut peer, &pattern(there)).expect("it fits");
        peer.shutdown(std::net::Shutdown::Write).expect("an end");
        let medium = Arc::new(Medium { reads: Mutex::new(vec![Ok(usize::MAX); TOLD].into()), ..Medium::default() });
        let plan = plan(&format!("bs=1000 seek={seek}"));
        let mut sink =
            Sink::open(Arc::<Medium>::clone(&medium), &plan.output, || tape.into(), &mut Steady).expect("opened");
        sink.seek(plan.output.seek, &mut Steady).expect("it can be read");
        drop(sink);
        let mut written = Vec::new();
        std::io::Read::read_to_end(&mut peer, &mut written).expect("read");
        assert!(written == vec![0; zeros], "seek={seek} over {there}: {} bytes", written.len());
        assert_eq!(TOLD - medium.reads.lock().expect("no panic").len(), reads, "seek={seek} over {there}");
    }
}

/// Somebody else may have made the description non-blocking.
#[test]
fn room_that_is_not_there_yet_is_waited_for_unless_nonblock_was_asked_for() {
    let refused = || Medium {
        write: Some(Box::new(|number, len| if number == 1 { Err(Errno::AGAIN) } else { Ok(len.min(400)) })),
        ..Medium::default()
    };
    for (operands, told) in [("bs=1000", (1000, Ok(()))), ("bs=1000 oflag=nonblock", (400, Err(Cut::Os(Errno::AGAIN))))]
    {
        let out = Out::new();
        let mut sink = out.sink(&Arc::new(refused()), operands);
        assert_eq!(sink.write_block(&pattern(1000), &mut Steady), told, "{operands}");
        assert_eq!(out.bytes(), pattern(told.0), "{operands}");
    }
}
