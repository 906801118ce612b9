//! Requests that fail, or come short, in the middle of a ring's: on block devices, and on a file of a real file system whose
//! device is bad in some place. What the supervisor of system calls cannot reach fails here below the file system.

#![allow(clippy::single_range_in_vec_init)] // A list of bad ranges may well have one.

use std::fs::{self, File};
use std::ops::Range;
use std::path::Path;

use crate::devices::{Access, Ext4, Loop, Tmpfs};
use crate::fault_run::{Ran, assert_bytes, dd, make_cold, operand, pattern, read_all};
use crate::faultfs::{FaultFs, Op, REQUEST, Rule};
use crate::or_skip;

const SECTOR: usize = 512;
/// Six pieces of a ring.
const LEN: usize = 12 << 20;
const PIECE: usize = 2 << 20;
const WAYS: [&str; 2] = ["uring", "overlap"];

/// In the third piece, on both sides of the edge after the fourth, and two places with good pieces between.
const BAD: &[&[Range<u64>]] = &[&[9001..9002], &[16_383..16_385], &[5000..5008, 20_000..20_001]];

fn old() -> Vec<u8> {
    pattern(LEN).iter().map(|byte| byte ^ 0x54).collect()
}

fn run(way: &str, from: &Path, to: &Path, rest: &str) -> Ran {
    let mut operands = vec![operand("if", from), operand("of", to)];
    operands.extend(rest.split(' ').map(str::to_owned));
    dd(&operands).forced(way).run()
}

/// A device of old bytes that cannot be written at `bad` sectors, and the file system that it is on, which has to be let go last.
fn disk_that_is_bad_at(bad: &[Range<u64>]) -> Result<(FaultFs, Loop), String> {
    let fs = FaultFs::mount()?;
    fs.put("out", &old());
    fs.direct();
    for sectors in bad {
        fs.rule(Rule::on("out", Op::Write).sectors(sectors.clone()));
    }
    let disk = Loop::attach(&fs.path("out"), 512, Access::ReadWrite)?;
    disk.divide_requests(REQUEST);
    Ok((fs, disk))
}

/// Some pieces went that way, and what is told is in the output: at least all whole records before byte `first`, and nothing
/// from there on. Behind it each byte is the old one or the new one.
#[track_caller]
fn assert_true_prefix(way: &str, ran: &Ran, got: &[u8], first: usize, bs: usize) {
    let (data, old) = (pattern(LEN), old());
    let copied = usize::try_from(ran.copied().expect("statistics")).expect("small");
    assert!(ran.moved_by(way) >= PIECE as u64, "{way} moved {}: {}", ran.moved_by(way), ran.show());
    assert!((first - first % bs..=first).contains(&copied), "{copied} of {first} bytes are told: {}", ran.show());
    assert_bytes(&got[..copied], &data[..copied], &ran.show());
    let odd = (copied..got.len()).find(|&at| got[at] != old[at] && got[at] != data[at]);
    assert!(odd.is_none(), "byte {odd:?} is neither old nor new: {}", ran.show());
    assert!(ran.err.contains("Input/output error") || ran.err.contains("No space left"), "{}", ran.show());
}

fn first_of(bad: &[Range<u64>]) -> usize {
    usize::try_from(bad[0].start).expect("small") * SECTOR
}

#[test]
fn a_bad_place_of_an_output_device_ends_the_copy_there_with_true_counts() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let from = dir.path().join("input");
    fs::write(&from, pattern(LEN)).expect("written");
    for way in WAYS {
        for bad in BAD {
            for (bs, rest) in [(65_536, "bs=64k oflag=direct"), (4096, "bs=4k iflag=direct oflag=direct conv=fsync")] {
                let (fs, disk) = or_skip!(disk_that_is_bad_at(bad));
                make_cold(&from);
                let ran = run(way, &from, disk.path(), rest).fails();
                let got = fs.contents("out").expect("it is there");
                assert_eq!(got.len(), LEN, "{}", ran.show());
                assert_true_prefix(way, &ran, &got, first_of(bad), bs);
            }
        }
    }
}

