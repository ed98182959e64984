//! Rates and limits of paths and queues, shared by two nodes by way of a real Redis: what the receiver sees of both.

use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::port::free_port;
use e2e::redis::RunningRedis;
use e2e::scratch::Scratch;
use e2e::until::{LATER, SOON, until};
use e2e::wire::Client;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// A server that counts: connections at every moment, messages of each sender and when they came.
struct Receiver {
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    connections: usize,
    most: usize,
    messages: Vec<(Instant, String)>,
}

impl Receiver {
    /// `takes`: how long it takes for each message.
    fn start(takes: Duration) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let (address, seen) = (listener.local_addr().expect("bound"), Arc::<Mutex<Seen>>::default());
        let all = seen.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let seen = all.clone();
                std::thread::spawn(move || {
                    with(&seen, |s| {
                        s.connections += 1;
                        s.most = s.most.max(s.connections);
                    });
                    // A client that is gone is gone.
                    let quit = converse(&stream, &seen, takes);
                    // It is over before the client hears so: what that opens next is not a second one.
                    with(&seen, |s| s.connections -= 1);
                    if quit.is_ok() {
                        let _gone = (&stream).write_all(b"221 bye\r\n");
                    }
                });
            }
        });
        Receiver { address, seen }
    }

    /// Messages of that sender.
    fn of(&self, sender: &str) -> usize {
        with(&self.seen, |s| s.messages.iter().filter(|(_, from)| from.contains(sender)).count())
    }

    fn all(&self) -> usize {
        with(&self.seen, |s| s.messages.len())
    }

    /// Most connections at a time since it was asked last.
    fn most(&self) -> usize {
        with(&self.seen, |s| std::mem::replace(&mut s.most, s.connections))
    }

    fn times(&self) -> Vec<Instant> {
        with(&self.seen, |s| s.messages.iter().map(|(at, _)| *at).collect())
    }
}

fn with<T>(seen: &Mutex<Seen>, f: impl FnOnce(&mut Seen) -> T) -> T {
    f(&mut seen.lock().unwrap_or_else(PoisonError::into_inner))
}

fn converse(stream: &TcpStream, seen: &Mutex<Seen>, takes: Duration) -> std::io::Result<()> {
    let mut writer = stream;
    writer.write_all(b"220 counts\r\n")?;
    let (mut lines, mut sender) = (BufReader::new(stream).lines(), String::new());
    while let Some(line) = lines.next().transpose()? {
        let verb = line.get(..4).unwrap_or_default().to_ascii_uppercase();
        match verb.as_str() {
            "MAIL" => sender = line,
            "DATA" => {
                // When it is sent, not when it is taken.
                with(seen, |s| s.messages.push((Instant::now(), sender.clone())));
                writer.write_all(b"354 go\r\n")?;
                while lines.next().transpose()?.is_some_and(|line| line != ".") {}
                std::thread::sleep(takes);
            }
            "QUIT" => return Ok(()),
            _ => {}
        }
        writer.write_all(b"250 ok\r\n")?;
    }
    Ok(())
}

struct Cluster<'a> {
    scratch: &'a Scratch,
    to: SocketAddr,
    redis: String,
    /// How long an answer of Redis may take: longer where one that is late would change what is counted; four times that is how much
    /// longer a new Redis gives no leases.
    timeout: &'a str,
    path: &'a str,
    queue: &'a str,
}

impl Cluster<'_> {
    fn node(&self, name: &str) -> Kumod {
        self.launch(name).start()
    }

    fn launch(&self, name: &str) -> Launch {
        let launch = Launch::policy(policy_file("cluster.lua")).env("CLUSTER_DIR", self.scratch.join(name));
        let launch = launch.env("CLUSTER_TO", self.to.to_string()).env("CLUSTER_SHARE", "0.5");
        let launch = launch.env("CLUSTER_REDIS", &self.redis).env("CLUSTER_TIMEOUT", self.timeout);
        launch.env("CLUSTER_PATH", self.path).env("CLUSTER_QUEUE", self.queue)
    }
}

/// `count` messages of a sender, in one session.
fn submit(node: &Kumod, sender: &str, count: usize) {
    let mut client = Client::connect(node.smtp());
    client.say("EHLO client.test");
    for number in 0..count {
        client.say(&format!("MAIL FROM:<{sender}@source.test>"));
        client.say(&format!("RCPT TO:<u{number}@a.test>"));
        assert_eq!(client.say("DATA").code, 354);
        let reply = client.say("Subject: x\r\n\r\nHello.\r\n.");
        assert_eq!(reply.code, 250, "{reply:?}");
    }
}

