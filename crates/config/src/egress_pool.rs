//! The options of a pool: which sources share the work.
//!
//! Owns [`EgressPool`], the argument of `kumo.make_egress_pool`. The weighted round robin is in the queue crate.

use crate::duration::Duration;
use crate::options::options;
use crate::queue_config::UNSPECIFIED;

options! {
    /// `kumo.make_egress_pool`
    pub struct EgressPool check check_pool {
        /// The pool's name.
        name: String;
        /// The sources, taken in turn by weight. Without any, messages are delayed.
        entries: Vec<EgressPoolEntry> = Vec::new();
        /// How long this definition may be cached.
        ttl: Duration = Duration::from_secs(60);
    }
}

options! {
    /// An element of `entries`
    pub struct EgressPoolEntry {
        /// The source's name.
        name: String;
        /// Its share relative to the others; 0 leaves it out.
        weight: u32 = 1;
    }
}

impl EgressPool {
    /// The pool used when a policy names none: one unspecified source.
    pub fn unspecified() -> Self {
        let entry = EgressPoolEntry { name: UNSPECIFIED.to_owned(), ..Default::default() };
        EgressPool { name: UNSPECIFIED.to_owned(), entries: vec![entry], ..Default::default() }
    }
}

fn check_pool(pool: &EgressPool) -> Result<(), String> {
    match pool.name.is_empty() {
        true => Err("invalid name \"\": expected the name of the pool".to_owned()),
        false => Ok(()),
    }
}
