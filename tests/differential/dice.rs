//! Numbers that are the same on every run: each case has its own, so that it can be had alone.

/// A source of pseudo-random numbers (SplitMix64).
pub(crate) struct Dice {
    state: u64,
    /// Names of what was thrown that the servers are known to differ in.
    pub(crate) notes: Vec<&'static str>,
}

impl Dice {
    pub(crate) fn new(seed: u64, case: u64) -> Self {
        let mut dice = Self {
            state: seed.wrapping_mul(0x9e37_79b9).wrapping_add(case << 20),
            notes: Vec::new(),
        };
        dice.next();
        dice
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to `end` without it.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    /// Once in `n` times.
    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len())]
    }
}
