//! Whether mail is taken now: what the driver knows of memory and disk, said in SMTP.
//!
//! The driver tells a session what it sees ([`Session::set_admission`]) whenever it feeds it; MAIL
//! is judged by the newest word. What was begun may be finished, without more recipients while memory is short, until the driver
//! says that memory is out ([`Session::shed`]). Codes and texts are KumoMTA's where it has them: 421 4.3.2, the connection closed,
//! when this server takes nothing for now; 452 4.3.1 and 451 4.3.0 when it is the spool that cannot.

use crate::mail::Open;
use crate::reject::Concerned;
use crate::session::{Phase, Session};
use crate::settings::Settings;
use crate::texts;
use smtp_wire::Reply;

/// What becomes of a MAIL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Taken, unless it announces (SIZE=) more octets than memory has room for.
    Open {
        /// Octets there is room for.
        octets_max: u64,
    },
    /// Memory is short.
    LoadShedding,
    /// A disk has less free space or fewer free inodes than it shall have.
    DiskTooFull,
    /// The spool takes nothing because its disk is full.
    SpoolFull,
    /// The spool takes nothing because its disk fails.
    SpoolFailing,
}

impl Default for Admission {
    /// Everything is taken.
    fn default() -> Admission {
        Admission::Open { octets_max: u64::MAX }
    }
}

impl Settings {
    /// What a MAIL of `octets` (0: not announced) is refused with; `None` when it is taken. A 421 closes.
    pub fn refusal(&self, admission: Admission, octets: u64) -> Option<Reply> {
        let not_now = |what: &str| Reply::enhanced(421, texts::NOT_NOW, format!("{} {what}. Try later", self.hostname));
        match admission {
            Admission::Open { octets_max } if octets <= octets_max => None,
            Admission::Open { .. } => Some(texts::reply(texts::NO_ROOM_FOR_SIZE)),
            Admission::LoadShedding => Some(not_now("load shedding")),
            Admission::DiskTooFull => Some(not_now("disk is too full")),
            Admission::SpoolFull => Some(texts::reply(texts::SPOOL_FULL)),
            Admission::SpoolFailing => Some(texts::reply(texts::SPOOL_FAILING)),
        }
    }
}

impl Session {
    /// What MAIL is answered from now on. At first everything is taken.
    pub fn set_admission(&mut self, admission: Admission) {
        self.admission = admission;
    }

    /// Octets of content received in the open transaction, and octets of memory they hold.
    pub fn content_held(&self) -> (usize, usize) {
        self.transaction.as_ref().map_or((0, 0), |open| (open.content.len(), open.content.capacity()))
    }

    /// True while a transaction is received that holds memory: content, or recipients.
    pub fn is_receiving(&self) -> bool {
        let holds = |open: &Open| open.content.capacity() > 0 || !open.recipients.is_empty();
        let is_begun = matches!(self.phase, Phase::Data(_)) || self.transaction.as_ref().is_some_and(holds);
        is_begun && self.awaiting.is_none()
    }

    /// Memory is out: a transaction that holds some ends with `421 4.3.2`, its memory is given back and the session closes.
    /// True when there was one. A message already handed over stays what it is.
    pub fn shed(&mut self) -> bool {
        if !self.is_receiving() {
            return false;
        }
        let Some(reply) = self.settings.refusal(Admission::LoadShedding, 0) else { return false };
        let concerned = match self.transaction.take() {
            Some(open) => Concerned { sender: Some(open.sender), recipients: open.recipients },
            None => Concerned::nobody(),
        };
        self.close_with(reply, concerned);
        self.unasked();
        true
    }

    /// The reply to a MAIL that is not taken now.
    pub(crate) fn mail_refusal(&self, octets: Option<u64>) -> Option<Reply> {
        self.settings.refusal(self.admission, octets.unwrap_or_default())
    }
}
