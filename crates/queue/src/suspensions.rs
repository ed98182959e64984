//! The orders in force that hold queues back, found by what they hold back: there may be a great many of them.
//!
//! A shaping daemon gives one for each site of each source that a provider has had enough of. So neither a new queue nor a new order
//! looks at all of them. Carries nothing out.

use crate::name::QueueName;
use crate::order::{Action, Criteria, Order, OrderId};
use clock::WallTime;
use hashbrown::HashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Suspensions {
    by_id: BTreeMap<OrderId, Arc<Order>>,
    /// Of ready queues, by name.
    ready: HashMap<String, OrderId>,
    /// Of scheduled queues, by what their criteria say.
    scheduled: HashMap<Said, Vec<OrderId>>,
    /// How many say this much, whatever it is.
    forms: BTreeMap<Form, usize>,
    ends: BTreeSet<(WallTime, OrderId)>,
    /// How many hold after a restart.
    surviving: usize,
}

/// What criteria say of a queue's name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Said {
    Name(String),
    /// Parts, domains in lower case; what is `None` says nothing.
    Parts([Option<String>; PARTS]),
}

/// Which parts criteria say something of.
type Form = [bool; PARTS];

/// Campaign, tenant, domain, routing domain.
const PARTS: usize = 4;

impl Suspensions {
    /// Takes one in; the one of the same action that gives way to it.
    pub fn give(&mut self, order: Arc<Order>) -> Option<Arc<Order>> {
        let older = self.same(&order.action).map(|older| older.id);
        let older = older.and_then(|id| self.remove(id));
        match &order.action {
            Action::SuspendReady(name) => _ = self.ready.insert(name.clone(), order.id),
            _ => {
                for said in order.criteria().into_iter().flat_map(said_by) {
                    said.form().into_iter().for_each(|form| *self.forms.entry(form).or_default() += 1);
                    self.scheduled.entry(said).or_default().push(order.id);
                }
            }
        }
        self.ends.insert((order.expires, order.id));
        self.surviving += usize::from(order.survives_restart);
        self.by_id.insert(order.id, order);
        older
    }

    /// Takes one out.
    pub fn remove(&mut self, id: OrderId) -> Option<Arc<Order>> {
        let order = self.by_id.remove(&id)?;
        self.ends.remove(&(order.expires, id));
        self.surviving -= usize::from(order.survives_restart);
        match &order.action {
            Action::SuspendReady(name) => _ = self.ready.remove(name),
            _ => order.criteria().into_iter().flat_map(said_by).for_each(|said| self.forget(&said, id)),
        }
        Some(order)
    }

