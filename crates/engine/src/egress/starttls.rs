//! TLS of one outbound session: whether to ask for it, with what, and what its failure means for the site.
//!
//! In: the path, what is remembered of the site, the end of the session. Out: the session's mode, a connector, and how
//! the session ended where TLS has a say in that. A fault in our own options fails the attempt by name: it is never
//! held against the site, and never a reason to go on in clear.

use crate::egress::broken_tls::{BrokenTls, memory};
use crate::egress::carriage::Carriage;
use crate::egress::connection::Ended;
use crate::egress::security::Security;
use crate::engine::Engine;
use config::{EgressPath, EnableTls};
use net::tls_client::{ClientTls, Verification};
use queue::Opening;
use smtp_client::{CloseReason, Closing, Phase, TlsMode};
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;
use tokio_rustls::TlsConnector;

/// What one session knows of TLS with its site.
pub(super) struct SiteTls {
    site: String,
    security: Security,
    known_broken: bool,
    /// Why our own side cannot do TLS.
    fault: Option<String>,
}

impl SiteTls {
    pub fn new(engine: &Engine, opening: &Opening, security: Security) -> SiteTls {
        // All sources learn from one; lists of equal label and other addresses are other sites.
        let exchangers = Carriage::exchangers(&opening.leg.destination);
        let site = exchangers.map_or_else(|| opening.ready_name.to_string(), |e| e.site_name().to_owned());
        let known_broken = engine.broken_tls().is_known(engine.clock.mono(), &site);
        SiteTls { site, security, known_broken, fault: None }
    }

    /// How the session is to use TLS; `allowed` is false when this host is tried again in clear.
    pub fn mode(&self, allowed: bool) -> TlsMode {
        mode(self.security.enable_tls, allowed && !self.known_broken)
    }

    /// What mail with REQUIRETLS asks of the session: whether the host's name is known, whether it must offer it.
    pub fn requiretls(&self) -> (bool, bool) {
        (self.security.is_name_known, self.security.needs_requiretls)
    }

    /// True when a handshake that succeeds has verified the server.
    pub fn verifies(&self) -> bool {
        self.security.verification != Verification::Any
    }

    /// The name by which TLS addresses the host called `host`.
    pub fn server_name<'a>(&'a self, host: &'a str) -> &'a str {
        self.security.server_name.as_deref().unwrap_or(host)
    }

    /// A connector as the path wants it; `None` when its options are at fault, and then the session has to end.
    pub async fn connector(&mut self, engine: &Engine, path: &EgressPath) -> Option<TlsConnector> {
        let made = match ClientTls::of(path) {
            Ok(wanted) => {
                let wanted = ClientTls { verification: self.security.verification.clone(), ..wanted };
                engine.connectors.get(engine.clock.mono(), &wanted).await
            }
            Err(error) => Err(error),
        };
        match made {
            Ok(connector) => Some(connector),
            Err(error) => {
                tracing::error!("make_egress_path: no TLS with {}: {error}", self.site);
                self.fault = Some(error.to_string());
                None
            }
        }
    }

    /// The certificate and key of the path are not read in time.
    pub fn not_read(&mut self, limit: Duration) {
        tracing::error!(
            "make_egress_path: no TLS with {}: certificate and key are not read within {limit:?}",
            self.site
        );
        self.fault = Some(format!("its certificate and key are not read within {limit:?}"));
    }

    /// True where its end says something of this site for all mail: what a message or a domain demands beyond the path's own wish
    /// (REQUIRETLS, a certificate that vouches for more) is no reason to send others' mail in clear.
    fn teaches(&self) -> bool {
        self.security.demanded_by.is_none()
    }

