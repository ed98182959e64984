//! Throttles kept in Redis, for all nodes that name the same server.
//!
//! One atomic question a hit: `CL.THROTTLE` where the server has redis-cell, a script of our own elsewhere, by the server's
//! clock. Every await has a deadline. A server that fails or is late counts as away: from then on nobody waits for it but
//! one hit a second, which tries to connect again. It owns what is to be said when the server is back: leases that ended meanwhile.

use crate::Verdict;
use crate::limits::{FORGOTTEN_AFTER, Holder, OWED_MAX, probe};
use crate::scripts::Scripts;
use crate::server::{Connection, Login, OURS, Server};
use crate::times::QuestionTimes;
use ::redis::{RedisError, Value};
use clock::{Duration, Instant};
use config::{RedisThrottles, ThrottleSpec};
use queue::throttle::Rate;
use std::sync::{Arc, Mutex, PoisonError};
use std::time;
use thiserror::Error;
use watched::Times;

/// A server, and how it is.
pub(crate) struct Redis {
    server: Server,
    address: String,
    pub(crate) answer_max: Duration,
    share: f64,
    state: Mutex<State>,
    /// Leases to give back when the server is back.
    owed: Mutex<Vec<Holder>>,
    /// When all leases were last renewed; before that, when the first connection was made.
    renewed: Mutex<time::Instant>,
    times: QuestionTimes,
}

enum State {
    Here(Link),
    Away {
        /// Who comes from then on connects again.
        again: time::Instant,
    },
}

#[derive(Clone)]
pub(crate) struct Link {
    pub(crate) connection: Connection,
    /// What the names of rates and limits that are taken together begin with.
    pub(crate) keys: &'static str,
    pub(crate) scripts: Arc<Scripts>,
    /// The server has redis-cell.
    has_cell: bool,
    /// When the server was started, if it says so; of a cluster the one that was last. When it was found again, where that is not
    /// known, or it was away for so long that leases ended.
    pub(crate) born: Option<time::Instant>,
}

/// Why throttles cannot be shared.
#[derive(Debug, Error)]
pub enum ShareError {
    /// The address is none, or the login is refused.
    #[error("redis throttles: {address}: {cause}{}", hint(cause))]
    Server {
        /// As configured, without password.
        address: String,
        /// What the client library says.
        cause: RedisError,
    },
    /// The server did not answer.
    #[error("redis throttles: {address}: no answer within {limit:?}")]
    Late {
        /// As configured, without password.
        address: String,
        /// `connect_timeout`.
        limit: Duration,
    },
    /// It was done before.
    #[error("redis throttles are configured already")]
    Twice,
}

impl Redis {
    /// Connects, and looks what the server can do.
    pub async fn connect(options: &RedisThrottles) -> Result<Redis, ShareError> {
        let address = options.nodes().iter().map(|node| without_password(node)).collect::<Vec<_>>().join(", ");
        let failed = |cause| ShareError::Server { address: address.clone(), cause };
        let server = Server::new(&Login::from(options)).map_err(failed)?;
        let limit = options.connect_timeout.get();
        let link = match tokio::time::timeout(limit, link(&server, limit)).await {
            Ok(link) => link.map_err(failed)?,
            Err(_) => return Err(ShareError::Late { address, limit }),
        };
        let cell = if link.has_cell { " with redis-cell" } else { "" };
        tracing::info!("throttles are shared by way of {address}{cell}");
        let (answer_max, share) = (options.response_timeout.get(), options.share_while_away);
        let state = Mutex::new(State::Here(link));
        let (owed, renewed) = (Mutex::default(), Mutex::new(time::Instant::now()));
        Ok(Redis { server, address, answer_max, share, state, owed, renewed, times: QuestionTimes::default() })
    }

    /// One hit; `None` when the server does not answer.
    pub async fn hit(&self, key: &str, spec: &ThrottleSpec) -> Option<Verdict> {
        self.asked(async |link| ask(link, key, spec).await).await
    }

    /// The answer to any question; `None` when the server does not answer.
    pub async fn asked<T>(&self, question: impl AsyncFnOnce(Link) -> Result<T, RedisError>) -> Option<T> {
        let link = self.link().await?;
        let begun = time::Instant::now();
        let answer = tokio::time::timeout(self.answer_max, question(link)).await;
        self.times.took(begun, matches!(answer, Ok(Ok(_))));
        match answer {
            Ok(Ok(answer)) => Some(answer),
            Ok(Err(error)) => self.is_away(&error),
            Err(_) => self.is_away(&format_args!("no answer within {:?}", self.answer_max)),
        }
    }

    /// How long questions took that were answered, and those that failed; attempts to connect again that failed are among these.
    pub fn question_times(&self) -> [Times; 2] {
        self.times.so_far()
    }

