//! The only source of chance in a simulation: one seed, one sequence.
//!
//! Everything that happens "at random" is drawn here, so a seed is a whole run.

use fastrand::Rng;

/// A seeded sequence of decisions.
#[derive(Debug)]
pub struct Dice(Rng);

impl Dice {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Dice {
        Dice(Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5151_7ea1_0000_0001))
    }

    /// A number from `low` to `high`, both included.
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        self.0.u64(low..=high)
    }

    /// A number below `bound` (which is at least 1), as an index.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0.usize(..bound)
    }

    /// True `per_mille` times in a thousand.
    pub fn chance(&mut self, per_mille: u32) -> bool {
        self.0.u32(..1000) < per_mille
    }

    /// One of the choices.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0.u64(..)
    }
}
