//! Reads a server's replies incrementally (RFC 5321 section 4.2.1).
//!
//! In: whatever bytes the server sent, in any splits. Out: one [`Reply`] at a time, enhanced
//! code split off, text safe to log, or a [`MalformedReply`]. The reader keeps at most one
//! unfinished line and one unfinished reply; what a hostile server sends beyond the named
//! bounds is read and dropped, so memory does not grow with it. A bare LF ends a line, because
//! real servers send it; invalid UTF-8 becomes U+FFFD and control characters become `?`.
//!
//! Deliberately not decided here: what a reply means for a message (`smtp-client`), and how
//! long to wait for the rest of one (the session's deadline).

use crate::{EnhancedCode, Reply};
use memchr::memchr;
use thiserror::Error;

/// Octets of one line that are kept; the rest of the line is dropped.
pub const REPLY_LINE_BYTES_MAX: usize = 4096;
/// Lines of one reply that are kept; further ones are read and dropped.
pub const REPLY_LINES_MAX: usize = 128;
/// Octets of text kept for one whole reply.
pub const REPLY_TEXT_BYTES_MAX: usize = 64 * 1024;
/// Octets one reply may take on the wire before the reader calls the server broken.
pub const REPLY_WIRE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Octets of an offending line quoted in an error.
const EXCERPT_BYTES_MAX: usize = 80;

/// Why bytes are not a reply. After one the connection cannot be trusted any more.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MalformedReply {
    /// The line does not begin with three digits followed by a blank, a hyphen or its end.
    #[error("malformed reply: expected a three-digit code, got `{0}`")]
    NoCode(String),
    /// Three digits outside 200-599 (1xx is not used by SMTP).
    #[error("malformed reply: code {0} is not in 200-599")]
    CodeOutOfRange(u16),
    /// A continuation line carries another code than the first.
    #[error("malformed reply: code {first} is continued with code {then}")]
    MixedCodes {
        /// Code of the first line.
        first: u16,
        /// The differing one.
        then: u16,
    },
    /// More than [`REPLY_WIRE_BYTES_MAX`] octets without an end.
    #[error("malformed reply: longer than {REPLY_WIRE_BYTES_MAX} octets")]
    TooLong,
}

/// One server's replies, as they trickle in.
#[derive(Debug, Default)]
pub struct ReplyReader {
    /// The unfinished line, cut at [`REPLY_LINE_BYTES_MAX`].
    line: Vec<u8>,
    /// The unfinished multi-line reply.
    reply: Option<Reply>,
    lines: usize,
    wire_bytes: usize,
}

impl ReplyReader {
    /// A reader with nothing in it.
    pub fn new() -> ReplyReader {
        ReplyReader::default()
    }

    /// Takes bytes from the front of `input` up to the end of one reply and returns it; `None`
    /// when `input` was used up before. Call again while `input` is not empty.
    pub fn read(&mut self, input: &mut &[u8]) -> Option<Result<Reply, MalformedReply>> {
        while let Some(end) = memchr(b'\n', input) {
            let (chunk, rest) = input.split_at(end);
            *input = &rest[1..];
            self.wire_bytes += chunk.len() + 1;
            let done = if self.line.is_empty() {
                self.line_done(chunk)
            } else {
                self.keep(chunk);
                let line = std::mem::take(&mut self.line);
                self.line_done(&line)
            };
            if let Some(result) = done {
                self.wire_bytes = 0;
                return Some(result);
            }
        }
        self.wire_bytes += input.len();
        self.keep(input);
        *input = &[];
        self.is_too_long().then(|| self.give_up(MalformedReply::TooLong))
    }

    /// True when part of a reply has come.
    pub fn has_partial(&self) -> bool {
        self.wire_bytes > 0
    }

    fn keep(&mut self, chunk: &[u8]) {
        let room = REPLY_LINE_BYTES_MAX.saturating_sub(self.line.len());
        self.line.extend_from_slice(&chunk[..chunk.len().min(room)]);
    }

    fn is_too_long(&self) -> bool {
        self.wire_bytes > REPLY_WIRE_BYTES_MAX
    }

    /// Takes a line without its LF; returns a result when it ends a reply or spoils it.
    fn line_done(&mut self, line: &[u8]) -> Option<Result<Reply, MalformedReply>> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line = &line[..line.len().min(REPLY_LINE_BYTES_MAX)];
        let (code, more) = match code_and_separator(line) {
            Ok(head) => head,
            Err(error) => return Some(self.give_up(error)),
        };
        let text = line.get(4..).unwrap_or(b"");
        match &mut self.reply {
            None => self.reply = Some(first_line(code, text)),
            Some(reply) if reply.code != code => {
                let error = MalformedReply::MixedCodes { first: reply.code, then: code };
                return Some(self.give_up(error));
            }
            Some(reply) if self.lines < REPLY_LINES_MAX => add_line(reply, text),
            Some(_) => {}
        }
        self.lines += 1;
        if more {
            return self.is_too_long().then(|| self.give_up(MalformedReply::TooLong));
        }
        self.lines = 0;
        self.reply.take().map(Ok)
    }

    fn give_up(&mut self, error: MalformedReply) -> Result<Reply, MalformedReply> {
        *self = ReplyReader::default();
        Err(error)
    }
}

