//! The evaluation of SPF records (RFC 7208 section 4.6), with its DNS questions and their limits.
//!
//! In: a resolver and a query. Out: a verdict with its reason, and the explanation when there is one. Cannot fail.
//! Limits (section 4.6.4): [`LOOKUP_TERMS_MAX`] terms that ask DNS, [`VOID_LOOKUPS_MAX`] of them with no answer, all records
//! together. As each record costs one of those terms, records nest no deeper.

use super::explain::explanation;
use super::macros::{MacroString, Values};
use super::record::{Directive, Mechanism, Prefixes, SpfRecord, is_in_network, is_spf};
use super::{SpfDisposition, SpfQuery};
use crate::questions::{addresses, addresses_like, exchangers, names_of, texts};
use crate::text::{domain_name, has_name_shape, is_within, shown};
use route::{BoxFuture, DnsError, IpStrategy, Resolver};
use std::net::IpAddr;

/// What a record says, and why.
#[derive(Clone, Debug)]
pub(super) struct Verdict {
    pub(super) disposition: SpfDisposition,
    pub(super) reason: String,
    /// `exp=` of the record that decided, with the domain it is evaluated for.
    explained: Option<(MacroString, String)>,
}

impl Verdict {
    fn new(disposition: SpfDisposition, reason: impl Into<String>) -> Verdict {
        Verdict { disposition, reason: reason.into(), explained: None }
    }

    fn temporary(name: &str, error: &DnsError) -> Verdict {
        Verdict::new(SpfDisposition::TempError, format!("{}: {}", shown(name), shown(&error.to_string())))
    }

    fn permanent(reason: impl Into<String>) -> Verdict {
        Verdict::new(SpfDisposition::PermError, reason)
    }
}

/// Checks, and asks for the explanation of a fail.
pub(super) async fn check(resolver: &dyn Resolver, query: &SpfQuery<'_>) -> (Verdict, Option<String>) {
    let Some(domain) = domain_name(query.domain).filter(|domain| domain.contains('.')) else {
        let reason = format!("\"{}\" is no domain name", shown(query.domain));
        return (Verdict::new(SpfDisposition::None, reason), None);
    };
    let mut check = Check::new(resolver, query, &domain);
    let mut verdict = check.record_of(&domain).await;
    let explained = verdict.explained.take().filter(|_| verdict.disposition == SpfDisposition::Fail);
    let text = match explained {
        Some((place, domain)) => check.explain(&place, &domain).await,
        None => None,
    };
    (verdict, text)
}

/// One evaluation of `check_host()` with all records it leads to.
pub(super) struct Check<'a> {
    pub(super) resolver: &'a dyn Resolver,
    query: &'a SpfQuery<'a>,
    ip: IpAddr,
    local: &'a str,
    sender_domain: String,
    lookup_terms: usize,
    void_lookups: usize,
    /// Names of the client that lead back to its address, once they are known.
    validated: Option<Vec<String>>,
}

