//! Every verb against a server of canned answers: what it asks, what it prints, how it fails.

mod support;

use serde_json::{Value, json};
use support::{Fixture, run_at};

const ID: &str = "5c9f2b1a-0000-4000-8000-000000000001";

#[test]
fn a_bounce_prints_its_id_alone_and_says_the_rest_on_stderr() {
    let server = Fixture::new(&[(
        "POST /api/admin/bounce/v1",
        200,
        json!({"id": ID, "bounced": {}, "total_bounced": 0, "messages": 3}),
    )]);
    let ran = server.run(&["bounce", "--domain", "a.test", "--reason", "wrong list"]);
    assert_eq!(ran.out, format!("{ID}\n"));
    assert!(
        ran.notes.contains("there now (messages: at most 3), and")
            && ran.notes.contains(&format!("bounce-cancel --id {ID}")),
        "{ran:?}"
    );
    assert_eq!(server.last().1, json!({"domain": "a.test", "reason": "wrong list", "duration": "5m"}));
    let ran =
        server.run(&["bounce", "--queue", "q", "--reason", "r", "--duration", "0", "--suppress-logging", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&ran.out).expect("JSON")["messages"], 3);
    assert_eq!(ran.notes, "");
    let expected = json!({"queue_names": ["q"], "reason": "r", "duration": "0s", "suppress_logging": true});
    assert_eq!(server.last().1, expected);
}

#[test]
fn orders_are_given_as_their_endpoints_want_them() {
    let answer = json!({"id": ID, "messages": 2});
    let rows: &[(&[&str], &str, Value)] = &[
        (&["suspend", "--tenant", "t"], "suspend", json!({"tenant": "t", "reason": "r", "duration": "5m"})),
        (
            &["hold", "--message", "ab", "--until-restart"],
            "hold",
            json!({"messages": ["ab"], "reason": "r", "survives_restart": false}),
        ),
        (&["hold", "--everything", "--duration", "2h"], "hold", json!({"reason": "r", "duration": "2h"})),
        (&["flush", "--campaign", "c"], "flush", json!({"campaign": "c", "reason": "r"})),
        (
            &["suspend-ready-q", "--name", "s->d@smtp_client", "--duration", "90s"],
            "suspend-ready-q",
            json!({"name": "s->d@smtp_client", "reason": "r", "duration": "1m 30s"}),
        ),
        (
            &["rebind", "--routing-domain", "d", "--set", "queue=x", "--always-flush"],
            "rebind",
            json!({"routing_domain": "d", "reason": "r", "data": {"queue": "x"}, "always_flush": true,
                "suppress_logging": false, "trigger_rebind_event": false}),
        ),
        (
            &["xfer", "--domain", "d", "--target", "http://b.test:8000"],
            "xfer",
            json!({"domain": "d", "reason": "r", "target": "http://b.test:8000"}),
        ),
        (
            &["xfer-cancel", "http://b.test.xfer.kumomta.internal"],
            "xfer/cancel",
            json!({"queue_name": "http://b.test.xfer.kumomta.internal", "reason": "r"}),
        ),
    ];
    for (words, path, body) in rows {
        let at = format!("POST /api/admin/{path}/v1");
        let server = Fixture::new(&[(&at, 200, answer.clone())]);
        let ran = server.run(&[words, &["--reason", "r"][..]].concat());
        let says_nothing = path.starts_with("xfer") || *path == "rebind";
        assert_eq!(ran.out.is_empty(), says_nothing, "{words:?}: {ran:?}");
        assert_eq!(server.last(), (at, body.clone()), "{words:?}");
        assert_eq!(ran.good().is_empty(), says_nothing);
    }
}

#[test]
fn lists_are_tables_or_what_the_server_said() {
    let orders = json!([{"id": ID, "reason": "wrong list", "domain": "a.test", "duration": "4m 2s 5ms", "total_bounced": 7,
        "bounced": {"a.test": 7}}]);
    for verb in ["bounce", "hold", "flush", "rebind", "xfer"] {
        let server = Fixture::new(&[(&format!("GET /api/admin/{verb}/v1"), 200, orders.clone())]);
        let list = format!("{verb}-list");
        let table = server.run(&[&list]).good();
        let (head, row) = table.trim_end().split_once('\n').expect("two lines");
        assert!(head.starts_with("ID ") && head.contains("REASON") && head.ends_with("CRITERIA"), "{head}");
        assert!(row.starts_with(ID) && row.contains("wrong list  4m 2s") && row.ends_with("7  domain=a.test"), "{row}");
        let json: Value = serde_json::from_str(&server.run(&[&list, "--json"]).good()).expect("JSON");
        assert_eq!(json, orders, "{verb}");
    }
    for verb in ["suspend", "suspend-ready-q"] {
        let server = Fixture::new(&[(&format!("GET /api/admin/{verb}/v1"), 200, orders.clone())]);
        let text = server.run(&[&format!("{verb}-list")]).good();
        assert_eq!(text, serde_json::to_string_pretty(&orders).expect("JSON") + "\n", "{verb}");
    }
}

