//! A block of options: what blocks of every kind have in common.
//!
//! Owns [`Block`]: options of a path, options for single sources, automation rules. In: a table whose keys of its own kind
//! were taken out. Out: the options as written, each judged by `config`, so that what is merged later is sound. Fails with
//! place, value and expectation.

use crate::error::ShapingError;
use crate::merge;
use crate::place::{Place, WHAT};
use crate::rule::Rule;
use config::{ConfigError, EgressPath};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Options and rules of a domain, of a provider, or of everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Block {
    /// As written: what `kumo.make_egress_path` is given.
    pub options: Map<String, Value>,
    /// The same for single sources.
    pub sources: BTreeMap<String, Map<String, Value>>,
    /// In order.
    pub rules: Vec<Arc<Rule>>,
}

impl Block {
    /// Reads what is left of a block's table. `own` are all keys that are no options of a path, for suggestions.
    pub fn read(
        place: &Place<'_>,
        mut table: Map<String, Value>,
        own: &'static [&'static str],
    ) -> Result<Block, ShapingError> {
        let mut block = Block::default();
        if let Some(sources) = table.shift_remove(SOURCES) {
            let place = place.key(SOURCES);
            for (source, options) in place.table(sources)? {
                let place = place.name(&source);
                let options = place.table(options)?;
                check(&place, &options, &[])?;
                block.sources.insert(source, options);
            }
        }
        if let Some(rules) = table.shift_remove(AUTOMATION) {
            let place = place.key(AUTOMATION);
            for (index, rule) in place.list(rules)?.into_iter().enumerate() {
                block.rules.push(Arc::new(Rule::read(&place.index(index), rule)?));
            }
        }
        check(place, &table, own)?;
        block.options = table;
        Ok(block)
    }

    /// Puts a later block over this one. Rules are added; one that is there already is not added again, or it would count
    /// each response twice.
    pub fn put_over(&mut self, later: Block) {
        merge::over(&mut self.options, &later.options);
        for (source, options) in later.sources {
            merge::over(self.sources.entry(source).or_default(), &options);
        }
        for rule in later.rules {
            if !self.rules.contains(&rule) {
                self.rules.push(rule);
            }
        }
    }

    /// Puts what it says of every source over `options`.
    pub fn write_options(&self, options: &mut Map<String, Value>) {
        merge::over(options, &self.options);
    }

    /// Puts what it says of one source over `options`.
    pub fn write_source(&self, options: &mut Map<String, Value>, source: &str) {
        if let Some(own) = self.sources.get(source) {
            merge::over(options, own);
        }
    }

    /// Itself and its sources.
    pub fn count(&self) -> usize {
        1 + self.sources.len()
    }

    /// Expressions of its rules.
    pub fn patterns(&self) -> usize {
        self.rules.iter().map(|rule| rule.regex().count()).sum()
    }

    /// All that is in it.
    pub fn to_json(&self) -> Value {
        // a rule holds texts, numbers and JSON: nothing that cannot be written
        let rules = self.rules.iter().map(|rule| serde_json::to_value(rule).unwrap_or_default());
        json!({"options": self.options, "sources": self.sources, "automation": rules.collect::<Vec<_>>()})
    }
}

/// Takes a key of the block's kind out of its table.
pub(crate) fn take<T: DeserializeOwned>(
    place: &Place<'_>,
    table: &mut Map<String, Value>,
    key: &str,
) -> Result<Option<T>, ShapingError> {
    let value = table.shift_remove(key);
    value.map(|value| config::parse(WHAT, value).map_err(|error| place.key(key).refused(error))).transpose()
}

/// The first of `names` that is no option of a path is an error.
pub(crate) fn check_names<'n>(
    place: &Place<'_>,
    names: impl IntoIterator<Item = &'n String>,
    own: &'static [&'static str],
) -> Result<(), ShapingError> {
    let options = config::option_names(CONSTRUCTOR);
    match names.into_iter().find(|name| !options.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => {
            let near = config::nearest(name, own).or_else(|| config::nearest(name, options));
            let own: String = own.iter().map(|key| format!("`{key}`, ")).collect();
            Err(place.unknown(name, near, format!("{own}an option of kumo.{CONSTRUCTOR}")))
        }
    }
}

/// What `kumo.make_egress_path` says of these options. Of two that must be given together one may stand in another block.
pub(crate) fn judge(options: &Map<String, Value>) -> Result<(), ConfigError> {
    let mut alone = options.clone();
    for (one, other) in [TOGETHER, (TOGETHER.1, TOGETHER.0)] {
        if let (Some(value), None) = (options.get(one), options.get(other)) {
            alone.insert(other.to_owned(), value.clone());
        }
    }
    config::parse::<EgressPath>(WHAT, Value::Object(alone)).map(drop)
}

fn check(place: &Place<'_>, options: &Map<String, Value>, own: &'static [&'static str]) -> Result<(), ShapingError> {
    check_names(place, options.keys(), own)?;
    judge(options).map_err(|error| place.refused(error))
}

/// Options for single sources.
pub(crate) const SOURCES: &str = "sources";
/// Rules.
pub(crate) const AUTOMATION: &str = "automation";
/// Whose options the blocks hold.
const CONSTRUCTOR: &str = "make_egress_path";
/// The options that are refused one without the other.
const TOGETHER: (&str, &str) = ("tls_certificate", "tls_private_key");

#[cfg(test)]
mod tests {
    use super::*;

    fn block(value: Value) -> Block {
        let place = Place::top("a.json");
        place.table(value).and_then(|table| Block::read(&place, table, &[])).expect("sound")
    }

    #[test]
    fn later_blocks_go_over_earlier_ones() {
        let rule = |regex: &str| json!({"regex": regex, "action": "Suspend", "duration": "1h"});
        let mut base = block(json!({
            "max_ready": 1, "smtp_port": 26, "automation": [rule("a"), rule("b")],
            "sources": {"s": {"max_ready": 2, "additional_connection_limits": {"x": 1}}, "t": {"max_ready": 3}},
        }));
        base.put_over(block(json!({
            "max_ready": 10, "automation": [rule("b"), rule("c")],
            "sources": {"s": {"smtp_port": 27, "additional_connection_limits": {"y": 2}}, "u": {}},
        })));
        let want = block(json!({
            "max_ready": 10, "smtp_port": 26, "automation": [rule("a"), rule("b"), rule("c")],
            "sources": {
                "s": {"max_ready": 2, "smtp_port": 27, "additional_connection_limits": {"x": 1, "y": 2}},
                "t": {"max_ready": 3},
                "u": {},
            },
        }));
        assert_eq!(base, want);
        assert_eq!((base.count(), base.patterns()), (4, 3));
    }

    #[test]
    fn two_options_of_a_pair_may_stand_in_two_blocks() {
        for (options, is_sound) in [
            (json!({"tls_certificate": "/cert.pem"}), true),
            (json!({"tls_private_key": "/key.pem"}), true),
            (json!({"tls_private_key": "/key.pem", "tls_certificate": "/cert.pem"}), true),
            (json!({"tls_private_key": 1}), false),
        ] {
            let place = Place::top("a.json");
            let read = place.table(options.clone()).and_then(|table| Block::read(&place, table, &[]));
            assert_eq!(read.is_ok(), is_sound, "{options}");
            if let Ok(read) = read {
                assert_eq!(Value::Object(read.options), options, "the other one is not made up");
            }
        }
    }
}
