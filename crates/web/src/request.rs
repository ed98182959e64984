//! A request before it is sent.
//!
//! Owns [`Request`] and [`Content`]. In: what a script says of it. Fails on what HTTP has no place for ([`WebError::Field`],
//! [`WebError::Url`]). Sends nothing.

use crate::error::WebError;
use crate::sigv4::Signed;
use data_encoding::BASE64;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use std::collections::BTreeMap;
use std::time::Duration;

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its method.
    pub method: Method,
    /// Where it goes.
    pub url: Url,
    /// Its header fields.
    pub headers: HeaderMap,
    /// Its content.
    pub content: Content,
    /// Time limit, answer included, where it is not that of its client.
    pub timeout: Option<Duration>,
}

/// What a request carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Nothing.
    None,
    /// Octets.
    Octets(Vec<u8>),
    /// `multipart/form-data` (RFC 7578).
    Form(Vec<(String, Part)>),
}

/// A field of a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its octets.
    pub octets: Vec<u8>,
    /// The file it comes from.
    pub file_name: Option<String>,
}

impl Request {
    /// A request for `url`.
    ///
    /// # Errors
    /// It is not an absolute one of HTTP or HTTPS.
    pub fn new(method: Method, url: &str) -> Result<Request, WebError> {
        let url = absolute(url, &["http", "https"])?;
        Ok(Request { method, url, headers: HeaderMap::new(), content: Content::None, timeout: None })
    }

    /// Adds a header field.
    ///
    /// # Errors
    /// Name or value cannot stand in one.
    pub fn add_header(&mut self, name: &str, value: &[u8]) -> Result<(), WebError> {
        let wrong = |what, why| WebError::Field { what, given: name.to_owned(), why };
        let field = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| wrong("header field name", "expected letters, digits and hyphens"))?;
        // The value may be a secret, so it is not said.
        let value = HeaderValue::from_bytes(value)
            .map_err(|_| wrong("value of the header field", "expected no control characters, nor line ends"))?;
        self.headers.append(field, value);
        Ok(())
    }

    /// Says who asks (RFC 7617).
    ///
    /// # Errors
    /// As [`Request::add_header`].
    pub fn basic_auth(&mut self, user: &str, password: Option<&str>) -> Result<(), WebError> {
        let login = BASE64.encode(format!("{user}:{}", password.unwrap_or_default()).as_bytes());
        self.authorize(&format!("Basic {login}"))
    }

    /// Says who asks (RFC 6750).
    ///
    /// # Errors
    /// As [`Request::add_header`]; the token is not in the text.
    pub fn bearer_auth(&mut self, token: &str) -> Result<(), WebError> {
        self.authorize(&format!("Bearer {token}"))
    }

    fn authorize(&mut self, credentials: &str) -> Result<(), WebError> {
        let mut value = HeaderValue::from_str(credentials).map_err(|_| WebError::Field {
            what: "credentials",
            given: "(not shown)".to_owned(),
            why: "expected no control characters",
        })?;
        value.set_sensitive(true);
        self.headers.insert(AUTHORIZATION, value);
        Ok(())
    }

    /// The fields that a signature covers: those it has, and `host`.
    pub fn fields_to_sign(&self) -> BTreeMap<String, String> {
        let host = self.url.host_str().unwrap_or_default();
        let host = self.url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let mut fields = BTreeMap::from([("host".to_owned(), host)]);
        // The time is part of what is signed, so that of an earlier signature has to go.
        for name in self.headers.keys().filter(|name| !SIGNATURE.contains(&name.as_str())) {
            let values = self.headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
            fields.insert(name.as_str().to_owned(), values.collect::<Vec<_>>().join(","));
        }
        fields
    }

    /// Adds the fields of a signature, in the place of an earlier one.
    ///
    /// # Errors
    /// As [`Request::add_header`].
    pub fn add_signature(&mut self, signed: &Signed, session_token: Option<&str>) -> Result<(), WebError> {
        let values = [Some(signed.authorization.as_str()), Some(&signed.timestamp), session_token];
        for (name, value) in SIGNATURE.into_iter().zip(values) {
            self.headers.remove(name);
            value.map_or(Ok(()), |value| self.add_header(name, value.as_bytes()))?;
        }
        Ok(())
    }

    /// Carries these pairs as `application/x-www-form-urlencoded`.
    pub fn form<'a>(&mut self, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) {
        let mut url = Url::parse("form:").expect("a URL");
        url.query_pairs_mut().extend_pairs(pairs);
        self.content = Content::Octets(url.query().unwrap_or_default().as_bytes().to_vec());
        self.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
    }
}

