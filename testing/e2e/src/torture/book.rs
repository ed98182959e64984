//! The book: what was offered, what was answered, what arrived. Shared by all threads of a run.
//!
//! A letter is entered before its final dot is sent: what arrives and is not in the book was never finished. The lock
//! is held for single entries; content is compared outside it.

use crate::torture::account::{Account, Answer, Entry};
use crate::torture::death::Unread;
use crate::torture::letter::{self, Fate, Letter, Mix};
use std::collections::HashMap;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// One run's book.
#[derive(Debug)]
pub struct Book {
    /// Everything random comes from it.
    pub seed: u64,
    pages: Mutex<Pages>,
    changed: Condvar,
}

/// A letter that was not taken, at MAIL, RCPT, DATA or its final dot.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// When the reply was read.
    pub at: Instant,
    /// From the command, or the final dot, to the reply.
    pub took: Duration,
    /// The whole reply, lines joined.
    pub reply: String,
}

#[derive(Debug, Default)]
struct Pages {
    next: u64,
    entries: HashMap<u64, Entry>,
    /// RCPTs and final dots seen of a recipient whose fate counts them.
    seen: HashMap<(u64, usize), u32>,
    acked: usize,
    epoch: usize,
    refusals: Vec<Refusal>,
    strangers: Vec<String>,
    released: bool,
    /// When each of the server's lives so far was ended.
    deaths: Vec<Instant>,
    /// When the receiver answered a living server for each copy of a recipient's.
    answered: HashMap<(u64, usize), Vec<Instant>>,
    /// The last copies answered on each connection of the life that lasts, by the server's port.
    last_answers: HashMap<u16, LastAnswer>,
    /// Those that were the last word on a connection of a life ended by SIGKILL alone, by that life and the server's port.
    last_words: HashMap<(usize, u16), LastAnswer>,
    posthumous: usize,
}

#[derive(Debug)]
struct LastAnswer {
    copies: Vec<(u64, usize)>,
    /// Octets of the connection up to the end of the answer.
    until: u64,
    /// Octets written to the connection so far.
    written: u64,
}

/// The receiver's end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conversation {
    /// Of the server's lives, the one that opened it.
    pub life: usize,
    /// The server's port.
    pub port: u16,
    /// Octets written to it so far.
    pub written: u64,
}

/// What the receiver answers to a final dot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtDot {
    Take,
    Defer,
    HangUp,
}

impl Book {
    /// An empty one.
    pub fn new(seed: u64) -> Book {
        Book { seed, pages: Mutex::default(), changed: Condvar::new() }
    }

    /// A new letter.
    pub fn letter(&self, mix: &Mix) -> Letter {
        let mut pages = self.pages();
        pages.next += 1;
        let number = pages.next;
        drop(pages);
        Letter::make(self.seed, number, mix)
    }

    /// Enters a letter whose final dot is about to be sent.
    pub fn offer(&self, letter: &Letter) {
        let mut pages = self.pages();
        let entry = Entry {
            number: letter.number,
            octets: letter.content.len(),
            fates: letter.fates.clone(),
            answer: Answer::Unknown,
            epoch: pages.epoch,
            copies: vec![Vec::new(); letter.fates.len()],
            excused: vec![0; letter.fates.len()],
            damaged: false,
        };
        pages.entries.insert(letter.number, entry);
    }

    /// Notes the answer to a final dot.
    pub fn answer(&self, number: u64, answer: Answer) {
        let mut pages = self.pages();
        let epoch = pages.epoch;
        pages.acked += usize::from(answer == Answer::Acked);
        let entry = pages.entries.get_mut(&number).expect("a letter is offered before it is answered");
        (entry.answer, entry.epoch) = (answer, epoch);
        self.changed.notify_all();
    }

    /// Notes a refusal, wherever it came.
    pub fn refuse(&self, took: Duration, reply: String) {
        self.pages().refusals.push(Refusal { at: Instant::now(), took, reply });
        self.changed.notify_all();
    }

    /// Begins the next epoch; returns its number.
    pub fn next_epoch(&self) -> usize {
        let mut pages = self.pages();
        pages.epoch += 1;
        pages.epoch
    }

