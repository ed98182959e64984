//! Where MTA-STS policies come from: the domain's HTTPS server, or the policy script of a test.
//!
//! In:  a domain. Out: its policy. Fails with [`FetchError`]. The server's certificate must be valid for
//! `mta-sts.DOMAIN`, the answer must be 200 with `text/plain`; a redirect is a failure (RFC 8461 section 3.3). Size is
//! bounded by `route::STS_POLICY_BYTES_MAX`, time by the caller. HTTP itself is hyper's.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Request, Response, StatusCode};
use route::{BoxFuture, DnsError, IpStrategy, Resolver, STS_POLICY_BYTES_MAX, StsError, StsFault, StsPolicy};
use rustls_pki_types::ServerName;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use crate::handshake_fault::HandshakeFault;
use crate::http_client::{HttpError, handshake};

/// Gets policies.
pub trait PolicyFetch: Send + Sync {
    /// The policy of `domain`, which is in lower case without a final dot.
    fn fetch<'a>(&'a self, domain: &'a str) -> BoxFuture<'a, Result<StsPolicy, FetchError>>;

    /// When policies do not depend on the network: that of `domain`, or that it has none.
    fn fixed(&self, _domain: &str) -> Option<Option<Arc<StsPolicy>>> {
        None
    }
}

/// Why there is no policy.
#[derive(Debug, Error)]
pub enum FetchError {
    /// The server's address.
    #[error("cannot resolve the policy host: {0}")]
    Dns(#[from] DnsError),
    /// Text that is no host name.
    #[error("the policy host has no usable name")]
    Name,
    /// The server was not reached, or TLS with it failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// HTTP failed.
    #[error("{0}")]
    Http(#[from] HttpError),
    /// Another answer than 200.
    #[error("the server answered {0}; expected 200, redirects are not followed")]
    Status(StatusCode),
    /// Something else than text.
    #[error("the server sent `{0}`; expected text/plain")]
    Type(String),
    /// The content broke off or is too large.
    #[error("the policy could not be read: {0}")]
    Body(String),
    /// What came is no policy.
    #[error("{0}")]
    Policy(#[from] StsError),
    /// The time was up.
    #[error("no policy within {0:?}")]
    TimedOut(Duration),
}

impl FetchError {
    /// As reports about TLS have it.
    pub fn fault(&self) -> StsFault {
        match self {
            FetchError::Policy(_) | FetchError::Type(_) => StsFault::Invalid,
            FetchError::Io(error) if HandshakeFault::of(error).is_about_certificate() => StsFault::WebPki,
            _ => StsFault::Fetch,
        }
    }
}

/// Asks `https://mta-sts.DOMAIN/.well-known/mta-sts.txt`.
pub struct HttpsFetch {
    /// Who tells the server's addresses.
    pub resolver: Arc<dyn Resolver>,
    /// TLS that verifies.
    pub connector: TlsConnector,
    /// 443, but for tests.
    pub port: u16,
}

impl PolicyFetch for HttpsFetch {
    fn fetch<'a>(&'a self, domain: &'a str) -> BoxFuture<'a, Result<StsPolicy, FetchError>> {
        Box::pin(async move {
            let host = format!("mta-sts.{domain}");
            let name = ServerName::try_from(host.clone()).map_err(|_| FetchError::Name)?;
            let tcp = self.connect(&host).await?;
            let tls = self.connector.connect(name, tcp).await?;
            let request = Request::get("/.well-known/mta-sts.txt")
                .header(HOST, host)
                .header(USER_AGENT, "Postrider")
                .body(Full::default())
                .map_err(HttpError::from)?;
            let mut driver = JoinSet::new();
            let mut connection = handshake(&mut driver, tls).await?;
            read(connection.send_request(request).await.map_err(HttpError::from)?).await
        })
    }
}

impl HttpsFetch {
    async fn connect(&self, host: &str) -> Result<TcpStream, FetchError> {
        let answer = self.resolver.ip(host, IpStrategy::Ipv4AndIpv6).await?;
        let mut failure = FetchError::Dns(DnsError::NoData);
        for ip in answer.addresses.into_iter().take(ADDRESSES_TRIED_MAX) {
            let connecting = crate::dial::tcp(SocketAddr::new(ip, self.port), None);
            match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
                Ok(Ok(tcp)) => return Ok(tcp),
                Ok(Err(error)) => failure = error.into(),
                Err(_) => failure = FetchError::TimedOut(CONNECT_TIMEOUT),
            }
        }
        Err(failure)
    }
}

async fn read(response: Response<Incoming>) -> Result<StsPolicy, FetchError> {
    if response.status() != StatusCode::OK {
        return Err(FetchError::Status(response.status()));
    }
    let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = kind.split(';').next().unwrap_or_default().trim();
    if !media_type.eq_ignore_ascii_case("text/plain") {
        return Err(FetchError::Type(kind.chars().take(SHOWN_CHARS_MAX).collect()));
    }
    let body = Limited::new(response.into_body(), STS_POLICY_BYTES_MAX).collect().await;
    let body = body.map_err(|error| FetchError::Body(error.to_string()))?;
    Ok(StsPolicy::parse(&body.to_bytes())?)
}

/// Policies that stand in the script: `kumo.dns.configure_test_mta_sts`.
pub struct TestPolicies(BTreeMap<String, Arc<StsPolicy>>);

impl TestPolicies {
    /// Reads them, by domain. Fails with the domain whose policy is none.
    pub fn new(texts: &BTreeMap<String, String>) -> Result<TestPolicies, (String, StsError)> {
        let read = |(domain, text): (&String, &String)| match StsPolicy::parse(text.as_bytes()) {
            Ok(policy) => Ok((domain.trim_end_matches('.').to_ascii_lowercase(), Arc::new(policy))),
            Err(error) => Err((domain.clone(), error)),
        };
        texts.iter().map(read).collect::<Result<_, _>>().map(TestPolicies)
    }
}

impl PolicyFetch for TestPolicies {
    fn fetch<'a>(&'a self, _domain: &'a str) -> BoxFuture<'a, Result<StsPolicy, FetchError>> {
        Box::pin(std::future::ready(Err(FetchError::Name)))
    }

    fn fixed(&self, domain: &str) -> Option<Option<Arc<StsPolicy>>> {
        Some(self.0.get(domain).cloned())
    }
}

/// Addresses of the policy host that are tried.
const ADDRESSES_TRIED_MAX: usize = 4;
/// For one of them.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How much of a refused value an error shows.
const SHOWN_CHARS_MAX: usize = 64;
