//! The body hash, `bh=`: SHA-256 over the canonical body (RFC 6376 sections 3.4.3 and 3.4.4).
//!
//! In: the body as it will be sent. Out: 32 bytes. Cannot fail.
//! What is canonical already is hashed where it lies, from one run of white space that changes to the
//! next; short pieces go through a small buffer. A canonical copy of the whole body is never made.
//! Only CRLF ends a line here; a bare CR or LF is content, as verifiers have it. It leaves as CRLF (`smtp_wire::dot`), so no
//! signature over one holds: who signs has to mend line ends first.
//! Signatures made here have no `l=` (body length): it lets others append to a signed message. To verify those of others,
//! [`limited_body_hash`] hashes the beginning only.

use super::Canonicalization;
use aws_lc_rs::digest;
use std::ops::Range;
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
        *place.get_or_init(|| hash(canonicalization, body, Output::new(usize::MAX)).0)
    }
}

/// The hash of the first `octets_max` octets of the canonical body, and how many octets all of it has (RFC 6376 section
/// 3.7, `l=`).
pub fn limited_body_hash(canonicalization: Canonicalization, body: &[u8], octets_max: usize) -> (BodyHash, usize) {
    hash(canonicalization, body, Output::new(octets_max))
}

/// The hash of a body as far as `out` takes it, and the length of the whole, canonical.
fn hash(canonicalization: Canonicalization, body: &[u8], mut out: Output) -> (BodyHash, usize) {
    let content = match canonicalization {
        Canonicalization::Relaxed => &body[..relaxed_len(body)],
        Canonicalization::Simple => &body[..content_len(body)],
    };
    match canonicalization {
        // An empty body is nothing when relaxed and one CRLF when simple.
        Canonicalization::Relaxed if content.is_empty() => return out.finish(),
        Canonicalization::Relaxed => {
            let mut written = 0;
            for (run, becomes) in Runs::of(content) {
                out.write(&content[written..run.start]);
                out.write(becomes);
                written = run.end;
            }
            out.write(&content[written..]);
        }
        Canonicalization::Simple => out.write(content),
    }
    out.write(CRLF);
    out.finish()
}

/// Length of the body without the CRLFs at its end.
fn content_len(body: &[u8]) -> usize {
    let mut rest = body;
    while let Some(shorter) = rest.strip_suffix(CRLF) {
        rest = shorter;
    }
    rest.len()
}

/// The same without white space before any of those CRLFs, which makes lines of it empty.
fn relaxed_len(body: &[u8]) -> usize {
    let mut rest = body;
    loop {
        let blank = rest.iter().rev().take_while(|octet| is_wsp(**octet)).count();
        rest = &rest[..content_len(&rest[..rest.len() - blank])];
        if !rest.last().is_some_and(|octet| is_wsp(*octet)) {
            return rest.len();
        }
    }
}

/// The runs of white space that relaxed canonicalization changes, in order, with what becomes of them: any run but a single
/// space, which becomes one, and any before a CRLF, which goes. Each octet is looked at once, with the one behind it, many
/// at a time.
struct Runs<'a> {
    content: &'a [u8],
    /// Everything before it is done.
    at: usize,
    /// Octets at which such a run may begin, of the block that starts at `block`: bit 0 is its first.
    marks: u64,
    block: usize,
    /// Where the next block starts.
    ahead: usize,
}

impl<'a> Runs<'a> {
    /// Those of `content`, which has no CRLF and no white space at its end.
    fn of(content: &'a [u8]) -> Runs<'a> {
        Runs { content, at: 0, marks: 0, block: 0, ahead: 0 }
    }

    /// The next mark, wherever it is.
    fn next_mark(&mut self) -> Option<usize> {
        while self.marks == 0 {
            let rest = self.content.get(self.ahead..).filter(|rest| !rest.is_empty())?;
            self.marks = marks(rest);
            self.block = self.ahead;
            self.ahead += BLOCK_BYTES;
        }
        let mark = self.block + self.marks.trailing_zeros() as usize;
        self.marks &= self.marks - 1;
        Some(mark)
    }
}

impl Iterator for Runs<'_> {
    type Item = (Range<usize>, &'static [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let start = self.next_mark()?;
            // In the middle of the run before.
            if start < self.at {
                continue;
            }
            let length = self.content[start..].iter().take_while(|octet| is_wsp(**octet)).count();
            let run = start..start + length;
            self.at = run.end;
            let goes = self.content[run.end..].starts_with(CRLF);
            // A single space before a CR that ends no line stays.
            if goes || self.content[run.clone()] != *b" " {
                return Some((run, if goes { b"" } else { b" " }));
            }
        }
    }
}

