//! The driver of one outbound session: bytes between a socket and `smtp_client::Session` (`exchange`).
//!
//! Takes messages from the ready queue as the session can use them, reads bodies back when
//! they are not in memory, and settles every outcome. Whatever happens to the socket, each
//! message taken is settled or given back exactly once.

mod exchange;

use self::exchange::Waits;
use crate::egress::connection::{CARRIED, Ended, Held, InHand};
use crate::egress::dispatcher::{Dispatcher, DispatcherPhase};
use crate::egress::password;
use crate::egress::security::Security;
use crate::egress::service::protocol_of;
use crate::egress::starttls::SiteTls;
use crate::egress::tls_reports::TlsWatch;
use crate::engine::Engine;
use crate::settle::{AttemptFacts, Handover};
use crate::watching::{Secret, Seen, Side, TEXT_MAX};
use ::clock::Instant;
use bytes::Buf;
use config::EgressPath;
use message::{Envelope, Message, TlsDemand, header_needs_utf8};
use net::Stream;
use policy::Event;
use queue::{Bearing, ConnKey, Opening, Outcome, QueueKey, QueueName, Queued, Take, Verdict};
use record::RecordType;
use route::Candidate;
use serde_json::{Map, Value};
use smtp_client::{
    AuthPlain, CloseReason, Closing, Job, RecipientResult, Session, Settings, Step, Timeouts, TlsMode, Verp,
};
use smtp_wire::{Dsn, EnhancedCode, Reply};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use telemetry::metrics::Histogram;
use tokio::sync::Notify;

/// A session and what it holds.
pub(crate) struct Delivery {
    engine: Engine,
    conn: ConnKey,
    path: Arc<EgressPath>,
    host: String,
    stream: Stream,
    session: Session,
    waker: Arc<Notify>,
    dispatcher: Arc<Dispatcher>,
    facts: AttemptFacts,
    tls: SiteTls,
    /// For reports about TLS, where there are any.
    tls_watch: Option<Box<TlsWatch>>,
    /// Messages begun, by ticket; at most two.
    in_hand: InHand,
    /// When each of them was begun.
    begun: VecDeque<(u64, Instant)>,
    /// How long they take.
    latency: Histogram,
    taken: usize,
    /// The session got as far as taking messages.
    was_ready: bool,
    /// A message that the next host is to have at once stands in `in_hand`.
    carries: Option<Reply>,
    /// The clock when something happened last. What is done about it takes no time.
    now: Instant,
    /// When octets last went either way, or a message was begun.
    progress_at: Instant,
    /// How long that may be ago.
    progress_timeout: Duration,
    /// Nothing did for too long: that ended the session.
    was_stuck: bool,
    buffer: Vec<u8>,
    /// What watchers must not see.
    secret: Secret,
    /// Octets of the session's output that they were told of, or nobody was.
    told: u64,
    /// What they may know of the message begun last, if anybody watched then.
    about: Map<String, Value>,
    /// Its queue.
    last_queue: Option<QueueKey>,
    waits: Waits,
}

/// Who ends a session before its time.
pub(crate) enum Cut {
    /// An operator.
    Ended,
    /// The end of the program, which waited as long as the path asks for.
    Stopping,
}

impl Cut {
    /// What is logged for messages in hand.
    pub fn why(&self) -> &'static str {
        match self {
            Cut::Ended => "an administrator ended the connection",
            Cut::Stopping => "shutting down",
        }
    }
}

impl Delivery {
    pub fn new(
        engine: Engine,
        opening: &Opening,
        host: &Candidate,
        stream: Stream,
        held: Held,
        facts: AttemptFacts,
        (security, tls_allowed, auth): (Security, bool, Option<AuthPlain>),
    ) -> Delivery {
        let from = facts.source_address.as_ref().map(|source| source.address.as_str());
        let mut tls_watch = TlsWatch::new(&engine, opening, host, &security);
        let tls = SiteTls::new(&engine, opening, security);
        let mode = tls.mode(tls_allowed);
        tls_watch.iter_mut().for_each(|watch| watch.begins(mode, from));
        let settings = settings(&engine, opening, mode, tls.requiretls(), auth);
        let now = engine.clock.mono();
        let session = Session::new(now, Arc::new(settings));
        let Held { waker, in_hand, dispatcher, .. } = held;
        Delivery {
            conn: opening.conn,
            path: opening.leg.path.clone(),
            host: host.host.clone(),
            stream,
            session,
            waker,
            dispatcher,
            facts,
            tls,
            tls_watch,
            in_hand,
            begun: VecDeque::new(),
            latency: engine.metrics.latencies.delivery(protocol_of(&opening.ready_name)),
            taken: 0,
            was_ready: false,
            carries: None,
            now,
            progress_at: now,
            progress_timeout: opening.leg.path.smtp_progress_timeout(),
            was_stuck: false,
            buffer: vec![0; READ_BYTES],
            secret: Secret::default(),
            told: 0,
            about: Map::new(),
            last_queue: None,
            waits: Waits::new(engine.clock),
            engine,
        }
    }

