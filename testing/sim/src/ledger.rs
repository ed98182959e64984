//! The oracle's book: what everybody was told, and what follows from it.
//!
//! Written to by the world at each step that means something to a client, a peer or the spool;
//! knows nothing of queues or sessions. Every entry is checked against all earlier ones when it
//! is made, and the first contradiction is kept: later ones are mostly its consequences.
//! What a restart must show is in `ledger_restart.rs`.

use crate::constraints::end_of;
use clock::WallTime;
use message::{Envelope, MessageId, Sealed};
use queue::schedule::End;
use smtp_wire::Mailbox;
use spool::Mark;
use std::collections::BTreeMap;

/// The book.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Transactions, as clients see them.
    pub submissions: Vec<Submission>,
    /// Messages, as the server makes them.
    pub messages: BTreeMap<MessageId, Account>,
    /// Number of the life.
    pub life: u32,
    /// Microseconds since the simulation began.
    pub now: u64,
    /// Everything marked until then is synced, at the end of a life.
    pub synced_until: u64,
    /// Something on the disk was damaged on purpose.
    pub damage_done: bool,
    /// What went wrong first.
    pub violation: Option<String>,
    /// Deliveries of what was delivered before.
    pub duplicates: u64,
    /// Deliveries, all of them.
    pub deliveries: u64,
}

/// One transaction of a client.
#[derive(Debug)]
pub struct Submission {
    /// What the client knows.
    pub told: Told,
    /// Recipients for whom RCPT was answered 2xx.
    pub accepted: Vec<Mailbox>,
    /// Ids in the 250.
    pub ids: Vec<MessageId>,
}

/// What a client knows of its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Its content is not sent to the end.
    Nothing,
    /// All is sent and nothing was answered.
    Unknown,
    /// 250.
    Yes,
    /// 4xx or 5xx.
    No,
}

/// One message.
#[derive(Debug)]
pub struct Account {
    /// The transaction it is made of.
    pub submission: usize,
    /// The life in which it was made.
    pub life: u32,
    /// Recipients as sealed first.
    pub for_whom: Vec<Mailbox>,
    /// As sealed last: without those settled while it was in memory only.
    pub envelope: Envelope,
    /// Head and body as sealed.
    pub content: Vec<u8>,
    /// A receipt was made for it, or a restart showed it.
    pub durable: bool,
    /// It is known to be synced; after a kill a restart shows more than that.
    pub certain: bool,
    /// It was accepted into memory and no spool has it: a crash may lose it.
    pub volatile: bool,
    /// It was accepted like that.
    pub deferred: bool,
    /// A crash took it.
    pub lost: bool,
    /// Its record on the disk was damaged: it may be set aside.
    pub damaged: bool,
    /// A 250 with its id was written.
    pub promised: bool,
    /// Its commit failed or was taken back: it may or may not exist.
    pub limbo: bool,
    /// When it was made.
    pub made_at: u64,
    /// Its own end.
    pub end: Option<End>,
    /// Policy gave it a time at which it is too old.
    pub may_end_early: bool,
    /// Policy let it become ready, and nobody has tried it since.
    pub passed: bool,
    /// It was removed: in this life, or for good.
    pub gone: Gone,
    /// When it was marked as removed.
    pub gone_at: u64,
    /// Attempts and due time: first what is durable, then what was marked since.
    pub plans: Vec<Plan>,
    /// By number.
    pub recipients: Vec<Fate>,
}

/// How far the removal of a message got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// It is there.
    No,
    /// The mark was made.
    Marked,
    /// The mark is synced.
    Durably,
    /// It did not read and was given to the spool to be set aside.
    Aside,
}

/// When a message is to be tried next.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// When this was marked.
    pub at: u64,
    /// When it was made; 0 when a restart showed it.
    pub made: u64,
    /// Attempts made.
    pub attempts: u16,
    /// Not before then.
    pub due: WallTime,
}

