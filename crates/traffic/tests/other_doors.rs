//! The generator's other two ways in: STARTTLS, and injection over HTTP. The peers are small and made here.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use clap::Parser as _;
use rustls::ServerConfig;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use traffic::smtp_sink;
use traffic::traffic_gen::{self, Report};

async fn generate(arguments: &[&str]) -> Report {
    let arguments = ["traffic-gen", "--quiet"].into_iter().chain(arguments.iter().copied());
    let options = traffic_gen::Options::try_parse_from(arguments).expect("arguments");
    let plan = options.into_plan().expect("plan");
    traffic_gen::generate(plan, std::future::pending()).await.expect("run")
}

fn acceptor() -> TlsAcceptor {
    let made = rcgen::generate_simple_self_signed(vec!["made.up.test".to_owned()]).expect("certificate");
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .expect("certificate");
    TlsAcceptor::from(Arc::new(config))
}

/// Speaks as far as STARTTLS, upgrades, and leaves the rest to a sink.
async fn tls_front(mut client: TcpStream, acceptor: TlsAcceptor, sink: SocketAddr) -> std::io::Result<()> {
    let mut client_lines = BufReader::new(&mut client);
    let mut line = String::new();
    client_lines.write_all(b"220 front\r\n").await?;
    client_lines.read_line(&mut line).await?;
    client_lines.write_all(b"250-front\r\n250 STARTTLS\r\n").await?;
    line.clear();
    client_lines.read_line(&mut line).await?;
    assert_eq!(line, "STARTTLS\r\n");
    client_lines.write_all(b"220 go\r\n").await?;
    let mut client = acceptor.accept(client).await?;
    let mut sink = BufReader::new(TcpStream::connect(sink).await?);
    sink.read_line(&mut line).await?;
    tokio::io::copy_bidirectional(&mut client, &mut sink).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_through_tls_arrive_whole() {
    let folder = tempfile::tempdir().expect("scratch folder");
    let ledger = folder.path().join("received");
    let path = ledger.to_str().expect("UTF-8 path");
    let options = smtp_sink::Options::try_parse_from(["smtp-sink", "--ledger", path]).expect("arguments");
    let listener = smtp_sink::bind("127.0.0.1:0".parse().expect("address")).expect("bind");
    let sink = listener.local_addr().expect("address");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let served = tokio::spawn(smtp_sink::serve(listener, options, async {
        let _ = stopped.await;
    }));
    let front = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let target = front.local_addr().expect("address").to_string();
    let acceptor = acceptor();
    let fronts = tokio::spawn(async move {
        loop {
            let (client, _) = front.accept().await.expect("accept");
            tokio::spawn(tls_front(client, acceptor.clone(), sink));
        }
    });
    let report = generate(&[
        "--target",
        &target,
        "--starttls",
        "--message-count",
        "60",
        "--concurrency",
        "3",
        "--body-size",
        "100kb",
    ])
    .await;
    fronts.abort();
    stop.send(()).expect("the sink is still there");
    let count = served.await.expect("no panic").expect("sink");
    assert_eq!((report.counts.sent, report.counts.failed, report.counts.unknown), (60, 0, 0), "{report:?}");
    assert_eq!((count.received, count.damaged), (60, 0));
    let lines = std::fs::read_to_string(&ledger).expect("ledger");
    assert_eq!(lines.lines().filter(|line| line.contains("\tok\t")).count(), 60);

    let plain =
        generate(&["--target", &sink.to_string(), "--starttls", "--message-count", "1", "--concurrency", "1"]).await;
    assert_eq!(plain.counts.sent, 0);
}

/// Answers injection requests: the first recipient of each third request fails; keeps every request.
async fn injection_api(client: TcpStream, requests: Arc<Mutex<Vec<Value>>>) -> std::io::Result<()> {
    let mut client = BufReader::new(client);
    loop {
        let (mut length, mut head) = (0_usize, String::new());
        loop {
            let mut line = String::new();
            if client.read_line(&mut line).await? == 0 {
                return Ok(());
            }
            if let Some(value) = line.strip_prefix("Content-Length: ") {
                length = value.trim().parse().expect("length");
            }
            head += &line;
            if line == "\r\n" {
                break;
            }
        }
        assert!(head.starts_with("POST /api/inject/v1 HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("\r\nContent-Type: application/json\r\n") && head.contains("\r\nHost: 127.0.0.1:"));
        let mut body = vec![0; length];
        client.read_exact(&mut body).await?;
        let request: Value = serde_json::from_slice(&body).expect("JSON");
        let batch = request["recipients"].as_array().expect("recipients").len();
        let number = {
            let mut requests = requests.lock().expect("lock");
            requests.push(request);
            requests.len()
        };
        let failed = usize::from(number % 3 == 0);
        let answer = format!(
            "{{\"success_count\":{},\"fail_count\":{failed},\"failed_recipients\":[],\"errors\":[]}}",
            batch - failed
        );
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{answer}", answer.len());
        client.write_all(answer.as_bytes()).await?;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn injection_over_http() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let target = format!("http://{}", listener.local_addr().expect("address"));
    let requests = Arc::new(Mutex::new(Vec::new()));
    let for_server = Arc::clone(&requests);
    let server = tokio::spawn(async move {
        loop {
            let (client, _) = listener.accept().await.expect("accept");
            tokio::spawn(injection_api(client, Arc::clone(&for_server)));
        }
    });
    let folder = tempfile::tempdir().expect("scratch folder");
    let ledger = folder.path().join("sent");
    let path = ledger.to_str().expect("UTF-8 path");
    let report = generate(&[
        "--http",
        "--target",
        &target,
        "--message-count",
        "95",
        "--http-batch-size",
        "10",
        "--concurrency",
        "1",
        "--http-defer-spool",
        "--body-size",
        "10kb",
        "--ledger",
        path,
        "--header",
        "Subject: \"quoted\"",
    ])
    .await;
    server.abort();
    let requests = requests.lock().expect("lock");
    assert_eq!(requests.len(), 10);
    assert_eq!((report.counts.sent, report.counts.failed, report.counts.connections), (92, 3, 1));
    let acknowledged = std::fs::read_to_string(&ledger).expect("ledger");
    assert_eq!(acknowledged.lines().count(), 92);
    assert_eq!(requests[9]["recipients"].as_array().map(Vec::len), Some(5));
    for request in requests.iter() {
        assert_eq!(request["deferred_spool"], true);
        assert_eq!(request.get("deferred_generation"), None);
        let content = request["content"].as_str().expect("content");
        let (header, body) = content.split_once("\r\n\r\n").expect("a header block");
        let field = |name: &str| header.lines().find_map(|line| line.strip_prefix(name)).expect("a field").to_owned();
        assert_eq!(field("X-Postrider-Check: "), format!("{:08x}", crc32fast::hash(body.as_bytes())));
        assert!(acknowledged.contains(&field("X-Postrider-Id: ")));
        assert_eq!(field("Subject: "), "\"quoted\"");
        let recipient = request["recipients"][0]["email"].as_str().expect("email");
        assert_eq!(field("To: "), format!("<{recipient}>"));
        assert!(recipient.ends_with(".mx-sink.test"));
        assert!(content.len().abs_diff(10_240) < 40);
    }
}
