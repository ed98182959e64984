//! A client model: sends its transactions, waits for replies or pipelines, breaks off, stalls.
//!
//! It keeps in the ledger what it was told: that is all a client ever knows.

use crate::event::{Chunk, Event};
use crate::ledger::Told;
use crate::plan::SECOND;
use crate::wire;
use crate::world::{Pipe, World};
use message::MessageId;
use smtp_wire::reply_reader::ReplyReader;
use smtp_wire::{Mailbox, Reply};
use std::collections::VecDeque;

/// One client on one connection.
pub(crate) struct Client {
    plan: usize,
    /// Of the transactions in its plan.
    next: usize,
    pipelines: bool,
    reader: ReplyReader,
    expected: VecDeque<Expected>,
    recipients: Vec<Mailbox>,
    accepted: Vec<Mailbox>,
    mail_accepted: bool,
    /// The transaction in hand.
    submission: Option<usize>,
    content: Vec<u8>,
    /// Content that is still to be written; its end is the final dot.
    unsent: Vec<u8>,
    /// Octets of `unsent` after which it breaks off.
    breaks_off_after: Option<usize>,
}

/// A reply it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Banner,
    Hello,
    Mail,
    Rcpt(usize),
    Data,
    Dot,
    Quit,
}

impl World {
    /// A client connects, if anybody listens.
    pub fn client_starts(&mut self, plan: usize) {
        let listening = self.process.as_ref().is_some_and(|p| !p.stopping);
        if !listening {
            return self.agenda.enter(self.now + SECOND, Event::ClientStarts(plan));
        }
        self.clients_to_come -= 1;
        let session = self.fresh_number();
        let client = Client {
            plan,
            next: 0,
            pipelines: self.plan.clients[plan].pipelines,
            reader: ReplyReader::new(),
            expected: VecDeque::from([Expected::Banner]),
            recipients: Vec::new(),
            accepted: Vec::new(),
            mail_accepted: false,
            submission: None,
            content: Vec::new(),
            unsent: Vec::new(),
            breaks_off_after: None,
        };
        self.clients.insert(session, client);
        self.agenda.enter(self.now + 600 * SECOND, Event::ClientGivesUp(session));
        self.begin_inbound(session);
    }

    /// Octets, or the end, from the server.
    pub fn client_receives(&mut self, session: u64, chunk: Chunk) {
        let Chunk::Octets(octets) = chunk else { return self.client_leaves(session) };
        let mut rest = &octets[..];
        while let Some(client) = self.clients.get_mut(&session) {
            match client.reader.read(&mut rest) {
                None => return,
                Some(Ok(reply)) => self.client_hears(session, &reply),
                Some(Err(error)) => return self.ledger.violate(format!("the server said what is no reply: {error}")),
            }
        }
    }

    /// It waited long enough, whatever for.
    pub fn client_gives_up(&mut self, session: u64) {
        if self.clients.contains_key(&session) {
            self.client_breaks_off(session);
        }
    }

    /// Goes on writing content.
    pub fn client_writes(&mut self, session: u64) {
        let stalls = self.plan.client_trouble / 4;
        if self.trouble(stalls) {
            // Silence: the server's deadline ends this.
            if self.dice.chance(500) {
                self.note(|| format!("client {session} is gone, and nobody is told"));
                self.report.vanished_clients += 1;
                self.clients.remove(&session);
            }
            return;
        }
        let slow = self.dice.chance(100);
        let Some(client) = self.clients.get_mut(&session) else { return };
        let length = if slow { client.unsent.len().div_ceil(2) } else { client.unsent.len() };
        let mut octets: Vec<u8> = client.unsent.drain(..length).collect();
        let breaks_off = client.breaks_off_after.is_some_and(|after| after < octets.len());
        if breaks_off {
            octets.truncate(client.breaks_off_after.unwrap_or(0));
        } else if let Some(after) = &mut client.breaks_off_after {
            *after -= octets.len();
        }
        let whole = client.unsent.is_empty() && !breaks_off;
        let submission = client.submission;
        if whole {
            client.expected.push_back(Expected::Dot);
        }
        if let Some(submission) = submission.filter(|_| whole) {
            self.ledger.submissions[submission].told = Told::Unknown;
        }
        self.transmit(Pipe::ToServer, session, octets);
        match (breaks_off, whole) {
            (true, _) => self.client_breaks_off(session),
            (false, true) => {
                let trouble = self.plan.client_trouble / 2;
                if self.trouble(trouble) {
                    self.client_breaks_off(session);
                }
            }
            (false, false) => {
                let pause = self.dice.within(0, 2 * SECOND);
                self.agenda.enter(self.now + pause, Event::ClientWrites(session));
            }
        }
    }

