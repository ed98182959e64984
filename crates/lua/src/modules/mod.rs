//! The modules scripts see, and the larger parts of `kumo`, one file each.

mod ceilings;
pub(crate) mod dkim;
pub(crate) mod dns;
mod dns_lookup;
pub(crate) mod kumo;
mod log;
mod memory;
mod messages;
mod on;
mod reject;
mod tuning;
mod xfer;

pub use tuning::available_parallelism;
