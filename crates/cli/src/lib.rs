//! The operator's tools: `postrider init`, `postrider doctor`, `postrider try`, `postrider spool VERB`, `postrider selftest`, `postrider classify` and `validate-bounces`.
//!
//! In: a command line. Out: text or JSON on stdout, what went wrong on stderr, an exit code: 0 all is well, 1
//! something is wrong with what was looked at, 2 it could not be looked at.
//! The tools read a spool as an onlooker does ([`spool::inspect`], [`store::ReadOnlyDir`]): also while the server
//! runs, and without a change to it. What writes says so in its name or by a flag: `export`, `salvage`,
//! `selftest`, each into a place of its own.
//!
//! Deliberately absent: the format (spool), queueing and delivery (queue, engine). Nothing here speaks to a running server, but `doctor`, which hears its greeting, and `try`, which starts one of its own.

mod classify;
mod doctor;
mod init;
mod output;
mod power_cut;
mod spool_verbs;
mod trial;

pub use classify::{
    FilesToValidate, Options as ClassifyOptions, read_rules, run as classify, run_to as classify_to,
    validate as validate_bounces,
};
pub use doctor::{Configure, Configured, Options as DoctorOptions, run as doctor, run_to as doctor_to};
pub use init::{Options as InitOptions, run as init, run_to as init_to};
pub use output::causes;
pub use power_cut::{Options as SelftestOptions, run as selftest, run_to as selftest_to};
pub use spool_verbs::{Defaults, Options as SpoolOptions, run as spool, run_to as spool_to};
pub use trial::{Options as TryOptions, run as try_out};
