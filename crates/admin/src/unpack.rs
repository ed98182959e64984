//! `Content-Encoding` of requests: bodies that come compressed are read as what they stand for.
//!
//! In: a request. Out: the same without the coding, its body decompressed as it is read, so that every bound on a body is one on what
//! is in it: a body that grows beyond `request_body_limit` is refused (413) when it has grown so far, and was never held whole. A
//! coding that is not known is 415 (RFC 9110, section 15.5.16), a body that is damaged or ends too early 400.

use crate::answer::Failed;
use crate::coding::{Coding, Damage, Decoder};
use axum::body::{Body, BodyDataStream, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use std::error::Error;
use std::time::Duration;
use thiserror::Error;

/// Why a body that came compressed cannot be read.
#[derive(Debug, Error)]
pub(crate) enum Broken {
    /// It is not what it is called.
    #[error("the body is no sound {name}: {damage}")]
    Damaged {
        /// What it is called.
        name: &'static str,
        /// What is wrong.
        damage: Damage,
    },
    /// The connection ended, or what came is no HTTP.
    #[error("{0}")]
    Body(#[from] axum::Error),
}

/// Takes the coding off a request, so that handlers see none.
///
/// # Errors
/// It is none that is known; see [`refused`].
pub(crate) fn request(request: &mut Request) -> Result<(), Failed> {
    // What has no body has no coding.
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return Ok(());
    }
    if let Some(coding) = coding(request.headers())? {
        let headers = request.headers_mut();
        headers.remove(header::CONTENT_ENCODING);
        // It is that of the compressed octets.
        headers.remove(header::CONTENT_LENGTH);
        let body = std::mem::take(request.body_mut());
        *request.body_mut() = unpacked(body, coding);
    }
    Ok(())
}

/// The answer to a coding that is not known.
pub(crate) fn refused(failed: Failed) -> Response {
    let mut answer = failed.into_response();
    answer.headers_mut().insert(header::ACCEPT_ENCODING, HeaderValue::from_static(TAKEN));
    answer
}

/// What was wrong with a body that came compressed, if that is why it cannot be read.
pub(crate) fn damage_in(error: &axum::Error) -> Option<&Broken> {
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(broken) = error.downcast_ref::<Broken>() {
            return matches!(broken, Broken::Damaged { .. }).then_some(broken);
        }
        next = error.source();
    }
    None
}

/// How the body is compressed, if it is.
fn coding(headers: &HeaderMap) -> Result<Option<Coding>, Failed> {
    let mut found = None;
    for value in headers.get_all(header::CONTENT_ENCODING) {
        let refused = || Failed::unsupported(format!("Content-Encoding is {value:?}: expected one of {TAKEN}"));
        let text = value.to_str().map_err(|_| refused())?;
        for name in text.split(',').map(|name| name.trim().to_ascii_lowercase()) {
            let one = match name.as_str() {
                "" | "identity" => continue,
                "gzip" | "x-gzip" => Coding::Gzip,
                "deflate" => Coding::Deflate,
                _ => return Err(refused()),
            };
            if found.replace(one).is_some() {
                return Err(refused());
            }
        }
    }
    Ok(found)
}

fn unpacked(body: Body, coding: Coding) -> Body {
    let begin = (body.into_data_stream(), Decoder::new(coding), Bytes::new());
    let pieces = stream::try_unfold(begin, move |(mut body, mut decoder, mut input)| async move {
        let damaged = |damage| Broken::Damaged { name: coding.name(), damage };
        loop {
            match decoder.decode(&mut input) {
                Ok(Some(piece)) => {
                    // A few octets may come to much work: others have their turn.
                    tokio::task::yield_now().await;
                    return Ok::<_, Broken>(Some((piece, (body, decoder, input))));
                }
                Ok(None) => {}
                Err(damage) => {
                    linger(&mut body).await;
                    return Err(damaged(damage));
                }
            }
            match body.next().await {
                Some(octets) => input = octets?,
                None => return decoder.finish().map(|()| None).map_err(damaged),
            }
        }
    });
    Body::from_stream(pieces)
}

/// Reads on for a moment: who still sends when his connection is closed may never see what was answered.
pub(crate) async fn linger(body: &mut BodyDataStream) {
    let rest = async { while let Some(Ok(_)) = body.next().await {} };
    // Who sends longer than that is not waited for.
    let _: Result<(), _> = tokio::time::timeout(LINGER, rest).await;
}

impl Coding {
    fn name(self) -> &'static str {
        match self {
            Coding::Gzip => "gzip",
            Coding::Deflate => "deflate (the zlib format, RFC 1950)",
        }
    }
}

/// How long what is behind damage is read.
const LINGER: Duration = Duration::from_secs(2);
/// Codings that are taken.
const TAKEN: &str = "gzip, deflate, identity";

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::to_bytes;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn named(values: &[&str]) -> Result<Option<Coding>, String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::CONTENT_ENCODING, HeaderValue::from_str(value).expect("a value"));
        }
        coding(&headers).map_err(|failed| format!("{failed:?}"))
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).expect("into memory");
        encoder.finish().expect("into memory")
    }

    #[test]
    fn one_coding_is_taken() {
        for plain in [&[][..], &["identity"], &[""], &["Identity", "identity"]] {
            assert_eq!(named(plain), Ok(None), "{plain:?}");
        }
        for zipped in [&["gzip"][..], &["GZIP"], &["x-gzip"], &["identity, gzip"], &["identity", " gzip "]] {
            assert_eq!(named(zipped), Ok(Some(Coding::Gzip)), "{zipped:?}");
        }
        assert_eq!(named(&["deflate"]), Ok(Some(Coding::Deflate)));
        for wrong in [&["br"][..], &["zstd"], &["compress"], &["gzip, gzip"], &["gzip", "deflate"], &["gzip;q=1"]] {
            let told = named(wrong).expect_err("it is not taken");
            assert!(told.starts_with("Failed(415") && told.contains("gzip, deflate, identity"), "{wrong:?}: {told}");
        }
    }

    #[tokio::test]
    async fn a_bomb_is_read_as_far_as_is_wanted() {
        let text = vec![b' '; 8 << 20];
        let bomb = gzip(&text);
        let whole = to_bytes(unpacked(Body::from(bomb.clone()), Coding::Gzip), 8 << 20).await.expect("at the bound");
        assert!(whole == text);
        let error = to_bytes(unpacked(Body::from(bomb), Coding::Gzip), (8 << 20) - 1).await.expect_err("above it");
        assert!(damage_in(&error).is_none(), "it is too long, and not damaged: {error}");
    }

    #[tokio::test]
    async fn damage_is_told_from_a_connection_that_ends() {
        let octets = gzip(b"hello");
        let cut = Body::from(octets[..octets.len() - 1].to_vec());
        let error = to_bytes(unpacked(cut, Coding::Gzip), 100).await.expect_err("it is cut");
        let found = damage_in(&error).expect("damage").to_string();
        assert_eq!(found, "the body is no sound gzip: it ends too early");
        let parts = [Ok(Bytes::from(octets[..12].to_vec())), Err(std::io::Error::other("it is gone"))];
        let ends = Body::from_stream(stream::iter(parts));
        let error = to_bytes(unpacked(ends, Coding::Gzip), 100).await.expect_err("the connection ends");
        assert!(damage_in(&error).is_none() && error.to_string().contains("it is gone"), "{error}");
    }
}
