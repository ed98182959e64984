//! The SMTP conversation of a client, at the cost of one write and one read a message.
//!
//! In: letters. Out: replies, settled through [`Client`]. With PIPELINING the next message's MAIL, RCPT and DATA ride
//! in the same write as the body and its final dot (RFC 2920 3.1 allows a group to begin with the end of data), so
//! that the server answers the message and the next envelope together. Without it commands go one at a time.
//! It sends one message to one recipient in a transaction and believes every reply.

use std::io::IoSlice;
use std::time::{Duration, Instant};

use super::client::{Client, ClientError, Ending, Run};
use super::letter::Letter;
use super::tally::Shard;
use super::tls;
use super::wire::{Wire, WireError};

/// A connection whose greeting is over.
pub(super) struct SmtpSession {
    wire: Wire,
    pipelining: bool,
    takes_8bit: bool,
    /// Messages begun on this connection.
    messages: u64,
}

/// A reply; the text is only kept of refusals.
struct Reply {
    code: u16,
    text: String,
}

enum Envelope {
    /// 354: the content may come.
    Accepted,
    Refused(Reply),
}

impl SmtpSession {
    /// Connects, says EHLO, and upgrades to TLS if the plan wants it.
    pub(super) async fn open(run: &Run, shard: &Shard) -> Result<Self, ClientError> {
        // The semaphore is never closed, so a permit always comes.
        let _permit = run.handshakes.acquire().await;
        let wire = Wire::connect(&run.plan.addresses).await?;
        run.connected(shard);
        let mut session = Self { wire, pipelining: false, takes_8bit: false, messages: 0 };
        session.read_reply(|_| {}).await?.positive("the connection")?;
        let mut offers_tls = session.say_hello(run).await?;
        if let Some(connector) = &run.tls {
            if !std::mem::take(&mut offers_tls) {
                return Err(ClientError::NoStartTls);
            }
            session.command(b"STARTTLS\r\n").await?.positive("STARTTLS")?;
            session.wire.start_tls(connector, tls::server_name(&run.plan.authority)).await?;
            session.say_hello(run).await?;
        }
        Ok(session)
    }

    /// Says EHLO; returns whether STARTTLS is offered.
    async fn say_hello(&mut self, run: &Run) -> Result<bool, ClientError> {
        self.wire.write_all(b"EHLO traffic-gen.test\r\n").await?;
        let (mut pipelining, mut takes_8bit, mut offers_tls) = (false, false, false);
        let reply = self.read_reply(|line| {
            pipelining |= line.eq_ignore_ascii_case(b"PIPELINING");
            takes_8bit |= line.eq_ignore_ascii_case(b"8BITMIME");
            offers_tls |= line.eq_ignore_ascii_case(b"STARTTLS");
        });
        reply.await?.positive("EHLO")?;
        self.pipelining = pipelining && run.plan.pipeline;
        self.takes_8bit = takes_8bit;
        Ok(offers_tls)
    }

    /// Says QUIT and waits a little for the answer, so that the server sees a clean end.
    pub(super) async fn quit(&mut self) {
        // A failure to say goodbye changes nothing for messages that are settled.
        let _ = tokio::time::timeout(QUIT_TIMEOUT, self.command(b"QUIT\r\n")).await;
    }

    async fn command(&mut self, command: &[u8]) -> Result<Reply, ClientError> {
        self.wire.write_all(command).await?;
        self.read_reply(|_| {}).await
    }

    /// Reads one reply, giving the text of each line to `each_line`.
    async fn read_reply(&mut self, mut each_line: impl FnMut(&[u8])) -> Result<Reply, ClientError> {
        for _ in 0..REPLY_LINES_MAX {
            let line = self.wire.line().await?;
            let bad = || ClientError::BadReply(String::from_utf8_lossy(line).into_owned());
            let (digits, rest) = line.split_at_checked(3).ok_or_else(bad)?;
            if !digits.iter().all(u8::is_ascii_digit) {
                return Err(bad());
            }
            let code = digits.iter().fold(0, |code, digit| code * 10 + u16::from(digit - b'0'));
            each_line(rest.get(1..).unwrap_or_default());
            if rest.first() != Some(&b'-') {
                let text = if code < 400 { String::new() } else { String::from_utf8_lossy(line).into_owned() };
                return Ok(Reply { code, text });
            }
        }
        Err(ClientError::BadReply(format!("more than {REPLY_LINES_MAX} lines")))
    }
}

impl Reply {
    fn is_positive(&self) -> bool {
        (200..300).contains(&self.code)
    }

    fn positive(self, stage: &'static str) -> Result<(), ClientError> {
        if self.is_positive() { Ok(()) } else { Err(ClientError::Refused { stage, reply: self.text }) }
    }

    /// 421, or a limit of this connection (`451 4.5.3`): the message may go through on another one.
    fn wants_new_connection(&self) -> bool {
        self.code == 421 || self.text.starts_with("451 4.5.3")
    }
}

