//! Reports of periods that are over, with DNS and queues of a table.

use super::*;
use crate::courier::tests::{World, courier};
use crate::journal::Journal;
use crate::kind::tests::{dmarc_row, policy, room, row};
use reports::Tally;
use std::sync::atomic::Ordering;

struct Setup {
    dir: tempfile::TempDir,
    world: Arc<World>,
    metrics: Metrics,
}

impl Setup {
    fn new() -> Setup {
        let dir = tempfile::tempdir().expect("scratch");
        Setup { dir, world: Arc::default(), metrics: Metrics::new().expect("metrics") }
    }

    fn sender<K: Reported>(&self) -> Sender<K> {
        let dir = self.dir.path().to_owned();
        let collector = Collector::start(dir.clone(), 60, room(100), &self.metrics).expect("started");
        let reporter = Reporter {
            org_name: "o".to_owned(),
            email: "d@r.test".to_owned(),
            extra_contact_info: None,
            submitter: "r.test".to_owned(),
            node: "n1".to_owned(),
        };
        let courier = Arc::new(courier(&self.world));
        Sender::new((dir, 0), (reporter, None), Arc::new(collector), courier, self.metrics.clone())
    }

    fn counted<K: Kind>(&self, period: Period, domain: &str, policy: &K::Policy, row: &K::Row) {
        let mut journal: Journal<K> =
            Journal::open(self.dir.path(), period, &mut Tally::new(room(100))).expect("opened");
        journal.append([(domain, policy, Some(row), 1)].into_iter()).expect("written");
    }

    fn count(&self, kind: &str, outcome: &str) -> u64 {
        self.metrics.domain_reports.reports(kind, outcome).get()
    }

    fn files(&self, kind: &str) -> usize {
        let names = std::fs::read_dir(self.dir.path()).expect("listed").flatten();
        let current = Period::at(now_secs(), 60).begin_secs().to_string();
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter(|name| name.starts_with(&format!("{kind}-")) && !name.contains(&current)).count()
    }
}

/// Long over, and not so long that it is given up.
fn ended() -> Period {
    Period::at(now_secs() - 3600, 60)
}

#[tokio::test]
async fn a_report_goes_once_to_each_who_wants_it() {
    let setup = Setup::new();
    let period = ended();
    setup.world.says("a.test._report._dmarc.silent.test", None);
    let rua = "mailto:r@a.test,mailto:r@stranger.test,mailto:r@silent.test";
    setup.counted::<Dmarc>(period, "a.test", &policy(rua), &dmarc_row());
    setup.counted::<Dmarc>(period, "none.test", &policy(""), &dmarc_row());
    let mut sender = setup.sender::<Dmarc>();
    sender.pass(now_secs()).await.expect("a pass");
    let taken = setup.world.taken();
    assert_eq!(taken.len(), 1);
    assert_eq!((taken[0].recipient.as_str(), taken[0].kind, &taken[0].sender), ("r@a.test", "dmarc", &None));
    assert_eq!((setup.count("dmarc", "sent"), setup.count("dmarc", "unverified")), (1, 1));
    assert_eq!(setup.files("dmarc"), 2, "one waits for DNS");
    // The program ends here; its successor knows what was sent.
    sender.collector.close();
    setup.world.says("a.test._report._dmarc.silent.test", Some("v=DMARC1"));
    let mut sender = setup.sender::<Dmarc>();
    sender.pass(now_secs()).await.expect("a pass");
    let to: Vec<String> = setup.world.taken().into_iter().map(|message| message.recipient).collect();
    assert_eq!(to, ["r@silent.test"]);
    assert_eq!(setup.files("dmarc"), 0, "all is done");
}

#[tokio::test]
async fn what_cannot_be_sent_is_tried_again_and_given_up_after_a_day() {
    let setup = Setup::new();
    let period = ended();
    setup.world.says("_smtp._tls.a.test", Some("v=TLSRPTv1; rua=mailto:r@a.test"));
    setup.counted::<Tls>(period, "a.test", &(), &row("a.test"));
    setup.counted::<Tls>(period, "silent.test", &(), &row("a.test"));
    setup.counted::<Tls>(period, "none.test", &(), &row("a.test"));
    setup.world.says("_smtp._tls.silent.test", None);
    setup.world.is_full.store(true, Ordering::Relaxed);
    let mut sender = setup.sender::<Tls>();
    let now = now_secs();
    sender.pass(now).await.expect("a pass");
    setup.world.is_full.store(false, Ordering::Relaxed);
    sender.pass(now + RETRY_SECS - 1).await.expect("a pass");
    assert!(setup.world.taken().is_empty(), "not yet");
    sender.pass(now + RETRY_SECS).await.expect("a pass");
    assert_eq!(setup.world.taken().len(), 1);
    sender.pass(period.end_secs() + GIVE_UP_SECS - 1).await.expect("a pass");
    assert_eq!((setup.files("tls"), setup.count("tls", "expired")), (2, 0));
    sender.pass(period.end_secs() + GIVE_UP_SECS).await.expect("a pass");
    assert_eq!((setup.files("tls"), setup.count("tls", "expired")), (0, 1));
}

