//! The effects in force, and the counts of those that are not yet.
//!
//! A rule acts at its first response, or at so many within its `duration`, counted for each ready queue (KumoMTA
//! behaviour). What it does holds until that `duration` after the record's time; more responses prolong it. Nodes are told
//! of what is new, and of what is prolonged when a tenth of its time is over, so that a flood of refusals is no flood of
//! orders.

use crate::counting::Window;
use crate::effect::{Effect, Identity, OptionChange, ReadySuspension, ScheduledBounce, ScheduledSuspension};
use config::Trigger;
use queue::QueueName;
use record::{LogRecord, RecordType, Timestamp};
use shaping::{Action, MatchedRule, Rule, SetOption, is_domain_key, site_of_ready_queue};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// What rules have brought about.
#[derive(Debug, Default)]
pub struct Automation {
    counts: HashMap<(String, Arc<str>), Window>,
    effects: BTreeMap<Identity, Held>,
    /// Options that were set so far.
    options_set: u64,
}

#[derive(Debug)]
struct Held {
    effect: Effect,
    /// The end that nodes know of.
    told_end: Timestamp,
}

/// What came of a record.
#[derive(Debug, Default)]
pub struct Observed {
    /// What nodes are to be told now.
    pub told: Vec<Effect>,
    /// True when what is in force, or until when, is something else than before.
    pub has_changed: bool,
    /// What could not be done, and why.
    pub undone: Vec<String>,
}

/// What a rule acts on.
struct Cause<'a> {
    record: &'a LogRecord,
    matched: &'a MatchedRule<'a>,
    queue: &'a QueueName,
    rule_hash: &'a str,
    reason: String,
    at: Timestamp,
    expires: Timestamp,
    /// For the next option that is set.
    number: u64,
}

