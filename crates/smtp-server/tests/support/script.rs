//! The transcript format: plain text, a line an event.
//!
//! ```text
//! # a comment
//! set max_message_size 100          a setting; `set ask all` or a list: connection,ehlo,mail,rcpt
//! for a => b | c => d               the transcript is run once for each pair, as {X} and {Y}
//! whole                             not to be cut: what happens depends on what arrives together
//! S: 220 mx.example KumoMTA         the server says this line
//! C: EHLO client.example            the client sends this line; consecutive ones arrive together
//! C> text                           the client sends this text, no line end added
//! P: QUESTION => ANSWER             policy is asked this and answers that
//! R: REPLY | COMMAND | SENDER | RCPTS   a rejection to be logged (all of them, once one is given)
//! T: 61                             so many seconds pass
//! ADMIT open 100                    what the driver says of memory and disk: open OCTETS, shed, disk, full, failing
//! SHED yes                          memory is out: whether a transaction was ended
//! TLS, STOP, EARLY, CLOSED          handshake done; shutdown asked; early talk seen; session closed
//! ```
//! Texts know `\r \n \t \0 \\ \xNN` and `{text*count}`.

use clock::Duration;
use smtp_server::{Admission, Interest, InvalidLineEndings, Settings};

/// One thing that happens, in order.
#[derive(Clone, Debug)]
pub enum Event {
    Client(Vec<u8>),
    Server(Vec<u8>),
    Wait(u64),
    Tls,
    Admit(Admission),
    Shed(bool),
    Stop,
    EarlyTalk,
    Closed,
}

/// A transcript, ready to run.
#[derive(Clone, Debug)]
pub struct Script {
    pub settings: Settings,
    pub events: Vec<Event>,
    /// Question and answer.
    pub policy: Vec<(Vec<u8>, String)>,
    pub rejections: Vec<String>,
    /// False when cutting the input changes what must happen.
    pub may_be_cut: bool,
}

impl Script {
    /// The transcripts of one file: several when it has a `for` line.
    pub fn parse_all(text: &str) -> Vec<Script> {
        let pairs = text.lines().find_map(|line| line.strip_prefix("for "));
        let Some(pairs) = pairs else {
            return vec![Script::parse(text)];
        };
        let fill = |pair: &str| {
            let (x, y) = pair.split_once(" => ").unwrap_or((pair, ""));
            Script::parse(&text.replace("{X}", x.trim()).replace("{Y}", y.trim()))
        };
        pairs.split(" | ").map(fill).collect()
    }

    fn parse(text: &str) -> Script {
        let mut script = Script {
            settings: Settings { hostname: "mx.example".into(), interest: QUIET, ..Settings::default() },
            events: Vec::new(),
            policy: Vec::new(),
            rejections: Vec::new(),
            may_be_cut: true,
        };
        for line in text.lines() {
            script.line(line);
        }
        script
    }