#[test]
fn a_cancellation_says_what_the_server_said() {
    for verb in ["bounce", "suspend", "hold", "flush", "rebind", "xfer", "suspend-ready-q"] {
        let server = Fixture::new(&[(&format!("DELETE /api/admin/{verb}/v1"), 200, json!(format!("removed {ID}\n")))]);
        let words = [&format!("{verb}-cancel"), "--id", ID];
        assert_eq!(server.run(&words).good(), format!("removed {ID}\n"));
        assert_eq!(server.last().1, json!({"id": ID}));
    }
    let server = Fixture::new(&[("DELETE", 404, json!("Error: no such entry: x\n"))]);
    let error = server.run(&["bounce-cancel", "--id", "x"]).failed();
    assert!(error.contains("DELETE") && error.ends_with("404: no such entry: x"), "{error}");
}

#[test]
fn inspection_asks_for_what_is_wanted_and_prints_it() {
    let answers = [("GET /api/admin/inspect", 200, json!({"id": "ab", "queue_name": "q"}))];
    let server = Fixture::new(&answers);
    for (words, line) in [
        (&["inspect-message", "ab"][..], "GET /api/admin/inspect-message/v1?id=ab&want_body=false"),
        (&["inspect-message", "ab", "--want-body"], "GET /api/admin/inspect-message/v1?id=ab&want_body=true"),
        (
            &["inspect-sched-q", "t@a.test"],
            "GET /api/admin/inspect-sched-q/v1?queue_name=t%40a.test&want_body=false&limit=5",
        ),
        (
            &["inspect-sched-q", "q", "--limit", "9"],
            "GET /api/admin/inspect-sched-q/v1?queue_name=q&want_body=false&limit=9",
        ),
        (
            &["inspect-sched-q", "q", "--no-limit"],
            "GET /api/admin/inspect-sched-q/v1?queue_name=q&want_body=false&limit=10000",
        ),
        (
            &["inspect-ready-q", "s->d@smtp_client", "--json"],
            "GET /api/admin/inspect-ready-q/v1?queue_name=s-%3Ed%40smtp_client&include_scheduled_queues=true",
        ),
    ] {
        let text = server.run(words).good();
        assert_eq!(text, "{\n  \"id\": \"ab\",\n  \"queue_name\": \"q\"\n}\n");
        assert_eq!(server.last().0, line);
    }
    let error = server.run(&["inspect-ready-q", "q", "--json", "--config"]).failed();
    assert!(error.contains("leave out --connections, --config and --sched-q"), "{error}");
}

#[test]
fn a_ready_queue_is_told_in_blocks() {
    let constraint =
        |value: u32, display: &str| json!({"value": value, "display": display, "source": {"kind": "primary"}});
    let ready = json!({"queue_name": "s->d@smtp_client", "egress_source": "s", "egress_pool": "p", "protocol": "smtp_client",
        "mx": {"site_name": "d", "by_preference": {"10": ["a.d.", "b.d."]}},
        "state": {"ready_count": 4, "connection_count": 1, "suspended": {"context": "maintenance", "since": "2026-11-24T22:00:00Z"}},
        "path_config": {"connection_limit": 7, "tls": null},
        "constraints": {"max_concurrent_dispatchers": constraint(7, "7"), "max_message_rate": constraint(10, "600/m")},
        "scheduled_queue_names": ["x.test", "y.test"],
        "dispatchers": [{"session_id": ID, "phase": "Idle", "age": "2s", "time_in_current_phase": "1s", "messages_delivered": 5,
            "messages_transfailed": 0, "messages_failed": 0, "detail": "a.d. (192.0.2.1:25)"}]});
    let server = Fixture::new(&[("GET /api/admin/inspect-ready-q/v1", 200, ready)]);
    let text = server.run(&["inspect-ready-q", "s->d@smtp_client"]).good();
    for line in [
        "mx 10                          a.d., b.d.",
        "ready messages                 4",
        "max_message_rate               600/m",
        "suspended                      maintenance, since 2026-11-24T22:00:00Z",
    ] {
        assert!(text.contains(&format!("\n{line}\n")), "{line}: {text}");
    }
    assert!(
        !text.contains("Connections:") && !text.contains("connection_limit = 7") && !text.contains("x.test"),
        "{text}"
    );
    let text = server.run(&["inspect-ready-q", "q", "--connections", "--config", "--sched-q"]).good();
    assert!(
        text.contains("\nConnections:\nSESSION") && text.contains("Idle   1s   2s   5  0  0  a.d. (192.0.2.1:25)\n"),
        "{text}"
    );
    assert!(
        text.contains("\nconnection_limit = 7\n") && text.ends_with("\nScheduled queues:\nx.test\ny.test\n"),
        "{text}"
    );
}

