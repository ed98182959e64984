//! Finds the paths named in code: `std::time::Instant`, also when `use` spells it in a tree.
//!
//! In: blanked code ([`crate::lexer::code`]). Out: each path of two or more segments with its
//! offset; a `use` gives one path a leaf, so `use std::{fs, io}` is `std::fs` and `std::io`.
//! Names introduced by `use` or `as` are not followed: the `use` itself is where the path stands.

use crate::lexer::is_word;

/// A path and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// Offset of its first, or for a leaf of a `use` of its last, segment.
    pub at: usize,
    /// Segments joined by `::`.
    pub name: String,
}

/// Every path in `code`.
pub fn paths(code: &str) -> Vec<Path> {
    let mut reader = Reader { code: code.as_bytes(), at: 0, found: Vec::new() };
    while reader.at < reader.code.len() {
        let starts = is_word(reader.code[reader.at]) && !reader.code[reader.at].is_ascii_digit();
        if !starts {
            // A digit begins a number; its suffix is no word of its own.
            reader.at += 1;
            continue;
        }
        let is_lifetime = reader.at > 0 && reader.code[reader.at - 1] == b'\'';
        let at = reader.at;
        match reader.word() {
            "use" if !is_lifetime => reader.tree("", TREE_DEPTH_MAX),
            word => reader.inline(at, word.to_string()),
        }
    }
    reader.found
}

struct Reader<'a> {
    code: &'a [u8],
    at: usize,
    found: Vec<Path>,
}

impl<'a> Reader<'a> {
    /// The word here, or nothing.
    fn word(&mut self) -> &'a str {
        let rest = &self.code[self.at..];
        let length = rest.iter().take_while(|o| is_word(**o)).count();
        self.at += length;
        core::str::from_utf8(&rest[..length]).unwrap_or("")
    }

    fn blanks(&mut self) {
        self.at += self.code[self.at..].iter().take_while(|o| o.is_ascii_whitespace()).count();
    }

    fn skip(&mut self, token: &[u8]) -> bool {
        self.blanks();
        let there = self.code[self.at..].starts_with(token);
        self.at += if there { token.len() } else { 0 };
        there
    }

    /// A path outside `use`, its first word already read.
    fn inline(&mut self, at: usize, mut name: String) {
        let mut segments = 1;
        loop {
            let before = self.at;
            let next = if self.skip(b"::") { self.next_word() } else { "" };
            if next.is_empty() {
                self.at = before;
                break;
            }
            name = format!("{name}::{next}");
            segments += 1;
        }
        if segments > 1 {
            self.found.push(Path { at, name });
        }
    }

    fn next_word(&mut self) -> &'a str {
        self.blanks();
        self.word()
    }

    /// One branch of a `use`, up to the comma, brace or semicolon behind it.
    fn tree(&mut self, prefix: &str, depth_left: usize) {
        self.skip(b"::");
        self.blanks();
        let at = self.at;
        if self.skip(b"{") {
            return self.branches(prefix, depth_left);
        }
        let word = if self.skip(b"*") { "*" } else { self.word() };
        if word.is_empty() {
            return;
        }
        let name = if prefix.is_empty() { word.to_string() } else { format!("{prefix}::{word}") };
        if self.skip(b"::") {
            return self.tree(&name, depth_left);
        }
        self.found.push(Path { at, name });
        let before = self.at;
        if self.next_word() == "as" {
            self.next_word();
        } else {
            self.at = before;
        }
    }

    /// What stands between braces, up to the closing one.
    fn branches(&mut self, prefix: &str, depth_left: usize) {
        while depth_left > 0 && !self.skip(b"}") {
            self.tree(prefix, depth_left - 1);
            if !self.skip(b",") {
                self.skip(b"}");
                return;
            }
        }
    }
}

/// Braces inside braces in a `use`; deeper ones are not read.
const TREE_DEPTH_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn names(code: &str) -> Vec<String> {
        paths(code).into_iter().map(|path| path.name).collect()
    }

    #[test]
    fn inline_paths_are_found_whole() {
        assert_eq!(names("let a = std::time::Instant::now();"), ["std::time::Instant::now"]);
        assert_eq!(names("x: Vec<std :: net::IpAddr>, y"), ["std::net::IpAddr"]);
        assert_eq!(names("Vec::<u8>::new()"), Vec::<String>::new(), "a turbofish ends a path of one segment");
        assert_eq!(names("#[tokio::test] fn f<'r>() {}"), ["tokio::test"]);
        assert_eq!(names("let tokio = rand + 1u8;"), Vec::<String>::new());
    }

    #[test]
    fn use_trees_give_a_path_a_leaf() {
        assert_eq!(
            names("use std::{fs, io::{self, Read as R}, net::*};"),
            ["std::fs", "std::io::self", "std::io::Read", "std::net::*"]
        );
        assert_eq!(names("pub use tokio; use a::{b,}; c::d"), ["tokio", "a::b", "c::d"]);
        assert_eq!(names("fn f() -> impl Sized + use<'_> { a::b() }"), ["a::b"]);
    }
}
