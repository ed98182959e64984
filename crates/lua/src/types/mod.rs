//! The userdata scripts see, one file each.

pub(crate) mod address;
mod address_header;
pub(crate) mod config_object;
pub(crate) mod conn_meta;
mod header_import;
pub(crate) mod message;
mod message_headers;
mod message_reports;
mod message_scheduling;
pub(crate) mod signer;
pub(crate) mod throttle;
pub(crate) mod time_delta;
