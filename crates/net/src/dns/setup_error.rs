//! DnsSetupError: why there is no resolver.
//!
//! Each text names the file or the option to mend.

use std::path::PathBuf;

use thiserror::Error;

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
    /// A time limit that no answer can keep.
    #[error("options.timeout is 0; expected more than no time at all")]
    NoTimeout,
    /// The keys DNSSEC is to begin with.
    #[error("options.trust_anchor_file: {file}: {cause}; expected DNSKEY records, as in a zone file")]
    TrustAnchors {
        /// The file.
        file: String,
        /// What is wrong with it.
        cause: String,
    },
    /// A zone of a test resolver.
    #[error("zone {place} of the test resolver: {cause}")]
    Zone {
        /// Which one, counted from 1.
        place: usize,
        /// What is wrong with it.
        cause: String,
    },
    /// Text that is no DNS name.
    #[error("`{name}` is no DNS name: {cause}")]
    Name {
        /// The text.
        name: String,
        /// What is wrong with it.
        cause: String,
    },
    /// Resolvers made of resolvers made of resolvers.
    #[error("Aggregate: nested deeper than {0} levels")]
    TooDeep(usize),
    /// A resolver made of none.
    #[error("Aggregate: expected at least one resolver")]
    NoResolvers,
    /// A server that the environment names.
    #[error("{name}: `{text}`: expected ip:port")]
    Environment {
        /// The variable.
        name: &'static str,
        /// What stands in it.
        text: String,
    },
    /// What one of the policy's functions set up.
    #[error("{function}: {cause}")]
    Of {
        /// The function, and the resolver's name if it has one.
        function: String,
        /// What is wrong with it.
        cause: Box<DnsSetupError>,
    },
    /// The library refused.
    #[error("the resolver cannot be set up: {reason}")]
    Library {
        /// The library's words.
        reason: String,
    },
}

impl DnsSetupError {
    /// The same, as that of a function of the policy.
    pub(crate) fn of(self, function: &str) -> DnsSetupError {
        DnsSetupError::Of { function: function.to_owned(), cause: Box::new(self) }
    }
}
