//! The grammar of numbers: suffixes, products, bytes, and where the limits are.

use crate::support::End;
use crate::support::row::{Gnu, In};

/// The shortest way to see a number: the size of a file made by seek.
macro_rules! size_rows {
    ($($name:ident { $number:literal => $size:literal $(, gnu: $gnu:expr)? $(,)? })*) => { crate::rows! { $(
        $name {
            more: &[concat!("seek=", $number).as_bytes()],
            shell: "dd of=out count=0 obs=1 status=none \"$@\" && stat -c %s out", output: concat!($size, "\n").as_bytes(),
            $(gnu: $gnu,)?
        }
    )* } };
}

/// Numbers that are refused as a block size, with what follows the number in the message.
macro_rules! refused_rows {
    ($($name:ident { $number:literal $(, why: $why:literal)? $(, warning: $warning:literal)? $(, gnu: $gnu:expr)? $(,)? })*) => { crate::rows! { $(
        $name {
            more: &[concat!("bs=", $number).as_bytes()], end: End::Exit(1),
            stderr: concat!($($warning,)? "dd: invalid number: '", $number, "'", $($why,)? "\n"),
            $(gnu: $gnu,)?
        }
    )* } };
}

const CHAINS: Gnu = Gnu::Before((9, 4), "products of more than two factors, and B behind the first, are refused");

size_rows! {
    plain_digits_are_decimal { "010" => "10" }
    zero_is_a_position { "0" => "0" }
    c_is_one { "3c" => "3" }
    w_is_two { "3w" => "6" }
    b_is_512 { "3b" => "1536" }
    k_is_1024 { "3k" => "3072" }
    upper_k_is_1024 { "3K" => "3072" }
    m_is_1024_squared { "3M" => "3145728" }
    g_is_1024_cubed { "3G" => "3221225472" }
    t_is_1024_to_the_fourth { "2T" => "2199023255552" }
    kb_is_1000 { "3kB" => "3000" }
    upper_kb_is_1000 { "3KB" => "3000" }
    mb_is_1000_squared { "3MB" => "3000000" }
    gb_is_1000_cubed { "3GB" => "3000000000" }
    kd_is_1000_as_of_old { "3kD" => "3000" }
    md_is_1000_squared_as_of_old { "3MD" => "3000000" }
    kib_is_1024 { "3kiB" => "3072" }
    upper_kib_is_1024 { "3KiB" => "3072" }
    mib_is_1024_squared { "3MiB" => "3145728" }
    a_suffix_alone_means_one { "k" => "1024" }
    a_suffix_with_b_alone_means_one { "KB" => "1000" }
    blanks_may_stand_in_front { " 5" => "5" }
    a_tab_may_stand_in_front { "\t5" => "5" }
    a_plus_may_stand_in_front { "+5" => "5" }
    x_multiplies { "2x3" => "6" }
    x_multiplies_suffixed_numbers { "2kx3w" => "12288" }
    x_multiplies_suffixes_alone { "kxk" => "1048576" }
    x_multiplies_any_number_of_factors { "1x2x3x4" => "24", gnu: CHAINS }
    b_may_stand_on_any_factor { "2x3B" => "6", gnu: CHAINS }
    b_may_stand_on_every_factor { "2Bx4B" => "8", gnu: CHAINS }
    a_zero_factor_makes_the_product_zero { "00x5" => "0" }
    a_zero_factor_cancels_an_overflow { "00x99999999999999999999999" => "0" }
    a_zero_of_any_suffix_is_zero { "0Z" => "0" }
    a_zero_of_the_newest_suffixes_is_zero { "0Q" => "0", gnu: Gnu::Old("R and Q are unknown") }
    a_b_behind_a_suffix_of_one_letter { "5bB" => "2560" }
    a_b_behind_w { "5wB" => "10" }
    a_b_behind_c { "5cB" => "5" }
    b_in_the_first_factor_of_two { "2Bx4" => "8" }
    b_means_bytes_also_with_a_decimal_suffix { "1kB" => "1000" }
}

refused_rows! {
    no_block_has_size_zero { "0" }
    a_number_may_not_be_empty { "" }
    a_minus_is_no_part_of_a_number { "-1" }
    hexadecimal_is_a_zero_multiplier { "0x10", warning: "dd: warning: '0x' is a zero multiplier; use '00x' if that is intended\n" }
    a_fraction_is_no_number { "1.5" }
    an_exponent_is_no_number { "1e3" }
    b_alone_is_no_number { "B" }
    a_factor_may_not_be_empty { "x1" }
    the_last_factor_may_not_be_empty { "1x" }
    a_middle_factor_may_not_be_empty { "1xx1" }
    blanks_may_not_stand_behind { "5 " }
    two_signs_are_no_number { "++5" }
    ki_needs_its_b { "1Ki" }
    b_may_not_be_doubled { "1KiBB" }
    b_b_is_no_suffix { "1BB" }
    kbb_is_no_suffix { "1KBB" }
    upper_x_does_not_multiply { "2X3" }
    an_asterisk_does_not_multiply { "2*3" }
    suffixes_do_not_stack { "1kk" }
    an_unknown_suffix { "1s" }
    letters_behind_a_suffix { "1kilo" }
    two_to_the_63_is_too_large { "9223372036854775808", why: ": Value too large for defined data type" }
    the_largest_offset_is_too_large_for_a_block { "9223372036854775807", why: ": Value too large for defined data type" }
    digits_without_end_are_too_large { "99999999999999999999999999", why: ": Value too large for defined data type" }
    exbi_overflows_at_eight { "8E", why: ": Value too large for defined data type" }
    zetta_always_overflows { "1Z", why: ": Value too large for defined data type" }
    yotta_always_overflows { "1YB", why: ": Value too large for defined data type" }
    ronna_always_overflows { "1R", why: ": Value too large for defined data type", gnu: Gnu::Old("R is unknown") }
    quetta_always_overflows { "1QiB", why: ": Value too large for defined data type", gnu: Gnu::Before((9, 2), "Q is unknown") }
    a_product_overflows { "4611686018427387904x2", why: ": Value too large for defined data type" }
    an_overflow_hides_a_wrong_suffix { "99999999999999999999999z", why: ": Value too large for defined data type" }
}

