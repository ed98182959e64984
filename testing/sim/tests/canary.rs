//! The oracle can fail: each deliberate mistake of a driver is noticed, and for the right reason.

use sim::{Options, Sabotage, run};
use std::panic::catch_unwind;

/// The first violation within [`SEEDS`] seeds whose text holds `expected`, and how many others came before.
fn caught(sabotage: Sabotage, expected: &str) -> Result<u64, Vec<String>> {
    let options = Options { sabotage, ..Options::default() };
    let mut others = Vec::new();
    for seed in 0..SEEDS {
        let outcome = catch_unwind(|| run(seed, options));
        match outcome.map(|o| o.violation).unwrap_or_else(|_| Some("panic".to_owned())) {
            Some(violation) if violation.contains(expected) => return Ok(seed),
            Some(violation) => others.push(violation),
            None => {}
        }
    }
    Err(others)
}

#[test]
fn every_mistake_is_noticed() {
    for (sabotage, expected) in [
        (Sabotage::PromiseBeforeCommit, "was promised and never durable"),
        (Sabotage::LyingDisk, "is lost"),
        (Sabotage::ForgetInHand, "is []"),
        (Sabotage::RemoveBeforeAttempt, "removal was synced"),
        (Sabotage::UnknownIsPermanent, "bounced though it was delivered"),
        (Sabotage::UnknownIsDelivered, "counts as delivered and no peer took it"),
        (Sabotage::EndsUnreported, "is left"),
        (Sabotage::RetryTwice, "\"waiting\", \"waiting\""),
        (Sabotage::UnmarkedRecipients, "to do, who was settled long ago"),
        (Sabotage::UnmarkedAttempts, "came back with Plan"),
        (Sabotage::OpenTwice, "connections exist, the queue knows"),
        (Sabotage::MarkVolatile, "is tried for recipient 0, who is settled"),
        (Sabotage::ForgetVolatile, "was in memory only when the server was stopped"),
        (Sabotage::SpoolWhole, "is spooled with settled recipients"),
        (Sabotage::PassAll, "before it is due"),
        (Sabotage::ForgetEnds, "and ended at"),
        (Sabotage::DeafSessions, "has held a message too long"),
        (Sabotage::SetAsideUnread, "is set aside and nothing damaged it"),
    ] {
        match caught(sabotage, expected) {
            Ok(seed) => println!("{sabotage:?} is noticed at seed {seed}"),
            Err(others) => panic!("{sabotage:?} went unnoticed; seen: {:?}", &others[..others.len().min(8)]),
        }
    }
}

/// Seeds each mistake has to hide in.
const SEEDS: u64 = 1_000;
