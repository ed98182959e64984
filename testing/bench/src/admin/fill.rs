//! Very many messages, put into the program in bulk over HTTP, each with a sender and a recipient of its own.

use std::net::SocketAddr;

use anyhow::{Context as _, anyhow, bail};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::Backlog;
use crate::http::post;

impl Backlog {
    /// The queue, which is called by its domain, of a message.
    pub fn queue(&self, number: u64) -> String {
        format!("d{:07}.bench.test", number % self.queues)
    }

    /// The recipient of a message.
    pub fn recipient(&self, number: u64) -> String {
        format!("user-{number}@{}", self.queue(number))
    }

    /// The sender of a message.
    pub fn sender(number: u64) -> String {
        format!("sender-{number}@from.bench.test")
    }

    /// Messages of a queue.
    pub fn of_queue(&self, queue: u64) -> u64 {
        self.messages / self.queues + u64::from(queue < self.messages % self.queues)
    }
}

/// Puts them in; ends when all are on disk.
///
/// # Errors
/// One is not taken.
pub fn fill(http: SocketAddr, backlog: Backlog) -> anyhow::Result<()> {
    std::thread::scope(|threads| {
        let share = |stream: u64| {
            let numbers = (stream * LINES..backlog.messages).step_by((STREAMS * LINES) as usize);
            numbers.into_iter().try_for_each(|from| inject(http, backlog, from..backlog.messages.min(from + LINES)))
        };
        let all: Vec<_> = (0..STREAMS).map(|stream| threads.spawn(move || share(stream))).collect();
        all.into_iter().try_for_each(|one| one.join().map_err(|_| anyhow!("an injecting thread panicked"))?)
    })
}

/// When they are due.
///
/// # Errors
/// The year has five digits.
pub fn tomorrow() -> anyhow::Result<String> {
    Ok((OffsetDateTime::now_utc() + time::Duration::DAY).format(&Rfc3339)?)
}

fn inject(http: SocketAddr, backlog: Backlog, numbers: std::ops::Range<u64>) -> anyhow::Result<()> {
    let lines: String = numbers.clone().map(|number| line(backlog, number)).collect();
    let answers = post(http, "/api/inject/bulk/v1", "application/x-ndjson", &lines).context("injecting in bulk")?;
    let odd = answers.lines().find(|answer| !answer.contains("\"success_count\":1,"));
    let count = answers.lines().count() as u64;
    if let Some(odd) = odd {
        bail!("not taken: {odd}");
    }
    if count != numbers.end - numbers.start {
        bail!("{count} lines of {numbers:?} were answered");
    }
    Ok(())
}

fn line(backlog: Backlog, number: u64) -> String {
    let message = serde_json::json!({
        "envelope_sender": Backlog::sender(number),
        "content": "Subject: one of many\r\n\r\nhello\r\n",
        "recipients": [{"email": backlog.recipient(number)}],
    });
    format!("{message}\n")
}

const STREAMS: u64 = 4;
/// Of a request.
const LINES: u64 = 5_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_messages_are_in_some_queue() {
        let backlog = Backlog { messages: 10, queues: 4 };
        let counts: Vec<u64> = (0..4).map(|queue| backlog.of_queue(queue)).collect();
        assert_eq!(counts, [3, 3, 2, 2]);
        let counted = |queue: u64| (0..10).filter(|number| backlog.queue(*number) == backlog.queue(queue)).count();
        assert_eq!((0..4).map(|queue| counted(queue) as u64).collect::<Vec<_>>(), counts);
        let line: serde_json::Value = serde_json::from_str(&line(backlog, 7)).expect("JSON");
        assert_eq!(line["recipients"][0]["email"], "user-7@d0000003.bench.test");
    }
}
