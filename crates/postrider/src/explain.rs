//! What a policy's `init` asks for, in words, for `--validate`: every setting that is not the default with what it does, then
//! what has no effect, contradicts, or lets strangers in.
//!
//! In: what is to be started. Out: lines for people. Decides nothing; what is an error was refused before.

use config::{
    AcctLog, BounceClassifier, CONSTRUCTORS, CidrMap, CidrSet, DmarcReports, EsmtpListener, EventStream, HostPort,
    HttpListener, KeySource, ListenerOverlay, LocalLogs, LogDispositionHook, LogHook, MemoryLimits, OptionInfo,
    OtlpMetrics, RedisThrottles, SpoolOptions, TlsReports, options_of, show_cidr,
};
use policy::Startup;
use serde::Serialize;
use serde_json::Value;

/// The settings, a headline for each call of `init` and a line for each option of it.
pub fn settings(startup: &Startup) -> Vec<String> {
    let mut lines = Vec::new();
    for spool in &startup.spools {
        lines.push(format!("kumo.define_spool `{}`", spool.name));
        lines.extend(changed("define_spool", spool, &SpoolOptions::default()));
    }
    for listener in &startup.esmtp_listeners {
        lines.push(format!("kumo.start_esmtp_listener {}", listener.listen));
        lines.extend(changed("start_esmtp_listener", listener, &EsmtpListener::default()));
    }
    for listener in &startup.http_listeners {
        lines.push(format!("kumo.start_http_listener {}", listener.listen));
        lines.extend(changed("start_http_listener", listener, &HttpListener::default()));
    }
    for logs in &startup.local_logs {
        lines.push(format!("kumo.configure_local_logs {}", logs.log_dir.display()));
        lines.extend(changed("configure_local_logs", logs, &LocalLogs::default()));
    }
    if let Some(log) = &startup.acct_log {
        lines.push(format!("kumo.aaa.configure_acct_log {}", log.log_dir.display()));
        lines.extend(changed("aaa.configure_acct_log", log, &AcctLog::default()));
    }
    for hook in &startup.log_hooks {
        lines.push(format!("kumo.configure_log_hook `{}`", hook.name));
        lines.extend(changed("configure_log_hook", hook, &LogHook::default()));
    }
    for stream in &startup.event_streams {
        let EventStream { name, log_dir, suffix, url, .. } = stream;
        let segments = log_dir.join(format!("*{suffix}"));
        lines.push(format!(
            "kumo.configure_event_stream `{name}`: {} is read and posted to {}",
            segments.display(),
            host_of(url)
        ));
        lines.extend(changed("configure_event_stream", stream, &EventStream::default()));
    }
    if let Some(otlp) = &startup.otlp_metrics {
        lines.push(format!("kumo.configure_otlp_metrics: metrics are sent to {}", host_of(&otlp.endpoint)));
        lines.extend(changed("configure_otlp_metrics", otlp, &OtlpMetrics::default()));
    }
    lines.extend(of_reports(startup));
    lines.extend(of_the_program(startup));
    lines
}

fn of_reports(startup: &Startup) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(reports) = &startup.dmarc_reports {
        lines.push(format!("kumo.configure_dmarc_reports {}", reports.dir.display()));
        lines.extend(changed("configure_dmarc_reports", reports, &DmarcReports::default()));
    }
    if let Some(reports) = &startup.tls_reports {
        lines.push(format!("kumo.configure_tls_reports {}", reports.dir.display()));
        lines.extend(changed("configure_tls_reports", reports, &TlsReports::default()));
    }
    lines
}

/// Scheme and host of a URL: what is behind them may be a password.
fn host_of(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    format!("{scheme}://{}", authority.rsplit_once('@').map_or(authority, |(_, host)| host))
}

