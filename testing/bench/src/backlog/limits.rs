//! The limits of the way out: what they are set to, and what was observed at its other end. In: a log of moments. Out:
//! whether they were kept.

use std::ffi::OsString;
use std::time::Instant;

use crate::daemon::Daemon;
use crate::witness::Log;

/// Settings of the way to the bulk destination; an empty rate for no limits.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    rate: &'static str,
    connection_rate: &'static str,
    connections: &'static str,
}

/// The most seen of each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Observed {
    pub messages: usize,
    pub messages_per_s: usize,
    pub connections_per_s: usize,
    pub connections: usize,
}

impl Limits {
    /// As good as closed.
    pub const CLOSED: Limits = Limits { rate: "1/h,max_burst=1", connection_rate: "1/s,max_burst=1", connections: "1" };
    /// Those that are watched.
    pub const WATCHED: Limits =
        Limits { rate: "400/s,max_burst=1", connection_rate: "10/s,max_burst=1", connections: "4" };
    /// None.
    pub const OPEN: Limits = Limits { rate: "", connection_rate: "", connections: "" };

    /// Adds them to an environment.
    pub fn set_in(self, mut environment: Vec<(&'static str, OsString)>) -> Vec<(&'static str, OsString)> {
        environment.extend(self.variables().map(|(name, value)| (name, value.into())));
        environment
    }

    /// Sets them for the daemon's lives to come.
    pub fn set(self, daemon: &mut Daemon) {
        self.variables().into_iter().for_each(|(name, value)| daemon.set(name, value));
    }

    fn variables(self) -> [(&'static str, &'static str); 3] {
        [
            ("BACKLOG_RATE", self.rate),
            ("BACKLOG_CONNECTION_RATE", self.connection_rate),
            ("BACKLOG_CONNECTIONS", self.connections),
        ]
    }
}

impl Observed {
    /// What a log shows since `from`; probes do not count.
    pub fn of(log: &Log, from: Instant) -> Observed {
        let mut log = log.clone();
        log.arrivals.retain(|(at, id)| *at >= from && !id.starts_with("probe-"));
        Observed {
            messages: log.arrivals.len(),
            messages_per_s: log.messages_per_s_max(from),
            connections_per_s: log.connections_per_s_max(from),
            connections: log.open_max(from),
        }
    }

    /// What was exceeded, in words.
    pub fn fault(self) -> Option<String> {
        let mut faults = Vec::new();
        let mut note = |seen: usize, allowed: usize, what: &str| {
            if seen > allowed {
                faults.push(format!("{seen} {what}, {allowed} allowed"));
            }
        };
        note(self.messages_per_s, jittered(MESSAGES_PER_S), "messages in a second");
        note(self.connections_per_s, jittered(CONNECTIONS_PER_S), "connections opened in a second");
        note(self.connections, CONNECTIONS, "connections at once");
        (!faults.is_empty()).then(|| faults.join(", "))
    }
}

/// What may arrive in a second when so many may leave in one: those that were held up on their way beside those that were
/// not, and the one on the edge.
fn jittered(limit: usize) -> usize {
    limit + limit / 20 + 1
}

/// As in [`Limits::WATCHED`].
pub const MESSAGES_PER_S: usize = 400;
pub const CONNECTIONS_PER_S: usize = 10;
pub const CONNECTIONS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_figures_are_those_of_the_settings() {
        assert!(Limits::WATCHED.rate.starts_with(&format!("{MESSAGES_PER_S}/s")));
        assert!(Limits::WATCHED.connection_rate.starts_with(&format!("{CONNECTIONS_PER_S}/s")));
        assert_eq!(Limits::WATCHED.connections, CONNECTIONS.to_string());
    }

    #[test]
    fn each_limit_is_judged() {
        let kept = Observed { messages: 9000, messages_per_s: 421, connections_per_s: 11, connections: 4 };
        assert_eq!(kept.fault(), None);
        let over = Observed { messages: 9000, messages_per_s: 422, connections_per_s: 12, connections: 5 };
        let words = over.fault().expect("all three");
        assert_eq!(words.matches("allowed").count(), 3, "{words}");
    }

    #[test]
    fn probes_and_the_past_do_not_count() {
        let from = Instant::now();
        let at = |ms| from + Duration::from_millis(ms);
        let arrivals = vec![
            (from - Duration::from_secs(1), "a".to_owned()),
            (at(1), "probe-1".to_owned()),
            (at(2), "b".to_owned()),
        ];
        let log = Log { arrivals, connections: vec![(at(0), Some(at(3)))] };
        let want = Observed { messages: 1, messages_per_s: 1, connections_per_s: 1, connections: 1 };
        assert_eq!(Observed::of(&log, from), want);
    }
}
