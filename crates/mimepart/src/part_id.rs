//! Where a part stands in its tree: the way from the root, by places among siblings.
//!
//! Printed as `0.1`: the second part of the first part of the root; the root itself is the empty string.

use core::fmt;

/// The way to a part. It names a place: after an edit that adds parts it may name another part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartId(Vec<usize>);

impl PartId {
    /// The root.
    pub const ROOT: PartId = PartId(Vec::new());

    /// The way as places among siblings, the root's child first.
    pub fn places(&self) -> &[usize] {
        &self.0
    }

    /// The part at `place` among this one's children.
    pub fn child(&self, place: usize) -> PartId {
        PartId(self.0.iter().copied().chain([place]).collect())
    }

    /// The part that has this way from here: an id found in a subtree, seen from the tree.
    pub fn join(&self, below: &PartId) -> PartId {
        PartId(self.0.iter().chain(&below.0).copied().collect())
    }
}

impl fmt::Display for PartId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (depth, place) in self.0.iter().enumerate() {
            write!(f, "{}{place}", if depth == 0 { "" } else { "." })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_printed_as_ways() {
        let id = PartId::ROOT.child(0).child(1);
        assert_eq!((PartId::ROOT.to_string().as_str(), id.to_string().as_str()), ("", "0.1"));
        assert_eq!(PartId::ROOT.child(0).join(&PartId::ROOT.child(1)), id);
        assert_eq!(id.places(), [0, 1]);
    }
}
