//! Finds command lines in a receive buffer (RFC 5321 section 4.5.3.1.4).
//!
//! In: the unread octets of a buffer the caller owns. Out: the next line without its end, how
//! many octets it took, or that more input is wanted. A line ends at LF; a CR before it belongs
//! to the end. Bare LF is accepted for *commands* only (deployed clients send it, and a command
//! cannot smuggle content); a bare CR never ends anything.
//!
//! An over-long line is thrown away as it arrives and reported once, when its end has been
//! seen, so memory stays bounded by the caller's buffer however long the line is. The reader
//! holds no text. It gives the same lines wherever the input is cut.

/// Longest command line accepted, line end included, in octets. RFC 5321 asks for 512 plus what
/// extensions add (SIZE, BODY, AUTH, DSN: together under 1 200).
pub const COMMAND_LINE_OCTETS_MAX: usize = 2048;
/// Longest line of an AUTH exchange, line end included, in octets (RFC 4954 section 4).
pub const AUTH_LINE_OCTETS_MAX: usize = 12_288;

/// What [`LineReader::next`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// A whole line, without its end; it took `consumed` octets of the input.
    Complete {
        /// The text before CRLF or LF.
        text: &'a [u8],
        /// Octets to drop from the front of the buffer.
        consumed: usize,
    },
    /// The end of a line longer than the limit was reached; the line itself is gone.
    TooLong {
        /// Octets to drop from the front of the buffer.
        consumed: usize,
    },
    /// More input is wanted. `consumed` is 0 unless part of an over-long line was dropped.
    Incomplete {
        /// Octets to drop from the front of the buffer.
        consumed: usize,
    },
}

/// Position in a stream of lines; see the page.
#[derive(Clone, Debug, Default)]
pub struct LineReader {
    /// Octets at the front of the next input already known to hold no LF.
    searched: usize,
    /// Octets dropped of the over-long line being skipped; 0 when none is.
    skipped: usize,
}

impl LineReader {
    /// A reader at the beginning of a line.
    pub fn new() -> LineReader {
        LineReader::default()
    }

    /// Looks for the next line at the front of `input`, which must begin where the last call's
    /// `consumed` left off. `octets_max` counts the line end too.
    pub fn next<'a>(&mut self, input: &'a [u8], octets_max: usize) -> Line<'a> {
        if self.skipped > 0 {
            return self.skip(input);
        }
        let window = &input[..input.len().min(octets_max)];
        let from = self.searched.min(window.len());
        match memchr::memchr(b'\n', &window[from..]) {
            Some(at) => {
                self.searched = 0;
                let end = from + at;
                let text = window[..end].strip_suffix(b"\r").unwrap_or(&window[..end]);
                Line::Complete { text, consumed: end + 1 }
            }
            None if input.len() >= octets_max => self.skip(input),
            None => {
                self.searched = window.len();
                Line::Incomplete { consumed: 0 }
            }
        }
    }

    /// Octets dropped so far of an over-long line that has not ended; 0 when none is being skipped.
    pub fn skipped(&self) -> usize {
        self.skipped
    }

    fn skip<'a>(&mut self, input: &'a [u8]) -> Line<'a> {
        self.searched = 0;
        match memchr::memchr(b'\n', input) {
            Some(at) => {
                self.skipped = 0;
                Line::TooLong { consumed: at + 1 }
            }
            None => {
                self.skipped = self.skipped.saturating_add(input.len());
                Line::Incomplete { consumed: input.len() }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every line of `input` as text, `None` for an over-long one, fed in pieces cut at `cuts`.
    fn lines(input: &[u8], octets_max: usize, cuts: &[usize]) -> Vec<Option<Vec<u8>>> {
        let mut reader = LineReader::new();
        let mut found = Vec::new();
        let mut start = 0;
        for end in cuts.iter().copied().chain([input.len()]) {
            loop {
                let consumed = match reader.next(&input[start..end], octets_max) {
                    Line::Complete { text, consumed } => {
                        found.push(Some(text.to_vec()));
                        consumed
                    }
                    Line::TooLong { consumed } => {
                        found.push(None);
                        consumed
                    }
                    Line::Incomplete { consumed } => {
                        start += consumed;
                        break;
                    }
                };
                start += consumed;
            }
        }
        found
    }

    #[test]
    fn crlf_and_lf_end_a_line_and_cr_does_not() {
        let found = lines(b"NOOP\r\nRSET\nQU\rIT\r\r\n", 100, &[]);
        let texts: Vec<_> = found.into_iter().flatten().collect();
        assert_eq!(texts, [&b"NOOP"[..], b"RSET", b"QU\rIT\r"]);
    }

    #[test]
    fn the_limit_holds_at_bound_and_bound_plus_one() {
        assert_eq!(lines(b"12345678\r\nA\r\n", 10, &[]), [Some(b"12345678".to_vec()), Some(b"A".to_vec())]);
        assert_eq!(lines(b"123456789\r\nA\r\n", 10, &[]), [None, Some(b"A".to_vec())]);
    }

    #[test]
    fn an_endless_line_is_dropped_as_it_arrives() {
        let mut reader = LineReader::new();
        let piece = [b'x'; 1000];
        for n in 1..=100 {
            assert_eq!(reader.next(&piece, 512), Line::Incomplete { consumed: 1000 });
            assert_eq!(reader.skipped(), n * 1000);
        }
        assert_eq!(reader.next(b"x\nNOOP\r\n", 512), Line::TooLong { consumed: 2 });
        assert_eq!(reader.next(b"NOOP\r\n", 512), Line::Complete { text: b"NOOP", consumed: 6 });
    }

    proptest! {
        #[test]
        fn cuts_do_not_matter(
            input in proptest::collection::vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'a')], 0..60),
            octets_max in 1usize..12,
        ) {
            let whole = lines(&input, octets_max, &[]);
            let single: Vec<usize> = (0..input.len()).collect();
            prop_assert_eq!(&lines(&input, octets_max, &single), &whole);
            for cut in 0..input.len() {
                prop_assert_eq!(&lines(&input, octets_max, &[cut]), &whole);
            }
        }
    }
}
