//! Why something was not published.

use config::Duration;
use net::tls::TlsError;
use thiserror::Error;

/// Why something was not published. A place is a server, with what was published to there; never with a password.
#[derive(Debug, Error)]
pub enum BrokerError {
    /// An address, a header field or a setting that is none.
    #[error("{what}: {why}")]
    Bad {
        /// Which of them, and where it is not secret, as it was given.
        what: String,
        /// What was expected.
        why: String,
    },
    /// No TLS can be had.
    #[error("certificates: {0}")]
    Tls(#[from] TlsError),
    /// Nobody is there, or lets us in.
    #[error("{place}: {cause}")]
    Connect {
        /// The servers.
        place: String,
        /// What the library says.
        cause: String,
    },
    /// A connection that was there is gone; whether the message arrived is not known.
    #[error("{place}: {cause}")]
    Lost {
        /// The server and what was published to.
        place: String,
        /// What the library says.
        cause: String,
    },
    /// The server says no.
    #[error("{place}: {cause}")]
    Refused {
        /// The server and what was published to.
        place: String,
        /// What it says.
        cause: String,
    },
    /// It takes too long; what was published may still arrive.
    #[error("{place}: no {wanted} within {limit}")]
    Late {
        /// The server and what was published to.
        place: String,
        /// What was waited for.
        wanted: &'static str,
        /// How long.
        limit: Duration,
    },
    /// The payload is longer than is taken.
    #[error("{place}: a payload longer than {octets_max} octets")]
    TooLong {
        /// What it was published to.
        place: String,
        /// The bound, in octets.
        octets_max: usize,
    },
    /// More at once than is taken.
    #[error("a batch of more than {items_max} messages")]
    TooMany {
        /// The bound.
        items_max: usize,
    },
    /// It was closed before.
    #[error("the {0} was closed")]
    Closed(&'static str),
}

/// What `work` comes to within `limit`.
pub(crate) async fn within<T>(
    place: &str,
    wanted: &'static str,
    limit: core::time::Duration,
    work: impl Future<Output = Result<T, BrokerError>>,
) -> Result<T, BrokerError> {
    tokio::time::timeout(limit, work).await.map_err(|_| late(place, wanted, limit))?
}

/// That was not there in time.
pub(crate) fn late(place: &str, wanted: &'static str, limit: core::time::Duration) -> BrokerError {
    BrokerError::Late { place: place.to_owned(), wanted, limit: limit.into() }
}