    /// Runs the session to its end.
    pub async fn serve(mut self) -> Result<Ended, String> {
        self.show(&Seen::BeginSession);
        self.show(&Seen::Connected);
        loop {
            let now = self.now;
            match self.session.next(now) {
                Step::Outcome(outcome) => {
                    let ticket = outcome.ticket;
                    if self.settle(outcome) {
                        self.time(ticket, now);
                    }
                }
                Step::Send => {
                    self.pipeline_more().await;
                    self.write().await;
                }
                Step::StartTls => self.start_tls().await,
                Step::Ready => {
                    self.was_ready = true;
                    self.begin_or_idle().await;
                }
                Step::NeedInput => self.read().await,
                Step::Close(closing) => {
                    self.show(&Seen::Diagnostic("INFO", &format!("{:?}: {}", closing.why, closing.reply)));
                    self.show(&Seen::Closed);
                    if let Some(watch) = self.tls_watch.take() {
                        watch.ended(&self.engine, &closing, self.session.tls(), self.was_ready);
                    }
                    return Ok(self.ended(&closing));
                }
            }
        }
    }

    /// Lets the next message's envelope ride along, when there is one and memory has room for it now: the message in hand
    /// is not sent yet and must not wait for what others in the same place hold.
    async fn pipeline_more(&mut self) {
        while self.session.can_begin() && !self.in_hand.is_empty() && self.may_take() && !self.engine.holds_deliveries()
        {
            match self.engine.with_queue(|q, now| q.take_more(now, self.conn)) {
                Take::Message(queued) => match self.engine.load_now(*queued).await {
                    Ok(Some(queued)) => self.begin(queued),
                    Ok(None) => {}
                    Err(queued) => return self.engine.with_queue(|q, now| q.give_back(now, self.conn, queued)),
                },
                Take::Idle | Take::After(_) | Take::Close => return,
            }
        }
    }

    /// With nothing in hand: the next message, or wait for one.
    async fn begin_or_idle(&mut self) {
        if self.dispatcher.is_ended() {
            return self.cut(&Cut::Ended);
        }
        if !self.may_take() {
            return self.finish();
        }
        if self.engine.holds_deliveries() {
            return self.idle(LOGS_PAUSE, false, DispatcherPhase::Idle).await;
        }
        if let Some(queued) = self.in_hand.take(CARRIED) {
            return self.begin(queued);
        }
        match self.engine.with_queue(|q, now| q.take(now, self.conn)) {
            Take::Message(queued) => {
                let dispatcher = self.dispatcher.clone();
                match self.engine.load_unless(dispatcher.ended(), *queued).await {
                    Ok(Some(queued)) => self.begin(queued),
                    Ok(None) => {}
                    Err(queued) => self.engine.with_queue(|q, now| q.give_back(now, self.conn, queued)),
                }
            }
            Take::Idle => self.idle(self.path.idle_timeout.get(), true, DispatcherPhase::Idle).await,
            Take::After(wait) => self.idle(wait, false, DispatcherPhase::MessageRateThrottled).await,
            Take::Close => self.finish(),
        }
    }

    /// QUIT, once what is in hand is done.
    fn finish(&mut self) {
        let now = self.now;
        self.dispatcher.enter(DispatcherPhase::Closing, now);
        self.session.finish(now);
    }

    /// The session ends here and now; what is in hand is settled as if the network had failed.
    fn cut(&mut self, cut: &Cut) {
        self.session.connection_lost(self.now, cut.why());
    }

