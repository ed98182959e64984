//! What transcripts cannot say: replies that come too early, huge replies, deadlines, shapes of
//! writes, copies.

use bytes::{Buf, Bytes};
use clock::{Duration, Instant};
use smtp_client::{
    Capabilities, CloseReason, Closing, Job, Mailbox, Outcome, Phase, ReversePath, Session, Settings, Step, TlsMode,
    TlsStatus, Verdict,
};
use std::io::IoSlice;
use std::sync::Arc;

const T0: Instant = Instant::ZERO;

fn job(ticket: u64) -> Job {
    Job {
        ticket,
        sender: ReversePath::parse("s@me.example").expect("sound"),
        recipients: vec![Mailbox::parse("a@you.example").expect("sound")],
        head: Bytes::from_static(b"Subject: x\r\n\r\n"),
        body: Bytes::from_static(b"body\r\n").into(),
        dsn: None,
        needs_8bit: false,
        requiretls: false,
        needs_smtputf8: false,
    }
}

fn write_all(session: &mut Session) -> Vec<u8> {
    let output = session.output();
    let mut sent = Vec::new();
    while output.has_remaining() {
        sent.extend_from_slice(output.chunk());
        output.advance(output.chunk().len());
    }
    sent
}

/// A session with PIPELINING that is ready for jobs.
fn ready() -> Session {
    let mut session = Session::new(T0, Arc::new(Settings::default()));
    session.feed(T0, b"220 hi\r\n");
    write_all(&mut session);
    session.feed(T0, b"250-hi\r\n250 PIPELINING\r\n");
    assert_eq!(session.next(T0), Step::Ready);
    session
}

/// A session whose first job's content is queued and not written.
fn with_content_queued() -> Session {
    let mut session = ready();
    session.begin(T0, job(1));
    write_all(&mut session);
    session.feed(T0, b"250 ok\r\n250 ok\r\n354 go\r\n");
    session
}

fn outcome(session: &mut Session) -> Outcome {
    match session.next(T0) {
        Step::Outcome(outcome) => outcome,
        other => panic!("expected an outcome, got {other:?}"),
    }
}

fn close(session: &mut Session) -> Closing {
    match session.next(T0) {
        Step::Close(closing) => closing,
        other => panic!("expected the end, got {other:?}"),
    }
}

#[test]
fn success_before_the_final_dot_was_written_is_no_delivery() {
    // At each octet written of `Subject: x`, empty line, `body`, `.`, but not the last.
    for written in [0, 1, 5, 19, 20, 21, 22] {
        let mut session = with_content_queued();
        session.output().advance(written);
        session.feed(T0, b"250 thanks\r\n");
        assert_eq!(outcome(&mut session).results[0].verdict, Verdict::Transient, "{written}");
        assert_eq!(close(&mut session).why, CloseReason::ProtocolViolation);
    }
    let mut session = with_content_queued();
    write_all(&mut session);
    session.feed(T0, b"250 thanks\r\n");
    assert_eq!(outcome(&mut session).results[0].verdict, Verdict::Delivered);
}

#[test]
fn success_that_began_before_the_final_dot_is_no_delivery() {
    let mut session = ready();
    session.begin(T0, job(1));
    write_all(&mut session);
    session.feed(T0, b"250 ok\r\n250 ok\r\n354 go\r\n25");
    write_all(&mut session);
    session.feed(T0, b"0 thanks\r\n");
    assert_eq!(outcome(&mut session).results[0].verdict, Verdict::Unknown, "the dot was written since");
    assert_eq!(close(&mut session).why, CloseReason::ProtocolViolation);
}

#[test]
fn an_early_refusal_counts_and_ends_the_connection() {
    for (reply, verdict) in
        [("552 5.3.4 too big", Verdict::Permanent), ("451 disk", Verdict::Transient), ("421 bye", Verdict::Transient)]
    {
        let mut session = with_content_queued();
        session.output().advance(3);
        session.feed(T0, format!("{reply}\r\n").as_bytes());
        let outcome = outcome(&mut session);
        assert_eq!((outcome.results[0].verdict, outcome.results[0].local), (verdict, false), "{reply}");
        assert_eq!(outcome.results[0].reply.to_single_line(), reply);
        close(&mut session);
        assert!(session.output().is_empty(), "the rest of the content is not written");
    }
}

#[test]
fn a_connection_lost_with_the_dot_unwritten_is_transient_not_unknown() {
    let verdict_after = |unwritten: usize| {
        let mut session = with_content_queued();
        let all = session.output().remaining();
        session.output().advance(all - unwritten);
        session.connection_lost(T0, "reset");
        outcome(&mut session).results[0].verdict
    };
    assert_eq!(verdict_after(1), Verdict::Transient);
    assert_eq!(verdict_after(0), Verdict::Unknown);
}

