//! What `init` asks to be started, collected option struct by option struct.

use config::{EsmtpListener, HttpListener, LocalLogs, SpoolOptions};
use policy::Startup;

/// One entry of [`Startup`]; lets the `kumo` functions share their code.
pub(crate) trait StartupEntry: Sized {
    /// Puts it where it belongs.
    fn add_to(self, startup: &mut Startup);
}

impl StartupEntry for SpoolOptions {
    fn add_to(self, startup: &mut Startup) {
        startup.spools.push(self);
    }
}

impl StartupEntry for EsmtpListener {
    fn add_to(self, startup: &mut Startup) {
        startup.esmtp_listeners.push(self);
    }
}

impl StartupEntry for HttpListener {
    fn add_to(self, startup: &mut Startup) {
        startup.http_listeners.push(self);
    }
}

impl StartupEntry for LocalLogs {
    fn add_to(self, startup: &mut Startup) {
        startup.local_logs.push(self);
    }
}
