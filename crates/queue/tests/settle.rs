//! The table of `settle`: outcomes in, records, marks and what comes next out.

mod support;

use clock::Duration;
use message::Message;
use queue::settle::{all_pending, expire, settle};
use queue::{Next, Outcome, Settlement, Verdict};
use record::RecordType::{self, Bounce, Delivery, Expiration, TransientFailure};
use smtp_wire::Reply;
use support::{Rig, config};

/// `d`elivered, `t`ransient, `p`ermanent, `-` no outcome, for each recipient in turn.
fn outcomes(row: &str) -> Vec<Outcome> {
    let outcome = |(recipient, letter): (usize, char)| {
        let (verdict, reply) = match letter {
            'd' => (Verdict::Delivered, Reply::new(250, "2.0.0 ok")),
            't' => (Verdict::Transient, Reply::new(451, "4.3.0 later")),
            'p' => (Verdict::Permanent, Reply::new(550, "5.1.1 never")),
            _ => return None,
        };
        Some(Outcome { recipient: recipient as u16, verdict, reply, command: Some(".".to_owned()) })
    };
    row.chars().enumerate().filter_map(outcome).collect()
}

fn settled(row: &str, attempts: u16, age_secs: u64) -> (Settlement, Message) {
    let mut rig = Rig::new();
    let mut message = rig.message(row.len());
    message.attempts = attempts;
    rig.now = rig.now.after(Duration::from_secs(age_secs));
    let config = config(serde_json::json!({"retry_interval": "10s", "max_age": "100s"}));
    (settle(&mut message, outcomes(row), &config, rig.now, 0), message)
}

fn entries(settlement: &Settlement) -> Vec<(RecordType, Vec<u16>)> {
    settlement.entries.iter().map(|e| (e.kind, e.recipients.clone())).collect()
}

