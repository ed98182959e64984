//! The one way out: outcomes of an attempt become dispositions of recipients.
//!
//! Pure: message, outcomes, configuration and now go in; log entries, what to mark and what
//! comes next go out. Every attempt of every protocol ends here, and so does every message
//! that could not be tried; grep for `settle(` finds all places where mail leaves.

use crate::retry::{self, RetryPlan};
use crate::schedule;
use clock::{Duration, Now, WallTime};
use config::{Moment, QueueConfig, Scheduling};
use message::Message;
use record::RecordType;
use smtp_wire::{EnhancedCode, Reply};

/// What a reply means for a recipient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The remote took responsibility.
    Delivered,
    /// To be tried again.
    Transient,
    /// Never to be tried again.
    Permanent,
}

/// What one attempt made of one recipient.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Index in the envelope.
    pub recipient: u16,
    /// The classification.
    pub verdict: Verdict,
    /// The deciding reply, the remote's or our own.
    pub reply: Reply,
    /// The command it answered, for the log.
    pub command: Option<String>,
}

/// One log entry: recipients that got the same reply.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Delivery, Bounce, TransientFailure or Expiration.
    pub kind: RecordType,
    /// Indices in the envelope.
    pub recipients: Vec<u16>,
    /// The reply they share.
    pub reply: Reply,
    /// The command it answered.
    pub command: Option<String>,
}

/// What becomes of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// All recipients are settled: remove it from the spool.
    Done,
    /// Try the rest again after this long; the attempt is counted.
    Retry(Duration),
}

/// The result of [`settle`].
#[derive(Clone, Debug, PartialEq)]
pub struct Settlement {
    /// What to log, in order.
    pub entries: Vec<Entry>,
    /// Recipients settled by this attempt, to be marked in the spool when others are left.
    pub newly_settled: Vec<u16>,
    /// What comes next.
    pub next: Next,
}

/// Applies `outcomes` to `message`. Recipients without an outcome stay pending. The caller
/// counts the attempt (`message.attempts`) after logging, as KumoMTA's records expect.
/// `random` spreads retries.
pub fn settle(
    message: &mut Message,
    outcomes: Vec<Outcome>,
    config: &QueueConfig,
    now: Now,
    random: u64,
) -> Settlement {
    let (mut entries, mut newly_settled) = apply(message, outcomes);
    if message.is_settled() {
        return Settlement { entries, newly_settled, next: Next::Done };
    }
    match plan(message, config, now, random) {
        RetryPlan::After(delay) => Settlement { entries, newly_settled, next: Next::Retry(delay) },
        RetryPlan::Expire => {
            let last = entries.iter().rev().find(|e| e.kind == RecordType::TransientFailure).map(|e| &e.reply);
            let expiration = expire_with(message, last);
            newly_settled.extend(&expiration.recipients);
            entries.push(expiration);
            Settlement { entries, newly_settled, next: Next::Done }
        }
    }
}

/// When the rest is tried again: after the queue's delay, and when the message's own constraints allow it.
fn plan(message: &Message, config: &QueueConfig, now: Now, random: u64) -> RetryPlan {
    let age = now.wall.saturating_since(message.created());
    let Some(scheduling) = schedule::of_message(message) else {
        return retry::after_attempt(config, message.attempts, age, random);
    };
    let end = schedule::end(&scheduling);
    let delay = match end {
        // Its own end counts, not that of its queue.
        Some(_) => retry::delay_after_attempt(config, message.attempts, random),
        None => match retry::after_attempt(config, message.attempts, age, random) {
            RetryPlan::Expire => return RetryPlan::Expire,
            RetryPlan::After(delay) => delay,
        },
    };
    let due = schedule::next_attempt(&scheduling, now.wall + delay);
    match end.filter(|end| due >= end.at) {
        None => RetryPlan::After(due.saturating_since(now.wall)),
        Some(end) if end.is_deadline => last_attempt(&scheduling, end.at, now.wall),
        Some(_) => RetryPlan::Expire,
    }
}