/// Settings that are about the program as a whole.
fn of_the_program(startup: &Startup) -> Vec<String> {
    let mut lines = Vec::new();
    for hook in &startup.log_disposition_hooks {
        lines.push(format!("kumo.configure_log_disposition_hook `{}`", hook.name));
        lines.extend(changed("configure_log_disposition_hook", hook, &LogDispositionHook::default()));
    }
    if let Some(classifier) = &startup.bounce_classifier {
        lines.push("kumo.configure_bounce_classifier".to_owned());
        lines.extend(changed("configure_bounce_classifier", classifier, &BounceClassifier::default()));
    }
    if let Some(redis) = &startup.redis_throttles {
        lines.push("kumo.configure_redis_throttles".to_owned());
        lines.extend(changed("configure_redis_throttles", redis, &RedisThrottles::default()));
    }
    for task in &startup.tasks {
        lines.push(format!("kumo.spawn_task: {} runs beside the service", task.event_name));
    }
    let MemoryLimits { hard, soft, low } = startup.memory;
    let limits = [("hard", hard), ("soft", soft), ("low", low)];
    let limits = limits.iter().filter_map(|(name, octets)| octets.map(|octets| format!("{name} {octets} octets")));
    let limits: Vec<String> = limits.collect();
    if !limits.is_empty() {
        lines.push(format!("limits of memory: {}", limits.join(", ")));
    }
    if startup.dns.resolver.is_some() {
        lines.push("kumo.dns.configure_resolver: not the system's servers are asked for names".to_owned());
    }
    lines.extend(startup.dns.named.keys().map(|name| format!("kumo.dns.define_resolver `{name}`: for scripts")));
    if !startup.dns.is_mta_sts_enabled {
        lines.push("kumo.dns.set_mta_sts_enabled(false): policies of other domains are not looked at".to_owned());
    }
    if let Some(rate) = &startup.injection_rate {
        lines.push(format!("kumo.set_httpinject_recipient_rate_limit: {rate} recipients"));
    }
    if startup.delivers_when_spool_unhealthy {
        lines.push(
            "kumo.suspend_delivery_when_spool_unhealthy(false): delivery goes on while the spool fails".to_owned(),
        );
    }
    if let Some(globs) = &startup.config_monitor_globs {
        lines.push(format!("kumo.set_config_monitor_globs: changes of {} are looked for", globs.join(", ")));
    }
    lines
}

/// The options that are not as by default. What may be secret is not shown, however deep it lies.
fn changed<T: Serialize>(constructor: &str, given: &T, default: &T) -> Vec<String> {
    let table = |options: &T| serde_json::to_value(options).unwrap_or(Value::Null);
    let (given, default) = (table(given), table(default));
    let options = options_of(constructor).iter().filter(|option| given[option.name] != default[option.name]);
    let line = |option: &OptionInfo| {
        let value = shown(option.name, &given[option.name]);
        format!("  {} = {value}: {}", option.name, option.doc.trim())
    };
    options.map(line).collect()
}

/// The value of an option, without what keys and passwords are in, and in tables what nobody set.
fn shown(name: &str, value: &Value) -> Value {
    match value {
        Value::Null => Value::Null,
        // An address may have a password in it.
        _ if is_secret(name) || ["node", "endpoint"].contains(&name) => Value::from("(given)"),
        // Of requests: one may say who asks.
        Value::Object(fields) if name == "headers" => {
            fields.keys().map(|field| (field.clone(), Value::from("(given)"))).collect()
        }
        Value::Object(table) => {
            let given = table.iter().filter(|(_, value)| !value.is_null());
            given.map(|(name, value)| (name.clone(), shown(name, value))).collect()
        }
        Value::Array(list) => list.iter().map(|value| shown("", value)).collect(),
        plain => plain.clone(),
    }
}

/// True when some option of that name is a source of a key.
fn is_secret(name: &str) -> bool {
    let holds = |option: &OptionInfo| option.name == name && option.kind.contains("Source");
    CONSTRUCTORS.iter().any(|constructor| options_of(constructor).iter().any(holds))
}

/// What the operator may not have meant.
pub fn remarks(startup: &Startup) -> Vec<String> {
    let mut said = Vec::new();
    if startup.esmtp_listeners.is_empty() && startup.http_listeners.is_empty() {
        said.push(
            "nothing takes mail: neither kumo.start_esmtp_listener nor kumo.start_http_listener is called".to_owned(),
        );
    }
    if startup.local_logs.is_empty() {
        said.push("nothing is logged: kumo.configure_local_logs is not called".to_owned());
    }
    startup.esmtp_listeners.iter().for_each(|listener| about_esmtp(listener, &mut said));
    startup.http_listeners.iter().for_each(|listener| about_http(listener, &mut said));
    let folders = startup.local_logs.iter().map(|logs| logs.log_dir.display().to_string());
    said.extend(shared("configure_local_logs", folders));
    said.extend(shared("define_spool", startup.spools.iter().map(|spool| spool.path.display().to_string())));
    said.extend(without_effect(startup));
    said.extend(about_memory(&startup.memory));
    said.extend(startup.event_streams.iter().filter_map(|stream| about_stream(stream, &startup.local_logs)));
    said
}

