//! The engine: what the mail path shares, and the loop that keeps queues moving.
//!
//! Everything here is either immutable after start or behind one short lock. The queue's lock
//! is never held across an await; its effects are carried out after it is released.

use crate::clock::Clock;
use crate::diagnostic::Diagnostic;
use crate::domain_reports;
use crate::drain::Stop;
use crate::egress::broken_tls::BrokenTls;
use crate::egress::common::InCommon;
use crate::egress::connection::Held;
use crate::egress::maildir::Maildirs;
use crate::egress::other_nodes::OtherNodes;
use crate::epoch_notes::EpochNotes;
use crate::gate::Gate;
use crate::ingress::buffer::BufferPool;
use crate::ingress::listener::Listening;
use crate::injection::{self, InjectionRate, Keys};
use crate::log_hooks::{open_hooks, say_unclaimed};
use crate::orders::OrderBook;
use crate::pressure::Pressure;
use crate::program::Administration;
use crate::queue_census::LastCensus;
use crate::recorders::{Leaving, Recorders};
use crate::recovery::RecoveryState;
use crate::refusals::Refusals;
use crate::requeue::Questions;
use crate::search::SEARCHES_MAX;
use crate::sockets::Sockets;
use crate::tasks::Tasks;
use crate::threads::Threads;
use crate::underway::Underway;
use crate::watching::Watchers;
use crate::xfer::Arrivals;
use ::clock::Now;
use arc_swap::{ArcSwap, ArcSwapOption};
use bounce::Classifier;
use config::BounceClassifier;
use event_stream::EventStreams;
use message::IdGenerator;
use net::dns::MxCache;
use net::tls::Connectors;
use policy::{Event, Interest, Interests, Policy, Startup};
use queue::{ConnKey, Effect, Order, QueueCore, QueueSettings};
use report_sender::DomainReports;
use std::collections::HashMap;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use store::{OrdersFile, Recovering, SpoolHandle};
use telemetry::{Accounts, Metrics};
use throttle::Throttles;
use tokio::sync::{Notify, Semaphore};
use watched::Watched;

/// A running mail engine; clones share it.
#[derive(Clone)]
pub struct Engine(pub(crate) Arc<Shared>);

/// What an engine is made of.
pub struct EngineParts {
    /// The operator's decisions.
    pub policy: Arc<dyn Policy>,
    /// The open spool.
    pub spool: SpoolHandle,
    /// MX and address look-ups.
    pub mx: Arc<MxCache>,
    /// TLS towards other servers.
    pub connectors: Connectors,
    /// Rules that class replies; without them every record says `Uncategorized`.
    pub classifier: Option<Classifier>,
    /// Reads those rules again.
    pub read_rules: RulesReader,
    /// What policy asked to be started.
    pub startup: Startup,
    /// Counters and gauges.
    pub metrics: Metrics,
    /// Memory, disks and their limits.
    pub pressure: Pressure,
    /// Where orders are kept, and those found there.
    pub orders: (OrdersFile, Vec<Order>),
    /// Who carries its tasks.
    pub threads: Threads,
    /// Everything else.
    pub settings: EngineSettings,
}

/// Reads the rules of a classifier; what is wrong with them.
pub type RulesReader = fn(&BounceClassifier) -> Result<Classifier, String>;

/// Facts about this process.
#[derive(Clone, Debug)]
pub struct EngineSettings {
    /// This machine's name, for banners and EHLO where nothing else is configured.
    pub hostname: String,
    /// UUID of this node, for log records.
    pub node_id: uuid::Uuid,
    /// Directory of the spool.
    pub spool_dir: PathBuf,
    /// Content that may stay in memory beside the spool's copy, in octets.
    pub resident_bytes_max: usize,
    /// Seed for jitter and shuffles.
    pub seed: u64,
}