    /// Kills the server with `kill`, which sends it SIGKILL and tells what it had not read, if it knows. It reads nothing of
    /// what the receiver writes from then on; until the signal is sent the receiver answers nobody, so that each answer stands
    /// before or behind the death.
    pub fn dies(&self, kill: impl FnOnce() -> Option<Unread>) {
        let mut pages = self.pages();
        let unread = kill();
        let life = pages.deaths.len();
        pages.deaths.push(Instant::now());
        match unread {
            Some(unread) => pages.bury(&unread),
            None => pages.bury_unseen(life),
        }
    }

    /// The kernel of the server has reset a connection: its end was not read. If the last word of the receiver on it was the
    /// answer for a copy, nobody read that.
    pub(crate) fn was_reset(&self, by: &Conversation) {
        let mut pages = self.pages();
        if let Some(last) = pages.last_words.remove(&(by.life, by.port))
            && last.written == by.written
        {
            pages.take_back(&last);
        }
    }

    /// Refusals so far.
    pub fn refusals(&self) -> Vec<Refusal> {
        self.pages().refusals.clone()
    }

    /// Letters answered 250 so far.
    pub fn acked(&self) -> usize {
        self.pages().acked
    }

    /// Waits until `count` letters in all were answered 250.
    pub fn await_acked(&self, count: usize, within: Duration) {
        self.wait(within, &format!("{count} letters answered 250"), |pages| (pages.acked >= count).then_some(()));
    }

    /// Waits for the first refusal read after `since`.
    pub fn await_refusal(&self, since: Instant, within: Duration) -> Refusal {
        self.wait(within, "a refusal", |pages| pages.refusals.iter().find(|refusal| refusal.at >= since).cloned())
    }

    /// Waits until every letter answered 250 has reached all its recipients.
    pub fn await_arrivals(&self, within: Duration) {
        self.wait(within, "every acknowledged letter at every recipient", |pages| {
            let misses = |entry: &&Entry| entry.answer == Answer::Acked && entry.copies.iter().any(Vec::is_empty);
            pages.entries.values().find(misses).is_none().then_some(())
        });
    }

    /// The recipients of one fate of all letters answered 250.
    pub fn acked_recipients(&self, fate: Fate) -> Vec<String> {
        let pages = self.pages();
        let acked = pages.entries.values().filter(|entry| entry.answer == Answer::Acked);
        let of = |entry: &Entry| {
            let addresses = letter::addresses(entry.number, &entry.fates);
            addresses.zip(entry.fates.clone()).filter(|(_, of)| *of == fate).map(|(address, _)| address).collect()
        };
        acked.flat_map(|entry| -> Vec<String> { of(entry) }).collect()
    }

    /// Stuck recipients take mail from now on.
    pub fn release(&self) {
        self.pages().released = true;
    }

    /// The account so far.
    pub fn account(&self) -> Account {
        let pages = self.pages();
        pages.account()
    }

    /// Lives of the server that have ended.
    pub(crate) fn lives_ended(&self) -> usize {
        self.pages().deaths.len()
    }

    /// True when the receiver takes a RCPT.
    pub(crate) fn takes(&self, address: &str) -> bool {
        let mut pages = self.pages();
        match letter::parse_address(address) {
            Some((number, place, Fate::Later)) => pages.see(number, place) > 1,
            Some((_, _, Fate::Stuck)) => pages.released,
            _ => true,
        }
    }

    /// Notes what arrived for `addresses`; says what the receiver answers, and which copies it took.
    pub(crate) fn arrive(&self, addresses: &[String], content: &[u8]) -> (AtDot, Vec<(u64, usize)>) {
        let number = letter::parse_number(content);
        let octets = number.and_then(|number| Some((number, self.pages().entries.get(&number)?.octets)));
        let intact = octets.is_some_and(|(number, octets)| self.is_intact(content, number, octets));
        let mut pages = self.pages();
        let mut at_dot = AtDot::Take;
        let mut places = Vec::new();
        for address in addresses {
            let known = letter::parse_address(address).filter(|(of, place, fate)| {
                let entry = number.filter(|number| number == of).and_then(|number| pages.entries.get(&number));
                entry.is_some_and(|entry| entry.fates.get(*place) == Some(fate))
            });
            let Some((number, place, fate)) = known else {
                pages.strangers.push(format!("<{address}> (letter {number:?})"));
                continue;
            };
            places.push((number, place));
            at_dot = match fate {
                Fate::Dot if pages.see(number, place) == 1 => AtDot::Defer,
                Fate::Drop if pages.see(number, place) == 1 && at_dot == AtDot::Take => AtDot::HangUp,
                _ => at_dot,
            };
        }
        if at_dot != AtDot::Defer {
            let epoch = pages.epoch;
            for &(number, place) in &places {
                let Some(entry) = pages.entries.get_mut(&number) else { continue };
                entry.copies[place].push(epoch);
                entry.excused[place] += usize::from(at_dot == AtDot::HangUp);
                entry.damaged |= !intact;
            }
            self.changed.notify_all();
        }
        (at_dot, places)
    }

