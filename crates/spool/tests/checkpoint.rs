//! Checkpoints: whatever happens while one is written, and whatever becomes of it, a start from it and a start from the
//! log alone find the same. A failure prints its seed.

mod common;

use common::rig::{self, Rig};
use common::{body, checkpoints, due, from_log_alone, id, open, sealed, small_settings};
use spool::fault::{Call, Fault, FaultDisk};
use spool::{Batch, Damage, Disk, FileName, Mark, PAGE_OCTETS, Recovery, SegmentLog, Settings, Work};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Opens copies of the disk with and without its checkpoints and compares; the former's recovery.
fn same_from_the_log(disk: &FaultDisk) -> Recovery {
    let (with, from_checkpoint) = open(&disk.copy(), 5).expect("a healthy disk opens");
    let (without, from_log) = from_log_alone(disk);
    assert_eq!((from_checkpoint.damage, from_log.damage), (Damage::default(), Damage::default()));
    for (a, b) in from_checkpoint.messages.iter().zip(&from_log.messages) {
        assert_eq!(a, b);
    }
    assert_eq!(from_checkpoint.messages.len(), from_log.messages.len());
    let figures = |log: &SegmentLog<FaultDisk>| {
        let stats = log.stats();
        (stats.live_messages, stats.live_octets, stats.segments, stats.labels)
    };
    assert_eq!(figures(&with), figures(&without));
    assert_eq!(from_log.checkpoint, None);
    from_checkpoint
}

/// Random work, faults and ends; how many starts found a checkpoint of use.
fn run(seed: u64) -> usize {
    let mut rig = Rig::with(seed, rig::Work { spoils: false, ..rig::Work::default() });
    for life in 0..4 {
        let steps = rig.below(40);
        for _ in 0..steps {
            if rig.below(12) == 0 {
                let call = [Call::Create, Call::Write, Call::Sync, Call::Rename, Call::Remove][rig.below(5) as usize];
                let (at, sticky) = (1 + rig.below(6), rig.below(3) == 0);
                rig.disk.inject(Fault { call: Some(call), at, sticky, errno: 5 }, seed);
            }
            if rig.step().is_err() && rig.below(2) == 0 {
                rig.disk.heal();
            }
        }
        if rig.below(3) == 0 {
            // It may fail; then it must not have done harm.
            let _ = rig.finish();
        }
        rig.stop();
        if rig.below(3) > 0 {
            rig.disk.crash(seed * 11 + life);
        } else {
            rig.disk.heal();
        }
        same_from_the_log(&rig.disk);
        match rig.below(4) {
            // The power fails again before anything is adopted, or soon after.
            0 => {
                rig.step().expect("a healthy disk begins");
                rig.crash(seed * 13 + life);
            }
            1 => continue,
            _ => {}
        }
        rig.opened().expect("a healthy disk opens");
    }
    rig.from_checkpoints
}

#[test]
fn three_thousand_histories_are_the_same_from_checkpoint_and_log() {
    let mut from_checkpoints = 0;
    for seed in std::env::var("SEED").map_or(0..3000, |s| s.parse::<u64>().map(|s| s..s + 1).unwrap()) {
        let result = catch_unwind(AssertUnwindSafe(|| run(seed)));
        from_checkpoints += result.unwrap_or_else(|_| panic!("seed {seed}"));
    }
    assert!(from_checkpoints > 3000, "{from_checkpoints} starts from a checkpoint");
}

/// A disk with a checkpoint of several chunks and a tail of log behind it: messages 0 to 299, some settled in part, some tried, some
/// gone; then 300 to 309 and more marks.
fn with_checkpoint() -> FaultDisk {
    let disk = FaultDisk::new();
    let (mut log, _) = open(&disk, 1).expect("a new spool");
    append(&mut log, 0..300);
    let tried = (0..300).step_by(7).map(|n| Mark::Attempt { id: id(n), attempts: n as u16, due: due(n + 1) });
    let settled = (0..300).step_by(5).map(|n| Mark::RecipientsDone { id: id(n), recipients: vec![1, 69] });
    let removed = (0..300).step_by(11).map(|n| Mark::Removed { id: id(n) });
    mark(&mut log, tried.chain(settled).chain(removed));
    log.finish().expect("a healthy disk");
    append(&mut log, 300..310);
    mark(&mut log, (1..300).step_by(9).map(|n| Mark::Removed { id: id(n) }));
    assert_eq!(checkpoints(&disk), [FileName::Checkpoint(1)]);
    disk
}

