//! Generator and sink against each other in one process: what one says it sent, the other says it received, whole,
//! whatever goes wrong on the way. The sink is started on port 0 and stopped by a handle; nothing sleeps.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Parser as _;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use traffic::smtp_sink::{self, Count};
use traffic::traffic_gen::{self, Report};

/// A sink in the background.
struct Sink {
    address: SocketAddr,
    folder: TempDir,
    stop: oneshot::Sender<()>,
    served: JoinHandle<anyhow::Result<Count>>,
}

/// What a sink's ledger says: for each id how often it came, and how many lines were not `ok`.
#[derive(Debug, Default)]
struct Received {
    ids: BTreeMap<String, usize>,
    not_ok: usize,
}

impl Sink {
    fn start(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("scratch folder");
        let ledger = folder.path().join("received");
        let ledger = ledger.to_str().expect("UTF-8 path");
        let arguments = ["smtp-sink", "--ledger", ledger].into_iter().chain(arguments.iter().copied());
        let options = smtp_sink::Options::try_parse_from(arguments).expect("sink arguments");
        let listener = smtp_sink::bind("127.0.0.1:0".parse().expect("address")).expect("bind");
        let address = listener.local_addr().expect("address");
        let (stop, stopped) = oneshot::channel();
        let served = tokio::spawn(smtp_sink::serve(listener, options, async {
            let _ = stopped.await;
        }));
        Self { address, folder, stop, served }
    }

    async fn stop(self) -> (Count, Received) {
        self.stop.send(()).expect("the sink is still there");
        let count = self.served.await.expect("no panic").expect("sink");
        let mut received = Received::default();
        for line in lines(&self.folder.path().join("received")) {
            let mut columns = line.split('\t');
            let (id, word) = (columns.next().expect("id"), columns.next().expect("word"));
            let recipient = columns.next().expect("recipient");
            assert!(recipient.starts_with("user-") && recipient.ends_with(".mx-sink.test"), "{line}");
            let at: u128 = columns.next().and_then(|at| at.parse().ok()).expect("microseconds");
            let ago = now_us().checked_sub(at);
            assert!(ago.is_some_and(|ago| ago < 600_000_000), "{line}");
            *received.ids.entry(id.to_owned()).or_default() += 1;
            received.not_ok += usize::from(word != "ok");
        }
        (count, received)
    }
}

fn now_us() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_micros()
}

fn lines(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).expect("ledger");
    text.lines().map(str::to_owned).collect()
}

/// Runs the generator; returns its report and its two ledgers.
async fn generate(target: &str, arguments: &[&str]) -> (Report, Vec<String>, Vec<String>) {
    let folder = tempfile::tempdir().expect("scratch folder");
    let ledger: PathBuf = folder.path().join("sent");
    let path = ledger.to_str().expect("UTF-8 path");
    let fixed = ["traffic-gen", "--quiet", "--target", target, "--ledger", path];
    let arguments = fixed.into_iter().chain(arguments.iter().copied());
    let options = traffic_gen::Options::try_parse_from(arguments).expect("generator arguments");
    let plan = options.into_plan().expect("plan");
    let report = traffic_gen::generate(plan, std::future::pending()).await.expect("run");
    let sent = lines(&ledger);
    let unknown = lines(&folder.path().join("sent.unknown"));
    assert_eq!(sent.len() as u64, report.counts.sent);
    assert_eq!(unknown.len() as u64, report.counts.unknown);
    (report, sent, unknown)
}

