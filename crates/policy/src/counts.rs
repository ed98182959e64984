//! What a policy counts of itself, for whoever shows it: its interpreters, its caches, its signatures, its questions to Redis.
//!
//! Plain numbers of one moment. What they are called in metrics is the engine's.

use watched::Times;

/// All of it; a policy that counts nothing has the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyCounts {
    /// Its interpreters, where it has such.
    pub states: Option<StateCounts>,
    /// Caches of `kumo.memoize`, by name; their number is bounded.
    pub memos: Vec<(String, CacheCounts)>,
    /// Signers that are kept.
    pub signers: CacheCounts,
    /// What was done for signatures, where any was done.
    pub signing: Option<SigningTimes>,
    /// Questions to Redis: who asks, and how the question ended.
    pub redis: Vec<([&'static str; 2], Times)>,
}

/// Interpreters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateCounts {
    /// Those there are.
    pub alive: u64,
    /// Of these, those that nobody uses now.
    pub spare: u64,
    /// How often the policy was loaded into a new one.
    pub loaded: u64,
}

/// A cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Questions that it answered.
    pub hits: u64,
    /// Questions that it did not.
    pub misses: u64,
    /// Answers that were put in.
    pub populated: u64,
    /// Answers that are in it.
    pub len: u64,
}

/// How long the parts of signing take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SigningTimes {
    /// Making a signer, once its key is there.
    pub creation: Times,
    /// Reading a key.
    pub key_fetch: Times,
    /// A signature, with the look at the message.
    pub sign: Times,
}
