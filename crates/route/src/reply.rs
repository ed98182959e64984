//! LocalReply: the SMTP reply that is logged when routing itself decides the fate of an attempt.
//!
//! One table, [`LocalReply::of_plan`], maps every verdict to its code (KumoMTA behaviour): null MX 556 5.1.10, a prohibited
//! host 550 5.4.4, everything else 451 4.4.4. A domain that does not resolve is retried too, even after NXDOMAIN: KumoMTA
//! lists no bounce for it, and zones do vanish for an hour.
//!
//! Cannot fail. Deliberately not here: writing the record, deciding what the queue does next.

use std::fmt;

use crate::plan::ConnectionPlan;

/// How texts begin that the server itself made up. Traffic shaping rules skip such texts unless `match_internal` is set,
/// so the words are part of the format.
pub const INTERNAL_REPLY_PREFIX: &str = "KumoMTA internal: ";

/// A reply that no peer sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalReply {
    /// SMTP reply code (RFC 5321).
    pub code: u16,
    /// Enhanced status code: class, subject, detail (RFC 3463).
    pub enhanced: (u8, u16, u16),
    /// The text, beginning with [`INTERNAL_REPLY_PREFIX`].
    pub text: String,
}

impl LocalReply {
    /// The reply of a verdict; `None` when there are candidates to connect to.
    pub fn of_plan(plan: &ConnectionPlan) -> Option<Self> {
        Some(match plan {
            ConnectionPlan::Candidates(_) => return None,
            ConnectionPlan::NullMx => Self::new(556, (5, 1, 10), "the domain declares that it takes no mail (null MX)"),
            ConnectionPlan::Prohibited { host, addr } => {
                let text = format!("host {host} has address {addr}, which prohibited_hosts forbids");
                Self::new(550, (5, 4, 4), &text)
            }
            ConnectionPlan::AllSkipped => Self::new(451, (4, 4, 4), "skip_hosts excludes every address of every host"),
            ConnectionPlan::NoAddresses => Self::new(451, (4, 4, 4), "no host of the domain has an address"),
            ConnectionPlan::Unresolvable { text, .. } => Self::unresolvable(text),
        })
    }

    /// The reply for a domain or host that DNS does not know or does not tell.
    pub fn unresolvable(why: &str) -> Self {
        Self::new(451, (4, 4, 4), why)
    }

    /// The enhanced code as text, `4.4.4`.
    pub fn enhanced_text(&self) -> String {
        let (class, subject, detail) = self.enhanced;
        format!("{class}.{subject}.{detail}")
    }

    fn new(code: u16, enhanced: (u8, u16, u16), why: &str) -> Self {
        Self { code, enhanced, text: format!("{INTERNAL_REPLY_PREFIX}{why}") }
    }
}

impl fmt::Display for LocalReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.code, self.enhanced_text(), self.text)
    }
}
