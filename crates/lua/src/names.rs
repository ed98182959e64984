//! The resolvers that scripts ask: made by the program when it begins to serve, shared by all states.

use crate::context::Host;
use mlua::Lua;
use net::dns::MxCache;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// Filled once; before that nobody can be asked.
#[derive(Default)]
pub struct Names(OnceLock<Resolvers>);

/// Who can be asked. Each remembers answers and limits questions on its own.
pub struct Resolvers {
    /// Where mail goes is looked up here too.
    pub mail: Arc<MxCache>,
    /// Those of `kumo.dns.define_resolver`, by name; MTA-STS policies are not looked at.
    pub named: BTreeMap<String, Arc<MxCache>>,
}

impl Names {
    /// Says who is to be asked; the first word counts.
    pub fn set(&self, resolvers: Resolvers) {
        // A second server in one process brings a policy of its own.
        let _ = self.0.set(resolvers);
    }

    pub(crate) fn get(&self) -> Option<&Resolvers> {
        self.0.get()
    }
}

/// Who is asked by `function`: the resolver of that name, or that of mail.
pub(crate) fn resolver_of(lua: &Lua, function: &str, resolver: Option<&str>) -> mlua::Result<Arc<MxCache>> {
    let refused = |why: &str| mlua::Error::runtime(format!("{function}: {why}"));
    let names: Option<Arc<Names>> = lua.app_data_ref::<Host>().map(|host| host.names.clone());
    let names = names.as_deref().and_then(Names::get);
    let names = names.ok_or_else(|| refused("names are looked up while the program serves, not before"))?;
    match resolver {
        None => Ok(names.mail.clone()),
        Some(wanted) => {
            let found = names.named.get(wanted).cloned();
            found.ok_or_else(|| refused(&format!("no resolver `{wanted}` is defined (kumo.dns.define_resolver)")))
        }
    }
}
