//! The constraints a message carries on when it may be tried (`msg:set_scheduling`).
//!
//! They stand in the message's metadata under a name of their own, so they are as durable as the rest of it; whoever plans
//! an attempt has the metadata at hand. What queues must know of a message that waits without content, its own end and what
//! its sender demands of TLS, stands beside the queue's name in the label that the spool keeps for it.

use clock::WallTime;
use config::Scheduling;
use message::{Envelope, Message, Meta, TlsDemand};

use crate::name::{QueueName, QueueNameError};
use crate::{fate, keyed, xfer};

/// The constraints of a message; none when it has none.
pub fn of(meta: &Meta) -> Option<Scheduling> {
    let value = meta.get(SCHEDULING).filter(|value| !value.is_null())?;
    // What set it checked it.
    config::parse("scheduling", value.clone()).ok()
}

/// Gives a message these constraints, or takes them from it.
pub fn set(meta: &mut Meta, scheduling: Option<&Scheduling>) {
    match scheduling.and_then(|scheduling| serde_json::to_value(scheduling).ok()) {
        Some(value) => meta.set(SCHEDULING, value),
        None if meta.get(SCHEDULING).is_some() => meta.set(SCHEDULING, serde_json::Value::Null),
        None => {}
    }
}

/// The first moment from `at` on at which the message may be tried.
pub fn next_attempt(scheduling: &Scheduling, at: WallTime) -> WallTime {
    WallTime::from_unix_micros(scheduling.next_attempt(at.unix_micros()))
}

/// The end of its own that a message has, whatever its queue says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// No attempt from this moment on.
    pub at: WallTime,
    /// It is a deadline (`deliver_by`): the earlier goes first.
    pub is_deadline: bool,
}

/// When the message ends, whatever its queue says: by its deadline, which is never behind its expiry, or by that.
pub fn end(scheduling: &Scheduling) -> Option<End> {
    let moment = scheduling.deliver_by.or(scheduling.expires)?;
    Some(End { at: WallTime::from_unix_micros(moment.unix_micros()), is_deadline: scheduling.deliver_by.is_some() })
}

/// The constraints of a message whose content is in memory.
pub(crate) fn of_message(message: &Message) -> Option<Scheduling> {
    message.resident.as_ref().and_then(|resident| of(&resident.meta))
}

/// What queues must know of a message: where it belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Belonging<'a> {
    /// The name of its queue.
    pub queue: &'a str,
    /// Its own end, when it has one.
    pub end: Option<End>,
    /// Messages of one name whose demands differ do not go the same way.
    pub tls: TlsDemand,
}

/// What the spool keeps beside a message, so that it need not be read at a start: its queue, its own end and its demand, or
/// from where it arrives.
///
/// # Errors
/// See [`QueueNameError`].
pub fn label_for(envelope: &Envelope, meta: &Meta) -> Result<String, QueueNameError> {
    if let Some(origin) = xfer::arriving(meta) {
        return Ok(xfer::arrival_label(origin));
    }
    if let Some(label) = keyed::label(envelope, meta).or_else(|| fate::label(envelope, meta)) {
        return Ok(label);
    }
    let mut label = QueueName::text_for(envelope, meta)?;
    if let Some(end) = of(meta).as_ref().and_then(end) {
        label.push(SEPARATOR);
        label.extend(end.is_deadline.then_some(DEADLINE));
        label.push_str(&end.at.unix_micros().to_string());
    }
    if let Some(word) = envelope.tls_demand().word() {
        label.push(SEPARATOR);
        label.push_str(word);
    }
    Ok(label)
}

/// What a label says.
pub fn read_label(label: &str) -> Belonging<'_> {
    let mut parts = label.split(SEPARATOR);
    let mut belonging = Belonging::to(parts.next().unwrap_or_default());
    for part in parts {
        // Anything else is of a later version: the message is there all the same.
        match (read_end(part), TlsDemand::of_word(part)) {
            (Some(end), _) => belonging.end = Some(end),
            (None, Some(tls)) => belonging.tls = tls,
            (None, None) => {}
        }
    }
    belonging
}

