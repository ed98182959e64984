//! Intents: the ids of a transaction of several messages while it is not promised (docs/local-disk.md section 4).

use message::MessageId;

/// The text of the file.
pub(crate) fn encode(ids: &[MessageId]) -> Vec<u8> {
    let lines: String = ids.iter().map(|id| format!("{id}\n")).collect();
    let crc = crc32fast::hash(lines.as_bytes());
    format!("{MAGIC} crc={crc:08x} count={}\n{lines}", ids.len()).into_bytes()
}

/// The ids; `None` when the text is not whole, as when it was not synced yet.
pub(crate) fn decode(octets: &[u8]) -> Option<Vec<MessageId>> {
    let (first, lines) = core::str::from_utf8(octets).ok()?.split_once('\n')?;
    let ids: Option<Vec<MessageId>> = lines.lines().map(|line| line.parse().ok()).collect();
    let ids = ids.filter(|ids| !ids.is_empty())?;
    let crc = crc32fast::hash(lines.as_bytes());
    (first == format!("{MAGIC} crc={crc:08x} count={}", ids.len())).then_some(ids)
}

const MAGIC: &str = "postrider-transaction 1";
/// Longest text, in octets: 65 535 ids and the first line.
pub(crate) const INTENT_OCTETS_MAX: usize = 33 * 65_535 + 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_read_back_and_every_cut_is_seen() {
        let ids: Vec<_> = (0..3).map(|n| MessageId::from_bytes([n; 16])).collect();
        let octets = encode(&ids);
        assert_eq!(decode(&octets), Some(ids));
        for cut in 0..octets.len() {
            assert_eq!(decode(&octets[..cut]), None, "cut at {cut}");
        }
        for at in 0..octets.len() {
            let mut flipped = octets.clone();
            flipped[at] ^= 1;
            assert_eq!(decode(&flipped), None, "octet {at}");
        }
        assert_eq!(decode(&encode(&[])), None, "nothing is no transaction");
    }

    #[test]
    fn the_longest_fits() {
        let ids = vec![MessageId::from_bytes([0xff; 16]); 65_535];
        assert!(encode(&ids).len() <= INTENT_OCTETS_MAX);
    }
}
