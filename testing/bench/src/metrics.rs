//! Reads a daemon's `/metrics`: a single HTTP request and the Prometheus text. In: an address. Out: numbers by series.

use std::collections::HashMap;
use std::net::SocketAddr;

use anyhow::Context as _;

use crate::http::get;

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

    /// Of the text of a scrape.
    pub fn parse(text: &str) -> Metrics {
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

    /// The series of `name` whose label `service` is exactly `service`.
    pub fn of_service(&self, name: &str, service: &str) -> Option<f64> {
        self.value(&format!("{name}{{service=\"{service}\"}}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::answering;

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
        assert_eq!(metrics.of_service("total_messages_delivered", "smtp_client"), Some(20_000.0));
    }

    #[test]
    fn one_request() {
        let address = answering(
            "GET /metrics HTTP/1.0\r\n",
            format!("HTTP/1.0 200 OK\r\ncontent-type: text/plain\r\n\r\n{TEXT}"),
        );
        assert_eq!(Metrics::scrape(address).expect("200").value("message_count"), Some(12.0));
        let address = answering("GET /metrics HTTP/1.0\r\n", "HTTP/1.0 403 Forbidden\r\n\r\nno".to_owned());
        let error = Metrics::scrape(address).err().map(|error| format!("{error:#}")).unwrap_or_default();
        assert!(error.contains("403 Forbidden") && error.contains("/metrics"), "{error}");
    }
}
