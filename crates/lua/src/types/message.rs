//! `msg`: the message an event is about (KumoMTA's Message object).
//!
//! Holds the draft only while the handler runs. A script that keeps `msg` beyond its event
//! gets an error from every method, never another message's data.

use crate::convert;
use crate::types::address::{self, LuaAddress, LuaAddressHeader};
use crate::types::signer::LuaSigner;
use message::{Draft, Meta};
use mime::{HeaderError, ImportMatch, ImportRule, NameTransform, ValueForm};
use mlua::{BString, IntoLua, MetaMethod, Table, UserData, UserDataMethods, Value};
use queue::QueueName;
use sender_auth::{BodyHashes, Scratch};
use std::time::{SystemTime, UNIX_EPOCH};

/// The draft, while it is lent.
pub(crate) struct LuaMessage(Option<Draft>);

impl LuaMessage {
    /// Lends a draft to a script.
    pub fn lend(draft: Draft) -> LuaMessage {
        LuaMessage(Some(draft))
    }

    /// Takes the draft back; `None` when that was done before.
    pub fn take_back(&mut self) -> Option<Draft> {
        self.0.take()
    }

    fn draft(&mut self) -> mlua::Result<&mut Draft> {
        self.0.as_mut().ok_or_else(|| mlua::Error::runtime("msg is used after its event has ended"))
    }
}

impl UserData for LuaMessage {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        identity(methods);
        envelope(methods);
        metadata(methods);
        content(methods);
        headers(methods);
        header_edits(methods);
        methods.add_method_mut("dkim_sign", |_, this, signer: mlua::UserDataRef<LuaSigner>| dkim_sign(this, &signer));
    }
}

fn identity<M: UserDataMethods<LuaMessage>>(methods: &mut M) {
    methods.add_meta_method_mut(MetaMethod::ToString, |_, this, ()| Ok(format!("Message({})", this.draft()?.id)));
    methods.add_method_mut("id", |_, this, ()| Ok(this.draft()?.id.to_string()));
    methods.add_method_mut("num_attempts", |_, this, ()| Ok(this.draft()?.attempts));
    methods.add_method_mut("queue_name", |_, this, ()| {
        let draft = this.draft()?;
        QueueName::text_for(&draft.envelope, &draft.meta).map_err(mlua::Error::external)
    });
    // Every message is synced before 250, so there is nothing to switch on; see docs/compat.md.
    methods.add_method_mut("set_force_sync", |_, this, _: bool| this.draft().map(|_| ()));
}

fn envelope<M: UserDataMethods<LuaMessage>>(methods: &mut M) {
    methods.add_method_mut("sender", |_, this, ()| Ok(LuaAddress::from(&this.draft()?.envelope.sender)));
    methods.add_method_mut("set_sender", |_, this, value: Value| {
        this.draft()?.envelope.sender = smtp_wire::ReversePath(address::from_lua(&value)?);
        Ok(())
    });
    methods.add_method_mut("recipient", |lua, this, ()| match &this.draft()?.envelope.recipients[..] {
        [] => Ok(Value::Nil),
        [one] => LuaAddress(Some(one.clone())).into_lua(lua),
        many => list(many).into_lua(lua),
    });
    methods.add_method_mut("recipient_list", |_, this, ()| Ok(list(&this.draft()?.envelope.recipients)));
    methods.add_method_mut("set_recipient", |_, this, value: Value| {
        this.draft()?.envelope.recipients = recipients(value)?;
        Ok(())
    });
}

fn metadata<M: UserDataMethods<LuaMessage>>(methods: &mut M) {
    methods.add_method_mut("get_meta", |lua, this, name: String| match this.draft()?.meta.get(&name) {
        Some(value) => convert::to_lua(lua, value),
        None => Ok(Value::Nil),
    });
    methods.add_method_mut("set_meta", |lua, this, (name, value): (String, Value)| {
        let value = convert::to_json(lua, value)?;
        this.draft()?.meta.set(name, value);
        Ok(())
    });
}

fn content<M: UserDataMethods<LuaMessage>>(methods: &mut M) {
    methods.add_method_mut("get_data", |_, this, ()| Ok(BString::from(&this.draft()?.data()[..])));
    methods.add_method_mut("set_data", |_, this, data: BString| {
        let data: Vec<u8> = data.into();
        this.draft()?.set_data(data.into());
        Ok(())
    });
}

