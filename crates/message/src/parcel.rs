//! A message on its way from one node to another, as one run of octets.
//!
//! ```text
//! "postrider-xfer-1\n" | node, 16 octets | id there, 16 | state length, u32 | state | head length, u32 | head | body
//! ```
//!
//! Numbers are little-endian; `state` is the [`codec`](crate::codec)'s. Whatever comes in is checked; nothing panics.

use crate::codec::{self, CodecError};
use crate::{Envelope, MessageId, Meta};
use bytes::{Buf, Bytes};
use thiserror::Error;

/// What travels.
#[derive(Clone, Debug, PartialEq)]
pub struct Parcel {
    /// The node it comes from: the 16 octets of a UUID.
    pub node: [u8; 16],
    /// The message's id there.
    pub id: MessageId,
    /// Who from, and who it is still for.
    pub envelope: Envelope,
    /// What policy noted.
    pub meta: Meta,
    /// Header block and blank line.
    pub head: Bytes,
    /// The body.
    pub body: Bytes,
}

/// Why octets are not a parcel.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ParcelError {
    /// Something else, or of another version.
    #[error("the content does not begin with `postrider-xfer-1`")]
    NotAParcel,
    /// It ends inside a field.
    #[error("the content ends early")]
    Short,
    /// Envelope or metadata.
    #[error("{0}")]
    State(#[from] CodecError),
    /// A message to nobody.
    #[error("it has no recipients")]
    NoRecipients,
}

impl Parcel {
    /// The octets.
    pub fn encode(&self) -> Vec<u8> {
        let mut state = Vec::new();
        codec::encode(&self.envelope, &self.meta, &mut state);
        let mut octets = Vec::with_capacity(FIXED_OCTETS + state.len() + self.head.len() + self.body.len());
        octets.extend_from_slice(MAGIC);
        octets.extend_from_slice(&self.node);
        octets.extend_from_slice(self.id.as_bytes());
        for part in [&state[..], &self.head[..]] {
            octets.extend_from_slice(&(part.len() as u32).to_le_bytes());
            octets.extend_from_slice(part);
        }
        octets.extend_from_slice(&self.body);
        octets
    }

    /// The reverse; head and body share `octets`.
    ///
    /// # Errors
    /// See [`ParcelError`].
    pub fn decode(mut octets: Bytes) -> Result<Parcel, ParcelError> {
        if !octets.starts_with(MAGIC) {
            return Err(ParcelError::NotAParcel);
        }
        octets.advance(MAGIC.len());
        let (node, id) = (sixteen(&mut octets)?, MessageId::from_bytes(sixteen(&mut octets)?));
        let (envelope, meta) = codec::decode(&field(&mut octets)?)?;
        if envelope.recipients.is_empty() {
            return Err(ParcelError::NoRecipients);
        }
        let head = field(&mut octets)?;
        Ok(Parcel { node, id, envelope, meta, head, body: octets })
    }
}

fn sixteen(octets: &mut Bytes) -> Result<[u8; 16], ParcelError> {
    let mut value = [0; 16];
    octets.try_copy_to_slice(&mut value).map_err(|_| ParcelError::Short)?;
    Ok(value)
}

fn field(octets: &mut Bytes) -> Result<Bytes, ParcelError> {
    let length = octets.try_get_u32_le().map_err(|_| ParcelError::Short)? as usize;
    if length > octets.len() {
        return Err(ParcelError::Short);
    }
    Ok(octets.split_to(length))
}

/// What a parcel begins with.
const MAGIC: &[u8] = b"postrider-xfer-1\n";
/// All but state, head and body.
const FIXED_OCTETS: usize = MAGIC.len() + 16 + 16 + 4 + 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TlsDemand;
    use smtp_wire::{Mailbox, ReversePath};

    fn parcel() -> Parcel {
        let mut meta = Meta::new();
        meta.set("tenant", "shop");
        let recipients = ["a@x.test", "b@x.test"].map(|r| Mailbox::parse(r).expect(r)).to_vec();
        Parcel {
            node: [1; 16],
            id: MessageId::from_bytes([2; 16]),
            envelope: Envelope { sender: ReversePath(None), recipients, dsn: None, tls: TlsDemand::Usual },
            meta,
            head: Bytes::from_static(b"Subject: x\r\n\r\n"),
            body: Bytes::from_static(b"Hello.\r\n"),
        }
    }

    #[test]
    fn what_is_packed_is_unpacked() {
        assert_eq!(Parcel::decode(parcel().encode().into()), Ok(parcel()));
        let empty = Parcel { head: Bytes::new(), body: Bytes::new(), ..parcel() };
        assert_eq!(Parcel::decode(empty.encode().into()), Ok(empty));
    }

    #[test]
    fn what_is_cut_or_foreign_is_refused() {
        let whole = Bytes::from(parcel().encode());
        let to_body = whole.len() - parcel().body.len();
        for cut in 0..to_body {
            assert!(Parcel::decode(whole.slice(..cut)).is_err(), "{cut}");
        }
        let mut other = whole.to_vec();
        other[15] = b'2';
        assert_eq!(Parcel::decode(other.into()), Err(ParcelError::NotAParcel));
        let nobody = Envelope { recipients: Vec::new(), ..parcel().envelope };
        let nobody = Parcel { envelope: nobody, ..parcel() };
        assert_eq!(Parcel::decode(nobody.encode().into()), Err(ParcelError::NoRecipients));
    }
}
