//! The HTTP face as a stranger and as a trusted peer meet it, over real sockets.

mod support;

use admin::HttpService;
use config::{HttpListener, KeySource};
use engine::Engine;
use engine::pressure::Pressure;
use std::net::SocketAddr;
use std::time::Duration;

async fn serve(engine: &Engine, trusted: &str) -> SocketAddr {
    let trusted_hosts = config::CidrSet::parse([trusted]).expect("sound");
    support::serve(engine, &HttpListener { trusted_hosts, ..HttpListener::default() }).await
}

async fn get(from: SocketAddr, path: &str, header: &str) -> String {
    let answer = support::ask(from, &format!("GET {path}"), header, b"").await;
    String::from_utf8(answer).expect("text")
}

#[tokio::test]
async fn metrics_are_for_trusted_hosts_and_liveness_for_all() {
    let dir = tempfile::tempdir().expect("scratch");
    let engine = support::engine(dir.path(), Pressure::unlimited());
    let (open, closed) = (serve(&engine, "127.0.0.1").await, serve(&engine, "192.0.2.1").await);
    engine.metrics().total_messages_received.with_label_values(&["esmtp_listener"]).inc();

    let text = get(open, "/metrics?prefix=total_messages", "").await;
    assert!(
        text.starts_with("HTTP/1.1 200") && text.contains("total_messages_received{service=\"esmtp_listener\"} 1"),
        "{text}"
    );
    assert!(
        get(open, "/metrics?prefx=total", "").await.starts_with("HTTP/1.1 400"),
        "an unknown parameter is an error"
    );
    for header in ["", "X-Forwarded-For: 192.0.2.1\r\n", "Forwarded: for=192.0.2.1\r\n", "X-Real-IP: 192.0.2.1\r\n"] {
        for path in ["/metrics", "//metrics", "/./metrics", "/%6detrics", "/METRICS", "/metrics/"] {
            let answer = get(closed, path, header).await;
            assert!(!answer.starts_with("HTTP/1.1 2") && !answer.contains("total_"), "{path} {header}: {answer}");
        }
    }
    for path in [
        "/console",
        "/console/app.js",
        "/api/admin/overview/v1",
        "/api/admin/config-changes/v1",
        "/api/admin/queues/v1?by=domain",
    ] {
        assert!(get(closed, path, "").await.starts_with("HTTP/1.1 401"), "{path}");
        assert!(get(open, path, "").await.starts_with("HTTP/1.1 200"), "{path}");
        assert!(
            get(open, path, "Accept-Language: en\r\n").await.starts_with("HTTP/1.1 421"),
            "a browser that calls us x"
        );
    }
    assert!(get(open, "/console/../access.rs", "").await.starts_with("HTTP/1.1 404"));
    let nowhere = get(closed, "/no/such/page", "").await;
    assert!(nowhere.starts_with("HTTP/1.1 404") && nowhere.contains("no such path: GET /"), "{nowhere}");
    let put = support::ask(closed, "PUT /metrics", "", b"").await;
    let put = String::from_utf8(put).expect("text").to_ascii_lowercase();
    let says = ["http/1.1 405", "\r\nallow: get,head\r\n", "put is not for this path"];
    assert!(says.iter().all(|part| put.contains(part)), "{put}");
    for probe in ["/api/check-liveness/v1", "/api/check-readiness/v1"] {
        assert!(get(closed, probe, "").await.starts_with("HTTP/1.1 200"), "{probe}");
    }
    engine.drain(Duration::from_secs(10)).await;
    assert!(!engine.is_serving());
}

#[test]
fn a_certificate_without_its_key_is_refused() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let dir = tempfile::tempdir().expect("scratch");
    runtime.block_on(async {
        let engine = support::engine(dir.path(), Pressure::unlimited());
        let certificate = Some(KeySource::Data(b"x".to_vec()));
        let options = HttpListener { use_tls: true, tls_certificate: certificate, ..HttpListener::default() };
        let Err(error) = HttpService::new(engine.clone(), &options) else { panic!("it is served") };
        let expected = "start_http_listener: tls_certificate and tls_private_key: expected both or neither";
        assert_eq!(error.to_string(), expected);
        engine.drain(Duration::from_secs(10)).await;
    });
}
