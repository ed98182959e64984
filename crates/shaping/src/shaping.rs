//! Shaping: what is allowed towards a destination, and which rules a response of it sets off.
//!
//! Owns [`Shaping`], the product of an [`crate::Assembly`]. In: a domain, a source and the name of a site; or what counts
//! of a log record. Out: merged options of `kumo.make_egress_path`, or rules. Nothing here fails or changes; names are
//! compared in lower case without final dots. It is asked once for each ready queue and again when those are refreshed:
//! tables are prepared, and an answer is a few look-ups, one comparison of each host with each provider, and a copy.

use crate::assembly::Reports;
use crate::block::Block;
use crate::hash;
use crate::problem::Problem;
use crate::provider::Provider;
use crate::rule::{MatchFailure, Rule};
use crate::site::{folded, hosts_of_site};
use record::Response;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Documents and sites, merged.
#[derive(Clone, Debug)]
pub struct Shaping {
    pub(crate) default: Block,
    /// In the order in which documents first name them; later ones win.
    pub(crate) providers: Vec<NamedProvider>,
    /// By folded name.
    pub(crate) sites: BTreeMap<String, Site>,
    /// Blocks for one domain alone, by folded name.
    pub(crate) domains: BTreeMap<String, Block>,
    reports: Reports,
    hash: String,
}

/// What counts of a log record.
#[derive(Clone, Copy, Debug)]
pub struct LogRecordView<'a> {
    /// The domain of its queue, else of its recipient.
    pub domain: &'a str,
    /// The name of its site, see [`crate::site_of_ready_queue`]; empty when there is none.
    pub site: &'a str,
    /// Its response.
    pub response: &'a Response,
}

/// Rules that a response sets off.
#[derive(Clone, Debug, Default)]
pub struct RuleMatches<'a> {
    /// Of the default block, of providers, of the site, of the domain, in this order.
    pub rules: Vec<MatchedRule<'a>>,
    /// Expressions that were given up, and so did not match.
    pub failures: Vec<MatchFailure>,
}

/// A rule that a response sets off.
#[derive(Clone, Copy, Debug)]
pub struct MatchedRule<'a> {
    /// The rule.
    pub rule: &'a Rule,
    /// True when it stands in a block for one domain alone.
    pub is_of_domain: bool,
}

/// A provider and what it is called.
#[derive(Clone, Debug)]
pub(crate) struct NamedProvider {
    pub name: String,
    pub provider: Provider,
}

/// What domains of one site say of it.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    /// As DNS gave it.
    pub name: String,
    /// In the order of their blocks.
    pub domains: Vec<String>,
    pub block: Block,
}

impl Shaping {
    pub(crate) fn new(
        default: Block,
        providers: Vec<NamedProvider>,
        sites: BTreeMap<String, Site>,
        domains: BTreeMap<String, Block>,
        reports: Reports,
    ) -> Shaping {
        let mut shaping = Shaping { default, providers, sites, domains, reports, hash: String::new() };
        shaping.hash = hash::of(&shaping.to_json());
        shaping
    }

    /// The options of the path from `source` to `domain`, whose mail goes to the site `site_name`; later ones win: default,
    /// providers, their sources, site, domain, their sources (KumoMTA behaviour).
    pub fn path_config(&self, domain: &str, source: &str, site_name: &str) -> Map<String, Value> {
        let destination = self.destination(domain, site_name);
        let mut options = self.default.options.clone();
        self.default.write_source(&mut options, source);
        for named in &destination.providers {
            named.provider.write_options(&mut options, &named.name, source);
        }
        for named in &destination.providers {
            named.provider.block.write_source(&mut options, source);
        }
        for block in destination.own() {
            block.write_options(&mut options);
        }
        for block in destination.own() {
            block.write_source(&mut options, source);
        }
        options
    }

    /// The automation rules that the response of a log record sets off.
    pub fn match_rules(&self, record: &LogRecordView<'_>) -> RuleMatches<'_> {
        let destination = self.destination(record.domain, record.site);
        let providers = destination.providers.iter().map(|named| &named.provider.block);
        let wide = std::iter::once(&self.default).chain(providers).chain(destination.site);
        let blocks = wide.map(|block| (block, false)).chain(destination.domain.map(|block| (block, true)));
        let text = record.response.to_single_line();
        let is_internal = record.response.content.starts_with(INTERNAL_REPLY_PREFIX);
        let mut found = RuleMatches::default();
        let rules = blocks.flat_map(|(block, is_of_domain)| block.rules.iter().map(move |rule| (rule, is_of_domain)));
        for (rule, is_of_domain) in rules {
            let applies = rule.match_internal() || !is_internal;
            if applies && rule.matches(&text, &mut found.failures) {
                found.rules.push(MatchedRule { rule, is_of_domain });
            }
        }
        found
    }

    /// The sources that blocks of domains and sites name, each with `domain:NAME` or `site:NAME` of those blocks.
    /// Providers and the default block speak of sources that may or may not be there, and are not told (KumoMTA behaviour).
    pub fn referenced_sources(&self) -> BTreeMap<String, Vec<String>> {
        let domains = self.domains.iter().map(|(name, block)| (format!("domain:{name}"), block));
        let sites = self.sites.values().map(|site| (format!("site:{}", site.name), &site.block));
        let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, block) in domains.chain(sites) {
            for source in block.sources.keys() {
                found.entry(source.clone()).or_default().push(name.clone());
            }
        }
        found
    }

    /// What was wrong, at the severity Error.
    pub fn errors(&self) -> &[Problem] {
        &self.reports.errors
    }

    /// What was wrong, at the severity Warn.
    pub fn warnings(&self) -> &[Problem] {
        &self.reports.warnings
    }

    /// A short name for all that answers depend on: documents as merged, and the sites of their domains. A domain whose
    /// site could not be found out yesterday makes a difference today.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    fn destination(&self, domain: &str, site_name: &str) -> Destination<'_> {
        let domain = folded(domain);
        let hosts = hosts_of_site(site_name);
        Destination {
            providers: self.providers.iter().filter(|named| named.provider.is_of(&domain, &hosts)).collect(),
            site: self.sites.get(folded(site_name).as_ref()).map(|site| &site.block),
            domain: self.domains.get(domain.as_ref()),
        }
    }

    fn to_json(&self) -> Value {
        let provider = |named: &NamedProvider| json!([named.name, named.provider.to_json()]);
        let site = |(name, site): (&String, &Site)| (name.clone(), site.block.to_json());
        let domain = |(name, block): (&String, &Block)| (name.clone(), block.to_json());
        json!({
            "default": self.default.to_json(),
            "providers": self.providers.iter().map(provider).collect::<Vec<_>>(),
            "sites": self.sites.iter().map(site).collect::<Map<_, _>>(),
            "domains": self.domains.iter().map(domain).collect::<Map<_, _>>(),
        })
    }
}

/// Which blocks apply.
struct Destination<'a> {
    providers: Vec<&'a NamedProvider>,
    site: Option<&'a Block>,
    domain: Option<&'a Block>,
}

impl<'a> Destination<'a> {
    fn own(&self) -> impl Iterator<Item = &'a Block> + use<'a> {
        [self.site, self.domain].into_iter().flatten()
    }
}

/// How texts begin that the server itself made up; see `route::INTERNAL_REPLY_PREFIX`. Layers keep the crates apart.
const INTERNAL_REPLY_PREFIX: &str = "KumoMTA internal: ";

#[cfg(test)]
#[path = "shaping_tests.rs"]
mod tests;
