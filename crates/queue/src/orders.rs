//! The orders in force, and their carrying out: a little at each tick, whatever they are about.
//!
//! Giving an order marks the queues it names, and takes no longer for a million messages than for none. From then on
//! whoever meets a message asks its queue. A walk over ready queues, due and waiting messages, some thousand at a visit,
//! finds those that nobody would meet: it bounces, flushes, and sends home what is ready in a suspended queue. What an
//! order ends waits in the order's own list until a settler takes it, and goes back when the order is withdrawn before that.

use crate::census::Place;
use crate::core::{QueueCore, QueueKey, Queued, ReadyKey};
use crate::effect::Effect;
use crate::ending::Ending;
use crate::messages::{List, SlotNumber};
use crate::order::{Action, Change, Order, OrderId, Rebinding};
use crate::refused::Refused;
use crate::schedule::Belonging;
use crate::scheduled::{Awaited, Fate};
use crate::xfer;
use clock::{Duration, Instant, Now, WallTime};
use hashbrown::{HashMap, HashSet};
use message::Message;
use std::collections::VecDeque;
use std::sync::Arc;

/// All orders in force.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    standing: Vec<Standing>,
    walk: Option<Walk>,
    /// What a withdrawn bounce had not ended yet, on its way home.
    returning: List,
    earlier: Earlier,
    /// When to look for orders that have expired.
    look_at: Option<Instant>,
    /// One of them awaits messages.
    awaits: bool,
    /// The one behind the last that gave a message to be settled: they take turns.
    turn: usize,
}

/// Where the messages of earlier runs are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Earlier {
    /// In their queues.
    #[default]
    Here,
    /// On their way: no order is carried out to its end before all are there.
    Coming,
    /// Some stay away until the next start. Orders are about these too and stay in force, but those that move messages are
    /// about what is here: to move all of it twice would be worse.
    Missing,
}

/// One order and what it has done.
#[derive(Debug)]
struct Standing {
    order: Arc<Order>,
    /// Messages it took or flushed, by queue.
    queues: HashMap<Arc<str>, u64>,
    total: u64,
    /// Held, or bounced or moved and not settled yet.
    taken: List,
    /// Of these, who could not be bounced or moved just now.
    refused: Refused,
    /// How far a rebinding is.
    stage: Stage,
    /// Messages that settlers have.
    in_hand: usize,
}

/// Whose messages a rebinding takes, and whether they may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Those that the walk meets. None leaves: it could come back under the order.
    Gathering,
    /// The walk has been everywhere. Those may leave, and of those who were in hand then, who comes back is taken as well: the
    /// end of a transfer is about the whole queue. Nobody else is: who cannot be moved goes on, and who is sent off anew.
    Awaiting,
    /// It has all, and they may leave; nobody else is taken.
    Complete,
}

/// How far the walk is.
#[derive(Debug)]
enum Walk {
    Ready(VecDeque<ReadyKey>),
    /// Queues, and how many of their due messages were not looked at yet.
    Due(VecDeque<(QueueKey, usize)>),
    /// The step over waiting messages that is next.
    Waiting(usize),
}

/// An order in force, for operators.
#[derive(Clone, Debug)]
pub struct OrderState {
    /// The order.
    pub order: Arc<Order>,
    /// Messages it took or flushed so far, by queue; beyond 65 536 queues under the empty name.
    pub queues: Vec<(Arc<str>, u64)>,
    /// All of them.
    pub total: u64,
    /// Of these, those it has: held, or bounced or moved and not settled yet. A withdrawal brings them back.
    pub pending: usize,
    /// True while messages that were there when it was given are still looked for.
    pub under_way: bool,
}

