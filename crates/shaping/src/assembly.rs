//! Documents put together, waiting for the sites of their domains.
//!
//! Owns [`Assembly`]. In: documents, later ones over earlier ones, then what DNS says ([`Resolved`]) of each of
//! [`Assembly::domains`]. Out: [`Shaping`]. Fails only on bounds; everything else that is wrong is listed at the severity
//! of [`LoadOptions`]. It asks no DNS itself.

use crate::block::Block;
use crate::document::{BLOCKS_MAX, Document, DomainBlock, ProviderBlock, within};
use crate::error::ShapingError;
use crate::load_options::{LoadOptions, Severity};
use crate::problem::Problem;
use crate::provider::Provider;
use crate::rule::PATTERNS_MAX;
use crate::shaping::{NamedProvider, Shaping, Site};
use crate::site;
use std::collections::{BTreeMap, BTreeSet};

/// What documents say together; the first of two steps.
#[derive(Clone, Debug)]
pub struct Assembly {
    options: LoadOptions,
    default: Block,
    providers: Vec<NamedProvider>,
    /// By domain or by the key of a site, what documents say of it, in their order.
    domains: BTreeMap<String, Vec<Said>>,
    reports: Reports,
}

/// What DNS says of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// The name of its site.
    Site(String),
    /// It takes no mail (RFC 7505).
    NullMx,
    /// It is not known, and why.
    Failed(String),
}

/// What is wrong, by severity.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reports {
    pub errors: Vec<Problem>,
    pub warnings: Vec<Problem>,
}

/// What one document says of a domain.
#[derive(Clone, Debug)]
struct Said {
    /// Its place among the blocks of all domains and documents.
    rank: usize,
    of_site: bool,
    block: Block,
}

impl Assembly {
    /// Puts documents together, in their order.
    ///
    /// # Errors
    /// [`ShapingError::TooMany`].
    pub fn new(documents: Vec<Document>, options: LoadOptions) -> Result<Assembly, ShapingError> {
        let mut assembly = Assembly {
            options,
            default: Block::default(),
            providers: Vec::new(),
            domains: BTreeMap::new(),
            reports: Reports::default(),
        };
        let mut index = BTreeMap::new();
        let (mut blocks, mut patterns, mut rank) = (0, 0, 0);
        for (count, document) in (1..).zip(documents) {
            blocks += document.blocks();
            patterns += document.patterns();
            within(&document.name, "documents", count, DOCUMENTS_MAX)?;
            within(&document.name, "blocks", blocks, BLOCKS_MAX)?;
            within(&document.name, "regular expressions", patterns, PATTERNS_MAX)?;
            if let Some(DomainBlock { replace_base, block, .. }) = document.default {
                put(&mut assembly.default, replace_base, block, Block::put_over);
            }
            for (name, ProviderBlock { replace_base, provider }) in document.providers {
                let at = *index.entry(name.clone()).or_insert(assembly.providers.len());
                if at == assembly.providers.len() {
                    assembly.providers.push(NamedProvider { name, provider: Provider::default() });
                }
                put(&mut assembly.providers[at].provider, replace_base, provider, Provider::put_over);
            }
            for (name, block) in document.domains {
                assembly.say(name, rank, block);
                rank += 1;
            }
        }
        Ok(assembly)
    }

    /// The domains whose sites [`Assembly::build`] will ask for, each once: names in lower case.
    pub fn domains(&self) -> impl Iterator<Item = &str> {
        let of_sites = self.domains.iter().filter(|(_, said)| said.iter().any(|said| said.of_site));
        of_sites.map(|(domain, _)| domain.as_str()).filter(|key| site::site_of_key(key).is_none())
    }

    /// Lists a problem of whoever loaded the documents.
    pub fn report(&mut self, severity: Severity, problem: Problem) {
        self.reports.add(severity, problem);
    }

