//! `kumo.http`, against Python's web server and its websockets library.

use e2e::certificate::Authority;
use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::scratch::Scratch;
use e2e::web_server::WebServer;
use e2e::wire::Client;
use std::path::Path;

/// A server with the script, which asks `web` and says what is not as it should be.
fn start(scratch: &Scratch, scheme: [&str; 2], hosts: [String; 2], trusted: Option<&Path>) -> Kumod {
    let [http, websocket] = [0, 1].map(|n| format!("{}://{}", scheme[n], hosts[n]));
    let launch = Launch::policy(policy_file("http.lua"))
        .env("HTTP_DIR", scratch.join("http"))
        .env("HTTP_BASE", http)
        .env("WEBSOCKET_BASE", websocket);
    match trusted {
        Some(roots) => launch.env("SSL_CERT_FILE", roots).start(),
        None => launch.start(),
    }
}

fn holds(server: &Kumod, act: &str) {
    let mut client = Client::connect(server.smtp());
    client.expect("EHLO client.test", 250);
    let reply = client.say(&format!("MAIL FROM:<{act}@a.test>"));
    assert_eq!((reply.code, reply.text().as_str()), (450, "as it should be"), "{act}");
}

#[test]
fn scripts_ask_other_servers() {
    let scratch = Scratch::new();
    let web = WebServer::start(None);
    let hosts = [web.http.to_string(), web.websocket.to_string()];
    let server = start(&scratch, ["http", "ws"], hosts, None);
    ["get", "bodies", "who", "answers", "trouble"].into_iter().for_each(|act| holds(&server, act));
    ["vault", "elsewhere", "shaping"].into_iter().for_each(|act| holds(&server, act));
    drop(web);
    holds(&server, "refused");
    server.stop();
}

#[test]
fn keys_that_sign_may_be_in_vault() {
    let scratch = Scratch::new();
    let web = WebServer::start(None);
    let file = scratch.join("dkim.toml");
    let text = "[base]\nvault_mount = 'secret'\nvault_path_prefix = 'mail'\nselector = 's1'\nheaders = ['From', 'Subject']\n\
                [domain.'a.test']\nalgo = 'ed25519'\n";
    std::fs::write(&file, text).expect("a file for the helper");
    let server = Launch::policy(policy_file("http.lua"))
        .env("HTTP_DIR", scratch.join("http"))
        .env("HTTP_BASE", format!("http://{}", web.http))
        .env("WEBSOCKET_BASE", format!("ws://{}", web.websocket))
        .env("HTTP_DKIM", file)
        .env("VAULT_ADDR", format!("http://{}", web.http))
        .env("VAULT_TOKEN", "t0ken")
        .start();
    holds(&server, "signed");
    server.stop();
}

#[test]
fn scripts_ask_before_the_program_serves() {
    let scratch = Scratch::new();
    let web = WebServer::start(None);
    let server = Launch::policy(policy_file("http.lua"))
        .env("HTTP_DIR", scratch.join("http"))
        .env("HTTP_EARLY", "1")
        .env("HTTP_BASE", format!("http://{}", web.http))
        .env("WEBSOCKET_BASE", format!("ws://{}", web.websocket))
        .start();
    holds(&server, "get");
    server.stop();
}

#[test]
fn scripts_read_websockets() {
    let scratch = Scratch::new();
    let web = WebServer::start(None);
    let server = start(&scratch, ["http", "ws"], [web.http.to_string(), web.websocket.to_string()], None);
    holds(&server, "websocket");
    server.stop();
}

#[test]
fn scripts_read_server_sent_events() {
    let scratch = Scratch::new();
    let web = WebServer::start(None);
    let server = start(&scratch, ["http", "ws"], [web.http.to_string(), web.websocket.to_string()], None);
    holds(&server, "events");
    server.stop();
}

#[test]
fn certificates_are_verified() {
    let scratch = Scratch::new();
    let authority = Authority::make(&scratch);
    let own = authority.issue(&scratch, &["localhost"]);
    let web = WebServer::start(Some(&own));
    let hosts = || [web.http, web.websocket].map(|address| format!("localhost:{}", address.port()));
    let trusting = start(&scratch, ["https", "wss"], hosts(), Some(&authority.own.certificate));
    ["get", "bodies", "websocket"].into_iter().for_each(|act| holds(&trusting, act));
    trusting.stop();
    let elsewhere = Scratch::new();
    let other = Authority::make(&elsewhere);
    let strict = start(&elsewhere, ["https", "wss"], hosts(), Some(&other.own.certificate));
    holds(&strict, "untrusted");
    strict.stop();
}
