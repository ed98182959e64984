//! The wait for receipts, which may be given up at any moment, also when they are there already.
//!
//! In: the answer of whoever writes. Out: the answer, or, when nobody waits for it any more, what it says was written, to be taken
//! back: nobody said 250, and nobody would own it. An answer that finds nobody is taken back by whoever gives it, so each is once.
//! What was promised before it was written is [`Orphans::Kept`].

use spool::SpoolError;
use tokio::sync::oneshot;

/// What becomes of messages that are written when nobody waits for their receipts any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Orphans {
    /// Nobody was promised anything: they are removed again.
    TakenBack,
    /// They were accepted before: the next start delivers them.
    Kept,
}

/// What was written, or why not.
type Answer<T> = Result<T, SpoolError>;

/// Somebody who waits for an answer.
struct Claim<T, F: Fn(T)> {
    answer: oneshot::Receiver<Answer<T>>,
    orphans: Orphans,
    take_back: F,
}

/// The answer; `take_back` gets it when this is dropped before it has it, unless orphans are kept.
///
/// # Errors
/// What the answer says; `Closed` when whoever would give it has ended.
pub(crate) async fn claim<T>(
    answer: oneshot::Receiver<Answer<T>>,
    orphans: Orphans,
    take_back: impl Fn(T),
) -> Answer<T> {
    let mut claim = Claim { answer, orphans, take_back };
    (&mut claim.answer).await.map_err(|_| SpoolError::Closed)?
}

impl<T, F: Fn(T)> Drop for Claim<T, F> {
    fn drop(&mut self) {
        // From here on it finds nobody.
        self.answer.close();
        if let (Ok(Ok(written)), Orphans::TakenBack) = (self.answer.try_recv(), self.orphans) {
            (self.take_back)(written);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn an_answer_is_had_or_taken_back_or_finds_nobody() {
        let taken_back = RefCell::new(Vec::new());
        let begin_with = |orphans| {
            let (reply, answer) = oneshot::channel::<Answer<u8>>();
            (reply, claim(answer, orphans, |written: u8| taken_back.borrow_mut().push(written)))
        };
        let begin = || begin_with(Orphans::TakenBack);
        let mut context = Context::from_waker(Waker::noop());
        let (reply, had) = begin();
        let mut had = Box::pin(had);
        assert!(had.as_mut().poll(&mut context).is_pending());
        reply.send(Ok(1)).expect("somebody waits");
        assert_eq!(had.as_mut().poll(&mut context), Poll::Ready(Ok(1)));
        drop(had);
        assert!(taken_back.borrow().is_empty());

        let (reply, gone) = begin();
        let mut gone = Box::pin(gone);
        assert!(gone.as_mut().poll(&mut context).is_pending());
        reply.send(Ok(2)).expect("somebody waits");
        drop(gone);
        assert_eq!(*taken_back.borrow(), [2], "it came, and nobody looked");

        let (reply, kept) = begin_with(Orphans::Kept);
        let mut kept = Box::pin(kept);
        assert!(kept.as_mut().poll(&mut context).is_pending());
        reply.send(Ok(4)).expect("somebody waits");
        drop(kept);
        assert_eq!(*taken_back.borrow(), [2], "what was accepted before stays");

        let (reply, gone) = begin();
        let mut gone = Box::pin(gone);
        assert!(gone.as_mut().poll(&mut context).is_pending());
        drop(gone);
        assert_eq!(reply.send(Ok(3)), Err(Ok(3)), "whoever gives it takes it back");

        let (reply, ended) = begin();
        drop(reply);
        assert_eq!(pin!(ended).poll(&mut context), Poll::Ready(Err(SpoolError::Closed)));
        assert_eq!(*taken_back.borrow(), [2]);
    }
}
