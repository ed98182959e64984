//! `kumo.dns.lookup_*` and `rbl_lookup` in handlers, answered by a real DNS server and by a resolver of the policy's own.

use e2e::dns::NameServer;
use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::scratch::Scratch;
use e2e::wire::Client;
use std::time::{Duration, Instant};

const ZONE: &str = "
1.2.0.192.in-addr.arpa. 60 PTR Host.own.test.
1.2.0.192.rbl.test. 60 A 127.0.0.2
1.2.0.192.rbl.test. 60 TXT \"listed for \" \"a reason\"
1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.rbl.test. 60 A 127.0.0.3
own.test. 60 MX 10 mx.own.test.
own.test. 60 TXT \"one\"
own.test. 60 TXT \"two\"
";

struct Setup {
    server: Kumod,
    _dns: NameServer,
    _scratch: Scratch,
}

impl Setup {
    fn new() -> Setup {
        let (scratch, dns) = (Scratch::new(), NameServer::start());
        std::fs::write(scratch.join("zone"), ZONE).expect("the zone");
        let server = Launch::policy(policy_file("lookups.lua"))
            .env("LOOKUPS_DIR", scratch.join("lookups"))
            .env("LOOKUPS_SERVER", dns.address.to_string())
            .env("LOOKUPS_ZONE", scratch.join("zone"))
            .start();
        Setup { server, _dns: dns, _scratch: scratch }
    }

    fn client(&self) -> Client {
        let mut client = Client::connect(self.server.smtp());
        client.expect("EHLO client.test", 250);
        client.expect("MAIL FROM:<a@b.test>", 250);
        client
    }
}

fn ask(client: &mut Client, question: &str) -> (u16, String) {
    let reply = client.say(&format!("RCPT TO:<{question}>"));
    (reply.code, reply.text())
}

#[test]
fn scripts_hear_what_dns_says() {
    let setup = Setup::new();
    // The first question is asked by a handler that holds its thread, later ones by handlers that wait; both twice.
    for _ in 0..2 {
        let mut client = setup.client();
        for (question, answer) in [
            ("addr@mx.loopback.test", "127.0.0.1"),
            ("addr@a.mx.two-prefs.test", "::1"),
            ("addr6@mx.v6.test", "2001:db8::25"),
            (
                "mx@implicit.test",
                "implicit.test. implicit.test. implicit.test. 1=implicit.test. false false false None",
            ),
            (
                "mx@loopback.test",
                "loopback.test. mx.loopback.test. mx.loopback.test. 10=mx.loopback.test. true false false None",
            ),
            ("mx-own@own.test", "own.test. mx.own.test. mx.own.test. 10=mx.own.test. true false false None"),
            ("txt@mx.no-address.test", "no address here"),
            ("txt-own@own.test", "one|two"),
            ("ptr@any.test", "host.own.test. and 0"),
            ("rbl@rbl.test", "127.0.0.2 listed for a reason nil nil 127.0.0.3 nil"),
        ] {
            let (code, text) = ask(&mut client, question);
            assert!(code == 550 && text.contains(answer), "{question}: {code} {text}");
        }
        for (question, why) in [
            ("mx@nx.test", "kumo.dns.lookup_mx: domain nx.test does not exist"),
            ("addr@nx.test", "kumo.dns.lookup_addr: nx.test: the name does not exist"),
            ("addr@no-address.test", "kumo.dns.lookup_addr: no-address.test: "),
            ("txt@nx.test", "kumo.dns.lookup_txt: nx.test: the name does not exist"),
            ("txt@servfail.test", "kumo.dns.lookup_txt: servfail.test: the DNS server failed"),
            ("nobody@own.test", "no resolver `nobody` is defined"),
        ] {
            let (code, text) = ask(&mut client, question);
            assert!(code == 450 && text.contains(why), "{question}: {code} {text}");
        }
    }
}

#[test]
fn a_question_without_an_answer_ends_in_time_and_holds_up_nobody() {
    let setup = Setup::new();
    let (mut stuck, mut other) = (setup.client(), setup.client());
    // From here on handlers wait without their thread.
    assert_eq!(ask(&mut other, "addr@implicit.test").0, 550);
    let begun = Instant::now();
    stuck.send("RCPT TO:<addr@timeout.test>\r\n");
    assert_eq!(ask(&mut other, "addr@mx.loopback.test").0, 550);
    assert!(begun.elapsed() < Duration::from_secs(2), "the other session waited too");
    let reply = stuck.reply();
    assert!(reply.code == 450 && reply.text().contains("no answer from DNS in time"), "{reply:?}");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}
