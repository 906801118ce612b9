//! Drop-behind on real files: what is left in the page cache, during the copy and after it.
//!
//! The files lie where the build lies. On a file system that keeps its pages, such as tmpfs, there is nothing to measure
//! and the tests say that they were skipped.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)] // A test may end in a panic, and its sizes are small.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use fdd_io::cache::{DropBehind, Neutral, cached};
use rustix::fs::Advice;

const MIB: u64 = 1 << 20;
const WINDOW: u64 = 4 * MIB;
const SIZE: u64 = 96 * MIB;
const CHUNK: u64 = MIB / 4;

/// Runs a test that counts cached pages, and once more up to five times in all if it fails: a system that is short of memory
/// drops pages of ours, and one that moves pages about keeps one for a moment. A rule that is broken is broken each time.
fn undisturbed(test: impl Fn()) {
    for _ in 1..5 {
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(&test)).is_ok() {
            return;
        }
    }
    test();
}

fn page() -> u64 {
    rustix::param::page_size() as u64
}

fn bytes_cached(file: &File, range: Range<u64>) -> u64 {
    cached(file, range).expect("the kernel tells us about our own file").cached * page()
}

fn empty_file() -> File {
    tempfile::tempfile_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// A file of `SIZE` bytes, all of them out of the cache. `None` where that cannot be.
fn cold_file() -> Option<File> {
    let file = empty_file();
    for offset in (0..SIZE).step_by(CHUNK as usize) {
        file.write_all_at(&[1; CHUNK as usize], offset).unwrap();
    }
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    if bytes_cached(&file, 0..SIZE) > 0 {
        eprintln!("skipped: the file system keeps its pages");
        return None;
    }
    Some(file)
}

/// What the kernel may have read ahead: two rounds. Devices differ from 128 KiB to 8 MiB a round.
fn read_ahead(file: &File) -> u64 {
    let device = rustix::fs::fstat(file).unwrap().st_dev;
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let told = std::fs::read_to_string(format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb"));
    2 * told.map_or(8 * MIB, |told| told.trim().parse::<u64>().unwrap() << 10)
}

/// Calls `step` for each chunk of `range` and returns the most that was cached of the file after any.
fn peak(file: &File, range: Range<u64>, mut step: impl FnMut(u64, u64)) -> u64 {
    let mut peak = 0;
    let mut at = range.start;
    while at < range.end {
        let next = (at + CHUNK).min(range.end);
        step(at, next);
        peak = peak.max(bytes_cached(file, 0..SIZE));
        at = next;
    }
    peak
}

fn write(file: &File, from: u64, to: u64) {
    file.write_all_at(&vec![2; (to - from) as usize], from).unwrap();
}

fn read(file: &File, from: u64, to: u64) {
    file.read_exact_at(&mut vec![0; (to - from) as usize], from).unwrap();
}

#[test]
fn a_new_file_passes_through_two_windows() {
    undisturbed(|| {
        if cold_file().is_none() {
            return;
        }
        let file = empty_file();
        let mut behind = DropBehind::writing(0).with_window(WINDOW);
        let peak = peak(&file, 0..SIZE, |from, to| {
            write(&file, from, to);
            behind.moved_to(&file, to);
        });
        assert!(peak <= 2 * WINDOW + 2 * CHUNK, "{peak}");
        // The measure can fail: a window is indeed there.
        assert!(peak >= WINDOW, "{peak}");
        behind.finish(&file);
        assert_eq!(bytes_cached(&file, 0..SIZE), 0);
        assert_eq!((behind.trouble(), behind.write_back_error()), (None, None));
    });
}

#[test]
fn an_overwrite_passes_through_two_windows() {
    undisturbed(|| {
        let Some(file) = cold_file() else { return };
        let mut behind = DropBehind::writing(0).with_window(WINDOW);
        let peak = peak(&file, 0..SIZE, |from, to| {
            write(&file, from, to);
            behind.moved_to(&file, to);
        });
        behind.finish(&file);
        assert!(peak <= 2 * WINDOW + 2 * CHUNK, "{peak}");
        assert_eq!(bytes_cached(&file, 0..SIZE), 0);
        let mut told = [0; 5];
        file.read_exact_at(&mut told, SIZE - 5).unwrap();
        assert_eq!(told, [2; 5]);
    });
}

#[test]
fn a_new_file_of_odd_length_leaves_no_last_page() {
    undisturbed(|| {
        if cold_file().is_none() {
            return;
        }
        let file = empty_file();
        let mut behind = DropBehind::writing(3);
        write(&file, 3, 12_345);
        behind.moved_to(&file, 12_345);
        behind.finish(&file);
        assert_eq!(bytes_cached(&file, 0..SIZE), 0);
    });
}

#[test]
fn what_is_read_passes_through_one_window_and_what_was_read_ahead() {
    undisturbed(|| {
        let Some(file) = cold_file() else { return };
        let mut behind = DropBehind::reading(0).with_window(WINDOW);
        let peak = peak(&file, 0..SIZE, |from, to| {
            read(&file, from, to);
            behind.moved_to(&file, to);
        });
        behind.finish(&file);
        assert!(peak <= WINDOW + 2 * CHUNK + read_ahead(&file), "{peak}");
        assert_eq!(bytes_cached(&file, 0..SIZE), 0);
    });
}

#[test]
fn drop_behind_drops_what_was_cached_before_but_not_what_it_did_not_pass() {
    undisturbed(|| {
        let Some(file) = cold_file() else { return };
        read(&file, 0, SIZE);
        let mut behind = DropBehind::reading(8 * MIB).with_window(WINDOW);
        peak(&file, 8 * MIB..16 * MIB, |from, to| {
            read(&file, from, to);
            behind.moved_to(&file, to);
        });
        behind.finish(&file);
        assert_eq!(bytes_cached(&file, 8 * MIB..16 * MIB), 0);
        assert_eq!(bytes_cached(&file, 0..8 * MIB), 8 * MIB);
        assert_eq!(bytes_cached(&file, 16 * MIB..SIZE), SIZE - 16 * MIB);
    });
}

/// Which pages of the file are in the cache.
fn map(file: &File) -> Vec<bool> {
    (0..SIZE / page()).map(|n| bytes_cached(file, n * page()..(n + 1) * page()) > 0).collect()
}

/// Brings some ranges in, large and small, over edges of windows and up to the end, and nothing else.
fn warm_some(file: &File) {
    rustix::fs::fadvise(file, 0, None, Advice::Random).unwrap();
    for range in
        [0..page(), 3 * MIB + page()..5 * MIB, 9 * MIB..9 * MIB + 3 * page(), 20 * MIB..30 * MIB, SIZE - page()..SIZE]
    {
        read(file, range.start, range.end);
    }
    rustix::fs::fadvise(file, 0, None, Advice::Normal).unwrap();
}

#[test]
fn neutral_reading_leaves_exactly_what_was_there() {
    undisturbed(|| {
        let Some(file) = cold_file() else { return };
        warm_some(&file);
        let before = map(&file);
        assert!(before.contains(&true) && before.contains(&false));
        let mut neutral = Neutral::reading(0).with_window(WINDOW);
        let peak = peak(&file, 0..SIZE, |from, to| {
            neutral.before(&file, from..to);
            read(&file, from, to);
            neutral.moved_to(&file, to);
        });
        neutral.finish(&file);
        assert_same(&map(&file), &before);
        // Twelve MiB were there; the rest is as for dropping all.
        assert!(peak <= 12 * MIB + WINDOW + 2 * CHUNK + read_ahead(&file), "{peak}");
    });
}

#[test]
fn neutral_drops_what_was_read_ahead_in_vain() {
    undisturbed(|| {
        let Some(file) = cold_file() else { return };
        warm_some(&file);
        let before = map(&file);
        let mut neutral = Neutral::reading(5 * MIB).with_window(WINDOW);
        peak(&file, 5 * MIB + 123..11 * MIB + 17, |from, to| {
            neutral.before(&file, from..to);
            read(&file, from, to);
            neutral.moved_to(&file, to);
        });
        neutral.finish(&file);
        assert_same(&map(&file), &before);
    });
}

#[test]
fn neutral_writing_keeps_what_was_there_and_drops_the_rest() {
    undisturbed(|| {
        let Some(file) = cold_file() else { return };
        warm_some(&file);
        let before = map(&file);
        let mut neutral = Neutral::writing(0).with_window(WINDOW);
        peak(&file, 0..SIZE, |from, to| {
            neutral.before(&file, from..to);
            write(&file, from, to);
            neutral.moved_to(&file, to);
        });
        neutral.finish(&file);
        assert_same(&map(&file), &before);
    });
}

#[test]
fn neutral_drops_all_of_a_new_file() {
    undisturbed(|| {
        if cold_file().is_none() {
            return;
        }
        let file = empty_file();
        let mut neutral = Neutral::writing(0).with_window(WINDOW);
        let peak = peak(&file, 0..SIZE, |from, to| {
            neutral.before(&file, from..to);
            write(&file, from, to);
            neutral.moved_to(&file, to);
        });
        neutral.finish(&file);
        assert!(peak <= 2 * WINDOW + 2 * CHUNK, "{peak}");
        assert_eq!(bytes_cached(&file, 0..SIZE), 0);
    });
}

fn assert_same(after: &[bool], before: &[bool]) {
    let differing: Vec<usize> = (0..before.len()).filter(|&n| before[n] != after[n]).collect();
    assert!(differing.is_empty(), "pages {differing:?} differ");
}

#[test]
fn a_file_system_without_a_device_is_no_trouble() {
    // tmpfs, where there is one: nothing can be dropped, and nothing fails.
    let Ok(file) = tempfile::tempfile_in("/dev/shm") else { return };
    let mut behind = DropBehind::writing(0).with_window(WINDOW);
    write(&file, 0, MIB);
    behind.moved_to(&file, MIB);
    behind.finish(&file);
    assert_eq!(behind.write_back_error(), None);
    assert_eq!(bytes_cached(&file, 0..MIB), MIB);
}

/// Runs as root only: it becomes somebody else for one question.
#[test]
fn a_file_of_somebody_else_is_unknown() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can become a stranger");
        return;
    }
    let Some(file) = cold_file() else { return };
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    let reader = File::open(path).unwrap();
    // Of this thread alone: the tests beside it stay root.
    let nobody = rustix::process::Uid::from_raw(65_534);
    let told = std::thread::spawn(move || -> io::Result<_> {
        rustix::thread::set_thread_uid(nobody)?;
        Ok(cached(&reader, 0..SIZE))
    });
    match told.join().unwrap().unwrap() {
        None => {}
        // Before there was a call that refuses, a probe told the truth.
        Some(told) => assert_eq!(told.cached, 0),
    }
}

#[test]
fn neutral_writing_leaves_what_somebody_fetches_ahead_of_it() {
    undisturbed(|| {
        let Some(file) = cold_file() else { return };
        rustix::fs::fadvise(&file, 0, None, Advice::Random).unwrap();
        let mut neutral = Neutral::writing(0).with_window(WINDOW);
        neutral.before(&file, 0..MIB);
        // After the cache was asked, and before the copy comes there, which it never does.
        read(&file, 20 * MIB, 22 * MIB);
        write(&file, 0, MIB);
        neutral.moved_to(&file, MIB);
        neutral.finish(&file);
        assert_eq!(bytes_cached(&file, 0..20 * MIB), 0);
        assert_eq!(bytes_cached(&file, 20 * MIB..22 * MIB), 2 * MIB);
    });
}
