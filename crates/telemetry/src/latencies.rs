//! How long the steps of a message's way take, under KumoMTA's names and with its buckets.
//!
//! Owns [`Latencies`]. In: times that whoever takes the step knows. Out: a histogram a step.

use crate::metrics::histogram;
use crate::registry::Registry;
use prometheus::{Error, Histogram, HistogramOpts, HistogramVec};

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
}

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
        })
    }

    /// Of one delivery of a message, or of a batch, by a protocol. To be kept: looking it up takes a lock.
    pub fn delivery(&self, protocol: &str) -> Histogram {
        self.delivery.with_label_values(&[protocol])
    }
}
