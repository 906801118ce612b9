//! A file system in memory whose files fail as they are told: bad, flaky, slow and hung sectors, short transfers, full
//! disks, errors that come late, inputs that shrink, and power cuts. One directory, served by a thread of the test
//! itself through FUSE.
//!
//! What a power cut leaves is the strictest reading of POSIX: data and size after a sync of the file (or a write under
//! O_SYNC or O_DSYNC), a name only after a sync of the directory.

#![allow(dead_code)] // Each test program uses its part of the rig.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, KernelConfig, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

/// The grain of faults and of what a power cut tears.
pub(crate) const SECTOR: u64 = 512;
/// The largest request the kernel sends; longer calls come as several.
pub(crate) const REQUEST: u64 = 128 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Open,
    Read,
    Write,
    Flush,
    Fsync,
    FsyncDir,
    Truncate,
    Fallocate,
    Create,
    Unlink,
    Rename,
}

impl Op {
    /// Requests that change what the disk holds or promises: those at which the power can go.
    fn mutates(self) -> bool {
        !matches!(self, Op::Open | Op::Read | Op::Flush)
    }
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    Fails(i32),
    /// At most that many bytes are transferred.
    Short(usize),
    Late(Duration),
    /// Held until `interrupt_held`, or until the asking process is killed.
    Held,
    /// The file has that many bytes from now on.
    Shrinks(u64),
}

/// Which requests go wrong, and how.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    file: String,
    op: Op,
    bytes: Range<u64>,
    /// Counted over the requests that match, from 1.
    nth: Range<u64>,
    /// How often each sector of `bytes` fails before it is good.
    tries: Option<u32>,
    partial: bool,
    past_end: bool,
    fault: Fault,
    seen: u64,
    tried: HashMap<u64, u32>,
}

impl Rule {
    /// Every `op` on `file`, for ever, unless narrowed.
    pub(crate) fn on(file: &str, op: Op) -> Rule {
        Rule {
            file: file.into(),
            op,
            bytes: 0..u64::MAX,
            nth: 1..u64::MAX,
            tries: None,
            partial: false,
            past_end: false,
            fault: Fault::Fails(libc::EIO),
            seen: 0,
            tried: HashMap::new(),
        }
    }

    /// Only requests that touch these sectors.
    pub(crate) fn sectors(self, sectors: Range<u64>) -> Rule {
        let end = sectors.end.saturating_mul(SECTOR);
        self.bytes(sectors.start * SECTOR..end)
    }

    /// Only requests that touch these bytes.
    pub(crate) fn bytes(mut self, bytes: Range<u64>) -> Rule {
        self.bytes = bytes;
        self
    }

    /// Only the nth matching request, counted from 1.
    pub(crate) fn nth(mut self, n: u64) -> Rule {
        self.nth = n..n + 1;
        self
    }

    /// The nth matching request and all after it.
    pub(crate) fn onwards_from(mut self, n: u64) -> Rule {
        self.nth = n..u64::MAX;
        self
    }

    /// Each sector is good once it was asked for that many times in vain.
    pub(crate) fn tries(mut self, tries: u32) -> Rule {
        self.tries = Some(tries);
        self
    }

    /// A request that begins before the range is served up to it; only one that begins inside fails.
    pub(crate) fn partial(mut self) -> Rule {
        self.partial = true;
        self
    }

    /// Reads at and past the end fail as well: the device is gone, it does not end.
    pub(crate) fn past_end(mut self) -> Rule {
        self.past_end = true;
        self
    }

    pub(crate) fn fails(self, errno: i32) -> Rule {
        self.with(Fault::Fails(errno))
    }

    pub(crate) fn short(self, most: usize) -> Rule {
        self.with(Fault::Short(most))
    }

    pub(crate) fn late(self, by: Duration) -> Rule {
        self.with(Fault::Late(by))
    }

    pub(crate) fn held(self) -> Rule {
        self.with(Fault::Held)
    }

    pub(crate) fn shrinks_to(self, size: u64) -> Rule {
        self.with(Fault::Shrinks(size))
    }

    fn with(mut self, fault: Fault) -> Rule {
        self.fault = fault;
        self
    }

