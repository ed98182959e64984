//! Injection over HTTP: one POST of `/api/inject/v1` for a batch of recipients, over a kept-alive HTTP/1.1
//! connection.
//!
//! In: letters. Out: settled messages. It reads just as much HTTP as the injection API answers with: a status line,
//! a header block, a body whose length is stated. Chunked answers and redirects are errors. The message goes as the
//! string form of `content`; the body's JSON is made once a run.

use super::client::{Client, ClientError, Ending, Run};
use super::letter::{Letter, Stationery};
use super::options::HttpPlan;
use super::tally::Shard;
use super::wire::Wire;
use std::io::IoSlice;

/// A kept-alive connection.
pub(super) struct HttpSession {
    pub wire: Wire,
    pub requests: u64,
}

struct Answer {
    status: u16,
    body: Vec<u8>,
    closes: bool,
}

impl HttpSession {
    /// Connects.
    pub(super) async fn open(run: &Run, shard: &Shard) -> Result<Self, ClientError> {
        // The semaphore is never closed, so a permit always comes.
        let _permit = run.handshakes.acquire().await;
        let wire = Wire::connect(&run.plan.addresses).await?;
        run.connected(shard);
        Ok(Self { wire, requests: 0 })
    }

    async fn answer(&mut self) -> Result<Answer, ClientError> {
        let bad = |text: &[u8]| ClientError::BadReply(String::from_utf8_lossy(text).into_owned());
        let status_line = self.wire.line().await?;
        let status = std::str::from_utf8(status_line)
            .ok()
            .filter(|line| line.starts_with("HTTP/1."))
            .and_then(|line| line.split(' ').nth(1)?.parse().ok())
            .ok_or_else(|| bad(status_line))?;
        let mut length = None;
        let mut closes = false;
        for _ in 0..HEADER_LINES_MAX {
            let line = self.wire.line().await?;
            if line.is_empty() {
                let length = length.ok_or_else(|| bad(b"an HTTP answer without Content-Length"))?;
                if length > ANSWER_BYTES_MAX {
                    return Err(bad(b"an HTTP answer that is too long"));
                }
                let body = self.wire.bytes(length).await?;
                return Ok(Answer { status, body, closes });
            }
            if let Some(value) = field(line, b"content-length:") {
                length = std::str::from_utf8(value).ok().and_then(|value| value.parse().ok());
            } else if let Some(value) = field(line, b"connection:") {
                closes = value.eq_ignore_ascii_case(b"close");
            }
        }
        Err(bad(b"an HTTP answer with too many header lines"))
    }
}

impl Client {
    /// Posts requests until the work is done or the connection is of no more use.
    pub(super) async fn converse_http(&mut self, session: &mut HttpSession) -> Result<Ending, ClientError> {
        let Some(http) = self.run.plan.http else {
            return Ok(Ending::Done);
        };
        loop {
            if session.requests >= self.run.plan.messages_per_connection {
                return Ok(Ending::Renew);
            }
            // The last batch may be a small one.
            self.hold(http.batch);
            let batch = self.held.min(http.batch);
            if batch == 0 || !self.permission(batch).await {
                return Ok(Ending::Done);
            }
            session.requests += 1;
            let letter = self.next_letter();
            let answer = self.post(session, letter, http, batch).await?;
            if answer.closes {
                return Ok(Ending::Renew);
            }
        }
    }