impl QueueCore {
    /// Takes an order on; how many messages it is about now. An order of the same action and criteria gives way.
    pub fn order(&mut self, now: Now, order: Order) -> usize {
        self.end_awaiting_for(now, &order);
        let same =
            self.orders.standing.iter().position(|s| s.stage == Stage::Gathering && s.order.action == order.action);
        let is_walked = order.criteria().is_some();
        let order = Arc::new(order);
        match same {
            Some(at) => self.orders.standing[at].order = order.clone(),
            None => self.orders.standing.push(Standing::new(order.clone())),
        }
        self.watch_orders(now);
        self.mark_queues();
        if is_walked {
            self.walk_again();
        }
        self.suspend_ready(now);
        match &order.action {
            Action::SuspendReady(name) => {
                self.ready.values().filter(|r| *r.name == **name).map(|r| r.messages.len()).sum()
            }
            _ => self.scheduled.values().filter(|q| q.is_under(order.id)).map(|q| q.len() + q.out).sum(),
        }
    }

    /// Takes an order back: what it has not carried out stays undone, and what waits to be settled goes home.
    pub fn withdraw(&mut self, now: Now, id: OrderId) -> Option<Arc<Order>> {
        let at = self.orders.standing.iter().position(|s| s.order.id == id)?;
        let standing = self.orders.standing.remove(at);
        let Standing { order, mut taken, mut refused, .. } = standing;
        self.messages.append(&mut self.orders.returning, &mut taken);
        self.messages.append(&mut self.orders.returning, &mut refused.list);
        self.orders_changed(now);
        Some(order)
    }

    /// Every order in force and what it has done, in the order in which they were given.
    pub fn orders(&self) -> Vec<OrderState> {
        let under_way = self.orders.walk.is_some() || self.orders.earlier != Earlier::Here;
        let state = |standing: &Standing| OrderState {
            order: standing.order.clone(),
            queues: standing.queues.iter().map(|(name, count)| (name.clone(), *count)).collect(),
            total: standing.total,
            pending: standing.pending(),
            under_way: (under_way && standing.order.criteria().is_some()) || standing.stage == Stage::Awaiting,
        };
        self.orders.standing.iter().map(state).collect()
    }

    /// Messages of earlier runs begin to come, or all have come.
    pub fn set_restoring(&mut self, restoring: bool) {
        self.set_earlier(if restoring { Earlier::Coming } else { Earlier::Here });
    }

    /// Messages of earlier runs stay away until the next start: what has come goes its way.
    pub fn restoring_failed(&mut self) {
        self.set_earlier(Earlier::Missing);
    }

    fn set_earlier(&mut self, earlier: Earlier) {
        self.orders.earlier = earlier;
        if earlier != Earlier::Coming && !self.orders.standing.is_empty() {
            self.walk_again();
        }
    }

    /// Gives a message of `key` to an order. One that is held may stay long: without content, and in the spool.
    pub(crate) fn take_by_order(&mut self, key: QueueKey, slot: SlotNumber, id: OrderId) {
        let name = self.queue_name(key);
        let list = match self.orders.standing.iter_mut().find(|s| s.order.id == id) {
            Some(standing) => {
                if !standing.ends_messages() {
                    if self.messages.get(slot).is_some_and(Message::is_volatile) {
                        // It is given to the order again when it has its place.
                        return self.spool_slot(slot);
                    }
                    self.messages.release(slot);
                }
                standing.count(name);
                &mut standing.taken
            }
            // Withdrawn since: nobody else takes it.
            None => &mut self.orders.returning,
        };
        self.messages.push_back(list, slot);
        self.call_settlers();
    }

    /// The next message that an order bounces or moves.
    pub(crate) fn take_ordered(&mut self) -> Option<(Queued, Ending)> {
        let count = self.orders.standing.len();
        let mut turns = (0..count).map(|behind| (self.orders.turn + behind) % count);
        let gives = |at: &usize| self.orders.standing[*at].gives() && !self.orders.standing[*at].taken.is_empty();
        let at = turns.find(gives)?;
        self.orders.turn = at + 1;
        let standing = &mut self.orders.standing[at];
        let slot = self.messages.pop_front(&mut standing.taken)?;
        let order = standing.order.clone();
        let ending = match standing.rebinds() {
            true => Ending::Rebound(order),
            false => Ending::Bounced(order),
        };
        standing.in_hand += 1;
        self.messages.remove(slot).map(|queued| (queued, ending))
    }

