//! A listener that changes and ends while clients are there.

mod support;

use admin::{Change, HttpService};
use config::{CidrSet, HttpListener};
use engine::Engine;
use engine::pressure::Pressure;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

fn options(request_body_limit: u64, use_tls: bool) -> HttpListener {
    HttpListener { request_body_limit: Some(request_body_limit), use_tls, ..HttpListener::default() }
}

/// A listener, what changes it, and what ends it when it is gone.
async fn serve(engine: &Engine) -> (SocketAddr, Change, oneshot::Sender<()>) {
    let socket = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let address = socket.local_addr().expect("bound");
    let service = HttpService::new(engine.clone(), &options(10, false)).expect("sound");
    let change = service.current().change();
    let (open, closed) = oneshot::channel::<()>();
    tokio::spawn(service.serve(socket, async move { _ = closed.await }));
    (address, change, open)
}

/// A client that is accepted, and says nothing.
async fn accepted(address: SocketAddr) -> TcpStream {
    let mute = TcpStream::connect(address).await.expect("listening");
    // In order: who came later has had an answer.
    support::ask(address, "GET /api/check-liveness/v1", "", b"").await;
    mute
}

/// The answer to 20 octets that are no JSON.
async fn inject(client: &mut TcpStream) -> String {
    let request =
        "POST /api/inject/v1 HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 20\r\n\r\n";
    client.write_all(&[request.as_bytes(), &[b'x'; 20]].concat()).await.expect("writes");
    let mut answer = String::new();
    while !answer.contains("\r\n\r\n") {
        let mut octets = [0; 4096];
        let read = client.read(&mut octets).await.expect("an answer");
        assert!(read > 0, "no answer");
        answer += std::str::from_utf8(&octets[..read]).expect("text");
    }
    answer
}

/// It is closed from the other end, soon.
async fn assert_ends(client: &mut TcpStream) {
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(20), client.read_to_end(&mut rest)).await;
    assert!(matches!(ended, Ok(Ok(0))), "{ended:?} {rest:?}");
}

#[tokio::test]
async fn who_is_connected_meets_the_new_options() {
    let dir = tempfile::tempdir().expect("scratch");
    let engine = support::engine(dir.path(), Pressure::unlimited());
    let (address, change, _open) = serve(&engine).await;
    let (mut mute, mut other) = (accepted(address).await, accepted(address).await);
    assert!(inject(&mut other).await.starts_with("HTTP/1.1 413"));
    let become_now = |options| change.to(HttpService::new(engine.clone(), &options).expect("sound").current());
    become_now(options(1000, false));
    for _ in 0..2 {
        let answer = inject(&mut mute).await;
        assert!(answer.starts_with("HTTP/1.1 400") && !answer.contains("connection: close"), "{answer}");
    }
    // Trusted no more.
    let trusted_hosts = CidrSet::parse(["192.0.2.1"]).expect("sound");
    become_now(HttpListener { trusted_hosts, ..options(1000, false) });
    assert!(inject(&mut mute).await.starts_with("HTTP/1.1 401"));
}

#[tokio::test]
async fn nobody_is_served_in_clear_by_what_is_for_tls_now() {
    let dir = tempfile::tempdir().expect("scratch");
    let engine = support::engine(dir.path(), Pressure::unlimited());
    let (address, change, _open) = serve(&engine).await;
    let mut early = accepted(address).await;
    change.to(HttpService::new(engine.clone(), &options(1000, true)).expect("sound").current());
    let answer = inject(&mut early).await;
    assert!(answer.starts_with("HTTP/1.1 421") && answer.contains("connection: close"), "{answer}");
    assert_ends(&mut early).await;
    // Who comes now has a handshake.
    let mut late = TcpStream::connect(address).await.expect("listening");
    late.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("writes");
    let mut alert = Vec::new();
    late.read_to_end(&mut alert).await.expect("an end");
    assert!(!alert.starts_with(b"HTTP"), "{alert:?}");
}

#[tokio::test]
async fn who_is_connected_when_it_ends_has_time_to_ask() {
    let dir = tempfile::tempdir().expect("scratch");
    let engine = support::engine(dir.path(), Pressure::unlimited());
    let (address, _, open) = serve(&engine).await;
    let (mut mute, mut silent) = (accepted(address).await, accepted(address).await);
    drop(open);
    while TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    let answer = inject(&mut mute).await;
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("connection: close"), "{answer}");
    assert_ends(&mut silent).await;
}
