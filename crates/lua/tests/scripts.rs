//! Real scripts, loaded from files and asked events: every function, accessor and error text.

#[path = "scripts/answers.rs"]
mod answers;
#[path = "scripts/asked_again.rs"]
mod asked_again;
#[path = "scripts/checks.rs"]
mod checks;
#[path = "scripts/couriers.rs"]
mod couriers;
#[path = "scripts/dns.rs"]
mod dns;
#[path = "scripts/epochs.rs"]
mod epochs;
#[path = "scripts/extras.rs"]
mod extras;
#[path = "scripts/compliance.rs"]
mod gate;
#[path = "scripts/headers.rs"]
mod headers;
#[path = "scripts/limits.rs"]
mod limits;
#[path = "scripts/manual_files.rs"]
mod manual_files;
#[path = "scripts/memory.rs"]
mod memory;
#[path = "scripts/message.rs"]
mod message_object;
#[path = "scripts/messages.rs"]
mod messages;
#[path = "scripts/modules.rs"]
mod modules;
#[path = "scripts/options.rs"]
mod options;
#[path = "scripts/registration.rs"]
mod registration;
#[path = "scripts/shaping.rs"]
mod shaping_files;
#[path = "scripts/shared_policies.rs"]
mod shared_policies;
#[path = "scripts/signing.rs"]
mod signing;
#[path = "scripts/startup.rs"]
mod startup;
#[path = "scripts/support.rs"]
mod support;
#[path = "scripts/sweep.rs"]
mod sweep;
#[path = "scripts/templates.rs"]
mod templates;
#[path = "scripts/threads.rs"]
mod threads;
#[path = "scripts/throttles.rs"]
mod throttles;