    /// Goes on with the walk and with what is on its way home.
    pub(crate) fn carry_out_orders(&mut self, now: Now) {
        self.bring_home(now);
        self.try_refused_again(now);
        self.end_awaiting(now, |core, standing| core.are_back(standing) || now.wall >= standing.awaits_until());
        if self.orders.look_at.is_some_and(|at| at <= now.mono) {
            self.end_orders(now);
        }
        self.orders.walk = match self.orders.walk.take() {
            None => return,
            Some(Walk::Ready(queues)) => self.walk_ready(now, queues),
            Some(Walk::Due(queues)) => self.walk_due(now, queues),
            Some(Walk::Waiting(step)) => self.walk_waiting(now, step),
        };
        if self.orders.walk.is_none() {
            self.complete_rebindings(now);
            self.end_orders(now);
        }
    }

    /// All that were there are taken: they may go.
    fn complete_rebindings(&mut self, now: Now) {
        if self.orders.earlier == Earlier::Coming {
            return;
        }
        let standing = &self.orders.standing;
        let gathering =
            (0..standing.len()).filter(|at| standing[*at].rebinds() && standing[*at].stage == Stage::Gathering);
        let awaits = |at: usize| {
            let is_undone = standing[at + 1..].iter().any(|other| standing[at].is_undone_by(&other.order));
            standing[at].awaits() && !is_undone && now.wall < standing[at].awaits_until()
        };
        let next: Vec<(usize, bool)> = gathering.map(|at| (at, awaits(at))).collect();
        if next.is_empty() {
            return;
        }
        for (at, awaits) in next {
            self.orders.standing[at].stage = if awaits { Stage::Awaiting } else { Stage::Complete };
        }
        self.mark_queues();
        self.call_settlers();
    }

    /// Ends the wait of those orders that `is_over` names: who is in hand yet stays as he is.
    fn end_awaiting(&mut self, now: Now, is_over: impl Fn(&QueueCore, &Standing) -> bool) {
        let is_it = |s: &&Standing| s.stage == Stage::Awaiting && is_over(self, s);
        let over: Vec<OrderId> = self.orders.standing.iter().filter(is_it).map(|s| s.order.id).collect();
        if over.is_empty() {
            return;
        }
        let standing = self.orders.standing.iter_mut().filter(|s| over.contains(&s.order.id));
        standing.for_each(|standing| standing.stage = Stage::Complete);
        self.mark_queues();
        self.end_orders(now);
    }

    /// Ends the wait of earlier orders of which this one is the contrary, or the same again.
    fn end_awaiting_for(&mut self, now: Now, order: &Order) {
        self.end_awaiting(now, |_, standing| {
            standing.order.action == order.action || standing.is_undone_by(order) || standing.is_said_again_by(order)
        });
    }

    /// True when all that was out of its queues when it began to wait is with the order itself, or gone.
    fn are_back(&self, standing: &Standing) -> bool {
        let names = standing.order.criteria().into_iter().flat_map(|criteria| &criteria.queue_names);
        let queues = names.flat_map(|name| self.namesakes(name)).filter_map(|key| self.scheduled.get(&key));
        queues.map(|queue| queue.out_before()).sum::<usize>() <= standing.pending()
    }

    /// A message that an order bounces or moves and with which that could not be done just now: the order keeps it for another
    /// try, and others go on.
    pub fn not_carried_out(&mut self, now: Now, mut queued: Queued, id: OrderId) {
        let Some(standing) = self.orders.standing.iter_mut().find(|s| s.order.id == id) else {
            return self.stays(now, queued);
        };
        if !queued.message.is_volatile() {
            queued.message.release();
        }
        let slot = self.messages.insert(queued.queue, queued.message);
        standing.refused.keep(&mut self.messages, slot, now.mono);
    }