    /// What this node takes by itself while the server is away.
    pub fn share(&self) -> f64 {
        self.share
    }

    /// True while the server answers.
    pub fn is_here(&self) -> bool {
        matches!(*self.state(), State::Here(_))
    }

    /// True while the server is known to be just started, or may have lost leases while this node could not reach it.
    pub fn is_young(&self) -> bool {
        matches!(&*self.state(), State::Here(link) if link.is_young(self.answer_max))
    }

    /// What this node admits by itself while the server is away.
    pub fn share_of(&self, spec: &ThrottleSpec) -> Rate {
        Rate::share(spec, self.share)
    }

    /// True when the server is there, or can be connected to again.
    pub(crate) async fn is_reached(&self) -> bool {
        self.link().await.is_some()
    }

    async fn link(&self) -> Option<Link> {
        match &mut *self.state() {
            State::Here(link) => return Some(link.clone()),
            State::Away { again } if time::Instant::now() < *again => return None,
            // The others go on by themselves while this one tries.
            State::Away { again } => *again = time::Instant::now() + self.answer_max + PAUSE,
        }
        let begun = time::Instant::now();
        let why = match tokio::time::timeout(self.answer_max, link(&self.server, self.answer_max)).await {
            Ok(Ok(mut link)) => {
                if link.born.is_none() || self.may_have_lost_leases() {
                    link.born = Some(time::Instant::now());
                }
                tracing::info!("{} is back: throttles are shared again", self.address);
                *self.state() = State::Here(link.clone());
                return Some(link);
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {:?}", self.answer_max),
        };
        // The question that would have been asked; those that go on by themselves ask none.
        self.times.took(begun, false);
        tracing::debug!("{}: {why}", self.address);
        None
    }

    fn is_away<T>(&self, why: &dyn std::fmt::Display) -> Option<T> {
        let mut state = self.state();
        if matches!(*state, State::Here(_)) {
            let percent = self.share * 100.0;
            tracing::warn!("{}: {why}: this node admits {percent}% of each throttle by itself meanwhile", self.address);
            *state = State::Away { again: time::Instant::now() + PAUSE };
        }
        None
    }

    /// All leases were renewed, by questions that began then.
    pub(crate) fn note_renewed(&self, begun: time::Instant) {
        *self.renewed.lock().unwrap_or_else(PoisonError::into_inner) = begun;
    }

    fn may_have_lost_leases(&self) -> bool {
        let renewed = *self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        renewed.elapsed() > FORGOTTEN_AFTER
    }

    /// A lease is to be given back when the server is back. Those beyond [`OWED_MAX`] end by themselves.
    pub(crate) fn owe(&self, holder: &Holder) {
        let mut owed = self.owed();
        match owed.len() < OWED_MAX {
            true => owed.push(holder.clone()),
            false => tracing::debug!("a lease of {} ends by itself", holder.0),
        }
    }

    /// Leases to give back.
    pub(crate) fn owed(&self) -> std::sync::MutexGuard<'_, Vec<Holder>> {
        self.owed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What helps against that, where it is known.
fn hint(cause: &RedisError) -> &'static str {
    use ::redis::{
        ErrorKind::Server,
        ServerErrorKind::{CrossSlot, Moved, NoPerm},
    };
    match cause.kind() {
        Server(CrossSlot | Moved) => " (this server is part of a cluster: expected `cluster = true`)",
        Server(NoPerm) => " (expected a user who may run scripts on keys that begin with `postrider:`)",
        _ => "",
    }
}

async fn link(server: &Server, limit: Duration) -> Result<Link, RedisError> {
    let mut connection = server.connect(limit).await?;
    // Whoever may not ask has to do without.
    let known = ::redis::cmd("COMMAND").arg("INFO").arg("CL.THROTTLE").query_async::<Value>(&mut connection).await;
    let has_cell = matches!(known, Ok(Value::Array(found)) if found.iter().any(|one| !matches!(one, Value::Nil)));
    let info = ::redis::cmd("INFO").arg("server").query_async::<Value>(&mut connection).await;
    let up = info.ok().and_then(|info| texts(&info).iter().filter_map(|text| uptime(text)).min());
    let born = up.and_then(|up| time::Instant::now().checked_sub(up));
    let mut link = Link { connection, keys: server.keys(), scripts: Arc::new(Scripts::new()), has_cell, born };
    probe(&mut link).await?;
    Ok(link)
}

async fn ask(mut link: Link, key: &str, spec: &ThrottleSpec) -> Result<Verdict, RedisError> {
    let rate = Rate::from(spec);
    if link.has_cell {
        let mut cmd = ::redis::cmd("CL.THROTTLE");
        cmd.arg(key).arg(spec.burst() - 1).arg(spec.limit).arg(spec.period_s);
        let answer = cmd.query_async::<(i64, u64, u64, i64, u64)>(&mut link.connection).await?;
        return Ok(of_cell(answer));
    }
    let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX).min(MICROS_MAX);
    let mut cmd = ::redis::cmd("EVAL");
    cmd.arg(SCRIPT).arg(1).arg(format!("{OURS}{key}")).arg(micros(rate.interval())).arg(micros(rate.tolerance()));
    let (wait_us, used_us) = cmd.query_async::<(u64, u64)>(&mut link.connection).await?;
    let used = Duration::from_micros(used_us);
    Ok(Verdict {
        throttled: wait_us > 0,
        limit: rate.burst(),
        remaining: rate.remaining(Instant::ZERO + used, Instant::ZERO),
        reset_after: used,
        retry_after: (wait_us > 0).then(|| Duration::from_micros(wait_us)),
    })
}

