//! Words of the BSDs and of illumos that GNU dd refuses, and lower-case suffixes.

use crate::support::End;
use crate::support::row::{Gnu, In, Out};

const REFUSED: Gnu = Gnu::Differs("the word is refused");

crate::rows! {
    lower_case_m_is_1024_squared { shell: "dd of=out count=0 bs=1 seek=3m status=none && stat -c %s out", output: b"3145728\n", gnu: REFUSED }
    lower_case_g_is_1024_cubed { shell: "dd of=out count=0 bs=1 seek=3g status=none && stat -c %s out", output: b"3221225472\n", gnu: REFUSED }
    lower_case_t_is_1024_to_the_fourth { shell: "dd of=out count=0 bs=1 seek=2t status=none && stat -c %s out", output: b"2199023255552\n", gnu: REFUSED }
    lower_case_p_is_1024_to_the_fifth { args: "count=1p", stdin: In::Pipe(b"a"), output: b"a", stderr: "{0+1 0+1 1}", gnu: REFUSED }
    lower_case_e_is_1024_to_the_sixth { args: "count=1e", stdin: In::Pipe(b"a"), output: b"a", stderr: "{0+1 0+1 1}", gnu: REFUSED }
    lower_case_e_overflows_at_eight { args: "count=8e", stderr: "dd: invalid number: '8e': Value too large for defined data type\n", end: End::Exit(1), gnu: REFUSED }

    fillchar_pads_instead_of_nul { args: "bs=4 conv=sync fillchar=x", stdin: In::Pipe(b"ab"), output: b"abxx", stderr: "{0+1 1+0 4}", gnu: REFUSED }
    fillchar_pads_instead_of_the_space_of_block { args: "ibs=4 cbs=4 conv=sync,block fillchar=x", stdin: In::Pipe(b"ab"), output: b"abxx", stderr: "{0+1 0+1 4}", gnu: REFUSED }
    osync_pads_the_last_output_block { args: "ibs=2 obs=4 conv=osync", stdin: In::Pipe(b"abcde"), output: b"abcde\0\0\0", stderr: "{2+1 2+0 8}", gnu: REFUSED }
    osync_and_fillchar { args: "ibs=2 obs=4 conv=osync fillchar=x", stdin: In::Pipe(b"abcde"), output: b"abcdexxx", stderr: "{2+1 2+0 8}", gnu: REFUSED }
    osync_of_a_whole_number_of_blocks_pads_nothing { args: "ibs=2 obs=4 conv=osync", stdin: In::Pipe(b"abcd"), output: b"abcd", stderr: "{2+0 1+0 4}", gnu: REFUSED }
    files_of_a_file_that_has_ended_ends { args: "files=3 bs=4", stdin: In::File(b"abcd", 0), output: b"abcd", stderr: "{1+0 1+0 4}", gnu: REFUSED }
    speed_copies_all_bytes { args: "speed=1000000 bs=2", stdin: In::Pipe(b"abcde"), output: b"abcde", stderr: "{2+1 2+1 5}", gnu: REFUSED }
    speed_zero_is_refused { args: "speed=0", stdin: In::Pipe(b"a"), stderr: "dd: invalid number: '0'\n", end: End::Exit(1), gnu: REFUSED }
    istride_reads_one_block_of_each_stride { args: "bs=1 istride=3", stdin: In::File(b"abcdefgh", 0), output: b"adg", stderr: "{3+0 3+0 3}", gnu: REFUSED }
    ostride_writes_one_block_of_each_stride { args: "bs=1 ostride=3 of=out", stdin: In::Pipe(b"XYZ"), stderr: "{3+0 3+0 3}", after: &[("out", Some(b"X\0\0Y\0\0Z"))], gnu: REFUSED }
    ostride_keeps_what_lies_between { args: "bs=1 ostride=3 conv=notrunc of=out", stdin: In::Pipe(b"XYZ"), files: &[("out", b"abcdefghi")], stderr: "{3+0 3+0 3}", after: &[("out", Some(b"XbcYefZhi"))], gnu: REFUSED }
    stride_is_both { args: "bs=1 stride=2 of=out if=in", files: &[("in", b"abcde")], stderr: "{3+0 3+0 3}", after: &[("out", Some(b"a\0c\0e"))], gnu: REFUSED }
    a_stride_of_one_changes_nothing { args: "bs=2 stride=1 of=out if=in", files: &[("in", b"abcde")], stderr: "{2+1 2+1 5}", after: &[("out", Some(b"abcde"))], gnu: REFUSED }

    msgfmt_quiet_says_nothing { args: "msgfmt=quiet", stdin: In::Pipe(b"ab"), output: b"ab", gnu: REFUSED }
    msgfmt_posix_has_the_records_and_the_bytes_with_their_rate { shell: "dd msgfmt=posix 2>&1 >/dev/null | sed 's/ in .* secs .*/ in T/'", stdin: In::Pipe(b"ab"), output: b"0+1 records in\n0+1 records out\n2 bytes transferred in T\n", gnu: REFUSED }
    msgfmt_counts_full_and_partial_records { more: &[b"msgfmt=%i %p %o %b%%"], args: "bs=2", stdin: In::Pipe(b"abc"), output: b"abc", stderr: "*", gnu: REFUSED }

    oldascii_is_a_conversion { args: "conv=oldascii", stdin: In::Pipe(b"\x81\xc1\xf0@"), output: b"aA0 ", stderr: "{0+1 0+1 4}", gnu: REFUSED }
    oldebcdic_is_a_conversion { args: "conv=oldebcdic", stdin: In::Pipe(b"aA0 "), output: b"\x81\xc1\xf0@", stderr: "{0+1 0+1 4}", gnu: REFUSED }
    oldibm_is_a_conversion { args: "conv=oldibm", stdin: In::Pipe(b"aA0 "), output: b"\x81\xc1\xf0@", stderr: "{0+1 0+1 4}", gnu: REFUSED }
    asciib_is_a_conversion { args: "conv=asciib", stdin: In::Pipe(b"\x81\xc1\xf0@"), output: b"aA0 ", stderr: "{0+1 0+1 4}", gnu: REFUSED }
    ebcdicb_is_a_conversion { args: "conv=ebcdicb", stdin: In::Pipe(b"aA0 "), output: b"\x81\xc1\xf0@", stderr: "{0+1 0+1 4}", gnu: REFUSED }
    ibmb_is_a_conversion { args: "conv=ibmb", stdin: In::Pipe(b"aA0 "), output: b"\x81\xc1\xf0@", stderr: "{0+1 0+1 4}", gnu: REFUSED }
    pareven_sets_the_top_bit_for_an_even_number_of_ones { args: "conv=pareven", stdin: In::Pipe(b"\x03\x01\x81"), output: b"\x03\x81\x81", stderr: "{0+1 0+1 3}", gnu: REFUSED }
    parodd_sets_the_top_bit_for_an_odd_number_of_ones { args: "conv=parodd", stdin: In::Pipe(b"\x03\x01\x81"), output: b"\x83\x01\x01", stderr: "{0+1 0+1 3}", gnu: REFUSED }
    parnone_clears_the_top_bit { args: "conv=parnone", stdin: In::Pipe(b"\x03\x81"), output: b"\x03\x01", stderr: "{0+1 0+1 2}", gnu: REFUSED }
    parset_sets_the_top_bit { args: "conv=parset", stdin: In::Pipe(b"\x03\x81"), output: b"\x83\x81", stderr: "{0+1 0+1 2}", gnu: REFUSED }
    osync_on_inherited_output { args: "ibs=1 obs=4 conv=osync", stdin: In::Pipe(b"a"), stdout: Out::File(b"", 0), output: b"a\0\0\0", stderr: "{1+0 1+0 4}", gnu: REFUSED }
}
