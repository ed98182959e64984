//! What was counted for each domain, within bounds.
//!
//! In: a domain, what it says of itself, a row, how often. Out: [`Account`]s. What is over a bound is counted too, without its
//! row, so that a report can say that it does not show everything. Domains of one organisation have a bound of their own: names below
//! one domain cost nothing, and must not take everybody else's room. Cannot fail.

use public_suffix::organisation;
use std::collections::HashMap;
use std::hash::Hash;

/// Counts of one period.
#[derive(Clone, Debug)]
pub struct Tally<P, R: Eq + Hash> {
    accounts: HashMap<String, Account<P, R>>,
    /// How many domains each organisation has.
    organisations: HashMap<String, usize>,
    rows: usize,
    bounds: Bounds,
}

/// Counts about one domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account<P, R: Eq + Hash> {
    /// What it said last.
    pub policy: P,
    /// How often each row was seen.
    pub rows: HashMap<R, u64>,
    /// How often something was seen whose row had no room.
    pub over: u64,
}

/// The bounds of a tally, in number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Domains.
    pub domains_max: usize,
    /// Domains of one organisation.
    pub domains_per_organisation_max: usize,
    /// Rows of all domains.
    pub rows_max: usize,
    /// Rows of one domain.
    pub rows_per_domain_max: usize,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// It is in its row.
    Counted,
    /// Its domain is known, but has no room for another row.
    Over,
    /// There is no room for another domain, or none of its organisation: it is lost.
    Lost,
}

impl<P: Clone, R: Eq + Hash> Tally<P, R> {
    /// Nothing counted yet.
    pub fn new(bounds: Bounds) -> Tally<P, R> {
        Tally { accounts: HashMap::new(), organisations: HashMap::new(), rows: 0, bounds }
    }

    /// Counts; without a row, what had no room for one.
    pub fn add(&mut self, domain: &str, policy: &P, row: Option<R>, count: u64) -> Added {
        let Bounds { rows_max, rows_per_domain_max, .. } = self.bounds;
        if !self.accounts.contains_key(domain) {
            if !self.has_room(domain) {
                return Added::Lost;
            }
            let account = Account { policy: policy.clone(), rows: HashMap::new(), over: 0 };
            self.accounts.insert(domain.to_owned(), account);
        }
        let Some(account) = self.accounts.get_mut(domain) else { return Added::Lost };
        account.policy = policy.clone();
        let Some(row) = row else {
            account.over = account.over.saturating_add(count);
            return Added::Over;
        };
        let has_room = account.rows.len() < rows_per_domain_max && self.rows < rows_max;
        match account.rows.get_mut(&row) {
            Some(counted) => *counted = counted.saturating_add(count),
            None if has_room => {
                account.rows.insert(row, count);
                self.rows += 1;
            }
            None => {
                account.over = account.over.saturating_add(count);
                return Added::Over;
            }
        }
        Added::Counted
    }

    /// Takes a place for one more domain, if there is one.
    fn has_room(&mut self, domain: &str) -> bool {
        let Bounds { domains_max, domains_per_organisation_max, .. } = self.bounds;
        if self.accounts.len() >= domains_max {
            return false;
        }
        let organisation = organisation(domain);
        match self.organisations.get_mut(organisation) {
            Some(domains) if *domains >= domains_per_organisation_max => return false,
            Some(domains) => *domains += 1,
            None => _ = self.organisations.insert(organisation.to_owned(), 1),
        }
        true
    }

    /// The domains and what was counted.
    pub fn accounts(&self) -> &HashMap<String, Account<P, R>> {
        &self.accounts
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Takes everything out; it can be used again.
    pub fn take(&mut self) -> HashMap<String, Account<P, R>> {
        self.rows = 0;
        self.organisations.clear();
        std::mem::take(&mut self.accounts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_bounded_and_what_is_over_is_counted() {
        let mut tally =
            Tally::new(Bounds { domains_max: 2, domains_per_organisation_max: 2, rows_max: 3, rows_per_domain_max: 2 });
        assert_eq!(tally.add("a", &1, Some("x"), 1), Added::Counted);
        assert_eq!(tally.add("a", &2, Some("x"), 4), Added::Counted);
        assert_eq!(tally.add("a", &2, Some("y"), 1), Added::Counted);
        assert_eq!(tally.add("a", &2, Some("z"), 1), Added::Over, "two rows are all it may have");
        assert_eq!(tally.add("b", &1, Some("x"), 1), Added::Counted);
        assert_eq!(tally.add("b", &1, Some("y"), 2), Added::Over, "three are all there may be");
        assert_eq!(tally.add("b", &1, None, 3), Added::Over);
        assert_eq!(tally.add("c", &1, Some("x"), 1), Added::Lost);
        let (a, b) = (&tally.accounts()["a"], &tally.accounts()["b"]);
        assert_eq!((a.policy, a.rows["x"], a.over, b.over, tally.rows()), (2, 5, 1, 5, 3));
        assert_eq!((tally.take().len(), tally.rows(), tally.accounts().len()), (2, 0, 0));
    }

    /// Whoever has one domain has as many names as he likes.
    #[test]
    fn names_below_one_domain_take_nobody_elses_room() {
        let bounds = Bounds { domains_max: 4, domains_per_organisation_max: 2, rows_max: 9, rows_per_domain_max: 9 };
        let mut tally = Tally::new(bounds);
        let mut add = |domain: &str| tally.add(domain, &(), Some("x"), 1);
        assert_eq!([add("r1.evil.test"), add("evil.test")], [Added::Counted; 2]);
        assert_eq!([add("r2.evil.test"), add("r3.r4.evil.test")], [Added::Lost; 2]);
        assert_eq!(add("r1.evil.test"), Added::Counted, "what is known is counted on");
        // A public suffix is nobody's: `co.uk` has organisations below it.
        assert_eq!([add("a.co.uk"), add("b.co.uk"), add("c.co.uk")], [Added::Counted, Added::Counted, Added::Lost]);
        assert_eq!(tally.take().len(), 4);
        assert_eq!(tally.add("r2.evil.test", &(), Some("x"), 1), Added::Counted, "a new period begins with nobody");
    }
}
