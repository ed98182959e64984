//! What options of shaping files say against each other within one block.
//!
//! In: the shaping. Out: a sentence each, with the block it is of. What is put together of several blocks is not judged: which of
//! them meet depends on who sends and where to.

use crate::block::Block;
use crate::shaping::Shaping;
use config::{EgressPath, contradictions};

impl Shaping {
    /// A sentence each, in the order of blocks: default, providers, sites, domains; their sources behind each.
    pub fn contradictions(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut say = |place: String, block: &Block| {
            let mut of = |place: &str, options| {
                found.extend(contradictions::<EgressPath>(options).into_iter().map(|what| format!("{place}: {what}")));
            };
            of(&place, &block.options);
            block.sources.iter().for_each(|(source, options)| of(&format!("{place}, source {source:?}"), options));
        };
        say("default".to_owned(), &self.default);
        self.providers.iter().for_each(|named| say(format!("provider {:?}", named.name), &named.provider.block));
        self.sites.values().for_each(|site| say(format!("domain {:?}", site.domains.join(", ")), &site.block));
        self.domains.iter().for_each(|(name, block)| say(format!("domain {name:?}"), block));
        found
    }
}
