//! What the fuzz targets share: cutting input into pieces, a driver for the receiving session,
//! and checksums made right in a spool image.
//!
//! A target takes octets (or a list of operations made of them), runs one room of the program on
//! them, and panics when a promise of that room is broken. What each target checks stands on its
//! page in `fuzz_targets/`. Nothing here does I/O or reads a clock: the same input always does the same.

pub mod pieces;
pub mod receiver;
pub mod reseal;

pub use pieces::pieces;
