//! TLS settings for either side, over rustls and aws-lc-rs.
//!
//! A listener without a certificate gets one made up at start, as KumoMTA does: opportunistic
//! senders do not verify it. Outbound there are two connectors, one that verifies against the
//! host's and Mozilla's roots and one that takes any certificate; which is used is the
//! egress path's decision (`enable_tls`).

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme};
use std::sync::Arc;
use thiserror::Error;
use tokio_rustls::{TlsAcceptor, TlsConnector};

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

/// An acceptor for a PEM certificate chain and key.
pub fn acceptor_from_pem(certificate: &[u8], key: &[u8]) -> Result<TlsAcceptor, TlsError> {
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<_, _>>()
        .map_err(|e| TlsError::Pem { field: "tls_certificate", cause: e.to_string() })?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate);
    }
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|e| TlsError::Pem { field: "tls_private_key", cause: e.to_string() })?;
    acceptor(chain, key)
}

/// An acceptor with a made-up certificate for `hostname`.
pub fn self_signed_acceptor(hostname: &str) -> Result<TlsAcceptor, TlsError> {
    let error = |cause: rcgen::Error| TlsError::SelfSigned { hostname: hostname.to_owned(), cause: cause.to_string() };
    let made = rcgen::generate_simple_self_signed(vec![hostname.to_owned()]).map_err(error)?;
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der())
        .map_err(|cause| TlsError::Pem { field: "tls_private_key", cause: cause.to_owned() })?;
    acceptor(vec![made.cert.der().clone()], key)
}

/// The two ways to be a TLS client.
#[derive(Clone)]
pub struct Connectors {
    /// Verifies name and chain.
    pub verifying: TlsConnector,
    /// Takes any certificate (`OpportunisticInsecure`, `RequiredInsecure`).
    pub accepting: TlsConnector,
}

impl Connectors {
    /// Connectors over the host's trust roots, or Mozilla's when the host has none.
    pub fn new() -> Result<Connectors, TlsError> {
        let mut roots = RootCertStore::empty();
        if let Ok(bundle) = CertificateDer::pem_file_iter(SYSTEM_ROOTS) {
            let (_added, _ignored) = roots.add_parsable_certificates(bundle.filter_map(Result::ok));
        }
        if roots.is_empty() {
            roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        }
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = || ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
        let verifying = builder()?.with_root_certificates(roots).with_no_client_auth();
        let accepting = builder()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AcceptAny(provider.clone())))
            .with_no_client_auth();
        Ok(Connectors { verifying: Arc::new(verifying).into(), accepting: Arc::new(accepting).into() })
    }
}

fn acceptor(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<TlsAcceptor, TlsError> {
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    Ok(Arc::new(config).into())
}

/// Checks signatures, so that a man in the middle must at least hold a key, but no identity.
#[derive(Debug)]
struct AcceptAny(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Where Debian and its kin keep the host's trust roots.
const SYSTEM_ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stream;
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
            let connectors = Connectors::new().expect("roots");
            let connector = if accepting { connectors.accepting } else { connectors.verifying };
            let tcp = TcpStream::connect(address).await.expect("listening");
            match Stream::Plain(tcp).connect_tls(&connector, "mx.test").await {
                Ok((mut tls, facts)) => {
                    let mut text = String::new();
                    tls.read_to_string(&mut text).await.expect("hello");
                    assert_eq!((expect_ok, text.as_str()), (true, "hello"));
                    assert_eq!(facts.protocol_version, "TLSv1_3");
                    assert_eq!(server.await.expect("joins").expect("served"), facts);
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
