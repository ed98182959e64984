//! The driver of an outbound connection, after the engine's `egress/connection.rs` and
//! `egress/delivery.rs`: finds a host, keeps a session on it, takes messages as the session can
//! use them, settles every outcome, and tells the queue at the end.

use crate::Sabotage;
use crate::event::{Chunk, ServerEvent};
use crate::limits::Moved;
use crate::plan::SECOND;
use crate::world::{Pipe, World};
use bytes::Buf;
use clock::{Duration, Now};
use config::EgressPath;
use queue::{ConnKey, Opening, Outcome, QueueCore, Queued, Take, Verdict};
use smtp_client::{CloseReason, Closing, Job, RecipientResult, Session, Settings, Step, Timeouts, TlsMode};
use smtp_wire::Reply;
use spool::Mark;
use std::sync::Arc;

/// A connection of the server, from the wish to have it to its end.
pub(crate) struct Outbound {
    pub opening: Opening,
    conn: ConnKey,
    hosts_left: usize,
    session: Option<Session>,
    /// Messages begun, by ticket.
    pub in_hand: Vec<(u64, Queued)>,
    taken: usize,
    /// The session got as far as taking messages.
    was_ready: bool,
    /// A wake-up that was not waited for.
    permit: bool,
    mode: Mode,
    idleness: u64,
    deadline_at: Option<u64>,
    /// When it took a message last, in microseconds of the world.
    pub took_at: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Looking for a host.
    Connecting,
    /// Waiting for the peer.
    Reading,
    /// The socket takes no more for now.
    Writing,
    /// Nothing to do; closes when patience ends, or asks again.
    Idle { then_close: bool },
}

/// How a session on one host ended.
enum Ended {
    Done,
    Refused,
}

impl Outbound {
    /// The number of the connection to the present host: what is on its way to or from one before it is not for this one.
    pub fn wire(&self, number: u64) -> u64 {
        number << HOST_BITS | self.hosts_left as u64
    }

    fn is_idle(&self) -> bool {
        matches!(self.mode, Mode::Idle { .. })
    }
}

impl World {
    /// Carries out `Effect::Open`.
    pub fn open_outbound(&mut self, opening: Opening) {
        let number = self.fresh_number();
        let hosts = self.site(&opening.ready_name).hosts;
        let Some(process) = self.process.as_mut().filter(|p| !p.stopping) else { return };
        let conn = opening.conn;
        process.by_key.insert(conn.id(), number);
        let Some(process) = &mut self.process else { return };
        let outbound = Outbound {
            opening,
            conn,
            hosts_left: hosts,
            session: None,
            in_hand: Vec::new(),
            taken: 0,
            was_ready: false,
            permit: false,
            mode: Mode::Connecting,
            idleness: 0,
            deadline_at: None,
            took_at: self.now,
        };
        process.outbound.insert(number, outbound);
        let delay = self.dice.within(0, SECOND);
        self.server_soon(delay, ServerEvent::Resolved(number));
    }

    /// The addresses are known, or the destination as a whole fails.
    pub fn resolved(&mut self, number: u64) {
        let (trouble, bounces) = (self.plan.dns_trouble / 2, self.dice.chance(100));
        if !self.trouble(trouble) {
            let latency = self.connect_latency();
            return self.server_soon(latency, ServerEvent::Connected(number));
        }
        let reply = if bounces { Reply::new(550, "5.4.4 prohibited") } else { Reply::new(451, "4.4.4 no addresses") };
        let Some(outbound) = self.take_out(number) else { return };
        self.with_queue(|q, now| q.site_failed(now, outbound.conn, reply));
    }

    /// A host answered, or not.
    pub fn connected(&mut self, number: u64) {
        let trouble = self.plan.dns_trouble / 2;
        let failed = self.trouble(trouble) || (self.plan.is_down && !self.recovered);
        let mono = self.mono();
        let Some(outbound) = self.outbound(number) else { return };
        outbound.hosts_left -= 1;
        if failed {
            return self.next_host(number);
        }
        let settings = settings(&outbound.opening.leg.path);
        outbound.session = Some(Session::new(mono, Arc::new(settings)));
        outbound.mode = Mode::Reading;
        let ready_name = outbound.opening.ready_name.clone();
        let site = self.site_number(&ready_name);
        let life = self.ledger.life;
        let Some(wire) = self.outbound(number).map(|outbound| outbound.wire(number)) else { return };
        self.begin_peer(wire, site, life);
        self.pump_outbound(number);
    }

