//! A DKIM signer as scripts hold it: opaque.

use mlua::UserData;
use sender_auth::Signer;
use std::sync::Arc;

/// Made by `kumo.dkim.*_signer`, used by `msg:dkim_sign`.
#[derive(Clone)]
pub(crate) struct LuaSigner(pub Arc<Signer>);

impl UserData for LuaSigner {}
