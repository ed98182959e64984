//! Message ids in KumoMTA's layout: version-1 UUIDs, 32 hex digits without dashes.
//!
//! An id tells when its message was created and sorts nowhere: KumoMTA's logs, HTTP API and
//! `250 OK ids=` show exactly this form. Ids of one generator never repeat, even when the
//! clock is set back: by little, and its own time stands until the clock is there again; by more,
//! and it goes on from the clock with another clock sequence (RFC 4122 section 4.2.1), so that
//! a moment of a wrong clock does not make what comes later younger than it is.

use clock::WallTime;
use core::fmt;
use core::str::FromStr;

/// A message's identity: the 16 octets of a version-1 UUID.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId([u8; 16]);

/// Makes ids; one per process, behind one owner.
#[derive(Clone, Debug)]
pub struct IdGenerator {
    node: [u8; 6],
    clock_sequence: u16,
    /// 100 ns intervals since 1582-10-15 of the last id.
    last_ticks: u64,
}

impl MessageId {
    /// From the 16 stored octets.
    pub const fn from_bytes(bytes: [u8; 16]) -> MessageId {
        MessageId(bytes)
    }

    /// The 16 octets as stored.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// When the id was made. Meaningful for version-1 ids only; others give a nonsense time.
    pub fn created(&self) -> WallTime {
        let b = &self.0;
        let low = u64::from(u32::from_be_bytes([b[0], b[1], b[2], b[3]]));
        let mid = u64::from(u16::from_be_bytes([b[4], b[5]]));
        let high = u64::from(u16::from_be_bytes([b[6], b[7]]) & 0x0fff);
        let ticks = (high << 48) | (mid << 32) | low;
        WallTime::from_unix_micros((ticks as i64 - UNIX_EPOCH_TICKS as i64) / 10)
    }
}

impl IdGenerator {
    /// A generator for one process. `node` and `clock_sequence` come from the driver (node id,
    /// randomness), so that two processes of one host never make the same id.
    pub fn new(node: [u8; 6], clock_sequence: u16) -> IdGenerator {
        IdGenerator { node, clock_sequence: clock_sequence & 0x3fff, last_ticks: 0 }
    }

    /// The next id; its time is `now`, or just behind the previous id when the clock stood or went back a little.
    pub fn next(&mut self, now: WallTime) -> MessageId {
        let clock_ticks = (now.unix_micros().max(0) as u64).saturating_mul(10) + UNIX_EPOCH_TICKS;
        if self.last_ticks > clock_ticks + BACK_TICKS_MAX {
            self.clock_sequence = (self.clock_sequence + 1) & 0x3fff;
            self.last_ticks = 0;
        }
        let ticks = clock_ticks.max(self.last_ticks + 1) & 0x0fff_ffff_ffff_ffff;
        self.last_ticks = ticks;
        let mut b = [0; 16];
        b[0..4].copy_from_slice(&(ticks as u32).to_be_bytes());
        b[4..6].copy_from_slice(&((ticks >> 32) as u16).to_be_bytes());
        b[6..8].copy_from_slice(&(((ticks >> 48) as u16) | 0x1000).to_be_bytes());
        b[8..10].copy_from_slice(&(self.clock_sequence | 0x8000).to_be_bytes());
        b[10..16].copy_from_slice(&self.node);
        MessageId(b)
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut hex = [0; 32];
        for (i, b) in self.0.iter().enumerate() {
            hex[i * 2] = HEX[usize::from(b >> 4)];
            hex[i * 2 + 1] = HEX[usize::from(b & 15)];
        }
        f.write_str(core::str::from_utf8(&hex).unwrap_or_default())
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not a message id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a message id: expected 32 hex digits")]
pub struct NotAnId(String);

impl FromStr for MessageId {
    type Err = NotAnId;

    /// Accepts 32 hex digits, with or without the dashes of a UUID.
    fn from_str(text: &str) -> Result<Self, NotAnId> {
        let digits: Vec<u8> = text.bytes().filter(|b| *b != b'-').collect();
        let mut bytes = [0; 16];
        if digits.len() != 32 {
            return Err(NotAnId(text.to_owned()));
        }
        for (i, pair) in digits.chunks_exact(2).enumerate() {
            let value = |d: u8| char::from(d).to_digit(16);
            let (Some(high), Some(low)) = (value(pair[0]), value(pair[1])) else {
                return Err(NotAnId(text.to_owned()));
            };
            bytes[i] = (high * 16 + low) as u8;
        }
        Ok(MessageId(bytes))
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";
/// 100 ns intervals from 1582-10-15 (the UUID epoch) to 1970-01-01.
const UNIX_EPOCH_TICKS: u64 = 0x01b2_1dd2_1381_4000;
/// So far back the clock may be set, and ids stand and wait for it: 2 s.
const BACK_TICKS_MAX: u64 = 20_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_tell_their_time_and_never_repeat() {
        let mut ids = IdGenerator::new([1, 2, 3, 4, 5, 6], 77);
        let now = WallTime::from_unix_micros(1_790_000_000_123_456);
        let first = ids.next(now);
        assert_eq!(first.created(), now);
        assert_ne!(ids.next(now), first);
        let back = ids.next(WallTime::from_unix_micros(now.unix_micros() - 1_900_000));
        assert!(back.created() >= now, "a clock set back does not repeat ids");
        let hour = core::time::Duration::from_secs(3600);
        let (ahead, set_right) = (ids.next(now + hour), ids.next(now));
        assert_eq!((ahead.created(), set_right.created()), (now + hour, now), "it is as old as it is");
        assert_ne!(set_right, first, "the same moment, and another id");
        assert_ne!(ids.next(now), set_right, "from there on as before");
        assert_eq!(first.to_string().len(), 32);
        assert_eq!(first.to_string().as_bytes()[12], b'1', "version 1");
        assert_eq!(first.to_string().parse(), Ok(first));
        assert!("xyz".parse::<MessageId>().is_err());
    }
}