    fn try_refused_again(&mut self, now: Now) {
        let mut is_any = false;
        for Standing { refused, taken, .. } in &mut self.orders.standing {
            is_any |= refused.go_back(&mut self.messages, taken, now.mono);
        }
        if is_any {
            self.call_settlers();
        }
    }

    /// A settler is done with a message of an order, whatever became of it: with the last, the order is over.
    pub fn settled_for(&mut self, now: Now, id: OrderId) {
        let Some(standing) = self.orders.standing.iter_mut().find(|s| s.order.id == id) else { return };
        standing.in_hand = standing.in_hand.saturating_sub(1);
        if standing.in_hand == 0 && standing.pending() == 0 {
            self.end_orders(now);
        }
    }

    /// A message that an order took and that cannot be moved waits in its queue as before.
    pub fn stays(&mut self, now: Now, queued: Queued) {
        let Queued { message, queue } = queued;
        self.insert(now, queue, message);
        self.left(queue, now.mono);
    }

    /// The order that awaits this message, which comes back from a connection, if no other takes it.
    pub(crate) fn awaited_by(&self, now: Now, key: QueueKey, message: &Message) -> Option<OrderId> {
        let queue = self.scheduled.get(&key)?;
        let awaited = queue.awaited.as_ref().filter(|awaited| !awaited.sent_since.contains(&message.id))?;
        let is_it = awaited.order.concerns(message.id, message.created(), now.wall);
        (is_it && queue.taken_by(message, now.wall).is_none()).then_some(awaited.order.id)
    }

    /// A message that was awaited goes to the order.
    pub(crate) fn returns_to(&mut self, id: OrderId, key: QueueKey, mut message: Message) {
        if !message.is_volatile() {
            message.release();
        }
        self.scheduled.get_mut(&key).into_iter().for_each(|queue| queue.out += 1);
        let slot = self.messages.insert(key, message);
        self.take_by_order(key, slot, id);
    }

    /// A message that an order moved goes to the queue it belongs to, and leaves the one it was of.
    pub fn rebound(&mut self, now: Now, queued: Queued, belonging: Belonging<'_>) {
        let Queued { message, queue } = queued;
        if let Some(old) = self.scheduled.get_mut(&queue) {
            old.forget(message.id);
        }
        self.admit_to(now, belonging, message);
        self.left(queue, now.mono);
    }

    /// Ends orders that are over: expired, and carried out as far as they were about what was there.
    pub(crate) fn end_orders(&mut self, now: Now) {
        let (is_walking, earlier) = (self.orders.walk.is_some(), self.orders.earlier);
        let is_over = |s: &Standing| {
            let are_here = earlier == Earlier::Here || (earlier == Earlier::Missing && s.rebinds());
            let is_done = ((!is_walking && are_here) || !s.order.is_about_messages()) && s.stage != Stage::Awaiting;
            let is_carried_out = (s.pending() == 0 && s.in_hand == 0) || !s.ends_messages();
            now.wall >= s.order.expires && is_done && is_carried_out
        };
        let (over, standing): (Vec<Standing>, _) =
            std::mem::take(&mut self.orders.standing).into_iter().partition(is_over);
        self.orders.standing = standing;
        if !over.is_empty() {
            for mut standing in over {
                self.messages.append(&mut self.orders.returning, &mut standing.taken);
                self.messages.append(&mut self.orders.returning, &mut standing.refused.list);
            }
            self.orders_changed(now);
            self.effects.push(Effect::OrdersEnded);
        }
        self.watch_orders(now);
    }

    /// Notes when the next order expires.
    fn watch_orders(&mut self, now: Now) {
        let ends = |s: &Standing| if s.stage == Stage::Awaiting { s.awaits_until() } else { s.order.expires };
        let next = self.orders.standing.iter().map(ends).filter(|at| *at > now.wall).min();
        self.orders.look_at = next.map(|next| now.mono_at(next).min(now.mono + SUSPENSION_LOOK));
    }

