//! Rates and limits of queues and paths, counted in Redis for all nodes.
//!
//! A rate: admissions of several rates at once, of each so many or of none; whoever asked has [`queue::GRANT_LIFE`] to
//! spend them, and the burst is lowered by what comes in that time, so that what is spent late is not too much. A
//! limit: a sorted set of leases by the moment each ends, taken in several sets or in none, together with the rates that its
//! connection needs, renewed by its holder, gone by itself when the holder is; given back late where Redis was away. All by
//! scripts and by the server's clock: redis-cell cannot take several or none.

use crate::Throttles;
use crate::redis::{Link, MICROS_MAX, Redis};
use ::redis::{RedisError, cmd, pipe};
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

/// What Redis says to who wants leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseAnswer {
    /// All were had, and its rates have counted one event.
    Had,
    /// One of the limits is reached; nothing was taken.
    NoLease,
    /// One of the rates admits none for so long; nothing was taken.
    NoRate(Duration),
}

impl Throttles {
    /// The part of each rate and limit that is this node's while Redis is away; `None` when nothing is shared.
    pub fn share_while_away(&self) -> Option<f64> {
        self.shared.get().map(Redis::share)
    }

    /// Takes at most `count` admissions of all of these rates; how many, and how long none will be had after them. `None`
    /// while Redis is away.
    pub async fn grants(&self, rates: NamedRates<'_>, count: u64) -> Option<(u64, Duration)> {
        self.shared.get()?.asked(async |link| take_grants(link, rates, count).await).await
    }

    /// Takes one lease of each and one event of each rate, or nothing. `None` while Redis is away; what it may have done all the
    /// same it is told to undo once it is back. A `waiter` is somebody who has none at all: when refused a lease he goes before
    /// all who have some, for [`WANTED_MS`] after he asked last.
    pub async fn lease(&self, holder: &Holder, waiter: Option<&str>, rates: NamedRates<'_>) -> Option<LeaseAnswer> {
        let redis = self.shared.get()?;
        let mut was_asked = false;
        let answer = redis
            .asked(async |link| {
                if link.is_young(redis.answer_max) {
                    // Leases that it has forgotten are being told to it.
                    return Ok(LeaseAnswer::NoLease);
                }
                was_asked = true;
                take_lease(link, holder, waiter, rates).await
            })
            .await;
        if answer.is_none() && was_asked {
            redis.owe(holder);
        }
        answer
    }

