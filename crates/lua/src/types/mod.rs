//! The userdata scripts see, one file each.

pub(crate) mod address;
pub(crate) mod config_object;
pub(crate) mod conn_meta;
pub(crate) mod message;
pub(crate) mod signer;