    /// When there is something to be carried out.
    pub(crate) fn orders_deadline(&self) -> Option<Instant> {
        let are_back = |s: &Standing| s.stage == Stage::Awaiting && self.are_back(s);
        let at_once = self.orders.walk.is_some() || !self.orders.returning.is_empty();
        let at_once = at_once || (self.orders.awaits && self.orders.standing.iter().any(are_back));
        if at_once {
            return Some(Instant::ZERO);
        }
        let again = self.orders.standing.iter().filter_map(|s| s.refused.again_at);
        again.chain(self.orders.look_at).min()
    }

    /// Gives a new queue the orders it is under.
    pub(crate) fn orders_for(&self, name: &str) -> Box<[Arc<Order>]> {
        let matches = |s: &&Standing| s.names(name);
        self.orders.standing.iter().filter(matches).map(|s| s.order.clone()).collect()
    }

    /// Until when the ready queue of that name is suspended.
    pub(crate) fn ready_suspended_until(&self, now: Now, name: &str) -> Instant {
        self.ready_suspension(now.wall, name).map_or(Instant::ZERO, |order| now.mono_at(order.expires))
    }

    /// The order that suspends the ready queue of that name.
    pub(crate) fn ready_suspension(&self, now: WallTime, name: &str) -> Option<&Arc<Order>> {
        let is_it = |s: &&Standing| matches!(&s.order.action, Action::SuspendReady(n) if n == name);
        self.orders.standing.iter().find(is_it).map(|s| &s.order).filter(|order| order.expires > now)
    }

    /// Orders were taken back or ended: whoever waited for that goes on.
    fn orders_changed(&mut self, now: Now) {
        self.mark_queues();
        self.suspend_ready(now);
        let mut freed: Vec<QueueKey> =
            self.scheduled.iter().filter(|(_, q)| !q.due.is_empty()).map(|(key, _)| *key).collect();
        freed.sort_unstable();
        freed.into_iter().for_each(|key| self.go_on_later(key));
    }

    /// Marks ready queues: what is suspended now sends its messages back, what is free again goes on.
    fn suspend_ready(&mut self, now: Now) {
        for (key, is_new) in self.mark_ready(now) {
            if is_new {
                self.resting.push_back(key);
            } else {
                self.serve(now, key);
                self.call_waiters(now, key);
            }
        }
    }

    /// Tells every scheduled queue which orders it is under.
    fn mark_queues(&mut self) {
        let standing = &self.orders.standing;
        self.orders.awaits = standing.iter().any(|s| s.stage == Stage::Awaiting);
        for queue in self.scheduled.values_mut() {
            let matches = |s: &&Standing| s.names(&queue.name);
            queue.orders = standing.iter().filter(matches).map(|s| s.order.clone()).collect();
            let awaiting = standing.iter().find(|s| s.stage == Stage::Awaiting && s.matches(&queue.name));
            let is_known = |awaited: &Awaited| awaiting.is_some_and(|s| s.order.id == awaited.order.id);
            if !queue.awaited.as_deref().is_some_and(is_known) {
                let awaited = |s: &Standing| Box::new(Awaited { order: s.order.clone(), sent_since: HashSet::new() });
                queue.awaited = awaiting.map(awaited);
            }
        }
    }

    /// Tells every ready queue whether it is suspended; those for which that changed, and whether they are now.
    fn mark_ready(&mut self, now: Now) -> Vec<(ReadyKey, bool)> {
        let mut changed = Vec::new();
        let names: Vec<(ReadyKey, Arc<str>)> = self.ready.iter().map(|(key, r)| (*key, r.name.clone())).collect();
        for (key, name) in names {
            let until = self.ready_suspended_until(now, &name);
            let Some(ready) = self.ready.get_mut(&key) else { continue };
            // It may be over by itself already; it is over for those who wait when they are told.
            let was = std::mem::replace(&mut ready.suspended_until, until);
            if (was == Instant::ZERO) != (until == Instant::ZERO) {
                changed.push((key, was == Instant::ZERO));
            }
        }
        changed.sort_unstable();
        changed
    }

