//! `reclaim`: disk use while most mail goes at once and some stays. A log that is released from its oldest end would keep
//! all of it for the few; this shows that it does not, and what moving the few costs.
//!
//! The real program gets several GiB; nine messages in ten are delivered at once, one waits for tomorrow. In: how much. Out:
//! a table with the worst moment of disk use against twice the live mail and 1 GiB, and the octets written for an octet of
//! mail. The figures are void if a message is neither delivered nor held.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::daemon::Daemon;
use crate::disk_stat::Device;
use crate::disk_watch::{DiskWatch, Seen, disk_octets};
use crate::generator::{Generator, Order};
use crate::machine::Facts;
use crate::results::{Keep, Results};
use crate::sink::Sink;
use crate::stage::{Place, Programs, Stage, built_program};
use crate::table::{Table, figure};
use crate::wait::until;
use crate::workload::Over;

/// Options of `reclaim`.
#[derive(clap::Args)]
pub struct Options {
    /// Folder with the built `postrider` [default: this program's own]
    #[arg(long, value_name = "DIR")]
    bin: Option<PathBuf>,
    /// MiB of mail
    #[arg(long, value_name = "MIB", default_value_t = 6144, value_parser = clap::value_parser!(u64).range(64..))]
    mib: u64,
    /// Octets of a message
    #[arg(long, value_name = "OCTETS", default_value_t = 10 << 10, value_parser = clap::value_parser!(u64).range(1024..))]
    size: u64,
    /// Messages of each hundred that stay
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u64).range(0..=99))]
    stay: u64,
    /// Seconds of rest at the end, in which space may still come back
    #[arg(long, value_name = "S", default_value_t = 10)]
    rest: u64,
    #[command(flatten)]
    keep: Keep,
    #[command(flatten)]
    place: Place,
}

/// What was seen.
struct Figures {
    messages: u64,
    held: f64,
    accepted_per_s: f64,
    delivered_per_s: f64,
    seen: Seen,
    end_octets: f64,
    /// Octets the spool wrote by its own count, and the device by the kernel's.
    written: Option<f64>,
    device_written: Option<f64>,
}

/// Measures.
///
/// # Errors
/// A program fails, or a message is neither delivered nor held.
pub fn reclaim(options: &Options) -> anyhow::Result<()> {
    let binary = built_program(options.bin.as_deref())?;
    options.place.act(|stage| {
        let programs = stage.install(&binary, "bin")?;
        let facts = Facts::gather(&stage.logs())?;
        let figures = play(options, stage, &programs)?;
        let tables = [table(options, &figures)];
        let results =
            Results { suffix: "-reclaim", title: "Reclaiming", facts: &facts, tables: &tables, legend: LEGEND };
        options.keep.conclude(options.mib >= 4096, &results)
    })
}

fn play(options: &Options, stage: &Stage, programs: &Programs) -> anyhow::Result<Figures> {
    let messages = (options.mib * 1024 * 1024).div_ceil(options.size);
    let mut sink = Sink::start(stage, programs, "reclaim")?;
    let folder = stage.spool("reclaim")?;
    let device = Device::of(&folder)?;
    let tomorrow = (OffsetDateTime::now_utc() + time::Duration::DAY).format(&Rfc3339)?;
    let environment = vec![
        ("BACKLOG_DIR", folder.clone().into()),
        ("BACKLOG_DUE", tomorrow.into()),
        ("BACKLOG_LIVE", sink.address.to_string().into()),
        ("BACKLOG_BULK", sink.address.to_string().into()),
    ];
    let mut daemon = Daemon::start(stage, programs, "reclaim", "backlog.lua", environment)?;
    let watch = DiskWatch::start(&folder.join("data"), daemon.http, options.size as f64)?;
    let order = Order {
        name: "reclaim-fill".to_owned(),
        octets: options.size,
        messages,
        concurrency: CONCURRENCY,
        domains: domains(options.stay),
        persistent: false,
        rate: None,
        pipelined: true,
        over: Over::Smtp,
    };
    let device_before = device.octets_written()?;
    let started = Instant::now();
    let mut generator = Generator::start(stage, programs, &order, daemon.smtp)?;
    until("the end of traffic-gen", FILL_LIMIT, || {
        daemon.ensure_alive()?;
        generator.ended()
    })?;
    let outcome = generator.outcome()?;
    if outcome.sent != messages {
        bail!("of {messages} messages {} were accepted: {:?}", outcome.sent, outcome.last_failure);
    }
    sink.audit.acknowledge(outcome.acknowledged);
    let held = until("every message at the sink or held", DELIVERY_LIMIT, || {
        let held = daemon.metrics()?.value("message_count").unwrap_or_default();
        sink.read()?;
        Ok((sink.audit.arrived() as u64 + held as u64 == messages).then_some(held))
    });
    let held = held.with_context(|| {
        format!("{} were accepted, {} arrived: the figures are void", messages, sink.audit.arrived())
    })?;
    let delivered_in = started.elapsed().as_secs_f64();
    std::thread::sleep(Duration::from_secs(options.rest));
    let mail = (messages * options.size) as f64;
    let device_after = device.octets_written()?;
    let figures = Figures {
        messages,
        held,
        accepted_per_s: outcome.sent as f64 / outcome.seconds,
        delivered_per_s: (messages as f64 - held) / delivered_in,
        end_octets: disk_octets(&folder.join("data")) as f64,
        written: daemon.metrics()?.value("postrider_spool_bytes_written").map(|octets| octets / mail),
        device_written: device_after.zip(device_before).map(|(after, before)| (after - before) as f64 / mail),
        seen: watch.stop(),
    };
    daemon.stop()?;
    let verdict = sink.stop()?;
    if verdict.doubled > 0 || verdict.damaged > 0 {
        bail!("the figures are void: {} doubled, {} damaged", verdict.doubled, verdict.damaged);
    }
    stage.sweep(&folder);
    Ok(figures)
}

