//! An automation rule: which responses it means, and what is to be done about them.
//!
//! Owns [`Rule`] and [`Action`]. In: a table of a shaping file, then one line of text a response. Out: whether an
//! expression matches; the rule in KumoMTA's form, by serde. Reading fails with place, value and expectation. Matching is
//! bounded in text and in steps; where that does not suffice the expression does not match and a [`MatchFailure`] says so.
//! Counting what matched and acting on it are not done here.

use crate::block;
use crate::error::ShapingError;
use crate::hash;
use crate::place::{Place, WHAT};
use config::{Duration, Trigger};
use fancy_regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

/// A rule of a block's `automation`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rule {
    regex: Vec<Pattern>,
    action: Vec<Action>,
    trigger: Trigger,
    duration: Duration,
    match_internal: bool,
    #[serde(skip)]
    hash: String,
}

/// What a rule does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Action {
    /// Suspends the ready queue.
    Suspend,
    /// Suspends the tenant's scheduled queues of the domain.
    SuspendTenant,
    /// Suspends the campaign's scheduled queues of the domain.
    SuspendCampaign,
    /// Bounces what waits for the domain.
    Bounce,
    /// Bounces what of the tenant waits for the domain.
    BounceTenant,
    /// Bounces what of the campaign waits for the domain.
    BounceCampaign,
    /// Sets an option of the path, for the site.
    SetConfig(SetOption),
    /// Sets an option of the path, for the domain alone.
    SetDomainConfig(SetOption),
}

/// An option and its new value; valid for `kumo.make_egress_path`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetOption {
    /// The option.
    pub name: String,
    /// As written in the file.
    pub value: Value,
}

/// An expression could not be tried to its end on a response; it counts as not matching.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("automation rule {pattern:?} was given up on a response of {octets} octets: {what}")]
pub struct MatchFailure {
    /// The expression.
    pub pattern: String,
    /// Length of the text that was looked at.
    pub octets: usize,
    /// Which bound was passed.
    pub what: String,
}

impl Rule {
    /// Reads and compiles a rule.
    pub(crate) fn read(place: &Place<'_>, value: Value) -> Result<Rule, ShapingError> {
        let mut table = place.table(value)?;
        let singles = ONE_OR_MANY.map(|key| make_list(&mut table, key));
        let form: Form = config::parse(WHAT, Value::Object(table)).map_err(|mut error| {
            for (key, is_single) in ONE_OR_MANY.into_iter().zip(singles) {
                let below = error.path.strip_prefix(&format!("{key}[0]")).filter(|_| is_single);
                error.path = below.map(|below| format!("{key}{below}")).unwrap_or(error.path);
            }
            place.refused(error)
        })?;
        let element = |list: usize, index: usize| match singles[list] {
            true => place.key(ONE_OR_MANY[list]),
            false => place.key(ONE_OR_MANY[list]).index(index),
        };
        for (key, count) in [("regex", form.regex.len()), ("action", form.action.len())] {
            if count == 0 {
                return Err(place.key(key).unlike("", "at least one"));
            }
        }
        for (index, action) in form.action.iter().enumerate() {
            check(&element(1, index), action)?;
        }
        let texts = form.regex.into_iter().enumerate();
        let regex = texts.map(|(index, text)| Pattern::compile(&element(0, index), text)).collect::<Result<_, _>>()?;
        let Form { action, trigger, duration, match_internal, .. } = form;
        let mut rule = Rule { regex, action, trigger, duration, match_internal, hash: String::new() };
        // Texts, numbers and lists: it can always be written.
        rule.hash = hash::of(&serde_json::to_value(&rule).unwrap_or_default());
        Ok(rule)
    }

    /// The expressions as written; one that matches suffices.
    pub fn regex(&self) -> impl Iterator<Item = &str> {
        self.regex.iter().map(|pattern| pattern.text.as_str())
    }

    /// What is to be done; never empty.
    pub fn action(&self) -> &[Action] {
        &self.action
    }

    /// At once, or at so many in a period.
    pub fn trigger(&self) -> Trigger {
        self.trigger
    }