fn read_end(part: &str) -> Option<End> {
    let deadline = part.strip_prefix(DEADLINE);
    let micros = deadline.unwrap_or(part).parse().ok()?;
    Some(End { at: WallTime::from_unix_micros(micros), is_deadline: deadline.is_some() })
}

impl Belonging<'_> {
    /// To a queue of that name, as nearly all mail does.
    pub fn to(queue: &str) -> Belonging<'_> {
        Belonging { queue, end: None, tls: TlsDemand::Usual }
    }
}

/// The name in the metadata.
pub(crate) const SCHEDULING: &str = "postrider:scheduling";
/// Between the parts of a label: nothing that a name has.
const SEPARATOR: char = '\u{0}';
/// Before an end in a label that is a deadline.
const DEADLINE: char = 'd';

#[cfg(test)]
mod tests {
    use super::*;
    use smtp_wire::{Mailbox, ReversePath};

    #[test]
    fn labels_tell_the_queue_and_the_end() {
        let recipients = vec![Mailbox::parse("a@Example.com").expect("sound")];
        let envelope = Envelope { sender: ReversePath(None), recipients, dsn: None, tls: TlsDemand::Usual };
        let mut meta = Meta::new();
        let label = |meta: &Meta| label_for(&envelope, meta).expect("a recipient");
        assert_eq!(label(&meta), "example.com");
        assert_eq!(read_label("example.com"), Belonging::to("example.com"));
        let value = serde_json::json!({"expires": "2026-08-04T12:00:00Z"});
        let scheduling: Scheduling = config::parse("test", value).expect("sound");
        set(&mut meta, Some(&scheduling));
        assert_eq!(of(&meta), Some(scheduling));
        let at = WallTime::from_unix_secs(1_785_844_800);
        let belonging = |is_deadline| Belonging { end: Some(End { at, is_deadline }), ..Belonging::to("example.com") };
        assert_eq!(read_label(&label(&meta)), belonging(false));
        let value = serde_json::json!({"deliver_by": "2026-08-04T12:00:00Z", "expires": "2026-08-05T12:00:00Z"});
        set(&mut meta, Some(&config::parse("test", value).expect("sound")));
        assert_eq!(read_label(&label(&meta)), belonging(true));
        set(&mut meta, None);
        assert_eq!((of(&meta), label(&meta)), (None, "example.com".to_owned()));
    }

    #[test]
    fn a_demand_stands_in_the_label_and_only_where_there_is_one() {
        let recipients = vec![Mailbox::parse("a@example.com").expect("sound")];
        let sender = ReversePath::parse("s@example.com").expect("sound");
        let envelope = Envelope { sender, recipients, dsn: None, tls: TlsDemand::Required };
        let mut meta = Meta::new();
        let label = |envelope: &Envelope, meta: &Meta| label_for(envelope, meta).expect("a recipient");
        assert_eq!(label(&envelope, &meta), "example.com\0requiretls");
        let expected = Belonging { tls: TlsDemand::Required, ..Belonging::to("example.com") };
        assert_eq!(read_label(&label(&envelope, &meta)), expected);
        meta.set(SCHEDULING, serde_json::json!({"expires": "2026-08-04T12:00:00Z"}));
        let end = Some(End { at: WallTime::from_unix_secs(1_785_844_800), is_deadline: false });
        assert_eq!(read_label(&label(&envelope, &meta)), Belonging { end, ..expected });
        // A report is in the queue of usual mail; what a later version says of it is not its name.
        let report = Envelope { sender: ReversePath(None), ..envelope };
        assert_eq!(label(&report, &Meta::new()), "example.com");
        assert_eq!(read_label("example.com\0news"), Belonging::to("example.com"));
    }
}