/// Recipient domains by weight: those that go at once, those that stay.
fn domains(stay: u64) -> Vec<String> {
    let mut domains = vec![format!("live:{}", 100 - stay)];
    domains.extend((stay > 0).then(|| format!("d0001.bulk:{stay}")));
    domains
}

fn table(options: &Options, figures: &Figures) -> Table {
    let mut table = Table::new(&["reclaiming", "measured", "target"]);
    let mut row = |name: &str, value: String, target: &str| {
        table.row(vec![name.to_owned(), value, target.to_owned()]);
    };
    let mib = |octets: f64| figure(Some(octets / MIB), 0);
    let live = figures.held * options.size as f64;
    row("messages", figures.messages.to_string(), "");
    row("octets each", options.size.to_string(), "");
    row("held at the end", figure(Some(figures.held), 0), "");
    row("accepted/s", figure(Some(figures.accepted_per_s), 0), "");
    row("delivered/s", figure(Some(figures.delivered_per_s), 0), "");
    row("spool on disk at most, MiB", mib(figures.seen.octets_max), "");
    row("... beyond 2 x live mail at most, MiB", mib(figures.seen.over_max), "1024");
    row("spool on disk at the end, MiB", mib(figures.end_octets), &mib(2.0 * live + 1024.0 * MIB));
    row("live mail at the end, MiB", mib(live), "");
    let target = if options.stay == 0 { "1.15" } else { "" };
    row("octets written an octet of mail, by the spool", figure(figures.written, 3), target);
    row("... by the device, logs and ledgers included", figure(figures.device_written, 3), "");
    table
}

const CONCURRENCY: u32 = 100;
const FILL_LIMIT: Duration = Duration::from_secs(1800);
const DELIVERY_LIMIT: Duration = Duration::from_secs(120);
const MIB: f64 = 1024.0 * 1024.0;
const LEGEND: &str = "\
One run: mail for one domain is delivered at once, for another it is due tomorrow. Generator and sink share the
cores with the server, under SCHED_BATCH (bench/README.md).

- beyond 2 x live mail: the worst moment of the run, sampled each 250 ms; live mail is messages x size, without what the
  spool adds.
- octets written: zeros that fill new segments and the copies of what stays are in it.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_add_up() {
        assert_eq!(domains(10), ["live:90", "d0001.bulk:10"]);
        assert_eq!(domains(0), ["live:100"]);
    }

    #[test]
    fn the_bound_at_the_end_follows_from_what_is_held() {
        let options = Options {
            bin: None,
            mib: 100,
            size: 10 << 10,
            stay: 10,
            rest: 0,
            keep: Keep::default(),
            place: Place::default(),
        };
        let figures = Figures {
            messages: 10_240,
            held: 1024.0,
            accepted_per_s: 1.0,
            delivered_per_s: 1.0,
            seen: Seen { looks: 1, octets_max: 3e8, over_max: -5.0 * MIB },
            end_octets: 64.0 * MIB,
            written: Some(1.3),
            device_written: None,
        };
        let text = table(&options, &figures).text();
        let line = |name: &str| text.lines().find(|line| line.contains(name)).expect(name).to_owned();
        assert!(line("at the end, MiB").ends_with("64    1044"), "{text}");
        assert!(line("beyond 2 x").contains("-5"), "{text}");
    }
}
