//! The commands a session writes, and how a log record names them.

use crate::flight::Flight;
use crate::output::Output;
use crate::pipeline::Stage;
use crate::{AuthPlain, Capabilities};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::borrow::Cow;

/// Writes `verb domain`: EHLO, HELO or LHLO. The domain is configuration, perhaps computed by a
/// script: what could end the line is left out.
pub(crate) fn put_hello(out: &mut Output, verb: &str, domain: &str) {
    let domain: String = domain.chars().filter(|c| !c.is_control() && *c != ' ').collect();
    out.put(format!("{verb} {domain}\r\n").as_bytes());
}

/// Writes AUTH PLAIN with its initial response (RFC 4616).
pub(crate) fn put_auth(out: &mut Output, auth: &AuthPlain) {
    let response = STANDARD.encode(format!("\0{}\0{}", auth.username, auth.password));
    out.put(format!("AUTH PLAIN {response}\r\n").as_bytes());
}

/// Writes one of the two answers of AUTH LOGIN. The words of the challenges differ from server to server; that the name
/// is asked for first does not.
pub(crate) fn put_auth_answer(out: &mut Output, answer: &str) {
    out.put(format!("{}\r\n", STANDARD.encode(answer)).as_bytes());
}

/// Writes MAIL with the parameters the server understands.
pub(crate) fn put_mail(out: &mut Output, flight: &Flight, offers: &Capabilities) {
    out.put(b"MAIL FROM:<");
    out.put(flight.sender_now().as_str().as_bytes());
    out.put(b">");
    if offers.size.is_some() {
        out.put(format!(" SIZE={}", flight.content_bytes).as_bytes());
    }
    if flight.body_8bit && offers.eight_bit_mime {
        out.put(b" BODY=8BITMIME");
    }
    if flight.smtputf8 && offers.smtputf8 {
        out.put(b" SMTPUTF8");
    }
    if flight.requiretls {
        out.put(b" REQUIRETLS");
    }
    if let Some(dsn) = flight.dsn.as_ref().filter(|_| offers.dsn) {
        out.put(dsn.mail_text().as_bytes());
    }
    out.put(b"\r\n");
}

/// Writes RCPT for the recipient at `place`, with its DSN options where the server knows them (RFC 3461 section 5.2.1).
pub(crate) fn put_rcpt(out: &mut Output, flight: &Flight, place: u32, offers: &Capabilities) {
    if let Some(recipient) = flight.recipients.get(place as usize) {
        out.put(b"RCPT TO:<");
        out.put(recipient.as_str().as_bytes());
        out.put(b">");
        if let Some(dsn) = flight.dsn.as_ref().filter(|_| offers.dsn) {
            out.put(dsn.rcpt_wire(place as usize).as_bytes());
        }
        out.put(b"\r\n");
    }
}

/// The command as a log record shows it: without parameters, secrets and CRLF.
pub(crate) fn named(stage: Stage, flight: Option<&Flight>) -> Cow<'static, str> {
    match (stage, flight) {
        (Stage::Mail, Some(flight)) => format!("MAIL FROM:<{}>", flight.sender_now()).into(),
        (Stage::Rcpt(place), Some(flight)) => match flight.recipients.get(place as usize) {
            Some(recipient) => format!("RCPT TO:<{recipient}>").into(),
            None => "RCPT TO".into(),
        },
        (Stage::Mail, None) => "MAIL FROM".into(),
        (Stage::Rcpt(_), None) => "RCPT TO".into(),
        (Stage::Banner, _) => "".into(),
        (Stage::Ehlo, _) => "EHLO".into(),
        (Stage::Helo, _) => "HELO".into(),
        (Stage::StartTls, _) => "STARTTLS".into(),
        (Stage::Auth, _) => "AUTH PLAIN".into(),
        (Stage::AuthLogin | Stage::AuthLoginUser | Stage::AuthLoginPassword, _) => "AUTH LOGIN".into(),
        (Stage::Rset, _) => "RSET".into(),
        (Stage::Data, _) => "DATA".into(),
        (Stage::Dot | Stage::LmtpDot(_), _) => ".".into(),
        (Stage::Quit, _) => "QUIT".into(),
    }
}
