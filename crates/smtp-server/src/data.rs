//! DATA: receives content up to CRLF.CRLF, judges it and hands it over (RFC 5321 section 4.1.1.4).
//!
//! Content goes from the input straight into the message's buffer. However it is judged, it is
//! read to its end first. BDAT joins here once its last chunk is in.

use crate::mail::{Chunks, Open};
use crate::question::{Question, Transaction};
use crate::reject::Concerned;
use crate::session::{Awaiting, Phase, Session};
use crate::texts;
use clock::Instant;
use message::{Envelope, TlsDemand};
use smtp_wire::Dsn;
use smtp_wire::body::Lines;
use smtp_wire::data::{ContentFault, DataDecoder, conform, lines_of};
use spool::Receipt;

/// A DATA being received.
#[derive(Debug)]
pub(crate) struct Receiving {
    pub(crate) decoder: DataDecoder,
    pub(crate) started: Instant,
    /// Octets off the wire.
    pub(crate) octets: u64,
}

/// Largest buffer made in advance on the word of a client (SIZE=, BDAT).
const PRESIZE_OCTETS_MAX: usize = 256 * 1024;
/// Ids in a reply of at most 512 octets: 33 each, beside `250 OK ids=`, ` and 99999 more` and CRLF.
const IDS_MAX: usize = 14;
/// Buffer made in advance when the client said nothing.
const PRESIZE_OCTETS: usize = 16 * 1024;
/// Content over the size limit is read to its end, to be refused in order, but not for ever:
/// behind this many octets the session closes.
pub(crate) const DISCARD_OCTETS_MAX: u64 = 1 << 30;

impl Session {
    pub(crate) fn data(&mut self, now: Instant) {
        let refusal = match &self.transaction {
            None => Some(texts::MAIL_FIRST),
            Some(open) if open.recipients.is_empty() => Some(texts::RCPT_FIRST),
            Some(open) if open.chunks != Chunks::None => Some(texts::IN_CHUNKS),
            Some(_) => None,
        };
        if let Some(entry) = refusal {
            return self.refuse_junk(texts::reply(entry));
        }
        self.content_begins(now);
        let decoder = DataDecoder::new(self.settings.max_message_size);
        self.phase = Phase::Data(Box::new(Receiving { decoder, started: now, octets: 0 }));
        self.say(354, "Send body; end with CRLF.CRLF");
    }

    /// The client is about to send content, or another part of it.
    pub(crate) fn content_begins(&mut self, now: Instant) {
        self.transaction.iter_mut().for_each(|open| _ = open.content_at.get_or_insert(now));
    }

    /// Takes content from the front of `input`; returns the octets taken.
    pub(crate) fn feed_data(&mut self, now: Instant, input: &[u8]) -> usize {
        if self.content_held().1 == 0 {
            self.expect_content();
        }
        let (Phase::Data(receiving), Some(open)) = (&mut self.phase, &mut self.transaction) else {
            return 0;
        };
        let (consumed, ended) = receiving.decoder.feed(input, &mut open.content);
        receiving.octets += consumed as u64;
        let too_big = receiving.decoder.is_too_big();
        if ended {
            let phase = core::mem::replace(&mut self.phase, Phase::Command);
            match phase {
                Phase::Data(receiving) if !too_big => self.judge_content(now, Some(receiving.decoder.into_lines())),
                _ => self.refuse_content(texts::MESSAGE_TOO_BIG),
            }
        } else if too_big && receiving.decoder.octets() > DISCARD_OCTETS_MAX {
            self.refuse_content(texts::MESSAGE_TOO_BIG);
            self.close();
        }
        consumed
    }

    /// Makes a buffer for content now that it comes, not when the client was told to go ahead: of a hundred clients that are
    /// about to send, a few send at one moment, and their buffers are those that others gave back just before, in the
    /// processor's cache still.
    fn expect_content(&mut self) {
        let announced = self.transaction.as_ref().and_then(|open| open.params.size);
        let expected = announced.unwrap_or(self.last_octets.max(PRESIZE_OCTETS) as u64);
        // A little more than that: the client's count and ours may differ by a line end.
        self.prepare_content(expected.saturating_add(2));
    }

