//! A commit waits for a message whose policy computes at that moment.

mod support;

use clock::WallTime;
use engine::Threads;
use engine::pressure::Pressure;
use message::Draft;
use policy::{Answer, ConnMeta, Event, Interest, Policy, ready};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use store::{Linger, Options};
use support::{listen, over, send, until};

/// Has the first message computed until it is told to go on; none is tried before 2100.
struct Computes {
    has_begun: Arc<AtomicBool>,
    goes: Mutex<Receiver<()>>,
}

impl Policy for Computes {
    fn interest(&self) -> Interest {
        Interest::NONE.with(Event::MessageReceived)
    }

    fn smtp_server_message_received(&self, mut draft: Draft, _conn: ConnMeta) -> Answer<'_, Draft> {
        draft.due = WallTime::from_unix_secs(4_102_444_800);
        Box::pin(async move {
            if !self.has_begun.swap(true, Ordering::SeqCst) {
                // Others may need this thread to hear of anything.
                tokio::task::block_in_place(|| self.goes.lock().expect("one asks").recv().expect("told to go on"));
            }
            ready(draft).await
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_messages_share_a_commit_when_one_is_computed_while_the_other_waits() {
    let scratch = tempfile::tempdir().expect("scratch");
    let (go, goes) = channel();
    let has_begun = Arc::new(AtomicBool::new(false));
    let policy = Arc::new(Computes { has_begun: Arc::clone(&has_begun), goes: Mutex::new(goes) });
    let patient = Linger { few: Duration::from_secs(60), many: Duration::from_secs(60) };
    let options = Options { linger: patient, fit_disk: false, ..Options::default() };
    let logs = (Vec::new(), Pressure::unlimited());
    let (relay, spool) = over(Threads::current(), policy, scratch.path(), options, logs);
    until("nothing of before is left to do", || !relay.is_recovering()).await;
    let address = listen(&relay).await;
    let content = "Subject: x\r\n\r\nx\r\n.\r\n";
    let first = tokio::spawn(send(address, content));
    until("its policy computes", || has_begun.load(Ordering::SeqCst)).await;
    let second = tokio::spawn(send(address, content));
    until("the other one waits", || spool.stats().queued == 1).await;
    go.send(()).expect("it computes");
    for answers in [first.await, second.await] {
        let answers = answers.expect("no panic");
        assert!(answers.lines().last().is_some_and(|last| last.starts_with("250 ")), "{answers}");
    }
    until("the figures are there", || spool.stats().appended_messages == 2).await;
    assert_eq!(spool.stats().last_batch, 2);
    drop(relay);
}