/// Options that KumoMTA has a use for, and this program has not.
fn without_effect(startup: &Startup) -> Vec<String> {
    let mut said = Vec::new();
    for spool in &startup.spools {
        let call = format!("define_spool `{}`", spool.name);
        said.extend(idle(&call, "define_spool", spool, &SpoolOptions::default()));
    }
    for listener in &startup.esmtp_listeners {
        let call = format!("start_esmtp_listener {}", listener.listen);
        said.extend(idle(&call, "start_esmtp_listener", listener, &EsmtpListener::default()));
        let EsmtpListener { params, .. } = listener;
        if !params.trace_headers.supplemental_header {
            let of = idle_of_trace(&params.trace_headers);
            said.extend(
                of.map(|name| format!("{call}: trace_headers.{name} has no effect: supplemental_header is false")),
            );
        }
    }
    if let Some(classifier) = &startup.bounce_classifier {
        let name = "configure_bounce_classifier";
        said.extend(idle(name, name, classifier, &BounceClassifier::default()));
    }
    if let Some(redis) = &startup.redis_throttles {
        let name = "configure_redis_throttles";
        said.extend(idle(name, name, redis, &RedisThrottles::default()));
    }
    said
}

/// Those of [`NO_EFFECT`] that a call gives another value than the default.
fn idle<T: Serialize>(call: &str, constructor: &str, given: &T, default: &T) -> Vec<String> {
    let table = |options: &T| serde_json::to_value(options).unwrap_or(Value::Null);
    let (given, default) = (table(given), table(default));
    let of_it = NO_EFFECT.iter().filter(|(of, name, _)| *of == constructor && given[*name] != default[*name]);
    of_it.map(|(_, name, why)| format!("{call}: {name} has no effect: {why}")).collect()
}

/// Options of the supplemental header that are set.
fn idle_of_trace(trace: &config::TraceHeaders) -> impl Iterator<Item = &'static str> {
    let default = config::TraceHeaders::default();
    let named = (trace.header_name != default.header_name).then_some("header_name");
    named.into_iter().chain((trace.include_meta_names != default.include_meta_names).then_some("include_meta_names"))
}

/// Limits of memory in an order that makes no sense.
fn about_memory(MemoryLimits { hard, soft, low }: &MemoryLimits) -> Vec<String> {
    let pairs = [("soft", soft, "hard", hard), ("low", low, "soft", soft), ("low", low, "hard", hard)];
    let wrong = pairs.iter().filter_map(|(lower, a, upper, b)| {
        let (a, b) = ((**a)?, (**b)?);
        (a > b)
            .then(|| format!("the {lower} limit of memory ({a}) is above the {upper} limit ({b}), which comes first"))
    });
    wrong.collect()
}

/// A stream whose segments nobody writes.
fn about_stream(stream: &EventStream, logs: &[LocalLogs]) -> Option<String> {
    let EventStream { name, log_dir, suffix, .. } = stream;
    let is_written = logs.iter().any(|logs| {
        let mut entries = logs.per_record.values();
        (logs.log_dir == *log_dir && suffix.is_empty())
            || entries.any(|entry| {
                entry.log_dir.as_ref().unwrap_or(&logs.log_dir) == log_dir
                    && entry.suffix.as_deref().unwrap_or_default() == suffix
            })
    });
    let place = log_dir.display();
    (!is_written).then(|| {
        format!("configure_event_stream `{name}`: no logger writes to {place} with the suffix {suffix:?}: nothing comes of it")
    })
}

/// Folders that two calls of one function name.
fn shared(function: &str, folders: impl Iterator<Item = String>) -> Vec<String> {
    let mut folders: Vec<String> = folders.collect();
    folders.sort_unstable();
    let twice = folders.windows(2).filter(|pair| pair[0] == pair[1]);
    twice.map(|pair| format!("{function}: two of them have the folder {}: expected one each", pair[0])).collect()
}

