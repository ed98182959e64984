//! The account: what was answered against what arrived.
//!
//! A pure function of the book's entries. It says which promise was broken for which letter; it forgives nothing but
//! copies the receiver itself provoked.

use crate::torture::Fate;
use std::fmt;
use std::time::Duration;

/// What the book knows about one letter whose final dot was about to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its number.
    pub number: u64,
    /// Of its content.
    pub octets: usize,
    /// Of its recipients.
    pub fates: Vec<Fate>,
    /// What the server said.
    pub answer: Answer,
    /// In which epoch it was answered or given up.
    pub epoch: usize,
    /// Epoch of each copy a recipient got; one list a recipient.
    pub copies: Vec<Vec<usize>>,
    /// Copies of each recipient whose answer the server cannot have read.
    pub excused: Vec<usize>,
    /// Some copy differed from what was sent.
    pub damaged: bool,
}

/// The server's answer to a final dot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// None seen: the letter may arrive or not.
    Unknown,
    /// 250.
    Acked,
    /// Something else.
    Refused,
}

/// Totals, and the letters that broke a promise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Letters answered 250.
    pub acked: usize,
    /// Letters whose answer nobody saw.
    pub unknown: usize,
    /// Letters refused at their final dot.
    pub refused: usize,
    /// Answered 250, and not at every recipient.
    pub lost: Vec<u64>,
    /// Arrived other than sent.
    pub damaged: Vec<u64>,
    /// Arrived although refused.
    pub phantom: Vec<u64>,
    /// Answer unknown, and arrived at some recipients but not at all.
    pub split: Vec<u64>,
    /// What arrived that the book does not know: never sent, or never finished.
    pub strangers: Vec<String>,
    /// Copies beyond the first that nothing excuses.
    pub duplicates: usize,
    /// Copies beyond the first that the receiver provoked, or took from a server that was dead already.
    pub excused: usize,
    /// Copies taken from a server that was dead already, whether others followed or not.
    pub posthumous: usize,
    /// The longest time from a copy that should have been the last to the kill that made it be forgotten.
    pub oldest: Duration,
    /// The same by epoch.
    pub epochs: Vec<Row>,
}

/// One epoch: from one kill to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Letters answered 250 in it.
    pub acked: usize,
    /// Letters whose answer got lost in it.
    pub unknown: usize,
    /// Letters answered 250 in it that were lost.
    pub lost: usize,
    /// Unexcused copies that arrived in it.
    pub duplicates: usize,
}

impl Account {
    /// The account of a finished run.
    pub fn of<'a>(entries: impl IntoIterator<Item = &'a Entry>, strangers: Vec<String>, epochs: usize) -> Account {
        let mut account = Account { strangers, epochs: vec![Row::default(); epochs], ..Account::default() };
        entries.into_iter().for_each(|entry| account.add(entry));
        for list in [&mut account.lost, &mut account.damaged, &mut account.phantom, &mut account.split] {
            list.sort_unstable();
        }
        account
    }

    /// No promise was broken; duplicates are counted apart.
    pub fn is_clean(&self) -> bool {
        let lists = [&self.lost, &self.damaged, &self.phantom, &self.split];
        lists.iter().all(|list| list.is_empty()) && self.strangers.is_empty()
    }

    fn add(&mut self, entry: &Entry) {
        let arrived = entry.copies.iter().filter(|copies| !copies.is_empty()).count();
        let row = &mut self.epochs[entry.epoch];
        match entry.answer {
            Answer::Acked => {
                (self.acked, row.acked) = (self.acked + 1, row.acked + 1);
                if arrived < entry.fates.len() {
                    self.lost.push(entry.number);
                    row.lost += 1;
                }
            }
            Answer::Unknown => {
                (self.unknown, row.unknown) = (self.unknown + 1, row.unknown + 1);
                if arrived > 0 && arrived < entry.fates.len() {
                    self.split.push(entry.number);
                }
            }
            Answer::Refused => {
                self.refused += 1;
                if arrived > 0 {
                    self.phantom.push(entry.number);
                }
            }
        }
        if entry.damaged {
            self.damaged.push(entry.number);
        }
        for (copies, excused) in entry.copies.iter().zip(&entry.excused) {
            let beyond = copies.get(1..).unwrap_or_default();
            self.excused += beyond.len().min(*excused);
            for epoch in beyond.iter().skip(*excused) {
                self.duplicates += 1;
                self.epochs[*epoch].duplicates += 1;
            }
        }
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Account { acked, unknown, refused, duplicates, excused, posthumous, oldest, .. } = self;
        write!(f, "{acked} acked, {unknown} unknown, {refused} refused; ")?;
        let named = |list: &[u64]| match list {
            [] => "0".to_owned(),
            list => format!("{} {:?}", list.len(), &list[..list.len().min(NAMED_MAX)]),
        };
        write!(f, "lost {}, damaged {}, ", named(&self.lost), named(&self.damaged))?;
        write!(f, "phantom {}, split {}, ", named(&self.phantom), named(&self.split))?;
        write!(f, "strangers {}", self.strangers.len())?;
        self.strangers.iter().take(NAMED_MAX).try_for_each(|stranger| write!(f, " {stranger}"))?;
        write!(f, "; {duplicates} duplicates, and {excused} excused; {posthumous} taken of the dead")?;
        write!(f, "; forgotten at most {oldest:?} after the reply")
    }
}

