//! Objects that all states may share: maps, signers and the like, cheap to clone, and what `kumo.make_*` made.

use crate::types::acl::LuaAclMap;
use crate::types::cidr_map::LuaCidrMap;
use crate::types::config_object::ConfigObject;
use crate::types::domain_map::LuaDomainMap;
use crate::types::regex_set_map::LuaRegexSetMap;
use crate::types::shaping::LuaShaping;
use crate::types::signer::LuaSigner;
use config::{EgressPath, EgressPool, EgressSource, ListenerDomain, QueueConfig};
use mlua::{AnyUserData, IntoLua, Lua, UserData, Value};
use std::sync::Arc;

/// One of them.
#[derive(Clone)]
pub(crate) enum Shareable {
    DomainMap(LuaDomainMap),
    CidrMap(LuaCidrMap),
    RegexSetMap(LuaRegexSetMap),
    Shaping(LuaShaping),
    AclMap(LuaAclMap),
    Signer(LuaSigner),
    Queue(Arc<QueueConfig>),
    Path(Arc<EgressPath>),
    Source(Arc<EgressSource>),
    Pool(Arc<EgressPool>),
    ListenerDomain(Arc<ListenerDomain>),
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
        if let Ok(map) = data.borrow::<LuaRegexSetMap>() {
            return Some(Shareable::RegexSetMap(map.clone()));
        }
        Shareable::of_configuration(data)
    }

    /// The same of what a `kumo.make_*` made: handlers return it where that is asked for, whether it was memoized or not.
    fn of_configuration(data: &AnyUserData) -> Option<Shareable> {
        let kinds = [
            made(data, Shareable::Queue),
            made(data, Shareable::Path),
            made(data, Shareable::Source),
            made(data, Shareable::Pool),
            made(data, Shareable::ListenerDomain),
        ];
        kinds.into_iter().flatten().next()
    }
}

fn made<T: Clone + 'static>(data: &AnyUserData, kind: impl FnOnce(Arc<T>) -> Shareable) -> Option<Shareable> {
    Some(kind(Arc::new(data.borrow::<ConfigObject<T>>().ok()?.0.clone())))
}

fn given<T: Clone + Send + Sync + 'static>(lua: &Lua, made: &T) -> mlua::Result<Value>
where
    ConfigObject<T>: UserData,
{
    lua.create_userdata(ConfigObject(made.clone())).map(Value::UserData)
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
            Shareable::Queue(made) => given(lua, &*made),
            Shareable::Path(made) => given(lua, &*made),
            Shareable::Source(made) => given(lua, &*made),
            Shareable::Pool(made) => given(lua, &*made),
            Shareable::ListenerDomain(made) => given(lua, &*made),
        }
    }
}
