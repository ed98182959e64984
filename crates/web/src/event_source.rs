//! Server-sent events (WHATWG HTML, section 9.2), of which scripts read.
//!
//! Owns [`EventSource`]. In: the content of an answer as it comes. Out: events, one by one. A stream that ends is not asked for
//! again: whoever reads decides, and knows the id of the last event.

use crate::client::Answer;
use crate::error::WebError;
use std::collections::VecDeque;

/// One that is open.
pub struct EventSource {
    answer: Answer,
    lines: Lines,
    ready: VecDeque<ServerEvent>,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerEvent {
    /// Its type: `message` where the server names none.
    pub event: String,
    /// Its lines of data, with LF between.
    pub data: String,
    /// The last id that the server gave, with this event or before.
    pub id: Option<String>,
    /// After so many milliseconds the server wants to be asked again, if it said so with this event.
    pub retry_ms: Option<u64>,
}

impl EventSource {
    /// Reads an answer as events.
    ///
    /// # Errors
    /// It is an answer of another kind: `HTTP error: 404 Not Found`, or content that is no `text/event-stream`.
    pub fn of(answer: Answer) -> Result<EventSource, WebError> {
        if !answer.status.is_success() {
            return Err(WebError::Request(format!("HTTP error: {}", answer.status)));
        }
        let kind = answer.headers.get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if kind.split(';').next().is_none_or(|kind| !kind.trim().eq_ignore_ascii_case(MEDIA_TYPE)) {
            return Err(WebError::Request(format!("the answer is {kind:?}: expected {MEDIA_TYPE}")));
        }
        Ok(EventSource { answer, lines: Lines::default(), ready: VecDeque::new() })
    }

    /// Waits for the next event; `None` when the server is done.
    ///
    /// # Errors
    /// The connection broke, or an event is longer than [`EVENT_OCTETS_MAX`].
    pub async fn recv(&mut self) -> Result<Option<ServerEvent>, WebError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            let Some(chunk) = self.answer.chunk().await? else { return Ok(None) };
            self.lines.read(&chunk, &mut self.ready)?;
        }
    }
}

/// What came of a line and of an event so far.
#[derive(Default)]
struct Lines {
    line: Vec<u8>,
    /// A CR ended the last line: an LF that comes next belongs to it.
    is_behind_cr: bool,
    is_begun: bool,
    event: String,
    data: Option<String>,
    id: Option<String>,
    retry_ms: Option<u64>,
}

impl Lines {
    fn read(&mut self, octets: &[u8], ready: &mut VecDeque<ServerEvent>) -> Result<(), WebError> {
        for octet in octets {
            match octet {
                b'\n' if std::mem::take(&mut self.is_behind_cr) => {}
                b'\n' | b'\r' => {
                    self.is_behind_cr = *octet == b'\r';
                    let line = std::mem::take(&mut self.line);
                    ready.extend(self.take(&String::from_utf8_lossy(&line)));
                }
                octet => {
                    self.is_behind_cr = false;
                    self.line.push(*octet);
                    if self.line.len() + self.data.as_ref().map_or(0, String::len) > EVENT_OCTETS_MAX {
                        return Err(WebError::TooLong { octets_max: EVENT_OCTETS_MAX });
                    }
                }
            }
        }
        Ok(())
    }

    /// What a line comes to: an event when it is empty and there were data.
    fn take(&mut self, line: &str) -> Option<ServerEvent> {
        let line = if std::mem::replace(&mut self.is_begun, true) { line } else { line.trim_start_matches('\u{feff}') };
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            let retry_ms = self.retry_ms.take();
            let data = self.data.take()?;
            let event = if event.is_empty() { "message".to_owned() } else { event };
            return Some(ServerEvent { event, data, id: self.id.clone(), retry_ms });
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "event" => value.clone_into(&mut self.event),
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            "id" if !value.contains('\0') => self.id = Some(value.to_owned()),
            "retry" if value.bytes().all(|octet| octet.is_ascii_digit()) => self.retry_ms = value.parse().ok(),
            // A comment, or a field of a later standard.
            _ => {}
        }
        None
    }
}

/// What it is.
const MEDIA_TYPE: &str = "text/event-stream";
/// The longest event, in octets.
pub const EVENT_OCTETS_MAX: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn event(event: &str, data: &str, id: Option<&str>, retry_ms: Option<u64>) -> ServerEvent {
        ServerEvent { event: event.to_owned(), data: data.to_owned(), id: id.map(str::to_owned), retry_ms }
    }

    /// The same events however the octets are cut, and whatever ends lines.
    #[test]
    fn events_are_read_at_every_cut() {
        let text = "\u{feff}: hello\ndata: one\ndata:two\nid: 7\n\nevent: bounce\ndata\nretry: 250\nretry: x\n\n\n\
                    data:  blank\nid\nother: 1\n\ndata: unfinished\n";
        let want = [
            event("message", "one\ntwo", Some("7"), None),
            event("bounce", "", Some("7"), Some(250)),
            event("message", " blank", Some(""), None),
        ];
        for end in ["\n", "\r", "\r\n"] {
            let octets = text.replace('\n', end).into_bytes();
            for cut in 0..=octets.len() {
                let (mut lines, mut ready) = (Lines::default(), VecDeque::new());
                lines.read(&octets[..cut], &mut ready).expect("short");
                lines.read(&octets[cut..], &mut ready).expect("short");
                assert_eq!(ready, want, "{end:?} {cut}");
            }
        }
    }

    #[test]
    fn an_event_is_bounded() {
        let (mut lines, mut ready) = (Lines::default(), VecDeque::new());
        let half = format!("data: {}\n", "x".repeat(EVENT_OCTETS_MAX / 2 - 10));
        lines.read(half.as_bytes(), &mut ready).expect("half");
        lines.read(b"\n", &mut ready).expect("an event");
        lines.read(half.as_bytes(), &mut ready).expect("another one");
        lines.read(half.as_bytes(), &mut ready).expect("all but");
        let error = lines.read(half.as_bytes(), &mut ready).expect_err("too long").to_string();
        assert!(error.contains("longer than 16777216 octets") && ready.len() == 1, "{error}");
    }
}
