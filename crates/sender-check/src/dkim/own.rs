//! Signatures of one's own: held against the message and the public half of the key before they leave, and read for those who
//! want to know what they claim.
//!
//! In: a field, a message, a key. Out: whether it holds, as a verifier finds; what it claims; whether its key is published. Can
//! fail: with the reason a verifier would give.

use super::header::DkimHeader;
use super::key::{PublicKey, published};
use crate::mail::Mail;
use crate::results::Kind;
use crate::signature::KeyName;
use crate::tags::Tags;
use mime::FieldView;
use route::Resolver;

/// Verifies a signature that is not on the message yet, with a key that is at hand.
///
/// # Errors
/// Why a verifier would not believe it.
pub fn check_own(mail: &Mail<'_>, field: &FieldView<'_>, key: &PublicKey, now_unix_secs: u64) -> Result<(), String> {
    let tags = Tags::parse(field.value).map_err(|error| error.to_string())?;
    let checked = || {
        let header = DkimHeader::parse(&tags)?;
        header.check_time(now_unix_secs)?;
        header.signature.check_body(mail)?;
        header.check_key(key)?;
        header.signature.check_header(mail, field, key)
    };
    checked().map_err(|refusal| refusal.reason)
}

/// What a signature says of itself; whether it holds is another question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim(DkimHeader);

/// Why a key is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyTrouble {
    /// DNS did not answer.
    Unknown(String),
    /// There is none that fits.
    None(String),
}

impl Claim {
    /// Reads the field of a signature.
    ///
    /// # Errors
    /// Why a verifier would not look at it.
    pub fn read(field: &FieldView<'_>, now_unix_secs: u64) -> Result<Claim, String> {
        let tags = Tags::parse(field.value).map_err(|error| error.to_string())?;
        let header = DkimHeader::parse(&tags).map_err(|refusal| refusal.reason)?;
        header.check_time(now_unix_secs).map_err(|refusal| refusal.reason)?;
        Ok(Claim(header))
    }

    /// `d=`, in lower case.
    pub fn domain(&self) -> &str {
        &self.name().domain
    }

    /// `s=`.
    pub fn selector(&self) -> &str {
        &self.name().selector
    }

    /// `h=` has this name (in lower case).
    pub fn covers(&self, name: &str) -> bool {
        self.0.signature.names.iter().any(|signed| signed == name)
    }

    /// Asks whether its key is published.
    ///
    /// # Errors
    /// It is not, or that is not known.
    pub async fn find_key(&self, resolver: &dyn Resolver) -> Result<(), KeyTrouble> {
        let found = published(resolver, self.name(), self.0.signature.algorithm).await;
        let checked = found.and_then(|key| self.0.check_key(&key));
        checked.map_err(|refusal| match refusal.kind {
            Kind::TempError => KeyTrouble::Unknown(refusal.reason),
            _ => KeyTrouble::None(refusal.reason),
        })
    }

    fn name(&self) -> &KeyName {
        &self.0.signature.key
    }
}
