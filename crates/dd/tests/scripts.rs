//! Programs that call dd by that name, as Debian packages bring them: each runs with fdd as the only thing changed, and
//! must end, print and leave behind the same as with the installed GNU dd. Where a program needs a machine of its own
//! (a boot, a disk, a tape), its dd command line and what it reads from the answer stand here as a fact.
//! Every row also runs with a dd that does nothing, and must then come out otherwise: so it did depend on dd.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use support::{Dd, End, LIMIT, dd_under_test, gnu, shell};

/// All that a script leaves: how it ended, what it said, and the files it made.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Left {
    end: End,
    stdout: String,
    stderr: String,
    files: BTreeMap<String, Vec<u8>>,
}

impl Left {
    fn done(&self) -> &Left {
        assert_eq!(self.end, End::Exit(0), "{}", self.stderr);
        self
    }
}

/// Runs a script in a new directory, with `dd` leading to this one. Paths that differ from run to run become words, and
/// times and rates letters.
fn run(dd: &Dd, script: &str) -> Left {
    let dir = support::scratch();
    let (reader, writer) = support::pipe();
    let mut command = shell::<&str>(dd, &format!("export TMPDIR=\"$PWD\" HOME=\"$PWD\"\n{script}"), &[], dir.path());
    command.stdin(Stdio::null()).stdout(Stdio::from(writer));
    // Some start a dd for every few bytes.
    let out = support::finish(command, Some(reader), 4 * LIMIT);
    let named = |bytes: &[u8]| {
        let text = support::text::normalised(bytes);
        text.replace(&*dir.path().to_string_lossy(), "DIR").replace(&*dd.bin.to_string_lossy(), "BIN")
    };
    let mut files = BTreeMap::new();
    gather(dir.path(), "", &mut files);
    Left { end: out.end, stdout: named(&out.stdout), stderr: named(&out.stderr), files }
}

fn gather(dir: &Path, prefix: &str, files: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type().unwrap().is_dir() {
            gather(&entry.path(), &format!("{name}/"), files);
        } else {
            files.insert(name, fs::read(entry.path()).unwrap());
        }
    }
}

/// What the script leaves under the dd under test: the same as under GNU dd, and not the same as under one that does
/// nothing.
fn same_as_gnu(script: &str) -> Left {
    let left = depends_on_dd(script);
    let Some(gnu) = gnu() else {
        support::skip("no GNU dd to compare with");
        return left;
    };
    let right = run(gnu, script);
    let mut wrong = String::new();
    let mut compare = |what: &str, ours: &[u8], gnus: &[u8]| {
        if ours != gnus {
            let (ours, gnus) = (support::one_line(ours), support::one_line(gnus));
            wrong.push_str(&format!("  {what}\n    under test {ours}\n    GNU dd     {gnus}\n"));
        }
    };
    compare("end", format!("{:?}", left.end).as_bytes(), format!("{:?}", right.end).as_bytes());
    compare("standard output", left.stdout.as_bytes(), right.stdout.as_bytes());
    compare("standard error", left.stderr.as_bytes(), right.stderr.as_bytes());
    let names = |left: &Left| left.files.keys().map(String::as_str).collect::<Vec<_>>().join(" ");
    compare("names of files", names(&left).as_bytes(), names(&right).as_bytes());
    for (name, bytes) in &left.files {
        compare(name, bytes, right.files.get(name).map_or(b"(no such file)", Vec::as_slice));
    }
    assert!(wrong.is_empty(), "{script}\n{wrong}");
    left
}

/// As [`same_as_gnu`], where the answer is meant to name the program and so differs.
fn depends_on_dd(script: &str) -> Left {
    let left = run(dd_under_test(), script);
    let bin = support::scratch();
    let path = bin.path().join("dd");
    // Not `false`: that one answers --help and --version, and by the name of GNU.
    symlink("/usr/bin/test", &path).unwrap();
    let idle = Dd { bin: bin.path().to_owned(), path, gnu: None };
    assert!(left != run(&idle, script), "did not depend on dd:\n{script}");
    left
}

/// Whether all of these are there; if not, says which Debian package brings the first that is missing.
fn installed(wanted: &[(&str, &str)]) -> bool {
    let missing = wanted.iter().find(|(path, _)| !Path::new(path).exists());
    if let Some((path, package)) = missing {
        support::skip(&format!("{path} is missing (Debian package {package})"));
    }
    missing.is_none()
}

