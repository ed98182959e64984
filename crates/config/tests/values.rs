//! Good values of non-trivial options, and every kind of bad one with the words the operator sees.

use config::*;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The error of reading `value` as a `T`, without the JSON behind it.
#[track_caller]
fn refusal<T: DeserializeOwned + std::fmt::Debug>(value: Value) -> String {
    let shown = value.to_string();
    let error = parse::<T>("f", value).unwrap_err().to_string();
    let tail = format!(", while processing {shown}");
    error.strip_suffix(&tail).unwrap_or_else(|| panic!("{error} does not end in {tail}")).to_owned()
}

#[test]
fn the_whole_message() {
    let error = parse::<EgressPath>("kumo.make_egress_path", json!({"connection_limit": 0})).unwrap_err();
    assert_eq!(
        error.to_string(),
        "kumo.make_egress_path: connection_limit: deserialize error: invalid limit \"0\": expected an integer >= 1 \
         or \"[local:]N\", while processing {\"connection_limit\":0}"
    );
}

#[test]
fn egress_path_refusals() {
    for (table, want) in [
        (
            json!({"max_ready": "many"}),
            "f: max_ready: deserialize error: invalid type: string \"many\", expected usize",
        ),
        (json!({"max_ready": 0}), "f: max_ready: deserialize error: invalid value 0: expected an integer >= 1"),
        (json!({"max_ready": -1}), "f: max_ready: deserialize error: invalid value integer `-1`: expected usize"),
        (json!({"smtp_port": 65536}), "f: smtp_port: deserialize error: invalid value integer `65536`: expected u16"),
        (json!({"smtp_port": 0}), "f: smtp_port: deserialize error: invalid value 0: expected an integer >= 1"),
        (
            json!({"use_lmtp": "yes"}),
            "f: use_lmtp: deserialize error: invalid type: string \"yes\", expected a boolean",
        ),
        (json!({"ehlo_domain": 7}), "f: ehlo_domain: deserialize error: invalid type: integer `7`, expected a string"),
        (
            json!({"idle_timeout": "5 parsecs"}),
            "f: idle_timeout: deserialize error: invalid duration \"5 parsecs\": expected a number of seconds >= 0 or \
             text such as \"5m\", \"1h 30min\", \"500ms\", \"2 days\"; unit \"parsecs\" is unknown or overflows",
        ),
        (
            json!({"idle_timeout": -1}),
            "f: idle_timeout: deserialize error: invalid duration \"-1\": expected a number of seconds >= 0 or text \
             such as \"5m\", \"1h 30min\", \"500ms\", \"2 days\"",
        ),
        (
            json!({"max_message_rate": 100}),
            "f: max_message_rate: deserialize error: invalid type: integer `100`, expected a throttle such as \
             \"100/min\", \"local:20/30s\" or \"1,000/h,max_burst=50\"",
        ),
        (
            json!({"additional_message_rate_throttles": {"x": "0/s"}}),
            "f: additional_message_rate_throttles.x: deserialize error: invalid throttle \"0/s\": expected \
             \"[local:]QTY/[N]PERIOD[,max_burst=B]\" such as \"100/min\"; QTY must be an integer >= 1",
        ),
        (
            json!({"enable_tls": "opportunistic"}),
            "f: enable_tls: deserialize error: unknown variant `opportunistic` (did you mean `Opportunistic`?), \
             expected one of `Opportunistic`, `OpportunisticInsecure`, `Required`, `RequiredInsecure`, `Disabled`",
        ),
        (
            json!({"enable_tls": true}),
            "f: enable_tls: deserialize error: invalid value true: expected one of Opportunistic, \
             OpportunisticInsecure, Required, RequiredInsecure, Disabled",
        ),
        (
            json!({"prohibited_hosts": ["127.0.0.0/8", "10.0.0.1/8"]}),
            "f: prohibited_hosts[1]: deserialize error: invalid CIDR \"10.0.0.1/8\": expected zero host bits, did you \
             mean \"10.0.0.0/8\"?",
        ),
        (
            json!({"skip_hosts": "10.0.0.1"}),
            "f: skip_hosts: deserialize error: invalid type: string \"10.0.0.1\", expected a list of IP addresses and \
             CIDR blocks",
        ),
        (
            json!({"tls_certificate": "c.pem"}),
            "f: deserialize error: tls_certificate and tls_private_key: expected both or neither",
        ),
        (
            json!({"smtp_auth_plain_password": 5}),
            "f: smtp_auth_plain_password: deserialize error: invalid type: integer `5`, expected a file path, \
             {key_data}, {vault_mount, vault_path} or {event_name, event_args}",
        ),
    ] {
        assert_eq!(refusal::<EgressPath>(table), want);
    }
}

