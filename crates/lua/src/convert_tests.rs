//! Properties of the border between Lua and JSON.

use super::*;
use proptest::prelude::*;

/// Values as scripts may have them, with what JSON has not.
#[derive(Clone, Debug)]
enum Odd {
    Nil,
    Boolean(bool),
    Integer(i64),
    Number(f64),
    Octets(Vec<u8>),
    Function,
    /// Pairs in order; a later one with the same key counts.
    Table(Vec<(Odd, Odd)>),
    /// A table that has itself as a member.
    Cycle,
}

fn odd() -> impl Strategy<Value = Odd> {
    let leaf = prop_oneof![
        1 => Just(Odd::Nil),
        2 => any::<bool>().prop_map(Odd::Boolean),
        4 => any::<i64>().prop_map(Odd::Integer),
        4 => (1i64..4).prop_map(Odd::Integer),
        2 => any::<f64>().prop_map(Odd::Number),
        4 => "[a-z]{0,4}".prop_map(|text| Odd::Octets(text.into_bytes())),
        1 => any::<Vec<u8>>().prop_map(Odd::Octets),
        1 => Just(Odd::Function),
        1 => Just(Odd::Cycle),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| prop::collection::vec((inner.clone(), inner), 0..6).prop_map(Odd::Table))
}

fn made(lua: &Lua, odd: &Odd) -> Value {
    match odd {
        Odd::Nil => Value::Nil,
        Odd::Boolean(b) => Value::Boolean(*b),
        Odd::Integer(i) => Value::Integer(*i),
        Odd::Number(n) => Value::Number(*n),
        Odd::Octets(octets) => Value::String(lua.create_string(octets).expect("room")),
        Odd::Function => Value::Function(lua.create_function(|_, ()| Ok(())).expect("room")),
        Odd::Table(pairs) => {
            let table = lua.create_table().expect("room");
            for (key, value) in pairs {
                // Lua refuses nil and NaN as keys.
                let _: mlua::Result<()> = table.raw_set(made(lua, key), made(lua, value));
            }
            Value::Table(table)
        }
        Odd::Cycle => {
            let table = lua.create_table().expect("room");
            table.raw_set("itself", &table).expect("room");
            Value::Table(table)
        }
    }
}

#[test]
fn what_is_only_written_down_may_have_gaps() {
    let lua = Lua::new();
    for (source, expected) in [
        ("{ [10] = { 'a' }, [20] = 'b' }", r#"{"10":["a"],"20":"b"}"#),
        ("{ 1, 2, x = 3 }", r#"{"1":1,"2":2,"x":3}"#),
        ("{ [0] = 1 }", r#"{"0":1}"#),
        ("{ 'a', { n = { [5] = true } } }", r#"["a",{"n":{"5":true}}]"#),
        ("{}", "{}"),
    ] {
        let value: Value = lua.load(format!("return {source}")).eval().expect("Lua");
        assert_eq!(to_text_json(&value).map(|json| json.to_string()).expect(source), expected);
        assert_eq!(to_json(&lua, &value).is_ok(), source == "{}", "{source}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// What gets through is the same when it comes back; what does not says where and what was expected, or cannot be.
    #[test]
    fn values_cross_the_border_unchanged_or_not_at_all(odd in odd()) {
        let lua = Lua::new();
        let value = made(&lua, &odd);
        match to_json(&lua, &value) {
            Ok(json) => {
                let back = to_lua(&lua, &json).expect("JSON has a Lua value");
                prop_assert_eq!(to_json(&lua, &back).expect("as before"), json);
            }
            Err(error) => {
                let text = error.to_string();
                let says = ["expected", "no JSON", "not UTF-8", "nested deeper", "cannot"];
                prop_assert!(says.iter().any(|word| text.contains(word)), "{}", text);
            }
        }
    }

    /// No table makes an options struct panic, and each refusal is one that helpers can take apart and names an option of the table.
    #[test]
    fn options_are_read_or_refused_in_kumomtas_form(
        which in 0usize..TYPES.len(),
        given in prop::collection::vec((any::<prop::sample::Index>(), "[a-z_]{1,12}", 0u8..4, odd()), 0..4),
    ) {
        let lua = Lua::new();
        let (constructor, read) = TYPES[which];
        let known = config::option_names(constructor);
        prop_assert!(!known.is_empty(), "{} has options", constructor);
        let table = lua.create_table().expect("room");
        let mut names = Vec::new();
        for (place, made_up, is_made_up, value) in &given {
            let name = if *is_made_up == 0 { made_up.as_str() } else { *place.get(known) };
            table.raw_set(name, made(&lua, value)).expect("room");
            names.push(name);
        }
        match read(&lua, &Value::Table(table)) {
            Ok(()) => {}
            Err(text) => {
                prop_assert!(text.contains("deserialize error: ") && text.contains(", while processing "), "{}", text);
                let says_which = names.iter().any(|name| text.contains(name));
                // What is missing is in no table.
                let is_of_none = text.contains("missing field");
                prop_assert!(says_which || is_of_none, "{:?}: {}", names, text);
            }
        }
    }
}

type Read = fn(&Lua, &Value) -> Result<(), String>;

/// Reads a table; what was read comes back to Lua as a table that reads as the same.
fn check<T>(lua: &Lua, table: &Value) -> Result<(), String>
where
    T: config::FromTable + serde::Serialize + PartialEq + std::fmt::Debug,
{
    let read = options::<T>("kumo.tried", table).map_err(|error| error.to_string())?;
    let json = serde_json::to_value(&read).expect("options can be written");
    // What may be secret is written masked, and does not read again.
    if !json.to_string().contains("key_data") {
        let back = to_lua(lua, &json).expect("a table");
        let again = options::<T>("kumo.tried", &back).map_err(|error| error.to_string());
        assert_eq!(again.as_ref(), Ok(&read), "written as {json}");
    }
    Ok(())
}

/// Constructors, each with what reads its table.
const TYPES: [(&str, Read); 28] = [
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
