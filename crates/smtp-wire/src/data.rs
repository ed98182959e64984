//! Receives message content: the DATA framing, and the rules every content must keep.
//!
//! [`DataDecoder`] undoes dot-stuffing (RFC 5321 section 4.5.2) while it copies from the receive
//! buffer into the message: the only copy of the body. Only CRLF `.` CRLF ends the data, the
//! leading CRLF being the one behind the DATA command when the content is empty. Nothing
//! else does: no bare CR or LF next to a dot, in any combination (the "SMTP smuggling" family,
//! CVE-2023-51764 and its kin). The decoder does not judge content; content over the size limit
//! is not stored, but still read to its true end so that no octet of it becomes a command.
//!
//! [`conform`] judges complete content, however it came (DATA, BDAT, later HTTP): bare CR and LF
//! according to [`InvalidLineEndings`], and the length of lines. Both scans are one vectorised pass
//! each; together with the copy, 100 KB cost about 10 us.
//!
//! Deliberately absent: replies (smtp-server), header syntax (mime).

use crate::body::Lines;
use crate::dots::Noting;
use memchr::memmem::Finder;
use thiserror::Error;

/// Decodes one DATA content, cut anywhere.
#[derive(Clone, Debug)]
pub struct DataDecoder {
    place: Place,
    octets_max: usize,
    /// Content octets so far, stored or not.
    octets: u64,
    /// Dots that begin lines of the content, lines ending in CRLF alone.
    dots: Noting,
    /// Finds a line that begins with a dot.
    crlf_dot: Finder<'static>,
}

/// What to do about CR without LF and LF without CR in content (KumoMTA's `invalid_line_endings`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum InvalidLineEndings {
    /// Refuse the message (default): whoever sends it could smuggle.
    #[default]
    Deny,
    /// Keep the octets as they are.
    Allow,
    /// Make each of them CRLF.
    Fix,
}

/// Why content is refused by [`conform`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ContentFault {
    /// CR without LF or LF without CR under [`InvalidLineEndings::Deny`].
    #[error("message data must use CRLF for line endings")]
    BareLineEnding,
    /// A line longer than the limit.
    #[error("line of more than {octets_max} octets")]
    LineTooLong {
        /// The limit, line end not counted.
        octets_max: usize,
    },
}

impl DataDecoder {
    /// A decoder standing behind `DATA CRLF`, storing at most `octets_max` octets.
    pub fn new(octets_max: usize) -> DataDecoder {
        DataDecoder {
            place: Place::LineStart,
            octets_max,
            octets: 0,
            dots: Noting::default(),
            crlf_dot: Finder::new(b"\r\n."),
        }
    }

    /// Decodes from the front of `input` onto the end of `content`. Returns the octets consumed
    /// and whether the end was reached; short of the end everything is consumed. Once the
    /// content is over the limit, `content` is emptied and stays so.
    pub fn feed(&mut self, input: &[u8], content: &mut Vec<u8>) -> (usize, bool) {
        let mut at = 0;
        while at < input.len() {
            if self.place == Place::Text {
                at += self.copy_run(&input[at..], content);
                continue;
            }
            let ended = self.step(input[at], content);
            at += 1;
            if ended {
                return (at, true);
            }
        }
        (at, false)
    }

    /// Content octets seen so far, stored or not.
    pub fn octets(&self) -> u64 {
        self.octets
    }

    /// What the content's dots say of its lines, for content that has no bare CR or LF.
    pub fn into_lines(self) -> Lines {
        noted(self.dots)
    }

    /// True when the content is larger than the limit; it was not stored then.
    pub fn is_too_big(&self) -> bool {
        self.octets > self.octets_max as u64
    }

    /// Inside a line: copies up to the next CRLF that a dot follows, or everything.
    /// Returns the octets taken, the dot of a line that goes on among them; at least one.
    fn copy_run(&mut self, run: &[u8], content: &mut Vec<u8>) -> usize {
        let (taken, place) = match self.crlf_dot.find(run) {
            Some(at) if matches!(run.get(at + 3), Some(octet) if *octet != b'\r') => {
                self.store(&run[..at + 2], content);
                if run[at + 3] == b'.' {
                    self.note_dot();
                }
                return at + 3;
            }
            Some(at) => (at + 2, Place::LineStart),
            None if run.ends_with(b"\r\n") => (run.len(), Place::LineStart),
            None if run.ends_with(b"\r") => (run.len(), Place::TextCr),
            None => (run.len(), Place::Text),
        };
        self.store(&run[..taken], content);
        self.place = place;
        taken
    }

