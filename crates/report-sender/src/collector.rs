//! The thread that counts: it has the tally of the period and its journal; nobody else has.
//!
//! In: observations, by a bounded channel; what finds it full is dropped and counted, so that neither receptions nor deliveries
//! ever wait for a disk. Out: the journal, once a second, and [`Collector::began_secs`]: periods before it are complete. A disk
//! that fails keeps what was seen in memory, within the bounds, until it works again.

use crate::journal::{self, Journal};
use crate::kind::Kind;
use reports::{Added, Bounds, Period, Tally};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use telemetry::{IntCounter, Metrics};

/// Who takes observations of one kind.
pub(crate) struct Collector<K: Kind> {
    notes: SyncSender<Note<K>>,
    dropped: IntCounter,
    began_secs: Arc<AtomicI64>,
    length_secs: u32,
    /// Who counts, and the lock on the files.
    thread: Mutex<Option<(JoinHandle<()>, Option<File>)>>,
}

/// What is told to the thread.
enum Note<K: Kind> {
    Seen(Box<Seen<K>>),
    Stop,
}

struct Seen<K: Kind> {
    domain: String,
    policy: K::Policy,
    row: K::Row,
}

/// What the thread has.
struct Counting<K: Kind> {
    dir: PathBuf,
    bounds: Bounds,
    length_secs: u32,
    period: Period,
    tally: Tally<K::Policy, K::Row>,
    /// How many rows of this period say what each stranger chose. What was counted before the start is not in it.
    details: HashMap<IpAddr, usize>,
    journal: Option<Journal<K>>,
    /// Counted, and not in the journal yet.
    unwritten: HashMap<(String, Option<K::Row>), u64>,
    outcomes: [(Added, IntCounter); 3],
    began_secs: Arc<AtomicI64>,
    has_failed: bool,
    /// Observations of this period whose domain had no room.
    left_out: u64,
}

impl<K: Kind> Collector<K> {
    /// Opens the journal of the period that is now, and begins.
    ///
    /// # Errors
    /// Another program counts in that directory, or there is no thread to be had.
    pub(crate) fn start(dir: PathBuf, length_secs: u32, bounds: Bounds, metrics: &Metrics) -> io::Result<Collector<K>> {
        let lock = journal::lock::<K>(&dir)?;
        let counter = |outcome: &str| metrics.domain_reports.seen(K::NAME, outcome);
        let outcomes =
            [(Added::Counted, counter("counted")), (Added::Over, counter("over")), (Added::Lost, counter("lost"))];
        let period = Period::at(now_secs(), length_secs);
        let mut tally = Tally::new(bounds);
        let journal = Journal::open(&dir, period, &mut tally);
        if let Err(error) = &journal {
            // Mail is served all the same, and what is seen is counted in memory until there is a file.
            tracing::error!("what is counted for {} reports has no file: {error}", K::NAME);
            tally = Tally::new(bounds);
        }
        let (has_failed, journal) = (journal.is_err(), journal.ok());
        let began_secs = Arc::new(AtomicI64::new(period.begin_secs()));
        let (notes, receiver) = sync_channel(WAITING_MAX);
        let counting = Counting {
            dir,
            bounds,
            length_secs,
            period,
            tally,
            details: HashMap::new(),
            journal,
            unwritten: HashMap::new(),
            outcomes,
            began_secs: began_secs.clone(),
            has_failed,
            left_out: 0,
        };
        let thread = std::thread::Builder::new().name(format!("{}-reports", K::NAME));
        let thread = thread.spawn(move || counting.run(&receiver))?;
        let thread = Mutex::new(Some((thread, lock)));
        Ok(Collector { notes, dropped: counter("dropped"), began_secs, length_secs, thread })
    }

    /// Hands an observation over. Never waits.
    pub(crate) fn saw(&self, domain: String, policy: K::Policy, row: K::Row) {
        match self.notes.try_send(Note::Seen(Box::new(Seen { domain, policy, row }))) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => self.dropped.inc(),
        }
    }

    /// When the period began that is counted now: those before are complete.
    pub(crate) fn began_secs(&self) -> i64 {
        self.began_secs.load(Ordering::Acquire)
    }

    /// How long its periods are.
    pub(crate) fn length_secs(&self) -> u32 {
        self.length_secs
    }

    /// Writes what is in memory and ends. Waits for it.
    pub(crate) fn close(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((thread, lock)) = thread {
            // An error means that it has ended.
            _ = self.notes.send(Note::Stop);
            _ = thread.join();
            drop(lock);
        }
    }
}