    /// Content is complete: checks it and asks for responsibility to be taken. `lines`: what its dots say, should its line ends
    /// be CRLF alone; `None` where nobody has looked for dots.
    pub(crate) fn judge_content(&mut self, now: Instant, lines: Option<Lines>) {
        let Some(open) = &mut self.transaction else {
            return;
        };
        let settings = &self.settings;
        let verdict = conform(&mut open.content, settings.invalid_line_endings, settings.line_length_hard_limit);
        match verdict {
            Ok(true) => {
                let lines = lines.unwrap_or_else(|| lines_of(&open.content));
                self.hand_over(now, lines)
            }
            Ok(false) => self.hand_over(now, Lines::Unknown),
            Err(ContentFault::BareLineEnding) => self.refuse_content(texts::BARE_LINE_ENDING),
            Err(ContentFault::LineTooLong { .. }) => self.refuse_content(texts::LINE_TOO_LONG),
        }
    }

    /// Refuses the whole message and ends the transaction.
    pub(crate) fn refuse_content(&mut self, entry: (u16, &str)) {
        let concerned = match self.transaction.take() {
            None => Concerned::nobody(),
            Some(Open { sender, recipients, .. }) => Concerned { sender: Some(sender), recipients },
        };
        self.refuse(texts::reply(entry), concerned);
    }

    fn hand_over(&mut self, now: Instant, lines: Lines) {
        let Some(open) = self.transaction.take() else {
            return;
        };
        let Open { sender, params, recipients, rcpt_params, mut content, started, content_at, .. } = open;
        if !content.is_empty() && !content.ends_with(b"\r\n") {
            // Chunks need not end in a line end; everything behind this point relies on one.
            content.extend_from_slice(b"\r\n");
        }
        let is_guess = (PRESIZE_OCTETS..=self.last_octets + PRESIZE_OCTETS).contains(&content.capacity());
        if is_guess && self.last_octets > PRESIZE_OCTETS && content.capacity() / 2 > content.len() {
            // Made for one like the last, which this one is not; it may be kept for long.
            content.shrink_to_fit();
        }
        self.last_octets = content.len();
        let concerned = Concerned { sender: Some(sender.clone()), recipients: recipients.clone() };
        let dsn = Dsn::new(params.ret, params.envid.clone(), rcpt_params);
        let tls = if params.requiretls { TlsDemand::Required } else { TlsDemand::Usual };
        let transaction = Transaction {
            envelope: Envelope { sender, recipients, dsn, tls },
            is_ascii: content.is_ascii(),
            content,
            lines,
            mail_params: params,
            processing_deadline: now + self.settings.data_processing_timeout,
            begun_at: started,
            content_at: content_at.unwrap_or(now),
            received_at: now,
        };
        self.ask(Question::Data(Box::new(transaction)), Awaiting::Data(concerned));
    }

    /// `250 OK ids=<id> <id>`, and how many more there are than a reply line holds (RFC 5321 section 4.5.3.1.5): clients
    /// take a longer one for an error, behind which they send everything again.
    pub(crate) fn data_accepted(&mut self, receipts: &[Receipt]) {
        assert!(!receipts.is_empty(), "accepted without a receipt");
        (self.junk_commands, self.refusals) = (0, 0);
        let mut text = String::with_capacity(8 + receipts.len().min(IDS_MAX + 1) * 33);
        text.push_str("OK ids=");
        for (i, receipt) in receipts.iter().take(IDS_MAX).enumerate() {
            if i > 0 {
                text.push(' ');
            }
            text.push_str(&receipt.id().to_string());
        }
        if receipts.len() > IDS_MAX {
            text.push_str(&format!(" and {} more", receipts.len() - IDS_MAX));
        }
        self.say(250, &text);
    }

    /// Gives the open transaction a content buffer with room for `octets`, within reason.
    pub(crate) fn prepare_content(&mut self, octets: u64) {
        let wanted = usize::try_from(octets).unwrap_or(usize::MAX).min(PRESIZE_OCTETS_MAX);
        let Some(open) = &mut self.transaction else {
            return;
        };
        if open.content.capacity() == 0 {
            open.content = core::mem::take(&mut self.spare);
        }
        open.content.reserve(wanted);
    }
}