/// redis-cell counts in whole seconds, rounded down: who would come back at once waits for one.
fn of_cell((refused, limit, remaining, retry_after_s, reset_after_s): (i64, u64, u64, i64, u64)) -> Verdict {
    let wait = Duration::from_secs(u64::try_from(retry_after_s).unwrap_or(0).max(1));
    Verdict {
        throttled: refused != 0,
        limit,
        remaining,
        reset_after: Duration::from_secs(reset_after_s),
        retry_after: (refused != 0).then_some(wait),
    }
}

/// An answer as text; of a cluster, of each server.
fn texts(answer: &Value) -> Vec<String> {
    match answer {
        Value::Map(servers) => servers.iter().flat_map(|(_, answer)| texts(answer)).collect(),
        other => ::redis::from_redis_value_ref(other).into_iter().collect(),
    }
}

/// How long the server has run for sure: it counts the seconds that began meanwhile, so its own word may be one too many.
fn uptime(info: &str) -> Option<Duration> {
    let seconds = info.lines().find_map(|line| line.strip_prefix("uptime_in_seconds:"))?;
    seconds.trim().parse::<u64>().ok().map(|begun| Duration::from_secs(begun.saturating_sub(1)))
}

/// An address as the log may have it.
fn without_password(address: &str) -> String {
    match (address.split_once("://"), address.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
        _ => address.to_owned(),
    }
}

/// GCRA as `queue::throttle` has it, in microseconds of the server's clock: the key holds the theoretical arrival time.
/// Answers how long to wait (0: admitted, and counted) and how far ahead of now the arrival time is: no event puts it further than
/// by tolerance and interval, unless the clock was set back since.
const SCRIPT: &str = "
local interval, tolerance = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local arrival = math.max(tonumber(redis.call('GET', KEYS[1]) or '0'), now)
arrival = math.min(arrival, now + tolerance + interval)
local wait = arrival - now - tolerance
if wait > 0 then
  return {wait, arrival - now}
end
arrival = arrival + interval
redis.call('SET', KEYS[1], string.format('%.0f', arrival), 'PX', string.format('%.0f', math.ceil((arrival - now) / 1000)))
return {0, arrival - now}
";

/// Numbers of Redis's Lua are exact up to 2^53; half of it leaves room for the clock.
pub(crate) const MICROS_MAX: u64 = 1 << 52;
/// How long a server that is away is left alone.
const PAUSE: time::Duration = time::Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_says_how_long_it_has_run() {
        let up = uptime("# Server\r\nredis_version:7.0.15\r\nuptime_in_seconds:61\r\nuptime_in_days:0\r\n");
        assert_eq!((up, uptime("# Server\r\n")), (Some(Duration::from_secs(60)), None));
        assert_eq!(uptime("uptime_in_seconds:0"), Some(Duration::ZERO));
    }

    #[test]
    fn passwords_stay_out_of_the_log() {
        for (address, shown) in [
            ("redis://127.0.0.1:6379/0", "redis://127.0.0.1:6379/0"),
            ("redis://user:s3cr@t@host:1", "redis://host:1"),
            ("unix", "unix"),
        ] {
            assert_eq!(without_password(address), shown);
        }
    }

    #[test]
    fn whoever_redis_cell_refuses_waits_for_a_second_at_least() {
        let refused = of_cell((1, 15, 0, 0, 60));
        assert_eq!((refused.throttled, refused.retry_after), (true, Some(Duration::from_secs(1))));
        assert_eq!(of_cell((1, 15, 0, 7, 60)).retry_after, Some(Duration::from_secs(7)));
        let admitted = of_cell((0, 15, 14, -1, 2));
        assert_eq!((admitted.throttled, admitted.retry_after, admitted.remaining), (false, None, 14));
    }
}
