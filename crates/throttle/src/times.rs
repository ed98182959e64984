//! How long questions to a Redis server take, by how they end.

use std::time::{Duration, Instant};
use watched::{Times, Timing};

/// The times of one asker.
#[derive(Debug, Default)]
pub(crate) struct QuestionTimes {
    answered: Timing,
    failed: Timing,
}

impl QuestionTimes {
    /// A question that began at this moment has ended.
    pub fn took(&self, begun: Instant, is_answered: bool) {
        let took: Duration = begun.elapsed();
        if is_answered { self.answered.took(took) } else { self.failed.took(took) }
    }

    /// Of those that were answered, and of those that failed.
    pub fn so_far(&self) -> [Times; 2] {
        [self.answered.so_far(), self.failed.so_far()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_told_apart_by_their_end() {
        let times = QuestionTimes::default();
        [true, true, false].into_iter().for_each(|is_answered| times.took(Instant::now(), is_answered));
        assert_eq!(times.so_far().map(|times| times.count()), [2, 1]);
    }
}
