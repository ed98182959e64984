//! Octets against RFC 1928 and RFC 1929, replies cut at every place, and servers that say anything at all.

use super::*;
use proptest::prelude::*;
use tokio::io::{DuplexStream, duplex};

#[test]
fn the_octets_we_send() {
    assert_eq!(greeting(false), [5, 1, 0]);
    assert_eq!(greeting(true), [5, 2, 0, 2]);
    assert_eq!(login(&credentials("scott", "tiger")), b"\x01\x05scott\x05tiger");
    assert_eq!(request(Command::Connect, "192.0.2.1:25".parse().unwrap()), [5, 1, 0, 1, 192, 0, 2, 1, 0, 25]);
    let bind = request(Command::Bind, "[2001:db8::1]:0".parse().unwrap());
    assert_eq!(bind, [5, 2, 0, 4, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0]);
}

#[test]
fn credentials_have_1_to_255_octets() {
    let long = |length: usize| "x".repeat(length);
    assert!(Credentials::new(long(255), long(255).into_bytes()).is_ok());
    assert_eq!(login(&credentials(&long(255), &long(255))).len(), 1 + 2 * 256);
    for (user, password, text) in [
        (long(256), long(1), "user name has 256 octets; expected 1 to 255 (RFC 1929)"),
        (long(1), long(256), "password has 256 octets; expected 1 to 255 (RFC 1929)"),
        (long(0), long(1), "user name has 0 octets; expected 1 to 255 (RFC 1929)"),
        (long(1), long(0), "password has 0 octets; expected 1 to 255 (RFC 1929)"),
    ] {
        assert_eq!(Credentials::new(user, password.into_bytes()).unwrap_err().to_string(), text);
    }
}

