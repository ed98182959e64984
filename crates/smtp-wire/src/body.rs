//! A body: octets, and what is known of their lines, so that nobody looks at them twice.
//!
//! Who receives content by DATA finds out on the way; what is sent behind DATA needs no second look then. The fact is bound
//! to the octets: whoever has other octets has another body, of which nothing is known. In: octets, and the fact where it is
//! known. Out: the same. Nothing here looks at octets.

use crate::dots::Dots;
use bytes::Bytes;
use core::ops::Deref;

/// Octets of a body. Two are equal when their octets are.
#[derive(Clone, Debug, Default)]
pub struct Body {
    bytes: Bytes,
    lines: Lines,
}

/// What is known of lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Lines {
    /// Nothing.
    #[default]
    Unknown,
    /// ASCII alone, each CR before an LF and each LF behind a CR; some may begin with a dot, these if that is known.
    Dotted(Option<Dots>),
    /// The same, and none begins with a dot, the first included.
    Plain,
}

impl Body {
    /// Octets of which so much is known.
    pub fn known(bytes: Bytes, lines: Lines) -> Body {
        Body { bytes, lines }
    }

    /// What is known.
    pub fn lines(&self) -> &Lines {
        &self.lines
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
        Body { bytes: self.bytes.slice(start..), lines }
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
        Body { bytes: bytes.into(), lines: Lines::Unknown }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_within_a_line_is_not_known() {
        let content = Body::known(Bytes::from_static(b"A: b.\r\n\r\nc\r\n"), Lines::Plain);
        let lines = |start| content.slice_from(start).lines().clone();
        let known: Vec<usize> = (0..=content.len()).filter(|start| lines(*start) == Lines::Plain).collect();
        assert_eq!(known, [0, 7, 9, 12]);
        assert_eq!(lines(1), Lines::Unknown);
        assert_eq!(content.slice_from(9), Body::from("c\r\n"));
        let unknown = Body::from("c\r\n");
        assert_eq!((unknown.lines(), unknown.slice_from(0).lines()), (&Lines::Unknown, &Lines::Unknown));
    }
}