    /// The first byte at which this request meets the rule's range, if the rule speaks of it at all.
    fn meets(&mut self, file: &str, op: Op, at: u64, len: u64) -> Option<u64> {
        if self.op != op || self.file != file {
            return None;
        }
        if len > 0 && (at + len <= self.bytes.start || at >= self.bytes.end) {
            return None;
        }
        self.seen += 1;
        if !self.nth.contains(&self.seen) {
            return None;
        }
        let first = at.max(self.bytes.start);
        let Some(tries) = self.tries else {
            return Some(first);
        };
        let last = (at + len).min(self.bytes.end);
        let bad: Vec<u64> = (first / SECTOR..last.div_ceil(SECTOR))
            .filter(|sector| self.tried.get(sector).copied().unwrap_or(0) < tries)
            .collect();
        let first = (bad.first()? * SECTOR).max(at);
        // A short read up to the bad sector has not tried it.
        if !(self.partial && first > at) {
            for sector in bad {
                *self.tried.entry(sector).or_default() += 1;
            }
        }
        Some(first)
    }
}

/// What of the unsynced a power cut leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Survives {
    Nothing,
    Everything,
    /// Each sector by itself, and the first so many of the directory's changes.
    Random(u64),
}

/// One line of the operation log.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub op: Op,
    pub file: String,
    pub at: u64,
    pub asked: u64,
    /// Bytes transferred, or the errno.
    pub result: Result<u64, i32>,
}

enum Change {
    Bytes(u64, Vec<u8>),
    Size(u64),
}

#[derive(Clone)]
enum NameChange {
    Link(String, u64),
    Unlink(String),
    Rename(String, String),
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, u64>) {
        match self {
            NameChange::Link(name, ino) => {
                names.insert(name.clone(), *ino);
            }
            NameChange::Unlink(name) => {
                names.remove(name);
            }
            NameChange::Rename(from, to) => {
                if let Some(ino) = names.remove(from) {
                    names.insert(to.clone(), ino);
                }
            }
        }
    }
}

struct Node {
    name: String,
    bytes: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<Change>,
}

impl Node {
    fn sync(&mut self) {
        self.durable = self.bytes.clone();
        self.unsynced.clear();
    }

    fn resize(&mut self, size: u64) {
        self.bytes.resize(to_usize(size), 0);
        self.unsynced.push(Change::Size(size));
    }

    fn write(&mut self, at: u64, bytes: &[u8]) {
        patch(&mut self.bytes, at, bytes);
        self.unsynced.push(Change::Bytes(at, bytes.to_vec()));
    }

    fn after_cut(&self, keep: &mut dyn FnMut() -> bool) -> Vec<u8> {
        let mut left = self.durable.clone();
        for change in &self.unsynced {
            match change {
                Change::Size(size) => {
                    if keep() {
                        left.resize(to_usize(*size), 0);
                    }
                }
                Change::Bytes(at, bytes) => {
                    let mut done = 0;
                    while done < bytes.len() {
                        let here = at + done as u64;
                        let len = to_usize(SECTOR - here % SECTOR).min(bytes.len() - done);
                        if keep() {
                            patch(&mut left, here, &bytes[done..done + len]);
                        }
                        done += len;
                    }
                }
            }
        }
        left
    }
}

fn patch(file: &mut Vec<u8>, at: u64, bytes: &[u8]) {
    let at = to_usize(at);
    if file.len() < at + bytes.len() {
        file.resize(at + bytes.len(), 0);
    }
    file[at..at + bytes.len()].copy_from_slice(bytes);
}

fn to_usize(n: u64) -> usize {
    usize::try_from(n).expect("test files fit the memory")
}

struct State {
    nodes: BTreeMap<u64, Node>,
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    unsynced_names: Vec<NameChange>,
    rules: Vec<Rule>,
    log: Vec<Entry>,
    direct: bool,
    mutations: u64,
    cut_at: Option<(u64, Survives)>,
    survivors: Option<BTreeMap<String, Vec<u8>>>,
    held: Vec<Answer>,
}

/// Says how a held or delayed request is answered, whenever that is.
type Answer = Box<dyn FnOnce(Option<Errno>) + Send>;

