//! What the operator chose for a path: timeouts by phase, TLS, extensions, credentials.
//!
//! One [`Settings`] is shared by all sessions of an egress path. Names and defaults are those
//! of KumoMTA's `make_egress_path`, where an option has one. Nothing here can fail.

use crate::Verp;
use clock::Duration;
use core::fmt;

/// Hard bound on the recipients of one transaction, whatever `max_recipients_per_batch` says:
/// all their commands and replies may be under way at once.
pub const RECIPIENTS_PER_TRANSACTION_MAX: usize = 1000;

/// How a session behaves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name to give in EHLO, HELO or LHLO.
    pub ehlo_domain: String,
    /// How long each phase may take.
    pub timeouts: Timeouts,
    /// Use PIPELINING when offered.
    pub enable_pipelining: bool,
    /// Send RSET between messages. A transaction that ended before its final dot is always
    /// reset, or the server would see a nested MAIL.
    pub enable_rset: bool,
    /// LMTP (RFC 2033): LHLO, and one reply per recipient after the final dot.
    pub use_lmtp: bool,
    /// Whether and how to use STARTTLS.
    pub tls: TlsMode,
    /// DNSSEC, an MTA-STS policy or the operator vouches for the name of this host; without, no `REQUIRETLS` is sent
    /// (RFC 8689 section 2).
    pub is_name_known: bool,
    /// The session is for mail with `REQUIRETLS`: a server that does not offer it is of no use.
    pub needs_requiretls: bool,
    /// KumoMTA's `opportunistic_tls_reconnect_on_failed_handshake`.
    pub reconnect_in_clear: bool,
    /// Send 8-bit content and non-ASCII addresses even to servers that do not offer to take them.
    pub ignore_8bit_checks: bool,
    /// RCPT commands of one transaction; more recipients go into further transactions.
    pub max_recipients_per_batch: usize,
    /// The sender names each recipient, which has a transaction of its own.
    pub verp: Option<Verp>,
    /// Authenticate; failing to is the end of the session.
    pub auth: Option<AuthPlain>,
}

/// Waiting times by phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For the 220 greeting.
    pub banner: Duration,
    /// For the reply to EHLO, HELO or LHLO.
    pub ehlo: Duration,
    /// For the reply to STARTTLS, and again for the handshake.
    pub starttls: Duration,
    /// For the reply to AUTH.
    pub auth: Duration,
    /// For the reply to MAIL.
    pub mail_from: Duration,
    /// For the reply to RCPT.
    pub rcpt_to: Duration,
    /// For the reply to DATA.
    pub data: Duration,
    /// For the reply to the final dot, counted from the last octet that could be written.
    pub data_dot: Duration,
    /// For the reply to RSET.
    pub rset: Duration,
    /// For the reply to QUIT.
    pub quit: Duration,
}

/// Credentials for AUTH PLAIN (RFC 4616), or LOGIN where that is not offered, and when they may be sent.
#[derive(Clone, PartialEq, Eq)]
pub struct AuthPlain {
    /// Who.
    pub username: String,
    /// The secret; never shown by `Debug`.
    pub password: String,
    /// Send it in clear.
    pub allow_without_tls: bool,
    /// Send it under TLS with a certificate that was not verified.
    pub allow_without_valid_certificate: bool,
}

/// KumoMTA's `enable_tls`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsMode {
    /// Use TLS when offered, and then with a verified certificate.
    #[default]
    Opportunistic,
    /// Use TLS when offered; any certificate; in clear when the handshake fails.
    OpportunisticInsecure,
    /// TLS with a verified certificate or nothing.
    Required,
    /// TLS with any certificate or nothing.
    RequiredInsecure,
    /// Never.
    Disabled,
}

impl TlsMode {
    /// True when the server's certificate must be verified.
    pub fn verifies(self) -> bool {
        matches!(self, TlsMode::Opportunistic | TlsMode::Required)
    }

    /// True when nothing may be sent in clear.
    pub fn is_required(self) -> bool {
        matches!(self, TlsMode::Required | TlsMode::RequiredInsecure)
    }
}

impl Settings {
    /// True when a session whose TLS failed may be tried again without.
    pub(crate) fn may_go_in_clear(&self) -> bool {
        match self.tls {
            TlsMode::OpportunisticInsecure => true,
            TlsMode::Opportunistic => self.reconnect_in_clear,
            TlsMode::Required | TlsMode::RequiredInsecure | TlsMode::Disabled => false,
        }
    }

    /// `max_recipients_per_batch` within reason.
    pub(crate) fn batch_limit(&self) -> usize {
        match self.verp {
            Some(_) => 1,
            None => self.max_recipients_per_batch.clamp(1, RECIPIENTS_PER_TRANSACTION_MAX),
        }
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            ehlo_domain: "localhost".to_owned(),
            timeouts: Timeouts::default(),
            enable_pipelining: true,
            enable_rset: true,
            use_lmtp: false,
            tls: TlsMode::default(),
            is_name_known: false,
            needs_requiretls: false,
            reconnect_in_clear: false,
            ignore_8bit_checks: false,
            max_recipients_per_batch: 100,
            verp: None,
            auth: None,
        }
    }
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            banner: Duration::from_secs(60),
            ehlo: Duration::from_secs(300),
            starttls: Duration::from_secs(5),
            auth: Duration::from_secs(60),
            mail_from: Duration::from_secs(300),
            rcpt_to: Duration::from_secs(300),
            data: Duration::from_secs(300),
            data_dot: Duration::from_secs(300),
            rset: Duration::from_secs(5),
            quit: Duration::from_secs(5),
        }
    }
}

impl fmt::Debug for AuthPlain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthPlain")
            .field("username", &self.username)
            .field("allow_without_tls", &self.allow_without_tls)
            .field("allow_without_valid_certificate", &self.allow_without_valid_certificate)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_batch_limit_is_bounded() {
        for (asked, limit) in [(0, 1), (1, 1), (1000, 1000), (1001, 1000), (usize::MAX, 1000)] {
            assert_eq!(Settings { max_recipients_per_batch: asked, ..Settings::default() }.batch_limit(), limit);
        }
    }

    #[test]
    fn only_opportunistic_modes_go_in_clear() {
        for (tls, without_option, with_option) in [
            (TlsMode::Opportunistic, false, true),
            (TlsMode::OpportunisticInsecure, true, true),
            (TlsMode::Required, false, false),
            (TlsMode::RequiredInsecure, false, false),
            (TlsMode::Disabled, false, false),
        ] {
            let settings = |reconnect_in_clear| Settings { tls, reconnect_in_clear, ..Settings::default() };
            assert_eq!(settings(false).may_go_in_clear(), without_option, "{tls:?}");
            assert_eq!(settings(true).may_go_in_clear(), with_option, "{tls:?}");
        }
    }

    #[test]
    fn the_password_is_not_shown() {
        let auth = AuthPlain {
            username: "me".into(),
            password: "sesame".into(),
            allow_without_tls: false,
            allow_without_valid_certificate: false,
        };
        assert!(!format!("{auth:?}").contains("sesame"));
    }
}
