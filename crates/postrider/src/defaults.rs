//! What runs when nobody wrote a policy: one loopback listener that relays for this machine.

use crate::privileges;
use config::{EsmtpListener, HttpListener, LocalLogs, SpoolOptions};
use policy::Startup;
use queue::schedule;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Safe defaults below `state`: SMTP on 127.0.0.1:2025, HTTP on 127.0.0.1:8000, relay for
/// loopback only.
pub fn startup(state: &Path, smtp: &str, http: &str) -> Result<Startup, config::ConfigError> {
    let listener = json!({"listen": smtp});
    let spool = |name: &str| {
        config::parse::<SpoolOptions>("kumo.define_spool", json!({"name": name, "path": state.join("spool")}))
    };
    let logs = json!({"log_dir": state.join("log"), "max_segment_duration": "10s"});
    Ok(Startup {
        spools: vec![spool("data")?, spool("meta")?],
        esmtp_listeners: vec![config::parse::<EsmtpListener>("kumo.start_esmtp_listener", listener)?],
        http_listeners: vec![config::parse::<HttpListener>("kumo.start_http_listener", json!({"listen": http}))?],
        local_logs: vec![config::parse::<LocalLogs>("kumo.configure_local_logs", logs)?],
        ..Startup::default()
    })
}

/// What the operator's tools assume: the spool of `postrider serve`, what it keeps beside a message as the server keeps it.
pub fn tools() -> cli::Defaults {
    let spool_dir = state_dir(privileges::is_root()).join("spool");
    cli::Defaults { spool_dir, queue_of: |envelope, meta| schedule::label_for(envelope, meta).unwrap_or_default() }
}

/// Where state is kept: `/var/lib/postrider` for root, else the XDG state directory.
pub fn state_dir(is_root: bool) -> PathBuf {
    if is_root {
        return PathBuf::from("/var/lib/postrider");
    }
    let home = || std::env::var_os("HOME").map_or_else(|| PathBuf::from("."), PathBuf::from);
    let base = std::env::var_os("XDG_STATE_HOME").map_or_else(|| home().join(".local/state"), PathBuf::from);
    base.join("postrider")
}