    fn next_host(&mut self, number: u64) {
        let stopping = self.process.as_ref().is_some_and(|p| p.stopping);
        let Some(outbound) = self.outbound(number) else { return };
        (outbound.session, outbound.mode, outbound.deadline_at) = (None, Mode::Connecting, None);
        if outbound.hosts_left > 0 && !stopping {
            let latency = self.connect_latency();
            return self.server_soon(latency, ServerEvent::Connected(number));
        }
        let Some(outbound) = self.take_out(number) else { return };
        let reply = Reply::new(400, "KumoMTA internal: failed to connect to any candidate hosts");
        match stopping {
            true => self.with_queue(|q, now| q.connection_ended(now, outbound.conn)),
            false => self.with_queue(|q, now| q.connection_failed(now, outbound.conn, reply)),
        }
    }

    /// Takes the connection out of the books of the driver.
    fn take_out(&mut self, number: u64) -> Option<Outbound> {
        let process = self.process.as_mut()?;
        let outbound = process.outbound.remove(&number)?;
        process.by_key.remove(&outbound.conn.id());
        Some(outbound)
    }

    /// Octets, or the end, from the peer.
    pub fn outbound_receives(&mut self, wire: u64, chunk: Chunk) {
        let (mono, number) = (self.mono(), wire >> HOST_BITS);
        let outbound = self.outbound(number).filter(|outbound| outbound.wire(number) == wire);
        let Some(session) = outbound.and_then(|o| o.session.as_mut()) else { return };
        match chunk {
            Chunk::Octets(octets) => session.feed(mono, &octets),
            Chunk::End => session.connection_lost(mono, "peer closed the connection"),
        }
        let closed = session.is_closed();
        self.resume(number, closed);
    }

    pub fn outbound_deadline(&mut self, number: u64) {
        let (mono, now) = (self.mono(), self.now);
        let is_deaf = self.sabotaged(Sabotage::DeafSessions);
        let Some(outbound) = self.outbound(number).filter(|o| o.deadline_at == Some(now)) else { return };
        outbound.deadline_at = None;
        if is_deaf {
            return;
        }
        let Some(session) = &mut outbound.session else { return };
        let due = session.deadline().is_some_and(|d| d <= mono);
        session.expire(mono);
        let closed = session.is_closed();
        self.report.timeouts += u64::from(due);
        let is_tarpit = due && self.is_tarpit(number);
        self.report.tarpit_timeouts += u64::from(is_tarpit);
        self.resume(number, closed);
    }

    /// Something came in: a session that waits for its socket to take octets goes on waiting,
    /// unless it is over.
    fn resume(&mut self, number: u64, closed: bool) {
        let writing = self.outbound(number).is_some_and(|o| o.mode == Mode::Writing);
        if writing && !closed {
            return self.arm_outbound(number);
        }
        self.pump_outbound(number);
    }

    pub fn outbound_writable(&mut self, number: u64) {
        let writing = self.outbound(number).is_some_and(|o| o.mode == Mode::Writing);
        if writing && self.write_outbound(number) {
            self.pump_outbound(number);
        }
    }

    pub fn outbound_idle_ends(&mut self, number: u64, idleness: u64) {
        let Some(outbound) = self.outbound(number).filter(|o| o.idleness == idleness) else { return };
        match outbound.mode {
            Mode::Idle { then_close: true } => {
                let conn = outbound.conn;
                // Unless a message was promised to this connection in the meantime.
                match self.with_queue(|q, _| q.leave_idle(conn)) {
                    true => self.outbound_finishes(number),
                    false => self.pump_outbound(number),
                }
            }
            Mode::Idle { then_close: false } => self.pump_outbound(number),
            Mode::Connecting | Mode::Reading | Mode::Writing => {}
        }
    }

    /// `Effect::Wake` reached the connection's task: it runs soon if it waits for that.
    pub fn wake_outbound(&mut self, number: u64) {
        let delay = *self.dice.pick(&[0, 10, 2_000]);
        if let Some(outbound) = self.outbound(number) {
            outbound.permit = true;
            self.server_soon(delay, ServerEvent::Woken(number));
        }
    }

    pub fn outbound_woken(&mut self, number: u64) {
        let Some(outbound) = self.outbound(number).filter(|o| o.is_idle() && o.permit) else { return };
        outbound.permit = false;
        self.pump_outbound(number);
    }

