//! The modules scripts see, and the larger parts of `kumo`, one file each.

mod ceilings;
mod counter_series;
mod digest;
pub(crate) mod dkim;
pub(crate) mod dns;
mod dns_lookup;
mod encode;
mod fs;
mod invoke;
mod json_comments;
pub(crate) mod kumo;
mod log;
mod maps;
pub(crate) mod memoize;
mod memory;
mod messages;
mod mpsc;
mod normalize;
mod objects;
mod on;
pub(crate) mod redis;
mod regex;
mod reject;
mod secrets;
mod serde;
mod shaping;
mod string;
pub(crate) mod submodules;
mod template;
mod time;
mod tuning;
mod uuid;
mod xfer;

pub use tuning::available_parallelism;
