//! Each call that a way of copying does better with and must do without: refused at once, and from the nth on.
//!
//! Every way is forced over enough bytes to make its calls, and must have moved some of them where nothing is refused, so
//! that none of this holds because the way was not taken.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::fault_run::{Job, Ran, assert_bytes, dd, make_cold, needs_sysfault, operand, pattern, read_all};
use crate::or_skip;
use crate::sysfault::{Hit, OPEN, Plan, RING, SYS_CACHESTAT, THREAD};

/// A feature of the kernel: the call, and what tells it from other uses of the call.
#[derive(Clone, Copy, Debug)]
struct Feature {
    name: &'static str,
    calls: &'static [i64],
    /// The argument of that number has that value.
    argument: Option<(usize, u64)>,
    /// Only for files whose path holds this.
    file: Option<&'static str>,
}

const fn call(name: &'static str, calls: &'static [i64]) -> Feature {
    Feature { name, calls, argument: None, file: None }
}

const fn with(name: &'static str, calls: &'static [i64], number: usize, value: u64) -> Feature {
    Feature { name, calls, argument: Some((number, value)), file: None }
}

const RING_SETUP: Feature = call("io_uring_setup", &[libc::SYS_io_uring_setup]);
const RING_ENTER: Feature = call("io_uring_enter", &[libc::SYS_io_uring_enter]);
const RING_REGISTER: Feature = call("io_uring_register", &[libc::SYS_io_uring_register]);
const THREADS: Feature = call("clone", THREAD);
const CACHESTAT: Feature = call("cachestat", &[SYS_CACHESTAT]);
const MINCORE: Feature = call("mincore", &[libc::SYS_mincore]);
const VMSPLICE: Feature = call("vmsplice", &[libc::SYS_vmsplice]);
const WRITE_BACK: Feature = call("sync_file_range", &[libc::SYS_sync_file_range]);
const ADVICE: Feature = call("fadvise64", &[libc::SYS_fadvise64]);
const HUGE_PAGES: Feature = call("madvise", &[libc::SYS_madvise]);
const STATX: Feature = call("statx", &[libc::SYS_statx]);
const FILE_SYSTEM: Feature = call("fstatfs", &[libc::SYS_fstatfs]);
const ALLOCATE: Feature = with("fallocate KEEP_SIZE", &[libc::SYS_fallocate], 1, 1);
const PUNCH: Feature = with("fallocate PUNCH_HOLE", &[libc::SYS_fallocate], 1, 3);
const NOWAIT: Feature = call("preadv2 NOWAIT", &[libc::SYS_preadv2]);
/// RWF_DONTCACHE alone among the flags.
const UNCACHED: Feature = with("pwritev2 DONTCACHE", &[libc::SYS_pwritev2], 5, 0x80);
const SEEK_DATA: Feature = with("SEEK_DATA", &[libc::SYS_lseek], 2, libc::SEEK_DATA as u64);
const CLONE_RANGE: Feature = with("FICLONERANGE", &[libc::SYS_ioctl], 1, 0x4020_940d);
const HOLDS: Feature = with("FIONREAD", &[libc::SYS_ioctl], 1, 0x541b);
const WIDER_PIPE: Feature = with("F_SETPIPE_SZ", &[libc::SYS_fcntl], 1, 1031);
const DUPLICATE: Feature = with("F_DUPFD_CLOEXEC", &[libc::SYS_fcntl], 1, 1030);
const DIRECT: Feature = Feature { name: "open O_DIRECT", calls: OPEN, argument: None, file: Some("/proc/self/fd") };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    File,
    /// A file of which every other 256 KiB are a hole; as an output, one with old bytes in it.
    Holey,
    Pipe,
    Zero,
}

/// A copy by one way.
struct Shape {
    strategy: &'static str,
    from: End,
    to: End,
    operands: &'static [&'static str],
    /// Bytes copied.
    len: usize,
    /// Refused throughout, so that what stands in for it is met.
    without: &'static [i64],
    features: &'static [Feature],
}

const MIB: usize = 1 << 20;

const fn shape(
    strategy: &'static str,
    ends: (End, End),
    operands: &'static [&'static str],
    len: usize,
    features: &'static [Feature],
) -> Shape {
    Shape { strategy, from: ends.0, to: ends.1, operands, len, without: &[], features }
}

const FILES: (End, End) = (End::File, End::File);
const IN_RING: &[Feature] = &[
    RING_SETUP,
    RING_ENTER,
    RING_REGISTER,
    THREADS,
    CACHESTAT,
    HUGE_PAGES,
    STATX,
    FILE_SYSTEM,
    ALLOCATE,
    DUPLICATE,
    DIRECT,
];
const BY_READER: &[Feature] = &[THREADS, CACHESTAT, HUGE_PAGES, STATX, FILE_SYSTEM, ALLOCATE, DUPLICATE, DIRECT];

