//! Why a message waits: a cause, a time and a text, never an error (KumoMTA's insert contexts).

use core::fmt;

/// The causes, under KumoMTA's names: they appear in `Delayed` records and reach policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// Just accepted.
    Received,
    /// Found in the spool at start.
    Enumerated,
    /// Its due time lies ahead.
    ScheduledForLater,
    /// `max_message_rate` of the scheduled queue.
    MessageRateThrottle,
    /// A handler of `throttle_insert_ready_queue` moved its due time.
    ThrottledByThrottleInsertReadyQueue,
    /// The ready queue holds `max_ready` messages.
    ReadyQueueWasFull,
    /// The queue's configuration or route could not be had.
    FailedToInsertIntoReadyQueue,
    /// Its due time came.
    DueTimeWasReached,
    /// The destination publishes a null MX (RFC 7505).
    FailedDueToNullMx,
    /// The destination's exchangers have no address.
    MxResolvedToZeroHosts,
    /// An address of the destination is in `prohibited_hosts`.
    MxWasProhibited,
    /// All addresses of the destination are in `skip_hosts`.
    MxWasSkipped,
    /// `consecutive_connection_failures_before_delay` was exceeded.
    TooManyConnectionFailures,
    /// `max_connection_rate` or `max_message_rate` of the path.
    ConnectionRateThrottle,
    /// An attempt failed transiently.
    LoggedTransientFailure,
    /// A connection ended with the message untried.
    DispatcherDrop,
    /// The spool did not give the message out.
    SpoolUnhealthy,
    /// An operator suspended its scheduled queue, or the ready queue it would go through.
    ReadyQueueWasSuspended,
    /// An operator holds it.
    HeldByOrder,
    /// Policy or DNS have not answered yet.
    ConfigurationIsAwaited,
    /// `source_selection_rate` of the path.
    SourceSelectionRateThrottle,
    /// `additional_connection_limits` of the path.
    ConnectionLimit,
    /// `concurrency_feedback` found the destination dead.
    DestinationIsDead,
    /// Others go first: all that is wanted is a connection that asks.
    BehindOthers,
    /// The source of its ready queue does not work and rests.
    SourceIsUnhealthyAndSuspended,
}

impl Why {
    /// KumoMTA's name.
    pub fn name(self) -> &'static str {
        match self {
            Why::Received => "Received",
            Why::Enumerated => "Enumerated",
            Why::ScheduledForLater => "ScheduledForLater",
            Why::MessageRateThrottle => "MessageRateThrottle",
            Why::ThrottledByThrottleInsertReadyQueue => "ThrottledByThrottleInsertReadyQueue",
            Why::ReadyQueueWasFull => "ReadyQueueWasFull",
            Why::FailedToInsertIntoReadyQueue => "FailedToInsertIntoReadyQueue",
            Why::DueTimeWasReached => "DueTimeWasReached",
            Why::FailedDueToNullMx => "FailedDueToNullMx",
            Why::MxResolvedToZeroHosts => "MxResolvedToZeroHosts",
            Why::MxWasProhibited => "MxWasProhibited",
            Why::MxWasSkipped => "MxWasSkipped",
            Why::TooManyConnectionFailures => "TooManyConnectionFailures",
            Why::ConnectionRateThrottle => "ConnectionRateThrottle",
            Why::LoggedTransientFailure => "LoggedTransientFailure",
            Why::DispatcherDrop => "DispatcherDrop",
            Why::SpoolUnhealthy => "SpoolUnhealthy",
            Why::ReadyQueueWasSuspended => "ReadyQueueWasSuspended",
            Why::HeldByOrder => "HeldByOrder",
            Why::ConfigurationIsAwaited => "ConfigurationIsAwaited",
            Why::SourceSelectionRateThrottle => "SourceSelectionRateThrottle",
            Why::ConnectionLimit => "ConnectionLimit",
            Why::DestinationIsDead => "DestinationIsDead",
            Why::BehindOthers => "BehindOthers",
            Why::SourceIsUnhealthyAndSuspended => "SourceIsUnhealthyAndSuspended",
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
