//! How long a commit waits for others, so that they share its sync. In: how quick the disk is, how many appends the last
//! commit had. Out: a time. An append waits for none where nobody else is at it; see `inbox`.

use std::time::Duration;

/// Longest waits. They buy processor time with the time a 250 is late, so they are short where little is to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Linger {
    /// For as many as the last commit had, when these were few.
    pub few: Duration,
    /// When they were [`MANY`] or more.
    pub many: Duration,
}

impl Linger {
    /// For a disk that needs so long for a write and its sync. While a slow one is at it, those who just missed a commit wait
    /// for two: there a longer wait pays.
    pub fn for_disk(sync: Duration) -> Linger {
        Linger { many: (sync * 2).clamp(MANY_MIN, MANY_MAX), ..Linger::default() }
    }

    /// The wait for as many appends as the last commit had, and for those who are coming.
    pub(crate) fn longest(self, expected: usize) -> Duration {
        if expected < MANY { self.few } else { self.many }
    }
}

impl Default for Linger {
    fn default() -> Linger {
        Linger { few: Duration::from_millis(1), many: MANY_MIN }
    }
}

/// Appends in a commit from which on a longer wait is worth it.
pub const MANY: usize = 8;
const MANY_MIN: Duration = Duration::from_millis(4);
const MANY_MAX: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_is_as_long_as_it_is_worth() {
        let of = |us| Linger::for_disk(Duration::from_micros(us));
        assert_eq!(of(90), Linger::default());
        assert_eq!(of(5_000).many, Duration::from_millis(10));
        assert_eq!(of(80_000).many, Duration::from_millis(20));
        let linger = of(90);
        assert_eq!([1, 7, 8, 100].map(|n| linger.longest(n).as_millis()), [1, 1, 4, 4]);
    }
}
