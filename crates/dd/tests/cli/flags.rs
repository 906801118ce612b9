//! iflag= and oflag=, on files that dd opens and on descriptors that it inherits.

use crate::support::End;
use crate::support::row::{In, Out};

crate::rows! {
    directory_on_a_file { args: "if=in iflag=directory", files: &[("in", b"a")], stderr: "dd: failed to open 'in': Not a directory\n", end: End::Exit(1) }
    directory_on_an_inherited_file { args: "iflag=directory", stdin: In::File(b"a", 0), stderr: "dd: setting flags for 'standard input': Not a directory\n", end: End::Exit(1) }
    directory_on_inherited_output { args: "oflag=directory", stdin: In::Pipe(b"a"), stderr: "dd: setting flags for 'standard output': Not a directory\n", end: End::Exit(1) }
    directory_on_an_inherited_directory { args: "iflag=directory count=0", stdin: In::Directory, stderr: "{0+0 0+0 0}" }
    nofollow_on_a_link { shell: "printf a >in; ln -s in l; exec dd if=l iflag=nofollow", stderr: "dd: failed to open 'l': Too many levels of symbolic links\n", end: End::Exit(1) }
    nofollow_on_a_file { args: "if=in iflag=nofollow", files: &[("in", b"a")], output: b"a", stderr: "{0+1 0+1 1}" }
    nofollow_on_output { shell: "printf a >in; ln -s in l; dd of=l oflag=nofollow status=none; cat in", output: b"a", stderr: "dd: failed to open 'l': Too many levels of symbolic links\n" }
    nofollow_on_inherited_input_is_ignored { args: "iflag=nofollow", stdin: In::File(b"a", 0), output: b"a", stderr: "{0+1 0+1 1}" }
    noctty_is_accepted { args: "iflag=noctty oflag=noctty", stdin: In::Pipe(b"a"), output: b"a", stderr: "{0+1 0+1 1}" }
    noatime_keeps_the_time_of_access { shell: "printf a >in; touch -a -d @1000000000 in; dd if=in iflag=noatime status=none; stat -c %X in", output: b"a1000000000\n" }
    nonblock_on_an_empty_pipe_fails { shell: "mkfifo p; exec 3<>p; exec dd iflag=nonblock <&3", stderr: "dd: error reading 'standard input': Resource temporarily unavailable\n{0+0 0+0 0}", end: End::Exit(1) }
    nonblock_on_a_fifo_without_reader { shell: "mkfifo p; exec dd of=p oflag=nonblock", stderr: "dd: failed to open 'p': No such device or address\n", end: End::Exit(1) }
    nonblock_stays_on_an_inherited_descriptor { shell: "mkfifo p; exec 3<>p; dd iflag=nonblock count=0 status=none <&3; cat <&3 2>&1; :", output: b"cat: -: Resource temporarily unavailable\n" }
    sync_on_output { args: "of=out oflag=sync", stdin: In::Pipe(b"ab"), stderr: "{0+1 0+1 2}", after: &[("out", Some(b"ab"))] }
    dsync_on_output { args: "of=out oflag=dsync", stdin: In::Pipe(b"ab"), stderr: "{0+1 0+1 2}", after: &[("out", Some(b"ab"))] }
    sync_on_inherited_output_is_ignored_by_linux { args: "oflag=sync,dsync", stdin: In::Pipe(b"ab"), output: b"ab", stderr: "{0+1 0+1 2}" }
    sync_on_input { args: "if=in iflag=sync,dsync", files: &[("in", b"ab")], output: b"ab", stderr: "{0+1 0+1 2}" }
    nocache_on_files { args: "if=in of=out iflag=nocache oflag=nocache", files: &[("in", b"ab")], stderr: "{0+1 0+1 2}", after: &[("out", Some(b"ab"))] }
    nocache_on_pipes_is_silent_when_copying { args: "iflag=nocache oflag=nocache", stdin: In::Pipe(b"ab"), output: b"ab", stderr: "{0+1 0+1 2}" }
    nocache_on_dev_null_with_count_zero { args: "of=/dev/null oflag=nocache count=0", stderr: "{0+0 0+0 0}" }
    skip_bytes_and_count_bytes_together { args: "bs=4 skip=1 count=3 iflag=skip_bytes,count_bytes", stdin: In::File(b"abcdefgh", 0), output: b"bcd", stderr: "{0+1 0+1 3}" }
    flags_accumulate_over_operands { args: "bs=4 skip=1 count=3 iflag=skip_bytes iflag=count_bytes", stdin: In::File(b"abcdefgh", 0), output: b"bcd", stderr: "{0+1 0+1 3}" }
    a_short_block_turns_direct_off { args: "of=out oflag=direct bs=4096", stdin: In::File(&[b'x'; 5000], 0), stderr: "{1+1 1+1 5000 (5.0 kB, 4.9 KiB)}", after: &[("out", Some(&[b'x'; 5000]))] }
    direct_input_of_a_short_file { args: "if=in iflag=direct bs=4096", files: &[("in", &[b'x'; 5000])], output: &[b'x'; 5000], stderr: "{1+1 1+1 5000 (5.0 kB, 4.9 KiB)}" }
    direct_on_a_pipe_is_packet_mode { args: "oflag=direct bs=2", stdin: In::Pipe(b"abcd"), output: b"abcd", stderr: "{2+0 2+0 4}" }
    append_flag_of_input_is_ignored { args: "if=in iflag=append", files: &[("in", b"ab")], output: b"ab", stderr: "{0+1 0+1 2}" }
    append_on_an_inherited_append_descriptor { args: "oflag=append", stdin: In::Pipe(b"ab"), stdout: Out::Append(b"01"), output: b"01ab", stderr: "dd: you probably want conv=notrunc with oflag=append\n{0+1 0+1 2}" }
}
