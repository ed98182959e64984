//! Sets of addresses.
//!
//! Owns [`CidrSet`] (a list of addresses and blocks with a fast membership test), [`parse_cidr`] and
//! [`canonical_ip`]. In: a list of strings. Out: `contains`. Fails with [`BadText`]; a block with host bits set is
//! refused with the corrected block, because a typing error here opens a relay. No DNS names.

use crate::text::BadText;
use core::fmt;
use core::net::IpAddr;
use ipnet::{IpNet, Ipv4Net};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A set of IP addresses given as addresses and CIDR blocks.
///
/// IPv4-mapped IPv6 addresses (`::ffff:a.b.c.d`) are the IPv4 address, in the set and in the question.
#[derive(Clone, Debug, Default)]
pub struct CidrSet {
    /// As written, for showing.
    blocks: Vec<IpNet>,
    /// First and last address of disjoint ranges, ascending.
    v4: Vec<(u32, u32)>,
    /// Likewise for IPv6.
    v6: Vec<(u128, u128)>,
}

impl CidrSet {
    /// The set of all addresses in `blocks`.
    pub fn new(blocks: impl IntoIterator<Item = IpNet>) -> Self {
        let blocks: Vec<IpNet> = blocks.into_iter().collect();
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for block in &blocks {
            match unmapped(*block) {
                IpNet::V4(net) => v4.push((u32::from(net.network()), u32::from(net.broadcast()))),
                IpNet::V6(net) => v6.push((u128::from(net.network()), u128::from(net.broadcast()))),
            }
        }
        CidrSet { blocks, v4: merged(v4), v6: merged(v6) }
    }

    /// Reads a list of texts.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, BadText> {
        Ok(Self::new(texts.into_iter().map(parse_cidr).collect::<Result<Vec<_>, _>>()?))
    }

    /// Whether `ip` lies in any block.
    pub fn contains(&self, ip: IpAddr) -> bool {
        match canonical_ip(ip) {
            IpAddr::V4(ip) => within(&self.v4, u32::from(ip)),
            IpAddr::V6(ip) => within(&self.v6, u128::from(ip)),
        }
    }

    /// True when nothing is in the set.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The blocks as given.
    pub fn blocks(&self) -> &[IpNet] {
        &self.blocks
    }
}

impl PartialEq for CidrSet {
    fn eq(&self, other: &Self) -> bool {
        // The ranges follow from the blocks.
        self.blocks == other.blocks
    }
}

impl Eq for CidrSet {}

impl Serialize for CidrSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.blocks.iter().map(|block| show_cidr(*block)))
    }
}

impl<'de> Deserialize<'de> for CidrSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ListVisitor)
    }
}

struct ListVisitor;

impl<'de> de::Visitor<'de> for ListVisitor {
    type Value = CidrSet;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of IP addresses and CIDR blocks")
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<CidrSet, A::Error> {
        let mut blocks = Vec::new();
        while let Some(Block(block)) = list.next_element()? {
            blocks.push(block);
        }
        Ok(CidrSet::new(blocks))
    }
}

/// One element, so that an error names its index.
struct Block(IpNet);

impl<'de> Deserialize<'de> for Block {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_cidr(&text).map(Block).map_err(de::Error::custom)
    }
}

/// Reads an address or a block whose host bits are zero.
pub fn parse_cidr(text: &str) -> Result<IpNet, BadText> {
    let bad = |expected: &str| BadText::new("CIDR", text, expected);
    let trimmed = text.trim();
    if let Ok(ip) = trimmed.parse::<IpAddr>() {
        return Ok(IpNet::from(ip));
    }
    let block: IpNet = trimmed.parse().map_err(|_| bad("an IP address or a block such as \"10.0.0.0/8\""))?;
    if block != block.trunc() {
        return Err(bad(&format!("zero host bits, did you mean \"{}\"?", block.trunc())));
    }
    Ok(block)
}

