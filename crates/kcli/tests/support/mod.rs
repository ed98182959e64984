//! A server of canned answers, and the command line run against it.
//!
//! It answers whatever is asked by method and path, and remembers what was asked. It shares no code with kcli.

#![allow(dead_code, reason = "each test program uses its part")]

use serde_json::Value;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A request as it came.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// Method and target: `GET /metrics.json`.
    pub line: String,
    /// `Authorization`, if it was there.
    pub authorization: Option<String>,
    pub body: String,
}

/// The server; its thread ends with the test program.
pub struct Fixture {
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

/// What came of a command line.
#[derive(Debug)]
pub struct Ran {
    pub code: u8,
    pub out: String,
    pub notes: String,
    /// What the caller would print, and exit with 1.
    pub error: Option<String>,
}

impl Fixture {
    /// `answers`: method and beginning of the target, status, body. The first that fits answers; 404 without a word otherwise.
    pub fn new(answers: &[(&str, u16, Value)]) -> Fixture {
        let answers: Vec<(String, u16, String)> = answers
            .iter()
            .map(|(at, status, body)| {
                let text = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
                ((*at).to_owned(), *status, text)
            })
            .collect();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let ours = asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                serve(stream, &answers, &ours);
            }
        });
        Fixture { address, asked }
    }

    /// What was asked so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("no panic there").clone()
    }

    /// The last thing that was asked, with its body as JSON.
    pub fn last(&self) -> (String, Value) {
        let asked = self.asked().pop().expect("something was asked");
        (asked.line, serde_json::from_str(&asked.body).unwrap_or_default())
    }

    /// `kcli --endpoint HERE WORDS`.
    pub fn run(&self, words: &[&str]) -> Ran {
        run_at(&format!("http://{}", self.address), words)
    }
}

/// `kcli WORDS` with the endpoint from the environment.
pub fn run_at(endpoint: &str, words: &[&str]) -> Ran {
    let words = core::iter::once("kcli").chain(words.iter().copied());
    let (mut out, mut notes) = (Vec::new(), Vec::new());
    let done = kcli::run_to(words.map(OsString::from).collect(), Some(endpoint.to_owned()), &mut out, &mut notes);
    let [out, notes] = [out, notes].map(|text| String::from_utf8(text).expect("text"));
    match done {
        Ok(code) => Ran { code, out, notes, error: None },
        Err(error) => Ran { code: 1, out, notes, error: Some(format!("{error:#}")) },
    }
}

impl Ran {
    /// What it wrote; it must have gone well.
    pub fn good(self) -> String {
        assert!(self.code == 0 && self.error.is_none(), "{self:?}");
        self.out
    }

    /// Why it did not go well.
    pub fn failed(self) -> String {
        match self {
            Ran { error: Some(error), .. } => error,
            Ran { code, notes, .. } => {
                assert_ne!(code, 0, "{notes}");
                notes
            }
        }
    }
}

fn serve(stream: TcpStream, answers: &[(String, u16, String)], asked: &Mutex<Vec<Asked>>) {
    let mut reader = BufReader::new(stream);
    let (mut head, mut request, mut length) = (String::new(), Asked::default(), 0);
    while reader.read_line(&mut head).is_ok_and(|count| count > 2) {
        let line = head.trim_end().to_owned();
        match line.split_once(": ") {
            None => request.line = line.trim_end_matches(" HTTP/1.1").to_owned(),
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse().expect("a number")
            }
            Some((name, value)) if name.eq_ignore_ascii_case("authorization") => {
                request.authorization = Some(value.into())
            }
            Some(_) => {}
        }
        head.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("the body");
    request.body = String::from_utf8(body).expect("text");
    let found = answers.iter().find(|(at, ..)| request.line.starts_with(at.as_str()));
    let (status, text) = found.map_or((404, ""), |(_, status, text)| (*status, text));
    asked.lock().expect("no panic there").push(request);
    let length = text.len();
    let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}");
    // Who asked may have gone.
    let _ = reader.into_inner().write_all(answer.as_bytes());
}
