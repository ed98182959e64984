//! What is checked of mail before it leaves: rules of large providers, by tenant, and signatures that do not hold.
//!
//! Owns [`ComplianceCounts`]. In: what was found of each message. Out: `postrider_compliance_messages_total{tenant,result}`,
//! `postrider_compliance_findings_total{tenant,rule}` and `postrider_dkim_self_check_failures_total`. Names of rules are the program's own; tenants are the operator's, or his
//! customers', so their number is bounded: those beyond the bound count as [`OTHER`].

use crate::metrics::{counter, counters};
use crate::registry::Registry;
use prometheus::{Error, IntCounter, IntCounterVec};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// The counters.
pub struct ComplianceCounts {
    /// Signatures that did not hold when they had just been made.
    pub faulty_signatures: IntCounter,
    messages: IntCounterVec,
    findings: IntCounterVec,
    tenants: Mutex<BTreeSet<String>>,
}

impl ComplianceCounts {
    pub(crate) fn new(r: &Registry) -> Result<ComplianceCounts, Error> {
        let messages = "postrider_compliance_messages_total";
        let findings = "postrider_compliance_findings_total";
        let faulty = "postrider_dkim_self_check_failures_total";
        Ok(ComplianceCounts {
            faulty_signatures: counter(r, faulty, "signatures that did not hold when made, and were not used")?,
            messages: counters(r, messages, "messages held against rules of providers", &["tenant", "result"])?,
            findings: counters(r, findings, "rules that messages broke", &["tenant", "rule"])?,
            tenants: Mutex::default(),
        })
    }

    /// A message of a tenant broke these rules, and may have been refused for it.
    pub fn held(&self, tenant: &str, broken: &[&'static str], is_refused: bool) {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = tenants.len() < TENANTS_MAX && tenant.len() <= TENANT_OCTETS_MAX;
        let known = tenants.contains(tenant) || (has_room && tenants.insert(tenant.to_owned()));
        drop(tenants);
        let tenant = if known { tenant } else { OTHER };
        let result = match (is_refused, broken) {
            (true, _) => "refused",
            (false, []) => "kept",
            (false, _) => "broken",
        };
        self.messages.with_label_values(&[tenant, result]).inc();
        for rule in broken {
            self.findings.with_label_values(&[tenant, *rule]).inc();
        }
    }
}

/// Tenants that are told apart.
const TENANTS_MAX: usize = 1000;
/// Octets of a tenant's name that is a label: it may come from a header field.
const TENANT_OCTETS_MAX: usize = 128;
/// The label of all others.
const OTHER: &str = "other";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_are_told_apart_up_to_a_bound() {
        let counts = ComplianceCounts::new(&Registry::default()).expect("sound");
        (0..=TENANTS_MAX).for_each(|number| counts.held(&format!("t{number}"), &["dmarc", "ptr"], false));
        counts.held("t0", &[], false);
        counts.held("t0", &["ptr"], true);
        let messages = |tenant, result| counts.messages.with_label_values(&[tenant, result]).get();
        assert_eq!(["kept", "broken", "refused"].map(|result| messages("t0", result)), [1, 1, 1]);
        assert_eq!((messages("t999", "broken"), messages(OTHER, "broken")), (1, 1));
        let findings = |tenant, rule| counts.findings.with_label_values(&[tenant, rule]).get();
        assert_eq!((findings("t0", "ptr"), findings("t0", "dmarc"), findings(OTHER, "ptr")), (2, 1, 1));
    }
}
