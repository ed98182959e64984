//! What waits for a task that works it off behind: pushed without waiting, taken in order and in batches.
//!
//! Whoever pushes must not wait, so the bound is a courtesy: at [`Backlog::is_full`] no new work is begun, and what waits can only
//! grow by what is in hand. Closing lets the task end once all is taken.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use tokio::sync::Notify;

/// The queue between the two.
pub(crate) struct Backlog<T> {
    waiting: Mutex<(VecDeque<T>, bool)>,
    /// What waits or is being worked on.
    count: AtomicUsize,
    max: usize,
    filled: Notify,
}

/// What was taken and is being worked on: it counts as waiting.
pub(crate) struct InHand<'a> {
    of: &'a AtomicUsize,
    count: usize,
}

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        self.of.fetch_sub(self.count, Ordering::Relaxed);
    }
}

impl<T> Backlog<T> {
    /// One that is full from `max` on.
    pub fn new(max: usize) -> Backlog<T> {
        Backlog { waiting: Mutex::default(), count: AtomicUsize::new(0), max, filled: Notify::new() }
    }

    /// Puts in one more; true when it is full now.
    pub fn push(&self, item: T) -> bool {
        let before = self.count.fetch_add(1, Ordering::Relaxed);
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).0.push_back(item);
        self.filled.notify_one();
        before + 1 >= self.max
    }

    /// Puts in one more, unless it is closed: then nobody may come to take it, and this is false.
    pub fn push_if_open(&self, item: T) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.1 {
            return false;
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        waiting.0.push_back(item);
        drop(waiting);
        self.filled.notify_one();
        true
    }

    /// True while no new work is to be begun.
    pub fn is_full(&self) -> bool {
        self.len() >= self.max
    }

    /// From how many on it is full.
    pub fn max(&self) -> usize {
        self.max
    }

    /// How many wait or are being worked on.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// The next few, in order; none once it is closed and empty. One task takes.
    pub async fn take(&self, most: usize) -> Vec<T> {
        loop {
            let filled = self.filled.notified();
            {
                let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                let count = waiting.0.len().min(most);
                if count > 0 || waiting.1 {
                    return waiting.0.drain(..count).collect();
                }
            }
            filled.await;
        }
    }

    /// So many of those taken are worked on until this is dropped.
    pub fn in_hand(&self, count: usize) -> InHand<'_> {
        InHand { of: &self.count, count }
    }

    /// Nothing more will come.
    pub fn close(&self) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
        self.filled.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[tokio::test]
    async fn all_that_was_pushed_is_taken_in_order_before_the_end() {
        let backlog = Arc::new(Backlog::new(3));
        let taker = tokio::spawn({
            let backlog = backlog.clone();
            async move {
                let mut seen = Vec::new();
                loop {
                    let taken = backlog.take(2).await;
                    if taken.is_empty() {
                        return seen;
                    }
                    assert!(taken.len() <= 2);
                    drop(backlog.in_hand(taken.len()));
                    seen.extend(taken);
                    tokio::task::yield_now().await;
                }
            }
        });
        for number in 0..100 {
            backlog.push(number);
            if number % 7 == 0 {
                tokio::task::yield_now().await;
            }
        }
        backlog.close();
        assert_eq!(taker.await.expect("ends"), (0..100).collect::<Vec<_>>());
        assert_eq!(backlog.len(), 0);
    }

    #[test]
    fn what_is_closed_takes_no_more() {
        let backlog = Backlog::new(2);
        assert!(backlog.push_if_open('a'));
        backlog.close();
        assert!(!backlog.push_if_open('b') && backlog.len() == 1);
    }

    #[test]
    fn it_is_full_until_work_is_done() {
        let backlog = Backlog::new(2);
        assert!(!backlog.push('a') && !backlog.is_full());
        assert!(backlog.push('b') && backlog.is_full());
        drop(backlog.in_hand(1));
        assert!(!backlog.is_full());
    }
}
