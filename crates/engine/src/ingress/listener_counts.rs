//! What is counted at one listener: series that are looked up once, when it is opened, as a look-up takes a lock.
//!
//! KumoMTA's values of `service`: `esmtp_listener` and `esmtp_listener:IP:PORT` of receptions, `total` and `IP:PORT` of rejections. So
//! there are as many series as listeners. The address is the one the socket has, not the one a session of it has.

use std::net::SocketAddr;
use telemetry::Metrics;
use telemetry::metrics::IntCounter;

/// The series of a listener, and those of all.
pub(crate) struct ListenerCounts {
    received: [IntCounter; 2],
    rejections: [IntCounter; 2],
    denied: IntCounter,
}

impl ListenerCounts {
    /// Those of the listener at this address; none of its own when the system does not tell which that is.
    pub fn at(metrics: &Metrics, address: Option<SocketAddr>) -> ListenerCounts {
        let (received, rejections) = (&metrics.total_messages_received, &metrics.smtp_server_rejections);
        let [of_received, of_rejections] = match address {
            Some(at) => [format!("{ALL}:{at}"), at.to_string()],
            None => [format!("{ALL}:{UNKNOWN}"), UNKNOWN.to_owned()],
        };
        ListenerCounts {
            received: [ALL, &of_received].map(|service| received.with_label_values(&[service])),
            rejections: ["total", &of_rejections].map(|service| rejections.with_label_values(&[service])),
            denied: metrics.total_connections_denied.with_label_values(&[ALL]),
        }
    }

    /// The content of a transaction came in.
    pub fn received(&self) {
        self.received.iter().for_each(IntCounter::inc);
    }

    /// A client was answered 4xx or 5xx.
    pub fn rejected(&self) {
        self.rejections.iter().for_each(IntCounter::inc);
    }

    /// A client was sent away.
    pub fn denied(&self) {
        self.denied.inc();
    }
}

/// All listeners.
const ALL: &str = "esmtp_listener";
/// Listeners whose address is not told.
const UNKNOWN: &str = "unknown";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_listener_is_counted_and_all_of_them() {
        let metrics = Metrics::new().expect("sound");
        let [one, other] = ["127.0.0.1:25", "[::1]:2525"]
            .map(|at| ListenerCounts::at(&metrics, Some(at.parse().expect("an address"))));
        one.received();
        one.received();
        other.received();
        other.rejected();
        one.denied();
        let page = metrics.text("").expect("encodes");
        let series = |name: &str| {
            page.lines().filter(|line| line.starts_with(&format!("{name}{{"))).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(
            series("total_messages_received"),
            [
                "total_messages_received{service=\"esmtp_listener\"} 3",
                "total_messages_received{service=\"esmtp_listener:127.0.0.1:25\"} 2",
                "total_messages_received{service=\"esmtp_listener:[::1]:2525\"} 1",
                "total_messages_received{service=\"http_listener\"} 0",
            ]
        );
        assert_eq!(
            series("smtp_server_rejections"),
            [
                "smtp_server_rejections{service=\"127.0.0.1:25\"} 0",
                "smtp_server_rejections{service=\"[::1]:2525\"} 1",
                "smtp_server_rejections{service=\"total\"} 1",
            ]
        );
        assert_eq!(series("total_connections_denied"), ["total_connections_denied{service=\"esmtp_listener\"} 1"]);
        let unknown = ListenerCounts::at(&metrics, None);
        unknown.rejected();
        let page = metrics.text("smtp_server").expect("encodes");
        assert!(page.contains("{service=\"unknown\"} 1\n") && page.contains("{service=\"total\"} 2\n"), "{page}");
    }
}
