//! How many connections a destination bears: more while it takes mail, fewer when it does not (`concurrency_feedback`).
//!
//! A window of connections, between 1 and `connection_limit`, kept for each ready queue that asks for it. A delivery opens
//! it by `increase` / window, so that a window's worth of deliveries opens it by `increase`; a failed connection or a
//! deferral closes it by `decrease`. A window that is at 1 and would close further has found a dead destination: after
//! `failures_before_suspension` of those in a row the way is closed for `suspension`, and one connection tries it then.
//! Pure arithmetic; who opens connections asks here.

use clock::{Duration, Instant};
use config::ConcurrencyFeedback;

/// The window of one ready queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    rules: Rules,
    connections: f64,
    failures: usize,
    /// Nothing is sent before this moment.
    closed_until: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Rules {
    initial: f64,
    increase: f64,
    decrease: f64,
    failures_before_suspension: usize,
    suspension: Duration,
}

/// What a connection found out about its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bearing {
    /// It took a message for some recipient, or refused it for good.
    Delivers,
    /// It put a message off, or could not be reached.
    Defers,
}

impl Window {
    /// Takes rules; what was learnt stays unless they changed.
    pub fn redefine(old: Option<&Window>, rules: Option<&ConcurrencyFeedback>) -> Option<Window> {
        let rules = Rules::from(rules?);
        let fresh = Window { rules, connections: rules.initial, failures: 0, closed_until: Instant::ZERO };
        Some(old.filter(|old| old.rules == rules).copied().unwrap_or(fresh))
    }

    /// Connections there may be, never none.
    pub fn connections(&self) -> usize {
        (self.connections as usize).max(1)
    }

    /// Notes what a connection found; true when the way is closed from now on.
    pub fn note(&mut self, now: Instant, bearing: Bearing, connection_limit: u64) -> bool {
        if now < self.closed_until {
            // Others of the same cohort that end: they say nothing new.
            return false;
        }
        match bearing {
            Bearing::Delivers => {
                self.failures = 0;
                let opened = self.connections + self.rules.increase / self.connections;
                self.connections = opened.min(connection_limit as f64).max(1.0);
                false
            }
            Bearing::Defers if self.connections > 1.0 => {
                self.connections = (self.connections - self.rules.decrease).max(1.0);
                false
            }
            Bearing::Defers => {
                self.failures += 1;
                if self.failures < self.rules.failures_before_suspension {
                    return false;
                }
                self.failures = 0;
                self.closed_until = now + self.rules.suspension;
                true
            }
        }
    }

    /// When the way is open again; in the past when it is.
    pub fn closed_until(&self) -> Instant {
        self.closed_until
    }
}

impl From<&ConcurrencyFeedback> for Rules {
    fn from(feedback: &ConcurrencyFeedback) -> Rules {
        Rules {
            initial: feedback.initial as f64,
            increase: feedback.increase,
            decrease: feedback.decrease,
            failures_before_suspension: feedback.failures_before_suspension,
            suspension: feedback.suspension.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window() -> Window {
        let rules = ConcurrencyFeedback { failures_before_suspension: 3, ..ConcurrencyFeedback::default() };
        Window::redefine(None, Some(&rules)).expect("rules")
    }

    fn note(window: &mut Window, bearing: Bearing, times: usize) -> Vec<bool> {
        (0..times).map(|_| window.note(Instant::from_micros(1), bearing, 20)).collect()
    }

    #[test]
    fn a_windows_worth_of_deliveries_opens_it_by_one_and_each_failure_closes_it_by_one() {
        let mut window = window();
        assert_eq!(window.connections(), 5);
        note(&mut window, Bearing::Delivers, 5);
        assert_eq!(window.connections(), 5, "just below six: it opened a little with each");
        note(&mut window, Bearing::Delivers, 1);
        assert_eq!(window.connections(), 6);
        note(&mut window, Bearing::Defers, 2);
        assert_eq!(window.connections(), 4);
        note(&mut window, Bearing::Delivers, 1000);
        assert_eq!(window.connections(), 20, "connection_limit");
    }

    #[test]
    fn a_destination_that_fails_alone_so_often_is_dead_for_a_while() {
        let mut window = window();
        assert_eq!(note(&mut window, Bearing::Defers, 7), [false, false, false, false, false, false, true]);
        assert_eq!(window.closed_until(), Instant::from_micros(1) + Duration::from_secs(300));
        assert_eq!(note(&mut window, Bearing::Defers, 9), [false; 9], "while it is closed nothing counts");
        let later = window.closed_until();
        assert!(!window.note(later, Bearing::Defers, 20) && !window.note(later, Bearing::Delivers, 20));
        assert!(!window.note(later, Bearing::Defers, 20), "a delivery forgives");
        assert_eq!(window.connections(), 1);
    }

    #[test]
    fn what_was_learnt_stays_until_the_rules_change() {
        let mut learnt = window();
        note(&mut learnt, Bearing::Defers, 3);
        let rules = ConcurrencyFeedback { failures_before_suspension: 3, ..ConcurrencyFeedback::default() };
        assert_eq!(Window::redefine(Some(&learnt), Some(&rules)).map(|w| w.connections()), Some(2));
        let other = ConcurrencyFeedback { initial: 9, ..rules };
        assert_eq!(Window::redefine(Some(&learnt), Some(&other)).map(|w| w.connections()), Some(9));
        assert!(Window::redefine(Some(&learnt), None).is_none());
    }
}
