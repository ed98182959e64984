//! Dot-stuffing of content to be sent behind DATA (RFC 5321 section 4.5.2).
//!
//! In: a message as head and body, the two slices the spool keeps. Out: a [`WireContent`], the
//! slices to write before going on. On the happy path (only CRLF line ends, no line that begins
//! with a dot, or few of them and all known) these are the slices that came in, and nothing is
//! copied. Other parts that have dotted lines are copied with their dots doubled. Content with a
//! bare CR or LF is copied with every line end made CRLF: a bare one lets a careless receiver see
//! an end of data, and commands, where there are none (SMTP smuggling), so none ever leaves here.
//! Nothing here can fail.

use crate::Body;
use crate::body::Lines;
use crate::dots::Dots;
use bytes::Bytes;

/// Content fit for the wire: write `head`, `body` with each of `dots` twice, `end`, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireContent {
    /// First part.
    pub head: Bytes,
    /// Second part; empty when a rewrite joined both.
    pub body: Bytes,
    /// Dots of the second part that are to be written twice.
    pub dots: Dots,
    /// The final dot, with a CRLF before it when the content does not end with one.
    pub end: &'static [u8],
}

/// Makes content fit for the wire, sharing the given slices when they are already. A body behind whole lines that is known to
/// have no dots to double, or few and where, is not looked at.
pub fn wire_slices(head: &Bytes, body: &Body) -> WireContent {
    let before_body = head.last().copied().unwrap_or(LINE_START);
    let in_head = scan(LINE_START, head);
    let (in_body, dots) = match (before_body, body.lines()) {
        (LINE_START, Lines::Plain) => (Found::default(), None),
        (LINE_START, Lines::Dotted(dots)) => (Found { bare: false, dots: true }, dots.as_ref()),
        (before, _) => (scan(before, body), None),
    };
    let last = body.last().or(head.last()).copied();
    if in_head.bare || in_body.bare || last == Some(b'\r') {
        let joined = crlf_only(head.iter().chain(body.iter()), head.len() + body.len());
        return wire_slices(&Bytes::from(joined), &Body::default());
    }
    let ends_a_line = body.ends_with(b"\r\n") || (body.len() < 2 && ends_with_crlf(head, body));
    let dots = dots.filter(|dots| dots.count() * RUN_OCTETS_MIN <= body.len());
    WireContent {
        head: if in_head.dots { stuffed(LINE_START, head) } else { head.clone() },
        body: if in_body.dots && dots.is_none() { stuffed(before_body, body) } else { (**body).clone() },
        dots: dots.cloned().unwrap_or_default(),
        end: if ends_a_line { b".\r\n" } else { b"\r\n.\r\n" },
    }
}

/// True when there is a CR without LF behind it or an LF without CR before it.
pub fn has_bare_line_ends(bytes: &[u8]) -> bool {
    // The LF that stands for "a line begins here" is not part of the content, so a leading LF
    // is bare: scan() sees an LF behind an LF.
    scan(LINE_START, bytes).bare || bytes.last() == Some(&b'\r')
}

/// Where a body has more dots to double than one in so many octets, it is copied instead of written in runs.
const RUN_OCTETS_MIN: usize = 128;

/// What stands before the first octet, for the scan: as if a line had just ended.
const LINE_START: u8 = b'\n';

/// What a scan found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Found {
    /// A CR or LF out of place.
    bare: bool,
    /// A line that begins with a dot.
    dots: bool,
}

/// Looks at each octet together with the one before it. One loop without branches over both
/// questions: the compiler makes it 16 or 32 octets a step, where a search would stop at each
/// of the thousand line ends of a 100 KB message.
fn scan(before: u8, bytes: &[u8]) -> Found {
    let Some(&first) = bytes.first() else { return Found::default() };
    let (mut bare, mut dots) = judge(before, first);
    for (a, b) in bytes.iter().zip(&bytes[1..]) {
        let (odd, dot) = judge(*a, *b);
        bare |= odd;
        dots |= dot;
    }
    Found { bare: bare != 0, dots: dots != 0 }
}

#[inline(always)]
fn judge(before: u8, octet: u8) -> (u8, u8) {
    let bare = u8::from(before == b'\r') ^ u8::from(octet == b'\n');
    let dot = u8::from(before == b'\n') & u8::from(octet == b'.');
    (bare, dot)
}

