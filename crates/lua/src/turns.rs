//! A thing that handlers share and one uses at a time, for as long as it waits.
//!
//! Whose turn it is takes the thing out; it goes back when the turn is dropped, also with a handler that is given up. Who comes
//! meanwhile gets none: what he waited for would be somebody else's.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

/// The thing, or its place while it is somebody's turn; clones are the same.
pub(crate) struct Turns<T>(Arc<Mutex<Option<T>>>);

/// Somebody's turn.
pub(crate) struct Turn<T> {
    turns: Turns<T>,
    thing: Option<T>,
}

impl<T> Turns<T> {
    /// Nobody's turn yet.
    pub fn new(thing: T) -> Turns<T> {
        Turns(Arc::new(Mutex::new(Some(thing))))
    }

    /// The thing; `None` while it is another's turn.
    pub fn take(&self) -> Option<Turn<T>> {
        let thing = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(Turn { turns: self.clone(), thing: Some(thing) })
    }
}

impl<T> Clone for Turns<T> {
    fn clone(&self) -> Self {
        Turns(self.0.clone())
    }
}

impl<T> Deref for Turn<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.thing.as_ref().expect(HELD)
    }
}

impl<T> DerefMut for Turn<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.thing.as_mut().expect(HELD)
    }
}

impl<T> Drop for Turn<T> {
    fn drop(&mut self) {
        *self.turns.0.lock().unwrap_or_else(PoisonError::into_inner) = self.thing.take();
    }
}

const HELD: &str = "a turn holds its thing until it is dropped";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_one_turn_at_a_time() {
        let turns = Turns::new(1);
        let mut turn = turns.take().expect("nobody has it");
        *turn += 1;
        assert!(turns.clone().take().is_none());
        drop(turn);
        assert_eq!(*turns.take().expect("given back"), 2);
    }
}
