//! What a policy may configure: option structs with KumoMTA's names, defaults and strictness.
//!
//! Owns one plain struct per constructor (`make_queue_config`, `make_egress_path`, `start_esmtp_listener`, ...) and the
//! value grammars they share (durations, throttles, address sets, key sources). In: a table as `serde_json::Value`,
//! through [`parse()`]. Out: typed values, comparable and writable back to JSON. Fails with one error type that names
//! constructor, path, value and expectation. It acts on nothing, reads no file, clock or network, and knows no Lua.
//!
//! One line in an `options!` list is the whole truth of an option: name, type, default, bound and documentation
//! ([`options_of`] gives it to the manual).

mod aaa;
mod amqp;
mod aws_signing;
mod catalog;
mod choices;
mod cidr;
mod cidr_map;
mod compliance;
mod concurrency_feedback;
mod constraints;
mod contradictions;
mod dns;
mod domain_map;
mod domain_reports;
mod duration;
mod egress_path;
mod egress_pool;
mod egress_source;
mod event_stream;
mod fault;
mod host_port;
mod http_client;
mod http_listener;
mod jsonl;
mod kafka;
mod key_source;
mod limit;
mod listener;
mod listener_domain;
mod logs;
mod memoize;
mod memory_limits;
mod min_free;
mod misfit;
mod mx_list;
mod nats_client;
mod non_delivery_report;
mod options;
mod otlp_metrics;
mod parse;
mod protocol;
mod queue_config;
mod redis_client;
mod redis_throttles;
mod resolver;
mod scheduling;
mod short;
mod shown_url;
mod signer;
mod spawn_task;
mod spool_options;
mod table;
mod text;
mod throttle;
mod tls_names;
mod zone;

pub use aaa::{AcctLog, AclSettings};
pub use amqp::{AmqpConnection, AmqpMessage, AmqpPublish, NumberOrText, TextOrSource};
pub use aws_signing::{AwsRequestSigning, AwsSigning};
pub use catalog::{CONSTRUCTORS, default_of, option_names, options_of};
pub use choices::words_of;
pub use choices::{
    AtpsHash, BatchHandling, Canonicalization, ComplianceMode, EnableTls, EnclosedMessage, HostIpStrategy, HostsFile,
    InvalidLineEndings, IpLookupStrategy, LogReport, MemoryReductionPolicy, QueueStrategy, ReconnectStrategy,
    RecordKey, RefreshStrategy, RocksCompression, RocksLogLevel, ServerOrdering, SpoolKind, WakeupStrategy, WhenFull,
};
pub use cidr::{CidrSet, canonical_ip, parse_cidr, show_cidr};
pub use cidr_map::CidrMap;
pub use compliance::ComplianceOptions;
pub use concurrency_feedback::ConcurrencyFeedback;
pub use constraints::{Ceiling, CeilingKind, CeilingSource, Constraints};
pub use contradictions::{Contradiction, Contradictions, contradictions};
pub use dns::DnsSettings;
pub use domain_map::DomainMap;
pub use domain_reports::{DmarcReports, TlsReports};
pub use duration::Duration;
pub use egress_path::EgressPath;
pub use egress_pool::{EgressPool, EgressPoolEntry};
pub use egress_source::{EgressSource, SourceSuspension, Trigger};
pub use event_stream::{EventFormat, EventStream, StreamFrom};
pub use fault::{Fault, nearest};
pub use host_port::HostPort;
pub use http_client::HttpClientOptions;
pub use http_listener::HttpListener;
pub use jsonl::{
    JsonlConsumerOptions, JsonlMultiTailerOptions, JsonlTailerOptions, JsonlWriterOptions, LINE_OCTETS_MAX,
};
pub use kafka::KafkaRecord;
pub use key_source::KeySource;
pub use limit::LimitSpec;
pub use listener::{EsmtpListener, ListenerOverlay, ListenerParams, TraceHeaders};
pub use listener_domain::ListenerDomain;
pub use logs::{BounceClassifier, LocalLogs, LogDispositionHook, LogHook, PerRecord, per_record};
pub use memoize::{CounterSeriesOptions, MemoizeOptions};
pub use memory_limits::MemoryLimits;
pub use min_free::MinFree;
pub use mx_list::MxListEntry;
pub use nats_client::{BrokerServers, NatsAuth, NatsMessage, NatsOptions};
pub use non_delivery_report::{NonDeliveryReport, ReportingMta};
pub use options::{OptionInfo, Options};
pub use otlp_metrics::OtlpMetrics;
pub use parse::{ConfigError, FromTable, parse};
pub use protocol::{CustomLuaProtocol, MaildirProtocol, QueueProtocol, SmtpProtocol, XferProtocol};
pub use queue_config::{DeliveryReports, QueueConfig, ShrinkPolicyEntry, UNSPECIFIED};
pub use redis_client::RedisClientOptions;
pub use redis_throttles::{RedisNode, RedisThrottles};
pub use resolver::{
    DNS_PORT, NameServer, QueryOptions, ResolverForm, ResolverOptions, ServerAddress, ServerProtocol, TestZone,
    TestZones, TrustAnchorFile, Zones,
};
pub use scheduling::{Moment, Scheduling, Window};
pub use short::{FromText, Short};
pub use shown_url::shown_url;
pub use signer::SignerOptions;
pub use spawn_task::SpawnTask;
pub use spool_options::{RocksParams, SpoolOptions};
pub use text::BadText;
pub use throttle::ThrottleSpec;
pub use tls_names::{OpensslOptions, RustlsCipherSuite};
pub use zone::Zone;
