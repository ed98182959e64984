//! Tests of `hickory` that need no server: configuration errors, classification, the union of two families.

use config::TrustAnchorFile;
use hickory_resolver::proto::op::Query;
use hickory_resolver::proto::rr::rdata::SOA;

use super::*;

fn answer(text: &str, ttl_secs: u32) -> Result<IpAnswer, DnsError> {
    Ok(IpAnswer { addresses: vec![text.parse().unwrap()], ttl_secs, ..Default::default() })
}

#[test]
fn a_missing_or_useless_resolv_conf_is_a_clear_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("resolv.conf");
    let text = |result: Result<HickoryResolver, DnsSetupError>| match result {
        Ok(_) => panic!("it was taken"),
        Err(error) => error.to_string(),
    };
    let missing = text(HickoryResolver::from_resolv_conf(&path));
    assert!(missing.contains("resolv.conf: ") && missing.starts_with("cannot read"), "{missing}");
    std::fs::write(&path, "search example.com\n").unwrap();
    let useless = text(HickoryResolver::from_resolv_conf(&path));
    assert!(useless.contains("nameserver ADDRESS"), "{useless}");
    std::fs::write(&path, "nameserver 127.0.0.1\noptions timeout:0\n").unwrap();
    assert!(HickoryResolver::from_resolv_conf(&path).is_ok());

    let mut hasty = ResolverOptions::asking(&["127.0.0.1:53".parse().unwrap()]);
    hasty.options.timeout = config::Duration::from_secs(0);
    assert!(text(HickoryResolver::from_options(&hasty)).contains("timeout is 0"));
    let mut unanchored = ResolverOptions::asking(&["127.0.0.1:53".parse().unwrap()]);
    unanchored.options.validate = true;
    let file = path.with_file_name("root.key");
    unanchored.options.trust_anchor_file = Some(config::Short(TrustAnchorFile { managed: file.display().to_string() }));
    assert!(text(HickoryResolver::from_options(&unanchored)).contains("root.key: No such file"));
    std::fs::write(&file, ". IN DS 20326 8 2 E06D\n").unwrap();
    assert!(text(HickoryResolver::from_options(&unanchored)).contains("expected DNSKEY records"));
}

#[test]
fn two_families_together() {
    let union = both(answer("10.0.0.1", 9), answer("::1", 5)).unwrap();
    assert_eq!((union.addresses.len(), union.ttl_secs), (2, 5));
    assert_eq!(both(answer("10.0.0.1", 9), Err(DnsError::Timeout)), answer("10.0.0.1", 9));
    assert_eq!(both(Err(DnsError::NoData), answer("::1", 5)), answer("::1", 5));
    assert_eq!(both(Err(DnsError::NoData), Err(DnsError::Timeout)), Err(DnsError::Timeout));
    assert_eq!(both(Err(DnsError::ServFail), Err(DnsError::NoData)), Err(DnsError::ServFail));
    assert_eq!(both(Err(DnsError::NxDomain), Err(DnsError::NxDomain)), Err(DnsError::NxDomain));

    let many = |count: usize| {
        Ok(IpAnswer { addresses: vec![IpAddr::from([10, 0, 0, 1]); count], ttl_secs: 1, ..Default::default() })
    };
    assert_eq!(both(many(HOST_ADDRESSES_MAX - 1), many(1)).unwrap().addresses.len(), HOST_ADDRESSES_MAX);
    assert_eq!(both(many(HOST_ADDRESSES_MAX), many(1)).unwrap().addresses.len(), HOST_ADDRESSES_MAX);
}

#[test]
fn an_answer_without_records_is_of_the_zone_of_its_name() {
    let none = |name: &str, kind, zone: Option<&str>| {
        let mut none = NoRecords::new(Query::query(full_name(name).expect("a name"), kind), ResponseCode::NoError);
        let root = || full_name("x.").expect("a name");
        let soa = |zone: &str| {
            Record::from_rdata(full_name(zone).expect("a name"), 60, SOA::new(root(), root(), 1, 60, 60, 60, 60))
        };
        none.soa = zone.map(|zone| Box::new(soa(zone)));
        is_of_its_zone(&none)
    };
    for kind in [RecordType::MX, RecordType::TLSA] {
        for (zone, expected) in [("a.test.", true), ("test.", true), ("b.test.", false), ("c.a.test.", false)] {
            assert_eq!(none("a.test.", kind, Some(zone)), expected, "{kind} {zone}");
        }
    }
    assert!(none("a.test.", RecordType::MX, None), "some servers say no more");
    assert!(!none("_25._tcp.a.test.", RecordType::TLSA, None));
}

