//! From the greeting to the first job: banner, EHLO (or HELO, LHLO), STARTTLS, AUTH.
//!
//! Every refusal on the way ends the session before it has a job, so that the driver can try the
//! next host. What a server said before TLS is forgotten under TLS.

use crate::TlsMode;
use crate::failure::Failure;
use crate::pipeline::Stage;
use crate::session::{Session, State, TlsStatus};
use clock::Instant;
use smtp_wire::{Capabilities, Reply};
use std::sync::Arc;

impl Session {
    /// Answer to [`Step::StartTls`](crate::Step::StartTls): the handshake is done. `verified`:
    /// the certificate is valid for the host, or DANE vouches for it.
    pub fn tls_started(&mut self, now: Instant, verified: bool) {
        if self.state != State::Handshake {
            return;
        }
        if self.settings.tls.verifies() && !verified {
            return self.tls_failed(now, "the certificate is not valid for this host");
        }
        self.tls = if verified { TlsStatus::Verified } else { TlsStatus::Unverified };
        self.capabilities = Capabilities::default();
        self.state = State::Greeting;
        self.pipeline.plan(Stage::Ehlo, 0);
        self.pump(now);
    }

    /// Answer to [`Step::StartTls`](crate::Step::StartTls): no TLS. The session is over;
    /// [`Closing::reconnect_in_clear`](crate::Closing::reconnect_in_clear) says whether the same
    /// host may be tried without.
    pub fn tls_failed(&mut self, _now: Instant, text: &str) {
        if self.state == State::Handshake {
            self.fail(Failure::TlsFailed(text.to_owned()));
        }
    }

    pub(crate) fn on_banner(&mut self, reply: Reply) {
        if !reply.is_success() {
            return self.fail_at(Stage::Banner, Failure::Refused(reply));
        }
        self.banner = Some(reply);
        self.pipeline.plan(Stage::Ehlo, 0);
    }

    pub(crate) fn on_ehlo(&mut self, reply: Reply) {
        if reply.is_success() {
            self.capabilities = Capabilities::from_ehlo(&reply);
            return self.after_hello();
        }
        // A server from before RFC 1869. Under TLS there is none: it knew EHLO a moment ago.
        if reply.is_permanent() && !self.settings.use_lmtp && !self.tls.is_on() {
            return self.pipeline.plan(Stage::Helo, 0);
        }
        self.fail_at(Stage::Ehlo, Failure::Refused(reply));
    }

    pub(crate) fn on_helo(&mut self, reply: Reply) {
        match reply.is_success() {
            true => self.after_hello(),
            false => self.fail_at(Stage::Helo, Failure::Refused(reply)),
        }
    }

    pub(crate) fn on_starttls(&mut self, reply: Reply) {
        if reply.code == 220 {
            self.state = State::Handshake;
        } else if reply.code / 100 != 2 && self.settings.may_go_in_clear() {
            self.tls = TlsStatus::Refused(Arc::new(reply));
            self.after_tls();
        } else {
            self.fail_at(Stage::StartTls, Failure::Refused(reply));
        }
    }

    pub(crate) fn on_auth(&mut self, stage: Stage, reply: Reply) {
        match reply.is_success() {
            true => self.state = State::Open,
            false => self.fail_at(stage, Failure::Refused(reply)),
        }
    }

    /// The server asks for the next part of AUTH LOGIN.
    pub(crate) fn on_auth_challenge(&mut self, stage: Stage, next: Stage, reply: Reply) {
        match reply.code {
            334 => self.pipeline.plan(next, 0),
            _ => self.fail_at(stage, Failure::Refused(reply)),
        }
    }

    fn after_hello(&mut self) {
        if self.settings.needs_requiretls && self.tls.is_on() && !self.capabilities.requiretls {
            return self.fail_at(Stage::Ehlo, Failure::RequireTlsUnavailable);
        }
        let wanted = self.settings.tls != TlsMode::Disabled && !self.tls.is_on();
        if wanted && self.capabilities.starttls {
            self.pipeline.plan(Stage::StartTls, 0);
        } else if wanted && self.settings.tls.is_required() {
            self.fail_at(Stage::StartTls, Failure::TlsUnavailable);
        } else {
            self.after_tls();
        }
    }

    fn after_tls(&mut self) {
        let Some(auth) = &self.settings.auth else {
            self.state = State::Open;
            return;
        };
        // Both send the password as it is; PLAIN does so in one step.
        let stage = match (self.capabilities.offers_auth("PLAIN"), self.capabilities.offers_auth("LOGIN")) {
            (true, _) => Some(Stage::Auth),
            (false, true) => Some(Stage::AuthLogin),
            (false, false) => None,
        };
        let obstacle = match self.tls {
            _ if stage.is_none() => Some("the server offers neither AUTH PLAIN nor LOGIN"),
            TlsStatus::Clear | TlsStatus::Refused(_) if !auth.allow_without_tls => {
                Some("AUTH PLAIN and LOGIN need TLS")
            }
            TlsStatus::Unverified if !auth.allow_without_valid_certificate => {
                Some("AUTH PLAIN and LOGIN need a valid certificate")
            }
            _ => None,
        };
        match (obstacle, stage) {
            (None, Some(stage)) => self.pipeline.plan(stage, 0),
            (obstacle, _) => self.fail_at(Stage::Auth, Failure::AuthUnavailable(obstacle.unwrap_or_default())),
        }
    }
}