fn about_esmtp(listener: &EsmtpListener, said: &mut Vec<String>) {
    let EsmtpListener { listen, params, peer, via, .. } = listener;
    for (which, blocks) in [("peer", peer), ("via", via)] {
        about_blocks(&format!("start_esmtp_listener {listen}: {which}"), blocks, said);
    }
    let mut say = |what: &str| said.push(format!("start_esmtp_listener {listen}: {what}"));
    if has_everybody(&params.relay_hosts) {
        say("relay_hosts has everybody: whoever reaches this port sends mail to anywhere (an open relay)");
    }
    if params.allow_xclient && !is_local(listen) {
        say(
            "allow_xclient for everybody: whoever reaches this port can be whom he likes, and so relay; set it in `peer` blocks",
        );
    }
    if params.deferred_spool {
        say("deferred_spool: mail that was accepted is lost in a crash");
    }
    if params.max_messages_per_connection < params.max_recipients_per_message {
        say("max_recipients_per_message is never reached: max_messages_per_connection counts recipients and is lower");
    }
    about_certificate((&params.tls_certificate, &params.tls_private_key), &mut say);
    if params.tls_certificate.is_none() && !is_local(listen) {
        say("no tls_certificate: clients are shown a made-up one, which those who verify refuse");
    }
}

/// What blocks allow, and blocks in them.
fn about_blocks(place: &str, blocks: &CidrMap<ListenerOverlay>, said: &mut Vec<String>) {
    for (block, overlay) in blocks.iter() {
        let place = format!("{place} {}", show_cidr(block));
        if overlay.relay_hosts.as_ref().is_some_and(has_everybody) {
            said.push(format!("{place}: relay_hosts has everybody: whoever the block is for sends mail to anywhere"));
        }
        if overlay.allow_xclient == Some(true) && block.prefix_len() == 0 {
            said.push(format!(
                "{place}: allow_xclient for everybody: whoever reaches this port can be whom he likes, and so relay"
            ));
        }
        about_blocks(&format!("{place}: peer"), &overlay.peer, said);
        about_blocks(&format!("{place}: via"), &overlay.via, said);
    }
}

fn about_http(listener: &HttpListener, said: &mut Vec<String>) {
    let mut say = |what: &str| said.push(format!("start_http_listener {}: {what}", listener.listen));
    if has_everybody(&listener.trusted_hosts) {
        say("trusted_hosts has everybody: whoever reaches this port may inject mail and administer");
    }
    about_certificate((&listener.tls_certificate, &listener.tls_private_key), &mut say);
    if listener.tls_certificate.is_some() && !listener.use_tls {
        say("tls_certificate has no effect: use_tls is not set");
    }
    if !listener.use_tls && !is_local(&listener.listen) {
        say("no TLS: passwords and mail cross the network in clear");
    }
}

fn about_certificate((certificate, key): (&Option<KeySource>, &Option<KeySource>), say: &mut impl FnMut(&str)) {
    if certificate.is_some() != key.is_some() {
        say("tls_certificate and tls_private_key: the one without the other cannot be used");
    }
}

fn has_everybody(hosts: &CidrSet) -> bool {
    hosts.blocks().iter().any(|block| block.prefix_len() == 0)
}

