//! Whose certificate it is: the subject of an X.509 certificate as a list of `CN=mx.example`.
//!
//! In: DER. Out: the attributes in the order they stand in, for log records; a decision never rests on them. Fails by
//! leaving out: what is not well formed, or has no name here and no text, is not shown. At most [`ATTRIBUTES_MAX`].

use x509_parser::asn1_rs::FromDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::x509::AttributeTypeAndValue;

/// The subject's attributes.
pub(crate) fn of_certificate(der: &[u8]) -> Vec<String> {
    let Ok((_, certificate)) = X509Certificate::from_der(der) else { return Vec::new() };
    certificate.subject().iter_attributes().take(ATTRIBUTES_MAX).filter_map(attribute).collect()
}

fn attribute(pair: &AttributeTypeAndValue<'_>) -> Option<String> {
    let oid = pair.attr_type().to_id_string();
    let name = NAMES.iter().find(|(known, _)| *known == oid)?.1;
    let text = std::str::from_utf8(pair.attr_value().data).ok()?.chars().take(VALUE_CHARS_MAX);
    let shown: String = text.map(|c| if c.is_control() { '?' } else { c }).collect();
    Some(format!("{name}={shown}"))
}

/// Attributes shown of one subject.
const ATTRIBUTES_MAX: usize = 16;
/// Characters shown of one attribute.
const VALUE_CHARS_MAX: usize = 256;

/// Object identifiers and their usual short names (RFC 4519, RFC 2985).
const NAMES: [(&str, &str); 9] = [
    ("2.5.4.3", "CN"),
    ("2.5.4.5", "serialNumber"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("1.2.840.113549.1.9.1", "emailAddress"),
    ("0.9.2342.19200300.100.1.25", "DC"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    fn certificate() -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["mx.test".to_owned()]).expect("a name");
        let mut subject = DistinguishedName::new();
        subject.push(DnType::CountryName, "US");
        subject.push(DnType::OrganizationName, "Ö\nX");
        subject.push(DnType::CommonName, "mx.test");
        params.distinguished_name = subject;
        params.self_signed(&KeyPair::generate().expect("a key")).expect("a certificate").der().to_vec()
    }

    #[test]
    fn attributes_come_in_their_order_without_control_characters() {
        assert_eq!(of_certificate(&certificate()), ["C=US", "O=Ö?X", "CN=mx.test"]);
    }

    #[test]
    fn damaged_certificates_have_no_subject_and_do_no_harm() {
        let whole = certificate();
        for end in 0..whole.len() {
            assert_eq!(of_certificate(&whole[..end]), [""; 0], "cut at {end}");
        }
        for place in 0..whole.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut damaged = whole.clone();
                damaged[place] ^= flip;
                assert!(of_certificate(&damaged).len() <= ATTRIBUTES_MAX);
            }
        }
    }
}
