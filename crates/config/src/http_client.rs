//! The options of `kumo.http.build_client`.
//!
//! Owns [`HttpClientOptions`]. Asking is the web crate's.

use crate::duration::Duration;
use crate::options::options;

options! {
    /// `kumo.http.build_client`
    pub struct HttpClientOptions {
        /// What the client calls itself.
        user_agent: Option<String> = None;
        /// Accepted: connections are not logged.
        connection_verbose: Option<bool> = None;
        /// How long an idle connection is kept for reuse.
        pool_idle_timeout: Duration = Duration::from_secs(90);
        /// Time limit for a request, its answer included.
        timeout: Duration = Duration::from_secs(60);
        /// Take any certificate of a server.
        accept_invalid_certs: bool = false;
    }
}
