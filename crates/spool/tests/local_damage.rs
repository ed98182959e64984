//! One file per message: files that are damaged, unreadable, foreign or newer, and the golden bytes. Whatever is found, the
//! rest is recovered, nothing is deleted, and the next start finds the same.

mod local_rig;

use local_rig::messages::{body, due, queue_of, resident, sealed};
use message::{MessageId, Place, Sealed};
use spool::local::{
    FaultFiles, Files, Folder, LocalName, LocalReport, MessageFiles, ReadFile, ReadFiles, Run, inspect, load,
};
use spool::{Mark, RecoveredMessage, SpoolError, Step};
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

fn engine(files: &FaultFiles, run: u64) -> MessageFiles<FaultFiles> {
    MessageFiles::new(files.clone(), Run(run), queue_of)
}

/// Spooled files with `count` messages of run 1; the messages.
fn spooled(count: u64) -> (FaultFiles, Vec<Sealed>) {
    let files = FaultFiles::new();
    let engine = engine(&files, 1);
    let messages: Vec<Sealed> = (0..count).map(|n| sealed(n, 2, &body(n, 500))).collect();
    for message in &messages {
        engine.write(message).expect("writes");
        engine.commit(&[message.id]).expect("commits");
    }
    (files, messages)
}

/// What run `run` finds.
fn recover(files: &FaultFiles, run: u64) -> (Vec<RecoveredMessage>, LocalReport) {
    let engine = engine(files, run);
    let (mut found, mut report) = (Vec::new(), LocalReport::default());
    for folder in Folder::of_messages() {
        report.add(&engine.recover(folder, &mut |message| found.push(message)).expect("lists"));
    }
    (found, report)
}

fn ids(found: &[RecoveredMessage]) -> Vec<MessageId> {
    let mut ids: Vec<_> = found.iter().map(|message| message.id).collect();
    ids.sort();
    ids
}

/// Replaces the file of `id` by what `edit` makes of it.
fn edit(files: &FaultFiles, id: MessageId, edit: impl FnOnce(&mut Vec<u8>)) {
    let mut octets = files.contents(LocalName::Message(id)).expect("there");
    edit(&mut octets);
    files.set_contents(LocalName::Message(id), octets);
}

#[test]
fn files_that_are_not_whole_are_set_aside_and_the_rest_comes_back() {
    let (files, messages) = spooled(6);
    let id = |n: usize| messages[n].id;
    edit(&files, id(0), |octets| octets[100] ^= 1);
    edit(&files, id(1), |octets| octets.truncate(octets.len() - 1));
    edit(&files, id(2), |octets| octets.truncate(30));
    edit(&files, id(3), Vec::clear);
    let other = files.contents(LocalName::Message(id(4))).expect("there");
    edit(&files, id(4), |octets| *octets = files.contents(LocalName::Message(id(5))).expect("there"));
    let kept = files.contents(LocalName::Message(id(0)));
    let (found, report) = recover(&files, 2);
    assert_eq!(ids(&found), [id(5)]);
    assert_eq!(
        LocalReport { damaged_octets: 0, ..report },
        LocalReport { messages: 1, set_aside: 5, ..LocalReport::default() }
    );
    assert!(report.damaged_octets > other.len() as u64);
    assert_eq!(files.contents(LocalName::Aside(id(0), Run(2))), kept, "kept as it was");
    assert_eq!(files.names().iter().filter(|name| name.folder() == Folder::Corrupt).count(), 5);
    let (found, report) = recover(&files, 3);
    assert_eq!((ids(&found), report.set_aside), (vec![id(5)], 0), "once");
}

#[test]
fn every_cut_of_a_file_is_damage_and_none_is_a_crash() {
    let (files, messages) = spooled(1);
    let id = messages[0].id;
    let whole = files.contents(LocalName::Message(id)).expect("there");
    for cut in 0..whole.len() {
        files.set_contents(LocalName::Message(id), whole[..cut].to_vec());
        assert_eq!(engine(&files, 2).load(id).expect_err("not whole"), damaged(id));
        let (found, report) = recover(&files, 2);
        assert_eq!((found.len(), report.set_aside), (0, 1), "cut at {cut}");
    }
}