    fn walk_again(&mut self) {
        let mut ready: Vec<ReadyKey> = self.ready.keys().copied().collect();
        // In order of age: equal runs must do equal things.
        ready.sort_unstable();
        self.orders.walk = Some(Walk::Ready(ready.into()));
    }

    /// One ready queue: messages that must not be there leave it.
    fn walk_ready(&mut self, now: Now, mut queues: VecDeque<ReadyKey>) -> Option<Walk> {
        let Some(key) = queues.pop_front() else {
            let mut due: Vec<(QueueKey, usize)> = self
                .scheduled
                .iter()
                .filter(|(_, q)| q.gives_messages())
                .map(|(key, q)| (*key, q.due.plain_len()))
                .collect();
            due.sort_unstable();
            due.iter().for_each(|(key, _)| self.walk_urgent(now, *key));
            return Some(Walk::Due(due.into()));
        };
        let mut gone = List::default();
        let scheduled = &self.scheduled;
        let leaves = |queue: QueueKey, message: &Message| {
            let fate = scheduled.get(&queue).map(|q| q.fate(message, now));
            matches!(fate, Some(Fate::Ordered(_) | Fate::Suspended))
        };
        if let Some(ready) = self.ready.get_mut(&key) {
            let is_asked = |queue: QueueKey| scheduled.get(&queue).is_some_and(|q| !q.orders.is_empty());
            ready.messages.move_those(&mut self.messages, &mut gone, is_asked, leaves);
        }
        if !gone.is_empty() {
            while let Some(slot) = self.messages.pop_front(&mut gone) {
                self.leave_ready(now, slot);
            }
            self.call_waiters(now, key);
        }
        Some(Walk::Ready(queues))
    }

    /// A message that must not be in a ready queue leaves it: it ends, or is due again in its scheduled queue.
    pub(crate) fn leave_ready(&mut self, now: Now, slot: SlotNumber) {
        let Some(key) = self.messages.queue_of(slot) else { return };
        let fate = self.fate(slot, now);
        match fate {
            Fate::Ordered(id) => self.take_by_order(key, slot, id),
            Fate::Expired => {
                self.messages.push_back(&mut self.endings.expired, slot);
                self.call_settlers();
            }
            Fate::Suspended | Fate::Goes => {
                let Some(queue) = self.scheduled.get_mut(&key) else { return };
                queue.out = queue.out.saturating_sub(1);
                queue.push_due(&mut self.messages, slot);
            }
        }
    }

    /// Due messages with a deadline: they keep their places, and are few as a rule.
    fn walk_urgent(&mut self, now: Now, key: QueueKey) {
        let Some(queue) = self.scheduled.get_mut(&key) else { return };
        for slot in self.messages.pop_urgent(&mut queue.due) {
            let fate = self.fate(slot, now);
            let Some(queue) = self.scheduled.get_mut(&key) else { return };
            match fate {
                Fate::Ordered(id) => {
                    queue.out += 1;
                    self.take_by_order(key, slot, id);
                }
                _ => queue.push_due(&mut self.messages, slot),
            }
        }
    }

    /// Due messages of a queue that is bounced, but for those with a deadline: the list goes round once, and those that end are left out.
    fn walk_due(&mut self, now: Now, mut queues: VecDeque<(QueueKey, usize)>) -> Option<Walk> {
        for _ in 0..DUE_PER_VISIT {
            let Some((key, left)) = queues.front_mut() else { return Some(Walk::Waiting(0)) };
            let key = *key;
            let slot = match left.checked_sub(1) {
                None => None,
                Some(rest) => {
                    *left = rest;
                    let queue = self.scheduled.get_mut(&key);
                    queue.and_then(|queue| self.messages.pop_plain(&mut queue.due))
                }
            };
            let Some(slot) = slot else {
                queues.pop_front();
                continue;
            };
            let fate = self.fate(slot, now);
            let Some(queue) = self.scheduled.get_mut(&key) else { continue };
            match fate {
                Fate::Ordered(id) => {
                    queue.out += 1;
                    self.take_by_order(key, slot, id);
                }
                _ => queue.push_due(&mut self.messages, slot),
            }
        }
        Some(Walk::Due(queues))
    }

