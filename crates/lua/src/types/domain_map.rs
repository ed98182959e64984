//! `DomainMap`: values by domain name, with wildcards (`config::DomainMap`).

use crate::stored::Stored;
use config::DomainMap;
use mlua::{Lua, MetaMethod, Table, UserData, UserDataMethods, Value};
use std::sync::Arc;

/// The userdata. States that share a map see it as it was when it was shared; writing to it makes a copy.
#[derive(Clone)]
pub(crate) struct LuaDomainMap(Arc<DomainMap<Stored>>);

impl LuaDomainMap {
    /// `kumo.domain_map.new`.
    pub fn make(_: &Lua, entries: Option<Table>) -> mlua::Result<LuaDomainMap> {
        let mut map = DomainMap::new();
        for entry in entries.iter().flat_map(Table::pairs::<String, Value>) {
            let (name, value) = entry?;
            let value = Stored::take(&value).map_err(|e| mlua::Error::runtime(format!("`{name}`: {e}")))?;
            map.insert(&name, value);
        }
        Ok(LuaDomainMap(Arc::new(map)))
    }

    /// Whether it has a value for a domain.
    pub fn has(&self, domain: &str) -> bool {
        self.0.get(domain).is_some()
    }
}

impl UserData for LuaDomainMap {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method(MetaMethod::Index, |lua, this, name: String| {
            this.0.get(&name).map_or(Ok(Value::Nil), |value| value.give(lua))
        });
        methods.add_meta_method_mut(MetaMethod::NewIndex, |_, this, (name, value): (String, Value)| {
            let map = Arc::make_mut(&mut this.0);
            match Stored::take(&value)? {
                Stored::Nil => map.remove(&name),
                value => map.insert(&name, value),
            };
            Ok(())
        });
    }
}
