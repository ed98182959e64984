//! One more link of a chain (RFC 8617 section 5.1).
//!
//! In: a message as it leaves, a signer, our name and our results, the time. Out: three fields to prepend; none when the chain
//! was broken before: nothing can mend it, and the message stays as it is. Can fail: [`SealError`].

use super::sets::{ARC_SETS_MAX, sets};
use super::{ChainStatus, verify};
use crate::mail::Mail;
use mime::FieldView;
use mimepart::{AuthenticationResult, AuthenticationResults, FieldKind, FieldValue, PartError};
use route::Resolver;
use sender_auth::{ChainValidation, Scratch, SignError, Signer};

/// What a set is made from.
#[derive(Clone, Copy, Debug)]
pub struct SealInput<'a> {
    pub signer: &'a Signer,
    /// Who checked: the name at the start of the results.
    pub server_id: &'a str,
    /// What was found when the message came.
    pub results: &'a [AuthenticationResult],
    pub now_unix_secs: u64,
}

/// What comes of sealing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sealing {
    /// `ARC-Authentication-Results`, `ARC-Message-Signature`, `ARC-Seal`, to be prepended in this order, one before the other;
    /// each with its final CRLF.
    Sealed { fields: [Vec<u8>; 3] },
    /// The chain is broken; why.
    Broken { reason: String },
}

/// Why a message is not sealed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    #[error("arc_seal: the chain has {ARC_SETS_MAX} sets, expected fewer")]
    Full,
    #[error("arc_seal: server_id and auth_results cannot be written: {0}")]
    Results(#[from] PartError),
    #[error("arc_seal: {0}")]
    Sign(#[from] SignError),
}

/// Checks the chain and continues it.
///
/// # Errors
/// [`SealError`]; the message is as good as before.
pub async fn seal(resolver: &dyn Resolver, mail: &Mail<'_>, input: SealInput<'_>) -> Result<Sealing, SealError> {
    let found = verify(resolver, mail).await;
    let validation = match found.disposition {
        ChainStatus::None => ChainValidation::None,
        ChainStatus::Pass => ChainValidation::Pass,
        ChainStatus::Fail => return Ok(Sealing::Broken { reason: found.result.reason.unwrap_or_default() }),
    };
    if found.sets >= ARC_SETS_MAX {
        return Err(SealError::Full);
    }
    next_set(mail, validation, found.sets + 1, input)
}

/// The fields of a set behind a chain that holds. Asks nobody.
fn next_set(
    mail: &Mail<'_>,
    validation: ChainValidation,
    instance: usize,
    input: SealInput<'_>,
) -> Result<Sealing, SealError> {
    let results = results_field(instance, input)?;
    let earlier = sets(mail).unwrap_or_default();
    let earlier: Vec<FieldView<'_>> =
        earlier.iter().flat_map(|set| [set.results, set.message_signature, set.seal_field]).collect();
    let sealed = input.signer.seal_arc(
        input.now_unix_secs,
        (instance, validation),
        &earlier,
        &view(&results),
        (mail.headers(), mail.body()),
        mail.hashes(),
        &mut Scratch::new(),
    )?;
    Ok(Sealing::Sealed { fields: [results, sealed.message_signature, sealed.seal] })
}

/// `ARC-Authentication-Results: i=1; mx.example; spf=pass ...` (section 4.1.1).
fn results_field(instance: usize, input: SealInput<'_>) -> Result<Vec<u8>, PartError> {
    let (serv_id, results) = (input.server_id.to_owned(), input.results.to_vec());
    let value = FieldValue::AuthenticationResults(AuthenticationResults { serv_id, version: None, results });
    let (text, _) = FieldKind::AuthenticationResults.write(RESULTS_FIELD, &value)?;
    Ok(format!("{RESULTS_FIELD}: i={instance}; {text}\r\n").into_bytes())
}

/// A field made here, as fields are looked at.
fn view(field: &[u8]) -> FieldView<'_> {
    let (name, rest) = field.split_at_checked(RESULTS_FIELD.len()).unwrap_or_default();
    let value = rest.strip_prefix(b": ").unwrap_or(rest);
    FieldView { name, value: value.strip_suffix(b"\r\n").unwrap_or(value), whole: field }
}

const RESULTS_FIELD: &str = "ARC-Authentication-Results";
