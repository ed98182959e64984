//! Remote servers that behave as remote servers do: one takes mail, others are busy, refuse, hang up, or say nothing.
//!
//! In: lines of an SMTP client, and how often somebody came before. Out: replies, and the message that was taken. [`Session`] is
//! pure; [`serve`] has the sockets. Fails by what a socket does: that session ends, as it would anywhere.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;

/// How a server behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    Accepts,
    /// 451 at first, then it takes the message.
    BusyFirst,
    /// 550, always.
    Refuses,
    /// Closes the connection at first instead of answering the message, then it takes it.
    HangsUpFirst,
    /// Lets everybody in and says nothing.
    Silent,
}

impl Manner {
    pub const ALL: [Manner; 5] =
        [Manner::Accepts, Manner::BusyFirst, Manner::Refuses, Manner::HangsUpFirst, Manner::Silent];

    /// Its domain.
    pub fn domain(self) -> &'static str {
        match self {
            Manner::Accepts => "accepts.test",
            Manner::BusyFirst => "busy.test",
            Manner::Refuses => "refuses.test",
            Manner::HangsUpFirst => "hangs-up.test",
            Manner::Silent => "silent.test",
        }
    }

    /// What people are told of it.
    pub fn words(self) -> &'static str {
        match self {
            Manner::Accepts => "takes mail",
            Manner::BusyFirst => "says 451 at first, as a busy or greylisting server does",
            Manner::Refuses => "says 550: it knows no such mailbox",
            Manner::HangsUpFirst => "hangs up at first, in the middle of a message",
            Manner::Silent => "lets everybody in and never says a word",
        }
    }
}

/// What a server does after a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Act {
    Nothing,
    Say(&'static str),
    /// The message is taken.
    Take(&'static str),
    HangUp,
}

/// One session, without its socket.
#[derive(Debug)]
pub(super) struct Session {
    manner: Manner,
    is_first: bool,
    in_data: bool,
    /// As it came, without dot-stuffing.
    pub message: Vec<u8>,
}

impl Session {
    /// `is_first`: nobody came before.
    pub fn new(manner: Manner, is_first: bool) -> Session {
        Session { manner, is_first, in_data: false, message: Vec::new() }
    }

    /// What is done about a line, which ends with CRLF.
    pub fn line(&mut self, line: &[u8]) -> Act {
        if self.in_data {
            return self.data(line);
        }
        let verb = line.get(..4).unwrap_or_default().to_ascii_uppercase();
        match verb.as_slice() {
            b"EHLO" | b"HELO" => Act::Say("250 mx.test\r\n"),
            b"RCPT" if self.manner == Manner::BusyFirst && self.is_first => {
                // The next attempt may come over this connection.
                self.is_first = false;
                Act::Say("451 4.7.1 busy, or greylisted: come back later\r\n")
            }
            b"RCPT" if self.manner == Manner::Refuses => Act::Say("550 5.1.1 no such mailbox here\r\n"),
            b"MAIL" | b"RCPT" | b"RSET" | b"NOOP" => Act::Say("250 2.0.0 fine\r\n"),
            b"DATA" => {
                self.in_data = true;
                self.message.clear();
                Act::Say("354 go ahead\r\n")
            }
            b"QUIT" => Act::HangUp,
            _ => Act::Say("500 5.5.2 what?\r\n"),
        }
    }

    fn data(&mut self, line: &[u8]) -> Act {
        if line != b".\r\n" {
            self.message.extend_from_slice(line.strip_prefix(b".").unwrap_or(line));
            return Act::Nothing;
        }
        self.in_data = false;
        match self.manner == Manner::HangsUpFirst && self.is_first {
            true => Act::HangUp,
            false => Act::Take("250 2.0.0 thank you\r\n"),
        }
    }
}

/// Serves until it is dropped; messages that are taken go to `taken`.
pub(super) async fn serve(socket: TcpListener, manner: Manner, taken: UnboundedSender<(Manner, Vec<u8>)>) {
    let visits = Arc::new(AtomicU32::new(0));
    let mut sessions = JoinSet::new();
    loop {
        tokio::select! {
            Some(_) = sessions.join_next() => {}
            accepted = socket.accept() => {
                // Somebody who went away before he was let in.
                let Ok((stream, _)) = accepted else { continue };
                let is_first = visits.fetch_add(1, Ordering::Relaxed) == 0;
                sessions.spawn(talk(stream, Session::new(manner, is_first), taken.clone()));
            }
        }
    }
}

async fn talk(
    mut stream: TcpStream,
    mut session: Session,
    taken: UnboundedSender<(Manner, Vec<u8>)>,
) -> io::Result<()> {
    let (reader, mut writer) = stream.split();
    let mut reader = BufReader::new(reader.take(OCTETS_MAX));
    if session.manner != Manner::Silent {
        writer.write_all(b"220 mx.test ESMTP\r\n").await?;
    }
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).await? > 0 {
        match session.line(&line) {
            Act::Nothing => {}
            Act::Say(reply) => writer.write_all(reply.as_bytes()).await?,
            Act::Take(reply) => {
                writer.write_all(reply.as_bytes()).await?;
                // Nobody waits for it any more: then the trial is over.
                _ = taken.send((session.manner, std::mem::take(&mut session.message)));
            }
            Act::HangUp => return Ok(()),
        }
        line.clear();
    }
    Ok(())
}

/// Octets of one session.
const OCTETS_MAX: u64 = 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn play(manner: Manner, is_first: bool) -> Vec<Act> {
        let mut session = Session::new(manner, is_first);
        let lines = ["EHLO a\r\n", "MAIL FROM:<a@b>\r\n", "rcpt TO:<c@d>\r\n", "DATA\r\n", "..x\r\n", ".\r\n"];
        let acts = lines.iter().map(|line| session.line(line.as_bytes())).collect();
        assert_eq!(session.message, b".x\r\n");
        acts
    }

    #[test]
    fn each_behaves_in_its_manner() {
        let last = |manner, is_first| play(manner, is_first).pop();
        assert_eq!(last(Manner::Accepts, true), Some(Act::Take("250 2.0.0 thank you\r\n")));
        assert_eq!(last(Manner::HangsUpFirst, true), Some(Act::HangUp));
        assert_eq!(last(Manner::HangsUpFirst, false), Some(Act::Take("250 2.0.0 thank you\r\n")));
        let to_rcpt = |manner, is_first| match &play(manner, is_first)[2] {
            Act::Say(reply) => reply[..3].to_owned(),
            other => panic!("{other:?}"),
        };
        assert_eq!(to_rcpt(Manner::BusyFirst, true), "451");
        let mut twice = Session::new(Manner::BusyFirst, true);
        let rcpt = b"RCPT TO:<c@d>\r\n";
        assert_ne!(twice.line(rcpt), twice.line(rcpt), "also over the same connection the second attempt is let in");
        assert_eq!(to_rcpt(Manner::BusyFirst, false), "250");
        assert_eq!([to_rcpt(Manner::Refuses, true), to_rcpt(Manner::Refuses, false)], ["550", "550"]);
        assert_eq!(Session::new(Manner::Accepts, true).line(b"QUIT\r\n"), Act::HangUp);
        assert_eq!(Session::new(Manner::Accepts, true).line(b"x\r\n"), Act::Say("500 5.5.2 what?\r\n"));
    }
}