#[test]
fn errors_keep_their_cause() {
    let code = |code| classify(NetError::Dns(LibraryDnsError::ResponseCode(code)));
    assert_eq!(code(ResponseCode::ServFail), DnsError::ServFail);
    assert!(matches!(code(ResponseCode::Refused), DnsError::Other(text) if text.contains("Refused")));
    assert_eq!(classify(NetError::Timeout), DnsError::Timeout);
    assert!(matches!(classify(NetError::NoConnections), DnsError::Other(_)));
    assert!(matches!(full_name(&"a".repeat(64)), Err(DnsError::Malformed(_))));
    // SPF asks for names made of local parts.
    let odd = full_name("ann+news=x.%{h}._spf.from.test").expect("a name");
    assert_eq!((odd.num_labels(), odd.is_fqdn()), (5, true), "{odd}");
    assert_eq!(odd, full_name("ann+news=x.%{h}._spf.from.test.").expect("a name"));
    for wrong in ["a+b..test", "a+b\\.test", "a+ b.test", "a+b\u{e9}.test"] {
        assert!(matches!(full_name(wrong), Err(DnsError::Malformed(_))), "{wrong}");
    }
}

/// An answer to a question about `asked` that holds these records.
fn lookup(asked: &str, records: &[(&str, RData)]) -> (Name, Lookup) {
    use hickory_resolver::proto::op::Query;
    use hickory_resolver::proto::rr::Record;
    let asked = full_name(asked).unwrap();
    let record = |(owner, data): &(&str, RData)| Record::from_rdata(full_name(owner).unwrap(), 60, data.clone());
    let query = Query::query(asked.clone(), RecordType::A);
    (asked, Lookup::new_with_max_ttl(query, records.iter().map(record)))
}

fn cname(to: &str) -> RData {
    RData::CNAME(hickory_resolver::proto::rr::rdata::CNAME(full_name(to).unwrap()))
}

fn a(last: u8) -> RData {
    RData::A(hickory_resolver::proto::rr::rdata::A::new(10, 0, 0, last))
}

#[test]
fn records_of_other_names_in_an_answer_do_not_count() {
    let found = |asked: &str, records: &[(&str, RData)]| {
        let (name, lookup) = lookup(asked, records);
        let last = |data: &RData| match data {
            RData::A(a) => Some(a.0.octets()[3]),
            _ => None,
        };
        let end = end_of_aliases(&name, &lookup).to_ascii();
        (pick(&name, &lookup, last, 9).0, end)
    };
    assert_eq!(found("A.test", &[("evil.test", a(9)), ("a.test", a(1)), ("a.test", a(2))]).0, [1, 2]);
    let chain = [("b.test", cname("c.test")), ("a.test", cname("b.test")), ("b.test", a(9)), ("c.test", a(3))];
    assert_eq!(found("a.test", &chain), (vec![3], "c.test.".to_owned()));
    // A loop ends.
    assert_eq!(found("a.test", &[("a.test", cname("b.test")), ("b.test", cname("a.test"))]).0, [0; 0]);
}

/// Each option is one of the library's, so what is shown is that it gets there.
#[test]
fn options_become_those_of_the_library() {
    let minutes = |n: u64| Some(config::Duration::from_secs(60 * n));
    let chosen = QueryOptions {
        edns0: false,
        num_concurrent_reqs: 7,
        positive_min_ttl: minutes(1),
        positive_max_ttl: minutes(2),
        negative_min_ttl: minutes(3),
        negative_max_ttl: minutes(4),
        recursion_desired: false,
        server_ordering_strategy: ServerOrdering::UserProvidedOrder,
        try_tcp_on_error: true,
        case_randomization: true,
        ..QueryOptions::default()
    };
    let made = library_options(&chosen);
    assert!(!made.edns0 && !made.recursion_desired && made.try_tcp_on_error && made.case_randomization);
    assert_eq!(
        (made.num_concurrent_reqs, made.server_ordering_strategy),
        (7, ServerOrderingStrategy::UserProvidedOrder)
    );
    let ttls = [made.positive_min_ttl, made.positive_max_ttl, made.negative_min_ttl, made.negative_max_ttl];
    assert_eq!(ttls.map(|ttl| ttl.map(|ttl| ttl.as_secs() / 60)), [Some(1), Some(2), Some(3), Some(4)]);
    assert!(library_options(&QueryOptions { validate: true, ..chosen }).edns0, "signatures do not fit in 512 octets");
}
