//! Which events a policy handles, as a bit each.

use core::sync::atomic::{AtomicU32, Ordering};

/// The events of the [`Policy`](crate::Policy) trait, named as KumoMTA names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Event {
    /// `smtp_server_connection_accepted`
    ConnectionAccepted,
    /// `smtp_server_ehlo`
    Ehlo,
    /// `smtp_server_auth_plain`
    AuthPlain,
    /// `smtp_server_mail_from`
    MailFrom,
    /// `smtp_server_rcpt_to`
    RcptTo,
    /// `smtp_server_data`
    Data,
    /// `smtp_server_message_received`
    MessageReceived,
    /// `smtp_server_get_dynamic_parameters`
    DynamicParameters,
    /// `smtp_server_split_transaction`
    SplitTransaction,
    /// `smtp_server_message_deferred_inject`
    MessageDeferredInject,
    /// `smtp_server_rewrite_response`
    RewriteResponse,
    /// `get_listener_domain`
    ListenerDomain,
    /// `get_queue_config`
    QueueConfig,
    /// `get_egress_pool`
    EgressPool,
    /// `get_egress_source`
    EgressSource,
    /// `get_egress_path_config`
    EgressPathConfig,
    /// `throttle_insert_ready_queue`
    ThrottleInsertReadyQueue,
    /// `requeue_message`
    RequeueMessage,
    /// `rebind_message`
    RebindMessage,
    /// `xfer_message_received`
    XferMessageReceived,
    /// `smtp_client_rewrite_delivery_status`
    RewriteDeliveryStatus,
    /// `should_enqueue_log_record`
    ShouldEnqueueLogRecord,
    /// `spool_message_enumerated`
    SpoolMessageEnumerated,
    /// `shutdown_logging`
    ShutdownLogging,
    /// `http_message_generated`
    HttpMessageGenerated,
    /// `http_server_validate_auth_basic`
    ValidateAuthBasic,
    /// `http_server_validate_auth_bearer`
    ValidateAuthBearer,
    /// `get_acl_definition`
    AclDefinition,
    /// `tsa_load_shaping_data`
    TsaLoadShapingData,
    /// `deliver_by_missed`, ours
    DeliverByMissed,
}

/// A set of [`Event`]s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest(u32);

impl Event {
    /// Every event, in order.
    pub const ALL: [Event; 30] = [
        Event::ConnectionAccepted,
        Event::Ehlo,
        Event::AuthPlain,
        Event::MailFrom,
        Event::RcptTo,
        Event::Data,
        Event::MessageReceived,
        Event::DynamicParameters,
        Event::SplitTransaction,
        Event::MessageDeferredInject,
        Event::RewriteResponse,
        Event::ListenerDomain,
        Event::QueueConfig,
        Event::EgressPool,
        Event::EgressSource,
        Event::EgressPathConfig,
        Event::ThrottleInsertReadyQueue,
        Event::RequeueMessage,
        Event::RebindMessage,
        Event::XferMessageReceived,
        Event::RewriteDeliveryStatus,
        Event::ShouldEnqueueLogRecord,
        Event::SpoolMessageEnumerated,
        Event::ShutdownLogging,
        Event::HttpMessageGenerated,
        Event::ValidateAuthBasic,
        Event::ValidateAuthBearer,
        Event::AclDefinition,
        Event::TsaLoadShapingData,
        Event::DeliverByMissed,
    ];

    /// KumoMTA's name, as scripts register it.
    pub const fn name(self) -> &'static str {
        match self {
            Event::ConnectionAccepted => "smtp_server_connection_accepted",
            Event::Ehlo => "smtp_server_ehlo",
            Event::AuthPlain => "smtp_server_auth_plain",
            Event::MailFrom => "smtp_server_mail_from",
            Event::RcptTo => "smtp_server_rcpt_to",
            Event::Data => "smtp_server_data",
            Event::MessageReceived => "smtp_server_message_received",
            Event::DynamicParameters => "smtp_server_get_dynamic_parameters",
            Event::SplitTransaction => "smtp_server_split_transaction",
            Event::MessageDeferredInject => "smtp_server_message_deferred_inject",
            Event::RewriteResponse => "smtp_server_rewrite_response",
            Event::ListenerDomain => "get_listener_domain",
            Event::QueueConfig => "get_queue_config",
            Event::EgressPool => "get_egress_pool",
            Event::EgressSource => "get_egress_source",
            Event::EgressPathConfig => "get_egress_path_config",
            Event::ThrottleInsertReadyQueue => "throttle_insert_ready_queue",
            Event::RequeueMessage => "requeue_message",
            Event::RebindMessage => "rebind_message",
            Event::XferMessageReceived => "xfer_message_received",
            Event::RewriteDeliveryStatus => "smtp_client_rewrite_delivery_status",
            Event::ShouldEnqueueLogRecord => "should_enqueue_log_record",
            Event::SpoolMessageEnumerated => "spool_message_enumerated",
            Event::ShutdownLogging => "shutdown_logging",
            Event::HttpMessageGenerated => "http_message_generated",
            Event::ValidateAuthBasic => "http_server_validate_auth_basic",
            Event::ValidateAuthBearer => "http_server_validate_auth_bearer",
            Event::AclDefinition => "get_acl_definition",
            Event::TsaLoadShapingData => "tsa_load_shaping_data",
            Event::DeliverByMissed => "deliver_by_missed",
        }
    }
}

/// A set of [`Event`]s that is replaced when the policy is read again.
#[derive(Debug)]
pub struct Interests(AtomicU32);

impl Interests {
    /// This set, for now.
    pub fn new(now: Interest) -> Interests {
        Interests(AtomicU32::new(now.0))
    }

    /// True when the event is handled now.
    pub fn has(&self, event: Event) -> bool {
        self.now().has(event)
    }

    /// The set as it stands.
    pub fn now(&self) -> Interest {
        Interest(self.0.load(Ordering::Acquire))
    }

    /// From now on it is this one.
    pub fn set(&self, now: Interest) {
        self.0.store(now.0, Ordering::Release);
    }
}

impl Interest {
    /// No event.
    pub const NONE: Interest = Interest(0);

    /// This set and one more.
    #[must_use]
    pub fn with(self, event: Event) -> Interest {
        Interest(self.0 | 1 << event as u8)
    }

    /// The events of both.
    #[must_use]
    pub fn and(self, other: Interest) -> Interest {
        Interest(self.0 & other.0)
    }

    /// True when the event is handled.
    pub fn has(self, event: Event) -> bool {
        self.0 & (1 << event as u8) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_has_its_own_bit_and_name() {
        let mut names = std::collections::BTreeSet::new();
        for event in Event::ALL {
            assert!(!Interest::NONE.has(event));
            let one = Interest::NONE.with(event);
            assert_eq!(Event::ALL.iter().filter(|e| one.has(**e)).count(), 1);
            names.insert(event.name());
        }
        assert_eq!(names.len(), Event::ALL.len());
    }
}
