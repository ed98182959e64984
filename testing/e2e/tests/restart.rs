//! Hot restart: nobody who connects is refused while the program gives its place to another, and nothing acknowledged is lost.

use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::port::free_port;
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::traffic::Traffic;
use e2e::until::{LATER, SOON, until};
use e2e::{http, wire::Client};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Clients that send without a pause until they are told to stop; what each had acknowledged.
struct Clients {
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<Vec<String>>>,
}

impl Clients {
    fn start(smtp: SocketAddr, count: usize) -> Clients {
        let (stop, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let threads = (0..count).map(|number| {
            let (stop, acknowledged) = (stop.clone(), acknowledged.clone());
            std::thread::spawn(move || {
                let mut sent = Vec::new();
                for letter in 0.. {
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                    // Panics when it is refused.
                    drop(TcpStream::connect(smtp).unwrap_or_else(|error| panic!("refused: {error}")));
                    let to = format!("c{number}-{letter}@to.test");
                    if Client::connect_mute(smtp).try_submit("a@from.test", &to) {
                        sent.push(to);
                        acknowledged.fetch_add(1, Ordering::SeqCst);
                    }
                }
                sent
            })
        });
        Clients { threads: threads.collect(), stop, acknowledged }
    }

    /// Waits until so many more were acknowledged.
    fn await_more(&self, count: usize) {
        let enough = self.acknowledged.load(Ordering::SeqCst) + count;
        until(LATER, "letters", || (self.acknowledged.load(Ordering::SeqCst) >= enough).then_some(()));
    }

    fn stop(self) -> Vec<String> {
        self.stop.store(true, Ordering::SeqCst);
        self.threads.into_iter().flat_map(|thread| thread.join().expect("nobody was refused")).collect()
    }
}

/// How often it has said that it serves.
fn begun(relay: &Kumod) -> usize {
    relay.process.stderr().matches("initialization complete").count()
}

fn restart(relay: &Kumod) {
    let before = begun(relay);
    relay.process.signal(Signal::SIGUSR2);
    until(LATER, "the other program", || (begun(relay) > before).then_some(()));
}

#[test]
fn nobody_is_refused_and_nothing_is_lost_while_it_restarts_again_and_again() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let relay = Launch::relay(&scratch, sink.address).start();
    let pid = relay.process.pid();
    let clients = Clients::start(relay.smtp(), 8);
    for _ in 0..3 {
        clients.await_more(50);
        restart(&relay);
    }
    clients.await_more(50);
    let sent = clients.stop();
    assert_eq!(relay.process.pid(), pid, "a service manager sees one process");
    assert_eq!(http::get(relay.http(), "/api/check-liveness/v1").0, 200, "on the same port");
    relay.await_empty(LATER);
    let arrived = sink.await_arrivals(sent.len(), SOON);
    let arrived: std::collections::BTreeSet<String> = arrived.into_iter().flat_map(|a| a.recipients).collect();
    let lost: Vec<&String> = sent.iter().filter(|to| !arrived.contains(*to)).collect();
    assert!(sent.len() >= 200 && lost.is_empty(), "lost {lost:?} of {}", sent.len());
    relay.stop();
}

/// Tells clients to stop when it goes.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A connection that is used again as long as the server says nothing else.
struct KeptConnection(Option<BufReader<TcpStream>>);

impl KeptConnection {
    /// Injects; what is answered, with 200.
    fn ask(&mut self, web: SocketAddr, request: &Value) -> Value {
        let connect = || BufReader::new(TcpStream::connect(web).unwrap_or_else(|error| panic!("refused: {error}")));
        let stream = self.0.get_or_insert_with(connect);
        let body = request.to_string();
        let head = "POST /api/inject/v1 HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length:";
        let request = format!("{head} {}\r\n\r\n{body}", body.len());
        stream.get_mut().write_all(request.as_bytes()).expect("it is open");
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(stream.read_line(&mut head).expect("an answer") > 0, "no answer: {head}");
        }
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
        let mut answer = vec![0; length.parse().expect("a number")];
        stream.read_exact(&mut answer).expect("all of it");
        assert!(head.starts_with("HTTP/1.1 200"), "{head}{}", String::from_utf8_lossy(&answer));
        if head.contains("connection: close") {
            self.0 = None;
        }
        serde_json::from_slice(&answer).expect("JSON")
    }
}

