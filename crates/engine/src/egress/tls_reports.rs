//! What reports about TLS say of one outbound session (RFC 8460 section 4): one observation for each domain whose mail it carried,
//! or, when it carried none, for the domain whose route it was.
//!
//! In: who is connected to and what was to be satisfied; how the negotiation went; whose messages were begun. Out, at the
//! session's end: observations for `report-sender`. Costs nothing where reports are off, and nothing fails.
//!
//! Not observed: sessions for mail with `TLS-Required: No`, which reports about TLS have themselves, so that reports never make
//! reports; LMTP, `mx_list` and address literals, which no domain's policy is about; sessions that never came to the question of
//! TLS, or were not to have any.

use crate::egress::carriage::Carriage;
use crate::egress::security::Security;
use crate::engine::Engine;
use message::TlsDemand;
use net::Stream;
use net::handshake_fault::HandshakeFault;
use net::tls_client::Verification;
use queue::{Opening, QueueKey, QueueName};
use reports::{SessionFailure, TlsPolicy, TlsPolicyType, TlsResult, TlsRow, TlsSeen};
use route::{Candidate, MailExchangers, RouteKind, RoutingDomain, StsFault, StsMode};
use smtp_client::{CloseReason, Closing, TlsMode, TlsStatus};
use smtp_wire::Reply;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// What is remembered of one session.
pub(super) struct TlsWatch {
    exchangers: Arc<MailExchangers>,
    host: String,
    receiving_ip: IpAddr,
    sending_ip: Option<IpAddr>,
    is_wanted: bool,
    follows_sts: bool,
    /// TLSA records of the host, and below which name they stand; no records when none of them can be used.
    tlsa: Option<(Vec<String>, String)>,
    /// How the negotiation ended, once it did.
    outcome: Option<Result<(), (TlsResult, String)>>,
    /// The certificates were not looked at, and this is what would have been wrong with them.
    unenforced: Option<(TlsResult, String)>,
    last: Option<QueueKey>,
    domains: Vec<String>,
}

impl TlsWatch {
    /// Begins to watch a session, where anybody wants to know.
    pub fn new(engine: &Engine, opening: &Opening, host: &Candidate, security: &Security) -> Option<Box<TlsWatch>> {
        if !engine.domain_reports.counts_tls() || opening.leg.path.use_lmtp {
            return None;
        }
        let exchangers = reported(opening)?;
        let tlsa = match (&security.verification, &security.unusable_tlsa) {
            (Verification::Dane(set), _) => Some((set.texts(), security.server_name.clone().unwrap_or_default())),
            (_, Some(base)) => Some((Vec::new(), base.clone())),
            _ => None,
        };
        Some(Box::new(TlsWatch {
            exchangers,
            host: host.host.trim_end_matches('.').to_owned(),
            receiving_ip: host.addr.ip(),
            sending_ip: None,
            is_wanted: false,
            follows_sts: opening.leg.path.enable_mta_sts,
            tlsa,
            outcome: None,
            unenforced: None,
            last: None,
            domains: Vec::new(),
        }))
    }

    /// How TLS is to be used, and from which address and port.
    pub fn begins(&mut self, mode: TlsMode, from: Option<&str>) {
        self.is_wanted = mode != TlsMode::Disabled;
        self.sending_ip = from.and_then(|text| text.parse::<SocketAddr>().ok()).map(|address| address.ip());
    }

    /// The handshake succeeded. A domain whose policy is in testing wants to hear what enforcing it would have done.
    pub fn secured(&mut self, engine: &Engine, stream: &Stream, is_verified: bool) {
        self.outcome = Some(Ok(()));
        if !is_verified && self.follows_sts && self.exchangers.sts() == StsMode::Testing {
            let judged = engine.connectors.judge(stream.server_certificates(), &self.host);
            self.unenforced = judged.err().map(|error| (result_of(HandshakeFault::of_tls(&error)), error.to_string()));
        }
    }

