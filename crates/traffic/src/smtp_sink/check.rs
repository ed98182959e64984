//! Reads the two marks the generator puts on a message and compares the body with its checksum.
//!
//! In: unstuffed content, span by span. Out: the message's id and whether its body is whole. Only the header block is
//! kept (bounded); the body passes through the checksum where it lies in the read buffer and is never copied.
//! Headers a relay adds or reorders do no harm, a changed body does.

use memchr::{memchr, memmem};

/// What is known of one message after its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Integrity {
    /// The body is the one whose checksum the message carries.
    Ok,
    /// It is not, or one of the two marks is missing.
    Damaged,
    /// Mail of somebody else: it carries neither mark.
    Unmarked,
}

impl Integrity {
    /// The word written into the ledger.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Damaged => "damaged",
            Self::Unmarked => "unmarked",
        }
    }
}

/// Follows one message at a time; reused for the next after `reset`.
pub(super) struct MessageCheck {
    /// CRLF (so that every field starts behind one) and the header block.
    header: Vec<u8>,
    in_header: bool,
    body: crc32fast::Hasher,
}

impl MessageCheck {
    /// A check that stands before the first byte of content.
    pub(super) fn new() -> Self {
        Self { header: b"\r\n".to_vec(), in_header: true, body: crc32fast::Hasher::new() }
    }

    /// Gets ready for the next message.
    pub(super) fn reset(&mut self) {
        self.header.truncate(2);
        self.in_header = true;
        self.body.reset();
    }

    /// Takes the next span of content.
    pub(super) fn feed(&mut self, mut span: &[u8]) {
        while self.in_header && !span.is_empty() {
            let piece = &span[..span.len().min(HEADER_PIECE_BYTES)];
            let kept = self.header.len();
            self.header.extend_from_slice(piece);
            let search_from = kept.saturating_sub(3);
            if let Some(found) = memmem::find(&self.header[search_from..], b"\r\n\r\n") {
                let header_end = search_from + found + 4;
                self.header.truncate(header_end);
                span = &span[header_end - kept..];
                self.in_header = false;
            } else {
                span = &span[piece.len()..];
                // An endless header is no message of ours: without its marks it will count as damaged or unmarked.
                if self.header.len() > HEADER_BYTES_MAX {
                    self.header.truncate(2);
                    self.in_header = false;
                }
            }
        }
        if !span.is_empty() {
            self.body.update(span);
        }
    }

    /// The verdict at the end of the message: its id (`-` without one) and its integrity.
    pub(super) fn verdict(&self) -> (&[u8], Integrity) {
        let id = self.field(ID_FIELD).filter(|id| is_plain(id));
        let check = self.field(CHECK_FIELD);
        let integrity = match (id, check) {
            (None, None) => Integrity::Unmarked,
            (Some(_), Some(check)) if self.matches(check) => Integrity::Ok,
            _ => Integrity::Damaged,
        };
        (id.unwrap_or(b"-"), integrity)
    }

    fn matches(&self, check: &[u8]) -> bool {
        let stated = std::str::from_utf8(check).ok().and_then(|text| u32::from_str_radix(text, 16).ok());
        stated == Some(self.body.clone().finalize())
    }

    /// The value of the first field of this name (given with its colon, in lower case), trimmed.
    fn field(&self, name: &[u8]) -> Option<&[u8]> {
        let mut rest = &self.header[2..];
        while let Some(line_end) = memchr(b'\n', rest) {
            let line = &rest[..line_end];
            if line.len() >= name.len() && line[..name.len()].eq_ignore_ascii_case(name) {
                return Some(line[name.len()..].trim_ascii());
            }
            rest = &rest[line_end + 1..];
        }
        None
    }
}

fn is_plain(id: &[u8]) -> bool {
    (1..=ID_BYTES_MAX).contains(&id.len()) && id.iter().all(u8::is_ascii_graphic)
}

const ID_FIELD: &[u8] = b"x-postrider-id:";
const CHECK_FIELD: &[u8] = b"x-postrider-check:";
/// Bytes of an id: far above what the generator makes, far below what would spoil a ledger line.
const ID_BYTES_MAX: usize = 128;
/// Bytes of a header block kept in search of the marks.
const HEADER_BYTES_MAX: usize = 64 * 1024;
/// Bytes copied at once while the end of the header block is not yet found.
const HEADER_PIECE_BYTES: usize = 2 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn message(body: &[u8]) -> Vec<u8> {
        let mut message = format!(
            "Received: by relay\r\nx-Postrider-ID: run-7\r\nX-Postrider-Check: {:08x}\r\nTo: <a@b.test>\r\n\r\n",
            crc32fast::hash(body)
        )
        .into_bytes();
        message.extend_from_slice(body);
        message
    }

    #[test]
    fn whole_at_every_split_and_damaged_by_any_byte() {
        let mut check = MessageCheck::new();
        let whole = message(b"one\r\n\r\n.two\r\n");
        for split in 0..=whole.len() {
            check.reset();
            check.feed(&whole[..split]);
            check.feed(&whole[split..]);
            assert_eq!(check.verdict(), (&b"run-7"[..], Integrity::Ok), "{split}");
        }
        let body_start = whole.len() - 13;
        for at in body_start..whole.len() {
            let mut spoiled = whole.clone();
            spoiled[at] ^= 1;
            check.reset();
            check.feed(&spoiled);
            assert_eq!(check.verdict(), (&b"run-7"[..], Integrity::Damaged), "{at}");
        }
    }

    #[test]
    fn empty_bodies_and_missing_headers() {
        let mut check = MessageCheck::new();
        check.feed(&message(b""));
        assert_eq!(check.verdict().1, Integrity::Ok);
        check.reset();
        check.feed(b"\r\nX-Postrider-Id: not-a-header\r\n");
        assert_eq!(check.verdict(), (&b"-"[..], Integrity::Unmarked));
        check.reset();
        assert_eq!(check.verdict().1, Integrity::Unmarked);
        check.reset();
        check.feed(b"X-Postrider-Id: run-8\r\n\r\nbody\r\n");
        assert_eq!(check.verdict(), (&b"run-8"[..], Integrity::Damaged));
    }

    #[test]
    fn the_header_kept_is_bounded() {
        for (length, integrity) in
            [(HEADER_BYTES_MAX - 200, Integrity::Ok), (HEADER_BYTES_MAX + HEADER_PIECE_BYTES, Integrity::Unmarked)]
        {
            let mut long = b"Long: ".to_vec();
            long.resize(length, b'x');
            long.extend_from_slice(b"\r\n");
            long.extend_from_slice(&message(b"body\r\n"));
            let mut check = MessageCheck::new();
            check.feed(&long);
            assert_eq!(check.verdict().1, integrity, "{length}");
            assert!(check.header.len() <= HEADER_BYTES_MAX + HEADER_PIECE_BYTES);
        }
    }
}