    /// Waiting messages, wherever they are: they end, or are due now.
    fn walk_waiting(&mut self, now: Now, step: usize) -> Option<Walk> {
        let scheduled = &self.scheduled;
        let picks = |key: QueueKey, message: &Message| {
            let queue = scheduled.get(&key).filter(|q| !q.orders.is_empty())?;
            let taken = queue.taken_by(message, now.wall).map(|order| (order.id, true));
            taken.or_else(|| queue.flushed_by(message, now.wall).map(|order| (order.id, false)))
        };
        let (picked, next) = self.messages.pick_waiting(step, WAITING_PER_VISIT, picks);
        let mut flushed = Vec::new();
        for (slot, key, (id, is_taken)) in picked {
            let Some(queue) = self.scheduled.get_mut(&key) else { continue };
            queue.waiting -= 1;
            self.stale_timers += 1;
            if is_taken {
                queue.out += 1;
                self.take_by_order(key, slot, id);
                continue;
            }
            if let Some(message) = self.messages.get_mut(slot) {
                message.due = now.wall;
            }
            queue.push_due(&mut self.messages, slot);
            let name = queue.name.clone();
            if let Some(standing) = self.orders.standing.iter_mut().find(|s| s.order.id == id) {
                standing.count(name);
            }
            flushed.push(key);
        }
        flushed.sort_unstable();
        flushed.dedup();
        flushed.into_iter().for_each(|key| self.promote(now, key));
        next.map(Walk::Waiting)
    }

    /// Messages that a withdrawn order had not ended yet wait where they waited before.
    fn bring_home(&mut self, now: Now) {
        for _ in 0..HOME_PER_VISIT {
            let Some(slot) = self.messages.pop_front(&mut self.orders.returning) else { return };
            let Some(queued) = self.messages.remove(slot) else { continue };
            let queue = queued.queue;
            self.insert(now, queue, queued.message);
            self.left(queue, now.mono);
        }
    }

    /// What is to become of the message in a slot before anybody tries it.
    pub(crate) fn fate(&self, slot: SlotNumber, now: Now) -> Fate {
        let queue = self.messages.queue_of(slot).and_then(|key| self.scheduled.get(&key));
        queue.zip(self.messages.get(slot)).map_or(Fate::Goes, |(queue, message)| queue.fate(message, now))
    }
}

impl Orders {
    /// Messages that wait to be settled by order, and may be.
    pub fn ending(&self) -> usize {
        self.standing.iter().filter(|s| s.gives()).map(|s| s.taken.len()).sum()
    }

    /// All lists of messages here, where they are, and whose they are; nobody's are those on their way home.
    pub fn lists(&self) -> impl Iterator<Item = (&List, Place, Option<OrderId>)> {
        let of_orders = self.standing.iter().flat_map(|s| {
            let place = if s.ends_messages() { Place::Ending } else { Place::Held };
            [&s.taken, &s.refused.list].map(|list| (list, place, Some(s.order.id)))
        });
        of_orders.chain([(&self.returning, Place::Held, None)])
    }

    /// The same, to be changed.
    pub fn lists_mut(&mut self) -> impl Iterator<Item = &mut List> {
        let of_orders = self.standing.iter_mut().flat_map(|s| [&mut s.taken, &mut s.refused.list]);
        of_orders.chain([&mut self.returning])
    }

    /// True while messages that were there before an order are still looked for.
    pub fn is_walking(&self) -> bool {
        self.walk.is_some()
    }

