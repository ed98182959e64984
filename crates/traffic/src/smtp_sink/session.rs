//! One SMTP session of the sink: what to answer to which bytes. No I/O.
//!
//! In: bytes as they were read. Out: replies appended to a buffer, and what the driver has to do next. Every complete
//! command in the input is answered in one go, so that a pipelining client costs one read and one write a message.
//! Commands out of order get 503, unknown ones 500, so that a client with a wrong idea of the protocol is noticed.
//! It checks addresses only as far as the angle brackets: judging them is the relay's work.

use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use memchr::memchr;

use super::Sink;
use super::check::{Integrity, MessageCheck};
use super::scanner::DataScanner;

/// What the driver does after a call of [`Session::feed`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Write the replies and read on.
    More,
    /// Wait for the configured delay, then feed what is left of the input.
    Pause,
    /// Write the replies and close.
    Close,
}

/// The state of one session.
pub(super) struct Session {
    mode: Mode,
    /// The beginning of a command whose line end was not read yet.
    partial_line: Vec<u8>,
    in_transaction: bool,
    recipient_count: usize,
    /// Accepted recipients with commas between; only kept for a ledger.
    recipients: Vec<u8>,
    messages: u64,
    errors: u32,
    check: MessageCheck,
}

#[derive(Clone, Copy)]
enum Mode {
    Command,
    /// Throwing away the rest of a command line that was too long.
    SkipLine,
    Data(DataScanner),
}

impl Session {
    /// A session before its first command; the greeting is the driver's.
    pub(super) fn new() -> Self {
        Self {
            mode: Mode::Command,
            partial_line: Vec::new(),
            in_transaction: false,
            recipient_count: 0,
            recipients: Vec::new(),
            messages: 0,
            errors: 0,
            check: MessageCheck::new(),
        }
    }

    /// Takes what was read. Returns how much of it was used (all of it, unless the step is not `More`).
    pub(super) fn feed(&mut self, sink: &Sink, input: &[u8], replies: &mut Vec<u8>) -> (usize, Step) {
        let mut used = 0;
        while used < input.len() {
            let rest = &input[used..];
            let (taken, step) = match self.mode {
                Mode::Command => self.command_bytes(sink, rest, replies),
                Mode::SkipLine => self.skip_line(rest),
                Mode::Data(scanner) => self.data(sink, scanner, rest, replies),
            };
            used += taken;
            if step != Step::More {
                return (used, step);
            }
        }
        (used, Step::More)
    }

    fn command_bytes(&mut self, sink: &Sink, input: &[u8], replies: &mut Vec<u8>) -> (usize, Step) {
        let Some(line_feed) = memchr(b'\n', input) else {
            if self.partial_line.len() + input.len() > COMMAND_LINE_BYTES_MAX {
                return (input.len(), self.line_too_long(Mode::SkipLine, replies));
            }
            self.partial_line.extend_from_slice(input);
            return (input.len(), Step::More);
        };
        let used = line_feed + 1;
        if self.partial_line.len() + used > COMMAND_LINE_BYTES_MAX {
            return (used, self.line_too_long(Mode::Command, replies));
        }
        let step = if self.partial_line.is_empty() {
            self.command(sink, &input[..used], replies)
        } else {
            let mut line = std::mem::take(&mut self.partial_line);
            line.extend_from_slice(&input[..used]);
            let step = self.command(sink, &line, replies);
            line.clear();
            self.partial_line = line;
            step
        };
        (used, step)
    }

    fn line_too_long(&mut self, mode: Mode, replies: &mut Vec<u8>) -> Step {
        self.partial_line = Vec::new();
        self.mode = mode;
        self.error(replies, "500 5.5.6 command line too long")
    }

    fn skip_line(&mut self, input: &[u8]) -> (usize, Step) {
        match memchr(b'\n', input) {
            Some(line_feed) => {
                self.mode = Mode::Command;
                (line_feed + 1, Step::More)
            }
            None => (input.len(), Step::More),
        }
    }

    fn command(&mut self, sink: &Sink, line: &[u8], replies: &mut Vec<u8>) -> Step {
        let line = line.trim_ascii_end();
        let verb_end = line.iter().position(|&byte| byte == b' ').unwrap_or(line.len());
        let (verb, argument) = line.split_at(verb_end);
        let argument = argument.trim_ascii();
        let is = |name: &str| verb.eq_ignore_ascii_case(name.as_bytes());
        if is("MAIL") {
            return self.mail(sink, argument, replies);
        }
        if is("RCPT") {
            return self.rcpt(sink, argument, replies);
        }
        if is("DATA") {
            return self.begin_data(argument, replies);
        }
        if is("QUIT") {
            reply(replies, "221 2.0.0 bye");
            return Step::Close;
        }
        if is("EHLO") || is("HELO") {
            self.reset();
            if argument.is_empty() {
                return self.error(replies, "501 5.5.4 expected a name");
            }
            self.greet(sink, is("EHLO"), replies);
        } else if is("RSET") {
            self.reset();
            reply(replies, "250 2.0.0 reset");
        } else if is("NOOP") {
            reply(replies, "250 2.0.0 still here");
        } else if is("VRFY") {
            reply(replies, "252 2.1.5 will accept anything");
        } else if is("HELP") {
            reply(replies, "214 2.0.0 this server throws all mail away");
        } else if ["STARTTLS", "AUTH", "BDAT", "EXPN", "ETRN"].iter().any(|name| is(name)) {
            return self.error(replies, "502 5.5.1 not offered");
        } else {
            return self.error(replies, "500 5.5.2 unknown command");
        }
        Step::More
    }

