//! What all reports have in common as messages: who reports, header fields, encoded content, names of files.
//!
//! In: texts and octets. Out: octets with CRLF line ends, no line longer than 998 octets. Cannot fail: what would break a line
//! or a field is replaced.

use crate::period::{Period, rfc5322};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

/// Who reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reporter {
    /// The name of the organisation.
    pub org_name: String,
    /// Whom to ask, and the author of reports.
    pub email: String,
    /// More of that.
    pub extra_contact_info: Option<String>,
    /// The domain that stands for who reports.
    pub submitter: String,
    /// Letters and digits that tell this node from others that report for the same organisation about the same domain and
    /// period: part of what names a report.
    pub node: String,
}

/// The fields of a message, and its parts.
pub(crate) struct Letter(Vec<u8>);

impl Letter {
    /// Begins with the fields that all have.
    pub(crate) fn new(reporter: &Reporter, to: &str, subject: &str, message_id: &str, now_secs: i64) -> Letter {
        let mut letter = Letter(Vec::with_capacity(4096));
        letter.field("From", &format!("\"{}\" <{}>", quoted(&reporter.org_name), one_line(&reporter.email)));
        letter.field("To", &format!("<{}>", one_line(to)));
        letter.field("Subject", subject);
        letter.field("Date", &rfc5322(now_secs));
        letter.field("Message-ID", &format!("<{}>", one_line(message_id)));
        letter.field("Auto-Submitted", "auto-generated");
        letter.field("MIME-Version", "1.0");
        letter
    }

    /// A field; spaces of the value are where it may be folded.
    pub(crate) fn field(&mut self, name: &str, value: &str) {
        let mut width = name.len() + 1;
        self.0.extend_from_slice(format!("{name}:").as_bytes());
        for word in one_line(value).split(' ') {
            if width + 1 + word.len() > WIDTH && width > name.len() + 1 {
                self.0.extend_from_slice(b"\r\n");
                width = 0;
            }
            self.0.push(b' ');
            self.0.extend_from_slice(word.as_bytes());
            width += 1 + word.len();
        }
        self.0.extend_from_slice(b"\r\n");
    }

    /// The field that says which parts follow.
    pub(crate) fn multipart(&mut self, kind: &str, boundary: &str) {
        self.field("Content-Type", &format!("multipart/{kind}; boundary=\"{boundary}\""));
        self.0.extend_from_slice(b"\r\n");
    }

    /// The line before a part, and its fields.
    pub(crate) fn part(&mut self, boundary: &str, fields: &[(&str, &str)]) {
        self.0.extend_from_slice(format!("--{boundary}\r\n").as_bytes());
        fields.iter().for_each(|(name, value)| self.field(name, value));
        self.0.extend_from_slice(b"\r\n");
    }

    /// Words for people.
    pub(crate) fn text(&mut self, boundary: &str, text: &str) {
        self.part(boundary, &[("Content-Type", "text/plain; charset=us-ascii"), ("Content-Transfer-Encoding", "7bit")]);
        for line in text.lines() {
            let line: String = line.chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' }).collect();
            self.0.extend_from_slice(&line.as_bytes()[..line.len().min(LINE_OCTETS_MAX)]);
            self.0.extend_from_slice(b"\r\n");
        }
    }

    /// Octets of any kind, as a file.
    pub(crate) fn file(&mut self, boundary: &str, media_type: &str, name: &str, octets: &[u8]) {
        let disposition = format!("attachment; filename=\"{name}\"");
        let fields = [
            ("Content-Type", media_type),
            ("Content-Disposition", &disposition),
            ("Content-Transfer-Encoding", "base64"),
        ];
        self.part(boundary, &fields);
        for line in STANDARD.encode(octets).as_bytes().chunks(BASE64_CHARS) {
            self.0.extend_from_slice(line);
            self.0.extend_from_slice(b"\r\n");
        }
    }

    /// Octets whose lines end in CRLF and are not too long.
    pub(crate) fn raw(&mut self, octets: &[u8]) {
        self.0.extend_from_slice(octets);
    }

    /// The end.
    pub(crate) fn end(mut self, boundary: &str) -> Vec<u8> {
        self.0.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
        self.0
    }
}

/// The octets, compressed (RFC 1952).
pub fn gzip(octets: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(octets.len() / 4), Compression::default());
    // Into memory: it does not fail.
    encoder.write_all(octets).and_then(|()| encoder.finish()).unwrap_or_default()
}

/// The first part of a file's name, and of ids (RFC 7489 section 7.2.1.1, RFC 8460 section 5.1).
pub fn file_stem(reporter: &Reporter, domain: &str, period: Period) -> String {
    let plain = |text: &str| -> String {
        text.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_')).collect()
    };
    let (submitter, domain, node) = (plain(&reporter.submitter), plain(domain), plain(&reporter.node));
    format!("{submitter}!{domain}!{}!{}!{node}", period.begin_secs(), period.last_secs())
}

/// The domain of an address; the text itself when it has none.
pub fn domain_of(address: &str) -> &str {
    address.rsplit_once('@').map_or(address, |(_, domain)| domain)
}

/// ASCII without what breaks lines.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' }).collect()
}

fn quoted(text: &str) -> String {
    one_line(text).replace('\\', "\\\\").replace('"', "\\\"")
}

/// Where fields are folded, in octets.
const WIDTH: usize = 76;
/// Characters of a line of base64.
const BASE64_CHARS: usize = 76;
/// Octets of a line for people.
const LINE_OCTETS_MAX: usize = 900;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_breaks_a_field() {
        let reporter = Reporter {
            org_name: "a\"b\\\r\nBcc: x".to_owned(),
            email: "r@a.test\r\nX: y".to_owned(),
            extra_contact_info: None,
            submitter: "mx.test".to_owned(),
            node: "n1".to_owned(),
        };
        let letter = Letter::new(&reporter, "b@c.test\r\nX: y", &"word ".repeat(40), "id@a", 0).end("x");
        let text = String::from_utf8(letter).expect("ASCII");
        assert!(text.lines().all(|line| line.len() <= WIDTH + 2), "{text}");
        let names: Vec<&str> =
            text.lines().filter(|l| !l.starts_with(' ')).filter_map(|l| Some(l.split_once(':')?.0)).collect();
        assert_eq!(names, ["From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "MIME-Version"]);
        assert!(text.starts_with("From: \"a\\\"b\\\\??Bcc: x\" <r@a.test??X: y>"), "{text}");
    }
}