impl Client {
    /// Sends messages over the session until the work is done or the connection is of no more use.
    pub(super) async fn converse_smtp(&mut self, session: &mut SmtpSession) -> Result<Ending, ClientError> {
        let mut riding = None;
        loop {
            let letter = match riding.take() {
                Some(letter) => letter,
                None => {
                    if session.messages >= self.run.plan.messages_per_connection {
                        return Ok(Ending::Renew);
                    }
                    if !self.hold(1) || !self.permission(1).await {
                        return Ok(Ending::Done);
                    }
                    let letter = self.next_letter();
                    if session.pipelining {
                        self.tail.clear();
                        self.append_envelope(session.takes_8bit, letter);
                        session.wire.write_all(&self.tail).await?;
                    }
                    letter
                }
            };
            session.messages += 1;
            if let Envelope::Refused(reply) = self.envelope_answers(session, letter).await? {
                self.run.note_failure(|| reply.text.clone());
                if reply.wants_new_connection() {
                    return Ok(Ending::Renew);
                }
                self.failed(1);
                continue;
            }
            riding = self.next_may_ride(session).then(|| self.next_letter());
            if let Ending::Renew = self.send_content(session, letter, riding).await? {
                return Ok(Ending::Renew);
            }
        }
    }

    /// Whether the next message's envelope may follow this message's content at once.
    fn next_may_ride(&mut self, session: &SmtpSession) -> bool {
        if !session.pipelining || session.messages >= self.run.plan.messages_per_connection {
            return false;
        }
        let now = Instant::now();
        !self.run.work.is_over(now) && self.hold(2) && self.permission_now(now)
    }

    /// MAIL, RCPT and DATA: sends them one by one if they were not sent already, and reads their replies.
    async fn envelope_answers(&mut self, session: &mut SmtpSession, letter: Letter) -> Result<Envelope, ClientError> {
        if session.pipelining {
            let mail = session.read_reply(|_| {}).await?;
            if mail.code == 421 {
                return Ok(Envelope::Refused(mail));
            }
            let rcpt = session.read_reply(|_| {}).await?;
            if rcpt.code == 421 {
                return Ok(Envelope::Refused(rcpt));
            }
            let data = session.read_reply(|_| {}).await?;
            return self.judge_envelope(session, mail, rcpt, data).await;
        }
        self.tail.clear();
        self.run.stationery.mail(&mut self.tail, letter, session.takes_8bit);
        let mail = session.command(&self.tail).await?;
        if !mail.is_positive() {
            return Ok(Envelope::Refused(mail));
        }
        self.tail.clear();
        self.run.stationery.rcpt(&mut self.tail, letter);
        let rcpt = session.command(&self.tail).await?;
        let data = if rcpt.is_positive() {
            session.command(b"DATA\r\n").await?
        } else {
            Reply { code: 0, text: String::new() }
        };
        self.judge_envelope(session, mail, rcpt, data).await
    }

    /// The first refusal counts. A transaction left open is closed: after a 354 without a recipient with a lone dot
    /// (RFC 2920 3.1), otherwise with RSET.
    async fn judge_envelope(
        &mut self,
        session: &mut SmtpSession,
        mail: Reply,
        rcpt: Reply,
        data: Reply,
    ) -> Result<Envelope, ClientError> {
        let may_send = data.code == 354;
        let transaction_open = mail.is_positive();
        let refusal = match (transaction_open, rcpt.is_positive(), may_send) {
            (true, true, true) => return Ok(Envelope::Accepted),
            (false, _, _) => mail,
            (true, false, _) => rcpt,
            (true, true, false) => data,
        };
        if refusal.wants_new_connection() {
            return Ok(Envelope::Refused(refusal));
        }
        if may_send {
            session.command(b".\r\n").await?;
        } else if transaction_open {
            session.command(b"RSET\r\n").await?;
        }
        Ok(Envelope::Refused(refusal))
    }

    /// Sends header, body and dot, and the next envelope behind them; reads the reply to the dot and settles.
    async fn send_content(
        &mut self,
        session: &mut SmtpSession,
        letter: Letter,
        riding: Option<Letter>,
    ) -> Result<Ending, ClientError> {
        self.write_head(letter);
        self.tail.clear();
        self.tail.extend_from_slice(b".\r\n");
        if let Some(next) = riding {
            self.append_envelope(session.takes_8bit, next);
        }
        let body = &self.run.stationery.body.smtp;
        let complete_bytes = self.head.len() + body.len() + b".\r\n".len();
        let mut slices = [&self.head[..], body, &self.tail].map(IoSlice::new);
        let written = session.wire.write(&mut slices).await;
        let answer = match written.outcome {
            Ok(()) => session.read_reply(|_| {}).await,
            Err(error) if written.bytes >= complete_bytes => Err(error.into()),
            // The server has not seen the dot, so it cannot have accepted: the ticket stays for another try.
            Err(error) => return Err(error.into()),
        };
        let reply = match answer {
            Ok(reply) => reply,
            Err(error) => {
                self.unknown(letter, 1);
                return Err(error);
            }
        };
        if reply.is_positive() {
            self.sent(letter, &[0], written.last_part_at);
            return Ok(Ending::Done);
        }
        self.run.note_failure(|| reply.text.clone());
        if reply.code == 421 && self.run.plan.reconnect_forever {
            return Err(WireError::Closed.into());
        }
        self.failed(1);
        Ok(if reply.wants_new_connection() { Ending::Renew } else { Ending::Done })
    }

    /// Appends MAIL, RCPT and DATA to `tail`.
    fn append_envelope(&mut self, takes_8bit: bool, letter: Letter) {
        self.run.stationery.mail(&mut self.tail, letter, takes_8bit);
        self.run.stationery.rcpt(&mut self.tail, letter);
        self.tail.extend_from_slice(b"DATA\r\n");
    }
}

/// Lines of one reply.
const REPLY_LINES_MAX: usize = 100;
const QUIT_TIMEOUT: Duration = Duration::from_secs(2);
