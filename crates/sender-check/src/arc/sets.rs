//! The sets of a chain (RFC 8617 sections 4.2 and 5.2): three fields each, numbered from 1 without a gap.
//!
//! In: a message. Out: [`Set`]s in order, their tags read. Can fail: with the reason why the chain is broken. At most
//! [`ARC_SETS_MAX`] sets of fields of at most `LIST_BYTES_MAX` octets.

use crate::dkim::key::KeyAlgorithm;
use crate::mail::Mail;
use crate::results::Refusal;
use crate::signature::{KeyName, Made, Signature, algorithm, number, required};
use crate::tags::{LIST_BYTES_MAX, Tags};
use crate::text::shown;
use mime::FieldView;

/// One link of the chain.
#[derive(Clone, Debug)]
pub(super) struct Set<'a> {
    pub(super) results: FieldView<'a>,
    pub(super) message_signature: FieldView<'a>,
    pub(super) seal_field: FieldView<'a>,
    pub(super) seal: Seal,
}

/// An `ARC-Seal` field, read.
#[derive(Clone, Debug)]
pub(super) struct Seal {
    pub(super) key: KeyName,
    pub(super) algorithm: KeyAlgorithm,
    pub(super) made: Made,
}

impl<'a> Set<'a> {
    /// The message signature, read: only that of the last set counts.
    pub(super) fn signature(&self) -> Result<Signature, Refusal> {
        let tags = Tags::parse(self.message_signature.value).map_err(|error| Refusal::fail(error.to_string()))?;
        Signature::parse(&tags, "simple/simple", |name| name != "arc-seal")
    }
}

/// All sets, first to last; none when there is no ARC field.
pub(super) fn sets<'a>(mail: &Mail<'a>) -> Result<Vec<Set<'a>>, String> {
    let [results, signatures, seals] = FIELDS.map(|name| mail.count(name));
    let last = results.max(signatures).max(seals);
    if last > ARC_SETS_MAX {
        return Err(format!("more than {ARC_SETS_MAX} sets"));
    }
    let [results, signatures, seals] = [
        numbered(mail, RESULTS, last, results_instance)?,
        numbered(mail, MESSAGE_SIGNATURE, last, tagged_instance)?,
        numbered(mail, SEAL, last, tagged_instance)?,
    ];
    let fields = results.into_iter().zip(signatures).zip(seals);
    fields.enumerate().map(|(place, ((results, signature), seal))| set(place + 1, results, signature, seal)).collect()
}

fn set<'a>(
    instance: usize,
    results: FieldView<'a>,
    message_signature: FieldView<'a>,
    seal_field: FieldView<'a>,
) -> Result<Set<'a>, String> {
    let why = |error: String| format!("i={instance}: ARC-Seal: {error}");
    let tags = Tags::parse(seal_field.value).map_err(|error| why(error.to_string()))?;
    let seal = seal(&tags, instance).map_err(|refusal| why(refusal.reason))?;
    Ok(Set { results, message_signature, seal_field, seal })
}

fn seal(tags: &Tags, instance: usize) -> Result<Seal, Refusal> {
    let expected = if instance == 1 { "none" } else { "pass" };
    match required(tags, "cv")? {
        "fail" => return Err(Refusal::fail("cv=fail: the chain was broken when this was made")),
        found if found != expected => {
            return Err(Refusal::fail(format!("cv= is \"{}\", expected {expected}", shown(found))));
        }
        _ => {}
    }
    if tags.get("h").is_some() {
        return Err(Refusal::fail("there is a tag h="));
    }
    let algorithm = algorithm(required(tags, "a")?)?;
    Ok(Seal { key: KeyName::parse(tags)?, algorithm, made: Made::parse(tags)? })
}

/// The fields of a name by their instance, exactly one each from 1 to `last`.
fn numbered<'a>(
    mail: &Mail<'a>,
    name: &'static str,
    last: usize,
    instance: fn(&[u8]) -> Option<usize>,
) -> Result<Vec<FieldView<'a>>, String> {
    let mut found: Vec<Option<FieldView<'a>>> = vec![None; last];
    for field in mail.named(name) {
        if field.value.len() > LIST_BYTES_MAX {
            return Err(format!("{name} has more than {LIST_BYTES_MAX} octets"));
        }
        let number = instance(field.value).ok_or_else(|| format!("{name} has no i= from 1 to {ARC_SETS_MAX}"))?;
        let Some(place) = found.get_mut(number - 1) else {
            return Err(format!("{name} has i={number}, but there are {last} sets"));
        };
        if place.replace(field).is_some() {
            return Err(format!("{name} has i={number} twice"));
        }
    }
    let missing = |place: usize| format!("{name} has no i={}", place + 1);
    found.into_iter().enumerate().map(|(place, field)| field.ok_or_else(|| missing(place))).collect()
}

/// `i=` of a tag list.
fn tagged_instance(value: &[u8]) -> Option<usize> {
    instance_number(Tags::parse(value).ok()?.get("i")?)
}

/// `i=1;` before results (section 4.1.1).
fn results_instance(value: &[u8]) -> Option<usize> {
    let end = value.iter().position(|octet| *octet == b';')?;
    let (name, number) = std::str::from_utf8(&value[..end]).ok()?.split_once('=')?;
    (name.trim() == "i").then(|| instance_number(number.trim()))?
}

fn instance_number(text: &str) -> Option<usize> {
    let number = usize::try_from(number("i", text).ok()?).ok()?;
    (1..=ARC_SETS_MAX).contains(&number).then_some(number)
}

const RESULTS: &str = "arc-authentication-results";
const MESSAGE_SIGNATURE: &str = "arc-message-signature";
const SEAL: &str = "arc-seal";
const FIELDS: [&str; 3] = [RESULTS, MESSAGE_SIGNATURE, SEAL];

/// Most sets of a chain (RFC 8617 section 5.1.1.1 asks for 50).
pub const ARC_SETS_MAX: usize = 50;

/// Most fields of a chain.
pub const ARC_FIELDS_MAX: usize = 3 * ARC_SETS_MAX;
