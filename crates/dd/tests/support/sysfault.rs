//! Fails, shortens, refuses or counts chosen system calls of a program under test, over all its threads, and sends it
//! signals before the nth. It is a supervisor on a seccomp user notification: exact, microseconds a call, and true for
//! static programs. It cannot look into io_uring.

#![allow(dead_code)] // Each test program uses its part of the rig.
#![allow(unsafe_code)] // Seccomp and the reading of another process's memory exist as raw system calls only.
#![allow(clippy::cast_possible_truncation)] // The kernel passes every argument in 64 bits, whatever its type.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::thread::JoinHandle;

type Call = libc::c_long;

pub(crate) const SYS_CACHESTAT: Call = 451; // libc has no name for it yet.

pub(crate) const READ: &[Call] =
    &[libc::SYS_read, libc::SYS_pread64, libc::SYS_readv, libc::SYS_preadv, libc::SYS_preadv2];
pub(crate) const WRITE: &[Call] =
    &[libc::SYS_write, libc::SYS_pwrite64, libc::SYS_writev, libc::SYS_pwritev, libc::SYS_pwritev2];
pub(crate) const POSITION: &[Call] = &[libc::SYS_lseek, libc::SYS_ftruncate];
pub(crate) const SYNC: &[Call] = &[libc::SYS_fsync, libc::SYS_fdatasync];
pub(crate) const OPEN: &[Call] = &[
    libc::SYS_openat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_creat,
];
pub(crate) const CLOSE: &[Call] = &[libc::SYS_close];
pub(crate) const STAT: &[Call] = &[libc::SYS_fstat, libc::SYS_newfstatat, libc::SYS_statx, libc::SYS_fstatfs];
pub(crate) const CONTROL: &[Call] = &[
    libc::SYS_fcntl,
    libc::SYS_ioctl,
    libc::SYS_dup3,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_dup2,
];
pub(crate) const SIGNAL: &[Call] = &[libc::SYS_rt_sigaction, libc::SYS_rt_sigprocmask];
pub(crate) const WAIT: &[Call] = &[
    libc::SYS_ppoll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
];
/// What a copy does better with and must do without.
pub(crate) const OPTIONAL: &[Call] = &[
    libc::SYS_copy_file_range,
    libc::SYS_sendfile,
    libc::SYS_splice,
    libc::SYS_tee,
    libc::SYS_vmsplice,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_fallocate,
    libc::SYS_fadvise64,
    libc::SYS_sync_file_range,
    libc::SYS_madvise,
    libc::SYS_mincore,
    SYS_CACHESTAT,
];
pub(crate) const RING: &[Call] = &[libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];
pub(crate) const MEMORY: &[Call] = &[libc::SYS_mmap, libc::SYS_mremap, libc::SYS_brk];
pub(crate) const THREAD: &[Call] = &[libc::SYS_clone, libc::SYS_clone3];

/// What happens to a call that is hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hit {
    Count,
    /// It is not made and fails with that errno.
    Fail(i32),
    /// It is made, with at most that many bytes.
    ShortTo(usize),
    /// It is made with half the bytes.
    Halve,
    /// The process gets that signal before it.
    Signal(i32),
}

/// Which calls are hit, and how.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    calls: Vec<Call>,
    refused: Vec<(Call, i32)>,
    arm: Option<String>,
    only: Option<String>,
    argument: Option<(usize, u64)>,
    from: u64,
    to: u64,
    every: u64,
    hit: Hit,
    then: Option<Hit>,
}

impl Plan {
    /// These sets of calls, each one hit, unless narrowed.
    pub(crate) fn on(sets: &[&[Call]], hit: Hit) -> Plan {
        Plan {
            calls: sets.concat(),
            refused: Vec::new(),
            arm: None,
            only: None,
            argument: None,
            from: 1,
            to: u64::MAX,
            every: 1,
            hit,
            then: None,
        }
    }

    /// These calls always fail with `errno`, as in a sandbox or an older kernel.
    pub(crate) fn refuse(calls: &[Call], errno: i32) -> Plan {
        let mut plan = Plan::on(&[], Hit::Count);
        plan.refused = calls.iter().map(|&call| (call, errno)).collect();
        plan
    }

    pub(crate) fn and_refuse(mut self, calls: &[Call], errno: i32) -> Plan {
        self.refused.extend(calls.iter().map(|&call| (call, errno)));
        self.calls.retain(|call| !calls.contains(call));
        self
    }