    /// How many orders are in force.
    pub fn len(&self) -> usize {
        self.standing.len()
    }
}

impl Standing {
    fn new(order: Arc<Order>) -> Standing {
        Standing {
            order,
            queues: HashMap::new(),
            total: 0,
            taken: List::default(),
            refused: Refused::default(),
            stage: Stage::Gathering,
            in_hand: 0,
        }
    }

    /// Its messages leave their queues for good.
    fn ends_messages(&self) -> bool {
        matches!(self.order.action, Action::Bounce(_)) || self.rebinds()
    }

    /// How many of those that it took it has.
    fn pending(&self) -> usize {
        self.taken.len() + self.refused.list.len()
    }

    fn rebinds(&self) -> bool {
        matches!(self.order.action, Action::Rebind(_))
    }

    /// Settlers may have what it took.
    fn gives(&self) -> bool {
        self.ends_messages() && (self.stage != Stage::Gathering || !self.rebinds())
    }

    /// A scheduled queue of that name is under it.
    fn names(&self, queue: &str) -> bool {
        self.stage == Stage::Gathering && self.matches(queue)
    }

    fn matches(&self, queue: &str) -> bool {
        self.order.criteria().is_some_and(|criteria| criteria.matches(queue))
    }

    /// It awaits those that are in hand.
    fn awaits(&self) -> bool {
        ends_transfer(&self.order).is_some()
    }

    /// True when it ends a transfer that a later order ends too, of more messages perhaps.
    fn is_said_again_by(&self, later: &Order) -> bool {
        let (Some(takes_all), Some(takes_all_later)) = (ends_transfer(&self.order), ends_transfer(later)) else {
            return false;
        };
        takes_all_later >= takes_all && self.order.criteria() == later.criteria()
    }

    /// True when it ends a transfer that a later order begins anew.
    fn is_undone_by(&self, later: &Order) -> bool {
        let Action::Rebind(Rebinding { change: Change::Xfer(target), .. }) = &later.action else { return false };
        self.awaits() && later.given >= self.order.given && self.matches(&xfer::queue_for(target))
    }

    /// How long it awaits at most those that are in hand.
    fn awaits_until(&self) -> WallTime {
        self.order.given + AWAITED_MAX
    }

    fn count(&mut self, queue: Arc<str>) {
        self.total += 1;
        let is_known = self.queues.len() < COUNTED_QUEUES_MAX || self.queues.contains_key(&queue);
        let name = if is_known { queue } else { "".into() };
        *self.queues.entry(name).or_default() += 1;
    }
}

/// Whether an order ends a transfer, and then whether also of what another node was handed.
fn ends_transfer(order: &Order) -> Option<bool> {
    match &order.action {
        Action::Rebind(Rebinding { change: Change::CancelXfer { node_is_gone }, .. }) => Some(*node_is_gone),
        _ => None,
    }
}

/// Longest time for which a timer is set because of a suspension; then it is looked at again.
pub(crate) const SUSPENSION_LOOK: Duration = Duration::from_secs(3600);
/// Due messages that one visit looks at.
const DUE_PER_VISIT: usize = 2048;
/// Waiting messages that one visit looks at.
const WAITING_PER_VISIT: usize = 8192;
/// Messages that go home at one visit.
const HOME_PER_VISIT: usize = 2048;
/// For so long the end of a transfer awaits messages that are in hand: longer than an attempt may take (a call of ten
/// minutes, and what policy says to that) with the timeouts that are set by default.
const AWAITED_MAX: Duration = Duration::from_secs(900);
/// Queues whose counts an order keeps apart.
const COUNTED_QUEUES_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;
    use config::EgressPath;

    #[test]
    fn the_end_of_a_transfer_awaits_the_longest_attempt() {
        let path = EgressPath::default();
        assert!(AWAITED_MAX > Duration::from(path.data_timeout) + Duration::from(path.data_dot_timeout));
    }
}
