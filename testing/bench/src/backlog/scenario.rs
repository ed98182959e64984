//! One backlog through its life: taken in, held, stopped and started, killed and started, let out slowly, let out.
//!
//! In: how many messages to how many domains. Out: [`Figures`]. A message lost, doubled or damaged is found at the end, when
//! all of them have gone to a sink; so the whole scenario is void or sound.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::runtime::Runtime;

use super::limits::{Limits, Observed};
use crate::audit::Verdict;
use crate::daemon::Daemon;
use crate::disk_watch::{DiskWatch, Seen};
use crate::generator::{Generator, Order, Outcome};
use crate::ledger::Arrival;
use crate::probe::{Latencies, Probe};
use crate::sink::Sink;
use crate::stage::{Programs, Stage};
use crate::wait::until;
use crate::witness::Witness;
use crate::workload::Over;

/// What to hold.
#[derive(Debug, Clone)]
pub struct Scenario {
    pub messages: u64,
    /// Octets of each, head and body.
    pub octets: u64,
    /// Scheduled queues they are spread over.
    pub domains: u32,
    /// The moment they are due, in seconds from the start; 0 for at once.
    pub due_in_s: u64,
    /// Silence before memory is read again.
    pub pause: Duration,
    /// How long the limits are watched.
    pub limited: Duration,
}

/// What was seen.
#[derive(Debug, Clone)]
pub struct Figures {
    pub accepted_per_s: f64,
    /// Resident set before the first message, in octets.
    pub idle_octets: f64,
    /// Resident set beyond that, a queued message: when the last was accepted, and after a pause.
    pub message_octets_full: f64,
    pub message_octets: f64,
    pub stop_s: f64,
    /// After an orderly stop.
    pub stopped: Restart,
    /// After a kill.
    pub killed: Restart,
    pub observed: Observed,
    pub disk: Seen,
    /// Octets the spool wrote for an octet of mail, until the backlog stood.
    pub written: Option<f64>,
    pub verdict: Verdict,
}

/// A start with a backlog.
#[derive(Debug, Clone, Copy, Default)]
pub struct Restart {
    pub first_220_s: f64,
    /// From the start until every message was in a queue again.
    pub queued_s: f64,
    /// As in [`Figures`].
    pub message_octets_full: f64,
    pub message_octets: f64,
    /// The largest resident set until then, beyond the idle one, a message.
    pub message_octets_peak: f64,
    /// Mail sent meanwhile.
    pub probe: Latencies,
}

/// Everything that stands while a scenario is played.
pub struct Play<'a> {
    stage: &'a Stage,
    programs: &'a Programs,
    scenario: &'a Scenario,
    runtime: &'a Runtime,
    name: String,
    /// Where probes go, and the backlog while its way is limited.
    witness: Witness,
    folder: PathBuf,
    daemon: Daemon,
    due: Option<OffsetDateTime>,
    idle_octets: f64,
}

