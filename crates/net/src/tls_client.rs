//! The client's side of TLS: one configuration for each set of choices, shared by all sessions that chose alike.
//!
//! Owns [`ClientTls`], what an egress path chose, and [`Connectors`], the bounded memory of configurations made from
//! such choices. In: choices and `now`. Out: a connector. A configuration carries the tickets of past sessions, so
//! sharing it is what makes resumption work; none is shared between choices, so no session is resumed under a
//! weaker check than it was made with. Files are read again after a minute, and an unchanged content keeps its
//! configuration. Fails with the option to mend; nothing that fails is kept.

use crate::dane::{DaneVerifier, TlsaSet};
use crate::tls::TlsError;
use clock::Instant;
use config::{EgressPath, EnableTls, KeySource};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio_rustls::TlsConnector;

/// How to be a TLS client.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientTls {
    /// Which certificates of the server are taken.
    pub verification: Verification,
    /// rustls names of the suites to offer, best first; all when empty.
    pub suites: Vec<&'static str>,
    /// Who we are, for servers that ask.
    pub identity: Option<Identity>,
}

/// Which certificates of a server are taken.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Verification {
    /// Any.
    #[default]
    Any,
    /// One with a chain to the trust roots and the server's name.
    Roots,
    /// One that satisfies the TLSA records of the host.
    Dane(Arc<TlsaSet>),
}

impl Verification {
    /// What `enable_tls` asks for.
    pub fn of(mode: EnableTls) -> Verification {
        match mode {
            EnableTls::Opportunistic | EnableTls::Required => Verification::Roots,
            EnableTls::OpportunisticInsecure | EnableTls::RequiredInsecure | EnableTls::Disabled => Verification::Any,
        }
    }
}

/// A client certificate and its key, PEM.
#[derive(Clone, Debug, PartialEq)]
pub struct Identity {
    /// `tls_certificate`: the chain, ours first.
    pub certificate: KeySource,
    /// `tls_private_key`.
    pub key: KeySource,
}

impl ClientTls {
    /// What `path` chose.
    pub fn of(path: &EgressPath) -> Result<ClientTls, TlsError> {
        let identity = match (&path.tls_certificate, &path.tls_private_key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some(Identity { certificate: certificate.clone(), key: key.clone() }),
            _ => return Err(TlsError::Unpaired),
        };
        Ok(ClientTls {
            verification: Verification::of(path.enable_tls),
            suites: path.rustls_cipher_suites.iter().map(|suite| suite.name()).collect(),
            identity,
        })
    }
}

/// Configurations in use; clones share them.
#[derive(Clone)]
pub struct Connectors(Arc<Shared>);

struct Shared {
    provider: CryptoProvider,
    roots: Arc<RootCertStore>,
    /// Most recently used last; at most [`CONFIGS_MAX`].
    kept: Mutex<Vec<Kept>>,
}

struct Kept {
    wanted: ClientTls,
    pem: Option<Pem>,
    connector: TlsConnector,
    read_at: Instant,
}

/// An [`Identity`] as it was read.
#[derive(Clone, PartialEq, Eq)]
struct Pem {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Connectors {
    /// No configuration yet; trust in the roots of the PEM file `trusted`, else the host's, else Mozilla's.
    pub fn new(trusted: Option<&Path>) -> Result<Connectors, TlsError> {
        let mut roots = RootCertStore::empty();
        if let Ok(bundle) = CertificateDer::pem_file_iter(trusted.unwrap_or(Path::new(SYSTEM_ROOTS))) {
            let (_added, _ignored) = roots.add_parsable_certificates(bundle.filter_map(Result::ok));
        }
        if let (true, Some(file)) = (roots.is_empty(), trusted) {
            return Err(TlsError::Roots(format!("no certificate could be read from `{}`", file.display())));
        }
        if roots.is_empty() {
            roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        }
        let provider = aws_lc_rs::default_provider();
        Ok(Connectors(Arc::new(Shared { provider, roots: Arc::new(roots), kept: Mutex::default() })))
    }

    /// As the system says: trust in the roots of the file that `SSL_CERT_FILE` names, if it does.
    pub fn of_system() -> Result<Connectors, TlsError> {
        Connectors::new(std::env::var_os("SSL_CERT_FILE").as_deref().map(Path::new))
    }

