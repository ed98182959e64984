//! `kumo.mimepart`: messages as trees of parts, read, changed and built.
//!
//! In: octets, texts, parts. Out: parts (`types/mime_part.rs`). What a part is and how it is written is the mimepart crate's.

use crate::api::{Function, Module, Proof::Example, function};
use crate::modules::mime_objects::TYPES;
use crate::types::mime_part::{LuaBuilder, LuaMimePart, attachment_options, give, seed};
use mimepart::MimePart;
use mlua::{Lua, LuaString, UserDataRef, Value};

/// The module.
pub(crate) const MIMEPART: Module =
    Module { name: "kumo.mimepart", doc: "Messages as trees of MIME parts.", functions: &[FUNCTIONS], types: TYPES };

const FUNCTIONS: &[Function] = &[
    function!(
        "kumo.mimepart",
        "parse",
        "(octets) -> MimePart",
        "Reads a message. Whatever it is given is one.",
        Example(
            "local p = kumo.mimepart.parse('Subject: x\\r\\n\\r\\nbody\\r\\n') assert(p.headers:subject() == 'x' and p.body == 'body\\r\\n') \
             assert(tostring(p) == 'Subject: x\\r\\n\\r\\nbody\\r\\n' and tostring(kumo.mimepart.parse '\\0\\xff') == '\\0\\xff')"
        ),
        |_: &Lua, octets: LuaString| Ok(LuaMimePart::whole(MimePart::parse(octets.as_bytes().to_vec())))
    ),
    function!(
        "kumo.mimepart",
        "builder",
        "() -> MimeBuilder",
        "For a message from texts and attachments.",
        Example(
            "local b = kumo.mimepart.builder() b:text_plain 'x' b:text_html '<b>x</b>' b:attach('x/y', 'z') local p = b:build() \
             assert(p.headers:content_type().value == 'multipart/mixed' and #p:get_simple_structure().attachments == 1)"
        ),
        |_: &Lua, ()| Ok(LuaBuilder::new())
    ),
    function!(
        "kumo.mimepart",
        "new_text",
        "(content type, text) -> MimePart",
        "A part of text.",
        Example(
            "local p = kumo.mimepart.new_text('text/calendar', 'gr\\u{fc}n') \
             assert(p.headers:content_type().value == 'text/calendar' and p.body:find 'gr\\u{fc}n')"
        ),
        |lua: &Lua, (kind, text): (String, String)| give(lua, MimePart::new_text(&kind, &text))
    ),
    function!(
        "kumo.mimepart",
        "new_text_plain",
        "(text) -> MimePart",
        "A part of plain text.",
        Example(
            "local p = kumo.mimepart.new_text_plain 'x' assert(p.headers:content_type().value == 'text/plain' and p.body:find '^x')"
        ),
        |lua: &Lua, text: String| give(lua, MimePart::new_text_plain(&text))
    ),
    function!(
        "kumo.mimepart",
        "new_html",
        "(text) -> MimePart",
        "A part of HTML.",
        Example(
            "local p = kumo.mimepart.new_html '<b>' assert(p.headers:content_type().value == 'text/html' and p.body:find '^<b>')"
        ),
        |lua: &Lua, text: String| give(lua, MimePart::new_html(&text))
    ),
    function!(
        "kumo.mimepart",
        "new_binary",
        "(content type, octets, {file_name, inline, content_id} or nil) -> MimePart",
        "A part in base64.",
        Example(
            "local p = kumo.mimepart.new_binary('x/y', '\\0\\xff', { file_name = 'a', content_id = 'a@x' }) \
             assert(p.body == '\\0\\xff' and p.headers:content_id() == 'a@x' and p.headers:content_disposition().parameters.filename == 'a')"
        ),
        |lua: &Lua, (kind, octets, options): (String, LuaString, Option<Value>)| {
            let options = attachment_options(options)?;
            give(lua, MimePart::new_binary(&kind, &octets.as_bytes(), options.as_ref()))
        }
    ),
    function!(
        "kumo.mimepart",
        "new_multipart",
        "(content type, list of MimePart, boundary or nil) -> MimePart",
        "A part of parts, copies of those given.",
        Example(
            "local k = kumo.mimepart local p = k.new_multipart('multipart/mixed', { k.new_text_plain 'a', k.new_html 'b' }, 'line') \
             assert(tostring(p):find('\\r\\n--line--', 1, true) and p.headers:content_type().parameters.boundary == 'line') \
             assert(not pcall(k.new_multipart, 'text/plain', {}))"
        ),
        |lua: &Lua, (kind, parts, boundary): (String, Vec<UserDataRef<LuaMimePart>>, Option<String>)| {
            let parts = parts.iter().map(|part| part.copy()).collect::<mlua::Result<Vec<_>>>()?;
            give(lua, MimePart::new_multipart(&kind, parts, boundary.as_deref(), seed()))
        }
    ),
];