fn ends_with_crlf(head: &[u8], body: &[u8]) -> bool {
    match body {
        // Empty content is at the start of a line.
        [] => head.is_empty() || head.ends_with(b"\r\n"),
        [last] => *last == b'\n' && head.last() == Some(&b'\r'),
        _ => body.ends_with(b"\r\n"),
    }
}

/// A copy with the dot at the head of each line doubled: whole runs between dotted lines are
/// copied at once, which keeps the copy at memory speed where many lines are dotted.
fn stuffed(before: u8, bytes: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(bytes.len() + bytes.len() / 16 + 1);
    let mut copied = 0;
    if before == b'\n' && bytes.first() == Some(&b'.') {
        out.push(b'.');
    }
    for line_end in memchr::memmem::find_iter(bytes, b"\n.") {
        // With the dot, from which the next run begins.
        out.extend_from_slice(&bytes[copied..line_end + 2]);
        copied = line_end + 1;
    }
    out.extend_from_slice(&bytes[copied..]);
    Bytes::from(out)
}

/// A copy in which every CR, LF and CRLF is a CRLF, as content with a bare one leaves; `capacity` is the octets expected.
pub fn crlf_only<'a>(bytes: impl Iterator<Item = &'a u8>, capacity: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(capacity + capacity / 16 + 2);
    let mut after_cr = false;
    for &octet in bytes {
        match octet {
            b'\n' if after_cr => {}
            b'\r' | b'\n' => out.extend_from_slice(b"\r\n"),
            _ => out.push(octet),
        }
        after_cr = octet == b'\r';
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{DataDecoder, lines_of};
    use proptest::prelude::*;

    fn wire(head: &[u8], body: &[u8]) -> Vec<u8> {
        written(&wire_slices(&Bytes::copy_from_slice(head), &Bytes::copy_from_slice(body).into()))
    }

    fn written(content: &WireContent) -> Vec<u8> {
        let mut body = content.body.to_vec();
        // From behind, so that places stay what they are.
        (0..content.dots.count())
            .rev()
            .filter_map(|index| content.dots.place(index))
            .for_each(|place| body.insert(place, b'.'));
        [&content.head[..], &body, content.end].concat()
    }

    #[test]
    fn dots_that_are_known_and_few_are_not_copied() {
        let line = "x".repeat(RUN_OCTETS_MIN);
        for (count, is_copied) in [(1, false), (8, false), (9, true)] {
            let text = format!("A: b\r\n\r\n{}{}", "..\r\n".repeat(count), format!("{line}\r\n").repeat(8));
            let (mut decoder, mut content) = (DataDecoder::new(usize::MAX), Vec::new());
            decoder.feed(text.as_bytes(), &mut content);
            let content = Body::known(content.into(), decoder.into_lines(), true);
            let (head, body) = (content.slice(..8), content.slice_from(8));
            let sent = wire_slices(&head, &body);
            assert_eq!(
                (sent.body.as_ptr() != body.as_ptr(), sent.dots.count() != count),
                (is_copied, is_copied),
                "{count}"
            );
            assert_eq!(written(&sent), (text + ".\r\n").as_bytes());
            // Behind half a line its first dot begins none.
            let behind = wire_slices(&Bytes::from_static(b"a"), &body);
            assert_eq!(
                written(&behind),
                written(&wire_slices(&Bytes::from_static(b"a"), &Body::from((*body).clone())))
            );
        }
    }

    #[test]
    fn clean_content_is_not_copied() {
        let head = Bytes::from_static(b"Subject: x\r\n\r\n");
        let body = Body::from("one.\r\ntwo .\r\n");
        let content = wire_slices(&head, &body);
        assert_eq!((content.head.as_ptr(), content.body.as_ptr()), (head.as_ptr(), body.as_ptr()));
        assert_eq!(content.end, b".\r\n");
        let dotted = wire_slices(&head, &".\r\n".into());
        assert_eq!(dotted.head.as_ptr(), head.as_ptr(), "only the dotted part is copied");
    }

    #[test]
    fn table_of_wire_forms() {
        for (head, body, expected) in [
            (&b""[..], &b""[..], &b".\r\n"[..]),
            (b"", b".", b"..\r\n.\r\n"),
            (b".", b"", b"..\r\n.\r\n"),
            (b"a\r\n", b".\r\n", b"a\r\n..\r\n.\r\n"),
            (b"a\r\n", b"..b\r\n.c", b"a\r\n...b\r\n..c\r\n.\r\n"),
            (b"a", b".b\r\n", b"a.b\r\n.\r\n"),
            (b"a\r", b"\n.b\r\n", b"a\r\n..b\r\n.\r\n"),
            (b"a\r", b"\n", b"a\r\n.\r\n"),
            (b"a", b"b", b"ab\r\n.\r\n"),
            (b"a\r\n", b"", b"a\r\n.\r\n"),
            (b"a\n", b"b\r\n", b"a\r\nb\r\n.\r\n"),
            (b"a\r", b"b", b"a\r\nb\r\n.\r\n"),
            (b"\n", b".\n", b"\r\n..\r\n.\r\n"),
            (b"x\n.\n", b"MAIL\r", b"x\r\n..\r\nMAIL\r\n.\r\n"),
            (b"x\r\n.\ry", b"", b"x\r\n..\r\ny\r\n.\r\n"),
            (b"x\r\r\n", b"", b"x\r\n\r\n.\r\n"),
        ] {
            assert_eq!(
                String::from_utf8_lossy(&wire(head, body)),
                String::from_utf8_lossy(expected),
                "{:?} {:?}",
                String::from_utf8_lossy(head),
                String::from_utf8_lossy(body)
            );
        }
    }

    #[test]
    fn bare_line_ends_are_found() {
        for bare in [&b"\n"[..], b"\r", b"a\nb", b"a\rb", b"a\r\r\n", b"\r\n\n", b"a\r\n\r"] {
            assert!(has_bare_line_ends(bare), "{bare:?}");
        }
        for clean in [&b""[..], b"a", b"\r\n", b"a\r\n\r\nb\r\n"] {
            assert!(!has_bare_line_ends(clean), "{clean:?}");
        }
    }

    /// A receiver by the book: the content up to CRLF.CRLF, dots undone.
    fn receive(wire: &[u8]) -> Option<Vec<u8>> {
        let mut content = Vec::new();
        let mut rest = wire;
        loop {
            let end = memchr::memmem::find(rest, b"\r\n")? + 2;
            let (line, behind) = rest.split_at(end);
            rest = behind;
            match line.strip_prefix(b".") {
                Some(b"\r\n") => return rest.is_empty().then_some(content),
                Some(undone) => content.extend_from_slice(undone),
                None => content.extend_from_slice(line),
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_known_of_a_body_changes_nothing(
            pieces in proptest::collection::vec(
                prop_oneof![2 => Just(&b"a"[..]), 1 => Just(&[b'x'; 3 * RUN_OCTETS_MIN][..]), 3 => Just(&b"\r\n"[..]), 1 => Just(&b"b."[..]), 1 => Just(&b"."[..])],
                0..8,
            ),
            cut in 0usize..4,
        ) {
            let content = Bytes::from(pieces.concat());
            let cut = pieces[..cut.min(pieces.len())].concat().len();
            let is_dotted = content.starts_with(b".") || content.windows(2).any(|octets| octets == b"\n.");
            let (head, unknown) = (content.slice(..cut), Body::from(content.slice(cut..)));
            let mut decoder = DataDecoder::new(usize::MAX);
            decoder.feed(&wire(b"", &content), &mut Vec::new());
            let known = match (has_bare_line_ends(&content), is_dotted) {
                (true, _) => vec![Lines::Unknown],
                (_, true) => vec![Lines::Dotted(None), decoder.into_lines(), lines_of(&content)],
                (_, false) => vec![Lines::Plain, lines_of(&content)],
            };
            for lines in known {
                let body = Body::known(content.clone(), lines, false).slice_from(cut);
                prop_assert_eq!(written(&wire_slices(&head, &body)), written(&wire_slices(&head, &unknown)));
            }
        }

        #[test]
        fn what_is_received_is_what_was_sent(
            content in proptest::collection::vec(prop_oneof![Just(b'.'), Just(b'\r'), Just(b'\n'), Just(b'a')], 0..40),
            cut in 0usize..40,
        ) {
            let (head, body) = content.split_at(cut.min(content.len()));
            let sent = wire(head, body);
            prop_assert!(!has_bare_line_ends(&sent));
            let mut expected = crlf_only(content.iter(), content.len());
            if !expected.is_empty() && !expected.ends_with(b"\r\n") {
                expected.extend_from_slice(b"\r\n");
            }
            prop_assert_eq!(receive(&sent), Some(expected));
        }
    }
}
