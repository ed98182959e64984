//! Cuts, flips and stale octets at every position, and files of other versions: recovery gives
//! back exactly what is whole, counts the rest and deletes nothing.

mod common;

use common::{body, due, id, maintain_all, open, pending, resident, sealed};
use message::MessageId;
use spool::fault::FaultDisk;
use spool::{Batch, Disk, FileName, Mark, PAGE_OCTETS, Recovery, SegmentLog, SpoolError};

const FIRST: FileName = FileName::Segment(1);

fn append(log: &mut SegmentLog<FaultDisk>, numbers: &[u64], octets: usize) -> Vec<spool::Durable> {
    let appends = numbers.iter().map(|n| vec![sealed(*n, 2, &body(*n, octets))]).collect();
    log.commit(&Batch { appends, marks: Vec::new() }).expect("a healthy disk")
}

fn remove(log: &mut SegmentLog<FaultDisk>, numbers: impl IntoIterator<Item = u64>) {
    let marks = numbers.into_iter().map(|n| Mark::Removed { id: id(n) }).collect();
    assert!(log.commit(&Batch { appends: Vec::new(), marks }).expect("a healthy disk").is_empty());
}

fn ids(recovery: &Recovery) -> Vec<MessageId> {
    recovery.messages.iter().map(|m| m.id).collect()
}

/// A disk with three batches in its only segment: 1, 2 and 3, 4 and 5. With the octets where the
/// last one begins and where its padding does.
fn three_batches() -> (FaultDisk, usize, usize) {
    let disk = FaultDisk::new();
    let (mut log, _) = open(&disk, 1).expect("a new spool");
    append(&mut log, &[1], 5000);
    append(&mut log, &[2, 3], 3000);
    let begin = log.stats().octets_written as usize;
    append(&mut log, &[4, 5], 1400);
    let octets = disk.contents(FIRST).expect("there");
    let length = octets[begin + 32..begin + 36].try_into().expect("four octets");
    let end = begin + u32::from_le_bytes(length) as usize;
    assert!(begin.is_multiple_of(PAGE_OCTETS) && end - begin < PAGE_OCTETS, "one page: {begin} {end}");
    (disk, begin, end)
}

#[test]
fn the_last_batch_cut_anywhere_leaves_the_prefix() {
    let (disk, begin, end) = three_batches();
    let whole = disk.contents(FIRST).expect("there");
    for cut in begin..=begin + PAGE_OCTETS {
        let disk = disk.copy();
        disk.set_contents(FIRST, whole[..cut].to_vec());
        let (_, recovery) = open(&disk, 2).expect("opens");
        let expected: &[u64] = if cut < end { &[1, 2, 3] } else { &[1, 2, 3, 4, 5] };
        assert_eq!(ids(&recovery), expected.iter().map(|n| id(*n)).collect::<Vec<_>>(), "cut at {cut}");
        assert_eq!(recovery.damage, spool::Damage::default(), "a torn tail is no damage");
    }
}

#[test]
fn any_flipped_bit_of_the_last_batch_leaves_the_prefix() {
    let (disk, begin, end) = three_batches();
    let whole = disk.contents(FIRST).expect("there");
    for at in begin..begin + PAGE_OCTETS {
        for bit in 0..8 {
            let mut octets = whole.clone();
            octets[at] ^= 1 << bit;
            let disk = FaultDisk::new();
            disk.set_contents(FIRST, octets);
            let (_, recovery) = open(&disk, 2).expect("opens");
            let expected = if at < end { 3 } else { 5 };
            assert_eq!(recovery.messages.len(), expected, "octet {at} bit {bit}");
        }
    }
}

