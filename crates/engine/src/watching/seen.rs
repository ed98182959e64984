//! What is seen of a session, and how it is told (KumoMTA's shape).
//!
//! Text is what was said, octets that are no UTF-8 replaced. What is longer than [`TEXT_MAX`], or than [`SNIPPET_MAX`] for who
//! wants it terse, is cut off. Pure.

use serde_json::{Value, json};

/// One thing.
#[derive(Debug)]
pub(crate) enum Seen<'a> {
    /// There is a connection.
    Connected,
    /// It is over.
    Closed,
    /// An outbound session begins.
    BeginSession,
    /// It has a message to deliver.
    MessageObtained,
    /// The peer said this.
    Read(&'a [u8]),
    /// This was said to it; so many octets in all.
    Write(&'a [u8], usize),
    /// What this program makes of it: level and text.
    Diagnostic(&'static str, &'a str),
    /// Policy was asked, and refused or not.
    Callback(&'static str, Option<String>),
    /// What becomes of a received message.
    MessageDisposition(Value),
}

impl Seen<'_> {
    /// As JSON.
    pub fn json(&self, terse: bool) -> Value {
        match self {
            Seen::Connected => json!("Connected"),
            Seen::Closed => json!("Closed"),
            Seen::BeginSession => json!("BeginSession"),
            Seen::MessageObtained => json!("MessageObtained"),
            Seen::Read(said) => text("Read", said, said.len(), terse),
            Seen::Write(said, len) => text("Write", said, *len, terse),
            Seen::Diagnostic(level, message) => json!({"Diagnostic": {"level": level, "message": message}}),
            Seen::Callback(name, error) => json!({"Callback": {"name": name, "result": null, "error": error}}),
            Seen::MessageDisposition(what) => json!({"MessageDisposition": what}),
        }
    }
}

fn text(kind: &str, said: &[u8], len: usize, terse: bool) -> Value {
    let max = if terse { SNIPPET_MAX } else { TEXT_MAX };
    if len <= max && len == said.len() {
        return json!({kind: String::from_utf8_lossy(said)});
    }
    let snippet = String::from_utf8_lossy(&said[..said.len().min(max)]);
    json!({format!("Abbreviated{kind}"): {"snippet": snippet, "len": len}})
}

/// Octets of one read or write that are shown.
pub(crate) const TEXT_MAX: usize = 64 << 10;
/// The same, of who wants it terse.
const SNIPPET_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_long_is_cut_off() {
        assert_eq!(Seen::Read(b"NOOP\r\n").json(true), json!({"Read": "NOOP\r\n"}));
        let long = vec![b'x'; SNIPPET_MAX + 1];
        assert_eq!(Seen::Read(&long).json(false), json!({"Read": "x".repeat(SNIPPET_MAX + 1)}));
        let cut = json!({"AbbreviatedRead": {"snippet": "x".repeat(SNIPPET_MAX), "len": SNIPPET_MAX + 1}});
        assert_eq!(Seen::Read(&long).json(true), cut);
        let part = json!({"AbbreviatedWrite": {"snippet": "DATA", "len": 100_000}});
        assert_eq!(Seen::Write(b"DATA", 100_000).json(false), part);
    }
}
