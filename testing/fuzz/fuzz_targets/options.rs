//! Tables of options as scripts give them: from JSON to typed values and back.
//!
//! Input: an octet that chooses the constructor and with it the type, then octets from which a table is grown: keys are names of options, of any
//! constructor or made up, values texts that options take or nearly take, numbers of every size, lists and tables. Checked:
//! reading never panics; an error names the constructor, says what was processed, and shows no key; what is read is written
//! as a table that reads as the same.

#![no_main]

use config::{CONSTRUCTORS, options_of};
use libfuzzer_sys::fuzz_target;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Number, Value};
use std::fmt::Debug;

fuzz_target!(|data: &[u8]| {
    let [which, rest @ ..] = data else { return };
    let (constructor, check) = TYPES[usize::from(*which) % TYPES.len()];
    let mut octets = rest.iter().copied();
    check(Value::Object(table(constructor, &mut octets, DEPTH_MAX)));
});

/// Constructors, each with what reads its table.
const TYPES: [(&str, fn(Value)); 28] = [
    ("make_queue_config", check::<config::QueueConfig>),
    ("make_egress_path", check::<config::EgressPath>),
    ("make_egress_source", check::<config::EgressSource>),
    ("make_egress_pool", check::<config::EgressPool>),
    ("make_listener_domain", check::<config::ListenerDomain>),
    ("start_esmtp_listener", check::<config::EsmtpListener>),
    ("start_esmtp_listener.peer", check::<config::ListenerOverlay>),
    ("start_http_listener", check::<config::HttpListener>),
    ("define_spool", check::<config::SpoolOptions>),
    ("configure_local_logs", check::<config::LocalLogs>),
    ("configure_log_hook", check::<config::LogHook>),
    ("configure_log_disposition_hook", check::<config::LogDispositionHook>),
    ("configure_event_stream", check::<config::EventStream>),
    ("configure_bounce_classifier", check::<config::BounceClassifier>),
    ("configure_redis_throttles", check::<config::RedisThrottles>),
    ("generate_rfc3464_message", check::<config::NonDeliveryReport>),
    ("spawn_task", check::<config::SpawnTask>),
    ("memoize", check::<config::MemoizeOptions>),
    ("counter_series.define", check::<config::CounterSeriesOptions>),
    ("http.build_client", check::<config::HttpClientOptions>),
    ("amqp.basic_publish", check::<config::AmqpPublish>),
    ("nats.connect", check::<config::NatsOptions>),
    ("jsonl.new_writer", check::<config::JsonlWriterOptions>),
    ("jsonl.new_tailer", check::<config::JsonlTailerOptions>),
    ("aaa.configure_acct_log", check::<config::AcctLog>),
    ("redis.open", check::<config::RedisClientOptions>),
    ("dkim.rsa_sha256_signer", check::<config::SignerOptions>),
    ("dns.configure_resolver", check::<config::ResolverOptions>),
];

fn check<T: DeserializeOwned + Serialize + PartialEq + Debug>(table: Value) {
    match config::parse::<T>("kumo.fuzzed", table) {
        Ok(read) => {
            let written = serde_json::to_value(&read).expect("options can be written");
            // What may be secret is written masked, and does not read again.
            if !written.to_string().contains("key_data") {
                let again = config::parse::<T>("kumo.fuzzed", written.clone());
                assert_eq!(again.as_ref(), Ok(&read), "written as {written}");
            }
        }
        Err(error) => {
            let text = error.to_string();
            assert!(text.starts_with("kumo.fuzzed: "), "{text}");
            assert!(text.contains("deserialize error: ") && text.contains(", while processing "), "{text}");
            assert!(!text.contains(SECRET), "{text}");
        }
    }
}

/// A table with some of a constructor's options.
fn table(constructor: &str, octets: &mut impl Iterator<Item = u8>, depth: u8) -> Map<String, Value> {
    let mut table = Map::new();
    for _ in 0..octets.next().unwrap_or(0) % KEYS_MAX {
        let (Some(by), Some(number)) = (octets.next(), octets.next()) else { break };
        let names = match by % 8 {
            0 => options_of(CONSTRUCTORS[usize::from(number) % CONSTRUCTORS.len()]),
            _ => options_of(constructor),
        };
        let name = match (by % 16, names.get(usize::from(number) % names.len().max(1))) {
            (1, _) | (_, None) => TEXTS[usize::from(number) % TEXTS.len()].to_owned(),
            (_, Some(option)) => option.name.to_owned(),
        };
        // A table within has options of its own.
        let within = format!("{constructor}.{name}");
        let of = if options_of(&within).is_empty() { constructor } else { &within };
        let value = value(of, octets, depth);
        table.insert(name, value);
    }
    table
}

fn value(constructor: &str, octets: &mut impl Iterator<Item = u8>, depth: u8) -> Value {
    let kind = octets.next().unwrap_or(0);
    let number = octets.next().unwrap_or(0);
    match kind % 10 {
        0 => Value::Null,
        1 => Value::Bool(number % 2 == 0),
        2 => Value::from(number),
        3 => Value::from(1_u64 << (number % 64)),
        4 => Value::from(-(i64::from(number) << (number % 48))),
        5 => Number::from_f64(f64::from(number) / 7.0).map_or(Value::Null, Value::Number),
        6 if depth > 0 => Value::Array((0..number % 4).map(|_| value(constructor, octets, depth - 1)).collect()),
        7 if depth > 0 => Value::Object(table(constructor, octets, depth - 1)),
        8 if depth > 0 => {
            let mut secret = Map::new();
            secret.insert("key_data".to_owned(), Value::from(SECRET));
            Value::Object(secret)
        }
        _ => Value::from(TEXTS[usize::from(number) % TEXTS.len()]),
    }
}

/// Stands where keys stand, and nowhere in an error.
const SECRET: &str = "s3cret-k3y";

/// What options take, and what they nearly take.
const TEXTS: [&str; 32] = [
    "", "10s", "1h 30m", "5 minutes", "-1s", "99999999999999999999d", "100/s", "local:5/min,max_burst=3", "5/fortnight", "10%", "101%",
    "1MB", "127.0.0.1", "10.0.0.0/8", "10.0.0.1/8", "::1", "0:25", "[::]:25", "mx.example.com:25", "Required", "required", "Disabled",
    "BifurcateAlways", "Ttl", "Epoch", "LogThenDrop", "example.com", "a\u{0}b", "\u{202e}x", "{{ domain_part }}", "v1", "data",
];
const KEYS_MAX: u8 = 8;
const DEPTH_MAX: u8 = 3;
