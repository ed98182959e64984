//! One message's own bytes: its id, its addresses, its header block; everything else is shared.
//!
//! In: a plan. Out: for each message a [`Letter`] (three numbers), and the text of its envelope and header appended to
//! buffers the caller reuses. Two marks go into every header: `X-Postrider-Id`, unique over all runs, and
//! `X-Postrider-Check`, the CRC-32 of the body, by which the sink knows that it arrived whole.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;

use super::body::{Body, BodyError};
use super::options::Plan;

/// What distinguishes one message from another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Letter {
    sequence: u64,
    domain: usize,
    user: u32,
    /// When it was to be sent, where sends keep a timetable.
    pub due: Option<Instant>,
}

impl Letter {
    /// The same letter with a moment at which it was to be sent.
    pub(super) fn due_at(self, due: Option<Instant>) -> Self {
        Self { due, ..self }
    }
}

/// Writes letters.
pub(super) struct Stationery {
    /// The body all letters share.
    pub body: Body,
    run: String,
    domains: Vec<Domain>,
    weight_total: u64,
    fields: Fields,
    next_sequence: AtomicU64,
}

struct Domain {
    name: String,
    sender: String,
    /// The weights of the domains up to and including this one.
    weight_up_to: u64,
}

/// The header fields that are the same in all letters, and which of the changing ones the user has replaced.
struct Fields {
    /// From MIME-Version down to the empty line.
    fixed: String,
    message_id: bool,
    date: bool,
    from: bool,
    to: bool,
    subject: bool,
}

impl Stationery {
    /// Prepares the run's body and domains.
    ///
    /// # Errors
    /// The body file cannot be used.
    pub(super) fn new(plan: &Plan) -> Result<Self, BodyError> {
        let mut domains = Vec::with_capacity(plan.domains.len());
        let mut weight_total = 0;
        for domain in &plan.domains {
            let name = if plan.domain_suffix.is_empty() {
                domain.name.clone()
            } else {
                format!("{}.{}", domain.name, plan.domain_suffix)
            };
            weight_total += u64::from(domain.weight);
            let sender = plan.sender.clone().unwrap_or_else(|| format!("noreply@{name}"));
            domains.push(Domain { name, sender, weight_up_to: weight_total });
        }
        let mut stationery = Self {
            body: Body::of_size(0),
            run: run_name(),
            domains,
            weight_total,
            fields: Fields::new(plan),
            next_sequence: AtomicU64::new(1),
        };
        stationery.body = match &plan.body_file {
            Some(path) => Body::from_file(path, plan.http.is_some())?,
            None => Body::of_size(plan.body_bytes.saturating_sub(stationery.header_bytes())),
        };
        Ok(stationery)
    }

    /// The name of the run, the first part of every id.
    pub(super) fn run(&self) -> &str {
        &self.run
    }

    /// The next letter, to a random user of a domain drawn by weight.
    pub(super) fn next(&self, random: &mut fastrand::Rng) -> Letter {
        let draw = random.u64(..self.weight_total);
        Letter {
            sequence: self.next_sequence.fetch_add(1, Ordering::Relaxed),
            domain: self.domains.partition_point(|domain| domain.weight_up_to <= draw),
            user: random.u32(..),
            due: None,
        }
    }

    /// Appends the letter's id.
    pub(super) fn id(&self, out: &mut Vec<u8>, letter: Letter) {
        out.extend_from_slice(self.run.as_bytes());
        out.push(b'-');
        decimal(out, letter.sequence);
    }

    /// Appends the MAIL command.
    pub(super) fn mail(&self, out: &mut Vec<u8>, letter: Letter, server_takes_8bit: bool) {
        out.extend_from_slice(b"MAIL FROM:<");
        out.extend_from_slice(self.sender(letter).as_bytes());
        let parameter = self.body.is_8bit && server_takes_8bit;
        out.extend_from_slice(if parameter { b"> BODY=8BITMIME\r\n" } else { b">\r\n" });
    }

    /// Appends the RCPT command.
    pub(super) fn rcpt(&self, out: &mut Vec<u8>, letter: Letter) {
        out.extend_from_slice(b"RCPT TO:<");
        self.recipient(out, letter);
        out.extend_from_slice(b">\r\n");
    }

    /// The envelope sender.
    pub(super) fn sender(&self, letter: Letter) -> &str {
        &self.domains[letter.domain].sender
    }

