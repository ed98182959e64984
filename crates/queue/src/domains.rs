//! Scheduled queues by the domain of their names, in any case: most orders are about one, and there may be a million queues.
//!
//! Sixteen octets a queue. Who is found may have another domain of the same hash: who looks compares.

use crate::core::QueueKey;
use crate::name::QueueName;
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::{BuildHasher, Hasher};

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Domains {
    queues: HashTable<(u64, QueueKey)>,
    hasher: DefaultHashBuilder,
}

impl Domains {
    /// A queue comes.
    pub fn insert(&mut self, name: &str, key: QueueKey) {
        let hash = self.hash(QueueName::split(name).domain);
        self.queues.insert_unique(hash, (hash, key), |(hash, _)| *hash);
    }

    /// It goes.
    pub fn remove(&mut self, name: &str, key: QueueKey) {
        let hash = self.hash(QueueName::split(name).domain);
        if let Ok(entry) = self.queues.find_entry(hash, |of| *of == (hash, key)) {
            entry.remove();
        }
    }

    /// Those of a domain, and perhaps others.
    pub fn of(&self, domain: &str) -> impl Iterator<Item = QueueKey> {
        let hash = self.hash(domain);
        self.queues.iter_hash(hash).filter(move |(other, _)| *other == hash).map(|(_, key)| *key)
    }

    /// How many queues.
    pub fn len(&self) -> usize {
        self.queues.len()
    }

    fn hash(&self, domain: &str) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        domain.bytes().for_each(|octet| hasher.write_u8(octet.to_ascii_lowercase()));
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_found_by_domain_in_any_case_until_they_go() {
        let mut domains = Domains::default();
        let names = ["c:t@A.test!r.test", "t@a.TEST", "b.test", "a.test"];
        (1..).zip(names).for_each(|(key, name)| domains.insert(name, QueueKey::of(key)));
        let found = |domains: &Domains, domain: &str| {
            let mut keys: Vec<QueueKey> = domains.of(domain).collect();
            keys.sort_unstable();
            keys
        };
        let keys = |numbers: &[u32]| numbers.iter().copied().map(QueueKey::of).collect::<Vec<_>>();
        assert_eq!(found(&domains, "a.Test"), keys(&[1, 2, 4]));
        assert_eq!((found(&domains, "r.test"), found(&domains, "b.test")), (keys(&[]), keys(&[3])));
        domains.remove("t@a.test", QueueKey::of(2));
        domains.remove("b.test", QueueKey::of(1));
        assert_eq!((found(&domains, "a.test"), domains.len()), (keys(&[1, 4]), 3));
    }
}
