//! How reads become records and records become writes: direct copies, re-blocking, padding, and the counts.

use crate::support::End;
use crate::support::row::{Gnu, In, Out};

const SHORT: In = In::Packets(&[b"ab", b"cd"]);

crate::rows! {
    bs_writes_each_read_as_it_came { args: "bs=3", stdin: SHORT, output: b"abcd", stderr: "{0+2 0+2 4}", writes: Some(&[2, 2]) }
    ibs_and_obs_gather_reads_into_whole_blocks { args: "ibs=3 obs=3", stdin: SHORT, output: b"abcd", stderr: "{0+2 1+1 4}", writes: Some(&[3, 1]) }
    without_bs_reads_are_gathered { stdin: SHORT, output: b"abcd", stderr: "{0+2 0+1 4}", writes: Some(&[4]) }
    noerror_does_not_gather { args: "bs=3 conv=noerror", stdin: SHORT, output: b"abcd", stderr: "{0+2 0+2 4}" }
    notrunc_does_not_gather { args: "bs=3 conv=notrunc", stdin: SHORT, output: b"abcd", stderr: "{0+2 0+2 4}" }
    excl_and_nocreat_do_not_gather { args: "bs=3 conv=nocreat", stdin: SHORT, output: b"abcd", stderr: "{0+2 0+2 4}" }
    sparse_does_not_gather { args: "bs=3 conv=sparse", stdin: SHORT, output: b"abcd", stderr: "{0+2 0+2 4}" }
    sync_does_not_gather { args: "bs=3 conv=sync", stdin: SHORT, output: b"ab\0cd\0", stderr: "{0+2 2+0 6}", writes: Some(&[3, 3]) }
    swab_gathers { args: "bs=3 conv=swab", stdin: SHORT, output: b"badc", stderr: "{0+2 1+1 4}", writes: Some(&[3, 1]) }
    lcase_gathers { args: "bs=3 conv=lcase", stdin: SHORT, output: b"abcd", stderr: "{0+2 1+1 4}" }
    ascii_gathers { args: "bs=3 conv=ascii", stdin: In::Packets(&[b"\x81\x82", b"\x83\x84"]), output: b"abcd", stderr: "{0+2 1+1 4}" }
    block_with_cbs_gathers { args: "bs=3 conv=block cbs=5", stdin: SHORT, output: b"abcd ", stderr: "{0+2 1+1 5}" }
    block_without_cbs_gathers_and_does_nothing_else { args: "bs=3 conv=block", stdin: SHORT, output: b"abcd", stderr: "{0+2 1+1 4}" }
    unblock_without_cbs_gathers_and_does_nothing_else { args: "bs=3 conv=unblock", stdin: SHORT, output: b"abcd", stderr: "{0+2 1+1 4}" }
    an_output_block_may_be_a_part_of_a_read { args: "ibs=4 obs=1", stdin: SHORT, output: b"abcd", stderr: "{0+2 4+0 4}", writes: Some(&[1, 1, 1, 1]) }
    an_output_block_may_hold_many_reads { args: "ibs=1 obs=3", stdin: In::Pipe(b"abcd"), output: b"abcd", stderr: "{4+0 1+1 4}", writes: Some(&[3, 1]) }
    the_default_block_is_512 { stdin: In::File(&[b'x'; 1300], 0), output: &[b'x'; 1300], stderr: "{2+1 2+1 1300 (1.3 kB, 1.3 KiB)}" }
    fullblock_reads_until_the_block_is_full { args: "bs=3 iflag=fullblock", stdin: In::Packets(&[b"a", b"b", b"c", b"d"]), output: b"abcd", stderr: "{1+1 1+1 4}", writes: Some(&[3, 1]) }
    fullblock_with_ibs_alone { args: "ibs=3 iflag=fullblock obs=1", stdin: In::Packets(&[b"a", b"b", b"c", b"d"]), output: b"abcd", stderr: "{1+1 4+0 4}" }
    count_counts_reads_not_bytes { args: "bs=3 count=2", stdin: In::Packets(&[b"a", b"bc", b"def"]), output: b"abc",
        stderr: "dd: warning: partial read (1 byte); suggest iflag=fullblock\n{0+2 0+2 3}" }
    count_with_fullblock_counts_full_blocks { args: "bs=3 count=2 iflag=fullblock", stdin: In::Packets(&[b"a", b"bc", b"def"]), output: b"abcdef", stderr: "{2+0 2+0 6}" }
    a_count_of_bytes_ends_inside_a_block { args: "bs=512 count=1000B", stdin: In::File(&[b'x'; 2000], 0), output: &[b'x'; 1000],
        stderr: "{1+1 1+1 1000 (1.0 kB)}", stdin_left_at: Some(1000) }
    a_count_of_bytes_by_flag { args: "bs=2 count=3 iflag=count_bytes", stdin: In::Pipe(b"abcdef"), output: b"abc", stderr: "{1+1 1+1 3}" }
    a_count_of_bytes_asks_a_pipe_for_no_more { args: "bs=4 count=6B", stdin: In::Pipe(b"abcdefgh"), output: b"abcdef", stderr: "{1+1 1+1 6}" }
    a_count_of_bytes_with_short_reads_counts_blocks {
        args: "bs=4 count=6B iflag=fullblock", stdin: In::Packets(&[b"ab", b"c", b"d", b"e", b"f"]), output: b"abcdef", stderr: "{1+1 1+1 6}",
    }
    a_count_larger_than_the_input { args: "bs=2 count=10", stdin: In::Pipe(b"abc"), output: b"abc", stderr: "{1+1 1+1 3}" }
    a_partial_read_is_warned_of_once { args: "bs=3 count=4", stdin: In::Packets(&[b"ab", b"c", b"d", b"e"]), output: b"abcde",
        stderr: "dd: warning: partial read (2 bytes); suggest iflag=fullblock\n{0+4 0+4 5}" }
    a_partial_read_at_the_end_is_not_warned_of { args: "bs=3 count=4", stdin: In::Packets(&[b"abc", b"d"]), output: b"abcd", stderr: "{1+1 1+1 4}" }
    without_count_or_skip_partial_reads_are_not_warned_of { args: "bs=3", stdin: SHORT, output: b"abcd", stderr: "{0+2 0+2 4}" }
    when_gathering_partial_reads_are_not_warned_of { args: "ibs=3 count=2", stdin: SHORT, output: b"abcd", stderr: "{0+2 0+1 4}" }
    fullblock_reads_are_not_warned_of { args: "bs=2 count=3 iflag=fullblock", stdin: In::Packets(&[b"a", b"b", b"c", b"d"]), output: b"abcd", stderr: "{2+0 2+0 4}" }
    status_none_silences_the_partial_read_warning { args: "bs=3 count=2 status=none", stdin: SHORT, output: b"abcd" }
    status_noxfer_does_not_silence_the_warning { args: "bs=3 count=2 status=noxfer", stdin: SHORT, output: b"abcd",
        stderr: "dd: warning: partial read (2 bytes); suggest iflag=fullblock\n0+2 records in\n0+2 records out\n" }
    partial_reads_behind_a_skip_are_warned_of { args: "bs=3 skip=1", stdin: In::Packets(&[b"xyz", b"ab", b"cd"]), output: b"abcd",
        stderr: "dd: warning: partial read (2 bytes); suggest iflag=fullblock\n{0+2 0+2 4}" }

    sync_pads_the_last_block { args: "ibs=8 obs=8 conv=sync", stdin: In::Pipe(b"abc"), output: b"abc\0\0\0\0\0", stderr: "{0+1 1+0 8}" }
    sync_pads_each_short_block { args: "ibs=4 obs=4 conv=sync", stdin: SHORT, output: b"ab\0\0cd\0\0", stderr: "{0+2 2+0 8}" }
    sync_does_not_pad_an_empty_input { args: "bs=4 conv=sync", stdin: In::Pipe(b""), stderr: "{0+0 0+0 0}" }
    sync_pads_with_spaces_when_blocking { args: "ibs=4 conv=sync,block cbs=4", stdin: In::Pipe(b"ab"), output: b"ab  ", stderr: "{0+1 0+1 4}" }
    sync_pads_with_spaces_when_unblocking { args: "ibs=4 conv=sync,unblock cbs=4", stdin: In::Pipe(b"ab"), output: b"ab\n", stderr: "{0+1 0+1 3}" }
    sync_pads_with_nul_when_block_has_no_cbs { args: "ibs=4 conv=sync,block", stdin: In::Pipe(b"ab"), output: b"ab\0\0", stderr: "{0+1 0+1 4}" }
    sync_pads_with_ebcdic_spaces { args: "ibs=4 cbs=4 conv=sync,ebcdic", stdin: In::Pipe(b"ab"), output: b"\x81\x82@@", stderr: "{0+1 0+1 4}" }
    sync_pads_a_byte_count_to_the_block { args: "bs=4 count=6B conv=sync", stdin: In::Pipe(b"abcdefgh"), output: b"abcdef\0\0", stderr: "{1+1 2+0 8}" }
    sync_with_noerror_pads_the_same { args: "bs=4 conv=sync,noerror", stdin: In::Packets(&[b"abcd", b"e"]), output: b"abcde\0\0\0", stderr: "{1+1 2+0 8}" }
    sync_with_noerror_and_block_pads_with_spaces { args: "ibs=4 cbs=4 conv=sync,noerror,block", stdin: In::Packets(&[b"abc\n", b"e"]), output: b"abc e   ", stderr: "{1+1 0+1 8}" }

    a_block_that_is_huge_takes_only_what_is_read { shell: "ulimit -v 4000000; dd bs=1G", stdin: In::Pipe(b"abc"), output: b"abc", stderr: "{0+1 0+1 3}" }
    a_block_that_cannot_be_had_is_named { args: "bs=9223372036854775806", stdin: In::Pipe(b"abc"),
        stderr: "dd: memory exhausted by input buffer of size 9223372036854775806 bytes (8.0 EiB)\n", end: End::Exit(1) }
    an_output_block_that_cannot_be_had_is_named { args: "obs=9223372036854775806", stdin: In::Pipe(b"abc"),
        stderr: "dd: memory exhausted by output buffer of size 9223372036854775806 bytes (8.0 EiB)\n", end: End::Exit(1) }
    a_block_beyond_the_limit_of_memory_is_named { shell: "ulimit -v 1000000; dd bs=10G", stdin: In::Pipe(b"abc"),
        stderr: "dd: memory exhausted by input buffer of size 10737418240 bytes (10 GiB)\n", end: End::Exit(1) }
    count_zero_needs_no_memory { args: "bs=9223372036854775806 count=0", stdin: In::Pipe(b"abc"), stderr: "{0+0 0+0 0}" }
    count_zero_reads_nothing { args: "count=0", stdin: In::File(b"abc", 1), stderr: "{0+0 0+0 0}", stdin_left_at: Some(1) }
    count_zero_still_opens_the_input { args: "count=0 if=missing", stderr: "dd: failed to open 'missing': No such file or directory\n", end: End::Exit(1) }
    count_zero_still_truncates { args: "count=0 of=out", files: &[("out", b"abc")], stderr: "{0+0 0+0 0}", after: &[("out", Some(b""))] }
    count_zero_and_seek_set_the_size { args: "count=0 of=out bs=1 seek=5", files: &[("out", b"abc")], stderr: "{0+0 0+0 0}", after: &[("out", Some(b"abc\0\0"))] }
    count_zero_and_seek_shorten { args: "count=0 of=out bs=1 seek=1", files: &[("out", b"abc")], stderr: "{0+0 0+0 0}", after: &[("out", Some(b"a"))] }
    count_zero_and_fsync_sync_a_file { args: "count=0 of=out conv=notrunc,fsync", files: &[("out", b"abc")], stderr: "{0+0 0+0 0}", after: &[("out", Some(b"abc"))] }
    count_zero_and_skip_still_skip { args: "count=0 bs=1 skip=2", stdin: In::File(b"abc", 0), stderr: "{0+0 0+0 0}", stdin_left_at: Some(2) }
    count_zero_and_nocache_drop_the_cache_of_a_file { args: "count=0 if=in iflag=nocache", files: &[("in", b"abc")], stderr: "{0+0 0+0 0}" }
    count_zero_and_nocache_fail_on_a_pipe { args: "count=0 iflag=nocache", stdin: In::Pipe(b"abc"),
        stderr: "dd: failed to discard cache for: 'standard input': Illegal seek\n{0+0 0+0 0}", end: End::Exit(1) }
    count_zero_and_output_nocache_fail_on_a_pipe { args: "count=0 oflag=nocache",
        stderr: "dd: failed to discard cache for: 'standard output': Illegal seek\n{0+0 0+0 0}", end: End::Exit(1) }
    a_write_that_fails_counts_nothing_when_nothing_was_written { args: "bs=4", stdin: In::Pipe(b"abcdefgh"), stdout: Out::Full,
        stderr: "dd: error writing 'standard output': No space left on device\n{1+0 0+0 0}", end: End::Exit(1) }
    a_write_of_a_gathered_block_that_fails_is_worded_otherwise { args: "ibs=4 obs=2", stdin: In::Pipe(b"abcdefgh"), stdout: Out::Full,
        stderr: "dd: writing to 'standard output': No space left on device\n{1+0 0+0 0}", end: End::Exit(1) }
    the_last_gathered_block_that_fails_is_an_error_writing { args: "ibs=4 obs=20", stdin: In::Pipe(b"abcdefgh"), stdout: Out::Full,
        stderr: "dd: error writing 'standard output': No space left on device\n{2+0 0+0 0}", end: End::Exit(1) }
    a_file_size_limit_counts_what_fitted { shell: "ulimit -f 1; trap '' XFSZ; dd bs=300 of=out", stdin: In::File(&[b'x'; 1200], 0),
        stderr: "dd: error writing 'out': File too large\n{2+0 1+1 512}", end: End::Exit(1), after: &[("out", Some(&[b'x'; 512]))],
        gnu: Gnu::Before((9, 11), "the partial record is not counted") }
    a_file_size_limit_on_a_block_boundary { shell: "ulimit -f 1; trap '' XFSZ; dd bs=256 of=out", stdin: In::File(&[b'x'; 1200], 0),
        stderr: "dd: error writing 'out': File too large\n{3+0 2+0 512}", end: End::Exit(1), after: &[("out", Some(&[b'x'; 512]))] }
    a_file_size_limit_in_a_gathered_block { shell: "ulimit -f 1; trap '' XFSZ; dd ibs=100 obs=300 of=out", stdin: In::File(&[b'x'; 1200], 0),
        stderr: "dd: writing to 'out': File too large\n{6+0 1+1 512}", end: End::Exit(1), after: &[("out", Some(&[b'x'; 512]))] }
    the_signal_of_the_file_size_limit_kills { shell: "ulimit -f 1; exec dd bs=300 of=out", stdin: In::File(&[b'x'; 1200], 0),
        stderr: "", end: End::Signal(25), after: &[("out", Some(&[b'x'; 512]))] }
}
