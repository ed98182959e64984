//! The world of one run: clock, network, clients, peers, the disk, and the server while it lives.
//!
//! Takes events from the agenda one by one and hands them to whom they concern. Everything that
//! is shared by the parts is here: time, pipes, notes for the trace.

use crate::agenda::Agenda;
use crate::client::Client;
use crate::dice::Dice;
use crate::event::{Appender, Chunk, End, Event, ServerEvent};
use crate::ledger::Ledger;
use crate::life::Process;
use crate::peer::Peer;
use crate::plan::{Plan, RETRY_SECONDS_MAX, SECOND};
use crate::{Options, Outcome, Report, Sabotage};
use clock::WallTime;
use message::MessageId;
use queue::Order;
use spool::FileName;
use spool::fault::FaultDisk;
use std::collections::{BTreeMap, BTreeSet};

/// Everything there is.
pub(crate) struct World {
    pub dice: Dice,
    pub plan: Plan,
    pub options: Options,
    pub agenda: Agenda,
    /// Microseconds since the simulation began.
    pub now: u64,
    pub disk: FaultDisk,
    /// Files that a killed process left unsynced.
    pub unsynced: BTreeSet<FileName>,
    /// A sync failed since the last power cut.
    pub sync_failed: bool,
    pub process: Option<Process>,
    /// The end that comes with a disk call.
    pub end_in_call: Option<End>,
    pub clients: BTreeMap<u64, Client>,
    pub peers: BTreeMap<u64, Peer>,
    pub ledger: Ledger,
    pub report: Report,
    /// Nothing fails any more.
    pub recovered: bool,
    /// Orders on disk.
    pub orders: Vec<Order>,
    /// Orders to flush of this life: those that ended, and when; those that stand.
    pub flushes: Vec<(Order, Option<u64>)>,
    /// Messages that left a queue under such an order, and until when they were under it.
    pub flushed: BTreeMap<MessageId, u64>,
    /// Clients that have not started.
    pub clients_to_come: usize,
    /// The route each domain was given last.
    pub routes: Vec<usize>,
    /// Connections whose other end is gone without a word.
    pub vanished: BTreeSet<u64>,
    /// A reply without end was said: one is enough for a run.
    pub endless_said: bool,
    /// The disk did not read shortly before: some messages wait longer.
    pub postponed_until: u64,
    /// When messages were postponed before the last time, and last.
    pub postponed: BTreeMap<MessageId, (u64, u64)>,
    /// Connections that had a lease of the shared limit at the last look.
    pub shared_open: u64,
    /// Queues of messages, where promotions are watched.
    pub queue_of: BTreeMap<MessageId, String>,
    last_number: u64,
    pipes: BTreeMap<(Pipe, u64), u64>,
    trace: Vec<String>,
    digest: u64,
}

/// A direction between two parties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pipe {
    ToServer,
    ToClient,
    ToPeer,
    /// To the server in that life.
    FromPeer(u32),
}

impl World {
    /// The world of a seed, before anything happened.
    pub fn new(seed: u64, options: Options) -> World {
        let mut dice = Dice::new(seed);
        let mut plan = Plan::draw(&mut dice);
        if options.week {
            plan.make_week();
        }
        let mut world = World {
            routes: vec![0; plan.domains.len()],
            clients_to_come: plan.clients.len(),
            dice,
            plan,
            options,
            agenda: Agenda::default(),
            now: 0,
            disk: FaultDisk::new(),
            unsynced: BTreeSet::new(),
            sync_failed: false,
            process: None,
            end_in_call: None,
            clients: BTreeMap::new(),
            peers: BTreeMap::new(),
            ledger: Ledger::default(),
            report: Report::default(),
            recovered: false,
            orders: Vec::new(),
            flushes: Vec::new(),
            flushed: BTreeMap::new(),
            vanished: BTreeSet::new(),
            endless_said: false,
            shared_open: 0,
            postponed: BTreeMap::new(),
            postponed_until: 0,
            queue_of: BTreeMap::new(),
            last_number: 0,
            pipes: BTreeMap::new(),
            trace: Vec::new(),
            digest: 0xcbf2_9ce4_8422_2325,
        };
        world.enter_plan();
        world
    }

