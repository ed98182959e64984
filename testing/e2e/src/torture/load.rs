//! The load: senders that go on whatever happens to the server, and note every answer.
//!
//! A sender waits for the reply to each letter before the next, at a rate of its own; a connection that breaks makes
//! the letter's answer unknown and is opened again. It never sends a letter twice.

use crate::torture::{Answer, Book, Letter, Mix};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Running senders; they end when this goes.
#[derive(Debug)]
pub struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// One connection to the server.
#[derive(Debug)]
pub struct Line {
    reader: BufReader<TcpStream>,
}

/// What came of one letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Answered 250.
    Acked,
    /// Refused with this reply, somewhere between MAIL and the final dot.
    Refused(String),
    /// The connection broke; the letter's answer, if it was offered, is unknown.
    Broken,
}

impl Load {
    /// Starts `senders` that send `per_second` letters together, for ever.
    pub fn start(book: &Arc<Book>, to: SocketAddr, senders: usize, per_second: usize, mix: &Mix) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let interval = Duration::from_secs_f64(senders as f64 / per_second as f64);
        let spawn = |number: usize| {
            let sender = Sender {
                book: Arc::clone(book),
                stop: Arc::clone(&stop),
                to,
                mix: mix.clone(),
                random: fastrand::Rng::with_seed(book.seed.wrapping_add(number as u64)),
            };
            let first = interval.mul_f64(number as f64 / senders as f64);
            std::thread::spawn(move || sender.run(first, interval))
        };
        let threads = (0..senders).map(spawn).collect();
        Load { stop, threads }
    }

    /// Ends the senders once each has its answer.
    pub fn stop(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("a sender panicked");
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // Not joined: on the way out of a failed test nobody waits for answers.
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Line {
    /// Connects, reads the greeting, says EHLO. A greeting other than 220 is a refusal and an error.
    ///
    /// # Errors
    /// Nobody listens, or the server hung up.
    pub fn open(to: SocketAddr, book: &Book) -> io::Result<Line> {
        let begun = Instant::now();
        let stream = TcpStream::connect_timeout(&to, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        let mut line = Line { reader: BufReader::new(stream) };
        for command in ["", "EHLO sender.test\r\n"] {
            line.write(command.as_bytes())?;
            let reply = line.reply()?;
            if !reply.starts_with('2') {
                book.refuse(begun.elapsed(), reply.clone());
                return Err(io::Error::other(reply));
            }
        }
        Ok(line)
    }

    /// Sends one letter and notes what came of it; `on_reply` is called as soon as the reply to the final dot is read.
    pub fn send(&mut self, book: &Book, letter: &Letter, on_reply: impl FnOnce(&str)) -> Sent {
        let mut offered = false;
        match self.try_send(book, letter, &mut offered, on_reply) {
            Ok(sent) => sent,
            Err(_) => {
                if offered {
                    book.answer(letter.number, Answer::Unknown);
                }
                Sent::Broken
            }
        }
    }

    fn try_send(
        &mut self,
        book: &Book,
        letter: &Letter,
        offered: &mut bool,
        on_reply: impl FnOnce(&str),
    ) -> io::Result<Sent> {
        if let Some(refused) = self.envelope(book, letter)? {
            return Ok(refused);
        }
        let content = stuffed(&letter.content);
        book.offer(letter);
        *offered = true;
        let begun = Instant::now();
        self.write(&content)?;
        self.write(b".\r\n")?;
        let reply = self.reply()?;
        on_reply(&reply);
        if reply.starts_with("250") {
            book.answer(letter.number, Answer::Acked);
            return Ok(Sent::Acked);
        }
        book.answer(letter.number, Answer::Refused);
        book.refuse(begun.elapsed(), reply.clone());
        Ok(Sent::Refused(reply))
    }

    /// Begins a letter and hangs up in the middle of its content: nothing of it may ever arrive.
    pub fn cut(mut self, book: &Book, letter: &Letter) -> io::Result<()> {
        if self.envelope(book, letter)?.is_none() {
            let content = stuffed(&letter.content);
            self.write(&content[..content.len() / 2])?;
            self.reader.get_ref().shutdown(Shutdown::Both)?;
        }
        Ok(())
    }

    /// MAIL, RCPTs and DATA in one piece. `None` when the server waits for content.
    fn envelope(&mut self, book: &Book, letter: &Letter) -> io::Result<Option<Sent>> {
        let begun = Instant::now();
        let mut commands = String::from("MAIL FROM:<torture@source.test>\r\n");
        letter.recipients().for_each(|address| commands.push_str(&format!("RCPT TO:<{address}>\r\n")));
        self.write(format!("{commands}DATA\r\n").as_bytes())?;
        let mut refusal = None;
        for _ in 0..=letter.fates.len() {
            let reply = self.reply()?;
            if !reply.starts_with("250") && refusal.is_none() {
                refusal = Some(reply);
            }
        }
        let reply = self.reply()?;
        if reply.starts_with("354") && refusal.is_none() {
            return Ok(None);
        }
        let reason = refusal.unwrap_or_else(|| reply.clone());
        book.refuse(begun.elapsed(), reason.clone());
        if reply.starts_with("354") {
            // A part of the recipients was refused: not this test's case, and there is no way back but to hang up.
            return Err(io::Error::other(reason));
        }
        self.write(b"RSET\r\n")?;
        self.reply()?;
        Ok(Some(Sent::Refused(reason)))
    }

    fn write(&mut self, octets: &[u8]) -> io::Result<()> {
        self.reader.get_mut().write_all(octets)
    }

    /// The next reply, its lines joined by blanks.
    fn reply(&mut self) -> io::Result<String> {
        let mut text = String::new();
        loop {
            let mut line = String::new();
            if self.reader.read_line(&mut line)? == 0 || !line.ends_with('\n') {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let last = line.as_bytes().get(3) != Some(&b'-');
            text.push_str(line.trim_end());
            if last {
                return Ok(text);
            }
            text.push(' ');
        }
    }
}

/// One thread of a load.
struct Sender {
    book: Arc<Book>,
    stop: Arc<AtomicBool>,
    to: SocketAddr,
    mix: Mix,
    random: fastrand::Rng,
}

impl Sender {
    fn run(mut self, first: Duration, interval: Duration) {
        let mut due = Instant::now() + first;
        let mut line: Option<Line> = None;
        while !self.stop.load(Ordering::Relaxed) {
            std::thread::sleep(due.saturating_duration_since(Instant::now()).min(STOP_SEEN_WITHIN));
            let now = Instant::now();
            if now < due {
                continue;
            }
            // What a dead server cost is not made up for: no burst follows.
            due = (due + interval).max(now);
            let Some(mut open) = line.take().or_else(|| Line::open(self.to, &self.book).ok()) else {
                due = now + RECONNECT_INTERVAL;
                continue;
            };
            let letter = self.book.letter(&self.mix);
            if self.random.u8(0..100) < self.mix.cut_percent {
                // A server that died meanwhile cut it for us.
                let _ = open.cut(&self.book, &letter);
            } else if open.send(&self.book, &letter, |_| ()) != Sent::Broken {
                line = Some(open);
            }
        }
    }
}

/// Content as DATA wants it: dots at the beginning of lines doubled.
fn stuffed(content: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len() + 64);
    for line in content.split_inclusive(|octet| *octet == b'\n') {
        if line.first() == Some(&b'.') {
            out.push(b'.');
        }
        out.extend_from_slice(line);
    }
    out
}

/// A server that says nothing for so long is broken.
const PATIENCE: Duration = Duration::from_secs(30);
const RECONNECT_INTERVAL: Duration = Duration::from_millis(5);
const STOP_SEEN_WITHIN: Duration = Duration::from_millis(50);
