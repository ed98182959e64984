//! The format's golden octets: what version 1 wrote must read for ever, and version 1 must go on
//! writing exactly that. A change here is a new format version (docs/spool-format.md section 9).
//!
//! `GOLDEN_WRITE=1 cargo test -p spool --test golden` writes the file of a new version.

mod common;

use common::{body, due, id, pending, resident, sealed, small_settings};
use spool::fault::FaultDisk;
use spool::{Batch, FileName, Mark, SegmentLog};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/v1-segment.bin");
const FIRST: FileName = FileName::Segment(1);

/// One segment with every kind of record and mark.
fn written_now() -> Vec<u8> {
    let disk = FaultDisk::new();
    let nonces = Box::new(|| 0x0123_4567_89ab_cdef);
    let (mut log, _) = SegmentLog::open(disk.clone(), small_settings(), nonces).expect("a new spool");
    let shared = body(1, 300);
    let twins = vec![sealed(1, 2, &shared), sealed(2, 1, &shared)];
    let alone = vec![sealed(3, 70, &body(3, 0))];
    log.commit(&Batch { appends: vec![twins, alone], marks: vec![] }).expect("durable");
    let marks = vec![
        Mark::Attempt { id: id(1), attempts: 2, due: due(600) },
        Mark::RecipientsDone { id: id(3), recipients: vec![0, 64] },
        Mark::Removed { id: id(2) },
    ];
    log.commit(&Batch { appends: vec![], marks }).expect("durable");
    disk.contents(FIRST).expect("there")
}

#[test]
fn version_1_writes_its_golden_octets() {
    let now = written_now();
    if std::env::var_os("GOLDEN_WRITE").is_some() {
        std::fs::write(PATH, &now).expect("a writable tree");
    }
    let golden = std::fs::read(PATH).expect("the golden segment is in the tree");
    let difference = now.iter().zip(&golden).position(|(a, b)| a != b);
    assert_eq!((difference, now.len()), (None, golden.len()), "first octet that differs");
}

#[test]
fn version_1_golden_octets_read() {
    let disk = FaultDisk::new();
    disk.set_contents(FIRST, std::fs::read(PATH).expect("the golden segment is in the tree"));
    let (log, recovery) = SegmentLog::open(disk, small_settings(), Box::new(|| 1)).expect("opens");
    assert_eq!(recovery.damage, spool::Damage::default());
    let [one, three] = &recovery.messages[..] else { panic!("two messages, not {}", recovery.messages.len()) };
    let expected = sealed(1, 2, &body(1, 300));
    assert_eq!((one.id, &*one.queue, one.recipients), (expected.id, "q1", 2));
    assert_eq!((one.attempts, one.due, pending(one)), (2, due(600), vec![0, 1]));
    assert_eq!(log.read(one.id, one.place), Ok(resident(&expected)));
    assert_eq!((three.id, three.attempts, three.due), (id(3), 0, due(3)));
    assert_eq!(pending(three), (1..70).filter(|r| *r != 64).collect::<Vec<_>>());
}
