//! The summary: its levels, its plurals, its sizes by both ways of rounding; --help and --version.

use crate::support::row::In;
use crate::support::{command, dd_under_test, scratch};

/// Sizes as the third line shows them: the length of a copy from /dev/zero to /dev/null.
macro_rules! size_rows {
    ($($name:ident { $bytes:literal => $shown:literal })*) => { crate::rows! { $(
        $name { shell: concat!("dd if=/dev/zero of=/dev/null bs=64k count=", $bytes, "B 2>&1 | tail -n 1 | sed 's/ copied.*//'"), output: concat!($shown, "\n").as_bytes() }
    )* } };
}

size_rows! {
    below_1000_no_size_is_added { "999" => "999 bytes" }
    from_1000_the_decimal_size_is_added { "1000" => "1000 bytes (1.0 kB)" }
    at_1023_the_binary_size_is_not_added_yet { "1023" => "1023 bytes (1.0 kB)" }
    from_1024_both_sizes_are_added { "1024" => "1024 bytes (1.0 kB, 1.0 KiB)" }
    a_tie_goes_to_the_even_digit_below { "1050" => "1050 bytes (1.0 kB, 1.0 KiB)" }
    just_above_a_tie_goes_up { "1051" => "1051 bytes (1.1 kB, 1.0 KiB)" }
    a_tie_goes_to_the_even_digit_above { "1150" => "1150 bytes (1.2 kB, 1.1 KiB)" }
    below_ten_there_is_one_decimal { "9949" => "9949 bytes (9.9 kB, 9.7 KiB)" }
    a_tie_at_9950_goes_to_ten { "9950" => "9950 bytes (10 kB, 9.7 KiB)" }
    from_ten_there_is_none { "10499" => "10499 bytes (10 kB, 10 KiB)" }
    a_tie_at_10500_goes_to_the_even_ten { "10500" => "10500 bytes (10 kB, 10 KiB)" }
    a_tie_at_11500_goes_to_the_even_twelve { "11500" => "11500 bytes (12 kB, 11 KiB)" }
    almost_100_thousand { "99999" => "99999 bytes (100 kB, 98 KiB)" }
    below_the_carry { "999499" => "999499 bytes (999 kB, 976 KiB)" }
    a_carry_goes_to_the_next_unit { "999500" => "999500 bytes (1.0 MB, 976 KiB)" }
    a_binary_size_of_1000 { "1023999" => "1023999 bytes (1.0 MB, 1000 KiB)" }
    a_binary_carry { "1048575" => "1048575 bytes (1.0 MB, 1.0 MiB)" }
    ten_mebi { "10485760" => "10485760 bytes (10 MB, 10 MiB)" }
    the_raw_count_has_no_groups { "123456789" => "123456789 bytes (123 MB, 118 MiB)" }
}

crate::rows! {
    no_byte_is_plural { stdin: In::Pipe(b""), stderr: "{0+0 0+0 0}" }
    one_byte_is_singular { stdin: In::Pipe(b"a"), output: b"a", stderr: "0+1 records in\n0+1 records out\n1 byte copied, T s, R\n" }
    records_are_always_plural { args: "bs=1", stdin: In::Pipe(b"a"), output: b"a", stderr: "1+0 records in\n1+0 records out\n1 byte copied, T s, R\n" }
    status_none_says_nothing { args: "status=none", stdin: In::Pipe(b"a"), output: b"a" }
    status_noxfer_omits_the_third_line { args: "status=noxfer", stdin: In::Pipe(b"a"), output: b"a", stderr: "0+1 records in\n0+1 records out\n" }
    status_progress_of_a_short_copy_is_the_summary { args: "status=progress", stdin: In::Pipe(b"a"), output: b"a", stderr: "{0+1 0+1 1}" }
    an_unknown_status { args: "status=verbose", stderr: "dd: invalid status level: 'verbose'\nTry 'dd --help' for more information.\n", end: crate::support::End::Exit(1) }
    status_none_does_not_silence_errors { args: "status=none if=missing", stderr: "dd: failed to open 'missing': No such file or directory\n", end: crate::support::End::Exit(1) }
}

/// What `--help` must name: whatever an operand can say.
const WORDS: [&str; 57] = [
    "bs=",
    "cbs=",
    "conv=",
    "count=",
    "ibs=",
    "if=",
    "iflag=",
    "obs=",
    "of=",
    "oflag=",
    "seek=",
    "skip=",
    "status=",
    "iseek=",
    "oseek=",
    "none",
    "noxfer",
    "progress",
    "ascii",
    "ebcdic",
    "ibm",
    "block",
    "unblock",
    "lcase",
    "ucase",
    "sparse",
    "swab",
    "sync",
    "excl",
    "nocreat",
    "notrunc",
    "noerror",
    "fdatasync",
    "fsync",
    "append",
    "direct",
    "directory",
    "dsync",
    "fullblock",
    "nonblock",
    "noatime",
    "nocache",
    "noctty",
    "nofollow",
    "count_bytes",
    "skip_bytes",
    "seek_bytes",
    "--help",
    "--version",
    "USR1",
    "kB",
    "MiB",
    "=1024",
    "=512",
    "w",
    "N",
    "Usage:",
];

#[test]
fn help_names_every_word_and_goes_to_standard_output() {
    let dd = dd_under_test();
    let dir = scratch();
    for option in ["--help", "--he", "--h"] {
        let out = command(dd, &[option], dir.path()).output().unwrap();
        assert!(out.status.success() && out.stderr.is_empty(), "{option}: {out:?}");
        let text = String::from_utf8(out.stdout).unwrap();
        // A flag for bytes is named by GNU's help only before the suffix B replaced it.
        let replaced = |word: &str| word.ends_with("_bytes") && dd.gnu.is_some();
        let absent: Vec<_> = WORDS.iter().filter(|word| !text.contains(**word) && !replaced(word)).collect();
        assert!(absent.is_empty(), "{option} does not name {absent:?}");
        assert!(text.starts_with("Usage: dd [OPERAND]..."), "{}", text.lines().next().unwrap_or(""));
    }
}

#[test]
fn help_leaves_out_the_flags_that_linux_lacks() {
    let out = command(dd_under_test(), &["--help"], scratch().path()).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    for word in ["binary", "text", "cio", "nolinks"] {
        let described = |line: &str| line.split_whitespace().next() == Some(word);
        assert!(!text.lines().any(described), "{word}");
    }
}

#[test]
fn version_names_dd_and_coreutils() {
    let dd = dd_under_test();
    let dir = scratch();
    for option in ["--version", "--v", "--vers"] {
        let out = command(dd, &[option], dir.path()).output().unwrap();
        assert!(out.status.success() && out.stderr.is_empty(), "{option}: {out:?}");
        let text = String::from_utf8(out.stdout).unwrap();
        let name = if dd.gnu.is_some() { "dd (coreutils) " } else { "dd (fdd) " };
        assert!(text.starts_with(name), "{text}");
        assert!(text.contains("coreutils"), "{text}");
    }
}

#[test]
fn an_option_after_operands_still_counts() {
    let dir = scratch();
    let out = command(dd_under_test(), &["of=out", "--version"], dir.path()).output().unwrap();
    assert!(out.status.success());
    assert!(!dir.path().join("out").exists());
}

#[test]
fn help_that_cannot_be_written_is_an_error() {
    let dir = scratch();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let out = command(dd_under_test(), &["--help"], dir.path()).stdout(full).output().unwrap();
    assert_eq!(out.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&out.stderr), "dd: write error: No space left on device\n");
}
