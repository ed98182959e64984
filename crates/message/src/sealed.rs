//! A message whose bytes are final.

use crate::{Envelope, MessageId, Meta};
use bytes::Bytes;
use clock::WallTime;
use smtp_wire::Body;

/// Final bytes, envelope and metadata: what the spool makes durable. Immutable by convention:
/// nothing below the seal edits content.
#[derive(Clone, Debug)]
pub struct Sealed {
    /// Identity.
    pub id: MessageId,
    /// Who from, who for.
    pub envelope: Envelope,
    /// What policy noted.
    pub meta: Meta,
    /// Everything before the body: header block and blank line, every line ending in CRLF.
    pub head: Bytes,
    /// The body.
    pub body: Body,
    /// First moment it may be tried.
    pub due: WallTime,
}
