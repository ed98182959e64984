//! A peer model: takes mail as RFC 5321 asks, and, while things fail, lies in every way it can.
//!
//! Takes responsibility at the final dot and writes into the ledger that it did, whatever it
//! then answers, and whether or not the answer arrives.

use crate::event::Chunk;
use crate::plan::{Manner, SECOND};
use crate::wire;
use crate::world::{Pipe, World};
use smtp_wire::Mailbox;

/// The far end of one outbound connection.
pub(crate) struct Peer {
    site: usize,
    /// Of the server that connected.
    life: u32,
    input: Vec<u8>,
    in_content: bool,
    recipients: Vec<Mailbox>,
    in_transaction: bool,
    /// It refused a RSET, so what is pipelined behind is its own fault.
    reset_refused: bool,
    /// It reads and never answers again.
    silent: bool,
}

impl Peer {
    /// Where it is.
    pub fn site(&self) -> usize {
        self.site
    }
}

/// What a peer does with a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    Honest,
    /// Honest, and late.
    Slow,
    Transient,
    Permanent,
    Closing,
    Drop,
    Silent,
    Garbage,
}

impl World {
    /// The server connected to a host of this site.
    pub fn begin_peer(&mut self, connection: u64, site: usize, life: u32) {
        let peer = Peer {
            site,
            life,
            input: Vec::new(),
            in_content: false,
            recipients: Vec::new(),
            in_transaction: false,
            reset_refused: false,
            silent: false,
        };
        self.peers.insert(connection, peer);
        self.peer_answers(connection, "220 peer.test ready", |_, _| {});
    }

    /// Octets, or the end, from the server.
    pub fn peer_receives(&mut self, connection: u64, chunk: Chunk) {
        let Some(peer) = self.peers.get_mut(&connection) else { return };
        match chunk {
            Chunk::End => _ = self.peers.remove(&connection),
            Chunk::Octets(octets) => {
                peer.input.extend(octets);
                while self.peer_reads(connection) {}
            }
        }
    }

    /// Handles one command or one content; false when there is none.
    fn peer_reads(&mut self, connection: u64) -> bool {
        let Some(peer) = self.peers.get_mut(&connection).filter(|p| !p.silent) else { return false };
        if peer.in_content {
            let Some(content) = wire::take_content(&mut peer.input) else { return false };
            peer.in_content = false;
            self.peer_takes(connection, &content);
            return true;
        }
        let Some(line) = wire::take_line(&mut peer.input) else { return false };
        self.note(|| format!("connection {connection} says {line}"));
        let verb = line.split([' ', ':']).next().unwrap_or_default().to_ascii_uppercase();
        match verb.as_str() {
            "EHLO" => self.peer_says_hello(connection),
            "HELO" => self.peer_answers(connection, "250 peer.test", |_, _| {}),
            "MAIL" if self.peers[&connection].reset_refused => self.peer_writes(connection, "503 5.5.1 nested MAIL"),
            "MAIL" if self.peers[&connection].in_transaction => {
                self.ledger.violate(format!("connection {connection} began a transaction within one"));
            }
            "MAIL" => self.peer_answers(connection, "250 2.1.0 ok", |world, connection| {
                let Some(peer) = world.peers.get_mut(&connection) else { return };
                peer.in_transaction = true;
                peer.recipients.clear();
            }),
            "RCPT" => self.peer_hears_rcpt(connection, &line),
            "DATA" => self.peer_hears_data(connection),
            "RSET" => {
                self.peers.get_mut(&connection).into_iter().for_each(|p| p.reset_refused = true);
                self.peer_answers(connection, "250 2.0.0 ok", |world, connection| {
                    let Some(peer) = world.peers.get_mut(&connection) else { return };
                    (peer.in_transaction, peer.reset_refused) = (false, false);
                    peer.recipients.clear();
                });
            }
            "QUIT" => {
                self.peer_writes(connection, "221 2.0.0 bye");
                self.peer_drops(connection);
            }
            _ => self.ledger.violate(format!("connection {connection} said {line:?}")),
        }
        true
    }

    fn peer_says_hello(&mut self, connection: u64) {
        let site = &self.plan.sites[self.peers[&connection].site];
        let mut lines = vec!["250-peer.test"];
        lines.extend(site.pipelining.then_some("250-PIPELINING"));
        lines.extend(site.eight_bit.then_some("250-8BITMIME"));
        let reply = format!("{}\r\n250 ENHANCEDSTATUSCODES", lines.join("\r\n"));
        self.peer_answers(connection, &reply, |_, _| {});
    }

    fn peer_hears_rcpt(&mut self, connection: u64, line: &str) {
        let peer = &self.peers[&connection];
        let full = peer.recipients.len() >= self.plan.sites[peer.site].recipients_max;
        let address = line.split_once('<').and_then(|(_, rest)| rest.split_once('>')).map_or("", |(a, _)| a);
        let Ok(recipient) = Mailbox::parse(address) else {
            return self.ledger.violate(format!("connection {connection} said {line:?}"));
        };
        if !peer.in_transaction {
            return self.peer_writes(connection, "503 5.5.1 MAIL first");
        }
        if full {
            return self.peer_writes(connection, "452 4.5.3 too many recipients");
        }
        self.peer_answers(connection, "250 2.1.5 ok", move |world, connection| {
            world.peers.get_mut(&connection).into_iter().for_each(|p| p.recipients.push(recipient.clone()));
        });
    }