/// Behind the piece that failed the plain loop writes through the cache, and meets the bad place when that is synced.
#[test]
fn a_bad_place_of_an_output_device_is_met_by_the_sync_at_the_latest() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let from = dir.path().join("input");
    let data = pattern(LEN);
    fs::write(&from, &data).expect("written");
    for way in WAYS {
        for bad in BAD {
            let (fs, disk) = or_skip!(disk_that_is_bad_at(bad));
            make_cold(&from);
            let ran = run(way, &from, disk.path(), "bs=64k").fails();
            assert!(ran.moved_by(way) >= PIECE as u64, "{way} moved {}: {}", ran.moved_by(way), ran.show());
            // The write-back loses the requests that the bad sectors are in, and nothing else.
            let near = |at: usize| {
                let at = at as u64;
                let lost = |sectors: &Range<u64>| {
                    let (from, to) = (sectors.start * SECTOR as u64, sectors.end * SECTOR as u64);
                    (from.saturating_sub(REQUEST)..to + REQUEST).contains(&at)
                };
                bad.iter().any(lost)
            };
            let got = fs.contents("out").expect("it is there");
            let odd = (0..LEN).find(|&at| got[at] != data[at] && !near(at));
            assert!(odd.is_none(), "byte {odd:?} is not the new one: {}", ran.show());
        }
    }
}

#[test]
fn a_thin_device_that_runs_out_of_room_is_filled_with_true_counts() {
    const ROOM: usize = 7 << 20;
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let from = dir.path().join("input");
    let data = pattern(LEN);
    fs::write(&from, &data).expect("written");
    for way in WAYS {
        let thin = or_skip!(Tmpfs::mount(ROOM as u64));
        let image = thin.path("image");
        File::create(&image).and_then(|file| file.set_len(LEN as u64)).expect("an image");
        let disk = or_skip!(Loop::attach(&image, 512, Access::ReadWrite));
        make_cold(&from);
        let ran = run(way, &from, disk.path(), "bs=64k oflag=direct").fails();
        assert!(ran.moved_by(way) >= PIECE as u64, "{way} moved {}: {}", ran.moved_by(way), ran.show());
        let copied = usize::try_from(ran.copied().expect("statistics")).expect("small");
        assert!((ROOM - (1 << 20)..=ROOM).contains(&copied), "{copied}: {}", ran.show());
        assert_bytes(&read_all(&image)[..copied], &data[..copied], &ran.show());
    }
}

#[test]
fn a_device_that_ends_inside_a_request_is_filled_to_the_last_sector() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let (from, image) = (dir.path().join("input"), dir.path().join("image"));
    let data = pattern(LEN);
    fs::write(&from, &data).expect("written");
    for way in WAYS {
        for end in [5 * PIECE - SECTOR, 4 * PIECE + 65_536, 3 * PIECE + 3 * SECTOR] {
            fs::write(&image, vec![b'#'; end]).expect("written");
            let disk = or_skip!(Loop::attach(&image, 512, Access::ReadWrite));
            make_cold(&from);
            let ran = run(way, &from, disk.path(), "bs=64k").fails();
            assert!(ran.moved_by(way) >= PIECE as u64, "{way} moved {}: {}", ran.moved_by(way), ran.show());
            assert_eq!(ran.copied(), Some(end as u64), "{}", ran.show());
            drop(disk);
            assert_bytes(&read_all(&image), &data[..end], &ran.show());
        }
    }
}

#[test]
fn an_input_device_whose_rest_is_gone_gives_what_it_has() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let image = dir.path().join("image");
    let data = pattern(LEN);
    for way in WAYS {
        for left in [3 * PIECE + 4096, 4 * PIECE, 5 * PIECE - 4096] {
            fs::write(&image, &data).expect("written");
            let disk = or_skip!(Loop::attach(&image, 512, Access::ReadOnly));
            File::options().write(true).open(&image).and_then(|file| file.set_len(left as u64)).expect("cut");
            disk.drop_cache();
            let to = dir.path().join("output");
            for rest in ["bs=64k", "bs=64k iflag=direct conv=fsync", "bs=64k conv=noerror,sync"] {
                let _ = fs::remove_file(&to);
                let ran = run(way, disk.path(), &to, rest).fails();
                assert!(ran.moved_by(way) >= PIECE as u64, "{way} moved {}: {}", ran.moved_by(way), ran.show());
                let mut wanted = data.clone();
                wanted[left..].fill(0);
                wanted.truncate(if rest.contains("noerror") { LEN } else { left });
                assert_bytes(&read_all(&to), &wanted, &ran.show());
                assert_eq!(ran.copied(), Some(wanted.len() as u64), "{}", ran.show());
            }
        }
    }
}

