//! A rig that runs the file-per-message engine, many transactions on their way at once, against a model of what it has promised.
#![allow(dead_code, reason = "each test binary uses its part")]

#[path = "../messages/mod.rs"]
pub mod messages;

use clock::WallTime;
use message::{MessageId, Place, Sealed, Settled};
use messages::{Random, body, due, pending, queue_of, resident, sealed};
use spool::local::{FaultFiles, Files, Folder, LocalReport, MessageFiles, Run, Undo};
use spool::{Mark, RecoveredMessage, Rewrite, SpoolError};
use std::collections::{BTreeMap, BTreeSet};

pub type Engine = MessageFiles<FaultFiles>;

/// What the spool may say of a message after a cut.
#[derive(Clone, Debug)]
struct Promise {
    sealed: Sealed,
    /// Which transaction brought it; `None` once recovered.
    transaction: Option<u64>,
    /// Acknowledged, or found by a recovery.
    ours: bool,
    /// (attempts, due) that a recovery may show; the first one is what was confirmed last.
    plans: Vec<(u16, WallTime)>,
    done: BTreeSet<u16>,
    maybe_done: BTreeSet<u16>,
    maybe_removed: bool,
    /// As which it may be found instead, after rewrites that failed.
    maybe: Vec<Sealed>,
    /// What was settled when the first of them failed: marks since then may be lost with the power.
    sure_done: Option<BTreeSet<u16>>,
}

/// A transaction on its way.
struct Writing {
    number: u64,
    messages: Vec<Sealed>,
    written: usize,
}

/// An engine and the model it must agree with.
pub struct Rig {
    pub files: FaultFiles,
    engine: Option<Engine>,
    promises: BTreeMap<MessageId, Promise>,
    writing: Vec<Writing>,
    undos: Vec<(u64, Undo)>,
    /// Transactions that were undone to the end.
    undone: BTreeSet<u64>,
    /// To be written, by message.
    marks: BTreeMap<MessageId, Vec<Mark>>,
    /// Removed, the directory not synced; how many of its syncs had failed.
    unlinked: Vec<(MessageId, u64)>,
    /// A call failed since the last cut: what it gave up may be seen until the power goes, and is not promised by being seen.
    faulty: bool,
    killed: bool,
    random: Random,
    next: u64,
    run: u64,
    pub counts: Counts,
}

/// That the work is varied enough.
#[derive(Debug, Default)]
pub struct Counts {
    pub acknowledged: u64,
    pub refused: u64,
    pub removed: u64,
    pub noted: u64,
    pub recovered: u64,
    pub unfinished: u64,
    pub torn_marks: u64,
    pub undone_at_start: u64,
    pub rewritten: u64,
    pub reused: u64,
    pub together: u64,
}

impl Rig {
    pub fn new(seed: u64) -> Rig {
        Rig {
            files: FaultFiles::new(),
            engine: None,
            promises: BTreeMap::new(),
            writing: Vec::new(),
            undos: Vec::new(),
            undone: BTreeSet::new(),
            marks: BTreeMap::new(),
            unlinked: Vec::new(),
            faulty: false,
            killed: false,
            random: Random::new(seed),
            next: 0,
            run: seed << 20,
            counts: Counts::default(),
        }
    }

    /// A number for the test's own decisions.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    /// Lets a later call fail.
    pub fn fail(&mut self, k: u64, sticky: bool, errno: i32, seed: u64) {
        self.faulty = true;
        self.files.fail(k, sticky, errno, seed);
    }

    /// One random thing; `Err` when the disk refused.
    pub fn step(&mut self) -> Result<(), SpoolError> {
        self.opened()?;
        match self.random.below(18) {
            0..3 => {
                self.begin();
                Ok(())
            }
            3..8 => self.advance(),
            8 | 9 => self.undo(),
            10 | 11 => {
                self.mark();
                Ok(())
            }
            12 => self.write_marks(),
            13 => self.remove(),
            14 => {
                if let (0, Some(engine)) = (self.random.below(8), &self.engine) {
                    Folder::of_messages().for_each(|folder| _ = engine.remove_old_spares(folder));
                }
                self.sync_removals()
            }
            15 => self.rewrite(),
            16 => self.append_each(),
            _ => self.load_one(),
        }
    }

    /// Cuts the power, opens again, compares with the model.
    pub fn crash_and_check(&mut self, seed: u64) {
        (self.engine, self.killed, self.faulty) = (None, false, false);
        self.files.crash(seed);
        self.opened().expect("healthy files open");
    }

    /// Kills the process, opens again, compares with the model.
    pub fn kill_and_check(&mut self) {
        (self.engine, self.killed) = (None, true);
        self.files.kill();
        self.opened().expect("healthy files open");
    }