#[test]
fn a_damaged_batch_in_the_middle_costs_itself_only_and_is_kept() {
    let (disk, _, _) = three_batches();
    let mut octets = disk.contents(FIRST).expect("there");
    // In the body of message 1: its record is lost, the batches behind it are not.
    octets[PAGE_OCTETS + 2000] ^= 1;
    disk.set_contents(FIRST, octets.clone());
    let (mut log, recovery) = open(&disk, 2).expect("opens");
    assert_eq!(ids(&recovery), [id(2), id(3), id(4), id(5)]);
    assert_eq!((recovery.damage.batches, recovery.damage.octets), (1, 2 * PAGE_OCTETS as u64));
    // Once all else in it is gone, the segment is moved aside as it is.
    remove(&mut log, 2..6);
    maintain_all(&mut log);
    assert_eq!(log.stats().set_aside, 1);
    assert_eq!(disk.contents(FileName::Aside(1, 0)), Some(octets));
    drop(log);
    let (_, recovery) = open(&disk, 3).expect("opens");
    assert_eq!((recovery.set_aside, recovery.messages.len()), (1, 0));
}

#[test]
fn the_sound_records_of_a_damaged_batch_are_used() {
    let (disk, begin, _) = three_batches();
    let mut octets = disk.contents(FIRST).expect("there");
    // The second batch holds 2 and 3; the last octet of its records belongs to 3.
    let last = octets[..begin].iter().rposition(|o| *o != 0).expect("not empty") - 100;
    octets[last] ^= 0x40;
    disk.set_contents(FIRST, octets);
    let (_, recovery) = open(&disk, 2).expect("opens");
    assert_eq!(ids(&recovery), [id(1), id(2), id(4), id(5)]);
    assert_eq!(recovery.damage.batches, 1);
}

#[test]
fn a_damaged_header_page_costs_nothing() {
    let (disk, _, _) = three_batches();
    for at in 0..64 {
        let disk = disk.copy();
        let mut octets = disk.contents(FIRST).expect("there");
        octets[at] ^= 1;
        disk.set_contents(FIRST, octets);
        let (_, recovery) = open(&disk, 2).expect("opens");
        assert_eq!((recovery.messages.len(), recovery.damage.headers), (5, 1), "octet {at}");
    }
}

#[test]
fn a_segment_that_is_gone_takes_nothing_else_with_it() {
    let disk = FaultDisk::new();
    // Each life opens a segment of its own.
    for life in 1..=4 {
        let (mut log, _) = open(&disk, life).expect("opens");
        append(&mut log, &[life * 10, life * 10 + 1], 2000);
        append(&mut log, &[life * 10 + 2], 2000);
    }
    let segments: Vec<FileName> = (1..=4).map(FileName::Segment).collect();
    assert!(segments.iter().all(|name| disk.contents(*name).is_some()));
    disk.clone().remove(segments[2]).expect("there");
    let (_, recovery) = common::from_log_alone(&disk);
    let found = ids(&recovery);
    for number in [10, 11, 12, 20, 21] {
        assert!(found.contains(&id(number)), "{number} was in a segment that is there: {found:?}");
    }
}

#[test]
fn an_envelope_that_does_not_decode_is_kept_out_and_counted() {
    // A state from the future inside a sound record: made by patching and computing the crcs anew.
    let disk = FaultDisk::new();
    let (mut log, _) = open(&disk, 1).expect("a new spool");
    append(&mut log, &[1], 10);
    append(&mut log, &[2], 10);
    let mut octets = disk.contents(FIRST).expect("there");
    let (record, table) = (PAGE_OCTETS + 64, PAGE_OCTETS + 96);
    let number = |octets: &[u8], at: usize| u32::from_le_bytes(octets[at..at + 4].try_into().expect("four")) as usize;
    let state = table + 48;
    octets[state] = 99;
    let put = |octets: &mut Vec<u8>, at: usize, crc: u32| octets[at..at + 4].copy_from_slice(&crc.to_le_bytes());
    let state_crc = crc32fast::hash(&octets[state..state + number(&octets, table + 32)]);
    put(&mut octets, table + 36, state_crc);
    let covered = [&octets[record..record + 4], &octets[record + 8..state]].concat();
    put(&mut octets, record + 4, crc32fast::hash(&covered));
    let records_crc = crc32fast::hash(&octets[record + 4..record + 8]);
    put(&mut octets, PAGE_OCTETS + 44, records_crc);
    let header_crc = crc32fast::hash(&octets[PAGE_OCTETS..PAGE_OCTETS + 60]);
    put(&mut octets, PAGE_OCTETS + 60, header_crc);
    disk.set_contents(FIRST, octets);
    let (mut log, recovery) = open(&disk, 2).expect("opens");
    assert_eq!(ids(&recovery), [id(2)]);
    assert_eq!((recovery.damage.states, recovery.damage.batches), (1, 0));
    remove(&mut log, [2]);
    maintain_all(&mut log);
    assert!(disk.contents(FileName::Aside(1, 0)).is_some(), "kept, not reused");
}

