//! Compares the two ends: which messages were acknowledged, and which arrived, how often and whether intact.
//!
//! In: ids as they become known, in any order. Out: a [`Verdict`]. A message whose answer was lost (`unknown`) may
//! arrive or not; one that was never acknowledged nor unknown must not arrive at all.

use std::collections::{HashMap, HashSet};

use anyhow::{Context as _, bail};

use crate::ledger::Arrival;

/// Everything known about the messages of one sink's life.
#[derive(Default)]
pub struct Audit {
    acknowledged: HashSet<String>,
    unknown: HashSet<String>,
    /// Times each id arrived.
    arrivals: HashMap<String, u32>,
    damaged: u64,
    /// Acknowledged ids that did not arrive yet.
    missing: usize,
    /// An id is a message's and a recipient's.
    by_recipient: bool,
    last_arrival_us: u64,
}

/// The outcome, in messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Verdict {
    /// Answered 250.
    pub acknowledged: u64,
    /// Of these, arrived at least once.
    pub delivered: u64,
    /// Of these, never arrived.
    pub lost: u64,
    /// Arrivals beyond the first of an id.
    pub doubled: u64,
    /// Arrivals whose body does not match its checksum.
    pub damaged: u64,
    /// Ids that arrived though their sender was not told 250 and did not lose the answer either.
    pub stray: u64,
}

impl Audit {
    /// Adds ids answered 250.
    pub fn acknowledge(&mut self, ids: Vec<String>) {
        for id in ids {
            let arrived = self.arrivals.contains_key(&id);
            if self.acknowledged.insert(id) && !arrived {
                self.missing += 1;
            }
        }
    }

    /// Adds ids whose answer was lost.
    pub fn unknown(&mut self, ids: Vec<String>) {
        self.unknown.extend(ids);
    }

    /// From now on it is not messages that are judged but each recipient of each: an id is the message's, a space, the
    /// recipient's address.
    pub fn by_recipient(&mut self) {
        self.by_recipient = true;
    }

    /// Adds an arrival at the sink.
    pub fn arrive(&mut self, arrival: Arrival) {
        self.damaged += u64::from(!arrival.intact);
        self.last_arrival_us = self.last_arrival_us.max(arrival.at_us);
        if self.by_recipient {
            arrival.recipients.split(',').for_each(|recipient| self.count(&format!("{} {recipient}", arrival.id)));
        } else {
            self.count(arrival.id);
        }
    }

    fn count(&mut self, id: &str) {
        if let Some(times) = self.arrivals.get_mut(id) {
            *times += 1;
            return;
        }
        self.arrivals.insert(id.to_owned(), 1);
        if self.acknowledged.contains(id) {
            self.missing -= 1;
        }
    }

    /// Forgets when the latest arrival was: another run begins.
    pub fn begin(&mut self) {
        self.last_arrival_us = 0;
    }

    /// Microseconds from `begun_us` (since 1970) to the latest arrival since [`Audit::begin`].
    ///
    /// # Errors
    /// The clock was set back meanwhile, or nothing arrived.
    pub fn last_arrival_after(&self, begun_us: u64) -> anyhow::Result<u64> {
        if self.last_arrival_us == 0 {
            bail!("nothing arrived");
        }
        let after = self.last_arrival_us.checked_sub(begun_us).filter(|us| *us > 0);
        after.context("the last arrival was before the beginning of the run: was the clock set back?")
    }

    /// Acknowledged ids that did not arrive yet.
    pub fn missing(&self) -> usize {
        self.missing
    }

    /// Different ids that arrived.
    pub fn arrived(&self) -> usize {
        self.arrivals.len()
    }

