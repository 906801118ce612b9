//! GNU make's jobserver, seen from a job: a token for each thread beside the one that make counts, and every token back in the
//! pipe whatever ends the process, SIGKILL alone excepted.
//!
//! A token is a byte, and the same byte goes back. MAKEFLAGS names the pipe, as two descriptors or as a FIFO. What it names may be
//! closed by now or something of the user's (make hands the descriptors to recipes with `+` only), so both have to be the two ends
//! of one pipe, and none of the files that the program works on. Nothing is done to descriptions that others share: the pipe is
//! opened anew, non-blocking, and closed again.
//!
//! Not the `jobserver` crate: a signal handler must be able to give back what is held, and the crate keeps byte and descriptor to
//! itself; and it takes any pipe under those numbers for the one that is meant.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, open, stat};
use rustix::io::{Errno, read};

use crate::{signal, thread};

/// Device and inode.
type Identity = (u64, u64);

/// Where MAKEFLAGS says that tokens are.
#[derive(Debug)]
enum Place {
    /// Under this number of ours, as long as that is still this pipe.
    Pipe(RawFd, Identity),
    Fifo(OsString),
    /// It is not there for us.
    Nowhere,
    Open(Arc<OwnedFd>),
}

/// A jobserver that somebody runs for this process and others.
#[derive(Debug)]
pub struct Jobserver {
    place: Place,
    /// Files that it cannot be.
    others: Vec<Identity>,
}

impl Jobserver {
    /// The jobserver that MAKEFLAGS names, `None` where it names none and nobody limits how much runs at once. To be asked before
    /// the process opens anything, since what it opens may get a number that MAKEFLAGS names.
    #[must_use]
    pub fn named_in(makeflags: &OsStr) -> Option<Jobserver> {
        let words = makeflags.as_bytes().split(|&byte| byte == b' ');
        // Behind `--` stand variables. Of several the last one is meant.
        let options = words.take_while(|word| *word != b"--");
        let named = options.filter_map(|word| {
            word.strip_prefix(b"--jobserver-auth=").or_else(|| word.strip_prefix(b"--jobserver-fds="))
        });
        let named = named.last()?;
        let place = match named.strip_prefix(b"fifo:") {
            Some(path) => Place::Fifo(OsStr::from_bytes(path).to_owned()),
            None => inherited(named).unwrap_or(Place::Nowhere),
        };
        Some(Jobserver { place, others: Vec::new() })
    }

    /// The program works on these files: they are not the jobserver, whatever MAKEFLAGS says.
    pub fn is_none_of(&mut self, files: &[(u64, u64)]) {
        self.others.extend(files);
    }

    /// A token, if there is one now. From the first one on no signal's default action ends the process before all are given back;
    /// for that the process's signals have to be the caller's to handle.
    #[must_use]
    pub fn try_token(&mut self) -> Option<Token> {
        let fd = match &self.place {
            Place::Open(fd) => Arc::clone(fd),
            Place::Nowhere => return None,
            Place::Pipe(..) | Place::Fifo(_) => {
                let Some(fd) = self.open() else {
                    self.place = Place::Nowhere;
                    return None;
                };
                let fd = Arc::new(fd);
                self.place = Place::Open(Arc::clone(&fd));
                signal::before_death(give_back_all);
                fd
            }
        };
        let slot = exclusively(|| take(&fd))?;
        Some(Token { slot, _open: fd })
    }

    /// A description of our own. Both ways at once: it neither waits for the other end nor is ever without one.
    fn open(&self) -> Option<OwnedFd> {
        let (path, expected) = match &self.place {
            Place::Pipe(fd, identity) => (OsString::from(format!("/proc/self/fd/{fd}")), Some(*identity)),
            // Looked at first: to open something else could do something.
            Place::Fifo(path) => (path.clone(), Some(fifo(&stat(path).ok()?)?)),
            Place::Nowhere | Place::Open(_) => return None,
        };
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let fd = open(path, flags, Mode::empty()).ok()?;
        let opened = fifo(&fstat(&fd).ok()?);
        (opened == expected && opened.is_some_and(|identity| !self.others.contains(&identity))).then_some(fd)
    }
}

