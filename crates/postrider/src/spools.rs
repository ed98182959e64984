//! Which engine serves the spools a policy defines, and where it lives.
//!
//! KumoMTA defines two spools, `data` and `meta`. Here one engine holds both halves of a message together, so that one
//! sync makes it durable: it lives in the directory of `data` and is of the kind that `data` names. In: the
//! `kumo.define_spool` calls. Out: a [`Plan`]. Fails when one of the two is missing.

use anyhow::anyhow;
use config::{SpoolKind, SpoolOptions};
use std::path::PathBuf;
use store::Kind;

/// What to open.
#[derive(Debug, PartialEq, Eq)]
pub struct Plan {
    /// The directory.
    pub dir: PathBuf,
    /// The log, or one file per message.
    pub kind: Kind,
    /// What the operator should know, one line; `None` when the policy says it all.
    pub notice: Option<String>,
}

impl Plan {
    /// For the spools a policy defined.
    pub fn new(spools: &[SpoolOptions]) -> anyhow::Result<Plan> {
        let missing =
            |name: &str| anyhow!("kumo.define_spool: no spool called `{name}` is defined: expected `data` and `meta`");
        let find = |name: &str| spools.iter().find(|s| s.name == name).ok_or_else(|| missing(name));
        let (data, meta) = (find("data")?, find("meta")?);
        let kind = match data.kind {
            Some(SpoolKind::LocalDisk) => Kind::Files,
            Some(SpoolKind::RocksDB) | None => Kind::Log,
        };
        Ok(Plan { dir: data.path.clone(), kind, notice: notice(data, meta) })
    }
}

/// Where ours is not what the policy names.
fn notice(data: &SpoolOptions, meta: &SpoolOptions) -> Option<String> {
    let dir = data.path.display();
    let unused = match meta.path == data.path {
        true => String::new(),
        false => format!("; {} stays unused", meta.path.display()),
    };
    let kind = data.kind.map_or("no kind", |kind| match kind {
        SpoolKind::LocalDisk => "LocalDisk",
        SpoolKind::RocksDB => "RocksDB",
    });
    match data.kind {
        Some(SpoolKind::LocalDisk) if meta.path == data.path && meta.kind == data.kind => None,
        Some(SpoolKind::LocalDisk) => Some(format!(
            "spools `data` and `meta`: one file per message in {dir} holds both{unused}; synced before 250"
        )),
        _ => Some(format!(
            "spools `data` and `meta` (kind: {kind}): one log in {dir} serves both{unused}; synced before 250"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spool(name: &str, path: &str, kind: Option<SpoolKind>) -> SpoolOptions {
        SpoolOptions { name: name.into(), path: path.into(), kind, ..SpoolOptions::default() }
    }

    #[test]
    fn the_data_spool_says_where_and_how() {
        use SpoolKind::{LocalDisk, RocksDB};
        let rows = [
            (None, None, "/s/meta", Kind::Log, Some("no kind")),
            (Some(RocksDB), Some(RocksDB), "/s/meta", Kind::Log, Some("/s/meta stays unused")),
            (Some(RocksDB), Some(LocalDisk), "/s/meta", Kind::Log, Some("RocksDB")),
            (Some(LocalDisk), Some(LocalDisk), "/s/meta", Kind::Files, Some("one file per message in /s/data")),
            (Some(LocalDisk), Some(LocalDisk), "/s/data", Kind::Files, None),
        ];
        for (data, meta, meta_path, kind, said) in rows {
            let plan = Plan::new(&[spool("meta", meta_path, meta), spool("data", "/s/data", data)]).expect("both");
            assert_eq!((plan.dir.to_str(), plan.kind), (Some("/s/data"), kind), "{data:?} {meta:?}");
            match (said, &plan.notice) {
                (Some(said), Some(notice)) => assert!(notice.contains(said), "{notice}"),
                (None, None) => {}
                (said, notice) => panic!("{data:?} {meta:?}: expected {said:?}, found {notice:?}"),
            }
        }
    }

    #[test]
    fn both_must_be_defined() {
        for (one, missing) in [("data", "meta"), ("meta", "data")] {
            let error = Plan::new(&[spool(one, "/s", None)]).expect_err("one is missing").to_string();
            assert!(error.contains(&format!("`{missing}`")), "{error}");
        }
    }
}