/// Every acknowledged id arrived exactly once and whole, and nothing else did.
fn assert_agree(sent: &[String], received: &Received) {
    assert_eq!(received.not_ok, 0);
    assert!(received.ids.values().all(|&times| times == 1), "doubled: {received:?}");
    let sent: std::collections::BTreeSet<&String> = sent.iter().collect();
    assert_eq!(sent, received.ids.keys().collect());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_messages_over_twenty_connections() {
    let sink = Sink::start(&[]);
    let target = sink.address.to_string();
    let arguments = ["--message-count", "2000", "--concurrency", "20", "--body-size", "10kb"];
    let (report, sent, _) = generate(&target, &arguments).await;
    let (count, received) = sink.stop().await;
    assert_eq!((report.counts.sent, report.counts.failed, report.counts.unknown), (2_000, 0, 0));
    assert!(report.counts.connections <= 20 && report.ever_connected);
    assert!(report.latency.p50_us > 0 && report.latency.p50_us <= report.latency.max_us);
    assert_eq!((count.received, count.damaged), (2_000, 0));
    assert_agree(&sent, &received);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_loop_charges_for_the_wait_before_a_send() {
    // Twenty messages are due within a fifth of a second, and the sink takes one in 50 ms.
    let fixed = ["--message-count", "20", "--concurrency", "1", "--throttle", "100/s,max_burst=1"];
    for (more, least_ms) in [(&[][..], 50), (&["--open-loop"], 50 * 20 - 190)] {
        let sink = Sink::start(&["--delay-ms", "50"]);
        let target = sink.address.to_string();
        let (report, sent, _) = generate(&target, &[&fixed[..], more].concat()).await;
        let (_, received) = sink.stop().await;
        assert_agree(&sent, &received);
        assert!(report.latency.max_us >= least_ms * 1000, "{more:?}: {report:?}");
        assert_eq!(report.latency.p50_us < 200_000, more.is_empty(), "{more:?}: {report:?}");
    }
}

/// A sink that ends each connection after two messages takes no message's slot away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_loop_keeps_its_slots_over_connections() {
    let sink = Sink::start(&["--delay-ms", "20", "--max-messages-per-connection", "2"]);
    let target = sink.address.to_string();
    let fixed = ["--message-count", "20", "--concurrency", "1", "--throttle", "1000/s", "--open-loop", "--keep-going"];
    let (report, sent, _) = generate(&target, &fixed).await;
    let (_, received) = sink.stop().await;
    assert_agree(&sent, &received);
    assert_eq!(report.counts.sent, 20);
    // All were due within 20 ms: whoever lost its slot with a connection would not have waited for those before it.
    assert!(report.latency.min_us >= 20_000 && report.latency.p50_us >= 10 * 20_000, "{report:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_and_tiny_messages_one_command_at_a_time() {
    for size in ["1mb", "0"] {
        let sink = Sink::start(&[]);
        let arguments = ["--message-count", "40", "--concurrency", "4", "--body-size", size, "--no-pipeline"];
        let (report, sent, _) = generate(&sink.address.to_string(), &arguments).await;
        let (_, received) = sink.stop().await;
        assert_eq!(report.counts.sent, 40, "{size}");
        assert_agree(&sent, &received);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_are_counted_and_nothing_else_is_lost() {
    let sink = Sink::start(&["--fail-rate", "10", "--fail-code", "550"]);
    let arguments = ["--message-count", "1000", "--concurrency", "10"];
    let (report, sent, _) = generate(&sink.address.to_string(), &arguments).await;
    let (_, received) = sink.stop().await;
    assert_eq!((report.counts.sent, report.counts.failed), (900, 100));
    assert!(report.last_failure.is_some_and(|text| text.starts_with("550 5.3.0")));
    assert_agree(&sent, &received);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_renewed_when_the_server_has_enough() {
    let sink = Sink::start(&["--max-messages-per-connection", "7"]);
    let arguments = ["--message-count", "500", "--concurrency", "5"];
    let (report, sent, _) = generate(&sink.address.to_string(), &arguments).await;
    let (_, received) = sink.stop().await;
    assert_eq!((report.counts.sent, report.counts.failed), (500, 0));
    assert!(report.counts.connections >= 500 / 7);
    assert_agree(&sent, &received);

    let sink = Sink::start(&[]);
    let arguments = ["--message-count", "100", "--concurrency", "1", "--messages-per-connection", "10"];
    let (report, sent, _) = generate(&sink.address.to_string(), &arguments).await;
    let (_, received) = sink.stop().await;
    assert_eq!((report.counts.sent, report.counts.connections), (100, 10));
    assert_agree(&sent, &received);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_answers_are_unknown_and_sent_again() {
    let sink = Sink::start(&["--drop-after-dot", "5"]);
    let arguments = ["--message-count", "400", "--concurrency", "8", "--reconnect-forever"];
    let (report, sent, unknown) = generate(&sink.address.to_string(), &arguments).await;
    let (_, received) = sink.stop().await;
    assert_eq!((report.counts.sent, report.counts.failed), (400, 0));
    assert_eq!(report.counts.unknown, 21, "5 % of 421");
    assert_agree(&sent, &received);
    assert!(unknown.iter().all(|id| !received.ids.contains_key(id)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_dies_and_comes_back_is_waited_for() {
    let first = Sink::start(&[]);
    let address = first.address;
    let target = address.to_string();
    let arguments = ["--message-count", "3000", "--concurrency", "6", "--reconnect-forever", "--throttle", "5000/s"];
    let generator = tokio::spawn(async move { generate(&target, &arguments).await });
    // Once it is under way the first server goes, and another takes its place.
    let ledger = first.folder.path().join("received");
    while std::fs::metadata(&ledger).map_or(0, |file| file.len()) == 0 {
        tokio::task::yield_now().await;
    }
    let (before, received_before) = first.stop().await;
    let folder = tempfile::tempdir().expect("scratch folder");
    let second_ledger = folder.path().join("received");
    let path = second_ledger.to_str().expect("UTF-8 path");
    let options = smtp_sink::Options::try_parse_from(["smtp-sink", "--ledger", path]).expect("arguments");
    let listener = smtp_sink::bind(address).expect("the same port again");
    let (stop, stopped) = oneshot::channel();
    let served = tokio::spawn(smtp_sink::serve(listener, options, async {
        let _: Result<(), _> = stopped.await;
    }));
    let (report, sent, unknown) = generator.await.expect("no panic");
    stop.send(()).expect("the sink is still there");
    let after = served.await.expect("no panic").expect("sink");
    assert!(before.received > 0 && before.received < 3_000);
    assert_eq!((report.counts.sent, report.counts.failed), (3_000, 0));
    // Every acknowledged id arrived at one of the two; what else arrived had lost its answer.
    let mut arrived = received_before.ids;
    for line in lines(&second_ledger) {
        let id = line.split('\t').next().expect("id").to_owned();
        *arrived.entry(id).or_default() += 1;
    }
    assert!(sent.iter().all(|id| arrived.get(id) == Some(&1)));
    let unanswered = arrived.keys().filter(|id| unknown.contains(id)).count();
    assert_eq!(arrived.len(), sent.len() + unanswered);
    assert_eq!(arrived.len() as u64, before.received + after.received);
}

#[tokio::test]
async fn nobody_listening() {
    let free = smtp_sink::bind("127.0.0.1:0".parse().expect("address")).expect("bind");
    let target = free.local_addr().expect("address").to_string();
    drop(free);
    let arguments = ["--message-count", "50", "--concurrency", "3"];
    let (report, _, _) = generate(&target, &arguments).await;
    assert!(!report.ever_connected);
    assert_eq!((report.counts.sent, report.counts.failed), (0, 3));
    assert!(report.last_failure.is_some_and(|text| text.contains("cannot connect")));

    let arguments = ["--message-count", "5", "--concurrency", "2", "--keep-going"];
    let (report, _, _) = generate(&target, &arguments).await;
    assert_eq!((report.counts.sent, report.counts.failed), (0, 5));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_ends_with_its_time_and_keeps_its_rate() {
    let sink = Sink::start(&[]);
    // No slot lapses, so that what a machine takes away in the middle is made up for.
    let arguments = ["--duration", "3", "--concurrency", "4", "--throttle", "200/s,max_burst=600"];
    let (report, sent, _) = generate(&sink.address.to_string(), &arguments).await;
    let (_, received) = sink.stop().await;
    assert!((570..=605).contains(&report.counts.sent), "{:?}", report.counts);
    assert!((3.0..7.0).contains(&report.elapsed.as_secs_f64()));
    assert_agree(&sent, &received);
}
