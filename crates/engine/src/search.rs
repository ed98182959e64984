//! Messages for operators who look for them: by recipient, sender, queue or id, and what happened to one.
//!
//! What is in queues is asked of the queues, in steps; who received what, and what became of it, of the log's segments and
//! their indexes (`log_search`), on blocking threads; [`SEARCHES_MAX`] search at a time. Deliveries are not asked. An answer takes about
//! [`SEARCH_TIME_MAX`]: what there is by then is told, and where to go on. Everything was true when it was looked at.

use crate::engine::Engine;
use crate::inspect::{Inspected, State};
use config::{LocalLogs, RecordKey};
use event_stream::Folder;
use log_search::{BadCursor, Cursor, Place, Reception, Record, Timeline};
use message::MessageId;
use queue::{Criteria, Listed, Search};
use spool::SpoolError;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use telemetry::LogWriter;
use thiserror::Error;
use time::OffsetDateTime;
use tokio::sync::OwnedSemaphorePermit;

/// What is looked for; all of it must agree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sought {
    /// The queue, or ids.
    pub criteria: Criteria,
    /// A recipient's address, in any case.
    pub recipient: Option<String>,
    /// The sender's address, in any case.
    pub sender: Option<String>,
    /// Of messages in queues, those that are there.
    pub whereabouts: Option<InQueues>,
    /// Where is looked; when it is not said, where it can be found.
    pub among: Option<Among>,
    /// How many messages at most.
    pub limit: usize,
}

/// Where in queues messages are that are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InQueues {
    /// There.
    At(queue::Place),
    /// With a connection.
    InDelivery,
}

/// Where messages are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Among {
    /// Everything that is ours now. Recipients and senders are read from the spool, message by message.
    Queues,
    /// Everything that was received, as the log knows it.
    Logs,
}

/// Where a search goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SearchCursor {
    /// Among what is in delivery, before what is in queues.
    Hands(u32),
    /// Among the messages in queues.
    Queues(u32),
    /// In the log.
    Logs(Cursor),
}

/// A message.
#[derive(Debug)]
pub struct FoundMessage {
    /// Its id, 32 hexadecimal digits.
    pub id: String,
    /// Who it is from, unless nobody knows any more.
    pub sender: Option<String>,
    /// Who it is for.
    pub recipients: Vec<String>,
    /// The queue it is in, or was received for.
    pub queue: Arc<str>,
    /// Where it is now; none when it is not ours any more.
    pub now: Option<Inspected>,
    /// The record of its end, when the log has one.
    pub end: Option<Record>,
}

/// Messages.
#[derive(Debug, Default)]
pub struct Page {
    /// They.
    pub found: Vec<FoundMessage>,
    /// Where to go on; none at the end.
    pub next: Option<SearchCursor>,
    /// Log segments that were not read.
    pub unread: Vec<String>,
}

