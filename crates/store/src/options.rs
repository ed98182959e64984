//! What a spool may be told, and what it tells.

use crate::kind::Kind;
use crate::linger::Linger;
use spool::{LogStats, Settings};
use std::time::Duration;

/// How the writer behaves. The defaults suit a server.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Which kind of spool.
    pub kind: Kind,
    /// Segments: their size and when to compact.
    pub settings: Settings,
    /// Fit the settings to the disk the spool is on: small disks get small segments, slow ones long waits of commits.
    pub fit_disk: bool,
    /// Longest time a mark waits for a commit when no append comes. A power cut may repeat deliveries of this time.
    pub mark_interval: Duration,
    /// Longest time a commit waits for more appends, when the previous one had several or somebody computes one.
    pub linger: Linger,
    /// Octets of appends after which a commit takes no more.
    pub batch_octets_max: usize,
    /// Octets that may wait for the writer; further appends wait outside.
    pub queued_octets_max: usize,
    /// Most reads from the disk at the same time; on a quick disk fewer do.
    pub reads_max: usize,
    /// Time between two tries after the disk refused.
    pub retry_interval: Duration,
    /// Octets a second that housekeeping (compaction, filling, checkpoints) may move.
    pub house_octets_per_s: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            kind: Kind::default(),
            settings: Settings::default(),
            fit_disk: true,
            mark_interval: Duration::from_millis(5),
            linger: Linger::default(),
            batch_octets_max: 4 << 20,
            queued_octets_max: 64 << 20,
            reads_max: 32,
            retry_interval: Duration::from_secs(1),
            house_octets_per_s: 256 << 20,
        }
    }
}

/// The spool's figures at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// The log's own.
    pub log: LogStats,
    /// Messages made durable.
    pub appended_messages: u64,
    /// Octets of head and body made durable, a shared body once a message.
    pub appended_octets: u64,
    /// Appends refused because their commit failed.
    pub failed_messages: u64,
    /// Marks made durable.
    pub marks: u64,
    /// Transactions waiting for the writer now.
    pub queued: usize,
    /// How often somebody found the writer's inbox locked.
    pub lock_waits: u64,
    /// Transactions in the newest commit.
    pub last_batch: usize,
    /// Finished deliveries that a kill of the process would repeat, because the file of recent ones could not be written.
    pub hints_failed: u64,
    /// Messages given up because they do not read; what is left of them is in `corrupt/`.
    pub set_aside_messages: u64,
    /// True while no segment can be opened and appends are refused.
    pub stopped: bool,
}
