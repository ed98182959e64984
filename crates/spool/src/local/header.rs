//! The first line of a message file (docs/local-disk.md section 2): made, and read back with every field checked.

use super::names::Run;
use crate::SpoolError;
use clock::WallTime;
use crc32fast::Hasher;
use message::{Envelope, MessageId, Meta, Sealed, TlsDemand};
use serde_json::{Map, Value};
use smtp_wire::{Dsn, Mailbox, ReversePath};

/// What the first line says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Header {
    pub run: Run,
    /// Octets of the line itself, newline included.
    pub line: usize,
    pub envelope: Envelope,
    pub meta: Meta,
    pub due: WallTime,
    pub head: u32,
    pub body: u32,
    pub content_crc: u32,
}

/// The fixed beginning of a first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// Ours: the length of the line, and the run that wrote it.
    Known { line: usize, run: Run },
    /// Written by a newer program: its version.
    Newer(u64),
    /// Not the beginning of a message file.
    Strange,
}

impl Start {
    /// From the first [`START_OCTETS`] of a file, or all of a shorter one.
    pub fn parse(octets: &[u8]) -> Start {
        Start::parts(octets).map_or(Start::Strange, |(start, _)| start)
    }

    /// With the crc the line says.
    fn parts(octets: &[u8]) -> Option<(Start, u32)> {
        let rest = octets.strip_prefix(MAGIC.as_bytes())?;
        let digits = rest.iter().take(VERSION_DIGITS_MAX).take_while(|octet| octet.is_ascii_digit()).count();
        let version: u64 = core::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
        if rest.get(digits) != Some(&b' ') {
            return None;
        }
        if version > VERSION {
            return Some((Start::Newer(version), 0));
        }
        let rest = core::str::from_utf8(octets.get(MAGIC.len() + 2..START_OCTETS)?).ok()?;
        let rest = rest.strip_prefix("run=")?;
        let run = hex(rest.get(..16)?)?;
        let rest = rest[16..].strip_prefix(" crc=")?;
        let crc = hex(rest.get(..8)?)? as u32;
        let rest = rest[8..].strip_prefix(" line=")?;
        let line = hex(rest.get(..8)?)? as usize;
        let sound = version == VERSION && &rest[8..] == " " && line > START_OCTETS && line <= LINE_OCTETS_MAX;
        sound.then_some((Start::Known { line, run: Run(run) }, crc))
    }
}

impl Header {
    /// From a whole first line; `None` when it is not one of message `id`.
    pub fn decode(line: &[u8], id: MessageId) -> Option<Header> {
        let (Start::Known { line: length, run }, crc) = Start::parts(line)? else { return None };
        let json = line.get(START_OCTETS..)?.strip_suffix(b"\n")?;
        if line.len() != length || seeded(id, run, json) != crc {
            return None;
        }
        let fields: Map<String, Value> = serde_json::from_slice(json).ok()?;
        let text = |key: &str| fields.get(key)?.as_str();
        let octets = |key: &str| fields.get(key)?.as_u64().and_then(|n| u32::try_from(n).ok());
        if text("id")?.parse() != Ok(id) {
            return None;
        }
        let recipients = fields.get("to")?.as_array()?;
        let recipients: Option<Vec<Mailbox>> = recipients.iter().map(|r| Mailbox::parse(r.as_str()?).ok()).collect();
        Some(Header {
            run,
            line: length,
            envelope: envelope(&fields, recipients?)?,
            meta: Meta::from(fields.get("meta")?.as_object()?.clone()),
            due: WallTime::from_unix_micros(fields.get("due")?.as_i64()?),
            head: octets("head")?,
            body: octets("body")?,
            content_crc: hex(text("content_crc")?)? as u32,
        })
    }

    /// Octets of head and body.
    pub fn content(&self) -> u64 {
        u64::from(self.head) + u64::from(self.body)
    }

    /// Where the content ends and marks begin.
    pub fn end(&self) -> u64 {
        self.line as u64 + self.content()
    }
}

fn envelope(fields: &Map<String, Value>, recipients: Vec<Mailbox>) -> Option<Envelope> {
    let sender = ReversePath::parse(fields.get("from")?.as_str()?).ok()?;
    let dsn = match fields.get("dsn") {
        None => None,
        Some(options) => {
            let texts = options.as_array()?.iter().map(Value::as_str).collect::<Option<Vec<&str>>>()?;
            let (mail, of_recipients) = texts.split_first()?;
            Some(Box::new(Dsn::parse(mail, of_recipients.iter().copied()).ok()?))
        }
    };
    let tls = match fields.get("tls") {
        None => TlsDemand::Usual,
        Some(word) => TlsDemand::of_word(word.as_str()?)?,
    };
    Some(Envelope { sender, recipients, dsn, tls })
}

