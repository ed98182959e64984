//! DKIM verification (RFC 6376 section 6, RFC 8301, RFC 8463).
//!
//! In: a message, a resolver, the time. Out: one result a signature, those at the top first, at most [`SIGNATURES_MAX`]; of a
//! message without any, one `none`. Cannot fail: what goes wrong is a result too.
//! The rooms below: `key` (published keys), `header` (what only DKIM has in its field), `own` (signatures that were just made).

mod header;
pub(crate) mod key;
mod own;

pub use key::{KEY_RECORDS_MAX, KeyError, PublicKey, RSA_BITS_MAX, RSA_BITS_MIN};
pub use own::{Claim, KeyTrouble, check_own};

use crate::mail::Mail;
use crate::results::{Refusal, add_prop, result};
use crate::tags::{Tags, without_blanks};
use header::DkimHeader;
use mime::FieldView;
use mimepart::AuthenticationResult;
use route::Resolver;

/// Verifies the signatures of a message.
pub async fn verify(resolver: &dyn Resolver, mail: &Mail<'_>, now_unix_secs: u64) -> Vec<AuthenticationResult> {
    let mut results = Vec::new();
    for field in mail.named(FIELD).take(SIGNATURES_MAX) {
        results.push(verify_one(resolver, mail, &field, now_unix_secs).await);
    }
    if results.is_empty() {
        results.push(result("dkim", "none", Some("message was not signed".to_owned())));
    }
    results
}

async fn verify_one(
    resolver: &dyn Resolver,
    mail: &Mail<'_>,
    field: &FieldView<'_>,
    now_unix_secs: u64,
) -> AuthenticationResult {
    let tags = match Tags::parse(field.value) {
        Ok(tags) => tags,
        Err(error) => return result("dkim", "permerror", Some(error.to_string())),
    };
    let (word, reason) = match judged(resolver, mail, field, &tags, now_unix_secs).await {
        Ok(0) => ("pass", None),
        Ok(unsigned) => ("pass", Some(format!("l= leaves {unsigned} octets of the body unsigned"))),
        Err(refusal) => (refusal.kind.word(), Some(refusal.reason)),
    };
    let mut made = result("dkim", word, reason);
    add_props(&mut made, &tags);
    made
}

/// How many octets of the body are not signed, when the signature holds.
async fn judged(
    resolver: &dyn Resolver,
    mail: &Mail<'_>,
    field: &FieldView<'_>,
    tags: &Tags<'_>,
    now_unix_secs: u64,
) -> Result<usize, Refusal> {
    let header = DkimHeader::parse(tags)?;
    header.check_time(now_unix_secs)?;
    // What costs no question comes first.
    let unsigned = header.signature.check_body(mail)?;
    let key = key::published(resolver, &header.signature.key, header.signature.algorithm).await?;
    header.check_key(&key)?;
    header.signature.check_header(mail, field, &key)?;
    Ok(unsigned)
}

/// What is said of a signature (RFC 8601 section 2.7.1, RFC 6008), whatever came of it.
fn add_props(made: &mut AuthenticationResult, tags: &Tags) {
    for (prop, tag) in [("header.d", "d"), ("header.s", "s"), ("header.a", "a")] {
        add_prop(made, prop, tags.get(tag).unwrap_or_default());
    }
    match (tags.get("i"), tags.get("d")) {
        (Some(identity), _) => add_prop(made, "header.i", identity),
        (None, Some(domain)) => add_prop(made, "header.i", &format!("@{domain}")),
        (None, None) => {}
    }
    let start: String = without_blanks(tags.get("b").unwrap_or_default()).chars().take(SHOWN_SIGNATURE_CHARS).collect();
    add_prop(made, "header.b", &start);
}

/// The field, in lower case.
const FIELD: &str = "dkim-signature";

/// Signatures of a message that are looked at, from the top.
pub const SIGNATURES_MAX: usize = 10;

/// So much of `b=` tells signatures apart (RFC 6008).
const SHOWN_SIGNATURE_CHARS: usize = 8;
