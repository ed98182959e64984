//! What came of looking at the lists of the resources that somebody's wish is about.

use crate::{Access, AccessControlList, AuthInfo, Rule};
use serde::Serialize;

/// Whether somebody may do what they want, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Disposition {
    /// A rule lets them.
    Allow {
        /// This one.
        rule: Rule,
        /// Of this resource.
        resource: String,
    },
    /// A rule forbids it.
    Deny {
        /// This one.
        rule: Rule,
        /// Of this resource.
        resource: String,
    },
    /// No rule is about them and what they want.
    DenyByDefault,
}

impl Disposition {
    /// What the rules of one resource say; `None` lets the next resource decide.
    pub fn of(list: &AccessControlList, resource: &str, auth: &AuthInfo, privilege: &str) -> Option<Disposition> {
        let rule = list.rule_for(auth, privilege)?.clone();
        let resource = resource.to_owned();
        Some(match rule.access {
            Access::Allow => Disposition::Allow { rule, resource },
            Access::Deny => Disposition::Deny { rule, resource },
        })
    }

    /// Whether they may.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Disposition::Allow { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::built_in;

    #[test]
    fn a_list_decides_or_leaves_it_to_the_next() {
        let list = built_in("http_listener/*/api/inject").expect("there");
        let decided = |auth: &AuthInfo| Disposition::of(&list, "r", auth, "POST");
        assert!(decided(&AuthInfo::by_password("ann")).is_some_and(|found| found.is_allowed()));
        assert_eq!(decided(&AuthInfo::default()), None);
        assert!(!Disposition::DenyByDefault.is_allowed());
    }
}
