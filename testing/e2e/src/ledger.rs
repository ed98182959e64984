//! The line files of `traffic-gen` (ids answered 250) and `smtp-sink` (messages that arrived).
//!
//! Only complete lines count: both are written while we read. A file that is not there yet is an empty one.

use std::collections::{HashMap, HashSet};
use std::path::Path;

/// One message at the sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The generator's id; `-` for other mail.
    pub id: String,
    /// `ok`, `damaged`, or `unmarked` for other mail.
    pub verdict: String,
    /// Its recipients.
    pub recipients: Vec<String>,
}

/// What became of the ids the server answered 250.
#[derive(Debug)]
pub struct Balance {
    /// Ids answered 250.
    pub acknowledged: usize,
    /// Acknowledged ids that never arrived.
    pub lost: Vec<String>,
    /// Acknowledged ids that arrived damaged.
    pub damaged: Vec<String>,
    /// Arrivals beyond the first of an acknowledged id.
    pub duplicates: usize,
}

/// The ids in a generator's ledger.
pub fn acknowledged(path: &Path) -> Vec<String> {
    complete_lines(path).into_iter().filter(|line| !line.is_empty()).collect()
}

/// The messages in a sink's ledger.
pub fn arrivals(path: &Path) -> Vec<Arrival> {
    complete_lines(path).iter().map(|line| arrival(line)).collect()
}

/// Compares the two ledgers.
pub fn balance(acknowledged: &[String], arrivals: &[Arrival]) -> Balance {
    let mut seen: HashMap<&str, usize> = HashMap::new();
    let mut damaged: HashSet<&str> = HashSet::new();
    for arrival in arrivals {
        *seen.entry(&arrival.id).or_default() += 1;
        if arrival.verdict != "ok" {
            damaged.insert(&arrival.id);
        }
    }
    let times = |id: &String| seen.get(id.as_str()).copied().unwrap_or_default();
    Balance {
        acknowledged: acknowledged.len(),
        lost: acknowledged.iter().filter(|id| times(id) == 0).cloned().collect(),
        damaged: acknowledged.iter().filter(|id| damaged.contains(id.as_str())).cloned().collect(),
        duplicates: acknowledged.iter().map(|id| times(id).saturating_sub(1)).sum(),
    }
}

fn arrival(line: &str) -> Arrival {
    let mut columns = line.split('\t').map(str::to_owned);
    let mut next = || columns.next().unwrap_or_else(|| panic!("ledger line with too few columns: {line:?}"));
    let (id, verdict, recipients) = (next(), next(), next());
    Arrival { id, verdict, recipients: recipients.split(',').map(str::to_owned).collect() }
}

fn complete_lines(path: &Path) -> Vec<String> {
    let text = std::fs::read(path).map(|octets| String::from_utf8_lossy(&octets).into_owned()).unwrap_or_default();
    let complete = text.rfind('\n').map_or("", |end| &text[..end]);
    complete.lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_doubled_or_damaged_is_found() {
        let ids: Vec<String> = ["a", "b", "c", "d"].map(str::to_owned).into();
        let arrived = |id: &str, verdict: &str| arrival(&format!("{id}\t{verdict}\tx@y.test,z@y.test"));
        let arrivals =
            [arrived("a", "ok"), arrived("b", "damaged"), arrived("c", "ok"), arrived("c", "ok"), arrived("e", "ok")];
        let balance = balance(&ids, &arrivals);
        assert_eq!(
            (balance.lost, balance.damaged, balance.duplicates),
            (vec!["d".to_owned()], vec!["b".to_owned()], 1)
        );
        assert_eq!(arrivals[0].recipients, ["x@y.test", "z@y.test"]);
    }

    #[test]
    fn a_line_half_written_waits() {
        let folder = tempfile::tempdir().expect("scratch folder");
        let path = folder.path().join("ledger");
        assert!(acknowledged(&path).is_empty());
        std::fs::write(&path, "one\ntwo\nthr").expect("write");
        assert_eq!(acknowledged(&path), ["one", "two"]);
    }
}