/// The most messages in any span of that length.
fn most_within(times: &[Instant], span: Duration) -> usize {
    let within = |at: &Instant| times.iter().filter(|t| **t >= *at && t.duration_since(*at) < span).count();
    times.iter().map(within).max().unwrap_or(0)
}

/// Forty messages by each of two nodes; when they came.
fn sent_by_two(path: &str, queue: &str) -> Vec<Instant> {
    let (scratch, receiver) = (Scratch::new(), Receiver::start(Duration::ZERO));
    let redis = RunningRedis::start(&scratch);
    let cluster = Cluster { scratch: &scratch, to: receiver.address, redis: redis.url(), timeout: "2s", path, queue };
    let (one, other) = (cluster.node("one"), cluster.node("other"));
    std::thread::scope(|threads| {
        threads.spawn(|| submit(&one, "one", 40));
        threads.spawn(|| submit(&other, "other", 40));
    });
    until(LATER, "all messages", || (receiver.all() == 80).then_some(()));
    one.stop();
    other.stop();
    receiver.times()
}

#[test]
fn rates_are_the_clusters_and_local_ones_are_each_nodes() {
    const FREE: &str = "connection_limit = 'local:5'";
    let shared = sent_by_two(&format!("{FREE}, max_message_rate = '10/s,max_burst=10'"), "");
    let span = shared[79] - shared[0];
    assert!(span >= Duration::from_millis(6500), "{span:?} for 80 at 10/s after 10 at once");
    // What is counted here are commands that came in: a tenth of a second for the way.
    let most = most_within(&shared, Duration::from_millis(1900));
    assert!(most <= 30, "{most} in two seconds");

    let queued = sent_by_two(FREE, "max_message_rate = '10/s,max_burst=10'");
    let span = queued[79] - queued[0];
    assert!(span >= Duration::from_millis(6500), "{span:?} for 80 at 10/s of the queue");

    let local = sent_by_two(&format!("{FREE}, max_message_rate = 'local:10/s,max_burst=10'"), "");
    let span = local[79] - local[0];
    assert!(span < Duration::from_millis(5500), "{span:?}: each node has its own ten a second");
}

#[test]
fn a_rate_of_connections_is_the_clusters_also_where_redis_is_slow() {
    let (scratch, receiver) = (Scratch::new(), Receiver::start(Duration::ZERO));
    let redis = RunningRedis::start(&scratch);
    // Longer than what is granted ahead is good for.
    let slow = slowed(redis.address, Duration::from_millis(300));
    let path = "connection_limit = 4, max_deliveries_per_connection = 1, max_connection_rate = '2/s,max_burst=2'";
    let redis = format!("redis://{slow}/0");
    let cluster = Cluster { scratch: &scratch, to: receiver.address, redis, timeout: "2s", path, queue: "" };
    let (one, other) = (cluster.node("one"), cluster.node("other"));
    std::thread::scope(|threads| {
        threads.spawn(|| submit(&one, "one", 100));
        threads.spawn(|| submit(&other, "other", 100));
    });
    until(LATER, "mail of both", || (receiver.of("one") >= 4 && receiver.of("other") >= 4).then_some(()));
    let times = receiver.times();
    let span = times[times.len() - 1] - times[0];
    // The burst, what comes in that time, and the one that was first.
    let most = 2 + (span.as_secs_f64() * 2.0).ceil() as usize + 1;
    assert!(times.len() <= most, "{} in {span:?}", times.len());
}

/// A way to `to` on which each answer takes that long, whatever is under way.
fn slowed(to: SocketAddr, by: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let Ok(server) = TcpStream::connect(to) else { continue };
            for (from, to, delay) in [(&client, &server, Duration::ZERO), (&server, &client, by)] {
                let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) else { continue };
                let (send, due) = mpsc::channel();
                std::thread::spawn(move || read_all(from, delay, &send));
                std::thread::spawn(move || write_all_in_time(to, &due));
            }
        }
    });
    address
}

fn read_all(mut from: TcpStream, delay: Duration, due: &mpsc::Sender<(Instant, Vec<u8>)>) {
    let mut octets = [0; 65_536];
    while let Ok(count @ 1..) = from.read(&mut octets) {
        if due.send((Instant::now() + delay, octets[..count].to_vec())).is_err() {
            return;
        }
    }
}

