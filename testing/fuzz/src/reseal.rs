//! Makes the checksums of a spool segment right again after its octets were changed.
//!
//! Blind changes would all end at the first checksum. This walks what the changed lengths say
//! (docs/spool-format.md sections 2 to 4, written here a second time from that page) and repairs every crc it
//! can reach, so that the changed numbers themselves are read. Nothing is repaired but checksums and tags.

/// Octets of a page.
pub const PAGE: usize = 4096;

/// Repairs the header page and every batch that begins on a page.
pub fn reseal(segment: &mut [u8]) {
    if segment.len() >= 64 {
        seal(&mut segment[..64]);
    }
    for page in 1..segment.len() / PAGE {
        let batch = &mut segment[page * PAGE..];
        if batch.starts_with(b"PRSPBAT\n") {
            reseal_batch(batch);
        }
    }
}

fn reseal_batch(batch: &mut [u8]) {
    let octets = (number(batch, 32) as usize).clamp(64, batch.len());
    let tag = number(batch, 16);
    let mut crcs = crc32fast::Hasher::new();
    let mut at = 64;
    while let Some(record) = batch.get_mut(at..octets).filter(|rest| rest.len() >= 32) {
        let length = number(record, 12) as usize;
        if length < 32 || length > record.len() {
            break;
        }
        let record = &mut record[..length];
        put(record, 8, tag);
        let crc = match record[0] {
            1 => reseal_transaction(record),
            _ => crc_of(&[&record[..4], &record[8..]]),
        };
        put(record, 4, crc);
        crcs.update(&crc.to_le_bytes());
        at += length;
    }
    put(batch, 44, crcs.finalize());
    seal(&mut batch[..64]);
}

/// Repairs the parts of a transaction; the crc of its header and table.
fn reseal_transaction(record: &mut [u8]) -> u32 {
    let count = number(record, 16) as usize;
    let table_end = count.saturating_mul(48).saturating_add(32).min(record.len());
    let entries = (table_end - 32) / 48;
    let mut at = 32 + entries * 48;
    // First all states, then all heads: length and crc of each in its table entry.
    for (length_at, crc_at) in [(32, 36), (40, 44)] {
        for entry in (0..entries).map(|index| 32 + index * 48) {
            let end = at.saturating_add(number(record, entry + length_at) as usize).min(record.len());
            let crc = crc32fast::hash(&record[at..end]);
            put(record, entry + crc_at, crc);
            at = end;
        }
    }
    let body = at.saturating_add(number(record, 20) as usize).min(record.len());
    let crc = if body == at { 0 } else { crc32fast::hash(&record[at..body]) };
    put(record, 24, crc);
    crc_of(&[&record[..4], &record[8..table_end]])
}

/// The crc of the first 60 octets, in the next four.
fn seal(header: &mut [u8]) {
    let crc = crc32fast::hash(&header[..60]);
    put(header, 60, crc);
}

fn crc_of(parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize()
}

fn number(octets: &[u8], at: usize) -> u32 {
    octets.get(at..at + 4).and_then(|n| n.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn put(octets: &mut [u8], at: usize, number: u32) {
    if let Some(place) = octets.get_mut(at..at + 4) {
        place.copy_from_slice(&number.to_le_bytes());
    }
}
