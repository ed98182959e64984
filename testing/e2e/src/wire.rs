//! A bare SMTP client: says exactly the octets it is given, so that a test can say what no mail program would.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// One connection.
#[derive(Debug)]
pub struct Client {
    peer: SocketAddr,
    reader: BufReader<TcpStream>,
}

/// A reply, its lines without code and line end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The three digits.
    pub code: u16,
    /// The text of each line.
    pub lines: Vec<String>,
}

impl Client {
    /// Connects and reads the greeting, which must be a 220.
    pub fn connect(peer: SocketAddr) -> Client {
        let mut client = Client::connect_mute(peer);
        let greeting = client.reply();
        assert_eq!(greeting.code, 220, "greeting of {peer}: {greeting:?}");
        client
    }

    /// Connects and reads nothing.
    pub fn connect_mute(peer: SocketAddr) -> Client {
        Client::try_connect_mute(peer).unwrap_or_else(|e| panic!("connect to {peer}: {e}"))
    }

    /// The same, where the peer may be gone.
    fn try_connect_mute(peer: SocketAddr) -> std::io::Result<Client> {
        let stream = TcpStream::connect(peer)?;
        stream.set_read_timeout(Some(READ_TIMEOUT)).expect("a timeout can be set");
        stream.set_nodelay(true).expect("TCP_NODELAY can be set");
        Ok(Client { peer, reader: BufReader::new(stream) })
    }

    /// A reply may take that long instead of 15 seconds.
    pub fn waits_for(&mut self, patience: Duration) {
        self.reader.get_ref().set_read_timeout(Some(patience)).expect("a timeout can be set");
    }

    /// Our end of the connection.
    pub fn local(&self) -> SocketAddr {
        self.reader.get_ref().local_addr().expect("a connected socket has an address")
    }

    /// Sends octets as they are. A peer that has hung up is the reader's to notice.
    pub fn send(&mut self, octets: impl AsRef<[u8]>) {
        let sent = self.reader.get_mut().write_all(octets.as_ref());
        if let Err(error) = sent {
            let gone = [io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset];
            assert!(gone.contains(&error.kind()), "send to {}: {error}", self.peer);
        }
    }

    /// The next reply; `None` when the peer has closed instead.
    pub fn try_reply(&mut self) -> Option<Reply> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            match self.reader.read_line(&mut line) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::ConnectionReset => return None,
                Err(e) => panic!("reading a reply from {}: {e}", self.peer),
            }
            let line = line.strip_suffix("\r\n").unwrap_or_else(|| panic!("reply line without CRLF: {line:?}"));
            let code = line.get(..3).and_then(|digits| digits.parse().ok());
            let code = code.unwrap_or_else(|| panic!("not a reply line: {line:?}"));
            lines.push(line.get(4..).unwrap_or_default().to_owned());
            if line.as_bytes().get(3) != Some(&b'-') {
                return Some(Reply { code, lines });
            }
        }
    }

    /// The next reply; panics when the peer has closed instead.
    pub fn reply(&mut self) -> Reply {
        self.try_reply().unwrap_or_else(|| panic!("{} closed the connection instead of replying", self.peer))
    }

    /// Sends a line and returns its reply.
    pub fn say(&mut self, line: &str) -> Reply {
        self.send(format!("{line}\r\n"));
        self.reply()
    }

    /// Sends a line and checks its reply's code.
    pub fn expect(&mut self, line: &str, code: u16) -> Reply {
        let reply = self.say(line);
        assert_eq!(reply.code, code, "{line}: {reply:?}");
        reply
    }

    /// EHLO, MAIL, RCPT and DATA up to the 354.
    pub fn begin(&mut self, from: &str, to: &str) {
        self.expect("EHLO client.test", 250);
        self.expect(&format!("MAIL FROM:<{from}>"), 250);
        self.expect(&format!("RCPT TO:<{to}>"), 250);
        self.expect("DATA", 354);
    }

    /// Sends one small message; returns the reply to its end.
    pub fn submit(&mut self, from: &str, to: &str, subject: &str) -> Reply {
        self.begin(from, to);
        self.say(&format!("From: <{from}>\r\nTo: <{to}>\r\nSubject: {subject}\r\n\r\nHello.\r\n."))
    }

    /// Sends a message, from the greeting on; false as soon as the peer says anything but that it goes on, or has closed.
    pub fn try_submit(mut self, from: &str, to: &str) -> bool {
        let goes_on = |client: &mut Client, code| client.try_reply().is_some_and(|reply| reply.code == code);
        if !goes_on(&mut self, 220) {
            return false;
        }
        let words = ["EHLO client.test".to_owned(), format!("MAIL FROM:<{from}>"), format!("RCPT TO:<{to}>")];
        for word in words {
            self.send(format!("{word}\r\n"));
            if !goes_on(&mut self, 250) {
                return false;
            }
        }
        self.send("DATA\r\n");
        if !goes_on(&mut self, 354) {
            return false;
        }
        self.send("Subject: x\r\n\r\nHello.\r\n.\r\n");
        goes_on(&mut self, 250)
    }

    /// True when the peer closes without another word.
    pub fn is_closed_silently(&mut self) -> bool {
        let mut octet = [0];
        match self.reader.read(&mut octet) {
            Ok(count) => count == 0,
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
        }
    }
}

impl Reply {
    /// All lines, with blanks between.
    pub fn text(&self) -> String {
        self.lines.join(" ")
    }
}

/// Sends messages until the peer is gone, each to an address that begins with this name; the recipients of those it took.
pub fn submit_until_cut(peer: SocketAddr, name: &str) -> Vec<String> {
    let mut accepted = Vec::new();
    // It may be gone before it greets.
    let Ok(mut connection) = Client::try_connect_mute(peer) else { return accepted };
    if connection.try_reply().is_none_or(|greeting| greeting.code != 220) {
        return accepted;
    }
    let mut say = |text: String, code: u16| {
        connection.send(text);
        connection.try_reply().is_some_and(|reply| reply.code == code)
    };
    if !say("EHLO client.test\r\n".to_owned(), 250) {
        return accepted;
    }
    for number in 0.. {
        let to = format!("{name}n{number}@target.test");
        let taken = say("MAIL FROM:<a@source.test>\r\n".to_owned(), 250)
            && say(format!("RCPT TO:<{to}>\r\n"), 250)
            && say("DATA\r\n".to_owned(), 354)
            && say("Subject: x\r\n\r\nHello.\r\n.\r\n".to_owned(), 250);
        if !taken {
            break;
        }
        accepted.push(to);
    }
    accepted
}

const READ_TIMEOUT: Duration = Duration::from_secs(15);
