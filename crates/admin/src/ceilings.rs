//! What a path's limits come to, as answers have it.
//!
//! In: [`Constraints`] of `config`. Out: the same, which says of what form it is: a field that is there and not here does not compile.

use config::{Ceiling as Found, CeilingKind, CeilingSource, Constraints};
use schemars::JsonSchema;
use serde::Serialize;

/// The lowest ceiling of each kind.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Ceilings {
    /// Connections at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_concurrent_dispatchers: Option<Ceiling<u64>>,
    /// Messages a second, whatever limits them.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_message_rate: Option<Ceiling<f64>>,
    /// Messages a second, as rates of messages say.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_message_rate_declared: Option<Ceiling<f64>>,
    /// New connections a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_connection_rate: Option<Ceiling<f64>>,
    /// How often a second a pool may choose this way.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_source_selection_rate: Option<Ceiling<f64>>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct Ceiling<T> {
    value: T,
    source: Source,
    /// As an operator writes it.
    display: String,
}

/// Which option it is from.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CeilingSource")]
struct Source {
    kind: Kind,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "CeilingKind")]
enum Kind {
    Primary,
    Additional,
    ReconnectCycling,
    Other,
}

impl From<Constraints> for Ceilings {
    fn from(found: Constraints) -> Ceilings {
        let Constraints {
            max_concurrent_dispatchers,
            max_message_rate,
            max_message_rate_declared,
            max_connection_rate,
            max_source_selection_rate,
        } = found;
        Ceilings {
            max_concurrent_dispatchers: max_concurrent_dispatchers.map(Ceiling::from),
            max_message_rate: max_message_rate.map(Ceiling::from),
            max_message_rate_declared: max_message_rate_declared.map(Ceiling::from),
            max_connection_rate: max_connection_rate.map(Ceiling::from),
            max_source_selection_rate: max_source_selection_rate.map(Ceiling::from),
        }
    }
}

impl<T> From<Found<T>> for Ceiling<T> {
    fn from(found: Found<T>) -> Ceiling<T> {
        let Found { value, source: CeilingSource { kind, name }, display } = found;
        let kind = match kind {
            CeilingKind::Primary => Kind::Primary,
            CeilingKind::Additional => Kind::Additional,
            CeilingKind::ReconnectCycling => Kind::ReconnectCycling,
            CeilingKind::Other => Kind::Other,
        };
        Ceiling { value, source: Source { kind, name }, display }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::EgressPath;
    use serde_json::json;

    #[test]
    fn it_is_written_as_config_writes_it() {
        let path = json!({
            "max_message_rate": "10/s", "max_connection_rate": "2/s", "connection_limit": 7, "max_deliveries_per_connection": 1,
            "additional_message_rate_throttles": {"shared": "5/s"}, "source_selection_rate": "1/s",
        });
        let path: EgressPath = config::parse("kumo.make_egress_path", path).expect("sound");
        let found = path.constraints();
        let expected = serde_json::to_value(&found).expect("JSON");
        assert_eq!(serde_json::to_value(Ceilings::from(found)).expect("JSON"), expected);
        assert_eq!(expected["max_message_rate"]["source"], json!({"kind": "reconnect_cycling"}));
    }
}
