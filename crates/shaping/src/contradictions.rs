//! What options of shaping files say against each other, once they are put together as for a path.
//!
//! In: the shaping. Out: a sentence each, with the block that makes it so; what the default block says already is said once.

use crate::block::Block;
use crate::place::WHAT;
use crate::shaping::Shaping;
use config::{Contradictions as _, EgressPath};
use serde_json::{Map, Value};

impl Shaping {
    /// A sentence each, in the order of blocks: default, providers, sites, domains.
    pub fn contradictions(&self) -> Vec<String> {
        let of_default = of(&self.default.options);
        let mut found: Vec<String> = of_default.iter().map(|what| format!("default: {what}")).collect();
        let mut say = |place: String, block: &Block| {
            let mut options = self.default.options.clone();
            block.write_options(&mut options);
            let own = of(&options).into_iter().filter(|what| !of_default.contains(what));
            found.extend(own.map(|what| format!("{place}: {what}")));
        };
        self.providers.iter().for_each(|named| say(format!("provider {:?}", named.name), &named.provider.block));
        self.sites.values().for_each(|site| say(format!("domain {:?}", site.domains.join(", ")), &site.block));
        self.domains.iter().for_each(|(name, block)| say(format!("domain {name:?}"), block));
        found
    }
}

/// Options that are no path's by themselves have been told as errors.
fn of(options: &Map<String, Value>) -> Vec<String> {
    let path = config::parse::<EgressPath>(WHAT, Value::Object(options.clone()));
    path.map(|path| path.contradictions()).unwrap_or_default()
}