/// A block as text; one address without its prefix length, as KumoMTA shows it.
pub fn show_cidr(block: IpNet) -> String {
    if block.prefix_len() == block.max_prefix_len() { block.addr().to_string() } else { block.to_string() }
}

/// The IPv4 address inside an IPv4-mapped IPv6 one; any other address unchanged.
///
/// A dual-stack socket reports IPv4 peers in mapped form; every comparison goes through here first.
pub fn canonical_ip(ip: IpAddr) -> IpAddr {
    ip.to_canonical()
}

/// The IPv4 block inside a block of IPv4-mapped addresses.
pub(crate) fn unmapped(block: IpNet) -> IpNet {
    let IpNet::V6(v6) = block else { return block };
    let Some(inner) = v6.network().to_ipv4_mapped() else {
        return block;
    };
    match v6.prefix_len().checked_sub(MAPPED_PREFIX_BITS).map(|len| Ipv4Net::new(inner, len)) {
        Some(Ok(v4)) => IpNet::V4(v4),
        _ => block,
    }
}

fn merged<T: Copy + Ord>(mut ranges: Vec<(T, T)>) -> Vec<(T, T)> {
    ranges.sort_unstable();
    let mut out: Vec<(T, T)> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges {
        match out.last_mut() {
            Some(previous) if first <= previous.1 => previous.1 = previous.1.max(last),
            _ => out.push((first, last)),
        }
    }
    out
}

fn within<T: Copy + Ord>(ranges: &[(T, T)], address: T) -> bool {
    let behind = ranges.partition_point(|(first, _)| *first <= address);
    behind > 0 && address <= ranges[behind - 1].1
}

/// Length of `::ffff:0:0/96`, under which the mapped IPv4 addresses lie (bits).
const MAPPED_PREFIX_BITS: u8 = 96;

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn membership() {
        let set = CidrSet::parse(["127.0.0.1", "10.0.0.0/8", "10.1.0.0/16", "2001:db8::/32", "::1"]).unwrap();
        for inside in ["127.0.0.1", "10.0.0.0", "10.255.255.255", "2001:db8::9", "::1", "::ffff:10.2.3.4"] {
            assert!(set.contains(ip(inside)), "{inside}");
        }
        for outside in ["127.0.0.2", "9.255.255.255", "11.0.0.0", "2001:db9::", "::2", "::ffff:11.0.0.1"] {
            assert!(!set.contains(ip(outside)), "{outside}");
        }
        assert!(!CidrSet::default().contains(ip("::1")));
    }

    #[test]
    fn a_mapped_block_is_the_ipv4_block() {
        let set = CidrSet::parse(["::ffff:10.0.0.0/104"]).unwrap();
        assert!(set.contains(ip("10.9.8.7")) && set.contains(ip("::ffff:10.9.8.7")));
        assert!(!set.contains(ip("11.0.0.1")));
        assert!(CidrSet::parse(["::/0"]).unwrap().contains(ip("2001::1")));
    }

    #[test]
    fn refuses_with_a_suggestion() {
        for (text, want) in [
            ("10.0.0.1/8", "invalid CIDR \"10.0.0.1/8\": expected zero host bits, did you mean \"10.0.0.0/8\"?"),
            ("::1/64", "invalid CIDR \"::1/64\": expected zero host bits, did you mean \"::/64\"?"),
            ("10.0.0.0/33", "invalid CIDR \"10.0.0.0/33\": expected an IP address or a block such as \"10.0.0.0/8\""),
            ("localhost", "invalid CIDR \"localhost\": expected an IP address or a block such as \"10.0.0.0/8\""),
        ] {
            assert_eq!(parse_cidr(text).unwrap_err().to_string(), want);
        }
    }

    #[test]
    fn shows_single_addresses_bare() {
        let set = CidrSet::parse(["127.0.0.0/8", "::1", "10.0.0.1/32"]).unwrap();
        assert_eq!(serde_json::to_value(&set).unwrap(), serde_json::json!(["127.0.0.0/8", "::1", "10.0.0.1"]));
    }
}
