//! Questions of an operator, how long their answers took, and what is wrong with them.
//!
//! In: a program that holds a [`Backlog`]. Out: times, and a fault where the answer is not what was queued. It fails only where there
//! is no answer.

use std::net::SocketAddr;
use std::time::Instant;

use anyhow::Context as _;
use serde_json::Value;

use super::Backlog;
use crate::http::get;
use crate::metrics::Metrics;

/// Who asks.
pub struct Questions {
    /// Whom.
    pub http: SocketAddr,
    /// What waits there.
    pub backlog: Backlog,
}

/// An answer, of one page or more.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// Its slowest page.
    pub slowest_ms: f64,
    /// All of its pages.
    pub all_ms: f64,
    /// How many.
    pub requests: u64,
    /// What is wrong with it.
    pub fault: Option<String>,
}

impl Questions {
    /// `/metrics`; the first page may be from before the messages came.
    pub fn metrics(&self, is_checked: bool) -> anyhow::Result<Asked> {
        let (mut asked, text) = self.timed("/metrics")?;
        if !is_checked {
            return Ok(asked);
        }
        let metrics = Metrics::parse(&text);
        let queues = metrics.value("scheduled_queue_count");
        let counts = [metrics.value("message_count"), Some(metrics.sum("scheduled_count")), queues];
        let expected =
            [self.backlog.messages, self.backlog.messages, self.backlog.queues].map(|count| Some(count as f64));
        asked.expect("message_count, the sum of scheduled_count, and queues", &counts, &expected);
        Ok(asked)
    }

    /// What the console begins with.
    pub fn overview(&self) -> anyhow::Result<Asked> {
        let (mut asked, answer) = self.json("/api/admin/overview/v1")?;
        let counts = [&answer["messages"], &answer["scheduled_queues"]].map(Value::as_u64);
        asked.expect("messages and queues", &counts, &[self.backlog.messages, self.backlog.queues].map(Some));
        Ok(asked)
    }

    /// All queues, summed up.
    pub fn survey(&self) -> anyhow::Result<Asked> {
        let (mut asked, answer) = self.json("/api/admin/queues/v1?by=domain")?;
        let Backlog { messages, queues } = self.backlog;
        let groups = answer["groups"].as_array().map(|groups| groups.len() as u64);
        let counts = [answer["total"]["count"].as_u64(), answer["groups_total"].as_u64(), groups];
        asked.expect("messages, domains, groups of a page", &counts, &[messages, queues, queues.min(PAGE)].map(Some));
        Ok(asked)
    }

    /// A message by its `recipient` or `sender`.
    pub fn by_address(&self, what: &str, time: u64) -> anyhow::Result<Asked> {
        let number = self.message(time);
        let address = if what == "sender" { Backlog::sender(number) } else { self.backlog.recipient(number) };
        let (mut asked, found) = self.search(&format!("{what}={address}"), u64::MAX)?;
        asked.expect("messages", &found, &[self.facts(number)]);
        Ok(asked)
    }

    /// A page of messages of a domain, or what there is.
    pub fn by_domain(&self, time: u64) -> anyhow::Result<Asked> {
        let queue = self.message(time) % self.backlog.queues;
        let expected = self.backlog.of_queue(queue).min(PAGE);
        let (mut asked, found) = self.search(&format!("domain={}", self.backlog.queue(queue)), expected)?;
        let queues: Vec<&str> = found.iter().map(|[_, _, queue, _]| queue.as_str()).collect();
        asked.expect("queues", &queues, &vec![self.backlog.queue(queue).as_str(); expected as usize]);
        Ok(asked)
    }

    /// A message by its id.
    pub fn by_id(&self, time: u64) -> anyhow::Result<Asked> {
        let number = self.message(time);
        let id = self.id(number)?;
        let (mut asked, found) = self.search(&format!("id={id}"), u64::MAX)?;
        asked.expect("messages", &found, &[self.facts(number)]);
        Ok(asked)
    }

    /// A message that is not there.
    pub fn nothing(&self, time: u64) -> anyhow::Result<Asked> {
        let queue = self.backlog.queue(self.message(time));
        let (mut asked, found) = self.search(&format!("recipient=nobody-{time}@{queue}"), u64::MAX)?;
        asked.expect("messages", &found, &[]);
        Ok(asked)
    }

    /// All that happened to a message.
    pub fn timeline(&self, time: u64) -> anyhow::Result<Asked> {
        let number = self.message(time);
        let id = self.id(number)?;
        let (mut asked, answer) = self.json(&format!("/api/admin/timeline/v1?id={id}"))?;
        let kinds = answer["events"].as_array().into_iter().flatten().map(|event| event["type"].clone());
        asked.expect("where it is", &facts_of(&answer["now"]), &self.facts(number));
        asked.expect("events", &kinds.collect::<Vec<_>>(), &["Reception", "Delayed"].map(Value::from));
        asked.note_unread(&answer);
        Ok(asked)
    }

    /// Whether the last message that was sent is found by its record.
    ///
    /// # Errors
    /// There is no answer.
    pub fn last_is_logged(&self) -> anyhow::Result<bool> {
        let recipient = self.backlog.recipient(self.backlog.messages - 1);
        let (_, found) = self.search(&format!("among=logs&recipient={recipient}"), u64::MAX)?;
        Ok(!found.is_empty())
    }

    /// Which message is asked about this time: they are spread over all of them.
    fn message(&self, time: u64) -> u64 {
        self.backlog.messages * (2 * time + 1) / (2 * super::TIMES)
    }

    fn id(&self, number: u64) -> anyhow::Result<String> {
        let query = format!("/api/admin/search/v1?recipient={}", self.backlog.recipient(number));
        let (_, answer) = self.json(&query)?;
        let id = answer["messages"][0]["id"].as_str().map(str::to_owned);
        id.with_context(|| format!("{query} finds no id: {answer}"))
    }

