//! What a policy that is read again changes while mail flows: logs and who filters them, hooks, listeners, and the room that
//! spools must leave.

use e2e::http;
use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::logs::{Logs, is_complete};
use e2e::port::free_port;
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::traffic::Traffic;
use e2e::until::{LATER, until};
use e2e::wire::Client;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

struct Setup {
    launch: Launch,
    node: Kumod,
    scratch: Scratch,
    sink: Sink,
}

impl Setup {
    fn new(now: &Value) -> Setup {
        let scratch = Scratch::new();
        let sink = Sink::start(&scratch, "sink", &[]);
        write(&scratch, now);
        let launch = Launch::policy(scratch.join("policy.lua"))
            .env("RELOADED_DIR", scratch.path())
            .env("RELOADED_SINK", sink.address.to_string());
        let node = launch.start();
        Setup { launch, node, scratch, sink }
    }

    /// Has it read these; what the API says to that.
    fn try_read(&self, now: &Value) -> (u16, String) {
        write(&self.scratch, now);
        http::send(self.node.http(), "POST", "/api/admin/bump-config-epoch", "application/json", "")
    }

    fn read(&self, now: &Value) {
        let (status, text) = self.try_read(now);
        assert_eq!(status, 200, "{text}");
    }

    fn submit(&self, count: usize) {
        (0..count).for_each(|_| {
            let reply = Client::connect(self.node.smtp()).submit("a@source.test", "b@target.test", "x");
            assert_eq!(reply.code, 250);
        });
    }

    /// Handlers wait until they are opened again.
    fn shut(&self) {
        fs::write(self.scratch.join("shut"), "").expect("written");
    }

    fn open(&self) {
        fs::remove_file(self.scratch.join("shut")).expect("was shut");
    }

    /// What handlers say they were asked, once each of these was said so often.
    fn await_asked(&self, wanted: &[(&str, usize)]) -> Vec<String> {
        until(LATER, &format!("{wanted:?}"), || {
            let asked = asked(&self.scratch);
            let count = |what: &str| asked.iter().filter(|line| *line == what).count();
            wanted.iter().all(|(what, times)| count(what) == *times).then_some(asked)
        })
    }

    fn logs(&self, name: &str) -> Logs {
        Logs::new(self.scratch.join(name))
    }

    fn dir(&self, name: &str) -> String {
        self.scratch.join(name).display().to_string()
    }
}

