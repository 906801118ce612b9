//! The files that commands read and write, and the state of the page cache before each run. None of it is timed.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use fdd_io::cache::cached;
use rustix::fs::Advice;

use crate::Error;
use crate::cases::{Check, Input, Place, Prep};
use crate::shuffle::Random;

const MIB: u64 = 1 << 20;
const CHUNK: usize = 1 << 20;
/// What lies behind the hole of [`Input::Hole`].
const BEHIND_HOLE: u64 = 64 * MIB;

/// A directory on a disk and one in memory, both removed at the end.
pub(crate) struct Workspace {
    disk: PathBuf,
    memory: PathBuf,
}

impl Workspace {
    pub(crate) fn new(under: &Path) -> Result<Workspace, Error> {
        let name = format!("fdd-bench-{}", std::process::id());
        let workspace = Workspace { disk: under.join(&name), memory: Path::new("/dev/shm").join(&name) };
        fs::create_dir_all(&workspace.disk).map_err(|error| Error(format!("{}: {error}", workspace.disk.display())))?;
        Ok(workspace)
    }

    pub(crate) fn disk(&self) -> &Path {
        &self.disk
    }

    fn directory(&self, place: Place) -> io::Result<&Path> {
        match place {
            Place::Disk => Ok(&self.disk),
            Place::Memory => {
                fs::create_dir_all(&self.memory)?;
                Ok(&self.memory)
            }
        }
    }

    /// The path of `{out}`.
    pub(crate) fn output(&self, place: Place) -> io::Result<PathBuf> {
        Ok(self.directory(place)?.join("out"))
    }

    /// The path of `{in}` with `size` bytes of `input`. Made once, kept while cases ask for the same.
    pub(crate) fn input(&self, place: Place, input: Input, size: u64) -> io::Result<PathBuf> {
        let directory = self.directory(place)?;
        let name = format!("in-{input:?}-{size}").to_lowercase();
        let path = directory.join(&name);
        if !path.exists() {
            // One at a time: inputs are large.
            for entry in fs::read_dir(directory)? {
                let entry = entry?;
                if entry.file_name().to_string_lossy().starts_with("in-") {
                    fs::remove_file(entry.path())?;
                }
            }
            let file = File::create(&path)?;
            fill(&file, input, size)?;
            file.sync_all()?;
        }
        Ok(path)
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        for directory in [&self.disk, &self.memory] {
            // What is left over is only disk space, and there is nobody to tell.
            let _ = fs::remove_dir_all(directory);
        }
    }
}

fn fill(mut file: &File, input: Input, size: u64) -> io::Result<()> {
    let mut left = size;
    if input == Input::Hole {
        left = BEHIND_HOLE.min(size);
        file.set_len(size)?;
        file.seek(SeekFrom::Start(size - left))?;
    }
    let mut random = Random::from_seed(size);
    let mut chunk = Vec::with_capacity(CHUNK + 80);
    while left > 0 {
        match input {
            Input::Data | Input::Hole => while_short(&mut chunk, |chunk| chunk.extend(random.next().to_le_bytes())),
            Input::Text => while_short(&mut chunk, |chunk| push_line(chunk, &mut random, b"\n")),
            Input::Records => while_short(&mut chunk, |chunk| {
                let start = chunk.len();
                push_line(chunk, &mut random, b"");
                chunk.resize(start + 80, b' ');
            }),
        }
        let length = left.min(CHUNK as u64);
        let part = usize::try_from(length).expect("at most a chunk");
        file.write_all(&chunk[..part])?;
        // The rest of a line goes on in the next chunk.
        chunk.drain(..part);
        left -= length;
    }
    Ok(())
}

fn while_short(chunk: &mut Vec<u8>, mut push: impl FnMut(&mut Vec<u8>)) {
    while chunk.len() < CHUNK {
        push(chunk);
    }
}

/// A line of 20 to 79 letters of both cases and blanks.
fn push_line(chunk: &mut Vec<u8>, random: &mut Random, end: &[u8]) {
    const LETTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .";
    let length = 20 + random.next() % 60;
    for _ in 0..length.div_ceil(8) {
        chunk.extend(random.next().to_le_bytes().map(|byte| LETTERS[usize::from(byte) % LETTERS.len()]));
    }
    chunk.truncate(chunk.len() - usize::try_from(length.div_ceil(8) * 8 - length).expect("below 8"));
    // A word at its end, lest blanks be trimmed there.
    *chunk.last_mut().expect("at least 20 bytes") = b'z';
    chunk.extend(end);
}