#[test]
fn unmkinitramfs_takes_an_initramfs_apart() {
    let wanted = [
        ("/usr/bin/unmkinitramfs", "initramfs-tools-core"),
        ("/usr/bin/lsinitramfs", "initramfs-tools-core"),
        ("/usr/bin/cpio", "cpio"),
    ];
    if !installed(&wanted) {
        return;
    }
    // Two archives before the compressed one: sought byte by byte (`bs=1 skip= count=`), cut out with iflag=skip_bytes.
    let left = same_as_gnu(
        "mkdir -p a/kernel b/lib c/etc && printf 12345 >a/kernel/code && seq 2000 >b/lib/n && echo conf >c/etc/conf
        for d in a b; do (cd $d && find . | LC_ALL=C sort | cpio -o -H newc --quiet); done >initrd
        (cd c && find . | LC_ALL=C sort | cpio -o -H newc --quiet) | gzip -n >>initrd
        unmkinitramfs initrd out && lsinitramfs initrd
        rm initrd",
    );
    assert_eq!(left.done().files["out/early/kernel/code"], b"12345");
    assert_eq!(left.files["out/early2/lib/n"], left.files["b/lib/n"]);
    assert_eq!(left.files["out/main/etc/conf"], b"conf\n");
    assert!(left.stdout.contains("kernel/code") && left.stdout.contains("etc/conf"), "{}", left.stdout);
}

#[test]
fn a_makeself_archive_checks_lists_and_extracts_itself() {
    if !installed(&[("/usr/bin/makeself", "makeself"), ("/usr/bin/bzip2", "bzip2")]) {
        return;
    }
    // Its header takes the offset of the data by `ibs=OFFSET skip=1`, whole blocks by `ibs=1024 obs=1024 count=`, the
    // rest by `ibs=1 count=`; with the percentage shown, several dd share one descriptor.
    for compression in ["--gzip", "--bzip2", "--nocomp"] {
        let left = same_as_gnu(&format!(
            "mkdir in && seq 30000 >in/n && printf '#!/bin/sh\\necho started \"$@\"\\n' >in/go && chmod +x in/go
            touch -d @1000000000 in/go in/n in # the same size of archive each time
            makeself {compression} --sha256 --nox11 in a.run label ./go one >made 2>&1 || cat made; rm made
            sh a.run --check && sh a.run --list | awk '{{ print $NF }}' | sort &&
            sh a.run --noprogress --nox11 --target out two &&
            sh a.run --nox11 --target again three && sh a.run --tar tf | sort; rm -f a.run"
        ));
        assert!(
            left.stdout.contains("started one two\n") && left.stdout.contains("started one three\n"),
            "{}",
            left.stdout
        );
        assert_eq!(left.files["out/n"], left.files["in/n"]);
        assert_eq!(left.files["again/n"], left.files["in/n"]);
    }
}

#[test]
fn configure_finds_a_working_dd_for_libtool() {
    if !installed(&[("/usr/bin/autoconf", "autoconf"), ("/usr/share/aclocal/libtool.m4", "libtool")]) {
        return;
    }
    let left = same_as_gnu(
        "cat >configure.ac <<'END'
AC_INIT([t], [1])
m4_include([/usr/share/aclocal/ltsugar.m4])
m4_include([/usr/share/aclocal/libtool.m4])
AC_PROG_SED
_LT_CMD_TRUNCATE
echo \"truncate binary pipes with $lt_cv_truncate_bin\"
AC_OUTPUT
END
        autoconf && ./configure; rm -rf autom4te.cache config* conftest*",
    );
    assert!(left.done().stdout.contains("checking for a working dd... BIN/dd\n"), "{}", left.stdout);
    assert!(left.stdout.contains("truncate binary pipes with BIN/dd bs=4096 count=1\n"), "{}", left.stdout);
}

#[test]
fn help2man_makes_a_page_of_help_and_version() {
    if !installed(&[("/usr/bin/help2man", "help2man")]) {
        return;
    }
    let left = depends_on_dd("help2man --no-info dd >page && grep -cE '^(if|of|bs|conv|status)=' page");
    assert_eq!((left.done().stderr.as_str(), left.stdout.as_str()), ("", "5\n"));
    let page = String::from_utf8_lossy(&left.files["page"]);
    for part in [".SH SYNOPSIS", ".SH NAME\ndd \\- ", "\\fB\\-\\-help\\fR", "\\fB\\-\\-version\\fR", "\n.B dd\n"] {
        assert!(page.contains(part), "no {part}:\n{page}");
    }
}

