//! The server's lives: how one begins from what is on the disk, and how it ends.

use crate::dice::Dice;
use crate::disk::SimDisk;
use crate::event::{End, Event, ServerEvent};
use crate::inbound::Inbound;
use crate::limits::Before;
use crate::outbound::Outbound;
use crate::rates::Rates;
use crate::world::{Pipe, World};
use crate::writer::Writer;
use crate::{Sabotage, plan};
use clock::{Duration, Instant, Now};
use message::{IdGenerator, MessageId};
use queue::{QueueCore, QueueSettings, Queued};
use spool::{RecoveredMessage, Recovering, SegmentLog, Settings};
use std::collections::{BTreeMap, VecDeque};

/// One life of the server: all that a crash takes away.
pub(crate) struct Process {
    pub life: u32,
    /// When its monotonic clock began, in microseconds of the world.
    pub origin: u64,
    pub disk: SimDisk,
    pub log: SegmentLog<SimDisk>,
    pub writer: Writer,
    pub queue: QueueCore,
    pub ids: IdGenerator,
    pub inbound: BTreeMap<u64, Inbound>,
    pub outbound: BTreeMap<u64, Outbound>,
    /// Number of the connection that stands behind a key of the queue.
    pub by_key: BTreeMap<u64, u64>,
    /// Old segments that nobody has read yet.
    pub unread: Option<Recovering>,
    /// Everything earlier lives left was known to be synced.
    pub all_synced: bool,
    /// The old messages are known.
    pub adopted: bool,
    /// Old messages on their way to their queues.
    pub to_restore: VecDeque<RecoveredMessage>,
    /// Memory is short.
    pub lean: bool,
    /// What the spooler is having written.
    pub spooling: Vec<Queued>,
    /// Messages about which policy is asked before they become ready.
    pub asked: BTreeMap<MessageId, Queued>,
    /// Messages that failed and about which policy is asked, and how long they are to wait.
    pub requeued: BTreeMap<MessageId, (Queued, Duration)>,
    /// When the last message of earlier lives was back; the end of time before that.
    pub restored_at: u64,
    pub stopping: bool,
    /// When the queue's clockwork is to fire.
    pub tick_at: u64,
    /// What the rates of ready queues have let through.
    pub rates: Rates,
    /// What the last visit left in the ready queues.
    pub before: Before,
    /// Messages above `max_ready` that were given back, by ready queue.
    pub given_back: BTreeMap<String, usize>,
}

