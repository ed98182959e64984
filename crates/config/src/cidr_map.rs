//! Values by address block.
//!
//! Owns [`CidrMap`]: the value of the longest block an address lies in. In: a table from address or block to value.
//! Out: `get`. Fails on a key [`parse_cidr`] refuses, naming it. One map probe per prefix length in use.

use crate::cidr::{canonical_ip, parse_cidr, show_cidr, unmapped};
use core::fmt;
use core::marker::PhantomData;
use core::net::IpAddr;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::collections::BTreeMap;

/// A longest-prefix map from address blocks to values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CidrMap<T> {
    v4: BTreeMap<u8, BTreeMap<Ipv4Net, T>>,
    v6: BTreeMap<u8, BTreeMap<Ipv6Net, T>>,
}

impl<T> CidrMap<T> {
    /// A map without entries.
    pub const fn new() -> Self {
        CidrMap { v4: BTreeMap::new(), v6: BTreeMap::new() }
    }

    /// Sets the value of a block; gives back the one it had. A mapped IPv6 block is the IPv4 block.
    pub fn insert(&mut self, block: IpNet, value: T) -> Option<T> {
        match unmapped(block).trunc() {
            IpNet::V4(net) => self.v4.entry(net.prefix_len()).or_default().insert(net, value),
            IpNet::V6(net) => self.v6.entry(net.prefix_len()).or_default().insert(net, value),
        }
    }

    /// Takes a block out; gives back the value it had.
    pub fn remove(&mut self, block: IpNet) -> Option<T> {
        match unmapped(block).trunc() {
            IpNet::V4(net) => self.v4.get_mut(&net.prefix_len())?.remove(&net),
            IpNet::V6(net) => self.v6.get_mut(&net.prefix_len())?.remove(&net),
        }
    }

    /// The value of the longest block `ip` lies in.
    pub fn get(&self, ip: IpAddr) -> Option<&T> {
        match canonical_ip(ip) {
            IpAddr::V4(ip) => {
                self.v4.iter().rev().find_map(|(len, nets)| nets.get(&Ipv4Net::new(ip, *len).ok()?.trunc()))
            }
            IpAddr::V6(ip) => {
                self.v6.iter().rev().find_map(|(len, nets)| nets.get(&Ipv6Net::new(ip, *len).ok()?.trunc()))
            }
        }
    }

    /// Every block and its value: IPv4 first, shortest prefix first.
    pub fn iter(&self) -> impl Iterator<Item = (IpNet, &T)> {
        let v4 = self.v4.values().flatten().map(|(net, value)| (IpNet::V4(*net), value));
        let v6 = self.v6.values().flatten().map(|(net, value)| (IpNet::V6(*net), value));
        v4.chain(v6)
    }

    /// True when there is no entry.
    pub fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }
}

impl<T> Default for CidrMap<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Serialize> Serialize for CidrMap<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (block, value) in self.iter() {
            map.serialize_entry(&show_cidr(block), value)?;
        }
        map.end()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for CidrMap<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(BlocksVisitor(PhantomData))
    }
}

struct BlocksVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> de::Visitor<'de> for BlocksVisitor<T> {
    type Value = CidrMap<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table whose keys are IP addresses and CIDR blocks")
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<CidrMap<T>, A::Error> {
        let mut out = CidrMap::new();
        while let Some(key) = map.next_key::<String>()? {
            let block = parse_cidr(&key).map_err(de::Error::custom)?;
            if out.insert(block, map.next_value()?).is_some() {
                return Err(de::Error::custom(format!("block {key:?} is given twice: expected each block once")));
            }
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> CidrMap<u8> {
        let mut map = CidrMap::new();
        for (block, value) in [("0.0.0.0/0", 0), ("10.0.0.0/8", 8), ("10.1.0.0/16", 16), ("10.1.2.3", 32), ("::/0", 60)]
        {
            assert_eq!(map.insert(parse_cidr(block).unwrap(), value), None);
        }
        map
    }

    #[test]
    fn longest_prefix_wins() {
        for (ip, want) in [
            ("10.1.2.3", 32),
            ("10.1.2.4", 16),
            ("10.2.0.1", 8),
            ("192.0.2.1", 0),
            ("::9", 60),
            ("::ffff:10.1.2.3", 32),
        ] {
            assert_eq!(sample().get(ip.parse().unwrap()), Some(&want), "{ip}");
        }
        assert_eq!(CidrMap::<u8>::new().get("::1".parse().unwrap()), None);
    }

    #[test]
    fn lists_and_writes_every_block() {
        assert_eq!(sample().iter().count(), 5);
        assert_eq!(
            serde_json::to_string(&sample()).unwrap(),
            r#"{"0.0.0.0/0":0,"10.0.0.0/8":8,"10.1.0.0/16":16,"10.1.2.3":32,"::/0":60}"#
        );
    }
}