/// Brings `{in}` and `{out}` into the state that `prep` asks for.
pub(crate) fn prepare(prep: &[Prep], input: Option<&Path>, output: &Path, size: u64) -> io::Result<()> {
    // The output first: to write it is what could push the input out again.
    for step in prep {
        match step {
            Prep::Fresh => match fs::remove_file(output) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            },
            Prep::Overwrite => {
                old_file(output, size)?;
                warm(output, 0..size)?;
            }
            Prep::OverwriteCold => {
                old_file(output, size)?;
                cool(output)?;
            }
            Prep::Warm | Prep::Cold | Prep::Partly => {}
        }
    }
    for (step, path) in prep.iter().filter_map(|step| Some((step, input?))) {
        let size = fs::metadata(path)?.len();
        match step {
            Prep::Warm if size > 0 => warm(path, hole_end(path)?..size)?,
            Prep::Cold => cool(path)?,
            Prep::Partly => {
                cool(path)?;
                for start in (MIB..size).step_by(8 << 20) {
                    warm(path, start..(start + MIB).min(size))?;
                }
            }
            Prep::Warm | Prep::Fresh | Prep::Overwrite | Prep::OverwriteCold => {}
        }
    }
    Ok(())
}

/// Where the data of a file begin: to warm a hole would mean to read gibibytes of nothing.
fn hole_end(path: &Path) -> io::Result<u64> {
    let file = File::open(path)?;
    Ok(rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(0)).unwrap_or(0))
}

/// A file of `size` bytes that is not what will be written, all of it on the device.
pub(crate) fn old_file(path: &Path, size: u64) -> io::Result<()> {
    let mut file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
    if file.metadata()?.len() != size {
        file.set_len(0)?;
        let chunk = vec![b'o'; CHUNK];
        let mut left = size;
        while left > 0 {
            let part = usize::try_from(left).unwrap_or(usize::MAX).min(CHUNK);
            file.write_all(&chunk[..part])?;
            left -= part as u64;
        }
    }
    file.sync_all()
}

/// Reads what of `range` is not in the cache, and nothing beyond it.
fn warm(path: &Path, range: Range<u64>) -> io::Result<()> {
    let mut file = File::open(path)?;
    if cached(&file, range.clone()).is_some_and(|told| told.cached == told.pages) {
        return Ok(());
    }
    rustix::fs::fadvise(&file, 0, None, Advice::Random)?;
    file.seek(SeekFrom::Start(range.start))?;
    let mut left = file.take(range.end - range.start);
    let mut chunk = vec![0; CHUNK];
    while left.read(&mut chunk)? > 0 {}
    Ok(())
}