#[test]
fn bash_completion_reads_the_options_from_help() {
    let wanted = [
        ("/usr/share/bash-completion/bash_completion", "bash-completion"),
        ("/usr/share/bash-completion/completions/dd", "bash-completion"),
        ("/bin/bash", "bash"),
    ];
    if !installed(&wanted) {
        return;
    }
    let left = same_as_gnu(
        "exec bash -c '. /usr/share/bash-completion/bash_completion; . /usr/share/bash-completion/completions/dd
        COMP_WORDS=(dd --) COMP_CWORD=1 COMP_LINE=\"dd --\" COMP_POINT=5; _dd dd -- dd; printf \"%s\\n\" ${COMPREPLY[@]}'",
    );
    assert_eq!(left.done().stdout, "--help\n--version\n");
}

// From here on the programs themselves are not run: each row has their dd command lines, on files in place of disks, and
// what they look for in the answer.

#[test]
fn zsh_completion_takes_it_for_gnu_dd() {
    // zsh's _dd: `_pick_variant gnu=GNU $OSTYPE --version`, which looks for *GNU* in both streams.
    let left = same_as_gnu("case `dd --version </dev/null 2>&1` in *GNU*) echo gnu;; *) echo other;; esac");
    assert_eq!(left.done().stdout, "gnu\n");
}

#[test]
fn a_version_is_found_where_rear_looks_for_it() {
    // rear's get_version, whose answer decides about oflag=sync: the first number with a point at a line's beginning.
    let left = depends_on_dd(
        "TERM=dumb dd --version 2>&1 | sed -rn 's/^[^0-9\\.]*([0-9]+\\.[-0-9a-z\\.]+).*$/\\1/p' | head -1",
    );
    let expected = match dd_under_test().gnu {
        Some((major, minor)) => format!("{major}.{minor}\n"),
        None => concat!(env!("CARGO_PKG_VERSION"), "\n").to_owned(),
    };
    assert_eq!(left.done().stdout, expected);
    // It then runs one of these.
    for flag in ["oflag=sync", ""] {
        let left = same_as_gnu(&format!(
            "seq 500 >mbr.bin; seq 9999 >disk; dd if=mbr.bin of=disk bs=440 count=1 {flag} conv=notrunc"
        ));
        assert_eq!(left.done().files["disk"][..440], left.files["mbr.bin"][..440]);
    }
}

#[test]
fn rear_wipes_the_beginning_and_the_end_of_a_disk() {
    // Counts and positions in bytes with blocks of 1M: iflag=count_bytes, oflag=seek_bytes.
    let left = same_as_gnu(
        "seq 600000 >disk; size=$(stat -c %s disk); n=1500001
        if ! dd bs=1M if=/dev/zero of=disk count=$n conv=notrunc,fsync iflag=count_bytes; then echo failed; fi
        dd bs=1M if=/dev/zero of=disk count=$n seek=$((size - n)) conv=notrunc,fsync iflag=count_bytes oflag=seek_bytes",
    );
    let disk = &left.done().files["disk"];
    let is_wiped = |part: &[u8]| part.iter().all(|byte| *byte == 0);
    assert_eq!(disk.len(), 4_088_895);
    assert!(is_wiped(&disk[..1_500_001]) && is_wiped(&disk[4_088_895 - 1_500_001..]));
    assert!(!disk[1_500_001..4_088_895 - 1_500_001].contains(&0));
}

#[test]
fn rear_labels_a_tape_through_a_pipe() {
    // The OBDR header: a label padded to 20 blocks; then one block read back without operands but if= and count=.
    let left = same_as_gnu(
        "printf 'REAR-000%10232s' ' ' | tr ' ' '\\0' | dd of=tape bs=512 count=20
        label=$(dd if=tape count=1 | tr -d '\\0'); echo \"$label\"",
    );
    assert_eq!(left.done().stdout, "REAR-000\n");
    assert_eq!(left.files["tape"].len(), 10240);
}

