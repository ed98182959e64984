//! Recovering from one state, and what the ledger says to what comes back.

use super::ledger::{Expected, checksum};
use super::load::settings;
use super::states::CutDisk;
use fastrand::Rng;
use message::MessageId;
use spool::{Damage, RecoveredMessage, SegmentLog, SpoolError};
use std::collections::{BTreeMap, BTreeSet};

/// What is wrong with a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// Acknowledged, not removed, and not there.
    Lost(MessageId),
    /// There, with other content, recipients, attempts or due time than it may have.
    Damaged(MessageId, &'static str),
    /// There, and never appended; or removed, acknowledged as such, and back.
    Phantom(MessageId),
    /// A transaction that was not acknowledged is there in part.
    Half(u32),
    /// Recovery itself failed, or took what a cut leaves for damage.
    Recovery(String),
}

/// What all states come to.
#[derive(Default)]
pub(super) struct Verdict {
    pub cuts: u64,
    pub states: u64,
    pub messages: u64,
    pub must: u64,
    pub torn_states: u64,
    pub failures: Vec<Failure>,
    /// Of all failures, also those not kept.
    pub wrong: BTreeMap<&'static str, u64>,
}

/// A state that is wrong.
pub(super) struct Failure {
    /// The call that the cut met.
    pub cut: usize,
    /// Which of the states rebuilt for that cut.
    pub state: u64,
    pub wrong: Vec<Wrong>,
    pub disk: CutDisk,
}

/// What one recovery brought.
#[derive(Debug, Default)]
pub(super) struct Recovered {
    pub messages: u64,
    pub torn: bool,
    pub wrong: Vec<Wrong>,
}

/// Recovers and compares.
pub(super) fn check(disk: &CutDisk, expected: &BTreeMap<MessageId, Expected>) -> Recovered {
    let mut nonces = Rng::with_seed(NONCES_SEED);
    let opened = SegmentLog::open(disk.clone(), settings(), Box::new(move || nonces.u64(..)));
    let (log, recovery) = match opened {
        Ok(opened) => opened,
        Err(error) => return Recovered { wrong: vec![Wrong::Recovery(error.to_string())], ..Recovered::default() },
    };
    let mut wrong = Vec::new();
    if recovery.damage != Damage::default() {
        wrong.push(Wrong::Recovery(format!("took it for damage: {:?}", recovery.damage)));
    }
    let mut found = BTreeSet::new();
    for message in &recovery.messages {
        found.insert(message.id);
        match expected.get(&message.id) {
            None => wrong.push(Wrong::Phantom(message.id)),
            Some(expected) if expected.must_not => wrong.push(Wrong::Phantom(message.id)),
            Some(expected) => wrong.extend(compare(&log, message, expected).err()),
        }
    }
    let lost = expected.iter().filter(|(id, expected)| expected.must && !found.contains(id));
    wrong.extend(lost.map(|(id, _)| Wrong::Lost(*id)));
    wrong.extend(halves(&found, expected).into_iter().map(Wrong::Half));
    Recovered { messages: found.len() as u64, torn: recovery.torn_tail_octets > 0, wrong }
}

/// A message that is there against what it may be.
fn compare(log: &SegmentLog<CutDisk>, message: &RecoveredMessage, expected: &Expected) -> Result<(), Wrong> {
    let damaged = |what| Wrong::Damaged(message.id, what);
    let resident = log.read(message.id, message.place).map_err(|error| match error {
        SpoolError::Damaged { .. } => damaged("does not read as written"),
        _ => damaged("does not read"),
    })?;
    if (resident.head.len() + resident.body.len()) as u64 != expected.octets
        || checksum(&resident.head, &resident.body) != expected.crc
    {
        return Err(damaged("other content"));
    }
    if resident.envelope.recipients.len() != usize::from(expected.recipients) {
        return Err(damaged("other recipients"));
    }
    if !expected.plans.contains(&(message.attempts, message.due)) {
        return Err(damaged("other attempts or due time"));
    }
    if !expected.settled.iter().all(|r| message.settled.contains(*r)) {
        return Err(damaged("a settled recipient came back"));
    }
    let may = |r: u16| !message.settled.contains(r) || expected.maybe_settled.contains(&r);
    if !(0..expected.recipients).all(may) {
        return Err(damaged("a recipient is settled that nobody settled"));
    }
    Ok(())
}

/// Transactions without an answer that are there in part.
fn halves(found: &BTreeSet<MessageId>, expected: &BTreeMap<MessageId, Expected>) -> BTreeSet<u32> {
    let unacked = expected.iter().filter(|(_, expected)| expected.unacked);
    let (there, missing): (Vec<_>, Vec<_>) = unacked.partition(|(id, _)| found.contains(id));
    let there: BTreeSet<u32> = there.into_iter().map(|(_, expected)| expected.transaction).collect();
    missing.into_iter().map(|(_, expected)| expected.transaction).filter(|t| there.contains(t)).collect()
}

impl Wrong {
    /// Its name in counts.
    pub fn kind(&self) -> &'static str {
        match self {
            Wrong::Lost(_) => "lost",
            Wrong::Damaged(..) => "damaged",
            Wrong::Phantom(_) => "phantom",
            Wrong::Half(_) => "half",
            Wrong::Recovery(_) => "recovery",
        }
    }

    /// In one line.
    pub fn told(&self) -> String {
        match self {
            Wrong::Lost(id) => format!("{id} was acknowledged and is lost"),
            Wrong::Damaged(id, what) => format!("{id}: {what}"),
            Wrong::Phantom(id) => format!("{id} is there and must not be"),
            Wrong::Half(transaction) => format!("transaction {transaction} is there in part"),
            Wrong::Recovery(text) => format!("recovery: {text}"),
        }
    }
}

impl Verdict {
    /// True when nothing is wrong and something was looked at.
    pub fn is_good(&self) -> bool {
        self.wrong.is_empty() && self.states > 0 && self.must > 0
    }

    /// Messages lost, in all states.
    pub fn lost(&self) -> u64 {
        self.count("lost")
    }

    /// How often something of this kind was wrong.
    pub fn count(&self, kind: &str) -> u64 {
        self.wrong.get(kind).copied().unwrap_or(0)
    }

    /// Adds one state.
    pub fn add(&mut self, recovered: &Recovered, must: u64) {
        self.states += 1;
        self.messages += recovered.messages;
        self.must += must;
        self.torn_states += u64::from(recovered.torn);
        for wrong in &recovered.wrong {
            *self.wrong.entry(wrong.kind()).or_insert(0) += 1;
        }
    }

    /// Adds another's figures.
    pub fn join(&mut self, other: Verdict) {
        self.cuts += other.cuts;
        self.states += other.states;
        self.messages += other.messages;
        self.must += other.must;
        self.torn_states += other.torn_states;
        self.failures.extend(other.failures);
        self.failures.sort_by_key(|failure| (failure.cut, failure.state));
        other.wrong.into_iter().for_each(|(kind, count)| *self.wrong.entry(kind).or_insert(0) += count);
    }
}

/// What new segments of a recovered log would be known by.
const NONCES_SEED: u64 = 77;
