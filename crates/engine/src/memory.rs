//! What the queues do when memory is short: content that the spool has leaves it, the rest is written.

use crate::engine::Engine;
use crate::pressure::Level;

impl Engine {
    /// Follows the level of memory: to be called with every sample.
    pub(crate) async fn follow_pressure(&self) {
        let lean = self.pressure.level() > Level::Fine;
        let begins = self.with_queue(|q, now| q.set_lean(now, lean));
        let mut step = begins.then_some(0);
        while let Some(at) = step {
            step = self.with_queue(|q, _| q.shed(at));
            tokio::task::yield_now().await;
        }
    }
}