fn append(log: &mut SegmentLog<FaultDisk>, numbers: std::ops::Range<u64>) {
    let appends = numbers.map(|n| vec![sealed(n, 70, &body(n, 20))]).collect();
    let _ = log.commit(&Batch { appends, marks: vec![] }).expect("a healthy disk");
}

fn mark(log: &mut SegmentLog<FaultDisk>, marks: impl Iterator<Item = Mark>) {
    let _ = log.commit(&Batch { appends: vec![], marks: marks.collect() }).expect("a healthy disk");
}

#[test]
fn a_checkpoint_damaged_anywhere_is_passed_over() {
    let disk = with_checkpoint();
    let expected = same_from_the_log(&disk);
    assert_eq!((expected.checkpoint, expected.checkpoints_ignored), (Some(1), 0));
    let file = FileName::Checkpoint(1);
    let whole = disk.contents(file).expect("there");
    assert!(whole.len() > 4 * PAGE_OCTETS, "{} octets", whole.len());
    let mut random = common::Random::new(3);
    let mut used = 0;
    for page in 0..whole.len() / PAGE_OCTETS {
        for _ in 0..20 {
            let mut octets = whole.clone();
            octets[page * PAGE_OCTETS + random.below(PAGE_OCTETS as u64) as usize] ^= 1 << random.below(8);
            disk.set_contents(file, octets);
            used += usize::from(passes_over(&disk, &expected));
        }
        disk.set_contents(file, whole[..page * PAGE_OCTETS].to_vec());
        assert!(!passes_over(&disk, &expected), "cut at page {page}");
        disk.set_contents(file, whole.clone());
        disk.set_unreadable(file, page..page + 1);
        assert!(!passes_over(&disk, &expected), "page {page} does not read");
        disk.set_contents(file, whole.clone());
    }
    // Padding and the reserved part of the header page mean nothing.
    assert!(used < 60, "{used} damaged checkpoints were used");
}

/// Whether the checkpoint was used all the same; what is found is the same in any case.
fn passes_over(disk: &FaultDisk, expected: &Recovery) -> bool {
    let (_, recovery) = open(&disk.copy(), 9).expect("a checkpoint never keeps a log from opening");
    assert!(recovery.messages == expected.messages && recovery.damage == Damage::default());
    assert_eq!(recovery.checkpoints_ignored, usize::from(recovery.checkpoint.is_none()));
    recovery.checkpoint.is_some()
}

#[test]
fn of_two_checkpoints_the_newer_counts_and_the_older_serves_when_it_is_damaged() {
    let disk = with_checkpoint();
    let first = disk.contents(FileName::Checkpoint(1)).expect("there");
    let (mut log, _) = open(&disk, 2).expect("opens");
    append(&mut log, 400..500);
    mark(&mut log, (300..450).step_by(2).map(|n| Mark::Removed { id: id(n) }));
    log.finish().expect("a healthy disk");
    assert_eq!(checkpoints(&disk), [FileName::Checkpoint(2)], "the older one is removed");
    append(&mut log, 500..510);
    drop(log);
    // As after a cut between the two changes of names.
    disk.set_contents(FileName::Checkpoint(1), first);
    let expected = same_from_the_log(&disk);
    assert_eq!((expected.checkpoint, expected.checkpoints_ignored), (Some(2), 0));
    let mut octets = disk.contents(FileName::Checkpoint(2)).expect("there");
    octets[PAGE_OCTETS + 100] ^= 1;
    disk.set_contents(FileName::Checkpoint(2), octets);
    let older = same_from_the_log(&disk);
    assert_eq!((older.checkpoint, older.checkpoints_ignored), (Some(1), 1));
    assert!(older.replayed_octets > expected.replayed_octets);
    // Both go with the next one.
    let (mut log, _) = open(&disk, 3).expect("opens");
    append(&mut log, 600..601);
    log.finish().expect("a healthy disk");
    assert_eq!(checkpoints(&disk), [FileName::Checkpoint(3)]);
}

