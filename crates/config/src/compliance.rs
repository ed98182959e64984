//! The options of a check against the rules of large providers of mailboxes.
//!
//! Owns [`ComplianceOptions`], the argument of `kumo.compliance.check`. The rules are in the compliance crate, which also knows
//! their names.

use crate::choices::ComplianceMode;
use crate::options::options;
use core::net::IpAddr;

options! {
    /// `kumo.compliance.check`
    pub struct ComplianceOptions check check_compliance {
        /// What becomes of a message that breaks rules.
        mode: ComplianceMode = ComplianceMode::Warn;
        /// Whose message it is, for the counters; the metadata `tenant` when absent.
        tenant: Option<String> = None;
        /// It is bulk mail, which has to offer unsubscribing; when absent, it is if it looks so: List-Id, List-Unsubscribe, or
        /// Precedence bulk or list.
        bulk: Option<bool> = None;
        /// The addresses it may leave from, for SPF and PTR.
        sources: Vec<IpAddr> = Vec::new();
        /// Names of rules that are not looked at.
        ignore: Vec<String> = Vec::new();
        /// Largest message (bytes).
        max_message_size: usize = 25 * 1024 * 1024, min 1;
        /// The header field of `Tag`.
        header: String = "X-Compliance".to_owned();
        /// Who is asked (`kumo.dns.define_resolver`); the resolver of mail when absent.
        resolver: Option<String> = None;
    }
}

fn check_compliance(options: &ComplianceOptions) -> Result<(), String> {
    if options.sources.len() > SOURCES_MAX {
        return Err(format!("sources: {} addresses: expected at most {SOURCES_MAX}", options.sources.len()));
    }
    let is_name = !options.header.is_empty() && options.header.bytes().all(|b| b.is_ascii_graphic() && b != b':');
    match is_name {
        true => Ok(()),
        false => Err(format!("invalid header {:?}: expected printable ASCII without \":\"", options.header)),
    }
}

/// Addresses of a message's sources.
const SOURCES_MAX: usize = 64;
