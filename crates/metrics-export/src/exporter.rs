//! Requests on their way to a collector, and what is to be said and done about it.
//!
//! Owns [`Exporter`]. In: requests, each made on a blocking thread when the one before it was taken, and dropped when it was sent. Out: an [`Attempt`]: how long to wait before the next one, and news for the log, which come once when
//! a collector begins to refuse and once when it takes again. What is not taken is not kept: counters only grow, so the next attempt
//! tells what this one would have. A refusal that the same body would meet again (OTLP: all but 429, 502, 503 and 504) waits for the
//! next interval; others wait as event streams do, and as the collector asks.

use crate::otlp::Requests;
use config::{HttpClientOptions, OtlpMetrics};
use event_stream::backoff::{Backoff, retry_after};
use net::tls::{Connectors, TlsError};
use serde_json::Value;
use std::time::Duration;
use thiserror::Error;
use time::OffsetDateTime;
use tokio::task::JoinError;
use web::{Client, Content, Method, Request, StatusCode, WebError};

/// Sends metrics to one collector.
pub struct Exporter {
    client: Client,
    options: OtlpMetrics,
    backoff: Backoff,
    /// It was said that the collector refuses.
    is_said: bool,
}

/// What became of an attempt.
#[derive(Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Whether all was taken.
    pub is_taken: bool,
    /// Data points that the collector took a request without.
    pub rejected: u64,
    /// How long to wait.
    pub wait: Duration,
    /// What is worth saying.
    pub news: Option<News>,
}

/// For the log: once an outage.
#[derive(Debug, PartialEq, Eq)]
pub enum News {
    /// It began, and why.
    Refuses(String),
    /// It is over.
    TakesAgain,
}