#[test]
fn content_is_checked_when_it_is_read_and_set_aside_on_demand() {
    let (files, messages) = spooled(2);
    let id = messages[0].id;
    edit(&files, id, |octets| *octets.last_mut().expect("a body") ^= 1);
    let (found, report) = recover(&files, 2);
    assert_eq!((found.len(), report.set_aside), (2, 0), "contents are not read at the start");
    let engine = engine(&files, 2);
    assert_eq!(engine.load(id), Err(damaged(id)));
    assert!(engine.load(messages[1].id) == Ok(resident(&messages[1])));
    engine.set_aside(id).expect("moves");
    assert_eq!(engine.load(id), Err(SpoolError::NoSuchMessage { id }));
    engine.set_aside(id).expect("gone already");
    assert_eq!(engine.moved_aside(), 1, "once");
    files.crash(1);
    assert!(files.contents(LocalName::Aside(id, Run(2))).is_some(), "durably there");
    assert_eq!(ids(&recover(&files, 3).0), [messages[1].id]);
}

#[test]
fn a_move_to_corrupt_whose_sync_fails_is_an_error_and_counts_once() {
    let (files, messages) = spooled(1);
    let (engine, id) = (engine(&files, 2), messages[0].id);
    let before = files.calls();
    // The move, the sync of corrupt/, the sync of where it was.
    files.fail(2, false, 5, 1);
    let error = engine.set_aside(id).expect_err("not synced");
    assert!(matches!(&error, SpoolError::File { step: Step::Sync, errno: Some(5), .. }), "{error}");
    assert_eq!((files.calls() - before, engine.moved_aside()), (2, 1));
    engine.set_aside(id).expect("syncs what was moved");
    assert_eq!((files.calls() - before, engine.moved_aside()), (5, 1), "synced again, though there is nothing to move");
}

#[test]
fn what_does_not_read_is_left_and_tried_again_at_the_next_start() {
    let (files, messages) = spooled(3);
    files.break_file(LocalName::Message(messages[1].id));
    let (found, report) = recover(&files, 2);
    assert_eq!((found.len(), report.unreadable, report.set_aside), (2, 1, 0));
    let error = engine(&files, 2).load(messages[1].id).expect_err("broken");
    assert!(matches!(&error, SpoolError::File { step: Step::Read, errno: Some(5), .. }), "{error}");
    let path = LocalName::Message(messages[1].id).to_string();
    assert!(error.to_string().contains(&path), "the operator learns which file: {error}");
    files.heal();
    assert_eq!(recover(&files, 3).0.len(), 3);
}

#[test]
fn newer_foreign_and_unfinished_files_are_told_apart() {
    let (files, messages) = spooled(2);
    let newer = b"postrider-message 2 something else".to_vec();
    files.set_contents(LocalName::Message(messages[0].id), newer.clone());
    files.add_strange(Folder::Messages(7), "README");
    files.add_strange(Folder::Messages(7), "lost+found");
    let unfinished = sealed(77, 1, &body(77, 10));
    engine(&files, 1).write(&unfinished).expect("writes");
    engine(&files, 2).write(&sealed(78, 1, &body(78, 10))).expect("writes");
    let (found, report) = recover(&files, 2);
    let expected = LocalReport { messages: 1, newer: 1, strange: 2, unfinished: 1, ..LocalReport::default() };
    assert_eq!((ids(&found), report), (vec![messages[1].id], expected));
    assert_eq!(files.contents(LocalName::Message(messages[0].id)), Some(newer), "untouched");
    assert_eq!(files.contents(LocalName::New(unfinished.id, Run(1))), None, "never promised");
    engine(&files, 2).commit(&[sealed(78, 1, &body(78, 10)).id]).expect("its own are left alone");
    assert_eq!(recover(&files, 2).0.len(), 1, "and not recovered by the run that wrote them");
    assert_eq!(recover(&files, 3).0.len(), 2);
}

#[test]
fn of_more_marks_than_16_mib_the_last_count() {
    let (files, messages) = spooled(1);
    let id = messages[0].id;
    let engine = engine(&files, 1);
    engine.note(id, &[Mark::Attempt { id, attempts: 3, due: due(5) }]).expect("writes");
    let marks = files.contents(LocalName::Message(id)).expect("there").len() - engine_end(&files, id);
    edit(&files, id, |octets| octets.resize(octets.len() + (16 << 20) - marks, b'\n'));
    let (found, _) = recover(&files, 2);
    assert_eq!((found[0].attempts, found[0].due), (3, due(5)));
    edit(&files, id, |octets| octets.extend([b'\n'; 99]));
    engine.note(id, &[Mark::Attempt { id, attempts: 4, due: due(6) }]).expect("writes");
    let (found, report) = recover(&files, 2);
    assert_eq!((found[0].attempts, found[0].due, report.set_aside), (4, due(6), 0), "a sound message goes nowhere");
}

