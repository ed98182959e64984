//! `kumo.uuid`: identifiers of RFC 9562.

use crate::api::{Function, Member, Module, Proof::Example, Type, function};
use mlua::{MetaMethod, UserData, UserDataFields, UserDataMethods};
use uuid::Uuid;

/// The module.
pub(crate) const UUID: Module =
    Module { name: "kumo.uuid", doc: "Identifiers of RFC 9562.", functions: &[FUNCTIONS], types: &[TYPE] };

const FUNCTIONS: &[Function] = &[
    function!(
        "kumo.uuid",
        "parse",
        "(text) -> Uuid",
        "Reads any common form: with hyphens, without, in braces, as URN.",
        Example(
            "local u = kumo.uuid.parse('{67e55044-10b1-426f-9247-bb680e5fe0c8}') \
             assert(u.simple == '67e5504410b1426f9247bb680e5fe0c8' and not pcall(kumo.uuid.parse, 'no'))"
        ),
        |_, text: String| Uuid::parse_str(&text)
            .map(LuaUuid)
            .map_err(|e| mlua::Error::runtime(format!("{text:?}: {e}")))
    ),
    function!(
        "kumo.uuid",
        "new_v1",
        "() -> Uuid",
        "A new identifier of version 1: time and a node of its own.",
        Example(
            "assert(kumo.uuid.new_v1().hyphenated:sub(15, 15) == '1' and kumo.uuid.new_v1() ~= kumo.uuid.new_v1())"
        ),
        |_, ()| Ok(LuaUuid(Uuid::now_v1(&node())))
    ),
    function!(
        "kumo.uuid",
        "new_v4",
        "() -> Uuid",
        "A new identifier of version 4: random.",
        Example("local u = kumo.uuid.new_v4() assert(tostring(u):sub(15, 15) == '4' and #u.bytes == 16)"),
        |_, ()| Ok(LuaUuid(Uuid::new_v4()))
    ),
    function!(
        "kumo.uuid",
        "new_v6",
        "() -> Uuid",
        "A new identifier of version 6: as version 1, in an order that follows time.",
        Example(
            "local a, b = kumo.uuid.new_v6().simple, kumo.uuid.new_v6().simple assert(a < b and a:sub(13, 13) == '6')"
        ),
        |_, ()| Ok(LuaUuid(Uuid::now_v6(&node())))
    ),
    function!(
        "kumo.uuid",
        "new_v7",
        "() -> Uuid",
        "A new identifier of version 7: milliseconds, then random, in an order that follows time.",
        Example(
            "local a, b = kumo.uuid.new_v7().simple, kumo.uuid.new_v7().simple assert(a < b and a:sub(13, 13) == '7')"
        ),
        |_, ()| Ok(LuaUuid(Uuid::now_v7()))
    ),
];

/// A random node with the multicast bit (RFC 9562 section 6.10): that of the network card is nobody's business.
fn node() -> [u8; 6] {
    let random = Uuid::new_v4().into_bytes();
    [random[0] | 1, random[1], random[2], random[3], random[4], random[5]]
}

/// The userdata.
#[derive(PartialEq)]
struct LuaUuid(Uuid);

impl UserData for LuaUuid {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_field_method_get("bytes", |lua, this| lua.create_string(this.0.as_bytes()));
        fields.add_field_method_get("hyphenated", |_, this| Ok(this.0.hyphenated().to_string()));
        fields.add_field_method_get("simple", |_, this| Ok(this.0.simple().to_string()));
        fields.add_field_method_get("braced", |_, this| Ok(this.0.braced().to_string()));
        fields.add_field_method_get("urn", |_, this| Ok(this.0.urn().to_string()));
    }

    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method(MetaMethod::ToString, |_, this, ()| Ok(this.0.hyphenated().to_string()));
        methods.add_meta_method(MetaMethod::Eq, |_, this, other: mlua::UserDataRef<LuaUuid>| Ok(*this == *other));
    }
}

const TYPE: Type = Type {
    name: "Uuid",
    prefix: "uuid",
    doc: "An identifier. `tostring` gives the form with hyphens.",
    members: &[Member {
        name: "uuid.bytes, .hyphenated, .simple, .braced, .urn",
        signature: "string",
        doc: "The identifier in that form.",
        proof: Example(
            "local u = kumo.uuid.parse('67e55044-10b1-426f-9247-bb680e5fe0c8') \
             assert(u.bytes:byte(1) == 0x67 and u.hyphenated == tostring(u) and u.braced == '{' .. u.hyphenated .. '}') \
             assert(u.urn == 'urn:uuid:' .. u.hyphenated)",
        ),
    }],
};
