//! Traces against a small websocket server: what is asked of it, what is shown of what it says, how a trace ends.

mod support;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use support::run_at;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};

/// A server that takes one connection, hears one frame and says `events`.
struct Socket {
    address: SocketAddr,
    /// Path and `Authorization` of the request.
    opened: Arc<Mutex<(String, Option<String>)>>,
    heard: JoinHandle<Value>,
}

/// `stays`: the server waits for the client to go, instead of going itself.
fn socket(events: Vec<Value>, stays: bool) -> Socket {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    listener.set_nonblocking(true).expect("for the runtime");
    let opened = Arc::new(Mutex::new((String::new(), None)));
    let ours = opened.clone();
    let heard = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("listens");
            let (stream, _) = listener.accept().await.expect("accepts");
            #[allow(clippy::result_large_err, reason = "the library's own form of a callback")]
            let note = move |request: &Request, response: Response| {
                let authorization =
                    request.headers().get("authorization").map(|value| value.to_str().expect("text").to_owned());
                *ours.lock().expect("no panic there") = (request.uri().to_string(), authorization);
                Ok(response)
            };
            let mut stream = tokio_tungstenite::accept_hdr_async(stream, note).await.expect("opens");
            let first = stream.next().await.expect("a frame").expect("whole");
            for event in events {
                stream.send(Message::text(event.to_string())).await.expect("takes it");
            }
            if !stays {
                stream.close(None).await.expect("closes");
            }
            while let Some(Ok(_)) = stream.next().await {}
            serde_json::from_slice(&first.into_data()).expect("JSON")
        })
    });
    Socket { address, opened, heard }
}

fn event(session: &str, second: u32, payload: Value) -> Value {
    json!({"conn_meta": {"received_from": session}, "payload": payload, "when": format!("2026-11-24T22:00:{second:02}Z")})
}

#[test]
fn a_server_s_sessions_are_shown_until_it_ends_the_trace() {
    let events = vec![
        event("192.0.2.1:9", 0, json!("Connected")),
        event("192.0.2.1:9", 1, json!({"Write": "220 hello\r\n"})),
        event("192.0.2.1:9", 2, json!({"Read": "QUIT\r\n"})),
    ];
    let socket = socket(events, false);
    let endpoint = format!("http://admin:s3cret@{}", socket.address);
    let ran = run_at(&endpoint, &["trace-smtp-server", "--source", "192.0.2.0/24", "--source", "::1", "--terse"]);
    assert_eq!(
        ran.out,
        "[192.0.2.1:9] +0.000s == Connected\n[192.0.2.1:9] +1.000s -> 220 hello\n[192.0.2.1:9] +2.000s <- QUIT\n"
    );
    assert!(ran.notes.contains("Ctrl-C"), "{ran:?}");
    assert_eq!(ran.failed(), "the server ended the trace");
    let opened = socket.opened.lock().expect("no panic there").clone();
    assert_eq!(opened, ("/api/admin/trace-smtp-server/v1".to_owned(), Some("Basic YWRtaW46czNjcmV0".to_owned())));
    assert_eq!(socket.heard.join().expect("ended"), json!({"source_addr": ["192.0.2.0/24", "::1"], "terse": true}));
}

#[test]
fn only_one_new_session_is_shown_and_ends_the_trace() {
    let events = vec![
        event("a", 0, json!({"Read": "old\r\n"})),
        event("b", 0, json!("BeginSession")),
        event("a", 1, json!("Closed")),
        event("b", 1, json!("Closed")),
        event("c", 2, json!("BeginSession")),
    ];
    let wanted: String = [&events[1], &events[3]].iter().map(|event| format!("{event}\n")).collect();
    let socket = socket(events, true);
    let words = ["trace-smtp-client", "--only-one", "--only-new", "--json", "--tenant", "t", "--color", "yes"];
    let ran = run_at(&format!("http://{}", socket.address), &words);
    assert_eq!((ran.code, &ran.notes), (0, &String::new()), "{ran:?}");
    assert_eq!(ran.good(), wanted);
    let asked = socket.heard.join().expect("ended");
    assert_eq!((&asked["tenant"], &asked["domain"], &asked["mx_addr"]), (&json!(["t"]), &json!([]), &Value::Null));
}

#[test]
fn a_server_without_traces_is_named() {
    let server = support::Fixture::new(&[("GET /api/admin/trace-smtp-client/v1", 404, json!(""))]);
    let error = server.run(&["trace-smtp-client"]).failed();
    assert!(
        error.contains("cannot listen at ws://") && error.contains("trace-smtp-client") && error.contains("404"),
        "{error}"
    );
}
