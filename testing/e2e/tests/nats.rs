//! `kumo.nats`, against Debian's NATS server and, on the other side of it, NATS's client for Python.

use e2e::brokers::{Away, ask, holds, launch};
use e2e::certificate::Authority;
use e2e::nats::{RunningNats, lines};
use e2e::scratch::Scratch;
use e2e::until::SOON;
use serde_json::{Value, json};

#[test]
fn scripts_publish_to_streams() {
    let scratch = Scratch::new();
    let mut nats = RunningNats::start(&scratch);
    nats.stream("MAIL", "mail.>");
    let away = Away::new();
    let server = launch(&scratch, &away).env("NATS", nats.address.to_string()).env("NATS_TOP", "1").start();
    let mut listener = nats.listen("plain");
    ["nats_publish", "nats_unheard", "nats_wrong", "nats_close", "nats_away"]
        .iter()
        .for_each(|act| holds(&server, act));
    let heard = &lines(&listener.finish(SOON).success().stdout)[0];
    assert_eq!((&heard["payload"], &heard["headers"]), (&json!("bm90IGtlcHQ="), &json!({"X-A": "1"})));
    let kept = nats.read("MAIL");
    let shown: Vec<(&Value, &Value)> = kept.iter().map(|message| (&message["subject"], &message["payload"])).collect();
    let expected = [
        ("mail.init", "ZnJvbSBpbml0"),
        ("mail.a", "YQD/"),
        ("mail.once", "b25jZQ=="),
        ("mail.unheard", "b24gaXRzIHdheQ=="),
        ("mail.closing", ""),
    ];
    let expected = expected.map(|(subject, payload)| (json!(subject), json!(payload)));
    assert_eq!(shown, expected.iter().map(|(subject, payload)| (subject, payload)).collect::<Vec<_>>());
    assert_eq!(kept[1]["headers"], json!({"X-A": "1", "X-B": "two words"}));
    // One that is back is found again, by the client that lost it.
    nats.process.kill();
    let nats = RunningNats::start_on(&scratch, nats.address);
    assert_eq!(ask(&server, "nats_once"), "MAIL");
    assert_eq!(nats.read("MAIL").last().expect("one")["subject"], "mail.later");
    server.stop();
}

#[test]
fn logins_are_those_given() {
    let scratch = Scratch::new();
    let nats = RunningNats::start_for(&scratch, "me", "s3cret");
    let server = launch(&scratch, &Away::new()).env("NATS", nats.address.to_string()).start();
    holds(&server, "nats_login");
    server.stop();
}

#[test]
fn certificates_are_verified() {
    let scratch = Scratch::new();
    let authority = Authority::make(&scratch);
    let nats = RunningNats::start_tls(&scratch, &authority.issue(&scratch, &["localhost"]));
    let launch = launch(&scratch, &Away::new()).env("NATS", nats.address.to_string());
    let server = launch.env("NATS_CA", &authority.own.certificate).start();
    holds(&server, "nats_tls");
    server.stop();
}