struct Verdict {
    /// Bytes to transfer, or the errno.
    result: Result<u64, i32>,
    late: Option<Duration>,
    held: bool,
}

impl State {
    fn add(&mut self, name: &str) -> u64 {
        let ino = self.nodes.keys().last().map_or(2, |last| last + 1);
        let node = Node { name: name.into(), bytes: Vec::new(), durable: Vec::new(), unsynced: Vec::new() };
        self.nodes.insert(ino, node);
        self.names.insert(name.into(), ino);
        ino
    }

    fn judge(&mut self, op: Op, file: &str, at: u64, asked: u64, there: u64) -> Verdict {
        let mut verdict = Verdict { result: Ok(there), late: None, held: false };
        if self.powered_off(op) {
            verdict.result = Err(libc::EIO);
        }
        let mut shrunk = None;
        for rule in &mut self.rules {
            if there == 0 && asked > 0 && !rule.past_end {
                continue;
            }
            let Some(first) = rule.meets(file, op, at, if rule.past_end { asked } else { there }) else {
                continue;
            };
            match rule.fault {
                Fault::Fails(_) if rule.partial && first > at => {
                    verdict.result = verdict.result.map(|n| n.min(first - at));
                }
                Fault::Fails(errno) => verdict.result = Err(errno),
                Fault::Short(most) => verdict.result = verdict.result.map(|n| n.min(most as u64)),
                Fault::Late(by) => verdict.late = Some(by),
                Fault::Held => verdict.held = true,
                Fault::Shrinks(size) => shrunk = Some(size),
            }
        }
        if let (Some(size), Some(ino)) = (shrunk, self.names.get(file).copied()) {
            let node = self.nodes.get_mut(&ino).expect("names lead to nodes");
            node.bytes.truncate(to_usize(size));
            verdict.result = verdict.result.map(|n| n.min(size.saturating_sub(at)));
        }
        self.log.push(Entry { op, file: file.into(), at, asked, result: verdict.result });
        verdict
    }

    /// Counts a mutating request, and cuts the power when its turn has come. Closing says nothing of it, as on most file
    /// systems: who did not ask with a sync is not told.
    fn powered_off(&mut self, op: Op) -> bool {
        if self.survivors.is_none() && op.mutates() {
            self.mutations += 1;
            if let Some((nth, survives)) = self.cut_at
                && self.mutations >= nth
            {
                self.cut(survives);
            }
        }
        self.survivors.is_some() && op != Op::Flush
    }

    fn cut(&mut self, survives: Survives) {
        let mut random = match survives {
            Survives::Random(seed) => seed,
            Survives::Nothing | Survives::Everything => 0,
        };
        let mut keep = || match survives {
            Survives::Nothing => false,
            Survives::Everything => true,
            Survives::Random(_) => draw(&mut random) & 1 == 0,
        };
        let mut names = self.durable_names.clone();
        for change in &self.unsynced_names {
            if !keep() {
                break;
            }
            change.apply(&mut names);
        }
        let left = names.iter().map(|(name, ino)| (name.clone(), self.nodes[ino].after_cut(&mut keep)));
        self.survivors = Some(left.collect());
    }

