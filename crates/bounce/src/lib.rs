//! Bounces: which class a reply belongs to and which rule says so; what reports about mail mean for the log, and reports
//! made from the log.
//!
//! Owns [`Rules`] (one file's rules, read) and [`Classifier`] (all rules, compiled, with remembered answers). In: the
//! text of rule files, TOML or JSON in KumoMTA's form, and then one line of text a reply (`550 5.1.1 no such user`,
//! `record::Response::to_single_line`). Out: the class, and on request every rule that matched ([`Match`]). Fails when
//! rules are read or compiled, naming file, class, rule and what is wrong; classifying cannot fail and takes time linear
//! in the text, whatever the rules are.
//!
//! The first rule that matches decides: files in the order given, classes and rules in the order of the file (KumoMTA
//! behaviour). Deliberately absent: reading files, and what is done about a class.

mod action;
mod answers;
mod boundaries;
mod classifier;
mod error;
mod notice;
mod reports;
mod rules;

pub use action::Action;
pub use classifier::{Classifier, Match, Remembered};
pub use error::RuleError;
pub use notice::{Notice, Told, is_notified};
pub use reports::{Failure, delivery_json, failures, feedback, feedback_json};
pub use rules::Rules;

/// The class of what no rule matches.
pub const UNCATEGORIZED: &str = "Uncategorized";