crate::rows! {
    count_may_be_the_largest_offset { args: "count=9223372036854775807", stdin: In::Pipe(b"a"), output: b"a", stderr: "{0+1 0+1 1}" }
    count_may_not_be_two_to_the_63 {
        args: "count=9223372036854775808",
        stderr: "dd: invalid number: '9223372036854775808': Value too large for defined data type\n", end: End::Exit(1),
    }
    cbs_may_not_be_zero { args: "cbs=0", stderr: "dd: invalid number: '0'\n", end: End::Exit(1) }
    ibs_may_not_be_zero { args: "ibs=0", stderr: "dd: invalid number: '0'\n", end: End::Exit(1) }
    obs_may_not_be_zero { args: "obs=0", stderr: "dd: invalid number: '0'\n", end: End::Exit(1) }
    the_largest_block_is_a_size_if_nothing_is_read {
        args: "bs=9223372036854775806 count=0", stderr: "{0+0 0+0 0}",
    }
    b_makes_count_a_number_of_bytes { args: "bs=2 count=3B", stdin: In::Pipe(b"abcdef"), output: b"abc", stderr: "{1+1 1+1 3}" }
    b_in_a_factor_makes_count_bytes { args: "bs=2 count=1Bx3", stdin: In::Pipe(b"abcdef"), output: b"abc", stderr: "{1+1 1+1 3}" }
    kb_makes_count_bytes {
        args: "bs=600 count=1kB", stdin: In::Pipe(&[b'a'; 3000]), output: &[b'a'; 1000], stderr: "{1+1 1+1 1000 (1.0 kB)}",
    }
    b_makes_skip_a_number_of_bytes { args: "bs=2 skip=3B", stdin: In::File(b"abcdef", 0), output: b"def", stderr: "{1+1 1+1 3}" }
    b_makes_seek_a_number_of_bytes {
        args: "bs=2 seek=3B conv=notrunc of=out", stdin: In::Pipe(b"XY"), files: &[("out", b"abcdef")], stderr: "{1+0 1+0 2}",
        after: &[("out", Some(b"abcXYf"))],
    }
    b_does_not_change_a_block_size { args: "bs=2B count=1", stdin: In::Pipe(b"abcdef"), output: b"ab", stderr: "{1+0 1+0 2}" }
    the_last_count_decides_whether_it_is_bytes { args: "bs=2 count=5B count=2", stdin: In::Pipe(b"abcdef"), output: b"abcd", stderr: "{2+0 2+0 4}" }
    zero_bytes_is_count_zero { args: "count=0B", stdin: In::Pipe(b"abc"), stderr: "{0+0 0+0 0}" }
    a_zero_multiplier_is_warned_of {
        args: "count=0x1", stdin: In::Pipe(b"a"),
        stderr: "dd: warning: '0x' is a zero multiplier; use '00x' if that is intended\n{0+0 0+0 0}",
    }
    a_zero_multiplier_is_warned_of_with_status_none {
        args: "status=none count=0x1", stdin: In::Pipe(b"a"),
        stderr: "dd: warning: '0x' is a zero multiplier; use '00x' if that is intended\n",
    }
    a_zero_multiplier_is_warned_of_once_an_operand {
        args: "count=0x1 skip=0x2 seek=0x3", stdin: In::File(b"a", 0), output: b"",
        stderr: "dd: warning: '0x' is a zero multiplier; use '00x' if that is intended\n\
                 dd: warning: '0x' is a zero multiplier; use '00x' if that is intended\n\
                 dd: warning: '0x' is a zero multiplier; use '00x' if that is intended\n{0+0 0+0 0}",
    }
    two_zero_multipliers_in_one_number_are_one_warning {
        args: "count=0x0x1", stderr: "dd: warning: '0x' is a zero multiplier; use '00x' if that is intended\n{0+0 0+0 0}", gnu: CHAINS,
    }
    a_zero_multiplier_behind_another_factor_is_warned_of {
        args: "count=5x0x2", stderr: "dd: warning: '0x' is a zero multiplier; use '00x' if that is intended\n{0+0 0+0 0}", gnu: CHAINS,
    }
    two_zeros_and_an_x_are_intended { args: "count=00x1", stderr: "{0+0 0+0 0}" }
    a_product_of_ten_thousand_factors_needs_no_stack {
        shell: "ulimit -s 256; dd count=$(printf '1x%.0s' $(seq 10000))1 bs=1", stdin: In::Pipe(b"abc"), output: b"a",
        stderr: "{1+0 1+0 1}", gnu: CHAINS,
    }
    lower_case_letters_count_as_upper_case_ones_for_the_smallest_only {
        args: "count=1K bs=1", stdin: In::Pipe(b"a"), output: b"a", stderr: "{1+0 1+0 1}",
    }
}
