//! Properties of the value grammars: what is written can be read, nothing read panics, sets agree with a naive model.

use config::*;
use ipnet::IpNet;
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

fn duration() -> impl Strategy<Value = Duration> {
    (0u64..400 * 31_557_600, 0u32..1_000_000_000).prop_map(|(s, ns)| core::time::Duration::new(s, ns).into())
}

fn throttle() -> impl Strategy<Value = ThrottleSpec> {
    (
        any::<bool>(),
        1u64..,
        prop_oneof![Just(1), Just(60), Just(3600), Just(86_400), 1u64..=u64::MAX / 2],
        proptest::option::of(1u64..),
    )
        .prop_map(|(local, limit, period_s, max_burst)| ThrottleSpec { local, limit, period_s, max_burst })
}

/// Few distinct addresses, so that blocks meet and overlap.
fn block() -> impl Strategy<Value = IpNet> {
    let v4 = (0u32..64, 24u8..=32).prop_map(|(host, len)| IpNet::new(Ipv4Addr::from(0x0a00_0000 + host).into(), len));
    let v6 =
        (0u128..64, 120u8..=128).prop_map(|(host, len)| IpNet::new(Ipv6Addr::from((0x2001 << 112) + host).into(), len));
    prop_oneof![v4, v6].prop_map(|net| net.unwrap().trunc())
}

fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        (0u32..300).prop_map(|host| IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + host))),
        (0u128..300).prop_map(|host| IpAddr::V6(Ipv6Addr::from((0x2001 << 112) + host))),
    ]
}

proptest! {
    #[test]
    fn durations_round_trip(duration in duration()) {
        prop_assert_eq!(duration.to_string().parse::<Duration>(), Ok(duration));
    }

    #[test]
    fn throttles_round_trip(spec in throttle()) {
        prop_assert_eq!(spec.to_string().parse::<ThrottleSpec>(), Ok(spec));
    }

    #[test]
    fn limits_round_trip(limit in 1u64.., local in any::<bool>()) {
        let spec = LimitSpec { limit, local };
        prop_assert_eq!(spec.to_string().parse::<LimitSpec>(), Ok(spec));
        let json = serde_json::to_value(spec).unwrap();
        prop_assert_eq!(parse::<LimitSpec>("f", json), Ok(spec));
    }

    #[test]
    fn minimums_round_trip(percent in 0u8..=100, amount in any::<u64>()) {
        for floor in [MinFree::Percent(percent), MinFree::Amount(amount)] {
            prop_assert_eq!(floor.to_string().parse::<MinFree>(), Ok(floor));
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,40}") {
        let _ = text.parse::<Duration>();
        let _ = text.parse::<ThrottleSpec>();
        let _ = text.parse::<LimitSpec>();
        let _ = text.parse::<MinFree>();
        let _ = text.parse::<HostPort>();
        let _ = text.parse::<MxListEntry>();
        let _ = text.parse::<RustlsCipherSuite>();
        let _ = text.parse::<OpensslOptions>();
        let _ = parse_cidr(&text);
    }

    #[test]
    fn text_made_of_the_grammar_is_read_or_refused(text in "(local:)?[0-9,_.]{0,6}[ /%:]?[0-9]{0,21}(ms|m|M|days?|yr|µs|,max_burst=)?[0-9 ]{0,3}") {
        let _ = text.parse::<Duration>();
        let _ = text.parse::<ThrottleSpec>();
        let _ = text.parse::<LimitSpec>();
        let _ = text.parse::<MinFree>();
    }

    #[test]
    fn mx_entries_round_trip(host in "[a-z]([a-z0-9-]{0,8}\\.){0,2}[a-z]{1,4}", port in proptest::option::of(1u16..), ip in any::<IpAddr>()) {
        let ip = canonical_ip(ip);
        for entry in [
            MxListEntry::Host { host: host.clone(), port },
            MxListEntry::Literal { ip, port },
            MxListEntry::Named { name: host.clone(), ip, port },
        ] {
            let json = serde_json::to_value(&entry).unwrap();
            prop_assert_eq!(parse::<MxListEntry>("f", json), Ok(entry));
        }
    }

    #[test]
    fn sets_agree_with_a_walk_over_the_blocks(blocks in proptest::collection::vec(block(), 0..8), ip in address()) {
        let naive = blocks.iter().any(|block| block.contains(&ip));
        let set = CidrSet::new(blocks);
        prop_assert_eq!(set.contains(ip), naive);
        let again: CidrSet = parse("f", serde_json::to_value(&set).unwrap()).unwrap();
        prop_assert_eq!(again, set);
    }

    #[test]
    fn maps_agree_with_the_longest_match(blocks in proptest::collection::vec(block(), 0..8), ip in address()) {
        let mut map = CidrMap::new();
        for block in &blocks {
            map.insert(*block, block.to_string());
        }
        let longest = blocks.iter().filter(|b| b.contains(&ip)).max_by_key(|b| b.prefix_len()).map(|b| b.to_string());
        prop_assert_eq!(map.get(ip), longest.as_ref());
        let again: CidrMap<String> = parse("f", serde_json::to_value(&map).unwrap()).unwrap();
        prop_assert_eq!(again, map);
    }
}
