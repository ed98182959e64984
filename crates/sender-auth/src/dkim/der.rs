//! The elements of DER (ITU-T X.690) that keys are written in, read just far enough: a tag, a length, what follows.
//!
//! In: bytes of any origin. Out: `None` for what is no such element. Deliberately no general ASN.1.

/// The content of the element `der` begins with, when it has that tag, and what follows it.
pub fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    if found != tag {
        return None;
    }
    if first < 0x80 {
        return rest.split_at_checked(usize::from(first));
    }
    let count = usize::from(first & 0x7f);
    if count == 0 || count > LENGTH_BYTES_MAX {
        return None;
    }
    let (length, rest) = rest.split_at_checked(count)?;
    let length = length.iter().fold(0, |sum, &b| sum << 8 | usize::from(b));
    rest.split_at_checked(length)
}

/// Bits of a number that is not negative, leading zeros not counted.
pub fn bits(integer: &[u8]) -> usize {
    let zeros = integer.iter().take_while(|&&b| b == 0).count();
    match integer.get(zeros) {
        Some(first) => (integer.len() - zeros) * 8 - first.leading_zeros() as usize,
        None => 0,
    }
}

/// An INTEGER.
pub const INTEGER: u8 = 0x02;
/// A BIT STRING.
pub const BIT_STRING: u8 = 0x03;
/// An OCTET STRING.
pub const OCTET_STRING: u8 = 0x04;
/// An OBJECT IDENTIFIER.
pub const OID: u8 = 0x06;
/// A SEQUENCE, constructed.
pub const SEQUENCE: u8 = 0x30;

/// Longest length field read, in bytes: key files are far below 16 MiB.
const LENGTH_BYTES_MAX: usize = 3;