    /// Learns from the end of the session. Gives the session's end where that is another than the session knows of.
    pub fn ended(&self, engine: &Engine, path: &EgressPath, closing: &Closing, under_tls: bool) -> Option<Ended> {
        if let Some(fault) = &self.fault {
            return Some(Ended::Refused(format!("TLS cannot be used: {fault}")));
        }
        // At a stop we break sessions ourselves.
        if engine.stop.is_draining() {
            return None;
        }
        let demand = self.security.demanded_by.as_ref().filter(|_| is_about_tls(closing, under_tls));
        let demanded = demand.map(|by| format!("{}; TLS is demanded by {by}", closing.reply));
        if !is_tls_trouble(closing, under_tls) {
            return demanded.map(Ended::Refused);
        }
        if let Some(duration) = memory(path).filter(|_| self.teaches()) {
            engine.broken_tls().note(engine.clock.mono(), &self.site, duration);
            tracing::info!("TLS with {} is broken, remembered for {duration:?}: {}", self.site, closing.reply);
        }
        let must_fail = self.known_broken && mode(self.security.enable_tls, true).is_required();
        if !must_fail {
            return demanded.map(Ended::Refused);
        }
        tracing::error!("TLS with {} is required and known to be broken: {}", self.site, closing.reply);
        let text = demanded.unwrap_or_else(|| closing.reply.to_string());
        Some(Ended::Refused(format!("{text}; TLS with this site is known to be broken")))
    }
}

impl Engine {
    pub(super) fn broken_tls(&self) -> MutexGuard<'_, BrokenTls> {
        self.broken_tls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The session's mode. Required TLS stays required whatever is known of the site: a server that was mended is found
/// out by trying.
pub(super) fn mode(enable_tls: EnableTls, tls_wanted: bool) -> TlsMode {
    match enable_tls {
        EnableTls::Required => TlsMode::Required,
        EnableTls::RequiredInsecure => TlsMode::RequiredInsecure,
        EnableTls::Opportunistic if tls_wanted => TlsMode::Opportunistic,
        EnableTls::OpportunisticInsecure if tls_wanted => TlsMode::OpportunisticInsecure,
        EnableTls::Opportunistic | EnableTls::OpportunisticInsecure | EnableTls::Disabled => TlsMode::Disabled,
    }
}

/// True when the session ended for want of TLS, whoever's fault it is.
fn is_about_tls(closing: &Closing, under_tls: bool) -> bool {
    let before_tls = closing.phase == Phase::StartTls || closing.why == CloseReason::TlsUnavailable;
    before_tls || is_tls_trouble(closing, under_tls)
}

/// True when the handshake failed, or the EHLO after it.
fn is_tls_trouble(closing: &Closing, under_tls: bool) -> bool {
    closing.why == CloseReason::TlsFailed || (under_tls && closing.phase == Phase::Ehlo)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn only_opportunistic_modes_do_without() {
        for (enabled, wanted, unwanted) in [
            (EnableTls::Opportunistic, TlsMode::Opportunistic, TlsMode::Disabled),
            (EnableTls::OpportunisticInsecure, TlsMode::OpportunisticInsecure, TlsMode::Disabled),
            (EnableTls::Required, TlsMode::Required, TlsMode::Required),
            (EnableTls::RequiredInsecure, TlsMode::RequiredInsecure, TlsMode::RequiredInsecure),
            (EnableTls::Disabled, TlsMode::Disabled, TlsMode::Disabled),
        ] {
            assert_eq!((mode(enabled, true), mode(enabled, false)), (wanted, unwanted), "{enabled:?}");
        }
    }

    #[test]
    fn trouble_is_the_handshake_or_the_hello_behind_it() {
        let reply = Arc::new(smtp_wire::Reply::new(400, "broken"));
        let closing = |why, phase| Closing { why, phase, reply: reply.clone(), local: true, reconnect_in_clear: false };
        for (why, phase, under_tls, expected) in [
            (CloseReason::TlsFailed, Phase::StartTls, false, true),
            (CloseReason::ConnectionLost, Phase::Ehlo, true, true),
            (CloseReason::TimedOut, Phase::Ehlo, true, true),
            (CloseReason::ConnectionLost, Phase::Ehlo, false, false),
            // STARTTLS was answered 454: the server says itself that it cannot now.
            (CloseReason::Refused, Phase::StartTls, false, false),
            (CloseReason::TlsUnavailable, Phase::StartTls, false, false),
            (CloseReason::ConnectionLost, Phase::MailFrom, true, false),
            (CloseReason::Finished, Phase::Quit, true, false),
        ] {
            assert_eq!(is_tls_trouble(&closing(why, phase), under_tls), expected, "{why:?} {phase:?}");
        }
    }
}
