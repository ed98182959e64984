//! `HeaderMap` and `Header`: the header of a MIME part. Getters and setters are made from [`mimepart::FIELDS`].
//!
//! A header map is a view: what is changed in it is changed in its part. A header is a copy.

use crate::convert;
use crate::error::of_method;
use crate::types::mime_part::{Tree, failed};
use mimepart::{FIELDS, FieldKind, FieldValue, Header, Headers, PartError, PartId};
use mlua::{Lua, MetaMethod, UserData, UserDataFields, UserDataMethods, Value};

/// The userdata.
pub(crate) struct LuaHeaderMap {
    tree: Tree,
    at: PartId,
}

impl LuaHeaderMap {
    /// The header of the part at that place.
    pub fn of(tree: Tree, at: PartId) -> LuaHeaderMap {
        LuaHeaderMap { tree, at }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Headers) -> Result<T, PartError>) -> mlua::Result<T> {
        self.tree.with(&self.at, |part| act(part.headers_mut()))
    }

    /// To look only: a part whose header was looked at is written as it came.
    fn look<T>(&self, look: impl FnOnce(&Headers) -> Result<T, PartError>) -> mlua::Result<T> {
        self.tree.with(&self.at, |part| look(part.headers()))
    }
}

impl UserData for LuaHeaderMap {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("append", |_, this, (name, value): (String, String)| {
            this.with(|headers| headers.append(&name, &value))
        });
        methods.add_method("prepend", |_, this, (name, value): (String, String)| {
            this.with(|headers| headers.prepend(&name, &value))
        });
        methods.add_method("remove_all_named", |_, this, name: String| {
            this.with(|headers| Ok(headers.remove_all_named(&name))).map(|_| ())
        });
        methods.add_method("get_first_named", |_, this, name: String| {
            Ok(this.look(|headers| Ok(headers.get_first_named(&name)))?.map(LuaHeader))
        });
        methods.add_method("iter", |lua, this, name: Option<String>| {
            let found: Vec<Header> = this.look(|headers| Ok(headers.iter(name.as_deref()).collect()))?;
            let mut found = found.into_iter();
            lua.create_function_mut(move |_, _: mlua::MultiValue| Ok(found.next().map(LuaHeader)))
        });
        for field in &FIELDS {
            let Some(accessor) = field.accessor else { continue };
            methods.add_method(accessor, move |lua, this, ()| {
                let value = this.look(|headers| headers.get_typed(field))?;
                value.map_or(Ok(Value::Nil), |value| give(lua, &value))
            });
            methods.add_method(format!("set_{accessor}"), move |lua, this, value: Value| {
                let taken = take(lua, field.name, field.kind, &value);
                let set = taken.and_then(|value| this.with(|headers| headers.set_typed(field, &value)));
                set.map_err(|error| of_method(&format!("set_{accessor}"), error))
            });
        }
        methods.add_meta_method(MetaMethod::ToString, |lua, this, ()| {
            lua.create_string(this.look(|headers| Ok(headers.to_bytes()))?)
        });
    }
}

/// The userdata.
struct LuaHeader(Header);

impl UserData for LuaHeader {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_field_method_get("name", |_, this| Ok(this.0.name.clone()));
        fields.add_field_method_get("raw_value", |lua, this| lua.create_string(&this.0.raw_value));
        fields.add_field_method_get("unstructured", |_, this| Ok(this.0.unstructured()));
        fields.add_field_method_get("value", |lua, this| give(lua, &this.0.value().map_err(failed)?));
        for (name, kind) in [
            ("address_list", FieldKind::AddressList),
            ("mailbox_list", FieldKind::MailboxList),
            ("mailbox", FieldKind::Mailbox),
            ("message_id", FieldKind::MessageId),
            ("message_id_list", FieldKind::MessageIdList),
            ("mime_params", FieldKind::MimeParams),
            ("authentication_results", FieldKind::AuthenticationResults),
        ] {
            fields.add_field_method_get(name, move |lua, this| give(lua, &this.0.value_as(kind).map_err(failed)?));
        }
    }
}

fn give(lua: &Lua, value: &FieldValue) -> mlua::Result<Value> {
    convert::to_lua(lua, &serde_json::to_value(value).map_err(mlua::Error::runtime)?)
}

/// Text, which is parsed, or a shape.
fn take(lua: &Lua, name: &str, kind: FieldKind, value: &Value) -> mlua::Result<FieldValue> {
    if let Value::String(text) = value {
        return Ok(FieldValue::Text(text.to_str()?.to_owned()));
    }
    let json = convert::to_json(lua, value)?;
    let wrong = || mlua::Error::runtime(format!("{name}: {json}: expected {}", kind.expected()));
    serde_json::from_value(json.clone()).map_err(|_| wrong())
}
