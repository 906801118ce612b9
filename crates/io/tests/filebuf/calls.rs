//! How often the kernel is called: literal numbers for the sizes that were once cliffs, the bound for every mixture of
//! sizes, that no other schedule does with fewer, and what strace counts.

use std::io::{BufRead, Read, Write};

use fdd_io::filebuf::FileBuf;
use proptest::prelude::*;

use super::scripted::{Scripted, Turn};

fn config() -> ProptestConfig {
    let cases = if cfg!(miri) { 2 } else { ProptestConfig::default().cases };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// The write calls for chunks of these sizes and the flush at the end.
fn writes(capacity: usize, sizes: impl IntoIterator<Item = usize>) -> Vec<usize> {
    let scripted = Scripted::default();
    let mut stream = FileBuf::with_capacity(capacity, scripted.clone());
    for size in sizes {
        stream.write_all(&vec![b'x'; size]).expect("nothing fails");
    }
    stream.flush().expect("nothing fails");
    scripted.0.borrow().written.clone()
}

#[test]
#[cfg_attr(miri, ignore = "30 MB take it an hour, and tell no more than 30")]
fn a_thousand_chunks_of_any_size_have_no_cliff() {
    // Chunk, write calls with a capacity of 8192. A call per chunk would be 1000.
    let table = [
        (1, 1),
        (100, 13),
        (1000, 112),
        (1021, 112),
        (1022, 112),
        (1023, 112),
        (1024, 112),
        (1025, 125),
        (4000, 334),
        (5000, 500),
        (8191, 500),
        (8192, 500),
        (10_000, 1000),
    ];
    for (chunk, expected) in table {
        assert_eq!(writes(8192, std::iter::repeat_n(chunk, 1000)).len(), expected, "chunks of {chunk}");
    }
}

#[test]
fn looking_ahead_fills_the_buffer_by_one_call() {
    let scripted = Scripted::holding(&[b'x'; 100]);
    let mut stream = FileBuf::with_capacity(64, scripted.clone());
    assert_eq!(stream.fill_buf().expect("nothing fails").len(), 64);
    assert_eq!(scripted.calls().read, 1);
    stream.consume(64);
    assert_eq!(stream.fill_buf().expect("nothing fails").len(), 36);
    assert_eq!(scripted.calls().read, 2);
}

#[test]
fn a_chunk_that_fits_stays_in_the_buffer() {
    for size in [1, 8190, 8191, 8192] {
        let scripted = Scripted::default();
        let mut stream = FileBuf::with_capacity(8192, scripted.clone());
        stream.write_all(&vec![b'x'; size]).expect("nothing fails");
        assert_eq!((scripted.calls().write, stream.unwritten().len()), (0, size));
    }
}

#[test]
fn what_is_held_and_a_chunk_that_does_not_fit_go_out_in_one_call() {
    assert_eq!(writes(8, [5, 4, 3]), [9, 3]);
    assert_eq!(writes(8, [5, 100, 3]), [105, 3]);
    assert_eq!(writes(8, [9]), [9]);
}

#[test]
fn unbuffered_each_chunk_is_a_call_and_each_read_takes_what_was_asked() {
    assert_eq!(writes(0, [1, 5, 3]), [1, 5, 3]);
    let scripted = Scripted::holding(b"abcdefgh");
    let mut stream = FileBuf::with_capacity(0, scripted.clone());
    let mut into = [0; 3];
    assert_eq!(stream.read(&mut into).expect("nothing fails"), 3);
    assert_eq!(scripted.0.borrow().offset, 3, "whoever shares the descriptor goes on there");
    stream.fill_buf().expect("nothing fails");
    assert_eq!(scripted.0.borrow().offset, 4, "one byte is the least that `fill_buf` can give");
    stream.sync().expect("nothing fails");
    assert_eq!(scripted.0.borrow().offset, 3);
}

#[test]
fn a_read_of_more_than_is_held_takes_the_rest_with_one_call() {
    let file: Vec<u8> = (0..100).collect();
    let scripted = Scripted::holding(&file);
    let mut stream = FileBuf::with_capacity(8, scripted.clone());
    let mut into = [0; 50];
    assert_eq!(stream.read(&mut into[..2]).expect("nothing fails"), 2);
    assert_eq!((scripted.calls().read, scripted.0.borrow().offset), (1, 10), "it fills the buffer, too");
    assert_eq!(stream.read(&mut into[..30]).expect("nothing fails"), 30);
    assert_eq!((scripted.calls().read, scripted.0.borrow().offset), (2, 40));
    assert_eq!(into[..30], file[2..32]);
    assert_eq!(stream.read(&mut into[..8]).expect("nothing fails"), 8);
    assert_eq!(scripted.calls().read, 2, "the buffer had them");
}

#[test]
fn a_read_that_has_something_does_not_wait_for_more_on_a_socket() {
    let scripted = Scripted::socket(b"abcdefghijkl");
    let mut stream = FileBuf::with_capacity(8, scripted.clone());
    let mut into = [0; 16];
    assert_eq!(stream.read(&mut into[..2]).expect("nothing fails"), 2);
    let before = scripted.calls().read;
    assert_eq!(stream.read(&mut into).expect("nothing fails"), 8);
    assert_eq!(scripted.calls().read, before);
}

#[test]
fn a_line_is_one_call_together_with_what_was_held() {
    let scripted = Scripted::default();
    let mut stream = FileBuf::with_capacity(64, scripted.clone());
    stream.set_line_buffered(true);
    for chunk in ["one ", "two\nthree", " four\nfive\nsix"] {
        stream.write_all(chunk.as_bytes()).expect("nothing fails");
    }
    assert_eq!(scripted.0.borrow().written, [8, 16]);
    assert_eq!(stream.unwritten(), b"six");
    stream.set_line_buffered(false);
    stream.write_all(b"\n").expect("nothing fails");
    assert_eq!(stream.unwritten(), b"six\n");
}

#[test]
fn lines_count_from_the_moment_they_are_asked_for() {
    let scripted = Scripted::default();
    let mut stream = FileBuf::with_capacity(64, scripted.clone());
    stream.write_all(b"one\n").expect("nothing fails");
    stream.set_line_buffered(true);
    assert_eq!(stream.unwritten(), b"one\n", "what is held stays held");
    stream.write_all(b"two").expect("nothing fails");
    stream.write_all(b"\n").expect("nothing fails");
    assert_eq!(scripted.0.borrow().written, [8], "a newline alone is a line's end, too");
}

#[test]
fn a_short_write_is_followed_by_another_only_if_the_rest_does_not_fit() {
    // 8 held and 12 more: 5 go, 15 are left and do not fit; 9 go, the rest fits and stays.
    let scripted = Scripted::default().script([Turn::Short(5), Turn::Short(9)]);
    let mut stream = FileBuf::with_capacity(8, scripted.clone());
    stream.write_all(b"abcdefgh").expect("nothing fails");
    stream.write_all(b"ijklmnopqrst").expect("nothing fails");
    assert_eq!(scripted.0.borrow().written, [5, 9]);
    assert_eq!(stream.unwritten(), b"opqrst");
}

/// The fewest calls, found by trying every set of moments at which all that is held is written. (To write only a part is
/// never better: whatever fits after a part was written fits after all was.)
fn fewest(capacity: usize, sizes: &[usize]) -> usize {
    let flushes = |moments: u32| -> Option<usize> {
        let (mut held, mut calls) = (0, 0);
        for (at, size) in sizes.iter().enumerate() {
            held += size;
            if moments & (1 << at) != 0 {
                calls += usize::from(held > 0);
                held = 0;
            } else if held > capacity {
                return None;
            }
        }
        Some(calls + usize::from(held > 0))
    };
    (0..1 << sizes.len()).filter_map(flushes).min().expect("writing each at once always fits")
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_call_but_the_last_carries_more_than_the_capacity(
        capacity in 0..100_usize,
        sizes in proptest::collection::vec(0..250_usize, 0..60),
    ) {
        let bytes: usize = sizes.iter().sum();
        let calls = writes(capacity, sizes);
        prop_assert_eq!(calls.iter().sum::<usize>(), bytes);
        if let Some((_, full)) = calls.split_last() {
            prop_assert!(full.iter().all(|call| *call > capacity), "{:?}", calls);
        }
        // Hence:
        prop_assert!(calls.len() <= bytes / (capacity + 1) + 1);
    }

    #[test]
    fn chunks_of_one_size_cost_no_more_than_full_buffers_and_one(
        capacity in 1..100_usize,
        size in 1..250_usize,
        count in 1..200_usize,
    ) {
        let calls = writes(capacity, std::iter::repeat_n(size, count)).len();
        prop_assert!(calls <= (size * count).div_ceil(capacity) + 1);
    }

    #[test]
    fn no_schedule_makes_fewer_calls(
        capacity in 0..30_usize,
        sizes in proptest::collection::vec(0..45_usize, 0..10),
    ) {
        prop_assert_eq!(writes(capacity, sizes.iter().copied()).len(), fewest(capacity, &sizes));
    }

    #[test]
    fn every_read_call_brings_more_than_the_capacity_until_the_end(
        capacity in 0..100_usize,
        bytes in 0..3000_usize,
        sizes in proptest::collection::vec(1..250_usize, 1..60),
    ) {
        let scripted = Scripted::holding(&vec![b'x'; bytes]);
        let mut stream = FileBuf::with_capacity(capacity, scripted.clone());
        let mut asked = 0;
        for size in sizes.iter().cycle() {
            let (came, result) = stream.read_full(&mut vec![0; *size]);
            result.expect("nothing fails");
            asked += came;
            if came < *size {
                break;
            }
        }
        prop_assert_eq!(asked, bytes);
        // One that meets the end, and one more that sees it.
        prop_assert!(scripted.calls().read <= bytes / (capacity + 1) + 2);
    }
}

/// What the test below looks at through strace; by itself it does nothing.
#[test]
#[cfg(not(miri))]
fn writes_the_table_when_watched() {
    let Some(path) = std::env::var_os("FDD_FILEBUF_WATCHED") else { return };
    let mut stream = FileBuf::open(path, fdd_io::filebuf::Mode::OUT).expect("a file in a directory of ours");
    for _ in 0..1000 {
        stream.write_all(&[b'x'; 1024]).expect("nothing fails");
    }
    stream.close().expect("nothing fails");
}

#[test]
#[cfg(not(miri))]
fn strace_counts_112_calls_for_a_thousand_chunks_of_1024() {
    let directory = tempfile::tempdir().expect("a directory");
    let (file, trace) = (directory.path().join("file"), directory.path().join("trace"));
    let strace = std::process::Command::new("strace")
        .args(["-f", "-e", "trace=write,writev,pwrite64,pwritev", "-P"])
        .arg(&file)
        .arg("-o")
        .arg(&trace)
        .arg(std::env::current_exe().expect("this program has a path"))
        .args(["--exact", "calls::writes_the_table_when_watched"])
        .env("FDD_FILEBUF_WATCHED", &file)
        .output();
    let strace = match strace {
        Ok(strace) => strace,
        Err(error) => return println!("skipped: strace does not start: {error}"),
    };
    if !strace.status.success() && String::from_utf8_lossy(&strace.stderr).contains("ptrace") {
        return println!("skipped: strace may not trace here");
    }
    assert!(strace.status.success(), "{}", String::from_utf8_lossy(&strace.stderr));
    assert_eq!(std::fs::metadata(&file).expect("it was written").len(), 1_024_000);
    let trace = std::fs::read_to_string(&trace).expect("strace wrote it");
    assert_eq!(trace.lines().filter(|line| line.contains("write")).count(), 112, "{trace}");
}
