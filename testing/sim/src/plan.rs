//! The scenario of one seed: who sends what to whom, through which limits, and what goes wrong.
//!
//! Drawn once, before anything happens. Numbers are small on purpose: limits of one and queues
//! of two are reached in every run.

use crate::dice::Dice;
use crate::event::End;
use clock::Duration;
use config::{EgressPath, EnableTls, LimitSpec, QueueConfig, ThrottleSpec};
use std::collections::BTreeMap;

/// One scenario.
#[derive(Debug)]
pub struct Plan {
    /// What each client sends, transaction by transaction.
    pub clients: Vec<ClientPlan>,
    /// Recipient domains.
    pub domains: Vec<DomainPlan>,
    /// Places mail goes to.
    pub sites: Vec<SitePlan>,
    /// Ends of lives: when, how, and whether within a disk call of that number.
    pub ends: Vec<(u64, End, Option<u64>)>,
    /// When the disk fails, for how long, at which call, and whether for good.
    pub disk_faults: Vec<(u64, u64, u64, bool)>,
    /// When everything works again.
    pub recovery_at: u64,
    /// Trouble with peers, in thousandths of every reply.
    pub peer_trouble: u32,
    /// Trouble with DNS and connecting, in thousandths.
    pub dns_trouble: u32,
    /// Trouble with policy, in thousandths.
    pub policy_trouble: u32,
    /// Trouble with clients, in thousandths.
    pub client_trouble: u32,
    /// One message per recipient, or one per domain.
    pub one_recipient_each: bool,
    /// Policy gives the second message of a transaction another body.
    pub policy_edits_bodies: bool,
    /// The listener accepts into memory, in thousandths of all messages: `deferred_spool`, now and then overruled.
    pub deferred: u32,
    /// Moments at which memory becomes short and, in turn, is not any more.
    pub memory_short: Vec<u64>,
    /// When the operator gives an order or takes one back.
    pub operator: Vec<u64>,
    /// Time beyond the usual that the rest takes after everything recovered.
    pub rest: u64,
    /// No host answers before everything recovers.
    pub is_down: bool,
    /// Messages that have constraints of their own, in thousandths: a first moment, an end, a deadline.
    pub constrained: u32,
    /// Policy is asked about each message before it becomes ready.
    pub asks: bool,
    /// Policy has something to say about messages that failed for the time being, in thousandths.
    pub requeues: u32,
    /// Some site limits how often its sources are chosen.
    pub limits_choices: bool,
    /// Every promotion is watched, for the rates of queues: that is slow.
    pub watches_promotions: bool,
    /// Messages that turn out to be damaged when they are read back, in thousandths.
    pub damage: u32,
    /// Content that may stay in memory.
    pub resident_bytes_max: usize,
    /// Octets of segments at which compaction begins.
    pub compact_margin: u64,
}

/// One client.
#[derive(Debug)]
pub struct ClientPlan {
    /// When it connects.
    pub at: u64,
    /// It does not wait for replies.
    pub pipelines: bool,
    /// Its transactions.
    pub transactions: Vec<TransactionPlan>,
}

/// One transaction.
#[derive(Debug)]
pub struct TransactionPlan {
    /// Recipients, as (number, domain).
    pub recipients: Vec<(usize, usize)>,
    /// Octets of body, about.
    pub body_octets: usize,
    /// The body has octets over 127.
    pub eight_bit: bool,
}

/// One recipient domain.
#[derive(Debug)]
pub struct DomainPlan {
    /// Configuration of its queue; the second is what policy changes its mind to.
    pub configs: [QueueConfig; 2],
    /// Ways out that DNS and policy may name, as (source, weight) and site.
    pub routes: Vec<(Vec<(usize, u32)>, usize)>,
    /// How long a route is used without asking again.
    pub fresh_for: Duration,
}

/// One place mail goes to.
#[derive(Debug)]
pub struct SitePlan {
    /// Hosts that may be tried.
    pub hosts: usize,
    /// How sessions with it behave.
    pub path: EgressPath,
    /// It offers PIPELINING.
    pub pipelining: bool,
    /// It offers 8BITMIME.
    pub eight_bit: bool,
    /// Recipients it takes in one transaction.
    pub recipients_max: usize,
    /// It is worse than others, in thousandths of every reply.
    pub trouble: u32,
    /// How it writes its replies until everything works again.
    pub manner: Manner,
}

/// How a site writes its replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// At once.
    Prompt,
    /// A tarpit: octet by octet, or line by line, with this pause in microseconds before each.
    Dribbles {
        /// Before each octet or line.
        pause: u64,
        /// It is octets.
        octets: bool,
    },
    /// Far more than anybody wants to know; now and then without end.
    Verbose {
        /// Some replies never end.
        endless: bool,
    },
    /// In the middle of anything it is gone, and nobody is told: so often, in thousandths of every reply.
    Vanishes(u32),
}