#[test]
fn a_newer_version_is_refused_and_left_alone() {
    let (disk, _, _) = three_batches();
    let mut octets = disk.contents(FIRST).expect("there");
    octets[8] = 2;
    let crc = crc32fast::hash(&octets[..60]).to_le_bytes();
    octets[60..64].copy_from_slice(&crc);
    disk.set_contents(FIRST, octets.clone());
    let error = open(&disk, 2).map(|_| ()).expect_err("refused");
    assert_eq!(error, SpoolError::NewerFormat { file: FIRST, found: 2, known: 1 });
    assert_eq!(disk.contents(FIRST), Some(octets));
}

#[test]
fn a_refused_batch_does_not_come_back_even_if_it_reached_the_disk() {
    // The sync fails and so, with some seeds, does the blotting out of what it did not cover.
    assert!((0..8).filter(|seed| refused_batch_reaches_the_disk(*seed)).count() > 2);
}

fn refused_batch_reaches_the_disk(seed: u64) -> bool {
    let disk = FaultDisk::new();
    let (mut log, _) = open(&disk, 1).expect("a new spool");
    append(&mut log, &[1], 100);
    disk.fail(2, true, seed);
    let refused = log.commit(&Batch { appends: vec![vec![sealed(2, 1, &body(2, 100))]], marks: Vec::new() });
    assert!(matches!(refused, Err(SpoolError::Io { step: spool::Step::Sync, errno: Some(5), .. })), "{refused:?}");
    disk.heal();
    let written = disk.contents(FIRST).expect("there");
    append(&mut log, &[3], 100);
    drop(log);
    // Without a crash everything written is there.
    let (log, recovery) = open(&disk, 2).expect("opens");
    assert_eq!(ids(&recovery), [id(1), id(3)]);
    assert_eq!(recovery.damage, spool::Damage::default());
    let places: Vec<_> = recovery.messages.iter().map(|m| m.place.segment).collect();
    assert_eq!(places, [1, 2], "the poisoned segment got nothing more");
    assert!(log.read(id(1), recovery.messages[0].place).is_ok(), "and stays readable");
    written[2 * PAGE_OCTETS..].starts_with(b"PRSPBAT")
}

#[test]
fn when_no_segment_can_be_opened_the_old_one_still_takes_marks_and_later_what_fits() {
    // With the reserve whole, call 1 creates the spare, 2 writes its header, 3 syncs it, 4 renames it.
    for (k, stays) in [(1, true), (2, true), (3, true), (4, false)] {
        for seed in 0..8 {
            let disk = FaultDisk::new();
            let (mut log, _) = open(&disk, 1).expect("a new spool");
            append(&mut log, &[1, 9], 10_000);
            maintain_all(&mut log);
            disk.fail(k, true, seed);
            let large = log.commit(&Batch { appends: vec![vec![sealed(2, 1, &body(2, 70_000))]], marks: vec![] });
            assert!(large.is_err());
            disk.heal();
            // Not before the disk was asked again; marks at once.
            assert!(k == 1 || log.accepts_appends().is_err());
            remove(&mut log, [9]);
            log.ready().expect("a healthy disk");
            append(&mut log, &[3], 100);
            assert_eq!(log.locate(id(3)).expect("live").segment == 1, stays, "call {k}");
            drop(log);
            disk.crash(seed);
            let (_, recovery) = open(&disk, 2).expect("opens");
            assert_eq!(ids(&recovery), [id(1), id(3)], "call {k} seed {seed}");
        }
    }
}

