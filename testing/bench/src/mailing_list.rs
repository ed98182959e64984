//! One message to very many recipients at one destination: how long until the last of them has it. In: a number, and
//! whether recipients share transactions. Out: seconds and CPU, or an error when a recipient got it not, twice, or damaged.

use std::time::Duration;

use anyhow::bail;

use crate::clock_factor::{Beside, factor};
use crate::disk_stat::Device;
use crate::injector::Injector;
use crate::load::{Load, Machine, Spent};
use crate::machine::cores;
use crate::measure::Bench;
use crate::postfix::{Peers, Postfix};
use crate::proc_file;
use crate::relay::Relay;
use crate::round::Subject;
use crate::sink::Sink;
use crate::stats::{median, spread};
use crate::wait::while_moving;
use crate::workload::{Duty, Over, Signing};

/// Whether recipients share transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// As many in one as the server is used to.
    Batched,
    /// One in each.
    Singly,
}

/// What it took.
#[derive(Debug, Clone, Copy)]
pub struct Figures {
    /// From the connection that brought the message to the last arrival; the median of the runs.
    pub seconds: f64,
    /// From the quickest run to the slowest, in percent of the median.
    pub spread: f64,
    /// Of the server, a recipient, in microseconds. The kernel counts it in steps of 10 ms.
    pub cpu_us: f64,
    /// Of the machine beside the runs.
    pub clock: f64,
    /// What was at work.
    pub load: Load,
}

impl Mode {
    /// As it stands in a table.
    pub fn words(self) -> &'static str {
        match self {
            Mode::Batched => "batched",
            Mode::Singly => "singly",
        }
    }
}

/// Our own server.
///
/// # Errors
/// A program fails, or a recipient was not served.
pub fn ours(bench: &Bench, mode: Mode, recipients: u64) -> anyhow::Result<Figures> {
    let name = format!("list-{}-{recipients}", mode.words());
    let mut sink = Sink::start(bench.stage, &bench.programs, &name)?;
    sink.audit.by_recipient();
    let mut environment = vec![("RELAY_RECIPIENTS", RECIPIENTS_MAX.into())];
    if mode == Mode::Batched {
        environment.push(("RELAY_BATCH", "BatchByDomain".into()));
    }
    let duty = Duty::Relay(Signing::Unsigned);
    let mut relay = Relay::start_with(bench.stage, &bench.programs, &name, duty, Some(sink.address), environment)?;
    let figures = runs(bench, &mut relay, &mut sink, recipients)?;
    relay.stop(bench.stage)?;
    settle(sink, figures)
}

/// A Postfix.
///
/// # Errors
/// As of [`ours`].
pub fn postfix(bench: &Bench, mode: Mode, recipients: u64, peers: &Peers) -> anyhow::Result<Figures> {
    let name = format!("list-{}-{recipients}-postfix", mode.words());
    let mut sink = Sink::start(bench.stage, &bench.programs, &name)?;
    sink.audit.by_recipient();
    let recipients_max = format!("smtpd_recipient_limit={RECIPIENTS_MAX}");
    let mut settings = OUT_100.to_vec();
    settings.push(&recipients_max);
    if mode == Mode::Singly {
        settings.push("default_destination_recipient_limit=1");
    }
    let mut postfix = Postfix::start(bench.stage, peers, &name, Some(sink.address), &settings)?;
    let figures = runs(bench, &mut postfix, &mut sink, recipients)?;
    postfix.stop(bench.stage)?;
    settle(sink, figures)
}

fn settle(sink: Sink, figures: Figures) -> anyhow::Result<Figures> {
    match sink.stop()?.fault(false) {
        Some(fault) => bail!("the figures are void: {fault} (messages are recipients here)"),
        None => Ok(figures),
    }
}

