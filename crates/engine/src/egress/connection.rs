//! One outbound connection: finds a host that answers and keeps a session on it. What is not SMTP is `round`'s.
//!
//! Walks the connection plan from the best host on. A host that cannot be reached or refuses
//! us before any message gives way to the next; when none is left, the first message of the
//! ready queue bears the failure. Ends by telling the queue, whatever happened.

use crate::egress::carriage::Carriage;
use crate::egress::cluster::Lease;
use crate::egress::delivery::{Delivery, auth};
use crate::egress::dialling;
use crate::egress::dispatcher::{Dispatcher, DispatcherPhase};
use crate::egress::reasons::Reasons;
use crate::egress::routing::wire_reply;
use crate::egress::service::{protocol_of, provider_of};
use crate::engine::Engine;
use crate::settle::{AttemptFacts, Handover};
use crate::watching::{Seen, Side};
use config::{EgressPath, IpLookupStrategy, ReconnectStrategy};
use message::{Message, MessageId};
use net::Stream;
use net::dial::{DialError, Way};
use queue::{ConnKey, Leg, Opening, QueueKey, Queued, SourceFault, Verdict};
use record::PeerAddress;
use route::{Candidate, ConnectionPlan, IpStrategy, MailExchangers, PlanOptions};
use smtp_wire::{EnhancedCode, Reply};
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use telemetry::Tally;
use tokio::sync::{Notify, OwnedMutexGuard};

/// How a session on one host ended.
pub(crate) enum Ended {
    /// It served; the connection is over.
    Done,
    /// It served and broke: 421, silence, an error of the network.
    Broken {
        /// Of the message in hand that another host is to have at once: why this one has not, which is in the log.
        carries: Option<Reply>,
    },
    /// Refused before a message was begun: the next host may do better.
    Refused(String),
    /// Refused as before, for mail with REQUIRETLS: the host says that it cannot do what that asks for. The status when no
    /// other can.
    Unfit(EnhancedCode, String),
    /// The source itself cannot be used: no other host will do better.
    NoSource(SourceFault, String),
    /// TLS failed and the path allows to connect to this host again in clear.
    ReconnectInClear,
}

impl Engine {
    /// Carries out `Effect::Open`.
    pub(crate) fn open_connection(&self, opening: Opening) {
        if self.stop.is_draining() {
            return;
        }
        // Unique over time too: numbers of connections come again.
        let (random, now) = self.with_queue(|q, now| (q.random(), now));
        let session_id = uuid::Uuid::from_u64_pair(random, opening.conn.id());
        let held = Held {
            waker: Arc::default(),
            in_hand: InHand::default(),
            dispatcher: Arc::new(Dispatcher::new(session_id, now)),
            lease: Lease::of(&opening, session_id.to_string()),
            shutdown_timeout: opening.leg.path.system_shutdown_timeout.map(config::Duration::get),
        };
        self.connections().insert(opening.conn, held.clone());
        let engine = self.clone();
        self.deliveries.spawn(async move {
            let conn = opening.conn;
            let source = opening.leg.source.clone();
            if !engine.lease(&opening, &held).await {
                return;
            }
            let (in_hand, leased) = (held.in_hand.clone(), held.clone());
            let end = Guarded(Box::pin(engine.run_connection(opening, held))).await;
            in_hand.kept().await;
            let panicked = in_hand.take_all();
            let end = end.unwrap_or_else(|| Err(Unreached::Hosts(Reply::new(451, PANICKED))));
            for queued in panicked {
                // Counted as an attempt: a message that breaks sessions must not be tried at once again.
                engine.settle_untried(queued, Verdict::Transient, &Reply::new(451, PANICKED), None);
            }
            engine.give_back(&leased).await;
            engine.connections().remove(&conn);
            engine.report(conn, &source.name, end);
        });
    }

    /// Messages that connections hold which were cut short.
    pub(crate) fn take_abandoned(&self) -> Vec<Queued> {
        self.connections().drain().flat_map(|(_, held)| held.in_hand.take_all()).collect()
    }

