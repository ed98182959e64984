//! Records that found the log or the hook full that they were for, or were too long for the log.
//!
//! Owns [`FullLogs`]: `log_submit_full{logger}` of both (`dir-PATH`, `hook-NAME`), `log_hook_backlog_count{logger}` of hooks (KumoMTA's names
//! and labels), `log_record_dropped_too_large{log_dir}` of logs (likewise), and `postrider_log_records_dropped_total{logger}` of logs: what they have no room for with `when_full = 'Drop'`, refusals elsewhere. In: directories and
//! names of hooks. Whoever is full counts with each record, so that a label is made once and then found.
//! There are as many as the policy configures.

use crate::metrics::counters;
use crate::registry::Registry;
use prometheus::{Error, IntCounter, IntCounterVec};
use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

/// The counters.
pub struct FullLogs {
    submit: IntCounterVec,
    backlog: IntCounterVec,
    dropped: IntCounterVec,
    too_large: IntCounterVec,
    dirs: Known<PathBuf, IntCounter>,
    dropped_dirs: Known<PathBuf, IntCounter>,
    too_large_dirs: Known<PathBuf, IntCounter>,
    hooks: Known<String, [IntCounter; 2]>,
}

/// Series that were made already.
type Known<K, C> = RwLock<HashMap<K, C>>;

impl FullLogs {
    pub(crate) fn new(r: &Registry) -> Result<FullLogs, Error> {
        Ok(FullLogs {
            submit: counters(r, "log_submit_full", "records that found a log full", &["logger"])?,
            backlog: counters(r, "log_hook_backlog_count", "records that found a log hook full", &["logger"])?,
            dropped: counters(
                r,
                "postrider_log_records_dropped_total",
                "records that a full log dropped: any with when_full = 'Drop', refusals elsewhere",
                &["logger"],
            )?,
            too_large: counters(
                r,
                "log_record_dropped_too_large",
                "records that were dropped as they were longer than max_record_size",
                &["log_dir"],
            )?,
            dirs: RwLock::default(),
            dropped_dirs: RwLock::default(),
            too_large_dirs: RwLock::default(),
            hooks: RwLock::default(),
        })
    }

    /// A record found the log of this directory full.
    pub fn dir(&self, dir: &Path) {
        let make = || self.submit.with_label_values(&[format!("dir-{}", dir.display())]);
        counted(&self.dirs, dir, make, IntCounter::inc);
    }

    /// The log of this directory dropped a record, as it was full.
    pub fn dropped(&self, dir: &Path) {
        let make = || self.dropped.with_label_values(&[format!("dir-{}", dir.display())]);
        counted(&self.dropped_dirs, dir, make, IntCounter::inc);
    }

    /// The log of this directory dropped a record, as it was too long.
    pub fn too_large(&self, dir: &Path) {
        let make = || self.too_large.with_label_values(&[&dir.display().to_string()]);
        counted(&self.too_large_dirs, dir, make, IntCounter::inc);
    }

    /// A record found this hook full.
    pub fn hook(&self, name: &str) {
        let make =
            || [self.submit.with_label_values(&[format!("hook-{name}")]), self.backlog.with_label_values(&[name])];
        counted(&self.hooks, name, make, |both| both.iter().for_each(IntCounter::inc));
    }
}

fn counted<K, Q, C>(known: &Known<K, C>, key: &Q, make: impl FnOnce() -> C, count: impl Fn(&C))
where
    K: Borrow<Q> + Hash + Eq,
    Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
{
    if let Some(found) = known.read().unwrap_or_else(PoisonError::into_inner).get(key) {
        return count(found);
    }
    let mut known = known.write().unwrap_or_else(PoisonError::into_inner);
    count(known.entry(key.to_owned()).or_insert_with(make));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_and_hooks_are_told_apart_and_a_label_is_made_once() {
        let registry = Registry::default();
        let full = FullLogs::new(&registry).expect("sound");
        ["/var/log/a", "/var/log/a", "/var/log/b"].iter().for_each(|dir| full.dir(Path::new(dir)));
        ["billing", "billing", "a"].iter().for_each(|hook| full.hook(hook));
        full.dropped(Path::new("/var/log/b"));
        full.too_large(Path::new("/var/log/b"));
        let page = crate::metrics::text_of(&registry, "").expect("encodes");
        let series: Vec<&str> = page.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            series,
            [
                "log_hook_backlog_count{logger=\"a\"} 1",
                "log_hook_backlog_count{logger=\"billing\"} 2",
                "log_record_dropped_too_large{log_dir=\"/var/log/b\"} 1",
                "log_submit_full{logger=\"dir-/var/log/a\"} 2",
                "log_submit_full{logger=\"dir-/var/log/b\"} 1",
                "log_submit_full{logger=\"hook-a\"} 1",
                "log_submit_full{logger=\"hook-billing\"} 2",
                "postrider_log_records_dropped_total{logger=\"dir-/var/log/b\"} 1",
            ]
        );
        let made = std::cell::Cell::new(0);
        let known: Known<String, IntCounter> = RwLock::default();
        for _ in 0..3 {
            let make = || {
                made.set(made.get() + 1);
                full.submit.with_label_values(&["x"])
            };
            counted(&known, "x", make, IntCounter::inc);
        }
        assert_eq!((made.get(), full.submit.with_label_values(&["x"]).get()), (1, 3));
    }
}