fn runs(bench: &Bench, subject: &mut dyn Subject, sink: &mut Sink, recipients: u64) -> anyhow::Result<Figures> {
    let mut seconds = Vec::new();
    let (mut cpu, mut loads) = (Vec::new(), Vec::new());
    let device = Device::of(&bench.stage.logs())?;
    let beside = Beside::begin(&bench.clock, false)?;
    for number in 0..=bench.runs {
        // What brings the message, and reads the sink's ledger, is this process.
        let tools = |sink: &Sink| anyhow::Ok([proc_file::cpu_us(std::process::id())?, sink.cpu_us()?]);
        let (before, tools_before, machine) = (subject.reading()?, tools(sink)?, Machine::read(device)?);
        let took = run(subject, sink, number, recipients)?;
        let (machine_then, [harness, sinks]) = (Machine::read(device)?, tools(sink)?);
        let server_us = subject.reading()?.cpu_us - before.cpu_us;
        let spent = Spent { server_us, generator_us: harness - tools_before[0], sink_us: sinks - tools_before[1] };
        loads.push(machine_then.since(&machine, spent, cores(), took));
        seconds.push(took);
        cpu.push(server_us / recipients as f64);
    }
    // The first warms up.
    let (seconds, cpu, loads) = (&seconds[1..], &cpu[1..], &loads[1..]);
    Ok(Figures {
        seconds: median(seconds.iter().copied()).unwrap_or_default(),
        spread: spread(seconds.iter().copied()).unwrap_or_default(),
        cpu_us: median(cpu.iter().copied()).unwrap_or_default(),
        clock: factor(beside.signature_us()?),
        load: Load::median_of(loads),
    })
}

/// Sends it once and waits for the last; the seconds from the first to the second.
fn run(subject: &mut dyn Subject, sink: &mut Sink, number: u32, recipients: u64) -> anyhow::Result<f64> {
    let id = format!("list-{number}");
    let addresses: Vec<String> = (0..recipients).map(|number| format!("user-{number}@list.bench.test")).collect();
    let letter = letter(&id);
    sink.audit.begin();
    let began_us = now_us();
    let mut injector = Injector::open(subject.address(Over::Smtp))?;
    injector.send(&addresses, &letter)?;
    sink.audit.acknowledge(addresses.iter().map(|address| format!("{id} {address}")).collect());
    injector.quit()?;
    let missing = while_moving(SILENCE_LIMIT, || {
        subject.ensure_alive()?;
        sink.read()?;
        Ok(sink.audit.missing() as u64)
    })?;
    if missing > 0 {
        bail!("{missing} of {recipients} recipients did not get it{}", subject.last_words());
    }
    Ok(sink.audit.last_arrival_after(began_us)? as f64 / 1e6)
}

/// A message of 1 KB with the marks that the sink checks.
fn letter(id: &str) -> String {
    let body = format!("{}\r\n", "x".repeat(70)).repeat(12);
    let check = crc32fast::hash(body.as_bytes());
    format!(
        "X-Postrider-Id: {id}\r\nX-Postrider-Check: {check:08x}\r\nFrom: <sender@bench.test>\r\nTo: list:;\r\n\
         Subject: a list\r\nDate: Sun, 22 Nov 2026 12:00:00 +0000\r\nMessage-ID: <{id}@bench.test>\r\n\r\n{body}"
    )
}

fn now_us() -> u64 {
    let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_1970.as_micros()).unwrap_or(u64::MAX)
}

/// What makes Postfix open as many connections as in the experiments.
pub const OUT_100: &[&str] = &["default_destination_concurrency_limit=100", "initial_destination_concurrency=100"];
/// Longest time without a delivery.
const SILENCE_LIMIT: Duration = Duration::from_secs(30);
/// Recipients a transaction may bring.
const RECIPIENTS_MAX: &str = "10000";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_is_one_kib_and_carries_its_checksum() {
        let letter = letter("list-1");
        assert!((1000..1100).contains(&letter.len()), "{}", letter.len());
        let (head, body) = letter.split_once("\r\n\r\n").expect("an empty line");
        assert!(head.contains(&format!("X-Postrider-Check: {:08x}", crc32fast::hash(body.as_bytes()))), "{head}");
    }
}
