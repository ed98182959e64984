//! Header canonicalization (RFC 6376 sections 3.4.1 and 3.4.2) and which instances are signed.
//!
//! In: fields of the message. Out: bytes appended to the header hash input, of signers and of verifiers. Cannot fail.
//! A fold made with a bare LF counts as CRLF in both forms: the index takes it for a line end, and
//! so does every verifier that reads lines.

use super::Canonicalization;
use mime::{FieldView, HeaderView};

/// Appends one field in canonical form, with its CRLF.
pub fn push_field(canonicalization: Canonicalization, field: &FieldView, out: &mut Vec<u8>) {
    match canonicalization {
        Canonicalization::Relaxed => {
            push_relaxed(field.name, field.value, out);
            out.extend_from_slice(b"\r\n");
        }
        Canonicalization::Simple => push_simple(field.whole, out),
    }
}

/// Appends the signature field itself, up to and with `b=`, without a line end (section 3.7).
pub(crate) fn push_signature_field(canonicalization: Canonicalization, field: &[u8], out: &mut Vec<u8>) {
    match (canonicalization, memchr::memchr(b':', field)) {
        (Canonicalization::Relaxed, Some(colon)) => {
            push_relaxed(&field[..colon], &field[colon + 1..], out);
        }
        _ => out.extend_from_slice(field),
    }
}

/// Appends a signature field that is being verified: without the octets `emptied` of its value, those of `b=`, and without
/// a line end (section 3.7).
pub fn push_verified_field(
    canonicalization: Canonicalization,
    field: &FieldView,
    emptied: std::ops::Range<usize>,
    out: &mut Vec<u8>,
) {
    let before = field.value.get(..emptied.start).unwrap_or(field.value);
    let behind = field.value.get(emptied.end..).unwrap_or_default();
    match canonicalization {
        Canonicalization::Relaxed => push_relaxed(field.name, &[before, behind].concat(), out),
        Canonicalization::Simple => {
            let line_end = field.whole.iter().rev().take(2).take_while(|octet| matches!(octet, b'\r' | b'\n')).count();
            let value_start = field.whole.len().saturating_sub(line_end + field.value.len());
            let start = field.whole.get(..value_start).unwrap_or_default();
            push_simple(&[start, before, behind].concat(), out);
            out.truncate(out.len().saturating_sub(2));
        }
    }
}

/// Lower-case name, colon, value unfolded with white space runs as one space and none at its ends.
fn push_relaxed(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.extend(name.iter().map(u8::to_ascii_lowercase));
    out.push(b':');
    let start = out.len();
    let mut blank = false;
    for (at, &byte) in value.iter().enumerate() {
        match byte {
            b' ' | b'\t' => blank = true,
            b'\n' => {}
            b'\r' if value.get(at + 1) == Some(&b'\n') => {}
            _ => {
                if blank && out.len() > start {
                    out.push(b' ');
                }
                blank = false;
                out.push(byte);
            }
        }
    }
}

/// The field as it stands, every line ended by CRLF.
fn push_simple(whole: &[u8], out: &mut Vec<u8>) {
    for line in whole.split_inclusive(|&b| b == b'\n') {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        out.extend_from_slice(text);
        out.extend_from_slice(b"\r\n");
    }
}

/// Where the instances of each signed name are, so that they can be taken from the bottom of the
/// block upwards (section 5.4.2). Kept between signatures to reuse its memory.
#[derive(Debug, Default)]
pub(crate) struct Instances {
    places: Vec<Vec<usize>>,
}

impl Instances {
    /// Finds all fields with one of `names`, which are distinct.
    pub(crate) fn find(&mut self, names: &[String], headers: HeaderView) {
        self.places.iter_mut().for_each(Vec::clear);
        if self.places.len() < names.len() {
            self.places.resize_with(names.len(), Vec::new);
        }
        for (place, field) in headers.iter_all().enumerate() {
            let name = names.iter().position(|name| field.is_named(name));
            if let Some(name) = name {
                self.places[name].push(place);
            }
        }
    }

    /// How many instances of the name are not taken yet.
    pub(crate) fn left(&self, name: usize) -> usize {
        self.places[name].len()
    }

    /// Takes the lowest instance not taken yet.
    pub(crate) fn take(&mut self, name: usize) -> Option<usize> {
        self.places[name].pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mime::HeaderBlock;

    fn canonical(canonicalization: Canonicalization, raw: &[u8]) -> String {
        let mut out = Vec::new();
        let block = HeaderBlock::parse(raw);
        for field in block.view(raw).iter() {
            push_field(canonicalization, &field, &mut out);
        }
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn the_example_of_rfc_6376_section_3_4_5() {
        let raw = b"A: X\r\nB : Y\t\r\n\tZ  \r\n\r\n C \r\nD \t E\r\n\r\n\r\n";
        assert_eq!(canonical(Canonicalization::Relaxed, raw), "a:X\r\nb:Y Z\r\n");
        assert_eq!(canonical(Canonicalization::Simple, raw), "A: X\r\nB : Y\t\r\n\tZ  \r\n");
    }

    #[test]
    fn odd_fields() {
        let raw = b"A:\r\nB:  \r\nC:\r\n x\ty\n z\rw\r\nD: open";
        assert_eq!(canonical(Canonicalization::Relaxed, raw), "a:\r\nb:\r\nc:x y z\rw\r\nd:open\r\n");
        assert_eq!(canonical(Canonicalization::Simple, raw), "A:\r\nB:  \r\nC:\r\n x\ty\r\n z\rw\r\nD: open\r\n");
    }

    #[test]
    fn instances_are_taken_from_the_bottom() {
        let raw = b"To: 0\r\nFrom: 1\r\nto: 2\r\nX: 3\r\nTO: 4\r\n\r\n";
        let block = HeaderBlock::parse(raw);
        let mut instances = Instances::default();
        instances.find(&["to".into(), "Absent".into()], block.view(raw));
        assert_eq!((instances.left(0), instances.left(1)), (3, 0));
        let taken: Vec<_> = (0..4).map(|_| instances.take(0)).collect();
        assert_eq!(taken, [Some(4), Some(2), Some(0), None]);
        assert_eq!(instances.take(1), None);
    }
}