fn write_all_in_time(mut to: TcpStream, due: &mpsc::Receiver<(Instant, Vec<u8>)>) {
    for (at, octets) in due {
        // No wait of the test: this is the delay of the way.
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
        if to.write_all(&octets).is_err() {
            return;
        }
    }
    let _gone = to.shutdown(Shutdown::Both);
}

#[test]
fn connections_are_the_clusters_a_lost_nodes_come_back_and_alone_each_has_its_share() {
    let (scratch, receiver) = (Scratch::new(), Receiver::start(Duration::from_millis(50)));
    let mut redis = RunningRedis::start(&scratch);
    // The named limit binds first, then the path's.
    let path = "connection_limit = 5, additional_connection_limits = { all = 4 }, max_deliveries_per_connection = 5";
    let cluster =
        Cluster { scratch: &scratch, to: receiver.address, redis: redis.url(), timeout: "500ms", path, queue: "" };
    let (one, other) = (cluster.node("one"), cluster.node("other"));
    std::thread::scope(|threads| {
        threads.spawn(|| submit(&one, "one", 3000));
        threads.spawn(|| submit(&other, "other", 4000));
    });
    until(LATER, "mail of both", || (receiver.of("one") > 20 && receiver.of("other") > 20).then_some(()));
    assert_eq!(receiver.most(), 4, "all that the cluster may have, and no more");

    // One is gone with what it has: the other soon has all.
    let mut one = one;
    one.process.kill();
    let lost_at = Instant::now();
    // Long enough for the receiver to see that its connections are gone, and too short for its leases to end.
    let so_far = receiver.of("other");
    until(LATER, "some mail of the other", || (receiver.of("other") > so_far + 40).then_some(()));
    receiver.most();
    until(LATER, "all four for the other", || (receiver.most() == 4 && receiver_busy(&receiver) == 4).then_some(()));
    assert!(lost_at.elapsed() < Duration::from_secs(25), "{:?}", lost_at.elapsed());
    let one = cluster.node("one");
    let before = receiver.of("one");
    until(LATER, "mail of the first again", || (receiver.of("one") > before + 10).then_some(()));
    assert_eq!(receiver.most(), 4);

    // Alone, each has two.
    redis.process.kill();
    let (of_one, of_other) = (receiver.of("one"), receiver.of("other"));
    until(LATER, "mail of both without Redis", || {
        (receiver.of("one") > of_one + 100 && receiver.of("other") > of_other + 100).then_some(())
    });
    let most = receiver.most();
    assert!(most <= 4, "{most}: two for each");

    // Back, and empty: what nodes hold is told to it before it gives more.
    let _back = RunningRedis::start_on(&scratch, redis.address);
    for node in [&one, &other] {
        node.process.await_stderr("that Redis is back", SOON, |line| line.contains("shared again").then_some(()));
    }
    // More than either sends before the last of both asks again, which is not at the same moment.
    let (of_one, of_other) = (receiver.of("one"), receiver.of("other"));
    until(LATER, "mail of both by way of Redis", || {
        (receiver.of("one") > of_one + 400 && receiver.of("other") > of_other + 400).then_some(())
    });
    let most = receiver.most();
    assert!(most <= 4, "{most} after Redis came back");
}

#[test]
fn leases_that_ended_while_redis_was_away_are_given_back_when_it_is_there_again() {
    let (scratch, receiver) = (Scratch::new(), Receiver::start(Duration::from_millis(50)));
    let on = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
    let mut redis = RunningRedis::start_kept(&scratch, on(free_port()));
    let path = "connection_limit = 4, max_deliveries_per_connection = 5, aggressive_connection_opening = true";
    let cluster =
        Cluster { scratch: &scratch, to: receiver.address, redis: redis.url(), timeout: "500ms", path, queue: "" };
    let node = cluster.node("one");
    submit(&node, "one", 1000);
    until(LATER, "some mail", || (receiver_busy(&receiver) == 4).then_some(()));
    redis.process.kill();
    until(LATER, "no connection", || (receiver_busy(&receiver) == 0).then_some(()));
    // What it remembers, read where the node does not see it.
    let mut elsewhere = RunningRedis::start_kept(&scratch, on(free_port()));
    let ended = leases(&elsewhere);
    assert_eq!(ended.len(), 4, "{ended:?}");
    elsewhere.process.kill();
    let back = RunningRedis::start_kept(&scratch, redis.address);
    until(LATER, "that they are given back", || {
        let kept = leases(&back);
        (!ended.keys().any(|id| kept.contains_key(id))).then_some(())
    });
    let now_s: u64 = back.ask(&["TIME"]).lines().next().expect("seconds").parse().expect("seconds");
    let left: Vec<_> = ended.values().map(|until_ms| (until_ms / 1000).saturating_sub(now_s)).collect();
    assert!(left.iter().all(|seconds| *seconds >= 2), "they end by themselves in {left:?} s");
    let so_far = receiver.all();
    until(LATER, "more mail", || (receiver.all() > so_far + 20).then_some(()));
}

