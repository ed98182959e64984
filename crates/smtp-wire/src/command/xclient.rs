//! XCLIENT: for whom a proxy speaks (an extension of Postfix; the attributes are those KumoMTA knows).
//!
//! In: the text behind the verb. Out: addresses and ports, or the attribute that is wrong. What a proxy does not know it
//! says so: `[UNAVAILABLE]` and `[TEMPUNAVAIL]` are as good as nothing.

use super::CommandError;
use super::params::{once, split, words};
use core::net::{IpAddr, SocketAddr};

/// What a proxy says of the connection it passes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct XClient {
    /// `ADDR=`: of the client.
    pub addr: Option<IpAddr>,
    /// `PORT=`: of the client.
    pub port: Option<u16>,
    /// `DESTADDR=`: to which the client connected.
    pub dest_addr: Option<IpAddr>,
    /// `DESTPORT=`
    pub dest_port: Option<u16>,
}

impl XClient {
    /// The attributes, as EHLO advertises them.
    pub const ATTRIBUTES: &'static str = "ADDR PORT DESTADDR DESTPORT";

    /// From the text behind the verb; at least one attribute.
    ///
    /// # Errors
    /// The attribute that is unknown, repeated or wrong.
    pub fn parse(text: &str) -> Result<XClient, CommandError> {
        let mut said = (None, None, None, None);
        let expected = "XCLIENT with some of ADDR= PORT= DESTADDR= DESTPORT=";
        if text.is_empty() {
            return Err(CommandError::Syntax { expected });
        }
        for word in words(text) {
            let (name, value) = split(word);
            match name.to_ascii_uppercase().as_str() {
                "ADDR" => once(&mut said.0, "ADDR", value, ADDRESS_FORM, address)?,
                "PORT" => once(&mut said.1, "PORT", value, PORT_FORM, port)?,
                "DESTADDR" => once(&mut said.2, "DESTADDR", value, ADDRESS_FORM, address)?,
                "DESTPORT" => once(&mut said.3, "DESTPORT", value, PORT_FORM, port)?,
                other => return Err(CommandError::UnknownParameter(other.to_owned())),
            }
        }
        Ok(XClient {
            addr: said.0.flatten(),
            port: said.1.flatten(),
            dest_addr: said.2.flatten(),
            dest_port: said.3.flatten(),
        })
    }

    /// Client and server as they are now, where these say nothing else.
    pub fn over(&self, peer: SocketAddr, local: SocketAddr) -> (SocketAddr, SocketAddr) {
        let of = |addr: Option<IpAddr>, port: Option<u16>, now: SocketAddr| {
            SocketAddr::new(addr.unwrap_or(now.ip()), port.unwrap_or(now.port()))
        };
        (of(self.addr, self.port, peer), of(self.dest_addr, self.dest_port, local))
    }
}

/// An address, an address behind `IPV6:`, or nothing known.
fn address(value: &str) -> Option<Option<IpAddr>> {
    if is_unknown(value) {
        return Some(None);
    }
    let (prefix, rest) = value.split_at_checked(IPV6.len()).unwrap_or(("", value));
    let text = if prefix.eq_ignore_ascii_case(IPV6) { rest } else { value };
    text.parse().ok().map(Some)
}

fn port(value: &str) -> Option<Option<u16>> {
    if is_unknown(value) {
        return Some(None);
    }
    super::params::decimal(value).and_then(|port| u16::try_from(port).ok()).map(Some)
}

fn is_unknown(value: &str) -> bool {
    value.eq_ignore_ascii_case("[UNAVAILABLE]") || value.eq_ignore_ascii_case("[TEMPUNAVAIL]")
}

const IPV6: &str = "IPV6:";
const ADDRESS_FORM: &str = "an IP address or [UNAVAILABLE]";
const PORT_FORM: &str = "a port or [UNAVAILABLE]";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_proxy_says_takes_the_place_of_what_is_seen() {
        let (peer, local) = ("127.0.0.1:4000".parse().expect("sound"), "127.0.0.1:25".parse().expect("sound"));
        let over = |text: &str| {
            let (peer, local) = XClient::parse(text).expect("sound").over(peer, local);
            (peer.to_string(), local.to_string())
        };
        let both = |peer: &str, local: &str| (peer.to_owned(), local.to_owned());
        assert_eq!(over("ADDR=10.0.0.9 PORT=77"), both("10.0.0.9:77", "127.0.0.1:25"));
        assert_eq!(over("addr=ipv6:2001:db8::1"), both("[2001:db8::1]:4000", "127.0.0.1:25"));
        assert_eq!(over("ADDR=2001:db8::1"), both("[2001:db8::1]:4000", "127.0.0.1:25"));
        assert_eq!(over("DESTADDR=10.0.0.1 DESTPORT=587"), both("127.0.0.1:4000", "10.0.0.1:587"));
        assert_eq!(over("ADDR=[UNAVAILABLE] PORT=[TEMPUNAVAIL]"), both("127.0.0.1:4000", "127.0.0.1:25"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for text in ["ADDR=", "ADDR=host.example", "ADDR=1.2.3", "PORT=65536", "PORT=-1", "DESTPORT=x", "DESTADDR"] {
            let error = XClient::parse(text);
            assert!(matches!(error, Err(CommandError::ParameterValue { .. })), "{text}: {error:?}");
        }
        assert!(matches!(XClient::parse(""), Err(CommandError::Syntax { .. })));
        assert_eq!(XClient::parse("LOGIN=a"), Err(CommandError::UnknownParameter("LOGIN".into())));
        assert_eq!(XClient::parse("PORT=1 port=2"), Err(CommandError::RepeatedParameter("PORT".into())));
    }
}
