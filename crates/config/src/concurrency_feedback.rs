//! How a path learns how many connections its destination bears.
//!
//! Owns [`ConcurrencyFeedback`], a table in `kumo.make_egress_path` that KumoMTA does not have. The arithmetic is the queue's.

use crate::duration::Duration;
use crate::options::options;

options! {
    /// `concurrency_feedback` of `kumo.make_egress_path`
    pub struct ConcurrencyFeedback check check_feedback {
        /// Connections to begin with.
        initial: usize = 5, min 1;
        /// By how many connections a window's worth of deliveries opens the window.
        increase: f64 = 1.0;
        /// By how many connections each failed connection or deferral closes it.
        decrease: f64 = 1.0;
        /// Failures in a row of a single connection after which the destination is left alone.
        failures_before_suspension: usize = 5, min 1;
        /// For how long.
        suspension: Duration = Duration::from_minutes(5);
    }
}

fn check_feedback(feedback: &ConcurrencyFeedback) -> Result<(), String> {
    for (name, value) in [("increase", feedback.increase), ("decrease", feedback.decrease)] {
        if !(value > 0.0 && value <= STEP_MAX) {
            return Err(format!("`{name}` is {value}: expected a number above 0 and up to {STEP_MAX}"));
        }
    }
    Ok(())
}

/// Largest step of the window.
const STEP_MAX: f64 = 1000.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_must_lead_somewhere() {
        let parse = |json| crate::parse::<ConcurrencyFeedback>("concurrency_feedback", json).map_err(|e| e.to_string());
        assert_eq!(parse(serde_json::json!({})), Ok(ConcurrencyFeedback::default()));
        for (json, says) in [
            (serde_json::json!({"increase": 0}), "`increase` is 0"),
            (serde_json::json!({"decrease": -1.5}), "`decrease` is -1.5"),
            (serde_json::json!({"initial": 0}), "initial"),
            (serde_json::json!({"inital": 1}), "inital"),
        ] {
            let error = parse(json).expect_err("wrong");
            assert!(error.contains(says), "{error}");
        }
    }
}