    /// The receiver answers for these copies with `replies`, of which the first is for them: before or behind a death as a
    /// whole, so that no reply counts as given that a thread off its core was still to write. If the server's life has
    /// ended the answer comes to nobody, as if the receiver had hung up.
    pub(crate) fn reply(
        &self,
        to: &mut Conversation,
        copies: Vec<(u64, usize)>,
        replies: &str,
        write: impl FnOnce(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut pages = self.pages();
        let first = replies.find('\n').map_or(replies.len(), |at| at + 1) as u64;
        if to.written == 0 && pages.deaths.len() == to.life {
            // Whoever had this port before is gone.
            pages.last_answers.remove(&to.port);
        }
        let until = to.written + first;
        to.written += replies.len() as u64;
        if pages.deaths.len() != to.life {
            pages.excuse(&copies);
        } else if !copies.is_empty() {
            for copy in &copies {
                pages.answered.entry(*copy).or_default().push(Instant::now());
            }
            pages.last_answers.insert(to.port, LastAnswer { copies, until, written: to.written });
        } else if let Some(last) = pages.last_answers.get_mut(&to.port) {
            last.written = to.written;
        }
        write(replies.as_bytes())
    }

    /// The letter stands at the end of what arrived, behind trace fields of the server.
    fn is_intact(&self, content: &[u8], number: u64, octets: usize) -> bool {
        let sent = letter::content(self.seed, number, octets);
        sent.len() == octets && content.ends_with(&sent)
    }

    fn wait<T>(&self, within: Duration, what: &str, mut find: impl FnMut(&Pages) -> Option<T>) -> T {
        let deadline = Instant::now() + within;
        let mut pages = self.pages();
        loop {
            if let Some(found) = find(&pages) {
                return found;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let account = pages.account();
                let refusals: Vec<Refusal> = pages.refusals.iter().rev().take(3).cloned().collect();
                drop(pages);
                panic!("{what}: not within {within:?}; {account}; last refusals: {refusals:?}");
            }
            // Searching the whole book at each arrival would be slow: at most once in a while.
            let nap = left.min(SEARCH_INTERVAL);
            pages = self.changed.wait_timeout(pages, nap).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pages {
    /// The server has died and had not read so much: answers in it were given to nobody.
    fn bury(&mut self, unread: &Unread) {
        for (port, last) in std::mem::take(&mut self.last_answers) {
            let read = last.written.saturating_sub(unread.get(&port).copied().unwrap_or_default());
            if read < last.until {
                self.take_back(&last);
            }
        }
    }

    /// The server has died and nobody knows what it had not read: connections that are reset will tell of answers behind which
    /// nothing was written.
    fn bury_unseen(&mut self, life: usize) {
        let last_words =
            std::mem::take(&mut self.last_answers).into_iter().filter(|(_, last)| last.until == last.written);
        self.last_words.extend(last_words.map(|(port, last)| ((life, port), last)));
    }

    /// An answer was read by nobody.
    fn take_back(&mut self, last: &LastAnswer) {
        last.copies.iter().for_each(|copy| _ = self.answered.get_mut(copy).and_then(Vec::pop));
        self.excuse(&last.copies);
    }

    /// Copies that nobody alive was told of.
    fn excuse(&mut self, copies: &[(u64, usize)]) {
        for (number, place) in copies {
            self.posthumous += 1;
            let Some(entry) = self.entries.get_mut(number) else { continue };
            entry.excused[*place] += 1;
        }
    }

    fn see(&mut self, number: u64, place: usize) -> u32 {
        let seen = self.seen.entry((number, place)).or_default();
        *seen += 1;
        *seen
    }

    fn account(&self) -> Account {
        let account = Account::of(self.entries.values(), self.strangers.clone(), self.epoch + 1);
        Account { posthumous: self.posthumous, oldest: self.oldest(), ..account }
    }

    /// The longest time from the answer for a copy that others followed without excuse to the death of the server behind it.
    fn oldest(&self) -> Duration {
        let places = self.entries.values().flat_map(|entry| {
            let places = entry.copies.iter().zip(&entry.excused).enumerate();
            let forgotten = places.filter(|(_, (copies, excused))| copies.len() > **excused + 1);
            forgotten.filter_map(|(place, _)| self.answered.get(&(entry.number, place)))
        });
        let before_last = places.flat_map(|answered| answered.split_last().map_or(&[][..], |(_, before)| before));
        let ages = before_last.filter_map(|answered| {
            let death = self.deaths.iter().find(|death| *death > answered)?;
            Some(*death - *answered)
        });
        ages.max().unwrap_or_default()
    }
}

const SEARCH_INTERVAL: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(book: &Book, fates: &[Fate]) -> (Letter, Vec<String>) {
        let letter = Letter { fates: fates.to_vec(), ..book.letter(&Mix::plain(600)) };
        book.offer(&letter);
        book.answer(letter.number, Answer::Acked);
        let recipients = letter.recipients().collect();
        (letter, recipients)
    }

    #[test]
    fn an_octet_changed_is_damage() {
        let book = Book::new(1);
        let (letter, to) = sent(&book, &[Fate::Now]);
        let with_trace = [b"Received: from there\r\n", letter.content.as_slice()].concat();
        assert_eq!(book.arrive(&to, &with_trace).0, AtDot::Take);
        assert!(book.account().is_clean());
        let (letter, to) = sent(&book, &[Fate::Now]);
        let mut spoilt = letter.content.clone();
        let last = spoilt.len() - 3;
        spoilt[last] ^= 1;
        book.arrive(&to, &spoilt);
        assert_eq!(book.account().damaged, [letter.number]);
    }

    #[test]
    fn mail_for_others_and_letters_never_finished_are_strangers() {
        let book = Book::new(1);
        let (letter, _) = sent(&book, &[Fate::Now]);
        book.arrive(&["r1.1@now.test".to_owned()], &letter.content);
        book.arrive(&["r0.1@later.test".to_owned()], &letter.content);
        let cut = book.letter(&Mix::plain(600));
        book.arrive(&cut.recipients().collect::<Vec<_>>(), &cut.content);
        assert_eq!(book.account().strangers.len(), 3);
    }

    /// One connection of a life: a letter is taken on it and answered; other replies follow.
    fn take(book: &Book, life: usize, letter: &Letter) {
        let to: Vec<String> = letter.recipients().collect();
        let mut conversation = Conversation { life, port: 4000, written: 0 };
        let mut say = |copies, replies: &str| {
            let write = |_: &[u8]| {
                assert!(book.pages.try_lock().is_err(), "nobody dies while an answer is written");
                Ok(())
            };
            book.reply(&mut conversation, copies, replies, write).expect("says it");
        };
        say(Vec::new(), GREETING);
        say(book.arrive(&to, &letter.content).1, TAKEN);
        say(Vec::new(), GREETING);
    }

    fn dies(book: &Book, unread: usize) {
        book.dies(|| {
            assert!(book.pages.try_lock().is_err(), "nobody is answered meanwhile");
            Some(Unread::from([(4000, unread as u64)]))
        });
    }

    const GREETING: &str = "220 here\r\n";
    const TAKEN: &str = "250 taken\r\n250 next\r\n";

    #[test]
    fn behind_sigkill_alone_a_reset_excuses_the_last_word_and_nothing_else() {
        // What follows the answer, what is said to the dead, whether the connection is reset: is the answer excused?
        for (behind, posthumous, is_reset, is_excused) in [
            ("", "", true, true),
            ("", "", false, false),
            ("250 next\r\n", "", true, false),
            ("", "250 next\r\n", true, false),
        ] {
            let book = Book::new(1);
            let (letter, to) = sent(&book, &[Fate::Now]);
            let mut conversation = Conversation { life: 0, port: 4000, written: 0 };
            let say = |conversation: &mut Conversation, copies, replies: &str| {
                book.reply(conversation, copies, replies, |_| Ok(())).expect("says it");
            };
            say(&mut conversation, Vec::new(), GREETING);
            say(&mut conversation, book.arrive(&to, &letter.content).1, "250 taken\r\n");
            if !behind.is_empty() {
                say(&mut conversation, Vec::new(), behind);
            }
            book.dies(|| None);
            if !posthumous.is_empty() {
                say(&mut conversation, Vec::new(), posthumous);
            }
            if is_reset {
                book.was_reset(&conversation);
                book.was_reset(&Conversation { life: 1, ..conversation });
            }
            take(&book, 1, &letter);
            let account = book.account();
            let found = (account.duplicates, account.excused);
            assert_eq!(found, if is_excused { (0, 1) } else { (1, 0) }, "{behind:?} {posthumous:?} {is_reset}");
        }
    }

    #[test]
    fn what_a_dead_server_is_told_is_not_its_fault() {
        let book = Book::new(1);
        let (letter, _) = sent(&book, &[Fate::Now]);
        dies(&book, 0);
        // Sent in the life that has ended: taken all the same.
        take(&book, 0, &letter);
        take(&book, 1, &letter);
        let account = book.account();
        assert_eq!((account.duplicates, account.excused, account.posthumous), (0, 1, 1));
        assert_eq!(account.oldest, Duration::ZERO);
        dies(&book, 0);
        take(&book, 2, &letter);
        assert_eq!(book.account().duplicates, 1, "this one had been answered to a living server");
        assert!(book.account().oldest > Duration::ZERO);
    }

    #[test]
    fn what_a_server_did_not_read_is_not_its_fault() {
        let behind = "250 next\r\n".len() + GREETING.len();
        // The last octet of the answer, and it alone, makes the difference.
        for (unread, duplicates) in [(behind + 1, 0), (behind, 1)] {
            let book = Book::new(1);
            let (letter, _) = sent(&book, &[Fate::Now]);
            take(&book, 0, &letter);
            dies(&book, unread);
            take(&book, 1, &letter);
            let account = book.account();
            assert_eq!((account.duplicates, account.posthumous), (duplicates, 1 - duplicates), "{unread} unread");
            assert_eq!(account.oldest == Duration::ZERO, duplicates == 0);
        }
    }

    #[test]
    fn a_port_is_not_a_connection() {
        let book = Book::new(1);
        let (letter, _) = sent(&book, &[Fate::Now]);
        take(&book, 0, &letter);
        // The same port again; what is unread is of this connection.
        let mut later = Conversation { life: 0, port: 4000, written: 0 };
        book.reply(&mut later, Vec::new(), GREETING, |_| Ok(())).expect("says it");
        dies(&book, GREETING.len());
        take(&book, 1, &letter);
        assert_eq!(book.account().duplicates, 1);
    }

    #[test]
    fn fates_come_true() {
        let book = Book::new(1);
        let (letter, to) = sent(&book, &[Fate::Later, Fate::Drop, Fate::Stuck]);
        assert_eq!([book.takes(&to[0]), book.takes(&to[0]), book.takes(&to[1])], [false, true, true]);
        assert!(!book.takes(&to[2]));
        book.release();
        assert!(book.takes(&to[2]));
        assert_eq!(book.arrive(&to, &letter.content).0, AtDot::HangUp);
        assert_eq!(book.arrive(&to, &letter.content).0, AtDot::Take);
        assert_eq!((book.account().duplicates, book.account().excused), (0, 3));
        book.arrive(&to[..1], &letter.content);
        assert_eq!(book.account().duplicates, 1);

        let (letter, to) = sent(&book, &[Fate::Dot]);
        assert_eq!(book.arrive(&to, &letter.content).0, AtDot::Defer);
        assert_eq!(book.account().lost, [letter.number]);
        assert_eq!(book.arrive(&to, &letter.content).0, AtDot::Take);
        assert!(book.account().is_clean());
    }
}