impl World {
    /// The process starts and serves; what earlier lives left comes back beside that.
    pub fn begin_life(&mut self) {
        let (disk_seed, nonce_seed, queue_seed) = (self.dice.any(), self.dice.any(), self.dice.any());
        let disk = SimDisk::new(self.disk.clone(), disk_seed, self.unsynced.clone(), self.options.strict);
        let settings = Settings {
            segment_octets: 64 << 10,
            compact_margin_octets: self.plan.compact_margin,
            queue_of: |envelope, meta| queue::schedule::label_for(envelope, meta).unwrap_or_default(),
            ..Settings::default()
        };
        let mut nonces = Dice::new(nonce_seed);
        let opened = SegmentLog::begin(disk.clone(), settings, Box::new(move || nonces.any()));
        let (log, unread) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                self.note(|| format!("the spool does not open: {error}"));
                return self.agenda.enter(self.now + plan::SECOND, Event::LifeBegins);
            }
        };
        self.ledger.life += 1;
        let life = self.ledger.life;
        let queue_settings = QueueSettings { resident_bytes_max: self.plan.resident_bytes_max, seed: queue_seed };
        self.process = Some(Process {
            life,
            origin: self.now,
            disk,
            log,
            writer: Writer::default(),
            queue: QueueCore::new(Instant::ZERO, queue_settings),
            ids: IdGenerator::new([1, 2, 3, 4, 5, 6], life as u16),
            inbound: BTreeMap::new(),
            outbound: BTreeMap::new(),
            by_key: BTreeMap::new(),
            unread: Some(unread),
            all_synced: self.unsynced.is_empty(),
            adopted: false,
            to_restore: VecDeque::new(),
            lean: false,
            spooling: Vec::new(),
            asked: BTreeMap::new(),
            requeued: BTreeMap::new(),
            restored_at: u64::MAX / 2,
            stopping: false,
            tick_at: u64::MAX,
            rates: Rates::default(),
            before: Before::default(),
            given_back: BTreeMap::new(),
        });
        if self.sabotaged(Sabotage::LyingDisk) {
            self.disk.lie();
        }
        self.note(|| format!("LIFE {life} begins"));
        if self.plan.asks {
            self.with_queue(|q, _| q.ask_before_ready(true));
        }
        self.orders_again();
        let delay = *self.dice.pick(&[0, 0, 200_000, 3 * plan::SECOND]);
        self.server_soon(delay, ServerEvent::OldSegmentsRead);
    }

    /// The plan says that the life ends, now or within a disk call.
    pub fn life_ends(&mut self, end: End) {
        let call = self.plan.ends.iter().find(|(at, e, _)| *at <= self.now && *e == end).and_then(|(.., call)| *call);
        self.plan.ends.retain(|(at, e, _)| !(*at <= self.now && *e == end));
        let Some(process) = &mut self.process else { return };
        match (end, call) {
            (End::Stop, _) if !process.stopping => self.begin_stop(),
            (End::Stop, _) => {}
            (_, Some(call)) if !self.recovered => {
                process.disk.die_in(call);
                self.end_in_call = Some(end);
            }
            _ => self.end_life(end),
        }
    }

    /// A process that died in a disk call is dead at once.
    pub fn notice_death(&mut self) {
        let dead = self.process.as_ref().is_some_and(|p| p.disk.is_dead());
        if dead {
            self.report.ends_in_calls += 1;
            let end = self.end_in_call.take().unwrap_or(End::Kill);
            self.end_life(end);
        }
    }

    /// The life is over; a new one begins soon.
    pub fn end_life(&mut self, end: End) {
        let Some(mut process) = self.process.take() else { return };
        let end_in_call = self.end_in_call.take();
        self.report.asked_at_end += (process.asked.len() + process.requeued.len()) as u64;
        let orderly = end == End::Stop && self.last_commits(&mut process);
        let end = match process.disk.is_dead() {
            true if end == End::Stop => end_in_call.unwrap_or(End::Kill),
            _ => end,
        };
        match end {
            End::PowerCut => self.report.power_cuts += 1,
            End::Kill => self.report.kills += 1,
            End::Stop => self.report.stops += 1,
        }
        self.report.octets_compacted += process.log.stats().octets_compacted;
        // Marks ride with the next commit or wait 50 ms, unless the disk refuses.
        let synced_until = match (self.sync_failed, end) {
            (true, _) => 0,
            (false, End::Stop) => self.now,
            (false, End::Kill | End::PowerCut) => self.now.saturating_sub(plan::SECOND),
        };
        // What an earlier life left uncertain stays so until its messages are seen again.
        self.ledger.synced_until = match process.adopted {
            true => synced_until,
            false => synced_until.min(self.ledger.synced_until),
        };
        self.ledger.life_over(orderly && !process.disk.is_dead());
        // A next life reads what is on the disk: behind a failed sync that is anybody's guess too.
        let settled = end == End::PowerCut || std::mem::take(&mut self.sync_failed);
        if settled {
            let seed = self.dice.any();
            self.disk.crash(seed);
        }
        self.unsynced = if settled { std::collections::BTreeSet::new() } else { process.disk.unsynced() };
        for session in process.inbound.keys() {
            self.hang_up(Pipe::ToClient, *session);
        }
        for (connection, outbound) in &process.outbound {
            self.hang_up(Pipe::ToPeer, outbound.wire(*connection));
        }
        self.note(|| format!("LIFE {} ends: {end:?}", process.life));
        let pause = self.dice.within(100_000, 3_000_000);
        self.agenda.enter(self.now + pause, Event::LifeBegins);
    }

    /// The operator stops the server: no new work, a grace for what is in hand.
    pub fn begin_stop(&mut self) {
        self.note(|| "the operator stops the server".to_owned());
        let Some(process) = &mut self.process else { return };
        process.stopping = true;
        let sessions: Vec<u64> = process.inbound.keys().copied().collect();
        let connections: Vec<u64> = process.outbound.keys().copied().collect();
        sessions.into_iter().for_each(|s| self.inbound_stops(s));
        connections.into_iter().for_each(|c| self.outbound_stops(c));
        let grace = self.dice.within(0, 20) * plan::SECOND;
        self.server_soon(grace, ServerEvent::GraceEnds);
    }

    pub fn disk_fails(&mut self) {
        if self.recovered {
            return;
        }
        let Some(at) = self.plan.disk_faults.iter().position(|(at, ..)| *at <= self.now) else { return };
        let (.., call, sticky) = self.plan.disk_faults.remove(at);
        self.note(|| format!("DISK: call {call} from now fails, sticky: {sticky}"));
        let seed = self.dice.any();
        self.disk.fail(call, sticky, seed);
    }
}

impl Process {
    /// Both clocks of this life.
    pub fn now(&self, world_now: u64, wall: clock::WallTime) -> Now {
        Now { mono: Instant::from_micros(world_now - self.origin), wall }
    }

    /// A moment of this life as microseconds of the world; `None` for never.
    pub fn world_time(&self, at: Instant) -> Option<u64> {
        (at < Instant::NEVER).then(|| self.origin.saturating_add(at.as_micros()))
    }
}