    /// One octet where context matters: at a line's start, behind its dot, behind a CR.
    fn step(&mut self, octet: u8, content: &mut Vec<u8>) -> bool {
        self.place = match (self.place, octet) {
            (Place::LineStart, b'.') => Place::Dot,
            (Place::Dot, b'\r') => Place::DotCr,
            (Place::DotCr, b'\n') => return true,
            (Place::TextCr, b'\n') => {
                self.store(b"\n", content);
                Place::LineStart
            }
            (place, _) => {
                if place == Place::Dot && octet == b'.' {
                    self.note_dot();
                }
                // The dot of a line that goes on is dropped; a CR held back with it is not.
                if place == Place::DotCr {
                    self.store(b"\r", content);
                }
                self.store(&[octet], content);
                if octet == b'\r' { Place::TextCr } else { Place::Text }
            }
        };
        false
    }

    /// A dot that begins a line is next; of content that is not stored, nobody wants to know.
    fn note_dot(&mut self) {
        if !self.is_too_big() {
            self.dots.note(self.octets);
        }
    }

    fn store(&mut self, octets: &[u8], content: &mut Vec<u8>) {
        self.octets = self.octets.saturating_add(octets.len() as u64);
        if self.is_too_big() {
            content.clear();
        } else {
            content.extend_from_slice(octets);
        }
    }
}

/// Checks complete content against the policy and the line limit (line end not counted);
/// under [`InvalidLineEndings::Fix`] repairs it. Bare line ends are reported before long lines.
/// True when every line end is known to be CRLF, as it came: under [`InvalidLineEndings::Allow`] nobody looks.
pub fn conform(
    content: &mut Vec<u8>,
    policy: InvalidLineEndings,
    line_octets_max: usize,
) -> Result<bool, ContentFault> {
    let mut is_crlf = policy != InvalidLineEndings::Allow;
    if is_crlf && has_bare_line_ending(content) {
        if policy == InvalidLineEndings::Deny {
            return Err(ContentFault::BareLineEnding);
        }
        *content = with_crlf(content);
        is_crlf = false;
    }
    match has_line_over(content, line_octets_max) {
        true => Err(ContentFault::LineTooLong { octets_max: line_octets_max }),
        false => Ok(is_crlf),
    }
}

/// What is known of lines of content that [`conform`] found to have no bare CR or LF, its dots with it.
pub fn lines_of(content: &[u8]) -> Lines {
    debug_assert!(!has_bare_line_ending(content), "a bare line end");
    noted(Noting::of(content))
}

fn noted(dots: Noting) -> Lines {
    if dots.is_empty() { Lines::Plain } else { Lines::Dotted(dots.into_dots()) }
}

/// True when a CR is not followed by LF or an LF not preceded by CR.
pub fn has_bare_line_ending(content: &[u8]) -> bool {
    let (Some(first), Some(last)) = (content.first(), content.last()) else {
        return false;
    };
    if *first == b'\n' || *last == b'\r' {
        return true;
    }
    // "CR here" must equal "LF next" at every place. No branch inside a block, so that it
    // vectorises; a branch between blocks, so that a hopeless content is not read to its end.
    let next = &content[1..];
    let here = &content[..next.len()];
    here.chunks(SCAN_BLOCK_OCTETS).zip(next.chunks(SCAN_BLOCK_OCTETS)).any(|(here, next)| {
        let mut odd = false;
        for (a, b) in here.iter().zip(next) {
            odd |= (*a == b'\r') ^ (*b == b'\n');
        }
        odd
    })
}

/// True when more than `octets_max` octets stand without an LF (a CR before the LF not counted).
pub fn has_line_over(content: &[u8], octets_max: usize) -> bool {
    let mut rest = content;
    // No line is too long in a window that just holds the longest line and its end, if a
    // line ends there; so only the last line end of each window has to be found.
    let window = octets_max.saturating_add(2);
    while rest.len() > octets_max {
        let head = &rest[..rest.len().min(window)];
        let Some(end) = memchr::memrchr(b'\n', head) else {
            let bare = head.strip_suffix(b"\r").unwrap_or(head);
            return bare.len() > octets_max;
        };
        // A window may hold a line of one octet too many that ends in a bare LF.
        if end > octets_max && head[..end].last() != Some(&b'\r') && !head[..end].contains(&b'\n') {
            return true;
        }
        rest = &rest[end + 1..];
    }
    false
}