/// A file on ext4 whose device is bad in places of the file.
struct Sick {
    disk: Ext4,
    fs: FaultFs,
    file: std::path::PathBuf,
    /// Where in the device the file's sectors lie.
    places: Vec<u64>,
}

fn sick(bytes: &[u8]) -> Result<Sick, String> {
    let fs = FaultFs::mount()?;
    fs.put("disk", &vec![0; 3 * LEN]);
    fs.direct();
    let disk = Ext4::make(&fs.path("disk"), REQUEST)?;
    let file = disk.path("file");
    fs::write(&file, bytes).map_err(|e| e.to_string())?;
    make_cold(&file);
    let device = fs.contents("disk").expect("it is there");
    let mut found = std::collections::HashMap::new();
    for (number, sector) in device.chunks(SECTOR).enumerate() {
        found.insert(sector, number as u64);
    }
    let places = bytes.chunks(SECTOR).map(|sector| found[sector]).collect();
    Ok(Sick { disk, fs, file, places })
}

impl Sick {
    fn breaks(&self, op: Op, bad: &[Range<u64>]) {
        for sector in bad.iter().cloned().flatten() {
            let place = self.places[usize::try_from(sector).expect("small")];
            self.fs.rule(Rule::on("disk", op).sectors(place..place + 1));
        }
    }
}

#[test]
fn a_bad_place_under_an_input_file_loses_its_sectors_and_no_more() {
    let data = pattern(LEN);
    for way in WAYS {
        for bad in BAD {
            let sick = or_skip!(sick(&data));
            sick.breaks(Op::Read, bad);
            let out = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a file");
            for (rest, whole) in [
                ("bs=64k conv=noerror,sync,fsync", true),
                ("bs=4k iflag=direct conv=noerror,sync", true),
                ("bs=64k", false),
            ] {
                make_cold(&sick.file);
                let ran = run(way, &sick.file, out.path(), rest).fails();
                assert!(ran.moved_by(way) >= PIECE as u64, "{way} moved {}: {}", ran.moved_by(way), ran.show());
                let mut wanted = data.clone();
                for sectors in *bad {
                    let bytes = sectors.start * SECTOR as u64..sectors.end * SECTOR as u64;
                    let place = |byte| usize::try_from(byte).expect("small");
                    wanted[place(bytes.start)..place(bytes.end)].fill(0);
                    assert!(
                        !whole || ran.names(bytes.start),
                        "the loss at {} is not named: {}",
                        bytes.start,
                        ran.show()
                    );
                }
                wanted.truncate(if whole { LEN } else { first_of(bad) });
                assert_bytes(&read_all(out.path()), &wanted, &ran.show());
                assert_eq!(ran.copied(), Some(wanted.len() as u64), "{}", ran.show());
            }
            drop(sick.disk);
        }
    }
}

#[test]
fn a_bad_place_under_an_output_file_ends_the_copy_there_with_true_counts() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let from = dir.path().join("input");
    fs::write(&from, pattern(LEN)).expect("written");
    for way in WAYS {
        for bad in BAD {
            let sick = or_skip!(sick(&old()));
            sick.breaks(Op::Write, bad);
            make_cold(&from);
            // Two writes are in flight over a file that has its length.
            let ran = run(way, &from, &sick.file, "bs=64k oflag=direct conv=notrunc").fails();
            sick.fs.clear_rules();
            make_cold(&sick.file);
            assert_true_prefix(way, &ran, &read_all(&sick.file), first_of(bad), 65_536);
            drop(sick.disk);
        }
    }
}
