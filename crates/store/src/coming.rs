//! Who is about to append: a commit that has what it waited for waits on for them, so that they share its sync.
//!
//! In: a future that makes a transaction ready. Out: what it makes, and a [`Coming`] to be handed in with the append. It counts only
//! while it computes: whoever gives its thread back to wait may wait for long, and nobody waits for him. One that holds its thread
//! while it waits cannot be told from one that computes; no commit waits for either longer than [`Linger`](crate::Linger) says.

use crate::inbox::Inbox;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

/// An append that some core computes now. Handed in with it, or dropped when there will be none, or when something else is waited for
/// first: while it is held, commits of its spool wait for it.
#[derive(Debug, Default)]
pub struct Coming {
    inbox: Option<Arc<Inbox>>,
}

impl Coming {
    pub(crate) fn to(inbox: &Arc<Inbox>) -> Coming {
        inbox.announce();
        Coming { inbox: Some(Arc::clone(inbox)) }
    }

    /// That of this inbox. Another one's is over: who appends here does not append there.
    pub(crate) fn here(self, inbox: &Arc<Inbox>) -> Coming {
        match &self.inbox {
            Some(announced_to) if !Arc::ptr_eq(announced_to, inbox) => Coming::default(),
            _ => self,
        }
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
