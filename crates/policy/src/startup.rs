//! What a policy asks to be started, as `init` collected it.

use config::{
    BounceClassifier, DnsSettings, EsmtpListener, HttpListener, LocalLogs, LogDispositionHook, MemoryLimits,
    RedisThrottles, SpawnTask, SpoolOptions,
};

/// Listeners, spools and logs of one process; nothing is started before `init` is over.
#[derive(Clone, Debug, Default)]
pub struct Startup {
    /// `kumo.define_spool`, by name.
    pub spools: Vec<SpoolOptions>,
    /// `kumo.start_esmtp_listener`.
    pub esmtp_listeners: Vec<EsmtpListener>,
    /// `kumo.start_http_listener`.
    pub http_listeners: Vec<HttpListener>,
    /// `kumo.configure_local_logs`.
    pub local_logs: Vec<LocalLogs>,
    /// `kumo.configure_log_disposition_hook`.
    pub log_disposition_hooks: Vec<LogDispositionHook>,
    /// `kumo.configure_bounce_classifier`.
    pub bounce_classifier: Option<BounceClassifier>,
    /// `kumo.configure_redis_throttles`.
    pub redis_throttles: Option<RedisThrottles>,
    /// `kumo.spawn_task`.
    pub tasks: Vec<SpawnTask>,
    /// `kumo.set_memory_hard_limit` and its sisters.
    pub memory: MemoryLimits,
    /// `kumo.dns.configure_resolver` and its sisters.
    pub dns: DnsSettings,
    /// `kumo.suspend_delivery_when_spool_unhealthy(false)`: delivery goes on while the spool fails.
    pub delivers_when_spool_unhealthy: bool,
}
