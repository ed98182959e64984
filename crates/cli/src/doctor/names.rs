//! What is judged of DNS: the names of addresses, and what domains publish of who sends for them.
//!
//! In: answers, as `asking` gathers them. Out: findings, with the record that is to be published. Pure.

use super::finding::Finding;
use route::DnsError;
use sender_check::dkim::PublicKey;
use sender_check::spf::SpfDisposition;
use sender_check::tags::Tags;
use std::net::IpAddr;

/// Of an address that mail is sent from.
#[derive(Clone, Debug)]
pub(super) struct SourceFacts {
    pub ip: IpAddr,
    /// What is said in EHLO.
    pub ehlo: String,
    /// The names that PTR records give it.
    pub names: Result<Vec<String>, DnsError>,
    /// Those of them that lead back to it.
    pub leading_back: Vec<String>,
}

/// Of a name that the server goes by.
#[derive(Clone, Debug)]
pub(super) struct HostFacts {
    pub name: String,
    pub addresses: Result<Vec<IpAddr>, DnsError>,
}

/// Whether an address may send for a domain.
#[derive(Clone, Debug)]
pub(super) struct SpfFacts {
    pub domain: String,
    pub ip: IpAddr,
    pub disposition: SpfDisposition,
    pub reason: String,
}

/// Of a key that signs.
#[derive(Clone, Debug)]
pub(super) struct KeyFacts {
    pub domain: String,
    pub selector: String,
    /// The record that fits the private key; absent when it is not here; or why it cannot be read.
    pub own: Option<Result<String, String>>,
    pub published: Result<Vec<Vec<u8>>, DnsError>,
}

/// Of a domain's DMARC policy; `Err`: DNS did not answer.
#[derive(Clone, Debug)]
pub(super) struct DmarcFacts {
    pub domain: String,
    pub policy: Result<Option<String>, String>,
}

/// Of who takes mail for a domain.
#[derive(Clone, Debug)]
pub(super) struct ExchangerFacts {
    pub domain: String,
    /// Hosts of MX records; `.` takes none.
    pub exchangers: Result<Vec<String>, DnsError>,
    /// The domain's own addresses, asked for where there is no MX record.
    pub addresses: Result<Vec<IpAddr>, DnsError>,
}

/// Receivers look an address up, and take mail from one without a name for spam.
pub(super) fn source(facts: &SourceFacts) -> Finding {
    let SourceFacts { ip, ehlo, names, leading_back } = facts;
    if is_private(*ip) {
        let what = "not an address of the internet: receivers see another";
        return Finding::warning("ptr", ip, what, "name the one they see: --source ADDRESS");
    }
    let names = match names {
        Ok(names) => names,
        Err(error) => return Finding::warning("ptr", ip, format!("its name is not known: {error}"), RESOLVER),
    };
    let Some(first) = names.first() else {
        let fix = format!("have whoever gave you the address set its PTR record to {ehlo}");
        return Finding::problem("ptr", ip, "it has no name in DNS: many servers take no mail from it", fix);
    };
    if leading_back.is_empty() {
        let kind = if ip.is_ipv4() { "A" } else { "AAAA" };
        let what = format!("its name {first} does not lead back to it");
        return Finding::problem("ptr", ip, what, format!("publish {first} {kind} {ip}"));
    }
    match leading_back.iter().find(|name| same(name, ehlo)) {
        Some(name) => Finding::ok("ptr", ip, format!("{name} leads back, and is what EHLO says")),
        None => {
            let what = format!("{} leads back, but EHLO says {ehlo}", leading_back[0]);
            let fix = format!(
                "ehlo_domain = \"{}\" for this source, or a PTR record that says {ehlo}",
                bare(&leading_back[0])
            );
            Finding::warning("ptr", ip, what, fix)
        }
    }
}

/// The server's name is one of the internet, and has an address.
pub(super) fn host(facts: &HostFacts) -> Finding {
    let name = &facts.name;
    if !bare(name).contains('.') || same(name, "localhost.localdomain") {
        return Finding::problem(
            "name",
            name,
            "not a full name: servers refuse it in EHLO",
            "hostname = \"mta1.example.com\" (postrider init asks for it)",
        );
    }
    match &facts.addresses {
        Ok(addresses) if addresses.is_empty() => Finding::problem(
            "name",
            name,
            "it has no address: servers refuse it in EHLO",
            format!("publish {name} A or AAAA"),
        ),
        Ok(addresses) => {
            let list: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            Finding::ok("name", name, list.join(", "))
        }
        Err(error) => Finding::warning("name", name, format!("its addresses are not known: {error}"), RESOLVER),
    }
}

