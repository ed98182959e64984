//! What a path's limits come to: of every kind the one that binds.
//!
//! Owns [`Constraints`]. In: an [`EgressPath`] or [`QueueConfig`]. Out: for each axis the lowest ceiling and the option it is
//! from, as `inspect-ready-q` and `resolve-egress-path` show them, as lines of text too. Pure arithmetic over options; what is
//! used up of a limit is not known here.

use crate::egress_path::EgressPath;
use crate::limit::LimitSpec;
use crate::queue_config::QueueConfig;
use crate::throttle::ThrottleSpec;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The ceilings of a path (KumoMTA's `compute_egress_path_config_constraints`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Constraints {
    /// Connections at once; of a path always there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrent_dispatchers: Option<Ceiling<u64>>,
    /// Messages a second, whatever limits them: how often connections may be opened does too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_message_rate: Option<Ceiling<f64>>,
    /// Messages a second, as rates of messages say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_message_rate_declared: Option<Ceiling<f64>>,
    /// New connections a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_connection_rate: Option<Ceiling<f64>>,
    /// How often a second a pool may choose this way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_source_selection_rate: Option<Ceiling<f64>>,
}

/// The lowest limit of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ceiling<T> {
    /// As a number: of connections, or a second.
    pub value: T,
    /// Where it is from.
    pub source: CeilingSource,
    /// As an operator writes it.
    pub display: String,
}

/// Where a ceiling is from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CeilingSource {
    /// Which kind of option.
    pub kind: CeilingKind,
    /// The name of a shared one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Which kind of option a ceiling is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CeilingKind {
    /// The option of the path itself.
    Primary,
    /// A shared one, by name.
    Additional,
    /// What `max_connection_rate` lets through with `max_deliveries_per_connection` on each.
    ReconnectCycling,
    /// None of the path's.
    Other,
}

impl EgressPath {
    /// The ceilings that follow from the options.
    pub fn constraints(&self) -> Constraints {
        let declared = lowest(self.max_message_rate.as_ref(), &self.additional_message_rate_throttles);
        let cycling = self.max_connection_rate.map(|rate| self.cycling(rate));
        let rates = declared.clone().into_iter().chain(cycling);
        Constraints {
            max_concurrent_dispatchers: Some(self.connections()),
            // Of two that are equal the declared one is named.
            max_message_rate: rates.min_by(|a, b| a.value.total_cmp(&b.value)),
            max_message_rate_declared: declared,
            max_connection_rate: self.max_connection_rate.map(|rate| rate_of(rate, CeilingKind::Primary, None)),
            max_source_selection_rate: lowest(
                self.source_selection_rate.as_ref(),
                &self.additional_source_selection_rates,
            ),
        }
    }

    fn connections(&self) -> Ceiling<u64> {
        let ceiling = |spec: &LimitSpec, kind, name: Option<&String>| Ceiling {
            value: spec.limit,
            source: CeilingSource { kind, name: name.cloned() },
            display: spec.to_string(),
        };
        let own = ceiling(&self.connection_limit, CeilingKind::Primary, None);
        let named = self.additional_connection_limits.iter();
        let named = named.map(|(name, spec)| ceiling(spec, CeilingKind::Additional, Some(name)));
        named.fold(own, |lowest, other| if other.value < lowest.value { other } else { lowest })
    }

    fn cycling(&self, rate: ThrottleSpec) -> Ceiling<f64> {
        let limit = rate.limit.saturating_mul(self.max_deliveries_per_connection as u64);
        rate_of(ThrottleSpec { limit, max_burst: None, ..rate }, CeilingKind::ReconnectCycling, None)
    }
}

impl QueueConfig {
    /// The ceiling that follows from the options (KumoMTA's `compute_queue_config_constraints`).
    pub fn constraints(&self) -> Constraints {
        let name = || Some(QUEUE_RATE.to_owned());
        let max_message_rate = self.max_message_rate.map(|rate| rate_of(rate, CeilingKind::Other, name()));
        Constraints { max_message_rate, ..Constraints::default() }
    }
}

impl Constraints {
    /// Of each axis the lower of two ceilings; of equal ones, ours.
    #[must_use]
    pub fn and(self, other: Constraints) -> Constraints {
        Constraints {
            max_concurrent_dispatchers: lower(self.max_concurrent_dispatchers, other.max_concurrent_dispatchers),
            max_message_rate: lower(self.max_message_rate, other.max_message_rate),
            max_message_rate_declared: lower(self.max_message_rate_declared, other.max_message_rate_declared),
            max_connection_rate: lower(self.max_connection_rate, other.max_connection_rate),
            max_source_selection_rate: lower(self.max_source_selection_rate, other.max_source_selection_rate),
        }
    }

    fn lines(&self) -> [Option<(&'static str, &str, &CeilingSource)>; 5] {
        fn line<'a, T>(
            name: &'static str,
            ceiling: &'a Option<Ceiling<T>>,
        ) -> Option<(&'static str, &'a str, &'a CeilingSource)> {
            ceiling.as_ref().map(|ceiling| (name, ceiling.display.as_str(), &ceiling.source))
        }
        [
            line("max_concurrent_dispatchers", &self.max_concurrent_dispatchers),
            line("max_message_rate", &self.max_message_rate),
            line("max_message_rate_declared", &self.max_message_rate_declared),
            line("max_connection_rate", &self.max_connection_rate),
            line("max_source_selection_rate", &self.max_source_selection_rate),
        ]
    }
}