    fn attr(&self, ino: u64) -> Option<FileAttr> {
        let (kind, perm, size) = match ino {
            1 => (FileType::Directory, 0o755, 0),
            _ => (FileType::RegularFile, 0o644, self.nodes.get(&ino)?.bytes.len() as u64),
        };
        let then = SystemTime::UNIX_EPOCH;
        Some(FileAttr {
            ino: INodeNo(ino),
            size,
            blocks: size.div_ceil(SECTOR),
            atime: then,
            mtime: then,
            ctime: then,
            crtime: then,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    fn name(&self, ino: INodeNo) -> String {
        self.nodes.get(&ino.0).map_or_else(|| "/".into(), |node| node.name.clone())
    }
}

/// SplitMix64: all a torn sector needs, and the same on every machine.
fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

struct Shared {
    state: Mutex<State>,
    held: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A test that panicked has failed already; its file system still has to be unmounted.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Answers now, later or not yet. `answer` gets the errno to send, or none for the bytes it holds.
    fn answer(&self, mut state: MutexGuard<'_, State>, verdict: &Verdict, answer: Answer) {
        if verdict.held {
            state.held.push(answer);
            self.held.notify_all();
            return;
        }
        drop(state);
        let errno = verdict.result.err().map(Errno::from_i32);
        match verdict.late {
            None => answer(errno),
            Some(by) => {
                std::thread::spawn(move || {
                    std::thread::sleep(by);
                    answer(errno);
                });
            }
        }
    }
}

/// A mounted fault-injecting file system; unmounted when dropped.
pub(crate) struct FaultFs {
    shared: Arc<Shared>,
    session: Option<BackgroundSession>,
    dir: tempfile::TempDir,
}

impl FaultFs {
    /// Mounts an empty one, or says why that cannot be done here.
    pub(crate) fn mount() -> Result<FaultFs, String> {
        let state = State {
            nodes: BTreeMap::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            unsynced_names: Vec::new(),
            rules: Vec::new(),
            log: Vec::new(),
            direct: false,
            mutations: 0,
            cut_at: None,
            survivors: None,
            held: Vec::new(),
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), held: Condvar::new() });
        let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("faultfs".into()), MountOption::RW];
        let session = fuser::spawn_mount(Server(shared.clone()), dir.path(), &config)
            .map_err(|e| format!("no FUSE mount here: {e}"))?;
        Ok(FaultFs { shared, session: Some(session), dir })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Puts a file there as if it had always been: durable, name and data.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) {
        let mut state = self.shared.lock();
        let ino = match state.names.get(name) {
            Some(&ino) => ino,
            None => state.add(name),
        };
        state.durable_names.insert(name.into(), ino);
        let node = state.nodes.get_mut(&ino).expect("just added");
        node.bytes = bytes.to_vec();
        node.sync();
    }

    pub(crate) fn contents(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.shared.lock();
        state.names.get(name).map(|ino| state.nodes[ino].bytes.clone())
    }

    /// Opens from now on bypass the page cache, so that each call is a request, and short ones are seen as such.
    pub(crate) fn direct(&self) {
        self.shared.lock().direct = true;
    }

    pub(crate) fn rule(&self, rule: Rule) {
        self.shared.lock().rules.push(rule);
    }

    pub(crate) fn clear_rules(&self) {
        self.shared.lock().rules.clear();
    }

    pub(crate) fn log(&self) -> Vec<Entry> {
        self.shared.lock().log.clone()
    }

    /// Requests so far at which the power could have been cut.
    pub(crate) fn mutations(&self) -> u64 {
        self.shared.lock().mutations
    }

    /// Cuts the power at the nth mutating request from the start: it and everything after it fails, but for closing.
    pub(crate) fn cut_power_at(&self, nth: u64, survives: Survives) {
        self.shared.lock().cut_at = Some((nth, survives));
    }

    /// Cuts the power now, unless it is off already, and says what is on the disk.
    pub(crate) fn cut_power(&self, survives: Survives) -> BTreeMap<String, Vec<u8>> {
        let mut state = self.shared.lock();
        if state.survivors.is_none() {
            state.cut(survives);
        }
        state.survivors.clone().expect("cut sets it")
    }

    pub(crate) fn is_off(&self) -> bool {
        self.shared.lock().survivors.is_some()
    }

    /// Waits until a request is held.
    pub(crate) fn wait_for_held(&self) {
        assert!(self.is_held_soon(), "no request was held");
    }

    /// Waits for a request to be held, but not for ever; true when one is.
    pub(crate) fn is_held_soon(&self) -> bool {
        let state = self.shared.lock();
        let waiting = |state: &mut State| state.held.is_empty();
        let waited = self.shared.held.wait_timeout_while(state, Duration::from_secs(20), waiting);
        let (_state, timeout) = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
        !timeout.timed_out()
    }

    /// Answers what is held as a device does whose caller got a signal: EINTR.
    pub(crate) fn interrupt_held(&self) {
        let held = std::mem::take(&mut self.shared.lock().held);
        for answer in held {
            answer(Some(Errno::EINTR));
        }
    }