impl Plan {
    /// The scenario of `dice`.
    pub fn draw(dice: &mut Dice) -> Plan {
        let sites: Vec<SitePlan> = (0..dice.within(1, 3)).map(|_| SitePlan::draw(dice)).collect();
        let domains: Vec<DomainPlan> = (0..dice.within(1, 4)).map(|_| DomainPlan::draw(dice, sites.len())).collect();
        let busy_until = dice.within(5, 90) * SECOND;
        // Now and then far more mail than the limits let through.
        let crowd = if dice.chance(30) { 40 } else { 6 };
        let clients = (0..dice.within(1, crowd)).map(|_| ClientPlan::draw(dice, domains.len(), busy_until)).collect();
        let quiet = |dice: &mut Dice, most: u64| if dice.chance(300) { 0 } else { dice.within(1, most) as u32 };
        let recovery_at = busy_until + dice.within(0, 400) * SECOND;
        let mut plan = Plan {
            clients,
            domains,
            sites,
            ends: Vec::new(),
            disk_faults: Vec::new(),
            recovery_at,
            peer_trouble: quiet(dice, 150),
            dns_trouble: quiet(dice, 200),
            policy_trouble: quiet(dice, 100),
            client_trouble: quiet(dice, 100),
            one_recipient_each: dice.chance(300),
            policy_edits_bodies: dice.chance(200),
            deferred: *dice.pick(&[0, 0, 500, 950]),
            memory_short: Vec::new(),
            operator: Vec::new(),
            rest: 0,
            is_down: false,
            constrained: *dice.pick(&[0, 0, 0, 100, 700]),
            asks: dice.chance(250),
            requeues: if dice.chance(200) { 300 } else { 0 },
            limits_choices: false,
            watches_promotions: dice.chance(25),
            damage: if dice.chance(50) { 200 } else { 0 },
            resident_bytes_max: *dice.pick(&[0, 4_000, 1 << 20]),
            compact_margin: *dice.pick(&[64 << 10, 128 << 10, 512 << 10]),
        };
        plan.draw_disasters(dice);
        plan.draw_shared(dice);
        plan
    }

    /// Limits that sites share by name.
    fn draw_shared(&mut self, dice: &mut Dice) {
        if dice.chance(300) {
            let limit = LimitSpec::new(*dice.pick(&[1, 2, 3]));
            self.share(dice, |path| &mut path.additional_connection_limits, limit);
        }
        if dice.chance(200) {
            let rate = throttle(dice.within(1, 5));
            self.share(dice, |path| &mut path.additional_message_rate_throttles, rate);
        }
        if dice.chance(200) {
            let rate = throttle(dice.within(1, 5));
            self.share(dice, |path| &mut path.additional_source_selection_rates, rate);
        }
        let limits = |path: &EgressPath| {
            path.source_selection_rate.is_some() || !path.additional_source_selection_rates.is_empty()
        };
        self.limits_choices = self.sites.iter().any(|site| limits(&site.path));
        if self.watches_promotions {
            // A rate that changes is another, without a memory.
            self.domains.iter_mut().for_each(|d| d.configs[1].max_message_rate = d.configs[0].max_message_rate);
        }
    }

    fn share<T: Copy>(&mut self, dice: &mut Dice, of: impl Fn(&mut EgressPath) -> &mut BTreeMap<String, T>, limit: T) {
        for site in self.sites.iter_mut().filter(|_| dice.chance(700)) {
            of(&mut site.path).insert("shared".to_owned(), limit);
        }
    }

    fn draw_disasters(&mut self, dice: &mut Dice) {
        for _ in 0..dice.within(0, 4) {
            let end = *dice.pick(&[End::PowerCut, End::PowerCut, End::Kill, End::Stop]);
            let call = dice.chance(600).then(|| dice.within(1, 12));
            self.ends.push((dice.within(0, self.recovery_at), end, call));
        }
        self.ends.sort_by_key(|(at, ..)| *at);
        if dice.chance(150) {
            self.memory_short = (0..dice.within(1, 4)).map(|_| dice.within(0, self.recovery_at)).collect();
        }
        if dice.chance(250) {
            self.operator = (0..dice.within(1, 12)).map(|_| dice.within(0, self.recovery_at)).collect();
        }
        if dice.chance(300) {
            for _ in 0..dice.within(1, 3) {
                let fault = (
                    dice.within(0, self.recovery_at),
                    dice.within(0, 8) * SECOND,
                    dice.within(1, 10),
                    dice.chance(400),
                );
                self.disk_faults.push(fault);
            }
        }
    }
}

impl ClientPlan {
    fn draw(dice: &mut Dice, domains: usize, busy_until: u64) -> ClientPlan {
        let transactions = (0..dice.within(1, 8)).map(|_| TransactionPlan::draw(dice, domains)).collect();
        ClientPlan { at: dice.within(0, busy_until), pipelines: dice.chance(500), transactions }
    }
}

