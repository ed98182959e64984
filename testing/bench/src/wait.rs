//! Waiting for an event that can only be seen by looking: with a deadline, and with words for what did not come.
//!
//! In: a question asked again and again. Out: its answer, or an error that names what was waited for.

use std::time::{Duration, Instant};

use anyhow::bail;

/// Asks `look` every [`POLL`] until it answers, at most for `limit`.
///
/// # Errors
/// `look` fails, or nothing came in time.
pub fn until<T>(what: &str, limit: Duration, mut look: impl FnMut() -> anyhow::Result<Option<T>>) -> anyhow::Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(answer) = look()? {
            return Ok(answer);
        }
        if Instant::now() >= deadline {
            bail!("waited {} s in vain for {what}", limit.as_secs());
        }
        std::thread::sleep(POLL);
    }
}

/// Asks `look` every [`POLL`] how many are left, until none is or the number has been the same for `silence`; the last one.
///
/// # Errors
/// `look` fails.
pub fn while_moving(silence: Duration, mut look: impl FnMut() -> anyhow::Result<u64>) -> anyhow::Result<u64> {
    let mut left = look()?;
    let mut moved = Instant::now();
    while left > 0 && moved.elapsed() < silence {
        std::thread::sleep(POLL);
        let now = look()?;
        if now != left {
            (left, moved) = (now, Instant::now());
        }
    }
    Ok(left)
}

/// The rest between two looks: short against any run, and a few microseconds of CPU a look.
pub const POLL: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_ends_the_wait() {
        let mut looks = 0;
        let answer = until("three looks", Duration::from_secs(10), || {
            looks += 1;
            Ok((looks == 3).then_some(looks))
        });
        assert_eq!(answer.expect("comes"), 3);
    }

    #[test]
    fn what_moves_is_waited_for_and_what_stands_is_not() {
        let mut left = 30;
        let mut down_to = |stop: u64| {
            while_moving(POLL * 20, || {
                left = stop.max(left - 1);
                Ok(left)
            })
        };
        assert_eq!(down_to(7).expect("looks"), 7);
        assert_eq!(down_to(0).expect("looks"), 0);
    }

    #[test]
    fn the_deadline_names_what_did_not_come() {
        let never = until::<()>("a snowball", Duration::ZERO, || Ok(None));
        assert!(never.expect_err("never comes").to_string().contains("a snowball"));
    }
}
