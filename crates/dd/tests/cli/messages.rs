//! What dd says when something is wrong, to the character: the words, the three styles of quoting, the exit code.

use crate::support::End;
use crate::support::row::{In, Out};

/// Messages of a file name that cannot be opened: the name within `if=` and how it is quoted.
macro_rules! quote_rows {
    ($($name:ident { $file:literal => $quoted:literal })*) => { crate::rows! { $(
        $name { more: &[{ const NAME: &[u8] = $file; NAME }], end: End::Exit(1), stderr: concat!("dd: failed to open ", $quoted, ": No such file or directory\n") }
    )* } };
}

quote_rows! {
    a_plain_name_is_quoted { b"if=nope" => "'nope'" }
    a_space_is_quoted { b"if=a b" => "'a b'" }
    an_apostrophe_turns_to_double_quotes { b"if=it's" => "\"it's\"" }
    both_quotes_are_escaped { b"if=a'b\"c" => "'a'\\''b\"c'" }
    a_double_quote_alone { b"if=a\"b" => "'a\"b'" }
    a_dollar_and_an_apostrophe { b"if=a'$b" => "'a'\\''$b'" }
    a_backslash_is_itself { b"if=a\\b" => "'a\\b'" }
    a_newline_is_escaped_for_a_shell { b"if=a\nb" => "'a'$'\\n''b'" }
    a_tab_is_escaped_for_a_shell { b"if=a\tb" => "'a'$'\\t''b'" }
    a_control_character_is_octal { b"if=a\x01b" => "'a'$'\\001''b'" }
    a_byte_that_is_not_text_is_octal { b"if=\xffx" => "''$'\\377''x'" }
    two_control_characters_share_one_escape { b"if=\n\t" => "''$'\\n\\t'" }
    an_apostrophe_and_a_newline { b"if=it's\n" => "'''it'\\''s'$'\\n'" }
    delete_is_a_control_character { b"if=\x7f" => "''$'\\177'" }
}