#[test]
fn each_row_of_outcomes_has_its_records_marks_and_sequel() {
    let retry = Next::Retry(Duration::from_secs(10));
    type Row = (&'static str, Vec<(RecordType, Vec<u16>)>, Vec<u16>, Next);
    let rows: Vec<Row> = vec![
        ("d", vec![(Delivery, vec![0])], vec![0], Next::Done),
        ("p", vec![(Bounce, vec![0])], vec![0], Next::Done),
        ("t", vec![(TransientFailure, vec![0])], vec![], retry),
        ("ddd", vec![(Delivery, vec![0, 1, 2])], vec![0, 1, 2], Next::Done),
        ("dp", vec![(Delivery, vec![0]), (Bounce, vec![1])], vec![0, 1], Next::Done),
        ("tdt", vec![(TransientFailure, vec![0, 2]), (Delivery, vec![1])], vec![1], retry),
        ("pt", vec![(Bounce, vec![0]), (TransientFailure, vec![1])], vec![0], retry),
        ("d-", vec![(Delivery, vec![0])], vec![0], retry),
        ("--", vec![], vec![], retry),
    ];
    for (row, records, marks, next) in rows {
        let (settlement, message) = settled(row, 0, 0);
        assert_eq!(entries(&settlement), records, "{row}");
        assert_eq!(settlement.newly_settled, marks, "{row}");
        assert_eq!(settlement.next, next, "{row}");
        assert_eq!(message.is_settled(), next == Next::Done, "{row}");
        assert_eq!(message.settled.len(), marks.len(), "{row}");
        assert!(marks.iter().all(|r| message.settled.contains(*r)), "{row}");
    }
}

#[test]
fn a_message_too_old_for_another_attempt_expires_with_its_last_answer() {
    let (settlement, message) = settled("td", 0, 91);
    assert_eq!(entries(&settlement), [(TransientFailure, vec![0]), (Delivery, vec![1]), (Expiration, vec![0])]);
    assert_eq!((settlement.newly_settled, settlement.next), (vec![1, 0], Next::Done));
    assert!(message.is_settled());
    let expiration = &settlement.entries[2];
    assert_eq!(expiration.reply.code, 551);
    assert!(expiration.reply.text.ends_with("Last response: 451 4.3.0 later"), "{}", expiration.reply);
    let (settlement, _) = settled("t", 0, 90);
    assert_eq!(settlement.next, Next::Retry(Duration::from_secs(10)), "at exactly max_age it may still be tried");
    let (settlement, _) = settled("t", 4, 0);
    assert_eq!(settlement.next, Next::Done, "160 s of backoff are more than max_age");
}

#[test]
fn a_recipient_is_settled_once() {
    let mut rig = Rig::new();
    let mut message = rig.message(3);
    let config = config(serde_json::json!({}));
    let first = settle(&mut message, outcomes("dtp"), &config, rig.now, 0);
    assert_eq!(first.newly_settled, [0, 2]);
    let pending = all_pending(&message, Verdict::Permanent, &Reply::new(550, "gone"));
    assert_eq!(
        pending.iter().map(|o| o.recipient).collect::<Vec<_>>(),
        [1],
        "settled recipients have no more outcomes"
    );
    let second = settle(&mut message, pending, &config, rig.now, 0);
    assert_eq!((second.newly_settled, second.next), (vec![1], Next::Done));
    assert_eq!(expire(&mut message).recipients, Vec::<u16>::new(), "nobody is left to expire");
}

#[test]
fn different_replies_are_different_records() {
    let mut rig = Rig::new();
    let mut message = rig.message(3);
    let mut all = outcomes("ppp");
    all[1].reply = Reply::new(552, "5.2.2 full");
    let settlement = settle(&mut message, all, &config(serde_json::json!({})), rig.now, 0);
    assert_eq!(entries(&settlement), [(Bounce, vec![0, 2]), (Bounce, vec![1])]);
}

#[test]
fn a_message_with_constraints_of_its_own_is_tried_within_them_and_expires_by_them() {
    let mut rig = Rig::new();
    // 2026-09-21 14:13:20 UTC, a Monday; the window of Tuesday opens 35 200 s later.
    let window = serde_json::json!({"dow": "Tue", "tz": "UTC", "start": "00:00:00", "end": "01:00:00"});
    let end = |secs: i64| serde_json::json!({"expires": record::Timestamp::from_unix_micros((1_790_000_000 + secs) * 1_000_000).rfc3339().as_str()});
    let by = |secs: i64| serde_json::json!({"deliver_by": end(secs)["expires"]});
    let rows = [
        (serde_json::json!({}), Some(10)),
        (window.clone(), Some(35_200)),
        (end(11), Some(10)),
        (end(10), None),
        (serde_json::json!({"first_attempt": "2026-09-21T14:14:20Z"}), Some(60)),
        (by(11), Some(10)),
        (by(10), None),
    ];
    for (constraints, expected) in rows {
        let scheduling: config::Scheduling = config::parse("test", constraints.clone()).expect("sound");
        let mut message = rig.resident();
        if let Some(resident) = &mut message.resident {
            queue::schedule::set(&mut resident.meta, Some(&scheduling));
        }
        // Far beyond `max_age`: an end of its own counts alone.
        let max_age = if scheduling.expires.or(scheduling.deliver_by).is_some() { "1s" } else { "1 day" };
        let config = config(serde_json::json!({"retry_interval": "10s", "max_age": max_age}));
        let next = settle(&mut message, outcomes("t"), &config, rig.now, 0).next;
        let expected = expected.map_or(Next::Done, |secs| Next::Retry(Duration::from_secs(secs)));
        assert_eq!(next, expected, "{constraints}");
    }
}

#[test]
fn an_attempt_that_would_miss_the_deadline_is_made_before_it_once() {
    let mut rig = Rig::new();
    // The deadline is at 1 790 000 000 + 600 s, Monday 14:23:20 UTC.
    let window = serde_json::json!({"dow": "Mon", "tz": "UTC", "start": "14:00:00", "end": "14:20:00"});
    let rows = [
        ("20m", 0, None, Some(570)),
        ("9m", 0, None, Some(540)),
        ("20m", 540, None, Some(30)),
        ("20m", 541, None, None),
        ("20m", 570, None, None),
        ("20m", 0, Some(window), None),
    ];
    for (interval, at, window, expected) in rows {
        let mut constraints = window.unwrap_or_else(|| serde_json::json!({}));
        constraints["deliver_by"] = "2026-09-21T14:23:20Z".into();
        let scheduling: config::Scheduling = config::parse("test", constraints).expect("sound");
        let mut message = rig.resident();
        if let Some(resident) = &mut message.resident {
            queue::schedule::set(&mut resident.meta, Some(&scheduling));
        }
        let config = config(serde_json::json!({"retry_interval": interval}));
        // Without jitter: the middle of its band.
        let spread = if interval == "9m" { 13 } else { 30 };
        let now = rig.now.after(Duration::from_secs(at));
        let settlement = settle(&mut message, outcomes("t"), &config, now, spread);
        let next = expected.map_or(Next::Done, |secs| Next::Retry(Duration::from_secs(secs)));
        assert_eq!(settlement.next, next, "{interval} at {at}");
        let Some(end) = settlement.entries.iter().find(|entry| entry.kind == Expiration) else { continue };
        let text = end.reply.to_string();
        assert!(text.contains("Not delivered by 2026-09-21T14:23:20Z (deliver_by). Last response: 451"), "{text}");
    }
}
