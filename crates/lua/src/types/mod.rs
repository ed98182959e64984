//! The userdata scripts see, one file each.

pub(crate) mod address;
mod address_header;
pub(crate) mod cidr_map;
pub(crate) mod config_object;
pub(crate) mod conn_meta;
pub(crate) mod domain_map;
pub(crate) mod file;
pub(crate) mod file_metadata;
mod header_import;
pub(crate) mod http_client;
pub(crate) mod http_request;
pub(crate) mod http_response;
pub(crate) mod message;
mod message_headers;
mod message_reports;
mod message_scheduling;
pub(crate) mod regex_set_map;
pub(crate) mod shaping;
pub(crate) mod shared;
pub(crate) mod signer;
pub(crate) mod throttle;
pub(crate) mod time;
pub(crate) mod time_delta;
pub(crate) mod timer;
pub(crate) mod websocket;