    /// Appends the recipient's address.
    pub(super) fn recipient(&self, out: &mut Vec<u8>, letter: Letter) {
        self.recipient_of(out, letter, 0);
    }

    /// Appends the address of a recipient of several: another one for each `place`.
    pub(super) fn recipient_of(&self, out: &mut Vec<u8>, letter: Letter, place: u64) {
        out.extend_from_slice(b"user-");
        decimal(out, u64::from(letter.user) + place);
        out.push(b'@');
        out.extend_from_slice(self.domains[letter.domain].name.as_bytes());
    }

    /// Appends the header block made for this letter; it has no line that begins with a dot.
    pub(super) fn header(&self, out: &mut Vec<u8>, letter: Letter, date: &str) {
        self.header_for(out, letter, date, self.body.check);
    }

    /// As [`Stationery::header`], and a first line of the body that no other letter has: a spool may store a body that
    /// several share once. A body with a header of its own stays as it is.
    pub(super) fn header_and_own_line(&self, out: &mut Vec<u8>, letter: Letter, date: &str) {
        if self.body.has_header {
            return self.header(out, letter, date);
        }
        let mut line = Vec::new();
        self.id(&mut line, letter);
        line.extend_from_slice(b"\r\n");
        let mut check = crc32fast::Hasher::new();
        check.update(&line);
        check.combine(&crc32fast::Hasher::new_with_initial_len(self.body.check, self.body.checked_octets));
        self.header_for(out, letter, date, check.finalize());
        out.extend_from_slice(&line);
    }

