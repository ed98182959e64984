//! Time: when a client has been silent, slow or busy for too long, and when we stop.
//!
//! Three clocks run: idle (`client_timeout`, since the last complete command or octet of
//! content: a command dripping in letter by letter does not stop it), the whole transaction, and
//! the data rate, each octet of content buying its share of time. None runs
//! while policy thinks: that is not the client's fault, and once a message was handed over
//! only the driver knows whether it may still be refused.

use crate::reject::Concerned;
use crate::session::{Phase, Session};
use crate::texts;
use clock::{Duration, Instant};
use smtp_wire::Reply;

/// Which clock has run out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overdue {
    Idle,
    Transaction,
    DataRate,
}

impl Session {
    /// When [`Session::expire`] has to be called if nothing else happens before. Ask again after
    /// every call. Never while a question is outstanding or the session is closing.
    pub fn deadline(&self) -> Instant {
        self.clocks().map_or(Instant::NEVER, |(at, _)| at)
    }

    /// Time has passed. Ends the session with a 421 when a deadline has; else does nothing.
    pub fn expire(&mut self, now: Instant) {
        let Some((_, overdue)) = self.clocks().filter(|(at, _)| *at <= now) else {
            return;
        };
        if matches!(self.phase, Phase::Tls) {
            // In the middle of a handshake there is nobody to say it to.
            return self.close();
        }
        let host = &self.settings.hostname;
        let reply = match overdue {
            Overdue::Idle => Reply::enhanced(421, texts::NOT_NOW, format!("{host} idle too long")),
            Overdue::Transaction => Reply::new(421, &format!("4.4.2 {host} transaction took too long")),
            Overdue::DataRate => Reply::new(421, &format!("4.4.2 {host} data arrives too slowly")),
        };
        let concerned = match self.transaction.take() {
            Some(open) => Concerned { sender: Some(open.sender), recipients: open.recipients },
            None => Concerned::nobody(),
        };
        self.close_with(reply, concerned);
        self.unasked();
    }

    /// The program stops. The session says `421 4.3.2` and closes: at once, or when the question
    /// outstanding has been answered, so that a message handed over gets its true reply.
    pub fn shutdown(&mut self, now: Instant) {
        self.last_progress = now;
        self.stopping = true;
        if self.awaiting.is_none() && !matches!(self.phase, Phase::Tls) {
            self.stop_if_asked();
        }
    }

    pub(crate) fn stop_if_asked(&mut self) {
        if self.stopping && !matches!(self.phase, Phase::Closing) {
            let text = format!("{} shutting down", self.settings.hostname);
            self.close_with(Reply::enhanced(421, texts::NOT_NOW, text), Concerned::nobody());
            self.unasked();
        }
    }

    /// True when a client that keeps talking has used up its transaction or its data rate: the
    /// clocks that must be looked at even while input is there.
    pub(crate) fn is_overdue_while_talking(&self, now: Instant) -> bool {
        self.clocks().is_some_and(|(at, overdue)| at <= now && overdue != Overdue::Idle)
    }

    /// The clock that runs out first.
    fn clocks(&self) -> Option<(Instant, Overdue)> {
        if self.awaiting.is_some() || matches!(self.phase, Phase::Closing) {
            return None;
        }
        let idle = (self.last_progress + self.settings.client_timeout, Overdue::Idle);
        let transaction = self
            .transaction
            .as_ref()
            .map(|open| (open.started + self.settings.transaction_timeout, Overdue::Transaction));
        let rate = self.rate_deadline().map(|at| (at, Overdue::DataRate));
        [Some(idle), transaction, rate].into_iter().flatten().min_by_key(|(at, _)| *at)
    }

    fn rate_deadline(&self) -> Option<Instant> {
        let (started, octets) = match &self.phase {
            Phase::Data(receiving) => (receiving.started, receiving.octets),
            Phase::Chunk(chunk) => (chunk.started, chunk.announced - chunk.left),
            _ => return None,
        };
        let bought_us = octets.saturating_mul(1_000_000).checked_div(self.settings.data_rate_octets_per_second_min)?;
        Some(started + self.settings.data_rate_grace.max(Duration::from_micros(bought_us)))
    }
}