    /// The connector for `wanted`. Waits only for files that have to be read.
    pub async fn get(&self, now: Instant, wanted: &ClientTls) -> Result<TlsConnector, TlsError> {
        if let Some(connector) = self.fresh(now, wanted) {
            return Ok(connector);
        }
        let pem = match wanted.identity.clone() {
            None => None,
            Some(identity) => {
                let reading = tokio::task::spawn_blocking(move || Pem::read(&identity));
                Some(reading.await.map_err(|e| TlsError::Read { field: CERTIFICATE, cause: e.to_string() })??)
            }
        };
        self.keep(now, wanted, pem)
    }

    /// A connector for other things than mail: it verifies, and is nobody in particular.
    pub fn https(&self) -> Result<TlsConnector, TlsError> {
        self.web(false).map(TlsConnector::from)
    }

    /// The same for libraries that connect on their own; `takes_any` takes every certificate.
    pub fn web(&self, takes_any: bool) -> Result<Arc<ClientConfig>, TlsError> {
        let verification = if takes_any { Verification::Any } else { Verification::Roots };
        self.make(&ClientTls { verification, ..ClientTls::default() }, None)
    }

    /// The same for a server of our own: trust in the roots of a PEM text instead, and a certificate and key to show, also PEM.
    pub fn private(
        &self,
        roots: Option<&[u8]>,
        identity: Option<(&[u8], &[u8])>,
    ) -> Result<Arc<ClientConfig>, TlsError> {
        let trusting = roots.map(Connectors::trusting).transpose()?;
        let pem = identity.map(|(certificate, key)| Pem { certificate: certificate.to_vec(), key: key.to_vec() });
        let wanted = ClientTls { verification: Verification::Roots, ..ClientTls::default() };
        trusting.as_ref().unwrap_or(self).make(&wanted, pem.as_ref())
    }

    /// Trust in the certificates of a PEM text.
    fn trusting(pem: &[u8]) -> Result<Connectors, TlsError> {
        let mut roots = RootCertStore::empty();
        if let Ok(certificates) = crate::tls::chain(pem) {
            let (_added, _ignored) = roots.add_parsable_certificates(certificates);
        }
        if roots.is_empty() {
            return Err(TlsError::Roots("no certificate could be read from the PEM text given".to_owned()));
        }
        let provider = aws_lc_rs::default_provider();
        Ok(Connectors(Arc::new(Shared { provider, roots: Arc::new(roots), kept: Mutex::default() })))
    }

