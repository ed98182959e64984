//! The body hash, `bh=`: SHA-256 over the canonical body (RFC 6376 sections 3.4.3 and 3.4.4).
//!
//! In: the body as it will be sent, whole or in chunks. Out: 32 bytes. Cannot fail.
//! A body that is canonical already (nearly all are) is hashed where it lies after one vectorised
//! test; any other goes through [`BodyHasher`] in segments and a small buffer. A canonical copy of
//! the whole body is never made: copying costs more than the test and the hash together.
//! Only CRLF ends a line here; a bare CR or LF is content, as it is on the wire.
//! Deliberately has no `l=` (body length): it lets others append to a signed message.

use super::Canonicalization;
use aws_lc_rs::digest;
use std::sync::OnceLock;

/// A SHA-256 body hash.
pub type BodyHash = [u8; 32];

/// The body hashes of one message, each made once however many signatures need it. Belongs to one
/// body: make a new one when the body changes.
#[derive(Clone, Debug, Default)]
pub struct BodyHashes {
    relaxed: OnceLock<BodyHash>,
    simple: OnceLock<BodyHash>,
}

impl BodyHashes {
    /// No hash made yet.
    pub fn new() -> BodyHashes {
        BodyHashes::default()
    }

    /// The hash of `body`, which must be the same body in every call.
    pub fn get(&self, canonicalization: Canonicalization, body: &[u8]) -> BodyHash {
        let place = match canonicalization {
            Canonicalization::Relaxed => &self.relaxed,
            Canonicalization::Simple => &self.simple,
        };
        *place.get_or_init(|| hash(canonicalization, body))
    }
}

/// The hash of a whole body.
fn hash(canonicalization: Canonicalization, body: &[u8]) -> BodyHash {
    let content = &body[..content_len(body)];
    match canonicalization {
        Canonicalization::Relaxed if content.is_empty() => finished(digest::digest(&digest::SHA256, b"")),
        Canonicalization::Relaxed if !is_relaxed(content) => {
            let mut hasher = BodyHasher::new(canonicalization);
            hasher.update(body);
            hasher.finish()
        }
        _ => hash_in_place(body, content.len()),
    }
}

/// Hashes the content and one CRLF without copying.
fn hash_in_place(body: &[u8], content_len: usize) -> BodyHash {
    if let Some(canonical) = body.get(..content_len + CRLF.len()) {
        return finished(digest::digest(&digest::SHA256, canonical));
    }
    let mut context = digest::Context::new(&digest::SHA256);
    context.update(&body[..content_len]);
    context.update(CRLF);
    finished(context.finish())
}

/// Length of the body without the CRLFs at its end.
fn content_len(body: &[u8]) -> usize {
    let mut rest = body;
    while let Some(shorter) = rest.strip_suffix(CRLF) {
        rest = shorter;
    }
    rest.len()
}

/// True when relaxed canonicalization changes nothing in `content`, which has no CRLF at its end and
/// gets one: no TAB, no two spaces together, no space before a CR or at the end. A bare CR or LF is
/// content and needs no test of its own.
fn is_relaxed(content: &[u8]) -> bool {
    let Some(last) = content.last() else {
        return true;
    };
    let mut blocks = content.chunks(TEST_BLOCK).zip(content[1..].chunks(TEST_BLOCK));
    !matches!(last, b' ' | b'\t') && blocks.all(|(these, next)| !changes(these, next))
}

/// Whether any byte, seen with the one after it, would be changed. Without a branch inside, so that it
/// is vectorised; do not add an early exit here.
#[inline(always)]
fn changes(these: &[u8], next: &[u8]) -> bool {
    these.iter().zip(next).fold(0_u8, |found, (&a, &b)| {
        let tab = a == b'\t';
        let run = (a == b' ') & ((b == b' ') | (b == b'\r'));
        found | u8::from(tab | run)
    }) != 0
}

/// A body hash made from chunks, cut anywhere.
pub struct BodyHasher {
    canonicalization: Canonicalization,
    out: Output,
    /// CRLFs seen and not hashed: they count only when content follows.
    crlfs: usize,
    /// White space seen and not hashed: it counts only when the line goes on.
    blank: bool,
    /// A CR ended the chunk before: half a CRLF, or content.
    cr: bool,
    /// Content was hashed.
    started: bool,
    at_line_start: bool,
}

impl BodyHasher {
    /// A hash of nothing yet.
    pub fn new(canonicalization: Canonicalization) -> BodyHasher {
        BodyHasher {
            canonicalization,
            out: Output::new(),
            crlfs: 0,
            blank: false,
            cr: false,
            started: false,
            at_line_start: true,
        }
    }

