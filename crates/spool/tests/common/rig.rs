//! A log that is run at random against a model of what it has promised.
//!
//! The model knows of each message whether it was acknowledged, which plans and settled recipients a
//! recovery may show, whether a removal may have become durable, and whether its octets were spoilt on the
//! disk by the test. A log that says anything else is wrong, and the test panics.

use super::Random;
use super::{body, due, is_same, nonces, queue_of, sealed, small_settings};
use clock::WallTime;
use message::{MessageId, Place, Sealed, Settled};
use spool::fault::FaultDisk;
use spool::{Batch, Damage, Disk, FileName, Mark, PAGE_OCTETS, RecoveredMessage, Recovering, Recovery};
use spool::{Rewrite, SegmentLog, Settings, SpoolError, Step};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What the spool may say of a message after a cut.
#[derive(Clone, Debug)]
struct Promise {
    sealed: Arc<Sealed>,
    place: Option<Place>,
    /// Acknowledged, or found by a recovery.
    ours: bool,
    /// (attempts, due) that a recovery may show; the last one is what was confirmed or tried last.
    plans: Vec<(u16, WallTime)>,
    done: BTreeSet<u32>,
    maybe_done: BTreeSet<u32>,
    maybe_removed: bool,
    /// As which it may be found instead, after rewrites that failed.
    maybe: Vec<Arc<Sealed>>,
    /// What it was before it was written anew; counts again when the newest record was spoilt.
    older: Vec<Arc<Sealed>>,
    older_plans: Vec<(u16, WallTime)>,
    /// A bit of its record was turned over on the disk.
    spoilt: bool,
    /// Made since the log began, before the mail of earlier runs was adopted.
    young: bool,
}

/// What the random work consists of.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    pub settings: Settings,
    /// Octets of a body, now and then ten times as many.
    pub body_max: u64,
    /// Messages are said not to read, rightly or not, and bits are turned over on the disk.
    pub spoils: bool,
    /// Starts are in two parts, with commits between them.
    pub begins: bool,
}

impl Default for Work {
    fn default() -> Work {
        Work { settings: small_settings(), body_max: 12_000, spoils: true, begins: true }
    }
}

/// A log and the model it must agree with.
pub struct Rig {
    pub disk: FaultDisk,
    work: Work,
    log: Option<SegmentLog<FaultDisk>>,
    /// What earlier runs left, not yet adopted.
    recovering: Option<Recovering>,
    promises: BTreeMap<MessageId, Promise>,
    /// The promises before the last recovery, while nothing was committed since: what that recovery took from a last
    /// batch in doubt may be gone the next time, and what it did not find may be there.
    before: Option<BTreeMap<MessageId, Promise>>,
    /// Something was committed since the log began.
    has_committed: bool,
    /// Marks of failed commits, to be committed again.
    marks: Vec<Mark>,
    random: Random,
    next: u64,
    seed: u64,
    /// Something was said not to read: segments may be in `corrupt/`.
    has_aside: bool,
    /// Bits were turned over.
    has_spoilt: bool,
    pub given_up: u64,
    /// Messages written anew.
    pub rewritten: u64,
    /// Recoveries that began from a checkpoint.
    pub from_checkpoints: usize,
}

impl Rig {
    pub fn new(seed: u64) -> Rig {
        Rig::with(seed, Work::default())
    }

    pub fn with(seed: u64, work: Work) -> Rig {
        Rig {
            disk: FaultDisk::new(),
            work,
            log: None,
            recovering: None,
            promises: BTreeMap::new(),
            before: None,
            has_committed: false,
            marks: Vec::new(),
            random: Random::new(seed),
            next: 0,
            seed,
            has_aside: false,
            has_spoilt: false,
            given_up: 0,
            rewritten: 0,
            from_checkpoints: 0,
        }
    }

    /// A number for the test's own decisions.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    /// One random thing; `Err` when the disk refused.
    pub fn step(&mut self) -> Result<(), SpoolError> {
        self.begun()?;
        if self.recovering.is_some() {
            return match self.random.below(4) {
                0 => self.maintain(),
                1 => self.adopt(),
                _ => self.commit(),
            };
        }
        match self.random.below(24) {
            0..13 => self.commit(),
            13 => self.rewrite(),
            14..18 => self.maintain(),
            18 | 19 => self.read_one(),
            20 => self.set_aside_one(),
            21 => self.ready(),
            _ => self.maintain_all(),
        }
    }