/// `ceilings:` and a line each (KumoMTA's `format_egress_path_config_constraints`).
impl fmt::Display for Constraints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ceilings:\n")?;
        for (name, display, source) in self.lines().into_iter().flatten() {
            writeln!(f, "  {name}: {display} ({source})")?;
        }
        Ok(())
    }
}

impl fmt::Display for CeilingSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            CeilingKind::Primary => "primary",
            CeilingKind::Additional => "additional",
            CeilingKind::ReconnectCycling => "reconnect_cycling",
            CeilingKind::Other => "other",
        };
        f.write_str(kind)?;
        self.name.as_ref().map_or(Ok(()), |name| write!(f, " {name:?}"))
    }
}

fn lower<T: PartialOrd>(one: Option<Ceiling<T>>, other: Option<Ceiling<T>>) -> Option<Ceiling<T>> {
    match (one, other) {
        (Some(one), Some(other)) if other.value < one.value => Some(other),
        (one, other) => one.or(other),
    }
}

fn lowest(own: Option<&ThrottleSpec>, named: &BTreeMap<String, ThrottleSpec>) -> Option<Ceiling<f64>> {
    let own = own.map(|spec| rate_of(*spec, CeilingKind::Primary, None));
    let named = named.iter().map(|(name, spec)| rate_of(*spec, CeilingKind::Additional, Some(name.clone())));
    own.into_iter().chain(named).min_by(|a, b| a.value.total_cmp(&b.value))
}

fn rate_of(spec: ThrottleSpec, kind: CeilingKind, name: Option<String>) -> Ceiling<f64> {
    let value = spec.limit as f64 / spec.period_s as f64;
    Ceiling { value, source: CeilingSource { kind, name }, display: spec.to_string() }
}

/// What a queue's rate is called.
const QUEUE_RATE: &str = "scheduled queue max_message_rate";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;
    use serde_json::json;

    fn constraints(path: serde_json::Value) -> serde_json::Value {
        let path: EgressPath = parse("kumo.make_egress_path", path).expect("sound");
        serde_json::to_value(path.constraints()).expect("writes")
    }

    #[test]
    fn what_is_not_limited_is_absent() {
        let expected =
            json!({"max_concurrent_dispatchers": {"value": 32, "source": {"kind": "primary"}, "display": "32"}});
        assert_eq!(constraints(json!({})), expected);
    }

    #[test]
    fn the_lowest_of_each_kind_binds_and_is_named() {
        let found = constraints(json!({
            "connection_limit": 10,
            "additional_connection_limits": {"wide": 11, "all": "local:3"},
            "max_message_rate": "60/m",
            "additional_message_rate_throttles": {"tenant": "30/m", "other": "1000/s"},
            "source_selection_rate": "100/d",
            "additional_source_selection_rates": {"warm": "10/h"},
        }));
        assert_eq!(
            found["max_concurrent_dispatchers"],
            json!({"value": 3, "source": {"kind": "additional", "name": "all"}, "display": "local:3"})
        );
        let rate = json!({"value": 0.5, "source": {"kind": "additional", "name": "tenant"}, "display": "30/m"});
        assert_eq!((&found["max_message_rate"], &found["max_message_rate_declared"]), (&rate, &rate));
        assert_eq!(found["max_source_selection_rate"]["display"], "100/d");
        assert_eq!(found.get("max_connection_rate"), None);
    }

    #[test]
    fn a_queue_s_rate_lowers_what_a_path_lets_through() {
        let queue: QueueConfig = parse("kumo.make_queue_config", json!({"max_message_rate": "30/m"})).expect("sound");
        let path: EgressPath = parse(
            "kumo.make_egress_path",
            json!({"max_message_rate": "1/s", "max_connection_rate": "5/s", "connection_limit": "local:3"}),
        )
        .expect("sound");
        let both = path.constraints().and(queue.constraints());
        assert_eq!(
            both.to_string(),
            "ceilings:\n  max_concurrent_dispatchers: local:3 (primary)\n  \
             max_message_rate: 30/m (other \"scheduled queue max_message_rate\")\n  \
             max_message_rate_declared: 1/s (primary)\n  max_connection_rate: 5/s (primary)\n"
        );
        let json = serde_json::to_value(&both).expect("writes");
        assert_eq!(serde_json::from_value::<Constraints>(json).expect("reads"), both);
    }

    #[test]
    fn opening_connections_slowly_limits_messages_too() {
        let found = constraints(json!({
            "max_connection_rate": "2/m,max_burst=1", "max_deliveries_per_connection": 15, "max_message_rate": "1/s"
        }));
        let cycling = json!({"value": 0.5, "source": {"kind": "reconnect_cycling"}, "display": "30/m"});
        assert_eq!(found["max_message_rate"], cycling);
        assert_eq!(found["max_message_rate_declared"]["value"], 1.0);
        assert_eq!(found["max_connection_rate"]["display"], "2/m,max_burst=1");
    }
}