/// What became of one recipient.
#[derive(Clone, Debug, Default)]
pub struct Fate {
    /// The life of the connection that delivered last, and whether its outcome was settled.
    pub delivered: Option<(u32, bool)>,
    /// The life in which the last final record was written.
    pub final_life: Option<u32>,
    /// When that was.
    pub final_at: u64,
    /// A peer took it in the attempt under way.
    pub taken_now: bool,
    /// And said so.
    pub honestly: bool,
    /// A mark that it is done was made in this life.
    pub done_marked: bool,
    /// Such a mark is synced.
    pub done_durably: bool,
}

impl Ledger {
    /// Notes a contradiction, if it is the first.
    pub fn violate(&mut self, what: impl Into<String>) {
        if self.violation.is_none() {
            self.violation = Some(what.into());
        }
    }

    /// A client begins a transaction; its number.
    pub fn submit(&mut self) -> usize {
        self.submissions.push(Submission { told: Told::Nothing, accepted: Vec::new(), ids: Vec::new() });
        self.submissions.len() - 1
    }

    /// A message was made and is about to be appended.
    pub fn sealed(&mut self, submission: usize, sealed: &Sealed) {
        let account = Account {
            submission,
            life: self.life,
            for_whom: sealed.envelope.recipients.clone(),
            envelope: sealed.envelope.clone(),
            content: [&sealed.head[..], &sealed.body[..]].concat(),
            durable: false,
            certain: false,
            volatile: false,
            deferred: false,
            lost: false,
            damaged: false,
            promised: false,
            limbo: false,
            made_at: self.now,
            end: end_of(&sealed.meta),
            may_end_early: false,
            passed: false,
            gone: Gone::No,
            gone_at: 0,
            plans: vec![Plan { at: self.now, made: self.now, attempts: 0, due: sealed.due }],
            recipients: vec![Fate::default(); sealed.envelope.recipients.len()],
        };
        if self.messages.insert(sealed.id, account).is_some() {
            self.violate(format!("id {} was made twice", sealed.id));
        }
    }

    /// Policy lets a message become ready.
    pub fn passed(&mut self, id: MessageId) {
        self.account(id).into_iter().for_each(|account| account.passed = true);
    }

    /// Policy wants a message to wait until `due`: when that is behind its end, it ends now.
    pub fn may_end_early(&mut self, id: MessageId, due: WallTime) {
        let Some(account) = self.account(id) else { return };
        account.may_end_early = account.end.is_some_and(|end| due >= end.at);
    }

    /// The spool gave a receipt.
    pub fn durable(&mut self, id: MessageId) {
        if let Some(account) = self.account(id) {
            (account.durable, account.certain, account.volatile) = (true, true, false);
        }
    }

    /// A message that was accepted into memory is ours.
    pub fn kept_in_memory(&mut self, id: MessageId) {
        if let Some(account) = self.account(id) {
            (account.volatile, account.deferred) = (true, true);
        }
    }

    /// A message that was accepted into memory is about to be appended, with what is left of it.
    pub fn sealed_again(&mut self, sealed: &Sealed) {
        let at = self.now;
        let life = self.life;
        let Some(account) = self.account(sealed.id) else { return };
        let old = std::mem::replace(&mut account.envelope, sealed.envelope.clone());
        let fates = std::mem::take(&mut account.recipients);
        let (kept, left_out): (Vec<_>, Vec<_>) =
            old.recipients.into_iter().zip(fates).partition(|(r, _)| sealed.envelope.recipients.contains(r));
        account.recipients = kept.into_iter().map(|(_, fate)| fate).collect();
        account.plans = vec![Plan { at, made: at, attempts: 0, due: sealed.due }];
        let is_whole = [&sealed.head[..], &sealed.body[..]].concat() == account.content;
        let wrong = match left_out.iter().find(|(_, fate)| !fate.is_final(life)) {
            Some((recipient, _)) => Some(format!("is spooled without {recipient}, who is not settled")),
            None if account.recipients.iter().any(|fate| fate.is_final(life)) => {
                Some("is spooled with settled recipients".to_owned())
            }
            None if !account.volatile => Some("is spooled and is not in memory only".to_owned()),
            None if !is_whole => Some("is spooled with other content".to_owned()),
            None => None,
        };
        wrong.into_iter().for_each(|wrong| self.violate(format!("{} {wrong}", sealed.id)));
    }

