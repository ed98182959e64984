//! The receiver: an SMTP server with a thread a connection that treats mail as its book says.
//!
//! In: connections of the server under test. Out: entries in the book, made before the reply is written, because from
//! then on the mail is here. It writes nothing to disk and is not killed: it is the world outside.

use crate::torture::book::{AtDot, Book, Conversation};
use crate::until::{SOON, until};
use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// A running receiver; it hangs up on everybody when this goes.
#[derive(Debug)]
pub struct Receiver {
    /// Where it listens.
    pub address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    book: Arc<Book>,
    stopped: AtomicBool,
    open: Mutex<HashMap<u64, TcpStream>>,
}

impl Receiver {
    /// Starts one on a free port of 127.0.0.1.
    pub fn start(book: &Arc<Book>) -> Receiver {
        Receiver::start_on(book, SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    /// Starts one on the given address.
    pub fn start_on(book: &Arc<Book>, address: SocketAddr) -> Receiver {
        // A process that another test is just starting has our sockets until it is another program: also the one that was
        // closed when this port was found free.
        let listener = until(SOON, &format!("receiver on {address}"), || match TcpListener::bind(address) {
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => None,
            bound => Some(bound),
        });
        let listener = listener.unwrap_or_else(|e| panic!("receiver on {address}: {e}"));
        let address = listener.local_addr().expect("a listener has an address");
        let shared =
            Arc::new(Shared { book: Arc::clone(book), stopped: AtomicBool::new(false), open: Mutex::default() });
        let ours = Arc::clone(&shared);
        let thread = std::thread::spawn(move || accept(&listener, &ours));
        Receiver { address, shared, thread: Some(thread) }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        // Wakes the accepting thread; if it cannot be reached it has ended.
        let _ = TcpStream::connect(self.address);
        for stream in self.shared.open().values() {
            // One that is closed already is what is wanted.
            let _ = stream.shutdown(Shutdown::Both);
        }
        if let Some(thread) = self.thread.take() {
            // A panic in it is on stderr; a second one here would hide the test's own.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn open(&self) -> MutexGuard<'_, HashMap<u64, TcpStream>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for number in 0.. {
        let Ok((stream, peer)) = listener.accept() else { return };
        if shared.stopped.load(Ordering::SeqCst) {
            return;
        }
        let Ok(clone) = stream.try_clone() else { return };
        shared.open().insert(number, clone);
        let conversation = Conversation { life: shared.book.lives_ended(), port: peer.port(), written: 0 };
        let ours = Arc::clone(shared);
        std::thread::spawn(move || {
            let mut session =
                Session { book: &ours.book, conversation, recipients: Vec::new(), unanswered: Vec::new() };
            // A peer that is killed in the middle is this test's daily bread.
            if let Err(error) = session.serve(stream)
                && error.kind() == io::ErrorKind::ConnectionReset
            {
                ours.book.was_reset(&session.conversation);
            }
            ours.open().remove(&number);
        });
    }
}

struct Session<'a> {
    book: &'a Book,
    conversation: Conversation,
    recipients: Vec<String>,
    /// Copies taken, the answer not yet written.
    unanswered: Vec<(u64, usize)>,
}

impl Session<'_> {
    fn serve(&mut self, stream: TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(IDLE_MAX))?;
        stream.set_nodelay(true)?;
        let mut writer = stream.try_clone()?;
        let mut reader = BufReader::new(stream);
        let mut replies = String::from("220 receiver.test\r\n");
        let mut line = String::new();
        loop {
            // Pipelined commands get their replies in one piece.
            if reader.buffer().is_empty() {
                self.answer(&mut writer, &mut replies)?;
            }
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let command = line.trim_end();
            if command.eq_ignore_ascii_case("DATA") && !self.recipients.is_empty() {
                replies.push_str("354 go on\r\n");
                self.answer(&mut writer, &mut replies)?;
                let content = read_content(&mut reader)?;
                let Some(reply) = self.content(&content) else { return Ok(()) };
                replies.push_str(reply);
            } else if command.eq_ignore_ascii_case("QUIT") {
                replies.push_str("221 2.0.0 bye\r\n");
                return self.answer(&mut writer, &mut replies);
            } else {
                replies.push_str(self.command(command));
            }
        }
    }

    /// Writes the replies so far.
    fn answer(&mut self, writer: &mut TcpStream, replies: &mut String) -> io::Result<()> {
        let copies = std::mem::take(&mut self.unanswered);
        let replies = std::mem::take(replies);
        self.book.reply(&mut self.conversation, copies, &replies, |octets| writer.write_all(octets))
    }

    fn command(&mut self, command: &str) -> &'static str {
        let verb = command.get(..4).unwrap_or(command).to_ascii_uppercase();
        match verb.as_str() {
            "EHLO" => "250-receiver.test\r\n250-PIPELINING\r\n250-8BITMIME\r\n250 ENHANCEDSTATUSCODES\r\n",
            "HELO" | "NOOP" => "250 2.0.0 ok\r\n",
            "MAIL" | "RSET" => {
                self.recipients.clear();
                "250 2.0.0 ok\r\n"
            }
            "RCPT" => match command.split(['<', '>']).nth(1) {
                Some(address) if self.book.takes(address) => {
                    self.recipients.push(address.to_owned());
                    "250 2.1.5 ok\r\n"
                }
                Some(_) => "451 4.2.1 not yet\r\n",
                None => "501 5.1.3 no address\r\n",
            },
            "DATA" => "503 5.5.1 nobody to deliver to\r\n",
            _ => "502 5.5.1 no\r\n",
        }
    }

    /// The reply to a final dot; `None` to hang up.
    fn content(&mut self, content: &[u8]) -> Option<&'static str> {
        let (at_dot, taken) = self.book.arrive(&std::mem::take(&mut self.recipients), content);
        if at_dot == AtDot::Take {
            self.unanswered.extend(taken);
        }
        match at_dot {
            AtDot::Take => Some("250 2.0.0 taken\r\n"),
            AtDot::Defer => Some("451 4.3.0 not this time\r\n"),
            AtDot::HangUp => None,
        }
    }
}

/// Content up to the final dot, its stuffing taken out. A peer that breaks off is an error.
fn read_content(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    loop {
        let start = content.len();
        if reader.read_until(b'\n', &mut content)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if content[start..] == *b".\r\n" && (start == 0 || content[..start].ends_with(b"\r\n")) {
            content.truncate(start);
            return Ok(content);
        }
        if content[start] == b'.' {
            content.remove(start);
        }
    }
}

/// A connection nobody uses any more.
const IDLE_MAX: Duration = Duration::from_secs(300);