    /// When something must have happened: what the session awaits, or anything at all.
    fn deadline(&self) -> Instant {
        self.session.deadline().unwrap_or(Instant::NEVER).min(self.stuck_at())
    }

    fn stuck_at(&self) -> Instant {
        self.progress_at + self.progress_timeout
    }

    /// [`Delivery::deadline`] may have passed.
    fn expire(&mut self) {
        let now = self.now;
        if now < self.stuck_at() || self.session.deadline().is_some_and(|deadline| deadline <= now) {
            return self.session.expire(now);
        }
        self.was_stuck = true;
        self.engine.count_stuck(&self.facts.site);
        let timeout = self.progress_timeout;
        self.session.connection_lost(now, &format!("no progress for {timeout:?}"));
    }

    fn may_take(&self) -> bool {
        self.taken < self.path.max_deliveries_per_connection && !self.engine.stop.is_draining()
    }

    /// Begins a message whose content is in memory.
    fn begin(&mut self, queued: Queued) {
        let message = &queued.message;
        let Some(resident) = message.resident.as_deref() else { return };
        let (head, body) = (resident.head.clone(), resident.body.clone());
        let is_head_ascii = head.is_ascii();
        self.taken += 1;
        let ticket = self.taken as u64;
        let job = Job {
            ticket,
            sender: resident.envelope.sender.clone(),
            recipients: message.pending().map(|r| resident.envelope.recipients[usize::from(r)].clone()).collect(),
            dsn: dsn_of(message, &resident.envelope),
            requiretls: resident.envelope.tls == TlsDemand::Required,
            needs_8bit: !(is_head_ascii && body.is_ascii()),
            // Addresses that need it are seen by the session, recipient by recipient.
            needs_smtputf8: !is_head_ascii && header_needs_utf8(&resident.meta, &head),
            head,
            body,
        };
        self.show_written();
        self.tls_watch.iter_mut().for_each(|watch| watch.carries(&self.engine, queued.queue));
        self.last_queue = Some(queued.queue);
        self.in_hand.put(ticket, queued);
        self.show_begun();
        // Its content may have been on its way for long.
        let now = self.look_at_clock();
        self.progress_at = now;
        self.begun.push_back((ticket, now));
        self.dispatcher.enter(DispatcherPhase::DeliveringMessage, now);
        self.session.begin(now, job);
    }

    async fn start_tls(&mut self) {
        let timeout = self.path.starttls_timeout.get().min(self.progress_timeout);
        let made = tokio::select! {
            made = tokio::time::timeout(timeout, self.tls.connector(&self.engine, &self.path)) => made,
            cut = interruption(&self.engine, &self.dispatcher, &self.path) => return self.cut(&cut),
        };
        if made.is_err() {
            self.tls.not_read(timeout);
        }
        let Some(connector) = made.ok().flatten() else {
            return self.session.connection_lost(self.now, "TLS cannot be used");
        };
        let plain = std::mem::replace(&mut self.stream, Stream::Closed);
        let handshake = plain.connect_tls(&connector, self.tls.server_name(&self.host));
        let done = tokio::select! {
            done = tokio::time::timeout(timeout, handshake) => done,
            cut = interruption(&self.engine, &self.dispatcher, &self.path) => return self.cut(&cut),
        };
        let now = self.look_at_clock();
        self.progress_at = now;
        match done {
            Ok(Ok((stream, facts))) => {
                self.stream = stream;
                let text = format!("{} with {}", facts.protocol_version, facts.cipher);
                self.show(&Seen::Diagnostic("INFO", &text));
                self.facts.tls = Some(facts);
                let (engine, verifies) = (&self.engine, self.tls.verifies());
                self.tls_watch.iter_mut().for_each(|watch| watch.secured(engine, &self.stream, verifies));
                self.session.tls_started(now, verifies);
            }
            Ok(Err(error)) => {
                self.tls_watch.iter_mut().for_each(|watch| watch.broke(&error));
                self.session.tls_failed(now, &error.to_string());
            }
            Err(_) => {
                self.tls_watch.iter_mut().for_each(|watch| watch.timed_out());
                self.session.tls_failed(now, "TLS handshake timed out");
            }
        }
    }

    /// Counts how long a message took whose outcome is there.
    fn time(&mut self, ticket: u64, now: Instant) {
        while let Some((of, begun)) = self.begun.pop_front_if(|(of, _)| *of <= ticket) {
            if of == ticket {
                self.latency.observe(now.saturating_since(begun).as_secs_f64());
            }
        }
    }

