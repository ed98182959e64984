//! One batch on its way to a receiver, and what the receiver makes of it.
//!
//! Owns [`Poster`]. In: a batch that is complete. Out: taken, or why not and how long the receiver wants to be left alone. 2xx with
//! its whole answer is taken; everything else is not, redirections too: most would make a GET of it. The key is read for
//! each attempt, so that a changed file counts at once.

use crate::backoff::retry_after;
use crate::error::EventError;
use crate::signature::signature;
use config::{EventFormat, EventStream, HttpClientOptions, KeySource};
use net::tls::Connectors;
use std::fs::File;
use std::io::Read;
use std::time::Duration;
use time::OffsetDateTime;
use web::{Client, Content, Method, Request, WebError};

/// Asks one receiver.
pub(crate) struct Poster {
    client: Client,
    name: String,
    url: String,
    headers: Vec<(String, String)>,
    secret: Option<KeySource>,
    content_type: &'static str,
}

/// A batch as it is sent.
pub(crate) struct Parcel {
    /// Its id.
    pub id: String,
    /// The cursor behind it.
    pub cursor: String,
    /// Its records.
    pub body: Vec<u8>,
}

/// Why it was not taken.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// In words.
    pub why: String,
    /// How long the receiver wants to be left alone.
    pub retry_after: Option<Duration>,
}

impl Poster {
    /// As configured. Asks nobody.
    ///
    /// # Errors
    /// URL, header fields, key or TLS cannot be used.
    pub fn new(options: &EventStream, connectors: &Connectors) -> Result<Poster, EventError> {
        let asks = HttpClientOptions {
            user_agent: Some("postrider".to_owned()),
            timeout: options.timeout,
            ..HttpClientOptions::default()
        };
        let poster = Poster {
            client: Client::without_redirections(&asks, connectors)?,
            name: options.name.clone(),
            url: options.url.clone(),
            headers: options.headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
            secret: options.secret.clone(),
            content_type: match options.format {
                EventFormat::Json => "application/json",
                EventFormat::Ndjson => "application/x-ndjson",
            },
        };
        if let Some((name, _)) = poster.headers.iter().find(|(name, _)| is_ours(name)) {
            let why = "this one is set for each request: expected another".to_owned();
            return Err(EventError::Header { name: name.clone(), why });
        }
        poster.request(&Parcel { id: String::new(), cursor: String::new(), body: Vec::new() }, 0)?;
        Ok(poster)
    }

    /// Sends a batch once.
    ///
    /// # Errors
    /// It was not taken, or nobody can tell.
    pub async fn post(&self, parcel: &Parcel) -> Result<(), Refusal> {
        let now = OffsetDateTime::now_utc();
        let refused = |why: String| Refusal { why, retry_after: None };
        let request = self.request(parcel, now.unix_timestamp()).map_err(|error| refused(error.to_string()))?;
        let answer = self.client.send(request).await.map_err(|error| refused(error.to_string()))?;
        let status = answer.status;
        if !status.is_success() {
            let asked = answer.headers.get("retry-after").and_then(|field| field.to_str().ok());
            let retry_after = asked.and_then(|text| retry_after(text, now));
            return Err(Refusal { why: format!("it answered {status}"), retry_after });
        }
        // One that breaks off may be that of a receiver that died before it was done.
        answer.end().await.map_err(|error| refused(format!("{status}, but {error}")))
    }

    fn request(&self, parcel: &Parcel, now: i64) -> Result<Request, EventError> {
        let mut request = Request::new(Method::POST, &self.url).map_err(WebError::without_secrets)?;
        let timestamp = now.to_string();
        let fields = [
            ("content-type", self.content_type),
            (STREAM, &self.name),
            (BATCH_ID, &parcel.id),
            (CURSOR, &parcel.cursor),
            (TIMESTAMP, &timestamp),
        ];
        let given = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in fields.into_iter().chain(given) {
            request.add_header(name, value.as_bytes())?;
        }
        if let Some(secret) = &self.secret {
            let fields = [&*timestamp, &self.name, &parcel.id, &parcel.cursor];
            let signed = signature(&key(secret).map_err(EventError::Secret)?, fields, &parcel.body);
            request.add_header(SIGNATURE, signed.as_bytes())?;
        }
        request.content = Content::Octets(parcel.body.clone());
        Ok(request)
    }
}

/// Says what is wrong with the options of a stream, if anything is. Asks nobody.
///
/// # Errors
/// As the stream would fail when it is started.
pub fn check(options: &EventStream) -> Result<(), EventError> {
    let connectors = Connectors::new(None).map_err(web::WebError::from)?;
    let mut options = options.clone();
    // Where nothing runs, keys of Vault are not fetched.
    options.secret = options.secret.filter(|secret| matches!(secret, KeySource::File(_) | KeySource::Data(_)));
    Poster::new(&options, &connectors).map(|_| ())
}

