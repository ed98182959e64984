//! The walk up the tree of DNS (RFC 9989 section 4.10): which domain is an organisation, without a list of public suffixes.
//!
//! In: a resolver and a domain. Out: [`Walk`], the records on the way up, and what they say of the organisation. Can fail: when
//! DNS does not answer, with the reason. At most [`WALK_QUESTIONS_MAX`] questions: of a long name the middle is left out.

use super::Organisations::TreeWalk;
use super::discover::record_of;
use super::record::DmarcRecord;
use route::Resolver;

/// What was found on the way up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Walk {
    start: String,
    /// Domains and their records, nearest first.
    pub(super) records: Vec<(String, DmarcRecord)>,
}

/// Asks for the record of `domain` and of those above it, until one says whether it is a public suffix.
pub(super) async fn walk(resolver: &dyn Resolver, domain: &str) -> Result<Walk, String> {
    walk_from(resolver, domain, record_of(TreeWalk, resolver, domain).await?).await
}

/// The same when the record of `domain` is known.
pub(super) async fn walk_from(resolver: &dyn Resolver, domain: &str, own: Option<DmarcRecord>) -> Result<Walk, String> {
    let start = domain.to_owned();
    let mut records: Vec<(String, DmarcRecord)> = own.into_iter().map(|record| (start.clone(), record)).collect();
    for name in steps(domain).skip(1) {
        if records.last().is_some_and(|(_, record)| record.is_suffix.is_some()) {
            break;
        }
        if let Some(record) = record_of(TreeWalk, resolver, name).await? {
            records.push((name.to_owned(), record));
        }
    }
    Ok(Walk { start, records })
}

impl Walk {
    /// The organisation of the domain at which the walk began (section 4.10.2).
    pub(super) fn organisation(&self) -> &str {
        match self.records.last() {
            Some((name, record)) if record.is_suffix == Some(true) && *name != self.start => self.below(name),
            // The one that says it is an organisation, or else the highest.
            Some((name, _)) => name,
            None => &self.start,
        }
    }

    /// The record of a domain, if it was found.
    pub(super) fn record_of(&self, domain: &str) -> Option<&DmarcRecord> {
        self.records.iter().find(|(name, _)| name == domain).map(|(_, record)| record)
    }

    /// The name one label below `suffix` that leads to where the walk began.
    fn below(&self, suffix: &str) -> &str {
        let labels = self.start.strip_suffix(suffix).unwrap_or_default().trim_end_matches('.');
        let label = labels.rsplit('.').next().unwrap_or_default();
        &self.start[labels.len() - label.len()..]
    }
}

/// The names that are asked about: the domain, then those above it, of a long one only the last seven.
fn steps(domain: &str) -> impl Iterator<Item = &str> {
    let labels = domain.split('.').count();
    let above = domain.match_indices('.').map(|(at, _)| &domain[at + 1..]);
    let skipped = labels.saturating_sub(WALK_QUESTIONS_MAX);
    std::iter::once(domain).chain(above.skip(skipped))
}

/// Most questions of a walk (section 4.10).
pub const WALK_QUESTIONS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_asked_about_from_its_seventh_label() {
        assert_eq!(steps("a.b.c").collect::<Vec<_>>(), ["a.b.c", "b.c", "c"]);
        let asked: Vec<&str> = steps("a.b.c.d.e.f.g.h").collect();
        assert_eq!((asked.len(), asked[1]), (8, "b.c.d.e.f.g.h"));
        let asked: Vec<&str> = steps("x.y.a.b.c.d.e.f.g.h").collect();
        assert_eq!((asked.len(), asked[0], asked[1]), (8, "x.y.a.b.c.d.e.f.g.h", "b.c.d.e.f.g.h"));
    }

    #[test]
    fn records_say_which_domain_is_an_organisation() {
        let found = |records: &[(&str, &str)]| {
            let record = |text: &str| DmarcRecord::parse(text.as_bytes()).expect("a record");
            let records = records.iter().map(|(name, text)| ((*name).to_owned(), record(text))).collect();
            Walk { start: "a.b.ex.test".to_owned(), records }.organisation().to_owned()
        };
        let (none, no, yes) = ("v=DMARC1; p=none", "v=DMARC1; p=none; psd=n", "v=DMARC1; p=none; psd=y");
        assert_eq!(found(&[]), "a.b.ex.test");
        assert_eq!(found(&[("a.b.ex.test", none)]), "a.b.ex.test");
        assert_eq!(found(&[("a.b.ex.test", none), ("ex.test", none)]), "ex.test");
        assert_eq!(found(&[("a.b.ex.test", none), ("b.ex.test", no)]), "b.ex.test");
        assert_eq!(found(&[("ex.test", none), ("test", yes)]), "ex.test");
        assert_eq!(found(&[("ex.test", yes)]), "b.ex.test");
        assert_eq!(found(&[("a.b.ex.test", yes)]), "a.b.ex.test");
    }
}
