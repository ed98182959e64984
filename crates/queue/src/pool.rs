//! Which source of an egress pool sends next: weighted round robin (KumoMTA behaviour).
//!
//! The walk of the Linux virtual server: an index that goes round and a current weight that
//! steps down by the greatest common divisor, so that heavier sources come up more often and
//! evenly spread. One rotation belongs to one scheduled queue.

/// The state of one walk over a pool's weights.
#[derive(Clone, Debug)]
pub struct Rotation {
    weights: Box<[u32]>,
    step: u32,
    heaviest: u32,
    index: u32,
    current: u32,
}

impl Rotation {
    /// A walk over sources with these weights; a weight of zero is never chosen.
    pub fn new(weights: Vec<u32>) -> Rotation {
        let scale = weights.iter().copied().max().unwrap_or(0).div_ceil(SHARES_MAX).max(1);
        let weights: Vec<u32> = weights.into_iter().map(|weight| weight.div_ceil(scale)).collect();
        let step = weights.iter().copied().filter(|w| *w > 0).fold(0, gcd);
        let heaviest = weights.iter().copied().max().unwrap_or(0);
        let index = weights.len().saturating_sub(1) as u32;
        Rotation { index, weights: weights.into(), step, heaviest, current: 0 }
    }

    /// The weights it walks over, in the order of the sources.
    pub fn weights(&self) -> &[u32] {
        &self.weights
    }

    /// The next source for which `usable` holds; `None` when there is none.
    pub fn next(&mut self, mut usable: impl FnMut(usize) -> bool) -> Option<usize> {
        if self.step == 0 {
            return None;
        }
        if let Some(index) = self.lap(&mut usable) {
            return Some(index);
        }
        let weighty = |index: &usize| self.weights[*index] > 0 && usable(*index);
        let heaviest = (0..self.weights.len()).filter(weighty).map(|index| self.weights[index]).max()?;
        // Nobody would be found in the laps before: a walk is as short when all but one light source are full.
        (self.index, self.current) = (self.weights.len() as u32 - 1, heaviest + self.step);
        self.lap(&mut usable)
    }

    /// Once around.
    fn lap(&mut self, usable: &mut impl FnMut(usize) -> bool) -> Option<usize> {
        for _ in 0..self.weights.len() {
            self.index = (self.index + 1) % self.weights.len() as u32;
            let index = self.index as usize;
            if index == 0 {
                self.current = if self.current <= self.step { self.heaviest } else { self.current - self.step };
            }
            if self.weights[index] >= self.current && usable(index) {
                return Some(index);
            }
        }
        None
    }
}

/// Steps of one walk per source; larger weights are scaled down to it, so that a walk is short
/// whatever an operator writes.
const SHARES_MAX: u32 = 1000;

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(weights: &[u32], turns: usize, usable: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut rotation = Rotation::new(weights.to_vec());
        let mut counts = vec![0; weights.len()];
        for _ in 0..turns {
            if let Some(i) = rotation.next(&usable) {
                counts[i] += 1;
            }
        }
        counts
    }

    #[test]
    fn a_source_is_looked_at_a_few_times_a_turn_whatever_the_weights() {
        let weights: Vec<u32> = (0..50).map(|i| if i == 0 { 1 } else { 951 + i }).collect();
        for usable in [None, Some(0), Some(49)] {
            let (mut rotation, mut looks) = (Rotation::new(weights.clone()), 0);
            for _ in 0..1000 {
                let found = rotation.next(|i| {
                    looks += 1;
                    Some(i) == usable
                });
                assert_eq!(found, usable);
            }
            assert!(looks <= 1000 * 3 * weights.len(), "{looks}");
        }
    }

    #[test]
    fn shares_follow_the_weights() {
        assert_eq!(counts(&[3, 1], 400, |_| true), [300, 100]);
        assert_eq!(counts(&[1, 1, 1], 300, |_| true), [100, 100, 100]);
        assert_eq!(counts(&[50, 0, 100], 300, |_| true), [100, 0, 200]);
        assert_eq!(counts(&[2, 1], 30, |i| i == 1), [0, 30], "an unusable source gives way");
        assert_eq!(counts(&[0, 0], 3, |_| true), [0, 0]);
        assert_eq!(counts(&[], 3, |_| true), Vec::<usize>::new());
        assert_eq!(counts(&[1, 2], 9, |_| false), [0, 0], "terminates when nothing is usable");
        assert_eq!(counts(&[7, 6, 4, 3], 700, |i| i > 1), [0, 0, 400, 300], "who is left shares by weight");
    }
}