    /// It failed.
    pub fn broke(&mut self, error: &io::Error) {
        self.outcome = Some(Err((result_of(HandshakeFault::of(error)), error.to_string())));
    }

    /// It took too long.
    pub fn timed_out(&mut self) {
        self.outcome = Some(Err((TlsResult::ValidationFailure, "TLS handshake timed out".to_owned())));
    }

    /// A message of that queue is begun.
    pub fn carries(&mut self, engine: &Engine, queue: QueueKey) {
        if self.last.replace(queue) == Some(queue) || self.domains.len() >= DOMAINS_MAX {
            return;
        }
        let name = engine.with_queue(|q, _| q.queue_name(queue));
        let domain = QueueName::parse(&name).effective_domain().to_owned();
        if !self.domains.contains(&domain) {
            self.domains.push(domain);
        }
    }

    /// The session is over: tells whoever counts.
    pub fn ended(self, engine: &Engine, closing: &Closing, status: &TlsStatus, was_ready: bool) {
        let unsupported = |why: String| Err((TlsResult::StarttlsNotSupported, why));
        let outcome = match self.outcome.clone() {
            Some(outcome) => outcome,
            None if !self.is_wanted => return,
            None => match status {
                TlsStatus::Refused(reply) => unsupported(in_numbers(reply)),
                TlsStatus::Clear if was_ready || closing.why == CloseReason::TlsUnavailable => {
                    unsupported(String::new())
                }
                // It ended before, for reasons of its own.
                _ => return,
            },
        };
        if self.domains.is_empty() {
            return self.tell(engine, &self.exchangers, &outcome);
        }
        for domain in &self.domains {
            let Ok(domain) = RoutingDomain::parse(domain) else { continue };
            // Nobody is asked: the session's end waits for nothing, and the domain's mail has just been routed.
            let known = match domain == *self.exchangers.domain() {
                true => Some(self.exchangers.clone()),
                false => engine.mx.known_site(&domain),
            };
            match known {
                Some(exchangers) => self.tell(engine, &exchangers, &outcome),
                None => tracing::debug!("{domain} is in no report about TLS: nothing is known of its hosts any more"),
            }
        }
    }

    fn tell(&self, engine: &Engine, exchangers: &MailExchangers, outcome: &Result<(), (TlsResult, String)>) {
        let Some(domain) = name_of(exchangers) else { return };
        let mut found = outcome.clone();
        let policy = match (&self.tlsa, exchangers.sts_fault().filter(|_| self.follows_sts).and_then(of_sts)) {
            (Some((text, base)), _) => {
                if text.is_empty() && found.is_ok() {
                    found = Err((TlsResult::TlsaInvalid, String::new()));
                }
                let text = if is_sound(text) { text.clone() } else { Vec::new() };
                TlsPolicy { kind: TlsPolicyType::Tlsa, text, domain: base.clone(), mx_hosts: Vec::new() }
            }
            (None, Some(fault)) => {
                found = Err((fault, String::new()));
                TlsPolicy { kind: TlsPolicyType::Sts, text: Vec::new(), domain: domain.clone(), mx_hosts: Vec::new() }
            }
            (None, None) => self.policy(exchangers, &domain, &mut found),
        };
        let failure = found.err().map(|(result, reason)| SessionFailure {
            result,
            sending_ip: self.sending_ip,
            receiving_host: self.host.clone(),
            receiving_ip: Some(self.receiving_ip),
            reason: SessionFailure::reason(&reason),
        });
        engine.domain_reports.saw_tls(TlsSeen { domain, row: TlsRow { policy, failure } });
    }