#[test]
fn unknown_keys_everywhere() {
    let error = refusal::<EgressPath>(json!({"conection_limit": 1}));
    assert!(
        error.starts_with(
            "f: deserialize error: unknown field `conection_limit` (did you mean `connection_limit`?), expected one of \
             `connection_limit`, `additional_connection_limits`, "
        ),
        "{error}"
    );
    assert!(error.ends_with("`verp_delimiters`"), "{error}");
    for (error, want) in [
        (refusal::<QueueConfig>(json!({"max_agee": 1})), "did you mean `max_age`?"),
        (refusal::<QueueConfig>(json!({"protocol": {"smtpp": {}}})), "f: protocol: deserialize error: unknown field"),
        (
            refusal::<QueueConfig>(json!({"protocol": {"smtp": {"mxlist": []}}})),
            "f: protocol.smtp: deserialize error: unknown field `mxlist` (did you mean `mx_list`?)",
        ),
        (refusal::<EgressSource>(json!({"name": "a", "adress": "x"})), "unknown field `adress`"),
        (refusal::<EgressPool>(json!({"name": "a", "entries": [{"nam": "x"}]})), "f: entries[0]: deserialize error"),
        (refusal::<EsmtpListener>(json!({"lissten": "x"})), "did you mean `listen`?"),
        (
            refusal::<EsmtpListener>(json!({"peer": {"10.0.0.0/8": {"listen": "0:25"}}})),
            "f: peer.10.0.0.0/8: deserialize error: unknown field `listen`",
        ),
        (refusal::<EsmtpListener>(json!({"via": {"10.0.0.1/8": {}}})), "did you mean \"10.0.0.0/8\"?"),
        (refusal::<EsmtpListener>(json!({"trace_headers": {"recieved_header": true}})), "`received_header`?"),
        (refusal::<ListenerOverlay>(json!({"max_connections": 1})), "unknown field `max_connections`"),
        (refusal::<ListenerDomain>(json!({"relayto": true})), "did you mean `relay_to`?"),
        (refusal::<HttpListener>(json!({"trustd_hosts": []})), "did you mean `trusted_hosts`?"),
        (refusal::<SpoolOptions>(json!({"name": "data", "path": "/x", "flushh": true})), "did you mean `flush`?"),
        (refusal::<LocalLogs>(json!({"log_dir": "/x", "per_record": {"Bounces": {}}})), "did you mean `Bounce`?"),
        (refusal::<LogHook>(json!({"name": "x", "url": "y"})), "unknown field `url`"),
        (refusal::<BounceClassifier>(json!({"file": []})), "did you mean `files`?"),
        (refusal::<SignerOptions>(json!({"domian": "x"})), "did you mean `domain`?"),
    ] {
        assert!(error.contains(want), "{error} lacks {want}");
    }
}

