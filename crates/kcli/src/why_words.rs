//! What each reason to wait means, what ends the wait, and what an operator can do about it.
//!
//! Owns [`Words`]. The codes are those of docs/queue.md ("Why a message waits"); a test holds this table against that one.
//! A code that is not here is shown as it is, with nothing to add.

/// A reason in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Words {
    /// Its code.
    pub code: &'static str,
    /// What it waits for.
    pub meaning: &'static str,
    /// What ends that by itself.
    pub ended_by: &'static str,
    /// What would change it sooner; nothing where nothing would. `{WHOSE}` stands for the option that names the mail, `{DOMAIN}`
    /// for where it goes.
    pub advice: &'static str,
}

impl Words {
    /// Those of a code.
    pub fn of(code: &str) -> Option<&'static Words> {
        WORDS.iter().find(|words| words.code == code)
    }
}

const fn words(code: &'static str, meaning: &'static str, ended_by: &'static str, advice: &'static str) -> Words {
    Words { code, meaning, ended_by, advice }
}

/// All of them.
const WORDS: [Words; 17] = [
    words(
        "ScheduledForLater",
        "its first attempt is scheduled for later: by its own scheduling, or by policy",
        "the time",
        "",
    ),
    words(
        "LoggedTransientFailure",
        "the last attempt failed for the time being; its next one comes later",
        "the time: the retry interval doubles with each attempt (retry_interval, max_retry_interval)",
        "kcli flush {WHOSE} --reason WHY (tries it now; the log says what the last attempt met)",
    ),
    words(
        "ThrottledByThrottleInsertReadyQueue",
        "the policy's throttle_insert_ready_queue put it off",
        "the time that the handler gave",
        "kcli rebind {WHOSE} --always-flush --reason WHY (asks the handler anew)",
    ),
    words(
        "ReadyQueueWasSuspended",
        "its scheduled queue, or the ready queue it would go through, is suspended",
        "the time, or the order being taken back",
        "take the suspension back",
    ),
    words(
        "HeldByOrder",
        "an operator holds it, or an order is just ending or moving it",
        "the end of the order",
        "take the order back",
    ),
    words(
        "MessageRateThrottle",
        "a rate of messages is used up",
        "the time at which the rate admits the next one",
        "raise max_message_rate of the queue or of the path, or the named rate that binds",
    ),
    words(
        "SourceSelectionRateThrottle",
        "no source of its pool may be chosen for this site at the moment",
        "the time at which source_selection_rate admits the next choice",
        "raise source_selection_rate, or add sources to the pool",
    ),
    words(
        "SourceIsUnhealthyAndSuspended",
        "its source does not work and rests: its address is not on this host, or its proxy does not answer",
        "the end of the rest; then it is tried again",
        "bring the address or the proxy back; the diagnostic log names what failed",
    ),
    words(
        "FailedToInsertIntoReadyQueue",
        "no way could be had for it (policy, pool or DNS), or throttle_insert_ready_queue failed; that is asked for again",
        "the time of the next question",
        "kcli resolve-egress-path {DOMAIN} (says what is wrong with its way; the diagnostic log says which handler failed)",
    ),
    words(
        "ConfigurationIsAwaited",
        "policy or DNS have not answered yet about its queue",
        "their answer, or the end of their time",
        "if it lasts: look for a slow get_queue_config, get_egress_path_config or resolver",
    ),
    words(
        "ReadyQueueWasFull",
        "the ready queue has no room (max_ready), and those in it wait for nothing but their turn",
        "the next message that leaves it",
        "raise max_ready or connection_limit, if the destination bears it",
    ),
    words(
        "TooManyConnectionFailures",
        "no connection to the destination could be opened; a pause follows each failure",
        "the time; then one connection tries",
        "see whether its hosts can be reached from the source; the log says how they failed",
    ),
    words(
        "DestinationIsDead",
        "concurrency_feedback found the destination dead and gave it up for a while",
        "the time; then one connection tries",
        "the log says what its hosts answered",
    ),
    words(
        "ConnectionRateThrottle",
        "max_connection_rate admits no further connection yet",
        "the time at which it does",
        "raise max_connection_rate",
    ),
    words(
        "ConnectionLimit",
        "all connections that a shared limit allows are taken",
        "a connection that ends",
        "raise the limit that is named (connection_limit, additional_connection_limits)",
    ),
    words(
        "BehindOthers",
        "nothing holds it back: messages before it go first, or a connection is just being opened",
        "a connection that asks for it",
        "raise connection_limit, if the destination bears more",
    ),
    words(
        "SpoolUnhealthy",
        "the spool does not take it or give it out",
        "the disk working again",
        "look at the disk; the diagnostic log says what failed",
    ),
];

/// What a state means for which there is no reason.
pub(crate) fn of_state(state: &str) -> &'static str {
    match state {
        "in_delivery" => "it is in hand now: with a connection, or read, asked about or moved",
        "ending" => "its end is just being written",
        "ready" => "it is ready for a connection",
        "due" => "it is due",
        "held" => "it is held",
        "unspooled" => "it is in memory alone and is to be written to the spool",
        _ => "it waits",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_reason_of_the_manual_has_words() {
        let manual = include_str!("../../../docs/queue.md");
        let section = manual.split("## Why a message waits").nth(1).expect("the section");
        let section = section.split("\n## ").next().expect("its text");
        let codes: BTreeSet<&str> =
            section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
        let ours: BTreeSet<&str> = WORDS.iter().map(|words| words.code).collect();
        assert!(codes.len() > 10, "{codes:?}");
        assert_eq!(codes, ours);
        assert_eq!(ours.len(), WORDS.len(), "each once");
    }
}
