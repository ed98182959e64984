//! What TLS one host of a site must offer before it gets mail: the path's wish, raised by DANE or MTA-STS.
//!
//! In:  the egress path, the exchangers with their MTA-STS mode, a host with what DNSSEC says of it. Out: [`Security`], or
//! why the host cannot be used now. Every connection belongs to a ready queue, and a ready queue to one verdict about the
//! domain (`routing::identity`), so that no message rides on a connection that satisfies only another domain's policy. It
//! belongs to one demand of senders too (RFC 8689): connections for mail with REQUIRETLS or `TLS-Required: No` are made for it.
//!
//! DANE (RFC 7672) comes first: TLSA records are looked up only when DNSSEC vouches for the host's name and address. That
//! they cannot be had, other than by a proof that there are none, keeps mail from this host. Deliberately not here: the
//! comparison with a certificate (`net::dane`) and the handshake.

use crate::egress::carriage::Carriage;
use crate::egress::routing::is_name_known;
use crate::engine::Engine;
use config::{EgressPath, EnableTls};
use message::TlsDemand;
use net::dane::TlsaSet;
use net::tls_client::Verification;
use queue::Opening;
use route::{Candidate, DnsError, Resolver, StsMode, TlsaRecord};
use std::sync::Arc;

/// The demands on a session with one host.
#[derive(Clone, Debug)]
pub(super) struct Security {
    /// The path's, or a stricter one.
    pub enable_tls: EnableTls,
    /// Which certificates are taken.
    pub verification: Verification,
    /// The name the host is addressed by in TLS, when it is another than its own.
    pub server_name: Option<String>,
    /// What raised the demands, for the texts of failures.
    pub demanded_by: Option<String>,
    /// DNSSEC vouches for the host's name and address.
    pub is_secure: bool,
    /// DNSSEC, an MTA-STS policy or the operator vouches for the host's name.
    pub is_name_known: bool,
    /// The host must offer REQUIRETLS.
    pub needs_requiretls: bool,
    /// Below which name TLSA records stand none of which can be used; for reports.
    pub unusable_tlsa: Option<String>,
}

impl Security {
    /// The same for mail with REQUIRETLS (RFC 8689 section 4.2.1): TLS, and a server that DANE or an authority vouches for.
    fn under_requiretls(self) -> Security {
        let verification = match self.verification {
            Verification::Any => Verification::Roots,
            verified => verified,
        };
        let demanded_by = self.demanded_by.or_else(|| Some("REQUIRETLS".to_owned()));
        Security { enable_tls: EnableTls::Required, verification, demanded_by, needs_requiretls: true, ..self }
    }
}

/// What TLSA records say of a host.
enum Dane {
    /// These must be satisfied; the name they stand below.
    Usable(TlsaSet, String),
    /// There are some, and none that means anything: TLS, with anybody.
    Unusable(String),
    /// There is none.
    NotApplicable,
    /// Nobody vouches for the host's name or address.
    InsecureChain,
    /// They cannot be had.
    Failed(String),
}

