//! Messages that were accepted into memory only (`deferred_spool`): when they are tried from there, and when they are spooled.

mod support;

use clock::Duration;
use message::{Message, MessageId};
use queue::{ConnKey, Effect, Place, QueueCore, QueueKey, QueueSettings, Take};
use smtp_wire::Reply;
use support::{PLACE, Rig, config, failure, path, route};

/// A queue with a way out over one connection.
fn open(rig: &mut Rig) -> QueueKey {
    let path = path(serde_json::json!({"connection_limit": 1}));
    rig.routed("d.test", config(serde_json::json!({})), route(&[("a", 1)], &path, 10_000))
}

/// A queue whose way out is not known.
fn shut(rig: &mut Rig) -> QueueKey {
    let key = rig.core.queue(rig.now.mono, "d.test");
    rig.core.configured(rig.now, key, config(serde_json::json!({})).into());
    key
}

fn admit(rig: &mut Rig) -> MessageId {
    let message = rig.volatile();
    let id = message.id;
    rig.core.admit(rig.now, "d.test", message);
    id
}

/// How often the spooler was called since the last look.
fn calls(rig: &mut Rig) -> usize {
    let (spool, others): (Vec<Effect>, _) = rig.drain().into_iter().partition(|e| matches!(e, Effect::Spool));
    rig.effects = others;
    spool.len()
}

/// The spooler takes everything and writes it; the ids.
fn spool(rig: &mut Rig) -> Vec<MessageId> {
    let taken = rig.core.take_unspooled(usize::MAX, usize::MAX);
    let ids = taken.iter().map(|q| q.message.id).collect();
    for mut queued in taken {
        queued.message.place = Some(PLACE);
        rig.core.spooled(rig.now, queued);
    }
    assert!(rig.core.take_unspooled(1, 1).is_empty(), "and goes home");
    ids
}

fn place(rig: &Rig, id: MessageId) -> Option<Place> {
    rig.core.census().find(|(other, _)| *other == id).map(|(_, place)| place)
}

fn conn(rig: &mut Rig) -> ConnKey {
    rig.opened().first().copied().expect("a connection is asked for")
}

#[test]
fn what_goes_out_at_once_is_never_spooled() {
    let mut rig = Rig::new();
    open(&mut rig);
    let id = admit(&mut rig);
    assert!(rig.core.volatile_octets() > 0 && rig.core.resident_bytes() == 0);
    let conn = conn(&mut rig);
    let queued = rig.take(conn).expect("it is ready");
    assert!(queued.message.id == id && queued.message.is_volatile() && queued.message.resident.is_some());
    rig.core.forget(rig.now.mono, &queued);
    rig.pass(Duration::from_secs(100));
    assert_eq!((calls(&mut rig), rig.core.volatile_octets(), rig.core.unspooled()), (0, 0, 0));
}

#[test]
fn what_must_wait_for_its_time_is_spooled_first() {
    let mut rig = Rig::new();
    open(&mut rig);
    let mut message = rig.volatile();
    message.due = rig.now.wall + Duration::from_secs(60);
    let id = message.id;
    rig.core.admit(rig.now, "d.test", message);
    assert_eq!((calls(&mut rig), place(&rig, id)), (1, Some(Place::Unspooled)));
    assert_eq!(spool(&mut rig), [id]);
    assert_eq!((place(&rig, id), rig.core.resident_bytes()), (Some(Place::Waiting), 0), "its content left memory");
    assert_eq!(rig.core.resident_messages(), 0);
    rig.pass(Duration::from_secs(61));
    assert_eq!(place(&rig, id), Some(Place::Ready));
}

#[test]
fn a_retry_is_spooled_first_and_nobody_gets_it_meanwhile() {
    let mut rig = Rig::new();
    open(&mut rig);
    admit(&mut rig);
    let conn = conn(&mut rig);
    let queued = rig.take(conn).expect("it is ready");
    let id = queued.message.id;
    rig.core.retry(rig.now, queued, Duration::from_secs(10));
    assert_eq!((calls(&mut rig), place(&rig, id)), (1, Some(Place::Unspooled)));
    let taken = rig.core.take_unspooled(10, usize::MAX);
    rig.pass(Duration::from_secs(20));
    assert!(rig.take(conn).is_none(), "nobody delivers what is being written");
    for mut queued in taken {
        queued.message.place = Some(PLACE);
        rig.core.spooled(rig.now, queued);
    }
    assert_eq!(rig.take(conn).map(|q| q.message.id), Some(id));
}

