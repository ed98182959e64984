//! `queue`: the queue manager by itself. A million messages in fifty thousand queues, each with a destination of its own:
//! what it costs to put them in, to see them come due, to promote and to hand them out; and how long an operator waits for
//! his answers meanwhile.
//!
//! The real `QueueCore` runs in this process with a clock of its own, so its figures hold no I/O, no policy and no SMTP. In:
//! messages, queues. Out: tables on stdout, and for a complete benchmark a file in `bench/results`.

use std::hint::black_box;
use std::sync::Arc;

use anyhow::ensure;
use clock::{Duration, Instant, Now, WallTime};
use config::{EgressPath, EgressSource, QueueConfig};
use message::{IdGenerator, Message, MessageId, Place as SpoolPlace};
use queue::{
    Action, Criteria, Destination, Effect, Epoch, Leg, Opening, Order, OrderId, QueueCore, QueueSettings, Route, Take,
};

use crate::clock_factor::{Clock, factor};
use crate::machine::Facts;
use crate::proc_file;
use crate::results::{Keep, Results};
use crate::stage::Place;
use crate::stats::median;
use crate::table::{Table, figure};

/// Options of `queue`.
#[derive(clap::Args)]
pub struct Options {
    /// Messages
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    messages: u32,
    /// Scheduled queues, each with a destination of its own
    #[arg(long, value_name = "N", default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    queues: u32,
    /// Runs; medians are given
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    #[command(flatten)]
    keep: Keep,
    #[command(flatten)]
    place: Place,
}

/// The figures of a run: microseconds of CPU for a message, octets, milliseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    insert_us: f64,
    promote_us: f64,
    dispatch_us: f64,
    octets_per_message: f64,
    octets_per_destination: f64,
    suspend_ms: f64,
    suspend_one_ms: f64,
    bounce_ms: f64,
    withdraw_ms: f64,
    inspect_ms: f64,
    find_ms: f64,
    worst_step_ms: f64,
    clock: f64,
}

/// Measures.
///
/// # Errors
/// A message is lost, or `/proc` cannot be read.
pub fn queue(options: &Options) -> anyhow::Result<()> {
    options.place.act(|stage| {
        let facts = Facts::gather(&stage.logs())?;
        let clock = Clock::new()?;
        let mut runs = Vec::new();
        for number in 0..options.runs {
            let signature_us = clock.signature_us()?;
            let mut figures = Rig::new().run(options)?;
            figures.clock = factor((signature_us + clock.signature_us()?) / 2.0);
            eprintln!("  run {number}: {figures:.2?}");
            runs.push(figures);
        }
        let complete = options.messages >= 1_000_000 && options.queues >= 50_000 && options.runs >= 5;
        let results = Results {
            suffix: "-queue",
            title: "Queues",
            facts: &facts,
            tables: &[costs(&runs), answers(&runs)],
            legend: &LEGEND
                .replace("MESSAGES", &options.messages.to_string())
                .replace("QUEUES", &options.queues.to_string()),
        };
        options.keep.conclude(complete, &results)
    })
}

/// A queue manager, its clock, and what it asked for.
struct Rig {
    core: QueueCore,
    now: Now,
    ids: IdGenerator,
    opened: Vec<Opening>,
    worst_step: std::time::Duration,
}

impl Rig {
    fn new() -> Rig {
        let now = Now { mono: Instant::ZERO, wall: WallTime::from_unix_secs(1_790_000_000) };
        let core = QueueCore::new(now.mono, QueueSettings { resident_bytes_max: 0, seed: 7 });
        let ids = IdGenerator::new([0; 6], 1);
        Rig { core, now, ids, opened: Vec::new(), worst_step: std::time::Duration::ZERO }
    }

    fn run(mut self, options: &Options) -> anyhow::Result<Figures> {
        let mut figures = Figures::default();
        let names: Vec<String> = (0..options.queues).map(|n| format!("tenant{}@d{n}.test", n % 100)).collect();
        let empty = rss()?;
        self.configure(&names);
        figures.octets_per_destination = (rss()? - empty) / f64::from(options.queues);
        let before = rss()?;
        let mut ids = Vec::new();
        figures.insert_us = timed_us(options.messages, || ids = self.insert(options.messages, &names));
        figures.octets_per_message = (rss()? - before - size_of_val(&ids[..]) as f64) / f64::from(options.messages);
        self.ask(&mut figures, &names, &ids)?;
        // And the rest of a tick of the wheel.
        self.now = self.now.after(DUE_IN + Duration::from_secs(1));
        figures.promote_us = timed_us(options.messages, || self.promote());
        let ready = self.core.counts().ready;
        ensure!(ready == options.messages as usize, "{ready} of {} messages were promoted", options.messages);
        let mut handed = 0;
        figures.dispatch_us = timed_us(options.messages, || handed = self.dispatch());
        ensure!(handed == options.messages, "{handed} of {} messages were handed out", options.messages);
        figures.worst_step_ms = self.worst_step.as_secs_f64() * 1e3;
        Ok(figures)
    }

