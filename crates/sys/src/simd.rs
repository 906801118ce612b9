//! Table look-up, byte shuffle and zero test: safe functions that dispatch to the best instructions at run time.
//!
//! A [`Backend`] is chosen once, by whoever is going to convert many blocks, and does the same to the same bytes whichever it
//! is; the tests hold every backend that this machine can run against loops of five lines.

/// The instructions that the functions of this module are made of: a value exists only where the machine can run them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backend(Isa);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Isa {
    /// AVX-512 F, BW and VBMI: a table of 256 bytes in four registers.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "aarch64")]
    Neon,
    Portable,
}

impl Isa {
    /// The fastest first.
    const ALL: &[Isa] = &[
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2,
        #[cfg(target_arch = "aarch64")]
        Isa::Neon,
        Isa::Portable,
    ];

    fn is_available(self) -> bool {
        match self {
            // The standard library asks the processor once and remembers the answer.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vbmi")
            }
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => is_x86_feature_detected!("avx2"),
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            Isa::Portable => true,
        }
    }
}

/// Calls a function of the backend's module.
macro_rules! dispatch {
    ($backend:expr, $function:ident($($argument:expr),*)) => {
        match $backend.0 {
            // SAFETY: this variant exists only where `is_available` found the features that the function is compiled for.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => unsafe { avx512::$function($($argument),*) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => unsafe { avx2::$function($($argument),*) },
            // SAFETY: as above.
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => unsafe { neon::$function($($argument),*) },
            Isa::Portable => portable::$function($($argument),*),
        }
    };
}

impl Backend {
    /// The fastest backend that this machine can run.
    pub fn best() -> Backend {
        Backend::available().next().unwrap_or(Backend(Isa::Portable))
    }

    /// Every backend that this machine can run, the fastest first; the portable one is always the last of them.
    pub fn available() -> impl Iterator<Item = Backend> {
        Isa::ALL.iter().copied().filter(|isa| isa.is_available()).map(Backend)
    }

    /// The name for reports and benchmarks, such as `avx2`.
    pub fn name(self) -> &'static str {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => "avx512",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => "avx2",
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => "neon",
            Isa::Portable => "portable",
        }
    }

    /// Replaces each byte of `buf` by its entry in `table`.
    pub fn translate(self, table: &[u8; 256], buf: &mut [u8]) {
        dispatch!(self, translate(table, buf));
    }

    /// Swaps the first byte with the second, the third with the fourth, and so on; an odd last byte stays.
    pub fn swab_pairs(self, buf: &mut [u8]) {
        dispatch!(self, swab_pairs(buf));
    }

    /// Whether every byte of `buf` is NUL; an empty `buf` is. Stops soon after the first byte that is not.
    pub fn is_zero(self, buf: &[u8]) -> bool {
        dispatch!(self, is_zero(buf))
    }

    /// The length of `buf` without the run of `byte` at its end.
    pub fn trimmed_len(self, byte: u8, buf: &[u8]) -> usize {
        dispatch!(self, trimmed_len(byte, buf))
    }
}

/// [`Backend::translate`] with the best backend.
pub fn translate(table: &[u8; 256], buf: &mut [u8]) {
    Backend::best().translate(table, buf);
}

/// [`Backend::swab_pairs`] with the best backend.
pub fn swab_pairs(buf: &mut [u8]) {
    Backend::best().swab_pairs(buf);
}

/// [`Backend::is_zero`] with the best backend.
pub fn is_zero(buf: &[u8]) -> bool {
    Backend::best().is_zero(buf)
}

/// Loops that the compiler turns into the vectors of the least machine of the architecture, where it can; what the other
/// backends leave over at the end of a buffer comes here too.
mod portable {
    pub(super) fn translate(table: &[u8; 256], buf: &mut [u8]) {
        for byte in buf {
            *byte = table[usize::from(*byte)];
        }
    }

    pub(super) fn swab_pairs(buf: &mut [u8]) {
        for pair in buf.as_chunks_mut::<2>().0 {
            pair.swap(0, 1);
        }
    }

    pub(super) fn is_zero(buf: &[u8]) -> bool {
        // A fixed width without an exit inside it becomes a few vector instructions.
        let (chunks, rest) = buf.as_chunks::<64>();
        chunks.iter().all(|chunk| chunk.iter().fold(0, |all, byte| all | byte) == 0)
            && rest.iter().all(|byte| *byte == 0)
    }

