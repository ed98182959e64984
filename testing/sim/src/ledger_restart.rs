//! What the spool shows after a restart, against what was promised before.

use crate::ledger::{Account, Fate, Gone, Ledger};
use spool::{Damage, RecoveredMessage, Recovery};
use std::collections::BTreeSet;

impl Ledger {
    /// Compares a recovery with the book, then takes it as the new truth.
    pub fn restarted(&mut self, recovery: &Recovery) {
        self.life += 1;
        if recovery.damage != Damage::default() || recovery.set_aside > 0 {
            self.violate(format!("nothing damaged the spool, and it says {:?}", recovery.damage));
        }
        let mut found = BTreeSet::new();
        for message in &recovery.messages {
            if !found.insert(message.id) {
                self.violate(format!("{} was recovered twice", message.id));
            }
            let wrong = match self.messages.get_mut(&message.id) {
                None => Some("was never made".to_owned()),
                Some(account) => adopt(account, message).err(),
            };
            if let Some(wrong) = wrong {
                self.violate(format!("restart: {} {wrong}", message.id));
            }
        }
        let mut lost = Vec::new();
        for (id, account) in self.messages.iter_mut().filter(|(id, _)| !found.contains(*id)) {
            match account.gone {
                Gone::No if account.durable => lost.push(format!("{id} is lost: promised {}", account.promised)),
                Gone::Marked => account.gone = Gone::Durably,
                Gone::No | Gone::Durably => {}
            }
        }
        lost.into_iter().for_each(|l| self.violate(l));
    }
}

/// A message that is in our care after a restart.
fn adopt(account: &mut Account, message: &RecoveredMessage) -> Result<(), String> {
    if account.gone == Gone::Durably {
        return Err("came back after its removal was synced".to_owned());
    }
    if account.envelope != message.envelope {
        return Err(format!("came back with another envelope: {:?}", message.envelope));
    }
    let plan = (message.attempts, message.due);
    if !account.plans.contains(&plan) {
        return Err(format!("came back with attempts and due time {plan:?}, expected one of {:?}", account.plans));
    }
    for (number, fate) in account.recipients.iter_mut().enumerate() {
        let done = !message.recipients_left.contains(&(number as u32));
        if done != fate.done_durably && done != fate.done_marked {
            return Err(format!("came back with recipient {number} done: {done}, {fate:?}"));
        }
        if !done && fate.done_durably {
            return Err(format!("came back with recipient {number} to do, whose mark was synced"));
        }
        *fate = Fate { done_marked: done, done_durably: done, ..fate.clone() };
    }
    (account.plans, account.gone, account.durable) = (vec![plan], Gone::No, true);
    Ok(())
}
