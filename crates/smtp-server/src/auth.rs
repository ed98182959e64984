//! AUTH PLAIN and LOGIN (RFC 4954, RFC 4616), under TLS only.
//!
//! Owns the exchange of lines; whether the credentials are right is policy's answer. Passwords
//! go into the question and nowhere else: not into logs, not into rejections. Guessing is bounded
//! by the number of failures.

use crate::question::{Disconnect, Identity, Question};
use crate::reject::Concerned;
use crate::session::{Awaiting, Phase, Session};
use crate::texts;
use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use smtp_wire::Reply;

/// Which line of the exchange is awaited.
#[derive(Debug)]
pub(crate) enum Exchange {
    Plain,
    LoginUser,
    LoginPassword { user: String },
}

/// Some clients leave the padding out.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

impl Session {
    pub(crate) fn auth(&mut self, mechanism: &str, initial: Option<&str>) {
        let refusal = match (&self.tls, &self.identity, &self.transaction) {
            (None, _, _) => Some(texts::AUTH_NEEDS_TLS),
            (_, Some(_), _) => Some(texts::AUTH_TWICE),
            (_, _, Some(_)) => Some(texts::AUTH_IN_TRANSACTION),
            _ => None,
        };
        if let Some(entry) = refusal {
            return self.refuse_junk(texts::reply(entry));
        }
        let initial = initial.map(|text| if text == "=" { "" } else { text });
        match (mechanism, initial) {
            ("PLAIN", Some(response)) => self.exchange(Exchange::Plain, response.as_bytes()),
            ("PLAIN", None) => self.challenge(Exchange::Plain, ""),
            ("LOGIN", Some(response)) => self.exchange(Exchange::LoginUser, response.as_bytes()),
            ("LOGIN", None) => self.challenge(Exchange::LoginUser, "Username:"),
            _ => self.refuse_junk(texts::reply(texts::AUTH_MECHANISM)),
        }
    }

    /// A line of the client in the exchange.
    pub(crate) fn auth_line(&mut self, line: &[u8]) {
        let Phase::Auth(exchange) = core::mem::replace(&mut self.phase, Phase::Command) else {
            return;
        };
        match line {
            b"*" => self.refuse_junk(texts::reply(texts::AUTH_CANCELLED)),
            response => self.exchange(exchange, response),
        }
    }

    fn exchange(&mut self, exchange: Exchange, response: &[u8]) {
        let decoded = BASE64.decode(response).ok().and_then(|octets| String::from_utf8(octets).ok());
        let Some(text) = decoded else {
            return self.refuse_junk(texts::reply(texts::AUTH_DECODING));
        };
        match exchange {
            Exchange::Plain => self.plain(&text),
            Exchange::LoginUser if text.is_empty() => self.refuse_junk(texts::reply(texts::AUTH_DECODING)),
            Exchange::LoginUser => self.challenge(Exchange::LoginPassword { user: text }, "Password:"),
            Exchange::LoginPassword { user } => self.credentials(user.clone(), user, text),
        }
    }

    /// `authz NUL authc NUL password`.
    fn plain(&mut self, text: &str) {
        let mut parts = text.split('\0');
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(authz), Some(authc), Some(password), None) if !authc.is_empty() => {
                let authz = if authz.is_empty() { authc } else { authz };
                self.credentials(authz.to_owned(), authc.to_owned(), password.to_owned());
            }
            _ => self.refuse_junk(texts::reply(texts::AUTH_DECODING)),
        }
    }

    fn challenge(&mut self, next: Exchange, text: &str) {
        self.phase = Phase::Auth(next);
        let encoded = BASE64.encode(text);
        self.say(334, &encoded);
    }

    fn credentials(&mut self, authz: String, authc: String, password: String) {
        match self.settings.interest.auth {
            true => self.ask(Question::AuthPlain { authz, authc, password }, Awaiting::AuthPlain),
            false => self.auth_failed(),
        }
    }

    pub(crate) fn auth_succeeded(&mut self, identity: Identity) {
        self.identity = Some(identity);
        self.say(235, "2.7.0 AUTH OK");
    }

    pub(crate) fn auth_failed(&mut self) {
        self.auth_rejected(texts::reply(texts::AUTH_INVALID), Disconnect::If421);
    }

    /// Refused in policy's own words; counts like any failure.
    pub(crate) fn auth_rejected(&mut self, reply: Reply, disconnect: Disconnect) {
        self.auth_failures += 1;
        self.reject(reply, disconnect, Concerned::nobody());
        let open = !matches!(self.phase, Phase::Closing);
        if open && self.auth_failures >= self.settings.auth_failures_max {
            let text = format!("4.7.0 {} too many authentication failures", self.settings.hostname);
            self.close_with(Reply::new(421, &text), Concerned::nobody());
        }
    }
}