/// The options cannot be used.
#[derive(Debug, Error)]
pub enum ExportError {
    /// A URL or a header field.
    #[error("{0}")]
    Web(#[from] WebError),
    /// No TLS.
    #[error("{0}")]
    Tls(#[from] TlsError),
    /// A field that each request has anyway.
    #[error("header field `{0}`: this one is set for each request: expected another")]
    Header(String),
}

/// Why a request was not taken.
#[derive(Debug, PartialEq, Eq)]
struct Refusal {
    why: String,
    retry_after: Option<Duration>,
    /// Another attempt may find it otherwise.
    is_passing: bool,
}

impl Exporter {
    /// As configured. Asks nobody.
    ///
    /// # Errors
    /// URL, header fields or TLS cannot be used.
    pub fn new(options: &OtlpMetrics, connectors: &Connectors) -> Result<Exporter, ExportError> {
        if let Some(name) = options.headers.keys().find(|name| is_ours(name)) {
            return Err(ExportError::Header(name.clone()));
        }
        let asks = HttpClientOptions {
            user_agent: Some("postrider".to_owned()),
            timeout: options.timeout,
            ..HttpClientOptions::default()
        };
        // A redirection would make a GET of what is sent.
        let client = Client::without_redirections(&asks, connectors)?;
        let exporter = Exporter { client, options: options.clone(), backoff: Backoff::default(), is_said: false };
        exporter.request(Vec::new())?;
        Ok(exporter)
    }

    /// Makes and sends these, one after the other, until one is not taken: one is in memory at a time.
    ///
    /// # Errors
    /// What makes them failed, or the program ends.
    pub async fn export(&mut self, mut requests: Requests) -> Result<Attempt, JoinError> {
        let mut rejected = 0;
        let outcome = loop {
            // Some ten milliseconds of work.
            let made = tokio::task::spawn_blocking(move || {
                let body = requests.next().map(|request| request.to_string().into_bytes());
                (requests, body)
            });
            let (rest, body) = made.await?;
            let Some(body) = body else { break Ok(()) };
            requests = rest;
            match self.post(body).await {
                Ok(count) => rejected += count,
                Err(refusal) => break Err(refusal),
            }
        };
        Ok(self.judged(outcome, rejected))
    }

    /// What follows of an outcome.
    fn judged(&mut self, outcome: Result<(), Refusal>, rejected: u64) -> Attempt {
        let interval = self.options.interval.get();
        let trouble = match (outcome, rejected) {
            (Ok(()), 0) => {
                self.backoff.succeeded();
                let news = std::mem::take(&mut self.is_said).then_some(News::TakesAgain);
                return Attempt { is_taken: true, rejected, wait: interval, news };
            }
            (Ok(()), _) => {
                let why = format!("the collector left out {rejected} data points");
                Refusal { why, retry_after: None, is_passing: false }
            }
            (Err(refusal), _) => refusal,
        };
        // Each attempt reads all metrics anew: a collector may ask for fewer, not for more.
        let doubled = |backoff: &mut Backoff| {
            backoff.failed(None).max(trouble.retry_after.unwrap_or_default().min(RETRY_AFTER_MAX))
        };
        let wait = if trouble.is_passing { doubled(&mut self.backoff) } else { interval };
        let news = (!std::mem::replace(&mut self.is_said, true)).then_some(News::Refuses(trouble.why));
        Attempt { is_taken: false, rejected, wait, news }
    }

    /// Sends one; how many points were left out of it.
    async fn post(&self, body: Vec<u8>) -> Result<u64, Refusal> {
        let failed = |why: String| Refusal { why: without_url(&why), retry_after: None, is_passing: true };
        let request = self.request(body).map_err(|error| failed(error.to_string()))?;
        let answer = self.client.send(request).await.map_err(|error| failed(in_full(&error)))?;
        let status = answer.status;
        let asked = answer.headers.get("retry-after").and_then(|field| field.to_str().ok()).map(str::to_owned);
        // Read to its end, so that the connection can be used again.
        let content = answer.content_up_to(ANSWER_OCTETS_MAX).await;
        if !status.is_success() {
            let retry_after = asked.and_then(|text| retry_after(&text, OffsetDateTime::now_utc()));
            let is_passing = PASSING.contains(&status);
            return Err(Refusal { why: format!("it answered {status}"), retry_after, is_passing });
        }
        let content = content.map_err(|error| failed(format!("{status}, but {}", in_full(&error))))?;
        Ok(left_out(&content))
    }

    fn request(&self, body: Vec<u8>) -> Result<Request, WebError> {
        let mut request = Request::new(Method::POST, &self.options.endpoint).map_err(WebError::without_secrets)?;
        request.add_header("content-type", b"application/json")?;
        for (name, value) in &self.options.headers {
            request.add_header(name, value.as_bytes())?;
        }
        request.content = Content::Octets(body);
        Ok(request)
    }
}

/// Says what is wrong with options, if anything is. Asks nobody.
///
/// # Errors
/// As [`Exporter::new`].
pub fn check(options: &OtlpMetrics) -> Result<(), ExportError> {
    Exporter::new(options, &Connectors::new(None)?).map(|_| ())
}

/// Data points that `partialSuccess` says were left out: a number of 64 bits, so text in JSON; numbers are met too.
fn left_out(content: &[u8]) -> u64 {
    let answer: Value = serde_json::from_slice(content).unwrap_or_default();
    let count = &answer["partialSuccess"]["rejectedDataPoints"];
    count.as_u64().or_else(|| count.as_str()?.parse().ok()).unwrap_or_default()
}

/// An error and what caused it.
fn in_full(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = error.source();
    }
    text
}

/// Without the URL, in which there may be a password.
fn without_url(error: &str) -> String {
    match error.split_once(" for url (").and_then(|(before, rest)| Some((before, rest.split_once(')')?.1))) {
        Some((before, behind)) => format!("{before}{behind}"),
        None => error.to_owned(),
    }
}

fn is_ours(name: &str) -> bool {
    OURS.iter().any(|ours| name.eq_ignore_ascii_case(ours))
}

/// Fields that each request has anyway.
const OURS: [&str; 6] =
    ["content-type", "content-length", "content-encoding", "transfer-encoding", "host", "connection"];
/// After these the same request may be taken (OTLP/HTTP, "Retryable Response Codes").
const PASSING: [StatusCode; 4] = [
    StatusCode::TOO_MANY_REQUESTS,
    StatusCode::BAD_GATEWAY,
    StatusCode::SERVICE_UNAVAILABLE,
    StatusCode::GATEWAY_TIMEOUT,
];
/// Longest wait that a collector may ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);
/// Octets of an answer.
const ANSWER_OCTETS_MAX: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::otlp::{About, POINTS_MAX};
    use serde_json::json;
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::net::TcpListener;
    use std::sync::{Arc, Mutex};
    use std::thread::JoinHandle;

    fn options(more: Value) -> OtlpMetrics {
        let mut options = json!({"endpoint": "http://127.0.0.1:4318/v1/metrics"});
        options.as_object_mut().expect("a table").extend(more.as_object().expect("a table").clone());
        config::parse("kumo.configure_otlp_metrics", options).expect("sound")
    }

    fn exporter(more: Value) -> Exporter {
        Exporter::new(&options(more), &Connectors::new(None).expect("TLS")).expect("sound")
    }

    fn refusal(is_passing: bool, retry_after: Option<u64>) -> Result<(), Refusal> {
        Err(Refusal { why: "no".to_owned(), retry_after: retry_after.map(Duration::from_secs), is_passing })
    }

    #[test]
    fn an_outage_is_said_once_and_so_is_its_end() {
        let mut exporter = exporter(json!({"interval": "30s"}));
        let seconds = |attempt: &Attempt| attempt.wait.as_secs();
        let first = exporter.judged(refusal(true, None), 0);
        assert_eq!((seconds(&first), first.news), (1, Some(News::Refuses("no".to_owned()))));
        let second = exporter.judged(refusal(true, None), 0);
        assert_eq!((seconds(&second), second.news, second.is_taken), (2, None, false));
        let asked = exporter.judged(refusal(true, Some(17)), 0);
        assert_eq!((seconds(&asked), asked.news), (17, None));
        let hurried = exporter.judged(refusal(true, Some(0)), 0);
        assert_eq!(seconds(&hurried), 8, "no sooner than without");
        let good = exporter.judged(Ok(()), 0);
        assert_eq!((seconds(&good), good.news, good.is_taken), (30, Some(News::TakesAgain), true));
        assert_eq!(exporter.judged(Ok(()), 0).news, None);
        let again = exporter.judged(refusal(true, None), 0);
        assert!(seconds(&again) == 1 && again.news.is_some(), "another outage: {again:?}");
    }