#[test]
fn a_way_is_told_as_asked() {
    let way = json!({"domain": "a.test", "source": "unspecified", "queue_name": "unspecified->a@smtp_client",
        "path_config": {"connection_limit": 7}, "queue_config": {},
        "constraints": {"max_concurrent_dispatchers": {"value": 7, "display": "7", "source": {"kind": "additional", "name": "shared"}}}});
    let server = Fixture::new(&[("GET /api/admin/resolve-egress-path/v1", 200, way.clone())]);
    assert_eq!(server.run(&["resolve-egress-path", "a.test", "--config"]).good(), "connection_limit = 7\n");
    assert_eq!(server.last().0, "GET /api/admin/resolve-egress-path/v1?domain=a.test");
    let text = server.run(&["resolve-egress-path", "a.test", "ip-1", "--constraints"]).good();
    assert_eq!(text, "max_concurrent_dispatchers     7 (additional shared)\n");
    assert!(server.last().0.ends_with("?domain=a.test&source=ip-1"));
    assert!(
        server
            .run(&["resolve-egress-path", "a.test"])
            .good()
            .contains("ready queue                    unspecified->a@smtp_client\n")
    );
    assert!(!server.run(&["resolve-egress-path", "a.test"]).good().contains("pool"), "KumoMTA tells of none");
    let json = server.run(&["resolve-egress-path", "a.test", "--json"]).good();
    assert_eq!(serde_json::from_str::<Value>(&json).expect("JSON"), way);
    for words in [&["--config", "--constraints"][..], &["--config", "--json"]] {
        let words = [&["resolve-egress-path", "a.test"], words].concat();
        let error = server.run(&words).failed();
        assert!(error.contains("--config"), "{error}");
    }
}

#[test]
fn a_server_is_kept_up() {
    let server = Fixture::new(&[
        ("POST /api/admin/abort-ready-q-conn/v1", 200, json!(format!("aborted {ID}\n"))),
        ("POST /api/admin/set_diagnostic_log_filter/v1", 200, json!("")),
        ("POST /api/admin/spool-compact/v1", 200, json!("")),
    ]);
    assert_eq!(server.run(&["abort-ready-q-conn", "q", ID]).good(), format!("aborted {ID}\n"));
    assert_eq!(server.last().1, json!({"queue_name": "q", "session_id": ID}));
    assert_eq!(server.run(&["set-log-filter", "info,engine=debug"]).good(), "");
    assert_eq!(server.last().1, json!({"filter": "info,engine=debug"}));
    assert_eq!(server.run(&["spool-compact", "--name", "data"]).good(), "");
    assert_eq!(server.last().1, json!({"name": "data"}));
}

#[test]
fn a_summary_of_queues_is_two_tables() {
    let metrics = json!({
        "ready_count": {"type": "gauge", "value": {"service": {"smtp_client": 5, "smtp_client:s->a@smtp_client": 5, "smtp_client:s->b@smtp_client": 0}}},
        "scheduled_count": {"type": "gauge", "value": {"queue": {"a.test": 4, "t@b.test": 1}}},
    });
    let server = Fixture::new(&[
        ("GET /metrics.json", 200, metrics),
        ("GET /api/admin/ready-q-states/v1", 200, json!({"states_by_ready_queue": {}})),
        (
            "GET /api/admin/suspend-ready-q/v1",
            200,
            json!([{"id": ID, "name": "s->a@smtp_client", "reason": "maintenance"}]),
        ),
        ("GET /api/admin/suspend/v1", 200, json!([{"id": ID, "tenant": "t", "reason": "unpaid"}])),
        ("GET /api/admin/bounce/v1", 200, json!([])),
        (
            "GET /api/admin/resolve-egress-path/v1?domain=A.test",
            200,
            json!({"queue_name": "unspecified->a@smtp_client"}),
        ),
    ]);
    let text = server.run(&["queue-summary"]).good();
    assert_eq!(
        text,
        "SITE  SOURCE  PROTO        D  T  C  Q\n\
        a     s       smtp_client  0  0  -  5  suspended: maintenance\n\
        b     s       smtp_client  0  0  -  0\n\n\
        SCHEDULED QUEUE  COUNT\n\
        a.test               4\n\
        t@b.test             1  suspended: unpaid\n"
    );
    let text = server.run(&["queue-summary", "--domain", "A.test"]).good();
    assert!(!text.contains("b.test") && !text.contains("\nb "), "{text}");
    let lost = server.run(&["queue-summary", "--domain", "b.test"]);
    assert!(lost.notes.contains("the way of b.test cannot be found: ") && lost.out.contains("\nt@b.test "), "{lost:?}");
    let text = server.run(&["queue-summary", "--limit", "1", "--by-volume"]).good();
    assert!(text.contains("a.test") && !text.contains("b.test"), "{text}");
}

