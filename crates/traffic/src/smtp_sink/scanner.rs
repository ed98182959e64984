//! Finds the end of mail data and takes the dot-stuffing away, without copying and at any split (RFC 5321 4.5.2).
//!
//! In: whatever a read brought, in order. Out: spans of unstuffed content, and where the data ended.
//! Only CRLF.CRLF ends data (and `.CRLF` as the very first line, an empty message); a dot after a bare LF or a bare
//! CR is content. The state between two reads is one byte, so a terminator split over five reads costs nothing.
//! It holds no bytes: what must be kept of the content is the caller's affair.

use memchr::memmem::Finder;

/// Where the scanner stands between two reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DataScanner {
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Inside a line.
    Line,
    /// After a CR that was content.
    Cr,
    /// After CRLF, or at the very start.
    LineStart,
    /// After a dot at the start of a line; the dot is withheld.
    Dot,
    /// After such a dot and a CR; both are withheld.
    DotCr,
}

/// What one call of [`DataScanner::feed`] came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scan {
    /// Bytes of the input that belong to the data, the terminator included.
    pub consumed: usize,
    /// The terminator was found; what follows `consumed` are commands.
    pub ended: bool,
}

impl DataScanner {
    /// A scanner that stands before the first byte of data.
    pub(super) fn new() -> Self {
        Self { state: State::LineStart }
    }

    /// The searcher to pass to `feed`; made once, shared by all sessions.
    ///
    /// It looks for LF and dot, not for all five bytes of the terminator: a stuffed dot has to be found as well, and
    /// two bytes that stand together only at such places make the fastest search.
    pub(super) fn finder() -> Finder<'static> {
        Finder::new(b"\n.")
    }

    /// Reads `input`, giving each unstuffed span to `content` in order.
    pub(super) fn feed(&mut self, finder: &Finder<'_>, input: &[u8], mut content: impl FnMut(&[u8])) -> Scan {
        let mut at = 0;
        let mut span_start = 0;
        while let Some(&byte) = input.get(at) {
            match self.state {
                State::Line => {
                    at = self.skip_lines(finder, input, at);
                    if self.state == State::Dot {
                        content(&input[span_start..at - 1]);
                        span_start = at;
                    }
                    continue;
                }
                State::Cr => self.state = after_content(byte, byte == b'\n'),
                State::LineStart if byte == b'.' => {
                    content(&input[span_start..at]);
                    span_start = at + 1;
                    self.state = State::Dot;
                }
                State::Dot if byte == b'\r' => {
                    span_start = at + 1;
                    self.state = State::DotCr;
                }
                State::LineStart | State::Dot => self.state = after_content(byte, false),
                State::DotCr if byte == b'\n' => {
                    return Scan { consumed: at + 1, ended: true };
                }
                State::DotCr => {
                    content(b"\r");
                    span_start = at;
                    self.state = after_content(byte, false);
                }
            }
            at += 1;
        }
        content(&input[span_start..]);
        Scan { consumed: input.len(), ended: false }
    }

    /// Runs from inside a line to behind the next dot that starts a line, or to the end of the input.
    fn skip_lines(&mut self, finder: &Finder<'_>, input: &[u8], from: usize) -> usize {
        let mut at = from;
        while let Some(offset) = finder.find(&input[at..]) {
            let line_feed = at + offset;
            // When the LF is the first byte searched, the byte before it was no CR: `Line` says so.
            if line_feed > from && input[line_feed - 1] == b'\r' {
                self.state = State::Dot;
                return line_feed + 2;
            }
            at = line_feed + 1;
        }
        let rest = &input[from..];
        self.state = if rest.ends_with(b"\r\n") {
            State::LineStart
        } else if rest.ends_with(b"\r") {
            State::Cr
        } else {
            State::Line
        };
        input.len()
    }
}