    fn opened(&mut self) -> Result<(), SpoolError> {
        if self.engine.is_some() {
            return Ok(());
        }
        self.run += 1;
        let engine = MessageFiles::new(self.files.clone(), Run(self.run), queue_of);
        let mut undos = engine.unfinished()?;
        self.counts.undone_at_start += undos.len() as u64;
        undos.iter_mut().try_for_each(|undo| engine.undo(undo))?;
        engine.sync_all()?;
        let mut found = Vec::new();
        let mut report = LocalReport::default();
        for folder in Folder::of_messages() {
            report.add(&engine.recover(folder, &mut |message| found.push(message))?);
        }
        if report.unreadable > 0 {
            return Err(SpoolError::Closed);
        }
        self.compare(&engine, &found, &report)?;
        self.engine = Some(engine);
        Ok(())
    }

    /// A transaction of one to four messages.
    fn begin(&mut self) {
        if self.undos.is_empty() && self.writing.len() < 6 {
            let count = [1, 1, 1, 2, 3, 4][self.random.below(6) as usize];
            let (number, messages) = self.transaction(count);
            self.writing.push(Writing { number, messages, written: 0 });
        }
    }

    /// New messages, promised together or not at all; with the number of their transaction.
    fn transaction(&mut self, count: u64) -> (u64, Vec<Sealed>) {
        let octets = match self.random.below(20) {
            0 => 30_000,
            1..4 => 0,
            _ => self.random.below(3_000) as usize,
        };
        let body = body(self.next, octets);
        let number = self.next;
        let messages: Vec<_> = (0..count)
            .map(|_| {
                let recipients = RECIPIENTS[self.random.below(6) as usize];
                sealed(self.next_number(), recipients, &body)
            })
            .collect();
        for sealed in &messages {
            let promise = Promise {
                sealed: sealed.clone(),
                transaction: Some(number),
                ours: false,
                plans: vec![(0, sealed.due)],
                done: BTreeSet::new(),
                maybe_done: BTreeSet::new(),
                maybe_removed: false,
                maybe: Vec::new(),
                sure_done: None,
            };
            self.promises.insert(sealed.id, promise);
        }
        (number, messages)
    }

    /// Several transactions of a message each, with their syncs in common.
    fn append_each(&mut self) -> Result<(), SpoolError> {
        if !self.undos.is_empty() {
            return Ok(());
        }
        let count = 1 + self.random.below(3);
        let (numbers, messages): (Vec<_>, Vec<_>) = (0..count).map(|_| self.transaction(1)).unzip();
        let messages = messages.concat();
        let Some(engine) = &self.engine else { return Ok(()) };
        let mut result = Ok(());
        for ((message, number), done) in messages.iter().zip(numbers).zip(engine.append_each(&messages)) {
            match done {
                Ok(durable) => {
                    assert_eq!(durable.id(), message.id, "receipts in order");
                    self.promises.get_mut(&message.id).expect("noted when it was made").ours = true;
                    self.counts.together += 1;
                }
                Err((error, undo)) => {
                    self.counts.refused += 1;
                    self.undos.push((number, undo));
                    result = Err(error);
                }
            }
        }
        result
    }

    /// Of a new message. By their numbers messages are in one of five directories, so that there are files to be written into.
    fn next_number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// The next call of some transaction.
    fn advance(&mut self) -> Result<(), SpoolError> {
        let Some(engine) = &self.engine else { return Ok(()) };
        if self.writing.is_empty() {
            return Ok(());
        }
        let at = self.random.below(self.writing.len() as u64) as usize;
        let writing = &mut self.writing[at];
        let ids: Vec<_> = writing.messages.iter().map(|sealed| sealed.id).collect();
        if let Some(sealed) = writing.messages.get(writing.written) {
            let written = engine.write(sealed);
            writing.written += 1;
            if written.is_err() {
                self.undos.push((writing.number, engine.give_up(ids)));
                self.writing.remove(at);
                self.counts.refused += 1;
            }
            return written;
        }
        let writing = self.writing.remove(at);
        match engine.commit(&ids) {
            Ok(durable) => {
                self.counts.acknowledged += 1;
                assert_eq!(durable.iter().map(|d| d.id()).collect::<Vec<_>>(), ids, "receipts in order");
                for id in ids {
                    self.promises.get_mut(&id).expect("noted when it was made").ours = true;
                }
                Ok(())
            }
            Err((error, undo)) => {
                self.counts.refused += 1;
                self.undos.push((writing.number, undo));
                Err(error)
            }
        }
    }