    /// The MTA-STS policy, if there is one; what it says of this session when it is in testing.
    fn policy(
        &self,
        exchangers: &MailExchangers,
        domain: &str,
        found: &mut Result<(), (TlsResult, String)>,
    ) -> TlsPolicy {
        let none = TlsPolicy {
            kind: TlsPolicyType::NoPolicyFound,
            text: Vec::new(),
            domain: domain.to_owned(),
            mx_hosts: Vec::new(),
        };
        let Some(policy) = exchangers.sts_policy().filter(|_| self.follows_sts) else { return none };
        if found.is_ok() && policy.mode == StsMode::Testing {
            if !policy.allows(&self.host) {
                *found = Err((TlsResult::ValidationFailure, "the host is not in the policy".to_owned()));
            } else if let Some(unenforced) = &self.unenforced {
                *found = Err(unenforced.clone());
            }
        }
        let text = policy.lines();
        match is_sound(&text) {
            true => TlsPolicy { kind: TlsPolicyType::Sts, text, mx_hosts: policy.mx.clone(), ..none },
            false => TlsPolicy { kind: TlsPolicyType::Sts, ..none },
        }
    }
}

impl Engine {
    /// A host cannot be used because its TLSA records cannot be had: no session comes about.
    pub(super) fn saw_no_tlsa(&self, opening: &Opening, host: &Candidate, why: &str) {
        if !self.domain_reports.counts_tls() {
            return;
        }
        let Some(domain) = reported(opening).and_then(|exchangers| name_of(&exchangers)) else { return };
        let receiving_host = host.host.trim_end_matches('.').to_owned();
        let (text, mx_hosts) = (Vec::new(), Vec::new());
        let policy = TlsPolicy { kind: TlsPolicyType::Tlsa, text, domain: receiving_host.clone(), mx_hosts };
        let failure = SessionFailure {
            result: TlsResult::DnssecInvalid,
            sending_ip: None,
            receiving_host,
            receiving_ip: Some(host.addr.ip()),
            reason: SessionFailure::reason(why),
        };
        self.domain_reports.saw_tls(TlsSeen { domain, row: TlsRow { policy, failure: Some(failure) } });
    }
}

/// The hosts of a session that reports are about.
fn reported(opening: &Opening) -> Option<Arc<MailExchangers>> {
    let exchangers = Carriage::exchangers(&opening.leg.destination)?;
    let is_waived = Carriage::tls_demand(&opening.leg.destination) == TlsDemand::Waived;
    let is_of_domain = matches!(exchangers.kind(), RouteKind::Mx | RouteKind::ImplicitMx);
    (is_of_domain && !is_waived).then_some(exchangers)
}

fn name_of(exchangers: &MailExchangers) -> Option<String> {
    exchangers.domain().fqdn().map(|name| name.trim_end_matches('.').to_owned())
}

fn result_of(fault: HandshakeFault) -> TlsResult {
    match fault {
        HandshakeFault::Expired => TlsResult::CertificateExpired,
        HandshakeFault::WrongName => TlsResult::CertificateHostMismatch,
        HandshakeFault::NotTrusted => TlsResult::CertificateNotTrusted,
        HandshakeFault::Other => TlsResult::ValidationFailure,
    }
}

fn of_sts(fault: StsFault) -> Option<TlsResult> {
    match fault {
        StsFault::Fetch => Some(TlsResult::StsPolicyFetchError),
        StsFault::Invalid => Some(TlsResult::StsPolicyInvalid),
        StsFault::WebPki => Some(TlsResult::StsWebpkiInvalid),
        StsFault::Unknown => None,
    }
}

/// Whether a row may have this text of a policy: each row has its own, and how long one is is a stranger's to say.
fn is_sound(text: &[String]) -> bool {
    text.iter().map(String::len).sum::<usize>() <= POLICY_OCTETS_MAX
}

/// A refusal without its text, which is the other server's to choose: rows with different reasons are counted apart.
fn in_numbers(reply: &Reply) -> String {
    reply.enhanced.map_or_else(|| reply.code.to_string(), |enhanced| format!("{} {enhanced}", reply.code))
}

/// Octets of a policy that is told whole.
const POLICY_OCTETS_MAX: usize = 4096;
/// Domains of one session that are observed; those past it are in no report.
const DOMAINS_MAX: usize = 100;
