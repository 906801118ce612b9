//! The rigs do what they say: a fault that never comes would make every promise hold.

use std::fs;
use std::os::unix::fs::FileExt as _;

use crate::devices::{Access, Loop};
use crate::fault_run::{assert_bytes, needs_sysfault, operand, pattern, tool};
use crate::faultfs::{FaultFs, Op, Rule, Survives};
use crate::or_skip;
use crate::sysfault::{Hit, Plan, READ, WRITE};
use std::path::Path;

const REFERENCE: &str = "/usr/bin/dd";

fn errno(result: std::io::Result<usize>) -> Option<i32> {
    result.err().and_then(|e| e.raw_os_error())
}

#[test]
fn a_bad_sector_fails_and_its_neighbours_do_not() {
    let fs = or_skip!(FaultFs::mount());
    let data = pattern(8192);
    fs.put("in", &data);
    fs.direct();
    fs.rule(Rule::on("in", Op::Read).sectors(3..5).partial());
    let file = fs::File::open(fs.path("in")).expect("it is there");
    let mut block = [0; 4096];
    assert_eq!(file.read_at(&mut block, 0).ok(), Some(3 * 512));
    assert_bytes(&block[..1536], &data[..1536], "up to the bad sector");
    assert_eq!(errno(file.read_at(&mut block[..512], 1536)), Some(libc::EIO));
    assert_eq!(file.read_at(&mut block, 2560).ok(), Some(4096));
    assert_bytes(&block, &data[2560..6656], "behind the bad sector");
}

#[test]
fn a_flaky_sector_reads_at_the_third_try() {
    let fs = or_skip!(FaultFs::mount());
    fs.put("in", &pattern(4096));
    fs.direct();
    fs.rule(Rule::on("in", Op::Read).sectors(2..3).tries(2));
    let file = fs::File::open(fs.path("in")).expect("it is there");
    let mut block = [0; 512];
    let tries: Vec<_> = (0..3).map(|_| file.read_at(&mut block, 1024).ok()).collect();
    assert_eq!(tries, [None, None, Some(512)]);
}

#[test]
fn a_loop_device_passes_the_bad_sector_on() {
    let fs = or_skip!(FaultFs::mount());
    fs.put("disk", &pattern(1 << 20));
    fs.direct();
    fs.rule(Rule::on("disk", Op::Read).sectors(100..101));
    let disk = or_skip!(Loop::attach(&fs.path("disk"), 512, Access::ReadOnly));
    let file = fs::File::open(disk.path()).expect("a device");
    let mut block = [0; 4096];
    assert_eq!(errno(file.read_at(&mut block, 100 * 512)), Some(libc::EIO));
    assert_eq!(file.read_at(&mut block, 0).ok(), Some(4096));
}

#[test]
fn a_power_cut_leaves_what_was_synced() {
    let fs = or_skip!(FaultFs::mount());
    for (name, synced) in [("synced", true), ("unsynced", false)] {
        let file = fs::File::create(fs.path(name)).expect("created");
        file.write_all_at(b"bytes", 0).expect("written");
        if synced {
            file.sync_all().expect("synced");
            fs::File::open(fs.path("")).and_then(|dir| dir.sync_all()).expect("name synced");
        }
    }
    let left = fs.cut_power(Survives::Nothing);
    assert_eq!(left.into_iter().collect::<Vec<_>>(), [("synced".to_string(), b"bytes".to_vec())]);
    assert!(fs::write(fs.path("later"), b"x").is_err(), "the power is off");
}

#[test]
fn the_nth_call_fails_and_no_other() {
    or_skip!(needs_sysfault());
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("in");
    fs::write(&path, pattern(4096)).expect("written");
    let operands = [operand("if", &path), "bs=512".into(), "status=none".into()];
    let name = path.display().to_string();
    let plan = Plan::on(&[READ], Hit::Fail(libc::EIO)).only(&name).nth(3);
    let ran = tool(Path::new(REFERENCE), &operands).faults(plan).run();
    assert_eq!((ran.code(), ran.out.len(), ran.report.faults.len()), (Some(1), 1024, 1), "{}", ran.show());
}

#[test]
fn a_short_transfer_is_really_made() {
    or_skip!(needs_sysfault());
    let dir = tempfile::tempdir().expect("a directory");
    let (from, to) = (dir.path().join("in"), dir.path().join("out"));
    let data = pattern(4096);
    fs::write(&from, &data).expect("written");
    let operands = [operand("if", &from), operand("of", &to), "bs=512".into()];
    let plan = Plan::on(&[READ, WRITE], Hit::Halve).only(&dir.path().display().to_string());
    let ran = tool(Path::new(REFERENCE), &operands).faults(plan).run();
    assert!(ran.report.faults.len() > 16, "{}", ran.show());
    assert_bytes(&crate::fault_run::read_all(&to), &data, &ran.show());
}