/// What tasks of the engine share.
pub struct Shared {
    pub(crate) policy: Arc<dyn Policy>,
    /// Who may do what.
    pub(crate) gate: Gate,
    pub(crate) interest: Interests,
    pub(crate) spool: SpoolHandle,
    pub(crate) mx: Arc<MxCache>,
    pub(crate) connectors: Connectors,
    pub(crate) classifier: ArcSwapOption<Classifier>,
    pub(crate) read_rules: RulesReader,
    /// What policy asked to be started when the program began.
    pub(crate) startup: Startup,
    /// ESMTP listeners, whose options may change.
    pub(crate) listening: Mutex<Vec<Listening>>,
    /// Who hears what happens.
    pub(crate) recorders: ArcSwap<Recorders>,
    /// Who did under earlier policies.
    pub(crate) leaving: Mutex<Leaving>,
    /// Who sends to other systems what the log's segments hold.
    pub(crate) events: EventStreams,
    /// What of them begins with the engine.
    events_at_start: Mutex<Option<event_stream::Change>>,
    /// Who reports to other domains about DMARC and TLS.
    pub(crate) domain_reports: DomainReports,
    pub(crate) metrics: Metrics,
    pub(crate) pressure: Pressure,
    pub(crate) settings: EngineSettings,
    /// The node id as records carry it.
    pub(crate) node_id_text: Arc<str>,
    pub(crate) clock: Clock,
    pub(crate) stop: Stop,
    pub(crate) receive_pool: Arc<BufferPool>,
    pub(crate) threads: Threads,
    pub(crate) sessions: Tasks,
    pub(crate) deliveries: Tasks,
    /// Appends of messages that are in memory only.
    pub(crate) spoolers: Tasks,
    /// Who has the spool keep messages that are in hand.
    pub(crate) keepers: Tasks,
    /// What works off records behind.
    pub(crate) hook_tasks: Tasks,
    /// Who wakes a connection, what it holds, what it does.
    pub(crate) connections: Mutex<HashMap<ConnKey, Held>>,
    /// What is in hand of other tasks than connections'.
    pub(crate) underway: Underway,
    /// Where orders are kept; whoever has it may change them.
    pub(crate) order_book: OrderBook,
    /// Sites whose TLS does not work.
    pub(crate) broken_tls: Mutex<BrokenTls>,
    /// What policy was asked about messages that are to wait.
    pub(crate) questions: Questions,
    /// Messages of other nodes that these have not let go yet.
    pub(crate) arrivals: Arrivals,
    /// What is kept in mind of nodes to which mail is transferred.
    pub(crate) other_nodes: OtherNodes,
    /// Who writes Maildirs.
    pub(crate) maildirs: Maildirs,
    /// What policy said of several destinations alike.
    pub(crate) common: InCommon,
    pub(crate) recovery: Mutex<RecoveryState>,
    /// Where the cluster's rates and limits are counted, if there is a cluster.
    pub(crate) cluster: OnceLock<Arc<Throttles>>,
    /// Whom policy asks what operators ask over HTTP.
    pub(crate) administration: OnceLock<Box<dyn Administration>>,
    /// Who filters the diagnostic log.
    pub(crate) diagnostic: Diagnostic,
    /// Who opens and closes listeners.
    pub(crate) sockets: OnceLock<Box<dyn Sockets>>,
    /// How fast recipients of requests are taken.
    pub(crate) injection_rate: InjectionRate,
    /// Bulk requests that may be under way.
    pub(crate) bulk_slots: Arc<Semaphore>,
    /// The last census of very many queues.
    pub(crate) last_census: LastCensus,
    /// Searches of the log that may be under way.
    pub(crate) search_slots: Arc<Semaphore>,
    /// Keys of requests that were answered, or are under way.
    pub(crate) keys: Keys,
    /// Who watches sessions.
    pub(crate) watchers: Watchers,
    /// What destinations refused lately.
    pub(crate) refusals: Refusals,
    /// Which configuration epochs there were.
    pub(crate) epochs: EpochNotes,
    /// Who sums up the queues; one at a time.
    pub(crate) surveying: Semaphore,
    /// Who is told what the program has in hand; one at a time.
    pub(crate) looking: Semaphore,
    /// The policy wants a new configuration epoch.
    pub(crate) epoch_is_wanted: AtomicBool,
    /// Held by who begins a new configuration epoch.
    pub(crate) reloading: Mutex<()>,
    pub(crate) ids: Watched<IdGenerator>,
    pub(crate) queue: Watched<QueueCore>,
    timer: Notify,
    /// Microseconds of the moment the clockwork sleeps until.
    timer_at: AtomicU64,
}

/// The accounts that policy wants.
fn accounts(startup: &Startup) -> Result<Accounts, String> {
    Accounts::open(startup.acct_log.as_ref()).map_err(|error| format!("kumo.aaa.configure_acct_log: {error}"))
}

