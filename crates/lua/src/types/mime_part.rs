//! `MimePart`: a place in the tree of a message, and the builder of such trees. What parts are is the mimepart crate's.
//!
//! All handles into one tree share it: what is changed through one is seen through the others. A message is changed by giving
//! the whole back: `msg:set_data(tostring(part))`.

use crate::convert;
use crate::error::of_method;
use crate::types::message::now;
use crate::types::mime_headers::LuaHeaderMap;
use clock::WallTime;
use mimepart::{AttachmentOptions, Builder, MimePart, PartError, PartId};
use mlua::{IntoLua, Lua, LuaString, MetaMethod, Table, UserData, UserDataFields, UserDataMethods, UserDataRef, Value};
use std::sync::{Arc, Mutex, PoisonError};

/// A tree, shared by the handles into it.
#[derive(Clone)]
pub(crate) struct Tree(Arc<Mutex<MimePart>>);

impl Tree {
    /// Does something to one part.
    pub fn with<T>(&self, at: &PartId, act: impl FnOnce(&mut MimePart) -> Result<T, PartError>) -> mlua::Result<T> {
        let mut root = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        root.try_part_mut(at).and_then(act).map_err(failed)
    }

    /// Looks at one part.
    fn look<T>(&self, at: &PartId, look: impl FnOnce(&MimePart) -> T) -> mlua::Result<T> {
        let root = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let part = root.part(at).ok_or_else(|| mlua::Error::runtime(format!("part {at} is no longer there")))?;
        Ok(look(part))
    }
}

/// An error of the library as scripts see it.
pub(crate) fn failed(error: PartError) -> mlua::Error {
    mlua::Error::runtime(error)
}

/// The userdata.
#[derive(Clone)]
pub(crate) struct LuaMimePart {
    tree: Tree,
    at: PartId,
}

impl LuaMimePart {
    /// The root of a tree of its own.
    pub fn whole(part: MimePart) -> LuaMimePart {
        LuaMimePart { tree: Tree(Arc::new(Mutex::new(part))), at: PartId::ROOT }
    }

    /// A copy of the part.
    pub fn copy(&self) -> mlua::Result<MimePart> {
        self.tree.look(&self.at, MimePart::clone)
    }

    fn below(&self, id: &PartId) -> LuaMimePart {
        LuaMimePart { tree: self.tree.clone(), at: self.at.join(id) }
    }

    fn simple_structure(&self, lua: &Lua) -> mlua::Result<Table> {
        let found = self.tree.look(&self.at, MimePart::simple_structure)?;
        let table = lua.create_table()?;
        let texts = [("text_part", found.text_part), ("html_part", found.html_part)];
        for (name, part) in texts.into_iter().chain([("amp_html_part", found.amp_html_part)]) {
            table.raw_set(name, part.map(|part| self.below(&part)))?;
        }
        table.raw_set("header_part", self.below(&found.header_part))?;
        let attachments = lua.create_table()?;
        for attachment in found.attachments {
            let entry = lua.create_table()?;
            entry.raw_set("file_name", attachment.file_name)?;
            entry.raw_set("inline", attachment.inline)?;
            entry.raw_set("content_id", attachment.content_id)?;
            entry.raw_set("content_type", attachment.content_type)?;
            entry.raw_set("part", self.below(&attachment.part))?;
            attachments.raw_push(entry)?;
        }
        table.raw_set("attachments", attachments)?;
        Ok(table)
    }
}

impl UserData for LuaMimePart {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_field_method_get("body", |lua, this| {
            let body = this.tree.look(&this.at, MimePart::body)?;
            lua.create_string(body.into_bytes())
        });
        fields.add_field_method_set("body", |_, this, content: LuaString| {
            this.tree.with(&this.at, |part| part.set_body(&content.as_bytes()))
        });
        fields.add_field_method_get("headers", |_, this| Ok(LuaHeaderMap::of(this.tree.clone(), this.at.clone())));
        fields.add_field_method_get("id", |_, this| Ok(this.at.to_string()));
    }

    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("get_simple_structure", |lua, this, ()| this.simple_structure(lua));
        methods.add_method("replace_body", |_, this, (content, kind): (LuaString, Option<String>)| {
            let replaced = this.tree.with(&this.at, |part| part.replace_body(&content.as_bytes(), kind.as_deref()));
            replaced.map_err(|error| of_method("replace_body", error))
        });
        methods.add_method("append_part", |_, this, part: UserDataRef<LuaMimePart>| {
            let part = part.copy()?;
            this.tree.with(&PartId::ROOT, |root| root.append_part(&this.at, &part))
        });
        methods.add_method("rebuild", |_, this, ()| {
            this.tree.look(&this.at, MimePart::rebuild)?.map(LuaMimePart::whole).map_err(failed)
        });
        methods.add_meta_method(MetaMethod::ToString, |lua, this, ()| {
            lua.create_string(this.tree.look(&this.at, MimePart::to_bytes)?)
        });
    }
}

/// The userdata of `kumo.mimepart.builder`; `None` once it has built.
pub(crate) struct LuaBuilder(Option<Builder>);

impl LuaBuilder {
    /// Nothing given yet.
    pub fn new() -> LuaBuilder {
        LuaBuilder(Some(Builder::new()))
    }

    fn builder(&mut self) -> mlua::Result<&mut Builder> {
        self.0.as_mut().ok_or_else(built)
    }

    fn with(&mut self, act: impl FnOnce(&mut Builder)) -> mlua::Result<()> {
        self.builder().map(act)
    }
}

impl UserData for LuaBuilder {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method_mut("text_plain", |_, this, text: String| this.with(|builder| builder.text_plain(&text)));
        methods.add_method_mut("text_html", |_, this, text: String| this.with(|builder| builder.text_html(&text)));
        methods
            .add_method_mut("text_amp_html", |_, this, text: String| this.with(|builder| builder.text_amp_html(&text)));
        methods.add_method_mut("attach", |_, this, (kind, data, options): (String, LuaString, Option<Value>)| {
            let options = attachment_options(options)?;
            this.builder()?.attach(&kind, &data.as_bytes(), options.as_ref()).map_err(failed)
        });
        methods.add_method_mut("attach_part", |_, this, part: UserDataRef<LuaMimePart>| {
            let part = part.copy()?;
            this.with(|builder| builder.attach_part(part))
        });
        methods.add_method_mut("set_stable_content", |_, this, is_stable: bool| {
            this.with(|builder| builder.set_stable_content(is_stable))
        });
        methods.add_method_mut("build", |_, this, ()| {
            let builder = this.0.take().ok_or_else(built)?;
            builder.build(wall_now(), seed()).map(LuaMimePart::whole).map_err(failed)
        });
    }
}

fn built() -> mlua::Error {
    mlua::Error::runtime("the builder has built already")
}

/// `{file_name, inline, content_id}`, where they are given.
pub(crate) fn attachment_options(given: Option<Value>) -> mlua::Result<Option<AttachmentOptions>> {
    let given = given.filter(|given| !given.is_nil());
    given.map(|given| convert::parsed("attachment options", &given)).transpose()
}

/// This moment.
pub(crate) fn wall_now() -> WallTime {
    WallTime::from_unix_micros(now().unix_micros())
}

/// Something for boundaries and ids that nobody guesses twice.
pub(crate) fn seed() -> u64 {
    uuid::Uuid::new_v4().as_u64_pair().0
}

/// A part as a value.
pub(crate) fn give(lua: &Lua, part: Result<MimePart, PartError>) -> mlua::Result<Value> {
    part.map(LuaMimePart::whole).map_err(failed)?.into_lua(lua)
}
