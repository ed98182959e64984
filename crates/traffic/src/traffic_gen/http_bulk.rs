//! Injection over HTTP in a stream: one POST of `/api/inject/bulk/v1`, a line for each letter, answers read meanwhile.
//!
//! In: letters. Out: settled messages. Both bodies are chunked. A group of lines is written at once, then answers are
//! read until there is room for the next: never so many are without an answer that both sides could wait for each other.
//! Each letter has a line of its own in its body, so that no two share one.

use super::client::{Client, ClientError, Ending};
use super::http::{CLOSING, HEADER_LINES_MAX, HttpSession, opening};
use super::letter::Letter;
use super::options::HttpPlan;
use super::wire::Wire;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::time::Instant;

/// The lines of a connection.
#[derive(Default)]
struct Stream {
    /// Letters without an answer, and when they were sent.
    under_way: VecDeque<(Letter, Instant)>,
    /// Whether the answer's head was read.
    is_answered: bool,
    /// Whether the body's end was sent.
    is_closed: bool,
}

impl Client {
    /// Sends lines until the work is done or the connection has had its share.
    pub(super) async fn converse_bulk(&mut self, session: &mut HttpSession) -> Result<Ending, ClientError> {
        let Some(http) = self.run.plan.http else {
            return Ok(Ending::Done);
        };
        let mut stream = Stream::default();
        let outcome = self.stream_lines(session, http, &mut stream).await;
        for (letter, _) in std::mem::take(&mut stream.under_way) {
            self.unknown(letter, 1);
        }
        outcome
    }

    async fn stream_lines(
        &mut self,
        session: &mut HttpSession,
        http: HttpPlan,
        stream: &mut Stream,
    ) -> Result<Ending, ClientError> {
        let head = format!(
            "POST /api/inject/bulk/v1 HTTP/1.1\r\nHost: {}\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n",
            self.run.plan.authority,
        );
        session.wire.write_all(head.as_bytes()).await?;
        let mut ending = Ending::Renew;
        loop {
            if !stream.is_closed {
                let letters = self.letters(session, stream).await;
                self.write_lines(session, http, stream, &letters).await?;
                let has_had_its_share = session.requests >= self.run.plan.messages_per_connection;
                if letters.len() < GROUP_MAX
                    && (letters.is_empty() || has_had_its_share)
                    && stream.under_way.len() <= LOW
                {
                    stream.is_closed = true;
                    ending = if has_had_its_share { Ending::Renew } else { Ending::Done };
                    session.wire.write_all(b"0\r\n\r\n").await?;
                }
            }
            // There is room for a group when this is done.
            while stream.is_closed || stream.under_way.len() > LOW {
                if !self.read_answers(session, stream).await? {
                    return Ok(ending);
                }
            }
        }
    }

    /// The letters that may go now.
    async fn letters(&mut self, session: &mut HttpSession, stream: &Stream) -> Vec<Letter> {
        let mut letters = Vec::with_capacity(GROUP_MAX);
        while letters.len() < GROUP_MAX && session.requests < self.run.plan.messages_per_connection {
            let held = stream.under_way.len() + letters.len() + 1;
            if !self.hold(held as u64) || !self.permission(1).await {
                break;
            }
            session.requests += 1;
            letters.push(self.next_letter());
        }
        letters
    }

    async fn write_lines(
        &mut self,
        session: &mut HttpSession,
        http: HttpPlan,
        stream: &mut Stream,
        letters: &[Letter],
    ) -> Result<(), ClientError> {
        let run = self.run.clone();
        let body = &run.stationery.body.json;
        let mut openings = Vec::with_capacity(letters.len());
        for letter in letters {
            self.write_own_head(*letter);
            let opening = opening(&run.stationery, &self.head, *letter, http, 1);
            let octets = opening.len() + body.len() + CLOSING.len() + 1;
            openings.push([format!("{octets:x}\r\n").as_bytes(), &opening].concat());
        }
        let end = [CLOSING, b"\n\r\n"].concat();
        let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(letters.len() * 3);
        for opening in &openings {
            slices.extend([opening, body.as_ref(), &end[..]].map(IoSlice::new));
        }
        // What is written in part may be taken: it is under way whatever happens.
        let sent_at = Instant::now();
        stream.under_way.extend(letters.iter().map(|letter| (*letter, sent_at)));
        Ok(session.wire.write(&mut slices).await.outcome?)
    }

    /// Reads the answers that came together; false at the end of all.
    async fn read_answers(&mut self, session: &mut HttpSession, stream: &mut Stream) -> Result<bool, ClientError> {
        if !stream.is_answered {
            read_head(&mut session.wire).await?;
            stream.is_answered = true;
        }
        let size = session.wire.line().await?;
        let octets = std::str::from_utf8(size).ok().and_then(|size| usize::from_str_radix(size.trim(), 16).ok());
        let octets = octets.filter(|octets| *octets <= CHUNK_OCTETS_MAX).ok_or_else(|| bad(size))?;
        let chunk = session.wire.bytes(octets).await?;
        session.wire.line().await?;
        for line in chunk.split(|&b| b == b'\n').filter(|line| !line.is_empty()) {
            let (letter, sent_at) = stream.under_way.pop_front().ok_or_else(|| bad(line))?;
            let answer: serde_json::Value = serde_json::from_slice(line).map_err(|_| bad(line))?;
            match answer["success_count"].as_u64() {
                Some(1) => self.sent(letter, &[0], sent_at),
                _ => {
                    self.run.note_failure(|| answer.to_string());
                    self.failed(1);
                }
            }
            if answer["end"] == true {
                return Err(bad(line));
            }
        }
        Ok(octets > 0)
    }
}

async fn read_head(wire: &mut Wire) -> Result<(), ClientError> {
    let status = wire.line().await?.to_vec();
    for _ in 0..HEADER_LINES_MAX {
        if wire.line().await?.is_empty() {
            let is_ok = status.starts_with(b"HTTP/1.1 200 ");
            return if is_ok { Ok(()) } else { Err(bad(&status)) };
        }
    }
    Err(bad(b"an HTTP answer with too many header lines"))
}

fn bad(text: &[u8]) -> ClientError {
    ClientError::BadReply(String::from_utf8_lossy(text).into_owned())
}

/// Lines written at once.
const GROUP_MAX: usize = 64;
/// Lines without an answer when the next group is written.
const LOW: usize = 448;
/// Octets of a chunk of answers.
const CHUNK_OCTETS_MAX: usize = 1 << 20;