#[test]
fn bootcd_knows_each_line_of_the_summary() {
    // Lines of standard error that none of its expressions match count as errors.
    let left = same_as_gnu(
        "truncate -s 10M disk
        dd if=/dev/zero of=disk bs=1k count=1 conv=notrunc 2>said; dd if=/dev/zero of=efi.img bs=1M count=10 2>>said
        grep -vE '^[[:digit:]]+\\+[[:digit:]]+ records in$|^[[:digit:]]+\\+[[:digit:]]+ records out$' said >rest
        echo unknown: $(grep -cvE '^[[:digit:]]+ bytes\\>.*\\<copied\\>' rest)
        strict='^[0-9]+ bytes \\(.*\\) copied, [0-9.e-]+ s, [0-9.]+ (k|G|M)B/s$'
        echo unknown: $(grep -cvE \"$strict\" rest); rm said rest",
    );
    assert_eq!(left.done().stdout, "unknown: 0\nunknown: 0\n");
}

#[test]
fn hw_probe_and_clonezilla_find_size_and_rate_in_the_last_line() {
    // hw-probe: /copied,.+, (.+?)\Z/ over standard error; clonezilla: what stands in parentheses, and the third field
    // between commas, of the last of the lines that passed through tee.
    let left = same_as_gnu(
        "dd if=/dev/zero bs=1M count=16 2>perf | md5sum
        perl -0777 -ne 'print((/copied,.+, (.+?)\\Z/ && $1 =~ m{^[\\d.]+ [kMG]B/s$}) ? \"rate\\n\" : $_)' perf
        LC_ALL=C dd bs=1M if=/dev/zero of=part count=3 2>&1 | tee info >/dev/null
        tail -n 1 info | grep -oE '\\(.*\\)' | sed -e 's/[()]//g'
        tail -n 1 info | awk -F, '{print $3}' | grep -c B/s; tail -n 1 info | awk -F, '{print $4}' | grep -cE '^ [0-9.]+ .B/s$'
        rm perf info",
    );
    assert!(left.stdout.ends_with("  -\nrate\n3.1 MB, 3.0 MiB\n0\n1\n"), "{}", left.stdout);
}

#[test]
fn clonezilla_finds_the_process_by_the_name_dd() {
    // `pkill -SIGUSR1 dd` goes by the name that the kernel keeps.
    assert_eq!(same_as_gnu("dd if=/proc/self/comm 2>/dev/null").done().stdout, "dd\n");
}

#[test]
fn a_master_boot_record_is_saved_and_its_parts_restored() {
    // clonezilla and grml-debootstrap: save, patch four bytes, restore the code, the table, all behind the first sector.
    let left = same_as_gnu(
        "seq 20000 >disk; cp disk other; tr 0-9 a-j <disk >image
        dd if=disk of=mbr bs=512 count=1; printf AAAA | dd of=mbr conv=notrunc seek=440 bs=1
        dd if=mbr of=disk conv=notrunc
        dd if=mbr of=other conv=notrunc bs=446 count=1; dd if=image of=other skip=446 seek=446 bs=1 count=66 conv=notrunc
        dd if=disk of=gap skip=1 bs=512 count=62; dd if=image of=core conv=notrunc seek=1
        cat image | dd bs=512 skip=100 2>/dev/null | dd skip=1 bs=512 2>/dev/null >tail
        if dd if=mbr bs=512 count=1 2>/dev/null | cat -v | grep -Fq AAAA; then echo marked; fi",
    );
    assert_eq!(left.done().stdout, "marked\n");
    assert_eq!(&left.files["disk"][440..444], b"AAAA");
    assert_eq!(left.files["other"][446..512], left.files["image"][446..512]);
    assert_eq!(left.files["tail"], left.files["image"][101 * 512..]);
}

#[test]
fn growpart_restores_sectors_at_byte_offsets() {
    // Files named by their offset in hexadecimal, put back with bs=1 and quoted operands.
    let left = same_as_gnu(
        "seq 9999 >'my disk'; printf sector >'s-my disk-0x000001be.bak'; f='s-my disk-0x000001be.bak'
        offset=${f##*-}; offset=${offset%.bak}
        dd \"if=$f\" \"of=my disk\" seek=$(($offset)) bs=1 conv=notrunc || echo failed",
    );
    assert_eq!(&left.done().files["my disk"][446..452], b"sector");
}

#[test]
fn dracut_and_update_smart_drivedb_tell_files_by_their_first_bytes() {
    if !installed(&[("/usr/bin/bzip2", "bzip2")]) {
        return;
    }
    // dracut's det_archive, with a file and with standard input; update-smart-drivedb's check_file.
    let left = same_as_gnu(
        "kind() { h=\"$(dd ${1:+if=$1} bs=262 count=1 2>/dev/null | tr -d '\\0')\"
            case \"$h\" in BZh*) echo bzip2;; 07070*) echo cpio;; *ustar) echo tar;; *) echo none;; esac; }
        seq 100 >f; tar cf t f; bzip2 -k f; printf 070701 >c; kind t; kind f.bz2; kind <c; kind f; rm t
        echo '<html>' >h; case `dd if=h bs=1 count=1 2>/dev/null` in \\<) echo html;; esac",
    );
    assert_eq!(left.done().stdout, "tar\nbzip2\ncpio\nnone\nhtml\n");
}

#[test]
fn live_boot_and_ltsp_find_the_mark_of_swap_space() {
    // The mark stands at 4086: by a block of that size and a second dd, or by single bytes.
    let left = same_as_gnu(
        "truncate -s 64k swap; printf SWAPSPACE2 | dd of=swap bs=1 seek=4086 conv=notrunc 2>/dev/null
        echo $(dd if=swap bs=4086 skip=1 count=1 2>/dev/null | dd bs=10 count=1 2>/dev/null)
        echo $(dd if=swap bs=1 skip=4086 count=10 2>/dev/null)",
    );
    assert_eq!(left.done().stdout, "SWAPSPACE2\nSWAPSPACE2\n");
}

#[test]
fn images_get_their_size_without_their_blocks() {
    // live-build and xen-tools (`count=0 seek=`), dracut (`if=/dev/null count=1 seek=`, `bs=1b`).
    let left = same_as_gnu(
        "dd if=/dev/zero of=a bs=1024k count=0 seek=3; dd if=/dev/null of=b bs=1024 count=1 seek=2048 2>/dev/null
        dd if=/dev/null of=c bs=1b count=1 seek=100; dd if=/dev/zero of=d bs=4096k count=0 seek=1
        stat -c '%n %s %b' a b c d",
    );
    assert_eq!(left.done().stdout, "a 3145728 0\nb 2097152 0\nc 51200 0\nd 4194304 0\n");
}

#[test]
fn seeds_and_names_are_drawn_from_random_devices() {
    // initscripts' urandom, overlayroot's hook, lxc's hardware address, tomb's secret: sizes, for the bytes are random.
    let left = same_as_gnu(
        "dd if=/dev/urandom of=seed bs=512 count=1 >/dev/null 2>&1; stat -c %s seed
        dd if=/dev/urandom of=stash bs=1 count=4096 iflag=nonblock >/dev/null 2>&1 || true; stat -c %s stash
        mac=\"00:16:3e:$(dd if=/dev/urandom bs=8 count=1 2>/dev/null | od -t x8 | head -n 1 |
            awk '{print $2}' | cut -c1-6 | sed 's/\\(..\\)/\\1:/g; s/.$//')\"; echo ${#mac}
        dd bs=1 count=512 if=/dev/urandom 2>/dev/null | wc -c; rm seed stash",
    );
    assert_eq!(left.done().stdout, "512\n4096\n17\n512\n");
}

