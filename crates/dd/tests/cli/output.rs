//! Opening and truncating the output: notrunc, excl, nocreat, append, holes, and input equal to output.

use crate::support::End;
use crate::support::row::{In, Out};

const MISSING: &str = "dd: failed to open 'out': No such file or directory\n";

crate::rows! {
    the_output_is_truncated { args: "of=out", stdin: In::Pipe(b"ab"), files: &[("out", b"0123456789")], stderr: "{0+1 0+1 2}", after: &[("out", Some(b"ab"))] }
    notrunc_keeps_the_rest { args: "of=out conv=notrunc", stdin: In::Pipe(b"ab"), files: &[("out", b"0123456789")], stderr: "{0+1 0+1 2}", after: &[("out", Some(b"ab23456789"))] }
    inherited_output_is_not_truncated { stdin: In::Pipe(b"ab"), stdout: Out::File(b"0123456789", 0), output: b"ab23456789", stderr: "{0+1 0+1 2}", stdout_left_at: Some(2) }
    inherited_output_goes_on_from_its_offset { stdin: In::Pipe(b"ab"), stdout: Out::File(b"0123456789", 4), output: b"0123ab6789", stderr: "{0+1 0+1 2}", stdout_left_at: Some(6) }
    the_mode_of_a_new_file_follows_the_umask { shell: "umask 027; dd of=out status=none && stat -c %a out", output: b"640\n" }
    a_new_file_may_be_written_by_all_that_umask_lets { shell: "umask 0; dd of=out status=none && stat -c %a out", output: b"666\n" }
    nocreat_needs_the_file { args: "of=out conv=nocreat", stdin: In::Pipe(b"ab"), stderr: MISSING, end: End::Exit(1), after: &[("out", None)] }
    nocreat_writes_a_file_that_is_there { args: "of=out conv=nocreat", stdin: In::Pipe(b"ab"), files: &[("out", b"0123")], stderr: "{0+1 0+1 2}", after: &[("out", Some(b"ab"))] }
    excl_needs_the_file_not_to_be_there { args: "of=out conv=excl", stdin: In::Pipe(b"ab"), files: &[("out", b"01")], stderr: "dd: failed to open 'out': File exists\n", end: End::Exit(1), after: &[("out", Some(b"01"))] }
    excl_makes_a_new_file { args: "of=out conv=excl", stdin: In::Pipe(b"ab"), stderr: "{0+1 0+1 2}", after: &[("out", Some(b"ab"))] }
    excl_is_ignored_on_inherited_output { args: "conv=excl", stdin: In::Pipe(b"ab"), output: b"ab", stderr: "{0+1 0+1 2}" }
    append_truncates_first { args: "of=out oflag=append", stdin: In::Pipe(b"ab"), files: &[("out", b"0123")], stderr: "dd: you probably want conv=notrunc with oflag=append\n{0+1 0+1 2}", after: &[("out", Some(b"ab"))] }
    append_and_notrunc_append { args: "of=out oflag=append conv=notrunc", stdin: In::Pipe(b"ab"), files: &[("out", b"0123")], stderr: "{0+1 0+1 2}", after: &[("out", Some(b"0123ab"))] }
    append_ignores_the_seek_position { args: "of=out oflag=append conv=notrunc bs=1 seek=1", stdin: In::Pipe(b"ab"), files: &[("out", b"0123")], stderr: "{2+0 2+0 2}", after: &[("out", Some(b"0123ab"))] }
    append_after_the_truncation_of_seek { args: "of=out oflag=append bs=1 seek=1", stdin: In::Pipe(b"ab"), files: &[("out", b"0123")], stderr: "dd: you probably want conv=notrunc with oflag=append\n{2+0 2+0 2}", after: &[("out", Some(b"0ab"))] }
    inherited_append_appends { stdin: In::Pipe(b"ab"), stdout: Out::Append(b"0123"), output: b"0123ab", stderr: "{0+1 0+1 2}" }
    append_on_inherited_output_stays_on { shell: "dd oflag=append conv=notrunc status=none; printf cd", stdin: In::Pipe(b"ab"), stdout: Out::File(b"0123", 0), output: b"0123abcd" }

    input_equal_to_output_is_emptied { args: "if=f of=f", files: &[("f", b"abc")], stderr: "{0+0 0+0 0}", after: &[("f", Some(b""))] }
    input_equal_to_output_with_notrunc_works_in_place { args: "if=f of=f conv=notrunc,ucase bs=2", files: &[("f", b"abc")], stderr: "{1+1 1+1 3}", after: &[("f", Some(b"ABC"))] }
    input_equal_to_output_shifts_within_a_file { args: "if=f of=f conv=notrunc bs=1 skip=2 count=2", files: &[("f", b"abcd")], stderr: "{2+0 2+0 2}", after: &[("f", Some(b"cdcd"))] }
    input_equal_to_output_forward_repeats { args: "if=f of=f conv=notrunc bs=1 seek=1 count=3", files: &[("f", b"abcd")], stderr: "{3+0 3+0 3}", after: &[("f", Some(b"aaaa"))] }
    hard_links_are_one_file { shell: "printf abcd >f; ln f g; dd if=f of=g conv=notrunc bs=1 seek=1 count=3 status=none; cat f", output: b"aaaa" }

    sparse_skips_blocks_of_nul { args: "of=out conv=sparse,notrunc bs=2", stdin: In::Pipe(b"a_\0\0b_"), files: &[("out", b"......")], stderr: "{3+0 3+0 6}", after: &[("out", Some(b"a_..b_"))] }
    sparse_looks_at_whole_blocks { args: "of=out conv=sparse,notrunc bs=2", stdin: In::Pipe(b"a\0\0b"), files: &[("out", b"....")], stderr: "{2+0 2+0 4}", after: &[("out", Some(b"a\0\0b"))] }
    sparse_looks_at_output_blocks { args: "of=out conv=sparse,notrunc ibs=1 obs=2", stdin: In::Pipe(b"a\0\0\0"), files: &[("out", b"....")], stderr: "{4+0 2+0 4}", after: &[("out", Some(b"a\0.."))] }
    sparse_skips_a_short_last_block { args: "of=out conv=sparse,notrunc bs=2", stdin: In::Pipe(b"ab\0"), files: &[("out", b"....")], stderr: "{1+1 1+1 3}", after: &[("out", Some(b"ab.."))] }
    sparse_ends_with_the_size_it_should_have { args: "of=out conv=sparse bs=2", stdin: In::Pipe(b"ab\0\0\0"), stderr: "{2+1 2+1 5}", after: &[("out", Some(b"ab\0\0\0"))] }
    sparse_of_nothing_but_nul_has_its_size { args: "of=out conv=sparse bs=2", stdin: In::Pipe(b"\0\0\0"), stderr: "{1+1 1+1 3}", after: &[("out", Some(b"\0\0\0"))] }
    sparse_makes_holes { shell: "dd of=out conv=sparse bs=64k count=1 if=/dev/zero status=none && stat -c '%s %b' out", output: b"65536 0\n" }
    sparse_on_a_pipe_writes { args: "conv=sparse bs=2", stdin: In::Pipe(b"ab\0\0cd"), output: b"ab\0\0cd", stderr: "{3+0 3+0 6}" }
    sparse_on_inherited_output_leaves_the_offset { args: "conv=sparse bs=2", stdin: In::Pipe(b"ab\0\0"), stdout: Out::File(b"......", 0), output: b"ab....", stderr: "{2+0 2+0 4}", stdout_left_at: Some(4) }
    sparse_extends_inherited_output { args: "conv=sparse bs=2", stdin: In::Pipe(b"ab\0\0"), stdout: Out::File(b"", 0), output: b"ab\0\0", stderr: "{2+0 2+0 4}", stdout_left_at: Some(4) }
    sparse_pads_of_sync_are_holes { args: "conv=sparse,sync,notrunc bs=2 of=out", stdin: In::Packets(&[b"a", b"\0"]), files: &[("out", b"....")], stderr: "{0+2 2+0 4}", after: &[("out", Some(b"a\0.."))] }

    fsync_of_a_file { args: "of=out conv=fsync", stdin: In::Pipe(b"ab"), stderr: "{0+1 0+1 2}", after: &[("out", Some(b"ab"))] }
    fdatasync_of_a_file { args: "of=out conv=fdatasync", stdin: In::Pipe(b"ab"), stderr: "{0+1 0+1 2}", after: &[("out", Some(b"ab"))] }
    fsync_of_a_pipe_is_an_error { args: "conv=fsync", stdin: In::Pipe(b"ab"), output: b"ab", stderr: "dd: fsync failed for 'standard output': Invalid argument\n{0+1 0+1 2}", end: End::Exit(1) }
    fdatasync_of_a_pipe_falls_back_to_fsync { args: "conv=fdatasync", stdin: In::Pipe(b"ab"), output: b"ab", stderr: "dd: fsync failed for 'standard output': Invalid argument\n{0+1 0+1 2}", end: End::Exit(1) }
    fsync_of_dev_null_is_an_error { args: "of=/dev/null conv=fsync", stdin: In::Pipe(b"ab"), stderr: "dd: fsync failed for '/dev/null': Invalid argument\n{0+1 0+1 2}", end: End::Exit(1) }
    a_file_size_limit_stops_the_truncation_of_seek { shell: "ulimit -f 1; trap '' XFSZ; dd of=out bs=1 seek=600 count=0",
        stderr: "dd: failed to truncate to 600 bytes in output file 'out': File too large\n", end: End::Exit(1),
        gnu: crate::support::row::Gnu::Before((9, 10), "the failure is printed and ignored") }
}
