//! Search and timeline over the whole program: mail is found by what is known of it while it waits and after it has ended,
//! also after a kill; without a log, what waits is found all the same.

use e2e::http;
use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::process::Finished;
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::until::{LATER, SOON, until};
use e2e::wire::Client;
use serde_json::{Value, json};
use std::fs;

fn submit(relay: &Kumod, from: &str, to: &str) -> String {
    let reply = Client::connect(relay.smtp()).submit(from, to, "looked for");
    assert_eq!(reply.code, 250, "{reply:?}");
    reply.lines[0].split("ids=").nth(1).expect("an id").trim().to_owned()
}

fn search(relay: &Kumod, query: &str) -> Value {
    let (status, text) = http::get(relay.http(), &format!("/api/admin/search/v1?{query}"));
    assert_eq!(status, 200, "{query}: {text}");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{query}: {error}: {text}"))
}

fn messages(relay: &Kumod, query: &str) -> Vec<Value> {
    search(relay, query)["messages"].as_array().expect("a list").clone()
}

fn ids(relay: &Kumod, query: &str) -> Vec<String> {
    messages(relay, query).iter().map(|message| message["id"].as_str().expect("an id").to_owned()).collect()
}

fn timeline(relay: &Kumod, id: &str) -> Value {
    let (status, text) = http::get(relay.http(), &format!("/api/admin/timeline/v1?id={id}"));
    assert_eq!(status, 200, "{text}");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn kinds(told: &Value) -> Vec<&str> {
    told["events"].as_array().expect("a list").iter().map(|event| event["type"].as_str().expect("a type")).collect()
}

fn kcli(relay: &Kumod, words: &[&str]) -> Finished {
    let launch = Launch::verb("kcli").env("KUMO_KCLI_ENDPOINT", format!("http://{}", relay.http()));
    words.iter().fold(launch, |launch, word| launch.arg(*word)).run()
}

/// Waits until the log says that the mail to somebody is in this state.
fn await_state(relay: &Kumod, recipient: &str, state: &str) -> Value {
    until(SOON, &format!("{recipient} is {state}"), || {
        let found = messages(relay, &format!("recipient={recipient}"));
        found.into_iter().find(|message| message["state"] == state)
    })
}

#[test]
fn mail_is_found_while_it_waits_and_after_it_has_ended_and_after_a_kill() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let mut relay = Launch::relay(&scratch, sink.address).start();
    let order = |domain: &str| json!({"domain": domain, "reason": "maintenance", "duration": "1 hour"});
    for domain in ["held.test", "ended.test"] {
        http::json(relay.http(), "POST", "/api/admin/suspend/v1", &order(domain));
    }
    let ended = submit(&relay, "a@source.test", "three@ended.test");
    http::json(relay.http(), "POST", "/api/admin/bounce/v1", &order("ended.test"));
    let delivered = submit(&relay, "a@source.test", "One@ok.test");
    let held = submit(&relay, "b@source.test", "two@held.test");

    let first = await_state(&relay, "one@OK.test", "delivered");
    assert_eq!((&first["id"], &first["response"]["code"]), (&json!(delivered), &json!(250)), "{first}");
    assert!(first["ended"].is_string() && first["due"].is_null() && first["created"].is_string(), "{first}");
    let second = await_state(&relay, "two@held.test", "due");
    assert_eq!((&second["id"], &second["why"]), (&json!(held), &json!("ReadyQueueWasSuspended")), "{second}");
    assert_eq!(await_state(&relay, "three@ended.test", "admin_bounced")["id"], json!(ended));

    relay.process.kill();
    let relay = Launch::relay(&scratch, sink.address).start();
    await_state(&relay, "two@held.test", "due");
    assert_eq!(
        await_state(&relay, "one@ok.test", "delivered")["id"],
        json!(delivered),
        "the log of before is read too"
    );

    // The newest first, page by page.
    let page = search(&relay, "sender=A@source.test&limit=1");
    assert_eq!(page["messages"][0]["id"], json!(delivered));
    let next = page["next"].as_str().expect("there is more");
    let page = search(&relay, &format!("sender=A@source.test&limit=1&cursor={next}"));
    assert_eq!(page["messages"][0]["id"], json!(ended));
    assert_eq!(ids(&relay, "sender=a@source.test&state=delivered"), [delivered.as_str()]);
    assert_eq!(ids(&relay, "sender=a@source.test&domain=ended.test"), [ended.as_str()]);

    // What is in queues is known without the log.
    let waiting = messages(&relay, "domain=HELD.test");
    assert_eq!(waiting.len(), 1);
    assert_eq!((&waiting[0]["sender"], &waiting[0]["recipient"]), (&json!("b@source.test"), &json!("two@held.test")));
    for (query, found) in [
        ("", 1),
        ("queue=held.test", 1),
        ("queue=other.test", 0),
        ("tenant=shop", 0),
        ("state=due", 1),
        ("state=waiting", 0),
        ("recipient=two@held.test&among=queues", 1),
        ("recipient=one@ok.test&among=queues", 0),
        ("recipient=nobody@held.test", 0),
    ] {
        assert_eq!(ids(&relay, query), vec![held.as_str(); found], "{query}");
    }
    for id in [&delivered, &held, &ended] {
        assert_eq!(ids(&relay, &format!("id={id}")), [id.as_str()]);
    }

    let told = timeline(&relay, &delivered);
    assert_eq!((kinds(&told), &told["now"]), (vec!["Reception", "Delivery"], &Value::Null), "{told}");
    assert_eq!(told["events"][1]["record"]["response"]["code"], 250);
    let told = timeline(&relay, &held);
    assert_eq!((kinds(&told), &told["now"]["state"]), (vec!["Reception"], &json!("due")), "{told}");
    assert_eq!(kinds(&timeline(&relay, &ended)), ["Reception", "AdminBounce"]);

    // It is found where it is now, and as what it is now.
    let post = |path: &str, order: Value| http::json(relay.http(), "POST", path, &order);
    post("/api/admin/suspend/v1", order("moved.test"));
    let to = json!({"domain": "held.test", "reason": "moved", "data": {"queue": "moved.test"}});
    post("/api/admin/rebind/v1", to);
    until(SOON, "a message that has moved", || (ids(&relay, "queue=moved.test") == [held.as_str()]).then_some(()));
    post("/api/admin/hold/v1", json!({"domain": "moved.test", "reason": "held", "duration": "1 hour"}));
    until(SOON, "a message that is held", || (ids(&relay, "state=held") == [held.as_str()]).then_some(()));
    for (query, found) in [
        ("recipient=two@held.test&queue=moved.test", 1),
        ("recipient=two@held.test&queue=held.test", 0),
        ("recipient=two@held.test&state=held", 1),
        ("state=due", 0),
        ("state=in_delivery", 0),
    ] {
        assert_eq!(ids(&relay, query), vec![held.as_str(); found], "{query}");
    }

    let list = kcli(&relay, &["search", "--sender", "a@source.test"]).success().stdout;
    let rows: Vec<&str> = list.lines().skip(1).collect();
    assert!(rows.len() == 2 && rows[0].starts_with(&delivered) && rows[0].contains("delivered"), "{list}");
    let told = kcli(&relay, &["timeline", &held]).success().stdout;
    assert!(told.contains("Reception") && told.contains("now it is held in moved.test"), "{told}");
    let missing = kcli(&relay, &["timeline", "00000000000011f1bb2c00163e000000"]);
    assert_eq!(missing.status.code(), Some(1), "{missing:?}");
    relay.stop();
}

