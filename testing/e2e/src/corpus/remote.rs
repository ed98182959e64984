//! A server that mail is delivered to: it says yes unless a rule of its case says otherwise, and remembers what arrived.
//!
//! In: connections of the program under test. Out: [`Arrival`]s, noted before the reply to the end of content is written.
//! It speaks SMTP and LMTP without TLS, with a thread a connection; its threads end with its handle.

use crate::corpus::case::{Answer, RemoteSpec, Rule};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A running server; it hangs up on everybody when this goes.
#[derive(Debug)]
pub struct Remote {
    /// Its name in the case.
    pub name: String,
    /// Where it listens.
    pub address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// One message as it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// The name in EHLO.
    pub ehlo: String,
    /// Where the client came from, without its port.
    pub peer: String,
    /// Which connection of this server, counted from 1.
    pub connection: usize,
    /// All that was said over its connection before.
    pub commands: Vec<String>,
    /// The MAIL command.
    pub mail: String,
    /// The RCPT commands that were accepted.
    pub rcpt: Vec<String>,
    /// The content, dots unstuffed, lines without their ends.
    pub content: Vec<String>,
}

#[derive(Debug, Default)]
struct Shared {
    stopped: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    arrivals: Vec<Arrival>,
    rules: Vec<Rule>,
    open: Vec<TcpStream>,
}

impl Remote {
    /// Starts one on a free port of 127.0.0.1.
    pub fn start(spec: &RemoteSpec) -> Remote {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("a listener has an address");
        let state = State { rules: spec.rules.clone(), ..State::default() };
        let shared = Arc::new(Shared { state: Mutex::new(state), ..Shared::default() });
        let ours = Arc::clone(&shared);
        let thread = std::thread::spawn(move || accept(&listener, &ours));
        Remote { name: spec.name.clone(), address, shared, thread: Some(thread) }
    }