/// Where the content of a file ends.
fn engine_end(files: &FaultFiles, id: MessageId) -> usize {
    let line = header_octets(files, id);
    let message = engine(files, 9).load(id).expect("reads");
    line + message.head.len() + message.body.len()
}

#[test]
fn marks_of_messages_that_are_gone_mean_nothing() {
    let (files, messages) = spooled(1);
    let engine = engine(&files, 2);
    let id = messages[0].id;
    assert_eq!(engine.remove(id), Ok(true));
    assert_eq!(engine.remove(id), Ok(false), "gone already");
    engine.note(id, &[Mark::Attempt { id, attempts: 1, due: due(1) }]).expect("nothing to do");
    assert_eq!(files.names(), []);
    assert_eq!(engine.load(id), Err(SpoolError::NoSuchMessage { id }));
}

#[test]
fn an_intent_that_does_not_read_is_set_aside_and_stops_nothing() {
    let (files, messages) = spooled(1);
    let first = messages[0].id;
    for octets in [&b""[..], b"postrider-transaction 1 crc=00000000 count=1\n"] {
        files.set_contents(LocalName::Intent(first), octets.to_vec());
        assert!(engine(&files, 2).unfinished().expect("lists").is_empty());
        assert!(files.contents(LocalName::Aside(first, Run(2))).is_some());
    }
    files.set_contents(LocalName::Intent(first), Vec::new());
    files.break_file(LocalName::Intent(first));
    assert!(engine(&files, 3).unfinished().expect("lists").is_empty());
    assert_eq!(recover(&files, 3).0.len(), 1);
}

/// Files to which something else happens between two calls.
#[derive(Default)]
struct Between {
    files: FaultFiles,
    /// Another append's sync of the directory fails between our rename and our own sync.
    sync_fails: bool,
    /// This file is settled when it has just been opened, and written into for another message: what is read is that one.
    taken: Option<(LocalName, LocalName)>,
    /// So many calls find no descriptor.
    lacking: AtomicU32,
}

impl Between {
    fn has_means(&self) -> io::Result<()> {
        let lacks = self.lacking.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
        if lacks { Err(io::Error::from_raw_os_error(EMFILE)) } else { Ok(()) }
    }
}

const EMFILE: i32 = 24;

impl Files for Between {
    fn sync_names(&self, folder: Folder) -> io::Result<()> {
        if self.sync_fails {
            self.files.fail(1, false, 5, 1);
            let other = self.files.sync_names(folder);
            assert!(other.is_err(), "another append is refused");
            self.files.heal();
        }
        self.files.sync_names(folder)
    }

    fn create(&self, name: LocalName, parts: &[&[u8]]) -> io::Result<()> {
        self.files.create(name, parts)
    }
    fn is_reusable(&self, name: LocalName, octets_max: u64) -> io::Result<bool> {
        self.files.is_reusable(name, octets_max)
    }
    fn reuse(&self, name: LocalName, parts: &[&[u8]]) -> io::Result<()> {
        self.files.reuse(name, parts)
    }
    fn append(&self, name: LocalName, octets: &[u8]) -> io::Result<()> {
        self.files.append(name, octets)
    }
    fn rename(&self, from: LocalName, to: LocalName) -> io::Result<()> {
        self.files.rename(from, to)
    }
    fn remove(&self, name: LocalName) -> io::Result<()> {
        self.files.remove(name)
    }
    fn failed_syncs(&self, folder: Folder) -> u64 {
        self.files.failed_syncs(folder)
    }
    fn sync_all(&self) -> io::Result<()> {
        self.files.sync_all()
    }
}

impl ReadFiles for Between {
    fn list(&self, folder: Folder, found: &mut dyn FnMut(&str)) -> io::Result<()> {
        self.has_means()?;
        self.files.list(folder, found)
    }

    fn waits_out(&self, error: &io::Error) -> bool {
        error.raw_os_error() == Some(EMFILE)
    }

