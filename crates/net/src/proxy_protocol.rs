//! The PROXY protocol, version 2: tells an HAProxy server for whom a connection is made.
//!
//! In: the address the proxy shall bind and the address it shall reach. Out: the header's octets, or nothing when the
//! two are of different families. The format is HAProxy's `doc/proxy-protocol.txt`, section 2.2: signature, version and
//! command, family and transport, length, then source, destination and both ports in network order.
//!
//! Pure: [`crate::proxy`] sends it. The proxy does not answer; if it refuses, it closes. Version 1, checksums and other
//! TLVs are not written: nothing on the way out needs them.

use std::net::SocketAddr;

/// The header for a connection from `source` to `destination`; `None` when one is IPv4 and the other IPv6.
pub fn header(source: SocketAddr, destination: SocketAddr) -> Option<Vec<u8>> {
    let mut header = Vec::with_capacity(HEADER_BYTES_MAX);
    header.extend_from_slice(&SIGNATURE);
    header.push(VERSION_2_COMMAND_PROXY);
    match (source, destination) {
        (SocketAddr::V4(source), SocketAddr::V4(destination)) => {
            header.extend_from_slice(&[FAMILY_TCP4, 0, ADDRESSES_BYTES_V4]);
            header.extend_from_slice(&source.ip().octets());
            header.extend_from_slice(&destination.ip().octets());
        }
        (SocketAddr::V6(source), SocketAddr::V6(destination)) => {
            header.extend_from_slice(&[FAMILY_TCP6, 0, ADDRESSES_BYTES_V6]);
            header.extend_from_slice(&source.ip().octets());
            header.extend_from_slice(&destination.ip().octets());
        }
        _ => return None,
    }
    header.extend_from_slice(&source.port().to_be_bytes());
    header.extend_from_slice(&destination.port().to_be_bytes());
    Some(header)
}

pub(crate) const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Version 2 in the high half; command PROXY in the low half.
const VERSION_2_COMMAND_PROXY: u8 = 0x21;
/// AF_INET, SOCK_STREAM.
pub(crate) const FAMILY_TCP4: u8 = 0x11;
/// AF_INET6, SOCK_STREAM.
pub(crate) const FAMILY_TCP6: u8 = 0x21;
/// Two addresses and two ports.
const ADDRESSES_BYTES_V4: u8 = 12;
/// Two addresses and two ports.
const ADDRESSES_BYTES_V6: u8 = 36;
/// 16 before the addresses, 36 of them.
const HEADER_BYTES_MAX: usize = 52;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    /// Written out from the document, not from the code.
    #[test]
    fn the_octets_of_both_families() {
        let header = header("192.0.2.9:0".parse().unwrap(), "198.51.100.25:25".parse().unwrap()).unwrap();
        let expected = b"\x0d\x0a\x0d\x0a\x00\x0d\x0a\x51\x55\x49\x54\x0a\x21\x11\x00\x0c\
            \xc0\x00\x02\x09\xc6\x33\x64\x19\x00\x00\x00\x19";
        assert_eq!(header, expected);
        let header = super::header("[2001:db8::9]:0".parse().unwrap(), "[2001:db8::25]:2525".parse().unwrap()).unwrap();
        let expected = b"\x0d\x0a\x0d\x0a\x00\x0d\x0a\x51\x55\x49\x54\x0a\x21\x21\x00\x24\
            \x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x09\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x25\x00\x00\x09\xdd";
        assert_eq!(header, expected);
    }

    #[test]
    fn a_mix_of_families_has_no_header() {
        let (v4, v6) = ("192.0.2.9:0".parse().unwrap(), "[2001:db8::25]:25".parse().unwrap());
        assert_eq!((header(v4, v6), header(v6, v4)), (None, None));
    }

    proptest! {
        #[test]
        fn both_ends_stand_where_a_reader_looks(
            (v4, from_v4, from_v6) in (any::<bool>(), any::<u32>(), any::<u128>()),
            (to_v4, to_v6) in (any::<u32>(), any::<u128>()),
            ports in any::<(u16, u16)>(),
        ) {
            let place = |v4_bits: u32, v6_bits: u128, port| match v4 {
                true => SocketAddr::new(Ipv4Addr::from_bits(v4_bits).into(), port),
                false => SocketAddr::new(Ipv6Addr::from_bits(v6_bits).into(), port),
            };
            let (source, destination) = (place(from_v4, from_v6, ports.0), place(to_v4, to_v6, ports.1));
            let octets = header(source, destination).expect("one family");
            prop_assert_eq!(read(&octets), Some((source, destination)));
            prop_assert!(octets.len() <= HEADER_BYTES_MAX);
        }
    }

    /// A reader as section 2.2 describes it.
    fn read(octets: &[u8]) -> Option<(SocketAddr, SocketAddr)> {
        let rest = octets.strip_prefix(b"\r\n\r\n\0\r\nQUIT\n\x21")?;
        let (family, rest) = rest.split_first()?;
        let (length, rest) = rest.split_first_chunk::<2>()?;
        if usize::from(u16::from_be_bytes(*length)) != rest.len() {
            return None;
        }
        let (addresses, ports) = rest.split_last_chunk::<4>()?;
        let (from, to) = addresses.split_at(addresses.len() / 2);
        let ip = |octets: &[u8]| match family {
            0x11 => Some(std::net::IpAddr::from(<[u8; 4]>::try_from(octets).ok()?)),
            0x21 => Some(std::net::IpAddr::from(<[u8; 16]>::try_from(octets).ok()?)),
            _ => None,
        };
        let port = |high: usize| u16::from_be_bytes([ports[high], ports[high + 1]]);
        Some((SocketAddr::new(ip(from)?, port(0)), SocketAddr::new(ip(to)?, port(2))))
    }
}