#[test]
fn the_kernels_wrapper_copies_inside_one_file() {
    // arch/powerpc/boot/wrapper for the PS3: an overlay is moved within the image, and all that dd says is kept.
    let left = same_as_gnu(
        "seq 9999 >image
        if msg=$(dd if=image of=image conv=notrunc skip=512 seek=256 count=256 bs=1 2>&1); then echo \"$msg\"; fi
        dd if=image of=image.bin bs=1 count=256 skip=100 seek=1000 conv=notrunc 2>/dev/null",
    );
    assert_eq!(left.done().stdout, "256+0 records in\n256+0 records out\n256 bytes copied, T s, R\n");
    assert_eq!(left.files["image"][256..512], left.files["image"][512..768]);
}

#[test]
fn debian_cd_appends_a_boot_block() {
    let left = same_as_gnu(
        "seq 5000 >from; dd if=/dev/zero of=cdboot.img bs=512 count=1
        dd if=from of=cdboot.img bs=512 count=1 oflag=append conv=notrunc",
    );
    assert_eq!(left.done().files["cdboot.img"].len(), 1024);
    assert_eq!(left.files["cdboot.img"][512..], left.files["from"][..512]);
}

#[test]
fn xzmore_reads_one_key_from_a_terminal() {
    let script = "stty -icanon -echo min 1 && printf ready && ANS=`dd bs=1 count=1 2>/dev/null` && echo \" $ANS\"";
    for dd in [Some(dd_under_test()), gnu()].into_iter().flatten() {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let terminal = File::open(name.to_str().unwrap()).unwrap();
        let dir = support::scratch();
        let (reader, writer) = support::pipe();
        let mut command = shell::<&str>(dd, script, &[], dir.path());
        command.stdin(Stdio::from(terminal)).stdout(Stdio::from(writer));
        let child = command.spawn().unwrap();
        drop(command);
        let mut ready = [0; 5];
        assert!(support::readable(&reader, LIMIT));
        rustix::io::read(&reader, &mut ready).unwrap();
        assert_eq!(&ready, b"ready");
        // No line end: a read of one byte must not wait for it, and the second key is not dd's.
        rustix::io::write(&master, b"qx").unwrap();
        let out = support::collect(child, Some(reader), None, LIMIT);
        assert_eq!((out.end, out.stdout.as_slice()), (End::Exit(0), b" q\n".as_slice()));
    }
}
