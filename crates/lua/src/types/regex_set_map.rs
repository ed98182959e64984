//! `RegexSetMap`: values by pattern, all patterns tried in one pass.

use crate::stored::Stored;
use mlua::{Lua, LuaString, MetaMethod, Table, UserData, UserDataMethods, Value};
use regex_automata::meta::Regex;
use std::sync::Arc;

/// The userdata: patterns, and a value for each. It does not change.
#[derive(Clone)]
pub(crate) struct LuaRegexSetMap {
    patterns: Arc<Regex>,
    values: Arc<[Stored]>,
}

impl LuaRegexSetMap {
    /// `kumo.regex_set_map.new`.
    pub fn make(_: &Lua, entries: Table) -> mlua::Result<LuaRegexSetMap> {
        let mut entries = entries.pairs::<String, Value>().collect::<mlua::Result<Vec<_>>>()?;
        // In an order of its own, so that the same table means the same in every state.
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        let (patterns, values): (Vec<String>, Vec<Value>) = entries.into_iter().unzip();
        let compiled = Regex::new_many(&patterns).map_err(|e| {
            let which = e.pattern().and_then(|number| patterns.get(number.as_usize()));
            mlua::Error::runtime(format!("pattern {:?}: {e}: {}", which.map_or("", |p| p), cause(&e)))
        })?;
        let values = values.iter().map(Stored::take).collect::<mlua::Result<_>>()?;
        Ok(LuaRegexSetMap { patterns: Arc::new(compiled), values })
    }
}

fn cause(error: &dyn std::error::Error) -> String {
    error.source().map(ToString::to_string).unwrap_or_default()
}

impl UserData for LuaRegexSetMap {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method(MetaMethod::Index, |lua, this, text: LuaString| {
            let found = this.patterns.find(&*text.as_bytes()).map(|found| found.pattern().as_usize());
            found.and_then(|number| this.values.get(number)).map_or(Ok(Value::Nil), |value| value.give(lua))
        });
    }
}