/// `R,W`: the ends of one pipe, none of them a standard descriptor.
fn inherited(numbers: &[u8]) -> Option<Place> {
    let (read, write) = std::str::from_utf8(numbers).ok()?.split_once(',')?;
    let (read, write): (RawFd, RawFd) = (read.parse().ok()?, write.parse().ok()?);
    let end = |fd: RawFd, way: libc::c_int| {
        // SAFETY: F_GETFL takes any number and changes nothing.
        let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
        let open = flags != -1 && [way, libc::O_RDWR].contains(&(flags & libc::O_ACCMODE));
        if fd > 2 && open { fifo(&stat(format!("/proc/self/fd/{fd}")).ok()?) } else { None }
    };
    let identity = end(read, libc::O_RDONLY)?;
    (end(write, libc::O_WRONLY)? == identity).then_some(Place::Pipe(read, identity))
}

fn fifo(stat: &Stat) -> Option<Identity> {
    (FileType::from_raw_mode(stat.st_mode) == FileType::Fifo).then_some((stat.st_dev, stat.st_ino))
}

/// The right to run one thread more. Dropped, it is given back.
#[derive(Debug)]
pub struct Token {
    slot: usize,
    /// The slot holds its number.
    _open: Arc<OwnedFd>,
}

impl Drop for Token {
    fn drop(&mut self) {
        exclusively(|| give_back(&HELD[self.slot]));
    }
}

/// What is held, where a signal handler finds it: descriptor and byte, or [`FREE`].
static HELD: [AtomicU64; 64] = [const { AtomicU64::new(FREE) }; 64];
const FREE: u64 = u64::MAX;

/// Somebody is between the pipe and [`HELD`].
static BUSY: AtomicBool = AtomicBool::new(false);
/// All was given back for good.
static DYING: AtomicBool = AtomicBool::new(false);

/// Runs `work` while no handler and no other thread can see a byte that is neither held nor in the pipe. Async-signal-safe, and
/// never long: who is inside has no signals and waits for nothing.
fn exclusively<T>(work: impl FnOnce() -> T) -> T {
    let mask = thread::block_all_saving();
    while BUSY.swap(true, Ordering::SeqCst) {
        // SAFETY: touches no memory.
        unsafe { libc::sched_yield() };
    }
    let done = work();
    BUSY.store(false, Ordering::SeqCst);
    thread::restore(&mask);
    done
}

/// Moves a byte from the pipe into a free slot.
fn take(fd: &OwnedFd) -> Option<usize> {
    if DYING.load(Ordering::SeqCst) {
        return None;
    }
    let slot = HELD.iter().position(|slot| slot.load(Ordering::SeqCst) == FREE)?;
    let mut byte = [0];
    loop {
        match read(fd, &mut byte) {
            Ok(1) => break,
            Err(Errno::INTR) => {}
            // Others have them all, or somebody was quicker.
            _ => return None,
        }
    }
    let fd = u64::try_from(fd.as_raw_fd()).expect("an open descriptor is not negative");
    HELD[slot].store(fd << 8 | u64::from(byte[0]), Ordering::SeqCst);
    Some(slot)
}

/// Async-signal-safe.
fn give_back(slot: &AtomicU64) {
    let held = slot.swap(FREE, Ordering::SeqCst);
    if held == FREE {
        return;
    }
    let [.., byte] = held.to_be_bytes();
    let fd = RawFd::try_from(held >> 8).unwrap_or(-1);
    // A byte that was taken out has room, so only a signal can be in the way.
    // SAFETY: the one byte outlives the call; who holds a token keeps its descriptor open.
    while unsafe { libc::write(fd, (&raw const byte).cast(), 1) } == -1 && errno() == libc::EINTR {}
}

fn errno() -> libc::c_int {
    // SAFETY: the C library's own variable of this thread.
    unsafe { *libc::__errno_location() }
}

/// The process is about to die of a signal.
fn give_back_all() {
    exclusively(|| {
        DYING.store(true, Ordering::SeqCst);
        HELD.iter().for_each(give_back);
    });
}

#[cfg(test)]
#[cfg(not(miri))] // Miri knows no /proc.
mod tests {
    use std::os::fd::AsFd;

    use rustix::fs::fcntl_getfl;
    use rustix::io::write;
    use rustix::pipe::pipe;

    use super::*;

    fn flags(read: &impl AsFd, write: &impl AsFd) -> OsString {
        let numbers = format!("{},{}", read.as_fd().as_raw_fd(), write.as_fd().as_raw_fd());
        OsString::from(format!("kw -j3 --jobserver-auth={numbers} -- A=--jobserver-auth=8,9"))
    }

    /// What lies in the pipe; it is empty afterwards.
    fn drained(end: &OwnedFd, write: &OwnedFd) -> Vec<u8> {
        rustix::io::write(write, b".").expect("room");
        let mut bytes = [0; 64];
        let got = read(end, &mut bytes).expect("bytes");
        let mut bytes = bytes[..got].to_vec();
        bytes.retain(|&byte| byte != b'.');
        bytes.sort_unstable();
        bytes
    }