/// More is in delivery than a page has; then comes what waits.
#[test]
fn what_is_in_delivery_is_on_one_of_the_pages() {
    let scratch = Scratch::new();
    let slow = Sink::start(&scratch, "slow", &["--delay-ms", "60000"]);
    // Each domain has connections of its own.
    let launch = Launch::policy(policy_file("ready.lua")).env("READY_DIR", scratch.folder("ready"));
    let mut relay = launch.env("READY_TO", slow.address.to_string()).start();
    let order = json!({"domain": "held.test", "reason": "maintenance", "duration": "1 hour"});
    http::json(relay.http(), "POST", "/api/admin/suspend/v1", &order);
    let to = |n: usize| [format!("one@d{n}.test"), format!("r{n}@held.test")];
    let mut all: Vec<String> = (0..5).flat_map(to).map(|to| submit(&relay, "a@source.test", &to)).collect();
    until(SOON, "five in delivery", || (ids(&relay, "state=in_delivery").len() == 5).then_some(()));
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = search(&relay, &format!("among=queues&limit=2{cursor}"));
        let here = page["messages"].as_array().expect("a list");
        assert!(here.len() <= 2, "{page}");
        found.extend(here.iter().map(|message| message["id"].as_str().expect("an id").to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    found.sort();
    all.sort();
    assert_eq!(found, all, "each once");
    relay.process.kill();
}

#[test]
fn what_is_not_understood_or_not_there_is_told_apart() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let relay = Launch::relay(&scratch, sink.address).start();
    relay.await_recovered(SOON);
    for (path, status, says) in [
        ("search/v1?state=gone", 422, "invalid state \"gone\": expected one of waiting"),
        ("search/v1?cursor=x", 422, "invalid cursor"),
        ("search/v1?recipent=x", 400, "recipent"),
        ("timeline/v1?id=00000000000011f1bb2c00163e000000", 404, "the log has nothing about it"),
        ("timeline/v1?id=7", 400, "expected a message id"),
    ] {
        let (found, text) = http::get(relay.http(), &format!("/api/admin/{path}"));
        assert_eq!(found, status, "{path}: {text}");
        assert!(text.contains(says), "{path}: {text}");
    }
    relay.stop();
}

/// Nothing is logged, nothing is delivered.
const BARE: &str = r#"
local kumo = require 'kumo'
kumo.on('init', function()
  kumo.define_spool { name = 'data', path = os.getenv 'DIR' .. '/data' }
  kumo.define_spool { name = 'meta', path = os.getenv 'DIR' .. '/meta' }
  kumo.start_esmtp_listener { listen = '127.0.0.1:0', relay_hosts = { '127.0.0.1' } }
  kumo.start_http_listener { listen = '127.0.0.1:0' }
end)
kumo.on('get_queue_config', function()
  return kumo.make_queue_config { retry_interval = '1h', protocol = { smtp = { mx_list = { { name = 'nobody.test', addr = '127.0.0.1:1' } } } } }
end)
kumo.on('get_egress_path_config', function()
  return kumo.make_egress_path { prohibited_hosts = {} }
end)
"#;

#[test]
fn without_a_log_what_waits_is_found_by_its_recipient_and_its_sender() {
    let scratch = Scratch::new();
    let policy = scratch.join("init.lua");
    fs::write(&policy, BARE).expect("writes");
    let relay = Launch::policy(&policy).env("DIR", scratch.join("spool")).start();
    let sent: Vec<String> =
        (0..20).map(|n| submit(&relay, &format!("s{}@source.test", n % 2), &format!("r{n}@x{}.test", n % 4))).collect();
    // On their way to the first attempt, which fails, they change places.
    let waiting = |n| ids(&relay, &format!("sender=s{n}@source.test&state=waiting")).len();
    until(LATER, "all had their attempt", || (waiting(0) + waiting(1) == 20).then_some(()));
    assert_eq!(ids(&relay, "recipient=R7@x3.test"), [sent[7].as_str()]);
    assert_eq!(ids(&relay, "sender=s1@source.test&domain=x3.test").len(), 5);
    let mut paged = Vec::new();
    let mut query = "sender=S0@source.test&limit=3".to_owned();
    loop {
        let page = search(&relay, &query);
        let found = page["messages"].as_array().expect("a list");
        assert!(found.len() <= 3, "{page}");
        paged.extend(found.iter().map(|message| message["id"].as_str().expect("an id").to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        query = format!("sender=S0@source.test&limit=3&cursor={next}");
    }
    paged.sort();
    let mut expected: Vec<String> = sent.iter().step_by(2).cloned().collect();
    expected.sort();
    assert_eq!(paged, expected, "each once");
    let told = timeline(&relay, &sent[3]);
    assert_eq!(
        (told["events"].as_array().map(Vec::len), &told["now"]["queue_name"]),
        (Some(0), &json!("x3.test")),
        "{told}"
    );
    relay.stop();
}
