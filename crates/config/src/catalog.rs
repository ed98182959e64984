//! All option tables by the name of their constructor.
//!
//! Owns [`CONSTRUCTORS`], [`option_names`], [`options_of`] and [`default_of`]: what the reference manual is made from and what
//! suggestions draw on. In: a name, with or without `kumo.`. Out: names and facts of options; nothing when the name is
//! unknown. Nested tables are listed as `constructor.option`.

use crate::options::{OptionInfo, Options};
use serde::Serialize;
use serde_json::Value;

/// Every constructor and nested table that has options.
pub const CONSTRUCTORS: &[&str] = &[
    "make_queue_config",
    "make_queue_config.shrink_policy",
    "make_queue_config.delivery_reports",
    "make_queue_config.protocol.smtp",
    "make_queue_config.protocol.maildir",
    "make_queue_config.protocol.custom_lua",
    "make_queue_config.protocol.xfer",
    "make_egress_path",
    "make_egress_source",
    "make_egress_source.suspend_when_unplumbed",
    "make_egress_pool",
    "make_egress_pool.entries",
    "make_listener_domain",
    "start_esmtp_listener",
    "start_esmtp_listener.peer",
    "start_esmtp_listener.trace_headers",
    "start_http_listener",
    "define_spool",
    "define_spool.rocks_params",
    "configure_local_logs",
    "configure_local_logs.per_record",
    "generate_rfc3464_message",
    "generate_rfc3464_message.reporting_mta",
    "configure_log_hook",
    "configure_event_stream",
    "configure_otlp_metrics",
    "configure_dmarc_reports",
    "configure_tls_reports",
    "configure_log_disposition_hook",
    "configure_bounce_classifier",
    "configure_redis_throttles",
    "aaa.configure_acct_log",
    "redis.open",
    "spawn_task",
    "memoize",
    "counter_series.define",
    "http.build_client",
    "amqp.basic_publish",
    "amqp.basic_publish.connection",
    "amqp_client:publish",
    "nats.connect",
    "nats.connect.auth",
    "nats:publish",
    "producer:send",
    "jsonl.new_writer",
    "jsonl.new_tailer",
    "jsonl.new_multi_tailer",
    "jsonl.new_multi_tailer.consumers",
    "crypto.aws_sign_v4",
    "request:aws_sign_v4",
    "dkim.rsa_sha256_signer",
    "dkim.ed25519_signer",
    "compliance.check",
    "dns.configure_resolver",
    "dns.configure_resolver.options",
    "dns.configure_resolver.name_servers",
];

/// The names of the options of `constructor`, in order; empty when it is not in [`CONSTRUCTORS`].
pub fn option_names(constructor: &str) -> &'static [&'static str] {
    table(constructor).map_or(&[], |(names, ..)| names)
}

/// The options of `constructor` with type and documentation; empty when it is not in [`CONSTRUCTORS`].
pub fn options_of(constructor: &str) -> &'static [OptionInfo] {
    table(constructor).map_or(&[], |(_, info, _)| info)
}

/// What an option is when it is not given, as it would be written; null when it is absent then.
pub fn default_of(constructor: &str, option: &str) -> Value {
    table(constructor).map(|(.., default)| default()[option].take()).unwrap_or_default()
}

type Table = (&'static [&'static str], &'static [OptionInfo], fn() -> Value);

