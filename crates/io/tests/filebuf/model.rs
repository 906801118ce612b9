//! Random sequences of all operations at all capacities, with calls that are cut, interrupted and refused, against a plain
//! `Vec` with a cursor. After every operation the file with the unwritten bytes put on it is the model's file.
//!
//! `PROPTEST_CASES=1000000 cargo test --release -p fdd-io --test filebuf model` runs a million sequences each.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, Read, Seek, SeekFrom, Write};

use fdd_io::filebuf::{FileBuf, PUT_BACK};
use proptest::prelude::*;
use rustix::io::Errno;

use super::scripted::{Scripted, Turn, write_at};

#[derive(Clone, Debug)]
enum Op {
    Put(usize),
    Write(usize),
    Read(usize),
    ReadFull(usize),
    ReadExact(usize),
    /// Of what `fill_buf` gives, this many 16ths.
    FillAndConsume(usize),
    SeekStart(u64),
    SeekCurrent(i64),
    SeekEnd(i64),
    SeekRelative(i64),
    Unget,
    PutBack(u8),
    Flush,
    Sync,
    SyncData,
    Position,
    InAvail,
    Lines(bool),
    TakeUnwritten,
    IntoInnerAndAnew(usize),
}

/// Lengths around the capacity find most; a few are far beyond.
fn length() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 0..24_usize, 2 => 24..120_usize]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => length().prop_map(Op::Put),
        3 => length().prop_map(Op::Write),
        5 => length().prop_map(Op::Read),
        3 => length().prop_map(Op::ReadFull),
        1 => length().prop_map(Op::ReadExact),
        3 => (0..=16_usize).prop_map(Op::FillAndConsume),
        2 => (0..150_u64).prop_map(Op::SeekStart),
        2 => (-60..60_i64).prop_map(Op::SeekCurrent),
        1 => (-60..30_i64).prop_map(Op::SeekEnd),
        3 => (-30..30_i64).prop_map(Op::SeekRelative),
        4 => Just(Op::Unget),
        4 => any::<u8>().prop_map(Op::PutBack),
        1 => Just(Op::Flush),
        1 => Just(Op::Sync),
        1 => Just(Op::SyncData),
        2 => Just(Op::Position),
        1 => Just(Op::InAvail),
        1 => any::<bool>().prop_map(Op::Lines),
        1 => Just(Op::TakeUnwritten),
        1 => (0..40_usize).prop_map(Op::IntoInnerAndAnew),
    ]
}

fn turn() -> impl Strategy<Value = Turn> {
    prop_oneof![
        6 => Just(Turn::Whole),
        4 => (1..30_usize).prop_map(Turn::Short),
        1 => Just(Turn::Fail(Errno::INTR)),
        1 => Just(Turn::Fail(Errno::AGAIN)),
        1 => Just(Turn::Fail(Errno::NOSPC)),
        1 => Just(Turn::Fail(Errno::IO)),
    ]
}

fn sequences() -> u32 {
    // Miri is a thousand times slower, and cannot read the environment.
    if cfg!(miri) { 2 } else { ProptestConfig::default().cases }
}

fn config() -> ProptestConfig {
    let persistence = None;
    ProptestConfig { cases: sequences(), failure_persistence: persistence, ..ProptestConfig::default() }
}

struct Model {
    file: Vec<u8>,
    position: usize,
    append: bool,
    /// Bytes put back that differ from the file, by position.
    altered: BTreeMap<usize, u8>,
    /// Where reading began after the last seek, write or sync; `None` where the stream may or may not have begun anew.
    floor: Option<usize>,
    /// How far it has come since.
    high: usize,
    next: u8,
}

impl Model {
    fn new(file: &[u8], append: bool) -> Model {
        let altered = BTreeMap::new();
        Model { file: file.to_vec(), position: 0, append, altered, floor: Some(0), high: 0, next: 1 }
    }

    /// Each byte differs from its neighbours, so that a lost or doubled one shows; newlines come along.
    fn chunk(&mut self, len: usize) -> Vec<u8> {
        let mut next = || {
            self.next = self.next.wrapping_add(1);
            self.next
        };
        (0..len).map(|_| next()).collect()
    }

