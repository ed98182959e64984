//! Real scripts, loaded from files and asked events: every function, accessor and error text.

#[path = "scripts/answers.rs"]
mod answers;
#[path = "scripts/couriers.rs"]
mod couriers;
#[path = "scripts/dns.rs"]
mod dns;
#[path = "scripts/epochs.rs"]
mod epochs;
#[path = "scripts/headers.rs"]
mod headers;
#[path = "scripts/limits.rs"]
mod limits;
#[path = "scripts/memory.rs"]
mod memory;
#[path = "scripts/message.rs"]
mod message_object;
#[path = "scripts/messages.rs"]
mod messages;
#[path = "scripts/options.rs"]
mod options;
#[path = "scripts/registration.rs"]
mod registration;
#[path = "scripts/shared_policies.rs"]
mod shared_policies;
#[path = "scripts/signing.rs"]
mod signing;
#[path = "scripts/startup.rs"]
mod startup;
#[path = "scripts/support.rs"]
mod support;
#[path = "scripts/threads.rs"]
mod threads;
#[path = "scripts/throttles.rs"]
mod throttles;