    fn greet(&self, sink: &Sink, extended: bool, replies: &mut Vec<u8>) {
        let name = &sink.options.hostname;
        if !extended {
            reply(replies, &format!("250 {name}"));
            return;
        }
        reply(replies, &format!("250-{name}"));
        for extension in ["PIPELINING", "8BITMIME", "SMTPUTF8", "SIZE 0"] {
            reply(replies, &format!("250-{extension}"));
        }
        reply(replies, "250 ENHANCEDSTATUSCODES");
    }

    fn mail(&mut self, sink: &Sink, argument: &[u8], replies: &mut Vec<u8>) -> Step {
        if self.in_transaction {
            return self.error(replies, "503 5.5.1 a transaction is open");
        }
        if bracketed(argument, b"FROM:").is_none() {
            return self.error(replies, "501 5.5.4 expected FROM:<address>");
        }
        if sink.options.max_messages_per_connection.is_some_and(|max| self.messages >= max) {
            reply(replies, "421 4.3.2 enough messages for one connection");
            return Step::Close;
        }
        self.in_transaction = true;
        reply(replies, "250 2.1.0 ok");
        Step::More
    }

    fn rcpt(&mut self, sink: &Sink, argument: &[u8], replies: &mut Vec<u8>) -> Step {
        if !self.in_transaction {
            return self.error(replies, "503 5.5.1 MAIL first");
        }
        let Some(address) = bracketed(argument, b"TO:").filter(|address| !address.is_empty()) else {
            return self.error(replies, "501 5.5.4 expected TO:<address>");
        };
        if self.recipient_count >= RECIPIENTS_MAX {
            reply(replies, "452 4.5.3 too many recipients");
            return Step::More;
        }
        if sink.ledger.is_some() {
            if self.recipient_count > 0 {
                self.recipients.push(b',');
            }
            self.recipients.extend_from_slice(address);
        }
        self.recipient_count += 1;
        reply(replies, "250 2.1.5 ok");
        Step::More
    }

    fn begin_data(&mut self, argument: &[u8], replies: &mut Vec<u8>) -> Step {
        if !argument.is_empty() {
            return self.error(replies, "501 5.5.4 DATA takes no argument");
        }
        if !self.in_transaction {
            return self.error(replies, "503 5.5.1 MAIL first");
        }
        if self.recipient_count == 0 {
            return self.error(replies, "554 5.5.1 no valid recipients");
        }
        self.mode = Mode::Data(DataScanner::new());
        self.check.reset();
        reply(replies, "354 go ahead");
        Step::More
    }

    fn data(&mut self, sink: &Sink, mut scanner: DataScanner, input: &[u8], replies: &mut Vec<u8>) -> (usize, Step) {
        let scan = if sink.ledger.is_some() {
            scanner.feed(&sink.finder, input, |span| self.check.feed(span))
        } else {
            scanner.feed(&sink.finder, input, |_| {})
        };
        if !scan.ended {
            self.mode = Mode::Data(scanner);
            return (scan.consumed, Step::More);
        }
        self.mode = Mode::Command;
        let step = self.end_of_message(sink, replies);
        self.reset();
        (scan.consumed, step)
    }

    fn end_of_message(&mut self, sink: &Sink, replies: &mut Vec<u8>) -> Step {
        self.messages += 1;
        if sink.drop.hits() {
            return Step::Close;
        }
        if sink.refuse.hits() {
            let code = sink.options.fail_code;
            reply(replies, &format!("{code} {}.3.0 refused on purpose", code / 100));
            return if code == 421 { Step::Close } else { Step::More };
        }
        sink.received.fetch_add(1, Ordering::Relaxed);
        if let Some(ledger) = &sink.ledger {
            let (id, integrity) = self.check.verdict();
            if integrity == Integrity::Damaged {
                sink.damaged.fetch_add(1, Ordering::Relaxed);
            }
            let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros().to_string();
            let word = integrity.word().as_bytes();
            ledger.append(&[id, b"\t", word, b"\t", &self.recipients, b"\t", at.as_bytes()]);
        }
        reply(replies, "250 2.0.0 thrown away");
        if sink.options.delay_ms > 0 { Step::Pause } else { Step::More }
    }

    fn reset(&mut self) {
        self.in_transaction = false;
        self.recipient_count = 0;
        self.recipients.clear();
    }

    fn error(&mut self, replies: &mut Vec<u8>, text: &str) -> Step {
        self.errors += 1;
        if self.errors > ERRORS_MAX {
            reply(replies, "421 4.7.0 too many errors");
            return Step::Close;
        }
        reply(replies, text);
        Step::More
    }
}

fn reply(replies: &mut Vec<u8>, text: &str) {
    replies.extend_from_slice(text.as_bytes());
    replies.extend_from_slice(b"\r\n");
}

/// The text between the angle brackets after a keyword; parameters behind them are allowed and not looked at.
fn bracketed<'a>(argument: &'a [u8], keyword: &[u8]) -> Option<&'a [u8]> {
    if argument.len() < keyword.len() || !argument[..keyword.len()].eq_ignore_ascii_case(keyword) {
        return None;
    }
    let path = argument[keyword.len()..].trim_ascii_start().strip_prefix(b"<")?;
    let end = memchr(b'>', path)?;
    let address = &path[..end];
    // A tab or a comma would break the ledger's columns; neither is needed in a test address.
    let plain = !address.iter().any(|byte| byte.is_ascii_control() || *byte == b',');
    plain.then_some(address)
}

/// Bytes of a command line with its end, several times what RFC 5321 4.5.3.1.4 asks for.
const COMMAND_LINE_BYTES_MAX: usize = 4096;
/// Recipients of one message.
const RECIPIENTS_MAX: usize = 1000;
/// Refused commands before the session is ended.
const ERRORS_MAX: u32 = 100;

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
