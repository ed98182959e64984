//! A client of a case: lines said, replies heard, in clear or through `openssl s_client`.
//!
//! What goes wrong on the way is a text for the report of the case, not a panic.

use crate::corpus::pattern::Pattern;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// One connection.
pub struct Client {
    reader: BufReader<Box<dyn Read>>,
    writer: Box<dyn Write>,
    openssl: Option<Child>,
}

impl Client {
    /// Connects; nothing is read yet.
    pub fn connect(to: SocketAddr) -> Result<Client, String> {
        let stream = TcpStream::connect(to).map_err(|e| format!("connect to {to}: {e}"))?;
        stream.set_read_timeout(Some(READ_TIMEOUT)).expect("a timeout can be set");
        let writer = stream.try_clone().expect("a handle");
        Ok(Client { reader: BufReader::new(Box::new(stream)), writer: Box::new(writer), openssl: None })
    }

    /// Connects and starts TLS: greeting, EHLO and STARTTLS are openssl's own doing.
    pub fn connect_tls(to: SocketAddr) -> Result<Client, String> {
        let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        ours.set_read_timeout(Some(READ_TIMEOUT)).expect("a timeout can be set");
        let theirs = OwnedFd::from(theirs);
        let mut command = Command::new("openssl");
        command.args(["s_client", "-quiet", "-starttls", "smtp", "-name", "client.test", "-connect", &to.to_string()]);
        command.stdin(theirs.try_clone().expect("a handle")).stdout(theirs).stderr(Stdio::null());
        let openssl = Some(command.spawn().map_err(|e| format!("openssl: {e}"))?);
        let writer = ours.try_clone().expect("a handle");
        Ok(Client { reader: BufReader::new(Box::new(ours)), writer: Box::new(writer), openssl })
    }

    /// Sends a line. A server that has hung up is for the next reply to notice.
    pub fn send(&mut self, line: &str) {
        let _ = self.writer.write_all(format!("{line}\r\n").as_bytes()).and_then(|()| self.writer.flush());
    }

    /// Sends a line and compares its reply.
    pub fn say(&mut self, line: &str, reply: &Pattern) -> Result<(), String> {
        self.send(line);
        self.hear(reply).map_err(|why| format!("> {line}\n  {why}"))
    }

    /// Compares the next reply: its code, and its lines with blanks between.
    pub fn hear(&mut self, expected: &Pattern) -> Result<(), String> {
        let found = self.reply()?;
        if expected.matches(&found) { Ok(()) } else { Err(format!("expected  < {expected}\n  found     < {found}")) }
    }

    /// The server has to hang up without another word.
    pub fn hear_the_end(&mut self) -> Result<(), String> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(0) => Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => Ok(()),
            Ok(_) => Err(format!("expected  closed\n  found     < {line}")),
            Err(error) => Err(format!("expected  closed\n  found     {error}")),
        }
    }

    fn reply(&mut self) -> Result<String, String> {
        let mut found = String::new();
        loop {
            let mut line = String::new();
            let read = self.reader.read_line(&mut line);
            let count = read.map_err(|error| format!("no reply: {error}, after {found:?}"))?;
            let line = line.trim_end();
            if count == 0 || line.len() < 3 || !line.is_char_boundary(3) {
                return Err(format!("expected a reply, found {line:?}, after {found:?}"));
            }
            let text = line.get(4..).unwrap_or_default();
            let blank = if found.is_empty() { &line[..3] } else { "" };
            found.extend([blank, " ", text]);
            if line.as_bytes().get(3) != Some(&b'-') {
                return Ok(found.trim_end().to_owned());
            }
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(child) = &mut self.openssl {
            // One that has ended already is what is wanted.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

const READ_TIMEOUT: Duration = Duration::from_secs(15);