    /// Whether it was tried.
    fn settle(&mut self, mut outcome: smtp_client::Outcome) -> bool {
        let Some(queued) = self.in_hand.take(outcome.ticket) else { return false };
        if self.was_stuck {
            let timeout = self.progress_timeout;
            outcome.results.iter_mut().filter(|result| result.local).for_each(|result| result.reply = stuck(timeout));
        }
        if outcome.results.iter().all(|r| r.verdict == smtp_client::Verdict::NotAttempted) {
            self.engine.with_queue(|q, now| q.give_back(now, self.conn, queued));
            return false;
        }
        let pending: Vec<u16> = queued.message.pending().collect();
        self.facts.handover = match (self.path.use_lmtp, self.session.capabilities().dsn) {
            (true, _) => Handover::Final,
            (false, true) => Handover::RelayWithDsn,
            (false, false) => Handover::Relay,
        };
        let goes_on = self.path.try_next_host_on_transport_error
            && self.session.is_closed()
            && broke_before_the_end(&outcome)
            && !self.must_report_first(&queued, &outcome);
        if self.path.concurrency_feedback.is_some() {
            self.tell_bearing(&outcome);
        }
        let is_judged = self.engine.interest.has(Event::RewriteDeliveryStatus);
        let refused = if is_judged { refused(&pending, &outcome.results) } else { Vec::new() };
        let outcomes: Vec<Outcome> =
            pending.into_iter().zip(outcome.results).filter_map(|(i, result)| classify(i, result)).collect();
        outcomes.iter().for_each(|outcome| self.dispatcher.count(outcome.verdict));
        if !goes_on {
            self.engine.judge_attempt(queued, outcomes, refused, &self.facts);
            return true;
        }
        let why = outcomes.iter().rev().find(|outcome| outcome.verdict == Verdict::Transient);
        let why = why.map(|outcome| outcome.reply.clone());
        if let Some(queued) = self.engine.note_failure(queued, outcomes, &self.facts) {
            self.in_hand.put(CARRIED, queued);
            self.carries = Some(why.unwrap_or_else(|| Reply::new(400, "KumoMTA internal: the connection broke")));
        }
        true
    }

    /// Tells the queue whether the destination takes mail: that it refuses some recipient for good is its right.
    fn tell_bearing(&self, outcome: &smtp_client::Outcome) {
        let takes = |result: &RecipientResult| {
            matches!(result.verdict, smtp_client::Verdict::Delivered | smtp_client::Verdict::Permanent)
        };
        let bearing = if outcome.results.iter().any(takes) { Bearing::Delivers } else { Bearing::Defers };
        self.engine.with_queue(|q, now| q.bears(now, self.conn.ready, bearing));
    }

    /// Something has become final of which the sender or policy is to be told before it is forgotten: the rest waits for the
    /// retry.
    fn must_report_first(&self, queued: &Queued, outcome: &smtp_client::Outcome) -> bool {
        let is_refusal = |result: &RecipientResult| result.verdict == smtp_client::Verdict::Permanent;
        let config = || self.engine.ask_queue(|q| q.config(queued.queue).unwrap_or_default());
        let is_delivery = |result: &RecipientResult| result.verdict == smtp_client::Verdict::Delivered;
        let hears = |kind| self.engine.has_hook_for(kind);
        let refused = outcome.results.iter().any(is_refusal)
            && (hears(RecordType::Bounce)
                || self.engine.interest.has(Event::RewriteDeliveryStatus)
                || config().delivery_reports.is_some());
        refused || (outcome.results.iter().any(is_delivery) && hears(RecordType::Delivery))
    }

    fn ended(&self, closing: &Closing) -> Ended {
        match self.end_of(closing) {
            Ended::Refused(why) => match closing.why {
                CloseReason::TlsUnavailable if self.tls.requiretls().1 => Ended::Unfit(ENCRYPTION_NEEDED, why),
                CloseReason::RequireTlsUnavailable => Ended::Unfit(REQUIRETLS_NEEDED, why),
                _ => Ended::Refused(why),
            },
            end => end,
        }
    }