impl<K: Kind> Counting<K> {
    fn run(mut self, notes: &Receiver<Note<K>>) {
        let mut flush_at = Instant::now() + FLUSH_EVERY;
        loop {
            match notes.recv_timeout(flush_at.saturating_duration_since(Instant::now())) {
                Ok(Note::Seen(seen)) => self.count(*seen),
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Note::Stop) | Err(RecvTimeoutError::Disconnected) => {
                    // Whoever closes is the last to send: what came before is behind it in nobody's hands.
                    self.flush();
                    return self.say_what_is_missing();
                }
            }
            if Instant::now() >= flush_at {
                self.flush();
                self.turn();
                flush_at = Instant::now() + FLUSH_EVERY;
            }
        }
    }

    fn count(&mut self, Seen { domain, policy, row }: Seen<K>) {
        // While the disk fails that is tried once a second, and not for each.
        if !self.has_failed && !self.period_holds() {
            self.flush();
            self.turn();
        }
        let row = self.within_details(&domain, row);
        let rows = self.tally.rows();
        let added = self.tally.add(&domain, &policy, Some(row.clone()), 1);
        if self.tally.rows() > rows {
            self.charge(&row);
        }
        self.outcomes.iter().filter(|(outcome, _)| *outcome == added).for_each(|(_, counter)| counter.inc());
        let row = match added {
            Added::Counted => Some(row),
            Added::Over => None,
            Added::Lost => return self.leave_out(&domain),
        };
        *self.unwritten.entry((domain, row)).or_default() += 1;
    }

    /// Names cost whoever sends nothing: one client could take everybody else's room with those he invents. Once he has his share of
    /// all rows, what comes is counted without them.
    fn within_details(&mut self, domain: &str, row: K::Row) -> K::Row {
        let Some(stranger) = K::stranger(&row) else { return row };
        let account = self.tally.accounts().get(domain);
        if account.is_some_and(|account| account.rows.contains_key(&row)) {
            return row;
        }
        let share = (self.bounds.rows_max / STRANGERS).max(1);
        match self.details.get(&stranger) {
            Some(rows) if *rows >= share => K::plain(row, domain),
            _ => row,
        }
    }

    /// A row that has come to the others is one of his.
    fn charge(&mut self, row: &K::Row) {
        let Some(stranger) = K::stranger(row) else { return };
        let has_room = self.details.len() < self.bounds.rows_max;
        match self.details.get_mut(&stranger) {
            Some(rows) => *rows += 1,
            None if has_room => _ = self.details.insert(stranger, 1),
            None => {}
        }
    }

    /// The first is said at once, while somebody can still look at who sends; the others when the period is over.
    fn leave_out(&mut self, domain: &str) {
        if self.left_out == 0 {
            let Bounds { domains_max, domains_per_organisation_max, .. } = self.bounds;
            tracing::warn!(
                "{domain} is in no {} report of this period: there are {} domains (max_domains is {domains_max}), or too many of \
                 its organisation (max_domains_per_organisation is {domains_per_organisation_max})",
                K::NAME,
                self.tally.accounts().len(),
            );
        }
        self.left_out += 1;
    }

    fn say_what_is_missing(&mut self) {
        let left_out = std::mem::take(&mut self.left_out);
        if left_out > 0 {
            tracing::warn!("{left_out} observations are in no {} report: their domains had no room", K::NAME);
        }
    }

    fn period_holds(&self) -> bool {
        holds(self.period, self.length_secs, now_secs())
    }

    /// Writes what was counted.
    fn flush(&mut self) {
        if self.unwritten.is_empty() {
            return;
        }
        match self.write() {
            Ok(()) => {
                self.unwritten.clear();
                self.has_failed = false;
            }
            Err(error) if !std::mem::replace(&mut self.has_failed, true) => {
                tracing::error!("what is counted for {} reports cannot be written: {error}", K::NAME);
            }
            Err(_) => {}
        }
    }

    fn write(&mut self) -> io::Result<()> {
        let journal = match &mut self.journal {
            Some(journal) => journal,
            none => {
                // Opening counts what the file has, which the tally has not: it was not to be read at the start. Where the file is
                // read and then the disk fails again, it is not counted twice.
                let mut tally = self.tally.clone();
                let journal = Journal::open(&self.dir, self.period, &mut tally)?;
                self.tally = tally;
                none.insert(journal)
            }
        };
        let accounts = self.tally.accounts();
        let lines = self.unwritten.iter().filter_map(|((domain, row), count)| {
            accounts.get(domain).map(|account| (domain.as_str(), &account.policy, row.as_ref(), *count))
        });
        journal.append(lines)?;
        // All is written; that it could be shorter is no reason to write it again.
        if journal.is_long()
            && let Err(error) = journal.compact(&self.tally)
        {
            tracing::warn!("what is counted for {} reports cannot be written anew: {error}", K::NAME);
        }
        Ok(())
    }

    /// Begins the period that is now, once that before is written: while the disk fails it goes on.
    fn turn(&mut self) {
        if self.period_holds() || !self.unwritten.is_empty() {
            return;
        }
        let period = Period::at(now_secs(), self.length_secs);
        let mut tally = Tally::new(self.bounds);
        match Journal::open(&self.dir, period, &mut tally) {
            Ok(journal) => {
                self.say_what_is_missing();
                (self.period, self.tally, self.journal) = (period, tally, Some(journal));
                self.details.clear();
                self.began_secs.store(period.begin_secs(), Ordering::Release);
            }
            Err(error) if !std::mem::replace(&mut self.has_failed, true) => {
                tracing::error!("what is counted for {} reports has no file: {error}", K::NAME);
            }
            Err(_) => {}
        }
    }
}

