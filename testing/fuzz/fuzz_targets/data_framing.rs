//! Content on the wire: the DATA decoder, BDAT chunks, line rules, and dot-stuffing.
//!
//! Input: an octet that chooses the pieces, one that chooses the limit, then octets taken four
//! ways: as a client's stream behind DATA, compared with a decoder that works line by line; as
//! content for `conform`, compared with naive scans; as content to send, which must come back the
//! same from the decoder and end exactly at its end; as the chunks of a BDAT transaction.

#![no_main]

use bytes::Bytes;
use fuzz::pieces;
use fuzz::receiver::{Receiver, Wants};
use libfuzzer_sys::fuzz_target;
use message::MessageId;
use smtp_server::{Answer, Question, Settings};
use smtp_wire::Body;
use smtp_wire::body::Lines;
use smtp_wire::data::{ContentFault, DataDecoder, InvalidLineEndings, conform, lines_of};
use smtp_wire::dot::{WireContent, has_bare_line_ends, wire_slices};
use spool::{Receipt, Volatile};

fuzz_target!(|data: &[u8]| {
    let [cuts, limit, input @ ..] = data else { return };
    let octets_max = if *limit < 128 { usize::from(*limit) } else { usize::MAX };
    decoder(*cuts, octets_max, input);
    rules(usize::from(*limit), input);
    round_trip(*cuts, usize::from(*limit), input);
    chunks(*cuts, input, InvalidLineEndings::Allow);
    chunks(*cuts, input, InvalidLineEndings::Deny);
});

/// The stream behind DATA.
fn decoder(cuts: u8, octets_max: usize, input: &[u8]) {
    let (content, end) = reference(input);
    let mut decoder = DataDecoder::new(octets_max);
    let mut found = Vec::new();
    let mut at = 0;
    let mut ended = false;
    for piece in pieces(cuts, input) {
        let (consumed, now_ended) = decoder.feed(piece, &mut found);
        assert!(now_ended || consumed == piece.len(), "input is left short of the end");
        (at, ended) = (at + consumed, now_ended);
        if ended {
            break;
        }
    }
    assert_eq!(ended.then_some(at), end);
    if ended {
        assert_eq!(decoder.octets(), content.len() as u64);
        assert_eq!(decoder.is_too_big(), content.len() > octets_max);
    }
    match decoder.is_too_big() {
        true => assert!(found.is_empty()),
        // Short of the end the decoder may hold back a dot or what may belong to the end.
        false if !ended => assert!(content.starts_with(&found) && content.len() - found.len() <= 2),
        false => assert_eq!(found, content),
    }
}

/// The definition, a line at a time: content, and where the stream goes on if it ended.
fn reference(input: &[u8]) -> (Vec<u8>, Option<usize>) {
    let mut content = Vec::new();
    let mut at = 0;
    loop {
        let end = input[at..].windows(2).position(|pair| pair == b"\r\n").map(|found| at + found + 2);
        let line = &input[at..end.unwrap_or(input.len())];
        if line == b".\r\n" {
            return (content, end);
        }
        content.extend_from_slice(line.strip_prefix(b".").unwrap_or(line));
        let Some(end) = end else { return (content, None) };
        at = end;
    }
}

/// Bare line ends and long lines.
fn rules(line_octets_max: usize, input: &[u8]) {
    let bare = is_bare(input);
    assert_eq!(smtp_wire::data::has_bare_line_ending(input), bare);
    assert_eq!(has_bare_line_ends(input), bare);
    for policy in [InvalidLineEndings::Deny, InvalidLineEndings::Allow, InvalidLineEndings::Fix] {
        let mut content = input.to_vec();
        let verdict = conform(&mut content, policy, line_octets_max);
        if policy == InvalidLineEndings::Deny && bare {
            assert_eq!(verdict, Err(ContentFault::BareLineEnding));
            continue;
        }
        match policy {
            InvalidLineEndings::Fix => assert_eq!(content, fixed(input)),
            _ => assert_eq!(content, input),
        }
        assert_eq!(verdict.is_err(), is_long(&content, line_octets_max), "{policy:?}");
        let is_crlf = policy != InvalidLineEndings::Allow && !bare;
        assert_eq!(verdict.unwrap_or(is_crlf), is_crlf, "{policy:?}");
    }
}

fn is_bare(content: &[u8]) -> bool {
    let cr = |at: usize| content.get(at) == Some(&b'\r');
    let lf = |at: usize| content.get(at) == Some(&b'\n');
    (0..content.len()).any(|at| cr(at) && !lf(at + 1) || lf(at) && (at == 0 || !cr(at - 1)))
}

fn is_long(content: &[u8], octets_max: usize) -> bool {
    let text = |line: &[u8]| line.strip_suffix(b"\r").unwrap_or(line).len();
    content.split(|octet| *octet == b'\n').any(|line| text(line) > octets_max)
}

