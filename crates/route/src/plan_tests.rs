//! Tests of `plan` and `reply`: order, shuffle, ports, the CIDR tests, every verdict and its reply.

use std::collections::BTreeSet;

use super::*;
use crate::domain::RoutingDomain;
use crate::exchangers::RouteError;
use crate::mx_list::MxListEntry;
use crate::resolver::{MxAnswer, MxRecord};

const NONE: &dyn Fn(IpAddr) -> bool = &|_| false;
const ALL: &dyn Fn(IpAddr) -> bool = &|_| true;

fn exchangers(domain: &str, records: &[(u16, &str)]) -> MailExchangers {
    let record = |(preference, host): &(u16, &str)| MxRecord { preference: *preference, host: host.to_string() };
    let answer = MxAnswer { records: records.iter().map(record).collect(), ttl_secs: 60, ..Default::default() };
    MailExchangers::from_answer(&RoutingDomain::parse(domain).unwrap(), Ok(answer)).unwrap()
}

fn resolve(mx: &MailExchangers, table: &[(&str, &[&str])]) -> Vec<ResolvedHost> {
    let addresses = |host: &Exchanger| match (host.ip, table.iter().find(|(name, _)| *name == host.name)) {
        (Some(ip), _) => Ok(vec![ip]),
        (None, Some((_, texts))) => Ok(texts.iter().map(|t| t.parse().unwrap()).collect()),
        (None, None) => Err(DnsError::NxDomain),
    };
    mx.hosts()
        .iter()
        .map(|h| ResolvedHost { exchanger: h.clone(), addresses: addresses(h), trust: HostTrust::default() })
        .collect()
}

fn options(shuffle_seed: u64) -> PlanOptions<'static> {
    PlanOptions { remote_port: None, smtp_port: 25, shuffle_seed, prohibited: NONE, skip: NONE }
}

fn texts(plan: &ConnectionPlan) -> Vec<String> {
    match plan {
        ConnectionPlan::Candidates(list) => {
            list.iter().map(|c| format!("{} {} {}", c.preference, c.host, c.addr)).collect()
        }
        other => panic!("no candidates: {other:?}"),
    }
}

fn two_preferences() -> (MailExchangers, Vec<ResolvedHost>) {
    let mx = exchangers("example.com", &[(10, "a.example."), (10, "b.example."), (20, "c.example.")]);
    let hosts = resolve(
        &mx,
        &[("a.example.", &["10.0.0.1", "2001:db8::1"]), ("b.example.", &["10.0.0.2"]), ("c.example.", &["10.0.0.3"])],
    );
    (mx, hosts)
}

#[test]
fn order_is_by_preference_and_shuffled_inside_one() {
    let (mx, hosts) = two_preferences();
    let mut firsts = BTreeSet::new();
    for seed in 0..64 {
        let plan = texts(&ConnectionPlan::new(&mx, &hosts, &options(seed)));
        assert_eq!(plan, texts(&ConnectionPlan::new(&mx, &hosts, &options(seed))), "one seed, one order");
        assert_eq!(plan.len(), 4);
        assert_eq!(plan[3], "20 c.example. 10.0.0.3:25", "the worse preference comes last");
        firsts.insert(plan[0].clone());
    }
    let every: BTreeSet<String> =
        ["10 a.example. 10.0.0.1:25", "10 a.example. [2001:db8::1]:25", "10 b.example. 10.0.0.2:25"]
            .map(String::from)
            .into();
    assert_eq!(firsts, every, "each address of the best preference comes first with some seed");
}

#[test]
fn the_port_is_that_of_source_then_domain_then_path() {
    let one = |domain: &str, remote_port| {
        let mx = exchangers(domain, &[(10, "a.example.")]);
        let hosts = resolve(&mx, &[("a.example.", &["10.0.0.1"])]);
        texts(&ConnectionPlan::new(&mx, &hosts, &PlanOptions { remote_port, smtp_port: 2500, ..options(1) })).remove(0)
    };
    assert_eq!(one("example.com", None), "10 a.example. 10.0.0.1:2500");
    assert_eq!(one("example.com:26", None), "10 a.example. 10.0.0.1:26");
    assert_eq!(one("example.com:26", Some(27)), "10 a.example. 10.0.0.1:27");
}

#[test]
fn an_mx_list_is_tried_in_order_whatever_the_seed() {
    let list =
        [MxListEntry::parse("z.example:26").unwrap(), MxListEntry::with_address("sink", "10.0.0.9:2525").unwrap()];
    let mx = MailExchangers::from_mx_list(&RoutingDomain::parse("example.com").unwrap(), &list).unwrap();
    let hosts = resolve(&mx, &[("z.example.", &["10.0.0.1"])]);
    for seed in 0..16 {
        let plan = texts(&ConnectionPlan::new(&mx, &hosts, &options(seed)));
        assert_eq!(plan, ["0 z.example. 10.0.0.1:26", "1 sink 10.0.0.9:2525"]);
    }
}