    /// The server is stopping: what holds no message ends at once.
    pub fn outbound_stops(&mut self, number: u64) {
        let mono = self.mono();
        let Some(outbound) = self.outbound(number).filter(|o| o.in_hand.is_empty()) else { return };
        match (outbound.mode, &mut outbound.session) {
            (Mode::Idle { .. }, _) => self.outbound_finishes(number),
            (Mode::Reading, Some(session)) => {
                session.connection_lost(mono, "shutting down");
                self.pump_outbound(number);
            }
            (Mode::Connecting, _) => {
                let Some(outbound) = self.take_out(number) else { return };
                self.with_queue(|q, now| q.connection_ended(now, outbound.conn));
            }
            (Mode::Reading | Mode::Writing, _) => {}
        }
    }

    /// No more messages on this connection.
    pub fn outbound_finishes(&mut self, number: u64) {
        let mono = self.mono();
        if let Some(session) = self.outbound(number).and_then(|o| o.session.as_mut()) {
            session.finish(mono);
            self.pump_outbound(number);
        }
    }

    fn pump_outbound(&mut self, number: u64) {
        loop {
            let mono = self.mono();
            let Some(outbound) = self.outbound(number) else { return };
            outbound.mode = Mode::Reading;
            let Some(session) = &mut outbound.session else { return };
            match session.next(mono) {
                Step::Outcome(outcome) => self.settle_outcome(number, outcome),
                Step::Send => {
                    self.pipeline_more(number);
                    if !self.write_outbound(number) {
                        return;
                    }
                }
                Step::StartTls => return self.ledger.violate("TLS is disabled"),
                Step::Ready => {
                    outbound.was_ready = true;
                    if !self.begin_or_idle(number) {
                        return;
                    }
                }
                Step::NeedInput => return self.arm_outbound(number),
                Step::Close(closing) => return self.close_outbound(number, &closing),
            }
        }
    }

    fn pipeline_more(&mut self, number: u64) {
        while let Some(outbound) = self.outbound(number) {
            let can = outbound.session.as_ref().is_some_and(Session::can_begin) && !outbound.in_hand.is_empty();
            let (conn, name) = (outbound.conn, outbound.opening.ready_name.clone());
            if !can || !self.may_take(number) {
                return;
            }
            match self.take_watched(&name, |q, now| q.take_more(now, conn)) {
                Take::Message(queued) => {
                    self.begin(number, *queued);
                }
                Take::Idle | Take::After(_) | Take::Close => return,
            }
        }
    }

    /// With nothing in hand: the next message, or wait for one; false when it waits.
    fn begin_or_idle(&mut self, number: u64) -> bool {
        let mono = self.mono();
        let may_take = self.may_take(number);
        let Some(outbound) = self.outbound(number) else { return false };
        let (conn, patience) = (outbound.conn, outbound.opening.leg.path.idle_timeout.get());
        let name = outbound.opening.ready_name.clone();
        let take = match may_take {
            true => self.take_watched(&name, |q, now| q.take(now, conn)),
            false => Take::Close,
        };
        match take {
            Take::Message(queued) => {
                self.begin(number, *queued);
                true
            }
            Take::Close => {
                let session = self.outbound(number).and_then(|o| o.session.as_mut());
                session.into_iter().for_each(|s| s.finish(mono));
                true
            }
            Take::Idle => self.idle(number, patience, true),
            Take::After(wait) => self.idle(number, wait, false),
        }
    }

    /// Waits with nothing to do, unless it was woken already.
    fn idle(&mut self, number: u64, patience: Duration, then_close: bool) -> bool {
        let Some(outbound) = self.outbound(number) else { return false };
        if std::mem::take(&mut outbound.permit) {
            return true;
        }
        outbound.mode = Mode::Idle { then_close };
        outbound.idleness += 1;
        let idleness = outbound.idleness;
        let patience = patience.as_micros() as u64;
        self.server_soon(patience, ServerEvent::IdleEnds(number, idleness));
        false
    }

    fn may_take(&mut self, number: u64) -> bool {
        let stopping = self.process.as_ref().is_none_or(|p| p.stopping);
        let full = |o: &mut Outbound| o.taken >= o.opening.leg.path.max_deliveries_per_connection;
        !stopping && !self.outbound(number).is_none_or(full)
    }

    /// A visit in which a connection asks for a message; what it gets is looked at.
    fn take_watched(&mut self, ready_name: &Arc<str>, take: impl FnOnce(&mut QueueCore, Now) -> Take) -> Take {
        let urgent = self.urgent_in(ready_name);
        let take = self.visit_queue(take, |take| taken(ready_name, take));
        if let Take::Message(queued) = &take {
            self.watch_orders(queued.queue);
            self.watch_deadlines(&urgent, ready_name, queued);
        }
        take
    }