    fn end_of(&self, closing: &Closing) -> Ended {
        if let Some(ended) = self.tls.ended(&self.engine, &self.path, closing, self.session.tls().is_on()) {
            return ended;
        }
        if closing.reconnect_in_clear {
            return Ended::ReconnectInClear;
        }
        match closing.why {
            CloseReason::Finished => Ended::Done,
            // That it closed while idle is nobody's failure.
            _ if self.was_ready && closing.phase == smtp_client::Phase::Idle => Ended::Done,
            _ if self.was_ready => Ended::Broken { carries: self.carries.clone() },
            _ => Ended::Refused(closing.reply.to_string()),
        }
    }

    /// Something happened.
    fn look_at_clock(&mut self) -> Instant {
        self.now = self.engine.clock.mono();
        self.now
    }

    /// Tells watchers.
    fn show(&self, seen: &Seen<'_>) {
        self.engine.show_watchers(Side::Client, || self.known(), seen);
    }

    /// Tells them of the message that was put in hand last; what was written before is told.
    fn show_begun(&mut self) {
        self.about.clear();
        if self.engine.watchers.is_watched() {
            self.about = self.known_of_last();
            self.show(&Seen::MessageObtained);
        }
    }

    /// Tells them what is about to be written and was not told yet.
    fn show_written(&mut self) {
        let output = self.session.output();
        let untold = usize::try_from(output.queued() - std::mem::replace(&mut self.told, output.queued())).unwrap_or(0);
        if !self.engine.watchers.is_watched() || untold == 0 {
            return;
        }
        let mut skipped = output.remaining().saturating_sub(untold);
        let mut said = Vec::new();
        for chunk in output.chunks() {
            let from = skipped.min(chunk.len());
            skipped -= from;
            said.extend_from_slice(&chunk[from..chunk.len().min(from + TEXT_MAX - said.len())]);
            if said.len() == TEXT_MAX {
                break;
            }
        }
        let is_all = said.len() == untold;
        let said = self.secret.said(&said);
        let octets = if is_all { said.len() } else { untold };
        self.engine.show_watchers(Side::Client, || self.known(), &Seen::Write(&said, octets));
    }

    /// What tells this session from others, under KumoMTA's names.
    fn known(&self) -> Map<String, Value> {
        let facts = &self.facts;
        let text = |value: &Option<Arc<str>>| value.as_deref().unwrap_or_default().to_owned();
        let peer = facts.peer.as_ref().map(|peer| peer.addr.clone()).unwrap_or_default();
        let source = facts.source_address.as_ref().map(|source| source.address.clone()).unwrap_or_default();
        let own = [
            ("id", text(&facts.session_id)),
            ("egress_pool", text(&facts.pool)),
            ("egress_source", text(&facts.source)),
            ("ready_queue_name", facts.site.as_ref().to_owned()),
            ("source_address", source),
            ("mx_host", self.host.clone()),
            ("mx_address", peer),
        ];
        let own = own.into_iter().map(|(name, value)| (name.to_owned(), Value::from(value)));
        // Who began to watch behind its beginning is told whose it is too, or his criteria would not exclude it.
        let about = if self.about.is_empty() { self.known_of_last() } else { self.about.clone() };
        own.chain(about).collect()
    }

    /// The same of the message begun last; of one that has ended since, its queue, if that is still there.
    fn known_of_last(&self) -> Map<String, Value> {
        let Some(queue) = self.last_queue else { return Map::new() };
        let served = self.in_hand.last(|queued| who_is_served(&queued.message)).flatten();
        let (id, sender, recipients) =
            served.map_or((None, None, None), |(id, from, to)| (Some(id), Some(from), Some(to)));
        let name = self.engine.ask_queue(|q| q.queue_name(queue));
        let QueueName { campaign, tenant, domain, routing_domain } = QueueName::parse(&name);
        let facts = [
            ("message_id", id),
            ("sender", sender),
            ("recipient", recipients),
            ("queue_name", Some(name.as_ref().to_owned())),
            ("domain", Some(domain)),
            ("routing_domain", routing_domain),
            ("campaign", campaign),
            ("tenant", tenant),
        ];
        facts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), Value::from(value?)))).collect()
    }
}

/// The id, sender and pending recipients of a message whose content is in memory.
fn who_is_served(message: &Message) -> Option<(String, String, String)> {
    let envelope = &message.resident.as_deref()?.envelope;
    let recipients: Vec<&str> = message.pending().map(|r| envelope.recipients[usize::from(r)].as_str()).collect();
    Some((message.id.to_string(), envelope.sender.as_str().to_owned(), recipients.join(", ")))
}