/// The code, and whether more lines follow.
fn code_and_separator(line: &[u8]) -> Result<(u16, bool), MalformedReply> {
    let more = match line.get(3) {
        None | Some(b' ') => false,
        Some(b'-') => true,
        Some(_) => return Err(no_code(line)),
    };
    let digits = line.get(..3).filter(|d| d.iter().all(u8::is_ascii_digit)).ok_or_else(|| no_code(line))?;
    let code = digits.iter().fold(0, |code, d| code * 10 + u16::from(d - b'0'));
    match code {
        200..=599 => Ok((code, more)),
        _ => Err(MalformedReply::CodeOutOfRange(code)),
    }
}

fn no_code(line: &[u8]) -> MalformedReply {
    let mut text = String::new();
    push_safely(&mut text, &line[..line.len().min(EXCERPT_BYTES_MAX)]);
    MalformedReply::NoCode(text)
}

fn first_line(code: u16, text: &[u8]) -> Reply {
    let mut safe = String::with_capacity(text.len());
    push_safely(&mut safe, text);
    let split = EnhancedCode::split(&safe).filter(|(e, _)| u16::from(e.class) == code / 100);
    let (enhanced, begins) = split.map_or((None, 0), |(enhanced, rest)| (Some(enhanced), safe.len() - rest.len()));
    safe.drain(..begins);
    Reply { code, enhanced, text: safe }
}

/// Appends a continuation line. Servers repeat the enhanced code on each line (RFC 2034);
/// the text keeps it once, in [`Reply::enhanced`].
fn add_line(reply: &mut Reply, text: &[u8]) {
    if reply.text.len() + text.len() >= REPLY_TEXT_BYTES_MAX {
        return;
    }
    let mut safe = String::with_capacity(text.len());
    push_safely(&mut safe, text);
    let shown = match EnhancedCode::split(&safe) {
        Some((code, rest)) if Some(code) == reply.enhanced => rest,
        _ => &safe,
    };
    reply.text.push('\n');
    reply.text.push_str(shown);
}