/// What handlers say they were asked.
fn asked(scratch: &Scratch) -> Vec<String> {
    let text = fs::read_to_string(scratch.join("asked")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// The policy for these.
fn write(scratch: &Scratch, now: &Value) {
    let file = policy_file("reloaded.lua");
    let text = fs::read_to_string(&file).expect("there");
    let beside = file.with_file_name("?.lua");
    let text = format!("NOW = [==[{now}]==] package.path = '{};' .. package.path {text}", beside.display());
    fs::write(scratch.join("policy.new"), text).expect("written");
    fs::rename(scratch.join("policy.new"), scratch.join("policy.lua")).expect("in one step");
}

/// Each message's reception and delivery are in one log or the other, once.
#[test]
fn logs_change_while_mail_flows_and_no_record_is_lost() {
    let setup = Setup::new(&json!({"name": "0", "logs": [{}]}));
    let traffic =
        Traffic::start(&setup.scratch, "load", setup.node.smtp(), &["--concurrency", "8", "--body-size", "500"]);
    let other = setup.dir("other");
    for turn in 1..=12 {
        let logs = match turn % 4 {
            0 => json!([{}]),
            1 => json!([{"log_dir": other}]),
            // The same place, with other options.
            2 => json!([{"log_dir": other, "compression_level": turn}]),
            _ => json!([{}, {"log_dir": other, "per_record": {"Any": {"enable": false}}}]),
        };
        let before = setup.sink.arrivals().len();
        setup.read(&json!({"name": turn.to_string(), "logs": logs}));
        until(LATER, "some mail", || (setup.sink.arrivals().len() > before + 20).then_some(()));
    }
    let sent = traffic.stop();
    setup.node.await_empty(LATER);
    let Setup { node, scratch, .. } = setup;
    node.stop();
    let both = ["logs", "other"].map(|name| Logs::new(scratch.join(name)));
    for kind in ["Reception", "Delivery"] {
        let records: Vec<Value> = both.iter().flat_map(|logs| logs.of_type(kind)).collect();
        let ids: BTreeSet<&str> = records.iter().filter_map(|record| record["id"].as_str()).collect();
        assert_eq!((records.len(), ids.len()), (sent.len(), sent.len()), "{kind}");
    }
    for logs in &both {
        assert!(!logs.of_type("Delivery").is_empty() && logs.segments().iter().all(|segment| is_complete(segment)));
    }
}

/// Who began with records finishes them by the policy that it began with.
#[test]
fn filters_and_hooks_that_leave_finish_what_they_have() {
    let first = json!({
        "name": "first",
        "logs": [{"filter_event": "keep_first"}],
        "filters": ["keep_first"],
        "hooks": [{"name": "one", "per_record": {"Reception": {"enable": true}, "Any": {"enable": false}}}],
        "disposition": ["early"],
    });
    let setup = Setup::new(&first);
    setup.submit(1);
    setup.sink.await_arrivals(2, LATER);
    let early = [("first keep_first", 3), ("first hook one", 1), ("first early Delivery", 1)];
    setup.await_asked(&early);
    setup.shut();
    setup.submit(5);
    let second = json!({
        "name": "second",
        "logs": [{"log_dir": setup.dir("other"), "filter_event": "keep_second"}],
        "filters": ["keep_second"],
        "disposition": ["late"],
    });
    setup.read(&second);
    setup.open();
    setup.await_asked(&[("first hook one", 6)]);
    setup.submit(1);
    // Seven messages, and records of six.
    setup.sink.await_arrivals(13, LATER);
    setup.node.await_empty(LATER);
    let Setup { node, scratch, sink, .. } = setup;
    node.stop();
    assert_eq!(sink.arrivals().len(), 13);
    let asked = asked(&scratch);
    let count = |what: &str| asked.iter().filter(|line| *line == what).count();
    let told = (count("first early Delivery"), count("second late Delivery"));
    assert!(told.0 >= 1 && told.1 >= 1 && told.0 + told.1 == 7, "{asked:?}");
    assert!(!asked.iter().any(|line| line.starts_with("second hook")), "{asked:?}");
    let [old, new] = ["logs", "other"].map(|name| Logs::new(scratch.join(name)));
    assert_eq!((old.of_type("Reception").len(), new.of_type("Reception").len()), (6, 1));
    let deliveries = [&old, &new].map(|logs| logs.of_type("Delivery").len());
    assert_eq!(deliveries.iter().sum::<usize>(), 13, "{deliveries:?}");
    assert_eq!(count("first keep_first"), 6 + deliveries[0], "whoever keeps a record was asked, and by its own policy");
    assert_eq!(count("second keep_second"), 1 + deliveries[1]);
}

/// What waits for a hook that leaves and for the one in its place outlives a kill, also while nobody of that name is configured.
#[test]
fn a_kill_takes_nothing_from_hooks_that_come_and_go() {
    let hook = |name: &str, more: usize| {
        let per_record = json!({"Reception": {"enable": true}, "Any": {"enable": false}});
        json!({"name": name, "logs": [{}], "hooks": [{"name": "one", "per_record": per_record, "back_pressure": more}]})
    };
    let mut setup = Setup::new(&hook("first", 1000));
    setup.shut();
    setup.submit(5);
    setup.read(&hook("second", 2000));
    setup.submit(3);
    setup.sink.await_arrivals(8, LATER);
    setup.node.process.kill();
    assert!(asked(&setup.scratch).is_empty());
    write(&setup.scratch, &json!({"name": "none", "logs": [{}]}));
    for _ in 0..2 {
        setup.node = setup.launch.start();
        for count in [5, 3] {
            let said = format!("{count} records of a killed process wait for log hook one, which is not configured");
            setup.node.process.await_stderr(&said, LATER, |line| line.contains(&said).then_some(()));
        }
        setup.node.process.kill();
    }
    setup.node = setup.launch.start();
    setup.read(&hook("third", 3000));
    setup.submit(1);
    setup.open();
    setup.await_asked(&[("third hook one", 9)]);
    // Nine messages and their records; the kill may have doubled a delivery.
    setup.sink.await_arrivals(18, LATER);
    setup.node.await_empty(LATER);
    let Setup { node, scratch, launch, .. } = setup;
    node.stop();
    launch.start().stop();
    assert_eq!(asked(&scratch).len(), 9, "each once");
}

/// What a stop has no time for is offered at the next start.
#[test]
fn a_stop_that_cannot_wait_leaves_records_to_the_next_start() {
    let hook = json!({"name": "one", "per_record": {"Reception": {"enable": true}, "Any": {"enable": false}}});
    let mut setup = Setup::new(&json!({"name": "0", "logs": [{}], "hooks": [hook]}));
    setup.shut();
    setup.submit(3);
    setup.sink.await_arrivals(3, LATER);
    setup.node.process.signal(Signal::SIGTERM);
    let ended = setup.node.process.finish(LATER);
    assert!(ended.stderr.contains("log hook one: 3 records are left to the next start"), "{}", ended.stderr);
    setup.node = setup.launch.start();
    setup.open();
    setup.await_asked(&[("0 hook one", 3)]);
    setup.node.await_empty(LATER);
    let Setup { node, scratch, launch, .. } = setup;
    node.stop();
    launch.start().stop();
    assert_eq!(asked(&scratch).len(), 3, "each once");
}

/// A filter that is asked about as many records as may wait holds up no mail where its logger is to drop records.
#[test]
fn a_full_filter_drops_records_where_it_is_to() {
    let logs = json!([{"filter_event": "keep", "back_pressure": 2, "when_full": "Drop"}]);
    let setup = Setup::new(&json!({"name": "0", "logs": logs, "filters": ["keep"]}));
    setup.shut();
    setup.submit(6);
    setup.sink.await_arrivals(6, LATER);
    setup.node.await_empty(LATER);
    let ready = || http::get(setup.node.http(), "/api/check-readiness/v1");
    assert_eq!(ready(), (200, "OK\ndegraded: filter_event keep: records are dropped".to_owned()));
    let series = format!("postrider_log_records_dropped_total{{logger=\"dir-{}\"}}", setup.dir("logs"));
    // Of two that come at once both may see room for one.
    let dropped = setup.node.metric(&series) as usize;
    assert!((9..=10).contains(&dropped), "{dropped}");
    setup.open();
    let said = format!("filter_event keep: there is room for records again; {dropped} were dropped");
    setup.node.process.await_stderr(&said, LATER, |line| line.contains(&said).then_some(()));
    assert_eq!(ready(), (200, "OK".to_owned()));
    let Setup { node, scratch, .. } = setup;
    node.stop();
    assert_eq!(Logs::new(scratch.join("logs")).records().len(), 12 - dropped);
}

#[test]
fn listeners_come_and_go() {
    let setup = Setup::new(&json!({"name": "0"}));
    let free = || SocketAddr::from(([127, 0, 0, 1], free_port()));
    let (second, web) = (free(), free());
    let kept = json!({"listen": "127.0.0.1:0"});
    let more = |banner: &str| {
        json!({"name": "1", "esmtp": [kept, {"listen": second.to_string(), "banner": banner}],
                                     "http": [kept, {"listen": web.to_string(), "request_body_limit": 1000}]})
    };
    setup.read(&more("one"));
    for said in [format!("smtp listener on {second}"), format!("http listener on {web}")] {
        setup.node.process.await_stderr(&said, LATER, |line| line.contains(&said).then_some(()));
    }
    let mut client = Client::connect_mute(second);
    assert!(client.reply().text().contains("one"));
    // What is there already has its options changed, and the clients it had.
    setup.read(&more("two"));
    assert!(Client::connect_mute(second).reply().text().contains("two"));
    let body = "x".repeat(1500);
    let inject = |at: SocketAddr| http::send(at, "POST", "/api/inject/v1", "application/json", &body).0;
    assert_eq!(inject(web), 413);
    let mut roomy = more("two");
    roomy["http"][1]["request_body_limit"] = json!(100_000);
    setup.read(&roomy);
    assert_eq!(inject(web), 400);
    // Gone: nobody can come, who is there stays.
    client.expect("EHLO client.test", 250);
    setup.read(&json!({"name": "2"}));
    until(LATER, "the listeners to close", || {
        [second, web].iter().all(|address| TcpStream::connect(address).is_err()).then_some(())
    });
    client.begin("a@source.test", "b@target.test");
    client.expect("Subject: x\r\n\r\nx\r\n.", 250);
    setup.submit(1);
    assert_eq!(http::get(setup.node.http(), "/metrics").0, 200);
    setup.node.stop();
}

/// While a program ends, no mail comes to it, and another may take it where it did; who asks how it is hears that it ends.
#[test]
fn a_program_that_ends_takes_no_mail_and_says_so() {
    let scratch = Scratch::new();
    write(&scratch, &json!({"name": "0"}));
    let mute = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let launch = Launch::policy(scratch.join("policy.lua"))
        .env("RELOADED_DIR", scratch.path())
        .env("RELOADED_SINK", mute.local_addr().expect("bound").to_string());
    let mut node = launch.start();
    let (mail, web) = (node.smtp(), node.http());
    assert_eq!(Client::connect(mail).submit("a@source.test", "b@target.test", "x").code, 250);
    // A delivery that is not told what became of it keeps the program for a while.
    let delivery = take_and_say_nothing(&mute);
    node.process.signal(Signal::SIGTERM);
    until(LATER, "the SMTP listener to close", || TcpStream::connect(mail).is_err().then_some(()));
    TcpListener::bind(mail).expect("its place is free");
    for path in ["/api/check-readiness/v1", "/api/check-liveness/v1", "/metrics", "/api/admin/bounce/v1"] {
        let (status, said) = http::get(web, path);
        assert!(status == 503 && said.contains("shutting down"), "{path}: {status} {said}");
    }
    assert!(node.process.is_running(), "a delivery is in hand");
    drop((delivery, mute));
    node.process.finish(LATER);
    TcpListener::bind(web).expect("its place is free");
}

/// A delivery whose content has come whole.
fn take_and_say_nothing(server: &TcpListener) -> TcpStream {
    let (mut delivery, _) = server.accept().expect("a delivery");
    let mut lines = BufReader::new(delivery.try_clone().expect("a handle")).lines().map(|line| line.expect("a line"));
    delivery.write_all(b"220 mute.test\r\n").expect("written");
    while lines.next().expect("a command") != "DATA" {
        delivery.write_all(b"250 OK\r\n").expect("written");
    }
    delivery.write_all(b"354 go on\r\n").expect("written");
    assert!(lines.any(|line| line == "."), "the end of the content");
    delivery
}

/// An address that is in use leaves all as it was.
#[test]
fn listeners_that_cannot_be_had_change_nothing() {
    let setup = Setup::new(&json!({"name": "0", "esmtp": [{"banner": "first"}]}));
    let taken = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let taken = taken.local_addr().expect("bound");
    for part in ["esmtp", "http"] {
        let mut now = json!({"name": "1", "esmtp": [{"banner": "second"}], "http": [{}], "logs": [{}]});
        now[part].as_array_mut().expect("a list").push(json!({"listen": taken.to_string()}));
        let (status, text) = setup.try_read(&now);
        assert!(status == 500 && text.contains(&format!("cannot listen on {taken}")), "{status} {text}");
        assert!(Client::connect_mute(setup.node.smtp()).reply().text().contains("first"));
        setup.submit(1);
    }
    assert!(setup.logs("logs").segments().is_empty(), "nothing was logged");
    setup.node.stop();
}

/// A log directory that cannot be had leaves all as it was too.
#[test]
fn logs_that_cannot_be_had_change_nothing() {
    let setup = Setup::new(&json!({"name": "0", "logs": [{}]}));
    fs::write(setup.scratch.join("file"), "").expect("written");
    let (sound, bad) = (setup.dir("sound"), setup.dir("file"));
    let (status, text) = setup.try_read(&json!({"name": "1", "logs": [{"log_dir": sound}, {"log_dir": bad}]}));
    assert!(status == 500 && text.contains(&format!("log_dir `{bad}`")), "{status} {text}");
    setup.submit(1);
    setup.logs("logs").await_type("Delivery", 1, LATER);
    setup.node.stop();
}

/// What a spool must leave free is what the last reading says.
#[test]
fn limits_of_spools_change() {
    let setup = Setup::new(&json!({"name": "0"}));
    setup.submit(1);
    setup.read(&json!({"name": "1", "spool": {"min_free_space": "100%"}}));
    until(LATER, "refusals", || (liveness(&setup).0 == 503).then_some(()));
    setup.read(&json!({"name": "2"}));
    until(LATER, "mail to be taken again", || (liveness(&setup).0 == 200).then_some(()));
    setup.submit(1);
    setup.node.stop();
}

fn liveness(setup: &Setup) -> (u16, String) {
    http::get(setup.node.http(), "/api/check-liveness/v1")
}
