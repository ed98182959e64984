//! A batch of records on its way to a consumer.
//!
//! Owns [`Batch`]: records in, and their end: [`Batch::commit`], which moves the consumer's checkpoint. Fails when that
//! cannot be written. A batch that is dropped instead comes again, to whoever tails next with that checkpoint.

use crate::JsonlError;
use crate::checkpoint::{Checkpoint, Position};
use serde_json::Value;
use std::io;
use std::sync::Arc;

/// Some records for one consumer, in the order they were written.
#[derive(Debug)]
pub struct Batch {
    consumer: Arc<str>,
    records: Vec<Arc<Value>>,
    at: Position,
    checkpoint: Option<Arc<Checkpoint>>,
    is_committed: bool,
}

impl Batch {
    pub(crate) fn new(
        consumer: Arc<str>,
        records: Vec<Arc<Value>>,
        at: Position,
        checkpoint: Option<Arc<Checkpoint>>,
    ) -> Batch {
        Batch { consumer, records, at, checkpoint, is_committed: false }
    }

    /// The records; none once it is committed (KumoMTA behaviour). Consumers of one tailer share a record's memory.
    pub fn records(&self) -> &[Arc<Value>] {
        &self.records
    }

    /// Whose it is: the consumer's name, `default` with one tailer's only one; empty once it is committed (KumoMTA
    /// behaviour).
    pub fn consumer_name(&self) -> &str {
        if self.is_committed { "" } else { &self.consumer }
    }

    /// Done with: the next tailer with this checkpoint begins behind these records, and behind those before and between
    /// them that the consumer did not keep. Without a checkpoint only the batch is over. A checkpoint never moves back, so
    /// batches may be committed in any order, but one stands for all before it.
    ///
    /// Errors: [`JsonlError::Committed`] the second time; [`JsonlError::Checkpoint`] when the file cannot be written, after
    /// which it may be tried again.
    pub async fn commit(&mut self) -> Result<(), JsonlError> {
        if self.is_committed {
            return Err(JsonlError::Committed);
        }
        if let Some(checkpoint) = self.checkpoint.clone() {
            let at = self.at.clone();
            let written = tokio::task::spawn_blocking(move || checkpoint.advance(&at)).await;
            written.map_err(|error| JsonlError::Thread(io::Error::other(error)))??;
        }
        self.is_committed = true;
        self.records = Vec::new();
        Ok(())
    }
}
