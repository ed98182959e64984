//! Disks that are full, of octets or of files: what was accepted stays, deliveries are noted, and when all is
//! delivered, or somebody else makes room, the spool takes mail again. Whatever stands in the way.

mod common;

use common::{Random, body, id, nonces, sealed, small_settings};
use message::MessageId;
use spool::fault::FaultDisk;
use spool::{Batch, Mark, PAGE_OCTETS, Recovery, SegmentLog, Settings, SpoolError};
use std::collections::BTreeSet;
use std::panic::catch_unwind;

type Log = SegmentLog<FaultDisk>;

fn open(disk: &FaultDisk, seed: u64) -> Result<(Log, Recovery), SpoolError> {
    let settings =
        Settings { segment_octets: SEGMENT as u32, compact_margin_octets: 8 * SEGMENT as u64, ..small_settings() };
    SegmentLog::open(disk.clone(), settings, nonces(seed))
}

/// A spool that is run as its writer runs it, on a disk of `segments` segments.
struct Spool {
    disk: FaultDisk,
    log: Log,
    live: BTreeSet<u64>,
    next: u64,
    octets: usize,
}

impl Spool {
    fn new(segments: usize, octets: usize) -> Spool {
        let disk = FaultDisk::new();
        disk.set_octets_max(Some(segments * SEGMENT));
        let (log, _) = open(&disk, 1).expect("a new spool");
        Spool { disk, log, live: BTreeSet::new(), next: 0, octets }
    }

    /// Appends one message, then some housekeeping, as the writer does.
    fn append(&mut self) -> Result<u64, SpoolError> {
        let number = self.next;
        self.next += 1;
        self.log.accepts_appends()?;
        let message = sealed(number, 1, &body(number, self.octets));
        self.log.commit(&Batch { appends: vec![vec![message]], marks: vec![] })?;
        self.live.insert(number);
        self.keep_house();
        Ok(number)
    }

    /// Appends until the spool says that it is full, `times` in a row.
    fn fill(&mut self, times: usize) {
        let mut refused = 0;
        while refused < times {
            match self.append() {
                Ok(_) => refused = 0,
                Err(error) => {
                    assert!(error.is_full(), "{error}");
                    refused += 1;
                    self.second();
                }
            }
            assert!(self.next < 200_000, "never full: {:?}", self.log.stats());
        }
    }

    /// Notes deliveries, as many to a batch as come in a moment.
    fn deliver(&mut self, numbers: impl IntoIterator<Item = u64>) {
        for number in numbers {
            self.commit_marks(vec![Mark::Removed { id: id(number) }]);
            self.live.remove(&number);
            self.keep_house();
        }
    }

    /// Steps of housekeeping that are enough for anything: all of the log, and the reserve, is read and written twice, and every file touched.
    fn steps_max(&self) -> u64 {
        let stats = self.log.stats();
        4 * (stats.disk_octets + 5 * SEGMENT as u64) / HOUSEKEEPING_OCTETS as u64
            + 4 * (stats.segments + stats.spares) as u64
            + 20
    }

    /// A step between commits, and more while they are urgent.
    fn keep_house(&mut self) {
        let steps_max = self.steps_max();
        for step in 0.. {
            assert!(step < steps_max, "always urgent: {:?}", self.log.stats());
            if !self.log.maintain(HOUSEKEEPING_OCTETS).is_ok_and(|done| done.urgent) {
                return;
            }
        }
    }

    fn commit_marks(&mut self, marks: Vec<Mark>) {
        let batch = Batch { appends: vec![], marks };
        let noted = (0..5).any(|_| {
            let result = self.log.commit(&batch);
            result.is_ok() || {
                self.second();
                false
            }
        });
        assert!(noted, "marks need no new space: {:?}", self.log.stats());
    }

    /// What the writer does in a second: tries to be ready, keeps house until there is nothing to do or the disk refuses.
    fn second(&mut self) {
        let _ = self.log.ready();
        let steps_max = self.steps_max();
        for step in 0.. {
            assert!(step < steps_max, "housekeeping never ends: {:?}", self.log.stats());
            match self.log.maintain(HOUSEKEEPING_OCTETS) {
                Ok(done) if done.has_more() => {}
                _ => break,
            }
        }
    }

    /// Mail is taken again within five seconds, a segment of it at least.
    fn resumes(&mut self) {
        for second in 0..5 {
            if self.log.accepts_appends().is_ok() && self.append().is_ok() {
                break;
            }
            assert!(second < 4, "does not resume: {:?} {:?}", self.log.accepts_appends(), self.log.stats());
            self.second();
        }
        for _ in 0..SEGMENT / self.octets.max(PAGE_OCTETS) {
            if self.append().is_err() {
                self.second();
                self.append().expect("there is room again");
            }
        }
    }

