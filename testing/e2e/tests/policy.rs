//! Policy decides, and policy that fails costs nobody but the client it failed for.

use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::logs::Logs;
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::traffic::Traffic;
use e2e::until::{SOON, until};
use e2e::wire::{Client, Reply};

/// A server with `events.lua` before two sinks.
struct Setup {
    scratch: Scratch,
    mine: Sink,
    others: Sink,
    server: Kumod,
}

#[test]
fn an_error_in_a_handler_is_421_logged_with_its_traceback_and_harms_nobody_else() {
    let setup = Setup::new(&[]);
    let mut bystander = setup.client();
    bystander.begin("a@source.test", "bystander@x.test");

    for stage in ["ehlo", "mail", "rcpt", "message"] {
        let mut client = setup.client();
        let reply = client.act_at(stage, "fail");
        assert_eq!((reply.code, reply.text().as_str()), (421, "4.3.0 events.test technical difficulties"), "{stage}");
        assert!(client.is_closed_silently(), "{stage}: still open after 421");
    }
    let blame = "attempt to index a nil value (local 'nothing')";
    let stderr = until(SOON, "four errors on stderr", || {
        let stderr = setup.server.process.stderr();
        // The last line of the last traceback is the handler itself.
        (stderr.matches("in function <").count() >= 4).then_some(stderr)
    });
    assert_eq!(stderr.matches(blame).count(), 4, "the cause once for each failure: {stderr}");
    assert_eq!(stderr.matches("stack traceback:").count(), 4, "{stderr}");
    let script = std::fs::read_to_string(policy_file("events.lua")).expect("the policy");
    let line = 1 + script.lines().position(|line| line.contains("nothing.field")).expect("the line that fails");
    assert!(stderr.contains(&format!("events.lua:{line}: in ")) && stderr.contains("this_one_fails"), "{stderr}");
    for event in ["smtp_server_ehlo", "smtp_server_mail_from", "smtp_server_rcpt_to", "smtp_server_message_received"] {
        assert!(stderr.contains(event), "{event} is not named: {stderr}");
    }

    assert_eq!(bystander.say("Subject: unharmed\r\n\r\nHello.\r\n.").code, 250);
    assert_eq!(setup.client().submit("a@source.test", "after@x.test", "still here").code, 250);
    let arrivals = setup.others.await_arrivals(2, SOON);
    assert_eq!(arrivals.len(), 2, "{arrivals:?}");
    setup.server.stop();
}

/// A client that does not hear of its message sends it again: what policy does with the next has no part in that.
#[test]
fn that_a_message_was_taken_waits_for_nobodys_policy() {
    let setup = Setup::new(&[]);
    let mut client = setup.client();
    client.begin("a@source.test", "plain@target.test");
    client.send("Subject: x\r\n\r\nHello.\r\n.\r\nMAIL FROM:<slow@source.test>\r\n");
    let reply = client.reply();
    assert!(reply.code == 250 && reply.text().contains("ids="), "{reply:?}");
    std::fs::write(setup.scratch.join("events/go-on"), "").expect("written");
    assert_eq!(client.reply().code, 250);
    setup.server.stop();
}

/// A client gives up that hears nothing for five minutes, however many commands it has pipelined: what took a second is told before
/// policy is asked again.
#[test]
fn replies_to_pipelined_commands_do_not_wait_for_the_last() {
    let setup = Setup::new(&[]);
    let mut client = setup.client();
    client.expect("EHLO fine.test", 250);
    client.expect("MAIL FROM:<a@source.test>", 250);
    client.send("RCPT TO:<takes-a-second@target.test>\r\nRSET\r\nMAIL FROM:<slow@source.test>\r\n");
    assert!(client.reply().text().contains("takes-a-second"));
    assert_eq!(client.reply().text(), "Reset state");
    std::fs::write(setup.scratch.join("events/go-on"), "").expect("written");
    assert_eq!(client.reply().code, 250);
    setup.server.stop();
}

