//! What the spool shows after a restart, against what was promised before.

use crate::ledger::{Account, Fate, Gone, Ledger, Plan};
use spool::{Damage, RecoveredMessage, Recovery};
use std::collections::BTreeSet;

impl Ledger {
    /// Compares a recovery with the book, then takes it as the new truth; when something was
    /// left unsynced (`all_synced` is false), only until the next power cut.
    pub fn restarted(&mut self, recovery: &Recovery, all_synced: bool) {
        if !self.damage_done && (recovery.damage != Damage::default() || recovery.set_aside > 0) {
            self.violate(format!("nothing damaged the spool, and it says {:?}", recovery.damage));
        }
        let mut found = BTreeSet::new();
        for message in &recovery.messages {
            if !found.insert(message.id) {
                self.violate(format!("{} was recovered twice", message.id));
            }
            let wrong = match self.messages.get_mut(&message.id) {
                None => Some("was never made".to_owned()),
                Some(account) if account.life == self.life => Some("came back and was never away".to_owned()),
                Some(account) => adopt(account, message, all_synced, self.synced_until).err(),
            };
            if let Some(wrong) = wrong {
                self.violate(format!("restart: {} {wrong}", message.id));
            }
        }
        let mut lost = Vec::new();
        let (life, synced_until) = (self.life, self.synced_until);
        for (id, account) in self.messages.iter_mut().filter(|(id, a)| a.life < life && !found.contains(*id)) {
            match account.gone {
                Gone::No if account.damaged => account.gone = Gone::Aside,
                Gone::No if account.certain => lost.push(format!("{id} is lost: promised {}", account.promised)),
                Gone::Marked if all_synced => account.gone = Gone::Durably,
                // The mark of its end was read, and a power cut may take it back; so it may what was marked just before.
                Gone::Marked if account.gone_at > synced_until => {
                    account.gone_at = u64::MAX;
                    account.recipients.iter_mut().for_each(|fate| fate.final_at = u64::MAX);
                    account.plans.iter_mut().filter(|p| p.at > synced_until).for_each(|p| p.at = u64::MAX);
                }
                Gone::No if account.durable => {
                    (account.durable, account.limbo) = (false, true);
                    account.lost = account.deferred;
                }
                Gone::No | Gone::Marked | Gone::Durably | Gone::Aside => {}
            }
        }
        lost.into_iter().for_each(|l| self.violate(l));
    }
}

/// A message that is in our care after a restart.
fn adopt(account: &mut Account, message: &RecoveredMessage, all_synced: bool, synced_until: u64) -> Result<(), String> {
    let removed = account.gone == Gone::Marked && account.gone_at <= synced_until;
    // What damaged a record may have taken the mark of its end with it.
    if (account.gone == Gone::Durably || removed) && !account.damaged {
        return Err(format!("came back after its removal was synced ({:?} at {})", account.gone, account.gone_at));
    }
    if account.damaged {
        adopt_damaged(account, message);
    }
    if account.envelope.recipients.len() != usize::from(message.recipients) {
        return Err(format!("came back with {} recipients", message.recipients));
    }
    let plan = Plan { at: 0, made: 0, attempts: message.attempts, due: message.due };
    let shown = account.plans.iter().rposition(|p| (p.attempts, p.due) == (plan.attempts, plan.due));
    let certain = account.plans.iter().rposition(|p| p.at <= synced_until);
    if shown.is_none() || shown < certain {
        return Err(format!("came back with {plan:?}, expected one of {:?} from {certain:?} on", account.plans));
    }
    for (number, fate) in account.recipients.iter_mut().enumerate() {
        let done = message.settled.contains(number as u16);
        adopt_recipient(fate, done, all_synced, synced_until)
            .map_err(|e| format!("came back with recipient {number} {e}"))?;
    }
    (account.gone, account.durable) = (Gone::No, true);
    (account.volatile, account.lost) = (false, false);
    account.certain |= all_synced;
    if all_synced {
        account.plans.clear();
    }
    account.plans.iter_mut().filter(|p| p.at > synced_until).for_each(|p| p.at = u64::MAX);
    account.plans.push(Plan { at: if all_synced { 0 } else { u64::MAX }, ..plan });
    Ok(())
}

/// The newest record of a message was damaged: an older one counts again.
fn adopt_damaged(account: &mut Account, message: &RecoveredMessage) {
    account.plans = vec![Plan { at: 0, made: 0, attempts: message.attempts, due: message.due }];
    for (number, fate) in account.recipients.iter_mut().enumerate() {
        let done = message.settled.contains(number as u16);
        let again = Fate { delivered: fate.delivered, ..Fate::default() };
        *fate = if done { fate.clone() } else { again };
    }
}

fn adopt_recipient(fate: &mut Fate, done: bool, all_synced: bool, synced_until: u64) -> Result<(), String> {
    if done && !fate.done_marked {
        return Err("done, whom nobody settled".to_owned());
    }
    // Records come before marks, so whoever has a record this old must have a mark.
    let settled = fate.final_life.is_some() && fate.final_at <= synced_until;
    if !done && (fate.done_durably || settled) {
        return Err(format!("to do, who was settled long ago: {fate:?}"));
    }
    if !done || fate.final_at > synced_until {
        // What was settled is to be settled again, or may be after the next cut.
        (fate.final_life, fate.final_at) = (fate.final_life.filter(|_| done), u64::MAX);
    }
    let done_durably = fate.done_durably || (done && all_synced);
    let done_marked = done || (fate.done_marked && !all_synced);
    *fate = Fate { done_marked, done_durably, taken_now: false, ..fate.clone() };
    Ok(())
}
