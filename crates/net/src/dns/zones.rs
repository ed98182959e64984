//! ZoneResolver: `route::Resolver` over zone files that stand in the policy (`kumo.dns.configure_test_resolver`).
//!
//! In:  zone files as text. Out: what an authoritative server of those zones would answer, CNAMEs and wildcards followed;
//! NXDOMAIN for every name in none of them. Nobody is ever asked. Whether answers count as secure is said by the policy,
//! zone by zone. Fails with: [`DnsSetupError::Zone`] when it is made.

use std::collections::{HashMap, HashSet};
use std::future::ready;
use std::net::IpAddr;

use config::TestZones;
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use hickory_resolver::proto::serialize::txt::Parser;
use route::{
    BoxFuture, DnsError, HostTrust, IpAnswer, IpStrategy, MxAnswer, MxRecord, Resolver, TlsaAnswer, TxtAnswer,
};

use super::hickory::{both, full_name, host_of_ptr, tlsa_record};
use super::setup_error::DnsSetupError;

/// Zones and the names that are to fail.
pub struct ZoneResolver {
    sets: HashMap<(Name, RecordType), Set>,
    /// Every name that exists: owners, and what lies between them and the root.
    names: HashSet<Name>,
    servfail: HashSet<Name>,
}

/// The records of one name and type.
struct Set {
    records: Vec<RData>,
    ttl_secs: u32,
    is_secure: bool,
}

/// What a question found.
struct Found<'a> {
    set: &'a Set,
    trust: HostTrust,
    ttl_secs: u32,
}

impl ZoneResolver {
    /// Reads the zones. A later record of a name and type adds to earlier ones.
    pub fn new(zones: &TestZones) -> Result<ZoneResolver, DnsSetupError> {
        let mut made = ZoneResolver { sets: HashMap::new(), names: HashSet::new(), servfail: HashSet::new() };
        for (place, zone) in zones.zones.iter().enumerate() {
            let refuse = |cause: String| DnsSetupError::Zone { place: place + 1, cause };
            let parsed = Parser::new(zone.0.zone.as_str(), None, Some(Name::root())).parse();
            let (_, sets) = parsed.map_err(|e| refuse(e.to_string()))?;
            for records in sets.into_values() {
                made.add(records.name().to_lowercase(), &records, zone.0.secure);
            }
        }
        for name in &zones.servfail {
            let cause = |e: DnsError| DnsSetupError::Name { name: name.clone(), cause: e.to_string() };
            made.servfail.insert(full_name(name).map_err(cause)?.to_lowercase());
        }
        Ok(made)
    }

    fn add(&mut self, name: Name, records: &hickory_resolver::proto::rr::RecordSet, is_secure: bool) {
        let mut above = name.clone();
        while self.names.insert(above.clone()) && !above.is_root() {
            above = above.base_name();
        }
        let new = Set { records: Vec::new(), ttl_secs: records.ttl(), is_secure };
        let set = self.sets.entry((name, records.record_type())).or_insert(new);
        set.records.extend(records.records_without_rrsigs().map(|record| record.data.clone()));
        set.ttl_secs = set.ttl_secs.min(records.ttl());
        set.is_secure &= is_secure;
    }