#[test]
fn skip_hosts_removes_and_prohibited_hosts_condemns() {
    let (mx, hosts) = two_preferences();
    let is_a: &dyn Fn(IpAddr) -> bool = &|ip| ip == IpAddr::from([10, 0, 0, 1]);
    let skipping = ConnectionPlan::new(&mx, &hosts, &PlanOptions { skip: is_a, ..options(1) });
    assert!(texts(&skipping).iter().all(|t| !t.contains("10.0.0.1:")) && texts(&skipping).len() == 3);
    let both = ConnectionPlan::new(&mx, &hosts, &PlanOptions { skip: is_a, prohibited: is_a, ..options(1) });
    assert_eq!(both, ConnectionPlan::Prohibited { host: "a.example.".into(), addr: [10, 0, 0, 1].into() });
}

#[test]
fn a_mapped_loopback_does_not_slip_past() {
    let mx = exchangers("evil.example", &[(10, "mx.evil.example.")]);
    let hosts = resolve(&mx, &[("mx.evil.example.", &["::ffff:127.0.0.1"])]);
    let loopback_v4: &dyn Fn(IpAddr) -> bool = &|ip| matches!(ip, IpAddr::V4(v4) if v4.is_loopback());
    let plan = ConnectionPlan::new(&mx, &hosts, &PlanOptions { prohibited: loopback_v4, ..options(1) });
    assert!(matches!(plan, ConnectionPlan::Prohibited { .. }), "{plan:?}");
}

#[test]
fn a_host_or_address_listed_twice_is_tried_once() {
    let mx = exchangers("example.com", &[(10, "a.example."), (20, "a.example.")]);
    let hosts = resolve(&mx, &[("a.example.", &["10.0.0.1", "10.0.0.1"])]);
    assert_eq!(texts(&ConnectionPlan::new(&mx, &hosts, &options(3))), ["10 a.example. 10.0.0.1:25"]);
}

#[test]
fn one_dead_host_does_not_hide_the_others() {
    let (mx, mut hosts) = two_preferences();
    hosts[0].addresses = Err(DnsError::Timeout);
    assert_eq!(
        texts(&ConnectionPlan::new(&mx, &hosts, &options(1))),
        ["10 b.example. 10.0.0.2:25", "20 c.example. 10.0.0.3:25"]
    );
}

#[test]
fn every_verdict_has_the_reply_kumomta_logs() {
    let (mx, hosts) = two_preferences();
    let null = exchangers("null.example", &[(0, ".")]);
    let mut dead = hosts.clone();
    dead.iter_mut().for_each(|h| h.addresses = Err(DnsError::NoData));
    let mut silent = dead.clone();
    silent[1].addresses = Err(DnsError::Timeout);
    let gone = RouteError::NxDomain { domain: RoutingDomain::parse("gone.example").unwrap() };
    for (plan, reply) in [
        (ConnectionPlan::new(&null, &[], &options(1)), "556 5.1.10"),
        (ConnectionPlan::new(&mx, &hosts, &PlanOptions { prohibited: ALL, ..options(1) }), "550 5.4.4"),
        (ConnectionPlan::new(&mx, &hosts, &PlanOptions { skip: ALL, ..options(1) }), "451 4.4.4"),
        (ConnectionPlan::new(&mx, &dead, &options(1)), "451 4.4.4"),
        (ConnectionPlan::new(&mx, &silent, &options(1)), "451 4.4.4"),
        (ConnectionPlan::from(&gone), "451 4.4.4"),
    ] {
        let text = plan.reply().unwrap_or_else(|| panic!("{plan:?}")).to_string();
        assert!(text.starts_with(&format!("{reply} KumoMTA internal: ")), "{plan:?}: {text}");
    }
    assert_eq!(ConnectionPlan::new(&mx, &dead, &options(1)), ConnectionPlan::NoAddresses);
    assert!(matches!(
        ConnectionPlan::new(&mx, &silent, &options(1)),
        ConnectionPlan::Unresolvable { permanent: false, .. }
    ));
    assert!(matches!(ConnectionPlan::from(&gone), ConnectionPlan::Unresolvable { permanent: true, .. }));
    assert_eq!(ConnectionPlan::new(&mx, &hosts, &options(1)).reply(), None);
}

#[test]
fn candidates_are_bounded() {
    let plan_of = |count: u32| {
        let mx = exchangers("example.com", &[(10, "a.example.")]);
        let ips: Vec<IpAddr> = (0..count).map(|i| IpAddr::V4((0x0A00_0000 + i).into())).collect();
        let hosts =
            vec![ResolvedHost { exchanger: mx.hosts()[0].clone(), addresses: Ok(ips), trust: HostTrust::default() }];
        texts(&ConnectionPlan::new(&mx, &hosts, &options(1))).len()
    };
    assert_eq!(plan_of(CANDIDATES_MAX as u32), CANDIDATES_MAX);
    assert_eq!(plan_of(CANDIDATES_MAX as u32 + 1), CANDIDATES_MAX);
}