    fn client_hears(&mut self, session: u64, reply: &Reply) {
        self.note(|| format!("client {session} hears {reply}"));
        let Some(client) = self.clients.get_mut(&session) else { return };
        let expected = client.expected.pop_front();
        if reply.code == 421 {
            if expected == Some(Expected::Dot) {
                self.client_is_told(session, reply);
            }
            return self.client_breaks_off(session);
        }
        let Some(expected) = expected else {
            return self.ledger.violate(format!("client {session} hears what it did not ask for: {reply}"));
        };
        match expected {
            Expected::Banner => self.client_says(session, "EHLO client.test\r\n", Expected::Hello),
            Expected::Hello => self.client_begins(session),
            Expected::Mail => self.client_heard_mail(session, reply.is_success()),
            Expected::Rcpt(number) => self.client_heard_rcpt(session, number, reply.is_success()),
            Expected::Data if reply.code == 354 => self.client_writes(session),
            Expected::Data => self.client_begins(session),
            Expected::Dot => {
                self.client_is_told(session, reply);
                self.client_begins(session);
            }
            Expected::Quit => self.client_leaves(session),
        }
    }

    /// The answer to the final dot.
    fn client_is_told(&mut self, session: u64, reply: &Reply) {
        let Some(client) = self.clients.get_mut(&session) else { return };
        let Some(submission) = client.submission.take() else { return };
        let entry = &mut self.ledger.submissions[submission];
        entry.accepted = std::mem::take(&mut client.accepted);
        entry.told = if reply.is_success() { Told::Yes } else { Told::No };
        if reply.is_success() {
            let ids = reply.text.split("ids=").nth(1).unwrap_or_default();
            entry.ids = ids.split_whitespace().filter_map(|id| id.parse::<MessageId>().ok()).collect();
        }
    }

    /// The next transaction, or the end.
    fn client_begins(&mut self, session: u64) {
        let trouble = self.plan.client_trouble / 4;
        if self.trouble(trouble) {
            return self.client_breaks_off(session);
        }
        let Some(client) = self.clients.get(&session) else { return };
        let (plan, next) = (client.plan, client.next);
        let Some(transaction) = self.plan.clients[plan].transactions.get(next) else {
            return self.client_says(session, "QUIT\r\n", Expected::Quit);
        };
        let submission = self.ledger.submit();
        let address = |(n, d): &(usize, usize)| Mailbox::parse(&format!("r{n}.{submission}@d{d}.test"));
        let recipients: Vec<Mailbox> = transaction.recipients.iter().filter_map(|r| address(r).ok()).collect();
        let content = wire::content(&mut self.dice, submission, transaction.body_octets, transaction.eight_bit);
        let body = if transaction.eight_bit { " BODY=8BITMIME" } else { "" };
        let unsent = wire::stuffed(&content);
        let trouble = self.plan.client_trouble / 2;
        let breaks_off = self.trouble(trouble).then(|| self.dice.below(unsent.len()));
        let Some(client) = self.clients.get_mut(&session) else { return };
        client.next += 1;
        client.submission = Some(submission);
        (client.accepted, client.mail_accepted) = (Vec::new(), false);
        (client.content, client.unsent, client.breaks_off_after) = (content, unsent, breaks_off);
        let mut commands = format!("MAIL FROM:<s@sender.test>{body}\r\n");
        client.expected.push_back(Expected::Mail);
        if client.pipelines {
            for (number, recipient) in recipients.iter().enumerate() {
                commands += &format!("RCPT TO:<{recipient}>\r\n");
                client.expected.push_back(Expected::Rcpt(number));
            }
            commands += "DATA\r\n";
            client.expected.push_back(Expected::Data);
        }
        client.recipients = recipients;
        self.transmit(Pipe::ToServer, session, commands.into_bytes());
    }

    fn client_heard_mail(&mut self, session: u64, accepted: bool) {
        let Some(client) = self.clients.get_mut(&session) else { return };
        client.mail_accepted = accepted;
        match (client.pipelines, accepted) {
            (true, _) => {}
            (false, true) => self.client_says_rcpt(session, 0),
            (false, false) => self.client_begins(session),
        }
    }

    fn client_heard_rcpt(&mut self, session: u64, number: usize, accepted: bool) {
        let Some(client) = self.clients.get_mut(&session) else { return };
        if accepted {
            client.accepted.push(client.recipients[number].clone());
        }
        if client.pipelines {
            return;
        }
        match (number + 1 < client.recipients.len(), client.accepted.is_empty()) {
            (true, _) => self.client_says_rcpt(session, number + 1),
            (false, false) => self.client_says(session, "DATA\r\n", Expected::Data),
            // RSET would be polite; MAIL anew is what careless clients do: the server refuses it.
            (false, true) => self.client_says(session, "QUIT\r\n", Expected::Quit),
        }
    }

    fn client_says_rcpt(&mut self, session: u64, number: usize) {
        let Some(client) = self.clients.get(&session) else { return };
        let command = format!("RCPT TO:<{}>\r\n", client.recipients[number]);
        self.client_says(session, &command, Expected::Rcpt(number));
    }

    fn client_says(&mut self, session: u64, command: &str, expected: Expected) {
        let Some(client) = self.clients.get_mut(&session) else { return };
        client.expected.push_back(expected);
        self.transmit(Pipe::ToServer, session, command.as_bytes().to_vec());
    }

    fn client_breaks_off(&mut self, session: u64) {
        self.note(|| format!("client {session} breaks off"));
        self.hang_up(Pipe::ToServer, session);
        self.clients.remove(&session);
    }

    fn client_leaves(&mut self, session: u64) {
        if self.clients.contains_key(&session) {
            self.client_breaks_off(session);
        }
    }
}
