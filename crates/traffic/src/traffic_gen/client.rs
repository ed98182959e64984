//! One client of the generator: it opens a connection, hands messages to the protocol, and decides what happens
//! after a failure.
//!
//! In: the shared [`Run`]. Out: counters and ledger lines. A client holds a ticket for each message it is about to
//! send; a ticket is used up when the message is answered or given up, and otherwise serves for the next connection.
//! The protocols stand in `smtp` and `http`; what they have in common, settling a message, stands here.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::Semaphore;
use tokio_rustls::TlsConnector;

use super::http::HttpSession;
use super::letter::{DateText, Letter, Stationery};
use super::options::Plan;
use super::smtp::SmtpSession;
use super::tally::{Shard, Tally};
use super::throttle::Throttle;
use super::wire::WireError;
use super::work::Work;
use crate::ledger::Ledger;

/// What all clients of a run share.
pub(super) struct Run {
    pub plan: Plan,
    pub stationery: Stationery,
    pub work: Work,
    pub tally: Tally,
    pub throttle: Option<Throttle>,
    pub started: Instant,
    pub acknowledged: Option<Ledger>,
    pub unknown: Option<Ledger>,
    pub tls: Option<TlsConnector>,
    /// Permits to open a connection: thousands of handshakes at once would overflow the server's backlog.
    pub handshakes: Semaphore,
    pub last_failure: Mutex<Option<String>>,
    pub ever_connected: AtomicBool,
}

/// Why a client had to leave a connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClientError {
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error("{stage} was answered {reply}")]
    Refused { stage: &'static str, reply: String },
    #[error("the server does not offer STARTTLS")]
    NoStartTls,
    #[error("not a reply: {0}")]
    BadReply(String),
}

impl ClientError {
    /// 421: the server wants to be asked again, on another connection.
    fn wants_new_connection(&self) -> bool {
        matches!(self, ClientError::Refused { reply, .. } if reply.starts_with("421"))
    }
}

/// How a conversation ended without an error.
pub(super) enum Ending {
    /// There is nothing more to send.
    Done,
    /// A new connection is due.
    Renew,
}

/// One client.
pub(super) struct Client {
    pub run: Arc<Run>,
    number: usize,
    pub random: fastrand::Rng,
    date: DateText,
    /// Messages this client may send.
    pub held: u64,
    /// Where sends keep a timetable: when the messages are due whose slots this client has taken and that are not settled.
    /// What a lost connection leaves unsettled is sent on the next one, and late since its first slot.
    dues: VecDeque<Instant>,
    /// How many of them are letters of this connection.
    under_way: usize,
    /// Messages settled so far, whatever the outcome.
    settled: u64,
    /// Reused for header blocks.
    pub head: Vec<u8>,
    /// Reused for what follows a body.
    pub tail: Vec<u8>,
}

impl Client {
    /// Client number `number` of a run.
    pub(super) fn new(run: Arc<Run>, number: usize) -> Self {
        Self {
            run,
            number,
            random: fastrand::Rng::new(),
            date: DateText::default(),
            held: 0,
            dues: VecDeque::new(),
            under_way: 0,
            settled: 0,
            head: Vec::new(),
            tail: Vec::new(),
        }
    }

    /// Sends until the work is done or this client gives up.
    pub(super) async fn run(mut self) {
        let mut failures = 0;
        while !self.run.work.is_over(Instant::now()) && self.hold(1) {
            let settled_before = self.settled;
            let outcome = self.one_connection().await;
            let progress = self.settled > settled_before;
            let error = match outcome {
                Ok(Ending::Done) => break,
                Ok(Ending::Renew) if progress => {
                    failures = 0;
                    continue;
                }
                Ok(Ending::Renew) => None,
                Err(error) => Some(error),
            };
            failures = if progress { 1 } else { failures + 1 };
            if !self.goes_on_after(error, progress) {
                break;
            }
            self.run.work.sleep(backoff(failures, &mut self.random)).await;
        }
        self.run.work.give_back(self.held);
    }

    async fn one_connection(&mut self) -> Result<Ending, ClientError> {
        self.under_way = 0;
        if let Some(http) = self.run.plan.http {
            let mut session = HttpSession::open(&self.run, self.shard()).await?;
            if http.bulk {
                return self.converse_bulk(&mut session).await;
            }
            return self.converse_http(&mut session).await;
        }
        let mut session = SmtpSession::open(&self.run, self.shard()).await?;
        let ending = self.converse_smtp(&mut session).await?;
        session.quit().await;
        Ok(ending)
    }

    /// Settles what a failed connection leaves behind, and says whether to try again.
    fn goes_on_after(&mut self, error: Option<ClientError>, progress: bool) -> bool {
        let timeout = matches!(error, Some(ClientError::Wire(WireError::Timeout(_))));
        // It was told to come again: one ticket a time, so that it ends where that is all it is ever told.
        let is_renewal = error.as_ref().is_none_or(ClientError::wants_new_connection);
        if let Some(error) = error {
            self.run.note_failure(|| error.to_string());
        }
        if self.run.plan.reconnect_forever {
            return true;
        }
        // A connection that got something done was a good one: the ticket of the message it broke off serves again.
        if !progress {
            self.failed(1);
        }
        self.run.plan.keep_going || timeout || is_renewal
    }

    /// Makes sure that `count` messages may be sent; false when there are not that many left.
    pub(super) fn hold(&mut self, count: u64) -> bool {
        while self.held < count {
            if !self.run.work.take() {
                return false;
            }
            self.held += 1;
        }
        true
    }

