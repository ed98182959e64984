//! `"replaces"` of a request for an order: in whose place the order is to be given, and in no other.
//!
//! In: an order's id, `none` or `shorter`. Out: [`InsteadOf`], by which the engine refuses what somebody else was faster than: who takes back
//! what he did must not take back what others did since.

use engine::InsteadOf;
use queue::OrderId;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use uuid::Uuid;

/// The order of the same criteria that is to be in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Replaces(pub InsteadOf);

impl<'de> Deserialize<'de> for Replaces {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Replaces, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = || D::Error::custom(format!("{text:?}: expected the id of an order, {NONE} or {SHORTER}"));
        Ok(Replaces(match &*text {
            NONE => InsteadOf::Nothing,
            SHORTER => InsteadOf::Shorter,
            id => InsteadOf::Order(OrderId(*id.parse::<Uuid>().map_err(|_| wrong())?.as_bytes())),
        }))
    }
}

impl JsonSchema for Replaces {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Replaces".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^(none|shorter|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$"})
    }
}

/// There is to be no order of the same criteria.
const NONE: &str = "none";
/// One that lasts as long stays.
const SHORTER: &str = "shorter";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_id_or_what_is_to_give_way_is_read_and_nothing_else() {
        let of = |value: serde_json::Value| serde_json::from_value::<Replaces>(value);
        let id = "212d9988-e859-11f1-99c7-e77c9407c7c8";
        let bytes = *Uuid::parse_str(id).expect("an id").as_bytes();
        assert_eq!(of(json!(id)).expect("read"), Replaces(InsteadOf::Order(OrderId(bytes))));
        assert_eq!(of(json!("none")).expect("read"), Replaces(InsteadOf::Nothing));
        assert_eq!(of(json!("shorter")).expect("read"), Replaces(InsteadOf::Shorter));
        assert_eq!(Replaces::default(), Replaces(InsteadOf::Any), "when it is not given");
        for wrong in [json!("None"), json!(""), json!("212d9988"), json!(null), json!(1)] {
            assert!(of(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
