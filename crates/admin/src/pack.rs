//! `Accept-Encoding`: answers of some size are compressed with gzip for who takes that.
//!
//! In: an answer. Out: the same, or its text compressed as it is sent, a slice after the other. Only text is, and only what is known
//! whole: streams of answers and events are read line by line as they come, and websockets are no answers.

use axum::body::{Body, BodyDataStream, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::{StreamExt, stream};
use std::io::Write;

/// Marks an answer that stays as it is: one that anybody may ask for again and again.
#[derive(Clone, Copy)]
pub(crate) struct AsItIs;

/// Whether the answer to a request may be compressed.
pub(crate) fn is_taken(request: &Request) -> bool {
    // What is said of a body that is not sent needs not be exact.
    *request.method() != Method::HEAD && takes_gzip(request.headers())
}

/// An answer as it is sent to who takes it compressed, or not.
pub(crate) fn answer(mut answer: Response, is_taken: bool) -> Response {
    if !is_worth_it(&answer) {
        return answer;
    }
    // Who keeps answers must know for whom they are.
    answer.headers_mut().append(header::VARY, HeaderValue::from_name(header::ACCEPT_ENCODING));
    if !is_taken {
        return answer;
    }
    answer.headers_mut().remove(header::CONTENT_LENGTH);
    answer.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    answer.map(packed)
}

/// Whether a client takes gzip, and does not like it less than nothing.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let [mut gzip, mut identity, mut any] = [None; 3];
    for value in headers.get_all(header::ACCEPT_ENCODING) {
        for item in value.to_str().unwrap_or_default().split(',') {
            let (name, weight) = weighed(item);
            match name.as_str() {
                "gzip" | "x-gzip" => gzip = Some(weight),
                "identity" => identity = Some(weight),
                "*" => any = Some(weight),
                _ => {}
            }
        }
    }
    gzip.or(any).is_some_and(|weight| weight > 0.0 && identity.is_none_or(|other| other <= weight))
}

/// `gzip;q=0.5`: a name, and how much it is wanted.
fn weighed(item: &str) -> (String, f32) {
    let mut parts = item.split(';').map(str::trim);
    let name = parts.next().unwrap_or_default().to_ascii_lowercase();
    let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
    // What does not read is not wanted.
    (name, weight.map_or(1.0, |weight| weight.trim().parse().unwrap_or(0.0)))
}

fn is_worth_it(answer: &Response) -> bool {
    let headers = answer.headers();
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let is_text = kind.starts_with("text/") || kind == "application/json";
    let is_whole = answer.body().size_hint().exact().is_some_and(|octets| octets >= OCTETS_MIN);
    let may_be = answer.extensions().get::<AsItIs>().is_none();
    may_be && is_text && is_whole && !headers.contains_key(header::CONTENT_ENCODING)
}

/// Compresses a body.
struct Packing {
    body: BodyDataStream,
    /// What came of it and is not compressed yet.
    rest: Bytes,
    /// None behind the end.
    encoder: Option<GzEncoder<Vec<u8>>>,
}

fn packed(body: Body) -> Body {
    // The quickest: text is a tenth or a fifth then, and the next level takes twice the time for little.
    let encoder = Some(GzEncoder::new(Vec::new(), Compression::fast()));
    let packing = Packing { body: body.into_data_stream(), rest: Bytes::new(), encoder };
    Body::from_stream(stream::try_unfold(packing, Packing::next))
}

impl Packing {
    async fn next(mut self) -> Result<Option<(Vec<u8>, Packing)>, axum::BoxError> {
        loop {
            let Some(encoder) = &mut self.encoder else { return Ok(None) };
            if !self.rest.is_empty() {
                let slice = self.rest.split_to(self.rest.len().min(SLICE_OCTETS));
                encoder.write_all(&slice)?;
                let out = std::mem::take(encoder.get_mut());
                // Others have their turn between two slices.
                tokio::task::yield_now().await;
                if !out.is_empty() {
                    return Ok(Some((out, self)));
                }
                continue;
            }
            match self.body.next().await {
                Some(octets) => self.rest = octets?,
                None => {
                    let last = self.encoder.take().map(GzEncoder::finish).transpose()?.unwrap_or_default();
                    return Ok(Some((last, self)));
                }
            }
        }
    }
}