    pub(crate) fn connections(&self) -> MutexGuard<'_, HashMap<ConnKey, Held>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run_connection(&self, opening: Opening, held: Held) -> Result<(), Unreached> {
        if self.unless_over(&held, self.pressure.delivery_allowed()).await.is_none() {
            return Ok(());
        }
        held.dispatcher.enter(DispatcherPhase::AttemptingConnection, self.clock.mono());
        let carriage = opening.leg.destination.hosts::<Carriage>().ok_or_else(no_hosts)?;
        let exchangers = match &*carriage {
            Carriage::Smtp { hosts, .. } => hosts,
            other => return self.carry(&opening, other, &held).await,
        };
        let found = self.candidates(&opening, exchangers);
        let Some(candidates) = self.unless_over(&held, found).await else { return Ok(()) };
        let mut walk = Walk::default();
        let end = self.walk(&opening, &candidates?, &held, &mut walk).await;
        if let Some(queued) = held.in_hand.take(CARRIED) {
            // No other host took it. All of them together are one attempt, and their failures are logged.
            self.settle_attempt(queued, Vec::new(), &AttemptFacts { told: walk.told, ..AttemptFacts::default() });
        }
        end
    }

    /// What `work` comes to, unless the program stops or the connection is told to end first. Holds no message.
    pub(crate) async fn unless_over<T>(&self, held: &Held, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            done = self.stop.unless_requested(work) => done,
            () = held.dispatcher.ended() => None,
        }
    }

    /// Where a connection that broke is opened anew, if it is to be and may be.
    fn anew(&self, opening: &Opening, carries: bool, is_last: bool) -> Option<Anew> {
        let anew = match opening.leg.path.reconnect_strategy {
            // A message that is to try the next host at once does so in any case.
            _ if carries => Anew::NextHost,
            ReconnectStrategy::TerminateSession => return None,
            ReconnectStrategy::ReconnectSameHost => Anew::SameHost,
            ReconnectStrategy::ConnectNextHost => Anew::NextHost,
        };
        let conn = opening.conn;
        let is_none = anew == Anew::NextHost && is_last;
        let may = self.with_queue(|q, now| (carries || q.has_work(conn)) && (is_none || q.may_reconnect(now, conn)));
        (may || carries).then_some(anew)
    }

    /// From host to host, until one has served to the end or none is left.
    async fn walk(
        &self,
        opening: &Opening,
        candidates: &[Candidate],
        held: &Held,
        walk: &mut Walk,
    ) -> Result<(), Unreached> {
        for (number, candidate) in (1..).zip(candidates) {
            let is_last = number == candidates.len();
            let mut tls_allowed = true;
            loop {
                let name = format!("{} ({})", candidate.host, candidate.addr);
                held.dispatcher.turn_to(name);
                held.dispatcher.enter(DispatcherPhase::AttemptingConnection, self.clock.mono());
                let tried = self.try_host(opening, candidate, held, tls_allowed).await;
                if held.dispatcher.is_ended() {
                    return Ok(());
                }
                match tried {
                    Ok(Ended::Done) => return Ok(()),
                    Ok(Ended::Broken { carries: why }) => {
                        walk.served = true;
                        let carries = why.is_some();
                        walk.told = why.or(walk.told.take());
                        match self.anew(opening, carries, is_last) {
                            None => return Ok(()),
                            Some(Anew::SameHost) => {}
                            Some(Anew::NextHost) => break,
                        }
                    }
                    Ok(Ended::NoSource(fault, why)) => {
                        let text = format!("KumoMTA internal: source {}: {why}", opening.leg.source.name);
                        return Err(Unreached::Source(fault, Reply::new(400, &text)));
                    }
                    Ok(Ended::ReconnectInClear) if tls_allowed => tls_allowed = false,
                    Ok(Ended::ReconnectInClear) => break,
                    Ok(Ended::Unfit(status, why)) => {
                        walk.unfit = Some(status);
                        walk.reasons.add(&candidate.host, candidate.addr, &why);
                        break;
                    }
                    Ok(Ended::Refused(why)) | Err(why) => {
                        walk.may_change = true;
                        walk.reasons.add(&candidate.host, candidate.addr, &why);
                        break;
                    }
                }
                if self.stop.is_draining() {
                    return Ok(());
                }
            }
            if self.stop.is_draining() {
                return Ok(());
            }
        }
        if walk.served {
            return Ok(());
        }
        if let Some(status) = walk.unfit.filter(|_| !walk.may_change) {
            let text = format!("KumoMTA internal: no host takes mail with REQUIRETLS: {}", walk.reasons);
            return Err(Unreached::Site(Reply::enhanced(550, status, text)));
        }
        let text = format!("KumoMTA internal: failed to connect to any candidate hosts: {}", walk.reasons);
        Err(Unreached::Hosts(Reply::new(400, &text)))
    }

    fn report(&self, conn: ConnKey, source: &str, end: Result<(), Unreached>) {
        let begins_to_rest = self.with_queue(|q, now| {
            match end {
                Ok(()) => q.connection_ended(now, conn),
                Err(Unreached::Hosts(reply)) => q.connection_failed(now, conn, reply),
                Err(Unreached::Source(fault, reply)) => {
                    return q.source_failed(now, conn, fault, reply).then_some(fault);
                }
                Err(Unreached::Site(reply)) => q.site_failed(now, conn, reply),
            }
            None
        });
        begins_to_rest.into_iter().for_each(|fault| self.metrics.sources.suspended(source, fault.name()));
    }

    /// The addresses to try, in order.
    async fn candidates(
        &self,
        opening: &Opening,
        exchangers: &Arc<MailExchangers>,
    ) -> Result<Vec<Candidate>, Unreached> {
        let path = &opening.leg.path;
        // The hosts were found with the route: looking the domain up again here could give
        // another site's hosts, since domains share ready queues by site.
        let hosts = self.mx.resolve_addresses(exchangers, strategy(path)).await;
        let options = PlanOptions {
            remote_port: opening.leg.source.remote_port,
            smtp_port: path.smtp_port,
            shuffle_seed: self.with_queue(|q, _| q.random()),
            prohibited: &|ip: IpAddr| path.prohibited_hosts.contains(ip),
            skip: &|ip: IpAddr| path.skip_hosts.contains(ip),
        };
        let plan = ConnectionPlan::new(exchangers, &hosts, &options);
        match (plan.reply(), plan) {
            (None, ConnectionPlan::Candidates(candidates)) => Ok(candidates),
            (Some(reply), _) => Err(Unreached::Site(wire_reply(reply))),
            (None, _) => Ok(Vec::new()),
        }
    }

    /// Connects to one host and serves it.
    async fn try_host(&self, opening: &Opening, host: &Candidate, held: &Held, tls: bool) -> Result<Ended, String> {
        let path = &opening.leg.path;
        let Some(security) = self.unless_over(held, self.security(opening, host)).await else {
            return Ok(Ended::Done);
        };
        let security = security.inspect_err(|why| self.saw_no_tlsa(opening, host, why))?;
        let timeout = path.connect_timeout.get().min(path.smtp_progress_timeout());
        let way = dialling::way(&opening.leg.source, timeout).await?;
        let auth = auth(path, timeout).await?;
        let connecting = net::dial::connect(host.addr, &way, &self.mx, timeout);
        let Some(connected) = self.unless_over(held, connecting).await else { return Ok(Ended::Done) };
        let dialled = match connected {
            Ok(dialled) => dialled,
            Err(error) => {
                self.show_unreached(opening, host, held, &error.to_string());
                self.count_unreached(&error, &way, &opening.leg.source.name);
                return match dialling::fault(&error, &way, &opening.leg.source) {
                    Some(fault) => Ok(Ended::NoSource(fault, error.to_string())),
                    None => Err(error.to_string()),
                };
            }
        };
        let counts = self.counts_of_opened(&opening.ready_name, &opening.leg);
        let facts = AttemptFacts {
            site: opening.ready_name.clone(),
            pool: Some(opening.leg.pool.clone()),
            source: Some(opening.leg.source.name.as_str().into()),
            peer: Some(PeerAddress {
                name: host.host.clone(),
                addr: host.addr.ip().to_string(),
                is_secure: security.is_secure,
            }),
            source_address: Some(dialling::source_address(&dialled, &way)),
            tls: None,
            provider: path.provider_name.as_deref().map(Into::into),
            session_id: Some(held.dispatcher.session_id().to_string().into()),
            counts: Some(counts),
            handover: Handover::default(),
            delivery_protocol: Some("ESMTP"),
            retry_interval: None,
            told: None,
        };
        let (stream, demands) = (Stream::Plain(dialled.stream), (security, tls, auth));
        Delivery::new(self.clone(), opening, host, stream, held.clone(), facts, demands).serve().await
    }

    /// Counts a connection that did not come about, where that was not the host's affair.
    fn count_unreached(&self, error: &DialError, way: &Way, source: &str) {
        let (fault, counts) = (dialling::source_fault(error, way), &self.metrics.sources);
        match fault {
            Some(SourceFault::Unplumbed) => counts.bind_failures.inc(),
            Some(SourceFault::ProxyUnhealthy) => counts.proxy_failures.inc(),
            None => {}
        }
        fault.into_iter().for_each(|fault| counts.failed(source, fault.name()));
    }

    /// Tells watchers of a host that could not be connected to.
    fn show_unreached(&self, opening: &Opening, host: &Candidate, held: &Held, why: &str) {
        let known = || {
            let known = [
                ("id", held.dispatcher.session_id().to_string()),
                ("egress_pool", opening.leg.pool.as_ref().to_owned()),
                ("egress_source", opening.leg.source.name.clone()),
                ("ready_queue_name", opening.ready_name.as_ref().to_owned()),
                ("mx_host", host.host.clone()),
                ("mx_address", host.addr.ip().to_string()),
            ];
            known.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect()
        };
        self.show_watchers(Side::Client, known, &Seen::Diagnostic("ERROR", &format!("no connection: {why}")));
    }

    /// A ready queue is gone: its series end (KumoMTA prunes them likewise).
    pub(crate) fn forget_counts(&self, ready_name: &str) {
        self.metrics.tallies.forget(ready_name);
        self.refusals.forget(ready_name);
    }

    /// A connection of that ready queue was ended because nothing went on.
    pub(crate) fn count_stuck(&self, ready_name: &str) {
        self.metrics.tallies.count_stuck(protocol_of(ready_name), ready_name);
    }

    /// The longest time that a path asks for whose connection has a message in hand.
    pub(crate) fn longest_shutdown(&self) -> Duration {
        let connections = self.connections();
        let busy = connections.values().filter(|held| !held.in_hand.is_empty());
        busy.filter_map(|held| held.shutdown_timeout).max().unwrap_or_default()
    }

    /// The tallies of a connection that was just opened, in which it is counted.
    pub(crate) fn counts_of_opened(&self, ready_name: &Arc<str>, leg: &Leg) -> [Arc<Tally>; 3] {
        let counts = self.counts(ready_name, leg);
        let [queue, protocol, _] = &counts;
        [queue, protocol].iter().for_each(|tally| _ = tally.connections.fetch_add(1, Ordering::Relaxed));
        counts
    }

    /// Tallies of outcomes, in the order in which they are counted: of this ready queue, of all of that protocol, and of its provider, source
    /// and pool.
    pub(crate) fn counts(&self, ready_name: &Arc<str>, leg: &Leg) -> [Arc<Tally>; 3] {
        let tallies = &self.metrics.tallies;
        let way = [provider_of(ready_name, &leg.path).into(), leg.source.name.as_str().into(), leg.pool.clone()];
        [
            tallies.of_queue(ready_name),
            tallies.of_protocol(protocol_of(ready_name)),
            tallies.of_way(&way, leg.path.provider_name.is_some()),
        ]
    }
}

