//! Disks that refuse, each in one plain history: read-only ones, short writes, syncs that fail and then "succeed", pages
//! that do not read, ends that are cut off or turned over behind a segment that vouches for them.

mod common;

use common::{body, id, maintain_all, nonces, open, sealed, small_settings};
use message::MessageId;
use spool::fault::{Call, Fault, FaultDisk};
use spool::{Batch, Damage, FileName, Mark, PAGE_OCTETS, Recovery, SegmentLog, SpoolError, Step};

type Log = SegmentLog<FaultDisk>;

fn append(log: &mut Log, numbers: std::ops::Range<u64>, octets: usize) -> Result<(), SpoolError> {
    let appends = numbers.map(|n| vec![sealed(n, 1, &body(n, octets))]).collect();
    log.commit(&Batch { appends, marks: vec![] }).map(|_| ())
}

fn remove(log: &mut Log, numbers: std::ops::Range<u64>) -> Result<(), SpoolError> {
    let marks = numbers.map(|n| Mark::Removed { id: id(n) }).collect();
    log.commit(&Batch { appends: vec![], marks }).map(|_| ())
}

fn ids(recovery: &Recovery) -> Vec<MessageId> {
    recovery.messages.iter().map(|m| m.id).collect()
}

fn numbered(numbers: impl IntoIterator<Item = u64>) -> Vec<MessageId> {
    numbers.into_iter().map(id).collect()
}

#[test]
fn a_disk_that_becomes_read_only_keeps_what_it_has_and_goes_on_when_it_can() {
    for seed in 0..20 {
        let disk = FaultDisk::new();
        let (mut log, _) = open(&disk, seed).expect("a new spool");
        append(&mut log, 0..5, 1000).expect("a healthy disk");
        maintain_all(&mut log);
        disk.set_read_only(true);
        let refused = append(&mut log, 10..11, 100 + seed as usize * 5000).expect_err("read-only");
        assert!(matches!(refused, SpoolError::Io { errno: Some(30), .. }) && !refused.is_full(), "{refused}");
        assert!(remove(&mut log, 0..1).is_err());
        assert!(log.accepts_appends().is_err() || log.ready().is_ok(), "says so, or has room");
        (0..10).for_each(|_| _ = log.maintain(10_000));
        assert!(log.read(id(1), log.locate(id(1)).expect("live")).is_ok());
        // A start on such a disk finds everything and takes nothing.
        let (mut second, recovery) = open(&disk, seed + 50).expect("reading is enough");
        assert_eq!(ids(&recovery), numbered(0..5));
        assert!(append(&mut second, 20..21, 10).is_err());
        drop(second);
        disk.set_read_only(false);
        log.ready().expect("a healthy disk");
        remove(&mut log, 0..1).expect("a healthy disk");
        append(&mut log, 30..31, 1000).expect("a healthy disk");
        maintain_all(&mut log);
        disk.crash(seed);
        let (_, recovery) = open(&disk, 99).expect("opens");
        assert_eq!((ids(&recovery), recovery.damage), (numbered([1, 2, 3, 4, 30]), Damage::default()));
    }
}

