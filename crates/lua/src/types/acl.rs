//! Lists of rules, maps of them, and resources, as scripts hold them.

use access::{AccessControlList, AclMap};
use mlua::{UserData, UserDataMethods};
use std::sync::Arc;

/// The rules of a resource.
#[derive(Clone)]
pub(crate) struct LuaAcl(pub Arc<AccessControlList>);

/// Lists by resource; clones share one.
#[derive(Clone)]
pub(crate) struct LuaAclMap(pub Arc<AclMap>);

/// What somebody may want to do something with: names, the narrowest first.
#[derive(Clone)]
pub(crate) struct LuaResource(pub Vec<String>);

impl UserData for LuaAcl {}

impl UserData for LuaAclMap {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("get", |_, this, resource: String| Ok(this.0.get(&resource).map(LuaAcl)));
    }
}

impl UserData for LuaResource {}