/// Letters of a kind that are named.
const NAMED_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: u64, answer: Answer, copies: &[&[usize]]) -> Entry {
        let fates = vec![Fate::Now; copies.len()];
        let excused = vec![0; copies.len()];
        let copies = copies.iter().map(|copies| copies.to_vec()).collect();
        Entry { number, octets: 500, fates, answer, epoch: 1, copies, excused, damaged: false }
    }

    #[test]
    fn what_keeps_its_promise_is_clean() {
        let entries = [
            entry(1, Answer::Acked, &[&[1], &[1]]),
            entry(2, Answer::Unknown, &[&[], &[]]),
            entry(3, Answer::Unknown, &[&[1], &[1]]),
            entry(4, Answer::Refused, &[&[]]),
        ];
        let account = Account::of(&entries, vec![], 2);
        assert!(account.is_clean(), "{account}");
        assert_eq!((account.acked, account.unknown, account.refused, account.duplicates), (1, 2, 1, 0));
    }

    #[test]
    fn every_broken_promise_has_a_name() {
        let mut damaged = entry(5, Answer::Acked, &[&[1]]);
        damaged.damaged = true;
        let entries = [
            entry(1, Answer::Acked, &[&[1], &[]]),
            entry(2, Answer::Acked, &[&[]]),
            entry(3, Answer::Unknown, &[&[], &[1]]),
            entry(4, Answer::Refused, &[&[1]]),
            damaged,
        ];
        for number in 0..entries.len() {
            assert!(!Account::of(&entries[number..=number], vec![], 2).is_clean(), "{number}");
        }
        let account = Account::of(&entries, vec![], 2);
        assert_eq!((account.lost.as_slice(), account.split.as_slice()), (&[1, 2][..], &[3][..]));
        assert_eq!((account.phantom.as_slice(), account.damaged.as_slice()), (&[4][..], &[5][..]));
        assert_eq!((account.epochs[0].lost, account.epochs[1].lost), (0, 2));
        assert!(!Account::of(&[], vec!["<somebody@else.test>".to_owned()], 0).is_clean());
    }

    #[test]
    fn copies_are_counted_where_they_arrive_and_excused_where_they_were_provoked() {
        let mut provoked = entry(2, Answer::Acked, &[&[0, 1, 2]]);
        provoked.excused = vec![1];
        let entries = [entry(1, Answer::Acked, &[&[0, 2], &[0]]), provoked];
        let account = Account::of(&entries, vec![], 3);
        assert!(account.is_clean());
        assert_eq!((account.duplicates, account.excused), (2, 1));
        let by_epoch: Vec<usize> = account.epochs.iter().map(|row| row.duplicates).collect();
        assert_eq!(by_epoch, [0, 0, 2]);
    }
}