    #[test]
    fn every_byte_that_was_taken_goes_back_and_no_shared_flag_changes() {
        let (reader, writer) = pipe().expect("a pipe");
        write(&writer, b"+*x").expect("room");
        let before = (fcntl_getfl(&reader).expect("flags"), fcntl_getfl(&writer).expect("flags"));
        let mut server = Jobserver::named_in(&flags(&reader, &writer)).expect("a jobserver");
        let tokens: Vec<_> = std::iter::from_fn(|| server.try_token()).collect();
        assert_eq!(tokens.len(), 3);
        assert_eq!((fcntl_getfl(&reader).expect("flags"), fcntl_getfl(&writer).expect("flags")), before);
        assert_eq!(drained(&reader, &writer), b"");
        drop(tokens);
        assert_eq!(drained(&reader, &writer), b"*+x");
    }

    #[test]
    fn tokens_of_a_panic_go_back() {
        let (reader, writer) = pipe().expect("a pipe");
        write(&writer, b"ab").expect("room");
        let mut server = Jobserver::named_in(&flags(&reader, &writer)).expect("a jobserver");
        let outcome = std::thread::spawn(move || {
            let _tokens = (server.try_token(), server.try_token());
            std::panic::panic_any(1);
        });
        outcome.join().expect_err("a panic");
        assert_eq!(drained(&reader, &writer), b"ab");
    }

    #[test]
    fn a_fifo_is_a_jobserver_too() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO");
        let fifo = open(&path, OFlags::RDWR, Mode::empty()).expect("the FIFO");
        write(&fifo, b"t").expect("room");
        let mut makeflags = OsString::from("-j --jobserver-auth=fifo:");
        makeflags.push(&path);
        let mut server = Jobserver::named_in(&makeflags).expect("a jobserver");
        let token = server.try_token();
        assert!(token.is_some() && server.try_token().is_none());
        drop(token);
        assert_eq!(drained(&fifo, &fifo), b"t");
    }

    #[test]
    fn what_is_not_one_pipe_gives_no_token() {
        let (reader, writer) = pipe().expect("a pipe");
        let (other, other_writer) = pipe().expect("a pipe");
        write(&writer, b"data").expect("room");
        write(&other_writer, b"data").expect("room");
        let null = open("/dev/zero", OFlags::RDWR, Mode::empty()).expect("/dev/zero");
        let two = |flags: OsString| Jobserver::named_in(&flags).expect("one is named").try_token();
        assert!(two(flags(&reader, &other_writer)).is_none(), "two pipes");
        assert!(two(flags(&writer, &reader)).is_none(), "the wrong way round");
        assert!(two(flags(&null, &null)).is_none(), "no pipe");
        for named in ["-2,-2", "0,1", "3", "", "a,b", "999999,999998", "fifo:/dev/zero", "fifo:/nowhere", "fifo:"] {
            assert!(two(OsString::from(format!("--jobserver-auth={named}"))).is_none(), "{named}");
        }
        assert_eq!((drained(&reader, &writer), drained(&other, &other_writer)), (b"aadt".to_vec(), b"aadt".to_vec()));
    }

    #[test]
    fn a_file_that_the_program_works_on_is_not_the_jobserver() {
        let (reader, writer) = pipe().expect("a pipe");
        write(&writer, b"data").expect("room");
        let mut server = Jobserver::named_in(&flags(&reader, &writer)).expect("a jobserver");
        let stat = fstat(&reader).expect("facts");
        server.is_none_of(&[(7, 7), (stat.st_dev, stat.st_ino)]);
        assert!(server.try_token().is_none());
        assert_eq!(drained(&reader, &writer), b"aadt");
    }

    #[test]
    fn the_last_one_named_before_the_variables_is_meant() {
        for none in ["", "kw", "-j4 -- --jobserver-auth=3,4", "w -- A=1 --jobserver-fds=3,4"] {
            assert!(Jobserver::named_in(OsStr::new(none)).is_none(), "{none}");
        }
        let (reader, writer) = pipe().expect("a pipe");
        write(&writer, b"t").expect("room");
        let numbers = format!("{},{}", reader.as_raw_fd(), writer.as_raw_fd());
        let last = format!("--jobserver-auth=fifo:/nowhere --jobserver-fds={numbers}");
        assert!(Jobserver::named_in(OsStr::new(&last)).expect("a jobserver").try_token().is_some());
    }
}