impl<'a> Play<'a> {
    /// Starts an empty daemon.
    ///
    /// # Errors
    /// It does not come up.
    pub fn begin(
        stage: &'a Stage,
        programs: &'a Programs,
        runtime: &'a Runtime,
        scenario: &'a Scenario,
    ) -> anyhow::Result<Play<'a>> {
        let name = format!("backlog-{}", scenario.domains);
        let witness = Witness::start(runtime)?;
        let folder = stage.spool(&name)?;
        let seconds = time::Duration::seconds(scenario.due_in_s.try_into()?);
        let due = (scenario.due_in_s > 0).then(|| OffsetDateTime::now_utc() + seconds);
        let due_text = due.map(|due| due.format(&Rfc3339)).transpose()?.unwrap_or_default();
        let environment = vec![
            ("BACKLOG_DIR", folder.clone().into()),
            ("BACKLOG_DUE", due_text.into()),
            ("BACKLOG_LIVE", witness.address.to_string().into()),
            ("BACKLOG_BULK", witness.address.to_string().into()),
        ];
        let mut daemon = Daemon::start(stage, programs, &name, "backlog.lua", Limits::CLOSED.set_in(environment))?;
        // One message through, so that what the first one needs is not counted as part of the backlog.
        let probe = Probe::start(runtime, daemon.smtp, &format!("{name}-first"));
        until("the first message", START_LIMIT, || {
            daemon.ensure_alive()?;
            Ok(witness.arrival(&format!("probe-{name}-first-0")))
        })?;
        probe.stop(runtime, &witness)?;
        let idle_octets = daemon.rss_octets()?;
        Ok(Play { stage, programs, scenario, runtime, name, witness, folder, daemon, due, idle_octets })
    }

    /// Plays it to its end.
    ///
    /// # Errors
    /// A program fails, or mail does not come back to its queues.
    pub fn play(mut self) -> anyhow::Result<Figures> {
        let scenario = self.scenario;
        let mail_octets = (scenario.messages * scenario.octets) as f64;
        let watch = DiskWatch::start(&self.folder.join("data"), self.daemon.http, scenario.octets as f64)?;
        let outcome = self.fill()?;
        let message_octets_full = self.message_octets()?;
        let written = self.daemon.metrics()?.value("postrider_spool_bytes_written").map(|octets| octets / mail_octets);
        std::thread::sleep(scenario.pause);
        let message_octets = self.message_octets()?;
        let queued = self.daemon.queued()?;
        self.say(&format!("{queued} queued, {message_octets:.0} octets each"));
        // Where all is due at once, each life lets a message or two out through the way that is nearly closed.
        let want = queued + self.released();
        watch.alive_at_least(queued as u64);
        let stop_s = self.daemon.stop()?.as_secs_f64();
        let stopped = self.restart("stop", want)?;
        self.daemon.kill();
        let killed = self.restart("kill", want)?;
        let observed = self.limited()?;
        let disk = watch.stop();
        let accepted_per_s = outcome.sent as f64 / outcome.seconds;
        let idle_octets = self.idle_octets;
        let verdict = self.let_out(outcome)?;
        Ok(Figures {
            accepted_per_s,
            idle_octets,
            message_octets_full,
            message_octets,
            stop_s,
            stopped,
            killed,
            observed,
            disk,
            written,
            verdict,
        })
    }

    /// Takes the backlog in.
    fn fill(&mut self) -> anyhow::Result<Outcome> {
        let scenario = self.scenario;
        let order = Order {
            name: format!("{}-fill", self.name),
            octets: scenario.octets,
            messages: scenario.messages,
            concurrency: CONCURRENCY,
            domains: (1..=scenario.domains).map(|number| format!("d{number:04}.bulk")).collect(),
            persistent: false,
            rate: None,
            pipelined: true,
            over: Over::Smtp,
        };
        self.say("taking the backlog in");
        let mut generator = Generator::start(self.stage, self.programs, &order, self.daemon.smtp)?;
        let limit = Duration::from_secs(120 + scenario.messages / RATE_MIN);
        until("the end of traffic-gen", limit, || {
            self.daemon.ensure_alive()?;
            generator.ended()
        })
        .with_context(|| format!("{}{}", order.name, generator.last_words()))?;
        let outcome = generator.outcome()?;
        if outcome.sent != scenario.messages {
            let why = outcome.last_failure.as_deref().unwrap_or("no reason was given");
            bail!("of {} messages {} were accepted: {why}", scenario.messages, outcome.sent);
        }
        Ok(outcome)
    }

    /// Starts the daemon on its backlog, with mail coming in from the first moment.
    fn restart(&mut self, after: &str, want: f64) -> anyhow::Result<Restart> {
        self.say(&format!("starting after a {after}"));
        let (begun, first_220) = self.daemon.again(self.stage)?;
        let probe = Probe::start(self.runtime, self.daemon.smtp, &format!("{}-{after}", self.name));
        let limit = Duration::from_secs(120 + self.scenario.messages / RATE_MIN);
        let queued = until("the backlog's return to its queues", limit, || {
            let back = self.daemon.queued()? + self.released();
            Ok((back >= want).then(|| begun.elapsed()))
        });
        let queued = queued.with_context(|| format!("{want} were held before the {after}"))?;
        let message_octets_full = self.message_octets()?;
        let message_octets_peak = (self.daemon.peak_rss_octets()? - self.idle_octets) / self.scenario.messages as f64;
        // A small backlog is back before the probe has sent anything to speak of.
        std::thread::sleep(PROBED_MIN.saturating_sub(begun.elapsed()));
        let probe = probe.stop(self.runtime, &self.witness)?;
        std::thread::sleep(self.scenario.pause);
        Ok(Restart {
            first_220_s: first_220.as_secs_f64(),
            queued_s: queued.as_secs_f64(),
            message_octets_full,
            message_octets: self.message_octets()?,
            message_octets_peak,
            probe,
        })
    }

    /// Starts it when everything is due, and watches whether the way out keeps its limits from the first moment.
    fn limited(&mut self) -> anyhow::Result<Observed> {
        self.daemon.stop()?;
        if let Some(due) = self.due {
            let rest = due - OffsetDateTime::now_utc();
            self.say(&format!("down until all is due, {:.0} s", rest.as_seconds_f64().max(0.0)));
            std::thread::sleep(rest.try_into().unwrap_or_default());
        }
        Limits::WATCHED.set(&mut self.daemon);
        let from = Instant::now();
        self.daemon.again(self.stage)?;
        self.say("watching the limits");
        until("the first message of the backlog", START_LIMIT, || {
            self.daemon.ensure_alive()?;
            Ok(self.witness.log().arrivals.last().is_some_and(|(at, _)| *at >= from).then_some(()))
        })?;
        std::thread::sleep(self.scenario.limited);
        let observed = Observed::of(&self.witness.log(), from);
        self.daemon.stop()?;
        Ok(observed)
    }

    /// Lets everything out to a sink, and judges.
    fn let_out(mut self, outcome: Outcome) -> anyhow::Result<Verdict> {
        let mut sink = Sink::start(self.stage, self.programs, &self.name)?;
        sink.audit.acknowledge(outcome.acknowledged);
        sink.audit.unknown(outcome.unknown);
        for (_, id) in self.witness.log().arrivals.iter().filter(|(_, id)| !id.starts_with("probe-")) {
            sink.audit.arrive(Arrival { id, intact: true, recipients: "", at_us: 0 });
        }
        Limits::OPEN.set(&mut self.daemon);
        self.daemon.set("BACKLOG_BULK", sink.address.to_string());
        self.daemon.again(self.stage)?;
        self.say("letting everything out");
        let mut last = (Instant::now(), sink.audit.missing());
        while sink.audit.missing() > 0 && last.0.elapsed() < SILENCE_LIMIT {
            std::thread::sleep(LOOK_REST);
            self.daemon.ensure_alive()?;
            sink.read()?;
            if sink.audit.missing() < last.1 {
                last = (Instant::now(), sink.audit.missing());
            }
        }
        self.daemon.stop()?;
        let verdict = sink.stop()?;
        self.stage.sweep(&self.folder);
        Ok(verdict)
    }

    /// The resident set beyond that of the idle daemon, a queued message.
    fn message_octets(&self) -> anyhow::Result<f64> {
        Ok((self.daemon.rss_octets()? - self.idle_octets) / self.scenario.messages as f64)
    }

    /// Messages of the backlog that have gone to the witness.
    fn released(&self) -> f64 {
        self.witness.log().arrivals.iter().filter(|(_, id)| !id.starts_with("probe-")).count() as f64
    }

    fn say(&self, what: &str) {
        eprintln!("  {}: {what}", self.name);
    }
}

/// Connections of the generator.
const CONCURRENCY: u32 = 100;
/// Messages a second below which nobody wants to wait.
const RATE_MIN: u64 = 1000;
const START_LIMIT: Duration = Duration::from_secs(120);
/// Longest time without an arrival while the backlog is let out.
const SILENCE_LIMIT: Duration = Duration::from_secs(30);
const LOOK_REST: Duration = Duration::from_millis(100);
/// The probe runs at least so long after a start.
const PROBED_MIN: Duration = Duration::from_secs(3);
