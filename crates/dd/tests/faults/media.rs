//! Reading media that fail: what is lost, what is not, and what is said about it.

#![allow(clippy::single_range_in_vec_init)] // A list of bad ranges may well have one.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::ops::Range;

use crate::devices::{Access, Loop};
use crate::fault_run::{Ran, assert_bytes, dd, needs_sysfault, operand, pattern, read_all};
use crate::faultfs::{FaultFs, Op, Rule};
use crate::or_skip;
use crate::sysfault::{Hit, Plan};

const SECTOR: usize = 512;
/// 256 sectors and a piece of one.
const SIZE: usize = 256 * SECTOR + 100;

#[derive(Clone, Copy, Debug)]
enum Cache {
    /// Reads go straight to the medium, which gives what is before the bad sector.
    Bypassed,
    /// Reads go straight to the medium, which fails them whole.
    BypassedWhole,
    /// Reads go through the page cache, which loses whole pages and more.
    Used,
}

const CACHES: &[Cache] = &[Cache::Bypassed, Cache::BypassedWhole, Cache::Used];

fn medium(data: &[u8], bad: &[Range<u64>], cache: Cache) -> Result<FaultFs, String> {
    let fs = FaultFs::mount()?;
    fs.put("in", data);
    if !matches!(cache, Cache::Used) {
        fs.direct();
    }
    for sectors in bad {
        let rule = Rule::on("in", Op::Read).sectors(sectors.clone());
        fs.rule(if matches!(cache, Cache::Bypassed) { rule.partial() } else { rule });
    }
    Ok(fs)
}

/// The input with zeros in the bad sectors, padded to whole blocks.
fn rescued(data: &[u8], bad: &[Range<u64>], grain: u64, bs: usize) -> Vec<u8> {
    let mut wanted = data.to_vec();
    for sectors in bad {
        let start = sectors.start * SECTOR as u64 / grain * grain;
        let end = (sectors.end * SECTOR as u64).div_ceil(grain) * grain;
        let (start, end) = (usize::try_from(start).expect("small"), usize::try_from(end).expect("small"));
        wanted[start..end.min(data.len())].fill(0);
    }
    wanted.resize(data.len().div_ceil(bs) * bs, 0);
    wanted
}

/// Each lost range is named by its first byte.
#[track_caller]
fn assert_named(ran: &Ran, bad: &[Range<u64>]) {
    for sectors in bad {
        let first = sectors.start * SECTOR as u64;
        assert!(ran.names(first), "the loss at byte {first} is not named: {}", ran.show());
    }
}

const BAD: &[&[Range<u64>]] =
    &[&[100..101], &[0..1], &[255..256], &[96..104], &[100..104], &[125..131], &[1..2, 50..52, 128..140, 200..201]];

const BLOCK_SIZES: &[usize] = &[512, 4096, 65536, 1 << 20, 1000];

#[test]
fn noerror_loses_exactly_the_unreadable_sectors() {
    let data = pattern(SIZE);
    let mut found = Vec::new();
    for &cache in CACHES {
        for bad in BAD {
            for &bs in BLOCK_SIZES {
                let fs = or_skip!(medium(&data, bad, cache));
                let out = tempfile::NamedTempFile::new().expect("a file");
                let ends = [operand("if", fs.path("in")), operand("of", out.path())];
                let ran = dd(&[&ends[..], &[format!("bs={bs}"), "conv=noerror,sync".into()]].concat()).run();
                let got = read_all(out.path());
                let wanted = rescued(&data, bad, SECTOR as u64, bs);
                if got != wanted {
                    let lost = got.chunks(SECTOR).zip(wanted.chunks(SECTOR)).filter(|(a, b)| a != b).count();
                    let what = format!("{} of {} bytes, {lost} sectors differ", got.len(), wanted.len());
                    found.push(format!("{cache:?} {bad:?} bs={bs}: {what}: {}", ran.show()));
                } else if ran.code() != Some(1) {
                    found.push(format!("{cache:?} {bad:?} bs={bs}: lost data is not exit 1: {}", ran.show()));
                } else if let Some(sectors) = bad.iter().find(|s| !ran.names(s.start * SECTOR as u64)) {
                    found.push(format!("{cache:?} {bad:?} bs={bs}: {sectors:?} is not named: {}", ran.show()));
                }
            }
        }
    }
    let cut: Vec<&str> = found.iter().take(6).map(String::as_str).collect();
    assert!(found.is_empty(), "{} rows went wrong, among them:\n{}", found.len(), cut.join("\n"));
}

