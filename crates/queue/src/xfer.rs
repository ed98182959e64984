//! Messages on their way to another node (KumoMTA's xfer): the queue they wait in, and what is remembered of where they were.
//!
//! A message that is to be transferred moves to a queue named after the target. What steered it before stands in its metadata
//! under `xfer_queue_info` (KumoMTA behaviour): the other node, or a change of mind, gives it back. A transfer has two steps,
//! so that nothing is lost or doubled: the other node keeps the message without delivering it; then this node notes that in the
//! message ([`hand_over`]), from where on it does nothing but tell the other node to go ahead. The other node's copy bears its
//! origin ([`set_arriving`]) until then.
//!
//! Pure: metadata in, metadata out.

use crate::schedule;
use clock::WallTime;
use message::{MessageId, Meta};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What a message had before it was sent off, beside what steers its queue's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saved {
    /// Attempts made.
    pub attempts: u16,
    /// When it was due.
    pub due: WallTime,
}

/// The queue of messages that go to the node at `target`.
pub fn queue_for(target: &str) -> String {
    format!("{target}{SUFFIX}")
}

/// The node to which messages of a queue go; `None` for every other queue.
pub fn target_of(queue: &str) -> Option<&str> {
    // A name that is made of what clients say, with a tenant or a domain of theirs, has an `@`.
    queue.strip_suffix(SUFFIX).filter(|target| check_target(target) == Ok(target))
}

/// A target as queues are named after it: without a final slash.
///
/// # Errors
/// What is wrong with it, and what was expected.
pub fn check_target(target: &str) -> Result<&str, String> {
    let Some(host) = SCHEMES.iter().find_map(|scheme| target.strip_prefix(scheme)) else {
        return Err(format!("target {target:?}: expected a URL beginning with http:// or https://"));
    };
    let host = host.strip_suffix('/').unwrap_or(host);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-:[]_".contains(c);
    if host.is_empty() || target.len() > TARGET_OCTETS_MAX || !host.chars().all(is_plain) {
        return Err(format!("target {target:?}: expected http://HOST[:PORT] or https://HOST[:PORT]"));
    }
    Ok(target.strip_suffix('/').unwrap_or(target))
}

/// Sends a message off: its queue is that of the target from now on. One that was sent off before keeps what is remembered.
pub fn send_off(meta: &mut Meta, saved: Saved, target: &str) {
    if meta.get(INFO).is_none() {
        let value = |name: &str| meta.get(name).cloned().unwrap_or_default();
        let mut info: serde_json::Map<String, Value> =
            STEERING.iter().map(|name| ((*name).to_owned(), value(name))).collect();
        info.insert(SCHEDULE.to_owned(), value(schedule::SCHEDULING));
        info.insert(ATTEMPTS.to_owned(), saved.attempts.into());
        info.insert(DUE.to_owned(), saved.due.unix_micros().into());
        for name in STEERING.iter().chain([&schedule::SCHEDULING]) {
            unset(meta, name);
        }
        meta.set(INFO, info);
    }
    meta.set("queue", queue_for(target));
}

/// Gives a message back what it had before it was sent off; `None` for one that was not.
pub fn bring_back(meta: &mut Meta) -> Option<Saved> {
    let info = meta.get(INFO)?.as_object()?.clone();
    let value = |name: &str| info.get(name).cloned().unwrap_or_default();
    for name in STEERING {
        restore(meta, name, value(name));
    }
    restore(meta, schedule::SCHEDULING, value(SCHEDULE));
    unset(meta, INFO);
    unset(meta, REASON);
    let attempts = value(ATTEMPTS).as_u64().and_then(|n| u16::try_from(n).ok()).unwrap_or_default();
    Some(Saved { attempts, due: WallTime::from_unix_micros(value(DUE).as_i64().unwrap_or_default()) })
}

/// Notes why policy sends a message off or brings it back, for the record of its move.
pub fn set_reason(meta: &mut Meta, reason: &str) {
    meta.set(REASON, reason);
}