#[test]
fn a_write_that_fails_half_way_or_a_sync_that_fails_once_poisons_the_segment_and_loses_nothing() {
    for (call, step) in [(Call::Write, Step::Write), (Call::Sync, Step::Sync)] {
        for seed in 0..40 {
            let disk = FaultDisk::new();
            let (mut log, _) = open(&disk, seed).expect("a new spool");
            append(&mut log, 0..3, 1000).expect("a healthy disk");
            maintain_all(&mut log);
            // What a failed write wrote, and what a failed sync left on the disk, follows from the seed.
            disk.inject(Fault { call: Some(call), at: 1, sticky: false, errno: 5 }, seed);
            let refused = append(&mut log, 10..14, 3000).expect_err("fails");
            assert!(matches!(refused, SpoolError::Io { step: s, .. } if s == step), "{refused}");
            let syncs_before = log.stats().poisoned;
            assert_eq!(syncs_before, 1);
            // The next sync succeeds and says nothing about what the failed one should have covered.
            log.ready().expect("a healthy disk");
            append(&mut log, 20..22, 1000).expect("a healthy disk");
            let (old, new) = (log.locate(id(0)).expect("live"), log.locate(id(20)).expect("live"));
            assert!(new.segment > old.segment, "nothing more goes to the poisoned segment");
            // It is emptied without being asked for space, and its file is not used again.
            maintain_all(&mut log);
            assert!(log.locate(id(0)).expect("live").segment > old.segment);
            assert!(disk.contents(FileName::Segment(old.segment)).is_none(), "gone");
            assert!((0..3).all(|n| log.read(id(n), old).is_ok()));
            disk.crash(seed);
            let (_, recovery) = open(&disk, 99).expect("opens");
            let mut found = ids(&recovery);
            found.sort_unstable();
            assert_eq!((found, recovery.damage), (numbered([0, 1, 2, 20, 21]), Damage::default()));
        }
    }
}

/// Ten batches of one message each in the first segment, which others vouch for.
fn ten_batches() -> (FaultDisk, Vec<u8>) {
    let disk = FaultDisk::new();
    let (mut log, _) = open(&disk, 1).expect("a new spool");
    (0..10).for_each(|n| append(&mut log, n..n + 1, 500).expect("a healthy disk"));
    let first = disk.contents(FileName::Segment(1)).expect("there");
    assert_eq!(first.iter().rposition(|octet| *octet != 0).expect("not empty") / PAGE_OCTETS, 10);
    (disk, first)
}

/// Where a page's octets end and padding begins.
fn used(octets: &[u8], page: usize) -> usize {
    let start = page * PAGE_OCTETS;
    start + u32::from_le_bytes(octets[start + 32..start + 36].try_into().expect("four")) as usize
}

#[test]
fn a_segment_cut_at_every_octet_leaves_the_batches_before() {
    let (disk, whole) = ten_batches();
    for cut in (PAGE_OCTETS..11 * PAGE_OCTETS).rev() {
        disk.set_contents(FileName::Segment(1), whole[..cut].to_vec());
        let (_, recovery) = open(&disk, 2).expect("opens");
        let expected = (1..=10).filter(|page| used(&whole, *page) <= cut).map(|page| page as u64 - 1);
        assert_eq!((ids(&recovery), recovery.damage), (numbered(expected), Damage::default()), "cut at {cut}");
    }
}

#[test]
fn an_end_that_a_later_segment_vouches_for_is_damage_when_it_does_not_read() {
    let (disk, _) = ten_batches();
    let (mut log, _) = open(&disk, 2).expect("opens");
    append(&mut log, 100..101, 10).expect("a healthy disk");
    drop(log);
    // The last batch was in doubt and was copied: what the second segment vouches for are the nine before.
    let mut vouched = disk.contents(FileName::Segment(1)).expect("there");
    vouched[10 * PAGE_OCTETS..].fill(0);
    for at in 9 * PAGE_OCTETS..used(&vouched, 9) {
        let mut octets = vouched.clone();
        octets[at] ^= 1 << (at % 8);
        disk.set_contents(FileName::Segment(1), octets);
        let (_, recovery) = open(&disk, 3).expect("opens");
        assert_eq!(ids(&recovery), numbered((0..8).chain([9, 100])), "octet {at}");
        assert_eq!((recovery.damage.batches, recovery.damage.octets), (1, PAGE_OCTETS as u64), "octet {at}");
        disk.set_contents(FileName::Segment(1), vouched[..at].to_vec());
        let (_, recovery) = open(&disk, 3).expect("opens");
        assert_eq!(ids(&recovery), numbered((0..8).chain([9, 100])), "cut at {at}");
        assert_eq!(recovery.damage.batches, 1, "cut at {at}");
    }
}