/// A URL with these parameters behind those it has.
///
/// # Errors
/// It is not an absolute one.
pub fn with_parameters<'a>(
    base: &str,
    parameters: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<String, WebError> {
    let mut url = Url::parse(base).map_err(|e| WebError::Url { url: base.to_owned(), why: e.to_string() })?;
    let mut parameters = parameters.into_iter().peekable();
    if parameters.peek().is_some() {
        url.query_pairs_mut().extend_pairs(parameters);
    }
    Ok(url.into())
}

/// A URL of one of these schemes.
pub(crate) fn absolute(url: &str, schemes: &[&str]) -> Result<Url, WebError> {
    let wrong = |why: String| WebError::Url { url: url.to_owned(), why };
    let parsed = Url::parse(url).map_err(|e| wrong(e.to_string()))?;
    let expected = || schemes.join("://HOST or ") + "://HOST";
    if !schemes.contains(&parsed.scheme()) || !parsed.has_host() {
        return Err(wrong(format!("expected {}", expected())));
    }
    Ok(parsed)
}

/// The fields of a signature.
const SIGNATURE: [&str; 3] = ["authorization", "x-amz-date", "x-amz-security-token"];

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request {
        Request::new(Method::GET, "http://a.test/x").expect("a URL")
    }

    #[test]
    fn urls_are_absolute_and_of_http() {
        for (url, why) in [
            ("a.test/x", "relative URL"),
            ("ftp://a.test/", "expected http://HOST or https://HOST"),
            ("http://", "empty host"),
            ("unix:/x", "expected http"),
        ] {
            let error = Request::new(Method::GET, url).expect_err("refused").to_string();
            assert!(error.contains(url) && error.contains(why), "{error}");
        }
    }

    #[test]
    fn what_would_break_a_header_is_refused() {
        let mut request = request();
        request.add_header("X-A", b"1").expect("sound");
        request.add_header("x-a", "ü".as_bytes()).expect("octets above 127 are");
        assert_eq!(request.headers.get_all("X-A").iter().count(), 2);
        for (name, value, why) in
            [("a b", "x", "name `a b`"), ("", "x", "name ``"), ("A", "s3cret\r\nB: y", "field `A`")]
        {
            let error = request.add_header(name, value.as_bytes()).expect_err("refused").to_string();
            assert!(error.contains(why) && !error.contains("s3cret"), "{error}");
        }
        let error = request.bearer_auth("s3cret\n").expect_err("refused").to_string();
        assert!(!error.contains("s3cret"), "{error}");
    }

    #[test]
    fn who_asks_is_said_as_the_rfcs_write_it() {
        let mut request = request();
        request.basic_auth("Aladdin", Some("open sesame")).expect("sound");
        assert_eq!(request.headers["authorization"], "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        request.basic_auth("user", None).expect("sound");
        assert_eq!(request.headers["authorization"], "Basic dXNlcjo=");
        request.bearer_auth("mF_9.B5f-4.1JqM").expect("sound");
        assert_eq!(request.headers["authorization"], "Bearer mF_9.B5f-4.1JqM");
        assert_eq!(request.headers.len(), 1);
    }

    #[test]
    fn a_signature_covers_the_host_and_not_who_asks() {
        let mut request = Request::new(Method::GET, "http://user:secret@a.test:81/x").expect("a URL");
        request.add_header("X-Amz-Date", b"earlier").expect("sound");
        request.add_header("X-B", b"1").expect("sound");
        let fields = request.fields_to_sign();
        assert_eq!(
            fields.into_iter().collect::<Vec<_>>(),
            [("host".into(), "a.test:81".into()), ("x-b".into(), "1".into())]
        );
    }

    #[test]
    fn forms_and_parameters_are_encoded() {
        let mut request = request();
        request.form([("a", "1 2"), ("b", "&=ü")]);
        assert_eq!(request.content, Content::Octets(b"a=1+2&b=%26%3D%C3%BC".to_vec()));
        assert_eq!(request.headers["content-type"], "application/x-www-form-urlencoded");
        let with = |pairs: &[(&'static str, &'static str)]| {
            with_parameters("http://a.test/x?q=1", pairs.iter().copied()).expect("a URL")
        };
        assert_eq!(with(&[("b", "c d"), ("a", "&")]), "http://a.test/x?q=1&b=c+d&a=%26");
        assert_eq!(with(&[]), "http://a.test/x?q=1");
        assert!(with_parameters("x", []).expect_err("refused").to_string().contains("`x`"));
    }
}
