//! An offence: a place in the tree, the rule it breaks, and the way out.
//!
//! Printed as `path:line: what; instead`, so that an editor jumps there. `name` is what an
//! exception is matched by (a function, a word, a crate edge): line numbers move, names stay.

use core::fmt;

/// A broken rule at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offence {
    /// Which rule.
    pub rule: Rule,
    /// File, relative to the root of the checkout, with `/`.
    pub path: String,
    /// Line, from 1.
    pub line: usize,
    /// What an exception names: see each rule.
    pub name: String,
    /// What is wrong.
    pub what: String,
    /// What to do instead.
    pub instead: &'static str,
}

/// The rules; see the file of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A crate names only crates of lower layers (`layers.rs`). Name: `from -> to`.
    Edge,
    /// No clock, files, sockets, threads, randomness, Lua where they do not belong (`ambient.rs`). Name: the path.
    Ambient,
    /// Lines of a file (`shape.rs`). Name: empty.
    FileLength,
    /// Lines of a function (`shape.rs`). Name: the function.
    FunctionLength,
    /// The `//!` page (`shape.rs`). Name: empty.
    Page,
    /// `unsafe`, unfinished work, silenced warnings, printing (`leftovers.rs`). Name: the word.
    Leftover,
    /// `.unwrap()` and `.expect(` in deciders (`panics.rs`). Name: the function.
    Panic,
    /// Pins, reasons, lints (`manifest.rs`). Name: the dependency, or empty.
    Manifest,
    /// Paths of one machine, missing licences (`text.rs`). Name: the path found, or empty.
    Text,
}

impl fmt::Display for Offence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}; {}", self.path, self.line, self.what, self.instead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offence_reads_as_place_fault_and_way_out() {
        let offence = Offence {
            rule: Rule::Page,
            path: "crates/queue/src/gate.rs".into(),
            line: 1,
            name: String::new(),
            what: "no page".into(),
            instead: "write one",
        };
        assert_eq!(offence.to_string(), "crates/queue/src/gate.rs:1: no page; write one");
    }
}
