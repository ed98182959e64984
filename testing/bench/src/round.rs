//! One measured run: a generator sends, a server takes and passes on, the sink gets everything.
//!
//! [`Running::begin`] notes the server's counters and starts the generator; [`Running::finish`] waits for it and for
//! the last arrival and takes the difference. Between the two, [`Running::crash`] may kill the server. Delivery is
//! waited for as long as there is progress; what has not come after a silence is left to the audit to call lost.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, bail};

use crate::clock_factor::{Beside, Clock, factor};
use crate::disk_stat::Device;
use crate::generator::{Generator, Latency, Order, Outcome};
use crate::load::{Load, Machine, Spent};
use crate::machine::cores;
use crate::relay::Relay;
use crate::sink::Sink;
use crate::stage::{Programs, Stage};
use crate::wait::{until, while_moving};
use crate::workload::Over;

/// A server that can be measured.
pub trait Subject {
    /// Where it takes mail.
    fn address(&self, over: Over) -> SocketAddr;
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
    /// CPU of the one thread that writes the spool, in microseconds.
    pub writer_us: Option<f64>,
    /// Messages it has taken.
    pub received: Option<f64>,
}

impl Reading {
    fn minus(self, earlier: Reading) -> Reading {
        let change = |now: Option<f64>, then: Option<f64>| now.zip(then).map(|(now, then)| now - then);
        Reading {
            cpu_us: self.cpu_us - earlier.cpu_us,
            commits: change(self.commits, earlier.commits),
            spool_octets: change(self.spool_octets, earlier.spool_octets),
            writer_us: change(self.writer_us, earlier.writer_us),
            received: change(self.received, earlier.received),
        }
    }
}

/// The figures of a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Round {
    /// Messages acknowledged.
    pub acknowledged: f64,
    /// Messages taken by the server's own count, if it says.
    pub received: Option<f64>,
    /// Messages acknowledged a second, while they were being sent.
    pub accepted_per_s: f64,
    /// Messages a second from the start to the last arrival; none where nothing is delivered.
    pub delivered_per_s: Option<f64>,
    /// From the start to the last arrival (or acknowledgement).
    pub seconds: f64,
    /// CPU of the server a message.
    pub cpu_us: f64,
    /// Of that the thread that writes the spool.
    pub writer_us: Option<f64>,
    /// CPU of the generator a message.
    pub generator_us: f64,
    /// CPU of the sink a message, where there is one.
    pub sink_us: Option<f64>,
    /// Syncs a message.
    pub syncs: Option<f64>,
    /// Octets the spool wrote for an octet of mail.
    pub written: Option<f64>,
    /// Octets written to the device for an octet of mail, logs, ledgers and other programs included.
    pub device_written: Option<f64>,
    /// How long answers took.
    pub latency: Latency,
    /// What was at work.
    pub load: Load,
    /// The clock factor beside the run.
    pub clock: f64,
    /// Messages the server still held at the end though all had arrived.
    pub held: f64,
}

impl Round {
    /// Fails if the server still holds messages though all had arrived.
    ///
    /// # Errors
    /// It does.
    pub fn ensure_empty(&self) -> anyhow::Result<()> {
        match self.held > 0.0 {
            true => bail!("{} messages are held though all were delivered", self.held),
            false => Ok(()),
        }
    }

    /// Messages a second from the first to the last: delivered, or accepted where nothing is delivered.
    pub fn rate(&self) -> f64 {
        self.delivered_per_s.unwrap_or(self.accepted_per_s)
    }
}

/// A run under way.
pub struct Running<'a> {
    order: &'a Order,
    generator: Generator,
    beside: Beside,
    before: Reading,
    delivered_before: f64,
    device: Device,
    machine_before: Machine,
    sink_cpu_before: f64,
}

