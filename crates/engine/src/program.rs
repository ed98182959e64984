//! What policy may ask of the engine it serves in: epochs, identities, and to take messages of its own making.

use crate::engine::{Engine, Shared};
use message::{Draft, MessageId};
use policy::{Injected, Program};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// An engine, as its policy knows it: the policy does not keep it alive.
struct Around(Weak<Shared>);

impl Engine {
    /// Lets the policy ask.
    pub(crate) fn serve_policy(&self) {
        self.policy.serves_in(Box::new(Around(Arc::downgrade(&self.0))));
    }

    /// Takes responsibility for a message that policy made: the same limits as for any other, and the same way in.
    async fn inject(&self, mut draft: Draft, deferred: bool) -> Result<(), String> {
        let _room = self.pressure.room_or_reason(draft.size() as u64)?;
        while self.logs_are_full() && self.is_serving() {
            tokio::time::sleep(LOGS_PAUSE).await;
        }
        self.accept_own(draft, deferred).await.map_err(|refusal| refusal.reply.to_single_line())
    }
}

impl Program for Around {
    fn bump_config_epoch(&self) {
        self.0.upgrade().into_iter().for_each(|shared| Engine(shared).bump_later());
    }

    fn script_took(&self, label: &str, took: Duration) {
        self.0.upgrade().into_iter().for_each(|shared| shared.metrics.script_times.observe(label, took));
    }

    fn message_id(&self) -> Option<MessageId> {
        self.0.upgrade().map(|shared| Engine(shared).next_id())
    }

    fn inject(&self, draft: Draft, deferred: bool) -> Injected<'_> {
        let engine = self.0.upgrade().map(Engine);
        Box::pin(async move {
            let engine = engine.ok_or("the program ends")?;
            engine.inject(draft, deferred).await
        })
    }
}

/// Pause before looking again whether the logs take more.
const LOGS_PAUSE: Duration = Duration::from_millis(10);
