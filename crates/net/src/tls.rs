//! The server's side of TLS, over rustls and aws-lc-rs, and why TLS fails on either side.
//!
//! A listener without a certificate gets one made up at start, as KumoMTA does: opportunistic
//! senders do not verify it. The client's side is in `tls_client`.

pub use crate::tls_client::Connectors;
use crate::tls_client::{CERTIFICATE, KEY, load};
use config::KeySource;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::sync::Arc;
use thiserror::Error;
use tokio_rustls::TlsAcceptor;

/// Why TLS could not be set up.
#[derive(Debug, Error)]
pub enum TlsError {
    /// The PEM of a certificate chain holds none.
    #[error("tls_certificate: no certificate found in the PEM data")]
    NoCertificate,
    /// A PEM that does not parse.
    #[error("{field}: {cause}")]
    Pem {
        /// `tls_certificate` or `tls_private_key`.
        field: &'static str,
        /// What the parser said.
        cause: String,
    },
    /// One half of a client certificate.
    #[error("tls_certificate and tls_private_key: expected both or neither")]
    Unpaired,
    /// A certificate or key that cannot be read.
    #[error("{field}: {cause}")]
    Read {
        /// `tls_certificate` or `tls_private_key`.
        field: &'static str,
        /// What stood in the way.
        cause: String,
    },
    /// A kind of key source that is not built.
    #[error("{field}: {found} is not supported yet: expected a file name or {{key_data = ...}}")]
    Source {
        /// `tls_certificate` or `tls_private_key`.
        field: &'static str,
        /// The source, without what is secret.
        found: String,
    },
    /// Certificate and key are not one pair, or of a kind the library does not know.
    #[error("tls_certificate and tls_private_key: {0}")]
    Identity(rustls::Error),
    /// Nothing can be offered.
    #[error("rustls_cipher_suites: none of {0} is usable with TLS 1.2 or 1.3")]
    NoSuites(String),
    /// The host's trust roots cannot be used.
    #[error("trust roots: {0}")]
    Roots(String),
    /// Key and certificate do not fit, or the library refuses them.
    #[error("TLS: {0}")]
    Rustls(#[from] rustls::Error),
    /// No certificate could be made up.
    #[error("cannot make a self-signed certificate for `{hostname}`: {cause}")]
    SelfSigned {
        /// For whom.
        hostname: String,
        /// What the library said.
        cause: String,
    },
}

/// The acceptor of a listener: for its certificate and key, or with a made-up certificate for `hostname` when it has neither.
/// Clients who show a certificate must have it from one of `client_ca`; none need show one.
///
/// # Errors
/// They cannot be read, do not fit, or one of the pair is given without the other.
pub fn acceptor_of(
    pair: (Option<&KeySource>, Option<&KeySource>),
    client_ca: Option<&KeySource>,
    hostname: &str,
) -> Result<TlsAcceptor, TlsError> {
    let verifier = match client_ca {
        Some(source) => verifier_of(&load(CLIENT_CA, source)?)?,
        None => WebPkiClientVerifier::no_client_auth(),
    };
    let (chain, key) = match pair {
        (None, None) => self_signed(hostname)?,
        (Some(certificate), Some(key)) => (chain(&load(CERTIFICATE, certificate)?)?, private_key(&load(KEY, key)?)?),
        _ => return Err(TlsError::Unpaired),
    };
    acceptor(chain, key, verifier)
}

/// An acceptor for a PEM certificate chain and key.
pub fn acceptor_from_pem(certificate: &[u8], key: &[u8]) -> Result<TlsAcceptor, TlsError> {
    acceptor(chain(certificate)?, private_key(key)?, WebPkiClientVerifier::no_client_auth())
}

/// An acceptor with a made-up certificate for `hostname`.
pub fn self_signed_acceptor(hostname: &str) -> Result<TlsAcceptor, TlsError> {
    let (chain, key) = self_signed(hostname)?;
    acceptor(chain, key, WebPkiClientVerifier::no_client_auth())
}

/// Who believes clients whose certificates one of a PEM text vouches for, and lets in those who show none.
fn verifier_of(pem: &[u8]) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let wrong = |cause: String| TlsError::Pem { field: CLIENT_CA, cause };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|e| wrong(e.to_string()))?;
        roots.add(certificate).map_err(|e| wrong(e.to_string()))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(aws_lc_rs::default_provider()))
        .allow_unauthenticated()
        .build()
        .map_err(|e| wrong(e.to_string()))
}