    /// Takes the next part of the body.
    pub fn update(&mut self, chunk: &[u8]) {
        let mut rest = chunk;
        let Some(first) = chunk.first() else {
            return; // a CR held back stays held back
        };
        if self.cr {
            self.cr = false;
            if *first == b'\n' {
                self.end_line();
                rest = &rest[1..];
            } else {
                self.content(b"\r");
            }
        }
        match self.canonicalization {
            Canonicalization::Simple => self.update_simple(rest),
            Canonicalization::Relaxed => self.update_relaxed(rest),
        }
    }

    /// The hash of all chunks.
    pub fn finish(mut self) -> BodyHash {
        if self.cr {
            self.content(b"\r");
        }
        // an empty body is one CRLF when simple and nothing when relaxed
        if self.started || self.canonicalization == Canonicalization::Simple {
            self.out.write(CRLF);
        }
        self.out.finish()
    }

    fn update_simple(&mut self, chunk: &[u8]) {
        let lines = chunk.strip_suffix(b"\r").unwrap_or(chunk);
        let content = content_len(lines);
        if content > 0 {
            self.content(&lines[..content]);
        }
        self.crlfs += (lines.len() - content) / CRLF.len();
        self.cr = lines.len() < chunk.len();
    }

    fn update_relaxed(&mut self, chunk: &[u8]) {
        let mut rest = chunk;
        while !rest.is_empty() {
            if self.at_line_start {
                rest = self.take_clean_lines(rest);
            }
            rest = self.take_one_line(rest);
        }
    }

    /// Hashes the canonical lines `chunk` begins with as one segment; returns the rest.
    fn take_clean_lines<'a>(&mut self, chunk: &'a [u8]) -> &'a [u8] {
        let (mut end, mut content_end, mut crlfs) = (0, 0, 0);
        while let Some(lf) = memchr::memchr(b'\n', &chunk[end..]) {
            let Some(line) = chunk[end..end + lf].strip_suffix(b"\r") else {
                break;
            };
            if !is_relaxed(line) {
                break;
            }
            if !line.is_empty() {
                content_end = end + line.len();
                crlfs = 0;
            }
            crlfs += 1;
            end += lf + 1;
        }
        if content_end > 0 {
            self.content(&chunk[..content_end]);
        }
        self.crlfs += crlfs;
        self.at_line_start = true;
        &chunk[end..]
    }

    /// Works through one line byte by byte; returns what follows its line end.
    fn take_one_line<'a>(&mut self, chunk: &'a [u8]) -> &'a [u8] {
        let mut at = 0;
        while at < chunk.len() {
            match chunk[at] {
                b' ' | b'\t' => self.blank = true,
                b'\r' if at + 1 == chunk.len() => self.cr = true,
                b'\r' if chunk[at + 1] == b'\n' => {
                    self.end_line();
                    return &chunk[at + 2..];
                }
                _ => {
                    let word = chunk[at..].iter().skip(1).take_while(|b| !b" \t\r".contains(b)).count();
                    self.content(&chunk[at..=at + word]);
                    at += word;
                }
            }
            at += 1;
            self.at_line_start = false;
        }
        &[]
    }

    fn end_line(&mut self) {
        self.blank = false;
        self.crlfs += 1;
        self.at_line_start = true;
    }

    /// Content that counts, with whatever was held back before it.
    fn content(&mut self, bytes: &[u8]) {
        while self.crlfs > 0 {
            self.out.write(CRLF);
            self.crlfs -= 1;
        }
        if self.blank {
            self.out.write(b" ");
            self.blank = false;
        }
        self.out.write(bytes);
        self.started = true;
        self.at_line_start = false;
    }
}

/// SHA-256 behind a small buffer: a call per word would cost more than the hash.
struct Output {
    context: digest::Context,
    buffer: [u8; BUFFER_BYTES],
    len: usize,
}

impl Output {
    fn new() -> Output {
        Output { context: digest::Context::new(&digest::SHA256), buffer: [0; BUFFER_BYTES], len: 0 }
    }

    fn write(&mut self, bytes: &[u8]) {
        if bytes.len() > BUFFER_BYTES - self.len {
            self.flush();
        }
        if bytes.len() >= DIRECT_BYTES {
            self.flush();
            self.context.update(bytes);
        } else {
            self.buffer[self.len..self.len + bytes.len()].copy_from_slice(bytes);
            self.len += bytes.len();
        }
    }

    fn flush(&mut self) {
        self.context.update(&self.buffer[..self.len]);
        self.len = 0;
    }

    fn finish(mut self) -> BodyHash {
        self.flush();
        finished(self.context.finish())
    }
}

fn finished(digest: digest::Digest) -> BodyHash {
    let mut hash = BodyHash::default();
    hash.copy_from_slice(digest.as_ref());
    hash
}

const CRLF: &[u8] = b"\r\n";

/// Bytes tested for canonical form before looking at the result: a body that is not stops early.
const TEST_BLOCK: usize = 4096;

/// Size of the buffer before the hash, in bytes.
const BUFFER_BYTES: usize = 2048;

/// Segments of this many bytes go past the buffer.
const DIRECT_BYTES: usize = 512;