/// What a walk from host to host has met.
#[derive(Default)]
struct Walk {
    /// Why hosts did not serve.
    reasons: Reasons,
    /// One did.
    served: bool,
    /// One cannot do what its mail asks for.
    unfit: Option<EnhancedCode>,
    /// One failed in a way that may be another at the next attempt.
    may_change: bool,
    /// Why the message that goes on was not taken, last.
    told: Option<Reply>,
}

/// Where a connection is opened anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Anew {
    SameHost,
    NextHost,
}

/// The ticket of a message that goes on to the next host.
pub(crate) const CARRIED: u64 = 0;

/// What others may do with a connection: wake it, end it, see what it does and holds.
#[derive(Clone)]
pub(crate) struct Held {
    pub waker: Arc<Notify>,
    pub in_hand: InHand,
    pub dispatcher: Arc<Dispatcher>,
    /// What it holds of the cluster's limits.
    pub lease: Option<Arc<Lease>>,
    /// How long it may take at the end of the program, where its path says so.
    pub shutdown_timeout: Option<Duration>,
}

/// Messages a connection has taken and not yet settled; outlives a panic of its session.
#[derive(Clone, Default)]
pub(crate) struct InHand {
    messages: Arc<Mutex<VecDeque<(u64, Queued)>>>,
    /// Held by whoever has the spool keep one of them: see [`InHand::kept`].
    keeping: Arc<tokio::sync::Mutex<()>>,
}