fn fixed(content: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(content).into_owned();
    if text.as_bytes() != content {
        // Octet by octet when it is not text.
        let mut out = Vec::new();
        for (at, octet) in content.iter().enumerate() {
            match octet {
                b'\n' if at > 0 && content[at - 1] == b'\r' => {}
                b'\r' | b'\n' => out.extend_from_slice(b"\r\n"),
                other => out.push(*other),
            }
        }
        return out;
    }
    text.replace("\r\n", "\n").replace('\r', "\n").replace('\n', "\r\n").into_bytes()
}

/// What is written of it.
fn on_the_wire(content: &WireContent) -> Vec<u8> {
    let mut body = content.body.to_vec();
    // From behind, so that places stay what they are.
    (0..content.dots.count())
        .rev()
        .filter_map(|index| content.dots.place(index))
        .for_each(|place| body.insert(place, b'.'));
    [&content.head[..], &body, content.end].concat()
}

/// What is sent must be received as it was meant, whatever it looks like.
fn round_trip(cuts: u8, split: usize, input: &[u8]) {
    let split = split.min(input.len());
    let is_dotted = input.first() == Some(&b'.') || input.windows(2).any(|pair| pair == b"\n.");
    let lines = match (is_bare(input), is_dotted) {
        (true, _) => Lines::Unknown,
        (_, true) => Lines::Dotted(None),
        (_, false) => Lines::Plain,
    };
    let content = Body::known(Bytes::copy_from_slice(input), lines, input.is_ascii());
    let wire = wire_slices(&content.slice(..split), &content.slice_from(split));
    let stream = on_the_wire(&wire);
    assert!(!is_bare(&stream), "a bare line end leaves");
    let mut expected = fixed(input);
    if !expected.is_empty() && !expected.ends_with(b"\r\n") {
        expected.extend_from_slice(b"\r\n");
    }
    let mut decoder = DataDecoder::new(usize::MAX);
    let mut content = Vec::new();
    let mut at = 0;
    for piece in pieces(cuts, &stream) {
        let (consumed, ended) = decoder.feed(piece, &mut content);
        at += consumed;
        assert_eq!(ended, at == stream.len(), "the end of data is the end of what was sent");
    }
    assert_eq!(content, expected);
    for lines in [lines_of(&content), decoder.into_lines()] {
        let again = wire_slices(&Bytes::new(), &Body::known(content.clone().into(), lines, false));
        assert_eq!(on_the_wire(&again), stream, "dots are doubled where they were");
    }
}

/// A BDAT transaction whose chunks are the pieces, sent as one pipelined stream cut elsewhere.
fn chunks(cuts: u8, input: &[u8], invalid_line_endings: InvalidLineEndings) {
    let settings = Settings { invalid_line_endings, line_length_hard_limit: usize::MAX, ..Settings::default() };
    let mut stream = b"EHLO a\r\nMAIL FROM:<>\r\nRCPT TO:<b@c.example>\r\n".to_vec();
    for piece in pieces(cuts, input) {
        stream.extend_from_slice(format!("BDAT {}\r\n", piece.len()).as_bytes());
        stream.extend_from_slice(piece);
    }
    stream.extend_from_slice(b"BDAT 0 LAST\r\n");
    let mut found = None;
    let mut answer = |_: &mut smtp_server::Session, question| match question {
        Question::Data(transaction) => {
            found = Some((transaction.content, transaction.lines, transaction.is_ascii));
            Answer::Accepted(vec![Receipt::Volatile(Volatile::by_operator_choice(MessageId::from_bytes([7; 16])))])
        }
        _ => Answer::Continue,
    };
    let mut receiver = Receiver::new(settings);
    receiver.pump(&mut answer);
    for piece in pieces(cuts.wrapping_mul(31).wrapping_add(1), &stream) {
        assert_eq!(receiver.send(piece, &mut answer), Wants::Input);
    }
    let mut expected = input.to_vec();
    if !expected.is_empty() && !expected.ends_with(b"\r\n") {
        expected.extend_from_slice(b"\r\n");
    }
    let is_judged = invalid_line_endings == InvalidLineEndings::Deny;
    let Some((content, lines, is_ascii)) = found else {
        assert!(is_judged && is_bare(input), "refused for nothing");
        return;
    };
    assert!(!(is_judged && is_bare(input)), "a bare line end was taken");
    assert_eq!(content, expected);
    assert_eq!(is_ascii, content.iter().all(|octet| *octet < 128));
    assert_eq!(lines == Lines::Unknown, !is_judged);
    let (known, unknown) = (Body::known(content.clone().into(), lines, is_ascii), Body::from(content));
    let sent = |body: &Body| on_the_wire(&wire_slices(&Bytes::new(), body));
    assert_eq!(sent(&known), sent(&unknown), "dots are doubled where they are");
}
