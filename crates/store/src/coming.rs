//! Who is about to append: a commit that has what it waited for waits on for them, so that they share its sync.
//!
//! In: a future that makes a transaction ready. Out: what it makes, and a [`Coming`] to be handed in with the append. It counts only
//! while it computes: whoever waits for something may wait for long, and nobody waits for him.

use crate::inbox::Inbox;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

/// An append that some core computes now. Handed in with it, or dropped when there will be none.
#[derive(Debug, Default)]
pub struct Coming {
    inbox: Option<Arc<Inbox>>,
}

impl Coming {
    pub(crate) fn to(inbox: &Arc<Inbox>) -> Coming {
        inbox.announce();
        Coming { inbox: Some(Arc::clone(inbox)) }
    }

    /// It has come, and whoever takes it in counts it off.
    pub(crate) fn has_come(mut self) -> bool {
        self.inbox.take().is_some()
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        if let Some(inbox) = &self.inbox {
            inbox.call_off();
        }
    }
}

/// Runs `preparing`, announced by `announce` for as long as it computes.
pub(crate) async fn announced<F: Future>(announce: impl Fn() -> Coming, preparing: F) -> (F::Output, Coming) {
    let mut preparing = pin!(preparing);
    poll_fn(|cx| {
        let coming = announce();
        preparing.as_mut().poll(cx).map(|output| (output, coming))
    })
    .await
}