/// Over HTTP too: who was accepted by the one before is served by it, who came later by the next.
#[test]
fn every_request_is_answered_while_it_restarts() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let relay = Launch::relay(&scratch, sink.address).start();
    let (stop, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (web, request) = (
        relay.http(),
        |to: &str| json!({"envelope_sender": "a@from.test", "recipients": [{"email": to}], "content": "Subject: x\r\n\r\nx\r\n"}),
    );
    let kept_of_first = Mutex::new(KeptConnection(None));
    let ask = |number: usize| {
        for letter in 0.. {
            if stop.load(Ordering::SeqCst) {
                return letter;
            }
            // Panics when it is refused, or not answered with 200.
            let request = request(&format!("c{number}-{letter}@to.test"));
            let outcome = match number {
                0 => kept_of_first.lock().expect("sound").ask(web, &request),
                _ => http::json(web, "POST", "/api/inject/v1", &request),
            };
            assert_eq!(outcome["success_count"], 1, "{outcome}");
            answered.fetch_add(1, Ordering::SeqCst);
        }
        unreachable!("letters end")
    };
    let await_more = || {
        let enough = answered.load(Ordering::SeqCst) + 100;
        until(LATER, "answers", || (answered.load(Ordering::SeqCst) >= enough).then_some(()));
    };
    let sent: usize = std::thread::scope(|scope| {
        // Also when a restart fails: nobody waits for clients that go on.
        let ends = Ends(&stop);
        let clients: Vec<_> = (0..4).map(|number| scope.spawn(move || ask(number))).collect();
        for _ in 0..3 {
            await_more();
            restart(&relay);
        }
        await_more();
        drop(ends);
        clients.into_iter().map(|client| client.join().expect("everybody was answered")).sum()
    });
    relay.await_empty(LATER);
    assert_eq!(sink.await_arrivals(sent, SOON).len(), sent);
    relay.stop();
}

/// What waits is known to the next program from the index that the one before has left. Of the spool's files it reads the newest, to
/// find where the log ends, and no other.
#[test]
fn a_restart_reads_an_index_and_the_end_of_the_log() {
    let scratch = Scratch::new();
    let relay = Launch::relay(&scratch, SocketAddr::from(([127, 0, 0, 1], free_port()))).start();
    Traffic::send(&scratch, "traffic", relay.smtp(), MESSAGES, &["--body-size", BODY_OCTETS]);
    relay.await_metric("message_count", MESSAGES as f64, LATER);
    let before = octets_read(&relay);
    restart(&relay);
    until(LATER, "all of it back", || {
        let is_back = relay.metric("postrider_spool_recovering") == 0.0;
        (is_back && relay.metric("message_count") == MESSAGES as f64).then_some(())
    });
    let read = octets_read(&relay) - before;
    // The index, and what is behind it, which is nothing: a file of messages has 64 MiB.
    assert!(read < 8 << 20, "{read} octets were read, of {MESSAGES} messages of {BODY_OCTETS}");
    relay.stop();
}

/// As many as fill five files.
const MESSAGES: usize = 3000;
const BODY_OCTETS: &str = "100000";

/// By all reads of the process so far, also those that the page cache answered.
fn octets_read(relay: &Kumod) -> u64 {
    let counts = fs::read_to_string(format!("/proc/{}/io", relay.process.pid())).expect("its counts");
    let read = counts.lines().find_map(|line| line.strip_prefix("rchar: ")).expect("what it read");
    read.parse().expect("a number")
}

#[test]
fn who_stops_it_on_the_way_is_heard() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    for _ in 0..10 {
        let mut relay = Launch::relay(&scratch, sink.address).start();
        relay.process.signal(Signal::SIGUSR2);
        let gives_place = |line: &str| line.contains("giving place").then_some(());
        relay.process.await_stderr("the end of what it was", LATER, gives_place);
        relay.process.signal(Signal::SIGTERM);
        relay.process.finish(SOON);
    }
}

