//! What `init` asks to be started, collected option struct by option struct.

use config::{
    AcctLog, BounceClassifier, DmarcReports, EsmtpListener, EventStream, HttpListener, LocalLogs, LogDispositionHook,
    LogHook, OtlpMetrics, RedisThrottles, SpawnTask, SpoolOptions, TlsReports,
};
use policy::Startup;

/// One entry of [`Startup`]; lets the `kumo` functions share their code.
pub(crate) trait StartupEntry: Sized {
    /// Puts it where it belongs; what is wrong when it may stand there only once.
    fn add_to(self, startup: &mut Startup) -> Result<(), &'static str>;
}

impl StartupEntry for SpoolOptions {
    fn add_to(self, startup: &mut Startup) -> Result<(), &'static str> {
        startup.spools.push(self);
        Ok(())
    }
}

impl StartupEntry for EsmtpListener {
    fn add_to(self, startup: &mut Startup) -> Result<(), &'static str> {
        startup.esmtp_listeners.push(self);
        Ok(())
    }
}

impl StartupEntry for HttpListener {
    fn add_to(self, startup: &mut Startup) -> Result<(), &'static str> {
        startup.http_listeners.push(self);
        Ok(())
    }
}

impl StartupEntry for LocalLogs {
    fn add_to(self, startup: &mut Startup) -> Result<(), &'static str> {
        startup.local_logs.push(self);
        Ok(())
    }
}

impl StartupEntry for AcctLog {
    fn add_to(self, startup: &mut Startup) -> Result<(), &'static str> {
        match startup.acct_log.replace(self) {
            None => Ok(()),
            Some(_) => Err("it was configured before"),
        }
    }
}

impl StartupEntry for LogHook {
    fn add_to(self, startup: &mut Startup) -> Result<(), &'static str> {
        if startup.log_hooks.iter().any(|hook| hook.name == self.name) {
            return Err("a hook of that name was configured before");
        }
        startup.log_hooks.push(self);
        Ok(())
    }
}

impl StartupEntry for EventStream {
    fn add_to(self, startup: &mut Startup) -> Result<(), &'static str> {
        if startup.event_streams.iter().any(|stream| stream.name == self.name) {
            return Err("a stream of that name was configured before");
        }
        if startup.event_streams.len() >= EVENT_STREAMS_MAX {
            return Err("64 streams were configured before: expected at most so many");
        }
        startup.event_streams.push(self);
        Ok(())
    }
}

impl StartupEntry for OtlpMetrics {
    fn add_to(self, startup: &mut Startup) -> Result<(), &'static str> {
        match startup.otlp_metrics.replace(self) {
            None => Ok(()),
            Some(_) => Err("it was configured before"),
        }
    }
}

impl StartupEntry for DmarcReports {
    fn add_to(self, startup: &mut Startup) -> Result<(), &'static str> {
        match startup.dmarc_reports.replace(self) {
            None => Ok(()),
            Some(_) => Err("it was configured before"),
        }
    }
}

impl StartupEntry for TlsReports {
    fn add_to(self, startup: &mut Startup) -> Result<(), &'static str> {
        match startup.tls_reports.replace(self) {
            None => Ok(()),
            Some(_) => Err("it was configured before"),
        }
    }
}

impl StartupEntry for LogDispositionHook {
    fn add_to(self, startup: &mut Startup) -> Result<(), &'static str> {
        if startup.log_disposition_hooks.iter().any(|hook| hook.name == self.name) {
            return Err("a hook of that name was configured before");
        }
        startup.log_disposition_hooks.push(self);
        Ok(())
    }
}

impl StartupEntry for BounceClassifier {
    fn add_to(self, startup: &mut Startup) -> Result<(), &'static str> {
        match startup.bounce_classifier.replace(self) {
            None => Ok(()),
            Some(_) => Err("it was configured before; name all files in one call"),
        }
    }
}

impl StartupEntry for SpawnTask {
    fn add_to(self, startup: &mut Startup) -> Result<(), &'static str> {
        startup.tasks.push(self);
        Ok(())
    }
}

impl StartupEntry for RedisThrottles {
    fn add_to(self, startup: &mut Startup) -> Result<(), &'static str> {
        match startup.redis_throttles.replace(self) {
            None => Ok(()),
            Some(_) => Err("it was configured before; there is one server for all throttles"),
        }
    }
}

/// Most event streams: each has a thread.
const EVENT_STREAMS_MAX: usize = 64;
