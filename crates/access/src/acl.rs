//! The rules of a resource.
//!
//! In: who asks, and for which privilege. Out: the first rule that is about both.

use crate::criteria::usual;
use crate::{AuthInfo, Criteria};
use config::ConfigError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a rule says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Access {
    /// They may.
    Allow,
    /// They may not.
    Deny,
}

/// Who may, or may not, do what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Whom it is about.
    pub criteria: Criteria,
    /// What they want to do; of HTTP the method.
    pub privilege: String,
    /// Whether they may.
    pub access: Access,
}

/// Rules in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AccessControlList {
    /// The first that is about somebody and what they want decides.
    pub rules: Vec<Rule>,
}

impl AccessControlList {
    /// Reads a list of tables; `what` is the function it was given to.
    ///
    /// # Errors
    /// One of them is no rule.
    pub fn parse(what: &'static str, mut value: Value) -> Result<AccessControlList, ConfigError> {
        let rules = value.as_array_mut().into_iter().flatten();
        rules.filter_map(|rule| rule.get_mut("criteria")).for_each(|criteria| usual(criteria, 0));
        config::parse(what, value)
    }

    /// The rule that decides, if one does.
    pub fn rule_for(&self, auth: &AuthInfo, privilege: &str) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.privilege == privilege && rule.criteria.is_met(auth))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_rule_about_both_decides() {
        let list = AccessControlList::parse(
            "x",
            json!([
                {"criteria": {"Individual": "ann"}, "privilege": "GET", "access": "Deny"},
                {"criteria": "Any", "privilege": "GET", "access": "Allow"},
                {"criteria": {"Identity": "Authenticated"}, "privilege": "POST", "access": "Allow"},
            ]),
        )
        .expect("rules");
        let decided = |auth: &AuthInfo, privilege| list.rule_for(auth, privilege).map(|rule| rule.access);
        let (ann, nobody) = (AuthInfo::by_password("ann"), AuthInfo::default());
        assert_eq!(decided(&ann, "GET"), Some(Access::Deny));
        assert_eq!(decided(&nobody, "GET"), Some(Access::Allow));
        assert_eq!(decided(&ann, "POST"), Some(Access::Allow));
        assert_eq!(decided(&nobody, "POST"), None);
        assert_eq!(decided(&ann, "DELETE"), None);
    }

    #[test]
    fn what_is_no_rule_is_refused_with_its_place() {
        for (list, expected) in [
            (json!([{"criteria": "Any", "privilege": "GET"}]), "missing field `access`"),
            (json!([{"criteria": "Any", "privilege": "GET", "access": "allow"}]), "did you mean `Allow`?"),
            (json!([{"criteria": "Any", "privileges": "GET", "access": "Allow"}]), "did you mean `privilege`?"),
            (json!("Any"), "expected a sequence"),
        ] {
            let error = AccessControlList::parse("x", list.clone()).expect_err("refused").to_string();
            assert!(error.contains(expected), "{list}: {error}");
        }
    }
}