/// Appends text that is fit for a log line and for another server's eyes.
fn push_safely(out: &mut String, bytes: &[u8]) {
    if let (true, Ok(text)) = (bytes.iter().all(|octet| matches!(octet, b' '..=b'~')), str::from_utf8(bytes)) {
        return out.push_str(text);
    }
    let text = String::from_utf8_lossy(bytes);
    if !text.chars().any(char::is_control) {
        out.push_str(&text);
        return;
    }
    out.extend(text.chars().map(|c| match c {
        '\t' => ' ',
        c if c.is_control() => '?',
        c => c,
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read_all(pieces: &[&[u8]]) -> Vec<Result<Reply, MalformedReply>> {
        let mut reader = ReplyReader::new();
        let mut found = Vec::new();
        for piece in pieces {
            let mut input = *piece;
            while let Some(result) = reader.read(&mut input) {
                found.push(result);
            }
            assert!(input.is_empty());
        }
        found
    }

    fn one(bytes: &[u8]) -> Result<Reply, MalformedReply> {
        let mut found = read_all(&[bytes]);
        assert_eq!(found.len(), 1, "{}", String::from_utf8_lossy(bytes));
        found.remove(0)
    }

    #[test]
    fn replies_of_every_shape() {
        let cases: [(&[u8], u16, Option<EnhancedCode>, &str); 9] = [
            (b"250 ok\r\n", 250, None, "ok"),
            (b"250\r\n", 250, None, ""),
            (b"250 ok\n", 250, None, "ok"),
            (
                b"250-2.1.0 one\r\n250-2.1.0 two\r\n250 2.1.0 three\r\n",
                250,
                Some(EnhancedCode::new(2, 1, 0)),
                "one\ntwo\nthree",
            ),
            (b"550-5.7.1 no\r\n550 see url\r\n", 550, Some(EnhancedCode::new(5, 7, 1)), "no\nsee url"),
            (b"450 5.7.1 odd\r\n", 450, None, "5.7.1 odd"),
            (b"550 \xff\xfe \x1b[31m\tred\r\n", 550, None, "\u{fffd}\u{fffd} ?[31m red"),
            (b"250 a\rb\0c\r\n", 250, None, "a?b?c"),
            (b"250-\r\n250 \r\n", 250, None, "\n"),
        ];
        for (wire, code, enhanced, text) in cases {
            assert_eq!(one(wire), Ok(Reply { code, enhanced, text: text.to_owned() }));
        }
    }

    #[test]
    fn what_is_not_a_reply() {
        for (wire, error) in [
            (&b"hello\r\n"[..], MalformedReply::NoCode("hello".into())),
            (b"\r\n", MalformedReply::NoCode(String::new())),
            (b"25\r\n", MalformedReply::NoCode("25".into())),
            (b"250ok\r\n", MalformedReply::NoCode("250ok".into())),
            (b"2x0 ok\r\n", MalformedReply::NoCode("2x0 ok".into())),
            (b"999 ok\r\n", MalformedReply::CodeOutOfRange(999)),
            (b"199 ok\r\n", MalformedReply::CodeOutOfRange(199)),
            (b"600 ok\r\n", MalformedReply::CodeOutOfRange(600)),
            (b"000 ok\r\n", MalformedReply::CodeOutOfRange(0)),
            (b"250-a\r\n251 b\r\n", MalformedReply::MixedCodes { first: 250, then: 251 }),
        ] {
            assert_eq!(one(wire), Err(error));
        }
        assert_eq!(
            one(&[b"x".repeat(5000), b"\n".to_vec()].concat()),
            Err(MalformedReply::NoCode("x".repeat(EXCERPT_BYTES_MAX)))
        );
    }

    #[test]
    fn bounds_hold_and_the_rest_is_dropped() {
        let text_room = REPLY_LINE_BYTES_MAX - 4;
        for length in [text_room, text_room + 1, 128 * 1024, 1024 * 1024] {
            let wire = [b"250 ".to_vec(), b"x".repeat(length), b"\r\n".to_vec()].concat();
            // Whole and in pieces: the kept part is the same.
            for pieces in [vec![&wire[..]], wire.chunks(4096).collect(), wire.chunks(1000).collect()] {
                let reply = read_all(&pieces).remove(0).expect("a reply");
                assert_eq!(reply.text.len(), length.min(text_room), "{length}");
            }
        }
        for lines in [REPLY_LINES_MAX, REPLY_LINES_MAX + 1, 5000] {
            let wire = b"250-x\r\n".repeat(lines - 1).into_iter().chain(*b"250 x\r\n").collect::<Vec<u8>>();
            let reply = one(&wire).expect("a reply");
            assert_eq!(reply.text.split('\n').count(), lines.min(REPLY_LINES_MAX));
        }
        let long = [b"250-".to_vec(), b"x".repeat(4000), b"\r\n".to_vec()].concat();
        let wire = [long.repeat(100), b"250 end\r\n".to_vec()].concat();
        assert!(one(&wire).expect("a reply").text.len() <= REPLY_TEXT_BYTES_MAX);
    }

    #[test]
    fn an_endless_reply_is_given_up() {
        for piece in [&b"x".repeat(65_536)[..], &b"250-x\r\n".repeat(10_000)[..]] {
            let mut reader = ReplyReader::new();
            let rounds = REPLY_WIRE_BYTES_MAX / piece.len() + 2;
            let found = (0..rounds).find_map(|_| {
                assert!(reader.line.len() <= REPLY_LINE_BYTES_MAX);
                reader.read(&mut &piece[..])
            });
            assert_eq!(found, Some(Err(MalformedReply::TooLong)));
        }
    }

    #[test]
    fn a_partial_reply_is_known() {
        let mut reader = ReplyReader::new();
        assert!(!reader.has_partial());
        assert_eq!(reader.read(&mut &b"250-a\r\n"[..]), None);
        assert!(reader.has_partial());
        assert!(reader.read(&mut &b"250 b\r\n"[..]).is_some());
        assert!(!reader.has_partial());
    }

    proptest! {
        #[test]
        fn splits_do_not_matter(
            wire in proptest::collection::vec(prop_oneof![Just(b'2'), Just(b'5'), Just(b'0'), Just(b'-'), Just(b' '), Just(b'\r'), Just(b'\n'), any::<u8>()], 0..200),
            cut in 0usize..200,
        ) {
            let cut = cut.min(wire.len());
            let whole = read_all(&[&wire]);
            prop_assert_eq!(&whole, &read_all(&[&wire[..cut], &wire[cut..]]));
            let octets: Vec<&[u8]> = wire.chunks(1).collect();
            prop_assert_eq!(&whole, &read_all(&octets));
            for reply in whole.into_iter().flatten() {
                prop_assert!((200..600).contains(&reply.code));
                prop_assert!(!reply.text.contains(|c: char| c.is_control() && c != '\n'));
            }
        }
    }
}
