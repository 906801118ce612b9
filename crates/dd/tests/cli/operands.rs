//! Which words are operands, which of two wins, and what stands in a list.

use crate::support::End;
use crate::support::row::In;

crate::rows! {
    without_operands_input_is_copied_to_output {
        stdin: In::Pipe(b"abc\n"), output: b"abc\n", stderr: "{0+1 0+1 4}",
    }
    bs_overrides_ibs_and_obs_wherever_it_stands {
        args: "bs=3 ibs=10 obs=10 conv=sync", stdin: In::Pipe(b"ab"), output: b"ab\0", stderr: "{0+1 1+0 3}",
    }
    bs_before_or_after_ibs_means_the_same {
        args: "ibs=10 obs=10 bs=3 conv=sync", stdin: In::Pipe(b"ab"), output: b"ab\0", stderr: "{0+1 1+0 3}",
    }
    the_last_number_wins { args: "count=5 bs=1 count=2", stdin: In::Pipe(b"abcdef"), output: b"ab", stderr: "{2+0 2+0 2}" }
    the_last_file_wins {
        args: "if=missing if=in of=first of=out", files: &[("in", b"abc")], stderr: "{0+1 0+1 3}",
        after: &[("first", None), ("out", Some(b"abc"))],
    }
    the_value_starts_after_the_first_equals_sign { args: "if=a=b", files: &[("a=b", b"x")], output: b"x", stderr: "{0+1 0+1 1}" }
    conv_words_accumulate_over_operands {
        args: "conv=ucase conv=swab bs=4", stdin: In::Pipe(b"abcd"), output: b"BADC", stderr: "{1+0 1+0 4}",
    }
    iseek_is_skip { args: "bs=1 iseek=2", stdin: In::File(b"abcd", 0), output: b"cd", stderr: "{2+0 2+0 2}" }
    oseek_is_seek {
        args: "bs=1 oseek=2 of=out", stdin: In::Pipe(b"cd"), files: &[("out", b"ab")], stderr: "{2+0 2+0 2}",
        after: &[("out", Some(b"abcd"))],
    }
    iseek_and_skip_are_one_operand_of_which_the_last_wins {
        args: "bs=1 iseek=2 skip=1", stdin: In::File(b"abcd", 0), output: b"bcd", stderr: "{3+0 3+0 3}",
    }
    two_dashes_end_the_options { args: "-- bs=2", stdin: In::Pipe(b"abc"), output: b"abc", stderr: "{1+1 1+1 3}" }
    two_dashes_may_stand_behind_operands { args: "bs=2 -- count=1", stdin: In::Pipe(b"abc"), output: b"ab", stderr: "{1+0 1+0 2}" }
    after_two_dashes_an_option_is_an_operand {
        args: "-- --help", stderr: "dd: unrecognized operand '--help'\nTry 'dd --help' for more information.\n", end: End::Exit(1),
    }
    posixly_correct_ends_options_at_the_first_operand {
        args: "if=x --help", env: &[("POSIXLY_CORRECT", "1")],
        stderr: "dd: unrecognized operand '--help'\nTry 'dd --help' for more information.\n", end: End::Exit(1),
    }
    posixly_correct_may_be_empty {
        args: "if=x --help", env: &[("POSIXLY_CORRECT", "")],
        stderr: "dd: unrecognized operand '--help'\nTry 'dd --help' for more information.\n", end: End::Exit(1),
    }
    an_empty_file_name_is_a_file_that_is_not_there {
        args: "if=", stderr: "dd: failed to open '': No such file or directory\n", end: End::Exit(1),
    }
    names_are_not_abbreviated {
        args: "cou=1", stderr: "dd: unrecognized operand 'cou=1'\nTry 'dd --help' for more information.\n", end: End::Exit(1),
    }
    names_are_in_lower_case {
        args: "BS=1", stderr: "dd: unrecognized operand 'BS=1'\nTry 'dd --help' for more information.\n", end: End::Exit(1),
    }
    a_word_without_a_value_is_no_operand {
        args: "bs", stderr: "dd: unrecognized operand 'bs'\nTry 'dd --help' for more information.\n", end: End::Exit(1),
    }
    an_empty_argument_is_no_operand {
        more: &[b""], stderr: "dd: unrecognized operand ''\nTry 'dd --help' for more information.\n", end: End::Exit(1),
    }
    an_empty_list_is_an_empty_word {
        args: "conv=", stderr: "dd: invalid conversion: ''\nTry 'dd --help' for more information.\n", end: End::Exit(1),
    }
    a_list_may_not_start_with_a_comma {
        args: "conv=,sync", stderr: "dd: invalid conversion: ''\nTry 'dd --help' for more information.\n", end: End::Exit(1),
    }
    a_list_may_not_end_with_a_comma {
        args: "iflag=fullblock,", stderr: "dd: invalid input flag: ''\nTry 'dd --help' for more information.\n", end: End::Exit(1),
    }
    a_wrong_word_is_named_alone {
        args: "conv=sync,nope,swab", stderr: "dd: invalid conversion: 'nope'\nTry 'dd --help' for more information.\n",
        end: End::Exit(1),
    }
    list_words_are_not_abbreviated {
        args: "conv=asci", stderr: "dd: invalid conversion: 'asci'\nTry 'dd --help' for more information.\n", end: End::Exit(1),
    }
    the_first_wrong_operand_is_reported {
        args: "bs=x foo=1 conv=nope", stderr: "dd: invalid number: 'x'\n", end: End::Exit(1),
    }
    flags_of_the_other_side_are_ignored_on_input {
        args: "iflag=append,seek_bytes", stdin: In::Pipe(b"ab"), output: b"ab", stderr: "{0+1 0+1 2}",
    }
    flags_of_the_other_side_are_ignored_on_output {
        args: "oflag=count_bytes,skip_bytes count=1 bs=2", stdin: In::Pipe(b"abcd"), output: b"ab", stderr: "{1+0 1+0 2}",
    }
    fullblock_is_no_output_flag {
        args: "oflag=fullblock", stderr: "dd: invalid output flag: 'fullblock'\nTry 'dd --help' for more information.\n",
        end: End::Exit(1),
    }
    output_fullblock_is_refused_after_all_operands_are_read {
        args: "oflag=fullblock foo=1", stderr: "dd: unrecognized operand 'foo=1'\nTry 'dd --help' for more information.\n",
        end: End::Exit(1),
    }
    binary_is_no_flag_on_linux {
        args: "iflag=binary", stderr: "dd: invalid input flag: 'binary'\nTry 'dd --help' for more information.\n", end: End::Exit(1),
    }
    text_is_no_flag_on_linux {
        args: "iflag=text", stderr: "dd: invalid input flag: 'text'\nTry 'dd --help' for more information.\n", end: End::Exit(1),
    }
    cio_is_no_flag_on_linux {
        args: "oflag=cio", stderr: "dd: invalid output flag: 'cio'\nTry 'dd --help' for more information.\n", end: End::Exit(1),
    }
    nolinks_is_no_flag_on_linux {
        args: "iflag=nolinks", stderr: "dd: invalid input flag: 'nolinks'\nTry 'dd --help' for more information.\n",
        end: End::Exit(1),
    }
    the_last_status_wins { args: "status=none status=noxfer", stdin: In::Pipe(b"a"), output: b"a", stderr: "0+1 records in\n0+1 records out\n" }
    the_last_status_of_a_list_wins {
        args: "status=none,noxfer", stdin: In::Pipe(b"a"), output: b"a", stderr: "0+1 records in\n0+1 records out\n",
    }
    charsets_exclude_each_other {
        args: "conv=ascii,ibm", stderr: "dd: cannot combine any two of {ascii,ebcdic,ibm}\n",
        end: End::Exit(1),
    }
    block_and_unblock_exclude_each_other_with_cbs {
        args: "conv=block,unblock cbs=4", stderr: "dd: cannot combine block and unblock\n",
        end: End::Exit(1),
    }
    block_and_unblock_without_cbs_do_nothing { args: "conv=block,unblock", stdin: In::Pipe(b"a\n"), output: b"a\n", stderr: "{0+1 0+1 2}" }
    ascii_implies_unblock_which_excludes_block {
        args: "conv=ascii,block cbs=4", stderr: "dd: cannot combine block and unblock\n",
        end: End::Exit(1),
    }
    cases_exclude_each_other {
        args: "conv=lcase,ucase", stderr: "dd: cannot combine lcase and ucase\n",
        end: End::Exit(1),
    }
    excl_and_nocreat_exclude_each_other {
        args: "conv=excl,nocreat", stderr: "dd: cannot combine excl and nocreat\n",
        end: End::Exit(1),
    }
    direct_and_nocache_exclude_each_other_on_input {
        args: "iflag=direct,nocache", stderr: "dd: cannot combine direct and nocache\n",
        end: End::Exit(1),
    }
    direct_and_nocache_exclude_each_other_on_output {
        args: "oflag=direct,nocache", stderr: "dd: cannot combine direct and nocache\n",
        end: End::Exit(1),
    }
    charsets_are_refused_before_block_and_unblock {
        args: "conv=ascii,ibm,block,unblock,lcase,ucase cbs=4",
        stderr: "dd: cannot combine any two of {ascii,ebcdic,ibm}\n", end: End::Exit(1),
    }
    output_fullblock_is_refused_before_charsets {
        args: "conv=ascii,ibm oflag=fullblock",
        stderr: "dd: invalid output flag: 'fullblock'\nTry 'dd --help' for more information.\n", end: End::Exit(1),
    }
    an_unknown_operand_with_a_number_warns_of_0x_first {
        args: "foo=0x5",
        stderr: "dd: warning: '0x' is a zero multiplier; use '00x' if that is intended\n\
                 dd: unrecognized operand 'foo=0x5'\nTry 'dd --help' for more information.\n",
        end: End::Exit(1),
    }
    nothing_is_opened_when_an_operand_is_wrong {
        args: "if=in of=out bs=0", files: &[("in", b"a")], stderr: "dd: invalid number: '0'\n", end: End::Exit(1),
        after: &[("out", None)],
    }
    the_input_is_opened_first { args: "if=missing of=out", stderr: "dd: failed to open 'missing': No such file or directory\n",
        end: End::Exit(1), after: &[("out", None)],
    }
    a_file_name_need_not_be_text {
        more: &[b"if=\xffx", b"of=\xfey"], shell: "printf ab >\"$(printf '\\377x')\"; dd \"$@\" && cat \"$(printf '\\376y')\"",
        output: b"ab", stderr: "{0+1 0+1 2}",
    }
}
