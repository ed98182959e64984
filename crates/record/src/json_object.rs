//! Writes the members of a JSON object, texts that need no escape at the speed of a copy.
//!
//! In: names and values, in order. Out: octets that are those serde_json would have written. Nearly every text of a record
//! is plain, and a record has thirty of them: looked through octet by octet they cost more than everything else about a
//! message's log. Whatever is not plain, not text or seldom there goes through serde_json. Fails only where that does.

use serde::Serialize;

/// An object in the making.
pub(crate) struct JsonObject<'a> {
    out: &'a mut Vec<u8>,
    separator: u8,
}

impl<'a> JsonObject<'a> {
    /// Begins one at the end of `out`.
    pub fn begin(out: &'a mut Vec<u8>) -> JsonObject<'a> {
        JsonObject { out, separator: b'{' }
    }

    /// A text.
    pub fn text(&mut self, name: &'static str, value: &str) -> serde_json::Result<()> {
        text(self.member(name), value)
    }

    /// A text, or `null`.
    pub fn text_or_null(&mut self, name: &'static str, value: Option<&str>) -> serde_json::Result<()> {
        match value {
            Some(value) => self.text(name, value),
            None => self.null(name),
        }
    }

    /// A text, or no member.
    pub fn text_if_any(&mut self, name: &'static str, value: Option<&str>) -> serde_json::Result<()> {
        value.map_or(Ok(()), |value| self.text(name, value))
    }

    /// Any other value.
    pub fn value<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> serde_json::Result<()> {
        serde_json::to_writer(self.member(name), value)
    }

    /// What `write` makes of a value, or `null`.
    pub fn object_or_null<T>(
        &mut self,
        name: &'static str,
        value: Option<&T>,
        write: impl FnOnce(&T, &mut JsonObject) -> serde_json::Result<()>,
    ) -> serde_json::Result<()> {
        let Some(value) = value else { return self.null(name) };
        let mut object = JsonObject::begin(self.member(name));
        write(value, &mut object)?;
        object.end();
        Ok(())
    }

    /// `null`.
    pub fn null(&mut self, name: &'static str) -> serde_json::Result<()> {
        self.member(name).extend_from_slice(b"null");
        Ok(())
    }

    /// It has all its members.
    pub fn end(self) {
        if self.separator == b'{' {
            self.out.push(b'{');
        }
        self.out.push(b'}');
    }

    /// `name` must be plain: all are constants of this crate, and the golden lines hold each.
    fn member(&mut self, name: &'static str) -> &mut Vec<u8> {
        self.out.extend_from_slice(&[self.separator, b'"']);
        self.separator = b',';
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }
}

fn text(out: &mut Vec<u8>, value: &str) -> serde_json::Result<()> {
    if !is_plain(value) {
        return serde_json::to_writer(out, value);
    }
    out.reserve(value.len() + 2);
    out.push(b'"');
    out.extend_from_slice(value.as_bytes());
    out.push(b'"');
    Ok(())
}

/// True when JSON escapes nothing in it (RFC 8259 section 7). Without a branch inside, so that it is vectorised.
fn is_plain(value: &str) -> bool {
    !value.bytes().fold(false, |found, octet| found | (octet < b' ') | (octet == b'"') | (octet == b'\\'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_object_without_members() {
        let mut out = b"x".to_vec();
        JsonObject::begin(&mut out).end();
        assert_eq!(out, b"x{}");
    }

    proptest! {
        #[test]
        fn texts_are_those_of_serde_json(value in "\\PC*|[\\x00-\\x7f]{0,40}|.*") {
            let mut out = Vec::new();
            text(&mut out, &value).unwrap();
            prop_assert_eq!(out, serde_json::to_vec(&value).unwrap());
        }
    }
}
