//! What became of recipients: a tally a ready queue, and one a protocol that is the sum of its ready queues.
//!
//! A tally is three numbers that deliveries add to without a lock; whoever holds one keeps it. In: names and outcomes. Out:
//! the families `total_messages_delivered`, `total_messages_transfail` and `total_messages_fail` (KumoMTA's names and
//! labels). One tally a ready queue until that is forgotten; nothing can fail.

use crate::exposition::{Exposition, Kind};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Outcomes of one ready queue, or of one protocol.
#[derive(Debug, Default)]
pub struct Tally {
    /// Recipients delivered to.
    pub delivered: AtomicU64,
    /// Transient failures.
    pub transfail: AtomicU64,
    /// Permanent failures.
    pub fail: AtomicU64,
}

/// All of them.
#[derive(Debug, Default)]
pub struct Tallies(Mutex<All>);

#[derive(Debug, Default)]
struct All {
    protocols: BTreeMap<&'static str, Arc<Tally>>,
    queues: HashMap<Arc<str>, Arc<Tally>>,
}

impl Tallies {
    /// The tally of a protocol.
    pub fn of_protocol(&self, protocol: &'static str) -> Arc<Tally> {
        self.all().protocols.entry(protocol).or_default().clone()
    }

    /// The tally of a ready queue.
    pub fn of_queue(&self, ready_name: &Arc<str>) -> Arc<Tally> {
        self.all().queues.entry(ready_name.clone()).or_default().clone()
    }

    /// A ready queue is gone: its series end (KumoMTA behaviour). The protocol's go on.
    pub fn forget(&self, ready_name: &str) {
        self.all().queues.remove(ready_name);
    }

    /// Adds the three families; `service` makes the label of a ready queue from its name.
    pub fn expose(&self, text: &mut Exposition, service: impl Fn(&str) -> String) {
        let (protocols, queues) = {
            let all = self.all();
            let queues: Vec<_> = all.queues.iter().map(|(name, tally)| (name.clone(), tally.clone())).collect();
            (all.protocols.clone(), queues)
        };
        let protocols = protocols.into_iter().map(|(name, tally)| (name.to_owned(), tally));
        let series: Vec<_> = protocols.chain(queues.into_iter().map(|(name, tally)| (service(&name), tally))).collect();
        let mut family = |name, help, of: fn(&Tally) -> &AtomicU64| {
            let series = series.iter().map(|(service, tally)| (service, of(tally).load(Ordering::Relaxed)));
            text.family((name, help, Kind::Counter), "service", series);
        };
        family("total_messages_delivered", "recipients delivered", |tally| &tally.delivered);
        family("total_messages_transfail", "transient failures", |tally| &tally.transfail);
        family("total_messages_fail", "permanent failures", |tally| &tally.fail);
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(tallies: &Tallies) -> String {
        let mut text = Exposition::after(String::new(), "total_messages_");
        tallies.expose(&mut text, |name| format!("smtp_client:{name}"));
        text.into_text()
    }

    #[test]
    fn a_queue_is_counted_until_it_is_forgotten_and_its_protocol_for_good() {
        let tallies = Tallies::default();
        let name: Arc<str> = "src->site@smtp_client".into();
        for tally in [tallies.of_protocol("smtp_client"), tallies.of_queue(&name), tallies.of_queue(&name)] {
            tally.delivered.fetch_add(2, Ordering::Relaxed);
        }
        let both = text(&tallies);
        assert!(both.contains("\ntotal_messages_delivered{service=\"smtp_client\"} 2\n"), "{both}");
        let own = "{service=\"smtp_client:src->site@smtp_client\"}";
        assert!(both.contains(&format!("\ntotal_messages_delivered{own} 4\n")), "{both}");
        assert!(both.contains(&format!("\ntotal_messages_fail{own} 0\n")), "{both}");
        tallies.forget(&name);
        let rest = text(&tallies);
        assert!(!rest.contains(own) && rest.contains("{service=\"smtp_client\"} 2\n"), "{rest}");
    }
}