/// A relay of a policy that can be changed, and its text.
fn changeable(scratch: &Scratch, sink: &Sink) -> (Kumod, PathBuf, String) {
    let policy = scratch.join("init.lua");
    let text = fs::read_to_string(policy_file("relay.lua")).expect("readable");
    fs::write(&policy, &text).expect("writes");
    let relay = Launch::policy(&policy)
        .env("RELAY_PORT", "0")
        .env("RELAY_HTTP", "127.0.0.1:0")
        .env("RELAY_DIR", scratch.join("relay"))
        .env("RELAY_TO", sink.address.to_string())
        .start();
    (relay, policy, text)
}

/// Has it restart, and it does not; what it says.
fn does_not_restart(relay: &Kumod) -> String {
    relay.process.signal(Signal::SIGUSR2);
    let why = |line: &str| line.contains("no restart: ").then(|| line.to_owned());
    relay.process.await_stderr("why there is no restart", LATER, why)
}

#[test]
fn a_listener_whose_port_is_taken_restarts_nothing() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let (relay, policy, sound) = changeable(&scratch, &sink);
    let taken = sink.address.to_string();
    let another = format!("kumo.start_esmtp_listener {{ listen = '{taken}' }}\n  kumo.start_esmtp_listener");
    fs::write(&policy, sound.replacen("kumo.start_esmtp_listener", &another, 1)).expect("writes");
    let said = does_not_restart(&relay);
    assert!(said.contains(&taken) && said.contains("in use"), "{said}");
    assert_eq!(Client::connect(relay.smtp()).submit("a@from.test", "b@to.test", "still here").code, 250);
    let free = format!("127.0.0.1:{}", free_port());
    fs::write(&policy, sound.replacen("kumo.start_esmtp_listener", &another.replace(&taken, &free), 1))
        .expect("writes");
    restart(&relay);
    Client::connect(free.parse().expect("an address"));
    relay.stop();
}

#[test]
fn a_policy_that_is_wrong_restarts_nothing() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let (relay, policy, sound) = changeable(&scratch, &sink);
    fs::write(&policy, sound.replace("log_dir", "log_dirr")).expect("writes");
    let said = does_not_restart(&relay);
    assert!(said.contains("log_dirr") || relay.process.stderr().contains("log_dirr"), "{said}");
    assert_eq!(Client::connect(relay.smtp()).submit("a@from.test", "b@to.test", "still here").code, 250);
    sink.await_arrivals(1, SOON);
    fs::write(&policy, &sound).expect("writes");
    restart(&relay);
    assert_eq!(Client::connect(relay.smtp()).submit("a@from.test", "b@to.test", "the next one").code, 250);
    sink.await_arrivals(2, SOON);
    relay.stop();
}

/// Does what systemd does for a `.socket` unit: binds, and becomes the program with the socket, to which somebody has connected by then.
const SERVICE_MANAGER: &str = r#"
import os, socket, sys
listener = socket.socket()
listener.bind(('127.0.0.1', 0))
listener.listen()
client = socket.create_connection(listener.getsockname())
if os.fork() == 0:
    listener.close()
    with open(os.environ['GREETED'], 'wb') as greeted:
        greeted.write(client.recv(1000))
    os._exit(0)
client.close()
os.dup2(listener.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(RELAY_PORT=str(listener.getsockname()[1]), LISTEN_FDS='1', LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[1], sys.argv[1:])
"#;

#[test]
fn a_socket_of_a_service_manager_is_taken_and_kept_over_a_restart() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let manager = ["python3", "-c", SERVICE_MANAGER].map(Into::into).to_vec();
    let greeted = scratch.join("greeted");
    let relay = Launch::relay(&scratch, sink.address).env("GREETED", &greeted).under(manager).start();
    let greeting = until(SOON, "a greeting to who came before the program", || {
        fs::read_to_string(&greeted).ok().filter(|text| !text.is_empty())
    });
    assert!(greeting.starts_with("220 "), "{greeting}");
    assert_eq!(Client::connect(relay.smtp()).submit("a@from.test", "b@to.test", "by its socket").code, 250);
    restart(&relay);
    assert_eq!(Client::connect(relay.smtp()).submit("a@from.test", "b@to.test", "and again").code, 250);
    sink.await_arrivals(2, SOON);
    relay.stop();
}
