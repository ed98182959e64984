//! The onlooker against recovery: both read the same rules, written twice, and must agree; and what
//! neither can read is told with its place.

mod common;

use common::rig::{Rig, Work};
use common::{body, open, sealed};
use message::MessageId;
use spool::fault::FaultDisk;
use spool::{
    Batch, FaultKind, FileInfo, FileName, Inspection, Mark, Page, ReadPages, RecoveredMessage, SpoolError, SpoolFiles,
    inspect, messages_in,
};
use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex};

fn look(files: &dyn SpoolFiles) -> Inspection {
    inspect(files, common::small_settings().queue_of).expect("looks")
}

/// What recovery brings back of a copy.
fn recovered(disk: &FaultDisk) -> Vec<RecoveredMessage> {
    let (_, recovery) = open(&disk.copy(), 1).expect("opens");
    let mut messages = recovery.messages;
    messages.sort_by_key(|m| (m.place.segment, m.place.offset, m.place.index));
    messages
}

#[test]
fn an_onlooker_finds_what_recovery_finds() {
    let mut live = 0;
    for seed in 0..150 {
        // Nothing is spoilt on the disk: that would be a fault.
        let mut rig = Rig::with(seed, Work { spoils: false, ..Work::default() });
        for step in 0..60 {
            rig.step().expect("no faults");
            if step % 20 == 7 {
                let seen = look(&rig.disk);
                assert_eq!(seen.messages, recovered(&rig.disk), "seed {seed} step {step}, a running spool");
                assert!(seen.is_sound(), "{:?}", seen.faults);
            }
        }
        let cut = rig.disk.copy();
        cut.crash(seed);
        let seen = look(&cut);
        assert_eq!(seen.messages, recovered(&cut), "seed {seed}, after a cut");
        assert!(seen.is_sound(), "a cut is no damage: {:?}", seen.faults);
        assert_eq!(seen.files.iter().map(|f| f.live_messages).sum::<u64>(), seen.messages.len() as u64);
        live += seen.messages.len();
    }
    assert!(live > 1000, "{live} live messages");
}

#[test]
fn they_agree_on_damage_too() {
    let mut faults = 0;
    for seed in 0..150 {
        let mut rig = Rig::new(seed);
        for _ in 0..40 {
            rig.step().expect("no faults");
        }
        let disk = rig.disk.copy();
        let segments: Vec<FileName> =
            look(&disk).files.iter().map(|f| f.name).filter(|n| matches!(n, FileName::Segment(_))).collect();
        for _ in 0..1 + rig.below(4) {
            let file = segments[rig.below(segments.len() as u64) as usize];
            let mut octets = disk.contents(file).expect("there");
            let at = rig.below(octets.len() as u64) as usize;
            octets[at] ^= 1 << rig.below(8);
            disk.set_contents(file, octets);
        }
        // An onlooker believes the log alone: a checkpoint may remember what does not read any more.
        for file in SpoolFiles::list(&disk).expect("lists") {
            if matches!(file.name, FileName::Checkpoint(_)) {
                spool::Disk::remove(&mut disk.clone(), file.name).expect("there");
            }
        }
        let seen = look(&disk);
        assert_eq!(seen.messages, recovered(&disk), "seed {seed}");
        let (_, recovery) = open(&disk.copy(), 1).expect("opens");
        let counted =
            |count: fn(&spool::FileReport) -> u64| seen.files.iter().filter(|f| !f.released).map(count).sum::<u64>();
        assert_eq!(counted(|f| f.damaged_states), recovery.damage.states, "seed {seed}");
        if recovery.damage != spool::Damage::default() && seen.floor <= 1 {
            assert!(!seen.is_sound(), "seed {seed}: {:?}", recovery.damage);
        }
        faults += seen.faults.len();
    }
    assert!(faults > 50, "{faults} faults");
}

/// One segment with three batches of one message each; the octets at which each batch begins.
fn three_batches() -> (FaultDisk, Vec<MessageId>) {
    let disk = FaultDisk::new();
    let (mut log, _) = open(&disk, 1).expect("opens");
    let mut ids = Vec::new();
    for number in 0..3 {
        let message = sealed(number, 2, &body(number, 5000));
        ids.push(message.id);
        let _ = log.commit(&Batch { appends: vec![vec![message]], marks: Vec::new() }).expect("no faults");
    }
    // A second segment vouches for the first.
    let large = sealed(9, 1, &body(9, 100_000));
    ids.push(large.id);
    let _ = log.commit(&Batch { appends: vec![vec![large]], marks: Vec::new() }).expect("no faults");
    (disk, ids)
}

