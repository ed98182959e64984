//! One measured run: a generator sends, a server takes and passes on, the sink gets everything.
//!
//! [`Running::begin`] notes the server's counters and starts the generator; [`Running::finish`] waits for it and for
//! the last arrival and takes the difference. Between the two, [`Running::crash`] may kill the server. Delivery is
//! waited for as long as there is progress; what has not come after a silence is left to the audit to call lost.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use crate::clock_factor::{Clock, factor};
use crate::disk_stat::Device;
use crate::generator::{Generator, Order, Outcome};
use crate::relay::Relay;
use crate::sink::Sink;
use crate::stage::{Programs, Stage};
use crate::wait::{POLL, until};

/// A server that can be measured.
pub trait Subject {
    /// Where it takes mail.
    fn address(&self) -> SocketAddr;
    /// What it has used so far.
    fn reading(&self) -> anyhow::Result<Reading>;
    /// Messages it has delivered so far, if it says.
    fn delivered(&self) -> anyhow::Result<Option<f64>>;
    /// Messages it still holds, if it says.
    fn held(&self) -> anyhow::Result<Option<f64>>;
    /// Fails with its last words if it has ended.
    fn ensure_alive(&mut self) -> anyhow::Result<()>;
    /// The last lines it wrote.
    fn last_words(&self) -> String;
}

/// Counters of a server at one moment.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    /// User and system time, in microseconds.
    pub cpu_us: f64,
    /// Commits of the spool, each with one sync.
    pub commits: Option<f64>,
    /// Octets the spool wrote, whatever for.
    pub spool_octets: Option<f64>,
}

impl Reading {
    fn minus(self, earlier: Reading) -> Reading {
        Reading {
            cpu_us: self.cpu_us - earlier.cpu_us,
            commits: self.commits.zip(earlier.commits).map(|(now, then)| now - then),
            spool_octets: self.spool_octets.zip(earlier.spool_octets).map(|(now, then)| now - then),
        }
    }
}

/// The figures of a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Round {
    /// Messages acknowledged a second, while they were being sent.
    pub accepted_per_s: f64,
    /// Messages a second from the start to the last arrival; none where nothing is delivered.
    pub delivered_per_s: Option<f64>,
    /// From the start to the last arrival (or acknowledgement).
    pub seconds: f64,
    /// CPU of the server a message.
    pub cpu_us: f64,
    /// Syncs a message.
    pub syncs: Option<f64>,
    /// Octets the spool wrote for an octet of mail.
    pub written: Option<f64>,
    /// Octets written to the device for an octet of mail, logs, ledgers and other programs included.
    pub device_written: Option<f64>,
    /// Median time from the final dot to the 250.
    pub p50_ms: f64,
    /// 99 % were answered within this.
    pub p99_ms: f64,
    /// The clock factor beside the run.
    pub clock: f64,
    /// Messages the server still held at the end though all had arrived.
    pub held: f64,
}

/// A run under way.
pub struct Running<'a> {
    clock: &'a Clock,
    order: &'a Order,
    generator: Generator,
    signature_us: f64,
    before: Reading,
    delivered_before: f64,
    device: Device,
    device_before: Option<u64>,
    started: Instant,
}

