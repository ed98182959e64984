//! The options of an HTTP listener.
//!
//! Owns [`HttpListener`], the argument of `kumo.start_http_listener`. Serving is the admin crate's.

use crate::cidr::CidrSet;
use crate::duration::Duration;
use crate::host_port::HostPort;
use crate::key_source::KeySource;
use crate::listener::loopback_hosts;
use crate::options::options;

options! {
    /// `kumo.start_http_listener`
    pub struct HttpListener {
        /// Where to listen: `ip:port`, `[ipv6]:port` or `host:port`.
        listen: HostPort = HostPort { host: "127.0.0.1".to_owned(), port: 8000 };
        /// Peers that may use the administrative endpoints without a password.
        trusted_hosts: CidrSet = loopback_hosts();
        /// Name in a made-up certificate and in the metadata of injected messages; the machine's when absent.
        hostname: Option<String> = None;
        /// Serve https.
        use_tls: bool = false;
        /// Certificate chain, PEM; a made-up one when absent.
        tls_certificate: Option<KeySource> = None;
        /// Its key, PEM.
        tls_private_key: Option<KeySource> = None;
        /// Largest request body, of a compressed one what is in it (bytes); 2 MB when absent. 413 beyond.
        request_body_limit: Option<u64> = None, min 1;
        /// How long a request for mail with an `Idempotency-Key` is remembered; such requests are refused when it is 0. An addition to KumoMTA's options.
        idempotency_window: Duration = Duration::from_secs(86_400);
        /// Names, with a port where it is not that of the scheme, by which browsers may call this listener besides its host name, `localhost` and addresses. An addition to KumoMTA's options.
        browser_hosts: Vec<String> = Vec::new();
    }
}

impl HttpListener {
    /// The largest request body (bytes).
    pub fn request_body_bytes_max(&self) -> u64 {
        self.request_body_limit.unwrap_or(REQUEST_BODY_BYTES_DEFAULT)
    }
}

/// 2 MiB, the default of the HTTP library KumoMTA uses.
const REQUEST_BODY_BYTES_DEFAULT: u64 = 2 * 1024 * 1024;