#[test]
fn debug_hides_the_password() {
    assert_eq!(format!("{:?}", credentials("scott", "tiger")), r#"Credentials { user: "scott", .. }"#);
}

#[test]
fn the_methods_a_server_may_choose() {
    assert_eq!(method([5, 0], true).unwrap(), Method::None);
    assert_eq!(method([5, 2], true).unwrap(), Method::Password);
    for (answer, has_credentials, text) in [
        ([5, 2], false, "chose method 2 of authentication, which was not offered"),
        ([5, 1], true, "chose method 1 of authentication, which was not offered"),
        ([5, 255], false, "no acceptable method of authentication (code 255); offered: none"),
        ([5, 255], true, "no acceptable method of authentication (code 255); offered: none, user and password"),
        ([4, 0], true, "answered with version 4, not 5: not a SOCKS5 server"),
    ] {
        assert_eq!(method(answer, has_credentials).unwrap_err().to_string(), text);
    }
    assert!(login_status([1, 0]).is_ok());
    assert_eq!(login_status([1, 7]).unwrap_err().to_string(), "user name or password refused (status 7)");
    assert_eq!(login_status([5, 0]).unwrap_err().to_string(), "answered the login with version 5, not 1 (RFC 1929)");
}

#[test]
fn every_refusal_has_words() {
    let words = [
        "general SOCKS server failure",
        "connection not allowed by ruleset",
        "network unreachable",
        "host unreachable",
        "connection refused",
        "TTL expired",
        "command not supported",
        "address type not supported",
        "refused for a reason that has no name",
    ];
    for (code, words) in (1u8..).zip(words) {
        assert_eq!(reply(&[5, code, 0, 1]).unwrap_err().to_string(), format!("{words} (code {code})"));
    }
    assert_eq!(reply(&[5, 0, 0, 2]).unwrap_err().to_string(), "address type 2 in the reply is unknown");
    assert_eq!(reply(b"HTTP/1.1").unwrap_err().to_string(), "answered with version 72, not 5: not a SOCKS5 server");
}

#[tokio::test]
async fn a_step_takes_its_answer_and_not_an_octet_more() {
    let (mut ours, mut theirs) = duplex(1024);
    theirs.write_all(b"\x05\x02\x01\x00\x05\x00\x00\x01\xc0\x00\x02\x09\x10\x00220 hello\r\n").await.unwrap();
    assert_eq!(greet(&mut ours, true).await.unwrap(), Method::Password);
    log_in(&mut ours, &credentials("scott", "tiger")).await.unwrap();
    let bound = ask(&mut ours, Command::Connect, "198.51.100.25:25".parse().unwrap()).await.unwrap();
    assert_eq!(bound.to_string(), "192.0.2.9:4096");
    assert_eq!(rest(ours, theirs).await, b"220 hello\r\n");
}

#[tokio::test]
async fn a_server_that_hangs_up_is_told_from_one_that_refuses() {
    for said in [&b""[..], b"\x05", b"\x05\x00\x00", b"\x05\x00\x00\x01\x7f"] {
        let (mut ours, mut theirs) = duplex(1024);
        theirs.write_all(said).await.unwrap();
        theirs.shutdown().await.unwrap();
        let fault = ask(&mut ours, Command::Bind, "127.0.0.1:0".parse().unwrap()).await.unwrap_err();
        assert_eq!(fault.to_string(), "the proxy closed the connection", "{said:?}");
    }
}

proptest! {
    #[test]
    fn a_reply_is_read_at_any_cut(address in bound(), after in proptest::collection::vec(any::<u8>(), 0..40)) {
        let octets = reply_octets(&address);
        for cut in 0..octets.len() {
            let Ok(Parsed::Need(needed)) = reply(&octets[..cut]) else { panic!("cut at {cut}") };
            prop_assert!(cut < needed && needed <= octets.len(), "cut at {}: {}", cut, needed);
        }
        prop_assert_eq!(reply(&octets).unwrap(), Parsed::Bound(address.clone()));
        prop_assert_eq!(reply(&[octets, after].concat()).unwrap(), Parsed::Bound(address));
    }

    #[test]
    fn no_octets_break_the_reader(octets in proptest::collection::vec(any::<u8>(), 0..300), is_success in any::<bool>()) {
        let octets = if is_success { [&[5, 0, 0][..], &octets].concat() } else { octets };
        if let Ok(Parsed::Need(needed)) = reply(&octets) {
            prop_assert!(octets.len() < needed && needed <= REPLY_BYTES_MAX);
        }
    }
}

fn credentials(user: &str, password: &str) -> Credentials {
    Credentials::new(user.to_owned(), password.as_bytes().to_vec()).unwrap()
}

/// What is left on the stream.
async fn rest(mut ours: DuplexStream, theirs: DuplexStream) -> Vec<u8> {
    drop(theirs);
    let mut rest = Vec::new();
    ours.read_to_end(&mut rest).await.unwrap();
    rest
}

fn bound() -> impl Strategy<Value = HostPort> {
    let v4 = any::<u32>().prop_map(|bits| Ipv4Addr::from_bits(bits).to_string());
    let v6 = any::<u128>().prop_map(|bits| Ipv6Addr::from_bits(bits).to_string());
    let host = prop_oneof![v4, v6, "[a-z.]{0,255}"];
    (host, any::<u16>()).prop_map(|(host, port)| HostPort { host, port })
}

/// A success reply, written from section 6.
fn reply_octets(bound: &HostPort) -> Vec<u8> {
    let mut octets = vec![5, 0, 0];
    match bound.host.parse::<IpAddr>() {
        Ok(IpAddr::V4(ip)) => octets.extend([&[1][..], &ip.octets()].concat()),
        Ok(IpAddr::V6(ip)) => octets.extend([&[4][..], &ip.octets()].concat()),
        Err(_) => octets.extend([&[3, bound.host.len() as u8][..], bound.host.as_bytes()].concat()),
    }
    octets.extend(bound.port.to_be_bytes());
    octets
}
