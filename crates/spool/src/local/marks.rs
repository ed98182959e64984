//! Mark lines: what happened to a message after it was written, behind its content (docs/local-disk.md section 2).

use super::header::{hex, seeded};
use super::names::Run;
use crate::Mark;
use clock::WallTime;
use message::{MessageId, Settled};
use serde_json::{Map, Value};

/// What the marks of a file add up to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Progress {
    pub attempts: u16,
    pub due: WallTime,
    pub settled: Settled,
    /// Lines that do not check: marks that were being written at a cut.
    pub torn: u64,
}

impl Progress {
    /// Before the first mark.
    pub fn new(due: WallTime) -> Progress {
        Progress { attempts: 0, due, settled: Settled::default(), torn: 0 }
    }

    /// Applies what stands behind the content.
    pub fn apply(&mut self, octets: &[u8], id: MessageId, run: Run) {
        for line in octets.split(|octet| *octet == b'\n').filter(|line| !line.is_empty()) {
            if self.apply_line(line, id, run).is_none() {
                self.torn += 1;
            }
        }
    }

    fn apply_line(&mut self, line: &[u8], id: MessageId, run: Run) -> Option<()> {
        let rest = line.strip_prefix(MAGIC.as_bytes())?;
        let crc = hex(core::str::from_utf8(rest.get(..8)?).ok()?)?;
        let json = rest[8..].strip_prefix(b" ")?;
        if u64::from(seeded(id, run, json)) != crc {
            return None;
        }
        let fields: Map<String, Value> = serde_json::from_slice(json).ok()?;
        if let (Some(attempts), Some(due)) = (fields.get("attempts"), fields.get("due")) {
            self.attempts = u16::try_from(attempts.as_u64()?).ok()?;
            self.due = WallTime::from_unix_micros(due.as_i64()?);
        }
        for recipient in fields.get("done").and_then(Value::as_array).into_iter().flatten() {
            let recipient = recipient.as_u64().and_then(|r| u16::try_from(r).ok());
            if let Some(recipient) = recipient.filter(|r| *r < u16::MAX) {
                self.settled.insert(recipient);
            }
        }
        Some(())
    }
}

/// Appends the lines for one write of `marks`, all of message `id`, whose file `run` made. A removal has no line.
///
/// The newline before them ends what a cut may have left of an earlier write; the one behind each keeps what a cut leaves of
/// a later write, zeros for example, from spoiling it.
pub(crate) fn encode(marks: &[Mark], id: MessageId, run: Run, out: &mut Vec<u8>) {
    out.push(b'\n');
    for mark in marks {
        let json = match mark {
            Mark::Attempt { attempts, due, .. } => {
                format!("{{\"attempts\":{attempts},\"due\":{}}}", due.unix_micros())
            }
            Mark::RecipientsDone { recipients, .. } => {
                let numbers: Vec<String> = recipients.iter().map(u32::to_string).collect();
                format!("{{\"done\":[{}]}}", numbers.join(","))
            }
            Mark::Removed { .. } => continue,
        };
        let crc = seeded(id, run, json.as_bytes());
        out.extend_from_slice(format!("{MAGIC}{crc:08x} {json}\n").as_bytes());
    }
}

const MAGIC: &str = "postrider-mark crc=";
/// Octets of marks that are read of a file, the last ones.
pub(crate) const MARKS_OCTETS_MAX: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    const ID: MessageId = MessageId::from_bytes([9; 16]);
    const RUN: Run = Run(77);

    fn progress(octets: &[u8]) -> Progress {
        let mut progress = Progress::new(WallTime::from_unix_micros(1));
        progress.apply(octets, ID, RUN);
        progress
    }

    fn lines() -> (Vec<u8>, Vec<usize>) {
        let attempt = |attempts, due| Mark::Attempt { id: ID, attempts, due: WallTime::from_unix_micros(due) };
        let done = |recipients: &[u32]| Mark::RecipientsDone { id: ID, recipients: recipients.to_vec() };
        let mut out = Vec::new();
        let mut ends = vec![0];
        for mark in [attempt(1, 10), done(&[0, 65_534]), attempt(2, -20), done(&[3])] {
            encode(&[mark], ID, RUN, &mut out);
            ends.push(out.len());
        }
        encode(&[Mark::Removed { id: ID }], ID, RUN, &mut out);
        assert_eq!(out.len(), ends[4] + 1, "a removal has no line");
        (out, ends)
    }

    #[test]
    fn marks_add_up_in_their_order() {
        let (octets, _) = lines();
        let all = progress(&octets);
        assert_eq!((all.attempts, all.due.unix_micros(), all.torn), (2, -20, 0));
        let settled: Vec<u16> = (0..=u16::MAX).filter(|r| all.settled.contains(*r)).collect();
        assert_eq!(settled, [0, 3, 65_534]);
    }

    #[test]
    fn a_cut_at_any_octet_leaves_the_marks_before_it_and_the_next_one_reads() {
        let (octets, ends) = lines();
        for cut in 0..octets.len() {
            // A line needs its newline only to be kept apart from what follows.
            let whole = ends.iter().rposition(|end| end.saturating_sub(1) <= cut).expect("the first end is 0");
            let expected = progress(&octets[..ends[whole]]);
            let torn = u64::from(cut > ends[whole] + 1);
            assert_eq!(progress(&octets[..cut]), Progress { torn, ..expected.clone() }, "cut at {cut}");
            let mut more = octets[..cut].to_vec();
            encode(&[Mark::Attempt { id: ID, attempts: 9, due: WallTime::EPOCH }], ID, RUN, &mut more);
            let next = Progress { attempts: 9, due: WallTime::EPOCH, torn, ..expected };
            assert_eq!(progress(&more), next, "cut at {cut} and written on");
        }
        for (count, end) in ends.iter().enumerate().skip(1) {
            let mut zeros = octets[..*end].to_vec();
            zeros.resize(end + 90, 0);
            let expected = Progress { torn: 1, ..progress(&octets[..*end]) };
            assert_eq!(progress(&zeros), expected, "zeros behind mark {count}");
        }
    }

    #[test]
    fn another_message_another_run_and_flipped_bits_are_no_marks() {
        let (octets, ends) = lines();
        let line = &octets[..ends[1]];
        let nothing = Progress::new(WallTime::EPOCH);
        for (id, run) in [(MessageId::from_bytes([8; 16]), RUN), (ID, Run(78))] {
            let mut progress = nothing.clone();
            progress.apply(line, id, run);
            assert_eq!(progress, Progress { torn: 1, ..nothing.clone() });
        }
        for at in 1..line.len() - 1 {
            for bit in 0..8 {
                let mut flipped = line.to_vec();
                flipped[at] ^= 1 << bit;
                let found = progress(&flipped);
                assert!(found.torn >= 1 && found.attempts == 0, "octet {at} bit {bit}: {found:?}");
            }
        }
    }

    #[test]
    fn recipient_numbers_end_at_65_534() {
        let mut out = Vec::new();
        encode(&[Mark::RecipientsDone { id: ID, recipients: vec![65_534, 65_535, 65_536] }], ID, RUN, &mut out);
        assert_eq!(progress(&out).settled.len(), 1);
    }
}
