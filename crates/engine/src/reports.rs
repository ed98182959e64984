//! Reports that go out: what a sender is told about his message, where its queue says so (`delivery_reports`).
//!
//! In: a settlement that is about to be noted. Out: the draft of one report about all of it, or none; and a way to have
//! it accepted. The order is: the report is durable, then the spool forgets what it reports. A crash between the two
//! repeats the report, never loses it. A message without a sender is never reported on, and a report has no sender: so
//! reports cannot go round.

use crate::engine::Engine;
use crate::ingress::trace::rfc5322_date;
use crate::settle::{AttemptFacts, Handover};
use ::clock::WallTime;
use bounce::Action;
use config::{DeliveryReports, QueueConfig};
use message::{Draft, Envelope, Message, Meta, Resident, TlsDemand};
use mime::{DeliveryReport, Enclosed, NewReport, PerMessage, PerRecipient, Typed};
use queue::settle::Settlement;
use queue::{Entry, Next};
use record::RecordType;
use smtp_wire::command::{Notify, Ret};
use smtp_wire::{Mailbox, Reply, ReversePath};
use std::time::Duration;

/// A report, and the recipients it is about.
pub(crate) struct Report {
    pub draft: Draft,
    pub about: Vec<u16>,
}

impl Engine {
    /// The report that a settlement calls for.
    pub(crate) fn report_on(
        &self,
        message: &Message,
        settlement: &Settlement,
        config: &QueueConfig,
        facts: &AttemptFacts,
    ) -> Option<Report> {
        let wanted = config.delivery_reports.as_ref()?;
        let resident = message.resident.as_deref()?;
        let sender = resident.envelope.sender.0.as_ref()?;
        let now = self.clock.wall();
        let warns = warns(wanted, message, settlement.next, now);
        let mut worst = Action::Delivered;
        let (mut per_recipient, mut about) = (Vec::new(), Vec::new());
        for entry in &settlement.entries {
            let Some(action) = action(entry, wanted, warns, facts.handover) else { continue };
            for number in entry.recipients.iter().map(|r| usize::from(*r)) {
                if asks(resident, number, action) {
                    let fields = self.fields(message, resident, number, (action, entry), facts, now);
                    let until = (action == Action::Delayed).then(|| message.created() + config.max_age.get());
                    per_recipient.push(PerRecipient { will_retry_until: until.map(rfc5322_date), ..fields });
                    worst = worst.max(action);
                    about.push(number as u16);
                }
            }
        }
        if about.is_empty() {
            return None;
        }
        let sender = sender.clone().or_at(&self.settings.hostname).ok()?;
        Some(Report { draft: self.draft(message, resident, &sender, (worst, per_recipient), wanted, now), about })
    }

    /// Has a report accepted, as often as it takes; false when the program ends before.
    pub(crate) async fn send_report(&self, report: &Draft) -> bool {
        let mut refused = false;
        loop {
            match self.accept_report(report.clone()).await {
                Ok(()) => return true,
                Err(refusal) if !std::mem::replace(&mut refused, true) => {
                    tracing::error!("report {} is not accepted and waits: {}", report.id, refusal.reply);
                }
                Err(_) => {}
            }
            if self.stop.unless_requested(tokio::time::sleep(PAUSE)).await.is_none() {
                return false;
            }
        }
    }

    fn fields(
        &self,
        message: &Message,
        resident: &Resident,
        number: usize,
        (action, entry): (Action, &Entry),
        facts: &AttemptFacts,
        now: WallTime,
    ) -> PerRecipient {
        let dsn = resident.envelope.dsn.as_deref();
        let orcpt = dsn.and_then(|dsn| dsn.of(number).orcpt.as_ref());
        let kind = |ascii: bool| if ascii { "rfc822" } else { "utf-8" };
        let recipient = &resident.envelope.recipients[number];
        let peer = facts.peer.as_ref().filter(|_| entry.command.is_some());
        PerRecipient {
            original_recipient: orcpt.map(|o| Typed::new(o.address_type.as_str(), o.address.as_str())),
            final_recipient: Typed::new(kind(recipient.is_ascii()), recipient.as_str()),
            action: action.word().to_owned(),
            status: status(&entry.reply, action),
            remote_mta: peer.map(|peer| Typed::new("dns", peer.name.trim_end_matches('.'))),
            diagnostic_code: Some(Typed::new("smtp", entry.reply.to_single_line())),
            last_attempt_date: Some(rfc5322_date(now)),
            final_log_id: Some(message.id.to_string()),
            ..PerRecipient::default()
        }
    }