    #[test]
    fn what_would_be_refused_again_waits_for_the_next_interval() {
        let mut exporter = exporter(json!({"interval": "30s"}));
        for _ in 0..9 {
            let refused = exporter.judged(refusal(false, None), 0);
            assert_eq!(refused.wait, Duration::from_secs(30), "however often");
        }
        let partly = exporter.judged(Ok(()), 7);
        assert_eq!((partly.is_taken, partly.rejected, partly.wait), (false, 7, Duration::from_secs(30)));
        for (answer, count) in [
            ("{\"partialSuccess\":{\"rejectedDataPoints\":\"12\",\"errorMessage\":\"x\"}}", 12),
            ("{\"partialSuccess\":{\"rejectedDataPoints\":12}}", 12),
            ("{\"partialSuccess\":{}}", 0),
            ("{}", 0),
            ("", 0),
            ("<html>", 0),
        ] {
            assert_eq!(left_out(answer.as_bytes()), count, "{answer}");
        }
    }

    #[test]
    fn what_cannot_be_sent_is_said_beforehand() {
        for (more, says) in [
            (json!({"headers": {"Content-Type": "x"}}), "`Content-Type`: this one is set for each request"),
            (json!({"headers": {"Host": "x"}}), "`Host`"),
            (json!({"headers": {"a b": "x"}}), "a b"),
            (json!({"headers": {"X-A": "s3cret\nb"}}), "X-A"),
            (json!({"endpoint": "http://a.test:port/x"}), "http://a.test:port/x"),
            (json!({"endpoint": "http://a.test:port/x?token=s3cret"}), "http://a.test:port/x?***"),
        ] {
            let error = check(&options(more.clone())).expect_err("refused").to_string();
            assert!(error.contains(says) && !error.contains("s3cret"), "{more}: {error}");
        }
        check(&options(json!({"headers": {"Authorization": "Bearer x"}}))).expect("sound");
    }

    #[test]
    fn what_is_said_names_no_url() {
        assert_eq!(without_url("sending for url (https://a.test/?token=x): refused"), "sending: refused");
    }

    /// A collector that gives these answers, one a connection, and then is gone; how many data points each request had.
    fn collector(answers: &'static [&'static str]) -> (String, Arc<Mutex<Vec<usize>>>, JoinHandle<()>) {
        let sizes = Arc::new(Mutex::new(Vec::new()));
        let taken = sizes.clone();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let endpoint = format!("http://{}/v1/metrics", listener.local_addr().expect("an address"));
        let taking = std::thread::spawn(move || {
            let take = |status: &&str| {
                let (stream, _) = listener.accept().expect("a connection");
                let mut reader = BufReader::new(stream);
                let (mut line, mut length) = (String::new(), 0);
                while line != "\r\n" {
                    line.clear();
                    reader.read_line(&mut line).expect("a head");
                    let field = line.to_ascii_lowercase();
                    length = field
                        .strip_prefix("content-length:")
                        .map_or(length, |text| text.trim().parse().expect("a number"));
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).expect("a body");
                let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}");
                let points = String::from_utf8_lossy(&body).matches("timeUnixNano").count();
                sizes.lock().expect("no panic").push(points);
                reader.into_inner().write_all(answer.as_bytes()).expect("written");
            };
            answers.iter().for_each(take);
        });
        (endpoint, taken, taking)
    }

    #[tokio::test]
    async fn requests_are_sent_until_one_is_not_taken() {
        let lines: String = (0..3 * POINTS_MAX + 1).map(|number| format!("g{{q=\"{number}\"}} 1\n")).collect();
        let text = format!("# TYPE g gauge\n{lines}");
        for (answers, is_taken, sizes) in [
            (&["200 OK"; 4][..], true, &[POINTS_MAX, POINTS_MAX, POINTS_MAX, 1][..]),
            // Were a third one sent it would find nobody, which is another refusal.
            (&["200 OK", "400 Bad Request"], false, &[POINTS_MAX; 2]),
        ] {
            let (endpoint, taken, taking) = collector(answers);
            let mut exporter = exporter(json!({"endpoint": endpoint}));
            let requests = Requests::new(text.clone(), About::default(), 9);
            let attempt = exporter.export(requests).await.expect("made");
            // One request less would leave it waiting for ever.
            assert_eq!(taken.lock().expect("no panic").len(), sizes.len());
            taking.join().expect("it took them");
            assert_eq!(*taken.lock().expect("no panic"), sizes);
            assert_eq!(attempt.is_taken, is_taken, "{attempt:?}");
            let why = (!is_taken).then(|| News::Refuses("it answered 400 Bad Request".to_owned()));
            assert_eq!(attempt.news, why);
        }
    }
}