impl Automation {
    /// Counts a record, and does what those of its rules ask for whose time has come.
    pub fn observe(&mut self, record: &LogRecord, rules: &[MatchedRule<'_>], now: Timestamp) -> Observed {
        let mut observed = Observed::default();
        // They repeat what was said before, or what a rule itself had done.
        if matches!(record.kind, RecordType::AdminBounce | RecordType::Expiration) {
            return observed;
        }
        let queue = QueueName::parse(&record.queue);
        // Nothing has happened yet that lies ahead: somebody's clock is wrong.
        let at = record.timestamp.min(now);
        // The same rule may stand in several blocks that apply: it counts once.
        let mut counted: HashMap<&str, bool> = HashMap::new();
        for matched in rules {
            let rule_hash = matched.rule.hash();
            let expires = ended(at, matched.rule);
            if expires <= now {
                continue;
            }
            let is_time = *counted
                .entry(rule_hash)
                .or_insert_with(|| self.is_time(record, (at, now), matched.rule, &mut observed));
            if !is_time {
                continue;
            }
            let reason = reason(matched.rule);
            let mut cause = Cause { record, matched, queue: &queue, rule_hash, reason, at, expires, number: 0 };
            for action in matched.rule.action() {
                self.options_set += 1;
                cause.number = self.options_set;
                match cause.effect(action) {
                    Ok(effect) => self.hold(effect, now, &mut observed),
                    Err(lack) => observed.undone.push(lack),
                }
            }
        }
        observed
    }

    /// Forgets what is over.
    pub fn expire(&mut self, now: Timestamp) {
        self.effects.retain(|_, held| held.effect.expires() > now);
        self.counts.retain(|_, window| !window.is_over(now));
    }

    /// How many effects are held, and how many counts of those that are not yet.
    pub fn sizes(&self) -> (usize, usize) {
        (self.effects.len(), self.counts.len())
    }

    /// The effects in force, in the order of what they are about.
    pub fn effects(&self, now: Timestamp) -> impl Iterator<Item = &Effect> {
        self.effects.values().map(|held| &held.effect).filter(move |effect| effect.expires() > now)
    }

    /// Takes back what [`Automation::effects`] gave in an earlier run; counts begin anew.
    pub fn restore(&mut self, effects: Vec<Effect>, now: Timestamp) {
        for effect in effects.into_iter().filter(|effect| effect.expires() > now).take(EFFECTS_MAX) {
            let told_end = effect.expires();
            if let Effect::Option(change) = &effect {
                self.options_set = self.options_set.max(change.number);
            }
            self.effects.insert(effect.identity(), Held { effect, told_end });
        }
    }

    fn is_time(
        &mut self,
        record: &LogRecord,
        (at, now): (Timestamp, Timestamp),
        rule: &Rule,
        observed: &mut Observed,
    ) -> bool {
        let Trigger::Threshold(threshold) = rule.trigger() else { return true };
        let scope = (rule.hash().to_owned(), record.site.clone());
        if self.counts.len() >= COUNTS_MAX && !self.counts.contains_key(&scope) {
            observed.undone.push(format!("more than {COUNTS_MAX} counts at once: {} is not counted", record.site));
            return false;
        }
        let window = self.counts.entry(scope).or_insert_with(|| Window::new(micros(rule)));
        window.count(at, now) >= threshold.limit
    }

    fn has_room(&self, effect: &Effect) -> bool {
        let is_option_too_many =
            || effect.is_option() && self.effects.range(Identity::of_options()..).count() >= OPTIONS_MAX;
        self.effects.len() < EFFECTS_MAX && !is_option_too_many()
    }

    fn hold(&mut self, effect: Effect, now: Timestamp, observed: &mut Observed) {
        let identity = effect.identity();
        let expires = effect.expires();
        if !self.effects.contains_key(&identity) && !self.has_room(&effect) {
            observed.undone.push(format!("more effects at once than there is room for, not held: {effect}"));
            return;
        }
        match self.effects.get_mut(&identity) {
            Some(held) => {
                // A record that comes late ends nothing early.
                let is_later = expires > held.effect.expires();
                let told_for = held.told_end.unix_micros().saturating_sub(now.unix_micros());
                let lasts = expires.unix_micros().saturating_sub(now.unix_micros());
                if is_later {
                    observed.has_changed = true;
                    held.effect = effect.clone().renew(&held.effect);
                }
                if is_later && lasts.saturating_sub(told_for) >= lasts / 10 {
                    held.told_end = expires;
                    observed.tell(effect);
                }
            }
            None => {
                self.effects.insert(identity, Held { effect: effect.clone(), told_end: expires });
                observed.has_changed = true;
                observed.tell(effect);
            }
        }
    }
}

impl Observed {
    /// Options are no orders: nodes read them in the overlay.
    fn tell(&mut self, effect: Effect) {
        if !effect.is_option() {
            self.told.push(effect);
        }
    }
}

impl Cause<'_> {
    /// What an action comes to; what the record lacks for it.
    fn effect(&self, action: &Action) -> Result<Effect, String> {
        match action {
            Action::Suspend => self.suspension(),
            Action::SuspendTenant => self.scheduled(self.tenant()?, None),
            Action::SuspendCampaign => self.scheduled(self.tenant()?, Some(self.campaign()?)),
            Action::Bounce => self.bounce(None, None),
            Action::BounceTenant => self.bounce(Some(self.tenant()?), None),
            Action::BounceCampaign => self.bounce(Some(self.tenant()?), Some(self.campaign()?)),
            Action::SetConfig(set) if self.matched.is_of_domain => self.option(set, None),
            Action::SetConfig(set) => self.option(set, self.site()),
            Action::SetDomainConfig(set) => self.option(set, None),
        }
    }

    fn suspension(&self) -> Result<Effect, String> {
        match self.record.site.contains("->") {
            true => Ok(Effect::ReadyQSuspension(ReadySuspension {
                rule_hash: self.rule_hash.to_owned(),
                site_name: self.record.site.to_string(),
                reason: self.reason.clone(),
                source: self.source(),
                expires: self.expires,
            })),
            false => Err(format!("{}: the record has no ready queue in `site` to suspend", self.reason)),
        }
    }

