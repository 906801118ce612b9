//! The order of the ways: which one may go on with what another has begun.

use super::*;
use crate::testing::{pattern, with_job};

fn run_freely(job: &mut Job<'_>) -> Vec<(&'static str, u64)> {
    let (outcome, moved) = run(job, &Choice::default());
    assert!(outcome.is_ok_and(|ending| !ending.failed));
    moved
}

#[test]
fn a_record_that_a_faster_way_left_begun_is_ended_by_the_plain_loop() {
    let data = pattern(2 << 20);
    let dir = tempfile::tempdir().expect("a directory");
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    std::fs::write(&from, &data).expect("written");
    for begun in [0, 1, 1234, 4999] {
        std::fs::write(&to, &data[..begun]).expect("written");
        let operands = format!("if={} of={} bs=5000 conv=notrunc", from.display(), to.display());
        let (moved, tally) = with_job(&operands, None, None, |job| {
            job.sink.go_to(crate::units::widen(begun)).expect("a place in the file");
            job.sink.expect_again(crate::units::widen(begun));
            (run_freely(job), job.monitor.tally)
        });
        assert!(std::fs::read(&to).expect("read") == data, "{begun} bytes were there: {moved:?}");
        assert_eq!((tally.bytes, tally.written.full, tally.written.partial), (2 << 20, 419, 1), "{begun}");
        assert_eq!(moved.iter().any(|&(way, bytes)| way == "coalesce" && bytes > 0), begun == 0, "{begun}: {moved:?}");
    }
}
