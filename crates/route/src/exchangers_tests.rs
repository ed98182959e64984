//! Tests of `exchangers`: every kind of MX answer, the order of hosts, the bounds, the site names.

use super::*;
use crate::resolver::MxRecord;

fn domain(text: &str) -> RoutingDomain {
    RoutingDomain::parse(text).unwrap_or_else(|e| panic!("{e}"))
}

fn answer(records: &[(u16, &str)]) -> Result<MxAnswer, DnsError> {
    let record = |(preference, host): &(u16, &str)| MxRecord { preference: *preference, host: host.to_string() };
    Ok(MxAnswer { records: records.iter().map(record).collect(), ttl_secs: 77, ..Default::default() })
}

fn names(mx: &MailExchangers) -> Vec<(u16, &str)> {
    mx.hosts().iter().map(|h| (h.preference, h.name.as_str())).collect()
}

#[test]
fn hosts_are_ordered_lower_cased_and_keep_their_dot() {
    let mx = MailExchangers::from_answer(
        &domain("example.com"),
        answer(&[(20, "B.example.com."), (10, "z.example.com"), (20, "a.example.com."), (10, "Z.Example.com.")]),
    )
    .unwrap();
    assert_eq!(names(&mx), [(10, "z.example.com."), (20, "a.example.com."), (20, "b.example.com.")]);
    assert_eq!(mx.site_name(), "(z|a|b).example.com");
    assert_eq!((mx.kind(), mx.is_mx(), mx.ttl_secs()), (RouteKind::Mx, true, 77));
    let by_pref = mx.by_pref();
    assert_eq!(by_pref[&10], ["z.example.com."]);
    assert_eq!(by_pref[&20], ["a.example.com.", "b.example.com."]);
}

#[test]
fn site_names_of_well_known_domains() {
    for (name, records, site) in [
        (
            "gmail.com",
            &[
                (30, "alt3.gmail-smtp-in.l.google.com."),
                (5, "gmail-smtp-in.l.google.com."),
                (20, "alt2.gmail-smtp-in.l.google.com."),
                (40, "alt4.gmail-smtp-in.l.google.com."),
                (10, "alt1.gmail-smtp-in.l.google.com."),
            ][..],
            "(alt1|alt2|alt3|alt4)?.gmail-smtp-in.l.google.com",
        ),
        ("outlook.com", &[(5, "outlook-com.olc.protection.outlook.com.")], "outlook-com.olc.protection.outlook.com."),
        (
            "yahoo.com",
            &[(1, "mta7.am0.yahoodns.net."), (1, "mta5.am0.yahoodns.net."), (1, "mta6.am0.yahoodns.net.")],
            "(mta5|mta6|mta7).am0.yahoodns.net",
        ),
        ("example.com:2025", &[(1, "mx.example.com.")], "mx.example.com:2025"),
    ] {
        let mx = MailExchangers::from_answer(&domain(name), answer(records)).unwrap();
        assert_eq!(mx.site_name(), site, "{name}");
    }
}

#[test]
fn no_mx_means_the_domain_itself() {
    for nothing in [Err(DnsError::NoData), answer(&[])] {
        let mx = MailExchangers::from_answer(&domain("Example.com:26"), nothing).unwrap();
        assert_eq!(names(&mx), [(1, "example.com.")]);
        assert_eq!((mx.kind(), mx.is_mx()), (RouteKind::ImplicitMx, false));
        assert_eq!((mx.site_name(), mx.hosts()[0].port), ("example.com:26", Some(26)));
        assert_eq!(mx.ttl_secs(), IMPLICIT_MX_TTL_SECS);
    }
}

#[test]
fn null_mx_only_when_it_stands_alone() {
    let null = MailExchangers::from_answer(&domain("example.com"), answer(&[(0, ".")])).unwrap();
    assert!(null.is_null_mx() && null.is_mx());
    assert_eq!(null.site_name(), ".");
    let mixed =
        MailExchangers::from_answer(&domain("example.com"), answer(&[(0, "."), (10, "mx.example.com.")])).unwrap();
    assert_eq!(names(&mixed), [(10, "mx.example.com.")]);
    assert_eq!(mixed.kind(), RouteKind::Mx);
}

#[test]
fn failures_keep_their_cause() {
    let gone = MailExchangers::from_answer(&domain("gone.example"), Err(DnsError::NxDomain)).unwrap_err();
    assert_eq!((gone.metrics_site().as_str(), gone.is_permanent()), ("NXDOMAIN:gone.example", true));
    for cause in [DnsError::Timeout, DnsError::ServFail, DnsError::Other("refused".into())] {
        let error = MailExchangers::from_answer(&domain("down.example"), Err(cause.clone())).unwrap_err();
        assert_eq!((error.metrics_site().as_str(), error.is_permanent()), ("DNSFAIL:down.example", false));
        assert!(error.to_string().contains(&cause.to_string()), "{error}");
        assert_eq!((error.reply().code, error.reply().enhanced_text().as_str()), (451, "4.4.4"));
    }
    let hostile = answer(&[(1, "a@b.example."), (2, "x->y.example.")]);
    let error = MailExchangers::from_answer(&domain("odd.example"), hostile).unwrap_err();
    assert!(matches!(error, RouteError::Dns { cause: DnsError::Malformed(_), .. }), "{error}");
}

