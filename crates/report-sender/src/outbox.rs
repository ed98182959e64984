//! Who takes reports that are messages: the seam to queues.

use route::BoxFuture;

/// Takes responsibility for messages.
pub trait Outbox: Send + Sync {
    /// When this is over with `Ok`, the message is on disk and will be delivered; an error says why not, and nothing is kept.
    fn take(&self, message: Outgoing) -> BoxFuture<'_, Result<(), String>>;
}

/// A report as a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The envelope's sender; null when absent.
    pub sender: Option<String>,
    /// For whom.
    pub recipient: String,
    /// `dmarc`, `dmarc_failure` or `tls`.
    pub kind: &'static str,
    /// The domain it is about.
    pub domain: String,
    /// The message.
    pub octets: Vec<u8>,
}
