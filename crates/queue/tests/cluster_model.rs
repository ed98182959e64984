//! Several nodes that share a rate by way of a model of Redis, which answers late, goes away, comes back and forgets: what they
//! send together, against the bound of docs/throttles.md.
//!
//! The model counts as the script in `throttle/src/limits.rs` does: GCRA by its own clock, the tolerance lowered by what comes
//! while a grant is good, by half at most.

mod support;

use clock::{Duration, Instant};
use config::ThrottleSpec;
use proptest::prelude::*;
use queue::throttle::Rate;
use queue::{ClusterRates, ConnKey, Effect, GRANT_LIFE};
use std::collections::BTreeMap;
use support::{Rig, config, path, route};

/// What counts for all nodes.
#[derive(Default)]
struct Redis {
    arrival: Instant,
}

impl Redis {
    fn take(&mut self, now: Instant, spec: &ThrottleSpec, count: u64) -> (u64, Duration) {
        let rate = Rate::from(spec);
        let tolerance = rate.tolerance().saturating_sub(GRANT_LIFE).max(rate.tolerance() / 2);
        let arrival = self.arrival.max(now);
        let ahead = arrival.saturating_since(now);
        let room = tolerance.checked_sub(ahead).map_or(0, |left| left.as_micros() / rate.interval().as_micros() + 1);
        let count = count.min(room as u64);
        if count > 0 {
            self.arrival = arrival + rate.interval() * count as u32;
        }
        let wait = self.arrival.max(now).saturating_since(now).saturating_sub(tolerance);
        (count, wait)
    }
}

/// One node: its queue, a connection that always wants more, and a question under way.
struct Node {
    rig: Rig,
    conn: Option<ConnKey>,
    looks_at: Instant,
    was_away: Vec<(Instant, Instant)>,
}

/// A question on its way there, and an answer on its way back.
enum Mail {
    Question(usize, ClusterRates, u64, Instant, Instant),
    Answer(usize, ClusterRates, u64, Duration, Instant),
    Silence(usize),
}

/// What a run is made of.
#[derive(Clone, Debug)]
struct Case {
    nodes: usize,
    spec: &'static str,
    share: f64,
    /// The way to Redis and back, in milliseconds at most.
    latency: u64,
    /// When Redis goes away and for how long, in milliseconds.
    away: Vec<(u64, u64)>,
    /// When it forgets everything.
    forgets: Vec<u64>,
    seed: u64,
}

struct Run {
    case: Case,
    spec: ThrottleSpec,
    nodes: Vec<Node>,
    redis: Redis,
    mail: BTreeMap<(Instant, u64), Mail>,
    sent: Vec<Instant>,
    now: Instant,
    random: u64,
}

impl Run {
    fn new(case: Case) -> Run {
        let spec: ThrottleSpec = case.spec.parse().expect("a throttle");
        let node = |_| {
            let mut rig = Rig::new();
            rig.core.join_cluster(case.share);
            let limits =
                serde_json::json!({"max_message_rate": case.spec, "connection_limit": "local:1", "idle_timeout": "1h"});
            rig.routed("x.test", config(serde_json::json!({})), route(&[("a", 1)], &path(limits), 1_000_000));
            rig.admit("x.test", MESSAGES);
            Node { rig, conn: None, looks_at: Instant::ZERO, was_away: Vec::new() }
        };
        let nodes = (0..case.nodes).map(node).collect();
        let random = case.seed | 1;
        let (redis, now) = (Redis::default(), Instant::ZERO);
        Run { case, spec, nodes, redis, mail: BTreeMap::new(), sent: Vec::new(), now, random }
    }

    /// Steps of five milliseconds: letters arrive, nodes send what they may.
    fn go(&mut self) {
        while self.now < Instant::ZERO + SPAN {
            self.now = self.now + STEP;
            if self.case.forgets.iter().any(|at| self.is_now(*at)) {
                self.redis.arrival = Instant::ZERO;
            }
            while let Some((key, _)) = self.mail.first_key_value().filter(|((at, _), _)| *at <= self.now) {
                let key = *key;
                let mail = self.mail.remove(&key).expect("it was there");
                self.deliver(mail);
            }
            (0..self.nodes.len()).for_each(|n| self.step(n));
        }
    }

    fn is_now(&self, at_ms: u64) -> bool {
        let at = Instant::ZERO + Duration::from_millis(at_ms);
        at <= self.now && self.now < at + STEP
    }

    fn is_away(&self) -> bool {
        let now = self.now.saturating_since(Instant::ZERO).as_millis() as u64;
        self.case.away.iter().any(|(from, lasts)| (*from..from + lasts).contains(&now))
    }

    fn deliver(&mut self, mail: Mail) {
        match mail {
            Mail::Question(node, _, _, _, sent) if self.is_away() => {
                self.post(sent + RESPONSE_TIMEOUT, Mail::Silence(node));
            }
            Mail::Question(node, of, count, asked_at, sent) => {
                let (count, wait) = self.redis.take(self.now, &self.spec, count);
                let back = self.now + self.latency();
                match back > sent + RESPONSE_TIMEOUT {
                    true => self.post(sent + RESPONSE_TIMEOUT, Mail::Silence(node)),
                    false => self.post(back, Mail::Answer(node, of, count, wait, asked_at)),
                }
            }
            Mail::Answer(node, of, count, wait, asked_at) => {
                let rig = &mut self.nodes[node].rig;
                rig.core.granted(rig.now, &of, asked_at, count, wait);
            }
            Mail::Silence(node) => {
                let now = self.now;
                let node = &mut self.nodes[node];
                if !node.rig.core.is_away() {
                    node.was_away.push((now, now));
                }
                node.looks_at = now + LOOK;
                node.rig.core.set_away(node.rig.now, true);
            }
        }
    }