#[test]
fn while_the_disk_refuses_what_is_due_is_tried_from_memory() {
    let mut rig = Rig::new();
    open(&mut rig);
    let (mut now, mut later) = (rig.volatile(), rig.volatile());
    now.due = rig.now.wall + Duration::from_secs(1);
    later.due = rig.now.wall + Duration::from_secs(60);
    let ids = [now.id, later.id];
    [now, later].into_iter().for_each(|m| rig.core.admit(rig.now, "d.test", m));
    let taken = rig.core.take_unspooled(10, usize::MAX);
    rig.pass(Duration::from_secs(2));
    rig.core.not_spooled(rig.now, taken);
    assert_eq!(ids.map(|id| place(&rig, id)), [Some(Place::Ready), Some(Place::Unspooled)]);
    let again = rig.core.take_unspooled(10, usize::MAX);
    assert_eq!(again.iter().map(|q| q.message.id).collect::<Vec<_>>(), [ids[1]], "without another call");
}

/// Nobody delivers any more: what the spool refused once is for the spooler's next try, due or not.
#[test]
fn at_the_end_what_is_due_waits_for_the_spooler_too() {
    let mut rig = Rig::new();
    open(&mut rig);
    let mut now = rig.volatile();
    now.due = rig.now.wall + Duration::from_secs(1);
    let (due, never) = (now.id, rig.volatile());
    let too_big = never.id;
    [now, never].into_iter().for_each(|m| rig.core.admit(rig.now, "d.test", m));
    assert!(rig.core.has_volatile_room());
    rig.core.spool_the_rest(rig.now);
    assert!(!rig.core.has_volatile_room(), "nothing is accepted into memory");
    rig.pass(Duration::from_secs(2));
    let mut taken = rig.core.take_unspooled(10, usize::MAX);
    let refused = taken.extract_if(.., |queued| queued.message.id == too_big).next().expect("both are there");
    rig.core.not_spooled(rig.now, taken);
    rig.core.too_big_to_spool(rig.now, refused);
    let again = rig.core.take_unspooled(10, usize::MAX);
    assert_eq!(again.iter().map(|q| q.message.id).collect::<Vec<_>>(), [due, too_big]);
}

#[test]
fn the_spooler_is_called_once_until_it_went_home() {
    let mut rig = Rig::new();
    shut(&mut rig);
    for _ in 0..3 {
        let mut message = rig.volatile();
        message.due = rig.now.wall + Duration::from_secs(60);
        rig.core.admit(rig.now, "d.test", message);
    }
    assert_eq!(calls(&mut rig), 1);
    assert_eq!(rig.core.take_unspooled(2, usize::MAX).len(), 2, "at most so many");
    assert_eq!(rig.core.take_unspooled(2, 1).len(), 1, "at most so many octets, and one more");
    assert!(rig.core.take_unspooled(2, usize::MAX).is_empty());
    let mut message = rig.volatile();
    message.due = rig.now.wall + Duration::from_secs(60);
    rig.core.admit(rig.now, "d.test", message);
    assert_eq!(calls(&mut rig), 1, "it went home and is called again");
}

#[test]
fn what_waits_for_its_way_is_spooled_after_five_seconds() {
    let mut rig = Rig::new();
    shut(&mut rig);
    let id = admit(&mut rig);
    rig.pass(Duration::from_millis(4_900));
    assert_eq!((calls(&mut rig), place(&rig, id)), (0, Some(Place::Due)));
    rig.pass(Duration::from_millis(300));
    assert_eq!((calls(&mut rig), place(&rig, id)), (1, Some(Place::Unspooled)));
    assert_eq!(spool(&mut rig), [id]);
    assert_eq!(place(&rig, id), Some(Place::Due));
}

