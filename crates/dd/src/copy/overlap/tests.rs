//! The reader's thread: what it hands on of an input that is not what it was.

use super::*;
use crate::testing::{pattern, with_job};

#[test]
fn a_piece_that_cannot_be_read_whole_is_not_handed_on() {
    for (left, whole) in [(2 * PIECE, 2), (2 * PIECE - 1, 1), (PIECE + PIECE / 2, 1), (PIECE + 5000, 1), (4095, 0)] {
        let home = tempfile::tempdir().expect("a directory");
        let (from, to) = (home.path().join("in"), home.path().join("out"));
        let data = pattern(2 * PIECE);
        std::fs::write(&from, &data).expect("written");
        let operands = format!("if={} of={} bs=64K", from.display(), to.display());
        with_job(&operands, None, None, |job| {
            let (bulk, files) = Bulk::begin(job).expect("something to do");
            std::fs::File::options().write(true).open(&from).expect("a file").set_len(widen(left)).expect("cut");
            let (space, mut filled) = spsc(PIECE * PIECES).expect("memory");
            read_all(&files.input, bulk.pieces, space);
            let bytes = filled.filled(2 * PIECE).expect("a reader that has ended");
            assert!(*bytes == data[..whole * PIECE], "{} bytes of {left}", bytes.len());
        });
    }
}

#[test]
fn an_input_that_shrinks_is_copied_up_to_a_whole_piece() {
    let home = tempfile::tempdir().expect("a directory");
    let (from, to) = (home.path().join("in"), home.path().join("out"));
    let data = pattern(3 * PIECE);
    std::fs::write(&from, &data).expect("written");
    let operands = format!("if={} of={} bs=64K", from.display(), to.display());
    let bytes = with_job(&operands, None, None, |job| {
        let (bulk, Files { input, output }) = Bulk::begin(job).expect("something to do");
        std::fs::File::options().write(true).open(&from).expect("a file").set_len(widen(PIECE + 5000)).expect("cut");
        let (space, filled) = spsc(PIECE * PIECES).expect("memory");
        read_all(&input, bulk.pieces, space);
        let mut flow = Flow { bulk, output, filled };
        flow.run(job).expect("not stopped");
        job.monitor.tally.bytes
    });
    assert_eq!(bytes, widen(PIECE));
    assert!(std::fs::read(&to).expect("the output") == data[..PIECE]);
}
