//! Lists by resource, as a TOML file writes them.

use crate::acl::{Access, AccessControlList, Rule};
use crate::criteria::{Criteria, IdentityKind, usual_kind};
use config::ConfigError;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use thiserror::Error;

/// Lists by resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AclMap {
    lists: BTreeMap<String, Arc<AccessControlList>>,
}

/// Why a text is no map.
#[derive(Debug, Error)]
pub enum AclMapError {
    /// It is no TOML.
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
    /// A member is not what belongs there.
    #[error("{0}")]
    Member(#[from] ConfigError),
    /// An entry names nobody, or names them twice.
    #[error("acl.\"{resource}\" entry {entry}: expected either identity or criteria")]
    WhoIsMeant {
        /// Of which resource.
        resource: String,
        /// Which of its entries, from 1.
        entry: usize,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    acl: BTreeMap<String, Vec<Entry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    allow: bool,
    privileges: Vec<String>,
    identity: Option<Value>,
    criteria: Option<Value>,
}

impl AclMap {
    /// Reads TOML: `[[acl."RESOURCE"]]` with `allow`, `privileges`, and `identity` or `criteria`.
    ///
    /// # Errors
    /// It says something else.
    pub fn parse(text: &str) -> Result<AclMap, AclMapError> {
        let value: Value = toml::from_str(text)?;
        let file: File = config::parse("acl map", value)?;
        let mut lists = BTreeMap::new();
        for (resource, entries) in file.acl {
            let mut list = AccessControlList::default();
            for (index, entry) in entries.into_iter().enumerate() {
                let criteria = criteria_of(&resource, index + 1, entry.identity, entry.criteria)?;
                let access = if entry.allow { Access::Allow } else { Access::Deny };
                let rule = |privilege| Rule { criteria: criteria.clone(), privilege, access };
                list.rules.extend(entry.privileges.into_iter().map(rule));
            }
            lists.insert(resource, Arc::new(list));
        }
        Ok(AclMap { lists })
    }

    /// The rules of a resource, if there are any.
    pub fn get(&self, resource: &str) -> Option<Arc<AccessControlList>> {
        self.lists.get(resource).cloned()
    }
}

fn criteria_of(
    resource: &str,
    entry: usize,
    identity: Option<Value>,
    criteria: Option<Value>,
) -> Result<Criteria, AclMapError> {
    match (identity, criteria) {
        (Some(mut kind), None) => {
            usual_kind(&mut kind);
            Ok(Criteria::Identity(config::parse::<IdentityKind>("acl map: identity", kind)?))
        }
        (None, Some(criteria)) => Ok(Criteria::parse("acl map: criteria", criteria)?),
        _ => Err(AclMapError::WhoIsMeant { resource: resource.to_owned(), entry }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AuthInfo;

    #[test]
    fn a_file_is_read_entry_by_entry() {
        let map = AclMap::parse(
            "[[acl.\"http_listener/*/a\"]]\nallow = false\nprivileges = ['GET']\nidentity.Individual = 'bob'\n\
             [[acl.\"http_listener/*/a\"]]\nallow = true\nprivileges = ['GET', 'POST']\ncriteria.AnyOf = [{Group = 'g'}, \
             {Identity = {Individual = 'bob'}}]\n[[acl.b]]\nallow = true\nprivileges = ['GET']\nidentity.Any = {}\n",
        )
        .expect("a map");
        let list = map.get("http_listener/*/a").expect("there");
        let bob = AuthInfo::by_password("bob");
        let decided = |privilege| list.rule_for(&bob, privilege).map(|rule| rule.access);
        assert_eq!((decided("GET"), decided("POST"), decided("PUT")), (Some(Access::Deny), Some(Access::Allow), None));
        assert!(map.get("b").expect("there").rule_for(&AuthInfo::default(), "GET").is_some());
        assert!(map.get("http_listener/*/b").is_none());
    }

    #[test]
    fn what_is_no_map_is_refused() {
        let entry = |more: &str| format!("[[acl.r]]\nallow = true\nprivileges = ['GET']\n{more}");
        for (text, expected) in [
            (entry(""), "acl.\"r\" entry 1: expected either identity or criteria"),
            (entry("identity.Any = {}\ncriteria.Not = 'Any'"), "expected either identity or criteria"),
            (entry("identity.Grup = 'g'"), "did you mean `Group`?"),
            (entry("who = 'g'"), "unknown field `who`"),
            ("[[acls.r]]".to_owned(), "did you mean `acl`?"),
            ("[acl".to_owned(), "TOML parse error"),
        ] {
            let error = AclMap::parse(&text).expect_err("refused").to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
