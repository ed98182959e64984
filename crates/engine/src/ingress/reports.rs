//! Reports that come in: bounces (RFC 3464) and complaints (RFC 5965) for domains that log them (`log_oob`, `log_arf`).
//!
//! In: a draft after policy has seen it. Out: its [`Fate`]: whether it is queued, and what the log says of it. Fails with
//! the refusal of mail that was let in only because it might be a report and is none. Costs ordinary mail a look at one
//! header field, and nothing without a `get_listener_domain` handler.

use crate::engine::Engine;
use crate::ingress::accept::{Arrival, Refusal};
use crate::ingress::relay::RelayFacts;
use crate::selection::Subject;
use config::{ListenerDomain, LogReport};
use message::{Draft, Envelope, Message, Resident};
use mime::{DeliveryReport, ReportKind};
use policy::{Disconnect, Event, PolicyError};
use record::{FeedbackReport, LogRecord, PeerAddress, Recipients, RecordType, Timestamp};
use smtp_server::Settings;

/// What a message is besides mail.
#[derive(Debug)]
pub(crate) enum Report {
    /// A bounce of a message that was delivered; logged beside its reception.
    Bounce(Box<DeliveryReport>),
    /// A complaint; logged in place of its reception.
    Feedback(Box<FeedbackReport>),
}

/// What becomes of a message that was let in.
#[derive(Debug, Default)]
pub(crate) struct Fate {
    /// It is a report that is to be logged.
    pub report: Option<Report>,
    /// It is not queued.
    pub is_dropped: bool,
}

impl Engine {
    /// The fate of a draft (KumoMTA behaviour): a logged report is queued where relaying is permitted and it is not
    /// to be dropped; anything else needs the permission, which was given at RCPT unless policy has changed the envelope since.
    pub(crate) async fn fate(&self, arrival: &Arrival<'_>, draft: &mut Draft) -> Result<Fate, Refusal> {
        let content_type = match self.interest.has(Event::ListenerDomain) {
            true => draft.headers().first_value("Content-Type"),
            false => return Ok(Fate::default()),
        };
        let kind = content_type.as_deref().and_then(ReportKind::of_content_type);
        if kind.is_none() && !arrival.for_reports_only && !is_readdressed(arrival, &draft.envelope) {
            return Ok(Fate::default());
        }
        let asked = self.permission(arrival, draft).await;
        let (may_relay, of_recipient) = asked.map_err(|e| self.refuse(arrival.profile, &e))?;
        let options = of_recipient.unwrap_or_default();
        let (wanted, report) = match kind {
            Some(ReportKind::Feedback) if options.log_arf != LogReport::Ignore => (options.log_arf, feedback(draft)),
            Some(ReportKind::Delivery) if options.log_oob != LogReport::Ignore => (options.log_oob, bounce(draft)),
            _ => (LogReport::Ignore, None),
        };
        match report {
            Some(report) => {
                let is_dropped = wanted == LogReport::LogThenDrop || !may_relay;
                Ok(Fate { report: Some(report), is_dropped })
            }
            None if may_relay => Ok(Fate::default()),
            None => {
                let reply = Settings::relaying_not_permitted(arrival.hop.peer.ip());
                Err(Refusal { reply, disconnect: Disconnect::If421 })
            }
        }
    }

    /// Whether every recipient may be relayed to, and the entry of the first one's domain.
    async fn permission(
        &self,
        arrival: &Arrival<'_>,
        draft: &Draft,
    ) -> Result<(bool, Option<ListenerDomain>), PolicyError> {
        let of_sender = self.entry(arrival, draft.envelope.sender.domain()).await?;
        let (mut may_relay, mut of_first) = (true, None);
        for (number, recipient) in draft.envelope.recipients.iter().enumerate() {
            let same = |other: &smtp_wire::Mailbox| other.domain().eq_ignore_ascii_case(recipient.domain());
            if draft.envelope.recipients[..number].last().is_some_and(same) {
                continue;
            }
            let entry = self.entry(arrival, recipient.domain()).await?;
            let facts = RelayFacts {
                peer: arrival.hop.peer.ip(),
                relay_hosts: &arrival.profile.params.relay_hosts,
                sender_domain: of_sender.as_ref(),
                recipient_domain: entry.as_ref(),
            };
            may_relay &= facts.may_relay();
            if number == 0 {
                of_first = entry;
            }
        }
        Ok((may_relay, of_first))
    }

    async fn entry(&self, arrival: &Arrival<'_>, domain: &str) -> Result<Option<ListenerDomain>, PolicyError> {
        if domain.is_empty() {
            return Ok(None);
        }
        self.policy.get_listener_domain(domain.to_lowercase(), arrival.hop.local, arrival.conn.clone()).await
    }

    /// An OOB record for each recipient that failed.
    pub(crate) fn log_bounce_report(&self, message: &Message, resident: &Resident, report: &DeliveryReport) {
        let peer = crate::records::reception_peer(&resident.meta).unwrap_or_default();
        let report_to = resident.envelope.recipients.first().map(|r| r.as_str().to_owned()).unwrap_or_default();
        for failure in ::bounce::failures(report) {
            let now = Timestamp::from_unix_micros(self.clock.wall().unix_micros());
            let created = Timestamp::from_unix_micros(message.created().unix_micros());
            let mut record = LogRecord::new(RecordType::OOB, failure.at.unwrap_or(now), created, failure.response);
            record.id = message.id.to_string();
            record.sender = report_to.clone();
            record.recipient = Recipients::from(failure.recipient);
            record.peer_address = Some(PeerAddress { name: failure.reporting_mta, ..peer.clone() });
            self.complete(&mut record, &resident.meta);
            self.log(record, Subject::of(message, resident));
        }
    }
}

/// Policy has put somebody into the envelope about whom nobody was asked. Hosts that may relay may do so to anybody.
fn is_readdressed(arrival: &Arrival<'_>, envelope: &Envelope) -> bool {
    let relays = arrival.profile.params.relay_hosts.contains(arrival.hop.peer.ip());
    if relays {
        return false;
    }
    let known = arrival.known.get_or_init(|| arrival.envelope.recipients.iter().cloned().collect());
    envelope.sender != arrival.envelope.sender || !envelope.recipients.iter().all(|recipient| known.contains(recipient))
}

/// One that does not read is mail like any other.
fn bounce(draft: &mut Draft) -> Option<Report> {
    match DeliveryReport::parse(&draft.data()) {
        Ok(report) => report.map(|report| Report::Bounce(Box::new(report))),
        Err(error) => {
            tracing::info!("{}: not logged as OOB: {error}", draft.id);
            None
        }
    }
}

fn feedback(draft: &mut Draft) -> Option<Report> {
    match mime::FeedbackReport::parse(&draft.data()) {
        Ok(report) => report.map(|report| Report::Feedback(Box::new(::bounce::feedback(report)))),
        Err(error) => {
            tracing::info!("{}: not logged as Feedback: {error}", draft.id);
            None
        }
    }
}
