//! The orders in force, and their carrying out: a little at each tick, whatever they are about.
//!
//! Giving an order marks the queues it names ([`crate::marks`]), and takes no longer for a million messages than for none. From then
//! on whoever meets a message asks its queue, and a walk finds those that nobody would meet ([`crate::walk`]). What an
//! order ends waits in the order's own list until a settler takes it, and goes back when the order is withdrawn before that.

use crate::census::Place;
use crate::core::{QueueCore, QueueKey, Queued};
use crate::effect::Effect;
use crate::ending::Ending;
use crate::messages::{List, SlotNumber};
use crate::order::{Action, Change, Criteria, Order, OrderId, Rebinding};
use crate::refused::Refused;
use crate::schedule::Belonging;
use crate::scheduled::Fate;
use crate::suspensions::Suspensions;
use crate::walk::Walk;
use crate::xfer;
use clock::{Duration, Instant, Now, WallTime};
use hashbrown::HashMap;
use message::Message;
use std::sync::Arc;

/// All orders in force.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    standing: Vec<Standing>,
    /// Those that hold queues back.
    pub(crate) suspensions: Suspensions,
    pub(crate) walk: Walk,
    /// What a withdrawn bounce had not ended yet, on its way home.
    returning: List,
    earlier: Earlier,
    /// When to look for orders that have expired.
    look_at: Option<Instant>,
    /// One of them awaits messages.
    pub(crate) awaits: bool,
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
    /// The walk that meets all that was there when it was given.
    walk: u64,
    /// How many messages settlers have, by the order under which they were taken: another may have taken its place since.
    in_hand: Vec<(OrderId, usize)>,
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