crate::rows! {
    an_input_that_is_not_there { args: "if=nope", stderr: "dd: failed to open 'nope': No such file or directory\n", end: End::Exit(1) }
    an_output_in_a_directory_that_is_not_there { args: "of=no/out", stderr: "dd: failed to open 'no/out': No such file or directory\n", end: End::Exit(1) }
    an_output_that_is_a_directory { args: "of=.", stderr: "dd: failed to open '.': Is a directory\n", end: End::Exit(1) }
    an_output_that_is_a_directory_with_seek { args: "of=. seek=1", stderr: "dd: failed to open '.': Is a directory\n", end: End::Exit(1) }
    an_input_that_is_a_directory { args: "if=.", stderr: "dd: error reading '.': Is a directory\n{0+0 0+0 0}", end: End::Exit(1) }
    inherited_input_that_is_a_directory { stdin: In::Directory, stderr: "dd: error reading 'standard input': Is a directory\n{0+0 0+0 0}", end: End::Exit(1) }
    a_read_error_of_a_file { args: "if=/proc/self/mem bs=1", stderr: "dd: error reading '/proc/self/mem': Input/output error\n{0+0 0+0 0}", end: End::Exit(1) }
    a_read_error_with_status_none_is_still_told { args: "if=/proc/self/mem bs=1 status=none", stderr: "dd: error reading '/proc/self/mem': Input/output error\n", end: End::Exit(1) }
    a_read_error_with_noxfer { args: "if=/proc/self/mem bs=1 status=noxfer", stderr: "dd: error reading '/proc/self/mem': Input/output error\n0+0 records in\n0+0 records out\n", end: End::Exit(1) }
    a_full_device { args: "of=/dev/full", stdin: In::Pipe(b"ab"), stderr: "dd: error writing '/dev/full': No space left on device\n{0+1 0+0 0}", end: End::Exit(1) }
    a_full_device_with_status_none { args: "of=/dev/full status=none", stdin: In::Pipe(b"ab"), stderr: "dd: error writing '/dev/full': No space left on device\n", end: End::Exit(1) }
    a_full_device_and_nothing_to_write { args: "of=/dev/full", stdin: In::Pipe(b""), stderr: "{0+0 0+0 0}" }
    a_full_standard_output { stdin: In::Pipe(b"ab"), stdout: Out::Full, stderr: "dd: error writing 'standard output': No space left on device\n{0+1 0+0 0}", end: End::Exit(1) }
    a_plain_name_is_bare_in_seek_messages { shell: "mkfifo p; exec 3<>p; exec dd if=/dev/null of=p bs=1 seek=1 conv=notrunc oflag=nonblock", stderr: "*", end: End::Exit(1) }
    a_name_with_a_space_is_quoted_in_skip_messages { more: &[b"if=a b", b"skip=9"], files: &[("a b", b"abc")], stderr: "dd: 'a b': cannot skip to specified offset\n{0+0 0+0 0}" }
    a_name_with_an_apostrophe_in_skip_messages { more: &[b"if=it's", b"skip=9"], files: &[("it's", b"abc")], stderr: "dd: \"it's\": cannot skip to specified offset\n{0+0 0+0 0}" }
    a_name_with_a_tilde_in_front_in_skip_messages { more: &[b"if=~x", b"skip=9"], files: &[("~x", b"abc")], stderr: "dd: '~x': cannot skip to specified offset\n{0+0 0+0 0}" }
    a_name_with_a_tilde_inside_in_skip_messages { more: &[b"if=x~", b"skip=9"], files: &[("x~", b"abc")], stderr: "dd: x~: cannot skip to specified offset\n{0+0 0+0 0}" }
    a_name_with_an_asterisk_in_skip_messages { more: &[b"if=x*", b"skip=9"], files: &[("x*", b"abc")], stderr: "dd: 'x*': cannot skip to specified offset\n{0+0 0+0 0}" }
    a_name_with_a_hash_in_front_in_skip_messages { more: &[b"if=#x", b"skip=9"], files: &[("#x", b"abc")], stderr: "dd: '#x': cannot skip to specified offset\n{0+0 0+0 0}" }
    a_name_with_an_equals_sign_in_skip_messages { more: &[b"if=a=x", b"skip=9"], files: &[("a=x", b"abc")], stderr: "dd: 'a=x': cannot skip to specified offset\n{0+0 0+0 0}" }
    a_name_with_brackets_in_skip_messages { more: &[b"if=[x]", b"skip=9"], files: &[("[x]", b"abc")], stderr: "dd: '[x]': cannot skip to specified offset\n{0+0 0+0 0}" }
    a_name_with_a_colon_in_skip_messages { more: &[b"if=e:f", b"skip=9"], files: &[("e:f", b"abc")], stderr: "dd: 'e:f': cannot skip to specified offset\n{0+0 0+0 0}" }
    a_name_with_braces_in_skip_messages { more: &[b"if={x}", b"skip=9"], files: &[("{x}", b"abc")], stderr: "dd: {x}: cannot skip to specified offset\n{0+0 0+0 0}" }
    a_brace_alone_in_skip_messages { shell: "for name in '{' '}' '{x' ']'; do printf abc >$name; dd if=$name skip=9 2>&1 | head -n 1; done",
        output: b"dd: '{': cannot skip to specified offset\ndd: '}': cannot skip to specified offset\ndd: {x: cannot skip to specified offset\ndd: ]: cannot skip to specified offset\n" }
    a_name_of_punctuation_in_skip_messages { more: &[b"if=a.b,c+d-e@g%h_i]}", b"skip=9"], files: &[("a.b,c+d-e@g%h_i]}", b"abc")], stderr: "dd: a.b,c+d-e@g%h_i]}: cannot skip to specified offset\n{0+0 0+0 0}" }
    a_name_with_a_backslash_in_skip_messages { more: &[b"if=a\\x", b"skip=9"], files: &[("a\\x", b"abc")], stderr: "dd: 'a\\x': cannot skip to specified offset\n{0+0 0+0 0}" }
    a_name_with_an_exclamation_mark_in_skip_messages { more: &[b"if=a!x", b"skip=9"], files: &[("a!x", b"abc")], stderr: "dd: 'a!x': cannot skip to specified offset\n{0+0 0+0 0}" }
    a_name_with_a_caret_in_skip_messages { more: &[b"if=a^x", b"skip=9"], files: &[("a^x", b"abc")], stderr: "dd: 'a^x': cannot skip to specified offset\n{0+0 0+0 0}" }
    a_name_with_a_control_character_in_skip_messages { more: &[b"if=a\x02", b"skip=9"], files: &[("a\x02", b"abc")], stderr: "dd: 'a'$'\\002': cannot skip to specified offset\n{0+0 0+0 0}" }
    numbers_are_quoted_for_a_locale { more: &[b"bs=it's"], stderr: "dd: invalid number: 'it\\'s'\n", end: End::Exit(1) }
    operands_are_quoted_for_a_locale { more: &[b"a\nb"], stderr: "dd: unrecognized operand 'a\\nb'\nTry 'dd --help' for more information.\n", end: End::Exit(1) }
    operands_that_are_not_text_are_quoted { more: &[b"\xff=1"], stderr: "dd: unrecognized operand '\\377=1'\nTry 'dd --help' for more information.\n", end: End::Exit(1) }
    list_words_are_quoted_for_a_locale { more: &[b"conv=it's"], stderr: "dd: invalid conversion: 'it\\'s'\nTry 'dd --help' for more information.\n", end: End::Exit(1) }
    list_words_with_a_newline { more: &[b"conv=a\nb"], stderr: "dd: invalid conversion: 'a\\nb'\nTry 'dd --help' for more information.\n", end: End::Exit(1) }
    list_words_that_are_not_text { more: &[b"iflag=\xff"], stderr: "dd: invalid input flag: '\\377'\nTry 'dd --help' for more information.\n", end: End::Exit(1) }
    list_words_with_a_backslash { more: &[b"oflag=a\\b"], stderr: "dd: invalid output flag: 'a\\\\b'\nTry 'dd --help' for more information.\n", end: End::Exit(1) }
    an_unknown_long_option { args: "--zzz", stderr: "dd: unrecognized option '--zzz'\nTry 'dd --help' for more information.\n", end: End::Exit(1) }
    a_long_option_with_a_value_it_does_not_take { args: "--help=x", stderr: "dd: option '--help' doesn't allow an argument\nTry 'dd --help' for more information.\n", end: End::Exit(1) }
    an_unknown_short_option { args: "-x", stderr: "dd: invalid option -- 'x'\nTry 'dd --help' for more information.\n", end: End::Exit(1) }
    the_first_of_two_short_options_is_reported { args: "-xy", stderr: "dd: invalid option -- 'x'\nTry 'dd --help' for more information.\n", end: End::Exit(1) }
    a_dash_alone_is_an_operand { args: "-", stderr: "dd: unrecognized operand '-'\nTry 'dd --help' for more information.\n", end: End::Exit(1) }
    options_are_looked_at_before_operands { args: "foo=1 --zzz", stderr: "dd: unrecognized option '--zzz'\nTry 'dd --help' for more information.\n", end: End::Exit(1) }
    a_wrong_flag_of_output_is_called_an_output_flag { args: "oflag=nope", stderr: "dd: invalid output flag: 'nope'\nTry 'dd --help' for more information.\n", end: End::Exit(1) }
    the_name_in_messages_is_the_programs_own { shell: "ln -s \"$(command -v dd)\" mydd; ./mydd if=nope 2>&1 | sed 's/^\\.\\///'", output: b"mydd: failed to open 'nope': No such file or directory\n" }
    the_try_line_names_the_program_as_typed { shell: "ln -s \"$(command -v dd)\" mydd; ./mydd foo 2>&1 | tail -n 1", output: b"Try './mydd --help' for more information.\n" }
    quotes_of_words_follow_a_utf_8_locale { args: "conv=nope", env: &[("LC_ALL", "C.UTF-8")], stderr: "dd: invalid conversion: \u{2018}nope\u{2019}\nTry 'dd --help' for more information.\n", end: End::Exit(1) }
    quotes_of_the_zero_multiplier_follow_a_utf_8_locale { args: "count=0x1 status=none", env: &[("LC_ALL", "C.UTF-8")], stderr: "dd: warning: \u{2018}0x\u{2019} is a zero multiplier; use \u{2018}00x\u{2019} if that is intended\n" }
    names_in_a_utf_8_locale_keep_their_letters { more: &["if=\u{e9}".as_bytes()], env: &[("LC_ALL", "C.UTF-8")], stderr: "dd: failed to open '\u{e9}': No such file or directory\n", end: End::Exit(1) }
    names_in_the_c_locale_escape_their_letters { more: &["if=\u{e9}".as_bytes()], stderr: "dd: failed to open ''$'\\303\\251': No such file or directory\n", end: End::Exit(1) }
    bytes_that_are_not_text_in_a_utf_8_locale { more: &[b"if=\xffx"], env: &[("LC_ALL", "C.UTF-8")], stderr: "dd: failed to open ''$'\\377''x': No such file or directory\n", end: End::Exit(1) }
}