    fn begin_anew(&mut self) {
        self.altered.clear();
        self.floor = Some(self.position);
        self.high = self.position;
    }

    fn put(&mut self, bytes: &[u8]) {
        if self.append && !bytes.is_empty() {
            self.position = self.file.len();
        }
        write_at(&mut self.file, self.position, bytes);
        self.position += bytes.len();
        self.begin_anew();
    }

    fn byte(&self, at: usize) -> u8 {
        self.altered.get(&at).copied().unwrap_or_else(|| self.file[at])
    }

    fn left(&self) -> usize {
        self.file.len().saturating_sub(self.position)
    }

    fn read(&mut self, got: &[u8]) {
        assert!(got.len() <= self.left(), "more was read than there is");
        let expected: Vec<u8> = (self.position..self.position + got.len()).map(|at| self.byte(at)).collect();
        assert_eq!(got, expected);
        self.position += got.len();
        self.high = self.high.max(self.position);
    }

    fn step_back(&mut self, done: bool) {
        if done {
            assert!(self.position > 0 && Some(self.position) != self.floor, "stepped back over what was never read");
            self.position -= 1;
            return;
        }
        if let Some(floor) = self.floor {
            let promised = floor.max(self.high.saturating_sub(PUT_BACK));
            assert!(self.position <= promised, "no step back from {} to {promised}", self.position);
        }
    }
}

struct Pair {
    stream: FileBuf<Scripted>,
    scripted: Scripted,
    model: Model,
}

