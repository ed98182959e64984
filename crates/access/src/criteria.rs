//! Whom a rule is about.
//!
//! In: who somebody is. Out: whether the rule is about them. Tables are read as KumoMTA writes them, `{Identity = {Group = 'g'}}`,
//! and as its examples do, which leave `Identity` out.

use crate::AuthInfo;
use config::{CidrSet, ConfigError, canonical_ip};
use core::net::IpAddr;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// A condition on who somebody is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Criteria {
    /// One thing about them.
    Identity(IdentityKind),
    /// Each of these; of none at all, true.
    AllOf(Vec<Criteria>),
    /// One of these at least.
    AnyOf(Vec<Criteria>),
    /// Anything but this.
    Not(Box<Criteria>),
}

/// One thing about somebody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IdentityKind {
    /// A name that was proven.
    Individual(String),
    /// Belongs to this group.
    Group(String),
    /// Comes from this address.
    Machine(IpAddr),
    /// Comes from one of these.
    MachineSet(CidrSet),
    /// Proved who they are.
    Authenticated,
    /// Did not.
    Unauthenticated,
    /// Whoever they are.
    Any,
}

impl Criteria {
    /// Reads a table; `what` is the function it was given to.
    ///
    /// # Errors
    /// It is no condition, or nests deeper than 32 others.
    pub fn parse(what: &'static str, mut value: Value) -> Result<Criteria, ConfigError> {
        usual(&mut value, 0);
        config::parse(what, value)
    }

    /// Whether this is about them.
    pub fn is_met(&self, auth: &AuthInfo) -> bool {
        match self {
            Criteria::Identity(kind) => kind.is_met(auth),
            Criteria::AllOf(all) => all.iter().all(|one| one.is_met(auth)),
            Criteria::AnyOf(any) => any.iter().any(|one| one.is_met(auth)),
            Criteria::Not(one) => !one.is_met(auth),
        }
    }
}

impl IdentityKind {
    fn is_met(&self, auth: &AuthInfo) -> bool {
        match self {
            IdentityKind::Individual(name) => auth.identities.iter().any(|one| one.identity == *name),
            IdentityKind::Group(name) => auth.groups.contains(name),
            IdentityKind::Machine(ip) => auth.peer_address.is_some_and(|peer| canonical_ip(peer) == canonical_ip(*ip)),
            IdentityKind::MachineSet(set) => auth.peer_address.is_some_and(|peer| set.contains(peer)),
            IdentityKind::Authenticated => !auth.identities.is_empty(),
            IdentityKind::Unauthenticated => auth.identities.is_empty(),
            IdentityKind::Any => true,
        }
    }
}

/// The other ways to write a condition become the usual one: `{Any = {}}` is `'Any'`, and what stands outside of `Identity` is put
/// into it. What nests too deeply becomes null, which is no condition.
pub(crate) fn usual(value: &mut Value, depth: usize) {
    if depth > DEPTH_MAX {
        *value = Value::Null;
        return;
    }
    match value {
        Value::String(word) if ALONE.contains(&word.as_str()) => *value = json!({ "Identity": word }),
        Value::Object(map) if map.len() == 1 => usual_member(map, depth),
        _ => {}
    }
}

fn usual_member(map: &mut Map<String, Value>, depth: usize) {
    let Some(name) = map.keys().next().cloned() else { return };
    let Some(inner) = map.get_mut(&name) else { return };
    match name.as_str() {
        "Identity" => usual_kind(inner),
        "Not" => usual(inner, depth + 1),
        "AllOf" | "AnyOf" => inner.as_array_mut().into_iter().flatten().for_each(|one| usual(one, depth + 1)),
        bare if KINDS.contains(&bare) => {
            let mut kind = Value::Object(std::mem::take(map));
            usual_kind(&mut kind);
            map.insert("Identity".to_owned(), kind);
        }
        _ => {}
    }
}

