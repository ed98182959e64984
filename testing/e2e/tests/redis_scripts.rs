//! `require 'redis'`, against a real server.

use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::redis::RunningRedis;
use e2e::scratch::Scratch;
use e2e::wire::Client;

fn ask(server: &Kumod, act: &str) -> (u16, String) {
    let mut client = Client::connect(server.smtp());
    client.expect("EHLO client.test", 250);
    let reply = client.say(&format!("MAIL FROM:<{act}@a.test>"));
    (reply.code, reply.text())
}

#[test]
fn scripts_talk_to_redis() {
    let scratch = Scratch::new();
    let mut redis = RunningRedis::start(&scratch);
    let address = redis.address;
    let server = Launch::policy(policy_file("redis.lua"))
        .env("REDIS_DIR", scratch.join("redis"))
        .env("REDIS_NODE", format!("redis://{address}"))
        .start();
    for (act, says) in
        [("count", "1"), ("count", "2"), ("keep", "OK 3 nil"), ("list", "one,2,2.5"), ("script", "1 two 3")]
    {
        assert_eq!(ask(&server, act), (450, says.to_owned()), "{act}");
    }
    let (_, wrong) = ask(&server, "wrong");
    assert!(wrong.starts_with("false") && wrong.contains("redis_conn:query") && wrong.contains("NOSUCH"), "{wrong}");
    let (_, bad) = ask(&server, "bad");
    assert!(bad.contains("argument 3: a table: expected a string, a number or a boolean"), "{bad}");
    // A server that went away is an error in the script, and one that is back is found again.
    redis.process.kill();
    assert_eq!(ask(&server, "count").0, 421);
    let _again = RunningRedis::start_on(&scratch, address);
    assert_eq!(ask(&server, "count"), (450, "1".to_owned()));
    server.stop();
}
