//! What is wrong between sound documents, or between them and DNS.
//!
//! Owns [`Problem`]: a variant a cause, facts in fields, and its line by `Display`. Which list it goes to, if any, is told
//! by [`crate::LoadOptions`].

/// Something that need not keep the rest from being used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A document is missing: whoever loads documents says so with [`crate::Assembly::report`].
    #[error("{file}: {what}")]
    NotLoaded {
        /// Path or URL.
        file: String,
        /// Why; may be the text of a [`crate::ShapingError`].
        what: String,
    },
    /// The site of a domain is not known, so its block counts for the domain itself only.
    #[error("domain {domain:?}: its site cannot be found out: {what}; its block counts for this domain alone")]
    DnsFailed {
        /// The domain.
        domain: String,
        /// Why.
        what: String,
    },
    /// The domain says that it takes no mail, so its block has no effect.
    #[error("domain {domain:?} takes no mail (null MX); its block is left out")]
    NullMx {
        /// The domain.
        domain: String,
    },
    /// Several domains have blocks, and mail for them goes to the same site.
    #[error(
        "domains {} have the same site {site:?}: their blocks are one, later ones over earlier ones",
        quoted(domains)
    )]
    AliasedSite {
        /// The site.
        site: String,
        /// The domains, in the order of their blocks.
        domains: Vec<String>,
    },
    /// A domain has a block and providers have one for it, too.
    #[error("domain {domain:?}{} has a block and is of provider {} as well", of_site(site), quoted(providers))]
    ProviderOverlap {
        /// The domain.
        domain: String,
        /// Its site, unless the block is for the domain alone.
        site: Option<String>,
        /// The providers that match it, in order.
        providers: Vec<String>,
    },
    /// No document says which destinations are of a provider.
    #[error("provider {provider:?} has no `match`: its block has no effect")]
    ProviderWithoutMatch {
        /// The provider.
        provider: String,
    },
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}

fn of_site(site: &Option<String>) -> String {
    site.as_ref().map(|site| format!(" (site {site:?})")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_one_line_with_its_facts() {
        let name = |text: &str| text.to_owned();
        for (problem, line) in [
            (Problem::NotLoaded { file: name("a.toml"), what: name("no such file") }, "a.toml: no such file"),
            (
                Problem::DnsFailed { domain: name("a.test"), what: name("timed out") },
                "domain \"a.test\": its site cannot be found out: timed out; its block counts for this domain alone",
            ),
            (
                Problem::NullMx { domain: name("a.test") },
                "domain \"a.test\" takes no mail (null MX); its block is left out",
            ),
            (
                Problem::AliasedSite { site: name("mx.test"), domains: vec![name("a.test"), name("b.test")] },
                "domains \"a.test\", \"b.test\" have the same site \"mx.test\": their blocks are one, later ones over \
                 earlier ones",
            ),
            (
                Problem::ProviderOverlap { domain: name("a.test"), site: None, providers: vec![name("P")] },
                "domain \"a.test\" has a block and is of provider \"P\" as well",
            ),
            (
                Problem::ProviderOverlap {
                    domain: name("a.test"),
                    site: Some(name("mx.test")),
                    providers: vec![name("P"), name("Q")],
                },
                "domain \"a.test\" (site \"mx.test\") has a block and is of provider \"P\", \"Q\" as well",
            ),
            (
                Problem::ProviderWithoutMatch { provider: name("P") },
                "provider \"P\" has no `match`: its block has no effect",
            ),
        ] {
            assert_eq!(problem.to_string(), line);
        }
    }
}
