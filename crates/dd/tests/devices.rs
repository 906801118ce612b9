//! Block devices, by loop devices with sectors of 512 and of 4096 bytes: their ends, direct blocks, holes.
//! Only root can make them; elsewhere these tests say that they are skipped.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use support::text::{expanded, normalised};
use support::{End, Outcome, dd_under_test};

/// A loop device over a file, gone when dropped.
struct Device(String);

impl Device {
    /// `None`, with the reason printed, where there are no loop devices.
    fn over(file: &Path, sector: u32) -> Option<Device> {
        let out = Command::new("losetup").args(["--find", "--show", "-b"]).arg(sector.to_string()).arg(file).output();
        match out {
            Ok(out) if out.status.success() => Some(Device(String::from_utf8(out.stdout).unwrap().trim().to_owned())),
            Ok(out) => {
                support::skip(&format!("losetup: {}", String::from_utf8_lossy(&out.stderr).trim()));
                None
            }
            Err(error) => {
                support::skip(&format!("losetup: {error}"));
                None
            }
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        Command::new("losetup").arg("-d").arg(&self.0).status().ok();
    }
}

/// Runs dd with its input from a file; the names of devices in messages become DEVICE.
fn dd(args: &[&str], dir: &Path, device: &Device) -> Outcome {
    let args: Vec<_> = args.iter().map(|arg| arg.replace("DEVICE", &device.0)).collect();
    let mut outcome = support::run_in(dd_under_test(), &args, dir, Stdio::null());
    outcome.stderr = normalised(&outcome.stderr).replace(&device.0, "DEVICE").into_bytes();
    outcome
}

fn said(outcome: &Outcome) -> String {
    String::from_utf8_lossy(&outcome.stderr).into_owned()
}

#[test]
fn a_device_is_read_to_its_end() {
    let dir = support::scratch();
    let bytes: Vec<u8> = (0..10 * 512).map(|at| u8::try_from(at % 251).unwrap()).collect();
    fs::write(dir.path().join("disk"), &bytes).unwrap();
    let Some(device) = Device::over(&dir.path().join("disk"), 512) else { return };
    let out = dd(&["if=DEVICE", "bs=1000"], dir.path(), &device);
    assert_eq!((out.end, out.stdout == bytes), (End::Exit(0), true));
    assert_eq!(said(&out), expanded("{5+1 5+1 5120 (5.1 kB, 5.0 KiB)}"));
}

#[test]
fn a_device_that_is_full_counts_what_fitted() {
    let dir = support::scratch();
    fs::write(dir.path().join("disk"), vec![0; 8 * 512]).unwrap();
    let Some(device) = Device::over(&dir.path().join("disk"), 512) else { return };
    let out = dd(&["if=/dev/zero", "of=DEVICE", "bs=1024"], dir.path(), &device);
    assert_eq!(out.end, End::Exit(1));
    assert_eq!(
        said(&out),
        "dd: error writing 'DEVICE': No space left on device\n".to_owned()
            + &expanded("{5+0 4+0 4096 (4.1 kB, 4.0 KiB)}")
    );
}

#[test]
fn a_skip_past_the_end_of_a_device_is_an_error() {
    let dir = support::scratch();
    fs::write(dir.path().join("disk"), vec![0; 8 * 512]).unwrap();
    let Some(device) = Device::over(&dir.path().join("disk"), 512) else { return };
    let out = dd(&["if=DEVICE", "bs=512", "skip=9"], dir.path(), &device);
    assert_eq!(
        (out.end, said(&out)),
        (End::Exit(1), "dd: DEVICE: cannot skip: Invalid argument\n".to_owned() + &expanded("{0+0 0+0 0}"))
    );
}

#[test]
fn a_seek_past_the_end_of_a_device_is_an_error() {
    let dir = support::scratch();
    fs::write(dir.path().join("disk"), vec![0; 8 * 512]).unwrap();
    let Some(device) = Device::over(&dir.path().join("disk"), 512) else { return };
    let out = dd(&["if=/dev/zero", "of=DEVICE", "bs=512", "seek=9", "count=1"], dir.path(), &device);
    assert_eq!(
        (out.end, said(&out)),
        (End::Exit(1), "dd: DEVICE: cannot seek: Invalid argument\n".to_owned() + &expanded("{0+0 0+0 0}"))
    );
}

#[test]
fn sparse_onto_a_device_reads_as_zeros_where_it_skipped() {
    let dir = support::scratch();
    let path = dir.path();
    fs::write(path.join("disk"), vec![b'o'; 32 * 4096]).unwrap();
    let mut bytes = vec![b'a'; 4096];
    bytes.extend([0; 8 * 4096]);
    bytes.extend([b'b'; 4096]);
    fs::write(path.join("in"), &bytes).unwrap();
    let Some(device) = Device::over(&path.join("disk"), 512) else { return };
    let out = dd(&["if=in", "of=DEVICE", "bs=4096", "conv=sparse"], path, &device);
    assert_eq!((out.end, said(&out)), (End::Exit(0), expanded("{10+0 10+0 40960 (41 kB, 40 KiB)}")));
    let read = dd(&["if=DEVICE", "bs=4096", "count=11"], path, &device).stdout;
    assert!(read[bytes.len()..].iter().all(|byte| *byte == b'o'), "what lies behind is untouched");
    // GNU dd lets the old bytes show through.
    assert_eq!(read[..bytes.len()] == bytes, dd_under_test().gnu.is_none());
}

#[test]
fn direct_blocks_of_a_device_with_4096_byte_sectors() {
    let dir = support::scratch();
    let bytes: Vec<u8> = (0..16 * 4096).map(|at| u8::try_from(at % 253).unwrap()).collect();
    fs::write(dir.path().join("disk"), vec![0; 16 * 4096]).unwrap();
    fs::write(dir.path().join("in"), &bytes).unwrap();
    let Some(device) = Device::over(&dir.path().join("disk"), 4096) else { return };
    let out = dd(&["if=in", "of=DEVICE", "bs=8192", "oflag=direct"], dir.path(), &device);
    assert_eq!((out.end, said(&out)), (End::Exit(0), expanded("{8+0 8+0 65536 (66 kB, 64 KiB)}")));
    let out = dd(&["if=DEVICE", "bs=8192", "iflag=direct"], dir.path(), &device);
    assert_eq!((out.end, out.stdout == bytes), (End::Exit(0), true));
}

#[test]
fn a_direct_block_smaller_than_the_sector_is_an_error() {
    let dir = support::scratch();
    fs::write(dir.path().join("disk"), vec![0; 16 * 4096]).unwrap();
    let Some(device) = Device::over(&dir.path().join("disk"), 4096) else { return };
    let out = dd(&["if=DEVICE", "bs=512", "iflag=direct", "count=1"], dir.path(), &device);
    assert_eq!(
        (out.end, said(&out)),
        (End::Exit(1), "dd: error reading 'DEVICE': Invalid argument\n".to_owned() + &expanded("{0+0 0+0 0}"))
    );
}