    /// Everything that was accepted, and nothing else, is there after a cut.
    fn check(self) {
        let Spool { disk, log, live, .. } = self;
        drop(log);
        disk.heal();
        for (number, seed) in [(1, 7), (2, 77)] {
            disk.crash(seed);
            let (_, recovery) = open(&disk, number + 100).expect("a healthy disk opens");
            assert_eq!(recovery.damage, spool::Damage::default());
            let found: BTreeSet<MessageId> = recovery.messages.iter().map(|m| m.id).collect();
            assert_eq!(found, live.iter().map(|n| id(*n)).collect());
        }
    }
}

#[test]
fn a_full_disk_that_is_delivered_takes_mail_again() {
    for octets in [300, 5_000, 30_000] {
        let mut spool = Spool::new(24, octets);
        for round in 0..3 {
            spool.fill(3);
            let live: Vec<_> = spool.live.iter().copied().collect();
            assert!(!live.is_empty(), "round {round}");
            spool.deliver(live);
            spool.second();
            let stats = spool.log.stats();
            assert!(stats.disk_octets < 8 * SEGMENT as u64, "space came back: {stats:?}");
            spool.resumes();
        }
        spool.check();
    }
}

#[test]
fn a_straggler_in_the_oldest_segment_holds_nothing_up() {
    let mut spool = Spool::new(24, 5_000);
    for _ in 0..4 {
        spool.fill(3);
        let live: Vec<_> = spool.live.iter().copied().collect();
        spool.deliver(live[1..].iter().copied());
        spool.second();
        spool.resumes();
    }
    assert!(spool.live.contains(&0), "the first message is still there");
    spool.check();
}

#[test]
fn an_oldest_segment_full_of_stragglers_holds_nothing_up() {
    for octets in [300, 5_000, 30_000] {
        let mut spool = Spool::new(24, octets);
        while spool.log.stats().segments < 3 {
            spool.append().expect("an empty disk");
        }
        let stragglers = spool.next;
        for _ in 0..3 {
            spool.fill(3);
            let live: Vec<_> = spool.live.iter().copied().filter(|n| *n >= stragglers).collect();
            spool.deliver(live);
            spool.second();
            spool.resumes();
        }
        assert!((0..stragglers).all(|n| spool.live.contains(&n)));
        spool.check();
    }
}

#[test]
fn marks_without_end_find_room_on_a_full_disk() {
    // Attempts of messages that stay: nothing is freed by them but what older marks take.
    let mut spool = Spool::new(24, 5_000);
    spool.fill(3);
    let live: Vec<_> = spool.live.iter().copied().collect();
    spool.deliver(live.iter().copied().filter(|n| n % 3 == 0));
    for round in 0..3000_u64 {
        let number = live[round as usize % live.len()];
        let mark = Mark::Attempt { id: id(number), attempts: round as u16, due: common::due(round) };
        spool.commit_marks(vec![mark]);
        spool.keep_house();
    }
    let left: Vec<_> = spool.live.iter().copied().collect();
    spool.deliver(left);
    spool.second();
    spool.resumes();
    spool.check();
}

#[test]
fn marks_one_by_one_find_room_on_a_disk_of_many_small_segments() {
    // As many segments as a segment has pages: a page for each segment that is gone through would eat what is won.
    let mut spool = Spool::new(SEGMENT / PAGE_OCTETS, 2_500);
    spool.fill(3);
    let live: Vec<_> = spool.live.iter().copied().collect();
    for round in 0..500_u64 {
        let mark = Mark::Attempt { id: id(live[round as usize]), attempts: 1, due: common::due(round) };
        spool.commit_marks(vec![mark]);
        spool.keep_house();
    }
    spool.deliver(live[1..].iter().copied());
    spool.second();
    spool.resumes();
    spool.check();
}