/// Writes a file to the device and takes it out of the page cache, and makes sure of it.
pub(crate) fn cool(path: &Path) -> io::Result<()> {
    let file = File::options().read(true).write(true).open(path)?;
    let size = file.metadata()?.len();
    // Pages that the kernel still reads ahead, that another processor holds or that a process had mapped a moment ago are
    // passed over the first time.
    for _ in 0..100 {
        file.sync_all()?;
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?;
        if cached(&file, 0..size).is_none_or(|told| told.cached == 0) {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    Err(io::Error::other(format!("{} stays in the page cache: no cold run can be made here", path.display())))
}

/// What is wrong with the output, if anything. `thorough` compares its bytes.
pub(crate) fn check(
    check: Check,
    thorough: bool,
    input: Option<&Path>,
    output: &Path,
    size: u64,
) -> io::Result<Result<(), String>> {
    if check == Check::Nothing {
        return Ok(Ok(()));
    }
    let length = fs::metadata(output)?.len();
    if length != size {
        return Ok(Err(format!("the output has {length} bytes and not {size}")));
    }
    match input {
        Some(input) if thorough && check == Check::Same => Ok(compare(input, output)?),
        _ => Ok(Ok(())),
    }
}

fn compare(one: &Path, other: &Path) -> io::Result<Result<(), String>> {
    let (mut one, mut other) = (File::open(one)?, File::open(other)?);
    let (mut left, mut right) = (vec![0; CHUNK], vec![0; CHUNK]);
    let mut offset = 0;
    loop {
        let length = one.read(&mut left)?;
        if length == 0 {
            return Ok(Ok(()));
        }
        other.read_exact(&mut right[..length])?;
        if left[..length] != right[..length] {
            let place = (0..length).find(|&place| left[place] != right[place]).unwrap_or(0);
            return Ok(Err(format!("the output differs at byte {}", offset + place)));
        }
        offset += length;
    }
}

/// Writes back what a run left dirty, so that the next one does not pay for it.
pub(crate) fn settle(prep: &[Prep], output: &Path) -> io::Result<()> {
    if !output.exists() {
        return Ok(());
    }
    if prep.contains(&Prep::Fresh) {
        // What is removed need not be written.
        return fs::remove_file(output);
    }
    File::options().write(true).open(output)?.sync_all()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // A test may end in a panic.
mod tests {
    use super::*;

    fn workspace() -> (tempfile::TempDir, Workspace) {
        // Beside the build: a directory for temporary files may be a tmpfs, which keeps its pages.
        let build = std::env::current_exe().unwrap().parent().unwrap().to_owned();
        let directory = tempfile::tempdir_in(build).unwrap();
        let workspace = Workspace::new(directory.path()).unwrap();
        (directory, workspace)
    }

    fn input(kind: Input, size: u64) -> Vec<u8> {
        let (_directory, workspace) = workspace();
        fs::read(workspace.input(Place::Disk, kind, size).unwrap()).unwrap()
    }

    #[test]
    fn inputs_have_their_size() {
        for kind in [Input::Data, Input::Text, Input::Records, Input::Hole] {
            assert_eq!(input(kind, 3_000_001).len(), 3_000_001, "{kind:?}");
        }
    }

    #[test]
    fn lines_are_shorter_than_a_record_and_end_in_a_letter() {
        let text = input(Input::Text, 3_000_000);
        let longest = text.split(|&byte| byte == b'\n').map(<[u8]>::len).max();
        assert_eq!(longest, Some(79));
        assert!(text.split(|&byte| byte == b'\n').rev().skip(1).all(|line| line.ends_with(b"z")));
    }

    #[test]
    fn records_end_in_blanks_and_hold_no_newline() {
        let records = input(Input::Records, 2_400_000);
        assert!(!records.contains(&b'\n'));
        assert!(records.chunks(80).all(|record| record.ends_with(b" ") && !record.starts_with(b"          ")));
    }

    #[test]
    fn a_hole_is_followed_by_data() {
        let size = BEHIND_HOLE + 8 * MIB;
        let bytes = input(Input::Hole, size);
        let (hole, data) = bytes.split_at(usize::try_from(8 * MIB).unwrap());
        assert!(hole.iter().all(|&byte| byte == 0));
        assert!(data[..64].iter().any(|&byte| byte != 0));
    }

    #[test]
    fn prep_makes_what_it_says() {
        let (_directory, workspace) = workspace();
        let size = 24 * MIB + 17;
        let path = workspace.input(Place::Disk, Input::Data, size).unwrap();
        let out = workspace.output(Place::Disk).unwrap();
        let pages = |path: &Path| {
            let told = cached(File::open(path).unwrap(), 0..size).unwrap();
            (told.cached, told.pages)
        };
        if cool(&path).is_err() {
            eprintln!("skipped: the file system keeps its pages");
            return;
        }
        assert_eq!(pages(&path).0, 0);
        prepare(&[Prep::Warm, Prep::OverwriteCold], Some(&path), &out, size).unwrap();
        let (there, all) = pages(&path);
        assert_eq!(there, all);
        assert_eq!(pages(&out).0, 0);
        assert_eq!(fs::metadata(&out).unwrap().len(), size);
        prepare(&[Prep::Cold, Prep::Overwrite], Some(&path), &out, size).unwrap();
        assert_eq!(pages(&path).0, 0);
        assert_eq!(pages(&out).0, pages(&out).1);
        prepare(&[Prep::Partly, Prep::Fresh], Some(&path), &out, size).unwrap();
        let part = pages(&path).0 * rustix::param::page_size() as u64;
        assert!((3 * MIB..=4 * MIB).contains(&part), "{part}");
        assert!(!out.exists());
    }

    #[test]
    fn an_output_that_differs_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let (one, other) = (directory.path().join("one"), directory.path().join("other"));
        fs::write(&one, "abcdef").unwrap();
        fs::write(&other, "abcdxf").unwrap();
        let told = |thorough| check(Check::Same, thorough, Some(&one), &other, 6).unwrap();
        assert_eq!(told(false), Ok(()));
        assert_eq!(told(true), Err("the output differs at byte 4".to_owned()));
        assert!(check(Check::Size, false, None, &other, 7).unwrap().is_err());
    }

    #[test]
    fn the_workspace_is_removed() {
        let (_directory, workspace) = workspace();
        let disk = workspace.disk().to_owned();
        assert!(disk.exists());
        drop(workspace);
        assert!(!disk.exists());
    }
}