    async fn post(
        &mut self,
        session: &mut HttpSession,
        letter: Letter,
        http: HttpPlan,
        batch: u64,
    ) -> Result<Answer, ClientError> {
        self.write_head(letter);
        let opening = opening(&self.run.stationery, &self.head, letter, http, batch);
        let body = &self.run.stationery.body.json;
        let content_length = opening.len() + body.len() + CLOSING.len();
        let request = format!(
            "POST /api/inject/v1 HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {content_length}\r\n\r\n",
            self.run.plan.authority,
        );
        let mut slices = [request.as_bytes(), &opening, body, CLOSING].map(IoSlice::new);
        let written = session.wire.write(&mut slices).await;
        let answer = match written.outcome {
            Ok(()) => session.answer().await,
            Err(error) if written.bytes >= request.len() + content_length => Err(error.into()),
            Err(error) => return Err(error.into()),
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                self.unknown(letter, batch);
                return Err(error);
            }
        };
        let recipient = |place| {
            let mut address = Vec::new();
            self.run.stationery.recipient_of(&mut address, letter, place);
            address
        };
        let accepted = accepted(&answer, http, batch, recipient);
        if !accepted.is_empty() {
            self.sent(letter, &accepted, written.last_part_at);
        }
        let refused = batch - accepted.len() as u64;
        if refused > 0 {
            let text = || format!("{} {}", answer.status, String::from_utf8_lossy(&answer.body));
            self.run.note_failure(text);
            self.failed(refused);
        }
        Ok(answer)
    }
}

/// The request's JSON from its first brace into the content string, up to where the shared body begins.
pub(super) fn opening(stationery: &Stationery, head: &[u8], letter: Letter, http: HttpPlan, batch: u64) -> Vec<u8> {
    let mut json = b"{\"envelope_sender\":".to_vec();
    let sender = serde_json::Value::from(stationery.sender(letter));
    json.extend_from_slice(sender.to_string().as_bytes());
    if http.defer_spool {
        json.extend_from_slice(b",\"deferred_spool\":true");
    }
    if http.defer_generation {
        json.extend_from_slice(b",\"deferred_generation\":true");
    }
    json.extend_from_slice(b",\"recipients\":[");
    for at in 0..batch {
        if at > 0 {
            json.push(b',');
        }
        json.extend_from_slice(b"{\"email\":\"");
        stationery.recipient_of(&mut json, letter, at);
        json.extend_from_slice(b"\"}");
    }
    json.extend_from_slice(b"],\"content\":");
    let head = serde_json::Value::from(String::from_utf8_lossy(head)).to_string();
    json.extend_from_slice(&head.as_bytes()[..head.len() - 1]);
    json
}
/// The places of the batch whose messages the server took. With deferred generation it counts none, but has taken them all.
fn accepted(answer: &Answer, http: HttpPlan, batch: u64, recipient: impl Fn(u64) -> Vec<u8>) -> Vec<u64> {
    if answer.status != 200 {
        return Vec::new();
    }
    if http.defer_generation {
        return (0..batch).collect();
    }
    let said: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let count = said["success_count"].as_u64().unwrap_or(0);
    let failed: Vec<&[u8]> = said["failed_recipients"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|it| Some(it.as_str()?.as_bytes()))
        .collect();
    let is_taken = |place: &u64| failed.is_empty() || !failed.contains(&recipient(*place).as_slice());
    (0..batch).filter(is_taken).zip(0..count).map(|(place, _)| place).collect()
}

fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let value = line.get(name.len()..)?;
    line[..name.len()].eq_ignore_ascii_case(name).then(|| value.trim_ascii())
}

/// Ends the content string and the request.
pub(super) const CLOSING: &[u8] = b"\"}";
pub(super) const HEADER_LINES_MAX: usize = 100;
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_failed_is_not_among_those_that_were_taken() {
        let plan = HttpPlan { defer_spool: false, defer_generation: false, batch: 4, bulk: false };
        let places = |status, body: &str, plan| {
            let answer = Answer { status, body: body.as_bytes().to_vec(), closes: false };
            accepted(&answer, plan, 4, |place| format!("user-{place}@a.test").into_bytes())
        };
        let partly = r#"{"success_count":3,"fail_count":1,"failed_recipients":["user-1@a.test"],"errors":["no"]}"#;
        assert_eq!(places(200, partly, plan), [0, 2, 3]);
        assert_eq!(places(200, r#"{"success_count":4,"failed_recipients":[]}"#, plan), [0, 1, 2, 3]);
        assert_eq!(places(200, r#"{"success_count":2}"#, plan), [0, 1]);
        assert_eq!(places(200, r#"{"success_count":0}"#, HttpPlan { defer_generation: true, ..plan }), [0, 1, 2, 3]);
        assert!(places(429, partly, plan).is_empty() && places(200, "no JSON", plan).is_empty());
    }
}