    /// The outcome so far.
    pub fn verdict(&self) -> Verdict {
        let stray = self.arrivals.keys().filter(|id| !self.acknowledged.contains(*id) && !self.unknown.contains(*id));
        let acknowledged = self.acknowledged.len() as u64;
        Verdict {
            acknowledged,
            delivered: acknowledged - self.missing as u64,
            lost: self.missing as u64,
            doubled: self.arrivals.values().map(|times| u64::from(times - 1)).sum(),
            damaged: self.damaged,
            stray: stray.count() as u64,
        }
    }
}

impl Verdict {
    /// What is wrong, in words; nothing if all is well. A crash may double a message, but never lose one.
    pub fn fault(&self, crashed: bool) -> Option<String> {
        let mut faults = Vec::new();
        let mut note = |count: u64, what: &str| {
            if count > 0 {
                faults.push(format!("{count} {what}"));
            }
        };
        note(self.lost, "acknowledged messages lost");
        note(self.damaged, "messages damaged");
        note(self.stray, "messages delivered that were refused");
        if !crashed {
            note(self.doubled, "messages doubled");
        }
        (!faults.is_empty()).then(|| faults.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn audit(acknowledged: &[&str], unknown: &[&str], arrivals: &[(&str, bool)], arrivals_first: bool) -> Audit {
        let owned = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<String>>();
        let mut audit = Audit::default();
        if !arrivals_first {
            audit.acknowledge(owned(acknowledged));
        }
        for (id, intact) in arrivals {
            audit.arrive(Arrival { id, intact: *intact, recipients: "r@bench.test", at_us: 1 });
        }
        if arrivals_first {
            audit.acknowledge(owned(acknowledged));
        }
        audit.unknown(owned(unknown));
        audit
    }

    #[test]
    fn the_order_of_the_news_does_not_matter() {
        for arrivals_first in [false, true] {
            let audit = audit(&["a", "b"], &[], &[("a", true), ("b", true)], arrivals_first);
            let verdict = audit.verdict();
            assert_eq!(verdict, Verdict { acknowledged: 2, delivered: 2, ..Verdict::default() });
            assert_eq!(verdict.fault(false), None);
        }
    }

    #[test]
    fn recipients_count_one_by_one() {
        let mut audit = Audit::default();
        audit.by_recipient();
        audit.acknowledge(["m a@b", "m c@d", "m e@f"].map(str::to_owned).into());
        for (recipients, at_us) in [("a@b,c@d", 9), ("c@d", 5)] {
            audit.arrive(Arrival { id: "m", intact: true, recipients, at_us });
        }
        let want = Verdict { acknowledged: 3, delivered: 2, lost: 1, doubled: 1, ..Verdict::default() };
        assert_eq!((audit.verdict(), audit.last_arrival_after(2).expect("later")), (want, 7));
        assert!(audit.last_arrival_after(9).is_err(), "the clock was set back");
        audit.begin();
        assert!(audit.last_arrival_after(2).is_err(), "nothing in this run");
    }

    #[test]
    fn every_fault_is_seen() {
        let arrivals = [("a", true), ("a", true), ("a", true), ("b", false), ("u", true), ("x", true)];
        for arrivals_first in [false, true] {
            let verdict = audit(&["a", "b", "c"], &["u", "v"], &arrivals, arrivals_first).verdict();
            let want = Verdict { acknowledged: 3, delivered: 2, lost: 1, doubled: 2, damaged: 1, stray: 1 };
            assert_eq!(verdict, want);
            let words = verdict.fault(false).expect("faults");
            for word in ["1 acknowledged messages lost", "2 messages doubled", "1 messages damaged", "1 messages deliv"]
            {
                assert!(words.contains(word), "{word} in {words}");
            }
        }
    }

    #[test]
    fn a_crash_may_double_and_nothing_else() {
        let doubled = audit(&["a"], &[], &[("a", true), ("a", true)], false).verdict();
        assert_eq!(doubled.fault(true), None);
        assert!(doubled.fault(false).is_some());
        let lost = audit(&["a"], &[], &[], false).verdict();
        assert!(lost.fault(true).is_some());
    }
}