const SHAPES: &[Shape] = &[
    shape("uring", FILES, &["bs=64K", "conv=fsync"], 13 * MIB + 99, IN_RING),
    shape("uring", (End::File, End::Pipe), &["bs=64K"], 13 * MIB + 99, IN_RING),
    shape("overlap", FILES, &["bs=64K", "conv=fsync"], 13 * MIB + 99, BY_READER),
    shape("overlap", (End::File, End::Pipe), &["bs=64K"], 13 * MIB + 99, BY_READER),
    shape("zeros", (End::Zero, End::Pipe), &["bs=64K", "count=130"], 130 << 16, &[VMSPLICE, WIDER_PIPE]),
    shape(
        "zeros",
        (End::Zero, End::Pipe),
        &["ibs=7000", "obs=100000", "count=2007"],
        7000 * 2007,
        &[VMSPLICE, WIDER_PIPE],
    ),
    shape("stream", (End::Pipe, End::File), &["bs=1000"], 3 * MIB, &[HOLDS, WIDER_PIPE, FILE_SYSTEM]),
    shape("stream", (End::Pipe, End::Pipe), &["bs=5000"], 3 * MIB, &[HOLDS, WIDER_PIPE]),
    shape("coalesce", (End::Holey, End::File), &["bs=4K", "conv=sparse"], 4 * MIB, &[SEEK_DATA, FILE_SYSTEM]),
    shape("coalesce", (End::Holey, End::Holey), &["bs=4K", "conv=punch,notrunc"], 4 * MIB, &[PUNCH, SEEK_DATA]),
    shape("coalesce", FILES, &["bs=4K", "iflag=nocache", "oflag=nocache"], 25 * MIB, &[WRITE_BACK, ADVICE]),
    shape("coalesce", FILES, &["bs=4K", "iflag=neutral", "oflag=neutral"], 25 * MIB, &[CACHESTAT, WRITE_BACK, ADVICE]),
    Shape {
        without: &[SYS_CACHESTAT],
        ..shape("coalesce", FILES, &["bs=4K", "iflag=neutral", "oflag=neutral"], 25 * MIB, &[MINCORE, WRITE_BACK])
    },
    Shape {
        without: &[SYS_CACHESTAT, libc::SYS_mincore],
        ..shape("coalesce", FILES, &["bs=4K", "iflag=neutral"], 9 * MIB, &[NOWAIT, ADVICE])
    },
    Shape { without: RING, ..shape("overlap", FILES, &["bs=1M", "oflag=direct"], 13 * MIB, BY_READER) },
    shape("coalesce", FILES, &["bs=1000", "conv=fdatasync"], 40 * MIB, &[UNCACHED, FILE_SYSTEM]),
    shape("buffer", FILES, &["bs=300K", "buffer=1M", "oflag=nocache"], 5 * MIB + 99, &[UNCACHED, ADVICE]),
    shape("pump", FILES, &["bs=1M", "oflag=nocache"], 9 * MIB + 99, &[UNCACHED, ADVICE, FILE_SYSTEM]),
    shape("buffer", FILES, &["bs=64K", "buffer=1M"], 5 * MIB + 99, &[THREADS, HUGE_PAGES]),
    shape("reflink", FILES, &["bs=64K", "reflink=auto"], MIB, &[CLONE_RANGE]),
    shape("pump", FILES, &["bs=64K", "iflag=nocache", "oflag=nocache"], 3 * MIB, &[ADVICE]),
];

/// What older kernels and sandboxes answer.
const REFUSALS: &[i32] = &[libc::ENOSYS, libc::EPERM, libc::EINVAL, libc::EOPNOTSUPP];

struct Bench {
    dir: tempfile::TempDir,
    data: Vec<u8>,
}

/// Beside the build, where a file system with direct requests is likelier than in a temporary directory.
fn bench(shape: &Shape) -> Bench {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let mut data = pattern(shape.len);
    match shape.from {
        End::Zero => data.fill(0),
        End::Holey => data.chunks_mut(512 << 10).for_each(|pair| pair[..256 << 10].fill(0)),
        End::File | End::Pipe => {}
    }
    let bench = Bench { dir, data };
    match shape.from {
        End::Holey => holey(&bench.input(), &bench.data),
        End::File => fs::write(bench.input(), &bench.data).expect("written"),
        End::Pipe | End::Zero => {}
    }
    bench
}

/// Writes all but the zeros.
fn holey(path: &Path, data: &[u8]) {
    use std::os::unix::fs::FileExt as _;
    let file = File::create(path).expect("made");
    file.set_len(data.len() as u64).expect("extended");
    for (number, piece) in data.chunks(256 << 10).enumerate().filter(|(_, piece)| piece[0] != 0) {
        file.write_all_at(piece, (number as u64) << 18).expect("written");
    }
}

impl Bench {
    fn input(&self) -> PathBuf {
        self.dir.path().join("input")
    }

    fn output(&self) -> PathBuf {
        self.dir.path().join("output")
    }