    /// The second step: `resolve` is asked once for each of [`Assembly::domains`].
    pub fn build(mut self, resolve: &dyn Fn(&str) -> Resolved) -> Shaping {
        let (sites_of, without_site) = self.sites_of(resolve);
        let mut said: Vec<(String, Said)> = Vec::new();
        for (domain, list) in std::mem::take(&mut self.domains) {
            said.extend(list.into_iter().map(|said| (domain.clone(), said)));
        }
        said.sort_by_key(|(_, said)| said.rank);
        let mut sites: BTreeMap<String, Site> = BTreeMap::new();
        let mut domains: BTreeMap<String, Block> = BTreeMap::new();
        for (domain, Said { of_site, block, .. }) in said {
            if !of_site || without_site.contains(&domain) {
                domains.entry(domain).or_default().put_over(block);
            } else if let Some(name) = sites_of.get(&domain) {
                let new = || Site { name: name.clone(), domains: Vec::new(), block: Block::default() };
                let site = sites.entry(site::folded(name).into_owned()).or_insert_with(new);
                site.block.put_over(block);
                if site::site_of_key(&domain).is_none() && !site.domains.contains(&domain) {
                    site.domains.push(domain);
                }
            }
        }
        for site in sites.values().filter(|site| site.domains.len() > 1) {
            let problem = Problem::AliasedSite { site: site.name.clone(), domains: site.domains.clone() };
            self.reports.add(self.options.aliased_site, problem);
        }
        self.report_providers(&sites, &domains);
        Shaping::new(self.default, self.providers, sites, domains, self.reports)
    }

    fn say(&mut self, domain: String, rank: usize, DomainBlock { replace_base, mx_rollup, block }: DomainBlock) {
        let earlier = self.domains.entry(domain).or_default();
        if replace_base {
            earlier.clear();
        }
        // a later document that only changes a limit need not say again that there is no site
        let is_alone = !earlier.is_empty() && earlier.iter().all(|said| !said.of_site);
        earlier.push(Said { rank, of_site: mx_rollup.unwrap_or(!is_alone), block });
    }

    /// The site of each domain, and the domains whose site nobody knows: what is said of these counts for them alone.
    fn sites_of(&mut self, resolve: &dyn Fn(&str) -> Resolved) -> (BTreeMap<String, String>, BTreeSet<String>) {
        let mut without_site = BTreeSet::new();
        let domains: Vec<String> = self.domains().map(str::to_owned).collect();
        let named = |key: &String| Some((key.clone(), site::site_of_key(key)?.to_owned()));
        let mut sites: BTreeMap<String, String> = self.domains.keys().filter_map(named).collect();
        for domain in domains {
            match resolve(&domain) {
                Resolved::Site(name) if site::folded(&name).is_empty() => {
                    let what = format!("{name:?} is no name of a site");
                    without_site.insert(domain.clone());
                    self.reports.add(self.options.dns_fail, Problem::DnsFailed { domain, what });
                }
                Resolved::Site(name) => {
                    sites.insert(domain, name);
                }
                Resolved::NullMx => self.reports.add(self.options.null_mx, Problem::NullMx { domain }),
                Resolved::Failed(what) => {
                    without_site.insert(domain.clone());
                    self.reports.add(self.options.dns_fail, Problem::DnsFailed { domain, what });
                }
            }
        }
        (sites, without_site)
    }

    fn report_providers(&mut self, sites: &BTreeMap<String, Site>, domains: &BTreeMap<String, Block>) {
        for named in self.providers.iter().filter(|named| named.provider.matches_nothing()) {
            let problem = Problem::ProviderWithoutMatch { provider: named.name.clone() };
            self.reports.add(Severity::Warn, problem);
        }
        let of_sites = sites.values().flat_map(|site| site.domains.iter().map(move |domain| (domain, Some(site))));
        let alone = domains.keys().map(|domain| (domain, None));
        // the same domain may have a block for its site and one for itself
        let destinations: BTreeSet<(&String, Option<&String>)> =
            of_sites.chain(alone).map(|(domain, site)| (domain, site.map(|site| &site.name))).collect();
        for (domain, site) in destinations {
            let hosts = site.map(|site| site::hosts_of_site(site)).unwrap_or_default();
            let matching = self.providers.iter().filter(|named| named.provider.is_of(domain, &hosts));
            let providers: Vec<String> = matching.map(|named| named.name.clone()).collect();
            if !providers.is_empty() {
                let problem = Problem::ProviderOverlap { domain: domain.clone(), site: site.cloned(), providers };
                self.reports.add(self.options.provider_overlap, problem);
            }
        }
    }
}

impl Reports {
    fn add(&mut self, severity: Severity, problem: Problem) {
        match severity {
            Severity::Ignore => {}
            Severity::Warn => self.warnings.push(problem),
            Severity::Error => self.errors.push(problem),
        }
    }
}

fn put<T: Default>(base: &mut T, replace_base: bool, later: T, over: impl Fn(&mut T, T)) {
    if replace_base {
        *base = T::default();
    }
    over(base, later);
}

/// Documents in one assembly: files and URLs of one configuration.
pub const DOCUMENTS_MAX: usize = 256;

#[cfg(test)]
#[path = "assembly_tests.rs"]
mod tests;
