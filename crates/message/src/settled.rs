//! Which recipients of a message are settled: a bitmap that costs 8 octets while there is none.
//!
//! Recipient numbers are positions in the envelope, 0 to 65 534. Kept by queues and by the spool for
//! every queued message, so that the common cases, one recipient or nobody settled, take no allocation.

/// Settled recipients of one message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::box_collection, reason = "8 octets instead of 24 in each of millions of messages")]
pub struct Settled(Option<Box<Vec<u8>>>);

impl Settled {
    /// Notes a recipient; false when it was noted already.
    pub fn insert(&mut self, recipient: u16) -> bool {
        let bits = self.0.get_or_insert_default();
        let (at, bit) = (usize::from(recipient / 8), 1 << (recipient % 8));
        if bits.len() <= at {
            bits.resize(at + 1, 0);
        }
        let fresh = bits[at] & bit == 0;
        bits[at] |= bit;
        fresh
    }

    /// Whether a recipient is settled.
    pub fn contains(&self, recipient: u16) -> bool {
        self.bitmap().get(usize::from(recipient / 8)).is_some_and(|octet| octet >> (recipient % 8) & 1 == 1)
    }

    /// How many are.
    pub fn len(&self) -> usize {
        self.bitmap().iter().map(|octet| octet.count_ones() as usize).sum()
    }

    /// True when nobody is.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The stored form: recipient *i* is bit *i* mod 8 of octet *i* / 8; no trailing zeros.
    pub fn bitmap(&self) -> &[u8] {
        self.0.as_deref().map_or(&[], Vec::as_slice)
    }

    /// From the stored form; octets beyond the last possible recipient are dropped.
    pub fn from_bitmap(octets: &[u8]) -> Settled {
        let octets = &octets[..octets.len().min(BITMAP_OCTETS_MAX)];
        let used = octets.iter().rposition(|octet| *octet != 0).map_or(0, |last| last + 1);
        Settled((used > 0).then(|| Box::new(octets[..used].to_vec())))
    }
}

/// Octets for 65 536 recipients.
const BITMAP_OCTETS_MAX: usize = 1 << 13;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bitmap_comes_back_as_it_went() {
        let mut settled = Settled::default();
        assert!(settled.is_empty() && settled.bitmap().is_empty());
        for recipient in [0, 7, 63, 64, 1000, u16::MAX] {
            assert!(settled.insert(recipient) && !settled.insert(recipient), "{recipient}");
        }
        assert_eq!(settled.len(), 6);
        let back = Settled::from_bitmap(settled.bitmap());
        assert_eq!(back, settled);
        for recipient in 0..1100 {
            assert_eq!(back.contains(recipient), [0, 7, 63, 64, 1000].contains(&recipient), "{recipient}");
        }
        assert_eq!(Settled::from_bitmap(&[0, 0]), Settled::default());
        assert_eq!(Settled::from_bitmap(&[1; 9000]).bitmap().len(), BITMAP_OCTETS_MAX);
    }
}
