//! What a policy asks to be started, as `init` collected it.

use config::{
    AcctLog, AclSettings, BounceClassifier, DmarcReports, DnsSettings, EsmtpListener, EventStream, HttpListener,
    LocalLogs, LogDispositionHook, LogHook, MemoryLimits, MinFree, OtlpMetrics, RedisThrottles, SpawnTask,
    SpoolOptions, ThrottleSpec, TlsReports,
};

/// Listeners, spools and logs of one process; nothing is started before `init` is over.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Startup {
    /// `kumo.define_spool`, by name.
    pub spools: Vec<SpoolOptions>,
    /// `kumo.start_esmtp_listener`.
    pub esmtp_listeners: Vec<EsmtpListener>,
    /// `kumo.start_http_listener`.
    pub http_listeners: Vec<HttpListener>,
    /// `kumo.configure_local_logs`.
    pub local_logs: Vec<LocalLogs>,
    /// `kumo.aaa.configure_acct_log`.
    pub acct_log: Option<AcctLog>,
    /// `kumo.aaa.set_acl_cache_ttl` and `kumo.aaa.set_fall_back_to_acl_map`.
    pub acls: AclSettings,
    /// `kumo.configure_log_hook`.
    pub log_hooks: Vec<LogHook>,
    /// `kumo.configure_event_stream`.
    pub event_streams: Vec<EventStream>,
    /// `kumo.configure_otlp_metrics`.
    pub otlp_metrics: Option<OtlpMetrics>,
    /// `kumo.configure_dmarc_reports`.
    pub dmarc_reports: Option<DmarcReports>,
    /// `kumo.configure_tls_reports`.
    pub tls_reports: Option<TlsReports>,
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
    /// `kumo.set_httpinject_recipient_rate_limit`.
    pub injection_rate: Option<ThrottleSpec>,
    /// `tsa.configure_tsa_db_path`: of the traffic shaping daemon.
    pub tsa_db_path: Option<String>,
    /// `kumo.set_diagnostic_log_filter`.
    pub diagnostic_filter: Option<String>,
    /// `kumo.set_config_monitor_globs`; the default when absent.
    pub config_monitor_globs: Option<Vec<String>>,
}

impl Startup {
    /// What of `other` cannot take the place of this while the program runs, as scripts call it.
    pub fn needs_restart_for(&self, other: &Startup) -> Vec<String> {
        let nothing = MinFree::Percent(0);
        let without_limits =
            |spool: &SpoolOptions| SpoolOptions { min_free_space: nothing, min_free_inodes: nothing, ..spool.clone() };
        let spools = |startup: &Startup| startup.spools.iter().map(without_limits).collect::<Vec<_>>();
        let parts = [
            ("define_spool (but for min_free_space and min_free_inodes)", spools(self) != spools(other)),
            ("aaa.configure_acct_log", self.acct_log != other.acct_log),
            ("configure_otlp_metrics", self.otlp_metrics != other.otlp_metrics),
            ("configure_dmarc_reports", self.dmarc_reports != other.dmarc_reports),
            ("configure_tls_reports", self.tls_reports != other.tls_reports),
            ("configure_redis_throttles", self.redis_throttles != other.redis_throttles),
            ("spawn_task", self.tasks != other.tasks),
            ("set_memory_hard_limit and its sisters", self.memory != other.memory),
            ("dns.configure_resolver and its sisters", self.dns != other.dns),
            ("set_config_monitor_globs", self.config_monitor_globs != other.config_monitor_globs),
        ];
        named(&parts)
    }

    /// What this asks for that only the mail server has, as scripts call it.
    pub fn of_the_mail_server(&self) -> Vec<String> {
        let parts = [
            ("define_spool", !self.spools.is_empty()),
            ("start_esmtp_listener", !self.esmtp_listeners.is_empty()),
            ("configure_local_logs", !self.local_logs.is_empty()),
            ("configure_log_hook", !self.log_hooks.is_empty()),
            ("configure_event_stream", !self.event_streams.is_empty()),
            ("configure_otlp_metrics", self.otlp_metrics.is_some()),
            ("configure_dmarc_reports", self.dmarc_reports.is_some()),
            ("configure_tls_reports", self.tls_reports.is_some()),
            ("configure_log_disposition_hook", !self.log_disposition_hooks.is_empty()),
            ("configure_bounce_classifier", self.bounce_classifier.is_some()),
            ("configure_redis_throttles", self.redis_throttles.is_some()),
            ("spawn_task", !self.tasks.is_empty()),
            ("suspend_delivery_when_spool_unhealthy", self.delivers_when_spool_unhealthy),
            ("set_httpinject_recipient_rate_limit", self.injection_rate.is_some()),
        ];
        named(&parts)
    }
}

/// The parts that are so.
fn named(parts: &[(&str, bool)]) -> Vec<String> {
    parts.iter().filter(|(_, is_so)| *is_so).map(|(part, _)| format!("kumo.{part}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::{HostPort, ListenerParams};

    #[test]
    fn what_can_change_in_a_running_program_needs_no_restart() {
        let at = |port, banner: &str| EsmtpListener {
            listen: HostPort { host: "127.0.0.1".to_owned(), port },
            params: ListenerParams { banner: banner.to_owned(), ..ListenerParams::default() },
            ..EsmtpListener::default()
        };
        let running = Startup { esmtp_listeners: vec![at(25, "a")], ..Startup::default() };
        let same = Startup { esmtp_listeners: vec![at(25, "b")], ..Startup::default() };
        assert!(running != same && running.needs_restart_for(&same).is_empty());
        let other = Startup { esmtp_listeners: vec![at(26, "a")], ..Startup::default() };
        let other = Startup { memory: MemoryLimits { hard: Some(1), ..MemoryLimits::default() }, ..other };
        let parts = running.needs_restart_for(&other).join("; ");
        assert_eq!(parts, "kumo.set_memory_hard_limit and its sisters");
        assert_eq!(other.of_the_mail_server(), ["kumo.start_esmtp_listener"]);
        let spool =
            |path: &str, min_free_space| SpoolOptions { path: path.into(), min_free_space, ..SpoolOptions::default() };
        let on = |spool: SpoolOptions| Startup { spools: vec![spool], ..Startup::default() };
        let running = on(spool("/a", MinFree::Percent(5)));
        assert!(running.needs_restart_for(&on(spool("/a", MinFree::Percent(6)))).is_empty());
        assert_eq!(running.needs_restart_for(&on(spool("/b", MinFree::Percent(5)))).len(), 1);
    }
}
