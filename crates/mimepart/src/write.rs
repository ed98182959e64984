//! From a tree to octets.
//!
//! An untouched part is written octet for octet. After an edit the octets between parts are kept as long as they fit: when
//! the header names another boundary, or a line of a part looks like a delimiter, the multipart is framed anew with a
//! boundary that stands in none of its parts (preamble and epilogue go). So an edit can never change the structure.

use crate::mime_params::MimeParams;
use crate::parse::holds_delimiter;
use crate::part::{Body, Child, Multipart};
use crate::{Headers, MimePart};
use bytes::Bytes;
use core::fmt;
use std::collections::BTreeSet;

impl MimePart {
    /// The part with its header, as it is to be sent (RFC 5322).
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write_to(&mut out);
        out
    }

    fn write_to(&self, out: &mut Vec<u8>) {
        let multipart = match &self.body {
            Body::Multipart(multipart) => multipart,
            Body::Leaf(written) => {
                let head = self.headers.to_bytes();
                if out.is_empty() {
                    // Just as much as it takes: it may be kept long.
                    out.reserve_exact(head.len() + SEPARATOR_OCTETS_MAX + written.len());
                }
                out.extend_from_slice(&head);
                push_separator(self, out);
                out.extend_from_slice(written);
                return;
            }
        };
        if self.is_untouched() {
            push_head(self, &self.headers, out);
            for child in &multipart.children {
                out.extend_from_slice(&child.before);
                child.part.write_to(out);
            }
            out.extend_from_slice(&multipart.tail);
            return;
        }
        // written once: a second time on every level would double the work with each
        let pieces: Vec<Vec<u8>> = multipart.children.iter().map(|child| child.part.to_bytes()).collect();
        self.write_edited(multipart, &pieces, out);
    }

    /// The part with its header, whose children are written already.
    pub(crate) fn to_bytes_around(&self, pieces: &[Vec<u8>]) -> Vec<u8> {
        let mut out = Vec::new();
        match &self.body {
            Body::Multipart(multipart) => self.write_edited(multipart, pieces, &mut out),
            Body::Leaf(_) => self.write_to(&mut out),
        }
        out
    }

    fn write_edited(&self, multipart: &Multipart, pieces: &[Vec<u8>], out: &mut Vec<u8>) {
        let declared = self.headers.content_type().filter(|t| t.is_kind("multipart"));
        let wanted = declared.as_ref().and_then(|t| t.parameter("boundary"));
        let fits = |boundary: &str| !pieces.iter().any(|piece| holds_delimiter(piece, boundary));
        if declared.is_none() || wanted == Some(multipart.boundary.as_str()) && fits(&multipart.boundary) {
            push_head(self, &self.headers, out);
            let mut previous: &[u8] = b"";
            for (child, piece) in multipart.children.iter().zip(pieces) {
                push_frame(&child.before, previous, out);
                if !piece.is_empty() {
                    // a delimiter at the very end of the octets may have no line end
                    end_line(out);
                }
                out.extend_from_slice(piece);
                previous = piece;
            }
            push_frame(&multipart.tail, previous, out);
            return;
        }
        let boundary = free_boundary(wanted.unwrap_or(&multipart.boundary), pieces);
        let mut headers = self.headers.clone();
        if let Some(declared) = declared
            && declared.parameter("boundary") != Some(boundary.as_str())
        {
            let of = |declared: MimeParams| declared.with("boundary", &boundary);
            if headers.set_params("Content-Type", of(declared)).is_err() {
                // read tolerantly, but nothing that may be written: what remains is that it has parts
                let _ = headers.set_params("Content-Type", of(MimeParams::new("multipart/mixed")));
            }
        }
        push_head(self, &headers, out);
        for (place, piece) in pieces.iter().enumerate() {
            out.extend_from_slice(&opening(&boundary, place == 0));
            out.extend_from_slice(piece);
        }
        out.extend_from_slice(&closing(&boundary));
    }
}

impl fmt::Display for MimePart {
    /// The octets, those that are no UTF-8 replaced; [`MimePart::to_bytes`] gives them as they are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.to_bytes()))
    }
}

/// A multipart framed with this boundary, which stands in none of the parts.
pub(crate) fn framed(parts: Vec<MimePart>, boundary: &str) -> Multipart {
    let child = |(place, part)| Child { before: opening(boundary, place == 0), part };
    let children = parts.into_iter().enumerate().map(child).collect();
    Multipart { boundary: boundary.to_owned(), children, tail: closing(boundary) }
}

/// The line before a part.
pub(crate) fn opening(boundary: &str, is_first: bool) -> Bytes {
    Bytes::from(format!("{}--{boundary}\r\n", if is_first { "" } else { "\r\n" }))
}

/// The line behind the last part.
pub(crate) fn closing(boundary: &str) -> Bytes {
    Bytes::from(format!("\r\n--{boundary}--\r\n"))
}

/// `base` if no part holds a delimiter of it, else `base` with the first number that stands behind it in none.
pub(crate) fn free_boundary(base: &str, parts: &[Vec<u8>]) -> String {
    let base: String = base.chars().filter(char::is_ascii_graphic).take(BOUNDARY_STEM_MAX).collect();
    let base = if is_boundary(&base) { base } else { "=_part".to_owned() };
    if !parts.iter().any(|part| holds_delimiter(part, &base)) {
        return base;
    }
    // one pass over the parts, however many numbers are taken
    let stem = format!("--{base}.");
    let numbers = |part| memchr::memmem::find_iter(part, &stem).filter_map(|at| number(&part[at + stem.len()..]));
    let taken: BTreeSet<u64> = parts.iter().flat_map(|part: &Vec<u8>| numbers(part.as_slice())).collect();
    let free = (1..).find(|number| !taken.contains(number)).unwrap_or(0_u64);
    format!("{base}.{free}")
}

/// The number `text` begins with.
fn number(text: &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    core::str::from_utf8(&text[..digits]).ok()?.parse().ok()
}

/// RFC 2046 section 5.1.1.
pub(crate) fn is_boundary(boundary: &str) -> bool {
    let is_one = |b: u8| b.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(&b);
    (1..=70).contains(&boundary.len()) && boundary.bytes().all(is_one) && !boundary.ends_with(' ')
}

/// The blank line behind the header, when one is needed or was there.
fn push_separator(part: &MimePart, out: &mut Vec<u8>) {
    let is_bodyless = matches!(&part.body, Body::Leaf(written) if written.is_empty());
    if !part.separator.is_empty() {
        if !part.headers.is_empty() {
            end_line(out);
        }
        out.extend_from_slice(&part.separator);
    } else if !is_bodyless && !part.headers.is_empty() && !part.headers.is_untouched() {
        end_line(out);
        out.extend_from_slice(b"\r\n");
    }
}

fn push_head(part: &MimePart, headers: &Headers, out: &mut Vec<u8>) {
    out.extend_from_slice(&headers.to_bytes());
    push_separator(part, out);
}

/// A delimiter behind a part that had no octets brings no line end of its own; when the part has some now it needs one.
fn push_frame(frame: &[u8], previous: &[u8], out: &mut Vec<u8>) {
    if frame.starts_with(b"--") && !previous.is_empty() {
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(frame);
}

fn end_line(out: &mut Vec<u8>) {
    if !out.is_empty() && !out.ends_with(b"\n") {
        out.extend_from_slice(b"\r\n");
    }
}

/// Octets of a boundary kept when a number is put behind it.
const BOUNDARY_STEM_MAX: usize = 60;
/// A line end that the header lacks, and the blank line.
const SEPARATOR_OCTETS_MAX: usize = 4;