    /// Whether a server that was let in without a look at its certificates would have been one with [`Verification::Roots`]: for
    /// reports about domains that want to know, and not yet to have anybody turned away.
    ///
    /// # Errors
    /// It would not; the library says why.
    pub fn judge(&self, certificates: &[CertificateDer<'_>], name: &str) -> Result<(), rustls::Error> {
        let Some((own, others)) = certificates.split_first() else {
            return Err(rustls::Error::NoCertificatesPresented);
        };
        let general = |error: String| rustls::Error::General(error);
        let name = ServerName::try_from(name.trim_end_matches('.')).map_err(|error| general(error.to_string()))?;
        let provider = Arc::new(self.0.provider.clone());
        let verifier = WebPkiServerVerifier::builder_with_provider(self.0.roots.clone(), provider)
            .build()
            .map_err(|error| general(error.to_string()))?;
        verifier.verify_server_cert(own, others, &name, &[], UnixTime::now()).map(|_| ())
    }

    /// A kept connector whose files need not be looked at again yet.
    fn fresh(&self, now: Instant, wanted: &ClientTls) -> Option<TlsConnector> {
        let mut kept = self.kept();
        let place = kept.iter().position(|k| k.wanted == *wanted)?;
        if kept[place].pem.is_some() && now.saturating_since(kept[place].read_at) >= READ_AGAIN {
            return None;
        }
        let used = kept.remove(place);
        let connector = used.connector.clone();
        kept.push(used);
        Some(connector)
    }

    /// Keeps a connector for `wanted` and what was read for it: the one there is, when nothing changed.
    fn keep(&self, now: Instant, wanted: &ClientTls, pem: Option<Pem>) -> Result<TlsConnector, TlsError> {
        let mut kept = self.kept();
        let place = kept.iter().position(|k| k.wanted == *wanted);
        let mut entry = match place.map(|place| kept.remove(place)) {
            Some(entry) if entry.pem == pem => entry,
            _ => Kept { wanted: wanted.clone(), connector: self.make(wanted, pem.as_ref())?.into(), pem, read_at: now },
        };
        entry.read_at = now;
        let connector = entry.connector.clone();
        if kept.len() >= CONFIGS_MAX {
            kept.remove(0);
        }
        kept.push(entry);
        Ok(connector)
    }

    fn make(&self, wanted: &ClientTls, pem: Option<&Pem>) -> Result<Arc<ClientConfig>, TlsError> {
        let provider = Arc::new(restricted(&self.0.provider, &wanted.suites)?);
        let verifier: Arc<dyn ServerCertVerifier> = match &wanted.verification {
            Verification::Roots => WebPkiServerVerifier::builder_with_provider(self.0.roots.clone(), provider.clone())
                .build()
                .map_err(|e| TlsError::Roots(e.to_string()))?,
            Verification::Dane(tlsa) => Arc::new(DaneVerifier { tlsa: tlsa.clone(), provider: provider.clone() }),
            Verification::Any => Arc::new(AcceptAny(provider.clone())),
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let config = match pem {
            None => builder.with_no_client_auth(),
            Some(pem) => {
                let (chain, key) = pem.parse()?;
                builder.with_client_auth_cert(chain, key).map_err(TlsError::Identity)?
            }
        };
        Ok(Arc::new(config))
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pem {
    fn read(identity: &Identity) -> Result<Pem, TlsError> {
        Ok(Pem { certificate: load(CERTIFICATE, &identity.certificate)?, key: load(KEY, &identity.key)? })
    }

    fn parse(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
        Ok((crate::tls::chain(&self.certificate)?, crate::tls::private_key(&self.key)?))
    }
}

/// `provider` with only the named suites, in the order named; with all of its own when none is named.
fn restricted(provider: &CryptoProvider, names: &[&str]) -> Result<CryptoProvider, TlsError> {
    if names.is_empty() {
        return Ok(provider.clone());
    }
    let named = |name: &&str| provider.cipher_suites.iter().find(|s| format!("{:?}", s.suite()) == **name).copied();
    let mut suites = Vec::new();
    for suite in names.iter().filter_map(named) {
        if !suites.contains(&suite) {
            suites.push(suite);
        }
    }
    match suites.is_empty() {
        true => Err(TlsError::NoSuites(names.join(", "))),
        false => Ok(CryptoProvider { cipher_suites: suites, ..provider.clone() }),
    }
}

/// What a key source of a policy holds.
pub(crate) fn load(field: &'static str, source: &KeySource) -> Result<Vec<u8>, TlsError> {
    let refuse = |cause: String| TlsError::Read { field, cause };
    let file = match source {
        KeySource::Data(bytes) => return Ok(bytes.clone()),
        KeySource::File(file) => file,
        other => return Err(TlsError::Source { field, found: format!("{other:?}") }),
    };
    let mut content = Vec::new();
    std::fs::File::open(file)
        .and_then(|open| open.take(PEM_BYTES_MAX + 1).read_to_end(&mut content))
        .map_err(|e| refuse(format!("cannot read `{file}`: {e}")))?;
    match content.len() as u64 > PEM_BYTES_MAX {
        true => Err(refuse(format!("`{file}` has more than {PEM_BYTES_MAX} octets"))),
        false => Ok(content),
    }
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
/// Configurations kept at once; each remembers the sessions of up to 256 servers (rustls's default).
const CONFIGS_MAX: usize = 64;
/// After this long files are read again before they are used.
const READ_AGAIN: Duration = Duration::from_secs(60);
/// Longest certificate chain or key.
const PEM_BYTES_MAX: u64 = 1024 * 1024;
pub(crate) const CERTIFICATE: &str = "tls_certificate";
pub(crate) const KEY: &str = "tls_private_key";

#[cfg(test)]
#[path = "tls_client_tests.rs"]
mod tests;
