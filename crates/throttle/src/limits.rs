//! Rates and limits of queues and paths, counted in Redis for all nodes.
//!
//! A rate: admissions of several rates at once, of each so many or of none; whoever asked has [`queue::GRANT_LIFE`] to
//! spend them, and the burst is lowered by what comes in that time, so that what is spent late is not too much. Who is refused
//! has a place in line and comes back when it is his turn. A limit: a sorted set of leases by the moment each ends, taken
//! in several sets or in none, together with the rates that its connection needs, renewed by its holder, gone by itself when
//! the holder is; given back late where Redis was away. All by scripts and by the server's clock: redis-cell cannot take
//! several or none.

use crate::Throttles;
use crate::redis::{Link, MICROS_MAX, Redis};
use ::redis::{RedisError, pipe};
use clock::Duration;
use config::ThrottleSpec;
use queue::throttle::Rate;
use queue::{GRANT_LIFE, LeaseSet};
use std::sync::Arc;
use std::time::Instant;

/// What a connection holds: a name nobody else has, and the limits it counts against.
pub type Holder = (String, LeaseSet);

/// Names of rates, each with what it admits.
pub type NamedRates<'a> = &'a [(Arc<str>, ThrottleSpec)];

/// Who wants leases and rates.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asker<'a> {
    /// His name among those who wait: that of a node and what it asks for.
    pub name: &'a str,
    /// He has no lease at all: refused one, he goes before all who have some, for [`WANTED_MS`] after he asked last.
    pub has_none: bool,
}

/// What Redis says to who wants leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseAnswer {
    /// All were had, and its rates have counted one event.
    Had,
    /// One of the limits is reached; nothing was taken.
    NoLease,
    /// One of the rates admits none for so long, or others are before him; nothing was taken but a place in line.
    NoRate(Duration),
}

impl Throttles {
    /// The part of each rate and limit that is this node's while Redis is away; `None` when nothing is shared.
    pub fn share_while_away(&self) -> Option<f64> {
        self.shared.get().map(Redis::share)
    }

    /// Takes at most `count` admissions of all of these rates; how many, and how long from now on none will be had after them,
    /// or, for `who` was refused and waits, until his turn. `None` while Redis is away.
    pub async fn grants(&self, rates: NamedRates<'_>, count: u64, who: Option<&str>) -> Option<(u64, Duration)> {
        let begun = Instant::now();
        let answer = self.shared.get()?.asked(async |link| take_grants(link, rates, count, who).await).await;
        answer.map(|(count, wait)| (count, left_of(wait, begun)))
    }

    /// Takes one lease of each and one event of each rate, or nothing. `None` while Redis is away; what it may have done all the
    /// same it is told to undo once it is back.
    pub async fn lease(&self, holder: &Holder, asker: Asker<'_>, rates: NamedRates<'_>) -> Option<LeaseAnswer> {
        let redis = self.shared.get()?;
        let (begun, mut was_asked) = (Instant::now(), false);
        let answer = redis
            .asked(async |link| {
                if link.is_young(redis.answer_max) {
                    // Leases that it has forgotten are being told to it.
                    return Ok(LeaseAnswer::NoLease);
                }
                was_asked = true;
                take_lease(link, holder, asker, rates).await
            })
            .await;
        if answer.is_none() && was_asked {
            redis.owe(holder);
        }
        answer.map(|answer| match answer {
            LeaseAnswer::NoRate(wait) => LeaseAnswer::NoRate(left_of(wait, begun)),
            other => other,
        })
    }

    /// The same for a node that goes by its share while Redis is told what is held: one that was just started is asked too.
    /// `None` at once while Redis is away.
    pub async fn lease_of_share(&self, holder: &Holder, asker: Asker<'_>) -> Option<LeaseAnswer> {
        let redis = self.shared.get().filter(|redis| redis.is_here())?;
        redis.asked(async |link| take_lease(link, holder, asker, &[]).await).await
    }

    /// Makes leases last on, behind giving back what could not be given back before; of each holder whether he has his still.
    /// `None` while Redis is away.
    pub async fn renew(&self, held: &[Holder]) -> Option<Vec<bool>> {
        let redis = self.shared.get()?;
        let begun = Instant::now();
        let owed = std::mem::take(&mut *redis.owed());
        if !owed.is_empty() && redis.asked(async |link| give_back(link, &owed).await).await.is_none() {
            let mut all = redis.owed();
            all.extend(owed);
            all.truncate(OWED_MAX);
            return None;
        }
        let mut kept = Vec::with_capacity(held.len());
        // One question at least: it finds out whether Redis is back.
        for some in held.chunks(RENEWED_AT_ONCE).chain(held.is_empty().then_some(held)) {
            let missing = redis.asked(async |link| renew(link, some).await).await?;
            kept.extend(missing.into_iter().map(|missing| missing == 0));
        }
        redis.note_renewed(begun);
        Some(kept)
    }