    /// On a disk that is healthy again everything goes on at once: housekeeping to its end, marks, and new mail.
    pub fn goes_on(&mut self) {
        self.opened().expect("a healthy disk opens");
        let ready = |rig: &mut Rig| rig.log.as_mut().map_or(Ok(()), SegmentLog::ready);
        ready(self).expect("a healthy disk");
        // An error met before may be told once more.
        (0..2).find(|_| self.maintain_all().is_ok()).expect("a healthy disk");
        let commits = self.stats().commits;
        self.commit().expect("a healthy disk");
        assert!(self.stats().commits > commits && self.marks.is_empty());
    }

    /// Ends the log without a cut, as a stop of the program or a kill does.
    pub fn stop(&mut self) {
        (self.log, self.recovering) = (None, None);
    }

    /// What an orderly stop does before the log ends.
    pub fn finish(&mut self) -> Result<(), SpoolError> {
        self.log.as_mut().map_or(Ok(()), SegmentLog::finish)
    }

    /// Cuts the power, opens again, compares with the model.
    pub fn crash_and_check(&mut self, seed: u64) {
        self.crash(seed);
        self.opened().expect("a healthy disk opens");
    }

    /// Cuts the power; the next step opens the log.
    pub fn crash(&mut self, seed: u64) {
        self.stop();
        self.disk.crash(seed);
    }

    pub fn stats(&self) -> spool::LogStats {
        self.log.as_ref().map(|log| log.stats()).unwrap_or_default()
    }

    /// Makes sure that the log is open and everything adopted.
    pub fn opened(&mut self) -> Result<(), SpoolError> {
        self.begun()?;
        self.adopt()
    }

    /// Makes sure that the log takes commits.
    fn begun(&mut self) -> Result<(), SpoolError> {
        if self.log.is_some() {
            return Ok(());
        }
        self.seed += 1_000_003;
        self.marks.clear();
        for (id, before) in self.before.take().unwrap_or_default() {
            let promise = self.promises.entry(id).or_insert_with(|| before.clone());
            promise.ours = before.ours;
            promise.plans.extend(before.plans);
            promise.done = before.done;
            promise.maybe_done.extend(before.maybe_done);
            promise.maybe_removed |= before.maybe_removed;
            promise.maybe.extend(before.maybe.into_iter().chain([before.sealed]));
        }
        self.has_committed = false;
        self.promises.values_mut().for_each(|promise| promise.young = false);
        let (log, recovering) = SegmentLog::begin(self.disk.clone(), self.work.settings, nonces(self.seed))?;
        (self.log, self.recovering) = (Some(log), Some(recovering));
        if self.work.begins && self.random.below(3) == 0 { Ok(()) } else { self.adopt() }
    }

    /// Joins what earlier runs left and checks it.
    fn adopt(&mut self) -> Result<(), SpoolError> {
        let Some(recovering) = self.recovering.take() else { return Ok(()) };
        let Some(mut log) = self.log.take() else { return Ok(()) };
        let mut recovery = log.adopt(recovering.run()?);
        loop {
            let some = log.next_recovered(1 + self.random.below(9) as usize);
            if some.is_empty() {
                break;
            }
            recovery.messages.extend(some);
        }
        if recovery.damage.unreadable_pages > 0 {
            // The disk does not read now: this log is not used. What it did may do no harm.
            self.stop();
            return Err(SpoolError::io(Step::Read, None, &std::io::Error::from_raw_os_error(5)));
        }
        assert!(
            self.has_spoilt || recovery.damage == Damage::default(),
            "a cut is no damage: {:?} {:?} {:?}",
            recovery.damage,
            self.files(),
            log.stats()
        );
        self.from_checkpoints += usize::from(recovery.checkpoint.is_some());
        let compared = self.compare(&log, &recovery);
        self.log = Some(log);
        compared
    }

    fn commit(&mut self) -> Result<(), SpoolError> {
        let mut batch = Batch { appends: Vec::new(), marks: std::mem::take(&mut self.marks) };
        let Some(log) = self.log.as_mut() else { return Ok(()) };
        if log.accepts_appends().is_ok() {
            let count = if self.promises.len() > LIVE_MAX { 1 } else { self.random.below(4) };
            for _ in 0..count {
                batch.appends.push(self.transaction());
            }
        }
        let are_known = self.recovering.is_none();
        for _ in 0..self.random.below(7) {
            batch.marks.extend(are_known.then(|| self.mark()).flatten());
        }
        let Some(log) = self.log.as_mut() else { return Ok(()) };
        match log.commit(&batch) {
            Ok(durable) => {
                (self.before, self.has_committed) = (None, true);
                let all: Vec<_> = batch.appends.iter().flatten().collect();
                assert_eq!(all.len(), durable.len());
                for (sealed, durable) in all.iter().zip(&durable) {
                    assert_eq!(sealed.id, durable.id(), "receipts in order");
                    let promise = self.promises.get_mut(&sealed.id).expect("noted when it was made");
                    (promise.ours, promise.place) = (true, Some(durable.place()));
                }
                batch.marks.iter().for_each(|mark| self.confirm(mark));
                Ok(())
            }
            Err(error) => {
                self.marks = batch.marks;
                Err(error)
            }
        }
    }