/// Pages of a batch with one message of 5000 octets.
const BATCH_PAGES: usize = 2;
const PAGE: usize = 4096;

fn flip(disk: &FaultDisk, at: usize) {
    let file = FileName::Segment(1);
    let mut octets = disk.contents(file).expect("there");
    octets[at] ^= 1;
    disk.set_contents(file, octets);
}

/// Ids of what stands whole in segment 1, and which of them recovery knows.
fn standing(disk: &FaultDisk) -> (Vec<MessageId>, Vec<MessageId>) {
    let (mut whole, mut known) = (Vec::new(), Vec::new());
    let report = look(disk).files[0].clone();
    let file = FileInfo { name: report.name, octets: report.octets };
    let faults = messages_in(disk, &file, report.acknowledged_octets, &mut |s| {
        if s.body.is_some() && s.head.is_some() && s.envelope.is_some() {
            whole.push(s.id);
        }
        if s.known {
            known.push(s.id);
        }
    });
    assert!(faults.is_some());
    (whole, known)
}

#[test]
fn a_lost_batch_header_does_not_hide_the_message_from_salvage() {
    let (disk, ids) = three_batches();
    assert_eq!(standing(&disk), (ids[..3].to_vec(), ids[..3].to_vec()));
    flip(&disk, PAGE * (1 + BATCH_PAGES) + 20);
    let seen = look(&disk);
    let live: Vec<_> = seen.messages.iter().map(|m| m.id).collect();
    assert_eq!(live, [ids[0], ids[2], ids[3]]);
    assert_eq!(seen.faults.len(), 1);
    let fault = &seen.faults[0];
    assert_eq!((fault.file, fault.offset, fault.octets), (FileName::Segment(1), 3 * 4096, 2 * 4096));
    assert_eq!(fault.what, FaultKind::Batch);
    let (whole, known) = standing(&disk);
    assert_eq!(whole, ids[..3], "all three read");
    assert_eq!(known, [ids[0], ids[2]], "recovery does not know the second");
}

#[test]
fn a_lost_record_header_does_not_hide_those_behind_it() {
    let disk = FaultDisk::new();
    let (mut log, _) = open(&disk, 1).expect("opens");
    let appends: Vec<_> = (0..3).map(|n| vec![sealed(n, 1, &body(n, 1000))]).collect();
    let _ = log.commit(&Batch { appends, marks: Vec::new() }).expect("no faults");
    let large = sealed(9, 1, &body(9, 100_000));
    let _ = log.commit(&Batch { appends: vec![vec![large]], marks: Vec::new() }).expect("no faults");
    // The reserved octet of the first record's header.
    flip(&disk, PAGE + 64 + 1);
    let live: Vec<_> = look(&disk).messages.iter().map(|m| m.id).collect();
    assert_eq!(live, [common::id(9)], "recovery cannot know where the next one begins");
    let (whole, known) = standing(&disk);
    assert_eq!(whole, [common::id(1), common::id(2)]);
    assert_eq!(known, []);
}

#[test]
fn a_body_that_does_not_read_is_said_to() {
    let (disk, ids) = three_batches();
    flip(&disk, PAGE * (2 + BATCH_PAGES) + 100);
    let (whole, known) = standing(&disk);
    assert_eq!(whole, [ids[0], ids[2]]);
    assert_eq!(known, [ids[0], ids[2]]);
    let seen = look(&disk);
    assert_eq!((seen.files[0].damaged_batches, seen.files[0].damaged_records), (1, 1));
    assert!(!seen.is_sound());
}

#[test]
fn a_missing_segment_is_told() {
    let disk = FaultDisk::new();
    let (mut log, _) = open(&disk, 1).expect("opens");
    for number in 0..3 {
        let large = sealed(number, 1, &body(number, 60_000));
        let _ = log.commit(&Batch { appends: vec![vec![large]], marks: Vec::new() }).expect("no faults");
    }
    assert!(look(&disk).is_sound());
    let mut disk = disk.copy();
    spool::Disk::remove(&mut disk, FileName::Segment(2)).expect("there");
    let seen = look(&disk);
    assert!(!seen.is_sound());
    assert_eq!((seen.faults[0].file, &seen.faults[0].what), (FileName::Segment(2), &FaultKind::Missing));
}

