//! Bytes to bytes: case, charsets, swab, block and unblock, alone and together.

use crate::support::End;
use crate::support::row::{In, Out};

static LINES: [[u8; 9]; 6] = [*b"abcdefgh\n"; 6];
static SHORT_LINES: [[u8; 4]; 400] = [*b"abc\n"; 400];
static SHORT_RECORDS: [[u8; 2]; 256] = [*b"ab"; 256];
static LONG_LINES: [[u8; 700]; 3] = [[b'x'; 700], [b'\n'; 700], [b'y'; 700]];

crate::rows! {
    ucase_changes_letters_of_ascii { args: "conv=ucase", stdin: In::Pipe(b"aZ09\xe9"), output: b"AZ09\xe9", stderr: "{0+1 0+1 5}" }
    lcase_changes_letters_of_ascii { args: "conv=lcase", stdin: In::Pipe(b"aZ09\xc9"), output: b"az09\xc9", stderr: "{0+1 0+1 5}" }
    ebcdic_translates { args: "conv=ebcdic", stdin: In::Pipe(b"aA0 \n"), output: b"\x81\xc1\xf0@\x25", stderr: "{0+1 0+1 5}" }
    ibm_translates { args: "conv=ibm", stdin: In::Pipe(b"aA0 \n"), output: b"\x81\xc1\xf0@\x25", stderr: "{0+1 0+1 5}" }
    ascii_translates { args: "conv=ascii", stdin: In::Pipe(b"\x81\xc1\xf0@\x25"), output: b"aA0 \n", stderr: "{0+1 0+1 5}" }
    ebcdic_and_ibm_differ_in_the_exclamation_mark_and_its_kin { shell: "printf '!^[]|~' >in; dd if=in conv=ebcdic status=none; dd if=in conv=ibm status=none", output: b"\x5a\x9a\xad\xbd\x4f\x5f\x5a\x5f\xad\xbd\x4f\xa1" }
    ascii_undoes_ebcdic_for_every_byte { shell: "for h in 0 1 2 3; do for m in 0 1 2 3 4 5 6 7; do for l in 0 1 2 3 4 5 6 7; do printf \"\\\\$h$m$l\"; done; done; done >in; dd if=in conv=ebcdic status=none | dd conv=ascii status=none | cmp - in && wc -c <in", output: b"256\n" }
    case_is_changed_before_ebcdic { args: "conv=ebcdic,ucase", stdin: In::Pipe(b"aA"), output: b"\xc1\xc1", stderr: "{0+1 0+1 2}" }
    case_is_changed_before_ibm { args: "conv=lcase,ibm", stdin: In::Pipe(b"aA"), output: b"\x81\x81", stderr: "{0+1 0+1 2}" }
    case_is_changed_after_ascii { args: "conv=ucase,ascii", stdin: In::Pipe(b"\x81\xc1"), output: b"AA", stderr: "{0+1 0+1 2}" }

    swab_swaps_pairs { args: "conv=swab", stdin: In::Pipe(b"abcd"), output: b"badc", stderr: "{0+1 0+1 4}" }
    swab_keeps_an_odd_last_byte { args: "conv=swab", stdin: In::Pipe(b"abcde"), output: b"badce", stderr: "{0+1 0+1 5}" }
    swab_of_one_byte { args: "conv=swab", stdin: In::Pipe(b"a"), output: b"a", stderr: "{0+1 0+1 1}" }
    swab_pairs_run_across_blocks { args: "ibs=3 conv=swab", stdin: In::Pipe(b"abcdefg"), output: b"badcfeg", stderr: "{2+1 0+1 7}" }
    swab_pairs_run_across_blocks_of_one { args: "ibs=1 obs=1 conv=swab", stdin: In::Pipe(b"abcde"), output: b"badce", stderr: "{5+0 5+0 5}" }
    swab_pairs_run_across_short_reads { args: "bs=4 conv=swab", stdin: In::Packets(&[b"abc", b"d", b"efg", b"h"]), output: b"badcfehg", stderr: "{0+4 2+0 8}" }
    swab_sees_the_padding_of_sync { args: "ibs=3 conv=swab,sync", stdin: In::Pipe(b"abcdefg"), output: b"badcfe\0g\0", stderr: "{2+1 0+1 9}" }
    swab_comes_after_translation { args: "conv=swab,ebcdic", stdin: In::Pipe(b"ab"), output: b"\x82\x81", stderr: "{0+1 0+1 2}" }
    swab_comes_before_block { args: "conv=swab,block cbs=3", stdin: In::Pipe(b"ab\nc"), output: b"bac", stderr: "{0+1 0+1 3}" }

    block_pads_lines_to_cbs { args: "conv=block cbs=4", stdin: In::Pipe(b"ab\nc\n"), output: b"ab  c   ", stderr: "{0+1 0+1 8}" }
    block_pads_the_last_line_without_newline { args: "conv=block cbs=4", stdin: In::Pipe(b"ab\nc"), output: b"ab  c   ", stderr: "{0+1 0+1 8}" }
    block_of_an_empty_line_is_all_spaces { args: "conv=block cbs=3", stdin: In::Pipe(b"\n\n"), output: b"      ", stderr: "{0+1 0+1 6}" }
    block_of_nothing_is_nothing { args: "conv=block cbs=3", stdin: In::Pipe(b""), output: b"", stderr: "{0+0 0+0 0}" }
    block_cuts_long_lines_and_counts_them { args: "conv=block cbs=2", stdin: In::Pipe(b"abcd\nef\nghijkl\n"), output: b"abefgh", stderr: "{0+1 0+1 6 | 2 truncated records}" }
    block_counts_one_cut_line { args: "conv=block cbs=2", stdin: In::Pipe(b"abc\n"), output: b"ab", stderr: "{0+1 0+1 2 | 1 truncated record}" }
    block_counts_a_cut_line_without_newline { args: "conv=block cbs=2", stdin: In::Pipe(b"abc"), output: b"ab", stderr: "{0+1 0+1 2 | 1 truncated record}" }
    truncated_records_are_told_with_noxfer { args: "conv=block cbs=2 status=noxfer", stdin: In::Pipe(b"abc"), output: b"ab", stderr: "0+1 records in\n0+1 records out\n1 truncated record\n" }
    block_counts_what_was_truncated_before_the_write_that_failed { args: "ibs=64 obs=16 conv=block cbs=4", stdin: In::Pipe(LINES.as_flattened()), stdout: Out::Full,
        stderr: "dd: writing to 'standard output': No space left on device\n{0+1 0+0 0 | 3 truncated records}", end: End::Exit(1) }
    block_counts_a_truncated_record_only_after_the_write_of_its_end { args: "ibs=64 obs=4 conv=block cbs=4", stdin: In::Pipe(LINES.as_flattened()), stdout: Out::Full,
        stderr: "dd: writing to 'standard output': No space left on device\n{0+1 0+0 0}", end: End::Exit(1) }
    block_counts_truncated_records_once_when_a_write_of_many_fails { shell: "ulimit -f 1; trap '' XFSZ; dd ibs=100 obs=100 conv=block cbs=2 of=out", stdin: In::File(SHORT_LINES.as_flattened(), 0),
        stderr: "dd: writing to 'out': File too large\n{12+0 5+1 512 | 299 truncated records}", end: End::Exit(1), after: &[("out", Some(SHORT_RECORDS.as_flattened()))] }
    block_counts_long_truncated_records_before_the_write_that_failed { args: "ibs=4k obs=1600 conv=block cbs=600", stdin: In::Pipe(LONG_LINES.as_flattened()), stdout: Out::Full,
        stderr: "dd: writing to 'standard output': No space left on device\n{0+1 0+0 0 | 1 truncated record}", end: End::Exit(1) }
    block_lines_run_across_blocks { args: "ibs=1 obs=3 conv=block cbs=4", stdin: In::Pipe(b"ab\nc\n"), output: b"ab  c   ", stderr: "{5+0 2+1 8}" }
    block_of_a_line_that_fits_exactly { args: "conv=block cbs=2", stdin: In::Pipe(b"ab\ncd\n"), output: b"abcd", stderr: "{0+1 0+1 4}" }
    block_of_one_long_line_across_many_reads { args: "ibs=2 obs=2 conv=block cbs=5", stdin: In::Pipe(b"abcdefghij\nk"), output: b"abcdek    ", stderr: "{6+0 5+0 10 | 1 truncated record}" }
    block_looks_for_the_translated_newline { args: "conv=ebcdic,block cbs=3", stdin: In::Pipe(b"a\nbc"), output: b"\x81@@\x82\x83@", stderr: "{0+1 0+1 6}" }
    ebcdic_implies_block_with_cbs { args: "conv=ebcdic cbs=3", stdin: In::Pipe(b"a\nbc"), output: b"\x81@@\x82\x83@", stderr: "{0+1 0+1 6}" }
    ibm_implies_block_with_cbs { args: "conv=ibm cbs=3", stdin: In::Pipe(b"a\nbc"), output: b"\x81@@\x82\x83@", stderr: "{0+1 0+1 6}" }
    ascii_implies_unblock_with_cbs { args: "conv=ascii cbs=3", stdin: In::Pipe(b"\x81@@\x82\x83@"), output: b"a\nbc\n", stderr: "{0+1 0+1 5}" }
    cbs_alone_does_nothing { args: "cbs=3", stdin: In::Pipe(b"a\nb\n"), output: b"a\nb\n", stderr: "{0+1 0+1 4}" }

    unblock_of_nothing_is_nothing { args: "conv=unblock cbs=3", stdin: In::Pipe(b""), stderr: "{0+0 0+0 0}" }
    unblock_drops_trailing_spaces { args: "conv=unblock cbs=3", stdin: In::Pipe(b"a  bc "), output: b"a\nbc\n", stderr: "{0+1 0+1 5}" }
    unblock_keeps_spaces_inside { args: "conv=unblock cbs=3", stdin: In::Pipe(b"a b c "), output: b"a b\n c\n", stderr: "{0+1 0+1 7}" }
    unblock_keeps_newlines_that_are_there { args: "conv=unblock cbs=3", stdin: In::Pipe(b"a\n  "), output: b"a\n\n\n", stderr: "{0+1 0+1 4}" }
    unblock_of_a_short_last_record { args: "conv=unblock cbs=3", stdin: In::Pipe(b"a "), output: b"a\n", stderr: "{0+1 0+1 2}" }
    unblock_of_an_exact_record { args: "conv=unblock cbs=3", stdin: In::Pipe(b"a  "), output: b"a\n", stderr: "{0+1 0+1 2}" }
    unblock_of_a_last_record_of_spaces { args: "conv=unblock cbs=3", stdin: In::Pipe(b"a   "), output: b"a\n\n", stderr: "{0+1 0+1 3}" }
    unblock_of_a_newline_in_the_last_record { args: "conv=unblock cbs=3", stdin: In::Pipe(b"a  \n"), output: b"a\n\n\n", stderr: "{0+1 0+1 4}" }
    unblock_records_run_across_blocks { args: "ibs=1 obs=1 conv=unblock cbs=3", stdin: In::Pipe(b"a  bc d"), output: b"a\nbc\nd\n", stderr: "{7+0 7+0 7}" }
    unblock_drops_only_spaces { args: "conv=unblock cbs=3", stdin: In::Pipe(b"a\t\0"), output: b"a\t\0\n", stderr: "{0+1 0+1 4}" }
    unblock_undoes_block { shell: "printf 'one\\ntwo\\n\\nthree\\n' >in; dd if=in conv=block cbs=9 status=none | dd conv=unblock cbs=9 status=none", output: b"one\ntwo\n\nthree\n" }
    ucase_and_block_together { args: "conv=ucase,block cbs=3", stdin: In::Pipe(b"ab\n"), output: b"AB ", stderr: "{0+1 0+1 3}" }
}