    fn draft(
        &self,
        message: &Message,
        resident: &Resident,
        sender: &Mailbox,
        (worst, per_recipient): (Action, Vec<PerRecipient>),
        wanted: &DeliveryReports,
        now: WallTime,
    ) -> Draft {
        let id = self.next_id();
        let mta = wanted.reporting_mta.as_deref().unwrap_or(&self.settings.hostname);
        let dsn = resident.envelope.dsn.as_deref();
        let per_message = PerMessage {
            reporting_mta: Typed::new("dns", mta),
            original_envelope_id: dsn.and_then(|dsn| dsn.envid.clone()),
            arrival_date: Some(rfc5322_date(message.created())),
            ..PerMessage::default()
        };
        let text = worst.text(mta, &per_recipient);
        // RFC 8689 section 5: as if RET=HDRS had been said, and the report wants the same protection.
        let tls = match resident.envelope.tls {
            TlsDemand::Required => TlsDemand::Required,
            TlsDemand::Usual | TlsDemand::Waived => TlsDemand::Usual,
        };
        let asks_for_all = dsn.is_some_and(|dsn| dsn.ret == Some(Ret::Full)) && tls == TlsDemand::Usual;
        let is_full = asks_for_all && message.size as usize <= FULL_OCTETS_MAX;
        let raw = NewReport {
            from: &format!("mailer-daemon@{mta}"),
            to: sender.as_str(),
            subject: worst.subject(),
            date: &rfc5322_date(now),
            unique: &id.to_string(),
            text: &text,
            report: &DeliveryReport { per_message, per_recipient, original_message: None },
            enclosed: match is_full && worst == Action::Failed {
                true => Enclosed::Message(&resident.head, &resident.body),
                false => Enclosed::Header(&resident.head),
            },
        };
        let envelope = Envelope { sender: ReversePath(None), recipients: vec![sender.clone()], dsn: None, tls };
        Draft::new(id, envelope, Meta::new(), raw.to_bytes().into(), now)
    }
}

/// Whether the sender is to be told of the delay now: when the next attempt comes at or after the age that was set, and
/// the attempt before was due before it. Attempts follow one another without a gap, so this holds once.
fn warns(wanted: &DeliveryReports, message: &Message, next: Next, now: WallTime) -> bool {
    let (Some(after), Next::Retry(delay)) = (wanted.delay, next) else { return false };
    let created = message.created();
    message.due.saturating_since(created) < after.get() && after.get() <= (now + delay).saturating_since(created)
}

/// What an entry is to the sender, where that is to be reported.
fn action(entry: &Entry, wanted: &DeliveryReports, warns: bool, handover: Handover) -> Option<Action> {
    match (entry.kind, handover) {
        (RecordType::Bounce | RecordType::Expiration, _) => wanted.failure.then_some(Action::Failed),
        (RecordType::TransientFailure, _) => warns.then_some(Action::Delayed),
        (RecordType::Delivery, Handover::Final) => wanted.success.then_some(Action::Delivered),
        (RecordType::Delivery, Handover::Relay) => wanted.relayed.then_some(Action::Relayed),
        // Who takes the options takes the duty (RFC 3461 section 5.2.1).
        (RecordType::Delivery, Handover::RelayWithDsn | Handover::Xfer) => None,
        _ => None,
    }
}

/// Whether the sender wants to hear of it: failures and delays unless he said otherwise, success only if he asked.
fn asks(resident: &Resident, recipient: usize, action: Action) -> bool {
    let said = resident.envelope.dsn.as_ref().and_then(|dsn| dsn.of(recipient).notify);
    let notify = said.unwrap_or(Notify::DEFAULT);
    match action {
        Action::Failed => notify.failure,
        Action::Delayed => notify.delay,
        Action::Delivered | Action::Relayed => notify.success,
    }
}

