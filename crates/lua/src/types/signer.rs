//! A DKIM signer as scripts hold it: opaque.

use crate::signers::Checked;
use mlua::UserData;
use std::sync::Arc;

/// Made by `kumo.dkim.*_signer`, used by `msg:dkim_sign`.
#[derive(Clone)]
pub(crate) struct LuaSigner(pub Arc<Checked>);

impl UserData for LuaSigner {}