    /// Ends the connection, as a stick pulled out does: every call from now on fails with ECONNABORTED or ENOTCONN.
    pub(crate) fn unplug(&self) {
        super::devices::abort_mount(self.dir.path());
    }
}

impl Drop for FaultFs {
    fn drop(&mut self) {
        self.shared.lock().rules.clear();
        self.interrupt_held();
        super::devices::abort_mount(self.dir.path());
        super::devices::detach_mount(self.dir.path());
        if let Some(session) = self.session.take() {
            // The loop ends with the mount; what it says then is of no use to the test.
            let _ = session.umount_and_join();
        }
    }
}

struct Server(Arc<Shared>);

const NOW: Duration = Duration::ZERO; // Nothing is remembered by the kernel: sizes change behind its back.

fn text(name: &OsStr) -> String {
    name.to_string_lossy().into_owned()
}

impl Server {
    fn simple(&self, op: Op, ino: INodeNo, effect: impl FnOnce(&mut State), reply: ReplyEmpty) {
        let mut state = self.0.lock();
        let name = state.name(ino);
        let verdict = state.judge(op, &name, 0, 0, 0);
        if verdict.result.is_ok() {
            effect(&mut state);
        }
        let answer = move |errno| match errno {
            None => reply.ok(),
            Some(errno) => reply.error(errno),
        };
        self.0.answer(state, &verdict, Box::new(answer));
    }

    fn open_flags(state: &State) -> FopenFlags {
        if state.direct { FopenFlags::FOPEN_DIRECT_IO } else { FopenFlags::empty() }
    }
}

