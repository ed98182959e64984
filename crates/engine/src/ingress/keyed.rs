//! Messages that come by SMTP with a field `Idempotency-Key`, on listeners that look at it: accepted once.
//!
//! As with requests over HTTP (`injection::keyed`): the record of what was answered, the ids, is committed together with the
//! messages. A transaction that comes again hears the same ids, and nothing is queued.

use crate::engine::Engine;
use crate::ingress::accept::{Arrival, Prepared, Refusal};
use crate::injection::{Claimed, Door, Hand, NotInjected, RequestKey};
use message::MessageId;
use mime::HeaderBlock;
use policy::Disconnect;
use serde::{Deserialize, Serialize};
use smtp_wire::{EnhancedCode, Reply};
use spool::{Earlier, Receipt};

/// The field.
pub(super) const FIELD: &str = "Idempotency-Key";

/// Whose turn it is.
pub(super) enum Turn {
    /// The transaction has no key, or nobody looks at it.
    Unkeyed,
    /// It has one that is free.
    Ours(Hand),
    /// It was answered before.
    Before(Vec<Receipt>),
}

/// What the record of a transaction holds.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    ids: Vec<String>,
}

impl Engine {
    /// Looks for the key of a transaction, and takes it.
    pub(super) async fn turn_of(&self, arrival: &Arrival<'_>) -> Result<Turn, Refusal> {
        let Some(window) = arrival.profile.params.idempotency_window else { return Ok(Turn::Unkeyed) };
        let block = HeaderBlock::parse(&arrival.content);
        let found = block.view(&arrival.content).all_values(FIELD);
        let text = match found.as_slice() {
            [] => return Ok(Turn::Unkeyed),
            [one] => one.trim(),
            more => return Err(refused(&format!("it is there {} times: expected one", more.len()))),
        };
        let mut auth = arrival.conn.auth();
        auth.peer_address = Some(arrival.hop.peer.ip());
        let sender = arrival.envelope.sender.as_str();
        // A server may send a message to some recipients in one transaction and to others in the next: these are two.
        let recipients = arrival.envelope.recipients.iter().flat_map(|to| [to.as_str().as_bytes(), b"\0"]);
        let scope: Vec<&[u8]> = [sender.as_bytes(), b"\0"].into_iter().chain(recipients).collect();
        let key = RequestKey::new(Door::Smtp, (text, &scope), &auth, &[&arrival.content[..]], window.into());
        let key = key.map_err(|why| refused(&why))?;
        match self.claim::<Answer>(&key).await {
            Ok(Claimed::Hand(hand)) => Ok(Turn::Ours(hand)),
            Ok(Claimed::Before(answer)) => Ok(Turn::Before(answer.receipts()?)),
            Err(NotInjected::Conflict) => {
                Err(refusal(550, EnhancedCode::new(5, 7, 1), NotInjected::Conflict.to_string()))
            }
            Err(error) => Err(refusal(451, EnhancedCode::new(4, 3, 0), error.to_string())),
        }
    }

    /// The messages of a keyed transaction, and the record of its answer.
    pub(super) fn with_record(&self, mut prepared: Vec<Prepared>, hand: &Hand) -> Result<Vec<Prepared>, Refusal> {
        let ids = prepared.iter().map(|one| one.id().to_string()).collect();
        let record = self.record_of(hand, &Answer { ids });
        prepared.iter_mut().for_each(Prepared::on_disk);
        prepared.insert(0, record.map_err(|why| refusal(451, EnhancedCode::new(4, 3, 0), why))?);
        Ok(prepared)
    }
}

impl Answer {
    fn receipts(self) -> Result<Vec<Receipt>, Refusal> {
        let read = |id: &String| id.parse::<MessageId>().map(|id| Receipt::Earlier(Earlier::by_record(id)));
        let receipts: Result<Vec<Receipt>, _> = self.ids.iter().map(read).collect();
        receipts.map_err(|_| refusal(451, EnhancedCode::new(4, 3, 0), NotInjected::AnswerLost.to_string()))
    }
}

fn refused(why: &str) -> Refusal {
    refusal(550, EnhancedCode::new(5, 6, 0), format!("{FIELD}: {why}"))
}

fn refusal(code: u16, enhanced: EnhancedCode, text: String) -> Refusal {
    Refusal { reply: Reply::enhanced(code, enhanced, text), disconnect: Disconnect::If421 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_on_disk_are_read_for_ever() {
        // Bytes on disk (docs/spool-format.md, section 4.1): the content of a record.
        let golden = "{\"ids\":[\"00112233445566778899aabbccddeeff\"]}\r\n";
        let answer: Answer = serde_json::from_str(golden).expect("an answer over SMTP");
        assert_eq!(serde_json::to_string(&answer).expect("JSON"), golden.trim_end());
        let Ok(receipts) = answer.receipts() else { panic!("sound ids") };
        assert_eq!(receipts[0].id().to_string(), "00112233445566778899aabbccddeeff");
        assert!(Answer { ids: vec!["x".to_owned()] }.receipts().is_err());
        let golden = "{\"success_count\":2,\"fail_count\":1,\"failed_recipients\":[\"x\"],\"errors\":[\"x: no\"]}\r\n";
        let outcome: injection::Outcome = serde_json::from_str(golden).expect("an answer over HTTP");
        assert_eq!((outcome.success_count, outcome.errors.as_slice()), (2, &["x: no".to_owned()][..]));
        assert_eq!(serde_json::to_string(&outcome).expect("JSON"), golden.trim_end());
    }
}
