//! `kumo.file_type`: what kind of file octets, a file name's end or a media type stand for. The knowledge is the
//! file_type crate's.

use crate::api::{Function, Module, Proof::Example, function};
use ::file_type::FileType;
use mlua::{Lua, LuaString, Table};

/// The module.
pub(crate) const FILE_TYPE: Module = Module {
    name: "kumo.file_type",
    doc: "What kind of file something is. A kind is a table of `name`, `extensions` and `media_types`.",
    functions: &[FUNCTIONS],
    types: &[],
};

const FUNCTIONS: &[Function] = &[
    function!(
        "kumo.file_type",
        "from_bytes",
        "(octets) -> kind",
        "The kind that these octets look like; there always is one.",
        Example(
            "local kind = kumo.file_type.from_bytes '%PDF-1.7\\n%\\xe2\\xe3\\xcf\\xd3\\n' \
             assert(kind.name:find 'Document' and kind.extensions[1] == 'pdf' and kind.media_types[1] == 'application/pdf') \
             assert(kumo.file_type.from_bytes('').name)"
        ),
        |lua: &Lua, octets: LuaString| kind(lua, FileType::from_bytes(octets.as_bytes()))
    ),
    function!(
        "kumo.file_type",
        "from_extension",
        "(extension) -> list of kinds",
        "The kinds of files whose names end so; without the dot.",
        Example(
            "local kinds = kumo.file_type.from_extension 'png' assert(kinds[1].media_types[1] == 'image/png') \
             assert(#kumo.file_type.from_extension 'nothing-ends-so' == 0)"
        ),
        |lua: &Lua, extension: String| kinds(lua, FileType::from_extension(extension))
    ),
    function!(
        "kumo.file_type",
        "from_media_type",
        "(media type) -> list of kinds",
        "The kinds of files that this media type names.",
        Example(
            "local kinds = kumo.file_type.from_media_type 'image/png' assert(kinds[1].extensions[1] == 'png') \
             assert(#kumo.file_type.from_media_type 'no/such-type' == 0)"
        ),
        |lua: &Lua, media_type: String| kinds(lua, FileType::from_media_type(media_type))
    ),
];

fn kinds(lua: &Lua, found: &[&FileType]) -> mlua::Result<Vec<Table>> {
    found.iter().map(|found| kind(lua, found)).collect()
}

fn kind(lua: &Lua, found: &FileType) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("name", found.name())?;
    table.raw_set("extensions", found.extensions().to_vec())?;
    table.raw_set("media_types", found.media_types().to_vec())?;
    Ok(table)
}