/// The key of signatures.
fn key(secret: &KeySource) -> Result<Vec<u8>, String> {
    let octets = match secret {
        KeySource::Data(octets) => octets.clone(),
        KeySource::File(file) => {
            let mut read = Vec::new();
            let reading = File::open(file).and_then(|file| file.take(KEY_OCTETS_MAX + 1).read_to_end(&mut read));
            reading.map_err(|error| format!("cannot read `{file}`: {error}"))?;
            // Editors end a file with a line end; it is no part of the key.
            let end = read.strip_suffix(b"\n").map(|rest| rest.strip_suffix(b"\r").unwrap_or(rest));
            end.unwrap_or(&read).to_vec()
        }
        // Policy fetches what is elsewhere before it hands an option over.
        other => return Err(format!("{other:?} was not fetched")),
    };
    match octets.len() as u64 {
        0 => Err("it is empty".to_owned()),
        1..=KEY_OCTETS_MAX => Ok(octets),
        _ => Err(format!("more than {KEY_OCTETS_MAX} octets")),
    }
}

/// Fields that each request has anyway.
fn is_ours(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let of_http = ["content-type", "content-length", "transfer-encoding", "host", "connection"];
    of_http.contains(&name.as_str()) || [STREAM, BATCH_ID, CURSOR, TIMESTAMP, SIGNATURE].contains(&name.as_str())
}

const STREAM: &str = "postrider-event-stream";
const BATCH_ID: &str = "postrider-batch-id";
const CURSOR: &str = "postrider-cursor";
const TIMESTAMP: &str = "postrider-timestamp";
const SIGNATURE: &str = "postrider-signature";
/// Octets of a key.
const KEY_OCTETS_MAX: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn options(more: Value) -> EventStream {
        let mut options = json!({"name": "n", "log_dir": "/l", "url": "https://a.test/in"});
        options.as_object_mut().expect("a table").extend(more.as_object().expect("a table").clone());
        config::parse("kumo.configure_event_stream", options).expect("sound")
    }

    #[test]
    fn what_cannot_be_sent_is_said_beforehand() {
        for (more, says) in [
            (json!({"url": "http://a.test:port/"}), "http://a.test:port/"),
            (json!({"headers": {"Postrider-Signature": "x"}}), "Postrider-Signature"),
            (json!({"headers": {"Content-Length": "1"}}), "Content-Length"),
            (json!({"headers": {"a b": "x"}}), "a b"),
            (json!({"headers": {"X-A": "a\nb"}}), "X-A"),
            (json!({"secret": "/nowhere/at/all"}), "secret: cannot read `/nowhere/at/all`"),
            (json!({"secret": {"key_data": ""}}), "secret: it is empty"),
            (json!({"secret": {"key_data": "x".repeat(4097)}}), "secret: more than 4096 octets"),
        ] {
            let error = check(&options(more.clone())).expect_err("refused").to_string();
            assert!(error.contains(says), "{more}: {error}");
        }
        check(&options(json!({"secret": {"key_data": "x".repeat(4096)}, "headers": {"Authorization": "Bearer x"}})))
            .expect("sound");
    }

    #[test]
    fn a_request_carries_what_receivers_need() {
        let connectors = Connectors::new(None).expect("TLS");
        let options = options(json!({"secret": {"key_data": "s3cret"}, "headers": {"X-A": "1"}, "format": "ndjson"}));
        let poster = Poster::new(&options, &connectors).expect("sound");
        let parcel = Parcel { id: "id".to_owned(), cursor: "cursor".to_owned(), body: b"{}\n".to_vec() };
        let request = poster.request(&parcel, 7).expect("made");
        let field = |name: &str| request.headers[name].to_str().expect("ASCII").to_owned();
        let signed = signature(b"s3cret", ["7", "n", "id", "cursor"], b"{}\n");
        for (name, value) in [
            (STREAM, "n"),
            (BATCH_ID, "id"),
            (CURSOR, "cursor"),
            (TIMESTAMP, "7"),
            (SIGNATURE, &signed),
            ("x-a", "1"),
            ("content-type", "application/x-ndjson"),
        ] {
            assert_eq!(field(name), value, "{name}");
        }
        assert_eq!(request.content, Content::Octets(b"{}\n".to_vec()));
    }

    #[test]
    fn a_key_in_a_file_ends_before_its_line_end() {
        let dir = tempfile::tempdir().expect("scratch");
        let file = dir.path().join("key");
        std::fs::write(&file, "s3cret\n").expect("written");
        assert_eq!(key(&KeySource::File(file.display().to_string())), Ok(b"s3cret".to_vec()));
        std::fs::write(&file, b"\x01 \r\n").expect("written");
        assert_eq!(key(&KeySource::File(file.display().to_string())), Ok(b"\x01 ".to_vec()), "octets of any kind");
        assert_eq!(key(&KeySource::Data(b"s3cret\n".to_vec())), Ok(b"s3cret\n".to_vec()), "as policy gives it");
    }
}
