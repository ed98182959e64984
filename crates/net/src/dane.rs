//! DANE for SMTP (RFC 7672): does a server's certificate satisfy the TLSA records of its host?
//!
//! In:  TLSA records that DNSSEC vouches for, the names the host may be known by, the certificates of a handshake.
//! Out: yes, or [`DaneError`]. Records that mean nothing here (usages 0 and 1, unknown selectors, digests of a wrong
//! length) are left out when a [`TlsaSet`] is made; whether any is left is the first question a caller asks.
//!
//! DANE-EE(3) looks at the server's own certificate or key and at nothing else: not at names, not at dates (section
//! 3.1.1). DANE-TA(2) needs a chain from the certificate to the anchor the record names, in date, and one of the names.
//! webpki builds chains; the anchor may be in the handshake, in the record, or be a bare key.
//!
//! Deliberately not here: look-ups, and what a failure does to mail.

use aws_lc_rs::digest::{SHA256, SHA512, digest};
use route::TlsaRecord;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs as provider, verify_tls12_signature, verify_tls13_signature};
use rustls::{DigitallySignedStruct, SignatureScheme};
use rustls_pki_types::{CertificateDer, Der, ServerName, TrustAnchor, UnixTime};
use std::sync::Arc;
use thiserror::Error;
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};
use x509_parser::asn1_rs::{FromDer, Sequence};
use x509_parser::certificate::X509Certificate;

/// The records of one host that can be used, and the names its certificate may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsaSet {
    records: Vec<TlsaRecord>,
    names: Vec<String>,
}

/// Why a certificate is not the one DNS speaks of.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DaneError {
    /// No record fits.
    #[error("the certificate matches none of {records} TLSA records")]
    NoMatch {
        /// How many there are.
        records: usize,
    },
    /// The anchor fits, the way to it does not.
    #[error("the certificate does not lead to the trust anchor of the TLSA records: {0}")]
    Chain(String),
    /// The chain is sound and belongs to somebody else.
    #[error("the certificate is not for {0}")]
    Name(String),
}

impl TlsaSet {
    /// The usable ones of `records`, for a host known by `names`; `None` when none is. Of several digests of the same
    /// thing only the strongest counts (RFC 7671 section 9).
    pub fn new(records: &[TlsaRecord], names: Vec<String>) -> Option<TlsaSet> {
        let mut usable: Vec<TlsaRecord> = records.iter().filter(|record| is_usable(record)).cloned().collect();
        usable.sort();
        usable.dedup();
        let has_sha512 = |of: &TlsaRecord| {
            records
                .iter()
                .any(|r| is_usable(r) && (r.usage, r.selector, r.matching) == (of.usage, of.selector, SHA_512))
        };
        usable.retain(|record| record.matching != SHA_256 || !has_sha512(record));
        (!usable.is_empty()).then_some(TlsaSet { records: usable, names })
    }

    /// The records as zone files have them, as reports about TLS show them (RFC 8460 section 4.4).
    pub fn texts(&self) -> Vec<String> {
        let hex = |data: &[u8]| data.iter().map(|octet| format!("{octet:02x}")).collect::<String>();
        let text = |r: &TlsaRecord| format!("{} {} {} {}", r.usage, r.selector, r.matching, hex(&r.data));
        self.records.iter().map(text).collect()
    }

