//! Message brokers for scripts: NATS, AMQP (RabbitMQ) and Kafka, to which they publish.
//!
//! Owns [`Nats`], [`AmqpPool`], [`AmqpClient`] and [`KafkaProducer`]. In: options, secrets that were read already, messages. Out:
//! what the server says became of them. Fails with [`BrokerError`], which names the server and what was published to, and no
//! password. What is on the wire is the business of the libraries async-nats, lapin and librdkafka; certificates are verified as
//! [`net::tls::Connectors`] does for mail.
//!
//! Every wait has a limit, every message a longest payload.
//!
//! What waits is boxed: the code of a future is compiled by the crate that polls it, with all of the library below it, unless it hides
//! behind a `dyn`.
//!
//! Deliberately absent: receiving. Scripts say what happened; others take it from there.

mod amqp_client;
mod amqp_link;
mod amqp_message;
mod amqp_pool;
mod amqp_wire;
mod certificates;
mod error;
mod kafka;
mod kafka_message;
mod nats;

pub use amqp_client::{AmqpClient, Confirm};
pub use amqp_link::{CONFIRM_TIMEOUT, Login, Status, Verdict};
pub use amqp_message::{PAYLOAD_OCTETS_MAX, SHORT_OCTETS_MAX};
pub use amqp_pool::{AmqpPool, Slot};
pub use certificates::Certificates;
pub use error::BrokerError;
pub use kafka::KafkaProducer;
pub use kafka_message::{BATCH_MAX, Delivered, KafkaMessage};
pub use nats::{Ack, Nats, NatsLogin};
