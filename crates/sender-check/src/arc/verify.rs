//! Whether a chain holds (RFC 8617 section 5.2).
//!
//! In: a message and a resolver, or the key of the last set. Out: [`ArcCheck`], or why that set does not hold. Cannot fail. The last message signature and all seals have to verify; at the
//! first that does not, the rest is not looked at. The seals are hashed in one pass: each is made over all fields before it.

use super::sets::{Set, sets};
use super::{ArcCheck, ChainStatus};
use crate::dkim::key::{PublicKey, published};
use crate::mail::Mail;
use crate::results::{Refusal, result};
use aws_lc_rs::digest::{Context, Digest, SHA256};
use route::Resolver;
use sender_auth::{Canonicalization, push_field, push_verified_field};

/// Checks the chain of a message.
pub async fn verify(resolver: &dyn Resolver, mail: &Mail<'_>) -> ArcCheck {
    let sets = match sets(mail) {
        Ok(sets) => sets,
        Err(reason) => return check(ChainStatus::Fail, Some(reason), 0),
    };
    let Some(last) = sets.last() else { return check(ChainStatus::None, None, 0) };
    match holds(resolver, mail, &sets, last).await {
        Ok(()) => check(ChainStatus::Pass, None, sets.len()),
        Err(reason) => check(ChainStatus::Fail, Some(reason), sets.len()),
    }
}

/// Verifies the last set of a message, with a key that is at hand; `mail` is the message as it leaves, with that set.
///
/// # Errors
/// Why a verifier would not believe the chain.
pub fn check_own(mail: &Mail<'_>, key: &PublicKey) -> Result<(), String> {
    let sets = sets(mail)?;
    let (Some(last), Some(hash)) = (sets.last(), seal_hashes(&sets).pop()) else {
        return Err("there is no set".to_owned());
    };
    let message = || {
        let signature = last.signature()?;
        signature.check_body(mail)?;
        signature.check_header(mail, &last.message_signature, key)
    };
    message().map_err(|refusal: Refusal| format!("ARC-Message-Signature: {}", refusal.reason))?;
    let seal = key.verify(&hash, &last.seal.made.signature);
    seal.map_err(|refusal| format!("ARC-Seal: {}", refusal.reason))
}

fn check(disposition: ChainStatus, reason: Option<String>, sets: usize) -> ArcCheck {
    ArcCheck { disposition, result: result("arc", disposition.word(), reason), sets }
}

async fn holds(resolver: &dyn Resolver, mail: &Mail<'_>, sets: &[Set<'_>], last: &Set<'_>) -> Result<(), String> {
    let count = sets.len();
    let message = message_holds(resolver, mail, last).await;
    message.map_err(|refusal| format!("i={count}: ARC-Message-Signature: {}", refusal.reason))?;
    for (place, (set, hash)) in sets.iter().zip(seal_hashes(sets)).enumerate().rev() {
        let seal = &set.seal;
        let verified = match published(resolver, &seal.key, seal.algorithm).await {
            Ok(key) => key.verify(&hash, &seal.made.signature),
            Err(refusal) => Err(refusal),
        };
        verified.map_err(|refusal| format!("i={}: ARC-Seal: {}", place + 1, refusal.reason))?;
    }
    Ok(())
}

async fn message_holds(resolver: &dyn Resolver, mail: &Mail<'_>, last: &Set<'_>) -> Result<(), Refusal> {
    let signature = last.signature()?;
    signature.check_body(mail)?;
    let key: PublicKey = published(resolver, &signature.key, signature.algorithm).await?;
    signature.check_header(mail, &last.message_signature, &key)
}

/// What each seal is made over (section 5.1.1): the fields of all sets up to its own, its own without `b=`.
fn seal_hashes(sets: &[Set<'_>]) -> Vec<Digest> {
    let mut before = Context::new(&SHA256);
    let mut piece = Vec::new();
    let mut hashes = Vec::new();
    for set in sets {
        piece.clear();
        push_field(Canonicalization::Relaxed, &set.results, &mut piece);
        push_field(Canonicalization::Relaxed, &set.message_signature, &mut piece);
        before.update(&piece);

        piece.clear();
        push_verified_field(Canonicalization::Relaxed, &set.seal_field, set.seal.made.place.clone(), &mut piece);
        let mut with_seal = before.clone();
        with_seal.update(&piece);
        hashes.push(with_seal.finish());

        piece.clear();
        push_field(Canonicalization::Relaxed, &set.seal_field, &mut piece);
        before.update(&piece);
    }
    hashes
}
