//! A few words with an SMTP server: its greeting, and whether it offers TLS. And what is found where we are to listen.
//!
//! In: an address, and how long all of it may take. Out: facts for `ports`. Can fail: with the reason, in words. Nothing is sent
//! but EHLO and QUIT.

use super::ports::{In, InState, Out, Said, Silence};
use route::{IpStrategy, Resolver};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Greets the server at `at` as `ehlo`.
pub(super) async fn greet(at: SocketAddr, ehlo: &str, within: Duration) -> Result<Said, String> {
    match timeout(within, speak(at, ehlo)).await {
        Ok(said) => said.map_err(|error| format!("{at}: {error}")),
        Err(_) => Err(format!("{at}: no answer within {} s", within.as_secs())),
    }
}

/// Greets whoever takes mail for `domain`: `DOMAIN`, or `IP:PORT`.
pub(super) async fn reach(resolver: &dyn Resolver, domain: &str, ehlo: &str, within: Duration) -> Out {
    let said = match domain.parse() {
        Ok(at) => greet(at, ehlo, within).await.map_err(Silence::Server),
        Err(_) => match exchanger(resolver, domain).await {
            Ok(ip) => greet(SocketAddr::new(ip, SMTP_PORT), ehlo, within).await.map_err(Silence::Server),
            Err(why) => Err(Silence::Name(why)),
        },
    };
    Out { domain: domain.to_owned(), said }
}

/// Looks at the address of a listener of ours.
pub(super) async fn listener(listen: SocketAddr, hostname: &str, within: Duration) -> In {
    let state = match greet(from_here(listen), hostname, within).await {
        Ok(said) => InState::Answers(said),
        Err(why) => match std::net::TcpListener::bind(listen).map_err(|error| (error.kind(), error.to_string())) {
            // Port 0 is whatever is free.
            Ok(_) => InState::Free,
            Err((ErrorKind::AddrInUse, _)) => InState::Taken(format!("another program has the port: {why}")),
            Err((ErrorKind::PermissionDenied, _)) => InState::Forbidden,
            Err((_, error)) => InState::Wrong(error),
        },
    };
    In { listen: listen.to_string(), hostname: hostname.to_owned(), state }
}

/// An address of the best exchanger that has one of the family that is everywhere.
async fn exchanger(resolver: &dyn Resolver, domain: &str) -> Result<IpAddr, String> {
    let mut records = resolver.mx(domain).await.map_err(|error| format!("MX of {domain}: {error}"))?.records;
    records.sort_by_key(|record| record.preference);
    let host = records.first().map_or(domain, |record| record.host.as_str());
    let answer =
        resolver.ip(host, IpStrategy::Ipv4ThenIpv6).await.map_err(|error| format!("address of {host}: {error}"))?;
    answer.addresses.first().copied().ok_or_else(|| format!("{host} has no address"))
}

/// Who listens everywhere is asked over loopback.
fn from_here(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

async fn speak(at: SocketAddr, ehlo: &str) -> io::Result<Said> {
    let mut stream = TcpStream::connect(at).await?;
    let (reader, mut writer) = stream.split();
    // No server has so much to say before there is mail.
    let mut reader = BufReader::new(reader.take(OCTETS_MAX));
    let greeting = reply(&mut reader).await?;
    let last = greeting.last().cloned().unwrap_or_default();
    let mut said = Said { at: at.to_string(), greeting: last, offers_tls: false };
    if said.greeting.starts_with('2') {
        writer.write_all(format!("EHLO {ehlo}\r\n").as_bytes()).await?;
        let lines = reply(&mut reader).await?;
        said.offers_tls =
            lines.iter().any(|line| line.get(4..).is_some_and(|word| word.eq_ignore_ascii_case("STARTTLS")));
    }
    // It has been told enough: whether it hears this makes no difference.
    _ = writer.write_all(b"QUIT\r\n").await;
    Ok(said)
}

async fn reply(reader: &mut (impl AsyncBufReadExt + Unpin)) -> io::Result<Vec<String>> {
    let mut lines = Vec::new();
    loop {
        let mut line = Vec::new();
        if reader.read_until(b'\n', &mut line).await? == 0 {
            return Err(io::Error::new(ErrorKind::UnexpectedEof, "it hung up"));
        }
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        if !line.as_bytes().get(..3).is_some_and(|code| code.iter().all(u8::is_ascii_digit)) {
            return Err(io::Error::new(ErrorKind::InvalidData, format!("no SMTP: {line}")));
        }
        let is_last = line.as_bytes().get(3) != Some(&b'-');
        lines.push(line);
        if is_last {
            return Ok(lines);
        }
    }
}

const SMTP_PORT: u16 = 25;
/// Octets read of one server.
const OCTETS_MAX: u64 = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    /// A server that says these things, each after a line was read, but the first at once.
    async fn server(says: &'static [&'static str]) -> SocketAddr {
        let socket = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let at = socket.local_addr().expect("an address");
        tokio::spawn(async move {
            let (mut stream, _) = socket.accept().await.expect("a client");
            let (reader, mut writer) = stream.split();
            let mut lines = BufReader::new(reader).lines();
            for text in says {
                writer.write_all(text.as_bytes()).await.expect("sent");
                lines.next_line().await.expect("a line");
            }
        });
        at
    }

    #[tokio::test]
    async fn a_greeting_and_an_offer_are_heard() {
        let at = server(&["220-one\r\n220 two ESMTP\r\n", "250-two\r\n250-starttls\r\n250 8BITMIME\r\n"]).await;
        let said = greet(at, "us.test", SOON).await.expect("said");
        assert_eq!((said.greeting.as_str(), said.offers_tls), ("220 two ESMTP", true));
        let at = server(&["220 two\r\n", "250 two\r\n"]).await;
        assert!(!greet(at, "us.test", SOON).await.expect("said").offers_tls);
        let at = server(&["554 go away\r\n"]).await;
        assert_eq!(greet(at, "us.test", SOON).await.expect("said").greeting, "554 go away");
        let at = server(&["SSH-2.0-x\r\n"]).await;
        assert!(greet(at, "us.test", SOON).await.expect_err("no SMTP").contains("no SMTP: SSH-2.0-x"));
    }

    #[tokio::test]
    async fn who_says_nothing_is_not_waited_for() {
        let mute = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let at = mute.local_addr().expect("an address");
        let why = greet(at, "us.test", Duration::from_millis(50)).await.expect_err("mute");
        assert!(why.contains("no answer within"), "{why}");
        let found = listener(at, "us.test", Duration::from_millis(50)).await;
        assert!(matches!(found.state, InState::Taken(_)), "{found:?}");
        drop(mute);
        assert_eq!(listener(at, "us.test", SOON).await.state, InState::Free);
        let elsewhere = "192.0.2.1:25".parse().expect("an address");
        let found = listener(elsewhere, "us.test", Duration::from_millis(50)).await;
        assert!(matches!(found.state, InState::Wrong(_) | InState::Forbidden), "{found:?}");
    }

    const SOON: Duration = Duration::from_secs(10);
}
