//! The conformance of a message, checked and fixed (`message:check_fix_conformance`).
//!
//! In: the octets, what to refuse, what to fix, how; `now` for a Date, `seed` for a Message-ID. Out: an [`Outcome`]; when
//! there is nothing to fix the octets stay as they are. Missing headers are added at the end of the header; every other
//! fix is a rebuild of the whole message. Can fail: settings that are unusable, a Message-ID that cannot be written.

use crate::construct::mixed;
use crate::field::{FieldKind, FieldValue};
use crate::{Conformance, Detection, MimePart, PartError, address, date};
use bytes::Bytes;
use clock::WallTime;
use core::fmt;
use mime::ValueForm;
use serde::{Deserialize, Serialize};

/// How a message is fixed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CheckFixSettings {
    /// Guess the character set of 8-bit text that declares none.
    pub detect_encoding: bool,
    /// Guess among these only; empty: among all.
    pub include_encodings: Vec<String>,
    /// Never guess these.
    pub exclude_encodings: Vec<String>,
    /// The Message-ID to be given, with its angle brackets or without; `None`: one is made.
    pub message_id: Option<String>,
}

/// What came of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There was nothing to be refused or fixed.
    Unchanged,
    /// These of the conditions checked for are there; nothing was fixed.
    Issues(Conformance),
    /// The message, fixed.
    Fixed(Vec<u8>),
}

impl fmt::Display for Outcome {
    /// What KumoMTA returns: the issues, or nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Issues(found) => write!(f, "Message has conformance issues: {found}"),
            Outcome::Unchanged | Outcome::Fixed(_) => Ok(()),
        }
    }
}

/// Refuses a message that has one of `checks`, else fixes those of `fixes` it has.
///
/// # Errors
/// A character set or a Message-ID in `settings` that is unusable; a header that cannot be written.
pub fn check_fix(
    octets: &Bytes,
    checks: Conformance,
    fixes: Conformance,
    settings: &CheckFixSettings,
    now: WallTime,
    seed: u64,
) -> Result<Outcome, PartError> {
    let detection = Detection::new(settings.detect_encoding, &settings.include_encodings, &settings.exclude_encodings)?;
    let mut message = MimePart::parse(octets.clone());
    let found = Conformance::of(octets, &message);
    if found.intersects(checks) {
        return Ok(Outcome::Issues(found.intersection(checks)));
    }
    let to_fix = found.intersection(fixes).without(Conformance::NOT_MENDED);
    if to_fix.is_empty() {
        return Ok(Outcome::Unchanged);
    }
    let missing = Conformance::MISSING_DATE_HEADER
        .union(Conformance::MISSING_MESSAGE_ID_HEADER)
        .union(Conformance::MISSING_MIME_VERSION);
    if to_fix.intersection(missing) != to_fix {
        message = message.rebuild_with(&detection)?;
    }
    if to_fix.intersects(Conformance::MISSING_DATE_HEADER) {
        message.headers_mut().append("Date", &date::rfc5322(now))?;
    }
    if to_fix.intersects(Conformance::MISSING_MESSAGE_ID_HEADER) {
        let id = settings.message_id.clone().unwrap_or_else(|| made_id(&message, now, seed));
        let (text, form) = FieldKind::MessageId.write("Message-ID", &FieldValue::Text(id))?;
        message.headers_mut().append_raw("Message-ID", text.as_bytes(), form)?;
    }
    if to_fix.intersects(Conformance::MISSING_MIME_VERSION) {
        message.headers_mut().append_raw("MIME-Version", b"1.0", ValueForm::Raw)?;
    }
    Ok(Outcome::Fixed(message.to_bytes()))
}

/// `time.seed@domain of the author`.
fn made_id(message: &MimePart, now: WallTime, seed: u64) -> String {
    let from = message.headers().first("From").and_then(|field| address::read_mailboxes(field.value).ok());
    let domain = from.and_then(|all| all.into_iter().next()).map(|mailbox| mailbox.address.domain);
    let is_usable =
        |d: &String| d.len() <= DOMAIN_OCTETS_MAX && d.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b));
    let domain = domain.filter(is_usable).unwrap_or_else(|| "localhost".to_owned());
    format!("{:x}.{:016x}@{domain}", now.unix_micros(), mixed(seed))
}

/// RFC 1035 section 2.3.4.
const DOMAIN_OCTETS_MAX: usize = 255;