#[test]
fn a_checkpoint_as_old_as_can_be_serves_after_all_its_segments_are_gone() {
    let disk = with_checkpoint();
    let first = disk.contents(FileName::Checkpoint(1)).expect("there");
    let (mut log, _) = open(&disk, 2).expect("opens");
    mark(&mut log, (0..310).map(|n| Mark::Removed { id: id(n) }));
    for number in 1000..1040 {
        let appends = vec![vec![sealed(number, 1, &body(number, 9000))]];
        let _ = log.commit(&Batch { appends, marks: vec![] }).expect("a healthy disk");
        if number % 10 != 0 {
            mark(&mut log, [Mark::Removed { id: id(number) }].into_iter());
        }
        common::maintain_all(&mut log);
    }
    assert!(disk.contents(FileName::Segment(1)).is_none() && log.stats().octets_compacted > 0);
    drop(log);
    for file in checkpoints(&disk) {
        let mut disk = disk.clone();
        disk.remove(file).expect("there");
    }
    disk.set_contents(FileName::Checkpoint(1), first);
    let recovery = same_from_the_log(&disk);
    assert_eq!((recovery.checkpoint, recovery.messages.len()), (Some(1), 4));
}

#[test]
fn a_checkpoint_of_another_spool_is_passed_over() {
    let (ours, theirs) = (with_checkpoint(), FaultDisk::new());
    let (mut log, _) = open(&theirs, 99).expect("a new spool");
    append(&mut log, 7000..7010);
    drop(log);
    theirs.set_contents(FileName::Checkpoint(1), ours.contents(FileName::Checkpoint(1)).expect("there"));
    let (_, recovery) = open(&theirs, 4).expect("opens");
    assert_eq!((recovery.checkpoint, recovery.checkpoints_ignored, recovery.messages.len()), (None, 1, 10));
    assert_eq!(recovery.damage, Damage::default());
}

#[test]
fn a_checkpoint_of_another_spool_says_nothing_of_where_this_one_ends() {
    let (ours, theirs) = (FaultDisk::new(), FaultDisk::new());
    for (disk, seed, messages) in [(&ours, 1, 1), (&theirs, 99, 8)] {
        let (mut log, _) = open(disk, seed).expect("a new spool");
        append(&mut log, 0..messages);
        log.finish().expect("a healthy disk");
    }
    let places = [&ours, &theirs].map(|disk| same_from_the_log(disk).messages.pop().expect("some").place);
    assert!(
        places[0].segment == places[1].segment && places[1].offset as usize > places[0].offset as usize + PAGE_OCTETS
    );
    ours.set_contents(FileName::Checkpoint(1), theirs.contents(FileName::Checkpoint(1)).expect("there"));
    let (_, recovery) = open(&ours, 4).expect("opens");
    assert_eq!((recovery.checkpoint, recovery.messages.len(), recovery.damage), (None, 1, Damage::default()));
}

#[test]
fn a_checkpoint_that_does_not_name_its_segment_is_used_as_ever() {
    let disk = with_checkpoint();
    let expected = same_from_the_log(&disk);
    let mut octets = disk.contents(FileName::Checkpoint(1)).expect("there");
    assert_ne!(octets[SEGMENT_NONCE], [0; 8]);
    octets[SEGMENT_NONCE].fill(0);
    let crc = crc32fast::hash(&octets[..60]).to_le_bytes();
    octets[60..64].copy_from_slice(&crc);
    disk.set_contents(FileName::Checkpoint(1), octets);
    assert!(passes_over(&disk, &expected), "it was not used");
    same_from_the_log(&disk);
}

/// Where in its header a checkpoint says which file its position is in.
const SEGMENT_NONCE: std::ops::Range<usize> = 44..52;

#[test]
fn a_checkpoint_of_a_newer_version_is_passed_over() {
    let disk = with_checkpoint();
    let expected = same_from_the_log(&disk);
    let mut octets = disk.contents(FileName::Checkpoint(1)).expect("there");
    octets[8] = 2;
    let crc = crc32fast::hash(&octets[..60]).to_le_bytes();
    octets[60..64].copy_from_slice(&crc);
    disk.set_contents(FileName::Checkpoint(1), octets);
    assert!(!passes_over(&disk, &expected));
}

#[test]
fn messages_whose_segment_is_gone_are_damage_unless_it_is_set_aside() {
    let disk = with_checkpoint();
    let found = same_from_the_log(&disk).messages;
    let lost = found.iter().filter(|m| m.place.segment == 1).count();
    assert!(lost > 0 && lost < found.len());
    let first = disk.contents(FileName::Segment(1)).expect("there");
    disk.clone().remove(FileName::Segment(1)).expect("there");
    let (_, recovery) = open(&disk.copy(), 4).expect("opens");
    assert_eq!((recovery.damage.missing, recovery.messages.len()), (lost as u64, found.len() - lost));
    disk.set_contents(FileName::Aside(1, 0), first);
    let (_, recovery) = open(&disk.copy(), 4).expect("opens");
    assert_eq!((recovery.damage, recovery.messages.len()), (Damage::default(), found.len() - lost));
}