#[test]
fn noerror_on_a_block_device_loses_exactly_the_unreadable_sectors() {
    let data = pattern(256 * SECTOR);
    for sector in [512, 4096] {
        for bad in BAD {
            for bs in [512, 4096, 65536, 1 << 20] {
                let fs = or_skip!(medium(&data, bad, Cache::BypassedWhole));
                let disk = or_skip!(Loop::attach(&fs.path("in"), sector, Access::ReadOnly));
                let out = tempfile::NamedTempFile::new().expect("a file");
                let ends = [operand("if", disk.path()), operand("of", out.path())];
                let ran = dd(&[&ends[..], &[format!("bs={bs}"), "conv=noerror,sync".into()]].concat()).run().fails();
                let wanted = rescued(&data, bad, u64::from(sector), bs);
                let what = format!("{sector}-byte sectors, {bad:?} bad: {}", ran.show());
                assert_bytes(&read_all(out.path()), &wanted, &what);
            }
        }
    }
}

/// 12 MiB: six of the pieces that go through a ring or a reader.
const LARGE: usize = 12 << 20;

/// Bad sectors in the third piece, on both sides of the edge after the fourth, and at the end.
const BAD_FAR_IN: &[&[Range<u64>]] = &[&[9001..9002], &[16383..16385], &[9001..9003, 16380..16390, 24575..24576]];

/// Runs `rest` over a disk of `LARGE` bytes by `strategy`, and makes sure that it was really taken. Where `cached`, a third
/// of the disk is in the page cache, so that it is read through that.
fn by_requests_in_flight(
    strategy: &str,
    data: &[u8],
    bad: &[Range<u64>],
    cached: bool,
    rest: &str,
) -> Result<(Ran, Vec<u8>), String> {
    let fs = FaultFs::mount()?;
    fs.put("in", data);
    fs.direct();
    let disk = Loop::attach(&fs.path("in"), 512, Access::ReadOnly)?;
    // A disk that nobody has open has nothing cached.
    let mut open = File::open(disk.path()).expect("a device");
    if cached {
        rustix::fs::fadvise(&open, 0, None, rustix::fs::Advice::Random).expect("nothing is read ahead");
        open.read_exact(&mut vec![0; 4 << 20]).expect("no sector is bad yet");
    }
    for sectors in bad {
        fs.rule(Rule::on("in", Op::Read).sectors(sectors.clone()));
    }
    let out = tempfile::NamedTempFile::new().expect("a file");
    let mut operands = vec![operand("if", disk.path()), operand("of", out.path())];
    operands.extend(rest.split(' ').map(str::to_owned));
    let ran = dd(&operands).forced(strategy).run();
    // All pieces before the one with the first bad sector; the loop device fails what lies in one request with it.
    assert!(ran.moved_by(strategy) >= 2 << 20, "{strategy} moved {}: {}", ran.moved_by(strategy), ran.show());
    Ok((ran, read_all(out.path())))
}