    /// One to three messages with one body, now and then larger than a segment.
    fn transaction(&mut self) -> Vec<Sealed> {
        let octets = match self.random.below(40) {
            0 => self.work.body_max as usize * 8,
            1..5 => 0,
            _ => self.random.below(self.work.body_max) as usize,
        };
        let body = body(self.next, octets);
        let count = [1, 1, 1, 2, 3][self.random.below(5) as usize];
        let messages: Vec<_> = (0..count)
            .map(|i| sealed(self.next + i, RECIPIENTS[self.random.below(RECIPIENTS.len() as u64) as usize], &body))
            .collect();
        self.next += count;
        for sealed in &messages {
            let promise = Promise {
                sealed: Arc::new(sealed.clone()),
                place: None,
                ours: false,
                plans: vec![(0, sealed.due)],
                done: BTreeSet::new(),
                maybe_done: BTreeSet::new(),
                maybe_removed: false,
                maybe: Vec::new(),
                older: Vec::new(),
                older_plans: Vec::new(),
                spoilt: false,
                young: self.recovering.is_some(),
            };
            self.promises.insert(sealed.id, promise);
        }
        messages
    }

    /// Some live messages are written anew: another queue, other content, as many recipients.
    fn rewrite(&mut self) -> Result<(), SpoolError> {
        let mut rewrites: Vec<Rewrite> = Vec::new();
        for _ in 0..=self.random.below(3) {
            let Some(id) = self.some_live() else { break };
            let promise = &self.promises[&id];
            if promise.spoilt || rewrites.iter().any(|other| other.sealed.id == id) {
                continue;
            }
            let number = 1 << 40 | self.random.below(1 << 30);
            let octets = self.random.below(self.work.body_max) as usize;
            let Sealed { envelope, .. } = (*promise.sealed).clone();
            let sealed = Sealed {
                id,
                envelope,
                due: due(self.random.below(1 << 40)),
                ..sealed(number, 1, &body(number, octets))
            };
            let mut settled = Settled::default();
            promise.maybe_done.iter().for_each(|recipient| _ = settled.insert(*recipient as u16));
            rewrites.push(Rewrite { sealed, attempts: self.random.below(9) as u16, settled });
        }
        let Some(log) = self.log.as_mut() else { return Ok(()) };
        let done = log.rewrite(&rewrites);
        if done.is_ok() && !rewrites.is_empty() {
            (self.before, self.has_committed) = (None, true);
        }
        for (at, Rewrite { sealed, attempts, .. }) in rewrites.into_iter().enumerate() {
            let promise = self.promises.get_mut(&sealed.id).expect("just found");
            match &done {
                Ok(places) => {
                    // Marks of failed commits come behind it.
                    let plans = promise.plans.split_off(1);
                    promise.older_plans.append(&mut promise.plans);
                    promise.plans = [(attempts, sealed.due)].into_iter().chain(plans).collect();
                    promise.done = promise.maybe_done.clone();
                    (promise.place, promise.maybe) = (Some(places[at]), Vec::new());
                    promise.older.push(std::mem::replace(&mut promise.sealed, Arc::new(sealed)));
                    self.rewritten += 1;
                }
                Err(_) => {
                    promise.plans.push((attempts, sealed.due));
                    promise.maybe.push(Arc::new(sealed));
                }
            }
        }
        done.map(|_| ())
    }

    /// Some live message; of the oldest few, which are what compaction is for, rarely one.
    fn some_live(&mut self) -> Option<MessageId> {
        let live: Vec<_> = self.promises.values().filter(|p| p.ours && !p.maybe_removed).map(|p| p.sealed.id).collect();
        if live.is_empty() {
            return None;
        }
        let at = self.random.below(live.len() as u64).max(self.random.below(live.len() as u64));
        Some(live[at as usize])
    }

    /// A mark for some live message; mostly removals, so that space is reclaimed.
    fn mark(&mut self) -> Option<Mark> {
        let id = self.some_live()?;
        let promise = self.promises.get_mut(&id).expect("just found");
        Some(match self.random.below(6) {
            0 => {
                let (attempts, due) = (self.random.below(9) as u16, due(self.random.below(1 << 40)));
                promise.plans.push((attempts, due));
                Mark::Attempt { id, attempts, due }
            }
            1 => {
                let count = promise.sealed.envelope.recipients.len() as u64;
                let recipients = vec![self.random.below(count) as u32, self.random.below(count) as u32];
                promise.maybe_done.extend(&recipients);
                Mark::RecipientsDone { id, recipients }
            }
            _ => {
                promise.maybe_removed = true;
                Mark::Removed { id }
            }
        })
    }