    /// Nothing is counted before a path that holds `part` is opened: the loader and the runtime are not the subject.
    pub(crate) fn armed_by(mut self, part: &str) -> Plan {
        self.arm = Some(part.into());
        self
    }

    /// Only calls on a file whose path holds `part`.
    pub(crate) fn only(mut self, part: &str) -> Plan {
        self.only = Some(part.into());
        self
    }

    /// Only calls whose argument of that number, from 0, has that value: a command, or a flag by itself.
    pub(crate) fn whose_argument(mut self, number: usize, value: u64) -> Plan {
        self.argument = Some((number, value));
        self
    }

    /// Only the nth counted call, from 1.
    pub(crate) fn nth(mut self, n: u64) -> Plan {
        (self.from, self.to) = (n, n);
        self
    }

    /// The nth counted call and all after it.
    pub(crate) fn onwards_from(mut self, n: u64) -> Plan {
        (self.from, self.to) = (n, u64::MAX);
        self
    }

    /// Whether calls are made with fewer bytes.
    pub(crate) fn shortens(&self) -> bool {
        matches!(self.hit, Hit::ShortTo(_) | Hit::Halve)
    }

    /// The same from the nth counted call on, or at that one alone.
    pub(crate) fn moved_to(mut self, n: u64) -> Plan {
        if self.to == self.from {
            self.to = n;
        }
        self.from = n;
        self
    }

    /// Other calls fail instead; those that are refused stay so.
    pub(crate) fn failing_instead(mut self, sets: &[&[Call]], errno: i32) -> Plan {
        self.calls = sets.concat();
        self.calls.retain(|call| self.refused.iter().all(|(refused, _)| refused != call));
        if let Hit::ShortTo(_) | Hit::Halve = self.hit {
            self.hit = Hit::Fail(errno);
        }
        self
    }

    pub(crate) fn every(mut self, k: u64) -> Plan {
        self.every = k;
        self
    }

    /// What happens to the counted call right after each that was hit, unless that is hit itself.
    pub(crate) fn then(mut self, hit: Hit) -> Plan {
        self.then = Some(hit);
        self
    }

    /// What happens to the nth counted call.
    fn hit_at(&self, n: u64) -> Hit {
        let meets = |n: u64| (self.from..=self.to).contains(&n) && (n - self.from).is_multiple_of(self.every);
        match self.then {
            _ if meets(n) => self.hit,
            Some(then) if n > 1 && meets(n - 1) => then,
            _ => Hit::Count,
        }
    }

    fn filter(&self) -> Vec<libc::sock_filter> {
        let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
        let equal = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
        let ret = (libc::BPF_RET | libc::BPF_K) as u16;
        let op = |code, k, jf| libc::sock_filter { code, jt: 0, jf, k };
        let mut program = vec![op(load, 0, 0)]; // Offset 0 of seccomp_data is the call's number.
        let mut row = |call: Call, action: u32| {
            program.push(op(equal, u32::try_from(call).expect("a call's number"), 1));
            program.push(op(ret, action, 0));
        };
        for &(call, errno) in &self.refused {
            row(call, libc::SECCOMP_RET_ERRNO | u32::try_from(errno).expect("an errno"));
        }
        for &call in &self.calls {
            row(call, libc::SECCOMP_RET_USER_NOTIF);
        }
        if self.arm.is_some() {
            for &call in OPEN {
                row(call, libc::SECCOMP_RET_USER_NOTIF);
            }
        }
        program.push(op(ret, libc::SECCOMP_RET_ALLOW, 0));
        program
    }
}

/// One call that was hit.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub nth: u64,
    pub call: Call,
    /// The descriptor, or -1 where the first argument is none.
    pub fd: i32,
    pub file: String,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub counted: u64,
    pub faults: Vec<Fault>,
}

/// Watches one command; started before it, joined after it.
pub(crate) struct Supervisor(JoinHandle<Report>);

