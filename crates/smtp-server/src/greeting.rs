//! The banner, and clients that talk before it.
//!
//! A client that sends before it was greeted is not a mail client but a script that shouts into
//! sockets (or an HTTP request sent across); it gets 554 and is cut (RFC 5321 section 3.1 has the
//! server speak first). The driver may notice such octets with a read before it writes
//! the banner, or not at all: then they count as ordinary input.

use crate::question::Question;
use crate::reject::Concerned;
use crate::session::{Awaiting, Phase, Session};
use crate::texts;
use clock::Instant;

impl Session {
    /// Begins the session: asks, or greets at once.
    pub(crate) fn begin(&mut self) {
        match self.settings.interest.connection_accepted {
            true => self.ask(Question::ConnectionAccepted, Awaiting::ConnectionAccepted),
            false => self.greet(),
        }
    }

    /// Says `220 HOST BANNER`.
    pub(crate) fn greet(&mut self) {
        let banner = format!("{} {}", self.settings.hostname, self.settings.banner);
        self.say(220, &banner);
    }

    /// The client sent octets before the banner was written. A no-op later on, or when
    /// [`crate::Settings::refuse_early_talk`] is off. An answer still to come is ignored then.
    pub fn early_talk(&mut self, now: Instant) {
        let early = matches!(self.phase, Phase::Greeting) && !self.banner_is_out();
        if early && self.settings.refuse_early_talk {
            self.last_progress = now;
            self.output.clear();
            self.said.clear();
            self.awaiting = None;
            self.close_with(texts::reply(texts::EARLY_TALK), Concerned::nobody());
        }
    }

    /// Input has come while the banner may not be out yet. True when commands may be read.
    pub(crate) fn leave_greeting(&mut self, now: Instant) -> bool {
        self.early_talk(now);
        let proceed = !matches!(self.phase, Phase::Closing) && self.awaiting.is_none();
        if proceed {
            self.phase = Phase::Command;
        }
        proceed
    }

    /// The driver has written what the session had to say first.
    fn banner_is_out(&self) -> bool {
        self.awaiting.is_none() && self.output.is_empty()
    }
}