/// How many orders are in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrderCounts {
    /// Those that do something to messages: bounce, hold, flush, move.
    pub about_messages: usize,
    /// Those that hold queues back.
    pub suspensions: usize,
    /// Of these, those that hold after a restart.
    pub surviving_suspensions: usize,
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
        self.end_orders(now);
        self.end_awaiting_for(now, &order);
        let order = Arc::new(order);
        let count = match order.action {
            Action::Suspend(_) | Action::SuspendReady(_) => self.suspend(now, order),
            _ => self.order_about_messages(now, order),
        };
        self.watch_orders(now);
        count
    }

    fn order_about_messages(&mut self, now: Now, order: Arc<Order>) -> usize {
        let is_same = |s: &&mut Standing| s.stage == Stage::Gathering && s.order.action == order.action;
        let walk = self.orders.walk.next();
        let older = match self.orders.standing.iter_mut().find(is_same) {
            Some(standing) => {
                standing.walk = walk;
                let older = std::mem::replace(&mut standing.order, order.clone()).id;
                self.orders.walk.rename(older, order.id);
                Some(older)
            }
            None => {
                self.orders.standing.push(Standing::new(order.clone(), walk));
                None
            }
        };
        let queues = self.mark(&order, older);
        self.begin_walk();
        if matches!(order.action, Action::Flush(_)) {
            // What the walk finds comes behind.
            for key in &queues {
                if self.ends_hold(now, *key) {
                    self.go_on_later(*key);
                }
            }
        }
        self.count_concerned(&order.action, &queues)
    }

    /// Takes an order back: what it has not carried out stays undone, and what waits to be settled goes home.
    pub fn withdraw(&mut self, now: Now, id: OrderId) -> Option<Arc<Order>> {
        let order = match self.orders.suspensions.remove(id) {
            Some(order) => order,
            None => {
                let at = self.orders.standing.iter().position(|s| s.order.id == id)?;
                let Standing { order, mut taken, mut refused, .. } = self.orders.standing.remove(at);
                self.messages.append(&mut self.orders.returning, &mut taken);
                self.messages.append(&mut self.orders.returning, &mut refused.list);
                order
            }
        };
        self.mark_awaited();
        self.lift(now, std::slice::from_ref(&order));
        Some(order)
    }

    /// The orders in force of the same action and criteria, the last first.
    pub fn same_orders<'a>(&'a self, action: &'a Action) -> impl Iterator<Item = &'a Arc<Order>> {
        let standing = self.orders.standing.iter().rev().map(|s| &s.order).filter(|order| order.action == *action);
        self.orders.suspensions.same(action).into_iter().chain(standing)
    }

    /// The order of that id, if it is in force.
    pub fn order_of(&self, id: OrderId) -> Option<&Arc<Order>> {
        let standing = || self.orders.standing.iter().map(|s| &s.order).find(|order| order.id == id);
        self.orders.suspensions.get(id).or_else(standing)
    }

    /// How many orders are in force.
    pub fn order_counts(&self) -> OrderCounts {
        let (standing, suspensions) = (&self.orders.standing, &self.orders.suspensions);
        OrderCounts {
            about_messages: standing.len(),
            suspensions: suspensions.len(),
            surviving_suspensions: suspensions.surviving(),
        }
    }

    /// Those that hold after a restart, in the order in which they count where several are about one message; with `new` in the place
    /// of those of the same action.
    pub fn surviving_orders(&self, new: Option<&Arc<Order>>) -> Vec<Arc<Order>> {
        let is_same = |order: &Arc<Order>| new.is_some_and(|new| new.action == order.action);
        let mut all: Vec<Arc<Order>> = Vec::new();
        for standing in &self.orders.standing {
            match is_same(&standing.order) {
                // One that has come to its end gives its place to nobody.
                true => all.extend(new.filter(|_| standing.stage == Stage::Gathering).cloned()),
                false => all.push(standing.order.clone()),
            }
        }
        all.extend(self.orders.suspensions.iter().filter(|order| !is_same(order)).cloned());
        all.extend(new.filter(|new| !all.iter().any(|order| order.id == new.id)).cloned());
        all.retain(|order| order.survives_restart);
        all
    }

    /// Every order in force and what it has done, in the order in which they were given.
    pub fn orders(&self) -> Vec<OrderState> {
        let mut all = self.orders_to(|_| true);
        all.sort_by_key(|state| (state.order.given, state.order.id));
        all
    }

    /// Those in force that do what is wanted, in no particular order.
    pub fn orders_to(&self, is_wanted: impl Fn(&Action) -> bool) -> Vec<OrderState> {
        let is_looked_for = |s: &Standing| s.walk > self.orders.walk.done() || self.orders.earlier != Earlier::Here;
        let standing = self.orders.standing.iter().filter(|standing| is_wanted(&standing.order.action));
        let about_messages = standing.map(|standing| OrderState {
            order: standing.order.clone(),
            queues: standing.queues.iter().map(|(name, count)| (name.clone(), *count)).collect(),
            total: standing.total,
            pending: standing.pending(),
            under_way: is_looked_for(standing) || standing.stage == Stage::Awaiting,
        });
        let suspensions = self.orders.suspensions.iter().filter(|order| is_wanted(&order.action));
        let of_queues = suspensions.map(|order| OrderState {
            order: order.clone(),
            queues: Vec::new(),
            total: 0,
            pending: 0,
            under_way: false,
        });
        about_messages.chain(of_queues).collect()
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
            let walk = self.orders.walk.next();
            self.orders.standing.iter_mut().for_each(|standing| standing.walk = walk);
            self.begin_walk();
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

    /// Who holds messages that somebody ends or moves perhaps, and how many.
    pub(crate) fn holders(&self) -> impl Iterator<Item = (OrderId, usize)> {
        let are_ended = self.orders.standing.iter().any(|s| s.stage == Stage::Gathering && s.order.ends_held());
        let holders =
            self.orders.standing.iter().filter(move |s| are_ended && !s.ends_messages() && !s.taken.is_empty());
        holders.map(|s| (s.order.id, s.taken.len()))
    }

    /// The next so many messages that an order holds go to those that end or move them, if there are any now; else they are the last
    /// ones held.
    pub(crate) fn look_at_held(&mut self, now: WallTime, holder: OrderId, count: usize) {
        let Some(standing) = self.orders.standing.iter_mut().find(|s| s.order.id == holder) else { return };
        let mut ended = Vec::new();
        for _ in 0..count {
            let Some(slot) = self.messages.pop_front(&mut standing.taken) else { break };
            let queue = self.messages.queue_of(slot).and_then(|key| Some((key, self.scheduled.get(&key)?)));
            let by = queue.zip(self.messages.get(slot)).and_then(|((key, queue), message)| {
                let id = queue.ended_by(message, now)?;
                Some((key, queue.name.clone(), id))
            });
            match by {
                Some((key, name, id)) => {
                    standing.uncount(&name);
                    ended.push((key, slot, id));
                }
                None => self.messages.push_back(&mut standing.taken, slot),
            }
        }
        ended.into_iter().for_each(|(key, slot, id)| self.take_by_order(key, slot, id));
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
        standing.gave();
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
        if !self.walk(now) {
            return;
        }
        self.complete_rebindings(now);
        self.end_orders(now);
        if self.orders.wanted_walk() > self.orders.walk.done() {
            self.begin_walk();
        }
    }

    /// All that were there are taken: they may go.
    fn complete_rebindings(&mut self, now: Now) {
        if self.orders.earlier == Earlier::Coming {
            return;
        }
        let standing = &self.orders.standing;
        let done = self.orders.walk.done();
        let has_met_all = |s: &Standing| s.rebinds() && s.stage == Stage::Gathering && s.walk <= done;
        let gathering = (0..standing.len()).filter(|at| has_met_all(&standing[*at]));
        let awaits = |at: usize| {
            let is_undone = standing[at + 1..].iter().any(|other| standing[at].is_undone_by(&other.order));
            standing[at].awaits() && !is_undone && now.wall < standing[at].awaits_until()
        };
        let next: Vec<(usize, bool)> = gathering.map(|at| (at, awaits(at))).collect();
        if next.is_empty() {
            return;
        }
        let mut orders = Vec::new();
        for (at, awaits) in next {
            let standing = &mut self.orders.standing[at];
            standing.stage = if awaits { Stage::Awaiting } else { Stage::Complete };
            orders.push(standing.order.clone());
        }
        self.unmark(&orders.iter().collect::<Vec<_>>());
        self.mark_awaited();
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
        self.mark_awaited();
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
        let Some(standing) = self.orders.standing.iter_mut().find(|s| s.has_given(id)) else {
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
        let Some(standing) = self.orders.standing.iter_mut().find(|s| s.has_given(id)) else { return };
        standing.is_done_with(id);
        if standing.in_hand.is_empty() && standing.pending() == 0 {
            self.end_orders(now);
        }
    }

    /// A message that an order took and that cannot be moved waits in its queue as before.
    pub fn stays(&mut self, now: Now, queued: Queued) {
        let Queued { message, queue } = queued;
        self.insert(now, queue, message);
        self.left(queue, now.mono);
    }

    /// The order that awaits this message, which comes back from a connection, if no other ends or moves it.
    pub(crate) fn awaited_by(&self, now: Now, key: QueueKey, message: &Message) -> Option<OrderId> {
        let queue = self.scheduled.get(&key)?;
        let awaited = queue.awaited.as_ref().filter(|awaited| !awaited.sent_since.contains(&message.id))?;
        let is_it = awaited.order.concerns(message.id, message.created(), now.wall);
        let other = queue.taken_by(message, now.wall).filter(|other| other.ends_messages());
        (is_it && other.is_none()).then_some(awaited.order.id)
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
        let (done, earlier) = (self.orders.walk.done(), self.orders.earlier);
        let is_over = |s: &Standing| {
            let are_here = earlier == Earlier::Here || (earlier == Earlier::Missing && s.rebinds());
            let is_done = ((s.walk <= done && are_here) || !s.order.is_about_messages()) && s.stage != Stage::Awaiting;
            let is_carried_out = (s.pending() == 0 && s.in_hand.is_empty()) || !s.ends_messages();
            now.wall >= s.order.expires && is_done && is_carried_out
        };
        let mut over = self.orders.suspensions.take_over(now.wall);
        for mut standing in self.orders.standing.extract_if(.., |s| is_over(s)) {
            self.messages.append(&mut self.orders.returning, &mut standing.taken);
            self.messages.append(&mut self.orders.returning, &mut standing.refused.list);
            over.push(standing.order);
        }
        if !over.is_empty() {
            self.mark_awaited();
            self.lift(now, &over);
            if over.iter().any(|order| order.survives_restart) {
                self.effects.push(Effect::OrdersEnded);
            }
        }
        self.watch_orders(now);
    }

    /// Notes when the next order expires.
    fn watch_orders(&mut self, now: Now) {
        let ends = |s: &Standing| if s.stage == Stage::Awaiting { s.awaits_until() } else { s.order.expires };
        let standing = self.orders.standing.iter().map(ends);
        let next = standing.filter(|at| *at > now.wall).chain(self.orders.suspensions.next_end()).min();
        self.orders.look_at = next.map(|next| now.mono_at(next).min(now.mono + SUSPENSION_LOOK));
    }

    /// When there is something to be carried out.
    pub(crate) fn orders_deadline(&self) -> Option<Instant> {
        let are_back = |s: &Standing| s.stage == Stage::Awaiting && self.are_back(s);
        let at_once = self.orders.walk.is_under_way() || !self.orders.returning.is_empty();
        let at_once = at_once || (self.orders.awaits && self.orders.standing.iter().any(are_back));
        if at_once {
            return Some(Instant::ZERO);
        }
        let again = self.orders.standing.iter().filter_map(|s| s.refused.again_at);
        again.chain(self.orders.look_at).min()
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
        self.walk.is_under_way()
    }

    /// How many orders are in force.
    pub fn len(&self) -> usize {
        self.standing.len() + self.suspensions.len()
    }

    /// Those about messages under which a new scheduled queue of that name is.
    pub fn naming(&self, queue: &str) -> impl Iterator<Item = &Arc<Order>> {
        self.standing.iter().filter(move |s| s.stage == Stage::Gathering && s.matches(queue)).map(|s| &s.order)
    }

    /// Those that await messages which are in hand.
    pub fn awaiting(&self) -> impl Iterator<Item = (&Criteria, &Arc<Order>)> {
        let awaiting = self.standing.iter().filter(|s| s.stage == Stage::Awaiting);
        awaiting.filter_map(|s| Some((s.order.criteria()?, &s.order)))
    }

    /// True when some of them are about messages, not about queues alone.
    pub fn are_about_messages(&self) -> bool {
        !self.standing.is_empty()
    }

    /// The last walk, by number, that anybody needs.
    fn wanted_walk(&self) -> u64 {
        self.standing.iter().map(|standing| standing.walk).fold(self.walk.wanted, u64::max)
    }

    /// An order took or flushed a message of a queue.
    pub fn count(&mut self, id: OrderId, queue: Arc<str>) {
        let standing = self.standing.iter_mut().find(|s| s.order.id == id);
        standing.into_iter().for_each(|standing| standing.count(queue.clone()));
    }
}

impl Standing {
    fn new(order: Arc<Order>, walk: u64) -> Standing {
        Standing {
            order,
            walk,
            queues: HashMap::new(),
            total: 0,
            taken: List::default(),
            refused: Refused::default(),
            stage: Stage::Gathering,
            in_hand: Vec::new(),
        }
    }

    fn ends_messages(&self) -> bool {
        self.order.ends_messages()
    }

    /// How many of those that it took it has.
    fn pending(&self) -> usize {
        self.taken.len() + self.refused.list.len()
    }

    /// A settler gets one of its messages.
    fn gave(&mut self) {
        match self.in_hand.iter_mut().find(|(id, _)| *id == self.order.id) {
            Some((_, count)) => *count += 1,
            None => self.in_hand.push((self.order.id, 1)),
        }
    }

    /// A settler has messages of it, or of the order in whose place it is.
    fn has_given(&self, id: OrderId) -> bool {
        self.order.id == id || self.in_hand.iter().any(|(of, _)| *of == id)
    }

    /// A settler is done with one that it got under that order.
    fn is_done_with(&mut self, id: OrderId) {
        self.in_hand.iter_mut().filter(|(of, _)| *of == id).for_each(|(_, count)| *count = count.saturating_sub(1));
        self.in_hand.retain(|(_, count)| *count > 0);
    }

    fn rebinds(&self) -> bool {
        matches!(self.order.action, Action::Rebind(_))
    }

    /// Settlers may have what it took.
    fn gives(&self) -> bool {
        self.ends_messages() && (self.stage != Stage::Gathering || !self.rebinds())
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

    /// One that it took is not its own any more.
    fn uncount(&mut self, queue: &str) {
        self.total = self.total.saturating_sub(1);
        let known = if self.queues.contains_key(queue) { queue } else { "" };
        self.queues.get_mut(known).into_iter().for_each(|count| *count = count.saturating_sub(1));
        if self.queues.get(known) == Some(&0) {
            self.queues.remove(known);
        }
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