impl Engine {
    /// An engine at rest: nothing is listened to or delivered before [`Engine::start`].
    ///
    /// # Errors
    /// A log directory or its thread cannot be had.
    pub fn new(parts: EngineParts) -> Result<Engine, String> {
        let recorders = Recorders::open(&parts.startup)?;
        let events = EventStreams::new(parts.metrics.clone(), parts.connectors.clone());
        let events_at_start = events.prepare(&parts.startup.event_streams, &parts.startup.local_logs)?;
        let (clock, interest) = (Clock::start(), parts.policy.interest());
        say_unclaimed(&open_hooks(&recorders.hooks, interest, &parts.settings.spool_dir));
        let queue = queues(clock, &parts.settings, interest.has(Event::ThrottleInsertReadyQueue), parts.orders.1);
        // From before anybody can ask.
        parts.metrics.spool_recovering.set(1);
        Ok(Engine(Arc::new(Shared {
            interest: Interests::new(interest),
            gate: Gate::new(parts.policy.clone(), accounts(&parts.startup)?),
            policy: parts.policy,
            spool: parts.spool,
            mx: parts.mx,
            connectors: parts.connectors,
            recorders: ArcSwap::from_pointee(recorders),
            leaving: Mutex::default(),
            events,
            events_at_start: Mutex::new(Some(events_at_start)),
            domain_reports: domain_reports::open(&parts.startup, &parts.settings, &parts.metrics)?,
            classifier: ArcSwapOption::new(parts.classifier.map(Arc::new)),
            read_rules: parts.read_rules,
            listening: Mutex::default(),
            metrics: parts.metrics,
            pressure: parts.pressure,
            ids: Watched::new(ids_of(&parts.settings)),
            node_id_text: parts.settings.node_id.to_string().into(),
            settings: parts.settings,
            clock,
            stop: Stop::new(),
            receive_pool: Arc::default(),
            sessions: Tasks::on(&parts.threads.main),
            deliveries: Tasks::on(&parts.threads.main),
            spoolers: Tasks::on(&parts.threads.main),
            keepers: Tasks::on(&parts.threads.main),
            hook_tasks: Tasks::on(&parts.threads.main),
            threads: parts.threads,
            connections: Mutex::default(),
            underway: Underway::default(),
            order_book: OrderBook::new(parts.orders.0),
            broken_tls: Mutex::default(),
            questions: Questions::default(),
            arrivals: Arrivals::default(),
            other_nodes: OtherNodes::default(),
            maildirs: Maildirs::default(),
            common: InCommon::default(),
            recovery: Mutex::new(RecoveryState::Pending),
            cluster: OnceLock::new(),
            administration: OnceLock::new(),
            diagnostic: Diagnostic::default(),
            sockets: OnceLock::new(),
            injection_rate: InjectionRate::new(parts.startup.injection_rate),
            bulk_slots: injection::slots(),
            last_census: LastCensus::default(),
            search_slots: Arc::new(Semaphore::new(SEARCHES_MAX)),
            keys: Keys::default(),
            startup: parts.startup,
            watchers: Watchers::default(),
            refusals: Refusals::default(),
            epochs: EpochNotes::begun(clock.wall()),
            surveying: Semaphore::new(1),
            looking: Semaphore::new(1),
            epoch_is_wanted: AtomicBool::new(false),
            reloading: Mutex::default(),
            queue: Watched::new(queue),
            timer: Notify::new(),
            timer_at: AtomicU64::new(u64::MAX),
        })))
    }

    /// Starts the queue's clockwork, and the return of earlier runs' messages beside it. Does not wait for them.
    pub fn start(&self, recovering: Recovering) {
        self.serve_policy();
        self.all_filters().into_iter().for_each(|filter| self.start_filter(filter));
        self.all_hooks().into_iter().for_each(|hook| self.start_hook(hook));
        self.all_tellers().into_iter().for_each(|teller| self.start_teller(teller));
        let streams = self.events_at_start.lock().unwrap_or_else(PoisonError::into_inner).take();
        streams.into_iter().for_each(|streams| self.events.change(streams));
        let engine = self.clone();
        self.sessions.spawn(async move { engine.tick().await });
        let engine = self.clone();
        self.sessions.spawn(async move { engine.recover(recovering).await });
        let engine = self.clone();
        self.sessions.spawn(async move { engine.forget_records().await });
        let engine = self.clone();
        self.sessions.spawn(async move { engine.send_domain_reports().await });
        let engine = self.clone();
        self.sessions.spawn(async move { engine.export_metrics().await });
        let engine = self.clone();
        self.sessions.spawn(async move { engine.keep_census().await });
    }

    /// Runs `f` on the queues, then carries out what it asked for.
    pub(crate) fn with_queue<R>(&self, f: impl FnOnce(&mut QueueCore, Now) -> R) -> R {
        let mut effects = Vec::new();
        let (result, deadline) = {
            let mut queue = self.queue.lock();
            let result = f(&mut queue, self.clock.now());
            queue.drain_effects(&mut effects);
            (result, queue.deadline())
        };
        self.arm(deadline);
        // Policy is asked last: it may take its time.
        let questions = effects.iter().filter(|effect| matches!(effect, Effect::Ask)).count();
        effects.into_iter().filter(|effect| !matches!(effect, Effect::Ask)).for_each(|effect| self.carry_out(effect));
        (0..questions).for_each(|_| self.start_asker());
        result
    }

    /// What the queues know of something: neither takes time nor has effects.
    pub(crate) fn ask_queue<R>(&self, f: impl FnOnce(&mut QueueCore) -> R) -> R {
        f(&mut self.queue.lock())
    }

