//! count, skip and seek on files, pipes, devices and inherited descriptors, and the offsets that are left.

use crate::support::End;
use crate::support::row::{Gnu, In, Out};

crate::rows! {
    skip_moves_by_blocks { args: "bs=2 skip=1", stdin: In::File(b"abcdef", 0), output: b"cdef", stderr: "{2+0 2+0 4}" }
    skip_is_in_units_of_ibs { args: "ibs=2 obs=3 skip=1", stdin: In::File(b"abcdef", 0), output: b"cdef", stderr: "{2+0 1+1 4}" }
    seek_is_in_units_of_obs { args: "ibs=2 obs=3 seek=1 of=out", stdin: In::Pipe(b"xy"), stderr: "{1+0 0+1 2}", after: &[("out", Some(b"\0\0\0xy"))] }
    skip_starts_from_the_inherited_offset { args: "bs=2 skip=1", stdin: In::File(b"abcdef", 1), output: b"def", stderr: "{1+1 1+1 3}", stdin_left_at: Some(6) }
    skip_by_bytes_flag { args: "bs=2 skip=3 iflag=skip_bytes", stdin: In::File(b"abcdef", 0), output: b"def", stderr: "{1+1 1+1 3}" }
    skip_of_a_pipe_reads_and_discards { args: "bs=2 skip=1", stdin: In::Pipe(b"abcdef"), output: b"cdef", stderr: "{2+0 2+0 4}" }
    a_short_read_of_a_skipped_pipe_is_a_whole_block { args: "bs=3 skip=2", stdin: In::Packets(&[b"ab", b"cde", b"fgh"]), output: b"fgh",
        stderr: "dd: warning: partial read (2 bytes); suggest iflag=fullblock\ndd: 'standard input': cannot skip to specified offset\n{1+0 1+0 3}" }
    a_short_skip_with_fullblock_is_exact { args: "bs=3 skip=2 iflag=fullblock", stdin: In::Packets(&[b"ab", b"c", b"def", b"ghi"]), output: b"ghi", stderr: "{1+0 1+0 3}" }
    skip_past_the_end_of_a_file { args: "if=in bs=4 skip=2", files: &[("in", b"abc")],
        stderr: "dd: in: cannot skip to specified offset\n{0+0 0+0 0}" }
    skip_past_the_end_of_inherited_input { args: "bs=4 skip=2", stdin: In::File(b"abc", 0),
        stderr: "dd: 'standard input': cannot skip to specified offset\n{0+0 0+0 0}" }
    skip_to_the_very_end_is_silent { args: "bs=1 skip=3", stdin: In::File(b"abc", 0), stderr: "{0+0 0+0 0}", stdin_left_at: Some(3) }
    skip_past_the_end_of_a_pipe { args: "bs=4 skip=2", stdin: In::Pipe(b"abc"),
        stderr: "dd: 'standard input': cannot skip to specified offset\n{0+0 0+0 0}" }
    skip_past_the_end_with_status_none_is_silent { args: "bs=4 skip=2 status=none", stdin: In::File(b"abc", 0) }
    skip_past_the_end_leaves_the_offset_at_the_end { args: "bs=4 skip=2", stdin: In::File(b"abc", 0), stdin_left_at: Some(8),
        stderr: "dd: 'standard input': cannot skip to specified offset\n{0+0 0+0 0}" }
    skip_on_an_empty_file_is_silent { args: "skip=1B", stdin: In::File(b"", 0), stderr: "{0+0 0+0 0}",
        gnu: Gnu::Old("an empty file is warned of, too") }
    skip_on_a_file_of_proc_is_silent { args: "if=/proc/self/comm bs=1 skip=2 status=noxfer count=1", output: b"\n", stderr: "1+0 records in\n1+0 records out\n",
        gnu: Gnu::Old("a file of size 0 is warned of, too") }
    skip_that_overflows { args: "if=in bs=4 skip=9223372036854775807", files: &[("in", b"abc")],
        stderr: "dd: in: cannot skip: Value too large for defined data type\n{0+0 0+0 0}", end: End::Exit(1) }
    skip_of_dev_zero_by_seeking { args: "if=/dev/zero bs=2 skip=1000000000 count=1", output: b"\0\0", stderr: "{1+0 1+0 2}" }
    a_read_error_while_skipping_ends { shell: "mkdir d; exec dd if=d bs=1 skip=1", stderr: "*", end: End::Exit(1) }

    the_offset_left_is_behind_what_was_read { args: "bs=2 count=2", stdin: In::File(b"abcdefgh", 1), output: b"bcde", stderr: "{2+0 2+0 4}", stdin_left_at: Some(5) }
    the_offset_left_with_ibs_1_is_exact { args: "ibs=1 obs=4 count=3", stdin: In::File(b"abcdefgh", 0), output: b"abc", stderr: "{3+0 0+1 3}", stdin_left_at: Some(3) }
    the_offset_left_with_a_byte_count_is_exact { args: "bs=4 count=6B", stdin: In::File(b"abcdefgh", 0), output: b"abcdef", stderr: "{1+1 1+1 6}", stdin_left_at: Some(6) }
    the_offset_left_at_the_end_is_the_end { args: "bs=4", stdin: In::File(b"abcdefgh", 0), output: b"abcdefgh", stderr: "{2+0 2+0 8}", stdin_left_at: Some(8) }
    several_dds_share_one_input { shell: "(dd bs=1 skip=1 count=1; dd bs=1 skip=1) 2>/dev/null", stdin: In::File(b"abcdef", 0), output: b"bdef" }
    several_dds_share_one_output { shell: "(printf ab | dd bs=1 seek=1; printf cd | dd bs=1 seek=1) 2>/dev/null", stdout: Out::File(b"0123456789", 0), output: b"0ab3cd6789" }
    dd_and_other_programs_share_one_input { shell: "dd bs=3 count=1 status=none; cat", stdin: In::File(b"abcdef", 0), output: b"abcdef" }
    the_input_is_never_rewound { shell: "(dd bs=2 count=1 of=/dev/null; dd bs=2 count=1) 2>/dev/null", stdin: In::File(b"abcdef", 0), output: b"cd" }

    seek_keeps_what_lies_before_it { args: "bs=2 seek=1 of=out", stdin: In::Pipe(b"XY"), files: &[("out", b"abcdefgh")], stderr: "{1+0 1+0 2}", after: &[("out", Some(b"abXY"))] }
    seek_extends_with_nul { args: "bs=2 seek=2 of=out", stdin: In::Pipe(b"XY"), files: &[("out", b"a")], stderr: "{1+0 1+0 2}", after: &[("out", Some(b"a\0\0\0XY"))] }
    seek_truncates_at_its_point_before_copying { args: "bs=2 seek=1 of=out", stdin: In::Pipe(b""), files: &[("out", b"abcdefgh")], stderr: "{0+0 0+0 0}", after: &[("out", Some(b"ab"))] }
    seek_and_notrunc_change_only_what_is_written { args: "bs=2 seek=1 conv=notrunc of=out", stdin: In::Pipe(b"XY"), files: &[("out", b"abcdefgh")], stderr: "{1+0 1+0 2}", after: &[("out", Some(b"abXYefgh"))] }
    seek_by_bytes_flag { args: "bs=2 seek=3 oflag=seek_bytes of=out", stdin: In::Pipe(b"XY"), files: &[("out", b"abcdefgh")], stderr: "{1+0 1+0 2}", after: &[("out", Some(b"abcXY"))] }
    seek_on_inherited_output_is_relative { args: "bs=2 seek=1", stdin: In::Pipe(b"XY"), stdout: Out::File(b"abcdefgh", 1), output: b"abcXYfgh", stderr: "{1+0 1+0 2}", stdout_left_at: Some(5) }
    seek_and_notrunc_on_inherited_output { args: "bs=2 seek=1 conv=notrunc", stdin: In::Pipe(b"XY"), stdout: Out::File(b"abcdefgh", 1), output: b"abcXYfgh", stderr: "{1+0 1+0 2}", stdout_left_at: Some(5) }
    seek_on_a_pipe_is_refused { args: "bs=2 seek=1", stdin: In::Pipe(b"XY"), stderr: "dd: 'standard output': cannot seek: Illegal seek\n{0+0 0+0 0}", end: End::Exit(1) }
    seek_that_overflows { args: "of=out bs=4 seek=9223372036854775807",
        stderr: "dd: offset too large: cannot truncate to a length of seek=9223372036854775807 (4-byte) blocks\n", end: End::Exit(1) }
    seek_past_what_a_file_can_hold { args: "of=out bs=1 seek=9223372036854775807", stdin: In::Pipe(b"XY"), stderr: "*", end: End::Exit(1) }
    seek_on_dev_null_is_silent { args: "of=/dev/null bs=2 seek=5", stdin: In::Pipe(b"XY"), stderr: "{1+0 1+0 2}" }
    seek_on_a_fifo_open_for_both_reads_it { shell: "mkfifo p; exec 3<>p; printf abcdef >&3; printf XY | dd bs=2 seek=2 conv=notrunc >&3 && dd bs=4 count=1 status=none <&3",
        output: b"efXY", stderr: "{1+0 1+0 2}" }
}