    fn job(&self, shape: &Shape) -> Job {
        let mut operands: Vec<String> = shape.operands.iter().map(|&o| o.to_owned()).collect();
        match shape.from {
            End::File | End::Holey => operands.push(operand("if", self.input())),
            End::Zero => operands.push("if=/dev/zero".into()),
            End::Pipe => {}
        }
        match shape.to {
            End::File | End::Holey => operands.push(operand("of", self.output())),
            End::Pipe | End::Zero => {}
        }
        dd(&operands).forced(shape.strategy)
    }

    /// Counted from the moment that the first end is opened; where both are handed over, from the start.
    fn armed(&self, shape: &Shape, plan: Plan) -> Plan {
        match (shape.from, shape.to) {
            (End::File | End::Holey, _) => plan.armed_by(&self.input().display().to_string()),
            (End::Zero, _) => plan.armed_by("/dev/zero"),
            (_, End::File | End::Holey) => plan.armed_by(&self.output().display().to_string()),
            _ => plan,
        }
    }

    /// The run, and the bytes that came out.
    fn run(&self, shape: &Shape, plan: Plan) -> (Ran, Vec<u8>) {
        if shape.from == End::File {
            make_cold(&self.input());
        }
        match shape.to {
            End::Holey => fs::write(self.output(), vec![b'#'; shape.len]).expect("written"),
            _ => drop(fs::remove_file(self.output())),
        }
        let job = self.job(shape).faults(self.armed(shape, plan));
        let ran = if shape.from == End::Pipe {
            let (reader, mut writer) = std::io::pipe().expect("a pipe");
            let feed = self.data.clone();
            let feeder = std::thread::spawn(move || writer.write_all(&feed));
            let ran = job.stdin(reader).run();
            // Its error is that of a copy that gave up, which the caller finds.
            drop(feeder.join().expect("no panic"));
            ran
        } else {
            job.run()
        };
        match shape.to {
            End::Pipe | End::Zero => {
                let out = ran.out.clone();
                (ran, out)
            }
            End::File | End::Holey => (ran, read_all(&self.output())),
        }
    }
}

fn plan(shape: &Shape, feature: Feature, hit: Hit) -> Plan {
    let mut plan = Plan::on(&[feature.calls], hit).and_refuse(shape.without, libc::ENOSYS);
    if let Some((number, value)) = feature.argument {
        plan = plan.whose_argument(number, value);
    }
    match feature.file {
        Some(part) => plan.only(part),
        None => plan,
    }
}

/// From which calls on a feature that is used `times` times is refused.
fn points(times: u64) -> Vec<u64> {
    let mut points: Vec<u64> = [2, 3, 7, times / 2, times].into_iter().filter(|n| (2..=times).contains(n)).collect();
    points.sort_unstable();
    points.dedup();
    points
}

#[test]
fn a_refused_feature_of_any_way_costs_speed_alone() {
    or_skip!(needs_sysfault());
    let mut met = Vec::new();
    for shape in SHAPES {
        let bench = bench(shape);
        for &feature in shape.features {
            let what = |ran: &Ran| format!("{} without {}: {}", shape.strategy, feature.name, ran.show());
            let (ran, out) = bench.run(shape, plan(shape, feature, Hit::Count));
            let ran = ran.succeeds();
            assert_bytes(&out, &bench.data, &what(&ran));
            // Whether blocks can be shared is the file system's to say.
            assert!(ran.moved_by(shape.strategy) > 0 || shape.strategy == "reflink", "not moved: {}", what(&ran));
            let times = ran.report.counted;
            // How a pipe's bytes fall into records hangs on who runs when.
            let records = |ran: &Ran| (shape.from != End::Pipe).then(|| ran.records().join("; "));
            let wanted = records(&ran);
            if times == 0 {
                continue;
            }
            met.push(feature.name);
            let at_once = REFUSALS.iter().map(|&errno| (1, errno));
            let later = points(times).into_iter().zip(REFUSALS.iter().copied().cycle());
            for (n, errno) in at_once.chain(later) {
                let (ran, out) = bench.run(shape, plan(shape, feature, Hit::Fail(errno)).onwards_from(n));
                let ran = ran.succeeds();
                // How often a pipe is asked what it holds hangs on who runs when.
                assert!(n > 3 || !ran.report.faults.is_empty(), "nothing was refused: {}", what(&ran));
                assert_bytes(&out, &bench.data, &what(&ran));
                assert_eq!((ran.copied(), records(&ran)), (Some(shape.len as u64), wanted.clone()), "{}", what(&ran));
            }
        }
    }
    // Which of these are met depends on the file system; the others on nothing but dd.
    let lucky = [ALLOCATE, PUNCH, DIRECT, DUPLICATE, HUGE_PAGES, CACHESTAT, UNCACHED].map(|feature| feature.name);
    let wanted = SHAPES.iter().flat_map(|shape| shape.features).map(|feature| feature.name);
    let unmet: Vec<_> = wanted.filter(|name| !met.contains(name) && !lucky.contains(name)).collect();
    assert!(unmet.is_empty(), "never called, so never refused: {unmet:?}");
    eprintln!("refused: {met:?}");
}