    /// Every queue knows its configuration and its way, as in the middle of the day.
    fn configure(&mut self, names: &[String]) {
        let refresh_interval = config::Duration::from_hours(1000);
        let config = Arc::new(QueueConfig { refresh_interval, ..QueueConfig::default() });
        let path = Arc::new(EgressPath::default());
        let source = Arc::new(EgressSource::unspecified());
        for name in names {
            let key = self.core.queue(self.now.mono, name);
            self.core.configured(self.now, key, config.clone());
            let site = format!("unspecified->mx.{name}@smtp_client");
            let destination = Destination::new(&site, Arc::new(()));
            let (source, path) = (source.clone(), path.clone());
            let leg = Leg { source, pool: "unspecified".into(), path, destination, epoch: Epoch::default() };
            let legs = vec![(site.as_str().into(), 1, leg)];
            self.core.routed(self.now, key, Route { legs, fresh_for: Duration::from_secs(3_600_000) });
        }
        self.collect();
    }

    fn insert(&mut self, count: u32, names: &[String]) -> Vec<MessageId> {
        let mut ids = Vec::with_capacity(count as usize);
        for number in 0..count {
            let message = Message {
                // Over some seconds, as retries are.
                due: self.now.wall + DUE_IN - Duration::from_millis(u64::from(number % 4096)),
                place: Some(SpoolPlace { segment: 1, offset: number, index: 0 }),
                size: 10_240,
                attempts: 1,
                ..Message::bare(self.ids.next(self.now.wall), self.now.wall)
            };
            ids.push(message.id);
            self.core.admit(self.now, &names[number as usize % names.len()], message);
        }
        self.collect();
        ids
    }

    /// What operators ask, with every message waiting.
    fn ask(&mut self, figures: &mut Figures, names: &[String], ids: &[MessageId]) -> anyhow::Result<()> {
        let of_tenant = || Criteria { tenant: Some("tenant7".to_owned()), ..Criteria::default() };
        figures.suspend_ms = self.step_ms(|rig| rig.order(1, Action::Suspend(of_tenant())));
        figures.bounce_ms = self.step_ms(|rig| rig.order(2, Action::Bounce(of_tenant())));
        self.settle_down();
        let state = self.core.orders().pop();
        let expected = ids.len() * names.iter().filter(|name| name.starts_with("tenant7@")).count() / names.len();
        let pending = state.map_or(0, |state| state.pending);
        ensure!(pending == expected, "the bounce found {pending} of {expected} messages");
        figures.withdraw_ms = self.step_ms(|rig| {
            for number in [1, 2] {
                let _order = rig.core.withdraw(rig.now, order_id(number));
            }
        });
        self.settle_down();
        let counts = self.core.counts();
        ensure!(counts.scheduled == ids.len(), "{counts:?} of {} messages", ids.len());
        figures.suspend_one_ms = self.suspend_many(names);
        let name = &names[names.len() / 2];
        figures.inspect_ms = self.step_ms(|rig| {
            let mut step = Some(0);
            while let Some(from) = step {
                step = black_box(rig.core.list_waiting(name, 100, from)).1;
            }
        });
        let last = *ids.last().unwrap_or(&ids[0]);
        figures.find_ms = self.step_ms(|rig| {
            let mut step = Some(0);
            while let Some(from) = step {
                step = black_box(rig.core.find(rig.now, last, from)).1;
            }
        });
        Ok(())
    }

    /// As many orders as a shaping daemon gives, one after the other; how long the last ones took, on average.
    fn suspend_many(&mut self, names: &[String]) -> f64 {
        let of =
            |name: &str| Criteria { domain: name.split_once('@').map(|(_, d)| d.to_owned()), ..Criteria::default() };
        let (first, last) = (100, 100 + ORDERS);
        let mut took_ms = 0.0;
        for (number, name) in (first..last).zip(names.iter().cycle()) {
            let took = self.step_ms(|rig| rig.order(number, Action::Suspend(of(name))));
            took_ms += if number >= last - ORDERS_TIMED { took } else { 0.0 };
        }
        (first..last).for_each(|number| _ = self.core.withdraw(self.now, order_id(number)));
        self.settle_down();
        took_ms / f64::from(ORDERS_TIMED)
    }

    fn order(&mut self, number: u16, action: Action) {
        let given = self.now.wall;
        let expires = given + Duration::from_secs(3600);
        let id = order_id(number);
        let order = Order {
            id,
            action,
            reason: "benchmark".into(),
            given,
            expires,
            suppress_logging: false,
            survives_restart: true,
        };
        black_box(self.core.order(self.now, order));
    }

    /// Ticks until nothing is to be done at once.
    fn settle_down(&mut self) {
        while self.core.deadline() == Instant::ZERO {
            self.tick();
        }
        self.collect();
    }