fn after_content(byte: u8, completes_line_end: bool) -> State {
    match byte {
        b'\r' => State::Cr,
        b'\n' if completes_line_end => State::LineStart,
        _ => State::Line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Feeds `pieces`; returns the content and what followed the terminator, if it came.
    fn run<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<u8>, Option<Vec<u8>>) {
        let finder = DataScanner::finder();
        let mut scanner = DataScanner::new();
        let mut content = Vec::new();
        let mut after: Option<Vec<u8>> = None;
        for piece in pieces {
            if let Some(after) = &mut after {
                after.extend_from_slice(piece);
                continue;
            }
            let scan = scanner.feed(&finder, piece, |span| content.extend_from_slice(span));
            if scan.ended {
                after = Some(piece[scan.consumed..].to_vec());
            } else {
                assert_eq!(scan.consumed, piece.len());
            }
        }
        (content, after)
    }

    /// Every split into two and three pieces, and byte by byte.
    fn at_every_split(wire: &[u8], content: &[u8], after: Option<&[u8]>) {
        let want = (content.to_vec(), after.map(<[u8]>::to_vec));
        assert_eq!(run(wire.chunks(1)), want, "byte by byte: {}", wire.escape_ascii());
        for first in 0..=wire.len() {
            for second in first..=wire.len() {
                let got = run([&wire[..first], &wire[first..second], &wire[second..]]);
                assert_eq!(got, want, "{first},{second}: {}", wire.escape_ascii());
            }
        }
    }

    #[test]
    fn ends_and_unstuffs_at_every_split() {
        let cases: &[(&[u8], &[u8])] = &[
            (b".\r\n", b""),
            (b"\r\n.\r\n", b"\r\n"),
            (b"a: b\r\n\r\nbody\r\n.\r\n", b"a: b\r\n\r\nbody\r\n"),
            (b"..\r\n.\r\n", b".\r\n"),
            (b"x\r\n...\r\n..y\r\n.\r\n", b"x\r\n..\r\n.y\r\n"),
            (b".x\r\n.\r\n", b"x\r\n"),
            (b".\rx\r\n.\r\n", b"\rx\r\n"),
            (b".\r\r\n.\r\n", b"\r\r\n"),
            (b".\nx\r\n.\r\n", b"\nx\r\n"),
            (b"a\r\r\n.\r\n", b"a\r\r\n"),
            (b"a\n.\r\nb\r\n.\r\n", b"a\n.\r\nb\r\n"),
            (b"a\r.\r\nb\r\n.\r\n", b"a\r.\r\nb\r\n"),
            (b"a\r\n.\nb\r\n.\r\n", b"a\r\n\nb\r\n"),
            (b"a\n\r\n.\r\n", b"a\n\r\n"),
            (b"a\r\n\n.\r\nb\r\n.\r\n", b"a\r\n\n.\r\nb\r\n"),
        ];
        for (wire, content) in cases {
            at_every_split(wire, content, Some(b""));
            let mut pipelined = wire.to_vec();
            pipelined.extend_from_slice(b"MAIL\r\n.\r\n");
            at_every_split(&pipelined, content, Some(b"MAIL\r\n.\r\n"));
        }
    }

    #[test]
    fn nothing_but_crlf_dot_crlf_ends_data() {
        let smuggled: &[&[u8]] =
            &[b"a\n.\n", b"a\n.\r\n", b"a\r.\r", b"a\r\n.\n", b"a\r\n.\r", b"a\r.\r\n", b"a\n.\r", b"\n.\r\n"];
        for wire in smuggled {
            assert_eq!(run([*wire]).1, None, "{}", wire.escape_ascii());
            assert_eq!(run(wire.chunks(1)).1, None, "{}", wire.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn any_content_survives_stuffing_and_any_split(
            text in proptest::collection::vec(proptest::sample::select(&b"a.\r\n"[..]), 0..200),
            cut in 1_usize..40,
        ) {
            let mut content = text;
            if !content.is_empty() {
                content.extend_from_slice(b"\r\n");
            }
            let mut wire = Vec::new();
            let mut at_line_start = true;
            for (at, &byte) in content.iter().enumerate() {
                if at_line_start && byte == b'.' {
                    wire.push(b'.');
                }
                wire.push(byte);
                at_line_start = byte == b'\n' && at > 0 && content[at - 1] == b'\r';
            }
            wire.extend_from_slice(b".\r\nNOOP");
            let (got, after) = run(wire.chunks(cut));
            prop_assert_eq!(got, content);
            prop_assert_eq!(after, Some(b"NOOP".to_vec()));
        }
    }
}
