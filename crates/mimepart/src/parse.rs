//! From octets to a tree: headers, delimiters, children (RFC 2046 section 5.1.1).
//!
//! Cannot fail and loses nothing: what is no header is body, a multipart without delimiters is a leaf, one without its
//! closing delimiter ends with its octets. At [`DEPTH_MAX`] and [`PARTS_MAX`] the rest is a leaf's body.
//! A delimiter is a line of two hyphens, the boundary and blanks: a boundary that begins like another is not confused.

use crate::mime_params::MimeParams;
use crate::part::{Body, Child, DEPTH_MAX, Multipart, PARTS_MAX};
use crate::{Headers, MimePart};
use bytes::Bytes;

impl MimePart {
    /// Reads a message, or a part of one. Any octets are one.
    pub fn parse(octets: impl Into<Bytes>) -> MimePart {
        let mut parts_left = PARTS_MAX - 1;
        part(&octets.into(), 1, &mut parts_left)
    }
}

/// The body of a part of this type, standing at `depth`.
pub(crate) fn body(octets: &Bytes, content_type: Option<&MimeParams>, depth: usize, parts_left: &mut usize) -> Body {
    let boundary = content_type.filter(|t| t.is_kind("multipart")).and_then(|t| t.parameter("boundary"));
    match boundary {
        Some(boundary) if depth < DEPTH_MAX && is_usable(boundary) => {
            multipart(octets, boundary, depth, parts_left).map_or_else(|| Body::Leaf(octets.clone()), Body::Multipart)
        }
        _ => Body::Leaf(octets.clone()),
    }
}

/// True when a line of `octets` is a delimiter of this boundary.
pub(crate) fn holds_delimiter(octets: &[u8], boundary: &str) -> bool {
    Delimiters::new(octets, boundary).next().is_some()
}

fn part(octets: &Bytes, depth: usize, parts_left: &mut usize) -> MimePart {
    let (headers, separator, body_start) = Headers::split(octets);
    let body = body(&octets.slice(body_start..), headers.content_type().as_ref(), depth, parts_left);
    MimePart { headers, separator, body, is_body_edited: false }
}

fn multipart(octets: &Bytes, boundary: &str, depth: usize, parts_left: &mut usize) -> Option<Multipart> {
    let mut opening = Vec::new();
    let mut tail_start = octets.len();
    for delimiter in Delimiters::new(octets, boundary) {
        if delimiter.is_closing {
            tail_start = delimiter.start;
            break;
        }
        opening.push(delimiter);
        if opening.len() > *parts_left {
            break;
        }
    }
    if opening.is_empty() || *parts_left == 0 {
        return None;
    }
    if opening.len() > *parts_left {
        opening.truncate(*parts_left);
        tail_start = octets.len();
    }
    *parts_left -= opening.len();
    let mut multipart = Multipart { boundary: boundary.to_owned(), children: Vec::new(), tail: Bytes::new() };
    let mut at = 0;
    for (number, delimiter) in opening.iter().enumerate() {
        let before = octets.slice(at..delimiter.end);
        let next = opening.get(number + 1).map_or(tail_start, |next| next.start);
        // the line end before a delimiter is the delimiter's, unless the line before is one itself
        at = next.max(delimiter.end);
        let part = part(&octets.slice(delimiter.end..at), depth + 1, parts_left);
        multipart.children.push(Child { before, part });
    }
    multipart.tail = octets.slice(at..);
    Some(multipart)
}

/// A line that separates parts, with the line end before it.
struct Delimiter {
    start: usize,
    end: usize,
    is_closing: bool,
}

/// Finds delimiters, first to last.
struct Delimiters<'a> {
    octets: &'a [u8],
    needle: Vec<u8>,
    at: usize,
}

impl<'a> Delimiters<'a> {
    fn new(octets: &'a [u8], boundary: &str) -> Delimiters<'a> {
        Delimiters { octets, needle: format!("--{boundary}").into_bytes(), at: 0 }
    }
}

impl Iterator for Delimiters<'_> {
    type Item = Delimiter;

    fn next(&mut self) -> Option<Delimiter> {
        loop {
            let found = self.at + memchr::memmem::find(&self.octets[self.at..], &self.needle)?;
            self.at = found + self.needle.len();
            if found > 0 && self.octets[found - 1] != b'\n' {
                continue;
            }
            let line_end = memchr::memchr(b'\n', &self.octets[self.at..]).map(|lf| self.at + lf + 1);
            let end = line_end.unwrap_or(self.octets.len());
            let is_closing = match self.octets[self.at..end].trim_ascii() {
                b"" => false,
                b"--" => true,
                _ => continue,
            };
            self.at = end;
            let line = &self.octets[..found];
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            let start = line.strip_suffix(b"\r").unwrap_or(line).len();
            return Some(Delimiter { start, end, is_closing });
        }
    }
}

/// True for a boundary that is looked for. Read tolerantly: RFC 2046 allows 70 characters of a small set.
pub(crate) fn is_usable(boundary: &str) -> bool {
    !boundary.is_empty()
        && boundary.len() <= BOUNDARY_OCTETS_MAX
        && !boundary.contains(['\r', '\n'])
        && boundary.trim_ascii_end() == boundary
}

/// Longest boundary looked for, in octets.
pub const BOUNDARY_OCTETS_MAX: usize = 256;
