//! `custom_lua`: messages to a connection object of the policy.
//!
//! In: batches as the protocol's options want them. Out: what the script answered, for all of a batch. A rejection is a
//! verdict on the messages, 4xx for now and anything else for good; 421 ends the session too. Any other error ends the
//! session, and its messages are tried again (KumoMTA behaviour). Deliberately ignorant of what language policy is in.

use crate::egress::carrier::{Answers, Batches, Carried, Lent};
use crate::engine::Engine;
use config::CustomLuaProtocol;
use policy::{Courier, Disconnect, PolicyError, QueueParts};
use queue::Verdict;
use smtp_wire::Reply;

/// One connection object.
pub(crate) struct CourierCarrier {
    constructor: String,
    batches: Batches,
    in_batches: bool,
    courier: Box<dyn Courier>,
}

impl CourierCarrier {
    /// Calls the constructor.
    pub async fn open(
        engine: &Engine,
        protocol: &CustomLuaProtocol,
        parts: QueueParts,
    ) -> Result<CourierCarrier, Reply> {
        let constructor = protocol.constructor.clone();
        let made = engine.policy.construct_courier(constructor.clone(), parts).await;
        let courier = made.map_err(|error| {
            tracing::error!("{error}");
            Reply::new(400, &format!("KumoMTA internal: no session: {constructor}: {}", error.in_one_line()))
        })?;
        Ok(CourierCarrier { constructor, batches: batches(protocol), in_batches: protocol.batch_size > 1, courier })
    }

    pub fn batches(&self) -> Batches {
        self.batches
    }

    pub async fn carry(&mut self, mut messages: Vec<Lent>) -> Carried {
        let sent = match (self.in_batches, messages.pop()) {
            (false, Some(last)) => self.courier.send(last.draft).await,
            (_, last) => {
                let drafts = messages.into_iter().chain(last).map(|lent| lent.draft).collect();
                self.courier.send_batch(drafts).await
            }
        };
        match sent {
            Ok(text) => {
                // The script's words, not a reply of a server: a code that stands in them is text.
                let reply = Reply { code: 200, enhanced: None, text: text.replace(['\r', '\0'], " ") };
                Carried { answers: Answers::Same(Verdict::Delivered, reply), is_over: false }
            }
            Err(PolicyError::Reject { reply, disconnect }) => {
                let verdict = if reply.is_transient() { Verdict::Transient } else { Verdict::Permanent };
                let is_over = reply.code == SERVICE_CLOSING || disconnect != Disconnect::If421;
                Carried { answers: Answers::Same(verdict, reply), is_over }
            }
            Err(error) => {
                tracing::error!("{}: {error}", self.constructor);
                Carried::broken(Reply::new(
                    400,
                    &format!("KumoMTA internal: {}: {}", self.constructor, error.in_one_line()),
                ))
            }
        }
    }

    pub async fn close(self) {
        if let Err(error) = self.courier.close().await {
            tracing::error!("{}: close: {error}", self.constructor);
        }
    }
}

fn batches(protocol: &CustomLuaProtocol) -> Batches {
    let most = protocol.batch_size.min(BATCH_MAX);
    let enough = if protocol.min_batch_size > 1 { protocol.min_batch_size.min(most) } else { most };
    Batches { most, enough, latency: protocol.max_batch_latency.get() }
}

/// "Service not available, closing transmission channel" (RFC 5321 section 4.2.2).
const SERVICE_CLOSING: u16 = 421;
/// Most messages a call.
const BATCH_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;
    use config::Duration;

    #[test]
    fn what_is_enough_is_the_least_that_is_asked_for_or_else_a_full_batch() {
        for (batch_size, min_batch_size, most, enough) in
            [(1, 1, 1, 1), (10, 1, 10, 10), (10, 3, 10, 3), (10, 30, 10, 10), (BATCH_MAX + 1, 1, BATCH_MAX, BATCH_MAX)]
        {
            let protocol = CustomLuaProtocol {
                constructor: "make".to_owned(),
                batch_size,
                min_batch_size,
                max_batch_latency: Duration::from_secs(2),
            };
            let batches = batches(&protocol);
            assert_eq!((batches.most, batches.enough), (most, enough), "{protocol:?}");
        }
    }
}
