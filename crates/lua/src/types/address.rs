//! Addresses as scripts see them: envelope addresses and parsed address headers.

use mlua::{IntoLua, Lua, MetaMethod, UserData, UserDataFields, UserDataMethods, Value};
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
    fn email(&self) -> String {
        self.0.as_ref().map_or_else(String::new, |m| m.as_str().to_owned())
    }
}

impl UserData for LuaAddress {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_field_method_get("user", |_, a| Ok(a.0.as_ref().map_or_else(String::new, |m| m.user().into_owned())));
        fields.add_field_method_get("domain", |_, a| Ok(a.0.as_ref().map_or_else(String::new, |m| m.domain().to_owned())));
        fields.add_field_method_get("email", |_, a| Ok(a.email()));
    }

    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method(MetaMethod::ToString, |_, a, ()| Ok(a.email()));
        methods.add_meta_method(MetaMethod::Eq, |_, a, other: mlua::UserDataRef<LuaAddress>| Ok(a.0 == other.0));
    }
}

/// An address given by a script: text or `EnvelopeAddress`.
pub(crate) fn from_lua(value: &Value) -> mlua::Result<Option<Mailbox>> {
    match value {
        Value::String(text) => {
            let text = text.to_str()?;
            ReversePath::parse(&text).map(|p| p.0).map_err(mlua::Error::external)
        }
        Value::UserData(data) => Ok(data.borrow::<LuaAddress>()?.0.clone()),
        other => Err(mlua::Error::runtime(format!("expected an address, found {}", other.type_name()))),
    }
}

/// `AddressHeader`: the single mailbox's fields, or `list` for all.
pub(crate) struct LuaAddressHeader(pub mime::AddressList);

impl LuaAddressHeader {
    fn single(&self) -> mlua::Result<&mime::Mailbox> {
        self.0.single().map_err(mlua::Error::external)
    }
}

impl UserData for LuaAddressHeader {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_field_method_get("user", |_, a| Ok(a.single()?.user.clone()));
        fields.add_field_method_get("domain", |_, a| Ok(a.single()?.domain.clone()));
        fields.add_field_method_get("email", |_, a| Ok(a.single()?.email()));
        fields.add_field_method_get("name", |_, a| Ok(a.single()?.name.clone()));
        fields.add_field_method_get("list", |lua, a| {
            let entries = a.0.mailboxes().map(|m| entry(lua, m)).collect::<mlua::Result<Vec<_>>>()?;
            entries.into_lua(lua)
        });
    }

    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method(MetaMethod::ToString, |_, a, ()| {
            let list: Vec<_> = a.0.mailboxes().map(|m| serde_json::json!({"name": m.name, "address": m.email()})).collect();
            Ok(serde_json::Value::from(list).to_string())
        });
    }
}

fn entry(lua: &Lua, mailbox: &mime::Mailbox) -> mlua::Result<mlua::Table> {
    let table = lua.create_table()?;
    table.set("user", mailbox.user.clone())?;
    table.set("domain", mailbox.domain.clone())?;
    table.set("email", mailbox.email())?;
    table.set("name", mailbox.name.clone())?;
    Ok(table)
}
