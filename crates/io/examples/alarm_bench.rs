//! What does it cost a loop of small blocks to know that a second has passed?
//!
//! Moves 512-byte blocks from /dev/zero to /dev/null and keeps time in five ways: not at all, by an alarm's thread, by a
//! ticker, by the clock at every block, and by a timer signal. The runs are interleaved, each round in another order, and
//! every run prints one line of JSON. The second row `none` of each round is the same as the first: the distance between
//! the two is the noise.
//!
//! `alarm_bench [BLOCKS [ROUNDS]]`, by default 4000000 blocks and 5 rounds.

use std::fs::{File, OpenOptions};
use std::io;
use std::time::{Duration, Instant};

use fdd_io::alarm::{Alarm, Ticker};
use fdd_sys::signal;

const PERIOD: Duration = Duration::from_secs(1);

/// The name of a way to keep time, and the loop with it: given both ends and the blocks to move, tells the rings heard.
type Way = (&'static str, fn(&File, &File, u64) -> io::Result<u64>);

const WAYS: [Way; 6] = [
    ("none", |from, to, blocks| copy(from, to, blocks, || false)),
    ("none again", |from, to, blocks| copy(from, to, blocks, || false)),
    ("alarm thread", |from, to, blocks| {
        let alarm = Alarm::every(PERIOD)?;
        copy(from, to, blocks, || alarm.rang())
    }),
    ("ticker", |from, to, blocks| {
        let mut ticker = Ticker::every(PERIOD)?;
        copy(from, to, blocks, || ticker.rang())
    }),
    ("clock per block", |from, to, blocks| {
        let mut next = Instant::now() + PERIOD;
        copy(from, to, blocks, || {
            let rang = Instant::now() >= next;
            if rang {
                next += PERIOD;
            }
            rang
        })
    }),
    ("timer signal", |from, to, blocks| {
        signal::rest(PERIOD);
        let rings = copy(from, to, blocks, || signal::attention() && signal::take().tick);
        signal::rest(Duration::ZERO);
        rings
    }),
];

fn main() -> io::Result<()> {
    let mut numbers = std::env::args().skip(1).map(|word| word.parse::<u64>().expect("a number"));
    let blocks = numbers.next().unwrap_or(4_000_000);
    let rounds = numbers.next().unwrap_or(5);
    let from = File::open("/dev/zero")?;
    let to = OpenOptions::new().write(true).open("/dev/null")?;
    // The one timer of the process, silent but for the way that uses it.
    signal::start_timer(PERIOD)?;
    signal::rest(Duration::ZERO);
    for round in 0..rounds {
        for turn in 0..WAYS.len() {
            let (name, run) = WAYS[(turn + usize::try_from(round).unwrap_or(0)) % WAYS.len()];
            let start = Instant::now();
            let rings = run(&from, &to, blocks)?;
            let seconds = start.elapsed().as_secs_f64();
            println!(
                "{{\"bench\":\"alarm\",\"case\":\"{name}\",\"round\":{round},\"blocks\":{blocks},\"seconds\":{seconds:.6},\"rings\":{rings}}}"
            );
        }
    }
    Ok(())
}

/// Generic, so that each way's test of the time is compiled into the loop.
fn copy(from: &File, to: &File, blocks: u64, mut rang: impl FnMut() -> bool) -> io::Result<u64> {
    let mut block = [0; 512];
    let mut rings = 0;
    for _ in 0..blocks {
        let read = rustix::io::read(from, &mut block)?;
        rustix::io::write(to, &block[..read])?;
        rings += u64::from(rang());
    }
    Ok(rings)
}