    /// The same for a node that goes by its share while Redis is told what is held: one that was just started is asked too.
    /// `None` at once while Redis is away.
    pub async fn lease_of_share(&self, holder: &Holder, waiter: Option<&str>) -> Option<LeaseAnswer> {
        let redis = self.shared.get().filter(|redis| redis.is_here())?;
        redis.asked(async |link| take_lease(link, holder, waiter, &[]).await).await
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

async fn take_lease(
    mut link: Link,
    holder: &Holder,
    waiter: Option<&str>,
    rates: NamedRates<'_>,
) -> Result<LeaseAnswer, RedisError> {
    let answer = lease(link.keys, holder, waiter, rates).query_async::<i64>(&mut link.connection).await?;
    Ok(match answer {
        0 => LeaseAnswer::Had,
        1.. => LeaseAnswer::NoLease,
        wait_us => LeaseAnswer::NoRate(Duration::from_micros(wait_us.unsigned_abs())),
    })
}

async fn take_grants(mut link: Link, rates: NamedRates<'_>, count: u64) -> Result<(u64, Duration), RedisError> {
    let mut eval = cmd("EVAL");
    eval.arg(GRANTS).arg(rates.len());
    rates.iter().for_each(|(name, _)| _ = eval.arg(format!("{}{name}", link.keys)));
    eval.arg(count);
    for (_, spec) in rates {
        let (interval, tolerance) = terms(spec);
        eval.arg(interval).arg(tolerance);
    }
    let (count, wait_us) = eval.query_async::<(u64, u64)>(&mut link.connection).await?;
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
    let mut all = pipe();
    held.iter().for_each(|holder| _ = all.add_command(lease(link.keys, holder, None, &[])));
    if held.is_empty() {
        return cmd("PING").query_async::<String>(&mut link.connection).await.map(|_| Vec::new());
    }
    all.query_async(&mut link.connection).await
}

fn lease(keys: &str, (id, limits): &Holder, waiter: Option<&str>, rates: NamedRates<'_>) -> ::redis::Cmd {
    let mut eval = cmd("EVAL");
    eval.arg(LEASE).arg(limits.len() * 2 + rates.len());
    limits.iter().for_each(|(name, _)| _ = eval.arg(lease_key(keys, name)));
    limits.iter().for_each(|(name, _)| _ = eval.arg(format!("{}:wanted", lease_key(keys, name))));
    rates.iter().for_each(|(name, _)| _ = eval.arg(format!("{keys}{name}")));
    eval.arg(id).arg(LEASE_LIFE_MS).arg(waiter.unwrap_or_default()).arg(WANTED_MS).arg(limits.len());
    limits.iter().for_each(|(_, limit)| _ = eval.arg(*limit));
    for (_, spec) in rates {
        let (interval, tolerance) = terms(spec);
        eval.arg(interval).arg(tolerance);
    }
    eval
}

fn lease_key(keys: &str, name: &str) -> String {
    format!("{keys}lease:{name}")
}

/// GCRA over several keys. Answers how many were admitted of each, and how long to wait for the next, in microseconds.
const GRANTS: &str = "
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local count, arrivals = tonumber(ARGV[1]), {}
for i, key in ipairs(KEYS) do
  local interval, tolerance = tonumber(ARGV[2 * i]), tonumber(ARGV[2 * i + 1])
  arrivals[i] = math.max(tonumber(redis.call('GET', key) or '0'), now)
  count = math.min(count, math.floor((now + tolerance - arrivals[i]) / interval) + 1)
end
count = math.max(count, 0)
local wait = 0
for i, key in ipairs(KEYS) do
  local interval, tolerance = tonumber(ARGV[2 * i]), tonumber(ARGV[2 * i + 1])
  local arrival = arrivals[i] + count * interval
  if count > 0 then
    redis.call('SET', key, string.format('%.0f', arrival), 'PX', string.format('%.0f', math.ceil((arrival - now) / 1000)))
  end
  wait = math.max(wait, arrival - now - tolerance)
end
return {count, wait}
";

/// One lease in each of several sorted sets and one event of each of several rates (GCRA), or nothing; whoever has the lease has
/// it longer, and its rates have counted it. Behind the keys of the sets are those of who waits and has none: who asked longest
/// ago goes first. Answers 0, which set has none, or below 0 for how many microseconds a rate admits none.
const LEASE: &str = "
local time = redis.call('TIME')
local seconds, micros = tonumber(time[1]), tonumber(time[2])
local now = seconds * 1000 + math.floor(micros / 1000)
local id, life, waiter, wanted_for = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local count = tonumber(ARGV[5])
local rates, now_us, wait, arrivals = #KEYS - 2 * count, seconds * 1000000 + micros, 0, {}
if redis.call('ZSCORE', KEYS[1], id) then
  rates = 0
end
for i = 1, rates do
  local tolerance = tonumber(ARGV[5 + count + 2 * i])
  arrivals[i] = math.max(tonumber(redis.call('GET', KEYS[2 * count + i]) or '0'), now_us)
  wait = math.max(wait, arrivals[i] - now_us - tolerance)
end
if wait > 0 then
  return -wait
end
for i = 1, count do
  local key, wanted = KEYS[i], KEYS[count + i]
  redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
  if not redis.call('ZSCORE', key, id) then
    redis.call('ZREMRANGEBYSCORE', wanted, '-inf', now)
    local before = waiter ~= '' and redis.call('ZRANK', wanted, waiter) or redis.call('ZCARD', wanted)
    if tonumber(ARGV[i + 5]) - redis.call('ZCARD', key) <= before then
      if waiter ~= '' then
        redis.call('ZADD', wanted, now + wanted_for, waiter)
        redis.call('PEXPIRE', wanted, wanted_for)
      end
      return i
    end
  end
end
for i = 1, count do
  redis.call('ZADD', KEYS[i], now + life, id)
  redis.call('PEXPIRE', KEYS[i], 2 * life)
  if waiter ~= '' then
    redis.call('ZREM', KEYS[count + i], waiter)
  end
end
for i = 1, rates do
  local arrival = arrivals[i] + tonumber(ARGV[4 + count + 2 * i])
  local lasts = math.ceil((arrival - now_us) / 1000)
  redis.call('SET', KEYS[2 * count + i], string.format('%.0f', arrival), 'PX', string.format('%.0f', lasts))
end
return 0
";

/// How long a lease lasts whose holder is gone.
const LEASE_LIFE_MS: u64 = 15_000;
/// How long a place is kept for somebody who has none and was refused, in milliseconds.
pub const WANTED_MS: u64 = 1_500;
/// Leases that are given back together, once Redis is back.
pub(crate) const OWED_MAX: usize = 4096;
/// From such a time without a renewal on leases may have ended: they last a little longer than that.
pub(crate) const FORGOTTEN_AFTER: Duration = Duration::from_secs(10);
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
    fn bursts_are_lowered_by_what_comes_while_a_grant_is_good() {
        let terms = |text: &str| terms(&text.parse().expect("a throttle"));
        assert_eq!(terms("10/s"), (100_000, 650_000));
        assert_eq!(terms("100/min"), (600_000, 59_150_000));
        assert_eq!(terms("10/s,max_burst=3"), (100_000, 100_000), "by half at most");
        assert_eq!(terms("1/h,max_burst=1"), (3_600_000_000, 0));
    }
}