#[test]
fn required_keys_and_whole_table_rules() {
    let signer = |extra: Value| {
        let mut table = json!({"domain": "e.com", "selector": "s", "headers": ["From"], "key": "/k"});
        for (key, value) in extra.as_object().unwrap() {
            table[key] = value.clone();
        }
        refusal::<SignerOptions>(table)
    };
    for (error, want) in [
        (refusal::<EgressSource>(json!({})), "f: deserialize error: missing field `name`"),
        (refusal::<EgressSource>(json!({"name": ""})), "invalid name \"\": expected the name of the source"),
        (
            refusal::<EgressSource>(json!({"name": "a", "source_address": "10.0.0"})),
            "invalid value \"10.0.0\": invalid IP",
        ),
        (
            refusal::<EgressSource>(json!({"name": "a", "ha_proxy_server": "10.0.0.1:5000"})),
            "ha_proxy_server and ha_proxy_source_address: expected both or neither",
        ),
        (
            refusal::<EgressSource>(json!({"name": "a", "socks5_proxy_server": "a:1", "socks5_proxy_username": "b"})),
            "socks5_proxy_username and socks5_proxy_password: expected both or neither",
        ),
        (refusal::<EgressSource>(json!({"name": "a", "socks5_proxy_server": "nope"})), "invalid address \"nope\""),
        (
            refusal::<EgressSource>(json!({"name": "a", "suspend_when_unplumbed": {"trigger": "Immediate"}})),
            "f: suspend_when_unplumbed: deserialize error: missing field `duration`",
        ),
        (refusal::<EgressSource>(json!({"name": "a", "remote_port": 0})), "expected an integer >= 1"),
        (refusal::<EgressPool>(json!({"entries": []})), "missing field `name`"),
        (refusal::<EgressPool>(json!({"name": "p", "entries": [{"weight": 1}]})), "missing field `name`"),
        (refusal::<SpoolOptions>(json!({"name": "data"})), "missing field `path`"),
        (
            refusal::<SpoolOptions>(json!({"name": "data", "path": "/x", "min_free_space": "10GB"})),
            "invalid minimum \"10GB\"",
        ),
        (refusal::<LocalLogs>(json!({})), "missing field `log_dir`"),
        (refusal::<LocalLogs>(json!({"log_dir": "/x", "compression_level": 22})), "invalid compression_level 22"),
        (refusal::<BounceClassifier>(json!({"files": ["/a.yaml"]})), "expected a name ending in .toml or .json"),
        (refusal::<QueueConfig>(json!({"protocol": {}})), "expected exactly one of {smtp=...}"),
        (refusal::<QueueConfig>(json!({"protocol": {"smtp": {}, "maildir_path": "/x"}})), "expected exactly one of"),
        (refusal::<QueueConfig>(json!({"protocol": {"smtp": {}, "dir_mode": 7}})), "only beside maildir_path"),
        (refusal::<QueueConfig>(json!({"protocol": "null"})), "invalid protocol \"null\""),
        (refusal::<QueueConfig>(json!({"protocol": {"custom_lua": {}}})), "missing field `constructor`"),
        (refusal::<QueueConfig>(json!({"protocol": {"xfer": {"target": "ftp://x"}}})), "expected a URL"),
        (
            refusal::<QueueConfig>(json!({"protocol": {"smtp": {"mx_list": ["a", "b:x"]}}})),
            "f: protocol.smtp.mx_list[1]: deserialize error: invalid mx_list entry \"b:x\"",
        ),
        (
            refusal::<QueueConfig>(json!({"protocol": {"smtp": {"mx_list": [{"name": "a", "addr": "b"}]}}})),
            "invalid addr \"b\": expected \"ip\"",
        ),
        (refusal::<QueueConfig>(json!({"shrink_policy": [{"interval": 5}]})), "missing field `policy`"),
        (refusal::<EsmtpListener>(json!({"listen": "25"})), "f: listen: deserialize error: invalid address \"25\""),
        (refusal::<EsmtpListener>(json!({"max_message_size": 0})), "expected an integer >= 1"),
        (refusal::<ListenerOverlay>(json!({"max_message_size": 0})), "expected an integer >= 1"),
        (refusal::<EsmtpListener>(json!("0:25")), "invalid type: string \"0:25\", expected a table of options"),
        (refusal::<ListenerDomain>(json!({"log_arf": "Drop"})), "unknown variant `Drop`"),
        (signer(json!({"headers": ["To"]})), "invalid headers [\"To\"]: expected a list that includes \"From\""),
        (signer(json!({"headers": ["From", "X:Y"]})), "invalid header name \"X:Y\""),
        (signer(json!({"selector": "a b"})), "invalid selector \"a b\": expected a DNS name"),
        (signer(json!({"key": null})), "missing field `key`"),
        (signer(json!({"atps": "x"})), "atps is not currently supported"),
        (signer(json!({"body_length": true})), "body_length is not currently supported"),
        (signer(json!({"expiration": "1h"})), "expected u64"),
        (signer(json!({"header_canonicalization": "relaxed"})), "did you mean `Relaxed`?"),
    ] {
        assert!(error.contains(want), "{error} lacks {want}");
    }
}