/// That reason, which is told once.
pub fn take_reason(meta: &mut Meta) -> Option<String> {
    let reason = meta.get(REASON)?.as_str()?.to_owned();
    unset(meta, REASON);
    Some(reason)
}

/// The target of a message, as its metadata has it.
pub fn target(meta: &Meta) -> Option<&str> {
    meta.string("queue").ok().flatten().and_then(target_of)
}

/// How another node knows a message that it keeps for this one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Its id there.
    pub id: String,
    /// That node.
    pub node: String,
    /// The origin under which it is kept.
    pub origin: String,
}

/// What has become of a message on the node that keeps it for another, as that is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArrivalState {
    /// It is delivered from there.
    Released,
    /// It is forgotten.
    Dropped,
    /// Nothing is known of it.
    Unknown,
}

/// How the other node knows the message, once that node has it durably: nobody else may deliver it any more.
pub fn handed_over(meta: &Meta) -> Option<Kept> {
    Kept::deserialize(meta.get(INFO)?.get(HANDED_OVER)?).ok()
}

/// Notes that the other node has the message.
pub fn hand_over(meta: &mut Meta, kept: &Kept) {
    let mut info = meta.get(INFO).and_then(Value::as_object).cloned().unwrap_or_default();
    info.insert(HANDED_OVER.to_owned(), json!(kept));
    meta.set(INFO, info);
}

/// The other node has it no more: the message is this node's again.
pub fn take_back(meta: &mut Meta) {
    let Some(mut info) = meta.get(INFO).and_then(Value::as_object).cloned() else { return };
    info.remove(HANDED_OVER);
    meta.set(INFO, info);
}

/// The origin of a message that arrives: node, id there, and what tells this content and metadata from those the same message
/// may have later.
pub fn origin(node: &str, id: MessageId, fingerprint: &str) -> String {
    format!("{node}/{id}/{fingerprint}")
}

/// Notes from where a message arrives, and how often it was tried there.
pub fn set_arriving(meta: &mut Meta, origin: &str, attempts: u16) {
    meta.set(ARRIVING, json!({ORIGIN: origin, ATTEMPTS: attempts}));
}

/// The sender of a message has let it go: how often it was tried there.
pub fn set_arrived(meta: &mut Meta) -> u16 {
    let attempts = meta.get(ARRIVING).and_then(|arriving| arriving.get(ATTEMPTS)?.as_u64()).unwrap_or_default();
    unset(meta, ARRIVING);
    u16::try_from(attempts).unwrap_or(u16::MAX)
}

/// The origin of a message whose sender has not let it go yet.
pub fn arriving(meta: &Meta) -> Option<&str> {
    meta.get(ARRIVING)?.get(ORIGIN)?.as_str()
}

/// What the spool keeps beside a message that arrives, instead of a queue's name.
pub(crate) fn arrival_label(origin: &str) -> String {
    format!("{origin}{ARRIVAL_SUFFIX}")
}

/// The origin in such a label.
pub fn arrival_of(label: &str) -> Option<&str> {
    label.strip_suffix(ARRIVAL_SUFFIX)
}

fn restore(meta: &mut Meta, name: &str, value: Value) {
    match value {
        Value::Null => unset(meta, name),
        value => meta.set(name, value),
    }
}

/// Metadata has no other way to forget.
fn unset(meta: &mut Meta, name: &str) {
    if meta.get(name).is_some() {
        meta.set(name, Value::Null);
    }
}