    fn enter_plan(&mut self) {
        self.agenda.enter(0, Event::LifeBegins);
        for (number, client) in self.plan.clients.iter().enumerate() {
            self.agenda.enter(client.at, Event::ClientStarts(number));
        }
        for (at, end, _) in &self.plan.ends {
            self.agenda.enter(*at, Event::LifeEnds(*end));
        }
        for at in &self.plan.memory_short {
            self.agenda.enter(*at, Event::MemoryShort);
        }
        for at in &self.plan.operator {
            self.agenda.enter(*at, Event::Operator);
        }
        for (at, lasts, ..) in &self.plan.disk_faults {
            self.agenda.enter(*at, Event::DiskFails);
            self.agenda.enter(at + lasts, Event::DiskHeals);
        }
        self.agenda.enter(self.plan.recovery_at, Event::Recovery);
        self.agenda.enter(INSPECTION_EVERY, Event::Inspection);
        if self.options.trace {
            let plan = format!("{:#?}", self.plan);
            self.note(|| plan);
        }
    }

    /// Runs to the end, or to the first contradiction.
    pub fn run(mut self) -> Outcome {
        while self.goes_on() {}
        self.finish()
    }

    /// The next thing happens; false when nothing is left, or something was wrong.
    pub fn goes_on(&mut self) -> bool {
        let goes_on = self.ledger.violation.is_none() && !self.is_over();
        let next = if goes_on { self.agenda.next() } else { None };
        if let Some((at, event)) = next {
            self.now = self.now.max(at);
            self.ledger.now = self.now;
            self.report.events += 1;
            self.digest = (self.digest ^ self.now ^ self.ledger.deliveries).wrapping_mul(0x0100_0000_01b3);
            if self.report.events > EVENTS_MAX - 20 {
                self.note(|| format!("{event:?}").chars().take(200).collect());
            }
            self.happen(event);
            self.notice_death();
            self.watch_limits();
            if self.report.events > EVENTS_MAX {
                self.ledger.violate(format!("more than {EVENTS_MAX} events: somebody runs in circles"));
            }
            return true;
        }
        false
    }

    /// The last look at everything.
    pub fn finish(mut self) -> Outcome {
        if self.ledger.violation.is_none() {
            self.inspect_end();
        }
        self.report.deliveries = self.ledger.deliveries;
        self.report.duplicates = self.ledger.duplicates;
        self.report.seconds = self.now / SECOND;
        Outcome { violation: self.ledger.violation, report: self.report, trace: self.trace, digest: self.digest }
    }

