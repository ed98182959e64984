//! The options of what `kumo.kafka`'s producer sends.
//!
//! Owns [`KafkaRecord`]. `payload` and `key` may be any octets, so they are read beside them, and so are values of headers. The
//! settings of a producer are librdkafka's, which knows them.

use crate::duration::Duration;
use crate::options::options;

options! {
    /// `producer:send`
    pub struct KafkaRecord {
        /// The topic.
        topic: String;
        /// Which partition of it; chosen by the key, or any, when absent.
        partition: Option<i32> = None;
        /// Time limit, until the broker has said that it has it.
        timeout: Duration = Duration::from_minutes(1);
    }
}
