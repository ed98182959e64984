//! Mail under torture: letters that can be told apart octet for octet, a load that survives its server, a receiver that
//! is as unreliable as the world, and the book that both write into.
//!
//! The book is the oracle. Its promise, whatever is done to the server between: a letter answered 250 arrives whole at
//! every recipient, a letter that was refused or never finished arrives nowhere, one whose answer nobody saw arrives at
//! all of its recipients or at none, and no recipient gets a copy more than the world's own faults explain.
//!
//! In: the address of a server that relays to the receiver. Out: an [`Account`]. Everything random comes from the
//! book's seed; what threads make of it does not repeat exactly. Nothing here knows how the server keeps its mail.

mod account;
mod book;
mod death;
mod letter;
mod load;
mod receiver;
mod stage;

pub use account::{Account, Answer, Entry, Row};
pub use book::{Book, Refusal};
pub use letter::{Fate, Letter, Mix};
pub use load::{Line, Load, Sent};
pub use receiver::Receiver;
pub use stage::{Stage, seed};
