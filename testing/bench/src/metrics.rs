//! Reads a daemon's `/metrics`: a single HTTP request and the Prometheus text. In: an address. Out: numbers by series.
//!
//! HTTP/1.0 on purpose: the answer then comes in one piece and ends with the connection.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, bail};

/// The series of one scrape, by name with labels as written.
pub struct Metrics(HashMap<String, f64>);

impl Metrics {
    /// Asks the daemon that serves HTTP at `address`.
    ///
    /// # Errors
    /// It does not answer, or not with 200.
    pub fn scrape(address: SocketAddr) -> anyhow::Result<Metrics> {
        let text = get(address, "/metrics").with_context(|| format!("GET http://{address}/metrics"))?;
        Ok(Metrics::parse(&text))
    }

    fn parse(text: &str) -> Metrics {
        let series = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
            let (name, value) = line.trim().rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        });
        Metrics(series.collect())
    }

    /// A metric without labels.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }

    /// The sum of all series of `name`, whatever their labels.
    pub fn sum(&self, name: &str) -> f64 {
        let of_name =
            |series: &str| series.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('{'));
        self.0.iter().filter(|(series, _)| of_name(series)).map(|(_, value)| value).sum()
    }

    /// How many series of `name` have a first label whose value begins with `value`.
    pub fn series(&self, name: &str, value: &str) -> usize {
        let begins = |series: &str| {
            let labels = series.strip_prefix(name).and_then(|rest| rest.strip_prefix('{'));
            labels.and_then(|labels| labels.split_once("=\"")).is_some_and(|(_, rest)| rest.starts_with(value))
        };
        self.0.keys().filter(|series| begins(series)).count()
    }

    /// The series of `name` whose label `service` is exactly `service`.
    pub fn of_service(&self, name: &str, service: &str) -> Option<f64> {
        self.value(&format!("{name}{{service=\"{service}\"}}"))
    }
}

fn get(address: SocketAddr, path: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    if answer.len() as u64 == ANSWER_BYTES_MAX {
        bail!("the answer is larger than {ANSWER_BYTES_MAX} octets");
    }
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").context("the answer has no end of its header")?;
    let status = head.lines().next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("200") {
        bail!("expected 200, got {status:?}");
    }
    Ok(body.to_owned())
}

/// Longest silence of a daemon that is under full load.
const LIMIT: Duration = Duration::from_secs(10);
/// Octets of an answer; a relay with a few queues says some ten kilobytes, one with 50 000 destinations 25 million.
const ANSWER_BYTES_MAX: u64 = 256 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    const TEXT: &str = "# HELP message_count messages\n# TYPE message_count gauge\nmessage_count 12\n\
                        total_messages_delivered{service=\"smtp_client\"} 20000\n\
                        total_messages_delivered{service=\"smtp_client:site\"} 19999\nrate 1.5e3\nbroken\n";

    #[test]
    fn series_with_and_without_labels() {
        let metrics = Metrics::parse(TEXT);
        assert_eq!(metrics.value("message_count"), Some(12.0));
        assert_eq!(metrics.value("rate"), Some(1500.0));
        assert_eq!(metrics.sum("total_messages_delivered"), 39_999.0);
        assert_eq!((metrics.sum("message_count"), metrics.sum("total_messages")), (12.0, 0.0));
        assert_eq!(metrics.value("message"), None);
        assert_eq!(metrics.series("total_messages_delivered", "smtp_client:"), 1);
        assert_eq!(metrics.of_service("total_messages_delivered", "smtp_client"), Some(20_000.0));
    }

    fn answering(answer: String) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let address = listener.local_addr().expect("bound");
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut request = [0; 512];
            let length = stream.read(&mut request).expect("a request");
            assert!(request[..length].starts_with(b"GET /metrics HTTP/1.0\r\n"));
            stream.write_all(answer.as_bytes()).expect("answered");
        });
        address
    }

    #[test]
    fn one_request() {
        let address = answering(format!("HTTP/1.0 200 OK\r\ncontent-type: text/plain\r\n\r\n{TEXT}"));
        assert_eq!(Metrics::scrape(address).expect("200").value("message_count"), Some(12.0));
        let address = answering("HTTP/1.0 403 Forbidden\r\n\r\nno".to_owned());
        let error = Metrics::scrape(address).err().map(|error| format!("{error:#}")).unwrap_or_default();
        assert!(error.contains("403 Forbidden") && error.contains("/metrics"), "{error}");
    }
}
