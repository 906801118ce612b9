//! A random order that can be had again: a seed gives the same one on every machine.

/// SplitMix64: small, and good enough to decide who goes first.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn from_seed(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not zero. The bias of the remainder is below 2^-50 for the bounds used here.
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).expect("below a usize")
    }

    /// All numbers below `count`, in random order.
    pub(crate) fn order(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            order.swap(last, self.below(last + 1));
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_holds_each_number_once() {
        for count in [0, 1, 2, 7, 100] {
            let mut order = Random::from_seed(3).order(count);
            order.sort_unstable();
            assert_eq!(order, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_seed_gives_the_same_order_again_and_another_seed_another() {
        let order = |seed| Random::from_seed(seed).order(20);
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
    }

    #[test]
    fn each_of_three_goes_first_about_as_often() {
        let mut random = Random::from_seed(1);
        let mut first = [0; 3];
        for _ in 0..3000 {
            first[random.order(3)[0]] += 1;
        }
        assert!(first.iter().all(|&times| (900..1100).contains(&times)), "{first:?}");
    }

    #[test]
    fn the_sequence_is_that_of_splitmix64() {
        let mut random = Random::from_seed(1_234_567);
        assert_eq!(random.next(), 6_457_827_717_110_365_317);
        assert_eq!(random.next(), 3_203_168_211_198_807_973);
    }
}
