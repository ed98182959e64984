//! Requests that wait as messages: their own messages are made here.
//!
//! In: a message whose content is a request. Out: yes once what it asks for is queued, whoever could be served; who could not
//! has a Bounce record. What cannot be taken now is tried again as a whole.

use crate::egress::carrier::{Answers, Carried, Lent};
use crate::engine::Engine;
use crate::injection::NotInjected;
use queue::Verdict;
use smtp_wire::Reply;

/// Makes messages of requests.
pub(crate) struct GeneratorCarrier;

impl GeneratorCarrier {
    pub async fn carry(&self, engine: &Engine, messages: Vec<Lent>) -> Carried {
        let mut answers = Vec::with_capacity(messages.len());
        for Lent { draft, .. } in messages {
            let recipients = draft.envelope.recipients.len();
            let answer = match engine.generate(draft).await {
                Ok(outcome) => {
                    let text = format!("{} messages generated, {} failed", outcome.success_count, outcome.fail_count);
                    (Verdict::Delivered, Reply::new(200, &text))
                }
                Err(NotInjected::Wrong(why)) => (Verdict::Permanent, Reply::new(550, &format!("5.6.0 {why}"))),
                Err(error) => (Verdict::Transient, Reply::new(451, &format!("4.3.0 {error}"))),
            };
            answers.push(vec![answer; recipients]);
        }
        Carried { answers: Answers::Each(answers), is_over: false }
    }
}
