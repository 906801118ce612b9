//! What an end leaves in the page cache: nothing is done, what was processed is dropped, or what was there before is kept.

use std::ops::Range;
use std::os::fd::BorrowedFd;

use fdd_io::cache::{DropBehind, Neutral};
use rustix::io::Errno;

use crate::kernel::Kernel;
use crate::plan::Cache;
use crate::units::widen;

/// GNU advises in multiples of its buffer size.
const UNIT: u64 = 256 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Reading,
    Writing,
}

/// The cache of one end, and how far the copy is there.
#[derive(Debug)]
pub(crate) struct Advice {
    side: Side,
    /// Offset behind what was processed.
    position: u64,
    manner: Manner,
}

#[derive(Debug)]
enum Manner {
    Leave,
    /// `nocache` in the plain loop: the calls that GNU dd makes, right after the bytes, without waiting for a write-back.
    Pieces {
        pending: u64,
    },
    /// `nocache` in the faster ways: windows that are written back, waited for and dropped.
    Windows(DropBehind),
    Neutral(Box<Neutral>),
}

impl Advice {
    /// Advice from `position` on; none for an end that cannot seek.
    pub(crate) fn new(cache: Cache, side: Side, position: Option<u64>) -> Advice {
        let manner = match (cache, position) {
            (_, None) | (Cache::Keep | Cache::DropAll, _) => Manner::Leave,
            (Cache::Drop, Some(_)) => Manner::Pieces { pending: 0 },
            (Cache::Neutral, Some(from)) => Manner::Neutral(Box::new(match side {
                Side::Reading => Neutral::reading(from),
                Side::Writing => Neutral::writing(from),
            })),
        };
        Advice { side, position: position.unwrap_or(0), manner }
    }

    /// Nothing is done about the cache.
    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.manner, Manner::Leave)
    }

    /// From here on whole windows are dropped rather than pieces.
    pub(crate) fn use_windows(&mut self) {
        if matches!(self.manner, Manner::Pieces { .. }) {
            self.manner = Manner::Windows(match self.side {
                Side::Reading => DropBehind::reading(self.position),
                Side::Writing => DropBehind::writing(self.position),
            });
        }
    }

    /// The end has moved to `position` without processing anything.
    pub(crate) fn start_at(&mut self, kernel: &dyn Kernel, fd: BorrowedFd<'_>, position: u64) {
        if let Manner::Pieces { pending } = &mut self.manner
            && *pending > 0
        {
            let _ = kernel.drop_cache(fd, self.position - *pending, *pending);
            *pending = 0;
        }
        self.position = position;
    }

    /// `len` bytes are about to be processed.
    #[inline]
    pub(crate) fn before(&mut self, fd: BorrowedFd<'_>, len: usize) {
        if let Manner::Neutral(neutral) = &mut self.manner {
            neutral.before(fd, self.position..self.position.saturating_add(widen(len)));
        }
    }

    /// `range` is about to be processed, ahead of the position.
    pub(crate) fn announce(&mut self, fd: BorrowedFd<'_>, range: Range<u64>) {
        if let Manner::Neutral(neutral) = &mut self.manner {
            neutral.before(fd, range);
        }
    }

    /// `len` more bytes were processed. Errors are of no consequence to the copy.
    #[inline]
    pub(crate) fn passed(&mut self, kernel: &dyn Kernel, fd: BorrowedFd<'_>, len: usize) {
        match &mut self.manner {
            Manner::Leave => {}
            Manner::Pieces { pending } => {
                self.position += widen(len);
                *pending += widen(len);
                let whole = *pending - *pending % UNIT;
                if whole > 0 {
                    let _ = kernel.drop_cache(fd, self.position - *pending, whole);
                    *pending -= whole;
                }
            }
            Manner::Windows(behind) => {
                self.position += widen(len);
                behind.moved_to(fd, self.position);
            }
            Manner::Neutral(neutral) => {
                self.position += widen(len);
                neutral.moved_to(fd, self.position);
            }
        }
    }

    /// The copy has ended. At the end of the file the rest of it is dropped, else only what was processed. Tells what the
    /// write-back said, where it was waited for: nobody else will hear it.
    pub(crate) fn finish(&mut self, kernel: &dyn Kernel, fd: BorrowedFd<'_>, to_end: bool) -> Option<Errno> {
        match &mut self.manner {
            Manner::Leave => None,
            Manner::Pieces { pending } => {
                let from = self.position - *pending;
                if to_end {
                    let _ = drop_to_end(kernel, fd, from);
                } else if *pending > 0 {
                    let _ = kernel.drop_cache(fd, from, *pending);
                }
                *pending = 0;
                None
            }
            Manner::Windows(behind) => {
                behind.finish(fd);
                behind.write_back_error()
            }
            Manner::Neutral(neutral) => {
                neutral.finish(fd);
                neutral.write_back_error()
            }
        }
    }
}