/// Octets of an answer that is compressed, at least: below that nobody gains.
const OCTETS_MIN: u64 = 1024;
/// Octets compressed at a time: less than a millisecond.
const SLICE_OCTETS: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::to_bytes;
    use axum::middleware::Next;
    use axum::response::IntoResponse;
    use axum::routing::get;
    use axum::{Json, Router, middleware};
    use flate2::read::GzDecoder;
    use std::io::Read;
    use tower::ServiceExt;

    fn wants(values: &[&str]) -> bool {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::ACCEPT_ENCODING, HeaderValue::from_str(value).expect("a value"));
        }
        takes_gzip(&headers)
    }

    #[test]
    fn gzip_is_for_who_takes_it() {
        for yes in
            ["gzip", "deflate, gzip;q=1.0, *;q=0.5", "GZIP;Q=0.1", "x-gzip", "*", "br, gzip;q=0.5, identity;q=0.5"]
        {
            assert!(wants(&[yes]), "{yes}");
        }
        for no in [
            "",
            "identity",
            "br",
            "gzip;q=0",
            "gzip; q=0.000",
            "*;q=0",
            "gzip;q=0, *",
            "gzip;q=x",
            "identity, gzip;q=0.5",
        ] {
            assert!(!wants(&[no]), "{no}");
        }
        assert!(!wants(&[]) && wants(&["br", "gzip"]));
    }

    fn app() -> Router {
        let stream = || Body::from_stream(stream::iter([Ok::<_, std::io::Error>(vec![b'x'; 5000])]));
        let octets = |length| ([(header::CONTENT_TYPE, "application/octet-stream")], vec![b'x'; length]);
        let app = Router::new()
            .route("/text", get(async || "x".repeat(200_000)))
            .route("/json", get(async || Json(vec![7; 1000])))
            .route("/least", get(async || "x".repeat(1024)))
            .route("/less", get(async || "x".repeat(1023)))
            .route("/octets", get(async move || octets(5000)))
            .route("/stream", get(async move || ([(header::CONTENT_TYPE, "text/plain")], stream()).into_response()));
        app.layer(middleware::from_fn(async |request: Request, next: Next| {
            let is_taken = is_taken(&request);
            answer(next.run(request).await, is_taken)
        }))
    }

    /// Header and body of an answer to who takes gzip, or not.
    async fn asked(method: Method, path: &str, takes: &str) -> (HeaderMap, Vec<u8>) {
        let request = Request::builder().method(method).uri(path).header(header::ACCEPT_ENCODING, takes);
        let answer = app().oneshot(request.body(Body::empty()).expect("a request")).await.expect("an answer");
        let (parts, body) = answer.into_parts();
        (parts.headers, to_bytes(body, usize::MAX).await.expect("a body").to_vec())
    }

    #[tokio::test]
    async fn text_of_some_size_is_compressed() {
        for (path, is_packed) in [
            ("/text", true),
            ("/json", true),
            ("/least", true),
            ("/less", false),
            ("/octets", false),
            ("/stream", false),
        ] {
            let (plain_headers, plain) = asked(Method::GET, path, "br").await;
            assert!(!plain_headers.contains_key(header::CONTENT_ENCODING), "{path}");
            let (headers, body) = asked(Method::GET, path, "deflate, gzip").await;
            assert_eq!(headers.contains_key(header::CONTENT_ENCODING), is_packed, "{path}");
            assert_eq!(headers.contains_key(header::VARY), is_packed, "{path}");
            assert_eq!(plain_headers.contains_key(header::VARY), is_packed, "{path}: also of what is not compressed");
            if !is_packed {
                assert!(body == plain, "{path}");
                continue;
            }
            assert_eq!(headers[header::CONTENT_ENCODING], "gzip");
            let length =
                headers.get(header::CONTENT_LENGTH).map(|length| length.to_str().expect("a number").to_owned());
            assert!(length.is_none_or(|length| length == body.len().to_string()), "{path}: that of what is sent");
            let mut text = Vec::new();
            GzDecoder::new(&body[..]).read_to_end(&mut text).expect("gzip");
            assert!(text == plain && body.len() < plain.len() / 2, "{path}: {} octets", body.len());
        }
    }

    #[tokio::test]
    async fn what_is_not_sent_is_not_compressed() {
        let (headers, body) = asked(Method::HEAD, "/text", "gzip").await;
        assert!(body.is_empty() && !headers.contains_key(header::CONTENT_ENCODING));
    }
}
