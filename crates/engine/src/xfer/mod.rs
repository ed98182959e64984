//! Mail that comes from other nodes of the cluster (KumoMTA's xfer), in two steps.
//!
//! First a node sends a message, and this one keeps it, durably and without delivering it: an arrival. Then the node has
//! noted that it is not its own any more, and tells this one to go ahead: the message goes to its queue. Whatever is said twice
//! has the answer of the first time, so a node that hears nothing asks again; and as long as the second step was not
//! asked for, the message is the sender's. The way out is `egress::xfer`.

mod arrivals;
mod receive;

pub use arrivals::Arrival;
pub(crate) use arrivals::Arrivals;
pub use receive::{Came, OtherNode, XferError};