    fn promote(&mut self) {
        while self.core.deadline() <= self.now.mono {
            self.tick();
        }
        self.collect();
    }

    fn tick(&mut self) {
        let begun = std::time::Instant::now();
        self.core.tick(self.now);
        self.worst_step = self.worst_step.max(begun.elapsed());
        self.collect();
    }

    /// Every connection takes what there is and ends; how many messages there were.
    fn dispatch(&mut self) -> u32 {
        let mut handed = 0;
        while let Some(opening) = self.opened.pop() {
            while let Take::Message(queued) = self.core.take(self.now, opening.conn) {
                self.core.forget(self.now.mono, &queued);
                handed += 1;
            }
            self.core.connection_ended(self.now, opening.conn);
            self.collect();
        }
        handed
    }

    fn collect(&mut self) {
        let mut effects = Vec::new();
        self.core.drain_effects(&mut effects);
        self.opened.extend(effects.into_iter().filter_map(|effect| match effect {
            Effect::Open(opening) => Some(opening),
            _ => None,
        }));
    }

    fn step_ms(&mut self, step: impl FnOnce(&mut Rig)) -> f64 {
        let begun = std::time::Instant::now();
        step(self);
        begun.elapsed().as_secs_f64() * 1e3
    }
}

fn timed_us(count: u32, work: impl FnOnce()) -> f64 {
    let begun = std::time::Instant::now();
    work();
    begun.elapsed().as_secs_f64() * 1e6 / f64::from(count)
}

fn rss() -> anyhow::Result<f64> {
    Ok(proc_file::rss_kib(std::process::id())? as f64 * 1024.0)
}

fn middle(runs: &[Figures], of: impl Fn(&Figures) -> f64) -> Option<f64> {
    median(runs.iter().map(of).collect::<Vec<f64>>())
}

fn costs(runs: &[Figures]) -> Table {
    let mut table = Table::new(&[
        "insert us",
        "tick and promote us",
        "hand out us",
        "all us",
        "clock factor",
        "all/factor",
        "target <=",
        "insert to promote/s",
        "target >=",
        "octets/message",
        "target <=",
        "octets/destination",
        "target <=",
    ]);
    let all = |f: &Figures| f.insert_us + f.promote_us + f.dispatch_us;
    table.row(vec![
        figure(middle(runs, |f| f.insert_us), 2),
        figure(middle(runs, |f| f.promote_us), 2),
        figure(middle(runs, |f| f.dispatch_us), 2),
        figure(middle(runs, all), 2),
        figure(middle(runs, |f| f.clock), 2),
        figure(middle(runs, |f| all(f) / f.clock), 2),
        "8".to_owned(),
        figure(middle(runs, |f| 1e6 / (f.insert_us + f.promote_us)), 0),
        "300000".to_owned(),
        figure(runs.first().map(|f| f.octets_per_message), 0),
        "300".to_owned(),
        figure(runs.first().map(|f| f.octets_per_destination), 0),
        "2048".to_owned(),
    ]);
    table
}

fn answers(runs: &[Figures]) -> Table {
    let mut table = Table::new(&[
        "suspend ms",
        "one domain beside 1000 others ms",
        "bounce ms",
        "withdraw ms",
        "list a queue ms",
        "find a message ms",
        "target <=",
        "longest tick ms",
    ]);
    table.row(vec![
        figure(middle(runs, |f| f.suspend_ms), 1),
        figure(middle(runs, |f| f.suspend_one_ms), 3),
        figure(middle(runs, |f| f.bounce_ms), 1),
        figure(middle(runs, |f| f.withdraw_ms), 1),
        figure(middle(runs, |f| f.inspect_ms), 1),
        figure(middle(runs, |f| f.find_ms), 1),
        "100".to_owned(),
        figure(middle(runs, |f| f.worst_step_ms), 1),
    ]);
    table
}

fn order_id(number: u16) -> OrderId {
    let mut octets = [0; 16];
    octets[..2].copy_from_slice(&number.to_be_bytes());
    OrderId(octets)
}

/// Orders that are in force at once.
const ORDERS: u16 = 1100;
/// The last of these are timed.
const ORDERS_TIMED: u16 = 100;
/// When inserted messages are due.
const DUE_IN: Duration = Duration::from_secs(60);
/// What the columns mean.
const LEGEND: &str = "\
Medians over the runs; memory is that of the first, later ones use again what it freed. MESSAGES messages in QUEUES scheduled queues, each queue with a ready queue of its own; times are
of one thread that does nothing else. Insert: admitting messages that wait for a time. Tick and promote: their time has come,
they pass every obstacle and stand in their ready queues, and connections are asked for. Hand out: connections take them.
The answers are given while all messages wait; a bounce and a suspension name one tenant in a hundred, and each of 1 100 suspensions a domain. The longest tick
is the longest time for which the queue's lock was held by the clockwork, orders being carried out included.
";
