//! STARTTLS (RFC 3207), and what must not survive it.
//!
//! Plaintext behind the command in the same input is an injection (CVE-2011-0411 and its kin) or a
//! client that does not know RFC 3207, which forbids it: the session answers 554 in the
//! clear, throws the octets away and closes. Throwing away and going on, as others do, would
//! hide an attack from both ends. So at [`crate::Step::StartTls`] the driver's buffer
//! is empty, and what comes next off the wire is the handshake's.
//!
//! After the handshake the session begins anew: no greeting name, no transaction.

use crate::question::TlsInfo;
use crate::reject::Concerned;
use crate::session::{Phase, Session};
use crate::texts;
use clock::Instant;

impl Session {
    /// `more`: input follows the command line.
    pub(crate) fn starttls(&mut self, more: bool) {
        if self.tls.is_some() {
            return self.refuse_junk(texts::reply(texts::TLS_TWICE));
        }
        if !self.settings.tls_available {
            return self.refuse_junk(texts::reply(texts::TLS_UNAVAILABLE));
        }
        if more {
            return self.close_with(texts::reply(texts::TLS_INJECTION), Concerned::nobody());
        }
        self.phase = Phase::Tls;
        self.say(220, "Ready to Start TLS");
    }

    /// The connection is under TLS from its first octet on (RFC 8314 section 3.3). To be called before anything else.
    pub fn under_tls(&mut self, now: Instant, tls: TlsInfo) {
        self.last_progress = now;
        self.tls = Some(tls);
    }

    /// The handshake asked for by [`crate::Step::StartTls`] succeeded. When it fails there is
    /// nothing to call: drop the session and the connection.
    pub fn tls_started(&mut self, now: Instant, tls: TlsInfo) {
        assert!(matches!(self.phase, Phase::Tls), "tls_started without Step::StartTls");
        self.last_progress = now;
        self.transaction = None;
        self.hello = None;
        self.tls = Some(tls);
        self.phase = Phase::Command;
        self.stop_if_asked();
    }
}
