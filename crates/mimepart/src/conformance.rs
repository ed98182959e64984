//! Whether octets may be sent as they are, and what is wrong if not (`message:check_fix_conformance`).
//!
//! [`Conformance`] is a set of flags, named as KumoMTA names them; [`Conformance::of`] finds them. Looks at the header of
//! every part, and at the octets as a whole for line ends, line lengths and 8-bit octets.

use crate::parse::is_usable as is_usable_boundary;
use crate::part::{Body, DEPTH_MAX};
use crate::transfer::{LINE_OCTETS_MAX, has_canonical_line_ends, longest_line};
use crate::{MimePart, PartError};
use core::fmt;

/// A set of conditions that make a message unfit to be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conformance(u16);

impl Conformance {
    /// A line of a header without a colon, or no header where one must be.
    pub const MISSING_COLON_VALUE: Conformance = Conformance(1);
    /// A CR or LF that stands alone.
    pub const NON_CANONICAL_LINE_ENDINGS: Conformance = Conformance(1 << 1);
    /// White space between the name of a header and its colon.
    pub const NAME_ENDS_WITH_SPACE: Conformance = Conformance(1 << 2);
    /// A line of more than 998 octets (RFC 5322 section 2.1.1).
    pub const LINE_TOO_LONG: Conformance = Conformance(1 << 3);
    /// An octet that is not ASCII, or NUL: not to be sent to every server.
    pub const NEEDS_TRANSFER_ENCODING: Conformance = Conformance(1 << 4);
    /// No Date (RFC 5322 section 3.6).
    pub const MISSING_DATE_HEADER: Conformance = Conformance(1 << 5);
    /// No Message-ID.
    pub const MISSING_MESSAGE_ID_HEADER: Conformance = Conformance(1 << 6);
    /// No MIME-Version (RFC 2045 section 4).
    pub const MISSING_MIME_VERSION: Conformance = Conformance(1 << 7);
    /// Parts within parts beyond what is looked at ([`crate::limits::DEPTH_MAX`]): the innermost is taken for one.
    pub const MIME_NESTING_LIMIT_EXCEEDED: Conformance = Conformance(1 << 8);
    /// A multipart without a boundary, or with one that cannot be used: it is taken for one part (RFC 2046 section 5.1.1).
    pub const MIME_INVALID_BOUNDARY: Conformance = Conformance(1 << 9);
    /// No flag.
    pub const NONE: Conformance = Conformance(0);
    /// All flags.
    pub const ALL: Conformance = Conformance((1 << 10) - 1);
    /// Those that are found and cannot be mended: nobody knows what was meant.
    pub const NOT_MENDED: Conformance =
        Conformance(Self::MIME_NESTING_LIMIT_EXCEEDED.0 | Self::MIME_INVALID_BOUNDARY.0);

    /// Flags from text, `A|B`; blanks around a name and letters of any case are fine, nothing is no flag.
    ///
    /// # Errors
    /// [`PartError::UnknownFlag`].
    pub fn parse(text: &str) -> Result<Conformance, PartError> {
        let mut flags = Conformance::NONE;
        for name in text.split('|').map(str::trim) {
            match NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
                Some((_, flag)) => flags = flags.union(*flag),
                None if text.trim().is_empty() => {}
                None => return Err(unknown(name)),
            }
        }
        Ok(flags)
    }

    /// What is wrong with a message.
    pub fn of(octets: &[u8], message: &MimePart) -> Conformance {
        let mut found = Conformance::NONE;
        let mut note = |flag, is_found: bool| {
            if is_found {
                found = found.union(flag);
            }
        };
        note(Conformance::NON_CANONICAL_LINE_ENDINGS, !has_canonical_line_ends(octets));
        note(Conformance::LINE_TOO_LONG, longest_line(octets) > LINE_OCTETS_MAX);
        note(Conformance::NEEDS_TRANSFER_ENCODING, octets.iter().any(|&b| !b.is_ascii() || b == 0));
        note(Conformance::MISSING_DATE_HEADER, message.headers.first("Date").is_none());
        note(Conformance::MISSING_MESSAGE_ID_HEADER, message.headers.first("Message-ID").is_none());
        note(Conformance::MISSING_MIME_VERSION, message.headers.first("MIME-Version").is_none());
        found.union(of_headers(message, 1))
    }

    /// All flags of both.
    pub fn union(self, other: Conformance) -> Conformance {
        Conformance(self.0 | other.0)
    }

    /// The flags both have.
    pub fn intersection(self, other: Conformance) -> Conformance {
        Conformance(self.0 & other.0)
    }

    /// The flags that the other has not.
    pub fn without(self, other: Conformance) -> Conformance {
        Conformance(self.0 & !other.0)
    }

    /// True without a flag.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// True when both have a flag.
    pub fn intersects(self, other: Conformance) -> bool {
        !self.intersection(other).is_empty()
    }
}

