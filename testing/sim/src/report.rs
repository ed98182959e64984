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

            /// Names of the counts that are zero.
            pub fn zeros(&self) -> Vec<&'static str> {
                let all = [$((stringify!($name), self.$name)),*];
                all.into_iter().filter(|(_, count)| *count == 0).map(|(name, _)| name).collect()
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
    /// Times when as many were asked about as may be.
    askers_max,
    /// Questions of either kind that were open when a life ended.
    asked_at_end,
    /// Answers of policy about messages that failed for the time being.
    requeued,
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
