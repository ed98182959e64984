//! Kafka, by librdkafka: a producer, which gathers messages, sends them to the brokers that lead their partitions, and tells of
//! each what became of it.
//!
//! Owns [`KafkaProducer`]. In: librdkafka's own settings, messages. Out: partition and offset. What librdkafka has to say besides
//! goes to the log, target `kafka`. How long a message may be says its setting `message.max.bytes`.

use crate::error::{BrokerError, within};
use crate::kafka_message::{BATCH_MAX, Delivered, KafkaMessage};
use futures_util::future::{BoxFuture, FutureExt, join_all};
use net::causes::with_causes;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord, Producer};
use rdkafka::util::Timeout;
use rdkafka::{ClientConfig, ClientContext};
use std::collections::BTreeMap;
use std::time::Duration;

/// A producer; clones are the same.
#[derive(Clone)]
pub struct KafkaProducer(FutureProducer<Log>);

impl KafkaProducer {
    /// As configured; connects on its own, and again when a connection broke.
    ///
    /// # Errors
    /// A setting that librdkafka does not know, or not with this value.
    pub fn new(settings: &BTreeMap<String, String>) -> Result<KafkaProducer, BrokerError> {
        let mut config = ClientConfig::new();
        settings.iter().for_each(|(name, value)| _ = config.set(name, value));
        config.create_with_context(Log).map(KafkaProducer).map_err(setting)
    }

    /// Sends a message, and waits until the broker has it.
    ///
    /// # Errors
    /// The broker says no, or nothing in time; the message may still arrive then.
    pub fn send<'a>(&'a self, message: &'a KafkaMessage) -> BoxFuture<'a, Result<Delivered, BrokerError>> {
        async move {
            let place = format!("topic {:?}", message.topic);
            let mut record = FutureRecord::to(&message.topic).payload(&message.payload);
            record.key = message.key.as_ref();
            record.partition = message.partition;
            if !message.headers.is_empty() {
                let headers = OwnedHeaders::new_with_capacity(message.headers.len());
                let add = |headers: OwnedHeaders, (name, value): &(String, Vec<u8>)| {
                    headers.insert(Header { key: name, value: Some(value) })
                };
                record.headers = Some(message.headers.iter().fold(headers, add));
            }
            // The limit of `send` is for the wait for room in the producer's own queue.
            let sending = async {
                let sent = self.0.send(record, Timeout::After(message.timeout)).await;
                sent.map_err(|(error, _)| BrokerError::Refused { place: place.clone(), cause: with_causes(&error) })
            };
            let delivered = within(&place, "answer", message.timeout, sending).await?;
            Ok(Delivered { partition: delivered.partition, offset: delivered.offset })
        }
        .boxed()
    }

    /// Sends messages, all at once, and waits for what becomes of each.
    ///
    /// # Errors
    /// There are more than [`BATCH_MAX`].
    pub fn send_batch<'a>(
        &'a self,
        messages: &'a [KafkaMessage],
    ) -> BoxFuture<'a, Result<Vec<Result<Delivered, BrokerError>>, BrokerError>> {
        async move {
            if messages.len() > BATCH_MAX {
                return Err(BrokerError::TooMany { items_max: BATCH_MAX });
            }
            Ok(join_all(messages.iter().map(|message| self.send(message))).await)
        }
        .boxed()
    }

    /// Waits until it is known what became of all messages.
    ///
    /// # Errors
    /// That takes longer than `limit`.
    pub fn close(self, limit: Duration) -> BoxFuture<'static, Result<(), BrokerError>> {
        async move {
            // It blocks, and so does the end of a producer.
            let flushing = tokio::task::spawn_blocking(move || self.0.flush(limit));
            let failed = |cause: String| BrokerError::Lost { place: "kafka".to_owned(), cause };
            match flushing.await.map_err(|e| failed(e.to_string()))? {
                Ok(()) => Ok(()),
                Err(KafkaError::Flush(RDKafkaErrorCode::OperationTimedOut)) => {
                    let (place, wanted) = ("kafka".to_owned(), "end of what was sent");
                    Err(BrokerError::Late { place, wanted, limit: limit.into() })
                }
                Err(error) => Err(failed(with_causes(&error))),
            }
        }
        .boxed()
    }
}

/// The error names the setting, and librdkafka says what it expects.
fn setting(error: KafkaError) -> BrokerError {
    match error {
        KafkaError::ClientConfig(_, why, name, _value) => BrokerError::Bad { what: name, why },
        other => BrokerError::Bad { what: "settings".to_owned(), why: with_causes(&other) },
    }
}

/// Takes what librdkafka has to say.
struct Log;

impl ClientContext for Log {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        match level {
            RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical | RDKafkaLogLevel::Error => {
                tracing::error!(target: "kafka", "{facility}: {text}");
            }
            RDKafkaLogLevel::Warning => tracing::warn!(target: "kafka", "{facility}: {text}"),
            RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => tracing::info!(target: "kafka", "{facility}: {text}"),
            RDKafkaLogLevel::Debug => tracing::debug!(target: "kafka", "{facility}: {text}"),
        }
    }

    fn error(&self, error: KafkaError, why: &str) {
        tracing::warn!(target: "kafka", "{error}: {why}");
    }
}
