//! KumoMTA's policy language: Lua 5.4 scripts behind the [`Policy`] trait.
//!
//! Owns the pool of Lua states, the `kumo` module and the userdata scripts see. In: events of
//! the [`Policy`] trait as plain values; out: plain values, `kumo.reject` as
//! [`PolicyError::Reject`], any other script error with its traceback as
//! [`PolicyError::Script`]. A state whose handler failed is thrown away, so that an error costs
//! nobody else anything. Handlers are called synchronously: no function offered yet can wait.
//!
//! The only crate that names `mlua`. Deliberately absent: decisions of any kind.

mod context;
mod convert;
mod error;
mod events;
mod modules;
mod pool;
mod signers;
mod types;

pub use error::LoadError;
pub use events::LuaPolicy;

#[cfg(doc)]
use policy::{Policy, PolicyError};