    fn begin(&mut self, number: u64, queued: Queued) {
        let (mono, wall, now) = (self.mono(), self.wall(), self.now);
        let Some(queued) = self.load(queued) else { return };
        let message = &queued.message;
        let Some(resident) = message.resident.as_deref() else { return };
        let (head, body) = (resident.head.clone(), resident.body.clone());
        let pending: Vec<u16> = message.pending().collect();
        let flushed_until = self.flushed_until(queued.queue, message);
        self.ledger.begun((message.id, &pending), wall, flushed_until, self.plan.asks);
        if self.sabotaged(Sabotage::RemoveBeforeAttempt) {
            self.mark(Mark::Removed { id: message.id });
        }
        self.watch_message_rates(number);
        let Some(outbound) = self.outbound(number) else { return };
        outbound.taken += 1;
        outbound.took_at = now;
        let (ticket, reused) = (outbound.taken as u64, outbound.taken == 2);
        let job = Job {
            ticket,
            sender: resident.envelope.sender.clone(),
            recipients: pending.iter().map(|r| resident.envelope.recipients[usize::from(*r)].clone()).collect(),
            dsn: None,
            requiretls: false,
            needs_8bit: !(head.is_ascii() && body.is_ascii()),
            needs_smtputf8: resident.envelope.needs_smtputf8(),
            head,
            body,
        };
        let id = message.id;
        outbound.in_hand.push((ticket, queued));
        if let Some(session) = &mut outbound.session {
            session.begin(mono, job);
        }
        self.report.reused_connections += u64::from(reused);
        self.note(|| format!("connection {number} begins {id} for {pending:?}"));
    }

    /// Writes what the socket takes; true when that is all.
    fn write_outbound(&mut self, number: u64) -> bool {
        let slow = self.dice.chance(150);
        let mono = self.mono();
        let Some(outbound) = self.outbound(number) else { return false };
        let wire = outbound.wire(number);
        let Some(session) = &mut outbound.session else { return false };
        let waiting = session.output().remaining();
        let length = if slow && waiting > 1 { waiting / 2 } else { waiting };
        let octets = session.output().copy_to_bytes(length).to_vec();
        // Asking notes the progress, as the engine's loop does before its next deadline.
        session.expire(mono);
        let all = !session.output().has_remaining();
        if !all {
            outbound.mode = Mode::Writing;
            let pause = self.dice.within(1_000, 3 * SECOND);
            self.server_soon(pause, ServerEvent::Writable(number));
            self.arm_outbound(number);
        }
        self.transmit(Pipe::ToPeer, wire, octets);
        all
    }

    fn arm_outbound(&mut self, number: u64) {
        let now = self.now;
        let Some(process) = &mut self.process else { return };
        let Some(deadline) = process.outbound.get(&number).and_then(|o| o.session.as_ref()?.deadline()) else { return };
        let Some(at) = process.world_time(deadline).map(|at| at.max(now)) else { return };
        let Some(outbound) = process.outbound.get_mut(&number) else { return };
        if outbound.deadline_at.is_none_or(|planned| planned > at || planned < now) {
            outbound.deadline_at = Some(at);
            self.server_soon(at - now, ServerEvent::OutboundDeadline(number));
        }
    }

    fn settle_outcome(&mut self, number: u64, outcome: smtp_client::Outcome) {
        let Some(outbound) = self.outbound(number) else { return };
        let conn = outbound.conn;
        let Some(at) = outbound.in_hand.iter().position(|(ticket, _)| *ticket == outcome.ticket) else {
            return self.ledger.violate(format!("connection {number}: an outcome for ticket {}", outcome.ticket));
        };
        let (_, queued) = outbound.in_hand.remove(at);
        let delivered = outcome.results.iter().any(|r| r.verdict == smtp_client::Verdict::Delivered);
        let is_tarpit = delivered && self.is_tarpit(number);
        self.report.tarpit_deliveries += u64::from(is_tarpit);
        let lost = outcome.results.iter().any(|r| r.verdict == smtp_client::Verdict::Unknown);
        self.report.unknown_outcomes += u64::from(lost);
        if lost && self.sabotaged(Sabotage::ForgetInHand) {
            return;
        }
        if outcome.results.iter().all(|r| r.verdict == smtp_client::Verdict::NotAttempted) {
            return self.give_back(conn, queued);
        }
        for (recipient, result) in queued.message.pending().zip(&outcome.results) {
            if !result.local && result.verdict != smtp_client::Verdict::Delivered {
                self.ledger.refused(queued.message.id, recipient);
            }
        }
        let sabotage = self.options.sabotage;
        let pending: Vec<u16> = queued.message.pending().collect();
        if pending.len() != outcome.results.len() {
            self.ledger.violate(format!("{}: {} results for {pending:?}", queued.message.id, outcome.results.len()));
        }
        let classified = pending.into_iter().zip(outcome.results).filter_map(|(i, r)| classify(i, r, sabotage));
        let outcomes = classified.collect();
        self.settle_attempt(queued, outcomes);
    }