impl Pair {
    fn apply(&mut self, op: &Op) {
        let Pair { stream, scripted, model } = self;
        match *op {
            Op::Put(len) => {
                let chunk = model.chunk(len);
                let before = scripted.calls().write;
                let (taken, result) = stream.put(&chunk);
                assert!(taken <= len && (result.is_err() || taken == len));
                // With no write tried it was the way back over read-ahead that failed: the stream still reads.
                if len > 0 && (result.is_ok() || scripted.calls().write > before) {
                    model.put(&chunk[..taken]);
                }
            }
            Op::Write(len) => {
                let chunk = model.chunk(len);
                let before = scripted.calls().write;
                let result = stream.write(&chunk);
                let taken = *result.as_ref().unwrap_or(&0);
                assert!(taken <= len && (result.is_err() || taken > 0 || len == 0));
                if len > 0 && (result.is_ok() || scripted.calls().write > before) {
                    model.put(&chunk[..taken]);
                }
            }
            Op::Read(len) => {
                let mut into = vec![0; len];
                if let Ok(came) = stream.read(&mut into) {
                    assert!(came > 0 || len == 0 || model.left() == 0, "an end that is none");
                    model.read(&into[..came]);
                }
            }
            Op::ReadFull(len) => {
                let mut into = vec![0; len];
                let (came, result) = stream.read_full(&mut into);
                model.read(&into[..came]);
                assert!(result.is_err() || came == len || model.left() == 0, "an end that is none");
            }
            Op::ReadExact(len) => {
                let mut into = vec![0; len];
                let whole = len <= model.left();
                match stream.read_exact(&mut into) {
                    Ok(()) => model.read(&into),
                    // How far it came is not told: ask the stream.
                    Err(error) => {
                        assert!(!whole || error.kind() != std::io::ErrorKind::UnexpectedEof);
                        scripted.0.borrow_mut().script.clear();
                        let at = stream.stream_position().expect("nothing fails any more");
                        let came = usize::try_from(at).expect("small") - model.position;
                        model.read(&into[..came]);
                    }
                }
            }
            Op::FillAndConsume(sixteenths) => {
                if let Ok(filled) = stream.fill_buf() {
                    assert!(!filled.is_empty() || model.left() == 0, "an end that is none");
                    let filled = filled.to_vec();
                    let count = filled.len() * sixteenths / 16;
                    stream.consume(count);
                    let (position, high) = (model.position, model.high);
                    model.read(&filled);
                    (model.position, model.high) = (position + count, high.max(position + count));
                }
            }
            Op::SeekStart(to) => self.seek(SeekFrom::Start(to), Some(to as i64)),
            Op::SeekCurrent(by) => {
                let target = self.model.position as i64 + by;
                self.seek(SeekFrom::Current(by), Some(target));
            }
            Op::SeekEnd(by) => {
                let target = self.model.file.len() as i64 + by;
                self.seek(SeekFrom::End(by), Some(target));
            }
            Op::SeekRelative(by) => {
                let target = model.position as i64 + by;
                if stream.seek_relative(by).is_ok() {
                    model.position = usize::try_from(target).expect("a seek before the start must fail");
                    model.begin_anew();
                    model.floor = None;
                }
            }
            Op::Unget => {
                let got = stream.unget();
                model.step_back(got.is_some());
                if let Some(byte) = got {
                    assert_eq!(byte, model.byte(model.position));
                }
            }
            Op::PutBack(byte) => {
                let done = stream.put_back(byte);
                model.step_back(done);
                if done {
                    model.altered.insert(model.position, byte);
                }
            }
            Op::Flush => {
                let done = stream.flush().is_ok();
                assert!(!done || stream.unwritten().is_empty());
            }
            Op::Sync => {
                if stream.sync().is_ok() {
                    assert_eq!(scripted.0.borrow().offset, model.position, "whoever shares it goes on elsewhere");
                    model.begin_anew();
                }
            }
            Op::SyncData => {
                let done = stream.sync_data().is_ok();
                assert!(!done || stream.unwritten().is_empty());
            }
            Op::Position => {
                if let Ok(position) = stream.stream_position() {
                    assert_eq!(position, model.position as u64);
                }
            }
            Op::InAvail => {
                if let Ok(count) = stream.in_avail() {
                    assert!(count <= model.left() as u64);
                    assert!(count > 0 || model.left() == 0);
                }
            }
            Op::Lines(lines) => stream.set_line_buffered(lines),
            Op::TakeUnwritten => {
                let unwritten = stream.unwritten().to_vec();
                assert_eq!(stream.take_unwritten(), unwritten);
                assert!(stream.unwritten().is_empty());
                if !unwritten.is_empty() {
                    assert!(model.file[..model.position].ends_with(&unwritten));
                    let world = scripted.0.borrow();
                    (model.file, model.position) = (world.file.clone(), world.offset);
                    model.begin_anew();
                }
            }
            Op::IntoInnerAndAnew(capacity) => {
                let anew = FileBuf::with_capacity(capacity, scripted.clone());
                match std::mem::replace(stream, anew).into_inner() {
                    Ok(inner) => {
                        assert_eq!(inner.0.borrow().offset, model.position);
                        model.begin_anew();
                    }
                    Err(refusal) => {
                        // The one that was to take its place has done nothing: its descriptor is not to be closed.
                        let anew = std::mem::replace(stream, refusal.stream);
                        drop(anew.into_inner().expect("it holds nothing"));
                    }
                }
            }
        }
    }

    fn seek(&mut self, to: SeekFrom, target: Option<i64>) {
        if let Ok(position) = self.stream.seek(to) {
            assert_eq!(Some(position as i64), target);
            self.model.position = usize::try_from(position).expect("small");
            self.model.begin_anew();
        }
    }