#[test]
fn an_unreadable_page_hides_nothing_else() {
    let (disk, ids) = three_batches();
    let bad = BadPages { disk, file: FileName::Segment(1), pages: [3].into() };
    let seen = look(&bad);
    assert_eq!(seen.messages.iter().map(|m| m.id).collect::<Vec<_>>(), [ids[0], ids[2], ids[3]]);
    assert_eq!(seen.files[0].unreadable_pages, 1);
    assert!(seen.faults.iter().any(|f| f.offset == 3 * 4096 && matches!(f.what, FaultKind::Unreadable(_))));
    let (disk, ids) = three_batches();
    let seen = look(&BadPages { disk, file: FileName::Segment(1), pages: [0].into() });
    assert_eq!(seen.messages.len(), ids.len(), "the first batch tells what the header page would");
    assert_eq!((seen.files[0].unreadable_pages, seen.files[0].damaged_headers), (1, 1));
    assert!(!seen.is_sound());
}

#[test]
fn a_batch_that_was_being_written_is_no_damage() {
    let (disk, ids) = three_batches();
    let mut disk = disk.copy();
    spool::Disk::remove(&mut disk, FileName::Segment(2)).expect("there");
    flip(&disk, PAGE * (2 + 2 * BATCH_PAGES) + 1000);
    let seen = look(&disk);
    assert_eq!(seen.messages.iter().map(|m| m.id).collect::<Vec<_>>(), ids[..2]);
    assert_eq!(seen.messages, recovered(&disk));
    assert!(seen.is_sound(), "{:?}", seen.faults);
    assert_eq!(seen.files[0].torn_tail_octets, (BATCH_PAGES * PAGE) as u64);
}

/// A disk on which some pages of a file do not read.
struct BadPages {
    disk: FaultDisk,
    file: FileName,
    pages: BTreeSet<u32>,
}

impl ReadPages for BadPages {
    fn read_at(&self, file: FileName, at: u32, into: &mut [Page]) -> io::Result<usize> {
        let wanted = at..at + into.len() as u32;
        if file == self.file && self.pages.iter().any(|page| wanted.contains(page)) {
            return Err(io::Error::from_raw_os_error(5));
        }
        self.disk.read_at(file, at, into)
    }
}

impl SpoolFiles for BadPages {
    fn list(&self) -> io::Result<Vec<FileInfo>> {
        SpoolFiles::list(&self.disk)
    }
}

/// A spool whose owner does something at each read: what an onlooker of a running one meets.
struct Running<F: FnMut()> {
    disk: FaultDisk,
    at_each_read: Mutex<F>,
}

impl<F: FnMut() + Send> ReadPages for Running<F> {
    fn read_at(&self, file: FileName, at: u32, into: &mut [Page]) -> io::Result<usize> {
        // Opened before the owner moves on, read after: what was a segment may be a spare by now.
        self.disk.read_at(file, 0, &mut Page::zeros(1))?;
        (self.at_each_read.lock().expect("no panic"))();
        match self.disk.read_at(file, at, into) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                spool::octets_mut(into).fill(0);
                Ok(into.len() * PAGE)
            }
            answer => answer,
        }
    }
}

impl<F: FnMut() + Send> SpoolFiles for Running<F> {
    fn list(&self) -> io::Result<Vec<FileInfo>> {
        SpoolFiles::list(&self.disk)
    }
}

