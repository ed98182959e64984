//! Envelope addresses as scripts see and give them.

use mlua::{MetaMethod, UserData, UserDataFields, UserDataMethods, UserDataRef, Value};
use smtp_wire::{Mailbox, ReversePath};

/// `EnvelopeAddress`: fields `user`, `domain`, `email`; prints as the address. The null sender
/// has an empty `email`.
#[derive(Clone)]
pub(crate) struct LuaAddress(pub Option<Mailbox>);

impl From<&ReversePath> for LuaAddress {
    fn from(path: &ReversePath) -> Self {
        LuaAddress(path.0.clone())
    }
}

impl LuaAddress {
    /// The address given by a script to `function`: text or `EnvelopeAddress`.
    pub fn read(function: &str, value: &Value) -> mlua::Result<LuaAddress> {
        let found = match value {
            Value::String(text) => {
                let lossy = text.to_string_lossy();
                let path = text.to_str().ok().map(|text| ReversePath::parse(&text));
                let path = path.ok_or_else(|| mlua::Error::runtime(format!("{function}: {lossy:?} is not UTF-8")))?;
                return path
                    .map(|p| LuaAddress(p.0))
                    .map_err(|e| mlua::Error::runtime(format!("{function}: {lossy:?}: {e}")));
            }
            Value::UserData(data) => match data.borrow::<LuaAddress>() {
                Ok(address) => return Ok(address.clone()),
                Err(_) => "other userdata",
            },
            other => other.type_name(),
        };
        Err(mlua::Error::runtime(format!(
            "{function}: expected an address as string or EnvelopeAddress, found {found}"
        )))
    }

    fn email(&self) -> &str {
        self.0.as_ref().map_or("", Mailbox::as_str)
    }
}

impl UserData for LuaAddress {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields
            .add_field_method_get("user", |_, a| Ok(a.0.as_ref().map_or_else(String::new, |m| m.user().into_owned())));
        fields.add_field_method_get("domain", |_, a| {
            Ok(a.0.as_ref().map_or_else(String::new, |m| m.domain().to_owned()))
        });
        fields.add_field_method_get("email", |_, a| Ok(a.email().to_owned()));
    }

    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method(MetaMethod::ToString, |_, a, ()| Ok(a.email().to_owned()));
        methods.add_meta_method(MetaMethod::Eq, |_, a, other: UserDataRef<LuaAddress>| Ok(a.0 == other.0));
    }
}
