//! A week with a site that is down for six days, by the default schedule of retries: who is delivered, who expires, and when.
//!
//! What is right is computed apart from the queue, from the defaults as documented: attempts at the ages of 0, 20 min, 1 h,
//! 2 h 20 and so on, each pause twice the one before it, and an end where the next age would be above seven days.

use crate::plan::{ClientPlan, Plan, SECOND, TransactionPlan};
use crate::world::World;
use crate::{Options, Outcome};
use config::{EgressPath, QueueConfig};

/// Runs the week of a seed: messages come on every day of it, and the server is stopped and killed now and then.
pub fn week(seed: u64) -> Outcome {
    let mut world = World::new(seed, Options { week: true, ..Options::default() });
    while world.goes_on() {}
    world.judge_week();
    world.finish()
}

impl Plan {
    /// One domain at one site, which is down until everything recovers.
    pub fn make_week(&mut self) {
        self.domains.truncate(1);
        self.sites.truncate(1);
        let config = QueueConfig { egress_pool: Some("one".to_owned()), ..QueueConfig::default() };
        self.domains[0].configs = [config.clone(), config];
        self.domains[0].routes = vec![(vec![(0, 1)], 0)];
        self.sites[0].path = EgressPath { enable_tls: config::EnableTls::Disabled, ..EgressPath::default() };
        (self.sites[0].hosts, self.sites[0].manner, self.sites[0].trouble) = (1, crate::plan::Manner::Prompt, 0);
        self.sites[0].recipients_max = 100;
        self.recovery_at = DOWN;
        self.rest = 7 * DAY;
        let transaction = || TransactionPlan { recipients: vec![(0, 0)], body_octets: 300, eight_bit: false };
        let client =
            |hour: u64| ClientPlan { at: hour * 3_600 * SECOND, pipelines: false, transactions: vec![transaction()] };
        self.clients = (0..DOWN / SECOND / 3_600).map(client).collect();
        let clean = [&mut self.peer_trouble, &mut self.policy_trouble, &mut self.client_trouble, &mut self.deferred];
        clean.into_iter().for_each(|trouble| *trouble = 0);
        (self.constrained, self.requeues, self.damage, self.asks) = (0, 0, 0, false);
        (self.dns_trouble, self.is_down) = (0, true);
        (self.disk_faults, self.operator, self.memory_short) = (Vec::new(), Vec::new(), Vec::new());
        // As many ends as there are, over the whole week.
        let spread = |(n, end): (usize, &mut (u64, crate::event::End, Option<u64>))| {
            (end.0, end.2) = ((n as u64 + 1) * 31 * 3_600 * SECOND, None);
        };
        self.ends.iter_mut().enumerate().for_each(spread);
    }
}

impl World {
    fn judge_week(&mut self) {
        let start = self.plan.recovery_at;
        let mut wrong = Vec::new();
        for (id, account) in &self.ledger.messages {
            let came = account.made_at;
            let Some(fate) = account.recipients.first() else { continue };
            let delivered = fate.delivered.is_some();
            let (expected, at) = due_end(came, start);
            let late = fate.final_at.abs_diff(at);
            self.report.week_delivered += u64::from(delivered);
            self.report.week_expired += u64::from(!delivered);
            if delivered != expected || late > TOLERANCE {
                let hours = |at: u64| at as f64 / (3_600 * SECOND) as f64;
                wrong.push(format!(
                    "{id} of hour {:.2}: delivered {delivered} at {:.2}, and was to be {expected} at {:.2}",
                    hours(came),
                    hours(fate.final_at),
                    hours(at)
                ));
            }
        }
        wrong.into_iter().for_each(|wrong| self.ledger.violate(wrong));
    }
}

/// Whether a message that came then is delivered, and when it is, or expires.
fn due_end(came: u64, up_from: u64) -> (bool, u64) {
    let (mut age, mut pause) = (0, 20 * 60 * SECOND);
    loop {
        if came + age >= up_from {
            return (true, came + age);
        }
        if age + pause > 7 * DAY {
            return (false, came + age);
        }
        age += pause;
        pause *= 2;
    }
}

const DAY: u64 = 86_400 * SECOND;
/// How long the site is down: mail comes at the hour, and is tried at the hour or 20 minutes past it.
const DOWN: u64 = 6 * DAY + 600 * SECOND;
/// What jitter (30 s an attempt), a restart, and connections that are opened one after the other make of a moment.
const TOLERANCE: u64 = 400 * SECOND;
