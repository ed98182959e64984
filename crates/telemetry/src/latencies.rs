//! How long the steps of a message's way take, under KumoMTA's names and with its buckets.
//!
//! Owns [`Latencies`]. In: times that whoever takes the step knows. Out: a histogram a step.

use crate::metrics::histogram;
use crate::registry::Registry;
use prometheus::{Error, Histogram, HistogramOpts, HistogramVec};
use std::sync::OnceLock;

/// The histograms, in seconds.
pub struct Latencies {
    /// From MAIL to the outcome of its transaction; of those whose content came in.
    pub transaction: Histogram,
    /// From DATA to the end of the content.
    pub read_data: Histogram,
    /// Time from the end of DATA to our reply.
    pub process_data: Histogram,
    /// To find a scheduled queue's configuration, of queues that had none yet.
    pub queue_resolve: Histogram,
    /// Until the spool has made the messages of a transaction durable.
    pub message_save: Histogram,
    /// To bring content back from the spool.
    pub message_data_load: Histogram,
    /// The same of envelope and metadata, which come with it.
    pub message_meta_load: Histogram,
    delivery: HistogramVec,
    /// Its series that were made already, in the order of [`PROTOCOLS`].
    deliveries: [OnceLock<Histogram>; PROTOCOLS.len()],
}

/// What ready queues may be served by, as KumoMTA's label `service` has it.
pub const PROTOCOLS: [&str; 4] = ["smtp_client", "lua", "maildir", "xfer"];

impl Latencies {
    pub(crate) fn new(r: &Registry) -> Result<Latencies, Error> {
        let options = HistogramOpts::new("deliver_message_latency_rollup", "seconds that one delivery took");
        let delivery = HistogramVec::new(options, &["service"])?;
        r.register(Box::new(delivery.clone()))?;
        Ok(Latencies {
            transaction: histogram(r, "smtpsrv_transaction_duration", "seconds from MAIL to the end")?,
            read_data: histogram(r, "smtpsrv_read_data_duration", "seconds to receive DATA")?,
            process_data: histogram(r, "smtpsrv_process_data_duration", "seconds to process DATA")?,
            queue_resolve: histogram(
                r,
                "queue_resolve_latency",
                "seconds to find a queue's configuration at reception",
            )?,
            message_save: histogram(r, "message_save_latency", "seconds to make messages durable")?,
            message_data_load: histogram(r, "message_data_load_latency", "seconds to read content back")?,
            message_meta_load: histogram(r, "message_meta_load_latency", "seconds to read metadata back")?,
            delivery,
            deliveries: [const { OnceLock::new() }; PROTOCOLS.len()],
        })
    }

    /// Of one delivery of a message, or of a batch, by a protocol: one of [`PROTOCOLS`]. It is made when it is first asked for, and
    /// had without a lock from then on.
    pub fn delivery(&self, protocol: &str) -> Histogram {
        let made = || self.delivery.with_label_values(&[protocol]);
        let place = PROTOCOLS.iter().position(|known| *known == protocol);
        place.map_or_else(made, |at| self.deliveries[at].get_or_init(made).clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deliveries_are_told_apart_by_protocol_and_only_those_that_there_were() {
        let registry = Registry::default();
        let latencies = Latencies::new(&registry).expect("sound");
        for (protocol, times) in [("smtp_client", 2), ("lua", 1), ("smtp_client", 1)] {
            (0..times).for_each(|_| latencies.delivery(protocol).observe(0.01));
        }
        let page = crate::metrics::text_of(&registry, "deliver_").expect("encodes");
        let counts: Vec<&str> = page.lines().filter(|line| line.contains("_count{")).collect();
        let name = "deliver_message_latency_rollup_count";
        assert_eq!(counts, [format!("{name}{{service=\"lua\"}} 1"), format!("{name}{{service=\"smtp_client\"}} 3")]);
        assert!(latencies.deliveries[0].get().is_some() && latencies.deliveries[3].get().is_none());
    }
}