impl InHand {
    pub fn put(&self, ticket: u64, queued: Queued) {
        self.lock().push_back((ticket, queued));
    }

    pub fn take(&self, ticket: u64) -> Option<Queued> {
        let mut held = self.lock();
        let at = held.iter().position(|(t, _)| *t == ticket)?;
        Some(held.remove(at)?.1)
    }

    /// The message that was put first.
    pub fn take_first(&self) -> Option<Queued> {
        self.lock().pop_front().map(|(_, queued)| queued)
    }

    /// The message that was put last.
    pub fn take_last(&self) -> Option<Queued> {
        self.lock().pop_back().map(|(_, queued)| queued)
    }

    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// What `look` makes of each message, in the order in which they were put.
    pub fn map<T>(&self, look: impl FnMut(&Queued) -> T) -> Vec<T> {
        let held = self.lock();
        held.iter().map(|(_, queued)| queued).map(look).collect()
    }

    /// What `look` makes of the message that was put last.
    pub fn last<T>(&self, look: impl FnOnce(&Queued) -> T) -> Option<T> {
        self.lock().back().map(|(_, queued)| look(queued))
    }

    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// A message by its id, without its content, and its queue.
    pub fn find(&self, id: MessageId) -> Option<(Message, QueueKey)> {
        let held = self.lock();
        let (_, queued) = held.iter().find(|(_, queued)| queued.message.id == id)?;
        Some((Message { resident: None, ..queued.message.clone() }, queued.queue))
    }

