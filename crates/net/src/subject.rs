//! Whose certificate it is: the subject of an X.509 certificate as a list of `CN=mx.example`.
//!
//! In: DER. Out: the attributes in the order they stand in, for log records; a decision never rests on them. Fails by
//! leaving out: what is not well formed, or has no name here and no text, is not shown. At most [`ATTRIBUTES_MAX`].

/// The subject's attributes.
pub(crate) fn of_certificate(der: &[u8]) -> Vec<String> {
    attributes(der).unwrap_or_default()
}

fn attributes(der: &[u8]) -> Option<Vec<String>> {
    let mut rest = der;
    let mut certificate = expect(&mut rest, SEQUENCE)?;
    let mut body = expect(&mut certificate, SEQUENCE)?;
    if body.first() == Some(&VERSION) {
        next(&mut body)?;
    }
    // Serial number, signature algorithm, issuer, validity.
    for _ in 0..4 {
        next(&mut body)?;
    }
    let mut subject = expect(&mut body, SEQUENCE)?;
    let mut found = Vec::new();
    while let (Some(mut set), true) = (expect(&mut subject, SET), found.len() < ATTRIBUTES_MAX) {
        while let (Some(pair), true) = (expect(&mut set, SEQUENCE), found.len() < ATTRIBUTES_MAX) {
            found.extend(attribute(pair));
        }
    }
    Some(found)
}

fn attribute(mut pair: &[u8]) -> Option<String> {
    let oid = expect(&mut pair, OID)?;
    let (_, value) = next(&mut pair)?;
    let name = NAMES.iter().find(|(known, _)| *known == oid)?.1;
    let text: String = std::str::from_utf8(value).ok()?.chars().take(VALUE_CHARS_MAX).collect();
    let shown: String = text.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    Some(format!("{name}={shown}"))
}

fn expect<'a>(rest: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    next(rest).filter(|(found, _)| *found == tag).map(|(_, content)| content)
}

/// Takes one value off the front: its tag and its content.
fn next<'a>(rest: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (&tag, after) = rest.split_first()?;
    let (&first, mut after) = after.split_first()?;
    let length = match first {
        0..=0x7f => usize::from(first),
        // Up to three octets of length: no certificate has 16 MiB.
        0x81..=0x83 => {
            let (octets, behind) = after.split_at_checked(usize::from(first & 0x7f))?;
            after = behind;
            octets.iter().fold(0, |length, octet| length << 8 | usize::from(*octet))
        }
        _ => return None,
    };
    let (content, behind) = after.split_at_checked(length)?;
    *rest = behind;
    Some((tag, content))
}

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OID: u8 = 0x06;
/// `[0] EXPLICIT` in front of the version.
const VERSION: u8 = 0xa0;
/// Attributes shown of one subject.
const ATTRIBUTES_MAX: usize = 16;
/// Characters shown of one attribute.
const VALUE_CHARS_MAX: usize = 256;

/// Object identifiers and their usual short names (RFC 4519, RFC 2985).
const NAMES: [(&[u8], &str); 9] = [
    (&[0x55, 4, 3], "CN"),
    (&[0x55, 4, 5], "serialNumber"),
    (&[0x55, 4, 6], "C"),
    (&[0x55, 4, 7], "L"),
    (&[0x55, 4, 8], "ST"),
    (&[0x55, 4, 10], "O"),
    (&[0x55, 4, 11], "OU"),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1], "emailAddress"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25], "DC"),
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