/// Completes when somebody ends the session from outside.
pub(crate) async fn interruption(engine: &Engine, dispatcher: &Dispatcher, path: &EgressPath) -> Cut {
    tokio::select! {
        () = dispatcher.ended() => Cut::Ended,
        () = engine.stop.over_for(path.system_shutdown_timeout.map(config::Duration::get)) => Cut::Stopping,
    }
}

/// What is logged for a message whose session stood still (KumoMTA: 451 4.4.1).
pub(crate) fn stuck(timeout: Duration) -> Arc<Reply> {
    let text = format!("KumoMTA internal: the delivery made no progress for {timeout:?}");
    Arc::new(Reply::enhanced(451, EnhancedCode::new(4, 4, 1), text))
}

/// DSN options of the recipients that are pending.
fn dsn_of(message: &Message, envelope: &Envelope) -> Option<Box<Dsn>> {
    let dsn = envelope.dsn.as_ref()?;
    match message.settled.is_empty() {
        true => Some(dsn.clone()),
        false => dsn.part(message.pending().map(usize::from)),
    }
}

/// The connection failed, not the message; and the message is nowhere yet: another host may have it at once. Where nobody
/// knows whether some recipient has it, all of it waits for the retry.
fn broke_before_the_end(outcome: &smtp_client::Outcome) -> bool {
    let of_transport = |result: &RecipientResult| {
        result.verdict == smtp_client::Verdict::Transient && (result.local || result.reply.code == SERVICE_CLOSING)
    };
    let unknown = |result: &RecipientResult| result.verdict == smtp_client::Verdict::Unknown;
    outcome.results.iter().any(of_transport) && !outcome.results.iter().any(unknown)
}

/// Who was refused by the server, in its answer to MAIL, RCPT, DATA or the final dot; what failed by itself was not.
fn refused(pending: &[u16], results: &[RecipientResult]) -> Vec<u16> {
    let is_refusal = |result: &RecipientResult| {
        !result.local
            && TRANSACTION.iter().any(|verb| result.command.starts_with(verb))
            && matches!(result.verdict, smtp_client::Verdict::Transient | smtp_client::Verdict::Permanent)
    };
    pending.iter().zip(results).filter(|(_, result)| is_refusal(result)).map(|(recipient, _)| *recipient).collect()
}

/// How the commands of a transaction begin.
const TRANSACTION: [&str; 5] = ["MAIL", "RCPT", "DATA", "BDAT", "."];

/// A lost final reply counts as transient: a retry may repeat the delivery, never lose it.
fn classify(recipient: u16, result: RecipientResult) -> Option<Outcome> {
    let verdict = match result.verdict {
        smtp_client::Verdict::Delivered => Verdict::Delivered,
        smtp_client::Verdict::Permanent => Verdict::Permanent,
        smtp_client::Verdict::Transient | smtp_client::Verdict::Unknown => Verdict::Transient,
        smtp_client::Verdict::NotAttempted => return None,
    };
    let command = (!result.command.is_empty()).then(|| result.command.into_owned());
    Some(Outcome { recipient, verdict, reply: (*result.reply).clone(), command })
}

fn settings(
    engine: &Engine,
    opening: &Opening,
    tls: TlsMode,
    (is_name_known, needs_requiretls): (bool, bool),
    auth: Option<AuthPlain>,
) -> Settings {
    let (path, source) = (&opening.leg.path, &opening.leg.source);
    let ehlo_domain = path.ehlo_domain.clone().or_else(|| source.ehlo_domain.clone());
    Settings {
        ehlo_domain: ehlo_domain.unwrap_or_else(|| engine.settings.hostname.clone()),
        timeouts: Timeouts {
            banner: path.banner_timeout.get(),
            ehlo: path.ehlo_timeout.get(),
            starttls: path.starttls_timeout.get(),
            auth: path.auth_timeout.get(),
            mail_from: path.mail_from_timeout.get(),
            rcpt_to: path.rcpt_to_timeout.get(),
            data: path.data_timeout.get(),
            data_dot: path.data_dot_timeout.get(),
            rset: path.rset_timeout.get(),
            ..Timeouts::default()
        },
        enable_pipelining: path.enable_pipelining,
        enable_rset: path.enable_rset,
        use_lmtp: path.use_lmtp,
        tls,
        is_name_known,
        needs_requiretls,
        reconnect_in_clear: path.opportunistic_tls_reconnect_on_failed_handshake,
        ignore_8bit_checks: path.ignore_8bit_checks,
        max_recipients_per_batch: path.max_recipients_per_batch,
        verp: verp(path),
        auth,
    }
}

