//! Values by domain name, with wildcards.
//!
//! Owns [`DomainMap`]. In: names, of which the first label may be `*`. Out: the value of a name: its own, else that of the
//! nearest `*` above it (KumoMTA behaviour). `*.example.com` is about names below `example.com`, not about that name; a name
//! that only has others below it has no value, and no wildcard's; once a label was found there is no way back to a
//! wildcard further up, so a bare `*` is about top labels that stand nowhere in the map. Names are compared as they are written.

use std::collections::BTreeMap;

/// A map from domain names to values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainMap<T> {
    root: Node<T>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Node<T> {
    value: Option<T>,
    children: BTreeMap<String, Node<T>>,
}

impl<T> Default for Node<T> {
    fn default() -> Self {
        Node { value: None, children: BTreeMap::new() }
    }
}

impl<T> Node<T> {
    fn remove<'a>(&mut self, below: &mut impl Iterator<Item = &'a str>) -> Option<T> {
        let Some(label) = below.next() else { return self.value.take() };
        let child = self.children.get_mut(label)?;
        let removed = child.remove(below);
        if child.value.is_none() && child.children.is_empty() {
            self.children.remove(label);
        }
        removed
    }
}

impl<T> Default for DomainMap<T> {
    fn default() -> Self {
        DomainMap { root: Node::default() }
    }
}

impl<T> DomainMap<T> {
    /// A map without names.
    pub fn new() -> Self {
        DomainMap::default()
    }

    /// Sets the value of a name; gives back the one it had.
    pub fn insert(&mut self, name: &str, value: T) -> Option<T> {
        let mut node = &mut self.root;
        for label in labels(name) {
            node = node.children.entry(label.to_owned()).or_default();
        }
        node.value.replace(value)
    }

    /// Takes a name out, as if it had never been there; gives back the value it had.
    pub fn remove(&mut self, name: &str) -> Option<T> {
        self.root.remove(&mut labels(name))
    }

    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<&T> {
        let mut node = &self.root;
        let mut below = labels(name).peekable();
        while let Some(label) = below.next() {
            match node.children.get(label) {
                Some(child) if below.peek().is_none() => return child.value.as_ref(),
                Some(child) => node = child,
                None => return node.children.get(WILDCARD).and_then(|child| child.value.as_ref()),
            }
        }
        None
    }
}

impl<T> FromIterator<(String, T)> for DomainMap<T> {
    fn from_iter<I: IntoIterator<Item = (String, T)>>(entries: I) -> Self {
        let mut map = DomainMap::new();
        entries.into_iter().for_each(|(name, value)| _ = map.insert(&name, value));
        map
    }
}

/// The labels of a name, the last first. A name has as many as it has dots and one, so the walk is bounded by its length.
fn labels(name: &str) -> impl Iterator<Item = &str> {
    name.rsplit('.')
}

/// The label that stands for any number of labels.
const WILDCARD: &str = "*";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_wildcard_counts_where_the_name_itself_is_not() {
        let names = ["example.com", "*.example.com", "a.b.example.com", "*.test", "*"];
        let map: DomainMap<&str> = names.iter().map(|name| ((*name).to_owned(), *name)).collect();
        for (name, want) in [
            ("example.com", Some("example.com")),
            ("www.example.com", Some("*.example.com")),
            ("x.y.example.com", Some("*.example.com")),
            ("a.b.example.com", Some("a.b.example.com")),
            ("b.example.com", None),
            ("x.b.example.com", None),
            ("test", None),
            ("mail.test", Some("*.test")),
            ("other.com", None),
            ("com", None),
            ("net", Some("*")),
            ("x.net", Some("*")),
            ("EXAMPLE.com", None),
            ("", Some("*")),
            ("*", Some("*")),
        ] {
            assert_eq!(map.get(name).copied(), want, "{name}");
        }
    }

    #[test]
    fn a_name_has_one_value() {
        let mut map = DomainMap::new();
        assert_eq!((map.insert("a.test", 1), map.insert("a.test", 2), map.get("a.test")), (None, Some(1), Some(&2)));
        assert_eq!(DomainMap::<u8>::new().get("a"), None);
        map.insert("*.test", 3);
        assert_eq!((map.remove("a.test"), map.remove("b.c.test")), (Some(2), None));
        assert_eq!(map.get("a.test"), Some(&3));
    }
}