    /// A message in memory only waits for its next attempt.
    pub fn put_off(&mut self, id: MessageId, attempts: u16, due: WallTime) {
        let at = self.now;
        if let Some(account) = self.account(id) {
            account.plans.push(Plan { at, made: at, attempts, due });
        }
    }

    /// A message in memory only is settled and forgotten.
    pub fn let_go(&mut self, id: MessageId) {
        let at = self.now;
        if let Some(account) = self.account(id) {
            (account.gone, account.gone_at) = (Gone::Marked, at);
        }
    }

    /// A message's octets on the disk are not what was written.
    pub fn damaged(&mut self, id: MessageId) {
        self.damage_done = true;
        if let Some(account) = self.account(id) {
            account.damaged = true;
        }
    }

    /// A message did not read, and leaves its queue.
    pub fn set_aside(&mut self, id: MessageId) {
        let Some(account) = self.account(id) else { return };
        let damaged = account.damaged;
        account.gone = Gone::Aside;
        if !damaged {
            self.violate(format!("{id} is set aside and nothing damaged it"));
        }
    }

    /// The life is over; after an orderly end nothing may be in memory only.
    pub fn life_over(&mut self, orderly: bool) {
        let mut forgotten = Vec::new();
        for (id, account) in self.messages.iter_mut().filter(|(_, a)| a.volatile && a.gone == Gone::No) {
            (account.volatile, account.lost) = (false, true);
            forgotten.push(*id);
        }
        if let Some(id) = forgotten.first().filter(|_| orderly) {
            self.violate(format!("{id} was in memory only when the server was stopped, and is lost"));
        }
    }

    /// The spool refused, or the engine took it back.
    pub fn in_limbo(&mut self, id: MessageId) {
        if let Some(account) = self.account(id) {
            account.limbo = true;
        }
    }

    /// A 250 with this id was written towards the client.
    pub fn promised(&mut self, id: MessageId) {
        if let Some(account) = self.account(id) {
            account.promised = true;
        }
    }

    /// An attempt begins for these recipients. A plan that was made before `flushed_until` may have been flushed: it counts
    /// no more, unless it is the first.
    pub fn begun(
        &mut self,
        (id, recipients): (MessageId, &[u16]),
        now: WallTime,
        flushed_until: Option<u64>,
        asks: bool,
    ) {
        let life = self.life;
        let Some(account) = self.account(id) else { return };
        let may_be_flushed = |plan: &&Plan| plan.attempts > 0 && flushed_until.is_some_and(|until| plan.made <= until);
        let due = account.plans.last().filter(|plan| !may_be_flushed(plan)).map_or(now, |plan| plan.due);
        let again = recipients.iter().find(|r| account.recipients[usize::from(**r)].is_final(life));
        let unasked = asks && !std::mem::take(&mut account.passed);
        let wrong = match (account.gone, again) {
            (Gone::No, None) if !account.is_ours() => Some("is tried before it is durable".to_owned()),
            (Gone::No, None) if now < due => Some(format!("is tried at {now:?}, before it is due at {due:?}")),
            (Gone::No, None) => match account.end.filter(|end| now >= end.at) {
                Some(end) => Some(format!("is tried at {now:?}, and ended at {:?}", end.at)),
                None if unasked => Some("is tried and policy was not asked".to_owned()),
                None => None,
            },
            (Gone::No, Some(r)) => Some(format!("is tried for recipient {r}, who is settled")),
            (_, _) => Some("is tried after it was removed".to_owned()),
        };
        if let Some(wrong) = wrong {
            self.violate(format!("{id} {wrong}"));
        }
    }