    /// Gives leases back: when Redis is away once it is back, and those beyond [`OWED_MAX`] end by themselves.
    pub async fn give_back(&self, holder: &Holder) {
        let Some(redis) = self.shared.get() else { return };
        let one = std::slice::from_ref(holder);
        if redis.is_here() && redis.asked(async |link| give_back(link, one).await).await.is_some() {
            return;
        }
        redis.owe(holder);
    }

    /// Connects to Redis again where it is away and it is time to. False while it stays away.
    pub async fn are_shared_again(&self) -> bool {
        match self.shared.get() {
            Some(redis) => redis.is_reached().await,
            None => false,
        }
    }

    /// True while Redis may not know yet what nodes hold: it was started just now.
    pub fn is_young(&self) -> bool {
        self.shared.get().is_some_and(Redis::is_young)
    }
}

impl Link {
    /// Started so lately that a node may hold what it does not know of.
    pub(crate) fn is_young(&self, answer_max: Duration) -> bool {
        self.born.is_some_and(|born| Instant::now() < born + YOUNG + answer_max * QUESTIONS_UNTIL_TOLD)
    }
}

async fn give_back(mut link: Link, holders: &[Holder]) -> Result<(), RedisError> {
    let mut all = pipe();
    for (id, limits) in holders {
        limits.iter().for_each(|(name, _)| _ = all.zrem(lease_key(link.keys, name), id).ignore());
    }
    all.query_async(&mut link.connection).await
}

/// Asks as connections do, for a lease that no limit counts: a server may answer PING and refuse scripts or writes, as one does that
/// is another's replica, is short of memory, is part of a cluster, or does not let this user.
pub(crate) async fn probe(link: &mut Link) -> Result<(), RedisError> {
    let limits: LeaseSet = [(Arc::from(PROBE), u64::from(u32::MAX))].into();
    take_lease(link.clone(), &(PROBE.to_owned(), limits), Asker::default(), &[]).await.map(|_| ())
}

async fn take_lease(
    mut link: Link,
    holder: &Holder,
    asker: Asker<'_>,
    rates: NamedRates<'_>,
) -> Result<LeaseAnswer, RedisError> {
    let (id, limits) = holder;
    let waiter = if asker.has_none { asker.name } else { "" };
    let add = |eval: &mut ::redis::Cmd| {
        eval.arg(limits.len() * 2 + keys_of(rates));
        add_limit_keys(eval, link.keys, limits);
        add_rate_keys(eval, link.keys, rates);
        eval.arg(id).arg(LEASE_LIFE_MS).arg(waiter).arg(WANTED_MS).arg(asker.name).arg(limits.len());
        limits.iter().for_each(|(_, limit)| _ = eval.arg(*limit));
        add_terms(eval, rates);
    };
    let answer = link.scripts.lease.ask::<i64>(&mut link.connection, add).await?;
    Ok(match answer {
        0 => LeaseAnswer::Had,
        1.. => LeaseAnswer::NoLease,
        wait_us => LeaseAnswer::NoRate(Duration::from_micros(wait_us.unsigned_abs())),
    })
}

async fn take_grants(
    mut link: Link,
    rates: NamedRates<'_>,
    count: u64,
    who: Option<&str>,
) -> Result<(u64, Duration), RedisError> {
    let add = |eval: &mut ::redis::Cmd| {
        eval.arg(keys_of(rates));
        add_rate_keys(eval, link.keys, rates);
        eval.arg(who.unwrap_or_default()).arg(count);
        add_terms(eval, rates);
    };
    let (count, wait_us) = link.scripts.grants.ask::<(u64, u64)>(&mut link.connection, add).await?;
    Ok((count, Duration::from_micros(wait_us)))
}

/// The interval and the lowered tolerance of a rate, in microseconds. Half of the tolerance stays: fast rates with small
/// bursts would otherwise be had one by one.
fn terms(spec: &ThrottleSpec) -> (u64, u64) {
    let rate = Rate::from(spec);
    let lowered = rate.tolerance().saturating_sub(GRANT_LIFE).max(rate.tolerance() / 2);
    let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX).min(MICROS_MAX);
    (micros(rate.interval()), micros(lowered))
}

