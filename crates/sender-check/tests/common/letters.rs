//! Made-up messages of the shapes that make canonical forms hard.

use fastrand::Rng;

/// A message: folded, 8-bit and giant header fields; bodies that are empty, end in blanks or blank lines, have bare dots or
/// lines of any octets.
pub fn letter(rng: &mut Rng) -> Vec<u8> {
    let mut out = b"From: A <a@ex.example>\r\nTo: b@ex.example".to_vec();
    if rng.bool() {
        out.extend_from_slice(b",\r\n\tC <c@ex.example>,\r\n   d@ex.example \t");
    }
    out.extend_from_slice(b"\r\nSubject:");
    for _ in 0..rng.usize(0..8) {
        out.extend_from_slice(pick(rng, &[" ", "  ", "\t", "\r\n ", "\r\n\t  "]).as_bytes());
        out.extend_from_slice(word(rng).as_bytes());
    }
    // A line of blanks alone is no fold (RFC 5322 section 3.2.2).
    out.extend_from_slice(b" end");
    out.extend_from_slice(pick(rng, &["", " ", "\t "]).as_bytes());
    out.extend_from_slice(b"\r\nDate: Fri, 11 Jul 2003 21:00:37 -0700\r\n");
    if rng.u8(..) < 40 {
        let long = "x".repeat(rng.usize(1..900));
        let folds = rng.usize(1..80);
        out.extend_from_slice(format!("X-Long: {}end\r\n", format!("{long}\r\n ").repeat(folds)).as_bytes());
    }
    if rng.bool() {
        out.extend_from_slice("X-Eight: gr\u{fc}n \u{4f60}\u{597d}\r\n".as_bytes());
    }
    out.extend_from_slice(b"\r\n");
    for _ in 0..rng.usize(0..12) * usize::from(rng.u8(..) > 20) {
        out.extend_from_slice(&line(rng));
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice("\r\n".repeat(rng.usize(0..3)).as_bytes());
    out
}

fn line(rng: &mut Rng) -> Vec<u8> {
    let mut line = match rng.u8(..8) {
        0 => Vec::new(),
        1 => b".".to_vec(),
        2 => b".. dots".to_vec(),
        3 => pick(rng, &[" ", "\t\t", " \t "]).as_bytes().to_vec(),
        4 => (0..rng.usize(1..60)).map(|_| rng.u8(0x80..)).collect(),
        5 => vec![b'x'; rng.usize(900..990)],
        _ => (0..rng.usize(1..9))
            .map(|_| word(rng) + pick(rng, &[" ", "  ", "\t", " \t"]))
            .collect::<String>()
            .into_bytes(),
    };
    if rng.u8(..4) == 0 {
        line.extend_from_slice(pick(rng, &[" ", "\t", "  \t"]).as_bytes());
    }
    line
}

fn word(rng: &mut Rng) -> String {
    (0..rng.usize(1..9)).map(|_| rng.alphanumeric()).collect()
}

fn pick<'a>(rng: &mut Rng, choices: &[&'a str]) -> &'a str {
    choices[rng.usize(..choices.len())]
}

/// The message with one octet that is no white space turned into another: of its body when it has one, else of its Subject.
pub fn altered(rng: &mut Rng, message: &[u8]) -> Vec<u8> {
    let body = message.windows(4).position(|four| four == b"\r\n\r\n").expect("a header") + 4;
    let places: Vec<usize> = (body..message.len()).filter(|&at| message[at].is_ascii_graphic()).collect();
    let subject = message.windows(9).position(|nine| nine == b"\nSubject:").expect("a subject") + 9;
    let end = message.windows(4).position(|four| four == b" end").expect("its end");
    let at = match places.is_empty() || rng.bool() {
        true => end.max(subject) + 1 + rng.usize(..3),
        false => places[rng.usize(..places.len())],
    };
    let mut message = message.to_vec();
    message[at] = if message[at] == b'Q' { b'W' } else { b'Q' };
    message
}
