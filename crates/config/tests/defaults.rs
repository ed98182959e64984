//! The default of every option, against the reference, and the one list of names.
//!
//! In: `Default` of each option struct, written as JSON. A change of any default, name or order of names shows here.

#![recursion_limit = "512"] // for one json! of some sixty members

use config::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn shown<T: Serialize>(value: &T) -> Value {
    serde_json::to_value(value).unwrap()
}

/// Defaults are `want`; an empty table (in both of its JSON forms) gives them; the names are those of the catalog.
#[track_caller]
fn defaults<T>(constructor: &'static str, want: Value)
where
    T: Default + Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
{
    assert_eq!(shown(&T::default()), want);
    for empty in [json!({}), json!([])] {
        assert_eq!(parse::<T>(constructor, empty), Ok(T::default()));
    }
    names::<T>(constructor);
}

/// Written-out keys and catalog agree, and what is written can be read again.
#[track_caller]
fn names<T: Default + Serialize>(constructor: &str) {
    let Value::Object(map) = shown(&T::default()) else { panic!("{constructor} is not a table") };
    let written: Vec<&str> = map.keys().map(String::as_str).collect();
    assert_eq!(written, option_names(constructor), "{constructor}");
}

#[test]
fn egress_path() {
    let want = json!({
        "connection_limit": 32,
        "additional_connection_limits": {},
        "max_connection_rate": null,
        "max_message_rate": null,
        "additional_message_rate_throttles": {},
        "source_selection_rate": null,
        "additional_source_selection_rates": {},
        "max_deliveries_per_connection": 1024,
        "max_recipients_per_batch": 100,
        "max_ready": 1024,
        "aggressive_connection_opening": false,
        "concurrency_feedback": null,
        "consecutive_connection_failures_before_delay": 100,
        "dispatcher_wakeup_strategy": "Aggressive",
        "maintainer_wakeup_strategy": "Aggressive",
        "readyq_pool_name": null,
        "connect_timeout": "1m",
        "banner_timeout": "1m",
        "ehlo_timeout": "5m",
        "starttls_timeout": "5s",
        "auth_timeout": "1m",
        "mail_from_timeout": "5m",
        "rcpt_to_timeout": "5m",
        "data_timeout": "5m",
        "data_dot_timeout": "5m",
        "rset_timeout": "5s",
        "idle_timeout": "5s",
        "system_shutdown_timeout": null,
        "dispatcher_progress_watchdog_timeout": null,
        "enable_tls": "Opportunistic",
        "enable_mta_sts": true,
        "enable_dane": false,
        "opportunistic_tls_reconnect_on_failed_handshake": false,
        "remember_broken_tls": null,
        "tls_prefer_openssl": false,
        "tls_certificate": null,
        "tls_private_key": null,
        "openssl_cipher_list": null,
        "openssl_cipher_suites": null,
        "openssl_options": null,
        "rustls_cipher_suites": [],
        "smtp_auth_plain_username": null,
        "smtp_auth_plain_password": null,
        "allow_smtp_auth_plain_without_tls": false,
        "allow_smtp_auth_plain_without_valid_certificate": false,
        "smtp_port": 25,
        "ehlo_domain": null,
        "prohibited_hosts": ["127.0.0.0/8", "0.0.0.0", "::1", "::"],
        "skip_hosts": [],
        "ip_lookup_strategy": "Ipv4AndIpv6",
        "enable_pipelining": true,
        "enable_rset": true,
        "reconnect_strategy": "ConnectNextHost",
        "try_next_host_on_transport_error": false,
        "ignore_8bit_checks": false,
        "use_lmtp": false,
        "low_memory_reduction_policy": "ShrinkDataAndMeta",
        "no_memory_reduction_policy": "ShrinkDataAndMeta",
        "refresh_interval": "1m",
        "refresh_strategy": "Ttl",
        "provider_name": null,
        "verp_delimiters": null,
    });
    defaults::<EgressPath>("kumo.make_egress_path", want.clone());
    // What is shown can be given back.
    assert_eq!(parse::<EgressPath>("kumo.make_egress_path", want), Ok(EgressPath::default()));
}

#[test]
fn queue_config() {
    let want = json!({
        "egress_pool": null,
        "retry_interval": "20m",
        "max_retry_interval": null,
        "max_age": "7days",
        "max_message_rate": null,
        "protocol": {"smtp": {"mx_list": [], "treat_mx_list_as_secure": false}},
        "reap_interval": "10m",
        "refresh_interval": "1m",
        "refresh_strategy": "Ttl",
        "strategy": "SingletonTimerWheel",
        "timerwheel_tick_interval": null,
        "shrink_policy": [],
        "provider_name": null,
        "delivery_reports": null,
    });
    defaults::<QueueConfig>("kumo.make_queue_config", want);
    assert_eq!(QueueConfig::default().egress_pool(), "unspecified");
}

#[test]
fn sources_and_pools() {
    let source: EgressSource = parse("kumo.make_egress_source", json!({"name": "ip-1"})).unwrap();
    let want = json!({
        "name": "ip-1",
        "source_address": null,
        "ehlo_domain": null,
        "remote_port": null,
        "ha_proxy_server": null,
        "ha_proxy_source_address": null,
        "socks5_proxy_server": null,
        "socks5_proxy_source_address": null,
        "socks5_proxy_username": null,
        "socks5_proxy_password": null,
        "suspend_when_unplumbed": null,
        "suspend_when_proxy_unhealthy": null,
        "ttl": "1m",
    });
    assert_eq!(shown(&source), want);
    names::<EgressSource>("make_egress_source");
    let pool: EgressPool = parse("kumo.make_egress_pool", json!({"name": "p", "entries": [{"name": "ip-1"}]})).unwrap();
    assert_eq!(shown(&pool), json!({"name": "p", "entries": [{"name": "ip-1", "weight": 1}], "ttl": "1m"}));
    names::<EgressPool>("make_egress_pool");
    assert_eq!(EgressPool::unspecified().entries[0].name, EgressSource::unspecified().name);
}

#[test]
fn listeners() {
    let want = json!({
        "listen": "127.0.0.1:2025",
        "max_connections": 32768,
        "hostname": null,
        "relay_hosts": ["127.0.0.1", "::1"],
        "banner": "KumoMTA",
        "implicit_tls": false,
        "tls_certificate": null,
        "tls_private_key": null,
        "tls_required_client_ca": null,
        "deferred_spool": false,
        "deferred_queue": false,
        "idempotency_window": null,
        "trace_headers": {
            "received_header": true,
            "supplemental_header": true,
            "header_name": "X-KumoRef",
            "include_meta_names": [],
        },
        "client_timeout": "1m",
        "data_processing_timeout": "5m",
        "batch_handling": "BifurcateAlways",
        "max_messages_per_connection": 10000,
        "max_recipients_per_message": 1024,
        "max_message_size": 20971520,
        "data_buffer_size": 131072,
        "invalid_line_endings": "Deny",
        "line_length_hard_limit": 998,
        "allow_xclient": false,
        "require_proxy_protocol": false,
        "meta": {},
        "peer": {},
        "via": {},
    });
    defaults::<EsmtpListener>("kumo.start_esmtp_listener", want);
    names::<ListenerOverlay>("start_esmtp_listener.peer");
    names::<TraceHeaders>("start_esmtp_listener.trace_headers");
    let http = json!({
        "listen": "127.0.0.1:8000",
        "trusted_hosts": ["127.0.0.1", "::1"],
        "hostname": null,
        "use_tls": false,
        "tls_certificate": null,
        "tls_private_key": null,
        "request_body_limit": null,
        "idempotency_window": "1day",
        "browser_hosts": [],
    });
    defaults::<HttpListener>("kumo.start_http_listener", http);
    assert_eq!(HttpListener::default().request_body_bytes_max(), 2_097_152);
    let domain = json!({
        "relay_to": false, "relay_from": [], "log_oob": "Ignore", "log_arf": "Ignore", "ttl": "1m",
    });
    defaults::<ListenerDomain>("kumo.make_listener_domain", domain);
}

#[test]
fn spools() {
    let table = json!({"name": "data", "path": "/var/spool", "rocks_params": {"some_new_knob": 7}});
    let spool: SpoolOptions = parse("kumo.define_spool", table).unwrap();
    let want = json!({
        "name": "data",
        "path": "/var/spool",
        "kind": null,
        "flush": false,
        "min_free_space": "10%",
        "min_free_inodes": "10%",
        "rocks_params": {
            "increase_parallelism": null,
            "optimize_level_style_compaction": null,
            "optimize_universal_style_compaction": null,
            "paranoid_checks": false,
            "compression_type": "Snappy",
            "compaction_readahead_size": null,
            "level_compaction_dynamic_level_bytes": false,
            "max_open_files": null,
            "write_buffer_size": null,
            "level0_stop_writes_trigger": null,
            "log_level": "Info",
            "memtable_huge_page_size": null,
            "log_file_time_to_roll": "1day",
            "obsolete_files_period": "6h",
            "limit_concurrent_stores": null,
            "limit_concurrent_loads": null,
            "limit_concurrent_removes": null,
            "store_deadline": "30s",
            "error_latch_duration": "15s",
            "error_unlatch_duration": "5m",
            "allow_error_unlatch": true,
        },
    });
    assert_eq!(shown(&spool), want);
    names::<SpoolOptions>("define_spool");
    names::<RocksParams>("define_spool.rocks_params");
}

#[test]
fn logs() {
    let logs: LocalLogs = parse(
        "kumo.configure_local_logs",
        json!({"log_dir": "/var/log", "per_record": {"Any": {"enable": false}, "Bounce": {}}}),
    )
    .unwrap();
    let entry =
        |enable| json!({"enable": enable, "suffix": null, "log_dir": null, "template": null, "segment_header": ""});
    let want = json!({
        "log_dir": "/var/log",
        "max_segment_duration": null,
        "max_file_size": 1000000000,
        "max_record_size": 134217728,
        "retain_for": null,
        "retain_bytes": null,
        "index": true,
        "journal": null,
        "when_full": "Wait",
        "compression_level": 0,
        "back_pressure": 128000,
        "meta": [],
        "headers": [],
        "per_record": {"Bounce": entry(true), "Any": entry(false)},
        "filter_event": null,
        "min_free_space": "10%",
        "min_free_inodes": "10%",
    });
    assert_eq!(shown(&logs), want);
    names::<LocalLogs>("configure_local_logs");
    names::<PerRecord>("configure_local_logs.per_record");
    let hook: LogHook = parse("kumo.configure_log_hook", json!({"name": "h"})).unwrap();
    let want = json!({
        "name": "h", "back_pressure": 128000, "meta": [], "headers": [], "per_record": {}, "deferred_spool": false,
    });
    assert_eq!(shown(&hook), want);
    names::<LogHook>("configure_log_hook");
    let stream: EventStream =
        parse("kumo.configure_event_stream", json!({"name": "s", "log_dir": "/l", "url": "http://a.test/"})).unwrap();
    let want = json!({
        "name": "s", "log_dir": "/l", "suffix": "", "url": "http://a.test/", "secret": null, "types": [],
        "batch_size": 1000, "max_batch_bytes": 4_194_304, "max_batch_latency": "1s", "timeout": "30s", "from": "end",
        "headers": {}, "format": "json", "checkpoint_dir": null,
    });
    assert_eq!(shown(&stream), want);
    names::<EventStream>("configure_event_stream");
    let otlp: OtlpMetrics =
        parse("kumo.configure_otlp_metrics", json!({"endpoint": "http://a.test/v1/metrics"})).unwrap();
    let want = json!({
        "endpoint": "http://a.test/v1/metrics", "headers": {}, "interval": "1m", "timeout": "10s", "prefix": "", "attributes": {},
    });
    assert_eq!(shown(&otlp), want);
    names::<OtlpMetrics>("configure_otlp_metrics");
    let dmarc: DmarcReports =
        parse("kumo.configure_dmarc_reports", json!({"org_name": "o", "email": "r@a.test"})).unwrap();
    let want = json!({
        "org_name": "o", "email": "r@a.test", "extra_contact_info": null, "submitter": null, "sender": null,
        "dir": "/var/spool/kumomta/reports", "interval": "1day", "spread": "4h", "max_domains": 20_000,
        "max_domains_per_organisation": 1_000,
        "max_rows": 100_000, "max_rows_per_domain": 5_000, "failure_reports": false, "max_failure_reports_per_hour": 10,
        "redact_recipients": true,
    });
    assert_eq!(shown(&dmarc), want);
    names::<DmarcReports>("configure_dmarc_reports");
    let tls: TlsReports = parse("kumo.configure_tls_reports", json!({"org_name": "o", "email": "r@a.test"})).unwrap();
    let want = json!({
        "org_name": "o", "email": "r@a.test", "submitter": null, "sender": null, "dir": "/var/spool/kumomta/reports",
        "interval": "1day", "spread": "4h", "max_domains": 50_000,
        "max_domains_per_organisation": 1_000, "allow_private_addresses": false, "max_rows": 100_000, "max_rows_per_domain": 1_000,
    });
    assert_eq!(shown(&tls), want);
    names::<TlsReports>("configure_tls_reports");
    names::<LogDispositionHook>("configure_log_disposition_hook");
    let classifier: BounceClassifier =
        parse("kumo.configure_bounce_classifier", json!({"files": ["/etc/iana.toml"]})).unwrap();
    let want = json!({
        "files": ["/etc/iana.toml"],
        "back_pressure": 131072,
        "pool_size": null,
        "cache_size": 1024,
        "uncategorized_cache_size": 1024,
    });
    assert_eq!(shown(&classifier), want);
    names::<BounceClassifier>("configure_bounce_classifier");
}

#[test]
fn signers_and_protocols() {
    let table = json!({"domain": "example.com", "selector": "s1", "headers": ["From", "To"], "key": "/k.pem"});
    let signer: SignerOptions = parse("kumo.dkim.rsa_sha256_signer", table).unwrap();
    let want = json!({
        "domain": "example.com",
        "selector": "s1",
        "headers": ["From", "To"],
        "key": "/k.pem",
        "expiration": null,
        "header_canonicalization": "Relaxed",
        "body_canonicalization": "Relaxed",
        "over_sign": false,
        "ttl": "5m",
        "self_check": false,
        "atps": null,
        "atpsh": null,
        "agent_user_identifier": null,
        "body_length": false,
        "reporting": false,
    });
    assert_eq!(shown(&signer), want);
    names::<SignerOptions>("kumo.dkim.ed25519_signer");
}

#[test]
fn rules_of_providers() {
    let want = json!({
        "mode": "Warn",
        "tenant": null,
        "bulk": null,
        "sources": [],
        "ignore": [],
        "max_message_size": 26_214_400,
        "header": "X-Compliance",
        "resolver": null,
    });
    defaults::<ComplianceOptions>("kumo.compliance.check", want);
}

#[test]
fn protocols() {
    names::<SmtpProtocol>("make_queue_config.protocol.smtp");
    names::<MaildirProtocol>("make_queue_config.protocol.maildir");
    names::<CustomLuaProtocol>("make_queue_config.protocol.custom_lua");
    names::<XferProtocol>("make_queue_config.protocol.xfer");
    names::<ShrinkPolicyEntry>("make_queue_config.shrink_policy");
    names::<SourceSuspension>("make_egress_source.suspend_when_unplumbed");
    names::<EgressPoolEntry>("make_egress_pool.entries");
}

/// Each word of each enumeration is read and written as itself.
#[test]
fn every_choice_is_readable() {
    macro_rules! all {
        ($($name:ident),+) => { $(
            for choice in $name::ALL {
                let word = json!(choice.as_str());
                assert_eq!(parse::<$name>("test", word.clone()), Ok(*choice));
                assert_eq!(shown(choice), word);
            }
        )+ };
    }
    all!(
        EnableTls,
        ReconnectStrategy,
        RefreshStrategy,
        IpLookupStrategy,
        WakeupStrategy,
        MemoryReductionPolicy,
        QueueStrategy,
        BatchHandling,
        InvalidLineEndings,
        SpoolKind,
        RocksCompression,
        RocksLogLevel,
        Canonicalization,
        AtpsHash,
        RecordKey
    );
}
