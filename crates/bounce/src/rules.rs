//! The rules of one file, in its order.
//!
//! Owns [`Rules`]. In: a file's name and text. Out: pairs of class and expression. Keys beside `rules` are left alone:
//! they are somebody else's. Expressions are judged by the classifier.

use crate::error::RuleError;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use std::fmt;

/// What one file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The file's name, for people.
    pub(crate) file: String,
    /// Class and expression, in the order of the file.
    pub(crate) list: Vec<(String, String)>,
}

impl Rules {
    /// Reads the text of a file; its format is told by the end of its name, `.toml` or `.json` (KumoMTA behaviour).
    ///
    /// # Errors
    /// [`RuleError::Format`] and [`RuleError::Shape`].
    pub fn read(file: &str, text: &str) -> Result<Rules, RuleError> {
        let shape = |what: String| RuleError::Shape { file: file.to_owned(), what: what.trim_end().replace('\n', " ") };
        let file_of = match file.rsplit_once('.') {
            Some((_, "toml")) => toml::from_str::<File>(text).map_err(|e| shape(e.to_string()))?,
            Some((_, "json")) => serde_json::from_str::<File>(text).map_err(|e| shape(e.to_string()))?,
            _ => return Err(RuleError::Format { file: file.to_owned() }),
        };
        Ok(Rules { file: file.to_owned(), list: file_of.rules.0 })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

#[derive(Deserialize)]
struct File {
    rules: InOrder,
}

/// A map from class to expressions, its order kept: the order decides.
struct InOrder(Vec<(String, String)>);

impl<'de> Deserialize<'de> for InOrder {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Classes)
    }
}

struct Classes;

impl<'de> Visitor<'de> for Classes {
    type Value = InOrder;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of lists of regular expressions")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<InOrder, A::Error> {
        let mut list = Vec::new();
        while let Some((class, rules)) = map.next_entry::<String, Vec<String>>()? {
            list.extend(rules.into_iter().map(|rule| (class.clone(), rule)));
        }
        Ok(InOrder(list))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(rules: &Rules) -> Vec<(&str, &str)> {
        rules.list.iter().map(|(class, rule)| (class.as_str(), rule.as_str())).collect()
    }

    #[test]
    fn both_formats_keep_the_order_of_the_file() {
        let want = [("Zulu", "^z"), ("Zulu", "y\\d"), ("Alpha", "a")];
        let toml = "note = 1\n[rules]\nZulu = ['^z', \"y\\\\d\"]\n# remark\nAlpha = [\n 'a', # one\n]\n";
        assert_eq!(pairs(&Rules::read("r.toml", toml).expect("sound")), want);
        let json = r#"{"rules": {"Zulu": ["^z", "y\\d"], "Alpha": ["a"]}}"#;
        assert_eq!(pairs(&Rules::read("dir.d/r.json", json).expect("sound")), want);
    }

    #[test]
    fn what_is_no_rule_file_is_named() {
        for (file, text, part) in [
            ("r.yaml", "rules: {}", "r.yaml: expected a name ending in .toml or .json"),
            ("r", "", "r: expected a name"),
            ("r.toml", "[rule]\nA = ['a']", "missing field `rules`"),
            ("r.toml", "[rules]\nA = 'a'", "r.toml: TOML parse error at line 2"),
            ("r.toml", "[rules]\nA = [1]", "invalid type: integer `1`, expected a string"),
            ("r.toml", "[rules]\nA = ['a']\nA = ['b']", "duplicate key"),
            ("r.json", "{\"rules\": {\"A\": [\"a\"]}", "r.json: EOF"),
        ] {
            let error = Rules::read(file, text).expect_err(text).to_string();
            assert!(error.contains(part), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
