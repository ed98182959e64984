//! Ways out through proxies that answer as the test wishes: what they are sent, what is made of their answers, and
//! what a time limit says it cut short.

use net::dial::{Way, connect};
use net::dns::{MxCache, MxCacheLimits};
use net::proxy::{Protocol, Proxy};
use route::{BoxFuture, DnsError, IpAnswer, IpStrategy, MxAnswer, Resolver};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[tokio::test]
async fn haproxy_gets_its_header_before_anything_else_and_from_where_it_was_told() {
    let (proxy, listener) = haproxy("192.0.2.9").await;
    let way = Way { from: Some(ip("127.0.0.5")), proxy: Some(proxy) };
    let server = async {
        let (mut stream, peer) = listener.accept().await.unwrap();
        let mut header = [0; 28];
        stream.read_exact(&mut header).await.unwrap();
        stream.write_all(b"220").await.unwrap();
        (header, peer.ip())
    };
    let names = no_names();
    let (dialled, (header, peer)) = tokio::join!(connect(to(), &way, &names, PATIENCE), server);
    let mut dialled = dialled.unwrap();
    assert_eq!(header[..12], *b"\r\n\r\n\0\r\nQUIT\n");
    assert_eq!(header[12..], [0x21, 0x11, 0, 12, 192, 0, 2, 9, 198, 51, 100, 25, 0, 0, 0, 25]);
    assert_eq!(peer, ip("127.0.0.5"), "source_address is where the proxy is reached from");
    assert_eq!(dialled.address.to_string(), "192.0.2.9:0");
    let mut greeting = [0; 3];
    dialled.stream.read_exact(&mut greeting).await.unwrap();
    assert_eq!(greeting, *b"220");
}

#[tokio::test]
async fn socks5_with_a_source_binds_first_and_believes_the_better_answer() {
    const BIND: &[u8] = &[5, 2, 0, 1, 192, 0, 2, 9, 0, 0];
    const CONNECT: &[u8] = &[5, 1, 0, 1, 198, 51, 100, 25, 0, 25];
    for (answer, address) in [
        (&b"\x05\0\0\x01\xc0\0\x02\x0a\x20\0"[..], "192.0.2.10:8192"),
        (&b"\x05\0\0\x01\0\0\0\0\0\0"[..], "192.0.2.9:4096"),
        (&b"\x05\0\0\x03\x05out\n1\x20\0"[..], "out\\n1:8192"),
    ] {
        let (proxy, listener) = socks5(Some("192.0.2.9")).await;
        let way = Way { from: None, proxy: Some(proxy) };
        let script: Script<'_> =
            &[(b"\x05\x01\0", b"\x05\0"), (BIND, b"\x05\0\0\x01\xc0\0\x02\x09\x10\0"), (CONNECT, answer)];
        let names = no_names();
        let (dialled, _stream) = tokio::join!(connect(to(), &way, &names, PATIENCE), play(&listener, script));
        assert_eq!(dialled.unwrap().address.to_string(), address);
    }
}

#[tokio::test]
async fn without_a_source_socks5_only_connects() {
    let (proxy, listener) = socks5(None).await;
    let way = Way { from: None, proxy: Some(proxy) };
    let script: Script<'_> = &[
        (b"\x05\x01\0", b"\x05\0"),
        (b"\x05\x01\0\x01\xc6\x33\x64\x19\0\x19", b"\x05\0\0\x04\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\x10\0"),
    ];
    let names = no_names();
    let (dialled, _stream) = tokio::join!(connect(to(), &way, &names, PATIENCE), play(&listener, script));
    assert_eq!(dialled.unwrap().address.to_string(), "[2001:db8::1]:4096");
}