#[test]
fn requests_in_flight_lose_exactly_the_unreadable_sectors() {
    let data = pattern(LARGE);
    for strategy in ["uring", "overlap"] {
        for bad in BAD_FAR_IN {
            for (cached, rest) in [
                (false, "bs=64k conv=noerror,sync"),
                (true, "bs=64k conv=noerror,sync"),
                (false, "bs=1M conv=noerror,sync,fsync oflag=nocache"),
                (false, "bs=4k conv=noerror,sync iflag=direct"),
                (false, "ibs=512 obs=1M conv=noerror,sync"),
            ] {
                let (ran, got) = or_skip!(by_requests_in_flight(strategy, &data, bad, cached, rest));
                let ran = ran.fails();
                let what = format!("{strategy}, {bad:?} bad, part cached: {cached}: {}", ran.show());
                assert_bytes(&got, &rescued(&data, bad, SECTOR as u64, SECTOR), &what);
                assert_eq!(ran.copied(), Some(LARGE as u64), "{what}");
                for sectors in *bad {
                    let (from, len) = (sectors.start * SECTOR as u64, (sectors.end - sectors.start) * SECTOR as u64);
                    let said = |line: &&str| line.contains(&format!(" lost {len} bytes of "));
                    let named = ran
                        .messages()
                        .into_iter()
                        .filter(said)
                        .any(|line| line.ends_with(&format!(" at offset {from}")));
                    assert!(named, "{len} bytes lost at {from} are not named: {what}");
                }
            }
        }
    }
}

#[test]
fn requests_in_flight_bring_all_that_is_before_the_first_bad_sector() {
    let data = pattern(LARGE);
    for strategy in ["uring", "overlap"] {
        for bad in BAD_FAR_IN {
            for (cached, rest) in [(false, "bs=64k"), (true, "bs=1M"), (false, "bs=4k iflag=direct")] {
                let (ran, got) = or_skip!(by_requests_in_flight(strategy, &data, bad, cached, rest));
                let wanted = usize::try_from(bad[0].start).expect("small") * SECTOR;
                let what = format!("{strategy}, {bad:?} bad, part cached: {cached}: {}", ran.show());
                assert_bytes(&got, &data[..wanted], &what);
                assert_eq!(ran.fails().copied(), Some(wanted as u64), "{what}");
            }
        }
    }
}

#[test]
fn noerror_through_an_inherited_descriptor_loses_no_more() {
    let data = pattern(SIZE);
    let bad = &[100..101, 200..203];
    for &cache in CACHES {
        for skip in [0, 3] {
            let fs = or_skip!(medium(&data, bad, cache));
            let input = File::open(fs.path("in")).expect("it is there");
            let operands = ["bs=4096".to_string(), "conv=noerror,sync".into(), format!("skip={skip}")];
            let ran = dd(&operands).stdin(input).run().fails();
            let wanted = rescued(&data, bad, SECTOR as u64, 4096);
            assert_bytes(&ran.out, &wanted[skip * 4096..], &format!("{cache:?}: {}", ran.show()));
            assert_named(&ran, bad);
        }
    }
}

/// Bad sectors, and every seek of the input fails in turn, once or from then on.
#[test]
fn no_byte_is_misplaced_where_the_seek_past_a_bad_sector_fails() {
    or_skip!(needs_sysfault());
    let data = pattern(64 * SECTOR);
    let bad = &[10..11, 30..33];
    let mut found = Vec::new();
    for &cache in &[Cache::BypassedWhole, Cache::Bypassed] {
        for (bs, errno) in [(4096, libc::EIO), (1000, libc::EINVAL), (512, libc::EIO)] {
            for once in [true, false] {
                for n in 1..100 {
                    let fs = or_skip!(medium(&data, bad, cache));
                    let out = tempfile::NamedTempFile::new().expect("a file");
                    let ends = [operand("if", fs.path("in")), operand("of", out.path())];
                    let operands = [&ends[..], &[format!("bs={bs}"), "conv=noerror,sync".into()]].concat();
                    let plan = Plan::on(&[&[libc::SYS_lseek]], Hit::Fail(errno)).only("/in");
                    let plan = if once { plan.nth(n) } else { plan.onwards_from(n) };
                    let ran = dd(&operands).faults(plan).run();
                    let (got, wanted) = (read_all(out.path()), rescued(&data, bad, SECTOR as u64, bs));
                    // What was given up on is zeros, or not there at all.
                    let fits = |(at, byte): (usize, &u8)| wanted.get(at) == Some(byte) || *byte == 0;
                    if ran.code() != Some(1) || ran.hung || !got.iter().enumerate().all(fits) {
                        found.push(format!("{cache:?}: {} of {} bytes: {}", got.len(), wanted.len(), ran.show()));
                    }
                    if ran.report.faults.is_empty() {
                        break;
                    }
                }
            }
        }
    }
    let cut: Vec<&str> = found.iter().take(6).map(String::as_str).collect();
    assert!(found.is_empty(), "{} runs went wrong, among them:\n{}", found.len(), cut.join("\n"));
}

