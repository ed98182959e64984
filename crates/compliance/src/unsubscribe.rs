//! One-click unsubscribing of bulk mail (RFC 8058): the two fields, and that a signature covers them.
//!
//! In: a message and what those of its signatures claim that have a key. Out: findings. Asks nobody, cannot fail.

use crate::{Demands, Report, Rule, Subject};
use mime::{FieldView, HeaderView};
use sender_check::dkim::Claim;

pub(crate) fn check(subject: &Subject<'_>, demands: &Demands, signed: &[&Claim], report: &mut Report) {
    let headers = subject.headers;
    if !demands.is_bulk.unwrap_or_else(|| looks_bulk(headers)) {
        return;
    }
    match headers.first(LIST_UNSUBSCRIBE) {
        None => report.find(Rule::Unsubscribe, "there is no List-Unsubscribe"),
        Some(field) if !has_https(&field) => report.find(Rule::Unsubscribe, "List-Unsubscribe has no https URI"),
        Some(_) => {}
    }
    match headers.first(LIST_UNSUBSCRIBE_POST) {
        None => report.find(Rule::UnsubscribePost, "there is no List-Unsubscribe-Post"),
        Some(field) if !field.value.trim_ascii().eq_ignore_ascii_case(ONE_CLICK) => {
            report.find(Rule::UnsubscribePost, "List-Unsubscribe-Post is not List-Unsubscribe=One-Click");
        }
        Some(_) => {}
    }
    let names = [LIST_UNSUBSCRIBE, LIST_UNSUBSCRIBE_POST].map(str::to_ascii_lowercase);
    let is_signed = signed.iter().any(|claim| names.iter().all(|name| claim.covers(name)));
    if !is_signed && names.iter().all(|name| headers.first(name).is_some()) {
        report.find(Rule::UnsubscribeSigned, "no signature covers List-Unsubscribe and List-Unsubscribe-Post");
    }
}

/// The message says of itself that it went to many.
fn looks_bulk(headers: HeaderView<'_>) -> bool {
    let is_many = |field: FieldView<'_>| {
        let word = field.value.trim_ascii();
        word.eq_ignore_ascii_case(b"bulk") || word.eq_ignore_ascii_case(b"list")
    };
    headers.iter().any(|field| {
        ["List-Id", LIST_UNSUBSCRIBE, LIST_UNSUBSCRIBE_POST].iter().any(|name| field.is_named(name))
            || (field.is_named("Precedence") && is_many(field))
    })
}

/// One of the URIs in angle brackets is an `https` one with a host; folds may be anywhere in it (RFC 2369 section 2).
fn has_https(field: &FieldView<'_>) -> bool {
    field.value.split(|octet| *octet == b'<').skip(1).any(|rest| {
        let Some(end) = rest.iter().position(|octet| *octet == b'>') else { return false };
        let uri: Vec<u8> = rest[..end].iter().copied().filter(|octet| !octet.is_ascii_whitespace()).collect();
        let host =
            uri.get(..HTTPS.len()).filter(|start| start.eq_ignore_ascii_case(HTTPS)).map(|_| &uri[HTTPS.len()..]);
        host.and_then(|host| host.first()).is_some_and(|first| first.is_ascii_alphanumeric() || *first == b'[')
    })
}

const LIST_UNSUBSCRIBE: &str = "List-Unsubscribe";
const LIST_UNSUBSCRIBE_POST: &str = "List-Unsubscribe-Post";
const ONE_CLICK: &[u8] = b"List-Unsubscribe=One-Click";
const HTTPS: &[u8] = b"https://";