/// Drops everything from the page of `from` on. Failing matters to `count=0`, which does nothing else.
pub(crate) fn drop_to_end(kernel: &dyn Kernel, fd: BorrowedFd<'_>, from: u64) -> Result<(), Errno> {
    let page = widen(rustix::param::page_size());
    kernel.drop_cache(fd, from - from % page, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Medium;
    #[cfg(not(miri))]
    use std::fs::File;
    use std::os::fd::AsFd;
    #[cfg(not(miri))]
    use std::os::unix::fs::FileExt as _;

    const KIB: u64 = 1 << 10;
    #[cfg(not(miri))]
    const MIB: u64 = 1 << 20;

    struct Watched {
        medium: Medium,
        file: std::fs::File,
    }

    impl Watched {
        fn new() -> Watched {
            Watched { medium: Medium::default(), file: tempfile::tempfile().expect("a file") }
        }

        /// What was dropped since the last look.
        fn dropped(&self) -> Vec<(u64, u64)> {
            std::mem::take(&mut *self.medium.dropped.lock().expect("no panic"))
        }

        fn pass(&self, advice: &mut Advice, len: u64) -> Vec<(u64, u64)> {
            advice.passed(&self.medium, self.file.as_fd(), usize::try_from(len).expect("small"));
            self.dropped()
        }
    }

    #[test]
    fn what_has_passed_is_dropped_in_whole_units_behind_the_position() {
        let cache = Watched::new();
        let mut advice = Advice::new(Cache::Drop, Side::Reading, Some(1000));
        assert!(!advice.is_idle());
        assert_eq!(cache.pass(&mut advice, 100 * KIB), []);
        assert_eq!(cache.pass(&mut advice, 100 * KIB), []);
        // 300 KiB: one unit from where it began, and 44 KiB that wait.
        assert_eq!(cache.pass(&mut advice, 100 * KIB), [(1000, 256 * KIB)]);
        assert_eq!(cache.pass(&mut advice, 0), []);
        assert_eq!(cache.pass(&mut advice, 600 * KIB), [(1000 + 256 * KIB, 512 * KIB)]);
        assert_eq!(cache.pass(&mut advice, 124 * KIB), [(1000 + 768 * KIB, 256 * KIB)]);
        assert_eq!(cache.pass(&mut advice, 256 * KIB), [(1000 + KIB * 1024, 256 * KIB)]);
    }

    #[test]
    fn what_waits_is_dropped_at_a_jump_and_at_the_end() {
        let cache = Watched::new();
        let mut advice = Advice::new(Cache::Drop, Side::Writing, Some(0));
        assert_eq!(cache.pass(&mut advice, 300 * KIB), [(0, 256 * KIB)]);
        advice.start_at(&cache.medium, cache.file.as_fd(), 1000 * KIB);
        assert_eq!(cache.dropped(), [(256 * KIB, 44 * KIB)]);
        advice.start_at(&cache.medium, cache.file.as_fd(), 2000 * KIB);
        assert_eq!(cache.dropped(), [], "nothing waits");
        assert_eq!(cache.pass(&mut advice, 10 * KIB), []);
        assert_eq!(advice.finish(&cache.medium, cache.file.as_fd(), false), None);
        assert_eq!(cache.dropped(), [(2000 * KIB, 10 * KIB)]);
        assert_eq!(advice.finish(&cache.medium, cache.file.as_fd(), false), None);
        assert_eq!(cache.dropped(), [], "nothing waits any more");
    }

    #[test]
    fn at_the_end_of_the_file_all_from_the_page_on_is_dropped() {
        let page = widen(rustix::param::page_size());
        let cache = Watched::new();
        let mut advice = Advice::new(Cache::Drop, Side::Reading, Some(0));
        assert_eq!(cache.pass(&mut advice, 2 * page + 700), []);
        advice.finish(&cache.medium, cache.file.as_fd(), true);
        assert_eq!(cache.dropped(), [(0, 0)]);
        for (from, wanted) in [(0, 0), (page - 1, 0), (page, page), (3 * page + 1, 3 * page)] {
            drop_to_end(&cache.medium, cache.file.as_fd(), from).expect("advice");
            assert_eq!(cache.dropped(), [(wanted, 0)], "from {from}");
        }
    }

    #[test]
    fn nothing_is_done_where_nothing_was_asked_for_or_nothing_can_seek() {
        let cache = Watched::new();
        for (asked, position) in [(Cache::Keep, Some(0)), (Cache::DropAll, Some(0)), (Cache::Drop, None)] {
            let mut advice = Advice::new(asked, Side::Writing, position);
            assert!(advice.is_idle());
            assert_eq!(cache.pass(&mut advice, 1 << 20), []);
            advice.finish(&cache.medium, cache.file.as_fd(), true);
            assert_eq!(cache.dropped(), []);
        }
    }

    /// Runs a test that looks at each page of the cache, and up to five times in all if it fails: a system that is short of
    /// memory drops pages of ours. A rule that is broken is broken each time.
    #[cfg(not(miri))]
    fn undisturbed(test: impl Fn()) {
        for _ in 1..5 {
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(&test)).is_ok() {
                return;
            }
        }
        test();
    }

    /// A file on the medium of the build, of `len` bytes, with no page in the cache; `None`, said aloud, where pages stay.
    #[cfg(not(miri))]
    fn cold_file(len: u64) -> Option<File> {
        let program = std::env::current_exe().expect("this program");
        let file = tempfile::tempfile_in(program.parent().expect("its directory")).expect("a file");
        file.write_all_at(&vec![1; usize::try_from(len).expect("small")], 0).expect("room");
        file.sync_all().expect("synced");
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("advice");
        // Nothing is to come into the cache but what is asked for.
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).expect("advice");
        if fdd_io::cache::cached(&file, 0..len).is_none_or(|found| found.cached > 0) {
            eprintln!("skipped: this file system keeps its pages, or the kernel does not tell");
            return None;
        }
        Some(file)
    }

    /// Which of the first `mib` MiB of a file are in the cache: all of one is `#`, nothing `.`, and a part `?`.
    #[cfg(not(miri))]
    fn map(file: &File, mib: u64) -> String {
        let of = |at: u64| fdd_io::cache::cached(file, at * MIB..(at + 1) * MIB).expect("told before");
        (0..mib).map(of).map(|found| if found.cached == found.pages { '#' } else { part(found.cached) }).collect()
    }

    #[cfg(not(miri))]
    fn part(cached: u64) -> char {
        if cached == 0 { '.' } else { '?' }
    }

    #[cfg(not(miri))]
    fn fetch(file: &File, from: u64, to: u64) {
        file.read_exact_at(&mut vec![0; usize::try_from(to - from).expect("small")], from).expect("a read");
    }

    #[test]
    #[cfg(not(miri))] // The page cache.
    fn windows_are_dropped_behind_the_position_and_nothing_else_is() {
        undisturbed(|| {
            let Some(file) = cold_file(26 * MIB) else { return };
            fetch(&file, 0, 26 * MIB);
            let medium = Medium::default();
            let pass = |advice: &mut Advice, len: u64| {
                advice.passed(&medium, file.as_fd(), usize::try_from(len).expect("small"));
                map(&file, 26)
            };
            let mut advice = Advice::new(Cache::Drop, Side::Reading, Some(MIB));
            advice.use_windows();
            assert!(!advice.is_idle());
            assert_eq!(pass(&mut advice, 6 * MIB), "##########################");
            assert_eq!(pass(&mut advice, 2 * MIB), "#.......##################");
            // A jump counts as passed.
            advice.start_at(&medium, file.as_fd(), 17 * MIB);
            assert_eq!(pass(&mut advice, 2 * MIB), "#...............##########");
            assert_eq!(advice.finish(&medium, file.as_fd(), false), None);
            assert_eq!(map(&file, 26), "#..................#######");
            assert!(medium.dropped.lock().expect("no panic").is_empty(), "not by the calls of the plain loop");
        });
    }

    #[test]
    #[cfg(not(miri))] // The page cache.
    fn windows_that_were_written_are_dropped_too() {
        undisturbed(|| {
            let Some(file) = cold_file(20 * MIB) else { return };
            fetch(&file, 0, 20 * MIB);
            let medium = Medium::default();
            let mut advice = Advice::new(Cache::Drop, Side::Writing, Some(2 * MIB));
            advice.use_windows();
            for piece in 1..8 {
                file.write_all_at(&[2; 2 << 20], piece * 2 * MIB).expect("room");
                advice.passed(&medium, file.as_fd(), 2 << 20);
            }
            // One window behind: the last one is being written back.
            assert_eq!(map(&file, 20), "##......############");
            assert_eq!(advice.finish(&medium, file.as_fd(), false), None);
            assert_eq!(map(&file, 20), "##..............####");
        });
    }

    #[test]
    #[cfg(not(miri))] // The page cache.
    fn neutral_drops_what_it_brought_and_keeps_what_was_there() {
        undisturbed(|| {
            for (side, ahead) in
                [(Side::Reading, false), (Side::Reading, true), (Side::Writing, false), (Side::Writing, true)]
            {
                let Some(file) = cold_file(20 * MIB) else { return };
                fetch(&file, 0, MIB);
                fetch(&file, 4 * MIB, 6 * MIB);
                fetch(&file, 9 * MIB, 10 * MIB);
                fetch(&file, 17 * MIB, 20 * MIB);
                let before = "#...##...#.......###";
                assert_eq!(map(&file, 20), before);
                let medium = Medium::default();
                let mut advice = Advice::new(Cache::Neutral, side, Some(2 * MIB));
                assert!(!advice.is_idle());
                advice.use_windows();
                for at in (2..16).step_by(2) {
                    if ahead {
                        advice.announce(file.as_fd(), at * MIB..(at + 2) * MIB);
                    } else {
                        advice.before(file.as_fd(), 2 << 20);
                    }
                    match side {
                        Side::Reading => fetch(&file, at * MIB, (at + 2) * MIB),
                        Side::Writing => file.write_all_at(&[3; 2 << 20], at * MIB).expect("room"),
                    }
                    assert_eq!(map(&file, 20)[usize::try_from(at).expect("small")..][..2], *"##", "the copy was here");
                    advice.passed(&medium, file.as_fd(), 2 << 20);
                }
                assert_eq!(advice.finish(&medium, file.as_fd(), true), None);
                assert_eq!(map(&file, 20), before, "{side:?}, announced: {ahead}");
                assert!(medium.dropped.lock().expect("no panic").is_empty());
            }
        });
    }
}