impl fmt::Display for Conformance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = NAMES.iter().filter(|(_, flag)| self.intersects(*flag)).map(|(name, _)| *name);
        f.write_str(&names.collect::<Vec<_>>().join("|"))
    }
}

/// What is wrong with the headers of a part on this level, the root's being the first, and its children.
fn of_headers(part: &MimePart, depth: usize) -> Conformance {
    let mut found = Conformance::NONE;
    for field in part.headers.fields() {
        if field.name.is_empty() {
            found = found.union(Conformance::MISSING_COLON_VALUE);
        } else if matches!(field.whole.get(field.name.len()), Some(b' ' | b'\t')) {
            found = found.union(Conformance::NAME_ENDS_WITH_SPACE);
        }
    }
    let has_body = !matches!(&part.body, Body::Leaf(written) if written.is_empty());
    if part.separator.is_empty() && has_body {
        found = found.union(Conformance::MISSING_COLON_VALUE);
    }
    if matches!(part.body, Body::Leaf(_))
        && let Some(content_type) = part.headers.content_type().filter(|it| it.is_kind("multipart"))
    {
        let is_usable = content_type.parameter("boundary").is_some_and(is_usable_boundary);
        found = found.union(match is_usable {
            false => Conformance::MIME_INVALID_BOUNDARY,
            true if depth >= DEPTH_MAX => Conformance::MIME_NESTING_LIMIT_EXCEEDED,
            true => Conformance::NONE,
        });
    }
    part.children().map(|child| of_headers(child, depth + 1)).fold(found, Conformance::union)
}

fn unknown(name: &str) -> PartError {
    let (nearest, _) =
        NAMES.into_iter().min_by_key(|(known, _)| distance(known, name)).unwrap_or(("", Conformance::NONE));
    let valid = Conformance::ALL.to_string().replace('|', ", ");
    let flag = name.chars().take(FLAG_CHARS_MAX).collect();
    PartError::UnknownFlag { flag, nearest, valid }
}

/// Letters to be changed, put in or taken out to make one of the other (Levenshtein).
fn distance(known: &str, name: &str) -> usize {
    let name: Vec<char> = name.to_ascii_uppercase().chars().take(FLAG_CHARS_MAX).collect();
    let mut row: Vec<usize> = (0..=name.len()).collect();
    for (line, letter) in known.chars().enumerate() {
        let mut diagonal = line;
        row[0] = line + 1;
        for (column, other) in name.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[name.len()]
}

const NAMES: [(&str, Conformance); 10] = [
    ("MISSING_COLON_VALUE", Conformance::MISSING_COLON_VALUE),
    ("NON_CANONICAL_LINE_ENDINGS", Conformance::NON_CANONICAL_LINE_ENDINGS),
    ("NAME_ENDS_WITH_SPACE", Conformance::NAME_ENDS_WITH_SPACE),
    ("LINE_TOO_LONG", Conformance::LINE_TOO_LONG),
    ("NEEDS_TRANSFER_ENCODING", Conformance::NEEDS_TRANSFER_ENCODING),
    ("MISSING_DATE_HEADER", Conformance::MISSING_DATE_HEADER),
    ("MISSING_MESSAGE_ID_HEADER", Conformance::MISSING_MESSAGE_ID_HEADER),
    ("MISSING_MIME_VERSION", Conformance::MISSING_MIME_VERSION),
    ("MIME_NESTING_LIMIT_EXCEEDED", Conformance::MIME_NESTING_LIMIT_EXCEEDED),
    ("MIME_INVALID_BOUNDARY", Conformance::MIME_INVALID_BOUNDARY),
];

/// Characters of a bad flag looked at.
const FLAG_CHARS_MAX: usize = 80;
