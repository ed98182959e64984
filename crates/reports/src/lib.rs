//! Reports about authentication and TLS that domains ask for: what is counted, for whom, and how it is written.
//!
//! Owns: whom a domain wants told ([`DmarcWants`], [`TlsWants`], [`ReportUri`]) and whether they want it ([`permission`]); what is
//! counted ([`DmarcRow`], [`TlsRow`], [`Tally`]); and the reports themselves: DMARC aggregate reports (RFC 7489 section 7.2 and
//! appendix C), DMARC failure reports (RFC 6591 in the form of RFC 5965), TLS reports (RFC 8460), each as a message.
//! In: TXT records, counts, a [`Period`], who reports. Out: octets of messages, names, JSON, XML. Cannot fail: what strangers
//! wrote and is no use, is left out; what cannot stand where it is to stand, is replaced.
//!
//! Deliberately not here: DNS, files, clocks, sending (`report-sender`), and the checks themselves (`sender-check`, the engine).

mod dmarc;
mod dmarc_failure;
mod dmarc_xml;
mod mail;
mod period;
pub mod permission;
mod tally;
mod tls;
mod tls_json;
mod uri;
mod wanted;

pub use dmarc::{
    Alignment, DKIM_RESULTS_MAX, Disposition, DkimSeen, DmarcRow, DmarcSeen, Override, PublishedPolicy, SpfSeen,
};
pub use dmarc_failure::{FAILURE_HEADER_OCTETS_MAX, FailureSeen, failure_mail};
pub use dmarc_xml::{aggregate_mail, aggregate_xml};
pub use mail::{Reporter, domain_of, file_stem, gzip};
pub use period::Period;
pub use tally::{Account, Added, Bounds, Tally};
pub use tls::{SessionFailure, TlsPolicy, TlsPolicyType, TlsResult, TlsRow, TlsSeen};
pub use tls_json::{TLS_MEDIA_TYPE, tls_json, tls_mail};
pub use uri::{REPORT_URIS_MAX, ReportUri, Scheme, parse_list};
pub use wanted::{DmarcWants, FailureOptions, TlsWants};