/// An empty table says no more than its name.
pub(crate) fn usual_kind(kind: &mut Value) {
    let Some((name, inner)) = kind.as_object().filter(|map| map.len() == 1).and_then(|map| map.iter().next()) else {
        return;
    };
    let is_empty = inner.as_object().is_some_and(Map::is_empty) || inner.as_array().is_some_and(Vec::is_empty);
    if is_empty && ALONE.contains(&name.as_str()) {
        *kind = Value::String(name.clone());
    }
}

/// Kinds that are a word of their own.
const ALONE: [&str; 3] = ["Authenticated", "Unauthenticated", "Any"];
const KINDS: [&str; 7] = ["Individual", "Group", "Machine", "MachineSet", "Authenticated", "Unauthenticated", "Any"];
/// Conditions within conditions.
const DEPTH_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn somebody() -> AuthInfo {
        let mut auth = AuthInfo::by_password("ann");
        auth.peer_address = Some("::ffff:10.0.0.7".parse().expect("address"));
        auth.groups = vec!["staff".to_owned()];
        auth
    }

    #[test]
    fn each_kind_is_met_by_whom_it_names_and_by_nobody_else() {
        for (criteria, is_met, is_met_by_nobody) in [
            (json!({"Identity": {"Individual": "ann"}}), true, false),
            (json!({"Identity": {"Individual": "bob"}}), false, false),
            (json!({"Identity": {"Group": "staff"}}), true, false),
            (json!({"Identity": {"Group": "ann"}}), false, false),
            (json!({"Identity": {"Machine": "10.0.0.7"}}), true, false),
            (json!({"Identity": {"Machine": "10.0.0.8"}}), false, false),
            (json!({"Identity": {"MachineSet": ["192.0.2.1", "10.0.0.0/24"]}}), true, false),
            (json!({"Identity": {"MachineSet": []}}), false, false),
            (json!({"Identity": "Authenticated"}), true, false),
            (json!({"Identity": "Unauthenticated"}), false, true),
            (json!({"Identity": "Any"}), true, true),
            (json!({"Identity": {"Any": {}}}), true, true),
            (json!({"Machine": "10.0.0.7"}), true, false),
            (json!("Any"), true, true),
            (json!({"Not": {"Identity": {"Group": "staff"}}}), false, true),
            (json!({"Not": {"Unauthenticated": []}}), true, false),
            (json!({"AllOf": [{"Group": "staff"}, {"Individual": "ann"}]}), true, false),
            (json!({"AllOf": [{"Group": "staff"}, {"Individual": "bob"}]}), false, false),
            (json!({"AllOf": []}), true, true),
            (json!({"AnyOf": [{"Group": "none"}, {"Individual": "ann"}]}), true, false),
            (json!({"AnyOf": []}), false, false),
        ] {
            let read = Criteria::parse("x", criteria.clone()).expect("a condition");
            assert_eq!(read.is_met(&somebody()), is_met, "{criteria} of somebody");
            assert_eq!(read.is_met(&AuthInfo::default()), is_met_by_nobody, "{criteria} of nobody");
            let again = Criteria::parse("x", serde_json::to_value(&read).expect("written")).expect("read again");
            assert_eq!(again, read, "{criteria}");
        }
    }

    #[test]
    fn what_is_no_condition_is_refused() {
        let nested = (0..40).fold(json!("Any"), |inner, _| json!({ "Not": inner }));
        for (criteria, expected) in [
            (json!({}), "expected one of Identity, AllOf, AnyOf, Not"),
            (json!("Anyone"), "unknown variant `Anyone` (did you mean `AnyOf`?)"),
            (json!({"Identity": {"Machin": "10.0.0.1"}}), "did you mean `Machine`?"),
            (json!({"Identity": {"Machine": "10.0.0.0/8"}}), "Identity"),
            (json!({"Identity": {"MachineSet": ["10.0.0.0/8", "ten"]}}), "ten"),
            (json!({"AllOf": [{"Group": "a"}, {"Grup": "b"}]}), "AllOf"),
            (json!({"Identity": "Any", "Not": "Any"}), "expected one of"),
            (nested, "Not"),
        ] {
            let error = Criteria::parse("kumo.aaa.make_access_control_list", criteria.clone()).expect_err("refused");
            assert!(error.to_string().contains(expected), "{criteria}: {error}");
        }
    }
}
