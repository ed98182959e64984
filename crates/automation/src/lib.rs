//! Traffic shaping automation: what is to be done about what servers answer, and for how long.
//!
//! Owns [`Automation`], which holds the effects in force. In: a log record, the rules of shaping that its response sets
//! off ([`matching`]), and the time. Out: [`Effect`]s for nodes that deliver, at once as they come
//! about, as lists, and as a shaping file ([`overlay`]). Cannot fail; what a rule asks of a record that lacks what it
//! takes, and what there is no room for, is told as text.
//!
//! Deliberately absent: files, sockets, and acting on effects: nodes do that.

mod automation;
mod counting;
mod effect;
mod matching;
mod overlay;

pub use automation::{Automation, COUNTS_MAX, EFFECTS_MAX, OPTIONS_MAX, Observed};
pub use effect::{Effect, OptionChange, ReadySuspension, ScheduledBounce, ScheduledSuspension};
pub use matching::matching;
pub use overlay::{Sites, overlay};
