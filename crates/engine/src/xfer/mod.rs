//! Mail that comes from other nodes of the cluster (KumoMTA's xfer), in two steps.
//!
//! First a node sends a message, and this one keeps it, durably and without delivering it: an arrival. Then the node has
//! noted that it is not its own any more, and tells this one to go ahead: the message goes to its queue. Whatever is said twice
//! has the answer of the first time, so a node that hears nothing asks again: what was done is noted in the spool until it says that it
//! needs that no more. As long as the second step was not asked for, the message is the sender's, and so it is when this node
//! does not have it any more. The way out is `egress::xfer`.

mod arrivals;
mod fates;
mod receive;

pub use arrivals::Arrival;
pub(crate) use arrivals::Arrivals;
pub use receive::{OtherNode, XferError};
