//! HTTP as far as a benchmark needs it: a request, and the body of an answer of 200.
//!
//! HTTP/1.0 on purpose: the answer then comes in one piece and ends with the connection. In: an address, a path, what is to be sent.
//! Out: text.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};

/// Asks for `path`.
///
/// # Errors
/// Nobody answers, or not with 200.
pub fn get(address: SocketAddr, path: &str) -> anyhow::Result<String> {
    let mut stream = open(address)?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes())?;
    answer(stream)
}

/// Sends `body` to `path`. The answer is read meanwhile: who gets none of it read may stop reading too.
///
/// # Errors
/// Nobody answers, or not with 200.
pub fn post(address: SocketAddr, path: &str, media: &str, body: &str) -> anyhow::Result<String> {
    let stream = open(address)?;
    let mut out = stream.try_clone()?;
    let length = body.len();
    let head =
        format!("POST {path} HTTP/1.0\r\nHost: {address}\r\nContent-Type: {media}\r\nContent-Length: {length}\r\n\r\n");
    std::thread::scope(|threads| {
        let sent = threads.spawn(move || out.write_all(head.as_bytes()).and_then(|()| out.write_all(body.as_bytes())));
        let answer = answer(stream);
        let sent = sent.join().map_err(|_| anyhow!("the sending thread panicked"))?;
        // What was answered says more than that no more was taken.
        let answer = answer?;
        sent?;
        Ok(answer)
    })
}

fn open(address: SocketAddr) -> anyhow::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    Ok(stream)
}

/// All of it, without its header.
fn answer(stream: TcpStream) -> anyhow::Result<String> {
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    if answer.len() as u64 == ANSWER_BYTES_MAX {
        bail!("the answer is larger than {ANSWER_BYTES_MAX} octets");
    }
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").context("the answer has no end of its header")?;
    let status = head.lines().next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("200") {
        bail!("expected 200, got {status:?}: {}", body.chars().take(ERROR_CHARS).collect::<String>());
    }
    Ok(body.to_owned())
}

/// Longest silence of a daemon that is under full load.
const LIMIT: Duration = Duration::from_secs(10);
/// Octets of an answer; a relay with a few queues says some ten kilobytes, one with 50 000 destinations 25 million.
const ANSWER_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Characters of a refusal that are told.
const ERROR_CHARS: usize = 300;

/// A server of one request, which must begin so.
#[cfg(test)]
pub(crate) fn answering(begins: &'static str, answer: String) -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let mut request = [0; 512];
        let length = stream.read(&mut request).expect("a request");
        let request = &request[..length];
        assert!(request.starts_with(begins.as_bytes()) && request.ends_with(b"\r\n\r\n"));
        stream.write_all(answer.as_bytes()).expect("answered");
    });
    address
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader};
    use std::net::TcpListener;

    #[test]
    fn an_answer_larger_than_any_buffer_is_read_while_the_request_is_sent() {
        const LARGE: usize = 32 << 20;
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let address = listener.local_addr().expect("bound");
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            // All of it is answered before anything of the request is read.
            let answer = format!("HTTP/1.0 200 OK\r\n\r\n{}", "a".repeat(LARGE));
            stream.write_all(answer.as_bytes()).expect("answered");
            let mut request = BufReader::new(stream);
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                assert!(request.read_line(&mut head).expect("a header") > 0, "{head}");
            }
            assert!(
                head.starts_with("POST /x HTTP/1.0\r\n") && head.contains(&format!("\r\nContent-Length: {LARGE}\r\n"))
            );
            request.read_exact(&mut vec![0; LARGE]).expect("a body");
        });
        let answer = post(address, "/x", "text/plain", &"b".repeat(LARGE)).expect("200");
        assert_eq!(answer.len(), LARGE);
    }

    #[test]
    fn a_refusal_is_told_with_its_words() {
        let address = answering("GET /x HTTP/1.0\r\n", "HTTP/1.0 422 Unprocessable\r\n\r\ninvalid by".to_owned());
        let error = get(address, "/x").expect_err("refused").to_string();
        assert!(error.contains("422") && error.ends_with("invalid by"), "{error}");
    }
}
