//! ARC (RFC 8617): who handled the message before, and what they found; and one more link in that chain.
//!
//! In: a message, a resolver; to seal, also a signer, our name and our results. Out: [`ArcCheck`]; the three fields of a new
//! set. Can fail: sealing ([`SealError`]).
//! The rooms below: `sets` (the fields of the chain, in order), `verify`, `seal`.

mod seal;
mod sets;
mod verify;

pub use seal::{SealError, SealInput, Sealing, seal};
pub use sets::{ARC_FIELDS_MAX, ARC_SETS_MAX};
pub use verify::{check_own, verify};

use mimepart::AuthenticationResult;
use serde::Serialize;

/// The status of a chain (RFC 8617 section 4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ChainStatus {
    /// There is no chain.
    None,
    /// It is whole, and the message is as its last link left it.
    Pass,
    /// It is broken.
    Fail,
}

impl ChainStatus {
    /// The word used in results.
    pub fn word(self) -> &'static str {
        match self {
            ChainStatus::None => "none",
            ChainStatus::Pass => "pass",
            ChainStatus::Fail => "fail",
        }
    }
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ArcCheck {
    pub disposition: ChainStatus,
    /// Method `arc`; of a broken chain with the first reason.
    pub result: AuthenticationResult,
    /// How many sets there are; 0 when that cannot be said.
    pub sets: usize,
}