#[test]
fn noerror_stops_at_count_and_loses_no_more() {
    let data = pattern(SIZE);
    let bad = &[10..11, 100..101];
    let fs = or_skip!(medium(&data, bad, Cache::Used));
    let operands = [operand("if", fs.path("in")), "bs=4096".into(), "count=8".into(), "conv=noerror,sync".into()];
    let ran = dd(&operands).run().fails();
    assert_bytes(&ran.out, &rescued(&data, bad, SECTOR as u64, 4096)[..8 * 4096], &ran.show());
}

#[test]
fn noerror_without_sync_keeps_every_readable_byte() {
    let data = pattern(SIZE);
    for &cache in CACHES {
        for bs in ["bs=512", "bs=4096", "bs=64k"] {
            let fs = or_skip!(medium(&data, &[100..102], cache));
            let ran = dd(&[operand("if", fs.path("in")), bs.into(), "conv=noerror".into()]).run().fails();
            let kept = [&data[..100 * SECTOR], &data[102 * SECTOR..]].concat();
            assert_bytes(&ran.out, &kept, &format!("{cache:?}: {}", ran.show()));
            assert_named(&ran, &[100..102]);
        }
    }
}

#[test]
fn a_sector_that_reads_at_the_third_try_is_not_lost() {
    let data = pattern(SIZE);
    for bs in ["bs=512", "bs=4096", "bs=64k"] {
        let fs = or_skip!(FaultFs::mount());
        fs.put("in", &data);
        fs.direct();
        for sector in [20, 21, 22, 130] {
            fs.rule(Rule::on("in", Op::Read).sectors(sector..sector + 1).tries(2).partial());
        }
        let ran = dd(&[operand("if", fs.path("in")), bs.into(), "conv=noerror,sync".into()]).run().succeeds();
        assert_bytes(&ran.out[..SIZE], &data, &ran.show());
    }
}

#[test]
fn what_can_be_read_before_the_first_bad_sector_is_in_the_output() {
    let data = pattern(SIZE);
    let mut found = Vec::new();
    for &cache in CACHES {
        for bad in [1, 100, 128, 255] {
            for rest in ["bs=512", "bs=4096", "bs=65536", "bs=1M", "bs=1000", "ibs=512 obs=64k", "ibs=64k obs=1000"] {
                let fs = or_skip!(medium(&data, &[bad..bad + 1], cache));
                let mut operands = vec![operand("if", fs.path("in"))];
                operands.extend(rest.split(' ').map(str::to_owned));
                let ran = dd(&operands).run();
                let wanted = usize::try_from(bad).expect("small") * SECTOR;
                if ran.out != data[..wanted] || ran.code() != Some(1) || ran.copied() != Some(wanted as u64) {
                    found.push(format!("{cache:?}: {} of {wanted} bytes: {}", ran.out.len(), ran.show()));
                }
            }
        }
    }
    let cut: Vec<&str> = found.iter().take(6).map(String::as_str).collect();
    assert!(found.is_empty(), "{} rows went wrong, among them:\n{}", found.len(), cut.join("\n"));
}