impl TransactionPlan {
    fn draw(dice: &mut Dice, domains: usize) -> TransactionPlan {
        let count = *dice.pick(&[1, 1, 1, 2, 3, 7]);
        let recipients = (0..count).map(|n| (n, dice.below(domains))).collect();
        let body_octets = *dice.pick(&[0, 30, 300, 3_000, 9_000]);
        TransactionPlan { recipients, body_octets, eight_bit: dice.chance(100) }
    }
}

impl DomainPlan {
    fn draw(dice: &mut Dice, sites: usize) -> DomainPlan {
        let route = |dice: &mut Dice| {
            let sources = (0..dice.within(1, 3) as usize).map(|s| (s, dice.within(0, 3) as u32)).collect();
            (sources, dice.below(sites))
        };
        let routes = (0..dice.within(1, 3)).map(|_| route(dice)).collect();
        let fresh_for = Duration::from_secs(*dice.pick(&[1, 20, 60, 7200]));
        DomainPlan { configs: [queue_config(dice), queue_config(dice)], routes, fresh_for }
    }
}

impl SitePlan {
    fn draw(dice: &mut Dice) -> SitePlan {
        let seconds = |dice: &mut Dice, most: u64| config::Duration::from_secs(dice.within(1, most));
        let rate = |dice: &mut Dice, most: u64| dice.chance(200).then(|| throttle(dice.within(1, most)));
        let path = EgressPath {
            connection_limit: LimitSpec::new(*dice.pick(&[1, 2, 3, 32])),
            max_ready: *dice.pick(&[1, 2, 5, 1024]),
            max_message_rate: rate(dice, 5),
            max_connection_rate: rate(dice, 3),
            source_selection_rate: rate(dice, 5),
            max_deliveries_per_connection: *dice.pick(&[1, 2, 1024]),
            max_recipients_per_batch: *dice.pick(&[1, 2, 100]),
            consecutive_connection_failures_before_delay: *dice.pick(&[0, 2, 100]),
            connect_timeout: seconds(dice, 5),
            banner_timeout: seconds(dice, 5),
            ehlo_timeout: seconds(dice, 5),
            mail_from_timeout: seconds(dice, 10),
            rcpt_to_timeout: seconds(dice, 10),
            data_timeout: seconds(dice, 10),
            data_dot_timeout: seconds(dice, 20),
            rset_timeout: seconds(dice, 5),
            idle_timeout: seconds(dice, 8),
            enable_tls: EnableTls::Disabled,
            enable_pipelining: dice.chance(800),
            enable_rset: dice.chance(800),
            ..EgressPath::default()
        };
        SitePlan {
            hosts: dice.within(1, 3) as usize,
            path,
            pipelining: dice.chance(700),
            eight_bit: dice.chance(900),
            recipients_max: *dice.pick(&[1, 2, 100, 100]),
            trouble: if dice.chance(250) { dice.within(100, 700) as u32 } else { 0 },
            manner: Manner::draw(dice),
        }
    }
}

impl Manner {
    fn draw(dice: &mut Dice) -> Manner {
        match dice.below(100) {
            // Timeouts are a few seconds, replies some dozen octets: some come in time, some do not.
            0..3 => Manner::Dribbles { pause: dice.within(1_000, 200_000), octets: true },
            3..6 => Manner::Dribbles { pause: dice.within(50_000, 6 * SECOND), octets: false },
            6..10 => Manner::Verbose { endless: dice.chance(60) },
            10..14 => Manner::Vanishes(dice.within(20, 300) as u32),
            _ => Manner::Prompt,
        }
    }
}

fn queue_config(dice: &mut Dice) -> QueueConfig {
    QueueConfig {
        egress_pool: Some((*dice.pick(&["one", "two"])).to_owned()),
        retry_interval: config::Duration::from_secs(*dice.pick(&[1, 5, 30, 120])),
        max_retry_interval: Some(config::Duration::from_secs(*dice.pick(&[60, 200, RETRY_SECONDS_MAX]))),
        max_age: config::Duration::from_secs(*dice.pick(&[30, 300, 3_600, 604_800])),
        max_message_rate: dice.chance(200).then(|| throttle(dice.within(1, 5))),
        refresh_interval: config::Duration::from_secs(*dice.pick(&[2, 60])),
        ..QueueConfig::default()
    }
}

/// `limit` a second, in bursts of that size.
fn throttle(limit: u64) -> ThrottleSpec {
    ThrottleSpec { local: false, limit, period_s: 1, max_burst: None }
}

/// A second of virtual time.
pub const SECOND: u64 = 1_000_000;
/// Longest pause between attempts in any plan.
pub const RETRY_SECONDS_MAX: u64 = 900;