    fn undo(&mut self) -> Result<(), SpoolError> {
        let Some(engine) = &self.engine else { return Ok(()) };
        while let Some((number, undo)) = self.undos.last_mut() {
            engine.undo(undo)?;
            self.undone.insert(*number);
            self.undos.pop();
        }
        Ok(())
    }

    fn live(&mut self) -> Option<MessageId> {
        let live: Vec<_> = self.promises.values().filter(|p| p.ours && !p.maybe_removed).map(|p| p.sealed.id).collect();
        (!live.is_empty()).then(|| live[self.random.below(live.len() as u64) as usize])
    }

    /// Something happens to a message.
    fn mark(&mut self) {
        let Some(id) = self.live() else { return };
        let promise = self.promises.get_mut(&id).expect("just found");
        let mark = if self.random.below(2) == 0 {
            let (attempts, due) = (self.random.below(9) as u16, due(self.random.below(1 << 40)));
            promise.plans.push((attempts, due));
            Mark::Attempt { id, attempts, due }
        } else {
            let count = promise.sealed.envelope.recipients.len() as u64;
            let recipients = vec![self.random.below(count) as u32, self.random.below(count) as u32];
            promise.maybe_done.extend(recipients.iter().map(|r| *r as u16));
            Mark::RecipientsDone { id, recipients }
        };
        self.marks.entry(id).or_default().push(mark);
    }

    fn write_marks(&mut self) -> Result<(), SpoolError> {
        let Some(engine) = &self.engine else { return Ok(()) };
        while let Some((id, marks)) = self.marks.first_key_value() {
            engine.note(*id, marks)?;
            self.counts.noted += 1;
            let promise = self.promises.get_mut(id).expect("only live messages are marked");
            for mark in marks {
                match mark {
                    Mark::Attempt { attempts, due, .. } => {
                        let at = promise.plans.iter().rposition(|plan| plan == &(*attempts, *due));
                        promise.plans.drain(..at.filter(|_| promise.sure_done.is_none()).unwrap_or(0));
                    }
                    Mark::RecipientsDone { recipients, .. } => {
                        promise.done.extend(recipients.iter().map(|r| *r as u16))
                    }
                    Mark::Removed { .. } => {}
                }
            }
            self.marks.pop_first();
        }
        Ok(())
    }

    fn remove(&mut self) -> Result<(), SpoolError> {
        let Some(id) = self.live() else { return Ok(()) };
        self.promises.get_mut(&id).expect("just found").maybe_removed = true;
        self.marks.remove(&id);
        let failures = self.files.failed_syncs(Folder::of(id));
        let kept = self.random.below(4) > 0;
        self.engine.as_ref().map_or(Ok(true), |engine| if kept { engine.retire(id) } else { engine.remove(id) })?;
        self.unlinked.push((id, failures));
        Ok(())
    }

    fn sync_removals(&mut self) -> Result<(), SpoolError> {
        let Some(engine) = &self.engine else { return Ok(()) };
        while let Some((id, failures)) = self.unlinked.last() {
            let folder = Folder::of(*id);
            engine.sync_names(folder)?;
            // After a failed sync nobody can say any more whether it will stay away.
            if self.files.failed_syncs(folder) == *failures {
                self.counts.removed += 1;
                self.promises.remove(id);
            }
            self.unlinked.pop();
        }
        Ok(())
    }

    /// A live message is written anew: another queue, other content, as many recipients.
    fn rewrite(&mut self) -> Result<(), SpoolError> {
        // Marks of it come before.
        self.write_marks()?;
        let Some(id) = self.live() else { return Ok(()) };
        let promise = self.promises.get_mut(&id).expect("just found");
        let number = 1 << 40 | self.random.below(1 << 30);
        let content = sealed(number, 1, &body(number, self.random.below(3000) as usize));
        let due = due(self.random.below(1 << 40));
        let sealed = Sealed { id, envelope: promise.sealed.envelope.clone(), due, ..content };
        let mut settled = Settled::default();
        promise.maybe_done.iter().for_each(|recipient| _ = settled.insert(*recipient));
        let attempts = self.random.below(9) as u16;
        let Some(engine) = &self.engine else { return Ok(()) };
        let done = engine.rewrite(&Rewrite { sealed: sealed.clone(), attempts, settled });
        match &done {
            Ok(()) => {
                (promise.plans, promise.done) = (vec![(attempts, due)], promise.maybe_done.clone());
                (promise.sealed, promise.maybe, promise.sure_done) = (sealed, Vec::new(), None);
                self.counts.rewritten += 1;
            }
            Err(_) => {
                promise.sure_done.get_or_insert(promise.done.clone());
                promise.plans.push((attempts, due));
                promise.maybe.push(sealed);
            }
        }
        done
    }

