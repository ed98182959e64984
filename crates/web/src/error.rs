//! Why there is no answer.

use config::shown_url;
use net::causes::with_causes;
use net::tls::TlsError;
use thiserror::Error;

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum WebError {
    /// What was given is no URL, or not one of these schemes.
    #[error("`{url}` is not a URL: {why}")]
    Url {
        /// As it was given.
        url: String,
        /// What was expected.
        why: String,
    },
    /// A method, or a header field's name or value.
    #[error("{what} `{given}`: {why}")]
    Field {
        /// Which of them.
        what: &'static str,
        /// As it was given.
        given: String,
        /// What was expected.
        why: &'static str,
    },
    /// No TLS can be had.
    #[error("{0}")]
    Tls(#[from] TlsError),
    /// Name, connection, TLS, time or HTTP, with all that lies behind it.
    #[error("{0}")]
    Request(String),
    /// The content is longer than is taken.
    #[error("the answer's content is longer than {octets_max} octets")]
    TooLong {
        /// The bound, in octets.
        octets_max: usize,
    },
    /// Of a websocket; `HTTP error: 404 Not Found` when the server answers a request for one so.
    #[error("{0}")]
    WebSocket(String),
}

impl WebError {
    /// The same without what is secret in a URL that is wrong: for errors that others see than who wrote it.
    pub fn without_secrets(self) -> WebError {
        match self {
            WebError::Url { url, why } => WebError::Url { url: shown_url(&url), why },
            other => other,
        }
    }
}

impl From<reqwest::Error> for WebError {
    fn from(error: reqwest::Error) -> WebError {
        // URLs hold secrets, in their paths too, and errors get far: whoever asked knows what.
        WebError::Request(with_causes(&error.without_url()))
    }
}
