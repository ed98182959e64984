//! ResolverConfig: where to ask and how patiently.
//!
//! The names and defaults are those of KumoMTA's resolver options; options that are not here are not acted on.
//! Fails with [`DnsSetupError`], which names the file or the field.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

/// How to reach DNS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolverConfig {
    /// Servers to ask, each over UDP and, for long answers, TCP. At least one.
    pub name_servers: Vec<SocketAddr>,
    /// Time limit of one request to one server.
    pub timeout: Duration,
    /// Requests after the first before giving up.
    pub attempts: usize,
    /// Servers asked at the same time.
    pub num_concurrent_reqs: usize,
    /// Answers kept by the library, in number.
    pub cache_size: u64,
    /// Ask for answers longer than 512 bytes over UDP.
    pub edns0: bool,
    /// Look into the hosts file before asking.
    pub use_hosts_file: bool,
    /// Ask the server to do the recursion.
    pub recursion_desired: bool,
    /// Try TCP when UDP failed.
    pub try_tcp_on_error: bool,
    /// Mix the case of letters in questions, against forged answers (0x20).
    pub case_randomization: bool,
    /// Shortest time an answer is kept.
    pub positive_min_ttl: Option<Duration>,
    /// Longest time an answer is kept.
    pub positive_max_ttl: Option<Duration>,
    /// Shortest time a "there is nothing" is kept.
    pub negative_min_ttl: Option<Duration>,
    /// Longest time a "there is nothing" is kept.
    pub negative_max_ttl: Option<Duration>,
}

/// Why there is no resolver.
#[derive(Debug, Error)]
pub enum DnsSetupError {
    /// The system's configuration cannot be read.
    #[error("cannot read {}: {source}; name the servers in the policy instead (kumo.dns.configure_resolver)", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The system's configuration is of no use.
    #[error("{} is not usable: {reason}; expected at least one line `nameserver ADDRESS`", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A configuration without servers.
    #[error("name_servers is empty; expected at least one IP:PORT")]
    NoNameServers,
    /// A time limit that no answer can keep.
    #[error("timeout is 0; expected more than no time at all")]
    NoTimeout,
    /// The library refused.
    #[error("the resolver cannot be set up: {reason}")]
    Library {
        /// The library's words.
        reason: String,
    },
}

impl ResolverConfig {
    /// The defaults with these servers.
    pub fn new(name_servers: Vec<SocketAddr>) -> Self {
        Self {
            name_servers,
            timeout: Duration::from_secs(5),
            attempts: 2,
            num_concurrent_reqs: 2,
            cache_size: 8192,
            edns0: true,
            use_hosts_file: true,
            recursion_desired: true,
            try_tcp_on_error: false,
            case_randomization: false,
            positive_min_ttl: None,
            positive_max_ttl: None,
            negative_min_ttl: None,
            negative_max_ttl: None,
        }
    }
}