impl Engine {
    /// What a session with `host` must satisfy; an error when it cannot be used now.
    pub(super) async fn security(&self, opening: &Opening, host: &Candidate) -> Result<Security, String> {
        let path = &opening.leg.path;
        let demand = Carriage::tls_demand(&opening.leg.destination);
        let exchangers = Carriage::exchangers(&opening.leg.destination);
        let (names_secure, sts) = exchangers.as_ref().map_or((false, StsMode::None), |e| (e.is_secure(), e.sts()));
        let is_secure = names_secure && host.trust.is_secure;
        if demand == TlsDemand::Waived {
            return Ok(waived(path, is_secure));
        }
        let is_name_known = exchangers.is_some_and(|exchangers| is_name_known(&exchangers));
        let dane = match path.enable_dane {
            true => self.dane(names_secure, host).await,
            false => Dane::NotApplicable,
        };
        if path.enable_dane {
            self.metrics.dane_result_count.with_label_values(&[dane.label()]).inc();
            let is_in_vain = matches!(dane, Dane::InsecureChain) && !self.mx.validates();
            if is_in_vain && self.common.dane_is_in_vain.set(()).is_ok() {
                tracing::warn!("{IN_VAIN}");
            }
        }
        let found = match dane {
            Dane::Failed(why) => return Err(why),
            Dane::Usable(tlsa, base) => Security {
                enable_tls: EnableTls::Required,
                verification: Verification::Dane(Arc::new(tlsa)),
                demanded_by: Some(format!("DANE (TLSA records of {base})")),
                server_name: Some(base),
                is_secure,
                is_name_known,
                needs_requiretls: false,
                unusable_tlsa: None,
            },
            Dane::Unusable(base) => {
                let mut security = under_sts(path, sts, is_secure);
                if !matches!(security.enable_tls, EnableTls::Required) {
                    security.enable_tls = EnableTls::RequiredInsecure;
                    security.verification = Verification::Any;
                    security.demanded_by = Some(format!("DANE (unusable TLSA records of {base})"));
                }
                security.unusable_tlsa = Some(base);
                security
            }
            Dane::NotApplicable | Dane::InsecureChain => under_sts(path, sts, is_secure),
        };
        let found = Security { is_name_known, ..found };
        Ok(if demand == TlsDemand::Required { found.under_requiretls() } else { found })
    }

    async fn dane(&self, names_secure: bool, host: &Candidate) -> Dane {
        let bases = base_names(host);
        if !names_secure || bases.is_empty() {
            return Dane::InsecureChain;
        }
        for base in bases {
            let name = format!("_{}._tcp.{base}", host.addr.port());
            match self.mx.tlsa(&name).await {
                Ok(answer) if answer.is_secure => return judged(&answer.records, base, host),
                // What nobody vouches for is as good as absent.
                Ok(_) | Err(DnsError::NoData | DnsError::NxDomain) => {}
                Err(error) => return Dane::Failed(format!("DANE: cannot look up TLSA of {name}: {error}")),
            }
        }
        Dane::NotApplicable
    }
}

impl Dane {
    /// The metric's label (KumoMTA's names).
    fn label(&self) -> &'static str {
        match self {
            Dane::Usable(..) => "ok",
            Dane::Unusable(_) => "unusable",
            Dane::NotApplicable => "not_applicable",
            Dane::InsecureChain => "insecure_chain",
            Dane::Failed(_) => "tempfail",
        }
    }
}

/// The names below which TLSA records are looked for, best first (RFC 7672 section 2.2.2 and 2.2.3): where aliases lead
/// when all of the way is secure, else the host's own name.
fn base_names(host: &Candidate) -> Vec<String> {
    let own = host.host.trim_end_matches('.').to_owned();
    let trust = &host.trust;
    match &trust.canonical {
        Some(canonical) if trust.is_secure => vec![canonical.trim_end_matches('.').to_owned(), own],
        Some(_) if trust.is_alias_secure => vec![own],
        None if trust.is_secure => vec![own],
        _ => Vec::new(),
    }
}

fn judged(records: &[TlsaRecord], base: String, host: &Candidate) -> Dane {
    let mut names = vec![base.clone(), host.host.trim_end_matches('.').to_owned()];
    names.dedup();
    match TlsaSet::new(records, names) {
        Some(tlsa) => Dane::Usable(tlsa, base),
        None => Dane::Unusable(base),
    }
}

/// The path's wish, raised by the domain's MTA-STS policy. `testing` asks for no more than an attempt (KumoMTA: it takes
/// any certificate), and lowers nothing that the operator demands.
fn under_sts(path: &EgressPath, sts: StsMode, is_secure: bool) -> Security {
    let sts = if path.enable_mta_sts { sts } else { StsMode::None };
    let enable_tls = match (sts, path.enable_tls) {
        (StsMode::Enforce, _) => EnableTls::Required,
        (StsMode::Testing, EnableTls::Opportunistic) => EnableTls::OpportunisticInsecure,
        (StsMode::Testing | StsMode::None, own) => own,
    };
    Security {
        enable_tls,
        verification: Verification::of(enable_tls),
        server_name: None,
        demanded_by: (sts == StsMode::Enforce).then(|| "MTA-STS (enforce)".to_owned()),
        is_secure,
        is_name_known: false,
        needs_requiretls: false,
        unusable_tlsa: None,
    }
}