    fn open(&self, name: LocalName) -> io::Result<Box<dyn ReadFile>> {
        self.has_means()?;
        match self.taken.filter(|taken| taken.0 == name) {
            Some((_, other)) if self.files.remove(name).is_ok() => self.files.open(other),
            _ => self.files.open(name),
        }
    }
}

#[test]
fn a_sync_that_failed_for_another_refuses_this_one_too() {
    let engine = MessageFiles::new(Between { sync_fails: true, ..Between::default() }, Run(1), queue_of);
    let message = sealed(1, 1, &body(1, 10));
    engine.write(&message).expect("writes");
    let (error, _) = engine.commit(&[message.id]).expect_err("its name may be lost although its own sync succeeded");
    assert!(matches!(error, SpoolError::File { step: Step::Sync, .. }), "{error}");
}

#[test]
fn a_message_whose_file_is_anothers_by_now_is_gone_and_not_damaged() {
    let taken = || {
        let (files, messages) = spooled(2);
        let taken = Some((LocalName::Message(messages[0].id), LocalName::Message(messages[1].id)));
        (Between { files, taken, ..Between::default() }, messages[0].id, messages[1].id)
    };
    let (files, id, _) = taken();
    assert_eq!(load(&files, LocalName::Message(id)), Err(SpoolError::NoSuchMessage { id }));
    let (files, id, other) = taken();
    let seen = inspect(&files, queue_of, false).expect("lists");
    assert_eq!((ids(&seen.messages), seen.is_sound(), seen.faults.len()), (vec![other], true, 0), "{id} was settled");
    let (files, id, other) = taken();
    let engine = MessageFiles::new(files, Run(2), queue_of);
    let (mut found, mut report) = (Vec::new(), LocalReport::default());
    for folder in Folder::of_messages() {
        report.add(&engine.recover(folder, &mut |message| found.push(message)).expect("lists"));
    }
    assert_eq!((ids(&found), report), (vec![other], LocalReport { messages: 1, ..LocalReport::default() }), "{id}");
}

/// Sessions may have taken all descriptors: that says nothing about the files.
#[test]
fn what_cannot_be_opened_for_want_of_descriptors_is_asked_for_again() {
    for lacking in [1, 2, 70] {
        let (files, messages) = spooled(3);
        let engine =
            MessageFiles::new(Between { files, lacking: lacking.into(), ..Between::default() }, Run(2), queue_of);
        let (mut found, mut report) = (Vec::new(), LocalReport::default());
        for folder in Folder::of_messages() {
            report.add(&engine.recover(folder, &mut |message| found.push(message)).expect("lists"));
        }
        assert_eq!((found.len(), report), (messages.len(), LocalReport { messages: 3, ..LocalReport::default() }));
    }
}

#[test]
fn a_settled_messages_file_is_written_into_once_its_going_is_durable() {
    let (files, messages) = spooled(1);
    let engine = engine(&files, 2);
    let settled = messages[0].id;
    let folder = Folder::of(settled);
    let next = (1..).map(|n| sealed(n, 1, &body(n, 20))).filter(|next| Folder::of(next.id) == folder);
    let [early, second, third] = next.take(3).collect::<Vec<_>>().try_into().expect("three of one directory");
    assert_eq!((engine.retire(settled), engine.retire(settled)), (Ok(true), Ok(false)), "gone, and gone already");
    assert_eq!(engine.load(settled), Err(SpoolError::NoSuchMessage { id: settled }));
    engine.write(&early).expect("writes");
    assert_eq!(files.reuses(), 0, "a cut could bring the settled message back");
    engine.commit(&[early.id]).expect("commits, and syncs the directory");
    engine.write(&second).expect("writes");
    engine.commit(&[second.id]).expect("commits");
    assert_eq!(files.reuses(), 1);
    assert!(engine.load(second.id) == Ok(resident(&second)), "a shorter one than what the file held");
    let first_line = header_octets(&files, second.id);
    assert_eq!(files.contents(LocalName::Message(second.id)).map(|f| f.len()), Some(first_line + content(&second)));
    assert_eq!(files.names().len(), 2, "nothing else is left: {:?}", files.names());
    engine.retire(second.id).expect("goes");
    engine.sync_names(folder).expect("syncs");
    assert!(engine.remove_old_spares(folder), "it has just come");
    assert!(!engine.remove_old_spares(folder), "it waited long enough");
    engine.write(&third).expect("writes");
    assert_eq!(files.reuses(), 1, "into a new file");
    engine.retire(early.id).expect("goes");
    engine.remove_all_spares();
    assert_eq!(files.names(), [LocalName::New(third.id, Run(2))]);
}

