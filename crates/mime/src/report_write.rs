//! Delivery status notifications, written (RFC 3464 in a multipart/report, RFC 6522).
//!
//! In: a [`NewReport`]: who it is from and for, words for people, the fields, what is enclosed. Out: the bytes of a
//! message with CRLF line ends. Cannot fail: what cannot stand in a field is replaced, what is too long is cut
//! ([`FIELD_TEXT_MAX`], [`HEADER_ENCLOSED_MAX`]). Whether anybody wants a report, and the clock, are the caller's.

use crate::report::{DeliveryReport, PerRecipient, Typed};

/// A report to be written.
#[derive(Clone, Debug)]
pub struct NewReport<'a> {
    /// Address in `From`.
    pub from: &'a str,
    /// Address in `To`.
    pub to: &'a str,
    /// `Subject`.
    pub subject: &'a str,
    /// `Date`, in the form of RFC 5322.
    pub date: &'a str,
    /// What tells this message from all others: goes into `Message-ID` and the boundary. Letters, digits, `.`, `-`.
    pub unique: &'a str,
    /// The first part, for people; lines end in LF.
    pub text: &'a str,
    /// The fields of the second part.
    pub report: &'a DeliveryReport,
    /// The third part.
    pub enclosed: Enclosed<'a>,
}

/// What a report gives back.
#[derive(Clone, Copy, Debug)]
pub enum Enclosed<'a> {
    /// Nothing.
    Nothing,
    /// The header (RFC 3461 `RET=HDRS`).
    Header(&'a [u8]),
    /// Header with blank line, and body (`RET=FULL`).
    Message(&'a [u8], &'a [u8]),
}

impl NewReport<'_> {
    /// The message.
    pub fn to_bytes(&self) -> Vec<u8> {
        let boundary = self.boundary();
        let is_8bit = !self.text.is_ascii() || !self.enclosed.is_ascii();
        let domain = self.from.rsplit_once('@').map_or(self.from, |(_, domain)| domain);
        let mut out = Vec::with_capacity(2048 + self.enclosed.len());
        put(&mut out, "From", &format!("Mail Delivery System <{}>", one_line(self.from)));
        put(&mut out, "To", &one_line(self.to));
        put(&mut out, "Subject", &one_line(self.subject));
        put(&mut out, "Date", &one_line(self.date));
        put(&mut out, "Message-ID", &format!("<{}@{}>", one_line(self.unique), one_line(domain)));
        put(&mut out, "Auto-Submitted", "auto-replied");
        put(&mut out, "MIME-Version", "1.0");
        let content_type = format!("multipart/report; report-type=delivery-status;\r\n boundary=\"{boundary}\"");
        put(&mut out, "Content-Type", &content_type);
        if is_8bit {
            put(&mut out, "Content-Transfer-Encoding", "8bit");
        }
        out.extend_from_slice(b"\r\nThis is a report in MIME format.\r\n");
        part(&mut out, &boundary, "text/plain; charset=utf-8", !self.text.is_ascii());
        for line in self.text.lines() {
            out.extend_from_slice(cut(line, LINE_OCTETS_MAX).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        part(&mut out, &boundary, "message/delivery-status", false);
        self.fields(&mut out);
        self.enclose(&mut out, &boundary);
        out.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
        out
    }

    fn fields(&self, out: &mut Vec<u8>) {
        let message = &self.report.per_message;
        typed(out, "Reporting-MTA", Some(&message.reporting_mta));
        text(out, "Original-Envelope-Id", message.original_envelope_id.as_deref());
        typed(out, "DSN-Gateway", message.dsn_gateway.as_ref());
        typed(out, "Received-From-MTA", message.received_from_mta.as_ref());
        text(out, "Arrival-Date", message.arrival_date.as_deref());
        for recipient in &self.report.per_recipient {
            out.extend_from_slice(b"\r\n");
            let PerRecipient { status: (class, subject, detail), .. } = recipient;
            typed(out, "Original-Recipient", recipient.original_recipient.as_ref());
            typed(out, "Final-Recipient", Some(&recipient.final_recipient));
            text(out, "Action", Some(&recipient.action));
            text(out, "Status", Some(&format!("{class}.{subject}.{detail}")));
            typed(out, "Remote-MTA", recipient.remote_mta.as_ref());
            typed(out, "Diagnostic-Code", recipient.diagnostic_code.as_ref());
            text(out, "Last-Attempt-Date", recipient.last_attempt_date.as_deref());
            text(out, "Final-Log-ID", recipient.final_log_id.as_deref());
            text(out, "Will-Retry-Until", recipient.will_retry_until.as_deref());
        }
    }

    fn enclose(&self, out: &mut Vec<u8>, boundary: &str) {
        match self.enclosed {
            Enclosed::Nothing => {}
            Enclosed::Header(header) => {
                let header = header_cut(header);
                part(out, boundary, "text/rfc822-headers", !header.is_ascii());
                out.extend_from_slice(header);
            }
            Enclosed::Message(head, body) => {
                part(out, boundary, "message/rfc822", !self.enclosed.is_ascii());
                out.extend_from_slice(head);
                out.extend_from_slice(body);
            }
        }
    }

    /// One that does not occur in what is enclosed or said.
    fn boundary(&self) -> String {
        let stem: String = self.unique.chars().filter(|c| c.is_ascii_alphanumeric()).take(UNIQUE_OCTETS_MAX).collect();
        let pieces = match self.enclosed {
            Enclosed::Nothing => [&b""[..], b""],
            Enclosed::Header(header) => [header, b""],
            Enclosed::Message(head, body) => [head, body],
        };
        let occurs = |boundary: &str| {
            let has = |piece: &[u8]| memchr::memmem::find(piece, boundary.as_bytes()).is_some();
            has(self.text.as_bytes()) || pieces.into_iter().any(has)
        };
        let numbered = (0u32..).map(|number| format!("=_report_{stem}_{number}"));
        // Every number that occurs takes a dozen octets of a bounded text: one of these is free.
        numbered.into_iter().find(|boundary| !occurs(boundary)).unwrap_or_default()
    }
}

impl Enclosed<'_> {
    fn is_ascii(&self) -> bool {
        match self {
            Enclosed::Nothing => true,
            Enclosed::Header(header) => header.is_ascii(),
            Enclosed::Message(head, body) => head.is_ascii() && body.is_ascii(),
        }
    }

    fn len(&self) -> usize {
        match self {
            Enclosed::Nothing => 0,
            Enclosed::Header(header) => header.len(),
            Enclosed::Message(head, body) => head.len() + body.len(),
        }
    }
}