#[test]
fn a_redis_that_runs_no_scripts_is_away_and_one_is_told_so_at_the_start() {
    let (scratch, receiver) = (Scratch::new(), Receiver::start(Duration::from_millis(50)));
    let redis = RunningRedis::start(&scratch);
    let path = "connection_limit = 4, max_deliveries_per_connection = 5, aggressive_connection_opening = true";
    let cluster =
        Cluster { scratch: &scratch, to: receiver.address, redis: redis.url(), timeout: "500ms", path, queue: "" };
    let node = cluster.node("one");
    redis.ask(&["ACL", "SETUSER", "default", "-@scripting"]);
    // Nobody sends mail, and so nobody has leases: it is found out all the same.
    let said = |text: &'static str| move |line: &str| line.contains(text).then_some(());
    node.process.await_stderr("that Redis refuses", SOON, said("no permissions to run"));
    submit(&node, "one", 40);
    until(LATER, "all mail by this node's share", || (receiver.all() == 40).then_some(()));
    let most = receiver.most();
    assert!(most <= 2, "{most}: half of four");
    assert_eq!(node.process.stderr().matches("shared again").count(), 0, "it is not back because it answers PING");

    let finished = cluster.launch("other").run();
    assert!(!finished.status.success() && finished.stderr.contains("no permissions to run"), "{}", finished.stderr);
    redis.ask(&["ACL", "SETUSER", "default", "+@scripting"]);
    node.process.await_stderr("that it is back", SOON, said("shared again"));
    submit(&node, "one", 40);
    until(LATER, "all mail by way of Redis", || (receiver.all() == 80).then_some(()));
    node.stop();
}

#[test]
fn one_server_of_a_cluster_that_is_not_named_as_such_is_refused() {
    let scratch = Scratch::new();
    let servers = RunningRedis::start_cluster(&scratch);
    let to = SocketAddr::from(([127, 0, 0, 1], 1));
    let cluster = Cluster { scratch: &scratch, to, redis: servers[0].url(), timeout: "2s", path: "", queue: "" };
    let finished = cluster.launch("one").run();
    assert!(!finished.status.success() && finished.stderr.contains("cluster = true"), "{}", finished.stderr);
}

/// Who has leases of which limit whatsoever, and until when, in milliseconds.
fn leases(redis: &RunningRedis) -> BTreeMap<String, u64> {
    let keys = redis.ask(&["KEYS", "*lease:*"]);
    // One is everybody's, by which it is found out whether leases can be had.
    let others = [":wanted", "lease:probe"];
    let keys = keys.lines().filter(|key| !key.is_empty() && !others.iter().any(|other| key.ends_with(other)));
    let of = |key: &str| redis.ask(&["ZRANGE", key, "0", "-1", "WITHSCORES"]);
    let all: Vec<String> = keys.flat_map(|key| of(key).lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    let pairs = all.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].parse().expect("a time")));
    pairs.collect()
}

fn receiver_busy(receiver: &Receiver) -> usize {
    with(&receiver.seen, |s| s.connections)
}

#[test]
fn a_limit_of_one_path_is_the_clusters_and_a_local_one_is_not() {
    for (limit, most) in [("2", 2), ("'local:2'", 4)] {
        let (scratch, receiver) = (Scratch::new(), Receiver::start(Duration::from_millis(50)));
        let redis = RunningRedis::start(&scratch);
        let path = format!(
            "connection_limit = {limit}, max_deliveries_per_connection = 5, aggressive_connection_opening = true"
        );
        let cluster = Cluster {
            scratch: &scratch,
            to: receiver.address,
            redis: redis.url(),
            timeout: "500ms",
            path: &path,
            queue: "",
        };
        let (one, other) = (cluster.node("one"), cluster.node("other"));
        std::thread::scope(|threads| {
            threads.spawn(|| submit(&one, "one", 100));
            threads.spawn(|| submit(&other, "other", 100));
        });
        until(LATER, "all mail", || (receiver.all() == 200).then_some(()));
        assert_eq!(receiver.most(), most, "connection_limit = {limit}");
        one.stop();
        other.stop();
    }
}