    fn load_one(&mut self) -> Result<(), SpoolError> {
        let Some(id) = self.live() else { return Ok(()) };
        let Some(engine) = &self.engine else { return Ok(()) };
        let promise = &self.promises[&id];
        let read = engine.load(id)?;
        let mut forms = [&promise.sealed].into_iter().chain(&promise.maybe);
        assert!(forms.any(|form| read == resident(form)), "content of {id}");
        Ok(())
    }

    /// Checks a recovery against the promises, then takes it as the new truth.
    fn compare(&mut self, engine: &Engine, found: &[RecoveredMessage], report: &LocalReport) -> Result<(), SpoolError> {
        let LocalReport { messages, unfinished, torn_marks, .. } = *report;
        let expected = LocalReport { messages, unfinished, torn_marks, ..LocalReport::default() };
        assert_eq!(*report, expected, "a cut is no damage");
        assert_eq!(messages, found.len() as u64);
        let mut unread = Ok(());
        let mut now = BTreeMap::new();
        for message in found {
            let id = message.id;
            let promise = self.promises.get(&id).unwrap_or_else(|| panic!("{id} is removed or was never written"));
            assert_eq!(message.recipients as usize, promise.sealed.envelope.recipients.len());
            let plan = (message.attempts, message.due);
            assert!(promise.plans.contains(&plan), "{id}: {plan:?} of {:?}", promise.plans);
            let left: BTreeSet<u16> = pending(message).into_iter().collect();
            let done: BTreeSet<u16> = (0..message.recipients).filter(|r| !left.contains(r)).collect();
            assert!(
                done.is_superset(promise.sure_done.as_ref().unwrap_or(&promise.done)),
                "{id}: settled recipients stay settled"
            );
            assert!(done.is_subset(&promise.maybe_done), "{id}: recipients settle only by marks");
            let mut form = &promise.sealed;
            match engine.load(id) {
                Ok(content) => {
                    let mut forms = [form].into_iter().chain(&promise.maybe);
                    form = forms.find(|form| content == resident(form)).unwrap_or_else(|| panic!("content of {id}"));
                    assert_eq!(*message.queue, queue_of(&form.envelope, &form.meta));
                    assert_eq!((message.place, message.size as usize), (Place::OWN_FILE, size(form)));
                }
                Err(error @ SpoolError::File { .. }) => unread = Err(error),
                Err(error) => panic!("{id} does not read: {error}"),
            }
            let form = form.clone();
            let mut promise = Promise { transaction: None, maybe_removed: false, ..promise.clone() };
            if !(self.killed && self.faulty) {
                (promise.sealed, promise.maybe, promise.sure_done) = (form, Vec::new(), None);
                (promise.ours, promise.plans) = (true, vec![plan]);
                (promise.done, promise.maybe_done) = (done.clone(), done);
            }
            assert!(now.insert(id, promise).is_none(), "{id} twice");
        }
        for (id, promise) in &self.promises {
            let may_be_gone = !promise.ours || promise.maybe_removed;
            assert!(may_be_gone || now.contains_key(id), "{id} was acknowledged and is lost");
        }
        self.check_transactions(&now);
        self.counts.recovered += messages;
        self.counts.unfinished += unfinished;
        self.counts.torn_marks += torn_marks;
        // After an error the next opening is compared with the same promises.
        unread?;
        if self.killed && self.faulty {
            let gone = self.promises.iter().filter(|(id, _)| !now.contains_key(id));
            let gone: Vec<_> = gone.map(|(id, p)| (*id, Promise { maybe_removed: true, ..p.clone() })).collect();
            now.extend(gone);
        }
        self.promises = now;
        (self.writing, self.undos, self.unlinked) = (Vec::new(), Vec::new(), Vec::new());
        self.marks.clear();
        Ok(())
    }

    /// What was not acknowledged is there as a whole or not at all.
    fn check_transactions(&self, now: &BTreeMap<MessageId, Promise>) {
        let mut there: BTreeMap<u64, Vec<bool>> = BTreeMap::new();
        for (id, promise) in self.promises.iter().filter(|(_, promise)| !promise.ours) {
            if let Some(number) = promise.transaction {
                there.entry(number).or_default().push(now.contains_key(id));
            }
        }
        for (number, there) in there {
            assert!(there.windows(2).all(|pair| pair[0] == pair[1]), "a part of transaction {number}: {there:?}");
            let undone = there.len() > 1 && self.undone.contains(&number);
            assert!(!undone || !there[0], "transaction {number} was undone");
        }
    }
}

fn size(sealed: &Sealed) -> usize {
    sealed.head.len() + sealed.body.len()
}

/// Numbers of recipients to choose from.
const RECIPIENTS: [u64; 6] = [1, 1, 1, 2, 3, 80];
