//! Policy that takes messages itself, in place of a mail server.
//!
//! One courier serves one session: made by [`Policy::construct_courier`](crate::Policy::construct_courier), called with a
//! few messages at a time, closed at the end. In: copies of messages, content included; what is done to them counts
//! nowhere. Out: a text for the record, or why not. Deliberately absent: when it is called, and what becomes of the messages.

use crate::Answer;
use message::Draft;

/// The policy's end of one session.
pub trait Courier: Send + Sync {
    /// Takes one message; the text is what is logged of the delivery. A rejection is a verdict on the message, any other
    /// error one on the session.
    fn send(&mut self, draft: Draft) -> Answer<'_, String>;

    /// The same for several messages: what is answered holds for all of them.
    fn send_batch(&mut self, drafts: Vec<Draft>) -> Answer<'_, String>;

    /// The session ends. Not called when the program does not wait for it any more.
    fn close(self: Box<Self>) -> Answer<'static, ()>;
}