impl Supervisor {
    pub(crate) fn watch(command: &mut Command, plan: Plan) -> io::Result<Supervisor> {
        let mut ends = [0; 2];
        // SAFETY: room for two descriptors.
        let made =
            unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0, ends.as_mut_ptr()) };
        if made != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: both were just opened, and have no other owner.
        let (ours, theirs) = unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) };
        let filter = plan.filter();
        let confine = move || confine_self(&filter, &theirs);
        // SAFETY: `confine_self` makes system calls only and allocates nothing.
        unsafe { command.pre_exec(confine) };
        Ok(Supervisor(std::thread::spawn(move || supervise(&plan, &ours))))
    }

    /// To be called when the command has ended, and is dropped.
    pub(crate) fn report(self) -> Report {
        self.0.join().expect("the supervisor does not panic")
    }
}

/// Whether seccomp's user notification works here.
pub(crate) fn available() -> Result<(), String> {
    let mut command = Command::new("/bin/true");
    let plan = Plan::on(&[OPEN, CLOSE, READ], Hit::Count);
    let supervisor = Supervisor::watch(&mut command, plan).map_err(|e| e.to_string())?;
    let status = command.status().map_err(|e| format!("no seccomp notification here: {e}"))?;
    drop(command);
    match supervisor.report().counted {
        0 => Err("no seccomp notification here".into()),
        _ if status.success() => Ok(()),
        _ => Err("a supervised program fails here".into()),
    }
}

#[repr(C, align(8))]
struct Control([u8; 64]);

fn last<T>(result: T, bad: bool) -> io::Result<T> {
    if bad { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Between fork and exec: installs the filter and passes its listener to the supervisor.
fn confine_self(filter: &[libc::sock_filter], to: &OwnedFd) -> io::Result<()> {
    // SAFETY: no memory is involved.
    let done = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    last((), done != 0)?;
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    // SAFETY: the program and its rows live until the call returns; the kernel copies them.
    let listener =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) };
    last((), listener < 0)?;
    let fd = listener as i32;
    let mut control = Control([0; 64]);
    let mut byte = 0_u8;
    let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // SAFETY: all zeros is a valid msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    // SAFETY: plain arithmetic.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(4) } as _;
    // SAFETY: the control buffer is aligned and holds a header and four bytes.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(4) as _;
        libc::CMSG_DATA(header).cast::<i32>().write_unaligned(fd);
    }
    // SAFETY: the message and what it points to live on this stack.
    let sent = unsafe { libc::sendmsg(to.as_raw_fd(), &raw const message, 0) };
    last((), sent != 1)
}

fn receive_listener(from: &OwnedFd) -> Option<OwnedFd> {
    let mut control = Control([0; 64]);
    let mut byte = 0_u8;
    let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // SAFETY: all zeros is a valid msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len() as _;
    // SAFETY: the message and what it points to live on this stack.
    let got = unsafe { libc::recvmsg(from.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
    if got != 1 {
        return None;
    }
    // SAFETY: the kernel filled the control buffer, which FIRSTHDR checks against its length.
    let fd = unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        if header.is_null() {
            return None;
        }
        libc::CMSG_DATA(header).cast::<i32>().read_unaligned()
    };
    // SAFETY: the message carried it, so it is ours alone.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The request and the answer, with room for what a newer kernel adds to either.
#[repr(C)]
union Room<T: Copy> {
    known: T,
    room: [u64; 64],
}

fn supervise(plan: &Plan, from: &OwnedFd) -> Report {
    let mut report = Report::default();
    let Some(listener) = receive_listener(from) else {
        return report;
    };
    let mut armed = plan.arm.is_none();
    loop {
        let mut poll = libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid pollfd.
        unsafe { libc::poll(&raw mut poll, 1, 1000) };
        if poll.revents & libc::POLLHUP != 0 {
            return report; // The last task under the filter has ended.
        }
        if poll.revents & libc::POLLIN == 0 {
            continue;
        }
        let mut request = Room::<libc::seccomp_notif> { room: [0; 64] };
        // SAFETY: the kernel writes a seccomp_notif, and demands that it be zero before.
        let got = unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut request) };
        if got != 0 {
            continue; // The caller was killed meanwhile.
        }
        // SAFETY: filled by the kernel; all bit patterns are numbers.
        let request = unsafe { request.known };
        let (value, errno, go_on) = decide(plan, &request, &mut armed, &mut report);
        let mut answer = Room::<libc::seccomp_notif_resp> { room: [0; 64] };
        answer.known = libc::seccomp_notif_resp {
            id: request.id,
            val: value,
            error: -errno,
            flags: if go_on { libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32 } else { 0 },
        };
        // SAFETY: a valid answer; a failure means that the caller was killed.
        unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut answer) };
    }
}