#[test]
fn durations_come_as_numbers_or_text() {
    for (value, ms) in [(json!(5), 5_000), (json!(0.25), 250), (json!("1h 30m"), 5_400_000), (json!(0), 0)] {
        let read: Duration = parse("f", value).unwrap();
        assert_eq!(read.get().as_millis(), ms);
    }
    assert!(refusal::<Duration>(json!(-0.5)).contains("invalid duration \"-0.5\""));
    assert!(refusal::<Duration>(json!(1e300)).contains("invalid duration"));
    assert!(refusal::<Duration>(json!(true)).contains("invalid type: boolean `true`"));
}

#[test]
fn protocols_are_told_apart_by_shape() {
    for (table, want) in [
        (json!({"smtp": {}}), QueueProtocol::default()),
        (json!({"smtp": []}), QueueProtocol::default()),
        (
            json!({"maildir_path": "/m/{{ user }}", "dir_mode": 0o775}),
            QueueProtocol::Maildir(MaildirProtocol {
                maildir_path: "/m/{{ user }}".into(),
                dir_mode: Some(0o775),
                file_mode: None,
            }),
        ),
        (
            json!({"custom_lua": {"constructor": "make.x", "batch_size": 10, "max_batch_latency": "2s"}}),
            QueueProtocol::CustomLua(CustomLuaProtocol {
                constructor: "make.x".into(),
                batch_size: 10,
                min_batch_size: 1,
                max_batch_latency: Duration::from_secs(2),
            }),
        ),
        (
            json!({"xfer": {"target": "http://n2:8000"}}),
            QueueProtocol::Xfer(XferProtocol { target: "http://n2:8000".into() }),
        ),
        (json!("Null"), QueueProtocol::Null),
        (json!("HttpInjectionGenerator"), QueueProtocol::HttpInjectionGenerator),
        (json!("DeferredSmtpInjection"), QueueProtocol::DeferredSmtpInjection),
    ] {
        let read: QueueProtocol = parse("f", table).unwrap();
        assert_eq!(read, want);
        let again: QueueProtocol = parse("f", serde_json::to_value(&read).unwrap()).unwrap();
        assert_eq!(again, want);
    }
    let smtp: SmtpProtocol =
        parse("f", json!({"mx_list": ["a.b:26", "[::1]", {"name": "n", "addr": "10.0.0.1:27"}]})).unwrap();
    let labels: Vec<String> = smtp.mx_list.iter().map(MxListEntry::label).collect();
    assert_eq!(labels, ["a.b:26", "[::1]", "n"]);
    assert_eq!(smtp.mx_list[2].port(), Some(27));
}

#[test]
fn triggers_and_reports() {
    let table = json!({"name": "a", "suspend_when_unplumbed": {"trigger": {"Threshold": "5/min"}, "duration": "1h"}});
    let source: EgressSource = parse("f", table).unwrap();
    let suspension = source.suspend_when_unplumbed.unwrap();
    assert_eq!(suspension.trigger, Trigger::Threshold("5/m".parse().unwrap()));
    assert_eq!(serde_json::to_value(suspension).unwrap(), json!({"trigger": {"Threshold": "5/m"}, "duration": "1h"}));
    for (value, want) in [
        (json!(true), LogReport::LogThenRelay),
        (json!(false), LogReport::Ignore),
        (json!("LogThenDrop"), LogReport::LogThenDrop),
    ] {
        let domain: ListenerDomain = parse("f", json!({"log_oob": value})).unwrap();
        assert_eq!(domain.log_oob, want);
    }
}

#[test]
fn whole_floats_serve_as_integers() {
    let logs: LocalLogs = parse("f", json!({"log_dir": "/x", "max_file_size": 1e9})).unwrap();
    assert_eq!(logs.max_file_size, 1_000_000_000);
    assert!(refusal::<LocalLogs>(json!({"log_dir": "/x", "max_file_size": 1.5})).contains("number `1.5`"));
}
