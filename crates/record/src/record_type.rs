//! The kinds of log record.
//!
//! Owns [`RecordType`]. In and out: its KumoMTA name. Reading an unknown name gives nothing. What is logged when is
//! decided by those who log.

use core::fmt;
use serde::{Deserialize, Serialize};

/// What a record tells. KumoMTA's `type` field; its wildcard `Any` is no type and is not here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RecordType {
    /// A message was accepted.
    Reception,
    /// A message was delivered to one or more recipients.
    Delivery,
    /// A permanent failure.
    Bounce,
    /// A failure that will be retried.
    TransientFailure,
    /// A message grew too old.
    Expiration,
    /// The operator bounced it.
    AdminBounce,
    /// A bounce report (RFC 3464) came in; one record a failed recipient.
    OOB,
    /// A feedback report (RFC 5965) came in; takes the place of Reception.
    Feedback,
    /// Our server answered 4xx or 5xx.
    Rejection,
    /// The operator moved it to another queue.
    AdminRebind,
    /// It left the deferred-injection queue.
    DeferredInjectionRebind,
    /// It waits again although no attempt failed.
    Delayed,
    /// It went to another node.
    XferOut,
    /// It came from another node.
    XferIn,
}

impl RecordType {
    /// Every type, in order.
    pub const ALL: [RecordType; 14] = [
        RecordType::Reception,
        RecordType::Delivery,
        RecordType::Bounce,
        RecordType::TransientFailure,
        RecordType::Expiration,
        RecordType::AdminBounce,
        RecordType::OOB,
        RecordType::Feedback,
        RecordType::Rejection,
        RecordType::AdminRebind,
        RecordType::DeferredInjectionRebind,
        RecordType::Delayed,
        RecordType::XferOut,
        RecordType::XferIn,
    ];

    /// The name in logs, metrics and policies.
    pub const fn as_str(self) -> &'static str {
        match self {
            RecordType::Reception => "Reception",
            RecordType::Delivery => "Delivery",
            RecordType::Bounce => "Bounce",
            RecordType::TransientFailure => "TransientFailure",
            RecordType::Expiration => "Expiration",
            RecordType::AdminBounce => "AdminBounce",
            RecordType::OOB => "OOB",
            RecordType::Feedback => "Feedback",
            RecordType::Rejection => "Rejection",
            RecordType::AdminRebind => "AdminRebind",
            RecordType::DeferredInjectionRebind => "DeferredInjectionRebind",
            RecordType::Delayed => "Delayed",
            RecordType::XferOut => "XferOut",
            RecordType::XferIn => "XferIn",
        }
    }

    /// The type of that name.
    pub fn from_name(name: &str) -> Option<RecordType> {
        RecordType::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Whether the bounce classifier looks at records of this type.
    pub const fn is_classified(self) -> bool {
        matches!(
            self,
            RecordType::Bounce
                | RecordType::TransientFailure
                | RecordType::Expiration
                | RecordType::AdminBounce
                | RecordType::OOB
                | RecordType::Feedback
                | RecordType::Rejection
        )
    }
}

impl fmt::Display for RecordType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_json_agree() {
        for kind in RecordType::ALL {
            assert_eq!(RecordType::from_name(kind.as_str()), Some(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
        assert_eq!(RecordType::from_name("Any"), None);
        assert_eq!(RecordType::ALL.into_iter().filter(|kind| kind.is_classified()).count(), 7);
    }
}