/// The content with every CR, LF and CRLF made CRLF.
fn with_crlf(content: &[u8]) -> Vec<u8> {
    let mut fixed = Vec::with_capacity(content.len() + content.len() / 32);
    let mut rest = content;
    while let Some(at) = memchr::memchr2(b'\r', b'\n', rest) {
        fixed.extend_from_slice(&rest[..at]);
        fixed.extend_from_slice(b"\r\n");
        let pair = rest[at..].starts_with(b"\r\n");
        rest = &rest[at + 1 + usize::from(pair)..];
    }
    fixed.extend_from_slice(rest);
    fixed
}

/// Where the decoder stands in the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Behind a CRLF, or at the very start.
    LineStart,
    /// Behind a dot at the line's start; the dot is held back.
    Dot,
    /// Behind that dot and a CR; both are held back.
    DotCr,
    /// In a line, the octet before is not a CR that was stored.
    Text,
    /// In a line, behind a stored CR.
    TextCr,
}

/// Small enough to stay in the first cache, large enough to forget the loop around it.
const SCAN_BLOCK_OCTETS: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition, one octet at a time: content and octets consumed at the end, if reached.
    fn reference(input: &[u8]) -> (Vec<u8>, Option<usize>) {
        let mut content = Vec::new();
        let mut start = 0;
        loop {
            let line_end = input[start..].windows(2).position(|pair| pair == b"\r\n");
            let end = line_end.map_or(input.len(), |at| start + at + 2);
            let line = &input[start..end];
            if line == b".\r\n" {
                return (content, Some(end));
            }
            content.extend_from_slice(line.strip_prefix(b".").unwrap_or(line));
            if line_end.is_none() {
                return (content, None);
            }
            start = end;
        }
    }

    fn decode(input: &[u8], cuts: &[usize], octets_max: usize) -> (Vec<u8>, Option<usize>) {
        let mut decoder = DataDecoder::new(octets_max);
        let mut content = Vec::new();
        let mut start = 0;
        for end in cuts.iter().copied().chain([input.len()]) {
            let (consumed, ended) = decoder.feed(&input[start..end], &mut content);
            start += consumed;
            if ended {
                let begins_line = |at: &usize| content[*at] == b'.' && (*at == 0 || content[..*at].ends_with(b"\r\n"));
                let dots: Vec<usize> = (0..content.len()).filter(begins_line).collect();
                let noted = match decoder.into_lines() {
                    Lines::Dotted(noted) => {
                        noted.map(|noted| (0..noted.count()).filter_map(|index| noted.place(index)).collect())
                    }
                    lines => (lines == Lines::Plain).then(Vec::new),
                };
                assert_eq!(noted, Some(dots), "{:?}", String::from_utf8_lossy(&content));
                return (content, Some(start));
            }
            assert_eq!(start, end, "all input is taken short of the end");
        }
        (content, None)
    }

    #[test]
    fn empty_content_and_leading_dots_are_right() {
        let cases: [(&[u8], &[u8]); 6] = [
            (b".\r\n", b""),
            (b"..\r\n.\r\n", b".\r\n"),
            (b"..a\r\n...\r\n.\r\n", b".a\r\n..\r\n"),
            (b"\r\n.\r\n", b"\r\n"),
            (b"a\r\n.b\r\n.\r\n", b"a\r\nb\r\n"),
            (b".\rx\r\n.\r\n", b"\rx\r\n"),
        ];
        for (input, content) in cases {
            let more = [input, b"QUIT\r\n"].concat();
            assert_eq!(decode(&more, &[], 1000), (content.to_vec(), Some(input.len())), "{input:?}");
        }
    }

    #[test]
    fn content_over_the_limit_is_read_to_its_end_and_not_kept() {
        let input = b"12345\r\n78\r\n.\r\nQUIT\r\n";
        assert_eq!(decode(input, &[], 11), (b"12345\r\n78\r\n".to_vec(), Some(14)));
        for cut in 0..14 {
            let mut decoder = DataDecoder::new(10);
            let mut content = Vec::new();
            let (first, _) = decoder.feed(&input[..cut], &mut content);
            let (second, ended) = decoder.feed(&input[cut..], &mut content);
            assert_eq!((first + second, ended, decoder.is_too_big(), content.len()), (14, true, true, 0));
        }
    }

    #[test]
    fn dots_of_content_that_is_not_kept_are_not_noted() {
        let mut decoder = DataDecoder::new(7);
        decoder.feed(b"..\r\n..\r\n..\r\n..\r\n.\r\n", &mut Vec::new());
        let Lines::Dotted(Some(dots)) = decoder.into_lines() else { panic!("dotted") };
        assert_eq!((dots.count(), dots.place(2)), (3, Some(6)));
    }

    #[test]
    fn bare_line_ends_are_refused_kept_or_fixed() {
        for bare in [&b"a\nb\r\n"[..], b"a\rb\r\n", b"\na\r\n", b"a\r\n\r", b"a\n\rb\r\n", b"\n", b"\r"] {
            let mut content = bare.to_vec();
            let denied = conform(&mut content, InvalidLineEndings::Deny, 998);
            assert_eq!(denied, Err(ContentFault::BareLineEnding), "{bare:?}");
            assert_eq!(conform(&mut content, InvalidLineEndings::Allow, 998), Ok(false));
            assert_eq!(content, bare);
            assert_eq!(conform(&mut content, InvalidLineEndings::Fix, 998), Ok(false));
            assert_eq!(conform(&mut content, InvalidLineEndings::Deny, 998), Ok(true));
            assert!(!has_bare_line_ending(&content));
        }
        let mut content = b"a\nb\rc\n\rd\r\n\r\r\n".to_vec();
        assert_eq!(conform(&mut content, InvalidLineEndings::Fix, 998), Ok(false));
        assert_eq!(content, b"a\r\nb\r\nc\r\n\r\nd\r\n\r\n\r\n");
    }

    #[test]
    fn bare_line_ends_are_seen_at_block_borders() {
        for at in SCAN_BLOCK_OCTETS - 3..SCAN_BLOCK_OCTETS + 3 {
            for bare in [b'\r', b'\n'] {
                let mut content = vec![b'x'; SCAN_BLOCK_OCTETS * 2];
                assert!(!has_bare_line_ending(&content));
                content[at] = bare;
                assert!(has_bare_line_ending(&content), "{bare} at {at}");
                content[at..at + 2].copy_from_slice(b"\r\n");
                assert!(!has_bare_line_ending(&content), "CRLF at {at}");
            }
        }
    }

    #[test]
    fn line_length_holds_at_bound_and_bound_plus_one() {
        for (length, over) in [(997, false), (998, false), (999, true), (1000, true), (5000, true)] {
            for end in ["\r\n", "\n"] {
                let line = "x".repeat(length) + end;
                for text in [line.clone(), format!("a{end}{line}b{end}"), format!("{end}{end}{line}")] {
                    assert_eq!(has_line_over(text.as_bytes(), 998), over, "{length} octets");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_reference_at_every_cut(
            input in proptest::collection::vec(
                prop_oneof![3 => Just(b'\r'), 3 => Just(b'\n'), 3 => Just(b'.'), 1 => Just(b'a')], 0..40),
        ) {
            let expected = reference(&input);
            let expected = match decode(&input, &[], 1000) {
                // Short of the end the reference shows what may still be held back.
                (content, None) => {
                    prop_assert!(expected.1.is_none());
                    (content, None)
                }
                found => { prop_assert_eq!(&found, &expected); found }
            };
            let single: Vec<usize> = (1..input.len()).collect();
            prop_assert_eq!(&decode(&input, &single, 1000), &expected);
            for cut in 0..input.len() {
                prop_assert_eq!(&decode(&input, &[cut], 1000), &expected);
            }
        }

        #[test]
        fn line_length_agrees_with_splitting(
            input in proptest::collection::vec(prop_oneof![1 => Just(b'\r'), 2 => Just(b'\n'), 5 => Just(b'a')], 0..60),
            octets_max in 0usize..9,
        ) {
            let ended = [&input[..], b"\r\n"].concat();
            let longest = ended.split_inclusive(|b| *b == b'\n').map(|line| {
                let text = line.strip_suffix(b"\n").unwrap_or(line);
                text.strip_suffix(b"\r").unwrap_or(text).len()
            });
            prop_assert_eq!(has_line_over(&ended, octets_max), longest.max() > Some(octets_max));
        }
    }
}
