//! Peers that are no use and mean no harm, or do: tarpits, such as never stop talking, and such as are gone without a word.
//!
//! What they mean is what they would have said at once; so whoever waits long enough, and reads enough, hears it.

use crate::event::Chunk;
use crate::outbound::HOST_BITS;
use crate::plan::Manner;
use crate::world::{Pipe, World};

impl World {
    /// True while the site of a connection of the server dribbles.
    pub fn is_tarpit(&mut self, number: u64) -> bool {
        let wire = self.outbound(number).map(|outbound| outbound.wire(number));
        let peer = wire.and_then(|wire| self.peers.get(&wire));
        let site = peer.and_then(|peer| self.plan.sites.get(peer.site()));
        !self.recovered && site.is_some_and(|site| matches!(site.manner, Manner::Dribbles { .. }))
    }

    /// A reply in small pieces, with a pause before each.
    pub fn peer_dribbles(&mut self, pipe: Pipe, connection: u64, reply: &str, (pause, octets): (u64, bool)) {
        self.report.tarpitted += 1;
        let wire = format!("{reply}\r\n").into_bytes();
        let pieces: Vec<&[u8]> = match octets {
            true => wire.chunks(1).collect(),
            false => wire.split_inclusive(|o| *o == b'\n').collect(),
        };
        for piece in pieces {
            self.hold_up(pipe, connection, pause);
            self.send(pipe, connection, Chunk::Octets(piece.to_vec()));
        }
    }

    /// A reply among thousands of lines, with lines of many thousand octets, or without end.
    pub fn peer_goes_on(&mut self, pipe: Pipe, connection: u64, reply: &str, endless: bool) {
        let (code, last) = (reply.get(..3).unwrap_or("250"), reply.rsplit("\r\n").next().unwrap_or(reply));
        let before = reply.strip_suffix(last).unwrap_or_default();
        if endless && !std::mem::replace(&mut self.endless_said, true) {
            self.report.endless_replies += 1;
            let line = format!("{code}-{}\r\n", "and on ".repeat(1_000));
            return self.send(pipe, connection, Chunk::Octets(line.repeat(OCTETS_ENDLESS / line.len()).into_bytes()));
        }
        self.report.huge_replies += 1;
        let wire = match self.dice.below(3) {
            0 => format!("{before}{}{last}\r\n", format!("{code}-X-MORE and more\r\n").repeat(self.dice.below(3_000))),
            1 => format!("{before}{code}-X-{}\r\n{last}\r\n", "LONG ".repeat(self.dice.below(10_000))),
            _ => format!("{before}{last} {}\r\n", "long ".repeat(self.dice.below(10_000))),
        };
        self.send(pipe, connection, Chunk::Octets(wire.into_bytes()));
    }

    /// The host is gone: neither octets nor the end come through any more, either way.
    pub fn peer_vanishes(&mut self, connection: u64) {
        self.note(|| format!("the peer of connection {connection} is gone, and nobody is told"));
        self.report.half_open += 1;
        let has_some = self.outbound(connection >> HOST_BITS).is_some_and(|o| !o.in_hand.is_empty());
        self.report.half_open_in_hand += u64::from(has_some);
        self.peers.remove(&connection);
        self.vanished.insert(connection);
    }
}

/// Octets of a reply without end: a little more than a session reads.
const OCTETS_ENDLESS: usize = smtp_wire::reply_reader::REPLY_WIRE_BYTES_MAX + 100_000;