    /// Sender, recipient, queue and state of a message.
    fn facts(&self, number: u64) -> [String; 4] {
        let (to, queue) = (self.backlog.recipient(number), self.backlog.queue(number));
        [Backlog::sender(number), to, queue, "waiting".to_owned()]
    }

    /// Pages of a search until there is no next one, or enough was found.
    fn search(&self, query: &str, enough: u64) -> anyhow::Result<(Asked, Vec<[String; 4]>)> {
        let (mut all, mut found) = (Asked::default(), Vec::new());
        let mut cursor = String::new();
        loop {
            let (asked, answer) = self.json(&format!("/api/admin/search/v1?{query}{cursor}"))?;
            all.add(&asked);
            all.note_unread(&answer);
            found.extend(answer["messages"].as_array().into_iter().flatten().map(facts_of));
            match answer["next"].as_str() {
                Some(next) if (found.len() as u64) < enough => cursor = format!("&cursor={next}"),
                _ => return Ok((all, found)),
            }
        }
    }

    fn json(&self, path: &str) -> anyhow::Result<(Asked, Value)> {
        let (asked, text) = self.timed(path)?;
        let answer = serde_json::from_str(&text).with_context(|| format!("{path} is answered {text}"))?;
        Ok((asked, answer))
    }

    fn timed(&self, path: &str) -> anyhow::Result<(Asked, String)> {
        let begun = Instant::now();
        let text = get(self.http, path).with_context(|| format!("GET {path}"))?;
        let ms = begun.elapsed().as_secs_f64() * 1e3;
        Ok((Asked { slowest_ms: ms, all_ms: ms, requests: 1, fault: None }, text))
    }
}

impl Asked {
    /// One more page.
    fn add(&mut self, page: &Asked) {
        self.slowest_ms = self.slowest_ms.max(page.slowest_ms);
        self.all_ms += page.all_ms;
        self.requests += page.requests;
    }

    fn expect<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, found: &[T], expected: &[T]) {
        if found != expected && self.fault.is_none() {
            self.fault = Some(format!("{what}: {found:?} instead of {expected:?}"));
        }
    }

    /// All of the log has to have been read.
    fn note_unread(&mut self, answer: &Value) {
        self.expect("not searched", &[&answer["not_searched"]], &[&Value::Array(Vec::new())]);
    }
}

/// Sender, recipient, queue and state of a message in an answer.
fn facts_of(message: &Value) -> [String; 4] {
    ["sender", "recipient", "queue_name", "state"].map(|name| message[name].as_str().unwrap_or_default().to_owned())
}

/// Messages and groups of a page unless another number is asked for.
const PAGE: u64 = 50;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    /// Somebody who gives these answers, one a connection.
    fn answering(answers: Vec<Value>) -> Questions {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let http = listener.local_addr().expect("bound");
        std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().expect("a client");
                let mut request = [0; 1024];
                assert!(stream.read(&mut request).expect("a request") > 0);
                write!(stream, "HTTP/1.0 200 OK\r\n\r\n{answer}").expect("answered");
            }
        });
        Questions { http, backlog: Backlog { messages: 10, queues: 5 } }
    }

    fn message(number: u64) -> Value {
        json!({"id": format!("id-{number}"), "sender": format!("sender-{number}@from.bench.test"), "state": "waiting",
            "recipient": format!("user-{number}@d{:07}.bench.test", number % 5),
            "queue_name": format!("d{:07}.bench.test", number % 5)})
    }

    fn page(messages: Value, next: Value) -> Value {
        json!({"messages": messages, "next": next, "not_searched": []})
    }

    #[test]
    fn pages_are_asked_for_until_all_is_found() {
        let pages = vec![page(json!([message(1)]), json!("q7")), page(json!([message(6)]), json!("q9"))];
        let asked = answering(pages).by_domain(0).expect("answers");
        assert_eq!((asked.requests, asked.fault), (2, None));
        let pages = vec![page(json!([]), json!("q7")), page(json!([message(1)]), Value::Null)];
        let asked = answering(pages).by_address("recipient", 0).expect("answers");
        assert_eq!((asked.requests, asked.fault), (2, None));
    }

    #[test]
    fn wrong_answers_are_faults() {
        let other = vec![page(json!([message(2)]), Value::Null)];
        let twice = vec![page(json!([message(1), message(1)]), Value::Null)];
        let none = vec![page(json!([]), Value::Null)];
        for (answers, why) in [(other, "sender-2"), (twice, "sender-1@"), (none, "[] instead of")] {
            let fault = answering(answers).by_address("sender", 0).expect("answers").fault.expect("a fault");
            assert!(fault.contains(why), "{fault}");
        }
        let found = answering(vec![page(json!([message(1)]), Value::Null)]).nothing(0).expect("answers");
        assert!(found.fault.is_some_and(|fault| fault.contains("instead of []")));
        let mut unread = page(json!([message(1)]), Value::Null);
        unread["not_searched"] = json!(["a segment"]);
        let asked = answering(vec![unread]).by_address("recipient", 0).expect("answers");
        assert!(asked.fault.is_some_and(|fault| fault.starts_with("not searched")));
        let short = json!({"groups": [], "total": {"count": 10}, "groups_total": 5});
        assert!(answering(vec![short]).survey().expect("answers").fault.is_some());
        let gone = json!({"now": null, "events": [{"type": "Reception"}], "not_searched": []});
        let asked = answering(vec![page(json!([message(1)]), Value::Null), gone]).timeline(0).expect("answers");
        assert!(asked.fault.is_some_and(|fault| fault.starts_with("where it is")));
    }
}