/// Mail of all sizes up to a segment, deliveries and attempts in any order, marks one by one and many at a time.
fn any_mail(seed: u64) {
    let mut random = Random::new(seed);
    let size_max = [600, 10_000, 100_000, 240_000][random.below(4) as usize];
    let mut spool = Spool::new(16 + random.below(30) as usize, 300);
    for _ in 0..3 {
        for _ in 0..5 {
            spool.octets = 1 + random.below(size_max) as usize;
            spool.fill(1 + random.below(2) as usize);
        }
        let mut left: Vec<_> = spool.live.iter().copied().collect();
        let stragglers = random.below(4) as usize;
        let many = 1 + random.below(30);
        while left.len() > stragglers {
            let mut marks = Vec::new();
            for _ in 0..(1 + random.below(many)).min(left.len() as u64) {
                let at = random.below(left.len() as u64).max(random.below(3)).min(left.len() as u64 - 1) as usize;
                let number = left[at];
                if random.below(3) == 0 {
                    marks.push(Mark::Attempt { id: id(number), attempts: 1, due: common::due(seed) });
                } else if left.len() > stragglers {
                    left.remove(at);
                    spool.live.remove(&number);
                    marks.push(Mark::Removed { id: id(number) });
                }
            }
            spool.commit_marks(marks);
            spool.keep_house();
            if random.below(60) == 0 {
                let (log, recovery) = open(&spool.disk, seed).expect("opens");
                assert_eq!(recovery.messages.len(), spool.live.len());
                spool.log = log;
            }
        }
        spool.second();
        spool.octets = 5000;
        spool.resumes();
    }
    spool.check();
}

#[test]
fn no_full_disk_is_a_dead_end() {
    for seed in std::env::var("SEED").map_or(0..10, |s| s.parse::<u64>().map(|s| s..s + 1).unwrap()) {
        let result = catch_unwind(|| any_mail(seed));
        assert!(result.is_ok(), "seed {seed}: SEED={seed} cargo test -p spool --test full_disk no_full_disk");
    }
}

#[test]
fn messages_larger_than_a_segment_fill_a_disk_and_leave_it() {
    let mut spool = Spool::new(24, 600_000);
    for _ in 0..4 {
        spool.fill(3);
        let used = spool.disk.octets_used();
        assert!(used < 25 * SEGMENT, "what was refused left nothing: {used}");
        let live: Vec<_> = spool.live.iter().copied().collect();
        assert!(live.len() > 5, "{live:?}");
        spool.deliver(live[..live.len() / 2].iter().copied());
        spool.second();
        spool.resumes();
        let live: Vec<_> = spool.live.iter().copied().collect();
        spool.deliver(live);
        spool.second();
    }
    spool.resumes();
    spool.check();
}

#[test]
fn a_disk_that_others_fill_and_empty() {
    for octets in [300, 5_000, 600_000] {
        let mut spool = Spool::new(64, octets);
        for round in 0..6 {
            for _ in 0..40 {
                let _ = spool.append();
            }
            // Nothing more fits, from one moment to the next.
            let used = spool.disk.octets_used();
            spool.disk.set_octets_max(Some(used + (round % 3) * PAGE_OCTETS));
            spool.fill(3);
            let some: Vec<_> = spool.live.iter().copied().filter(|n| n % 5 == 0).collect();
            spool.deliver(some);
            assert!(spool.disk.octets_used() <= used + 3 * PAGE_OCTETS);
            spool.disk.set_octets_max(Some(used + 32 * SEGMENT + round * SEGMENT));
            spool.resumes();
        }
        spool.check();
    }
}

#[test]
fn a_new_spool_on_a_full_disk_takes_nothing_and_begins_when_there_is_room() {
    for pages in 0..80 {
        let mut spool = Spool::new(0, 300);
        spool.disk.set_octets_max(Some(pages * PAGE_OCTETS));
        for _ in 0..20 {
            if spool.append().is_err() {
                spool.second();
            }
        }
        assert!(spool.disk.octets_used() <= pages * PAGE_OCTETS);
        let live: Vec<_> = spool.live.iter().copied().collect();
        if live.len() > 3 {
            spool.deliver(live[..2].iter().copied());
        }
        spool.disk.set_octets_max(Some(32 * SEGMENT));
        spool.resumes();
        spool.check();
    }
}

#[test]
fn inodes_that_are_out_stop_appends_and_nothing_else() {
    let mut spool = Spool::new(64, 5_000);
    spool.disk.set_octets_max(None);
    spool.disk.set_files_max(Some(9));
    for _ in 0..3 {
        spool.fill(3);
        let live: Vec<_> = spool.live.iter().copied().collect();
        spool.deliver(live[1..].iter().copied());
        spool.second();
        spool.resumes();
    }
    spool.check();
}

