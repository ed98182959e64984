//! Tidy: the rules of the tree that a program can check, each a function from text to offences.
//!
//! In: `cargo metadata` and the files of the checkout ([`Tree`]). Out: [`Offence`]s, each with its
//! place, what is wrong and what to do instead. The rules stand one a file; what is allowed to
//! break them stands by name with a reason in [`exceptions`]; the layers are a table in [`layers`].
//! `tests/tree.rs` runs every rule over the checkout, and each rule has unit tests with a sample it
//! must flag and one it must not.
//!
//! The reading is a lexer's, not a compiler's: it knows strings, comments and brackets, not types
//! or macros. It may therefore be fooled on purpose, and is not meant to stop that.
//!
//! Deliberately absent: formatting (rustfmt), taste (clippy), licences of dependencies (deny.toml).

pub mod ambient;
pub mod exceptions;
pub mod layers;
pub mod leftovers;
pub mod lexer;
pub mod manifest;
pub mod offence;
pub mod panics;
pub mod paths;
pub mod shape;
pub mod source;
pub mod text;
pub mod tree;

pub use offence::{Offence, Rule};
pub use source::Source;
pub use tree::Tree;