    fn peer_hears_data(&mut self, connection: u64) {
        let peer = &self.peers[&connection];
        if !peer.in_transaction {
            return self.peer_writes(connection, "503 5.5.1 MAIL first");
        }
        if peer.recipients.is_empty() && self.dice.chance(800) {
            return self.peer_writes(connection, "554 5.5.1 no valid recipients");
        }
        self.peer_answers(connection, "354 go on", |world, connection| {
            world.peers.get_mut(&connection).into_iter().for_each(|p| p.in_content = true);
        });
    }

    /// The whole content is there: now responsibility goes over, or not.
    fn peer_takes(&mut self, connection: u64, content: &[u8]) {
        let Some(peer) = self.peers.get_mut(&connection) else { return };
        peer.in_transaction = false;
        let (recipients, life) = (std::mem::take(&mut peer.recipients), peer.life);
        if recipients.is_empty() {
            return self.peer_writes(connection, "554 5.5.1 no valid recipients");
        }
        let mood = self.mood(connection);
        self.report.dropped_after_dot += u64::from(matches!(mood, Mood::Drop | Mood::Silent));
        let takes = match mood {
            Mood::Honest | Mood::Slow => true,
            // What it says is one thing, what it keeps another.
            _ => self.dice.chance(500),
        };
        if takes {
            self.note(|| format!("peer {connection} takes content for {recipients:?}, mood {mood:?}"));
            let honestly = matches!(mood, Mood::Honest | Mood::Slow | Mood::Permanent);
            recipients.iter().for_each(|r| self.ledger.taken(life, r, content, honestly));
        }
        if takes && mood == Mood::Permanent {
            // A peer that keeps mail and calls it refused makes a bounce of a delivery: its sin, not ours.
            return self.peer_writes(connection, "250 2.0.0 taken");
        }
        self.peer_acts(connection, mood, "250 2.0.0 taken", |_, _| {});
    }

    /// Answers as its mood is; `then` happens when the answer is the honest one.
    fn peer_answers(&mut self, connection: u64, honest: &str, then: impl FnOnce(&mut World, u64)) {
        let mood = self.mood(connection);
        self.peer_acts(connection, mood, honest, then);
    }

    fn peer_acts(&mut self, connection: u64, mood: Mood, honest: &str, then: impl FnOnce(&mut World, u64)) {
        match mood {
            Mood::Honest => {
                then(self, connection);
                self.peer_writes(connection, honest);
            }
            Mood::Slow => {
                then(self, connection);
                let Some(life) = self.peers.get(&connection).map(|p| p.life) else { return };
                let delay = self.dice.within(0, 25 * SECOND);
                self.hold_up(Pipe::FromPeer(life), connection, delay);
                self.peer_writes(connection, honest);
            }
            Mood::Transient => self.peer_writes(connection, "451 4.3.0 not now"),
            Mood::Permanent => self.peer_writes(connection, "550 5.7.1 never"),
            Mood::Closing => {
                self.report.closing_replies += 1;
                self.peer_writes(connection, "421 4.3.2 closing");
                self.peer_drops(connection);
            }
            Mood::Drop => self.peer_drops(connection),
            Mood::Silent => {
                self.report.silences += 1;
                self.peers.get_mut(&connection).into_iter().for_each(|p| p.silent = true);
            }
            Mood::Garbage => {
                self.report.garbage_replies += 1;
                self.peer_writes(connection, "I am a teapot");
            }
        }
    }

    fn mood(&mut self, connection: u64) -> Mood {
        let site = self.peers.get(&connection).map_or(0, |p| p.site);
        let trouble = self.plan.peer_trouble + self.plan.sites[site].trouble;
        if !self.trouble(trouble) {
            return Mood::Honest;
        }
        let moods = [
            Mood::Transient,
            Mood::Transient,
            Mood::Closing,
            Mood::Drop,
            Mood::Drop,
            Mood::Slow,
            Mood::Silent,
            Mood::Garbage,
        ];
        match self.dice.chance(100) {
            true => Mood::Permanent,
            false => *self.dice.pick(&moods),
        }
    }

    fn peer_writes(&mut self, connection: u64, reply: &str) {
        let Some((life, site)) = self.peers.get(&connection).map(|p| (p.life, p.site)) else { return };
        let pipe = Pipe::FromPeer(life);
        match self.plan.sites[site].manner {
            _ if self.recovered => {}
            Manner::Prompt => {}
            Manner::Dribbles { pause, octets } => return self.peer_dribbles(pipe, connection, reply, (pause, octets)),
            Manner::Verbose { endless } => return self.peer_goes_on(pipe, connection, reply, endless),
            Manner::Vanishes(chance) if self.dice.chance(chance) => return self.peer_vanishes(connection),
            Manner::Vanishes(_) => {}
        }
        self.transmit(pipe, connection, format!("{reply}\r\n").into_bytes());
    }

    fn peer_drops(&mut self, connection: u64) {
        if let Some(peer) = self.peers.remove(&connection) {
            self.hang_up(Pipe::FromPeer(peer.life), connection);
        }
    }

    /// How long a host takes to answer a connect.
    pub fn connect_latency(&mut self) -> u64 {
        self.dice.within(0, SECOND)
    }
}
