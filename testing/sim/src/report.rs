//! What happened in a run, counted: so that a test can tell a hard run from an empty one.

/// A struct of counters from one list of names.
macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts of one run or, added up, of many.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Report {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Report {
            /// Adds another run's counts.
            pub fn add(&mut self, other: &Report) {
                $(self.$name += other.$name;)*
            }

            /// Names and counts of what happened less often than it is to, in so many runs: once, or as often as [`LEAST`]
            /// says.
            pub fn below(&self, runs: u64) -> Vec<(&'static str, u64)> {
                let all = [$((stringify!($name), self.$name)),*];
                let least = |name| LEAST.iter().find(|(of, _)| *of == name).map_or(1, |(_, least)| least * runs / 10_000);
                all.into_iter().filter(|(name, count)| *count < least(*name)).collect()
            }
        }
    };
}

counts! {
    /// Events.
    events,
    /// Power cuts.
    power_cuts,
    /// Kills.
    kills,
    /// Ends of lives within a disk call.
    ends_in_calls,
    /// Orderly stops.
    stops,
    /// Commits that failed.
    failed_commits,
    /// Messages made durable.
    messages,
    /// Recipients taken by peers.
    deliveries,
    /// Of these, not for the first time.
    duplicates,
    /// Attempts that ended with no readable answer to the final dot.
    unknown_outcomes,
    /// Recipients bounced.
    bounces,
    /// Orders of the operator.
    orders,
    /// Messages moved by order, or not.
    rebound,
    /// Recipients bounced by order.
    admin_bounces,
    /// Recipients expired.
    expirations,
    /// Recipients put off.
    deferrals,
    /// Messages given back untried.
    given_back,
    /// Messages that no connection was made for.
    untried,
    /// Sessions that ran into a deadline, both sides.
    timeouts,
    /// Connections used for more than one message.
    reused_connections,
    /// Wake-ups of idle connections.
    wakes,
    /// Messages recovered by restarts.
    recovered,
    /// Starts that served new mail before the old was back.
    recovered_late,
    /// Times memory became short.
    memory_short,
    /// Messages damaged on the disk and set aside.
    set_aside,
    /// Times a scheduled queue stood in line for room.
    stood_in_line,
    /// Octets of survivors copied by compaction.
    octets_compacted,
    /// Routes that led elsewhere than the one before.
    routes_changed,
    /// Messages read back from the spool.
    loads,
    /// Messages kept for later because the disk did not read.
    postponed,
    /// The same of those that an order moves, and keeps.
    unread_with_orders,
    /// Messages accepted into memory only.
    volatile,
    /// Messages that were accepted into memory and spooled later.
    spooled_later,
    /// Of these, at an orderly stop.
    spooled_at_stop,
    /// Times the spool refused them.
    unspooled,
    /// Times the shared limit of connections was reached.
    shared_limits_reached,
    /// Times `max_connection_rate` let the last connection through that it could.
    connection_rates_reached,
    /// The same of `max_message_rate` of a path.
    message_rates_reached,
    /// Of `additional_message_rate_throttles`.
    shared_rates_reached,
    /// Of `source_selection_rate`.
    source_choices_reached,
    /// Of `additional_source_selection_rates`.
    shared_choices_reached,
    /// Of `max_message_rate` of a queue.
    queue_rates_reached,
    /// Messages with constraints of their own.
    constrained,
    /// Of these, with a deadline.
    with_deadline,
    /// Deadlines missed, by recipient.
    missed_deadlines,
    /// Messages with a deadline that went while others of their queue were ready.
    urgent_first,
    /// Questions to policy about messages that were to become ready.
    asked,
    /// Of these, answered with a time.
    held_back,
    /// Of these, without an answer.
    unanswered,
    /// Questions of either kind that were open when a life ended.
    asked_at_end,
    /// Answers of policy about messages that failed for the time being.
    requeued,
    /// Messages delivered of a week in which a site is down for six days; only there.
    week_delivered,
    /// Messages expired of such a week.
    week_expired,
    /// Replies of sites that dribble, octet by octet or line by line.
    tarpitted,
    /// Deliveries to such sites, all replies being just in time.
    tarpit_deliveries,
    /// Sessions with such sites that ran into a deadline.
    tarpit_timeouts,
    /// Replies of hundreds of lines, or with lines of many thousand octets.
    huge_replies,
    /// Replies without end.
    endless_replies,
    /// Connections whose peer is gone and nobody was told.
    half_open,
    /// Of these, such as had a message in hand.
    half_open_in_hand,
    /// Clients that are gone and nobody was told.
    vanished_clients,
    /// Contents that a peer took to the final dot and did not answer.
    dropped_after_dot,
    /// 421, in place of any reply.
    closing_replies,
    /// What is no reply.
    garbage_replies,
    /// Peers that read and never answer again.
    silences,
    /// Virtual time, in seconds.
    seconds,
}

/// How often things happen in ten thousand runs at least: a scenario must not stop occurring unnoticed.
const LEAST: &[(&str, u64)] = &[
    ("tarpitted", 10_000),
    ("tarpit_deliveries", 300),
    ("tarpit_timeouts", 5_000),
    ("huge_replies", 10_000),
    ("endless_replies", 10),
    ("half_open", 1_000),
    ("half_open_in_hand", 500),
    ("vanished_clients", 100),
    ("dropped_after_dot", 500),
    ("closing_replies", 5_000),
    ("shared_limits_reached", 3_000),
    ("connection_rates_reached", 3_000),
    ("message_rates_reached", 2_000),
    ("shared_rates_reached", 1_000),
    ("source_choices_reached", 5_000),
    ("shared_choices_reached", 3_000),
    ("queue_rates_reached", 100),
    ("with_deadline", 5_000),
    ("missed_deadlines", 1_000),
    ("urgent_first", 500),
    ("asked", 10_000),
    ("held_back", 3_000),
    ("unanswered", 1_000),
    ("asked_at_end", 300),
    ("requeued", 2_000),
    ("unread_with_orders", 10),
];
