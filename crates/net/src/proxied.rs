//! The PROXY protocol as a server reads it: for whom a proxy made the connection (versions 1 and 2).
//!
//! In: a connection whose first octets are a header. Out: the ends the header names, or nothing when the proxy speaks for
//! itself; what follows the header is left to be read. The format is HAProxy's `doc/proxy-protocol.txt`, section 2. Fails when
//! the header is wrong, longer than it may be, or not there.

use crate::proxy_protocol::{FAMILY_TCP4, FAMILY_TCP6, SIGNATURE};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use tokio::io::{AsyncRead, AsyncReadExt};

/// The client, and the address it meant.
pub type Ends = (SocketAddr, SocketAddr);

/// Reads the header off the connection; `None`: the ends are those of the connection itself.
///
/// # Errors
/// `InvalidData` for what is no header; otherwise the socket's.
pub async fn read_header(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Ends>> {
    let mut start = [0; SIGNATURE.len()];
    stream.read_exact(&mut start).await?;
    if start == SIGNATURE {
        return read_version_2(stream).await;
    }
    if !start.starts_with(b"PROXY ") {
        return Err(wrong("neither version 1 nor 2"));
    }
    let mut line = start.to_vec();
    while !line.ends_with(b"\r\n") {
        if line.len() >= LINE_BYTES_MAX {
            return Err(wrong("a line that does not end"));
        }
        line.push(stream.read_u8().await?);
    }
    version_1(&line).ok_or_else(|| wrong("a line that names no two ends"))
}

/// `PROXY TCP4 source destination port port`; `UNKNOWN` says nothing.
fn version_1(line: &[u8]) -> Option<Option<Ends>> {
    let line = std::str::from_utf8(line).ok()?.trim_end();
    let words: Vec<&str> = line.split(' ').collect();
    if words.get(1) == Some(&"UNKNOWN") {
        return Some(None);
    }
    let [_, family, source, destination, from, to] = words[..] else { return None };
    let (source, destination): (IpAddr, IpAddr) = (source.parse().ok()?, destination.parse().ok()?);
    let is_right = match family {
        "TCP4" => source.is_ipv4() && destination.is_ipv4(),
        "TCP6" => source.is_ipv6() && destination.is_ipv6(),
        _ => false,
    };
    let port = |text: &str| text.parse::<u16>().ok().filter(|_| text == "0" || !text.starts_with(['0', '+']));
    let ends = (SocketAddr::new(source, port(from)?), SocketAddr::new(destination, port(to)?));
    is_right.then_some(Some(ends))
}

async fn read_version_2(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Ends>> {
    let (command, family, length) = (stream.read_u8().await?, stream.read_u8().await?, stream.read_u16().await?);
    if usize::from(length) > BLOCK_BYTES_MAX {
        return Err(wrong("a block that is too long"));
    }
    let mut block = vec![0; usize::from(length)];
    stream.read_exact(&mut block).await?;
    match command {
        VERSION_2_LOCAL => Ok(None),
        VERSION_2_PROXY => ends(family, &block).ok_or_else(|| wrong("a block without addresses of TCP")),
        _ => Err(wrong("another version or command")),
    }
}

/// Source and destination, then both ports; what stands behind them is not looked at.
fn ends(family: u8, block: &[u8]) -> Option<Option<Ends>> {
    let port = |at: usize| Some(u16::from_be_bytes(*block.get(at..)?.first_chunk()?));
    let (source, destination, ports): (IpAddr, IpAddr, usize) = match family {
        FAMILY_TCP4 => {
            let of = |at: usize| Some(Ipv4Addr::from(*block.get(at..)?.first_chunk::<4>()?).into());
            (of(0)?, of(4)?, 8)
        }
        FAMILY_TCP6 => {
            let of = |at: usize| Some(Ipv6Addr::from(*block.get(at..)?.first_chunk::<16>()?).into());
            (of(0)?, of(16)?, 32)
        }
        UNSPECIFIED => return Some(None),
        _ => return None,
    };
    Some(Some((SocketAddr::new(source, port(ports)?), SocketAddr::new(destination, port(ports + 2)?))))
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("no header of the PROXY protocol: {what}"))
}

/// The longest line of version 1 (its section 2.1).
const LINE_BYTES_MAX: usize = 107;
/// More than addresses and all that is known to stand behind them.
const BLOCK_BYTES_MAX: usize = 4096;
/// Version 2; the proxy speaks for itself.
const VERSION_2_LOCAL: u8 = 0x20;
/// Version 2; it speaks for a client.
const VERSION_2_PROXY: u8 = 0x21;
/// No family that could be named.
const UNSPECIFIED: u8 = 0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy_protocol::header;

    /// What is read, and what is left.
    fn read(octets: &[u8]) -> (io::Result<Option<Ends>>, usize) {
        let mut rest = octets;
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let found = runtime.block_on(read_header(&mut rest));
        (found, rest.len())
    }

    fn ends_of(client: &str, server: &str) -> Option<Ends> {
        Some((client.parse().expect("an address"), server.parse().expect("an address")))
    }

    #[test]
    fn both_versions_name_the_ends_and_leave_what_follows() {
        let v4 = ends_of("192.0.2.9:1234", "198.51.100.25:25");
        let v6 = ends_of("[2001:db8::9]:1234", "[2001:db8::25]:25");
        let binary = |ends: Option<Ends>| ends.and_then(|(from, to)| header(from, to)).expect("one family");
        for (octets, expected) in [
            (b"PROXY TCP4 192.0.2.9 198.51.100.25 1234 25\r\n".to_vec(), v4),
            (b"PROXY TCP6 2001:db8::9 2001:db8::25 1234 25\r\n".to_vec(), v6),
            (b"PROXY UNKNOWN\r\n".to_vec(), None),
            (b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n".to_vec(), None),
            (binary(v4), v4),
            (binary(v6), v6),
            ([&SIGNATURE[..], &[0x20, 0, 0, 0]].concat(), None),
            ([&SIGNATURE[..], &[0x21, 0, 0, 3, 1, 2, 3]].concat(), None),
        ] {
            let (found, left) = read(&[&octets[..], b"EHLO x\r\n"].concat());
            assert_eq!((found.expect("a header"), left), (expected, 8), "{octets:?}");
        }
        // What stands behind the addresses belongs to the header.
        let mut longer = binary(v4);
        longer[15] += 3;
        let (found, left) = read(&[&longer[..], &[4, 0, 0], b"EHLO x\r\n"].concat());
        assert_eq!((found.expect("a header"), left), (v4, 8));
    }

    #[test]
    fn what_is_no_header_is_refused() {
        let long = [&b"PROXY TCP4 "[..], &[b'1'; 200]].concat();
        for octets in [
            &b"EHLO client.test\r\n"[..],
            b"PROXY TCP4 192.0.2.9 2001:db8::1 1 2\r\n",
            b"PROXY TCP4 192.0.2.9 198.51.100.25 70000 25\r\n",
            b"PROXY TCP4 192.0.2.9 198.51.100.25 025 25\r\n",
            b"PROXY TCP4 192.0.2.9 198.51.100.25 25\r\n",
            b"PROXY UDP4 192.0.2.9 198.51.100.25 1 25\r\n",
            &long,
            b"\r\n\r\n\0\r\nQUIT\n\x31\x11\x00\x0c\xc0\x00\x02\x09\xc6\x33\x64\x19\x00\x00\x00\x19",
            b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x04\xc0\x00\x02\x09",
            b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff",
            b"\r\n\r\n\0\r\nQUIT\n\x21\x31\x00\x00",
        ] {
            let error = read(octets).0.expect_err("refused");
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{:?}: {error}", String::from_utf8_lossy(octets));
        }
        assert_eq!(read(b"PROXY TC").0.expect_err("cut").kind(), io::ErrorKind::UnexpectedEof);
    }
}