    /// A message by its id, with its content.
    pub fn copy_of(&self, id: MessageId) -> Option<Message> {
        let held = self.lock();
        held.iter().find(|(_, queued)| queued.message.id == id).map(|(_, queued)| queued.message.clone())
    }

    /// Puts what was made of a message in its place; false when it is not in hand any more.
    pub fn replace(&self, message: Message) -> bool {
        let mut held = self.lock();
        let place = held.iter_mut().find(|(_, queued)| queued.message.id == message.id);
        place.map(|(_, queued)| queued.message = message).is_some()
    }

    fn take_all(&self) -> Vec<Queued> {
        self.lock().drain(..).map(|(_, queued)| queued).collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(u64, Queued)>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that the spool is to keep one of the messages, as long as what is returned is there.
    pub async fn keep(&self) -> OwnedMutexGuard<()> {
        self.keeping.clone().lock_owned().await
    }

    /// Waits until nobody has the spool keep a message: what is taken before that might be given to it twice.
    pub async fn kept(&self) {
        drop(self.keeping.lock().await);
    }
}

/// A future whose panic is its result: `None`, reported once. A fault in one session must not
/// take its messages and its place in the connection limit with it.
pub(crate) struct Guarded<F>(pub Pin<Box<F>>);

impl<F: Future> Future for Guarded<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<F::Output>> {
        match catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(cx))) {
            Ok(polled) => polled.map(Some),
            Err(_) => {
                tracing::error!("a task of the delivery side panicked; its messages are tried again later");
                Poll::Ready(None)
            }
        }
    }
}

/// No session came about.
pub(crate) enum Unreached {
    /// Every host was tried.
    Hosts(Reply),
    /// The source cannot be used.
    Source(SourceFault, Reply),
    /// There is nothing to try; every message of the site shares the verdict.
    Site(Reply),
}

fn no_hosts() -> Unreached {
    Unreached::Site(Reply::new(451, "4.4.4 KumoMTA internal: the ready queue has no hosts"))
}

fn strategy(path: &EgressPath) -> IpStrategy {
    match path.ip_lookup_strategy {
        IpLookupStrategy::Ipv4AndIpv6 => IpStrategy::Ipv4AndIpv6,
        IpLookupStrategy::Ipv4Only => IpStrategy::Ipv4Only,
        IpLookupStrategy::Ipv6Only => IpStrategy::Ipv6Only,
        IpLookupStrategy::Ipv6ThenIpv4 => IpStrategy::Ipv6ThenIpv4,
        IpLookupStrategy::Ipv4ThenIpv6 => IpStrategy::Ipv4ThenIpv6,
    }
}

/// What is logged for messages whose session panicked.
const PANICKED: &str = "4.3.0 KumoMTA internal: the outbound session failed";
