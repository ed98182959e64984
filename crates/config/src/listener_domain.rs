//! The options of a domain we take mail for or from.
//!
//! Owns [`ListenerDomain`], the argument of `kumo.make_listener_domain`. Who may relay is decided by the receiving
//! session with it.

use crate::choices::LogReport;
use crate::cidr::CidrSet;
use crate::duration::Duration;
use crate::options::options;

options! {
    /// `kumo.make_listener_domain`
    pub struct ListenerDomain {
        /// Accept mail for this (recipient) domain from anyone.
        relay_to: bool = false;
        /// Peers that may relay when this is the sender's domain.
        relay_from: CidrSet = CidrSet::default();
        /// What to do with bounce reports (RFC 3464) to this domain; `true` is LogThenRelay.
        log_oob: LogReport = LogReport::Ignore;
        /// What to do with feedback reports (RFC 5965) to this domain; looked at before log_oob.
        log_arf: LogReport = LogReport::Ignore;
        /// Accepted for old policies; unused.
        ttl: Duration = Duration::from_secs(60);
    }
}