/// The result to return, the errno, and whether the call is simply made.
fn decide(plan: &Plan, request: &libc::seccomp_notif, armed: &mut bool, report: &mut Report) -> (i64, i32, bool) {
    const GO_ON: (i64, i32, bool) = (0, 0, true);
    let call = Call::from(request.data.nr);
    let args = &request.data.args;
    let opens = OPEN.contains(&call);
    let file = || match opens {
        true if call == libc::SYS_openat => text_at(request.pid, args[1]),
        true => text_at(request.pid, args[0]),
        false => files_of(request.pid, call, args),
    };
    if !*armed {
        *armed = opens && plan.arm.as_ref().is_some_and(|part| file().contains(part.as_str()));
    }
    if !*armed || !plan.calls.contains(&call) {
        return GO_ON;
    }
    if plan.only.as_ref().is_some_and(|part| !file().contains(part.as_str())) {
        return GO_ON;
    }
    // Commands and flags are 32 bits wide; what the register holds above them is nobody's.
    if plan.argument.is_some_and(|(number, value)| args[number] as u32 != value as u32) {
        return GO_ON;
    }
    report.counted += 1;
    let answer = match plan.hit_at(report.counted) {
        Hit::Count => return GO_ON,
        // It knows no errors: what it is refused it answers with the end that the heap still has.
        Hit::Fail(_) if call == libc::SYS_brk => match heap_end(request.pid) {
            Some(end) => (end, 0, false),
            None => return GO_ON,
        },
        Hit::Fail(errno) => (0, errno, false),
        Hit::ShortTo(most) => match transfer(request, |_| most) {
            Some((value, errno)) => (value, errno, false),
            None => return GO_ON,
        },
        Hit::Halve => match transfer(request, |len| len / 2) {
            Some((value, errno)) => (value, errno, false),
            None => return GO_ON,
        },
        Hit::Signal(signal) => {
            // SAFETY: no memory is involved; the caller waits for us, so its number is its own.
            unsafe { libc::kill(process_of(request.pid), signal) };
            GO_ON
        }
    };
    let fd = if opens || MEMORY.contains(&call) { -1 } else { args[0] as i32 };
    report.faults.push(Fault { nth: report.counted, call, fd, file: file() });
    answer
}

fn process_of(task: u32) -> i32 {
    let status = std::fs::read_to_string(format!("/proc/{task}/status")).unwrap_or_default();
    let group = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    group.and_then(|n| n.trim().parse().ok()).unwrap_or(task as i32)
}

fn heap_end(task: u32) -> Option<i64> {
    let maps = std::fs::read_to_string(format!("/proc/{task}/maps")).ok()?;
    let range = maps.lines().find(|line| line.ends_with("[heap]"))?.split(' ').next()?;
    i64::from_str_radix(range.split_once('-')?.1, 16).ok()
}

fn files_of(task: u32, call: Call, args: &[u64; 6]) -> String {
    let name = |fd: u64| {
        std::fs::read_link(format!("/proc/{task}/fd/{}", fd as i32))
            .map(|path| path.to_string_lossy().into_owned())
            .unwrap_or_default()
    };
    match call {
        libc::SYS_copy_file_range | libc::SYS_splice => format!("{} {}", name(args[0]), name(args[2])),
        libc::SYS_sendfile => format!("{} {}", name(args[0]), name(args[1])),
        libc::SYS_mmap | libc::SYS_mremap | libc::SYS_brk | libc::SYS_madvise => String::new(),
        _ => name(args[0]),
    }
}

fn text_at(task: u32, address: u64) -> String {
    let mut bytes = Vec::new();
    // In pieces that end with a page, as the next page may not be there.
    while bytes.len() < 4096 && !bytes.contains(&0) {
        let at = address + bytes.len() as u64;
        let piece = peek(task, at, 4096 - (at % 4096) as usize);
        if piece.is_empty() {
            break;
        }
        bytes.extend(piece);
    }
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

fn peek(task: u32, at: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0_u8; len];
    let ours = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: len };
    let theirs = libc::iovec { iov_base: at as *mut libc::c_void, iov_len: len };
    // SAFETY: `ours` describes the vector; the other address is only used in the other process.
    let got = unsafe { libc::process_vm_readv(task as i32, &raw const ours, 1, &raw const theirs, 1, 0) };
    bytes.truncate(usize::try_from(got).unwrap_or(0));
    bytes
}

