//! Compressed bodies, over real sockets: requests are read as what is in them and bounded by it, answers are for who takes them.

mod support;

use config::HttpListener;
use engine::Engine;
use engine::pressure::Pressure;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::{GzEncoder, ZlibEncoder};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::Duration;
use support::{ask, engine, serve};

const INJECT: &str = "POST /api/inject/v1";
const BULK: &str = "POST /api/inject/bulk/v1";
const LIMIT: u64 = 100_000;

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).expect("into memory");
    encoder.finish().expect("into memory")
}

fn deflate(text: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).expect("into memory");
    encoder.finish().expect("into memory")
}

fn request(user: &str) -> Vec<u8> {
    let request = format!(
        r#"{{"envelope_sender": "a@from.test", "recipients": [{{"email": "{user}@to.test"}}], "content": "Subject: x\r\n\r\nx"}}"#
    );
    request.into_bytes()
}

/// An engine, and where it listens.
async fn started() -> (Engine, SocketAddr, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("scratch");
    let engine = engine(dir.path(), Pressure::unlimited());
    let options = HttpListener { request_body_limit: Some(LIMIT), ..HttpListener::default() };
    let server = serve(&engine, &options).await;
    (engine, server, dir)
}

async fn json(server: SocketAddr, request: &str, fields: &str, body: &[u8]) -> String {
    let fields = format!("Content-Type: application/json\r\n{fields}");
    String::from_utf8(ask(server, request, &fields, body).await).expect("text")
}

