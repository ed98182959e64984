//! The resolvers that scripts ask: made by the program when it begins to serve, shared by all states.
//!
//! Before that the top level and `init` ask too (KumoMTA behaviour): by resolvers of their own, as the script has chosen them so
//! far, which look at no MTA-STS policies.

use crate::context::Host;
use crate::modules::memoize::commons;
use config::DnsSettings;
use mlua::Lua;
use net::dns::{DnsSetupError, MxCache, cache_limits, chosen_resolver, named_resolvers};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tokio::runtime::Handle;

/// Filled once; before that there are the early ones.
#[derive(Default)]
pub struct Names {
    serving: OnceLock<Resolvers>,
    /// With the settings they were made of.
    early: Mutex<Option<(DnsSettings, Resolvers)>>,
}

/// Who can be asked. Each remembers answers and limits questions on its own.
#[derive(Clone)]
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
        let _ = self.serving.set(resolvers);
        *self.early.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub(crate) fn get(&self) -> Option<&Resolvers> {
        self.serving.get()
    }

    /// Those of before the program serves.
    fn early(&self, dns: &DnsSettings) -> Result<Resolvers, DnsSetupError> {
        let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, resolvers)) = &*early
            && of == dns
        {
            return Ok(resolvers.clone());
        }
        let mail = Arc::new(MxCache::new(chosen_resolver(dns)?, cache_limits(dns)));
        let resolvers = Resolvers { mail, named: named_resolvers(dns)? };
        *early = Some((dns.clone(), resolvers.clone()));
        Ok(resolvers)
    }
}

/// Who is asked by `function`: the resolver of that name, or that of mail.
pub(crate) fn resolver_of(lua: &Lua, function: &str, resolver: Option<&str>) -> mlua::Result<Arc<MxCache>> {
    let refused = |why: &str| mlua::Error::runtime(format!("{function}: {why}"));
    let host = lua.app_data_ref::<Host>().ok_or_else(|| refused("this state belongs to no policy"))?;
    let (names, dns) = (host.names.clone(), host.dns.clone());
    drop(host);
    let early;
    let resolvers = match names.get() {
        Some(serving) => serving,
        None => {
            let commons = commons(lua)?;
            let runtime = match Handle::try_current() {
                Ok(runtime) => runtime,
                Err(_) => commons.early.runtime().map_err(|why| refused(&why))?.handle().clone(),
            };
            let _within = runtime.enter();
            early = names.early(&dns).map_err(|why| refused(&why.to_string()))?;
            &early
        }
    };
    match resolver {
        None => Ok(resolvers.mail.clone()),
        Some(wanted) => {
            let found = resolvers.named.get(wanted).cloned();
            found.ok_or_else(|| refused(&format!("no resolver `{wanted}` is defined (kumo.dns.define_resolver)")))
        }
    }
}