#[test]
fn a_stale_connection_costs_the_next_job_nothing() {
    // The server's 421 for idling comes after the next job began but before it was written.
    let mut session = with_content_queued();
    write_all(&mut session);
    session.feed(T0, b"250 ok\r\n");
    outcome(&mut session);
    session.begin(T0, job(2));
    session.feed(T0, b"421 you were idle\r\n");
    assert_eq!(outcome(&mut session).results[0].verdict, Verdict::NotAttempted);
    assert_eq!(close(&mut session).why, CloseReason::ServiceClosing);
}

#[test]
fn a_reply_to_nothing_is_not_about_the_next_job() {
    let mut session = Session::new(T0, Arc::new(Settings { enable_rset: false, ..Settings::default() }));
    session.feed(T0, b"220 hi\r\n");
    write_all(&mut session);
    session.feed(T0, b"250 hi\r\n");
    session.begin(T0, job(1));
    for reply in [&b"250 ok\r\n"[..], b"250 ok\r\n", b"354 go\r\n"] {
        write_all(&mut session);
        session.feed(T0, reply);
    }
    assert!(!session.can_begin(), "without PIPELINING nothing can travel behind the dot");
    write_all(&mut session);
    session.feed(T0, b"250 ok\r\n");
    outcome(&mut session);
    session.begin(T0, job(2));
    session.feed(T0, b"250 ok again\r\n");
    assert_eq!(outcome(&mut session).results[0].verdict, Verdict::NotAttempted);
    assert_eq!(close(&mut session).why, CloseReason::ProtocolViolation);
}

#[test]
fn no_job_begins_while_the_reply_to_data_is_awaited() {
    let mut session = ready();
    session.begin(T0, job(1));
    write_all(&mut session);
    session.feed(T0, b"250 ok\r\n550 no\r\n");
    assert!(!session.can_begin());
    session.feed(T0, b"354 go\r\n");
    assert!(session.can_begin(), "behind the bare dot one can");
}

#[test]
fn huge_replies_are_read_in_bounded_memory() {
    let line = [b"250 ".to_vec(), b"x".repeat(1024 * 1024), b"\r\n".to_vec()].concat();
    let lines = [b"250-xxxxxxxx\r\n".repeat(80_000), b"250 end\r\n".to_vec()].concat();
    for reply in [line, lines] {
        let mut session = with_content_queued();
        write_all(&mut session);
        for chunk in reply.chunks(16 * 1024) {
            session.feed(T0, chunk);
        }
        let outcome = outcome(&mut session);
        assert_eq!(outcome.results[0].verdict, Verdict::Delivered);
        assert!(outcome.results[0].reply.text.len() <= 4096);
    }
}

#[test]
fn one_write_carries_content_and_the_next_envelope_without_a_copy() {
    let mut session = with_content_queued();
    assert!(session.can_begin());
    session.begin(T0, job(2));
    assert!(!session.can_begin(), "one body unacknowledged and one envelope are the most");
    let given = job(1);
    let mut slices = [IoSlice::new(b""); 8];
    let output = session.output();
    let count = output.chunks_vectored(&mut slices);
    assert_eq!(count, 3);
    assert_eq!((slices[0].as_ptr(), slices[1].as_ptr()), (given.head.as_ptr(), given.body.as_ptr()));
    assert_eq!(&*slices[2], b".\r\nRSET\r\nMAIL FROM:<s@me.example>\r\nRCPT TO:<a@you.example>\r\nDATA\r\n");
}