    fn header_for(&self, out: &mut Vec<u8>, letter: Letter, date: &str, check: u32) {
        out.extend_from_slice(b"X-Postrider-Id: ");
        self.id(out, letter);
        out.extend_from_slice(b"\r\nX-Postrider-Check: ");
        hexadecimal(out, check);
        out.extend_from_slice(b"\r\n");
        if self.body.has_header {
            return;
        }
        if self.fields.message_id {
            out.extend_from_slice(b"Message-ID: <");
            self.id(out, letter);
            out.extend_from_slice(b"@traffic-gen.test>\r\n");
        }
        if self.fields.date {
            out.extend_from_slice(b"Date: ");
            out.extend_from_slice(date.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        if self.fields.from {
            out.extend_from_slice(b"From: <");
            out.extend_from_slice(self.sender(letter).as_bytes());
            out.extend_from_slice(b">\r\n");
        }
        if self.fields.to {
            out.extend_from_slice(b"To: <");
            self.recipient(out, letter);
            out.extend_from_slice(b">\r\n");
        }
        if self.fields.subject {
            out.extend_from_slice(b"Subject: test message ");
            self.id(out, letter);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(self.fields.fixed.as_bytes());
    }

    /// Roughly what a header block takes.
    fn header_bytes(&self) -> usize {
        let mut header = Vec::new();
        let letter = Letter { sequence: 10_000, domain: 0, user: u32::MAX, due: None };
        self.header(&mut header, letter, "Fri, 01 Jan 2027 00:00:00 +0000");
        header.len()
    }
}

impl Fields {
    fn new(plan: &Plan) -> Self {
        let ours = |name: &str| !plan.headers.iter().any(|field| field.name.eq_ignore_ascii_case(name));
        let mut fixed = String::new();
        for (name, value) in [("MIME-Version", "1.0"), ("Content-Type", "text/plain; charset=us-ascii")] {
            if ours(name) {
                fixed += &format!("{name}: {value}\r\n");
            }
        }
        for field in &plan.headers {
            fixed += &format!("{}: {}\r\n", field.name, field.value);
        }
        fixed += "\r\n";
        Self {
            fixed,
            message_id: ours("Message-ID"),
            date: ours("Date"),
            from: ours("From"),
            to: ours("To"),
            subject: ours("Subject"),
        }
    }
}

/// The text of the Date field, formatted again only when the second changes.
#[derive(Default)]
pub(super) struct DateText {
    second: u64,
    text: String,
}

impl DateText {
    /// The date of `now`, in UTC.
    pub(super) fn at(&mut self, now: SystemTime) -> &str {
        let second = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        if second != self.second || self.text.is_empty() {
            self.second = second;
            self.text = OffsetDateTime::from(now).format(&Rfc2822).unwrap_or_default();
        }
        &self.text
    }
}

/// Unique enough for the ids of many runs to meet in one ledger: the millisecond and a random number.
fn run_name() -> String {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{:x}{:06x}", since_epoch.as_millis(), fastrand::u32(..) & 0x00ff_ffff)
}

fn decimal(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

fn hexadecimal(out: &mut Vec<u8>, value: u32) {
    let digit = |shift: u32| b"0123456789abcdef"[(value >> shift) as usize & 0xf];
    out.extend((0..8).rev().map(|place| digit(place * 4)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic_gen::options::Options;
    use clap::Parser as _;

    fn stationery(arguments: &[&str]) -> Stationery {
        let options = Options::try_parse_from(std::iter::once(&"traffic-gen").chain(arguments));
        let plan = options.expect("arguments").into_plan().expect("plan");
        Stationery::new(&plan).expect("stationery")
    }

    fn header(stationery: &Stationery, letter: Letter) -> String {
        let mut out = Vec::new();
        stationery.header(&mut out, letter, DateText::default().at(UNIX_EPOCH));
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn a_header_has_all_fields_and_ends_once() {
        let stationery = stationery(&["--domain", "example", "--header", "Subject: mine", "--header", "X-T: 1"]);
        let letter = stationery.next(&mut fastrand::Rng::with_seed(1));
        let text = header(&stationery, letter);
        let user = letter.user;
        for want in [
            format!("X-Postrider-Id: {}-1\r\n", stationery.run()),
            format!("X-Postrider-Check: {:08x}\r\n", stationery.body.check),
            format!("\r\nMessage-ID: <{}-1@traffic-gen.test>\r\n", stationery.run()),
            "\r\nDate: Thu, 01 Jan 1970 00:00:00 +0000\r\n".to_owned(),
            "\r\nFrom: <noreply@example.mx-sink.test>\r\n".to_owned(),
            format!("\r\nTo: <user-{user}@example.mx-sink.test>\r\n"),
            "\r\nSubject: mine\r\n".to_owned(),
            "\r\nX-T: 1\r\n".to_owned(),
            "\r\nMIME-Version: 1.0\r\n".to_owned(),
        ] {
            assert!(text.contains(&want), "{want:?} in {text}");
        }
        assert_eq!(text.matches("Subject").count(), 1);
        assert_eq!(text.find("\r\n\r\n"), Some(text.len() - 4));
    }

    #[test]
    fn a_line_of_its_own_is_checked_with_the_body() {
        let stationery = stationery(&["--body-size", "3000"]);
        let letter = stationery.next(&mut fastrand::Rng::with_seed(1));
        let mut out = Vec::new();
        stationery.header_and_own_line(&mut out, letter, "Thu, 01 Jan 1970 00:00:00 +0000");
        let text = String::from_utf8(out).expect("ASCII");
        let (head, line) = text.split_once("\r\n\r\n").expect("a header");
        assert_eq!(line, format!("{}-1\r\n", stationery.run()));
        let body: String =
            serde_json::from_str(&format!("\"{}\"", String::from_utf8_lossy(&stationery.body.json))).expect("JSON");
        let check = crc32fast::hash(format!("{line}{body}").as_bytes());
        assert!(head.contains(&format!("X-Postrider-Check: {check:08x}\r\n")), "{head}");
    }

    #[test]
    fn the_size_asked_for_is_the_size_of_the_message() {
        for bytes in [1_024, 10_240, 102_400] {
            let stationery = stationery(&["--body-size", &bytes.to_string()]);
            let letter = stationery.next(&mut fastrand::Rng::with_seed(1));
            let total = header(&stationery, letter).len() + text_bytes(&stationery);
            assert!(total.abs_diff(bytes) < 40, "{bytes}: {total}");
        }
    }

    fn text_bytes(stationery: &Stationery) -> usize {
        let stuffing = memchr::memmem::find_iter(&stationery.body.smtp, b"\r\n..").count();
        stationery.body.smtp.len() - stuffing
    }

    #[test]
    fn domains_are_drawn_by_weight() {
        let stationery = stationery(&["--domain", "a:1", "--domain", "b:9"]);
        let mut random = fastrand::Rng::with_seed(7);
        let second = (0..10_000).filter(|_| stationery.next(&mut random).domain == 1).count();
        assert!((8_800..9_200).contains(&second), "{second}");
    }

    #[test]
    fn numbers() {
        let mut out = Vec::new();
        for value in [0, 7, 10, 12_345, u64::MAX] {
            decimal(&mut out, value);
            out.push(b' ');
        }
        hexadecimal(&mut out, 0x0012_abcf);
        assert_eq!(out, b"0 7 10 12345 18446744073709551615 0012abcf");
    }
}
