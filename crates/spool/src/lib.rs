//! The spool: the only maker of [`Durable`].
pub mod receipt;
pub use receipt::{Discarded, Durable, Receipt, Volatile};