fn headers<M: UserDataMethods<LuaMessage>>(methods: &mut M) {
    methods.add_method_mut("get_first_named_header_value", |_, this, name: String| {
        Ok(this.draft()?.headers().first_value(&name))
    });
    methods.add_method_mut("get_all_named_header_values", |_, this, name: String| {
        Ok(this.draft()?.headers().all_values(&name))
    });
    methods.add_method_mut("get_all_headers", |_, this, ()| {
        Ok(this.draft()?.headers().all().into_iter().map(|(name, value)| vec![name, value]).collect::<Vec<_>>())
    });
    methods.add_method_mut("get_address_header", |_, this, name: String| address_header(this, &name));
    methods.add_method_mut("from_header", |_, this, ()| address_header(this, "From"));
    methods.add_method_mut("to_header", |_, this, ()| address_header(this, "To"));
    methods.add_method_mut("import_x_headers", |_, this, names: Option<Vec<String>>| {
        let draft = this.draft()?;
        let names: Option<Vec<&str>> = names.as_ref().map(|list| list.iter().map(String::as_str).collect());
        let found = draft.headers().import_x(names.as_deref());
        found.into_iter().for_each(|(name, value)| draft.meta.set(name, value));
        Ok(())
    });
    methods.add_method_mut("import_headers", |_, this, rules: Vec<Table>| {
        let rules = rules.iter().map(import_rule).collect::<mlua::Result<Vec<_>>>()?;
        let draft = this.draft()?;
        let found = draft.headers().import(&rules);
        store_imported(&mut draft.meta, found.values);
        let (block, raw) = draft.edit_headers();
        found.remove.iter().for_each(|name| {
            block.remove_all(raw, name);
        });
        Ok(())
    });
}

fn header_edits<M: UserDataMethods<LuaMessage>>(methods: &mut M) {
    methods.add_method_mut("prepend_header", |_, this, (name, value, encode): (String, BString, Option<bool>)| {
        let (block, _) = this.draft()?.edit_headers();
        block.prepend(&name, &value, form(encode)).map_err(header_error)
    });
    methods.add_method_mut("append_header", |_, this, (name, value, encode): (String, BString, Option<bool>)| {
        let (block, _) = this.draft()?.edit_headers();
        block.append(&name, &value, form(encode)).map_err(header_error)
    });
    methods.add_method_mut("remove_all_named_headers", |_, this, name: String| {
        let (block, raw) = this.draft()?.edit_headers();
        block.remove_all(raw, &name);
        Ok(())
    });
    methods.add_method_mut("remove_x_headers", |_, this, names: Option<Vec<String>>| {
        let (block, raw) = this.draft()?.edit_headers();
        let names: Option<Vec<&str>> = names.as_ref().map(|list| list.iter().map(String::as_str).collect());
        block.remove_x(raw, names.as_deref());
        Ok(())
    });
}

fn dkim_sign(this: &mut LuaMessage, signer: &LuaSigner) -> mlua::Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let draft = this.draft()?;
    let body = draft.body();
    let field = signer
        .0
        .sign(now, draft.headers(), &body, &BodyHashes::new(), &mut Scratch::new())
        .map_err(mlua::Error::external)?;
    draft.edit_headers().0.prepend_field(field).map_err(header_error)
}

fn address_header(this: &mut LuaMessage, name: &str) -> mlua::Result<Option<LuaAddressHeader>> {
    let list = this.draft()?.headers().addresses(name).map_err(mlua::Error::external)?;
    Ok(list.map(LuaAddressHeader))
}

fn list(recipients: &[smtp_wire::Mailbox]) -> Vec<LuaAddress> {
    recipients.iter().map(|r| LuaAddress(Some(r.clone()))).collect()
}

fn recipients(value: Value) -> mlua::Result<Vec<smtp_wire::Mailbox>> {
    let values: Vec<Value> = match value {
        Value::Table(table) => table.sequence_values().collect::<mlua::Result<_>>()?,
        one => vec![one],
    };
    let null = || mlua::Error::runtime("set_recipient: the null address cannot be a recipient");
    values.iter().map(|v| address::from_lua(v)?.ok_or_else(null)).collect()
}

fn form(encode: Option<bool>) -> ValueForm {
    if encode.unwrap_or(false) { ValueForm::Encode } else { ValueForm::Raw }
}

fn header_error(error: HeaderError) -> mlua::Error {
    mlua::Error::external(error)
}

fn import_rule(table: &Table) -> mlua::Result<ImportRule> {
    let name: String = table.get("name")?;
    let take = match table.get::<Option<String>>("match")?.as_deref() {
        None | Some("last") => ImportMatch::Last,
        Some("first") => ImportMatch::First,
        Some("all") => ImportMatch::All,
        Some(other) => return Err(not_one_of("match", other, "first, last or all")),
    };
    let transform = match table.get::<Option<String>>("transform")?.as_deref() {
        None | Some("snake_case") => NameTransform::Snake,
        Some("kebab_case") => NameTransform::Kebab,
        Some("camel_case") => NameTransform::Camel,
        Some("pascal_case") => NameTransform::Pascal,
        Some(other) => return Err(not_one_of("transform", other, "snake_case, kebab_case, camel_case or pascal_case")),
    };
    let remove = table.get::<Option<bool>>("remove")?.unwrap_or(false);
    ImportRule::new(&name, take, transform, table.get("target")?, remove).map_err(mlua::Error::external)
}

fn not_one_of(field: &str, found: &str, expected: &str) -> mlua::Error {
    mlua::Error::runtime(format!("import_headers: {field} `{found}`: expected {expected}"))
}

fn store_imported(meta: &mut Meta, values: Vec<(String, Vec<String>, bool)>) {
    for (name, mut values, as_list) in values {
        match as_list {
            true => meta.set(name, values),
            false => values.pop().into_iter().for_each(|value| meta.set(name.clone(), value)),
        }
    }
}