    fn forget(&mut self, said: &Said, id: OrderId) {
        if let Some(ids) = self.scheduled.get_mut(said) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.scheduled.remove(said);
            }
        }
        if let Some(form) = said.form()
            && let Some(count) = self.forms.get_mut(&form)
        {
            *count -= 1;
            if *count == 0 {
                self.forms.remove(&form);
            }
        }
    }

    /// Takes those out that are over, some at a time.
    pub fn take_over(&mut self, now: WallTime) -> Vec<Arc<Order>> {
        let over = self.ends.iter().take_while(|(at, _)| *at <= now).take(OVER_AT_ONCE);
        let over: Vec<OrderId> = over.map(|(_, id)| *id).collect();
        over.into_iter().filter_map(|id| self.remove(id)).collect()
    }

    /// When the next one is over.
    pub fn next_end(&self) -> Option<WallTime> {
        self.ends.first().map(|(at, _)| *at)
    }

    /// The one of that id.
    pub fn get(&self, id: OrderId) -> Option<&Arc<Order>> {
        self.by_id.get(&id)
    }

    /// The one that does the same.
    pub fn same(&self, action: &Action) -> Option<&Arc<Order>> {
        match action {
            Action::SuspendReady(name) => self.of_ready(name),
            Action::Suspend(criteria) => {
                let ids = self.scheduled.get(said_by(criteria).first()?)?;
                ids.iter().filter_map(|id| self.by_id.get(id)).find(|order| order.action == *action)
            }
            _ => None,
        }
    }

    /// The one that suspends the ready queue of that name.
    pub fn of_ready(&self, name: &str) -> Option<&Arc<Order>> {
        self.ready.get(name).and_then(|id| self.by_id.get(id))
    }

    /// Those that suspend the scheduled queue of that name.
    pub fn of_scheduled(&self, name: &str) -> Vec<Arc<Order>> {
        if self.scheduled.is_empty() {
            return Vec::new();
        }
        let parts = parts_of(name);
        let of_parts = self.forms.keys().filter_map(|form| {
            let is_there = parts.iter().zip(form).all(|(part, is_said)| part.is_some() || !is_said);
            let said = |at: usize| parts[at].clone().filter(|_| form[at]);
            is_there.then(|| Said::Parts([0, 1, 2, 3].map(said)))
        });
        let said = of_parts.chain([Said::Name(name.to_owned())]);
        let ids: BTreeSet<OrderId> = said.filter_map(|said| self.scheduled.get(&said)).flatten().copied().collect();
        ids.iter().filter_map(|id| self.by_id.get(id)).cloned().collect()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Order>> {
        self.by_id.values()
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// How many hold after a restart.
    pub fn surviving(&self) -> usize {
        self.surviving
    }
}

impl Said {
    fn form(&self) -> Option<Form> {
        match self {
            Said::Name(_) => None,
            Said::Parts(parts) => Some(parts.each_ref().map(Option::is_some)),
        }
    }
}

/// What [`Criteria::matches`] asks of a queue.
fn said_by(criteria: &Criteria) -> Vec<Said> {
    if !criteria.queue_names.is_empty() {
        return criteria.queue_names.iter().cloned().map(Said::Name).collect();
    }
    let Criteria { campaign, tenant, domain, routing_domain, .. } = criteria;
    let lower = |domain: &Option<String>| domain.as_deref().map(str::to_ascii_lowercase);
    vec![Said::Parts([campaign.clone(), tenant.clone(), lower(domain), lower(routing_domain)])]
}

/// The same parts of a queue's name.
fn parts_of(name: &str) -> [Option<String>; PARTS] {
    let name = QueueName::split(name);
    let lower = |domain: &str| domain.to_ascii_lowercase();
    let own = |part: Option<&str>| part.map(str::to_owned);
    [own(name.campaign), own(name.tenant), Some(lower(name.domain)), name.routing_domain.map(lower)]
}

/// Orders that end at one visit.
const OVER_AT_ONCE: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn order(number: u8, action: Action, expires: i64) -> Arc<Order> {
        Arc::new(Order {
            id: OrderId([number; 16]),
            action,
            reason: "test".into(),
            given: WallTime::EPOCH,
            expires: WallTime::from_unix_secs(expires),
            suppress_logging: false,
            survives_restart: true,
        })
    }

    fn ids(orders: &[Arc<Order>]) -> Vec<u8> {
        orders.iter().map(|order| order.id.0[0]).collect()
    }

    fn criteria() -> impl Strategy<Value = Criteria> {
        let part = |values: [&'static str; 2]| proptest::option::of(proptest::sample::select(values.to_vec()));
        let names = proptest::collection::btree_set(queue_name(), 0..3);
        let parts = (part(["c", "C"]), part(["t", "u"]), part(["a.test", "A.test"]), part(["r.test", "R.TEST"]));
        (parts, proptest::bool::weighted(0.2), names).prop_map(|((c, t, d, r), is_named, names)| Criteria {
            campaign: c.map(Into::into),
            tenant: t.map(Into::into),
            domain: d.map(Into::into),
            routing_domain: r.map(Into::into),
            queue_names: if is_named { names } else { BTreeSet::new() },
            ..Criteria::default()
        })
    }

    fn queue_name() -> impl Strategy<Value = String> {
        proptest::sample::select(vec![
            "c:t@a.test!r.test",
            "t@a.test",
            "u@A.test",
            "c:t@b.test",
            "a.test",
            "b.test!R.test",
        ])
        .prop_map(str::to_owned)
    }

    proptest! {
        #[test]
        fn who_suspends_a_queue_is_found_as_criteria_say(
            given in proptest::collection::vec((criteria(), any::<bool>()), 0..20),
            name in queue_name(),
        ) {
            let mut all = Suspensions::default();
            let mut model: BTreeMap<u8, Arc<Order>> = BTreeMap::new();
            for (number, (criteria, is_taken_back)) in (0..).zip(given) {
                let order = order(number, Action::Suspend(criteria), 100);
                model.retain(|_, older| older.action != order.action);
                model.insert(number, order.clone());
                all.give(order);
                let first = model.keys().next().copied();
                if let Some(first) = first.filter(|_| is_taken_back) {
                    model.remove(&first);
                    prop_assert!(all.remove(OrderId([first; 16])).is_some());
                }
            }
            let expected: Vec<u8> = model.values()
                .filter(|order| order.criteria().is_some_and(|criteria| criteria.matches(&name)))
                .map(|order| order.id.0[0])
                .collect();
            prop_assert_eq!(ids(&all.of_scheduled(&name)), expected);
            prop_assert_eq!(all.len(), model.len());
            let left: Vec<OrderId> = all.iter().map(|order| order.id).collect();
            left.into_iter().for_each(|id| _ = all.remove(id));
            prop_assert!(all.scheduled.is_empty() && all.forms.is_empty() && all.ends.is_empty() && all.surviving() == 0);
        }
    }

    #[test]
    fn those_of_ready_queues_give_way_and_end() {
        let mut all = Suspensions::default();
        let of = |name: &str| Action::SuspendReady(name.to_owned());
        assert!(all.give(order(1, of("a"), 10)).is_none() && all.give(order(2, of("b"), 20)).is_none());
        let older = all.give(order(3, of("a"), 30)).expect("the first gives way");
        assert_eq!((older.id.0[0], all.len()), (1, 2));
        assert_eq!(all.of_ready("a").map(|order| order.id.0[0]), Some(3));
        assert_eq!(all.next_end(), Some(WallTime::from_unix_secs(20)));
        assert_eq!(ids(&all.take_over(WallTime::from_unix_secs(29))), [2]);
        assert!(all.of_ready("b").is_none() && all.same(&of("b")).is_none() && all.get(OrderId([2; 16])).is_none());
        assert!(all.remove(OrderId([3; 16])).is_some() && all.ready.is_empty() && all.next_end().is_none());
    }
}
