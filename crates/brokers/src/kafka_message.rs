//! What is sent to Kafka, and what comes of it; the same whether Kafka was built in or not.

use std::time::Duration;

/// A message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KafkaMessage {
    /// Its topic.
    pub topic: String,
    /// Its content.
    pub payload: Vec<u8>,
    /// Messages of one key are in one partition.
    pub key: Option<Vec<u8>>,
    /// Which partition; chosen by the key, or any, when absent.
    pub partition: Option<i32>,
    /// Header fields, in order.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Time limit.
    pub timeout: Duration,
}

/// Where the broker put a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// The partition.
    pub partition: i32,
    /// Its place in there.
    pub offset: i64,
}

/// Messages of one batch.
pub const BATCH_MAX: usize = 10_000;