/// The first line for a message.
///
/// # Errors
/// `TooBig` when it would be longer than [`LINE_OCTETS_MAX`].
pub(crate) fn encode(sealed: &Sealed, run: Run) -> Result<Vec<u8>, SpoolError> {
    let Sealed { id, envelope, meta, head, body, due } = sealed;
    let mut line = vec![b' '; START_OCTETS];
    line.reserve(JSON_OCTETS_USUAL);
    line.extend_from_slice(format!("{{\"id\":\"{id}\",\"from\":").as_bytes());
    put_text(envelope.sender.as_str(), &mut line);
    line.extend_from_slice(b",\"to\":[");
    for (i, recipient) in envelope.recipients.iter().enumerate() {
        if i > 0 {
            line.push(b',');
        }
        put_text(recipient.as_str(), &mut line);
    }
    line.push(b']');
    if let Some(dsn) = &envelope.dsn {
        line.extend_from_slice(b",\"dsn\":[");
        put_text(&dsn.mail_text(), &mut line);
        for recipient in 0..envelope.recipients.len() {
            line.push(b',');
            put_text(&dsn.rcpt_text(recipient), &mut line);
        }
        line.push(b']');
    }
    if let Some(word) = envelope.tls.word() {
        line.extend_from_slice(b",\"tls\":");
        put_text(word, &mut line);
    }
    line.extend_from_slice(b",\"meta\":");
    // A map of JSON values with string keys always serialises, and a Vec always takes it.
    let _ = serde_json::to_writer(&mut line, meta.as_map());
    let rest = format!(
        ",\"due\":{},\"head\":{},\"body\":{},\"content_crc\":\"{:08x}\"}}\n",
        due.unix_micros(),
        head.len(),
        body.len(),
        content_crc(head, body)
    );
    line.extend_from_slice(rest.as_bytes());
    if line.len() > LINE_OCTETS_MAX {
        return Err(SpoolError::TooBig { octets: line.len() as u64, octets_max: LINE_OCTETS_MAX as u64 });
    }
    let crc = seeded(*id, run, &line[START_OCTETS..line.len() - 1]);
    let start = format!("{MAGIC}{VERSION} run={run} crc={crc:08x} line={:08x} ", line.len());
    line[..START_OCTETS].copy_from_slice(start.as_bytes());
    Ok(line)
}

/// The crc of a message's bytes.
pub(crate) fn content_crc(head: &[u8], body: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(head);
    hasher.update(body);
    hasher.finalize()
}

/// The crc of a JSON text of message `id` in a file that `run` made.
pub(crate) fn seeded(id: MessageId, run: Run, json: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(id.as_bytes());
    hasher.update(&run.0.to_be_bytes());
    hasher.update(json);
    hasher.finalize()
}

/// A number of hex digits as this format writes them.
pub(crate) fn hex(digits: &str) -> Option<u64> {
    let lower = digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    u64::from_str_radix(digits, 16).ok().filter(|_| lower)
}

fn put_text(text: &str, out: &mut Vec<u8>) {
    // As above: nothing here can fail.
    let _ = serde_json::to_writer(out, text);
}