    pub(super) fn trimmed_len(byte: u8, buf: &[u8]) -> usize {
        // Words rather than bytes: the pads of records are tens of bytes long.
        let word = u64::from_ne_bytes([byte; 8]);
        let (_, words) = buf.as_rchunks::<8>();
        let full = words.iter().rev().take_while(|chunk| u64::from_ne_bytes(**chunk) == word).count() * 8;
        let rest = &buf[..buf.len() - full];
        rest.iter().rposition(|last| *last != byte).map_or(0, |last| last + 1)
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::{
        __m512i, _mm512_cmpneq_epi8_mask, _mm512_loadu_si512, _mm512_mask_blend_epi8, _mm512_mask_storeu_epi8,
        _mm512_maskz_loadu_epi8, _mm512_movepi8_mask, _mm512_or_si512, _mm512_permutex2var_epi8, _mm512_set1_epi8,
        _mm512_set4_epi32, _mm512_shuffle_epi8, _mm512_storeu_si512, _mm512_test_epi8_mask,
    };

    const WIDTH: usize = 64;

    // Every function here has the same features, so that each can be inlined into each.

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn load(chunk: &[u8; WIDTH]) -> __m512i {
        // SAFETY: the 64 bytes are readable, and the instruction asks for no alignment.
        unsafe { _mm512_loadu_si512(chunk.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn store(chunk: &mut [u8; WIDTH], bytes: __m512i) {
        // SAFETY: the 64 bytes are writable, and the instruction asks for no alignment.
        unsafe { _mm512_storeu_si512(chunk.as_mut_ptr().cast(), bytes) }
    }

    /// A bit for each byte of `rest`, which is less than a vector.
    #[inline]
    fn mask_of(rest: &[u8]) -> u64 {
        assert!(rest.len() < WIDTH);
        (1 << rest.len()) - 1
    }

    /// Zeros stand for what is missing.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn load_rest(rest: &[u8]) -> __m512i {
        // SAFETY: the mask lets through only bytes of `rest`, and the instruction touches no others.
        unsafe { _mm512_maskz_loadu_epi8(mask_of(rest), rest.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn store_rest(rest: &mut [u8], bytes: __m512i) {
        // SAFETY: the mask lets through only bytes of `rest`, and the instruction touches no others.
        unsafe { _mm512_mask_storeu_epi8(rest.as_mut_ptr().cast(), mask_of(rest), bytes) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn map(buf: &mut [u8], change: impl Fn(__m512i) -> __m512i) {
        let (chunks, rest) = buf.as_chunks_mut::<WIDTH>();
        for chunk in chunks {
            store(chunk, change(load(chunk)));
        }
        if !rest.is_empty() {
            store_rest(rest, change(load_rest(rest)));
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    pub(super) fn translate(table: &[u8; 256], buf: &mut [u8]) {
        let quarters = table.as_chunks::<WIDTH>().0;
        let (first, second) = (load(&quarters[0]), load(&quarters[1]));
        let (third, fourth) = (load(&quarters[2]), load(&quarters[3]));
        // A permutation looks at seven bits; the eighth says which half of the table is meant.
        map(buf, |bytes| {
            let lower = _mm512_permutex2var_epi8(first, bytes, second);
            let upper = _mm512_permutex2var_epi8(third, bytes, fourth);
            _mm512_mask_blend_epi8(_mm512_movepi8_mask(bytes), lower, upper)
        });
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    pub(super) fn swab_pairs(buf: &mut [u8]) {
        let even = buf.len() & !1;
        // 1, 0, 3, 2 ... within each sixteen bytes.
        let order = _mm512_set4_epi32(0x0e0f_0c0d, 0x0a0b_0809, 0x0607_0405, 0x0203_0001);
        map(&mut buf[..even], |bytes| _mm512_shuffle_epi8(bytes, order));
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    pub(super) fn is_zero(buf: &[u8]) -> bool {
        let (groups, rest) = buf.as_chunks::<{ 4 * WIDTH }>();
        let zero_group = |group: &[u8; 4 * WIDTH]| {
            let chunks = group.as_chunks::<WIDTH>().0;
            let halves = (
                _mm512_or_si512(load(&chunks[0]), load(&chunks[1])),
                _mm512_or_si512(load(&chunks[2]), load(&chunks[3])),
            );
            let all = _mm512_or_si512(halves.0, halves.1);
            _mm512_test_epi8_mask(all, all) == 0
        };
        groups.iter().all(zero_group) && super::portable::is_zero(rest)
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    pub(super) fn trimmed_len(byte: u8, buf: &[u8]) -> usize {
        let pattern = _mm512_set1_epi8(byte.cast_signed());
        let (rest, chunks) = buf.as_rchunks::<WIDTH>();
        for (at, chunk) in chunks.iter().enumerate().rev() {
            let others = _mm512_cmpneq_epi8_mask(load(chunk), pattern);
            if others != 0 {
                return rest.len() + at * WIDTH + bits_to_last(others);
            }
        }
        bits_to_last(_mm512_cmpneq_epi8_mask(load_rest(rest), pattern) & mask_of(rest))
    }

    /// How many bits there are up to the last one that is set.
    #[inline]
    fn bits_to_last(mask: u64) -> usize {
        WIDTH - mask.leading_zeros() as usize
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::{
        __m256i, _mm_loadu_si128, _mm256_adds_epu8, _mm256_broadcastsi128_si256, _mm256_cmpeq_epi8, _mm256_loadu_si256,
        _mm256_movemask_epi8, _mm256_or_si256, _mm256_set1_epi8, _mm256_setr_epi8, _mm256_setzero_si256,
        _mm256_shuffle_epi8, _mm256_storeu_si256, _mm256_testz_si256, _mm256_xor_si256,
    };

    use super::portable;

    const WIDTH: usize = 32;

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(chunk: &[u8; WIDTH]) -> __m256i {
        // SAFETY: the 32 bytes are readable, and the instruction asks for no alignment.
        unsafe { _mm256_loadu_si256(chunk.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn store(chunk: &mut [u8; WIDTH], bytes: __m256i) {
        // SAFETY: the 32 bytes are writable, and the instruction asks for no alignment.
        unsafe { _mm256_storeu_si256(chunk.as_mut_ptr().cast(), bytes) }
    }

    /// Sixteen bytes, in both halves.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn load_twice(row: &[u8; 16]) -> __m256i {
        // SAFETY: the 16 bytes are readable, and the instruction asks for no alignment.
        _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(row.as_ptr().cast()) })
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn translate(table: &[u8; 256], buf: &mut [u8]) {
        let (chunks, rest) = buf.as_chunks_mut::<WIDTH>();
        let rows = table.as_chunks::<16>().0;
        for chunk in chunks {
            let bytes = load(chunk);
            let mut translated = _mm256_setzero_si256();
            // A shuffle looks up four bits and gives zero where the top bit is set. The high nibble less the row's number is
            // zero where the row is meant; adding 0x70 with saturation sets the top bit everywhere else.
            for (number, row) in (0..16_i8).zip(rows) {
                let index = _mm256_xor_si256(bytes, _mm256_set1_epi8(number << 4));
                let index = _mm256_adds_epu8(index, _mm256_set1_epi8(0x70));
                translated = _mm256_or_si256(translated, _mm256_shuffle_epi8(load_twice(row), index));
            }
            store(chunk, translated);
        }
        portable::translate(table, rest);
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn swab_pairs(buf: &mut [u8]) {
        #[rustfmt::skip]
        let order = _mm256_setr_epi8(
            1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14,
            1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14,
        );
        let (chunks, rest) = buf.as_chunks_mut::<WIDTH>();
        for chunk in chunks {
            store(chunk, _mm256_shuffle_epi8(load(chunk), order));
        }
        portable::swab_pairs(rest);
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn is_zero(buf: &[u8]) -> bool {
        let (groups, rest) = buf.as_chunks::<{ 4 * WIDTH }>();
        let zero_group = |group: &[u8; 4 * WIDTH]| {
            let chunks = group.as_chunks::<WIDTH>().0;
            let halves = (
                _mm256_or_si256(load(&chunks[0]), load(&chunks[1])),
                _mm256_or_si256(load(&chunks[2]), load(&chunks[3])),
            );
            let all = _mm256_or_si256(halves.0, halves.1);
            _mm256_testz_si256(all, all) == 1
        };
        groups.iter().all(zero_group) && portable::is_zero(rest)
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn trimmed_len(byte: u8, buf: &[u8]) -> usize {
        let pattern = _mm256_set1_epi8(byte.cast_signed());
        let (rest, chunks) = buf.as_rchunks::<WIDTH>();
        for (at, chunk) in chunks.iter().enumerate().rev() {
            let others = !_mm256_movemask_epi8(_mm256_cmpeq_epi8(load(chunk), pattern)).cast_unsigned();
            if others != 0 {
                return rest.len() + (at + 1) * WIDTH - others.leading_zeros() as usize;
            }
        }
        portable::trimmed_len(byte, rest)
    }
}

/// Baseline on this architecture; not measured.
#[cfg(target_arch = "aarch64")]
mod neon {
    use std::arch::aarch64::{
        uint8x16_t, uint8x16x4_t, vdupq_n_u8, veorq_u8, vld1q_u8, vmaxvq_u8, vorrq_u8, vqtbl4q_u8, vqtbx4q_u8,
        vrev16q_u8, vst1q_u8,
    };

    use super::portable;

    const WIDTH: usize = 16;

    #[inline]
    #[target_feature(enable = "neon")]
    fn load(chunk: &[u8; WIDTH]) -> uint8x16_t {
        // SAFETY: the 16 bytes are readable, and the instruction asks for no alignment.
        unsafe { vld1q_u8(chunk.as_ptr()) }
    }

    #[inline]
    #[target_feature(enable = "neon")]
    fn store(chunk: &mut [u8; WIDTH], bytes: uint8x16_t) {
        // SAFETY: the 16 bytes are writable, and the instruction asks for no alignment.
        unsafe { vst1q_u8(chunk.as_mut_ptr(), bytes) }
    }

    #[target_feature(enable = "neon")]
    pub(super) fn translate(table: &[u8; 256], buf: &mut [u8]) {
        let rows = table.as_chunks::<WIDTH>().0;
        let quarter = |at: usize| {
            let rows = &rows[at * 4..];
            uint8x16x4_t(load(&rows[0]), load(&rows[1]), load(&rows[2]), load(&rows[3]))
        };
        let quarters = [quarter(0), quarter(1), quarter(2), quarter(3)];
        let (chunks, rest) = buf.as_chunks_mut::<WIDTH>();
        for chunk in chunks {
            // An index of 64 or more leaves the byte as the look-ups before it made it.
            let bytes = load(chunk);
            let mut translated = vqtbl4q_u8(quarters[0], bytes);
            translated = vqtbx4q_u8(translated, quarters[1], veorq_u8(bytes, vdupq_n_u8(0x40)));
            translated = vqtbx4q_u8(translated, quarters[2], veorq_u8(bytes, vdupq_n_u8(0x80)));
            translated = vqtbx4q_u8(translated, quarters[3], veorq_u8(bytes, vdupq_n_u8(0xc0)));
            store(chunk, translated);
        }
        portable::translate(table, rest);
    }

    #[target_feature(enable = "neon")]
    pub(super) fn swab_pairs(buf: &mut [u8]) {
        let (chunks, rest) = buf.as_chunks_mut::<WIDTH>();
        for chunk in chunks {
            store(chunk, vrev16q_u8(load(chunk)));
        }
        portable::swab_pairs(rest);
    }

    #[target_feature(enable = "neon")]
    pub(super) fn is_zero(buf: &[u8]) -> bool {
        let (groups, rest) = buf.as_chunks::<{ 4 * WIDTH }>();
        let zero_group = |group: &[u8; 4 * WIDTH]| {
            let chunks = group.as_chunks::<WIDTH>().0;
            let halves = (vorrq_u8(load(&chunks[0]), load(&chunks[1])), vorrq_u8(load(&chunks[2]), load(&chunks[3])));
            vmaxvq_u8(vorrq_u8(halves.0, halves.1)) == 0
        };
        groups.iter().all(zero_group) && portable::is_zero(rest)
    }

    #[target_feature(enable = "neon")]
    pub(super) fn trimmed_len(byte: u8, buf: &[u8]) -> usize {
        portable::trimmed_len(byte, buf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each function is to do, slowly.
    mod naive {
        pub(super) fn translate(table: &[u8; 256], buf: &mut [u8]) {
            buf.iter_mut().for_each(|byte| *byte = table[*byte as usize]);
        }

        pub(super) fn swab_pairs(buf: &mut [u8]) {
            buf.chunks_exact_mut(2).for_each(<[u8]>::reverse);
        }

        pub(super) fn trimmed_len(byte: u8, buf: &[u8]) -> usize {
            let trailing = buf.iter().rev().take_while(|last| **last == byte).count();
            buf.len() - trailing
        }
    }

    /// Every length up to some vectors and their rests, at places that are aligned to nothing; fewer where Miri interprets.
    fn spans() -> impl Iterator<Item = std::ops::Range<usize>> {
        let lengths: Vec<usize> =
            if cfg!(miri) { vec![0, 1, 2, 8, 15, 16, 17, 63, 64, 65, 130] } else { (0..=700).collect() };
        lengths.into_iter().flat_map(|length| [1, 7, 16].map(|start| start..start + length))
    }

    /// Bytes of every value without a period that a vector could hide.
    fn noise(length: usize) -> Vec<u8> {
        let mut state = 1_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        };
        (0..length).map(|_| next()).collect()
    }

    /// Bytes outside of the slice are compared too.
    fn check_in_place(fast: impl Fn(Backend, &mut [u8]), slow: impl Fn(&mut [u8])) {
        for span in spans() {
            let input = noise(span.end + 80);
            let mut expected = input.clone();
            slow(&mut expected[span.clone()]);
            for backend in Backend::available() {
                let mut found = input.clone();
                fast(backend, &mut found[span.clone()]);
                assert!(found == expected, "{} of {span:?}: {found:?} is not {expected:?}", backend.name());
            }
        }
    }

    #[test]
    fn translate_looks_every_byte_up() {
        let mut table = [0; 256];
        table.copy_from_slice(&noise(256));
        check_in_place(|backend, buf| backend.translate(&table, buf), |buf| naive::translate(&table, buf));
        for backend in Backend::available() {
            let mut every_byte: Vec<u8> = (0..=u8::MAX).collect();
            backend.translate(&table, &mut every_byte);
            assert_eq!(every_byte, table, "{}", backend.name());
        }
    }

    #[test]
    fn swab_pairs_leaves_an_odd_last_byte() {
        check_in_place(|backend, buf| backend.swab_pairs(buf), naive::swab_pairs);
    }

    #[test]
    fn is_zero_finds_one_bit_anywhere() {
        for span in spans() {
            // Not zero outside of the slice.
            let mut buf = vec![1; span.end + 80];
            buf[span.clone()].fill(0);
            for backend in Backend::available() {
                assert!(backend.is_zero(&buf[span.clone()]), "{} of {span:?}", backend.name());
            }
            for at in span.clone().step_by(if cfg!(miri) { 13 } else { 1 }) {
                buf[at] = 0x80;
                for backend in Backend::available() {
                    assert!(!backend.is_zero(&buf[span.clone()]), "{} of {span:?} with {at} set", backend.name());
                }
                buf[at] = 0;
            }
        }
    }

    #[test]
    fn is_zero_sees_bytes_that_are_all_the_same() {
        for len in [2, 16, 32, 64, 128, 130, 256, 1000] {
            for backend in Backend::available() {
                assert!(!backend.is_zero(&vec![5; len]), "{} of {len}", backend.name());
            }
        }
    }

    #[test]
    fn the_functions_without_a_backend_do_what_the_best_one_does() {
        let mut table = [0; 256];
        table.copy_from_slice(&noise(256));
        let (mut found, mut expected) = (noise(301), noise(301));
        translate(&table, &mut found);
        naive::translate(&table, &mut expected);
        assert_eq!(found, expected);
        swab_pairs(&mut found);
        naive::swab_pairs(&mut expected);
        assert_eq!(found, expected);
        assert!(is_zero(&[0; 301]) && !is_zero(&found));
    }

    #[test]
    fn backends_have_names_of_their_own() {
        let names: Vec<&str> = Backend::available().map(Backend::name).collect();
        let distinct: std::collections::BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
        assert_eq!(names.last(), Some(&"portable"));
    }

    #[test]
    fn trimmed_len_stops_at_the_last_other_byte() {
        for span in spans() {
            let mut buf = vec![b' '; span.end + 80];
            let text = span.start..span.start + span.len() / 3;
            for at in [None, Some(span.start), Some(text.end), span.end.checked_sub(2), span.end.checked_sub(1)] {
                buf[text.clone()].fill(b'x');
                if let Some(at) = at {
                    buf[at] = b'y';
                }
                let slice = &buf[span.clone()];
                for backend in Backend::available() {
                    let expected = naive::trimmed_len(b' ', slice);
                    assert_eq!(backend.trimmed_len(b' ', slice), expected, "{} of {slice:?}", backend.name());
                }
                buf.fill(b' ');
            }
        }
    }

    #[test]
    fn portable_is_always_there_and_the_last() {
        assert_eq!(Backend::available().last(), Some(Backend(Isa::Portable)));
        assert_eq!(Backend::available().next(), Some(Backend::best()));
    }
}