    /// How long the effect lasts.
    pub fn duration(&self) -> Duration {
        self.duration
    }

    /// True when it also means responses that the server made up itself.
    pub fn match_internal(&self) -> bool {
        self.match_internal
    }

    /// A short name for its content: rules that say the same have the same, in all files and on all nodes.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// True when an expression matches; those that were given up are added to `failures`.
    pub(crate) fn matches(&self, text: &str, failures: &mut Vec<MatchFailure>) -> bool {
        let text = &text[..text.floor_char_boundary(MATCHED_OCTETS_MAX)];
        self.regex.iter().any(|pattern| match pattern.compiled.is_match(text) {
            Ok(is_match) => is_match,
            Err(error) => {
                let (pattern, what) = (pattern.text.clone(), error.to_string());
                failures.push(MatchFailure { pattern, octets: text.len(), what });
                false
            }
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    regex: Vec<String>,
    action: Vec<Action>,
    #[serde(default)]
    trigger: Trigger,
    duration: Duration,
    #[serde(default)]
    match_internal: bool,
}

#[derive(Clone, Debug)]
struct Pattern {
    text: String,
    compiled: Regex,
}

impl Pattern {
    fn compile(place: &Place<'_>, text: String) -> Result<Pattern, ShapingError> {
        if text.len() > PATTERN_OCTETS_MAX {
            return Err(place.too_long(text.len(), PATTERN_OCTETS_MAX));
        }
        let built =
            RegexBuilder::new(&text).backtrack_limit(BACKTRACKS_MAX).delegate_size_limit(COMPILED_OCTETS_MAX).build();
        match built {
            Ok(compiled) => Ok(Pattern { text, compiled }),
            Err(error) => Err(place.no_regex(&text, one_line(&error.to_string()))),
        }
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.text == other.text
    }
}

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

/// True when `key` was one value that now is a list of one.
fn make_list(table: &mut Map<String, Value>, key: &str) -> bool {
    match table.get_mut(key) {
        None | Some(Value::Array(_)) => false,
        Some(one) => {
            *one = Value::Array(vec![one.take()]);
            true
        }
    }
}

fn check(place: &Place<'_>, action: &Action) -> Result<(), ShapingError> {
    let (place, SetOption { name, value }) = match action {
        Action::SetConfig(option) => (place.key("SetConfig"), option),
        Action::SetDomainConfig(option) => (place.key("SetDomainConfig"), option),
        _ => return Ok(()),
    };
    block::check_names(&place.key("name"), [name], &[])?;
    let set = Map::from_iter([(name.clone(), value.clone())]);
    block::judge(&set).map_err(|mut error| {
        error.path = error.path.strip_prefix(name.as_str()).map(str::to_owned).unwrap_or(error.path);
        let below = error.path.trim_start_matches('.').to_owned();
        place.key("value").refused(config::ConfigError { path: below, ..error })
    })
}

/// The last line says what is wrong; those before it show where, in two dimensions.
fn one_line(text: &str) -> String {
    let last = text.lines().last().unwrap_or_default();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}

/// Keys that hold one value or a list of them.
const ONE_OR_MANY: [&str; 2] = ["regex", "action"];

/// Expressions of all rules together; each response is held against all that apply to its destination.
pub const PATTERNS_MAX: usize = 4096;
/// Longest expression (octets).
pub const PATTERN_OCTETS_MAX: usize = 4096;
/// Memory of one compiled expression (octets).
const COMPILED_OCTETS_MAX: usize = 1 << 20;
/// How often an expression may go back and try otherwise on one response. Sound ones do so a few times an octet of the
/// text; a million is the library's own bound, and lets one response take tens of milliseconds.
const BACKTRACKS_MAX: usize = 100_000;
/// How much of a response is looked at (octets), as for bounce rules: it says what it means at its beginning, and a peer
/// may answer with 64 KiB.
const MATCHED_OCTETS_MAX: usize = 4096;

#[cfg(test)]
#[path = "rule_tests.rs"]
mod tests;