    fn find(&self, name: &str, kind: RecordType) -> Result<Found<'_>, DnsError> {
        let asked = full_name(name)?.to_lowercase();
        let mut trust = HostTrust { is_secure: true, ..HostTrust::default() };
        let (mut at, mut ttl_secs) = (asked.clone(), u32::MAX);
        for step in 0..ALIASES_MAX {
            if self.servfail.contains(&at) {
                return Err(DnsError::ServFail);
            }
            let owner = self.owner(&at).ok_or(DnsError::NxDomain)?;
            if let Some(set) = self.sets.get(&(owner.clone(), kind)) {
                trust.is_secure &= set.is_secure;
                trust.canonical = (at != asked).then(|| at.to_ascii());
                return Ok(Found { set, trust, ttl_secs: ttl_secs.min(set.ttl_secs) });
            }
            let alias = self.sets.get(&(owner, RecordType::CNAME)).ok_or(DnsError::NoData)?;
            let Some(RData::CNAME(target)) = alias.records.first() else { return Err(DnsError::NoData) };
            trust.is_secure &= alias.is_secure;
            trust.is_alias_secure |= step == 0 && alias.is_secure;
            ttl_secs = ttl_secs.min(alias.ttl_secs);
            at = target.0.to_lowercase();
        }
        Err(DnsError::ServFail)
    }

    /// The name whose records answer for `name`: its own, or the wildcard beside its closest ancestor (RFC 4592).
    fn owner(&self, name: &Name) -> Option<Name> {
        if self.names.contains(name) {
            return Some(name.clone());
        }
        let mut above = name.base_name();
        while !self.names.contains(&above) {
            if above.is_root() {
                return None;
            }
            above = above.base_name();
        }
        let wildcard = above.prepend_label("*").ok()?;
        self.names.contains(&wildcard).then_some(wildcard)
    }

    fn addresses(&self, host: &str, kind: RecordType) -> Result<IpAnswer, DnsError> {
        let found = self.find(host, kind)?;
        let address = |data: &RData| match data {
            RData::A(a) => Some(IpAddr::V4(a.0)),
            RData::AAAA(aaaa) => Some(IpAddr::V6(aaaa.0)),
            _ => None,
        };
        let addresses = found.set.records.iter().filter_map(address).collect();
        Ok(IpAnswer { addresses, ttl_secs: found.ttl_secs, trust: found.trust })
    }

    fn look_up_ip(&self, host: &str, strategy: IpStrategy) -> Result<IpAnswer, DnsError> {
        let v4 = || self.addresses(host, RecordType::A);
        let v6 = || self.addresses(host, RecordType::AAAA);
        match strategy {
            IpStrategy::Ipv4Only => v4(),
            IpStrategy::Ipv6Only => v6(),
            IpStrategy::Ipv4AndIpv6 => both(v4(), v6()),
            IpStrategy::Ipv4ThenIpv6 => v4().or_else(|e| both(Err(e), v6())),
            IpStrategy::Ipv6ThenIpv4 => v6().or_else(|e| both(Err(e), v4())),
        }
    }

    fn look_up_mx(&self, name: &str) -> Result<MxAnswer, DnsError> {
        let found = self.find(name, RecordType::MX)?;
        let record = |data: &RData| match data {
            RData::MX(mx) => Some(MxRecord { preference: mx.preference, host: mx.exchange.to_lowercase().to_ascii() }),
            _ => None,
        };
        let records = found.set.records.iter().filter_map(record).collect();
        Ok(MxAnswer { records, ttl_secs: found.ttl_secs, is_secure: found.trust.is_secure })
    }

    fn look_up_txt(&self, name: &str) -> Result<TxtAnswer, DnsError> {
        let found = self.find(name, RecordType::TXT)?;
        let text = |data: &RData| match data {
            RData::TXT(txt) => Some(txt.txt_data.concat()),
            _ => None,
        };
        Ok(TxtAnswer { texts: found.set.records.iter().filter_map(text).collect(), ttl_secs: found.ttl_secs })
    }

    fn look_up_tlsa(&self, name: &str) -> Result<TlsaAnswer, DnsError> {
        let found = self.find(name, RecordType::TLSA)?;
        let records = found.set.records.iter().filter_map(tlsa_record).collect();
        Ok(TlsaAnswer { records, is_secure: found.trust.is_secure })
    }
}

impl Resolver for ZoneResolver {
    fn mx<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<MxAnswer, DnsError>> {
        Box::pin(ready(self.look_up_mx(name)))
    }

    fn ip<'a>(&'a self, host: &'a str, strategy: IpStrategy) -> BoxFuture<'a, Result<IpAnswer, DnsError>> {
        Box::pin(ready(self.look_up_ip(host, strategy)))
    }

    fn txt<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<TxtAnswer, DnsError>> {
        Box::pin(ready(self.look_up_txt(name)))
    }

    fn ptr<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Vec<String>, DnsError>> {
        let found = self.find(name, RecordType::PTR);
        Box::pin(ready(found.map(|found| found.set.records.iter().filter_map(host_of_ptr).collect())))
    }

    fn tlsa<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<TlsaAnswer, DnsError>> {
        Box::pin(ready(self.look_up_tlsa(name)))
    }
}

/// Aliases followed before a chain counts as a loop.
const ALIASES_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use config::{Short, TestZone};

    const ZONE: &str = r#"
