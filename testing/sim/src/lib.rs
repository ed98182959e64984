//! A simulation of the whole mail path: one seed, one run, no threads, no files, no clock.
//!
//! The deciders are the real ones: both SMTP sessions, the queue manager, `settle`, the segment
//! log over a disk that fails. Only the thin drivers around them are made again here, over
//! virtual time, in the order of the engine's (`inbound.rs`, `accept.rs`, `writer.rs`,
//! `effects.rs`, `outbound.rs`, `settlement.rs`). Around them stand clients that break off and
//! peers that lie. An oracle ([`ledger`]) keeps the book of what everybody was told; the first
//! contradiction ends the run.
//!
//! [`run`] takes a seed and gives an [`Outcome`]. A failing seed is the bug report.

mod accept;
mod agenda;
mod asking;
mod client;
mod constraints;
mod deferred;
mod dice;
mod disk;
mod effects;
mod endings;
mod event;
mod inbound;
mod inspection;
pub mod ledger;
mod ledger_restart;
mod life;
mod limits;
mod load;
mod manner;
mod operator;
mod outbound;
mod peer;
mod plan;
mod rates;
mod report;
mod restore;
mod settlement;
mod week;
mod wire;
mod world;
mod writer;

pub use report::Report;
pub use week::week;

/// How a run is to differ from an honest one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// What the drivers do wrong on purpose, to see whether the oracle notices.
    pub sabotage: Sabotage,
    /// What a killed process left unsynced is lost by a later power cut unless its own file is
    /// synced: buffered files instead of direct ones. The segment log does not stand this yet.
    pub strict: bool,
    /// The scenario is that of [`week`].
    pub week: bool,
    /// Keep a readable trace.
    pub trace: bool,
}

/// A deliberate mistake of a driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sabotage {
    /// None: the drivers do what the engine does.
    #[default]
    None,
    /// Answers 250 before the commit.
    PromiseBeforeCommit,
    /// The disk says it has synced and has not.
    LyingDisk,
    /// A message in hand is forgotten when its connection breaks.
    ForgetInHand,
    /// A message is removed from the spool when its attempt begins.
    RemoveBeforeAttempt,
    /// A lost final reply counts as a delivery refused for good.
    UnknownIsPermanent,
    /// A lost reply counts as a delivery.
    UnknownIsDelivered,
    /// The end of a connection is not reported to the queue.
    EndsUnreported,
    /// A message is put back into the queue twice.
    RetryTwice,
    /// Settled recipients are not marked.
    UnmarkedRecipients,
    /// The due time of a retry is not marked.
    UnmarkedAttempts,
    /// Whatever the queue wants to open is opened twice.
    OpenTwice,
    /// Recipients of a message that no spool has are marked as settled.
    MarkVolatile,
    /// What was settled before a message is spooled is spooled with it.
    SpoolWhole,
    /// A message that could not be read for the moment is set aside.
    SetAsideUnread,
    /// A message that policy wants to wait becomes ready.
    PassAll,
    /// Deadlines of sessions pass unnoticed.
    DeafSessions,
    /// Ends of their own are forgotten by a restart.
    ForgetEnds,
    /// A stop leaves in memory what is in memory only.
    ForgetVolatile,
}

/// How a run ended.
#[derive(Debug)]
pub struct Outcome {
    /// The first contradiction.
    pub violation: Option<String>,
    /// What happened, counted.
    pub report: Report,
    /// What happened, told; empty unless asked for.
    pub trace: Vec<String>,
    /// Equal for equal runs.
    pub digest: u64,
}

/// Runs one seed to its end.
pub fn run(seed: u64, options: Options) -> Outcome {
    world::World::new(seed, options).run()
}
