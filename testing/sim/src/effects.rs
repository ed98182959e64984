//! The driver of the queue manager: visits, effects, the clockwork, policy and DNS.
//!
//! After the engine's `engine.rs` and `egress/routing.rs`: a visit is one turn behind the
//! queue's lock; its effects are carried out later, in order, and other visits may come between.

use crate::event::ServerEvent;
use crate::limits::Moved;
use crate::outbound::Outbound;
use crate::plan::SECOND;
use crate::world::World;
use crate::{Sabotage, plan::SitePlan};
use clock::{Duration, Instant, Now};
use config::{EgressSource, QueueConfig};
use queue::{Destination, Effect, Epoch, Leg, QueueCore, QueueKey, QueueName, Route, RouteFailure, Why};
use smtp_wire::{EnhancedCode, Reply};
use std::sync::Arc;

impl World {
    /// One visit to the queue of the living server.
    pub fn with_queue<R>(&mut self, visit: impl FnOnce(&mut QueueCore, Now) -> R) -> R {
        self.visit_queue(visit, |_| None)
    }

    /// The same; `moved` tells what it took out of a ready queue, or put back into it.
    pub fn visit_queue<R>(
        &mut self,
        visit: impl FnOnce(&mut QueueCore, Now) -> R,
        moved: impl FnOnce(&R) -> Option<(Arc<str>, Moved)>,
    ) -> R {
        let wall = self.wall();
        let now = self.now;
        let process = self.process.as_mut().expect("only a living server visits its queue");
        let mono = process.now(now, wall);
        let result = visit(&mut process.queue, mono);
        let mut effects = Vec::new();
        process.queue.drain_effects(&mut effects);
        let deadline = process.queue.deadline();
        self.arm(deadline);
        self.after_visit(&effects, moved(&result));
        if !effects.is_empty() {
            let delay = *self.dice.pick(&[0, 0, 50, 3_000]);
            self.server_soon(delay, ServerEvent::Effects(effects));
        }
        result
    }

    /// Makes the clockwork look again when the queue's next deadline came nearer.
    fn arm(&mut self, deadline: Instant) {
        let Some(process) = &mut self.process else { return };
        let Some(at) = process.world_time(deadline) else { return };
        if at < process.tick_at {
            process.tick_at = at;
            let late = *self.dice.pick(&[0, 0, 1_000]);
            self.server_soon((at + late).saturating_sub(self.now), ServerEvent::Tick(at));
        }
    }

    /// The clockwork fires, unless an earlier moment took this one's place.
    pub fn queue_ticks(&mut self, at: u64) {
        let Some(process) = &mut self.process else { return };
        if process.tick_at == at {
            process.tick_at = u64::MAX;
            self.report.stood_in_line += process.queue.footprint().waiters as u64;
            self.with_queue(QueueCore::tick);
            let caught = self.with_queue(|q, _| q.footprint().caught);
            if caught > 0 {
                self.ledger.violate("a message waited for nothing: only the periodic look at everything found it");
            }
        }
    }