#[test]
fn files_are_kept_in_bounds_and_one_that_cannot_be_written_into_refuses_nobody() {
    let files = FaultFiles::new();
    let engine = engine(&files, 1);
    let folder = Folder::of(sealed(1, 1, &body(1, 0)).id);
    let mut next = (1..).map(|n| sealed(n, 1, &body(n, 20))).filter(|next| Folder::of(next.id) == folder);
    let settled: Vec<Sealed> = next.by_ref().take(2_100).collect();
    for some in settled.chunks(100) {
        assert!(engine.append_each(some).iter().all(Result::is_ok));
    }
    settled.iter().for_each(|message| assert_eq!(engine.retire(message.id), Ok(true)));
    engine.sync_names(folder).expect("syncs");
    assert_eq!(files.names().len(), 2_048, "the others are removed");
    let [message, second] = [next.next(), next.next()].map(|next| next.expect("numbers do not end"));
    files.fail(1, false, 5, 1);
    assert!(engine.append_each(std::slice::from_ref(&message))[0].is_ok(), "a new file takes it");
    files.heal();
    assert_eq!((files.reuses(), files.names().len()), (0, 2_048), "what was not of use is gone");
    assert!(engine.append_each(std::slice::from_ref(&second))[0].is_ok());
    assert_eq!((files.reuses(), files.names().len()), (1, 2_048));
    // Behind the removal of each of them.
    files.fail(2_048, false, 28, 1);
    engine.probe(10).expect_err("the disk is full");
    assert_eq!(
        files.names(),
        [LocalName::Message(message.id), LocalName::Message(second.id)],
        "what was kept made room"
    );
    assert_eq!(engine.retire(second.id), Ok(true));
    assert_eq!(files.names(), [LocalName::Message(message.id)], "nor is anything kept now");
    engine.probe(10).expect("there is room");
    assert_eq!(engine.retire(message.id), Ok(true));
    assert!(files.contents(LocalName::New(message.id, Run(1))).is_some(), "files are kept again");
    let large = sealed(1_000_000, 1, &body(1, 300_000));
    engine.write(&large).expect("writes");
    engine.commit(&[large.id]).expect("commits");
    engine.retire(large.id).expect("goes");
    assert_eq!(files.names().len(), 1, "a large file is not kept");
}

/// Octets of the first line of a message's file.
fn header_octets(files: &FaultFiles, id: MessageId) -> usize {
    let octets = files.contents(LocalName::Message(id)).expect("there");
    octets.iter().position(|octet| *octet == b'\n').expect("a first line") + 1
}

fn content(sealed: &Sealed) -> usize {
    sealed.head.len() + sealed.body.len()
}

#[test]
fn the_golden_file_of_version_1_is_written_and_read_to_the_octet() {
    let files = FaultFiles::new();
    let engine = engine(&files, 0x0123_4567_89ab_cdef);
    let message = sealed(5, 3, &"\r\nA body.\r\n".into());
    engine.write(&message).expect("writes");
    engine.commit(&[message.id]).expect("commits");
    let id = message.id;
    let marks = [Mark::Attempt { id, attempts: 2, due: due(99) }, Mark::RecipientsDone { id, recipients: vec![0, 2] }];
    engine.note(id, &marks).expect("writes");
    let golden = include_bytes!("golden/v1-message-file");
    let written = files.contents(LocalName::Message(id)).expect("there");
    assert_eq!(String::from_utf8_lossy(&written), String::from_utf8_lossy(golden));
    files.set_contents(LocalName::Message(id), golden.to_vec());
    let (found, report) = recover(&files, 2);
    assert_eq!(report, LocalReport { messages: 1, ..LocalReport::default() });
    let RecoveredMessage { queue, place, size, attempts, due: at, recipients, settled, .. } = &found[0];
    assert_eq!((&**queue, *place, *size, *attempts, *at), ("q5", Place::OWN_FILE, 38, 2, due(99)));
    let pending: Vec<u16> = (0..*recipients).filter(|r| !settled.contains(*r)).collect();
    assert_eq!(pending, [1]);
    assert!(engine.load(id) == Ok(resident(&message)));
}

fn damaged(id: MessageId) -> SpoolError {
    SpoolError::Damaged { id, place: Place::OWN_FILE }
}