    /// Nothing is lost and nothing doubled: the file, and on it what is held, is the model's file.
    fn check(&self) {
        let world = self.scripted.0.borrow();
        let mut file = world.file.clone();
        let at = if world.append { file.len() } else { world.offset };
        write_at(&mut file, at, self.stream.unwritten());
        assert_eq!(file, self.model.file);
        assert!(self.stream.unwritten().len() <= self.stream.capacity());
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_file_is_a_vec_with_a_cursor(
        file in proptest::collection::vec(any::<u8>(), 0..100),
        append in any::<bool>(),
        capacity in 0..40_usize,
        ops in proptest::collection::vec(op(), 1..40),
        script in proptest::collection::vec(turn(), 0..60),
    ) {
        let scripted = Scripted::holding(&file).script(script);
        scripted.0.borrow_mut().append = append;
        let stream = FileBuf::with_capacity(capacity, scripted.clone());
        let mut pair = Pair { stream, scripted, model: Model::new(&file, append) };
        for op in &ops {
            pair.apply(op);
            pair.check();
        }
        pair.scripted.0.borrow_mut().script.clear();
        prop_assert_eq!(pair.stream.stream_position().expect("nothing fails any more"), pair.model.position as u64);
        // A failed fsync is not forgotten.
        let _ = pair.stream.close();
        prop_assert_eq!(pair.scripted.file(), pair.model.file);
        prop_assert_eq!(pair.scripted.calls().close, 1);
    }

    #[test]
    fn a_socket_is_two_streams(
        input in proptest::collection::vec(any::<u8>(), 0..200),
        capacity in 0..40_usize,
        ops in proptest::collection::vec(op(), 1..40),
        script in proptest::collection::vec(turn(), 0..60),
    ) {
        let scripted = Scripted::socket(&input).script(script);
        let mut stream = FileBuf::with_capacity(capacity, scripted.clone());
        let mut incoming = Model::new(&input, false);
        let mut sent: Vec<u8> = Vec::new();
        for op in &ops {
            match *op {
                Op::Put(len) | Op::Write(len) => {
                    let chunk = incoming.chunk(len);
                    let (taken, _) = stream.put(&chunk);
                    sent.extend_from_slice(&chunk[..taken]);
                    // The stream may have begun anew, or not if there was read-ahead.
                    (incoming.floor, incoming.high) = (None, incoming.position);
                }
                Op::Read(len) => {
                    let mut into = vec![0; len];
                    if let Ok(came) = stream.read(&mut into) {
                        prop_assert!(came > 0 || len == 0 || incoming.left() == 0);
                        incoming.read(&into[..came]);
                    }
                }
                Op::ReadFull(len) | Op::ReadExact(len) => {
                    let mut into = vec![0; len];
                    let (came, result) = stream.read_full(&mut into);
                    incoming.read(&into[..came]);
                    prop_assert!(result.is_err() || came == len || incoming.left() == 0);
                }
                Op::FillAndConsume(_) => {
                    if let Ok(filled) = stream.fill_buf() {
                        let first = filled.first().copied();
                        prop_assert!(first.is_some() || incoming.left() == 0);
                        if let Some(byte) = first {
                            stream.consume(1);
                            incoming.read(&[byte]);
                        }
                    }
                }
                Op::Unget => {
                    let got = stream.unget();
                    incoming.step_back(got.is_some());
                    if let Some(byte) = got {
                        prop_assert_eq!(byte, incoming.byte(incoming.position));
                    }
                }
                Op::PutBack(byte) => {
                    let done = stream.put_back(byte);
                    incoming.step_back(done);
                    if done {
                        incoming.altered.insert(incoming.position, byte);
                    }
                }
                Op::Flush => drop(stream.flush()),
                Op::Sync => {
                    drop(stream.sync());
                    (incoming.floor, incoming.high) = (None, incoming.position);
                }
                Op::SeekRelative(_) | Op::SeekCurrent(_) | Op::SeekStart(_) | Op::SeekEnd(_) | Op::Position => {
                    prop_assert!(stream.seek(SeekFrom::Start(0)).is_err());
                }
                Op::Lines(lines) => stream.set_line_buffered(lines),
                Op::InAvail => {
                    let count = stream.in_avail().expect("nothing asked fails");
                    prop_assert!(count <= incoming.left() as u64 && (count > 0 || incoming.left() == 0));
                }
                Op::SyncData | Op::TakeUnwritten | Op::IntoInnerAndAnew(_) => {}
            }
            let mut out = scripted.file();
            out.extend_from_slice(stream.unwritten());
            prop_assert_eq!(&out, &sent);
        }
        scripted.0.borrow_mut().script = VecDeque::new();
        stream.close().expect("nothing fails any more");
        prop_assert_eq!(scripted.file(), sent);
    }
}