async fn lines(server: SocketAddr, fields: &str, body: &[u8]) -> String {
    let fields = format!("Content-Type: application/x-ndjson\r\n{fields}");
    String::from_utf8(ask(server, BULK, &fields, body).await).expect("text")
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_read_as_what_is_in_them() {
    let (engine, server, _dir) = started().await;
    let plain = request("ann");
    for (coding, body) in [
        ("identity", plain.clone()),
        ("gzip", gzip(&plain)),
        ("x-gzip", gzip(&plain)),
        ("deflate", deflate(&plain)),
        ("gzip", [gzip(&plain[..10]), gzip(&plain[10..])].concat()),
    ] {
        let answer = json(server, INJECT, &format!("Content-Encoding: {coding}\r\n"), &body).await;
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("\"success_count\":1"), "{coding}: {answer}");
    }
    let order = gzip(br#"{"domain": "to.test", "reason": "a test", "duration": "1h"}"#);
    let answer = json(server, "POST /api/admin/suspend/v1", "Content-Encoding: gzip\r\n", &order).await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("\"id\":"), "{answer}");
    engine.drain(Duration::from_secs(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_of_what_is_in_a_request() {
    let (engine, server, _dir) = started().await;
    let plain = request("ann");
    let key = "Idempotency-Key: once\r\n";
    let first = json(server, INJECT, key, &plain).await;
    assert!(first.contains("\"success_count\":1") && !first.contains("idempotency-replayed"), "{first}");
    for (coding, body) in [("gzip", gzip(&plain)), ("deflate", deflate(&plain)), ("identity", plain)] {
        let answer = json(server, INJECT, &format!("{key}Content-Encoding: {coding}\r\n"), &body).await;
        assert!(answer.contains("\r\nidempotency-replayed: true\r\n"), "{coding}: {answer}");
    }
    let other = json(server, INJECT, &format!("{key}Content-Encoding: gzip\r\n"), &gzip(&request("bob"))).await;
    assert!(other.starts_with("HTTP/1.1 409 "), "{other}");
    engine.drain(Duration::from_secs(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_is_as_long_as_what_is_in_it() {
    let (engine, server, _dir) = started().await;
    let padded = |octets: usize| {
        let mut body = request("ann");
        body.resize(octets, b' ');
        gzip(&body)
    };
    let gzipped = "Content-Encoding: gzip\r\n";
    let limit = LIMIT as usize;
    assert!(padded(64 << 20).len() < limit, "compressed it would pass");
    for (octets, expected) in [(limit, "200"), (limit + 1, "413"), (64 << 20, "413")] {
        let answer = json(server, INJECT, gzipped, &padded(octets)).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {expected} ")), "{octets}: {answer}");
    }
    // Of a stream, a line.
    let bomb = [&request("ann")[..], b"\n", &vec![b' '; 8 << 20], b"x\n", &request("bob")].concat();
    let answer = lines(server, gzipped, &gzip(&bomb)).await;
    for told in ["{\"line\":1,\"success_count\":1", "{\"line\":2,\"status\":413", "{\"line\":3,\"success_count\":1"] {
        assert!(answer.contains(told), "{told}: {answer}");
    }
    engine.drain(Duration::from_secs(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_is_told_and_codings_that_are_not_known() {
    let (engine, server, _dir) = started().await;
    let (plain, gzipped) = (request("ann"), "Content-Encoding: gzip\r\n");
    let whole = gzip(&plain);
    let mut sum = whole.clone();
    *sum.last_mut().expect("octets") ^= 1;
    for (body, told) in [
        (&whole[..whole.len() - 1], "no sound gzip: it ends too early"),
        (&whole[..20], "no sound gzip: it ends too early"),
        (b"", "no sound gzip: it ends too early"),
        (&plain, "no sound gzip: it does not begin as gzip begins"),
        (&sum, "no sound gzip: its checksum is another"),
    ] {
        let answer = json(server, INJECT, gzipped, body).await;
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains(told), "{told}: {answer}");
    }
    for coding in ["br", "zstd", "gzip, gzip"] {
        let answer = json(server, INJECT, &format!("Content-Encoding: {coding}\r\n"), &plain).await;
        assert!(answer.starts_with("HTTP/1.1 415 "), "{coding}: {answer}");
        assert!(answer.contains("\r\naccept-encoding: gzip, deflate, identity\r\n"), "{coding}: {answer}");
        assert!(answer.contains("expected one of gzip, deflate, identity"), "{coding}: {answer}");
    }
    // Of a stream, what came before it is done.
    let two = [&request("bob")[..], b"\n", &request("cid"), b"\n"].concat();
    let whole = gzip(&two);
    let answer = lines(server, gzipped, &whole).await;
    assert!(answer.contains("{\"line\":2,\"success_count\":1") && !answer.contains("\"status\""), "{answer}");
    let answer = lines(server, gzipped, &whole[..whole.len() - 1]).await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("{\"line\":2,\"success_count\":1"), "{answer}");
    assert!(answer.contains("{\"line\":3,\"status\":400") && answer.contains("\"end\":true}"), "{answer}");
    assert!(lines(server, "Content-Encoding: br\r\n", &two).await.starts_with("HTTP/1.1 415 "));
    engine.drain(Duration::from_secs(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_compressed_for_who_takes_that() {
    let (engine, server, _dir) = started().await;
    let document = "GET /console/orders.js";
    let plain = String::from_utf8(ask(server, document, "", b"").await).expect("text");
    let (head, plain) = plain.split_once("\r\n\r\n").expect("a body");
    assert!(!head.contains("content-encoding") && head.contains("\r\nvary: accept-encoding"), "{head}");
    let answer = ask(server, document, "Accept-Encoding: deflate, gzip, br\r\n", b"").await;
    let at = answer.windows(4).position(|found| found == b"\r\n\r\n").expect("a body");
    let head = String::from_utf8_lossy(&answer[..at]).into_owned();
    assert!(head.contains("\r\ncontent-encoding: gzip") && head.contains("\r\nvary: accept-encoding"), "{head}");
    let body = unchunked(&answer[at + 4..]);
    let mut text = String::new();
    GzDecoder::new(&body[..]).read_to_string(&mut text).expect("gzip");
    assert!(text == plain && body.len() * 2 < text.len(), "{} of {} octets", body.len(), text.len());
    let for_anybody = ask(server, "GET /api-docs/openapi.json", "Accept-Encoding: gzip\r\n", b"").await;
    assert!(for_anybody.ends_with(b"}"), "strangers do not have it compressed again and again");
    let small = ask(server, "GET /api/check-liveness/v1", "Accept-Encoding: gzip\r\n", b"").await;
    assert!(small.ends_with(b"\r\n\r\nOK"));
    let stream = lines(server, "Accept-Encoding: gzip\r\n", &request("ann")).await;
    assert!(stream.contains("{\"line\":1,\"success_count\":1"), "{stream}");
    engine.drain(Duration::from_secs(1)).await;
}

/// The octets in the chunks of a body.
fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(at) = rest.windows(2).position(|found| found == b"\r\n") {
        let size = std::str::from_utf8(&rest[..at]).ok().and_then(|size| usize::from_str_radix(size, 16).ok());
        let size = size.expect("a size");
        whole.extend_from_slice(&rest[at + 2..at + 2 + size]);
        rest = &rest[at + 4 + size..];
    }
    whole
}
