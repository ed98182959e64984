//! Questions to DNS, for `names` to judge the answers.
//!
//! In: a resolver, which gives up by itself (`net::dns::Hurried`), names and addresses. Out: facts. Cannot fail: no answer is a
//! fact too. All questions about one thing wait for each other, and no thing waits for another.

use super::names::{DmarcFacts, ExchangerFacts, HostFacts, KeyFacts, SourceFacts, SpfFacts};
use super::subject::SigningKeyFile;
use mime::HeaderBlock;
use route::{DnsError, IpStrategy, Resolver};
use sender_auth::SigningKey;
use sender_check::dmarc::{self, DmarcDisposition, DmarcInput};
use sender_check::spf::{SpfQuery, check_host};
use sender_check::{limits::IPREV_NAMES_MAX, names_of};
use std::fs;
use std::io::ErrorKind;
use std::net::IpAddr;

/// The names of an address, and which of them lead back.
pub(super) async fn source(resolver: &dyn Resolver, ip: IpAddr, ehlo: &str) -> SourceFacts {
    let names = names_of(resolver, ip).await;
    let mut leading_back = Vec::new();
    for name in names.iter().flatten().take(IPREV_NAMES_MAX) {
        if addresses(resolver, name).await.is_ok_and(|found| found.contains(&ip.to_canonical())) {
            leading_back.push(name.clone());
        }
    }
    SourceFacts { ip, ehlo: ehlo.to_owned(), names, leading_back }
}

/// The addresses of the server's name.
pub(super) async fn host(resolver: &dyn Resolver, name: &str) -> HostFacts {
    HostFacts { name: name.to_owned(), addresses: addresses(resolver, name).await }
}

/// Whether `ip` may send for `domain`.
pub(super) async fn spf(resolver: &dyn Resolver, domain: &str, ip: IpAddr, host: &str, now_unix_secs: u64) -> SpfFacts {
    let sender = format!("postmaster@{domain}");
    let query = SpfQuery::of_envelope(ip, &sender, host, host, now_unix_secs);
    let check = check_host(resolver, &query).await;
    let reason = check.result.reason.unwrap_or_default();
    SpfFacts { domain: domain.to_owned(), ip, disposition: check.disposition, reason }
}

/// What is published of a key, and what should be.
pub(super) async fn key(resolver: &dyn Resolver, key: &SigningKeyFile) -> KeyFacts {
    let SigningKeyFile { domain, selector, file } = key;
    let read = file.as_ref().map(|file| (file, fs::read(file)));
    // Whoever asks may have fewer rights than the server: then what fits is not known. `rights` judges the server's.
    let read = read.filter(|(_, read)| !read.as_ref().is_err_and(|error| error.kind() == ErrorKind::PermissionDenied));
    let own = read.map(|(file, read)| {
        let octets = read.map_err(|error| format!("{}: {error}", file.display()))?;
        let key = SigningKey::from_pem_or_der(&octets).map_err(|error| format!("{}: {error}", file.display()))?;
        key.dns_record().ok_or_else(|| format!("{}: a key without a record", file.display()))
    });
    let texts = resolver.txt(&format!("{selector}._domainkey.{domain}")).await.map(|answer| answer.texts);
    KeyFacts { domain: domain.clone(), selector: selector.clone(), own, published: nothing_is_an_answer(texts) }
}

/// The policy that receivers find for mail of `domain`.
pub(super) async fn dmarc(resolver: &dyn Resolver, domain: &str) -> DmarcFacts {
    let raw = format!("From: postmaster@{domain}\r\n\r\n");
    let block = HeaderBlock::parse(raw.as_bytes());
    // What SPF says does not matter here: which policy there is, is the question.
    let spf = Default::default();
    let input = DmarcInput { dkim: &[], spf: &spf, sample_percent: 0 };
    let check = dmarc::check(resolver, block.view(raw.as_bytes()), input).await;
    let policy = match check.disposition {
        DmarcDisposition::TempError | DmarcDisposition::PermError => Err(check.result.reason.unwrap_or_default()),
        _ => Ok(check.result.props.get("policy.dmarc").cloned()),
    };
    DmarcFacts { domain: domain.to_owned(), policy }
}

/// Who takes mail for `domain`.
pub(super) async fn exchangers(resolver: &dyn Resolver, domain: &str) -> ExchangerFacts {
    let records = resolver.mx(domain).await.map(|answer| answer.records);
    let exchangers = nothing_is_an_answer(records).map(|mut records| {
        records.sort_by_key(|record| record.preference);
        records.into_iter().map(|record| record.host).collect::<Vec<_>>()
    });
    let addresses = match &exchangers {
        Ok(hosts) if hosts.is_empty() => addresses(resolver, domain).await,
        _ => Ok(Vec::new()),
    };
    ExchangerFacts { domain: domain.to_owned(), exchangers, addresses }
}