    /// Waits until the next message may be sent. False when the run is over before that.
    pub(super) async fn permission(&mut self, messages: u64) -> bool {
        let now = Instant::now();
        if self.run.work.is_over(now) {
            return false;
        }
        let Some(throttle) = &self.run.throttle else {
            return true;
        };
        if self.dues.len() > self.under_way {
            return true;
        }
        let now_ns = self.run.elapsed_ns(now);
        let due_ns = (0..messages).map(|_| throttle.reserve(now_ns)).max().unwrap_or_default();
        self.is_due(due_ns);
        if due_ns <= now_ns {
            return true;
        }
        self.run.work.sleep(Duration::from_nanos(due_ns - now_ns)).await;
        !self.run.work.is_over(Instant::now())
    }

    /// Whether the next message may be sent at this moment.
    pub(super) fn permission_now(&mut self, now: Instant) -> bool {
        let Some(throttle) = &self.run.throttle else {
            return true;
        };
        if self.dues.len() > self.under_way {
            return true;
        }
        let due_ns = throttle.reserve_if_due(self.run.elapsed_ns(now));
        if let Some(due_ns) = due_ns {
            self.is_due(due_ns);
        }
        due_ns.is_some()
    }

    fn is_due(&mut self, due_ns: u64) {
        if self.run.plan.open_loop {
            self.dues.push_back(self.run.started + Duration::from_nanos(due_ns));
        }
    }

    /// A new letter; uses nothing up yet.
    pub(super) fn next_letter(&mut self) -> Letter {
        let letter = self.run.stationery.next(&mut self.random);
        let due = self.dues.get(self.under_way).copied();
        self.under_way += usize::from(due.is_some());
        letter.due_at(due)
    }

    /// Fills `head` with the letter's header block.
    pub(super) fn write_head(&mut self, letter: Letter) {
        self.head.clear();
        self.run.stationery.header(&mut self.head, letter, self.date.at(SystemTime::now()));
    }

    /// The same with a line of the body that is the letter's own.
    pub(super) fn write_own_head(&mut self, letter: Letter) {
        self.head.clear();
        self.run.stationery.header_and_own_line(&mut self.head, letter, self.date.at(SystemTime::now()));
    }

    /// The messages of the letter at these places were answered 250, whose last part was sent at `sent_at`. On a timetable the
    /// time counts from when the letter was due: a client that could not send because it waited for another answer waited all the same.
    pub(super) fn sent(&mut self, letter: Letter, places: &[u64], sent_at: Instant) {
        let messages = places.len() as u64;
        let latency = letter.due.unwrap_or(sent_at).elapsed();
        let microseconds = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.shard().sent(messages, microseconds);
        self.use_up(messages);
        if let Some(ledger) = &self.run.acknowledged {
            places.iter().for_each(|place| self.run.note(ledger, &mut self.tail, letter, *place));
        }
    }

    /// `messages` were refused or given up.
    pub(super) fn failed(&mut self, messages: u64) {
        self.shard().failed(messages);
        self.use_up(messages);
    }

    /// The connection died before `messages` of the letter were answered: they may have been accepted.
    pub(super) fn unknown(&mut self, letter: Letter, messages: u64) {
        self.shard().unknown(messages);
        if let Some(ledger) = &self.run.unknown {
            (0..messages).for_each(|place| self.run.note(ledger, &mut self.tail, letter, place));
        }
        if self.run.plan.reconnect_forever {
            // The tickets stay: as many messages are sent again, with new ids.
            self.settled += messages;
        } else {
            self.use_up(messages);
        }
    }

    fn use_up(&mut self, messages: u64) {
        self.held = self.held.saturating_sub(messages);
        self.settled += messages;
        let settled = self.dues.len().min(usize::try_from(messages).unwrap_or(usize::MAX));
        self.dues.drain(..settled);
        self.under_way = self.under_way.saturating_sub(settled);
    }

    fn shard(&self) -> &Shard {
        self.run.tally.shard(self.number)
    }
}

impl Run {
    /// Keeps the text of the latest failure for the report.
    pub(super) fn note_failure(&self, text: impl FnOnce() -> String) {
        *self.last_failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(text());
    }

    /// A line of a ledger: the letter's id, and the recipient's address where a letter has several.
    fn note(&self, ledger: &Ledger, line: &mut Vec<u8>, letter: Letter, place: u64) {
        line.clear();
        self.stationery.id(line, letter);
        if self.plan.http.is_some_and(|http| http.batch > 1) {
            line.push(b' ');
            self.stationery.recipient_of(line, letter, place);
        }
        ledger.append(&[line]);
    }

    /// A connection to the server was opened.
    pub(super) fn connected(&self, shard: &Shard) {
        shard.connected();
        self.ever_connected.store(true, Ordering::Relaxed);
    }

    /// Nanoseconds from the start of the run.
    pub(super) fn elapsed_ns(&self, now: Instant) -> u64 {
        let elapsed = now.saturating_duration_since(self.started);
        u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Doubles from 10 ms to half a second, with a random quarter off so that clients do not knock in step.
fn backoff(failures: u32, random: &mut fastrand::Rng) -> Duration {
    let full = BACKOFF_MIN.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(BACKOFF_MAX);
    full.mul_f64(0.75 + 0.25 * random.f64())
}

const BACKOFF_MIN: Duration = Duration::from_millis(10);
const BACKOFF_MAX: Duration = Duration::from_millis(500);