#[test]
fn what_stands_in_a_ready_queue_is_spooled_after_five_seconds_and_keeps_its_place_in_the_limit() {
    let mut rig = Rig::new();
    let path = path(serde_json::json!({"connection_limit": 1, "max_ready": 1}));
    rig.routed("d.test", config(serde_json::json!({})), route(&[("a", 1)], &path, 10_000));
    let ids = [admit(&mut rig), admit(&mut rig)];
    assert_eq!(ids.map(|id| place(&rig, id)), [Some(Place::Ready), Some(Place::Due)]);
    rig.pass(Duration::from_millis(5_200));
    assert_eq!(spool(&mut rig).len(), 2);
    assert_eq!(rig.ready(), [("a".to_owned(), 1)]);
    assert_eq!(rig.core.census().count(), 2);
}

#[test]
fn short_memory_spools_everything_and_accepts_nothing_into_memory() {
    let mut rig = Rig::new();
    let key = shut(&mut rig);
    let ids = [admit(&mut rig), admit(&mut rig)];
    assert!(rig.core.has_volatile_room());
    assert!(rig.core.set_lean(rig.now, true) && !rig.core.set_lean(rig.now, true), "it begins once");
    assert_eq!((calls(&mut rig), rig.core.has_volatile_room()), (1, false));
    assert_eq!(spool(&mut rig), ids);
    assert_eq!(rig.core.resident_bytes() + rig.core.volatile_octets(), 0);
    assert_eq!(rig.core.resident_messages(), 0);
    // What is in hand and comes back does not stay in memory either.
    rig.core.routed(rig.now, key, route(&[("a", 1)], &path(serde_json::json!({})), 10_000));
    let conn = conn(&mut rig);
    let mut queued = rig.take(conn).expect("it is ready");
    queued.message = Message { id: queued.message.id, ..rig.volatile() };
    rig.core.give_back(rig.now, conn, queued);
    assert_eq!((calls(&mut rig), rig.core.unspooled()), (1, 1));
    spool(&mut rig);
    rig.core.set_lean(rig.now, false);
    assert!(rig.core.has_volatile_room());
}

#[test]
fn at_the_end_everything_is_spooled_wherever_it_is() {
    let mut rig = Rig::new();
    let key = open(&mut rig);
    let ready = admit(&mut rig);
    let conn = conn(&mut rig);
    let in_hand = rig.take(conn).expect("it is ready");
    let failing = admit(&mut rig);
    rig.core.site_failed(rig.now, conn, Reply::new(451, "4.4.4 none"));
    rig.core.unroutable(rig.now, key, failure(451));
    let due = admit(&mut rig);
    assert_eq!((place(&rig, failing), place(&rig, due)), (Some(Place::Ending), Some(Place::Due)));
    rig.core.abandoned(in_hand);
    rig.core.spool_all(rig.now);
    let mut all = vec![ready, failing, due];
    all.sort();
    let mut taken = spool(&mut rig);
    taken.sort();
    assert_eq!(taken, all);
}

#[test]
fn an_abandoned_message_that_the_spool_has_is_let_go_of() {
    let mut rig = Rig::new();
    open(&mut rig);
    rig.admit("d.test", 1);
    let conn = conn(&mut rig);
    let Take::Message(queued) = rig.core.take(rig.now, conn) else { panic!("it is ready") };
    rig.core.abandoned(*queued);
    assert_eq!((calls(&mut rig), rig.core.unspooled(), rig.core.census().count()), (0, 0, 0));
}

#[test]
fn a_spooler_that_is_behind_closes_the_way_into_memory() {
    let mut rig = Rig::new();
    // Memory is not what is scarce here.
    rig.core = QueueCore::new(rig.now.mono, QueueSettings { resident_bytes_max: 1 << 30, seed: 7 });
    shut(&mut rig);
    for count in 0..UNSPOOLED_MAX {
        assert!(rig.core.has_volatile_room(), "at {count}");
        let mut message = rig.volatile();
        message.due = rig.now.wall + Duration::from_secs(60);
        rig.core.admit(rig.now, "d.test", message);
    }
    assert!(!rig.core.has_volatile_room());
    rig.core.take_unspooled(1, usize::MAX);
    assert!(rig.core.has_volatile_room());
}

/// As in `volatile.rs`.
const UNSPOOLED_MAX: usize = 4096;