/// Whoever let EHLO pass.
#[test]
fn policy_knows_what_the_client_calls_itself() {
    let setup = Setup::new(&[("EVENTS_NO_EHLO", "1")]);
    let mut client = setup.client();
    for name in ["one.test", "two.test"] {
        client.expect(&format!("EHLO {name}"), 250);
        let reply = client.say("MAIL FROM:<named@source.test>");
        assert_eq!((reply.code, reply.text()), (550, format!("5.7.1 you are {name}")));
    }
    setup.server.stop();
}

#[test]
fn a_rejection_has_the_code_and_text_policy_gave() {
    let setup = Setup::new(&[]);
    for (user, code, text) in
        [("reject", 553, "5.7.1 not this one"), ("later", 451, "4.7.1 not now"), ("wrapped", 550, "5.7.2 thrown again")]
    {
        for stage in ["ehlo", "mail", "rcpt", "message"] {
            let mut client = setup.client();
            let reply = client.act_at(stage, user);
            assert_eq!((reply.code, reply.text().as_str()), (code, text), "{user} at {stage}");
            client.expect("NOOP", 250);
        }
    }
    for (user, code) in [("gone", 421), ("cut", 550)] {
        for stage in ["ehlo", "mail", "rcpt", "message"] {
            let mut client = setup.client();
            assert_eq!(client.act_at(stage, user).code, code, "{user} at {stage}");
            assert!(client.is_closed_silently(), "{user} at {stage}: still open");
        }
    }
    let logs = Logs::new(setup.scratch.join("events/logs"));
    let rejections = logs.await_type("Rejection", 20, SOON);
    assert_eq!(rejections.len(), 20);
    assert!(setup.mine.arrivals().is_empty() && setup.others.arrivals().is_empty(), "something refused was delivered");
    setup.server.stop();
}

#[test]
fn one_refused_recipient_does_not_refuse_the_others() {
    let setup = Setup::new(&[]);
    let mut client = setup.client();
    client.expect("EHLO client.test", 250);
    client.expect("MAIL FROM:<a@source.test>", 250);
    client.expect("RCPT TO:<one@x.test>", 250);
    client.expect("RCPT TO:<reject@x.test>", 553);
    client.expect("RCPT TO:<two@x.test>", 250);
    client.expect("DATA", 354);
    assert_eq!(client.say("Subject: some\r\n\r\nHello.\r\n.").code, 250);
    let arrivals = setup.others.await_arrivals(2, SOON);
    let mut recipients: Vec<String> = arrivals.into_iter().flat_map(|a| a.recipients).collect();
    recipients.sort();
    assert_eq!(recipients, ["one@x.test", "two@x.test"]);
    setup.server.stop();
}

#[test]
fn metadata_set_by_policy_routes() {
    let setup = Setup::new(&[]);
    for user in ["mine", "tenant", "routed", "nowhere", "plain"] {
        assert_eq!(
            setup.client().submit("a@source.test", &format!("{user}@Target.test"), "routing").code,
            250,
            "{user}"
        );
    }
    let users = |sink: &Sink| {
        let mut users: Vec<String> = sink.await_arrivals(2, SOON).into_iter().flat_map(|a| a.recipients).collect();
        users.sort();
        users
    };
    assert_eq!(users(&setup.mine), ["mine@Target.test", "routed@Target.test"]);
    assert_eq!(users(&setup.others), ["plain@Target.test", "tenant@Target.test"]);
    setup.server.await_empty(SOON);
    let logs = Logs::new(setup.scratch.join("events/logs"));
    setup.server.stop();
    let queue_of = |user: &str, kind: &str| {
        let recipient = format!("{user}@Target.test");
        let record = logs.of_type(kind).into_iter().find(|r| r["recipient"] == recipient.as_str());
        record.unwrap_or_else(|| panic!("no {kind} record for {recipient}"))["queue"].as_str().map(str::to_owned)
    };
    for (user, queue) in [
        ("mine", "my.sink.server"),
        ("tenant", "spring:acme@target.test"),
        ("routed", "target.test!my.sink.server"),
        ("plain", "target.test"),
    ] {
        assert_eq!(queue_of(user, "Reception").as_deref(), Some(queue), "{user}");
        assert_eq!(queue_of(user, "Delivery").as_deref(), Some(queue), "{user}");
    }
    assert_eq!(queue_of("nowhere", "Reception").as_deref(), Some("null"));
    assert!(logs.of_type("Delivery").iter().all(|r| r["recipient"] != "nowhere@Target.test"), "null delivered");
}

