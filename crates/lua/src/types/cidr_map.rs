//! `CidrMap`: values by address block (`config::CidrMap`).

use crate::stored::Stored;
use config::{CidrMap, parse_cidr};
use mlua::{Lua, MetaMethod, Table, UserData, UserDataMethods, Value};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The userdata. States that share a map see it as it was when it was shared; writing to it makes a copy.
#[derive(Clone)]
pub(crate) struct LuaCidrMap(Arc<CidrMap<Stored>>);

impl LuaCidrMap {
    /// `kumo.cidr.make_map`.
    pub fn make(_: &Lua, entries: Option<Table>) -> mlua::Result<LuaCidrMap> {
        let mut map = CidrMap::new();
        for entry in entries.iter().flat_map(Table::pairs::<String, Value>) {
            let (block, value) = entry?;
            insert(&mut map, &block, &value)?;
        }
        Ok(LuaCidrMap(Arc::new(map)))
    }
}

fn insert(map: &mut CidrMap<Stored>, block: &str, value: &Value) -> mlua::Result<()> {
    let block = match address(block) {
        Some(ip) => ip.into(),
        None => parse_cidr(block).map_err(|e| mlua::Error::runtime(e.to_string()))?,
    };
    match Stored::take(value).map_err(|e| mlua::Error::runtime(format!("`{block}`: {e}")))? {
        Stored::Nil => map.remove(block),
        value => map.insert(block, value),
    };
    Ok(())
}

/// An address in any of the forms in which scripts have one: `ip`, `ip:port`, `[ip]`, `[ip]:port`.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    bare.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip())).or_else(|| {
        let (ip, port) = text.strip_prefix('[')?.split_once("]:")?;
        port.parse::<u16>().ok()?;
        ip.parse().ok()
    })
}

impl UserData for LuaCidrMap {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method(MetaMethod::Index, |lua, this, key: String| {
            let expected = "expected an IP address, alone, in brackets or with a port";
            let ip = address(&key).ok_or_else(|| mlua::Error::runtime(format!("cidr map: {key:?}: {expected}")))?;
            this.0.get(ip).map_or(Ok(Value::Nil), |value| value.give(lua))
        });
        methods.add_meta_method_mut(MetaMethod::NewIndex, |_, this, (block, value): (String, Value)| {
            insert(Arc::make_mut(&mut this.0), &block, &value)
        });
    }
}