/// Why nothing can be said.
#[derive(Debug, Error)]
pub enum SearchError {
    /// The spool cannot be read.
    #[error("{0}")]
    Spool(#[from] SpoolError),
    /// The log cannot be read.
    #[error("{0}")]
    Log(#[from] jsonl::JsonlError),
    /// Nothing is logged.
    #[error("there is no log to search: kumo.configure_local_logs is not called")]
    NoLog,
    /// Too many search.
    #[error("{max} search already: expected fewer at once")]
    Busy {
        /// How many may.
        max: usize,
    },
    /// A thread stopped working.
    #[error("a thread for searches: {0}")]
    Thread(io::Error),
}

impl Engine {
    /// Messages, at most so many as are wanted, from `from` on.
    ///
    /// # Errors
    /// The log or the spool cannot be read, or too many search.
    pub async fn search(&self, sought: Sought, from: Option<SearchCursor>) -> Result<Page, SearchError> {
        let slot = self.search_slot()?;
        let mut ids = sought.criteria.messages.iter();
        if let (Some(id), None, None, None) = (ids.next(), ids.next(), &sought.recipient, &sought.sender) {
            return self.search_id(&slot, *id, &sought.criteria).await;
        }
        let is_addressed = sought.recipient.is_some() || sought.sender.is_some();
        let among = sought.among.unwrap_or(match is_addressed && !self.reception_places().is_empty() {
            true => Among::Logs,
            false => Among::Queues,
        });
        match (from, among) {
            (Some(SearchCursor::Logs(before)), _) => self.search_logs(&slot, sought, Some(before)).await,
            (Some(place @ (SearchCursor::Hands(_) | SearchCursor::Queues(_))), _) => {
                self.search_queues(sought, place).await
            }
            (None, Among::Logs) => self.search_logs(&slot, sought, None).await,
            (None, Among::Queues) => self.search_queues(sought, SearchCursor::Hands(0)).await,
        }
    }

    /// Everything the log has about a message, in the order of time.
    ///
    /// # Errors
    /// The log cannot be read, or too many search.
    pub async fn timeline(&self, id: MessageId) -> Result<Timeline, SearchError> {
        let slot = self.search_slot()?;
        self.timeline_of(&slot, id).await
    }

    async fn timeline_of(&self, slot: &Slot, id: MessageId) -> Result<Timeline, SearchError> {
        // The id of another node's making may tell nonsense; logs before it are looked at when it tells the future.
        let created = id.created();
        let is_past = created <= self.wall_time();
        let created =
            is_past.then(|| OffsetDateTime::from_unix_timestamp_nanos(i128::from(created.unix_micros()) * 1000));
        let created = created.and_then(Result::ok);
        let id = id.to_string();
        self.reading(slot, self.log_places(), move |places| log_search::timeline(places, &id, created)).await
    }

    async fn search_id(&self, slot: &Slot, id: MessageId, criteria: &Criteria) -> Result<Page, SearchError> {
        let now = self.inspect_message(id).await?;
        let logged = match self.timeline_of(slot, id).await {
            Err(SearchError::NoLog) => Timeline::default(),
            logged => logged?,
        };
        let received = logged.records.iter().find_map(Record::reception);
        let end = logged.records.into_iter().rev().find(Record::is_end);
        let found = match (now, received) {
            (Some(now), _) => Some(FoundMessage::from(now)),
            (None, received) => received.map(|received| FoundMessage::received(received, end)),
        };
        let found = found.filter(|found| Search::new(criteria.clone(), None).wants(&found.queue, id));
        Ok(Page { found: found.into_iter().collect(), next: None, unread: logged.unread })
    }

    async fn search_logs(&self, slot: &Slot, sought: Sought, before: Option<Cursor>) -> Result<Page, SearchError> {
        let Sought { criteria, recipient, sender, limit, .. } = sought;
        let asked = log_search::Asked { recipient, sender, limit, before };
        let places = self.reception_places();
        let told = self.reading(slot, places, move |places| log_search::receptions(places, &asked)).await?;
        let search = Search::new(criteria, None);
        let ids = told.found.iter().filter_map(|received| Some((received.id.parse::<MessageId>().ok()?, received)));
        let received: Vec<(MessageId, Reception)> = ids.map(|(id, received)| (id, received.clone())).collect();
        let mut here = self.locate(received.iter().map(|(id, _)| *id).collect()).await;
        // The queue it is in counts, which may not be the one it was received for.
        let queue_of = |id: &MessageId, received: &Reception| match here.get(id) {
            Some(now) => now.queue.clone(),
            None => received.queue.as_str().into(),
        };
        let wanted = received.into_iter().filter(|(id, received)| search.wants(&queue_of(id, received), *id));
        let received: Vec<(MessageId, Reception)> = wanted.collect();
        let gone = received.iter().filter(|(id, _)| !here.contains_key(id));
        let gone: Vec<(String, OffsetDateTime)> =
            gone.map(|(_, received)| (received.id.clone(), received.at)).collect();
        let (mut ends, mut unread) = (BTreeMap::new(), told.unread);
        if !gone.is_empty() {
            let (found, not_read) =
                self.reading(slot, self.log_places(), move |places| log_search::ends(places, &gone)).await?;
            ends = found;
            unread.extend(not_read);
            unread.sort();
            unread.dedup();
        }
        let found = received.into_iter().map(|(id, received)| {
            let now = here.remove(&id);
            let end = ends.remove(&received.id);
            let found = FoundMessage::received(received, end);
            let queue = now.as_ref().map_or(found.queue.clone(), |now| now.queue.clone());
            FoundMessage { queue, now, ..found }
        });
        Ok(Page { found: found.collect(), next: told.next.map(SearchCursor::Logs), unread })
    }

    async fn search_queues(&self, sought: Sought, from: SearchCursor) -> Result<Page, SearchError> {
        let Sought { criteria, recipient, sender, whereabouts, limit, .. } = sought;
        let place_wanted = match whereabouts {
            Some(InQueues::At(place)) => Some(place),
            _ => None,
        };
        let hands = match from {
            SearchCursor::Hands(place) => Some(place),
            _ => None,
        };
        if whereabouts == Some(InQueues::InDelivery) {
            let sought = Sought { criteria, recipient, sender, limit, ..Sought::default() };
            let (SearchCursor::Hands(place) | SearchCursor::Queues(place)) = from else { return Ok(Page::default()) };
            return self.search_in_delivery(sought, place).await;
        }
        let until = Instant::now() + SEARCH_TIME_MAX;
        let mut search = Search::new(criteria, place_wanted.map(|place| place == queue::Place::Waiting));
        // What a connection or a task has in hand has no place in the walk: it comes first, on pages of its own where it is much. Put
        // back since, it is met again, and passed over on the same page.
        let mut page = Page::default();
        let mut from_hands = HashSet::new();
        if let Some(hands) = hands.filter(|_| place_wanted.is_none()) {
            for (place, found) in (0..).zip(self.all_in_delivery(&search)).skip(hands as usize) {
                if page.found.len() >= limit || Instant::now() >= until {
                    page.next = Some(SearchCursor::Hands(place));
                    return Ok(page);
                }
                from_hands.insert(found.message.id);
                page.found.extend(self.addressed(found, &recipient, &sender).await?);
            }
        }
        let mut place = match from {
            SearchCursor::Queues(place) => Some(place),
            _ => Some(0),
        };
        while let Some(from) = place.filter(|_| page.found.len() < limit && Instant::now() < until) {
            let step = self.with_queue(|queue, _| queue.search(&mut search, from, limit));
            place = step.next;
            for sighting in step.found {
                if page.found.len() >= limit || Instant::now() >= until {
                    place = Some(sighting.place());
                    break;
                }
                let found = self.with_queue(|queue, now| queue.sighted(now, sighting));
                let is_there = |listed: &Listed| place_wanted.is_none_or(|place| listed.place == place);
                let is_new = |listed: &Listed| !from_hands.contains(&listed.message.id);
                let Some(found) = found.filter(is_there).filter(is_new) else { continue };
                let found = self.in_list(found).await?;
                page.found.extend(addressed(found, &recipient, &sender));
                // Whoever wants the queues has his turn: finding out where a message is may have walked a list.
                tokio::task::yield_now().await;
            }
            tokio::task::yield_now().await;
        }
        // Taken in hand ahead of the walk, since the look above: known here that no other page has it.
        if hands == Some(0) && place.is_none() && place_wanted.is_none() {
            let listed: HashSet<String> = page.found.iter().map(|found| found.id.clone()).collect();
            for found in self.all_in_delivery(&search) {
                let is_new = !from_hands.contains(&found.message.id) && !listed.contains(&found.message.id.to_string());
                if is_new && page.found.len() < limit && Instant::now() < until {
                    page.found.extend(self.addressed(found, &recipient, &sender).await?);
                }
            }
        }
        page.next = place.map(SearchCursor::Queues);
        Ok(page)
    }

    /// Among what connections and tasks have in hand, in the order of ids. Its places are counted, so a page may miss what comes meanwhile.
    async fn search_in_delivery(&self, sought: Sought, from: u32) -> Result<Page, SearchError> {
        let Sought { criteria, recipient, sender, limit, .. } = sought;
        let until = Instant::now() + SEARCH_TIME_MAX;
        let mut in_hand = self.all_in_delivery(&Search::new(criteria, None));
        in_hand.sort_by_key(|found| found.message.id);
        let mut page = Page::default();
        for (place, found) in (0..).zip(in_hand).skip(from as usize) {
            if page.found.len() >= limit || Instant::now() >= until {
                page.next = Some(SearchCursor::Hands(place));
                break;
            }
            page.found.extend(self.addressed(found, &recipient, &sender).await?);
        }
        Ok(page)
    }

    /// With its content, when it has this recipient and this sender.
    async fn addressed(
        &self,
        found: Inspected,
        recipient: &Option<String>,
        sender: &Option<String>,
    ) -> Result<Option<FoundMessage>, SpoolError> {
        Ok(addressed(self.with_content(found).await?, recipient, sender))
    }

    /// Those of some messages that are ours, without content.
    async fn locate(&self, ids: Vec<MessageId>) -> HashMap<MessageId, Inspected> {
        let mut here = HashMap::new();
        if ids.is_empty() {
            return here;
        }
        let count = ids.len();
        let mut search = Search::new(Criteria { messages: ids.into_iter().collect(), ..Criteria::default() }, None);
        // One that is put back behind the walk's place was with a connection before.
        let before = self.all_in_delivery(&search);
        let mut place = Some(0);
        while let Some(from) = place.filter(|_| here.len() < count) {
            let step = self.with_queue(|queue, _| queue.search(&mut search, from, count));
            place = step.next;
            for sighting in step.found {
                let listed = self.with_queue(|queue, now| queue.sighted(now, sighting));
                here.extend(listed.map(|listed| (sighting.id, Inspected::from(listed))));
                tokio::task::yield_now().await;
            }
            tokio::task::yield_now().await;
        }
        here.extend(self.all_in_delivery(&search).into_iter().map(|found| (found.message.id, found)));
        before.into_iter().for_each(|found| _ = here.entry(found.message.id).or_insert(found));
        here
    }

    /// What connections and tasks have in hand, without content.
    fn all_in_delivery(&self, search: &Search) -> Vec<Inspected> {
        let connections = self.connections();
        let in_hand =
            connections.values().flat_map(|held| held.in_hand.map(|queued| (queued.message.bare_copy(), queued.queue)));
        let mut in_hand: Vec<_> = in_hand.collect();
        drop(connections);
        in_hand.extend(self.underway.all());
        // One may have gone from one hand to another.
        in_hand.sort_unstable_by_key(|(message, _)| message.id);
        in_hand.dedup_by_key(|(message, _)| message.id);
        let named =
            in_hand.into_iter().map(|(message, key)| (message, self.with_queue(|queue, _| queue.queue_name(key))));
        let wanted = named.filter(|(message, queue)| search.wants(queue, message.id));
        let found = |(message, queue)| Inspected { message, queue, state: State::InDelivery, end: None, content: None };
        wanted.map(found).collect()
    }

    /// Where this policy's loggers write.
    fn log_places(&self) -> Vec<Place> {
        self.events.folders().into_iter().map(place).collect()
    }

    /// Where receptions are looked for: in the first log that has them, as each has all.
    fn reception_places(&self) -> Vec<Place> {
        let recorders = self.recorders();
        let of_log = |log: &LogWriter| {
            let LocalLogs { log_dir, per_record, .. } = log.options();
            let entry = config::per_record(per_record, RecordKey::Reception);
            let is_there = entry.is_none_or(|entry| entry.enable && entry.template.is_none());
            is_there.then(|| Folder {
                log_dir: entry.and_then(|entry| entry.log_dir.clone()).unwrap_or_else(|| log_dir.clone()),
                suffix: entry.and_then(|entry| entry.suffix.clone()).unwrap_or_default(),
            })
        };
        recorders.logs.iter().find_map(of_log).into_iter().map(place).collect()
    }

    /// A turn to search.
    fn search_slot(&self) -> Result<Slot, SearchError> {
        let slot = self.search_slots.clone().try_acquire_owned();
        slot.map(Arc::new).map_err(|_| SearchError::Busy { max: SEARCHES_MAX })
    }

    /// Work that reads segments; it has its turn until it is done, also when nobody waits for it any more.
    async fn reading<T: Send + 'static>(
        &self,
        slot: &Slot,
        places: Vec<Place>,
        work: impl FnOnce(&[Place]) -> Result<T, jsonl::JsonlError> + Send + 'static,
    ) -> Result<T, SearchError> {
        if places.is_empty() {
            return Err(SearchError::NoLog);
        }
        let slot = slot.clone();
        let read = tokio::task::spawn_blocking(move || {
            let read = work(&places);
            drop(slot);
            read
        });
        Ok(read.await.map_err(|error| SearchError::Thread(io::Error::other(error)))??)
    }
}

fn place(folder: Folder) -> Place {
    Place { pattern: folder.pattern(), dir: folder.log_dir }
}

/// A turn to search.
type Slot = Arc<OwnedSemaphorePermit>;

impl FoundMessage {
    fn received(received: Reception, end: Option<Record>) -> FoundMessage {
        let Reception { id, sender, recipients, queue, .. } = received;
        FoundMessage { id, sender: Some(sender), recipients, queue: queue.into(), now: None, end }
    }
}

impl From<Inspected> for FoundMessage {
    /// One that is ours, with what is known of its content.
    fn from(found: Inspected) -> FoundMessage {
        let envelope = found.content.as_ref().map(|content| &content.envelope);
        let recipients = envelope.into_iter().flat_map(|envelope| &envelope.recipients);
        FoundMessage {
            id: found.message.id.to_string(),
            sender: envelope.map(|envelope| envelope.sender.as_str().to_owned()),
            recipients: recipients.map(|recipient| recipient.as_str().to_owned()).collect(),
            queue: found.queue.clone(),
            // What it says is not told: no need to keep it.
            now: Some(Inspected { content: None, ..found }),
            end: None,
        }
    }
}

fn addressed(found: Inspected, recipient: &Option<String>, sender: &Option<String>) -> Option<FoundMessage> {
    let found = FoundMessage::from(found);
    let is_for = |wanted: &String| found.recipients.iter().any(|recipient| recipient.eq_ignore_ascii_case(wanted));
    let is_from = |wanted: &String| found.sender.as_ref().is_some_and(|from| from.eq_ignore_ascii_case(wanted));
    (recipient.as_ref().is_none_or(is_for) && sender.as_ref().is_none_or(is_from)).then_some(found)
}

impl fmt::Display for SearchCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SearchCursor::Hands(place) => write!(f, "h{place}"),
            SearchCursor::Queues(place) => write!(f, "q{place}"),
            SearchCursor::Logs(cursor) => write!(f, "l{cursor}"),
        }
    }
}

impl FromStr for SearchCursor {
    type Err = BadCursor;

    fn from_str(text: &str) -> Result<SearchCursor, BadCursor> {
        let number = |letter: char| text.strip_prefix(letter).and_then(|place| place.parse().ok());
        let here = number('q').map(SearchCursor::Queues).or(number('h').map(SearchCursor::Hands));
        match (here, text.strip_prefix('l')) {
            (Some(here), _) => Ok(here),
            (None, Some(cursor)) => cursor.parse().map(SearchCursor::Logs),
            (None, None) => Err(BadCursor::of(text)),
        }
    }
}

/// Searches that are under way at once.
pub const SEARCHES_MAX: usize = 4;
/// How long one answer is looked for in queues.
const SEARCH_TIME_MAX: Duration = Duration::from_millis(80);