fn poke(task: u32, at: u64, bytes: &[u8]) {
    let ours = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let theirs = libc::iovec { iov_base: at as *mut libc::c_void, iov_len: bytes.len() };
    // SAFETY: `ours` is only read; the other address is the buffer that the caller gave to read into.
    unsafe { libc::process_vm_writev(task as i32, &raw const ours, 1, &raw const theirs, 1, 0) };
}

/// Makes the call in the caller's place with fewer bytes, on its own open file. None when that cannot be done, or would
/// change nothing: then the call is made as it is.
fn transfer(request: &libc::seccomp_notif, fewer: impl Fn(usize) -> usize) -> Option<(i64, i32)> {
    let call = Call::from(request.data.nr);
    let args = &request.data.args;
    let vectored = matches!(
        call,
        libc::SYS_readv
            | libc::SYS_writev
            | libc::SYS_preadv
            | libc::SYS_pwritev
            | libc::SYS_preadv2
            | libc::SYS_pwritev2
    );
    let (at, len) = if vectored {
        let first = peek(request.pid, args[1], 16);
        let word = |i: usize| first.get(i..i + 8).map(|w| u64::from_ne_bytes(w.try_into().expect("eight bytes")));
        (word(0)?, word(8)? as usize)
    } else {
        (args[1], args[2] as usize)
    };
    let fd = borrow_fd(request.pid, args[0] as i32)?;
    let raw = fd.as_raw_fd();
    let mut take = fewer(len).max(1);
    // SAFETY: the descriptor is ours.
    if unsafe { libc::fcntl(raw, libc::F_GETFL) } & libc::O_DIRECT != 0 {
        take &= !4095; // Direct transfers stay aligned, or the fault would be another one.
    }
    if take == 0 || take >= len {
        return None;
    }
    let writes = WRITE.contains(&call);
    let mut poll = libc::pollfd { fd: raw, events: if writes { libc::POLLOUT } else { libc::POLLIN }, revents: 0 };
    // SAFETY: one valid pollfd. A pipe that is not ready would block the supervisor in the caller's place.
    if unsafe { libc::poll(&raw mut poll, 1, 0) } != 1 {
        return None;
    }
    let position = match call {
        libc::SYS_pread64 | libc::SYS_pwrite64 | libc::SYS_preadv | libc::SYS_pwritev => Some(args[3] as i64),
        libc::SYS_preadv2 | libc::SYS_pwritev2 if args[3] != u64::MAX => Some(args[3] as i64),
        _ => None,
    };
    let mut room = vec![0_u8; take + 4096];
    let skip = room.as_ptr().align_offset(4096);
    let buffer = &mut room[skip..skip + take];
    if writes {
        let bytes = peek(request.pid, at, take);
        if bytes.len() != take {
            return None;
        }
        buffer.copy_from_slice(&bytes);
    }
    let start: *mut libc::c_void = buffer.as_mut_ptr().cast();
    // SAFETY: `take` bytes from `start` are `buffer`.
    let done = unsafe {
        match (writes, position) {
            (true, None) => libc::write(raw, start, take),
            (true, Some(position)) => libc::pwrite(raw, start, take, position),
            (false, None) => libc::read(raw, start, take),
            (false, Some(position)) => libc::pread(raw, start, take, position),
        }
    };
    if done < 0 {
        return Some((0, io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)));
    }
    if !writes {
        poke(request.pid, at, &buffer[..done as usize]);
    }
    Some((done as i64, 0))
}

/// The caller's own open file, not a new one: offsets are shared.
fn borrow_fd(task: u32, fd: i32) -> Option<OwnedFd> {
    // SAFETY: no memory is involved.
    let process = unsafe { libc::syscall(libc::SYS_pidfd_open, process_of(task), 0) };
    if process < 0 {
        return None;
    }
    // SAFETY: just opened, and owned by no one else.
    let process = unsafe { OwnedFd::from_raw_fd(process as i32) };
    // SAFETY: no memory is involved.
    let got = unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), fd, 0) };
    // SAFETY: just opened, and owned by no one else.
    (got >= 0).then(|| unsafe { OwnedFd::from_raw_fd(got as i32) })
}