#[test]
fn a_restart_on_a_full_disk_finds_its_reserve_and_frees_what_is_dead() {
    let mut spool = Spool::new(24, 5_000);
    spool.fill(3);
    let live: Vec<_> = spool.live.iter().copied().collect();
    spool.deliver(live[..live.len() - 3].iter().copied());
    for life in 0..3 {
        let (log, recovery) = open(&spool.disk, 50 + life).expect("opens");
        assert_eq!(recovery.messages.len(), spool.live.len());
        spool.log = log;
        spool.second();
        let live: Vec<_> = spool.live.iter().copied().collect();
        spool.deliver(live[..1].iter().copied());
        spool.resumes();
        spool.fill(3);
        let live: Vec<_> = spool.live.iter().copied().collect();
        spool.deliver(live[..live.len() - 3].iter().copied());
    }
    spool.check();
}

#[test]
fn what_was_in_doubt_survives_a_large_batch_that_was_refused() {
    let mut spool = Spool::new(64, 300);
    let numbers: Vec<u64> = (0..20).map(|_| spool.append().expect("room")).collect();
    // Killed: the last batch may not be durable.
    (spool.log, _) = open(&spool.disk, 2).expect("opens");
    spool.disk.set_octets_max(Some(spool.disk.octets_used() + SEGMENT));
    let large = sealed(9_999, 1, &body(9_999, 3 * SEGMENT));
    let refused = spool.log.commit(&Batch { appends: vec![vec![large]], marks: vec![] });
    assert!(refused.is_err_and(|error| error.is_full()));
    spool.disk.set_octets_max(None);
    spool.second();
    spool.append().expect("room");
    spool.deliver(numbers[..19].iter().copied());
    spool.second();
    spool.check();
}

#[test]
fn bodies_that_many_share_and_few_still_need_leave_room_for_marks() {
    for (messages, octets) in [(20, 10_000), (7, 3_000), (60, 1_000)] {
        let mut spool = Spool::new(24, octets);
        let mut transactions: Vec<Vec<u64>> = Vec::new();
        while spool.log.accepts_appends().is_ok() {
            let numbers: Vec<u64> = (0..messages).map(|i| spool.next + i).collect();
            spool.next += messages;
            let body = body(numbers[0], octets);
            let transaction = numbers.iter().map(|number| sealed(*number, 1, &body)).collect();
            if spool.log.commit(&Batch { appends: vec![transaction], marks: vec![] }).is_ok() {
                spool.live.extend(&numbers);
                transactions.push(numbers);
            }
            spool.keep_house();
        }
        for numbers in &transactions {
            spool.deliver(numbers[1..].iter().copied());
            spool.second();
        }
        spool.deliver(transactions.iter().map(|numbers| numbers[0]));
        spool.second();
        spool.resumes();
        spool.check();
    }
}

#[test]
fn small_disks_get_small_segments() {
    let octets = |total: u64| Settings::for_disk(total).segment_octets;
    let gibibyte = 1_u64 << 30;
    assert_eq!([0, 64 << 20, 256 << 20, 512 << 20].map(octets), [1 << 20, 1 << 20, 1 << 20, 2 << 20]);
    assert_eq!([16 * gibibyte - 1, 16 * gibibyte, 4000 * gibibyte].map(octets), [63 << 20, 64 << 20, 64 << 20]);
    assert_eq!(Settings::for_disk(gibibyte).compact_margin_octets, 8 * (4 << 20));
    assert_eq!(Settings::default().segment_octets, 64 << 20);
}

#[test]
fn a_spool_of_other_segments_goes_on_working() {
    let disk = FaultDisk::new();
    let settings = |segment_octets: u32| Settings { segment_octets, ..small_settings() };
    let mut live = BTreeSet::new();
    for (life, octets) in [64 << 10, 256 << 10, 128 << 10, 64 << 10, 512 << 10].into_iter().enumerate() {
        let (mut log, recovery) =
            SegmentLog::open(disk.clone(), settings(octets), common::nonces(life as u64)).expect("opens");
        assert_eq!(recovery.messages.len(), live.len());
        for number in 0..200 {
            let number = life as u64 * 1000 + number;
            let message = sealed(number, 1, &body(number, 7_000));
            log.commit(&Batch { appends: vec![vec![message]], marks: vec![] }).expect("a healthy disk");
            live.insert(number);
            let gone = number.saturating_sub(20);
            if live.remove(&gone) {
                let marks = vec![Mark::Removed { id: id(gone) }];
                log.commit(&Batch { appends: vec![], marks }).expect("a healthy disk");
            }
            common::maintain_all(&mut log);
        }
        let stats = log.stats();
        let allowed = 2 * stats.live_octets + small_settings().compact_margin_octets + 8 * u64::from(octets);
        assert!(stats.disk_octets <= allowed, "{octets}: {stats:?}");
        disk.crash(life as u64);
    }
}

const SEGMENT: usize = 256 << 10;
const HOUSEKEEPING_OCTETS: usize = 32 << 10;