/// The domain says that the address may send for it.
pub(super) fn spf(facts: &SpfFacts) -> Finding {
    let SpfFacts { domain, ip, disposition, reason } = facts;
    let term = if ip.is_ipv4() { format!("ip4:{ip}") } else { format!("ip6:{ip}") };
    let what = format!("{} for {ip}: {reason}", disposition.word());
    match disposition {
        SpfDisposition::Pass => Finding::ok("spf", domain, what),
        SpfDisposition::None => {
            Finding::problem("spf", domain, what, format!("publish {domain}. TXT \"v=spf1 {term} ~all\""))
        }
        SpfDisposition::Fail | SpfDisposition::SoftFail | SpfDisposition::Neutral => {
            Finding::problem("spf", domain, what, format!("put {term} into the record of {domain}, before its `all`"))
        }
        SpfDisposition::PermError => {
            Finding::problem("spf", domain, what, "correct the record: one of v=spf1, ten look-ups at most")
        }
        SpfDisposition::TempError => Finding::warning("spf", domain, what, RESOLVER),
    }
}

/// The key that signs is the one that is published.
pub(super) fn key(facts: &KeyFacts) -> Finding {
    let KeyFacts { domain, selector, own, published } = facts;
    let place = format!("{selector}._domainkey.{domain}");
    let own = match own {
        Some(Err(why)) => {
            let fix = "put a key there (postrider init makes them), readable by the server's user";
            return Finding::problem("dkim", place, format!("the private key cannot be used: {why}"), fix);
        }
        Some(Ok(record)) => Some(record),
        None => None,
    };
    let record = own.map_or("the record that fits the key", String::as_str);
    let publish = format!("publish {place}. TXT \"{record}\"");
    let published = match published {
        Ok(published) if published.is_empty() => {
            return Finding::problem("dkim", place, "no key is published: signatures count as none", publish);
        }
        Ok(published) => published,
        Err(error) => {
            return Finding::warning("dkim", place, format!("what is published is not known: {error}"), RESOLVER);
        }
    };
    if published.len() > 1 {
        let what = format!("{} records where there should be one: any may be taken", published.len());
        return Finding::problem("dkim", place, what, "leave the one that fits the key");
    }
    if let Err(error) = PublicKey::parse(&published[0]) {
        return Finding::problem("dkim", place, format!("what is published is no key: {error}"), publish);
    }
    match own.map(|record| public_part(record.as_bytes()) == public_part(&published[0])) {
        Some(true) => Finding::ok("dkim", place, "the published key fits the private one"),
        None => Finding::ok("dkim", place, "a key is published"),
        Some(false) => {
            Finding::problem("dkim", place, "the published key is another one: every signature is refused", publish)
        }
    }
}

/// The domain says what is to be done with what is not proved to be its own.
pub(super) fn dmarc(facts: &DmarcFacts) -> Finding {
    let domain = &facts.domain;
    match &facts.policy {
        Ok(Some(policy)) => Finding::ok("dmarc", domain, format!("p={policy}")),
        Ok(None) => {
            let what = "no policy: large providers take no bulk mail of such domains";
            Finding::problem(
                "dmarc",
                domain,
                what,
                format!("publish _dmarc.{domain}. TXT \"v=DMARC1; p=none\", later p=quarantine"),
            )
        }
        Err(why) => Finding::warning("dmarc", domain, format!("its policy is not known: {why}"), RESOLVER),
    }
}

/// Bounces and answers have somewhere to go.
pub(super) fn exchangers(facts: &ExchangerFacts) -> Finding {
    let ExchangerFacts { domain, exchangers, addresses } = facts;
    let fix = format!("publish {domain}. MX 10 and a server that takes its mail, as bounces and complaints come there");
    match (exchangers, addresses) {
        (Ok(hosts), _) if hosts.iter().any(|host| host == ".") => Finding::warning(
            "mx",
            domain,
            "it says that it takes no mail, so bounces are lost and some refuse what it sends",
            fix,
        ),
        (Ok(hosts), _) if !hosts.is_empty() => Finding::ok("mx", domain, hosts.join(", ")),
        (Ok(_), Ok(addresses)) if !addresses.is_empty() => Finding::ok("mx", domain, "no MX record, but an address"),
        (Ok(_), Ok(_)) => Finding::problem("mx", domain, "nobody takes its mail: bounces are lost", fix),
        (Err(error), _) | (_, Err(error)) => {
            Finding::warning("mx", domain, format!("who takes its mail is not known: {error}"), RESOLVER)
        }
    }
}

/// The public key of a record, without blanks.
fn public_part(record: &[u8]) -> Option<String> {
    let tags = Tags::parse(record).ok()?;
    tags.get("p").map(|key| key.split_ascii_whitespace().collect())
}

fn bare(name: &str) -> &str {
    name.trim_end_matches('.')
}

fn same(one: &str, other: &str) -> bool {
    bare(one).eq_ignore_ascii_case(bare(other))
}

/// An address that is not routed in the internet.
pub(super) fn is_private(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            let shared = ip.octets()[0] == 100 && (64..128).contains(&ip.octets()[1]);
            ip.is_private() || ip.is_loopback() || ip.is_link_local() || ip.is_unspecified() || shared
        }
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unspecified() || ip.is_unique_local() || ip.is_unicast_link_local(),
    }
}

/// What helps when nobody answers.
pub(super) const RESOLVER: &str =
    "a resolver on this machine (unbound), or POSTRIDER_RESOLVERS=IP:PORT; then ask again";

#[cfg(test)]
#[path = "names_tests.rs"]
mod tests;