#[test]
fn a_record_of_another_batch_is_never_used_even_to_salvage() {
    let (disk, _, _) = three_batches();
    let mut octets = disk.contents(FIRST).expect("there");
    // As an earlier use of the file could have left it: sound, but with another batch's tag.
    let record = PAGE_OCTETS + 64;
    octets[record + 8] ^= 1;
    let crc = crc32fast::hash(&[&octets[record..record + 4], &octets[record + 8..record + 80]].concat());
    octets[record + 4..record + 8].copy_from_slice(&crc.to_le_bytes());
    disk.set_contents(FIRST, octets);
    let (_, recovery) = open(&disk, 2).expect("opens");
    assert_eq!(ids(&recovery), [id(2), id(3), id(4), id(5)]);
}

#[test]
fn a_recycled_segments_old_batches_are_never_taken_for_new() {
    let disk = FaultDisk::new();
    let (mut log, _) = open(&disk, 1).expect("a new spool");
    // Every message fills the same number of pages, so that old and new batches line up.
    for round in 0..40 {
        append(&mut log, &[round], 9000);
        remove(&mut log, [round]);
        maintain_all(&mut log);
    }
    assert!(log.stats().released > 5, "{:?}", log.stats());
    append(&mut log, &[100], 9000);
    drop(log);
    let files: Vec<_> = disk.copy().list().expect("lists").iter().map(|f| f.name).collect();
    let (mut log, recovery) = open(&disk, 2).expect("opens");
    assert_eq!(ids(&recovery), [id(100)], "{files:?}");
    // The torn tail of a commit over old octets: the header is new, the records are old ones of the same shape.
    append(&mut log, &[101], 9000);
    let place = log.locate(id(101)).expect("live");
    let file = FileName::Segment(place.segment);
    let mut octets = disk.contents(file).expect("there");
    let page = place.offset as usize / PAGE_OCTETS * PAGE_OCTETS;
    let whole = octets.clone();
    // The record as an earlier batch of the same shape would have left it: another tag, sound otherwise.
    let record = place.offset as usize;
    octets[record + 8] ^= 1;
    let covered = [&octets[record..record + 4], &octets[record + 8..record + 32 + 48]].concat();
    let crc = crc32fast::hash(&covered).to_le_bytes();
    octets[record + 4..record + 8].copy_from_slice(&crc);
    disk.set_contents(file, octets);
    let (_, recovery) = open(&disk, 3).expect("opens");
    assert_eq!(ids(&recovery), [id(100)]);
    // And a whole old batch under a foreign nonce.
    let mut octets = whole;
    octets[page + 8] ^= 1;
    let crc = crc32fast::hash(&octets[page..page + 60]).to_le_bytes();
    octets[page + 60..page + 64].copy_from_slice(&crc);
    disk.set_contents(file, octets);
    let (_, recovery) = open(&disk, 4).expect("opens");
    assert_eq!(ids(&recovery), [id(100)]);
}

#[test]
fn a_message_larger_than_a_segment_works() {
    let disk = FaultDisk::new();
    let (mut log, _) = open(&disk, 1).expect("a new spool");
    append(&mut log, &[1], 300_000);
    append(&mut log, &[2], 10);
    drop(log);
    let (mut log, recovery) = open(&disk, 2).expect("opens");
    assert_eq!(ids(&recovery), [id(1), id(2)]);
    let read = log.read(id(1), recovery.messages[0].place).expect("reads");
    assert!(read == resident(&sealed(1, 2, &body(1, 300_000))));
    remove(&mut log, [1, 2]);
    maintain_all(&mut log);
    assert!(log.stats().disk_octets < 300_000, "an oversized file is not kept: {:?}", log.stats());
}