#[test]
fn a_summary_of_providers_asks_where_domains_go() {
    let counts = |n: u32| json!({"type": "counter", "value": {"provider": {"big": n}}});
    let server = Fixture::new(&[
        (
            "GET /metrics.json",
            200,
            json!({"total_messages_delivered_by_provider": counts(9), "queued_count_by_provider": counts(2),
            "scheduled_count": {"value": {"queue": {"t@a.test": 1, "b.test!a.test": 1}}}}),
        ),
        (
            "GET /api/admin/resolve-egress-path/v1",
            200,
            json!({"queue_name": "u->x@smtp_client", "path_config": {"provider_name": "big"}}),
        ),
    ]);
    assert_eq!(server.run(&["provider-summary"]).good(), "PROVIDER  D  T  F  C  Q\nbig       9  0  0  0  2\n");
    let by_pool = server.run(&["provider-summary", "--by-pool"]);
    assert!(
        by_pool.notes.contains("counts nothing by pool") && by_pool.out.starts_with("PROVIDER  POOL"),
        "{by_pool:?}"
    );
    let text = server.run(&["provider-summary", "--show-domains"]).good();
    assert_eq!(text.lines().nth(1), Some("big       9  0  0  0  2  a.test"), "{text}");
}

#[test]
fn what_went_wrong_is_named() {
    let server = Fixture::new(&[
        ("GET /api/admin/bounce/v1", 401, json!("Error: http_listener/x denied\n")),
        ("GET /api/admin/suspend/v1", 200, json!("surprise")),
    ]);
    let error = server.run(&["bounce-list"]).failed();
    assert!(error.contains("401: http_listener/x denied") && error.contains("USER:PASSWORD@HOST"), "{error}");
    let error = server.run(&["suspend-list"]).failed();
    assert!(error.contains("the answer is not JSON: \"surprise\""), "{error}");
    let error = server.run(&["queue-summary"]).failed();
    assert!(error.contains("/metrics.json: 404: this server does not have that endpoint"), "{error}");
    let error = run_at("http://127.0.0.1:1", &["bounce-list"]).failed();
    assert!(error.contains("no answer from http://127.0.0.1:1: is the server running"), "{error}");
    let error = server.run(&["bounce", "--reason", "r"]).failed();
    assert!(error.contains("--everything") && error.contains("Usage: kcli bounce"), "{error}");
    let error = server.run(&["bounce", "--everything"]).failed();
    assert!(error.contains("--reason"), "{error}");
    let error = server.run(&["bounce", "--everything", "--reason", "r", "--duration", "soon"]).failed();
    assert!(error.contains("'soon'") && error.contains("--duration"), "{error}");
}

#[test]
fn who_asks_is_said_and_an_option_wins_over_the_environment() {
    let server = Fixture::new(&[("GET /api/admin/bounce/v1", 200, json!([]))]);
    let endpoint = format!("http://admin:s3cret@{}", server.address);
    run_at(&endpoint, &["bounce-list"]).good();
    assert_eq!(server.asked()[0].authorization.as_deref(), Some("Basic YWRtaW46czNjcmV0"));
    run_at("http://127.0.0.1:1", &["--endpoint", &endpoint, "bounce-list"]).good();
    run_at("http://127.0.0.1:1", &["bounce-list", "--endpoint", &endpoint]).good();
    assert_eq!(server.asked().len(), 3);
    let error = run_at(&endpoint, &["hold-list"]).failed();
    assert!(error.contains("404") && !error.contains("s3cret"), "{error}");
}

#[test]
fn the_command_line_tells_about_itself() {
    let text = run_at("", &["--help"]).good();
    for verb in
        ["bounce-list", "suspend-ready-q-cancel", "inspect-sched-q", "abort-ready-q-conn", "trace-smtp-client", "why"]
    {
        assert!(text.contains(&format!("  {verb} ")), "{verb}: {text}");
    }
    assert!(run_at("", &["--version"]).good().starts_with("kcli "));
    assert!(run_at("", &["completions", "bash"]).good().contains("suspend-ready-q-list"));
    assert!(run_at("", &["man"]).good().contains(".TH kcli 1"));
    let page = run_at("", &["man", "bounce"]).good();
    assert!(page.contains(".TH kcli-bounce 1") && page.contains("suppress\\-logging"), "{page}");
    assert!(run_at("", &["man", "none"]).failed().contains("\"none\""));
    let dir = tempfile::tempdir().expect("scratch");
    run_at("", &["man", "--dir", dir.path().to_str().expect("text")]).good();
    assert!(dir.path().join("kcli-why.1").is_file() && dir.path().join("kcli.1").is_file());
}
