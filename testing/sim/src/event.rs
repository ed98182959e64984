//! Everything that can happen in a simulation.
//!
//! Events of a process carry its life and are void when that life is over.

use crate::asking::Said;
use config::QueueConfig;
use message::{MessageId, Sealed};
use queue::{Effect, Ending, EndingKind, QueueKey, Queued};
use spool::{Durable, SpoolError};
use std::sync::Arc;

/// One thing that happens.
#[derive(Debug)]
pub enum Event {
    /// A client connects and begins to send what is in its script.
    ClientStarts(usize),
    /// Octets, or the end, from a client to the server.
    ToServer(u64, Chunk),
    /// Octets, or the end, from the server to a client.
    ToClient(u64, Chunk),
    /// A client that pauses goes on writing.
    ClientWrites(u64),
    /// A client has waited long enough.
    ClientGivesUp(u64),
    /// Octets, or the end, from the server to a peer.
    ToPeer(u64, Chunk),
    /// Something within a life of the server.
    Server(u32, ServerEvent),
    /// The disk begins to fail.
    DiskFails,
    /// The disk works again.
    DiskHeals,
    /// The operator gives an order or takes one back.
    Operator,
    /// Memory becomes short, or does no longer.
    MemoryShort,
    /// The life ends so.
    LifeEnds(End),
    /// The next life begins.
    LifeBegins,
    /// From now on nothing fails any more.
    Recovery,
    /// The oracle looks at everything.
    Inspection,
}

/// Something within a life of the server.
#[derive(Debug)]
pub enum ServerEvent {
    /// The deadline of an inbound session may have passed.
    InboundDeadline(u64),
    /// Policy answers a question of an inbound session.
    Answered(u64),
    /// The writer thread takes its turn.
    WriterTurn(u64),
    /// The writer completes an append.
    Appended(Appender, Result<(Vec<Sealed>, Vec<Durable>), SpoolError>),
    /// Effects of one visit to the queue are carried out.
    Effects(Vec<Effect>),
    /// A settler looks for the next message that ends without a connection.
    Settler(EndingKind),
    /// A settler has this message in hand.
    SettleEnding(Box<Queued>, Ending),
    /// An asker looks for the next message that is to become ready.
    Asker,
    /// Policy answers about a message that is to become ready.
    Said(MessageId, Said),
    /// Policy answers about a message that failed.
    Requeued(MessageId),
    /// The spooler looks for messages that are in memory only.
    Spooler,
    /// The queue's clockwork fires.
    Tick(u64),
    /// Policy says how a queue is configured.
    Configured(QueueKey, Arc<str>),
    /// DNS and policy say where a queue's mail goes.
    Routed(QueueKey, Arc<str>, Arc<QueueConfig>),
    /// The addresses of a connection's destination are known, or not.
    Resolved(u64),
    /// An attempt to connect is over.
    Connected(u64),
    /// Octets, or the end, from a peer to a connection.
    FromPeer(u64, Chunk),
    /// The deadline of an outbound session may have passed.
    OutboundDeadline(u64),
    /// The socket of a connection takes octets again.
    Writable(u64),
    /// A connection's patience with idleness ends; the second number tells which idleness.
    IdleEnds(u64, u64),
    /// A connection was woken.
    Woken(u64),
    /// The segments of earlier lives are read.
    OldSegmentsRead,
    /// Some more messages of earlier lives go back to their queues.
    Restore,
    /// The operator, who saw an error, stops the server to start it again.
    OperatorStops,
    /// The grace of a stopping server is over.
    GraceEnds,
}

/// Who wants messages durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appender {
    /// An inbound session.
    Session(u64),
    /// The spooler of messages that were accepted into memory.
    Spooler,
}

/// What a pipe carries.
#[derive(Clone, Debug)]
pub enum Chunk {
    /// Some octets.
    Octets(Vec<u8>),
    /// The end: closed, reset or timed out.
    End,
}

/// How a life ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The power fails: what was not synced is up to chance.
    PowerCut,
    /// The process is killed: what was written stays.
    Kill,
    /// The operator stops it.
    Stop,
}
