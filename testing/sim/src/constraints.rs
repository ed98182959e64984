//! Messages with constraints of their own: drawn when a message is made, and what the oracle wants of them.
//!
//! Whoever has an end is not tried from that moment on, and does not end before it. Whoever has a deadline also ends soon
//! after it, wherever it is, and goes before those of its queue that have none or a later one.

use crate::ledger::Gone;
use crate::plan::SECOND;
use crate::world::World;
use clock::{Duration, Now, WallTime};
use config::{Moment, Scheduling};
use message::{Draft, MessageId, Meta};
use queue::schedule::{self, Belonging, End};
use queue::{Place, Queued};
use smtp_wire::Reply;
use std::sync::Arc;

/// The end of its own that a message with this metadata has.
pub(crate) fn end_of(meta: &Meta) -> Option<End> {
    schedule::of(meta).as_ref().and_then(schedule::end)
}

/// Where a message with this metadata belongs.
pub(crate) fn belonging<'a>(queue: &'a str, meta: &Meta) -> Belonging<'a> {
    Belonging { end: end_of(meta), ..Belonging::to(queue) }
}

impl World {
    /// Policy gives some messages constraints.
    pub fn constrain(&mut self, draft: &mut Draft) {
        if !self.dice.chance(self.plan.constrained) {
            return;
        }
        let now = self.wall();
        let after = |seconds: u64| moment(now + Duration::from_secs(seconds));
        let mut scheduling = Scheduling::default();
        if self.dice.chance(300) {
            scheduling.first_attempt = after(self.dice.within(0, 60));
        }
        let end = after(*self.dice.pick(&[61, 62, 70, 90, 200, 400]));
        match self.dice.below(4) {
            0 => {}
            1 => scheduling.expires = end,
            _ => scheduling.deliver_by = end,
        }
        schedule::set(&mut draft.meta, Some(&scheduling));
        draft.due = schedule::next_attempt(&scheduling, draft.due);
        self.report.constrained += 1;
        self.report.with_deadline += u64::from(scheduling.deliver_by.is_some());
    }

    /// Messages with a deadline that are ready, where it is known by which ready queue: in this one, and in no other.
    pub fn urgent_in(&self, ready_name: &str) -> Vec<(Arc<str>, MessageId, WallTime)> {
        let Some(process) = self.process.as_ref().filter(|_| self.report.with_deadline > 0) else { return Vec::new() };
        let mut others =
            process.queue.ready_counts().filter(|(name, messages, _)| ***name != *ready_name && *messages > 0);
        if others.next().is_some() {
            return Vec::new();
        }
        let now = self.queue_now();
        let names: Vec<&str> = process.queue.scheduled_counts().map(|(name, _)| &**name).collect();
        let listed = names.iter().flat_map(|name| process.queue.list(now, name, LISTED).unwrap_or_default());
        let ready = listed.filter(|listed| listed.place == Place::Ready);
        let deadline = |id: &MessageId| self.ledger.messages.get(id).and_then(|account| account.deadline());
        ready.filter_map(|listed| Some((listed.queue, listed.message.id, deadline(&listed.message.id)?))).collect()
    }

    /// A connection took a message; of those with a deadline that were `urgent` then, nobody of its queue with an earlier
    /// one was passed over.
    pub fn watch_deadlines(&mut self, urgent: &[(Arc<str>, MessageId, WallTime)], ready_name: &str, queued: &Queued) {
        if urgent.is_empty() {
            return;
        }
        let Some(process) = &self.process else { return };
        let (name, id) = (process.queue.queue_name(queued.queue), queued.message.id);
        let taken = self.ledger.messages.get(&id).and_then(|account| account.deadline());
        let stays = self.urgent_in(ready_name);
        let stays = |id: &MessageId| stays.iter().any(|(_, other, _)| other == id);
        let mut earlier =
            urgent.iter().filter(|(queue, _, at)| *queue == name && taken.is_none_or(|taken| *at < taken));
        let passed_over = earlier.find(|(_, id, _)| stays(id)).cloned();
        self.report.urgent_first += u64::from(taken.is_some() && urgent.len() > 1);
        if let Some((_, other, at)) = passed_over {
            self.ledger.violate(format!("{id} with deadline {taken:?} goes before {other} with {at:?}"));
        }
    }

    /// Those whose deadline is past have ended, unless an attempt is under way, an order holds them, policy or the spooler
    /// has them, or the disk did not read.
    pub fn watch_missed(&self, places: impl Fn(MessageId) -> Vec<&'static str>) -> Vec<String> {
        let now = self.wall();
        // Nobody settles anything while the server stops.
        let Some(process) = self.process.as_ref().filter(|p| !p.stopping) else { return Vec::new() };
        let well_since = process.origin.max(process.restored_at).max(self.postponed_until);
        let late = |deadline: WallTime| now > deadline + ENDED_AFTER;
        let mut wrong = Vec::new();
        for (id, account) in &self.ledger.messages {
            let Some(deadline) = account.deadline().filter(|d| late(*d) && account.gone == Gone::No) else { continue };
            let places = places(*id);
            let excused = ["in flight", "held", "with policy", "with the spooler", "to be spooled", "coming back"];
            let is_excused = places.is_empty() || places.iter().any(|place| excused.contains(place));
            if !is_excused && self.now > well_since + ENDED_AFTER.as_micros() as u64 {
                wrong.push(format!("{id} was to be delivered by {deadline:?}, and is {places:?} at {now:?}"));
            }
        }
        wrong
    }

    /// A message expires: not before its own end, but when there was no time for another attempt.
    pub fn watch_expiration(&mut self, id: MessageId, reply: &Reply) {
        let now = self.wall();
        let Some((end, may)) = self.ledger.messages.get(&id).and_then(|a| Some((a.end?, a.may_end_early))) else {
            return;
        };
        self.report.missed_deadlines += u64::from(end.is_deadline);
        if end.is_deadline != reply.text.contains("(deliver_by)") {
            self.ledger.violate(format!("{id} expires with the wrong record: {reply}"));
        }
        let soonest = if end.is_deadline { LAST_ATTEMPT } else { RETRY_MAX };
        if !may && now + soonest < end.at {
            self.ledger.violate(format!("{id} expires at {now:?}, long before its end at {:?}", end.at));
        }
    }

    /// Both clocks of the living server, now.
    pub fn queue_now(&self) -> Now {
        Now { mono: self.mono(), wall: self.wall() }
    }
}

fn moment(at: WallTime) -> Option<Moment> {
    Moment::from_unix_micros(at.unix_micros())
}

/// How soon after its deadline a message has ended: timers, a settler, and the disk.
const ENDED_AFTER: Duration = Duration::from_secs(5);
/// Who failed so shortly before its deadline is tried no more.
const LAST_ATTEMPT: Duration = Duration::from_secs(60);
/// Who failed so shortly before its end would be tried too late, by the longest pause of any plan.
const RETRY_MAX: Duration = Duration::from_secs(crate::plan::RETRY_SECONDS_MAX + 60);
/// Messages of one queue that are looked at.
const LISTED: usize = 10_000;
/// Virtual time for which the disk's trouble with a message excuses that it has not ended.
pub(crate) const POSTPONED: u64 = 62 * SECOND;
