//! The table of KumoMTA's metrics (`kumomta_names.tsv`) held against the registry, the sources and what `docs/compat.md` says is missing.
//!
//! What a running server shows is held against the same table by `testing/e2e/tests/metric_names.rs`.

use std::collections::BTreeMap;
use telemetry::Metrics;

const TABLE: &str = include_str!("kumomta_names.tsv");
const COMPAT: &str = include_str!("../../../docs/compat.md");

/// Name, type, and what is remarked.
fn table() -> Vec<[&'static str; 3]> {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    let row = |line: &'static str| {
        let mut parts = line.split('\t');
        let mut next = || parts.next().unwrap_or_default();
        let row = [next(), next(), next()];
        assert!(parts.next().is_none(), "{line}");
        row
    };
    lines.map(row).collect()
}

fn is_absent(remark: &str) -> bool {
    remark.starts_with("absent: ")
}

#[test]
fn the_table_is_sound() {
    let table = table();
    assert_eq!(table.len(), 124, "as many as KumoMTA documents");
    assert!(table.is_sorted_by_key(|[name, ..]| *name), "each name once, in order");
    for [name, kind, remark] in table {
        assert!(["counter", "gauge", "histogram"].contains(&kind), "{name} {kind}");
        let reason = remark.strip_prefix("absent: ").or_else(|| remark.strip_prefix("when: "));
        assert!(remark.is_empty() || reason.is_some_and(|reason| reason.len() > 5), "{name}: {remark}");
    }
}

#[test]
fn what_the_registry_has_is_of_kumomtas_type_and_not_called_absent() {
    let metrics = Metrics::new().expect("sound");
    let page = metrics.text("").expect("encodes");
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let types: BTreeMap<&str, &str> = types.collect();
    let table = table();
    let known: Vec<_> = table.iter().filter(|[name, ..]| types.contains_key(name)).collect();
    assert!(known.len() > 20, "{known:?} of {types:?}");
    for [name, kind, remark] in known {
        assert_eq!((types[name], is_absent(remark)), (*kind, false), "{name}");
    }
    // Whatever is neither KumoMTA's nor called ours would pass for KumoMTA's.
    let strangers: Vec<&&str> = types
        .keys()
        .filter(|name| !name.starts_with("postrider_") && !table.iter().any(|row| row[0] == **name))
        .collect();
    assert!(strangers.is_empty(), "{strangers:?}");
}

#[test]
fn the_list_of_what_is_not_there_is_the_tables() {
    let row = COMPAT.lines().find(|line| line.starts_with("| metrics | ")).expect("a row about metrics");
    // Every other part stands between backticks; a star is any end.
    let patterns: Vec<&str> = row.split('`').skip(1).step_by(2).collect();
    let is_named = |name: &str| {
        let matches = |pattern: &&str| match pattern.strip_suffix('*') {
            Some(begin) => name.starts_with(begin),
            None => **pattern == *name,
        };
        patterns.iter().filter(|pattern| matches(pattern)).count()
    };
    for [name, _, remark] in table() {
        assert_eq!(is_named(name), usize::from(is_absent(remark)), "{name} in {row}");
    }
    let names: Vec<&str> = table().iter().map(|[name, ..]| *name).collect();
    for pattern in &patterns {
        let begin = pattern.trim_end_matches('*');
        assert!(names.iter().any(|name| name.starts_with(begin)), "{pattern} is no metric of KumoMTA's");
    }
}