fn verp(path: &EgressPath) -> Option<Verp> {
    let mut delimiters = path.verp_delimiters.as_deref()?.chars();
    Some(Verp { before: delimiters.next()?, at: delimiters.next()? })
}

/// How the session logs in. An error names the option: without its password no connection is made.
pub(super) async fn auth(path: &EgressPath, within: Duration) -> Result<Option<AuthPlain>, String> {
    let Some((username, source)) = path.smtp_auth_plain_username.as_ref().zip(path.smtp_auth_plain_password.as_ref())
    else {
        return Ok(None);
    };
    let password = String::from_utf8(password::read(PASSWORD, source, within).await?);
    Ok(Some(AuthPlain {
        username: username.clone(),
        password: password.map_err(|_| format!("{PASSWORD}: it is not UTF-8 (RFC 4616)"))?,
        allow_without_tls: path.allow_smtp_auth_plain_without_tls,
        allow_without_valid_certificate: path.allow_smtp_auth_plain_without_valid_certificate,
    }))
}

/// The option that names a password.
const PASSWORD: &str = "smtp_auth_plain_password";
/// A server without STARTTLS, for mail with REQUIRETLS (RFC 8689 section 4.2.1).
const ENCRYPTION_NEEDED: EnhancedCode = EnhancedCode::new(5, 7, 10);
/// A server without REQUIRETLS.
const REQUIRETLS_NEEDED: EnhancedCode = EnhancedCode::new(5, 7, 30);
/// "Service not available, closing transmission channel" (RFC 5321 section 4.2.2).
const SERVICE_CLOSING: u16 = 421;
/// Pause before looking again whether the logs take records.
pub(crate) const LOGS_PAUSE: Duration = Duration::from_millis(100);
/// Octets read at once: replies are short.
const READ_BYTES: usize = 8 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use smtp_client::{Outcome, Phase, Verdict};
    use smtp_wire::Reply;

    fn result(verdict: Verdict, code: u16, local: bool) -> RecipientResult {
        let reply = Arc::new(Reply::new(code, "so it is"));
        RecipientResult { verdict, reply, command: "".into(), phase: Phase::Data, local }
    }

    #[test]
    fn only_the_answers_of_a_server_to_a_transaction_are_refusals() {
        let said = |verdict, local, command: &'static str| RecipientResult {
            command: command.into(),
            ..result(verdict, 550, local)
        };
        let results = [
            said(Verdict::Permanent, false, "RCPT TO:<a@b>"),
            said(Verdict::Transient, false, "."),
            said(Verdict::Transient, true, "DATA"),
            said(Verdict::Unknown, false, "."),
            said(Verdict::Delivered, false, "."),
            said(Verdict::Permanent, false, ""),
            said(Verdict::Permanent, false, "EHLO me"),
            said(Verdict::NotAttempted, false, ""),
        ];
        let pending: Vec<u16> = (10..).take(results.len()).collect();
        assert_eq!(refused(&pending, &results), [10, 11]);
    }

    #[test]
    fn only_what_is_nowhere_yet_may_go_on_to_another_host() {
        let broke = result(Verdict::Transient, 400, true);
        let goodbye = result(Verdict::Transient, 421, false);
        let deferred = result(Verdict::Transient, 451, false);
        let delivered = result(Verdict::Delivered, 250, false);
        let unknown = result(Verdict::Unknown, 400, true);
        for (results, goes_on) in [
            (vec![broke.clone()], true),
            (vec![goodbye.clone()], true),
            (vec![delivered.clone(), broke.clone()], true),
            (vec![deferred.clone()], false),
            (vec![delivered], false),
            (vec![unknown.clone()], false),
            (vec![unknown, broke], false),
        ] {
            let outcome = Outcome { ticket: 1, results };
            assert_eq!(broke_before_the_end(&outcome), goes_on, "{outcome:?}");
        }
    }
}