/// The status of a reply, made to fit the action.
fn status(reply: &Reply, action: Action) -> (u8, u16, u16) {
    let class = action.class();
    reply.enhanced.map_or((class, 0, 0), |code| (class, code.subject, code.detail))
}

/// Pause before a report that was not accepted is tried again.
const PAUSE: Duration = Duration::from_secs(1);
/// Largest message that is returned whole (octets); beyond it the header is.
const FULL_OCTETS_MAX: usize = 50_000;

#[cfg(test)]
mod tests {
    use super::*;
    use message::MessageId;
    use smtp_wire::{Dsn, EnhancedCode};

    fn message(created: WallTime, due: WallTime) -> Message {
        let id = message::IdGenerator::new([0; 6], 0).next(created);
        assert_ne!(id, MessageId::from_bytes([0; 16]));
        Message::bare(id, due)
    }

    #[test]
    fn a_delay_is_told_once_in_a_life_of_retries() {
        let minutes = |n: u64| Duration::from_secs(60 * n);
        let created = WallTime::from_unix_secs(1_790_000_000);
        for after in [1, 19, 20, 21, 60, 61, 300] {
            let wanted = DeliveryReports { delay: Some(config::Duration::from_minutes(after)), ..Default::default() };
            let (mut due, mut delay, mut told) = (created, minutes(20), Vec::new());
            while due.saturating_since(created) < minutes(1000) {
                // Each attempt is a little late.
                let now = due + minutes(1);
                if warns(&wanted, &message(created, due), Next::Retry(delay), now) {
                    told.push(now.saturating_since(created).as_secs() / 60);
                }
                (due, delay) = (now + delay, delay * 2);
            }
            assert_eq!(told.len(), 1, "{after}: {told:?}");
            assert!(told[0] <= after.max(1), "not later than it must: {after}: {told:?}");
        }
        let wanted = DeliveryReports::default();
        assert!(!warns(&wanted, &message(created, created), Next::Retry(minutes(20)), created));
    }

    #[test]
    fn who_asks_is_told() {
        let said = |options: Option<&str>| {
            let dsn = options.and_then(|text| Dsn::parse("", [text].into_iter()).ok()).map(Box::new);
            let recipients = vec![Mailbox::parse("a@b.test").expect("sound")];
            let envelope = Envelope { sender: ReversePath(None), recipients, dsn, tls: TlsDemand::Usual };
            let resident = Resident { envelope, meta: Meta::new(), head: "".into(), body: "".into() };
            [Action::Failed, Action::Delayed, Action::Relayed, Action::Delivered].map(|a| asks(&resident, 0, a))
        };
        assert_eq!(said(None), [true, true, false, false]);
        assert_eq!(said(Some("ORCPT=rfc822;x")), [true, true, false, false]);
        assert_eq!(said(Some("NOTIFY=NEVER")), [false; 4]);
        assert_eq!(said(Some("NOTIFY=SUCCESS")), [false, false, true, true]);
        assert_eq!(said(Some("NOTIFY=DELAY")), [false, true, false, false]);
    }

    #[test]
    fn whoever_takes_the_options_takes_the_duty() {
        let all = DeliveryReports { failure: true, success: true, relayed: true, ..Default::default() };
        let entry = |kind| {
            let reply = Reply::enhanced(250, EnhancedCode::new(2, 1, 5), "ok");
            Entry { kind, recipients: vec![0], reply, command: None }
        };
        let of = |kind, handover| action(&entry(kind), &all, false, handover);
        assert_eq!(of(RecordType::Delivery, Handover::RelayWithDsn), None);
        assert_eq!(of(RecordType::Delivery, Handover::Relay), Some(Action::Relayed));
        assert_eq!(of(RecordType::Delivery, Handover::Final), Some(Action::Delivered));
        assert_eq!(of(RecordType::Bounce, Handover::RelayWithDsn), Some(Action::Failed));
        assert_eq!(of(RecordType::TransientFailure, Handover::Relay), None);
        let none = DeliveryReports::default();
        assert_eq!(action(&entry(RecordType::Bounce), &none, false, Handover::Relay), None, "off by default");
    }
}