#[test]
fn pages_that_do_not_read_are_damage_and_never_the_end() {
    for page in 0..=11 {
        let (disk, _) = ten_batches();
        disk.set_unreadable(FileName::Segment(1), page..page + 1);
        let (mut log, recovery) = open(&disk, 2).expect("a page that does not read does not stop a start");
        let expected = numbered((0..10).filter(|n| n + 1 != page as u64));
        assert_eq!(ids(&recovery), expected, "page {page}");
        let damage = recovery.damage;
        assert_eq!(damage.unreadable_pages, u64::from(page < 11), "page {page}: {damage:?}");
        // It takes mail at once; what is there is carried out of the bad segment, which is kept.
        append(&mut log, 100..103, 1000).expect("a healthy disk");
        for _ in 0..3000 {
            if log.maintain(100_000).is_ok_and(|done| !done.has_more()) {
                break;
            }
        }
        let kept = disk.contents(FileName::Aside(1, 0)).is_some();
        assert_eq!(kept, page < 11, "page {page}");
        drop(log);
        disk.crash(5);
        let (_, recovery) = open(&disk, 3).expect("opens");
        let mut found = ids(&recovery);
        found.sort_unstable();
        assert_eq!(
            (found, recovery.damage),
            ([expected, numbered(100..103)].concat(), Damage::default()),
            "page {page}"
        );
    }
}

#[test]
fn what_is_in_corrupt_is_never_written_over() {
    let (disk, _) = ten_batches();
    let older = vec![7; PAGE_OCTETS];
    disk.set_contents(FileName::Aside(1, 0), older.clone());
    disk.set_contents(FileName::Aside(1, 1), older.clone());
    let (mut log, _) = open(&disk, 2).expect("opens");
    disk.flip_bit(FileName::Segment(1), 8 * (3 * PAGE_OCTETS as u64 + 200));
    log.set_aside(id(2));
    let first = disk.contents(FileName::Segment(1)).expect("there");
    maintain_all(&mut log);
    assert_eq!(log.take_set_aside(), [id(2)]);
    assert_eq!((log.stats().set_aside, log.stats().set_aside_messages, log.stats().live_messages), (1, 1, 9));
    let aside = |copy| disk.contents(FileName::Aside(1, copy));
    assert_eq!((aside(0), aside(1), aside(2)), (Some(older.clone()), Some(older), Some(first)));
}

/// A server that has as many connections as it may have files: nothing is known of what cannot be opened, however often.
#[test]
fn while_the_system_has_no_descriptors_nothing_is_given_up() {
    for (errno, kept) in [(24, true), (23, true), (12, true), (5, false)] {
        let disk = FaultDisk::new();
        let (mut log, _) = SegmentLog::open(disk.clone(), small_settings(), nonces(1)).expect("a new spool");
        for number in 0..300 {
            append(&mut log, number..number + 1, 9000).expect("a healthy disk");
        }
        let marks = (0..300).filter(|number| number % 10 != 0).map(|number| Mark::Removed { id: id(number) });
        log.commit(&Batch { appends: vec![], marks: marks.collect() }).expect("a healthy disk");
        disk.inject(Fault { call: Some(Call::Read), at: 1, sticky: true, errno }, 1);
        let (mut failed, mut given_up) = (0, Vec::new());
        while failed < 200 && given_up.is_empty() {
            failed += usize::from(!log.maintain(512 << 10).is_ok_and(|done| done.has_more()));
            given_up = log.take_set_aside();
        }
        assert_eq!(given_up.is_empty(), kept, "{errno}");
        disk.heal();
        maintain_all(&mut log);
        drop(log);
        let (_, recovery) = open(&disk, 2).expect("opens");
        assert_eq!(ids(&recovery) == numbered((0..300).step_by(10)), kept, "{errno}");
    }
}
