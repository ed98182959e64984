//! The sending SMTP (or LMTP) session: decides what to say to a server and what its replies
//! mean for each recipient. Sans-IO: no socket, no clock, no task.
//!
//! A [`Session`] is fed the server's bytes and asked for its next [`Step`]: something to write,
//! a TLS handshake to do, a message to begin, an [`Outcome`] to settle, or the end. Inside are
//! two cursors over one ordered list of expected replies (`pipeline`): the sender's, which runs
//! ahead as far as the server's extensions allow, and the receiver's, which follows the replies.
//! Pipelining is how far the cursors may be apart, not a mode.
//!
//! What it owes its caller: every job begun comes back as exactly one [`Outcome`] with one
//! [`RecipientResult`] per recipient, whatever the server does; a recipient is `Delivered` only
//! after a 2xx to the final dot of its whole content; nothing waits longer than the timeout of
//! its phase; memory is bounded by the two jobs in hand and one reply.
//!
//! Where things are: `settings` (what the operator chose), `job` (what comes in and goes out),
//! `session` (the machine), `hello` (banner to AUTH), `transaction` (MAIL to final dot),
//! `failure` (every way a connection ends early), `classify` (reply to verdict), `command`
//! (what is written), `output` (the bytes to write).
//!
//! Deliberately not here: choosing hosts, reconnecting, retry times, logging, rewriting status
//! codes, idle timeouts, DNS, and TLS itself. They are the driver's and the queue's.

mod classify;
mod command;
mod failure;
mod flight;
mod hello;
mod job;
mod output;
mod phase;
mod pipeline;
mod session;
mod settings;
mod step;
mod transaction;
mod verp;

pub use classify::verdict;
pub use failure::INTERNAL_PREFIX;
pub use job::{Job, Outcome, RecipientResult, Verdict};
pub use output::Output;
pub use phase::Phase;
pub use session::{JOBS_IN_HAND_MAX, Session, TlsStatus};
pub use settings::{AuthPlain, RECIPIENTS_PER_TRANSACTION_MAX, Settings, Timeouts, TlsMode};
pub use smtp_wire::{Capabilities, Mailbox, Reply, ReversePath};
pub use step::{CloseReason, Closing, Step};
pub use verp::Verp;