impl Filesystem for Server {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let most = u32::try_from(REQUEST).expect("small");
        config.set_max_write(most).map_err(|_| std::io::Error::other("max_write refused"))?;
        Ok(())
    }

    fn lookup(&self, _req: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let state = self.0.lock();
        match state.names.get(&text(name)).and_then(|&ino| state.attr(ino)) {
            Some(attr) => reply.entry(&NOW, &attr, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        match self.0.lock().attr(ino.0) {
            Some(attr) => reply.attr(&NOW, &attr),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn setattr(
        &self,
        _req: &Request,
        ino: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut state = self.0.lock();
        if let Some(size) = size {
            let name = state.name(ino);
            let verdict = state.judge(Op::Truncate, &name, size, 0, 0);
            if let Err(errno) = verdict.result {
                return reply.error(Errno::from_i32(errno));
            }
            if let Some(node) = state.nodes.get_mut(&ino.0) {
                node.resize(size);
            }
        }
        match state.attr(ino.0) {
            Some(attr) => reply.attr(&NOW, &attr),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn unlink(&self, _req: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = text(name);
        let Some(ino) = self.0.lock().names.get(&name).copied() else {
            return reply.error(Errno::ENOENT);
        };
        let effect = |state: &mut State| {
            state.names.remove(&name);
            state.unsynced_names.push(NameChange::Unlink(name.clone()));
        };
        self.simple(Op::Unlink, INodeNo(ino), effect, reply);
    }

    fn rename(
        &self,
        _req: &Request,
        _parent: INodeNo,
        name: &OsStr,
        _newparent: INodeNo,
        newname: &OsStr,
        _flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (from, to) = (text(name), text(newname));
        let Some(ino) = self.0.lock().names.get(&from).copied() else {
            return reply.error(Errno::ENOENT);
        };
        let effect = |state: &mut State| {
            let change = NameChange::Rename(from, to.clone());
            change.apply(&mut state.names);
            state.unsynced_names.push(change);
            if let Some(node) = state.nodes.get_mut(&ino) {
                node.name = to;
            }
        };
        self.simple(Op::Rename, INodeNo(ino), effect, reply);
    }

    fn open(&self, _req: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let mut state = self.0.lock();
        let name = state.name(ino);
        let verdict = state.judge(Op::Open, &name, 0, 0, 0);
        let flags = Server::open_flags(&state);
        let answer = move |errno| match errno {
            None => reply.opened(FileHandle(0), flags),
            Some(errno) => reply.error(errno),
        };
        self.0.answer(state, &verdict, Box::new(answer));
    }

    fn create(
        &self,
        _req: &Request,
        _parent: INodeNo,
        name: &OsStr,
        _mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let name = text(name);
        let mut state = self.0.lock();
        let verdict = state.judge(Op::Create, &name, 0, 0, 0);
        if let Err(errno) = verdict.result {
            return reply.error(Errno::from_i32(errno));
        }
        let ino = state.add(&name);
        state.unsynced_names.push(NameChange::Link(name, ino));
        let attr = state.attr(ino).expect("just added");
        reply.created(&NOW, &attr, Generation(0), FileHandle(0), Server::open_flags(&state));
    }

    fn read(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        at: u64,
        size: u32,
        _flags: OpenFlags,
        _lock: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut state = self.0.lock();
        let name = state.name(ino);
        let len = state.nodes.get(&ino.0).map_or(0, |node| node.bytes.len() as u64);
        let there = len.saturating_sub(at).min(u64::from(size));
        let verdict = state.judge(Op::Read, &name, at, u64::from(size), there);
        let take = verdict.result.unwrap_or(0);
        let bytes = match state.nodes.get(&ino.0) {
            Some(node) if take > 0 => node.bytes[to_usize(at)..to_usize(at + take)].to_vec(),
            Some(_) | None => Vec::new(),
        };
        let answer = move |errno| match errno {
            None => reply.data(&bytes),
            Some(errno) => reply.error(errno),
        };
        self.0.answer(state, &verdict, Box::new(answer));
    }

    fn write(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        at: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        flags: OpenFlags,
        _lock: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut state = self.0.lock();
        let name = state.name(ino);
        let len = data.len() as u64;
        let verdict = state.judge(Op::Write, &name, at, len, len);
        let take = verdict.result.unwrap_or(0);
        if let (Some(node), 1..) = (state.nodes.get_mut(&ino.0), take) {
            node.write(at, &data[..to_usize(take)]);
            if flags.0 & (libc::O_SYNC | libc::O_DSYNC) != 0 {
                node.sync();
            }
        }
        let answer = move |errno| match errno {
            None => reply.written(u32::try_from(take).expect("a request is small")),
            Some(errno) => reply.error(errno),
        };
        self.0.answer(state, &verdict, Box::new(answer));
    }

    fn flush(&self, _req: &Request, ino: INodeNo, _fh: FileHandle, _lock: LockOwner, reply: ReplyEmpty) {
        self.simple(Op::Flush, ino, |_| (), reply);
    }

    fn fsync(&self, _req: &Request, ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        let effect = |state: &mut State| {
            if let Some(node) = state.nodes.get_mut(&ino.0) {
                node.sync();
            }
        };
        self.simple(Op::Fsync, ino, effect, reply);
    }

    fn fsyncdir(&self, _req: &Request, ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        let effect = |state: &mut State| {
            for change in std::mem::take(&mut state.unsynced_names) {
                change.apply(&mut state.durable_names);
            }
        };
        self.simple(Op::FsyncDir, ino, effect, reply);
    }

    fn fallocate(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        at: u64,
        len: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        const KEEP_SIZE: i32 = libc::FALLOC_FL_KEEP_SIZE;
        const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        if ![0, KEEP_SIZE, PUNCH].contains(&mode) {
            return reply.error(Errno::EOPNOTSUPP);
        }
        let effect = |state: &mut State| {
            let Some(node) = state.nodes.get_mut(&ino.0) else {
                return;
            };
            let size = node.bytes.len() as u64;
            if mode == 0 && size < at + len {
                node.resize(at + len);
            }
            if mode == PUNCH && at < size {
                node.write(at, &vec![0; to_usize(len.min(size - at))]);
            }
        };
        self.simple(Op::Fallocate, ino, effect, reply);
    }

    fn statfs(&self, _req: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        reply.statfs(1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20, 4096, 255, 4096);
    }

    fn readdir(&self, _req: &Request, _ino: INodeNo, _fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let state = self.0.lock();
        for (place, (name, ino)) in state.names.iter().enumerate().skip(to_usize(offset)) {
            if reply.add(INodeNo(*ino), place as u64 + 1, FileType::RegularFile, name) {
                break;
            }
        }
        reply.ok();
    }
}