    fn scheduled(&self, tenant: String, campaign: Option<String>) -> Result<Effect, String> {
        Ok(Effect::SchedQSuspension(ScheduledSuspension {
            rule_hash: self.rule_hash.to_owned(),
            tenant,
            domain: self.domain()?,
            campaign,
            reason: self.reason.clone(),
            expires: self.expires,
        }))
    }

    fn bounce(&self, tenant: Option<String>, campaign: Option<String>) -> Result<Effect, String> {
        Ok(Effect::SchedQBounce(ScheduledBounce {
            rule_hash: self.rule_hash.to_owned(),
            domain: self.domain()?,
            tenant,
            campaign,
            reason: self.reason.clone(),
            expires: self.expires,
        }))
    }

    /// An order without one would be about all mail.
    fn domain(&self) -> Result<String, String> {
        match self.queue.domain.as_str() {
            "" => Err(format!("{}: the record has no domain in `queue`", self.reason)),
            domain => Ok(domain.to_owned()),
        }
    }

    /// Where the mail went; none where policy names the hosts, and where it went nowhere (the site of a null MX is a dot).
    fn site(&self) -> Option<String> {
        let site = site_of_ready_queue(&self.record.site);
        let is_somewhere = !site.trim_end_matches('.').is_empty();
        (is_somewhere && !site.starts_with(MX_LIST)).then(|| site.to_owned())
    }

    fn option(&self, set: &SetOption, site: Option<String>) -> Result<Effect, String> {
        let domain = self.queue.effective_domain();
        if !is_domain_key(domain) {
            return Err(format!("{}: {domain:?} in `queue` is no domain that a shaping file can name", self.reason));
        }
        Ok(Effect::Option(OptionChange {
            rule_hash: self.rule_hash.to_owned(),
            domain: domain.to_owned(),
            site,
            source: self.source(),
            name: set.name.clone(),
            value: set.value.clone(),
            set_at: self.at,
            number: self.number,
            expires: self.expires,
        }))
    }

    /// Mail without one is sent from `unspecified`.
    fn source(&self) -> String {
        self.record.egress_source.as_deref().unwrap_or("unspecified").to_owned()
    }

    fn tenant(&self) -> Result<String, String> {
        let tenant = self.queue.tenant.clone().filter(|tenant| !tenant.is_empty());
        tenant.ok_or_else(|| format!("{}: queue `{}` has no tenant", self.reason, self.record.queue))
    }

    fn campaign(&self) -> Result<String, String> {
        let campaign = self.queue.campaign.clone().filter(|campaign| !campaign.is_empty());
        campaign.ok_or_else(|| format!("{}: queue `{}` has no campaign", self.reason, self.record.queue))
    }
}

fn reason(rule: &Rule) -> String {
    format!("automation rule: {}", rule.regex().collect::<Vec<_>>().join(", "))
}

fn ended(at: Timestamp, rule: &Rule) -> Timestamp {
    Timestamp::from_unix_micros(at.unix_micros().saturating_add(micros(rule)))
}

fn micros(rule: &Rule) -> i64 {
    i64::try_from(rule.duration().get().as_micros()).unwrap_or(i64::MAX)
}

/// Effects that are held at once.
pub const EFFECTS_MAX: usize = 100_000;
/// Options among them: blocks that a shaping file may have are fewer than effects, and nodes have files of their own.
pub const OPTIONS_MAX: usize = 10_000;
/// How sites are called whose hosts policy names.
const MX_LIST: &str = "mx_list:";
/// Counts that are held at once.
pub const COUNTS_MAX: usize = 100_000;

#[cfg(test)]
#[path = "automation_tests.rs"]
mod tests;
