//! Compliance: what the large providers of mailboxes demand of a message and its sender, checked before it is sent.
//!
//! Owns [`Rule`], the names of all rules with who demands each and what mends it, and [`check`].
//! In: a message as it will be sent, its sender, what is demanded beyond the message (the addresses it will leave from), a
//! `route::Resolver`, the time. Out: a [`Report`]: findings, and rules that DNS left open. Cannot fail: whatever a message holds
//! is a finding or none.
//!
//! The rooms below: `rule` (the rules), `form` (what the message shows by itself), `unsubscribe` (RFC 8058), `identity` (what DNS
//! says of its domains and addresses). Everything that waits here waits for the resolver; with its answers at hand a check
//! takes some microseconds. A signature is read, not verified: it was just made, and its signer can check it.
//!
//! Deliberately does not: decide what becomes of a message (policy does), count, verify signatures, measure rates of complaints.

mod form;
mod identity;
mod rule;
mod unsubscribe;

pub use rule::{Provider, Rule};

use mime::HeaderView;
use route::Resolver;
use std::net::IpAddr;

/// A message about to be accepted.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    pub headers: HeaderView<'a>,
    pub body: &'a [u8],
    /// MAIL FROM; empty for the null sender, of which SPF says nothing here.
    pub sender: &'a str,
    pub now_unix_secs: u64,
}

/// What is demanded of it.
#[derive(Clone, Debug)]
pub struct Demands {
    /// It is bulk mail, which has to offer unsubscribing; when not said, it is if it looks so.
    pub is_bulk: Option<bool>,
    /// The addresses it may leave from; at most [`SOURCES_MAX`] are looked at.
    pub sources: Vec<IpAddr>,
    /// Rules that are not looked at.
    pub ignored: Vec<Rule>,
    /// Largest message, in octets.
    pub bytes_max: usize,
}

impl Default for Demands {
    fn default() -> Demands {
        Demands { is_bulk: None, sources: Vec::new(), ignored: Vec::new(), bytes_max: BYTES_MAX }
    }
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// In the order of [`Rule::ALL`].
    pub findings: Vec<Finding>,
    /// What is not known because DNS did not answer; of each rule the first reason.
    pub undecided: Vec<Undecided>,
}

/// A rule that is not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub rule: Rule,
    /// What is wrong, on one line.
    pub what: String,
    /// A provider refuses or hides mail for it; else it is advice.
    pub is_demanded: bool,
}

/// A rule nobody can judge now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undecided {
    pub rule: Rule,
    pub why: String,
}

impl Report {
    /// The first finding for which a message may be refused.
    pub fn worst(&self) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.is_demanded)
    }

    /// The rules that are not kept, each once: two sources without a name break one rule.
    pub fn broken(&self) -> Vec<Rule> {
        let mut rules: Vec<Rule> = self.findings.iter().map(|finding| finding.rule).collect();
        // Findings of a rule stand together.
        rules.dedup();
        rules
    }

    fn find(&mut self, rule: Rule, what: impl Into<String>) {
        self.findings.push(Finding { rule, what: what.into(), is_demanded: true });
    }

    fn leave_open(&mut self, rule: Rule, why: impl Into<String>) {
        if !self.undecided.iter().any(|undecided| undecided.rule == rule) {
            self.undecided.push(Undecided { rule, why: why.into() });
        }
    }
}

/// Holds a message against the rules.
pub async fn check(resolver: &dyn Resolver, subject: &Subject<'_>, demands: &Demands) -> Report {
    let mut report = Report::default();
    form::check(subject, demands, &mut report);
    let signatures = identity::signatures(subject);
    let usable = identity::check(resolver, subject, demands, &signatures, &mut report).await;
    unsubscribe::check(subject, demands, &usable, &mut report);
    report.findings.retain(|finding| !demands.ignored.contains(&finding.rule));
    report.undecided.retain(|undecided| !demands.ignored.contains(&undecided.rule));
    report.findings.sort_by_key(|finding| finding.rule);
    report
}

/// Addresses of sources that are looked at.
pub const SOURCES_MAX: usize = 64;

/// Largest message when nothing else is said: what Gmail, Yahoo and Outlook.com take, in octets.
pub const BYTES_MAX: usize = 25 * 1024 * 1024;

/// Signatures that are looked at, from the top.
pub const SIGNATURES_MAX: usize = sender_check::limits::SIGNATURES_MAX;
