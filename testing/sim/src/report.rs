//! What happened in a run, counted: so that a test can tell a hard run from an empty one.

/// Counts of one run or, added up, of many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Events.
    pub events: u64,
    /// Power cuts.
    pub power_cuts: u64,
    /// Kills.
    pub kills: u64,
    /// Ends of lives within a disk call.
    pub ends_in_calls: u64,
    /// Orderly stops.
    pub stops: u64,
    /// Commits that failed.
    pub failed_commits: u64,
    /// Messages made durable.
    pub messages: u64,
    /// Recipients taken by peers.
    pub deliveries: u64,
    /// Of these, not for the first time.
    pub duplicates: u64,
    /// Attempts that ended with no readable answer to the final dot.
    pub unknown_outcomes: u64,
    /// Recipients bounced.
    pub bounces: u64,
    /// Recipients expired.
    pub expirations: u64,
    /// Recipients put off.
    pub deferrals: u64,
    /// Messages given back untried.
    pub given_back: u64,
    /// Messages that no connection was made for.
    pub untried: u64,
    /// Sessions that ran into a deadline, both sides.
    pub timeouts: u64,
    /// Connections used for more than one message.
    pub reused_connections: u64,
    /// Wake-ups of idle connections.
    pub wakes: u64,
    /// Messages recovered by restarts.
    pub recovered: u64,
    /// Times a scheduled queue stood in line for room.
    pub stood_in_line: u64,
    /// Octets of survivors copied by compaction.
    pub octets_compacted: u64,
    /// Routes that led elsewhere than the one before.
    pub routes_changed: u64,
    /// Virtual time, in seconds.
    pub seconds: u64,
}

impl Report {
    /// Adds another run's counts.
    pub fn add(&mut self, other: &Report) {
        self.each(other, |mine, theirs| *mine += theirs);
    }

    /// Names of the counts that are zero.
    pub fn zeros(&self) -> Vec<&'static str> {
        let text = [
            ("power_cuts", self.power_cuts),
            ("kills", self.kills),
            ("ends_in_calls", self.ends_in_calls),
            ("stops", self.stops),
            ("failed_commits", self.failed_commits),
            ("messages", self.messages),
            ("deliveries", self.deliveries),
            ("duplicates", self.duplicates),
            ("unknown_outcomes", self.unknown_outcomes),
            ("bounces", self.bounces),
            ("expirations", self.expirations),
            ("deferrals", self.deferrals),
            ("given_back", self.given_back),
            ("untried", self.untried),
            ("timeouts", self.timeouts),
            ("reused_connections", self.reused_connections),
            ("wakes", self.wakes),
            ("recovered", self.recovered),
            ("stood_in_line", self.stood_in_line),
            ("octets_compacted", self.octets_compacted),
            ("routes_changed", self.routes_changed),
        ];
        text.into_iter().filter(|(_, count)| *count == 0).map(|(name, _)| name).collect()
    }

    fn each(&mut self, other: &Report, add: impl Fn(&mut u64, u64)) {
        add(&mut self.events, other.events);
        add(&mut self.power_cuts, other.power_cuts);
        add(&mut self.kills, other.kills);
        add(&mut self.ends_in_calls, other.ends_in_calls);
        add(&mut self.stops, other.stops);
        add(&mut self.failed_commits, other.failed_commits);
        add(&mut self.messages, other.messages);
        add(&mut self.deliveries, other.deliveries);
        add(&mut self.duplicates, other.duplicates);
        add(&mut self.unknown_outcomes, other.unknown_outcomes);
        add(&mut self.bounces, other.bounces);
        add(&mut self.expirations, other.expirations);
        add(&mut self.deferrals, other.deferrals);
        add(&mut self.given_back, other.given_back);
        add(&mut self.untried, other.untried);
        add(&mut self.timeouts, other.timeouts);
        add(&mut self.reused_connections, other.reused_connections);
        add(&mut self.wakes, other.wakes);
        add(&mut self.recovered, other.recovered);
        add(&mut self.stood_in_line, other.stood_in_line);
        add(&mut self.octets_compacted, other.octets_compacted);
        add(&mut self.routes_changed, other.routes_changed);
        add(&mut self.seconds, other.seconds);
    }
}