impl<'a> Running<'a> {
    /// Starts the generator.
    ///
    /// # Errors
    /// It cannot be started, or the server cannot be read.
    pub fn begin(
        stage: &Stage,
        programs: &Programs,
        clock: &'a Clock,
        subject: &dyn Subject,
        order: &'a Order,
    ) -> anyhow::Result<Running<'a>> {
        let signature_us = clock.signature_us()?;
        let before = subject.reading()?;
        let delivered_before = subject.delivered()?.unwrap_or_default();
        let device = Device::of(&stage.logs())?;
        let device_before = device.octets_written()?;
        let started = Instant::now();
        let generator = Generator::start(stage, programs, order, subject.address())?;
        Ok(Running { clock, order, generator, signature_us, before, delivered_before, device, device_before, started })
    }

    /// Kills the relay once `share` of the messages have been delivered, and starts it again.
    ///
    /// # Errors
    /// The generator was done before that, or the relay does not come up again.
    pub fn crash(&mut self, stage: &Stage, relay: &mut Relay, sink: &mut Sink, share: f64) -> anyhow::Result<()> {
        let enough = self.order.messages as f64 * share;
        until("deliveries before the kill", SEND_LIMIT, || {
            relay.ensure_alive()?;
            sink.read()?;
            let delivered = relay.delivered()?.unwrap_or_default() - self.delivered_before;
            Ok((delivered >= enough || sink.audit.arrived() as f64 >= enough).then_some(()))
        })?;
        if self.generator.ended()?.is_some() {
            bail!("all {} messages were sent before the relay could be killed: send more", self.order.messages);
        }
        let delivered = relay.delivered()?.unwrap_or_default();
        let reading = relay.reading()?;
        relay.crash_and_restart(stage)?;
        // The next life counts from nothing: what the last one used is added by moving the starting point back.
        self.before = self.before.minus(reading);
        self.delivered_before -= delivered;
        Ok(())
    }

    /// Waits for the end of the run. With a sink, for the last arrival there.
    ///
    /// # Errors
    /// A program ended, a message was refused, or the generator does not come to its end.
    pub fn finish(mut self, subject: &mut dyn Subject, sink: Option<&mut Sink>) -> anyhow::Result<Round> {
        self.await_generator(subject)?;
        let sent_in = self.started.elapsed();
        let order = self.order;
        let Running {
            clock, generator, signature_us, before, delivered_before, device, device_before, started, ..
        } = self;
        let mut outcome = generator.outcome()?;
        check(order, &outcome, subject)?;
        let (mut elapsed, mut held) = (sent_in, 0.0);
        let relays = sink.is_some();
        if let Some(sink) = sink {
            let want = delivered_before + outcome.sent as f64;
            sink.audit.acknowledge(std::mem::take(&mut outcome.acknowledged));
            sink.audit.unknown(std::mem::take(&mut outcome.unknown));
            elapsed = await_delivery(subject, sink, started, want)?;
            held = await_empty(subject)?;
        }
        let used = subject.reading()?.minus(before);
        let sent = outcome.sent as f64;
        let mail = sent * order.octets as f64;
        let device_octets = device.octets_written()?.zip(device_before).map(|(after, before)| (after - before) as f64);
        Ok(Round {
            accepted_per_s: sent / outcome.seconds,
            delivered_per_s: relays.then(|| sent / elapsed.as_secs_f64()),
            seconds: elapsed.as_secs_f64(),
            cpu_us: used.cpu_us / sent,
            syncs: used.commits.map(|commits| commits / sent),
            written: used.spool_octets.map(|octets| octets / mail),
            device_written: device_octets.map(|octets| octets / mail),
            p50_ms: outcome.p50_ms,
            p99_ms: outcome.p99_ms,
            clock: factor(signature_us, clock.signature_us()?),
            held,
        })
    }

    fn await_generator(&mut self, subject: &mut dyn Subject) -> anyhow::Result<()> {
        let ended = until("the end of traffic-gen", SEND_LIMIT, || {
            subject.ensure_alive()?;
            self.generator.ended()
        });
        ended.with_context(|| format!("{}{}", self.order.name, self.generator.last_words()))?;
        Ok(())
    }
}

fn check(order: &Order, outcome: &Outcome, subject: &dyn Subject) -> anyhow::Result<()> {
    if outcome.sent == order.messages && (outcome.failed == 0 || order.persistent) {
        return Ok(());
    }
    let why = outcome.last_failure.as_deref().unwrap_or("no reason was given");
    let Outcome { sent, failed, .. } = outcome;
    bail!("of {} messages {sent} were accepted, {failed} failed: {why}{}", order.messages, subject.last_words());
}

/// Waits until all acknowledged messages arrived, or nothing happens any more. Returns the time from `started` to
/// the last delivery: as the server counts it, which is finer than the sink's ledger, or else as the ledger shows it.
fn await_delivery(subject: &mut dyn Subject, sink: &mut Sink, started: Instant, want: f64) -> anyhow::Result<Duration> {
    let mut done = None;
    let mut last_progress = (Instant::now(), 0, 0.0);
    loop {
        subject.ensure_alive()?;
        let delivered = subject.delivered()?.unwrap_or_default();
        sink.read()?;
        let now = Instant::now();
        let all_arrived = sink.audit.missing() == 0;
        if done.is_none() && (all_arrived || delivered >= want) {
            done = Some(now - started);
        }
        if all_arrived {
            return Ok(done.unwrap_or_default());
        }
        let (since, arrived, counted) = last_progress;
        if sink.audit.arrived() != arrived || delivered != counted {
            last_progress = (now, sink.audit.arrived(), delivered);
        } else if now - since >= SILENCE_LIMIT {
            return Ok(since - started);
        }
        std::thread::sleep(SCRAPE_REST);
    }
}

/// Waits until the server holds nothing any more; returns what it holds when it is silent about it for too long.
fn await_empty(subject: &mut dyn Subject) -> anyhow::Result<f64> {
    let deadline = Instant::now() + EMPTY_LIMIT;
    loop {
        subject.ensure_alive()?;
        let held = subject.held()?.unwrap_or_default();
        if held == 0.0 || Instant::now() >= deadline {
            return Ok(held);
        }
        std::thread::sleep(POLL);
    }
}

/// Longest time a run may send.
const SEND_LIMIT: Duration = Duration::from_secs(300);
/// Longest time without a delivery before the rest is given up.
const SILENCE_LIMIT: Duration = Duration::from_secs(30);
/// Longest time a server may hold what has arrived.
const EMPTY_LIMIT: Duration = Duration::from_secs(20);
/// Rest between two scrapes while deliveries are waited for: they cost the server CPU.
const SCRAPE_REST: Duration = Duration::from_millis(20);