    /// Judges the certificates of a handshake.
    pub fn verify(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), DaneError> {
        let of_usage = |usage: u8| self.records.iter().filter(move |record| record.usage == usage);
        if of_usage(DANE_EE).any(|record| matches(record, end_entity)) {
            return Ok(());
        }
        let mut failure = DaneError::NoMatch { records: self.records.len() };
        for record in of_usage(DANE_TA) {
            match self.verify_below(record, end_entity, intermediates, now) {
                Ok(()) => return Ok(()),
                Err(DaneError::NoMatch { .. }) => {}
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// A chain from the certificate to the anchor that `record` names.
    fn verify_below(
        &self,
        record: &TlsaRecord,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), DaneError> {
        let unsound = |error: webpki::Error| DaneError::Chain(error.to_string());
        let in_record = CertificateDer::from(record.data.as_slice());
        let mut anchors: Vec<TrustAnchor<'_>> = Vec::new();
        for certificate in intermediates.iter().filter(|certificate| matches(record, certificate)) {
            anchors.push(anchor_from_trusted_cert(certificate).map_err(unsound)?);
        }
        match (record.selector, record.matching) {
            (WHOLE, EXACT) => anchors.push(anchor_from_trusted_cert(&in_record).map_err(unsound)?),
            (_, EXACT) => {
                let given = std::iter::once(end_entity).chain(intermediates);
                anchors.extend(given.filter_map(|certificate| issuer_with_key(certificate, &record.data)));
            }
            _ => {}
        }
        if anchors.is_empty() {
            return Err(DaneError::NoMatch { records: self.records.len() });
        }
        let leaf = EndEntityCert::try_from(end_entity).map_err(unsound)?;
        let algorithms = provider::default_provider().signature_verification_algorithms.all;
        leaf.verify_for_usage(algorithms, &anchors, intermediates, now, KeyUsage::server_auth(), None, None)
            .map_err(unsound)?;
        let is_for = |name: &String| {
            ServerName::try_from(name.as_str()).is_ok_and(|name| leaf.verify_is_valid_for_subject_name(&name).is_ok())
        };
        match self.names.iter().any(is_for) {
            true => Ok(()),
            false => Err(DaneError::Name(self.names.join(" or "))),
        }
    }
}

/// True for records that SMTP has a use for (RFC 7672 section 3.1).
fn is_usable(record: &TlsaRecord) -> bool {
    let octets = record.data.len();
    let has_sound_data = match record.matching {
        EXACT if record.selector == WHOLE => X509Certificate::from_der(&record.data).is_ok(),
        EXACT => Sequence::from_der(&record.data).is_ok(),
        SHA_256 => octets == 32,
        SHA_512 => octets == 64,
        _ => false,
    };
    matches!(record.usage, DANE_TA | DANE_EE) && matches!(record.selector, WHOLE | KEY) && has_sound_data
}

fn matches(record: &TlsaRecord, certificate: &CertificateDer<'_>) -> bool {
    let selected = match record.selector {
        WHOLE => certificate.as_ref(),
        _ => match X509Certificate::from_der(certificate) {
            Ok((_, parsed)) => parsed.tbs_certificate.subject_pki.raw,
            Err(_) => return false,
        },
    };
    match record.matching {
        EXACT => record.data == selected,
        SHA_256 => digest(&SHA256, selected).as_ref() == record.data,
        SHA_512 => digest(&SHA512, selected).as_ref() == record.data,
        _ => false,
    }
}

/// The issuer of `certificate` as an anchor, if its key were `key`; webpki finds out whether it is.
fn issuer_with_key<'a>(certificate: &'a CertificateDer<'_>, key: &'a [u8]) -> Option<TrustAnchor<'a>> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    // webpki wants both without the head of their SEQUENCE.
    let (_, subject) = Sequence::from_der(parsed.tbs_certificate.issuer.as_raw()).ok()?;
    let (_, key) = Sequence::from_der(key).ok()?;
    Some(TrustAnchor {
        subject: Der::from(subject.content.into_owned()),
        subject_public_key_info: Der::from(key.content.into_owned()),
        name_constraints: None,
    })
}

/// Takes the certificate that DNS vouches for, and no other.
#[derive(Debug)]
pub(crate) struct DaneVerifier {
    pub(crate) tlsa: Arc<TlsaSet>,
    pub(crate) provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for DaneVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match self.tlsa.verify(end_entity, intermediates, now) {
            Ok(()) => Ok(ServerCertVerified::assertion()),
            Err(error) => Err(rustls::Error::General(format!("DANE: {error}"))),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Certificate usages (RFC 7218).
const DANE_TA: u8 = 2;
const DANE_EE: u8 = 3;
/// Selectors.
const WHOLE: u8 = 0;
const KEY: u8 = 1;
/// Matching types.
const EXACT: u8 = 0;
const SHA_256: u8 = 1;
const SHA_512: u8 = 2;

#[cfg(test)]
#[path = "dane_tests.rs"]
mod tests;