#[test]
fn address_literals_need_no_answer() {
    for (text, site, port) in [
        ("[10.0.0.1]", "10.0.0.1", None),
        ("[10.0.0.1]:2025", "10.0.0.1:2025", Some(2025)),
        ("[IPv6:2001:db8::1]", "2001:db8::1", None),
        ("[IPv6:::1]:25", "[::1]:25", Some(25)),
    ] {
        let mx = MailExchangers::from_answer(&domain(text), Err(DnsError::Timeout)).unwrap();
        assert_eq!((mx.site_name(), mx.hosts()[0].port), (site, port));
        assert!(mx.is_domain_literal() && !mx.is_mx() && mx.hosts()[0].ip.is_some());
    }
}

#[test]
fn an_mx_list_keeps_its_order_and_names_its_site() {
    let list = [
        MxListEntry::parse("z.relay.example").unwrap(),
        MxListEntry::parse("a.relay.example:2025").unwrap(),
        MxListEntry::with_address("sink.test", "127.0.0.1:2525").unwrap(),
    ];
    let mx = MailExchangers::from_mx_list(&domain("example.com"), &list).unwrap();
    assert_eq!(mx.site_name(), "mx_list:z.relay.example,a.relay.example:2025,sink.test/127.0.0.1:2525");
    assert_eq!(names(&mx), [(0, "z.relay.example."), (1, "a.relay.example."), (2, "sink.test")]);
    assert_eq!(mx.hosts()[2].port, Some(2525));
    assert_eq!(MailExchangers::from_mx_list(&domain("example.com"), &[]), Err(MxListError::Empty));
}

#[test]
fn bounds() {
    let mx_of = |hosts: usize| {
        let names: Vec<String> = (0..hosts).map(|i| format!("mx{i:05}.example.com.")).collect();
        let records: Vec<(u16, &str)> = (0..).zip(&names).map(|(i, n)| (u16::MAX - i, n.as_str())).collect();
        MailExchangers::from_answer(&domain("example.com"), answer(&records)).unwrap()
    };
    assert_eq!(mx_of(MX_HOSTS_MAX).hosts().len(), MX_HOSTS_MAX);
    let cut = mx_of(MX_HOSTS_MAX + 1);
    assert_eq!(cut.hosts().len(), MX_HOSTS_MAX);
    assert!(!cut.hosts().iter().any(|h| h.name == "mx00000.example.com."), "the highest preference goes");

    let entry = MxListEntry::parse("[10.0.0.1]").unwrap();
    let list = vec![entry; MX_LIST_ENTRIES_MAX + 1];
    assert!(MailExchangers::from_mx_list(&domain("example.com"), &list[1..]).is_ok());
    let entries = MX_LIST_ENTRIES_MAX + 1;
    assert_eq!(MailExchangers::from_mx_list(&domain("example.com"), &list), Err(MxListError::TooLong { entries }));
}

#[test]
fn an_enforced_policy_leaves_hosts_out_and_names_the_site_anew() {
    let policy =
        |mode, mx: &[&str]| StsPolicy { mode, max_age_secs: 1, mx: mx.iter().map(|name| (*name).to_owned()).collect() };
    let domain = RoutingDomain::parse("a.test:2525").unwrap();
    let made = |list: &[(u16, &str)]| MailExchangers::from_answer(&domain, answer(list)).unwrap();
    let all = [(10, "mx1.a.test."), (20, "evil.test."), (30, "mx2.a.test.")];
    let kept = made(&all).under_policy(&policy(StsMode::Enforce, &["*.a.test"])).unwrap();
    let names: Vec<(u16, &str)> = kept.hosts().iter().map(|h| (h.preference, h.name.as_str())).collect();
    assert_eq!(names, [(10, "mx1.a.test."), (30, "mx2.a.test.")]);
    assert_eq!((kept.sts(), kept.hosts()[0].port), (StsMode::Enforce, Some(2525)));
    assert_eq!(kept.site_name(), made(&[all[0], all[2]]).site_name());
    let testing = made(&all).under_policy(&policy(StsMode::Testing, &["*.a.test"])).unwrap();
    assert_eq!((testing.hosts().len(), testing.sts()), (3, StsMode::Testing));
    let nothing = made(&all).under_policy(&policy(StsMode::Enforce, &["*.b.test"])).unwrap_err();
    assert!(matches!(nothing, RouteError::MtaSts { .. }) && !nothing.is_permanent());
    assert_eq!((nothing.reply().code, nothing.reply().enhanced), (451, (4, 4, 4)));
    let implicit = MailExchangers::from_answer(&domain, Err(DnsError::NoData)).unwrap();
    assert_eq!(implicit.under_policy(&policy(StsMode::Enforce, &["a.test"])).unwrap().sts(), StsMode::Enforce);
    // What DNS did not name is not the policy's business.
    let literal = MailExchangers::from_answer(&RoutingDomain::parse("[127.0.0.1]").unwrap(), Err(DnsError::NoData));
    assert_eq!(literal.unwrap().under_policy(&policy(StsMode::Enforce, &["b.test"])).unwrap().sts(), StsMode::None);
}