async fn addresses(resolver: &dyn Resolver, name: &str) -> Result<Vec<IpAddr>, DnsError> {
    let answer = resolver.ip(name, IpStrategy::Ipv4AndIpv6).await;
    nothing_is_an_answer(answer.map(|answer| answer.addresses))
}

fn nothing_is_an_answer<T>(answer: Result<Vec<T>, DnsError>) -> Result<Vec<T>, DnsError> {
    match answer {
        Err(error) if error.is_permanent() => Ok(Vec::new()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::{ResolverForm, Short, TestZone, TestZones, Zones};
    use sender_check::spf::SpfDisposition;
    use std::sync::Arc;

    const ZONE: &str = "mta1.example.com. 60 A 192.0.2.1\n\
        1.2.0.192.in-addr.arpa. 60 PTR mta1.example.com.\n\
        1.2.0.192.in-addr.arpa. 60 PTR lost.example.com.\n\
        lost.example.com. 60 A 192.0.2.9\n\
        example.com. 60 TXT \"v=spf1 ip4:192.0.2.1 -all\"\n\
        example.com. 60 MX 20 b.example.com.\n\
        example.com. 60 MX 10 a.example.com.\n\
        _dmarc.example.com. 60 TXT \"v=DMARC1; p=quarantine\"\n\
        s1._domainkey.example.com. 60 TXT \"v=DKIM1; k=ed25519; \" \"p=AAAA\"\n";

    fn resolver() -> Arc<dyn Resolver> {
        let zones = vec![Short(TestZone { zone: ZONE.to_owned(), secure: false })];
        let servfail = vec!["broken.example".to_owned(), "_dmarc.broken.example".to_owned()];
        net::dns::build(&ResolverForm::Test(Zones(TestZones { zones, servfail }))).expect("a sound zone")
    }

    #[tokio::test]
    async fn answers_become_facts() {
        let resolver = &*resolver();
        let ip = "192.0.2.1".parse().expect("an address");
        let found = source(resolver, ip, "mta1.example.com").await;
        assert_eq!(found.leading_back, ["mta1.example.com."]);
        assert_eq!(found.names.map(|names| names.len()), Ok(2));
        let other = "192.0.2.2".parse().expect("an address");
        assert_eq!(source(resolver, other, "x").await.names, Ok(vec![]));
        assert_eq!(host(resolver, "mta1.example.com").await.addresses, Ok(vec![ip]));
        assert_eq!(host(resolver, "nobody.example.com").await.addresses, Ok(vec![]));
        let judged = async |ip| spf(resolver, "example.com", ip, "mta1.example.com", 0).await.disposition;
        assert_eq!((judged(ip).await, judged(other).await), (SpfDisposition::Pass, SpfDisposition::Fail));
        assert_eq!(dmarc(resolver, "example.com").await.policy, Ok(Some("quarantine".to_owned())));
        assert_eq!(
            dmarc(resolver, "shop.example.com").await.policy,
            Ok(Some("quarantine".to_owned())),
            "the organisation's"
        );
        assert_eq!(dmarc(resolver, "example.org").await.policy, Ok(None));
        assert!(dmarc(resolver, "broken.example").await.policy.is_err());
        let hosts = exchangers(resolver, "example.com").await.exchangers;
        assert_eq!(hosts, Ok(vec!["a.example.com.".to_owned(), "b.example.com.".to_owned()]));
        assert_eq!(exchangers(resolver, "broken.example").await.exchangers, Err(DnsError::ServFail));
    }

    #[tokio::test]
    async fn a_key_is_compared_with_what_is_published() {
        let resolver = &*resolver();
        let folder = tempfile::tempdir().expect("scratch");
        let file = folder.path().join("s1.key");
        fs::write(&file, sender_auth::new_rsa_key().expect("a key")).expect("written");
        let asked = |selector: &str, file| SigningKeyFile {
            domain: "example.com".to_owned(),
            selector: selector.to_owned(),
            file,
        };
        let found = key(resolver, &asked("s1", Some(file))).await;
        assert!(found.own.is_some_and(|own| own.is_ok_and(|record| record.starts_with("v=DKIM1; k=rsa; p="))));
        assert_eq!(found.published, Ok(vec![b"v=DKIM1; k=ed25519; p=AAAA".to_vec()]));
        let found = key(resolver, &asked("s2", Some(folder.path().join("absent")))).await;
        assert!(found.own.is_some_and(|own| own.is_err()) && found.published == Ok(vec![]));
    }
}
