//! Objects that all states may share: maps, signers and the like, cheap to clone.

use crate::types::acl::LuaAclMap;
use crate::types::cidr_map::LuaCidrMap;
use crate::types::domain_map::LuaDomainMap;
use crate::types::regex_set_map::LuaRegexSetMap;
use crate::types::shaping::LuaShaping;
use crate::types::signer::LuaSigner;
use mlua::{AnyUserData, IntoLua, Lua, Value};

/// One of them.
#[derive(Clone)]
pub(crate) enum Shareable {
    DomainMap(LuaDomainMap),
    CidrMap(LuaCidrMap),
    RegexSetMap(LuaRegexSetMap),
    Shaping(LuaShaping),
    AclMap(LuaAclMap),
    Signer(LuaSigner),
}

impl Shareable {
    /// The object behind a userdata, if it is one of these.
    pub fn of(data: &AnyUserData) -> Option<Shareable> {
        if let Ok(map) = data.borrow::<LuaDomainMap>() {
            return Some(Shareable::DomainMap(map.clone()));
        }
        if let Ok(map) = data.borrow::<LuaCidrMap>() {
            return Some(Shareable::CidrMap(map.clone()));
        }
        if let Ok(shaping) = data.borrow::<LuaShaping>() {
            return Some(Shareable::Shaping(shaping.clone()));
        }
        if let Ok(map) = data.borrow::<LuaAclMap>() {
            return Some(Shareable::AclMap(map.clone()));
        }
        if let Ok(signer) = data.borrow::<LuaSigner>() {
            return Some(Shareable::Signer(signer.clone()));
        }
        data.borrow::<LuaRegexSetMap>().ok().map(|map| Shareable::RegexSetMap(map.clone()))
    }
}

impl IntoLua for Shareable {
    fn into_lua(self, lua: &Lua) -> mlua::Result<Value> {
        match self {
            Shareable::DomainMap(map) => map.into_lua(lua),
            Shareable::CidrMap(map) => map.into_lua(lua),
            Shareable::RegexSetMap(map) => map.into_lua(lua),
            Shareable::Shaping(shaping) => shaping.into_lua(lua),
            Shareable::AclMap(map) => map.into_lua(lua),
            Shareable::Signer(signer) => signer.into_lua(lua),
        }
    }
}
