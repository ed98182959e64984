//! `AddressHeader`: a parsed `From`, `To` or other address header field.

use mime::{Address, AddressList, Mailbox};
use mlua::{IntoLua, Lua, MetaMethod, Table, UserData, UserDataFields, UserDataMethods};
use serde_json::{Value as Json, json};

/// The single mailbox's fields, or `list` for all. Prints as JSON.
pub(crate) struct LuaAddressHeader(pub AddressList);

impl LuaAddressHeader {
    /// KumoMTA behaviour: an error unless the field is exactly one simple mailbox.
    fn single(&self) -> mlua::Result<&Mailbox> {
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
            Ok(a.0.entries().iter().map(json).collect::<Json>().to_string())
        });
    }
}

fn entry(lua: &Lua, mailbox: &Mailbox) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.set("user", mailbox.user.as_str())?;
    table.set("domain", mailbox.domain.as_str())?;
    table.set("email", mailbox.email())?;
    table.set("name", mailbox.name.as_deref())?;
    Ok(table)
}

/// KumoMTA's shapes: a mailbox has an `address`, a group `entries`.
fn json(entry: &Address) -> Json {
    match entry {
        Address::Mailbox(m) => mailbox_json(m),
        Address::Group { name, members } => {
            json!({"name": name, "entries": members.iter().map(mailbox_json).collect::<Json>()})
        }
    }
}

fn mailbox_json(m: &Mailbox) -> Json {
    json!({"name": m.name, "address": {"local_part": m.user, "domain": m.domain}})
}