impl<'a> Running<'a> {
    /// Starts the generator.
    ///
    /// # Errors
    /// It cannot be started, or the server cannot be read.
    pub fn begin(
        stage: &Stage,
        programs: &Programs,
        clock: &Clock,
        subject: &dyn Subject,
        mut sink: Option<&mut Sink>,
        order: &'a Order,
    ) -> anyhow::Result<Running<'a>> {
        let before = subject.reading()?;
        let delivered_before = subject.delivered()?.unwrap_or_default();
        let device = Device::of(&stage.logs())?;
        if let Some(sink) = &mut sink {
            sink.audit.begin();
        }
        let sink_cpu_before = sink.map(|sink| sink.cpu_us()).transpose()?.unwrap_or_default();
        let machine_before = Machine::read(device)?;
        let generator = Generator::start(stage, programs, order, subject.address(order.over))?;
        Ok(Running {
            order,
            generator,
            beside: Beside::begin(clock, order.rate.is_some())?,
            before,
            delivered_before,
            device,
            machine_before,
            sink_cpu_before,
        })
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
        let Running { order, generator, beside, before, device, machine_before, sink_cpu_before, .. } = self;
        let mut outcome = generator.outcome()?;
        check(order, &outcome, subject)?;
        let mut spent = Spent { generator_us: outcome.cpu_us, ..Spent::default() };
        let (mut elapsed, mut held) = (outcome.seconds, 0.0);
        let relays = sink.is_some();
        if let Some(sink) = sink {
            sink.audit.acknowledge(std::mem::take(&mut outcome.acknowledged));
            sink.audit.unknown(std::mem::take(&mut outcome.unknown));
            await_delivery(subject, sink)?;
            elapsed = sink.audit.last_arrival_after(outcome.started_us)? as f64 / 1e6;
            spent.sink_us = sink.cpu_us()? - sink_cpu_before;
            held = await_empty(subject)?;
        }
        let used = subject.reading()?.minus(before);
        let machine = Machine::read(device)?;
        spent.server_us = used.cpu_us;
        let sent = outcome.sent as f64;
        let mail = sent * order.octets as f64;
        let device_octets = machine.disk_octets().zip(machine_before.disk_octets());
        Ok(Round {
            acknowledged: sent,
            received: used.received,
            accepted_per_s: sent / outcome.seconds,
            delivered_per_s: relays.then(|| sent / elapsed),
            seconds: elapsed,
            cpu_us: used.cpu_us / sent,
            writer_us: used.writer_us.map(|us| us / sent),
            generator_us: spent.generator_us / sent,
            sink_us: relays.then(|| spent.sink_us / sent),
            syncs: used.commits.map(|commits| commits / sent),
            written: used.spool_octets.map(|octets| octets / mail),
            device_written: device_octets.map(|(after, before)| (after - before) as f64 / mail),
            latency: outcome.latency,
            load: machine.since(&machine_before, spent, cores(), elapsed),
            clock: factor(beside.signature_us()?),
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

/// Waits until all acknowledged messages arrived, or nothing happens any more.
fn await_delivery(subject: &mut dyn Subject, sink: &mut Sink) -> anyhow::Result<()> {
    let missing = while_moving(SILENCE_LIMIT, || {
        subject.ensure_alive()?;
        sink.read()?;
        Ok(sink.audit.missing() as u64)
    });
    missing.map(drop)
}

/// Waits until the server holds nothing any more; what it holds when that has not changed for too long.
fn await_empty(subject: &mut dyn Subject) -> anyhow::Result<f64> {
    let held = while_moving(EMPTY_LIMIT, || {
        subject.ensure_alive()?;
        Ok(subject.held()?.context("the server does not say how many messages it holds")? as u64)
    });
    Ok(held? as f64)
}

/// Longest time a run may send.
const SEND_LIMIT: Duration = Duration::from_secs(300);
/// Longest time without a delivery before the rest is given up.
const SILENCE_LIMIT: Duration = Duration::from_secs(30);
/// Longest time a server may hold what has arrived.
const EMPTY_LIMIT: Duration = Duration::from_secs(20);
