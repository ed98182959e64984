//! The body hash, `bh=`: SHA-256 over the canonical body (RFC 6376 sections 3.4.3 and 3.4.4).
//!
//! In: the body as it will be sent. Out: 32 bytes. Cannot fail.
//! A simple body is hashed where it lies. A relaxed one goes through a small buffer, a block at a time, without the octets that
//! canonicalization leaves out; a canonical copy of the whole body is never made.
//! Only CRLF ends a line here; a bare CR or LF is content, as verifiers have it. It leaves as CRLF (`smtp_wire::dot`), so no
//! signature over one holds: who signs has to mend line ends first.
//! Signatures made here have no `l=` (body length): it lets others append to a signed message. To verify those of others,
//! [`limited_body_hash`] hashes the beginning only.

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
        Canonicalization::Relaxed => relax(content, &mut out),
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

/// Gives `out` what relaxed canonicalization makes of `content`, which has no CRLF and no white space at its end: a run of white
/// space becomes a space, and none before a CRLF. So the last octet of a run stays, as a space, and each is judged by the two behind it
/// alone, many at a time.
fn relax(content: &[u8], out: &mut Output) {
    let mut rest = content;
    while let Some(window) = rest.first_chunk() {
        out.relaxed(window, BLOCK_BYTES);
        rest = &rest[BLOCK_BYTES..];
    }
    // The window of the last block reaches beyond what is left.
    let mut padded = [0; WINDOW_BYTES + BLOCK_BYTES];
    padded[..rest.len()].copy_from_slice(rest);
    for (at, length) in [(0, rest.len().min(BLOCK_BYTES)), (BLOCK_BYTES, rest.len().saturating_sub(BLOCK_BYTES))] {
        padded[at..].first_chunk().into_iter().for_each(|window| out.relaxed(window, length));
    }
}

/// Whether the window's first block stays as it is, which most do: no tab, and behind no space another or a CR. What is not so may.
fn stays(window: &[u8; WINDOW_BYTES]) -> bool {
    let is_other = |pair: &[u8]| {
        let (octet, behind) = (pair[0], pair[1]);
        u8::from(octet == b'\t') | u8::from(octet == b' ') & (u8::from(is_wsp(behind)) | u8::from(behind == b'\r'))
    };
    window[..=BLOCK_BYTES].windows(2).fold(0, |any, pair| any | is_other(pair)) == 0
}

/// Which octets of the window's first block are left out.
fn left_out(window: &[u8; WINDOW_BYTES]) -> u64 {
    let mut marked = [0; BLOCK_BYTES];
    for (mark, three) in marked.iter_mut().zip(window.windows(3)) {
        let ends_line = u8::from(three[1] == b'\r') & u8::from(three[2] == b'\n');
        *mark = u8::from(is_wsp(three[0])) & (u8::from(is_wsp(three[1])) | ends_line);
    }
    let words = marked.as_chunks().0.iter().rev();
    words.fold(0, |behind, word| behind << 8 | u64::from_le_bytes(*word).wrapping_mul(GATHER) >> 56)
}

fn is_wsp(octet: u8) -> bool {
    matches!(octet, b' ' | b'\t')
}

/// SHA-256 behind a small buffer: a call per piece would cost more than the hash.
struct Output {
    context: digest::Context,
    /// Whole blocks of it are hashed; behind the last there is room for one more.
    buffer: [u8; BUFFER_BYTES + 2 * BLOCK_BYTES],
    len: usize,
    /// Octets given so far, flushed ones.
    flushed: usize,
    /// Octets behind these are counted and not hashed.
    octets_max: usize,
}

impl Output {
    fn new(octets_max: usize) -> Output {
        let context = digest::Context::new(&digest::SHA256);
        Output { context, buffer: [0; BUFFER_BYTES + 2 * BLOCK_BYTES], len: 0, flushed: 0, octets_max }
    }

    /// The first `length` octets of the window, which are of its first block, as they become.
    fn relaxed(&mut self, window: &[u8; WINDOW_BYTES], length: usize) {
        match stays(window) {
            true => self.put(window, 0, length),
            false => {
                let spaced = window.map(|octet| if octet == b'\t' { b' ' } else { octet });
                self.put_without(&spaced, left_out(window), length);
            }
        }
        if self.len >= BUFFER_BYTES {
            self.hash_buffer(BUFFER_BYTES);
            self.buffer.copy_within(BUFFER_BYTES..self.len, 0);
            self.len -= BUFFER_BYTES;
        }
    }

    /// The same without those that go.
    fn put_without(&mut self, window: &[u8; WINDOW_BYTES], mut goes: u64, length: usize) {
        let mut from = 0;
        while goes != 0 {
            let gap = goes.trailing_zeros();
            self.put(window, from, gap as usize);
            let behind = gap + (goes >> gap).trailing_ones();
            goes &= u64::MAX.checked_shl(behind).unwrap_or(0);
            from = behind as usize;
        }
        self.put(window, from, length);
    }

    /// Octets of the window from one place to another. As many as a block has are copied: that is one move, and what is too many
    /// is written over by the next.
    fn put(&mut self, window: &[u8; WINDOW_BYTES], from: usize, to: usize) {
        self.buffer[self.len..][..BLOCK_BYTES].copy_from_slice(&window[from..][..BLOCK_BYTES]);
        self.len += to - from;
    }

    /// Octets that are canonical.
    fn write(&mut self, octets: &[u8]) {
        self.flush();
        self.context.update(&octets[..octets.len().min(self.room())]);
        self.flushed += octets.len();
    }

    fn flush(&mut self) {
        self.hash_buffer(self.len);
        self.len = 0;
    }

    fn hash_buffer(&mut self, length: usize) {
        self.context.update(&self.buffer[..length.min(self.room())]);
        self.flushed += length;
    }

    /// How many octets are hashed still.
    fn room(&self) -> usize {
        self.octets_max.saturating_sub(self.flushed)
    }

    fn finish(self) -> (BodyHash, usize) {
        (finished(self.context.finish()), self.flushed)
    }
}

fn finished(digest: digest::Digest) -> BodyHash {
    let mut hash = BodyHash::default();
    hash.copy_from_slice(digest.as_ref());
    hash
}

const CRLF: &[u8] = b"\r\n";

/// Octets judged at once: one mark each in a word.
const BLOCK_BYTES: usize = 64;

/// A block with as many octets behind it, so that as many can be copied from each place in it.
const WINDOW_BYTES: usize = 2 * BLOCK_BYTES;

/// Multiplied by eight octets that are 0 or 1, has them as the bits of its highest octet, the first as the lowest.
const GATHER: u64 = 0x0102_0408_1020_4080;

/// Octets after which the buffer is hashed.
const BUFFER_BYTES: usize = 32 * BLOCK_BYTES;