/// Whether what is seen now belongs to that period. A clock that is set back a little opens no period again that others may have
/// read; one that was more than a period ahead is right again.
fn holds(period: Period, length_secs: u32, now_secs: i64) -> bool {
    let from = period.begin_secs() - i64::from(length_secs);
    (from..period.end_secs()).contains(&now_secs)
}

/// The time, in seconds since 1970.
pub(crate) fn now_secs() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// What was counted is on disk after this time.
pub const FLUSH_EVERY: Duration = Duration::from_secs(1);
/// Observations on their way to the thread.
pub const WAITING_MAX: usize = 16_384;
/// Of all rows, this part may say what one stranger chose.
const STRANGERS: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::tests::{dmarc_row, policy, room, row};
    use crate::kind::{Dmarc, Tls};
    use reports::{DmarcRow, TlsRow};

    fn start(dir: &std::path::Path, metrics: &Metrics) -> Collector<Tls> {
        let bounds = Bounds { domains_max: 2, rows_per_domain_max: 1, ..room(100) };
        Collector::start(dir.to_owned(), 86_400, bounds, metrics).expect("started")
    }

    #[test]
    fn what_was_seen_is_on_disk_at_the_end_and_counted_on_by_the_next() {
        let dir = tempfile::tempdir().expect("scratch");
        let metrics = Metrics::new().expect("metrics");
        for times in 1..=2 {
            let collector = start(dir.path(), &metrics);
            let period = Period::at(collector.began_secs(), 86_400);
            for domain in ["a.test", "a.test", "b.test", "c.test"] {
                collector.saw(domain.to_owned(), (), row(domain));
            }
            collector.saw("a.test".to_owned(), (), row("other"));
            collector.close();
            let loaded = journal::load::<Tls>(dir.path(), period).expect("read");
            assert_eq!(loaded["a.test"].rows[&row("a.test")], 2 * times);
            assert_eq!((loaded["a.test"].over, loaded.len()), (times, 2));
            // Nobody is there any more.
            collector.saw("a.test".to_owned(), (), row("a.test"));
            let seen = |outcome| metrics.domain_reports.seen("tls", outcome).get();
            assert_eq!(
                [seen("counted"), seen("over"), seen("lost"), seen("dropped")],
                [3 * times, times, times, times]
            );
        }
    }

    /// One client invents names; another has room for his, and each domain hears of both.
    #[test]
    fn what_one_client_invents_takes_nobody_elses_room() {
        let dir = tempfile::tempdir().expect("scratch");
        let metrics = Metrics::new().expect("metrics");
        let collector = Collector::<Dmarc>::start(dir.path().to_owned(), 86_400, room(200), &metrics).expect("started");
        let period = Period::at(collector.began_secs(), 86_400);
        for n in 0..5 {
            for (ip, times) in [("2001:db8::1", 1), ("2001:db8::2", 1), ("192.0.2.1", 2)] {
                let name = format!("n{}.a.test", n / times);
                let row = DmarcRow { source_ip: ip.parse().expect("an address"), header_from: name, ..dmarc_row() };
                collector.saw("a.test".to_owned(), policy(""), row);
            }
        }
        collector.close();
        let mut rows: Vec<(String, String, u64)> = journal::load::<Dmarc>(dir.path(), period).expect("read")["a.test"]
            .rows
            .iter()
            .map(|(row, count)| (row.source_ip.to_string(), row.header_from.clone(), *count))
            .collect();
        rows.sort();
        let shown: Vec<_> = rows.iter().map(|(ip, name, count)| (ip.as_str(), name.as_str(), *count)).collect();
        assert_eq!(
            shown,
            [
                ("192.0.2.1", "a.test", 1),
                ("192.0.2.1", "n0.a.test", 2),
                ("192.0.2.1", "n1.a.test", 2),
                ("2001:db8::", "a.test", 8),
                ("2001:db8::1", "n0.a.test", 1),
                ("2001:db8::2", "n0.a.test", 1),
            ]
        );
    }

    #[test]
    fn rows_that_found_no_room_are_no_part_of_a_clients_share() {
        let dir = tempfile::tempdir().expect("scratch");
        let metrics = Metrics::new().expect("metrics");
        let bounds = Bounds { rows_per_domain_max: 1, ..room(200) };
        let collector = Collector::<Dmarc>::start(dir.path().to_owned(), 86_400, bounds, &metrics).expect("started");
        let period = Period::at(collector.began_secs(), 86_400);
        let saw = |domain: &str, name: &str| {
            collector.saw(domain.to_owned(), policy(""), DmarcRow { header_from: name.to_owned(), ..dmarc_row() });
        };
        (0..5).for_each(|n| saw("full.test", &format!("n{n}.full.test")));
        saw("b.test", "n.b.test");
        collector.close();
        let loaded = journal::load::<Dmarc>(dir.path(), period).expect("read");
        let names: Vec<&str> = loaded["b.test"].rows.keys().map(|row| row.header_from.as_str()).collect();
        assert_eq!((names, loaded["full.test"].over), (vec!["n.b.test"], 4));
    }

    #[test]
    fn a_clock_that_was_ahead_ends_the_period_it_began() {
        let period = Period::at(10 * 86_400, 86_400);
        let held = [8, 9, 10, 11].map(|day| holds(period, 86_400, day * 86_400 + 5));
        assert_eq!(held, [false, true, true, false]);
    }

    #[test]
    fn two_programs_cannot_count_in_one_place() {
        let dir = tempfile::tempdir().expect("scratch");
        let metrics = Metrics::new().expect("metrics");
        let first = start(dir.path(), &metrics);
        let again = || Collector::<Tls>::start(dir.path().to_owned(), 86_400, room(1), &metrics);
        let error = again().err().expect("refused").to_string();
        assert!(error.contains("another program counts here") && error.contains("tls.lock"), "{error}");
        let other = Collector::<Dmarc>::start(dir.path().to_owned(), 86_400, room(1), &metrics);
        other.expect("the other kind has files of its own").close();
        first.close();
        again().expect("who ended has let go").close();
    }

    /// 73 ns of an idle AMD EPYC; the bound is that of a busy machine.
    #[test]
    fn an_observation_costs_next_to_nothing() {
        let dir = tempfile::tempdir().expect("scratch");
        let metrics = Metrics::new().expect("metrics");
        let collector = start(dir.path(), &metrics);
        let count = u32::try_from(WAITING_MAX / 2).expect("few");
        let rows: Vec<TlsRow> = (0..count).map(|n| row(&format!("d{}.test", n % 2))).collect();
        let since = Instant::now();
        rows.into_iter().for_each(|row| collector.saw(row.policy.domain.clone(), (), row));
        let cost = since.elapsed() / count;
        collector.close();
        assert!(cost < Duration::from_micros(20), "{cost:?}");
        assert_eq!(metrics.domain_reports.seen("tls", "dropped").get(), 0, "there is room for all of them");
    }
}
