//! Where fdd does something else than GNU dd, on purpose. Each row is proved against GNU dd by failing there.

use std::process::Stdio;

use crate::support::row::{Gnu, In};
use crate::support::{self, End};

crate::rows! {
    a_byte_seek_smaller_than_obs_keeps_the_prefix { args: "obs=4 seek=2B of=out", stdin: In::Pipe(b"XY"), files: &[("out", b"abcdefgh")],
        stderr: "{0+1 0+1 2}", after: &[("out", Some(b"abXY"))], gnu: Gnu::Differs("the prefix becomes NUL") }
    a_byte_seek_smaller_than_obs_sets_the_size { args: "count=0 seek=100B of=out", stderr: "{0+0 0+0 0}",
        after: &[("out", Some(&[0; 100]))], gnu: Gnu::Differs("the size is 0") }
    a_byte_seek_by_flag_smaller_than_obs_keeps_the_prefix { args: "obs=4 seek=2 oflag=seek_bytes of=out", stdin: In::Pipe(b"XY"), files: &[("out", b"abcdefgh")],
        stderr: "{0+1 0+1 2}", after: &[("out", Some(b"abXY"))], gnu: Gnu::Differs("the prefix becomes NUL") }
    noerror_on_a_directory_stops { shell: "ulimit -f 100; mkdir d; exec dd if=d conv=noerror of=out", stderr: "*", end: End::Exit(1),
        gnu: Gnu::Differs("tries for ever") }
    ascii_and_sync_pad_with_spaces { args: "ibs=4 cbs=4 conv=ascii,sync", stdin: In::Pipe(b"\xc1\xc2"), output: b"AB\n", stderr: "{0+1 0+1 3}",
        gnu: Gnu::Differs("the pad comes out as 0x80") }
    appending_a_file_onto_itself_is_refused { shell: "ulimit -f 100; exec dd if=f of=f conv=notrunc oflag=append", files: &[("f", &[b'x'; 1024])], stderr: "*",
        end: End::Exit(1), after: &[("f", Some(&[b'x'; 1024]))], gnu: Gnu::Differs("the copy feeds itself until the limit") }
    appending_onto_itself_through_an_inherited_descriptor_is_refused { shell: "ulimit -f 100; exec dd if=f >> f", files: &[("f", &[b'x'; 1024])], stderr: "*",
        end: End::Exit(1), after: &[("f", Some(&[b'x'; 1024]))], gnu: Gnu::Differs("the copy feeds itself until the limit") }
    a_byte_skip_of_a_pipe_smaller_than_ibs_is_no_partial_read { args: "bs=2 skip=3B", stdin: In::Pipe(b"abcdef"), output: b"def", stderr: "{1+1 1+1 3}",
        gnu: Gnu::Differs("the last read of the skip is warned of as partial") }
    a_byte_skip_of_a_pipe_is_no_partial_read { args: "bs=4 skip=5B count=2", stdin: In::Pipe(b"0123456789abcdef"), output: b"56789abc", stderr: "{2+0 2+0 8}",
        gnu: Gnu::Differs("the last read of the skip is warned of as partial") }
    noerror_with_lost_data_exits_1 { args: "if=/proc/self/mem bs=4096 count=2 conv=noerror,sync", output: &[0; 8192], stderr: "*", end: End::Exit(1),
        gnu: Gnu::Differs("exit 0") }
    noerror_without_sync_and_lost_data_exits_1 { shell: "timeout 2 dd if=/proc/self/mem bs=4096 skip=1 count=1 conv=noerror | :", stderr: "*", end: End::Exit(0) }
    sparse_and_append_keep_the_zeros { args: "of=out conv=sparse,notrunc oflag=append bs=1", stdin: In::Pipe(b"A\0\0B"), files: &[("out", b"XX")],
        stderr: "{4+0 4+0 4}", after: &[("out", Some(b"XXA\0\0B"))], gnu: Gnu::Differs("holes vanish") }
    sparse_and_append_keep_the_zeros_at_the_end { args: "of=out conv=sparse,notrunc oflag=append bs=1", stdin: In::Pipe(b"A\0\0"), files: &[("out", b"XX")],
        stderr: "{3+0 3+0 3}", after: &[("out", Some(b"XXA\0\0"))] }
    case_is_that_of_ascii_in_every_locale { args: "conv=ucase", env: &[("LC_ALL", "C.UTF-8")], stdin: In::Pipe("\u{e9}a".as_bytes()), output: "\u{e9}A".as_bytes(),
        stderr: "{0+1 0+1 3}" }
    fsync_of_a_pipe_exits_1_as_gnu_does { args: "conv=fsync", stdin: In::Pipe(b"ab"), output: b"ab", stderr: "dd: fsync failed for 'standard output': Invalid argument\n{0+1 0+1 2}", end: End::Exit(1) }
    block_without_cbs_only_gathers_as_gnu_does { args: "bs=3 conv=block", stdin: In::Packets(&[b"a\n", b"cd"]), output: b"a\ncd", stderr: "{0+2 1+1 4}" }
    a_short_copy_with_progress_and_fsync_has_one_transfer_line { shell: "dd of=out conv=fsync status=progress 2>&1 | tr '\\r' R | grep -c copied", stdin: In::Pipe(b"ab"), output: b"1\n" }
}