    /// Comes back when the queues could be had: a lock that nobody gives back keeps whoever asks.
    pub fn pulse(&self) {
        self.with_queue(|_, _| ());
    }

    /// A fresh message id.
    pub(crate) fn next_id(&self) -> message::MessageId {
        let now = self.clock.wall();
        self.ids.lock().next(now)
    }

    /// Whether policy handles an event.
    pub fn handles(&self, event: Event) -> bool {
        self.interest.has(event)
    }

    /// Which events policy handles.
    pub fn interest(&self) -> Interest {
        self.interest.now()
    }

    /// The metrics registry.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Who sends to other systems what the log's segments hold.
    pub fn events(&self) -> &EventStreams {
        &self.events
    }

    /// Who decides what the operator decides.
    pub fn policy(&self) -> Arc<dyn Policy> {
        self.policy.clone()
    }

    /// Who decides what clients may do.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// True when the policy has a spool of that name, or has none and so those of the default.
    pub fn has_spool(&self, name: &str) -> bool {
        let spools = &self.startup.spools;
        spools.iter().any(|spool| spool.name == name) || (spools.is_empty() && ["data", "meta"].contains(&name))
    }

    /// What this machine is called where nothing else is configured.
    pub fn hostname(&self) -> &str {
        &self.settings.hostname
    }

    /// The UUID of this node.
    pub fn node_id(&self) -> &str {
        &self.node_id_text
    }

    /// How long it has been there.
    pub fn uptime(&self) -> std::time::Duration {
        std::time::Duration::from_micros(self.clock.mono().as_micros())
    }

    /// True while new mail is taken.
    pub fn is_serving(&self) -> bool {
        !self.stop.is_draining()
    }

    fn carry_out(&self, effect: Effect) {
        match effect {
            Effect::Wake(conn) => self.wake(conn),
            Effect::Open(opening) => self.open_connection(opening),
            Effect::Configure { queue, name } => self.configure_later(queue, name),
            Effect::Route { queue, name, tls, config } => self.route_later(queue, name, tls, config),
            Effect::Grant { of, count, waits, asked_at } => self.ask_for_grants(of, count, waits, asked_at),
            Effect::Settle(kind) => self.start_settler(kind),
            Effect::Ask => self.start_asker(),
            Effect::Spool => self.start_spooler(),
            Effect::Stalled { name, wait } => {
                self.metrics.queue_stalls.inc();
                let why = wait.why;
                tracing::error!(
                    "queue {name} stood still for up to a minute ({why}) and goes on now: a fault of this program, please report it"
                );
            }
            Effect::OrdersEnded => self.forget_orders(),
            Effect::Forgotten(name) => self.forget_counts(&name),
        }
    }

    fn wake(&self, conn: ConnKey) {
        let connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = connections.get(&conn) {
            held.waker.notify_one();
        }
    }

    /// Makes the clockwork look again when the queue's next deadline came nearer.
    fn arm(&self, deadline: ::clock::Instant) {
        let deadline = deadline.as_micros();
        if deadline < self.timer_at.fetch_min(deadline, Ordering::AcqRel) {
            self.timer.notify_one();
        }
    }

    async fn tick(&self) {
        loop {
            let at = ::clock::Instant::from_micros(self.timer_at.load(Ordering::Acquire));
            tokio::select! {
                () = self.clock.sleep_until(at) => {
                    self.timer_at.store(u64::MAX, Ordering::Release);
                    self.with_queue(QueueCore::tick);
                }
                () = self.timer.notified() => {}
                () = self.stop.requested() => return,
            }
        }
    }
}

/// Empty queues, to which messages of earlier runs are on their way, with the orders that were found.
fn queues(
    clock: Clock,
    EngineSettings { resident_bytes_max, seed, .. }: &EngineSettings,
    ask_before_ready: bool,
    orders: Vec<Order>,
) -> QueueCore {
    let settings = QueueSettings { resident_bytes_max: *resident_bytes_max, seed: *seed };
    let mut queue = QueueCore::new(clock.mono(), settings);
    queue.set_restoring(true);
    queue.ask_before_ready(ask_before_ready);
    orders.into_iter().for_each(|order| _ = queue.order(clock.now(), order));
    queue
}

/// Makes ids that no other node makes.
fn ids_of(EngineSettings { node_id, seed, .. }: &EngineSettings) -> IdGenerator {
    let mut node = [0; 6];
    node.copy_from_slice(&node_id.as_bytes()[10..]);
    IdGenerator::new(node, *seed as u16)
}

impl Deref for Engine {
    type Target = Shared;
    fn deref(&self) -> &Shared {
        &self.0
    }
}
