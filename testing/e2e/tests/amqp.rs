//! `kumo.amqp`, against Debian's RabbitMQ and, on the other side of it, pika.

use e2e::brokers::{Away, ask, holds, launch};
use e2e::certificate::Authority;
use e2e::rabbitmq::RunningRabbit;
use e2e::scratch::Scratch;
use serde_json::{Value, json};
use std::thread;

#[test]
fn scripts_publish_to_queues() {
    let scratch = Scratch::new();
    let authority = Authority::make(&scratch);
    let own = authority.issue(&scratch, &["localhost"]);
    let mut rabbit = RunningRabbit::start(&scratch, Some(&own));
    rabbit.declare("mail", None);
    rabbit.declare("full", Some(1));
    let away = Away::new();
    let server = launch(&scratch, &away)
        .env("AMQP_PORT", rabbit.address.port().to_string())
        .env("AMQP_TLS_PORT", rabbit.tls.expect("TLS").port().to_string())
        .env("AMQP_CA", &authority.own.certificate)
        .start();
    ["amqp_publish", "amqp_wrong", "amqp_login", "amqp_tls", "amqp_away"].iter().for_each(|act| holds(&server, act));
    let taken = rabbit.take("mail");
    assert_eq!(taken[0], a_message_with_all());
    let payloads: Vec<&Value> = taken[1..].iter().map(|message| &message["payload"]).collect();
    assert_eq!(payloads, [&json!("YWZ0ZXIgYWxsIHRoYXQ="), &json!("dGV4dA=="), &json!("aW4gc2VjcmV0")]);
    assert_eq!(rabbit.take("full").len(), 1);
    let crowd = thread::scope(|scope| {
        let two = [(); 2].map(|()| scope.spawn(|| ask(&server, "amqp_crowd")));
        let mut said = two.map(|one| one.join().expect("an answer"));
        said.sort();
        said
    });
    assert_eq!(crowd, ["no connection within 3s", "no free connection within 200ms"]);
    // Connections of a server that went away are not used again.
    rabbit.process.kill();
    rabbit.start_again();
    assert_eq!(ask(&server, "amqp_once"), "Ack");
    assert_eq!(rabbit.take("mail").len(), 1);
    server.stop();
}

#[test]
fn an_older_client_publishes() {
    let scratch = Scratch::new();
    let mut rabbit = RunningRabbit::start(&scratch, None);
    rabbit.declare("mail", None);
    rabbit.declare("full", Some(1));
    let server =
        launch(&scratch, &Away::new()).env("AMQP_PORT", rabbit.address.port().to_string()).env("AMQP_TOP", "1").start();
    ["client_publish", "client_close"].iter().for_each(|act| holds(&server, act));
    let payloads: Vec<Value> = rabbit.take("mail").into_iter().map(|message| message["payload"].clone()).collect();
    assert_eq!(payloads, ["ZnJvbSBpbml0", "YQD/", "aW4gdGltZQ==", "YWZ0ZXIgYWxsIHRoYXQ=", "dGhlIGxhc3Q="]);
    rabbit.process.kill();
    rabbit.start_again();
    assert_eq!(ask(&server, "client_once"), "Ack");
    server.stop();
}

/// `part` is a double, of which pika makes an integer.
fn a_message_with_all() -> Value {
    let headers = json!({"text": "ü", "whole": 7, "part": 2, "yes": true, "list": ["a", 1], "inner": {"b": "c"}});
    json!({
        "payload": "YQD/", "routing_key": "mail", "headers": headers, "app_id": "app", "cluster_id": "cluster",
        "content_encoding": "gzip", "content_type": "text/plain", "correlation_id": "question 1", "delivery_mode": 2,
        "expiration": "600000", "message_id": "id 1", "type": "kind", "priority": 3, "reply_to": "answers",
        "timestamp": 1_700_000_000, "user_id": "guest",
    })
}
