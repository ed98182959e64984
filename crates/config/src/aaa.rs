//! The options of `kumo.aaa`: the accounting log, and how lists of rules are looked for.
//!
//! Owns [`AcctLog`] and [`AclSettings`]. Writing is the telemetry crate's, deciding the access crate's.

use crate::duration::Duration;
use crate::logs::{LocalLogs, check_compression_level, check_log_dir};
use crate::min_free::MinFree;
use crate::options::options;
use std::path::PathBuf;

options! {
    /// `kumo.aaa.configure_acct_log`
    pub struct AcctLog check check_acct_log {
        /// The directory of segments, which are called `acct-` and the time.
        log_dir: PathBuf;
        /// Records waiting before requests are refused and clients that log in must wait.
        back_pressure: usize = 128_000, min 1;
        /// zstd level 1-21; 0 is the library's default.
        compression_level: i32 = 0;
        /// Close a segment at this size (uncompressed bytes).
        max_file_size: u64 = 1_000_000_000, min 1;
        /// Close a segment after this time; never by time when absent.
        max_segment_duration: Option<Duration> = None;
        /// Below it reception is refused: `"N%"` or bytes.
        min_free_space: MinFree = MinFree::Percent(10);
        /// The same for inodes: `"N%"` or a count.
        min_free_inodes: MinFree = MinFree::Percent(10);
        /// Log what a rule allowed.
        log_authz_allow: bool = true;
        /// Log what none did.
        log_authz_deny: bool = true;
        /// Log who proved who they are.
        log_authn_ok: bool = true;
        /// Log who failed to.
        log_authn_fail: bool = true;
    }
}

/// `kumo.aaa.set_acl_cache_ttl` and its sisters.
#[derive(Clone, Debug, PartialEq)]
pub struct AclSettings {
    /// How long what `get_acl_definition` says of a resource holds.
    pub cache_ttl: Duration,
    /// Whether built-in lists decide where it says nothing.
    pub falls_back: bool,
}

impl Default for AclSettings {
    fn default() -> AclSettings {
        AclSettings { cache_ttl: Duration::from_secs(CACHE_TTL_SECS), falls_back: true }
    }
}

impl AcctLog {
    /// The segments, as those of a log.
    pub fn segments(&self) -> LocalLogs {
        LocalLogs {
            log_dir: self.log_dir.clone(),
            back_pressure: self.back_pressure,
            compression_level: self.compression_level,
            max_file_size: self.max_file_size,
            max_segment_duration: self.max_segment_duration,
            min_free_space: self.min_free_space,
            min_free_inodes: self.min_free_inodes,
            // Nobody looks for mail there.
            index: false,
            ..LocalLogs::default()
        }
    }
}

fn check_acct_log(log: &AcctLog) -> Result<(), String> {
    check_log_dir(&log.log_dir)?;
    check_compression_level(log.compression_level)
}

/// KumoMTA's default.
const CACHE_TTL_SECS: u64 = 300;