/// How a message file begins, in every version.
const MAGIC: &str = "postrider-message ";
/// Version of message files.
pub(crate) const VERSION: u64 = 1;
/// Digits of a version that are looked at.
const VERSION_DIGITS_MAX: usize = 9;
/// Octets of a first line before its JSON.
pub(crate) const START_OCTETS: usize = 68;
/// Longest first line, in octets.
pub(crate) const LINE_OCTETS_MAX: usize = 64 << 20;
/// What a usual message's JSON takes, in octets.
const JSON_OCTETS_USUAL: usize = 400;

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use proptest::prelude::*;

    fn sealed() -> Sealed {
        let mailbox = |text: &str| Mailbox::parse(text).expect("an address");
        let mut meta = Meta::new();
        meta.set("tenant", "a\"b\\c\n\u{0}\u{2028}é");
        meta.set("n", 7);
        let recipients = vec![mailbox("a@b.c"), mailbox("\"x \\\" y\"@d.e"), mailbox("jürgen@exämple.org")];
        Sealed {
            id: MessageId::from_bytes([7; 16]),
            envelope: Envelope { sender: ReversePath(None), recipients, dsn: None, tls: TlsDemand::Usual },
            meta,
            head: Bytes::from("Subject: x\r\n"),
            body: Bytes::from("\r\npostrider-mark crc=00000000 {}\r\n").into(),
            due: WallTime::from_unix_micros(-5),
        }
    }

    #[test]
    fn a_first_line_reads_back_and_every_flipped_bit_and_cut_is_seen() {
        let (sealed, run) = (sealed(), Run(0xfedc_ba98_7654_3210));
        let line = encode(&sealed, run).expect("fits");
        assert_eq!(line.iter().filter(|octet| **octet == b'\n').count(), 1, "one line");
        let header = Header::decode(&line, sealed.id).expect("sound");
        assert_eq!((&header.envelope, &header.meta, header.due), (&sealed.envelope, &sealed.meta, sealed.due));
        assert_eq!((header.run, header.line), (run, line.len()));
        assert_eq!((header.head as usize, header.body as usize), (sealed.head.len(), sealed.body.len()));
        assert_eq!(header.content_crc, content_crc(&sealed.head, &sealed.body));
        assert_eq!(Header::decode(&line, MessageId::from_bytes([8; 16])), None, "another message's");
        for at in 0..line.len() {
            assert_eq!(Header::decode(&line[..at], sealed.id), None, "cut at {at}");
            for bit in 0..8 {
                let mut flipped = line.clone();
                flipped[at] ^= 1 << bit;
                assert_eq!(Header::decode(&flipped, sealed.id), None, "octet {at} bit {bit}");
            }
        }
    }

    #[test]
    fn dsn_options_come_back_and_cost_nothing_without() {
        let (mut sealed, run) = (sealed(), Run(1));
        assert!(!String::from_utf8_lossy(&encode(&sealed, run).expect("fits")).contains("dsn"));
        let options = ["NOTIFY=NEVER", "", "ORCPT=utf-8;j\u{fc}rgen@x.example"];
        sealed.envelope.dsn = Dsn::parse("ENVID=\"x", options.into_iter()).map(Box::new).ok();
        let line = encode(&sealed, run).expect("fits");
        assert_eq!(Header::decode(&line, sealed.id).map(|h| h.envelope), Some(sealed.envelope));
    }

    #[test]
    fn a_word_about_tls_comes_back_and_costs_nothing_without() {
        let mut sealed = sealed();
        assert!(!String::from_utf8_lossy(&encode(&sealed, Run(1)).expect("fits")).contains("\"tls\""));
        for tls in [TlsDemand::Required, TlsDemand::Waived] {
            sealed.envelope.tls = tls;
            let line = encode(&sealed, Run(1)).expect("fits");
            assert_eq!(Header::decode(&line, sealed.id).map(|h| h.envelope.tls), Some(tls));
        }
    }

    #[test]
    fn versions_are_told_apart() {
        let line = encode(&sealed(), Run(1)).expect("fits");
        assert_eq!(Start::parse(&line), Start::Known { line: line.len(), run: Run(1) });
        assert_eq!(Start::parse(b"postrider-message 2 whatever"), Start::Newer(2));
        assert_eq!(Start::parse(b"postrider-message 999999999 "), Start::Newer(999_999_999));
        for strange in ["postrider-message 1 whatever", "postrider-message 2", "postrider-message ", "", "x"] {
            assert_eq!(Start::parse(strange.as_bytes()), Start::Strange, "{strange}");
        }
        let text = String::from_utf8(line).expect("text");
        let zero = text.replacen("message 1 ", "message 0 ", 1);
        assert_eq!(Start::parse(zero.as_bytes()), Start::Strange, "there was no version 0");
    }

    #[test]
    fn a_first_line_may_have_64_mib_and_no_octet_more() {
        let mut sealed = sealed();
        let spare = LINE_OCTETS_MAX - encode(&sealed, Run(1)).expect("fits").len() - "\"x\":\"\",".len();
        sealed.meta.set("x", "y".repeat(spare));
        assert_eq!(encode(&sealed, Run(1)).expect("fits").len(), LINE_OCTETS_MAX);
        sealed.meta.set("x", "y".repeat(spare + 1));
        let error = encode(&sealed, Run(1)).expect_err("too long");
        assert!(matches!(error, SpoolError::TooBig { .. }), "{error}");
        let long = format!("postrider-message 1 run={:016x} crc={:08x} line={:08x} ", 0, 0, LINE_OCTETS_MAX + 1);
        assert_eq!(Start::parse(long.as_bytes()), Start::Strange);
        let most = format!("postrider-message 1 run={:016x} crc={:08x} line={:08x} ", 0, 0, LINE_OCTETS_MAX);
        assert_eq!(Start::parse(most.as_bytes()), Start::Known { line: LINE_OCTETS_MAX, run: Run(0) });
    }

    proptest! {
        #[test]
        fn arbitrary_octets_never_panic(octets in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Header::decode(&octets, MessageId::from_bytes([0; 16]));
            let mut line = b"postrider-message 1 run=0000000000000000 crc=".to_vec();
            line.extend_from_slice(&octets);
            let _ = Header::decode(&line, MessageId::from_bytes([0; 16]));
        }
    }
}