#[tokio::test]
async fn the_time_limit_covers_every_step_and_says_which_it_cut_short() {
    // Until it is asked to connect to the host, a proxy has nobody to wait for.
    let steps: [(Script<'_>, &str, bool); 3] = [
        (&[], "greet", true),
        (&[(b"\x05\x01\0", b"\x05\0")], "BIND 192.0.2.9", true),
        (
            &[(b"\x05\x01\0", b"\x05\0"), (b"\x05\x02\0\x01\xc0\0\x02\x09\0\0", b"\x05\0\0\x01\xc0\0\x02\x09\x10\0")],
            "CONNECT 198.51.100.25:25",
            false,
        ),
    ];
    for (script, step, is_at_proxy) in steps {
        let (proxy, listener) = socks5(Some("192.0.2.9")).await;
        let expected = format!("{proxy}: {step}: no answer within {SHORT:?}");
        let way = Way { from: None, proxy: Some(proxy) };
        let names = no_names();
        let (dialled, _stream) = tokio::join!(connect(to(), &way, &names, SHORT), play(&listener, script));
        let error = dialled.unwrap_err();
        assert_eq!((error.to_string(), error.is_at_proxy()), (expected, is_at_proxy));
    }
    let proxy = Proxy { server: "silent.test:1".parse().unwrap(), protocol: bind("192.0.2.9") };
    let way = Way { from: None, proxy: Some(proxy) };
    let error = connect(to(), &way, &names(Names::Silent), SHORT).await.unwrap_err();
    let expected = format!("HAProxy proxy silent.test:1: resolve its name: no answer within {SHORT:?}");
    assert_eq!((error.to_string(), error.is_at_proxy()), (expected, true));
    let (nobody, _) = listening(bind("192.0.2.9")).await;
    let nobody = nobody.server.socket_addr().unwrap();
    let error = connect(nobody, &Way::default(), &no_names(), PATIENCE).await.unwrap_err();
    assert!(!error.is_at_proxy(), "there is none: {error}");
}

#[tokio::test]
async fn a_name_is_looked_up_and_its_addresses_are_tried_in_order() {
    let (proxy, listener) = haproxy("192.0.2.9").await;
    let server = format!("proxy.test:{}", proxy.server.port).parse().unwrap();
    // Nobody listens on 127.0.0.2; the IPv6 address is passed over when our own is IPv4.
    let known = || names(Names::Known(vec![ip("2001:db8::1"), ip("127.0.0.2"), ip("127.0.0.1")]));
    let way = Way { from: Some(ip("127.0.0.5")), proxy: Some(Proxy { server, ..proxy.clone() }) };
    connect(to(), &way, &known(), PATIENCE).await.unwrap();
    assert_eq!(listener.accept().await.unwrap().1.ip(), ip("127.0.0.5"));

    for (known, text) in [
        (
            Names::Known(vec![ip("2001:db8::1")]),
            "connect: it has no address that can be reached from source_address 127.0.0.5",
        ),
        (Names::Unknown, "resolve its name: the name does not exist (NXDOMAIN)"),
    ] {
        let error = connect(to(), &way, &names(known), PATIENCE).await.unwrap_err();
        assert_eq!(error.to_string(), format!("{}: {text}", way.proxy.as_ref().unwrap()));
    }
}

#[tokio::test]
async fn sixteen_addresses_of_a_proxy_are_tried_and_no_more() {
    let (proxy, _listener) = haproxy("192.0.2.9").await;
    let server = format!("proxy.test:{}", proxy.server.port).parse().unwrap();
    let way = Way { from: None, proxy: Some(Proxy { server, ..proxy }) };
    for (dead, is_reached) in [(15, true), (16, false)] {
        let mut known = vec![ip("127.0.0.2"); dead];
        known.push(ip("127.0.0.1"));
        let dialled = connect(to(), &way, &names(Names::Known(known)), PATIENCE).await;
        assert_eq!(dialled.is_ok(), is_reached, "{dead}: {dialled:?}");
    }
}

#[tokio::test]
async fn a_mix_of_families_is_refused_before_anybody_is_asked() {
    for (protocol, to, text) in [
        (bind("2001:db8::9"), "198.51.100.25:25", "cannot connect from 2001:db8::9 to 198.51.100.25:25"),
        (bind("192.0.2.9"), "[2001:db8::25]:25", "cannot connect from 192.0.2.9 to [2001:db8::25]:25"),
        (
            Protocol::Socks5 { source: Some(ip("192.0.2.9")), credentials: None },
            "[2001:db8::25]:25",
            "cannot connect from 192.0.2.9 to [2001:db8::25]:25",
        ),
    ] {
        let proxy = Proxy { server: "unasked.test:1".parse().unwrap(), protocol };
        let expected = format!("{proxy}: {text}: the one is IPv4, the other IPv6");
        let way = Way { from: None, proxy: Some(proxy) };
        let error = connect(to.parse().unwrap(), &way, &names(Names::Silent), PATIENCE).await.unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

/// What is read, and what is answered to it.
type Script<'a> = &'a [(&'a [u8], &'a [u8])];

/// Accepts one client and goes through the script; then the stream stays open and silent.
async fn play(listener: &TcpListener, script: Script<'_>) -> TcpStream {
    let (mut stream, _) = listener.accept().await.unwrap();
    for (expected, answer) in script {
        let mut said = vec![0; expected.len()];
        stream.read_exact(&mut said).await.unwrap();
        assert_eq!(said, *expected);
        stream.write_all(answer).await.unwrap();
    }
    stream
}

/// A listener, and the proxy it is to be taken for.
async fn haproxy(source: &str) -> (Proxy, TcpListener) {
    listening(bind(source)).await
}

async fn socks5(source: Option<&str>) -> (Proxy, TcpListener) {
    listening(Protocol::Socks5 { source: source.map(ip), credentials: None }).await
}

async fn listening(protocol: Protocol) -> (Proxy, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = listener.local_addr().unwrap().to_string().parse().unwrap();
    (Proxy { server, protocol }, listener)
}

fn bind(source: &str) -> Protocol {
    Protocol::HaProxy { source: ip(source) }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A mail server that only proxies are asked to reach.
fn to() -> SocketAddr {
    "198.51.100.25:25".parse().unwrap()
}

/// What the resolver knows of the one name it is asked for.
enum Names {
    Known(Vec<IpAddr>),
    Unknown,
    Silent,
}

impl Resolver for Names {
    fn mx<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<MxAnswer, DnsError>> {
        Box::pin(std::future::ready(Err(DnsError::NxDomain)))
    }

    fn ip<'a>(&'a self, _: &'a str, _: IpStrategy) -> BoxFuture<'a, Result<IpAnswer, DnsError>> {
        match self {
            Names::Known(addresses) => {
                let answer = IpAnswer { addresses: addresses.clone(), ttl_secs: 60, ..Default::default() };
                Box::pin(std::future::ready(Ok(answer)))
            }
            Names::Unknown => Box::pin(std::future::ready(Err(DnsError::NxDomain))),
            Names::Silent => Box::pin(std::future::pending()),
        }
    }
}

fn names(names: Names) -> MxCache {
    MxCache::new(Arc::new(names), MxCacheLimits::default())
}

fn no_names() -> MxCache {
    names(Names::Unknown)
}

const PATIENCE: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_secs(1);