    /// Waits until so many messages have arrived, but not longer than this; returns all that have.
    pub fn await_arrivals(&self, count: usize, within: Duration) -> Vec<Arrival> {
        let deadline = Instant::now() + within;
        let mut state = self.shared.state();
        while state.arrivals.len() < count && Instant::now() < deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            state = self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.arrivals.clone()
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        // Wakes the accepting thread; if it cannot be reached it has ended.
        let _ = TcpStream::connect(self.address);
        for stream in &self.shared.state().open {
            // One that is closed already is what is wanted.
            let _ = stream.shutdown(Shutdown::Both);
        }
        if let Some(thread) = self.thread.take() {
            // A panic in it is on stderr; a second one here would hide the first.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the case says to this command, once or always.
    fn ruled(&self, command: &str) -> Option<Answer> {
        let mut state = self.state();
        let is_meant = |rule: &Rule| match rule.command.as_str() {
            word @ ("." | "connect") => command == word,
            prefix => command.starts_with(prefix),
        };
        let at = state.rules.iter().position(is_meant)?;
        let answer = state.rules[at].answer.clone();
        if state.rules[at].is_first_only {
            state.rules.remove(at);
        }
        Some(answer)
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut sessions: Vec<JoinHandle<()>> = Vec::new();
    for (number, stream) in listener.incoming().enumerate() {
        if shared.stopped.load(Ordering::SeqCst) {
            break;
        }
        let Ok(stream) = stream else { break };
        let Ok(handle) = stream.try_clone() else { break };
        shared.state().open.push(handle);
        let ours = Arc::clone(shared);
        sessions.push(std::thread::spawn(move || {
            let arrival = Arrival { connection: number + 1, ..Arrival::default() };
            // A connection that breaks is the client's to notice.
            let _ = Session { shared: ours, arrival, is_lmtp: false }.serve(stream);
        }));
    }
    for session in sessions {
        let _ = session.join();
    }
}

struct Session {
    shared: Arc<Shared>,
    /// The message that is coming in, and whom it comes from.
    arrival: Arrival,
    is_lmtp: bool,
}

impl Session {
    fn serve(&mut self, stream: TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        stream.set_nodelay(true)?;
        self.arrival.peer = stream.peer_addr()?.ip().to_string();
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut writer = stream;
        let mut command = "connect".to_owned();
        loop {
            let answer = self.shared.ruled(&command).unwrap_or_else(|| self.usual(&command));
            let Answer::Lines(lines) = answer else {
                let is_silent = answer == Answer::Silence;
                while is_silent && reader.read_line(&mut command)? > 0 {}
                return writer.shutdown(Shutdown::Both);
            };
            self.arrival.commands.push(command.clone());
            self.note(&command, &lines[0]);
            // LMTP has a reply for each recipient.
            let times = if self.is_lmtp && command == "." { self.arrival.rcpt.len() } else { 1 };
            writer.write_all(wire(&lines).repeat(times).as_bytes())?;
            if command == "." {
                self.arrival.rcpt.clear();
            }
            if command == "QUIT" || lines[0].starts_with("421") {
                return writer.shutdown(Shutdown::Both);
            }
            if lines[0].starts_with("354") {
                self.arrival.content = content(&mut reader)?;
                ".".clone_into(&mut command);
            } else if !next_line(&mut reader, &mut command)? {
                return Ok(());
            }
        }
    }

    fn usual(&self, command: &str) -> Answer {
        let verb = command.split(' ').next().unwrap_or_default();
        let lines: &[&str] = match verb {
            "connect" => &["220 sink.test ESMTP"],
            "EHLO" | "LHLO" => &["250 sink.test", "250 PIPELINING", "250 ENHANCEDSTATUSCODES", "250 8BITMIME"],
            "RCPT" if self.arrival.mail.is_empty() => &["503 5.5.1 no sender"],
            "HELO" | "MAIL" | "RCPT" | "RSET" | "NOOP" => &["250 2.0.0 fine"],
            "DATA" if self.arrival.rcpt.is_empty() => &["554 5.5.1 no recipients"],
            "DATA" => &["354 go on"],
            "." => &["250 2.0.0 taken"],
            "QUIT" => &["221 2.0.0 bye"],
            _ => &["502 5.5.2 not known here"],
        };
        Answer::Lines(lines.iter().map(|line| (*line).to_owned()).collect())
    }

    /// Remembers what a command with this reply means.
    fn note(&mut self, command: &str, reply: &str) {
        let is_yes = reply.starts_with('2');
        match command.split(' ').next().unwrap_or_default() {
            "EHLO" | "HELO" | "LHLO" => {
                self.is_lmtp = command.starts_with("LHLO");
                command[4..].trim().clone_into(&mut self.arrival.ehlo);
            }
            "MAIL" => {
                if is_yes { command } else { "" }.clone_into(&mut self.arrival.mail);
                self.arrival.rcpt.clear();
            }
            "RCPT" if is_yes => self.arrival.rcpt.push(command.to_owned()),
            "RSET" => self.arrival.rcpt.clear(),
            "." if is_yes => {
                self.shared.state().arrivals.push(self.arrival.clone());
                self.shared.changed.notify_all();
            }
            _ => {}
        }
    }
}

/// The lines of a reply as they go over the wire.
fn wire(lines: &[String]) -> String {
    let last = lines.len() - 1;
    let mark = |at: usize| if at == last { ' ' } else { '-' };
    lines.iter().enumerate().map(|(at, line)| format!("{}{}{}\r\n", &line[..3], mark(at), &line[4..])).collect()
}

fn next_line(reader: &mut impl BufRead, line: &mut String) -> io::Result<bool> {
    let mut octets = Vec::new();
    let count = reader.read_until(b'\n', &mut octets)?;
    String::from_utf8_lossy(&octets).trim_end_matches(['\r', '\n']).clone_into(line);
    Ok(count > 0)
}

fn content(reader: &mut impl BufRead) -> io::Result<Vec<String>> {
    let (mut lines, mut line) = (Vec::new(), String::new());
    while next_line(reader, &mut line)? {
        if line == "." {
            return Ok(lines);
        }
        lines.push(line.strip_prefix('.').unwrap_or(&line).to_owned());
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}

/// A client of ours is never this slow.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