    fn give_back(&mut self, conn: ConnKey, queued: Queued) {
        self.report.given_back += 1;
        self.note(|| format!("{} is given back", queued.message.id));
        let id = queued.message.id;
        // It is ready again, and nobody need be asked.
        self.ledger.passed(id);
        let name = self.process.as_ref().and_then(|p| p.by_key.get(&conn.id()).and_then(|n| p.outbound.get(n)));
        let name = name.map(|outbound| outbound.opening.ready_name.clone());
        let give_back = |q: &mut QueueCore, now| {
            q.give_back(now, conn, queued);
            q.ready_counts().map(|(name, messages, _)| (name.to_string(), messages)).collect::<Vec<_>>()
        };
        let counts = self.visit_queue(give_back, |_| Some((name?, Moved::GivenBack(id))));
        let Some(process) = &mut self.process else { return };
        for (name, messages) in counts {
            let over = process.given_back.entry(name).or_default();
            *over = (*over).max(messages);
        }
    }

    fn close_outbound(&mut self, number: u64, closing: &Closing) {
        self.note(|| format!("connection {number} closes: {:?} {}", closing.why, closing.reply));
        let Some(wire) = self.outbound(number).map(|outbound| outbound.wire(number)) else { return };
        self.hang_up(Pipe::ToPeer, wire);
        let Some(outbound) = self.outbound(number) else { return };
        if !outbound.in_hand.is_empty() {
            let held = outbound.in_hand.len();
            self.ledger.violate(format!("connection {number} closed with {held} messages in hand"));
            return;
        }
        match ended(outbound.was_ready, closing) {
            Ended::Refused => self.next_host(number),
            Ended::Done => {
                let Some(outbound) = self.take_out(number) else { return };
                if !self.sabotaged(Sabotage::EndsUnreported) {
                    self.with_queue(|q, now| q.connection_ended(now, outbound.conn));
                }
            }
        }
    }
}

fn ended(was_ready: bool, closing: &Closing) -> Ended {
    match closing.why {
        CloseReason::Finished => Ended::Done,
        // It served, or could have: that it closed while idle is nobody's failure.
        _ if was_ready => Ended::Done,
        _ => Ended::Refused,
    }
}

/// What a connection took out of its ready queue.
fn taken(ready_name: &Arc<str>, take: &Take) -> Option<(Arc<str>, Moved)> {
    match take {
        Take::Message(queued) => Some((ready_name.clone(), Moved::Taken(queued.message.id))),
        Take::Idle | Take::After(_) | Take::Close => None,
    }
}

/// A lost final reply counts as transient: a retry may repeat the delivery, never lose it.
fn classify(recipient: u16, result: RecipientResult, sabotage: Sabotage) -> Option<Outcome> {
    let verdict = match result.verdict {
        smtp_client::Verdict::Unknown if sabotage == Sabotage::UnknownIsPermanent => Verdict::Permanent,
        smtp_client::Verdict::Unknown if sabotage == Sabotage::UnknownIsDelivered => Verdict::Delivered,
        smtp_client::Verdict::Delivered => Verdict::Delivered,
        smtp_client::Verdict::Permanent => Verdict::Permanent,
        smtp_client::Verdict::Transient | smtp_client::Verdict::Unknown => Verdict::Transient,
        smtp_client::Verdict::NotAttempted => return None,
    };
    let command = (!result.command.is_empty()).then(|| result.command.into_owned());
    Some(Outcome { recipient, verdict, reply: (*result.reply).clone(), command })
}

/// Bits of a connection's number on the wire that tell the hosts of one connection apart.
pub(crate) const HOST_BITS: u32 = 8;

fn settings(path: &EgressPath) -> Settings {
    Settings {
        ehlo_domain: "sim.test".to_owned(),
        timeouts: Timeouts {
            banner: path.banner_timeout.get(),
            ehlo: path.ehlo_timeout.get(),
            mail_from: path.mail_from_timeout.get(),
            rcpt_to: path.rcpt_to_timeout.get(),
            data: path.data_timeout.get(),
            data_dot: path.data_dot_timeout.get(),
            rset: path.rset_timeout.get(),
            ..Timeouts::default()
        },
        enable_pipelining: path.enable_pipelining,
        enable_rset: path.enable_rset,
        tls: TlsMode::Disabled,
        max_recipients_per_batch: path.max_recipients_per_batch,
        ..Settings::default()
    }
}