/// One attempt more shortly before a deadline that the queue's next attempt would miss. Who failed less than two
/// [`LAST_ATTEMPT`]s before it had that one, or is too late for it: so there is one at most.
fn last_attempt(scheduling: &Scheduling, deadline: WallTime, now: WallTime) -> RetryPlan {
    if deadline.saturating_since(now) < LAST_ATTEMPT * 2 {
        return RetryPlan::Expire;
    }
    let due = schedule::next_attempt(scheduling, now + (deadline.saturating_since(now) - LAST_ATTEMPT));
    match due >= deadline {
        true => RetryPlan::Expire,
        false => RetryPlan::After(due.saturating_since(now)),
    }
}

/// Applies outcomes without planning what comes next: what to log, in order, and the recipients that are settled now.
pub fn apply(message: &mut Message, outcomes: Vec<Outcome>) -> (Vec<Entry>, Vec<u16>) {
    let mut entries: Vec<Entry> = Vec::new();
    let mut newly_settled = Vec::new();
    for outcome in outcomes {
        if outcome.verdict != Verdict::Transient && message.settled.insert(outcome.recipient) {
            newly_settled.push(outcome.recipient);
        }
        add(&mut entries, outcome);
    }
    (entries, newly_settled)
}

/// Settles every pending recipient as expired.
pub fn expire(message: &mut Message) -> Entry {
    expire_with(message, None)
}

/// Settles every pending recipient as bounced by an operator (KumoMTA behaviour).
pub fn bounce(message: &mut Message, reason: &str) -> Entry {
    let recipients = settle_pending(message);
    let text = format!("Administrator bounced with reason: {reason}");
    let reply = Reply::enhanced(551, EnhancedCode::new(5, 7, 1), text);
    Entry { kind: RecordType::AdminBounce, recipients, reply, command: None }
}

/// The same outcome for every pending recipient.
pub fn all_pending(message: &Message, verdict: Verdict, reply: &Reply) -> Vec<Outcome> {
    let outcome = |recipient| Outcome { recipient, verdict, reply: reply.clone(), command: None };
    message.pending().map(outcome).collect()
}

fn expire_with(message: &mut Message, last: Option<&Reply>) -> Entry {
    let recipients = settle_pending(message);
    let mut text = match deadline_of(message) {
        None => "Next delivery time would be at an age beyond max_age".to_owned(),
        Some(deadline) => format!("Not delivered by {deadline} (deliver_by)"),
    };
    text.extend(last.map(|reply| format!(". Last response: {reply}")));
    Entry {
        kind: RecordType::Expiration,
        recipients,
        reply: Reply::enhanced(551, EnhancedCode::new(5, 4, 7), text),
        command: None,
    }
}

/// By when a message is to be delivered whose content is in memory.
pub fn deadline_of(message: &Message) -> Option<Moment> {
    schedule::of_message(message).and_then(|scheduling| scheduling.deliver_by)
}

/// Settles every pending recipient; which ones.
fn settle_pending(message: &mut Message) -> Vec<u16> {
    let recipients: Vec<u16> = message.pending().collect();
    for recipient in &recipients {
        message.settled.insert(*recipient);
    }
    recipients
}

fn add(entries: &mut Vec<Entry>, outcome: Outcome) {
    let kind = match outcome.verdict {
        Verdict::Delivered => RecordType::Delivery,
        Verdict::Transient => RecordType::TransientFailure,
        Verdict::Permanent => RecordType::Bounce,
    };
    let same = |e: &&mut Entry| e.kind == kind && e.reply == outcome.reply;
    match entries.iter_mut().find(same) {
        Some(entry) => entry.recipients.push(outcome.recipient),
        None => entries.push(Entry {
            kind,
            recipients: vec![outcome.recipient],
            reply: outcome.reply,
            command: outcome.command,
        }),
    }
}

/// How long before a deadline the last attempt is made.
const LAST_ATTEMPT: Duration = Duration::from_secs(30);