#[test]
fn what_a_block_device_gives_before_the_first_bad_sector_is_in_the_output() {
    let data = pattern(256 * SECTOR);
    for bs in ["bs=512", "bs=64k", "bs=1M"] {
        let fs = or_skip!(medium(&data, &[100..101], Cache::BypassedWhole));
        let disk = or_skip!(Loop::attach(&fs.path("in"), 512, Access::ReadOnly));
        let ran = dd(&[operand("if", disk.path()), bs.into()]).run().fails();
        assert_bytes(&ran.out, &data[..100 * SECTOR], &ran.show());
    }
}

#[test]
fn lost_data_is_never_exit_0() {
    let data = pattern(SIZE);
    let bad = &[10..11, 100..104];
    for conv in ["conv=noerror", "conv=noerror,sync", "conv=noerror,sync,fsync"] {
        for status in ["status=noxfer", "status=none", "status=progress"] {
            let fs = or_skip!(medium(&data, bad, Cache::Bypassed));
            let out = tempfile::NamedTempFile::new().expect("a file");
            let ends = [operand("if", fs.path("in")), operand("of", out.path())];
            let ran = dd(&[&ends[..], &["bs=4k".into(), conv.into(), status.into()]].concat()).run();
            assert_eq!(ran.code(), Some(1), "{}", ran.show());
            if status != "status=none" {
                assert_named(&ran, bad);
            }
        }
    }
}

#[test]
fn lost_ok_gives_exit_0_and_still_names_the_loss() {
    let data = pattern(SIZE);
    let bad = &[10..11, 100..104];
    let fs = or_skip!(medium(&data, bad, Cache::Bypassed));
    let operands = [operand("if", fs.path("in")), "bs=4k".into(), "conv=noerror,sync".into(), "lost=ok".into()];
    let ran = dd(&operands).run().succeeds();
    assert_named(&ran, bad);
    assert_bytes(&ran.out, &rescued(&data, bad, SECTOR as u64, 4096), &ran.show());
}

#[test]
fn losses_are_named_when_a_stuck_standard_error_has_room_again() {
    let data = pattern(SIZE);
    let bad = &[10..11, 100..104];
    let fs = or_skip!(medium(&data, bad, Cache::Bypassed));
    let out = tempfile::NamedTempFile::new().expect("a file");
    let (mut reader, mut writer) = std::io::pipe().expect("a pipe");
    crate::devices::nonblocking(&writer, true);
    while writer.write(&[b'#'; 4096]).is_ok() {}
    crate::devices::nonblocking(&writer, false);
    let ends = [operand("if", fs.path("in")), operand("of", out.path())];
    let running = dd(&[&ends[..], &["bs=4k".into(), "conv=noerror,sync".into()]].concat()).stderr(writer).start();
    let wanted = rescued(&data, bad, SECTOR as u64, 4096);
    let whole = (0..200).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(25));
        read_all(out.path()).len() == wanted.len()
    });
    let said = std::thread::spawn(move || {
        let mut said = String::new();
        reader.read_to_string(&mut said).map(|_| said)
    });
    let mut ran = running.wait();
    ran.err = said.join().expect("no panic").expect("text").trim_start_matches('#').to_owned();
    assert!(whole, "the copy stood still while nobody read its messages: {}", ran.show());
    let ran = ran.fails();
    assert_bytes(&read_all(out.path()), &wanted, &ran.show());
    assert_named(&ran, bad);
}

#[test]
fn a_source_that_is_pulled_out_ends_the_copy() {
    let data = pattern(1 << 20);
    for rest in ["conv=noerror,sync", "conv=noerror", "conv=fsync"] {
        let fs = or_skip!(FaultFs::mount());
        fs.put("in", &data);
        fs.direct();
        fs.rule(Rule::on("in", Op::Read).bytes(256 * 1024..u64::MAX).held());
        let out = tempfile::NamedTempFile::new().expect("a file");
        let ends = [operand("if", fs.path("in")), operand("of", out.path())];
        let job = dd(&[&ends[..], &["bs=4k".into(), rest.into()]].concat());
        let running = job.limit(libc::RLIMIT_FSIZE, 1 << 24).start();
        fs.wait_for_held();
        fs.unplug();
        let ran = running.wait().fails();
        let got = read_all(out.path());
        assert!(got.len() <= 256 * 1024 + 4096, "{} bytes: {}", got.len(), ran.show());
        assert_bytes(&got[..256 * 1024], &data[..256 * 1024], &ran.show());
    }
}

