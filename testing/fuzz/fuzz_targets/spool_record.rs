//! The spool's bytes: records, and recovery over segments somebody changed.
//!
//! Input: an octet that chooses the way, then
//! 0: octets for the reader of records, checksums made right by it;
//! 1: octets as the pages of a segment;
//! else: changes (file, page, offset, length, octets) to a sound log of several segments, with checksums made right
//! behind them (odd) or left wrong (even).
//! Checked: nothing panics or takes memory beyond the image's order; what recovery offers can be
//! read, or says why not; it knows how many recipients and octets a message has; new mail committed on
//! top of whatever was there survives housekeeping and a restart, and so does all that was readable before.

#![no_main]

use bytes::Bytes;
use clock::WallTime;
use fuzz::reseal::{PAGE, reseal};
use libfuzzer_sys::fuzz_target;
use message::{Envelope, MessageId, Meta, Resident, Sealed, TlsDemand};
use smtp_wire::{Mailbox, ReversePath};
use spool::fault::FaultDisk;
use spool::{Batch, Disk as _, FileName, Mark, Recovery, SegmentLog, Settings, SpoolError};
use std::collections::BTreeMap;
use std::sync::LazyLock;

fuzz_target!(|data: &[u8]| {
    let [way, input @ ..] = data else { return };
    match way {
        0 => _ = spool::read_any(&mut input.to_vec()),
        1 => {
            let mut pages = input.to_vec();
            pages.resize(input.len().next_multiple_of(PAGE), 0);
            let disk = FaultDisk::new();
            disk.set_contents(FileName::Segment(1), pages);
            live_with(&disk);
        }
        _ => live_with(&changed(input, way % 2 == 1)),
    }
});

/// The sound log with the changes of `input`.
fn changed(input: &[u8], is_resealed: bool) -> FaultDisk {
    let disk = SOUND.copy();
    let files = files(&disk);
    let mut images: Vec<Vec<u8>> = files.iter().map(|file| disk.contents(*file).unwrap_or_default()).collect();
    let mut rest = input;
    while let [file, page, low, high, length, behind @ ..] = rest {
        let image = &mut images[usize::from(*file) % files.len()];
        let offset = usize::from(u16::from_le_bytes([*low, *high])) % PAGE;
        let at = usize::from(*page) % (image.len() / PAGE) * PAGE + offset;
        let (octets, behind) = behind.split_at(usize::from(length % 16).min(behind.len()));
        let end = (at + octets.len()).min(image.len());
        image[at..end].copy_from_slice(&octets[..end - at]);
        rest = behind;
    }
    for (file, mut image) in files.into_iter().zip(images) {
        if is_resealed {
            reseal(&mut image);
        }
        disk.set_contents(file, image);
    }
    disk
}

/// Opens the log, uses it, opens it again.
fn live_with(disk: &FaultDisk) {
    let (mut log, recovery) = match open(disk) {
        Ok(opened) => opened,
        Err(SpoolError::NewerFormat { .. }) => return,
        Err(error) => panic!("a healthy disk does not open: {error}"),
    };
    let mut readable = read_all(&log, &recovery);
    let fresh = sealed(u64::MAX, 2, &vec![b'y'; 5000].into());
    match log.commit(&Batch { appends: vec![vec![fresh.clone()]], marks: vec![] }) {
        Ok(_) => _ = readable.insert(fresh.id, (fresh.head, fresh.body.into_bytes())),
        // The last number of a segment or batch was found in use.
        Err(SpoolError::Exhausted) => return,
        Err(error) => panic!("a healthy disk refuses mail: {error}"),
    }
    for _ in 0..200 {
        match log.maintain(64 << 10) {
            Ok(done) if done.has_more() => {}
            Ok(_) | Err(SpoolError::Exhausted) => break,
            Err(error) => panic!("housekeeping: {error}"),
        }
    }
    drop(log);
    let (log, recovery) = open(disk).unwrap_or_else(|error| panic!("does not open again: {error}"));
    let again = read_all(&log, &recovery);
    for (id, content) in &readable {
        assert!(again.get(id) == Some(content), "{id} is lost or changed");
    }
}

/// The content of every message that reads; recovery's word on each is checked.
fn read_all(log: &SegmentLog<FaultDisk>, recovery: &Recovery) -> BTreeMap<MessageId, (Bytes, Bytes)> {
    let mut found = BTreeMap::new();
    for message in &recovery.messages {
        if let Ok(Resident { envelope, head, body, .. }) = log.read(message.id, message.place) {
            assert_eq!(envelope.recipients.len(), usize::from(message.recipients));
            assert_eq!(head.len() + body.len(), message.size as usize);
            assert!(found.insert(message.id, (head, body.into_bytes())).is_none(), "{} twice", message.id);
        }
    }
    found
}

fn open(disk: &FaultDisk) -> Result<(SegmentLog<FaultDisk>, Recovery), SpoolError> {
    let settings = Settings { compact_margin_octets: 8 * PAGE as u64, ..Settings::with_segment(8 * PAGE as u32) };
    let mut nonce = disk.calls();
    let nonces = move || {
        nonce = nonce.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
        nonce
    };
    SegmentLog::open(disk.clone(), settings, Box::new(nonces))
}

/// A log of several small segments with messages, marks and shared bodies.
static SOUND: LazyLock<FaultDisk> = LazyLock::new(|| {
    let disk = FaultDisk::new();
    let (mut log, _) = open(&disk).expect("an empty disk opens");
    for round in 0..6_u64 {
        let body = Bytes::from(vec![round as u8; 900]);
        let shared = vec![sealed(round * 10, 3, &body), sealed(round * 10 + 1, 1, &body)];
        let mut batch =
            Batch { appends: vec![shared, vec![sealed(round * 10 + 2, 40, &vec![b'x'; 3000].into())]], marks: vec![] };
        if round > 0 {
            let id = |number| id((round - 1) * 10 + number);
            batch.marks = vec![
                Mark::Attempt { id: id(0), attempts: 3, due: WallTime::from_unix_secs(1_790_000_000) },
                Mark::RecipientsDone { id: id(2), recipients: vec![0, 7, 39] },
                Mark::Removed { id: id(1) },
            ];
        }
        log.commit(&batch).expect("a healthy disk");
    }
    disk
});

fn files(disk: &FaultDisk) -> Vec<FileName> {
    let listed = disk.clone().list().expect("no faults were asked for");
    let files = listed.into_iter().filter(|file| file.octets >= PAGE as u64).map(|file| file.name);
    files.filter(|file| matches!(file, FileName::Segment(_))).collect()
}

fn id(number: u64) -> MessageId {
    let mut octets = [0xa5; 16];
    octets[..8].copy_from_slice(&number.to_be_bytes());
    MessageId::from_bytes(octets)
}

fn sealed(number: u64, recipients: u64, body: &Bytes) -> Sealed {
    let mailbox = |n: u64| Mailbox::parse(&format!("r{n}@example.com")).expect("an address");
    let mut meta = Meta::new();
    meta.set("queue", "example.com");
    Sealed {
        id: id(number),
        envelope: Envelope {
            sender: ReversePath(None),
            recipients: (0..recipients).map(mailbox).collect(),
            dsn: None,
            tls: TlsDemand::Usual,
        },
        meta,
        head: Bytes::from_static(b"Subject: x\r\n\r\n"),
        body: body.clone().into(),
        due: WallTime::from_unix_secs(1_790_000_000),
    }
}