$ORIGIN a.test.
@           300 MX    10 mx
@           300 MX    20 mx.b.test.
mx          60  A     127.0.0.1
mx          60  AAAA  ::1
deep.er     60  A     127.0.0.2
*.wild      60  MX    5 mx
alias       30  CNAME mx
away        30  CNAME mx.b.test.
lost        30  CNAME nowhere
loop        30  CNAME loop
_mta-sts    60  TXT   "v=STSv1; " "id=1;"
_25._tcp.mx 60  TLSA  3 1 1 0102
"#;

    fn resolver() -> ZoneResolver {
        let zone = |text: &str, secure| Short(TestZone { zone: text.to_owned(), secure });
        let zones =
            vec![zone(ZONE, true), zone("mx.b.test. 60 A 127.0.0.9\nto-a.b.test. 60 CNAME mx.a.test.\n", false)];
        ZoneResolver::new(&TestZones { zones, servfail: vec!["broken.test".to_owned()] }).expect("sound zones")
    }

    fn ip(host: &str, strategy: IpStrategy) -> Result<IpAnswer, DnsError> {
        resolver().look_up_ip(host, strategy)
    }

    #[test]
    fn records_of_every_kind() {
        let mx = resolver().look_up_mx("A.test").unwrap();
        let hosts: Vec<(u16, &str)> = mx.records.iter().map(|r| (r.preference, r.host.as_str())).collect();
        assert_eq!((hosts, mx.ttl_secs, mx.is_secure), (vec![(10, "mx.a.test."), (20, "mx.b.test.")], 300, true));
        assert_eq!(resolver().look_up_txt("_mta-sts.a.test.").unwrap().texts, [b"v=STSv1; id=1;".to_vec()]);
        let tlsa = resolver().look_up_tlsa("_25._tcp.mx.a.test").unwrap();
        let record = &tlsa.records[0];
        assert_eq!((record.usage, record.selector, record.matching, &record.data[..]), (3, 1, 1, &[1, 2][..]));
        assert!(tlsa.is_secure);
        let addresses = ip("mx.a.test", IpStrategy::Ipv4AndIpv6).unwrap();
        assert_eq!(addresses.addresses, ["127.0.0.1", "::1"].map(|a| a.parse::<IpAddr>().unwrap()));
    }

    #[test]
    fn nothing_is_told_from_nobody() {
        for (name, expected) in [
            ("mx.a.test", DnsError::NoData),
            ("er.a.test", DnsError::NoData),
            ("no.a.test", DnsError::NxDomain),
            ("c.test", DnsError::NxDomain),
            ("lost.a.test", DnsError::NxDomain),
            ("loop.a.test", DnsError::ServFail),
            ("broken.test", DnsError::ServFail),
        ] {
            assert_eq!(resolver().look_up_mx(name), Err(expected), "{name}");
        }
        assert_eq!(resolver().look_up_mx("x.y.wild.a.test").unwrap().records[0].host, "mx.a.test.");
    }

    #[test]
    fn trust_goes_along_aliases() {
        let trust = |host| ip(host, IpStrategy::Ipv4Only).unwrap().trust;
        let secure = HostTrust { is_secure: true, ..HostTrust::default() };
        assert_eq!(trust("mx.a.test"), secure);
        assert_eq!(trust("mx.b.test"), HostTrust::default());
        let canonical = Some("mx.a.test.".to_owned());
        assert_eq!(trust("alias.a.test"), HostTrust { canonical, is_alias_secure: true, ..secure });
        let canonical = Some("mx.a.test.".to_owned());
        assert_eq!(trust("to-a.b.test"), HostTrust { is_secure: false, canonical, is_alias_secure: false });
        let canonical = Some("mx.b.test.".to_owned());
        assert_eq!(trust("away.a.test"), HostTrust { is_secure: false, canonical, is_alias_secure: true });
    }

    #[test]
    fn a_zone_that_cannot_be_read_is_named() {
        let zones = vec![Short(TestZone { zone: "a.test. 60 MX none\n".to_owned(), secure: false })];
        let error = ZoneResolver::new(&TestZones { zones, servfail: Vec::new() }).err().map(|e| e.to_string());
        assert!(error.as_ref().is_some_and(|e| e.starts_with("zone 1 of the test resolver: ")), "{error:?}");
    }
}
