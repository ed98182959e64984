//! A body: octets, and what is known of them, so that who sends it need not look for it again.
//!
//! Who receives content knows where its dots are and judges its line ends; what is sent behind DATA needs no second look at
//! either then. The facts are bound to the octets: whoever has other octets has another body, of which nothing is known.
//! They are believed: who states one has looked. In: octets, and facts where they are known. Out: the same.

use crate::dots::Dots;
use bytes::Bytes;
use core::ops::Deref;

/// Octets of a body. Two are equal when their octets are.
#[derive(Clone, Debug, Default)]
pub struct Body {
    bytes: Bytes,
    lines: Lines,
    /// Known to be; where it is not, it may be all the same.
    is_ascii: bool,
}

/// What is known of lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Lines {
    /// Nothing.
    #[default]
    Unknown,
    /// Each CR before an LF and each LF behind a CR; some may begin with a dot, these if that is known.
    Dotted(Option<Dots>),
    /// The same, and none begins with a dot, the first included.
    Plain,
}

impl Body {
    /// Octets of which so much is known; `is_ascii`: that they are.
    pub fn known(bytes: Bytes, lines: Lines, is_ascii: bool) -> Body {
        Body { bytes, lines, is_ascii }
    }

    /// What is known of its lines.
    pub fn lines(&self) -> &Lines {
        &self.lines
    }

    /// Whether it is ASCII alone; looked at where that is not known.
    pub fn is_ascii(&self) -> bool {
        self.is_ascii || self.bytes.is_ascii()
    }

    /// What stands behind `start`. Where that is not the start of a line, nothing is known of it.
    #[must_use]
    pub fn slice_from(&self, start: usize) -> Body {
        let at_line_start = start == 0 || self.bytes.get(start - 1) == Some(&b'\n');
        let lines = match &self.lines {
            _ if !at_line_start => Lines::Unknown,
            Lines::Dotted(dots) => Lines::Dotted(dots.as_ref().map(|dots| dots.behind(start))),
            known => known.clone(),
        };
        Body { bytes: self.bytes.slice(start..), lines, is_ascii: self.is_ascii }
    }

    /// The octets.
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }
}

impl Deref for Body {
    type Target = Bytes;

    fn deref(&self) -> &Bytes {
        &self.bytes
    }
}

impl PartialEq for Body {
    fn eq(&self, other: &Body) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Body {}

impl<T: Into<Bytes>> From<T> for Body {
    /// Nothing is known of it.
    fn from(bytes: T) -> Body {
        Body { bytes: bytes.into(), lines: Lines::Unknown, is_ascii: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_within_a_line_is_not_known() {
        let content = Body::known(Bytes::from_static(b"A: b.\r\n\r\nc\r\n"), Lines::Plain, true);
        let lines = |start| content.slice_from(start).lines().clone();
        let known: Vec<usize> = (0..=content.len()).filter(|start| lines(*start) == Lines::Plain).collect();
        assert_eq!(known, [0, 7, 9, 12]);
        assert_eq!(lines(1), Lines::Unknown);
        assert_eq!(content.slice_from(9), Body::from("c\r\n"));
        let unknown = Body::from("c\r\n");
        assert_eq!((unknown.lines(), unknown.slice_from(0).lines()), (&Lines::Unknown, &Lines::Unknown));
    }

    #[test]
    fn ascii_is_looked_for_where_it_is_not_known() {
        let eight_bits = Body::known(Bytes::from_static(b"A: b\r\n\r\nc\x80\r\n"), Lines::Plain, false);
        assert_eq!((eight_bits.is_ascii(), eight_bits.slice_from(4).is_ascii()), (false, false));
        assert!(eight_bits.slice_from(10).is_ascii(), "behind what is not");
        assert!(Body::from("c\r\n").is_ascii());
        // Believed, not looked at.
        let told = Body::known(Bytes::from_static(b"\x80"), Lines::Unknown, true);
        assert!(told.is_ascii() && told.slice_from(0).is_ascii());
    }
}
