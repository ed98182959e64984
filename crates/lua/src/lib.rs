//! KumoMTA's policy language: Lua 5.4 scripts behind the [`Policy`] trait.
//!
//! Owns the pool of Lua states, the `kumo` module and the userdata scripts see. In: events of
//! the [`Policy`] trait as plain values; out: plain values, `kumo.reject` as
//! [`PolicyError::Reject`], any other script error with its traceback as
//! [`PolicyError::Script`]. A state whose handler failed is thrown away, so that an error costs
//! nobody else anything.
//!
//! Handlers of an event are called synchronously until one waits: for throttles in Redis, a look-up, a sleep, an injection.
//! From then on those of that event are called with `Function::call_async`, at twice the price: the future owns the
//! checked-out state until it is done, which is why a state is a value and not a lock. A function that waits is registered with
//! mlua's `create_async_function`, looks at `Host::may_wait`, and must be done at its first poll where that is false
//! ([`waiting`]). Connection objects (`courier`) are always called so that they can wait.
//!
//! The only crate that names `mlua`. Deliberately absent: decisions of any kind.

mod acls;
pub mod api;
mod commons;
mod compiled;
mod context;
mod convert;
mod courier;
mod disposition;
mod dmarc_seen;
mod each_message;
mod error;
pub mod event_names;
mod events;
mod extras;
mod files;
mod globals;
mod guard;
pub mod helper_names;
mod lua_policy;
pub mod manual;
mod memos;
mod modules;
mod mpsc;
mod names;
pub mod names_of;
mod patterns;
mod pool;
mod registry;
mod required;
mod series;
mod signers;
mod slices;
mod startup;
mod state;
mod state_counts;
mod stored;
mod task;
mod turns;
mod types;
pub mod value_names;
mod waiting;

pub use error::LoadError;
pub use lua_policy::LuaPolicy;
pub use modules::available_parallelism;
pub use modules::fs::monitored;
pub use names::{Names, Resolvers};

#[cfg(doc)]
use policy::{Policy, PolicyError};

/// Every module of the policy API that is described in one place.
// Inlined into another crate it would have everything that the table names compiled there once more: minutes.
#[inline(never)]
#[must_use]
pub fn modules() -> &'static [&'static api::Module] {
    modules::submodules::MODULES
}

/// Functions that KumoMTA moved: the name in `kumo`, the module, the name there.
#[must_use]
pub fn moved_names() -> &'static [(&'static str, &'static str, &'static str)] {
    modules::submodules::ALIASES
}