/// The octets of the first block of `rest` at which a run of white space may begin that changes: a tab, or white space before
/// white space or a CR. The last octet of `rest` is none.
fn marks(rest: &[u8]) -> u64 {
    let mut block = [0; BLOCK_BYTES + 1];
    let octets: &[u8; BLOCK_BYTES + 1] = match rest.first_chunk() {
        Some(whole) => whole,
        None => {
            block[..rest.len()].copy_from_slice(rest);
            &block
        }
    };
    let mut marked = [0; BLOCK_BYTES];
    for (mark, pair) in marked.iter_mut().zip(octets.windows(2)) {
        let (octet, behind) = (pair[0], pair[1]);
        *mark =
            u8::from(octet == b'\t') | u8::from(octet == b' ') & (u8::from(is_wsp(behind)) | u8::from(behind == b'\r'));
    }
    let mut words = [0; BLOCK_BYTES / 8];
    for (word, octets) in words.iter_mut().zip(marked.as_chunks().0) {
        *word = u64::from_le_bytes(*octets);
    }
    // Of most blocks there is nothing to be said.
    if words.iter().fold(0, |any, word| any | word) == 0 {
        return 0;
    }
    words.iter().rev().fold(0, |behind, word| behind << 8 | word.wrapping_mul(GATHER) >> 56)
}

fn is_wsp(octet: u8) -> bool {
    matches!(octet, b' ' | b'\t')
}

/// SHA-256 behind a small buffer: a call per word would cost more than the hash.
struct Output {
    context: digest::Context,
    buffer: [u8; BUFFER_BYTES],
    len: usize,
    /// Octets given so far, flushed ones.
    flushed: usize,
    /// Octets behind these are counted and not hashed.
    octets_max: usize,
}

impl Output {
    fn new(octets_max: usize) -> Output {
        let context = digest::Context::new(&digest::SHA256);
        Output { context, buffer: [0; BUFFER_BYTES], len: 0, flushed: 0, octets_max }
    }

    fn write(&mut self, bytes: &[u8]) {
        if bytes.len() > BUFFER_BYTES - self.len {
            self.flush();
        }
        if bytes.len() >= DIRECT_BYTES {
            self.flush();
            self.context.update(&bytes[..bytes.len().min(self.room())]);
            self.flushed += bytes.len();
        } else {
            self.buffer[self.len..self.len + bytes.len()].copy_from_slice(bytes);
            self.len += bytes.len();
        }
    }

    fn flush(&mut self) {
        self.context.update(&self.buffer[..self.len.min(self.room())]);
        self.flushed += self.len;
        self.len = 0;
    }

    /// How many octets are hashed still.
    fn room(&self) -> usize {
        self.octets_max.saturating_sub(self.flushed)
    }

    fn finish(mut self) -> (BodyHash, usize) {
        self.flush();
        (finished(self.context.finish()), self.flushed)
    }
}

fn finished(digest: digest::Digest) -> BodyHash {
    let mut hash = BodyHash::default();
    hash.copy_from_slice(digest.as_ref());
    hash
}

const CRLF: &[u8] = b"\r\n";

/// Octets searched at once for white space: one mark each in a word.
const BLOCK_BYTES: usize = 64;

/// Multiplied by eight octets that are 0 or 1, has them as the bits of its highest octet, the first as the lowest.
const GATHER: u64 = 0x0102_0408_1020_4080;

/// Size of the buffer before the hash, in bytes.
const BUFFER_BYTES: usize = 2048;

/// Segments of this many bytes go past the buffer.
const DIRECT_BYTES: usize = 512;
