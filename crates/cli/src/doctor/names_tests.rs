//! Tests of what is judged of DNS: for each answer that makes a difference, the verdict, and the fix where it names a record.

use super::super::finding::Verdict::{self, Ok as Well, Problem, Warning};
use super::*;

fn told(finding: Finding) -> (Verdict, String) {
    assert_eq!(finding.verdict == Well, finding.fix.is_none(), "what is not well has a fix: {finding:?}");
    (finding.verdict, format!("{} -> {}", finding.what, finding.fix.unwrap_or_default()))
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

#[test]
fn an_address_has_a_name_that_leads_back_and_is_said_in_ehlo() {
    let judged = |address: &str, names: Result<Vec<&str>, DnsError>, back: &[&str]| {
        let names = names.map(|names| names.into_iter().map(str::to_owned).collect());
        let leading_back = back.iter().map(|name| (*name).to_owned()).collect();
        told(source(&SourceFacts { ip: ip(address), ehlo: "MTA1.example.com".to_owned(), names, leading_back }))
    };
    assert_eq!(judged("192.0.2.1", Ok(vec!["mta1.example.com."]), &["mta1.example.com."]).0, Well);
    assert_eq!(judged("192.0.2.1", Ok(vec!["a.", "mta1.example.com."]), &["a.", "mta1.example.com."]).0, Well);
    let (verdict, text) = judged("192.0.2.1", Ok(vec!["other.example.com."]), &["other.example.com."]);
    assert!(verdict == Warning && text.contains("ehlo_domain = \"other.example.com\""), "{text}");
    let (verdict, text) = judged("2001:db8::1", Ok(vec!["mta1.example.com."]), &[]);
    assert!(verdict == Problem && text.ends_with("publish mta1.example.com. AAAA 2001:db8::1"), "{text}");
    assert_eq!(judged("192.0.2.1", Ok(vec![]), &[]).0, Problem);
    assert_eq!(judged("192.0.2.1", Err(DnsError::Timeout), &[]).0, Warning);
    for private in
        ["10.0.0.1", "127.0.0.1", "169.254.1.1", "100.64.0.1", "fd00::1", "fe80::1", "::1", "::ffff:10.0.0.1"]
    {
        let (verdict, text) = judged(private, Ok(vec!["mta1.example.com."]), &["mta1.example.com."]);
        assert!(verdict == Warning && text.contains("--source"), "{private}: {text}");
    }
    assert!(!is_private(ip("100.128.0.1")) && !is_private(ip("172.32.0.1")));
}

#[test]
fn the_server_has_a_full_name_with_an_address() {
    let judged = |name: &str, addresses| told(host(&HostFacts { name: name.to_owned(), addresses }));
    assert_eq!(judged("mta1.example.com", Ok(vec![ip("192.0.2.1")])).0, Well);
    assert_eq!(judged("mta1.example.com", Ok(vec![])).0, Problem);
    assert_eq!(judged("mta1.example.com", Err(DnsError::ServFail)).0, Warning);
    assert_eq!(judged("localhost", Ok(vec![ip("127.0.0.1")])).0, Problem);
    assert_eq!(judged("localhost.localdomain", Ok(vec![ip("127.0.0.1")])).0, Problem);
}

#[test]
fn what_spf_says_is_said_with_the_record_that_helps() {
    let judged = |disposition, address: &str| {
        let reason = "why".to_owned();
        told(spf(&SpfFacts { domain: "example.com".to_owned(), ip: ip(address), disposition, reason }))
    };
    assert_eq!(judged(SpfDisposition::Pass, "192.0.2.1").0, Well);
    let (verdict, text) = judged(SpfDisposition::None, "192.0.2.1");
    assert!(verdict == Problem && text.ends_with("publish example.com. TXT \"v=spf1 ip4:192.0.2.1 ~all\""), "{text}");
    for refused in [SpfDisposition::Fail, SpfDisposition::SoftFail, SpfDisposition::Neutral] {
        let (verdict, text) = judged(refused, "2001:db8::1");
        assert!(verdict == Problem && text.contains("put ip6:2001:db8::1 into"), "{text}");
    }
    assert_eq!(judged(SpfDisposition::PermError, "192.0.2.1").0, Problem);
    assert_eq!(judged(SpfDisposition::TempError, "192.0.2.1").0, Warning);
}

#[test]
fn the_published_key_is_the_one_that_signs() {
    const RECORD: &str = "v=DKIM1; k=ed25519; p=11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";
    const OTHER: &str = "v=DKIM1; k=ed25519; p=11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURp=";
    let judged = |own: Option<Result<&str, &str>>, published: Result<Vec<&str>, DnsError>| {
        let own = own.map(|own| own.map(str::to_owned).map_err(str::to_owned));
        let published = published.map(|records| records.into_iter().map(|record| record.as_bytes().to_vec()).collect());
        told(key(&KeyFacts { domain: "example.com".to_owned(), selector: "s1".to_owned(), own, published }))
    };
    assert_eq!(judged(Some(Ok(RECORD)), Ok(vec![RECORD])).0, Well);
    // As DNS servers and people break it up.
    let broken = "v=DKIM1; p=11qYAYKxCrfVS/7TyWQHO g7hcvPapiMlrwIaaPcHURo= ; k=ed25519";
    assert_eq!(judged(Some(Ok(RECORD)), Ok(vec![broken])).0, Well);
    assert_eq!(judged(None, Ok(vec![RECORD])).0, Well);
    let publish = format!("publish s1._domainkey.example.com. TXT \"{RECORD}\"");
    for published in [vec![], vec![OTHER], vec!["v=DKIM1; p="], vec!["hello"]] {
        let (verdict, text) = judged(Some(Ok(RECORD)), Ok(published.clone()));
        assert!(verdict == Problem && text.ends_with(&publish), "{published:?}: {text}");
    }
    assert_eq!(judged(Some(Ok(RECORD)), Ok(vec![RECORD, OTHER])).0, Problem);
    assert_eq!(judged(Some(Err("EACCES")), Ok(vec![RECORD])).0, Problem);
    assert_eq!(judged(Some(Ok(RECORD)), Err(DnsError::Timeout)).0, Warning);
}

#[test]
fn a_domain_has_a_dmarc_policy() {
    let judged = |policy| told(dmarc(&DmarcFacts { domain: "example.com".to_owned(), policy }));
    assert_eq!(judged(Ok(Some("none".to_owned()))).0, Well);
    let (verdict, text) = judged(Ok(None));
    assert!(verdict == Problem && text.contains("publish _dmarc.example.com. TXT \"v=DMARC1; p=none\""), "{text}");
    assert_eq!(judged(Err("SERVFAIL".to_owned())).0, Warning);
}

#[test]
fn somebody_takes_a_domains_mail() {
    let judged = |hosts: Result<Vec<&str>, DnsError>, addresses| {
        let exchangers = hosts.map(|hosts| hosts.into_iter().map(str::to_owned).collect());
        told(super::exchangers(&ExchangerFacts { domain: "example.com".to_owned(), exchangers, addresses })).0
    };
    assert_eq!(judged(Ok(vec!["mx.example.com."]), Ok(vec![])), Well);
    assert_eq!(judged(Ok(vec![]), Ok(vec![ip("192.0.2.1")])), Well);
    assert_eq!(judged(Ok(vec!["."]), Ok(vec![])), Warning);
    assert_eq!(judged(Ok(vec![]), Ok(vec![])), Problem);
    assert_eq!(judged(Err(DnsError::Timeout), Ok(vec![])), Warning);
    assert_eq!(judged(Ok(vec![]), Err(DnsError::ServFail)), Warning);
}