    /// True when all is delivered and forgotten, or should have been long ago.
    fn is_over(&self) -> bool {
        let rest = RETRY_SECONDS_MAX * SECOND + PATIENCE + self.plan.rest;
        self.recovered && (self.now > self.plan.recovery_at + rest)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::ClientStarts(number) => self.client_starts(number),
            Event::ToServer(session, chunk) => self.inbound_receives(session, chunk),
            Event::ToClient(session, chunk) => self.client_receives(session, chunk),
            Event::ClientWrites(session) => self.client_writes(session),
            Event::ClientGivesUp(session) => self.client_gives_up(session),
            Event::ToPeer(connection, chunk) => self.peer_receives(connection, chunk),
            Event::Server(life, event) => self.server_event(life, event),
            Event::DiskFails => self.disk_fails(),
            Event::DiskHeals => self.disk.heal(),
            Event::LifeEnds(end) => self.life_ends(end),
            Event::Operator => self.operator_acts(),
            Event::MemoryShort => self.memory_short(),
            Event::LifeBegins => self.begin_life(),
            Event::Recovery => self.recover(),
            Event::Inspection => {
                self.inspect();
                self.agenda.enter(self.now + INSPECTION_EVERY, Event::Inspection);
            }
        }
    }

    fn server_event(&mut self, life: u32, event: ServerEvent) {
        if self.process.as_ref().is_none_or(|p| p.life != life) {
            return;
        }
        match event {
            ServerEvent::InboundDeadline(session) => self.inbound_deadline(session),
            ServerEvent::Answered(session) => self.inbound_answered(session),
            ServerEvent::WriterTurn(at) => self.writer_turn(at),
            ServerEvent::Appended(Appender::Session(session), result) => self.appended(session, result),
            ServerEvent::Appended(Appender::Spooler, result) => self.spooled(result),
            ServerEvent::Settler(kind) => self.settler_goes_on(kind),
            ServerEvent::SettleEnding(queued, ending) => self.settle_ending(*queued, ending),
            ServerEvent::Asker => self.asker_goes_on(),
            ServerEvent::Said(id, said) => self.said(id, said),
            ServerEvent::Requeued(id) => self.requeued(id),
            ServerEvent::Spooler => self.spooler_goes_on(),
            ServerEvent::Effects(effects) => self.carry_out_all(effects),
            ServerEvent::Tick(at) => self.queue_ticks(at),
            ServerEvent::Configured(queue, name) => self.configured(queue, &name),
            ServerEvent::Routed(queue, name, config) => self.routed(queue, &name, &config),
            ServerEvent::Resolved(connection) => self.resolved(connection),
            ServerEvent::Connected(connection) => self.connected(connection),
            ServerEvent::FromPeer(connection, _) if self.vanished.contains(&connection) => {}
            ServerEvent::FromPeer(connection, chunk) => self.outbound_receives(connection, chunk),
            ServerEvent::OutboundDeadline(connection) => self.outbound_deadline(connection),
            ServerEvent::Writable(connection) => self.outbound_writable(connection),
            ServerEvent::IdleEnds(connection, idleness) => self.outbound_idle_ends(connection, idleness),
            ServerEvent::Woken(connection) => self.outbound_woken(connection),
            ServerEvent::OldSegmentsRead => self.old_segments_read(),
            ServerEvent::Restore => self.restore_some(),
            ServerEvent::OperatorStops => self.life_ends(End::Stop),
            ServerEvent::GraceEnds => self.end_life(End::Stop),
        }
    }

    fn recover(&mut self) {
        self.note(|| "RECOVERY: nothing fails from here on".to_owned());
        self.recovered = true;
        self.disk.heal();
        self.end_in_call = None;
        if let Some(process) = &self.process {
            process.disk.die_in(u64::MAX);
        }
    }

    /// Octets on their way, in pieces, in order.
    pub fn transmit(&mut self, pipe: Pipe, id: u64, mut octets: Vec<u8>) {
        while !octets.is_empty() {
            let whole = self.dice.chance(700);
            let length = if whole { octets.len() } else { self.dice.within(1, octets.len() as u64) as usize };
            let rest = octets.split_off(length);
            self.send(pipe, id, Chunk::Octets(octets));
            octets = rest;
        }
    }

    /// The end of the pipe, behind everything in it.
    pub fn hang_up(&mut self, pipe: Pipe, id: u64) {
        self.send(pipe, id, Chunk::End);
    }

    /// Nothing goes through the pipe for so long.
    pub fn hold_up(&mut self, pipe: Pipe, id: u64, span: u64) {
        let now = self.now;
        let last = self.pipes.entry((pipe, id)).or_default();
        *last = (*last).max(now) + span;
    }

    /// A piece on its way, behind everything in the pipe.
    pub fn send(&mut self, pipe: Pipe, id: u64, chunk: Chunk) {
        let latency = *self.dice.pick(&[0, 20, 300, 2_000, 40_000]);
        let last = self.pipes.entry((pipe, id)).or_default();
        let at = (*last).max(self.now + latency);
        *last = at;
        let event = match pipe {
            Pipe::ToServer => Event::ToServer(id, chunk),
            Pipe::ToClient => Event::ToClient(id, chunk),
            Pipe::ToPeer => Event::ToPeer(id, chunk),
            Pipe::FromPeer(life) => Event::Server(life, ServerEvent::FromPeer(id, chunk)),
        };
        self.agenda.enter(at, event);
    }

    /// Something for the living server, `delay` from now.
    pub fn server_soon(&mut self, delay: u64, event: ServerEvent) {
        if let Some(process) = &self.process {
            self.agenda.enter(self.now + delay, Event::Server(process.life, event));
        }
    }

    /// A number nobody has yet.
    pub fn fresh_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// True with the given chance, while things still fail.
    pub fn trouble(&mut self, per_mille: u32) -> bool {
        let hit = self.dice.chance(per_mille);
        hit && !self.recovered
    }

    /// The civil time.
    pub fn wall(&self) -> WallTime {
        WallTime::from_unix_micros(WALL_AT_START + self.now as i64)
    }

    /// A line for the trace.
    pub fn note(&mut self, line: impl FnOnce() -> String) {
        if self.options.trace {
            let life = self.process.as_ref().map_or(0, |p| p.life);
            self.trace.push(format!("{:>14.6} L{life} {}", self.now as f64 / SECOND as f64, line()));
        }
    }

    /// True when the drivers are to make this mistake.
    pub fn sabotaged(&self, sabotage: Sabotage) -> bool {
        self.options.sabotage == sabotage
    }
}

/// Civil time at the beginning, in microseconds since 1970.
const WALL_AT_START: i64 = 1_790_000_000_000_000;
/// Virtual time between looks at everything.
const INSPECTION_EVERY: u64 = 30 * SECOND;
/// Virtual time after the last possible retry in which everything must be over and forgotten.
const PATIENCE: u64 = 2 * 3_600 * SECOND;
/// More than any honest run takes.
const EVENTS_MAX: u64 = 2_000_000;