#[test]
fn messages_that_move_while_they_are_looked_at_are_not_missed() {
    let mut slipped = 0;
    for seed in 0..100 {
        let disk = FaultDisk::new();
        let (mut log, _) = open(&disk, seed).expect("opens");
        let mut random = common::Random::new(seed);
        // Stays for ever, moves with every compaction.
        let stay: Vec<_> = (0..5).map(|n| sealed(n, 1, &body(n, 500))).collect();
        let stays: BTreeSet<MessageId> = stay.iter().map(|s| s.id).collect();
        let _ = log.commit(&Batch { appends: stay.into_iter().map(|s| vec![s]).collect(), marks: Vec::new() });
        let mut next = 100;
        let mut step = move || {
            let flow = sealed(next, 1, &body(next, 20_000));
            let marks = if next > 102 { vec![Mark::Removed { id: common::id(next - 2) }] } else { Vec::new() };
            let _ = log.commit(&Batch { appends: vec![vec![flow]], marks }).expect("no faults");
            next += 1;
            while log.maintain(30_000).expect("no faults").has_more() {}
        };
        (0..20).for_each(|_| step());
        let budget = Arc::new(Mutex::new(random.below(40)));
        let left = Arc::clone(&budget);
        let at_each_read = Mutex::new(move || {
            let mut left = left.lock().expect("no panic");
            if *left > 0 && random.below(3) == 0 {
                *left -= 1;
                step();
            }
        });
        let running = Running { disk, at_each_read };
        match inspect(&running, |_, _| String::new()) {
            Ok(seen) => {
                let found: BTreeSet<MessageId> = seen.messages.iter().map(|m| m.id).collect();
                assert!(found.is_superset(&stays), "seed {seed}: {:?} of {stays:?}", found);
                assert!(found.len() <= stays.len() + 44, "removed ones are gone: {}", found.len());
                assert!(seen.is_sound(), "seed {seed}: {:?}", seen.faults);
                slipped += seen.released_meanwhile;
            }
            Err(error) => assert_eq!(error, SpoolError::Busy),
        }
    }
    assert!(slipped > 30, "{slipped} segments slipped away");
}

#[test]
fn a_batch_that_was_half_written_at_the_first_look_counts_at_the_second() {
    let (disk, ids) = three_batches();
    let whole = disk.contents(FileName::Segment(1)).expect("there");
    let mut half = whole.clone();
    half[PAGE * (2 + 2 * BATCH_PAGES)..].fill(0);
    disk.set_contents(FileName::Segment(1), half);
    let later = disk.copy();
    spool::Disk::remove(&mut disk.clone(), FileName::Segment(2)).expect("there");
    // The first segment slips away once, so that a second pass is needed; by then the batch is whole.
    let (front, reads) = (disk.clone(), Arc::new(Mutex::new(0)));
    let count = Arc::clone(&reads);
    let at_each_read = Mutex::new(move || {
        let mut reads = count.lock().expect("no panic");
        *reads += 1;
        if *reads == LOOKED_AT {
            front.set_contents(FileName::Segment(1), whole.clone());
            front.set_contents(FileName::Segment(2), later.contents(FileName::Segment(2)).expect("there"));
            spool::Disk::remove(&mut front.clone(), FileName::Segment(3)).expect("there");
        }
    });
    // A segment that goes away while it is read.
    disk.set_contents(FileName::Segment(3), vec![0; 2 * PAGE]);
    let seen = look(&Running { disk, at_each_read });
    assert_eq!(seen.messages.iter().map(|m| m.id).collect::<Vec<_>>(), ids);
    assert!(seen.is_sound() && seen.released_meanwhile == 1, "{seen:?}");
}

/// The read of segment 3, behind two for each header and two for the walk through segment 1.
const LOOKED_AT: u32 = 7;

#[test]
fn a_segment_whose_name_came_back_brings_nobody_back() {
    let disk = FaultDisk::new();
    let (mut log, _) = open(&disk, 1).expect("opens");
    let mut commit = |n: u64, removed: &[u64]| {
        let marks = removed.iter().map(|n| Mark::Removed { id: common::id(*n) }).collect();
        let appends = vec![vec![sealed(n, 1, &body(n, 60_000))]];
        let _ = log.commit(&Batch { appends, marks }).expect("no faults");
        while log.maintain(1 << 20).expect("no faults").has_more() {}
    };
    // One segment each; the removal of the first is noted in the third.
    commit(1, &[]);
    commit(2, &[]);
    let old = [1, 2].map(|n| (FileName::Segment(n), disk.contents(FileName::Segment(n)).expect("there")));
    commit(3, &[1]);
    commit(4, &[2, 3]);
    assert!(look(&disk).files.iter().all(|f| f.name > FileName::Segment(3)), "three are released");
    old.into_iter().for_each(|(name, octets)| disk.set_contents(name, octets));
    let seen = look(&disk);
    assert_eq!(seen.messages.iter().map(|m| m.id).collect::<Vec<_>>(), [common::id(4)]);
    assert_eq!(seen.messages, recovered(&disk));
    assert!(seen.files[0].released && seen.is_sound(), "{:?}", seen.faults);
}
