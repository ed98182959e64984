//! The methods of `msg` that read, edit and import header fields.

use crate::error::of_method;
use crate::types::address_header::LuaAddressHeader;
use crate::types::header_import;
use crate::types::message::LuaMessage;
use mime::{HeaderError, ValueForm};
use mlua::{BString, UserDataMethods, Value};

/// Adds them.
pub(crate) fn add_to<M: UserDataMethods<LuaMessage>>(methods: &mut M) {
    readers(methods);
    edits(methods);
    imports(methods);
}

fn readers<M: UserDataMethods<LuaMessage>>(methods: &mut M) {
    methods.add_method_mut("get_first_named_header_value", |_, this, name: String| {
        Ok(this.draft()?.headers().first_value(&name))
    });
    methods.add_method_mut("get_all_named_header_values", |_, this, name: String| {
        Ok(this.draft()?.headers().all_values(&name))
    });
    methods.add_method_mut("get_all_headers", |_, this, ()| {
        Ok(this.draft()?.headers().all().into_iter().map(|(name, value)| [name, value]).collect::<Vec<_>>())
    });
    methods.add_method_mut("get_address_header", |_, this, name: String| {
        address_header(this, &name).map_err(|error| of_method("get_address_header", error))
    });
    methods.add_method_mut("from_header", |_, this, ()| address_header(this, "From"));
    methods.add_method_mut("to_header", |_, this, ()| address_header(this, "To"));
}

fn edits<M: UserDataMethods<LuaMessage>>(methods: &mut M) {
    methods.add_method_mut("prepend_header", |_, this, (name, value, encode): (String, BString, Option<bool>)| {
        let (block, _) = this.draft()?.edit_headers();
        block.prepend(&name, &value, form(encode)).map_err(|e| header_error("prepend_header", &name, &e))
    });
    methods.add_method_mut("append_header", |_, this, (name, value, encode): (String, BString, Option<bool>)| {
        let (block, _) = this.draft()?.edit_headers();
        block.append(&name, &value, form(encode)).map_err(|e| header_error("append_header", &name, &e))
    });
    methods.add_method_mut("remove_all_named_headers", |_, this, name: String| {
        let (block, raw) = this.draft()?.edit_headers();
        block.remove_all(raw, &name);
        Ok(())
    });
    methods.add_method_mut("remove_x_headers", |_, this, names: Option<Vec<String>>| {
        let (block, raw) = this.draft()?.edit_headers();
        block.remove_x(raw, borrowed(names.as_deref()).as_deref());
        Ok(())
    });
}

fn imports<M: UserDataMethods<LuaMessage>>(methods: &mut M) {
    methods.add_method_mut("import_x_headers", |_, this, names: Option<Vec<String>>| {
        let draft = this.draft()?;
        let found = draft.headers().import_x(borrowed(names.as_deref()).as_deref());
        found.into_iter().for_each(|(name, value)| draft.meta.set(name, value));
        Ok(())
    });
    methods.add_method_mut("import_headers", |_, this, rules: Value| {
        let rules = header_import::rules(&rules)?;
        let draft = this.draft()?;
        let found = draft.headers().import(&rules);
        header_import::store(&mut draft.meta, found.values);
        let (block, raw) = draft.edit_headers();
        found.remove.iter().for_each(|name| {
            block.remove_all(raw, name);
        });
        Ok(())
    });
}

fn address_header(this: &mut LuaMessage, name: &str) -> mlua::Result<Option<LuaAddressHeader>> {
    let list = this.draft()?.headers().addresses(name);
    Ok(list.map_err(|e| mlua::Error::runtime(format!("header {name}: {e}")))?.map(LuaAddressHeader))
}

fn form(encode: Option<bool>) -> ValueForm {
    if encode.unwrap_or(false) { ValueForm::Encode } else { ValueForm::Raw }
}

fn borrowed(names: Option<&[String]>) -> Option<Vec<&str>> {
    names.map(|list| list.iter().map(String::as_str).collect())
}

fn header_error(method: &str, name: &str, error: &HeaderError) -> mlua::Error {
    mlua::Error::runtime(format!("msg:{method} {name:?}: {error}"))
}
