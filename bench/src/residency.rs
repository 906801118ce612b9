//! A run during which somebody looks at the page cache: how much of both files is in it, most and in the end.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fdd_io::cache::cached;

use crate::command::Pipeline;
use crate::measure::{self, Sample};
use crate::run::Site;

/// Between two looks. Counting the pages of a gibibyte takes about a millisecond, on the other processor.
const LOOK: Duration = Duration::from_millis(5);

/// Runs `command` and adds the figures `peak MiB`, `final MiB`, and `changed MiB`: pages that differ in being cached or
/// not from before the run. `course` gets seconds and MiB over the time of the run.
pub(crate) fn run(command: &Pipeline, site: &Site<'_>, course: &mut Vec<(f64, f64)>) -> Result<Sample, String> {
    let told = |error: io::Error| error.to_string();
    // A new file must exist to be looked at; who truncates it finds it empty anyway.
    File::options().create(true).append(true).open(site.output).map_err(told)?;
    let files = [site.input, Some(site.output)].into_iter().flatten().map(File::open);
    let files: Vec<File> = files.collect::<io::Result<_>>().map_err(told)?;
    let before = map_all(&files, site.size)?;
    let over = AtomicBool::new(false);
    let (sample, looks) = std::thread::scope(|scope| {
        let looker = scope.spawn(|| look_until(&over, &files, site.size));
        let sample = measure::run(command, None);
        over.store(true, Ordering::Relaxed);
        (sample, looker.join())
    });
    let looks = looks.map_err(|_| "the looker panicked".to_owned())?;
    let mut sample = sample?;
    let after = map_all(&files, site.size)?;
    let mib = mib_of_pages();
    let count = |pages: usize| f64::from(u32::try_from(pages).unwrap_or(u32::MAX)) * mib;
    let last = count(after.iter().filter(|cached| **cached).count());
    let peak = looks.iter().map(|(_, mib)| *mib).fold(last, f64::max);
    let changed = count(before.iter().zip(&after).filter(|(before, after)| before != after).count());
    sample.figures = BTreeMap::from(
        [("peak MiB", peak), ("final MiB", last), ("changed MiB", changed)]
            .map(|(name, value)| (name.to_owned(), value)),
    );
    *course = looks;
    Ok(sample)
}

fn look_until(over: &AtomicBool, files: &[File], size: u64) -> Vec<(f64, f64)> {
    let start = Instant::now();
    let mut looks = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let mib = files.iter().filter_map(|file| cached(file, 0..size)).map(|told| pages(told.cached)).sum::<f64>();
        looks.push((start.elapsed().as_secs_f64(), mib * mib_of_pages()));
        std::thread::sleep(LOOK);
    }
    looks
}

/// Of each page of each file, whether it is cached.
fn map_all(files: &[File], size: u64) -> Result<Vec<bool>, String> {
    let mut map = Vec::new();
    for file in files {
        let all = cached(file, 0..size).ok_or("the kernel does not tell what is in its cache")?;
        let count = usize::try_from(all.pages).expect("pages that fit memory");
        map.extend(match all.cached {
            0 => vec![false; count],
            cached if cached == all.pages => vec![true; count],
            _ => page_by_page(file, all.pages),
        });
    }
    Ok(map)
}

fn page_by_page(file: &File, count: u64) -> Vec<bool> {
    let page = rustix::param::page_size() as u64;
    let at = |number| number * page..(number + 1) * page;
    (0..count).map(|number| cached(file, at(number)).is_some_and(|told| told.cached > 0)).collect()
}

fn pages(count: u64) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

fn mib_of_pages() -> f64 {
    pages(rustix::param::page_size() as u64) / pages(1 << 20)
}

/// Whether the kernel tells of the cache of files in this directory.
pub(crate) fn is_told(directory: &Path) -> bool {
    tempfile_in(directory).is_ok_and(|file| cached(&file, 0..4096).is_some())
}

fn tempfile_in(directory: &Path) -> io::Result<File> {
    let path = directory.join("told");
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // A test may end in a panic.
mod tests {
    use super::*;

    #[test]
    fn a_plain_copy_leaves_all_and_is_seen() {
        let build = std::env::current_exe().unwrap().parent().unwrap().to_owned();
        let directory = tempfile::tempdir_in(build).unwrap();
        let (input, output) = (directory.path().join("in"), directory.path().join("out"));
        let size = 16 << 20;
        std::fs::write(&input, vec![1; size]).unwrap();
        if crate::files::cool(&input).is_err() {
            eprintln!("skipped: the file system keeps its pages");
            return;
        }
        let line = format!("cp {} {}", input.display(), output.display());
        let command = Pipeline::parse(&line, &BTreeMap::new()).unwrap();
        let mut course = Vec::new();
        let site = Site { input: Some(&input), output: &output, size: size as u64 };
        let sample = run(&command, &site, &mut course).unwrap();
        for figure in ["peak MiB", "final MiB", "changed MiB"] {
            assert_eq!(sample.figures[figure], 32.0, "{figure}");
        }
        assert!(!course.is_empty());
    }
}