impl<'a> Check<'a> {
    fn new(resolver: &'a dyn Resolver, query: &'a SpfQuery<'a>, domain: &str) -> Check<'a> {
        let sender = query.sender.unwrap_or_default();
        let (local, sender_domain) = sender.rsplit_once('@').unwrap_or(("", sender));
        Check {
            resolver,
            query,
            // Section 5: an IPv4 address in the form of IPv6 is an IPv4 address.
            ip: query.ip.to_canonical(),
            local: if local.is_empty() { "postmaster" } else { local },
            sender_domain: if sender_domain.is_empty() { domain.to_owned() } else { sender_domain.to_owned() },
            lookup_terms: 0,
            void_lookups: 0,
            validated: None,
        }
    }

    /// Sections 4.4 and 4.5: finds the record of a domain and evaluates it. The future is boxed: records include records.
    fn record_of<'b>(&'b mut self, domain: &'b str) -> BoxFuture<'b, Verdict> {
        Box::pin(async move {
            let texts = match texts(self.resolver, domain).await {
                Ok(texts) => texts,
                Err(error) => return Verdict::temporary(domain, &error),
            };
            let mut records = texts.iter().filter(|text| is_spf(text));
            match (records.next(), records.next()) {
                (None, _) => Verdict::new(SpfDisposition::None, format!("{domain} has no SPF record")),
                (Some(_), Some(_)) => Verdict::permanent(format!("{domain} has more than one SPF record")),
                (Some(record), None) => match SpfRecord::parse(record) {
                    Ok(record) => self.evaluate(&record, domain).await.unwrap_or_else(|verdict| verdict),
                    Err(error) => Verdict::permanent(format!("{domain}: {error}")),
                },
            }
        })
    }

    /// Sections 4.6.2, 4.7 and 6.1: the first mechanism that matches decides; else `redirect=`; else nothing is said. Errors
    /// of DNS and of limits end the evaluation early; they come as `Err`.
    async fn evaluate(&mut self, record: &SpfRecord, domain: &str) -> Result<Verdict, Verdict> {
        for directive in &record.directives {
            if self.matches(&directive.mechanism, domain).await? {
                return Ok(decided(record, directive, domain));
            }
        }
        let Some(redirect) = &record.redirect else {
            return Ok(Verdict::new(SpfDisposition::Neutral, format!("{domain}: nothing in its SPF record matches")));
        };
        self.count_term()?;
        let target = self.expand(redirect, domain).await?;
        if !has_name_shape(&target) {
            return Err(Verdict::permanent(format!("redirect to \"{}\", which is no domain name", shown(&target))));
        }
        let verdict = self.record_of(&target).await;
        if verdict.disposition == SpfDisposition::None {
            return Err(Verdict::permanent(format!("redirect to {}, which has no SPF record", shown(&target))));
        }
        Ok(verdict)
    }

    /// Section 5.
    async fn matches(&mut self, mechanism: &Mechanism, domain: &str) -> Result<bool, Verdict> {
        match mechanism {
            Mechanism::All => return Ok(true),
            Mechanism::Ip(network, bits) => return Ok(is_in_network(self.ip, *network, *bits)),
            _ => self.count_term()?,
        }
        match mechanism {
            Mechanism::All | Mechanism::Ip(..) => Ok(false),
            Mechanism::Include(target) => self.include(target, domain).await,
            Mechanism::A(host, prefixes) => {
                let Some(host) = self.target(host.as_ref(), domain).await? else { return Ok(false) };
                let found = addresses_like(self.resolver, &host, self.ip).await;
                let found = self.counted(&host, found)?;
                Ok(found.iter().any(|network| prefixes.covers(*network, self.ip)))
            }
            Mechanism::Mx(host, prefixes) => {
                let Some(host) = self.target(host.as_ref(), domain).await? else { return Ok(false) };
                self.mx(&host, *prefixes).await
            }
            Mechanism::Ptr(host) => {
                let Some(host) = self.target(host.as_ref(), domain).await? else { return Ok(false) };
                let names = self.validated_names().await;
                Ok(names.iter().any(|name| is_within(name, &host.to_ascii_lowercase())))
            }
            Mechanism::Exists(host) => {
                let Some(host) = self.target(Some(host), domain).await? else { return Ok(false) };
                let found = addresses(self.resolver, &host, IpStrategy::Ipv4Only).await;
                Ok(!self.counted(&host, found)?.is_empty())
            }
        }
    }

    /// Section 5.2.
    async fn include(&mut self, target: &MacroString, domain: &str) -> Result<bool, Verdict> {
        let name = self.expand(target, domain).await?;
        if !has_name_shape(&name) {
            return Err(Verdict::permanent(format!("include of \"{}\", which is no domain name", shown(&name))));
        }
        let verdict = self.record_of(&name).await;
        match verdict.disposition {
            SpfDisposition::Pass => Ok(true),
            SpfDisposition::Fail | SpfDisposition::SoftFail | SpfDisposition::Neutral => Ok(false),
            SpfDisposition::TempError | SpfDisposition::PermError => Err(Verdict { explained: None, ..verdict }),
            SpfDisposition::None => {
                Err(Verdict::permanent(format!("include of {}, which has no SPF record", shown(&name))))
            }
        }
    }

    /// Section 5.4.
    async fn mx(&mut self, host: &str, prefixes: Prefixes) -> Result<bool, Verdict> {
        let exchangers = exchangers(self.resolver, host).await;
        let exchangers = self.counted(host, exchangers)?;
        if exchangers.len() > MX_NAMES_MAX {
            return Err(Verdict::permanent(format!("{} has more than {MX_NAMES_MAX} MX records", shown(host))));
        }
        for exchanger in exchangers.iter().filter(|name| has_name_shape(name)) {
            let found = addresses_like(self.resolver, exchanger, self.ip).await;
            let found = found.map_err(|error| Verdict::temporary(exchanger, &error))?;
            if found.iter().any(|network| prefixes.covers(*network, self.ip)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Section 5.5: the names of the client's address that lead back to it. DNS errors are nothing found.
    async fn validated_names(&mut self) -> &[String] {
        if self.validated.is_none() {
            let names = names_of(self.resolver, self.ip).await.unwrap_or_default();
            let (mut validated, mut unanswered) = (Vec::new(), 0);
            for name in names.iter().take(PTR_NAMES_MAX).filter(|name| has_name_shape(name)) {
                match addresses_like(self.resolver, name, self.ip).await {
                    Ok(found) if found.contains(&self.ip) => {
                        validated.push(name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase());
                    }
                    Ok(_) => {}
                    // Whoever connects chooses these names: they must not use up the time for what his domain says.
                    Err(_) if unanswered >= PTR_UNANSWERED_MAX => break,
                    Err(_) => unanswered += 1,
                }
            }
            self.validated = Some(validated);
        }
        self.validated.as_deref().unwrap_or_default()
    }

    /// The name a mechanism is about; `None` when it comes out as none that could exist: nothing matches it (section 4.8).
    async fn target(&mut self, named: Option<&MacroString>, domain: &str) -> Result<Option<String>, Verdict> {
        match named {
            None => Ok(Some(domain.to_owned())),
            Some(named) => Ok(Some(self.expand(named, domain).await?).filter(|name| has_name_shape(name))),
        }
    }

    async fn expand(&mut self, text: &MacroString, domain: &str) -> Result<String, Verdict> {
        let validated = self.validated_name(text, domain).await;
        let expanded = text.expand_domain(&self.values(domain, &validated));
        expanded.ok_or_else(|| Verdict::permanent(format!("{domain}: a macro expands to more than a name can be")))
    }

    /// What `%{p}` stands for (section 7.3): the domain itself, else a name below it, else any.
    pub(super) async fn validated_name(&mut self, text: &MacroString, domain: &str) -> String {
        if !text.needs_validated_name() {
            return String::new();
        }
        let names = self.validated_names().await;
        let same = names.iter().find(|name| *name == domain);
        let below = || names.iter().find(|name| is_within(name, domain));
        same.or_else(below).or(names.first()).map_or_else(|| "unknown".to_owned(), String::clone)
    }

    pub(super) fn values<'b>(&'b self, domain: &'b str, validated: &'b str) -> Values<'b> {
        Values {
            local: self.local,
            sender_domain: &self.sender_domain,
            domain,
            ip: self.ip,
            helo: self.query.helo,
            receiver: self.query.receiver,
            now_unix_secs: self.query.now_unix_secs,
            validated,
        }
    }

    async fn explain(&mut self, place: &MacroString, domain: &str) -> Option<String> {
        let name = self.expand(place, domain).await.ok().filter(|name| has_name_shape(name))?;
        explanation(self, &name, domain).await
    }

    /// Counts a term that asks DNS.
    fn count_term(&mut self) -> Result<(), Verdict> {
        self.lookup_terms += 1;
        if self.lookup_terms > LOOKUP_TERMS_MAX {
            return Err(Verdict::permanent(format!("more than {LOOKUP_TERMS_MAX} terms ask DNS")));
        }
        Ok(())
    }

    /// The answer of a term's own question; counts when there is nothing in it.
    fn counted<T>(&mut self, name: &str, answer: Result<Vec<T>, DnsError>) -> Result<Vec<T>, Verdict> {
        let found = answer.map_err(|error| Verdict::temporary(name, &error))?;
        if found.is_empty() {
            self.void_lookups += 1;
            if self.void_lookups > VOID_LOOKUPS_MAX {
                return Err(Verdict::permanent(format!("more than {VOID_LOOKUPS_MAX} terms find nothing in DNS")));
            }
        }
        Ok(found)
    }
}

fn decided(record: &SpfRecord, directive: &Directive, domain: &str) -> Verdict {
    Verdict {
        disposition: directive.outcome,
        reason: format!("{domain}: {} matches", directive.text),
        explained: record.explanation.clone().map(|place| (place, domain.to_owned())),
    }
}

/// Most terms that ask DNS: `include`, `a`, `mx`, `ptr`, `exists`, `redirect` (RFC 7208 section 4.6.4).
pub const LOOKUP_TERMS_MAX: usize = 10;

/// Most of them that may find nothing.
pub const VOID_LOOKUPS_MAX: usize = 2;

/// Most MX records of an `mx` mechanism; more are an error.
pub const MX_NAMES_MAX: usize = 10;

/// Names of the client whose addresses may remain unknown before no more are asked for.
const PTR_UNANSWERED_MAX: usize = 1;
/// Most names of the client looked at for `ptr` and `%{p}`.
pub const PTR_NAMES_MAX: usize = 10;
