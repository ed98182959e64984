//! What can be wrong with rules: [`RuleError`].

use thiserror::Error;

/// Why rules are not taken. `file` is the name given to [`crate::Rules::read`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RuleError {
    /// The name tells no format.
    #[error("{file}: expected a name ending in .toml or .json")]
    Format {
        /// The file.
        file: String,
    },
    /// The file is no TOML or JSON, or not of this shape.
    #[error("{file}: {what}; expected [rules] with a list of regular expressions for each class")]
    Shape {
        /// The file.
        file: String,
        /// What was found, with its place.
        what: String,
    },
    /// A rule is no regular expression.
    #[error("{file}: class {class}, rule {rule:?}: {what}")]
    Rule {
        /// The file.
        file: String,
        /// The class it is listed under.
        class: String,
        /// The rule as written.
        rule: String,
        /// What is wrong with it.
        what: String,
    },
    /// More rules than one pass can hold.
    #[error("{file}: {count} rules: expected at most {max} in all files together")]
    TooMany {
        /// The file in which the bound was passed.
        file: String,
        /// Rules up to its end.
        count: usize,
        /// The bound.
        max: usize,
    },
    /// Each rule is sound, all together are too large.
    #[error("all {count} rules together: {what}")]
    TooLarge {
        /// How many.
        count: usize,
        /// The compiler's words.
        what: String,
    },
}
