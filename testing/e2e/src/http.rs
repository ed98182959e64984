//! A GET, and a number out of a metrics page.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Status and body of `GET path`; `None` when nobody answers.
pub fn try_get(server: SocketAddr, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(server).ok()?;
    stream.set_read_timeout(Some(READ_TIMEOUT)).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n").ok()?;
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