#[test]
fn a_device_that_is_gone_is_not_padded_out() {
    for errno in [libc::ENODEV, libc::ENXIO, libc::ESTALE] {
        let fs = or_skip!(FaultFs::mount());
        fs.put("in", &pattern(1 << 20));
        fs.direct();
        fs.rule(Rule::on("in", Op::Read).bytes(256 * 1024..u64::MAX).past_end().fails(errno));
        let ran = dd(&[operand("if", fs.path("in")), "bs=4k".into(), "conv=noerror,sync".into()]).run().fails();
        assert!(ran.out.len() <= 256 * 1024 + 4096, "{} bytes: {}", ran.out.len(), ran.show());
    }
}

#[test]
fn an_output_never_outgrows_an_input_that_cannot_be_read() {
    let size = 100 * 4096 + 5;
    let fs = or_skip!(FaultFs::mount());
    fs.put("in", &pattern(size));
    fs.direct();
    fs.rule(Rule::on("in", Op::Read).bytes(128 * 1024..u64::MAX).past_end());
    let operands = [operand("if", fs.path("in")), "bs=4k".into(), "conv=noerror,sync".into()];
    let ran = dd(&operands).run().fails();
    assert!(ran.out.len() <= size + 4096, "{} bytes of {size}: {}", ran.out.len(), ran.show());
    assert_bytes(&ran.out[..128 * 1024], &pattern(size)[..128 * 1024], &ran.show());
}

#[test]
fn a_disk_whose_second_half_is_gone_ends() {
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("image");
    let data = pattern(1 << 20);
    fs::write(&image, &data).expect("written");
    let disk = or_skip!(Loop::attach(&image, 512, Access::ReadOnly));
    let shorter = File::options().write(true).open(&image).and_then(|file| file.set_len(512 * 1024));
    shorter.expect("the image is cut");
    disk.drop_cache();
    let ran = dd(&[operand("if", disk.path()), "bs=64k".into(), "conv=noerror,sync".into()]).run().fails();
    assert!(ran.out.len() <= (1 << 20) + 65536, "{} bytes: {}", ran.out.len(), ran.show());
    assert_bytes(&ran.out[..512 * 1024], &data[..512 * 1024], &ran.show());
}

#[test]
fn an_input_that_shrinks_ends_the_copy_and_crashes_nothing() {
    let data = pattern(4 << 20);
    for &cache in CACHES {
        for bs in ["bs=4k", "bs=64k", "bs=1M", "ibs=1000"] {
            let fs = or_skip!(medium(&data, &[], cache));
            fs.rule(Rule::on("in", Op::Read).nth(3).shrinks_to(100_000));
            let ran = dd(&[operand("if", fs.path("in")), bs.into()]).run();
            assert!(!ran.hung && ran.code().is_some(), "{cache:?}: {}", ran.show());
            assert!(data.starts_with(&ran.out), "{cache:?}: foreign bytes: {}", ran.show());
            assert_eq!(ran.copied(), Some(ran.out.len() as u64), "{cache:?}: {}", ran.show());
        }
    }
}

#[test]
fn a_page_that_cannot_be_had_is_an_error_and_no_crash() {
    let data = pattern(4 << 20);
    for rest in ["bs=4k", "bs=1M", "ibs=1000 conv=swab", "bs=64k iflag=nocache"] {
        let fs = or_skip!(medium(&data, &[4000..4001], Cache::Used));
        let mut operands = vec![operand("if", fs.path("in"))];
        operands.extend(rest.split(' ').map(str::to_owned));
        let ran = dd(&operands).run().fails();
        assert!(ran.err.contains("Input/output error"), "{}", ran.show());
        assert!(ran.out.len() <= 4000 * SECTOR, "{}", ran.show());
    }
}
