//! BDAT: content in chunks of announced size (RFC 3030).
//!
//! A chunk follows its command line at once, wanted or not; so a refused chunk is read and thrown
//! away before the refusal is said, or its octets would be taken for commands. When the size
//! cannot be read nobody knows where commands go on: the session says so and closes. Nothing is
//! allocated on the announcement beyond a small bound.
//!
//! After a refused chunk every further one is refused until RSET (or EHLO); a refused LAST ends
//! the transaction as a refused DATA does.

use crate::data::DISCARD_OCTETS_MAX;
use crate::mail::Chunks;
use crate::session::{Phase, Session};
use crate::texts;
use clock::Instant;

/// A chunk being received.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) announced: u64,
    pub(crate) left: u64,
    pub(crate) last: bool,
    pub(crate) started: Instant,
    /// What will be said behind the chunk; its octets are thrown away then.
    refusal: Option<(u16, &'static str)>,
}

impl Session {
    pub(crate) fn bdat(&mut self, now: Instant, octets: u64, last: bool) {
        let refusal = self.chunk_refusal(octets);
        if refusal.is_none() {
            self.prepare_content(octets);
            self.content_begins(now);
        }
        if let Some(entry) = refusal.filter(|_| octets > DISCARD_OCTETS_MAX) {
            self.refuse_content(entry);
            return self.close();
        }
        let chunk = Chunk { announced: octets, left: octets, last, started: now, refusal };
        if octets == 0 {
            return self.end_chunk(now, &chunk);
        }
        self.phase = Phase::Chunk(chunk);
    }

    /// Takes chunk octets from the front of `input`; returns how many.
    pub(crate) fn feed_chunk(&mut self, now: Instant, input: &[u8]) -> usize {
        let Phase::Chunk(chunk) = &mut self.phase else {
            return 0;
        };
        let taken = usize::try_from(chunk.left).unwrap_or(usize::MAX).min(input.len());
        chunk.left -= taken as u64;
        if let (None, Some(open)) = (chunk.refusal, &mut self.transaction) {
            open.content.extend_from_slice(&input[..taken]);
        }
        if chunk.left == 0
            && let Phase::Chunk(chunk) = core::mem::replace(&mut self.phase, Phase::Command)
        {
            self.end_chunk(now, &chunk);
        }
        taken
    }

    fn end_chunk(&mut self, now: Instant, chunk: &Chunk) {
        match (chunk.refusal, chunk.last) {
            (None, true) => self.judge_content(now, None),
            (None, false) => {
                if let Some(open) = &mut self.transaction {
                    open.chunks = Chunks::Accepted;
                }
                self.say(250, &format!("2.0.0 {} octets received", chunk.announced));
            }
            (Some(texts::MESSAGE_TOO_BIG), true) => self.refuse_content(texts::MESSAGE_TOO_BIG),
            (Some(texts::MESSAGE_TOO_BIG), false) => self.refuse_chunk(texts::MESSAGE_TOO_BIG),
            (Some(entry), last) => {
                self.refuse_junk(texts::reply(entry));
                match &mut self.transaction {
                    // Without what was refused, the rest would be another message.
                    Some(open) if !last => open.chunks = Chunks::Refused,
                    _ => self.transaction = None,
                }
            }
        }
    }

    /// Refuses a chunk that is too big; what follows it will be refused too.
    fn refuse_chunk(&mut self, entry: (u16, &str)) {
        let mut sender = None;
        if let Some(open) = &mut self.transaction {
            open.chunks = Chunks::Refused;
            open.content = Vec::new();
            sender = Some(open.sender.clone());
        }
        self.refuse(texts::reply(entry), crate::reject::Concerned { sender, recipients: Vec::new() });
    }

    fn chunk_refusal(&self, octets: u64) -> Option<(u16, &'static str)> {
        let Some(open) = &self.transaction else {
            return Some(texts::MAIL_FIRST);
        };
        if open.chunks == Chunks::Refused {
            return Some(texts::CHUNKS_FAILED);
        }
        if open.recipients.is_empty() {
            return Some(texts::RCPT_FIRST);
        }
        let total = (open.content.len() as u64).saturating_add(octets);
        (total > self.settings.max_message_size as u64).then_some(texts::MESSAGE_TOO_BIG)
    }
}