fn is_local(listen: &HostPort) -> bool {
    listen.host == "localhost" || listen.host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

/// Constructor, option, and why nothing comes of it.
const NO_EFFECT: [(&str, &str, &str); 9] = [
    ("define_spool", "flush", "every message is synced before its 250"),
    ("define_spool", "rocks_params", "mail is kept in Postrider's own log"),
    ("start_esmtp_listener", "data_buffer_size", "receive buffers are shared"),
    ("configure_bounce_classifier", "pool_size", "an answer takes less time than handing the question to a thread"),
    ("configure_bounce_classifier", "back_pressure", "nothing waits for the classifier"),
    ("configure_redis_throttles", "pool_size", "one connection carries all"),
    ("configure_redis_throttles", "wait_timeout", "nobody waits for a connection"),
    ("configure_redis_throttles", "recycle_timeout", "the connection is not handed back and forth"),
    ("configure_redis_throttles", "read_from_replicas", "every question changes what is stored"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn startup(esmtp: Value, http: Value) -> Startup {
        Startup {
            esmtp_listeners: vec![config::parse("start_esmtp_listener", esmtp).expect("sound")],
            http_listeners: vec![config::parse("start_http_listener", http).expect("sound")],
            ..Startup::default()
        }
    }

    #[test]
    fn what_is_set_is_shown_with_what_it_does_and_secrets_are_not() {
        let esmtp = json!({"listen": "127.0.0.1:25", "banner": "hello", "tls_private_key": {"key_data": "s3cret"}});
        let lines = settings(&startup(esmtp, json!({}))).join("\n");
        assert!(lines.starts_with("kumo.start_esmtp_listener 127.0.0.1:25\n"), "{lines}");
        assert!(lines.contains("\n  banner = \"hello\": Text behind the host name in the greeting."), "{lines}");
        assert!(lines.contains("\n  tls_private_key = \"(given)\": ") && !lines.contains("s3cret"), "{lines}");
        assert!(!lines.contains("max_message_size"), "{lines}");
        let token = json!({"vault_mount": "m", "vault_path": "p", "vault_token": "s3cret"});
        let deep = json!({"via": {"10.0.0.1": {"tls_required_client_ca": token.clone()}}, "tls_certificate": token});
        let lines = settings(&startup(json!({"peer": {"10.0.0.0/8": deep}}), json!({}))).join("\n");
        assert!(lines.contains("tls_required_client_ca\":\"(given)\"") && !lines.contains("s3cret"), "{lines}");
    }

    #[test]
    fn what_has_no_effect_is_said_of_each_option_that_is_set() {
        for (constructor, name, why) in NO_EFFECT {
            let known = options_of(constructor).iter().any(|option| option.name == name);
            assert!(known && !why.is_empty(), "{constructor}.{name}");
        }
        let redis: RedisThrottles =
            config::parse("configure_redis_throttles", json!({"node": "redis://a", "pool_size": 3})).expect("sound");
        let memory = MemoryLimits { hard: Some(10), soft: Some(20), low: Some(5) };
        let said = remarks(&Startup { redis_throttles: Some(redis), memory, ..Startup::default() });
        let wanted = [
            "configure_redis_throttles: pool_size has no effect: one",
            "the soft limit of memory (20) is above the hard",
        ];
        for wanted in wanted {
            assert_eq!(said.iter().filter(|line| line.starts_with(wanted)).count(), 1, "{wanted}: {said:?}");
        }
        assert!(!said.iter().any(|line| line.contains("wait_timeout")), "{said:?}");
    }

    #[test]
    fn what_is_probably_not_meant_is_said() {
        let quiet = remarks(&startup(json!({}), json!({})));
        assert_eq!(quiet, ["nothing is logged: kumo.configure_local_logs is not called"]);
        for (esmtp, http, expected) in [
            (json!({"relay_hosts": ["0.0.0.0/0"]}), json!({}), "open relay"),
            (json!({"listen": "0.0.0.0:25", "allow_xclient": true}), json!({}), "allow_xclient for everybody"),
            (json!({"listen": "0.0.0.0:25"}), json!({}), "no tls_certificate"),
            (
                json!({"peer": {"10.0.0.1": {"via": {"0.0.0.0/0": {"relay_hosts": ["0.0.0.0/0"]}}}}}),
                json!({}),
                "peer 10.0.0.1: via 0.0.0.0/0: relay_hosts",
            ),
            (json!({"peer": {"::/0": {"allow_xclient": true}}}), json!({}), "peer ::/0: allow_xclient"),
            (json!({"tls_certificate": "a.pem"}), json!({}), "the one without the other"),
            (json!({"deferred_spool": true}), json!({}), "lost in a crash"),
            (json!({"data_buffer_size": 1}), json!({}), "data_buffer_size has no effect"),
            (
                json!({"trace_headers": {"supplemental_header": false, "header_name": "X-T"}}),
                json!({}),
                "header_name has no effect",
            ),
            (json!({"max_messages_per_connection": 5}), json!({}), "is never reached"),
            (json!({}), json!({"trusted_hosts": ["::/0"]}), "may inject mail and administer"),
            (json!({}), json!({"listen": "0.0.0.0:8000"}), "no TLS"),
            (json!({}), json!({"tls_certificate": "a.pem", "tls_private_key": "b.pem"}), "use_tls is not set"),
        ] {
            let said = remarks(&startup(esmtp, http));
            assert_eq!(said.iter().filter(|line| line.contains(expected)).count(), 1, "{expected}: {said:?}");
        }
    }
}
