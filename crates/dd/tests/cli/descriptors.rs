//! Descriptors that are closed, full, broken or shared, and files that are no regular ones.

use crate::support::End;
use crate::support::row::{In, Out};

crate::rows! {
    closed_standard_output_is_told { shell: "exec dd >&-", stdin: In::Pipe(b""), stderr: "dd: closing output file 'standard output': Bad file descriptor\n", end: End::Exit(1) }
    a_write_to_closed_standard_output_is_told { shell: "exec dd >&-", stdin: In::Pipe(b"ab"), stderr: "dd: error writing 'standard output': Bad file descriptor\ndd: closing output file 'standard output': Bad file descriptor\n", end: End::Exit(1) }
    closed_standard_output_and_a_file { shell: "exec dd of=out >&-", stdin: In::Pipe(b"ab"), stderr: "{0+1 0+1 2}", after: &[("out", Some(b"ab"))] }
    closed_standard_input_is_an_error { shell: "exec dd <&-", stderr: "dd: error reading 'standard input': Bad file descriptor\ndd: closing input file 'standard input': Bad file descriptor\n", end: End::Exit(1) }
    closed_standard_input_and_a_file { shell: "exec dd if=in <&-", files: &[("in", b"ab")], output: b"ab", stderr: "{0+1 0+1 2}" }
    closed_standard_error_is_an_error { shell: "dd of=out 2>&-; echo $?", stdin: In::Pipe(b"ab"), output: b"1\n", after: &[("out", Some(b"ab"))] }
    closed_standard_error_with_nothing_to_say { shell: "dd of=out status=none 2>&-; echo $?", stdin: In::Pipe(b"ab"), output: b"0\n", after: &[("out", Some(b"ab"))] }
    full_standard_error_is_an_error { shell: "dd of=out 2>/dev/full; echo $?", stdin: In::Pipe(b"ab"), output: b"1\n", after: &[("out", Some(b"ab"))] }
    all_three_closed { shell: "(exec dd if=in of=out <&- >&- 2>&-); echo $?", files: &[("in", b"ab")], output: b"1\n", after: &[("out", Some(b"ab"))] }
    all_three_closed_and_silent { shell: "(exec dd if=in of=out status=none <&- >&- 2>&-); echo $?", files: &[("in", b"ab")], output: b"0\n", after: &[("out", Some(b"ab"))] }
    nothing_foreign_is_written_when_standard_error_is_closed { shell: "exec dd if=in of=out skip=9 2>&-", files: &[("in", b"ab")], end: End::Exit(1), after: &[("out", Some(b""))] }
    standard_input_open_for_writing_only { shell: "exec dd 0>x", stderr: "dd: error reading 'standard input': Bad file descriptor\n{0+0 0+0 0}", end: End::Exit(1) }
    standard_output_open_for_reading_only { shell: "printf x >x; exec dd 1<x", stdin: In::Pipe(b"ab"), stderr: "dd: error writing 'standard output': Bad file descriptor\n{0+1 0+0 0}", end: End::Exit(1) }

    a_broken_pipe_is_silent_death { shell: "{ { exec dd if=/dev/zero bs=64k; } ; } | :", stderr: "" }
    a_broken_pipe_kills_by_its_signal { shell: "mkfifo p; exec 3<>p; exec 4>p; exec 3<&-; exec dd if=/dev/zero bs=1 count=1 >&4", stderr: "", end: End::Signal(13) }
    a_broken_pipe_with_the_signal_ignored_is_an_error { shell: "trap '' PIPE; mkfifo p; exec 3<>p; exec 4>p; exec 3<&-; exec dd if=/dev/zero bs=1 count=1 >&4",
        stderr: "dd: error writing 'standard output': Broken pipe\n{1+0 0+0 0}", end: End::Exit(1) }

    a_fifo_is_opened_for_input { shell: "mkfifo p; printf abc >p & dd if=p bs=3; wait", output: b"abc", stderr: "{1+0 1+0 3}" }
    a_fifo_is_opened_for_output { shell: "mkfifo p; cat p & printf abc | dd of=p bs=3; wait", output: b"abc", stderr: "{1+0 1+0 3}" }
    dev_stdin_is_a_file_name { args: "if=/dev/stdin", stdin: In::Pipe(b"ab"), output: b"ab", stderr: "{0+1 0+1 2}" }
    dev_stdout_is_a_file_name { args: "of=/dev/stdout", stdin: In::Pipe(b"ab"), output: b"ab", stderr: "{0+1 0+1 2}" }
    dev_zero_has_no_end { args: "if=/dev/zero bs=3 count=2", output: b"\0\0\0\0\0\0", stderr: "{2+0 2+0 6}" }
    dev_null_is_empty { args: "if=/dev/null", stderr: "{0+0 0+0 0}" }
    a_file_of_proc_is_read_in_blocks { args: "if=/proc/self/comm bs=1 status=none", output: b"dd\n" }
    a_socket_is_read { shell: "exec dd bs=3 status=none", stdin: In::Packets(&[b"abc", b"d"]), output: b"abcd" }
    a_here_document_is_input { shell: "dd bs=2 status=none <<E\nabc\nE\n", output: b"abc\n" }
    writing_to_dev_null { stdin: In::Pipe(b"ab"), stdout: Out::Null, stderr: "{0+1 0+1 2}" }
    a_file_without_permission { shell: "[ \"$(id -u)\" = 0 ] && exec setpriv --reuid=65534 --clear-groups sh -c 'exec dd if=/etc/shadow'; exec dd if=/etc/shadow",
        stderr: "dd: failed to open '/etc/shadow': Permission denied\n", end: End::Exit(1) }
}
