//! Requests to the HTTP listener, and a number out of a metrics page.

use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Status and body of `GET path`; `None` when nobody answers.
pub fn try_get(server: SocketAddr, path: &str) -> Option<(u16, String)> {
    exchange(server, format!("GET {path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n").as_bytes())
}

/// Status and body of a request that carries a body of this type.
pub fn send(server: SocketAddr, method: &str, path: &str, content_type: &str, body: &str) -> (u16, String) {
    send_octets(server, method, path, content_type, body.as_bytes())
}

/// The same with a body that is no text.
pub fn send_octets(server: SocketAddr, method: &str, path: &str, content_type: &str, body: &[u8]) -> (u16, String) {
    send_with(server, method, path, &[("Content-Type", content_type)], body)
}

/// The same with these header fields.
pub fn send_with(server: SocketAddr, method: &str, path: &str, fields: &[(&str, &str)], body: &[u8]) -> (u16, String) {
    let length = body.len();
    let mut head =
        format!("{method} {path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\nContent-Length: {length}\r\n");
    fields.iter().for_each(|(name, value)| head.extend([name, ": ", value, "\r\n"]));
    let request = [head.as_bytes(), b"\r\n", body].concat();
    exchange(server, &request).unwrap_or_else(|| panic!("no answer to {method} http://{server}{path}"))
}

/// The JSON that answers a JSON body with 200.
pub fn json(server: SocketAddr, method: &str, path: &str, body: &Value) -> Value {
    let (status, text) = send(server, method, path, "application/json", &body.to_string());
    assert_eq!(status, 200, "{method} {path} {body}: {text}");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{method} {path}: {error}: {text}"))
}

fn exchange(server: SocketAddr, request: &[u8]) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(server).ok()?;
    stream.set_read_timeout(Some(READ_TIMEOUT)).ok()?;
    stream.write_all(request).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, body.to_owned()))
}

/// Status and body of `GET path`.
pub fn get(server: SocketAddr, path: &str) -> (u16, String) {
    try_get(server, path).unwrap_or_else(|| panic!("no answer from http://{server}{path}"))
}

/// The value of a series such as `ready_count` or `total_messages_received{service="esmtp_listener"}` in a metrics page.
pub fn value(page: &str, series: &str) -> Option<f64> {
    page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.trim().parse().ok())
}

const READ_TIMEOUT: Duration = Duration::from_secs(10);