    /// A peer took responsibility for content for one recipient, on a connection of `life`;
    /// `honestly` when it answers 250.
    pub fn taken(&mut self, life: u32, recipient: &Mailbox, content: &[u8], honestly: bool) {
        self.deliveries += 1;
        let Some(id) = id_in(content) else { return self.violate("a peer got a message nobody made") };
        let Some(account) = self.messages.get_mut(&id) else { return self.violate(format!("{id} was never made")) };
        let submission = account.submission;
        let number = account.envelope.recipients.iter().position(|r| r.as_str() == recipient.as_str());
        let Some(number) = number else { return self.violate(format!("{id} is not for {recipient}")) };
        // A peer may have it all when a crash takes it from the server.
        let is_ours = account.is_ours() || account.lost;
        let fate = &mut account.recipients[number];
        let before = fate.delivered.replace((life, false));
        (fate.taken_now, fate.honestly) = (true, honestly);
        let wrong = match before {
            _ if account.content != content => Some("arrived with other content"),
            _ if !is_ours => Some("was delivered before it was durable"),
            _ if fate.done_durably => Some("was delivered again after its mark was synced"),
            _ if account.gone == Gone::Durably => Some("was delivered again after its removal was synced"),
            Some((then, true)) if then == life => Some("was delivered twice in one life, the first being settled"),
            _ => None,
        };
        let limbo = account.limbo;
        self.duplicates += u64::from(before.is_some());
        if let Some(wrong) = wrong {
            return self.violate(format!("{id} for {recipient} {wrong}"));
        }
        match self.submissions[submission].told {
            Told::Nothing => self.violate(format!("{id} was delivered and its client never sent it whole")),
            Told::No if !limbo => self.violate(format!("{id} was delivered and its client was refused")),
            _ => {}
        }
    }

    /// A session says that the peer refused this recipient.
    pub fn refused(&mut self, id: MessageId, recipient: u16) {
        let Some(account) = self.account(id) else { return };
        let fate = &account.recipients[usize::from(recipient)];
        if fate.taken_now && fate.honestly {
            self.violate(format!("{id} recipient {recipient}: the peer said 250 and the session heard a refusal"));
        }
    }

    /// The server believes that a peer took the message for this recipient.
    pub fn confirmed(&mut self, id: MessageId, recipient: u16) {
        let life = self.life;
        let Some(account) = self.account(id) else { return };
        match &mut account.recipients[usize::from(recipient)].delivered {
            Some((then, settled)) if *then == life => *settled = true,
            _ => self.violate(format!("{id} recipient {recipient} counts as delivered and no peer took it")),
        }
    }

    /// A recipient was put off.
    pub fn deferred(&mut self, id: MessageId, recipient: u16) {
        let Some(account) = self.account(id) else { return };
        account.recipients[usize::from(recipient)].taken_now = false;
    }

    /// A recipient was bounced, which a peer who took the message did not ask for.
    pub fn bounced(&mut self, id: MessageId, recipient: u16) {
        let Some(account) = self.account(id) else { return };
        if account.recipients[usize::from(recipient)].taken_now {
            self.violate(format!("{id} recipient {recipient} was bounced though it was delivered"));
        }
    }

    /// A final record was written: Delivery, Bounce or Expiration.
    pub fn finished(&mut self, id: MessageId, recipient: u16) {
        let (life, now) = (self.life, self.now);
        let Some(account) = self.account(id) else { return };
        let fate = &mut account.recipients[usize::from(recipient)];
        let again = fate.is_final(life) || account.gone == Gone::Durably;
        (fate.final_life, fate.final_at, fate.taken_now) = (Some(life), now, false);
        if again {
            self.violate(format!("{id} recipient {recipient} has two final records"));
        }
    }

