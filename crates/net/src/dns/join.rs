//! join_all: awaits several futures at once inside one task.
//!
//! For a handful of DNS questions: no task is spawned, so dropping the caller drops the questions, and nothing is left
//! behind. Polls every pending future at each wake-up; callers pass a bounded number.

use std::future::poll_fn;
use std::task::Poll;

use route::BoxFuture;

/// The outputs, in the order of the futures.
pub(super) async fn join_all<T>(futures: Vec<BoxFuture<'_, T>>) -> Vec<T> {
    let mut slots: Vec<(Option<BoxFuture<'_, T>>, Option<T>)> =
        futures.into_iter().map(|future| (Some(future), None)).collect();
    poll_fn(|context| {
        let mut pending = false;
        for (future, output) in &mut slots {
            match future.as_mut().map(|f| f.as_mut().poll(context)) {
                Some(Poll::Ready(value)) => {
                    *output = Some(value);
                    *future = None;
                }
                Some(Poll::Pending) => pending = true,
                None => {}
            }
        }
        if pending { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    slots.into_iter().filter_map(|(_, output)| output).collect()
}
