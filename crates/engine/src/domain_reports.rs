//! Reports to other domains on their way into queues: they are messages like any other.
//!
//! In: reports that `report-sender` made. Out: messages that are on disk. `http_message_generated` is raised for each, as for
//! what requests ask for, so that policy can sign and route them; their metadata says what they are. Their sender is null
//! unless the operator names one: nobody is told of those that cannot be delivered.

use crate::engine::{Engine, EngineSettings, Shared};
use message::{Draft, Envelope, Meta, TlsDemand};
use policy::{AuthInfo, Event, Startup};
use report_sender::{DomainReports, Here, Outbox, Outgoing};
use route::BoxFuture;
use smtp_wire::{Mailbox, ReversePath};
use std::sync::{Arc, Weak};
use telemetry::Metrics;

/// The engine's queues, as whoever sends reports knows them.
struct Queues(Weak<Shared>);

/// Begins to count what policy asks for.
pub(crate) fn open(startup: &Startup, settings: &EngineSettings, metrics: &Metrics) -> Result<DomainReports, String> {
    let Startup { dmarc_reports, tls_reports, .. } = startup;
    // As much of it as message ids have.
    let node = format!("{:012x}", settings.node_id.as_u128() & 0xffff_ffff_ffff);
    let here = Here { hostname: settings.hostname.clone(), node };
    DomainReports::open(dmarc_reports.as_ref(), tls_reports.as_ref(), here, metrics.clone())
}

impl Engine {
    /// Sends reports until the program ends.
    pub(crate) async fn send_domain_reports(&self) {
        let outbox = Arc::new(Queues(Arc::downgrade(&self.0)));
        let sending = self.domain_reports.run(self.mx.clone(), outbox, &self.connectors);
        _ = self.stop.unless_requested(sending).await;
    }

    /// Has what was counted written. Before the spool closes: whoever waits for that opens these files too.
    pub(crate) async fn close_domain_reports(&self) {
        let engine = self.clone();
        if let Err(error) = tokio::task::spawn_blocking(move || engine.domain_reports.close()).await {
            tracing::error!("closing what is counted for reports: {error}");
        }
    }

    async fn take_domain_report(&self, report: Outgoing) -> Result<(), String> {
        let wrong = |error: &dyn std::fmt::Display| error.to_string();
        let recipient = Mailbox::parse(&report.recipient).map_err(|error| wrong(&error))?;
        let sender = report.sender.as_deref().map(Mailbox::parse).transpose().map_err(|error| wrong(&error))?;
        let envelope =
            Envelope { sender: ReversePath(sender), recipients: vec![recipient], dsn: None, tls: TlsDemand::Usual };
        let mut meta = Meta::new();
        meta.set("reception_protocol", "Report");
        meta.set("hostname", self.settings.hostname.as_str());
        meta.set("report_kind", report.kind);
        meta.set("report_domain", report.domain);
        let size = report.octets.len() as u64;
        let _room = self.pressure.room_or_reason(size)?;
        self.wait_for_logs().await;
        let draft = Draft::new(self.next_id(), envelope, meta, report.octets.into(), self.clock.wall());
        let draft = match self.interest.has(Event::HttpMessageGenerated) {
            true => self.policy.http_message_generated(draft, AuthInfo::default()).await,
            false => Ok(draft),
        };
        let draft = draft.map_err(|error| error.in_one_line())?;
        self.accept_own(draft, false).await.map_err(|refusal| refusal.reply.to_single_line())
    }
}

impl Outbox for Queues {
    fn take(&self, message: Outgoing) -> BoxFuture<'_, Result<(), String>> {
        let engine = self.0.upgrade().map(Engine);
        Box::pin(async move {
            let engine = engine.ok_or("the program ends")?;
            engine.take_domain_report(message).await
        })
    }
}
