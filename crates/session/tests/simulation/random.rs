//! A seeded generator, so that a life can be lived again: splitmix64.

/// Everything that happens in a life is drawn from here.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to `limit`, which it may be.
    pub(crate) const fn up_to(&mut self, limit: usize) -> usize {
        (self.next() % (limit as u64 + 1)) as usize
    }

    pub(crate) const fn between(&mut self, least: usize, most: usize) -> usize {
        least + self.up_to(most - least)
    }

    /// True once in `many`.
    pub(crate) const fn one_in(&mut self, many: usize) -> bool {
        self.up_to(many - 1) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.up_to(from.len() - 1)]
    }
}
