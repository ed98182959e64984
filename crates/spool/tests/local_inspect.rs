//! One file per message: what an onlooker sees of a spool, sound and damaged, without changing it.

mod local_rig;

use local_rig::messages::{body, queue_of, resident, sealed};
use message::Sealed;
use spool::SpoolError;
use spool::local::{
    FILE_FAULTS_MAX, FaultFiles, FileFaultKind, FilesInspection, Folder, LocalName, MessageFiles, Run, inspect, load,
};
use spool::{Mark, RecoveredMessage};

/// Messages 0 to `count` of run 1, a transaction each.
fn spooled(count: u64) -> (FaultFiles, Vec<Sealed>) {
    let files = FaultFiles::new();
    let engine = MessageFiles::new(files.clone(), Run(1), queue_of);
    let messages: Vec<Sealed> = (0..count).map(|n| sealed(n, 2, &body(n, 500))).collect();
    for message in &messages {
        engine.write(message).expect("writes");
        engine.commit(&[message.id]).expect("commits");
    }
    (files, messages)
}

fn look(files: &FaultFiles, contents: bool) -> FilesInspection {
    let everything = || files.names().into_iter().map(|name| (name, files.contents(name))).collect::<Vec<_>>();
    let before = everything();
    let seen = inspect(files, queue_of, contents).expect("lists");
    assert_eq!(everything(), before, "nothing was changed");
    seen
}

fn edit(files: &FaultFiles, name: LocalName, edit: impl FnOnce(&mut Vec<u8>)) {
    let mut octets = files.contents(name).expect("there");
    edit(&mut octets);
    files.set_contents(name, octets);
}

#[test]
fn a_sound_spool_is_seen_as_recovery_sees_it() {
    let (files, messages) = spooled(9);
    let engine = MessageFiles::new(files.clone(), Run(2), queue_of);
    let id = messages[3].id;
    engine.note(id, &[Mark::RecipientsDone { id, recipients: vec![1] }]).expect("writes");
    engine.remove(messages[4].id).expect("removes");
    let mut recovered: Vec<RecoveredMessage> = Vec::new();
    for folder in Folder::of_messages() {
        engine.recover(folder, &mut |message| recovered.push(message)).expect("lists");
    }
    recovered.sort_by_key(|message| (message.id.created(), message.id));
    for contents in [false, true] {
        let seen = look(&files, contents);
        assert_eq!(seen.messages, recovered);
        assert!(seen.is_sound() && seen.faults.is_empty());
        assert_eq!((seen.unfinished, seen.strange, seen.torn_marks), (0, 0, 0));
        assert_eq!(seen.folders.iter().map(|folder| folder.live_messages).sum::<u64>(), 8);
    }
    assert!(load(&files, LocalName::Message(id)) == Ok(resident(&messages[3])));
    let gone = messages[4].id;
    assert_eq!(load(&files, LocalName::Message(gone)), Err(SpoolError::NoSuchMessage { id: gone }));
}

#[test]
fn every_kind_of_damage_is_named_with_its_file() {
    let (files, messages) = spooled(7);
    let name = |n: usize| LocalName::Message(messages[n].id);
    edit(&files, name(0), |octets| octets[100] ^= 1);
    edit(&files, name(1), |octets| *octets.last_mut().expect("a body") ^= 1);
    edit(&files, name(2), |octets| *octets = b"postrider-message 9 of tomorrow\n".to_vec());
    files.break_file(name(3));
    let aside = LocalName::Aside(messages[4].id, Run(7));
    files.set_contents(aside, b"half".to_vec());
    files.set_contents(LocalName::New(messages[5].id, Run(7)), b"h".to_vec());
    files.add_strange(Folder::Messages(3), "README");
    let seen = inspect(&files, queue_of, true).expect("lists");
    let mut found: Vec<_> = seen.faults.iter().map(|fault| (fault.name, fault.what.name())).collect();
    let mut expected = vec![
        (name(0), "file"),
        (name(1), "content"),
        (name(2), "newer version"),
        (name(3), "unreadable"),
        (aside, "file"),
    ];
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    assert!(!seen.is_sound());
    assert_eq!((seen.unfinished, seen.strange), (1, 1));
    let shallow = inspect(&files, queue_of, false).expect("lists");
    assert!(shallow.faults.iter().all(|fault| fault.what != FileFaultKind::Content), "contents are not read");
    files.heal();
    let engine = MessageFiles::new(files.clone(), Run(8), queue_of);
    for message in &messages[..4] {
        engine.remove(message.id).expect("removes");
    }
    assert!(look(&files, true).is_sound(), "what was set aside does not count");
}

#[test]
fn messages_of_an_unfinished_transaction_are_not_alive() {
    let (files, messages) = spooled(4);
    let lines: String = messages[1..3].iter().map(|message| format!("{}\n", message.id)).collect();
    let text = format!("postrider-transaction 1 crc={:08x} count=2\n{lines}", crc32fast::hash(lines.as_bytes()));
    let intent = LocalName::Intent(messages[1].id);
    files.set_contents(intent, text.clone().into_bytes());
    let ids = |seen: &FilesInspection| seen.messages.iter().map(|message| message.id).collect::<Vec<_>>();
    let seen = look(&files, true);
    assert_eq!((ids(&seen), seen.unfinished_transactions), (vec![messages[0].id, messages[3].id], 1));
    files.set_contents(intent, text.into_bytes()[..60].to_vec());
    let seen = look(&files, true);
    assert_eq!((ids(&seen).len(), seen.unfinished_transactions), (4, 0), "it was never synced: it stands for nothing");
}

#[test]
fn ten_thousand_faults_are_listed_and_one_more_is_counted() {
    let files = FaultFiles::new();
    let id = |number: usize| {
        let mut octets = [1; 16];
        octets[..8].copy_from_slice(&(number as u64).to_be_bytes());
        message::MessageId::from_bytes(octets)
    };
    (0..FILE_FAULTS_MAX).for_each(|n| files.set_contents(LocalName::Message(id(n)), Vec::new()));
    let seen = inspect(&files, queue_of, true).expect("lists");
    assert_eq!((seen.faults.len(), seen.faults_not_listed), (FILE_FAULTS_MAX, 0));
    files.set_contents(LocalName::Message(id(FILE_FAULTS_MAX)), Vec::new());
    let seen = inspect(&files, queue_of, true).expect("lists");
    assert_eq!((seen.faults.len(), seen.faults_not_listed), (FILE_FAULTS_MAX, 1));
}

#[test]
fn a_probe_tells_whether_a_message_can_be_written_and_leaves_nothing() {
    const ENOSPC: i32 = 28;
    let (files, _) = spooled(1);
    let engine = MessageFiles::new(files.clone(), Run(2), queue_of);
    let names = files.names();
    engine.probe(4096).expect("room");
    assert_eq!(files.names(), names);
    for k in 1..9 {
        files.fail(k, true, ENOSPC, k);
        let probed = engine.probe(4096);
        files.heal();
        assert!(probed.as_ref().err().is_none_or(SpoolError::is_full), "{probed:?}");
        assert!(probed.is_err() || k > 4, "call {k} failed and was not told");
        engine.probe(4096).expect("room again, whatever the failed one left");
        assert_eq!(files.names(), names);
    }
}