    /// A mark was handed to the spool.
    pub fn marked(&mut self, mark: &Mark) {
        let at = self.now;
        let Some(account) = self.account(mark.id()) else { return };
        match mark {
            Mark::Attempt { attempts, due, .. } => {
                account.plans.push(Plan { at, made: at, attempts: *attempts, due: *due })
            }
            Mark::RecipientsDone { recipients, .. } => {
                let known = recipients.iter().filter(|r| (**r as usize) < account.recipients.len());
                let known: Vec<usize> = known.map(|r| *r as usize).collect();
                known.iter().for_each(|r| account.recipients[*r].done_marked = true);
                if known.len() < recipients.len() {
                    self.violate(format!("{} is marked for recipients it does not have", mark.id()));
                }
            }
            Mark::Removed { .. } => (account.gone, account.gone_at) = (Gone::Marked, at),
        }
    }

    /// A mark is synced.
    pub fn mark_synced(&mut self, mark: &Mark) {
        let Some(account) = self.account(mark.id()) else { return };
        match mark {
            Mark::Attempt { attempts, due, .. } => {
                let at = account.plans.iter().position(|p| p.attempts == *attempts && p.due == *due).unwrap_or(0);
                account.plans.drain(..at);
            }
            Mark::RecipientsDone { recipients, .. } => {
                let known = recipients.iter().map(|r| *r as usize).filter(|r| *r < account.recipients.len());
                known.collect::<Vec<_>>().into_iter().for_each(|r| account.recipients[r].done_durably = true);
            }
            Mark::Removed { .. } => account.gone = Gone::Durably,
        }
    }

    /// At the end: everybody who was promised something got it.
    pub fn close(&mut self) {
        let mut wrong = Vec::new();
        for (id, account) in &self.messages {
            let Account { durable, promised, gone, .. } = account;
            if *gone == Gone::Aside || account.lost {
                continue;
            }
            if *promised && !durable && !account.volatile {
                wrong.push(format!("{id} was promised and never durable"));
            }
            if account.is_ours() && *gone == Gone::No {
                wrong.push(format!("{id} was never removed"));
            }
            for (number, fate) in account.recipients.iter().enumerate() {
                // A message taken back was settled with nobody.
                if *promised && fate.final_life.is_none() {
                    wrong.push(format!("{id} recipient {number} was promised and has no final record"));
                }
            }
        }
        for (number, submission) in self.submissions.iter().enumerate().filter(|(_, s)| s.told == Told::Yes) {
            let accounts = submission.ids.iter().filter_map(|id| self.messages.get(id));
            let mut covered: Vec<&str> = accounts.flat_map(|a| a.for_whom.iter().map(Mailbox::as_str)).collect();
            let mut accepted: Vec<&str> = submission.accepted.iter().map(Mailbox::as_str).collect();
            covered.sort_unstable();
            accepted.sort_unstable();
            if covered != accepted {
                wrong.push(format!("transaction {number}: accepted for {accepted:?}, messages for {covered:?}"));
            }
        }
        wrong.into_iter().for_each(|w| self.violate(w));
    }

    fn account(&mut self, id: MessageId) -> Option<&mut Account> {
        if !self.messages.contains_key(&id) {
            self.violate(format!("{id} was never made"));
        }
        self.messages.get_mut(&id)
    }
}

impl Account {
    /// By when it is to be delivered.
    pub fn deadline(&self) -> Option<WallTime> {
        self.end.filter(|end| end.is_deadline).map(|end| end.at)
    }

    /// True when the server has it, on the disk or in memory.
    pub fn is_ours(&self) -> bool {
        self.durable || self.volatile
    }
}

impl Fate {
    /// True when nothing may happen to this recipient any more.
    fn is_final(&self, life: u32) -> bool {
        self.done_durably || self.final_life == Some(life)
    }
}

/// The id that the server wrote into the first header field.
fn id_in(content: &[u8]) -> Option<MessageId> {
    let line = content.split(|o| *o == b'\r').next()?;
    let (_, rest) = core::str::from_utf8(line).ok()?.split_once(" id ")?;
    rest.get(..32)?.parse().ok()
}