fn part(out: &mut Vec<u8>, boundary: &str, media_type: &str, is_8bit: bool) {
    out.extend_from_slice(format!("\r\n--{boundary}\r\n").as_bytes());
    put(out, "Content-Type", media_type);
    if is_8bit {
        put(out, "Content-Transfer-Encoding", "8bit");
    }
    out.extend_from_slice(b"\r\n");
}

fn put(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
}

fn typed(out: &mut Vec<u8>, name: &str, value: Option<&Typed>) {
    if let Some(Typed { kind, value }) = value {
        text(out, name, Some(&format!("{kind}; {value}")));
    }
}

/// A field of the second part, which is ASCII and has lines of bounded length.
fn text(out: &mut Vec<u8>, name: &str, value: Option<&str>) {
    let Some(value) = value else { return };
    let ascii: String = value.chars().flat_map(escaped).collect();
    put(out, name, cut(&ascii, FIELD_TEXT_MAX).trim());
}

/// Beyond ASCII as `\x{HEX}` (RFC 6533 section 3); controls as blanks.
fn escaped(c: char) -> Vec<char> {
    match c {
        c if c.is_control() => vec![' '],
        c if c.is_ascii() => vec![c],
        c => format!("\\x{{{:X}}}", u32::from(c)).chars().collect(),
    }
}

fn one_line(value: &str) -> String {
    cut(value, FIELD_TEXT_MAX).chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn cut(text: &str, octets_max: usize) -> &str {
    &text[..text.floor_char_boundary(octets_max)]
}

/// Whole lines, at most [`HEADER_ENCLOSED_MAX`], without the blank line behind.
fn header_cut(header: &[u8]) -> &[u8] {
    let header = header.strip_suffix(b"\r\n\r\n").map_or(header, |_| &header[..header.len() - 2]);
    if header.len() <= HEADER_ENCLOSED_MAX {
        return header;
    }
    let end = memchr::memrchr(b'\n', &header[..HEADER_ENCLOSED_MAX]).map_or(0, |at| at + 1);
    &header[..end]
}

/// Longest value of a field (octets): lines stay below 998.
pub const FIELD_TEXT_MAX: usize = 900;
/// Longest line for people (octets).
const LINE_OCTETS_MAX: usize = 900;
/// Octets of an enclosed header.
pub const HEADER_ENCLOSED_MAX: usize = 64 << 10;
/// Characters of `unique` in a boundary, which may have 70.
const UNIQUE_OCTETS_MAX: usize = 40;