/// For mail with `TLS-Required: No` (RFC 8689 section 4.2.2): neither DANE nor MTA-STS is looked at, and no certificate keeps
/// mail back. What the operator himself demands stays.
fn waived(path: &EgressPath, is_secure: bool) -> Security {
    let enable_tls = match path.enable_tls {
        EnableTls::Opportunistic => EnableTls::OpportunisticInsecure,
        own => own,
    };
    Security { enable_tls, verification: Verification::of(enable_tls), ..under_sts(path, StsMode::None, is_secure) }
}

/// What is said of `enable_dane` where nobody validates.
const IN_VAIN: &str = "enable_dane has no effect where nobody looks whether DNSSEC vouches for names, as here: \
     kumo.dns.configure_resolver { options = { validate = true } } does";

#[cfg(test)]
mod tests {
    use super::*;
    use route::HostTrust;

    #[test]
    fn enforce_raises_and_testing_lowers_nothing_that_is_demanded() {
        use EnableTls::{Disabled, Opportunistic, OpportunisticInsecure, Required, RequiredInsecure};
        for (own, testing) in [
            (Opportunistic, OpportunisticInsecure),
            (OpportunisticInsecure, OpportunisticInsecure),
            (Required, Required),
            (RequiredInsecure, RequiredInsecure),
            (Disabled, Disabled),
        ] {
            let path = |enable_mta_sts| EgressPath { enable_tls: own, enable_mta_sts, ..EgressPath::default() };
            let mode = |sts| under_sts(&path(true), sts, false);
            assert_eq!(mode(StsMode::None).enable_tls, own);
            assert_eq!(mode(StsMode::Testing).enable_tls, testing);
            let enforced = mode(StsMode::Enforce);
            assert_eq!((enforced.enable_tls, enforced.verification), (Required, Verification::Roots));
            assert_eq!(enforced.demanded_by.as_deref(), Some("MTA-STS (enforce)"));
            assert_eq!(under_sts(&path(false), StsMode::Enforce, false).enable_tls, own);
        }
    }

    #[test]
    fn senders_may_raise_and_lower_but_not_below_the_operator() {
        use EnableTls::{Disabled, Opportunistic, OpportunisticInsecure, Required, RequiredInsecure};
        for (own, lowered) in [
            (Opportunistic, OpportunisticInsecure),
            (OpportunisticInsecure, OpportunisticInsecure),
            (Required, Required),
            (RequiredInsecure, RequiredInsecure),
            (Disabled, Disabled),
        ] {
            let path = EgressPath { enable_tls: own, ..EgressPath::default() };
            let low = waived(&path, false);
            assert_eq!((low.enable_tls, &low.verification), (lowered, &Verification::of(lowered)));
            assert_eq!((low.demanded_by, low.needs_requiretls), (None, false));
            let high = under_sts(&path, StsMode::None, false).under_requiretls();
            assert_eq!((high.enable_tls, high.verification), (Required, Verification::Roots), "{own:?}");
            assert_eq!((high.demanded_by.as_deref(), high.needs_requiretls), (Some("REQUIRETLS"), true));
        }
    }

    #[test]
    fn tlsa_records_stand_where_secure_aliases_lead() {
        let names = |is_secure, canonical: Option<&str>, is_alias_secure| {
            let trust = HostTrust { is_secure, canonical: canonical.map(str::to_owned), is_alias_secure };
            let addr = "127.0.0.1:25".parse().unwrap();
            base_names(&Candidate { host: "mx.test.".to_owned(), addr, preference: 1, trust })
        };
        assert_eq!(names(true, None, false), ["mx.test"]);
        assert_eq!(names(false, None, false), [""; 0]);
        assert_eq!(names(true, Some("end.test."), true), ["end.test", "mx.test"]);
        assert_eq!(names(false, Some("end.test."), true), ["mx.test"], "the end is insecure, the alias is not");
        assert_eq!(names(false, Some("end.test."), false), [""; 0]);
    }
}