async fn renew(mut link: Link, held: &[Holder]) -> Result<Vec<u64>, RedisError> {
    if held.is_empty() {
        return probe(&mut link).await.map(|()| Vec::new());
    }
    let mut all = pipe();
    for (id, limits) in held {
        let mut eval = link.scripts.renew.whole();
        eval.arg(limits.len() * 2);
        add_limit_keys(&mut eval, link.keys, limits);
        eval.arg(id).arg(LEASE_LIFE_MS);
        limits.iter().for_each(|(_, limit)| _ = eval.arg(*limit));
        all.add_command(eval);
    }
    all.query_async(&mut link.connection).await
}

/// Of all limits their leases, then who waits for them.
fn add_limit_keys(eval: &mut ::redis::Cmd, keys: &str, limits: &LeaseSet) {
    limits.iter().for_each(|(name, _)| _ = eval.arg(lease_key(keys, name)));
    limits.iter().for_each(|(name, _)| _ = eval.arg(format!("{}:wanted", lease_key(keys, name))));
}

/// How many keys there are for these rates.
fn keys_of(rates: NamedRates<'_>) -> usize {
    if rates.is_empty() { 0 } else { rates.len() + 2 }
}

/// The count of each rate, then the line of those who need just these, and when places in it end.
fn add_rate_keys(eval: &mut ::redis::Cmd, keys: &str, rates: NamedRates<'_>) {
    if rates.is_empty() {
        return;
    }
    rates.iter().for_each(|(name, _)| _ = eval.arg(format!("{keys}{name}")));
    let names: Vec<&str> = rates.iter().map(|(name, _)| &**name).collect();
    let names = names.join("+");
    eval.arg(format!("{keys}{names}:line")).arg(format!("{keys}{names}:line-ends"));
}

fn add_terms(eval: &mut ::redis::Cmd, rates: NamedRates<'_>) {
    for (_, spec) in rates {
        let (interval, tolerance) = terms(spec);
        eval.arg(interval).arg(tolerance);
    }
}

/// What is left of a wait that an answer names. It is counted from the question on: who comes back a whole answer late would lose
/// that time of the rate, and who is early hears how much is missing.
fn left_of(wait: Duration, begun: Instant) -> Duration {
    wait.saturating_sub(begun.elapsed())
}

fn lease_key(keys: &str, name: &str) -> String {
    format!("{keys}lease:{name}")
}

/// How long a lease lasts whose holder is gone.
const LEASE_LIFE_MS: u64 = 15_000;
/// How long a place is kept for somebody who has none and was refused, in milliseconds.
pub const WANTED_MS: u64 = 1_500;
/// Leases that are given back together, once Redis is back.
pub(crate) const OWED_MAX: usize = 4096;
/// From such a time without a renewal on leases may have ended: they last a little longer than that.
pub(crate) const FORGOTTEN_AFTER: Duration = Duration::from_secs(10);
/// Name of the lease, and of its limit, by which it is found out whether leases can be had at all.
const PROBE: &str = "probe";
/// Leases renewed by one question.
const RENEWED_AT_ONCE: usize = 256;
/// How long after its start Redis gives no new leases: nodes that hold some must have found out and told it again. They
/// look every two seconds, and try again after one; the time limits of their questions come on top, of
/// [`QUESTIONS_UNTIL_TOLD`].
const YOUNG: Duration = Duration::from_secs(4);
/// One that finds out, one to connect, one to give back what ended meanwhile, one to renew what is held.
const QUESTIONS_UNTIL_TOLD: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_counted_from_the_question_on() {
        let begun = Instant::now().checked_sub(Duration::from_millis(2)).expect("the machine has run for longer");
        assert!(left_of(Duration::from_secs(9), begun) <= Duration::from_millis(8998));
        assert_eq!(left_of(Duration::from_millis(1), begun), Duration::ZERO);
    }

    #[test]
    fn bursts_are_lowered_by_what_comes_while_a_grant_is_good() {
        let terms = |text: &str| terms(&text.parse().expect("a throttle"));
        assert_eq!(terms("10/s"), (100_000, 650_000));
        assert_eq!(terms("100/min"), (600_000, 59_150_000));
        assert_eq!(terms("10/s,max_burst=3"), (100_000, 100_000), "by half at most");
        assert_eq!(terms("1/h,max_burst=1"), (3_600_000_000, 0));
    }
}