#[test]
fn an_inherited_non_blocking_input_is_waited_for() {
    let dd = support::dd_under_test();
    let dir = support::scratch();
    let (reader, writer) = support::pipe();
    rustix::fs::fcntl_setfl(&reader, rustix::fs::OFlags::NONBLOCK).unwrap();
    let (stdout, stdout_writer) = support::pipe();
    let (stderr, stderr_writer) = support::pipe();
    let mut command = support::command(dd, &["bs=4"], dir.path());
    command.stdin(Stdio::from(reader)).stdout(Stdio::from(stdout_writer)).stderr(Stdio::from(stderr_writer));
    let child = command.spawn().unwrap();
    drop(command);
    if dd.gnu.is_none() {
        let pid = child.id();
        // It sleeps in its wait for the first byte; a dd that polls without end would never be seen so for long.
        support::until("dd waits for input", || support::state_of(pid) == 'S' && support::catches(pid, 10));
    }
    rustix::io::write(&writer, b"abcd").ok();
    drop(writer);
    let out = support::collect(child, Some(stdout), Some(stderr), support::LIMIT);
    if dd.gnu.is_some() {
        // It may have been quick enough to find the bytes.
        return;
    }
    assert_eq!((out.end, out.stdout.as_slice()), (End::Exit(0), &b"abcd"[..]));
    assert_eq!(support::text::normalised(&out.stderr), support::text::expanded("{1+0 1+0 4}"));
}

#[test]
fn an_inherited_non_blocking_output_is_waited_for() {
    let dd = support::dd_under_test();
    let dir = support::scratch();
    let (stdout, writer) = support::pipe();
    rustix::fs::fcntl_setfl(&writer, rustix::fs::OFlags::NONBLOCK).unwrap();
    let mut command = support::command(dd, &["if=/dev/zero", "bs=64k", "count=40", "status=none"], dir.path());
    command.stdin(Stdio::null()).stdout(Stdio::from(writer));
    let (stderr, stderr_writer) = support::pipe();
    command.stderr(Stdio::from(stderr_writer));
    let child = command.spawn().unwrap();
    drop(command);
    let pid = child.id();
    // The pipe is full, or GNU dd has given up.
    support::until("dd waits for room", || matches!(support::state_of(pid), 'S' | 'Z'));
    let out = support::collect(child, Some(stdout), Some(stderr), support::LIMIT);
    if dd.gnu.is_some() {
        assert_eq!(out.end, End::Exit(1), "GNU dd is said to give up");
    } else {
        assert_eq!((out.end, out.stdout.len()), (End::Exit(0), 40 << 16), "{}", support::one_line(&out.stderr));
    }
}
