//! What `kumo.make_throttle` returns: a rate under a name that all states share.
//!
//! Every method but `explain` is one hit or more. A handler that was called synchronously takes the answer at once; the
//! first that would sleep there holds its thread, lends it out meanwhile where the runtime can, and makes the policy call
//! handlers of that event so that they can wait from then on.

use crate::context::Host;
use crate::guard;
use crate::types::message::{LuaMessage, now};
use crate::waiting::will_wait;
use clock::WallTime;
use config::ThrottleSpec;
use mlua::{Lua, Table, UserData, UserDataMethods, UserDataRef, UserDataRefMut};
use std::sync::Arc;
use std::time::{Duration, Instant};
use throttle::{Throttles, Verdict};
use tokio::runtime::{Handle, RuntimeFlavor};

/// The userdata.
pub(crate) struct LuaThrottle {
    name: Arc<str>,
    spec: ThrottleSpec,
}

impl LuaThrottle {
    /// `kumo.make_throttle(name, spec)`.
    pub fn make(_: &Lua, (name, spec): (String, String)) -> mlua::Result<LuaThrottle> {
        let wrong = |e: &dyn std::fmt::Display| mlua::Error::runtime(format!("kumo.make_throttle `{name}`: {e}"));
        if name.len() > NAME_OCTETS_MAX {
            return Err(mlua::Error::runtime(format!(
                "kumo.make_throttle: a name of {} octets: expected at most {NAME_OCTETS_MAX}",
                name.len()
            )));
        }
        let spec = spec.parse::<ThrottleSpec>().map_err(|e| wrong(&e))?;
        Ok(LuaThrottle { spec, name: name.into() })
    }

    fn explain(&self) -> String {
        let ThrottleSpec { limit, local, .. } = self.spec;
        let (burst, period) = (self.spec.burst(), self.spec.period());
        let place = if local { "counted on this node alone" } else { "shared by all nodes where Redis is configured" };
        format!("{limit} in {period:?}, at most {burst} at once, one every {:?} after that; {place}", self.rest())
    }

    /// Time between two hits once the burst is used up.
    fn rest(&self) -> Duration {
        queue::throttle::Rate::from(&self.spec).interval()
    }
}

impl UserData for LuaThrottle {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("explain", |_, this, ()| Ok(this.explain()));
        methods.add_async_method("throttle", |lua, this, ()| async move {
            let verdict = hit(&lua, &this).await?;
            drop(this);
            table(&lua, &verdict)
        });
        methods.add_async_method(
            "delay_message_if_throttled",
            |lua, this, mut message: UserDataRefMut<LuaMessage>| async move {
                let verdict = hit(&lua, &this).await?;
                if let Some(wait) = verdict.retry_after {
                    let draft = message.draft()?;
                    draft.due = draft.due.max(WallTime::from_unix_micros(now().unix_micros()) + wait);
                }
                Ok(verdict.throttled)
            },
        );
        methods.add_async_method("sleep_if_throttled", |lua, this, ()| async move {
            will_wait(&lua);
            let mut slept = false;
            while let Some(wait) = hit(&lua, &this).await?.retry_after {
                slept = true;
                sleep(&lua, wait).await?;
            }
            Ok(slept)
        });
    }
}

/// `kumo.sleep(seconds)`.
pub(crate) async fn sleep_seconds(lua: Lua, seconds: f64) -> mlua::Result<()> {
    let wrong = |_| mlua::Error::runtime(format!("kumo.sleep: {seconds}: expected a number of seconds, 0 or more"));
    let wait = Duration::try_from_secs_f64(seconds).map_err(wrong)?;
    will_wait(&lua);
    sleep(&lua, wait).await
}

async fn hit(lua: &Lua, this: &UserDataRef<LuaThrottle>) -> mlua::Result<Verdict> {
    let (throttles, may_wait) = throttles(lua)?;
    Ok(match may_wait {
        true => throttles.hit(&this.name, &this.spec).await,
        false => throttles.hit_here(&this.name, &this.spec),
    })
}

/// The throttles of all states, and whether this handler may wait for what they say.
fn throttles(lua: &Lua) -> mlua::Result<(Arc<Throttles>, bool)> {
    let host = lua.app_data_ref::<Host>();
    let host = host.ok_or_else(|| mlua::Error::runtime("this state belongs to no policy"))?;
    Ok((host.throttles.clone(), host.may_wait))
}

async fn sleep(lua: &Lua, wait: Duration) -> mlua::Result<()> {
    let since = Instant::now();
    if throttles(lua)?.1 {
        tokio::time::sleep(wait).await;
        // Whoever sleeps takes no processor: what a handler may run counts from here.
        guard::restart(lua);
        return Ok(());
    } else if Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread) {
        tokio::task::block_in_place(|| std::thread::sleep(wait));
    } else {
        std::thread::sleep(wait);
    }
    guard::held(lua, since)
}

fn table(lua: &Lua, verdict: &Verdict) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("throttled", verdict.throttled)?;
    table.raw_set("limit", verdict.limit)?;
    table.raw_set("remaining", verdict.remaining)?;
    table.raw_set("reset_after", duration(lua, verdict.reset_after)?)?;
    table.raw_set("retry_after", verdict.retry_after.map(|wait| duration(lua, wait)).transpose()?)?;
    Ok(table)
}

/// A length of time as KumoMTA hands it to scripts.
fn duration(lua: &Lua, duration: Duration) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("secs", duration.as_secs())?;
    table.raw_set("nanos", duration.subsec_nanos())?;
    Ok(table)
}

/// Longest name of a throttle: with the bound on names, the bound of what they take.
const NAME_OCTETS_MAX: usize = 1024;