fn table(constructor: &str) -> Option<Table> {
    Some(match constructor.strip_prefix("kumo.").unwrap_or(constructor) {
        "make_queue_config" => of::<crate::QueueConfig>(),
        "make_queue_config.shrink_policy" => of::<crate::ShrinkPolicyEntry>(),
        "make_queue_config.delivery_reports" => of::<crate::DeliveryReports>(),
        "make_queue_config.protocol.smtp" => of::<crate::SmtpProtocol>(),
        "make_queue_config.protocol.maildir" => of::<crate::MaildirProtocol>(),
        "make_queue_config.protocol.custom_lua" => of::<crate::CustomLuaProtocol>(),
        "make_queue_config.protocol.xfer" => of::<crate::XferProtocol>(),
        "make_egress_path" => of::<crate::EgressPath>(),
        "make_egress_source" => of::<crate::EgressSource>(),
        "make_egress_source.suspend_when_unplumbed" => of::<crate::SourceSuspension>(),
        "make_egress_pool" => of::<crate::EgressPool>(),
        "make_egress_pool.entries" => of::<crate::EgressPoolEntry>(),
        "make_listener_domain" => of::<crate::ListenerDomain>(),
        "start_esmtp_listener" => {
            (crate::EsmtpListener::NAMES, crate::EsmtpListener::INFO, default::<crate::EsmtpListener>)
        }
        "start_esmtp_listener.peer" => of::<crate::ListenerOverlay>(),
        "start_esmtp_listener.trace_headers" => of::<crate::TraceHeaders>(),
        "start_http_listener" => of::<crate::HttpListener>(),
        "define_spool" => of::<crate::SpoolOptions>(),
        "define_spool.rocks_params" => of::<crate::RocksParams>(),
        "configure_local_logs" => of::<crate::LocalLogs>(),
        "configure_local_logs.per_record" => of::<crate::PerRecord>(),
        "generate_rfc3464_message" => of::<crate::NonDeliveryReport>(),
        "generate_rfc3464_message.reporting_mta" => of::<crate::ReportingMta>(),
        "configure_log_hook" => of::<crate::LogHook>(),
        "configure_event_stream" => of::<crate::EventStream>(),
        "configure_otlp_metrics" => of::<crate::OtlpMetrics>(),
        "configure_dmarc_reports" => of::<crate::DmarcReports>(),
        "configure_tls_reports" => of::<crate::TlsReports>(),
        "configure_log_disposition_hook" => of::<crate::LogDispositionHook>(),
        "configure_bounce_classifier" => of::<crate::BounceClassifier>(),
        "configure_redis_throttles" => of::<crate::RedisThrottles>(),
        "spawn_task" => of::<crate::SpawnTask>(),
        "memoize" => of::<crate::MemoizeOptions>(),
        "counter_series.define" => of::<crate::CounterSeriesOptions>(),
        "http.build_client" => of::<crate::HttpClientOptions>(),
        "amqp.basic_publish" => of::<crate::AmqpPublish>(),
        "amqp.basic_publish.connection" => of::<crate::AmqpConnection>(),
        "amqp_client:publish" => of::<crate::AmqpMessage>(),
        "nats.connect" => of::<crate::NatsOptions>(),
        "nats.connect.auth" => of::<crate::NatsAuth>(),
        "nats:publish" => of::<crate::NatsMessage>(),
        "producer:send" => of::<crate::KafkaRecord>(),
        "jsonl.new_writer" => of::<crate::JsonlWriterOptions>(),
        "jsonl.new_tailer" => of::<crate::JsonlTailerOptions>(),
        "jsonl.new_multi_tailer" => of::<crate::JsonlMultiTailerOptions>(),
        "jsonl.new_multi_tailer.consumers" => of::<crate::JsonlConsumerOptions>(),
        "crypto.aws_sign_v4" => of::<crate::AwsSigning>(),
        "request:aws_sign_v4" => of::<crate::AwsRequestSigning>(),
        "aaa.configure_acct_log" => of::<crate::AcctLog>(),
        "redis.open" => of::<crate::RedisClientOptions>(),
        "dkim.rsa_sha256_signer" | "dkim.ed25519_signer" => of::<crate::SignerOptions>(),
        "compliance.check" => of::<crate::ComplianceOptions>(),
        "dns.configure_resolver" | "dns.configure_unbound_resolver" => of::<crate::ResolverOptions>(),
        "dns.configure_resolver.options" => of::<crate::QueryOptions>(),
        "dns.configure_resolver.name_servers" => of::<crate::NameServer>(),
        _ => return None,
    })
}

fn of<T: Options + Serialize>() -> Table {
    (T::NAMES, T::INFO, default::<T>)
}

fn default<T: Default + Serialize>() -> Value {
    serde_json::to_value(T::default()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_constructor_has_documented_options() {
        for constructor in CONSTRUCTORS {
            let info = options_of(constructor);
            assert!(!info.is_empty(), "{constructor}");
            let names: Vec<&str> = info.iter().map(|option| option.name).collect();
            assert_eq!(names, option_names(constructor), "{constructor}");
            assert!(info.iter().all(|option| !option.doc.trim().is_empty()), "{constructor}");
        }
        assert_eq!(option_names("kumo.make_egress_pool"), ["name", "entries", "ttl"]);
        assert!(option_names("kumo.make_coffee").is_empty());
    }
}
