//! The modules scripts see, one file each.

pub(crate) mod dkim;
pub(crate) mod kumo;