#[tokio::test]
async fn nothing_is_sent_of_a_period_that_is_not_over() {
    let setup = Setup::new();
    setup.world.says("_smtp._tls.a.test", Some("v=TLSRPTv1; rua=mailto:r@a.test"));
    let mut sender = setup.sender::<Tls>();
    let current = Period::at(sender.collector.began_secs(), 60);
    setup.counted::<Tls>(current, "a.test", &(), &row("a.test"));
    sender.pass(current.end_secs() + 30).await.expect("a pass");
    assert!(setup.world.taken().is_empty(), "the thread may still write to it");
}

/// Names about which nobody says anything, on nearly all places, one server that takes the connection and nothing else: everybody else's reports do
/// not wait for them, and they themselves are left after a time.
#[tokio::test(start_paused = true)]
async fn who_never_answers_holds_up_nobody() {
    let setup = Setup::new();
    let period = ended();
    for number in 0..SENDING_MAX - 1 {
        let name = format!("_smtp._tls.silent{number}.test");
        setup.world.silent.lock().unwrap_or_else(PoisonError::into_inner).insert(name);
        setup.counted::<Tls>(period, &format!("silent{number}.test"), &(), &row("a.test"));
    }
    for number in 0..50 {
        setup.world.says(&format!("_smtp._tls.good{number}.test"), Some("v=TLSRPTv1; rua=mailto:r@good.test"));
        setup.counted::<Tls>(period, &format!("good{number}.test"), &(), &row("a.test"));
    }
    let mut sender = setup.sender::<Tls>();
    // Only a wait for strangers moves this clock.
    let begun = Instant::now();
    let world = setup.world.clone();
    let all_good = async {
        while world.taken.lock().unwrap_or_else(PoisonError::into_inner).len() < 50 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        begun.elapsed()
    };
    let (passed, good_after) = tokio::join!(sender.pass(now_secs()), all_good);
    passed.expect("a pass");
    assert!(good_after < Duration::from_secs(10), "{good_after:?}");
    assert!(begun.elapsed() <= Duration::from_secs(31), "{:?}", begun.elapsed());
    assert_eq!((setup.count("tls", "sent"), setup.count("tls", "delayed")), (50, SENDING_MAX as u64 - 1));
}

/// Much that is due at once is no reason for others to wait: a pass ends, and what is tried again comes behind what was not yet.
#[tokio::test(start_paused = true)]
async fn a_pass_is_no_longer_than_it_may_be() {
    let setup = Setup::new();
    let period = ended();
    for number in 0..PASS_MAX + 5 {
        let name = format!("_smtp._tls.silent{number}.test");
        setup.world.silent.lock().unwrap_or_else(PoisonError::into_inner).insert(name);
        setup.counted::<Tls>(period, &format!("silent{number}.test"), &(), &row("a.test"));
    }
    let mut sender = setup.sender::<Tls>();
    let begun = Instant::now();
    sender.pass(now_secs()).await.expect("a pass");
    assert_eq!(setup.count("tls", "delayed"), PASS_MAX as u64);
    assert!(begun.elapsed() <= STRANGERS_MAX * 4 + Duration::from_secs(1), "{:?}", begun.elapsed());
    sender.pass(now_secs()).await.expect("a pass");
    assert_eq!(setup.count("tls", "delayed"), PASS_MAX as u64 + 5, "those that were not tried yet, and no others");
}

/// More would be more of everybody's memory and more connections to strangers.
#[tokio::test(start_paused = true)]
async fn no_more_than_a_few_reports_are_under_way() {
    let setup = Setup::new();
    let period = ended();
    for number in 0..4 * SENDING_MAX {
        setup.world.says(&format!("_smtp._tls.d{number}.test"), Some("v=TLSRPTv1; rua=mailto:r@good.test"));
        setup.counted::<Tls>(period, &format!("d{number}.test"), &(), &row("a.test"));
    }
    *setup.world.takes.lock().unwrap_or_else(PoisonError::into_inner) = Duration::from_secs(1);
    setup.sender::<Tls>().pass(now_secs()).await.expect("a pass");
    assert_eq!(setup.world.taken().len(), 4 * SENDING_MAX);
    assert_eq!(setup.world.in_hand_max.load(Ordering::Relaxed), SENDING_MAX);
}