#[test]
fn deadlines_follow_the_phase() {
    let after = |s: u64| Some(T0 + Duration::from_secs(s));
    let mut session = Session::new(T0, Arc::new(Settings::default()));
    assert_eq!((session.phase(), session.deadline()), (Phase::Banner, after(60)));
    session.feed(T0, b"220 hi\r\n");
    assert_eq!((session.phase(), session.deadline()), (Phase::Ehlo, after(300)));
    write_all(&mut session);
    session.feed(T0, b"250-hi\r\n250 STARTTLS\r\n");
    assert_eq!((session.phase(), session.deadline()), (Phase::StartTls, after(5)));
    let mut session = ready();
    assert_eq!((session.phase(), session.deadline()), (Phase::Idle, None));
    session.begin(T0, job(1));
    assert_eq!((session.phase(), session.deadline()), (Phase::MailFrom, after(300)));
    write_all(&mut session);
    let mail_answered = T0 + Duration::from_secs(100);
    session.feed(mail_answered, b"250 ok\r\n");
    assert_eq!((session.phase(), session.deadline()), (Phase::RcptTo, after(400)));
    let mut session = with_content_queued();
    assert_eq!((session.phase(), session.deadline()), (Phase::DataDot, after(300)));
    session.begin(T0 + Duration::from_secs(1), job(2));
    assert_eq!(session.deadline(), after(300), "an envelope queued behind the dot wins it no time");
    let mut session = with_content_queued();
    // Octets that leave move it; octets that come without ending a reply do not.
    let later = T0 + Duration::from_secs(200);
    session.output().advance(5);
    session.next(later);
    assert_eq!(session.deadline(), Some(later + Duration::from_secs(300)));
    write_all(&mut session);
    session.next(later);
    session.feed(later + Duration::from_secs(100), b"250-still\r\n250-th");
    assert_eq!(session.deadline(), Some(later + Duration::from_secs(300)));
    session.feed(later, b"inking\r\n250 ok\r\n");
    session.next(later);
    session.finish(later);
    assert_eq!((session.phase(), session.deadline()), (Phase::Quit, Some(later + Duration::from_secs(5))));
    session.connection_lost(later, "closed");
    assert_eq!((session.phase(), session.deadline()), (Phase::Closed, None));
}

#[test]
fn data_in_clear_while_the_handshake_runs_voids_the_session() {
    let settings = Settings { tls: TlsMode::Required, ..Settings::default() };
    let mut session = Session::new(T0, Arc::new(settings));
    session.feed(T0, b"220 hi\r\n");
    write_all(&mut session);
    session.feed(T0, b"250-hi\r\n250 STARTTLS\r\n");
    write_all(&mut session);
    session.feed(T0, b"220 go\r\n");
    assert_eq!(session.next(T0), Step::StartTls);
    session.feed(T0, b"250 injected\r\n");
    assert_eq!(close(&mut session).why, CloseReason::ProtocolViolation);
    session.tls_started(T0, true);
    assert!(matches!(session.next(T0), Step::Close(_)) && session.is_closed());
}

#[test]
fn capabilities_in_clear_are_forgotten_under_tls() {
    let mut session = Session::new(T0, Arc::new(Settings::default()));
    session.feed(T0, b"220 hi\r\n");
    write_all(&mut session);
    session.feed(T0, b"250-hi\r\n250-SIZE 5\r\n250 STARTTLS\r\n");
    write_all(&mut session);
    session.feed(T0, b"220 go\r\n");
    session.tls_started(T0, true);
    assert_eq!(session.capabilities(), &Capabilities::default());
    assert_eq!(session.tls(), &TlsStatus::Verified);
}

#[test]
fn a_refused_starttls_is_remembered() {
    let settings = Settings { tls: TlsMode::OpportunisticInsecure, ..Settings::default() };
    let mut session = Session::new(T0, Arc::new(settings));
    session.feed(T0, b"220 hi\r\n");
    write_all(&mut session);
    session.feed(T0, b"250-hi\r\n250 STARTTLS\r\n");
    write_all(&mut session);
    session.feed(T0, b"454 4.7.0 no key\r\n");
    assert!(matches!(session.tls(), TlsStatus::Refused(reply) if reply.code == 454));
    assert_eq!(session.next(T0), Step::Ready);
}

#[test]
fn internal_texts_say_what_and_when() {
    let mut session = with_content_queued();
    write_all(&mut session);
    session.connection_lost(T0, "connection reset by peer");
    let text = outcome(&mut session).results[0].reply.to_single_line();
    assert_eq!(text, "400 KumoMTA internal: connection reset by peer, waiting for the reply to the final dot");
}

#[test]
fn a_configured_name_cannot_inject_commands() {
    let settings = Settings { ehlo_domain: "me\r\nMAIL FROM:<x>\r\n".into(), ..Settings::default() };
    let mut session = Session::new(T0, Arc::new(settings));
    session.feed(T0, b"220 hi\r\n");
    assert_eq!(write_all(&mut session), b"EHLO meMAILFROM:<x>\r\n");
}

#[test]
fn a_job_without_recipients_is_over_at_once() {
    let mut session = ready();
    session.begin(T0, Job { recipients: Vec::new(), ..job(9) });
    assert_eq!(session.next(T0), Step::Outcome(Outcome { ticket: 9, results: Vec::new() }));
    assert_eq!(session.next(T0), Step::Ready);
}

#[test]
fn finish_before_the_session_was_ready_ends_it() {
    let mut session = Session::new(T0, Arc::new(Settings::default()));
    session.finish(T0);
    assert_eq!(close(&mut session).why, CloseReason::Finished);
}