#[test]
fn what_moves_and_changes_while_a_checkpoint_is_written_is_right_after_it() {
    let disk = FaultDisk::new();
    // Steps of one page; the checkpoint is due at once and again only much later.
    let settings = Settings { checkpoint_octets: 200_000, checkpoint_factor: 0, ..small_settings() };
    let (mut log, _) = SegmentLog::open(disk.clone(), settings, common::nonces(1)).expect("a new spool");
    for number in 0..400 {
        let appends = vec![vec![sealed(number, 3, &body(number, 500))]];
        let _ = log.commit(&Batch { appends, marks: vec![] }).expect("a healthy disk");
    }
    let (mut steps, mut moved) = (0, 0);
    while log.stats().checkpoints == 0 {
        let done = log.maintain(PAGE_OCTETS).expect("a healthy disk");
        moved += u64::from(done.work == Work::Compacted);
        steps += u64::from(done.work == Work::Checkpointed);
        // Behind and in front of where the writing is: gone, changed, new in a slot that was freed.
        let n = steps * 17 % 400;
        let marks = [n, 399 - n].into_iter().flat_map(|n| {
            let settled = Mark::RecipientsDone { id: id(n), recipients: vec![2] };
            [
                settled,
                Mark::Attempt { id: id(n), attempts: steps as u16, due: due(steps) },
                Mark::Removed { id: id(n ^ 1) },
            ]
        });
        mark(&mut log, marks);
        append(&mut log, 1000 + steps..1001 + steps);
        assert!(steps < 1000);
    }
    assert!(steps > 5, "{steps} steps, {moved} batches of survivors");
    drop(log);
    let recovery = same_from_the_log(&disk);
    assert!(recovery.checkpoint.is_some());
}

#[test]
fn the_end_of_a_run_writes_a_checkpoint_and_the_next_reads_nothing_else() {
    let disk = with_checkpoint();
    let (mut log, _) = open(&disk, 2).expect("opens");
    log.finish().expect("nothing to write");
    assert_eq!(checkpoints(&disk), [FileName::Checkpoint(1)], "nothing was committed");
    append(&mut log, 700..701);
    log.finish().expect("a healthy disk");
    log.finish().expect("nothing to write");
    assert_eq!(checkpoints(&disk), [FileName::Checkpoint(2)]);
    drop(log);
    let recovery = same_from_the_log(&disk);
    assert_eq!((recovery.checkpoint, recovery.replayed_octets), (Some(2), 0));
    // An empty log forgets what the last checkpoint says.
    let (mut log, found) = open(&disk, 3).expect("opens");
    mark(&mut log, found.messages.iter().map(|m| Mark::Removed { id: m.id }));
    log.finish().expect("a healthy disk");
    let recovery = same_from_the_log(&disk);
    assert_eq!((recovery.checkpoint, recovery.messages.len(), recovery.replayed_octets), (Some(3), 0, 0));
}

#[test]
fn what_a_checkpoint_says_is_acknowledged_is_damage_when_neither_reads() {
    let disk = FaultDisk::new();
    let (mut log, _) = open(&disk, 1).expect("a new spool");
    append(&mut log, 0..3);
    append(&mut log, 3..4);
    log.finish().expect("a healthy disk");
    drop(log);
    let last = same_from_the_log(&disk).messages[3].place;
    let file = FileName::Segment(last.segment);
    let mut octets = disk.contents(file).expect("there");
    let page = last.offset as usize / PAGE_OCTETS * PAGE_OCTETS;
    octets[page..page + PAGE_OCTETS].fill(0);
    disk.set_contents(file, octets);
    let mut octets = disk.contents(FileName::Checkpoint(1)).expect("there");
    octets[PAGE_OCTETS + 100] ^= 1;
    disk.set_contents(FileName::Checkpoint(1), octets);
    let (mut log, recovery) = open(&disk, 2).expect("opens");
    assert_eq!((recovery.checkpoint, recovery.messages.len(), recovery.damage.batches), (None, 3, 1));
    // What comes is never taken for what does not read.
    append(&mut log, 5..6);
    drop(log);
    let (_, recovery) = open(&disk, 3).expect("opens");
    assert_eq!((recovery.messages.len(), recovery.damage.batches), (4, 1));
}
