//! A message to be checked: its fields, found by name, and its body, hashed once a form.
//!
//! In: header fields and body octets. Out: what signatures are made over. Cannot fail.
//! The names are gathered once, in one pass: a message may have as many fields as `mime` indexes and be checked against many
//! signatures.

use mime::{FieldView, HeaderView};
use sender_auth::{BodyHash, BodyHashes, Canonicalization, limited_body_hash, push_field};
use std::collections::BTreeMap;

/// A message, borrowed.
#[derive(Debug)]
pub struct Mail<'a> {
    headers: HeaderView<'a>,
    body: &'a [u8],
    /// Names in lower case; places from the top.
    places: BTreeMap<Vec<u8>, Vec<usize>>,
    hashes: BodyHashes,
}

impl<'a> Mail<'a> {
    /// A message as it came: lines end in CRLF.
    pub fn new(headers: HeaderView<'a>, body: &'a [u8]) -> Mail<'a> {
        let mut places: BTreeMap<Vec<u8>, Vec<usize>> = BTreeMap::new();
        for (place, field) in headers.iter_all().enumerate().filter(|(_, field)| !field.name.is_empty()) {
            places.entry(field.name.to_ascii_lowercase()).or_default().push(place);
        }
        Mail { headers, body, places, hashes: BodyHashes::new() }
    }

    /// Its header fields.
    pub fn headers(&self) -> HeaderView<'a> {
        self.headers
    }

    pub(crate) fn body(&self) -> &'a [u8] {
        self.body
    }

    pub(crate) fn hashes(&self) -> &BodyHashes {
        &self.hashes
    }

    /// The fields of a name (in lower case), from the top.
    pub(crate) fn named(&self, name: &str) -> impl DoubleEndedIterator<Item = FieldView<'a>> + '_ {
        let places = self.places.get(name.as_bytes()).map(Vec::as_slice).unwrap_or_default();
        places.iter().filter_map(|place| self.headers.get(*place))
    }

    /// How many fields of a name (in lower case) there are.
    pub(crate) fn count(&self, name: &str) -> usize {
        self.places.get(name.as_bytes()).map_or(0, Vec::len)
    }

    /// The body hash, and the length of the canonical body when only `octets_max` octets of it are hashed.
    pub(crate) fn body_hash(
        &self,
        canonicalization: Canonicalization,
        octets_max: Option<usize>,
    ) -> (BodyHash, Option<usize>) {
        match octets_max {
            None => (self.hashes.get(canonicalization, self.body), None),
            Some(octets_max) => {
                let (hash, octets) = limited_body_hash(canonicalization, self.body, octets_max);
                (hash, Some(octets))
            }
        }
    }

    /// Appends the fields with these names (in lower case), canonical: for each time a name is there the next instance from
    /// the bottom (RFC 6376 section 5.4.2). What is not there, or no more, is nothing.
    pub(crate) fn push_signed(&self, names: &[String], canonicalization: Canonicalization, out: &mut Vec<u8>) {
        let mut taken: BTreeMap<&str, usize> = BTreeMap::new();
        for name in names {
            let Some(places) = self.places.get(name.as_bytes()) else { continue };
            let count = taken.entry(name).or_default();
            *count += 1;
            let field = places.len().checked_sub(*count).and_then(|at| self.headers.get(*places.get(at)?));
            if let Some(field) = field {
                push_field(canonicalization, &field, out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mime::HeaderBlock;

    #[test]
    fn instances_are_taken_from_the_bottom() {
        let raw = b"A: 1\r\nB: 2\r\na: 3\r\n\r\n";
        let block = HeaderBlock::parse(raw);
        let mail = Mail::new(block.view(raw), b"");
        let mut out = Vec::new();
        let names = ["a", "c", "a", "a", "b"].map(str::to_owned);
        mail.push_signed(&names, Canonicalization::Relaxed, &mut out);
        assert_eq!(out, b"a:3\r\na:1\r\nb:2\r\n");
        assert_eq!((mail.count("a"), mail.named("a").count()), (2, 2));
    }
}