#[test]
fn a_policy_may_throw_everything_away() {
    let scratch = Scratch::new();
    let launch = Launch::policy(policy_file("../../../bench/policies/sink.lua"))
        .env("SINK_PORT", "0")
        .env("SINK_HTTP", "127.0.0.1:0")
        .env("SINK_DIR", scratch.join("sink"));
    let server = launch.start();
    Traffic::send(&scratch, "made", server.smtp(), 200, &["--concurrency", "4"]);
    assert_eq!(server.metric("total_messages_received{service=\"esmtp_listener\"}"), 200.0);
    assert_eq!(server.metric("message_count"), 0.0);
    server.stop();
}

#[test]
fn queues_whose_smart_hosts_differ_in_address_only_are_not_mixed() {
    let setup = Setup::new(&[("EVENTS_NAME", "sink.test")]);
    for round in 0..5 {
        for user in ["mine", "plain"] {
            let reply = setup.client().submit("a@source.test", &format!("{user}@target.test"), "apart");
            assert_eq!(reply.code, 250, "{user} {round}");
        }
    }
    setup.server.await_empty(SOON);
    until(SOON, "ten messages", || (setup.mine.arrivals().len() + setup.others.arrivals().len() == 10).then_some(()));
    let strange = |sink: &Sink, user: &str| {
        sink.arrivals().into_iter().flat_map(|a| a.recipients).filter(|r| !r.starts_with(user)).count()
    };
    assert_eq!((strange(&setup.mine, "mine"), strange(&setup.others, "plain")), (0, 0), "at a host of another queue");
    setup.server.stop();
}

impl Setup {
    fn new(env: &[(&str, &str)]) -> Setup {
        let scratch = Scratch::new();
        let (mine, others) = (Sink::start(&scratch, "mine", &[]), Sink::start(&scratch, "others", &[]));
        let launch = Launch::policy(policy_file("events.lua"))
            .env("EVENTS_DIR", scratch.join("events"))
            .env("EVENTS_MINE", mine.address.to_string())
            .env("EVENTS_OTHERS", others.address.to_string());
        let launch = env.iter().fold(launch, |launch, (name, value)| launch.env(name, *value));
        Setup { server: launch.start(), scratch, mine, others }
    }

    fn client(&self) -> Client {
        Client::connect(self.server.smtp())
    }
}

/// A client that makes policy act at one stage of a transaction.
trait Act {
    fn act_at(&mut self, stage: &str, what: &str) -> Reply;
}

impl Act for Client {
    fn act_at(&mut self, stage: &str, what: &str) -> Reply {
        let at = |wanted: &str| if stage == wanted { what } else { "fine" };
        let reply = self.say(&format!("EHLO {}.test", at("ehlo")));
        if stage == "ehlo" {
            return reply;
        }
        let reply = self.say(&format!("MAIL FROM:<{}@source.test>", at("mail")));
        if stage == "mail" {
            return reply;
        }
        let reply = self.say(&format!("RCPT TO:<{}@x.test>", at("rcpt")));
        if stage == "rcpt" {
            return reply;
        }
        self.expect("DATA", 354);
        self.say(&format!("Subject: {}\r\n\r\nHello.\r\n.", at("message")))
    }
}