    fn confirm(&mut self, mark: &Mark) {
        if self.promises.get(&mark.id()).is_some_and(|promise| !promise.ours) {
            // It was given up: marks of it are passed over, and it comes back until its segment is in `corrupt/`.
            return;
        }
        match mark {
            Mark::Removed { id } => _ = self.promises.remove(id),
            Mark::Attempt { id, attempts, due } => {
                if let Some(promise) = self.promises.get_mut(id) {
                    let at = promise.plans.iter().rposition(|plan| plan == &(*attempts, *due)).unwrap_or(0);
                    promise.plans.drain(..at);
                }
            }
            Mark::RecipientsDone { id, recipients } => {
                if let Some(promise) = self.promises.get_mut(id) {
                    promise.done.extend(recipients);
                }
            }
        }
    }

    fn maintain(&mut self) -> Result<(), SpoolError> {
        let octets_max = 1 + self.random.below(40_000) as usize;
        let done = self.log.as_mut().map_or(Ok(false), |log| log.maintain(octets_max).map(|m| m.has_more()));
        self.forget_set_aside();
        done.map(|_| ())
    }

    pub fn maintain_all(&mut self) -> Result<(), SpoolError> {
        let Some(log) = self.log.as_mut() else { return Ok(()) };
        let mut result = Ok(());
        for step in 0.. {
            assert!(step < 1000, "housekeeping never ends: {:?}", log.stats());
            match log.maintain(20_000) {
                Ok(done) if done.has_more() => {}
                Ok(_) => break,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        self.forget_set_aside();
        result
    }

    /// The log gave messages up: only such as were spoilt.
    fn forget_set_aside(&mut self) {
        for id in self.log.as_mut().map(SegmentLog::take_set_aside).unwrap_or_default() {
            if let Some(promise) = self.promises.get_mut(&id) {
                assert!(promise.spoilt, "{id} reads and was given up");
                // Its older place may still be there after a cut.
                (promise.ours, promise.maybe_removed) = (false, true);
                self.given_up += 1;
            }
        }
    }

    fn ready(&mut self) -> Result<(), SpoolError> {
        self.log.as_mut().map_or(Ok(()), SegmentLog::ready)
    }

    fn read_one(&mut self) -> Result<(), SpoolError> {
        let live: Vec<_> = self.promises.values().filter(|p| p.ours && p.place.is_some()).collect();
        let Some(log) = self.log.as_mut() else { return Ok(()) };
        if live.is_empty() {
            return Ok(());
        }
        let promise = live[self.random.below(live.len() as u64) as usize];
        let (id, place) = (promise.sealed.id, promise.place.expect("just asked"));
        match log.read(id, place) {
            Ok(read) => assert!(is_same(&read, &promise.sealed), "content of {id}"),
            Err(SpoolError::Damaged { .. } | SpoolError::NoSuchMessage { .. }) if promise.spoilt => {
                self.has_aside = true;
                log.set_aside(id);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Says of a message that it does not read; now and then that is true.
    fn set_aside_one(&mut self) -> Result<(), SpoolError> {
        let Some(id) = self.some_live().filter(|_| self.work.spoils) else { return Ok(()) };
        if self.random.below(3) == 0 {
            self.spoil(id);
        }
        self.has_aside = true;
        self.log.as_mut().into_iter().for_each(|log| log.set_aside(id));
        Ok(())
    }

    /// Turns a bit of a message's record over, behind the record's header; all messages in it are spoilt. Not in the newest
    /// segment: what is wrong at the end of the log is taken for what was being written when it ended.
    fn spoil(&mut self, id: MessageId) {
        let Some(log) = self.log.as_ref() else { return };
        let Some(place) = log.locate(id) else { return };
        let newest = self.promises.keys().filter_map(|id| log.locate(*id)).map(|place| place.segment).max();
        if newest == Some(place.segment) || self.promises[&id].spoilt {
            return;
        }
        let file = FileName::Segment(place.segment);
        let octets = self.disk.contents(file).expect("a segment with a live message is there");
        let start = place.offset as usize;
        let length = u32::from_le_bytes(octets[start + 12..start + 16].try_into().expect("four")) as usize;
        let bit = (start + 32) as u64 * 8 + self.random.below((length as u64 - 32) * 8);
        self.disk.flip_bit(file, bit);
        let is_in_it = |other: Place| (other.segment, other.offset) == (place.segment, place.offset);
        let mates: Vec<_> = self.promises.keys().copied().filter(|id| log.locate(*id).is_some_and(is_in_it)).collect();
        mates.iter().for_each(|id| self.promises.get_mut(id).expect("just found").spoilt = true);
        self.has_spoilt = true;
    }

    /// Names and lengths in pages, to be looked at.
    fn files(&self) -> Vec<String> {
        let files = self.disk.copy().list().expect("no faults");
        files.iter().map(|f| format!("{} {}", f.name, f.octets / PAGE_OCTETS as u64)).collect()
    }

    /// Checks a recovery against the promises, then takes it as the new truth.
    fn compare(&mut self, log: &SegmentLog<FaultDisk>, recovery: &Recovery) -> Result<(), SpoolError> {
        assert!(self.has_aside || recovery.set_aside == 0, "a cut is no damage");
        let young = self.promises.values().filter(|p| p.young && p.ours).count();
        assert_eq!(log.stats().live_messages, (recovery.messages.len() + young) as u64);
        let mut unread = Ok(());
        let mut found = BTreeMap::new();
        for message in &recovery.messages {
            let id = message.id;
            let promise = self.promises.get(&id).unwrap_or_else(|| panic!("{id} is removed or was never appended"));
            assert!(!promise.young, "{id} is not from an earlier run");
            let mut sealed = &promise.sealed;
            match log.read(id, message.place) {
                Ok(read) => {
                    let older = promise.older.iter().filter(|_| promise.spoilt);
                    let found =
                        [sealed].into_iter().chain(&promise.maybe).chain(older).find(|sealed| is_same(&read, sealed));
                    sealed = found.unwrap_or_else(|| panic!("content of {id}"));
                }
                Err(error @ SpoolError::Io { .. }) => unread = Err(error),
                Err(error) => assert!(promise.spoilt, "{id} does not read: {error}"),
            }
            let done = check(message, promise, sealed, unread.is_err());
            let promise = Promise {
                sealed: sealed.clone(),
                maybe: if unread.is_ok() { Vec::new() } else { promise.maybe.clone() },
                place: Some(message.place),
                ours: true,
                plans: vec![(message.attempts, message.due)],
                maybe_done: done.clone(),
                done,
                maybe_removed: false,
                ..promise.clone()
            };
            assert!(found.insert(id, promise).is_none(), "{id} twice");
        }
        for (id, promise) in &self.promises {
            let may_be_gone = !promise.ours || promise.maybe_removed || promise.spoilt;
            assert!(
                may_be_gone || promise.young || found.contains_key(id),
                "{id} was acknowledged at {:?} and is lost; {:?} {:?}",
                promise.place,
                recovery.damage,
                self.files()
            );
            if promise.young {
                found.insert(*id, Promise { young: false, ..promise.clone() });
            }
        }
        let before = std::mem::replace(&mut self.promises, found);
        self.before = (!self.has_committed).then_some(before);
        unread
    }
}

/// Checks what a recovery says of one message; its settled recipients.
fn check(message: &RecoveredMessage, promise: &Promise, sealed: &Sealed, is_unread: bool) -> BTreeSet<u32> {
    let id = message.id;
    assert_eq!(usize::from(message.recipients), sealed.envelope.recipients.len());
    // Which of its forms it has nobody knows who could not read it.
    if !is_unread && !promise.spoilt {
        assert_eq!(*message.queue, queue_of(&sealed.envelope, &sealed.meta));
        assert_eq!(message.size as usize, sealed.head.len() + sealed.body.len());
    }
    let plan = (message.attempts, message.due);
    let was_older = promise.spoilt && promise.older_plans.contains(&plan);
    assert!(was_older || promise.plans.contains(&plan), "{id}: {message:?} of {:?}", promise.plans);
    let settled = (0..message.recipients).filter(|r| message.settled.contains(*r));
    let done: BTreeSet<u32> = settled.map(u32::from).collect();
    assert_eq!(done.len(), message.settled.len(), "{id}: no recipients but those of the envelope");
    assert!(done.is_superset(&promise.done), "{id}: settled recipients stay settled");
    assert!(done.is_subset(&promise.maybe_done), "{id}: recipients settle only by marks");
    done
}

/// Live messages beyond which they do not become more.
const LIVE_MAX: usize = 40;
/// Numbers of recipients to choose from: few, and now and then more than a bitmap's first word holds.
const RECIPIENTS: [u64; 24] = [1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 5, 5, 5, 80];
