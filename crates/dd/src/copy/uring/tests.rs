//! Requests that come short, are stopped or end in another order than they began.

use std::path::PathBuf;
use std::sync::Arc;

use rustix::io::Errno;

use super::*;
use crate::operands::Status;
use crate::tally::Afar;
use crate::testing::with_job;

/// Gets a copy of `len` bytes into a new file that has just begun: nothing is read yet, and pieces are to be written at
/// explicit offsets, `writes` at a time. `None`, said aloud, where there are no rings.
fn begun<T>(
    len: usize,
    writes: usize,
    work: impl FnOnce(Flow, &mut Job<'_>, &[PathBuf; 2]) -> T,
) -> Option<(T, Vec<u8>)> {
    let Ok(mut ring) = Ring::new(16, PIECE * PIECES) else {
        eprintln!("skipped: no ring to be had");
        return None;
    };
    let home = tempfile::tempdir().expect("a directory");
    let paths = [home.path().join("in"), home.path().join("out")];
    std::fs::write(&paths[0], vec![7; len]).expect("written");
    let operands = format!("if={} of={} bs=64K", paths[0].display(), paths[1].display());
    let result = with_job(&operands, None, None, |job| {
        let (mut bulk, files) = Bulk::begin(job).expect("something to do");
        bulk.writes = writes;
        let input = ring.take(files.input);
        let output = Some(ring.take(job.sink.duplicate().expect("a descriptor")));
        let states = [State::Free; PIECES];
        let (reading, writing, done, until, part) = (0, 0, 0, u64::MAX, None);
        work(Flow { ring, bulk, input, output, states, reading, writing, done, until, part }, job, &paths)
    });
    Some((result, std::fs::read(&paths[1]).expect("the output")))
}

/// The end of a request to read `asked` bytes of a piece.
fn read(number: u64, asked: usize, result: Result<usize, Errno>) -> Done {
    Done { tag: number * widen(PIECE) + widen(asked - 1), result }
}

#[test]
fn a_piece_is_read_when_all_of_its_requests_were_whole() {
    begun(3 * PIECE, 1, |mut flow, job, _| {
        flow.states = [State::Reading(PIECE), State::Reading(PART + 4096), State::Free, State::Free];
        flow.ended(read(0, PART, Ok(PART)), job);
        assert_eq!((flow.states[0], flow.until), (State::Reading(PART), u64::MAX));
        flow.ended(read(0, PART, Ok(PART)), job);
        // The small request of two is the first to end.
        flow.ended(read(1, 4096, Ok(4096)), job);
        assert_eq!(flow.states[1], State::Reading(PART));
        flow.ended(read(1, PART, Ok(PART)), job);
        assert_eq!((&flow.states[..2], flow.until), (&[State::Read; 2][..], u64::MAX));
    });
}

#[test]
fn no_piece_is_written_from_the_first_on_that_came_short() {
    for result in [Ok(PART - 1), Ok(0), Err(Errno::IO)] {
        begun(4 * PIECE, 1, |mut flow, job, _| {
            flow.states = [State::Read, State::Reading(PART), State::Read, State::Free];
            flow.reading = 3;
            flow.ended(read(1, PART, result), job);
            assert_eq!(flow.until, 1, "{result:?}");
            flow.ended(read(3, PART, Err(Errno::IO)), job);
            assert_eq!(flow.until, 1, "a later one changes nothing");
            assert!(!flow.run(job), "nobody stopped it");
            assert_eq!((flow.done, job.monitor.tally.bytes), (1, widen(PIECE)), "{result:?}");
        });
    }
}

#[test]
fn an_input_that_shrinks_is_copied_up_to_a_whole_piece() {
    let copied = begun(3 * PIECE, 1, |mut flow, job, [input, _]| {
        std::fs::File::options().write(true).open(input).expect("a file").set_len(widen(PIECE + 5000)).expect("cut");
        assert!(!flow.run(job));
        job.monitor.tally.bytes
    });
    let Some((bytes, output)) = copied else { return };
    assert_eq!(bytes, widen(PIECE));
    assert!(output == [7; PIECE]);
}

#[test]
fn so_many_writes_are_under_way_as_keep_the_order() {
    for writes in [1, 2, 3] {
        begun(4 * PIECE, writes, |mut flow, job, _| {
            flow.states = [State::Read; PIECES];
            flow.reading = 4;
            flow.write_on(job).expect("not stopped");
            assert_eq!((flow.writing, flow.ring.in_flight()), (widen(writes), writes));
            let under_way = flow.states.iter().filter(|&&state| state == State::Writing).count();
            assert_eq!(under_way, writes);
        });
    }
}

#[test]
fn of_writes_that_come_short_the_first_in_the_file_counts() {
    // The pieces in the order in which their writes end, how much of each was written, and what counts.
    for (ends, bytes) in [
        (&[(0, PIECE), (1, 4096)][..], PIECE + 4096),
        (&[(1, 4096), (0, PIECE)], PIECE + 4096),
        (&[(0, 8192), (1, 4096)], 8192),
        (&[(1, 4096), (0, 8192)], 8192),
        (&[(1, PIECE), (0, 8192)], 8192),
        (&[(0, 8192), (1, PIECE)], 8192),
        (&[(1, PIECE), (0, PIECE)], 2 * PIECE),
        (&[(0, 0), (1, PIECE)], 0),
        (&[(2, 4096), (1, 8192), (0, PIECE)], PIECE + 8192),
        (&[(1, 8192), (2, 4096), (0, PIECE)], PIECE + 8192),
    ] {
        begun(3 * PIECE, 3, |mut flow, job, _| {
            (flow.reading, flow.writing) = (3, 3);
            flow.states = [State::Writing, State::Writing, State::Writing, State::Free];
            for &(number, moved) in ends {
                flow.ended(Done { tag: WRITE | number, result: Ok(moved) }, job);
            }
            assert!(!flow.run(job));
            assert_eq!(job.monitor.tally.bytes, widen(bytes), "{ends:?}");
        });
    }
}

#[test]
fn a_write_that_is_under_way_at_a_stop_is_waited_for_and_counted() {
    let stopped = begun(4 * PIECE, 1, |mut flow, job, _| {
        flow.states[0] = State::Read;
        flow.reading = 1;
        // Progress by the clock makes an embedded copy look up before each call; what it finds is a writer elsewhere that has
        // failed.
        let afar = Arc::new(Afar::at(job.monitor.tally));
        afar.fail();
        job.monitor.speak(Status::Progress, None);
        job.monitor.start_clock();
        job.monitor.afar = Some(afar);
        assert!(flow.run(job), "stopped");
        job.monitor.afar = None;
        assert!(!flow.states.contains(&State::Writing));
        job.monitor.tally.bytes
    });
    let Some((bytes, output)) = stopped else { return };
    assert_eq!((bytes, output.len()), (widen(PIECE), PIECE));
}