/// What steers the name of a message's queue.
const STEERING: [&str; 4] = ["queue", "routing_domain", "tenant", "campaign"];
const SCHEMES: [&str; 2] = ["http://", "https://"];
/// Behind the target in a queue's name (KumoMTA behaviour).
const SUFFIX: &str = ".xfer.kumomta.internal";
/// Behind the origin in a label: no queue has such a name.
const ARRIVAL_SUFFIX: &str = "\u{0}arriving";
/// KumoMTA's name in the metadata.
const INFO: &str = "xfer_queue_info";
const SCHEDULE: &str = "schedule";
const ATTEMPTS: &str = "num_attempts";
const DUE: &str = "due";
const REASON: &str = "postrider:xfer_reason";
const HANDED_OVER: &str = "postrider:handed_over";
const ARRIVING: &str = "postrider:arriving";
const ORIGIN: &str = "origin";
/// Longest target, in octets.
const TARGET_OCTETS_MAX: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_off_comes_back_as_it_was() {
        let mut meta = Meta::new();
        for (name, value) in [("tenant", "shop"), ("campaign", "spring"), ("x_mine", "kept")] {
            meta.set(name, value);
        }
        meta.set(schedule::SCHEDULING, json!({"expires": "2026-08-04T12:00:00Z"}));
        let before = meta.clone();
        let saved = Saved { attempts: 3, due: WallTime::from_unix_micros(1_234_567_890_123) };
        send_off(&mut meta, saved, "http://b.test:8000");
        assert_eq!(target(&meta), Some("http://b.test:8000"));
        assert_eq!((meta.get("tenant"), schedule::of(&meta)), (None, None));
        assert_eq!(meta.get("x_mine"), Some(&json!("kept")));
        assert_eq!(meta.get("xfer_queue_info").map(|info| &info["tenant"]), Some(&json!("shop")));
        // A second target: what is remembered is what was before the first.
        send_off(&mut meta, Saved { attempts: 9, due: WallTime::from_unix_micros(0) }, "http://c.test");
        assert_eq!(target(&meta), Some("http://c.test"));
        assert_eq!(bring_back(&mut meta), Some(saved));
        let names = ["queue", "tenant", "campaign", "routing_domain", "x_mine", schedule::SCHEDULING, INFO];
        names.iter().for_each(|name| assert_eq!(meta.get(name), before.get(name), "{name}"));
        assert_eq!(bring_back(&mut meta), None);
    }

    #[test]
    fn a_message_is_handed_over_once_and_arrives_until_it_is_let_go() {
        let mut meta = Meta::new();
        send_off(&mut meta, Saved { attempts: 0, due: WallTime::from_unix_micros(0) }, "http://b.test");
        assert_eq!(handed_over(&meta), None);
        let kept = Kept { id: "id".into(), node: "there".into(), origin: "here".into() };
        let before = meta.clone();
        hand_over(&mut meta, &kept);
        assert_eq!(handed_over(&meta), Some(kept));
        take_back(&mut meta);
        assert_eq!((handed_over(&meta), &meta), (None, &before), "it is sent again as it was");
        let origin = origin("node", MessageId::from_bytes([1; 16]), "1-2");
        set_arriving(&mut meta, &origin, 3);
        assert_eq!(arriving(&meta), Some(&*origin));
        assert_eq!(arrival_of(&arrival_label(&origin)), Some(&*origin));
        assert_eq!(arrival_of("x.test"), None);
        assert_eq!((set_arrived(&mut meta), arriving(&meta)), (3, None));
    }

    #[test]
    fn targets_are_urls_without_a_final_slash() {
        assert_eq!(check_target("http://b.test:8000/"), Ok("http://b.test:8000"));
        assert_eq!(check_target("https://[::1]:8000"), Ok("https://[::1]:8000"));
        for wrong in [
            "",
            "b.test",
            "ftp://b.test",
            "http://",
            "http:///",
            "http://u:p@b.test",
            "http://b.test?x",
            "http://b.test/x",
            "http://b t",
        ] {
            assert!(check_target(wrong).is_err_and(|e| e.contains("expected") && e.contains(wrong)), "{wrong}");
        }
        assert_eq!(target_of(&queue_for("http://b.test:8000")), Some("http://b.test:8000"));
        for other in ["b.test", "b.test.xfer.kumomta.internal", "http://10.0.0.5:8080/:@x.xfer.kumomta.internal"] {
            assert_eq!(target_of(other), None, "{other}");
        }
    }
}