    fn line(&mut self, line: &str) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "" | "for" => {}
            _ if word.starts_with('#') => {}
            "set" => self.set(rest),
            "whole" => self.may_be_cut = false,
            "C:" => self.client(with_line_end(rest)),
            "C>" => self.client(unescape(rest)),
            "S:" => self.events.push(Event::Server(with_line_end(rest))),
            "P:" => {
                let (question, answer) = rest.rsplit_once(" => ").expect("P: question => answer");
                self.policy.push((unescape(question), answer.to_owned()));
            }
            "R:" => self.rejections.push(String::from_utf8_lossy(&unescape(rest)).into_owned()),
            "T:" => self.events.push(Event::Wait(rest.parse().expect("seconds"))),
            "ADMIT" => self.events.push(Event::Admit(admission(rest))),
            "SHED" => self.events.push(Event::Shed(rest == "yes")),
            "TLS" => self.events.push(Event::Tls),
            "STOP" => self.events.push(Event::Stop),
            "EARLY" => self.events.push(Event::EarlyTalk),
            "CLOSED" => self.events.push(Event::Closed),
            other => panic!("transcript error: unknown line {other}"),
        }
    }

    /// Consecutive client lines are one group.
    fn client(&mut self, octets: Vec<u8>) {
        match self.events.last_mut() {
            Some(Event::Client(group)) => group.extend(octets),
            _ => self.events.push(Event::Client(octets)),
        }
    }

    fn set(&mut self, text: &str) {
        let (name, value) = text.split_once(' ').expect("set name value");
        let s = &mut self.settings;
        let number = || value.parse::<usize>().expect("number");
        let seconds = || Duration::from_secs(number() as u64);
        match name {
            "ask" => {
                let asks = |name| value == "all" || value.split(',').any(|word| word == name);
                s.interest = Interest {
                    connection_accepted: asks("connection"),
                    ehlo: asks("ehlo"),
                    auth: true,
                    mail_from: asks("mail"),
                    rcpt_to: asks("rcpt"),
                };
            }
            "max_message_size" => s.max_message_size = number(),
            "max_recipients_per_message" => s.max_recipients_per_message = number(),
            "max_messages_per_connection" => s.max_messages_per_connection = number(),
            "line_length_hard_limit" => s.line_length_hard_limit = number(),
            "invalid_line_endings" => {
                s.invalid_line_endings = match value {
                    "Deny" => InvalidLineEndings::Deny,
                    "Allow" => InvalidLineEndings::Allow,
                    "Fix" => InvalidLineEndings::Fix,
                    other => panic!("transcript error: {other}"),
                }
            }
            "client_timeout" => s.client_timeout = seconds(),
            "transaction_timeout" => s.transaction_timeout = seconds(),
            "data_rate" => s.data_rate_octets_per_second_min = number() as u64,
            "data_rate_grace" => s.data_rate_grace = seconds(),
            "tls_available" => s.tls_available = value == "true",
            "allow_xclient" => s.allow_xclient = value == "true",
            "hello_required" => s.hello_required = value == "true",
            "refuse_early_talk" => s.refuse_early_talk = value == "true",
            "junk_commands_max" => s.junk_commands_max = number() as u32,
            "auth_failures_max" => s.auth_failures_max = number() as u32,
            other => panic!("transcript error: unknown setting {other}"),
        }
    }
}

fn admission(text: &str) -> Admission {
    match text.split_once(' ').unwrap_or((text, "")) {
        ("open", octets) => Admission::Open { octets_max: octets.parse().expect("octets") },
        ("shed", _) => Admission::LoadShedding,
        ("disk", _) => Admission::DiskTooFull,
        ("full", _) => Admission::SpoolFull,
        ("failing", _) => Admission::SpoolFailing,
        (other, _) => panic!("transcript error: unknown admission {other}"),
    }
}

/// Undoes the escapes of the format.
pub fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let repeat = rest.strip_prefix('{').and_then(|r| r.split_once('}'));
        let repeat = repeat.and_then(|(inner, after)| Some((inner.rsplit_once('*')?, after)));
        if let Some(((inner, count), after)) = repeat {
            out.extend(unescape(inner).repeat(count.parse().expect("count")));
            rest = after;
        } else if let Some(escaped) = rest.strip_prefix('\\') {
            let (octet, length) = match escaped.as_bytes()[0] {
                b'r' => (b'\r', 1),
                b'n' => (b'\n', 1),
                b't' => (b'\t', 1),
                b'0' => (0, 1),
                b'x' => (u8::from_str_radix(&escaped[1..3], 16).expect("hex"), 3),
                other => (other, 1),
            };
            out.push(octet);
            rest = &escaped[length..];
        } else {
            out.extend(c.to_string().as_bytes());
            rest = &rest[c.len_utf8()..];
        }
    }
    out
}

/// For messages to people.
pub fn escape(octets: &[u8]) -> String {
    octets.escape_ascii().to_string().replace("\\r\\n", "\\r\\n\n")
}

fn with_line_end(text: &str) -> Vec<u8> {
    let mut octets = unescape(text);
    octets.extend_from_slice(b"\r\n");
    octets
}

/// Only credentials and messages are asked about unless a transcript wants more.
const QUIET: Interest =
    Interest { connection_accepted: false, ehlo: false, auth: true, mail_from: false, rcpt_to: false };