#[test]
fn marks_and_moves_keep_attempts_due_and_recipients() {
    let disk = FaultDisk::new();
    let (mut log, _) = open(&disk, 1).expect("a new spool");
    let shared = body(1, 4000);
    let twins = vec![sealed(1, 100, &shared), sealed(2, 3, &shared), sealed(3, 1, &shared)];
    let places: Vec<_> = log
        .commit(&Batch { appends: vec![twins], marks: vec![] })
        .expect("durable")
        .iter()
        .map(|d| d.place())
        .collect();
    let marks = vec![
        Mark::Attempt { id: id(1), attempts: 7, due: due(77) },
        Mark::RecipientsDone { id: id(1), recipients: vec![0, 99] },
        Mark::RecipientsDone { id: id(2), recipients: vec![1] },
        Mark::Removed { id: id(3) },
    ];
    log.commit(&Batch { appends: vec![], marks }).expect("durable");
    // Dead weight behind them until the oldest segment is compacted.
    for number in 10..60 {
        append(&mut log, &[number], 9000);
        remove(&mut log, [number]);
        maintain_all(&mut log);
    }
    assert!(log.stats().octets_compacted > 0, "{:?}", log.stats());
    assert!(log.stats().disk_octets < 1 << 20, "{:?}", log.stats());
    for (number, recipients) in [(1, 100), (2, 3)] {
        let now = log.locate(id(number)).expect("live");
        assert_ne!(now, places[number as usize - 1], "it moved");
        let read = log.read(id(number), places[number as usize - 1]).expect("old places are followed");
        assert!(read == resident(&sealed(number, recipients, &shared)));
    }
    assert_eq!(log.read(id(3), places[2]), Err(SpoolError::NoSuchMessage { id: id(3) }));
    drop(log);
    let (_, recovery) = open(&disk, 2).expect("opens");
    assert_eq!(ids(&recovery), [id(1), id(2)]);
    let [one, two] = &recovery.messages[..] else { panic!("two") };
    assert_eq!((one.attempts, one.due, two.attempts, two.due), (7, due(77), 0, due(2)));
    assert_eq!(pending(one), (1..99).collect::<Vec<_>>());
    assert_eq!(pending(two), [0, 2]);
    assert_eq!(one.place.offset, two.place.offset, "they still share the body");
}

#[test]
fn an_id_appended_again_replaces_the_older_record() {
    let disk = FaultDisk::new();
    let (mut log, _) = open(&disk, 1).expect("a new spool");
    append(&mut log, &[1], 100);
    let changed = sealed(1, 5, &body(8, 50));
    log.commit(&Batch { appends: vec![vec![changed.clone()]], marks: vec![] }).expect("durable");
    assert_eq!(log.stats().live_messages, 1);
    drop(log);
    let (log, recovery) = open(&disk, 2).expect("opens");
    assert_eq!((recovery.messages.len(), recovery.messages[0].recipients), (1, 5));
    assert_eq!(log.read(id(1), recovery.messages[0].place), Ok(resident(&changed)));
}

#[test]
fn what_the_format_cannot_hold_is_refused_before_anything_is_written() {
    let disk = FaultDisk::new();
    let (mut log, _) = open(&disk, 1).expect("a new spool");
    let calls = disk.calls();
    let commit =
        |log: &mut SegmentLog<FaultDisk>, transaction| log.commit(&Batch { appends: vec![transaction], marks: vec![] });
    assert!(matches!(commit(&mut log, vec![]), Err(SpoolError::MessageCount { messages: 0, .. })));
    let (a, b) = (body(1, 10), body(2, 10));
    let mixed = vec![sealed(1, 1, &a), sealed(2, 1, &b)];
    assert_eq!(commit(&mut log, mixed).map(|_| ()), Err(SpoolError::BodiesDiffer { id: id(2) }));
    let one = sealed(1, 1, &a);
    assert!(matches!(commit(&mut log, vec![one; 65_536]), Err(SpoolError::MessageCount { messages: 65_536, .. })));
    assert_eq!(disk.calls(), calls);
    let many: Vec<_> = (0..65_535).map(|n| sealed(n, 1, &a)).collect();
    assert_eq!(commit(&mut log, many).map(|durable| durable.len()), Ok(65_535));
}

#[test]
fn a_full_disk_is_told_apart() {
    let full = std::io::Error::from_raw_os_error(28);
    assert!(SpoolError::io(spool::Step::Write, FIRST, &full).is_full());
    assert!(!SpoolError::io(spool::Step::Write, FIRST, &std::io::Error::from_raw_os_error(5)).is_full());
}
