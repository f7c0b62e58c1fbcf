//! Chance that can be had again: a case is a function of its seed and its number.

pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64, case: u64) -> Self {
        let mut random = Self(seed ^ case.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for _ in 0..3 {
            random.next();
        }
        random
    }

    /// splitmix64.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Less than `limit`; 0 if that is 0.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        ((u128::from(self.next()) * limit as u128) >> 64) as usize
    }

    pub(crate) fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }

    /// Bytes of which every fourth or so is one of `likely`.
    pub(crate) fn bytes(&mut self, most: usize, likely: &[u8]) -> Vec<u8> {
        (0..self.below(most + 1))
            .map(|_| {
                if self.one_in(4) {
                    self.next() as u8
                } else {
                    likely[self.below(likely.len())]
                }
            })
            .collect()
    }

    /// Changes a few places of `bytes`; `tokens` are what is put in.
    pub(crate) fn mutate(&mut self, bytes: &mut Vec<u8>, tokens: &[&str]) {
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len() + 1);
            let to = (at + self.below(12)).min(bytes.len());
            match self.below(8) {
                0 => drop(bytes.drain(at..to)),
                1 => {
                    let copy = bytes[at..to].to_vec();
                    let times = 1 + self.below(20);
                    bytes.splice(at..at, copy.repeat(times));
                }
                2 if at < bytes.len() => bytes[at] = self.next() as u8,
                3 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                4 => bytes.truncate(at),
                5 => {
                    let from = self.below(bytes.len() + 1);
                    let piece = bytes[from..(from + self.below(40)).min(bytes.len())].to_vec();
                    bytes.splice(at..at, piece);
                }
                _ => drop(bytes.splice(at..at, self.pick(tokens).bytes())),
            }
        }
        bytes.truncate(4096);
    }
}