    fn step(&mut self, number: usize) {
        let (now, is_away) = (self.now, self.is_away());
        let node = &mut self.nodes[number];
        node.rig.pass(now.saturating_since(node.rig.now.mono));
        if node.rig.core.is_away() {
            node.was_away.iter_mut().rev().take(1).for_each(|span| span.1 = now);
            if node.looks_at <= now {
                node.looks_at = now + LOOK;
                if !is_away {
                    node.rig.core.set_away(node.rig.now, false);
                }
            }
        }
        let effects = node.rig.drain();
        let mut questions = Vec::new();
        for effect in effects {
            match effect {
                Effect::Open(opening) => node.conn = Some(opening.conn),
                Effect::Grant { of, count, asked_at, .. } => questions.push((of, count, asked_at)),
                _ => {}
            }
        }
        while node.conn.is_some_and(|conn| node.rig.deliver(conn)) {
            self.sent.push(now);
        }
        for (of, count, asked_at) in questions {
            let at = now + self.latency();
            self.post(at, Mail::Question(number, of, count, asked_at, now));
        }
    }

    fn post(&mut self, at: Instant, mail: Mail) {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.mail.insert((at, self.random), mail);
    }

    fn latency(&mut self) -> Duration {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Duration::from_millis((self.random >> 33) % (self.case.latency / 2 + 1))
    }

    /// The first span of time in which more was sent than the documentation says.
    fn excess(&self) -> Option<String> {
        let per_second = self.spec.limit as f64 / self.spec.period_s as f64;
        let burst = self.spec.burst() as f64;
        let earns = burst / per_second >= 0.5;
        // From the answer of Redis to the use of a grant.
        let held = (GRANT_LIFE.as_secs_f64()).max(self.case.latency as f64 / 1_000.0 + 0.05);
        let slack = if self.case.latency <= 200 && earns { 0.0 } else { held * per_second };
        let own_burst = (burst * self.case.share).ceil() + 1.0;
        for (at, from) in self.sent.iter().enumerate() {
            let mut highest = (0.0, String::new());
            for (count, to) in self.sent[at..].iter().enumerate() {
                let span = to.saturating_since(*from).as_secs_f64() + STEP.as_secs_f64();
                let forgot = self.case.forgets.iter().filter(|ms| {
                    let when = Instant::ZERO + Duration::from_millis(**ms);
                    when + Duration::from_secs(2) >= *from && when <= *to + STEP
                });
                let alone: f64 = self
                    .nodes
                    .iter()
                    .flat_map(|node| &node.was_away)
                    .map(|(begin, end)| {
                        let (begin, end) = ((*begin).max(*from), (*end).min(*to));
                        let is_in = begin <= end;
                        let while_away = end.saturating_since(begin).as_secs_f64() * per_second * self.case.share;
                        if is_in { own_burst + while_away } else { 0.0 }
                    })
                    .sum();
                let bound = burst + span * per_second + slack + alone + forgot.count() as f64 * burst;
                let sent = count as f64 + 1.0;
                if sent - bound > highest.0 {
                    highest = (sent - bound, format!("{sent} in {span:.3} s from {from:?}, of {bound:.1}"));
                }
            }
            if highest.0 > 0.01 {
                return Some(highest.1);
            }
        }
        None
    }
}

fn case() -> impl Strategy<Value = Case> {
    let specs =
        prop::sample::select(vec!["10/s", "60/min", "20/s,max_burst=1", "5/s,max_burst=2", "40/s,max_burst=30", "3/s"]);
    let away = prop::collection::vec((0u64..20_000, 100u64..6_000), 0..3);
    let forgets = prop::collection::vec(0u64..20_000, 0..3);
    let latency = prop::sample::select(vec![0u64, 5, 40, 200, 600, 990]);
    (1usize..5, specs, any::<bool>(), latency, (away, forgets), any::<u64>()).prop_map(
        |(nodes, spec, whole, latency, (away, forgets), seed)| {
            let share = if whole { 1.0 } else { 1.0 / nodes as f64 };
            Case { nodes, spec, share, latency, away, forgets, seed }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]
    #[test]
    fn nodes_together_send_no_more_than_is_documented_and_go_on(case in case()) {
        let mut run = Run::new(case.clone());
        run.go();
        prop_assert_eq!(run.excess(), None, "{:?}", case);
        // Nobody is forgotten: at the end there is somebody to whom nothing is in the way, and he sends at that rate.
        let last = run.sent.last().copied().unwrap_or_default();
        let rate = Rate::from(&run.spec);
        let patience = Duration::from_secs(12) + rate.interval() * 4 * case.nodes as u32;
        prop_assert!(last + patience > Instant::ZERO + SPAN, "nothing is sent since {:?}: {:?}", last, case);
    }
}

/// Messages of each node: more than it can send.
const MESSAGES: usize = 1_500;
const STEP: Duration = Duration::from_millis(5);
/// How long a run takes, in virtual time.
const SPAN: Duration = Duration::from_secs(25);
/// `response_timeout` by default.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);
/// How often a node looks whether Redis is back.
const LOOK: Duration = Duration::from_secs(1);
const CASES: u32 = 200;