fn self_signed(hostname: &str) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let error = |cause: rcgen::Error| TlsError::SelfSigned { hostname: hostname.to_owned(), cause: cause.to_string() };
    let made = rcgen::generate_simple_self_signed(vec![hostname.to_owned()]).map_err(error)?;
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der())
        .map_err(|cause| TlsError::Pem { field: "tls_private_key", cause: cause.to_owned() })?;
    Ok((vec![made.cert.der().clone()], key))
}

/// The certificates of a PEM text, ours first.
pub(crate) fn chain(certificate: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<_, _>>()
        .map_err(|e| TlsError::Pem { field: "tls_certificate", cause: e.to_string() })?;
    match chain.is_empty() {
        true => Err(TlsError::NoCertificate),
        false => Ok(chain),
    }
}

/// The key in a PEM text.
pub(crate) fn private_key(key: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(key).map_err(|e| TlsError::Pem { field: "tls_private_key", cause: e.to_string() })
}

fn acceptor(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    verifier: Arc<dyn ClientCertVerifier>,
) -> Result<TlsAcceptor, TlsError> {
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)?;
    Ok(Arc::new(config).into())
}

const CLIENT_CA: &str = "tls_required_client_ca";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stream;
    use crate::tls_client::{ClientTls, Verification};
    use clock::Instant;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    /// A made-up certificate passes the accepting connector and fails the verifying one.
    #[tokio::test]
    async fn made_up_certificates_are_taken_only_when_asked_to() {
        for (accepting, expect_ok) in [(true, true), (false, false)] {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
            let address = listener.local_addr().expect("bound");
            let server = tokio::spawn(async move {
                let acceptor = self_signed_acceptor("mx.test").expect("made up");
                let (tcp, _) = listener.accept().await.expect("a client");
                let (mut tls, facts) = Stream::Plain(tcp).accept_tls(&acceptor).await?;
                tls.write_all(b"hello").await?;
                tls.shutdown().await?;
                std::io::Result::Ok(facts)
            });
            let verification = if accepting { Verification::Any } else { Verification::Roots };
            let wanted = ClientTls { verification, ..ClientTls::default() };
            let connector = Connectors::new(None).expect("roots").get(Instant::ZERO, &wanted).await.expect("usable");
            let tcp = TcpStream::connect(address).await.expect("listening");
            match Stream::Plain(tcp).connect_tls(&connector, "mx.test").await {
                Ok((mut tls, facts)) => {
                    let mut text = String::new();
                    tls.read_to_string(&mut text).await.expect("hello");
                    assert_eq!((expect_ok, text.as_str()), (true, "hello"));
                    assert_eq!(facts.protocol_version, "TLSv1_3");
                    assert_eq!(facts.peer_subject, ["CN=rcgen self signed cert"]);
                    let served = server.await.expect("joins").expect("served");
                    assert_eq!((served.cipher, served.protocol_version), (facts.cipher, facts.protocol_version));
                    assert_eq!(served.peer_subject, [""; 0], "we showed no certificate");
                }
                Err(error) => assert!(!expect_ok, "{error}"),
            }
        }
    }

    #[test]
    fn faulty_pem_names_its_field() {
        let error = |c: &[u8], k: &[u8]| acceptor_from_pem(c, k).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(error(b"", b"").starts_with("tls_certificate"));
        let made = rcgen::generate_simple_self_signed(vec!["a.test".to_owned()]).expect("made up");
        assert!(error(made.cert.pem().as_bytes(), b"no key").starts_with("tls_private_key"));
        assert!(acceptor_from_pem(made.cert.pem().as_bytes(), made.signing_key.serialize_pem().as_bytes()).is_ok());
    }
}