    /// Carries out what a visit asked for, in order.
    pub fn carry_out_all(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            self.carry_out(effect);
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Wake(conn) => {
                self.report.wakes += 1;
                let number = self.process.as_ref().and_then(|p| p.by_key.get(&conn.id()).copied());
                if let Some(number) = number {
                    self.wake_outbound(number);
                }
            }
            Effect::Open(opening) => {
                if self.sabotaged(Sabotage::OpenTwice) {
                    self.open_outbound(opening.clone());
                }
                self.open_outbound(opening);
            }
            Effect::Configure { queue, name } => {
                let delay = self.dice.within(0, 50_000);
                self.server_soon(delay, ServerEvent::Configured(queue, name));
            }
            Effect::Route { queue, name, config, .. } => {
                let delay = self.dice.within(0, 2 * SECOND);
                self.server_soon(delay, ServerEvent::Routed(queue, name, config));
            }
            Effect::Settle(kind) => self.settler_soon(kind),
            // It is no cluster.
            Effect::Grant { .. } => {}
            Effect::Ask => self.asker_soon(),
            Effect::Spool => self.spooler_soon(),
            Effect::OrdersEnded => self.orders_ended(),
            Effect::Stalled { name, wait } => self.note(|| format!("{name} stood still: {wait:?}")),
            Effect::Forgotten(_) => {}
        }
    }

    /// Policy answers `Effect::Configure`.
    pub fn configured(&mut self, key: QueueKey, name: &str) {
        match self.ask_queue_config(name) {
            Ok(config) => self.with_queue(|q, now| q.configured(now, key, config)),
            Err(failure) => self.no_route(key, name, failure),
        }
    }

    /// What policy says about a queue now; now and then it changes its mind or fails.
    pub fn ask_queue_config(&mut self, name: &str) -> Result<Arc<QueueConfig>, RouteFailure> {
        if self.trouble(self.plan.policy_trouble) {
            return Err(failure(451, EnhancedCode::new(4, 4, 4), "policy failed"));
        }
        let other = self.trouble(200);
        let domain = self.domain_number(name);
        Ok(Arc::new(self.plan.domains[domain].configs[usize::from(other)].clone()))
    }

    /// DNS and policy answer `Effect::Route`.
    pub fn routed(&mut self, key: QueueKey, name: &str, config: &QueueConfig) {
        match self.find_route(name, config) {
            Ok(route) => self.with_queue(|q, now| q.routed(now, key, route)),
            Err(failure) => self.no_route(key, name, failure),
        }
    }

    fn no_route(&mut self, key: QueueKey, name: &str, failure: RouteFailure) {
        self.note(|| format!("queue {name}: {}", failure.reply));
        self.with_queue(|q, now| q.unroutable(now, key, failure));
    }

    fn find_route(&mut self, name: &str, config: &QueueConfig) -> Result<Route, RouteFailure> {
        if self.trouble(self.plan.dns_trouble) {
            return Err(match self.dice.chance(50) {
                true => failure(556, EnhancedCode::new(5, 1, 10), "null MX"),
                false => failure(451, EnhancedCode::new(4, 4, 4), "DNS does not answer"),
            });
        }
        let domain = self.domain_number(name);
        if self.trouble(300) {
            self.routes[domain] = self.dice.below(self.plan.domains[domain].routes.len());
            self.report.routes_changed += 1;
        }
        let plan = &self.plan.domains[domain];
        let (sources, site) = &plan.routes[self.routes[domain]];
        let pool = config.egress_pool();
        let leg = |(source, weight): &(usize, u32)| {
            let ready_name: Arc<str> = format!("{pool}{source}->site{site}@smtp_client").into();
            let source = EgressSource { name: format!("{pool}{source}"), ..EgressSource::default() };
            let leg = Leg {
                source: Arc::new(source),
                pool: pool.into(),
                path: Arc::new(self.plan.sites[*site].path.clone()),
                destination: Destination::new("", Arc::new(())),
                epoch: Epoch::default(),
            };
            // Pools none of whose sources may send are mended with everything else.
            (ready_name, if self.recovered { (*weight).max(1) } else { *weight }, leg)
        };
        Ok(Route { legs: sources.iter().map(leg).collect(), fresh_for: plan.fresh_for })
    }

    /// The site behind a ready queue's name.
    pub fn site_number(&self, ready_name: &str) -> usize {
        let digits = ready_name.split("->site").nth(1).and_then(|rest| rest.split('@').next());
        digits.and_then(|d| d.parse().ok()).unwrap_or(0)
    }

    /// The plan of the site behind a ready queue's name.
    pub fn site(&self, ready_name: &str) -> &SitePlan {
        &self.plan.sites[self.site_number(ready_name)]
    }

    /// A connection of the living server.
    pub fn outbound(&mut self, number: u64) -> Option<&mut Outbound> {
        self.process.as_mut().and_then(|p| p.outbound.get_mut(&number))
    }

    /// The monotonic clock of the living server.
    pub fn mono(&self) -> Instant {
        let origin = self.process.as_ref().map_or(self.now, |p| p.origin);
        Instant::from_micros(self.now - origin)
    }

    pub fn domain_number(&self, queue_name: &str) -> usize {
        let domain = QueueName::parse(queue_name).domain;
        let digits = domain.strip_prefix('d').and_then(|rest| rest.split('.').next());
        digits.and_then(|d| d.parse().ok()).unwrap_or(0)
    }
}

fn failure(code: u16, enhanced: EnhancedCode, text: &str) -> RouteFailure {
    let reply = Reply::enhanced(code, enhanced, text);
    RouteFailure { why: Why::FailedToInsertIntoReadyQueue, reply, hold_for: HOLD }
}

/// How long a queue without route rests.
const HOLD: Duration = Duration::from_secs(60);
