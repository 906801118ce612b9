//! How fast is each conversion, by backend, without any input or output?
//!
//! `cargo bench -p fdd --bench conv`. Megabytes of input a second, the best of several rounds over 1 MiB in blocks of 64 KiB:
//! small enough for the second cache, large enough that a branch predictor does not know the lines by heart. What is put is
//! copied into a buffer of 64 KiB, as the copy does. Reading and writing are left out, so that the numbers are an upper
//! bound for the program.

use std::convert::Infallible;
use std::hint::black_box;
use std::time::{Duration, Instant};

use fdd::conv::{Case, Charset, Converter, Form, Parity, Recipe, Run};
use fdd_sys::simd::Backend;

const INPUT: usize = 1 << 20;
const BLOCK: usize = 64 << 10;

fn main() {
    let lines = text(20..80);
    let long_lines = text(200..2000);
    let records = fixed_records(80, 20..80);
    let zeros = vec![0; INPUT];
    let block = |cbs| Some(Form::Block { cbs });
    let unblock = |cbs| Some(Form::Unblock { cbs });
    let upper = Some(Case::Upper);
    let cases = [
        ("ucase", &lines, Recipe::new(None, upper, None, false, None)),
        ("lcase", &lines, Recipe::new(None, Some(Case::Lower), None, false, None)),
        ("ebcdic", &lines, Recipe::new(Some(Charset::Ebcdic), None, None, false, None)),
        ("ascii,ucase", &lines, Recipe::new(Some(Charset::Ascii), upper, None, false, None)),
        ("pareven", &lines, Recipe::new(None, None, Some(Parity::Even), false, None)),
        ("swab", &lines, Recipe::new(None, None, None, true, None)),
        ("block cbs=80, lines of 20-79", &lines, Recipe::new(None, None, None, false, block(80))),
        ("block cbs=256, lines of 20-79", &lines, Recipe::new(None, None, None, false, block(256))),
        ("block cbs=512, lines of 20-79", &lines, Recipe::new(None, None, None, false, block(512))),
        ("block cbs=520, lines of 20-79", &lines, Recipe::new(None, None, None, false, block(520))),
        ("block cbs=40, lines of 20-79", &lines, Recipe::new(None, None, None, false, block(40))),
        ("block cbs=500, lines of 200-1999", &long_lines, Recipe::new(None, None, None, false, block(500))),
        ("block cbs=2000, lines of 200-1999", &long_lines, Recipe::new(None, None, None, false, block(2000))),
        ("ebcdic cbs=80, lines of 20-79", &lines, Recipe::new(Some(Charset::Ebcdic), None, None, false, block(80))),
        ("unblock cbs=80, text of 20-79", &records, Recipe::new(None, None, None, false, unblock(80))),
        ("unblock cbs=80, no text", &vec![b' '; INPUT], Recipe::new(None, None, None, false, unblock(80))),
        ("unblock cbs=2000, no spaces", &zeros, Recipe::new(None, None, None, false, unblock(2000))),
        ("ascii cbs=80", &records, Recipe::new(Some(Charset::Ascii), None, None, false, unblock(80))),
    ];
    let backends: Vec<Backend> = Backend::available().collect();
    print!("{:36}", "MB/s");
    for backend in &backends {
        print!("{:>10}", backend.name());
    }
    println!();
    for (name, input, recipe) in cases {
        print!("{name:36}");
        for backend in &backends {
            let mut converter = Converter::with_backend(&recipe, *backend);
            print!("{:10.0}", pace(input, |input| convert(&mut converter, input)));
        }
        println!();
    }
    print!("{:36}", "is_zero");
    for backend in &backends {
        let test = |input: &mut [u8]| assert!(backend.is_zero(black_box(input)));
        print!("{:10.0}", pace(&zeros, test));
    }
    println!();
}

/// Feeds all of `input` a block at a time.
fn convert(converter: &mut Converter, input: &mut [u8]) {
    let mut buffer = vec![0; BLOCK];
    let mut filled = 0;
    let mut put = |run: Run<'_>| -> Result<(), Infallible> {
        let mut bytes = run.bytes;
        while !bytes.is_empty() {
            if filled == BLOCK {
                black_box(&mut buffer);
                filled = 0;
            }
            let taken = bytes.len().min(BLOCK - filled);
            buffer[filled..filled + taken].copy_from_slice(&bytes[..taken]);
            filled += taken;
            bytes = &bytes[taken..];
        }
        Ok(())
    };
    for block in input.chunks_mut(BLOCK) {
        converter.feed(block, &mut put).unwrap_or_else(|never| match never {});
    }
}

/// Megabytes of input a second. The input is the same in each round.
fn pace(input: &[u8], mut work: impl FnMut(&mut [u8])) -> f64 {
    let mut scratch = input.to_vec();
    let mut best = Duration::MAX;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(200) {
        scratch.copy_from_slice(input);
        let start = Instant::now();
        work(&mut scratch);
        best = best.min(start.elapsed());
    }
    input.len() as f64 / best.as_secs_f64() / 1e6
}

/// Lines of letters whose lengths are spread over `lengths`, the newline not counted.
fn text(lengths: std::ops::Range<usize>) -> Vec<u8> {
    let mut random = Random(1);
    let mut text = Vec::new();
    while text.len() < INPUT {
        let length = random.in_range(lengths.clone());
        text.extend((0..length).map(|_| random.letter()));
        text.push(b'\n');
    }
    text.truncate(INPUT);
    text
}

fn fixed_records(cbs: usize, lengths: std::ops::Range<usize>) -> Vec<u8> {
    let mut random = Random(1);
    let mut records = Vec::new();
    while records.len() < INPUT {
        let length = random.in_range(lengths.clone());
        records.extend((0..cbs).map(|column| if column < length { random.letter() } else { b' ' }));
    }
    records.truncate(INPUT);
    records
}

/// Numbers without a pattern that a branch predictor could learn within a block (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn in_range(&mut self, range: std::ops::Range<usize>) -> usize {
        let width = (range.end - range.start) as u64;
        range.start + usize::try_from(self.next() % width).expect("less than the width")
    }

    fn letter(&mut self) -> u8 {
        b"etaoinshrdlu ETAOINSHRDLU"[self.in_range(0..25)]
    }
}
