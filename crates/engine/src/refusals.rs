//! What destinations refused lately: the last refusal of each ready queue, and the last of all.
//!
//! For operators who look; the log has all of them. In: entries that are no delivery. What is delivered costs nothing here. Both
//! lists and the texts in them are bounded. Nothing can fail.

use clock::WallTime;
use queue::Entry;
use record::RecordType;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// When.
    pub at: WallTime,
    /// For good.
    pub is_permanent: bool,
    /// The scheduled queue.
    pub queue: Box<str>,
    /// The ready queue; empty where none was found.
    pub ready: Arc<str>,
    /// The reply's code.
    pub code: u16,
    /// Its text with its enhanced code, the first [`TEXT_OCTETS_MAX`] octets.
    pub text: Box<str>,
    /// How often it was given to this queue, as far as that is remembered.
    pub times: u64,
}

/// All that are kept.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// The latest last.
    recent: VecDeque<Arc<Refusal>>,
    of_ready: HashMap<Arc<str>, Arc<Refusal>>,
}

impl Refusal {
    /// Of an entry that is no delivery.
    pub(crate) fn of(at: WallTime, entry: &Entry, queue: &str, ready: &Arc<str>) -> Refusal {
        let reply = &entry.reply;
        let text = match &reply.enhanced {
            Some(enhanced) => format!("{enhanced} {}", reply.text),
            None => reply.text.clone(),
        };
        Refusal {
            at,
            is_permanent: entry.kind == RecordType::Bounce,
            queue: queue.into(),
            ready: ready.clone(),
            code: reply.code,
            text: text[..text.floor_char_boundary(TEXT_OCTETS_MAX)].into(),
            times: 1,
        }
    }
}

impl Refusal {
    fn is_same(&self, other: &Refusal) -> bool {
        (self.code, &self.ready, &self.queue, &self.text) == (other.code, &other.ready, &other.queue, &other.text)
    }
}

impl Refusals {
    /// Notes one. The same again is one that was given more often: it is not to drive out the others.
    pub fn note(&self, mut refusal: Refusal) {
        let mut kept = self.kept();
        if let Some(place) = kept.recent.iter().position(|other| other.is_same(&refusal))
            && let Some(earlier) = kept.recent.remove(place)
        {
            refusal.times += earlier.times;
        }
        let refusal = Arc::new(refusal);
        if kept.recent.len() == RECENT_MAX {
            kept.recent.pop_front();
        }
        kept.recent.push_back(refusal.clone());
        let has_room = kept.of_ready.len() < READY_MAX || kept.of_ready.contains_key(&refusal.ready);
        if has_room && !refusal.ready.is_empty() {
            kept.of_ready.insert(refusal.ready.clone(), refusal);
        }
    }

    /// The last of a ready queue.
    pub fn last(&self, ready: &str) -> Option<Arc<Refusal>> {
        self.kept().of_ready.get(ready).cloned()
    }

    /// The latest first.
    pub fn recent(&self) -> Vec<Arc<Refusal>> {
        self.kept().recent.iter().rev().cloned().collect()
    }

    /// A ready queue is gone.
    pub fn forget(&self, ready: &str) {
        self.kept().of_ready.remove(ready);
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Octets of a reply that are kept.
const TEXT_OCTETS_MAX: usize = 300;
/// Refusals of all queues that are kept.
const RECENT_MAX: usize = 50;
/// Ready queues whose last one is kept.
const READY_MAX: usize = 20_000;

#[cfg(test)]
mod tests {
    use super::*;
    use smtp_wire::Reply;

    fn refusal(ready: &str, text: &str) -> Refusal {
        let reply = Reply::new(451, text);
        let entry = Entry { kind: RecordType::TransientFailure, recipients: vec![0], reply, command: None };
        Refusal::of(WallTime::EPOCH, &entry, "x.test", &ready.into())
    }

    #[test]
    fn the_last_of_each_is_kept_and_both_lists_have_an_end() {
        let refusals = Refusals::default();
        refusals.note(refusal("", "no way"));
        ["4.7.1 first", "4.7.1 second"].iter().for_each(|text| refusals.note(refusal("a", text)));
        assert_eq!(refusals.last("a").map(|last| last.text.to_string()).as_deref(), Some("4.7.1 second"));
        assert_eq!((refusals.recent().len(), refusals.last("")), (3, None));
        refusals.note(refusal("a", "4.7.1 first"));
        let recent = refusals.recent();
        assert_eq!((recent.len(), &*recent[0].text, recent[0].times), (3, "4.7.1 first", 2));
        (0..READY_MAX).for_each(|number| refusals.note(refusal(&number.to_string(), "late")));
        assert_eq!(refusals.recent().len(), RECENT_MAX);
        assert!(refusals.last(&(READY_MAX - 1).to_string()).is_none(), "there is no room for it");
        refusals.note(refusal("a", "third"));
        assert_eq!(refusals.last("a").map(|last| last.text.to_string()).as_deref(), Some("third"));
        refusals.forget("a");
        assert!(refusals.last("a").is_none());
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let text = refusal("a", &"é".repeat(400)).text;
        assert_eq!((text.len(), text.chars().count()), (300, 150));
        let odd = refusal("a", &format!("x{}", "é".repeat(400))).text;
        assert_eq!(odd.len(), 299);
    }
}
