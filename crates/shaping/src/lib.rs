//! Traffic shaping: what a path to a destination may do, and what is done when its servers complain.
//!
//! Owns the shaping file, in KumoMTA's form. In: the texts of such files ([`Document`]), then the sites of the domains they
//! name ([`Assembly`], because whoever asks DNS waits and this crate does not). Out: [`Shaping`], which answers for a
//! domain, a source and a site with the options of `kumo.make_egress_path`, and for a log record with the automation
//! rules whose expressions match its response. Fails while a document is read, naming file, place, value and what was
//! expected ([`ShapingError`]); what is wrong between documents and DNS is listed at the severity asked for ([`Problem`]).
//!
//! Deliberately absent: fetching files, asking DNS, counting what matched (thresholds), carrying out actions.

mod assembly;
mod block;
mod contradictions;
mod document;
mod error;
mod hash;
mod load_options;
mod merge;
mod place;
mod problem;
mod provider;
mod rule;
mod shaping;
mod site;

pub use assembly::{Assembly, DOCUMENTS_MAX, Resolved};
pub use document::{BLOCKS_MAX, Document, NAMED_SITES_MEDIA_TYPE, is_domain_key};
pub use error::ShapingError;
pub use load_options::{LoadOptions, Severity};
pub use problem::Problem;
pub use rule::{Action, MatchFailure, PATTERN_OCTETS_MAX, PATTERNS_MAX, Rule, SetOption};
pub use shaping::{LogRecordView, MatchedRule, RuleMatches, Shaping};
pub use site::{HOSTS_MAX, hosts_of_site, key_of_site, site_of_ready_queue};
